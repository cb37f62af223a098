//! Pools of workers: tasks in, results out, whatever becomes of the workers.
//!
//! # Contract
//! Every task that was submitted ends once: with its result, or with an error that says what has
//! become of it. A worker that exits, is killed, takes too long or sends garbage is the error of
//! the task that it was at, or another try; the pool goes on with another worker.
//!
//! | crew                  | a task is run by                                            | for                       |
//! |-----------------------|--------------------------------------------------------------|---------------------------|
//! | `PoolBuilder::new(n)`         | one of n workers that stay                                   | most                      |
//! | `.cold()`             | a process of its own, at most n at a time                     | libraries that leak, state |
//! | `.forks()`            | one of n workers at work; those that wait for children have a stand-in | divide and conquer, coarse |
//! | `.stealing()`         | one of n workers, which take forked tasks from one another     | divide and conquer, fine  |
//!
//! # Which worker gets which task
//! Greedy: no worker is idle while a task is ready. Of those that are ready the best is handed out
//! (see `ready`): by priority, then the largest cost, then the first. Small tasks are handed out in
//! batches, and one batch ahead, so that a worker has the next when it has done one: as many as
//! take a fifth of a millisecond, by what the last ones took, and never more than the fourth part
//! of what would be each worker's share.
//!
//! # Source
//! Task farming and fully strict processing: Moreno Maza et al. 2007. Largest first: Graham,
//! "Bounds on multiprocessing timing anomalies" (1969). Batches that shrink with what is left:
//! Polychronopoulos and Kuck, "Guided self-scheduling" (1987).

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

use syncline_fabric::Member;
pub use worker::{Forked, Forks, serve, serve_forks};

use crate::bounds::Bounds;
use crate::error::FarmError;
use crate::pool_transport::PoolTransport;
use crate::program::Program;
use crate::retries::Retries;
use crate::vpid::Vpid;
use manager::Manager;

/// The workers of a pool, and how they work.
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
    kind: CrewKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrewKind {
    Warm,
    Cold,
    Forks,
    Stealing,
}

impl PoolBuilder {
    /// A crew of `workers` workers of this program.
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
            kind: CrewKind::Warm,
        }
    }

    /// What the workers run, if it is not this program.
    #[must_use]
    pub fn program(self, program: Program) -> Self {
        PoolBuilder { program: Some(program), ..self }
    }

    /// How often a task is tried again whose worker has failed [default: never]. A task that panics
    /// is not.
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        PoolBuilder { retries: Retries::new(retries), ..self }
    }

    /// How long a task may take. Its worker is killed then, with what it has started: see
    /// [`Farm`](crate::Farm).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        PoolBuilder { timeout: Some(timeout), ..self }
    }

    /// How many tasks are handed out together [default: as the time that they take suggests].
    ///
    /// Of a batch whose worker is killed those tasks are run again that it had done in the last
    /// millisecond. Tasks that must never be run twice want batches of 1.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        PoolBuilder { batch: NonZeroUsize::new(batch), ..self }
    }

    /// How many bytes each worker may have for itself: see [`Bounds::worker_memory`].
    #[must_use]
    pub fn worker_memory(self, bytes: u64) -> Self {
        PoolBuilder { worker_memory: bytes, ..self }
    }

    /// How many bytes tasks and results under way may take: see [`Bounds::memory`].
    #[must_use]
    pub fn memory(self, bytes: usize) -> Self {
        PoolBuilder { memory: bytes, ..self }
    }

    /// Whether Ctrl-Z stops the workers as well: see [`Bounds::forward_stops`]. What was under way
    /// then has its time limit anew when it goes on.
    #[must_use]
    pub fn forward_stops(self, forward_stops: bool) -> Self {
        PoolBuilder { forward_stops, ..self }
    }

    /// A process for each task, as in the paper.
    #[must_use]
    pub fn cold(self) -> Self {
        PoolBuilder { kind: CrewKind::Cold, ..self }
    }

    /// Tasks fork others and join them: the workers call [`serve_forks`].
    #[must_use]
    pub fn forks(self) -> Self {
        PoolBuilder { kind: CrewKind::Forks, ..self }
    }

    /// Tasks fork others and join them, and workers take from one another what was forked: they
    /// call [`serve_forks`].
    ///
    /// Against [`forks`](Self::forks): a fork that no worker takes costs less than a microsecond,
    /// not a message to the manager and back; but a worker that waits for a child does other tasks
    /// meanwhile, so the end of a worker is that of all that it was at.
    #[must_use]
    pub fn stealing(self) -> Self {
        PoolBuilder { kind: CrewKind::Stealing, ..self }
    }

    /// Founds a farm for these workers. They are started when there is something to do.
    ///
    /// # Errors
    /// As [`Farm::with`](crate::Farm::with).
    pub fn start<T, R>(self) -> Result<Pool<T, R>, FarmError>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        Ok(Pool { manager: Manager::new(self)? })
    }

    /// Makes a pool of the members of a team, on whatever hosts: rank 0 manages, by `manage`, all
    /// others work, by `work`. Returns what `manage` returned, and `None` at the others, when it is
    /// over.
    ///
    /// The workers are all other members, however many the crew was to have, and they are not
    /// killed: of a task that takes longer than its [`timeout`](Self::timeout) it is told, and its
    /// member is given nothing more. When a member dies of a team that is on several hosts, all
    /// tasks that have not ended end with that.
    ///
    /// # Collective
    /// All members call it, as anything that is made; each with the same crew.
    ///
    /// # Errors
    /// [`FarmError::PoolBuilder`] for a crew that is [`cold`](Self::cold) or [`stealing`](Self::stealing);
    /// [`FarmError::Range`] in a team of one; [`FarmError::Team`], [`FarmError::Gone`] at a worker
    /// whose manager is dead.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_farm::PoolBuilder;
    ///
    /// let sums = Team::hosts(3).run(|me| {
    ///     PoolBuilder::new(2).on(me, |n: u64, _| n * n, |pool| pool.map(1..=10).map(|done| done.result.unwrap()).sum::<u64>())
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
            CrewKind::Cold => return Err(FarmError::PoolBuilder { kind: "cold" }),
            CrewKind::Stealing => return Err(FarmError::PoolBuilder { kind: "stealing" }),
            CrewKind::Warm | CrewKind::Forks => (),
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
        // Those that wait for children, those that have ended and whose places are not free yet.
        let processes = (8 * self.workers + 64).min(crate::vpid::MAX_PROCESSES);
        // The board beside what the tasks take.
        let table = if self.kind == CrewKind::Stealing {
            crate::arena::BOARD.next_power_of_two()
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

/// How much of a team's memory tasks and results under way may take.
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
    /// A task of priority 0 whose cost is not known.
    pub fn new(input: T) -> Self {
        Task { input, priority: 0, cost: 0.0 }
    }

    /// Tasks of higher priority are begun first.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        Task { priority, ..self }
    }

    /// What it will cost, in whatever unit: of one priority, the largest are begun first.
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

/// The number of a task in its pool: they are counted from 0 as they are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// The number.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What has become of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<R> {
    /// Which.
    pub id: TaskId,
    /// What its function has returned, or why it has not.
    pub result: Result<R, TaskError>,
}

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TaskError {
    /// The worker that was at it has ended.
    Worker {
        /// Which.
        vpid: Vpid,
        /// How.
        how: String,
        /// In how many tries this has happened.
        tries: u32,
    },
    /// It took too long, and its worker was killed.
    TimedOut {
        /// How long it was given.
        after: Duration,
        /// How often it was tried.
        tries: u32,
    },
    /// It has panicked.
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// What was sent is not what was expected.
    Garbled {
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be sent.
    Unsendable {
        /// Why not.
        why: String,
    },
    /// There is no worker: none could be started.
    NoWorker {
        /// Why.
        why: String,
    },
    /// This process is a copy that `fork` has made of the pool's, or of the worker's that was at
    /// it.
    Forked,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times =
            |tries: &u32| if *tries == 1 { String::new() } else { format!(" ({tries} tries)") };
        match self {
            TaskError::Worker { vpid, how, tries } => {
                write!(f, "its worker, process {vpid}, {how}{}", times(tries))
            }
            TaskError::TimedOut { after, tries } => {
                write!(f, "it took longer than {after:?}{}", times(tries))
            }
            TaskError::Panicked { message } => write!(f, "it panicked: {message}"),
            TaskError::Garbled { why } => write!(f, "it was garbled on its way: {why}"),
            TaskError::Unsendable { why } => write!(f, "it cannot be sent: {why}"),
            TaskError::NoWorker { why } => write!(f, "there is no worker: {why}"),
            TaskError::Forked => {
                f.write_str("this process is a copy that fork() has made, and has no part in it")
            }
        }
    }
}

impl std::error::Error for TaskError {}

/// How far a pool has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tasks that were submitted.
    pub submitted: u64,
    /// Tasks that have ended, of those.
    pub ended: u64,
    /// Tasks that have no result, of those.
    pub failed: u64,
    /// How often a task was tried again.
    pub retried: u64,
    /// Workers that were started.
    pub started: u64,
    /// Workers that have ended otherwise than they should.
    pub lost: u64,
}

/// A pool of workers: see [`PoolBuilder`].
///
/// It works while a call waits for results. The thread that has it should do little else; a program
/// that computes on what comes in loses nothing as long as that takes less than a batch.
///
/// When it is dropped its workers are killed.
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

    /// Waits for the next task that ends, whichever it is; `None` when all have.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would end when tasks may still be submitted"
    )]
    pub fn next(&mut self) -> Option<Outcome<R>> {
        self.manager.next()
    }

    /// As [`next`](Self::next), until a deadline.
    ///
    /// # Errors
    /// [`FarmError::TimedOut`]: the tasks go on, and what they come to is there later.
    /// [`FarmError::Forked`] in a child that `fork` has made, where for all other calls every task
    /// ends with [`TaskError::Forked`].
    pub fn next_deadline(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Outcome<R>>, FarmError> {
        self.manager.check_not_forked()?;
        let next = self.manager.next_deadline(deadline);
        next.ok_or_else(|| FarmError::TimedOut { what: "a task to end".to_owned() })
    }

    /// Runs one task, and waits for it. What else ends in the meantime is there later.
    ///
    /// # Errors
    /// Why it has no result.
    pub fn run(&mut self, task: impl Into<Task<T>>) -> Result<R, TaskError> {
        let id = self.submit(task);
        self.manager.wait_for(id.0)
    }

    /// Runs tasks, and returns what becomes of them as they end; and of those that were submitted
    /// before.
    ///
    /// Tasks are drawn from the iterator as they are needed, some ten thousand ahead; of those the
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

    /// Tells all workers that what they are at is not wanted any more. A task learns it where it asks
    /// ([`Forks::is_cancelled`]); it ends as any other, with what it returns. What no worker has
    /// been given is begun later all the same.
    pub fn cancel(&mut self) {
        self.manager.cancel();
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.manager.progress
    }

    /// The processes of its workers, by their numbers in the system.
    #[must_use]
    pub fn pids(&mut self) -> Vec<u32> {
        self.manager.pids()
    }

    /// Has the workers end, those that are at nothing by themselves, and waits for that.
    pub fn finish(self) {
        self.manager.finish();
    }
}

/// How many tasks are drawn ahead.
const AHEAD: u64 = 16_384;
/// How many are drawn before the first of them are handed out.
const SOME: usize = 1024;

/// What becomes of tasks, as they end: see [`Pool::map`].
#[derive(Debug)]
pub struct Results<'p, T, R, I> {
    pool: &'p mut Pool<T, R>,
    tasks: Fuse<I>,
}

impl<T, R, I> Results<'_, T, R, I> {
    /// How far the pool has come.
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
        // Drawn when half of them have gone: so their order is seldom looked at.
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

/// The monotonic clock, in nanoseconds: the same in all processes.
pub(crate) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
