//! A semaphore that bounds the blocks that are in memory, or being computed, at once.
//!
//! # Contract
//! [`Semaphore::take`] returns when fewer than the allowed number of windows are taken, in the
//! order of the calls. A holder never waits for a thread that is waiting for a window of the same
//! semaphore, so every thread gets one.
//!
//! # State: two counters that only grow
//! ```text
//! taken      1  2  3  4  5          the fifth caller may enter
//! returned         2                when 5 - allowed windows have been returned
//! ```
//!
//! # Costs
//! Taking a window: one addition, and a wait if all are taken. Returning it: one addition.

use std::sync::atomic::{AtomicU64, Ordering};

use syncline_signal::{PaddedSignal, Policy};
use syncline_trace::{Activity, span};

/// A semaphore that bounds the blocks in memory at once.
#[derive(Debug)]
pub struct Semaphore {
    allowed: u64,
    taken: AtomicU64,
    returned: PaddedSignal,
}

/// A permit to have one block in memory.
#[derive(Debug)]
pub struct Window<'a>(&'a Semaphore);

impl Semaphore {
    /// Creates a semaphore with this number of windows.
    #[must_use]
    pub fn new(allowed: u64) -> Self {
        Semaphore { allowed, taken: AtomicU64::new(0), returned: PaddedSignal::default() }
    }

    /// Takes a window; waits if all are taken.
    pub fn take(&self) -> Window<'_> {
        // Relaxed: the number is only a position in the queue; the wait acquires the releases
        // before it.
        let place = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        let returned = place.saturating_sub(self.allowed);
        // Acquire, in `get` and in the wait.
        if self.returned.get() < returned {
            let _waits = span(Activity::AwaitPermit, 0, 0);
            // Without a death word or a deadline the wait cannot fail.
            let _ = self.returned.wait_until(returned, &Policy::default(), None);
        }
        Window(self)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.0.returned.increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_allowed() {
        let windows = Semaphore::new(3);
        let (out, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..500 {
                        let _window = windows.take();
                        let now = out.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        out.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3);
    }
}
