//! Copies and words that several members may read and write at the same time.
//!
//! # Contract
//! A program may put into memory while another member reads it. The reader then gets a mixture of
//! old and new bytes, which must not be undefined behaviour. Accesses of different sizes may
//! overlap, which no atomic type of Rust allows. So only machine instructions access shared memory:
//! every access is inline assembly. Aligned words of 4 and 8 bytes are read, written and changed
//! whole.
//!
//! | file       | for                    | an access is                                          |
//! |------------|------------------------|-------------------------------------------------------|
//! | `x86_64`   | x86-64                 | `mov`, `lock`ed instructions, `movups`, `rep movsb`   |
//! | `aarch64`  | AArch64                | `ldr` and `str`, `ldaxr` and `stlxr`, `ldp` and `stp` |
//! | `portable` | other processors, Miri | volatile, or atomic if it changes a word; see there   |
//!
//! | bytes           | are copied by                                                     |
//! |-----------------|-------------------------------------------------------------------|
//! | fewer than 64   | words and bytes                                                   |
//! | fewer than 4096 | blocks of 64 bytes, aligned to 16 in shared memory; ends as above |
//! | more            | a string instruction on x86-64, otherwise as above                |
//!
//! The effect of assembly on memory is that of the processor, on which racing copies mix bytes. The
//! compiler assumes only that memory changes.
//!
//! # Memory ordering
//! Copies, loads and stores: none. Changes of a word: acquire and release. Fences, syncs and locks
//! order everything else.

#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "copy/x86_64.rs")]
#[cfg_attr(all(target_arch = "aarch64", not(miri)), path = "copy/aarch64.rs")]
#[cfg_attr(
    any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri),
    path = "copy/portable.rs"
)]
mod arch;

/// The length from which on copying by blocks is faster than by words.
const BLOCK: usize = 64;

/// A word that is read, written and changed whole.
///
/// # Safety
/// For all functions, `at` must point to an aligned word of this type in memory that all threads
/// access as this module does.
pub(crate) trait Whole: Copy + PartialEq {
    /// Reads the word.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn load(at: *const Self) -> Self;

    /// Replaces the word.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn store(self, at: *mut Self);

    /// Adds to the word, and returns the previous value.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn fetch_add(self, at: *mut Self) -> Self;

    /// Replaces the word, and returns the previous value.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn swap(self, at: *mut Self) -> Self;

    /// Replaces the word by `new` if it equals `self`, and returns the previous value.
    ///
    /// # Safety
    /// See [`Whole`].
    unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self;

    /// Replaces the word by the result of `update` on it, atomically.
    ///
    /// # Safety
    /// See [`Whole`].
    #[inline]
    unsafe fn update(at: *mut Self, update: impl Fn(Self) -> Self) {
        // SAFETY: `at` points to such a word: the caller guarantees it (see [`Whole`]).
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
/// `to` must point to `from.len()` bytes of memory that all threads access as this module does.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    if let (Ok(word), 0) = (<[u8; 8]>::try_from(from), to.addr() % 8) {
        // SAFETY: `to` points to eight shared bytes: the caller guarantees it (see `# Safety`). It
        // is aligned, as checked.
        unsafe { u64::from_ne_bytes(word).store(to.cast()) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if from.len() >= arch::LONG {
        // SAFETY: `to` points to as many shared bytes: the caller guarantees it (see `# Safety`).
        // `from` is private, so the two do not overlap.
        unsafe { arch::move_bytes(to, from.as_ptr(), from.len()) };
        return;
    }
    if from.len() >= BLOCK {
        let (head, rest) = from.split_at(to.align_offset(16).min(from.len()));
        // SAFETY: `to` points to as many shared bytes: the caller guarantees it (see `# Safety`).
        // They are written in three parts: up to the first address that is aligned to 16, whole
        // blocks, and the rest. `from` is private, so the two do not overlap.
        unsafe {
            write_words(to, head);
            let to = to.add(head.len());
            let blocks = arch::move_blocks(to, rest.as_ptr(), rest.len());
            write_words(to.add(blocks), &rest[blocks..]);
        }
    } else {
        // SAFETY: `to` points to as many shared bytes: the caller guarantees it (see `# Safety`).
        unsafe { write_words(to, from) };
    }
}

/// Copies private bytes into shared memory by words and bytes.
///
/// # Safety
/// As [`write()`].
unsafe fn write_words(to: *mut u8, from: &[u8]) {
    let (head, words) = from.split_at(to.align_offset(8).min(from.len()));
    let (words, tail) = words.as_chunks::<8>();
    // SAFETY: the parts are within the shared bytes at `to`, as many as `from` has: the caller
    // guarantees it (see `# Safety`). They are the bytes before the first aligned word, the words,
    // and the rest.
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

/// Copies fewer bytes than a word.
///
/// # Safety
/// As [`write()`].
unsafe fn write_few(mut to: *mut u8, mut from: &[u8]) {
    while let Some((&byte, rest)) = from.split_first() {
        if let (Some((word, rest)), 0) = (from.split_first_chunk::<4>(), to.addr() % 4) {
            // SAFETY: at least four shared bytes are left at `to`, which is aligned, as checked.
            unsafe { u32::from_ne_bytes(*word).store(to.cast()) };
            (to, from) = (to.wrapping_add(4), rest);
        } else {
            // SAFETY: at least one shared byte is left at `to`.
            unsafe { arch::store_byte(to, byte) };
            (to, from) = (to.wrapping_add(1), rest);
        }
    }
}

/// Copies shared memory into private bytes.
///
/// # Safety
/// `from` must point to `len` bytes of memory that all threads access as this module does. `to`
/// must point to `len` bytes that no other thread accesses.
#[inline]
pub(crate) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && from.addr().is_multiple_of(8) {
        // SAFETY: `from` points to eight shared bytes, and `to` to eight private ones: the caller
        // guarantees it (see `# Safety`). `from` is aligned, as checked.
        unsafe { to.cast::<u64>().write_unaligned(u64::load(from.cast())) };
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= arch::LONG {
        // SAFETY: both point to `len` bytes: the caller guarantees it (see `# Safety`). Those at
        // `to` are private, so the two do not overlap.
        unsafe { arch::move_bytes(to, from, len) };
        return;
    }
    if len >= BLOCK {
        let head = from.align_offset(16).min(len);
        // SAFETY: both point to `len` bytes: the caller guarantees it (see `# Safety`). They are
        // read in three parts, as in `write`. Those at `to` are private, so the two do not overlap.
        unsafe {
            read_words(from, to, head);
            let done = head + arch::move_blocks(to.add(head), from.add(head), len - head);
            read_words(from.add(done), to.add(done), len - done);
        }
    } else {
        // SAFETY: both point to `len` bytes: the caller guarantees it (see `# Safety`).
        unsafe { read_words(from, to, len) };
    }
}

/// Copies shared memory into private bytes by words and bytes.
///
/// # Safety
/// As [`read`].
unsafe fn read_words(from: *const u8, to: *mut u8, len: usize) {
    let head = from.align_offset(8).min(len);
    let (words, tail) = ((len - head) / 8, (len - head) % 8);
    // SAFETY: the parts are within the `len` bytes at both addresses: the caller guarantees it (see
    // `# Safety`). They are the bytes before the first aligned word, the words, and the rest.
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

/// Copies fewer bytes than a word.
///
/// # Safety
/// As [`read`].
unsafe fn read_few(mut from: *const u8, mut to: *mut u8, mut len: usize) {
    while len > 0 {
        // SAFETY: at least as many bytes as are copied are left at both addresses. A word in shared
        // memory is aligned, as checked.
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

/// Sets bytes of shared memory to zero.
///
/// # Safety
/// `to` must point to `len` bytes of memory that all threads access as this module does.
pub(crate) unsafe fn clear(to: *mut u8, len: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    for at in (0..len).step_by(ZEROS.len()) {
        // SAFETY: the bytes are within the `len` bytes at `to`: the caller guarantees it (see
        // `# Safety`).
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
                // SAFETY: the bytes are inside the vectors, which no other thread accesses.
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
