//! Matrices whose edges are updated, in strips: a ghost line beyond each such edge.
//!
//! # Contract
//! Strips know matrices with a line at every edge that stays. Where a kernel's stencil lets an edge
//! be updated, the strips hold one line more, beyond that edge. It belongs to no matrix: nothing is
//! packed into it or unpacked from it, and its values are whatever the memory holds. The kernel
//! does not read it, as its stencil has no neighbour there.
//!
//! ```text
//! five points        north, west, north-west      south-east
//!  - - - -            - - - - .                    . . . . .       -  an edge that stays
//!  - # # -            - # # # .                    . # # -         #  updated
//!  - # # -            - # # # .                    . # # -         .  a ghost line
//!  - - - -            . . . . .                    . - - -
//! ```

use std::ops::Range;

use syncline_store::{Element, Shape};

use super::pack::Rows;
use crate::stencil::Stencil;

/// A matrix and its ghost lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ghosts {
    matrix: Shape,
    /// Ghost lines at each edge.
    north: usize,
    south: usize,
    west: usize,
    east: usize,
}

impl Ghosts {
    /// Those of a matrix of this shape that is updated by a kernel with this stencil.
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

    /// The shape with the ghost lines: that of a [`Geometry`](super::Geometry).
    pub(crate) const fn shape(&self) -> Shape {
        Shape::new(
            self.matrix.rows + self.north + self.south,
            self.matrix.cols + self.west + self.east,
        )
    }

    /// The rows of the matrix among these rows of the shape.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Range<usize> {
        let row = |row: usize| row.saturating_sub(self.north).min(self.matrix.rows);
        row(rows.start)..row(rows.end)
    }

    /// A part of the matrix as a part of the shape.
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
