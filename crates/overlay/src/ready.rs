//! The ready tasks of a pool: one queue per home partition, and a bed per worker.
//!
//! # Contract
//! A pushed task is popped once, by some worker. Workers take from their own queue first and claim from
//! others' when they find nothing. A worker that finds nothing at all sleeps, and no push is missed.
//!
//! # Why no push is missed, without a fence
//! | pusher, inside the section of a queue | worker that wants to sleep              |
//! |---------------------------------------|------------------------------------------|
//! | puts the task in                      | lies down: `asleep`, `sleepers` + 1      |
//! | looks at `sleepers`                   | looks into each queue, inside its section |
//!
//! Both use the section of one queue. If the pusher's comes first the worker finds the task; if the
//! worker's comes first the pusher sees it lying, and wakes it.
//!
//! # Costs
//! Push and pop: a section each (a compare-and-swap and a store), on a line that only neighbours of
//! another home ever touch. With nobody asleep a push looks at one more shared word. Nothing allocates.
//!
//! # Source
//! The sleep is an event count; see `rayon-core/src/sleep/README.md` for one with fences. Changed: the
//! look at the sleepers sits in the section that the push needs anyway.

use syncline_signal::primitive::{AtomicBool, AtomicU32, Ordering, hint};
use syncline_signal::{Policy, Signal, SpinLock, plant};

/// Looks at its own queue before a worker claims from others'.
const LOOKS_AT_HOME: u32 = if cfg!(loom) { 0 } else { 24 };
/// Looks around before a worker lies down.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 96 };

#[derive(Debug)]
pub(crate) struct ReadyQueues {
    queues: Box<[Queue]>,
    /// The home of each task: the number of a queue and of its worker.
    home: Box<[u32]>,
    depth_first: bool,
    /// Workers that lie in their beds, at least.
    sleepers: AtomicU32,
    beds: Box<[Bed]>,
}

/// A ring with a place for every task of the partition; each is in it at most once.
#[derive(Debug)]
#[repr(align(128))]
struct Queue {
    lock: SpinLock,
    /// Place of the first task. Like `len` and `ring`: written inside the section only.
    head: AtomicU32,
    len: AtomicU32,
    mask: u32,
    ring: Box<[AtomicU32]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Bed {
    /// Set by the sleeper; cleared by whoever takes it on himself to wake it.
    asleep: AtomicBool,
    wake: Signal,
}

impl Queue {
    fn new(capacity: usize) -> Self {
        let len = capacity.next_power_of_two().max(1);
        Queue {
            lock: SpinLock::new(),
            head: AtomicU32::new(0),
            len: AtomicU32::new(0),
            mask: len as u32 - 1,
            ring: (0..len).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn place(&self, i: u32) -> &AtomicU32 {
        &self.ring[(i & self.mask) as usize]
    }

    fn take(&self, newest: bool) -> Option<u32> {
        // A look from outside, only to leave the line alone while the queue is empty.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let _section = self.lock.lock();
        let (head, len) = (self.head.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        if len == 0 {
            return None;
        }
        self.len.store(len - 1, Ordering::Relaxed);
        if newest {
            return Some(self.place(head.wrapping_add(len - 1)).load(Ordering::Relaxed));
        }
        self.head.store(head.wrapping_add(1), Ordering::Relaxed);
        Some(self.place(head).load(Ordering::Relaxed))
    }
}

impl ReadyQueues {
    /// Queues for `workers` workers and tasks with these homes (each less than `workers`).
    pub(crate) fn new(workers: usize, home: Box<[u32]>, depth_first: bool) -> Self {
        let tasks_of = |w: usize| home.iter().filter(|&&h| h as usize == w).count();
        ReadyQueues {
            queues: (0..workers).map(|w| Queue::new(tasks_of(w))).collect(),
            home,
            depth_first,
            sleepers: AtomicU32::new(0),
            beds: (0..workers)
                .map(|_| Bed { asleep: AtomicBool::new(false), wake: Signal::new(0) })
                .collect(),
        }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Makes `task` ready. Anybody may call it.
    #[inline]
    pub(crate) fn push(&self, task: u32) {
        let home = self.home[task as usize];
        let queue = &self.queues[home as usize];
        let section = queue.lock.lock();
        let sleepers_before = self.sleepers.load(Ordering::Relaxed);
        let (head, len) = (queue.head.load(Ordering::Relaxed), queue.len.load(Ordering::Relaxed));
        queue.place(head.wrapping_add(len)).store(task, Ordering::Relaxed);
        queue.len.store(len + 1, Ordering::Relaxed);
        drop(section);
        if sleepers_before > 0 {
            self.wake_one(home);
        }
    }

    /// Wakes one sleeper, best the one at home.
    #[cold]
    fn wake_one(&self, home: u32) {
        let n = self.beds.len();
        for k in 0..n {
            let bed = &self.beds[(home as usize + k) % n];
            // Relaxed: who clears the flag wakes; the signal carries the rest.
            if bed.asleep.load(Ordering::Relaxed) && bed.asleep.swap(false, Ordering::Relaxed) {
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
                bed.wake.add(1);
                return;
            }
        }
    }

    /// The next task for worker `me`; waits for one. `None` when `over` says that the run is.
    pub(crate) fn next(&self, me: usize, over: &AtomicBool) -> Option<u32> {
        let mut looks = 0;
        loop {
            // First of all: a run that failed ends although there are ready tasks.
            // Acquire: pairs with the Release in `close`'s caller; the worker then reads what the run left.
            if over.load(Ordering::Acquire) {
                return None;
            }
            if let Some(task) = self.queues[me].take(self.depth_first) {
                return Some(task);
            }
            looks += 1;
            if looks > LOOKS_AT_HOME
                && let Some(task) = self.claim(me)
            {
                return Some(task);
            }
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                self.sleep(me, over);
                looks = LOOKS_AT_HOME;
            }
        }
    }

    /// The oldest task of another's queue.
    fn claim(&self, me: usize) -> Option<u32> {
        let n = self.queues.len();
        (1..n).find_map(|k| self.queues[(me + k) % n].take(false))
    }

    /// Sleeps until there may be something to do.
    fn sleep(&self, me: usize, over: &AtomicBool) {
        let bed = &self.beds[me];
        // Before the look at `over`: a `close` after the look raises the signal beyond this.
        let wakes = bed.wake.get();
        bed.asleep.store(true, Ordering::Relaxed);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let nothing = |queue: &Queue| {
            let _section = queue.lock.lock();
            queue.len.load(Ordering::Relaxed) == 0
        };
        // Acquire: as in `next`.
        let stay = !over.load(Ordering::Acquire)
            && (plant::is("pool: no second look") || self.queues.iter().all(nothing));
        if stay {
            // Without death word or deadline the wait cannot fail.
            let _ = bed.wake.wait_until(wakes + 1, &Policy::default(), None);
        }
        // After a wake the flag is down already; else take it down, unless a waker was faster.
        if bed.asleep.swap(false, Ordering::Relaxed) {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes all workers. The caller has set `over`.
    pub(crate) fn close(&self) {
        for bed in &self.beds {
            bed.wake.add(1);
        }
    }
}
