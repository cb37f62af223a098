//! Dependence patterns of Task Bench (Slaughter et al., "Task Bench: A Parameterized Benchmark for
//! Evaluating Parallel Runtime Performance", SC 2020): the points of the previous timestep that a
//! point reads.
//!
//! ```text
//! trivial    nothing
//! stencil    i-1, i, i+1
//! nearest    i-2 .. i+2
//! fft        i - 2^s, i, i + 2^s      with s = t-1 modulo log2 of the width
//! random     i, and each of i-2 .. i+2 with probability 1/4; four sets, used in turn
//! ```
//!
//! As in Task Bench, points beyond an edge are omitted, and timestep 0 reads nothing. The radix is
//! 5 (nearest and random) and the connected fraction a quarter, as in Task Bench; the draws of
//! `random` are this file's own.

use super::work::hash;

/// The number of points on either side that `nearest` and `random` read.
const REACH: usize = 2;
/// The number of sets of dependences that `random` cycles through.
const RANDOM_SETS: usize = 4;

/// A pattern of dependences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// No dependences.
    Trivial,
    /// The neighbours on both sides.
    Stencil,
    /// Two neighbours on either side.
    Nearest,
    /// Butterflies.
    Fft,
    /// Some of the dependences of `Nearest`.
    Random,
}

impl Pattern {
    /// All patterns.
    pub(crate) const ALL: [Self; 5] =
        [Self::Trivial, Self::Stencil, Self::Nearest, Self::Fft, Self::Random];

    /// Returns the pattern's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trivial => "trivial",
            Self::Stencil => "stencil",
            Self::Nearest => "nearest",
            Self::Fft => "fft",
            Self::Random => "random",
        }
    }

    /// Returns the number of timesteps after which the dependences repeat.
    pub(crate) fn period(self, width: usize) -> usize {
        match self {
            Self::Trivial | Self::Stencil | Self::Nearest => 1,
            Self::Fft => (width.next_power_of_two().trailing_zeros() as usize).max(1),
            Self::Random => RANDOM_SETS,
        }
    }

    /// Returns the points of timestep `t - 1` that point `i` of timestep `t` reads, in ascending
    /// order, for `t` from 1 on. Timestep 0 gives the points of every later timestep of the same
    /// phase.
    pub(crate) fn dependences(self, width: usize, t: usize, i: usize) -> Vec<usize> {
        let around = |reach: usize| i.saturating_sub(reach)..(i + reach + 1).min(width);
        let period = self.period(width);
        match self {
            Self::Trivial => Vec::new(),
            Self::Stencil => around(1).collect(),
            Self::Nearest => around(REACH).collect(),
            Self::Fft => {
                let far = 1 << ((t + period - 1) % period);
                let all = [i.checked_sub(far), Some(i), Some(i + far)];
                all.into_iter().flatten().filter(|&j| j < width).collect()
            }
            Self::Random => {
                let set = t % period;
                let drawn = |j: usize| hash((set * width + i) as u32, j as u64) >> 62 == 0;
                around(REACH).filter(|&j| j == i || drawn(j)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependences_are_those_of_task_bench() {
        let at = |pattern: Pattern, t, i| pattern.dependences(16, t, i);
        assert!(at(Pattern::Trivial, 3, 5).is_empty());
        assert_eq!(at(Pattern::Stencil, 3, 5), [4, 5, 6]);
        assert_eq!(at(Pattern::Stencil, 3, 0), [0, 1]);
        assert_eq!(at(Pattern::Nearest, 1, 5), [3, 4, 5, 6, 7]);
        assert_eq!(at(Pattern::Nearest, 1, 15), [13, 14, 15]);
        let fft: Vec<_> = (1..=5).map(|t| at(Pattern::Fft, t, 6)).collect();
        assert_eq!(fft, [vec![5, 6, 7], vec![4, 6, 8], vec![2, 6, 10], vec![6, 14], vec![5, 6, 7]]);
    }

    #[test]
    fn every_pattern_repeats_and_stays_within_its_width() {
        for pattern in Pattern::ALL {
            for width in [1, 2, 3, 7, 16, 33] {
                let period = pattern.period(width);
                for t in 0..3 * period {
                    for i in 0..width {
                        let points = pattern.dependences(width, t, i);
                        assert!(
                            points.iter().all(|&j| j < width) && points.is_sorted_by(|a, b| a < b)
                        );
                        assert_eq!(points, pattern.dependences(width, t + period, i));
                        assert!(pattern == Pattern::Trivial || points.contains(&i));
                    }
                }
            }
        }
    }

    #[test]
    fn a_quarter_of_the_random_dependences_is_there() {
        let (mut there, mut all) = (0, 0);
        for t in 0..RANDOM_SETS {
            for i in 0..1000 {
                all += Pattern::Nearest.dependences(1000, t, i).len() - 1;
                there += Pattern::Random.dependences(1000, t, i).len() - 1;
            }
        }
        let part = f64::from(there as u32) / f64::from(all as u32);
        assert!((0.23..0.27).contains(&part), "{part}");
    }
}
