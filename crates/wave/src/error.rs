//! What can go wrong with a sweep.

use syncline_memory::room::Size;
use syncline_overlay::error::{CheckError, RunError};
use syncline_store::{Block, Shape};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a sweep was not run, or ended early. The input is never changed; the result is not to be
/// used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A matrix could not be read, mapped or written.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    /// A matrix has not the shape of the field.
    #[error("{name} is {actual}, but {field} is {expected}")]
    Shape {
        /// The matrix.
        name: String,
        /// Its shape.
        actual: Shape,
        /// The field.
        field: String,
        /// Its shape.
        expected: Shape,
    },
    /// A coefficient matrix is framed; frames are for the field only.
    #[error("{name} is framed; coefficients must be row-major or blocked")]
    FramedCoefficient {
        /// The matrix.
        name: String,
    },
    /// The memory allowed does not hold what one block needs.
    #[error(
        "the memory allowed for the sweep, {}, cannot hold the least window: one block of {block} ({matrices} \
         matrices) needs {} ({window} bytes); allow at least these, or take smaller blocks",
        Size(*allowed), Size(*window)
    )]
    Memory {
        /// Bytes allowed.
        allowed: u64,
        /// Bytes that one block needs.
        window: u64,
        /// Its size.
        block: Block,
        /// The matrices of the sweep.
        matrices: usize,
    },
    /// The memory allowed does not hold what a streamed sweep needs.
    #[error(
        "the memory allowed for the sweep, {}, cannot hold the window of rows for {depth} iteration(s) in one \
         pass, which needs {} ({needed} bytes); allow at least these, or run it in blocks",
        Size(*allowed), Size(*needed)
    )]
    StreamMemory {
        /// Bytes allowed.
        allowed: u64,
        /// The iterations of a pass.
        depth: u64,
        /// Bytes that they need.
        needed: u64,
    },
    /// The sweep cannot be streamed.
    #[error("{name} cannot be streamed: {why}")]
    NotStreamed {
        /// The matrix or option.
        name: String,
        /// Why not, and what to do about it.
        why: String,
    },
    /// An exact stop of several passes into a matrix on file, which has no earlier values to go
    /// back to.
    #[error(
        "an exact stop needs the values of the pass before, which a result on file has not: use `run_to`"
    )]
    ExactStop,
    /// A kernel reads neighbours that its stencil does not name.
    #[error(
        "the kernel reads {reads}, but its stencil has {stencil}: name in it what the kernel reads"
    )]
    Undeclared {
        /// What it reads beside its stencil.
        reads: crate::Stencil,
        /// The stencil that it declares.
        stencil: crate::Stencil,
    },
    /// A kernel whose stencil has neighbours across, in the order max-parallel.
    #[error(
        "the order max-parallel is for kernels whose stencil has only the four nearest neighbours"
    )]
    Corners,
    /// Blocks side by side whose points, with a kernel that uses north-east or south-west, depend
    /// on each other in a circle.
    #[error(
        "blocks of {block} cannot keep the order of a kernel that uses the corners north-east or south-west: \
         it takes blocks of one row, or as wide as the matrix, which is {shape}"
    )]
    CornerBlocks {
        /// The block.
        block: Block,
        /// The matrix.
        shape: Shape,
    },
    /// The coefficients are not as many as the kernel takes.
    #[error("the kernel takes {expected} coefficient(s), but {given} were given")]
    Coefficients {
        /// How many it takes.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// These vectors are not on this machine.
    #[error("this machine has no {lanes} instructions")]
    Lanes {
        /// What was asked for.
        lanes: crate::lanes::Lanes,
    },
    /// Something is left of an earlier run, and nothing was said about what to do with it.
    #[error("beside {} is left {found}: resume it, or discard it", path.display())]
    Leftovers {
        /// The result.
        path: std::path::PathBuf,
        /// What was found.
        found: String,
    },
    /// The result's name is taken by what is not to be replaced, or gone on from, unasked.
    #[error("{} is {by}; it is not replaced unless the target says so (`Leftovers::Discard`){}", path.display(),
        if by.is_the_same() { ", and gone on from if it says `Leftovers::Resume`" } else { "" })]
    Taken {
        /// The result's name.
        path: std::path::PathBuf,
        /// What has it.
        by: Box<crate::streamed::Taken>,
    },
    /// An interrupted run has done more iterations than are asked for.
    #[error("beside {} is left a run with {done} iterations behind it, more than the {asked} asked for", path.display())]
    Fewer {
        /// The result.
        path: std::path::PathBuf,
        /// The iterations that were done.
        done: u64,
        /// Those asked for.
        asked: u64,
    },
    /// A relaxation factor that cannot converge.
    #[error("omega is {omega}, but must lie strictly between 0 and 2")]
    Omega {
        /// The factor.
        omega: f64,
    },
    /// A gap penalty that is not a finite number of zero or more.
    #[error("the gap penalty is {gap}, but must be a finite number of at least 0")]
    Gap {
        /// The penalty.
        gap: f64,
    },
    /// A tolerance that is not a number of zero or more.
    #[error("the tolerance is {tolerance}, but must be a number of at least 0")]
    Tolerance {
        /// The tolerance.
        tolerance: f64,
    },
    /// The sweep was cancelled by its monitor.
    #[error("the sweep was cancelled in iteration {iteration}")]
    Cancelled {
        /// The iteration, from 0, of the block that would have been next.
        iteration: u64,
    },
    /// The tasks of the sweep cannot be ordered.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A task failed; the kernel panicked, for example.
    #[error(transparent)]
    Run(RunError),
}

impl From<RunError> for Error {
    /// What a block returned is the error; its place in the overlay adds nothing.
    fn from(error: RunError) -> Self {
        match error {
            RunError::Failed { task, iteration, source } => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::Run(RunError::Failed { task, iteration, source }),
            },
            other => Error::Run(other),
        }
    }
}
