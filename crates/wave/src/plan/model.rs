//! How long an iteration in blocks takes, as a function of their size.
//!
//! # Contract
//! [`BlockModel::time`] is a pure function of what is known of the data, the memory, the processors
//! and the disk; [`BlockModel::best`] takes the size of block for which it is least.
//!
//! ```text
//! seconds                                     disk    bytes / rate + pieces * time of a piece
//!    │ pieces                      too few    cpu     elements * nanoseconds, on p processors
//!    │   \                       / blocks     under   w = min(blocks that fit, threads, those the wave allows)
//!    │     \__                _/   under      way
//!    │        \______________/     way        time    max(disk, cpu / p, (disk + cpu) / w)
//!    └───────────────────────────── side              + the first block's reading and the last one's updating
//! ```
//!
//! The last line is the bound of a closed system: `w` blocks go round between one disk and `p`
//! processors. Chained iterations let `R C K / (R + C - 1 + 2 (K - 1))` blocks of a grid of R x C
//! be under way in the mean of K iterations.
//!
//! | read per block | from                                                                           |
//! |----------------|--------------------------------------------------------------------------------|
//! | its own        | [`io_model`]: a piece per matrix; out of row-major data a piece per row        |
//! | frames         | [`io_model`]: a piece per neighbour                                            |
//! | other lines    | a piece per row of a column, or the whole block if that takes less             |
//!
//! The lines of unframed neighbours are still in the page cache if the data of a row of blocks fit
//! the memory; they have to be read again, all of them, if that is twice the memory. A gap between
//! pieces is read over where that takes less than a piece.
//!
//! # Source
//! P.-N. Clauss, J. Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks",
//! PDP 2010, section 3.4, for the bytes. Ours: pieces, blocks under way, the page cache. On its
//! data (16384² doubles, 2 GiB, disks of 64 and 52 MiB/s) blocks of 2048², its best, are within a
//! few percent of the least.

use syncline_store::probe::Disk;
use syncline_store::{Block, ElementType, Grid, Layout, Result, Shape, model::io_model};

use crate::block::workspace_bytes;

/// Nanoseconds that a processor takes for a value of each array, beside waiting for the disk: its
/// part of a page that is mapped and unmapped, and packing; and for an update. On a processor
/// of 2022.
const VALUE_NS: f64 = 3.0;
const UPDATE_NS: f64 = 1.0;
/// Seconds that a processor takes for a piece that is brought in by itself.
const TOUCH: f64 = 1.5e-6;
/// The smallest side of a block that is considered.
const LEAST: usize = 16;
/// Blocks with more tasks than this are not considered, whatever the memory.
const MOST_BLOCKS: usize = 1 << 18;
/// Bytes of the task of a block.
const TASK: u64 = 2560;
/// Bytes of the widest vectors.
const WIDEST: usize = 64;
/// Bytes of the smallest page.
const PAGE: u64 = 4096;

/// What is known of a sweep in blocks before the size of its blocks is.
///
/// ```
/// use syncline_store::probe::Disk;
/// use syncline_store::{Block, ElementType, Layout, Shape};
/// use syncline_wave::plan::BlockModel;
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
    /// Of all matrices.
    pub shape: Shape,
    /// Of the field, whatever its block; coefficients are as [`Layout::without_frame`] says.
    pub layout: Layout,
    /// How many matrices go with the field.
    pub coefficients: usize,
    /// The type of all elements.
    pub element: ElementType,
    /// Bytes that the sweep may hold; the page cache is taken to have as much.
    pub memory: u64,
    /// Threads that compute.
    pub workers: u64,
    /// Iterations of the sweep.
    pub iterations: u64,
    /// Where the matrices are.
    pub disk: Disk,
}

/// What is expected of a size of blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockTime {
    /// The size.
    pub block: Block,
    /// Seconds of an iteration.
    pub seconds: f64,
    /// Of which the disk is busy.
    pub disk: f64,
    /// Bytes that a block under way takes.
    pub window: u64,
    /// How many may be under way at once.
    pub windows: u64,
    /// How many blocks there are.
    pub blocks: usize,
}

impl BlockModel {
    /// The size of blocks that takes the least time, of squares whose sides are powers of two (cut
    /// down to the matrix) and, for row-major data, of bands as wide as the matrix; nothing if no
    /// block fits the memory.
    ///
    /// # Errors
    /// As [`Grid`]: a shape without elements, or of too many.
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

    /// The sizes that [`best`](Self::best) looks at, from small to large.
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

    /// What is expected of blocks of this size; nothing if not even one of them fits the memory.
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

    /// Seconds that the disk is busy in an iteration, and pieces that are brought in by themselves.
    fn disk_seconds(&self, layout: Layout, grid: &Grid) -> Result<(f64, f64)> {
        let model = io_model(layout, *grid, self.coefficients, self.element)?;
        let field = io_model(layout, *grid, 0, self.element)?;
        let written = model.written as f64;
        // A block is written as much as it is read; what is left of the field's reading are
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
        // Of a column whole pages are read.
        let page = pitch.min(PAGE as f64);
        let column =
            self.pieces(beside, high, beside * high * page, beside * high * (pitch - page));
        let row = above * (self.disk.piece + wide / self.disk.read);
        let row_of_blocks = arrays * high * self.shape.cols as f64 * value;
        let again = (row_of_blocks / self.memory as f64 - 1.0).clamp(0.0, 1.0);
        Ok((read + write + again * (row + column), apart + beside * high))
    }

    /// Seconds to read `sets` of `count` pieces each, with `bytes` in all of them and `gaps` bytes
    /// between.
    fn pieces(&self, sets: f64, count: f64, bytes: f64, gaps: f64) -> f64 {
        let one_by_one = sets * count * self.disk.piece;
        let over_gaps = sets * self.disk.piece + gaps / self.disk.read;
        bytes / self.disk.read + one_by_one.min(over_gaps)
    }

    /// The most that a block under way takes, about: as [`BlockPlan`](crate::plan::BlockPlan) has it of
    /// matrices on file.
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

/// Neighbours on two opposite sides, of all blocks of `lines` lines of `long` blocks each.
const fn pairs(long: usize, lines: usize) -> f64 {
    (2 * (long - 1) * lines) as f64
}

#[cfg(test)]
mod tests;
