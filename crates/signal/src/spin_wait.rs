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
//! While computing threads keep the processors busy, the phase has no yields (see `try_yield.rs`).
//!
//! Where the deadline is asked again and again in the pauses, and the watch in the yields, a thread
//! also makes [progress](crate::progress), from then on each millisecond: few policies have a phase
//! that long.
//!
//! The phase only ends. The caller finds out why: it looks once more, asks the watch and reads the
//! clock before it sleeps.
//!
//! # Costs
//! A pause is the processor's spin hint and one addition. The clock is not read in the pauses,
//! which take less than a microsecond by default, and before and after each yield. Where the policy
//! has no yields it is never read.
//!
//! # Source
//! Competitive spinning (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning
//! for a shared-memory multiprocessor", SOSP 1991). The interface is that of `SpinWait` in
//! `parking_lot_core`. The end of the yields on busy processors is Syncline's own.

use std::time::{Duration, Instant};

use crate::Policy;
use crate::primitive::hint;
use crate::progress::{Advance, advance};
use crate::try_yield::try_yield;

/// Pauses between two looks at the clock and the watch; about 1 ms.
const CHECK_PAUSES: u32 = 1 << 16;
/// The time between two calls for progress in a phase of yields that has lasted long.
const DRIVING: Duration = Duration::from_millis(1);

/// The look phase of one wait: pauses, then yields, as long as a [`Policy`] says.
///
/// [`spin`](Self::spin) is called after each look that found nothing. When it returns false, the
/// caller sleeps.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use syncline_signal::{Policy, spin_wait::SpinWait};
///
/// let ready = AtomicBool::new(true);
/// let policy = Policy::default();
/// let mut spin = SpinWait::new(&policy, None);
/// // Acquire: pairs with the Release store of the thread that sets the flag.
/// while !ready.load(Ordering::Acquire) && spin.spin() {}
/// ```
#[derive(Debug)]
pub struct SpinWait<'a> {
    policy: &'a Policy<'a>,
    deadline: Option<Instant>,
    spins: u32,
    yields: Option<Yields>,
}

/// The part of the phase that yields.
#[derive(Clone, Copy, Debug)]
struct Yields {
    /// The end of the phase; `None` if the clock cannot express it.
    until: Option<Instant>,
    /// The next time at which the watch is asked, and progress is made.
    check: Instant,
}

impl<'a> SpinWait<'a> {
    /// A phase that lasts as `policy` says, and no longer than until `deadline`.
    #[inline]
    #[must_use]
    pub fn new(policy: &'a Policy<'a>, deadline: Option<Instant>) -> Self {
        SpinWait { policy, deadline, spins: 0, yields: None }
    }

    /// Pauses or yields once, and returns true; false when the phase is over.
    ///
    /// Under loom the phase is over at once, as a model would explore every number of looks.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if cfg!(loom) {
            return false;
        }
        // No function gets a reference to `self`: so where the policy is a constant the phase is a
        // counter in a register, and the yields are not compiled.
        if self.spins < self.policy.pauses {
            if self.policy.pauses > CHECK_PAUSES
                && self.spins % CHECK_PAUSES == CHECK_PAUSES - 1
                && is_in_vain(self.policy, self.deadline)
            {
                return false;
            }
            self.spins += 1;
            hint::spin_loop();
            return true;
        }
        if self.policy.yield_for.is_zero() {
            return false;
        }
        let (yields, goes_on) = yield_once(self.policy, self.deadline, self.yields);
        self.yields = Some(yields);
        goes_on
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
}

/// Yields and returns true, or returns false when the phase is over. The first time there are no
/// `yields` yet.
fn yield_once(
    policy: &Policy<'_>,
    deadline: Option<Instant>,
    yields: Option<Yields>,
) -> (Yields, bool) {
    let now = Instant::now();
    let mut yields = yields.unwrap_or_else(|| {
        let until = now.checked_add(policy.yield_for);
        Yields {
            until: deadline.map_or(until, |d| Some(until.map_or(d, |until| d.min(until)))),
            check: now + Policy::DEATH_CHECK,
        }
    });
    if yields.until.is_some_and(|until| until <= now) {
        return (yields, false);
    }
    let is_checked = yields.check <= now;
    if is_checked {
        yields.check = now
            + match advance() {
                Advance::NoPart => Policy::DEATH_CHECK,
                Advance::Idle => DRIVING,
                Advance::Busy => Duration::ZERO,
            };
    }
    let goes_on = !(is_checked && is_gone(policy)) && try_yield(now);
    if !goes_on {
        yields.until = Some(now); // it stays over
    }
    (yields, goes_on)
}

/// Whether the watch names a partner, or the deadline has passed. Makes progress as well.
#[cold]
fn is_in_vain(policy: &Policy<'_>, deadline: Option<Instant>) -> bool {
    advance();
    is_gone(policy) || deadline.is_some_and(|deadline| deadline <= Instant::now())
}

fn is_gone(policy: &Policy<'_>) -> bool {
    policy.liveness.is_some_and(|liveness| liveness.gone().is_some())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::liveness::FirstDeath;
    use crate::try_yield;

    fn policy(pauses: u32, yield_for: Duration) -> Policy<'static> {
        Policy { pauses, yield_for, liveness: None }
    }

    #[test]
    fn pauses_are_counted_and_come_again_after_a_reset() {
        let three = policy(3, Duration::ZERO);
        let mut spin = SpinWait::new(&three, None);
        for _ in 0..2 {
            assert_eq!(std::iter::from_fn(|| spin.spin().then_some(())).count(), 3);
            assert!(!spin.spin(), "it stays over");
            assert_eq!(spin.spins(), 3);
            spin.reset();
        }
    }

    #[test]
    fn yields_end_at_their_time_or_at_the_deadline() {
        let short = policy(0, Duration::from_micros(50));
        let mut spin = SpinWait::new(&short, None);
        while spin.spin() {}
        let soon = Instant::now() + Duration::from_millis(2);
        let endless = policy(0, Duration::MAX);
        let mut spin = SpinWait::new(&endless, Some(soon));
        while spin.spin() {}
        // It ends sooner if a yield lasts long.
        let now = Instant::now();
        assert!(now >= soon || !try_yield(now));
        // A deadline that has passed leaves no yield.
        assert!(!SpinWait::new(&endless, Some(soon)).spin());
    }

    #[test]
    fn after_a_yield_that_lasted_long_a_phase_has_pauses_only() {
        let endless = policy(2, Duration::MAX);
        // Noted as of an hour from now, so that the time without yields is not over on any machine.
        try_yield::note(Duration::from_secs(1), Instant::now() + Duration::from_secs(3600));
        let mut spin = SpinWait::new(&endless, None);
        for _ in 0..2 {
            assert_eq!(std::iter::from_fn(|| spin.spin().then_some(())).count(), 2);
            assert!(!spin.spin(), "it stays over");
            spin.reset();
        }
    }

    #[test]
    fn a_long_phase_ends_when_the_watch_names_a_partner() {
        let death = FirstDeath::default();
        death.declare(1);
        for long in [policy(u32::MAX, Duration::ZERO), policy(0, Duration::MAX)] {
            let watched = long.watching(&death);
            let mut spin = SpinWait::new(&watched, None);
            while spin.spin() {}
        }
    }
}
