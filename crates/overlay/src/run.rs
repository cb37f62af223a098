//! Running a checked overlay: the engine, and its two runners.
//!
//! # One step of a task
//! Its last missing request is granted; the task is ready; somebody runs its body; then, location by
//! location, its next request is queued and the present one released (R2). A task counts what it still
//! misses in one word: its requests, and one more for itself, so that it does not start anew while its
//! requests are still being turned over.
//!
//! ```text
//! missing   n+1 ──grant──> n ──grant──> ... ──own──> 0: ready ──body──> n+1, turn over
//! ```
//!
//! Among the tasks of an overlay it would do to turn over location by location: the task waits for
//! nothing meanwhile, so every edge of the waits-for graph that it turns round starts at a sink. But a
//! newcomer that posts over two locations could get between. So all sections are entered first.
//!
//! # Costs
//! Per step and request: one section of the location, and one atomic subtraction for whoever is granted.
//! Per step: a push and a pop of a ready queue, or the wake-up of a thread. Nothing allocates.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use syncline_signal::primitive::AtomicBool;
use syncline_signal::{PaddedSignal, Policy, Signal};
use syncline_trace as trace;

use crate::error::{LeftTest, RunError, TaskError};
use crate::initial::conflicts;
use crate::location::{BY_HAND, Core, Route};
use crate::overlay::{Body, Checked, Step, Task};
use crate::raw::{Kind, Nodes};
use crate::ready::ReadyQueues;
use crate::stop::{Stop, Test, diameter};

/// In which order a worker of a pool takes ready tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyOrder {
    /// First the one that is ready longest: tasks advance evenly.
    #[default]
    Fifo,
    /// First the one that became ready last: its data are the likeliest to be near.
    DepthFirst,
}

/// Who runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Runner {
    /// A thread for each task, as in the paper. Ready threads run as the system pleases.
    Threads,
    /// A fixed number of workers. Each is home to a contiguous part of the tasks, in the order of
    /// their declaration, and claims from others when it has nothing to do.
    Pool {
        /// How many; 0 counts as 1.
        workers: usize,
        /// Which ready task first.
        order: ReadyOrder,
    },
}

impl Runner {
    /// A pool of `workers` that take the longest-ready task first.
    #[must_use]
    pub fn pool(workers: usize) -> Self {
        Runner::Pool { workers, order: ReadyOrder::Fifo }
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The most iterations that any task did; all did as many unless some left.
    pub iterations: u64,
    /// Iterations of all tasks together.
    pub steps: u64,
    /// With a convergence test: the residual of each iteration.
    pub residuals: Vec<f64>,
    /// With a convergence test: the first iteration, from 0, whose residual was small enough.
    pub converged: Option<u64>,
}

/// What is shared by all who run, and by handles that release to a task from outside.
struct Engine {
    slots: Box<[Slot]>,
    /// All requests, task by task: the location, and the node of the task there.
    requests: Box<[(Arc<Core>, u32)]>,
    ready: Ready,
    /// Tasks that have not stopped.
    left: AtomicU32,
    /// Number of iterations after which tasks stop.
    stop_at: AtomicU64,
    over: AtomicBool,
    test: Option<Test>,
    failure: Mutex<Option<Failure>>,
    /// Tasks whose bodies panicked; what they write is poisoned, whoever failed first.
    panicked: Mutex<Vec<u32>>,
}

/// How a run failed; the names are put in when it is reported.
enum Failure {
    Body { task: u32, source: TaskError },
    Panic { task: u32, payload: Box<dyn Any + Send> },
    Thread { what: String, source: std::io::Error },
    Poisoned { location: String, task: String },
}

/// The state of one task.
#[repr(align(64))]
struct Slot {
    missing: AtomicU32,
    /// Its requests are `first .. first + count`.
    first: u32,
    count: u32,
    /// Iterations done. Written by whoever runs the task.
    iteration: AtomicU64,
}

enum Ready {
    Pool(ReadyQueues),
    /// Per task: how often it was ready.
    Threads(Box<[PaddedSignal]>),
}

impl Route for Engine {
    #[inline]
    fn granted(&self, task: u32) {
        // Release: what the granter did under its grant comes before. Acquire, for the last: sees all.
        if self.slots[task as usize].missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            trace::record(trace::Kind::Grant, task, 0);
            match &self.ready {
                Ready::Pool(queues) => queues.push(task),
                Ready::Threads(starts) => {
                    starts[task as usize].add(1);
                }
            }
        }
    }
}

impl Engine {
    #[inline]
    fn tell(&self, core: &Core, n: u32) {
        let node = core.nodes.node(n);
        match node.waiter() {
            BY_HAND => {
                node.grants().add(1);
            }
            task => self.granted(task),
        }
    }

    /// Runs one iteration of a ready task. False when the task has stopped, or the run is over.
    fn step(&self, task: u32, body: &mut Body<'_>) -> bool {
        let slot = &self.slots[task as usize];
        let iteration = slot.iteration.load(Ordering::Relaxed);
        let requests = &self.requests[slot.first as usize..][..slot.count as usize];
        // A handle from outside may have panicked.
        if let Some((core, task)) = requests.iter().find_map(|(core, _)| Some((core, core.poisoned()?))) {
            self.fail(Failure::Poisoned { location: core.name.clone(), task });
            return false;
        }
        let mut step = Step { iteration, norm: 0.0, leave: false };
        trace::record(trace::Kind::Begin, task, iteration);
        let outcome = body(&mut step);
        trace::record(trace::Kind::End, task, iteration);
        if let Err(source) = outcome.and_then(|()| self.may_leave(task, &step)) {
            self.fail(Failure::Body { task, source });
            return false;
        }
        slot.iteration.store(iteration + 1, Ordering::Relaxed);
        if let Some(test) = &self.test
            && let Some(stop) = test.report(iteration, step.norm)
        {
            // Relaxed: whoever must obey comes after a release of this task (see `stop`).
            self.stop_at.fetch_min(stop, Ordering::Relaxed);
        }
        let last = step.leave || iteration + 1 >= self.stop_at.load(Ordering::Relaxed);
        if last {
            for (core, node) in requests {
                core.raw.section().release(&core.nodes, *node, &mut |n| self.tell(core, n));
            }
            // AcqRel: the last task to stop comes after all the others.
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.finish();
            }
        } else {
            slot.missing.store(slot.count + 1, Ordering::Relaxed);
            self.turn_over(requests);
            self.granted(task);
        }
        !last
    }

    /// All sections are entered, in the order of addresses, before the first is left: whoever posts over
    /// several locations in the same way stands before the task at all of them, or behind it at all.
    #[inline]
    fn turn_over(&self, requests: &[(Arc<Core>, u32)]) {
        for (core, _) in requests {
            core.raw.enter();
        }
        for (core, node) in requests {
            core.raw.entered().next(&core.nodes, *node, &mut |n| self.tell(core, n));
        }
    }

    fn may_leave(&self, task: u32, step: &Step) -> Result<(), TaskError> {
        if step.leave && self.test.is_some() { Err(Box::new(LeftTest(Task(task)))) } else { Ok(()) }
    }

    fn fail(&self, failure: Failure) {
        let mut slot = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(failure);
        drop(slot);
        self.finish();
    }

    /// Ends the run and wakes everybody.
    fn finish(&self) {
        // Release: pairs with the Acquire in `ReadyQueues::next` and `own_thread`.
        self.over.store(true, Ordering::Release);
        match &self.ready {
            Ready::Pool(queues) => queues.close(),
            Ready::Threads(starts) => {
                for start in starts {
                    // Beyond all turns, and far from where a late grant would make it wrap.
                    start.raise_to(Signal::MAX / 2);
                }
            }
        }
    }

    /// Calls `f` with a place to note the task that is run, and makes a panic of its body the failure
    /// of the run.
    fn guarded(&self, f: impl FnOnce(&Cell<u32>)) {
        let current = Cell::new(u32::MAX);
        // A body that panicked is not called again, and what it writes is poisoned.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(&current))) {
            if current.get() == u32::MAX {
                self.finish();
                std::panic::resume_unwind(payload); // not in a body
            }
            self.panicked.lock().unwrap_or_else(PoisonError::into_inner).push(current.get());
            self.fail(Failure::Panic { task: current.get(), payload });
        }
    }

    fn worker(&self, me: usize, queues: &ReadyQueues, bodies: &Bodies<'_, '_>) {
        self.guarded(|current| {
            while let Some(task) = queues.next(me, &self.over) {
                current.set(task);
                // SAFETY: a task is ready for one worker at a time, the one that popped it.
                let body = unsafe { bodies.get(task) };
                self.step(task, body);
            }
        });
    }

    fn own_thread(&self, task: u32, start: &Signal, body: &mut Body<'_>) {
        self.guarded(|current| {
            current.set(task);
            for turn in 1.. {
                // Without death word or deadline the wait cannot fail.
                let _ = start.wait_until(turn, &Policy::default(), None);
                // A failed run raises the signal beyond all turns. Acquire: pairs with `finish`.
                if self.over.load(Ordering::Acquire) || !self.step(task, body) {
                    return;
                }
            }
        });
    }
}

/// The bodies of all tasks, each reached by whoever runs its task.
struct Bodies<'a, 'env>(Box<[UnsafeCell<&'a mut Body<'env>>]>);

// SAFETY: bodies are `Send`, and `get` asks its callers for exclusive access to the one they name.
unsafe impl Sync for Bodies<'_, '_> {}

impl<'env> Bodies<'_, 'env> {
    /// # Safety
    /// Nobody else uses the body of this task meanwhile.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the scheduling of tasks")]
    unsafe fn get(&self, task: u32) -> &mut Body<'env> {
        // SAFETY: as the caller vouches.
        unsafe { &mut *self.0[task as usize].get() }
    }
}

/// See [`Checked::run`].
pub(crate) fn run(overlay: &mut Checked<'_>, runner: Runner, stop: Stop) -> Result<Report, RunError> {
    for core in &overlay.cores {
        if let Some(task) = core.poisoned() {
            return Err(RunError::Poisoned { location: core.name.clone(), task });
        }
    }
    if overlay.plan.tasks.is_empty() || stop.at_most == 0 {
        return Ok(Report::default());
    }
    let test = match stop.tolerance {
        Some(tolerance) => Some(new_test(overlay, tolerance, stop.at_most)?),
        None => None,
    };
    let engine = Arc::new(new_engine(overlay, runner, stop, test));
    let route: Arc<dyn Route> = Arc::clone(&engine) as _;
    let joined = overlay.cores.iter().take_while(|core| core.join(&route)).count();
    if let Some(taken) = overlay.cores.get(joined) {
        let location = taken.name.clone();
        overlay.cores[..joined].iter().for_each(|core| core.part());
        give_back(&engine);
        return Err(RunError::InUse { location });
    }
    queue_first_requests(&engine, overlay);
    match &engine.ready {
        Ready::Pool(queues) => pool(&engine, queues, &mut overlay.bodies),
        Ready::Threads(starts) => threads(&engine, starts, overlay),
    }
    let failure = engine.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    for &t in &*engine.panicked.lock().unwrap_or_else(PoisonError::into_inner) {
        for (l, _) in overlay.plan.requests[t as usize].iter().filter(|r| r.1 == Kind::Exclusive) {
            overlay.cores[*l as usize].poison(&overlay.plan.tasks[t as usize]);
        }
    }
    for core in &overlay.cores {
        core.part();
    }
    give_back(&engine);
    // Last of all: to drop the payload of a panic may panic.
    match failure {
        Some(failure) => Err(describe(failure, &engine, overlay)),
        None => Ok(report(&engine)),
    }
}

fn new_test(overlay: &Checked<'_>, tolerance: f64, at_most: u64) -> Result<Test, RunError> {
    let name = |t: u32| overlay.plan.tasks[t as usize].clone();
    let diameter = diameter(&conflicts(&overlay.plan.requests, overlay.cores.len()))
        .map_err(|(a, b)| RunError::Unconnected { a: name(a), b: name(b) })?;
    Ok(Test::new(tolerance, overlay.plan.tasks.len() as u32, diameter, at_most))
}

fn new_engine(overlay: &Checked<'_>, runner: Runner, stop: Stop, test: Option<Test>) -> Engine {
    let tasks = overlay.plan.tasks.len();
    let mut requests = Vec::new();
    let mut slots = Vec::with_capacity(tasks);
    for (t, list) in overlay.plan.requests.iter().enumerate() {
        slots.push(Slot {
            missing: AtomicU32::new(list.len() as u32),
            first: requests.len() as u32,
            count: list.len() as u32,
            iteration: AtomicU64::new(0),
        });
        requests.extend(list.iter().map(|&(l, _)| {
            let core = Arc::clone(&overlay.cores[l as usize]);
            let node = core.nodes.take(t as u32);
            (core, node)
        }));
        let first = slots[t].first as usize;
        requests[first..].sort_by_key(|(core, _): &(Arc<Core>, u32)| Arc::as_ptr(core));
    }
    let ready = match runner {
        Runner::Threads => Ready::Threads((0..tasks).map(|_| PaddedSignal::default()).collect()),
        Runner::Pool { workers, order } => {
            let workers = workers.clamp(1, tasks);
            let home = (0..tasks).map(|t| (t * workers / tasks) as u32).collect();
            Ready::Pool(ReadyQueues::new(workers, home, order == ReadyOrder::DepthFirst))
        }
    };
    Engine {
        slots: slots.into(),
        requests: requests.into(),
        ready,
        left: AtomicU32::new(tasks as u32),
        stop_at: AtomicU64::new(stop.at_most),
        over: AtomicBool::new(false),
        test,
        failure: Mutex::new(None),
        panicked: Mutex::default(),
    }
}

/// R4: queue by queue in the checked order, before anything runs.
fn queue_first_requests(engine: &Engine, overlay: &Checked<'_>) {
    let mut by_address: Vec<usize> = (0..overlay.cores.len()).collect();
    by_address.sort_by_key(|&l| Arc::as_ptr(&overlay.cores[l]));
    let mut sections: Vec<_> = by_address.iter().map(|&l| (l, overlay.cores[l].raw.section())).collect();
    sections.sort_by_key(|s| s.0);
    let mut sections: Vec<_> = sections.into_iter().map(|s| s.1).collect();
    // The node of task t at location l: the tasks of a queue come with their place among t's requests.
    for (l, queue) in overlay.queues.iter().enumerate() {
        let core = &overlay.cores[l];
        for &(t, kind) in queue {
            let slot = &engine.slots[t as usize];
            let mut mine = engine.requests[slot.first as usize..][..slot.count as usize].iter();
            let Some(&(_, node)) = mine.find(|(c, _)| Arc::ptr_eq(c, core)) else { continue };
            sections[l].post(&core.nodes, node, kind, &mut |n| engine.tell(core, n));
        }
    }
    for (t, slot) in engine.slots.iter().enumerate() {
        if slot.count == 0 {
            slot.missing.store(1, Ordering::Relaxed);
            engine.granted(t as u32);
        }
    }
}

fn pool(engine: &Engine, queues: &ReadyQueues, bodies: &mut [Body<'_>]) {
    let workers = queues.workers();
    let bodies = Bodies(bodies.iter_mut().map(UnsafeCell::new).collect());
    std::thread::scope(|scope| {
        for me in 1..workers {
            let worker = || {
                let bodies = &bodies;
                move || engine.worker(me, queues, bodies)
            };
            let name = format!("worker {me}");
            if let Err(source) = std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, worker())
            {
                engine.fail(Failure::Thread { what: name, source });
            }
        }
        engine.worker(0, queues, &bodies);
    });
}

fn threads(engine: &Engine, starts: &[PaddedSignal], overlay: &mut Checked<'_>) {
    std::thread::scope(|scope| {
        for (t, (body, start)) in overlay.bodies.iter_mut().zip(starts).enumerate() {
            let name = &overlay.plan.tasks[t];
            // A name with a zero byte would make the builder panic.
            let builder = std::thread::Builder::new().name(name.replace('\0', ""));
            let spawned = builder.spawn_scoped(scope, move || engine.own_thread(t as u32, start, body));
            if let Err(source) = spawned {
                engine.fail(Failure::Thread { what: format!("task '{name}'"), source });
                return;
            }
        }
    });
}

fn describe(failure: Failure, engine: &Engine, overlay: &Checked<'_>) -> RunError {
    let name = |t: u32| overlay.plan.tasks[t as usize].clone();
    let iteration = |t: u32| engine.slots[t as usize].iteration.load(Ordering::Relaxed);
    match failure {
        Failure::Poisoned { location, task } => RunError::Poisoned { location, task },
        Failure::Thread { what, source } => RunError::Thread { what, source },
        Failure::Body { task, source } => {
            RunError::Failed { task: name(task), iteration: iteration(task), source }
        }
        Failure::Panic { task, payload } => {
            let written = overlay.plan.requests[task as usize].iter().filter(|r| r.1 == Kind::Exclusive);
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

/// Takes all requests out of the queues and returns the nodes. After a good end there are none left.
fn give_back(engine: &Engine) {
    for (core, node) in &engine.requests {
        core.raw.section().abandon(&core.nodes, *node, &mut |n| {
            let node = core.nodes.node(n);
            if node.waiter() == BY_HAND {
                node.grants().add(1);
            }
        });
        core.nodes.put_back(*node);
    }
}

fn report(engine: &Engine) -> Report {
    let done = engine.slots.iter().map(|s| s.iteration.load(Ordering::Relaxed));
    let found = engine.test.as_ref().map(Test::found).unwrap_or_default();
    Report {
        iterations: done.clone().max().unwrap_or(0),
        steps: done.sum(),
        residuals: found.residuals,
        converged: found.converged,
    }
}
