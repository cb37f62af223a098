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
//! by a worker, too, so the manager never waits for FLINT, and a deadline holds at any time.
//!
//! # Costs
//! Two messages for each task, and for each piece of some ms of work.
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
pub use messages::Effort;
use messages::{Done, Integers, Order, Problem, Work};
use worker::Tally;
pub use worker::serve_worker;

/// The number of workers that may die with a task before the solver gives up.
pub const ATTEMPTS: u32 = 3;

/// The time after which a worker returns what is left of its task, in microseconds: when there is
/// little to hand out, and otherwise.
const SHORT_PIECE: u64 = 1_000;
const LONG_PIECE: u64 = 20_000;

/// The work of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of worker processes that were started.
    pub workers: u64,
    /// The number of workers that ended while they had a task.
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
    /// When to give up.
    pub deadline: Option<Instant>,
    /// The number of bytes that a worker may have [default: 0, any number].
    pub worker_memory: u64,
}

impl Solver {
    /// Solves a system on worker processes, and calls `progress` ten times a second.
    ///
    /// # Errors
    /// [`SolveError::TimedOut`], [`SolveError::Worker`] after a task has ended [`ATTEMPTS`]
    /// workers, [`SolveError::Farm`] if the farm cannot be founded.
    pub fn solve(
        &self,
        ring: &Ring,
        equations: &[Poly],
        inequations: &[Poly],
        mut progress: impl FnMut(Progress),
    ) -> Result<(Solution, Report), SolveError> {
        let problem = Problem::new(ring, equations, inequations, self.codec);
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
        let mut pool = builder.start::<Work, Done>().map_err(farm_error)?;
        let mut report = Report::default();
        let first = Decomposer::new(ring, equations, inequations).first();
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
        while let Some(outcome) = self.next(&mut pool, &mut progress)? {
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
        let lazard = self.mode == Mode::Lazard;
        let order = Order::Components { solved, lazard, factor: self.factor };
        pool.submit(Work { problem: problem.clone(), order });
        let outcome = self.next(&mut pool, &mut progress)?;
        let done = outcome.expect("a task was submitted").result.map_err(worker_error)?;
        report.effort.add(&done.effort);
        let found = report.effort.read(self.codec, ring, done.chains)?;
        if done.primes.len() != found.len() || done.degrees.len() != found.len() {
            return Err(SolveError::Worker { why: "its components are not complete".to_owned() });
        }
        report.workers = pool.progress().started;
        report.lost = pool.progress().lost;
        pool.finish();
        let components = found.into_iter().zip(done.primes);
        let components = components.map(|(chain, is_prime)| Component { chain, is_prime });
        Ok((Solution { components: components.collect(), degrees: done.degrees }, report))
    }

    /// Waits for the next outcome of a pool; tells the progress meanwhile.
    fn next(
        &self,
        pool: &mut Pool<Work, Done>,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<Outcome<Done>>, SolveError> {
        loop {
            let soon = Instant::now() + TOLD;
            let deadline = self.deadline.map_or(soon, |deadline| deadline.min(soon));
            match pool.next_deadline(Some(deadline)) {
                Err(FarmError::TimedOut { .. }) if Some(deadline) != self.deadline => {
                    progress(Tally::progress(&pool.published()));
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
    let problem = Problem { names, prime: 2, inputs, codec: Codec::Terms };
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
