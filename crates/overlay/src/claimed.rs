//! A compiled overlay whose tasks are claimed: whoever is free runs what may run.
//!
//! # Contract
//! Each task runs its rounds one after the other, each by one worker, when its [waits](Program::waits) are over. A worker
//! first looks among the tasks of its home, in the order of the program, from where it looked last; then among
//! those of the others, from the back. It sleeps when nothing may run, and no release is missed.
//!
//! # State: one word per task
//! ```text
//! 2r ──claim (compare and swap)──> 2r + 1 ──body, release (store)──> 2(r + 1)
//!                                                                    2(r + 1) + 1   has stopped: claimed for ever
//!                                                                    LEFT + ...     has left: released for ever
//! ```
//! A round is released when the word has reached its double; that another is claimed changes nothing for those who wait.
//!
//! | order                       | because                                                                  |
//! |-----------------------------|--------------------------------------------------------------------------|
//! | release store, acquire load | what a task did is seen by those that waited for it                      |
//! | claim is an acquire         | what a task did is seen by its next round, on whatever worker            |
//! | fence, look at the beds     | a worker that lies down has either seen the release, or is seen (`beds`) |
//!
//! # Costs
//! A step: one load for each task waited for, one compare-and-swap, one store, one fence; the lines of its neighbours
//! are transferred when those run elsewhere. A worker alone claims by a store and needs no fence. A look around that
//! finds nothing: one or two loads for each task. Nothing allocates.
//!
//! # Source
//! This project's. Counters that are pulled, not pushed: a release writes one word, and does not need to know
//! who waits for it.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering, fence, hint};

use crate::beds::Beds;
use crate::program::Program;

/// In a state: the task has left, and nobody waits for it. Greater than all numbers of rounds.
pub(crate) const LEFT: u64 = 1 << 63;
/// In a state: it is claimed, or has stopped.
pub(crate) const CLAIMED: u64 = 1;

/// The rounds that a task with this state has done.
#[inline]
pub(crate) fn rounds(state: u64) -> u64 {
    (state & !LEFT) >> 1
}

/// Looks around before a worker lies down.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 16 };

/// A compiled overlay whose tasks are claimed.
#[derive(Debug)]
pub(crate) struct Claimed<'a> {
    program: &'a Program,
    states: &'a [AtomicU64],
    /// Per worker: its tasks in the order of the program.
    lists: Box<[Box<[u32]>]>,
    home: &'a [u32],
    /// A worker looks first at those who waited for what it ran last.
    depth_first: bool,
    beds: &'a Beds,
}

impl<'a> Claimed<'a> {
    /// For tasks with these states and homes (each the number of a worker). There is a bed for each worker.
    pub(crate) fn new(
        program: &'a Program,
        states: &'a [AtomicU64],
        home: &'a [u32],
        workers: usize,
        depth_first: bool,
        beds: &'a Beds,
    ) -> Self {
        Claimed { program, states, lists: lists(program, home, workers), home, depth_first, beds }
    }

    /// Runs tasks until `halt`. `step` runs one round of a task and gives its new state, or `None` if it failed; then
    /// it stays claimed.
    pub(crate) fn work(&self, me: usize, halt: &AtomicBool, mut step: impl FnMut(u32, u64) -> Option<u64>) {
        let alone = self.lists.len() == 1;
        let mut at = 0;
        let mut looks = 0;
        let mut last = None;
        loop {
            // Acquire: pairs with the Release of whoever halts; the worker then reads what it left.
            if halt.load(Ordering::Acquire) {
                return;
            }
            let Some((task, state)) = self.find(me, &mut at, last.take(), alone) else {
                looks += 1;
                if looks < LOOKS {
                    hint::spin_loop();
                } else {
                    self.sleep(me, halt);
                    looks = 0;
                }
                continue;
            };
            looks = 0;
            let Some(state) = step(task, rounds(state)) else { return };
            self.release(task, state, alone);
            if self.depth_first {
                last = Some(task);
            }
        }
    }

    /// Lets those who wait for a claimed task see its new state, and wakes them.
    #[inline]
    pub(crate) fn release(&self, task: u32, state: u64, alone: bool) {
        let order = if plant::is("claimed: relaxed release") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `may_run` and `claim`.
        self.states[task as usize].store(state, order);
        if !alone {
            if !plant::is("claimed: no fence") {
                // SeqCst: with the fence of whoever lies down (`beds`).
                fence(Ordering::SeqCst);
            }
            if self.beds.anyone() {
                self.wake_followers(task);
            }
        }
    }

    /// A task that may run, and is claimed now; with its state before.
    #[inline]
    fn find(&self, me: usize, at: &mut usize, last: Option<u32>, alone: bool) -> Option<(u32, u64)> {
        if let Some(last) = last
            && let found @ Some(_) = self.program.followers(last).iter().find_map(|&t| self.claim(t, alone))
        {
            return found;
        }
        let mine = &self.lists[me];
        for _ in 0..mine.len() {
            let task = mine[*at];
            *at = if *at + 1 == mine.len() { 0 } else { *at + 1 };
            if let found @ Some(_) = self.claim(task, alone) {
                return found;
            }
        }
        let n = self.lists.len();
        (1..n).find_map(|k| self.lists[(me + k) % n].iter().rev().find_map(|&t| self.claim(t, alone)))
    }

    #[inline]
    fn claim(&self, task: u32, alone: bool) -> Option<(u32, u64)> {
        let word = &self.states[task as usize];
        // Acquire: pairs with the Release of the task's last round; the worker alone needs no more than this.
        let state = word.load(Ordering::Acquire);
        if !self.may_run(task, state) {
            return None;
        }
        if alone || plant::is("claimed: not claimed") {
            word.store(state | CLAIMED, Ordering::Relaxed);
        } else {
            // Relaxed: the load above was an acquire, and found the same round.
            word.compare_exchange(state, state | CLAIMED, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        }
        Some((task, state))
    }

    /// Whether a task in this state may run its next round.
    #[inline]
    fn may_run(&self, task: u32, state: u64) -> bool {
        let lag = |lag: u32| if plant::is("claimed: no lag") { 0 } else { u64::from(lag) };
        state & CLAIMED == 0
            && self.program.waits(task).iter().all(|wait| {
                // Acquire: pairs with the Release in `release`.
                self.states[wait.task as usize].load(Ordering::Acquire) >= state + lag(wait.lag)
            })
    }

    /// Wakes somebody for each task that waited for this one and may run now.
    #[cold]
    fn wake_followers(&self, task: u32) {
        for &t in self.program.followers(task) {
            if self.may_run(t, self.states[t as usize].load(Ordering::Acquire)) {
                self.beds.wake_one(self.home[t as usize]);
            }
        }
    }

    #[cold]
    fn sleep(&self, me: usize, halt: &AtomicBool) {
        let nothing = |list: &[u32]| {
            !list.iter().any(|&t| self.may_run(t, self.states[t as usize].load(Ordering::Acquire)))
        };
        // Acquire: as in `work`.
        self.beds.sleep(me, || !halt.load(Ordering::Acquire) && self.lists.iter().all(|list| nothing(list)));
    }
}

/// Per worker: the tasks of its home, in the order of the program.
pub(crate) fn lists(program: &Program, home: &[u32], workers: usize) -> Box<[Box<[u32]>]> {
    let of = |w: usize| program.order.iter().copied().filter(|&t| home[t as usize] as usize == w).collect();
    (0..workers).map(of).collect()
}
