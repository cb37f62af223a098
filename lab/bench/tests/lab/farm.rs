//! Checks the output of `syncline-lab bench farm`. Times are not checked.

use std::path::Path;

use crate::common::{all, fails_with, names, of, ok, records, refused};

/// Returns the output of the shortest possible run.
fn farm(folder: &Path, line: &str, path: Option<&Path>) -> (String, String) {
    ok(folder, &format!("bench farm --quick --rounds 1 --held 8 {line}"), path)
}

#[test]
fn every_group_has_times_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, _) = farm(folder.path(), "--json", None);
    let records = records(&printed);
    let (cells, skipped) = (of(&records, "cell"), of(&records, "skipped"));
    assert_eq!(of(&records, "machine").len(), 1);
    let groups = ["bytes", "cold", "integers", "span", "tasks", "trip", "warm"];
    assert_eq!(Vec::from_iter(all(&cells, "group")), groups);
    for cell in &cells {
        let [best, median, p90] =
            ["best", "median", "p90"].map(|name| cell[name].as_f64().unwrap());
        assert!(0.0 < best && best <= median && median <= p90, "{cell}");
        assert!(cell["samples"].as_u64().unwrap() > 0 && cell["rounds"] == 1, "{cell}");
    }
    let ways = all(&cells, "way");
    for way in [
        "spawn, this command (glibc)",
        "spawn, this command, manager holding memory",
        "Pool::run, asleep",
        "default policy, anywhere",
        "futex, anywhere",
        "Numbers<u64>: read",
        "memcpy",
        "Pool::map, batches of 1",
    ] {
        assert!(ways.contains(way), "{ways:?}");
    }
    // A way is present or skipped, with the reason.
    assert!(skipped.iter().all(|line| !line["why"].as_str().unwrap().is_empty()));
    assert!(all(&skipped, "way").is_disjoint(&ways));
    let targets = of(&records, "target");
    assert!(targets.len() > 10 && targets.iter().all(|target| target["met"].is_boolean()));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn without_python_and_mpi_they_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, said) = farm(folder.path(), "--only a --json", Some(folder.path()));
    let records = records(&printed);
    // The groups whose names contain an a.
    assert_eq!(Vec::from_iter(all(&of(&records, "cell"), "group")), ["span", "tasks", "warm"]);
    let skipped = of(&records, "skipped");
    assert_eq!(Vec::from_iter(all(&skipped, "why")), ["no python3 (apt-get install python3)"]);
    assert!(said.contains("skipped: executor.submit, hot: no python3"), "{said}");
    let (table, _) = farm(folder.path(), "--only cold", Some(folder.path()));
    let words = [
        "spawn, this command (glibc)",
        "MPI_Comm_spawn: no mpicc (apt-get install openmpi-bin",
        "no lab/peers/farm_worker here",
    ];
    assert!(words.into_iter().all(|words| table.contains(words)), "{table}");
    assert!(["  met", "  missed"].into_iter().any(|words| table.contains(words)), "{table}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), "bench farm --rounds 0", "--rounds");
    // Only a farm can start these.
    assert!(fails_with(1, folder.path(), "farm-worker echo").contains("not started by one"));
    assert!(fails_with(1, folder.path(), "farm-worker serve").contains("not started by one"));
}
