//! What can go wrong with an MPI.

use std::io;
use std::path::PathBuf;

use crate::{
    family::{Family, Version},
    mpi::ThreadSupport,
};

/// The result of everything in this crate.
pub type Result<T, E = MpiError> = std::result::Result<T, E>;

/// Why something could not be done with MPI.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// There is no shim for the MPI that started this process.
    #[error(
        "{who}, but there is no shim for it{}: run `syncline mpi build --mpicc mpicc` \
         with that MPI's mpicc (looked in {})",
        there_are(found),
        paths(looked)
    )]
    NoShim {
        /// What asks for it: "this process was started by Open MPI's mpirun".
        who: String,
        /// The folders that were looked into.
        looked: Vec<PathBuf>,
        /// What the shims that are there are for.
        found: Vec<String>,
    },
    /// The program has no MPI that could be seen.
    #[error(
        "cannot find the MPI of this program: it has loaded none, or has it linked in where it cannot be seen"
    )]
    NoMpi,
    /// There are shims for more than one MPI, and nobody says which is wanted.
    #[error(
        "{who}, which does not say of which MPI it is; set {}, there are shims {}",
        crate::shim::VARIABLE,
        paths(found)
    )]
    Several {
        /// What asks for one.
        who: String,
        /// The shims.
        found: Vec<PathBuf>,
    },
    /// The shim is for another MPI than that which started this process, or which the program has loaded.
    #[error(
        "the shim {} is for {family} {version}, but {who}: set {} to a shim for that, \
         or build one by `syncline mpi build`",
        shim.display(), crate::shim::VARIABLE
    )]
    OtherMpi {
        /// Its file.
        shim: PathBuf,
        /// The family that it was compiled for.
        family: Family,
        /// The version of that.
        version: Version,
        /// What asks for another.
        who: String,
    },
    /// MPI knows of this process only, though it was started with others.
    #[error(
        "a shim for another MPI: {library} (by {}) knows of one process, but {launcher} started {size}",
        shim.display()
    )]
    Alone {
        /// The shim's file.
        shim: PathBuf,
        /// What the library says that it is.
        library: String,
        /// Who started the process.
        launcher: String,
        /// How many it started.
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
        /// The family that it was compiled for.
        family: Family,
        /// The version of that.
        version: Version,
        /// What the program's MPI says that it is.
        process: String,
    },
    /// A shim of another version of Syncline.
    #[error(
        "the shim {} is of another version of Syncline (interface {found}, not {expected}): run `syncline mpi build` again",
        shim.display()
    )]
    Abi {
        /// Its file.
        shim: PathBuf,
        /// Its interface.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// A file that is no shim.
    #[error("{} is not a shim of Syncline: {why}", file.display())]
    NotAShim {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
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
        /// Its file.
        shim: PathBuf,
        /// What the loader says.
        why: String,
    },
    /// A process has MPI once.
    #[error("this process has an Mpi already: there is one in a process")]
    Taken,
    /// MPI has ended in this process, and cannot begin again.
    #[error("cannot {what}: MPI is finalised in this process")]
    Finalized {
        /// What was tried.
        what: &'static str,
    },
    /// This process is a copy that `fork` has made of one of MPI's.
    #[error("cannot {what}: this process is a child made by fork(), and none of MPI's")]
    Forked {
        /// What was tried.
        what: &'static str,
    },
    /// A call from a thread that must make none.
    #[error(
        "cannot {what} in this thread: the MPI grants {granted}, so all its calls must come from the thread that initialised \
         it; call MPI_Init_thread with MPI_THREAD_MULTIPLE for more"
    )]
    Thread {
        /// What was tried.
        what: &'static str,
        /// What the MPI allows.
        granted: ThreadSupport,
    },
    /// A communicator of the program that has no processes: `MPI_COMM_NULL`, which also stands for what is none.
    #[error("cannot {what}: it is MPI_COMM_NULL, or none of this MPI's communicators")]
    Communicator {
        /// What was tried.
        what: &'static str,
    },
    /// A rank, tag, length or place that is none.
    #[error("cannot {what}: {why}")]
    Argument {
        /// What was tried.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A call of MPI failed.
    #[error("cannot {what}: {text}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// Of which kind the error is.
        fault: ErrorClass,
        /// What the MPI says.
        text: String,
    },
    /// The compiler could not be started.
    #[error("cannot run {mpicc}: {source}")]
    NoCompiler {
        /// Its name.
        mpicc: String,
        /// What the system answered.
        source: io::Error,
    },
    /// The compiler did not compile the shim.
    #[error("{mpicc} cannot compile the shim:\n{output}")]
    Compiler {
        /// Its name.
        mpicc: String,
        /// What it said.
        output: String,
    },
    /// A file or folder.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
}

impl MpiError {
    /// Of which kind the error of a call of MPI is.
    #[must_use]
    pub fn fault(&self) -> Option<ErrorClass> {
        match self {
            MpiError::Call { fault, .. } => Some(*fault),
            _ => None,
        }
    }
}

/// The kinds of errors of MPI that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A process that takes part has failed.
    ProcessFailed,
    /// The communicator was revoked.
    Revoked,
    /// A message was longer than its buffer.
    Truncated,
    /// There is no memory for it.
    NoMemory,
    /// The MPI, or its shim, has no such call.
    NotSupported,
    /// All else.
    Other,
}

fn paths(paths: &[PathBuf]) -> String {
    match paths {
        [] => "no folder".to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

fn there_are(found: &[String]) -> String {
    match found {
        [] => String::new(),
        found => format!(" (only for {})", found.join(", ")),
    }
}
