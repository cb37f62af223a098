//! What can go wrong with a race, in one line each.

use std::io;

use syncline_fabric::TeamError;

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
    /// A team of processes.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The operating system refused something, or a peer failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
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
            Self::Usage(_) | Self::Team(TeamError::Members { .. }) => 2,
            Self::Interrupted(signal) => 128 + signal,
            Self::Team(error) => error.exit_code(),
            _ => 1,
        }
    }
}

fn signal_name(signal: u8) -> &'static str {
    signal_hook::low_level::signal_name(signal.into()).unwrap_or("a signal")
}
