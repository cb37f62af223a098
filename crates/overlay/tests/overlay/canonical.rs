//! The canonical form on random plans: it is canonical by definition, live, no larger than
//! documented, and gives equal results. Results are compared through a mixing interpretation: each
//! location holds a number, and each body mixes all values that it reads into the values that it
//! writes. The derived plan does not depend on this interpretation; the tests run it through its
//! roles and contents, one task after the other and on the engine.

use std::collections::BTreeSet;

use crate::common::{I, Random, X, mix, runners, seeds, within};
use syncline_overlay::AccessMode;
use syncline_overlay::{
    Initial, Location, Overlay, Plan, Runner, Stop,
    access::Reads,
    canonical::{Canonical, Content, Part, Role},
    error::CheckError,
    plan::{LocationId, Task},
    snapshot::RequestOwner,
};

const ROUNDS: u64 = 7;
/// The value of a location that must be written before it is read.
const RUBBISH: u64 = 0xbad0_bad0_bad0_bad0;

/// A plan to bring into canonical form.
#[derive(Clone, Debug)]
struct Case {
    plan: Plan,
    initial: Initial,
    parts: Vec<Part>,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let locations = random.within(1..=8);
        let tasks = random.within(1..=12);
        // Mostly readers, half and half, or mostly writers.
        let writers = [1, 5, 9][random.within(0..=2)];
        let mut plan = Plan::new();
        let places: Vec<LocationId> =
            (0..locations).map(|l| plan.location(format!("l{l}"))).collect();
        for t in 0..tasks {
            let mut all = places.clone();
            random.shuffle(&mut all);
            all.truncate(random.within(0..=locations.min(5)));
            let kind = |_: &LocationId| if random.within(0..=9) < writers { X } else { I };
            let kinds: Vec<AccessMode> = all.iter().map(kind).collect();
            plan.task(format!("t{t}"), all.into_iter().zip(kinds));
        }
        let initial = match random.within(0..=3) {
            0 => Initial::Program,
            1 => Initial::Wave,
            2 => Initial::MaxParallel,
            _ => Initial::Priority((0..tasks).map(|_| random.within(0..=6) as i64 - 3).collect()),
        };
        if random.within(0..=3) == 0 {
            // An explicit order, which some total orders agree with, or, rarely, none.
            let l = places[random.within(0..=locations - 1)];
            let users = plan.tasks().filter(|&t| plan.requests(t).any(|r| r.0 == l));
            let mut users: Vec<Task> = users.collect();
            random.shuffle(&mut users);
            plan.order(l, users);
        }
        let mut parts = Vec::new();
        for p in 0..random.within(0..=6) {
            let of = places[random.within(0..=locations - 1)];
            let readers = plan.tasks().filter(|&t| plan.requests(t).any(|r| r == (of, I)));
            let readers = readers.filter(|_| random.within(0..=1) == 0).collect();
            parts.push(Part { of, name: format!("p{p}"), readers });
        }
        Case { plan, initial, parts }
    }

    fn canonical(&self) -> Result<Canonical, CheckError> {
        self.plan.canonical(&self.initial, &self.parts)
    }

    /// Returns the values that a reader sees of a location: parts of it, or the whole.
    fn seen(&self, task: Task, l: LocationId, value: u64) -> Vec<u64> {
        let mine = (0..).zip(&self.parts).filter(|(_, p)| p.of == l && p.readers.contains(&task));
        let parts: Vec<u64> = mine.map(|(p, _)| part_of(value, p)).collect();
        if parts.is_empty() { vec![value] } else { parts }
    }

    fn written(&self, task: Task) -> Vec<LocationId> {
        self.plan.requests(task).filter(|r| r.1 == X).map(|r| r.0).collect()
    }
}

/// Returns seeds whose plans are live, from `fixed` on and `full` in the full tier.
fn live(fixed: u64, full: u32) -> impl Iterator<Item = (u64, Case)> {
    let seeds = seeds(fixed, full);
    let count = seeds.clone().count();
    let cases = (seeds.start..).map(|seed| (seed, Case::random(seed)));
    cases.filter(|(_, case)| case.plan.check(&case.initial).is_ok()).take(count)
}

fn seed_of(location: usize) -> u64 {
    mix(location as u64, 77)
}

fn part_of(value: u64, part: usize) -> u64 {
    mix(value, 1000 + part as u64)
}

/// The value of each location, and a digest of all values that each task has seen.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    cells: Vec<u64>,
    digests: Vec<u64>,
}

fn index(place: LocationId, plan: &Plan) -> usize {
    plan.locations().position(|p| p == place).unwrap()
}

/// Returns an order of the tasks that agrees with the first requests: the next task is one behind
/// tasks that have run, or behind other readers if it reads.
fn order_of(case: &Case) -> Vec<Task> {
    let start = case.plan.check(&case.initial).unwrap();
    let mut order: Vec<Task> = Vec::new();
    let may_run = |t: &Task, done: &[Task]| {
        !done.contains(t)
            && start.locations.iter().all(|location| {
                let waits = location
                    .queue
                    .iter()
                    .filter(|r| matches!(r.who, RequestOwner::Task(u) if !done.contains(&u)));
                let ahead: Vec<_> = waits.collect();
                let place = ahead.iter().position(|r| r.who == RequestOwner::Task(*t));
                place.is_none_or(|p| p == 0 || ahead[..=p].iter().all(|r| r.kind == I))
            })
    };
    // The task declared last goes first, so that the order differs from that of the pass wherever
    // there is a choice.
    while let Some(t) = case.plan.tasks().filter(|t| may_run(t, &order)).last() {
        order.push(t);
    }
    assert_eq!(order.len(), case.plan.tasks().len());
    order
}

/// Runs the original plan as a plain loop. Returns the outcome after each round.
fn reference(case: &Case, rounds: u64) -> Vec<Outcome> {
    let plan = &case.plan;
    let order = order_of(case);
    let cells = (0..plan.locations().len()).map(seed_of).collect();
    let mut now = Outcome { cells, digests: vec![0; plan.tasks().len()] };
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        for &task in &order {
            let t = plan.tasks().position(|u| u == task).unwrap();
            now.digests[t] = mix(now.digests[t], round);
            for (l, kind) in plan.requests(task) {
                let value = now.cells[index(l, plan)];
                let seen = if kind == X { vec![value] } else { case.seen(task, l, value) };
                now.digests[t] = seen.into_iter().fold(now.digests[t], mix);
            }
            for (place, l) in case.written(task).into_iter().enumerate() {
                now.cells[index(l, plan)] = mix(now.digests[t], place as u64);
            }
        }
        outcomes.push(now.clone());
    }
    outcomes
}

/// A task of the canonical plan, built from its role and contents as a user with bodies would.
struct Interpreted<'a> {
    case: &'a Case,
    role: Role,
    writes: LocationId,
    reads: Vec<LocationId>,
    /// The contents of `reads`, and of the written location.
    read_contents: Vec<Content>,
    written_content: Content,
}

impl<'a> Interpreted<'a> {
    fn new(case: &'a Case, canonical: &Canonical, task: Task) -> Self {
        let requests: Vec<_> = canonical.plan().requests(task).collect();
        let of_kind = |kind| requests.iter().filter(move |r| r.1 == kind).map(|r| r.0);
        let reads: Vec<LocationId> = of_kind(I).collect();
        let writes = of_kind(X).next().unwrap();
        Interpreted {
            case,
            role: canonical.role(task),
            writes,
            read_contents: reads.iter().map(|&l| canonical.content(l)).collect(),
            written_content: canonical.content(writes),
            reads,
        }
    }

    /// Returns all values that a main task sees of location `l` of the original.
    fn seen(&self, l: LocationId, write: &[u64], read: &[&[u64]]) -> Vec<u64> {
        let of = |content| match content {
            Content::Version { of, .. } => Some(of),
            Content::Part { part, .. } => Some(self.case.parts[part].of),
            Content::Results { .. } | Content::Nothing { .. } => None,
        };
        let values =
            self.read_contents.iter().zip(read).filter(|(content, _)| of(**content) == Some(l));
        let values: Vec<u64> = values.map(|(_, value)| value[0]).collect();
        if values.is_empty() && of(self.written_content) == Some(l) {
            vec![write[0]]
        } else {
            values
        }
    }

    /// Runs one step, given the values of the written and the read locations.
    fn step(&self, round: u64, digest: &mut u64, write: &mut [u64], read: &[&[u64]]) {
        match self.role {
            Role::Main { task } => {
                *digest = mix(*digest, round);
                for (l, _) in self.case.plan.requests(task) {
                    let seen = self.seen(l, write, read);
                    assert!(!seen.is_empty());
                    *digest = seen.into_iter().fold(*digest, mix);
                }
                for (place, value) in write.iter_mut().enumerate() {
                    *value = mix(*digest, place as u64);
                }
            }
            Role::Export { task, location } => {
                let place = self.case.written(task).iter().position(|&l| l == location).unwrap();
                assert_eq!(self.read_contents, [Content::Results { of: task }]);
                assert_eq!(
                    self.written_content,
                    Content::Version { of: location, after: Some(task) }
                );
                write[0] = read[0][place];
            }
            Role::ExportPart { task, part } => {
                let of = self.case.parts[part].of;
                assert_eq!(self.read_contents, [Content::Version { of, after: Some(task) }]);
                assert_eq!(self.written_content, Content::Part { part, after: Some(task) });
                write[0] = part_of(read[0][0], part);
            }
            Role::Keep { .. } => assert!(self.reads.is_empty()),
        }
    }
}

/// Returns the initial value of a location of the canonical plan.
fn start(case: &Case, canonical: &Canonical, place: LocationId) -> Vec<u64> {
    let home = |of: LocationId, after| {
        canonical.content(canonical.home(of)) == Content::Version { of, after }
    };
    let initial = |of| seed_of(index(of, &case.plan));
    match canonical.content(place) {
        Content::Version { of, .. } => {
            vec![if canonical.home(of) == place { initial(of) } else { RUBBISH }]
        }
        Content::Part { part, after } => {
            let of = case.parts[part].of;
            vec![if home(of, after) { part_of(initial(of), part) } else { RUBBISH }]
        }
        Content::Results { of } => vec![RUBBISH; case.written(of).len()],
        Content::Nothing { .. } => Vec::new(),
    }
}

/// Returns the digests of the main tasks, in the order of the original tasks.
fn digests_of(case: &Case, canonical: &Canonical, digests: &[u64]) -> Vec<u64> {
    let main = |task| {
        canonical.plan().tasks().position(|t| canonical.role(t) == Role::Main { task }).unwrap()
    };
    case.plan.tasks().map(|t| digests[main(t)]).collect()
}

/// Runs the canonical plan as a plain loop over its tasks, in the order of declaration.
fn in_sequence(case: &Case, canonical: &Canonical, rounds: u64) -> Vec<Outcome> {
    let plan = canonical.plan();
    let tasks: Vec<_> = plan.tasks().map(|t| Interpreted::new(case, canonical, t)).collect();
    let mut cells: Vec<Vec<u64>> = plan.locations().map(|l| start(case, canonical, l)).collect();
    let mut digests = vec![0; tasks.len()];
    let mut outcomes = Vec::new();
    for round in 0..rounds {
        for (task, digest) in tasks.iter().zip(&mut digests) {
            let mut write = std::mem::take(&mut cells[index(task.writes, plan)]);
            let read: Vec<&[u64]> =
                task.reads.iter().map(|&l| &cells[index(l, plan)][..]).collect();
            task.step(round, digest, &mut write, &read);
            cells[index(task.writes, plan)] = write;
        }
        outcomes.push(Outcome {
            cells: case
                .plan
                .locations()
                .map(|l| cells[index(canonical.home(l), plan)][0])
                .collect(),
            digests: digests_of(case, canonical, &digests),
        });
    }
    outcomes
}

/// Runs the canonical plan on the engine.
fn on_engine(
    case: &Case,
    canonical: &Canonical,
    initial: Initial,
    runner: Runner,
    delays: u64,
) -> Outcome {
    let plan = canonical.plan();
    let cells: Vec<Location<Vec<u64>>> = plan
        .locations()
        .map(|l| Location::new(plan.location_name(l), start(case, canonical, l)))
        .collect();
    let tasks: Vec<_> = plan.tasks().map(|t| Interpreted::new(case, canonical, t)).collect();
    let mut digests = vec![0; tasks.len()];
    let mut overlay = Overlay::new();
    for (n, (task, digest)) in tasks.iter().zip(&mut digests).enumerate() {
        let reads: Vec<_> = task.reads.iter().map(|&l| cells[index(l, plan)].read()).collect();
        let access = (cells[index(task.writes, plan)].write(), reads);
        overlay.task(
            format!("{n}"),
            access,
            move |(write, reads): (&mut Vec<u64>, Reads<'_, _>), step| {
                if mix(mix(delays, n as u64), step.iteration()).is_multiple_of(4) {
                    std::thread::yield_now();
                }
                let read: Vec<&[u64]> = reads.iter().map(|cell: &Vec<u64>| &cell[..]).collect();
                task.step(step.iteration(), digest, write, &read);
            },
        );
    }
    let mut checked = overlay.check(initial).unwrap();
    checked.run(runner, Stop::after(ROUNDS)).unwrap();
    drop(checked);
    let cells: Vec<Vec<u64>> = cells.into_iter().map(|cell| cell.into_inner().unwrap()).collect();
    Outcome {
        cells: case.plan.locations().map(|l| cells[index(canonical.home(l), plan)][0]).collect(),
        digests: digests_of(case, canonical, &digests),
    }
}

fn requests(plan: &Plan) -> usize {
    plan.tasks().map(|t| plan.requests(t).len()).sum()
}

#[test]
fn each_task_writes_one_location_and_each_location_has_one_writer() {
    for (seed, case) in live(0, 4000) {
        let canonical = case.canonical().unwrap();
        let plan = canonical.plan();
        let mut writers = vec![0; plan.locations().len()];
        for task in plan.tasks() {
            let written: Vec<_> = plan.requests(task).filter(|r| r.1 == X).collect();
            assert_eq!(written.len(), 1, "seed {seed}: {}", plan.task_name(task));
            writers[index(written[0].0, plan)] += 1;
        }
        assert!(writers.iter().all(|&n| n == 1), "seed {seed}: {case:?}");
        assert!(plan.is_canonical());
    }
}

#[test]
fn the_canonical_form_is_live_and_every_task_of_the_original_is_in_it_once() {
    for (seed, case) in live(10_000, 4000) {
        let canonical = case.canonical().unwrap();
        let plan = canonical.plan();
        let start = plan.check(&Initial::Program).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(plan.check(&Initial::Wave).unwrap().states(), start.states(), "seed {seed}");
        let roles: Vec<Role> = plan.tasks().map(|t| canonical.role(t)).collect();
        for task in case.plan.tasks() {
            assert_eq!(
                roles.iter().filter(|&&role| role == Role::Main { task }).count(),
                1,
                "seed {seed}"
            );
        }
        // The sub-tasks of a task stand together, behind the main task.
        let of: Vec<Option<Task>> = roles.iter().map(|role| role.task()).collect();
        let runs = of.chunk_by(|a, b| a == b).filter(|run| run[0].is_some()).count();
        assert_eq!(runs, case.plan.tasks().len(), "seed {seed}");
        let distinct: BTreeSet<String> =
            plan.locations().map(|l| plan.location_name(l).to_owned()).collect();
        assert_eq!(
            distinct.len(),
            plan.locations().len(),
            "seed {seed}: one name for two locations"
        );
    }
}

#[test]
fn a_round_of_the_canonical_form_gives_the_numbers_of_a_round_of_the_original() {
    let (mut plans, mut original, mut derived) = (0, 0, 0);
    for (seed, case) in live(20_000, 4000) {
        let canonical = case.canonical().unwrap();
        assert_eq!(
            in_sequence(&case, &canonical, ROUNDS),
            reference(&case, ROUNDS),
            "seed {seed}: {case:?}"
        );
        plans += 1;
        original += case.plan.tasks().len();
        derived += canonical.plan().tasks().len();
    }
    println!("{plans} plans, {original} tasks in all, {derived} in canonical form");
}

#[test]
fn the_engine_gives_the_numbers_of_the_original_from_the_canonical_form() {
    within(|| {
        for (seed, case) in live(30_000, 100) {
            let canonical = case.canonical().unwrap();
            let expected = reference(&case, ROUNDS).pop().unwrap();
            for (i, runner) in runners().into_iter().enumerate() {
                let initial = [Initial::Program, Initial::Wave][i % 2].clone();
                let found = on_engine(&case, &canonical, initial, runner, mix(seed, i as u64));
                assert_eq!(found, expected, "seed {seed}, {runner:?}: {case:?}");
            }
        }
    });
}

/// Checks the table of costs in the documentation of the module.
#[test]
fn the_canonical_form_is_as_large_as_promised() {
    for (seed, case) in live(40_000, 2000) {
        let canonical = case.canonical().unwrap();
        let (before, plan) = (&case.plan, canonical.plan());
        let mut expected = [before.tasks().len(), before.locations().len(), requests(before)];
        let mut add =
            |more: [usize; 3]| expected.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
        for task in before.tasks() {
            match case.written(task).len() {
                0 => add([0, 1, 1]),
                1 => {}
                k => add([k, 1, 2 * k + 1]),
            }
        }
        for l in before.locations() {
            let writers: Vec<Task> =
                before.tasks().filter(|&t| case.written(t).contains(&l)).collect();
            let alone = writers.iter().filter(|&&t| case.written(t).len() == 1).count();
            match writers.len() {
                0 => add([1, 0, 1]),
                1 => {}
                m => add([0, m - 1, alone]),
            }
        }
        for l in plan.locations() {
            match canonical.content(l) {
                Content::Part { after: Some(_), .. } => add([1, 1, 2]),
                Content::Part { after: None, .. } => add([1, 1, 1]),
                _ => {}
            }
        }
        for (task, (l, _)) in before.tasks().flat_map(|t| before.requests(t).map(move |r| (t, r))) {
            add([0, 0, case.seen(task, l, 0).len() - 1]);
        }
        let found = [plan.tasks().len(), plan.locations().len(), requests(plan)];
        assert_eq!(found, expected, "seed {seed}: {case:?}");
    }
}

#[test]
fn a_canonical_plan_stays_as_it_is() {
    for (seed, case) in live(50_000, 1000) {
        let canonical = case.canonical().unwrap();
        let again = canonical.plan().canonical(&Initial::Program, &[]).unwrap();
        assert_eq!(again.plan(), canonical.plan(), "seed {seed}");
        assert!(again.plan().tasks().all(|task| again.role(task) == Role::Main { task }));
    }
}

#[test]
fn a_plan_that_deadlocks_is_refused_with_its_cycle() {
    let seeds = seeds(60_000, 4000);
    let (count, mut refused) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        let case = Case::random(seed);
        if let Err(error) = case.plan.check(&case.initial) {
            assert_eq!(case.canonical().unwrap_err(), error, "seed {seed}");
            refused += 1;
        }
    }
    assert!(80 * refused > count, "only {refused} dead: not a fair sample");
}

#[test]
fn a_part_is_refused_to_a_task_that_does_not_read_its_location() {
    let mut plan = Plan::new();
    let (a, b) = (plan.location("a"), plan.location("b"));
    let writer = plan.task("writer", [(a, X)]);
    let reader = plan.task("reader", [(a, I), (b, X)]);
    let mut other = plan.clone();
    let stranger = other.task("stranger", [(a, I)]);
    let error = |of, reader| {
        let part = Part { of, name: "edge".to_owned(), readers: vec![reader] };
        plan.canonical(&Initial::Program, &[part]).unwrap_err().to_string()
    };
    let refusal = |task| {
        format!("part 'edge' is given to task '{task}', which does not ask to read its location")
    };
    assert_eq!(error(a, writer), refusal("writer"));
    assert_eq!(error(b, reader), refusal("reader"));
    assert_eq!(error(a, stranger), refusal("task 2"));
    assert_eq!(error(other.location("c"), reader), refusal("reader"));
    // A part without readers, and a part given to a task twice.
    let part = |readers| Part { of: a, name: "edge".to_owned(), readers };
    let unread = plan.canonical(&Initial::Program, &[part(vec![])]).unwrap();
    assert_eq!(unread, plan.canonical(&Initial::Program, &[]).unwrap());
    let once = plan.canonical(&Initial::Program, &[part(vec![reader])]).unwrap();
    assert_eq!(plan.canonical(&Initial::Program, &[part(vec![reader, reader])]).unwrap(), once);
}

#[test]
fn plans_with_nothing_in_them() {
    assert!(Plan::new().is_canonical());
    assert!(Plan::new().canonical(&Initial::Wave, &[]).unwrap().plan().is_canonical());
    let mut plan = Plan::new();
    plan.task("idle", []);
    let unused = plan.location("unused");
    let canonical = plan.canonical(&Initial::Wave, &[]).unwrap();
    assert!(!plan.is_canonical() && canonical.plan().is_canonical());
    let roles: Vec<Role> = canonical.plan().tasks().map(|t| canonical.role(t)).collect();
    assert_eq!(roles[1], Role::Keep { location: unused });
}
