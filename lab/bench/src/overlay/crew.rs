//! The threads of a run: each pinned to a processor, and a clock that starts after a warm-up.
//!
//! Some kernels place two threads that start on an idle machine on one processor for the first ten
//! milliseconds. A run of that length would measure the placement of its threads, not how they wait
//! for each other. Worker `w` is therefore pinned to processor `w` of those that the process may
//! run on (modulo their number if there are more workers), and steps are timed only after others of
//! the same run by the same threads.
//!
//! ```text
//! worker 0   |......................|#################|     . untimed steps   # timed steps
//! worker 1       |..................|################|
//!            begin              the clock starts     end: all have returned
//!                               when `warm` steps are done
//! ```
//!
//! The loop of a worker calls [`PoolBuilder::pin`] at its beginning and [`PoolBuilder::start`] at
//! the first timed step. Threads of a runner have no such points: there every body calls
//! [`PoolBuilder::step`]. A thread is pinned in its first step, and workers count their steps,
//! because tasks that do not wait for each other may be any number of iterations apart: the
//! iteration of a single task does not tell how many steps remain. Counts are read with an error of
//! at most [`STRIDE`] steps per worker.
//!
//! Cost of a step: an addition to a thread-local number and a branch; every 32nd time a call.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::places::Places;

/// The number of steps after which a worker publishes its count.
const STRIDE: u64 = 32;

thread_local! {
    /// The steps of this thread.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The worker that this thread is; `usize::MAX` until it is assigned.
    static WORKER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The workers of one run.
pub(crate) struct PoolBuilder<'p> {
    places: &'p Places,
    workers: usize,
    /// The number of steps before the clock starts.
    warm: u64,
    /// The number of a runner's threads that have been pinned, without the leader.
    arrived: AtomicUsize,
    unpinned: AtomicBool,
    steps: Vec<Steps>,
    begin: OnceLock<Instant>,
    /// The start of the clock, and the number of steps done by then.
    start: OnceLock<(Instant, u64)>,
    end: OnceLock<Instant>,
}

/// The steps of a worker, on a cache line of their own.
#[repr(align(128))]
struct Steps(AtomicU64);

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The wall time of the timed steps, in seconds.
    pub(crate) seconds: f64,
    /// The number of timed steps.
    pub(crate) steps: u64,
    /// The checksum of all values.
    pub(crate) checksum: u64,
    /// Whether all threads were pinned.
    pub(crate) pinned: bool,
}

impl<'p> PoolBuilder<'p> {
    /// Returns a crew whose clock starts after `warm` steps.
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

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Calls `run`, in which the calling thread is worker 0; its affinity is restored when `run`
    /// returns.
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

    /// Starts the clock; must be called by one worker, when all untimed steps are done, and no
    /// others.
    pub(crate) fn start(&self) {
        self.start.get_or_init(|| (Instant::now(), self.warm));
    }

    /// Counts a step; must be called at the beginning of a body.
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
                // A run may continue with other threads: as many, after all of these have ended.
                let others = self.workers.saturating_sub(1).max(1);
                WORKER.set(1 + self.arrived.fetch_add(1, Ordering::Relaxed) % others);
            }
            self.pin(WORKER.get());
        } else if let Some(Steps(steps)) = self.steps.get(WORKER.get()) {
            // No other thread writes the count.
            steps.store(steps.load(Ordering::Relaxed) + STRIDE, Ordering::Relaxed);
        }
        if self.start.get().is_none() {
            let done = self.steps.iter().map(|Steps(steps)| steps.load(Ordering::Relaxed)).sum();
            if done >= self.warm {
                self.start.get_or_init(|| (Instant::now(), done));
            }
        }
    }

    /// Returns the measurement of a run of `steps` steps in all. If the run is too short for the
    /// clock, all its steps are timed.
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

/// Makes the calling thread worker 0 until it is dropped.
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
            // An affinity that could be read can be set; otherwise the thread stays where it is.
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

    /// Returns the processors of the threads of two of a runner's crews, one after the other in one
    /// run.
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
            // As soon as counts are published, which is at once on one worker.
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
