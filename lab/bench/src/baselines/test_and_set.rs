//! The test-and-set lock.
//!
//! # Contract
//! Mutual exclusion. No order among those who wait, and nobody is sure to get it ever.
//!
//! # Costs
//! Uncontended an exchange and a store. Everybody who waits exchanges all the time, which takes the line from all
//! others, the one who wants to unlock included.
//!
//! # Source
//! As old as the instruction; measured by T. E. Anderson, "The Performance of Spin Lock Alternatives for
//! Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990, doi:10.1109/71.80120. Here, who waits yields after some
//! exchanges.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lock, Patience};

/// A test-and-set lock.
#[derive(Debug, Default)]
pub struct TestAndSet(AtomicBool);

impl TestAndSet {
    /// A lock that nobody has.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

// SAFETY: who finds `false` in the exchange has the lock, and until it stores `false` everybody finds `true`; the Acquire
// of the next exchange pairs with the Release of that store.
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
