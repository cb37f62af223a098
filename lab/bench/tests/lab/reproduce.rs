//! `reproduce`: every item of the papers is listed, runs, and writes files that can be read.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{command, fails_with, names, ok, refused};

/// The figures, tables and experiments of the papers: kinds F, T and B of the requirements.
const IDS: [&str; 40] = [
    "O12", "O18", "O19", "O20", "O22", "O23", "O31", "O32", "O33", "O35", "O36", "A21", "A22",
    "A23", "A28", "A29", "A30", "A31", "A41", "A43", "A44", "A49", "F7", "F17", "F18", "F19",
    "F20", "F21", "F22", "B11", "B12", "B13", "B14", "B15", "B16", "W6", "W12", "W14", "W21",
    "W22",
];

/// Returns the ids and the first names of the list.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let (list, _) = ok(folder, "reproduce --list", None);
    let item = |line: &str| {
        let mut words = line.split_whitespace();
        let name = |name: &str| name.trim_end_matches(',').to_owned();
        Some((words.next()?.to_owned(), name(words.next()?)))
    };
    let head = |line: &&str| line.starts_with(|c: char| c.is_ascii_uppercase());
    list.lines().filter(head).filter_map(item).collect()
}

#[test]
fn the_list_has_every_item() {
    let folder = tempfile::tempdir().unwrap();
    let listed = listed(folder.path());
    let ids: BTreeSet<_> = listed.iter().map(|item| item.0.as_str()).collect();
    assert_eq!(ids, BTreeSet::from(IDS));
    let names: BTreeSet<_> = listed.iter().map(|item| &item.1).collect();
    assert_eq!((listed.len(), names.len()), (IDS.len(), IDS.len()), "each has a name of its own");
    refused(folder.path(), "reproduce orwl-fig99", "orwl-fig99");
    refused(folder.path(), "reproduce", "--all");
    let error = fails_with(1, folder.path(), "reproduce W12 --output /proc/none");
    assert!(error.contains("/proc/none"), "{error}");
    assert_eq!(self::names(folder.path()), [""; 0], "nothing is written");
}

/// Returns the cells of each line, which may be in quotes.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && cell.is_empty(), "{text}");
    rows
}

/// Checks the files of an item; returns their kinds.
fn check(folder: &Path, id: &str) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for name in names(folder) {
        let path = folder.join(&name);
        let bytes = fs::read(&path).unwrap();
        let text = || std::str::from_utf8(&bytes).unwrap();
        let kind = path.extension().unwrap().to_str().unwrap();
        match kind {
            "csv" => {
                let rows = cells(text());
                assert!(rows.len() > 1, "{id}: {name} is empty");
                let columns: BTreeSet<_> = rows.iter().map(Vec::len).collect();
                assert_eq!(columns.len(), 1, "{id}: {name}: {columns:?} columns");
            }
            "svg" => {
                let document = roxmltree::Document::parse(text());
                let document = document.unwrap_or_else(|why| panic!("{id}: {name}: {why}"));
                assert!(document.root_element().has_tag_name("svg") || name == "overlay.svg");
                assert!(!text().contains("NaN"), "{id}: {name}");
            }
            "png" => {
                let reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
                let (width, height) = (reader.info().width, reader.info().height);
                assert!(width > 100 && height > 50, "{id}: {name}: {width} x {height}");
            }
            "json" => {
                let data: Value = serde_json::from_str(text()).unwrap();
                assert_eq!(data["id"], id);
                let sentence = data["sentence"].as_str().unwrap();
                assert!(sentence.contains("the paper") && sentence.contains("here"), "{sentence}");
                assert!(!sentence.contains('\n'), "{sentence}");
            }
            _ => {}
        }
        kinds.insert(kind.to_owned());
    }
    kinds
}

#[test]
fn every_item_runs_and_its_files_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (said, progress) = ok(folder.path(), "reproduce --all --scale tiny --output out", None);
    let last = said.lines().last().unwrap();
    let cannot = said.lines().filter(|line| line.contains(": cannot be run here: ")).count();
    let ran = IDS.len() - cannot;
    assert_eq!(last, format!("40 items: {ran} run, {cannot} cannot be run here"), "{said}");
    assert!(progress.contains("1 of 40: O12 orwl-fig1: done in "), "{progress}");
    let out = folder.path().join("out");
    let page = fs::read_to_string(out.join("README.md")).unwrap();
    let mut found = BTreeSet::from(["README.md".to_owned()]);
    for (id, name) in listed(folder.path()) {
        if said.lines().any(|line| line.starts_with(&format!("{id} {name}: cannot"))) {
            continue;
        }
        let kinds = check(&out.join(&name), &id);
        let all = ["csv", "json", "png", "svg"];
        assert!(all.iter().all(|&kind| kinds.contains(kind)), "{id}: {kinds:?}");
        assert!(page.contains(&format!("## {name}: ")), "{name} is not on the page");
        assert!(page.contains(&format!("]({name}/figure.png)")), "{name} has no figure there");
        found.insert(name);
    }
    // No temporary files are left.
    assert_eq!(names(&out).into_iter().collect::<BTreeSet<_>>(), found);
}

#[test]
fn a_signal_ends_it_and_leaves_what_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let line = "reproduce W12 B13 W21 W22 O35 B15 --scale tiny --output out";
    let mut child =
        command(folder.path(), line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("W12 wave-table1: "), "{first}");
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: `kill` takes no pointers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("interrupted by SIGINT"), "{said}");
    let left = names(&folder.path().join("out"));
    assert!(left.contains(&"wave-table1".to_owned()), "{left:?}");
    assert!(left.iter().all(|name| !name.contains("syncline-bench")), "{left:?}");
}
