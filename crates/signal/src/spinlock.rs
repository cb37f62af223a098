//! A word for critical sections of a few instructions.
//!
//! # Contract
//! Mutual exclusion, nothing else: no queue, no fairness, no wake-up. Only for sections that
//! neither call foreign code nor wait. Order among tasks is made by the queues that such sections
//! guard, never by which thread gets the word first.
//!
//! # Costs
//! Uncontended: one compare-and-swap and one store on one cache line. Contended: 64 pauses, then a
//! [`PollSchedule`], which yields and later sleeps, so that a holder that lost its core gets it
//! back. A waiter notices the end of a section at most 100 us late, plus the time to get a core. It
//! is no [`SpinWait`](crate::spin_wait::SpinWait), as the end of a section wakes no
//! thread.

use crate::plant;
use crate::poll_schedule::PollSchedule;
use crate::primitive::{AtomicU32, Ordering};

/// A word for critical sections of a few instructions. Four bytes, `#[repr(C)]`, no pointers.
///
/// ```
/// let lock = syncline_signal::spinlock::SpinLock::new();
/// let section = lock.lock();
/// drop(section);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct SpinLock(AtomicU32);

/// A critical section; it ends when this is dropped.
#[derive(Debug)]
pub struct SpinGuard<'a>(&'a SpinLock);

impl SpinLock {
    /// A free lock.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        SpinLock(AtomicU32::new(0))
    }

    /// A free lock.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        SpinLock(AtomicU32::new(0))
    }

    /// Enters the critical section.
    ///
    /// # Memory ordering
    /// Everything in earlier sections happened before this one.
    #[inline]
    #[must_use]
    pub fn lock(&self) -> SpinGuard<'_> {
        // Acquire: pairs with the Release in `SpinGuard::drop`.
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly();
        }
        SpinGuard(self)
    }

    /// The guard of a critical section that the caller is in, having forgotten the guard: for
    /// sections of several locks at once. Called outside of such a section it ends that of another
    /// thread too early.
    #[inline]
    #[must_use]
    pub fn locked(&self) -> SpinGuard<'_> {
        SpinGuard(self)
    }

    #[cold]
    fn lock_slowly(&self) {
        loop {
            let mut poll = PollSchedule::with_pauses();
            while self.0.load(Ordering::Relaxed) != 0 {
                poll.pause();
            }
            // Acquire: as in `lock`.
            if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

impl Default for SpinLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SpinGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let order = if plant::is("spinlock: relaxed unlock") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // Release: pairs with the Acquire in `lock`.
        self.0.0.store(0, order);
    }
}
