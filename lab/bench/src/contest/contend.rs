//! The loop of a thread that contends for a lock.
//!
//! Members lock, add 1 to a plain counter and unlock until the time is over, and count their turns.
//! The clock starts when each member has had one turn: otherwise threads that wait for a processor
//! would begin too late to contend. The counter stands beside the lock, and must equal the sum in
//! the end. `lab/peers/lock_pthread.c` does the same in C: change both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bout, Measured};
use crate::error::Result;
use crate::race::{Phase, team};

/// The interval between checks that all members have begun.
const GLANCE: Duration = Duration::from_micros(50);

/// The numbers of turns that the members had.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) shares: Vec<u64>,
    /// The turns outside the timed phase.
    pub(crate) before: u64,
    pub(crate) time: Duration,
    pub(crate) pinned: bool,
}

/// Runs a member once it may begin; returns its turns outside the timed phase (before it, and one
/// after it), and its turns within.
pub(crate) fn compete(phase: &Phase, begun: &AtomicU64, mut once: impl FnMut()) -> (u64, u64) {
    let (mut before, mut share) = (0, 0);
    loop {
        // A single call site, so that it is inlined, as in the loop of a program.
        once();
        if phase.is_timed() {
            share += 1;
            continue;
        }
        before += 1;
        if before == 1 {
            // Relaxed: only the number is communicated.
            begun.fetch_add(1, Ordering::Relaxed);
        }
        if !phase.is_warm_up() && !phase.is_timed() {
            return (before, share);
        }
    }
}

impl Bout<'_> {
    /// Times a lock: `member` returns the function by which member `i` locks, adds 1 and unlocks.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn contend<M: FnMut() + Send>(
        &self,
        mut member: impl FnMut(usize) -> M,
    ) -> Result<Shares> {
        let (phase, begun, mut time) = (&Phase::default(), &AtomicU64::new(0), Duration::ZERO);
        let bodies: Vec<_> = (0..self.members)
            .map(|me| {
                let once = member(me);
                move || compete(phase, begun, once)
            })
            .collect();
        let done = team(self.pinned(), phase, bodies, || time = self.keep_time(phase, begun))?;
        let (before, shares): (Vec<u64>, _) = done.members.into_iter().unzip();
        Ok(Shares { shares, before: before.into_iter().sum(), time, pinned: done.pinned })
    }

    /// Starts the clock when all members have begun, and ends the run; returns its duration.
    pub(crate) fn keep_time(&self, phase: &Phase, begun: &AtomicU64) -> Duration {
        // Relaxed: as in `compete`.
        while begun.load(Ordering::Relaxed) < self.members as u64 {
            thread::sleep(GLANCE);
        }
        let start = Instant::now();
        phase.time();
        thread::sleep(self.time);
        phase.end();
        start.elapsed()
    }
}

impl Shares {
    /// Returns the measurement, after checking the final value of the counter.
    ///
    /// # Errors
    /// If two members held the lock at once.
    pub(crate) fn with(&self, counter: u64) -> Result<Measured> {
        let all: u64 = self.shares.iter().sum();
        if all + self.before != counter {
            let added = all + self.before;
            return Err(format!(
                "two members were in the lock at once: {added} additions made {counter}"
            )
            .into());
        }
        let ns = self.time.as_nanos() as f64 / all.max(1) as f64;
        Ok(Measured { ns, pinned: self.pinned, fairness: fairness(&self.shares) })
    }
}

/// Returns the least share divided by the greatest; `None` if there is only one.
pub(crate) fn fairness(shares: &[u64]) -> Option<f64> {
    let (least, greatest) = (shares.iter().min()?, shares.iter().max()?);
    (shares.len() > 1).then(|| *least as f64 / (*greatest).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::places::Places;

    #[test]
    fn a_lock_is_timed_and_what_is_none_is_refused() {
        let places = Places::of_this_thread().unwrap();
        for members in [1, 2, 5] {
            let bout =
                Bout { places: &places, members, work_ns: 0.0, time: Duration::from_millis(2) };
            let counter = Mutex::new(0);
            let shares = bout.contend(|_| || *counter.lock().unwrap() += 1).unwrap();
            let measured = shares.with(counter.into_inner().unwrap()).unwrap();
            assert!(measured.ns > 0.0 && measured.pinned, "{measured:?}");
            assert_eq!(measured.fairness.is_some(), members > 1);
            // As if every second addition were lost.
            let counter = AtomicU64::new(0);
            let add = || {
                counter.fetch_add(1, Ordering::Relaxed);
            };
            let shares = bout.contend(|_| add).unwrap();
            let refused = shares.with(counter.into_inner() / 2).unwrap_err().to_string();
            assert!(refused.contains("at once"), "{refused}");
        }
    }

    #[test]
    fn fairness_is_of_the_least_and_the_greatest() {
        assert_eq!(fairness(&[7]), None);
        assert_eq!(fairness(&[5, 10, 8]), Some(0.5));
        assert_eq!(fairness(&[0, 0]), Some(0.0));
    }
}
