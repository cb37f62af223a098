//! Shapes, blocks and the grid of blocks that a matrix is cut into: index arithmetic without I/O.
//!
//! ```text
//!            cols = 7, block 2 x 3
//!        +-------+-------+---+
//!        |  0    |  1    | 2 |      block 2 is ragged: 2 x 1
//! rows   +-------+-------+---+
//!  = 5   |  3    |  4    | 5 |      neighbours of 4: North 1, West 3, East 5, South 7
//!        +-------+-------+---+
//!        |  6    |  7    | 8 |      blocks 6 and 7 are 1 x 3, block 8 is 1 x 1
//!        +-------+-------+---+
//! ```

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, placement::Placement};

/// The number of bytes of the largest element.
const LARGEST: usize = size_of::<f64>();

/// The numbers of rows and columns of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
}

impl Shape {
    /// Creates the shape of `rows` x `cols`.
    ///
    /// ```
    /// use syncline_store::Shape;
    /// assert_eq!(Shape::new(2, 3).to_string(), "2 x 3");
    /// ```
    pub const fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// Returns the number of elements. The result saturates at `usize::MAX`, which exceeds the size
    /// of any matrix that can be opened or created.
    pub const fn elements(self) -> usize {
        self.rows.saturating_mul(self.cols)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.cols)
    }
}

/// The numbers of rows and columns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
}

impl Block {
    /// Creates a block of `rows` x `cols`.
    pub const fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// Returns this block clipped to `shape`; a side of zero counts as one.
    pub fn clipped(self, shape: Shape) -> Self {
        Self { rows: self.rows.min(shape.rows).max(1), cols: self.cols.min(shape.cols).max(1) }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.cols)
    }
}

/// The order in which the elements of a matrix are stored.
///
/// [`Placement`] computes the position of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row after row, as in a `.npy` file.
    RowMajor,
    /// Block after block in row-major order of blocks, each row-major inside. Blocks at the right
    /// and bottom edges have their true, smaller size.
    Blocked(Block),
    /// Like `Blocked`, but each block is stored as top frontier, left frontier, centre, right
    /// frontier, bottom frontier, so that the block and each of its frontiers are contiguous. The
    /// corners are stored twice.
    Framed {
        /// The size of the blocks.
        block: Block,
        /// The number of lines of a frontier, at least 1.
        thickness: usize,
    },
}

impl Layout {
    /// Returns the block size of the layout; `None` if it is row-major.
    pub const fn block(self) -> Option<Block> {
        match self {
            Self::RowMajor => None,
            Self::Blocked(block) | Self::Framed { block, .. } => Some(block),
        }
    }

    /// Returns whether a row of a block is stored as one slice: true unless framed.
    pub const fn in_place(self) -> bool {
        !matches!(self, Self::Framed { .. })
    }

    /// Returns the corresponding layout for matrices whose frontiers are not read: blocked for
    /// framed, the same layout otherwise.
    ///
    /// A sweep reads frontiers of its field only, so coefficients need not be framed.
    pub const fn without_frame(self) -> Self {
        match self {
            Self::Framed { block, .. } => Self::Blocked(block),
            other => other,
        }
    }

    /// Returns the number of values stored for a matrix of `shape`: those of the matrix, and, if
    /// framed, the second copies of the corners.
    ///
    /// # Errors
    /// [`Error::Empty`] if the shape has no elements, [`Error::TooLarge`] if the bytes exceed the
    /// address space for the largest element type, and [`Error::BadBlock`] if a block side or the
    /// thickness is zero.
    ///
    /// ```
    /// use syncline_store::{Block, Layout, Shape};
    /// let framed = Layout::Framed { block: Block::new(4, 4), thickness: 1 };
    /// assert_eq!(framed.stored(Shape::new(8, 8))?, 64 + 4 * 4);
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub fn stored(self, shape: Shape) -> Result<usize> {
        self.grid(shape).map(|grid| Placement::unchecked(self, grid).stored())
    }

    /// Returns the layout's own blocks of a matrix of `shape`; if row-major, one block that is the
    /// whole matrix.
    ///
    /// # Errors
    /// The same as those of [`stored`](Self::stored).
    pub fn grid(self, shape: Shape) -> Result<Grid> {
        if shape.rows == 0 || shape.cols == 0 {
            return Err(Error::Empty { shape });
        }
        // A frame repeats an element at most once in each of its four frontiers, hence the 5.
        let room = isize::MAX.unsigned_abs() / LARGEST / 5;
        if shape.rows.checked_mul(shape.cols).is_none_or(|n| n > room) {
            return Err(Error::TooLarge { shape });
        }
        let valid = match self {
            Self::RowMajor => true,
            Self::Blocked(block) => block.rows > 0 && block.cols > 0,
            Self::Framed { block, thickness } => block.rows > 0 && block.cols > 0 && thickness > 0,
        };
        if !valid {
            return Err(Error::BadBlock { layout: self });
        }
        let whole = Block::new(shape.rows, shape.cols);
        Ok(Grid::new(shape, self.block().unwrap_or(whole)))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowMajor => f.write_str("row-major"),
            Self::Blocked(block) => write!(f, "blocked {block}"),
            Self::Framed { block, thickness } => {
                write!(f, "framed {block} thickness {thickness}")
            }
        }
    }
}

/// The error of parsing a text that is not a block or layout as [`Block`] and [`Layout`] display
/// them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}")]
pub struct LayoutTextError {
    text: String,
    what: &'static str,
}

impl FromStr for Block {
    type Err = LayoutTextError;

    /// Parses the displayed form: "256 x 1024".
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let sides = text
            .split_once(" x ")
            .and_then(|(rows, cols)| Some((rows.parse().ok()?, cols.parse().ok()?)));
        let (rows, cols) =
            sides.ok_or_else(|| LayoutTextError { text: text.to_owned(), what: "block" })?;
        Ok(Self { rows, cols })
    }
}

impl FromStr for Layout {
    type Err = LayoutTextError;

    /// Parses the displayed form.
    ///
    /// ```
    /// use syncline_store::{Block, Layout};
    /// let layout = Layout::Framed { block: Block::new(256, 1024), thickness: 2 };
    /// assert_eq!(layout.to_string().parse(), Ok(layout));
    /// ```
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let parsed = match text.split_once(' ') {
            None if text == "row-major" => Some(Self::RowMajor),
            Some(("blocked", block)) => block.parse().ok().map(Self::Blocked),
            Some(("framed", rest)) => {
                rest.split_once(" thickness ").and_then(|(block, thickness)| {
                    Some(Self::Framed {
                        block: block.parse().ok()?,
                        thickness: thickness.parse().ok()?,
                    })
                })
            }
            _ => None,
        };
        parsed.ok_or_else(|| LayoutTextError { text: text.to_owned(), what: "layout" })
    }
}

/// A side of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Towards row 0.
    North,
    /// Towards column 0.
    West,
    /// Towards the last column.
    East,
    /// Towards the last row.
    South,
}

impl Side {
    /// All four sides, in the order in which their elements lie in memory.
    pub const ALL: [Self; 4] = [Self::North, Self::West, Self::East, Self::South];

    /// Returns the side that faces this side across an edge.
    pub const fn facing(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::West => Self::East,
            Self::East => Self::West,
            Self::South => Self::North,
        }
    }

    /// Returns whether the frontier on this side is a row (north, south) rather than a column.
    pub const fn is_row(self) -> bool {
        matches!(self, Self::North | Self::South)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::North => "north",
            Self::West => "west",
            Self::East => "east",
            Self::South => "south",
        })
    }
}

/// A rectangle of elements within a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rect {
    /// The first row.
    pub row: usize,
    /// The first column.
    pub col: usize,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
}

impl Rect {
    /// Returns the number of elements.
    pub const fn elements(self) -> usize {
        self.rows * self.cols
    }

    /// Returns the length of the frontier on a side: the number of columns for a row, of rows for a
    /// column.
    pub const fn line(self, side: Side) -> usize {
        if side.is_row() { self.cols } else { self.rows }
    }
}

/// A shape cut into blocks, numbered row-major from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    shape: Shape,
    block: Block,
}

impl Grid {
    /// Cuts `shape` into blocks of `block`, which is first clipped to the shape
    /// ([`Block::clipped`]).
    ///
    /// ```
    /// use syncline_store::{Block, Grid, Shape, placement::{Rect, Side}};
    /// let grid = Grid::new(Shape::new(5, 7), Block::new(2, 3));
    /// assert_eq!((grid.rows(), grid.cols(), grid.len()), (3, 3, 9));
    /// assert_eq!(grid.block(2, 2), Rect { row: 4, col: 6, rows: 1, cols: 1 });
    /// assert_eq!(grid.neighbour(4, Side::South), Some(7));
    /// assert_eq!(grid.neighbour(2, Side::East), None);
    /// ```
    pub fn new(shape: Shape, block: Block) -> Self {
        Self { shape, block: block.clipped(shape) }
    }

    /// Returns the shape that is cut.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the size of a block that is not at the right or bottom edge.
    pub const fn block_size(&self) -> Block {
        self.block
    }

    /// Returns the number of rows of blocks.
    pub const fn rows(&self) -> usize {
        self.shape.rows.div_ceil(self.block.rows)
    }

    /// Returns the number of columns of blocks.
    pub const fn cols(&self) -> usize {
        self.shape.cols.div_ceil(self.block.cols)
    }

    /// Returns the number of blocks.
    pub const fn len(&self) -> usize {
        self.rows() * self.cols()
    }

    /// Returns whether there are no blocks, as for an empty shape.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements of block (`i`, `j`); empty if the grid has no such block.
    pub fn block(&self, i: usize, j: usize) -> Rect {
        let row = i.saturating_mul(self.block.rows).min(self.shape.rows);
        let col = j.saturating_mul(self.block.cols).min(self.shape.cols);
        Rect {
            row,
            col,
            rows: self.block.rows.min(self.shape.rows - row),
            cols: self.block.cols.min(self.shape.cols - col),
        }
    }

    /// Returns the elements of the block numbered `index`; empty if the grid has no such block.
    pub fn rect(&self, index: usize) -> Rect {
        let (i, j) = self.at(index);
        self.block(i, j)
    }

    /// Returns the number of block (`i`, `j`).
    pub const fn index(&self, i: usize, j: usize) -> usize {
        i * self.cols() + j
    }

    /// Returns the row and column, in blocks, of the block numbered `index`.
    pub const fn at(&self, index: usize) -> (usize, usize) {
        let cols = if self.cols() == 0 { 1 } else { self.cols() };
        (index / cols, index % cols)
    }

    /// Returns the block next to `index` on `side`, or `None` at the edge of the matrix.
    pub fn neighbour(&self, index: usize, side: Side) -> Option<usize> {
        let (i, j) = self.at(index);
        let (i, j) = match side {
            Side::North => (i.checked_sub(1)?, j),
            Side::West => (i, j.checked_sub(1)?),
            Side::East => (i, j + 1),
            Side::South => (i + 1, j),
        };
        (i < self.rows() && j < self.cols()).then(|| self.index(i, j))
    }
}
