//! The end of a run: a number of iterations, or convergence.
//!
//! # The delayed stop
//! The residual of iteration n is complete when the last task has finished it, and by then other
//! tasks are ahead. To stop all tasks at one common iteration, an iteration is chosen that no task
//! has passed:
//!
//! Let the residual of n become complete when task u ends its iteration n, before u releases. At
//! that moment a task that conflicts with u has at most begun iteration n, and a task at distance k
//! from u has at most begun n + k - 1. With the diameter d of the conflict graph, no task has ended
//! iteration n + d. So all tasks stop after n + d. Each of them sees the decision in time: a task
//! begins n + d only after a chain of releases that starts with the release of u.
//!
//! # Costs
//! Two atomic read-modify-writes per step, on a cache line shared by all tasks of an iteration, and
//! a ring of d + 2 such lines.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The condition that ends the tasks of an overlay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    pub(crate) at_most: u64,
    pub(crate) tolerance: Option<f64>,
}

impl Stop {
    /// Ends each task after `iterations` iterations.
    #[must_use]
    pub fn after(iterations: u64) -> Self {
        Stop { at_most: iterations, tolerance: None }
    }

    /// Ends all tasks at one common iteration after convergence, or after `at_most` iterations. The
    /// common iteration comes at most the diameter of the overlay after the first iteration whose
    /// residual is at most `tolerance`.
    ///
    /// The residual of an iteration is the maximum of the [reports](crate::Step::report) of all
    /// tasks. The delay is the price of not waiting: while the last tasks finish an iteration,
    /// others are ahead. (For overlays of more than 1024 tasks, an upper bound of the diameter is
    /// used, at most twice as large.) A residual that is not a number never converges. A task that
    /// does not report counts as 0: if no task reports, the first iteration converges.
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
    /// The entries of iterations under way: iteration i uses entry i modulo the length. No task is
    /// a full ring ahead.
    ring: Box<[Entry]>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The bits of the maximum report. The bits of non-negative numbers are ordered like the
    /// numbers, and NaN is greater than all of them.
    max: AtomicU64,
    reports: AtomicU32,
}

/// The results of a convergence test.
#[derive(Debug, Default, Clone)]
pub(crate) struct Found {
    /// The residual of each complete iteration.
    pub(crate) residuals: Vec<f64>,
    /// The first iteration whose residual was at most the tolerance.
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

    /// Records that a task ends `iteration` with this report, before it releases. Returns the
    /// number of iterations after which all tasks stop, if this report decides it.
    pub(crate) fn report(&self, iteration: u64, norm: f64) -> Option<u64> {
        let entry = &self.ring[(iteration % self.ring.len() as u64) as usize];
        entry.max.fetch_max(norm.abs().to_bits(), Ordering::Relaxed);
        // Release: this report happens before its count. Acquire: the last reporter sees all
        // reports.
        if entry.reports.fetch_add(1, Ordering::AcqRel) + 1 < self.tasks {
            return None;
        }
        // The next user of the entry begins after a chain of releases that starts with this task's.
        let residual = f64::from_bits(entry.max.swap(0, Ordering::Relaxed));
        entry.reports.store(0, Ordering::Relaxed);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.residuals.push(residual);
        // If the tolerance is NaN, no residual is small enough.
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
