//! Accesses to shared memory for processors without assembly here, and for Miri.
//!
//! Reads and writes are volatile. A racing volatile access is undefined in Rust's memory model, but
//! not in that of LLVM ("if R is volatile, the result is target-dependent", LLVM Language
//! Reference, Memory Model for Concurrent Operations). Compilers neither split, merge nor repeat a
//! volatile access of a machine word. So the reader gets a mixture of old and new bytes here, too.
//! Miri treats these as plain accesses: it reports a race in a test that must have none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Whole;

macro_rules! whole {
    ($($word:ty, $atomic:ty);*) => {$(
        impl Whole for $word {
            #[inline]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: `at` points to an aligned word: the caller guarantees it (see `Whole`).
                unsafe { at.read_volatile() }
            }

            #[inline]
            unsafe fn store(self, at: *mut Self) {
                // SAFETY: `at` points to an aligned word: the caller guarantees it (see `Whole`).
                unsafe { at.write_volatile(self) }
            }

            #[inline]
            unsafe fn fetch_add(self, at: *mut Self) -> Self {
                // SAFETY: `at` points to an aligned word: the caller guarantees it (see `Whole`).
                // AcqRel: pairs with the changes of other threads.
                unsafe { <$atomic>::from_ptr(at) }.fetch_add(self, Ordering::AcqRel)
            }

            #[inline]
            unsafe fn swap(self, at: *mut Self) -> Self {
                // SAFETY: `at` points to an aligned word: the caller guarantees it (see `Whole`).
                // AcqRel: as above.
                unsafe { <$atomic>::from_ptr(at) }.swap(self, Ordering::AcqRel)
            }

            #[inline]
            unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self {
                // SAFETY: `at` points to an aligned word: the caller guarantees it (see `Whole`).
                let word = unsafe { <$atomic>::from_ptr(at) };
                // AcqRel: as above; Acquire: pairs with the Release of the change that was found.
                word.compare_exchange(self, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| found)
            }
        }
    )*};
}

whole!(u32, AtomicU32; u64, AtomicU64);

/// Reads a byte of shared memory.
///
/// # Safety
/// `at` must point to a byte of memory that all threads access as `copy` does.
#[inline]
pub(super) unsafe fn load_byte(at: *const u8) -> u8 {
    // SAFETY: `at` points to a byte: the caller guarantees it (see `# Safety`).
    unsafe { at.read_volatile() }
}

/// Writes a byte of shared memory.
///
/// # Safety
/// As [`load_byte`].
#[inline]
pub(super) unsafe fn store_byte(at: *mut u8, byte: u8) {
    // SAFETY: `at` points to a byte: the caller guarantees it (see `# Safety`).
    unsafe { at.write_volatile(byte) }
}

/// Copies nothing: there is no unit larger than a word here.
///
/// # Safety
/// None.
#[inline]
pub(super) unsafe fn move_blocks(_to: *mut u8, _from: *const u8, _len: usize) -> usize {
    0
}
