//! Drawings for terminals.

use std::fmt;

use super::{Labels, Picture, letters, lines, printable, task_of};
use crate::raw::AccessMode;
use crate::snapshot::{RequestView, TaskState};

/// The approximate width of the drawing in characters.
const WIDTH: usize = 100;
/// The greatest length of a name that is shown in the grid itself.
const LONGEST: usize = 12;

pub(super) struct Text<'p> {
    picture: &'p Picture<'p>,
    tasks: Labels,
    locations: Labels,
}

impl<'p> Text<'p> {
    pub(super) fn new(picture: &'p Picture<'p>) -> Self {
        let plain = |c: char| c.is_ascii_graphic() || c == ' ';
        let snapshot = picture.snapshot;
        Text {
            picture,
            tasks: Labels::new(snapshot.tasks.iter().map(|t| &t.name), LONGEST, plain, letters),
            locations: Labels::new(
                snapshot.locations.iter().map(|l| &l.name),
                LONGEST,
                plain,
                |l| (l + 1).to_string(),
            ),
        }
    }

    /// Returns the cell of a request: a mark, its owner, and the state of that task.
    fn cell(&self, request: &RequestView) -> String {
        let Some(t) = task_of(request) else {
            let mark = if request.granted { '◆' } else { '◇' };
            return format!(
                "{mark}{}",
                if request.kind == AccessMode::Exclusive { 'x' } else { 'i' }
            );
        };
        let mark = match (request.kind, request.granted) {
            (AccessMode::Exclusive, true) => '■',
            (AccessMode::Exclusive, false) => '□',
            (AccessMode::Inclusive, true) => '●',
            (AccessMode::Inclusive, false) => '○',
        };
        let state = match self.picture.states[t] {
            _ if self.picture.stuck.contains(&t) => "!",
            TaskState::Active => "*",
            TaskState::PartlyDelayed => "~",
            TaskState::Delayed | TaskState::Stopped => "",
        };
        format!("{mark}{}{state}", self.tasks.short[t])
    }

    /// Draws the grid, in bands of locations one below the other.
    fn grid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.picture.snapshot.locations;
        let rank = all.iter().map(|l| l.queue.len()).max().unwrap_or(0).to_string().len();
        let longest = |labels: &Labels| labels.short.iter().map(String::len).max().unwrap_or(0);
        let column = (longest(&self.tasks) + 2).max(longest(&self.locations)) + 3;
        let across = (WIDTH.saturating_sub(rank + 3) / column).max(1);
        for (n, band) in all.chunks(across).enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            for place in (0..band.iter().map(|l| l.queue.len()).max().unwrap_or(0)).rev() {
                let cell = |l: &crate::snapshot::LocationView| {
                    l.queue.get(place).map(|r| self.cell(r)).unwrap_or_default()
                };
                let row: String = band.iter().map(|l| format!("{:column$}", cell(l))).collect();
                writeln!(f, "{:>rank$} │ {}", place + 1, row.trim_end())?;
            }
            writeln!(f, "{:rank$} └{}", "", "─".repeat(column * band.len()))?;
            let names = self.locations.short[n * across..].iter().take(band.len());
            let names: String = names.map(|name| format!("{name:column$}")).collect();
            writeln!(f, "{:rank$}   {}", "", names.trim_end())?;
        }
        Ok(())
    }

    fn legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut legend =
            "■ □ exclusive, ● ○ inclusive; filled: granted, hollow: waiting; * active, ~ partly delayed"
                .to_owned();
        if self.picture.has_handles() {
            legend.push_str("; ◆ ◇ handles: x exclusive, i inclusive");
        }
        if !self.picture.circle.is_empty() {
            legend.push_str("; ! deadlocked");
        }
        lines(legend.split("; ").map(str::to_owned), "; ", WIDTH)
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }

    fn states(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (state, tasks) in self.picture.by_state() {
            let names = tasks.iter().map(|&t| self.tasks.short[t].clone());
            for (n, line) in lines(names, "  ", WIDTH - 16).iter().enumerate() {
                writeln!(
                    f,
                    "{:<16}{line}",
                    if n == 0 { state.to_string() } else { String::new() }
                )?;
            }
        }
        Ok(())
    }

    /// Lists the names behind the labels, and the progress of each task.
    fn keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.picture.snapshot;
        let has_run = self.picture.has_run;
        if self.tasks.keyed || has_run {
            writeln!(f, "\ntasks")?;
            for (t, task) in snapshot.tasks.iter().enumerate() {
                write!(f, "  {:<6}", self.tasks.short[t])?;
                if self.tasks.keyed {
                    write!(f, " {:<12}", printable(&task.name))?;
                }
                match has_run {
                    true if task.stopped => {
                        writeln!(f, " {}, {}", self.picture.states[t], self.picture.progress(t))?
                    }
                    true => writeln!(f, "  {}", self.picture.progress(t))?,
                    false => writeln!(f)?,
                }
            }
        }
        if self.locations.keyed {
            writeln!(f, "\nlocations")?;
            for (label, location) in self.locations.short.iter().zip(&snapshot.locations) {
                writeln!(f, "  {label:<6} {}", printable(&location.name))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.picture.caption())?;
        self.grid(f)?;
        writeln!(f)?;
        self.legend(f)?;
        self.states(f)?;
        self.keys(f)?;
        let deadlock = self.picture.deadlock();
        if !deadlock.is_empty() {
            writeln!(f, "\ndeadlock")?;
        }
        deadlock.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
