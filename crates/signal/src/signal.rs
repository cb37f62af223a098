//! A number that only grows, and that threads and processes wait on.
//!
//! # Contract
//! `raise_to` and `add` never block and never lower the number. What was written before a raise is
//! seen after a wait that it ended. A wait ends when the number is large enough, at its deadline, or
//! when the death word of its policy names somebody; never for another reason.
//!
//! # State: one word
//! ```text
//! bits 63..1  the number
//! bit  0      somebody sleeps (or is about to): the next raise must wake
//! ```
//! | who    | step                                                             |
//! |--------|------------------------------------------------------------------|
//! | waiter | reads the word; enough: done                                     |
//! |        | sets bit 0, unless the word has changed                          |
//! |        | sleeps, unless the word has changed; begins again                |
//! | raiser | raises the number; was bit 0 set: clears it and wakes everybody  |
//!
//! A sleep is lost only if the raiser saw no bit 0 and the waiter saw the old number. Both act on one
//! word, so one of them comes second and sees the other.
//!
//! # Costs
//! A raise with nobody asleep: one read-modify-write, one transfer of the cache line to each waiter.
//! With sleepers: two, and a system call. A wait that is over already: one load.
//!
//! # Source
//! The futex word with a waiters bit is Drepper's ("Futexes Are Tricky", 2004). Changed: the number
//! is monotone, so nobody resets it, and a late waiter needs no turn of its own.

use std::time::{Duration, Instant};

use crate::Policy;
use crate::futex::Word;
use crate::plant;
use crate::primitive::{Ordering, hint, yield_now};

/// Bit 0: somebody sleeps.
const SLEEPER: u64 = 1;

/// A 63-bit number that only grows, and that threads and processes wait on.
///
/// Eight bytes, `#[repr(C)]`, no pointers: it may stand in memory shared between processes.
///
/// # Memory ordering
/// A raise is a release, and reading the raised number (by [`get`](Signal::get) or a wait) is an
/// acquire: what happened before the raise happened before what follows the read.
///
/// ```
/// use syncline_signal::Signal;
///
/// let s = Signal::new(5);
/// s.raise_to(3); // it never falls
/// assert_eq!(s.get(), 5);
/// assert_eq!(s.add(2), 7);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Signal {
    word: Word,
}

/// A [`Signal`] alone on a pair of cache lines (128 bytes, as adjacent lines are fetched together).
///
/// For words that different cores raise often; the packed form is better for words that one waiter
/// polls together.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct PaddedSignal(
    /// The signal.
    pub Signal,
);

impl std::ops::Deref for PaddedSignal {
    type Target = Signal;

    fn deref(&self) -> &Signal {
        &self.0
    }
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// The death word of the policy names a partner.
    Dead {
        /// The partner, as it was declared.
        who: u32,
    },
}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str("the deadline passed"),
            WaitError::Dead { who } => write!(f, "partner {who} is dead"),
        }
    }
}

impl std::error::Error for WaitError {}

/// So many pauses are a millisecond or some.
const MANY: u32 = 1 << 16;

impl Signal {
    /// The largest number that a signal can hold.
    pub const MAX: u64 = u64::MAX >> 1;

    /// A signal that stands at `number` (at most [`Signal::MAX`]; the top bit is dropped).
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Signal { word: Word::new(number << 1) }
    }

    /// A signal that stands at `number`.
    #[cfg(loom)]
    #[must_use]
    pub fn new(number: u64) -> Self {
        Signal { word: Word::new(number << 1) }
    }

    /// The number as it is now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `raise_to` and `add`.
        self.word.bits.load(Ordering::Acquire) >> 1
    }

    /// Raises the number to `number` if it is lower, and wakes those who wait. Returns what it was.
    #[inline]
    pub fn raise_to(&self, number: u64) -> u64 {
        let order = if plant::is("signal: relaxed raise") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `get` and `wait_until`. The maximum clears bit 0 if and
        // only if it raises the number: then whoever set it is woken below. If it raises nothing the
        // bit stays for the raise that will.
        let before = self.word.bits.fetch_max(number << 1, order);
        if before & SLEEPER != 0 && before >> 1 < number && !plant::is("signal: no wake") {
            self.word.wake_all();
        }
        before >> 1
    }

    /// Makes the number `number`, at least what it is. Wakes nobody: nobody sleeps on it now, and one thread at a time
    /// raises it. Then it is a store, the cheapest raise there is.
    ///
    /// Whoever polls it by [`get`](Signal::get) or [`look_until`](Signal::look_until) is served; whoever sleeps is not.
    #[inline]
    pub fn publish(&self, number: u64) {
        let order = if plant::is("signal: relaxed publish") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `get`.
        self.word.bits.store(number << 1, order);
    }

    /// Adds `n` to the number and wakes those who wait. Returns what it is now.
    #[inline]
    pub fn add(&self, n: u64) -> u64 {
        // Release: pairs with the Acquire in `get` and `wait_until`.
        let before = self.word.bits.fetch_add(n << 1, Ordering::Release);
        if before & SLEEPER != 0 {
            self.wake_after_add();
        }
        (before >> 1) + n
    }

    /// Adds `n` to the number, and wakes those who wait only if `enough` says so of what it is now.
    /// Returns what it is now.
    ///
    /// For counters of arrivals, of which nobody waits for the numbers in between: to wake whoever waits for the last
    /// one at each arrival would be a system call for nothing. A sleeper stays asleep until a raise that wakes.
    #[inline]
    pub fn count(&self, n: u64, enough: impl FnOnce(u64) -> bool) -> u64 {
        // Release: pairs with the Acquire in `get` and `wait_until`; one sequence with the other additions, so
        // whoever reads the last one has synchronised with all.
        let before = self.word.bits.fetch_add(n << 1, Ordering::Release);
        let now = (before >> 1) + n;
        if before & SLEEPER != 0 && enough(now) {
            self.wake_after_add();
        }
        now
    }

    /// Wakes all who sleep, whether or not the word says that somebody does; they look again.
    ///
    /// For whoever finds that a process has died that may have raised the number, and was killed before it woke anybody.
    pub fn wake(&self) {
        self.word.wake_all();
    }

    /// For models: adds 1 as a process does that is killed before it wakes anybody.
    #[cfg(loom)]
    pub fn add_and_die(&self) {
        self.word.bits.fetch_add(1 << 1, Ordering::Release);
        self.word.bits.fetch_and(!SLEEPER, Ordering::Relaxed);
    }

    /// For models: the word is used for something else. A touch that is not over by then, or that comes later, fails.
    #[cfg(loom)]
    pub fn reuse(&mut self) {
        self.word.bits.with_mut(|bits| *bits = u64::MAX);
    }

    #[cold]
    fn wake_after_add(&self) {
        // Relaxed: only the bit changes; the release sequence of the raise goes on through this RMW.
        // A waiter that sets the bit again before the wake-up sleeps on a word that already holds the
        // new number, so it had looked and needs a later raise; being woken for nothing is harmless.
        self.word.bits.fetch_and(!SLEEPER, Ordering::Relaxed);
        self.word.wake_all();
    }

    /// Waits until the number is at least `number`, and returns the number found.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when `deadline` passes first; [`WaitError::Dead`] when the death word
    /// of `policy` names somebody first. A number that is there already wins over both.
    #[inline]
    pub fn wait_until(
        &self,
        number: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<u64, WaitError> {
        let now = self.get();
        if now >= number { Ok(now) } else { self.wait_slowly(number, policy, deadline) }
    }

    #[cold]
    fn wait_slowly(
        &self,
        number: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<u64, WaitError> {
        if let Some(n) = self.look_until(number, policy, deadline) {
            return Ok(n);
        }
        loop {
            let word = self.word.bits.load(Ordering::Acquire); // pairs with the Release of a raise
            if word >> 1 >= number {
                return Ok(word >> 1);
            }
            if let Some(who) = policy.death.and_then(|death| death.who()) {
                return Err(WaitError::Dead { who });
            }
            let left = match deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Err(WaitError::TimedOut),
                left => left,
            };
            // Relaxed is enough to set the bit: the number is read again, with Acquire, before it is used.
            if word & SLEEPER == 0
                && self
                    .word
                    .bits
                    .compare_exchange(word, word | SLEEPER, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let nap = match (left, policy.death) {
                (Some(left), Some(_)) => Some(left.min(Policy::DEATH_CHECK)),
                (None, Some(_)) => Some(Policy::DEATH_CHECK),
                (left, None) => left,
            };
            self.word.sleep(word | SLEEPER, nap);
        }
    }

    /// Looks, with the pauses and yields of `policy` in between, until the number is at least `number`; `None` when these
    /// are over, the deadline has passed, or `policy` names somebody who is gone. It never sleeps.
    pub fn look_until(&self, number: u64, policy: &Policy<'_>, deadline: Option<Instant>) -> Option<u64> {
        // A model would explore every number of looks.
        if cfg!(loom) {
            return None;
        }
        // The clock is asked before the first yield, not in the pauses: they are over in less than a microsecond.
        let found = || Some(self.get()).filter(|&n| n >= number);
        let in_vain = || policy.death.is_some_and(|death| death.who().is_some());
        for pause in 1..=policy.pauses {
            hint::spin_loop();
            if let Some(n) = found() {
                return Some(n);
            }
            // Few have so many.
            if pause % MANY == 0 && (in_vain() || deadline.is_some_and(|d| d <= Instant::now())) {
                return None;
            }
        }
        let mut now = Instant::now();
        // None if that is beyond the clock.
        let until = now.checked_add(policy.yield_for);
        let until = deadline.map_or(until, |d| Some(until.map_or(d, |until| d.min(until))));
        let mut check = now + Policy::DEATH_CHECK;
        while until.is_none_or(|until| now < until) {
            yield_now();
            if let Some(n) = found() {
                return Some(n);
            }
            now = Instant::now();
            if now >= check {
                if in_vain() {
                    return None;
                }
                check = now + Policy::DEATH_CHECK;
            }
        }
        None
    }
}

impl Default for Signal {
    fn default() -> Self {
        Signal::new(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::DeathWord;

    #[test]
    fn it_is_one_word() {
        assert_eq!(size_of::<Signal>(), 8);
        assert_eq!((size_of::<PaddedSignal>(), align_of::<PaddedSignal>()), (128, 128));
    }

    #[test]
    fn it_never_falls() {
        let s = Signal::new(9);
        assert_eq!(s.raise_to(4), 9);
        assert_eq!(s.get(), 9);
        assert_eq!(s.raise_to(Signal::MAX), 9);
        assert_eq!(s.get(), Signal::MAX);
    }

    #[test]
    fn a_wait_ends_at_its_deadline_or_at_a_death() {
        let s = Signal::new(1);
        let soon = || Some(Instant::now() + Duration::from_millis(3));
        assert_eq!(s.wait_until(2, &Policy::default(), soon()), Err(WaitError::TimedOut));
        assert_eq!(s.wait_until(1, &Policy::default(), soon()), Ok(1));
        let death = DeathWord::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                death.declare(0);
                death.declare(5);
            });
            let policy = Policy::default().watching(&death);
            assert_eq!(s.wait_until(2, &policy, None), Err(WaitError::Dead { who: 0 }));
        });
    }

    #[test]
    fn many_sleepers_and_raisers_lose_nothing() {
        const ROUNDS: u64 = 2000;
        for raise_by_add in [true, false] {
            let (a, b) = (Signal::new(0), Signal::new(0));
            let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, death: None };
            let deadline = Some(Instant::now() + Duration::from_secs(60));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for r in 1..=ROUNDS {
                            a.wait_until(r, &sleepy, deadline).unwrap();
                            b.add(1);
                        }
                    });
                }
                for r in 1..=ROUNDS {
                    if raise_by_add {
                        a.add(1);
                    } else {
                        a.raise_to(r);
                    }
                    b.wait_until(3 * r, &sleepy, deadline).unwrap();
                }
            });
        }
    }

    /// A policy that never comes to its sleep.
    #[test]
    fn whoever_looks_for_ever_is_told_as_well() {
        let death = DeathWord::new();
        death.declare(3);
        let pauses = Policy { pauses: u32::MAX, yield_for: Duration::ZERO, death: Some(&death) };
        let yields = Policy { pauses: 0, yield_for: Duration::MAX, death: Some(&death) };
        for policy in [pauses, yields] {
            assert_eq!(Signal::new(0).wait_until(1, &policy, None), Err(WaitError::Dead { who: 3 }));
            let patient = Policy { death: None, ..policy };
            let soon = Some(Instant::now() + Duration::from_millis(5));
            assert_eq!(Signal::new(0).wait_until(1, &patient, soon), Err(WaitError::TimedOut));
        }
    }

    #[test]
    fn a_count_wakes_at_the_last_one() {
        let s = Signal::new(0);
        let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, death: None };
        let deadline = Some(Instant::now() + Duration::from_secs(60));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(s.wait_until(3, &sleepy, deadline), Ok(3)));
            }
            for n in 1..=3 {
                std::thread::sleep(Duration::from_millis(2));
                assert_eq!(s.count(1, |now| now == 3), n);
            }
        });
    }

    #[test]
    fn bounds() {
        fn shareable<T: Send + Sync + Unpin>() {}
        shareable::<Signal>();
        shareable::<PaddedSignal>();
        shareable::<DeathWord>();
        shareable::<WaitError>();
    }
}
