//! A model of the time of an iteration in blocks, as a function of the block size.
//!
//! # Contract
//! [`BlockModel::time`] is a pure function of the properties of the data, the memory, the
//! processors and the disk; [`BlockModel::best`] returns the block size for which it is least.
//!
//! ```text
//! seconds                                 disk    bytes / rate + pieces * time of a piece
//!    │ pieces                    too few  cpu     elements * nanoseconds, on p processors
//!    │   \                     / blocks   in      w = min(blocks that fit, threads,
//!    │     \__              _/   in       flight      blocks the wave allows)
//!    │        \____________/     flight   time    max(disk, cpu / p, (disk + cpu) / w)
//!    └─────────────────────────── side            + reading the first block, updating the last one
//! ```
//!
//! The formula for the time is the bound of a closed system: `w` blocks circulate between one disk
//! and `p` processors. Chained iterations allow a mean of `R C K / (R + C - 1 + 2 (K - 1))` blocks
//! in flight, over K iterations on a grid of R x C blocks.
//!
//! | read per block | bytes and pieces                                                            |
//! |----------------|-----------------------------------------------------------------------------|
//! | its own        | [`io_model`]: a piece per matrix; out of row-major data a piece per row     |
//! | frames         | [`io_model`]: a piece per neighbour                                         |
//! | other lines    | a piece per row of a column, or the whole block if that takes less          |
//!
//! The lines of unframed neighbours are still in the page cache if the data of a row of blocks fit
//! the memory; all of them have to be read again if those data are twice the memory. A gap between
//! pieces is read over where that takes less time than a piece.
//!
//! # Source
//! P.-N. Clauss, J. Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks",
//! PDP 2010, section 3.4, for the bytes. Pieces, blocks in flight and the page cache are this
//! project's. On the paper's data (16384² doubles, 2 GiB, disks of 64 and 52 MiB/s) blocks of
//! 2048², its best, are within a few percent of the least.

use syncline_store::probe::Disk;
use syncline_store::{Block, ElementType, Grid, Layout, Result, Shape};

use super::io_model::io_model;
use crate::block::workspace_bytes;

/// Nanoseconds of processor time for a value of each array, excluding the wait for the disk: its
/// share of mapping and unmapping a page, and packing. `UPDATE_NS` is the time of an update. Both
/// are for a processor of 2022.
const VALUE_NS: f64 = 3.0;
const UPDATE_NS: f64 = 1.0;
/// Seconds of processor time for a piece that is read separately.
const TOUCH: f64 = 1.5e-6;
/// The smallest side of a block that is considered.
const LEAST: usize = 16;
/// Block sizes that make more blocks than this are not considered, whatever the memory.
const MOST_BLOCKS: usize = 1 << 18;
/// The bytes of the task of a block.
const TASK: u64 = 2560;
/// The bytes of the widest vectors.
const WIDEST: usize = 64;
/// The bytes of the smallest page.
const PAGE: u64 = 4096;

/// The properties of a sweep in blocks from which the block size is chosen.
///
/// ```
/// use syncline_blocks::plan::BlockModel;
/// use syncline_store::probe::Disk;
/// use syncline_store::{Block, ElementType, Layout, Shape};
///
/// let model = BlockModel {
///     shape: Shape::new(16384, 16384),
///     layout: Layout::Framed { block: Block::new(1, 1), thickness: 1 },
///     coefficients: 5,
///     element: ElementType::Float64,
///     memory: 2 << 30,
///     workers: 4,
///     iterations: 20,
///     disk: Disk { read: 64e6, write: 30e6, piece: 0.013 },
/// };
/// let best = model.best()?.expect("a block that fits");
/// assert!(best.block.rows >= 1024 && best.windows >= 2);
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockModel {
    /// The shape of all matrices.
    pub shape: Shape,
    /// The layout of the field; its block size is ignored. Coefficients have the layout that
    /// [`Layout::without_frame`] returns.
    pub layout: Layout,
    /// The number of coefficient matrices.
    pub coefficients: usize,
    /// The type of all elements.
    pub element: ElementType,
    /// The number of bytes that the sweep may hold; the page cache is assumed to have as much.
    pub memory: u64,
    /// The number of threads that compute.
    pub workers: u64,
    /// The number of iterations of the sweep.
    pub iterations: u64,
    /// The disk that holds the matrices.
    pub disk: Disk,
}

/// The expected performance of a block size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockTime {
    /// The size of the blocks.
    pub block: Block,
    /// Seconds per iteration.
    pub seconds: f64,
    /// Seconds per iteration in which the disk is busy.
    pub disk: f64,
    /// Bytes that a block in flight takes.
    pub window: u64,
    /// The maximum number of blocks in flight at once.
    pub windows: u64,
    /// The number of blocks.
    pub blocks: usize,
}

impl BlockModel {
    /// Returns the block size with the least time. The candidates are squares whose sides are
    /// powers of two times the smallest side (clipped to the matrix) and, for row-major data, bands
    /// as wide as the matrix. Returns `None` if no block fits the memory.
    ///
    /// # Errors
    /// As [`Grid`]: a shape without elements, or with too many.
    pub fn best(&self) -> Result<Option<BlockTime>> {
        let mut best: Option<BlockTime> = None;
        for block in self.candidates() {
            let time = self.time(block)?;
            best = match (best, time) {
                (Some(best), Some(time)) if time.seconds >= best.seconds => Some(best),
                (best, time) => time.or(best),
            };
        }
        Ok(best)
    }

    /// Returns the sizes that [`best`](Self::best) considers, from small to large: first the
    /// squares, then the bands.
    pub fn candidates(&self) -> impl Iterator<Item = Block> + use<> {
        let Self { shape, layout, .. } = *self;
        let longest = shape.rows.max(shape.cols);
        let least = LEAST.min(longest);
        let sides =
            std::iter::successors(Some(least), move |side| (*side < longest).then_some(2 * side));
        let squares = sides.clone().map(move |side| Block::new(side, side).clipped(shape));
        let bands = sides.map(move |side| Block::new(side, shape.cols).clipped(shape));
        let blocks =
            move |block: &Block| shape.rows.div_ceil(block.rows) * shape.cols.div_ceil(block.cols);
        let few = move |block: &Block| blocks(block) <= MOST_BLOCKS;
        squares.chain(bands.filter(move |_| layout == Layout::RowMajor)).filter(few)
    }

    /// Returns the expected performance of blocks of this size, or `None` if not even one of them
    /// fits the memory.
    ///
    /// # Errors
    /// As [`best`](Self::best), and for a block side of zero.
    pub fn time(&self, block: Block) -> Result<Option<BlockTime>> {
        let layout = match self.layout {
            Layout::RowMajor => Layout::RowMajor,
            Layout::Blocked(_) => Layout::Blocked(block),
            Layout::Framed { thickness, .. } => Layout::Framed { block, thickness },
        };
        let grid = Layout::Blocked(block).grid(self.shape)?;
        let window = self.window(layout, &grid);
        let tasks = grid.len() as u64 * TASK;
        let windows = self.memory.saturating_sub(tasks) / window.max(1);
        if windows == 0 {
            return Ok(None);
        }
        let (disk, pieces) = self.disk_seconds(layout, &grid)?;
        let arrays = (1 + self.coefficients) as f64;
        let elements = self.shape.elements() as f64;
        let cpu = elements * (VALUE_NS * arrays + UPDATE_NS) * 1e-9 + pieces * TOUCH;
        let (rows, cols, iterations) =
            (grid.rows() as f64, grid.cols() as f64, self.iterations.max(1) as f64);
        let allowed = rows * cols * iterations / (rows + cols - 1.0 + 2.0 * (iterations - 1.0));
        let under_way = (windows.min(2 * self.workers.max(1)) as f64).min(allowed).max(1.0);
        let processors = (self.workers.max(1) as f64).min(under_way);
        let steady = disk.max(cpu / processors).max((disk + cpu) / under_way);
        let ends = (disk + cpu) / grid.len() as f64 / iterations;
        Ok(Some(BlockTime {
            block,
            seconds: steady + ends,
            disk,
            window,
            windows,
            blocks: grid.len(),
        }))
    }

    /// Returns the seconds in which the disk is busy in an iteration, and the number of pieces that
    /// are read separately.
    fn disk_seconds(&self, layout: Layout, grid: &Grid) -> Result<(f64, f64)> {
        let model = io_model(layout, *grid, self.coefficients, self.element)?;
        let field = io_model(layout, *grid, 0, self.element)?;
        let written = model.written as f64;
        // A block is written as often as it is read; the rest of the field's reads are of
        // neighbours.
        let own = (model.read - field.read) as f64 + written;
        let around = field.read as f64 - written;
        let (blocks, arrays) = (grid.len() as f64, (1 + self.coefficients) as f64);
        let (beside, above) = (pairs(grid.cols(), grid.rows()), pairs(grid.rows(), grid.cols()));

        let Block { rows, cols } = grid.block_size().clipped(self.shape);
        let value = self.element.bytes() as f64;
        let (high, wide) = (rows as f64, cols as f64 * value);
        let in_rows = layout == Layout::RowMajor && cols < self.shape.cols;
        let (per_block, pitch) =
            if in_rows { (high, self.shape.cols as f64 * value) } else { (1.0, wide) };
        let sets = blocks * arrays;
        let read = self.pieces(sets, per_block, own, sets * high * (pitch - wide));
        let write = written / self.disk.write + blocks * per_block * self.disk.piece;
        let apart = if in_rows { (sets + blocks) * high } else { 0.0 };
        if let Layout::Framed { .. } = layout {
            let frames = around / self.disk.read + (beside + above) * self.disk.piece;
            return Ok((read + write + frames, apart));
        }
        // Whole pages of a column are read.
        let page = pitch.min(PAGE as f64);
        let column =
            self.pieces(beside, high, beside * high * page, beside * high * (pitch - page));
        let row = above * (self.disk.piece + wide / self.disk.read);
        let row_of_blocks = arrays * high * self.shape.cols as f64 * value;
        let again = (row_of_blocks / self.memory as f64 - 1.0).clamp(0.0, 1.0);
        Ok((read + write + again * (row + column), apart + beside * high))
    }

    /// Returns the seconds to read `sets` sets of `count` pieces each, with `bytes` bytes in all
    /// pieces and `gaps` bytes between them.
    fn pieces(&self, sets: f64, count: f64, bytes: f64, gaps: f64) -> f64 {
        let one_by_one = sets * count * self.disk.piece;
        let over_gaps = sets * self.disk.piece + gaps / self.disk.read;
        bytes / self.disk.read + one_by_one.min(over_gaps)
    }

    /// Returns the approximate maximum size of a block in flight, as that of
    /// [`BlockPlan`](crate::plan::BlockPlan) for matrices on file.
    fn window(&self, layout: Layout, grid: &Grid) -> u64 {
        let Block { rows, cols } = grid.block_size().clipped(self.shape);
        let value = self.element.bytes();
        let own = (rows * cols * value) as u64;
        let mapped = match layout {
            Layout::RowMajor if cols < self.shape.cols => {
                rows as u64 * (((cols * value) as u64).next_multiple_of(PAGE) + PAGE) + (4 << 20)
            }
            _ => own + 2 * PAGE,
        };
        let framed = matches!(layout, Layout::Framed { .. });
        let width = WIDEST / value;
        let arrays = 1 + self.coefficients;
        let buffer =
            workspace_bytes(rows, cols, arrays, width, false, value) + if framed { own } else { 0 };
        let in_place = if framed { 0 } else { mapped };
        let lines = 2 * ((rows + cols) * value) as u64;
        buffer + lines + (2 * mapped).max(self.coefficients as u64 * mapped + in_place)
    }
}

/// Returns the number of neighbours on two opposite sides, over all blocks of `lines` lines of
/// `long` blocks each.
const fn pairs(long: usize, lines: usize) -> f64 {
    (2 * (long - 1) * lines) as f64
}

#[cfg(test)]
mod tests;
