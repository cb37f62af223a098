//! The progress line of a command, which fits any width.
//!
//! ```text
//! pass 2 of 11, 60 of 600 iterations safe [===>     ]  35 %  1.2 GiB/s, 3.4 G updates/s  2m left
//! pass 2 of 11, 60 of 600 iterations safe [====>       ]  35 %  2m left
//! pass 2 of 11, 60 of 600 iterations safe, 35 %, 2m left
//! pass 2/11, 60/600 safe, 35 %, 2m left
//! pass 2/11, 60/600 safe, 35 %
//! pass 2/11, 35 %
//! 35 %
//! 35%
//! ```
//!
//! Narrower lines lose the bar and the rates first and the percentage last. No form is truncated,
//! since the first digits of a number are another number. If no form fits, the line is empty.

use std::time::Duration;

use indicatif::HumanDuration;

/// The minimum number of columns of a bar.
const LEAST: usize = 10;

/// The progress of a command.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The current stage, from the longest form to the shortest: "pass 2 of 11, 60 of 600
    /// iterations safe", "pass 2/11, 60/600 safe", "pass 2/11". Contains at least one form.
    pub(crate) stages: Vec<String>,
    /// The fraction of the work that is done.
    pub(crate) part: Option<f64>,
    /// The rates, as "1.2 GiB/s, 3.4 G updates/s".
    pub(crate) rates: Option<String>,
    pub(crate) left: Option<Duration>,
}

impl Line {
    /// Returns the longest form of the current stage.
    pub(crate) fn stage(&self) -> &str {
        self.stages.first().map_or("", String::as_str)
    }

    /// Returns the line without the bar and the rates.
    pub(crate) fn plain(&self) -> String {
        self.after(self.stage(), true)
    }

    fn after(&self, stage: &str, with_left: bool) -> String {
        let part = self.part.map_or(String::new(), |part| format!(", {:.0} %", part * 100.0));
        let left = self.left.filter(|_| with_left);
        let left = left.map_or(String::new(), |left| format!(", {:#} left", HumanDuration(left)));
        format!("{stage}{part}{left}")
    }

    /// Returns the most detailed form that fits the columns, or an empty string if none does.
    pub(crate) fn fit(&self, columns: usize) -> String {
        // A terminal may break a line that fills it.
        let columns = columns.saturating_sub(1);
        let bars = [true, false].map(|rates| self.bar(columns, rates));
        let plain =
            self.stages.iter().flat_map(|stage| [true, false].map(|left| self.after(stage, left)));
        let part = self
            .part
            .into_iter()
            .flat_map(|part| [" %", "%"].map(|sign| format!("{:.0}{sign}", part * 100.0)));
        let fits = |line: &String| line.chars().count() <= columns;
        bars.into_iter().flatten().chain(plain).chain(part).find(fits).unwrap_or_default()
    }

    /// Returns the form with a bar that fills the columns, if there is room for one.
    fn bar(&self, columns: usize, rates: bool) -> Option<String> {
        let part = self.part?;
        let rates = if rates { format!("  {}", self.rates.as_ref()?) } else { String::new() };
        let left =
            self.left.map_or(String::new(), |left| format!("  {:#} left", HumanDuration(left)));
        let end = format!("] {:>3.0} %{rates}{left}", part * 100.0);
        let room = columns.checked_sub(self.stage().chars().count() + 2 + end.chars().count())?;
        let done = ((room as f64 * part) as usize).min(room);
        let head = if done < room { ">" } else { "" };
        let rest = " ".repeat(room - done - head.len());
        (room >= LEAST).then(|| format!("{} [{}{head}{rest}{end}", self.stage(), "=".repeat(done)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let stages =
            ["pass 2 of 11, 60 of 600 iterations safe", "pass 2/11, 60/600 safe", "pass 2/11"];
        Line {
            stages: stages.map(str::to_owned).into(),
            part: Some(0.35),
            rates: Some("1.2 GiB/s, 3.40 G updates/s".to_owned()),
            left: Some(Duration::from_secs(120)),
        }
    }

    #[test]
    fn every_width_has_the_richest_line_that_fits() {
        let line = line();
        for columns in 0..200 {
            let fit = line.fit(columns);
            assert!(fit.chars().count() <= columns.saturating_sub(1), "{columns}: {fit}");
            assert!(columns < 5 || fit.contains("35 %"), "{columns}: {fit}");
            assert!(columns < 16 || fit.starts_with("pass 2"), "{columns}: {fit}");
        }
        let exact = [
            (0, ""),
            (1, ""),
            (2, ""),
            (3, ""),
            (4, "35%"),
            (5, "35 %"),
            (15, "35 %"),
            (16, "pass 2/11, 35 %"),
            (25, "pass 2/11, 35 %, 2m left"),
            (30, "pass 2/11, 60/600 safe, 35 %"),
            (44, "pass 2/11, 60/600 safe, 35 %, 2m left"),
            (60, "pass 2 of 11, 60 of 600 iterations safe, 35 %, 2m left"),
        ];
        for (columns, expected) in exact {
            assert_eq!(line.fit(columns), expected);
        }
        let bar = line.fit(80);
        assert!(
            bar.starts_with("pass 2 of 11, 60 of 600 iterations safe [===")
                && bar.ends_with("]  35 %  2m left")
        );
        assert!(line.fit(120).ends_with("]  35 %  1.2 GiB/s, 3.40 G updates/s  2m left"));
        assert_eq!((line.fit(80).len(), line.fit(120).len()), (79, 119));
        for part in [0.0, 1.0] {
            let line = Line { part: Some(part), ..self::line() }.fit(100);
            assert_eq!(line.len(), 99, "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let line = Line { part: None, rates: None, left: None, ..line() };
        for columns in [12, 44, 80, 200] {
            let fit = line.fit(columns);
            assert!(line.stages.contains(&fit), "{fit}");
        }
        assert_eq!(line.plain(), line.stage());
        // A part of a word or number would be misleading or meaningless.
        for columns in 0..10 {
            assert_eq!(line.fit(columns), "", "{columns}");
        }
        assert_eq!(line.fit(10), "pass 2/11");
        let whole = Line { part: Some(1.0), ..line };
        assert_eq!([4, 5, 6].map(|columns| whole.fit(columns)), ["", "100%", "100 %"]);
    }
}
