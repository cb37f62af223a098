//! Runs a role, and collects its outcome.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use syncline_process::watch::ProcessWatch;
use syncline_testkit::again;

pub(crate) const ROLE: &str = "SYNCLINE_FABRIC_TEST_ROLE";
/// The path of a file that one process makes when another may continue.
pub(crate) const TOLD: &str = "FABRIC_TEST_TOLD";

/// Far beyond the time that any step here takes, on any machine.
pub(crate) fn late() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(100))
}

/// Whether this process, and its children, ignore a signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

/// Returns a command for this program in a role, without this test's own environment variables for
/// teams.
pub(crate) fn program(role: &str) -> Command {
    let mut command = again("role_of_a_process");
    command.env(ROLE, role);
    let variables = std::env::vars_os().map(|(name, _)| name);
    for variable in variables.filter(|name| name.as_encoded_bytes().starts_with(b"SYNCLINE_")) {
        if variable != ROLE {
            command.env_remove(variable);
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The outcome of a program in a role.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) code: Option<i32>,
    /// The lines that the role wrote, sorted; then those of the launcher and the library.
    pub(crate) said: Vec<String>,
    pub(crate) told: Vec<String>,
}

/// Runs a program until it, and all processes that inherited its output, have ended.
pub(crate) fn play(command: &mut Command) -> Played {
    finish(command.spawn().unwrap())
}

pub(crate) fn finish(mut child: Child) -> Played {
    if !ProcessWatch::new(child.id()).unwrap().wait_exit(late()).unwrap() {
        child.kill().unwrap();
        panic!("hangs: {:?}", child.wait_with_output().unwrap());
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    let lines = |prefix: &str| {
        let mut lines: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix(prefix)).map(String::from).collect();
        lines.sort();
        lines
    };
    let (said, told) = (lines("said: "), lines("syncline: "));
    if said.len() + told.len() != text.lines().count() {
        println!("{text}");
    }
    Played { code: status.code(), said, told }
}

/// Writes a line to standard error in one piece.
pub(crate) fn say(what: impl std::fmt::Display) {
    std::io::stderr().write_all(format!("said: {what}\n").as_bytes()).unwrap();
}

/// Whether a line is the warning about members and cores, which a team on a small machine causes.
pub(crate) fn is_warning(line: &str) -> bool {
    line.contains("members share")
}

impl Played {
    /// Returns the lines of the library other than that warning.
    pub(crate) fn news(&self) -> Vec<&str> {
        self.told.iter().map(String::as_str).filter(|line| !is_warning(line)).collect()
    }
}
