//! Checksums of a field, per unit of rows, computed as the rows are read or written.
//!
//! A unit is a number of rows, counted from row 0; the last unit may be shorter. Units do not
//! depend on how passes cut the matrix into panels, so a run with other panels can check a
//! generation.

use std::ops::Range;

use syncline_store::checksum::Checksum;

use crate::Result;

/// The checksums of the units that have been fed so far.
#[derive(Default)]
pub(crate) struct Sums {
    /// The number of rows in a unit.
    unit: usize,
    /// The number of rows of the matrix.
    rows: usize,
    /// The number of the next row.
    row: usize,
    current: Checksum,
    done: Vec<u64>,
}

impl Sums {
    pub(crate) fn new(unit: usize, rows: usize) -> Self {
        Sums { unit, rows, ..Sums::default() }
    }

    /// Adds the bytes of the next rows. Calls `ended` with the number and the checksum of each unit
    /// that is complete.
    pub(crate) fn feed(
        &mut self,
        rows: Range<usize>,
        bytes: &[u8],
        mut ended: impl FnMut(usize, u64) -> Result<()>,
    ) -> Result<()> {
        debug_assert_eq!(rows.start, self.row);
        let row_bytes = bytes.len().checked_div(rows.len()).unwrap_or(0);
        let mut bytes = bytes;
        while self.row < rows.end {
            let end = ((self.row / self.unit + 1) * self.unit).min(self.rows);
            let here = end.min(rows.end);
            let (now, later) = bytes.split_at((here - self.row) * row_bytes);
            self.current.update(now);
            (bytes, self.row) = (later, here);
            if here == end {
                let sum = std::mem::take(&mut self.current).value();
                ended(self.done.len(), sum)?;
                self.done.push(sum);
            }
        }
        Ok(())
    }

    /// Returns all checksums so far.
    pub(crate) fn into_done(self) -> Vec<u64> {
        self.done
    }
}

impl std::fmt::Debug for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sums")
            .field("row", &self.row)
            .field("done", &self.done.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Sums;
    use syncline_store::checksum::checksum;

    #[test]
    fn sums_do_not_depend_on_the_pieces() {
        let bytes: Vec<u8> = (0..23 * 8).map(|i| (i * 7 % 251) as u8).collect();
        let expected: Vec<u64> = bytes.chunks(5 * 8).map(checksum).collect();
        for piece in 1..=23 {
            let (mut sums, mut told) = (Sums::new(5, 23), Vec::new());
            for row in (0..23).step_by(piece) {
                let rows = row..(row + piece).min(23);
                let part = &bytes[rows.start * 8..rows.end * 8];
                let tell = |unit, sum| {
                    told.push((unit, sum));
                    Ok(())
                };
                sums.feed(rows, part, tell).unwrap();
            }
            assert!(told.iter().map(|t| t.1).eq(expected.iter().copied()));
            assert_eq!(sums.into_done(), expected);
        }
    }
}
