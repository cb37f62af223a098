//! The option `--trace` of commands that record what their threads do.

use std::path::PathBuf;

/// Records a trace of the command.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TraceOption {
    /// Record what each thread does and what it waits for; see `syncline report` and `syncline top`
    ///
    /// An earlier trace of that name is replaced, other files are not. Processes of a team on the
    /// same host write one file. On a file system that hosts share, each host writes FILE.HOST, and
    /// `syncline report FILE` reads all of them. Any program that uses Syncline records if the
    /// environment has SYNCLINE_TRACE=FILE.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}
