//! `syncline probe disk`, and blocks that are chosen by the speed of a disk.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{command, fails_with, json, lk23_on_disk, names, npy, ok, refused, until};

const PATTERNS: [&str; 7] = ["read", "block", "rows", "row", "column", "frame", "write"];

fn probe(path: &Path, line: &str) -> Value {
    serde_json::from_str(&ok(path, &format!("{line} --json"))).unwrap()
}

/// Returns the samples of a way, in order.
fn samples<'p>(probe: &'p Value, way: &str) -> Vec<&'p Value> {
    let all = probe["samples"].as_array().unwrap();
    all.iter().filter(|sample| sample["way"] == way).collect()
}

#[test]
fn a_disk_is_measured_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let found = probe(path, "probe disk . --size 9M --quick");
    assert_eq!(
        (&found["bytes"], &found["block"]),
        (&(8 << 20).into(), &serde_json::json!([512, 512]))
    );
    for way in ["direct", "mapped"] {
        let of = samples(&found, way);
        if way == "direct" && !found["direct_lacks"].is_null() {
            println!("skipped: direct: {}", found["direct_lacks"]);
            assert!(of.is_empty());
            continue;
        }
        let names: Vec<_> = of.iter().map(|sample| sample["pattern"].as_str().unwrap()).collect();
        assert_eq!(names, PATTERNS);
        assert!(of.iter().all(|sample| sample["bytes_per_second"].as_f64().unwrap() > 0.0));
        assert_eq!(of[4]["pieces"], 512);
    }
    assert!(found["disk"]["read"].as_f64().unwrap() > 0.0);
    // Either fio is installed and has a figure for each pattern, or the report says why not.
    let fio = samples(&found, "fio").len();
    assert!(fio == PATTERNS.len() || !found["fio_lacks"].is_null(), "{found}");
    let table = ok(path, "probe disk . --size 9M --quick");
    for part in PATTERNS.iter().chain(&[
        "direct",
        "mapped",
        "MiB/s",
        "a piece",
        "--block auto",
        "512 x 512",
    ]) {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert_eq!(names(path), Vec::<String>::new());
}

#[test]
fn memory_is_no_disk() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: there is no /dev/shm");
    };
    let table = ok(folder.path(), "probe disk . --size 8M --quick");
    assert!(table.contains("direct: not there: the file system keeps files in memory"), "{table}");
    assert!(table.contains("NOT cold") && table.contains("fio: skipped: "), "{table}");
}

#[test]
fn without_fio_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        command(folder.path(), "probe disk . --size 8M --quick").env("PATH", "").output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("fio: skipped: "), "{table}");
}

#[test]
fn the_table_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let help = ok(folder.path(), "help probe");
    for part in PATTERNS.iter().chain(&["mapped", "tmpfs", "fio", "--block auto"]) {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("file"), "").unwrap();
    refused(path, "probe disk nowhere", &["nowhere"]);
    refused(path, "probe disk file", &["file"]);
    refused(path, "probe disk . --size 900000G", &["966368563200000 bytes", "free"]);
    let small = command(path, "probe disk . --size 1M").output().unwrap();
    assert_eq!(small.status.code(), Some(2));
    assert!(String::from_utf8(small.stderr).unwrap().contains("at least 8M"));
}

#[test]
fn a_signal_ends_a_probe_without_a_trace() {
    // The last size is large enough to be interrupted, on any machine.
    for size in ["256M", "1G", "4G"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(folder.path(), &format!("probe disk . --size {size}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The thread that handles signals, and the one that works.
        let tasks = format!("/proc/{}/task", child.id());
        let works = |child: &mut Child| {
            fs::read_dir(&tasks).unwrap().count() > 1 || child.try_wait().unwrap().is_some()
        };
        until("its work", || works(&mut child));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(names(folder.path()), Vec::<String>::new());
        if output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        return;
    }
    panic!("a probe is not interrupted");
}

#[test]
fn blocks_of_a_run_are_chosen_by_the_disk() {
    let folder = lk23_on_disk(600, 700);
    let path = folder.path();
    ok(path, "run lk23 data --iterations 3 --output plain.npy");
    let report = json(
        path,
        "run lk23 data --iterations 3 --block auto --memory 16M --verify --output auto.npy",
    );
    assert_eq!((&report["executor"], &report["held"]), (&"blocked".into(), &false.into()));
    let chosen = report["chosen"].as_str().unwrap();
    let block = format!("blocks of {} x {}", report["block"][0], report["block"][1]);
    assert!(chosen.contains(&block) && chosen.contains("a piece"), "{chosen}");
    assert!(npy(&path.join("plain.npy")) == npy(&path.join("auto.npy")));

    let text =
        ok(path, "run lk23 data --iterations 3 --block auto --memory 1G --output auto.npy --force");
    assert!(text.contains("\nchosen ") && text.contains("fit the memory"), "{text}");
    assert!(
        json(path, "run lk23 data --iterations 1 --block 64 --output auto.npy --force")["chosen"]
            .is_null()
    );

    let said = ok(path, "convert data framed --layout framed --block auto --memory 12M");
    assert!(
        said.contains("\nchosen: blocks of ") && said.contains("an iteration expected"),
        "{said}"
    );
    let report = json(
        path,
        "run lk23 framed --iterations 3 --block auto --memory 16M --output auto.npy --force",
    );
    assert_eq!(report["chosen"], "the blocks that the data have");
    assert!(npy(&path.join("plain.npy")) == npy(&path.join("auto.npy")));
    let said = ok(path, "convert data blocked --layout blocked --block auto --memory 1G");
    assert!(
        said.contains("an eighth of the longer side within 64 to 2048, as all matrices fit"),
        "{said}"
    );
}

/// Nine-point kernels need bands; too little memory is refused as without auto.
#[test]
fn chosen_blocks_are_those_that_the_kernel_can_have() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "gen poisson data --rows 500 --cols 900");
    let report =
        json(path, "run nine-point data --iterations 2 --block auto --memory 14M --verify");
    assert_eq!((&report["block"][1], &report["verified"]), (&900.into(), &true.into()));
    let said = fails_with(1, path, "run sor data --iterations 2 --block auto --memory 1M");
    assert!(said.contains("allow at least"), "{said}");
}
