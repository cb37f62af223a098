//! How a farm ends before its tasks do; it leaves nothing behind.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Starts a farm of two whose tasks, and their children, sleep; returns as soon as they do.
fn sleeping(folder: &Path, options: &str, script: &str, nap: &str) -> Child {
    let mut child =
        farm(folder, &format!("-j 2 {options}"), &["sh", "-c", script, nap]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // The input stays open: more may come.
    input.write_all(numbers(10).as_bytes()).unwrap();
    child.stdin = Some(input);
    until("a sleeper for each", || processes(nap) >= 4);
    child
}

/// A task that sleeps beside a child that sleeps; both end on signals.
const SLEEPS: &str = "(exec sleep \"$0\") & exec sleep \"$0\"";
/// A task that ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; (exec sleep \"$0\") & sleep \"$0\"; sleep \"$0\"";

fn signalled(mut child: Child, signals: &[Signal]) -> Came {
    let input = child.stdin.take();
    for &signal in signals {
        // The child has not been reaped, so the process id is still its own.
        kill_process(Pid::from_child(&child), signal).unwrap();
        thread::sleep(Duration::from_millis(300));
    }
    let came = Came::of(child.wait_with_output().unwrap());
    drop(input);
    came
}

#[test]
fn signals_end_all_groups() {
    let folder = tempfile::tempdir().unwrap();
    for (which, signal, code, name) in
        [(10, Signal::INT, 130, "SIGINT"), (11, Signal::TERM, 143, "SIGTERM")]
    {
        let nap = nap(which);
        let came = signalled(sleeping(folder.path(), "", SLEEPS, &nap), &[signal]);
        assert_eq!((came.code, came.out.as_str()), (Some(code), ""), "{came:?}");
        let expected = format!(
            "syncline: interrupted by {name}; 2 tasks: 0 done, 2 ended before they were done, the input was not read \
             to its end"
        );
        assert_eq!(came.summary(), (&[][..], expected.as_str()));
        gone(&nap);
    }
}

/// What tasks have written when they are ended is printed, whatever ends them.
#[test]
fn what_interrupted_tasks_wrote_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let heeds_hang_up = !crate::common::is_ignored(Signal::HUP);
    let cases = [
        ("", Signal::TERM),
        ("-k", Signal::INT),
        ("--line-buffer", Signal::HUP),
        ("--logs logs", Signal::TERM),
        ("--retries 2 -k --joblog log", Signal::HUP),
    ];
    for (which, (options, signal)) in (90..).zip(cases) {
        if signal == Signal::HUP && !heeds_hang_up {
            continue;
        }
        let nap = nap(which);
        // The last line has no end.
        let script = format!("printf 'one\\ntwo'; {SLEEPS}");
        let came = signalled(sleeping(folder.path(), options, &script, &nap), &[signal]);
        assert_eq!(came.code, Some(128 + signal.as_raw()), "{options}: {came:?}");
        // Lines of both tasks may be mixed by --line-buffer.
        let counts = ["one\n", "two"].map(|text| came.out.matches(text).count());
        assert_eq!((counts, came.out.len()), ([2, 2], 14), "{options}: {came:?}");
        assert!(came.summary().1.contains("2 ended before they were done"), "{came:?}");
        gone(&nap);
    }
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap().lines().count(), 1);
}

/// So it is where --halt ends them, where they have to be killed, and where a failed attempt waits
/// for another one.
#[test]
fn what_halted_killed_and_failed_tasks_wrote_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let nap = nap(96);
    let script = "echo out $1; [ $1 = 2 ] || { touch begun; exec sleep \"$0\"; }; \
                  until [ -e begun ]; do sleep 0.01; done; exit 1";
    let halted = farm(folder.path(), "-j 2 -k --halt now,fail=1", &["sh", "-c", script, &nap]);
    let came = run(halted, "1\n2\n3\n");
    assert_eq!((came.code, came.out.as_str()), (Some(1), "out 1\nout 2\n"), "{came:?}");
    gone(&nap);

    let nap = super::nap(97);
    let script = format!("echo out; {STUBBORN}");
    let child = sleeping(folder.path(), "", &script, &nap);
    let came = signalled(child, &[Signal::TERM, Signal::TERM]);
    assert_eq!((came.code, came.out.as_str()), (Some(143), "out\nout\n"), "{came:?}");
    gone(&nap);

    // The next attempt begins after an hour.
    let script = "echo attempt; touch failed; exit 3";
    let options = "-j 1 --retries 2 --delay 1h";
    let mut child = farm(folder.path(), options, &["sh", "-c", script]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"x\n").unwrap();
    until("the first attempt", || folder.path().join("failed").exists());
    // Only the guard is left.
    until("its end", || children(child.id()).len() == 1);
    let came = signalled(child, &[Signal::TERM]);
    assert_eq!((came.code, came.out.as_str()), (Some(143), "attempt\n"), "{came:?}");
}

/// A stream that is closed is an error before the first task: Rust puts `/dev/null` in its place.
#[test]
fn closed_streams_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let syncline = env!("CARGO_BIN_EXE_syncline");
    let by = |by: &str, options: &str, redirected: &str| {
        let script = format!("exec '{syncline}' {by} farm run {options} -- touch {redirected}");
        let mut shell = Command::new("sh");
        for (name, _) in command(folder.path(), "").get_envs() {
            shell.env_remove(name);
        }
        shell.args(["-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
        Came::of(shell.output().unwrap())
    };
    let farm = |options: &str, redirected: &str| by("", options, redirected);
    for options in ["", "-k", "-u", "--line-buffer", "--logs logs", "--dry-run", "--protocol lines"]
    {
        let came = farm(options, "::: a b >&-");
        assert_eq!((came.code, came.errors.len()), (Some(2), 1), "{options}: {came:?}");
        assert!(came.errors[0].starts_with("error: standard output is closed: "), "{came:?}");
    }
    // The processes of a launcher find it closed as well.
    let launched = by(&format!("launch -n 2 -- '{syncline}'"), "", "::: a b >&-");
    assert_eq!(launched.code, Some(2), "{launched:?}");
    let told = |line: &String| line.starts_with("error: standard output is closed: ");
    assert!(launched.errors.iter().any(told), "{launched:?}");
    let came = farm("", "<&-");
    let error = "error: cannot read standard input: Bad file descriptor (os error 9)";
    assert_eq!((came.code, &came.errors[..]), (Some(1), &[error.to_owned()][..]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a task has run");
    // One that is not read may be closed, and standard error needs no reader.
    assert_eq!(farm("", "::: a <&- 2>&-").code, Some(0));
    assert!(folder.path().join("a").exists());
}

/// What a full disk does not take is told of.
#[test]
fn outputs_that_cannot_be_written_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for options in ["", "-k", "--line-buffer"] {
        let mut command = farm(folder.path(), options, &["echo"]);
        command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
        let came = run(command, "1\n2\n");
        assert_eq!(came.code, Some(1), "{came:?}");
        let error = "error: cannot write to standard output: No space left on device (os error 28)";
        assert!(came.errors.iter().any(|line| line == error), "{came:?}");
        assert!(came.errors.iter().any(|line| line.contains("not printed")), "{came:?}");
    }
}

/// Tasks that close all their descriptors, or are not children of the farm any more, end with it
/// when it is killed. A process that leaves its group does not (see the next test).
#[test]
fn sigkill_leaves_no_task_that_has_closed_its_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let closes = "for fd in 0 1 2 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done";
    let tasks = [
        format!("{closes}; exec env -i sleep \"$0\""),
        format!("{closes}; (sleep \"$0\" &); exec sleep \"$0\""),
    ];
    for (which, options) in [(100, ""), (101, "--protocol lines")] {
        for (more, task) in tasks.iter().enumerate() {
            let nap = nap(which + 2 * more as u32);
            let mut child =
                farm(folder.path(), &format!("-j 1 {options}"), &["sh", "-c", task, &nap])
                    .spawn()
                    .unwrap();
            let mut input = child.stdin.take().unwrap();
            input.write_all(b"1\n").unwrap();
            until("the sleepers", || processes(&nap) > more);
            // A farm that is killed while it starts a task has not told the guard its number: the
            // guard finds the task by a variable, which this one has removed.
            asleep(child.id());
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
            gone(&nap);
        }
    }
}

#[test]
fn who_does_not_heed_a_signal_is_killed_at_once_by_a_second_one_or_later() {
    let folder = tempfile::tempdir().unwrap();
    for (which, signals) in [(12, &[Signal::TERM, Signal::TERM][..]), (13, &[Signal::TERM])] {
        let nap = nap(which);
        let came = signalled(sleeping(folder.path(), "", STUBBORN, &nap), signals);
        assert_eq!(came.code, Some(143), "{came:?}");
        gone(&nap);
    }
}

#[test]
fn what_is_done_when_a_signal_comes_is_printed() {
    let nap = nap(14);
    // The first task sleeps; others are done, and their output would come after its output.
    let script = "if [ $1 = 1 ]; then (exec sleep \"$0\") & (exec sleep \"$0\") & (exec sleep \"$0\") & exec sleep \"$0\"; fi; echo $1";
    let folder = tempfile::tempdir().unwrap();
    let child = sleeping(folder.path(), "-k", script, &nap);
    thread::sleep(Duration::from_millis(300));
    let came = signalled(child, &[Signal::INT]);
    assert_eq!(came.code, Some(130));
    let expected: String = (2..=10).map(|number| format!("{number}\n")).collect();
    assert!(expected.starts_with(&came.out), "{came:?}");
    gone(&nap);
}

/// Twice at a random moment of a farm that keeps starting tasks, and once when it is quiet.
#[test]
fn sigkill_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let nap = nap(15);
    let mut child = sleeping(folder.path(), "", STUBBORN, &nap);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    gone(&nap);
    for which in 16..24 {
        let nap = super::nap(which);
        // Most processes sleep for long, so that each one left behind would be found.
        let script = "[ $(($1 % 7)) != 0 ] || exec sleep \"$0\"";
        let mut child = farm(folder.path(), "-j 40", &["sh", "-c", script, &nap]).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(numbers(1000).as_bytes()).unwrap();
        until("the first sleeper", || processes(&nap) > 0);
        thread::sleep(Duration::from_millis(u64::from(which - 16)));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        gone(&nap);
    }
}

/// The guard of a farm ends with it, and a farm without a guard does not continue.
#[test]
fn the_guard_ends_with_its_farm_and_the_farm_with_its_guard() {
    let folder = tempfile::tempdir().unwrap();
    let nap = nap(25);
    let mut child = sleeping(folder.path(), "", SLEEPS, &nap);
    let input = child.stdin.take();
    let guard = children(child.id()).into_iter().find(|pid| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .starts_with(b"syncline\0farm\0guard\0")
    });
    let guard = Pid::from_raw(guard.unwrap()).unwrap();
    // The guard ignores these signals.
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(guard, signal).unwrap();
    }
    thread::sleep(Duration::from_millis(50));
    kill_process(guard, Signal::KILL).unwrap();
    // Its descriptors are closed by then.
    let stat = format!("/proc/{}/stat", guard.as_raw_nonzero());
    until("the end of the guard", || {
        fs::read_to_string(&stat)
            .map_or(true, |stat| stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    });
    // The farm notices it when a task has ended.
    let task = children(child.id()).into_iter().find(|&pid| pid != guard.as_raw_nonzero().get());
    kill_process(Pid::from_raw(task.unwrap()).unwrap(), Signal::KILL).unwrap();
    let came = Came::of(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!(came.code, Some(1), "{came:?}");
    assert!(came.errors.last().unwrap().contains("tell the guard which tasks run"), "{came:?}");
    gone(&nap);
}

/// Returns the processes whose parent is `pid`. Not every kernel has lists of children.
fn children(pid: u32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |child: &i32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    pids.filter(|child| parent(child) == Some(pid)).collect()
}

#[test]
fn a_reader_that_has_seen_enough_ends_all_with_one_line() {
    let nap = nap(26);
    let folder = tempfile::tempdir().unwrap();
    // Tasks that write, and one that sleeps and never writes.
    let script = "[ $1 != 2 ] || exec sleep \"$0\"; echo $1";
    let mut child = farm(folder.path(), "-j 2", &["sh", "-c", script, &nap]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        // Endless, until it has no reader.
        let mut number = 0;
        while writeln!(input, "{number}").is_ok() {
            number += 1;
        }
    });
    assert!(!line(&mut child).is_empty());
    drop(child.stdout.take());
    let came = Came::of(child.wait_with_output().unwrap());
    writer.join().unwrap();
    // As of a program that SIGPIPE has ended; the tasks that ran did not do what they were to do.
    assert_eq!((came.code, came.errors.len()), (Some(141), 1), "{came:?}");
    let told = "syncline: standard output has no reader any more; ";
    assert!(came.errors[0].starts_with(told), "{came:?}");
    assert!(came.errors[0].contains(" ended before they were done, "), "{came:?}");
    gone(&nap);
}

/// If there is no place for the tasks' output, all tasks end at once, and nothing is printed or
/// logged.
#[test]
fn outputs_that_cannot_be_kept_end_all() {
    let nap = nap(62);
    for options in ["", "-k"] {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        // One task writes more than is kept in memory, and then sleeps like the other.
        let script = "[ $1 = 2 ] || head -c 3000000 /dev/zero; exec sleep \"$0\"";
        let options = format!("-j 2 --joblog log {options}");
        let mut command = farm(folder.path(), &options, &["sh", "-c", script, &nap]);
        command.env("TMPDIR", &absent);
        let came = run(command, &numbers(2));
        assert_eq!((came.code, came.out.as_str()), (Some(1), ""), "{came:?}");
        let error = format!("error: cannot keep what task 1 wrote in {}: ", absent.display());
        assert_eq!(
            came.errors.iter().filter(|line| line.starts_with(&error)).count(),
            1,
            "{came:?}"
        );
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
        gone(&nap);
    }
}

#[test]
fn a_reader_that_is_gone_is_noticed_though_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let nap = nap(27);
    let mut child = sleeping(folder.path(), "", SLEEPS, &nap);
    let input = child.stdin.take();
    drop(child.stdout.take());
    let came = Came::of(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!(came.code, Some(141), "{came:?}");
    let expected = "syncline: standard output has no reader any more; 2 tasks: 0 done, 2 ended before they were \
                    done, the input was not read to its end";
    assert_eq!(came.summary(), (&[][..], expected));
    gone(&nap);
}

/// A reader that does not read does not delay the handling of signals.
#[test]
fn a_reader_that_stops_does_not_stop_signals() {
    let folder = tempfile::tempdir().unwrap();
    let script = "head -c 300000 /dev/zero; touch done.$1";
    let mut child = farm(folder.path(), "-j 2", &["sh", "-c", script, "_"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(numbers(10_000).as_bytes()).unwrap();
    until("an end of a task", || folder.path().join("done.1").exists());
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn outputs_that_nobody_reads_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let script = "head -c 4000000 /dev/zero; touch done.$1";
    let mut child = farm(folder.path(), "-j 2", &["sh", "-c", script, "_"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(numbers(120).as_bytes()).unwrap();
    until("an end of tasks", || folder.path().join("done.64").exists());
    thread::sleep(Duration::from_millis(300));
    // Some tasks may wait, some run, and one is being printed.
    assert!(!folder.path().join("done.80").exists());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 120 * 4_000_000));
}

#[test]
fn a_child_that_holds_the_pipe_does_not_hold_the_farm() {
    let (one, other) = (nap(28), nap(29));
    // One child in the process group, and one that has left it, which is not killed and does not
    // matter.
    let script = "(exec sleep \"$0\") & setsid sleep \"$1\" & echo started";
    let came = run(farm(Path::new("."), "", &["sh", "-c", script, &one, &other]), "x\n");
    assert_eq!((came.code, came.out.as_str()), (Some(0), "started\n"));
    gone(&one);
    // It ends with this test.
    let all = fs::read_dir("/proc").unwrap().flatten();
    let left = all.filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line == format!("sleep\0{other}\0").into_bytes()
    });
    for entry in left {
        let pid = entry.file_name().to_str().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

/// Returns how many processes sleep for this time and are not stopped.
fn awake(nap: &str) -> usize {
    let expected = format!("sleep\0{nap}\0").into_bytes();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let sleepers = all
        .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == expected));
    let stats =
        sleepers.map(|entry| fs::read_to_string(entry.path().join("stat")).unwrap_or_default());
    stats
        .filter(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('T')))
        .count()
}

/// At a terminal, Ctrl-Z stops tasks and their children, `fg` continues them, and Ctrl-C ends all.
#[test]
fn a_terminal_stops_continues_and_ends_tasks() {
    for (which, options) in [(41, ""), (42, "--protocol lines")] {
        let nap = nap(which);
        let shell = ["-qfec", "bash --norc --noprofile -i", "/dev/null"];
        let terminal =
            Command::new("script").args(shell).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut terminal = match terminal {
            Ok(terminal) => terminal,
            Err(error) => {
                return println!(
                    "skipped: script(1) makes terminals, and cannot be started: {error}"
                );
            }
        };
        let mut keys = terminal.stdin.take().unwrap();
        let program = env!("CARGO_BIN_EXE_syncline");
        let task = format!("sleep {nap} & exec sleep {nap}");
        writeln!(keys, "printf '1\\n2\\n' | {program} farm run -j 2 {options} -- sh -c '{task}' _")
            .unwrap();
        until("two sleepers for each task", || processes(&nap) == 4);
        for _ in 0..2 {
            keys.write_all(b"\x1a").unwrap();
            until("the stop of all", || awake(&nap) == 0);
            assert_eq!(processes(&nap), 4);
            writeln!(keys, "fg").unwrap();
            until("that all go on", || awake(&nap) == 4);
        }
        keys.write_all(b"\x03").unwrap();
        gone(&nap);
        writeln!(keys, "exit").unwrap();
        drop(keys);
        terminal.wait().unwrap();
    }
}
