//! Errors of trace files.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a trace cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened, locked, written or read.
    File {
        /// What failed: `open`, `write`, `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has other contents.
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the format.
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        version: u32,
    },
    /// This process records already.
    Recording {
        /// The file that it writes.
        path: PathBuf,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::File { what, path, source } => {
                write!(f, "cannot {what} the trace {}: {source}", path.display())
            }
            TraceError::NotATrace { path } => {
                write!(f, "{} is not a trace of Syncline", path.display())
            }
            TraceError::OtherVersion { path, version } => write!(
                f,
                "{} has version {version} of the trace format; this program has version {}",
                path.display(),
                crate::frame::VERSION
            ),
            TraceError::Recording { path } => {
                write!(f, "this process records the trace {} already", path.display())
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
