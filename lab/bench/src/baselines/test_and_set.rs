//! The test-and-set lock.
//!
//! # Contract
//! Mutual exclusion. Waiters get the lock in no order, and starvation is possible.
//!
//! # Costs
//! Uncontended, an exchange and a store. Each waiter repeats the exchange, which takes the line
//! from all other threads, including the holder that wants to unlock.
//!
//! # Source
//! As old as the instruction; measured by T. E. Anderson, "The Performance of Spin Lock
//! Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990, doi:10.1109/71.80120.
//! Here a waiter yields after a number of exchanges.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lock, Patience};

/// A test-and-set lock.
#[derive(Debug, Default)]
pub struct TestAndSet(AtomicBool);

impl TestAndSet {
    /// Creates a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

// SAFETY: the thread whose exchange returns `false` holds the lock; until it stores `false`, every
// other exchange returns `true`. The Acquire of the next successful exchange pairs with the Release
// of that store.
unsafe impl Lock for TestAndSet {
    type Turn = ();

    #[inline]
    fn lock(&self) {
        let mut patience = Patience::default();
        // Acquire: pairs with the Release in `unlock`.
        while self.0.swap(true, Ordering::Acquire) {
            patience.wait();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        // Release: pairs with the Acquire in `lock`.
        self.0.store(false, Ordering::Release);
    }
}
