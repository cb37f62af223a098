//! `syncline bench wave`: what it prints, and that nothing stays.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{command, fails_with, names};

/// What it prints; how far it is stands on standard error.
fn race(path: &Path, line: &str) -> String {
    let done = command(path, line).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn every_way_is_run_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench wave --rows 40 --cols 50 --iterations 3 --rounds 2 --no-numba --threads 2";
    let runs = race(folder.path(), &format!("{line} --json"));
    let runs: Vec<Value> = runs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ways: BTreeSet<_> = runs.iter().map(|run| run["way"].as_str().unwrap()).collect();
    assert_eq!(
        Vec::from_iter(&ways),
        [&"blocked", &"compute floor", &"disk floor", &"plain loop", &"streamed"]
    );
    assert_eq!(runs.len(), 2 * ways.len());
    assert!(runs.iter().all(|run| run["seconds"].as_f64().unwrap() > 0.0));
    let table = race(folder.path(), line);
    assert!(ways.iter().all(|way| table.contains(way)), "{table}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn the_least_matrix_is_raced_and_less_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    race(path, "bench wave --rows 3 --cols 3 --iterations 1 --rounds 1 --no-numba");
    for option in ["--memory 1M", "--rows 2", "--cols 0", "--rounds 0", "--iterations 0", "--threads 0"] {
        let refused = command(path, &format!("bench wave --no-numba {option}")).output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains(option.split(' ').next().unwrap()), "{said}");
    }
    let said = fails_with(1, path, "bench wave --no-numba --dir nowhere");
    assert!(said.contains("nowhere"), "{said}");
    fs::write(path.join("file"), "").unwrap();
    assert!(fails_with(1, path, "bench wave --no-numba --dir file").contains("file"));
    assert_eq!(names(path), ["file"]);
}
