//! The pages of the book, and the pages beside it, refer to files and headings that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The Markdown files below a folder that belong to the project. Folders of builds and virtual
/// environments do not, wherever they are.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            let is_made =
                ["CACHEDIR.TAG", "pyvenv.cfg"].iter().any(|mark| path.join(mark).exists());
            if name == "target" || name.starts_with('.') || is_made {
                continue;
            }
            pages(&path, found);
        } else if name.ends_with(".md") && !path.is_symlink() {
            found.push(path);
        }
    }
}

/// The lines of a page that are not code.
fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let keep = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    };
    text.lines().filter(keep).collect()
}

/// The anchors of the headings of a page, as mdBook and GitHub write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &&str| line.starts_with('#');
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(text).into_iter().filter(heading).map(anchor).collect()
}

/// The targets of `[text](target)` in a line, without those in backticks.
fn targets(line: &str) -> Vec<String> {
    let plain = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let target = |rest: &str| rest.split_once(')').map(|(target, _)| target.to_owned());
    plain.split("](").skip(1).filter_map(target).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let root = root();
    let mut all = Vec::new();
    pages(&root, &mut all);
    assert!(all.len() > 20, "the pages of the repository are found: {all:?}");
    let mut broken = Vec::new();
    for page in &all {
        let text = fs::read_to_string(page).unwrap();
        for target in prose(&text).into_iter().flat_map(targets) {
            // Addresses, and paths of Rust in the pages that rustdoc shows.
            if target.contains("::") || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file =
                if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let heading = || {
                let text = fs::read_to_string(&file).unwrap_or_default();
                anchor.is_empty() || anchors(&text).contains(anchor)
            };
            if !file.exists() || !heading() {
                broken.push(format!("{}: {target}", page.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_summary_has_every_page_and_every_page_is_tested() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR"));
    let summary = fs::read_to_string(book.join("src/SUMMARY.md")).unwrap();
    let listed = summary.lines().flat_map(targets).collect::<BTreeSet<_>>();
    let mut files = Vec::new();
    pages(&book.join("src"), &mut files);
    let name = |path: &PathBuf| {
        path.strip_prefix(book.join("src")).unwrap().to_string_lossy().into_owned()
    };
    let files = files.iter().map(name).filter(|name| name != "SUMMARY.md").collect::<BTreeSet<_>>();
    assert_eq!(listed, files, "the summary and the files of src/");
    let code = fs::read_to_string(book.join("lib.rs")).unwrap();
    let tested = files.iter().map(|name| (name, code.contains(&format!("\"src/{name}\""))));
    let missing = tested.filter(|(_, tested)| !tested).collect::<BTreeMap<_, _>>();
    assert!(missing.is_empty(), "lib.rs does not name these pages: {missing:?}");
}
