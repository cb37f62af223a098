//! The errors of this crate.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    family::{Family, Version},
    mpi::ThreadSupport,
};

/// The result of everything in this crate.
pub type Result<T, E = MpiError> = std::result::Result<T, E>;

/// The reason why an operation on MPI failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// There is no shim for the MPI that started this process.
    #[error(
        "{cause}, but there is no shim for it{}: run `syncline mpi build --mpicc mpicc` \
         with that MPI's mpicc (looked in {})",
        there_are(found),
        paths(looked)
    )]
    NoShim {
        /// The subject that needs a shim: "this process was started by Open MPI's mpirun".
        cause: String,
        /// The folders that were searched.
        looked: Vec<PathBuf>,
        /// The MPIs of the shims that were found.
        found: Vec<String>,
    },
    /// There is no shim, and none could be built at this first use.
    #[error("{}, and none can be built now: {why}; {help}", in_short(error))]
    Unbuilt {
        /// The lack of a shim: [`NoShim`](MpiError::NoShim) or [`Abi`](MpiError::Abi).
        #[source]
        error: Box<MpiError>,
        /// The reason why none was built.
        why: String,
        /// The remedy for that reason.
        help: String,
    },
    /// The program has no MPI whose symbols are visible.
    #[error(
        "cannot find the MPI of this program: it has loaded none, or is linked with one whose symbols are not visible"
    )]
    NoMpi,
    /// There are shims for more than one MPI, and the launcher does not say which one it needs.
    #[error(
        "{cause}, which does not name its MPI; set {} to one of the shims {}",
        crate::shim::VARIABLE,
        paths(found)
    )]
    Several {
        /// The subject that needs a shim.
        cause: String,
        /// The shims that were found.
        found: Vec<PathBuf>,
    },
    /// The shim is for another MPI than the one that started this process or that the program has
    /// loaded.
    #[error(
        "the shim {} is for {family} {version}, but {cause}: set {} to a shim for that, \
         or build one by `syncline mpi build`",
        shim.display(), crate::shim::VARIABLE
    )]
    OtherMpi {
        /// The shim's file.
        shim: PathBuf,
        /// The family that the shim was compiled for.
        family: Family,
        /// The version that the shim was compiled for.
        version: Version,
        /// The subject that needs another MPI.
        cause: String,
    },
    /// MPI sees this process only, though the launcher started more.
    #[error(
        "a shim for another MPI: {library} (by {}) has one process, but {launcher} started {size}",
        shim.display()
    )]
    Alone {
        /// The shim's file.
        shim: PathBuf,
        /// The name of the MPI, as its library reports it.
        library: String,
        /// The launcher that started the process.
        launcher: String,
        /// The number of processes that the launcher started.
        size: usize,
    },
    /// The program itself uses another MPI than the shim.
    #[error(
        "the shim {} is for {family} {version}, but this program has loaded {process}: a process can have one MPI",
        shim.display()
    )]
    Process {
        /// The shim's file.
        shim: PathBuf,
        /// The family that the shim was compiled for.
        family: Family,
        /// The version that the shim was compiled for.
        version: Version,
        /// The name of the program's MPI, as its library reports it.
        process: String,
    },
    /// The shim is of another version of Syncline.
    #[error(
        "the shim {} is of another version of Syncline (interface {found}, not {expected}): run `syncline mpi build` again",
        shim.display()
    )]
    Abi {
        /// The shim's file.
        shim: PathBuf,
        /// The interface of the shim.
        found: u32,
        /// The interface of this library.
        expected: u32,
    },
    /// The file is not a shim.
    #[error("{} is not a shim of Syncline: {why}", file.display())]
    NotAShim {
        /// The file.
        file: PathBuf,
        /// The defect of the file.
        why: String,
    },
    /// The library that a shim needs is not found.
    #[error(
        "the shim {} needs {library}, which is not found: load the MPI's module, or add its folder to LD_LIBRARY_PATH",
        shim.display()
    )]
    NoLibrary {
        /// The shim's file.
        shim: PathBuf,
        /// The library's name.
        library: String,
    },
    /// The system's loader refuses a shim.
    #[error("cannot load the shim {}: {why}", shim.display())]
    Load {
        /// The shim's file.
        shim: PathBuf,
        /// The loader's message.
        why: String,
    },
    /// This process has an `Mpi` already; there is at most one.
    #[error("this process has an Mpi already: a process can have one")]
    Taken,
    /// MPI is finalised in this process and cannot be initialised again.
    #[error("cannot {what}: MPI is finalised in this process")]
    Finalized {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// The program has not initialised MPI yet.
    #[error("cannot {what}: MPI is not initialised in this process: call MPI_Init before")]
    Uninitialized {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// This process is a copy that `fork` made of a process of MPI.
    #[error("cannot {what}: this process is a child made by fork(), which does not belong to MPI")]
    Forked {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// The call came from a thread that must not call MPI.
    #[error(
        "cannot {what} in this thread: the MPI grants {granted}, so all its calls must come from the thread that initialised \
         it; call MPI_Init_thread with MPI_THREAD_MULTIPLE for more"
    )]
    Thread {
        /// The operation that was attempted.
        what: &'static str,
        /// The threads that the MPI allows to call it.
        granted: ThreadSupport,
    },
    /// The program's communicator is `MPI_COMM_NULL`, or is not a communicator.
    #[error("cannot {what}: the communicator is MPI_COMM_NULL, or does not belong to this MPI")]
    Communicator {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// The program's communicator connects two groups of processes.
    #[error("cannot {what}: it is an intercommunicator; pass one of a single group of processes")]
    Intercommunicator {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// A rank, tag, length or offset is invalid.
    #[error("cannot {what}: {why}")]
    Argument {
        /// The operation that was attempted.
        what: &'static str,
        /// The reason why the argument is invalid.
        why: String,
    },
    /// A call of MPI failed.
    #[error("cannot {what}: {text}")]
    Call {
        /// The operation that was attempted.
        what: &'static str,
        /// The kind of error.
        fault: ErrorClass,
        /// MPI's own message.
        text: String,
    },
    /// The compiler could not be started.
    #[error("cannot run {mpicc}: {source}")]
    NoCompiler {
        /// The name of the compiler.
        mpicc: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The compiler did not compile the shim.
    #[error("{mpicc} cannot compile the shim:\n{output}")]
    Compiler {
        /// The name of the compiler.
        mpicc: String,
        /// The output of the compiler.
        output: String,
    },
    /// The compiler did not end in time.
    #[error("{mpicc} did not end within {} s and was killed", limit.as_secs_f32().round())]
    SlowCompiler {
        /// The name of the compiler.
        mpicc: String,
        /// The time that it had.
        limit: Duration,
    },
    /// An operation on a file or folder failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that was attempted.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl MpiError {
    /// Returns the kind of error if a call of MPI failed.
    #[must_use]
    pub fn fault(&self) -> Option<ErrorClass> {
        match self {
            MpiError::Call { fault, .. } => Some(*fault),
            _ => None,
        }
    }
}

/// The kinds of MPI errors that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A process that takes part has failed.
    ProcessFailed,
    /// The communicator is revoked.
    Revoked,
    /// A message was longer than its buffer.
    Truncated,
    /// There is not enough memory.
    NoMemory,
    /// The MPI, or its shim, lacks the call.
    NotSupported,
    /// Any other error.
    Other,
}

fn paths(paths: &[PathBuf]) -> String {
    match paths {
        [] => "no folder".to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the lack of a shim without its advice.
fn in_short(error: &MpiError) -> String {
    match error {
        MpiError::NoShim { cause, found, .. } => {
            format!("{cause}, but there is no shim for it{}", there_are(found))
        }
        MpiError::Abi { shim, found, expected } => format!(
            "the shim {} is of another version of Syncline (interface {found}, not {expected})",
            shim.display()
        ),
        error => error.to_string(),
    }
}

fn there_are(found: &[String]) -> String {
    match found {
        [] => String::new(),
        found => format!(" (only for {})", found.join(", ")),
    }
}
