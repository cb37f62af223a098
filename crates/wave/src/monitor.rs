//! How far a sweep is, and how to end it early.

pub use crate::sweep::Times;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncline_overlay::{Snapshot, Watch};

/// At what a sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// It has not begun, or goes in blocks.
    #[default]
    Other,
    /// It reads an input that was moved or touched, to see whether it is the same: the number of
    /// this input, and of all.
    Compares(usize, usize),
    /// It streams.
    Passes(Passes),
}

/// How far a streamed sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passes {
    /// The pass under way, from 1.
    pub pass: u64,
    /// How many there are, if it does not converge before.
    pub passes: u64,
    /// The iterations that are not lost if the sweep is killed now.
    pub safe: u64,
    /// The iterations asked for.
    pub iterations: u64,
}

/// Shared with a running sweep: how far it is, and a way to end it.
///
/// All atomic accesses are Relaxed: nothing but the numbers themselves is communicated.
#[derive(Debug, Default)]
pub struct Monitor {
    done: AtomicU64,
    total: AtomicU64,
    moved: AtomicU64,
    cancelled: AtomicBool,
    stage: Mutex<Stage>,
    watch: Mutex<Option<Watch>>,
}

impl Monitor {
    /// A monitor for a sweep that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Updates of blocks, or pieces of bands, so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// How many there are when all iterations are done; 0 before the start. A convergence test may
    /// end the sweep before.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Bytes read from files and written to them so far by a streamed sweep.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }

    /// Ends the sweep with [`Error::Cancelled`](crate::Error::Cancelled) before its next block or
    /// piece.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// At what the sweep is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An input is read for its checksum.
    pub(crate) fn compares(&self, input: usize, of: usize) {
        *self.lock() = Stage::Compares(input, of);
    }

    /// `passes` passes are about to begin, after `safe` of `iterations` iterations.
    pub(crate) fn passes_are(&self, passes: u64, safe: u64, iterations: u64) {
        *self.lock() = Stage::Passes(Passes { pass: 1, passes, safe, iterations });
    }

    /// A pass is over, with what is safe now if it has made that more.
    pub(crate) fn pass_is_over(&self, safe: Option<u64>) {
        if let Stage::Passes(at) = &mut *self.lock() {
            (at.pass, at.safe) = ((at.pass + 1).min(at.passes), safe.unwrap_or(at.safe));
        }
    }

    /// Which tasks run now, and which wait for which; `None` while none do.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.snapshot()
    }

    /// An overlay that is about to run.
    pub(crate) fn watches(&self, watch: Watch) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
    }

    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
    }

    pub(crate) fn one_more(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }
}
