//! The compiled form of an overlay: for each task, the number of rounds that it waits for at each
//! other task.
//!
//! # Why counters suffice
//! An iterative task has exactly one request queued or granted at each of its locations (R2, R3).
//! So the queue of a location rotates: behind each request come the requests of the other tasks,
//! once each, and then the next request of the same task. Whether a request is granted therefore
//! depends on numbers of rounds only:
//!
//! > A task may begin its round r when every task that conflicts with it has released r rounds, and
//! > one more if that task stands before it in the first queue.
//!
//! ```text
//! queue of x, front first        a writes   b, c read   d writes   (a again)
//!
//! b may begin round r            when a has released r + 1 rounds and d has released r
//! d may begin round r            when b and c have released r + 1
//! a may begin round r            when d has released r
//! ```
//!
//! Only neighbours in the cyclic order are listed: if d has released r rounds, then b and c have
//! released r too, since d began behind them. So the lists of all tasks together are as long as the
//! queues, even where many tasks write. The price: where the turn of one task [is relayed
//! by](Program::relays) another, the second cannot simply leave. Its followers wait for it until
//! its worker finds nothing else to run at home; then the program is compiled again without it and
//! all other tasks that have left.
//!
//! # When it applies
//! It applies when every task makes the same requests in every round, as the tasks of an
//! [`Overlay`](crate::Overlay) do, and no handle has a request. While a handle has a request at one
//! of the locations, the run goes over the queues (see `engine`).
//!
//! # Costs
//! Compilation takes time linear in the requests, apart from sorting.
//!
//! # Source
//! Counters for ordered locks are a construction of this project. That a rotation of tokens needs
//! no queue is the idea of scheduling by edge reversal (Barbosa and Gafni, TOPLAS 1989). Tested
//! against the queues on random overlays (`tests/overlay/compiled.rs`).

pub(crate) mod claimed;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod partitioned;

use crate::plan::Queues;
use crate::raw::AccessMode;

/// A dependency of a task on the rounds of another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wait {
    pub(crate) task: u32,
    /// The lag in half rounds, the unit of the task states: 2 if the other task stands before, 0 if
    /// behind. Less than that between hosts, whose copies of data let a writer go ahead.
    pub(crate) lag: i32,
}

/// The compiled form of an overlay.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The tasks that have not left, by level: each behind all tasks that it waits for in the first
    /// round.
    pub(crate) order: Box<[u32]>,
    /// The level of each task: the length of the longest chain of first requests before it.
    pub(crate) level: Box<[u32]>,
    waits: Lists<Wait>,
    followers: Lists<u32>,
    /// Whether a turn is relayed: a task waits for another only by way of a third one, although it
    /// conflicts with both.
    pub(crate) relays: bool,
}

/// One list per task, stored consecutively in one array.
#[derive(Clone, Debug)]
struct Lists<T> {
    first: Box<[u32]>,
    all: Box<[T]>,
}

impl<T: Copy + Ord> Lists<T> {
    fn new(mut pairs: Vec<(u32, T)>, tasks: usize) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut first = vec![0; tasks + 1];
        for &(t, _) in &pairs {
            first[t as usize + 1] += 1;
        }
        for t in 0..tasks {
            first[t + 1] += first[t];
        }
        Lists { first: first.into(), all: pairs.into_iter().map(|p| p.1).collect() }
    }

    #[inline]
    fn of(&self, task: u32) -> &[T] {
        &self.all[self.first[task as usize] as usize..self.first[task as usize + 1] as usize]
    }
}

impl Program {
    /// Compiles first requests that cannot deadlock, without the tasks for which `stays` is false.
    pub(crate) fn new(queues: &Queues, tasks: usize, stays: impl Fn(u32) -> bool) -> Self {
        let (order, level) = order(queues, tasks);
        let mut rank = vec![0_u32; tasks];
        order.iter().zip(0..).for_each(|(&t, r)| rank[t as usize] = r);
        let mut waits = Vec::new();
        let mut relays = false;
        for queue in queues {
            let queue: Vec<(u32, AccessMode)> =
                queue.iter().copied().filter(|q| stays(q.0)).collect();
            let groups = circle(&queue);
            relays |= groups.len() > 2;
            for (i, group) in groups.iter().enumerate().filter(|_| groups.len() > 1) {
                let ahead = &groups[(i + groups.len() - 1) % groups.len()];
                for &t in group {
                    let wait = |&u: &u32| {
                        (
                            t,
                            Wait {
                                task: u,
                                lag: if rank[u as usize] < rank[t as usize] { 2 } else { 0 },
                            },
                        )
                    };
                    waits.extend(ahead.iter().map(wait));
                }
            }
        }
        let order = order.into_iter().filter(|&t| stays(t)).collect();
        Program { relays, ..Program::of_waits(order, level.into(), waits) }
    }

    /// Creates a program of these tasks, in which no turn is relayed, from pairs of a task and a
    /// wait.
    pub(crate) fn of_waits(order: Box<[u32]>, level: Box<[u32]>, waits: Vec<(u32, Wait)>) -> Self {
        let tasks = level.len();
        let followers = Lists::new(waits.iter().map(|&(t, wait)| (wait.task, t)).collect(), tasks);
        Program { order, level, waits: Lists::new(waits, tasks), followers, relays: false }
    }

    /// Returns the rounds of other tasks that a task waits for.
    #[inline]
    pub(crate) fn waits(&self, task: u32) -> &[Wait] {
        self.waits.of(task)
    }

    /// Returns the tasks that wait for a task.
    #[inline]
    pub(crate) fn followers(&self, task: u32) -> &[u32] {
        self.followers.of(task)
    }
}

/// Returns the groups of a rotating queue: single writers, and adjacent readers. Readers at the end
/// of the queue form one group with those at the front.
pub(crate) fn circle(queue: &[(u32, AccessMode)]) -> Vec<Vec<u32>> {
    let reads = |q: &(u32, AccessMode)| q.1 == AccessMode::Inclusive;
    let chunks = queue.chunk_by(|a, b| reads(a) && reads(b));
    let mut groups: Vec<Vec<u32>> = chunks.map(|g| g.iter().map(|q| q.0).collect()).collect();
    if groups.len() > 1
        && queue.first().is_some_and(reads)
        && queue.last().is_some_and(reads)
        && let Some(last) = groups.pop()
    {
        groups[0].extend(last);
    }
    groups
}

/// Sorts the tasks by level and then by number: the order of the wave, in which each task comes
/// behind all tasks that it waits for. The level is the length of the longest chain of first
/// requests before the task. Returns the order, and the level of each task.
pub(crate) fn order(queues: &Queues, tasks: usize) -> (Vec<u32>, Vec<u32>) {
    let mut edges = Vec::new();
    for queue in queues {
        let mut ahead: &[(u32, AccessMode)] = &[];
        for group in
            queue.chunk_by(|a, b| a.1 == AccessMode::Inclusive && b.1 == AccessMode::Inclusive)
        {
            edges.extend(group.iter().flat_map(|g| ahead.iter().map(|a| (a.0, g.0))));
            ahead = group;
        }
    }
    let behind = Lists::new(edges, tasks);
    let mut missing = vec![0_u32; tasks];
    behind.all.iter().for_each(|&t| missing[t as usize] += 1);
    let mut level: Vec<u32> = (0..tasks as u32).filter(|&t| missing[t as usize] == 0).collect();
    let mut order = Vec::with_capacity(tasks);
    let mut levels = vec![0; tasks];
    for depth in 0.. {
        if level.is_empty() {
            break;
        }
        level.sort_unstable();
        level.iter().for_each(|&t| levels[t as usize] = depth);
        let mut next = Vec::new();
        for &t in &level {
            for &u in behind.of(t) {
                missing[u as usize] -= 1;
                if missing[u as usize] == 0 {
                    next.push(u);
                }
            }
        }
        order.append(&mut level);
        level = next;
    }
    debug_assert_eq!(order.len(), tasks, "the first requests cannot deadlock");
    (order, levels)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use syncline_testkit::{Random, cases, seed};

    const X: AccessMode = AccessMode::Exclusive;
    const I: AccessMode = AccessMode::Inclusive;

    fn wait(task: u32, lag: i32) -> Wait {
        Wait { task, lag }
    }

    #[test]
    fn the_example_above() {
        let program = Program::new(&vec![vec![(0, X), (1, I), (2, I), (3, X)]], 4, |_| true);
        assert_eq!(program.waits(1), [wait(0, 2)]);
        assert_eq!(program.waits(3), [wait(1, 2), wait(2, 2)]);
        assert_eq!(program.waits(0), [wait(3, 0)]);
        assert_eq!(program.followers(0), [1, 2]);
        assert!(program.relays, "the releases of d reach b by way of a");
        assert_eq!(*program.order, [0, 1, 2, 3]);
    }

    #[test]
    fn readers_at_both_ends_are_side_by_side() {
        let program = Program::new(&vec![vec![(0, I), (1, X), (2, I)]], 3, |_| true);
        assert_eq!(program.waits(0), [wait(1, 0)]);
        assert_eq!(program.waits(2), [wait(1, 2)]);
        assert_eq!(program.waits(1), [wait(0, 2), wait(2, 0)]);
        assert!(!program.relays);
        assert!(Program::new(&vec![vec![(0, I), (1, I)]], 2, |_| true).waits(0).is_empty());
    }

    #[test]
    fn the_order_is_that_of_the_wave() {
        // Three tasks in a row, declared from the far end, and a task without requests.
        let queues = vec![vec![(2, X), (1, X)], vec![(1, X), (0, X)]];
        assert_eq!(*Program::new(&queues, 4, |_| true).order, [2, 3, 1, 0]);
        let without = Program::new(&queues, 4, |t| t != 1);
        assert!((0..4).all(|t| without.waits(t).is_empty()));
        assert_eq!(*without.order, [2, 3, 0], "no task waits for one that has left");
    }

    /// Returns whether a task is granted all its requests in these queues.
    fn granted(queues: &[VecDeque<(u32, AccessMode)>], task: u32) -> bool {
        queues.iter().all(|queue| {
            let Some(place) = queue.iter().position(|q| q.0 == task) else { return true };
            place == 0 || queue.iter().take(place + 1).all(|q| q.1 == I)
        })
    }

    /// On random overlays, after each step of a random run, the program admits exactly the tasks
    /// that the queues grant. Tasks leave at random. Where turns are relayed, the program is
    /// compiled again some steps later, and until then admits a subset of the granted tasks.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of programs; the code is safe and in one thread")]
    fn a_program_lets_run_whom_the_queues_grant() {
        let (mut states, mut left, mut remade) = (0_u64, 0, 0_u64);
        let (first, runs) = (seed(0), u64::from(cases(3000)));
        for seed in first..first + runs {
            let mut random = Random::new(seed);
            let (tasks, locations) = (1 + random.below(8), 1 + random.below(5));
            let mut start: Queues = vec![Vec::new(); locations];
            for t in 0..tasks as u32 {
                for queue in &mut start {
                    match random.below(10) {
                        0..4 => queue.push((t, X)),
                        4..8 => queue.push((t, I)),
                        _ => {}
                    }
                }
            }
            let mut program = Program::new(&start, tasks, |_| true);
            let mut queues: Vec<VecDeque<(u32, AccessMode)>> =
                start.iter().map(|q| q.iter().copied().collect()).collect();
            let mut rounds = vec![0_u64; tasks];
            let mut gone = vec![false; tasks];
            let mut infinite = vec![false; tasks];
            let mut late = false;
            for _ in 0..60 {
                if late && random.below(3) == 0 {
                    program = Program::new(&start, tasks, |t| !gone[t as usize]);
                    (late, remade) = (false, remade + 1);
                }
                let may_run = |t: u32| {
                    let need = 2 * rounds[t as usize];
                    program.waits(t).iter().all(|w| {
                        infinite[w.task as usize]
                            || 2 * rounds[w.task as usize]
                                >= need.saturating_add_signed(w.lag.into())
                    })
                };
                let all = (0..tasks as u32).filter(|&t| !gone[t as usize]);
                let ready: Vec<u32> = all.clone().filter(|&t| may_run(t)).collect();
                let granted: Vec<u32> = all.filter(|&t| granted(&queues, t)).collect();
                assert!(ready.iter().all(|t| granted.contains(t)), "seed {seed}");
                assert!(late || ready == granted, "seed {seed}");
                states += 1;
                if ready.is_empty() && late {
                    continue;
                }
                if ready.is_empty() {
                    assert!(gone.iter().all(|&g| g), "seed {seed}: it stops");
                    break;
                }
                let t = ready[random.below(ready.len())];
                let leaves = random.below(40) == 0;
                for queue in &mut queues {
                    if let Some(place) = queue.iter().position(|q| q.0 == t) {
                        let request = queue.remove(place).unwrap();
                        if !leaves {
                            queue.push_back(request);
                        }
                    }
                }
                rounds[t as usize] += 1;
                if leaves {
                    gone[t as usize] = true;
                    left += 1;
                    if program.relays {
                        late = true;
                    } else {
                        infinite[t as usize] = true;
                    }
                }
            }
        }
        println!("{states} states, {left} tasks left, {remade} programs compiled again");
        assert!(states > 33 * runs && 6 * remade > runs, "no fair sample");
    }
}
