//! Compilers and what they make, for tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool(&'static str);

impl Tool {
    /// The program, if it is installed; else says that something is skipped.
    pub(crate) fn find(name: &'static str) -> Option<Self> {
        let there = Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        if !there {
            println!("skipped: {name} is not installed, so nothing was tried with it");
        }
        there.then_some(Tool(name))
    }

    /// Whether it does this without an error.
    #[allow(dead_code, reason = "not all tests try")]
    pub(crate) fn works<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> bool {
        Command::new(self.0).args(arguments).output().is_ok_and(|o| o.status.success())
    }

    /// Runs it, and fails with what it said if it fails.
    pub(crate) fn run<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> String {
        let mut command = Command::new(self.0);
        command.args(arguments);
        succeed(&mut command)
    }
}

/// Runs a command, and gives what it wrote; fails with all that it said if it fails.
pub(crate) fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Where cargo put the libraries: beside the tests.
#[allow(dead_code, reason = "not all tests link")]
pub(crate) fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}
