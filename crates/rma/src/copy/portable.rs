//! Accesses to shared memory for processors whose assembly is not written here, and for Miri.
//!
//! Reads and writes are volatile. A volatile access that races is undefined in Rust's memory model, but not in that of
//! LLVM ("if R is volatile, the result is target-dependent", LLVM Language Reference, Memory Model for Concurrent
//! Operations), and compilers neither split, merge nor repeat one of a machine word. So what is read is a mixture of
//! old and new there, too. To Miri they are plain accesses: it reports a race of a test that must have none.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Whole;

macro_rules! whole {
    ($($word:ty, $atomic:ty);*) => {$(
        impl Whole for $word {
            #[inline]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the caller guarantees an aligned word.
                unsafe { at.read_volatile() }
            }

            #[inline]
            unsafe fn store(self, at: *mut Self) {
                // SAFETY: the caller guarantees an aligned word.
                unsafe { at.write_volatile(self) }
            }

            #[inline]
            unsafe fn fetch_add(self, at: *mut Self) -> Self {
                // SAFETY: the caller guarantees an aligned word. AcqRel: pairs with the changes of others.
                unsafe { <$atomic>::from_ptr(at) }.fetch_add(self, Ordering::AcqRel)
            }

            #[inline]
            unsafe fn swap(self, at: *mut Self) -> Self {
                // SAFETY: the caller guarantees an aligned word. AcqRel: as above.
                unsafe { <$atomic>::from_ptr(at) }.swap(self, Ordering::AcqRel)
            }

            #[inline]
            unsafe fn compare_swap(self, new: Self, at: *mut Self) -> Self {
                // SAFETY: the caller guarantees an aligned word.
                let word = unsafe { <$atomic>::from_ptr(at) };
                // AcqRel: as above; Acquire: pairs with the release of the change that was found.
                word.compare_exchange(self, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| found)
            }
        }
    )*};
}

whole!(u32, AtomicU32; u64, AtomicU64);

/// # Safety
/// `at` points to a byte of memory that all access as `copy` does.
#[inline]
pub(super) unsafe fn load_byte(at: *const u8) -> u8 {
    // SAFETY: the caller guarantees a byte.
    unsafe { at.read_volatile() }
}

/// # Safety
/// As [`load_byte`].
#[inline]
pub(super) unsafe fn store_byte(at: *mut u8, byte: u8) {
    // SAFETY: the caller guarantees a byte.
    unsafe { at.write_volatile(byte) }
}

/// Copies nothing: words are the largest pieces.
///
/// # Safety
/// None.
#[inline]
pub(super) unsafe fn move_blocks(_to: *mut u8, _from: *const u8, _len: usize) -> usize {
    0
}
