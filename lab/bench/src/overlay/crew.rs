//! The threads of a run: each pinned to a processor, and a clock that starts when they have warmed
//! up.
//!
//! Some kernels put two threads that start on an idle machine on one processor for the first ten
//! milliseconds. A run of that length would measure where its threads are, not how they wait for
//! each other. So worker `w` is pinned to processor `w` of those that the process may run on, round
//! and round if there are more workers, and steps are timed only after others of the same run by
//! the same threads.
//!
//! ```text
//! worker 0   |......................|#################|     . steps that are not timed   # timed
//! worker 1       |..................|################|
//!            begin              the clock starts     end: all have returned
//!                               as `warm` steps are done
//! ```
//!
//! The loop of a worker calls [`PoolBuilder::pin`] at its beginning and [`PoolBuilder::start`] at the first step
//! that is timed. Threads of a runner have no such place: there every body calls [`PoolBuilder::step`]. A
//! thread is pinned in its first one, and workers count their steps, as tasks that do not wait for
//! each other may be any number of iterations apart: an iteration of a single task says nothing of
//! how many steps are still to be done. Counts are read with an error of at most [`STRIDE`] steps
//! per worker.
//!
//! Cost of a step: an addition to a number of the thread and a branch; every 32nd time a call.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::places::Places;

/// After how many steps a worker tells how far it is.
const STRIDE: u64 = 32;

thread_local! {
    /// The steps of this thread.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// Which worker it is; `usize::MAX` until it knows.
    static WORKER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The workers of one run.
pub(crate) struct PoolBuilder<'p> {
    places: &'p Places,
    workers: usize,
    /// Steps before the clock starts.
    warm: u64,
    /// Threads of a runner that have been pinned, the leader apart.
    arrived: AtomicUsize,
    unpinned: AtomicBool,
    steps: Vec<Steps>,
    begin: OnceLock<Instant>,
    /// When the clock started, and the steps that were done then.
    start: OnceLock<(Instant, u64)>,
    end: OnceLock<Instant>,
}

/// Steps of a worker, on a cache line of their own.
#[repr(align(128))]
struct Steps(AtomicU64);

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Wall time of the steps that are timed.
    pub(crate) seconds: f64,
    /// How many these are.
    pub(crate) steps: u64,
    /// Of all values.
    pub(crate) checksum: u64,
    /// Whether all threads were pinned.
    pub(crate) pinned: bool,
}

impl<'p> PoolBuilder<'p> {
    /// Workers that are timed after `warm` steps.
    pub(crate) fn new(places: &'p Places, workers: usize, warm: u64) -> Self {
        Self {
            places,
            workers,
            warm,
            arrived: AtomicUsize::new(0),
            unpinned: AtomicBool::new(false),
            steps: (0..workers).map(|_| Steps(AtomicU64::new(0))).collect(),
            begin: OnceLock::new(),
            start: OnceLock::new(),
            end: OnceLock::new(),
        }
    }

    /// How many they are.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Calls `run`, in which the calling thread is worker 0; it may run where it could before when
    /// that returns.
    pub(crate) fn lead<T>(&self, run: impl FnOnce() -> T) -> T {
        let _leader = Leader::new();
        self.begin.get_or_init(Instant::now);
        let done = run();
        self.end.get_or_init(Instant::now);
        done
    }

    /// Pins the calling thread to the place of a worker.
    pub(crate) fn pin(&self, worker: usize) {
        if !self.places.pin(worker) {
            self.unpinned.store(true, Ordering::Relaxed);
        }
    }

    /// Starts the clock when all steps that are not timed are done, and no others. For one of the
    /// workers.
    pub(crate) fn start(&self) {
        self.start.get_or_init(|| (Instant::now(), self.warm));
    }

    /// Says that a body begins.
    #[inline]
    pub(crate) fn step(&self) {
        let done = STEPS.get();
        STEPS.set(done + 1);
        if done.is_multiple_of(STRIDE) {
            self.look(done);
        }
    }

    #[inline(never)]
    fn look(&self, done: u64) {
        if done == 0 {
            if WORKER.get() == usize::MAX {
                // A run may go on with other threads: as many, when all of these have ended.
                let others = self.workers.saturating_sub(1).max(1);
                WORKER.set(1 + self.arrived.fetch_add(1, Ordering::Relaxed) % others);
            }
            self.pin(WORKER.get());
        } else if let Some(Steps(steps)) = self.steps.get(WORKER.get()) {
            // No other thread writes to it.
            steps.store(steps.load(Ordering::Relaxed) + STRIDE, Ordering::Relaxed);
        }
        if self.start.get().is_none() {
            let done = self.steps.iter().map(|Steps(steps)| steps.load(Ordering::Relaxed)).sum();
            if done >= self.warm {
                self.start.get_or_init(|| (Instant::now(), done));
            }
        }
    }

    /// What the run of `steps` steps in all gave. Those of a run that is too short for the clock
    /// are all timed.
    pub(crate) fn measured(&self, steps: u64, checksum: u64) -> Measured {
        let now = Instant::now();
        let (begin, end) = (*self.begin.get().unwrap_or(&now), *self.end.get().unwrap_or(&now));
        let (start, before) = self.start.get().copied().unwrap_or((begin, 0));
        Measured {
            seconds: (end - start).as_secs_f64(),
            steps: steps.saturating_sub(before).max(1),
            checksum,
            pinned: !self.unpinned.load(Ordering::Relaxed),
        }
    }
}

/// Makes the calling thread worker 0, until it is dropped.
struct Leader {
    before: Option<CpuSet>,
}

impl Leader {
    fn new() -> Self {
        STEPS.set(0);
        WORKER.set(0);
        Self { before: sched_getaffinity(None).ok() }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        WORKER.set(usize::MAX);
        STEPS.set(0);
        if let Some(before) = &self.before {
            // What could be read can be set; if not, the thread stays where it is.
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    fn here() -> Vec<usize> {
        Places::of_this_thread().unwrap().0
    }

    /// Where the threads of two crews of a runner were, one after the other in one run.
    fn places_of(crew: &PoolBuilder<'_>, steps: u64) -> Vec<Vec<usize>> {
        let seen = Mutex::new(Vec::new());
        let together = Barrier::new(crew.workers());
        let worker = || {
            (0..steps).for_each(|_| crew.step());
            seen.lock().unwrap().push(here());
            together.wait();
        };
        crew.lead(|| {
            for _ in 0..2 {
                std::thread::scope(|scope| {
                    (1..crew.workers()).for_each(|_| drop(scope.spawn(worker)));
                    worker();
                });
            }
        });
        seen.into_inner().unwrap()
    }

    #[test]
    fn workers_have_a_processor_each_and_the_leader_gets_all_back() {
        let (places, before) = (Places::of_this_thread().unwrap(), here());
        for workers in 1..=2 * places.len().min(8) {
            let crew = PoolBuilder::new(&places, workers, 0);
            let mut seen = places_of(&crew, 1);
            let mut wanted: Vec<_> = (0..workers)
                .map(|w| vec![before[w % before.len()]])
                .cycle()
                .take(2 * workers)
                .collect();
            seen.sort();
            wanted.sort();
            assert_eq!(seen, wanted);
            assert!(crew.measured(1, 0).pinned);
            assert_eq!(here(), before);
        }
    }

    #[test]
    fn the_leader_gets_its_processors_back_from_a_run_that_panics() {
        let (places, before) = (Places::of_this_thread().unwrap(), here());
        let crew = PoolBuilder::new(&places, 1, 0);
        let run = || {
            crew.lead(|| {
                crew.step();
                assert_eq!(here().len(), 1);
                panic!("planned");
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        assert_eq!(here(), before);
    }

    #[test]
    fn threads_that_cannot_be_pinned_are_told_of() {
        let places = Places::none();
        let crew = PoolBuilder::new(&places, 2, 0);
        assert!(places_of(&crew, 3).iter().all(|seen| *seen == here()));
        assert!(!crew.measured(1, 0).pinned);
    }

    #[test]
    fn the_clock_starts_when_the_steps_before_are_done() {
        let places = Places::of_this_thread().unwrap();
        for workers in [1, 2, 3] {
            // Both crews do their steps.
            let (each, warm) = (1000, 600);
            let all = 2 * each * workers as u64;
            let crew = PoolBuilder::new(&places, workers, warm);
            places_of(&crew, each);
            let measured = crew.measured(all, 0);
            // As soon as they are told of, which is at once on one worker.
            let late = STRIDE * (2 * workers as u64 - 1);
            assert!((all - warm - late..=all - warm).contains(&measured.steps), "{measured:?}");
            assert!(measured.seconds > 0.0);
        }
    }

    #[test]
    fn a_run_that_is_too_short_for_the_clock_is_timed_from_its_beginning() {
        let places = Places::none();
        let crew = PoolBuilder::new(&places, 1, 100);
        crew.lead(|| (0..50).for_each(|_| crew.step()));
        let measured = crew.measured(50, 7);
        assert_eq!((measured.steps, measured.checksum), (50, 7));
    }
}
