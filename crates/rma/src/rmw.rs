//! Atomic read-modify-writes of one word.
//!
//! # Contract
//! Each operation is atomic with respect to all other operations of this module and to accumulates,
//! of any member on any host. Words are aligned. A pair is two words of 8 bytes, at a multiple of
//! 16.
//!
//! # Memory ordering
//! Acquire and release: on one host, an operation sees everything that was written before the
//! preceding operation on the same word. Between hosts, the puts of another member are seen after a
//! fence of that member.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use portable_atomic::AtomicU128;

use crate::copy::Whole;

/// A read-modify-write and its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rmw {
    Add32(u32),
    Add64(u64),
    Swap32(u32),
    Swap64(u64),
    SwapPair(u128),
    CompareSwap32(u32, u32),
    CompareSwap64(u64, u64),
    CompareSwapPair(u128, u128),
}

impl Rmw {
    /// Returns the number of bytes of the word.
    pub(crate) fn size(self) -> usize {
        match self {
            Rmw::Add32(_) | Rmw::Swap32(_) | Rmw::CompareSwap32(..) => 4,
            Rmw::Add64(_) | Rmw::Swap64(_) | Rmw::CompareSwap64(..) => 8,
            Rmw::SwapPair(_) | Rmw::CompareSwapPair(..) => 16,
        }
    }

    /// Performs the operation, and returns the previous value. Operations on pairs are those of
    /// `portable_atomic`, which uses the processor's instructions where it has any.
    ///
    /// # Safety
    /// `at` must point to a word of this size, aligned to it, in memory that all threads access as
    /// [`copy`](crate::copy) does.
    #[inline(always)]
    pub(crate) unsafe fn apply(self, at: *mut u8) -> u128 {
        // SAFETY: `at` points to an aligned word of this size: the caller guarantees it (see
        // `# Safety`). AcqRel: pairs with the operations of other members on the word.
        unsafe {
            match self {
                Rmw::Add32(value) => value.fetch_add(at.cast()).into(),
                Rmw::Add64(value) => value.fetch_add(at.cast()).into(),
                Rmw::Swap32(value) => value.swap(at.cast()).into(),
                Rmw::Swap64(value) => value.swap(at.cast()).into(),
                Rmw::SwapPair(value) => AtomicU128::from_ptr(at.cast()).swap(value, AcqRel),
                Rmw::CompareSwap32(old, new) => old.compare_swap(new, at.cast()).into(),
                Rmw::CompareSwap64(old, new) => old.compare_swap(new, at.cast()).into(),
                Rmw::CompareSwapPair(old, new) => {
                    let pair = AtomicU128::from_ptr(at.cast());
                    pair.compare_exchange(old, new, AcqRel, Acquire).unwrap_or_else(|found| found)
                }
            }
        }
    }

    /// Encodes the operation for a message: its number and its operands.
    pub(crate) fn words(self) -> (u8, [u64; 4]) {
        let (which, a, b): (u8, u128, u128) = match self {
            Rmw::Add32(value) => (0, value.into(), 0),
            Rmw::Add64(value) => (1, value.into(), 0),
            Rmw::Swap32(value) => (2, value.into(), 0),
            Rmw::Swap64(value) => (3, value.into(), 0),
            Rmw::SwapPair(value) => (4, value, 0),
            Rmw::CompareSwap32(old, new) => (5, old.into(), new.into()),
            Rmw::CompareSwap64(old, new) => (6, old.into(), new.into()),
            Rmw::CompareSwapPair(old, new) => (7, old, new),
        };
        (which, [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64])
    }

    pub(crate) fn from_words(which: u8, words: [u64; 4]) -> Option<Rmw> {
        let [a, a_high, b, b_high] = words;
        let (pair, other) =
            (u128::from(a) | u128::from(a_high) << 64, u128::from(b) | u128::from(b_high) << 64);
        Some(match which {
            0 => Rmw::Add32(a as u32),
            1 => Rmw::Add64(a),
            2 => Rmw::Swap32(a as u32),
            3 => Rmw::Swap64(a),
            4 => Rmw::SwapPair(pair),
            5 => Rmw::CompareSwap32(a as u32, b as u32),
            6 => Rmw::CompareSwap64(a, b),
            7 => Rmw::CompareSwapPair(pair, other),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_what_it_says_and_travels() {
        #[repr(align(16))]
        struct Words([u64; 2]);
        let (low, pair) = (5_u64, 5 | 9 << 64);
        let cases = [
            (Rmw::Add32(3), 5, [8, 9]),
            (Rmw::Add64(u64::MAX), 5, [4, 9]),
            (Rmw::Swap32(7), 5, [7, 9]),
            (Rmw::Swap64(7), 5, [7, 9]),
            (Rmw::SwapPair(1 << 64), pair, [0, 1]),
            (Rmw::CompareSwap32(5, 6), 5, [6, 9]),
            (Rmw::CompareSwap64(4, 6), 5, [5, 9]),
            (Rmw::CompareSwapPair(pair, 3), pair, [3, 0]),
            (Rmw::CompareSwapPair(low.into(), 3), pair, [5, 9]),
        ];
        for (rmw, before, after) in cases {
            let mut words = Words([5, 9]);
            // SAFETY: aligned words that no other thread accesses.
            assert_eq!(unsafe { rmw.apply(words.0.as_mut_ptr().cast()) }, before, "{rmw:?}");
            assert_eq!(words.0, after, "{rmw:?}");
            let (which, words) = rmw.words();
            assert_eq!(Rmw::from_words(which, words), Some(rmw));
        }
        assert_eq!(Rmw::from_words(8, [0; 4]), None);
    }
}
