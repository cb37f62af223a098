//! `Overlay::check` against an exhaustive oracle: small random overlays whose queues are ordered at
//! random, location by location, so that about half of them deadlock. The oracle uses queues and no
//! graphs: it visits every state that any schedule reaches.

use std::collections::{HashMap, VecDeque};

use crate::common::{I, Plan, Random, X, seeds, within};
use syncline_overlay::AccessMode;
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Stop,
    error::{CheckError, Wait},
};

/// Per location: the tasks that hold it or wait, front first.
type Queues = Vec<VecDeque<(usize, AccessMode)>>;

fn granted(queue: &VecDeque<(usize, AccessMode)>, task: usize) -> bool {
    let Some(place) = queue.iter().position(|q| q.0 == task) else { return true };
    place == 0 || queue.iter().take(place + 1).all(|q| q.1 == I)
}

fn runnable(queues: &Queues, task: usize) -> bool {
    queues.iter().all(|queue| granted(queue, task))
}

/// Runs one step of a task that can run: queues its next requests, and releases the current ones.
fn run(queues: &Queues, task: usize) -> Queues {
    let mut queues = queues.clone();
    for queue in &mut queues {
        if let Some(place) = queue.iter().position(|q| q.0 == task) {
            let request = queue.remove(place).unwrap();
            queue.push_back(request);
        }
    }
    queues
}

struct Verdict {
    /// Whether a state is reachable in which no task can run.
    stops: bool,
    /// Whether a state is reachable from which some task never runs again.
    starves: bool,
}

/// Visits all reachable states. A step puts its task behind all others in all its queues, so the
/// order of the last steps of the tasks that have run is the state: five tasks have 326 at most.
fn explore(start: &Queues, tasks: usize) -> Verdict {
    let mut numbers = HashMap::from([(start.clone(), 0)]);
    let mut states = vec![start.clone()];
    let mut steps: Vec<Vec<(usize, usize)>> = Vec::new(); // for each state: tasks and next states
    while steps.len() < states.len() {
        assert!(states.len() <= 326, "too many states");
        let state = states[steps.len()].clone();
        let mut list = Vec::new();
        for t in (0..tasks).filter(|&t| runnable(&state, t)) {
            let next = run(&state, t);
            let number = *numbers.entry(next.clone()).or_insert_with(|| {
                states.push(next);
                states.len() - 1
            });
            list.push((t, number));
        }
        steps.push(list);
    }
    let mut before = vec![Vec::new(); states.len()];
    for (from, list) in steps.iter().enumerate() {
        list.iter().for_each(|&(_, to)| before[to].push(from));
    }
    let starves = |t: usize| {
        // Searches backwards from the states in which the task can run.
        let mut hopeful: Vec<bool> =
            steps.iter().map(|list| list.iter().any(|s| s.0 == t)).collect();
        let mut stack: Vec<usize> = (0..states.len()).filter(|&s| hopeful[s]).collect();
        while let Some(state) = stack.pop() {
            for &from in &before[state] {
                if !std::mem::replace(&mut hopeful[from], true) {
                    stack.push(from);
                }
            }
        }
        hopeful.contains(&false)
    };
    Verdict { stops: steps.iter().any(Vec::is_empty), starves: (0..tasks).any(starves) }
}

/// Builds the overlay of a plan whose first requests stand in the order of `queues`.
fn overlay(plan: &Plan, queues: &Queues) -> Overlay<'static> {
    let cells = plan.cells(|_| ());
    let mut overlay = Overlay::new();
    let tasks: Vec<_> = (0..plan.tasks.len())
        .map(|t| overlay.task(format!("t{t}"), plan.access(t, &cells), |_, _| ()))
        .collect();
    for (cell, queue) in cells.iter().zip(queues) {
        overlay.order(cell, queue.iter().map(|q| tasks[q.0]));
    }
    overlay
}

fn queues(plan: &Plan, random: &mut Random) -> Queues {
    let queue = |l: usize| {
        let users = plan.tasks.iter().enumerate();
        let mut queue: Vec<_> = users
            .flat_map(|(t, list)| list.iter().filter(|r| r.0 == l).map(move |r| (t, r.1)))
            .collect();
        random.shuffle(&mut queue);
        queue.into()
    };
    (0..plan.locations).map(queue).collect()
}

/// Checks that each step of the cycle waits for the next, at a location whose queue shows it.
fn verify_cycle(cycle: &[Wait], queues: &Queues) {
    assert!(cycle.len() >= 2, "{cycle:?}");
    let number = |name: &str| name[1..].parse::<usize>().unwrap();
    for (i, wait) in cycle.iter().enumerate() {
        assert_eq!(wait.ahead, cycle[(i + 1) % cycle.len()].task, "{cycle:?}");
        assert!(cycle[..i].iter().all(|w| w.task != wait.task), "{cycle:?}");
        let queue = &queues[number(&wait.location)];
        let place = |name: &str| queue.iter().position(|q| q.0 == number(name)).unwrap();
        let (behind, ahead) = (place(&wait.task), place(&wait.ahead));
        assert!(ahead < behind, "{wait} in {queue:?}");
        assert!(queue[ahead].1 == X || queue[behind].1 == X, "{wait} in {queue:?}");
    }
}

#[test]
fn check_finds_what_an_exhaustive_search_finds() {
    within(|| {
        let (mut live, mut dead) = (0_u64, 0_u64);
        let seeds = seeds(0, 3000);
        let plans = seeds.end - seeds.start;
        for seed in seeds {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 2..=5, 2..=4, 4);
            let queues = queues(&plan, &mut random);
            let verdict = explore(&queues, plan.tasks.len());
            match overlay(&plan, &queues).check(Initial::Program) {
                Ok(mut checked) => {
                    live += 1;
                    assert!(
                        !verdict.starves && !verdict.stops,
                        "seed {seed}: dead, but passed: {queues:?}"
                    );
                    let start: Vec<_> = (0..plan.tasks.len())
                        .filter(|&t| runnable(&queues, t))
                        .map(|t| format!("t{t}"))
                        .collect();
                    assert_eq!(checked.active(), start, "seed {seed}");
                    for runner in [Runner::pool(2), Runner::Threads] {
                        let report = checked.run(runner, Stop::after(4)).unwrap();
                        assert_eq!(report.steps, 4 * plan.tasks.len() as u64, "seed {seed}");
                    }
                }
                Err(CheckError::Cycle { cycle }) => {
                    dead += 1;
                    assert!(
                        verdict.starves,
                        "seed {seed}: live, but refused: {cycle:?} in {queues:?}"
                    );
                    // Tasks that do not depend on the cycle go on; if all tasks depend on it, all
                    // stop.
                    assert!(verdict.stops || plan.diameter().is_none(), "seed {seed}: {queues:?}");
                    verify_cycle(&cycle, &queues);
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        println!("{live} live, {dead} dead");
        let is_fair = 3 * live > plans && 3 * dead > plans;
        assert!(is_fair, "{live} live, {dead} dead: not a fair sample");
    });
}

#[test]
fn every_total_rank_is_live() {
    for seed in seeds(0, 500) {
        let mut random = Random::new(seed);
        let plan = Plan::random(&mut random, 1..=20, 1..=8, 5);
        let priorities = plan.tasks.iter().map(|_| random.within(0..=5) as i64 - 2).collect();
        let cells = plan.cells(|_| ());
        for initial in
            [Initial::Program, Initial::Wave, Initial::MaxParallel, Initial::Priority(priorities)]
        {
            let mut overlay = Overlay::new();
            for t in 0..plan.tasks.len() {
                overlay.task(format!("t{t}"), plan.access(t, &cells), |_, _| ());
            }
            let checked = overlay.check(initial.clone()).unwrap();
            assert!(!checked.active().is_empty(), "seed {seed}: no task starts with {initial:?}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_description_is_named() {
    let (x, y) = (Location::new("x", 0), Location::new("y", 0));
    let two_tasks = |overlay: &mut Overlay<'_>| {
        let a = overlay.task("a", (x.write(), y.read()), |_, _| ());
        let b = overlay.task("b", x.read(), |_, _| ());
        (a, b)
    };
    let error = |build: &dyn Fn(&mut Overlay<'_>), initial: Initial| {
        let mut overlay = Overlay::new();
        build(&mut overlay);
        overlay.check(initial).unwrap_err().to_string()
    };
    let twice = |o: &mut Overlay<'_>| {
        o.task("t", (x.write(), y.read(), x.read()), |_, _| ());
    };
    assert_eq!(error(&twice, Initial::Program), "task 't' asks for location 'x' twice");
    let listed = |o: &mut Overlay<'_>| {
        o.task("t", vec![x.write(), x.write()], |_, _| ());
    };
    assert_eq!(error(&listed, Initial::Program), "task 't' asks for location 'x' twice");
    let order = "the order given for location 'x' must name each task that uses it exactly once: ";
    let missing = |o: &mut Overlay<'_>| {
        let (a, _) = two_tasks(o);
        o.order(&x, [a]);
    };
    assert_eq!(error(&missing, Initial::Wave), format!("{order}'b' is missing"));
    let repeated = |o: &mut Overlay<'_>| {
        let (a, b) = two_tasks(o);
        o.order(&x, [a, b, a]);
    };
    assert_eq!(error(&repeated, Initial::Wave), format!("{order}'a' is named twice"));
    let stranger = |o: &mut Overlay<'_>| {
        let (a, b) = two_tasks(o);
        let c = o.task("c", y.read(), |_, _| ());
        o.order(&x, [a, b, c]);
    };
    assert_eq!(error(&stranger, Initial::Wave), format!("{order}'c' does not use it"));
    let of_another_overlay = |o: &mut Overlay<'_>| {
        let mut other = Overlay::new();
        let far = (0..9).map(|i| other.task(format!("o{i}"), (), |_, _| ())).last().unwrap();
        let (a, b) = two_tasks(o);
        o.order(&x, [a, b, far]);
    };
    assert_eq!(
        error(&of_another_overlay, Initial::Wave),
        format!("{order}'task 8' does not use it")
    );
    let corrected = |o: &mut Overlay<'_>| {
        let (a, b) = two_tasks(o);
        o.order(&x, [a]);
        o.order(&x, [b, a]);
        o.task("u", (y.read(), y.read()), |_, _| ());
    };
    assert_eq!(
        error(&corrected, Initial::Wave),
        "task 'u' asks for location 'y' twice",
        "the last order counts"
    );
    let priorities = |o: &mut Overlay<'_>| {
        two_tasks(o);
    };
    assert_eq!(
        error(&priorities, Initial::Priority(vec![1])),
        "1 priorities were given for 2 tasks"
    );
}
