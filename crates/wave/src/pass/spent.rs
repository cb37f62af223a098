//! The time and the bytes of passes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use syncline_fabric::Member;

use crate::Result;

/// Nanoseconds and bytes, summed over all threads.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) read_ns: AtomicU64,
    pub(crate) write_ns: AtomicU64,
    pub(crate) check_ns: AtomicU64,
    pub(crate) pack_ns: AtomicU64,
    pub(crate) update_ns: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    /// On a team: bytes of the field that were sent to other members.
    pub(crate) exchanged: AtomicU64,
}

impl Spent {
    /// Returns all numbers.
    fn all(&self) -> [&AtomicU64; 8] {
        let Spent { read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged } =
            self;
        [read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged]
    }

    /// Returns the sums over all members of a team; all members call it.
    pub(crate) fn of_all(&self, me: &mut Member) -> Result<Spent> {
        let own = self.all().map(|number| number.load(Relaxed).to_le_bytes());
        let sum = Spent::default();
        for numbers in me.exchange(own.as_flattened())? {
            for (total, number) in sum.all().into_iter().zip(numbers.as_chunks::<8>().0) {
                total.fetch_add(u64::from_le_bytes(*number), Relaxed);
            }
        }
        Ok(sum)
    }
}

/// Adds the time that `work` takes to `total`.
pub(crate) fn timed<R>(total: &AtomicU64, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    add(total, start.elapsed());
    result
}

/// Adds a time to `total`.
pub(crate) fn add(total: &AtomicU64, time: Duration) {
    // Relaxed: only a statistic.
    total.fetch_add(time.as_nanos() as u64, Relaxed);
}
