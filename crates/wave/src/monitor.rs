//! Reports the progress of a running sweep, and can end it early.

pub use crate::sweep::Times;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncline_overlay::{Snapshot, Watch};

/// The stage of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The sweep has not begun, or has no passes.
    #[default]
    Other,
    /// The sweep reads an input that was moved or touched, to check whether its contents are the
    /// same: the number of this input, and the number of all such inputs.
    Compares(usize, usize),
    /// The sweep is streaming.
    Passes(Passes),
}

/// The progress of a streamed sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passes {
    /// The number of the current pass, from 1.
    pub pass: u64,
    /// The number of all passes, if the sweep does not converge earlier.
    pub passes: u64,
    /// The number of iterations that are preserved if the sweep is killed now.
    pub safe: u64,
    /// The number of iterations requested.
    pub iterations: u64,
}

/// Reports the progress of a running sweep, and can end it; shared with that sweep.
///
/// On a team, the monitor of a member tells of this member and of all members of higher ranks: that
/// of rank 0 tells of all. What others have done is known a band later for each member between.
///
/// All atomic accesses are Relaxed: no other data depends on these numbers.
#[derive(Debug, Default)]
pub struct Monitor {
    done: AtomicU64,
    total: AtomicU64,
    moved: AtomicU64,
    /// The updates, and the bytes, of the members of higher ranks, as far as known.
    others: [AtomicU64; 2],
    cancelled: AtomicBool,
    stage: Mutex<Stage>,
    watch: Mutex<Option<Watch>>,
}

impl Monitor {
    /// Creates a monitor for a sweep that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of updates of blocks, or of pieces of bands, so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed) + self.others[0].load(Relaxed)
    }

    /// Returns the number of updates after all iterations; 0 before the start. A convergence test
    /// may end the sweep earlier.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the number of bytes that a streamed sweep has read from and written to files so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.moved.load(Relaxed) + self.others[1].load(Relaxed)
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }

    /// Ends the sweep with [`Error::Cancelled`](crate::Error::Cancelled) before its next block or
    /// piece. A description that calls functions, and one for arrays, ends within a piece: after
    /// the points that it updates at once.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Returns the current stage of the sweep.
    #[must_use]
    pub fn stage(&self) -> Stage {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that input number `input` of `of` is being read for its checksum.
    pub(crate) fn compares(&self, input: usize, of: usize) {
        *self.lock() = Stage::Compares(input, of);
    }

    /// Records that `passes` passes are about to begin, after `safe` of `iterations` iterations.
    pub(crate) fn passes_are(&self, passes: u64, safe: u64, iterations: u64) {
        *self.lock() = Stage::Passes(Passes { pass: 1, passes, safe, iterations });
    }

    /// Records the end of a pass, and the number of iterations that are now preserved, if the pass
    /// has increased it.
    pub(crate) fn pass_is_over(&self, safe: Option<u64>) {
        if let Stage::Passes(at) = &mut *self.lock() {
            (at.pass, at.safe) = ((at.pass + 1).min(at.passes), safe.unwrap_or(at.safe));
        }
    }

    /// Returns which tasks are running and which tasks wait for which; `None` while none run.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.snapshot()
    }

    /// Registers an overlay that is about to run.
    #[doc(hidden)]
    pub fn watches(&self, watch: Watch) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
    }

    /// Sets the number of all updates, before the first one.
    #[doc(hidden)]
    pub fn begin(&self, total: u64) {
        self.done.store(0, Relaxed);
        self.others_are([0; 2]);
        self.total.store(total, Relaxed);
    }

    /// Records the updates, and the bytes, of the members of higher ranks.
    pub(crate) fn others_are(&self, others: [u64; 2]) {
        self.others.iter().zip(others).for_each(|(known, now)| known.store(now, Relaxed));
    }

    /// Returns the updates, and the bytes, of this member alone.
    pub(crate) fn own(&self) -> [u64; 2] {
        [&self.done, &self.moved].map(|own| own.load(Relaxed))
    }

    /// Counts an update of a block, or of a piece of a band.
    #[doc(hidden)]
    pub fn one_more(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// Returns whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}
