//! The common part of the ring and the three buffers: bands of blocks, and the blocks as locations.
//!
//! ```text
//!              processor 0   j = 0      1      2      3
//!                    i = 0  ┌──────┬──────┬──────┬──────┐    A processor traverses its band by
//!                           │  1   │  3   │  5   │  7   │    column, downwards in each. It reads
//!                        1  ├──────┼──────┼──────┼──────┤    - from memory: the row above and the
//!                           │  2   │  4   │  6   │  8   │      column to the left, both new;
//!              processor 1  ╞══════╪══════╪══════╪══════╡    - from the files: the column to the
//!                        2  │  1   │  3   │  5   │  7   │      right and the row below, both old;
//!                           ├──────┼──────┼──────┼──────┤    - from its neighbours in the ring:
//!                                                              the rows across ═.
//! ```
//!
//! Until the first update of a block its values are those of the input; the result is written only
//! then.

use std::ops::Range;
use std::sync::Arc;

use syncline_blocks::Error;
use syncline_overlay::Location;
use syncline_store::{
    Block, Grid, Matrix,
    blocks::{MatrixBlock, Region, Tile},
    placement::Side,
};
use syncline_wave::Error as WaveError;

use super::{Arrays, Result};

impl<'a> Arrays<'a> {
    /// Returns the field, then the coefficients.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Arc<Matrix>> + use<'a> {
        [self.field].into_iter().chain(self.coefficients)
    }

    /// Checks that the matrices have the same shape and suitable layouts.
    pub(crate) fn check(&self, result: &Matrix) -> Result<()> {
        let others = self.coefficients.iter().map(|m| &**m).chain([result]);
        if let Some(other) = others.into_iter().find(|m| m.shape() != self.field.shape()) {
            let wrong = WaveError::Shape {
                name: other.name().to_owned(),
                actual: other.shape(),
                field: self.field.name().to_owned(),
                expected: self.field.shape(),
            };
            return Err(wrong.into());
        }
        match self.coefficients.iter().find(|m| !m.layout().in_place()) {
            Some(framed) => Err(Error::FramedCoefficient { name: framed.name().to_owned() }),
            None => Ok(()),
        }
    }
}

/// The data of a sweep and the bands of the processors.
pub(crate) struct Work<'a> {
    pub(crate) arrays: Arrays<'a>,
    pub(crate) grid: Grid,
    /// The rows of blocks of each processor.
    pub(crate) bands: Vec<Range<usize>>,
    /// Bytes of the blocks of all matrices that stay resident while a block is mapped.
    pub(crate) mapped: u64,
    /// Bytes of a block.
    pub(crate) block: u64,
    /// Bytes of a buffer for a block of the field; a framed block is in it twice.
    pub(crate) buffer: u64,
}

/// A block and its position in the walk of its processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) processor: usize,
    pub(crate) index: usize,
    pub(crate) j: usize,
    /// Whether the block is the first, or the last, of its column in the band.
    pub(crate) top: bool,
    pub(crate) bottom: bool,
    /// The row of the block's first element, in the band.
    pub(crate) offset: usize,
}

/// The data of a block's location.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) region: Region,
    /// The number of updates so far.
    pub(crate) rounds: u64,
    /// The frontiers that are passed to the neighbours in the ring.
    pub(crate) top: Vec<f64>,
    pub(crate) bottom: Vec<f64>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        arrays: &Arrays<'a>,
        block: Block,
        processors: usize,
        result: &Matrix,
    ) -> Result<Self> {
        let grid = arrays.field.grid(block)?;
        for matrix in arrays.all().map(|m| &**m).chain([result]) {
            matrix.grid(block)?;
        }
        let processors = processors.clamp(1, grid.rows());
        let begin = |p: usize| p * grid.rows() / processors;
        let bands = (0..processors).map(|p| begin(p)..begin(p + 1)).collect();
        let mapped =
            arrays.all().map(|m| &**m).chain([result]).map(|m| m.resident_bytes(&grid)).sum();
        let block = (grid.rect(0).elements() * size_of::<f64>()) as u64;
        let in_place = arrays.field.layout().in_place() && result.layout().in_place();
        let buffer = if in_place { block } else { 2 * block };
        Ok(Work { arrays: *arrays, grid, bands, mapped, block, buffer })
    }

    /// Checks that `windows` blocks in use, of `window` bytes each, fit in the allowed memory.
    pub(crate) fn check_memory(&self, allowed: u64, windows: usize, window: u64) -> Result<()> {
        let needed = window.saturating_mul(windows as u64);
        if needed <= allowed {
            return Ok(());
        }
        let block = self.grid.block_size();
        Err(Error::Memory {
            allowed,
            window: needed,
            block,
            matrices: self.arrays.coefficients.len() + 1,
        })
    }

    /// Returns the blocks of a processor in the order of its walk.
    pub(crate) fn walk(&self, processor: usize) -> impl Iterator<Item = Place> + use<> {
        let (band, grid) = (self.bands[processor].clone(), self.grid);
        let first = grid.block(band.start, 0).row;
        (0..grid.cols()).flat_map(move |j| {
            let band = band.clone();
            band.clone().map(move |i| Place {
                processor,
                index: grid.index(i, j),

                j,
                top: i == band.start,
                bottom: i + 1 == band.end,
                offset: grid.block(i, j).row - first,
            })
        })
    }

    /// Returns the indices of the row of blocks that the neighbour above needs.
    pub(crate) fn top_row(&self, processor: usize) -> Range<usize> {
        let i = self.bands[processor].start;
        self.grid.index(i, 0)..self.grid.index(i, 0) + self.grid.cols()
    }

    /// Returns the number of rows of elements in a band.
    pub(crate) fn height(&self, processor: usize) -> usize {
        let band = &self.bands[processor];
        band.clone().map(|i| self.grid.block(i, 0).rows).sum()
    }

    /// Returns the blocks of the result as locations.
    pub(crate) fn locations(&self, result: Matrix) -> Result<Vec<Location<Slot>>> {
        let regions = result.into_regions(self.grid)?.into_iter().enumerate();
        let slot = |region| Slot { region, rounds: 0, top: Vec::new(), bottom: Vec::new() };
        Ok(regions.map(|(b, region)| Location::new(self.name("block", b), slot(region))).collect())
    }

    /// Returns the result, when no references to its locations are left.
    pub(crate) fn result(slots: Vec<Location<Slot>>) -> Result<Matrix> {
        let regions =
            slots.into_iter().filter_map(|slot| slot.into_inner().ok()).map(|slot| slot.region);
        Ok(Matrix::from_regions(regions.collect())?)
    }

    pub(crate) fn name(&self, what: &str, block: usize) -> String {
        let (i, j) = self.grid.at(block);
        format!("{what} ({i}, {j})")
    }

    pub(crate) fn tile(&self, matrix: &Arc<Matrix>, block: usize) -> Tile {
        matrix.tile(&self.grid, block)
    }

    /// Calls `read` with the present values of a block.
    pub(crate) fn read<R>(&self, slot: &Slot, read: impl FnOnce(&MatrixBlock) -> R) -> R {
        match slot.rounds {
            0 => read(&self.tile(self.arrays.field, slot.region.index())),
            _ => read(&slot.region),
        }
    }

    /// Reads the outermost line of a block from its file.
    pub(crate) fn frontier(&self, slot: &Slot, side: Side, line: &mut Vec<f64>) -> Result<()> {
        self.read(slot, |part| {
            line.resize(part.rect().line(side), 0.0);
            Ok(part.frontier(side, line)?)
        })
    }
}
