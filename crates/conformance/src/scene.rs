//! Utilities of sessions: a clock that all processes share, pseudorandom numbers, and the state of
//! threads.

use rustix::time::{ClockId, clock_gettime};
use syncline_fabric::Advised;
use syncline_signal::poll_schedule::PollSchedule;
use syncline_sync::{Fault, LockError, SpaceError};

/// Returns nanoseconds of the clock that all processes of this machine share.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns a pseudorandom number that depends only on `a` and `b` (the finaliser of splitmix64).
pub(super) fn hash(a: u64, b: u64) -> u64 {
    let mut z =
        a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Delays for a short pseudorandom time, or not at all.
pub(super) fn linger(number: u64) {
    match number % 8 {
        0 => give_way(),
        1 | 2 => (0..number / 8 % 200).for_each(|_| std::hint::spin_loop()),
        _ => (),
    }
}

/// Lets another thread run: yields, or sleeps for less than 0.1 ms where yields last long.
pub(super) fn give_way() {
    PollSchedule::new().pause();
}

/// Identifies this thread for others: the ids of its process and of itself.
pub(super) fn thread() -> u64 {
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    (process.as_raw_nonzero().get() as u64) << 32 | thread.as_raw_nonzero().get() as u64
}

/// Returns whether that thread sleeps.
pub(super) fn sleeps(thread: u64) -> bool {
    let (process, thread) = (thread >> 32, thread & 0xffff_ffff);
    let stat =
        std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
    // The name, in brackets, may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

/// An error that ended a session, other than a finding about values, times or order.
pub(super) trait Say {
    /// Returns the error in words.
    fn say(&self) -> String;
}

macro_rules! say {
    ($($error:ty),*) => {$(
        impl Say for $error {
            fn say(&self) -> String {
                match self {
                    Self::TimedOut => format!("no member makes progress any more ({self})"),
                    _ => self.to_string(),
                }
            }
        }
    )*};
}

say!(Fault, LockError);

impl Say for SpaceError {
    fn say(&self) -> String {
        Advised(self).to_string()
    }
}
