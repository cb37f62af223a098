//! What the tests of several crates share: random numbers, this test program in another role, tools and
//! what they make, the MPIs of the machine.
//!
//! A dependency of tests only. It is below all other crates, and none of them is known here.

mod kept;
pub mod mpi;
mod random;
mod role;
mod tool;

pub use kept::kept;
pub use random::Random;
pub use role::{again, as_role};
pub use tool::{Tool, libraries, output, succeed};
