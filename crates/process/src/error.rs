//! The one error type of the crate.

use std::io;

/// The result of a question about a process, or about a descriptor that was handed down.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a process cannot be watched, or a descriptor is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A descriptor is of the wrong kind.
    #[error("descriptor {fd} is not {expected}")]
    WrongDescriptor {
        /// Number of the descriptor in this process.
        fd: i32,
        /// What it should have been.
        expected: &'static str,
    },

    /// A process cannot be watched. It does not exist if the source says `ESRCH`.
    #[error("cannot {op} process {pid}: {source}")]
    Process {
        /// What was attempted.
        op: &'static str,
        /// The process number.
        pid: u32,
        /// What the system answered.
        source: io::Error,
    },

    /// A lifeline cannot be made or polled.
    #[error("cannot {op} a lifeline: {source}")]
    Lifeline {
        /// What was attempted.
        op: &'static str,
        /// What the system answered.
        source: io::Error,
    },
}

impl From<Error> for io::Error {
    /// What the system has answered.
    fn from(error: Error) -> io::Error {
        match error {
            Error::Lifeline { source, .. } | Error::Process { source, .. } => source,
            wrong @ Error::WrongDescriptor { .. } => {
                io::Error::new(io::ErrorKind::InvalidInput, wrong)
            }
        }
    }
}
