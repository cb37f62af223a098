//! A sweep: what to run, and how.

mod blocks;
mod dynamic;

use std::sync::Arc;
use std::time::Duration;

pub use syncline_overlay::Runner;
use syncline_store::probe::Disk;
use syncline_store::{
    Block, Matrix, convert,
    generation::{Identity, Made},
};

use crate::block::{Blockwise, Points};
use crate::dynamic::Kernel;
use crate::kernel::Typed;
use crate::lanes::{Lanes, Real};
use crate::plan::{BlockPlan, Question};
use crate::streamed::{self, Arrays, Pending, Resumption, StreamPlan, Taken, Target};
use crate::{Error, PointKernel, Result, blocked, monitor::Monitor};

/// The order in which blocks are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Diagonal by diagonal, the next iteration following closely: the bits of the plain double
    /// loop.
    #[default]
    Wave,
    /// Red-black by blocks: half of all blocks can run at once from the start. **Other numbers**
    /// than the plain double loop's, with the same fixed point.
    MaxParallel,
    /// As `Wave` within an iteration, but the next begins only when all of one has ended. The same
    /// bits.
    Barrier,
}

/// How a sweep goes over the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// Streamed where the order is the wave's, all matrices are row-major, and nothing was said of
    /// blocks or of a thread per block; blocked elsewhere.
    #[default]
    Auto,
    /// Block by block, any layout and order: all data are read once per iteration.
    Blocked,
    /// Many iterations in one pass over the rows: all data are read once per pass.
    Streamed,
}

/// What a sweep will do with the memory that it is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SweepPlan {
    /// In blocks.
    Blocked(BlockPlan),
    /// Streamed.
    Streamed(StreamPlan),
}

impl SweepPlan {
    /// The plan in blocks, if it is one.
    #[must_use]
    pub const fn blocked(&self) -> Option<&BlockPlan> {
        match self {
            SweepPlan::Blocked(plan) => Some(plan),
            SweepPlan::Streamed(_) => None,
        }
    }

    /// The streamed plan, if it is one.
    #[must_use]
    pub const fn streamed(&self) -> Option<&StreamPlan> {
        match self {
            SweepPlan::Blocked(_) => None,
            SweepPlan::Streamed(plan) => Some(plan),
        }
    }
}

/// A sweep: a kernel, how often, and in what way.
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
    settings: Settings,
}

/// All of a sweep but its kernel.
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
    disk: Option<Disk>,
}

/// Where the time of a streamed sweep went, of all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// Waiting for reads.
    pub read: Duration,
    /// Waiting for writes.
    pub write: Duration,
    /// Checksums of what an earlier pass had written.
    pub check: Duration,
    /// Bringing rows into the form of vectors, and back.
    pub pack: Duration,
    /// Updating points.
    pub update: Duration,
    /// What the computing threads did not compute: waiting for data and for one another.
    pub wait: Duration,
}

/// What a sweep did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Iterations done, by every point.
    pub iterations: u64,
    /// With a convergence test: the greatest change of a point in each iteration; where earlier
    /// runs did some, in as many of the last as are known.
    pub residuals: Vec<f64>,
    /// With a convergence test: the first iteration, from 0, in which no point changed by more.
    pub converged: Option<u64>,
    /// Bytes of files read (streamed), or mapped for reading, as in the papers' model (blocked).
    pub bytes_read: u64,
    /// Bytes of files written, or mapped for writing.
    pub bytes_written: u64,
    /// Threads that computed at once, at most.
    pub processors: u64,
    /// Blocks that were under way at once, at most; out of core, some of them only being read.
    pub workers: u64,
    /// Passes over the data; in blocks, one per iteration.
    pub passes: u64,
    /// Iterations that an earlier run had done.
    pub resumed: u64,
    /// Where the time went, if streamed.
    pub times: Option<Times>,
    /// How the memory was used.
    pub plan: SweepPlan,
}

impl SweepReport {
    /// What a result of this sweep is [marked](syncline_store::generation::ResultMark) with, where `tolerance` was
    /// that of [`until`](Sweep::until).
    #[must_use]
    pub fn made(&self, tolerance: Option<f64>) -> Made {
        let Self { iterations, converged, .. } = *self;
        Made { iterations, residuals: self.residuals.clone(), tolerance, converged }
    }
}

impl Settings {
    /// How many threads are to compute at once.
    pub(crate) fn processors(&self) -> u64 {
        match self.runner {
            Runner::Pool { workers, .. }
            | Runner::Queues { workers, .. }
            | Runner::Static { workers } => workers.max(1) as u64,
            _ => std::thread::available_parallelism().map_or(1, usize::from) as u64,
        }
    }

    /// Whether something was said that only blocks have.
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

    pub(crate) fn plan<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<SweepPlan> {
        if !streamed::streamable(self, arrays, Some(result)) {
            let points = Points::new(kernel, self.lanes)?;
            return Ok(SweepPlan::Blocked(self.plan_in_blocks(&points, arrays, result)?));
        }
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(result))?;
        Ok(SweepPlan::Streamed(streamed::plan_into(self, kernel, arrays, result)?))
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

    pub(crate) fn run<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: Matrix<E>,
    ) -> Result<(Matrix<E>, SweepReport)> {
        if !streamed::streamable(self, arrays, Some(&result)) {
            return self.run_in_blocks(&Points::new(kernel, self.lanes)?, arrays, result);
        }
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(&result))?;
        let versions = arrays.versions()?;
        let done = streamed::into_matrix(self, kernel, arrays, result)?;
        arrays.check_versions(&versions)?;
        Ok(done)
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

    /// No iteration.
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
            times: None,
            plan: SweepPlan::Blocked(plan),
        };
        Ok((result, report))
    }

    pub(crate) fn run_to<E: Real>(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        target: &Target,
    ) -> Result<(Pending, SweepReport)> {
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(None)?;
        if !streamed::streamable(self, arrays, None) {
            let why =
                "only a streamed sweep can go on after a crash; give this one a result, by `run`";
            return Err(Error::NotStreamed {
                name: "a sweep in blocks".to_owned(),
                why: why.to_owned(),
            });
        }
        streamed::into_target(self, kernel, arrays, target)
    }
}

impl<K> Sweep<K> {
    /// One iteration of `kernel` in wave order, on all processors, with all the memory there is.
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

    /// How many iterations; with [`until`](Sweep::until), at most. None is allowed: the result is
    /// the input.
    #[must_use]
    pub fn iterations(self, iterations: u64) -> Self {
        self.with(|s| s.iterations = iterations)
    }

    /// Ends the sweep when no point changes by more than `tolerance` in an iteration.
    ///
    /// Streamed, it is known at the end of a pass, so the sweep goes on to that: at most
    /// [`depth`](Sweep::depth) less one iterations too far. In blocks, with the orders that chain
    /// iterations, blocks are ahead of the last one when it is known; all stop at one common
    /// iteration, at most as many later as there are blocks between two corners (twice as many with
    /// more than 1024 blocks). With [`Order::Barrier`] the stop is exact.
    #[must_use]
    pub fn until(self, tolerance: f64) -> Self {
        self.with(|s| s.tolerance = Some(tolerance))
    }

    /// Whether a streamed sweep that has converged runs its last pass again to stop at the very
    /// iteration.
    #[must_use]
    pub fn exact_stop(self, exact: bool) -> Self {
        self.with(|s| s.exact_stop = exact)
    }

    /// How the sweep goes over the data.
    #[must_use]
    pub fn executor(self, executor: Executor) -> Self {
        self.with(|s| s.executor = executor)
    }

    /// How many iterations a streamed sweep does in one pass, at most; at least 1. Without it, what
    /// suits memory, cache and disk.
    #[must_use]
    pub fn depth(self, depth: u64) -> Self {
        self.with(|s| s.depth = Some(depth.max(1)))
    }

    /// The vectors to compute with. Without it, [the best](Lanes::best) of the machine. The result
    /// is the same.
    #[must_use]
    pub fn lanes(self, lanes: Lanes) -> Self {
        self.with(|s| s.lanes = lanes)
    }

    /// The size of the blocks; implies [`Executor::Blocked`]. Without it, that of the layout, or
    /// one that suits the memory.
    #[must_use]
    pub fn block(self, block: Block) -> Self {
        self.with(|s| s.block = Some(block))
    }

    /// What the disk does, which the data are on. If they are row-major, do not fit the memory, and
    /// no block was given, a [`BlockModel`](crate::plan::BlockModel) then chooses the blocks; without it
    /// they are bands that suit the memory.
    #[must_use]
    pub fn disk(self, disk: Disk) -> Self {
        self.with(|s| s.disk = Some(disk))
    }

    /// The order of the blocks; others than the wave imply [`Executor::Blocked`].
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        self.with(|s| s.order = order)
    }

    /// The threads that compute: a pool, or (in blocks) a thread per block. Out of core there are
    /// more threads, if the memory allows, that read while others compute.
    #[must_use]
    pub fn runner(self, runner: Runner) -> Self {
        self.with(|s| s.runner = runner)
    }

    /// The most bytes of files and buffers that the sweep holds at once. Matrices in memory do not
    /// count, nor do the tasks of a sweep in blocks: about 2.5 KiB per block.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        self.with(|s| s.memory = bytes)
    }

    /// Shows how far the sweep is, and can end it.
    #[must_use]
    pub fn monitor(self, monitor: Arc<Monitor>) -> Self {
        self.with(|s| s.monitor = monitor)
    }

    /// What [`run`](Sweep::run) will do with the memory, without doing it.
    ///
    /// # Errors
    /// [`Error::Memory`] or [`Error::StreamMemory`] when not even the least fits, and whatever is
    /// wrong with the matrices.
    pub fn plan<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: &Matrix<T>,
    ) -> Result<SweepPlan>
    where
        K: PointKernel<N>,
    {
        self.settings.plan(&Typed(&self.kernel), &Arrays { field, coefficients }, result)
    }

    /// Runs the sweep from `field` into `result`, which is given back.
    ///
    /// The field and the coefficients are only read. Matrices may be on file or in memory and in
    /// any layout, but that coefficients are not framed; those with blocks must have the same.
    /// Streamed, several passes update the result in place. The result is not to be used after an
    /// error.
    ///
    /// # Errors
    /// See [`Error`]; a kernel that panics is one, and an input file that was written to meanwhile.
    /// [`Error::Undeclared`] for a kernel that reads a neighbour that its stencil does not name.
    /// [`Error::ExactStop`] if an exact stop was asked for, the result is on file, and there are
    /// several passes: then only [`run_to`](Sweep::run_to) can go back.
    pub fn run<T: Real, const N: usize>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>; N],
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport)>
    where
        K: PointKernel<N>,
    {
        self.settings.run(&Typed(&self.kernel), &Arrays { field, coefficients }, result)
    }

    /// What makes this sweep the same computation as another that is described in the same way,
    /// whatever its number of iterations and its tolerance: what a result into `target` would be
    /// [marked](syncline_store::generation::ResultMark) with. The checksums of inputs on file are not in it.
    ///
    /// # Errors
    /// When an input cannot be looked at, or is another file by now.
    pub fn identity<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Identity> {
        streamed::identity(&Arrays { field, coefficients }, target)
    }

    /// What has the name of `target` already, if anything has, and whether it is a result that this
    /// sweep could go on from. Inputs that were moved or touched are not read for it: those of the
    /// same length are taken for the same.
    ///
    /// # Errors
    /// As [`identity`](Sweep::identity), and when what is there cannot be looked at.
    pub fn taken<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Option<Taken>> {
        streamed::taken(&self.settings, &Arrays { field, coefficients }, target)
    }

    /// Where a sweep in blocks begins whose result is to get the name of `target`: anew, after the
    /// result that has it, or not at all. [`run_to`](Sweep::run_to) does this by itself.
    ///
    /// # Errors
    /// Those of [`run_to`](Sweep::run_to) about what is there; [`Error::Leftovers`] also when a
    /// streamed run was interrupted, from which only a streamed one goes on.
    pub fn resumption<T: Real>(
        &self,
        field: &Arc<Matrix<T>>,
        coefficients: &[Arc<Matrix<T>>],
        target: &Target,
    ) -> Result<Resumption> {
        streamed::resumption(&self.settings, &Arrays { field, coefficients }, target)
    }

    /// Runs the sweep from `field` into a file that is whole or not there, and from which a later
    /// run can go on if this one is killed between two passes: see [`Target`].
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Taken`] when the name is taken, [`Error::Leftovers`] when there is
    /// something of an interrupted run, and the target does not say what to do with it, or says
    /// [`Leftovers::Resume`](crate::streamed::Leftovers) and it is of another computation;
    /// [`Error::NotStreamed`] for what only blocks can do. What an earlier pass has written stays.
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
    /// let (result, report) = sweep.run_to(&field, &[], &Target::npy(&path).describe("kernel", "gauss-seidel"))?;
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
        self.settings.run_to(&Typed(&self.kernel), &Arrays { field, coefficients }, target)
    }
}
