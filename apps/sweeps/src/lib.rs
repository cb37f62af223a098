//! Kernels that are known by name or described by a text, behind one type, ready to run.
//!
//! # Contract
//! A [`AnySweep`] hides the type of a kernel and its number of coefficients from the caller; each
//! of its few methods is called once per run. All code that depends on the kernel type is compiled
//! in this crate, so a change of the command does not compile it again.

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
    Described, Error as WaveError, PointKernel, Result as WaveResult, Runner, Stencil, Sweep,
    SweepReport,
    kernels::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor},
    lanes::{Lanes, Real},
    monitor::Monitor,
    plan::SweepPlan,
    reference::Reference,
    target::{Pending, Resumption, Taken, Target},
};

/// The matrices of a sweep.
#[derive(Clone, Debug)]
pub struct Arrays<T: Real> {
    /// The matrix that is updated.
    pub field: Arc<Matrix<T>>,
    /// The coefficients, in the order of the kernel.
    pub coefficients: Vec<Arc<Matrix<T>>>,
}

impl<T: Real> Arrays<T> {
    /// Returns all matrices, the field first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Matrix<T>>> {
        std::iter::once(&self.field).chain(&self.coefficients)
    }
}

/// The settings of a sweep, without its kernel and arrays.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The greatest number of iterations.
    pub iterations: u64,
    /// The tolerance: the sweep stops when no point changes by more.
    pub until: Option<f64>,
    /// Whether the sweep stops exactly at the iteration that reaches the tolerance.
    pub exact_stop: bool,
    /// The threads that run the sweep.
    pub runner: Runner,
    /// The number of iterations in one pass.
    pub depth: Option<u64>,
    /// The vectors to compute with.
    pub lanes: Lanes,
    /// The memory bound, in bytes.
    pub memory: u64,
    /// The progress of the sweep, and the means to cancel it.
    pub monitor: Arc<Monitor>,
    /// The settings that only a sweep in blocks has.
    pub blocks: BlockOptions,
}

/// The settings that only a sweep in blocks has.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockOptions {
    /// The order in which blocks are updated.
    pub order: Order,
    /// The size of a block; the best size if not given.
    pub size: Option<Block>,
    /// The speed of the disk, if it is known.
    pub disk: Option<Disk>,
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
    pub fn identity<T: Real>(&self, arrays: &Arrays<T>, target: &Target) -> WaveResult<Identity> {
        self.sweep(()).identity(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`Sweep::taken`].
    ///
    /// # Errors
    /// As for [`Sweep::taken`].
    pub fn taken<T: Real>(&self, arrays: &Arrays<T>, target: &Target) -> WaveResult<Option<Taken>> {
        self.sweep(()).taken(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`BlockedSweep::resumption`].
    ///
    /// # Errors
    /// As for [`BlockedSweep::resumption`].
    pub fn resumption<T: Real>(
        &self,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> Result<Resumption, BlocksError> {
        self.in_blocks(()).resumption(&arrays.field, &arrays.coefficients, target)
    }
}

/// The settings of the plain loop.
#[derive(Clone, Copy, Debug)]
pub struct Loops {
    /// The number of iterations over all points.
    pub iterations: u64,
    /// The blocks, if the loop is that of the order max-parallel.
    pub red_black: Option<Grid>,
    /// The approximate size of the buffers, in bytes.
    pub memory: u64,
    /// The number of first rows to compute; all rows if not given.
    pub top: Option<usize>,
}

/// A kernel, ready to run over matrices of `T`.
pub trait AnySweep<T: Real>: Send + Sync {
    /// Returns the neighbours that the kernel reads, which determine the points that are updated.
    fn stencil(&self) -> Stencil;

    /// See [`Sweep::plan`].
    ///
    /// # Errors
    /// As for [`Sweep::plan`].
    fn plan(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> WaveResult<SweepPlan>;

    /// See [`Sweep::run`].
    ///
    /// # Errors
    /// As for [`Sweep::run`].
    fn run(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> WaveResult<(Matrix<T>, SweepReport)>;

    /// See [`BlockedSweep::plan`].
    ///
    /// # Errors
    /// As for [`BlockedSweep::plan`].
    fn plan_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<BlockPlan, BlocksError>;

    /// See [`BlockedSweep::run`].
    ///
    /// # Errors
    /// As for [`BlockedSweep::run`].
    fn run_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>), BlocksError>;

    /// See [`Sweep::run_to`].
    ///
    /// # Errors
    /// As for [`Sweep::run_to`].
    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)>;

    /// See [`Sweep::run_on`].
    ///
    /// # Errors
    /// As for [`Sweep::run_on`].
    fn run_on(
        &self,
        me: &mut Member,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<SweepReport>;

    /// Runs the plain loop; returns `work` with the result, or with its first rows.
    ///
    /// # Errors
    /// As for [`Reference::run`], [`Reference::run_top`] and [`RedBlack::run`]. The blocks of a
    /// loop over the first rows have no effect.
    fn reference(&self, loops: Loops, arrays: &Arrays<T>, work: Matrix<T>)
    -> WaveResult<Matrix<T>>;
}

/// A kernel that runs over matrices of any element type.
pub trait RunsAll: AnySweep<f64> + AnySweep<f32> {}

impl<R: AnySweep<f64> + AnySweep<f32>> RunsAll for R {}

/// Returns the kernel of Livermore loop 23.
#[must_use]
pub fn lk23() -> Arc<dyn RunsAll> {
    Arc::new(Point(Lk23))
}

/// Returns the over-relaxation kernel for the Poisson equation, with a right-hand side if `with_f`.
#[must_use]
pub fn sor(kernel: Sor, with_f: bool) -> Arc<dyn RunsAll> {
    poisson(kernel, with_f)
}

/// Returns the over-relaxation kernel on nine points, with a right-hand side if `with_f`.
#[must_use]
pub fn nine_point(kernel: NinePoint, with_f: bool) -> Arc<dyn RunsAll> {
    poisson(kernel, with_f)
}

/// Returns the Gauss-Seidel kernel for any five-point system.
#[must_use]
pub fn gauss_seidel() -> Arc<dyn RunsAll> {
    Arc::new(Point(GaussSeidelVariable))
}

/// Returns the kernel that computes the best alignment of two sequences.
#[must_use]
pub fn alignment(kernel: Alignment) -> Arc<dyn RunsAll> {
    Arc::new(Point(kernel))
}

/// Returns the kernel that a text describes.
#[must_use]
pub fn described(kernel: Described) -> Arc<dyn RunsAll> {
    Arc::new(Text(kernel))
}

fn poisson<K>(kernel: K, with_f: bool) -> Arc<dyn RunsAll>
where
    K: PointKernel<0> + PointKernel<1> + Copy + 'static,
{
    if with_f { Arc::new(Point::<_, 1>(kernel)) } else { Arc::new(Point::<_, 0>(kernel)) }
}

/// A kernel of `N` coefficients.
struct Point<K, const N: usize>(K);

/// Returns the coefficients as an array; fails if their number is not the one that the kernel
/// takes.
fn counted<T: Real, const N: usize>(arrays: &Arrays<T>) -> WaveResult<[Arc<Matrix<T>>; N]> {
    let all = arrays.coefficients.clone();
    all.try_into().map_err(|all: Vec<_>| WaveError::Coefficients { expected: N, given: all.len() })
}

impl<T: InBlocks, K: PointKernel<N> + Copy, const N: usize> AnySweep<T> for Point<K, N> {
    fn stencil(&self) -> Stencil {
        K::STENCIL
    }

    fn plan(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> WaveResult<SweepPlan> {
        how.sweep(self.0).plan(&arrays.field, &counted(arrays)?, result)
    }

    fn run(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> WaveResult<(Matrix<T>, SweepReport)> {
        how.sweep(self.0).run(&arrays.field, &counted(arrays)?, result)
    }

    fn plan_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<BlockPlan, BlocksError> {
        how.in_blocks(self.0).plan(&arrays.field, &counted(arrays)?, result)
    }

    fn run_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>), BlocksError> {
        how.in_blocks(self.0).run(&arrays.field, &counted(arrays)?, result)
    }

    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)> {
        how.sweep(self.0).run_to(&arrays.field, &counted(arrays)?, target)
    }

    fn run_on(
        &self,
        me: &mut Member,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<SweepReport> {
        how.sweep(self.0).run_on(me, &arrays.field, &counted(arrays)?, target)
    }

    fn reference(
        &self,
        loops: Loops,
        arrays: &Arrays<T>,
        work: Matrix<T>,
    ) -> WaveResult<Matrix<T>> {
        let Loops { iterations, red_black, memory, top } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
        let reference = Reference { kernel, field, coefficients, iterations };
        match (top, red_black) {
            (Some(rows), _) => reference.run_top::<N>(work, rows, memory),
            (None, None) => reference.run::<N>(work, memory),
            (None, Some(grid)) => {
                RedBlack { kernel, field, coefficients, iterations, grid }.run::<N>(work, memory)
            }
        }
    }
}

/// A kernel that a text describes.
struct Text(Described);

impl<T: InBlocks> AnySweep<T> for Text {
    fn stencil(&self) -> Stencil {
        self.0.stencil()
    }

    fn plan(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> WaveResult<SweepPlan> {
        how.sweep(self.0.clone()).plan_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn run(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> WaveResult<(Matrix<T>, SweepReport)> {
        how.sweep(self.0.clone()).run_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn plan_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> Result<BlockPlan, BlocksError> {
        how.in_blocks(self.0.clone()).plan_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn run_in_blocks(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> Result<(Matrix<T>, SweepReport<BlockPlan>), BlocksError> {
        how.in_blocks(self.0.clone()).run_dynamic(&arrays.field, &arrays.coefficients, result)
    }

    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)> {
        how.sweep(self.0.clone()).run_dynamic_to(&arrays.field, &arrays.coefficients, target)
    }

    fn run_on(
        &self,
        me: &mut Member,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<SweepReport> {
        let sweep = how.sweep(self.0.clone());
        sweep.run_dynamic_on(me, &arrays.field, &arrays.coefficients, target)
    }

    fn reference(
        &self,
        loops: Loops,
        arrays: &Arrays<T>,
        work: Matrix<T>,
    ) -> WaveResult<Matrix<T>> {
        let Loops { iterations, red_black, memory, top } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
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
