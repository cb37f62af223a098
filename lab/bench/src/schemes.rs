//! The papers' older and other schemes of Livermore kernel 23 out of core: baselines for a race.
//!
//! All schemes use the product's parts: matrices, layouts and mapped tiles for the data, locations
//! and checked overlays for the order. All give the bits of the plain double loop.
//!
//! | scheme                  | data            | description                                     |
//! |-------------------------|-----------------|-------------------------------------------------|
//! | [`Scheme::Sequential`]  | row-major       | the plain double loop over mapped files         |
//! | [`Scheme::ThreeBuffer`] | any             | before the papers: load, compute, store         |
//! | [`Scheme::Ring`]        | row-major       | processors own bands of rows and pass frontiers |
//! |                         | blocked, framed | the same: the paper of 2008                     |
//! | [`Scheme::Blocks`]      | blocked, framed | a location for each block: the paper of 2010    |
//! | [`Scheme::Streamed`]    | row-major       | many iterations in one pass                     |
//!
//! `Blocks` is the executor of `syncline_blocks`, `Streamed` that of `syncline_wave`; the others
//! are in this module. The published three-buffer algorithm uses row-major data.
//!
//! # Sources
//! * E. Caron, F. Desprez, F. Suter, "Out-of-Core and Pipeline Techniques for Wavefront
//!   Algorithms", IPDPS 2005: three buffers.
//! * P.-N. Clauss, J. Gustedt, F. Suter, "Out-of-Core Wavefront Computations with Reduced
//!   Synchronization", PDP 2008: the ring, early exchange, the framed layout, wave chaining.
//! * P.-N. Clauss, J. Gustedt, "Experimenting Iterative Computations with Ordered Read-Write
//!   Locks", PDP 2010: a lock for each block.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use syncline_lab::schemes::{Arrays, Exchange, Job, Scheme};
//! use syncline_store::{Block, Layout, Matrix, Shape};
//!
//! let shape = Shape::new(40, 50);
//! let field = Arc::new(Matrix::from_vec(shape, (0..2000).map(f64::from).collect())?);
//! let coefficient = Arc::new(Matrix::from_vec(shape, vec![0.2; 2000])?);
//! let coefficients = std::array::from_fn(|_| Arc::clone(&coefficient));
//! let arrays = Arrays { field: &field, coefficients: &coefficients };
//! let job = |scheme| Job { scheme, block: Block::new(8, 8), iterations: 3, memory: 1 << 30 };
//! let ring = job(Scheme::Ring { processors: 2, exchange: Exchange::Early { waves: 2 } });
//! let (ring, _) = ring.run(&arrays, Matrix::zeros(shape, Layout::RowMajor)?)?;
//! let zeros = Matrix::zeros(shape, Layout::RowMajor)?;
//! let (sequential, _) = job(Scheme::Sequential).run(&arrays, zeros)?;
//! assert_eq!(ring.as_slice(), sequential.as_slice());
//! # Ok::<(), syncline_blocks::Error>(())
//! ```

mod block;
mod ring;
mod sequential;
mod three_buffer;
mod work;

use std::sync::Arc;

use syncline_blocks::{BlockedSweep, Error, plan::Order};
use syncline_store::{Block, Matrix, convert};
use syncline_wave::{Sweep, kernels::Lk23};

use self::work::Work;

/// The result type of the schemes.
type Result<T> = std::result::Result<T, Error>;

/// When a processor of a ring passes its first row to the processor above, which needs the old
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// The whole row before each iteration, from the files. The processor above therefore waits
    /// between iterations until the one below has ended: the pipeline is flushed. One wave at a
    /// time.
    Late,
    /// Block by block, from memory, as soon as a block is updated. Iterations follow one another
    /// without a flush.
    Early {
        /// The number of threads of a processor, each with its own iteration: the number of waves
        /// in flight in a band.
        waves: usize,
    },
}

/// A scheme of traversing the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The plain double loop over row-major data, mapped with sequential advice.
    Sequential,
    /// A ring with late exchange; each processor loads, computes and stores in three memory blocks
    /// in turn.
    ThreeBuffer {
        /// The number of processors of the ring.
        processors: usize,
    },
    /// A ring of processors, each of which owns a band of rows and traverses its blocks column by
    /// column.
    Ring {
        /// The number of processors of the ring; at most one for each row of blocks is used.
        processors: usize,
        /// How processors pass frontiers upwards.
        exchange: Exchange,
    },
    /// An ordered lock for each block: the blocked executor.
    Blocks {
        /// Whether an iteration may begin before the previous one has ended.
        chained: bool,
    },
    /// Many iterations in one pass: the streamed executor.
    Streamed,
}

/// The input of a sweep: matrices of one shape, the coefficients in the order of [`Lk23`], and none
/// of them framed.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    /// The field.
    pub field: &'a Arc<Matrix>,
    /// The coefficients.
    pub coefficients: &'a [Arc<Matrix>; 5],
}

/// A scheme and its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The scheme.
    pub scheme: Scheme,
    /// The block size; ignored by `Sequential` and `Streamed`.
    pub block: Block,
    /// The number of iterations.
    pub iterations: u64,
    /// The limit of the bytes of mapped files and buffers at any time. The sequential scheme leaves
    /// this to the system.
    pub memory: u64,
}

/// The bytes of files that a job requested: mapped, or read and written directly. Some may have
/// been in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes requested for reading.
    pub read: u64,
    /// Bytes requested for writing.
    pub written: u64,
}

impl Job {
    /// Runs the sweep from the field into `result`, and returns `result`.
    ///
    /// # Errors
    /// `FramedCoefficient` and `Memory` of [`Error`]; errors of the shapes; errors of the store
    /// when a matrix does not have the layout or blocks that the scheme needs, or cannot be read or
    /// written. After an error the result is lost; the input is unchanged.
    pub fn run(&self, arrays: &Arrays<'_>, mut result: Matrix) -> Result<(Matrix, Report)> {
        arrays.check(&result)?;
        if self.iterations == 0 {
            convert(arrays.field, &mut result, self.memory.clamp(64 << 10, 64 << 20))?;
            return Ok((result, Report::default()));
        }
        match self.scheme {
            Scheme::Blocks { chained } => {
                let order = if chained { Order::Wave } else { Order::Barrier };
                let sweep = BlockedSweep::of(self.sweep()).block(self.block).order(order);
                let (result, report) = sweep.run(arrays.field, arrays.coefficients, result)?;
                Ok((result, Report { read: report.bytes_read, written: report.bytes_written }))
            }
            Scheme::Streamed => {
                let (result, report) =
                    self.sweep().run(arrays.field, arrays.coefficients, result)?;
                Ok((result, Report { read: report.bytes_read, written: report.bytes_written }))
            }
            Scheme::Sequential => {
                counted(arrays, result, |result| sequential::run(arrays, self.iterations, result))
            }
            Scheme::Ring { processors, exchange } => counted(arrays, result, |result| {
                let work = Work::new(arrays, self.block, processors, &result)?;
                ring::run(&work, exchange, self, result)
            }),
            Scheme::ThreeBuffer { processors } => counted(arrays, result, |result| {
                let work = Work::new(arrays, self.block, processors, &result)?;
                three_buffer::run(&work, self, result)
            }),
        }
    }

    fn sweep(&self) -> Sweep<Lk23> {
        Sweep::new(Lk23).iterations(self.iterations).memory(self.memory)
    }
}

/// Runs a scheme, and counts the bytes that it maps.
fn counted(
    arrays: &Arrays<'_>,
    result: Matrix,
    run: impl FnOnce(Matrix) -> Result<Matrix>,
) -> Result<(Matrix, Report)> {
    let chunk = Arc::clone(result.chunk());
    let traffic = || {
        let inputs = arrays.all().map(|m| m.chunk().traffic());
        inputs.chain([chunk.traffic()]).fold(Report::default(), |sum, t| Report {
            read: sum.read + t.read,
            written: sum.written + t.written,
        })
    };
    let before = traffic();
    let result = run(result)?;
    let after = traffic();
    Ok((result, Report { read: after.read - before.read, written: after.written - before.written }))
}
