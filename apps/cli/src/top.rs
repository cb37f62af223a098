//! `syncline top`: what the threads of a run do now.
//!
//! ```text
//!   program ──trace──> follower ──View──> table (text), or screen (a terminal)
//!      │                   └── files ──> cause: a thread that names what bounds the run so far
//!      └──output──> a file without a name, printed after the view
//! ```

mod cause;
mod interactive;
mod program;
mod screen;
mod table;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use syncline_common::signals::Signals;
use syncline_report::ReportError;
use syncline_report::live::{Follower, State};

use self::cause::CauseFinder;
use self::program::Program;
use crate::args::TopArgs;
use crate::error::{Error, Result};

/// The interval at which signals and the end of the program are looked for.
const TICK: Duration = Duration::from_millis(50);

/// `syncline top`.
pub(crate) fn top(args: &TopArgs, signals: &Signals) -> Result<()> {
    if args.once {
        return once(args.trace.as_deref().unwrap_or(Path::new("")));
    }
    let drawn = io::stdout().is_terminal();
    let began = SystemTime::now();
    let failed = |what: &'static str| move |source| Error::Io { what: what.to_owned(), source };
    // Removed at the end, with all that is in it.
    let folder = match &args.trace {
        Some(_) => None,
        None => Some(
            tempfile::Builder::new()
                .prefix("syncline-top-")
                .tempdir()
                .map_err(failed("make a folder for the trace"))?,
        ),
    };
    let path = match (&args.trace, &folder) {
        (Some(path), _) => path.clone(),
        (None, Some(folder)) => folder.path().join("run.trace"),
        (None, None) => return Err(Error::Usage("no trace is given".to_owned())),
    };
    let mut run =
        Run { follower: Follower::new(&path), cause: CauseFinder::new(&path), program: None };
    if !args.program.is_empty() {
        run.follower = run.follower.after(began);
        run.program = Some(Program::start(&args.program, &path, drawn)?);
    }
    let viewed = if drawn {
        interactive::view(&mut run, signals)
    } else {
        tables(&mut run, args.interval, signals)
    };
    match run.program {
        None => viewed.map(|_| ()),
        Some(program) => {
            // An error of the view does not keep the program's output.
            let ended = program.finish(viewed.as_ref().ok().copied().flatten(), signals);
            viewed?;
            ended
        }
    }
}

/// What is viewed.
#[derive(Debug)]
struct Run {
    follower: Follower,
    cause: CauseFinder,
    program: Option<Program>,
}

impl Run {
    /// Whether there is nothing more to see.
    fn is_over(&mut self) -> Result<bool> {
        match &mut self.program {
            Some(program) => program.has_ended(),
            None => Ok(self.follower.live().view().state.is_over()),
        }
    }
}

/// Prints one table.
fn once(path: &Path) -> Result<()> {
    let mut follower = Follower::new(path);
    follower.poll(Duration::MAX)?;
    let view = follower.live().view();
    if view.state == State::Empty {
        // A file that does not exist is named with the reason.
        syncline_trace::Reader::open(path)?;
        let why = "the program has recorded nothing yet".into();
        return Err(Error::Report(ReportError::Empty { path: path.to_owned(), why }));
    }
    let mut cause = CauseFinder::new(path);
    cause.find(follower.bytes());
    let cause = cause.words().map(str::to_owned).or_else(|| view.common_wait());
    print(&table::text(&view, cause.as_deref())).map(|_| ())
}

/// Prints a table at each interval until the run has ended. Returns the signal that ended the view
/// before, if there was one.
fn tables(run: &mut Run, interval: Duration, signals: &Signals) -> Result<Option<u8>> {
    let later = || Instant::now().checked_add(interval);
    let mut next = later();
    loop {
        let signal = signals.take();
        let over = run.is_over()?;
        let at_end = run.follower.poll(TICK)?;
        if let Some(signal) = signal {
            return if run.program.is_some() {
                Ok(Some(signal))
            } else {
                Err(Error::interrupted(signal))
            };
        }
        if over && at_end || next.is_some_and(|next| Instant::now() >= next) {
            let view = run.follower.live().view();
            if over && at_end {
                run.cause.find(run.follower.bytes());
            } else {
                run.cause.look(run.follower.bytes(), view.state.is_over());
            }
            let cause = run.cause.words().map(str::to_owned).or_else(|| view.common_wait());
            if !print(&table::text(&view, cause.as_deref()))? {
                return Ok(None);
            }
            next = later();
        }
        if over && at_end {
            return Ok(None);
        }
        if at_end {
            thread::sleep(TICK);
        }
    }
}

/// Prints a text with an empty line behind it, by one write. Returns whether it is still read.
fn print(text: &str) -> Result<bool> {
    let mut output = io::stdout().lock();
    let written = output.write_all(format!("{text}\n").as_bytes()).and_then(|()| output.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(Error::Io { what: "write to standard output".to_owned(), source }),
    }
}
