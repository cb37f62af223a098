//! Tests of the executors against the plain double loop, and against the papers' model.

mod arrays;
mod bits;
mod common;
mod converge;
mod described;
mod faults;
mod kernels;
mod model;
mod stencils;
mod streamed;
mod target;
mod team;
mod team_arrays;
mod tolerance;
mod types;
mod whole_blocks;
