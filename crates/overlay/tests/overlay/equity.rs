//! Equity: at every moment the iteration counts of two tasks that conflict differ by at most one,
//! and those of any two tasks by at most their distance. Every body reads the counts of all other
//! tasks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Plan, Random, mix, runners, seeds, within};
use syncline_overlay::{Initial, Overlay, Runner, Stop};

const ITERATIONS: u64 = 60;

/// The progress of a task.
#[derive(Default)]
struct Place {
    completed: AtomicU64,
    inside: AtomicBool,
}

fn look(plan: &Plan, initial: Initial, runner: Runner, seed: u64) {
    let distances = plan.distances();
    let places: Vec<Place> = plan.tasks.iter().map(|_| Place::default()).collect();
    let cells = plan.cells(|_| ());
    let mut overlay = Overlay::new();
    for t in 0..plan.tasks.len() {
        let (places, distances, conflict) = (&places, &distances[t], move |u| plan.conflict(t, u));
        overlay.task(format!("t{t}"), plan.access(t, &cells), move |_, step| {
            let mine = &places[t];
            // Acquire and Release: "inside" and the counts must be consistent also among tasks
            // without a common grant.
            assert!(!mine.inside.swap(true, Ordering::AcqRel), "{t} runs twice at once");
            assert_eq!(mine.completed.load(Ordering::Acquire), step.iteration());
            let check = |when: &str| {
                for (u, other) in places.iter().enumerate() {
                    let theirs = other.completed.load(Ordering::Acquire);
                    let apart = theirs.abs_diff(step.iteration());
                    // Without a path between the tasks there is no limit.
                    let most = distances[u].unwrap_or(u64::MAX);
                    assert!(apart <= most, "{when}: {t} at {}, {u} at {theirs}", step.iteration());
                    if conflict(u) {
                        assert!(
                            !other.inside.load(Ordering::Acquire),
                            "{when}: {t} and {u} both run"
                        );
                    }
                }
            };
            check("begin");
            if mix(mix(seed, t as u64), step.iteration()).is_multiple_of(8) {
                std::thread::yield_now();
            }
            check("end");
            mine.completed.store(step.iteration() + 1, Ordering::Release);
            mine.inside.store(false, Ordering::Release);
        });
    }
    overlay.check(initial).unwrap().run(runner, Stop::after(ITERATIONS)).unwrap();
    assert!(places.iter().all(|p| p.completed.load(Ordering::Acquire) == ITERATIONS));
}

#[test]
fn on_a_grid() {
    within(|| {
        let plan = Plan::grid(4, 5);
        for initial in [Initial::Program, Initial::Wave, Initial::MaxParallel] {
            for (i, runner) in runners().into_iter().enumerate() {
                look(&plan, initial.clone(), runner, i as u64);
            }
        }
    });
}

/// A chain lets its ends drift apart farthest.
#[test]
fn on_a_chain() {
    within(|| {
        let plan = Plan::grid(1, 24);
        for (i, runner) in runners().into_iter().enumerate() {
            look(&plan, Initial::MaxParallel, runner, i as u64);
        }
    });
}

#[test]
fn on_random_overlays() {
    within(|| {
        for seed in seeds(0, 60) {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 2..=12, 2..=10, 4);
            let runner = runners()[seed as usize % runners().len()];
            println!("seed {seed}, {runner:?}");
            look(&plan, Initial::Wave, runner, seed);
        }
    });
}
