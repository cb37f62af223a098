//! Pools of workers: each submitted task yields one result or one error, even if workers fail.
//!
//! # Contract
//! Every submitted task ends exactly once: with its result, or with an error that gives the reason.
//! If a worker exits, is killed, exceeds its time limit or sends an invalid message, the task that
//! it was running ends with an error or is retried; the pool continues with another worker.
//!
//! | workers               | a task is run by                        | for                       |
//! |-----------------------|-----------------------------------------|---------------------------|
//! | `PoolBuilder::new(n)` | one of n long-lived workers             | most tasks                |
//! | `.cold()`             | a process of its own, at most n at once | libraries that leak       |
//! | `.forks()`            | one of n busy workers                   | coarse divide and conquer |
//! | `.stealing()`         | one of n workers                        | fine divide and conquer   |
//!
//! A cold pool also suits libraries with global state. With `.forks()`, a worker that waits for
//! children is replaced by another one. With `.stealing()`, workers steal forked tasks from one
//! another.
//!
//! # Scheduling
//! Greedy: no worker is idle while a task is ready. The best ready task is handed out first (see
//! `ready`): by priority, then the largest cost, then the first submitted. Small tasks are handed
//! out in batches, and one batch ahead, so that a worker has the next batch when it has finished
//! one. A batch contains the number of tasks that take a fifth of a millisecond, according to the
//! recent ones, and never more than a quarter of each worker's share of the ready tasks.
//!
//! A task whose arguments are large is handed out while others are under way only if the memory has
//! room for a result of that size, too.
//!
//! # Why there are two ways to fork
//! With `.forks()` a waiting task keeps its process, and another process takes its place: a
//! crash affects one task. With `.stealing()` a fork costs a thousandth of that, but a waiting
//! worker runs other tasks meanwhile, and its death loses them as well.
//!
//! # Source
//! Task farming and fully strict processing: Moreno Maza et al. 2007. Largest first: Graham,
//! "Bounds on multiprocessing timing anomalies" (1969). Batches that shrink with the remaining
//! work: Polychronopoulos and Kuck, "Guided self-scheduling" (1987).

pub(crate) mod fork_table;
mod manager;
mod order;
mod ready;
mod steal;
mod steal_manager;
mod worker;

use std::fmt;
use std::iter::Fuse;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use crate::record::PUBLISHED;
use syncline_fabric::Member;
pub use worker::{Forked, Forks, serve, serve_forks};

use crate::bounds::Bounds;
use crate::error::FarmError;
use crate::pool_transport::PoolTransport;
use crate::program::Program;
use crate::retries::Retries;
use crate::vpid::Vpid;
use manager::Manager;
pub use manager::PoolWaker;

/// The configuration of a pool: its workers, and how they work.
///
/// ```
/// use std::time::{Duration, Instant};
/// use syncline_farm::{PoolBuilder, Program};
///
/// let builder = PoolBuilder::new(8)
///     .program(Program::this()?.arg("--worker"))
///     .retries(1)
///     .timeout(Duration::from_secs(60))
///     .worker_memory(4 << 30);
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    workers: usize,
    program: Option<Program>,
    retries: Retries,
    timeout: Option<Duration>,
    batch: Option<NonZeroUsize>,
    worker_memory: u64,
    memory: usize,
    forward_stops: bool,
    kind: PoolKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolKind {
    Warm,
    Cold,
    Forks,
    Stealing,
}

impl PoolBuilder {
    /// Creates a configuration with `workers` workers that run the current program.
    #[must_use]
    pub fn new(workers: usize) -> PoolBuilder {
        PoolBuilder {
            workers,
            program: None,
            retries: Retries::default(),
            timeout: None,
            batch: None,
            worker_memory: 0,
            memory: 1 << 30,
            forward_stops: true,
            kind: PoolKind::Warm,
        }
    }

    /// Sets the program of the workers [default: the current program].
    #[must_use]
    pub fn program(self, program: Program) -> Self {
        PoolBuilder { program: Some(program), ..self }
    }

    /// Sets how often a task is retried whose worker has failed [default: never]. A task that
    /// panics is not retried.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        PoolBuilder { retries: Retries::new(retries), ..self }
    }

    /// Sets the time limit of a task [default: none]. The worker of a task that exceeds it is
    /// killed, together with the processes that it has started: see [`Farm`](crate::Farm).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        PoolBuilder { timeout: Some(timeout), ..self }
    }

    /// Sets the number of tasks that are handed out together [default: derived from the duration of
    /// recent tasks].
    ///
    /// If a worker is killed, the tasks of its batch that it finished in the last millisecond are
    /// run again. Tasks that must never run twice need batches of 1.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        PoolBuilder { batch: NonZeroUsize::new(batch), ..self }
    }

    /// Sets the number of bytes of private data of each worker: see [`Bounds::worker_memory`].
    #[must_use]
    pub fn worker_memory(self, bytes: u64) -> Self {
        PoolBuilder { worker_memory: bytes, ..self }
    }

    /// Sets the number of bytes that tasks and results in flight may occupy: see
    /// [`Bounds::memory`].
    #[must_use]
    pub fn memory(self, bytes: usize) -> Self {
        PoolBuilder { memory: bytes, ..self }
    }

    /// Sets whether Ctrl-Z also stops the workers: see [`Bounds::forward_stops`]. The time limit of
    /// a task that was running starts again when it continues.
    #[must_use]
    pub fn forward_stops(self, forward_stops: bool) -> Self {
        PoolBuilder { forward_stops, ..self }
    }

    /// Starts a process for each task, as in the paper.
    #[must_use]
    pub fn cold(self) -> Self {
        PoolBuilder { kind: PoolKind::Cold, ..self }
    }

    /// Lets tasks fork and join other tasks: the workers call [`serve_forks`].
    #[must_use]
    pub fn forks(self) -> Self {
        PoolBuilder { kind: PoolKind::Forks, ..self }
    }

    /// Lets tasks fork and join other tasks, which workers steal from one another: they call
    /// [`serve_forks`].
    ///
    /// Compared with [`forks`](Self::forks), a fork that is not stolen costs less than a
    /// microsecond, instead of a message to the manager and back. However, a worker that waits for
    /// a child runs other tasks meanwhile, so the end of a worker affects all tasks that it has
    /// begun.
    #[must_use]
    pub fn stealing(self) -> Self {
        PoolBuilder { kind: PoolKind::Stealing, ..self }
    }

    /// Founds a farm for these workers. They are started when there are tasks.
    ///
    /// # Errors
    /// Those of [`Farm::with`](crate::Farm::with).
    pub fn start<T, R>(self) -> Result<Pool<T, R>, FarmError>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        Ok(Pool { manager: Manager::new(self)? })
    }

    /// Creates a pool of the members of a team, on any number of hosts: rank 0 calls `manage`, and
    /// all other members run tasks with `work`. Returns the result of `manage` at rank 0, and
    /// `None` at the others, when the pool has ended.
    ///
    /// The workers are all other members, regardless of the number given to [`new`](Self::new), and
    /// they are not killed: a task that exceeds its [`timeout`](Self::timeout) ends with an error,
    /// and its member is given no further tasks. If a member of a team on several hosts dies, all
    /// tasks that have not ended end with an error.
    ///
    /// # Collective
    /// All members call it, with the same configuration.
    ///
    /// # Errors
    /// [`FarmError::UnsupportedPool`] for a pool that is [`cold`](Self::cold) or
    /// [`stealing`](Self::stealing); [`FarmError::Range`] in a team of one; [`FarmError::Team`] and
    /// [`FarmError::Gone`] at a worker whose manager is dead.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_farm::PoolBuilder;
    ///
    /// let sums = Team::hosts(3).run(|me| {
    ///     PoolBuilder::new(2).on(
    ///         me,
    ///         |n: u64, _| n * n,
    ///         |pool| pool.map(1..=10).map(|done| done.result.unwrap()).sum::<u64>(),
    ///     )
    /// })?;
    /// assert_eq!(sums[0].as_ref().unwrap(), &Some(385));
    /// # Ok::<(), syncline_fabric::TeamError>(())
    /// ```
    pub fn on<T, R, X>(
        self,
        member: &mut Member,
        work: impl Fn(T, &mut Forks<'_, T, R>) -> R,
        manage: impl FnOnce(&mut Pool<T, R>) -> X,
    ) -> Result<Option<X>, FarmError>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        let (rank, members) = (member.rank(), member.size());
        match self.kind {
            PoolKind::Cold => return Err(FarmError::UnsupportedPool { kind: "cold" }),
            PoolKind::Stealing => return Err(FarmError::UnsupportedPool { kind: "stealing" }),
            PoolKind::Warm | PoolKind::Forks => (),
        }
        if members < 2 {
            let (what, most) = (
                "the number of members of a team with a pool",
                syncline_sync::membership::MAX_MEMBERS,
            );
            return Err(FarmError::Range { what, said: members, least: 2, most });
        }
        let transport = PoolTransport::within(member, self.memory.min(TEAM_MEMORY))?;
        if rank > 0 {
            return worker::work(transport, work).map(|()| None);
        }
        let mut pool = Pool { manager: Manager::within(transport, members, self) };
        let managed = manage(&mut pool);
        pool.manager.dismiss(members);
        Ok(Some(managed))
    }

    fn bounds(&self) -> Bounds {
        // Includes workers that wait for children, and ended ones whose places are not free yet.
        let processes = (8 * self.workers + 64).min(crate::vpid::MAX_PROCESSES);
        // The fork table, in addition to the tasks.
        let table = if self.kind == PoolKind::Stealing {
            crate::arena::FORK_TABLE_BYTES.next_power_of_two()
        } else {
            0
        };
        Bounds::default()
            .processes(processes)
            .memory(self.memory + table)
            .worker_memory(self.worker_memory)
            .forward_stops(self.forward_stops)
            .depth(4)
    }
}

/// The number of bytes of a team's memory that tasks and results in flight may occupy.
const TEAM_MEMORY: usize = 32 << 20;

/// A task to be submitted.
///
/// ```
/// use syncline_farm::Task;
///
/// let urgent = Task::new("x^5 - 1").priority(1);
/// let large = Task::new("x^900 - 1").cost(900.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Task<T> {
    input: T,
    priority: i32,
    cost: f64,
}

impl<T> Task<T> {
    /// Creates a task of priority 0 with unknown cost.
    pub fn new(input: T) -> Self {
        Task { input, priority: 0, cost: 0.0 }
    }

    /// Sets the priority [default: 0]. Tasks of higher priority are begun first.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        Task { priority, ..self }
    }

    /// Sets the expected cost, in any unit. Within a priority, the tasks of largest cost are begun
    /// first.
    #[must_use]
    pub fn cost(self, cost: f64) -> Self {
        Task { cost, ..self }
    }
}

impl<T> From<T> for Task<T> {
    fn from(input: T) -> Self {
        Task::new(input)
    }
}

/// The number of a task in its pool. Tasks are numbered from 0 in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The result of an ended task.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R> {
    /// The ended task.
    pub id: TaskId,
    /// The return value of its function, or the reason why there is none.
    pub result: Result<R, TaskError>,
}

/// The reason why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TaskError {
    /// The worker that ran the task has ended.
    Worker {
        /// The vpid of the worker.
        vpid: Vpid,
        /// The exit cause of the worker.
        how: String,
        /// The number of attempts in which this has happened.
        tries: u32,
        /// The numbers that the worker had published last ([`Forks::publish`]).
        published: [u64; PUBLISHED],
    },
    /// The task exceeded its time limit, and its worker was killed.
    TimedOut {
        /// The time limit.
        after: Duration,
        /// The number of attempts.
        tries: u32,
        /// The numbers that the worker had published last ([`Forks::publish`]).
        published: [u64; PUBLISHED],
    },
    /// The task has panicked.
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The task or its result was not received as expected.
    Garbled {
        /// The reason.
        why: String,
    },
    /// The task or its result cannot be sent.
    Unsendable {
        /// The reason.
        why: String,
    },
    /// There is no worker, as none could be started.
    NoWorker {
        /// The reason.
        why: String,
    },
    /// This process is a copy, made by `fork`, of the pool's process or of the worker that ran the
    /// task.
    Forked,
    /// The task was not wanted any more ([`Pool::kill`]).
    Killed,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times =
            |tries: &u32| if *tries == 1 { String::new() } else { format!(" ({tries} tries)") };
        match self {
            TaskError::Worker { vpid, how, tries, .. } => {
                write!(f, "its worker, process {vpid}, {how}{}", times(tries))
            }
            TaskError::TimedOut { after, tries, .. } => {
                write!(f, "it took longer than {after:?}{}", times(tries))
            }
            TaskError::Panicked { message } => write!(f, "it panicked: {message}"),
            TaskError::Garbled { why } => write!(f, "it was garbled in transit: {why}"),
            TaskError::Unsendable { why } => write!(f, "it cannot be sent: {why}"),
            TaskError::NoWorker { why } => write!(f, "there is no worker: {why}"),
            TaskError::Forked => {
                f.write_str("this process is a copy that fork() has made, and is not in the pool")
            }
            TaskError::Killed => f.write_str("it was not wanted any more"),
        }
    }
}

impl std::error::Error for TaskError {}

/// The progress of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of submitted tasks.
    pub submitted: u64,
    /// The number of submitted tasks that have ended.
    pub ended: u64,
    /// The number of ended tasks that have no result.
    pub failed: u64,
    /// The number of retries.
    pub retried: u64,
    /// The number of workers that were started.
    pub started: u64,
    /// The number of workers that have ended irregularly.
    pub lost: u64,
}

/// A pool of workers: see [`PoolBuilder`].
///
/// The pool works while a call waits for results. The thread that owns it should do little else; a
/// program that computes on incoming results loses nothing as long as that takes less than a batch.
///
/// Dropping it kills its workers; while a trace is recorded, the idle ones are given up to a second
/// to write what they have recorded.
pub struct Pool<T, R> {
    manager: Manager<T, R>,
}

impl<T, R> fmt::Debug for Pool<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("progress", &self.manager.progress).finish_non_exhaustive()
    }
}

impl<T, R> Pool<T, R>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    /// Submits a task. It is begun when a call waits for results.
    pub fn submit(&mut self, task: impl Into<Task<T>>) -> TaskId {
        TaskId(self.manager.submit(task.into()))
    }

    /// Waits for the next task that ends, in any order; returns `None` if all tasks have ended.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would end when tasks may still be submitted"
    )]
    pub fn next(&mut self) -> Option<Outcome<R>> {
        self.manager.next()
    }

    /// Like [`next`](Self::next), with a deadline.
    ///
    /// # Errors
    /// [`FarmError::TimedOut`]: the tasks continue, and their results can be taken later.
    /// [`FarmError::Forked`] in a child made by `fork`, where for all other calls every task ends
    /// with [`TaskError::Forked`].
    pub fn next_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome<R>>, FarmError> {
        self.manager.check_not_forked()?;
        let next = self.manager.next_deadline(deadline);
        next.ok_or_else(|| FarmError::TimedOut { what: "a task to end".to_owned() })
    }

    /// Like [`next_deadline`](Self::next_deadline), but another thread can end the wait by
    /// [`PoolWaker::wake`]: then, and when all tasks have ended, there is no outcome.
    ///
    /// # Errors
    /// As for [`next_deadline`](Self::next_deadline).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use syncline_farm::PoolBuilder;
    ///
    /// let mut pool = PoolBuilder::new(2).start::<u64, u64>()?;
    /// let waker = pool.waker();
    /// std::thread::spawn(move || {
    ///     std::thread::sleep(Duration::from_secs(1));
    ///     waker.wake();
    /// });
    /// pool.submit(7);
    /// assert!(pool.next_or_woken(None)?.is_none()); // if the task takes longer
    /// # Ok::<(), syncline_farm::FarmError>(())
    /// ```
    pub fn next_or_woken(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome<R>>, FarmError> {
        self.manager.check_not_forked()?;
        let next = self.manager.next_or_woken(deadline);
        next.ok_or_else(|| FarmError::TimedOut { what: "a task to end".to_owned() })
    }

    /// Returns what wakes a thread that waits in [`next_or_woken`](Self::next_or_woken).
    #[must_use]
    pub fn waker(&mut self) -> PoolWaker {
        self.manager.waker()
    }

    /// Returns an outcome that is there already.
    pub fn try_next(&mut self) -> Option<Outcome<R>> {
        self.manager.try_next()
    }

    /// Takes a task back that no worker has been given: it ends without an outcome. Returns whether
    /// it was taken back.
    pub fn withdraw(&mut self, id: TaskId) -> bool {
        self.manager.take_back(id.0)
    }

    /// Ends a task without its result: its outcome is [`TaskError::Killed`], whatever the
    /// [retries](PoolBuilder::retries). If a worker runs it, that worker is killed, with the
    /// processes that it has started; tasks of its batch run again, as after any death. A worker
    /// that was handed the task and has not begun it is killed when it begins it. A task that ends
    /// meanwhile keeps its result.
    ///
    /// Members of a team are not killed: what they were given runs on. Neither are workers that
    /// steal: what they have begun runs on.
    pub fn kill(&mut self, id: TaskId) {
        self.manager.kill_task(id.0);
    }

    /// Handles what workers have sent and the deaths of workers, without a wait: a worker that has
    /// died while it had no task counts in [`progress`](Self::progress) from then on.
    #[doc(hidden)]
    pub fn look(&mut self) {
        self.manager.look();
    }

    /// Runs one task and waits for it. The results of other tasks that end meanwhile can be taken
    /// later.
    ///
    /// # Errors
    /// The reason why the task has no result.
    pub fn run(&mut self, task: impl Into<Task<T>>) -> Result<R, TaskError> {
        let id = self.submit(task);
        self.manager.wait_for(id.0)
    }

    /// Runs tasks, and returns an iterator over their results and those of tasks that were
    /// submitted before, in the order in which they end.
    ///
    /// Tasks are drawn from `tasks` as they are needed, up to 16 384 ahead; of the drawn tasks, the
    /// largest come first.
    ///
    /// ```no_run
    /// # use syncline_farm::{PoolBuilder, Task};
    /// # let mut pool = PoolBuilder::new(2).start::<u64, u64>()?;
    /// let mut results = pool.map((0..1000).map(|n| Task::new(n).cost(n as f64)));
    /// while let Some(done) = results.next() {
    ///     match done.result {
    ///         Ok(result) => println!("{}: {result}", done.id.number()),
    ///         Err(error) => eprintln!("{}: {error}", done.id.number()),
    ///     }
    ///     eprintln!("{} of 1000", results.progress().ended);
    /// }
    /// # Ok::<(), syncline_farm::FarmError>(())
    /// ```
    pub fn map<I>(&mut self, tasks: I) -> Results<'_, T, R, I::IntoIter>
    where
        I: IntoIterator<Item: Into<Task<T>>>,
    {
        Results { pool: self, tasks: tasks.into_iter().fuse() }
    }

    /// Notifies all workers that their current tasks are not wanted any more. A task can check for
    /// that ([`Forks::is_cancelled`]); it ends as any other task, with its return value. Tasks that
    /// no worker has been given are still run later.
    pub fn cancel(&mut self) {
        self.manager.cancel();
    }

    /// Returns the progress of the pool.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.manager.progress
    }

    /// Returns the numbers that its live workers have published last ([`Forks::publish`]), zeros
    /// for a worker that has not. No task is waited for, and a retried task may count twice.
    #[must_use]
    pub fn published(&self) -> Vec<[u64; PUBLISHED]> {
        self.manager.published()
    }

    /// Returns the process IDs of its workers.
    #[must_use]
    pub fn pids(&mut self) -> Vec<u32> {
        self.manager.pids()
    }

    /// Ends the workers: waits up to 1 s for the idle ones to exit by themselves, and kills the
    /// others.
    pub fn finish(self) {
        self.manager.finish();
    }
}

/// The number of tasks that are drawn ahead.
const AHEAD: u64 = 16_384;
/// The number of tasks that are drawn before the first of them are handed out.
const SOME: usize = 1024;

/// An iterator over the results of tasks, as they end: see [`Pool::map`].
#[derive(Debug)]
pub struct Results<'p, T, R, I> {
    pool: &'p mut Pool<T, R>,
    tasks: Fuse<I>,
}

impl<T, R, I> Results<'_, T, R, I> {
    /// Returns the progress of the pool.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.pool.manager.progress
    }
}

impl<T, R, I> Iterator for Results<'_, T, R, I>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
    I: Iterator<Item: Into<Task<T>>>,
{
    type Item = Outcome<R>;

    fn next(&mut self) -> Option<Outcome<R>> {
        let manager = &mut self.pool.manager;
        // Refilled when half of them have been handed out, so the queue is rarely refilled.
        if manager.waiting() < AHEAD / 2 {
            let mut drawn = 0;
            while manager.waiting() < AHEAD
                && let Some(task) = self.tasks.next()
            {
                manager.submit(task.into());
                drawn += 1;
                if drawn % SOME == 0 {
                    manager.hand_out_plain();
                }
            }
        }
        manager.next()
    }
}

/// Returns the monotonic clock in nanoseconds, which is the same in all processes.
pub(crate) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
