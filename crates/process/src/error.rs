//! The error type of the crate.

use std::io;

/// The result of an operation on a process, or on an inherited descriptor.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a process cannot be watched, or a descriptor cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A descriptor is of the wrong kind.
    #[error("descriptor {fd} is not {expected}")]
    WrongDescriptor {
        /// The number of the descriptor in this process.
        fd: i32,
        /// The kind of descriptor that was expected.
        expected: &'static str,
    },

    /// A process cannot be watched. The source is `ESRCH` if it does not exist.
    #[error("cannot {op} process {pid}: {source}")]
    Process {
        /// The operation that failed.
        op: &'static str,
        /// The process ID.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },

    /// A lifeline cannot be made or polled.
    #[error("cannot {op} a lifeline: {source}")]
    Lifeline {
        /// The operation that failed.
        op: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl From<Error> for io::Error {
    /// Returns the system's error; a wrong descriptor becomes `InvalidInput`.
    fn from(error: Error) -> io::Error {
        match error {
            Error::Lifeline { source, .. } | Error::Process { source, .. } => source,
            wrong @ Error::WrongDescriptor { .. } => {
                io::Error::new(io::ErrorKind::InvalidInput, wrong)
            }
        }
    }
}
