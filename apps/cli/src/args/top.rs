//! The command line of `syncline top`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use syncline_common::units::parse_time;

/// Shows what each thread of a run does now, and what bounds the run.
///
/// Follows a trace while it is written, or starts a program and records it. For each thread there
/// is the part of the last five seconds that was work and waiting, what the thread does now and for
/// how long, and its steps per second. When all threads wait for a second and longer, the first
/// line names the wait that began first.
///
/// Without a terminal on standard output, the table is printed at each interval until the run has
/// ended. The output of the program is printed after the view, and its exit code is that of this
/// command. Any program that uses Syncline can be started, also by `syncline launch` or mpirun.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline top <TRACE> [OPTIONS]\n       syncline top [TRACE] [OPTIONS] -- <PROGRAM> [ARGS]...",
    after_long_help = "\
Examples:
  syncline run lk23 data --iterations 200 --trace lk23.trace &
  syncline top lk23.trace
  syncline top -- ./program --size 100
  syncline top --once lk23.trace

Keys: arrows, PgUp and PgDn scroll; s sorts by waiting; ? shows help; q, Esc and Ctrl-C end the view. A program that \
this command has started gets SIGINT then.

Exit codes: 0 success, 1 if the trace cannot be read, 2 wrong command line; with a program its exit code, or 128 plus \
the signal's number if a signal killed it."
)]
pub(crate) struct TopArgs {
    /// The trace to follow, which need not exist yet; with a program, the file to record to
    /// [default: a temporary file]
    #[arg(required_unless_present = "program")]
    pub(crate) trace: Option<PathBuf>,
    /// The time between two tables where there is no terminal
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub(crate) interval: Duration,
    /// Print one table of what the trace says now, and end
    #[arg(long, conflicts_with = "program")]
    pub(crate) once: bool,
    /// The program to start and record, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}
