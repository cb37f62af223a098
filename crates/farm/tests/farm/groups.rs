//! Processes that workers start end with their worker, whichever way it ends, and with the manager,
//! whichever way that ends.
//!
//! Every process of a test has a mark in its environment, and the processes that a task starts
//! sleep far longer than any test takes: so a process that is left behind is found in `/proc`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use syncline_farm::{Farm, Pool, PoolBuilder, Program, TaskError, pool::serve_forks, serve};
use syncline_testkit::Tool;

use crate::{children_of, late, program_of};

/// The environment variable of all workers of a test, and of the processes that they start.
const MARK: &str = "SYNCLINE_TEST_MARK";
/// The environment variable that selects the behaviour of `manager`, and the mark of its workers.
const MANAGER: &str = "SYNCLINE_TEST_MANAGER";

/// Returns a mark that no other test has.
fn mark() -> String {
    static MARKS: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed))
}

/// Returns the process IDs and command lines of the processes with a mark. Zombies have no mark.
fn marked(mark: &str) -> Vec<(i32, String)> {
    let variable = format!("{MARK}={mark}");
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let with_mark = numbers.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|text| text == variable.as_bytes())
    });
    let line = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    with_mark.map(|pid| (pid, line(pid).replace('\0', " "))).collect()
}

/// Returns the number of sleeping processes with a mark: those that tasks have started.
fn sleepers(mark: &str) -> usize {
    marked(mark).iter().filter(|(_, line)| line.starts_with("sleep ")).count()
}

/// Far beyond the duration of any wait, on any machine.
const LONG: Duration = Duration::from_secs(300);

/// Waits until a condition holds; fails after a long time.
fn until(what: &str, mark: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LONG, "{what} has not come: {:?}", marked(mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn all_gone(mark: &str) {
    until("the end of all processes", mark, || marked(mark).is_empty());
}

/// The behaviour of a task towards the processes that it starts.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
enum Act {
    /// Waits for them.
    Wait,
    /// Leaves them running, and ends.
    Leave,
    /// Leaves them running, and exits.
    Exit,
    /// Leaves them running, and is killed.
    Die,
    /// Starts none, and reads from the terminal.
    Read,
    /// Closes all descriptors but the standard streams, as a daemon does, and waits for them.
    Close,
    /// The same, with a child whose parent has ended.
    Disown,
}

#[allow(clippy::zombie_processes, reason = "children that are left behind are what is tested")]
fn act(act: Act) -> String {
    let sleeping =
        || Command::new("sh").args(["-c", "sleep 4001 & exec sleep 4002"]).spawn().unwrap();
    match act {
        Act::Wait => sleeping().wait().unwrap().to_string(),
        Act::Leave => sleeping().id().to_string(),
        Act::Exit => {
            sleeping();
            std::process::exit(3);
        }
        Act::Die => {
            sleeping();
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
            unreachable!()
        }
        Act::Close => {
            close_all();
            sleeping().wait().unwrap().to_string()
        }
        Act::Disown => {
            close_all();
            let script = "(sleep 4005 &) ; exec env -i MARK_IS_GONE=1 sleep 4006";
            Command::new("sh").args(["-c", script]).spawn().unwrap().wait().unwrap().to_string()
        }
        Act::Read => {
            let read = fs::File::open("/dev/tty").and_then(|mut tty| tty.read(&mut [0]));
            read.map_or_else(|error| error.to_string(), |bytes| format!("{bytes} bytes"))
        }
    }
}

/// Closes all descriptors but the standard streams.
fn close_all() {
    // SAFETY: the farm's memory stays mapped, and the worker uses none of its descriptors until its
    // task has ended, which it does not.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
}

/// Not a test: a worker.
#[test]
fn works() {
    serve(act).unwrap();
}

/// Not a test: a worker whose tasks may fork.
#[test]
fn forks() {
    serve_forks(|task, _| act(task)).unwrap();
}

fn builder(test: &str, mark: &str) -> PoolBuilder {
    PoolBuilder::new(2).program(program_of(test).variable(MARK, mark))
}

fn outcomes(pool: &mut Pool<Act, String>, tasks: &[Act]) -> Vec<Result<String, TaskError>> {
    let ids: Vec<_> = tasks.iter().map(|&task| pool.submit(task)).collect();
    let mut outcomes = vec![None; ids.len()];
    while let Some(outcome) = pool.next_deadline(late()).unwrap() {
        outcomes[ids.iter().position(|&id| id == outcome.id).unwrap()] = Some(outcome.result);
    }
    outcomes.into_iter().map(Option::unwrap).collect()
}

/// Runs tasks that end in all ways, with a time limit. Returns whether each has ended as it should:
/// on a slow machine, a task may exceed a short limit.
fn end_in_all_ways(builder: &PoolBuilder, mark: &str, timeout: Duration) -> bool {
    let mut pool = builder.clone().timeout(timeout).retries(1).start().unwrap();
    let mut ends = outcomes(&mut pool, &[Act::Wait, Act::Exit, Act::Die]);
    until("the end of what tasks have started", mark, || sleepers(mark) == 0);
    // The pool continues.
    ends.extend(outcomes(&mut pool, &[Act::Leave]));
    pool.finish();
    all_gone(mark);
    println!("{timeout:?}: {ends:?}");
    let [Err(late), Err(exited), Err(killed), left] = &ends[..] else { return false };
    matches!(late, TaskError::TimedOut { tries: 2, .. })
        && exited.to_string().ends_with("exited with 3 (2 tries)")
        && killed.to_string().ends_with("was killed by signal 9 (2 tries)")
        && left.is_ok()
}

fn nothing_is_left(test: &str, kind: impl Fn(PoolBuilder) -> PoolBuilder) {
    let mark = mark();
    let builder = kind(builder(test, &mark));
    let mut limits = [2, 20, 120].map(Duration::from_secs).into_iter();
    assert!(
        limits.any(|timeout| end_in_all_ways(&builder, &mark, timeout)),
        "not what was expected, with any time limit"
    );
    // Dropped while its tasks are running.
    let mut pool = builder.start::<Act, String>().unwrap();
    for _ in 0..2 {
        pool.submit(Act::Wait);
    }
    until("a task that sleeps", &mark, || {
        let soon = Instant::now() + Duration::from_millis(10);
        assert!(pool.next_deadline(Some(soon)).is_err(), "a task has ended");
        sleepers(&mark) > 0
    });
    drop(pool);
    all_gone(&mark);
}

#[test]
fn nothing_is_left_by_workers_that_stay() {
    nothing_is_left("groups::works", |builder| builder);
}

#[test]
fn nothing_is_left_by_a_process_for_each_task() {
    nothing_is_left("groups::works", PoolBuilder::cold);
}

#[test]
fn nothing_is_left_by_workers_whose_tasks_fork() {
    nothing_is_left("groups::forks", PoolBuilder::forks);
}

#[test]
fn nothing_is_left_by_workers_that_steal() {
    nothing_is_left("groups::forks", PoolBuilder::stealing);
}

/// The number of sleepers of a manager once everything that it starts is there.
const SLEEPERS: usize = 6;

/// Not a test: a manager with two workers whose tasks wait, and a program that does not join the
/// farm.
#[test]
fn manager() {
    let Ok(mark) = std::env::var(MANAGER) else { return };
    let mut farm = Farm::new().unwrap();
    let script = "sleep 4003 & sleep 4004; exit";
    farm.spawn(&Program::new("sh").args(["-c", script]).variable(MARK, &mark)).unwrap();
    let mut pool = builder("groups::works", &mark).start::<Act, String>().unwrap();
    let acts = if mark.ends_with("closes") { [Act::Close, Act::Disown] } else { [Act::Wait; 2] };
    for act in acts {
        pool.submit(act);
    }
    loop {
        let _ = pool.next_deadline(Some(Instant::now() + Duration::from_millis(50)));
        if mark.ends_with("returns") && sleepers(&mark) >= SLEEPERS {
            std::mem::forget((pool, farm));
            return;
        }
    }
}

/// Starts a manager in a process of its own, and waits until all its tasks sleep.
fn managed(mark: &str) -> Child {
    let manager = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "groups::manager", "--nocapture", "--quiet"])
        .env(MANAGER, mark)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if !mark.ends_with("returns") {
        // One of those that closes its descriptors has no mark either.
        let expected = if mark.ends_with("closes") { SLEEPERS - 1 } else { SLEEPERS };
        until("all that sleep", mark, || sleepers(mark) >= expected);
    }
    manager
}

/// Reads the manager's output up to the end of both its pipes, which no other process may keep
/// open.
fn all_of(manager: Child, mark: &str) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(manager.wait_with_output().map(|_| ())));
    let read = receiver.recv_timeout(LONG);
    read.unwrap_or_else(|_| panic!("something holds the manager's pipes: {:?}", marked(mark)))
        .unwrap();
}

#[test]
fn a_manager_that_returns_leaves_nothing() {
    let mark = format!("{}-returns", mark());
    all_of(managed(&mark), &mark);
    all_gone(&mark);
}

#[test]
fn a_manager_that_is_killed_leaves_nothing() {
    let mark = mark();
    let mut manager = managed(&mark);
    manager.kill().unwrap();
    all_of(manager, &mark);
    all_gone(&mark);
}

/// Workers whose tasks have closed their lifeline end with the manager, and so does all that they
/// have started in their groups.
#[test]
fn a_manager_that_is_killed_leaves_no_worker_that_has_closed_its_descriptors() {
    let mark = format!("{}-closes", mark());
    let mut manager = managed(&mark);
    let workers = children_of(manager.id());
    assert_eq!(workers.len(), 3, "{workers:?}");
    manager.kill().unwrap();
    // What has no mark holds the manager's pipes.
    all_of(manager, &mark);
    all_gone(&mark);
}

/// The workers are killed first, and then the manager, before it can kill the processes that they
/// leave.
#[test]
fn a_manager_that_is_killed_with_its_workers_leaves_nothing() {
    let mark = mark();
    let mut manager = managed(&mark);
    kill_process(Pid::from_child(&manager), Signal::STOP).unwrap();
    until("the stop of the manager", &mark, || stopped(manager.id().cast_signed()));
    let workers = children_of(manager.id());
    assert_eq!(workers.len(), 3, "{workers:?}");
    for worker in workers {
        // The manager is stopped and does not reap them, so the process IDs are still theirs.
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    }
    manager.kill().unwrap();
    all_of(manager, &mark);
    all_gone(&mark);
}

/// Returns whether this process, and all that it starts, ignore Ctrl-C.
fn is_interrupt_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (Signal::INT.as_raw() - 1) & 1 == 1
}

/// Not a test: a manager at a terminal, which prints the result of a task that reads from it.
#[test]
fn manager_at_a_terminal() {
    let Ok(mark) = std::env::var(MANAGER) else { return };
    let mut pool = builder("groups::works", &mark).start::<Act, String>().unwrap();
    println!("\nread {:?}", outcomes(&mut pool, &[Act::Read])[0]);
    for _ in 0..2 {
        pool.submit(Act::Wait);
    }
    while pool.next().is_some() {}
}

/// Returns whether a process is stopped.
fn stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Ctrl-Z stops the workers and the processes that they have started; `fg` continues them all, and
/// Ctrl-C ends them all.
#[test]
fn a_terminal_stops_continues_and_ends_all() {
    if is_interrupt_ignored() {
        return println!("skipped: SIGINT is ignored here, as it is in a job in the background");
    }
    if Tool::find("bash").is_none() {
        return;
    }
    let mark = mark();
    let shell = ["-qfec", "bash --norc --noprofile -i", "/dev/null"];
    let terminal =
        Command::new("script").args(shell).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut terminal = match terminal {
        Ok(terminal) => terminal,
        Err(error) => {
            return println!(
                "skipped: script(1), which makes terminals, cannot be started: {error}"
            );
        }
    };
    let (mut keys, mut screen) = (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
    let screen = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = screen.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let this = std::env::current_exe().unwrap();
    let test = "--exact groups::manager_at_a_terminal --nocapture --quiet";
    writeln!(keys, "{MANAGER}={mark} {} {test}", this.display()).unwrap();
    until("all that sleep", &mark, || sleepers(&mark) >= 4);
    keys.write_all(b"\x1a").unwrap();
    let all_stopped = || marked(&mark).iter().all(|&(pid, _)| stopped(pid));
    until("the stop of all", &mark, all_stopped);
    assert!(sleepers(&mark) >= 4);
    writeln!(keys, "fg").unwrap();
    until("that all go on", &mark, || marked(&mark).iter().all(|&(pid, _)| !stopped(pid)));
    // Once more: a second stop works like the first.
    keys.write_all(b"\x1a").unwrap();
    until("the stop of all", &mark, all_stopped);
    writeln!(keys, "fg").unwrap();
    until("that all go on", &mark, || marked(&mark).iter().all(|&(pid, _)| !stopped(pid)));
    keys.write_all(b"\x03").unwrap();
    all_gone(&mark);
    writeln!(keys, "exit").unwrap();
    drop(keys);
    terminal.wait().unwrap();
    let screen = screen.join().unwrap();
    assert!(screen.contains("read Ok(\"Input/output error (os error 5)\")"), "{screen}");
}
