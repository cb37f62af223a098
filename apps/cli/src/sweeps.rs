//! The sweeps of the command: a kernel with settings and matrices.

use std::sync::Arc;

use syncline_blocks::{
    BlockedSweep, Error as BlocksError,
    kernel::Real as InBlocks,
    plan::{BlockPlan, Order, RedBlack},
};
use syncline_fabric::Member;
use syncline_store::probe::Disk;
use syncline_store::{Block, Grid, Matrix, generation::Identity};
use syncline_wave::{
    Result as WaveResult, Runner, Sweep, SweepReport,
    kernels::AnyKernel,
    lanes::{Lanes, Real},
    monitor::Monitor,
    plan::SweepPlan,
    reference::Reference,
    target::{Pending, Resumption, Taken, Target},
};

/// The matrices of a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Arrays<T: Real> {
    /// The matrix that is updated.
    pub(crate) field: Arc<Matrix<T>>,
    /// The coefficients, in the order of the kernel.
    pub(crate) coefficients: Vec<Arc<Matrix<T>>>,
}

impl<T: Real> Arrays<T> {
    /// Returns all matrices, the field first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Matrix<T>>> {
        std::iter::once(&self.field).chain(&self.coefficients)
    }
}

/// The settings of a sweep, without its kernel and arrays.
#[derive(Clone, Debug)]
pub(crate) struct SweepOptions {
    /// The greatest number of iterations.
    pub(crate) iterations: u64,
    /// The tolerance: the sweep stops when no point changes by more.
    pub(crate) until: Option<f64>,
    /// Whether the sweep stops exactly at the iteration that reaches the tolerance.
    pub(crate) exact_stop: bool,
    /// The threads that run the sweep.
    pub(crate) runner: Runner,
    /// The number of iterations in one pass.
    pub(crate) depth: Option<u64>,
    /// The vectors to compute with.
    pub(crate) lanes: Lanes,
    /// The memory bound, in bytes.
    pub(crate) memory: u64,
    /// The progress of the sweep, and the means to cancel it.
    pub(crate) monitor: Arc<Monitor>,
    /// The settings that only a sweep in blocks has.
    pub(crate) blocks: BlockOptions,
}

/// The settings that only a sweep in blocks has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockOptions {
    /// The order in which blocks are updated.
    pub(crate) order: Order,
    /// The size of a block; the best size if not given.
    pub(crate) size: Option<Block>,
    /// The speed of the disk, if it is known.
    pub(crate) disk: Option<Disk>,
}

impl SweepOptions {
    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        let mut sweep = Sweep::new(kernel)
            .iterations(self.iterations)
            .exact_stop(self.exact_stop)
            .runner(self.runner)
            .lanes(self.lanes)
            .memory(self.memory)
            .monitor(Arc::clone(&self.monitor));
        if let Some(tolerance) = self.until {
            sweep = sweep.until(tolerance);
        }
        if let Some(depth) = self.depth {
            sweep = sweep.depth(depth);
        }
        sweep
    }

    fn in_blocks<K>(&self, kernel: K) -> BlockedSweep<K> {
        let BlockOptions { order, size, disk } = self.blocks;
        let sweep = BlockedSweep::of(self.sweep(kernel)).order(order);
        let sweep = size.into_iter().fold(sweep, BlockedSweep::block);
        disk.into_iter().fold(sweep, BlockedSweep::disk)
    }
}

impl SweepOptions {
    /// See [`Sweep::identity`].
    ///
    /// # Errors
    /// As for [`Sweep::identity`].
    pub(crate) fn identity<T: Real>(
        &self,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<Identity> {
        self.sweep(()).identity(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`Sweep::taken`].
    ///
    /// # Errors
    /// As for [`Sweep::taken`].
    pub(crate) fn taken<T: Real>(
        &self,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<Option<Taken>> {
        self.sweep(()).taken(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`BlockedSweep::resumption`].
    ///
    /// # Errors
    /// As for [`BlockedSweep::resumption`].
    pub(crate) fn resumption<T: Real>(
        &self,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> Result<Resumption, BlocksError> {
        self.in_blocks(()).resumption(&arrays.field, &arrays.coefficients, target)
    }
}

/// The settings of the plain loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    /// The number of iterations over all points.
    pub(crate) iterations: u64,
    /// The blocks, if the loop is that of the order max-parallel.
    pub(crate) red_black: Option<Grid>,
    /// The approximate size of the buffers, in bytes.
    pub(crate) memory: u64,
    /// The number of first rows to compute; all rows if not given.
    pub(crate) top: Option<usize>,
}

impl SweepOptions {
    /// See [`Sweep::plan`].
    pub(crate) fn plan<T: Real>(
        &self,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> WaveResult<SweepPlan> {
        self.sweep(kernel.clone()).plan_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    /// See [`BlockedSweep::plan`].
    pub(crate) fn plan_in_blocks<T: InBlocks>(
        &self,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<BlockPlan, BlocksError> {
        self.in_blocks(kernel.clone()).plan_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    /// See [`BlockedSweep::run`].
    pub(crate) fn run_in_blocks<T: InBlocks>(
        &self,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>), BlocksError> {
        self.in_blocks(kernel.clone()).run_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    /// See [`Sweep::run_to`].
    pub(crate) fn run_to<T: Real>(
        &self,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)> {
        self.sweep(kernel.clone()).run_dynamic_to(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`Sweep::run_on`].
    pub(crate) fn run_on<T: Real>(
        &self,
        me: &mut Member,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<SweepReport> {
        let sweep = self.sweep(kernel.clone());
        sweep.run_dynamic_on(me, &arrays.field, &arrays.coefficients, target)
    }
}

impl Loops {
    /// Runs the plain loop; returns `work` with the result, or with its first rows.
    ///
    /// # Errors
    /// As for [`Reference::run`], [`Reference::run_top`] and [`RedBlack::run`]. The blocks of a
    /// loop over the first rows have no effect.
    pub(crate) fn run<T: InBlocks>(
        self,
        kernel: &AnyKernel,
        arrays: &Arrays<T>,
        work: Matrix<T>,
    ) -> WaveResult<Matrix<T>> {
        let Loops { iterations, red_black, memory, top } = self;
        let (field, coefficients) = (&*arrays.field, &arrays.coefficients[..]);
        let reference = Reference { kernel, field, coefficients, iterations };
        match (top, red_black) {
            (Some(rows), _) => reference.run_top_dynamic(work, rows, memory),
            (None, None) => reference.run_dynamic(work, memory),
            (None, Some(grid)) => {
                RedBlack { kernel, field, coefficients, iterations, grid }.run_dynamic(work, memory)
            }
        }
    }
}
