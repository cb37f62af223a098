//! What is told at the end: a line for each cell, and the targets.

use std::fmt::Write as _;

use serde::Serialize;

use super::super::contest::Machine;
use super::race::Cell;

/// Everything that was measured, and where.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) team: Team,
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<String>,
    pub(super) targets: Vec<Target>,
}

/// Where it was measured.
#[derive(Debug, Serialize)]
pub(super) struct Team {
    #[serde(flatten)]
    pub(super) machine: Machine,
    pub(super) hosts: usize,
    pub(super) processes: usize,
    pub(super) threads: usize,
    pub(super) transport: String,
    /// Nanoseconds of a hop of a cache line, if it was measured.
    pub(super) hop_ns: Option<f64>,
    /// By what times in nanoseconds are divided in tables.
    #[serde(skip)]
    pub(super) unit: (&'static str, f64),
}

/// A number that is aimed at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in super::super) struct Target {
    pub(in super::super) what: String,
    pub(in super::super) value: f64,
    /// It is met at this, or on the better side of it.
    pub(in super::super) target: f64,
    pub(in super::super) at_most: bool,
    pub(in super::super) met: bool,
}

impl Target {
    pub(in super::super) fn at_most(
        what: impl Into<String>,
        value: Option<f64>,
        target: f64,
    ) -> Option<Target> {
        let value = value?;
        Some(Target { what: what.into(), value, target, at_most: true, met: value <= target })
    }

    pub(in super::super) fn at_least(
        what: impl Into<String>,
        value: Option<f64>,
        target: f64,
    ) -> Option<Target> {
        let value = value?;
        Some(Target { what: what.into(), value, target, at_most: false, met: value >= target })
    }
}

impl Report {
    /// The table, for people.
    pub(super) fn text(&self) -> String {
        let Team { machine, hosts, processes, threads, transport, hop_ns, unit: (unit, by) } = &self.team;
        let mut text = machine.line();
        let _ = write!(text, "; {hosts} hosts, {processes} processes of {threads} threads; {transport}");
        if let Some(hop) = hop_ns {
            let _ = write!(text, "; H, a hop of a cache line: {hop:.1} ns");
        }
        for skipped in &self.skipped {
            let _ = write!(text, "\nskipped: {skipped}");
        }
        let mut group = "";
        for Cell { group: of, setting, way, spread, rounds, messages } in &self.cells {
            if *of != group {
                group = of;
                let head = format!("{group}, {unit}, {rounds} rounds");
                let _ = write!(
                    text,
                    "\n\n{head:66} {:>10} {:>10} {:>10} {:>9}",
                    "median", "best", "p90", "messages"
                );
            }
            let messages = messages.map_or(String::new(), |messages| format!("{messages:.1}"));
            let (median, best, p90) = (spread.median / by, spread.best / by, spread.p90 / by);
            let _ =
                write!(text, "\n{setting:24} {way:41} {median:10.1} {best:10.1} {p90:10.1} {messages:>9}");
        }
        if !self.targets.is_empty() {
            let _ = write!(text, "\n\n{:78} {:>9} {:>9}", "of the medians", "value", "target");
        }
        for Target { what, value, target, at_most, met } in &self.targets {
            let sign = if *at_most { "<=" } else { ">=" };
            let missed = if *met { "" } else { "  missed" };
            let _ = write!(text, "\n{what:78} {value:9.2} {sign} {target:6.2}{missed}");
        }
        text
    }

    /// The same, an object a line.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        #[serde(tag = "record", rename_all = "snake_case")]
        enum Record<'a> {
            Team(&'a Team),
            Skipped { what: &'a str },
            Cell(&'a Cell),
            Target(&'a Target),
        }
        let team = [Record::Team(&self.team)];
        let skipped = self.skipped.iter().map(|what| Record::Skipped { what });
        let cells = self.cells.iter().map(Record::Cell);
        let targets = self.targets.iter().map(Record::Target);
        let all = team.into_iter().chain(skipped).chain(cells).chain(targets);
        Ok(all.map(|record| serde_json::to_string(&record)).collect::<Result<Vec<_>, _>>()?.join("\n"))
    }
}
