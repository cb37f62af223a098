//! A session of pools: rank 0 submits tasks, all other members work.
//!
//! # Tasks
//! One task per round, of all sizes, some with priority, some expensive. Each must end once, with
//! the result that the manager computes as well.
//!
//! # Forks
//! Trees whose nodes are tasks, of random shapes. The result of each must be that of the plain
//! recursion.

use syncline_fabric::Member;
use syncline_farm::{FarmError, PoolBuilder, Task, pool::Forks};

use super::scene::hash;
use super::{Suite, finding};

/// Verifies one kind of pool.
type Part = fn(&mut Member, &Suite) -> Result<(), String>;

/// All kinds of pools.
pub(super) const PARTS: [(&str, Part); 2] = [("tasks", tasks), ("forks", forks)];

/// The maximum number of values in a result, which few results have.
const LONG: u64 = 20_000;
/// The number of rounds per tree.
const TREE: u64 = 20;
/// The maximum number of children of a node, and the number of levels of a tree.
const CHILDREN: u64 = 4;
const LEVELS: u32 = 5;

pub(super) fn session(me: &mut Member, suite: &Suite) -> Result<(), String> {
    // A team of one member has no worker.
    if me.size() == 1 {
        return Ok(());
    }
    PARTS.iter().filter(|(name, _)| suite.includes(name)).try_for_each(|(_, part)| part(me, suite))
}

/// Returns the result of a task.
fn numbers(seed: u64) -> Vec<u64> {
    let random = hash(seed, 1);
    let len = if random.is_multiple_of(64) { LONG } else { random % 64 };
    (0..len).map(|n| hash(seed, n)).collect()
}

fn tasks(me: &mut Member, suite: &Suite) -> Result<(), String> {
    let rounds = suite.rounds;
    let done = PoolBuilder::new(1).on(
        me,
        |seed: u64, _| numbers(seed),
        |pool| {
            let task = |seed| {
                let random = hash(seed, 2);
                let task = Task::new(seed).priority((random % 3) as i32 - 1);
                if random.is_multiple_of(5) { task.cost((random % 100) as f64) } else { task }
            };
            let mut ended = vec![false; rounds as usize];
            for outcome in pool.map((0..rounds).map(task)) {
                let seed = outcome.id.number();
                if std::mem::replace(&mut ended[seed as usize], true) {
                    return Err((seed, "the task has ended twice".to_owned()));
                }
                match outcome.result {
                    Ok(result) if result == numbers(seed) => (),
                    Ok(_) => return Err((seed, "the result is wrong".to_owned())),
                    Err(error) => return Err((seed, error.to_string())),
                }
            }
            match ended.iter().position(|ended| !ended) {
                Some(seed) => Err((seed as u64, "the task has not ended".to_owned())),
                None => Ok(()),
            }
        },
    );
    judge(me, "tasks", done)
}

/// Returns the sum of a node and the trees below it, whose sums `below` returns.
fn node<E>(
    seed: u64,
    levels: u32,
    mut below: impl FnMut(u64, u32) -> Result<u64, E>,
) -> Result<u64, E> {
    let children = if levels == 0 { 0 } else { hash(seed, 3) % (CHILDREN + 1) };
    (0..children).try_fold(seed, |sum, child| {
        Ok(sum.wrapping_mul(31).wrapping_add(below(hash(seed, 4 + child), levels - 1)?))
    })
}

fn recursion(seed: u64, levels: u32) -> u64 {
    node(seed, levels, |seed, levels| Ok::<_, ()>(recursion(seed, levels))).unwrap_or(0)
}

/// Computes the same sum by tasks; all children are forked first.
fn forked(
    seed: u64,
    levels: u32,
    forks: &mut Forks<'_, (u64, u32), Result<u64, String>>,
) -> Result<u64, String> {
    let mut children = Vec::new();
    let none: Result<u64, ()> = node(seed, levels, |seed, levels| {
        children.push(forks.fork((seed, levels)));
        Ok(0)
    });
    debug_assert!(none.is_ok());
    let mut children = children.into_iter();
    node(seed, levels, |_, _| match children.next().map(|child| forks.join(child)) {
        Some(joined) => joined.map_err(|error| error.to_string())?,
        None => Err("a child that was not forked".to_owned()),
    })
}

fn forks(me: &mut Member, suite: &Suite) -> Result<(), String> {
    let trees = suite.rounds.div_ceil(TREE);
    let done = PoolBuilder::new(1).forks().on(
        me,
        |(seed, levels): (u64, u32), forks| forked(seed, levels, forks),
        |pool| {
            for outcome in pool.map((0..trees).map(|seed| (seed, LEVELS))) {
                let seed = outcome.id.number();
                match outcome.result {
                    Ok(Ok(sum)) if sum == recursion(seed, LEVELS) => (),
                    Ok(Ok(_)) => {
                        return Err((
                            seed,
                            "the sum differs from that of the recursion".to_owned(),
                        ));
                    }
                    Ok(Err(error)) => return Err((seed, error)),
                    Err(error) => return Err((seed, error.to_string())),
                }
            }
            Ok(())
        },
    );
    judge(me, "forks", done)
}

/// The finding of the manager: the task, and its fault.
type Found = Result<(), (u64, String)>;

fn judge(me: &Member, part: &str, done: Result<Option<Found>, FarmError>) -> Result<(), String> {
    match done {
        Ok(None | Some(Ok(()))) => Ok(()),
        Ok(Some(Err((round, what)))) => Err(finding(me, part, round, format_args!("{what}"))),
        Err(error) => Err(finding(me, part, 0, format_args!("{error}"))),
    }
}
