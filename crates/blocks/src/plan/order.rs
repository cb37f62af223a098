//! The orders of the blocks, and the plain loop of the one whose numbers depend on the blocks.

use std::sync::Arc;

use syncline_kernel::dynamic::{Dynamic, Kernel};
use syncline_store::{Grid, Matrix, placement::Rect};
use syncline_wave::{PointKernel, lanes::Real, reference::Reference};

/// The order in which blocks are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Diagonal by diagonal, with the next iteration following closely: bit-identical to the plain
    /// double loop.
    #[default]
    Wave,
    /// Red-black by blocks: half of all blocks can run at once from the start. The **numbers
    /// differ** from those of the plain double loop; the fixed point is the same.
    MaxParallel,
    /// Like `Wave` within an iteration, but the next iteration begins only when all blocks of the
    /// previous one are done. Bit-identical to `Wave`.
    Barrier,
}

/// The plain loop over blocks, which the order [`Order::MaxParallel`] equals bit for bit.
///
/// It runs the double loop over the blocks of `grid`, one block after another: each iteration first
/// updates the blocks with an even sum of block row and column, then the others. The other orders
/// equal the double loop itself, [`Reference`].
#[derive(Clone, Copy, Debug)]
pub struct RedBlack<'a, T: Real, K> {
    /// The update of a point.
    pub kernel: &'a K,
    /// The input.
    pub field: &'a Matrix<T>,
    /// The coefficients.
    pub coefficients: &'a [Arc<Matrix<T>>],
    /// The number of iterations.
    pub iterations: u64,
    /// The blocks.
    pub grid: Grid,
}

impl<T: Real, K> RedBlack<'_, T, K> {
    /// Runs the loop with about `memory` bytes of buffers.
    ///
    /// `work`, preferably row-major, is overwritten and returned with the result.
    ///
    /// # Errors
    /// As for [`Reference::run`].
    pub fn run<const N: usize>(
        &self,
        work: Matrix<T>,
        memory: u64,
    ) -> syncline_wave::Result<Matrix<T>>
    where
        K: PointKernel<N>,
    {
        self.with(&*self.kernel.erased(), work, memory)
    }

    /// Like [`run`](Self::run), for a kernel that is only known at run time.
    ///
    /// # Errors
    /// As for [`Reference::run`].
    pub fn run_dynamic(&self, work: Matrix<T>, memory: u64) -> syncline_wave::Result<Matrix<T>>
    where
        K: Dynamic,
    {
        self.with(&*self.kernel.kernel()?, work, memory)
    }

    fn with(
        &self,
        kernel: &dyn Kernel<T>,
        work: Matrix<T>,
        memory: u64,
    ) -> syncline_wave::Result<Matrix<T>> {
        let RedBlack { kernel: own, field, coefficients, iterations, grid } = *self;
        let colour = |b: &usize| {
            let (i, j) = grid.at(*b);
            (i + j) % 2
        };
        let mut blocks: Vec<usize> = (0..grid.len()).collect();
        blocks.sort_by_key(colour);
        let rects: Vec<Rect> = blocks.into_iter().map(|b| grid.rect(b)).collect();
        let loops = Reference { kernel: own, field, coefficients, iterations };
        loops.run_rects(kernel, work, &rects, memory)
    }
}
