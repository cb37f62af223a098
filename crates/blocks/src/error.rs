//! Errors of a sweep in blocks.

use syncline_memory::room::Size;
use syncline_overlay::error::{CheckError, RunError};
use syncline_store::{Block, Shape};

/// The result type of this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The reason why a sweep in blocks was not run, or ended early.
///
/// The input is never changed. The contents of the result are unspecified and must not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error that a sweep by passes has as well.
    #[error(transparent)]
    Sweep(#[from] syncline_wave::Error),
    /// A coefficient matrix is framed; only the field may be framed.
    #[error("{name} is framed; coefficients must be row-major or blocked")]
    FramedCoefficient {
        /// The name of the matrix.
        name: String,
    },
    /// The memory bound is too small for the window of one block.
    #[error(
        "the memory allowed for the sweep, {}, cannot hold the smallest window: one block of {block} \
         ({matrices} matrices) needs {} ({window} bytes); allow at least that much, or use smaller blocks",
        Size(*allowed), Size(*window)
    )]
    Memory {
        /// The memory bound, in bytes.
        allowed: u64,
        /// The bytes that one block needs.
        window: u64,
        /// The size of the block.
        block: Block,
        /// The number of matrices of the sweep.
        matrices: usize,
    },
    /// The order max-parallel was asked for with a kernel whose stencil has diagonal neighbours.
    #[error(
        "the order max-parallel is for kernels whose stencil has only the four nearest neighbours"
    )]
    Corners,
    /// Adjacent blocks would depend on each other in a cycle, because the kernel uses north-east or
    /// south-west.
    #[error(
        "blocks of {block} cannot keep the order of a kernel that uses the corners north-east or south-west: \
         use blocks of one row, or as wide as the matrix, which is {shape}"
    )]
    CornerBlocks {
        /// The size of the block.
        block: Block,
        /// The shape of the matrix.
        shape: Shape,
    },
}

impl From<syncline_store::Error> for Error {
    fn from(error: syncline_store::Error) -> Self {
        Error::Sweep(error.into())
    }
}

impl From<CheckError> for Error {
    fn from(error: CheckError) -> Self {
        Error::Sweep(error.into())
    }
}

impl From<RunError> for Error {
    /// Returns the error of the failed block itself; its place in the overlay adds no information.
    fn from(error: RunError) -> Self {
        match error {
            RunError::Failed { task, iteration, source } => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::Sweep(RunError::Failed { task, iteration, source }.into()),
            },
            other => Error::Sweep(other.into()),
        }
    }
}

impl From<syncline_kernel::Error> for Error {
    fn from(error: syncline_kernel::Error) -> Self {
        Error::Sweep(error.into())
    }
}
