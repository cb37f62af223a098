//! What can go wrong with a command, in one line each.

use std::io;
use std::path::PathBuf;

use crate::units::Bytes;

/// The result of everything in this command.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A matrix or file, as the store has it.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    /// A sweep.
    #[error(transparent)]
    Wave(#[from] syncline_wave::Error),
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Usage(String),
    /// A file that is there already and is not to be replaced.
    #[error("{} exists already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be the output.
    #[error("the output {} {why}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The room on disk does not suffice for the matrix to compare with.
    #[error("--verify needs room beside the output: {0}")]
    VerifyRoom(syncline_store::Error),
    /// The memory bound does not hold the program and the least piece of work.
    #[error(
        "a memory bound of {bound} ({} bytes) is too small: the program itself takes {own}, and {piece} {needed}; \
         allow at least {}", bound.0, Bytes(own.0 + needed.0)
    )]
    Memory {
        /// The bound.
        bound: Bytes,
        /// What the program takes without data.
        own: Bytes,
        /// The least piece of work.
        piece: String,
        /// What that takes.
        needed: Bytes,
    },
    /// The result is not that of the plain loop.
    #[error("the result (left) differs from {with} (right) at {at}; no output was written")]
    Differs {
        /// What it was compared with.
        with: &'static str,
        /// Where, and the two values.
        at: String,
    },
    /// The work panicked; the message was printed when it did.
    #[error("the command failed by a fault of its own (a panic)")]
    Panic,
    /// SIGINT, SIGTERM.
    #[error("interrupted by {}; nothing was written", signal_name(*.0))]
    Interrupted(u8),
}

impl Error {
    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted(signal) => 128 + signal,
            _ => 1,
        }
    }
}

fn signal_name(signal: u8) -> &'static str {
    signal_hook::low_level::signal_name(signal.into()).unwrap_or("a signal")
}
