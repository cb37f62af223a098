//! `syncline farm run`: a process for each task, and persistent workers.

mod each;
mod endings;
mod joblog;
mod lines;
mod options;
mod team;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{command, until};

/// Returns `syncline farm run` in a folder with these options, and a command with its arguments.
fn farm(folder: &Path, options: &str, program: &[&str]) -> Command {
    let mut command = command(folder, &format!("farm run {options} --"));
    command.args(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Like [`farm`], with a shell script whose first argument is the task.
fn shell(folder: &Path, options: &str, script: &str) -> Command {
    farm(folder, options, &["sh", "-c", script, "_"])
}

/// The beginning of the line by which a farm reports that no worker has answered.
const SILENCE: &str = "syncline: no worker has answered yet, ";

/// The result of a farm.
#[derive(Debug)]
struct Came {
    code: Option<i32>,
    out: String,
    errors: Vec<String>,
}

impl Came {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        // On a slow machine the notice comes although the workers work. The notice's own test reads
        // standard error by itself.
        let errors = text(output.stderr);
        let errors =
            errors.lines().filter(|line| !line.starts_with(SILENCE)).map(String::from).collect();
        Self { code: output.status.code(), out: text(output.stdout), errors }
    }

    /// Returns the summary, without times, and the lines before it.
    fn summary(&self) -> (&[String], &str) {
        let Some((last, before)) = self.errors.split_last() else { panic!("{self:?}") };
        let mut parts = last.rsplitn(3, ", ");
        assert!(parts.next().is_some_and(|pace| pace.ends_with(" tasks/s")), "{self:?}");
        (before, parts.nth(1).unwrap())
    }
}

/// Runs a farm with this input.
fn run(mut command: Command, input: &str) -> Came {
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_owned();
    // The farm may end before it has read all input.
    let writer = thread::spawn(move || drop(pipe.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Came::of(output)
}

/// Returns the numbers from 1 to `to`, one per line.
fn numbers(to: usize) -> String {
    (1..=to).map(|number| format!("{number}\n")).collect()
}

/// Returns how many processes sleep for this time, which no other process does.
fn processes(nap: &str) -> usize {
    let expected = format!("sleep\0{nap}\0").into_bytes();
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == expected))
        .count()
}

/// Waits until no such process exists: a killed process remains for a moment.
fn gone(nap: &str) {
    until("the end of all tasks", || processes(nap) == 0);
}

/// Waits until all threads of a process sleep: what it had begun is done.
fn asleep(pid: u32) {
    let sleeps = |stat: &str| {
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
    };
    until("the sleep of all threads", || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        threads
            .map(|thread| fs::read_to_string(thread.path().join("stat")).unwrap_or_default())
            .all(|stat| sleeps(&stat))
    });
}

/// Returns a long time to sleep, in seconds, that no other test uses.
fn nap(which: u32) -> String {
    format!("{}.{which}", 1_000_000 + std::process::id())
}

/// Reads a line of a child's standard output.
fn line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}
