//! The test-and-test-and-set lock with exponential backoff.
//!
//! # Contract
//! Mutual exclusion. Waiters get the lock in no order, and starvation is possible.
//!
//! # Costs
//! Uncontended, an exchange and a store. A waiter reads, from its own cache, until the lock is
//! free; if it then loses the exchange, it backs off for twice the number of pauses of the last
//! time. A released lock may therefore stay free for a while, and its last holder has the best
//! chance.
//!
//! # Source
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors",
//! IEEE TPDS 1(1), 1990, doi:10.1109/71.80120. Here a waiter yields after a number of checks.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lock, Patience};

/// The largest number of pauses between two attempts.
const MOST_PAUSES: u32 = 64;

/// A test-and-test-and-set lock with backoff.
#[derive(Debug, Default)]
pub struct TestAndTestAndSet(AtomicBool);

impl TestAndTestAndSet {
    /// Creates a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

// SAFETY: the thread whose exchange returns `false` holds the lock; until it stores `false`, every
// other exchange returns `true`. The Acquire of the next successful exchange pairs with the Release
// of that store.
unsafe impl Lock for TestAndTestAndSet {
    type Turn = ();

    #[inline]
    fn lock(&self) {
        let (mut patience, mut pauses) = (Patience::default(), 1);
        // Acquire: pairs with the Release in `unlock`.
        while self.0.swap(true, Ordering::Acquire) {
            (0..pauses).for_each(|_| std::hint::spin_loop());
            pauses = MOST_PAUSES.min(2 * pauses);
            // Relaxed: only the exchange takes the lock.
            while self.0.load(Ordering::Relaxed) {
                patience.wait();
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        // Release: pairs with the Acquire in `lock`.
        self.0.store(false, Ordering::Release);
    }
}
