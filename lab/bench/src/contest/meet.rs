//! The loop of a member of a barrier.
//!
//! ```text
//! checked | chunk . chunk . chunk ...  . chunk | chunk . chunk ...  | = the clock starts  . = plan
//! ```
//!
//! Member 0 reads the clock after each chunk of episodes, and plans the next one: as many episodes,
//! twice as many if this chunk took a small part of the available time, or none. A chunk ends with
//! an episode; one more episode, which is not timed, passes the plan, so that members read it
//! before it can change. A run of any barrier therefore ends after about its time or, if that is
//! less than an episode, after a few episodes. `lab/peers/barrier.h` has the same in C: change
//! both.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Bout, Measured};
use crate::error::Result;
use crate::kernel::{calibrate, kernel};
use crate::race::{Line, Phase, team};

/// The number of episodes in which each member checks that all have arrived.
const CHECKED: u64 = 4;
/// The part of the time before the clock starts.
const WARM_UP: u32 = 8;
/// A chunk takes at least this part of the time.
const CHUNKS: u32 = 32;
/// The number of iterations that calibrate the work.
const CALIBRATION: u64 = 1 << 14;

/// The words that members share besides the barrier, in memory that all of them share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board<'w> {
    /// The number of episodes of the next chunk, or 0.
    pub(crate) plan: &'w Line<AtomicU64>,
    /// For each member, the checked episode in which it has arrived; 0 before the run.
    pub(crate) arrived: &'w [Line<AtomicU64>],
}

/// The observations of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The wall time of the timed episodes: member 0 only.
    pub(crate) time: Duration,
    /// The number of timed episodes.
    pub(crate) episodes: u64,
    /// Whether it left an episode in which not all members had arrived.
    pub(crate) wrong: bool,
}

/// The work between two episodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) iterations: u64,
    /// The nanoseconds of an iteration.
    each: f64,
}

/// The error for a barrier that does not hold its members.
pub(crate) const WRONG: &str = "a member left an episode in which not all had arrived";

/// Does the work, with the same code for all barriers: inlined into the loop of one barrier, it
/// lost its register there.
#[inline(never)]
fn busy(x: u64, iterations: u64) -> u64 {
    kernel(x, iterations)
}

/// Runs member `me`; `meet` arrives and waits, between works of a number of iterations.
pub(crate) fn attend(
    board: Board<'_>,
    me: usize,
    time: Duration,
    work: u64,
    mut meet: impl FnMut(),
) -> Seen {
    let Board { plan: Line(plan), arrived } = board;
    let mut seen = Seen::default();
    // Relaxed, in all accesses: the barrier provides the ordering.
    for episode in 1..=CHECKED {
        arrived[me].0.store(episode, Ordering::Relaxed);
        meet();
        let right = |Line(word): &Line<AtomicU64>| {
            (episode..=episode + 1).contains(&word.load(Ordering::Relaxed))
        };
        seen.wrong |= !arrived.iter().all(right);
    }
    let (begin, mut timed, mut chunk) = (Instant::now(), false, 1);
    while chunk > 0 {
        let start = Instant::now();
        for _ in 0..chunk {
            if work > 0 {
                black_box(busy(black_box(me as u64), work));
            }
            meet();
        }
        if me == 0 {
            let end = Instant::now();
            if timed {
                seen.time += end - start;
                seen.episodes += chunk;
            }
            let next = match end - start {
                _ if timed && seen.time >= time => 0,
                short if short < time / CHUNKS => 2 * chunk,
                _ => chunk,
            };
            timed = timed || end - begin >= time / WARM_UP;
            plan.store(next, Ordering::Relaxed);
        }
        meet();
        chunk = plan.load(Ordering::Relaxed);
    }
    seen
}

impl Bout<'_> {
    /// Times a barrier: `member` returns the function by which member `i` arrives and waits.
    ///
    /// # Errors
    /// If a thread cannot be started, or if the subject is not a barrier.
    pub(crate) fn meet<M: FnMut() + Send>(
        &self,
        mut member: impl FnMut(usize) -> M,
    ) -> Result<Measured> {
        let work = self.work();
        let plan = Line(AtomicU64::new(0));
        let arrived: Vec<_> = (0..self.members).map(|_| Line(AtomicU64::new(0))).collect();
        let board = Board { plan: &plan, arrived: &arrived };
        let bodies: Vec<_> = (0..self.members)
            .map(|me| {
                let meet = member(me);
                move || attend(board, me, self.time, work.iterations, meet)
            })
            .collect();
        let done = team(self.pinned(), &Phase::default(), bodies, || ())?;
        if done.members.iter().any(|seen| seen.wrong) {
            return Err(WRONG.into());
        }
        let ns = self.episode(done.members[0], work);
        Ok(Measured { ns, pinned: done.pinned, fairness: None })
    }

    /// Calibrates the work.
    pub(crate) fn work(&self) -> Work {
        let each = calibrate(CALIBRATION);
        Work { iterations: (self.work_ns / each).round() as u64, each }
    }

    /// Returns the nanoseconds of an episode, without the work, from the observations of member 0.
    pub(crate) fn episode(&self, seen: Seen, work: Work) -> f64 {
        // Members that share a processor work one after the other.
        let shared = (self.members as f64 / self.processors() as f64).max(1.0);
        let whole = seen.time.as_nanos() as f64 / seen.episodes as f64;
        whole - work.iterations as f64 * work.each * shared
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread::yield_now;

    use super::*;
    use crate::places::Places;

    #[test]
    fn a_barrier_is_timed_and_what_is_none_is_refused() {
        let places = Places::of_this_thread().unwrap();
        for (members, work_ns) in [(1, 0.0), (2, 0.0), (2, 500.0), (5, 0.0)] {
            let bout = Bout { places: &places, members, work_ns, time: Duration::from_millis(2) };
            let barrier = Barrier::new(members);
            let wait = || {
                barrier.wait();
            };
            let measured = bout.meet(|_| wait).unwrap();
            assert!(measured.ns.is_finite() && measured.pinned, "{measured:?}");
        }
        // Member 1 waits in its first episode until member 0 has left its third.
        let bout =
            Bout { places: &places, members: 2, work_ns: 0.0, time: Duration::from_millis(2) };
        let left = AtomicU64::new(0);
        let none = |me| {
            let left = &left;
            move || match me {
                0 => left.store(left.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
                _ => (0..)
                    .take_while(|_| left.load(Ordering::Relaxed) < 4)
                    .for_each(|_: u64| yield_now()),
            }
        };
        let refused = bout.meet(none).unwrap_err().to_string();
        assert!(refused.contains("left an episode"), "{refused}");
    }
}
