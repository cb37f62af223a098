//! Reproducible random numbers.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// Creates the stream of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Creates the stream of a seed and a sequence of words.
    pub(crate) fn of(seed: u64, words: impl IntoIterator<Item = u64>) -> Random {
        // The step of FxHash: an odd factor spreads each word over the higher bits.
        let step = |hash: u64, word: u64| {
            let mixed = hash.rotate_left(5) ^ word;
            mixed.wrapping_mul(0x517c_c1b7_2722_0a95)
        };
        Random::new(words.into_iter().fold(step(0, seed), step))
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
