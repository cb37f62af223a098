//! What is said of a run while it works: how far it is, what is safe, how fast it is, and how long it will take.
//!
//! On a terminal it is one line that is drawn anew, and that fits its width whatever that is:
//!
//! ```text
//! pass 2 of 11, 60 of 600 iterations safe [====>       ]  35 %  1.2 GiB/s, 3.4 G updates/s  2m left
//! pass 2 of 11, 60 of 600 iterations safe [====>       ]  35 %  2m left
//! pass 2 of 11, 60 of 600 iterations safe, 35 %, 2m left
//! pass 2/11, 60/600 safe, 35 %, 2m left
//! ```
//!
//! Elsewhere [`watch`](crate::watch) prints the third form every ten seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar};
use syncline_wave::{Monitor, Stage};

use crate::units::{Bytes, Rate};
use crate::watch::{self, Signals};

/// Before that, rates are mostly noise.
const NOISE: Duration = Duration::from_millis(200);
/// Columns of the least bar.
const LEAST: usize = 10;

/// A run that is watched.
pub(crate) struct Progress {
    monitor: Arc<Monitor>,
    /// Points that an iteration updates.
    points: f64,
    /// The iterations asked for.
    iterations: u64,
    /// The blocks, if there are any.
    blocks: Option<u64>,
    /// When the first step was seen to be under way, and how many iterations an earlier run had done.
    start: Option<(Instant, u64)>,
    /// By SIGUSR1: which tasks run, and which wait for which.
    asked: Arc<AtomicBool>,
}

/// How far a run is.
#[derive(Debug, Default)]
struct State {
    /// "pass 2 of 11, 60 of 600 iterations safe".
    stage: String,
    /// "pass 2/11, 60/600 safe".
    short: String,
    /// The part of the work that is done.
    part: Option<f64>,
    /// "1.2 GiB/s, 3.4 G updates/s".
    rates: Option<String>,
    left: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(
        monitor: Arc<Monitor>,
        points: f64,
        iterations: u64,
        blocks: Option<u64>,
        signals: &Signals,
    ) -> Self {
        Self { monitor, points, iterations, blocks, start: None, asked: signals.asked() }
    }

    /// Answers a question, and moves the line.
    pub(crate) fn show(&mut self, bar: &ProgressBar) {
        let state = self.state(Instant::now());
        // Relaxed: nothing but the question is communicated.
        if self.asked.swap(false, Ordering::Relaxed) {
            let tasks = match self.monitor.snapshot() {
                Some(snapshot) => format!("{snapshot}"),
                None => "  no tasks are under way".to_owned(),
            };
            let (done, total) = (self.monitor.done(), self.monitor.total());
            bar.suspend(|| eprintln!("{}\n{done} of {total} steps are done\n{tasks}", state.stage));
        }
        bar.set_message(match watch::columns(bar) {
            Some(columns) => state.line(columns),
            None => state.plain(),
        });
    }

    fn state(&mut self, now: Instant) -> State {
        let (done, total) = (self.monitor.done(), self.monitor.total());
        let stage = self.monitor.stage();
        let (stage, short) = self.stage(stage, done, total);
        if total == 0 {
            return State { stage, short, ..State::default() };
        }
        let before = match self.monitor.stage() {
            Stage::Passes(at) => at.safe,
            _ => 0,
        };
        let (start, before) = *self.start.get_or_insert((now, before));
        let (time, part) = (now.saturating_duration_since(start), (done as f64 / total as f64).min(1.0));
        let mut state = State { stage, short, part: Some(part), ..State::default() };
        if time >= NOISE && part > 0.0 {
            let seconds = time.as_secs_f64();
            let iterations = self.iterations.saturating_sub(before) as f64;
            let updates = Rate(self.points * iterations * part / seconds);
            let moved = match self.monitor.bytes() {
                0 => String::new(),
                bytes => format!("{}/s, ", Bytes((bytes as f64 / seconds) as u64)),
            };
            state.rates = Some(format!("{moved}{updates} updates/s"));
            // A duration has no more seconds than that.
            state.left = Duration::try_from_secs_f64(seconds * (1.0 - part) / part).ok();
        }
        state
    }

    /// At what it is, at length and in short.
    fn stage(&self, stage: Stage, done: u64, total: u64) -> (String, String) {
        match (stage, self.blocks) {
            (Stage::Passes(at), _) => {
                let (pass, passes, safe, all) = (at.pass, at.passes, at.safe, at.iterations);
                (
                    format!("pass {pass} of {passes}, {safe} of {all} iterations safe"),
                    format!("pass {pass}/{passes}, {safe}/{all} safe"),
                )
            }
            (Stage::Compares(input, of), _) => (
                format!("comparing input {input} of {of}, which was moved or touched, by its checksum"),
                format!("comparing input {input}/{of}"),
            ),
            (_, Some(blocks)) if total > 0 => {
                let all = self.iterations;
                let at = (done / blocks.max(1) + 1).min(all);
                (
                    format!("iteration {at} of {all}, none of which is safe before the end"),
                    format!("iteration {at}/{all}, 0 safe"),
                )
            }
            // Matrices that fit are being read.
            _ => ("starting".to_owned(), "starting".to_owned()),
        }
    }
}

impl State {
    /// All but the bar and the rates.
    fn plain(&self) -> String {
        self.after(&self.stage)
    }

    fn after(&self, stage: &str) -> String {
        let part = self.part.map_or(String::new(), |part| format!(", {:.0} %", part * 100.0));
        let left = self.left.map_or(String::new(), |left| format!(", {:#} left", HumanDuration(left)));
        format!("{stage}{part}{left}")
    }

    /// The richest form that fits so many columns.
    fn line(&self, columns: usize) -> String {
        // A terminal may break a line that fills it.
        let columns = columns.saturating_sub(1);
        let fits = |line: &String| line.chars().count() <= columns;
        let forms = [self.bar(columns, true), self.bar(columns, false), Some(self.plain())];
        let short = || self.after(&self.short);
        let line = forms.into_iter().flatten().find(fits).unwrap_or_else(short);
        line.chars().take(columns).collect()
    }

    /// With a bar that fills the columns, if there is room for one.
    fn bar(&self, columns: usize, rates: bool) -> Option<String> {
        let part = self.part?;
        let rates = if rates { format!("  {}", self.rates.as_ref()?) } else { String::new() };
        let left = self.left.map_or(String::new(), |left| format!("  {:#} left", HumanDuration(left)));
        let end = format!("] {:>3.0} %{rates}{left}", part * 100.0);
        let room = columns.checked_sub(self.stage.chars().count() + 2 + end.chars().count())?;
        let done = ((room as f64 * part) as usize).min(room);
        let head = if done < room { ">" } else { "" };
        let rest = " ".repeat(room - done - head.len());
        (room >= LEAST).then(|| format!("{} [{}{head}{rest}{end}", self.stage, "=".repeat(done)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            stage: "pass 2 of 11, 60 of 600 iterations safe".to_owned(),
            short: "pass 2/11, 60/600 safe".to_owned(),
            part: Some(0.35),
            rates: Some("1.2 GiB/s, 3.40 G updates/s".to_owned()),
            left: Some(Duration::from_secs(120)),
        }
    }

    #[test]
    fn every_width_has_the_richest_line_that_fits() {
        let state = state();
        for columns in 0..200 {
            let line = state.line(columns);
            assert!(line.chars().count() <= columns.saturating_sub(1), "{columns}: {line}");
        }
        assert_eq!(state.line(44), "pass 2/11, 60/600 safe, 35 %, 2m left");
        assert_eq!(state.line(60), "pass 2 of 11, 60 of 600 iterations safe, 35 %, 2m left");
        let line = state.line(80);
        assert!(
            line.starts_with("pass 2 of 11, 60 of 600 iterations safe [===")
                && line.ends_with("]  35 %  2m left")
        );
        assert!(state.line(120).ends_with("]  35 %  1.2 GiB/s, 3.40 G updates/s  2m left"));
        assert_eq!((state.line(80).len(), state.line(120).len(), state.line(3).as_str()), (79, 119, "pa"));
        for part in [0.0, 1.0] {
            let line = State { part: Some(part), ..self::state() }.line(100);
            assert_eq!(line.len(), 99, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let state = State { part: None, rates: None, left: None, ..state() };
        for columns in [44, 80, 200] {
            let line = state.line(columns);
            assert!(line == state.stage || line == state.short, "{line}");
        }
        assert_eq!(state.plain(), state.stage);
    }
}
