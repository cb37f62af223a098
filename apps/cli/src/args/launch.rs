//! The command line of `syncline launch`.

use std::ffi::OsString;

use syncline_common::trace::TraceOption;
use syncline_common::units::parse_size;

/// Runs a program as a team of processes that share memory and watch one another.
///
/// The program calls `Team::run` of Syncline once in each process; each process finds its place in
/// the environment. Programs that do not call it run as well, side by side. Standard input and
/// output of the processes are passed through.
///
/// A process that is killed, or exits before its part is done, is reported on standard error. Waits
/// of the other processes for it end with an error that names its ranks. When a process has failed,
/// the others have 10 seconds to end; then they get SIGTERM, and SIGKILL 5 seconds later. SIGINT
/// and SIGTERM are forwarded to all processes and followed by SIGKILL 5 seconds later. If this
/// command is killed, the processes that have begun their part end too.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline launch -n <N> [OPTIONS] -- <PROGRAM> [ARGS]...",
    after_long_help = "\
Examples:
  syncline launch -n 4 -- ./program --size 100
  syncline launch -n 2 --threads 8 -- ./program        (16 members)

Environment: SYNCLINE_QUIET=1 silences the warning when members outnumber cores.

Exit codes: 0 if all processes exited with 0; else that of the first process that did not, 128 plus the signal's \
number if a signal killed it, and 1 if it exited with 0 before its part was done; 1 if the program cannot be started; \
2 wrong command line."
)]
pub(crate) struct LaunchArgs {
    /// The number of processes, from 1 to 4096
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) processes: u16,
    /// The number of members (threads) in each process; at most 4096 members in all
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) threads: u16,
    /// The maximum memory that the members share, for example 512M or 2G [default: the value of
    /// SYNCLINE_MEMORY, or as much as possible]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    #[command(flatten)]
    pub(crate) trace: TraceOption,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}
