//! The hot loop: all interior points of one block, row by row.
//!
//! The block's rows stand in place (a view of the matrix) or in a buffer; the lines around it, one
//! value thick, have been copied from its neighbours.

use syncline_store::{Rect, Shape, Side, View, ViewMut};

use crate::{Neighbours, PointKernel};

/// The rows of a block, each reachable together with the rows above and below.
pub(crate) trait Rows {
    /// Row `i` for writing, between the rows above and below it as far as they are in the block.
    fn around(&mut self, i: usize) -> (Option<&[f64]>, &mut [f64], Option<&[f64]>);
}

impl Rows for ViewMut<'_> {
    #[inline]
    fn around(&mut self, i: usize) -> (Option<&[f64]>, &mut [f64], Option<&[f64]>) {
        self.rows_around(i)
    }
}

/// A block in a buffer, row after row.
pub(crate) struct Buffer<'a> {
    pub(crate) values: &'a mut [f64],
    pub(crate) cols: usize,
}

impl Rows for Buffer<'_> {
    #[inline]
    fn around(&mut self, i: usize) -> (Option<&[f64]>, &mut [f64], Option<&[f64]>) {
        let (above, rest) = self.values.split_at_mut(i * self.cols);
        let (row, below) = rest.split_at_mut(self.cols);
        let north = above.len().checked_sub(self.cols).map(|from| &above[from..]);
        (north, row, below.get(..self.cols))
    }
}

/// The lines around a block; empty at the edge of the matrix.
#[derive(Debug, Default)]
pub(crate) struct Frontiers {
    lines: [Vec<f64>; 4],
}

impl Frontiers {
    pub(crate) fn line(&self, side: Side) -> &[f64] {
        &self.lines[side as usize]
    }

    /// The buffer for the line on this side, `len` values long.
    pub(crate) fn line_mut(&mut self, side: Side, len: usize) -> &mut [f64] {
        let line = &mut self.lines[side as usize];
        line.resize(len, 0.0);
        line
    }
}

/// Updates the interior points of the block `rect` of a matrix of `shape`. Returns the greatest change
/// of a point if `NORM`, or else 0; what is not a number counts as greater than all.
pub(crate) fn update<K, const N: usize, const NORM: bool>(
    kernel: &K,
    rows: &mut impl Rows,
    frontiers: &Frontiers,
    coefficients: &[View<'_>],
    rect: Rect,
    shape: Shape,
) -> f64
where
    K: PointKernel<N>,
{
    let first_row = usize::from(rect.row == 0);
    let last_row = rect.rows.min((shape.rows - 1).saturating_sub(rect.row));
    let first_col = usize::from(rect.col == 0);
    let last_col = rect.cols.min((shape.cols - 1).saturating_sub(rect.col));
    let mut norm = 0.0;
    for i in first_row..last_row {
        let (north, row, south) = rows.around(i);
        let line = Line {
            north: north.unwrap_or(frontiers.line(Side::North)),
            south: south.unwrap_or(frontiers.line(Side::South)),
            west: frontiers.line(Side::West).get(i).copied(),
            east: frontiers.line(Side::East).get(i).copied(),
        };
        let coefficients: [&[f64]; N] = std::array::from_fn(|n| coefficients[n].row(i));
        let change = line.update::<K, N, NORM>(kernel, row, coefficients, first_col, last_col);
        if NORM {
            norm = greater(norm, change);
        }
    }
    norm
}

/// The greater one; what is not a number is greater than all.
#[inline]
pub(crate) fn greater(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// What surrounds one row of a block.
struct Line<'a> {
    north: &'a [f64],
    south: &'a [f64],
    west: Option<f64>,
    east: Option<f64>,
}

impl Line<'_> {
    /// Updates the columns `from..to` of `row`. A column of the edge of the matrix is outside of them;
    /// then its value is the neighbour.
    #[inline]
    fn update<K: PointKernel<N>, const N: usize, const NORM: bool>(
        &self,
        kernel: &K,
        row: &mut [f64],
        coefficients: [&[f64]; N],
        from: usize,
        to: usize,
    ) -> f64 {
        if from >= to {
            return 0.0;
        }
        let len = to - from;
        let mut west = if from > 0 { row[from - 1] } else { self.west.unwrap_or(0.0) };
        let east = if to < row.len() { row[to] } else { self.east.unwrap_or(0.0) };
        // All of one length, so that the loop needs no checks.
        let row = &mut row[from..to];
        let north = &self.north[from..to];
        let south = &self.south[from..to];
        let coefficients = coefficients.map(|c| &c[from..to]);
        let mut norm = 0.0;
        let mut point = |k: usize, centre: f64, east: f64| {
            let at = Neighbours { centre, north: north[k], west, east, south: south[k] };
            let new = kernel.update(at, std::array::from_fn(|n| coefficients[n][k]));
            if NORM {
                norm = greater(norm, (new - centre).abs());
            }
            west = new;
            new
        };
        let mut centre = row[0];
        for k in 0..len - 1 {
            let next = row[k + 1];
            row[k] = point(k, centre, next);
            centre = next;
        }
        row[len - 1] = point(len - 1, centre, east);
        norm
    }
}
