//! The workers of a solver.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Once;
use std::time::{Duration, Instant};

use syncline_farm::pool::{Forks, PUBLISHED, serve_forks};

use super::farm_error;
use super::messages::{Done, Effort, Left, Order, Passed, Problem, Work};
use crate::chain::Chain;
use crate::codec::{CodecError, Reader};
use crate::decompose::{Decomposer, Step};
use crate::error::SolveError;
use crate::poly::Ring;
use crate::solve::{Job, Progress, Solution, solution};
use crate::task::{Task, take_next};

/// What a worker publishes of its tasks of one system while it runs them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The number of the system.
    system: Cell<u64>,
    done: Cell<u64>,
    made: Cell<u64>,
    solved: Cell<u64>,
}

impl Tally {
    /// Begins the counts of a system, unless it is the last one.
    fn count(&self, system: u64) {
        if self.system.replace(system) != system {
            [&self.done, &self.made, &self.solved].iter().for_each(|count| count.set(0));
        }
    }

    /// Publishes that a step of a task of some dimension begins.
    fn begin(&self, forks: &mut Forks<'_, Work, Done>, dimension: usize) {
        let [done, made, solved] = [&self.done, &self.made, &self.solved].map(Cell::get);
        forks.publish([done, made, solved, dimension as u64, self.system.get(), 0]);
    }

    /// Counts a step.
    fn end(&self, step: &Step) {
        Tally::add(&self.done, 1);
        match step {
            Step::Tasks(more) => Tally::add(&self.made, more.len()),
            Step::Solved(_) => Tally::add(&self.solved, 1),
        }
    }

    fn add(to: &Cell<u64>, count: usize) {
        to.set(to.get() + count as u64);
    }

    /// The progress of a system from what all workers have published.
    pub(super) fn progress(system: u64, published: &[[u64; PUBLISHED]]) -> Progress {
        let of_it = published.iter().filter(|numbers| numbers[4] == system);
        let sum = |at: usize| of_it.clone().map(|numbers| numbers[at]).sum::<u64>();
        Progress {
            open: (1 + sum(1)).saturating_sub(sum(0)),
            done: sum(0),
            solved: sum(2),
            dimension: of_it.clone().map(|numbers| numbers[3]).max().unwrap_or_default(),
        }
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
        tally.count(problem.number);
        obey(problem, decomposer, work.order, forks, &tally)
            .unwrap_or_else(|error| panic!("a worker cannot read its task: {error}"))
    })
    .map_err(farm_error)
}

fn decomposer(problem: &Problem) -> Result<Decomposer, SolveError> {
    let ring = Ring::new(&problem.names, problem.prime)?;
    let mut reader = Reader::new(problem.how.codec, &ring, &problem.inputs.0);
    let (equations, inequations) = (reader.polys()?, reader.polys()?);
    reader.finish()?;
    let decomposer = problem.how.mode.decomposer(&ring, &equations, &inequations);
    Ok(decomposer.with_seed(problem.how.seed))
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
        Order::Points { job } => {
            let mut effort = Effort { tasks: 1, ..Effort::default() };
            let job = effort.read(problem.how.codec, decomposer.ring(), job)?;
            tally.begin(forks, 0);
            let chains = effort.working(|| job.run());
            Tally::add(&tally.done, 1);
            let chains = effort.write(problem.how.codec, chains);
            Ok(Done { chains, effort, ..Done::default() })
        }
        Order::Tree { task } => tree(problem, decomposer, task, forks, tally),
        Order::Components { solved, factor } => {
            let mut effort = Effort { tasks: 1, ..Effort::default() };
            let (codec, ring) = (problem.how.codec, decomposer.ring());
            let solved = effort.read(codec, ring, solved)?;
            let mut children = Effort::default();
            let mut joined = Duration::ZERO;
            let began = Instant::now();
            let Solution { components, degrees } =
                solution(decomposer, solved, problem.how.mode, factor, &mut |jobs| {
                    let began = Instant::now();
                    Tally::add(&tally.made, jobs.len());
                    let found = forked(problem, jobs, forks, &mut children);
                    joined += began.elapsed();
                    found
                });
            // The time of the jobs is that of the workers that do them.
            effort.work_micros += began.elapsed().saturating_sub(joined).as_micros() as u64;
            effort.add(&children);
            let primes = components.iter().map(|c| (c.is_prime, c.doubt)).collect();
            let chains = components.into_iter().map(|component| component.chain);
            let chains = chains.collect::<Vec<_>>();
            let chains = effort.write(codec, chains);
            Ok(Done { chains, primes, degrees, effort, left: Vec::new() })
        }
    }
}

/// Forks jobs of a problem's components, and returns their results.
fn forked(
    problem: &Problem,
    jobs: Vec<Job>,
    forks: &mut Forks<'_, Work, Done>,
    effort: &mut Effort,
) -> Vec<Vec<Chain>> {
    let Problem { number, how, .. } = *problem;
    let codec = how.codec;
    let fork = |job: Job| {
        // The ring alone: all jobs of a component have the same problem.
        let problem = Problem::new(number, &job.ring, &[], &[], how);
        let ring = job.ring.clone();
        (ring, forks.fork(Work { problem, order: Order::Points { job: effort.write(codec, job) } }))
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

/// Takes a step, counts it, and publishes it.
fn step(
    decomposer: &Decomposer,
    task: Task,
    effort: &mut Effort,
    forks: &mut Forks<'_, Work, Done>,
    tally: &Tally,
) -> Step {
    effort.steps += 1;
    tally.begin(forks, task.dimension());
    let step = effort.working(|| decomposer.step(task));
    tally.end(&step);
    step
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
    let (codec, ring) = (problem.how.codec, decomposer.ring());
    let mut effort = Effort { tasks: 1, ..Effort::default() };
    let task = effort.read(codec, ring, task)?;
    let mut tasks = vec![task];
    let mut solved: Vec<Chain> = Vec::new();
    let began = Instant::now();
    while (effort.steps == 0 || began.elapsed() < Duration::from_micros(micros))
        && let Some(task) = take_next(&mut tasks)
    {
        match step(decomposer, task, &mut effort, forks, tally) {
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
    let (codec, ring) = (problem.how.codec, decomposer.ring());
    let mut effort = Effort { tasks: 1, ..Effort::default() };
    let task = effort.read(codec, ring, task)?;
    let mut tasks = vec![task];
    let mut solved = Vec::new();
    let mut forked = Vec::new();
    while let Some(task) = take_next(&mut tasks) {
        match step(decomposer, task, &mut effort, forks, tally) {
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
