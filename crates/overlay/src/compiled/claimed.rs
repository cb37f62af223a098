//! A compiled overlay whose tasks are claimed: any worker that is free runs a task that may run.
//!
//! # Contract
//! Each task runs its rounds one after the other, each by one worker, when its
//! [waits](Program::waits) are over. A worker takes the first task of its home that may run, in the
//! order of the program, from the first on that is not done; so it comes back to a task that had to
//! wait after each step. If none may run for a while it claims from other homes, from the back. It
//! parks when nothing may run anywhere, and no release is missed.
//!
//! Where turns [go by way of](Program::relays) others, a task that leaves is waited for like one
//! that stands still, until the worker that ran it halts the run for another program: when it finds
//! nothing at home, and at the latest after as many steps as its home has tasks. So several tasks
//! that leave together cost one program.
//!
//! ```text
//! tasks of a home, round 7:  done  done  waits  runs elsewhere  next  .  .  . | . .   then round 8
//!                                        ^ front                ^ taken      | end of the window
//! ```
//!
//! # State: one word per task
//! ```text
//! 2r ──claim (compare and swap)──> 2r + 1 ──body, release (store)──> 2(r + 1)
//!                                                   2(r + 1) + 1   has stopped: stays claimed
//!                                                   LEFT + ...     has left: stays released
//! ```
//! A round is released when the word has reached its double; that another is claimed changes
//! nothing for the tasks that wait.
//!
//! | order                        | because                                                     |
//! |------------------------------|-------------------------------------------------------------|
//! | release store, acquire load  | what a task did is seen by those that waited for it         |
//! | acquire load before a claim  | what a task did is seen by its next round, on any worker    |
//! | fence, look at `parked`      | a worker that parks has seen the release, or is seen itself |
//!
//! The releaser looks at the parked workers when it has claimed what it goes on with: so it unparks
//! none for that.
//!
//! # How a worker waits
//! It pauses between 16 looks at home, and then between looks around, 48 in all. Then it parks, and
//! yields before it sleeps, already announced: looks around take lines from the workers that run.
//!
//! # Costs
//! A step: one load for each task waited for, one compare-and-swap, one store, one fence; the lines
//! of its neighbours are transferred when those run elsewhere. A worker alone claims by a store and
//! needs no fence. A look at home that finds nothing: one or two loads for each task of the window;
//! a look around: for each task. Nothing allocates.
//!
//! # Why a worker returns to blocked tasks
//! A worker that goes round its whole list leaves tasks for which others wait until it comes
//! round again.
//!
//! # Source
//! This project's. Counters that are pulled, not pushed: a release writes one word, whichever tasks
//! wait for it.
//! A prototype that pushed them made a read-modify-write for each neighbour, and took three
//! times as long.

use std::ops::Range;
use std::time::Duration;

use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering, fence};
use syncline_signal::{Policy, plant, spin_wait::SpinWait};

use crate::compiled::Program;
use crate::parked::ParkedWorkers;

/// In a state: the task has left, and no task waits for it. Greater than all numbers of rounds.
pub(crate) const LEFT: u64 = 1 << 63;
/// In a state: it is claimed, or has stopped.
pub(crate) const CLAIMED: u64 = 1;

/// The rounds that a task with this state has done.
#[inline]
pub(crate) fn rounds(state: u64) -> u64 {
    (state & !LEFT) >> 1
}

/// Looks at home before a worker looks around.
const LOOKS_AT_HOME: u32 = if cfg!(loom) { 0 } else { 16 };
/// The pauses between all its looks before it parks.
const LOOKS: Policy<'_> = Policy { pauses: 47, yield_for: Duration::ZERO, liveness: None };
/// Tasks of a home that are looked at from its front.
const WINDOW: usize = 64;

/// A compiled overlay whose tasks are claimed.
#[derive(Debug)]
pub(crate) struct Claimed<'a> {
    program: &'a Program,
    states: &'a [AtomicU64],
    /// Per worker: its tasks in the order of the program.
    lists: Box<[Box<[u32]>]>,
    home: &'a [u32],
    /// A worker looks first at the tasks that waited for what it ran last.
    depth_first: bool,
    parked: &'a ParkedWorkers,
    /// In a run on a team: this member's workers are a part of those in `parked`.
    among: Option<Among<'a>>,
}

/// The workers of a member of a team, among those of all members of its host. `home` numbers these;
/// tasks of other hosts have the home [`ELSEWHERE`].
#[derive(Clone, Copy)]
pub(crate) struct Among<'a> {
    /// The number of this member's first worker.
    pub(crate) first: usize,
    /// How a worker waits that has found nothing to run.
    pub(crate) rest: &'a dyn Rest,
}

/// The home of a task that no worker of the host runs.
pub(crate) const ELSEWHERE: u32 = u32::MAX;

/// How a worker waits for the tasks of other members.
pub(crate) trait Rest: Sync {
    /// Lets worker `me` of the host rest while there is `nothing` to run.
    fn rest(&self, me: usize, nothing: &mut dyn FnMut() -> bool);
}

impl std::fmt::Debug for Among<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Among").field("first", &self.first).finish_non_exhaustive()
    }
}

/// The first task of a home that is not done: its place in the list, and the round.
#[derive(Clone, Copy)]
struct Front {
    place: usize,
    round: u64,
}

impl Front {
    #[inline]
    fn step(&mut self, tasks: usize) {
        self.place += 1;
        if self.place == tasks {
            self.place = 0;
            self.round += 1;
        }
    }
}

impl<'a> Claimed<'a> {
    /// For tasks with these states and homes (each the number of a worker). `parked` has an event
    /// count for each worker.
    pub(crate) fn new(
        program: &'a Program,
        states: &'a [AtomicU64],
        home: &'a [u32],
        workers: usize,
        depth_first: bool,
        parked: &'a ParkedWorkers,
    ) -> Self {
        let lists = lists(program, home, 0..workers);
        Claimed { program, states, lists, home, depth_first, parked, among: None }
    }

    /// The part of a member of a team with this number of workers: it runs the tasks whose homes
    /// they are, and waits for those of other members.
    pub(crate) fn among(self, among: Among<'a>, workers: usize) -> Self {
        let lists = lists(self.program, self.home, among.first..among.first + workers);
        Claimed { lists, among: Some(among), ..self }
    }

    /// Runs tasks until `halt`. `step` runs one round of a task and gives its new state, or `None`
    /// if it failed; then it stays claimed.
    pub(crate) fn work(
        &self,
        me: usize,
        halt: &AtomicBool,
        mut step: impl FnMut(u32, u64) -> Option<u64>,
    ) {
        let alone = self.lists.len() == 1;
        let tells = !alone || self.among.is_some();
        let mut front = self.front(me);
        let mut spin = SpinWait::new(&LOOKS, None);
        let mut last = None;
        let mut released = None;
        // Steps until the run is halted for another program; `MAX` if it need not be.
        let mut steps = usize::MAX;
        loop {
            // Acquire: pairs with the Release of the thread that halts; the worker then reads what
            // that left.
            if halt.load(Ordering::Acquire) {
                // Other members of a team go on.
                if self.among.is_some()
                    && let Some(task) = released
                {
                    self.tell(task);
                }
                return;
            }
            let followers = last.take().map_or(&[][..], |last| self.program.followers(last));
            let found = followers
                .iter()
                .filter(|&&t| self.among.is_none() || self.is_own(t))
                .find_map(|&t| self.claim(t, self.state(t), alone))
                .or_else(|| self.at_home(me, &mut front, alone))
                .or_else(
                    || if spin.spins() < LOOKS_AT_HOME { None } else { self.around(me, alone) },
                );
            if tells && let Some(task) = released.take() {
                self.tell(task);
            }
            let Some((task, state)) = found else {
                if steps < usize::MAX && spin.spins() >= LOOKS_AT_HOME {
                    return self.parked.halt(halt);
                }
                if !spin.spin() {
                    self.park(me, halt);
                    spin.reset();
                }
                continue;
            };
            spin.reset();
            let Some(mut state) = step(task, rounds(state)) else { return };
            if state & LEFT != 0 && self.program.relays {
                state &= !LEFT;
                steps = steps.min(self.lists[me].len() + 1);
            }
            self.release(task, state);
            if steps < usize::MAX {
                steps -= 1;
                if steps == 0 {
                    return self.parked.halt(halt);
                }
            }
            released = Some(task);
            if self.depth_first {
                last = Some(task);
            }
        }
    }

    /// Whether this member of a team runs a task.
    fn is_own(&self, task: u32) -> bool {
        let first = self.among.map_or(0, |among| among.first);
        (self.home[task as usize] as usize).checked_sub(first).is_some_and(|w| w < self.lists.len())
    }

    /// Where a worker begins: after a pause some of its tasks may be rounds ahead of others.
    fn front(&self, me: usize) -> Front {
        let going =
            self.lists[me].iter().map(|&t| self.state(t)).filter(|state| state & CLAIMED == 0);
        Front { place: 0, round: going.map(rounds).min().unwrap_or(0) }
    }

    #[inline]
    fn state(&self, task: u32) -> u64 {
        // Acquire: pairs with the Release of the task's last round.
        self.states[task as usize].load(Ordering::Acquire)
    }

    /// The first task of the home that may run, from its front on; claimed now, with its state
    /// before.
    #[inline]
    fn at_home(&self, me: usize, front: &mut Front, alone: bool) -> Option<(u32, u64)> {
        let mine = &self.lists[me];
        let mut at = *front;
        let mut all_done = true;
        for _ in 0..mine.len().min(WINDOW) {
            let task = mine[at.place];
            let state = self.state(task);
            if state > at.round << 1 | CLAIMED {
                // Done. If all before are, too, it need not be looked at again.
                at.step(mine.len());
                if all_done {
                    *front = at;
                }
                continue;
            }
            if state == at.round << 1
                && let found @ Some(_) = self.claim(task, state, alone)
            {
                return found;
            }
            all_done = false;
            at.step(mine.len());
        }
        None
    }

    /// A task of another home that may run; claimed now, with its state before.
    #[cold]
    fn around(&self, me: usize, alone: bool) -> Option<(u32, u64)> {
        let n = self.lists.len();
        let in_list =
            |list: &[u32]| list.iter().rev().find_map(|&t| self.claim(t, self.state(t), alone));
        (0..n).find_map(|k| in_list(&self.lists[(me + k) % n]))
    }

    /// Lets the tasks that wait for a claimed task see its new state.
    #[inline]
    pub(crate) fn release(&self, task: u32, state: u64) {
        let order = if plant::is("claimed: relaxed release") {
            Ordering::Relaxed
        } else {
            Ordering::Release
        };
        // Release: pairs with the Acquire in `state`.
        self.states[task as usize].store(state, order);
    }

    /// Unparks a worker for each task that waited for this one, which was released, and that no
    /// worker has claimed since. To be called when the releaser has claimed what it goes on with.
    #[inline]
    pub(crate) fn tell(&self, task: u32) {
        if !plant::is("claimed: no fence") {
            // SeqCst: pairs with the fence of a worker that parks (`parked`).
            fence(Ordering::SeqCst);
        }
        if self.parked.any() {
            self.wake_followers(task);
        }
    }

    /// Claims a task in this state if it may run.
    #[inline]
    fn claim(&self, task: u32, state: u64, alone: bool) -> Option<(u32, u64)> {
        if !self.may_run(task, state) {
            return None;
        }
        let word = &self.states[task as usize];
        if alone || plant::is("claimed: not claimed") {
            word.store(state | CLAIMED, Ordering::Relaxed);
        } else {
            // Relaxed: the load that found the state was an acquire, and found the same round.
            word.compare_exchange(state, state | CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
                .ok()?;
        }
        Some((task, state))
    }

    /// Whether a task in this state may run its next round.
    #[inline]
    fn may_run(&self, task: u32, state: u64) -> bool {
        let lag = |lag: i32| if plant::is("claimed: no lag") { 0 } else { i64::from(lag) };
        state & CLAIMED == 0
            && self
                .program
                .waits(task)
                .iter()
                .all(|wait| self.state(wait.task) >= state.saturating_add_signed(lag(wait.lag)))
    }

    #[cold]
    fn wake_followers(&self, task: u32) {
        for &t in self.program.followers(task) {
            if self.may_run(t, self.state(t)) {
                self.parked.unpark_one(self.home[t as usize]);
            }
        }
    }

    #[cold]
    fn park(&self, me: usize, halt: &AtomicBool) {
        let nothing = |list: &[u32]| !list.iter().any(|&t| self.may_run(t, self.state(t)));
        // Acquire: as in `work`.
        let mut nothing =
            || !halt.load(Ordering::Acquire) && self.lists.iter().all(|list| nothing(list));
        match self.among {
            None => self.parked.park(me, nothing),
            Some(Among { first, rest }) => rest.rest(first + me, &mut nothing),
        }
    }
}

/// For each of these workers: the tasks of its home, in the order of the program.
pub(crate) fn lists(program: &Program, home: &[u32], workers: Range<usize>) -> Box<[Box<[u32]>]> {
    let mut lists = vec![Vec::new(); workers.len()];
    for &t in &program.order {
        if let Some(list) =
            (home[t as usize] as usize).checked_sub(workers.start).and_then(|w| lists.get_mut(w))
        {
            list.push(t);
        }
    }
    lists.into_iter().map(Vec::into).collect()
}
