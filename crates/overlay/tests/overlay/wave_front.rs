//! The number of tasks that can be active at once on the 8 x 8 grid of blocks. If all active tasks
//! step together, the wave has 1, 2, 4, 6, 9 ... 32 active tasks; a colouring starts with 32 and
//! stays there. Checked twice: in a plain model, and on the crate's own queues.

use std::collections::VecDeque;

use crate::common::{Plan, Random, X};
use syncline_overlay::{
    AccessMode,
    raw::{Node, RawLocation},
};
use syncline_overlay::{Checked, Initial, Overlay};

const SIDE: usize = 8;
/// The number of active tasks in each step. Diagonal d of the grid first runs in step d, and then
/// in every second step.
const WAVE: [usize; 16] = [1, 2, 4, 6, 9, 12, 16, 20, 23, 26, 28, 30, 31, 32, 32, 32];

/// A model that steps all active tasks together.
trait Model {
    /// Creates a model whose first requests enter task by task, in this order.
    fn new(plan: &Plan, order: &[usize]) -> Self;
    /// Runs all tasks that can run, and returns them.
    fn step(&mut self) -> Vec<usize>;
}

/// Queues as lists.
struct Plain {
    tasks: usize,
    queues: Vec<VecDeque<(usize, AccessMode)>>,
}

impl Model for Plain {
    fn new(plan: &Plan, order: &[usize]) -> Self {
        let mut queues = vec![VecDeque::new(); plan.locations];
        for &t in order {
            plan.tasks[t].iter().for_each(|&(l, kind)| queues[l].push_back((t, kind)));
        }
        Plain { tasks: plan.tasks.len(), queues }
    }

    fn step(&mut self) -> Vec<usize> {
        let waits = |t: usize| {
            self.queues.iter().any(|queue| {
                let place = queue.iter().position(|q| q.0 == t);
                place.is_some_and(|p| p > 0 && queue.iter().take(p + 1).any(|q| q.1 == X))
            })
        };
        let active: Vec<usize> = (0..self.tasks).filter(|&t| !waits(t)).collect();
        for &t in &active {
            for queue in &mut self.queues {
                if let Some(place) = queue.iter().position(|q| q.0 == t) {
                    let request = queue.remove(place).unwrap();
                    queue.push_back(request);
                }
            }
        }
        active
    }
}

/// The queues of the crate. A task has one node at each of its locations.
struct Real {
    /// The location and node of each request, by task.
    tasks: Vec<Vec<(usize, u32)>>,
    locations: Vec<(RawLocation, Vec<Node>)>,
    /// The number of requests that each task still waits for.
    missing: Vec<usize>,
}

impl Model for Real {
    fn new(plan: &Plan, order: &[usize]) -> Self {
        let mut locations: Vec<_> =
            (0..plan.locations).map(|_| (RawLocation::new(), Vec::new())).collect();
        let mut tasks = vec![Vec::new(); plan.tasks.len()];
        for (t, list) in plan.tasks.iter().enumerate() {
            for &(l, _) in list {
                tasks[t].push((l, locations[l].1.len() as u32));
                locations[l].1.push(Node::new(t as u32));
            }
        }
        let mut missing: Vec<usize> = plan.tasks.iter().map(Vec::len).collect();
        for &t in order {
            for (&(l, kind), &(_, node)) in plan.tasks[t].iter().zip(&tasks[t]) {
                let (raw, nodes) = &locations[l];
                let granted = &mut |n: u32| missing[nodes[n as usize].waiter() as usize] -= 1;
                raw.section().post(&nodes[..], node, kind, granted);
            }
        }
        Real { tasks, locations, missing }
    }

    fn step(&mut self) -> Vec<usize> {
        let active: Vec<usize> = (0..self.tasks.len()).filter(|&t| self.missing[t] == 0).collect();
        for &t in &active {
            self.missing[t] = self.tasks[t].len();
            for &(l, node) in &self.tasks[t] {
                let (raw, nodes) = &self.locations[l];
                let granted = &mut |n: u32| self.missing[nodes[n as usize].waiter() as usize] -= 1;
                raw.section().next(&nodes[..], node, granted);
            }
        }
        active
    }
}

fn program() -> Vec<usize> {
    (0..SIDE * SIDE).collect()
}

fn diagonals() -> Vec<usize> {
    let mut order = program();
    order.sort_by_key(|t| t / SIDE + t % SIDE);
    order
}

fn red_black() -> Vec<usize> {
    let mut order = program();
    order.sort_by_key(|t| (t / SIDE + t % SIDE) % 2);
    order
}

fn steps<M: Model>(order: &[usize]) -> Vec<Vec<usize>> {
    let mut model = M::new(&Plan::grid(SIDE, SIDE), order);
    (0..40).map(|_| model.step()).collect()
}

fn counts(steps: &[Vec<usize>]) -> Vec<usize> {
    steps.iter().map(Vec::len).collect()
}

#[test]
fn a_wave_fills_the_grid_diagonal_by_diagonal() {
    for order in [diagonals(), program()] {
        let plain = steps::<Plain>(&order);
        assert_eq!(counts(&plain[..16]), WAVE);
        assert!(counts(&plain[16..]).iter().all(|&n| n == 32));
        for (s, active) in plain.iter().enumerate() {
            let front = |t: &usize| t / SIDE + t % SIDE <= s && (t / SIDE + t % SIDE) % 2 == s % 2;
            let expected: Vec<usize> = (0..SIDE * SIDE).filter(front).collect();
            assert_eq!(*active, expected, "step {s}");
        }
        assert_eq!(steps::<Real>(&order), plain);
    }
}

#[test]
fn a_colouring_has_half_of_all_tasks_active_from_the_first_step() {
    let plain = steps::<Plain>(&red_black());
    assert!(counts(&plain).iter().all(|&n| n == 32));
    assert_eq!(steps::<Real>(&red_black()), plain);
}

#[test]
fn the_queues_step_as_the_model_does_from_any_start() {
    for seed in 0..20 {
        let mut order = program();
        Random::new(seed).shuffle(&mut order);
        assert_eq!(steps::<Real>(&order), steps::<Plain>(&order), "seed {seed}");
    }
}

fn overlay(initial: Initial) -> Checked<'static> {
    let plan = Plan::grid(SIDE, SIDE);
    let cells = plan.cells(|_| ());
    let mut overlay = Overlay::new();
    for t in 0..plan.tasks.len() {
        overlay.task(t.to_string(), plan.access(t, &cells), |_, _| ());
    }
    overlay.check(initial).unwrap()
}

#[test]
fn an_overlay_starts_as_the_model_does() {
    let names =
        |order: &[usize]| steps::<Plain>(order)[0].iter().map(usize::to_string).collect::<Vec<_>>();
    assert_eq!(overlay(Initial::Program).active(), ["0"]);
    assert_eq!(overlay(Initial::Wave).active(), ["0"]);
    let start = overlay(Initial::MaxParallel);
    assert_eq!(start.active(), names(&red_black()));
    assert_eq!(start.active().len(), 32);
    // In reverse order the wave starts in the opposite corner.
    let backwards: Vec<i64> = (0..64).rev().collect();
    assert_eq!(overlay(Initial::Priority(backwards)).active(), ["63"]);
}
