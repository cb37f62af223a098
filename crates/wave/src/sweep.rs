//! A sweep: its kernel and its settings.

mod arrays;
mod dynamic;
pub(crate) mod matrices;
mod team;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use arrays::check as check_arrays;
use syncline_fabric::Member;
use syncline_kernel::dynamic::Kernel;
pub use syncline_overlay::Runner;
use syncline_store::{
    Matrix,
    generation::{Identity, Made},
};

use self::matrices::Arrays;
use crate::compiled::Executors;
use crate::lanes::{Lanes, Real};
use crate::plan::ArrayPlan;
use crate::run::start::Taken;
use crate::run::target::{Pending, Target};
use crate::strip::plan::StreamPlan;
use crate::{Error, PointKernel, Result, monitor::Monitor};

/// What to do with data, or with settings, that passes do not take.
pub(crate) const IN_BLOCKS: &str = "run the sweep in blocks (crate syncline_blocks)";

/// The way in which a sweep will use the memory that it is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SweepPlan {
    /// The plan of a sweep whose points are rows side by side in vectors.
    Streamed(StreamPlan),
    /// The plan of a sweep over arrays.
    Arrays(ArrayPlan),
}

impl SweepPlan {
    /// Returns the greatest number of iterations in a pass.
    pub(crate) const fn depth(&self) -> u64 {
        match self {
            SweepPlan::Streamed(plan) => plan.depth,
            SweepPlan::Arrays(plan) => plan.depth,
        }
    }

    /// Returns the number of passes, if no convergence test ends the sweep earlier.
    pub(crate) const fn passes(&self) -> u64 {
        match self {
            SweepPlan::Streamed(plan) => plan.passes,
            SweepPlan::Arrays(plan) => plan.passes,
        }
    }

    /// Returns the number of bands in memory at once.
    pub(crate) const fn flight(&self) -> usize {
        match self {
            SweepPlan::Streamed(plan) => plan.panels,
            SweepPlan::Arrays(plan) => plan.flight,
        }
    }

    /// Returns the plan of a sweep over strips, or `None` if the sweep is one over arrays.
    #[must_use]
    pub const fn streamed(&self) -> Option<&StreamPlan> {
        match self {
            SweepPlan::Arrays(_) => None,
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

/// All settings of a sweep except its kernel. Sweeps in blocks use them as well, but for the depth
/// and the exact stop.
#[derive(Clone, Debug)]
pub struct Settings {
    /// See [`Sweep::iterations`].
    pub iterations: u64,
    /// See [`Sweep::until`].
    pub tolerance: Option<f64>,
    pub(crate) exact_stop: bool,
    /// See [`Sweep::runner`].
    pub runner: Runner,
    /// See [`Sweep::monitor`].
    pub monitor: Arc<Monitor>,
    pub(crate) depth: Option<u64>,
    /// See [`Sweep::lanes`].
    pub lanes: Lanes,
    /// See [`Sweep::memory`].
    pub memory: u64,
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

/// The results and statistics of a sweep, with a plan of type `P`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport<P = SweepPlan> {
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
    pub plan: P,
}

impl<P> SweepReport<P> {
    /// Returns the report of a sweep that has done nothing.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_nothing(plan: P) -> Self {
        SweepReport {
            iterations: 0,
            residuals: Vec::new(),
            converged: None,
            bytes_read: 0,
            bytes_written: 0,
            processors: 0,
            workers: 0,
            passes: 0,
            resumed: 0,
            bytes_exchanged: 0,
            times: None,
            plan,
        }
    }

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
    #[must_use]
    pub fn processors(&self) -> u64 {
        match self.runner {
            Runner::Pool { workers, .. }
            | Runner::Queues { workers, .. }
            | Runner::Static { workers } => workers.max(1) as u64,
            _ => std::thread::available_parallelism().map_or(1, usize::from) as u64,
        }
    }

    /// Checks the settings, and that the number of coefficients given is the expected one.
    ///
    /// # Errors
    /// [`Error::Tolerance`], [`Error::Coefficients`], [`Error::Lanes`].
    pub fn check(&self, expected: usize, given: usize) -> Result<()> {
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

    /// Checks that the sweep can run by passes.
    fn check_streamed(&self) -> Result<()> {
        match self.runner {
            Runner::Pool { .. } => Ok(()),
            _ => Err(Error::NotStreamed {
                name: "a sweep with this runner".to_owned(),
                why: format!("passes run on a pool; {IN_BLOCKS}"),
            }),
        }
    }
}

impl<E: Real> Executors<E> for Settings {
    fn plan(
        &self,
        kernel: &dyn Kernel<E>,
        arrays: &Arrays<'_, E>,
        result: &Matrix<E>,
    ) -> Result<SweepPlan> {
        self.check_streamed()?;
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
        self.check_streamed()?;
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(Some(&result))?;
        let versions = arrays.versions()?;
        let done = matrices::into_matrix(self, kernel.into(), arrays, result)?;
        arrays.check_versions(&versions)?;
        Ok(done)
    }

    fn run_to(
        &self,
        kernel: Box<dyn Kernel<E> + '_>,
        arrays: &Arrays<'_, E>,
        target: &Target,
    ) -> Result<(Pending, SweepReport)> {
        self.check_streamed()?;
        self.check(kernel.coefficients(), arrays.coefficients.len())?;
        kernel.check()?;
        arrays.check_shapes(None)?;
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
}

impl<K> Sweep<K> {
    /// Creates a sweep of one iteration of `kernel` on all processors, without a memory limit.
    pub fn new(kernel: K) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            iterations: 1,
            tolerance: None,
            exact_stop: false,
            runner: Runner::pool(workers),
            monitor: Arc::default(),
            depth: None,
            lanes: Lanes::best(),
            memory: u64::MAX,
        };
        Sweep { kernel, settings }
    }

    /// Returns the kernel and the settings, with which `syncline_blocks` makes a sweep in blocks.
    #[doc(hidden)]
    #[must_use]
    pub fn into_parts(self) -> (K, Settings) {
        (self.kernel, self.settings)
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
    /// Convergence is detected at the end of a pass, so the sweep runs at most
    /// [`depth`](Sweep::depth) - 1 iterations too many.
    #[must_use]
    pub fn until(self, tolerance: f64) -> Self {
        self.with(|s| s.tolerance = Some(tolerance))
    }

    /// Sets whether a sweep that has converged runs its last pass again, so that it stops
    /// at exactly the iteration in which it converged.
    #[must_use]
    pub fn exact_stop(self, exact: bool) -> Self {
        self.with(|s| s.exact_stop = exact)
    }

    /// Sets the maximum number of iterations that the sweep does in one pass; at least 1.
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

    /// Sets the runner, which provides the threads that compute: a [`Runner::Pool`]. Further
    /// threads read and write while these compute. The other runners are those of sweeps in blocks
    /// (`syncline_blocks`).
    #[must_use]
    pub fn runner(self, runner: Runner) -> Self {
        self.with(|s| s.runner = runner)
    }

    /// Sets the maximum number of bytes of files and buffers that the sweep holds at once. It does
    /// not include matrices in memory.
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
    /// [`Error::StreamMemory`] if not even the smallest plan fits, and all errors about the
    /// matrices.
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
    /// The field and the coefficients are only read. Matrices may be on file or in memory; all are
    /// row-major. A sweep of several passes updates the result in place. The contents of the result
    /// are unspecified after an error.
    ///
    /// # Errors
    /// See [`Error`]; also a kernel that panics, and an input file that was written to during the
    /// sweep. [`Error::NotStreamed`] if a matrix is not row-major, or the runner is not a pool: the
    /// crate `syncline_blocks` sweeps such data, and by such runners. [`Error::Undeclared`] for a
    /// kernel that reads a neighbour that its stencil does not name. [`Error::ExactStop`] if an
    /// exact stop was requested, the result is on file, and there are several passes: only
    /// [`run_to`](Sweep::run_to) can go back then.
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

    /// Runs the sweep from `field` into a file that is either complete or absent, and that a later
    /// run can resume if this one is killed between two passes: see [`Target`].
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Taken`] if the name is taken. [`Error::Leftovers`] if an interrupted
    /// run has left files, and either the target does not say what to do with them, or it says
    /// [`Leftovers::Resume`](crate::target::Leftovers) and they belong to another computation.
    /// [`Error::NotStreamed`] if a matrix is not row-major, or the runner is not a pool. Data that
    /// an earlier pass has written stays.
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
