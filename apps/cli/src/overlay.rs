//! `syncline overlay`: overlays checked and drawn, without data and without Rust.

mod described;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use syncline_overlay::raw::Kind;
use syncline_overlay::{CheckError, Format, Initial, Plan, Snapshot, State};
use syncline_store::NewFile;

use self::described::Described;
use crate::args::{CheckArgs, Draw, GridArgs, Init};
use crate::error::{Error, Result};
use crate::output::is_same;

/// More tasks than this are not drawn as text unless somebody asks for it.
const MOST_PRINTED: usize = 2000;

/// `syncline overlay grid`; returns what is to be printed.
pub(crate) fn grid(args: &GridArgs) -> Result<String> {
    let (rows, cols) = args.grid;
    let what = format!("grid of {rows} x {cols}");
    Checked::new(&five_points(rows, cols), args.init.initial(), what)?.report(args.draw.as_ref(), !args.check)
}

/// `syncline overlay check`; returns what is to be printed.
pub(crate) fn check(args: &CheckArgs) -> Result<String> {
    let unchecked = |error| Error::Unchecked(Box::new(error));
    let Described { plan, initial } = Described::read(&args.file).map_err(unchecked)?;
    if let Some(draw) = &args.draw
        && fs::metadata(&draw.path).is_ok_and(|found| is_same(&args.file, &found))
    {
        let why = format!("is the input {}, which is never overwritten", args.file.display());
        return Err(unchecked(Error::Output { path: draw.path.clone(), why }));
    }
    let initial = args.init.map_or(initial, Init::initial);
    let checked = Checked::new(&plan, initial, args.file.display().to_string()).map_err(unchecked)?;
    match checked.report(args.draw.as_ref(), true) {
        Err(deadlock @ Error::Overlay { .. }) => Err(deadlock),
        other => other.map_err(unchecked),
    }
}

/// The overlay of a sweep over a grid of blocks, each of which needs its four neighbours.
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
        let reads = around.into_iter().flatten().map(|u| (places[u], Kind::Inclusive));
        plan.task(name('t', t), std::iter::once((places[t], Kind::Exclusive)).chain(reads));
    }
    plan
}

/// The first requests of an overlay, and the verdict.
struct Checked {
    what: String,
    initial: Initial,
    start: Snapshot,
    deadlock: Option<CheckError>,
}

impl Checked {
    fn new(plan: &Plan, initial: Initial, what: String) -> Result<Self> {
        match plan.start(&initial) {
            Err(why) => Err(Error::Overlay { what, why, drawn: None }),
            Ok(start) => {
                let deadlock = start.cycle().map(|cycle| CheckError::Cycle { cycle });
                Ok(Checked { what, initial, start, deadlock })
            }
        }
    }

    /// Draws where it is asked to; returns the summary.
    ///
    /// # Errors
    /// [`Error::Overlay`] for a deadlock, which is drawn all the same.
    fn report(self, draw: Option<&Draw>, print: bool) -> Result<String> {
        if let Some(draw) = draw {
            write(&draw.path, &self.start.draw(draw.format))?;
        }
        let too_many = self.start.tasks.len() > MOST_PRINTED;
        let drawing = (print && draw.is_none() && !too_many).then(|| self.start.draw(Format::Text));
        if let Some(why) = self.deadlock {
            drawing.map_or(Ok(()), |drawing| crate::print(drawing.trim_end()))?;
            let drawn = draw.map(|draw| draw.path.clone());
            return Err(Error::Overlay { what: self.what, why, drawn });
        }
        let mut lines = self.summary();
        match draw {
            Some(draw) => lines.push(("drawing", draw.path.display().to_string())),
            None if print && too_many => {
                lines.push((
                    "drawing",
                    format!("not printed for more than {MOST_PRINTED} tasks: --draw FILE"),
                ));
            }
            None => {}
        }
        let lines: Vec<_> = lines.into_iter().map(|(what, text)| format!("{what:<13}{text}")).collect();
        Ok(drawing.map_or(String::new(), |drawing| drawing + "\n") + &lines.join("\n"))
    }

    /// Of an overlay that is live.
    fn summary(&self) -> Vec<(&'static str, String)> {
        let (start, locations) = (&self.start, &self.start.locations);
        let requests: usize = locations.iter().map(|location| location.queue.len()).sum();
        let states = start.states();
        let count = |state| states.iter().filter(|&&s| s == state).count();
        let order = match self.initial {
            Initial::Program => "program",
            Initial::Wave => "wave",
            Initial::MaxParallel => "max-parallel",
            _ => "the given priorities",
        };
        let mut lines = vec![
            ("overlay", self.what.clone()),
            ("tasks", format!("{} on {} locations, {requests} requests", states.len(), locations.len())),
            (
                "start",
                format!(
                    "{} active, {} partly delayed, {} delayed; order {order}",
                    count(State::Active),
                    count(State::PartlyDelayed),
                    count(State::Delayed)
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
        let written = |location: &&syncline_overlay::LocationView| {
            location.queue.iter().any(|request| request.kind == Kind::Exclusive)
        };
        let never: Vec<_> = locations.iter().filter(|l| !written(l)).map(|l| l.name.as_str()).collect();
        if !never.is_empty() {
            lines.push(("never written", format!(" {}", never.join(", "))));
        }
        lines
    }
}

/// The whole drawing, or nothing, under its name.
fn write(path: &Path, drawing: &str) -> Result<()> {
    let new = NewFile::create(path, drawing.len() as u64)?;
    let failed = |source| Error::Io { what: format!("write {}", path.display()), source };
    new.file().write_all_at(drawing.as_bytes(), 0).map_err(failed)?;
    Ok(new.commit()?)
}
