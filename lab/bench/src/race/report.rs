//! The output of a race: tables, or one JSON object per line; and targets.

use std::fmt;

use serde::Serialize;

use super::{Cell, Side, Skipped};
use crate::error::Result;

/// Formats a number with a useful number of decimals.
pub(crate) fn figure(number: f64) -> String {
    match number.abs() {
        large if large >= 1000.0 => format!("{number:.0}"),
        large if large >= 100.0 => format!("{number:.1}"),
        small if small >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Returns one time divided by another; `None` if either was not measured.
pub(crate) fn ratio(time: Option<f64>, by: Option<f64>) -> Option<f64> {
    time.zip(by).map(|(time, by)| time / by)
}

/// A table: names at the left, and columns of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A column of a table of cells.
pub(crate) type Column<'a, K> = (&'a str, &'a dyn Fn(&Cell<K>) -> Option<f64>);

impl Table {
    /// Returns an empty table with a title and column heads.
    pub(crate) fn new<H: Into<String>>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = H>,
    ) -> Self {
        let head = [title.into()].into_iter().chain(head.into_iter().map(Into::into));
        Self { head: head.collect(), rows: Vec::new() }
    }

    /// Returns a table of the medians and spreads of cells, each divided by `unit`, and of other
    /// columns; our cells are marked.
    pub(crate) fn of<'c, K: 'c>(
        title: impl Into<String>,
        cells: impl IntoIterator<Item = &'c Cell<K>>,
        unit: f64,
        name: impl Fn(&Cell<K>) -> String,
        columns: &[Column<'_, K>],
    ) -> Self {
        let usual = ["median", "best", "p90", "rounds"];
        let mut table =
            Self::new(title, usual.into_iter().chain(columns.iter().map(|&(head, _)| head)));
        for cell in cells {
            let mark = if cell.side == Side::Ours { "*" } else { " " };
            let Cell { spread, rounds, .. } = cell;
            let times = [spread.median, spread.best, spread.p90].map(|time| figure(time / unit));
            let more = columns.iter().map(|(_, of)| of(cell).map_or("-".to_owned(), figure));
            let cells = times.into_iter().chain([rounds.to_string()]).chain(more);
            table.row(format!("{mark} {}", name(cell)), cells);
        }
        table
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        self.rows.push([name.into()].into_iter().chain(cells).collect());
    }

    /// Returns the table of targets and whether they are met; `None` without targets.
    pub(crate) fn targets(targets: &[Target]) -> Option<Self> {
        let mut table = Self::new("of the medians", ["value", "target", ""]);
        for Target { what, value, target, at_most, met } in targets {
            let sign = if *at_most { "<=" } else { ">=" };
            let met = if *met { "met" } else { "missed" };
            table.row(what, [figure(*value), format!("{sign} {target}"), met.to_owned()]);
        }
        (!targets.is_empty()).then_some(table)
    }
}

impl fmt::Display for Table {
    /// Begins with an empty line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || [&self.head].into_iter().chain(&self.rows);
        let width =
            |n: usize| all().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max();
        for row in all() {
            let mut line = String::new();
            for (n, cell) in row.iter().enumerate() {
                let width = width(n).unwrap_or(0);
                line +=
                    &if n == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
            }
            write!(f, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Prints a skipped way in one line.
impl<K> fmt::Display for Skipped<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped: {}: {}", self.way, self.why)
    }
}

/// A number with a target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Target {
    what: String,
    value: f64,
    /// The bound, which is met by an equal value.
    target: f64,
    at_most: bool,
    met: bool,
}

impl Target {
    /// Returns a target of at most `target`, if there is a value.
    pub(crate) fn at_most(
        what: impl Into<String>,
        value: Option<f64>,
        target: f64,
    ) -> Option<Target> {
        let value = value?;
        Some(Target { what: what.into(), value, target, at_most: true, met: value <= target })
    }

    /// Returns a target of at least `target`, if there is a value.
    pub(crate) fn at_least(
        what: impl Into<String>,
        value: Option<f64>,
        target: f64,
    ) -> Option<Target> {
        let value = value?;
        Some(Target { what: what.into(), value, target, at_most: false, met: value >= target })
    }
}

/// JSON, one object per line, each of which begins with its kind.
#[derive(Debug)]
pub(crate) struct Lines {
    tag: &'static str,
    lines: Vec<String>,
}

impl Lines {
    /// Returns no lines yet; `tag` is the key of each object's kind, and may be empty.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { tag, lines: Vec::new() }
    }

    /// Adds a line. The object must not be empty.
    pub(crate) fn push(&mut self, kind: &str, object: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(object)?;
        self.lines.push(match (self.tag, text.strip_prefix('{')) {
            ("", _) | (_, None) => text,
            (tag, Some(rest)) => format!("{{\"{tag}\":\"{kind}\",{rest}"),
        });
        Ok(())
    }

    /// Adds several lines of one kind.
    pub(crate) fn all<T: Serialize>(
        &mut self,
        kind: &str,
        objects: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        objects.into_iter().try_for_each(|object| self.push(kind, &object))
    }

    /// Returns all lines.
    pub(crate) fn text(self) -> String {
        self.lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new("way", ["ns", "of all"]);
        table.row("long name", [figure(0.5), figure(12_345.6)]);
        table.row("short", [figure(123.45), String::new()]);
        assert_eq!(
            table.to_string(),
            "\nway           ns  of all\nlong name  0.500   12346\nshort      123.5"
        );
    }

    #[test]
    fn targets_are_met_or_missed_and_lines_say_what_they_are() {
        let targets =
            [Target::at_most("put", Some(3.0), 3.0), Target::at_least("speed", Some(1.0), 1.5)];
        let targets: Vec<_> = targets.into_iter().flatten().collect();
        let text = Table::targets(&targets).unwrap().to_string();
        assert!(
            text.contains("<= 3") && text.contains("met\n") && text.ends_with("missed"),
            "{text}"
        );
        assert_eq!(Target::at_most("absent", ratio(None, Some(1.0)), 1.0), None);
        let mut lines = Lines::new("record");
        lines.push("target", &targets[0]).unwrap();
        let line = r#"{"record":"target","what":"put","value":3.0,"target":3.0,"at_most":true,"met":true}"#;
        assert_eq!(lines.text(), line);
    }
}
