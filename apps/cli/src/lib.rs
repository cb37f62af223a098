//! The `syncline` command: wavefront sweeps over matrices larger than memory.
//!
//! | module     | contents                                                                    |
//! |------------|-----------------------------------------------------------------------------|
//! | `args`     | the command line                                                            |
//! | `generate` | `syncline gen`: data to try things with                                     |
//! | `run`      | `syncline run`: the sweep, from directories to output                       |
//! | `kernels`  | the built-in and described kernels, and their parameters                    |
//! | `inputs`   | the arrays: their directories and types                                     |
//! | `executor` | the choice between streamed and blocked sweeps                              |
//! | `budget`   | the share of the memory bound that the sweep gets                           |
//! | `progress` | the progress bar of a run                                                   |
//! | `output`   | the destination of results; the creation of several files at once           |
//! | `results`  | the shape, type and layout of raw results                                   |
//! | `verify`   | the plain loop, and the comparison with it                                  |
//! | `convert`  | `syncline convert`: from layout to layout                                   |
//! | `hint`     | the correction of command lines that lack `--`                              |
//! | `launch`   | `syncline launch`: the processes of a team                                  |
//! | `overlay`  | `syncline overlay`: overlays checked and drawn                              |
//! | `conformance` | `syncline verify`: checks of barriers, locks, memory and others |
//! | `probe`    | `syncline probe`: the speed of a disk under the requests of a sweep         |
//! | `mpi`      | `syncline mpi`: shims for the MPIs of this machine                          |
//! | `doctor`   | `syncline doctor`: problems of this machine                                 |
//! | `documents` | `syncline completions` and `syncline man`                                   |
//! | `watch`    | work in its own thread, with a progress bar, ended by signals               |
//! | `report`   | `syncline report`, and recording by `--trace`                               |
//! | `streams`  | the standard streams that were closed at the start                          |
//! | `summary`  | the summary of a run, as text and as JSON                                   |
//! | `sweeps`   | sweeps of kernels that are chosen at run time                               |
//! | `system`   | memory and disk figures of the operating system                             |
//! | `top`      | `syncline top`: what the threads of a run do now                            |
//! | `error`    | error messages of one line each                                             |
//!
//! `syncline farm` is in `syncline_farm_run`. Quantities, the terminal and signals are in
//! `syncline_common`.
//!
//! Exit codes: 0 for success; 1 for an error; 2 for a wrong command line, and for an overlay that
//! could not be checked or printed; 3 for a run that has not reached its `--until`; 128 + the
//! signal's number when interrupted; for `launch`, the exit code of the first process that failed.

mod args;
mod budget;
mod conformance;
mod convert;
mod doctor;
mod documents;
mod error;
mod executor;
mod generate;
mod hint;
mod inputs;
mod kernels;
mod launch;
mod mpi;
mod output;
mod overlay;
mod probe;
mod progress;
mod report;
mod results;
mod run;
mod streams;
mod summary;
mod sweeps;
mod system;
mod top;
mod verify;
mod watch;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use syncline_common::signals::{self, Signals};
use syncline_conformance::Subject;
use syncline_farm_run as farm;

use crate::args::{Args, Command, FarmCommand, MpiCommand, OverlayCommand, Probe, Verify};
use crate::error::{Error, Result};

/// The exit code of a run that has done its iterations without reaching its `--until`. Its result
/// is written.
const UNCONVERGED: u8 = 3;

/// Runs the command with the arguments of this process, and returns its exit code.
///
/// `main` calls it and does nothing else: the command is a library, so that its unit tests and the
/// program share what is compiled.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| {
        let words = std::env::args_os().skip(1).collect::<Vec<_>>();
        let hint = match error.kind() {
            ErrorKind::UnknownArgument => hint::before_program(&words),
            ErrorKind::InvalidSubcommand if words.first().is_some_and(|word| word == "bench") => {
                Some(
                    "`bench` is a command of syncline-lab: cargo run --release -p syncline-lab -- bench"
                        .to_owned(),
                )
            }
            _ => None,
        };
        if words.first().is_some_and(|word| word == "run")
            && error.use_stderr()
            && let Some(code) = run::refuse_on_team(first_lines(&error))
        {
            std::process::exit(code.into());
        }
        refuse(&error, hint)
    });
    match dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.tell()),
    }
}

/// Returns what is wrong with the command line of a run, in one line.
fn first_lines(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let about = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let about =
        about.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let about = about.collect::<Vec<_>>().join("; ");
    format!("{}; see `syncline run --help`", about.trim_start_matches("error: "))
}

/// Prints what is wrong with the command line, or the help text, and exits.
fn refuse(error: &clap::Error, hint: Option<String>) -> ! {
    let hint = hint.map(|hint| format!("\n{hint}\n")).unwrap_or_default();
    if error.use_stderr() && !io::stderr().is_terminal() {
        // One write, as other members of a team may write there too; clap would write pieces.
        let _ = io::stderr().write_all(format!("{}{hint}", error.render()).as_bytes());
    } else {
        let printed = error.print().and_then(|()| io::stdout().flush());
        let printed = if error.use_stderr() { Ok(()) } else { written(printed) };
        if let Err(failed) = printed {
            std::process::exit(failed.tell().into());
        }
        let _ = io::stderr().write_all(hint.as_bytes());
    }
    std::process::exit(error.exit_code())
}

/// Runs the command and prints its result.
fn dispatch(args: Args) -> Result<()> {
    match &args.command {
        // Before signals are caught: it executes a program, which must not inherit that.
        Command::Farm(FarmCommand::Bound(args)) => return Ok(farm::bound(args)?),
        // The launcher catches those that end it.
        Command::Launch(args) => {
            signals::catch_others(&Arc::default())?;
            return launch::launch(args);
        }
        _ => (),
    }
    let signals = Signals::catch(looks_at_signals(&args.command))?;
    let text = match args.command {
        Command::Gen(args) => {
            signals.speak(args.quiet);
            generate::generate(&args, &signals)
        }
        Command::Run(args) => {
            signals.speak(args.quiet);
            let done = run::run(&args, &signals);
            // Of a team, the member that prints the summary tells.
            let tells = done.as_ref().is_ok_and(|(text, _)| !text.is_empty());
            report::finish(&args.trace, args.quiet || !tells);
            let (text, converged) = done?;
            print(&text)?;
            // The summary has reported it.
            return if converged { Ok(()) } else { Err(Error::Told { code: UNCONVERGED }) };
        }
        Command::Convert(args) => {
            signals.speak(args.quiet);
            convert::convert(&args, &signals)
        }
        Command::Report(args) => report::make(&args),
        Command::Top(args) => return top::top(&args, &signals),
        Command::Launch(args) => return launch::launch(&args),
        Command::Farm(FarmCommand::Run(args)) => {
            report::start(args.trace(), None)?;
            let done = farm::run(&args, &signals);
            report::finish(args.trace(), false);
            return Ok(done?);
        }
        Command::Farm(FarmCommand::Guard(args)) => return Ok(farm::guard(&args)?),
        Command::Farm(FarmCommand::Bound(args)) => return Ok(farm::bound(&args)?),
        Command::Overlay(OverlayCommand::Grid(args)) => return overlay::grid(args, &signals),
        Command::Overlay(OverlayCommand::Check(args)) => return overlay::check(args, &signals),
        Command::Verify(Verify::Barrier(args)) => {
            conformance::run(Subject::Barrier, &args, &signals)
        }
        Command::Verify(Verify::Lock(args)) => conformance::run(Subject::Lock, &args, &signals),
        Command::Verify(Verify::Rma(args)) => conformance::run(Subject::Rma, &args, &signals),
        Command::Verify(Verify::Farm(args)) => conformance::run(Subject::Farm, &args, &signals),
        Command::Verify(Verify::Overlay(args)) => {
            conformance::run(Subject::Overlay, &args, &signals)
        }
        Command::Verify(Verify::Sweep(args)) => conformance::run(Subject::Sweep, &args, &signals),
        Command::Probe(Probe::Disk(args)) => probe::disk(&args, &signals),
        Command::Mpi(MpiCommand::Build(args)) => mpi::build_all(&args),
        Command::Mpi(MpiCommand::List(args)) => mpi::list(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => return documents::completions(&args),
        Command::Man(args) => return documents::man(&args),
    };
    print(&text?)
}

/// Returns whether a command ends by itself when a signal is caught.
fn looks_at_signals(command: &Command) -> bool {
    !matches!(
        command,
        Command::Report(_)
            | Command::Mpi(_)
            | Command::Doctor(_)
            | Command::Completions(_)
            | Command::Man(_)
    )
}

fn print(text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    written(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Turns what became of a write to standard output into an error of the command.
fn written(done: io::Result<()>) -> Result<()> {
    match done {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => {
            done.map_err(|source| Error::Io { what: "write to standard output".to_owned(), source })
        }
    }
}
