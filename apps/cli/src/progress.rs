//! What is said of a run while it works: how far it is, what is safe, how fast it is, and how long
//! it will take.
//!
//! On a terminal it is one line ([`Line`]) that is drawn anew and fits its width. Elsewhere
//! [`watch`](crate::watch) prints the line without bar and rates every ten seconds. SIGUSR1 is
//! answered in four lines:
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
use syncline_overlay::Snapshot;
use syncline_wave::monitor::{Monitor, Stage};

pub(crate) use self::line::Line;
use crate::budget::Bound;
use crate::system;
use crate::units::{Bytes, Rate, Time};
use crate::watch::{self, Signals};

/// Before that, rates are mostly noise.
const NOISE: Duration = Duration::from_millis(200);
/// A thread that has been at its work for longer is said to be.
const LONG: Duration = Duration::from_secs(1);

/// A run that is watched.
pub(crate) struct Progress {
    monitor: Arc<Monitor>,
    /// Points that an iteration updates.
    points: f64,
    /// The iterations asked for.
    iterations: u64,
    /// The blocks, if there are any.
    blocks: Option<u64>,
    /// When the first step was seen to be under way, and how many iterations an earlier run had
    /// done.
    start: Option<(Instant, u64)>,
    /// By SIGUSR1.
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

    /// With the bound on its memory, for answers.
    pub(crate) fn under(self, bound: Bound) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// Answers a question, and moves the line.
    pub(crate) fn show(&mut self, bar: &ProgressBar) {
        let line = self.line(Instant::now());
        // Relaxed: nothing but the question is communicated.
        if self.asked.swap(false, Ordering::Relaxed) {
            let answer = self.answer(&line);
            bar.suspend(|| eprintln!("{answer}"));
        }
        bar.set_message(match watch::columns(bar) {
            Some(columns) => line.fit(columns),
            None => line.plain(),
        });
    }

    /// What SIGUSR1 is answered.
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
            // A duration has no more seconds than that.
            line.left = Duration::try_from_secs_f64(seconds * (1.0 - part) / part).ok();
        }
        line
    }

    /// What it is at, from the longest form to the shortest.
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
            // Matrices that fit are being read.
            _ => vec!["starting".to_owned()],
        }
    }
}

/// What a thread of a run does, by the name of its task.
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

    /// What a number of threads do.
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

/// What the threads of a run do, and for how long they have, where that is known.
fn running(snapshot: &Snapshot) -> Vec<(Work, Option<Duration>)> {
    let running = snapshot.tasks.iter().filter(|task| task.running);
    running.map(|task| (Work::of(&task.name), task.since)).collect()
}

/// What the threads do, and what the run waits for if none computes.
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
