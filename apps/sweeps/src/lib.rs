//! Kernels that are known by name or described in a text, ready to run: one type for all of them.
//!
//! # Contract
//! A [`AnySweep`] is a kernel of which the caller knows neither the type nor how many coefficients it takes; its few methods are
//! called once per run each. All that depends on the kernel's type is compiled here, and not with every change of the command.

use std::sync::Arc;

use syncline_store::probe::Disk;
use syncline_store::{Block, Grid, Matrix, generation::Identity};
use syncline_wave::{
    Described, Error as WaveError, Executor, Order, PointKernel, Result as WaveResult, Runner,
    Stencil, Sweep, SweepReport,
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
    /// The one that is updated.
    pub field: Arc<Matrix<T>>,
    /// The others, in the kernel's order.
    pub coefficients: Vec<Arc<Matrix<T>>>,
}

impl<T: Real> Arrays<T> {
    /// All of them, the field first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Matrix<T>>> {
        std::iter::once(&self.field).chain(&self.coefficients)
    }
}

/// All of a sweep but its kernel and arrays.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Of the sweep, at most.
    pub iterations: u64,
    /// It stops when no point changes by more.
    pub until: Option<f64>,
    /// Whether it stops at the very iteration.
    pub exact_stop: bool,
    /// Of the points.
    pub order: Order,
    /// Who works.
    pub runner: Runner,
    /// How it goes over the data.
    pub executor: Executor,
    /// Iterations in one pass.
    pub depth: Option<u64>,
    /// The vectors to compute with.
    pub lanes: Lanes,
    /// Points of a block, if not the best.
    pub block: Option<Block>,
    /// What the disk can do, if it is known.
    pub disk: Option<Disk>,
    /// Bytes at most.
    pub memory: u64,
    /// What is told on the way.
    pub monitor: Arc<Monitor>,
}

impl SweepOptions {
    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        let mut sweep = Sweep::new(kernel)
            .iterations(self.iterations)
            .exact_stop(self.exact_stop)
            .order(self.order)
            .runner(self.runner)
            .executor(self.executor)
            .lanes(self.lanes)
            .memory(self.memory)
            .monitor(Arc::clone(&self.monitor));
        if let Some(tolerance) = self.until {
            sweep = sweep.until(tolerance);
        }
        if let Some(depth) = self.depth {
            sweep = sweep.depth(depth);
        }
        if let Some(disk) = self.disk {
            sweep = sweep.disk(disk);
        }
        match self.block {
            Some(block) => sweep.block(block),
            None => sweep,
        }
    }
}

impl SweepOptions {
    /// See [`Sweep::identity`].
    ///
    /// # Errors
    /// As there.
    pub fn identity<T: Real>(&self, arrays: &Arrays<T>, target: &Target) -> WaveResult<Identity> {
        self.sweep(()).identity(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`Sweep::taken`].
    ///
    /// # Errors
    /// As there.
    pub fn taken<T: Real>(&self, arrays: &Arrays<T>, target: &Target) -> WaveResult<Option<Taken>> {
        self.sweep(()).taken(&arrays.field, &arrays.coefficients, target)
    }

    /// See [`Sweep::resumption`].
    ///
    /// # Errors
    /// As there.
    pub fn resumption<T: Real>(
        &self,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<Resumption> {
        self.sweep(()).resumption(&arrays.field, &arrays.coefficients, target)
    }
}

/// What the plain loop is to do.
#[derive(Clone, Copy, Debug)]
pub struct Loops {
    /// How often over all points.
    pub iterations: u64,
    /// Of the points.
    pub order: Order,
    /// Of the blocks.
    pub grid: Grid,
    /// Bytes of its buffers, about.
    pub memory: u64,
    /// The first rows that are wanted, if not all.
    pub top: Option<usize>,
}

/// A kernel, ready to run over matrices of `T`.
pub trait AnySweep<T: Real>: Send + Sync {
    /// The neighbours that it reads, which say what points are updated.
    fn stencil(&self) -> Stencil;

    /// See [`Sweep::plan`].
    ///
    /// # Errors
    /// As there.
    fn plan(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: &Matrix<T>,
    ) -> WaveResult<SweepPlan>;

    /// See [`Sweep::run`].
    ///
    /// # Errors
    /// As there.
    fn run(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        result: Matrix<T>,
    ) -> WaveResult<(Matrix<T>, SweepReport)>;

    /// See [`Sweep::run_to`].
    ///
    /// # Errors
    /// As there.
    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)>;

    /// The plain loop, whose result is `work`, or the first rows of it.
    ///
    /// # Errors
    /// See [`Reference::run`] and [`Reference::run_top`].
    fn reference(&self, loops: Loops, arrays: &Arrays<T>, work: Matrix<T>)
    -> WaveResult<Matrix<T>>;
}

/// A kernel for every type of elements.
pub trait RunsAll: AnySweep<f64> + AnySweep<f32> {}

impl<R: AnySweep<f64> + AnySweep<f32>> RunsAll for R {}

/// Livermore kernel 23.
#[must_use]
pub fn lk23() -> Arc<dyn RunsAll> {
    Arc::new(Point(Lk23))
}

/// Over-relaxation for the Poisson equation, with a right-hand side or without.
#[must_use]
pub fn sor(kernel: Sor, with_f: bool) -> Arc<dyn RunsAll> {
    poisson(kernel, with_f)
}

/// The same on nine points.
#[must_use]
pub fn nine_point(kernel: NinePoint, with_f: bool) -> Arc<dyn RunsAll> {
    poisson(kernel, with_f)
}

/// The Gauss-Seidel method for any five-point system.
#[must_use]
pub fn gauss_seidel() -> Arc<dyn RunsAll> {
    Arc::new(Point(GaussSeidelVariable))
}

/// The best alignment of two sequences.
#[must_use]
pub fn alignment(kernel: Alignment) -> Arc<dyn RunsAll> {
    Arc::new(Point(kernel))
}

/// What a text describes.
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

/// A kernel of so many coefficients.
struct Point<K, const N: usize>(K);

/// As many matrices as the kernel takes.
fn counted<T: Real, const N: usize>(arrays: &Arrays<T>) -> WaveResult<[Arc<Matrix<T>>; N]> {
    let all = arrays.coefficients.clone();
    all.try_into().map_err(|all: Vec<_>| WaveError::Coefficients { expected: N, given: all.len() })
}

impl<T: Real, K: PointKernel<N> + Copy, const N: usize> AnySweep<T> for Point<K, N> {
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

    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)> {
        how.sweep(self.0).run_to(&arrays.field, &counted(arrays)?, target)
    }

    fn reference(
        &self,
        loops: Loops,
        arrays: &Arrays<T>,
        work: Matrix<T>,
    ) -> WaveResult<Matrix<T>> {
        let Loops { iterations, order, grid, memory, top } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
        let reference = Reference { kernel, field, coefficients, iterations, order, grid };
        match top {
            None => reference.run::<N>(work, memory),
            Some(rows) => reference.run_top::<N>(work, rows, memory),
        }
    }
}

/// A kernel that a text describes.
struct Text(Described);

impl<T: Real> AnySweep<T> for Text {
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

    fn run_to(
        &self,
        how: &SweepOptions,
        arrays: &Arrays<T>,
        target: &Target,
    ) -> WaveResult<(Pending, SweepReport)> {
        how.sweep(self.0.clone()).run_dynamic_to(&arrays.field, &arrays.coefficients, target)
    }

    fn reference(
        &self,
        loops: Loops,
        arrays: &Arrays<T>,
        work: Matrix<T>,
    ) -> WaveResult<Matrix<T>> {
        let Loops { iterations, order, grid, memory, top } = loops;
        let (kernel, field, coefficients) = (&self.0, &*arrays.field, &arrays.coefficients[..]);
        let reference = Reference { kernel, field, coefficients, iterations, order, grid };
        match top {
            None => reference.run_dynamic(work, memory),
            Some(rows) => reference.run_top_dynamic(work, rows, memory),
        }
    }
}
