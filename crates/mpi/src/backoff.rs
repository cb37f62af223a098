//! How to wait for a message: look, yield, then sleep longer and longer.
//!
//! A blocked call of MPI spins, which takes the core from whom it waits for. So nothing here blocks in one.

use std::time::Duration;

const YIELDS: u32 = 50;
const LONGEST: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    looks: u32,
}

impl Backoff {
    /// To be called after each look that found nothing.
    pub(crate) fn pause(&mut self) {
        self.looks = self.looks.saturating_add(1);
        match self.looks.checked_sub(YIELDS) {
            None => std::thread::yield_now(),
            Some(sleeps) => {
                std::thread::sleep(Duration::from_micros(1 << sleeps.min(8)).min(LONGEST))
            }
        }
    }
}
