//! The one error type of the crate.

use std::io;

/// The result of an operation on a segment.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a segment failed.
///
/// A segment does not know the path of its file: the caller, who opened it, adds that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a mapping, a descriptor operation or advice.
    ///
    /// For advice the offset counts from the segment's first byte, otherwise from the file's.
    #[error("cannot {op} {len} bytes at offset {offset}: {source}")]
    Segment {
        /// What was attempted.
        op: &'static str,
        /// First byte of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: usize,
        /// What the system answered.
        source: io::Error,
    },

    /// A byte range is reversed or leaves the segment.
    #[error("bytes {start}..{end} are not a range in a segment of {len} bytes")]
    Range {
        /// First byte asked for.
        start: usize,
        /// One past the last byte asked for.
        end: usize,
        /// Length of the segment in bytes.
        len: usize,
    },

    /// A file is shorter than the window asked for: touching the rest would be a bus error.
    #[error("cannot map {len} bytes at offset {offset} of a file of {file_len} bytes")]
    PastEnd {
        /// First byte of the window.
        offset: u64,
        /// Length of the window in bytes.
        len: usize,
        /// Length of the file in bytes.
        file_len: u64,
    },

    /// A length exceeds what this machine can address.
    #[error("{len} bytes at offset {offset} are more than this machine can address")]
    TooLong {
        /// First byte of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },

    /// Write advice was given on a segment that was mapped for reading only.
    #[error("cannot populate bytes {start}..{end} for writing: the segment is read-only")]
    ReadOnly {
        /// First byte of the range.
        start: usize,
        /// One past the last byte of the range.
        end: usize,
    },

    /// A descriptor is of the wrong kind.
    #[error("descriptor {fd} is not {expected}")]
    WrongDescriptor {
        /// Number of the descriptor in this process.
        fd: i32,
        /// What it should have been.
        expected: &'static str,
    },
}
