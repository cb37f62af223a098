//! The sources of the rows of a pass of a team.

use syncline_store::{Matrix, direct_io::DirectFile};

use crate::lanes::Real;
use crate::strip::pack::Rows;
use crate::sweep::IN_BLOCKS;
use crate::{Error, Result};

/// An array that a pass reads.
pub(crate) enum Source<'a, E> {
    /// All rows, in memory.
    Memory(Rows<E>),
    /// A file and the byte offset of its first element.
    File(&'a DirectFile, u64),
}

/// A matrix as the executor holds it during a run.
pub(crate) enum Held {
    Memory,
    File(DirectFile, u64),
}

impl Held {
    /// Prepares a row-major matrix for reading or writing; opens its file, if it has one.
    ///
    /// # Errors
    /// Returns an error if the matrix is in another layout, or its file cannot be opened for direct
    /// I/O.
    pub(crate) fn of<E: Real>(matrix: &Matrix<E>) -> Result<Self> {
        if matrix.as_slice().is_some() {
            return Ok(Held::Memory);
        }
        match matrix.direct()? {
            Some((file, start)) => Ok(Held::File(file, start)),
            None => Err(Error::NotStreamed {
                name: matrix.name().to_owned(),
                why: format!("it is not row-major; {IN_BLOCKS}"),
            }),
        }
    }

    pub(crate) fn source<'a, E: Real>(&'a self, matrix: &Matrix<E>) -> Source<'a, E> {
        match (self, matrix.as_slice()) {
            (Held::File(file, start), _) => Source::File(file, *start),
            (Held::Memory, values) => Source::Memory(all_rows(
                values.map_or(std::ptr::null_mut(), |v| v.as_ptr().cast_mut()),
                matrix.shape().rows,
                matrix.shape().cols,
            )),
        }
    }
}

/// Returns all rows of a matrix in memory.
pub(crate) fn all_rows<E>(start: *mut E, rows: usize, cols: usize) -> Rows<E> {
    Rows { start, first: 0, end: rows, left: 0, right: cols, pitch: cols }
}
