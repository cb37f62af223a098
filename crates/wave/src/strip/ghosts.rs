//! Matrices whose edges are updated, in strips: a ghost line beyond each such edge.
//!
//! # Contract
//! Strips represent matrices with a line at every edge that stays. Where the stencil of a kernel
//! allows an edge to be updated, the strips hold one more line, beyond that edge. This ghost line
//! is not part of the matrix: it is neither packed nor unpacked, and its values are whatever the
//! memory holds. The kernel does not read it, as its stencil has no neighbour there.
//!
//! ```text
//! five points        north, west, north-west      south-east
//!  - - - -            - - - - .                    . . . . .       -  an edge that stays
//!  - # # -            - # # # .                    . # # -         #  updated
//!  - # # -            - # # # .                    . # # -         .  a ghost line
//!  - - - -            . . . . .                    . - - -
//! ```

use std::ops::Range;

use syncline_kernel::stencil::Stencil;
use syncline_store::{Element, Shape};

use super::pack::Rows;

/// A matrix and its ghost lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ghosts {
    matrix: Shape,
    /// The number of ghost lines at each edge.
    north: usize,
    south: usize,
    west: usize,
    east: usize,
}

impl Ghosts {
    /// Returns the ghost lines of a matrix of this shape that is updated by a kernel with this
    /// stencil.
    pub(crate) const fn new(matrix: Shape, stencil: Stencil) -> Self {
        let margin = stencil.margin();
        Ghosts {
            matrix,
            north: 1 - margin.north,
            south: 1 - margin.south,
            west: 1 - margin.west,
            east: 1 - margin.east,
        }
    }

    /// Returns the shape with the ghost lines, which is the shape of a
    /// [`Geometry`](super::Geometry).
    pub(crate) const fn shape(&self) -> Shape {
        Shape::new(
            self.matrix.rows + self.north + self.south,
            self.matrix.cols + self.west + self.east,
        )
    }

    /// Returns the shape of the matrix, without ghost lines.
    pub(crate) const fn matrix(&self) -> Shape {
        self.matrix
    }

    /// Returns the numbers of ghost lines above the matrix and below it.
    pub(crate) const fn lines(&self) -> [usize; 2] {
        [self.north, self.south]
    }

    /// Converts rows of the shape to rows of the matrix; ghost lines are left out.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Range<usize> {
        let row = |row: usize| row.saturating_sub(self.north).min(self.matrix.rows);
        row(rows.start)..row(rows.end)
    }

    /// Converts a row of the matrix to a row of the shape.
    pub(crate) const fn row(&self, row: usize) -> usize {
        row + self.north
    }

    /// Converts columns of the shape to columns of the matrix; ghost lines are left out.
    pub(crate) fn columns(&self, columns: Range<usize>) -> Range<usize> {
        let column = |column: usize| column.saturating_sub(self.west).min(self.matrix.cols);
        column(columns.start)..column(columns.end)
    }

    /// Converts a part of the matrix to a part of the shape.
    pub(crate) fn place<E: Element>(&self, rows: Rows<E>) -> Rows<E> {
        Rows {
            start: rows.start.wrapping_sub(self.west),
            first: rows.first + self.north,
            end: rows.end + self.north,
            left: rows.left + self.west,
            right: rows.right + self.west,
            pitch: rows.pitch,
        }
    }
}
