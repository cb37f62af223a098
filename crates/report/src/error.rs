//! Errors of reports.

use std::io;
use std::path::PathBuf;

use syncline_trace::TraceError;

/// Why a report or an export cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace has no events, or no process that recorded any.
    #[error("{} has no events: {why}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What is known of the reason.
        why: String,
    },
    /// The name of a file does not say what to write.
    #[error("the name of {} does not say what to write: .html, .json, .csv or .pftrace", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// A result cannot be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// The result.
        what: String,
        /// The reason.
        source: io::Error,
    },
}
