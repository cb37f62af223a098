//! Kernels: the update of a point, and the loops over points.
//!
//! # Contract
//! A kernel computes the new value of a point from its neighbours and from coefficients at the same
//! place. This crate has the kernels, and the loops that are compiled for each of them: the plain
//! double loop, the loop over some strips of rows in vectors, and the loop over a run of values.
//! It knows neither passes nor files, threads or teams: which points are updated when is a matter
//! of the executors, in `syncline_wave`.
//!
//! The names are for the other crates of the workspace. `syncline_wave` has those for users.
//!
//! # Kernels
//! * [`point`]: a point, and its update in Rust, over any [`Lane`]. [`stencil`]: the neighbours
//!   that an update reads. [`lanes`]: one value, or a vector of values.
//! * [`kernels`]: the built-in kernels, whose loops are compiled here, once.
//! * [`described`]: the update as a text. [`rule`]: what such a text says, whatever executes it.
//! * [`c`]: the update as a C function.
//!
//! # Loops
//! ```text
//! loop           runs                     over                        module
//! plain_sweep    a kernel in Rust         a matrix                    plain
//! Kernel::plain  a kernel for matrices    a part of a matrix          dynamic
//! strips         a kernel for matrices    some columns of 4 strips    strip::inner
//! Machine::run   a rule                   adjacent points             rule::program
//! plain          a rule                   all points of arrays        rule::plain
//! ```
//!
//! * [`dynamic`]: a kernel without its type. All executors take one.
//! * [`strip`]: the layout of rows as skewed vectors, and the loops over them.
//!
//! # Circles among the modules
//! Two reasons have led to circles. Loops are compiled once: so `lanes::Real` implies
//! `compiled::Compiled`, which knows the kernels of the crate, and `PointKernel::erased` makes a
//! `dynamic::Kernel`. And some modules define one thing from two sides: texts (`described`) become
//! rules, which have the graph of a text, and an update (`point::Update`) may run the loop over
//! strips itself.

mod c_kernel;
mod compiled;
mod error;

// What users see. `syncline_wave` exports these modules and names.

/// Kernels that are functions in C: of a point, or of the points of a description.
#[doc(hidden)]
pub mod c {
    pub use crate::c_kernel::{CFunction, CKernel, CPoint};
    pub use crate::described::functions::CValues;
}
#[doc(hidden)]
pub mod described;
#[doc(hidden)]
pub mod kernels;
#[doc(hidden)]
pub mod lanes;
#[doc(hidden)]
pub mod plain;
#[doc(hidden)]
pub mod point;
#[doc(hidden)]
pub mod stencil;

#[doc(hidden)]
pub use described::Described;
#[doc(hidden)]
pub use error::{Error, Result};
#[doc(hidden)]
pub use lanes::Lane;
#[doc(hidden)]
pub use point::{Neighbours, PointKernel};
#[doc(hidden)]
pub use stencil::{Neighbour, Stencil};

// What executors use.

#[doc(hidden)]
pub mod dynamic;
#[doc(hidden)]
pub mod rule;
#[doc(hidden)]
pub mod strip;
