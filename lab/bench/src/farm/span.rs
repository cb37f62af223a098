//! The total time of tasks, divided by the bound of a greedy schedule.
//!
//! Tasks sleep, so that there may be more workers than processors; each measures the time that it
//! really slept. With the sum T1 of these times, and the longest chain T∞ of tasks that wait for
//! one another, a greedy schedule of P workers takes at most (T1 - T∞) / P + T∞ (Brent, "The
//! parallel evaluation of general arithmetic expressions", JACM 21, 1974). Any excess is the farm's
//! overhead.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use syncline_farm::{Pool, PoolBuilder, Task, pool::Forks};

use super::worker::{Role, program};
use super::{Heat, Kit};
use crate::error::Result;
use crate::race::Side;

/// The number of workers of each pool.
const WORKERS: usize = 8;
/// The number of nodes of a tree.
const NODES: usize = 10_000;
/// The number of independent tasks.
const TASKS: u64 = 1000;

/// The names of our entries.
pub(super) const ENTRIES: [&str; 3] = [
    "1000 tasks, the largest first",
    "10 000 forked tasks, by the manager",
    "10 000 forked tasks, stolen",
];

/// A task, and the tasks that it forks.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Tree {
    micros: u64,
    children: Vec<Tree>,
}

/// The nanoseconds of work, and of the longest chain.
pub(super) type Span = (u64, u64);

/// Runs a task on a worker.
pub(super) fn rest(tree: Tree, forks: &mut Forks<'_, Tree, Span>) -> Span {
    let begun = Instant::now();
    std::thread::sleep(Duration::from_micros(tree.micros));
    let own = begun.elapsed().as_nanos() as u64;
    let children: Vec<_> = tree.children.into_iter().map(|child| forks.fork(child)).collect();
    let sum = |(work, span): Span, child| {
        let below = forks.join(child).unwrap_or_default();
        (work + below.0, span.max(below.1))
    };
    let (work, span) = children.into_iter().rev().fold((0, 0), sum);
    (work + own, span + own)
}

/// Returns a pseudorandom number.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *state >> 33
}

/// Returns a tree in which each node is the child of a random earlier one.
fn tree() -> Tree {
    let mut state = 0x5EED;
    let parents: Vec<usize> = (1..NODES).map(|node| random(&mut state) as usize % node).collect();
    let mut trees: Vec<Tree> = (0..NODES)
        .map(|_| Tree { micros: 200 + random(&mut state) % 1600, children: Vec::new() })
        .collect();
    // From the last node backwards: a node has all its children before it becomes a child.
    for (at, &parent) in parents.iter().enumerate().rev() {
        let child = trees.pop().unwrap_or_default();
        debug_assert_eq!(trees.len(), at + 1);
        trees[parent].children.push(child);
    }
    trees.pop().unwrap_or_default()
}

/// Makes the heat: makespans, divided by the bound of a greedy schedule.
pub(super) fn heat(_kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("span", ("of the greedy bound", 1e9));
    let crew =
        || -> Result<PoolBuilder> { Ok(PoolBuilder::new(WORKERS).program(program(Role::Rest)?)) };
    let start = |crew: PoolBuilder| -> Result<Pool<Tree, Span>> {
        let mut pool = crew.start()?;
        // All workers have started and have done tasks.
        pool.map((0..4 * WORKERS as u64).map(|_| Tree { micros: 3000, children: Vec::new() }))
            .for_each(drop);
        Ok(pool)
    };
    let largest = crew().and_then(|crew| start(crew.forks())).map(|mut pool| {
        move || {
            let mut state = 0x5EED;
            let tasks = (0..TASKS).map(|_| {
                let micros = random(&mut state) % 4000;
                Task::new(Tree { micros, children: Vec::new() }).cost(micros as f64)
            });
            let begun = Instant::now();
            let spans = pool.map(tasks).map(|done| done.result);
            let spans = spans.collect::<Result<Vec<Span>, _>>()?;
            let (work, span) =
                spans.iter().fold((0, 0), |(w, s), &(work, span)| (w + work, s.max(span)));
            Ok(vec![ratio(begun, (work, span))])
        }
    });
    heat.add(Side::Ours, ENTRIES[0], largest);
    let forked = |crew: Result<PoolBuilder>| {
        crew.and_then(start).map(|mut pool| {
            move || {
                let tree = tree();
                let begun = Instant::now();
                let spans = pool.run(tree)?;
                Ok(vec![ratio(begun, spans)])
            }
        })
    };
    heat.add(Side::Ours, ENTRIES[1], forked(crew().map(PoolBuilder::forks)));
    heat.add(Side::Ours, ENTRIES[2], forked(crew().map(PoolBuilder::stealing)));
    heat.notes
        .push(format!("{WORKERS} workers; tasks sleep 0 to 4 ms, those of trees 0.2 to 1.8 ms"));
    Ok(heat)
}

/// Returns the elapsed time divided by the bound of a greedy schedule. The unit is seconds, like
/// that of all samples here.
fn ratio(begun: Instant, (work, span): Span) -> f64 {
    let took = begun.elapsed().as_nanos() as f64;
    let (work, span) = (work as f64, span as f64);
    took / ((work - span) / WORKERS as f64 + span)
}
