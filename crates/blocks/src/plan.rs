//! The plan of a sweep in blocks: the order and the size of the blocks, and the way in which it
//! will use the memory that it is allowed.
//!
//! If all matrices fit, they are mapped once and *held*. Otherwise one *window* per block in flight
//! is mapped, processed and unmapped: the block of the result, those of the coefficients, and a
//! buffer if a layout does not keep rows contiguous. The number of windows that fit bounds the
//! blocks in flight at once; if not even one fits, the sweep is refused.

mod io_model;
mod model;
mod order;

use std::time::Duration;

use syncline_store::probe::Disk;
use syncline_store::{Block, Grid, Layout, Matrix};
use syncline_wave::lanes::Real;

use crate::block::Blockwise;
use crate::error::{Error, Result};

pub use io_model::{IoModel, io_model};
pub use model::{BlockModel, BlockTime};
pub use order::{Order, RedBlack};

/// The way in which a sweep in blocks will use the memory that it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockPlan {
    /// The grid of blocks.
    pub grid: Grid,
    /// Whether all matrices are mapped for the whole run.
    pub held: bool,
    /// Bytes that one block in flight takes; when held, only its buffer.
    pub window: u64,
    /// The maximum number of blocks in flight at once.
    pub windows: u64,
    /// The expected time of an iteration, if a [`BlockModel`] chose the blocks.
    pub expected: Option<Duration>,
}

/// The size in bytes of the largest block that is chosen by default: long enough to be read at the
/// full rate of a disk, and short enough that a few successive iterations find a band in the page
/// cache.
const LARGEST: u64 = 16 << 20;

pub(crate) struct Question<'a, E: Real, K> {
    pub(crate) kernel: &'a K,
    pub(crate) field: &'a Matrix<E>,
    pub(crate) coefficients: Vec<&'a Matrix<E>>,
    pub(crate) result: &'a Matrix<E>,
    pub(crate) block: Option<Block>,
    pub(crate) memory: u64,
    pub(crate) workers: u64,
    pub(crate) iterations: u64,
    /// The performance of the disk, if it should determine the blocks.
    pub(crate) disk: Option<Disk>,
}

impl<E: Real, K: Blockwise<E>> Question<'_, E, K> {
    const VALUE: u64 = E::BYTES as u64;

    pub(crate) fn answer(&self) -> Result<BlockPlan> {
        self.check_frames()?;
        let in_memory = self.grid(true)?;
        let held = self.files() + self.workers * self.buffer(&in_memory) <= self.memory;
        let modelled = if held { None } else { self.by_model()? };
        let expected = modelled.map(|(_, time)| time);
        let grid = match modelled {
            _ if held => in_memory,
            Some((grid, _)) => grid,
            None => self.grid(false)?,
        };
        for matrix in self.matrices() {
            // Blocked and framed matrices have blocks of their own; they must all be the same.
            matrix.grid(grid.block_size())?;
        }
        let (files, window) =
            if held { (self.files(), self.buffer(&grid)) } else { (0, self.window(&grid)) };
        if self.kernel.stencil().corners()
            && grid.block_size().rows > 1
            && grid.block_size().cols < self.field.shape().cols
        {
            return Err(Error::CornerBlocks {
                block: grid.block_size(),
                shape: self.field.shape(),
            });
        }
        let windows = (self.memory - files).checked_div(window).unwrap_or(u64::MAX);
        if windows == 0 {
            return Err(Error::Memory {
                allowed: self.memory,
                window,
                block: grid.block_size(),
                matrices: self.coefficients.len() + 1,
            });
        }
        Ok(BlockPlan { grid, held, window, windows, expected })
    }

    fn matrices(&self) -> impl Iterator<Item = &Matrix<E>> {
        [self.field, self.result].into_iter().chain(self.coefficients.iter().copied())
    }

    fn check_frames(&self) -> Result<()> {
        match self.coefficients.iter().find(|m| !m.layout().in_place()) {
            Some(matrix) => Err(Error::FramedCoefficient { name: matrix.name().to_owned() }),
            None => Ok(()),
        }
    }

    /// Returns the bytes of all matrices that are not resident in memory.
    fn files(&self) -> u64 {
        self.matrices().filter(|m| !m.chunk().is_resident()).map(|m| m.chunk().len()).sum()
    }

    /// Returns whether a block has to be converted to row-major form in a buffer.
    fn needs_buffer(&self) -> bool {
        !(self.field.layout().in_place() && self.result.layout().in_place())
    }

    fn buffer(&self, grid: &Grid) -> u64 {
        let rect = grid.rect(0);
        let workspace = self.kernel.workspace_bytes(rect.rows, rect.cols);
        workspace + if self.needs_buffer() { rect.elements() as u64 * Self::VALUE } else { 0 }
    }

    /// Returns the maximum size of a block in flight: its old values beside the new ones at first,
    /// and the coefficients later. A neighbour's frontier is read before that, and is smaller.
    fn window(&self, grid: &Grid) -> u64 {
        let result = self.result.resident_bytes(grid);
        let first = self.field.resident_bytes(grid) + result;
        let coefficients: u64 = self.coefficients.iter().map(|m| m.resident_bytes(grid)).sum();
        let in_place = if self.needs_buffer() { 0 } else { result };
        let lines = 2 * (grid.block_size().rows + grid.block_size().cols) as u64 * Self::VALUE;
        self.buffer(grid) + lines + first.max(coefficients + in_place)
    }

    fn grid(&self, held: bool) -> Result<Grid> {
        let own = self.matrices().find_map(|m| m.layout().block());
        let asked = self.block.or(own);
        let block = match asked {
            Some(block) => block,
            None if held => self.block_in_memory(),
            None => self.block_on_disk()?,
        };
        // This constructor checks its input: a side of zero is an error.
        Ok(Layout::Blocked(block).grid(self.field.shape())?)
    }

    /// Returns the blocks with the least expected time by the model, or `None` if the disk is
    /// unknown or the blocks are given.
    fn by_model(&self) -> Result<Option<(Grid, Duration)>> {
        let own = self.matrices().find_map(|m| m.layout().block());
        let Some(disk) = self.disk.filter(|_| self.block.or(own).is_none()) else {
            return Ok(None);
        };
        let shape = self.field.shape();
        let model = BlockModel {
            shape,
            layout: Layout::RowMajor,
            coefficients: self.coefficients.len(),
            element: E::TYPE,
            memory: self.memory,
            workers: self.workers,
            iterations: self.iterations,
            disk,
        };
        let mut best: Option<(Grid, f64)> = None;
        for block in model
            .candidates()
            .filter(|block| !self.kernel.stencil().corners() || block.cols == shape.cols)
        {
            let grid = Layout::Blocked(block).grid(shape)?;
            // The model's window is an approximation; this one is exact.
            let Some(time) = model.time(block)?.filter(|_| self.window(&grid) <= self.memory)
            else {
                continue;
            };
            if best.is_none_or(|(_, least)| time.seconds < least) {
                best = Some((grid, time.seconds));
            }
        }
        Ok(best.map(|(grid, seconds)| (grid, Duration::from_secs_f64(seconds.min(1e9)))))
    }

    /// Eight blocks in each direction provide 15 diagonals with tasks; 512 values per row keep the
    /// prefetchers busy.
    fn block_in_memory(&self) -> Block {
        let shape = self.field.shape();
        let side = (shape.rows.max(shape.cols) / 8).clamp(64, 512);
        Block::new(side, if self.kernel.stencil().corners() { shape.cols } else { side })
    }

    /// Row-major data on disk: bands as wide as the matrix, each of which is contiguous in the
    /// file. The parallelism of the wave comes from chained iterations, so there must be enough
    /// bands for some to be far apart.
    fn block_on_disk(&self) -> Result<Block> {
        let shape = self.field.shape();
        let high = (LARGEST / (shape.cols as u64 * Self::VALUE)).max(1) as usize;
        let mut block = Block::new(high.min(shape.rows.div_ceil(16)).max(1), shape.cols);
        loop {
            let grid = Layout::Blocked(block).grid(shape)?;
            if self.window(&grid).saturating_mul(self.workers) <= self.memory {
                return Ok(block);
            }
            match block {
                Block { rows: 2.., .. } => block.rows /= 2,
                // A shorter piece of a row takes as many pages, but its strips are shorter.
                Block { cols: 256.., .. } => block.cols /= 2,
                _ => return Ok(block),
            }
        }
    }
}
