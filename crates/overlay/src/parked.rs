//! The parked workers of a pool: an event count for each worker, and how many have announced that
//! they are about to sleep.
//!
//! # Contract
//! A worker that finds nothing to do [parks](ParkedWorkers::park): it announces itself, looks once
//! more, and sleeps. A thread that makes work does so first, asks afterwards whether there is
//! [`any`](ParkedWorkers::any) announced worker, and unparks. No work is missed, as the two looks
//! cannot both fail:
//!
//! | maker of work             | worker that parks                              |
//! |---------------------------|------------------------------------------------|
//! | makes the work            | announces itself: `announced` + 1, its mark     |
//! | a fence                   | a fence                                        |
//! | loads `announced`         | looks for work                                 |
//!
//! The worker's fence is in [`EventCount::announce`]. The maker's is its own business: ready queues
//! have a section in common with the worker's look, which does as well; compiled overlays have a
//! fence.
//!
//! # Why it is not an event count alone
//! The mark of each worker, its sleep and its wake-up are those of [`EventCount`]. The number
//! beside them lets a maker of work find in one load, of one line, that no worker sleeps, however
//! many there are; and one event count per worker lets it choose the worker whose home the work is.
//! The boards of a farm have a bit for each worker in place of the number: there a process may be
//! killed at any step, and what it has counted cannot be taken back, while a bit can be cleared for
//! it.
//!
//! # Costs
//! While no worker is parked, a maker of work loads one shared word. To unpark: a read-modify-write
//! each of the mark, the number and the count, and a system call if the worker is past its yields.
//!
//! # Source
//! See [`EventCount`]; `rayon-core/src/sleep/README.md` describes one that also counts the jobs.

use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering};
use syncline_signal::{Policy, WaitError, event_count::EventCount, plant};
use syncline_sync::{Space, space::Array};
use syncline_trace::{Activity, span};

#[derive(Debug)]
pub(crate) struct ParkedWorkers {
    /// One word: at least the number of workers whose marks are up.
    announced: Array<AtomicU64>,
    workers: Array<EventCount>,
    /// The workers that run the same tasks are this many, one after the other.
    group: usize,
}

impl ParkedWorkers {
    /// The workers of a pool in this process.
    pub(crate) fn new(workers: usize) -> Self {
        const FITS: &str = "an array on the heap fails only if it is larger than the address space";
        let space = &mut Space::heap();
        let (announced, all) = (space.array(1).expect(FITS), space.array(workers).expect(FITS));
        ParkedWorkers::of(announced, all, workers)
    }

    /// The workers of several pools, each with `group` workers. The words may stand in memory that
    /// processes share.
    pub(crate) fn of(
        announced: Array<AtomicU64>,
        workers: Array<EventCount>,
        group: usize,
    ) -> Self {
        ParkedWorkers { announced, workers, group: group.max(1) }
    }

    /// Whether a worker has announced itself, as far as the caller's fence or section lets it see.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.announced[0].load(Ordering::Relaxed) > 0
    }

    /// Announces worker `me`, and sleeps if there is still `nothing` to do.
    pub(crate) fn park(&self, me: usize, nothing: impl FnOnce() -> bool) {
        // Without a watch and a deadline the wait cannot fail.
        let _ = self.park_watching(me, &Policy::default(), nothing);
    }

    /// As [`park`](Self::park); the sleep also ends when the watch of `policy` names a partner, and
    /// the result is then the error of the wait.
    pub(crate) fn park_watching(
        &self,
        me: usize,
        policy: &Policy<'_>,
        nothing: impl FnOnce() -> bool,
    ) -> Result<(), WaitError> {
        let worker = &self.workers[me];
        // Counted first: the thread that takes a mark down subtracts one, and must not subtract
        // that of another worker. Relaxed: the Release of the mark publishes it.
        let late = plant::is("parked: counted after its mark");
        if !late {
            self.announced[0].fetch_add(1, Ordering::Relaxed);
        }
        let seen = worker.announce();
        if late {
            self.announced[0].fetch_add(1, Ordering::Relaxed);
        }
        let waited = if nothing() {
            let _waits = span(Activity::AwaitTask, 0, 0);
            worker.wait(seen, policy, None)
        } else {
            Ok(())
        };
        if worker.cancel() {
            self.announced[0].fetch_sub(1, Ordering::Relaxed);
        }
        waited
    }

    /// Unparks one worker of the pool of `best`, preferably `best` itself.
    #[cold]
    pub(crate) fn unpark_one(&self, best: u32) {
        let (first, n) = (best as usize / self.group * self.group, self.group);
        (0..n).any(|k| self.unpark((first + (best as usize - first + k) % n) as u32));
    }

    /// Unparks this worker, and returns true, if it has announced itself.
    pub(crate) fn unpark(&self, worker: u32) -> bool {
        let unparked = self.workers[worker as usize].notify_announced();
        if unparked {
            // Relaxed: the Acquire of the mark puts it after the addition. It may come after the
            // next addition as well: until then the number is too large by one.
            self.announced[0].fetch_sub(1, Ordering::Relaxed);
        }
        unparked
    }

    /// Makes all workers return: those that run after the step that they are in.
    pub(crate) fn halt(&self, halt: &AtomicBool) {
        // Release: pairs with the Acquire loads of it in all loops of workers.
        halt.store(true, Ordering::Release);
        self.unpark_all();
    }

    /// Ends the sleep of each worker. The caller has made `nothing` false before, for all.
    pub(crate) fn unpark_all(&self) {
        self.workers.iter().for_each(EventCount::notify);
    }
}
