//! A block in memory with a halo of one line, and its update.
//!
//! A number of rows are updated together along a diagonal, on which no point depends on another:
//! ```text
//!   step 0  1  2  3  4        The points above and to the left of a point were updated in earlier
//!   row  0  1  2  3  4        steps; those to the right and below are updated in later steps.
//!        .  0  1  2  3
//!        .  .  0  1  2
//! ```
//! The processor therefore works on several points at once; the operations of a point and their
//! order are those of the plain double loop.
//!
//! Costs: two copies of the block, in and out; three or four if it is framed.

use syncline_store::{
    Shape,
    blocks::{Contents, MatrixBlock, Region},
    placement::{Rect, Side},
};
use syncline_wave::{Neighbours, PointKernel, kernels::Lk23};

use super::Result;

/// The number of rows that are updated together.
const TOGETHER: usize = 8;

/// A block with a halo of one line. Halo values outside the matrix have no meaning.
#[derive(Debug)]
pub(crate) struct Halo {
    rect: Rect,
    /// `rows + 2` by `cols + 2`.
    values: Vec<f64>,
    /// The staging buffer for a framed block, row-major.
    staged: Vec<f64>,
}

impl Halo {
    pub(crate) const fn new() -> Self {
        let rect = Rect { row: 0, col: 0, rows: 0, cols: 0 };
        Halo { rect, values: Vec::new(), staged: Vec::new() }
    }

    /// Loads a block; the halo lines must be set afterwards.
    pub(crate) fn load(&mut self, part: &MatrixBlock) -> Result<()> {
        self.rect = part.rect();
        self.values.resize((self.rect.rows + 2) * self.pitch(), 0.0);
        if part.in_place() {
            let view = part.view()?;
            (0..self.rect.rows).for_each(|i| self.row_mut(i).copy_from_slice(view.row(i)));
            return Ok(());
        }
        let mut staged = std::mem::take(&mut self.staged);
        staged.resize(self.rect.elements(), 0.0);
        part.load(&mut staged)?;
        let rows = staged.chunks_exact(self.rect.cols).enumerate();
        rows.for_each(|(i, row)| self.row_mut(i).copy_from_slice(row));
        self.staged = staged;
        Ok(())
    }

    /// Stores the block.
    pub(crate) fn store(&mut self, region: &mut Region) -> Result<()> {
        if region.in_place() {
            let mut view = region.view_mut(Contents::Discard)?;
            (0..self.rect.rows).for_each(|i| view.row_mut(i).copy_from_slice(self.row(i)));
            return Ok(());
        }
        let mut staged = std::mem::take(&mut self.staged);
        staged.clear();
        (0..self.rect.rows).for_each(|i| staged.extend_from_slice(self.row(i)));
        region.store(&staged)?;
        self.staged = staged;
        Ok(())
    }

    /// Sets the halo line on one side of the block.
    pub(crate) fn set_line(&mut self, side: Side, line: &[f64]) {
        debug_assert_eq!(line.len(), self.rect.line(side));
        let first = self.start(side, 1);
        let step = if side.is_row() { 1 } else { self.pitch() };
        let places = self.values[first..].iter_mut().step_by(step);
        places.zip(line).for_each(|(place, value)| *place = *value);
    }

    /// Returns the outermost line of the block itself on one side.
    pub(crate) fn line(&self, side: Side) -> impl Iterator<Item = f64> {
        let step = if side.is_row() { 1 } else { self.pitch() };
        let line = self.values[self.start(side, 0)..].iter().step_by(step);
        line.take(self.rect.line(side)).copied()
    }

    /// Updates the points that are interior to a matrix of `shape`; `coefficient(n, i)` is row `i`
    /// of the block of coefficient `n`.
    pub(crate) fn update<'c>(
        &mut self,
        shape: Shape,
        coefficient: impl Fn(usize, usize) -> &'c [f64],
    ) {
        let Rect { row, col, rows, cols } = self.rect;
        let (top, left) = (usize::from(row == 0), usize::from(col == 0));
        let bottom = rows.min((shape.rows - 1).saturating_sub(row));
        let right = cols.min((shape.cols - 1).saturating_sub(col));
        let width = right.saturating_sub(left);
        let pitch = self.pitch();
        for first in (top..bottom).step_by(TOGETHER) {
            let rows = TOGETHER.min(bottom - first);
            let coefficients: [[&[f64]; 5]; TOGETHER] = std::array::from_fn(|r| {
                std::array::from_fn(|n| coefficient(n, (first + r).min(first + rows - 1)))
            });
            for step in 0..(width + rows).saturating_sub(usize::from(width > 0)) {
                // Row `r` is `r` columns behind the first; some rows have not begun, some have
                // ended.
                let (from, to) = ((step + 1).saturating_sub(width), rows.min(step + 1));
                for (r, coefficients) in coefficients.iter().enumerate().take(to).skip(from) {
                    let k = left + step - r;
                    let at = (first + r + 1) * pitch + k + 1;
                    let here = coefficients.map(|row| row[k]);
                    self.values[at] = Lk23.update(self.around(at, pitch), here);
                }
            }
        }
    }

    fn around(&self, at: usize, pitch: usize) -> Neighbours<f64> {
        Neighbours {
            centre: self.values[at],
            north: self.values[at - pitch],
            west: self.values[at - 1],
            east: self.values[at + 1],
            south: self.values[at + pitch],
            north_west: f64::NAN,
            south_east: f64::NAN,
            north_east: f64::NAN,
            south_west: f64::NAN,
        }
    }

    const fn pitch(&self) -> usize {
        self.rect.cols + 2
    }

    /// Returns the index of the first value of a line of the block, or of the line `outside` lines
    /// beyond it.
    const fn start(&self, side: Side, outside: usize) -> usize {
        let (row, col) = match side {
            Side::North => (1 - outside, 1),
            Side::West => (1, 1 - outside),
            Side::East => (1, self.rect.cols + outside),
            Side::South => (self.rect.rows + outside, 1),
        };
        row * self.pitch() + col
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.values[(i + 1) * self.pitch() + 1..][..self.rect.cols]
    }

    fn row_mut(&mut self, i: usize) -> &mut [f64] {
        let start = (i + 1) * self.pitch() + 1;
        &mut self.values[start..][..self.rect.cols]
    }
}
