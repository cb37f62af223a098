//! When a keeper is killed, its process groups end, even if they have closed their descriptors.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use syncline_process::guard::{Guard, Unstarted, serve};
use syncline_process::{Spawn, mark::EnvironmentMark, watch::ProcessWatch};
use syncline_testkit::{again, as_role};

const ROLE: &str = "SYNCLINE_PROCESS_TEST_ROLE";
const VARIABLE: &str = "SYNCLINE_PROCESS_TEST_MARK";

fn late() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(300))
}

/// A command that runs this test program in a role.
fn program(name: &str) -> Spawn<'static> {
    let mut spawn = Spawn::new(std::env::current_exe().unwrap());
    spawn.args(as_role("role_of_a_process")).env(ROLE, name);
    spawn
}

fn guard() -> Guard {
    Guard::start(VARIABLE, |mark| program(&format!("guard {}", mark.value()))).unwrap()
}

/// What a keeper prints when it has started its group.
const STARTED: &str = "started";

/// Starts a child that sleeps, prints its own number, closes the descriptors it has inherited, and
/// sleeps.
const STUBBORN: &str =
    "sleep 4000 & exec sh -c 'echo $$; exec 0<&- 1>&- 2>&- 3>&-; exec env -i sleep 4000'";

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ') {
        Some(("guard", mark)) => serve(&EnvironmentMark::of(VARIABLE, mark.to_owned())).unwrap(),
        _ => {
            // On one processor the test runner has begun a line.
            println!();
            let mut guard = guard();
            let output = std::io::stdout();
            let mut spawn = Spawn::new("sh");
            let _group =
                guard.spawn(spawn.args(["-c", STUBBORN]).stream(1, output.as_fd())).unwrap();
            println!("{STARTED}");
            std::thread::sleep(Duration::from_secs(300));
        }
    }
    std::process::exit(0);
}

#[test]
fn a_killed_keeper_leaves_nothing() {
    let mut keeper =
        again("role_of_a_process").env(ROLE, "keeper").stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(keeper.stdout.take().unwrap());
    let mut line = String::new();
    // The test runner prints something first. The group removes the mark from its environment, by
    // which a guard finds groups whose start was interrupted: so the start must have ended.
    let (mut pid, mut started) = (None, false);
    while pid.is_none() || !started {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the keeper ended early");
        started |= line.trim() == STARTED;
        pid = line.trim().parse().ok().or(pid);
    }
    let pid = pid.unwrap();
    let group = ProcessWatch::new(pid).unwrap();
    assert!(!group.has_exited().unwrap());
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert!(group.wait_exit(late()).unwrap(), "the group outlives its keeper");
    // The other `sleep` of the group still holds the pipe until it is killed.
    output.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn groups_that_ended_are_forgotten_and_the_rest_ends_with_the_guard() {
    let mut guard = guard();
    for code in [0, 3] {
        let group = guard
            .spawn(Spawn::new("sh").args(["-c", &format!("sleep 4000 & exit {code}")]))
            .unwrap();
        assert_eq!(guard.finish(group).unwrap().code(), Some(code));
    }
    let error = guard.spawn(&mut Spawn::new("syncline-no-such-program")).unwrap_err();
    assert!(matches!(error, Unstarted::Process(_)), "{error:?}");
    let group = guard.spawn(Spawn::new("sleep").args(["4000"])).unwrap();
    drop(guard);
    assert!(group.leader.wait_exit(late()));
}
