//! The loop of a thread that wants a lock.
//!
//! Members lock, add 1 to a plain counter, and unlock, until the time is over, and count how often
//! they did. The clock starts when each has done so once: of threads that wait for a processor some
//! would begin too late to be in another's way. The counter stands beside the lock and must be the
//! sum in the end. `lab/peers/lock_pthread.c` does the same in C: change both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bout, Measured};
use crate::error::Result;
use crate::race::{Phase, team};

/// How often it is looked whether all have begun.
const GLANCE: Duration = Duration::from_micros(50);

/// How often the members had a lock.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) shares: Vec<u64>,
    /// And before the clock started.
    pub(crate) before: u64,
    pub(crate) time: Duration,
    pub(crate) pinned: bool,
}

/// A member, which may begin: how often it had the lock before the clock started (and once when it
/// had stopped), and then.
pub(crate) fn compete(phase: &Phase, begun: &AtomicU64, mut once: impl FnMut()) -> (u64, u64) {
    let (mut before, mut share) = (0, 0);
    loop {
        // In one place, so that it is inlined, as it is in the loop of a program.
        once();
        if phase.is_timed() {
            share += 1;
            continue;
        }
        before += 1;
        if before == 1 {
            // Relaxed: nothing but the number is handed over.
            begun.fetch_add(1, Ordering::Relaxed);
        }
        if !phase.is_warm_up() && !phase.is_timed() {
            return (before, share);
        }
    }
}

impl Bout<'_> {
    /// Times a lock: `member` makes what member `i` locks, adds 1 and unlocks by.
    ///
    /// # Errors
    /// When a thread cannot be started.
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

    /// Starts the clock when all members have begun, and ends the run; how long it took.
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
    /// What was measured, if the counter has this value.
    ///
    /// # Errors
    /// When two members were in the lock at once.
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

/// The least share by the greatest; `None` if there is but one.
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
