//! A sweep: its kernel and its settings.

mod arrays;
mod blocks;
mod dynamic;
pub(crate) mod matrices;
mod team;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use arrays::check as check_arrays;
use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;
pub use syncline_overlay::Runner;
use syncline_store::probe::Disk;
use syncline_store::{
    Block, Matrix, convert,
    generation::{Identity, Made},
};

use self::matrices::{Arrays, streamable};
use crate::block::{Blockwise, Points};
use crate::block_kernel::Whole;
use crate::compiled::Executors;
use crate::lanes::{Lanes, Real};
use crate::plan::{ArrayPlan, BlockPlan, Question};
use crate::run::start::{Resumption, Taken};
use crate::run::target::{Pending, Target};
use crate::strip::plan::StreamPlan;
use crate::{Error, PointKernel, Result, blocked, monitor::Monitor};

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

/// The way in which a sweep traverses the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// Streamed if the order is [`Order::Wave`], all matrices are row-major, no block size was
    /// given, and the runner is [`Runner::Pool`]; blocked otherwise.
    #[default]
    Auto,
    /// Block by block, in any layout and order: all data are read once per iteration.
    Blocked,
    /// Many iterations in one pass over the rows: all data are read once per pass.
    Streamed,
}

/// The way in which a sweep will use the memory that it is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SweepPlan {
    /// The plan of a sweep in blocks.
    Blocked(BlockPlan),
    /// The plan of a streamed sweep.
    Streamed(StreamPlan),
    /// The plan of a sweep over arrays.
    Arrays(ArrayPlan),
}

impl SweepPlan {
    /// Returns the plan of a sweep in blocks, or `None` if the sweep is streamed.
    #[must_use]
    pub const fn blocked(&self) -> Option<&BlockPlan> {
        match self {
            SweepPlan::Blocked(plan) => Some(plan),
            SweepPlan::Streamed(_) | SweepPlan::Arrays(_) => None,
        }
    }

    /// Returns the greatest number of iterations in a pass.
    pub(crate) const fn depth(&self) -> u64 {
        match self {
            SweepPlan::Blocked(_) => 1,
            SweepPlan::Streamed(plan) => plan.depth,
            SweepPlan::Arrays(plan) => plan.depth,
        }
    }

    /// Returns the number of passes, if no convergence test ends the sweep earlier.
    pub(crate) const fn passes(&self) -> u64 {
        match self {
            SweepPlan::Blocked(_) => 1,
            SweepPlan::Streamed(plan) => plan.passes,
            SweepPlan::Arrays(plan) => plan.passes,
        }
    }

    /// Returns the number of bands in memory at once.
    pub(crate) const fn flight(&self) -> usize {
        match self {
            SweepPlan::Blocked(_) => 1,
            SweepPlan::Streamed(plan) => plan.panels,
            SweepPlan::Arrays(plan) => plan.flight,
        }
    }

    /// Returns the plan of a streamed sweep, or `None` if the sweep runs in blocks.
    #[must_use]
    pub const fn streamed(&self) -> Option<&StreamPlan> {
        match self {
            SweepPlan::Blocked(_) | SweepPlan::Arrays(_) => None,
            SweepPlan::Streamed(plan) => Some(plan),
        }
    }
}

/// A sweep: a kernel, a number of iterations, and settings.
///
/// ```
/// use std::sync::Arc;
/// use syncline_store::{Layout, Matrix, Shape};
/// use syncline_wave::{Runner, Sweep, kernels::Lk23};
///
/// let shape = Shape::new(100, 100);
/// let field = Matrix::from_vec(shape, (0..10_000).map(f64::from).collect())?;
/// let coefficient = Arc::new(Matrix::from_vec(shape, vec![0.2; 10_000])?);
/// let coefficients = std::array::from_fn(|_| Arc::clone(&coefficient));
/// let result = Matrix::zeros(shape, Layout::RowMajor)?;
/// let sweep = Sweep::new(Lk23).iterations(5).runner(Runner::pool(2));
/// let (result, report) = sweep.run(&Arc::new(field), &coefficients, result)?;
/// assert_eq!((result.shape(), report.iterations), (shape, 5));
/// # Ok::<(), syncline_wave::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep<K> {
    kernel: K,
    pub(crate) settings: Settings,
}

/// All settings of a sweep except its kernel.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) iterations: u64,
    pub(crate) tolerance: Option<f64>,
    pub(crate) exact_stop: bool,
    pub(crate) order: Order,
    pub(crate) runner: Runner,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) executor: Executor,
    pub(crate) depth: Option<u64>,
    pub(crate) lanes: Lanes,
    pub(crate) memory: u64,
    block: Option<Block>,
    pub(crate) disk: Option<Disk>,
}

/// The time that a streamed sweep spent in each activity, summed over all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// Waiting for reads.
    pub read: Duration,
    /// Waiting for writes.
    pub write: Duration,
    /// Checking the checksums of data that an earlier pass has written.
    pub check: Duration,
    /// Converting rows to vector form and back.
    pub pack: Duration,
    /// Updating points.
    pub update: Duration,
    /// The time in which the computing threads waited, for data and for one another.
    pub wait: Duration,
}

/// The results and statistics of a sweep.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// The number of iterations done, for every point.
    pub iterations: u64,
    /// With a convergence test: the largest change of a point in each iteration. If earlier runs
    /// did some of the iterations, only the last ones whose residuals are known.
    pub residuals: Vec<f64>,
    /// With a convergence test: the first iteration, from 0, in which no point changed by more than
    /// the tolerance.
    pub converged: Option<u64>,
    /// Bytes read from files (streamed), or mapped for reading, as in the papers' model (blocked).
    pub bytes_read: u64,
    /// Bytes written to files, or mapped for writing.
    pub bytes_written: u64,
    /// The maximum number of threads that computed at once.
    pub processors: u64,
    /// The maximum number of blocks in flight at once; out of core, some of them are only being
    /// read.
    pub workers: u64,
    /// The number of passes over the data; in blocks, one per iteration.
    pub passes: u64,
    /// The number of iterations that an earlier run had done.
    pub resumed: u64,
    /// On a team: the bytes of the field that members have sent to their neighbours. All bytes and
    /// times are those of all members.
    pub bytes_exchanged: u64,
    /// The time spent in each activity, if streamed.
    pub times: Option<Times>,
    /// The way in which the memory was used.
    pub plan: SweepPlan,
}

impl SweepReport {
    /// Returns the data with which a result of this sweep is
    /// [marked](syncline_store::generation::ResultMark), where `tolerance` is that of
    /// [`until`](Sweep::until).
    #[must_use]
    pub fn made(&self, tolerance: Option<f64>) -> Made {
        let Self { iterations, converged, .. } = *self;
        Made { iterations, residuals: self.residuals.clone(), tolerance, converged }
    }
}

impl Settings {
    /// Returns the number of threads that should compute at once.
    pub(crate) fn processors(&self) -> u64 {
        match self.runner {
            Runner::Pool { workers, .. }
            | Runner::Queues { workers, .. }
            | Runner::Static { workers } => workers.max(1) as u64,
            _ => std::thread::available_parallelism().map_or(1, usize::from) as u64,
        }
    }

    /// Returns whether a setting was made that only the blocked executor supports.
    pub(crate) fn asks_for_blocks(&self) -> bool {
        self.block.is_some() || !matches!(self.runner, Runner::Pool { .. })
    }

    fn check(&self, expected: usize, given: usize) -> Result<()> {
        if let Some(tolerance) = self.tolerance
            && (tolerance.is_nan() || tolerance < 0.0)
        {
            return Err(Error::Tolerance { tolerance });
        }
        if expected != given {
            return Err(Error::Coefficients { expected, given });
        }
        if !self.lanes.is_available() {
            return Err(Error::Lanes { lanes: self.lanes });
        }
        Ok(())
    }

    fn plan_in_blocks<E: Real, K: Blockwise<E>>(
        &self,
        kernel: &K,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan> {
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(result))?;
        Question {
            kernel,
            field: arrays.field,
            coefficients: arrays.coefficients.iter().map(|m| &**m).collect(),
            result,
            block: self.block,
            memory: self.memory,
            workers: self.processors(),
            iterations: self.iterations,
            disk: self.disk,
        }
        .answer()
    }

    fn run_in_blocks<E: Real, K: Blockwise<E>>(
        &self,
        kernel: &K,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<(Matrix<E>, SweepReport)> {
        let plan = self.plan_in_blocks(kernel, arrays, &result)?;
        let versions = arrays.versions()?;
        let done = match self.iterations {
            0 => self.copy(plan, arrays, result)?,
            _ => blocked::run(self, kernel, plan, arrays, result)?,
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
    ) -> Result<(Matrix<E>, SweepReport)> {
        convert(arrays.field, &mut result, self.memory.clamp(64 << 10, 64 << 20))?;
        let report = SweepReport {
            iterations: 0,
            residuals: Vec::new(),
            converged: None,
            bytes_read: arrays.field.chunk().traffic().read,
            bytes_written: result.chunk().traffic().written,
            processors: 1,
            workers: 1,
            passes: 0,
            resumed: 0,
            bytes_exchanged: 0,
            times: None,
            plan: SweepPlan::Blocked(plan),
        };
        Ok((result, report))
    }
}

impl<E: Real> Executors<E> for Settings {
    fn plan(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<SweepPlan> {
        if !streamable(self, arrays, Some(result)) {
            let points = Points::new(kernel, self.lanes)?;
            return Ok(SweepPlan::Blocked(self.plan_in_blocks(&points, arrays, result)?));
        }
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(result))?;
        Ok(SweepPlan::Streamed(matrices::plan(self, kernel, arrays, result)?))
    }

    fn run(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<(Matrix<E>, SweepReport)> {
        if !streamable(self, arrays, Some(&result)) {
            return self.run_in_blocks(&Points::new(&*kernel, self.lanes)?, arrays, result);
        }
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(&result))?;
        let versions = arrays.versions()?;
        let done = matrices::into_matrix(self, kernel.into(), arrays, result)?;
        arrays.check_versions(&versions)?;
        Ok(done)
    }

    fn plan_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<BlockPlan> {
        self.plan_in_blocks(kernel, arrays, result)
    }

    fn run_blocks(
        &self,
        kernel: &Whole<'_, E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<(Matrix<E>, SweepReport)> {
        self.run_in_blocks(kernel, arrays, result)
    }

    fn run_to(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        target: &Target,
    ) -> Result<(Pending, SweepReport)> {
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(None)?;
        if !streamable(self, arrays, None) {
            let why = "only a streamed sweep can resume after a crash; run this one with `run`";
            return Err(Error::NotStreamed {
                name: "a sweep in blocks".to_owned(),
                why: why.to_owned(),
            });
        }
        matrices::into_target(self, &kernel.into(), arrays, target)
    }

    fn run_on(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        target: &Target,
        me: &mut Member,
    ) -> Result<SweepReport> {
        let checked = self.check_for_team(&*kernel, arrays, None);
        team::run(self, &kernel.into(), arrays, target, checked, me)
    }

    fn gather_on(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
        me: &mut Member,
    ) -> Result<(Matrix<E>, SweepReport)> {
        let checked = self.check_for_team(&*kernel, arrays, Some(&result));
        team::gather(self, &kernel.into(), arrays, result, checked, me)
    }

    fn identity(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Identity> {
        matrices::identity(self, arrays, target)
    }

    fn taken(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Option<Taken>> {
        matrices::taken(self, arrays, target)
    }

    fn resumption(&self, arrays: &Arrays<'_, E>, target: &Target) -> Result<Resumption> {
        matrices::resumption(self, arrays, target)
    }
}

impl<K> Sweep<K> {
    /// Creates a sweep of one iteration of `kernel` in wave order, on all processors, without a
    /// memory limit.
    pub fn new(kernel: K) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            iterations: 1,
            tolerance: None,
            exact_stop: false,
            order: Order::Wave,
            runner: Runner::pool(workers),
            monitor: Arc::default(),
            executor: Executor::Auto,
            depth: None,
            lanes: Lanes::best(),
            memory: u64::MAX,
            block: None,
            disk: None,
        };
        Sweep { kernel, settings }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the number of iterations; with [`until`](Sweep::until), the maximum number. With 0
    /// iterations the result is the input.
    #[must_use]
    pub fn iterations(self, iterations: u64) -> Self {
        self.with(|s| s.iterations = iterations)
    }

    /// Ends the sweep when no point changes by more than `tolerance` in an iteration.
    ///
    /// A point that is infinite, or NaN, before and after an iteration has not changed in it. One
    /// that becomes NaN, or ceases to be NaN, changes by NaN, which is more than any tolerance.
    ///
    /// A streamed sweep detects convergence at the end of a pass, so it runs at most
    /// [`depth`](Sweep::depth) - 1 iterations too many. In blocks, with the orders that chain
    /// iterations, some blocks are ahead of the last one when convergence is detected; all blocks
    /// stop at a common iteration, which is later by at most the number of blocks between two
    /// corners (twice as many with more than 1024 blocks). With [`Order::Barrier`] the stop is
    /// exact.
    #[must_use]
    pub fn until(self, tolerance: f64) -> Self {
        self.with(|s| s.tolerance = Some(tolerance))
    }

    /// Sets whether a streamed sweep that has converged runs its last pass again, so that it stops
    /// at exactly the iteration in which it converged.
    #[must_use]
    pub fn exact_stop(self, exact: bool) -> Self {
        self.with(|s| s.exact_stop = exact)
    }

    /// Sets the way in which the sweep traverses the data.
    #[must_use]
    pub fn executor(self, executor: Executor) -> Self {
        self.with(|s| s.executor = executor)
    }

    /// Sets the maximum number of iterations that a streamed sweep does in one pass; at least 1.
    /// The default suits memory, cache and disk.
    #[must_use]
    pub fn depth(self, depth: u64) -> Self {
        self.with(|s| s.depth = Some(depth.max(1)))
    }

    /// Sets the vector type to compute with. The default is the machine's [best](Lanes::best). The
    /// result does not depend on it.
    #[must_use]
    pub fn lanes(self, lanes: Lanes) -> Self {
        self.with(|s| s.lanes = lanes)
    }

    /// Sets the size of the blocks; implies [`Executor::Blocked`]. The default is the block of the
    /// layout, or one that suits the memory.
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

    /// Sets the order of the blocks; any order other than [`Order::Wave`] implies
    /// [`Executor::Blocked`].
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        self.with(|s| s.order = order)
    }

    /// Sets the runner, which provides the threads that compute; any runner other than
    /// [`Runner::Pool`], such as a thread per block, implies [`Executor::Blocked`]. Out of core, if
    /// the memory allows, further threads read while these compute.
    #[must_use]
    pub fn runner(self, runner: Runner) -> Self {
        self.with(|s| s.runner = runner)
    }

    /// Sets the maximum number of bytes of files and buffers that the sweep holds at once. It does
    /// not include matrices in memory, nor the tasks of a sweep in blocks, which take about 2.5 KiB
    /// per block.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        self.with(|s| s.memory = bytes)
    }

    /// Sets the monitor, which reports the progress of the sweep and can end it.
    #[must_use]
    pub fn monitor(self, monitor: Arc<Monitor>) -> Self {
        self.with(|s| s.monitor = monitor)
    }

    /// Returns the plan by which [`run`](Sweep::run) will use the memory, without running the
    /// sweep.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::StreamMemory`] if not even the smallest plan fits, and all
    /// errors about the matrices.
    pub fn plan<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: &Matrix<T>,
    ) -> Result<SweepPlan>
    where
        K: PointKernel<N>,
    {
        T::executors(&self.settings).plan(
            &*self.kernel.erased(),
            &Arrays { field, coefficients },
            result,
        )
    }

    /// Runs the sweep from `field` into `result`, which is given back.
    ///
    /// The field and the coefficients are only read. Matrices may be on file or in memory and in
    /// any layout, except that coefficients must not be framed; all matrices with blocks must have
    /// the same ones. A streamed sweep of several passes updates the result in place. The contents
    /// of the result are unspecified after an error.
    ///
    /// # Errors
    /// See [`Error`]; also a kernel that panics, and an input file that was written to during the
    /// sweep. [`Error::Undeclared`] for a kernel that reads a neighbour that its stencil does not
    /// name. [`Error::ExactStop`] if an exact stop was requested, the result is on file, and there
    /// are several passes: only [`run_to`](Sweep::run_to) can go back then.
    pub fn run<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)>
    where
        K: PointKernel<N>,
    {
        T::executors(&self.settings).run(
            self.kernel.erased(),
            &Arrays { field, coefficients },
            result,
        )
    }

    /// Returns the identity of the computation with which a result in `target` would be
    /// [marked](syncline_store::generation::ResultMark): two sweeps with the same identity are the
    /// same computation, whatever their number of iterations and their tolerance. The checksums of
    /// inputs on file are not included.
    ///
    /// # Errors
    /// Returns an error if an input cannot be examined, or is a different file by now.
    pub fn identity<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Identity> {
        T::executors(&self.settings).identity(&Arrays { field, coefficients }, target)
    }

    /// Returns a description of the file that already has the name of `target`, if there is one. It
    /// says whether the file is a result that this sweep could continue from. Inputs that were
    /// moved or touched are not read for this: an input of the same length is taken for the same.
    ///
    /// # Errors
    /// As [`identity`](Sweep::identity), and if the existing file cannot be examined.
    pub fn taken<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Option<Taken>> {
        T::executors(&self.settings).taken(&Arrays { field, coefficients }, target)
    }

    /// Returns the point at which a sweep in blocks begins if its result is to get the name of
    /// `target`: at the first iteration, after the result that has the name, or not at all.
    /// [`run_to`](Sweep::run_to) determines this by itself.
    ///
    /// # Errors
    /// The errors of [`run_to`](Sweep::run_to) about existing files; [`Error::Leftovers`] also if a
    /// streamed run was interrupted, which only a streamed run can resume.
    pub fn resumption<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Resumption> {
        T::executors(&self.settings).resumption(&Arrays { field, coefficients }, target)
    }

    /// Runs the sweep from `field` into a file that is either complete or absent, and that a later
    /// run can resume if this one is killed between two passes: see [`Target`].
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Taken`] if the name is taken. [`Error::Leftovers`] if an interrupted
    /// run has left files, and either the target does not say what to do with them, or it says
    /// [`Leftovers::Resume`](crate::target::Leftovers) and they belong to another computation.
    /// [`Error::NotStreamed`] for a sweep that only the blocked executor can run. Data that an
    /// earlier pass has written stays.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use syncline_store::{Matrix, Shape};
    /// use syncline_wave::{Sweep, kernels::Sor, target::Target};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("u.npy");
    /// let field = Arc::new(Matrix::from_vec(Shape::new(9, 9), vec![1.0; 81])?);
    /// let sweep = Sweep::new(Sor::gauss_seidel()).iterations(6).depth(2);
    /// let target = Target::npy(&path).describe("kernel", "gauss-seidel");
    /// let (result, report) = sweep.run_to(&field, &[], &target)?;
    /// result.commit()?;
    /// assert_eq!((report.passes, path.exists()), (3, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_to<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        target: &Target,
    ) -> Result<(Pending, SweepReport)>
    where
        K: PointKernel<N>,
    {
        T::executors(&self.settings).run_to(
            self.kernel.erased(),
            &Arrays { field, coefficients },
            target,
        )
    }
}
