//! What is told at the end: a table for each group, and the targets.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::contest::{Machine, Side};
use super::super::rma::Target;
use super::race::{Cell, Skipped};

/// Everything that was measured, and where.
pub(super) struct Report {
    pub(super) here: Here,
    /// Of each group its name, what its times are told in, and what else is known.
    pub(super) heads: Vec<(&'static str, (&'static str, f64), Vec<String>)>,
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) targets: Vec<Target>,
}

/// Where it was measured.
#[derive(Debug, Serialize)]
pub(super) struct Here {
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// Nanoseconds of a hop of a cache line, if there are two processors.
    pub(super) hop_ns: Option<f64>,
}

/// A line of the output.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record<'a> {
    Machine(&'a Here),
    Skipped(&'a Skipped),
    Cell(&'a Cell),
    Note { group: &'a str, text: &'a str },
    Target(&'a Target),
}

impl Report {
    /// The tables, for people.
    pub(super) fn text(&self) -> String {
        let mut text = self.here.machine.line();
        if let Some(hop) = self.here.hop_ns {
            let _ = write!(text, "; H, a hop of a cache line: {hop:.1} ns");
        }
        for Skipped { group, way, why } in &self.skipped {
            let _ = write!(text, "\nskipped: {group}: {way}: {why}");
        }
        for (group, (unit, by), notes) in &self.heads {
            let of_it: Vec<_> = self.cells.iter().filter(|cell| cell.group == *group).collect();
            let head = format!("{group}, {unit}");
            let _ = write!(
                text,
                "\n\n{head:58} {:>10} {:>10} {:>10} {:>8} {:>7}",
                "median", "best", "p90", "samples", "rounds"
            );
            for Cell { way, side, spread, samples, rounds, .. } in of_it {
                let (median, best, p90) = (spread.median / by, spread.best / by, spread.p90 / by);
                let mark = if *side == Side::Ours { "*" } else { " " };
                let _ = write!(
                    text,
                    "\n{mark} {way:56} {median:10.2} {best:10.2} {p90:10.2} {samples:8} {rounds:7}"
                );
            }
            for note in notes {
                let _ = write!(text, "\n  {note}");
            }
        }
        let _ = write!(text, "\n\n* ours");
        if !self.targets.is_empty() {
            let _ = write!(text, "\n\n{:70} {:>10} {:>10}", "of the medians", "value", "target");
        }
        for Target { what, value, target, at_most, met } in &self.targets {
            let (sign, met) = (if *at_most { "<=" } else { ">=" }, if *met { "met" } else { "missed" });
            let _ = write!(text, "\n{what:70} {value:10.2} {sign} {target:7.2}  {met}");
        }
        text
    }

    /// The same, an object a line.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        let skipped = self.skipped.iter().map(Record::Skipped);
        let cells = self.cells.iter().map(Record::Cell);
        let notes = self
            .heads
            .iter()
            .flat_map(|(group, _, notes)| notes.iter().map(move |text| Record::Note { group, text }));
        let targets = self.targets.iter().map(Record::Target);
        let all = [Record::Machine(&self.here)].into_iter().chain(skipped).chain(cells).chain(notes);
        let lines = all.chain(targets).map(|record| serde_json::to_string(&record));
        Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }
}
