//! Where the workers of a pool sleep: a bed for each, and a count of those who lie.
//!
//! # Contract
//! A worker that finds nothing to do lies down, looks once more, and sleeps. Whoever makes work asks
//! afterwards whether [`anyone`](Beds::anyone) lies, and wakes. No work is missed if the two looks cannot both
//! fail:
//!
//! | maker of work           | worker that wants to sleep               |
//! |-------------------------|-------------------------------------------|
//! | makes the work          | lies down: `sleepers` + 1, `asleep`       |
//! | a fence                 | a fence                                   |
//! | looks at `sleepers`     | looks for work                            |
//!
//! The worker's fence is in [`sleep`](Beds::sleep). The maker's is its own business: the ready queues have a section
//! in common with the worker's look, which does as well; compiled overlays have a fence.
//!
//! # Costs
//! With nobody asleep a maker looks at one shared word. To wake: a system call if the worker is past its
//! yields.
//!
//! # Source
//! An event count; see `rayon-core/src/sleep/README.md` for one that also counts the jobs.

use syncline_signal::primitive::{AtomicBool, AtomicU32, Ordering, fence};
use syncline_signal::{Policy, Signal};

#[derive(Debug)]
pub(crate) struct Beds {
    /// Workers that lie in their beds, at least.
    sleepers: AtomicU32,
    beds: Box<[Bed]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Bed {
    /// Set by the sleeper; cleared by whoever takes it on himself to wake it.
    asleep: AtomicBool,
    wake: Signal,
}

impl Beds {
    pub(crate) fn new(workers: usize) -> Self {
        let bed = |_| Bed { asleep: AtomicBool::new(false), wake: Signal::new(0) };
        Beds { sleepers: AtomicU32::new(0), beds: (0..workers).map(bed).collect() }
    }

    /// Whether somebody lies, as far as the caller's fence or section lets it see.
    #[inline]
    pub(crate) fn anyone(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Lies down; sleeps if there is still `nothing` to do.
    pub(crate) fn sleep(&self, me: usize, nothing: impl FnOnce() -> bool) {
        let bed = &self.beds[me];
        // Before the look: a `close` after the look raises the signal beyond this.
        let wakes = bed.wake.get();
        // Counted first: who takes the flag down takes one off, and must not take that of another sleeper.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // Not a store: behind the exchange of a waker that comes late, it must be seen by the next.
        // Release: pairs with the Acquire in `wake`, so that the waker's subtraction comes after the addition.
        bed.asleep.swap(true, Ordering::Release);
        // SeqCst: with the fence of the maker, see the table.
        fence(Ordering::SeqCst);
        if nothing() {
            // Without death word or deadline the wait cannot fail.
            let _ = bed.wake.wait_until(wakes + 1, &Policy::default(), None);
        }
        // After a wake the flag is down already; else take it down, unless a waker was faster.
        if bed.asleep.swap(false, Ordering::Relaxed) {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes one sleeper, best this one.
    #[cold]
    pub(crate) fn wake_one(&self, best: u32) {
        let n = self.beds.len();
        (0..n).any(|k| self.wake(((best as usize + k) % n) as u32));
    }

    /// Wakes this one if it lies.
    pub(crate) fn wake(&self, who: u32) -> bool {
        let bed = &self.beds[who as usize];
        // Acquire: pairs with the Release in `sleep`. Who clears the flag wakes; the signal carries the rest.
        let lies = bed.asleep.load(Ordering::Relaxed) && bed.asleep.swap(false, Ordering::Acquire);
        if lies {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
            bed.wake.increment();
        }
        lies
    }

    /// Makes all workers return: those that run after the step that they are in.
    pub(crate) fn halt(&self, halt: &AtomicBool) {
        // Release: pairs with the Acquire looks at it in all loops of workers.
        halt.store(true, Ordering::Release);
        self.close();
    }

    /// Wakes all. The caller has said before why `nothing` is not so any more.
    pub(crate) fn close(&self) {
        for bed in &self.beds {
            bed.wake.increment();
        }
    }
}
