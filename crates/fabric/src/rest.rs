//! The sleeps of a thread that looks for messages, and finds none.
//!
//! A wire has nothing to sleep on: a thread that waits for a message looks again and again. It
//! yields first, then sleeps, longer each time. A member that waits sleeps longer by an eighth each
//! time: so it comes late by an eighth of its wait at most. A server sleeps twice as long each time,
//! and beyond a millisecond longer by little.

use std::thread;
use std::time::Duration;

/// The longest sleep of a member that waits.
pub(crate) const WAITER: Duration = Duration::from_micros(100);
/// The longest sleep of a server while members of its host wait.
pub(crate) const SERVER: Duration = Duration::from_millis(1);
/// The longest sleep of a server.
pub(crate) const IDLE: Duration = Duration::from_millis(2);
/// Yields before the first sleep.
const YIELDS: u32 = 50;
/// The first sleep.
const SLEEP: Duration = Duration::from_micros(5);

/// Looks in vain, one after the other.
pub(crate) struct Rest {
    yields: u32,
    sleep: Duration,
    most: Duration,
}

impl Rest {
    pub(crate) fn new(most: Duration) -> Rest {
        Rest { yields: YIELDS, sleep: SLEEP, most }
    }

    pub(crate) fn at_most(&mut self, most: Duration) -> &mut Self {
        self.most = most;
        self
    }

    pub(crate) fn rest(&mut self) {
        if self.yields > 0 {
            self.yields -= 1;
            thread::yield_now();
        } else {
            thread::sleep(self.sleep.min(self.most));
            let longer = match self.most {
                IDLE if self.sleep < SERVER => 2 * self.sleep,
                IDLE => self.sleep + SERVER / 64,
                _ => self.sleep * 9 / 8,
            };
            self.sleep = longer.min(self.most);
        }
    }
}

/// Makes the sleeps of this thread end on time, and not up to 50 microseconds later.
pub(crate) fn exact_sleeps() {
    // Without it, waits are slower, and nothing else.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
