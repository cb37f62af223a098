//! The exact positions of blocks, frontiers and elements in each layout.
//!
//! A stored block is a list of *sections*, each of which is a rectangle of the block stored row by
//! row. A block in place (row-major, blocked) has one section. A framed block of `r` x `c` with
//! frontiers of `t` lines has five consecutive sections:
//!
//! ```text
//!   column 0        t            c-t        c       section  rows    values
//!   row 0  +--------+-------------+---------+       1 top    t x c   t c
//!          | 1 2    |     1       |    1 4  |       2 left   r x t   r t
//!   t      +--------+-------------+---------+       3 centre         (r-2t)(c-2t)
//!          |   2    |     3       |    4    |       4 right  r x t   r t
//!   r-t    +--------+-------------+---------+       5 bottom t x c   t c
//!          | 2 5    |     5       |    4 5  |                        -----------
//!   r      +--------+-------------+---------+       all              r c + 4 t t
//! ```
//!
//! The corners are stored twice, which costs 4 t² values a block. In return the whole block, and
//! each frontier by itself, is contiguous; in a row-major or blocked matrix a column frontier is
//! one element in each row.
//!
//! If a block is thinner than `t` (or `2 t`), the frontiers are clipped to it (and overlap); an
//! element may then be stored up to four times and the centre may be empty. Writes always update
//! all copies of an element, so any copy may be read.
//!
//! Source: P.-N. Clauss, J. Gustedt, F. Suter, "Out-of-Core Wavefront Computations with Reduced
//! Synchronization", PDP 2008 (HAL inria-00176084), section 4. The treatment of ragged and thin
//! blocks is not in the paper.

pub use crate::layout::{Rect, Side};

use std::ops::Range;

use crate::{Error, Grid, Layout, Result};

/// `count` runs of `len` values each, whose starts are `pitch` values apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StridedRun {
    /// The first value.
    pub start: usize,
    /// The number of values in a run.
    pub len: usize,
    /// The distance from the start of a run to the start of the next.
    pub pitch: usize,
    /// The number of runs.
    pub count: usize,
}

impl StridedRun {
    /// Returns the range of values of each run, in order.
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |run| {
            let start = self.start + run * self.pitch;
            start..start + self.len
        })
    }

    /// Returns the range from the first value to behind the last, gaps included.
    pub const fn span(self) -> Range<usize> {
        match self.count.checked_sub(1) {
            Some(last) => self.start..self.start + last * self.pitch + self.len,
            None => self.start..self.start,
        }
    }

    /// Returns whether there are no gaps.
    pub const fn is_contiguous(self) -> bool {
        self.count <= 1 || self.pitch == self.len
    }
}

/// A rectangle of a block and its position; the rectangle is stored row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Section {
    /// The position of the first value.
    pub start: usize,
    /// The distance from one stored row to the next.
    pub pitch: usize,
    /// The rectangle, relative to the block.
    pub rect: Rect,
}

impl Section {
    /// Returns the stored rows.
    pub const fn rows(self) -> StridedRun {
        StridedRun {
            start: self.start,
            len: self.rect.cols,
            pitch: self.pitch,
            count: self.rect.rows,
        }
    }

    /// Returns the part of this section that covers `rows` and `cols` of the block.
    fn cut(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let Rect { row, col, .. } = self.rect;
        let top = rows.start.max(row);
        let left = cols.start.max(col);
        let bottom = rows.end.min(row + self.rect.rows).max(top);
        let right = cols.end.min(col + self.rect.cols).max(left);
        Self {
            start: self.start + (top - row) * self.pitch + (left - col),
            pitch: self.pitch,
            rect: Rect { row: top, col: left, rows: bottom - top, cols: right - left },
        }
    }

    /// Returns the part of this section within `rect`, which is relative to the block; possibly
    /// empty.
    pub(crate) fn within(self, rect: Rect) -> Self {
        self.cut(rect.row..rect.row + rect.rows, rect.col..rect.col + rect.cols)
    }

    const fn is_empty(&self) -> bool {
        self.rect.rows == 0 || self.rect.cols == 0
    }
}

/// The selection among the copies of elements that a framed block stores more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Copies {
    /// One copy of each element: for reading.
    One,
    /// All copies: for writing.
    All,
}

/// A layout applied to a grid: the positions of all elements, in values from the start of the data.
///
/// ```
/// use syncline_store::{Block, Grid, Layout, Shape, placement::{Placement, Side}};
/// let shape = Shape::new(6, 8);
/// let block = Block::new(3, 4);
/// let place = Placement::new(Layout::Framed { block, thickness: 1 }, Grid::new(shape, block))?;
/// // Block 1: 4 top, 3 left, 1 x 2 in the centre, 3 right, 4 bottom.
/// assert_eq!(place.block(1), 16..32);
/// assert_eq!(place.frontier(1, Side::East).span(), 16 + 9..16 + 12);
/// // Its top right corner is stored in the top and in the right frontier.
/// assert_eq!(place.offsets(0, 7).collect::<Vec<_>>(), [16 + 3, 16 + 9]);
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    layout: Layout,
    grid: Grid,
}

impl Placement {
    /// Creates the placement of the blocks of `grid` in a matrix of `layout`.
    ///
    /// # Errors
    /// The same as those of [`Layout::stored`]; and [`Error::Grid`] if the layout has blocks that
    /// differ from those of the grid.
    pub fn new(layout: Layout, grid: Grid) -> Result<Self> {
        let own = layout.grid(grid.shape())?;
        if layout != Layout::RowMajor && own != grid {
            return Err(Error::Grid {
                name: "the matrix".to_owned(),
                shape: grid.shape(),
                layout,
                asked_shape: grid.shape(),
                asked: grid.block_size(),
            });
        }
        Ok(Self { layout, grid })
    }

    /// Creates a placement without checks; `grid` must match `layout`.
    pub(crate) const fn unchecked(layout: Layout, grid: Grid) -> Self {
        Self { layout, grid }
    }

    /// Returns the layout.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the grid.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the number of values stored for the whole matrix.
    pub fn stored(&self) -> usize {
        let shape = self.grid.shape();
        let whole = shape.rows / self.grid.block_size().rows;
        let rest = shape.rows % self.grid.block_size().rows;
        whole * self.band(self.grid.block_size().rows) + self.band(rest)
    }

    /// Returns the number of values stored for a block of `rows` x `cols`.
    fn stored_block(&self, rows: usize, cols: usize) -> usize {
        match self.layout {
            Layout::RowMajor | Layout::Blocked(_) => rows * cols,
            Layout::Framed { thickness, .. } => {
                let (t, l) = (thickness.min(rows), thickness.min(cols));
                let centre = rows.saturating_sub(2 * t) * cols.saturating_sub(2 * l);
                2 * (t * cols + rows * l) + centre
            }
        }
    }

    /// Returns the number of values stored for a row of blocks that has `rows` rows.
    fn band(&self, rows: usize) -> usize {
        let cols = self.grid.shape().cols;
        let block = self.grid.block_size().cols;
        (cols / block) * self.stored_block(rows, block) + self.stored_block(rows, cols % block)
    }

    /// Returns the position of the first value of the block numbered `index`.
    fn start(&self, index: usize) -> usize {
        let (i, j) = self.grid.at(index);
        let rect = self.grid.block(i, j);
        match self.layout {
            Layout::RowMajor => rect.row * self.grid.shape().cols + rect.col,
            Layout::Blocked(_) | Layout::Framed { .. } => {
                let block = self.grid.block_size();
                i * self.band(block.rows) + j * self.stored_block(rect.rows, block.cols)
            }
        }
    }

    /// Returns the stored range of a block. The range contains exactly the block, unless the layout
    /// is row-major: then it extends from the block's first to its last element and includes
    /// elements of other blocks in between.
    pub fn block(&self, index: usize) -> Range<usize> {
        let start = self.start(index);
        let rect = self.grid.rect(index);
        match self.layout {
            Layout::RowMajor => self.rows(rect, start).span(),
            Layout::Blocked(_) | Layout::Framed { .. } => {
                start..start + self.stored_block(rect.rows, rect.cols)
            }
        }
    }

    /// Returns the number of values stored for a block, without gaps.
    pub fn values(&self, index: usize) -> usize {
        let rect = self.grid.rect(index);
        self.stored_block(rect.rows, rect.cols)
    }

    /// Returns the stored rows of a block that is in place.
    fn rows(&self, rect: Rect, start: usize) -> StridedRun {
        StridedRun { start, len: rect.cols, pitch: self.pitch(rect), count: rect.rows }
    }

    fn pitch(&self, rect: Rect) -> usize {
        match self.layout {
            Layout::RowMajor => self.grid.shape().cols,
            Layout::Blocked(_) | Layout::Framed { .. } => rect.cols,
        }
    }

    /// Returns the five sections of a framed block, in stored order; in place, the first section is
    /// the block and the others are empty.
    fn five(&self, index: usize) -> [Section; 5] {
        let rect = self.grid.rect(index);
        let (r, c) = (rect.rows, rect.cols);
        let start = self.start(index);
        let section = |start, pitch, row, col, rows, cols| Section {
            start,
            pitch,
            rect: Rect { row, col, rows, cols },
        };
        let Layout::Framed { thickness, .. } = self.layout else {
            let none = section(start, 0, 0, 0, 0, 0);
            let all = section(start, self.pitch(rect), 0, 0, r, c);
            return [all, none, none, none, none];
        };
        let (t, l) = (thickness.min(r), thickness.min(c));
        let (inner_r, inner_c) = (r.saturating_sub(2 * t), c.saturating_sub(2 * l));
        let left = start + t * c;
        let centre = left + r * l;
        let right = centre + inner_r * inner_c;
        let bottom = right + r * l;
        [
            section(start, c, 0, 0, t, c),
            section(left, l, 0, 0, r, l),
            section(centre, inner_c, t, l, inner_r, inner_c),
            section(right, l, 0, c - l, r, l),
            section(bottom, c, r - t, 0, t, c),
        ]
    }

    /// Returns the sections of a block in stored order, with all copies of its elements or with one
    /// of each.
    pub fn sections(&self, index: usize, copies: Copies) -> impl Iterator<Item = Section> + use<> {
        let mut five = self.five(index);
        if let (Layout::Framed { .. }, Copies::One) = (self.layout, copies) {
            // The top is read entirely, and the bottom where the top does not reach. The left,
            // centre and right provide the rows in between, the right where the left does not
            // reach.
            let Rect { rows: r, cols: c, .. } = self.grid.rect(index);
            let (t, l) = (five[0].rect.rows, five[1].rect.cols);
            let between = t..r.saturating_sub(t).max(t);
            five[1] = five[1].cut(between.clone(), 0..l);
            five[3] = five[3].cut(between, l..c);
            five[4] = five[4].cut(t..r, 0..c);
        }
        five.into_iter().filter(|section| !section.is_empty())
    }

    /// Returns all lines of a block's frontier on `side`: one contiguous piece if framed, otherwise
    /// one line ([`line`](Self::line)).
    pub fn frontier(&self, index: usize, side: Side) -> StridedRun {
        if self.layout.in_place() {
            return self.line(index, side);
        }
        let section = self.framed_side(index, side);
        let len = section.rect.elements();
        StridedRun { start: section.start, len, pitch: len, count: 1 }
    }

    /// Returns the outermost row or column of a block on `side`. If framed, it is within
    /// [`frontier`](Self::frontier).
    pub fn line(&self, index: usize, side: Side) -> StridedRun {
        let section = match self.layout.in_place() {
            true => self.five(index)[0],
            false => self.framed_side(index, side),
        };
        let Rect { rows, cols, .. } = section.rect;
        let row = |row| section.start + row * section.pitch;
        let (start, len, count) = match side {
            Side::North => (row(0), cols, 1),
            Side::South => (row(rows.saturating_sub(1)), cols, 1),
            Side::West => (row(0), 1, rows),
            Side::East => (row(0) + cols.saturating_sub(1), 1, rows),
        };
        StridedRun { start, len, pitch: section.pitch, count }
    }

    fn framed_side(&self, index: usize, side: Side) -> Section {
        let [top, left, _, right, bottom] = self.five(index);
        match side {
            Side::North => top,
            Side::West => left,
            Side::East => right,
            Side::South => bottom,
        }
    }

    /// Returns all positions of the element at (`row`, `col`), in stored order: one in place, up to
    /// four in a frame, none outside of the matrix.
    pub fn offsets(&self, row: usize, col: usize) -> impl Iterator<Item = usize> + use<> {
        let block = self.grid.block_size();
        let inside = row < self.grid.shape().rows && col < self.grid.shape().cols;
        let index = self.grid.index(row / block.rows, col / block.cols);
        let element = Rect { row: row % block.rows, col: col % block.cols, rows: 1, cols: 1 };
        let sections = inside.then(|| self.sections(index, Copies::All));
        sections
            .into_iter()
            .flatten()
            .map(move |section| section.within(element))
            .filter(|section| !section.is_empty())
            .map(|section| section.start)
    }
}
