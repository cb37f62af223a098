//! `syncline overlay`: overlays checked and drawn, without data and without Rust.

mod described;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::slice;

use indicatif::ProgressBar;
use syncline_common::signals::Signals;
use syncline_common::words::plural;
use syncline_overlay::AccessMode;
use syncline_overlay::{
    Initial, Plan, Snapshot, error::CheckError, snapshot::Format, snapshot::TaskState,
};
use syncline_store::NewFile;
use syncline_store::newfile::{OutputKind, output_path};

use self::described::Described;
use crate::args::{CheckArgs, Draw, GridArgs, Init};
use crate::error::{Drawn, Error, Result};
use crate::output::sync;
use crate::print;
use crate::watch;

/// The maximum number of tasks that are drawn as text without a request.
const MOST_PRINTED: usize = 2000;

/// `syncline overlay grid`; prints the findings.
pub(crate) fn grid(args: GridArgs, signals: &Signals) -> Result<()> {
    let GridArgs { grid: (rows, cols), init, check, draw } = args;
    let what = format!("grid of {rows} x {cols}");
    let find = move || Found::new(&five_points(rows, cols), init.initial(), what, draw, !check);
    watched(signals, find)?.tell(signals)
}

/// `syncline overlay check`; prints the findings.
pub(crate) fn check(args: CheckArgs, signals: &Signals) -> Result<()> {
    let told = watched(signals, || read(args)).and_then(|found| found.tell(signals));
    told.map_err(|error| match error {
        Error::Overlay { why: CheckError::Cycle { .. }, .. } | Error::Interrupted { .. } => error,
        other => Error::Unchecked(Box::new(other)),
    })
}

/// Returns the findings of a file.
fn read(args: CheckArgs) -> Result<Found> {
    let CheckArgs { file, init, draw } = args;
    let Described { plan, initial } = Described::read(&file)?;
    if let Some(draw) = &draw
        // Other reasons are told with the findings, when the drawing is written.
        && output_path(&draw.path, OutputKind::File, &[]).is_ok()
    {
        output_path(&draw.path, OutputKind::File, slice::from_ref(&file))?;
    }
    Found::new(&plan, init.map_or(initial, Init::initial), file.display().to_string(), draw, true)
}

/// Returns the overlay of a sweep over a grid of blocks, each of which reads its four neighbours.
fn five_points(rows: usize, cols: usize) -> Plan {
    let mut plan = Plan::new();
    let name = |kind: char, t: usize| format!("{kind}{},{}", t / cols, t % cols);
    let places: Vec<_> = (0..rows * cols).map(|t| plan.location(name('b', t))).collect();
    for t in 0..rows * cols {
        let (i, j) = (t / cols, t % cols);
        let around = [
            (i > 0).then(|| t - cols),
            (j > 0).then(|| t - 1),
            (j + 1 < cols).then(|| t + 1),
            (i + 1 < rows).then(|| t + cols),
        ];
        let reads = around.into_iter().flatten().map(|u| (places[u], AccessMode::Inclusive));
        plan.task(name('t', t), std::iter::once((places[t], AccessMode::Exclusive)).chain(reads));
    }
    plan
}

/// The findings of an overlay.
struct Found {
    what: String,
    /// The summary of a live overlay, or the deadlock.
    verdict: Result<String, CheckError>,
    /// The drawing of the initial requests, if there is to be one.
    drawing: Option<String>,
    /// The file of the drawing; it is printed if there is none.
    file: Option<PathBuf>,
}

impl Found {
    fn new(
        plan: &Plan,
        initial: Initial,
        what: String,
        draw: Option<Draw>,
        print: bool,
    ) -> Result<Self> {
        let start = match plan.start(&initial) {
            Err(why) => return Err(Error::Overlay { what, why, drawn: Drawn::Nowhere }),
            Ok(start) => start,
        };
        let too_many = start.tasks.len() > MOST_PRINTED;
        let drawing = match &draw {
            Some(draw) => Some(start.draw(draw.format)),
            None => (print && !too_many).then(|| start.draw(Format::Text)),
        };
        let file = draw.map(|draw| draw.path);
        if let Some(cycle) = start.cycle() {
            return Ok(Found { what, verdict: Err(CheckError::Cycle { cycle }), drawing, file });
        }
        let mut lines = summary(&start, &initial, what.clone());
        match &file {
            Some(file) => lines.push(("drawing", file.display().to_string())),
            None if print && too_many => {
                lines.push((
                    "drawing",
                    format!("not printed for more than {MOST_PRINTED} tasks: --draw FILE"),
                ));
            }
            None => {}
        }
        let lines: Vec<_> =
            lines.into_iter().map(|(what, text)| format!("{what:<13}{text}")).collect();
        Ok(Found { what, verdict: Ok(lines.join("\n")), drawing, file })
    }

    /// Writes or prints the drawing, and prints the rest.
    ///
    /// # Errors
    /// [`Error::Overlay`] for a deadlock, which is drawn as well if possible.
    fn tell(self, signals: &Signals) -> Result<()> {
        let Found { what, verdict, drawing, file } = self;
        let drawing = drawing.unwrap_or_default();
        match (verdict, file) {
            (Ok(summary), Some(file)) => {
                write(&file, drawing, signals).and_then(|()| print(&summary))
            }
            (Ok(summary), None) if drawing.is_empty() => print(&summary),
            (Ok(summary), None) => print_drawing(format!("{drawing}\n{summary}"), signals),
            (Err(why), Some(file)) => match write(&file, drawing, signals) {
                Ok(()) => Err(Error::Overlay { what, why, drawn: Drawn::In(file) }),
                Err(interrupted @ Error::Interrupted { .. }) => Err(interrupted),
                Err(failed) => {
                    let deadlock =
                        Error::Overlay { what, why, drawn: Drawn::Not(Box::new(failed)) };
                    Err(Error::Unchecked(Box::new(deadlock)))
                }
            },
            (Err(why), None) if drawing.is_empty() => {
                Err(Error::Overlay { what, why, drawn: Drawn::Nowhere })
            }
            (Err(why), None) => match print_drawing(drawing.trim_end().to_owned(), signals) {
                Err(interrupted @ Error::Interrupted { .. }) => Err(interrupted),
                printed => {
                    let drawn = printed
                        .map_or_else(|failed| Drawn::Not(Box::new(failed)), |()| Drawn::Nowhere);
                    Err(Error::Overlay { what, why, drawn })
                }
            },
        }
    }
}

/// Returns the lines of the summary of a live overlay.
fn summary(start: &Snapshot, initial: &Initial, what: String) -> Vec<(&'static str, String)> {
    let locations = &start.locations;
    let requests: usize = locations.iter().map(|location| location.queue.len()).sum();
    let states = start.states();
    let count = |state| states.iter().filter(|&&s| s == state).count();
    let order = match initial {
        Initial::Program => "program",
        Initial::Wave => "wave",
        Initial::MaxParallel => "max-parallel",
        _ => "the given priorities",
    };
    let mut lines = vec![
        ("overlay", what),
        (
            "tasks",
            format!(
                "{} on {} location{}, {requests} request{}",
                states.len(),
                locations.len(),
                plural(locations.len() as u64),
                plural(requests as u64)
            ),
        ),
        (
            "start",
            format!(
                "{} active, {} partly delayed, {} delayed; order {order}",
                count(TaskState::Active),
                count(TaskState::PartlyDelayed),
                count(TaskState::Delayed)
            ),
        ),
        ("live", "yes: no tasks wait for each other in a circle, now or later".to_owned()),
    ];
    if let Some(depth) = start.depth() {
        lines.push((
            "depth",
            format!("{depth}, the tasks of the longest chain of which each waits for the next"),
        ));
    }
    let written = |location: &&syncline_overlay::snapshot::LocationView| {
        location.queue.iter().any(|request| request.kind == AccessMode::Exclusive)
    };
    let never: Vec<_> = locations.iter().filter(|l| !written(l)).map(|l| l.name.as_str()).collect();
    if !never.is_empty() {
        lines.push(("never written", format!(" {}", never.join(", "))));
    }
    lines
}

/// Runs `work` until a signal arrives.
fn watched<T: Send + 'static>(
    signals: &Signals,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    watch::watch(signals, &ProgressBar::hidden(), |_| (), work)
}

/// Prints a text of which the reader may take only a part.
fn print_drawing(text: String, signals: &Signals) -> Result<()> {
    watched(signals, move || print(&text)).map_err(|error| match error {
        Error::Interrupted { signal, .. } => {
            Error::Interrupted { signal, left: "the drawing may lack its end".to_owned() }
        }
        other => other,
    })
}

/// Writes the file as a whole, or not at all.
fn write(path: &Path, drawing: String, signals: &Signals) -> Result<()> {
    let path = &output_path(path, OutputKind::File, &[])?;
    let new = NewFile::create(path, drawing.len() as u64)?;
    let what = format!("write {}", path.display());
    let failed = move |source| Error::Io { what, source };
    let file = match new.file().try_clone() {
        Ok(file) => file,
        Err(source) => return Err(failed(source)),
    };
    watched(signals, move || file.write_all_at(drawing.as_bytes(), 0).map_err(failed))?;
    let new = [new];
    sync(&new, signals)?;
    Ok(new.into_iter().try_for_each(NewFile::commit)?)
}
