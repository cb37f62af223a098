//! Errors of a kernel.

use crate::Stencil;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a kernel cannot be made, or is not run.
///
/// `syncline_wave::Error` has a variant of the same text for each of these.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The kernel reads neighbours that its stencil does not name.
    #[error(
        "the kernel reads {reads}, but its stencil has {stencil}: add these neighbours to the stencil"
    )]
    Undeclared {
        /// The neighbours that it reads beyond its stencil.
        reads: Stencil,
        /// The stencil that it declares.
        stencil: Stencil,
    },
    /// The kernel panicked when its stencil was checked.
    #[error("the check of the kernel's stencil panicked: {message}")]
    Panicked {
        /// What the kernel said.
        message: String,
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
    /// A function of a description has no code, or there is no such function.
    #[error("the function {function} of the kernel {kernel}: {why}")]
    Function {
        /// The name of the kernel.
        kernel: String,
        /// The name of the function.
        function: String,
        /// What is wrong.
        why: String,
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
}
