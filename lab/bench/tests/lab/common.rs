//! Running the command, and looking at what it did.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The command with arguments separated by blanks, in `folder`, without what this test's own
/// environment says.
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

/// What the command printed; it must succeed, and print nothing on standard error.
pub(crate) fn ok(folder: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = command(folder, line).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{line}: {stderr}");
    assert_eq!(stderr, "", "{line}");
    String::from_utf8(stdout).unwrap()
}

/// The one line of the error of a command that must fail with `code` and print nothing else.
pub(crate) fn fails_with(code: i32, folder: &Path, line: &str) -> String {
    let Output { status, stdout, stderr } = command(folder, line).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{line}: {stderr}");
    assert!(stdout.is_empty(), "{line}");
    assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
    let error = stderr.trim_end().strip_prefix("error: ");
    error.unwrap_or_else(|| panic!("{line}: {stderr}")).to_owned()
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
