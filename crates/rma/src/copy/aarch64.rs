//! Accesses to shared memory on AArch64, where aligned accesses to words and bytes are whole.
//!
//! A change of a word is a loop of exclusive accesses, which every processor has: `stlxr` fails if
//! another processor has written in between.

use std::arch::asm;

use super::{BLOCK, Whole};

macro_rules! whole {
    ($($word:ty, $view:literal);*) => {$(
        // The registers that `$view` names are as long as the word, so all instructions access that
        // number of bytes at `at`.
        impl Whole for $word {
            #[inline]
            unsafe fn load(at: *const Self) -> Self {
                let word: Self;
                // SAFETY: reads the word at `at`: the caller guarantees it (see `Whole`).
                unsafe {
                    asm!(
                        concat!("ldr {word:", $view, "}, [{at}]"),
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
                        concat!("str {word:", $view, "}, [{at}]"),
                        at = in(reg) at,
                        word = in(reg) self,
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline]
            unsafe fn fetch_add(self, at: *mut Self) -> Self {
                let found: Self;
                // SAFETY: reads and writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        "2:",
                        concat!("ldaxr {found:", $view, "}, [{at}]"),
                        concat!("add {sum:", $view, "}, {found:", $view, "}, {word:", $view, "}"),
                        concat!("stlxr {failed:w}, {sum:", $view, "}, [{at}]"),
                        "cbnz {failed:w}, 2b",
                        at = in(reg) at,
                        word = in(reg) self,
                        found = out(reg) found,
                        sum = out(reg) _,
                        failed = out(reg) _,
                        options(nostack, preserves_flags)
                    );
                }
                found
            }

            #[inline]
            unsafe fn swap(self, at: *mut Self) -> Self {
                let found: Self;
                // SAFETY: reads and writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        "2:",
                        concat!("ldaxr {found:", $view, "}, [{at}]"),
                        concat!("stlxr {failed:w}, {word:", $view, "}, [{at}]"),
                        "cbnz {failed:w}, 2b",
                        at = in(reg) at,
                        word = in(reg) self,
                        found = out(reg) found,
                        failed = out(reg) _,
                        options(nostack, preserves_flags)
                    );
                }
                found
            }

            #[inline]
            unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self {
                let found: Self;
                // SAFETY: reads and perhaps writes the word at `at`: the caller guarantees it (see
                // `Whole`).
                unsafe {
                    asm!(
                        "2:",
                        concat!("ldaxr {found:", $view, "}, [{at}]"),
                        concat!("cmp {found:", $view, "}, {old:", $view, "}"),
                        "b.ne 3f",
                        concat!("stlxr {failed:w}, {new:", $view, "}, [{at}]"),
                        "cbnz {failed:w}, 2b",
                        "3:",
                        at = in(reg) at,
                        old = in(reg) self,
                        new = in(reg) new,
                        found = out(reg) found,
                        failed = out(reg) _,
                        options(nostack)
                    );
                }
                found
            }
        }
    )*};
}

whole!(u32, "w"; u64, "x");

/// Reads a byte of shared memory.
///
/// # Safety
/// `at` must point to a byte of memory that all threads access as `copy` does.
#[inline]
pub(super) unsafe fn load_byte(at: *const u8) -> u8 {
    let byte: u32;
    // SAFETY: reads the byte at `at`: the caller guarantees it (see `# Safety`).
    unsafe {
        asm!(
            "ldrb {byte:w}, [{at}]",
            at = in(reg) at,
            byte = lateout(reg) byte,
            options(nostack, preserves_flags)
        );
    }
    byte as u8
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
            "strb {byte:w}, [{at}]",
            at = in(reg) at,
            byte = in(reg) u32::from(byte),
            options(nostack, preserves_flags)
        );
    }
}

/// Copies as many whole blocks as fit, and returns their number of bytes. The address in shared
/// memory is aligned to 16 bytes, so its words are read and written whole.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, and the two must not overlap.
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
            "ldp {a:q}, {b:q}, [{from}]",
            "ldp {c:q}, {d:q}, [{from}, #32]",
            "stp {a:q}, {b:q}, [{to}]",
            "stp {c:q}, {d:q}, [{to}, #32]",
            "add {from}, {from}, #64",
            "add {to}, {to}, #64",
            "subs {left}, {left}, #64",
            "b.ne 2b",
            a = out(vreg) _,
            b = out(vreg) _,
            c = out(vreg) _,
            d = out(vreg) _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) bytes => _,
            options(nostack)
        );
    }
    bytes
}
