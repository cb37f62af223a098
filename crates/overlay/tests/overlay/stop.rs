//! Runs that end by a convergence test: all tasks stop after one common iteration, at most the
//! diameter of the overlay behind the first one below the tolerance, with the residuals and the
//! numbers of a sequential loop, with any runner.

use crate::common::{I, Plan, Random, X, runners, seeds, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Step, Stop, access::Reads, error::RunError, run::RunReport,
};

fn start(location: usize) -> f64 {
    ((location * 37) % 100) as f64
}

/// Returns the value that a task writes to one of its locations: closer to the mean of all values
/// that it sees.
fn relax(old: f64, mean: f64) -> f64 {
    0.25 * old + 0.7 * mean
}

fn mean(seen: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = seen.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    sum / count
}

/// Runs the sequential loop. Returns the residual of each round, and the cells after it.
fn reference(plan: &Plan, rounds: u64) -> Vec<(f64, Vec<f64>)> {
    let mut cells: Vec<f64> = (0..plan.locations).map(start).collect();
    let round = |_| {
        let mut residual = 0.0_f64;
        for task in &plan.tasks {
            let locations = |kind| task.iter().filter(move |r| r.1 == kind).map(|r| r.0);
            let mean = mean(locations(X).chain(locations(I)).map(|l| cells[l]));
            for l in locations(X) {
                let new = relax(cells[l], mean);
                residual = residual.max((new - cells[l]).abs());
                cells[l] = new;
            }
        }
        (residual, cells.clone())
    };
    (0..rounds).map(round).collect()
}

/// Runs the same on the engine; `report` computes the report of a step from its greatest change.
fn run(
    plan: &Plan,
    initial: &Initial,
    runner: Runner,
    stop: Stop,
    report: impl Fn(f64, &mut Step) + Send + Copy,
) -> (Result<RunReport, RunError>, Vec<f64>) {
    let cells = plan.cells(start);
    let mut overlay = Overlay::new();
    for t in 0..plan.tasks.len() {
        let body = move |(mut written, read): ([Option<&mut f64>; 6], Reads<'_, f64>),
                         step: &mut Step| {
            let mean = mean(written.iter().flatten().map(|w| **w).chain(read.iter().copied()));
            let mut change = 0.0_f64;
            for cell in written.iter_mut().flatten() {
                let new = relax(**cell, mean);
                change = change.max((new - **cell).abs());
                **cell = new;
            }
            report(change, step);
        };
        overlay.task(format!("t{t}"), plan.access(t, &cells), body);
    }
    let outcome = overlay.check(initial.clone()).unwrap().run(runner, stop);
    (outcome, cells.iter().map(|cell| *cell.reader().acquire().unwrap()).collect())
}

fn verify(plan: &Plan, tolerance: f64, at_most: u64) -> Option<u64> {
    let history = reference(plan, at_most);
    let diameter = plan.diameter().expect("a connected plan");
    let converged =
        history.iter().position(|(residual, _)| *residual <= tolerance).map(|n| n as u64);
    let end = converged.map_or(at_most, |n| at_most.min(n + diameter + 1));
    let residuals: Vec<f64> = history[..end as usize].iter().map(|h| h.0).collect();
    for initial in [Initial::Program, Initial::Wave] {
        for runner in runners() {
            let stop = Stop::converged(tolerance, at_most);
            let (report, cells) =
                run(plan, &initial, runner, stop, |change, step| step.report(change));
            let report = report.unwrap();
            assert_eq!(report.converged, converged, "{runner:?}, {plan:?}");
            assert_eq!(report.iterations, end, "{runner:?}, {plan:?}");
            assert_eq!(report.steps, end * plan.tasks.len() as u64, "{runner:?}, {plan:?}");
            assert_eq!(report.residuals, residuals, "{runner:?}, {plan:?}");
            assert_eq!(cells, history[end as usize - 1].1, "{runner:?}, {plan:?}");
        }
    }
    converged
}

#[test]
fn a_grid_converges_as_the_plain_loop_does() {
    within(|| {
        assert!(verify(&Plan::grid(4, 5), 1e-3, 1000).is_some());
    });
}

/// The longest delay: 23 iterations from one end to the other.
#[test]
fn a_chain_converges_as_the_plain_loop_does() {
    within(|| {
        assert!(verify(&Plan::grid(1, 24), 1e-2, 1000).is_some());
    });
}

#[test]
fn random_overlays_converge_as_the_plain_loop_does() {
    within(|| {
        let seeds = seeds(0, 60);
        let (least, mut converged) = ((seeds.end - seeds.start).div_ceil(3), 0);
        // Overlays that are not connected, or do not converge in time, make room for others.
        for seed in seeds.start.. {
            if seed >= seeds.end && converged >= least {
                break;
            }
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 1..=10, 1..=8, 4);
            if plan.diameter().is_some() {
                println!("seed {seed}");
                converged += u64::from(verify(&plan, 0.1, 200).is_some());
            }
        }
    });
}

#[test]
fn a_single_task_stops_at_once() {
    within(|| {
        assert!(verify(&Plan { locations: 1, tasks: vec![vec![(0, X)]] }, 1e-3, 1000).is_some());
    });
}

#[test]
fn the_limit_counts_also_during_the_delay() {
    within(|| {
        let plan = Plan::grid(1, 24);
        let converged = verify(&plan, 1e-2, 1000).unwrap();
        for at_most in [1, converged, converged + 1, converged + 5, converged + 23] {
            verify(&plan, 1e-2, at_most);
        }
    });
}

#[test]
fn what_is_not_a_number_never_converges() {
    within(|| {
        let plan = Plan::grid(3, 3);
        for runner in runners() {
            let stop = Stop::converged(f64::INFINITY, 40);
            let always = |_, step: &mut Step| step.report(f64::NAN);
            let (report, _) = run(&plan, &Initial::Wave, runner, stop, always);
            let report = report.unwrap();
            assert_eq!((report.iterations, report.steps, report.converged), (40, 360, None));
            assert!(report.residuals.len() == 40 && report.residuals.iter().all(|r| r.is_nan()));
            // All tasks have converged, except in the first seven rounds.
            let at_first = |_, step: &mut Step| {
                step.report(if step.iteration() < 7 { -f64::NAN } else { -0.5 });
            };
            let (report, _) = run(&plan, &Initial::Wave, runner, stop, at_first);
            let report = report.unwrap();
            assert_eq!((report.iterations, report.converged), (7 + 4 + 1, Some(7)));
            assert_eq!(report.residuals[7..], [0.5; 5]);
        }
    });
}

#[test]
fn a_tolerance_that_is_not_a_number_never_converges() {
    within(|| {
        let stop = Stop::converged(f64::NAN, 30);
        let (report, _) =
            run(&Plan::grid(2, 2), &Initial::Wave, Runner::pool(1), stop, |_, step| {
                step.report(0.0)
            });
        let report = report.unwrap();
        assert_eq!((report.iterations, report.converged), (30, None));
    });
}

#[test]
fn tasks_that_never_depend_on_each_other_are_named() {
    within(|| {
        for runner in runners() {
            let cells = ["a", "b", "c"].map(|name| Location::new(name, 0));
            let mut overlay = Overlay::new();
            overlay.task("one", (cells[0].write(), cells[1].read()), |_, _| ());
            overlay.task("two", (cells[0].read(), cells[1].read()), |_, _| ());
            // Only readers use b, so no task waits for another there.
            overlay.task("three", (cells[2].write(), cells[1].read()), |_, _| ());
            let mut overlay = overlay.check(Initial::Wave).unwrap();
            let error = overlay.run(runner, Stop::converged(0.5, 10)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "a convergence test needs tasks that depend on each other; 'one' and 'three' never do"
            );
            // The run had not begun, and a fixed number of iterations is possible.
            assert_eq!(overlay.run(runner, Stop::after(10)).unwrap().steps, 30);
        }
    });
}

#[test]
fn a_task_may_not_leave_a_run_with_a_convergence_test() {
    within(|| {
        for runner in runners() {
            let leave = |_, step: &mut Step| {
                if step.iteration() == 3 {
                    step.leave();
                }
                step.report(1.0);
            };
            let (outcome, _) =
                run(&Plan::grid(2, 3), &Initial::Wave, runner, Stop::converged(0.5, 9), leave);
            let error = outcome.unwrap_err();
            assert!(matches!(error, RunError::Failed { iteration: 3, .. }), "{error}");
            assert!(error.to_string().contains("may not leave"), "{error}");
        }
    });
}
