//! What the bar of a run shows: how far it is, how fast, and how long it will take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar};
use syncline_wave::Monitor;

use crate::units::{Bytes, Rate};
use crate::watch::Signals;

/// The progress bar.
pub(crate) const BAR: &str = "{prefix} [{wide_bar}] {percent:>3} %  {msg}";

/// A run that is watched.
pub(crate) struct Progress {
    monitor: Arc<Monitor>,
    /// Updates of points that it will take.
    points: f64,
    /// The blocks, if there are any.
    blocks: Option<u64>,
    /// When the first step was seen to be under way.
    start: Option<Instant>,
    /// Somebody wants to know which tasks run, and who waits for whom.
    asked: Arc<AtomicBool>,
}

impl Progress {
    pub(crate) fn new(monitor: Arc<Monitor>, points: f64, blocks: Option<u64>, signals: &Signals) -> Self {
        Self { monitor, points, blocks, start: None, asked: signals.asked() }
    }

    /// Says which tasks run and who waits for whom, if somebody asked.
    fn answer(&self, bar: &ProgressBar) {
        // Relaxed: nothing but the question is communicated.
        if self.asked.swap(false, Ordering::Relaxed) {
            let text = match self.monitor.snapshot() {
                Some(snapshot) => format!("{snapshot}"),
                None => "  no tasks are under way".to_owned(),
            };
            let (done, total) = (self.monitor.done(), self.monitor.total());
            bar.suspend(|| eprintln!("{done} of {total} steps are done\n{text}"));
        }
    }

    /// Moves the bar.
    pub(crate) fn show(&mut self, bar: &ProgressBar) {
        self.answer(bar);
        let (done, total) = (self.monitor.done(), self.monitor.total());
        if total == 0 {
            // Matrices that fit are being read.
            bar.tick();
            return;
        }
        let start = *self.start.get_or_insert_with(|| {
            bar.set_length(total);
            bar.reset_eta();
            Instant::now()
        });
        let seconds = start.elapsed().as_secs_f64();
        if let Some(blocks) = self.blocks.map(|blocks| blocks.max(1)) {
            let all = total / blocks;
            bar.set_prefix(format!("iteration {}/{all}", (done / blocks + 1).min(all)));
        }
        bar.set_position(done.min(total));
        // Before that, rates are mostly noise.
        if seconds < 0.2 {
            return;
        }
        let updates = Rate(self.points * done as f64 / total as f64 / seconds);
        let bytes = self.monitor.bytes();
        let moved = match bytes {
            0 => String::new(),
            _ => format!("{}/s, ", Bytes((bytes as f64 / seconds) as u64)),
        };
        bar.set_message(match done {
            0 => "beginning".to_owned(),
            _ => format!("{moved}{updates} updates/s  {:#} left", HumanDuration(bar.eta())),
        });
    }
}
