//! The ready tasks of a pool: one queue per home partition, and a bed per worker.
//!
//! # Contract
//! A pushed task is popped once, by some worker. Workers take from their own queue first and claim from
//! others' when they find nothing. A worker that finds nothing at all sleeps, and no push is missed.
//!
//! # Why no push is missed
//! A worker that wants to sleep lies down in its [bed](Beds) and then looks into each queue, inside its section; a
//! pusher looks at the beds inside the section in which it puts the task. If the pusher's section comes first the
//! worker finds the task; if the worker's comes first the pusher sees it lying, and wakes it.
//!
//! # Costs
//! Push and pop: a section each (a compare-and-swap and a store), on a line that only neighbours of
//! another home ever touch. With nobody asleep a push looks at one more shared word. Nothing allocates.
//!
//! # Source
//! Queues per worker are as old as work stealing. The look at the sleepers sits in the section that the push needs
//! anyway, so it needs no fence.

use syncline_signal::primitive::{AtomicBool, AtomicU32, Ordering, hint};
use syncline_signal::{plant, spinlock::SpinLock};

use crate::beds::Beds;

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
    beds: Beds,
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
            beds: Beds::new(workers),
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
        let sleepers_before = self.beds.anyone();
        let (head, len) = (queue.head.load(Ordering::Relaxed), queue.len.load(Ordering::Relaxed));
        queue.place(head.wrapping_add(len)).store(task, Ordering::Relaxed);
        queue.len.store(len + 1, Ordering::Relaxed);
        drop(section);
        if sleepers_before {
            self.beds.wake_one(home);
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
        let nothing = |queue: &Queue| {
            let _section = queue.lock.lock();
            queue.len.load(Ordering::Relaxed) == 0
        };
        self.beds.sleep(me, || {
            // Acquire: as in `next`.
            !over.load(Ordering::Acquire)
                && (plant::is("pool: no second look") || self.queues.iter().all(nothing))
        });
    }

    /// Forgets all ready tasks. Nobody takes any meanwhile.
    pub(crate) fn clear(&self) {
        for queue in &self.queues {
            let _section = queue.lock.lock();
            queue.len.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes all workers. The caller has set `over`.
    pub(crate) fn close(&self) {
        self.beds.close();
    }
}
