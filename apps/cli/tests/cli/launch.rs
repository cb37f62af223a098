//! `syncline launch`: processes of a team, or of any program.
//!
//! The program that takes part in a team is this test binary, with the single test [`member`].

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use syncline_fabric::Team;
use syncline_sync::BarrierMember as _;

use crate::common::{HANG, command, fails_with, is_ignored, until};

/// Returns `syncline launch` with these options, and a program with its arguments.
fn launch(options: &str, program: &[&str]) -> Command {
    let mut command = command(Path::new("."), &format!("launch {options} --"));
    command.args(program).env("SYNCLINE_QUIET", "1").env_remove("SYNCLINE_TEAM");
    command
}

/// Returns the exit code, and the sorted lines of standard output and of standard error.
fn run(command: &mut Command) -> (Option<i32>, Vec<String>, Vec<String>) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let lines = |bytes| {
        let mut lines: Vec<_> =
            String::from_utf8(bytes).unwrap().lines().map(String::from).collect();
        lines.sort();
        lines
    };
    (status.code(), lines(stdout), lines(stderr))
}

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    let Ok(role) = std::env::var("SYNCLINE_CLI_TEST_ROLE") else { return };
    if role == "returns 3" {
        let ended =
            Team::run(|me| if me.rank() == 1 { 3 } else { i32::from(me.wait().is_err()) }).unwrap();
        // The members that were notified end first.
        std::thread::sleep(Duration::from_millis(if ended == [3] { 300 } else { 0 }));
        std::process::exit(ended[0]);
    }
    let ended = Team::run(|me| {
        if role == "killed" && me.rank() == 1 {
            kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
        }
        let waited = me.barrier().wait_deadline(Some(Instant::now() + HANG));
        let line = format!("rank {} of {}: {waited:?}\n", me.rank(), me.size());
        // In one write, because other members write to the same stream.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    });
    ended.unwrap();
    std::process::exit(0);
}

fn team(options: &str, role: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let program = [
        program.to_str().unwrap(),
        "--exact",
        "launch::role_of_a_process",
        "--ignored",
        "--nocapture",
    ];
    let mut command = launch(options, &program);
    command.env("SYNCLINE_CLI_TEST_ROLE", role);
    command
}

#[test]
fn members_meet() {
    for (options, size) in [("-n 1", 1), ("-n 3", 3), ("-n 2 --threads 2 --memory 1M", 4)] {
        let (code, _, said) = run(&mut team(options, "meet"));
        let expected: Vec<_> =
            (0..size).map(|rank| format!("rank {rank} of {size}: Ok(())")).collect();
        assert_eq!((code, said), (Some(0), expected));
    }
}

#[test]
fn the_death_of_a_member_is_told() {
    let (code, _, said) = run(&mut team("-n 3", "killed"));
    assert_eq!(code, Some(137));
    let [one, other, news] = &said[..] else { panic!("{said:?}") };
    assert_eq!(one, "rank 0 of 3: Err(Dead { rank: 1 })");
    assert_eq!(other, "rank 2 of 3: Err(Dead { rank: 1 })");
    assert!(
        news.starts_with("syncline: process 1 (pid ") && news.contains("was killed by signal 9"),
        "{news}"
    );
}

#[test]
fn what_the_environment_says_in_vain_is_said() {
    let (code, _, errors) = run(launch("-n 2", &["true"]).env("SYNCLINE_PER_HOST", "1"));
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(code, Some(0));
    assert!(error.contains("SYNCLINE_PER_HOST is not for `syncline launch`"), "{error}");
}

/// The other members fail because of it, and end first.
#[test]
fn the_first_cause_is_how_the_command_ends() {
    for _ in 0..5 {
        let (code, _, said) = run(&mut team("-n 3", "returns 3"));
        assert_eq!(code, Some(3), "{said:?}");
    }
}

#[test]
fn any_program_runs() {
    let (code, lines, errors) =
        run(&mut launch("-n 3", &["sh", "-c", "echo \"$1\"", "_", "two words"]));
    assert_eq!((code, lines, errors), (Some(0), vec!["two words".to_owned(); 3], Vec::new()));
}

#[test]
#[ignore = "full: it waits for 10 s"]
fn the_exit_code_is_that_of_the_first_that_fails() {
    let first = "case $SYNCLINE_TEAM in *process=1\\ *) exit 7;; *) exec sleep 300;; esac";
    // The others end on request, after a while.
    let (code, _, errors) = run(&mut launch("-n 2", &["sh", "-c", first]));
    assert_eq!(code, Some(7));
    assert!(
        errors[0].starts_with("syncline: 1 process has not ended in time: SIGTERM"),
        "{errors:?}"
    );
    assert!(errors[1].contains("exited with 7"), "{errors:?}");
    let (code, _, errors) = run(&mut launch("-n 1", &["sh", "-c", "kill -9 $$"]));
    assert_eq!((code, errors.len()), (Some(137), 1), "{errors:?}");
}

#[test]
fn processes_that_fail_after_the_first_are_told_in_one_line() {
    let (code, _, errors) = run(&mut launch("-n 5", &["sh", "-c", "exit 3"]));
    let [others, first] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(code, Some(3));
    assert!(first.starts_with("syncline: process "), "{errors:?}");
    assert!(first.contains(") exited with 3 before it took part"), "{errors:?}");
    assert!(others.starts_with("syncline: after that, processes "), "{errors:?}");
    assert!(others.ends_with(" exited with 3 before they took part"), "{errors:?}");
}

/// Each message is one write, so those of several processes do not mix within a line.
#[test]
fn each_message_is_written_in_one_piece() {
    let usage = "run lk23 --bogus data";
    for (line, pieces) in [(usage, 1), ("run lk23 nowhere --iterations 2", 1), ("bench x", 1)] {
        // A datagram is one write.
        let (reader, stderr) = UnixDatagram::pair().unwrap();
        let status = command(Path::new("."), line).stderr(OwnedFd::from(stderr)).status().unwrap();
        assert!(!status.success());
        reader.set_nonblocking(true).unwrap();
        let mut bytes = [0; 1 << 16];
        let all: Vec<String> = std::iter::from_fn(|| {
            let len = reader.recv(&mut bytes).ok().filter(|&len| len > 0)?;
            Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
        })
        .collect();
        assert_eq!(all.len(), pieces, "{line}: {all:?}");
        assert!(all[0].starts_with("error: ") && all[0].ends_with('\n'), "{line}: {all:?}");
    }
}

#[test]
fn signals_are_passed_on() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        if is_ignored(signal) {
            continue;
        }
        let mut command = launch("-n 2", &["sh", "-c", "echo ready; exec sleep 300"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(2);
        assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), ["ready"; 2]);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), &output.stderr[..]),
            (Some(code), &b""[..]),
            "{output:?}"
        );
    }
}

/// An ignored SIGINT stays ignored, as a shell sets it for what a script starts by `&`. SIGUSR1
/// asks for the progress.
#[test]
fn signals_that_end_nothing() {
    for line in ["launch -n 1 --", "farm run --"] {
        let folder = tempfile::tempdir().unwrap();
        let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
        let program = "touch ready; until [ -e go ]; do sleep 0.02; done";
        let mut command = Command::new("sh");
        command.current_dir(folder.path()).env_remove("SYNCLINE_TEAM").stdin(Stdio::null());
        command.args(["-c", "trap '' INT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_syncline")]);
        command.args(line.split(' ')).args(["sh", "-c", program]);
        if line.starts_with("farm") {
            command.args([":::", "1"]);
        }
        let mut child = command.spawn().unwrap();
        until("the program runs", || ready.exists());
        for signal in [Signal::INT, Signal::USR1] {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        std::fs::write(go, "").unwrap();
        assert!(child.wait().unwrap().success(), "{line}");
    }
}

#[test]
fn what_cannot_be_launched_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = fails_with(1, folder.path(), "launch -n 2 -- ./no-such-program x");
    assert!(
        error.starts_with("cannot start ./no-such-program as process 0 of the team: No such file"),
        "{error}"
    );
    let error = fails_with(2, folder.path(), "launch -n 64 --threads 65 -- true");
    assert_eq!(error, "a team has 1 to 4096 members, not 64 processes x 65 threads");
    let error = fails_with(1, folder.path(), "launch -n 2 --memory 1K -- true");
    assert!(error.starts_with("the team's shared memory: no room"), "{error}");
    let usage = |line: &str| {
        let output = command(folder.path(), line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let hint = usage("launch -n 4 ./prog --size 7");
    assert!(
        hint.contains("write `--` before the program: syncline launch -n 4 -- ./prog --size 7"),
        "{hint}"
    );
    for line in [
        "launch -- true",
        "launch -n 0 -- true",
        "launch -n 4097 -- true",
        "launch -n 2",
        "launch -n 2 true",
    ] {
        assert_eq!(command(folder.path(), line).output().unwrap().status.code(), Some(2), "{line}");
    }
}

/// More than the address space of any machine.
#[test]
fn memory_that_the_system_does_not_have_is_told_by_the_option() {
    let told = "the system does not reserve 100000.0 TiB of memory for the team: ";
    for (options, variable, asked) in
        [("-n 1 --memory 100000T", "1G", "--memory"), ("-n 1", "100000T", "SYNCLINE_MEMORY")]
    {
        let (code, _, errors) = run(launch(options, &["true"]).env("SYNCLINE_MEMORY", variable));
        assert_eq!((code, errors.len()), (Some(1), 1), "{errors:?}");
        assert!(errors[0].contains(told), "{errors:?}");
        assert!(errors[0].ends_with(&format!("; give a smaller {asked}")), "{errors:?}");
    }
}
