//! Children made by `fork` of a process of a farm: their calls return errors, and do not affect the
//! forked process.

use std::time::{Duration, Instant};

use syncline_farm::{
    Farm, FarmError, Pool, PoolBuilder, Program, TaskError, Vpid,
    pool::{Forks, serve_forks},
    serve,
    wire::Numbers,
};

use syncline_testkit::{again, succeed};

use crate::worker::Role;
use crate::{late, program_of, worker};

/// Set in the process of a test that forks.
const ALONE: &str = "SYNCLINE_TEST_ALONE";

/// Runs a test in a process of its own, unless this is that process; returns whether it is. A child
/// made by `fork` would wait forever for a mutex that a thread of another test held meanwhile.
fn is_alone(test: &str) -> bool {
    let is_alone = std::env::var_os(ALONE).is_some();
    if !is_alone {
        succeed(again(test).env(ALONE, "1"));
    }
    is_alone
}

/// Forks a child that runs `child`, and returns the child's exit code: the value of `child`, or 100
/// if it panicked.
fn in_a_child(child: impl FnOnce() -> u8) -> i32 {
    // SAFETY: the child runs only `child`, which waits for no thread of this process, and then
    // exits without running anything else.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(100);
            // SAFETY: always safe to call; it ends the child without running its destructors.
            unsafe { libc::_exit(code.into()) }
        }
        pid => ended(pid),
    }
}

fn ended(pid: i32) -> i32 {
    assert!(pid > 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "{status:x}");
    libc::WEXITSTATUS(status)
}

/// Returns the number, counted from 1, of the first call that was not refused; 0 if all were.
fn first_that_is_not<const N: usize>(refused: [bool; N]) -> u8 {
    refused.iter().position(|&refused| !refused).map_or(0, |at| at as u8 + 1)
}

fn is_forked<X>(called: &Result<X, FarmError>) -> bool {
    matches!(called, Err(FarmError::Forked { .. }))
}

#[test]
fn every_call_of_a_forked_manager_is_refused_and_undoes_nothing() {
    if !is_alone("forked::every_call_of_a_forked_manager_is_refused_and_undoes_nothing") {
        return;
    }
    let mut farm = Farm::new().unwrap();
    let echo = worker(&mut farm, Role::Echo);
    let sent: Vec<u64> = (0..100_000).collect();
    farm.send(echo, &sent).unwrap();
    // The message is in the farm's memory, and this process must give the block back.
    let message = farm.recv_message_deadline(echo, late()).unwrap();
    let reserved = farm.reserve().unwrap();
    let (mut farm, mut message) = (Some(farm), Some(message));
    let code = in_a_child(|| {
        let mut farm = farm.take().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(100));
        let refused = first_that_is_not([
            is_forked(&farm.reserve()),
            is_forked(&farm.spawn(&Program::new("true"))),
            is_forked(&farm.start(reserved, &Program::new("true"))),
            is_forked(&farm.send(echo, &vec![1_u64])),
            is_forked(&farm.send_deadline(reserved, &1_u64, soon())),
            is_forked(&farm.recv::<u64>(echo)),
            is_forked(&farm.recv_message_deadline(echo, soon())),
            is_forked(&farm.recv_any::<u64>()),
            is_forked(&farm.recv_any_message_deadline(soon())),
            is_forked(&farm.try_recv_message(echo)),
            is_forked(&farm.wait(echo, soon())),
            is_forked(&farm.cause(echo)),
            is_forked(&farm.kill(echo)),
            farm.pid(echo).is_none() && farm.living() == 0 && farm.vpid() == Vpid::MANAGER,
            // A farm of its own, and an operation on it.
            Farm::new().is_ok_and(|mut own| own.reserve().is_ok()),
        ]);
        drop((message.take(), farm));
        refused
    });
    assert_eq!(code, 0, "the call of that number is not refused");
    // The worker is still alive, and no later message overwrites this one.
    let (mut farm, message) = (farm.unwrap(), message.unwrap());
    let other: Vec<u64> = vec![7; 100_000];
    farm.send(echo, &other).unwrap();
    assert_eq!(farm.recv_deadline::<Vec<u64>>(echo, late()).unwrap(), other);
    assert_eq!((message.len() > 100_000, farm.living()), (true, 1));
    let bytes: u64 = message.iter().map(|&byte| u64::from(byte)).sum();
    drop(message);
    farm.send(echo, &sent).unwrap();
    let again = farm.recv_message_deadline(echo, late()).unwrap();
    assert_eq!(again.iter().map(|&byte| u64::from(byte)).sum::<u64>(), bytes);
    farm.send(reserved, &Role::Exit(0)).unwrap();
    farm.start(reserved, &crate::program()).unwrap();
    assert_eq!(farm.recv_deadline::<u64>(reserved, late()).unwrap(), 7);
}

/// Not a test: a process of a farm that forks, and reports the results of its child.
#[test]
fn forks_and_tells() {
    let Some(mut farm) = Farm::join().unwrap() else { return };
    let code = in_a_child(|| {
        first_that_is_not([
            is_forked(&farm.recv_deadline::<u64>(Vpid::MANAGER, late())),
            is_forked(&farm.send(Vpid::MANAGER, &1_u64)),
            is_forked(&farm.reserve()),
            Farm::join().is_err(),
        ])
    });
    let number: Numbers<'_, u64> = farm.recv_deadline(Vpid::MANAGER, late()).unwrap();
    farm.send(Vpid::MANAGER, &(number[0] + code as u64)).unwrap();
}

#[test]
fn a_child_of_a_worker_receives_and_sends_nothing() {
    let mut farm = Farm::new().unwrap();
    let child = farm.spawn(&program_of("forked::forks_and_tells")).unwrap();
    farm.send(child, &Numbers::from(&[40_u64][..])).unwrap();
    assert_eq!(farm.recv_deadline::<u64>(child, late()).unwrap(), 40);
}

/// A minimal task: it forks a child, which also returns from the task.
fn task(n: u64) -> u64 {
    if n % 10 == 3 {
        // SAFETY: the child continues in this worker's code, which starts no thread.
        match unsafe { libc::fork() } {
            0 => return 1_000_000,
            pid => assert_eq!(ended(pid), 3, "a worker that has an error ends with that"),
        }
    }
    n * n
}

/// Not a test: a worker.
#[test]
fn works() {
    serve(task).unwrap();
}

/// Like [`task`], in a tree of tasks.
fn tree(n: u64, forks: &mut Forks<'_, u64, u64>) -> u64 {
    let children: Vec<_> = (0..n / 100).map(|child| forks.fork(n % 100 + child)).collect();
    let own = task(n % 100);
    // A forked child contributes nothing: its own forks are refused.
    let last = (own == 1_000_000).then(|| forks.fork(1));
    let refused = last.map(|last| forks.join(last) == Err(TaskError::Forked));
    if refused == Some(false) {
        std::process::exit(99);
    }
    own + children.into_iter().filter_map(|child| forks.join(child).ok()).sum::<u64>()
}

/// Not a test: a worker whose tasks fork.
#[test]
fn grows() {
    serve_forks(tree).unwrap();
}

#[test]
fn a_child_that_a_task_forks_ends_no_task_and_begins_none() {
    let builder = PoolBuilder::new(2).program(program_of("forked::works")).batch(7);
    let mut pool = builder.start::<u64, u64>().unwrap();
    let mut results: Vec<_> = pool.map(0..50).map(|done| (done.id.number(), done.result)).collect();
    results.sort_by_key(|&(id, _)| id);
    let expected: Vec<_> = (0..50).map(|n| (n, Ok(n * n))).collect();
    assert_eq!(results, expected);
    assert_eq!(pool.progress().lost, 0);
    for kind in [PoolBuilder::forks, PoolBuilder::stealing] {
        let builder = kind(PoolBuilder::new(2).program(program_of("forked::grows")));
        let mut pool = builder.start::<u64, u64>().unwrap();
        let tasks = [503, 13, 203, 3];
        let square = |n: u64| n * n;
        for n in tasks {
            let sum: u64 =
                square(n % 100) + (0..n / 100).map(|child| square(n % 100 + child)).sum::<u64>();
            assert_eq!(pool.run(n), Ok(sum), "{n}");
        }
        assert_eq!(pool.progress().lost, 0);
    }
}

#[test]
fn a_forked_pool_ends_its_tasks_and_touches_no_worker() {
    if !is_alone("forked::a_forked_pool_ends_its_tasks_and_touches_no_worker") {
        return;
    }
    for kind in [|builder: PoolBuilder| builder, PoolBuilder::stealing] {
        let builder = kind(PoolBuilder::new(2).program(program_of("forked::grows")));
        let mut pool: Pool<u64, u64> = builder.start().unwrap();
        assert_eq!(pool.run(2), Ok(4));
        let pids = pool.pids();
        assert!(!pids.is_empty());
        // Some tasks are in flight.
        let under_way: Vec<_> = (0..20).map(|n| pool.submit(n).number()).collect();
        let mut pool = Some(pool);
        let code = in_a_child(|| {
            let mut pool = pool.take().unwrap();
            let refused = first_that_is_not([
                is_forked(&pool.next_deadline(late())),
                pool.next().is_some_and(|done| done.result == Err(TaskError::Forked)),
                pool.run(5) == Err(TaskError::Forked),
                pool.map(0..3000).all(|done| done.result == Err(TaskError::Forked)),
                pool.next().is_none(),
                pool.pids().is_empty(),
            ]);
            pool.finish();
            refused
        });
        assert_eq!(code, 0, "the call of that number is not refused");
        let mut pool = pool.unwrap();
        let mut done = Vec::new();
        while let Some(outcome) = pool.next_deadline(late()).unwrap() {
            assert!(outcome.result.is_ok(), "{outcome:?}");
            done.push(outcome.id.number());
        }
        done.sort_unstable();
        assert_eq!((done, pool.progress().lost), (under_way, 0));
        assert!(pids.iter().all(|pid| pool.pids().contains(pid)), "{pids:?}");
    }
}
