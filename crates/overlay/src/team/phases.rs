//! The phases of a run on a team: see the table in the documentation of [`team`](super).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_signal::primitive::Ordering;
use syncline_trace::is_enabled;

use crate::access::Placement;
use crate::body::Body;
use crate::compiled::claimed::{Among, CLAIMED, Claimed, ELSEWHERE, LEFT};
use crate::compiled::{Program, order};
use crate::engine::{Engine, Failure, Phase, Shared};
use crate::error::RunError;
use crate::overlay::Checked;
use crate::raw::AccessMode;
use crate::run::{
    Bodies, RunReport, Runner, describe, enter, exit, new_engine, poison, poisoned_before,
    run_workers,
};
use crate::stop::Stop;
use crate::team::agreement::{agree, all_well};
use crate::team::encoded::Encoded;
use crate::team::exchange::{Exchange, Grants, Link};
use crate::team::layout::{Layout, Team};
use crate::team::memory::HostMemory;
use crate::team::share::{Publish, Resting};
use crate::team::values::Values;

/// The pause of the member's own thread, while it computes, between looks for messages.
const LOOK: Duration = Duration::from_micros(20);

/// Runs an overlay on a team; see [`Checked::run_on`].
pub(super) fn run(
    overlay: &mut Checked<'_>,
    me: &mut Member,
    runner: Runner,
    stop: Stop,
) -> Result<RunReport, RunError> {
    me.check_not_forked()?;
    let team = team(overlay, me);
    let single = me.endpoint().is_some_and(|endpoint| !endpoint.is_threaded());
    let refusal = refusal(overlay, &team, (runner, single), stop);
    agree(me, &lines(overlay, &team, runner, stop), refusal)?;
    if overlay.plan().tasks.is_empty() || stop.at_most == 0 {
        return Ok(RunReport::default());
    }
    let mut lent = None;
    let (part, refusal) = match Part::new(overlay, me, &team, runner, stop, &mut lent) {
        Ok(part) => (Some(part), None),
        Err(error) => (None, Some(error)),
    };
    let ready = all_well(me, 0, refusal);
    let outcome = match (&part, ready) {
        (Some(part), Ok(_)) => part.run(overlay, me, runner),
        (_, ready) => ready.map(|_| RunReport::default()),
    };
    let mut left = Ok(());
    if let Some(Part { engine, exchange, .. }) = &part {
        exit(overlay, engine);
        left = match &exchange.link {
            Some(link) => link.grants.leave(exchange),
            None => Ok(()),
        };
    }
    // Where a member is dead, others may still be in the run.
    if let Some(memory) = lent
        && left.is_ok()
        && me.fault_list().fault(0).is_none()
        && !matches!(outcome, Err(RunError::Fault(_)))
    {
        memory.give_back(me);
    }
    outcome
}

/// Returns the members and the tasks that they run.
fn team(overlay: &Checked<'_>, me: &Member) -> Team {
    let (tasks, size) = (overlay.plan().tasks.len(), me.size());
    let by_default = |t: usize| t * size / tasks;
    let rank = |t: usize| overlay.ranks.get(&(t as u32)).copied().unwrap_or_else(|| by_default(t));
    let process_of: Vec<usize> = (0..size).map(|rank| rank / me.threads()).collect();
    Team {
        rank_of: (0..tasks).map(|t| rank(t) as u32).collect(),
        host_of: process_of.iter().map(|&process| me.hosts().of(process)).collect(),
        process_of,
    }
}

/// Returns the reason why this member cannot run the overlay, if it knows one. `single`: only the
/// member's own thread may send messages.
fn refusal(
    overlay: &Checked<'_>,
    team: &Team,
    (runner, single): (Runner, bool),
    stop: Stop,
) -> Option<RunError> {
    let what = match (runner, stop.tolerance) {
        (Runner::Pool { workers: 2.., .. }, None) if single => {
            Some(("a pool of several workers where MPI permits one thread", "one worker"))
        }
        (_, Some(_)) => Some(("a convergence test", "a number of iterations")),
        (Runner::Pool { .. }, None) => None,
        _ => Some(("a runner other than a pool", "a pool of workers")),
    };
    if let Some((what, instead)) = what {
        return Some(RunError::NotOnTeam { what, instead });
    }
    let members = team.host_of.len();
    let ranks = (0..).zip(&team.rank_of);
    if let Some((task, &rank)) = ranks.clone().find(|(_, rank)| **rank as usize >= members) {
        let task = overlay.plan().tasks[task as usize].clone();
        return Some(RunError::Rank { task, rank: rank as usize, members });
    }
    for (core, queue) in overlay.cores.iter().zip(&overlay.queues) {
        let rank = |q: &(u32, AccessMode)| team.rank(q.0) as usize;
        let first = queue.first().map_or(0, rank);
        if core.bytes.is_none()
            && let Some(other) = queue.iter().map(rank).find(|&other| other != first)
        {
            let location = core.name.clone();
            return Some(RunError::Private { location, rank: first, other });
        }
    }
    poisoned_before(overlay)
}

/// Describes all on which members must agree, a line for each thing.
fn lines(overlay: &Checked<'_>, team: &Team, runner: Runner, stop: Stop) -> Vec<String> {
    let plan = overlay.plan();
    let (tasks, locations) = (&plan.tasks, &plan.locations);
    let mut lines = vec![
        format!("{} iterations", stop.at_most),
        format!("{} workers in each member", runner.workers(overlay.plan().tasks.len())),
        format!("{} tasks and {} locations", tasks.len(), locations.len()),
    ];
    lines.extend(overlay.cores.iter().map(|core| match (&core.wire, core.bytes) {
        (Some(wire), bytes) => {
            let of = bytes.map_or("any type", |bytes| bytes.of);
            format!("location '{}' with {of} of at most {} encoded bytes", core.name, wire.bound)
        }
        (None, Some(bytes)) => {
            format!("location '{}' with {} bytes of {}", core.name, bytes.len, bytes.of)
        }
        (None, None) => format!("location '{}' with data of one member", core.name),
    }));
    for ((name, requests), rank) in tasks.iter().zip(&plan.requests).zip(&team.rank_of) {
        let request = |&(l, kind): &(u32, AccessMode)| {
            let verb = if kind == AccessMode::Exclusive { "writes" } else { "reads" };
            format!("{verb} '{}'", locations[l as usize])
        };
        let requests: Vec<String> = requests.iter().map(request).collect();
        lines.push(format!("task '{name}' in rank {rank}, which {}", requests.join(", ")));
    }
    for (location, queue) in locations.iter().zip(&overlay.queues) {
        let order: Vec<&str> = queue.iter().map(|q| &*tasks[q.0 as usize]).collect();
        lines.push(format!("the order '{}' at location '{location}'", order.join("', '")));
    }
    lines
}

/// One member's part of a run.
struct Part<'t> {
    team: &'t Team,
    engine: Arc<Engine>,
    exchange: Arc<Exchange>,
    rank: usize,
    host: usize,
    /// The number of this member's first worker, and of its workers.
    first: usize,
    workers: usize,
    encoded: Encoded,
}

impl<'t> Part<'t> {
    /// Borrows the memory, and takes hold of the locations of this member. `lent` is the memory,
    /// also after an error.
    fn new(
        overlay: &Checked<'_>,
        me: &mut Member,
        team: &'t Team,
        runner: Runner,
        stop: Stop,
        lent: &mut Option<HostMemory>,
    ) -> Result<Part<'t>, RunError> {
        let (tasks, workers) =
            (overlay.plan().tasks.len(), runner.workers(overlay.plan().tasks.len()));
        let (rank, host) = (me.rank(), me.host());
        let bytes = overlay
            .cores
            .iter()
            .map(|core| (core.bytes.map_or(0, |bytes| bytes.len), core.wire.is_some()));
        let bytes: Vec<(usize, bool)> = bytes.collect();
        let layout = Layout::new(&overlay.queues, &bytes, team, rank as u32);
        let here = me.ranks_on(host);
        let counts = (tasks, layout.sizes.len());
        let link = me.service::<Grants>().and_then(|(service, grants)| {
            Some(Link { endpoint: Arc::clone(me.endpoint()?), service, grants })
        });
        // Runs are counted before the memory is borrowed, which may fail on one host only.
        let run = link.as_ref().map_or(0, |link| link.grants.next(rank));
        let memory = HostMemory::borrow(me, counts, here.len() * workers, layout.bytes)?;
        let memory = lent.insert(memory).clone();
        let (order, level) = order(&overlay.queues, tasks);
        let program = Program::of_waits(order.into(), level.into(), layout.waits.clone());
        let home = homes(team, &here, workers);
        let first = here.iter().position(|&other| other == rank).unwrap_or(0) * workers;
        let exchange = Exchange::new(link, run, memory, layout, program, home, workers);
        let exchange = Arc::new(exchange);
        let live = Arc::clone(&overlay.live);
        let shared = Shared {
            states: exchange.states.clone(),
            parked: exchange.memory.parked(workers),
            tasks: team.rank_of.iter().filter(|&&other| other as usize == rank).count(),
            share: Box::new(Publish { exchange: Arc::clone(&exchange), live, rank }),
        };
        let engine = Arc::new(new_engine(overlay, runner, (stop.at_most, None), Some(shared)));
        enter(overlay, &engine)?;
        if let Phase::Queues { outside } = engine.begin() {
            exit(overlay, &engine);
            return Err(RunError::InUse { location: outside.unwrap_or_default() });
        }
        let encoded = Encoded::new(overlay, team, &exchange, rank);
        let part = Part { team, engine, exchange, rank, host, first, workers, encoded };
        // All members have ended the run before this one: they have agreed on the plan of this one.
        if let Err(error) = part.values(overlay).put_first() {
            exit(overlay, &part.engine);
            return Err(error);
        }
        Ok(part)
    }

    fn values<'a>(&'a self, overlay: &'a Checked<'_>) -> Values<'a> {
        let Part { team, exchange, rank, host, .. } = self;
        Values { overlay, team, exchange, rank: *rank, host: *host }
    }

    fn run(
        &self,
        overlay: &mut Checked<'_>,
        me: &mut Member,
        runner: Runner,
    ) -> Result<RunReport, RunError> {
        let Part { engine, exchange, .. } = self;
        if self.first == 0 {
            exchange.memory.reset();
        }
        if let Some(link) = &exchange.link {
            link.grants.enter(exchange);
            link.endpoint.keep_serving();
        }
        me.wait()?;
        self.values(overlay).send_first();
        let initials = exchange.layout.initials.len();
        self.values(overlay).wait(initials, || exchange.memory.initials())?;
        exchange.wait_sent()?;
        self.place(overlay, true);
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(overlay, me, runner)));
        self.place(overlay, false);
        worked.unwrap_or_else(|panic| resume_unwind(panic));
        let rounds = engine.stop_at.load(Ordering::Relaxed);
        let own = (0..).zip(&self.team.rank_of).filter(|(_, rank)| **rank as usize == self.rank);
        let real = |t: u32| exchange.memory.left(t).unwrap_or(rounds);
        let sent = exchange.wait_sent();
        let mut failed = self.failure(overlay).or(sent.err().map(RunError::from));
        if failed.is_none() {
            let received = self.values(overlay).wait_received(rounds);
            failed = self.failure(overlay).or(received.err().map(RunError::from));
        }
        let steps = if failed.is_some() { 0 } else { own.map(|(t, _)| real(t)).sum() };
        let steps = all_well(me, steps, failed);
        // A failure elsewhere is published here before the gather ends.
        let published = exchange.memory.failure();
        if let Some((task, true)) = published.and_then(|failed| failed.task) {
            poison(overlay, task);
        }
        let steps = steps?;
        let finished = self.values(overlay).finish(rounds);
        if overlay.cores.iter().any(|core| core.wire.is_some()) {
            // The decoding of a final value may fail in one member.
            all_well(me, 0, finished.err())?;
        } else {
            finished?;
        }
        Ok(RunReport {
            iterations: (0..self.team.rank_of.len() as u32).map(real).max().unwrap_or(0),
            steps: steps.into_iter().sum(),
            messages: exchange.sent.load(Ordering::Relaxed),
            room_messages: exchange.rooms.load(Ordering::Relaxed),
            ..RunReport::default()
        })
    }

    /// Makes the requests of this member's tasks find their data in the memory of the host, or in
    /// the locations again.
    fn place(&self, overlay: &mut Checked<'_>, shared: bool) {
        let plan = &overlay.live.plan;
        let tasks = (0..).zip(&mut overlay.bodies).zip(&plan.requests);
        for ((t, body), requests) in tasks {
            if self.team.rank(t) as usize != self.rank {
                continue;
            }
            let mut requests = requests.iter();
            body.place(&mut || {
                let Some(&(l, _)) = requests.next() else { return Placement::Own };
                if shared && let Some(at) = self.encoded.address(t, l) {
                    return Placement::Shared([at; 2]);
                }
                match self.exchange.layout.offsets(t, l).filter(|_| shared) {
                    Some(at) => Placement::Shared(at.map(|at| {
                        let len = self.exchange.layout.stored[&l].len;
                        self.exchange.memory.at(at, len)
                    })),
                    None => Placement::Own,
                }
            });
        }
    }

    /// Runs this member's tasks until they have ended, or the run has failed.
    fn work(&self, overlay: &mut Checked<'_>, me: &Member, runner: Runner) {
        let Part { engine, exchange, first, .. } = self;
        let fault_list = me.fault_list().clone();
        let workers = self.workers;
        let last_wait = AtomicU64::new(0);
        let rest = Resting { exchange, engine, first: *first, workers, fault_list, last_wait };
        let tasks = Claimed::new(
            &exchange.program,
            &engine.states,
            &exchange.home,
            0,
            runner.is_deep(),
            &exchange.parked,
        );
        let tasks = tasks.among(Among { first: *first, rest: &rest }, self.workers);
        if engine.is_over() {
            return; // this member runs no task
        }
        run_workers(engine, self.workers, &mut overlay.bodies, |worker, bodies| {
            tasks.work(worker, &engine.halt, self.step(worker, bodies));
        });
    }

    /// Returns how worker `worker` runs one round of a task, as `step` in `run`.
    fn step(&self, worker: usize, bodies: &Bodies<'_, '_>) -> impl FnMut(u32, u64) -> Option<u64> {
        let Part { engine, exchange, .. } = self;
        let seat = &engine.seats[worker];
        let mut looked = Instant::now();
        let looks = worker == 0 && exchange.link.is_some();
        move |task, round| {
            if exchange.is_over() {
                engine.halt();
                return None;
            }
            let next = (round + 1) << 1;
            let last = u64::from(round + 1 >= engine.stop_at.load(Ordering::Relaxed));
            let mut state = if exchange.memory.left(task).is_some() {
                // Its turn is passed on, as long as a task may wait for it.
                next | last | u64::from(exchange.is_finished(task))
            } else {
                seat.take(task);
                // SAFETY: no other thread uses the body: the worker that has claimed the task runs
                // it, and other members do not run it.
                let body: &mut Body<'_> = unsafe { bodies.get(task) };
                if let Err(error) = self.encoded.load(exchange, task, round) {
                    engine.fail(Failure::Body { task, source: error.into() });
                    return None;
                }
                let state = match is_enabled() {
                    false => engine.iterate(task, round, body),
                    true => engine.iterate_traced(task, round, body),
                }?;
                if let Err(error) = self.encoded.store(exchange, task, round) {
                    engine.fail(Failure::Body { task, source: error.into() });
                    return None;
                }
                seat.leave();
                state
            };
            if state & LEFT != 0 {
                state = next | last;
                exchange.leave(task, round + 1);
            }
            if let Err(fault) = exchange.released(task, round, state) {
                engine.fail(Failure::Fault(fault));
                return None;
            }
            if state & CLAIMED != 0 {
                engine.one_less();
            }
            if looks && looked.elapsed() > LOOK {
                exchange.look();
                looked = Instant::now();
            }
            Some(state)
        }
    }

    /// Returns the error of the run, if it has failed here or elsewhere.
    fn failure(&self, overlay: &Checked<'_>) -> Option<RunError> {
        let own = self.engine.take_failure().map(|f| describe(f, &self.engine, overlay));
        let published = self.exchange.memory.failure();
        own.or(
            published.map(|failed| RunError::Elsewhere { rank: failed.rank, error: failed.error })
        )
    }
}

/// Returns the home of each task, as the number of a worker of the host with these members.
fn homes(team: &Team, here: &[usize], workers: usize) -> Box<[u32]> {
    let mut of_member = vec![Vec::new(); team.host_of.len()];
    (0_u32..).zip(&team.rank_of).for_each(|(t, &rank)| of_member[rank as usize].push(t));
    let mut homes = vec![ELSEWHERE; team.rank_of.len()];
    for (place, &rank) in here.iter().enumerate() {
        let own = &of_member[rank];
        for (k, &t) in own.iter().enumerate() {
            homes[t as usize] = (place * workers + k * workers / own.len()) as u32;
        }
    }
    homes.into()
}
