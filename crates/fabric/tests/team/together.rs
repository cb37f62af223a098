//! Teams of processes that end well, or cannot begin.

use std::process::{Command, Stdio};

use crate::common::{TOLD, is_warning, play, program};

#[test]
fn processes_meet() {
    let played = play(&mut program("meet"));
    let expected: Vec<_> =
        (0..3).map(|rank| format!("rank {rank} of 3: ({rank}, 0, 3, 1) Ok(())")).collect();
    assert_eq!((played.code, &played.said), (Some(0), &expected), "{played:?}");
    assert_eq!(played.news(), [""; 0]);
    assert!(played.told.iter().filter(|line| is_warning(line)).count() <= 1);
}

#[test]
fn threads_of_processes_meet() {
    let played = play(&mut program("meet, two threads each"));
    let place = |rank| format!("rank {rank} of 6: ({}, {}, 3, 2) Ok(())", rank / 2, rank % 2);
    let expected: Vec<_> = (0..6).map(place).collect();
    assert_eq!((played.code, &played.said), (Some(0), &expected), "{played:?}");
    assert_eq!(played.news(), [""; 0]);
}

#[test]
fn a_team_may_have_arguments_of_its_own() {
    let played = play(&mut program("other arguments"));
    assert_eq!((played.code, played.said), (Some(0), vec!["--test-threads=1".to_owned()]));
}

#[test]
fn another_order_is_named_and_nobody_waits_for_it() {
    let played = play(&mut program("another order"));
    assert_eq!(played.code, Some(0), "{played:?}");
    let told = "rank 0 makes a barrier, rank 1 makes a barrier of another kind or size: all members must make \
                the same things in the same order";
    let expected = [0, 1].map(|rank| format!("rank {rank}: {told}"));
    assert_eq!(played.said, expected, "{played:?}");
}

#[test]
fn a_process_that_joins_after_a_difference_is_told_what_the_others_are() {
    let file = format!("told-{}", std::process::id());
    let told = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let played = play(program("one joins after a difference").env(TOLD, &told));
    std::fs::remove_file(&told).unwrap();
    assert_eq!(played.code, Some(0), "{played:?}");
    // Either of the two may have been the first to allocate.
    let asked = [(0, 800), (1, 1600)]
        .map(|(rank, bytes)| format!("rank {rank} allocates {bytes} bytes of memory"));
    let [one, other] = &asked;
    let must = "all members must make the same things in the same order";
    let expected = |what: String| [0, 1, 2].map(|rank| format!("rank {rank}: {what}: {must}"));
    let either = [expected(format!("{one}, {other}")), expected(format!("{other}, {one}"))];
    assert!(either.iter().any(|expected| played.said == *expected), "{played:?}");
}

#[test]
fn inside_a_team_there_are_only_threads() {
    let played = play(&mut program("nested"));
    assert_eq!((played.code, played.said.len()), (Some(0), 2), "{played:?}");
    for (rank, line) in played.said.iter().enumerate() {
        let error = format!(
            "rank {rank} is in a team already: inside it, only a team of threads can be made"
        );
        assert_eq!(*line, format!("rank {rank}: [2, 2], {error}, {error}"));
    }
}

#[test]
fn a_launched_process_takes_part_once() {
    let played = play(&mut program("twice"));
    // The launcher of the first team is a launcher of the second as well; its processes refuse.
    assert_eq!(played.code, Some(101), "{played:?}");
    let error = "error: process 0 of the team has taken part already: a launched process runs its team once";
    assert_eq!(played.said, [error], "{played:?}");
}

/// Returns the processes with that command line.
fn sleepers(nap: &str) -> Vec<i32> {
    let line = format!("sleep\0{nap}\0").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|of| of == line))
        .collect()
}

/// Processes that were left behind end with the launcher's run, however their parents ended; a
/// process that has left its group remains.
#[test]
fn what_processes_leave_behind_ends_with_the_team() {
    let nap = |which: u32| format!("{}.{which}", 2_000_000 + std::process::id());
    // One that becomes `sleep` only after this test ends by itself, and keeps no output open.
    let apart = |which: u32| format!("600.{}{which}", std::process::id());
    for (which, end) in [(1, "exit 0"), (2, "exit 3"), (3, "kill -9 $$")] {
        let apart = format!("setsid sleep {} >/dev/null 2>&1", apart(which));
        let script = format!("sleep {} & ({apart} &); {end}", nap(which));
        let ended =
            syncline_fabric::Launcher::new("sh").args(["-c", &script]).processes(2).quiet().run();
        assert_eq!(ended.is_ok(), which == 1, "{ended:?}");
        assert_eq!(sleepers(&nap(which)), [], "{end}");
    }
    // These are in sessions of their own, and end with this test.
    for pid in (1..4).flat_map(|which| sleepers(&apart(which))) {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
}

#[test]
fn a_program_may_stay_away_if_all_do() {
    let launcher = syncline_fabric::Launcher::new("true").processes(3);
    launcher.run().unwrap();
    let played = play(&mut program("stays away"));
    assert_eq!((played.code, played.told), (Some(0), Vec::new()));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = syncline_fabric::Launcher::new("/no/such/program").processes(2).run().unwrap_err();
    let text = "cannot start /no/such/program as process 0 of the team: No such file";
    assert!(error.to_string().starts_with(text), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn a_launcher_that_would_not_be_told_of_deaths_refuses() {
    let there = program("meet");
    if !Command::new("env")
        .args(["--ignore-signal=CHLD", "true"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return println!(
            "skipped: env has no --ignore-signal here, so no program that ignores SIGCHLD was started"
        );
    }
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(there.get_program()).args(there.get_args());
    for (name, value) in there.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let played = play(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!((played.code, played.said.len()), (Some(1), 1), "{played:?}");
    assert!(played.said[0].contains("this process ignores SIGCHLD"), "{played:?}");
}

#[test]
fn garbage_in_the_environment_is_named() {
    let fields = "process=0 processes=2 threads=1 cores=2";
    let cases = [
        ("rubbish".to_owned(), "is \"rubbish\": \"rubbish\" stands where version= is expected"),
        (
            format!("version=4 segment=900 lifeline=901 {fields}"),
            "names descriptor 900 as the team's memory, but Bad file",
        ),
        (
            format!("version=4 segment=1 lifeline=2 {fields}"),
            "names descriptor 1 as the team's memory, but it is another kind of file",
        ),
    ];
    for (value, why) in cases {
        for role in ["meet", "meet, from the environment"] {
            let played = play(program(role).env("SYNCLINE_TEAM", &value));
            assert_eq!((played.code, played.said.len()), (Some(1), 1), "{played:?}");
            let line = &played.said[0];
            assert!(line.contains("SYNCLINE_TEAM") && line.contains(why), "{line}");
        }
    }
}
