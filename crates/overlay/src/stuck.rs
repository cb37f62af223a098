//! The report on a run in which nothing moves. It is public in [`watch`](crate::watch).

use std::fmt;
use std::time::Duration;

use crate::check_error::Wait;
use crate::snapshot::Snapshot;

/// A report on a run in which nothing moves: which task waits for which, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub(crate) snapshot: Snapshot,
    pub(crate) still: Duration,
    /// The number of the run among those of the overlay.
    pub(crate) run: u64,
}

impl Stuck {
    /// Returns the queues. Each task shows for how long it has been in its iteration.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns for how long nothing has moved.
    #[must_use]
    pub fn still(&self) -> Duration {
        self.still
    }

    /// Returns the cycle of tasks that wait for each other, if that is the cause: these tasks will
    /// never move again.
    #[must_use]
    pub fn deadlock(&self) -> Option<Vec<Wait>> {
        self.snapshot.cycle()
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing has moved for {:.1} s", self.still.as_secs_f64())?;
        if !self.snapshot.tasks.is_empty() {
            write!(f, "\n{}", self.snapshot)?;
        }
        Ok(())
    }
}
