//! Decompositions on worker processes.
//!
//! # Method
//! A [`Scheme`] says how tasks come to workers. By default they are stolen: the first worker begins
//! the first task, does one of the tasks that each step makes, and forks the others if they are not
//! small; workers without a task steal forked ones. The chains of a forked task return to the
//! worker that forked it. If tasks are farmed, a worker works on what follows from its task until a
//! time has passed, and returns the tasks that are left, of which the manager hands out those of
//! the greatest dimension first, and the largest of these. No scheme has a barrier between
//! dimensions.
//!
//! ```text
//!     stolen    worker ── forks [F', T', Q'] ──> worker ── chains ──> the worker that forked
//!     farmed    manager ── [F, T, Q] ──> worker ── chains, [F', T', Q'] ──> manager
//! ```
//!
//! Workers cache subresultants; only tasks and chains are sent. A worker that takes back a task
//! that it has forked does not decode it.
//!
//! All steps are functions of their tasks, so the set of solved chains is the same for any number
//! of workers, and so are the components.
//!
//! A worker that is killed costs the tasks that it has begun an attempt; after [`ATTEMPTS`] the
//! solver gives up. A polynomial that makes FLINT abort does the same. The components are computed
//! by a worker, too, so the manager never waits for FLINT, and a timeout holds at any time.
//!
//! # Costs
//! Two messages for each task, and for each piece of some ms of work. A worker takes 3 ms from its
//! start to its first answer, half of them for FLINT and the libraries below it; [`Workers`] that
//! are kept do that once for many systems.
//!
//! # Source
//! Moreno Maza and Xie, "Component-level parallelization of triangular decompositions", PASCO 2007.
//! Changed: no barrier between dimensions, and pieces of work by time.

mod messages;
mod worker;

use std::time::{Duration, Instant};

use syncline_farm::pool::Outcome;
use syncline_farm::{FarmError, Pool, PoolBuilder, Program, Task as PoolTask};

use crate::codec::{Codec, CodecError};
use crate::decompose::Decomposer;
use crate::error::SolveError;
use crate::poly::{Poly, Ring};
use crate::primes::Component;
use crate::solve::{Mode, Progress, Solution};
use crate::task::Task;
pub use messages::Effort;
use messages::{Done, How, Integers, Order, Problem, Work};
use worker::Tally;
pub use worker::serve_worker;

/// The number of workers that may die with a task before the solver gives up.
pub const ATTEMPTS: u32 = 3;

/// The time after which a worker returns what is left of its task, in microseconds: when there is
/// little to hand out, and otherwise.
const SHORT_PIECE: u64 = 1_000;
const LONG_PIECE: u64 = 20_000;

/// The work of all workers for a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of worker processes that were started for it: 0 if all were there.
    pub workers: u64,
    /// The number of workers that ended irregularly, since the last system or with a task of this
    /// one.
    pub lost: u64,
    /// What they have done.
    pub effort: Effort,
}

/// How often progress is told.
const TOLD: Duration = Duration::from_millis(100);

/// How tasks come to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// The manager hands out tasks, those of greatest dimension first.
    Farmed,
    /// A worker forks the tasks that it does not do itself; the manager hands them out.
    Forked,
    /// The same, and workers steal from one another.
    #[default]
    Stolen,
}

/// How a system is solved.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    /// The number of worker processes.
    pub workers: usize,
    /// The program of the workers [default: the current one], which calls [`serve_worker`].
    pub program: Option<Program>,
    /// How tasks come to workers.
    pub scheme: Scheme,
    /// How polynomials are sent.
    pub codec: Codec,
    /// What chains stand for.
    pub mode: Mode,
    /// Whether components are divided into irreducible ones.
    pub factor: bool,
    /// The time after which the solution of a system is given up.
    pub timeout: Option<Duration>,
    /// The number of bytes that a worker may have [default: 0, any number].
    pub worker_memory: u64,
    /// The seed of random numbers.
    pub seed: u64,
}

impl Solver {
    /// Solves a system on worker processes that are started for it, and calls `progress` ten times
    /// a second.
    ///
    /// # Errors
    /// As [`start`](Self::start) and [`Workers::solve`].
    pub fn solve(
        &self,
        ring: &Ring,
        equations: &[Poly],
        inequations: &[Poly],
        progress: impl FnMut(Progress),
    ) -> Result<(Solution, Report), SolveError> {
        let mut workers = self.start()?;
        let solved = workers.solve(ring, equations, inequations, progress)?;
        workers.finish();
        Ok(solved)
    }

    /// Founds a farm of worker processes for any number of systems. The workers start when the
    /// first system is solved.
    ///
    /// # Errors
    /// [`SolveError::Farm`] if the farm cannot be founded.
    pub fn start(&self) -> Result<Workers, SolveError> {
        Ok(Workers { pool: Some(self.pool()?), solver: self.clone(), systems: 0 })
    }

    fn pool(&self) -> Result<Pool<Work, Done>, SolveError> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => Program::this().map_err(farm_error)?,
        };
        let builder = PoolBuilder::new(self.workers.max(1))
            .program(program)
            .batch(1)
            .retries(ATTEMPTS - 1)
            .worker_memory(self.worker_memory);
        let builder = match self.scheme {
            Scheme::Farmed => builder,
            Scheme::Forked => builder.forks(),
            Scheme::Stolen => builder.stealing(),
        };
        builder.start().map_err(farm_error)
    }

    /// Solves a system in a pool that has no tasks.
    fn solve_in(
        &self,
        pool: &mut Pool<Work, Done>,
        ring: &Ring,
        problem: &Problem,
        first: Task,
        mut watch: Watch<impl FnMut(Progress)>,
    ) -> Result<(Solution, Report), SolveError> {
        let before = pool.progress();
        let mut report = Report::default();
        let steps = |task, pending: u64| {
            let micros = if pending < 2 * self.workers as u64 { SHORT_PIECE } else { LONG_PIECE };
            Work { problem: problem.clone(), order: Order::Steps { task, micros } }
        };
        let task = report.effort.write(self.codec, first);
        pool.submit(match self.scheme {
            Scheme::Farmed => steps(task, 0),
            Scheme::Forked | Scheme::Stolen => {
                Work { problem: problem.clone(), order: Order::Tree { task } }
            }
        });
        let mut chains = Vec::new();
        let mut pending = 1;
        while let Some(outcome) = watch.next(pool)? {
            let mut done = outcome.result.map_err(worker_error)?;
            report.effort.add(&done.effort);
            chains.extend(report.effort.read(self.codec, ring, done.chains)?);
            pending += done.left.len() as u64;
            pending -= 1;
            done.left.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            for left in done.left {
                let task = PoolTask::new(steps(left.task, pending))
                    .priority(left.dimension as i32)
                    .cost(left.cost);
                pool.submit(task);
            }
        }
        let solved = report.effort.write(self.codec, chains);
        let order = Order::Components { solved, factor: self.factor };
        pool.submit(Work { problem: problem.clone(), order });
        let outcome = watch.next(pool)?;
        let done = outcome.expect("a task was submitted").result.map_err(worker_error)?;
        report.effort.add(&done.effort);
        let found = report.effort.read(self.codec, ring, done.chains)?;
        if done.primes.len() != found.len() || done.degrees.len() != found.len() {
            return Err(SolveError::Worker { why: "its components are not complete".to_owned() });
        }
        report.workers = pool.progress().started - before.started;
        report.lost = pool.progress().lost - before.lost;
        let components = found.into_iter().zip(done.primes);
        let components =
            components.map(|(chain, (is_prime, doubt))| Component { chain, is_prime, doubt });
        Ok((Solution { components: components.collect(), degrees: done.degrees }, report))
    }
}

/// Worker processes that solve systems, one after the other, so that only the first system waits
/// for their start. The workers end when this is dropped.
///
/// ```no_run
/// use syncline_solve::parallel::{Solver, serve_worker};
/// use syncline_solve::{SolveError, Source};
///
/// fn main() -> Result<(), SolveError> {
///     serve_worker()?; // returns at once in the first process
///     let mut workers = Solver { workers: 2, ..Solver::default() }.start()?;
///     for text in ["vars x y\n prime 10007\n x^2 - 2\n x*y - 1", "vars a\n prime 7\n a^2 - 2"] {
///         let source = Source::read(text)?;
///         let system = source.system(source.names())?;
///         let (solution, _) = workers.solve(&system.ring, &system.equations, &[], |_| ())?;
///         assert_eq!(solution.points(), Some(2));
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Workers {
    solver: Solver,
    /// The pool, unless the last solution has failed and left tasks in it.
    pool: Option<Pool<Work, Done>>,
    /// The number of systems so far.
    systems: u64,
}

impl Workers {
    /// Solves a system, and calls `progress` ten times a second. After an error, the next system
    /// has new workers.
    ///
    /// # Errors
    /// [`SolveError::TimedOut`], [`SolveError::Worker`] after a task has ended [`ATTEMPTS`]
    /// workers, [`SolveError::Farm`] if new workers cannot be started.
    pub fn solve(
        &mut self,
        ring: &Ring,
        equations: &[Poly],
        inequations: &[Poly],
        progress: impl FnMut(Progress),
    ) -> Result<(Solution, Report), SolveError> {
        let deadline = self.solver.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut pool = match self.pool.take() {
            Some(pool) => pool,
            None => self.solver.pool()?,
        };
        self.systems += 1;
        let Solver { codec, mode, seed, .. } = self.solver;
        let how = How { codec, mode, seed };
        let problem = Problem::new(self.systems, ring, equations, inequations, how);
        let first = Decomposer::new(ring, equations, inequations).first();
        let watch = Watch { deadline, system: self.systems, progress };
        let solved = self.solver.solve_in(&mut pool, ring, &problem, first, watch)?;
        self.pool = Some(pool);
        Ok(solved)
    }

    /// Ends the workers, and waits for their ends.
    pub fn finish(self) {
        if let Some(pool) = self.pool {
            pool.finish();
        }
    }
}

/// The wait for the outcomes of one system.
struct Watch<P> {
    deadline: Option<Instant>,
    system: u64,
    progress: P,
}

impl<P: FnMut(Progress)> Watch<P> {
    /// Waits for the next outcome of a pool; tells the progress meanwhile.
    fn next(&mut self, pool: &mut Pool<Work, Done>) -> Result<Option<Outcome<Done>>, SolveError> {
        loop {
            let soon = Instant::now() + TOLD;
            let deadline = self.deadline.map_or(soon, |deadline| deadline.min(soon));
            match pool.next_deadline(Some(deadline)) {
                Err(FarmError::TimedOut { .. }) if Some(deadline) != self.deadline => {
                    (self.progress)(Tally::progress(self.system, &pool.published()));
                }
                outcome => return outcome.map_err(farm_error),
            }
        }
    }
}

fn farm_error(error: FarmError) -> SolveError {
    match error {
        FarmError::TimedOut { .. } => SolveError::TimedOut,
        error => SolveError::Farm { why: error.to_string() },
    }
}

fn worker_error(error: syncline_farm::TaskError) -> SolveError {
    SolveError::Worker { why: error.to_string() }
}

impl From<CodecError> for SolveError {
    fn from(error: CodecError) -> SolveError {
        SolveError::Worker { why: error.to_string() }
    }
}

/// What the farm itself costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmCosts {
    /// The time from the start of a worker to its first answer: a median.
    pub spawn: Duration,
    /// The time of a message, half of that of an order without work and its answer.
    pub message: Duration,
}

/// Measures what the farm costs with workers of a program that calls [`serve_worker`].
///
/// # Errors
/// [`SolveError::Farm`] and [`SolveError::Worker`] if a worker does not answer.
pub fn farm_costs(program: &Program) -> Result<FarmCosts, SolveError> {
    let names = vec!["x".to_owned()];
    let inputs = Integers(vec![0, 0]);
    let how = How { codec: Codec::Terms, mode: Mode::Lazard, seed: 0 };
    let problem = Problem { number: 0, names, prime: 2, inputs, how };
    let (mut spawns, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let builder = PoolBuilder::new(1).program(program.clone()).batch(1);
        let mut pool = builder.start::<Work, Done>().map_err(farm_error)?;
        for trip in 0..21 {
            let began = Instant::now();
            let order = Work { problem: problem.clone(), order: Order::Nothing };
            pool.run(order).map_err(worker_error)?;
            let times = if trip == 0 { &mut spawns } else { &mut trips };
            times.push(began.elapsed());
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    Ok(FarmCosts { spawn: median(&mut spawns), message: median(&mut trips) / 2 })
}
