//! The back-off of a wait for a message: yields first, then sleeps of doubling length.
//!
//! A blocking call of MPI spins and may take the core from the process that it waits for, so no
//! wait for a message blocks inside MPI.

use std::time::Duration;

const YIELDS: u32 = 50;
const LONGEST: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    looks: u32,
}

impl Backoff {
    /// Yields or sleeps. Call it after each look that found nothing.
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
