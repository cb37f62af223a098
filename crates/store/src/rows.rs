//! Reads and writes rectangles of a matrix in any layout, row-major, by few, large, sequential
//! accesses.
//!
//! A rectangle consists of many short runs of values, most of which are adjacent in stored order: a
//! full-width band of a blocked matrix is one contiguous piece of the file. Runs are therefore
//! gathered as long as each starts where the previous one ended, or for reading within a small gap,
//! and a bounded stage is read or written in one access:
//!
//! ```text
//! file  ...[run][run][run]           [run]..[run]...
//!          \____________/            \__________/
//!             one pread    wide gap     another     ->  stage  ->  each run to the buffer
//! ```
//!
//! Costs: one access for each stage or wide gap, and one copy of each value through the stage; an
//! isolated run is transferred directly between file and buffer.

use crate::placement::Copies;
use crate::{Element, Result, layout::Rect, placement::Placement};

/// The number of values staged at once if memory is not bounded: 1 MiB of doubles.
pub(crate) const STAGE: usize = 1 << 17;

/// Returns the maximal number of bytes of memory for each staged value: the value and a run,
/// because a run has at least one value; doubled, because vectors grow by doubling.
pub(crate) const fn bytes_per_staged<T: Element>() -> usize {
    2 * (T::BYTES + size_of::<Run>())
}

/// The largest gap, in bytes, that is read and dropped rather than skipped by another access: a
/// page. A frame has such gaps: the second copies of its corners.
const GAP: usize = 4096;

/// A run of values: its position in the file, its position in the buffer, and its length.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    to: usize,
    len: usize,
}

/// A group of runs that are close to each other in stored order: a single run of any length, which
/// is contiguous in the buffer, too, or several runs within `limit` values.
struct Adjacent {
    limit: usize,
    /// The largest gap between runs, in values.
    gap: usize,
    start: usize,
    end: usize,
    runs: Vec<Run>,
}

impl Adjacent {
    const fn new(limit: usize, gap: usize) -> Self {
        Self { limit, gap, start: 0, end: 0, runs: Vec::new() }
    }

    /// Adds a run that comes later in stored order; returns false, without adding it, if it is too
    /// far away or the group would exceed the limit.
    fn take(&mut self, run: Run) -> bool {
        let end = run.at + run.len;
        if self.runs.is_empty() {
            self.start = run.at;
        }
        let one = self.runs.len() == 1;
        match self.runs.last_mut() {
            // The run is also contiguous in the buffer.
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
            // The part of the block that is in the rectangle, relative to the block.
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

/// Calls `flush` with all runs of `rect`, in groups as large as `adjacent` accepts.
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
        // A single run may grow beyond the limit.
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
