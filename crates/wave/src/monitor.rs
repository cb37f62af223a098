//! How far a sweep is, and how to end it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use syncline_overlay::{Snapshot, Watch};

/// Shared with a running sweep: how far it is, and a way to end it.
///
/// All accesses are Relaxed: nothing but the numbers themselves is communicated.
#[derive(Debug, Default)]
pub struct Monitor {
    done: AtomicU64,
    total: AtomicU64,
    moved: AtomicU64,
    cancelled: AtomicBool,
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

    /// How many there are when all iterations are done; 0 before the start. A convergence test may end
    /// the sweep before.
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

    /// Ends the sweep with [`Error::Cancelled`](crate::Error::Cancelled) before its next block or piece.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Which tasks run now, and who waits for whom; `None` while none do.
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
