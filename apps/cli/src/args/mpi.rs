//! The command line of `syncline mpi` and `syncline doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

/// The subcommands of `syncline mpi`.
#[derive(Debug, Subcommand)]
pub(crate) enum MpiCommand {
    Build(MpiBuildArgs),
    List(MpiListArgs),
}

/// Builds the shims through which programs use the MPIs of this machine
///
/// A program of Syncline contains no MPI. It loads a small library, the shim, which is compiled
/// with an MPI's own mpicc. One build of a program therefore runs under every MPI. The first
/// program under an MPI without a shim builds it in the user's directory, if that MPI's mpicc is on
/// the path, and says so. This command builds shims beforehand: for all users, where programs run
/// without a compiler, or where several MPIs share a launcher such as srun.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline mpi build [--mpicc <CMD>]... [OPTIONS]",
    after_long_help = "\
Examples:
  syncline mpi build
  module load openmpi && syncline mpi build --mpicc mpicc
  syncline mpi build --into /usr/local/lib/syncline/mpi     (for all users, beside /usr/local/bin)

Programs load the shim that fits their launcher; SYNCLINE_MPI=/path/to/shim.so selects one."
)]
pub(crate) struct MpiBuildArgs {
    /// The compiler of an MPI; may be given several times [default: all of mpicc, mpicc.openmpi and
    /// mpicc.mpich on the path]
    #[arg(long, value_name = "CMD")]
    pub(crate) mpicc: Vec<OsString>,
    /// The directory for the shims [default: $XDG_DATA_HOME/syncline/mpi, or
    /// ~/.local/share/syncline/mpi]
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
}

/// Lists the shims that programs find, and the MPI of each
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline mpi list [OPTIONS]")]
pub(crate) struct MpiListArgs {
    /// Print one JSON object, on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks this machine for problems, and says how to solve them
///
/// The disk of a directory is checked first: its file system and free space, its speed with an
/// unnamed scratch file of 32 MiB, whether requests bypass the page cache (direct I/O), and whether
/// results can be marked (extended attributes). Then memory, cores, kernel settings, limits and the
/// installed MPIs are checked. No file is left behind, and no library is loaded. The exit code is 0
/// whenever the checks could be made, whatever they found.
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline doctor [DIR] [OPTIONS]")]
pub(crate) struct DoctorArgs {
    /// The directory whose disk is checked; for a file, the directory that contains it
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Print one JSON object, on one line
    #[arg(long)]
    pub(crate) json: bool,
}
