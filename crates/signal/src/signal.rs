//! A number that only grows, and that threads and processes wait on.
//!
//! # Contract
//! `raise_to` and `add` never block and never lower the number. What was written before a raise is
//! seen after a wait that it ended. A wait ends when the number is large enough, at its deadline,
//! or when the watch of its policy names a partner; never for another reason.
//!
//! Numbers end at [`Signal::MAX`], 2^62 - 1. An addition that goes past it closes the signal: the
//! number is `MAX` for good, every wait for a number has ended, and every later addition is told.
//!
//! # State: one word
//! ```text
//! bit  63     the signal is closed: the guard band
//! bits 62..1  the number; in the guard band, by how much additions went past the end
//! bit  0      a thread sleeps (or is about to): the next raise must wake
//! ```
//! | side   | step                                                             |
//! |--------|------------------------------------------------------------------|
//! | waiter | reads the word; enough: done                                     |
//! |        | sets bit 0, unless the word has changed                          |
//! |        | sleeps, unless the word has changed; begins again                |
//! | raiser | raises the number; was bit 0 set: clears it and wakes all        |
//!
//! # The guard band
//! An addition is one read-modify-write, so it may go past the end before its thread knows. No
//! number of additions goes on to a wrap: each is by at most `MAX_ADD` = 2^32, and a thread whose
//! addition lands in the band swaps the word for the bottom of the band before it returns. So
//! between two swaps a thread adds once, and the word is at most `MAX` + k * 2^32 after k threads
//! have added and not swapped yet, or have died in between. The band is 2^62 numbers: it has room
//! for k = 2^30, while systems have 2^22 threads (`PID_MAX_LIMIT` of Linux). Of processes that were
//! killed between the two steps it would take 2^30 with no addition of a living one among them.
//!
//! No thread sleeps on a word in the band, as every number that can be waited for is below it. So
//! nothing is lost with the swap but the excess; it is a read-modify-write, so the release
//! sequences of all additions go on through it.
//!
//! # No lost wake-up
//! A sleep is lost only if the raiser saw no bit 0 and the waiter saw the old number. Both act on
//! one word, so one of them comes second and sees the other.
//!
//! # Costs
//! A raise while no thread sleeps: one read-modify-write, one transfer of the cache line to each
//! waiter, and one branch: it asks for the bits 63 and 0 together. With sleepers: two, and a system
//! call. A wait that is over already: one load.
//!
//! # Source
//! The futex word with a waiters bit is Drepper's ("Futexes Are Tricky", 2004). Changed: the number
//! is monotone, so it is never reset, and a late waiter needs no turn of its own.

use std::time::{Duration, Instant};

use crate::futex::Word;
use crate::plant;
use crate::primitive::Ordering;
use crate::progress::{self, Driver, Next};
use crate::{Policy, spin_wait::SpinWait};

/// Bit 0: a thread sleeps.
const SLEEPER: u64 = 1;
/// Bit 63: the number is past [`Signal::MAX`].
const CLOSED: u64 = 1 << 63;

const _: () =
    assert!(CLOSED == (Signal::MAX + 1) << 1, "the guard band begins behind the largest number");
const _: () =
    assert!(Signal::MAX_ADD << 30 == Signal::MAX + 1, "the guard band has room for 2^30 additions");

/// A number that only grows, from 0 to [`Signal::MAX`], and that threads and processes wait on.
///
/// Eight bytes, `#[repr(C)]`, no pointers: it may stand in memory shared between processes.
///
/// # The end
/// A signal that was added to past `MAX` is closed: its number is `MAX` from then on, every wait
/// for a number ends, and [`add`](Signal::add) says so. By steps of 1 at 1 ns each that takes 146
/// years, so counters of events use [`increment`](Signal::increment) and [`count`](Signal::count),
/// which stop at `MAX` without a word.
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
/// assert_eq!(s.add(2), Ok(7));
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
    /// The watch of the policy names a partner.
    Dead {
        /// The partner, as it was declared.
        member: u32,
    },
    /// The number is more than [`Signal::MAX`]: no signal comes to it.
    Unreachable {
        /// The number.
        number: u64,
    },
}

/// Why an addition was not made as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// More than [`Signal::MAX_ADD`] at once. Nothing was added.
    TooMuch {
        /// How much was to be added.
        n: u64,
    },
    /// The sum is more than [`Signal::MAX`], or the signal was closed before: it is closed, at
    /// `MAX`.
    Closed,
}

impl std::fmt::Display for AddError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AddError::TooMuch { n } => {
                write!(f, "{n} is more than can be added to a signal at once, {}", Signal::MAX_ADD)
            }
            AddError::Closed => {
                write!(f, "the signal is closed: it is at the largest number, {}", Signal::MAX)
            }
        }
    }
}

impl std::error::Error for AddError {}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str("the deadline passed"),
            WaitError::Dead { member } => write!(f, "partner {member} is dead"),
            WaitError::Unreachable { number } => {
                write!(f, "{number} is more than a signal can hold, {}", Signal::MAX)
            }
        }
    }
}

impl std::error::Error for WaitError {}

impl Signal {
    /// The largest number that a signal can hold: 2^62 - 1.
    pub const MAX: u64 = (1 << 62) - 1;

    /// The most that can be added at once: 2^32.
    pub const MAX_ADD: u64 = 1 << 32;

    /// A signal that stands at `number`, or at [`Signal::MAX`] if that is less.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Signal { word: Word::new(bounded(number) << 1) }
    }

    /// A signal that stands at `number`, or at [`Signal::MAX`] if that is less.
    #[cfg(loom)]
    #[must_use]
    pub fn new(number: u64) -> Self {
        Signal { word: Word::new(bounded(number) << 1) }
    }

    /// The number as it is now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `raise_to`, `publish` and the additions.
        bounded(self.word.bits.load(Ordering::Acquire) >> 1)
    }

    /// Raises the number to `number`, or to [`Signal::MAX`] if that is less, unless it is there
    /// already, and wakes the threads that wait. Returns what it was.
    #[inline]
    pub fn raise_to(&self, number: u64) -> u64 {
        let number = bounded(number);
        let order =
            if plant::is("signal: relaxed raise") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `get` and `wait_until`. The maximum clears bit 0 if
        // and only if it raises the number: then the thread that set it is woken below. If it
        // raises nothing the bit stays for the raise that will.
        let before = if cfg!(tsan) {
            // ThreadSanitizer does not see a maximum, and reports what it orders.
            let raise = |bits: u64| Some(bits.max(number << 1));
            self.word.bits.fetch_update(order, Ordering::Relaxed, raise).unwrap_or_else(|bits| bits)
        } else {
            self.word.bits.fetch_max(number << 1, order)
        };
        if before & SLEEPER != 0 && before >> 1 < number && !plant::is("signal: no wake") {
            self.word.wake_all();
        }
        bounded(before >> 1)
    }

    /// Makes the number `number`, at least what it is and at most [`Signal::MAX`], which stands for
    /// more. Wakes no thread: none sleeps on it now, and one thread at a time raises it. Then it is
    /// a store, the cheapest raise there is.
    ///
    /// Threads that poll it by [`get`](Signal::get) or [`look_until`](Signal::look_until) see the
    /// number; threads that sleep are not woken.
    #[inline]
    pub fn publish(&self, number: u64) {
        let order = if plant::is("signal: relaxed publish") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // Release: pairs with the Acquire in `get`.
        self.word.bits.store(bounded(number) << 1, order);
    }

    /// Adds `n` to the number and wakes the threads that wait. Returns what it is now.
    ///
    /// # Errors
    /// [`AddError::TooMuch`] if `n` is more than [`Signal::MAX_ADD`]: nothing was added.
    /// [`AddError::Closed`] if the sum is more than [`Signal::MAX`]: the number is `MAX` from now
    /// on, all waits have ended, and every later addition fails likewise.
    #[inline]
    pub fn add(&self, n: u64) -> Result<u64, AddError> {
        if n > Self::MAX_ADD {
            return Err(AddError::TooMuch { n });
        }
        let now = self.grow(n);
        if now & (CLOSED | SLEEPER) != 0 { self.after_add(now) } else { Ok(now >> 1) }
    }

    /// Adds 1 to the number, which ends at [`Signal::MAX`], and wakes the threads that wait.
    /// Returns what it is now.
    ///
    /// For counters of events, which do not come to the end: see [`Signal`].
    #[inline]
    pub fn increment(&self) -> u64 {
        let now = self.grow(1);
        let now = if now & (CLOSED | SLEEPER) != 0 { self.after_add(now) } else { Ok(now >> 1) };
        now.unwrap_or(Self::MAX)
    }

    /// Adds 1 to the number, which ends at [`Signal::MAX`], and wakes the threads that wait only if
    /// `enough` says so of what it is now. Returns what it is now.
    ///
    /// For counters of arrivals, where no thread waits for the numbers in between: to wake a waiter
    /// for the last one at each arrival would be a system call for nothing. A sleeper stays asleep
    /// until a raise that wakes.
    #[inline]
    pub fn count(&self, enough: impl FnOnce(u64) -> bool) -> u64 {
        let now = self.grow(1);
        if now & (CLOSED | SLEEPER) != 0 && (now & CLOSED != 0 || enough(now >> 1)) {
            return self.after_add(now).unwrap_or(Self::MAX);
        }
        now >> 1
    }

    /// Adds to the number, and says what the word is then.
    #[inline]
    fn grow(&self, n: u64) -> u64 {
        // Release: pairs with the Acquire in `get` and `wait_until`; one sequence with the other
        // additions, so a thread that reads the last one has synchronised with all.
        let before = self.word.bits.fetch_add(n << 1, Ordering::Release);
        // It does not wrap: see "The guard band".
        before.wrapping_add(n << 1)
    }

    /// Completes an addition that found a sleeper, or went past the end.
    #[cold]
    fn after_add(&self, now: u64) -> Result<u64, AddError> {
        if now & CLOSED == 0 {
            self.wake_after_add();
            return Ok(now >> 1);
        }
        if !plant::is("signal: stays in the guard band") {
            // Relaxed: the release sequences of the additions go on through this RMW.
            self.word.bits.swap(CLOSED, Ordering::Relaxed);
        }
        // Bit 0 was set below the band. Two threads may both find it, and both wake.
        if now & SLEEPER != 0 && !plant::is("signal: closes without a wake") {
            self.word.wake_all();
        }
        Err(AddError::Closed)
    }

    /// Wakes all threads that sleep, whether or not the word says that there are any; they look
    /// again.
    ///
    /// For a process that finds that another has died that may have raised the number, and was
    /// killed before it woke a waiter.
    pub(crate) fn wake(&self) {
        self.word.wake_all();
    }

    /// For models: adds 1 as a process does that is killed before it wakes a waiter.
    #[cfg(loom)]
    pub(crate) fn add_and_die(&self) {
        self.word.bits.fetch_add(1 << 1, Ordering::Release);
        self.word.bits.fetch_and(!SLEEPER, Ordering::Relaxed);
    }

    /// For models: additions of [`Signal::MAX_ADD`] by `threads` threads that die before they swap
    /// the word.
    #[cfg(loom)]
    pub fn overrun_and_die(&self, threads: u64) {
        self.word.bits.fetch_add((threads * Self::MAX_ADD) << 1, Ordering::Release);
    }

    /// For models: the word is used for something else. A touch that is not over by then, or that
    /// comes later, fails.
    #[cfg(loom)]
    pub fn reuse(&mut self) {
        self.word.bits.with_mut(|bits| *bits = u64::MAX);
    }

    fn wake_after_add(&self) {
        // Relaxed: only the bit changes; the release sequence of the raise goes on through this
        // RMW. A waiter that sets the bit again before the wake-up sleeps on a word that already
        // holds the new number, so it had looked and needs a later raise; being woken without need
        // is harmless.
        self.word.bits.fetch_and(!SLEEPER, Ordering::Relaxed);
        self.word.wake_all();
    }

    /// Waits until the number is at least `number`, and returns the number found.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] when `deadline` passes first; [`WaitError::Dead`] when the watch of
    /// `policy` names a member first. A number that is there already wins over both.
    /// [`WaitError::Unreachable`] at once for a number above [`Signal::MAX`].
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
        if number > Self::MAX {
            return Err(WaitError::Unreachable { number });
        }
        if let Some(n) = self.look_until(number, policy, deadline) {
            return Ok(n);
        }
        loop {
            let word = self.word.bits.load(Ordering::Acquire); // pairs with the Release of a raise
            if word >> 1 >= number {
                return Ok(bounded(word >> 1));
            }
            if let Some(member) = policy.liveness.and_then(|liveness| liveness.gone()) {
                return Err(WaitError::Dead { member });
            }
            let left = match deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Err(WaitError::TimedOut),
                left => left,
            };
            // Relaxed is enough to set the bit: the number is read again, with Acquire, before it
            // is used.
            if word & SLEEPER == 0
                && self
                    .word
                    .bits
                    .compare_exchange(word, word | SLEEPER, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            let nap = match (left, policy.liveness) {
                (Some(left), Some(_)) => Some(left.min(Policy::DEATH_CHECK)),
                (None, Some(_)) => Some(Policy::DEATH_CHECK),
                (left, None) => left,
            };
            if progress::is_installed() {
                self.sleep_driving(word | SLEEPER, nap);
            } else {
                self.word.sleep(word | SLEEPER, nap);
            }
        }
    }

    /// Sleeps while the word is `seen`, or at most for `at_most`, and makes
    /// [progress](crate::progress) meanwhile. May return early.
    fn sleep_driving(&self, seen: u64, at_most: Option<Duration>) {
        // Most sleeps end in the first one. A model has no time in which it would end.
        let first = progress::first_sleep();
        let first = at_most.map_or(first, |at_most| at_most.min(first));
        if !cfg!(loom) {
            self.word.sleep(seen, Some(first));
            if self.word.bits.load(Ordering::Relaxed) != seen {
                return;
            }
        }
        let left = at_most.map(|at_most| at_most.saturating_sub(first));
        let end = left.and_then(|left| Instant::now().checked_add(left));
        let mut driver = Driver::new();
        // Relaxed: the caller reads the word again.
        while self.word.bits.load(Ordering::Relaxed) == seen {
            let next = driver.next();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match next {
                _ if left.is_some_and(|left| left.is_zero()) => return,
                Next::Sleep => return self.word.sleep(seen, left),
                Next::SleepAtMost(nap) => {
                    self.word.sleep(seen, Some(left.map_or(nap, |left| left.min(nap))));
                }
                Next::Look => (),
            }
        }
    }

    /// Looks, with the pauses and yields of `policy` in between, until the number is at least
    /// `number`; `None` when these are over (which may be before the first look), the deadline has
    /// passed, or `policy` names a member that is gone; at once if `number` is more than
    /// [`Signal::MAX`], and in models. It never sleeps: see [`SpinWait`].
    pub fn look_until(
        &self,
        number: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Option<u64> {
        if number > Self::MAX {
            return None;
        }
        let mut spin = SpinWait::new(policy, deadline);
        while spin.spin() {
            let now = self.get();
            if now >= number {
                return Some(now);
            }
        }
        None
    }
}

/// A number, as far as a signal can hold it.
#[inline]
const fn bounded(number: u64) -> u64 {
    if number > Signal::MAX { Signal::MAX } else { number }
}

impl Default for Signal {
    fn default() -> Self {
        Signal::new(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
