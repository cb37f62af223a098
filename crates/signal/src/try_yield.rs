//! A yield that a thread skips while computing threads keep the processors busy.
//!
//! # Contract
//! [`try_yield`] yields the processor and returns true. After a yield that lasted [`LONG`] or
//! longer, it returns false for a while and does not yield: the caller sleeps instead. Each thread
//! decides by its own yields.
//!
//! ```text
//! yields │ 1 us 1 us 1 us │ 3 ms                │ none: 64 times 3 ms         │ 1 us 1 us ...
//! ───────┼────────────────┼─────────────────────┼─────────────────────────────┼─────────────> time
//!        │                │ another program ran │ waits sleep after the pauses│
//! ```
//!
//! A yield among threads that wait for each other takes a microsecond, as the next one soon yields
//! too. A thread that computes, of another program or of this one, takes its whole time slice,
//! which is some milliseconds. A barrier of nine members then takes a few slices for each round. A
//! thread that sleeps on a futex pays for the system calls, but gives no slice away: after the
//! wake-up the scheduler lets it run soon, as it has used less than its share.
//!
//! # Costs
//! Two reads of the clock beside the system call of each yield. Long yields take at most 1/[`REST`]
//! of a thread's time if they last for up to 15 ms, as time slices do.
//!
//! # Source
//! This is Syncline's own.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::primitive::yield_now;

/// The shortest yield that lasted long: below the usual time slices, and beyond the yields of
/// hundreds of threads that wait for each other.
const LONG: Duration = Duration::from_micros(500);
/// The time without yields, as a multiple of the yield before.
const REST: u32 = 64;
/// The longest time without yields. A yield may last for hours if the process is stopped in it.
const LONGEST_REST: Duration = Duration::from_secs(1);

thread_local! {
    /// When this thread yields again.
    static REST_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Yields, and returns true; false if the thread is not to yield. `now` is the time of the call.
pub(crate) fn try_yield(now: Instant) -> bool {
    if !may_yield(now) {
        return false;
    }
    yield_now();
    let after = Instant::now();
    note(after.saturating_duration_since(now), after);
    true
}

/// Whether the thread is to yield at this time.
#[inline]
pub(crate) fn may_yield(now: Instant) -> bool {
    REST_UNTIL.get().is_none_or(|until| until <= now)
}

/// Notes a yield that took this time and has just ended.
pub(crate) fn note(yielded: Duration, after: Instant) {
    if yielded >= LONG {
        REST_UNTIL.set(after.checked_add(yielded.saturating_mul(REST).min(LONGEST_REST)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_yield_is_followed_by_a_time_without() {
        let now = Instant::now();
        for (yielded, rest) in [
            (Duration::from_micros(499), Duration::ZERO),
            (Duration::from_micros(500), Duration::from_millis(32)),
            (Duration::from_millis(3), Duration::from_millis(192)),
            (Duration::from_secs(3600), LONGEST_REST),
            (Duration::MAX, LONGEST_REST),
        ] {
            REST_UNTIL.set(None);
            note(yielded, now);
            let until = now + rest;
            assert_eq!(REST_UNTIL.get().unwrap_or(now), until);
            // The time before the end is without yields, and the end is not.
            if rest > Duration::ZERO {
                assert!(!try_yield(until - Duration::from_nanos(1)));
                assert_eq!(REST_UNTIL.get(), Some(until), "no yield, nothing to note");
            }
            assert!(try_yield(until));
        }
    }

    #[test]
    fn threads_do_not_share_what_they_noted() {
        let now = Instant::now();
        note(Duration::from_secs(1), now);
        assert!(!try_yield(now));
        assert!(std::thread::spawn(move || try_yield(now)).join().unwrap());
    }
}
