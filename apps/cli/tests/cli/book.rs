//! The shell code of the book runs as it stands there.
//!
//! Each page has a folder of its own, in which its `sh` blocks run one after the other, as one
//! script of a shell that stops at the first failure. Blocks marked `console` show what is not run
//! here.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::until;

/// The `sh` blocks of a page, in order.
fn script(page: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in page.lines() {
        match line.trim_end() {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => script.extend([line, "\n"]),
            _ => (),
        }
    }
    script
}

#[test]
#[ignore = "full: 24 s: all pages"]
fn its_shell_code_runs() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let command = Path::new(env!("CARGO_BIN_EXE_syncline")).parent().unwrap();
    let path = format!("{}:{}", command.display(), std::env::var("PATH").unwrap());
    let mut ran = 0;
    for entry in fs::read_dir(book).unwrap() {
        let page = entry.unwrap().path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let script = script(&fs::read_to_string(&page).unwrap());
        if script.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(".log");
        let said = fs::File::create(&log).unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &script]).current_dir(folder.path());
        shell.env("PATH", &path).stdin(Stdio::null());
        shell.stderr(said.try_clone().unwrap()).stdout(said);
        for (variable, _) in std::env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"SYNCLINE_") {
                shell.env_remove(variable);
            }
        }
        let mut shell = shell.spawn().unwrap();
        let mut status = None;
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        until(&format!("the end of the shell code of {name}"), || {
            status = shell.try_wait().unwrap();
            status.is_some()
        });
        let said = fs::read_to_string(&log).unwrap();
        assert!(status.unwrap().success(), "{name}:\n{said}");
        ran += 1;
    }
    assert!(ran > 0, "the book has shell code");
}
