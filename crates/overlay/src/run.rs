//! Running a checked overlay: the phases, the threads that run the tasks, and the report.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use syncline_signal::PaddedSignal;
use syncline_signal::primitive::Ordering;
use syncline_trace::note::{self, Note, ObjectClass, new_ids};
use syncline_trace::{Role, is_enabled, set_role};

use crate::body::Body;
use crate::compiled::Program;
use crate::compiled::claimed::{CLAIMED, Claimed, rounds};
use crate::compiled::partitioned::Partitioned;
use crate::conflicts::Conflicts;
use crate::engine::{Engine, Failure, Phase, Ready, Seat, Setup, Shared};
use crate::error::{RunError, message};
use crate::location::Route;
use crate::overlay::Checked;
use crate::raw::AccessMode;
use crate::ready::ReadyQueues;
use crate::stop::{Stop, Test};

/// The order in which a worker of a pool takes ready tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyOrder {
    /// In the order of the wave: tasks advance evenly.
    #[default]
    Fifo,
    /// First the tasks that waited for the task that the worker ran last: their data are most
    /// likely in its cache.
    DepthFirst,
}

/// The threads that run the tasks.
///
/// All runners give the same results and let each task run equally far ahead of others. The cost of
/// a step differs:
///
/// | runner    | waits by                               | empty task, five requests, per step |
/// |-----------|----------------------------------------|-------------------------------------|
/// | `Pool`    | compiled counters, tasks are claimed   | some 10 ns                          |
/// | `Static`  | compiled counters, fixed tasks         | some 6 ns, without load balancing   |
/// | `Queues`  | the queues of the locations            | some 100 ns                         |
/// | `Threads` | the queues, and wake-ups by the system | microseconds                        |
///
/// A compiled run switches to the queues for a handle from outside once all bodies under way have
/// ended. The handle may thus wait for the longest of them. A body must therefore not wait for a
/// handle at a location of its own overlay, nor for a thread that waits for such a handle. With
/// `Queues` and `Threads` it may, as long as no holder of the location waits for the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runner {
    /// A fixed number of workers. Each is home to a contiguous part of the tasks, in the order of
    /// declaration, and claims tasks of others when it has nothing to do. The overlay is compiled.
    /// While a handle from outside has a request at one of its locations, the run goes over the
    /// queues (except for readers at locations that no task writes).
    Pool {
        /// The number of workers; 0 counts as 1.
        workers: usize,
        /// The order in which a worker takes ready tasks.
        order: ReadyOrder,
    },
    /// Like `Pool`, but each worker runs the tasks of its home only. It suits many tasks of equal,
    /// small work, on no more workers than there are processors.
    Static {
        /// The number of workers; 0 counts as 1.
        workers: usize,
    },
    /// Like `Pool`, but always over the queues of the locations: the reference for the compiled
    /// forms.
    Queues {
        /// The number of workers; 0 counts as 1.
        workers: usize,
        /// The order in which a worker takes ready tasks.
        order: ReadyOrder,
    },
    /// A thread for each task, as in the paper, over the queues. The system schedules the ready
    /// threads.
    Threads,
}

impl Runner {
    /// Creates a pool of `workers` workers that take tasks in the order of the wave.
    #[must_use]
    pub fn pool(workers: usize) -> Self {
        Runner::Pool { workers, order: ReadyOrder::Fifo }
    }

    /// Returns the number of threads that run the bodies of `tasks` tasks.
    pub(crate) fn workers(self, tasks: usize) -> usize {
        match self {
            Runner::Pool { workers, .. }
            | Runner::Static { workers }
            | Runner::Queues { workers, .. } => workers.clamp(1, tasks),
            Runner::Threads => tasks,
        }
    }

    /// Returns the runner with the same workers that goes over the queues.
    pub(crate) fn over_queues(self) -> Self {
        match self {
            Runner::Pool { workers, order } => Runner::Queues { workers, order },
            Runner::Static { workers } => Runner::Queues { workers, order: ReadyOrder::Fifo },
            over_queues => over_queues,
        }
    }

    pub(crate) fn is_deep(self) -> bool {
        let (Runner::Pool { order, .. } | Runner::Queues { order, .. }) = self else {
            return false;
        };
        order == ReadyOrder::DepthFirst
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunReport {
    /// The greatest number of iterations that any task did. All tasks did that number, unless some
    /// left.
    pub iterations: u64,
    /// The total number of iterations of all tasks.
    pub steps: u64,
    /// With a convergence test, the residual of each iteration.
    pub residuals: Vec<f64>,
    /// With a convergence test, the first iteration, from 0, whose residual was small enough.
    pub converged: Option<u64>,
    /// The reason why the run was not compiled, or not all the time.
    pub interpreted: Option<Interpreted>,
    /// The total number of iterations of all tasks that were not compiled.
    pub interpreted_steps: u64,
    /// In a run on a team: the number of messages with grants and data that this member has sent.
    pub messages: u64,
    /// In a run on a team: the number of messages with room alone that this member has sent.
    pub room_messages: u64,
}

/// The reason why a run went over the queues of the locations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpreted {
    /// The runner always goes over the queues: `Queues`, `Threads`.
    ByRunner,
    /// A handle from outside had a request at this location. The run is compiled again when no
    /// handle has had one for some time.
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

/// The bodies of all tasks, shared by the threads that run them.
pub(crate) struct Bodies<'a, 'env>(Box<[UnsafeCell<&'a mut Body<'env>>]>);

// SAFETY: bodies are `Send`, and `get` requires exclusive access to the body that its caller names.
unsafe impl Sync for Bodies<'_, '_> {}

impl<'env> Bodies<'_, 'env> {
    /// Returns the body of a task.
    ///
    /// # Safety
    /// No other thread may use the body of this task while the reference lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "exclusive by the scheduling of tasks")]
    pub(crate) unsafe fn get(&self, task: u32) -> &mut Body<'env> {
        // SAFETY: the pointer comes from an `UnsafeCell` that `self` keeps alive. No other
        // reference to the body exists: the caller guarantees it (see `# Safety`).
        unsafe { &mut *self.0[task as usize].get() }
    }
}

impl Checked<'_> {
    /// Runs all tasks iteratively until `stop` ends the run.
    ///
    /// Each run queues the first requests from the start, so a finished overlay can run again. The
    /// call returns when every task has stopped and has released everything that it held, also
    /// after an error.
    ///
    /// # Errors
    /// [`RunError::Failed`] and [`RunError::Panicked`] name the task. The other variants describe
    /// faults found before the start, and ends from outside.
    pub fn run(&mut self, runner: Runner, stop: Stop) -> Result<RunReport, RunError> {
        if let Some(error) = poisoned_before(self) {
            return Err(error);
        }
        if self.live.plan.tasks.is_empty() || stop.at_most == 0 {
            return Ok(RunReport::default());
        }
        let test = match stop.tolerance {
            Some(tolerance) => Some(new_test(self, tolerance, stop.at_most)?),
            None => None,
        };
        let engine = Arc::new(new_engine(self, runner, (stop.at_most, test), None));
        enter(self, &engine)?;
        let (interpreted, interpreted_steps) = phases(&engine, self, runner);
        // At the end, as dropping the payload of a panic may panic.
        match exit(self, &engine) {
            Some(failure) => Err(describe(failure, &engine, self)),
            None => Ok(RunReport { interpreted, interpreted_steps, ..report(&engine) }),
        }
    }
}

/// Returns the error for a location that was poisoned before the run.
pub(crate) fn poisoned_before(overlay: &Checked<'_>) -> Option<RunError> {
    overlay.cores.iter().find_map(|core| {
        let task = core.poisoned()?;
        Some(RunError::Poisoned { location: core.name.clone(), task })
    })
}

/// Registers the engine of a run at all locations, and with the watches.
///
/// # Errors
/// [`RunError::InUse`]; then it is registered nowhere.
pub(crate) fn enter(overlay: &Checked<'_>, engine: &Arc<Engine>) -> Result<(), RunError> {
    let route: Arc<dyn Route> = Arc::clone(engine) as _;
    let joined = overlay.cores.iter().take_while(|core| core.join(&route)).count();
    if let Some(taken) = overlay.cores.get(joined) {
        let location = taken.name.clone();
        overlay.cores[..joined].iter().for_each(|core| core.part());
        engine.give_back();
        return Err(RunError::InUse { location });
    }
    overlay.live.begin(engine);
    Ok(())
}

/// Ends what [`enter`] began, and poisons the locations that tasks whose bodies panicked write.
/// Returns the cause of failure, if the run has failed.
pub(crate) fn exit(overlay: &Checked<'_>, engine: &Engine) -> Option<Failure> {
    overlay.live.end();
    let failure = engine.take_failure();
    for &t in &*engine.panicked.lock().unwrap_or_else(PoisonError::into_inner) {
        poison(overlay, t);
    }
    // Before unregistering: the next overlay over these locations must find no request of this run
    // in the queues.
    engine.give_back();
    overlay.cores.iter().for_each(|core| core.part());
    failure
}

/// Poisons the locations that a task writes.
pub(crate) fn poison(overlay: &Checked<'_>, task: u32) {
    let requests = &overlay.live.plan.requests[task as usize];
    for (l, _) in requests.iter().filter(|r| r.1 == AccessMode::Exclusive) {
        overlay.cores[*l as usize].poison(&overlay.live.plan.tasks[task as usize]);
    }
}

fn new_test(overlay: &Checked<'_>, tolerance: f64, at_most: u64) -> Result<Test, RunError> {
    let name = |t: u32| overlay.live.plan.tasks[t as usize].clone();
    let diameter = Conflicts::new(&overlay.live.plan.requests, overlay.cores.len())
        .diameter()
        .map_err(|(a, b)| RunError::Unconnected { a: name(a), b: name(b) })?;
    Ok(Test::new(tolerance, overlay.live.plan.tasks.len() as u32, diameter, at_most))
}

pub(crate) fn new_engine(
    overlay: &Checked<'_>,
    runner: Runner,
    stop: (u64, Option<Test>),
    shared: Option<Shared>,
) -> Engine {
    let tasks = overlay.live.plan.tasks.len();
    let workers = runner.workers(tasks);
    let home: Box<[u32]> = (0..tasks).map(|t| (t * workers / tasks) as u32).collect();
    let ready = match runner {
        Runner::Threads => Ready::Threads((0..tasks).map(|_| PaddedSignal::default()).collect()),
        _ => Ready::Pool(ReadyQueues::new(workers, home.clone(), runner.is_deep())),
    };
    let may_compile = matches!(runner, Runner::Pool { .. } | Runner::Static { .. });
    let traced = traced(overlay);
    let setup = Setup { ready, home, workers, may_compile, traced, shared };
    Engine::new(&overlay.cores, &overlay.queues, setup, stop)
}

/// Reserves the numbers of the tasks in traces, and returns the first. While recording is on, notes
/// the names of tasks and locations, and the requests.
fn traced(overlay: &Checked<'_>) -> u32 {
    let plan = &overlay.live.plan;
    let first = new_ids(plan.tasks.len() as u32);
    note::add(|| {
        let location = |l: u32| overlay.cores[l as usize].traced;
        let names = overlay.cores.iter().map(|core| Note::Name {
            class: ObjectClass::Location,
            id: core.traced,
            name: core.name.clone(),
        });
        let tasks = (0_u32..).zip(&plan.tasks).map(|(t, name)| {
            let member = overlay.ranks.get(&t).map(|&rank| rank as u32);
            Note::Task { id: first + t, name: name.clone(), member }
        });
        let accesses = (first..).zip(&plan.requests).flat_map(move |(task, requests)| {
            requests.iter().map(move |&(l, mode)| {
                let exclusive = mode == AccessMode::Exclusive;
                Note::Access { task, location: location(l), exclusive }
            })
        });
        let run = Note::Overlay { first, tasks: plan.tasks.len() as u32 };
        [run].into_iter().chain(names).chain(tasks).chain(accesses).collect::<Vec<_>>()
    });
    first
}

/// Runs phase by phase, until all tasks have stopped or the run has failed. Returns the reason why
/// parts of the run were not compiled, if any, and the number of steps that were not.
fn phases(
    engine: &Engine,
    overlay: &mut Checked<'_>,
    runner: Runner,
) -> (Option<Interpreted>, u64) {
    let tasks = overlay.live.plan.tasks.len();
    let (mut interpreted, mut steps) = (None, 0);
    while !engine.is_over() {
        let phase = engine.begin();
        // A failure after `is_over` has halted a run whose halt `begin` has cleared.
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

/// Returns a poisoned location that is requested by a task which goes on.
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
    match is_enabled() {
        false => compiled_as::<false>(engine, program, runner, bodies),
        true => compiled_as::<true>(engine, program, runner, bodies),
    }
}

fn compiled_as<const TRACED: bool>(
    engine: &Engine,
    program: &Program,
    runner: Runner,
    bodies: &mut [Body<'_>],
) {
    let workers = engine.seats.len();
    let (states, home, parked) = (&engine.states, &engine.home, &engine.parked);
    // A single worker runs in the order of the program, in which no task has to wait.
    if matches!(runner, Runner::Static { .. }) || workers == 1 && !runner.is_deep() {
        let tasks = Partitioned::new(program, states, home, workers, parked);
        run_workers(engine, workers, bodies, |me, bodies| {
            tasks.work(me, &engine.halt, step::<TRACED>(engine, me, bodies));
        });
    } else {
        let tasks = Claimed::new(program, states, home, workers, runner.is_deep(), parked);
        run_workers(engine, workers, bodies, |me, bodies| {
            tasks.work(me, &engine.halt, step::<TRACED>(engine, me, bodies));
        });
    }
}

/// Returns how worker `me` runs one round of a task of a compiled run. The result is the task's new
/// state, or `None` if it failed. Whether steps are recorded is decided when the workers begin, so
/// that a step pays nothing for it.
fn step<const TRACED: bool>(
    engine: &Engine,
    me: usize,
    bodies: &Bodies<'_, '_>,
) -> impl FnMut(u32, u64) -> Option<u64> {
    let seat = &engine.seats[me];
    move |task, round| {
        seat.take(task);
        // SAFETY: no other thread uses the body: a task has one worker at a time, that of its home
        // or the one that has claimed it.
        let body = unsafe { bodies.get(task) };
        let state = match TRACED {
            false => engine.iterate(task, round, body),
            true => engine.iterate_traced(task, round, body),
        }?;
        seat.leave();
        if state & CLAIMED != 0 {
            engine.one_less();
        }
        Some(state)
    }
}

/// Returns the number of steps of a worker over queues, without a handle from outside, after which
/// the run is compiled again. A switch costs some 50 ns for each request, and a step over queues
/// some 100 ns more than a compiled one.
fn a_while(engine: &Engine) -> usize {
    (engine.requests.len() / (2 * engine.seats.len())).max(1000)
}

fn pool(engine: &Engine, queues: &ReadyQueues, bodies: &mut [Body<'_>]) {
    let traced = is_enabled();
    run_workers(engine, queues.workers(), bodies, |me, bodies| {
        let seat = &engine.seats[me];
        let (mut alone, a_while) = (0, a_while(engine));
        while let Some(task) = queues.next(me, &engine.halt) {
            // SAFETY: no other thread uses the body: a task is ready for one worker at a time, the
            // one that popped it.
            let body = unsafe { bodies.get(task) };
            engine.step_in_queues(seat, task, body, traced);
            alone = if engine.is_alone() { alone + 1 } else { 0 };
            if alone == a_while {
                engine.halt();
            }
        }
    });
}

/// Calls `work` for each worker, each in its own thread; worker 0 runs in the caller's.
pub(crate) fn run_workers<'env>(
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
            let worker = move || {
                set_role(Role::Worker(me as u32));
                guarded(engine, &engine.seats[me], || work(me, bodies));
            };
            if let Err(source) =
                std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, worker)
            {
                engine.fail(Failure::Thread { what: name, source });
            }
        }
        set_role(Role::Worker(0));
        guarded(engine, &engine.seats[0], || work(0, bodies));
    });
}

fn threads(engine: &Engine, starts: &[PaddedSignal], overlay: &mut Checked<'_>) {
    std::thread::scope(|scope| {
        for (t, (body, start)) in overlay.bodies.iter_mut().zip(starts).enumerate() {
            let name = &overlay.live.plan.tasks[t];
            // The builder panics on a name with a zero byte.
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

/// Calls `f`, which runs tasks in this seat, and turns a panic of a body into the failure of the
/// run.
fn guarded(engine: &Engine, seat: &Seat, f: impl FnOnce()) {
    // Unwind safe: a body that panicked is not called again, and the locations that it writes are
    // poisoned.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let Some(task) = seat.task() else {
            engine.halt();
            std::panic::resume_unwind(payload); // not from a body
        };
        seat.leave();
        engine.panicked.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        engine.fail(Failure::Panic { task, payload });
    }
}

pub(crate) fn describe(failure: Failure, engine: &Engine, overlay: &Checked<'_>) -> RunError {
    let name = |t: u32| overlay.live.plan.tasks[t as usize].clone();
    let iteration = |t: u32| rounds(engine.states[t as usize].load(Ordering::Relaxed));
    match failure {
        Failure::Fault(fault) => RunError::Fault(fault),
        Failure::Poisoned { location, task } => RunError::Poisoned { location, task },
        Failure::Thread { what, source } => RunError::Thread { what, source },
        Failure::Stuck(report) => RunError::Stuck(report),
        Failure::Body { task, source } => {
            RunError::Failed { task: name(task), iteration: iteration(task), source }
        }
        Failure::Panic { task, payload } => {
            let (locations, message) = (overlay.live.plan.written(task), message(&*payload));
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
