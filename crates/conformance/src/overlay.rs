//! A session of overlays on a team.
//!
//! | part       | contract                                                                        |
//! |------------|---------------------------------------------------------------------------------|
//! | `random`   | a random overlay on the team gives the results of its run on threads, bit for   |
//! |            | bit: all final values, and all values that tasks saw, plain and encoded         |
//! | `leaving`  | the same, where tasks leave                                                     |
//! | `pipeline` | values that flow one way, at any speed of the receivers, arrive in order        |
//! | `failing`  | an error or a panic of one body ends the run at all members, with its name      |
//! | `plans`    | overlays that differ are refused by all members, with the first difference      |

use std::sync::{Arc, Mutex, PoisonError};

use syncline_fabric::Member;
use syncline_overlay::error::RunError;
use syncline_overlay::run::{ReadyOrder, RunReport};
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop};

use super::scene::{give_way, hash};
use super::{Suite, finding};

/// Verifies one part.
pub(super) type Part = fn(&mut Member, u64) -> Result<(), Wrong>;

/// All parts.
pub(super) const PARTS: [(&str, Part); 5] = [
    ("random", |me, rounds| random(me, rounds, false)),
    ("leaving", |me, rounds| random(me, rounds, true)),
    ("pipeline", pipeline),
    ("failing", failing),
    ("plans", plans),
];

/// A finding: the round, and the fault.
pub(super) struct Wrong(u64, String);

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    for (name, part) in PARTS.iter().filter(|(name, _)| suite.includes(name)) {
        let hosts = me.hosts().count();
        part(me, suite.rounds).map_err(|Wrong(round, what)| {
            finding(me, name, round, format_args!("hosts: {hosts}: {what}"))
        })?;
    }
    Ok(())
}

/// A pseudorandom sequence that depends only on its seed.
struct Random(u64, u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        (hash(self.0, self.1) % n.max(1) as u64) as usize
    }
}

/// The numbers that a vector may have beside the initial ones.
const MORE: usize = 3;

/// A random overlay as plain data.
struct Plan {
    seed: u64,
    /// The numbers in each location; 0 for a location without data.
    lengths: Vec<usize>,
    /// Whether the numbers of a location are a vector, which travels encoded.
    encoded: Vec<bool>,
    /// For each task: the locations that it writes, and those that it reads.
    tasks: Vec<(Vec<usize>, Vec<usize>)>,
    /// The member of each task, if it is given.
    places: Vec<Option<usize>>,
    /// The iteration in which a task leaves.
    leaves: Vec<Option<u64>>,
    initial: Initial,
    iterations: u64,
    runner: Runner,
}

impl Plan {
    fn new(seed: u64, members: usize, leaving: bool) -> Plan {
        let mut random = Random(seed, 0);
        let (tasks, locations) = (1 + random.below(12), 1 + random.below(6));
        // The longest ones go by themselves between hosts.
        let lengths = (0..locations).map(|_| match random.below(9) {
            0 => 0,
            7 => 2000,
            8 => 13_000,
            n => n,
        });
        let lengths = lengths.collect();
        let encoded = (0..locations).map(|l| hash(seed + 1, l as u64).is_multiple_of(4)).collect();
        let share = 2 + random.below(6);
        let mut requests = Vec::new();
        for _ in 0..tasks {
            let (mut writes, mut reads) = (Vec::new(), Vec::new());
            for l in 0..locations {
                match random.below(share + 2) {
                    0 => writes.push(l),
                    1 | 2 => reads.push(l),
                    _ => {}
                }
            }
            requests.push((writes, reads));
        }
        let given = random.below(2) == 0;
        let places = (0..tasks).map(|_| given.then(|| random.below(members))).collect();
        let iterations = 1 + random.below(12) as u64;
        let leave = |random: &mut Random| {
            (leaving && random.below(3) == 0).then(|| random.below(12) as u64)
        };
        let leaves = (0..tasks).map(|_| leave(&mut random)).collect();
        let initial = match random.below(4) {
            0 => Initial::Program,
            1 => Initial::Wave,
            2 => Initial::MaxParallel,
            _ => Initial::Priority((0..tasks).map(|_| random.below(5) as i64).collect()),
        };
        let order = [ReadyOrder::Fifo, ReadyOrder::DepthFirst][random.below(2)];
        let runner = Runner::Pool { workers: 1 + random.below(3), order };
        let tasks = requests;
        Plan { seed, lengths, encoded, tasks, places, leaves, initial, iterations, runner }
    }

    /// Builds the overlay, with the values of its locations and what each task has seen.
    fn build(&self) -> Built {
        let first = |l: usize, i: usize| hash(self.seed + l as u64, i as u64);
        let cells: Vec<Location<[u64]>> = self
            .lengths
            .iter()
            .enumerate()
            .map(|(l, &len)| Location::slice(format!("cell {l}"), (0..len).map(|i| first(l, i))))
            .collect();
        let vector = |(l, &len): (usize, &usize)| {
            let values: Vec<u64> = (0..len).map(|i| first(l, i)).collect();
            // A number takes 10 bytes at most, and so does the length.
            Location::wire(format!("vector {l}"), 10 * (len + MORE + 1), values)
        };
        let vectors: Vec<Location<Vec<u64>>> =
            self.lengths.iter().enumerate().map(vector).collect();
        let seen: Vec<Arc<Mutex<u64>>> = self.tasks.iter().map(|_| Arc::default()).collect();
        let mut overlay = Overlay::new();
        for (t, (writes, reads)) in self.tasks.iter().enumerate() {
            let of = |locations: &[usize], encoded: bool| {
                let of = locations.iter().copied().filter(move |&l| self.encoded[l] == encoded);
                of.collect::<Vec<_>>()
            };
            let access = (
                of(writes, false).into_iter().map(|l| cells[l].write()).collect::<Vec<_>>(),
                of(reads, false).into_iter().map(|l| cells[l].read()).collect::<Vec<_>>(),
                of(writes, true).into_iter().map(|l| vectors[l].write()).collect::<Vec<_>>(),
                of(reads, true).into_iter().map(|l| vectors[l].read()).collect::<Vec<_>>(),
            );
            let most: Vec<usize> =
                of(writes, true).into_iter().map(|l| self.lengths[l] + MORE).collect();
            let (seen, leaves) = (Arc::clone(&seen[t]), self.leaves[t]);
            let task = overlay.task(format!("task {t}"), access, move |of_task, step| {
                let (mut writes, reads, mut vectors_written, vectors_read) = of_task;
                let mut sum = hash(t as u64, step.iteration());
                let read = reads.iter().chain(vectors_read.iter().map(|vector| &vector[..]));
                for values in read {
                    sum = values.iter().fold(sum, |sum, &value| hash(sum, value));
                }
                let mut change = |values: &mut [u64]| {
                    for value in values {
                        sum = hash(sum, *value);
                        *value = sum;
                    }
                    sum
                };
                for values in writes.iter_mut() {
                    change(values);
                }
                for (values, &most) in vectors_written.iter_mut().zip(&most) {
                    let sum = change(values);
                    if values.len() < most && sum.is_multiple_of(2) {
                        values.push(sum);
                    } else {
                        values.pop();
                    }
                }
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                *seen = hash(*seen, sum);
                if leaves == Some(step.iteration()) {
                    step.leave();
                }
            });
            if let Some(rank) = self.places[t] {
                overlay.place(task, rank);
            }
        }
        let encoded = self.encoded.clone();
        Built { overlay, cells, vectors, encoded, seen }
    }
}

struct Built {
    overlay: Overlay<'static>,
    cells: Vec<Location<[u64]>>,
    vectors: Vec<Location<Vec<u64>>>,
    /// Whether the tasks use the vector of a location.
    encoded: Vec<bool>,
    seen: Vec<Arc<Mutex<u64>>>,
}

impl Built {
    fn values(&self, l: usize) -> Result<Vec<u64>, String> {
        if self.encoded[l] {
            let mut reader = self.vectors[l].reader();
            return Ok(reader.acquire().map_err(|error| error.to_string())?.clone());
        }
        Ok(self.cells[l].reader().acquire().map_err(|error| error.to_string())?.to_vec())
    }

    fn seen(&self, t: usize) -> u64 {
        *self.seen[t].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs random overlays on the team, two times each, and compares them with their runs on threads.
fn random(me: &mut Member, rounds: u64, leaving: bool) -> Result<(), Wrong> {
    for round in 0..rounds {
        let plan = Plan::new(hash(round, leaving.into()), me.size(), leaving);
        let wrong = |what: String| Wrong(round, what);
        let (one, other) = (plan.build(), plan.build());
        let check = |built: &mut Built| {
            let overlay = std::mem::take(&mut built.overlay);
            overlay.check(plan.initial.clone()).map_err(|error| Wrong(round, error.to_string()))
        };
        let (mut one, mut other) = (one, other);
        let (mut here, mut there) = (check(&mut one)?, check(&mut other)?);
        let stop = Stop::after(plan.iterations);
        let runs = if leaving { 1 } else { 2 };
        for _ in 0..runs {
            let expected = here.run(Runner::pool(1), stop).map_err(|e| wrong(e.to_string()))?;
            let report = there.run_on(me, plan.runner, stop);
            let report = report.map_err(|error| wrong(error.to_string()))?;
            let counts = |report: &RunReport| (report.iterations, report.steps);
            if counts(&report) != counts(&expected) {
                let (found, right) = (counts(&report), counts(&expected));
                return Err(wrong(format!("{found:?} iterations and steps, not {right:?}")));
            }
        }
        compare(me, &plan, &one, &other).map_err(wrong)?;
    }
    Ok(())
}

fn compare(me: &Member, plan: &Plan, expected: &Built, found: &Built) -> Result<(), String> {
    let tasks = plan.tasks.len();
    let rank = |t: usize| plan.places[t].unwrap_or(t * me.size() / tasks);
    let mine: Vec<usize> = (0..tasks).filter(|&t| rank(t) == me.rank()).collect();
    if let Some(t) = mine.iter().find(|&&t| found.seen(t) != expected.seen(t)) {
        return Err(format!("task {t} has seen other values than on threads"));
    }
    for l in 0..plan.lengths.len() {
        let uses = |&t: &usize| plan.tasks[t].0.contains(&l) || plan.tasks[t].1.contains(&l);
        if mine.iter().any(uses) && found.values(l)? != expected.values(l)? {
            return Err(format!("the final value of cell {l} is not that of the run on threads"));
        }
    }
    Ok(())
}

/// A chain of tasks, one in each member, without a way back. The last ones are slow.
fn pipeline(me: &mut Member, rounds: u64) -> Result<(), Wrong> {
    let (size, wrong) = (me.size(), |what: String| Wrong(0, what));
    let cells: Vec<_> = (0..size).map(|m| Location::plain(format!("stage {m}"), [0; 3])).collect();
    let seen = Arc::new(Mutex::new(Ok(())));
    let mut overlay = Overlay::new();
    for m in 0..size {
        let before = m.checked_sub(1).map(|m| cells[m].read());
        let seen = Arc::clone(&seen);
        overlay.task(
            format!("stage {m}"),
            (cells[m].write(), before),
            move |(out, before), step| {
                let right = [step.iteration(), hash(step.iteration(), m as u64), m as u64];
                let expected = m
                    .checked_sub(1)
                    .map(|m| [step.iteration(), hash(step.iteration(), m as u64), m as u64]);
                if before.copied() != expected {
                    let what = format!("stage {m} has {before:?}, not {expected:?}");
                    *seen.lock().unwrap_or_else(PoisonError::into_inner) = Err(what);
                }
                if m + 1 == size && step.iteration() % 16 == 0 {
                    give_way();
                }
                *out = right;
            },
        );
    }
    let mut overlay = overlay.check(Initial::Program).map_err(|e| wrong(e.to_string()))?;
    let report = overlay.run_on(me, Runner::pool(1), Stop::after(10 * rounds));
    let report = report.map_err(|error| wrong(error.to_string()))?;
    let host = |rank: usize| me.hosts().of(rank / me.threads());
    let sends = me.rank() + 1 < size && host(me.rank()) != host(me.rank() + 1);
    if report.messages != if sends { 10 * rounds } else { 0 } {
        return Err(wrong(format!("{} messages in {} rounds", report.messages, 10 * rounds)));
    }
    seen.lock().unwrap_or_else(PoisonError::into_inner).clone().map_err(wrong)
}

/// In each round the body of one task fails, or panics; all members get its error. The team is
/// usable afterwards.
fn failing(me: &mut Member, rounds: u64) -> Result<(), Wrong> {
    for round in 0..rounds.min(50) {
        let wrong = |what: String| Wrong(round, what);
        let mut random = Random(hash(round, 99), 0);
        let (size, victim, at) = (me.size(), random.below(me.size()), random.below(5) as u64);
        let panics = random.below(2) == 0;
        let ring: Vec<_> = (0..size).map(|m| Location::plain(format!("cell {m}"), m)).collect();
        let mut overlay = Overlay::new();
        for m in 0..size {
            let access = (ring[m].write(), ring[(m + 1) % size].read());
            let body = move |step: &mut Step| match (m == victim && step.iteration() == at, panics)
            {
                // A panic without the report of the panic hook.
                (true, true) => std::panic::resume_unwind(Box::new("on purpose")),
                (true, false) => Err("on purpose".to_owned()),
                (false, _) => Ok(()),
            };
            if size > 1 {
                overlay.task(format!("task {m}"), access, move |(cell, next), step| {
                    *cell = cell.wrapping_mul(3) + *next;
                    body(step)
                });
            } else {
                overlay.task(format!("task {m}"), ring[m].write(), move |_, step| body(step));
            }
        }
        let mut overlay = overlay.check(Initial::Program).map_err(|e| wrong(e.to_string()))?;
        let end = overlay.run_on(me, Runner::pool(1), Stop::after(7));
        let verb = if panics { "panicked" } else { "failed" };
        let expected = format!("task 'task {victim}' {verb} in iteration {at}");
        match end {
            Err(error) if error.to_string().contains(&expected) => {
                let elsewhere = matches!(error, RunError::Elsewhere { rank, .. } if rank == victim);
                if elsewhere == (me.rank() == victim) {
                    return Err(wrong(format!("the error names another member: {error}")));
                }
            }
            other => return Err(wrong(format!("{other:?}, not an error with: {expected}"))),
        }
        let poisoned = ring[victim].reader().acquire().is_err();
        if poisoned != panics {
            return Err(wrong(format!("poisoned: {poisoned}, and the body {verb}")));
        }
    }
    Ok(())
}

/// In each round one member declares something else than the others.
fn plans(me: &mut Member, rounds: u64) -> Result<(), Wrong> {
    if me.size() == 1 {
        return Ok(());
    }
    for round in 0..rounds.min(20) {
        let wrong = |what: String| Wrong(round, what);
        let mut random = Random(hash(round, 17), 0);
        let (odd, kind) = (1 + random.below(me.size() - 1), random.below(6));
        let differs = me.rank() == odd;
        let len = if differs && kind == 0 { 3 } else { 2 };
        let name = if differs && kind == 1 { "other" } else { "cell" };
        let cell = Location::slice(name, vec![0_u8; len]);
        let more = Location::plain("more", 0_u8);
        let mut overlay = Overlay::new();
        let a = overlay.task("a", cell.write(), |_, _| ());
        let b = overlay.task(if differs && kind == 2 { "c" } else { "b" }, cell.write(), |_, _| ());
        if differs && kind == 3 {
            overlay.task("d", more.read(), |_, _| ());
        }
        if differs && kind == 4 {
            overlay.order(&cell, [b, a]);
        }
        let mut overlay = overlay.check(Initial::Program).map_err(|e| wrong(e.to_string()))?;
        let stop = Stop::after(if differs && kind == 5 { 8 } else { 7 });
        match overlay.run_on(me, Runner::pool(1), stop) {
            Err(RunError::Differs { rank, first, second }) if rank == odd && first != second => {}
            other => return Err(wrong(format!("{other:?}, with a difference {kind} at {odd}"))),
        }
    }
    Ok(())
}
