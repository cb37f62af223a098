//! Running a checked overlay: who runs the tasks, phase by phase, and what is reported.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use syncline_signal::PaddedSignal;
use syncline_signal::primitive::Ordering;

use crate::claimed::{CLAIMED, Claimed, rounds};
use crate::conflicts::Conflicts;
use crate::engine::{Engine, Failure, Phase, Ready, Seat};
use crate::error::RunError;
use crate::location::Route;
use crate::overlay::{Body, Checked};
use crate::partitioned::Partitioned;
use crate::program::Program;
use crate::raw::AccessMode;
use crate::ready::ReadyQueues;
use crate::stop::{Stop, Test};

/// In which order a worker of a pool takes ready tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyOrder {
    /// One after the other, in the order of the wave: tasks advance evenly.
    #[default]
    Fifo,
    /// First those that waited for what the worker ran last: their data are the likeliest to be near.
    DepthFirst,
}

/// Who runs the tasks.
///
/// All give the same results, and each task is as far ahead of others as with any other. What a step costs
/// differs:
///
/// | runner    | waits by                               | a step of an empty task with five requests |
/// |-----------|----------------------------------------|---------------------------------------------|
/// | `Pool`    | compiled counters, tasks are claimed   | some 10 ns                                  |
/// | `Static`  | compiled counters, tasks stay          | some 6 ns, nothing is balanced              |
/// | `Queues`  | the queues of the locations            | some 100 ns                                 |
/// | `Threads` | the queues, and wake-ups by the system | microseconds                                |
///
/// A compiled run goes over to the queues for a handle from outside when all bodies under way have ended. So that handle
/// may wait for the longest of them; and a body must not wait for a handle at a location of its own overlay, nor for
/// somebody who does: with `Queues` and `Threads` it may, as long as nobody who holds the location waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runner {
    /// A fixed number of workers. Each is home to a contiguous part of the tasks, in the order of
    /// their declaration, and claims from others when it has nothing to do. The overlay is compiled; while a handle
    /// from outside has a request at one of its locations it goes on over the queues (but for readers where all read).
    Pool {
        /// How many; 0 counts as 1.
        workers: usize,
        /// Which ready task first.
        order: ReadyOrder,
    },
    /// Like `Pool`, but each worker runs the tasks of its home and no others: for many tasks of equal, small
    /// work, on no more workers than there are processors.
    Static {
        /// How many; 0 counts as 1.
        workers: usize,
    },
    /// Like `Pool`, but over the queues of the locations all the time: the reference for the compiled forms.
    Queues {
        /// How many; 0 counts as 1.
        workers: usize,
        /// Which ready task first.
        order: ReadyOrder,
    },
    /// A thread for each task, as in the paper, over the queues. Ready threads run as the system pleases.
    Threads,
}

impl Runner {
    /// A pool of `workers` that take tasks in the order of the wave.
    #[must_use]
    pub fn pool(workers: usize) -> Self {
        Runner::Pool { workers, order: ReadyOrder::Fifo }
    }

    /// How many threads run the bodies of `tasks` tasks.
    fn workers(self, tasks: usize) -> usize {
        match self {
            Runner::Pool { workers, .. }
            | Runner::Static { workers }
            | Runner::Queues { workers, .. } => workers.clamp(1, tasks),
            Runner::Threads => tasks,
        }
    }

    /// The same, but over the queues.
    pub(crate) fn over_queues(self) -> Self {
        match self {
            Runner::Pool { workers, order } => Runner::Queues { workers, order },
            Runner::Static { workers } => Runner::Queues { workers, order: ReadyOrder::Fifo },
            over_queues => over_queues,
        }
    }

    fn is_deep(self) -> bool {
        let (Runner::Pool { order, .. } | Runner::Queues { order, .. }) = self else {
            return false;
        };
        order == ReadyOrder::DepthFirst
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunReport {
    /// The most iterations that any task did; all did as many unless some left.
    pub iterations: u64,
    /// Iterations of all tasks together.
    pub steps: u64,
    /// With a convergence test: the residual of each iteration.
    pub residuals: Vec<f64>,
    /// With a convergence test: the first iteration, from 0, whose residual was small enough.
    pub converged: Option<u64>,
    /// Why the run was not compiled, or not all the time.
    pub interpreted: Option<Interpreted>,
    /// Iterations of all tasks together that were not compiled.
    pub interpreted_steps: u64,
}

/// Why a run went over the queues of the locations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpreted {
    /// The runner does so: `Queues`, `Threads`.
    ByRunner,
    /// A handle from outside had a request at this location. When nobody has had one for a while, the run is compiled.
    HandleAt(String),
}

impl std::fmt::Display for Interpreted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Interpreted::ByRunner => f.write_str("its runner goes over the queues"),
            Interpreted::HandleAt(location) => {
                write!(f, "a handle from outside had a request at location '{location}'")
            }
        }
    }
}

/// The bodies of all tasks, each reached by whoever runs its task.
struct Bodies<'a, 'env>(Box<[UnsafeCell<&'a mut Body<'env>>]>);

// SAFETY: bodies are `Send`, and `get` asks its callers for exclusive access to the one they name.
unsafe impl Sync for Bodies<'_, '_> {}

impl<'env> Bodies<'_, 'env> {
    /// # Safety
    /// Nobody else uses the body of this task meanwhile.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "exclusive by the scheduling of tasks")]
    unsafe fn get(&self, task: u32) -> &mut Body<'env> {
        // SAFETY: as the caller vouches.
        unsafe { &mut *self.0[task as usize].get() }
    }
}

/// See [`Checked::run`].
pub(crate) fn run(
    overlay: &mut Checked<'_>,
    runner: Runner,
    stop: Stop,
) -> Result<RunReport, RunError> {
    for core in &overlay.cores {
        if let Some(task) = core.poisoned() {
            return Err(RunError::Poisoned { location: core.name.clone(), task });
        }
    }
    if overlay.live.plan.tasks.is_empty() || stop.at_most == 0 {
        return Ok(RunReport::default());
    }
    let test = match stop.tolerance {
        Some(tolerance) => Some(new_test(overlay, tolerance, stop.at_most)?),
        None => None,
    };
    let engine = Arc::new(new_engine(overlay, runner, (stop.at_most, test)));
    let route: Arc<dyn Route> = Arc::clone(&engine) as _;
    let joined = overlay.cores.iter().take_while(|core| core.join(&route)).count();
    if let Some(taken) = overlay.cores.get(joined) {
        let location = taken.name.clone();
        overlay.cores[..joined].iter().for_each(|core| core.part());
        engine.give_back();
        return Err(RunError::InUse { location });
    }
    overlay.live.begin(&engine);
    let (interpreted, interpreted_steps) = phases(&engine, overlay, runner);
    overlay.live.end();
    let failure = engine.take_failure();
    for &t in &*engine.panicked.lock().unwrap_or_else(PoisonError::into_inner) {
        for (l, _) in
            overlay.live.plan.requests[t as usize].iter().filter(|r| r.1 == AccessMode::Exclusive)
        {
            overlay.cores[*l as usize].poison(&overlay.live.plan.tasks[t as usize]);
        }
    }
    // Before it parts: whoever joins next must find nothing of this run in the queues.
    engine.give_back();
    overlay.cores.iter().for_each(|core| core.part());
    // Last of all: to drop the payload of a panic may panic.
    match failure {
        Some(failure) => Err(describe(failure, &engine, overlay)),
        None => Ok(RunReport { interpreted, interpreted_steps, ..report(&engine) }),
    }
}

fn new_test(overlay: &Checked<'_>, tolerance: f64, at_most: u64) -> Result<Test, RunError> {
    let name = |t: u32| overlay.live.plan.tasks[t as usize].clone();
    let diameter = Conflicts::new(&overlay.live.plan.requests, overlay.cores.len())
        .diameter()
        .map_err(|(a, b)| RunError::Unconnected { a: name(a), b: name(b) })?;
    Ok(Test::new(tolerance, overlay.live.plan.tasks.len() as u32, diameter, at_most))
}

fn new_engine(overlay: &Checked<'_>, runner: Runner, stop: (u64, Option<Test>)) -> Engine {
    let tasks = overlay.live.plan.tasks.len();
    let workers = runner.workers(tasks);
    let home: Box<[u32]> = (0..tasks).map(|t| (t * workers / tasks) as u32).collect();
    let ready = match runner {
        Runner::Threads => Ready::Threads((0..tasks).map(|_| PaddedSignal::default()).collect()),
        _ => Ready::Pool(ReadyQueues::new(workers, home.clone(), runner.is_deep())),
    };
    let may_compile = matches!(runner, Runner::Pool { .. } | Runner::Static { .. });
    Engine::new(&overlay.cores, &overlay.queues, ready, home, workers, may_compile, stop)
}

/// Runs phase by phase, until all have stopped or somebody failed. Why not all was compiled, if it was not, and how
/// many steps were not.
fn phases(
    engine: &Engine,
    overlay: &mut Checked<'_>,
    runner: Runner,
) -> (Option<Interpreted>, u64) {
    let tasks = overlay.live.plan.tasks.len();
    let (mut interpreted, mut steps) = (None, 0);
    while !engine.is_over() {
        let phase = engine.begin();
        // Whoever failed after the last look has halted a run that `begin` let go on.
        if engine.has_failed() {
            break;
        }
        match phase {
            Phase::Compiled => {
                if let Some(failure) = poisoned(engine, overlay) {
                    engine.fail(failure);
                    break;
                }
                let whole = (0..tasks as u32).all(|t| engine.goes_on(t));
                let rest = || Program::new(&overlay.queues, tasks, |t| engine.goes_on(t));
                match &overlay.program {
                    Some(program) if whole => {
                        compiled(engine, program, runner, &mut overlay.bodies)
                    }
                    _ => compiled(engine, &rest(), runner, &mut overlay.bodies),
                }
            }
            Phase::Queues { outside } => {
                let why = outside.map_or(Interpreted::ByRunner, Interpreted::HandleAt);
                interpreted.get_or_insert(why);
                let before = engine.steps();
                match &engine.ready {
                    Ready::Pool(queues) => pool(engine, queues, &mut overlay.bodies),
                    Ready::Threads(starts) => threads(engine, starts, overlay),
                }
                steps += engine.steps() - before;
            }
        }
    }
    (interpreted, steps)
}

/// A location that somebody poisoned, and that a task which goes on asks for.
fn poisoned(engine: &Engine, overlay: &Checked<'_>) -> Option<Failure> {
    let poisoners: Vec<Option<String>> = overlay.cores.iter().map(|core| core.poisoned()).collect();
    if poisoners.iter().all(Option::is_none) {
        return None;
    }
    let going = (0..).zip(&overlay.live.plan.requests).filter(|(t, _)| engine.goes_on(*t));
    let mut asked = going.flat_map(|(_, requests)| requests.iter().map(|r| r.0 as usize));
    asked.find_map(|l| {
        let task = poisoners[l].clone()?;
        Some(Failure::Poisoned { location: overlay.cores[l].name.clone(), task })
    })
}

fn compiled(engine: &Engine, program: &Program, runner: Runner, bodies: &mut [Body<'_>]) {
    let workers = engine.seats.len();
    let (states, home, parked) = (&engine.states, &engine.home, &engine.parked);
    // A worker alone runs in the order of the program, in which there is nothing to wait for.
    if matches!(runner, Runner::Static { .. }) || workers == 1 && !runner.is_deep() {
        let tasks = Partitioned::new(program, states, home, workers, parked);
        crew(engine, workers, bodies, |me, bodies| {
            tasks.work(me, &engine.halt, step(engine, me, bodies));
        });
    } else {
        let tasks = Claimed::new(program, states, home, workers, runner.is_deep(), parked);
        crew(engine, workers, bodies, |me, bodies| {
            tasks.work(me, &engine.halt, step(engine, me, bodies));
        });
    }
}

/// How worker `me` runs one round of a task of a compiled run: the new state of the task, or `None` if it failed.
fn step(
    engine: &Engine,
    me: usize,
    bodies: &Bodies<'_, '_>,
) -> impl FnMut(u32, u64) -> Option<u64> {
    let seat = &engine.seats[me];
    move |task, round| {
        seat.take(task);
        // SAFETY: a task has one worker at a time: that of its home, or the one that has claimed it.
        let body = unsafe { bodies.get(task) };
        let state = engine.iterate(task, round, body)?;
        seat.leave();
        if state & CLAIMED != 0 {
            engine.one_less();
        }
        Some(state)
    }
}

/// So many steps of a worker over queues, with nobody outside, before the run is compiled again. A change costs some
/// 50 ns for each request, and a step over queues some 100 ns more than a compiled one.
fn a_while(engine: &Engine) -> usize {
    (engine.requests.len() / (2 * engine.seats.len())).max(1000)
}

fn pool(engine: &Engine, queues: &ReadyQueues, bodies: &mut [Body<'_>]) {
    crew(engine, queues.workers(), bodies, |me, bodies| {
        let seat = &engine.seats[me];
        let (mut alone, a_while) = (0, a_while(engine));
        while let Some(task) = queues.next(me, &engine.halt) {
            // SAFETY: a task is ready for one worker at a time, the one that popped it.
            let body = unsafe { bodies.get(task) };
            engine.step_in_queues(seat, task, body);
            alone = if engine.is_alone() { alone + 1 } else { 0 };
            if alone == a_while {
                engine.halt();
            }
        }
    });
}

/// Calls `work` for each worker, in a thread each, the caller's among them.
fn crew<'env>(
    engine: &Engine,
    workers: usize,
    bodies: &mut [Body<'env>],
    work: impl Fn(usize, &Bodies<'_, 'env>) + Sync,
) {
    let bodies = Bodies(bodies.iter_mut().map(UnsafeCell::new).collect());
    let (work, bodies) = (&work, &bodies);
    std::thread::scope(|scope| {
        for me in 1..workers {
            let name = format!("worker {me}");
            let worker = move || guarded(engine, &engine.seats[me], || work(me, bodies));
            if let Err(source) =
                std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, worker)
            {
                engine.fail(Failure::Thread { what: name, source });
            }
        }
        guarded(engine, &engine.seats[0], || work(0, bodies));
    });
}

fn threads(engine: &Engine, starts: &[PaddedSignal], overlay: &mut Checked<'_>) {
    std::thread::scope(|scope| {
        for (t, (body, start)) in overlay.bodies.iter_mut().zip(starts).enumerate() {
            let name = &overlay.live.plan.tasks[t];
            // A name with a zero byte would make the builder panic.
            let builder = std::thread::Builder::new().name(name.replace('\0', ""));
            let thread = move || {
                guarded(engine, &engine.seats[t], || engine.own_thread(t as u32, start, body));
            };
            if let Err(source) = builder.spawn_scoped(scope, thread) {
                engine.fail(Failure::Thread { what: format!("task '{name}'"), source });
                return;
            }
        }
    });
}

/// Calls `f`, which runs tasks in this seat, and makes a panic of a body the failure of the run.
fn guarded(engine: &Engine, seat: &Seat, f: impl FnOnce()) {
    // A body that panicked is not called again, and what it writes is poisoned.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let Some(task) = seat.task() else {
            engine.halt();
            std::panic::resume_unwind(payload); // not in a body
        };
        seat.leave();
        engine.panicked.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        engine.fail(Failure::Panic { task, payload });
    }
}

fn describe(failure: Failure, engine: &Engine, overlay: &Checked<'_>) -> RunError {
    let name = |t: u32| overlay.live.plan.tasks[t as usize].clone();
    let iteration = |t: u32| rounds(engine.states[t as usize].load(Ordering::Relaxed));
    match failure {
        Failure::Poisoned { location, task } => RunError::Poisoned { location, task },
        Failure::Thread { what, source } => RunError::Thread { what, source },
        Failure::Stuck(report) => RunError::Stuck(report),
        Failure::Body { task, source } => {
            RunError::Failed { task: name(task), iteration: iteration(task), source }
        }
        Failure::Panic { task, payload } => {
            let written = overlay.live.plan.requests[task as usize]
                .iter()
                .filter(|r| r.1 == AccessMode::Exclusive);
            let locations = written.map(|&(l, _)| overlay.cores[l as usize].name.clone()).collect();
            let message = payload
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            RunError::Panicked { task: name(task), iteration: iteration(task), locations, message }
        }
    }
}

fn report(engine: &Engine) -> RunReport {
    let done = engine.states.iter().map(|s| rounds(s.load(Ordering::Relaxed)));
    let found = engine.test.as_ref().map(Test::found).unwrap_or_default();
    RunReport {
        iterations: done.max().unwrap_or(0),
        steps: engine.steps(),
        residuals: found.residuals,
        converged: found.converged,
        ..RunReport::default()
    }
}
