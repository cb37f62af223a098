//! The errors of a farm, each printed as one line.

use std::io;
use std::path::PathBuf;

use syncline_common::signals::{Interrupted, Uncaught};
use syncline_fabric::TeamError;

/// The result type of a farm.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a farm.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the team whose members run the farm.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// An operation that the operating system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system does not let this process catch signals.
    #[error(transparent)]
    Uncaught(#[from] Uncaught),
    /// Options that contradict each other, or that this machine cannot satisfy.
    #[error("{0}")]
    Usage(String),
    /// Workers that all end before they have answered a task.
    #[error("{0}")]
    Workers(String),
    /// The table of an earlier farm, which is not to be replaced.
    #[error("{} exists already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// A signal came before the farm began.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A farm that has told how it ended in lines of its own.
    #[error("told already")]
    Told {
        /// The exit code.
        code: u8,
    },
}
