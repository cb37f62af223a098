//! A sweep: what to run, and how.

use std::sync::Arc;

pub use syncline_overlay::Runner;
use syncline_store::{Block, Matrix, convert};

use crate::blocked;
use crate::plan::{Plan, Question};
use crate::{Error, Monitor, PointKernel, Result};

/// The order in which blocks are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Diagonal by diagonal, the next iteration following closely: the bits of the plain double loop.
    #[default]
    Wave,
    /// Red-black by blocks: half of all blocks can run at once from the start. **Other numbers** than
    /// the plain double loop's, with the same fixed point.
    MaxParallel,
    /// As `Wave` within an iteration, but the next begins only when all of one has ended. The same bits.
    Barrier,
}

/// A sweep: a kernel, how often, and in what way.
///
/// ```
/// use std::sync::Arc;
/// use syncline_store::{Block, Layout, Matrix, Shape};
/// use syncline_wave::{Lk23, Runner, Sweep};
///
/// let shape = Shape::new(100, 100);
/// let field = Matrix::from_vec(shape, (0..10_000).map(f64::from).collect())?;
/// let coefficient = Arc::new(Matrix::from_vec(shape, vec![0.2; 10_000])?);
/// let coefficients = std::array::from_fn(|_| Arc::clone(&coefficient));
/// let result = Matrix::zeros(shape, Layout::RowMajor)?;
/// let sweep = Sweep::new(Lk23).iterations(5).block(Block::new(32, 32)).runner(Runner::pool(2));
/// let (result, report) = sweep.run(&Arc::new(field), &coefficients, result)?;
/// assert_eq!((result.shape(), report.iterations), (shape, 5));
/// # Ok::<(), syncline_wave::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep<K> {
    pub(crate) kernel: K,
    pub(crate) iterations: u64,
    pub(crate) tolerance: Option<f64>,
    pub(crate) order: Order,
    pub(crate) runner: Runner,
    pub(crate) monitor: Arc<Monitor>,
    block: Option<Block>,
    memory: u64,
}

/// What a sweep did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Iterations done, by every block.
    pub iterations: u64,
    /// With a convergence test: the greatest change of a point in each iteration.
    pub residuals: Vec<f64>,
    /// With a convergence test: the first iteration, from 0, in which no point changed by more.
    pub converged: Option<u64>,
    /// Bytes of files mapped for reading, as in the papers' model; the page cache may have had them.
    pub bytes_read: u64,
    /// Bytes of files mapped for writing.
    pub bytes_written: u64,
    /// Blocks that were computed at once, at most.
    pub processors: u64,
    /// Blocks that were under way at once, at most; out of core, some of them only being read.
    pub workers: u64,
    /// How the memory was used.
    pub plan: Plan,
}

impl<K> Sweep<K> {
    /// One iteration of `kernel` in wave order, on all processors, with all the memory there is.
    pub fn new(kernel: K) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Sweep {
            kernel,
            iterations: 1,
            tolerance: None,
            order: Order::Wave,
            runner: Runner::pool(workers),
            monitor: Arc::default(),
            block: None,
            memory: u64::MAX,
        }
    }

    /// How many iterations; with [`until`](Sweep::until), at most. None is allowed: the result is the input.
    #[must_use]
    pub fn iterations(self, iterations: u64) -> Self {
        Sweep { iterations, ..self }
    }

    /// Ends the sweep when no point changes by more than `tolerance` in an iteration.
    ///
    /// With the orders that chain iterations, blocks are ahead of the last one when that is known; all
    /// stop at one common iteration, at most as many later as there are blocks between two corners (twice
    /// as many with more than 1024 blocks). With [`Order::Barrier`] the stop is exact.
    #[must_use]
    pub fn until(self, tolerance: f64) -> Self {
        Sweep { tolerance: Some(tolerance), ..self }
    }

    /// The size of the blocks. Without it, that of the layout, or one that suits the memory.
    #[must_use]
    pub fn block(self, block: Block) -> Self {
        Sweep { block: Some(block), ..self }
    }

    /// The order of the blocks.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Sweep { order, ..self }
    }

    /// Who runs the blocks: a pool, or a thread per block. Out of core a pool gets as many workers again,
    /// if the memory allows, that read blocks in while the others compute.
    #[must_use]
    pub fn runner(self, runner: Runner) -> Self {
        Sweep { runner, ..self }
    }

    /// The most bytes of files and buffers that the sweep holds at once. Matrices in memory do not count, nor
    /// do the tasks: about 2.5 KiB per block.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Sweep { memory: bytes, ..self }
    }

    /// Shows how far the sweep is, and can end it.
    #[must_use]
    pub fn monitor(self, monitor: Arc<Monitor>) -> Self {
        Sweep { monitor, ..self }
    }

    /// How many blocks are to be computed at once.
    pub(crate) fn processors(&self) -> u64 {
        match self.runner {
            Runner::Pool { workers, .. } => workers.max(1) as u64,
            _ => std::thread::available_parallelism().map_or(1, usize::from) as u64,
        }
    }

    /// What [`run`](Sweep::run) will do with the memory, without doing it.
    ///
    /// # Errors
    /// [`Error::Memory`] when not even one block fits, and whatever is wrong with the matrices.
    pub fn plan<const N: usize>(
        &self,
        field: &Matrix,
        coefficients: &[Arc<Matrix>; N],
        result: &Matrix,
    ) -> Result<Plan> {
        let workers = self.processors();
        let coefficients = coefficients.iter().map(|m| &**m).collect();
        let Sweep { block, memory, .. } = *self;
        Question { field, coefficients, result, block, memory, workers }.answer()
    }

    /// Runs the sweep from `field` into `result`, which is given back.
    ///
    /// The field and the coefficients are only read. Matrices may be on file or in memory and in any
    /// layout, but that coefficients are not framed; those with blocks must have the same. The result is
    /// not to be used after an error.
    ///
    /// # Errors
    /// See [`Error`]; a kernel that panics is one.
    pub fn run<const N: usize>(
        &self,
        field: &Arc<Matrix>,
        coefficients: &[Arc<Matrix>; N],
        mut result: Matrix,
    ) -> Result<(Matrix, Report)>
    where
        K: PointKernel<N>,
    {
        if let Some(tolerance) = self.tolerance
            && (tolerance.is_nan() || tolerance < 0.0)
        {
            return Err(Error::Tolerance { tolerance });
        }
        let plan = self.plan(field, coefficients, &result)?;
        if self.iterations > 0 {
            return blocked::run(self, plan, field, coefficients, result);
        }
        convert(field, &mut result, self.memory.clamp(64 << 10, 64 << 20))?;
        let report = Report {
            iterations: 0,
            residuals: Vec::new(),
            converged: None,
            bytes_read: field.chunk().traffic().read,
            bytes_written: result.chunk().traffic().written,
            processors: 1,
            workers: 1,
            plan,
        };
        Ok((result, report))
    }
}
