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
//! Workers cache subresultants; only tasks and chains are sent.
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

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Once;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use syncline_farm::pool::{Forks, Outcome, PUBLISHED, serve_forks};
use syncline_farm::{FarmError, Pool, PoolBuilder, Program, Task as PoolTask};

use crate::chain::Chain;
use crate::codec::{Codec, CodecError, Reader, Writer};
use crate::decompose::{Decomposer, Step};
use crate::error::SolveError;
use crate::poly::{Poly, Ring};
use crate::primes::Component;
use crate::solve::{Job, Mode, Progress, Solution, solution};
use crate::task::Task;

/// The number of workers that may die with a task before the solver gives up.
pub const ATTEMPTS: u32 = 3;

/// The time after which a worker returns what is left of its task, in microseconds: when there is
/// little to hand out, and otherwise.
const SHORT_PIECE: u64 = 1_000;
const LONG_PIECE: u64 = 20_000;

/// Integers, sent as bytes.
#[derive(Clone, Default, PartialEq, Eq)]
struct Integers(Vec<i64>);

impl Serialize for Integers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::cast_slice(&self.0))
    }
}

impl<'de> Deserialize<'de> for Integers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Integers, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Integers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes of integers")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Integers, E> {
                match bytes.len() % size_of::<i64>() {
                    0 => Ok(Integers(bytemuck::allocation::pod_collect_to_vec(bytes))),
                    _ => Err(E::invalid_length(bytes.len(), &self)),
                }
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

/// A value that is encoded for other processes. Within a process, it goes along with its integers,
/// so that it need not be decoded.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Passed<X> {
    integers: Integers,
    #[serde(skip)]
    here: Option<X>,
}

impl<X> Default for Passed<X> {
    fn default() -> Passed<X> {
        Passed { integers: Integers::default(), here: None }
    }
}

/// A value that is passed.
trait Value: Sized {
    fn write(&self, writer: &mut Writer);
    fn read(reader: Reader<'_>) -> Result<Self, CodecError>;
}

impl Value for Task {
    fn write(&self, writer: &mut Writer) {
        writer.task(self);
    }

    fn read(reader: Reader<'_>) -> Result<Task, CodecError> {
        reader.whole_task()
    }
}

impl Value for Vec<Chain> {
    fn write(&self, writer: &mut Writer) {
        writer.chains(self);
    }

    fn read(reader: Reader<'_>) -> Result<Vec<Chain>, CodecError> {
        reader.chains()
    }
}

/// A system, and how it is to be solved.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Problem {
    names: Vec<String>,
    prime: u64,
    inputs: Integers,
    codec: Codec,
}

impl Problem {
    fn new(ring: &Ring, equations: &[Poly], inequations: &[Poly], codec: Codec) -> Problem {
        let inputs = encoded(codec, |writer| {
            writer.polys(equations.iter());
            writer.polys(inequations.iter());
        });
        Problem { names: ring.names().to_vec(), prime: ring.prime(), inputs, codec }
    }

    /// The equations and the inequations.
    fn polys(&self, ring: &Ring) -> Result<(Vec<Poly>, Vec<Poly>), CodecError> {
        let mut reader = Reader::new(self.codec, ring, &self.inputs.0);
        let polys = (reader.polys()?, reader.polys()?);
        reader.finish()?;
        Ok(polys)
    }
}

/// What a worker is to do.
#[derive(Serialize, Deserialize)]
enum Order {
    /// An answer only.
    Nothing,
    /// Steps of a task until a time has passed.
    Steps { task: Passed<Task>, micros: u64 },
    /// The points of a task, whose system is the problem: a [`Job`].
    Points { task: Passed<Task> },
    /// All steps of a task, some of them by other workers.
    Tree { task: Passed<Task> },
    /// The components of solved chains.
    Components { solved: Passed<Vec<Chain>>, lazard: bool, factor: bool },
}

/// A task of the pool.
#[derive(Serialize, Deserialize)]
struct Work {
    problem: Problem,
    order: Order,
}

/// A task that is left, with what the pool orders tasks by.
#[derive(Serialize, Deserialize)]
struct Left {
    task: Passed<Task>,
    dimension: usize,
    cost: f64,
}

/// What a worker has done.
#[derive(Default, Serialize, Deserialize)]
struct Done {
    chains: Passed<Vec<Chain>>,
    primes: Vec<bool>,
    degrees: Vec<usize>,
    left: Vec<Left>,
    effort: Effort,
}

/// What workers have done, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// The number of steps.
    pub steps: u64,
    /// The number of tasks that were sent or forked.
    pub tasks: u64,
    /// The number of integers that were read.
    pub read: u64,
    /// The number of integers that were written.
    pub written: u64,
    /// The number of zeros among all these integers.
    pub zeros: u64,
    /// The time of steps, and of components, in microseconds.
    pub work_micros: u64,
    /// The time in which tasks and chains were decoded, in microseconds.
    pub read_micros: u64,
    /// The time in which they were encoded, in microseconds.
    pub write_micros: u64,
}

impl Effort {
    fn add(&mut self, other: &Effort) {
        self.steps += other.steps;
        self.tasks += other.tasks;
        self.read += other.read;
        self.written += other.written;
        self.zeros += other.zeros;
        self.work_micros += other.work_micros;
        self.read_micros += other.read_micros;
        self.write_micros += other.write_micros;
    }

    /// Returns a value, and counts the integers that are decoded for it, and the time.
    fn read<X: Value>(
        &mut self,
        codec: Codec,
        ring: &Ring,
        passed: Passed<X>,
    ) -> Result<X, CodecError> {
        let Passed { integers, here } = passed;
        if let Some(value) = here {
            return Ok(value);
        }
        let began = Instant::now();
        let value = X::read(Reader::new(codec, ring, &integers.0))?;
        self.read_micros += began.elapsed().as_micros() as u64;
        self.read += integers.0.len() as u64;
        self.zeros += zeros(&integers);
        Ok(value)
    }

    /// Encodes a value, and counts the integers and the time.
    fn write<X: Value>(&mut self, codec: Codec, value: X) -> Passed<X> {
        let began = Instant::now();
        let integers = encoded(codec, |writer| value.write(writer));
        self.write_micros += began.elapsed().as_micros() as u64;
        self.written += integers.0.len() as u64;
        self.zeros += zeros(&integers);
        Passed { integers, here: Some(value) }
    }

    fn working<X>(&mut self, work: impl FnOnce() -> X) -> X {
        let began = Instant::now();
        let value = work();
        self.work_micros += began.elapsed().as_micros() as u64;
        value
    }
}

/// Encodes integers.
fn encoded(codec: Codec, write: impl FnOnce(&mut Writer)) -> Integers {
    let mut writer = Writer::new(codec);
    write(&mut writer);
    Integers(writer.finish())
}

fn zeros(integers: &Integers) -> u64 {
    integers.0.iter().filter(|&&integer| integer == 0).count() as u64
}

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

/// What a worker publishes of its tasks while it runs them.
#[derive(Debug, Default)]
struct Tally {
    done: Cell<u64>,
    made: Cell<u64>,
    solved: Cell<u64>,
}

impl Tally {
    /// Publishes that a step of a task of some dimension begins.
    fn begin(&self, forks: &mut Forks<'_, Work, Done>, dimension: usize) {
        let [done, made, solved] = [&self.done, &self.made, &self.solved].map(Cell::get);
        forks.publish([done, made, solved, dimension as u64, 0, 0]);
    }

    /// Counts a step.
    fn end(&self, step: &Step) {
        let add = |to: &Cell<u64>, count: usize| to.set(to.get() + count as u64);
        add(&self.done, 1);
        match step {
            Step::Tasks(more) => add(&self.made, more.len()),
            Step::Solved(_) => add(&self.solved, 1),
        }
    }

    /// The progress of a decomposition from what all workers have published.
    fn progress(published: &[[u64; PUBLISHED]]) -> Progress {
        let sum = |at: usize| published.iter().map(|numbers| numbers[at]).sum::<u64>();
        Progress {
            open: (1 + sum(1)).saturating_sub(sum(0)),
            done: sum(0),
            solved: sum(2),
            dimension: published.iter().map(|numbers| numbers[3]).max().unwrap_or_default(),
        }
    }
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

/// Serves a solver, if this process is one of its workers, and exits when there are no more tasks.
/// In any other process it returns at once.
///
/// # Errors
/// [`SolveError::Farm`] if the process cannot join its farm.
pub fn serve_worker() -> Result<(), SolveError> {
    // The decomposer of the last problem, with its cached subresultants.
    let last: RefCell<Option<Rc<(Problem, Decomposer)>>> = RefCell::new(None);
    let tally = Tally::default();
    let quiet = Once::new();
    serve_forks(|work: Work, forks: &mut Forks<'_, Work, Done>| {
        // FLINT tells of an error on standard output, where the solution is printed.
        quiet.call_once(|| _ = rustix::stdio::dup2_stdout(std::io::stderr()));
        let known = last.borrow().clone().filter(|known| known.0 == work.problem);
        let known = known.unwrap_or_else(|| {
            let decomposer = decomposer(&work.problem)
                .unwrap_or_else(|error| panic!("a worker cannot read its problem: {error}"));
            Rc::new((work.problem, decomposer))
        });
        *last.borrow_mut() = Some(known.clone());
        let (problem, decomposer) = &*known;
        obey(problem, decomposer, work.order, forks, &tally)
            .unwrap_or_else(|error| panic!("a worker cannot read its task: {error}"))
    })
    .map_err(farm_error)
}

fn decomposer(problem: &Problem) -> Result<Decomposer, SolveError> {
    let ring = Ring::new(&problem.names, problem.prime)?;
    let (equations, inequations) = problem.polys(&ring)?;
    Ok(Decomposer::new(&ring, &equations, &inequations))
}

/// Does what is ordered.
fn obey(
    problem: &Problem,
    decomposer: &Decomposer,
    order: Order,
    forks: &mut Forks<'_, Work, Done>,
    tally: &Tally,
) -> Result<Done, CodecError> {
    match order {
        Order::Nothing => Ok(Done::default()),
        Order::Steps { task, micros } => piece(problem, decomposer, task, micros, forks, tally),
        Order::Points { task } => {
            let mut effort = Effort { tasks: 1, ..Effort::default() };
            let (codec, ring) = (problem.codec, decomposer.ring().clone());
            let task = effort.read(codec, &ring, task)?;
            let (inputs, inequations) = problem.polys(&ring)?;
            let job = Job { ring, inputs, inequations, task };
            let chains = effort.working(|| job.run());
            let chains = effort.write(codec, chains);
            Ok(Done { chains, effort, ..Done::default() })
        }
        Order::Tree { task } => tree(problem, decomposer, task, forks, tally),
        Order::Components { solved, lazard, factor } => {
            let mut effort = Effort { tasks: 1, ..Effort::default() };
            let (codec, ring) = (problem.codec, decomposer.ring());
            let solved = effort.read(codec, ring, solved)?;
            let mode = if lazard { Mode::Lazard } else { Mode::Kalkbrener };
            let mut children = Effort::default();
            let mut joined = Duration::ZERO;
            let began = Instant::now();
            let Solution { components, degrees } =
                solution(decomposer, solved, mode, factor, &mut |jobs| {
                    let began = Instant::now();
                    tally.made.set(tally.made.get() + jobs.len() as u64);
                    let found = forked(codec, jobs, forks, &mut children);
                    joined += began.elapsed();
                    found
                });
            // The time of the jobs is that of the workers that do them.
            effort.work_micros += began.elapsed().saturating_sub(joined).as_micros() as u64;
            effort.add(&children);
            let primes = components.iter().map(|component| component.is_prime).collect();
            let chains = components.into_iter().map(|component| component.chain);
            let chains = chains.collect::<Vec<_>>();
            let chains = effort.write(codec, chains);
            Ok(Done { chains, primes, degrees, effort, left: Vec::new() })
        }
    }
}

/// Forks jobs, and returns their results.
fn forked(
    codec: Codec,
    jobs: Vec<Job>,
    forks: &mut Forks<'_, Work, Done>,
    effort: &mut Effort,
) -> Vec<Vec<Chain>> {
    let fork = |job: Job| {
        let problem = Problem::new(&job.ring, &job.inputs, &job.inequations, codec);
        let task = effort.write(codec, job.task);
        (job.ring, forks.fork(Work { problem, order: Order::Points { task } }))
    };
    let children = jobs.into_iter().map(fork).collect::<Vec<_>>();
    // The last one first: the others may have been taken by other workers.
    let mut found = Vec::new();
    for (ring, child) in children.into_iter().rev() {
        let done = forks.join(child).unwrap_or_else(|error| panic!("{error}"));
        effort.add(&done.effort);
        let chains = effort.read(codec, &ring, done.chains);
        found.push(chains.unwrap_or_else(|error| panic!("{error}")));
    }
    found.reverse();
    found
}

/// Does a task and what follows from it until a time has passed; returns what is left.
fn piece(
    problem: &Problem,
    decomposer: &Decomposer,
    task: Passed<Task>,
    micros: u64,
    forks: &mut Forks<'_, Work, Done>,
    tally: &Tally,
) -> Result<Done, CodecError> {
    let (codec, ring) = (problem.codec, decomposer.ring());
    let mut effort = Effort { tasks: 1, ..Effort::default() };
    let task = effort.read(codec, ring, task)?;
    let mut tasks = vec![task];
    let mut solved: Vec<Chain> = Vec::new();
    let began = Instant::now();
    while let Some(index) = (0..tasks.len()).max_by_key(|&at| (tasks[at].dimension(), at))
        && (effort.steps == 0 || began.elapsed() < Duration::from_micros(micros))
    {
        effort.steps += 1;
        let task = tasks.swap_remove(index);
        tally.begin(forks, task.dimension());
        let step = effort.working(|| decomposer.step(task));
        tally.end(&step);
        match step {
            Step::Tasks(more) => tasks.extend(more),
            Step::Solved(chain) => solved.push(chain),
        }
    }
    let left = tasks.into_iter().map(|task| Left {
        dimension: task.dimension(),
        cost: task.cost(),
        task: effort.write(codec, task),
    });
    let left = left.collect();
    let chains = effort.write(codec, solved);
    Ok(Done { chains, left, effort, ..Done::default() })
}

/// Tasks of a smaller cost are not forked.
const LEAST_FORKED: f64 = 300.0;

/// Does a task and all that follow from it; forks tasks that others may take meanwhile.
fn tree(
    problem: &Problem,
    decomposer: &Decomposer,
    task: Passed<Task>,
    forks: &mut Forks<'_, Work, Done>,
    tally: &Tally,
) -> Result<Done, CodecError> {
    let (codec, ring) = (problem.codec, decomposer.ring());
    let mut effort = Effort { tasks: 1, ..Effort::default() };
    let task = effort.read(codec, ring, task)?;
    let mut tasks = vec![task];
    let mut solved = Vec::new();
    let mut forked = Vec::new();
    while let Some(index) = (0..tasks.len()).max_by_key(|&at| (tasks[at].dimension(), at)) {
        effort.steps += 1;
        let task = tasks.swap_remove(index);
        tally.begin(forks, task.dimension());
        let step = effort.working(|| decomposer.step(task));
        tally.end(&step);
        match step {
            Step::Solved(chain) => solved.push(chain),
            Step::Tasks(more) => {
                for task in more {
                    if tasks.is_empty() || task.cost() < LEAST_FORKED {
                        tasks.push(task);
                    } else {
                        let order = Order::Tree { task: effort.write(codec, task) };
                        forked.push(forks.fork(Work { problem: problem.clone(), order }));
                    }
                }
            }
        }
    }
    for child in forked.into_iter().rev() {
        let done = forks.join(child).unwrap_or_else(|error| panic!("{error}"));
        effort.add(&done.effort);
        solved.extend(effort.read(codec, ring, done.chains)?);
    }
    let chains = effort.write(codec, solved);
    Ok(Done { chains, effort, ..Done::default() })
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
