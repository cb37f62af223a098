//! Members that die, processes that end too early, launchers that are killed: no wait for them
//! hangs.

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use syncline_process::watch::ProcessWatch;

use crate::common::{Played, finish, is_ignored, late, play, program};

/// Returns the launcher's only line about a process, without the PID.
fn only_news(played: &Played) -> String {
    let [line] = &played.news()[..] else { panic!("{played:?}") };
    let (before, after) = (line.find("(pid ").unwrap(), line.find(", rank").unwrap());
    format!("{}{}", &line[..before + 1], &line[after + 2..])
}

#[test]
fn survivors_are_told_of_one_that_is_killed() {
    let played = play(&mut program("killed"));
    assert_eq!(played.code, Some(128 + 9), "{played:?}");
    let cause = "process 1 (ranks 2 to 3) was killed by signal 9 in the middle of the run";
    assert_eq!(only_news(&played), format!("{cause}; the others have 10 s to end"));
    let [error, survivors @ ..] = &played.said[..] else { panic!("{played:?}") };
    assert!(error.starts_with("error: process 1 (pid "), "{error}");
    let expected = [0, 1, 4, 5].map(|rank| format!("rank {rank}: Err(Dead {{ rank: 2 }})"));
    assert_eq!(survivors, expected);
}

#[test]
fn survivors_are_told_of_one_that_exits() {
    let played = play(&mut program("exits"));
    // It exited with 0, but its part was not done.
    assert_eq!(played.code, Some(1), "{played:?}");
    let cause = "process 1 (rank 1) exited with 0 in the middle of the run";
    assert!(only_news(&played).starts_with(cause), "{played:?}");
    let expected = [0, 2].map(|rank| format!("rank {rank}: Err(Left {{ rank: 1 }})"));
    assert_eq!(played.said[1..], expected);
}

#[test]
fn survivors_are_told_of_one_that_stays_away() {
    let played = play(&mut program("some stay away"));
    assert_eq!(played.code, Some(1), "{played:?}");
    assert!(
        only_news(&played).starts_with("process 1 (rank 1) exited with 0 before it took part"),
        "{played:?}"
    );
    let expected = [0, 2].map(|rank| format!("rank {rank}: Err(Left {{ rank: 1 }})"));
    assert_eq!(played.said[1..], expected);
}

#[test]
fn what_a_process_leaves_behind_that_has_ended_well_is_told() {
    let played = play(&mut program("leaves things behind"));
    assert_eq!((played.code, played.news()), (Some(0), Vec::new()), "{played:?}");
    for (rank, line) in [0, 2].iter().zip(&played.said) {
        let start = format!("rank {rank}: rank 1 has left, ");
        assert!(line.starts_with(&start) && line.ends_with(", true"), "{played:?}");
    }
    let gone = "rank 1 has left, and the lock may never be free again";
    assert!(
        played.said.len() == 2 && played.said.iter().any(|line| line.contains(gone)),
        "{played:?}"
    );
}

#[test]
fn survivors_are_told_of_one_that_panics() {
    let played = play(&mut program("panics"));
    assert_eq!(played.code, Some(1), "{played:?}");
    let survivors: Vec<_> = played.said.iter().filter(|line| line.starts_with("rank")).collect();
    assert_eq!(
        survivors,
        [0, 1, 3].map(|rank| format!("rank {rank}: Err(Dead {{ rank: 2 }})")).each_ref()
    );
    assert!(
        played.said.iter().any(|line| line.starts_with("error: rank 2 panicked: ")),
        "{played:?}"
    );
    assert!(only_news(&played).starts_with("process 1 (ranks 2 to 3) exited with 1"), "{played:?}");
}

#[test]
#[ignore = "full: it waits for 10 s"]
fn who_does_not_end_is_ended() {
    let played = play(&mut program("fails, and the others stay"));
    assert_eq!(played.code, Some(7), "{played:?}");
    assert_eq!(played.news()[0], "2 processes have not ended in time: SIGTERM");
    assert!(played.news()[1].contains("exited with 7 in the middle of the run"), "{played:?}");
}

/// Starts a team and returns when all members have met: its launcher and its processes.
fn waiting() -> (std::process::Child, Vec<ProcessWatch>) {
    let mut child = Command::spawn(&mut program("waits for ever")).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut watches = Vec::new();
    while watches.len() < 3 {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some(pid) = line.trim().strip_prefix("said: pid ") {
            watches.push(ProcessWatch::new(pid.parse().unwrap()).unwrap());
        }
    }
    child.stderr = Some(stderr.into_inner());
    (child, watches)
}

#[test]
fn processes_end_with_their_launcher() {
    let (mut launcher, watches) = waiting();
    launcher.kill().unwrap();
    for watch in &watches {
        assert!(watch.wait_exit(late()).unwrap());
    }
    let played = finish(launcher);
    assert_eq!(played.code, None);
    let expected =
        [0, 1, 2].map(|n| format!("process {n} (rank {n}) ends: the launcher of its team is gone"));
    assert_eq!(played.news(), expected);
}

#[test]
fn signals_are_passed_on() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        if is_ignored(signal) {
            println!(
                "skipped: signal {} is ignored here, as it is in a job in the background",
                signal.as_raw()
            );
            continue;
        }
        let (launcher, watches) = waiting();
        kill_process(Pid::from_child(&launcher), signal).unwrap();
        for watch in &watches {
            assert!(watch.wait_exit(late()).unwrap());
        }
        let played = finish(launcher);
        assert_eq!((played.code, played.news()), (Some(code), Vec::new()), "{played:?}");
    }
}
