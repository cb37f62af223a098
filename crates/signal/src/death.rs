//! Partners that are gone: every wait asks for them at least ten times a second.

use crate::primitive::{AtomicU64, Ordering};

/// Answers, for a wait that goes on, whether a partner that it needs is gone.
///
/// Asked by the waiting thread before every sleep, at least ten times a second; it must not block.
pub trait Liveness: Sync + std::fmt::Debug {
    /// Returns a partner that is gone, if one is.
    fn gone(&self) -> Option<u32>;
}

/// A word that is 0 while all partners live, and names the dead one afterwards.
///
/// The thread that watches the partners (a launcher with a pidfd, a runner whose task panicked)
/// calls [`declare`](DeathWord::declare); every wait whose [`Policy`](crate::Policy) names the word
/// looks at it again at least ten times a second, so no thread waits for the dead. It may stand in
/// shared memory.
///
/// ```
/// use std::time::Duration;
/// use syncline_signal::{Policy, Signal, WaitError, death::DeathWord};
///
/// let (never, death) = (Signal::new(0), DeathWord::new());
/// death.declare(7);
/// let policy = Policy::default().watching(&death);
/// assert_eq!(never.wait_until(1, &policy, None), Err(WaitError::Dead { member: 7 }));
/// ```
#[repr(transparent)]
#[derive(Debug)]
pub struct DeathWord(AtomicU64);

impl DeathWord {
    /// A word that says that all partners live.
    #[must_use]
    pub fn new() -> Self {
        DeathWord(AtomicU64::new(0))
    }

    /// Declares `who` dead. The first declaration stays.
    pub fn declare(&self, who: u32) {
        // Release: pairs with the Acquire in `who`: what the declarer wrote before, such as a
        // message, is seen by each thread that reads the word.
        let _ =
            self.0.compare_exchange(0, u64::from(who) + 1, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the partner that is dead, if one is.
    #[must_use]
    pub fn gone(&self) -> Option<u32> {
        // Acquire: pairs with the Release in `declare`.
        match self.0.load(Ordering::Acquire) {
            0 => None,
            who => Some((who - 1) as u32),
        }
    }
}

impl Liveness for DeathWord {
    fn gone(&self) -> Option<u32> {
        DeathWord::gone(self)
    }
}

impl Default for DeathWord {
    fn default() -> Self {
        Self::new()
    }
}
