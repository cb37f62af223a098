//! The test-and-test-and-set lock with exponential backoff.
//!
//! # Contract
//! Mutual exclusion. No order among those who wait, and nobody is sure to get it ever.
//!
//! # Costs
//! Uncontended an exchange and a store. Who waits reads, from its own cache, until the lock is free; who then loses the
//! exchange keeps away for twice as many pauses as the last time. So a lock that was just given back may stay free for a
//! while, and whoever had it last has the best chance.
//!
//! # Source
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990,
//! doi:10.1109/71.80120. Here, who waits yields after some looks.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lock, Patience};

/// The most pauses between two attempts.
const MOST_PAUSES: u32 = 64;

/// A test-and-test-and-set lock with backoff.
#[derive(Debug, Default)]
pub struct TestAndTestAndSet(AtomicBool);

impl TestAndTestAndSet {
    /// A lock that nobody has.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

// SAFETY: who finds `false` in the exchange has the lock, and until it stores `false` everybody finds `true`; the Acquire
// of the next exchange pairs with the Release of that store.
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
