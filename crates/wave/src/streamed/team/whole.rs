//! A result in the memory of every member.
//!
//! # Contract
//! The final rows of a group are data of a location, which all members read: each copies them to
//! its own matrix. A pass reads the field from one matrix and fills another, since the members to
//! the west are ahead, and their final rows come while a member still reads.
//!
//! ```text
//! group 0   rows out ── write r ──> final rows of 0 ──┬── take r ──> matrix of member 0
//! group 1   rows out ── write r ──> final rows of 1 ──┼── take r ──> matrix of member 1
//!                                                     └── ...
//! ```
//!
//! # Costs
//! One message with the final rows of a band for each group and each other host. Each member writes
//! the whole matrix.
//!
//! # Source
//! This project's: an allgather (MPI 4.1, section 6.7), a band at a time, while the sweep runs.

use std::ops::Range;

use syncline_store::columns::Share as FileShare;

use super::data::in_file;
use crate::lanes::Real;
use crate::streamed::data::{Source, all_rows};

/// The matrix of a member: all rows, in the order of the rows.
#[derive(Clone, Copy)]
pub(super) struct Whole<E> {
    first: *mut E,
    shape: (usize, usize),
}

// SAFETY: an address and two numbers; the methods that write are unsafe.
unsafe impl<E: Send> Send for Whole<E> {}
// SAFETY: as for `Send`.
unsafe impl<E: Send> Sync for Whole<E> {}

impl<E: Real> Whole<E> {
    /// A matrix of this shape in these values, which nothing else accesses as long as it is used.
    pub(super) fn new(values: &mut [E], (rows, cols): (usize, usize)) -> Self {
        assert_eq!(values.len(), rows * cols);
        Whole { first: values.as_mut_ptr(), shape: (rows, cols) }
    }

    /// Returns the matrix as the source of the next pass.
    pub(super) fn source(&self) -> Source<'static, E> {
        Source::Memory(all_rows(self.first, self.shape.0, self.shape.1))
    }

    /// Copies the final rows of a group, as [`pack`] has put them, to their place.
    ///
    /// # Safety
    /// The values are valid, and no other thread accesses the columns of the group in these rows.
    pub(super) unsafe fn take(
        &self,
        file: &FileShare,
        group: usize,
        rows: Range<usize>,
        values: &[E],
    ) {
        let mut taken = 0;
        for row in rows {
            assert!(row < self.shape.0);
            let columns = columns::<E>(file, row, group);
            assert!(columns.end <= self.shape.1);
            let part = &values[taken..taken + columns.len()];
            taken += columns.len();
            let first = self.first.wrapping_add(row * self.shape.1 + columns.start);
            // SAFETY: row and columns are inside the matrix, whose values are valid and accessed by
            // no other thread, as the caller guarantees. The values of a location do not overlap
            // it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), first, part.len()) };
        }
    }
}

/// Returns the columns of a row that a group finishes.
pub(super) fn columns<E: Real>(file: &FileShare, row: usize, group: usize) -> Range<usize> {
    let bytes = file.columns(row as u64, group);
    bytes.start as usize / E::BYTES..bytes.end as usize / E::BYTES
}

/// Returns the number of values of a group in these rows.
pub(super) fn count<E: Real>(file: &FileShare, group: usize, rows: Range<usize>) -> usize {
    rows.map(|row| columns::<E>(file, row, group).len()).sum()
}

/// Puts the final rows of a group into `values`, one after another. `buffer` has them as
/// [`FileShare::place`] says.
pub(super) fn pack<E: Real>(
    file: &FileShare,
    group: usize,
    rows: Range<usize>,
    buffer: &[u8],
    values: &mut [E],
) {
    let (all, place) = file.place(&in_file(&rows), group);
    let start = all.start as usize / E::BYTES;
    let (mut put, first) = (0, rows.start);
    for row in rows {
        let columns = columns::<E>(file, row, group);
        if columns.is_empty() {
            continue;
        }
        let at = place.lead + (row - first) * place.pitch + (columns.start - start) * E::BYTES;
        let part = &buffer[at..at + columns.len() * E::BYTES];
        bytemuck::cast_slice_mut(&mut values[put..put + columns.len()]).copy_from_slice(part);
        put += columns.len();
    }
}
