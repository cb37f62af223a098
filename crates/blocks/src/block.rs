//! One iteration over one block, seen as a small matrix of its own.
//!
//! # Contract
//! [`Blockwise::update`] updates the points of a block whose neighbours in the stencil all exist.
//!
//! ```text
//!  corner  north line   corner      The points to update, and one line around them, are a small
//!        ┌────────────┐             matrix. Its lines come from the block itself where the block
//!  west  │ the block, │ east        lies at the edge of the matrix, and from copies of the
//!  line  │ in place   │ line        neighbours' frontiers elsewhere. Corners that the kernel does
//!        └────────────┘             not use are NaN.
//!  corner  south line   corner
//! ```
//!
//! Where an edge of the matrix is updated there is no line beyond it: [`Points`] uses a ghost line
//! in its place, and a routine of whole blocks receives a
//! matrix without that line, as the whole matrix has none either.
//!
//! [`Points`] updates the block point by point, in the order of the double loop: a [`Chain`] of one
//! iteration runs over it; rows are packed into the strips of a ring that fits the cache, updated,
//! and unpacked in place. The alternative is to pass the block as a whole to a routine: see
//! [`block_kernel`](crate::block_kernel).
//!
//! # Costs
//! Per value: one read of each array, one write of the field, and a transposition of each in the
//! cache.

use syncline_kernel::dynamic::Kernel;
use syncline_kernel::stencil::{Margin, Stencil};
use syncline_kernel::strip::{Geometry, Ring, TOGETHER};
use syncline_store::{
    Shape,
    placement::{Rect, Side},
};
use syncline_wave::executor::{Chain, Job, Rows, Scratch, run_tiles};
use syncline_wave::lanes::{Lanes, Real};
use syncline_wave::{Error, Result};

/// The columns of a tile. Runs of a row are this long so that the hardware prefetcher follows them.
const TILE: usize = 512;

/// The lines around a block and its four corner values. Lines at the edge of the matrix are empty.
#[derive(Debug, Default)]
pub(crate) struct Frontiers<E> {
    lines: [Vec<E>; 4],
    /// The values at north-west, north-east, south-west and south-east.
    pub(crate) corners: [E; 4],
}

impl<E: Real> Frontiers<E> {
    /// Returns the buffer for the line on `side`, resized to `len` values.
    pub(crate) fn line_mut(&mut self, side: Side, len: usize) -> &mut [E] {
        let line = &mut self.lines[side as usize];
        line.resize(len, E::default());
        line
    }
}

/// The buffers that a thread reuses from one block to the next.
#[derive(Debug, Default)]
pub(crate) struct Workspace<E>(Option<(Ring<E>, Scratch<E>)>);

/// A block: the addresses of its values and of its coefficients.
pub(crate) struct Block<'a, E> {
    pub(crate) rect: Rect,
    /// The address of the first value of the block, and the number of values from one row to the
    /// next.
    pub(crate) values: (*mut E, usize),
    /// The same for each coefficient.
    pub(crate) coefficients: &'a [(*const E, usize)],
    pub(crate) frontiers: &'a Frontiers<E>,
}

impl<E> Block<'_, E> {
    /// Returns the small matrix of this block of a matrix of `shape`, with the lines of `halo`
    /// around the points to update, or `None` if there is no point to update.
    pub(crate) fn small(&self, shape: Shape, stencil: Stencil, halo: Margin) -> Option<Small> {
        let (rect, all) = (self.rect, stencil.updated(shape));
        let top = all.row.saturating_sub(rect.row);
        let left = all.col.saturating_sub(rect.col);
        let bottom = rect.rows.min((all.row + all.rows).saturating_sub(rect.row));
        let right = rect.cols.min((all.col + all.cols).saturating_sub(rect.col));
        (top < bottom && left < right).then(|| Small {
            shape: Shape::new(
                bottom - top + halo.north + halo.south,
                right - left + halo.west + halo.east,
            ),
            origin: (top, left),
            halo,
        })
    }
}

/// A block as a small matrix: its points to update, with some lines around them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Small {
    /// The shape, halo included.
    pub(crate) shape: Shape,
    /// The first row and column to update, relative to the block.
    origin: (usize, usize),
    /// The number of lines around the points to update.
    pub(crate) halo: Margin,
}

impl Small {
    /// Returns the points to update, relative to the small matrix.
    pub(crate) const fn updated(&self) -> Rect {
        let Margin { north, south, west, east } = self.halo;
        let Shape { rows, cols } = self.shape;
        Rect { row: north, col: west, rows: rows - north - south, cols: cols - west - east }
    }
}

/// The interface of the blocked executor to a kernel: one iteration over one block.
pub(crate) trait Blockwise<E: Real>: Sync {
    /// The buffers that a thread reuses from one block to the next.
    type Workspace: Default + Send;

    /// Returns the number of coefficients.
    fn coefficients(&self) -> usize;

    /// Returns the name of the kernel's type.
    fn name(&self) -> &'static str;

    /// Returns the neighbours that the kernel reads.
    fn stencil(&self) -> Stencil;

    /// Checks that the kernel reads no other neighbours, as far as this can be detected.
    fn check(&self) -> Result<()>;

    /// Returns the greatest size, in bytes, of a workspace for blocks of `rows` rows and `cols`
    /// columns.
    fn workspace_bytes(&self, rows: usize, cols: usize) -> u64;

    /// Updates a block of a matrix of `shape`. Returns the greatest change of a point if `norm`, or
    /// 0 otherwise; NaN counts as greater than any number.
    ///
    /// # Safety
    /// * The values of the block must be valid for reads and writes, and no other thread may access
    ///   them meanwhile.
    /// * The values of the coefficients must be valid for reads, and no other thread may write them
    ///   meanwhile.
    /// * The number of coefficients must be the one of the kernel.
    unsafe fn update(
        &self,
        block: &Block<'_, E>,
        shape: Shape,
        workspace: &mut Self::Workspace,
        norm: bool,
    ) -> Result<f64>;
}

/// A kernel of points, computed with vectors.
pub(crate) struct Points<'k, E> {
    kernel: &'k dyn Kernel<E>,
    lanes: Lanes,
}

impl<'k, E: Real> Points<'k, E> {
    /// Creates a kernel that uses `lanes`; fails if the machine does not have them.
    pub(crate) fn new(kernel: &'k dyn Kernel<E>, lanes: Lanes) -> Result<Self> {
        if lanes.is_available() {
            Ok(Points { kernel, lanes })
        } else {
            Err(Error::Lanes { lanes })
        }
    }
}

/// Returns the size, in bytes, of a workspace for blocks of `rows` rows and `cols` columns that are
/// updated point by point.
pub(crate) fn workspace_bytes(
    rows: usize,
    cols: usize,
    arrays: usize,
    width: usize,
    corners: bool,
    value: usize,
) -> u64 {
    geometry(Shape::new(rows + 2, cols + 2), arrays, width, corners).bytes(value)
}

fn geometry(shape: Shape, arrays: usize, width: usize, corners: bool) -> Geometry {
    let skew = if corners { 2 } else { 1 };
    Geometry { shape, width, skew, arrays, slots: Chain::slots(width, 1, TOGETHER, 1) }
}

impl<E: Real> Blockwise<E> for Points<'_, E> {
    type Workspace = Workspace<E>;

    fn coefficients(&self) -> usize {
        self.kernel.coefficients()
    }

    fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn stencil(&self) -> Stencil {
        self.kernel.stencil()
    }

    fn check(&self) -> Result<()> {
        Ok(self.kernel.check()?)
    }

    fn workspace_bytes(&self, rows: usize, cols: usize) -> u64 {
        let arrays = 1 + self.kernel.coefficients();
        workspace_bytes(
            rows,
            cols,
            arrays,
            self.lanes.width(E::BYTES),
            self.kernel.corners(),
            E::BYTES,
        )
    }

    unsafe fn update(
        &self,
        block: &Block<'_, E>,
        shape: Shape,
        workspace: &mut Workspace<E>,
        norm: bool,
    ) -> Result<f64> {
        let Some(small) = block.small(shape, self.kernel.stencil(), Margin::ONE) else {
            return Ok(0.0);
        };
        let width = self.lanes.width(E::BYTES);
        let geometry =
            geometry(small.shape, 1 + block.coefficients.len(), width, self.kernel.corners());
        let (ring, scratch) = match &mut workspace.0 {
            Some(used) => {
                used.0.fit(geometry)?;
                used
            }
            none => none.insert((Ring::new(geometry)?, Scratch::new(&geometry, TILE))),
        };
        let chain = Chain { geometry, levels: 1, band: TOGETHER };
        let parts = parts(block, &small);
        let mut norms = [0.0];
        for band in 0..chain.bands() {
            let rows_out = parts[0].1;
            let job = Job {
                chain: &chain,
                ring,
                band,
                columns: chain.walk(),
                rows_in: &parts,
                rows_out,
                tile: TILE,
            };
            // SAFETY:
            // * The ring has the geometry of the chain, whose width is that of these lanes and
            //   whose skew and arrays are those of the kernel; the machine has the lanes, see
            //   `Points::new`.
            // * The scratch was made for the same width, skew and arrays: a workspace belongs to
            //   one kernel.
            // * All parts together cover the small matrix. The caller guarantees that the values of
            //   the block, which receive the results, and of the coefficients are accessible.
            // * The bands run one after another in this thread, each from left to right, and the
            //   ring has the slots for one band at a time.
            unsafe {
                run_tiles(self.lanes, self.kernel, &job, scratch, norm.then_some(&mut norms))
            };
        }
        Ok(norms[0])
    }
}

/// Returns the parts of the small matrix: the block first, then the coefficients, then lines and
/// corners.
pub(crate) fn parts<E: Real>(block: &Block<'_, E>, small: &Small) -> Vec<(usize, Rows<E>)> {
    let Rect { rows, cols, .. } = block.rect;
    let Small { shape, origin: (top, left), halo } = *small;
    // The block begins at this row and column of the small matrix: an edge that stays is a line of
    // the halo.
    let (first, begin) = (halo.north - top, halo.west - left);
    // Describes `rows` by `cols` values, the first of which is at `row` and `col` of the small
    // matrix.
    let part =
        |start: *const E, pitch: usize, row: usize, col: usize, rows: usize, cols: usize| Rows {
            start: start.cast_mut().wrapping_sub(col),
            first: row,
            end: (row + rows).min(shape.rows),
            left: col,
            right: (col + cols).min(shape.cols),
            pitch,
        };
    let mut parts = vec![(0, part(block.values.0, block.values.1, first, begin, rows, cols))];
    for (n, (start, pitch)) in block.coefficients.iter().enumerate() {
        parts.push((n + 1, part(*start, *pitch, first, begin, rows, cols)));
    }
    let line = |side: Side| &block.frontiers.lines[side as usize];
    let beside = |side: Side| match side {
        Side::North => halo.north > 0,
        Side::South => halo.south > 0,
        Side::West => halo.west > 0,
        Side::East => halo.east > 0,
    };
    let has = |side: Side| !line(side).is_empty() && beside(side);
    let mut add = |side: Side, row: usize, col: usize| {
        if has(side) {
            let values = line(side);
            let (rows, cols) = if side.is_row() { (1, values.len()) } else { (values.len(), 1) };
            parts.push((0, part(values.as_ptr(), 1, row, col, rows, cols)));
        }
    };
    add(Side::North, 0, begin);
    add(Side::South, first + rows, begin);
    add(Side::West, first, 0);
    add(Side::East, first, begin + cols);
    let corners = [
        (Side::North, Side::West, 0, 0),
        (Side::North, Side::East, 0, begin + cols),
        (Side::South, Side::West, first + rows, 0),
        (Side::South, Side::East, first + rows, begin + cols),
    ];
    for (value, (vertical, horizontal, row, col)) in block.frontiers.corners.iter().zip(corners) {
        if has(vertical) && has(horizontal) {
            parts.push((0, part(value, 1, row, col, 1, 1)));
        }
    }
    parts
}
