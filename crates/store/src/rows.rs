//! Rectangles of a matrix in any layout, read and written row-major by few, large, sequential accesses.
//!
//! A rectangle is many short runs of values, which in stored order are mostly adjacent: a full-width band of
//! a blocked matrix is one contiguous piece of the file. So runs are gathered while each starts where the
//! last ended, or for reading a little further, and a bounded stage is read or written in one access:
//!
//! ```text
//! file  ...[run][run][run]           [run]..[run]...
//!          \____________/            \__________/
//!             one pread    wide gap     another     ->  stage  ->  each run to its place in the buffer
//! ```
//!
//! Costs: one access per stage or wide gap, one copy of each value through the stage; a run that stands alone
//! goes straight between file and buffer.

use crate::placement::Copies;
use crate::{Element, Result, layout::Rect, placement::Placement};

/// Values staged at once where memory is no concern: 1 MiB of doubles.
pub(crate) const STAGE: usize = 1 << 17;

/// Bytes of memory for each value of the stage at most: the value and a run, as a run has at least one value,
/// and twice that because vectors double.
pub(crate) const fn bytes_per_staged<T: Element>() -> usize {
    2 * (T::BYTES + size_of::<Run>())
}

/// Bytes that are rather read and dropped than left out by another access: a page. A frame has such gaps,
/// its second corners.
const GAP: usize = 4096;

/// A run of values: where it is stored, where in the buffer, how many.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    to: usize,
    len: usize,
}

/// Runs that are near each other in stored order: one in the buffer of any length, or several in `limit`
/// values.
struct Adjacent {
    limit: usize,
    /// The largest gap between runs.
    gap: usize,
    start: usize,
    end: usize,
    runs: Vec<Run>,
}

impl Adjacent {
    const fn new(limit: usize, gap: usize) -> Self {
        Self { limit, gap, start: 0, end: 0, runs: Vec::new() }
    }

    /// Adds a run that comes later in stored order, or refuses it when it is too far off or too much.
    fn take(&mut self, run: Run) -> bool {
        let end = run.at + run.len;
        if self.runs.is_empty() {
            self.start = run.at;
        }
        let one = self.runs.len() == 1;
        match self.runs.last_mut() {
            // Goes on in the buffer too.
            Some(last)
                if run.at == self.end
                    && run.to == last.to + last.len
                    && (one || end - self.start <= self.limit) =>
            {
                last.len += run.len;
            }
            Some(_) if end - self.start > self.limit || run.at - self.end > self.gap => {
                return false;
            }
            _ => self.runs.push(run),
        }
        self.end = end;
        true
    }
}

/// Calls `visit` with each run of `rect`, in stored order; each element once or in all its copies.
fn runs(
    place: &Placement,
    rect: Rect,
    copies: Copies,
    mut visit: impl FnMut(Run) -> Result<()>,
) -> Result<()> {
    let grid = place.grid();
    let block = grid.block_size();
    let (bottom, right) = (rect.row + rect.rows, rect.col + rect.cols);
    for i in rect.row / block.rows..bottom.div_ceil(block.rows) {
        for j in rect.col / block.cols..right.div_ceil(block.cols) {
            let own = grid.block(i, j);
            // What of the block is in the rectangle, relative to the block.
            let top = rect.row.saturating_sub(own.row);
            let left = rect.col.saturating_sub(own.col);
            let wanted = Rect {
                row: top,
                col: left,
                rows: own.rows.min(bottom - own.row).saturating_sub(top),
                cols: own.cols.min(right - own.col).saturating_sub(left),
            };
            for section in place.sections(grid.index(i, j), copies) {
                let section = section.within(wanted);
                let first = (own.row + section.rect.row - rect.row) * rect.cols
                    + own.col
                    + section.rect.col
                    - rect.col;
                for (row, run) in
                    section.rows().runs().enumerate().filter(|(_, run)| !run.is_empty())
                {
                    visit(Run { at: run.start, to: first + row * rect.cols, len: run.len() })?;
                }
            }
        }
    }
    Ok(())
}

/// Reads `rect` into `values`; `access(at, to)` reads the stored values from `at` on.
pub(crate) fn read<T: Element>(
    place: &Placement,
    rect: Rect,
    values: &mut [T],
    stage: usize,
    mut access: impl FnMut(usize, &mut [T]) -> Result<()>,
) -> Result<()> {
    let mut staged = Vec::new();
    gather(place, rect, Copies::One, Adjacent::new(stage, GAP / T::BYTES), |adjacent| {
        if let [only] = adjacent.runs.as_slice() {
            return access(adjacent.start, &mut values[only.to..][..only.len]);
        }
        staged.resize(adjacent.end - adjacent.start, T::default());
        access(adjacent.start, &mut staged)?;
        for run in &adjacent.runs {
            let from = &staged[run.at - adjacent.start..][..run.len];
            values[run.to..][..run.len].copy_from_slice(from);
        }
        Ok(())
    })
}

/// Writes `values` to `rect`; `access(at, from)` writes the stored values from `at` on.
pub(crate) fn write<T: Element>(
    place: &Placement,
    rect: Rect,
    values: &[T],
    stage: usize,
    mut access: impl FnMut(usize, &[T]) -> Result<()>,
) -> Result<()> {
    let mut staged = Vec::new();
    gather(place, rect, Copies::All, Adjacent::new(stage, 0), |adjacent| {
        if let [only] = adjacent.runs.as_slice() {
            return access(adjacent.start, &values[only.to..][..only.len]);
        }
        staged.clear();
        for run in &adjacent.runs {
            staged.extend_from_slice(&values[run.to..][..run.len]);
        }
        access(adjacent.start, &staged)
    })
}

/// Calls `flush` with all the runs of `rect`, as many at a time as `adjacent` takes.
fn gather(
    place: &Placement,
    rect: Rect,
    copies: Copies,
    mut adjacent: Adjacent,
    mut flush: impl FnMut(&Adjacent) -> Result<()>,
) -> Result<()> {
    runs(place, rect, copies, |run| {
        if !adjacent.take(run) {
            flush(&adjacent)?;
            adjacent.runs.clear();
            adjacent.take(run);
        }
        Ok(())
    })?;
    match adjacent.runs.is_empty() {
        true => Ok(()),
        false => flush(&adjacent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_gathered_up_to_gap_and_limit() {
        let mut adjacent = Adjacent::new(10, 2);
        let take = |adjacent: &mut Adjacent, at, to, len| adjacent.take(Run { at, to, len });
        // Alone, a run may go on beyond the limit.
        assert!(take(&mut adjacent, 100, 0, 8) && take(&mut adjacent, 108, 8, 8));
        assert!(!take(&mut adjacent, 116, 50, 1));
        assert_eq!((adjacent.start, adjacent.end, adjacent.runs.len()), (100, 116, 1));
        adjacent.runs.clear();
        assert!(take(&mut adjacent, 0, 0, 2) && take(&mut adjacent, 4, 20, 2));
        assert!(!take(&mut adjacent, 9, 30, 1), "a gap of 3");
        assert!(!take(&mut adjacent, 6, 30, 5), "11 values");
        assert!(take(&mut adjacent, 6, 22, 4));
        assert_eq!((adjacent.start, adjacent.end, adjacent.runs.len()), (0, 10, 2));
    }
}
