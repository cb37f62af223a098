//! The output: a line for each cell, and the targets.

use serde::Serialize;
use serde_json::json;

use super::race::{Cell, Setting};
use crate::error::Result;
use crate::race::{Lines, Machine, Table, Target};

/// All measurements, and their team.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) team: Team,
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<String>,
    pub(super) targets: Vec<Target>,
}

/// The team and machine of the measurement.
#[derive(Debug, Serialize)]
pub(super) struct Team {
    #[serde(flatten)]
    pub(super) machine: Machine,
    pub(super) hosts: usize,
    pub(super) processes: usize,
    pub(super) threads: usize,
    pub(super) transport: String,
    /// The nanoseconds of a hop of a cache line, if it was measured.
    pub(super) hop_ns: Option<f64>,
    /// The unit of times in tables, and its length in nanoseconds.
    #[serde(skip)]
    pub(super) unit: (&'static str, f64),
}

impl Report {
    /// Formats the results as tables.
    pub(super) fn text(&self) -> String {
        let Team { machine, hosts, processes, threads, transport, hop_ns, unit: (unit, by) } =
            &self.team;
        let hop =
            hop_ns.map_or(String::new(), |hop| format!("; H, a hop of a cache line: {hop:.1} ns"));
        let machine = machine.line();
        let mut lines = vec![format!(
            "{machine}; {hosts} hosts, {processes} processes of {threads} threads; {transport}{hop}"
        )];
        lines.extend(self.skipped.iter().map(|what| format!("skipped: {what}")));
        for cells in self.cells.chunk_by(|one, next| one.key.group == next.key.group) {
            let group = cells.first().map_or("", |cell| cell.key.group);
            let name = |cell: &Cell| format!("{:24} {}", cell.key.setting, cell.way);
            let messages = |cell: &Cell| cell.key.messages;
            let columns: &[crate::race::Column<'_, Setting>] = &[("messages", &messages)];
            let columns = if *hosts > 1 { columns } else { &[] };
            lines
                .push(Table::of(format!("{group}, {unit}"), cells, *by, name, columns).to_string());
        }
        lines.extend(Table::targets(&self.targets).map(|table| table.to_string()));
        lines.join("\n")
    }

    /// Formats the results as one JSON object per line.
    pub(super) fn json(&self) -> Result<String> {
        let mut lines = Lines::new("record");
        lines.push("team", &self.team)?;
        lines.all("skipped", self.skipped.iter().map(|what| json!({ "what": what })))?;
        for Cell { key: Setting { group, setting, messages }, way, spread, rounds, .. } in
            &self.cells
        {
            let cell = json!({ "group": group, "setting": setting, "way": way, "spread": spread,
                "rounds": rounds, "messages": messages });
            lines.push("cell", &cell)?;
        }
        lines.all("target", &self.targets)?;
        Ok(lines.text())
    }
}
