//! What all forms of a run share: the state of the tasks, how a run ends, and the change between forms.
//!
//! # Two forms
//! | form     | who decides what may run                  | used                                         |
//! |----------|-------------------------------------------|----------------------------------------------|
//! | queues   | the queues of the locations (`queues`)    | with a thread per task, when asked for, and  |
//! |          |                                           | while a handle from outside has a request    |
//! | compiled | numbers of rounds (`claimed`,             | otherwise                                    |
//! |          | `partitioned`)                            |                                              |
//!
//! In both the order is the same: the queues can be made from the rounds that each task has done, at any moment in
//! which no body runs. A location's requests then stand in the order of their rounds, and within a round in the order
//! of the program.
//!
//! # From one to the other
//! ```text
//!             a handle posts behind the overlay's hold: halt
//!           ┌──────────────────────────────────────────────────┐
//!  compiled: every location is held by one request      queues: every task has its requests queued,
//!  of the overlay, so nobody from outside gets in       those of handles are behind them
//!           └──────────────────────────────────────────────────┘
//!             for a while no handle has had a request: halt
//! ```
//! On `halt` the workers end the steps that they are in and return. The change is made inside the sections of all
//! locations at once: to others it is one step, and a handle that posts stands either before it, and is seen,
//! or behind it, and halts anew.
//!
//! Where tasks only read, that request is inclusive: handles that read stand beside it, as they would over the queues, and
//! change nothing.
//!
//! A while: so many steps that what they cost more over queues is about what a change costs. So a handle that comes
//! again and again does not make the run change all the time.
//!
//! # Costs
//! A change: all bodies under way end; a section of each location; the workers start again (tens of microseconds each).

use std::any::Any;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_signal::primitive::{AtomicBool, AtomicU64, Ordering};
use syncline_signal::{PaddedSignal, Signal};
use syncline_trace as trace;

use crate::claimed::{CLAIMED, LEFT, rounds};
use crate::error::{LeftTest, TaskError};
use crate::location::{BY_HAND, Core, Route};
use crate::overlay::{Body, Step, Task};
use crate::parked::ParkedWorkers;
use crate::plan::{Plan, Queues};
use crate::raw::{AccessMode, Nodes, Section};
use crate::ready::ReadyQueues;
use crate::snapshot::{
    LocationView, RequestOwner, RequestView, Snapshot, TaskView, granted_in_order,
};
use crate::stop::Test;
use crate::wakers::Wakes;
use crate::watch::Stuck;

/// Forms of a run: none yet, compiled, over queues.
const FRESH: u32 = 0;
const COMPILED: u32 = 1;
const QUEUES: u32 = 2;

/// What is shared by all who run, and by handles from outside.
pub(crate) struct Engine {
    /// Per task: the rounds that it has done, see `claimed`; over queues none is claimed but those that have stopped.
    pub(crate) states: Box<[AtomicU64]>,
    pub(crate) slots: Box<[Slot]>,
    /// All requests, task by task: the location, and the node of the task there.
    pub(crate) requests: Box<[(Arc<Core>, u32)]>,
    /// The locations, by address.
    places: Box<[Place]>,
    /// Over queues: where tasks that are ready go.
    pub(crate) ready: Ready,
    /// The parked workers of a compiled run.
    pub(crate) parked: ParkedWorkers,
    /// The home of each task: the number of a worker.
    pub(crate) home: Box<[u32]>,
    /// Per thread that runs tasks: the one that it runs.
    pub(crate) seats: Box<[Seat]>,
    /// Tasks that have not stopped.
    left: AtomicU32,
    /// Number of iterations after which tasks stop.
    pub(crate) stop_at: AtomicU64,
    pub(crate) test: Option<Test>,
    /// Everybody returns: the run is over, or goes on in another form or by another program.
    pub(crate) halt: AtomicBool,
    /// The form of the moment. Changed inside the sections of all locations.
    form: AtomicU32,
    /// The run may be compiled at all.
    may_compile: bool,
    /// Requests of handles from outside that the run [minds](Engine::minds). Exact inside the sections of all locations,
    /// once a phase has begun.
    outside: AtomicU32,
    failure: Mutex<Option<Failure>>,
    /// Tasks whose bodies panicked; what they write is poisoned, whoever failed first.
    pub(crate) panicked: Mutex<Vec<u32>>,
}

/// How a run failed; the names are put in when it is reported.
pub(crate) enum Failure {
    Body { task: u32, source: TaskError },
    Panic { task: u32, payload: Box<dyn Any + Send> },
    Thread { what: String, source: std::io::Error },
    Stuck(Box<Stuck>),
    Poisoned { location: String, task: String },
}

/// The task that a thread runs, for snapshots and for the report of a panic. On a line of its own, as it is written in
/// every step; Relaxed, as it says nothing of other memory.
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
    /// The node that holds it for a compiled run.
    hold: u32,
    /// The requests of the tasks in the order of the first ones.
    requests: Box<[Queued]>,
    /// None of them is exclusive.
    only_read: bool,
}

/// A request of a task at a location.
struct Queued {
    task: u32,
    node: u32,
    kind: AccessMode,
}

/// What a task misses over queues.
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) missing: AtomicU32,
    /// It has left.
    left: AtomicBool,
    /// Its requests are `first .. first + count`.
    pub(crate) first: u32,
    pub(crate) count: u32,
}

pub(crate) enum Ready {
    Pool(ReadyQueues),
    /// Per task: how often it was ready.
    Threads(Box<[PaddedSignal]>),
}

impl Route for Engine {
    #[inline]
    fn granted(&self, task: u32) {
        // Release: what the granter did under its grant comes before. Acquire, for the last: sees all.
        if self.slots[task as usize].missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            trace::record(trace::EventKind::Grant, task, 0);
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
            if self.form.load(Ordering::Relaxed) == COMPILED {
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
    /// For the tasks with these first requests. `places` are the locations, `workers` those of a compiled run.
    pub(crate) fn new(
        cores: &[Arc<Core>],
        queues: &Queues,
        ready: Ready,
        home: Box<[u32]>,
        workers: usize,
        may_compile: bool,
        stop: (u64, Option<Test>),
    ) -> Self {
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
            let only_read = queue.iter().all(|request| request.1 == AccessMode::Inclusive);
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
        Engine {
            states: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            slots: slots.collect(),
            requests: requests.into_iter().map(|(_, core, node)| (core, node)).collect(),
            places: places.into(),
            ready,
            parked: ParkedWorkers::new(workers),
            home,
            seats: (0..seats).map(|_| Seat(AtomicU32::new(NOBODY))).collect(),
            left: AtomicU32::new(tasks as u32),
            stop_at: AtomicU64::new(stop.0),
            test: stop.1,
            halt: AtomicBool::new(false),
            form: AtomicU32::new(FRESH),
            may_compile,
            outside: AtomicU32::new(0),
            failure: Mutex::new(None),
            panicked: Mutex::default(),
        }
    }

    /// The requests of a task.
    #[inline]
    pub(crate) fn requests_of(&self, task: u32) -> &[(Arc<Core>, u32)] {
        let slot = &self.slots[task as usize];
        &self.requests[slot.first as usize..][..slot.count as usize]
    }

    /// Runs one iteration of a task, and gives its state after it. `None` if it failed.
    #[inline]
    pub(crate) fn iterate(&self, task: u32, iteration: u64, body: &mut Body<'_>) -> Option<u64> {
        let mut step = Step { iteration, norm: 0.0, leave: false };
        let traced = trace::is_enabled();
        if traced {
            trace::record(trace::EventKind::Begin, task, iteration);
        }
        let outcome = body(&mut step);
        if traced {
            trace::record(trace::EventKind::End, task, iteration);
        }
        if let Err(source) = outcome {
            self.fail(Failure::Body { task, source });
            return None;
        }
        if let Some(test) = &self.test
            && let Some(stop) = test.report(iteration, step.norm)
        {
            // Relaxed: whoever must obey comes after a release of this task (see `stop`).
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

    /// A task has stopped.
    pub(crate) fn one_less(&self) {
        // AcqRel: the last task to stop comes after all the others.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.halt();
        }
    }

    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.halt();
    }

    /// What the run failed of, if it did. To be asked once.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes everybody return.
    pub(crate) fn halt(&self) {
        self.parked.halt(&self.halt);
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

    /// Whether all have stopped, or somebody failed. Asked when nobody runs.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0 // pairs with the Release in `one_less`
            || self.has_failed()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether a request of a handle from outside is one that a compiled run cannot go on with: readers where all tasks
    /// read stand beside the run's own, or behind another handle that it minds.
    fn minds(&self, location: &Core, kind: AccessMode) -> bool {
        let place = self
            .places
            .binary_search_by_key(&std::ptr::from_ref(location), |p| Arc::as_ptr(&p.core));
        kind == AccessMode::Exclusive || place.is_ok_and(|p| !self.places[p].only_read)
    }

    /// Whether a run over queues could be compiled: no handle from outside has a request that it minds, as far as is
    /// known.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.may_compile && self.outside.load(Ordering::Relaxed) == 0
    }

    /// The iterations of all tasks. Asked when nobody runs.
    pub(crate) fn steps(&self) -> u64 {
        self.states.iter().map(|s| rounds(s.load(Ordering::Relaxed))).sum()
    }

    /// Whether a task goes on. Asked when nobody runs.
    pub(crate) fn goes_on(&self, task: u32) -> bool {
        self.states[task as usize].load(Ordering::Relaxed) & CLAIMED == 0
    }

    /// Begins a phase in the form that suits the moment. Nobody runs.
    pub(crate) fn begin(&self) -> Phase {
        // Woken after the sections.
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

    /// Changes what stands in the queue of a location.
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
            // Nobody from outside waits: whoever is granted is a task, and is told in another way.
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

    /// Counts what each task misses, and readies those that miss nothing. All sections are entered.
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
            // One for itself, taken off at once: whoever misses nothing is ready.
            slot.missing.store(missing + 1, Ordering::Relaxed);
            self.granted(t);
        }
    }

    /// Who stands where now. Over queues all is seen at one moment; of a compiled run each task at its own, and the
    /// queues are those that follow from the rounds of all.
    pub(crate) fn look(&self, plan: &Plan) -> Snapshot {
        let sections: Vec<_> = self.places.iter().map(|place| place.core.raw.section()).collect();
        let over_queues = self.form.load(Ordering::Relaxed) == QUEUES;
        let states: Vec<u64> = self.states.iter().map(|s| s.load(Ordering::Acquire)).collect();
        let running: Vec<u32> = self.seats.iter().filter_map(Seat::task).collect();
        let stop_at = self.stop_at.load(Ordering::Relaxed);
        // Over queues it has stopped when it has said so and given everything back. Compiled, a task that is claimed may
        // run as well: its rounds tell.
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
            running: running.contains(&(t as u32)),
            stopped: stopped[t],
            since: None,
        };
        Snapshot { tasks: plan.tasks.iter().enumerate().map(task).collect(), locations }
    }

    /// The rounds of each task, as far as they are seen.
    pub(crate) fn rounds(&self) -> Vec<u64> {
        self.states.iter().map(|s| rounds(s.load(Ordering::Relaxed))).collect()
    }

    /// Takes all requests of the run out of the queues. After a good end there are none but holds.
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

/// What stands in the queue of a location: those that hold it, and those that wait.
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

/// Tells a handle of its grant; tasks are not told.
fn tell_outside(core: &Core, n: u32, wakes: &mut Wakes) {
    if core.nodes.node(n).waiter() == BY_HAND {
        core.tell_handle(n, wakes);
    }
}

/// How many requests each task has; they are sorted by task.
fn counts(requests: &[(u32, Arc<Core>, u32)], tasks: usize) -> Vec<u32> {
    let mut counts = vec![0; tasks];
    requests.iter().for_each(|r| counts[r.0 as usize] += 1);
    counts
}

/// The form of a run for the time being.
pub(crate) enum Phase {
    Compiled,
    Queues {
        /// A location where a handle from outside has a request, if that is why.
        outside: Option<String>,
    },
}
