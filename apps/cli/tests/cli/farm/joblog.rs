//! The job log, and the resumption of an earlier run.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::common::fails;

/// Returns the rows of a log, without times: Seq, Host, Send, Receive, Exitval, Signal, Command;
/// sorted.
fn rows(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let mut lines = log.lines();
    let heads = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand";
    assert_eq!(lines.next(), Some(heads));
    let row = |line: &str| {
        let columns: Vec<_> = line.splitn(9, '\t').collect();
        assert!(
            columns[2].parse::<f64>().unwrap() > 1e9
                && columns[3].trim().parse::<f64>().unwrap() >= 0.0
        );
        [&columns[..2], &columns[4..]].concat().join(" ")
    };
    let mut rows: Vec<_> = lines.map(row).collect();
    rows.sort();
    rows
}

/// Returns how often each job ran; each writes its number to a file.
fn ran(folder: &Path) -> Vec<usize> {
    let text = fs::read_to_string(folder.join("ran")).unwrap_or_default();
    let mut ran: Vec<_> = text.lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    ran
}

const RUNS: &str = "echo $1 >> ran; ";

#[test]
fn a_log_has_the_columns_of_gnu_parallel() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $1; case $1 in 2) exit 3;; 3) kill -9 $$;; esac";
    let came =
        run(farm(folder.path(), "-j 4 --joblog log", &["sh", "-c", script, "_"]), "1\n2\n3\n4 a\n");
    assert_eq!(came.code, Some(1), "{came:?}");
    let command = |task: &str| format!("sh -c '{script}' _ {task}");
    let expected = [(1, "2 0 0", "1"), (2, "2 3 0", "2"), (3, "2 0 9", "3"), (4, "4 0 0", "'4 a'")]
        .map(|(number, columns, task)| format!("{number} : 0 {columns} {}", command(task)));
    assert_eq!(rows(folder.path()), expected);
    let came =
        run(farm(folder.path(), "--joblog /dev/null", &["{}"]), "no-such-program-anywhere\n");
    assert_eq!(came.code, Some(1), "{came:?}");
}

#[test]
fn resume_skips_what_the_log_has_and_may_run_again_what_failed() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{RUNS}echo $1; [ $1 -ne 3 ] || [ -e good ]");
    let again = |options: &str| {
        run(shell(folder.path(), &format!("-j 2 -k --joblog log {options}"), &script), &numbers(6))
    };
    let came = again("--halt soon,done=4 -j 1");
    assert_eq!((came.code, came.out), (Some(1), numbers(4)));
    let came = again("--resume");
    assert_eq!((came.code, came.out.as_str()), (Some(0), "5\n6\n"));
    assert_eq!(came.summary().1, "syncline: 2 tasks: 2 done, 4 skipped as the job log has them");
    // Once more: no job is left.
    let came = again("--resume");
    assert_eq!((came.code, came.out.as_str()), (Some(0), ""));
    assert_eq!((ran(folder.path()), rows(folder.path()).len()), (vec![1, 2, 3, 4, 5, 6], 6));
    let came = again("--resume-failed");
    assert_eq!((came.code, came.out.as_str()), (Some(1), "3\n"));
    let came = again("--resume-failed --dry-run");
    assert_eq!(
        (came.code, came.out.lines().count(), came.out.ends_with(" _ 3\n")),
        (Some(0), 1, true)
    );
    fs::write(folder.path().join("good"), "").unwrap();
    let came = again("--resume-failed");
    assert_eq!((came.code, came.out.as_str()), (Some(0), "3\n"));
    let came = again("--resume-failed");
    assert_eq!((came.code, came.out.as_str()), (Some(0), ""));
    assert_eq!((ran(folder.path()), rows(folder.path()).len()), (vec![1, 2, 3, 3, 3, 4, 5, 6], 8));
}

/// A job that was killed with the farm has no line, and runs again; a job that has a line does not.
#[test]
fn after_a_kill_each_job_that_has_no_line_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let nap = nap(30);
    // Jobs 3 and 4 hang in the first run only.
    let script = format!(
        "{RUNS}if [ $1 = 3 ] || [ $1 = 4 ]; then [ -e second ] || exec sleep \"$0\"; fi; echo $1"
    );
    let start =
        || farm(folder.path(), "-j 2 -k --joblog log --resume", &["sh", "-c", &script, &nap]);
    let mut child = start().spawn().unwrap();
    child.stdin.take().unwrap().write_all(numbers(6).as_bytes()).unwrap();
    until("two that sleep", || processes(&nap) == 2);
    // The thread that prints writes the lines of jobs 1 and 2, maybe after 3 and 4 have begun.
    until("the lines of jobs 1 and 2", || rows(folder.path()).len() == 2);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    gone(&nap);
    assert_eq!(rows(folder.path()).len(), 2);
    // A line that was not written to its end, as after a crash of the machine.
    let mut log = fs::read_to_string(folder.path().join("log")).unwrap();
    log.push_str("3\t:\t17955643");
    fs::write(folder.path().join("log"), log).unwrap();
    fs::write(folder.path().join("second"), "").unwrap();
    let came = run(start(), &numbers(6));
    assert_eq!((came.code, came.out.as_str()), (Some(0), "3\n4\n5\n6\n"));
    assert_eq!(ran(folder.path()), [1, 2, 3, 3, 4, 4, 5, 6]);
    assert_eq!(rows(folder.path()).len(), 6);
}

/// An output that waits for its turn, has no reader, or cannot be written has no line: it would be
/// lost.
#[test]
fn a_line_follows_the_output_of_its_job() {
    let nap = nap(61);
    // With -k the others wait for job 1; otherwise for a reader that does not read.
    let first = "[ $1 != 1 ] || [ -e again ] || exec sleep \"$0\"; echo $1";
    for (options, script) in [("-k", first), ("", "head -c 100000 /dev/zero; echo $1")] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("touch begun.$1; {script}; touch done.$1");
        let options = format!("-j 2 --joblog log --resume {options}");
        let start = || farm(folder.path(), &options, &["sh", "-c", &script, &nap]);
        let mut child = start().spawn().unwrap();
        child.stdin.take().unwrap().write_all(numbers(6).as_bytes()).unwrap();
        until("the end of the others", || {
            (2..=6).all(|job| folder.path().join(format!("done.{job}")).exists())
        });
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        gone(&nap);
        assert_eq!(rows(folder.path()), [""; 0]);
        fs::write(folder.path().join("again"), "").unwrap();
        let came = run(start(), &numbers(6));
        let printed = came.out.replace('\0', "");
        let mut lines: Vec<_> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!((came.code, lines), (Some(0), vec!["1", "2", "3", "4", "5", "6"]));
        assert_eq!(rows(folder.path()).len(), 6);
    }
    for options in ["", "-k", "--line-buffer"] {
        let folder = tempfile::tempdir().unwrap();
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = shell(folder.path(), &format!("-j 2 --joblog log {options}"), "echo $1");
        command.stdout(full);
        let came = run(command, &numbers(6));
        assert!(
            came.errors.iter().any(|line| line.contains("write to standard output")),
            "{came:?}"
        );
        assert_eq!((came.code, rows(folder.path()).len()), (Some(1), 0), "{options}");
    }
}

#[test]
fn a_log_that_is_none_or_of_another_run_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for text in ["precious\n", "precious", "Seq\tHost\n"] {
        for options in ["", "--resume", "--resume-failed"] {
            fs::write(&path, text).unwrap();
            let options = format!("--joblog log {options}");
            let error = fails(1, farm(folder.path(), &options, &["true", ":::", "1"]), &options);
            assert!(error.starts_with("cannot use log as job log: it is no job log"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
    // The error gives the reason why the log cannot be created, not that it does not exist.
    let error =
        fails(1, farm(folder.path(), "--joblog /sys/new", &["true", ":::", "1"]), "no place");
    assert!(
        error.starts_with("cannot write /sys/new: ") && !error.contains("No such file"),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    run(farm(folder.path(), "--joblog log -j 1", &["true"]), &numbers(3));
    let log = fs::read_to_string(&path).unwrap();
    for (options, program, why) in [
        ("", &["true"][..], "it has jobs of an earlier run: --resume goes on with them"),
        ("--resume", &["false"], "its line 2 has \"true 1\" as job 1, which is \"false 1\" here"),
        (
            "--resume",
            &["true", ":::", "1", "3"],
            "its line 3 has \"true 2\" as job 2, which is \"true 3\" here",
        ),
        ("--resume", &["true", ":::", "1", "2"], "it has job 3, and the input here has 2 in all"),
    ] {
        let mut command = farm(folder.path(), &format!("--joblog log {options}"), program);
        command.stdin(Stdio::from(fs::File::open(list(folder.path())).unwrap()));
        let error = fails(1, command, options);
        assert!(error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), log);
    }
}

/// Returns a file with three lines.
fn list(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("list");
    fs::write(&path, numbers(3)).unwrap();
    path
}

#[test]
fn one_farm_at_a_time_writes_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shell(folder.path(), "--joblog log", "echo $1").spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "1").unwrap();
    assert_eq!(line(&mut child), "1");
    let error = fails(1, shell(folder.path(), "--joblog log --resume", "echo $1"), "--resume");
    assert!(error.contains("another `syncline farm run` writes it"), "{error}");
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Job slots may differ from run to run.
#[test]
fn a_command_with_slots_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ $1 = 3 ]";
    let program = ["sh", "-c", script, "slot{%}", "{}"];
    run(farm(folder.path(), "-j 3 --joblog log", &program), &numbers(3));
    let came = run(farm(folder.path(), "-j 1 --joblog log --resume-failed", &program), &numbers(3));
    assert_eq!(
        came.summary().1,
        "syncline: 2 tasks: 0 done, 2 failed (first: task 1 exited with 1), 1 skipped as the job log has them"
    );
}
