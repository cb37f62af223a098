//! Results do not depend on the schedule: random overlays with several writers to a location, whose
//! bodies mix the values that they read into those that they write, give the bits of a sequential
//! loop that runs the tasks round by round in the order of their rank, with any runner and any
//! delays.

use std::sync::Mutex;
use std::time::Duration;

use crate::common::{Plan, Random, X, mix, runners, seeds, within};
use syncline_overlay::AccessMode;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, access::Reads};

const ROUNDS: u64 = 9;

/// The final value of each location, and a digest of all values that each task has seen.
#[derive(Debug, PartialEq)]
struct Outcome {
    cells: Vec<u64>,
    digests: Vec<u64>,
}

fn seed_of(location: usize) -> u64 {
    mix(location as u64, 77)
}

/// Returns the digest of a task after one step, from its previous digest and all values that it
/// sees.
fn digest(before: u64, iteration: u64, seen: impl Iterator<Item = u64>) -> u64 {
    seen.fold(mix(before, iteration), mix)
}

/// Runs the sequential loop.
fn reference(plan: &Plan, order: &[usize], rounds: u64) -> Outcome {
    let mut cells: Vec<u64> = (0..plan.locations).map(seed_of).collect();
    let mut digests = vec![0; plan.tasks.len()];
    for round in 0..rounds {
        for &t in order {
            let (written, read): (Vec<(usize, AccessMode)>, Vec<_>) =
                plan.tasks[t].iter().copied().partition(|r| r.1 == X);
            let seen = written.iter().chain(&read).map(|r| cells[r.0]);
            digests[t] = digest(digests[t], round, seen);
            for (place, (l, _)) in written.into_iter().enumerate() {
                cells[l] = mix(digests[t], place as u64);
            }
        }
    }
    Outcome { cells, digests }
}

/// Returns the outcome on the engine, and the order in which tasks ran in the first round.
fn run(
    plan: &Plan,
    initial: Initial,
    runner: Runner,
    rounds: u64,
    delays: u64,
) -> (Outcome, Vec<usize>) {
    let cells = plan.cells(seed_of);
    let mut digests = vec![0_u64; plan.tasks.len()];
    let first_round = Mutex::new(Vec::new());
    let mut overlay = Overlay::new();
    for (t, mine) in digests.iter_mut().enumerate() {
        let first_round = &first_round;
        let body = move |(mut written, read): ([Option<&mut u64>; 6], Reads<'_, u64>),
                         step: &mut Step| {
            if step.iteration() == 0 {
                first_round.lock().unwrap().push(t);
            }
            match mix(mix(delays, t as u64), step.iteration()) % 64 {
                0 => std::thread::sleep(Duration::from_micros(100)),
                1..=15 => std::thread::yield_now(),
                spins @ 16..=31 => (0..spins * 20).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
            let seen = written.iter().flatten().map(|w| **w).chain(read.iter().copied());
            *mine = digest(*mine, step.iteration(), seen);
            for (place, cell) in written.iter_mut().flatten().enumerate() {
                **cell = mix(*mine, place as u64);
            }
        };
        overlay.task(format!("t{t}"), plan.access(t, &cells), body);
    }
    let mut checked = overlay.check(initial).unwrap();
    let report = checked.run(runner, Stop::after(rounds)).unwrap();
    assert_eq!((report.iterations, report.steps), (rounds, rounds * plan.tasks.len() as u64));
    drop(checked);
    let value = |cell: Location<u64>| cell.into_inner().expect("the overlay is gone");
    (
        Outcome { cells: cells.into_iter().map(value).collect(), digests },
        first_round.into_inner().unwrap(),
    )
}

fn plan(seed: u64) -> Plan {
    let mut random = Random::new(seed);
    let mut plan = Plan::random(&mut random, 1..=12, 1..=8, 5);
    if seed.is_multiple_of(4) {
        plan.tasks.push(Vec::new()); // a task without requests
    }
    plan
}

#[test]
fn program_and_wave_give_the_bits_of_the_sequential_program() {
    within(|| {
        for seed in seeds(0, 40) {
            let plan = plan(seed);
            let program: Vec<usize> = (0..plan.tasks.len()).collect();
            let expected = reference(&plan, &program, ROUNDS);
            for initial in [Initial::Program, Initial::Wave] {
                for (i, runner) in runners().into_iter().enumerate() {
                    let (found, _) =
                        run(&plan, initial.clone(), runner, ROUNDS, mix(seed, i as u64));
                    assert_eq!(found, expected, "seed {seed}, {initial:?}, {runner:?}");
                }
            }
        }
    });
}

#[test]
fn priorities_give_the_bits_of_the_sequential_program_in_their_order() {
    within(|| {
        for seed in seeds(100, 40) {
            let plan = plan(seed);
            let mut random = Random::new(seed);
            let priorities: Vec<i64> =
                plan.tasks.iter().map(|_| random.within(0..=6) as i64 - 3).collect();
            let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
            order.sort_by_key(|&t| priorities[t]); // stable: equal ones keep their order
            let expected = reference(&plan, &order, ROUNDS);
            for (i, runner) in runners().into_iter().enumerate() {
                let initial = Initial::Priority(priorities.clone());
                let (found, _) = run(&plan, initial, runner, ROUNDS, mix(seed, i as u64));
                assert_eq!(found, expected, "seed {seed}, {runner:?}, {priorities:?}");
            }
        }
    });
}

/// The rank of a colouring is not public, but the first round reveals the relevant part of it:
/// tasks that conflict have run in its order, and others may be swapped.
#[test]
fn a_colouring_gives_the_bits_of_the_sequential_program_in_its_order() {
    within(|| {
        for seed in seeds(200, 40) {
            let plan = plan(seed);
            let (_, order) = run(&plan, Initial::MaxParallel, Runner::pool(1), 1, seed);
            let expected = reference(&plan, &order, ROUNDS);
            for (i, runner) in runners().into_iter().enumerate() {
                let delays = mix(seed, i as u64);
                let (found, _) = run(&plan, Initial::MaxParallel, runner, ROUNDS, delays);
                assert_eq!(found, expected, "seed {seed}, {runner:?}");
            }
        }
    });
}

#[test]
fn red_black_order_on_a_grid_is_all_of_one_colour_and_then_the_other() {
    within(|| {
        let plan = Plan::grid(6, 7);
        let colour = |t: &usize| (t / 7 + t % 7) % 2;
        let mut order: Vec<usize> = (0..42).collect();
        order.sort_by_key(colour);
        let expected = reference(&plan, &order, ROUNDS);
        for (i, runner) in runners().into_iter().enumerate() {
            let (found, _) = run(&plan, Initial::MaxParallel, runner, ROUNDS, i as u64);
            assert_eq!(found, expected, "{runner:?}");
        }
        assert_ne!(
            expected,
            reference(&plan, &(0..42).collect::<Vec<_>>(), ROUNDS),
            "other numbers"
        );
    });
}
