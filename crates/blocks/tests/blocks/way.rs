//! The way in which tests that both executors share run a sweep: here, in blocks.

use std::sync::Arc;

use proptest::prelude::*;
use syncline_blocks::{
    BlockedSweep, Error,
    plan::{BlockPlan, Order},
};
use syncline_store::{Block, Layout, Matrix, Shape};
use syncline_wave::{
    Described, Error as WaveError, Neighbour, PointKernel, Stencil, Sweep, SweepReport,
};

use crate::Real;

/// Returns the layouts with blocks of this size.
pub(crate) fn layouts(block: Block) -> [Layout; 4] {
    let framed = |thickness| Layout::Framed { block, thickness };
    [Layout::RowMajor, Layout::Blocked(block), framed(1), framed(2)]
}

/// Returns whether blocks of several rows must be as wide as the matrix.
pub(crate) fn corners(stencil: Stencil) -> bool {
    stencil.has(Neighbour::NorthEast) || stencil.has(Neighbour::SouthWest)
}

type Result<T> = std::result::Result<T, Error>;

/// The settings that only blocks have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// The rows and columns of a block of the layout, and the number of the layout; without them,
    /// matrices are row-major, and the sweep chooses the blocks.
    blocks: Option<((usize, usize), usize)>,
    barrier: bool,
}

/// Generates the settings.
pub(crate) fn way() -> impl Strategy<Value = Way> {
    (((1..12_usize, 1..12_usize), 0..4_usize), any::<bool>())
        .prop_map(|(blocks, barrier)| Way { blocks: Some(blocks), barrier })
}

/// Returns the error that any executor has.
pub(crate) fn common(error: Error) -> WaveError {
    match error {
        Error::Sweep(error) => error,
        other => panic!("{other:?}"),
    }
}

impl Way {
    /// Returns a layout in which this way takes matrices.
    pub(crate) fn layout(self, shape: Shape, stencil: Stencil) -> Layout {
        let Some(((rows, cols), layout)) = self.blocks else { return Layout::RowMajor };
        let block = Block::new(rows, if corners(stencil) { shape.cols } else { cols });
        layouts(block.clipped(shape))[layout]
    }

    fn of<K>(self, sweep: Sweep<K>) -> BlockedSweep<K> {
        BlockedSweep::of(sweep).order(if self.barrier { Order::Barrier } else { Order::Wave })
    }

    pub(crate) fn plan<T: Real, K: PointKernel<N>, const N: usize>(
        self,
        sweep: Sweep<K>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: &Matrix<T>,
    ) -> Result<BlockPlan> {
        self.of(sweep).plan(field, coefficients, result)
    }

    pub(crate) fn run<T: Real, K: PointKernel<N>, const N: usize>(
        self,
        sweep: Sweep<K>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>)> {
        self.of(sweep).run(field, coefficients, result)
    }

    pub(crate) fn run_dynamic<T: Real>(
        self,
        sweep: Sweep<Described>,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>)> {
        self.of(sweep).run_dynamic(field, coefficients, result)
    }
}
