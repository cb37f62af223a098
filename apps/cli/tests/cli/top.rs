//! `syncline top`: recorded, running, stuck, killed and started programs.
//!
//! The programs that record are this test binary, with the single test [`recorded`].

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use syncline_testkit::{again, as_role};
use syncline_trace::note::{self, Note, ObjectClass};
use syncline_trace::{Activity, Role, set_role, span};

use crate::common::{HANG, command, fails_with, is_ignored, ok, until};

/// The test that is a program that records.
const PROGRAM: &str = "top::role_of_a_process";
/// The variable that selects what it does.
const ROLE: &str = "SYNCLINE_CLI_TEST_TOP";

#[test]
#[ignore = "the program of other tests: does nothing by itself"]
fn role_of_a_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let lock = note::new_ids(1);
    note::add(|| [Note::Name { class: ObjectClass::Lock, id: lock, name: "the table".into() }]);
    match role.as_str() {
        "steps" => {
            set_role(Role::Worker(7));
            for iteration in 0..1000 {
                drop(span(Activity::Step, 3, iteration));
            }
            println!("the output of the program");
            std::process::exit(3);
        }
        // Two threads, each of which waits for the lock of the other one.
        "stuck" => {
            let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
            let both = Arc::new(Barrier::new(2));
            let threads = [0_usize, 1].map(|number| {
                let (locks, both) = (locks.clone(), Arc::clone(&both));
                thread::spawn(move || {
                    set_role(Role::Member(number as u32));
                    let _own = locks[number].lock();
                    both.wait();
                    let _wait = span(Activity::AwaitLock, lock, 0);
                    let _other = locks[1 - number].lock();
                })
            });
            // A test that fails leaves no program behind.
            thread::sleep(HANG);
            drop(threads);
        }
        other => panic!("{other}"),
    }
}

/// Starts the program with a role, recording to a file.
fn start(role: &str, trace: &Path) -> Child {
    let mut program = again(PROGRAM);
    program.env(ROLE, role).env(syncline_trace::VARIABLE, trace);
    program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the program at the end of a test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_recorded_run_is_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = start("steps", &folder.path().join("run.trace"));
    assert_eq!(program.wait().unwrap().code(), Some(3));
    let table = ok(folder.path(), "top --once run.trace");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("s  ended  "), "{table}");
    assert!(lines.iter().any(|line| line.starts_with("thread ")), "{table}");
    let worker = lines.iter().find(|line| line.starts_with("worker 7 ")).unwrap();
    assert!(worker.ends_with("  ended"), "{table}");
    // Without a terminal, the tables of a run that has ended are one.
    assert_eq!(ok(folder.path(), "top run.trace"), table);
}

#[test]
fn a_stuck_run_names_the_lock_and_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.trace");
    let mut program = Killed(start("stuck", &file));
    let mut table = String::new();
    until("the run is stuck", || {
        if file.exists() {
            let output = command(folder.path(), "top --once run.trace").output().unwrap();
            table = String::from_utf8(output.stdout).unwrap();
        }
        table.contains("STUCK")
    });
    let first = table.lines().next().unwrap();
    assert!(first.contains("  STUCK: all threads wait, for "), "{table}");
    assert!(first.contains("waits for lock \"the table\""), "{table}");
    for member in ["member 0 ", "member 1 "] {
        let line = table.lines().find(|line| line.starts_with(member)).unwrap();
        assert!(line.contains("waits for lock \"the table\", "), "{table}");
    }
    // What bounds the run is as in a report.
    assert!(table.lines().nth(1).unwrap().starts_with("The run is stuck: "), "{table}");

    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let killed = format!("  process {} was killed  ", program.0.id());
    until("the end is seen", || ok(folder.path(), "top --once run.trace").contains(&killed));
}

/// Returns `syncline top` with options, and the program in a role.
fn top(folder: &Path, options: &str, role: &str) -> Command {
    let mut command = command(folder, &format!("top {options} --"));
    command.arg(std::env::current_exe().unwrap()).args(as_role(PROGRAM)).env(ROLE, role);
    command
}

#[test]
fn a_program_is_started_recorded_and_its_output_printed() {
    let folder = tempfile::tempdir().unwrap();
    for options in ["", "own.trace", "own.trace --interval 10ms"] {
        let output = top(folder.path(), options, "steps").output().unwrap();
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stdout}");
        let after = stdout.rsplit_once("worker 7 ").unwrap().1;
        assert!(after.contains("the output of the program\n"), "{stdout}");
        assert_eq!(String::from_utf8(stderr).unwrap(), "");
        assert_eq!(folder.path().join("own.trace").exists(), !options.is_empty());
    }
}

#[test]
fn a_signal_ends_the_view_and_the_program() {
    if is_ignored(Signal::INT) || is_ignored(Signal::TERM) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut view = top(folder.path(), "run.trace --interval 10ms", "stuck")
        .stdout(fs::File::create(folder.path().join("output")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let printed = || fs::read_to_string(folder.path().join("output")).unwrap();
    until("the program waits", || printed().contains("waits for lock \"the table\""));
    kill_process(Pid::from_child(&view), Signal::TERM).unwrap();
    // The exit code is that of the program, which does not catch signals.
    assert_eq!(view.wait().unwrap().code(), Some(128 + 15));
}

/// The trace is written while it is followed, by two programs one after the other.
#[test]
fn a_trace_is_followed_from_before_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let mut view = command(folder.path(), "top run.trace --interval 10ms")
        .stdout(fs::File::create(folder.path().join("output")).unwrap())
        .spawn()
        .unwrap();
    let printed = || fs::read_to_string(folder.path().join("output")).unwrap();
    until("a table", || printed().contains("nothing recorded yet"));
    let mut stuck = Killed(start("stuck", &folder.path().join("run.trace")));
    until("the program waits", || printed().contains("waits for lock \"the table\""));
    stuck.0.kill().unwrap();
    stuck.0.wait().unwrap();
    assert!(view.wait().unwrap().success());
    assert!(printed().contains(&format!("process {} was killed", stuck.0.id())));
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = fails_with(1, folder.path(), "top --once missing.trace");
    assert!(error.starts_with("cannot open the trace missing.trace: "), "{error}");
    fs::File::create(folder.path().join("empty.trace")).unwrap();
    let error = fails_with(1, folder.path(), "top --once empty.trace");
    assert!(error.starts_with("empty.trace has no events"), "{error}");
    fs::File::create(folder.path().join("text")).unwrap().write_all(b"my thesis").unwrap();
    for options in ["--once ", ""] {
        let error = fails_with(1, folder.path(), &format!("top {options}text"));
        assert_eq!(error, "text is not a trace of Syncline");
    }
    let error = fails_with(1, folder.path(), "top -- ./no/such/program");
    assert!(error.starts_with("cannot start ./no/such/program: "), "{error}");
    let output = command(folder.path(), "top").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// The command draws on a terminal, and leaves it as it was, at its end and after a signal.
#[test]
fn a_terminal_is_restored() {
    let Some(script) = syncline_testkit::Tool::find("script") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_syncline");
    let role =
        format!("{} {}", std::env::current_exe().unwrap().display(), as_role(PROGRAM).join(" "));
    // The state of the terminal before and after, the view of a program that ends, and that of one
    // that is stuck, which a signal ends.
    let line = format!(
        "stty rows 20 cols 80; stty -a > before; {ROLE}=steps {program} top -- {role}; stty -a > after; \
         {ROLE}=stuck {program} top run.trace -- {role} & sleep 2; kill $!; wait $!; stty -a > killed"
    );
    script.run([
        "-qec",
        &format!("cd '{}'; {{ {line}; }}; true", folder.path().display()),
        folder.path().join("typescript").to_str().unwrap(),
    ]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let drawn = read("typescript");
    assert!(drawn.contains("\x1b[?1049h") && drawn.contains("q end   s sort   ? help"), "{drawn}");
    assert_eq!(
        drawn.matches("\x1b[?1049h").count(),
        drawn.matches("\x1b[?1049l").count(),
        "{drawn}"
    );
    let output = drawn.rsplit_once("the output of the program").expect("the program's output").0;
    assert!(output.contains("\x1b[?1049l"), "the output follows the view: {drawn}");
    assert_eq!(read("before"), read("after"));
    assert_eq!(read("before"), read("killed"));
}
