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

use syncline_signal::primitive::{AtomicBool, AtomicU32, Ordering};
use syncline_signal::{Policy, event_count::EventCount, plant};

#[derive(Debug)]
pub(crate) struct ParkedWorkers {
    /// At least the number of workers whose marks are up.
    announced: AtomicU32,
    workers: Box<[EventCount]>,
}

impl ParkedWorkers {
    pub(crate) fn new(workers: usize) -> Self {
        ParkedWorkers {
            announced: AtomicU32::new(0),
            workers: (0..workers).map(|_| EventCount::new()).collect(),
        }
    }

    /// Whether a worker has announced itself, as far as the caller's fence or section lets it see.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.announced.load(Ordering::Relaxed) > 0
    }

    /// Announces worker `me`, and sleeps if there is still `nothing` to do.
    pub(crate) fn park(&self, me: usize, nothing: impl FnOnce() -> bool) {
        let worker = &self.workers[me];
        // Counted first: the thread that takes a mark down subtracts one, and must not subtract
        // that of another worker. Relaxed: the Release of the mark publishes it.
        let late = plant::is("parked: counted after its mark");
        if !late {
            self.announced.fetch_add(1, Ordering::Relaxed);
        }
        let seen = worker.announce();
        if late {
            self.announced.fetch_add(1, Ordering::Relaxed);
        }
        if nothing() {
            // Without a watch and a deadline the wait cannot fail.
            let _ = worker.wait(seen, &Policy::default(), None);
        }
        if worker.cancel() {
            self.announced.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Unparks one worker, preferably `best`.
    #[cold]
    pub(crate) fn unpark_one(&self, best: u32) {
        let n = self.workers.len();
        (0..n).any(|k| self.unpark(((best as usize + k) % n) as u32));
    }

    /// Unparks this worker, and returns true, if it has announced itself.
    pub(crate) fn unpark(&self, worker: u32) -> bool {
        let unparked = self.workers[worker as usize].notify_announced();
        if unparked {
            // Relaxed: the Acquire of the mark puts it after the addition. It may come after the
            // next addition as well: until then the number is too large by one.
            self.announced.fetch_sub(1, Ordering::Relaxed);
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
