//! Workers that are killed at arbitrary moments: every task ends once, with its result or its
//! error, and no process is left behind.
//!
//! The pool runs in a process of its own, whose only children are the workers. `SYNCLINE_BUSY` sets
//! the number of other processes that keep the machine busy meanwhile (none by default).
//!
//! What is asserted holds under every schedule:
//! * A kill costs a pool that does not retry at most the tasks that its victim was executing. Where
//!   tasks fork, these may be several, but all are among the eight of one round.
//! * No pool gives up. It would if a hundred workers in a row were killed before they had begun a
//!   task; the killer stops for a while before that ([`AT_ONCE`]).
//! * With more retries than kills, no task fails, unless each has a process of its own.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use syncline_farm::{PoolBuilder, Task, TaskError, pool::serve_forks, serve};
use syncline_testkit::{Random, cases, seed};

use crate::{children_of, program_of};

/// The environment variable that selects the scheduler of the process that `run` starts.
const SCHEDULER: &str = "SYNCLINE_TEST_KILLS";

/// A short computation that takes processor time.
fn work(n: u64) -> u64 {
    let until = Instant::now() + Duration::from_micros(50 + n % 7 * 40);
    let mut sum = n;
    while Instant::now() < until {
        sum = std::hint::black_box(sum.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    n.wrapping_mul(n) ^ 5
}

/// Not a test: a worker.
#[test]
fn works() {
    serve(work).unwrap();
}

/// A task that forks two others until they are small; `None` if one of them was lost.
fn fork(n: u64, forks: &mut syncline_farm::pool::Forks<'_, u64, Option<u64>>) -> Option<u64> {
    if n < 2 {
        return Some(work(n) - work(n) + n);
    }
    let (one, two) = (forks.fork(n - 1), forks.fork(n - 2));
    let (two, one) = (forks.join(two), forks.join(one));
    Some(one.ok()?? + two.ok()??)
}

/// Not a test: a worker whose tasks fork.
#[test]
fn forks() {
    serve_forks(fork).unwrap();
}

/// Returns the children of this process.
fn children() -> Vec<i32> {
    children_of(std::process::id())
}

/// The largest number of kills between the ends of two tasks.
const AT_ONCE: usize = 40;

/// What the killer and the pool tell each other.
#[derive(Default)]
struct Counts {
    killed: AtomicUsize,
    ended: AtomicUsize,
    stop: AtomicBool,
}

/// Kills one child after the other, at random, until it is stopped.
fn killer(seed: u64, kills: usize, counts: &Counts) {
    let Counts { killed, ended, stop } = counts;
    let mut random = Random::new(seed);
    let (mut seen, mut since) = (0, 0);
    while !stop.load(Ordering::Relaxed) && killed.load(Ordering::Relaxed) < kills {
        std::thread::sleep(random.microseconds(8000));
        let now = ended.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, 0);
        }
        let children = children();
        if children.is_empty() || since == AT_ONCE {
            continue;
        }
        let Some(pid) = Pid::from_raw(random.one_of(&children)) else { continue };
        // Through a pidfd, and checked again: the process ID may have been reused.
        let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if self::children().contains(&pid.as_raw_nonzero().get())
            && rustix::process::pidfd_send_signal(pidfd, Signal::KILL).is_ok()
        {
            since += 1;
            killed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Stops the killer when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the expected result of a task that forks.
fn fibonacci(n: u64) -> u64 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Not a test: a manager whose workers are killed.
#[test]
fn manager() {
    let Ok(scheduler) = std::env::var(SCHEDULER) else { return };
    let (kills, seed) = (cases(25) as usize, seed(0x5EED));
    println!("\nSYNCLINE_SEED={seed}");
    let retries = if scheduler.contains("again") { 1000 } else { 0 };
    assert!(kills < 1000, "a task may fail after that many");
    let counts = Counts::default();
    let killed = &counts.killed;
    let (mut tasks, mut failed) = (0_u64, 0_u64);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| killer(seed, kills, &counts));
        let _stop = Stop(&counts.stop);
        let forks = scheduler.contains("forks");
        let builder = PoolBuilder::new(3).retries(retries);
        let builder = if scheduler.contains("cold") { builder.cold() } else { builder };
        let builder = if scheduler.contains("ones") { builder.batch(1) } else { builder };
        let check = |result: Result<bool, TaskError>| match result {
            Ok(right) => {
                assert!(right, "a wrong result");
                0
            }
            Err(TaskError::Worker { how, .. }) => {
                assert_eq!(how, "was killed by signal 9");
                1
            }
            Err(other) => panic!("{other}"),
        };
        if forks {
            let builder =
                if scheduler.contains("stealing") { builder.stealing() } else { builder.forks() };
            let mut pool =
                builder.program(program_of("kills::forks")).start::<u64, Option<u64>>().unwrap();
            while killed.load(Ordering::Relaxed) < kills {
                for outcome in pool.map((0..8).map(Task::new)) {
                    tasks += 1;
                    counts.ended.fetch_add(1, Ordering::Relaxed);
                    let n = outcome.id.number() % 8;
                    // `None`: a child was lost, and its parent reports it.
                    let lost = outcome.result == Ok(None);
                    assert!(!lost || retries == 0);
                    let result =
                        outcome.result.map(|sum| sum.is_none_or(|sum| sum == fibonacci(n)));
                    failed += check(result) | u64::from(lost);
                }
            }
        } else {
            let mut pool = builder.program(program_of("kills::works")).start::<u64, u64>().unwrap();
            while killed.load(Ordering::Relaxed) < kills {
                let first = pool.progress().submitted;
                let count = if scheduler.contains("cold") { 20 } else { 300 };
                let mut seen = vec![false; count as usize];
                for outcome in pool.map((0..count).map(|n| first + n)) {
                    tasks += 1;
                    counts.ended.fetch_add(1, Ordering::Relaxed);
                    let n = outcome.id.number();
                    assert!(
                        !std::mem::replace(&mut seen[(n - first) as usize], true),
                        "a task has ended twice"
                    );
                    failed += check(outcome.result.map(|result| result == (n.wrapping_mul(n) ^ 5)));
                }
                assert!(seen.iter().all(|&seen| seen), "a task has not ended");
            }
        }
    });
    assert!(
        failed <= killed.load(Ordering::Relaxed) as u64 * 8,
        "{failed} of {tasks} tasks have failed"
    );
    assert!(
        retries == 0 || failed == 0 || scheduler.contains("cold"),
        "{failed} of {tasks} were not tried again"
    );
    assert!(children().is_empty(), "a process is left behind: {:?}", children());
    let rate = tasks as f64 / begun.elapsed().as_secs_f64();
    println!(
        "\nkills {scheduler}: {} killed, {tasks} tasks, {failed} failed, {rate:.0} a second",
        killed.load(Ordering::Relaxed)
    );
}

fn run(scheduler: &str) {
    let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let count = std::env::var("SYNCLINE_BUSY").map_or(0, |count| count.parse().unwrap());
    let mut busy: Vec<_> = (0..count).map(|_| busy()).collect();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::manager", "--nocapture", "--quiet"])
        .env(SCHEDULER, scheduler)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    for busy in &mut busy {
        let _ = busy.kill();
        busy.wait().unwrap();
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", said.lines().find(|line| line.starts_with("kills ")).unwrap());
}

#[test]
fn of_workers_that_stay() {
    run("warm");
    run("warm again");
}

#[test]
fn of_workers_with_one_task_at_a_time() {
    run("ones");
    run("ones again");
}

#[test]
fn of_a_process_for_each_task() {
    run("cold");
    run("cold again");
}

#[test]
fn of_workers_whose_tasks_fork() {
    run("forks");
    run("forks again");
}

#[test]
fn of_workers_that_steal() {
    run("stealing forks");
    run("stealing forks again");
}
