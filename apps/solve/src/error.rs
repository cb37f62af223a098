//! The errors of the crate.

use thiserror::Error;

/// The reason why a system cannot be read or solved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SolveError {
    /// FLINT cannot be loaded.
    #[error(
        "FLINT, the library for polynomials, cannot be loaded: {why}; on Debian and its \
         derivatives: apt install libflint-dev; or name its file in SYNCLINE_FLINT"
    )]
    Flint {
        /// The loader's message.
        why: String,
    },
    /// The modulus is not a prime.
    #[error("the modulus {modulus} is not a prime")]
    NotPrime {
        /// The modulus.
        modulus: String,
    },
    /// The prime does not fit.
    #[error("the prime {prime} is too large: primes are less than 2^63")]
    LargePrime {
        /// The prime.
        prime: String,
    },
    /// The order of the variables is not one of those of the system.
    #[error("the order {said} does not have each of the variables {known} once")]
    Order {
        /// The order.
        said: String,
        /// The variables.
        known: String,
    },
    /// The text is not a system of polynomials.
    #[error("line {line}, column {column}: {why}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The reason.
        why: String,
    },
    /// The time is over.
    #[error("the time is over before the system is solved")]
    TimedOut,
    /// A task has ended several workers, or one of them sends what is not valid.
    #[error("a task cannot be done: {why}")]
    Worker {
        /// The reason.
        why: String,
    },
    /// The farm of worker processes fails.
    #[error("the farm of worker processes fails: {why}")]
    Farm {
        /// The reason.
        why: String,
    },
}
