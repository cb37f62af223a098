//! The tasks of pools: one that is awaited, and many small ones.

use std::thread::sleep;
use std::time::Duration;

use syncline_farm::{Pool, PoolBuilder};

use super::rivals;
use super::worker::{Role, program, timed};
use super::{Heat, Kit};
use crate::error::Result;
use crate::race::Samples;
use crate::race::Side;

/// The number of workers of each pool.
const WORKERS: usize = 2;
/// The number of tasks in a sample of many.
pub(super) const MANY: usize = 10_000;
/// The number of samples of a fast entry in a round.
const TIMES: usize = 5;
/// The chunk size that Pool.map chooses for `MANY` tasks: a quarter of a worker's share.
pub(super) const CHUNK: usize = MANY / (4 * WORKERS);
/// The number of awaited tasks in a round.
const FEW: usize = 20;
/// Long enough for all workers to fall asleep.
const REST: Duration = Duration::from_millis(2);

/// The names of our entries.
pub(super) const RESTED: &str = "Pool::run, asleep";
pub(super) const HOT: &str = "Pool::run, hot";
pub(super) const ONE_BY_ONE: &str = "Pool::map, batches of 1";
pub(super) const USUAL: &str = "Pool::map, batches by time";
pub(super) const CHUNKS: &str = "Pool::map, batches of 1250";
/// The entries that they are compared with.
const FUTEX: &str = "futex, to another process and back, asleep";
pub(super) const EXECUTOR: &str = "executor.map, chunks of 1";
pub(super) const POOL: [&str; 2] =
    ["Python Pool.map, chunks of 1", "Python Pool.imap, chunks of 1"];
pub(super) const POOL_CHUNKS: [&str; 2] =
    ["Python Pool.map, chunks of 1250 (default)", "Python Pool.imap, chunks of 1250"];
pub(super) const APPLY: [&str; 2] = ["Python Pool.apply, asleep", "executor.submit, asleep"];

/// Makes the heat of one task.
pub(super) fn warm(kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("warm", ("us", 1e3));
    let one = |rest: Duration, count: usize| {
        let mut pool = pool(None)?;
        Ok(move || {
            let mut once = || {
                sleep(rest);
                timed(|| right(&pool.run(41)?, &42))
            };
            (0..count).map(|_| once()).collect()
        })
    };
    heat.add(Side::Ours, RESTED, one(REST, FEW));
    heat.add(Side::Ours, HOT, one(Duration::ZERO, 10 * FEW));
    let futex = rivals::futex(None).map(|mut trip| {
        move || {
            let mut once = || {
                sleep(REST);
                trip(1)
            };
            (0..FEW).map(|_| once()).collect()
        }
    });
    heat.add(Side::Baseline, FUTEX, futex);
    let python = rivals::python(kit.folder, 0);
    let lines = [
        (APPLY[0], format!("rested pool {FEW}")),
        ("Python Pool.apply, hot", format!("warm pool {}", 10 * FEW)),
        (APPLY[1], format!("rested executor {FEW}")),
        ("executor.submit, hot", format!("warm executor {}", 10 * FEW)),
    ];
    for (way, line) in lines {
        heat.ask(&python, way, &line, 1);
    }
    heat.notes.push(format!("{WORKERS} workers; asleep: after {REST:?} without a task"));
    Ok(heat)
}

/// Makes the heat of many tasks.
pub(super) fn many(kit: &Kit<'_>) -> Result<Heat> {
    let mut heat = Heat::new("tasks", ("us per task", 1e3));
    let all = |batch| {
        let mut pool = pool(batch)?;
        Ok(move || {
            let mut once = || {
                let mut sum = 0;
                for done in pool.map(0..MANY as u64) {
                    sum += done.result?;
                }
                right(&sum, &((MANY * (MANY + 1) / 2) as u64))
            };
            let one = || Ok(timed(&mut once)? / MANY as f64);
            std::iter::repeat_with(one).take(TIMES).collect()
        })
    };
    heat.add(Side::Ours, ONE_BY_ONE, all(Some(1)));
    heat.add(Side::Ours, USUAL, all(None));
    heat.add(Side::Ours, CHUNKS, all(Some(CHUNK)));
    let python = rivals::python(kit.folder, 0);
    let lines = [
        (POOL[0], "pool", 1, 1),
        (POOL[1], "imap", 1, 1),
        (POOL_CHUNKS[0], "pool", CHUNK, TIMES),
        (POOL_CHUNKS[1], "imap", CHUNK, TIMES),
        (EXECUTOR, "executor", 1, 1),
        ("executor.map, chunks of 1250", "executor", CHUNK, TIMES),
    ];
    for (way, kind, chunk, times) in lines {
        let line = format!("map {kind} {MANY} {chunk} {WORKERS} {times}");
        heat.ask(&python, way, &line, MANY);
    }
    heat.notes.push(format!("{MANY} tasks x -> x + 1, {WORKERS} workers"));
    Ok(heat)
}

/// Starts a pool of ours, and waits until its workers run.
fn pool(batch: Option<usize>) -> Result<Pool<u64, u64>> {
    let crew = PoolBuilder::new(WORKERS).program(program(Role::Serve)?);
    let crew = batch.into_iter().fold(crew, PoolBuilder::batch);
    let mut pool = crew.start()?;
    let first: Samples = pool.map(0..100_u64).map(|_| 0.0).collect();
    right(&first.len(), &100)?;
    // The workers need this time to fall asleep.
    sleep(REST);
    Ok(pool)
}

fn right<T: PartialEq + std::fmt::Debug>(is: &T, expected: &T) -> Result<()> {
    if is == expected { Ok(()) } else { Err(format!("{is:?} where {expected:?} is right").into()) }
}
