//! Accesses to shared memory on x86-64, where aligned accesses to words and bytes are whole.

use std::arch::asm;

use super::{BLOCK, Whole};

/// The length from which on a string instruction is as fast as registers.
pub(super) const LONG: usize = 4096;

macro_rules! whole {
    ($($word:ty, $size:literal, $view:literal);*) => {$(
        // The operand that `$view` names is as long as `$size`, so all instructions access that
        // number of bytes from `at` on.
        impl Whole for $word {
            #[inline]
            unsafe fn load(at: *const Self) -> Self {
                let word: Self;
                // SAFETY: reads the word at `at`: the caller guarantees it (see `Whole`).
                unsafe {
                    asm!(
                        concat!("mov {word", $view, "}, ", $size, " ptr [{at}]"),
                        at = in(reg) at,
                        word = lateout(reg) word,
                        options(nostack, preserves_flags)
                    );
                }
                word
            }

            #[inline]
            unsafe fn store(self, at: *mut Self) {
                // SAFETY: writes the word at `at`: the caller guarantees it (see `Whole`).
                unsafe {
                    asm!(
                        concat!("mov ", $size, " ptr [{at}], {word", $view, "}"),
                        at = in(reg) at,
                        word = in(reg) self,
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline]
            unsafe fn fetch_add(self, at: *mut Self) -> Self {
                let mut word = self;
                // SAFETY: reads and writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        concat!("lock xadd ", $size, " ptr [{at}], {word", $view, "}"),
                        at = in(reg) at,
                        word = inout(reg) word,
                        options(nostack)
                    );
                }
                word
            }

            #[inline]
            unsafe fn swap(self, at: *mut Self) -> Self {
                let mut word = self;
                // SAFETY: reads and writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        concat!("xchg ", $size, " ptr [{at}], {word", $view, "}"),
                        at = in(reg) at,
                        word = inout(reg) word,
                        options(nostack, preserves_flags)
                    );
                }
                word
            }

            #[inline]
            unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self {
                let mut word = self;
                // SAFETY: reads and perhaps writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        concat!("lock cmpxchg ", $size, " ptr [{at}], {new", $view, "}"),
                        at = in(reg) at,
                        new = in(reg) new,
                        inout("rax") word,
                        options(nostack)
                    );
                }
                word
            }
        }
    )*};
}

whole!(u32, "dword", ":e"; u64, "qword", ":r");

/// Reads a byte of shared memory.
///
/// # Safety
/// `at` must point to a byte of memory that all threads access as `copy` does.
#[inline]
pub(super) unsafe fn load_byte(at: *const u8) -> u8 {
    let byte: u8;
    // SAFETY: reads the byte at `at`: the caller guarantees it (see `# Safety`).
    unsafe {
        asm!(
            "mov {byte}, byte ptr [{at}]",
            at = in(reg) at,
            byte = out(reg_byte) byte,
            options(nostack, preserves_flags)
        );
    }
    byte
}

/// Writes a byte of shared memory.
///
/// # Safety
/// As [`load_byte`].
#[inline]
pub(super) unsafe fn store_byte(at: *mut u8, byte: u8) {
    // SAFETY: writes the byte at `at`: the caller guarantees it (see `# Safety`).
    unsafe {
        asm!(
            "mov byte ptr [{at}], {byte}",
            at = in(reg) at,
            byte = in(reg_byte) byte,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies as many whole blocks as fit, and returns their number of bytes. The address in shared
/// memory is aligned to 16 bytes, so no access to it crosses a cache line.
///
/// # Safety
/// As [`move_bytes`].
#[inline]
pub(super) unsafe fn move_blocks(to: *mut u8, from: *const u8, len: usize) -> usize {
    let bytes = len / BLOCK * BLOCK;
    if bytes == 0 {
        return 0;
    }
    // SAFETY: reads and writes `bytes` bytes, at most `len`, 64 at a time: the caller guarantees
    // that they are valid and do not overlap (see `# Safety`).
    unsafe {
        asm!(
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
            left = inout(reg) bytes => _,
            options(nostack)
        );
    }
    bytes
}

/// Copies bytes with a string instruction.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, and the two must not overlap.
#[inline]
pub(super) unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: reads and writes `len` bytes: the caller guarantees that they are valid and do not
    // overlap (see `# Safety`). The direction flag is clear, as the ABI requires.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}
