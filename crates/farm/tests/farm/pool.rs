//! Pools: every task ends once, with its result or its error, even if workers fail.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use syncline_farm::pool::PUBLISHED;
use syncline_farm::{
    FarmError, Pool, PoolBuilder, Program, Task, TaskError,
    pool::{Forks, Outcome, serve_forks},
    serve,
};
use syncline_testkit::property;

use crate::lucky::Lucky;
use crate::{late, program_of};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Work {
    Square(u64),
    Grow(usize),
    Panic(String),
    Exit(i32),
    Kill,
    Hang,
    /// Runs until a file of that name exists.
    Until(PathBuf),
    /// Makes the first file, and runs until the second one exists.
    Meet(PathBuf, PathBuf),
    /// Returns its start and end on the clock that all processes share.
    When(u64),
    Pid,
}

fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn do_it(work: Work) -> Vec<u64> {
    match work {
        Work::Square(n) => vec![n * n],
        Work::Grow(len) => (0..len as u64).collect(),
        Work::Panic(message) => panic!("{message}"),
        Work::Exit(code) => std::process::exit(code),
        Work::Kill => {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
            unreachable!()
        }
        Work::Hang => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        Work::Meet(here, there) => {
            std::fs::write(here, "").unwrap();
            do_it(Work::Until(there))
        }
        Work::Until(file) => {
            while !file.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            vec![1]
        }
        Work::When(micros) => {
            let begun = now();
            std::thread::sleep(Duration::from_micros(micros));
            vec![begun, now()]
        }
        Work::Pid => vec![std::process::id().into()],
    }
}

/// Not a test: a worker of a pool.
#[test]
fn works() {
    serve(do_it).unwrap();
}

/// Not a test: a worker whose tasks fork others.
#[test]
fn forks() {
    serve_forks(|tree: Tree, forks| {
        forks.publish([tree.number; PUBLISHED]);
        tree.sum(forks)
    })
    .unwrap();
}

/// Not a test: a worker whose tasks could fork others.
#[test]
fn works_and_steals() {
    serve_forks(|work, _: &mut Forks<'_, Work, Vec<u64>>| do_it(work)).unwrap();
}

fn builder(workers: usize) -> PoolBuilder {
    PoolBuilder::new(workers).program(program_of("pool::works"))
}

fn all(
    pool: &mut Pool<Work, Vec<u64>>,
    work: Vec<Work>,
) -> HashMap<u64, Result<Vec<u64>, TaskError>> {
    let mut ended = HashMap::new();
    for Outcome { id, result } in pool.map(work) {
        assert!(ended.insert(id.number(), result).is_none(), "a task has ended twice");
    }
    ended
}

#[test]
fn every_task_has_its_result() {
    for builder in [builder(2), builder(3).batch(7), builder(1).batch(1), builder(4).cold()] {
        let count = if format!("{builder:?}").contains("Cold") { 30 } else { 5000 };
        let mut pool = builder.start().unwrap();
        let ended = all(&mut pool, (0..count).map(Work::Square).collect());
        assert_eq!(ended.len() as u64, count);
        assert!(ended.iter().all(|(&n, result)| result == &Ok(vec![n * n])));
        let progress = pool.progress();
        assert_eq!((progress.submitted, progress.ended, progress.failed), (count, count, 0));
        assert!(pool.next().is_none());
        pool.finish();
    }
}

#[test]
fn a_deadline_ends_a_wait_for_results_and_not_the_tasks() {
    let mut pool = builder(1).start::<Work, Vec<u64>>().unwrap();
    assert_eq!(pool.next_deadline(None).unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    pool.submit(Work::Until(end.clone()));
    let soon = Some(Instant::now() + Duration::from_millis(10));
    assert!(matches!(pool.next_deadline(soon), Err(FarmError::TimedOut { .. })));
    std::fs::write(end, "").unwrap();
    let outcome = pool.next_deadline(late()).unwrap().unwrap();
    assert_eq!((outcome.id.number(), outcome.result), (0, Ok(vec![1])));
    assert_eq!(pool.next_deadline(soon).unwrap(), None);
}

#[test]
fn large_results_come_whole() {
    let mut pool = builder(2).memory(64 << 20).start().unwrap();
    let ended = all(&mut pool, (0..20).map(|n| Work::Grow(n * 20_000)).collect());
    for (n, result) in ended {
        assert_eq!(result.unwrap(), (0..n * 20_000).collect::<Vec<_>>());
    }
    // Most of the 10 000 000 numbers take at least three bytes: they do not fit, which is the error
    // of the task.
    let mut pool = builder(2).memory(8 << 20).start().unwrap();
    let ended = all(&mut pool, vec![Work::Square(3), Work::Grow(10_000_000), Work::Square(4)]);
    assert_eq!((ended[&0].clone(), ended[&2].clone()), (Ok(vec![9]), Ok(vec![16])));
    let error = ended[&1].clone().unwrap_err().to_string();
    assert!(error.starts_with("it cannot be sent: its result: no "), "{error}");
}

/// Results that fill the memory wait for room, but not indefinitely: the manager makes room as it
/// takes the results.
#[test]
fn results_wait_for_room() {
    for builder in [builder(3).batch(1), builder(3).cold()] {
        let mut pool = builder.memory(16 << 20).start().unwrap();
        let ended = all(&mut pool, (0..12).map(|n| Work::Grow(400_000 + n)).collect());
        assert!(
            ended
                .iter()
                .all(|(&n, result)| result.as_ref().is_ok_and(|r| r.len() as u64 == 400_000 + n))
        );
    }
}

/// Returns the largest number of tasks that ran at the same time, given their start and end times.
fn most_at_once(times: &[(u64, u64)]) -> usize {
    let at = |time: u64| times.iter().filter(|&&(from, to)| from <= time && time < to).count();
    times.iter().map(|&(from, _)| at(from)).max().unwrap_or(0)
}

#[test]
fn no_more_are_at_work_than_the_crew_has() {
    for builder in [builder(3), builder(3).cold(), builder(3).batch(4)] {
        let mut pool = builder.start().unwrap();
        let ended = all(&mut pool, (0..60).map(|_| Work::When(500)).collect());
        let times: Vec<_> =
            ended.into_values().map(|times| times.unwrap()).map(|t| (t[0], t[1])).collect();
        assert!((1..=3).contains(&most_at_once(&times)), "{} at once", most_at_once(&times));
    }
}

/// Runs tasks of all kinds, with a time limit, and returns the last part of the result or error of
/// each.
fn ends_of_all_kinds(builder: PoolBuilder, timeout: Duration) -> Vec<String> {
    let mut pool = builder.timeout(timeout).start().unwrap();
    let work = vec![
        Work::Square(5),
        Work::Exit(0),
        Work::Square(6),
        Work::Panic("no such luck".to_owned()),
        Work::Exit(4),
        Work::Hang,
        Work::Square(7),
        Work::Kill,
        Work::Square(8),
    ];
    let count = work.len() as u64;
    let ended = all(&mut pool, work);
    let text = |result: &Result<Vec<u64>, TaskError>| match result {
        Ok(result) => format!("{result:?}"),
        // The error has the form "its worker, process 3, ...".
        Err(error) => error.to_string().rsplit(", ").next().unwrap().to_owned(),
    };
    let failed = format!("{} failed", pool.progress().failed);
    (0..count).map(|n| text(&ended[&n])).chain([failed]).collect()
}

#[test]
fn what_a_worker_does_is_its_tasks_error() {
    for builder in [builder(2), builder(2).cold(), builder(2).batch(5)] {
        // A machine that is too busy to finish any task in time is given more time.
        let seen = [1, 10, 120].map(Duration::from_secs).into_iter().find_map(|timeout| {
            let late = format!("it took longer than {timeout:?}");
            let expected = [
                "[25]",
                "exited with 0",
                "[36]",
                "it panicked: no such luck",
                "exited with 4",
                &late,
                "[49]",
                "was killed by signal 9",
                "[64]",
                "5 failed",
            ];
            let ends = ends_of_all_kinds(builder.clone(), timeout);
            println!("{timeout:?}: {ends:?}");
            (ends == expected).then_some(())
        });
        assert!(seen.is_some(), "{builder:?}: not what was expected, with any timeout");
    }
}

#[test]
fn what_has_failed_is_tried_again_as_often_as_was_said() {
    let mut pool = builder(2).retries(2).start().unwrap();
    let ended =
        all(&mut pool, vec![Work::Exit(1), Work::Square(2), Work::Panic("once".to_owned())]);
    assert!(ended[&0].clone().unwrap_err().to_string().ends_with("exited with 1 (3 tries)"));
    assert_eq!(ended[&2], Err(TaskError::Panicked { message: "once".to_owned() }));
    assert_eq!((pool.progress().retried, pool.progress().lost), (2, 3));
}

#[test]
fn a_program_that_is_no_worker_is_an_error_of_every_task() {
    for (program, why) in [
        (Program::new("/nowhere/to/be/found"), "cannot start /nowhere/to/be/found"),
        (
            Program::new("false"),
            "3 workers in a row ended before they had begun a task; the last exited with 1",
        ),
    ] {
        for builder in
            [builder(2).program(program.clone()), builder(2).program(program.clone()).cold()]
        {
            let mut pool = builder.start().unwrap();
            let ended = all(&mut pool, vec![Work::Pid, Work::Pid, Work::Pid]);
            assert_eq!(ended.len(), 3);
            assert!(
                ended.values().all(|r| r.clone().unwrap_err().to_string().contains(why)),
                "{ended:?}"
            );
        }
    }
}

#[test]
fn the_best_is_begun_first() {
    let mut pool = builder(1).batch(1).start::<Work, Vec<u64>>().unwrap();
    // The first task keeps the worker busy until all others are submitted.
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("all are there");
    let first = Task::new(Work::Until(there.clone())).priority(9);
    let costs = [1.0, 5.0, 3.0].map(|cost| Task::new(Work::Square(0)).cost(cost));
    let later = Task::new(Work::Square(0)).priority(-1).cost(99.0);
    let urgent = Task::new(Work::Square(0)).priority(1);
    for task in [first].into_iter().chain(costs).chain([later, urgent]) {
        pool.submit(task);
    }
    std::fs::write(there, "").unwrap();
    let order: Vec<u64> = std::iter::from_fn(|| pool.next()).map(|done| done.id.number()).collect();
    assert_eq!(order, [0, 5, 2, 3, 1, 4]);
}

#[test]
fn a_pool_is_used_again_and_again() {
    let mut pool = builder(2).start::<Work, Vec<u64>>().unwrap();
    let one = pool.run(Work::Pid).unwrap();
    let early = pool.submit(Work::Square(3));
    assert_eq!(pool.run(Work::Square(4)).unwrap(), [16]);
    assert_eq!(pool.next().unwrap(), Outcome { id: early, result: Ok(vec![9]) });
    assert!(pool.next().is_none());
    assert!(pool.pids().contains(&(one[0] as u32)));
    let watches: Vec<_> = pool
        .pids()
        .into_iter()
        .map(|pid| syncline_process::watch::ProcessWatch::new(pid).unwrap())
        .collect();
    pool.finish();
    assert!(watches.iter().all(|watch| watch.has_exited().unwrap()));
}

/// A tree whose nodes are tasks; its result is the sum of all its numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Tree {
    number: u64,
    children: Vec<Tree>,
}

impl Tree {
    fn sum(self, forks: &mut Forks<'_, Tree, u64>) -> u64 {
        if self.number == u64::MAX {
            // A node that forks its children and does not join them.
            for child in self.children.into_iter().filter(|child| child.number == u64::MAX) {
                let _ = forks.fork(child);
            }
            std::thread::sleep(Duration::from_micros(300));
            return u64::MAX;
        }
        let children: Vec<_> = self.children.into_iter().map(|child| forks.fork(child)).collect();
        // From the last child, which was forked last and has most likely not been stolen.
        children.into_iter().rev().fold(self.number, |sum, child| {
            sum.wrapping_mul(31).wrapping_add(forks.join(child).unwrap())
        })
    }

    fn sequential(&self) -> u64 {
        self.children
            .iter()
            .rev()
            .fold(self.number, |sum, child| sum.wrapping_mul(31).wrapping_add(child.sequential()))
    }

    fn nodes(&self) -> usize {
        1 + self.children.iter().map(Tree::nodes).sum::<usize>()
    }

    /// Builds a tree from numbers: each determines the parent of a node among the earlier ones.
    fn of(parents: &[usize]) -> Tree {
        let mut children = vec![Vec::new(); parents.len() + 1];
        for (at, &parent) in parents.iter().enumerate() {
            children[parent % (at + 1)].push(at + 1);
        }
        fn make(at: usize, children: &[Vec<usize>]) -> Tree {
            let number = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            Tree {
                number,
                children: children[at].iter().map(|&child| make(child, children)).collect(),
            }
        }
        make(0, &children)
    }
}

fn forking(workers: usize) -> PoolBuilder {
    PoolBuilder::new(workers).program(program_of("pool::forks")).forks()
}

/// Two trees of ten thousand nodes, one wide and one deep, run concurrently.
#[test]
fn large_trees_are_as_one_after_the_other() {
    let mut random = 0x5EED_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize
    };
    // With any earlier node as the parent, the tree is shallow and wide; with one of the last, it
    // is deep. (A tree that is nested too deeply cannot be decoded.)
    let wide: Vec<usize> = (0..9_999).map(|_| next()).collect();
    let deep: Vec<usize> = (0..9_999).map(|at: usize| at.saturating_sub(next() % 200)).collect();
    let trees = [wide, deep].map(|parents| Tree::of(&parents));
    for builder in [forking(2), forking(3).stealing()] {
        let mut pool = builder.start().unwrap();
        for outcome in pool.map(trees.clone()) {
            let tree = &trees[outcome.id.number() as usize];
            assert_eq!((tree.nodes(), outcome.result), (10_000, Ok(tree.sequential())));
        }
        assert_eq!(pool.progress().lost, 0);
    }
}

#[test]
fn a_worker_publishes_numbers() {
    for builder in [forking(1), forking(1).stealing()] {
        let mut pool = builder.start::<Tree, u64>().unwrap();
        assert!(pool.published().is_empty());
        for number in [7, 9] {
            assert_eq!(pool.run(Tree { number, children: Vec::new() }), Ok(number));
            assert_eq!(pool.published(), [[number; PUBLISHED]]);
        }
    }
}

#[test]
fn many_small_tasks_on_a_board() {
    let mut pool = forking(2).stealing().start::<Tree, u64>().unwrap();
    let leaf = |number| Tree { number, children: Vec::new() };
    let sum: u64 = pool.map((0..3000).map(leaf)).map(|done| done.result.unwrap()).sum();
    assert_eq!(sum, 2999 * 3000 / 2);
    pool.finish();
}

/// In a pool that does not fork, a worker runs the tasks that it forks by itself. A worker that
/// cannot fork exits with an error in a pool that steals.
#[test]
fn pools_and_workers_that_do_not_fit() {
    let tree = Tree::of(&(0..40).map(|n: usize| n / 2).collect::<Vec<_>>());
    for builder in [PoolBuilder::new(2), PoolBuilder::new(2).cold(), PoolBuilder::new(2).batch(3)] {
        let mut pool = builder.program(program_of("pool::forks")).start::<Tree, u64>().unwrap();
        for outcome in pool.map((0..20).map(|_| tree.clone())) {
            assert_eq!(outcome.result, Ok(tree.sequential()));
        }
    }
    let mut pool = builder(2).stealing().start().unwrap();
    let ended = all(&mut pool, vec![Work::Square(2), Work::Square(3)]);
    let why = "3 workers in a row ended before they had begun a task; the last exited with 3";
    assert!(ended.values().all(|r| r.clone().unwrap_err().to_string().contains(why)), "{ended:?}");
}

/// Not a test: a worker that takes itself for a manager.
#[test]
fn unaware() {
    if std::env::var_os("SYNCLINE_TEST_UNAWARE").is_some() {
        let error = syncline_farm::Farm::new().unwrap_err();
        assert!(error.to_string().starts_with("this process was started by a farm"), "{error}");
        std::process::exit(44);
    }
}

#[test]
fn a_worker_that_takes_no_part_founds_no_farm() {
    let program = program_of("pool::unaware").variable("SYNCLINE_TEST_UNAWARE", "1");
    let mut farm = syncline_farm::Farm::new().unwrap();
    let vpid = farm.spawn(&program).unwrap();
    assert_eq!(farm.wait(vpid, crate::late()).unwrap().to_string(), "exited with 44");
}

/// Children that are not joined are dropped, and their memory is freed: the memory has room for
/// only a few of these tasks.
#[test]
fn what_is_not_joined_takes_no_room() {
    let leaf =
        Tree { number: u64::MAX, children: vec![Tree { number: 1, children: Vec::new() }; 20_000] };
    for builder in [forking(2), forking(3).stealing()] {
        let mut pool = builder.memory(24 << 20).start().unwrap();
        let tree = Tree { number: u64::MAX, children: vec![leaf.clone(), leaf.clone()] };
        for outcome in pool.map((0..40).map(|_| tree.clone())) {
            assert_eq!(outcome.result, Ok(u64::MAX));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..property(16) })]

    #[test]
    fn forked_and_joined_is_as_one_after_the_other(
        parents in prop::collection::vec(any::<usize>(), 0..300),
        workers in 1_usize..4,
        stealing in any::<bool>(),
    ) {
        let tree = Tree::of(&parents);
        prop_assert_eq!(tree.nodes(), parents.len() + 1);
        let builder = forking(workers);
        let mut pool = if stealing { builder.stealing() } else { builder }.start().unwrap();
        prop_assert_eq!(pool.run(tree.clone()), Ok(tree.sequential()));
        prop_assert_eq!(pool.progress().lost, 0);
    }
}

#[test]
fn a_task_that_is_killed_ends_whatever_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    for batch in [1, 4] {
        let mut pool = builder(1).batch(batch).retries(5).start::<Work, Vec<u64>>().unwrap();
        let ids: Vec<_> = [Work::Hang, Work::Square(3), Work::Hang, Work::Square(5), Work::Hang]
            .map(|work| pool.submit(work))
            .into();
        // The last one is not handed out, others may be: the first hangs.
        pool.look();
        [4, 0, 2].iter().for_each(|at: &usize| pool.kill(ids[*at]));
        let mut ended: Vec<_> = std::iter::from_fn(|| pool.next()).collect();
        ended.sort_by_key(|outcome| outcome.id);
        let results = ended.iter().map(|outcome| outcome.result.clone()).collect::<Vec<_>>();
        let killed = || Err(TaskError::Killed);
        assert_eq!(results, [killed(), Ok(vec![9]), killed(), Ok(vec![25]), killed()], "{batch}");
        // It has ended, so nothing happens; and it is not killed because another one is.
        ids.iter().for_each(|id| pool.kill(*id));
        let waits = pool.submit(Work::Until(go.clone()));
        let next = pool.submit(Work::Hang);
        pool.look();
        pool.kill(next);
        std::fs::write(&go, "").unwrap();
        let results: HashMap<_, _> =
            std::iter::from_fn(|| pool.next()).map(|done| (done.id, done.result)).collect();
        assert_eq!((&results[&waits], &results[&next]), (&Ok(vec![1]), &killed()), "{batch}");
        std::fs::remove_file(&go).unwrap();
    }
}

#[test]
fn a_task_that_no_worker_has_stolen_is_killed_or_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let (here, go) = (folder.path().join("here"), folder.path().join("go"));
    let program = program_of("pool::works_and_steals");
    let builder = PoolBuilder::new(1).program(program).stealing();
    let mut pool = builder.start::<Work, Vec<u64>>().unwrap();
    let meets = pool.submit(Work::Meet(here.clone(), go.clone()));
    while !here.exists() {
        pool.look();
        std::thread::sleep(Duration::from_millis(1));
    }
    // They would end the worker.
    let others: Vec<_> = (0..4).map(|_| pool.submit(Work::Exit(3))).collect();
    pool.look();
    assert!(pool.withdraw(others[1]));
    [others[0], others[2], others[3], meets].iter().for_each(|id| pool.kill(*id));
    assert!(!pool.withdraw(meets));
    std::fs::write(&go, "").unwrap();
    let results: HashMap<_, _> =
        std::iter::from_fn(|| pool.next()).map(|done| (done.id, done.result)).collect();
    assert_eq!((results.len(), &results[&meets]), (4, &Ok(vec![1])));
    assert!(results.values().filter(|result| **result == Err(TaskError::Killed)).count() == 3);
    assert_eq!(pool.progress().lost, 0);
}

#[test]
fn only_the_task_whose_result_is_garbled_fails() {
    for (batch, retries) in [(1, 0), (6, 0), (50, 0), (6, 2)] {
        let builder = builder(2).batch(batch).retries(retries);
        let mut pool = builder.start::<Work, Lucky>().unwrap();
        for number in 0..50 {
            pool.submit(Work::Square(number));
        }
        for Outcome { id, result } in std::iter::from_fn(|| pool.next()) {
            let number = id.number();
            match number {
                13 => assert!(matches!(result, Err(TaskError::Garbled { .. })), "{result:?}"),
                _ => assert_eq!(result, Ok(Lucky(vec![number * number])), "batches of {batch}"),
            }
        }
    }
}
