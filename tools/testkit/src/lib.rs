//! Helpers shared by the tests of several crates: random numbers, re-execution of the test program
//! in another role, external tools and the files they make, and the MPI installations of the
//! machine.
//!
//! The crate is a dependency of tests only. It is below all other crates and depends on none of
//! them.

mod kept;
pub mod mpi;
mod random;
mod role;
mod tier;
mod tool;

pub use kept::kept;
pub use random::Random;
pub use role::{again, as_role};
pub use tier::{cases, is_quick, is_soak, property, seed};
pub use tool::{Tool, libraries, output, succeed};
