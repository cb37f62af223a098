//! Random numbers from a seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Random numbers, the same for the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// One of many independent sequences of a seed.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        Random::new(Random::new(seed).number() ^ stream)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number less than `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, n: N) -> N {
        let n = n.try_into().ok().expect("a number that is not negative");
        N::try_from(self.number() % n).ok().expect("less than a number of the type")
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the values.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A number of [0, 1).
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time of fewer microseconds than `n`.
    pub fn microseconds(&mut self, n: u64) -> Duration {
        Duration::from_micros(self.below(n))
    }

    /// Puts the values in a random order.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.within(0..=i));
        }
    }
}
