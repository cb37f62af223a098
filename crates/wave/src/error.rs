//! Errors of a sweep.

use syncline_kernel::{Error as KernelError, Stencil, lanes::Lanes};
use syncline_memory::room::Size;
use syncline_overlay::error::{CheckError, RunError};
use syncline_store::{ElementType, Shape};
use syncline_sync::Fault;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a sweep was not run, or ended early.
///
/// The input is never changed. The contents of the result are unspecified and must not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A matrix could not be read, mapped or written.
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    /// A matrix does not have the shape of the field.
    #[error("{name} is {actual}, but {field} is {expected}")]
    Shape {
        /// The name of the matrix.
        name: String,
        /// The shape of the matrix.
        actual: Shape,
        /// The name of the field.
        field: String,
        /// The shape of the field.
        expected: Shape,
    },
    /// A description of several fields, types, edges or directions, or one that reads old values,
    /// was given to a sweep of matrices.
    #[error(
        "the kernel {kernel} is not one for matrices of one type: it has several fields, types, edges, directions, \
         old values, or distant neighbours; run it over arrays"
    )]
    OfArrays {
        /// The name of the kernel.
        kernel: String,
    },
    /// A function of a description has no code, there is no such function, or it cannot be called
    /// with these data.
    #[error("the function {function} of the kernel {kernel}: {why}")]
    Function {
        /// The name of the kernel.
        kernel: String,
        /// The name of the function.
        function: String,
        /// What is wrong.
        why: String,
    },
    /// The number of fields is not that of the kernel.
    #[error("the kernel updates {expected} field(s), but {given} are given")]
    Fields {
        /// The number of fields of the kernel.
        expected: usize,
        /// The number of arrays.
        given: usize,
    },
    /// An array has another type than the kernel says.
    #[error("the array {name} is {actual}, but the kernel needs {expected}")]
    ArrayType {
        /// The name of the array in the kernel.
        name: String,
        /// The type of its elements.
        actual: ElementType,
        /// What the kernel needs.
        expected: String,
    },
    /// An array has more or fewer dimensions than the kernel.
    #[error(
        "the array {name} has {actual} dimensions, but the kernel has {expected}{}",
        if *actual == 3 { "; say `dimensions = 3` in the description" } else { "" }
    )]
    Dimensions {
        /// The name of the array in the kernel.
        name: String,
        /// The number of its dimensions.
        actual: usize,
        /// The number of dimensions of the kernel.
        expected: usize,
    },
    /// An array does not have the dimensions of the first field.
    #[error("the array {name} is of {actual:?}, but the first field is of {expected:?}")]
    ArrayShape {
        /// The name of the array in the kernel.
        name: String,
        /// Its dimensions.
        actual: Vec<usize>,
        /// The dimensions of the first field.
        expected: Vec<usize>,
    },
    /// The memory bound is too small for the window of a streamed sweep.
    #[error(
        "the memory allowed for the sweep, {}, cannot hold the window of rows for {depth} iteration(s) in one \
         pass, which needs {} ({needed} bytes); {}",
        Size(*allowed), Size(*needed),
        match (on_team, instead) {
            (true, _) => "allow each member at least that much".to_owned(),
            (false, Some(instead)) => format!("allow at least that much, or {instead}"),
            (false, None) => "allow at least that much".to_owned(),
        }
    )]
    StreamMemory {
        /// The memory bound, in bytes.
        allowed: u64,
        /// The number of iterations in one pass.
        depth: u64,
        /// The bytes that these iterations need.
        needed: u64,
        /// Whether the bound is that of a member of a team.
        on_team: bool,
        /// What to do that takes less memory, if anything does.
        instead: Option<&'static str>,
    },
    /// The sweep cannot be streamed.
    #[error("{name} cannot be streamed: {why}")]
    NotStreamed {
        /// The name of the matrix or option.
        name: String,
        /// The reason, and what to do about it.
        why: String,
    },
    /// An exact stop of several passes was asked for with a result matrix on file, which does not
    /// keep the values of the previous pass.
    #[error(
        "an exact stop needs the values of the previous pass, which a result on file does not keep: use `run_to`"
    )]
    ExactStop,
    /// The kernel reads neighbours that its stencil does not name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use syncline_wave::{Lane, Neighbours, PointKernel, Stencil, Sweep};
    /// # use syncline_store::{Layout, Matrix, Shape};
    ///
    /// struct Distance;
    ///
    /// impl PointKernel<0> for Distance {
    ///     const STENCIL: Stencil = Stencil::FIVE_POINT;
    ///
    ///     #[inline(always)]
    ///     fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
    ///         at.centre.min(at.north_east + L::splat(1.5))
    ///     }
    /// }
    /// # let field = Arc::new(Matrix::<f64>::zeros(Shape::new(9, 9), Layout::RowMajor)?);
    /// # let result = Matrix::zeros(Shape::new(9, 9), Layout::RowMajor)?;
    /// let error = Sweep::new(Distance).run(&field, &[], result).unwrap_err();
    /// assert!(error.to_string().starts_with("the kernel reads north-east, "));
    /// # Ok::<(), syncline_wave::Error>(())
    /// ```
    #[error(
        "the kernel reads {reads}, but its stencil has {stencil}: add these neighbours to the stencil"
    )]
    Undeclared {
        /// The neighbours that it reads beyond its stencil.
        reads: Stencil,
        /// The stencil that it declares.
        stencil: Stencil,
    },
    /// The number of coefficients is not the one that the kernel takes.
    #[error("the kernel takes {expected} coefficient(s), but {given} were given")]
    Coefficients {
        /// The number of coefficients that the kernel takes.
        expected: usize,
        /// The number of coefficients given.
        given: usize,
    },
    /// This machine does not have the requested vector instructions.
    #[error("this machine has no {lanes} instructions")]
    Lanes {
        /// The requested vectors.
        lanes: Lanes,
    },
    /// Files of an earlier run exist, and the target does not say what to do with them.
    #[error("the files beside {} belong to {found}: resume it, or discard it", path.display())]
    Leftovers {
        /// The path of the result.
        path: std::path::PathBuf,
        /// A description of the files found.
        found: String,
    },
    /// The path of the result is taken by something that may be neither replaced nor continued
    /// unless the target says so.
    #[error("{} is {by}; it is not replaced: set `Leftovers::Discard` to replace it{}", path.display(),
        if by.is_the_same() { ", or `Leftovers::Resume` to continue from it" } else { "" })]
    Taken {
        /// The path of the result.
        path: std::path::PathBuf,
        /// What occupies the path.
        by: Box<crate::target::Taken>,
    },
    /// An interrupted run has done more iterations than are asked for.
    #[error("the interrupted run beside {} has {done} iterations behind it, more than the {asked} asked for", path.display())]
    Fewer {
        /// The path of the result.
        path: std::path::PathBuf,
        /// The number of iterations done.
        done: u64,
        /// The number of iterations asked for.
        asked: u64,
    },
    /// The relaxation factor is outside the range in which the method can converge.
    #[error("omega is {omega}, but must lie strictly between 0 and 2")]
    Omega {
        /// The relaxation factor.
        omega: f64,
    },
    /// The gap penalty is not a finite number of at least 0.
    #[error("the gap penalty is {gap}, but must be a finite number of at least 0")]
    Gap {
        /// The gap penalty.
        gap: f64,
    },
    /// The tolerance is not a number of at least 0.
    #[error("the tolerance is {tolerance}, but must be a number of at least 0")]
    Tolerance {
        /// The tolerance.
        tolerance: f64,
    },
    /// The sweep was cancelled by its monitor.
    #[error("the sweep was cancelled in iteration {iteration}")]
    Cancelled {
        /// The iteration, from 0, of the block that would have been updated next.
        iteration: u64,
    },
    /// The sweep failed at another member of the team.
    #[error("rank {rank}: {error}")]
    Elsewhere {
        /// The rank of that member.
        rank: usize,
        /// The error there.
        error: String,
    },
    /// A member of the team is dead, or has left.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The data are too few for the members of a team.
    #[error(
        "the data can be shared by {most} {}, and the team has {members}: a member needs columns as \
         wide as a band is high, or a row or plane if the kernel reads old values only; run it with \
         fewer members",
        if *most == 1 { "member" } else { "members" }
    )]
    Members {
        /// The number of members.
        members: usize,
        /// The greatest number of members that could share the data.
        most: usize,
    },
    /// A setting is not available on a team.
    #[error("{what} is not available on a team: {instead}")]
    NotOnTeam {
        /// The setting.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// A member of a team has other settings than the first one.
    #[error("{what} is {own} at rank {rank}, and {first} at rank 0: give all members the same")]
    Differs {
        /// The member.
        rank: usize,
        /// The setting.
        what: String,
        /// Its value at the member.
        own: String,
        /// Its value at the first member.
        first: String,
    },
    /// The tasks of the sweep cannot be ordered.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A task failed, for example because the kernel panicked.
    #[error("{}", without_tasks(.0))]
    Run(#[source] RunError),
}

/// Describes the failure of a run by what its task did: the names of tasks are internals, except
/// those of blocks.
fn without_tasks(error: &RunError) -> String {
    match error {
        RunError::Failed { task, iteration, source } => {
            format!("{} failed: {source}", activity(task, *iteration))
        }
        RunError::Panicked { task, iteration, message, .. } => {
            format!("{} panicked: {message}", activity(task, *iteration))
        }
        other => other.to_string(),
    }
}

/// Describes what a task does. The iterations of a streamed pass's tasks are those of the window.
fn activity(task: &str, iteration: u64) -> String {
    let what = match task.split(' ').next() {
        Some("piece") => "the update of points",
        Some("read") => "a read of rows",
        Some("write") => "a write of rows",
        Some("check" | "sum") => "a checksum of rows",
        Some("edges" | "margins" | "send" | "take") => "an exchange of rows between members",
        Some("block") => return format!("the update of {task} in iteration {iteration}"),
        _ => task,
    };
    what.to_owned()
}

impl From<RunError> for Error {
    /// Returns the error of the failed block itself; its place in the overlay adds no information.
    fn from(error: RunError) -> Self {
        match error {
            RunError::Failed { task, iteration, source } => match source.downcast::<Error>() {
                Ok(own) => *own,
                Err(source) => Error::Run(RunError::Failed { task, iteration, source }),
            },
            RunError::Elsewhere { rank, error } => Error::Elsewhere { rank, error },
            RunError::Fault(fault) => Error::Fault(fault),
            other => Error::Run(other),
        }
    }
}

impl From<KernelError> for Error {
    /// Returns the variant of the same text.
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Undeclared { reads, stencil } => Error::Undeclared { reads, stencil },
            KernelError::Panicked { message } => {
                let task = "the check of the kernel's stencil".to_owned();
                let (iteration, locations) = (0, Vec::new());
                Error::Run(RunError::Panicked { task, iteration, locations, message })
            }
            KernelError::OfArrays { kernel } => Error::OfArrays { kernel },
            KernelError::Function { kernel, function, why } => {
                Error::Function { kernel, function, why }
            }
            KernelError::Omega { omega } => Error::Omega { omega },
            KernelError::Gap { gap } => Error::Gap { gap },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_by_what_the_sweep_did() {
        let panicked = |task: &str| {
            let (task, message) = (task.to_owned(), "out of range".to_owned());
            let locations = vec!["cell 3, 1 of rank 2".to_owned()];
            Error::Run(RunError::Panicked { task, iteration: 5, locations, message }).to_string()
        };
        let told = "the update of points panicked: out of range";
        assert_eq!(
            (panicked("piece 3, 1 of 0 in 0"), panicked("piece 3, 1 of 2 in 1")),
            (told.into(), told.into())
        );
        let told = "the update of block (1, 2) in iteration 5 panicked: out of range";
        assert_eq!(panicked("block (1, 2)"), told);
        let (task, source) = ("read 9 of 0".to_owned(), "end of file".into());
        let failed = Error::Run(RunError::Failed { task, iteration: 5, source });
        assert_eq!(failed.to_string(), "a read of rows failed: end of file");
    }
}
