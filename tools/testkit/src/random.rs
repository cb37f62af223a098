//! Random numbers from a seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A generator of random numbers: the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Creates one of many independent generators that share a seed.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        Random::new(Random::new(seed).number() ^ stream)
    }

    /// Returns any 64-bit number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number less than `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, n: N) -> N {
        let n = n.try_into().ok().expect("a number that is not negative");
        N::try_from(self.number() % n).ok().expect("less than a number of the type")
    }

    /// Returns a number in the range.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Returns true with probability 1/`n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the values.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns a number in [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a duration of fewer than `n` microseconds.
    pub fn microseconds(&mut self, n: u64) -> Duration {
        Duration::from_micros(self.below(n))
    }

    /// Shuffles the values.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.within(0..=i));
        }
    }
}
