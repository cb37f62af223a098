//! The papers' model of the I/O of one sweep: bytes mapped for reading and for writing.
//!
//! To compute a block, a sweep reads its own block of the field and of each coefficient, and part
//! or all of each existing neighbour (up to four); then it writes the block of the field.
//!
//! | layout             | read of a neighbour | worst block         | all blocks       |
//! |--------------------|---------------------|---------------------|------------------|
//! | row-major, blocked | its whole block     | 320 MiB             | 19 GiB           |
//! | framed             | the facing frontier | 192 MiB + 64.03 KiB | 12 GiB + 3.5 MiB |
//!
//! The figures are those of the papers' case, a matrix of 16384² doubles in blocks of 2048² with
//! five coefficients.
//!
//! If all neighbours are still in memory, row-major and blocked layouts also read 192 MiB for each
//! block: the best case.
//!
//! Source: P.-N. Clauss, J. Gustedt, "Experimenting Iterative Computations with Ordered Read-Write
//! Locks", PDP 2010, doi:10.1109/PDP.2010.11, section 3.4. The paper's figure of 20 GiB treats each
//! block as an interior one; here blocks at the edge have fewer neighbours.

use syncline_store::placement::{Placement, Side};
use syncline_store::{ElementType, Grid, Layout, Result};

/// The numbers of bytes that one sweep over a matrix reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoModel {
    /// The bytes read in the sweep.
    pub read: u64,
    /// The bytes written in the sweep.
    pub written: u64,
    /// The bytes read for the block that needs the most.
    pub worst_block: u64,
    /// The bytes read for the block that needs the most if no data of its neighbours has to be
    /// read.
    pub best_block: u64,
}

/// Returns the bytes that one sweep reads and writes if the field has `layout` and the sweep reads
/// `coefficients` further matrices, all with elements of one type.
///
/// The coefficients of a framed field are blocked.
///
/// # Errors
/// The same as those of [`Placement::new`].
///
/// ```
/// use syncline_blocks::plan::io_model;
/// use syncline_store::{Block, ElementType, Grid, Layout, Shape};
///
/// let block = Block::new(2048, 2048);
/// let grid = Grid::new(Shape::new(16384, 16384), block);
/// let model = io_model(Layout::Blocked(block), grid, 5, ElementType::Float64)?;
/// assert_eq!(model.worst_block, 320 << 20);
/// # Ok::<(), syncline_store::Error>(())
/// ```
pub fn io_model(
    layout: Layout,
    grid: Grid,
    coefficients: usize,
    element: ElementType,
) -> Result<IoModel> {
    let field = Placement::new(layout, grid)?;
    let coefficient = Placement::new(layout.without_frame(), grid)?;
    let bytes = |values: usize| (values * element.bytes()) as u64;
    let mut model = IoModel { read: 0, written: 0, worst_block: 0, best_block: 0 };
    for index in 0..grid.len() {
        let own =
            bytes(field.values(index)) + coefficients as u64 * bytes(coefficient.values(index));
        let around: u64 = Side::ALL
            .into_iter()
            .filter_map(|side| Some((grid.neighbour(index, side)?, side.facing())))
            .map(|(neighbour, side)| match layout {
                Layout::RowMajor | Layout::Blocked(_) => bytes(field.values(neighbour)),
                Layout::Framed { .. } => bytes(field.frontier(neighbour, side).len),
            })
            .sum();
        model.read += own + around;
        model.written += bytes(field.values(index));
        model.worst_block = model.worst_block.max(own + around);
        model.best_block = model.best_block.max(own);
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use syncline_store::{Block, Shape};

    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn paper(layout: fn(Block) -> Layout) -> Result<IoModel> {
        let block = Block::new(2048, 2048);
        io_model(layout(block), Grid::new(Shape::new(16384, 16384), block), 5, ElementType::Float64)
    }

    #[test]
    fn blocks_read_320_mib_in_the_worst_case() -> Result<()> {
        for layout in [Layout::Blocked as fn(Block) -> Layout, |_| Layout::RowMajor] {
            let model = paper(layout)?;
            assert_eq!(model.worst_block, 320 * MIB);
            assert_eq!(model.best_block, 192 * MIB);
            assert_eq!(64 * model.worst_block, 20 * GIB);
            assert_eq!(64 * model.best_block, 12 * GIB);
            // 64 cases of 6 own blocks, and 2 * 2 * 8 * 7 neighbours.
            assert_eq!(model.read, (64 * 6 + 224) * 32 * MIB);
            assert_eq!(model.read, 19 * GIB);
            assert_eq!(model.written, 2 * GIB);
        }
        Ok(())
    }

    #[test]
    fn frames_read_a_little_more_than_192_mib() -> Result<()> {
        let model = paper(|block| Layout::Framed { block, thickness: 1 })?;
        assert_eq!(model.best_block, 192 * MIB + 32);
        assert_eq!(model.worst_block, 192 * MIB + 32 + 4 * 2048 * 8);
        assert_eq!(model.read, 12 * GIB + 64 * 32 + 224 * 2048 * 8);
        assert_eq!(model.written, 2 * GIB + 64 * 32);
        Ok(())
    }

    #[test]
    fn floats_are_half_of_doubles() -> Result<()> {
        let block = Block::new(7, 9);
        let grid = Grid::new(Shape::new(50, 40), block);
        for layout in
            [Layout::RowMajor, Layout::Blocked(block), Layout::Framed { block, thickness: 2 }]
        {
            let [double, single] =
                ElementType::REAL.map(|element| io_model(layout, grid, 3, element));
            let (double, single) = (double?, single?);
            let twice = |bytes| 2 * bytes;
            assert_eq!(
                double,
                IoModel {
                    read: twice(single.read),
                    written: twice(single.written),
                    worst_block: twice(single.worst_block),
                    best_block: twice(single.best_block),
                }
            );
        }
        Ok(())
    }
}
