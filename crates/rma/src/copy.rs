//! Bytes and words that others may read and write at the same time.
//!
//! # Contract
//! A program may put into memory while another member reads it: what is read then is a mixture of old and new, but not
//! undefined behaviour. So shared memory is never touched by ordinary loads and stores. Words of 4 and 8 bytes that are
//! aligned are read and written whole.
//!
//! | bytes            | on x86-64                                             | elsewhere           |
//! |------------------|-------------------------------------------------------|---------------------|
//! | fewer than 64    | relaxed loads or stores of words and bytes            | the same            |
//! | fewer than 4096  | registers of 16 bytes, aligned there, in assembly     | the same as for few |
//! | more             | `rep movsb`, in assembly                              | the same as for few |
//!
//! What assembly does to memory is as the hardware does it, where a copy that races with another mixes bytes. The compiler
//! knows nothing of it but that memory changes.
//!
//! # Memory ordering
//! None: relaxed. What orders operations is fences, syncs and locks.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What is copied at once by registers of 16 bytes, in which more than that is faster than by words.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 64;
/// From so many bytes on, a string instruction is as fast.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 4096;

/// Copies private bytes into shared memory.
///
/// # Safety
/// `to` is the beginning of `from.len()` bytes of memory that all access as this module does.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    if let (Ok(word), 0) = (<[u8; 8]>::try_from(from), to.addr() % 8) {
        // SAFETY: eight bytes, aligned; the caller's word.
        unsafe { AtomicU64::from_ptr(to.cast()) }.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if from.len() >= LONG {
        // SAFETY: the caller's word; `from` is not shared memory, so they do not overlap.
        unsafe { move_bytes(to, from.as_ptr(), from.len()) };
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if from.len() >= BLOCK {
        let (head, blocks) = blocks(to, from.len());
        // SAFETY: as above, in three parts, of which the second is blocks, aligned there.
        unsafe {
            write_words(to, &from[..head]);
            move_blocks(to.add(head), from.as_ptr().add(head), blocks);
            write_words(to.add(head + blocks), &from[head + blocks..]);
        }
        return;
    }
    // SAFETY: the caller's word.
    unsafe { write_words(to, from) };
}

/// Of bytes of shared memory, how many come before the first that is aligned to 16, and how many are blocks from there.
#[cfg(target_arch = "x86_64")]
fn blocks(shared: *const u8, len: usize) -> (usize, usize) {
    let head = shared.align_offset(16);
    (head, len.saturating_sub(head) / BLOCK * BLOCK)
}

/// # Safety
/// As [`write`].
unsafe fn write_words(to: *mut u8, from: &[u8]) {
    let (head, words) = from.split_at(to.align_offset(8).min(from.len()));
    let (words, tail) = words.as_chunks::<8>();
    // SAFETY: of the bytes that the caller vouches for, those before the first aligned word, the words, and what is left.
    unsafe {
        write_few(to, head);
        let mut at = to.wrapping_add(head.len());
        for &word in words {
            AtomicU64::from_ptr(at.cast()).store(u64::from_ne_bytes(word), Ordering::Relaxed);
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
            unsafe { AtomicU32::from_ptr(to.cast()) }.store(u32::from_ne_bytes(*word), Ordering::Relaxed);
            (to, from) = (to.wrapping_add(4), rest);
        } else {
            // SAFETY: a byte is left at `to`.
            unsafe { AtomicU8::from_ptr(to) }.store(byte, Ordering::Relaxed);
            (to, from) = (to.wrapping_add(1), rest);
        }
    }
}

/// Copies shared memory into private bytes.
///
/// # Safety
/// `from` is the beginning of `len` bytes of memory that all access as this module does; `to`, of as many that nobody
/// else accesses.
#[inline]
pub(crate) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    if len == 8 && from.addr().is_multiple_of(8) {
        // SAFETY: eight bytes, aligned; the caller's word.
        unsafe {
            let word = AtomicU64::from_ptr(from.cast_mut().cast()).load(Ordering::Relaxed);
            to.cast::<u64>().write_unaligned(word);
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if len >= LONG {
        // SAFETY: the caller's word; private memory is not shared memory, so they do not overlap.
        unsafe { move_bytes(to, from, len) };
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if len >= BLOCK {
        let (head, blocks) = blocks(from, len);
        let done = head + blocks;
        // SAFETY: as above, in three parts, of which the second is blocks, aligned there.
        unsafe {
            read_words(from.cast_mut(), to, head);
            move_blocks(to.add(head), from.add(head), blocks);
            read_words(from.add(done).cast_mut(), to.add(done), len - done);
        }
        return;
    }
    // SAFETY: the caller's word.
    unsafe { read_words(from.cast_mut(), to, len) };
}

/// # Safety
/// As [`read`].
unsafe fn read_words(from: *mut u8, to: *mut u8, len: usize) {
    let head = from.align_offset(8).min(len);
    let (words, tail) = ((len - head) / 8, (len - head) % 8);
    // SAFETY: of the bytes that the caller vouches for, those before the first aligned word, the words, and what is left.
    unsafe {
        read_few(from, to, head);
        let (mut from, mut to) = (from.wrapping_add(head), to.wrapping_add(head));
        for _ in 0..words {
            to.cast::<u64>().write_unaligned(AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed));
            (from, to) = (from.wrapping_add(8), to.wrapping_add(8));
        }
        read_few(from, to, tail);
    }
}

/// Fewer bytes than a word.
///
/// # Safety
/// As [`read`].
unsafe fn read_few(mut from: *mut u8, mut to: *mut u8, mut len: usize) {
    while len > 0 {
        // SAFETY: as many bytes as are read and written are left at both; words of shared memory are aligned.
        let done = unsafe {
            if len >= 4 && from.addr().is_multiple_of(4) {
                to.cast::<u32>().write_unaligned(AtomicU32::from_ptr(from.cast()).load(Ordering::Relaxed));
                4
            } else {
                to.write(AtomicU8::from_ptr(from).load(Ordering::Relaxed));
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
        // SAFETY: inside the bytes that the caller vouches for.
        unsafe { write(to.add(at), &ZEROS[..ZEROS.len().min(len - at)]) };
    }
}

/// Some blocks, or none. Shared memory is aligned to 16 bytes, so every access to it is within a line.
///
/// # Safety
/// As [`move_bytes`]; `len` is a multiple of [`BLOCK`].
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn move_blocks(to: *mut u8, from: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: reads and writes the bytes that the caller vouches for, 64 at a time until none is left.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 64",
            "jnz 2b",
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) len => _,
            options(nostack)
        );
    }
}

/// # Safety
/// `len` bytes from `from` on can be read, and from `to` on be written; they do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: reads and writes the bytes that the caller vouches for; the direction flag is clear, as the ABI demands.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Adds to a word.
///
/// # Safety
/// `at` is an aligned word of memory that all access as this module does.
#[inline]
pub(crate) unsafe fn add_u64(at: *mut u64, value: u64) {
    // SAFETY: the caller's word.
    unsafe { AtomicU64::from_ptr(at) }.fetch_add(value, Ordering::Relaxed);
}

/// # Safety
/// As [`add_u64`].
#[inline]
pub(crate) unsafe fn add_u32(at: *mut u32, value: u32) {
    // SAFETY: the caller's word.
    unsafe { AtomicU32::from_ptr(at) }.fetch_add(value, Ordering::Relaxed);
}

/// Replaces a word by what `update` makes of it, as one step.
///
/// # Safety
/// As [`add_u64`].
#[inline]
pub(crate) unsafe fn update_u64(at: *mut u64, update: impl Fn(u64) -> u64) {
    // SAFETY: the caller's word.
    let word = unsafe { AtomicU64::from_ptr(at) };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(update(word)));
}

/// # Safety
/// As [`add_u64`].
#[inline]
pub(crate) unsafe fn update_u32(at: *mut u32, update: impl Fn(u32) -> u32) {
    // SAFETY: the caller's word.
    let word = unsafe { AtomicU32::from_ptr(at) };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(update(word)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_and_alignment() {
        for len in (0..150).chain([255, 256, 257, 1000, 4095, 4096, 4097]) {
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
                assert!(shared[..there].iter().chain(&shared[there + len..]).all(|&byte| byte == 7));
                // SAFETY: as above.
                unsafe { clear(shared.as_mut_ptr().add(there), len) };
                assert!(shared[there..there + len].iter().all(|&byte| byte == 0));
            }
        }
    }
}
