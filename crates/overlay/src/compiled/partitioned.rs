//! A compiled overlay whose tasks stay where they are: each worker runs those of its home, in
//! order.
//!
//! # Contract
//! A worker goes through the tasks of its home round by round, in the order of the program, and
//! waits where a task waits for one of another home. Among its own there is nothing to wait for:
//! the order of the program is one in which everything that a task waits for comes before it.
//! Within a level, the tasks that have to do with other homes go first.
//!
//! A task that leaves the overlay may relay turns of others (see [`Program::relays`]). Then its
//! followers still wait for it. At the end of the round its worker stops the run, and the overlay
//! is compiled again without the task. In that round no task waits for more of it than it has done.
//!
//! # State: one word per task, as in `claimed`
//! No task is claimed here: the bit `CLAIMED` means that the task has stopped.
//!
//! | order                       | because                                                     |
//! |-----------------------------|-------------------------------------------------------------|
//! | release store, acquire load | what a task did is seen by other homes that waited for it   |
//! | fence, look at `parked`     | a worker that parks has seen the release, or is seen itself |
//!
//! # Costs
//! A step: a load of its own state and of `halt`, one load for each task of another home that it
//! waits for, one store; a fence if a task of another home waits for it. Nothing is claimed, so
//! nothing is balanced either: the slowest home decides. Nothing allocates.
//!
//! A worker that waits looks 64 times, with pauses in between. Then it announces that it parks,
//! yields, looks again, and sleeps.
//!
//! # Source
//! This project's; the owner-computes rule, with waits in place of barriers.

use std::time::Duration;

use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering, fence};
use syncline_signal::{Policy, plant, spin_wait::SpinWait};

use crate::compiled::claimed::{CLAIMED, LEFT, lists, rounds};
use crate::compiled::{Program, Wait};
use crate::parked::ParkedWorkers;

/// The pauses between looks at a task of another home before a worker parks.
const LOOKS: Policy<'_> = Policy { pauses: 63, yield_for: Duration::ZERO, liveness: None };

/// A compiled overlay whose tasks stay where they are.
#[derive(Debug)]
pub(crate) struct Partitioned<'a> {
    states: &'a [AtomicU64],
    homes: Box<[Home]>,
    /// See [`Program::relays`].
    relays: bool,
    parked: &'a ParkedWorkers,
}

/// What one worker does in each round.
#[derive(Debug)]
struct Home {
    turns: Box<[Turn]>,
    borders: Box<[Border]>,
}

/// One task of a home.
#[derive(Debug)]
struct Turn {
    task: u32,
    /// Its index in the borders of the home, or `INNER`: no task of another home waits for it, and
    /// it waits for none.
    border: u32,
}

const INNER: u32 = u32::MAX;

/// The dependences of a task on tasks of other homes, in both directions.
#[derive(Debug)]
struct Border {
    waits: Box<[Wait]>,
    /// The homes with a task that waits for it.
    watchers: Box<[u32]>,
}

impl Home {
    fn new(me: u32, tasks: &[u32], program: &Program, home: &[u32]) -> Self {
        let mut borders = Vec::new();
        let turn = |&task: &u32| {
            let elsewhere = |t: u32| home[t as usize] != me;
            let followers = program.followers(task).iter().filter(|&&t| elsewhere(t));
            let mut watchers: Vec<u32> = followers.map(|&t| home[t as usize]).collect();
            watchers.sort_unstable();
            watchers.dedup();
            let waits: Box<[Wait]> =
                program.waits(task).iter().copied().filter(|w| elsewhere(w.task)).collect();
            if waits.is_empty() && watchers.is_empty() {
                return Turn { task, border: INNER };
            }
            borders.push(Border { waits, watchers: watchers.into() });
            Turn { task, border: borders.len() as u32 - 1 }
        };
        let mut turns: Vec<Turn> = tasks.iter().map(turn).collect();
        // Within a level there is no order. Tasks with dependences across homes go first: what they
        // write has the rest of the level's time to reach the others.
        turns.sort_by_key(|turn| (program.level[turn.task as usize], turn.border == INNER));
        Home { turns: turns.into(), borders: borders.into() }
    }
}

impl<'a> Partitioned<'a> {
    /// Creates the schedule of all homes from the states of the tasks and the home of each (the
    /// number of a worker). `parked` has an event count for each worker.
    pub(crate) fn new(
        program: &Program,
        states: &'a [AtomicU64],
        home: &[u32],
        workers: usize,
        parked: &'a ParkedWorkers,
    ) -> Self {
        let lists = lists(program, home, 0..workers);
        let homes = (0..).zip(&lists).map(|(me, tasks)| Home::new(me, tasks, program, home));
        Partitioned { states, homes: homes.collect(), relays: program.relays, parked }
    }

    /// Runs the tasks of worker `me` until all have stopped, or `halt`. `step` as in
    /// `Claimed::work`.
    pub(crate) fn work(
        &self,
        me: usize,
        halt: &AtomicBool,
        mut step: impl FnMut(u32, u64) -> Option<u64>,
    ) {
        let Home { turns, borders } = &self.homes[me];
        // Relaxed: no other worker writes these words.
        let state = |turn: &Turn| self.states[turn.task as usize].load(Ordering::Relaxed);
        let going = || turns.iter().map(state).filter(|state| state & CLAIMED == 0);
        let mut left = going().count();
        // After a halt some tasks may be rounds ahead of others.
        let mut round = going().map(rounds).min().unwrap_or(0);
        let mut leaving = false;
        while left > 0 && !leaving {
            for turn in turns {
                if state(turn) != round << 1 {
                    continue;
                }
                let border = borders.get(turn.border as usize);
                // Acquire: pairs with the Release of the thread that halts, whose writes are then
                // visible.
                if halt.load(Ordering::Acquire)
                    || border
                        .is_some_and(|b| !b.waits.iter().all(|&w| self.wait(me, w, round, halt)))
                {
                    return;
                }
                let Some(mut state) = step(turn.task, round) else { return };
                if state & CLAIMED != 0 {
                    left -= 1;
                    if state & LEFT != 0 && self.relays {
                        state &= !LEFT;
                        leaving = true;
                    }
                }
                let order = if plant::is("partitioned: relaxed release") {
                    Ordering::Relaxed
                } else {
                    Ordering::Release
                };
                // Release: pairs with the Acquire in `wait`.
                self.states[turn.task as usize].store(state, order);
                if let Some(border) = border {
                    self.unpark(&border.watchers);
                }
            }
            round += 1;
        }
        if leaving {
            self.parked.halt(halt);
        }
    }

    /// Unparks the workers of these homes if they are parked.
    fn unpark(&self, watchers: &[u32]) {
        if watchers.is_empty() {
            return;
        }
        if !plant::is("partitioned: no fence") {
            // SeqCst: pairs with the fence of a worker that parks (`parked`).
            fence(Ordering::SeqCst);
        }
        if self.parked.any() {
            watchers.iter().for_each(|&w| {
                self.parked.unpark(w);
            });
        }
    }

    /// Waits until the other task has released what this round needs. False if the run is halted.
    #[inline]
    fn wait(&self, me: usize, wait: Wait, round: u64, halt: &AtomicBool) -> bool {
        let need = (round << 1).saturating_add_signed(wait.lag.into());
        // Acquire: pairs with the Release in `work`.
        let there = || self.states[wait.task as usize].load(Ordering::Acquire) >= need;
        there() || self.wait_slowly(me, there, halt)
    }

    #[cold]
    fn wait_slowly(&self, me: usize, there: impl Fn() -> bool, halt: &AtomicBool) -> bool {
        let mut spin = SpinWait::new(&LOOKS, None);
        loop {
            if there() {
                return true;
            }
            if spin.spin() {
                continue;
            }
            // Acquire: as in `work`.
            if halt.load(Ordering::Acquire) {
                return false;
            }
            self.parked.park(me, || !halt.load(Ordering::Acquire) && !there());
            spin.reset();
        }
    }
}
