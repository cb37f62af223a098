//! The papers' older and other schemes of Livermore kernel 23 out of core: baselines for a race.
//!
//! All are built of the product's parts: matrices, layouts and mapped tiles for the data, locations and
//! checked overlays for the order. All give the bits of the plain double loop.
//!
//! | scheme                    | data                   | what it is                                            |
//! |---------------------------|------------------------|-------------------------------------------------------|
//! | [`Scheme::Sequential`]    | row-major              | the plain double loop over mapped files, one thread   |
//! | [`Scheme::ThreeBuffer`]   | any; row-major once    | the algorithm before the papers': load, compute, store|
//! | [`Scheme::Ring`]          | row-major: the pipeline| processors that own bands of rows and pass frontiers  |
//! |                           | blocked, framed        | the paper of 2008                                     |
//! | [`Scheme::Blocks`]        | blocked, framed        | a location per block: the paper of 2010               |
//! | [`Scheme::Streamed`]      | row-major              | many iterations in one pass                           |
//!
//! Blocks and streamed are the two executors of `syncline_wave`; the others are here.
//!
//! # Sources
//! * E. Caron, F. Desprez, F. Suter, "Out-of-Core and Pipeline Techniques for Wavefront Algorithms", IPDPS
//!   2005: three buffers.
//! * P.-N. Clauss, J. Gustedt, F. Suter, "Out-of-Core Wavefront Computations with Reduced Synchronization",
//!   PDP 2008: the ring, early exchange, the framed layout, wave chaining.
//! * P.-N. Clauss, J. Gustedt, "Experimenting Iterative Computations with Ordered Read-Write Locks", PDP
//!   2010: a lock per block.
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
//! let (sequential, _) = job(Scheme::Sequential).run(&arrays, Matrix::zeros(shape, Layout::RowMajor)?)?;
//! assert_eq!(ring.as_slice(), sequential.as_slice());
//! # Ok::<(), syncline_wave::Error>(())
//! ```

mod block;
mod ring;
mod sequential;
mod three_buffer;
mod work;

use std::sync::Arc;

use syncline_store::{Block, Matrix, convert};
use syncline_wave::{Executor, Order, Result, Sweep, kernels::Lk23};

use self::work::Work;

/// When a processor of a ring passes its first row to the one above, which needs its old values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exchange {
    /// All of it before each iteration, from the files. So the one above waits between iterations until the one
    /// below has ended: the pipeline is flushed. One wave at a time.
    Late,
    /// Block by block, from memory, as soon as a block is updated. Iterations follow one another without a
    /// flush.
    Early {
        /// Threads of a processor, each with an iteration of its own: as many waves are under way in a band.
        waves: usize,
    },
}

/// A way to go over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The plain double loop over row-major data, mapped with sequential advice.
    Sequential,
    /// A ring with late exchange, each of whose processors loads, computes and stores in three memory blocks
    /// in turn.
    ThreeBuffer {
        /// Processors of the ring.
        processors: usize,
    },
    /// A ring of processors, each of which owns a band of rows and walks over its blocks column by column.
    Ring {
        /// Processors of the ring; not more than rows of blocks are used.
        processors: usize,
        /// How they pass frontiers upwards.
        exchange: Exchange,
    },
    /// An ordered lock per block: the blocked executor.
    Blocks {
        /// Whether iterations follow one another closely, or each waits for the end of the one before.
        chained: bool,
    },
    /// Many iterations in one pass: the streamed executor.
    Streamed,
}

/// The input of a sweep: matrices of one shape, the coefficients in the order of [`Lk23`], and none of them framed.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    /// The field.
    pub field: &'a Arc<Matrix>,
    /// The coefficients.
    pub coefficients: &'a [Arc<Matrix>; 5],
}

/// A scheme and what it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The scheme.
    pub scheme: Scheme,
    /// The blocks; of no meaning for sequential and streamed.
    pub block: Block,
    /// How many iterations.
    pub iterations: u64,
    /// The most bytes of files and buffers at once. The sequential scheme leaves that to the system.
    pub memory: u64,
}

/// Bytes that a job asked for, of files: mapped, or read and written directly. Some may have been in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For reading.
    pub read: u64,
    /// For writing.
    pub written: u64,
}

impl Job {
    /// Runs the sweep from the field into `result`, which is given back.
    ///
    /// # Errors
    /// `Shape`, `FramedCoefficient` and `Memory` of [`Error`](syncline_wave::Error); those of the store when a matrix
    /// has not the layout or blocks that the scheme needs, or cannot be read or written. After an error the result
    /// is lost; the input is as it was.
    pub fn run(&self, arrays: &Arrays<'_>, mut result: Matrix) -> Result<(Matrix, Report)> {
        arrays.check(&result)?;
        if self.iterations == 0 {
            convert(arrays.field, &mut result, self.memory.clamp(64 << 10, 64 << 20))?;
            return Ok((result, Report::default()));
        }
        match self.scheme {
            Scheme::Blocks { chained } => {
                let order = if chained { Order::Wave } else { Order::Barrier };
                self.sweep(arrays, result, |s| {
                    s.executor(Executor::Blocked).block(self.block).order(order)
                })
            }
            Scheme::Streamed => self.sweep(arrays, result, |s| s.executor(Executor::Streamed)),
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

    fn sweep(
        &self,
        arrays: &Arrays<'_>,
        result: Matrix,
        change: impl FnOnce(Sweep<Lk23>) -> Sweep<Lk23>,
    ) -> Result<(Matrix, Report)> {
        let sweep = change(Sweep::new(Lk23).iterations(self.iterations).memory(self.memory));
        let (result, report) = sweep.run(arrays.field, arrays.coefficients, result)?;
        Ok((result, Report { read: report.bytes_read, written: report.bytes_written }))
    }
}

/// Runs a scheme and counts what it maps.
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
