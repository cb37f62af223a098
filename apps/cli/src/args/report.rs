//! The command line of `syncline report`.

use std::path::PathBuf;

/// Reports where the time of a run went, from its trace.
///
/// Prints what bounds the run, and what can be done about it. With --output it also writes a page
/// for the browser: time lines, times by iteration and task, the wave over the matrix, the disk,
/// messages and workers. The page is one file and needs no network. With two traces it compares two
/// runs.
///
/// A trace of a run that was killed, or that is still running, is reported as far as it was
/// written. A trace may be larger than memory.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline report <TRACE> [OTHER] [--output <FILE>]",
    after_long_help = "\
Examples:
  syncline run lk23 data --iterations 20 --trace lk23.trace
  syncline report lk23.trace --output lk23.html
  syncline report before.trace after.trace --output compared.html
  syncline report lk23.trace --output lk23.pftrace       (for ui.perfetto.dev)

Exit codes: 0 success, 1 if the trace cannot be read or has no events, 2 wrong command line."
)]
pub(crate) struct ReportArgs {
    /// The trace of a run
    pub(crate) trace: PathBuf,
    /// The trace of another run, to compare with
    pub(crate) other: Option<PathBuf>,
    /// The file to write: .html is a page, .json the report's data, .csv the spans, .pftrace a
    /// trace for Perfetto
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file that is not a page of an earlier report
    #[arg(long)]
    pub(crate) force: bool,
}
