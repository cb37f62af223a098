//! Checks that the memory bound is kept, and that bytes are counted as in the papers' model.
//!
//! There are two measures: the kernel's peak of resident memory, which each report contains, less
//! the program's own file; and a control group ([`Group`]) that kills a run which exceeds the bound
//! plus the named shares.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use syncline_blocks::plan::io_model;
use syncline_store::array::Array;
use syncline_store::{Block, DataDir, ElementType, Grid};
use syncline_testkit::is_soak;

use crate::cgroup::{Group, of_the_kernel, unfit};
use crate::common::{command, json, lk23_on_disk, ok, refused, succeeds};

/// Returns the most of a report's memory that the bound governs, and the bound.
fn peak_and_bound(report: &Value) -> (u64, u64) {
    let of = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(of("peak"), of("peak_rss").saturating_sub(of("program")), "{report}");
    // The reported size of the program's own file is at most that of its file and libraries.
    let file = std::fs::metadata(env!("CARGO_BIN_EXE_syncline")).unwrap().len();
    assert!(of("program") <= file + (16 << 20), "{report}");
    (of("peak"), of("memory"))
}

/// Runs a line that must stay within its bound, by both measures; returns the report.
///
/// The limit of the control group is the bound plus the shares of the program and of the kernel.
fn inside(path: &Path, line: &str) -> Value {
    let lines = format!("{line} --json");
    let of = || command(path, &lines);
    is_inside(path, line, &of, 0)
}

/// Does what [`inside`] says for a command that prints a report, and that has memory of its own.
fn is_inside(path: &Path, line: &str, of: &dyn Fn() -> Command, beside: u64) -> Value {
    let report: Value = serde_json::from_str(&succeeds(of(), line)).unwrap();
    let (peak, bound) = peak_and_bound(&report);
    assert!(peak <= bound, "{line}: {report}");
    let program = report["program"].as_u64().unwrap();
    survives(path, line, of, bound + program + beside, &report);
    report
}

/// Runs a line in a control group of this many bytes and the share of the kernel, whose report of a
/// run outside is given.
fn survives(path: &Path, line: &str, of: &dyn Fn() -> Command, bytes: u64, report: &Value) {
    let threads = report["threads"].as_u64().unwrap() * 3 + 8;
    let limit = bytes + of_the_kernel(report["memory"].as_u64().unwrap(), threads);
    let group = unfit(path).map_or_else(|| Group::new(limit), Err);
    let group = match group {
        Ok(group) => group,
        Err(why) => return println!("skipped: {line} in a control group: {why}"),
    };
    let ended = group.run(&of()).unwrap();
    assert!(ended.status.success() && group.kills() == 0, "{line} within {limit} bytes: {ended:?}");
}

/// The kernel may drop all of the program's file, and read it again. Whether a program goes on
/// whose every page is taken from it depends on the kernel and on its age: a law that holds mostly.
#[test]
#[ignore = "soak: it depends on what the kernel drops first"]
fn soak_runs_stay_inside_without_the_share_of_the_program() {
    if !is_soak("it depends on what the kernel drops first") {
        return;
    }
    let folder = lk23_on_disk(1024, 1024);
    for options in
        ["--executor blocked --memory 24M", "--executor blocked --memory 8M", "--memory 20M"]
    {
        let line = format!("run lk23 data --iterations 2 {options} --output o.npy --force");
        let report = inside(folder.path(), &line);
        let lines = format!("{line} --json");
        let of = || command(folder.path(), &lines);
        survives(folder.path(), &line, &of, report["memory"].as_u64().unwrap(), &report);
    }
}

/// Checks the counted reads and writes per iteration against the model.
fn check_traffic(path: &Path, dir: &str, block: &str, size: Block) {
    let iterations = 3;
    let line = format!(
        "run lk23 {dir} --iterations {iterations} --block {block} --memory 24M --output o.npy --force"
    );
    // In the layout of the input, so that the written blocks are those of the model.
    let line = if dir == "data" { line } else { line.replace("o.npy", "o") };
    let report = json(path, &line);
    assert_eq!(report["held"], false, "{report}");
    let field = DataDir::open(&path.join(dir)).unwrap().matrix::<f64>("za").unwrap();
    let model =
        io_model(field.layout(), Grid::new(field.shape(), size), 5, ElementType::Float64).unwrap();
    for (name, expected) in [("bytes_read", model.read), ("bytes_written", model.written)] {
        let ratio = report[name].as_u64().unwrap() as f64 / (iterations * expected) as f64;
        assert!((0.98..=1.02).contains(&ratio), "{dir} {name}: {ratio} of the model, {report}");
    }
}

#[test]
#[ignore = "full: many runs in control groups"]
fn runs_larger_than_the_bound_stay_inside_it() {
    let folder = lk23_on_disk(1024, 1024);
    let path = folder.path();
    ok(path, "convert data blocked --layout blocked --block 128");
    ok(path, "convert data framed --layout framed --block 128");
    let mut first = None;
    for dir in ["data", "blocked", "framed"] {
        for options in [
            "--executor blocked --memory 24M --verify",
            "--executor blocked --memory 8M",
            "--executor blocked --memory 24M --trace o.trace",
            "--memory 20M --runner threads --order barrier",
        ] {
            let report = inside(
                path,
                &format!("run lk23 {dir} --iterations 2 {options} --output o.npy --force"),
            );
            assert_eq!(report["held"], false);
            let result = std::fs::read(path.join("o.npy")).unwrap();
            assert!(*first.get_or_insert_with(|| result.clone()) == result, "{dir} {options}");
        }
    }
    // One block, with the windows of all six matrices, fills the bound.
    let line = "run lk23 data --iterations 2 --block 256x1024 --output o.npy --force";
    with_the_least(path, line, "1M", &["one block of 256 x 1024 of 6 matrices"]);
    // 56 MiB of files fit, and stay resident.
    let report =
        inside(path, "run lk23 data --iterations 2 --executor blocked --memory 80M --force");
    assert!(report["held"] == true && peak_and_bound(&report).0 > 56 << 20, "{report}");

    check_traffic(path, "data", "256x512", Block::new(256, 512));
    check_traffic(path, "blocked", "128", Block::new(128, 128));
    check_traffic(path, "framed", "128", Block::new(128, 128));
}

#[test]
fn many_small_blocks_count_too() {
    let folder = lk23_on_disk(300, 300);
    for options in ["--block 4 --memory 26M", "--block 30 --runner threads --memory 12M"] {
        inside(folder.path(), &format!("run lk23 data --iterations 2 --force {options}"));
    }
    let parts = ["10.0 MiB (10485760 bytes)", "4 x 4", "all 5625", "allow at least"];
    refused(folder.path(), "run lk23 data --iterations 2 --force --block 4 --memory 10M", &parts);
}

/// Runs with the bound that the error of a smaller one names; returns the report.
fn with_the_least(path: &Path, line: &str, small: &str, parts: &[&str]) -> Value {
    refused(path, &format!("{line} --memory {small}"), parts);
    let error = crate::common::fails_with(1, path, &format!("{line} --memory {small}"));
    let least = error.rsplit_once("allow at least ").unwrap().1.replace(' ', "");
    inside(path, &format!("{line} --memory {least}"))
}

/// Returns the tenths of a MiB at the end of a text.
fn tenths(text: &str) -> u64 {
    let number = text.trim_end().strip_suffix(" MiB").unwrap_or_else(|| panic!("{text}"));
    number.rsplit(' ').next().unwrap().replace('.', "").parse().unwrap_or_else(|_| panic!("{text}"))
}

/// The least bound is the sum of the program's part and that of the least piece of work.
#[test]
fn the_parts_of_a_bound_that_is_too_small_add_up() {
    let folder = lk23_on_disk(300, 300);
    let mut lines = Vec::new();
    for memory in ["0", "1K", "77K", "512K", "1M", "1500K", "2M"] {
        for options in
            ["", "--executor blocked --block 100", "--executor streamed --threads 40", "--block 4"]
        {
            lines.push(format!("run lk23 data --iterations 3 --memory {memory} {options}"));
        }
        lines.push(format!("convert data out --layout blocked --memory {memory}"));
    }
    for line in lines {
        let error = crate::common::fails_with(1, folder.path(), &line);
        let (parts, all) =
            error.split_once("; allow at least ").unwrap_or_else(|| panic!("{line}: {error}"));
        let (own, needed) =
            parts.split_once("own data take ").unwrap().1.split_once(", and ").unwrap();
        let own = own.split_once(" (").map_or(own, |(own, _)| own);
        assert_eq!(tenths(own) + tenths(needed), tenths(all), "{line}: {error}");
    }
}

#[test]
#[ignore = "full: many runs in control groups"]
fn what_is_said_to_be_the_least_suffices() {
    let folder = lk23_on_disk(512, 512);
    let path = folder.path();
    ok(path, "convert data framed --layout framed --block 128");
    for line in ["data --executor blocked", "framed"] {
        let line = format!("run lk23 {line} --iterations 1 --output o.npy --force");
        let block =
            ["1.0 MiB (1048576 bytes)", "one block of ", " of 6 matrices", "allow at least"];
        with_the_least(path, &line, "1M", &block);
        with_the_least(path, &line, "1500K", &["one block of "]);
    }
    let window = [
        "1.0 MiB (1048576 bytes)",
        "a pass of 1 iteration, with rows of 512 from 6 matrices, takes",
    ];
    for threads in [1, 2, 8] {
        let line = format!(
            "run lk23 data --iterations 3 --force --executor streamed --verify --threads {threads}"
        );
        let report = with_the_least(path, &line, "1M", &window);
        assert_eq!(report["executor"], "streamed");
        let line = format!("{line} --depth 3 --lanes scalar");
        let report = with_the_least(path, &line, "1M", &["a pass of 3 iterations"]);
        assert_eq!((&report["depth"], &report["passes"]), (&Value::from(3), &Value::from(1)));
    }
}

/// Rows so wide that the window of each matrix is several MiB: a window that is not counted is
/// noticed.
#[test]
fn the_least_of_wide_rows_suffices() {
    let folder = lk23_on_disk(40, 30_000);
    let line = "run lk23 data --iterations 2 --executor streamed --output o.npy --force";
    let report = with_the_least(folder.path(), line, "1M", &["with rows of 30000 from 6 matrices"]);
    let (peak, bound) = peak_and_bound(&report);
    assert!(peak > bound / 2, "the bound is not much more than what is needed: {report}");
}

/// A kernel over arrays of few long rows: a copy of them on each side, and one for each level.
#[test]
fn the_least_of_few_long_rows_suffices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for edges in ["\"clamped\"", "0"] {
        let update = "u = (old.n + old.s + old.e + old.w) / 4";
        let text = format!("name = \"c\"\nfield = \"u\"\nedges = {edges}\nupdate = \"{update}\"");
        std::fs::write(path.join("c.toml"), text).unwrap();
        for (rows, cols) in [(1, 1_000_000), (3, 400_000)] {
            let array = Array::zeros(ElementType::Float64, &[rows, cols]).unwrap();
            std::fs::remove_file(path.join("u.npy")).ok();
            array.create(&path.join("u.npy")).unwrap().commit().unwrap();
            let line = "run c.toml . --iterations 5 --output o.npy --force";
            let parts = ["the buffers of a pass", "turn the arrays", "allow at least"];
            let report = with_the_least(path, line, "1M", &parts);
            let (_, bound) = peak_and_bound(&report);
            assert!(bound < (rows * cols * 8 * 7 + (8 << 20)) as u64, "{report}");
        }
    }
}

#[test]
#[ignore = "full: 14 s: many runs in control groups"]
fn streamed_runs_larger_than_the_bound_stay_inside_it() {
    let folder = lk23_on_disk(1024, 1024);
    let path = folder.path();
    ok(path, "gen lk23 single --rows 1500 --cols 1100 --dtype float32");
    for dir in ["data", "single"] {
        for options in [
            // Of the least that vectors of any width need.
            "--memory 16M --verify",
            "--memory 16M --depth 2",
            "--memory 24M --threads 5",
            "--memory 40M",
            // What the threads record counts.
            "--memory 50M --depth 2 --trace o.trace",
        ] {
            let report = inside(
                path,
                &format!("run lk23 {dir} --iterations 8 {options} --output o.npy --force"),
            );
            let field = report["rows"].as_u64().unwrap() * report["cols"].as_u64().unwrap();
            let bytes = field * if dir == "data" { 8 } else { 4 };
            let passes = report["passes"].as_u64().unwrap();
            assert_eq!(report["bytes_read"].as_u64().unwrap() / bytes, 6 * passes, "{report}");
            assert_eq!(report["bytes_written"].as_u64().unwrap() / bytes, passes, "{report}");
        }
    }
}

/// The bounds of the members of a host are one bound for all, with what they share.
#[test]
#[ignore = "full: 15 s: many runs in control groups"]
fn the_members_of_a_host_stay_inside_the_sum_of_their_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen lk23 data --rows 1200 --cols 1600");
    for (team, run) in [
        ("-n 3", "--iterations 60 --depth 3 --memory 24M"),
        ("-n 3", "--iterations 30 --memory 32M"),
        ("-n 2 --threads 2", "--iterations 30 --memory 24M"),
    ] {
        let run = format!("run lk23 data {run} --json --output o.npy --force");
        let of = || {
            let mut team = command(path, &format!("launch {team} --"));
            team.arg(env!("CARGO_BIN_EXE_syncline"))
                .args(run.split(' '))
                .env("SYNCLINE_QUIET", "1");
            team
        };
        // The launcher, and the kernel's memory for all processes but one.
        is_inside(path, &format!("launch {team} -- {run}"), &of, 12 << 20);
    }
}

#[test]
fn without_a_bound_most_of_the_machine_is_allowed() {
    let folder = lk23_on_disk(5, 5);
    let report = json(folder.path(), "run lk23 data --iterations 1");
    assert!(report["memory"].as_u64().unwrap() > 16 << 20);
}
