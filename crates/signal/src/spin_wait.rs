//! The look phase that all waits share: pauses, then yields, before a thread sleeps.
//!
//! # Contract
//! A wait looks, and calls [`SpinWait::spin`] after each look that found nothing. `spin` passes a
//! little time and returns true, or returns false when the phase is over; then the wait sleeps, in
//! whatever way it sleeps, and [`reset`](SpinWait::reset)s the phase when it looks again.
//!
//! | step                         | the deadline is asked | the watch is asked |
//! |------------------------------|-----------------------|--------------------|
//! | `pauses` of the policy       | each 65536 pauses     | each 65536 pauses  |
//! | yields, for its `yield_for`  | before each yield     | each 100 ms        |
//!
//! The phase only ends. The caller finds out why: it looks once more, asks the watch and reads the
//! clock before it sleeps.
//!
//! # Costs
//! A pause is the processor's spin hint and one addition. The clock is not read in the pauses,
//! which take less than a microsecond by default, and once for each yield. Without yields it is
//! never read.
//!
//! # Source
//! Competitive spinning (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning
//! for a shared-memory multiprocessor", SOSP 1991). The interface is that of `SpinWait` in
//! `parking_lot_core`.

use std::time::Instant;

use crate::Policy;
use crate::primitive::{hint, yield_now};

/// Pauses between two looks at the clock and the watch; about 1 ms.
const CHECK_PAUSES: u32 = 1 << 16;

/// The look phase of one wait: see the [module](self).
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use syncline_signal::{Policy, spin_wait::SpinWait};
///
/// let ready = AtomicBool::new(true);
/// let mut spin = SpinWait::new(&Policy::default(), None);
/// // Acquire: pairs with the Release store of the thread that sets the flag.
/// while !ready.load(Ordering::Acquire) && spin.spin() {}
/// ```
#[derive(Debug)]
pub struct SpinWait<'a> {
    policy: Policy<'a>,
    deadline: Option<Instant>,
    spins: u32,
    yields: Option<Yields>,
}

/// The part of the phase that yields.
#[derive(Debug)]
struct Yields {
    /// The end of the phase; `None` if the clock cannot express it.
    until: Option<Instant>,
    /// The next time at which the watch is asked.
    check: Instant,
}

impl<'a> SpinWait<'a> {
    /// A phase that lasts as `policy` says, and no longer than until `deadline`.
    #[inline]
    #[must_use]
    pub fn new(policy: &Policy<'a>, deadline: Option<Instant>) -> Self {
        SpinWait { policy: *policy, deadline, spins: 0, yields: None }
    }

    /// Pauses or yields once, and returns true; false when the phase is over.
    ///
    /// Under loom the phase is over at once, as a model would explore every number of looks.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if cfg!(loom) {
            return false;
        }
        if self.spins < self.policy.pauses {
            // Only unusually long policies ask: the first comparison is known when it is compiled
            // where the policy is.
            if self.policy.pauses > CHECK_PAUSES
                && self.spins % CHECK_PAUSES == CHECK_PAUSES - 1
                && self.is_in_vain()
            {
                return false;
            }
            self.spins += 1;
            hint::spin_loop();
            return true;
        }
        // Asked here, so that a phase without yields needs no memory.
        if self.policy.yield_for.is_zero() { false } else { self.yield_once() }
    }

    /// The number of pauses so far.
    #[inline]
    #[must_use]
    pub fn spins(&self) -> u32 {
        self.spins
    }

    /// Begins the phase again.
    #[inline]
    pub fn reset(&mut self) {
        self.spins = 0;
        self.yields = None;
    }

    fn yield_once(&mut self) -> bool {
        let now = Instant::now();
        let yields = self.yields.get_or_insert_with(|| {
            let until = now.checked_add(self.policy.yield_for);
            let deadline = self.deadline;
            Yields {
                until: deadline.map_or(until, |d| Some(until.map_or(d, |until| d.min(until)))),
                check: now + Policy::DEATH_CHECK,
            }
        });
        if yields.until.is_some_and(|until| until <= now) {
            return false;
        }
        if yields.check <= now {
            if self.policy.liveness.is_some_and(|liveness| liveness.gone().is_some()) {
                return false;
            }
            yields.check = now + Policy::DEATH_CHECK;
        }
        yield_now();
        true
    }

    #[cold]
    fn is_in_vain(&self) -> bool {
        self.policy.liveness.is_some_and(|liveness| liveness.gone().is_some())
            || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::death::DeathWord;

    fn policy(pauses: u32, yield_for: Duration) -> Policy<'static> {
        Policy { pauses, yield_for, liveness: None }
    }

    #[test]
    fn pauses_are_counted_and_come_again_after_a_reset() {
        let mut spin = SpinWait::new(&policy(3, Duration::ZERO), None);
        for _ in 0..2 {
            assert_eq!(std::iter::from_fn(|| spin.spin().then_some(())).count(), 3);
            assert!(!spin.spin(), "it stays over");
            assert_eq!(spin.spins(), 3);
            spin.reset();
        }
    }

    #[test]
    fn yields_end_at_their_time_or_at_the_deadline() {
        let mut short = SpinWait::new(&policy(0, Duration::from_micros(50)), None);
        while short.spin() {}
        let soon = Instant::now() + Duration::from_millis(2);
        let mut endless = SpinWait::new(&policy(0, Duration::MAX), Some(soon));
        while endless.spin() {}
        assert!(Instant::now() >= soon);
        // A deadline that has passed leaves no yield.
        assert!(!SpinWait::new(&policy(0, Duration::MAX), Some(soon)).spin());
    }

    #[test]
    fn a_long_phase_ends_when_the_watch_names_a_partner() {
        let death = DeathWord::new();
        death.declare(1);
        for long in [policy(u32::MAX, Duration::ZERO), policy(0, Duration::MAX)] {
            let mut spin = SpinWait::new(&long.watching(&death), None);
            while spin.spin() {}
        }
    }
}
