//! The error type of the crate.

use std::io;

/// The result of an operation on a segment.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an operation on a segment.
///
/// A segment does not keep the path of its file: the caller that opened the file adds it to the
/// error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused a mapping, a descriptor operation or advice.
    ///
    /// For advice the offset counts from the segment's first byte, otherwise from the file's.
    #[error("cannot {op} {len} bytes at offset {offset}: {source}")]
    Segment {
        /// The operation that was attempted.
        op: &'static str,
        /// The first byte of the range.
        offset: u64,
        /// The length of the range in bytes.
        len: usize,
        /// The error of the system.
        source: io::Error,
    },

    /// A byte range is reversed or extends beyond the segment.
    #[error("bytes {start}..{end} are not a range in a segment of {len} bytes")]
    Range {
        /// The first byte of the requested range.
        start: usize,
        /// One past the last byte of the requested range.
        end: usize,
        /// The length of the segment in bytes.
        len: usize,
    },

    /// A file is shorter than the requested window: touching the bytes beyond its end would raise a
    /// bus error.
    #[error("cannot map {len} bytes at offset {offset} of a file of {file_len} bytes")]
    PastEnd {
        /// The first byte of the window.
        offset: u64,
        /// The length of the window in bytes.
        len: usize,
        /// The length of the file in bytes.
        file_len: u64,
    },

    /// A length exceeds what this machine can address.
    #[error("{len} bytes at offset {offset} are more than this machine can address")]
    TooLong {
        /// The first byte of the range.
        offset: u64,
        /// The length of the range in bytes.
        len: u64,
    },

    /// Write advice was given on a segment that was mapped for reading only.
    #[error("cannot populate bytes {start}..{end} for writing: the segment is read-only")]
    ReadOnly {
        /// The first byte of the range.
        start: usize,
        /// One past the last byte of the range.
        end: usize,
    },

    /// A descriptor is of the wrong kind.
    #[error("descriptor {fd} is not {expected}")]
    WrongDescriptor {
        /// The number of the descriptor in this process.
        fd: i32,
        /// The expected kind of descriptor.
        expected: &'static str,
    },
}
