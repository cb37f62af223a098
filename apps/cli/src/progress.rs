//! The progress report of a run: the work done, the iterations that are safe, the speed, and the
//! time left.
//!
//! On a terminal it is one line ([`Line`]), which is redrawn and fits the width. Elsewhere
//! [`watch`] prints the line every ten seconds, without bar and rates. The answer to
//! SIGUSR1 has four lines:
//!
//! ```text
//! pass 11 of 200, 30 of 600 iterations safe, 6 %, 2m left
//!   rate    1.2 GiB/s, 3.4 G updates/s
//!   memory  23.1 MiB, of at most 24.0 MiB
//!   now     2 threads compute, 1 reads the disk
//! ```

mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_common::units::{Bytes, Rate, Time};
use syncline_overlay::Snapshot;
use syncline_wave::monitor::{Monitor, Stage};

pub(crate) use self::line::Line;
use crate::budget::Bound;
use crate::system;

/// Rates of a shorter time are mostly noise.
const NOISE: Duration = Duration::from_millis(200);
/// The duration of a thread's current task is reported if it is longer.
const LONG: Duration = Duration::from_secs(1);

/// The progress of a run.
pub(crate) struct Progress {
    monitor: Arc<Monitor>,
    /// The number of points that an iteration updates.
    points: f64,
    /// The requested number of iterations.
    iterations: u64,
    /// The number of blocks, if the run is in blocks.
    blocks: Option<u64>,
    /// The time at which the first step was seen in progress, and the iterations that an earlier
    /// run had done.
    start: Option<(Instant, u64)>,
    /// Set by SIGUSR1.
    asked: Arc<AtomicBool>,
    bound: Option<Bound>,
}

impl Progress {
    pub(crate) fn new(
        monitor: Arc<Monitor>,
        points: f64,
        iterations: u64,
        blocks: Option<u64>,
        signals: &Signals,
    ) -> Self {
        Self {
            monitor,
            points,
            iterations,
            blocks,
            start: None,
            asked: signals.asked(),
            bound: None,
        }
    }

    /// Adds the memory bound, which answers to SIGUSR1 report.
    pub(crate) fn under(self, bound: Bound) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// Answers a pending SIGUSR1, and updates the line.
    pub(crate) fn show(&mut self, bar: &ProgressBar) {
        let line = self.line(Instant::now());
        // Relaxed: the flag publishes no other data.
        if self.asked.swap(false, Ordering::Relaxed) {
            let answer = self.answer(&line);
            bar.suspend(|| terminal::say(format_args!("{answer}")));
        }
        bar.set_message(match terminal::columns_of(bar) {
            Some(columns) => line.fit(columns),
            None => line.plain(),
        });
    }

    /// Returns the answer to SIGUSR1.
    fn answer(&self, line: &Line) -> String {
        let rates = line.rates.as_deref().unwrap_or("not known yet");
        let memory = match (system::resident(), self.bound) {
            (None, _) => "not known".to_owned(),
            (Some(held), None) => Bytes(held.governed).to_string(),
            (Some(held), Some(bound)) => {
                format!("{}, of at most {}", Bytes(held.governed), Bytes(bound.bytes()))
            }
        };
        let now = self.monitor.snapshot().as_ref().map_or_else(
            || "nothing is under way: it prepares, or is between two passes".to_owned(),
            |snapshot| now(running(snapshot)),
        );
        format!("{}\n  rate    {rates}\n  memory  {memory}\n  now     {now}", line.plain())
    }

    fn line(&mut self, now: Instant) -> Line {
        let (done, total) = (self.monitor.done(), self.monitor.total());
        let stage = self.monitor.stage();
        let stages = self.stages(stage, done, total);
        if total == 0 {
            return Line { stages, ..Line::default() };
        }
        let before = match stage {
            Stage::Passes(at) => at.safe,
            _ => 0,
        };
        let (start, before) = *self.start.get_or_insert((now, before));
        let (time, part) =
            (now.saturating_duration_since(start), (done as f64 / total as f64).min(1.0));
        let mut line = Line { stages, part: Some(part), ..Line::default() };
        if time >= NOISE && part > 0.0 {
            let seconds = time.as_secs_f64();
            let iterations = self.iterations.saturating_sub(before) as f64;
            let updates = Rate(self.points * iterations * part / seconds);
            let moved = match self.monitor.bytes() {
                0 => String::new(),
                bytes => format!("{}/s, ", Bytes((bytes as f64 / seconds) as u64)),
            };
            line.rates = Some(format!("{moved}{updates} updates/s"));
            // Fails for more seconds than a duration holds.
            line.left = Duration::try_from_secs_f64(seconds * (1.0 - part) / part).ok();
        }
        line
    }

    /// Returns the description of the current stage, from the longest form to the shortest.
    fn stages(&self, stage: Stage, done: u64, total: u64) -> Vec<String> {
        match (stage, self.blocks) {
            (Stage::Passes(at), _) => {
                let (pass, passes, safe, all) = (at.pass, at.passes, at.safe, at.iterations);
                vec![
                    format!("pass {pass} of {passes}, {safe} of {all} iterations safe"),
                    format!("pass {pass}/{passes}, {safe}/{all} safe"),
                    format!("pass {pass}/{passes}"),
                ]
            }
            (Stage::Compares(input, of), _) => vec![
                format!(
                    "comparing input {input} of {of}, which was moved or touched, by its checksum"
                ),
                format!("comparing input {input}/{of}"),
            ],
            (_, Some(blocks)) if total > 0 => {
                let all = self.iterations;
                let at = (done / blocks.max(1) + 1).min(all);
                vec![
                    format!("iteration {at} of {all}, none of which is safe before the end"),
                    format!("iteration {at}/{all}, 0 safe"),
                    format!("iteration {at}/{all}"),
                ]
            }
            // Matrices that fit the memory are being read.
            _ => vec!["starting".to_owned()],
        }
    }
}

/// The kind of work of a thread, from the name of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Computes,
    Reads,
    Writes,
    Checks,
}

impl Work {
    fn of(task: &str) -> Self {
        match task.split(' ').next() {
            Some("read") => Self::Reads,
            Some("write") => Self::Writes,
            Some("check" | "sum") => Self::Checks,
            // A piece of a band of rows, or a block.
            _ => Self::Computes,
        }
    }

    /// Describes the work of a number of threads.
    fn told(self, threads: usize, first: bool) -> String {
        let (one, many, what) = match self {
            Self::Computes => ("computes", "compute", ""),
            Self::Reads => ("reads", "read", " the disk"),
            Self::Writes => ("writes", "write", " to the disk"),
            Self::Checks => ("checks", "check", " what was read"),
        };
        let verb = if threads == 1 { one } else { many };
        match (first, threads) {
            (true, 1) => format!("1 thread {verb}{what}"),
            (true, _) => format!("{threads} threads {verb}{what}"),
            (false, _) => format!("{threads} {verb}{what}"),
        }
    }
}

/// Returns the work of each thread of a run, and for how long it has been at it, where that is
/// known.
fn running(snapshot: &Snapshot) -> Vec<(Work, Option<Duration>)> {
    let running = snapshot.tasks.iter().filter(|task| task.running);
    running.map(|task| (Work::of(&task.name), task.since)).collect()
}

/// Describes the work of all threads, and what the run waits for if none computes.
fn now(running: Vec<(Work, Option<Duration>)>) -> String {
    let of = |work: Work| running.iter().filter(|(of, _)| *of == work).count();
    let mut parts = Vec::new();
    for work in [Work::Computes, Work::Reads, Work::Writes, Work::Checks] {
        if of(work) > 0 {
            parts.push(work.told(of(work), parts.is_empty()));
        }
    }
    let waits = match (of(Work::Computes), of(Work::Reads) + of(Work::Writes), of(Work::Checks)) {
        (0, 0, 0) => return "no thread is at work just now".to_owned(),
        (0, 0, _) => "waits for checksums: ",
        (0, ..) => "waits for the disk: ",
        _ => "",
    };
    let longest =
        running.iter().filter_map(|(_, since)| *since).max().filter(|&since| since >= LONG);
    let longest =
        longest.map_or(String::new(), |since| format!("; the longest for {}", Time(since)));
    format!("{waits}{}{longest}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_threads_do_is_said_in_words_of_the_help() {
        let of = |tasks: &[(&str, u64)]| {
            let one = |&(name, ms)| (Work::of(name), Some(Duration::from_millis(ms)));
            now(tasks.iter().map(one).collect())
        };
        let (computes, computing) = ("wave 3, 1", "block (0, 1)");
        assert_eq!(
            of(&[(computes, 1), ("read 2", 1), (computing, 900)]),
            "2 threads compute, 1 reads the disk"
        );
        assert_eq!(
            of(&[("read 2", 3200), ("write 1", 1), ("write 0", 1)]),
            "waits for the disk: 1 thread reads the disk, 2 write to the disk; the longest for 3.20 s"
        );
        assert_eq!(of(&[("sum 0 2", 1)]), "waits for checksums: 1 thread checks what was read");
        assert_eq!(of(&[]), "no thread is at work just now");
    }

    #[test]
    fn an_answer_is_four_lines() {
        let progress = Progress::new(Arc::default(), 1.0, 600, None, &Signals::default());
        let line = Line {
            stages: vec!["pass 11 of 200, 30 of 600 iterations safe".to_owned()],
            ..Line::default()
        };
        let answer = progress.under(Bound::new(Some(24 << 20))).answer(&line);
        let lines: Vec<&str> = answer.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, "pass 11 of 200, 30 of 600 iterations safe"));
        assert_eq!(lines[1], "  rate    not known yet");
        assert!(
            lines[2].starts_with("  memory  ") && lines[2].ends_with("iB, of at most 24.0 MiB"),
            "{answer}"
        );
        assert_eq!(
            lines[3],
            "  now     nothing is under way: it prepares, or is between two passes"
        );
    }
}
