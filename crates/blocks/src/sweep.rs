//! A sweep in blocks: its kernel and its settings.

use std::sync::Arc;

use syncline_kernel::dynamic::{Dynamic, Kernel};
use syncline_store::probe::Disk;
use syncline_store::{Block, Matrix, convert};
use syncline_wave::executor::{Arrays, Settings as Common, resumption};
use syncline_wave::lanes::Real as WaveReal;
use syncline_wave::target::{Resumption, Target};
use syncline_wave::{PointKernel, Sweep, SweepReport};

use crate::block::{Blockwise, Points};
use crate::compiled::{Executors, Real, Swept};
use crate::error::Result;
use crate::executor;
use crate::kernel::{BlockKernel, Whole};
use crate::plan::{BlockPlan, Order, Question};

/// A sweep that runs block by block: a [`Sweep`], and settings of its blocks.
///
/// Iterations, tolerance, runner, lanes, memory and monitor are those of the sweep. A depth and an
/// exact stop are for passes, and have no effect.
///
/// * With a tolerance and the order [`Wave`](Order::Wave) or [`MaxParallel`](Order::MaxParallel),
///   some blocks are ahead of the last one when convergence is detected; all blocks stop at a
///   common iteration, which is later by at most the number of blocks between two corners (twice as
///   many with more than 1024 blocks). With [`Barrier`](Order::Barrier) the stop is exact.
/// * The runner may be any, such as a thread for each block. Out of core, if the memory allows,
///   further threads read while those of the runner compute.
/// * The memory does not include the tasks, which take about 2.5 KiB for each block.
///
/// ```
/// use std::sync::Arc;
/// use syncline_blocks::{BlockedSweep, plan::Order};
/// use syncline_store::{Block, Layout, Matrix, Shape};
/// use syncline_wave::{Sweep, kernels::Sor};
///
/// let (shape, block) = (Shape::new(50, 80), Block::new(16, 16));
/// let framed = Layout::Framed { block, thickness: 1 };
/// let mut plate = Matrix::zeros(shape, framed)?;
/// plate.write_row(0, &[100.0; 80])?;
/// let sweep = Sweep::new(Sor::new(1.8)?).iterations(10_000).until(1e-6);
/// let sweep = BlockedSweep::of(sweep).order(Order::Barrier);
/// let (_, report) = sweep.run(&Arc::new(plate), &[], Matrix::zeros(shape, framed)?)?;
/// assert!(report.converged.is_some());
/// assert_eq!(report.plan.grid.block_size(), block);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockedSweep<K> {
    kernel: K,
    settings: Settings,
}

/// All settings of a sweep in blocks except its kernel.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Those that a sweep by passes has as well.
    pub(crate) common: Common,
    pub(crate) order: Order,
    block: Option<Block>,
    pub(crate) disk: Option<Disk>,
}

impl Settings {
    fn plan_by<E: Real, K: Blockwise<E>>(
        &self,
        kernel: &K,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan> {
        self.common.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(result))?;
        Question {
            kernel,
            field: arrays.field,
            coefficients: arrays.coefficients.iter().map(|m| &**m).collect(),
            result,
            block: self.block,
            memory: self.common.memory,
            workers: self.common.processors(),
            iterations: self.common.iterations,
            disk: self.disk,
        }
        .answer()
    }

    fn run_by<E: Real, K: Blockwise<E>>(
        &self,
        kernel: &K,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<Swept<E>> {
        let plan = self.plan_by(kernel, arrays, &result)?;
        let versions = arrays.versions()?;
        let done = match self.common.iterations {
            0 => self.copy(plan, arrays, result)?,
            _ => executor::run(self, kernel, plan, arrays, result)?,
        };
        arrays.check_versions(&versions)?;
        Ok(done)
    }

    /// Copies the input to the result, for a sweep without iterations.
    fn copy<E: Real>(
        &self,
        plan: BlockPlan,
        arrays: &Arrays<'_, E>,
        mut result: Matrix<E>,
    ) -> Result<Swept<E>> {
        convert(arrays.field, &mut result, self.common.memory.clamp(64 << 10, 64 << 20))?;
        let mut report = SweepReport::of_nothing(plan);
        report.bytes_read = arrays.field.chunk().traffic().read;
        report.bytes_written = result.chunk().traffic().written;
        (report.processors, report.workers) = (1, 1);
        Ok((result, report))
    }
}

impl<E: Real> Executors<E> for Settings {
    fn plan(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan> {
        self.plan_by(&Points::new(kernel, self.common.lanes)?, arrays, result)
    }

    fn run(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<Swept<E>> {
        self.run_by(&Points::new(kernel, self.common.lanes)?, arrays, result)
    }

    fn plan_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan> {
        self.plan_by(kernel, arrays, result)
    }

    fn run_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<Swept<E>> {
        self.run_by(kernel, arrays, result)
    }
}

impl<K> BlockedSweep<K> {
    /// Returns the same sweep, in blocks and in the order [`Order::Wave`].
    #[must_use]
    pub fn of(sweep: Sweep<K>) -> Self {
        let (kernel, common) = sweep.into_parts();
        let settings = Settings { common, order: Order::Wave, block: None, disk: None };
        BlockedSweep { kernel, settings }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the order of the blocks.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        self.with(|s| s.order = order)
    }

    /// Sets the size of the blocks. The default is the block of the layout, or one that suits the
    /// memory.
    #[must_use]
    pub fn block(self, block: Block) -> Self {
        self.with(|s| s.block = Some(block))
    }

    /// Sets the performance of the disk that holds the data. If the data are row-major and do not
    /// fit the memory, and no block size was given, a [`BlockModel`](crate::plan::BlockModel) then
    /// chooses the blocks; without it they are bands that suit the memory.
    #[must_use]
    pub fn disk(self, disk: Disk) -> Self {
        self.with(|s| s.disk = Some(disk))
    }

    /// Sets the maximum number of bytes, as [`Sweep::memory`].
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        self.with(|s| s.common.memory = bytes)
    }

    /// Returns the plan by which [`run`](Self::run) will use the memory, without running the sweep.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory) if not even one block fits, and all errors about the
    /// matrices.
    pub fn plan<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: &Matrix<T>,
    ) -> Result<BlockPlan>
    where
        K: PointKernel<N>,
    {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).plan(&*self.kernel.erased(), &arrays, result)
    }

    /// Runs the sweep from `field` into `result`, which is given back.
    ///
    /// The field and the coefficients are only read. Matrices may be on file or in memory and in
    /// any layout, except that coefficients must not be framed; all matrices with blocks must have
    /// the same ones. The contents of the result are unspecified after an error.
    ///
    /// # Errors
    /// See [`Error`](crate::Error); also a kernel that panics, and an input file that was written
    /// to during the sweep. [`Error::Undeclared`](syncline_wave::Error::Undeclared) for a kernel
    /// that reads a neighbour that its stencil does not name.
    pub fn run<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<Swept<T>>
    where
        K: PointKernel<N>,
    {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).run(&*self.kernel.erased(), &arrays, result)
    }

    /// Returns the point at which the sweep begins if its result is to get the name of `target`: at
    /// the first iteration, after the result that has the name, or not at all.
    ///
    /// # Errors
    /// The errors of [`Sweep::run_to`] about existing files;
    /// [`Error::Leftovers`](syncline_wave::Error::Leftovers) also if a streamed run was
    /// interrupted, which only a streamed run can resume.
    pub fn resumption<T: WaveReal>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Resumption> {
        Ok(resumption(&self.settings.common, &Arrays { field, coefficients }, target)?)
    }
}

/// Sweeps of kernels that are defined at run time. The methods correspond to those of other
/// kernels, with any number of coefficients.
impl<K: Dynamic> BlockedSweep<K> {
    /// Like [`plan`](Self::plan), for a kernel that is defined at run time.
    ///
    /// # Errors
    /// As [`plan`](Self::plan); [`Error::Coefficients`](syncline_wave::Error::Coefficients) if
    /// their number is not the kernel's.
    pub fn plan_dynamic<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: &Matrix<T>,
    ) -> Result<BlockPlan> {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).plan(&*self.kernel.kernel()?, &arrays, result)
    }

    /// Like [`run`](Self::run), for a kernel that is defined at run time.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Error::Coefficients`](syncline_wave::Error::Coefficients) if their
    /// number is not the kernel's.
    pub fn run_dynamic<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<Swept<T>> {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).run(&*self.kernel.kernel()?, &arrays, result)
    }
}

/// Sweeps of kernels that update a whole block at a time. Layouts, orders, runners, the memory
/// limit and convergence are as with any other kernel.
impl<K> BlockedSweep<K> {
    /// Returns the plan by which [`run_blocks`](Self::run_blocks) will use the memory, without
    /// running the sweep.
    ///
    /// # Errors
    /// As [`plan`](Self::plan) and [`run_blocks`](Self::run_blocks).
    pub fn plan_blocks<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: &Matrix<T>,
    ) -> Result<BlockPlan>
    where
        K: BlockKernel<T>,
    {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).plan_blocks(&Whole::new(&self.kernel), &arrays, result)
    }

    /// Runs the sweep from `field` into `result`, which is given back. The kernel gets one block
    /// after the other, as plain matrices with a halo of one element: see [`BlockKernel`].
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Error::Coefficients`](syncline_wave::Error::Coefficients) if their
    /// number is not the kernel's; [`Error::Corners`](crate::Error::Corners) for a stencil with
    /// diagonal neighbours in [`Order::MaxParallel`];
    /// [`Error::CornerBlocks`](crate::Error::CornerBlocks) for a stencil with the north-east or
    /// south-west neighbour and blocks of several rows that are not as wide as the matrix.
    pub fn run_blocks<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        result: Matrix<T>,
    ) -> Result<Swept<T>>
    where
        K: BlockKernel<T>,
    {
        let arrays = Arrays { field, coefficients };
        T::in_blocks(&self.settings).run_blocks(&Whole::new(&self.kernel), &arrays, result)
    }
}
