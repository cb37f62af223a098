//! The state and the decisions of a pool's manager.
//!
//! # Contract
//! A task is in one of three states: ready, handed to a worker, or ended. Every end of a worker
//! moves the tasks that it had:
//!
//! ```text
//!   handed to it, in order:  a  b  c  d  e     it had begun 3 (its progress record)
//!                            │  │  │  │  │     and reported 1 (its reports)
//!                            │  │  │  └──┴── ready again, as if never handed out
//!                            │  │  └──────── it was running this: another attempt, or an error
//!                            │  └─────────── done, but not reported: ready again
//!                            └────────────── reported: has ended
//! ```
//! So a task whose result was not reported runs again: tasks must tolerate that. If three workers
//! exit, or a hundred are killed, before they have begun a task, and no worker has begun one in
//! between, all ready tasks end with an error that contains the last exit cause.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arena::Arena;
use crate::error::FarmError;
use crate::farm::Farm;
use crate::pool::order::{OrderRef, Ran, WorkerReport};
use crate::pool::ready::{Id, Ready};
use crate::pool::steal_manager::StealManager;
use crate::pool::{Outcome, PoolBuilder, PoolKind, Progress, Task, TaskError, TaskId, monotonic};
use crate::pool_transport::{Event, PoolTransport};
use crate::program::Program;
use crate::record::{ExitCause, PUBLISHED, ProgressRecord};
use crate::vpid::Vpid;

mod assign;
mod ends;
mod family;

pub(crate) use ends::WorkerEnd;

/// The time that workers may need to end by themselves.
const GRACE: Duration = Duration::from_secs(1);
/// Bit of a task's number: it was forked by another task.
const CHILD: Id = 1 << 63;

/// A task that has not ended.
pub(crate) struct Job<T> {
    pub(crate) task: T,
    priority: i32,
    cost: f64,
    tries: u32,
    /// Whether a worker has it.
    handed: bool,
    /// Whether it is to end without a result: see [`Manager::kill_task`].
    unwanted: bool,
    /// Whether its worker has no other task meanwhile: see [`Manager::garbled`].
    alone: bool,
    /// For a child: the worker whose task forked it, and the number that the worker gave it.
    child: Option<(Vpid, u64)>,
}

impl<T> Job<T> {
    fn new(task: T, priority: i32, cost: f64, child: Option<(Vpid, u64)>) -> Job<T> {
        let (tries, handed, unwanted, alone) = (0, false, false, false);
        Job { task, priority, cost, tries, handed, unwanted, alone, child }
    }
}

/// The manager's state of a worker.
pub(crate) struct WorkerState {
    pub(crate) vpid: Vpid,
    /// The tasks that it was handed and has not reported, in order, and the sizes of the batches in
    /// which they were handed out.
    tasks: VecDeque<Id>,
    batches: VecDeque<usize>,
    /// The number of tasks that it has reported, and the time at which it is last known to have
    /// begun one.
    reported: u64,
    at: u64,
    /// The child that it waits for.
    waiting: Option<u64>,
    /// Why it was killed, if it was, and the number of tasks that it had begun then.
    pub(crate) killed: Option<TaskError>,
    killed_at: u64,
    /// Its worker number in a fork table.
    pub(crate) number: usize,
    /// Set if it is given no further tasks.
    ending: bool,
}

impl WorkerState {
    fn new(vpid: Vpid, number: usize) -> WorkerState {
        let (tasks, batches) = (VecDeque::new(), VecDeque::new());
        WorkerState {
            vpid,
            tasks,
            batches,
            reported: 0,
            at: 0,
            waiting: None,
            killed: None,
            killed_at: 0,
            number,
            ending: false,
        }
    }

    /// Records that it has reported `tasks` of its tasks.
    fn record_report(&mut self, mut tasks: usize) {
        self.reported += tasks as u64;
        self.at = monotonic();
        while let Some(left) = self.batches.front_mut().filter(|_| tasks > 0) {
            let of_this = tasks.min(*left);
            *left -= of_this;
            tasks -= of_this;
            if *left == 0 {
                self.batches.pop_front();
            }
        }
    }
}

/// Wakes the thread that waits for a pool: see [`Pool::waker`](crate::Pool::waker).
#[derive(Clone, Debug)]
pub struct PoolWaker {
    /// The memory of the pool, if its manager sleeps there.
    arena: Option<Arc<Arena>>,
    woken: Arc<AtomicBool>,
}

impl PoolWaker {
    /// Ends the wait in [`Pool::next_or_woken`](crate::Pool::next_or_woken) that is under way, or
    /// the next one. It does not block. The wait of a pool of members on several hosts ends with
    /// the next event.
    ///
    /// # Memory ordering
    /// Release: what the caller did before is seen by the thread whose wait it ends.
    pub fn wake(&self) {
        // Release: pairs with the Acquire in `next_or_woken`. The flag is set before the event is
        // counted, as the contract of the event count asks.
        self.woken.store(true, Ordering::Release);
        if let Some(arena) = self.arena.as_ref().filter(|arena| arena.is_home()) {
            arena.record(Vpid::MANAGER.place()).events.notify();
        }
    }
}

pub(crate) struct Manager<T, R> {
    transport: PoolTransport,
    /// The members of a team that were given no task yet; `None` if workers are started.
    team: Option<VecDeque<Vpid>>,
    pub(crate) builder: PoolBuilder,
    program: Option<Program>,
    pub(crate) workers: Vec<WorkerState>,
    pub(crate) ready: Ready,
    /// The fork table, if workers steal.
    pub(crate) steal_manager: Option<StealManager>,
    /// The submitted tasks, from the first that has not ended.
    roots: VecDeque<Option<Job<T>>>,
    first: Id,
    /// The forked tasks, and those that their parents may join.
    children: HashMap<Id, Job<T>>,
    forked: HashMap<(Vpid, u64), Id>,
    answers: HashMap<(Vpid, u64), Result<R, TaskError>>,
    forks: Id,
    /// The mean duration of a task in nanoseconds, according to recent reports.
    mean: Option<f64>,
    /// The workers that have exited, or were killed, before they began a task, since a worker last
    /// began one.
    pub(crate) exited_early: u32,
    pub(crate) killed_early: u32,
    /// The tasks of workers that are to end; some of them may have ended.
    unwanted: Vec<Id>,
    outcomes: VecDeque<Outcome<R>>,
    /// Set by a waker, until the wait has ended.
    woken: Arc<AtomicBool>,
    /// Counts the results that were returned.
    given: u64,
    pub(crate) progress: Progress,
}

impl<T, R> Manager<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    pub(crate) fn new(builder: PoolBuilder) -> Result<Self, FarmError> {
        let (most, said) = (crate::vpid::MAX_PROCESSES / 16, builder.workers);
        if !(1..=most).contains(&said) {
            return Err(FarmError::Range {
                what: "the number of workers of a pool",
                said,
                least: 1,
                most,
            });
        }
        let mut farm = Farm::with(builder.bounds())?;
        farm.report_every_end();
        let steal_manager =
            (builder.kind == PoolKind::Stealing).then(|| StealManager::new(&farm)).transpose()?;
        Ok(Manager::of(PoolTransport::Farm(Box::new(farm)), None, steal_manager, builder))
    }

    /// Creates the manager for the other members of a team, of which the caller is the first.
    pub(crate) fn within(
        transport: PoolTransport,
        members: usize,
        mut builder: PoolBuilder,
    ) -> Self {
        builder.workers = members - 1;
        let team = (1..members).map(|rank| Vpid::new(rank, 0)).collect();
        Manager::of(transport, Some(team), None, builder)
    }

    fn of(
        transport: PoolTransport,
        team: Option<VecDeque<Vpid>>,
        steal_manager: Option<StealManager>,
        builder: PoolBuilder,
    ) -> Self {
        Manager {
            transport,
            team,
            steal_manager,
            program: builder.program.clone(),
            builder,
            workers: Vec::new(),
            ready: Ready::default(),
            roots: VecDeque::new(),
            first: 0,
            children: HashMap::new(),
            forked: HashMap::new(),
            answers: HashMap::new(),
            forks: 0,
            mean: None,
            exited_early: 0,
            killed_early: 0,
            unwanted: Vec::new(),
            outcomes: VecDeque::new(),
            woken: Arc::default(),
            given: 0,
            progress: Progress::default(),
        }
    }

    #[inline]
    pub(crate) fn submit(&mut self, task: Task<T>) -> Id {
        let id = self.progress.submitted;
        self.progress.submitted += 1;
        let Task { input, priority, cost } = task;
        self.ready.push(id, priority, cost);
        self.roots.push_back(Some(Job::new(input, priority, cost, None)));
        id
    }

    /// Hands out plain tasks before more tasks are drawn: a later task is better only if it has a
    /// priority or a cost.
    pub(crate) fn hand_out_plain(&mut self) {
        if !self.ready.has_ranked() && self.check_not_forked().is_ok() {
            self.hand_out();
        }
    }

    /// Returns the number of tasks that no worker has.
    pub(crate) fn waiting(&self) -> u64 {
        self.ready.len() as u64
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<Outcome<R>> {
        // Every 64th call hands out tasks although results are queued, so that workers do not wait
        // for a caller that only takes results.
        self.given += 1;
        if self.given.is_multiple_of(64) && self.progress.ended < self.progress.submitted {
            self.step(Some(Instant::now()));
        }
        loop {
            if let Some(outcome) = self.outcomes.pop_front() {
                return Some(outcome);
            }
            if self.progress.ended == self.progress.submitted {
                return None;
            }
            self.step(None);
        }
    }

    /// Like `next`; `None` if the deadline passes first.
    pub(crate) fn next_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Option<Option<Outcome<R>>> {
        // A step takes an available result even if the deadline has passed.
        while self.outcomes.is_empty() && self.progress.ended < self.progress.submitted {
            self.step(deadline);
            if self.outcomes.is_empty()
                && deadline.is_some_and(|deadline| deadline <= Instant::now())
            {
                return None;
            }
        }
        Some(self.next())
    }

    /// Like `next_deadline`, but a waker ends the wait.
    pub(crate) fn next_or_woken(
        &mut self,
        deadline: Option<Instant>,
    ) -> Option<Option<Outcome<R>>> {
        while self.outcomes.is_empty() && self.progress.ended < self.progress.submitted {
            // Acquire: pairs with the Release in `wake`, so what came before it is seen.
            if self.woken.swap(false, Ordering::Acquire) {
                return Some(None);
            }
            self.step(deadline);
            if self.outcomes.is_empty()
                && deadline.is_some_and(|deadline| deadline <= Instant::now())
            {
                return None;
            }
        }
        Some(self.outcomes.pop_front())
    }

    pub(crate) fn try_next(&mut self) -> Option<Outcome<R>> {
        self.outcomes.pop_front()
    }

    pub(crate) fn waker(&mut self) -> PoolWaker {
        let arena = self.transport.farm().map(|farm| Arc::clone(farm.arena()));
        PoolWaker { arena, woken: Arc::clone(&self.woken) }
    }

    /// Takes a task back that no worker has.
    pub(crate) fn take_back(&mut self, id: Id) -> bool {
        let may_go = self.job(id).is_some_and(|job| !job.handed) && self.unoffer(id);
        if may_go {
            self.end(id, Err(TaskError::Forked));
            // Its outcome is the last one.
            self.outcomes.pop_back();
            self.progress.failed -= 1;
        }
        may_go
    }

    /// Handles the events that have occurred, without a wait. One call handles all deaths.
    pub(crate) fn look(&mut self) {
        loop {
            let lost = self.progress.lost;
            self.step(Some(Instant::now()));
            if self.progress.lost == lost {
                return;
            }
        }
    }

    pub(crate) fn wait_for(&mut self, id: Id) -> Result<R, TaskError> {
        loop {
            let at = self.outcomes.iter().position(|outcome| outcome.id.0 == id);
            if let Some(outcome) = at.and_then(|at| self.outcomes.remove(at)) {
                return outcome.result;
            }
            self.step(None);
        }
    }

    /// Checks that this process is the one that owns the pool, and not a child made by `fork`.
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<(), FarmError> {
        self.transport.check_not_forked()
    }

    /// Ends all tasks in a forked process, and touches nothing that other processes see.
    #[cold]
    fn end_all_here(&mut self) {
        for id in self.first..self.first + self.roots.len() as Id {
            self.end(id, Err(TaskError::Forked));
        }
    }

    /// Hands out ready tasks, and waits for an event, but not beyond the deadline.
    fn step(&mut self, deadline: Option<Instant>) {
        if self.check_not_forked().is_err() {
            return self.end_all_here();
        }
        let before = self.outcomes.len();
        self.hand_out();
        // A task that could not be handed out has ended with an error.
        if self.outcomes.len() > before {
            return;
        }
        let check = self.next_check();
        let until = check.into_iter().chain(deadline).min();
        let (steal_manager, woken) = (&self.steal_manager, &self.woken);
        // Acquire: pairs with the Release in `wake`.
        let ended = || {
            woken.load(Ordering::Acquire)
                || steal_manager.as_ref().is_some_and(StealManager::any_ended)
        };
        match self.transport.recv_event::<WorkerReport<T, R>>(until, ended) {
            Event::From(vpid, report) => self.report(vpid, report),
            Event::Nothing => self.collect(),
            Event::Gone(vpid, cause) => {
                self.lost(vpid, &cause);
                // Only now, as `lost` reads the progress record.
                self.transport.farm().into_iter().for_each(|farm| farm.let_go_of(vpid));
            }
            Event::Garbled(from, why) => self.garbled(from, why.to_string()),
            // The end of every worker was reported before.
            Event::Disconnected(_) if self.workers.is_empty() && self.team.is_none() => (),
            Event::Disconnected(why) => {
                let cause =
                    if self.team.is_some() { ExitCause::Dead } else { ExitCause::Forgotten };
                for vpid in self.workers.iter().map(|worker| worker.vpid).collect::<Vec<_>>() {
                    self.lost(vpid, &cause);
                }
                if let Some(team) = &mut self.team {
                    team.clear();
                    self.fail_all(&why);
                }
            }
        }
        self.check();
        self.hand_out();
    }

    pub(crate) fn job(&self, id: Id) -> Option<&Job<T>> {
        if id & CHILD != 0 {
            return self.children.get(&id);
        }
        self.roots.get(usize::try_from(id.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    fn job_mut(&mut self, id: Id) -> Option<&mut Job<T>> {
        if id & CHILD != 0 {
            return self.children.get_mut(&id);
        }
        self.roots.get_mut(usize::try_from(id.checked_sub(self.first)?).ok()?)?.as_mut()
    }

    fn worker_mut(&mut self, vpid: Vpid) -> Option<&mut WorkerState> {
        self.workers.iter_mut().find(|worker| worker.vpid == vpid)
    }

    /// Fails all ready tasks: no worker can run them.
    pub(crate) fn fail_all(&mut self, why: &str) {
        self.withdraw(why);
        while let Some(id) = self.ready.pop() {
            self.end(id, Err(TaskError::NoWorker { why: why.to_owned() }));
        }
    }

    fn report(&mut self, vpid: Vpid, report: WorkerReport<T, R>) {
        // After one that was lost, it is not known whose results it has sent.
        let is_garbled =
            |worker: &mut WorkerState| matches!(worker.killed, Some(TaskError::Garbled { .. }));
        if self.worker_mut(vpid).is_some_and(is_garbled) {
            return;
        }
        match report {
            WorkerReport::Done { results, nanos } => self.done(vpid, results, nanos),
            WorkerReport::Fork { number, task } => self.fork(vpid, number, task),
            WorkerReport::Join { number } => self.join(vpid, number),
        }
    }

    fn done(&mut self, vpid: Vpid, results: Vec<Ran<R>>, nanos: u64) {
        let count = results.len();
        if self.builder.kind == PoolKind::Forks {
            // Children that were not joined are not wanted.
            self.disown(vpid);
        }
        let Some(at) = self.workers.iter().position(|worker| worker.vpid == vpid) else { return };
        if count > self.workers[at].tasks.len() {
            return self.garbled(vpid, "it has sent more results than it had tasks".to_owned());
        }
        self.workers[at].record_report(count);
        for ran in results {
            // There is one for each result.
            let Some(id) = self.workers[at].tasks.pop_front() else { return };
            self.end(id, ran);
        }
        if count > 0 {
            let mean = nanos as f64 / count as f64;
            self.mean = Some(self.mean.map_or(mean, |before| (3.0 * before + mean) / 4.0));
        }
        (self.exited_early, self.killed_early) = (0, 0);
    }

    /// Ends a task with its result.
    pub(crate) fn end(&mut self, id: Id, result: Result<R, TaskError>) {
        if id & CHILD != 0 {
            let Some(Job { child: Some((parent, number)), .. }) = self.children.remove(&id) else {
                return;
            };
            let waits =
                self.worker_mut(parent).is_some_and(|worker| worker.waiting == Some(number));
            if waits {
                self.answer(parent, number, result);
            } else {
                self.answers.insert((parent, number), result);
            }
            return;
        }
        let at =
            id.checked_sub(self.first).and_then(|at| self.roots.get_mut(usize::try_from(at).ok()?));
        if at.and_then(Option::take).is_none() {
            return;
        }
        while let Some(None) = self.roots.front() {
            self.roots.pop_front();
            self.first += 1;
        }
        self.progress.ended += 1;
        self.progress.failed += u64::from(result.is_err());
        self.outcomes.push_back(Outcome { id: TaskId(id), result });
    }

    /// Returns the numbers that the live workers have published.
    pub(crate) fn published(&self) -> Vec<[u64; PUBLISHED]> {
        let records = self.workers.iter().filter_map(|worker| self.transport.progress(worker.vpid));
        records.map(ProgressRecord::published).collect()
    }

    /// Returns the process IDs of the live workers.
    pub(crate) fn pids(&mut self) -> Vec<u32> {
        let Some(farm) = self.transport.farm() else { return Vec::new() };
        self.workers.iter().filter_map(|worker| farm.pid(worker.vpid)).collect()
    }

    /// Ends the idle workers and waits for their end; the others are killed when this is dropped.
    pub(crate) fn finish(mut self) {
        self.end_idle();
    }

    /// Notifies all workers that their current tasks are not wanted.
    pub(crate) fn cancel(&mut self) {
        for vpid in self.workers.iter().map(|worker| worker.vpid).collect::<Vec<_>>() {
            let _ = self.send_order(vpid, &OrderRef::Cancel); // or it is dead
        }
    }

    /// Dismisses the members of a team: each leaves once it has finished its current task.
    pub(crate) fn dismiss(mut self, members: usize) {
        for rank in 1..members {
            let _ = self.send_order(Vpid::new(rank, 0), &OrderRef::End); // or it is dead
        }
    }
}

impl<T, R> Manager<T, R> {
    /// Ends the idle workers of a farm, and waits until they have ended, at most one second.
    fn end_idle(&mut self) {
        if self.transport.check_not_forked().is_err() || self.transport.farm().is_none() {
            return;
        }
        let idle =
            self.workers.iter().filter(|worker| worker.tasks.is_empty()).map(|worker| worker.vpid);
        let (idle, deadline) = (idle.collect::<Vec<_>>(), Instant::now().checked_add(GRACE));
        for &vpid in &idle {
            // The order has no task, so its bytes are the same for all types. A worker that has
            // ended needs none.
            let end = OrderRef::<'_, std::slice::Iter<'_, ()>, ()>::End;
            let _ = self.transport.send(vpid, &end);
        }
        for &vpid in &idle {
            if let Some(farm) = self.transport.farm() {
                let _ = farm.wait(vpid, deadline);
            }
        }
    }
}

/// Workers are killed when the farm is dropped. While a trace is recorded, the idle ones may end by
/// themselves, so that their last spans are in it.
impl<T, R> Drop for Manager<T, R> {
    fn drop(&mut self) {
        if syncline_trace::is_enabled() && !std::thread::panicking() {
            self.end_idle();
        }
    }
}
