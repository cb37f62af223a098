//! The schedule of a thread that polls: it yields, then sleeps longer and longer.
//!
//! # Contract
//! What can only be polled (a network, a request of MPI) has no word to sleep on: a thread that
//! waits for it looks again and again, and calls [`PollSchedule::pause`] or [`PollSchedule::idle`]
//! after each look that found nothing.
//!
//! | method  | for                            | yields | first sleep | next sleep     | at most |
//! |---------|--------------------------------|--------|-------------|----------------|---------|
//! | `pause` | a thread that needs what comes | 50     | 5 us        | 9/8 as long    | 100 us  |
//! | `idle`  | a server, no thread waits      | 50     | 5 us        | twice as long  | 1 ms    |
//! |         |                                |        |             | 1/64 ms longer | 2 ms    |
//!
//! A thread that waits again and again, such as for messages of a pipeline, mostly waits as long as
//! the last time. It may [expect](PollSchedule::expecting) that: within a sixteenth of this time,
//! but no more than 10 ms, it yields, as a core that has gone idle needs some 100 us in a virtual
//! machine to run again.
//!
//! ```text
//! sleeps      5 us ... growing ... 100 us 100 us | yields, yields | 5 us ... growing ... 100 us
//! waited   0                                   15/16  expected  17/16
//! ```
//!
//! By an eighth, so that the waiting thread notices what has come after at most an eighth of the
//! time that it has waited, or 100 us. A thread may change between the two methods: the next sleep
//! goes on from the last one, within the limit of the method.
//!
//! For an event that is a few instructions of another thread away, the schedule may [begin with
//! pauses](PollSchedule::with_pauses): 64 of them, below 2 us, before the yields of `pause`.
//!
//! A schedule may [make progress](PollSchedule::driving) before each sleep, for a thread whose
//! looks do not drive what it waits for.
//!
//! While computing threads keep the processors busy, sleeps of 5 us take the place of yields (see
//! `try_yield.rs`).
//!
//! # Costs
//! A waiting thread looks some 10 000 times a second in the end, an idle one 500 times. It does not
//! spin for long: that would take the core from the process that is waited for (a rank that spins
//! in `MPI_Recv` takes 12 to 38 % of a core, and answers after milliseconds where ranks outnumber
//! cores). A sleep ends up to 50 us late unless the thread has set its timer slack.
//!
//! # Why yields end
//! A thread that only yields can keep others from running. In Linux 6.18 with autogroups (one for
//! each session, so for each rank of some MPIs), such a thread delayed other threads of its session
//! by seconds, in one run by a minute, while threads of other sessions kept the processors busy.
//! With sleeps between the yields, the longest delay was 10 ms.
//!
//! # Why it is no `SpinWait`
//! [`SpinWait`](crate::spin_wait::SpinWait) is the phase before a sleep that a wake-up ends; it is
//! short, and bounded by time. Here no wake-up comes: the schedule has no end, and it decides how
//! late an event is noticed.

use std::time::{Duration, Instant};

use crate::primitive::{hint, yield_now};
use crate::progress::{Advance, advance};
use crate::try_yield::try_yield;

/// Pauses before the first yield, for a thread that asks for them.
const PAUSES: u32 = 64;
/// Yields before the first sleep.
const YIELDS: u32 = 50;
/// The longest time that a thread yields before, and after, the time that it expects.
const MOST_YIELDING: Duration = Duration::from_millis(10);
/// The first sleep.
const FIRST: Duration = Duration::from_micros(5);
/// The longest sleep of a thread that waits.
const LONGEST: Duration = Duration::from_micros(100);
/// An idle thread doubles its sleeps up to here.
const DOUBLED: Duration = Duration::from_millis(1);
/// The longest sleep of an idle thread.
const LONGEST_IDLE: Duration = Duration::from_millis(2);

/// The schedule of a thread that polls, and how far it has come: 50 yields, then sleeps that grow
/// from 5 us.
///
/// For what has no word to sleep on, such as a network. [`pause`](Self::pause) or
/// [`idle`](Self::idle) is called after each look that found nothing.
///
/// ```
/// use syncline_signal::poll_schedule::PollSchedule;
///
/// let mut looks = 0;
/// let mut arrived = || { looks += 1; looks == 3 };
/// let mut schedule = PollSchedule::new();
/// while !arrived() {
///     schedule.pause();
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PollSchedule {
    pauses: u32,
    yields: u32,
    sleep: Duration,
    /// When it yields instead of sleeping.
    expected: Option<[Instant; 2]>,
    /// Whether it makes progress before it sleeps.
    drives: bool,
}

impl PollSchedule {
    /// The beginning of the schedule. A thread that has found something begins again here.
    #[must_use]
    pub fn new() -> Self {
        PollSchedule { pauses: 0, yields: YIELDS, sleep: FIRST, expected: None, drives: false }
    }

    /// The beginning of the schedule of a thread that waits for other members, and whose looks do
    /// nothing but look: it makes [progress](crate::progress) before each sleep.
    #[must_use]
    pub fn driving() -> Self {
        PollSchedule { drives: true, ..PollSchedule::new() }
    }

    /// The beginning of the schedule of a thread that waits for a few instructions of another
    /// thread, which may have lost its core: 64 pauses of the processor come first.
    #[must_use]
    pub fn with_pauses() -> Self {
        PollSchedule { pauses: if cfg!(loom) { 0 } else { PAUSES }, ..PollSchedule::new() }
    }

    /// The beginning of the schedule of a thread that will probably wait for this time.
    #[must_use]
    pub fn expecting(time: Duration) -> Self {
        let (now, part) = (Instant::now(), (time / 16).min(MOST_YIELDING));
        let at = |wait: Duration| now.checked_add(wait);
        let expected = at(time.saturating_sub(part)).zip(at(time.saturating_add(part)));
        PollSchedule { expected: expected.map(|(from, to)| [from, to]), ..PollSchedule::new() }
    }

    /// Begins again with the yields, as the thread has found something. It still expects what it
    /// expected.
    pub fn begin_again(&mut self) {
        let PollSchedule { expected, drives, .. } = *self;
        *self = PollSchedule { expected, drives, ..PollSchedule::new() };
    }

    /// Passes time between two looks of a thread that waits for what it looks for: sleeps grow by
    /// an eighth, to 100 us.
    #[inline]
    pub fn pause(&mut self) {
        if self.pauses > 0 {
            self.pauses -= 1;
            return hint::spin_loop();
        }
        self.pause_longer();
    }

    fn pause_longer(&mut self) {
        let sleep = self.next(LONGEST, |sleep| sleep * 9 / 8);
        match (sleep, self.expected) {
            (Some(sleep), Some(expected)) => self.rest(near(sleep, expected, Instant::now())),
            _ => self.rest(sleep),
        }
    }

    /// Passes time between two looks of a thread that serves others, none of which waits for it:
    /// sleeps double up to 1 ms, and grow slowly to 2 ms.
    pub fn idle(&mut self) {
        let longer = |sleep| if sleep < DOUBLED { 2 * sleep } else { sleep + DOUBLED / 64 };
        let sleep = self.next(LONGEST_IDLE, longer);
        self.rest(sleep);
    }

    /// Sleeps for this time, or yields.
    fn rest(&self, sleep: Option<Duration>) {
        if cfg!(loom) {
            return yield_now(); // a model has no time
        }
        let yields = sleep.is_none() && try_yield(Instant::now());
        if yields || self.drives && advance() == Advance::Busy {
            return;
        }
        std::thread::sleep(sleep.unwrap_or(FIRST));
    }

    /// The next sleep; `None` for a yield.
    fn next(
        &mut self,
        longest: Duration,
        longer: impl FnOnce(Duration) -> Duration,
    ) -> Option<Duration> {
        if self.yields > 0 {
            self.yields -= 1;
            return None;
        }
        let sleep = self.sleep.min(longest);
        self.sleep = longer(self.sleep).min(longest);
        Some(sleep)
    }
}

/// Returns a sleep that ends when the expected time begins, a yield in this time, and after it a
/// sleep of at most an eighth of the time since then.
fn near(sleep: Duration, [from, to]: [Instant; 2], now: Instant) -> Option<Duration> {
    match now {
        now if now < from => Some(sleep.min(from - now)),
        now if now < to => None,
        now => Some(sleep.min(FIRST.max((now - to) / 8))),
    }
}

impl Default for PollSchedule {
    fn default() -> Self {
        PollSchedule::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::try_yield;

    #[test]
    fn a_thread_sleeps_while_yields_last_long() {
        let start = Instant::now();
        try_yield::note(Duration::from_secs(1), start);
        let mut schedule = PollSchedule::new();
        (0..YIELDS).for_each(|_| schedule.pause());
        // The sleeps have not begun to grow.
        assert_eq!((schedule.yields, schedule.sleep), (0, FIRST));
        assert!(start.elapsed() >= FIRST * YIELDS, "no pause was a yield");
    }

    fn waiting(schedule: &mut PollSchedule) -> Option<Duration> {
        schedule.next(LONGEST, |sleep| sleep * 9 / 8)
    }

    #[test]
    fn sleeps_grow_by_an_eighth_to_the_longest() {
        let mut schedule = PollSchedule::new();
        assert!((0..YIELDS).all(|_| waiting(&mut schedule).is_none()));
        let sleeps: Vec<_> = (0..40).map(|_| waiting(&mut schedule).unwrap()).collect();
        assert_eq!(sleeps[..2], [FIRST, Duration::from_nanos(5625)]);
        assert!(sleeps.is_sorted() && sleeps.iter().all(|&sleep| sleep <= LONGEST));
        assert_eq!(sleeps[39], LONGEST);
    }

    #[test]
    fn pauses_come_before_yields() {
        let mut schedule = PollSchedule::with_pauses();
        (0..PAUSES).for_each(|_| schedule.pause());
        assert_eq!((schedule.pauses, schedule.yields), (0, YIELDS));
        (0..YIELDS).for_each(|_| schedule.pause());
        assert_eq!((schedule.yields, schedule.sleep), (0, FIRST));
        schedule.pause();
        assert!(schedule.sleep > FIRST);
    }

    #[test]
    fn a_thread_yields_around_the_expected_time() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let expected = [start + ms(70), start + ms(90)];
        let sleep = |after: u64| near(LONGEST, expected, start + Duration::from_micros(after));
        assert_eq!(sleep(0), Some(LONGEST));
        assert_eq!(sleep(69_970), Some(Duration::from_micros(30)), "up to the expected time");
        assert_eq!([sleep(70_000), sleep(80_000), sleep(89_999)], [None; 3]);
        assert_eq!(sleep(90_000), Some(FIRST));
        assert_eq!(sleep(90_400), Some(Duration::from_micros(50)));
        assert_eq!(sleep(95_000), Some(LONGEST));
        assert!(PollSchedule::expecting(Duration::MAX).expected.is_none());
    }

    #[test]
    fn an_idle_thread_that_waits_again_sleeps_no_longer_than_one_that_waits() {
        let mut schedule = PollSchedule { yields: 0, sleep: DOUBLED, ..PollSchedule::new() };
        schedule.idle();
        assert_eq!(schedule.sleep, DOUBLED + DOUBLED / 64);
        assert_eq!(waiting(&mut schedule), Some(LONGEST));
        assert_eq!(waiting(&mut schedule), Some(LONGEST));
        schedule.idle();
        assert_eq!(schedule.sleep, 2 * LONGEST, "it goes on from there");
    }
}
