//! Sweeps of kernels that update a whole block at a time.

use std::sync::Arc;

use syncline_store::Matrix;

use super::{Executor, Settings, Sweep, SweepReport};
use crate::block_kernel::Whole;
use crate::sweep::matrices::Arrays;
use crate::{BlockKernel, Error, Result, lanes::Real, plan::BlockPlan};

impl Settings {
    /// Rejects an explicit [`Executor::Streamed`]: whole blocks always run on the blocked executor.
    fn check_executor(&self) -> Result<()> {
        if self.executor == Executor::Streamed {
            let why = "it is given a block at a time; run the sweep in blocks";
            return Err(Error::NotStreamed {
                name: "a kernel of whole blocks".to_owned(),
                why: why.to_owned(),
            });
        }
        Ok(())
    }
}

/// Sweeps of kernels that update a whole block at a time, always with [`Executor::Blocked`].
/// Layouts, orders, runners, the memory limit and convergence are as with any other kernel in
/// blocks.
impl<K> Sweep<K> {
    /// Returns the plan by which [`run_blocks`](Sweep::run_blocks) will use the memory, without
    /// running the sweep.
    ///
    /// # Errors
    /// As [`plan`](Sweep::plan) and [`run_blocks`](Sweep::run_blocks).
    pub fn plan_blocks<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: &Matrix<T>,
    ) -> Result<BlockPlan>
    where
        K: BlockKernel<T>,
    {
        self.settings.check_executor()?;
        T::executors(&self.settings).plan_blocks(
            &Whole::new(&self.kernel),
            &Arrays { field, coefficients },
            result,
        )
    }

    /// Runs the sweep from `field` into `result`, which is given back. The kernel gets one block
    /// after the other, as plain matrices with a halo of one element: see [`BlockKernel`].
    ///
    /// # Errors
    /// As [`run`](Sweep::run); [`Error::Coefficients`] if their number is not the kernel's;
    /// [`Error::NotStreamed`] with [`Executor::Streamed`]; [`Error::Corners`] for a stencil with
    /// diagonal neighbours in [`Order::MaxParallel`](crate::Order::MaxParallel);
    /// [`Error::CornerBlocks`] for a stencil with the north-east or south-west neighbour and blocks
    /// of several rows that are not as wide as the matrix.
    pub fn run_blocks<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)>
    where
        K: BlockKernel<T>,
    {
        self.settings.check_executor()?;
        T::executors(&self.settings).run_blocks(
            &Whole::new(&self.kernel),
            &Arrays { field, coefficients },
            result,
        )
    }
}
