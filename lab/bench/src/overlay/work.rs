//! The bodies of tasks: empty, a loop for some time, or a hash of what they read.
//!
//! `lab/peers/overlay.h` has the same functions in C: change both.

use std::hint::black_box;

use super::super::kernel::{MULTIPLIER, kernel};

const SECOND_MULTIPLIER: u64 = 0xBF58_476D_1CE4_E5B9;
/// The mean number of iterations of verifying bodies: enough to let tasks overtake each other where
/// they may.
const SHAKE: u64 = 64;

/// Returns a number for an iteration of a task.
#[inline]
pub(crate) fn hash(task: u32, round: u64) -> u64 {
    let h = ((u64::from(task) << 32) ^ round).wrapping_mul(MULTIPLIER);
    (h ^ (h >> 29)).wrapping_mul(SECOND_MULTIPLIER)
}

/// Returns the value of an iteration of a task that read `reads`.
#[inline]
pub(crate) fn value(task: u32, round: u64, reads: impl Iterator<Item = u64>) -> u64 {
    reads.fold(hash(task, round), |h, read| {
        let h = (h.rotate_left(7) ^ read).wrapping_mul(MULTIPLIER);
        h ^ (h >> 31)
    })
}

/// Combines all values into one number.
pub(crate) fn checksum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, |sum, value| (sum.rotate_left(5) ^ value).wrapping_mul(MULTIPLIER))
}

/// Returns a pseudorandom number from 0 to twice the mean.
#[inline]
fn irregular(mean: u64, task: u32, round: u64) -> u64 {
    (2 * mean * (hash(task, round) >> 40)) >> 24
}

/// The body of the tasks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// An empty body.
    Empty,
    /// A number of iterations of the loop.
    Spin(u64),
    /// Pseudorandom numbers of iterations with this mean.
    Irregular(u64),
    /// A hash of what it reads, which depends on every dependence.
    Verify,
}

impl Body {
    /// Returns the body's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Spin(_) => "spin",
            Self::Irregular(_) => "irregular",
            Self::Verify => "verify",
        }
    }

    /// Returns the number of iterations, or its mean.
    pub(crate) fn iterations(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Spin(n) | Self::Irregular(n) => n,
            Self::Verify => SHAKE,
        }
    }

    /// Calls `f` with this body as a type of its own, so that an empty body costs nothing.
    pub(crate) fn with<F: WithWork>(self, f: F) -> F::Output {
        match self {
            Self::Empty => f.call(Empty),
            Self::Spin(n) => f.call(Spin(n)),
            Self::Irregular(n) => f.call(Irregular(n)),
            Self::Verify => f.call(Verify),
        }
    }
}

/// A body as a type.
pub(crate) trait Work: Copy + Send + Sync + 'static {
    /// Does one iteration of a task that reads these values; returns its new value, if it has one.
    fn step(self, task: u32, round: u64, reads: impl Iterator<Item = u64>) -> Option<u64>;
}

/// An operation that is generic over the body.
pub(crate) trait WithWork {
    /// The result.
    type Output;
    /// Runs the operation.
    fn call<W: Work>(self, work: W) -> Self::Output;
}

#[derive(Clone, Copy)]
struct Empty;
#[derive(Clone, Copy)]
struct Spin(u64);
#[derive(Clone, Copy)]
struct Irregular(u64);
#[derive(Clone, Copy)]
struct Verify;

impl Work for Empty {
    #[inline]
    fn step(self, _: u32, _: u64, _: impl Iterator<Item = u64>) -> Option<u64> {
        None
    }
}

impl Work for Spin {
    #[inline]
    fn step(self, task: u32, _: u64, _: impl Iterator<Item = u64>) -> Option<u64> {
        black_box(kernel(u64::from(task), self.0));
        None
    }
}

impl Work for Irregular {
    #[inline]
    fn step(self, task: u32, round: u64, _: impl Iterator<Item = u64>) -> Option<u64> {
        black_box(kernel(u64::from(task), irregular(self.0, task, round)));
        None
    }
}

impl Work for Verify {
    #[inline]
    fn step(self, task: u32, round: u64, reads: impl Iterator<Item = u64>) -> Option<u64> {
        Irregular(SHAKE).step(task, round, std::iter::empty());
        Some(value(task, round, reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irregular_bodies_have_their_mean() {
        let all: Vec<u64> =
            (0..1024).flat_map(|t| (0..100).map(move |r| irregular(1000, t, r))).collect();
        let mean = all.iter().sum::<u64>() / all.len() as u64;
        assert!((980..1020).contains(&mean), "{mean}");
        assert!(
            all.iter().all(|&n| n < 2000)
                && all.iter().any(|&n| n < 20)
                && all.iter().any(|&n| n > 1980)
        );
    }
}
