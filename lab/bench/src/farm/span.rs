//! How long tasks take in all, beside what a greedy schedule takes at most.
//!
//! Tasks sleep, so that there may be more workers than processors; how long each has really slept
//! it measures itself. With the sum of these times T1, and the longest chain of tasks that wait for
//! one another T∞, a greedy schedule of P workers takes at most (T1 - T∞) / P + T∞ (Brent, "The
//! parallel evaluation of general arithmetic expressions", JACM 21, 1974). So what is more is ours.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use syncline_farm::{Pool, PoolBuilder, Task, pool::Forks};

use super::worker::{Role, program};
use super::{Heat, Kit};
use crate::error::Result;
use crate::race::Side;

/// Workers of each pool.
const WORKERS: usize = 8;
/// Nodes of a tree.
const NODES: usize = 10_000;
/// Tasks that wait for no other.
const TASKS: u64 = 1000;

/// The names of ours.
pub(super) const ENTRIES: [&str; 3] = [
    "1000 tasks, the largest first",
    "10 000 forked tasks, by the manager",
    "10 000 forked tasks, stolen",
];

/// A task, and what it forks.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Tree {
    micros: u64,
    children: Vec<Tree>,
}

/// Nanoseconds of work, and of the longest chain.
pub(super) type Span = (u64, u64);

/// What a worker does with one.
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

/// A number that looks random.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *state >> 33
}

/// A tree in which every node is the child of any that was there before.
fn tree() -> Tree {
    let mut state = 0x5EED;
    let parents: Vec<usize> = (1..NODES).map(|node| random(&mut state) as usize % node).collect();
    let mut trees: Vec<Tree> = (0..NODES)
        .map(|_| Tree { micros: 200 + random(&mut state) % 1600, children: Vec::new() })
        .collect();
    // From the last: a task that has children has them all by then.
    for (at, &parent) in parents.iter().enumerate().rev() {
        let child = trees.pop().unwrap_or_default();
        debug_assert_eq!(trees.len(), at + 1);
        trees[parent].children.push(child);
    }
    trees.pop().unwrap_or_default()
}

/// Makespans, by what a greedy schedule takes.
pub(super) fn heat(_kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("span", ("of the greedy bound", 1e9));
    let crew =
        || -> Result<PoolBuilder> { Ok(PoolBuilder::new(WORKERS).program(program(Role::Rest)?)) };
    let start = |crew: PoolBuilder| -> Result<Pool<Tree, Span>> {
        let mut pool = crew.start()?;
        // All are there, and know their ways.
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

/// The time since then by what a greedy schedule takes at most, in seconds, as everything here is.
fn ratio(begun: Instant, (work, span): Span) -> f64 {
    let took = begun.elapsed().as_nanos() as f64;
    let (work, span) = (work as f64, span as f64);
    took / ((work - span) / WORKERS as f64 + span)
}
