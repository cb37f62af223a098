//! Hand-written ways: a plain loop, a barrier after each level, and locks with condition variables.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use super::crew::PoolBuilder;
use super::program::Program;
use super::work::{WithWork, Work, checksum};

/// A hand-written run.
pub(crate) struct ByHand<'a> {
    /// The program to run.
    pub(crate) program: &'a Program,
    /// The threads that run it.
    pub(crate) crew: &'a PoolBuilder<'a>,
    /// The number of untimed rounds, and of timed ones.
    pub(crate) rounds: [u64; 2],
}

/// The loop over rounds and tasks, each thread through its part of the tasks, without any order
/// among threads. On one thread it is the sequential program; on more threads the values are wrong,
/// and the time excludes the cost of order.
pub(crate) struct Plain<'a>(pub(crate) ByHand<'a>);

impl WithWork for Plain<'_> {
    type Output = u64;

    fn call<W: Work>(self, work: W) -> u64 {
        let ByHand { program, crew, rounds: [warm, timed] } = self.0;
        let values: Vec<AtomicU64> = program.tasks.iter().map(|_| AtomicU64::new(0)).collect();
        let worker = |me: usize| {
            let mine = part(values.len(), me, crew.workers());
            let order =
                program.levels.iter().flatten().copied().filter(|&t| mine.contains(&(t as usize)));
            let order: Vec<u32> = order.collect();
            for round in 0..warm + timed {
                if me == 0 && round == warm {
                    crew.start();
                }
                // Empty tasks also have their turn in each round.
                for &t in black_box(&order) {
                    // Relaxed: one thread needs no ordering, and more threads are to have none.
                    let read = |&u: &u32| values[u as usize].load(Ordering::Relaxed);
                    if let Some(new) =
                        work.step(t, round, program.tasks[t as usize].reads.iter().map(read))
                    {
                        values[t as usize].store(new, Ordering::Relaxed);
                    }
                }
            }
        };
        on_threads(crew, worker);
        checksum(values.into_iter().map(AtomicU64::into_inner))
    }
}

/// Returns part `me` of `all` items, split evenly among `workers`.
fn part(all: usize, me: usize, workers: usize) -> std::ops::Range<usize> {
    all * me / workers..all * (me + 1) / workers
}

/// Each level's tasks split evenly, and a barrier after the level: all workers increment one word
/// and spin on it.
pub(crate) struct Barrier<'a>(pub(crate) ByHand<'a>);

/// A word on a cache line of its own.
#[repr(align(128))]
struct Word(AtomicU64);

/// The number of checks after which a worker yields its core.
const PATIENCE: u32 = 1 << 14;

impl Word {
    /// Waits until all workers have arrived `turn` times.
    #[inline]
    fn meet(&self, workers: u64, turn: u64) {
        // AcqRel: operations before any arrival happen before those after the last one; pairs with
        // the Acquire below and with the other arrivals.
        let mut arrived = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        let mut looked = 0;
        while arrived < workers * turn {
            looked += 1;
            if looked % PATIENCE == 0 {
                thread::yield_now();
            }
            spin_loop();
            // Acquire: pairs with the arrivals.
            arrived = self.0.load(Ordering::Acquire);
        }
    }
}

impl WithWork for Barrier<'_> {
    type Output = u64;

    fn call<W: Work>(self, work: W) -> u64 {
        let ByHand { program, crew, rounds: [warm, timed] } = self.0;
        let workers = crew.workers();
        let values: Vec<AtomicU64> = program.tasks.iter().map(|_| AtomicU64::new(0)).collect();
        let word = Word(AtomicU64::new(0));
        let worker = |me: usize| {
            // Relaxed: the barriers order the values.
            let read = |&u: &u32| values[u as usize].load(Ordering::Relaxed);
            let parts: Vec<&[u32]> =
                program.levels.iter().map(|l| &l[part(l.len(), me, workers)]).collect();
            let mut turn = 0;
            for round in 0..warm + timed {
                // All others have done the earlier rounds, too.
                if me == 0 && round == warm {
                    crew.start();
                }
                for part in &parts {
                    for &t in *part {
                        let reads = program.tasks[t as usize].reads.iter();
                        if let Some(new) = work.step(t, round, reads.map(read)) {
                            values[t as usize].store(new, Ordering::Relaxed);
                        }
                    }
                    turn += 1;
                    word.meet(workers as u64, turn);
                }
            }
        };
        on_threads(crew, worker);
        checksum(values.into_iter().map(AtomicU64::into_inner))
    }
}

/// A [`RwLock`] for each value and a count of completed rounds for each task, under a mutex with a
/// condition variable. Each worker goes through its part of the tasks, level by level, and waits
/// for the tasks that conflict.
pub(crate) struct Locks<'a>(pub(crate) ByHand<'a>);

/// The progress of a task.
#[derive(Default)]
struct Progress {
    state: Mutex<State>,
    advanced: Condvar,
}

#[derive(Default)]
struct State {
    rounds: u64,
    /// The number of waiters; signalling a condition variable takes a system call even without a
    /// waiter.
    waiting: u32,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, rounds: u64) {
        let mut state = self.lock();
        while state.rounds < rounds {
            state.waiting += 1;
            state = self.advanced.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn advance(&self) {
        let mut state = self.lock();
        state.rounds += 1;
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.advanced.notify_all();
        }
    }
}

impl WithWork for Locks<'_> {
    type Output = u64;

    fn call<W: Work>(self, work: W) -> u64 {
        let ByHand { program, crew, rounds: [warm, timed] } = self.0;
        let workers = crew.workers();
        let word = Word(AtomicU64::new(0));
        let values: Vec<RwLock<u64>> = program.tasks.iter().map(|_| RwLock::new(0)).collect();
        let progress: Vec<Progress> = program.tasks.iter().map(|_| Progress::default()).collect();
        let worker = |me: usize| {
            let part = part(values.len(), me, workers);
            let mine = program.levels.iter().flatten().filter(|&&t| part.contains(&(t as usize)));
            let mine: Vec<u32> = mine.copied().collect();
            let mut reads: Vec<RwLockReadGuard<'_, u64>> = Vec::new();
            for round in 0..warm + timed {
                if round == warm {
                    word.meet(workers as u64, 1);
                    if me == 0 {
                        crew.start();
                    }
                }
                for &t in &mine {
                    let task = &program.tasks[t as usize];
                    for &u in &task.conflicts {
                        progress[u as usize].wait_for(round + u64::from(program.first(u, t)));
                    }
                    let mut own =
                        values[t as usize].write().unwrap_or_else(PoisonError::into_inner);
                    let read = |&u: &u32| {
                        values[u as usize].read().unwrap_or_else(PoisonError::into_inner)
                    };
                    reads.extend(task.reads.iter().map(read));
                    if let Some(new) = work.step(t, round, reads.iter().map(|read| **read)) {
                        *own = new;
                    }
                    reads.clear();
                    drop(own);
                    progress[t as usize].advance();
                }
            }
        };
        on_threads(crew, worker);
        checksum(
            values
                .into_iter()
                .map(|value| value.into_inner().unwrap_or_else(PoisonError::into_inner)),
        )
    }
}

/// Calls `worker` on the threads of a crew, one of which is the calling thread.
fn on_threads(crew: &PoolBuilder<'_>, worker: impl Fn(usize) + Sync) {
    let worker = |me: usize| {
        crew.pin(me);
        worker(me);
    };
    crew.lead(|| {
        thread::scope(|scope| {
            for me in 1..crew.workers() {
                let worker = &worker;
                scope.spawn(move || worker(me));
            }
            // Last: new threads may at first run only where their creator may.
            worker(0);
        });
    });
}
