//! Bytes and words that several members may read and write at the same time.
//!
//! # Contract
//! A program may put into memory while another member reads it: what is read then is a mixture of old and new, but not
//! undefined behaviour. Accesses of different sizes may overlap, which no atomic of Rust allows. So shared memory is
//! touched by instructions only: every access is inline assembly. Aligned words of 4 and 8 bytes are read, written and
//! changed whole.
//!
//! | file        | for                     | an access is                                                   |
//! |-------------|-------------------------|----------------------------------------------------------------|
//! | `x86_64`    | x86-64                  | `mov`, `lock`ed instructions, `movups`, `rep movsb`             |
//! | `aarch64`   | AArch64                 | `ldr` and `str`, `ldaxr` and `stlxr`, `ldp` and `stp`           |
//! | `portable`  | other processors, Miri  | volatile, and atomic where a word is changed; see there for why |
//!
//! | bytes            | are copied by                                                          |
//! |------------------|------------------------------------------------------------------------|
//! | fewer than 64    | words and bytes                                                        |
//! | fewer than 4096  | blocks of 64 bytes, aligned to 16 in shared memory; ends as above      |
//! | more             | a string instruction on x86-64, else as above                          |
//!
//! Assembly does to memory what the processor does, where copies that race mix bytes. The compiler knows only that
//! memory changes.
//!
//! # Memory ordering
//! Copies, loads and stores: none. Changes of a word: acquire and release. Fences, syncs and locks order the rest.

#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "copy/x86_64.rs")]
#[cfg_attr(all(target_arch = "aarch64", not(miri)), path = "copy/aarch64.rs")]
#[cfg_attr(
    any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri),
    path = "copy/portable.rs"
)]
mod arch;

/// What is copied as blocks, which is faster than by words from here on.
const BLOCK: usize = 64;

/// A word that is read, written and changed whole.
///
/// # Safety
/// Of all functions: `at` points to an aligned word of this type in memory that all access as this module does.
pub(crate) trait Whole: Copy + PartialEq {
    /// The word.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn load(at: *const Self) -> Self;

    /// Replaces the word.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn store(self, at: *mut Self);

    /// Adds to the word, and returns what was there.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn fetch_add(self, at: *mut Self) -> Self;

    /// Replaces the word, and returns what was there.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn swap(self, at: *mut Self) -> Self;

    /// Replaces the word by `new` if it is `self`, and returns what was there.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self;

    /// Replaces the word by what `update` makes of it, as one step.
    ///
    /// # Safety
    /// See [`Whole`].
    #[inline]
    unsafe fn update(at: *mut Self, update: impl Fn(Self) -> Self) {
        // SAFETY: the caller guarantees that `at` is such a word.
        unsafe {
            let mut old = Self::load(at);
            loop {
                let found = old.compare_swap(update(old), at);
                if found == old {
                    return;
                }
                old = found;
            }
        }
    }
}

/// Copies private bytes into shared memory.
///
/// # Safety
/// `to` points to `from.len()` bytes of memory that all access as this module does.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    if let (Ok(word), 0) = (<[u8; 8]>::try_from(from), to.addr() % 8) {
        // SAFETY: the caller guarantees eight shared bytes, which are aligned.
        unsafe { u64::from_ne_bytes(word).store(to.cast()) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if from.len() >= arch::LONG {
        // SAFETY: the caller guarantees as many shared bytes; `from` is private, so they do not overlap.
        unsafe { arch::move_bytes(to, from.as_ptr(), from.len()) };
        return;
    }
    if from.len() >= BLOCK {
        let (head, rest) = from.split_at(to.align_offset(16).min(from.len()));
        // SAFETY: the caller guarantees as many shared bytes, which are written in three parts: up to the first that
        // is aligned to 16, whole blocks, and what is left. `from` is private, so they do not overlap.
        unsafe {
            write_words(to, head);
            let to = to.add(head.len());
            let blocks = arch::move_blocks(to, rest.as_ptr(), rest.len());
            write_words(to.add(blocks), &rest[blocks..]);
        }
    } else {
        // SAFETY: the caller guarantees as many shared bytes.
        unsafe { write_words(to, from) };
    }
}

/// # Safety
/// As [`write`].
unsafe fn write_words(to: *mut u8, from: &[u8]) {
    let (head, words) = from.split_at(to.align_offset(8).min(from.len()));
    let (words, tail) = words.as_chunks::<8>();
    // SAFETY: the parts are within the bytes that the caller guarantees: those before the first aligned word, the
    // words, and what is left.
    unsafe {
        write_few(to, head);
        let mut at = to.wrapping_add(head.len());
        for &word in words {
            u64::from_ne_bytes(word).store(at.cast());
            at = at.wrapping_add(8);
        }
        write_few(at, tail);
    }
}

/// Fewer bytes than a word.
///
/// # Safety
/// As [`write`].
unsafe fn write_few(mut to: *mut u8, mut from: &[u8]) {
    while let Some((&byte, rest)) = from.split_first() {
        if let (Some((word, rest)), 0) = (from.split_first_chunk::<4>(), to.addr() % 4) {
            // SAFETY: four bytes are left at `to`, which is aligned.
            unsafe { u32::from_ne_bytes(*word).store(to.cast()) };
            (to, from) = (to.wrapping_add(4), rest);
        } else {
            // SAFETY: a byte is left at `to`.
            unsafe { arch::store_byte(to, byte) };
            (to, from) = (to.wrapping_add(1), rest);
        }
    }
}

/// Copies shared memory into private bytes.
///
/// # Safety
/// `from` points to `len` bytes of memory that all access as this module does; `to`, to as many that no other thread
/// accesses.
#[inline]
pub(crate) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && from.addr().is_multiple_of(8) {
        // SAFETY: the caller guarantees eight shared bytes, which are aligned, and eight private ones.
        unsafe { to.cast::<u64>().write_unaligned(u64::load(from.cast())) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= arch::LONG {
        // SAFETY: the caller guarantees as many bytes at both; one is private, so they do not overlap.
        unsafe { arch::move_bytes(to, from, len) };
        return;
    }
    if len >= BLOCK {
        let head = from.align_offset(16).min(len);
        // SAFETY: the caller guarantees as many bytes at both, which are read in three parts, as in `write`. One is
        // private, so they do not overlap.
        unsafe {
            read_words(from, to, head);
            let done = head + arch::move_blocks(to.add(head), from.add(head), len - head);
            read_words(from.add(done), to.add(done), len - done);
        }
    } else {
        // SAFETY: the caller guarantees as many bytes at both.
        unsafe { read_words(from, to, len) };
    }
}

/// # Safety
/// As [`read`].
unsafe fn read_words(from: *const u8, to: *mut u8, len: usize) {
    let head = from.align_offset(8).min(len);
    let (words, tail) = ((len - head) / 8, (len - head) % 8);
    // SAFETY: the parts are within the bytes that the caller guarantees: those before the first aligned word, the
    // words, and what is left.
    unsafe {
        read_few(from, to, head);
        let (mut from, mut to) = (from.wrapping_add(head), to.wrapping_add(head));
        for _ in 0..words {
            to.cast::<u64>().write_unaligned(u64::load(from.cast()));
            (from, to) = (from.wrapping_add(8), to.wrapping_add(8));
        }
        read_few(from, to, tail);
    }
}

/// Fewer bytes than a word.
///
/// # Safety
/// As [`read`].
unsafe fn read_few(mut from: *const u8, mut to: *mut u8, mut len: usize) {
    while len > 0 {
        // SAFETY: as many bytes as are read and written are left at both; words of shared memory are aligned.
        let done = unsafe {
            if len >= 4 && from.addr().is_multiple_of(4) {
                to.cast::<u32>().write_unaligned(u32::load(from.cast()));
                4
            } else {
                to.write(arch::load_byte(from));
                1
            }
        };
        (from, to, len) = (from.wrapping_add(done), to.wrapping_add(done), len - done);
    }
}

/// Makes shared memory zero.
///
/// # Safety
/// As [`write`], for `len` bytes.
pub(crate) unsafe fn clear(to: *mut u8, len: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    for at in (0..len).step_by(ZEROS.len()) {
        // SAFETY: within the bytes that the caller guarantees.
        unsafe { write(to.add(at), &ZEROS[..ZEROS.len().min(len - at)]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_and_alignment() {
        let lens = (0..150).chain([255, 256, 257, 1000, 4095, 4096, 4097]);
        for len in lens.step_by(if cfg!(miri) { 29 } else { 1 }) {
            for (there, here) in [(0, 0), (1, 0), (4, 3), (7, 5), (8, 2)] {
                let mut shared = vec![7_u8; len + 32];
                let private = (0..len + 8).map(|n| n as u8 | 128).collect::<Vec<_>>();
                let at = shared.as_mut_ptr();
                let mut back = vec![0; len];
                // SAFETY: inside the vectors, which nobody else has.
                unsafe {
                    write(at.add(there), &private[here..here + len]);
                    read(at.add(there), back.as_mut_ptr(), len);
                }
                assert_eq!(back, &private[here..here + len]);
                assert!(
                    shared[..there].iter().chain(&shared[there + len..]).all(|&byte| byte == 7)
                );
                // SAFETY: as above.
                unsafe { clear(shared.as_mut_ptr().add(there), len) };
                assert!(shared[there..there + len].iter().all(|&byte| byte == 0));
            }
        }
    }
}
