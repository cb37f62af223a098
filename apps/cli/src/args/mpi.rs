//! The command line of `syncline mpi` and `syncline doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

/// What is done about MPI.
#[derive(Debug, Subcommand)]
pub(crate) enum MpiCommand {
    Build(MpiBuildArgs),
    List(MpiListArgs),
}

/// Builds the shims through which programs use the MPIs of this machine
///
/// A program of Syncline contains no MPI. It loads a small library, the shim, which this command
/// compiles with an MPI's own mpicc; so one build of a program runs under every MPI that has a
/// shim. To be run once for each MPI, and again with a new version of either.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline mpi build [--mpicc <CMD>]... [OPTIONS]",
    after_long_help = "\
Examples:
  syncline mpi build
  module load openmpi && syncline mpi build --mpicc mpicc
  syncline mpi build --into /usr/local/lib/syncline/mpi     (for all, beside /usr/local/bin)

Programs take the shim that fits their launcher; SYNCLINE_MPI=/path/to/shim.so says which."
)]
pub(crate) struct MpiBuildArgs {
    /// An MPI's compiler; may be given several times [default: all on the path of mpicc,
    /// mpicc.openmpi, mpicc.mpich]
    #[arg(long, value_name = "CMD")]
    pub(crate) mpicc: Vec<OsString>,
    /// The folder for shims [default: $XDG_DATA_HOME/syncline/mpi, or ~/.local/share/syncline/mpi]
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
}

/// Lists the shims that programs find, and what they are for
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline mpi list [OPTIONS]")]
pub(crate) struct MpiListArgs {
    /// Print one JSON object, on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Looks at this machine, and says what will hurt and what to do about it
///
/// First the disk of a folder: its file system and room, its speed by a scratch file of 32 MiB that
/// never has a name, whether requests bypass the page cache there (direct I/O), and whether results
/// can be marked (extended attributes). Then memory, cores, what the kernel allows, limits, and the
/// MPIs that are there. Nothing stays, and nothing is loaded. The exit code is 0 whenever it could
/// look, whatever it found.
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline doctor [DIR] [OPTIONS]")]
pub(crate) struct DoctorArgs {
    /// The folder whose disk is looked at; of a file, the folder that it is in
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Print one JSON object, on one line
    #[arg(long)]
    pub(crate) json: bool,
}
