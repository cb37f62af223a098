//! Checks the output of `syncline-lab bench`, and that it leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{all, command, fails_with, names, of, ok, records, refused};

#[test]
fn every_way_is_run_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench wave --rows 40 --cols 50 --iterations 3 --rounds 2 --no-numba --threads 2";
    let (runs, _) = ok(folder.path(), &format!("{line} --json"), None);
    let runs = records(&runs);
    let ways = all(&runs.iter().collect::<Vec<_>>(), "way");
    assert_eq!(
        Vec::from_iter(&ways),
        [&"blocked", &"compute floor", &"disk floor", &"plain loop", &"streamed"]
    );
    assert_eq!(runs.len(), 2 * ways.len());
    assert!(runs.iter().all(|run| run["seconds"].as_f64().unwrap() > 0.0));
    let (table, _) = ok(folder.path(), line, None);
    assert!(ways.iter().all(|way| table.contains(way)), "{table}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn the_cost_of_recording_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench trace --rows 200 --cols 300 --iterations 3 --rounds 2 --memory 24";
    let (runs, _) = ok(folder.path(), &format!("{line} --json"), None);
    let runs = records(&runs);
    assert_eq!(runs.len(), 2 * 5);
    assert!(runs.iter().all(|run| run["seconds"].as_f64().unwrap() > 0.0));
    let traced = runs.iter().filter(|run| run["way"] == "on");
    assert!(traced.clone().count() == 2 && traced.clone().all(|run| run["bytes"].is_number()));
    let (table, _) = ok(folder.path(), line, None);
    assert!(table.contains("with a trace / without"), "{table}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn the_least_matrix_is_raced_and_less_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    ok(path, "bench wave --rows 3 --cols 3 --iterations 1 --rounds 1 --no-numba", None);
    for option in
        ["--memory 1M", "--rows 2", "--cols 0", "--rounds 0", "--iterations 0", "--threads 0"]
    {
        refused(path, &format!("bench wave --no-numba {option}"), option);
    }
    let said = fails_with(1, path, "bench wave --no-numba --dir nowhere");
    assert!(said.contains("nowhere"), "{said}");
    fs::write(path.join("file"), "").unwrap();
    assert!(fails_with(1, path, "bench wave --no-numba --dir file").contains("file"));
    assert_eq!(names(path), ["file"]);
}

#[test]
fn without_numba_it_is_skipped_with_what_installs_it() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench wave --rows 9 --cols 9 --iterations 1 --rounds 1";
    let (table, said) = ok(folder.path(), line, Some(folder.path()));
    let skipped =
        "skipped: numba: no numpy and numba (apt-get install python3-venv && python3 -m venv ./";
    assert!(said.contains(skipped) && table.contains(skipped), "{said}{table}");
}

#[test]
fn an_interrupted_race_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        // A round takes minutes.
        let line = "bench wave --rows 600 --cols 600 --iterations 300000 --rounds 9 --no-numba";
        let mut child = command(folder.path(), line).stderr(Stdio::piped()).spawn().unwrap();
        let made = || {
            let data = fs::read_dir(folder.path()).unwrap().next()?.unwrap().path();
            Some(fs::read_dir(data).ok()?.count())
        };
        while made() < Some(6) {
            assert_eq!(child.try_wait().unwrap(), None, "{line} ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
}

/// Returns the lines of the shortest possible `bench overlay --quick --json`.
fn overlays(folder: &Path, path: Option<&Path>) -> (Vec<Value>, String) {
    let line = "bench overlay --quick --json --workers 2 --rounds 1 --milliseconds 1";
    let (printed, said) = ok(folder, line, path);
    (records(&printed), said)
}

const PROGRAMS: [&str; 6] = ["fft", "grid", "nearest", "random", "stencil", "trivial"];

#[test]
fn every_way_of_an_overlay_gives_the_values_of_the_plain_loop() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, said) = overlays(folder.path(), None);
    let (verified, runs) = (of(&lines, "verified"), of(&lines, "run"));
    let ways = all(&verified, "way");
    assert!(ways.len() >= 5, "{ways:?}");
    // Each available way runs on one worker and on two, except the plain loop, all with one
    // checksum.
    for program in PROGRAMS {
        let of_it: Vec<_> =
            verified.iter().copied().filter(|line| line["program"] == program).collect();
        assert_eq!(of_it.len(), 2 * ways.len() - 1);
        assert_eq!(all(&of_it, "checksum").len(), 1);
    }
    assert_eq!(all(&runs, "way"), ways);
    assert_eq!(Vec::from_iter(all(&runs, "program")), PROGRAMS);
    assert_eq!(Vec::from_iter(all(&runs, "body")), ["empty", "irregular", "spin"]);
    assert!(runs.iter().all(|run| run["ns_per_step"].as_f64().unwrap() > 0.0));
    assert_eq!(of(&lines, "metg").len(), (ways.len() - 1) * PROGRAMS.len());
    let plain = |run: &&Value| run["way"] == "plain loop, no order";
    let plain: Vec<_> = runs.iter().copied().filter(plain).collect();
    assert_eq!(Vec::from_iter(all(&plain, "body")), ["empty", "irregular"]);
    assert!(
        plain.iter().any(|run| run["workers"] == 1) && plain.iter().any(|run| run["workers"] == 2)
    );
    assert_eq!(of(&lines, "unpinned").len(), 0, "{said}");
    // A way is present or skipped, and all compiled ways have the same loop.
    let (skipped, kernels) = (of(&lines, "skipped"), of(&lines, "kernel"));
    assert_eq!(kernels.len() + skipped.len(), 1 + 5);
    assert!(kernels.iter().all(|kernel| kernel["ns_per_iteration"].as_f64().unwrap() > 0.0));
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn without_compilers_their_ways_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, said) = overlays(folder.path(), Some(folder.path()));
    let skipped = of(&lines, "skipped");
    let whys = [
        "no clang (apt-get install clang libomp-dev)",
        "no g++ (apt-get install g++ libtbb-dev)",
        "no gcc (apt-get install gcc)",
    ];
    assert_eq!(Vec::from_iter(all(&skipped, "why")), whys);
    assert_eq!(skipped.len(), 5);
    assert!(said.contains("skipped: OpenMP task depend, clang: no clang"), "{said}");
    let runs = of(&lines, "run");
    assert!(all(&runs, "way").contains("barrier per level, by hand"));
    assert!(all(&runs, "way").is_disjoint(&all(&skipped, "way")));
    let (table, _) =
        ok(folder.path(), "bench overlay --quick --rounds 1 --milliseconds 1", Some(folder.path()));
    let mut words = [
        "METG(50 %)",
        "skipped: oneTBB flow graph: no g++",
        "RwLock + Condvar, by hand",
        "pinned",
        "plain loop, no order",
    ]
    .into_iter()
    .chain(PROGRAMS);
    assert!(words.all(|word| table.contains(word)), "{table}");
}

#[test]
fn a_compiler_that_fails_is_told_with_what_it_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let gcc = bin.join("gcc");
    fs::write(&gcc, "#!/bin/sh\necho 'x.c:1: fatal error: omp.h: No such file' >&2\nexit 1\n")
        .unwrap();
    fs::set_permissions(&gcc, fs::Permissions::from_mode(0o755)).unwrap();
    let (lines, _) = overlays(folder.path(), Some(&bin));
    let whys = all(&of(&lines, "skipped"), "why");
    assert!(
        whys.contains("gcc: x.c:1: fatal error: omp.h: No such file (apt-get install gcc)"),
        "{whys:?}"
    );
}

#[test]
fn numbers_that_make_no_race_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--workers 0", "--workers 1025", "--rounds 0", "--milliseconds 0"] {
        refused(folder.path(), &format!("bench overlay {option}"), option);
    }
}
