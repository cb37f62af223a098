//! The report on tasks: a line for each failure, a summary line, a table on disk, and a bar.
//!
//! ```text
//!   syncline: task 17 ("text") exited with 3 (2 attempts)
//!   syncline: 1000 tasks: 998 done, 2 failed (first: task 17 exited with 3), 3 retried, 12.3 s,
//!             81 tasks/s
//! ```

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use libc::{SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM};
use serde::{Deserialize, Serialize};
use syncline_common::signals::signal_name;
use syncline_common::units::{Bytes, Time};
use syncline_common::words::plural;
use syncline_farm::pool::Progress;
use syncline_process::watch::Ending;

use crate::error::{Error, Result};

/// The maximum number of characters of a text in a line.
const SHOWN: usize = 60;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    /// The status as wait(2) returns it.
    status: i32,
    /// The memory bound of the process, if it was killed by a signal that can result from a lack of
    /// memory.
    bound: Option<u64>,
}

impl Exit {
    /// Returns how a process with this memory bound ended.
    pub(super) fn of(status: ExitStatus, memory: Option<u64>) -> Self {
        // The kernel kills a program that it cannot start by SIGSEGV or SIGKILL; a program without
        // memory for its stack or heap ends by the others.
        let for_want = matches!(status.signal(), Some(SIGSEGV | SIGKILL | SIGABRT | SIGBUS));
        Self { status: status.into_raw(), bound: memory.filter(|_| for_want) }
    }

    fn how(self) -> Ending {
        ExitStatus::from_raw(self.status).into()
    }

    /// Returns whether the process succeeded.
    pub(super) fn is_success(self) -> bool {
        self.status == 0
    }

    /// Returns the name of the signal that killed the process.
    fn signal(self) -> Option<String> {
        let Ending::Killed(signal) = self.how() else { return None };
        Some(match u8::try_from(signal).map(signal_name) {
            Ok(name) if name != "a signal" => name.to_owned(),
            _ => format!("signal {signal}"),
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.signal() {
            Some(signal) => write!(f, "was killed by {signal}")?,
            None => write!(f, "{}", self.how())?,
        }
        match self.bound {
            None => Ok(()),
            Some(bytes @ ..1024) => {
                write!(f, "; its memory bound is {bytes} byte{}", plural(bytes))
            }
            Some(bytes) => write!(f, "; its memory bound is {}", Bytes(bytes)),
        }
    }
}

/// The number of bytes that a worker wrote after its last line end. Printed after the end of the
/// worker; prints nothing if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unended(pub(super) usize);

impl fmt::Display for Unended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => write!(f, "; its last byte has no line end, and is no answer"),
            bytes => write!(f, "; its last {bytes} bytes have no line end, and are no answer"),
        }
    }
}

/// Why an attempt at a task failed. The text follows the task in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failure {
    /// The process failed.
    Exit(Exit),
    /// The attempt exceeded the time limit.
    Late(Duration),
    /// The process could not be started.
    Unstarted(String),
    /// A replacement string names an argument that the task does not have: the string, and the
    /// number of arguments. Another attempt would be the same.
    Column(String, usize),
    /// The worker ended; with the number of bytes after its last line end.
    Worker(Exit, Unended),
    /// The worker broke the protocol.
    Astray(String),
    /// The worker reported an error.
    Answer(String),
    /// The member of the team that ran the task is lost.
    Member(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(exit) => write!(f, "{exit}"),
            Self::Late(after) => write!(f, "took longer than {} s", after.as_secs_f64()),
            Self::Unstarted(why) => write!(f, "could not be started: {why}"),
            Self::Column(string, args) => write!(
                f,
                "has no argument for {string}: it has {args} (\\{string} is the text {string})"
            ),
            Self::Worker(exit, unended) => write!(f, "failed: its worker {exit}{unended}"),
            Self::Astray(what) => write!(f, "failed: its worker {what}"),
            Self::Answer(text) => write!(f, "failed: {}", shown(text.as_bytes())),
            Self::Member(why) => write!(f, "failed: {why}"),
        }
    }
}

impl Failure {
    /// Returns the text for a program that already has the task.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Answer(text) => text.clone(),
            other => {
                let text = other.to_string();
                text.strip_prefix("failed: ").map_or(text.clone(), str::to_owned)
            }
        }
    }

    /// Returns the exit value and the signal for GNU parallel's job log.
    pub(super) fn numbers(&self) -> (i32, i32) {
        match self {
            Self::Exit(exit) => match exit.how() {
                Ending::Exited(code) => (code.into(), 0),
                Ending::Killed(signal) => (0, signal),
            },
            Self::Late(_) => (-1, SIGTERM),
            // The value of a shell that finds no program.
            Self::Unstarted(_) | Self::Column(..) => (127, 0),
            Self::Worker(..) | Self::Astray(_) | Self::Answer(_) | Self::Member(_) => (-1, 0),
        }
    }

    /// Returns one word for a table.
    fn word(&self) -> String {
        match self {
            Self::Exit(exit) => exit.signal().unwrap_or_else(|| self.numbers().0.to_string()),
            Self::Late(_) => "timeout".to_owned(),
            Self::Unstarted(_) | Self::Column(..) => "unstarted".to_owned(),
            Self::Worker(..) | Self::Astray(_) | Self::Member(_) => "worker".to_owned(),
            Self::Answer(_) => "error".to_owned(),
        }
    }
}

/// Quotes a text, so that it is in one line; truncates long texts.
pub(super) fn shown(text: &[u8]) -> String {
    // No character has more than four bytes.
    let begin = String::from_utf8_lossy(&text[..text.len().min(4 * (SHOWN + 1))]).into_owned();
    match begin.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &begin[..end]),
        None => format!("{begin:?}"),
    }
}

/// The facts about one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of<'a> {
    pub(super) number: u64,
    pub(super) text: &'a [u8],
    pub(super) attempts: u32,
    /// The duration of the last attempt.
    pub(super) took: Duration,
}

/// The counts of tasks so far.
#[derive(Debug)]
pub(super) struct Report {
    since: Instant,
    counts: Progress,
    /// The number of tasks ended because the farm was ending.
    ended: u64,
    /// The number of tasks done in an earlier run.
    skipped: u64,
    /// The first task that failed, and how.
    first: Option<(u64, Failure)>,
    table: Option<(PathBuf, File)>,
}

impl Report {
    /// Returns an empty report, with a table in the directory `logs`, which is created. With
    /// `goes_on`, the existing table is continued.
    pub(super) fn new(logs: Option<&Path>, goes_on: bool) -> Result<Self> {
        let table = logs.map(|logs| table(logs, goes_on)).transpose()?;
        let since = Instant::now();
        Ok(Self { since, counts: Progress::default(), ended: 0, skipped: 0, first: None, table })
    }

    /// Counts a task that begins for the first time.
    pub(super) fn begins(&mut self) {
        self.counts.submitted += 1;
    }

    /// Counts a task that runs again after this number of attempts.
    pub(super) fn again(&mut self, attempts: u32) {
        self.counts.retried += u64::from(attempts == 1);
    }

    /// Records a task that is done.
    pub(super) fn done(&mut self, task: Of<'_>) -> Result<()> {
        self.counts.ended += 1;
        self.row(task, "0")
    }

    /// Records a task that was ended with the farm.
    pub(super) fn ended(&mut self, task: Of<'_>) -> Result<()> {
        self.ended += 1;
        self.row(task, "ended")
    }

    /// Records a task that has finally failed; returns the line that reports it.
    pub(super) fn failed(&mut self, task: Of<'_>, failure: &Failure) -> Result<String> {
        self.counts.ended += 1;
        self.counts.failed += 1;
        self.first.get_or_insert_with(|| (task.number, failure.clone()));
        self.row(task, &failure.word())?;
        let attempts = match task.attempts {
            0 | 1 => String::new(),
            n => format!(" ({n} attempts)"),
        };
        Ok(format!("task {} ({}) {failure}{attempts}", task.number, shown(task.text)))
    }

    /// Returns the number of tasks that have succeeded.
    pub(super) fn done_so_far(&self) -> u64 {
        self.counts.ended - self.counts.failed
    }

    /// Returns the number of tasks that have failed.
    pub(super) fn failed_so_far(&self) -> u64 {
        self.counts.failed
    }

    /// Counts a task of an earlier run that is skipped.
    pub(super) fn skips(&mut self) {
        self.skipped += 1;
    }

    /// Returns whether any task has ended.
    pub(super) fn any_over(&self) -> bool {
        self.counts.ended + self.ended > 0
    }

    fn row(&mut self, task: Of<'_>, how: &str) -> Result<()> {
        let Some((path, table)) = &mut self.table else { return Ok(()) };
        let mut row =
            format!("{}\t{how}\t{:.3}\t{}\t", task.number, task.took.as_secs_f64(), task.attempts);
        row.reserve(task.text.len() + 1);
        let mut row = row.into_bytes();
        for &byte in task.text {
            match byte {
                b'\t' => row.extend(b"\\t"),
                b'\n' => row.extend(b"\\n"),
                b'\\' => row.extend(b"\\\\"),
                other => row.push(other),
            }
        }
        row.push(b'\n');
        table.write_all(&row).map_err(|source| unwritten(path, source))
    }

    /// Returns the summary line; `rest` describes the input that was not begun, if any.
    pub(super) fn summary(&self, rest: Option<&str>) -> String {
        let Progress { submitted, failed, retried, .. } = self.counts;
        let mut line =
            format!("{submitted} task{}: {} done", plural(submitted), self.done_so_far());
        // Writing to a string does not fail.
        if let Some((number, failure)) = &self.first {
            let _ = write!(line, ", {failed} failed (first: task {number} {failure})");
        }
        for (many, what) in [
            (self.ended, "ended before they were done"),
            (retried, "retried"),
            (self.skipped, "skipped as the job log has them"),
        ] {
            if many > 0 {
                let _ = write!(line, ", {many} {what}");
            }
        }
        if let Some(rest) = rest {
            let _ = write!(line, ", {rest}");
        }
        let took = self.since.elapsed();
        let _ = write!(line, ", {}, {}", Time(took), self.pace(took));
        line
    }

    fn pace(&self, took: Duration) -> String {
        let rate = self.counts.ended as f64 / took.as_secs_f64().max(1e-9);
        let digits = usize::from(rate < 9.95);
        format!("{rate:.digits$} tasks/s")
    }

    /// Updates the bar; `total` is the number of all tasks, if it is known.
    pub(super) fn show(&self, bar: &ProgressBar, running: usize, total: Option<u64>, ending: bool) {
        let took = self.since.elapsed();
        let mut line = self.stands(running as u64, total);
        let _ = write!(line, ", {}", self.pace(took));
        if let Some(left) = total.and_then(|total| self.left(took, total)).filter(|_| !ending) {
            let _ = write!(line, ", ETA {}", Time(left));
        }
        bar.set_message(line + if ending { ", ending" } else { "" });
        bar.tick();
    }

    fn stands(&self, running: u64, total: Option<u64>) -> String {
        let of = total.map_or_else(String::new, |total| {
            format!(" of {}", total.saturating_sub(self.skipped))
        });
        let mut line = format!("{}{of} done", self.done_so_far());
        let Progress { failed, retried, .. } = self.counts;
        for (many, what) in [(failed, "failed"), (retried, "retried"), (running, "running")] {
            if many > 0 {
                let _ = write!(line, ", {many} {what}");
            }
        }
        line
    }

    /// Returns the estimated time left, at the pace so far.
    fn left(&self, took: Duration, total: u64) -> Option<Duration> {
        let left = total.checked_sub(self.skipped + self.counts.ended)?;
        let seconds = took.as_secs_f64() * left as f64 / self.counts.ended as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Creates the table of a directory, with its header, or opens it to continue it.
fn table(logs: &Path, goes_on: bool) -> Result<(PathBuf, File)> {
    let made = fs::create_dir_all(logs);
    made.map_err(|source| Error::Io {
        what: format!("make the directory {}", logs.display()),
        source,
    })?;
    let path = logs.join("summary.tsv");
    let mut options = File::options();
    let opened = options.append(true).create(goes_on).create_new(!goes_on).open(&path);
    let mut table = opened.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(path.clone()),
        _ => unwritten(&path, source),
    })?;
    if table.metadata().is_ok_and(|table| table.len() == 0) {
        let heads = table.write_all(b"number\texit\tseconds\tattempts\ttask\n");
        heads.map_err(|source| unwritten(&path, source))?;
    }
    Ok((path, table))
}

fn unwritten(path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("write {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u64, attempts: u32) -> Of<'static> {
        Of { number, text: b"a\tb\n", attempts, took: Duration::from_millis(1500) }
    }

    fn exited(code: u8) -> Exit {
        Exit { status: i32::from(code) << 8, bound: None }
    }

    fn killed(signal: i32, bound: Option<u64>) -> Exit {
        Exit { status: signal, bound }
    }

    #[test]
    fn failures_are_lines() {
        let mut report = Report::new(None, false).unwrap();
        let line = report.failed(task(17, 2), &Failure::Exit(exited(3))).unwrap();
        assert_eq!(line, r#"task 17 ("a\tb\n") exited with 3 (2 attempts)"#);
        let failures = [
            (Failure::Exit(killed(9, None)), "was killed by SIGKILL", "SIGKILL"),
            (Failure::Exit(killed(63, None)), "was killed by signal 63", "signal 63"),
            (
                Failure::Exit(killed(11, Some(1))),
                "was killed by SIGSEGV; its memory bound is 1 byte",
                "SIGSEGV",
            ),
            (
                Failure::Worker(killed(6, Some(3 << 19)), Unended(0)),
                "failed: its worker was killed by SIGABRT; its memory bound is 1.5 MiB",
                "worker",
            ),
            (Failure::Late(Duration::from_millis(1500)), "took longer than 1.5 s", "timeout"),
            (Failure::Late(Duration::from_secs(90)), "took longer than 90 s", "timeout"),
            (Failure::Worker(exited(0), Unended(0)), "failed: its worker exited with 0", "worker"),
            (
                Failure::Worker(exited(0), Unended(1)),
                "failed: its worker exited with 0; its last byte has no line end, and is no answer",
                "worker",
            ),
            (
                Failure::Worker(exited(0), Unended(24)),
                "failed: its worker exited with 0; its last 24 bytes have no line end, and are no answer",
                "worker",
            ),
            (Failure::Answer("no\nway".to_owned()), r#"failed: "no\nway""#, "error"),
        ];
        for (failure, text, word) in failures {
            assert_eq!((failure.to_string().as_str(), failure.word().as_str()), (text, word));
        }
    }

    #[test]
    fn all_is_one_line() {
        let mut report = Report::new(None, false).unwrap();
        for number in 1..=4 {
            report.begins();
            if number < 3 {
                report.done(task(number, 1)).unwrap();
            }
        }
        report.again(1);
        report.again(2);
        assert!(
            report.summary(None).starts_with("4 tasks: 2 done, 1 retried, "),
            "{}",
            report.summary(None)
        );
        report.failed(task(3, 3), &Failure::Exit(exited(3))).unwrap();
        report.ended(task(4, 1)).unwrap();
        let line = report.summary(Some("the rest was not read"));
        let expected = "4 tasks: 2 done, 1 failed (first: task 3 exited with 3), 1 ended before they were done, 1 retried, \
                        the rest was not read, ";
        assert!(line.starts_with(expected) && line.ends_with(" tasks/s"), "{line}");
    }

    #[test]
    fn what_is_left_is_estimated_where_the_total_is_known() {
        let mut report = Report::new(None, false).unwrap();
        let took = Duration::from_secs(10);
        assert_eq!(
            (report.left(took, 20), report.stands(2, None).as_str()),
            (None, "0 done, 2 running")
        );
        report.skips();
        for number in 2..=5 {
            report.begins();
            report.done(task(number, 1)).unwrap();
        }
        report.begins();
        report.failed(task(6, 1), &Failure::Exit(exited(1))).unwrap();
        assert_eq!(report.stands(2, Some(21)), "4 of 20 done, 1 failed, 2 running");
        assert_eq!(report.left(took, 21), Some(Duration::from_secs(30)));
        // A file that was truncated in the meantime.
        assert_eq!(report.left(took, 3), None);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown(b"x"), "\"x\"");
        assert_eq!(shown("\u{e4}".repeat(60).as_bytes()), format!("{:?}", "\u{e4}".repeat(60)));
        assert_eq!(
            shown("\u{1f600}".repeat(61).as_bytes()),
            format!("{:?}...", "\u{1f600}".repeat(60))
        );
        assert_eq!(shown(&[b'x'; 100_000]).len(), SHOWN + 5);
        assert_eq!(shown(b"\xff"), "\"\u{fffd}\"");
    }

    #[test]
    fn the_table_has_a_row_for_each() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("a/b");
        let mut report = Report::new(Some(&logs), false).unwrap();
        report.done(task(1, 2)).unwrap();
        let rows = fs::read_to_string(logs.join("summary.tsv")).unwrap();
        assert_eq!(rows, "number\texit\tseconds\tattempts\ttask\n1\t0\t1.500\t2\ta\\tb\\n\n");
        assert!(matches!(Report::new(Some(&logs), false), Err(Error::Exists(_))));
        Report::new(Some(&logs), true).unwrap().done(task(2, 1)).unwrap();
        let rows = rows + "2\t0\t1.500\t1\ta\\tb\\n\n";
        assert_eq!(fs::read_to_string(logs.join("summary.tsv")).unwrap(), rows);
    }
}
