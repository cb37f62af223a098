//! The state shared by all forms of a run: the tasks, the end of the run, and the switch between
//! forms.
//!
//! # Two forms
//! | form     | a task may run according to            | used                                    |
//! |----------|----------------------------------------|-----------------------------------------|
//! | queues   | the queues of the locations            | with a thread per task, on request, and |
//! |          | (`interpreted`)                        | while a handle has a request            |
//! | compiled | numbers of rounds (`claimed`,          | otherwise                               |
//! |          | `partitioned`)                         |                                         |
//!
//! Both forms impose the same order. The queues follow from the numbers of rounds that the tasks
//! have done, at any moment at which no body runs: the requests of a location stand in the order of
//! their rounds, and within a round in the order of the program.
//!
//! # Switching between the forms
//! ```text
//!             a handle posts behind the overlay's hold: halt
//!           ┌──────────────────────────────────────────────────┐
//!  compiled: one request of the overlay holds each      queues: all tasks have their requests
//!  location, so no request from outside is granted      queued, those of handles behind them
//!           └──────────────────────────────────────────────────┘
//!             for some time no handle has had a request: halt
//! ```
//! After `halt` the workers finish their current steps and return. The switch takes place inside
//! the sections of all locations at once, so it is a single step to other threads. A handle that
//! posts either comes before it, and is seen, or comes behind it, and halts the run again.
//!
//! The switch waits for the bodies in progress. Therefore a body must not wait for a handle at
//! a location of its own overlay.
//!
//! At a location that no task writes, the overlay's hold is inclusive: handles that read stand
//! beside it, as they would in the queues, and cause no switch.
//!
//! The run switches back only after a number of steps whose extra cost over the queues is about the
//! cost of a switch. A handle that posts again and again thus does not make the run switch all the
//! time.
//!
//! # Costs
//! A switch waits for all bodies under way, takes a section of each location, and restarts the
//! workers (tens of microseconds each).

use std::any::Any;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_process::Generation;
use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering};
use syncline_signal::{PaddedSignal, Signal};
use syncline_sync::{Fault, Space, space::Array};
use syncline_trace as trace;

use crate::body::{Body, Step};
use crate::compiled::claimed::{CLAIMED, LEFT, rounds};
use crate::error::{LeftTest, TaskError};
use crate::location::{Core, Route};
use crate::nodes::BY_HAND;
use crate::parked::ParkedWorkers;
use crate::plan::{Plan, Queues, Task};
use crate::raw::{AccessMode, Nodes, Section};
use crate::ready::ReadyQueues;
use crate::snapshot::{
    LocationView, RequestOwner, RequestView, Snapshot, TaskView, granted_in_order,
};
use crate::stop::Test;
use crate::stuck::Stuck;
use crate::wakers::Wakes;

/// The forms of a run, as values of `Engine::form`: none yet, compiled, over queues.
const FRESH: u32 = 0;
const COMPILED: u32 = 1;
const QUEUES: u32 = 2;

/// The state shared by all threads that run tasks, and by handles from outside.
pub(crate) struct Engine {
    /// The rounds that each task has done, as in `claimed`. Over queues only tasks that have
    /// stopped are marked as claimed.
    pub(crate) states: Array<AtomicU64>,
    pub(crate) slots: Box<[Slot]>,
    /// All requests, task by task: the location, and the task's node there.
    pub(crate) requests: Box<[(Arc<Core>, u32)]>,
    /// The locations, sorted by address.
    places: Box<[Place]>,
    /// The destination of ready tasks in a run over queues.
    pub(crate) ready: Ready,
    /// The parked workers of a compiled run.
    pub(crate) parked: ParkedWorkers,
    /// The home of each task, as the number of a worker.
    pub(crate) home: Box<[u32]>,
    /// The task that each thread of the run currently runs.
    pub(crate) seats: Box<[Seat]>,
    /// The number of tasks that have not stopped.
    left: AtomicU32,
    /// The number of iterations after which tasks stop.
    pub(crate) stop_at: AtomicU64,
    pub(crate) test: Option<Test>,
    /// Tells all workers to return: the run is over, or goes on in another form or with another
    /// program.
    pub(crate) halt: AtomicBool,
    /// The current form. Changed inside the sections of all locations.
    form: AtomicU32,
    /// Whether the run may be compiled at all.
    may_compile: bool,
    /// The number of the first task in traces.
    traced: u32,
    /// In a run on a team: what tells the other members of a failure. Such a run is always
    /// compiled.
    share: Option<Box<dyn Share>>,
    born: Generation,
    /// The number of requests of handles from outside that prevent a compiled run (see
    /// [`minds`](Engine::minds)). Exact inside the sections of all locations, once a phase has
    /// begun.
    outside: AtomicU32,
    failure: Mutex<Option<Failure>>,
    /// The tasks whose bodies panicked. The locations that they write are poisoned, whichever task
    /// failed first.
    pub(crate) panicked: Mutex<Vec<u32>>,
}

/// The workers of a run.
pub(crate) struct Setup {
    pub(crate) ready: Ready,
    /// The home of each task, as the number of a worker.
    pub(crate) home: Box<[u32]>,
    /// The number of workers of a compiled run.
    pub(crate) workers: usize,
    pub(crate) may_compile: bool,
    /// The number of the first task in traces.
    pub(crate) traced: u32,
    /// Present in a run on a team.
    pub(crate) shared: Option<Shared>,
}

/// The part of a run on a team that an engine has in common with those of other members.
pub(crate) struct Shared {
    pub(crate) states: Array<AtomicU64>,
    pub(crate) parked: ParkedWorkers,
    /// The number of tasks that this member runs.
    pub(crate) tasks: usize,
    pub(crate) share: Box<dyn Share>,
}

/// Tells the other members of a team that the run has failed here.
pub(crate) trait Share: Send + Sync {
    fn failed(&self, failure: &Failure, rounds: &dyn Fn(u32) -> u64);
}

/// The cause of a failed run. Names are filled in when it is reported.
pub(crate) enum Failure {
    Fault(Fault),
    Body { task: u32, source: TaskError },
    Panic { task: u32, payload: Box<dyn Any + Send> },
    Thread { what: String, source: std::io::Error },
    Stuck(Box<Stuck>),
    Poisoned { location: String, task: String },
}

/// The task that a thread runs, for snapshots and for the report of a panic. It has a cache line of
/// its own, as each step writes it. Relaxed suffices, as it publishes no other memory.
#[repr(align(64))]
pub(crate) struct Seat(AtomicU32);

const NOBODY: u32 = u32::MAX;

impl Seat {
    #[inline]
    pub(crate) fn take(&self, task: u32) {
        self.0.store(task, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.0.store(NOBODY, Ordering::Relaxed);
    }

    pub(crate) fn task(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&task| task != NOBODY)
    }
}

/// A location of the run.
struct Place {
    core: Arc<Core>,
    /// Its number in the plan.
    location: usize,
    /// The node that holds the location during a compiled run.
    hold: u32,
    /// The requests of the tasks, in the order of the first ones.
    requests: Box<[Queued]>,
    /// Whether handles may read beside the run: all requests are inclusive, and the run is not on a
    /// team, which gives the location its final value.
    only_read: bool,
}

/// The request of a task at a location.
struct Queued {
    task: u32,
    node: u32,
    kind: AccessMode,
}

/// The grants that a task still lacks in a run over queues.
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) missing: AtomicU32,
    /// Whether the task has left.
    left: AtomicBool,
    /// The index of its first request: its requests are `first .. first + count`.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

pub(crate) enum Ready {
    Pool(ReadyQueues),
    /// For each task, the number of times that it was ready.
    Threads(Box<[PaddedSignal]>),
}

impl Route for Engine {
    #[inline]
    fn granted(&self, task: u32) {
        // Release: the granter's work under its grant happens before the subtraction. Acquire: the
        // last granter synchronizes with all others before it makes the task ready.
        if self.slots[task as usize].missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            match &self.ready {
                Ready::Pool(queues) => queues.push(task),
                Ready::Threads(starts) => {
                    starts[task as usize].increment();
                }
            }
        }
    }

    fn joined(&self, location: &Core, kind: AccessMode) {
        if self.minds(location, kind) {
            self.outside.fetch_add(1, Ordering::Relaxed);
            // On a team the handle waits behind the run's hold until the run ends.
            if self.form.load(Ordering::Relaxed) == COMPILED && self.share.is_none() {
                self.halt();
            }
        }
    }

    fn parted(&self, location: &Core, kind: AccessMode) {
        if self.minds(location, kind) {
            self.outside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Engine {
    /// Creates the engine for tasks with these first requests. `cores` are the locations.
    pub(crate) fn new(
        cores: &[Arc<Core>],
        queues: &Queues,
        setup: Setup,
        stop: (u64, Option<Test>),
    ) -> Self {
        let Setup { ready, home, workers, may_compile, traced, shared } = setup;
        let tasks = home.len();
        let seats = if matches!(ready, Ready::Threads(_)) { tasks } else { workers };
        let mut requests = Vec::new();
        let mut places = Vec::new();
        for (location, (core, queue)) in cores.iter().zip(queues).enumerate() {
            let queued = queue.iter().map(|&(task, kind)| {
                let node = core.nodes.take(task);
                requests.push((task, Arc::clone(core), node));
                Queued { task, node, kind }
            });
            let requests = queued.collect();
            let only_read =
                shared.is_none() && queue.iter().all(|request| request.1 == AccessMode::Inclusive);
            let hold = core.nodes.take(BY_HAND);
            places.push(Place { core: Arc::clone(core), location, hold, requests, only_read });
        }
        places.sort_by_key(|place| Arc::as_ptr(&place.core));
        requests.sort_by_key(|(task, core, _)| (*task, Arc::as_ptr(core)));
        let mut first = 0;
        let slots = counts(&requests, tasks).into_iter().map(|count| {
            first += count;
            Slot {
                missing: AtomicU32::new(0),
                left: AtomicBool::new(false),
                first: first - count,
                count,
            }
        });
        let (states, parked, own, share) = match shared {
            Some(Shared { states, parked, tasks, share }) => (states, parked, tasks, Some(share)),
            None => (own_states(tasks), ParkedWorkers::new(workers), tasks, None),
        };
        Engine {
            states,
            slots: slots.collect(),
            requests: requests.into_iter().map(|(_, core, node)| (core, node)).collect(),
            places: places.into(),
            ready,
            parked,
            home,
            seats: (0..seats).map(|_| Seat(AtomicU32::new(NOBODY))).collect(),
            left: AtomicU32::new(own as u32),
            stop_at: AtomicU64::new(stop.0),
            test: stop.1,
            halt: AtomicBool::new(false),
            form: AtomicU32::new(FRESH),
            may_compile,
            traced,
            share,
            born: Generation::current(),
            outside: AtomicU32::new(0),
            failure: Mutex::new(None),
            panicked: Mutex::default(),
        }
    }

    /// Returns the requests of a task.
    #[inline]
    pub(crate) fn requests_of(&self, task: u32) -> &[(Arc<Core>, u32)] {
        let slot = &self.slots[task as usize];
        &self.requests[slot.first as usize..][..slot.count as usize]
    }

    /// Runs one iteration of a task, and returns its state afterwards, or `None` if it failed.
    #[inline]
    pub(crate) fn iterate(&self, task: u32, iteration: u64, body: &mut Body<'_>) -> Option<u64> {
        self.iterate_as::<false>(task, iteration, body)
    }

    /// As [`iterate`](Self::iterate), and records the step.
    #[cold]
    #[inline(never)]
    pub(crate) fn iterate_traced(
        &self,
        task: u32,
        iteration: u64,
        body: &mut Body<'_>,
    ) -> Option<u64> {
        self.iterate_as::<true>(task, iteration, body)
    }

    #[inline(always)]
    fn iterate_as<const TRACED: bool>(
        &self,
        task: u32,
        iteration: u64,
        body: &mut Body<'_>,
    ) -> Option<u64> {
        let mut step = Step { iteration, norm: 0.0, leave: false };
        let outcome = if TRACED {
            let _span = trace::span(trace::Activity::Step, self.traced + task, iteration);
            body.run(&mut step)
        } else {
            body.run(&mut step)
        };
        if let Err(source) = outcome {
            self.fail(Failure::Body { task, source });
            return None;
        }
        self.end_child();
        if let Some(test) = &self.test
            && let Some(stop) = test.report(iteration, step.norm)
        {
            // Relaxed: every task that the new value concerns starts after a release of this task
            // (see `stop`).
            self.stop_at.fetch_min(stop, Ordering::Relaxed);
        }
        let next = (iteration + 1) << 1;
        if step.leave {
            return self.leave(task, next);
        }
        let last = iteration + 1 >= self.stop_at.load(Ordering::Relaxed);
        Some(next | u64::from(last))
    }

    #[cold]
    fn leave(&self, task: u32, next: u64) -> Option<u64> {
        if self.test.is_some() {
            self.fail(Failure::Body { task, source: Box::new(LeftTest(Task(task))) });
            return None;
        }
        self.slots[task as usize].left.store(true, Ordering::Relaxed);
        Some(LEFT | next | CLAIMED)
    }

    /// Counts a task that has stopped, and halts the run after the last one.
    pub(crate) fn one_less(&self) {
        // AcqRel: the last task to stop synchronizes with all others.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.halt();
        }
    }

    /// Ends this process if it is a child that a body made by fork, in a run on a team: it would go
    /// on with the rounds of its parent, in memory that it shares with other members.
    #[inline]
    fn end_child(&self) {
        if self.share.is_some() {
            self.born.end_child(&"the body of a task has returned twice");
        }
    }

    pub(crate) fn fail(&self, failure: Failure) {
        self.end_child();
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none()
            && let Some(share) = &self.share
        {
            share.failed(&failure, &|t| rounds(self.states[t as usize].load(Ordering::Relaxed)));
        }
        first.get_or_insert(failure);
        drop(first);
        self.halt();
    }

    /// Takes the cause of failure, if the run has failed.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes all threads of the run return.
    pub(crate) fn halt(&self) {
        self.parked.halt(&self.halt);
        match &self.ready {
            Ready::Pool(queues) => queues.close(),
            Ready::Threads(starts) => {
                for start in starts {
                    // Beyond all turns, and far below the limit that late grants could exceed.
                    start.raise_to(Signal::MAX / 2);
                }
            }
        }
    }

    /// Returns whether all tasks have stopped, or the run has failed. Called while no body runs.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 // pairs with the Release in `one_less`
            || self.has_failed()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns whether a handle's request prevents a compiled run. A reader at a location that no
    /// task writes does not: it stands beside the run's own hold, or behind another handle that
    /// counts.
    fn minds(&self, location: &Core, kind: AccessMode) -> bool {
        let place = self
            .places
            .binary_search_by_key(&std::ptr::from_ref(location), |p| Arc::as_ptr(&p.core));
        kind == AccessMode::Exclusive || place.is_ok_and(|p| !self.places[p].only_read)
    }

    /// Returns whether a run over queues could be compiled: no handle from outside has a request
    /// that counts. The answer may be outdated.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.may_compile && self.outside.load(Ordering::Relaxed) == 0
    }

    /// Returns the total number of iterations of all tasks. Called while no body runs.
    pub(crate) fn steps(&self) -> u64 {
        self.states.iter().map(|s| rounds(s.load(Ordering::Relaxed))).sum()
    }

    /// Returns whether a task has not stopped. Called while no body runs.
    pub(crate) fn goes_on(&self, task: u32) -> bool {
        self.states[task as usize].load(Ordering::Relaxed) & CLAIMED == 0
    }

    /// Begins a phase in the form that fits the present requests. Called while no body runs.
    pub(crate) fn begin(&self) -> Phase {
        // Wakes the taken wakers after the sections.
        let mut wakes = Wakes::default();
        let mut sections: Vec<_> =
            self.places.iter().map(|place| place.core.raw.section()).collect();
        let minded = |place: &&Place| place.core.by_hand(place.only_read);
        self.outside.store(self.places.iter().map(|p| minded(&p)).sum(), Ordering::Relaxed);
        let outside = self.places.iter().find(|p| minded(p) > 0).map(|place| &*place.core);
        let phase = match outside {
            _ if !self.may_compile => Phase::Queues { outside: None },
            None => Phase::Compiled,
            Some(core) => Phase::Queues { outside: Some(core.name.clone()) },
        };
        let now = if matches!(phase, Phase::Compiled) { COMPILED } else { QUEUES };
        let before = self.form.swap(now, Ordering::Relaxed);
        self.halt.store(false, Ordering::Relaxed);
        if now != before {
            for (place, section) in self.places.iter().zip(&mut sections) {
                self.change(place, section, before, now, &mut wakes);
            }
        }
        if now == QUEUES {
            self.make_ready();
        }
        phase
    }

    /// Converts the queue of a location from one form to the other.
    fn change(
        &self,
        place: &Place,
        section: &mut Section<'_>,
        before: u32,
        now: u32,
        wakes: &mut Wakes,
    ) {
        let nodes = &place.core.nodes;
        if now == COMPILED {
            // No handle waits here, so the grants concern tasks only. They need no report: the
            // tasks will wait for rounds.
            place.requests.iter().for_each(|r| section.abandon(nodes, r.node, &mut |_| {}));
            let kind = if place.only_read { AccessMode::Inclusive } else { AccessMode::Exclusive };
            section.post(nodes, place.hold, kind, &mut |_| {});
            return;
        }
        let done = |r: &&Queued| rounds(self.states[r.task as usize].load(Ordering::Relaxed));
        let mut requests: Vec<&Queued> =
            place.requests.iter().filter(|r| self.goes_on(r.task)).collect();
        requests.sort_by_key(done);
        let requests = requests.into_iter().map(|r| (r.node, r.kind));
        if before == COMPILED {
            section
                .replace(nodes, place.hold, requests, &mut |n| tell_outside(&place.core, n, wakes));
        } else {
            requests.for_each(|(node, kind)| section.post(nodes, node, kind, &mut |_| {}));
        }
    }

    /// Counts the grants that each task lacks, and readies the tasks that lack none. The sections
    /// of all locations are locked.
    fn make_ready(&self) {
        if let Ready::Pool(ready) = &self.ready {
            ready.clear();
        }
        for (t, slot) in (0..).zip(&self.slots) {
            if !self.goes_on(t) {
                continue;
            }
            let held =
                self.requests_of(t).iter().filter(|(core, node)| core.nodes.node(*node).is_held());
            let missing = slot.count - held.count() as u32;
            // The additional 1 is taken off at once by `granted`, which readies a task that lacks
            // nothing.
            slot.missing.store(missing + 1, Ordering::Relaxed);
            self.granted(t);
        }
    }

    /// Returns the present queues. Over queues, all are seen at one moment. In a compiled run each
    /// task is seen at its own moment, and the queues are derived from the rounds of all tasks.
    pub(crate) fn look(&self, plan: &Plan) -> Snapshot {
        let sections: Vec<_> = self.places.iter().map(|place| place.core.raw.section()).collect();
        let over_queues = self.form.load(Ordering::Relaxed) == QUEUES;
        let states: Vec<u64> = self.states.iter().map(|s| s.load(Ordering::Acquire)).collect();
        let running: Vec<u32> = self.seats.iter().filter_map(Seat::task).collect();
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        // Over queues, a task has stopped when its state says so and it has released everything. In
        // a compiled run, the claim mark may also mean that it runs: its rounds decide.
        let gave_back =
            |t: u32| self.requests_of(t).iter().all(|(core, n)| core.nodes.node(*n).is_idle());
        let stopped = |t: u32, state: u64| {
            let left = || self.slots[t as usize].left.load(Ordering::Relaxed);
            let all = if over_queues { gave_back(t) } else { left() || rounds(state) >= stop_at };
            state & CLAIMED != 0 && all
        };
        let stopped: Vec<bool> = (0..).zip(&states).map(|(t, &state)| stopped(t, state)).collect();
        let mut locations: Vec<LocationView> = plan
            .locations
            .iter()
            .map(|name| LocationView { name: name.clone(), queue: Vec::new() })
            .collect();
        for (place, section) in self.places.iter().zip(&sections) {
            locations[place.location].queue = if over_queues {
                queue_of(place, section)
            } else {
                let mut requests: Vec<&Queued> =
                    place.requests.iter().filter(|r| !stopped[r.task as usize]).collect();
                requests.sort_by_key(|r| rounds(states[r.task as usize]));
                granted_in_order(
                    requests.into_iter().map(|r| (RequestOwner::Task(Task(r.task)), r.kind)),
                )
            };
        }
        drop(sections);
        let task = |(t, name): (usize, &String)| TaskView {
            name: name.clone(),
            iteration: rounds(states[t]),
            running: running.contains(&(t as u32))
                // In a member of a team, the claim tells it.
                || self.share.is_some() && states[t] & CLAIMED != 0 && !stopped[t],
            stopped: stopped[t],
            since: None,
        };
        Snapshot { tasks: plan.tasks.iter().enumerate().map(task).collect(), locations }
    }

    /// Returns the rounds of each task. The values may be outdated.
    pub(crate) fn rounds(&self) -> Vec<u64> {
        self.states.iter().map(|s| rounds(s.load(Ordering::Relaxed))).collect()
    }

    /// Removes all requests of the run from the queues. After a successful run only the holds are
    /// left.
    pub(crate) fn give_back(&self) {
        let mut wakes = Wakes::default();
        for place in &self.places {
            let core = &*place.core;
            for node in place.requests.iter().map(|r| r.node).chain([place.hold]) {
                core.raw
                    .section()
                    .abandon(&core.nodes, node, &mut |n| tell_outside(core, n, &mut wakes));
                core.nodes.put_back(node);
            }
        }
    }
}

/// Returns the queue of a location: the holders, then the waiting requests.
fn queue_of(place: &Place, section: &Section<'_>) -> Vec<RequestView> {
    let nodes = &place.core.nodes;
    let view = |who, kind, granted| RequestView { who, kind, granted };
    let held = place.requests.iter().filter(|r| nodes.node(r.node).is_held());
    let mut queue: Vec<_> =
        held.map(|r| view(RequestOwner::Task(Task(r.task)), r.kind, true)).collect();
    let (holders, kind) = section.holders();
    queue.extend((queue.len()..holders as usize).map(|_| view(RequestOwner::Handle, kind, true)));
    section.waiting(nodes, |node, kind| {
        let who = match node.waiter() {
            BY_HAND => RequestOwner::Handle,
            task => RequestOwner::Task(Task(task)),
        };
        queue.push(view(who, kind, false));
    });
    queue
}

/// Reports a grant if its waiter is a handle. Grants of tasks are not reported.
fn tell_outside(core: &Core, n: u32, wakes: &mut Wakes) {
    if core.nodes.node(n).waiter() == BY_HAND {
        core.nodes.tell_handle(n, wakes);
    }
}

/// The states of the tasks of a run in this process.
fn own_states(tasks: usize) -> Array<AtomicU64> {
    const FITS: &str = "an array on the heap fails only if it is larger than the address space";
    Space::heap().array(tasks).expect(FITS)
}

/// Returns the number of requests of each task. `requests` is sorted by task.
fn counts(requests: &[(u32, Arc<Core>, u32)], tasks: usize) -> Vec<u32> {
    let mut counts = vec![0; tasks];
    requests.iter().for_each(|r| counts[r.0 as usize] += 1);
    counts
}

/// The form of a run in its current phase.
pub(crate) enum Phase {
    Compiled,
    Queues {
        /// A location where a handle from outside has a request, if that is the reason.
        outside: Option<String>,
    },
}
