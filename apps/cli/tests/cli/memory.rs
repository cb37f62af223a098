//! The memory bound is kept, and bytes are counted as in the papers' model.

use std::path::Path;

use serde_json::Value;
use syncline_store::{Block, DataDir, ElementType, Grid, io_model};

use crate::common::{json, lk23_on_disk, ok, refused};

fn peak_and_bound(report: &Value) -> (u64, u64) {
    (report["peak_rss"].as_u64().unwrap(), report["memory"].as_u64().unwrap())
}

/// Counted reads and writes per iteration, against the model.
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
    let model = io_model(field.layout(), Grid::new(field.shape(), size), 5, ElementType::Float64).unwrap();
    for (name, expected) in [("bytes_read", model.read), ("bytes_written", model.written)] {
        let ratio = report[name].as_u64().unwrap() as f64 / (iterations * expected) as f64;
        assert!((0.98..=1.02).contains(&ratio), "{dir} {name}: {ratio} of the model, {report}");
    }
}

#[test]
fn runs_larger_than_the_bound_stay_inside_it() {
    let folder = lk23_on_disk(1024, 1024);
    let path = folder.path();
    ok(path, "convert data blocked --layout blocked --block 128");
    ok(path, "convert data framed --layout framed --block 128");
    let mut first = None;
    for dir in ["data", "blocked", "framed"] {
        for options in [
            "--executor blocked --memory 24M --verify",
            "--executor blocked --memory 15M",
            "--memory 20M --runner threads --order barrier",
        ] {
            let report =
                json(path, &format!("run lk23 {dir} --iterations 2 {options} --output o.npy --force"));
            let (peak, bound) = peak_and_bound(&report);
            assert!(peak <= bound, "{dir} {options}: {report}");
            assert_eq!(report["held"], false);
            let result = std::fs::read(path.join("o.npy")).unwrap();
            assert!(*first.get_or_insert_with(|| result.clone()) == result, "{dir} {options}");
        }
    }
    // 56 MiB of files fit, and are held.
    let report = json(path, "run lk23 data --iterations 2 --executor blocked --memory 80M");
    let (peak, bound) = peak_and_bound(&report);
    assert!(report["held"] == true && peak <= bound && peak > 56 << 20, "{report}");

    check_traffic(path, "data", "256x512", Block::new(256, 512));
    check_traffic(path, "blocked", "128", Block::new(128, 128));
    check_traffic(path, "framed", "128", Block::new(128, 128));
}

#[test]
fn many_small_blocks_count_too() {
    let folder = lk23_on_disk(300, 300);
    for options in ["--block 4 --memory 36M", "--block 30 --runner threads --memory 20M"] {
        let report = json(folder.path(), &format!("run lk23 data --iterations 2 --force {options}"));
        let (peak, bound) = peak_and_bound(&report);
        assert!(peak <= bound, "{options}: {report}");
    }
    let parts = ["10.0 MiB (10485760 bytes)", "4 x 4", "all 5625", "allow at least"];
    refused(folder.path(), "run lk23 data --iterations 2 --force --block 4 --memory 10M", &parts);
}

/// Runs with the bound that the error of a smaller one names; returns the report.
fn with_the_least(path: &Path, line: &str, small: &str, parts: &[&str]) -> Value {
    refused(path, &format!("{line} --memory {small}"), parts);
    let error = crate::common::fails_with(1, path, &format!("{line} --memory {small}"));
    let least = error.rsplit_once("allow at least ").unwrap().1.replace(' ', "");
    let report = json(path, &format!("{line} --memory {least}"));
    let (peak, bound) = peak_and_bound(&report);
    assert!(peak <= bound, "{line} --memory {least}: {report}");
    report
}

#[test]
fn what_is_said_to_be_the_least_suffices() {
    let folder = lk23_on_disk(512, 512);
    let path = folder.path();
    ok(path, "convert data framed --layout framed --block 128");
    for line in ["data --executor blocked", "framed"] {
        let line = format!("run lk23 {line} --iterations 1 --output o.npy --force");
        let block = ["1.0 MiB (1048576 bytes)", "one block of ", " of 6 matrices", "allow at least"];
        with_the_least(path, &line, "1M", &block);
        with_the_least(path, &line, "4M", &["one block of "]);
    }
    let window =
        ["1.0 MiB (1048576 bytes)", "a pass of 1 iteration, with rows of 512 from 6 matrices, takes"];
    for threads in [1, 2, 8] {
        let line = format!("run lk23 data --iterations 3 --force --verify --threads {threads}");
        let report = with_the_least(path, &line, "1M", &window);
        assert_eq!(report["executor"], "streamed");
        let line = format!("{line} --depth 3 --lanes scalar");
        let report = with_the_least(path, &line, "1M", &["a pass of 3 iterations"]);
        assert_eq!((&report["depth"], &report["passes"]), (&Value::from(3), &Value::from(1)));
    }
}

#[test]
fn streamed_runs_larger_than_the_bound_stay_inside_it() {
    let folder = lk23_on_disk(1024, 1024);
    let path = folder.path();
    ok(path, "gen lk23 single --rows 1500 --cols 1100 --dtype float32");
    for dir in ["data", "single"] {
        // The program itself takes up to 12 MiB of it, as its file happens to be mapped; the least that suffices is below.
        for options in ["--memory 18M --verify", "--memory 20M --depth 2", "--memory 32M --threads 5"] {
            let report =
                json(path, &format!("run lk23 {dir} --iterations 8 {options} --output o.npy --force"));
            let (peak, bound) = peak_and_bound(&report);
            assert!(peak <= bound, "{dir} {options}: {report}");
            let field = report["rows"].as_u64().unwrap() * report["cols"].as_u64().unwrap();
            let bytes = field * if dir == "data" { 8 } else { 4 };
            let passes = report["passes"].as_u64().unwrap();
            assert_eq!(report["bytes_read"].as_u64().unwrap() / bytes, 6 * passes, "{report}");
            assert_eq!(report["bytes_written"].as_u64().unwrap() / bytes, passes, "{report}");
        }
    }
}

#[test]
fn without_a_bound_most_of_the_machine_is_allowed() {
    let folder = lk23_on_disk(5, 5);
    let report = json(folder.path(), "run lk23 data --iterations 1");
    assert!(report["memory"].as_u64().unwrap() > 16 << 20);
}
