//! The ready tasks of a pool: one queue per home partition, and an event count per worker.
//!
//! # Contract
//! A pushed task is popped once, by some worker. Workers take from their own queue first and claim
//! from others' when they find nothing. A worker that finds nothing at all sleeps, and no push is
//! missed.
//!
//! # Why no push is missed
//! A worker that [parks](ParkedWorkers) announces itself and then looks into each queue, inside its
//! section; a pusher asks for announced workers inside the section in which it puts the task. If
//! the pusher's section comes first the worker finds the task; if the worker's comes first the
//! pusher sees that it is announced, and unparks it.
//!
//! # How a worker waits
//! It pauses between looks: 24 times at its own queue, 71 times at all queues. Then it parks, and
//! yields before it sleeps, already announced, so that a push ends its yields by a word that no
//! other worker looks at. It yields there, and not between looks, because looks at all queues take
//! their lines from the workers that push.
//!
//! # Costs
//! Push and pop: a section each (a compare-and-swap and a store), on a line that only neighbours of
//! another home ever touch. While no worker is parked a push loads one more shared word. Nothing
//! allocates.
//!
//! # Source
//! Queues per worker are as old as work stealing. The load of the number of announced workers is in
//! the section that the push needs anyway, so it needs no fence.

use std::time::Duration;

use syncline_signal::primitive::{AtomicBool, AtomicU32, Ordering};
use syncline_signal::{Policy, plant, spin_wait::SpinWait, spinlock::SpinLock};

use crate::parked::ParkedWorkers;

/// The pauses of a worker that looks at its own queue only.
const AT_HOME: Policy<'_> = Policy { pauses: 24, yield_for: Duration::ZERO, liveness: None };
/// The pauses of a worker that claims from others' queues as well, before it parks.
const AROUND: Policy<'_> = Policy { pauses: 71, yield_for: Duration::ZERO, liveness: None };

#[derive(Debug)]
pub(crate) struct ReadyQueues {
    queues: Box<[Queue]>,
    /// The home of each task: the number of a queue and of its worker.
    home: Box<[u32]>,
    depth_first: bool,
    parked: ParkedWorkers,
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
            parked: ParkedWorkers::new(workers),
        }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Makes `task` ready. Any thread may call it.
    #[inline]
    pub(crate) fn push(&self, task: u32) {
        let home = self.home[task as usize];
        let queue = &self.queues[home as usize];
        let section = queue.lock.lock();
        let any_parked = self.parked.any();
        let (head, len) = (queue.head.load(Ordering::Relaxed), queue.len.load(Ordering::Relaxed));
        queue.place(head.wrapping_add(len)).store(task, Ordering::Relaxed);
        queue.len.store(len + 1, Ordering::Relaxed);
        drop(section);
        if any_parked {
            self.parked.unpark_one(home);
        }
    }

    /// Returns the next task for worker `me`, which waits for one; `None` when the run is `over`.
    pub(crate) fn next(&self, me: usize, over: &AtomicBool) -> Option<u32> {
        let (mut at_home, mut around) =
            (SpinWait::new(&AT_HOME, None), SpinWait::new(&AROUND, None));
        loop {
            // First of all: a run that failed ends although there are ready tasks. Acquire: pairs
            // with the Release in `close`'s caller; the worker then reads what the run left.
            if over.load(Ordering::Acquire) {
                return None;
            }
            if let Some(task) = self.queues[me].take(self.depth_first) {
                return Some(task);
            }
            if at_home.spin() {
                continue;
            }
            if let Some(task) = self.claim(me) {
                return Some(task);
            }
            if !around.spin() {
                self.park(me, over);
                around.reset();
            }
        }
    }

    /// Takes the oldest task of another worker's queue.
    fn claim(&self, me: usize) -> Option<u32> {
        let n = self.queues.len();
        (1..n).find_map(|k| self.queues[(me + k) % n].take(false))
    }

    /// Sleeps until there may be something to do.
    fn park(&self, me: usize, over: &AtomicBool) {
        let nothing = |queue: &Queue| {
            let _section = queue.lock.lock();
            queue.len.load(Ordering::Relaxed) == 0
        };
        self.parked.park(me, || {
            // Acquire: as in `next`.
            !over.load(Ordering::Acquire)
                && (plant::is("pool: no second look") || self.queues.iter().all(nothing))
        });
    }

    /// Discards all ready tasks. No worker takes any meanwhile.
    pub(crate) fn clear(&self) {
        for queue in &self.queues {
            let _section = queue.lock.lock();
            queue.len.store(0, Ordering::Relaxed);
        }
    }

    /// Unparks all workers. The caller has set `over`.
    pub(crate) fn close(&self) {
        self.parked.unpark_all();
    }
}
