//! The targets, and the distance from them.

use super::{Of, cold, data, span, tasks, trips};
use crate::race::{Results, Target, ratio};

/// The least factor by which a farm must be faster: than an executor task by task, and than a pool
/// in equal chunks.
const EXECUTOR: f64 = 10.0;
const POOL: f64 = 4.0;

/// The greatest makespan, divided by the bound of a greedy schedule.
const SPAN: f64 = 1.1;

/// Returns all targets; `hop` is the time of a hop of a cache line.
pub(super) fn all(results: &Results<Of>, hop: Option<f64>) -> Vec<Target> {
    let of = |group, way: &str| results.median(&Of { group }, way);
    let best = |group, ways: &[&str]| results.best(&Of { group }, ways);
    let mut targets = Vec::new();
    for (way, ms) in
        [(cold::COMMAND, 1.5), (cold::HOLDING, 1.5), (cold::SMALL, 1.5), (cold::STATIC, 0.3)]
    {
        targets.push(Target::at_most(format!("{way}, ms"), of("cold", way).map(|ns| ns / 1e6), ms));
    }
    let grown = ratio(of("cold", cold::HOLDING), of("cold", cold::COMMAND));
    targets.push(Target::at_most("the same, holding / not", grown, 1.1));
    for (other, what) in [(cold::FORK, "Process, fork"), (cold::PAPER, "published farm")] {
        let times = ratio(of("cold", other), of("cold", cold::COMMAND));
        targets.push(Target::at_least(format!("cold: {what} / ours"), times, 1.0));
    }
    let rested = of("warm", tasks::RESTED);
    targets.push(Target::at_most("Pool::run, asleep, us", rested.map(|ns| ns / 1e3), 15.0));
    let apply = ratio(best("warm", &tasks::APPLY), rested);
    targets.push(Target::at_least("warm, asleep: best of Python / ours", apply, 1.0));
    let spun = ratio(of("trip", trips::SPUN), hop);
    targets.push(Target::at_most("trip, spinning, a processor each, / H", spun, 6.0));
    // "Anywhere" is where the system places the processes, which differs from hour to hour.
    for (at, ours, futex) in &trips::ASLEEP[..2] {
        let times = ratio(of("trip", ours), of("trip", futex));
        targets.push(Target::at_most(format!("trip, asleep / futex, {at}"), times, 1.2));
    }
    for (other, what) in [(trips::PIPE, "Pipe"), (trips::PAPER, "published farm, yielding")] {
        let times = ratio(of("trip", other), of("trip", trips::USUAL));
        targets.push(Target::at_least(format!("trip: {what} / ours, default policy"), times, 1.0));
    }
    for (way, ns) in [(data::NUMBERS, 1.0), (data::SMALL, 10.0), (data::RANDOM, 20.0)] {
        for metric in data::METRICS {
            let way = format!("{way}: {metric}");
            targets.push(Target::at_most(format!("{way}, ns"), of("integers", &way), ns));
        }
    }
    for (pickle, ours) in data::PICKLE {
        let both = data::METRICS.map(|metric| of("integers", &format!("{ours}: {metric}")));
        let both = both[0].zip(both[1]).map(|(written, read)| written + read);
        let times = ratio(of("integers", pickle), both);
        targets.push(Target::at_least(format!("{ours}: pickle / ours"), times, 1.0));
    }
    for (ours, pipe) in data::TRANSFERS {
        let times = ratio(of("integers", pipe), of("integers", ours));
        targets.push(Target::at_least(format!("{ours}: Pipe / ours"), times, 1.0));
    }
    let speed = ratio(of("bytes", data::MEMCPY), of("bytes", data::SENT));
    targets.push(Target::at_least("64 MiB, looked at: speed / memcpy", speed, 0.8));
    let tasks_of = |way: &str| of("tasks", way);
    let executor = ratio(tasks_of(tasks::EXECUTOR), tasks_of(tasks::ONE_BY_ONE));
    targets.push(Target::at_least("tasks one by one: executor.map / ours", executor, EXECUTOR));
    let pool = ratio(best("tasks", &tasks::POOL), tasks_of(tasks::ONE_BY_ONE));
    targets.push(Target::at_least("tasks one by one: Pool.map or imap / ours", pool, POOL));
    let usual = ratio(best("tasks", &tasks::POOL_CHUNKS), tasks_of(tasks::USUAL));
    targets.push(Target::at_least("tasks, by default: Pool.map or imap / ours", usual, 1.0));
    let chunks = ratio(best("tasks", &tasks::POOL_CHUNKS), tasks_of(tasks::CHUNKS));
    targets.push(Target::at_least(
        "tasks in batches of 1250: Pool.map or imap / ours",
        chunks,
        POOL,
    ));
    for way in span::ENTRIES {
        let times = of("span", way).map(|times| times / 1e9);
        targets.push(Target::at_most(format!("{way}, by greedy bound"), times, SPAN));
    }
    targets.into_iter().flatten().collect()
}
