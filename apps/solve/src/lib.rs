//! Triangular decomposition of systems of polynomials over Z/p, in parallel.
//!
//! The zeros of a system are divided into components, each given by a regular chain: one polynomial
//! for each variable that is not free, in which the variable is the greatest one. So the zeros can
//! be found variable by variable. Systems may have any dimension.
//!
//! ```
//! use syncline_solve::{Mode, Source, SolveError, solve};
//!
//! # fn main() -> Result<(), SolveError> {
//! // A circle and a hyperbola, times a line.
//! let text = "vars x y\n prime 10007\n (x^2 + y^2 - 5)*(x - y)\n (x*y - 2)*(x - y)";
//! let source = Source::read(text)?;
//! let system = match source.system(source.names()) {
//!     Err(SolveError::Flint { .. }) => return Ok(()), // FLINT is not installed
//!     system => system?,
//! };
//! let solution = solve(&system.ring, &system.equations, &[], Mode::Kalkbrener, true);
//! assert_eq!(solution.dimension(), Some(1)); // the line
//! assert_eq!(solution.components.len(), 1 + 4); // and four points
//! assert_eq!(solution.components[0].chain.to_string(), "x - y");
//! # Ok(())
//! # }
//! ```
//!
//! | module          | contents                                                              |
//! |-----------------|-----------------------------------------------------------------------|
//! | [`system`]      | the text of systems                                                   |
//! | [`poly`]        | rings and polynomials, on FLINT                                       |
//! | [`solve`](mod@solve) | solutions, in this process                                       |
//! | [`parallel`]    | solutions by worker processes                                         |
//! | [`check`]       | checks of solutions                                                   |
//! | [`decompose`]   | the step from a task to smaller ones; [`task`], [`chain`]             |
//! | [`regularize`]  | zero, regular or zero divisor; [`subresultant`], [`tower`], [`fibre`] |
//! | [`redundant`]   | the removal of redundant components; [`section`]                      |
//! | [`primes`]      | irreducible components; [`normal`]: their canonical chains            |
//! | [`groebner`]    | Gröbner bases, another route to chains                                |
//! | [`codec`]       | polynomials, chains and tasks as integers                             |
//! | [`replay`]      | the speed-up that more processors would see                           |
//!
//! FLINT is loaded at run time: [`Ring::new`] returns an error that says what to install where it
//! is missing.

pub mod chain;
pub mod check;
pub mod codec;
pub mod decompose;
mod error;
pub mod fibre;
mod flint;
pub mod groebner;
mod modular;
pub mod normal;
pub mod parallel;
mod partition;
pub mod poly;
pub mod primes;
mod random;
mod rational;
pub mod redundant;
pub mod regularize;
pub mod replay;
pub mod section;
pub mod solve;
pub mod subresultant;
pub mod system;
pub mod task;
pub mod tower;

pub use error::SolveError;
pub use poly::{Poly, Ring};
pub use solve::{Method, Mode, Solution, solve};
pub use system::{Source, System, polynomial};
