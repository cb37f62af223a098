//! `syncline bench barrier` and `bench lock`: what they print, and that nothing stays. Times are not looked at.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{all, of, refused};
use crate::common::{command, names};

/// What is printed, and what is told meanwhile, with temporary files in `folder` and, if that is given, compilers from
/// nowhere but `path`.
fn race(folder: &Path, line: &str, path: Option<&Path>) -> (String, String) {
    let done = command(folder, line).env("TMPDIR", folder).envs(path.map(|path| ("PATH", path))).output();
    let done = done.unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{line}: {said}");
    (String::from_utf8(done.stdout).unwrap(), said)
}

/// As short as can be.
fn lines(folder: &Path, what: &str, members: &str, path: Option<&Path>) -> Vec<Value> {
    let line = format!("bench {what} --quick --json --rounds 1 --milliseconds 1 --members {members}");
    let (printed, said) = race(folder, &line, path);
    said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every way stands in every cell, in which it has run once, or is left out there; `cells` are members and work.
fn every_way_stands(lines: &[Value], cells: &[(u64, f64)]) {
    let (runs, standings, left_out) = (of(lines, "run"), of(lines, "cell"), of(lines, "left_out"));
    let ways = all(&[&standings[..], &left_out].concat(), "way");
    assert_eq!(runs.len(), standings.len());
    assert_eq!(standings.len() + left_out.len(), ways.len() * cells.len());
    for &(members, work_ns) in cells {
        let of_it = |line: &&Value| line["members"] == members && line["work_ns"] == work_ns;
        let of_it: Vec<_> = [&standings[..], &left_out].concat().into_iter().filter(of_it).collect();
        assert_eq!(all(&of_it, "way"), ways);
    }
    for standing in standings {
        let [best, median, p90] = ["best", "median", "p90"].map(|name| standing[name].as_f64().unwrap());
        assert!(best <= median && median <= p90, "{standing}");
        assert!(standing["to_best_peer"].is_f64() && standing["oversubscribed"].is_boolean(), "{standing}");
    }
    let hops = of(lines, "hop");
    assert!(hops.len() <= 1 && hops.iter().all(|hop| hop["best_ns"].as_f64().unwrap() > 0.0));
    assert_eq!(of(lines, "unpinned").len(), 0);
}

#[test]
fn every_barrier_is_raced_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path(), "barrier", "2,3", None);
    every_way_stands(&lines, &[(2, 0.0), (2, 500.0), (3, 0.0), (3, 500.0)]);
    let ways = all(&of(&lines, "run"), "way");
    let inside = ["std::sync::Barrier", "counter, sense reversal (Kadur, Kochar)"];
    assert!(inside.iter().all(|way| ways.contains(way)), "{ways:?}");
    let compiled = of(&lines, "skipped").len() + ways.iter().filter(|way| way.contains("OpenMP")).count();
    assert!(compiled >= 6, "{ways:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn every_lock_is_raced_and_its_fairness_told() {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path(), "lock", "1,2,5", None);
    every_way_stands(&lines, &[(1, 0.0), (2, 0.0), (5, 0.0)]);
    for run in of(&lines, "run") {
        assert_eq!(run["fairness"].is_null(), run["members"] == 1, "{run}");
        assert!(run["ns"].as_f64().unwrap() > 0.0);
    }
    let sides = all(&of(&lines, "cell"), "side");
    assert_eq!(Vec::from_iter(sides), ["baseline", "ours", "peer"]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn without_compilers_peers_are_skipped_and_the_table_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let skipped = lines(path, "barrier", "2", Some(path));
    let skipped = of(&skipped, "skipped");
    assert_eq!(Vec::from_iter(all(&skipped, "why")), ["no clang", "no g++", "no gcc"]);
    assert_eq!(skipped.len(), 8);
    let short = "--rounds 1 --milliseconds 1 --members";
    let (table, said) = race(path, &format!("bench barrier {short} 1"), Some(path));
    assert!(said.contains("skipped: pthread_barrier: no gcc"), "{said}");
    assert!(table.contains("1 member, back to back"), "{table}");
    let (table, _) = race(path, &format!("bench lock {short} 1,200"), Some(path));
    let words = ["skipped: pthread_spin: no gcc", "1 thread ", "200 threads", "fairness", "/ peer"];
    assert!(words.iter().all(|word| table.contains(word)), "{table}");
}

#[test]
fn an_interrupted_race_leaves_neither_files_nor_processes() {
    let folder = tempfile::tempdir().unwrap();
    let mut race = command(folder.path(), "bench barrier --members 2 --rounds 1000000");
    let mut race = race.env("TMPDIR", folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(race.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap() == "round 2"));
    kill_process(Pid::from_child(&race), Signal::INT).unwrap();
    assert_eq!(race.wait().unwrap().code(), Some(130));
    // Standard error is that of the peers as well: it ends when they have.
    let rest: Vec<_> = said.map(Result::unwrap).filter(|line| !line.starts_with("round ")).collect();
    assert!(rest.len() == 1 && rest[0].starts_with("error: interrupted"), "{rest:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn numbers_that_make_no_race_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for what in ["barrier", "lock"] {
        for option in ["--members 0", "--members 257", "--members 2,x", "--rounds 0", "--milliseconds 0"] {
            refused(folder.path(), &format!("bench {what} {option}"), option);
        }
    }
}
