//! When the tasks of an overlay end.
//!
//! # The delayed stop
//! The residual of iteration n is known when the last task has finished it, and by then others are
//! ahead. To stop them all at one iteration, a common one is chosen that nobody has passed:
//!
//! Say the residual of n is complete in the moment in which task u ends its iteration n, before u
//! releases. A task that conflicts with u has at most begun iteration n, one at distance k at most
//! n + k - 1. With the diameter d of the conflict graph nobody has ended iteration n + d. So all stop
//! after n + d, and each task learns it in time: whoever begins n + d does so by way of a release of u.
//!
//! # Costs
//! Two atomic additions a step on a line shared by all tasks of an iteration; a ring of d + 2 of them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// When the tasks of an overlay end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    pub(crate) at_most: u64,
    pub(crate) tolerance: Option<f64>,
}

impl Stop {
    /// Every task does `iterations` iterations.
    #[must_use]
    pub fn after(iterations: u64) -> Self {
        Stop { at_most: iterations, tolerance: None }
    }

    /// All tasks stop at one common iteration, at most the diameter of the overlay behind the first
    /// whose residual is at most `tolerance`; or after `at_most` iterations.
    ///
    /// The residual of an iteration is the greatest [report](crate::Step::report) of all tasks. The
    /// delay is the price of not waiting: while the last tasks finish an iteration, others are ahead. (For
    /// overlays of more than 1024 tasks an upper bound of the diameter is used, at most twice as large.)
    /// A residual that is not a number never converges. A task that does not report counts as 0: if none does, the
    /// first iteration converges.
    #[must_use]
    pub fn converged(tolerance: f64, at_most: u64) -> Self {
        Stop { at_most, tolerance: Some(tolerance) }
    }
}

/// A convergence test in progress.
#[derive(Debug)]
pub(crate) struct Test {
    tolerance: f64,
    tasks: u32,
    delay: u64,
    /// Iteration i uses entry i modulo the length; nobody is that far ahead.
    ring: Box<[Entry]>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The bits of the greatest report; for numbers without sign their order is that of the numbers,
    /// and what is not a number is greater than all.
    max: AtomicU64,
    reports: AtomicU32,
}

/// What a test found.
#[derive(Debug, Default, Clone)]
pub(crate) struct Found {
    /// The residual of each complete iteration.
    pub(crate) residuals: Vec<f64>,
    /// The first iteration whose residual was small enough.
    pub(crate) converged: Option<u64>,
}

impl Test {
    pub(crate) fn new(tolerance: f64, tasks: u32, diameter: u64, at_most: u64) -> Self {
        let residuals = Vec::with_capacity(at_most.min(1 << 16) as usize);
        Test {
            tolerance,
            tasks,
            delay: diameter,
            ring: (0..diameter + 2).map(|_| Entry::default()).collect(),
            found: Mutex::new(Found { residuals, converged: None }),
        }
    }

    /// A task ends `iteration` with this report, and has not released yet. The number of iterations
    /// after which all stop, if that is decided now.
    pub(crate) fn report(&self, iteration: u64, norm: f64) -> Option<u64> {
        let entry = &self.ring[(iteration % self.ring.len() as u64) as usize];
        entry.max.fetch_max(norm.abs().to_bits(), Ordering::Relaxed);
        // Release: my report comes before my count. Acquire, for the last: sees all reports.
        if entry.reports.fetch_add(1, Ordering::AcqRel) + 1 < self.tasks {
            return None;
        }
        // The next to use the entry begins after a chain of releases that starts with mine.
        let residual = f64::from_bits(entry.max.swap(0, Ordering::Relaxed));
        entry.reports.store(0, Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.residuals.push(residual);
        // With a tolerance that is not a number nothing is small enough.
        let small = residual <= self.tolerance;
        if found.converged.is_some() || !small {
            return None;
        }
        found.converged = Some(iteration);
        Some(iteration + self.delay + 1)
    }

    pub(crate) fn found(&self) -> Found {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_residual_is_the_greatest_report() {
        let test = Test::new(0.5, 2, 3, 100);
        assert_eq!(test.report(0, 0.25), None);
        assert_eq!(test.report(1, 0.5), None);
        assert_eq!(test.report(0, -4.0), None);
        assert_eq!(test.report(1, 0.125), Some(1 + 3 + 1));
        assert_eq!((test.report(2, 0.0), test.report(2, f64::NAN)), (None, None));
        let found = test.found();
        assert_eq!(found.residuals[..2], [4.0, 0.5]);
        assert!(found.residuals[2].is_nan());
        assert_eq!(found.converged, Some(1));
    }
}
