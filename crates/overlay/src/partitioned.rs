//! A compiled overlay whose tasks stay where they are: each worker runs those of its home, in order.
//!
//! # Contract
//! A worker goes through the tasks of its home round by round, in the order of the program, and waits where a task waits
//! for one of another home. Among its own there is nothing to wait for: the order of the program is one in which
//! everything that a task waits for comes before it.
//!
//! # State: one word per task, as in `claimed`, never claimed
//! | order                       | because                                                              |
//! |-----------------------------|----------------------------------------------------------------------|
//! | release store, acquire load | what a task did is seen by those of other homes that waited for it   |
//! | fence, look at the beds     | a worker that lies down has seen the release, or is seen (`beds`)    |
//!
//! # Costs
//! A step: one load for each task of another home that it waits for, one store; a fence if somebody of another
//! home waits for it. Nothing is claimed, so nothing is balanced either: the slowest home decides. Nothing
//! allocates.
//!
//! # Source
//! This project's; the owner-computes rule, with waits in place of barriers.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering, fence, hint};

use crate::beds::Beds;
use crate::claimed::{CLAIMED, lists, rounds};
use crate::program::{Program, Wait};

/// Looks at a task of another home before a worker lies down.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 64 };

/// A compiled overlay whose tasks stay where they are.
#[derive(Debug)]
pub(crate) struct Partitioned<'a> {
    states: &'a [AtomicU64],
    homes: Box<[Home]>,
    beds: &'a Beds,
}

/// What one worker does in each round.
#[derive(Debug)]
struct Home {
    turns: Box<[Turn]>,
    waits: Box<[Wait]>,
    watchers: Box<[u32]>,
}

/// One task of a home.
#[derive(Debug)]
struct Turn {
    task: u32,
    /// The ends of its parts of the lists of its home.
    waits: u32,
    watchers: u32,
}

impl<'a> Partitioned<'a> {
    /// For tasks with these states and homes (each the number of a worker). There is a bed for each worker.
    pub(crate) fn new(
        program: &Program,
        states: &'a [AtomicU64],
        home: &[u32],
        workers: usize,
        beds: &'a Beds,
    ) -> Self {
        let lists = lists(program, home, workers);
        let homes = lists.iter().zip(0..).map(|(tasks, me)| {
            let (mut waits, mut watchers) = (Vec::new(), Vec::new());
            let turn = |&task: &u32| {
                waits.extend(program.waits(task).iter().filter(|w| home[w.task as usize] != me));
                let mut theirs: Vec<u32> =
                    program.followers(task).iter().map(|&t| home[t as usize]).filter(|&h| h != me).collect();
                theirs.sort_unstable();
                theirs.dedup();
                watchers.extend(theirs);
                Turn { task, waits: waits.len() as u32, watchers: watchers.len() as u32 }
            };
            let turns = tasks.iter().map(turn).collect();
            Home { turns, waits: waits.into(), watchers: watchers.into() }
        });
        Partitioned { states, homes: homes.collect(), beds }
    }

    /// Runs the tasks of worker `me` until all have stopped, or `halt`. `step` as in `Claimed::work`.
    pub(crate) fn work(&self, me: usize, halt: &AtomicBool, mut step: impl FnMut(u32, u64) -> Option<u64>) {
        let home = &self.homes[me];
        let state = |task: u32| self.states[task as usize].load(Ordering::Relaxed);
        let going = |turn: &&Turn| state(turn.task) & CLAIMED == 0;
        // After a pause some may be a round ahead of others.
        while let Some(round) = home.turns.iter().filter(going).map(|t| rounds(state(t.task))).min() {
            let (mut wait, mut watcher) = (0, 0);
            for turn in &home.turns {
                let waits = &home.waits[wait as usize..turn.waits as usize];
                let watchers = &home.watchers[watcher as usize..turn.watchers as usize];
                (wait, watcher) = (turn.waits, turn.watchers);
                // Relaxed: nobody else writes the word.
                if state(turn.task) != round << 1 {
                    continue;
                }
                // Acquire: pairs with the Release of whoever halts; the worker then reads what it left.
                if halt.load(Ordering::Acquire) || !waits.iter().all(|w| self.wait(me, *w, round, halt)) {
                    return;
                }
                let Some(state) = step(turn.task, round) else { return };
                self.release(turn.task, state, watchers);
            }
        }
    }

    #[inline]
    fn release(&self, task: u32, state: u64, watchers: &[u32]) {
        let order =
            if plant::is("partitioned: relaxed release") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `wait`.
        self.states[task as usize].store(state, order);
        if !watchers.is_empty() {
            if !plant::is("partitioned: no fence") {
                // SeqCst: with the fence of whoever lies down (`beds`).
                fence(Ordering::SeqCst);
            }
            if self.beds.anyone() {
                watchers.iter().for_each(|&w| {
                    self.beds.wake(w);
                });
            }
        }
    }

    /// Waits until the other task has released what this round needs. False if the run is halted.
    #[inline]
    fn wait(&self, me: usize, wait: Wait, round: u64, halt: &AtomicBool) -> bool {
        let need = (round << 1) + u64::from(wait.lag);
        // Acquire: pairs with the Release in `release`.
        let there = || self.states[wait.task as usize].load(Ordering::Acquire) >= need;
        there() || self.wait_slowly(me, there, halt)
    }

    #[cold]
    fn wait_slowly(&self, me: usize, there: impl Fn() -> bool, halt: &AtomicBool) -> bool {
        loop {
            for _ in 0..LOOKS {
                if there() {
                    return true;
                }
                hint::spin_loop();
            }
            // Acquire: as in `work`.
            if halt.load(Ordering::Acquire) {
                return false;
            }
            self.beds.sleep(me, || !halt.load(Ordering::Acquire) && !there());
        }
    }
}
