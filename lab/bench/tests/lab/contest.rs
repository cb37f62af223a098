//! Checks the output of `syncline-lab bench barrier` and `bench lock`, and that they leave nothing
//! behind. Times are not checked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{all, command, names, of, ok, records, refused};

/// Returns the lines of the shortest possible race.
fn lines(folder: &Path, what: &str, members: &str, path: Option<&Path>) -> Vec<Value> {
    let line =
        format!("bench {what} --quick --json --rounds 1 --milliseconds 1 --members {members}");
    records(&ok(folder, &line, path).0)
}

/// Returns whether a way supports this number of members.
fn fits(way: &str, members: u64) -> bool {
    match way {
        "dissemination, radix 4" => members > 2,
        "combined, 2 groups" => members >= 4 && members.is_multiple_of(2),
        _ => true,
    }
}

/// Checks that every way has a cell for each number of members that it supports, and has run once
/// there, or is left out; `cells` are members and work.
fn every_way_stands(lines: &[Value], cells: &[(u64, f64)]) {
    let (runs, standings, left_out) = (of(lines, "run"), of(lines, "cell"), of(lines, "left_out"));
    let ways = all(&[&standings[..], &left_out].concat(), "way");
    assert_eq!(runs.len(), standings.len());
    for &(members, work_ns) in cells {
        let of_it = |line: &&Value| line["members"] == members && line["work_ns"] == work_ns;
        let of_it: Vec<_> =
            [&standings[..], &left_out].concat().into_iter().filter(of_it).collect();
        let fitting: Vec<_> = ways.iter().copied().filter(|way| fits(way, members)).collect();
        assert_eq!(Vec::from_iter(all(&of_it, "way")), fitting);
        assert_eq!(of_it.len(), fitting.len());
    }
    for standing in standings {
        let [best, median, p90] =
            ["best", "median", "p90"].map(|name| standing[name].as_f64().unwrap());
        assert!(best <= median && median <= p90, "{standing}");
        assert!(
            standing["to_best_peer"].is_f64() && standing["oversubscribed"].is_boolean(),
            "{standing}"
        );
    }
    let hops = of(lines, "hop");
    assert!(hops.len() <= 1 && hops.iter().all(|hop| hop["best_ns"].as_f64().unwrap() > 0.0));
    assert_eq!(of(lines, "unpinned").len(), 0);
    let machine = of(lines, "machine");
    assert!(
        machine.len() == 1 && machine[0]["date"].as_str().unwrap().ends_with(" UTC"),
        "{machine:?}"
    );
    for ratio in of(lines, "ratio") {
        assert!(ratio["value"].as_f64().unwrap().is_finite(), "{ratio}");
    }
}

/// Checks that there is a ratio with each of these beginnings.
fn ratios_begin_with(lines: &[Value], beginnings: &[&str]) {
    let told = of(lines, "ratio");
    let told = all(&told, "what");
    for beginning in beginnings {
        assert!(told.iter().any(|what| what.starts_with(beginning)), "{beginning}: {told:?}");
    }
}

#[test]
fn every_barrier_is_raced_and_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let lines = lines(folder.path(), "barrier", "2,3,4", None);
    every_way_stands(&lines, &[(2, 0.0), (2, 500.0), (3, 0.0), (3, 500.0), (4, 0.0), (4, 500.0)]);
    let ways = all(&[of(&lines, "run"), of(&lines, "left_out")].concat(), "way");
    let known = [
        "auto",
        "auto, processes",
        "combined, 2 groups",
        "counter",
        "counter, processes",
        "counter, sense reversal (Kadur, Kochar)",
        "dissemination, packed",
        "dissemination, padded",
        "dissemination, processes",
        "dissemination, radix 4",
        "std::sync::Barrier",
        "tournament, packed",
        "tournament, padded",
    ];
    assert!(known.iter().all(|way| ways.contains(way)), "{ways:?}");
    ratios_begin_with(&lines, &["counter, processes / threads", "auto, processes / threads"]);
    let compiled =
        of(&lines, "skipped").len() + ways.iter().filter(|way| way.contains("OpenMP")).count();
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
    let ways = all(&of(&lines, "run"), "way");
    let known = ["location, by handles", "mcs", "mcs, processes", "ticket", "ticket, processes"];
    assert!(known.iter().all(|way| ways.contains(way)), "{ways:?}");
    let told =
        ["ticket / std::sync::Mutex", "ticket, 2 threads: fairness", "mcs, processes / threads"];
    ratios_begin_with(&lines, &told);
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
    let whys = [
        "no clang (apt-get install clang libomp-dev)",
        "no g++ (apt-get install g++)",
        "no gcc (apt-get install gcc)",
    ];
    assert_eq!(Vec::from_iter(all(&skipped, "why")), whys);
    assert_eq!(skipped.len(), 8);
    let short = "--rounds 1 --milliseconds 1 --members";
    let (table, said) = ok(path, &format!("bench barrier {short} 1"), Some(path));
    assert!(said.contains("skipped: pthread_barrier: no gcc"), "{said}");
    let words = ["1 member, back to back", " UTC; ", "by formula, not measured"];
    assert!(words.iter().all(|word| table.contains(word)), "{table}");
    let (table, _) = ok(path, &format!("bench lock {short} 1,40"), Some(path));
    let words = ["skipped: pthread_spin: no gcc", "1 thread ", "40 threads", "fairness", "/ peer"];
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
    // The peers share standard error: it ends when they have ended.
    let rest: Vec<_> =
        said.map(Result::unwrap).filter(|line| !line.starts_with("round ")).collect();
    assert!(rest.len() == 1 && rest[0].starts_with("error: interrupted"), "{rest:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn processes_answer_line_by_line_and_say_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for (way, shares) in
        [("counter", 0), ("auto", 0), ("dissemination", 0), ("ticket", 5), ("mcs", 5)]
    {
        let mut member = command(folder.path(), &format!("bench-member {way}"));
        let member = member.env("SYNCLINE_QUIET", "1").stdin(Stdio::piped());
        let mut member = member.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        member.stdin.take().unwrap().write_all(b"RUN 5 1 0\nRUN 1 1 0\n").unwrap();
        let done = member.wait_with_output().unwrap();
        let (told, said) =
            (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
        assert!(done.status.success() && said.is_empty(), "{way}: {said}");
        let numbers =
            |line: &str| line.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>().unwrap();
        let counts: Vec<_> = told.lines().map(|line| numbers(line).len()).collect();
        assert_eq!(counts, [2 + shares, 2 + shares.min(1)], "{way}: {told}");
    }
    let help = command(folder.path(), "--help").output().unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains("bench-member"));
}

#[test]
fn numbers_that_make_no_race_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for what in ["barrier", "lock"] {
        for option in
            ["--members 0", "--members 257", "--members 2,x", "--rounds 0", "--milliseconds 0"]
        {
            refused(folder.path(), &format!("bench {what} {option}"), option);
        }
    }
}
