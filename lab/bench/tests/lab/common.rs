//! Runs the command, and examines its results.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Returns the command with arguments separated by blanks, in `folder`, without this test's own
/// environment variables for it.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_syncline-lab"));
    command.current_dir(folder).args(line.split_whitespace());
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"SYNCLINE_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Returns the command's standard output and standard error, with temporary files in `folder` and,
/// if `path` is given, with programs of others from `path` only. The command must succeed.
pub(crate) fn ok(folder: &Path, line: &str, path: Option<&Path>) -> (String, String) {
    let mut command = command(folder, line);
    command.env("TMPDIR", folder).envs(path.map(|path| ("PATH", path)));
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{line}: {said}");
    said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    (String::from_utf8(stdout).unwrap(), said)
}

/// Parses the printed objects, one per line.
pub(crate) fn records(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the records of one kind.
pub(crate) fn of<'v>(records: &'v [Value], kind: &str) -> Vec<&'v Value> {
    records.iter().filter(|line| line["kind"] == kind || line["record"] == kind).collect()
}

/// Returns all values of a member of these records.
pub(crate) fn all<'v>(records: &[&'v Value], member: &str) -> BTreeSet<&'v str> {
    records.iter().map(|line| line[member].as_str().unwrap()).collect()
}

/// Checks that a command line is refused with the name of its last option.
pub(crate) fn refused(folder: &Path, line: &str, option: &str) {
    let refused = command(folder, line).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{line}: {said}");
    assert!(said.contains(option.split(' ').next().unwrap()), "{said}");
}

/// Returns the one-line error of a command that must fail with `code` and print nothing else.
pub(crate) fn fails_with(code: i32, folder: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = command(folder, line).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{line}: {stderr}");
    assert!(stdout.is_empty(), "{line}");
    assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
    let error = stderr.trim_end().strip_prefix("error: ");
    error.unwrap_or_else(|| panic!("{line}: {stderr}")).to_owned()
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
