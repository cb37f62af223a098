//! `--trace` and `syncline report`: what a run did is in its report, whatever happened to the run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use syncline_browser::check_page;
use syncline_testkit::mpi::MPIS;

use crate::common::{command, fails_with, lk23_on_disk, ok, until};
use crate::rma::{ends, under};
use crate::team::launch;

/// Returns the report of a trace.
fn report(path: &Path, trace: &str) -> Value {
    ok(path, &format!("report {trace} --output {trace}.json --force"));
    let text = fs::read_to_string(path.join(format!("{trace}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Writes the page of a trace and clicks through it.
fn page(path: &Path, trace: &str) -> Option<syncline_browser::Seen> {
    ok(path, &format!("report {trace} --output {trace}.html"));
    check_page(&path.join(format!("{trace}.html")))
}

/// Checks that a command line is refused, and what the message contains.
fn misused(path: &Path, line: &str, parts: &[&str]) {
    let said = fails_with(2, path, line);
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

/// Runs a command that succeeds, and says once where its trace is.
fn says_where_it_is(command: Command, line: &str) {
    let output = ends(command, line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("trace: a.trace; syncline report a.trace").count(), 1, "{said}");
}

fn grid<'r>(report: &'r Value, name: &str) -> &'r Value {
    report["grids"].as_array().unwrap().iter().find(|grid| grid["name"] == name).unwrap()
}

#[test]
fn a_run_in_blocks_is_reported_step_by_step() {
    let folder = lk23_on_disk(512, 256);
    let path = folder.path();
    let run =
        "run lk23 data --iterations 6 --executor blocked --block 16 --threads 2 --trace a.trace";
    ok(path, run);
    let report = report(path, "a.trace");
    let grid = grid(&report, "block");
    assert_eq!(grid["tasks"].as_array().unwrap().len(), 512);
    let rows = grid["work"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let steps = rows.iter().flat_map(|row| row.as_array().unwrap());
    assert!(
        steps.clone().all(|step| step.as_f64().unwrap() >= 0.0),
        "every block in every iteration"
    );
    let progress = &report["progress"][0]["points"];
    assert_eq!(progress.as_array().unwrap().last().unwrap()[1], 512.0 * 6.0);
    let wave = &report["wave"];
    assert_eq!((&wave["rows"], &wave["cols"]), (&32.into(), &16.into()));
    // The wave: a block begins an iteration after the blocks above and to the left have ended it.
    let steps = |row: usize, col: usize| wave["steps"][row * 16 + col].as_array().unwrap().clone();
    for (row, col) in [(1, 0), (5, 7), (31, 15)] {
        for iteration in 0..6 {
            let begin = steps(row, col)[iteration][0].as_f64().unwrap();
            if row > 0 {
                assert!(begin >= steps(row - 1, col)[iteration][1].as_f64().unwrap());
            }
            if col > 0 {
                assert!(begin >= steps(row, col - 1)[iteration][1].as_f64().unwrap());
            }
        }
    }
    assert_eq!(report["missing"].as_array().unwrap().len(), 0, "{}", report["missing"]);
    if let Some(seen) = page(path, "a.trace") {
        for panel in ["grids", "wave", "overlay", "progress"] {
            assert!(seen.panels.iter().any(|name| name == panel), "{:?}", seen.panels);
        }
    }
}

#[test]
fn a_streamed_run_is_reported() {
    let folder = lk23_on_disk(1024, 512);
    let path = folder.path();
    ok(path, "run lk23 data --iterations 8 --executor streamed --depth 2 --trace a.trace");
    let report = report(path, "a.trace");
    let read: f64 = grid(&report, "read")["work"].as_array().unwrap().len() as f64;
    assert!(read >= 1.0);
    let facts = report["facts"].as_array().unwrap();
    assert!(
        facts.iter().any(|fact| fact[0] == "sweep.executor" && fact[1] == "streamed"),
        "{facts:?}"
    );
    // Every panel is in the matrix once, however many passes there were.
    let wave = &report["wave"];
    let passes: usize = facts.iter().find(|fact| fact[0] == "sweep.passes").unwrap()[1]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let steps = wave["steps"].as_array().unwrap();
    let most = steps.iter().map(|steps| steps.as_array().unwrap().len()).max();
    assert_eq!((wave["unit"].as_str(), most), (Some("pass"), Some(passes)));
    let disk = &report["disk"];
    let bytes = |kind: &str| -> f64 {
        let bin = disk["bin"].as_f64().unwrap();
        disk[kind].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap() * bin).sum()
    };
    // Each array is read at least once, and the field is written.
    let field = 1024.0 * 512.0 * 8.0;
    assert!(bytes("read") >= 6.0 * field, "{}", bytes("read"));
    assert!(bytes("written") >= 0.99 * field, "{}", bytes("written"));
    if let Some(seen) = page(path, "a.trace") {
        assert!(!seen.empty.iter().any(|panel| panel == "disk"), "{seen:?}");
    }
}

#[test]
fn two_runs_are_compared() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    ok(path, "run lk23 data --iterations 4 --executor blocked --block 64 --trace a.trace");
    ok(path, "run lk23 data --iterations 4 --executor blocked --block 32 --trace b.trace --force");
    let text = ok(path, "report a.trace b.trace --output both.html");
    assert!(text.contains("The second run took"), "{text}");
    check_page(&path.join("both.html"));
    misused(
        path,
        "report a.trace b.trace --output both.json",
        &["two traces are compared on a page"],
    );
}

#[test]
fn exports_are_written() {
    let folder = lk23_on_disk(128, 128);
    let path = folder.path();
    ok(path, "run lk23 data --iterations 4 --executor blocked --block 32 --trace a.trace");
    ok(path, "report a.trace --output a.csv");
    ok(path, "report a.trace --output a.pftrace");
    let text = fs::read_to_string(path.join("a.csv")).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("iteration")).count(), 16 * 4);
    assert!(fs::metadata(path.join("a.pftrace")).unwrap().len() > 1000);
}

#[test]
fn bad_traces_are_named() {
    let folder = lk23_on_disk(256, 256);
    let path = folder.path();
    let run = "run lk23 data --iterations 40 --executor blocked --block 16 --trace a.trace";
    ok(path, run);
    let whole = fs::read(path.join("a.trace")).unwrap();
    // Twice the run, as a fast one may be a single frame.
    let twice = [&whole[..], &whole[..]].concat();
    fs::write(path.join("cut.trace"), &twice[..twice.len() - 10]).unwrap();
    let text = ok(path, "report cut.trace");
    assert!(text.contains("note: cut.trace is cut off: its last "), "{text}");
    fs::write(path.join("short.trace"), &whole[..100]).unwrap();
    fs::write(path.join("other.trace"), "no trace").unwrap();
    fs::write(path.join("empty.trace"), "").unwrap();
    let mut newer = whole.clone();
    newer[8] = 9;
    fs::write(path.join("newer.trace"), newer).unwrap();
    for (name, why) in [
        ("other.trace", "other.trace is not a trace of Syncline"),
        ("empty.trace", "empty.trace has no events"),
        ("short.trace", "short.trace has no events: short.trace is cut off: its last 100 bytes"),
        (
            "newer.trace",
            "newer.trace has version 9 of the trace format; this program has version 1",
        ),
        ("missing.trace", "cannot open the trace missing.trace"),
    ] {
        let said = fails_with(1, path, &format!("report {name}"));
        assert!(said.contains(why), "{said}");
    }
    misused(path, "report a.trace --output a.txt", &["does not say what to write"]);
    fs::write(path.join("mine.html"), "my page").unwrap();
    misused(path, "report a.trace --output mine.html", &["mine.html exists already", "--force"]);
    ok(path, "report a.trace --output mine.html --force");
    ok(path, "report a.trace --output mine.html");
    // A trace is not written over another file.
    fs::write(path.join("thesis"), "chapter 1").unwrap();
    let line = "run lk23 data --iterations 1 --force --trace thesis";
    let said = fails_with(1, path, line);
    assert!(said.contains("thesis is not a trace of Syncline"), "{said}");
    assert_eq!(fs::read_to_string(path.join("thesis")).unwrap(), "chapter 1");
    // One file is not the trace and the output, or the trace and its report.
    let line = "run lk23 data --iterations 1 --force --output both.npy --trace ./both.npy";
    misused(path, line, &["./both.npy cannot be both the trace and the output"]);
    assert!(!path.join("both.npy").exists());
    fs::write(path.join("trace.html"), &whole).unwrap();
    misused(path, "report trace.html --output ./trace.html --force", &["trace.html is a trace"]);
    assert!(fs::read(path.join("trace.html")).unwrap() == whole);
    // A copy is no trace of another host.
    let steps = |name| report(path, name)["progress"].clone();
    let alone = steps("a.trace");
    fs::write(path.join("a.trace.old"), &whole).unwrap();
    assert_eq!(steps("a.trace"), alone);
    // Without its first frame, a short trace tells no time.
    let mut damaged = whole.clone();
    damaged[20] ^= 1;
    fs::write(path.join("damaged.trace"), damaged).unwrap();
    let text = command(path, "report damaged.trace").output().unwrap();
    let text = [text.stdout, text.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("damaged.trace is damaged") && !text.contains("inf"), "{text}");
    // A run that is refused leaves the trace of the run before.
    let before = fs::read(path.join("a.trace")).unwrap();
    fails_with(1, path, run);
    assert!(fs::read(path.join("a.trace")).unwrap() == before);
    let pipe = path.join("pipe");
    let fifo = Command::new("mkfifo").arg(&pipe).status();
    if fifo.is_ok_and(|status| status.success()) {
        let said = fails_with(1, path, "report pipe");
        assert!(said.contains("no regular file"), "{said}");
        let line = "run lk23 data --iterations 1 --force --trace pipe";
        let said = fails_with(1, path, line);
        assert!(said.contains("cannot open the trace pipe: it is a pipe"), "{said}");
    }
}

#[test]
fn what_a_killed_run_wrote_counts() {
    let folder = lk23_on_disk(512, 512);
    let path = folder.path();
    let run = "run lk23 data --iterations 1000000 --executor blocked --block 32 --trace a.trace";
    let mut child = command(path, run).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    until("the trace has events", || {
        fs::metadata(path.join("a.trace")).is_ok_and(|file| file.len() > 100_000)
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let report = report(path, "a.trace");
    let missing = report["missing"].to_string();
    assert!(missing.contains("did not end its recording"), "{missing}");
    let done = report["progress"][0]["points"].as_array().unwrap().last().unwrap()[1].as_f64();
    assert!(done.unwrap() > 1000.0);
}

#[test]
fn the_tasks_of_a_farm_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let line = "farm run -j 2 --trace a.trace -- true ::: 1 2 3 4 5 6";
    says_where_it_is(command(path, line), line);
    let report = report(path, "a.trace");
    let farm = &report["farm"];
    let mut tasks: Vec<u64> =
        farm["tasks"].as_array().unwrap().iter().map(|task| task[1].as_u64().unwrap()).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2, 3, 4, 5, 6]);
    let workers = farm["workers"].as_array().unwrap();
    assert!(workers.iter().all(|worker| worker == "slot 1" || worker == "slot 2"), "{workers:?}");
    page(path, "a.trace");
}

#[test]
fn the_processes_of_a_team_write_one_trace() {
    let folder = lk23_on_disk(512, 256);
    let path = folder.path();
    let run = "run lk23 data --iterations 6 --quiet --output o.npy";
    says_where_it_is(launch(path, "-n 3 --trace a.trace", run), run);
    let report = report(path, "a.trace");
    let lanes = report["lanes"].as_array().unwrap();
    let members = (0..3).map(|rank| format!("member {rank}"));
    for member in members {
        assert!(lanes.iter().any(|lane| lane["name"] == *member), "{member}: {lanes:?}");
    }
    let missing = report["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 0, "{missing:?}");
    page(path, "a.trace");
}

/// Ranks of MPI that exchange messages: the marks of both ends are matched.
#[test]
fn messages_between_hosts_are_reported() {
    let Some(mpi) = MPIS.iter().find(|mpi| mpi.is_here()) else {
        println!("skipped: no MPI");
        return;
    };
    let folder = lk23_on_disk(512, 256);
    let path = folder.path();
    let line = "run lk23 data --iterations 6 --quiet --output o.npy --trace a.trace";
    let Some(mut command) = under(mpi, 4, line) else { return };
    command.current_dir(path).env("SYNCLINE_PER_HOST", "1");
    let output = ends(command, line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(path, "a.trace");
    let messages = &report["messages"];
    assert_eq!(messages["peers"].as_array().unwrap().len(), 4, "{messages}");
    let arrows = messages["arrows"].as_array().unwrap();
    assert!(!arrows.is_empty());
    let time = |arrow: &Value, end: usize| arrow[end].as_f64().unwrap();
    assert!(arrows.iter().all(|arrow| time(arrow, 2) <= time(arrow, 3)), "sent before received");
    if let Some(seen) = page(path, "a.trace") {
        assert!(!seen.empty.iter().any(|panel| panel == "messages"), "{seen:?}");
    }
}
