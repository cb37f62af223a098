//! Tests of sweeps by passes against the plain double loop.

mod arrays;
mod common;
mod converge;
mod described;
mod faults;
mod kernels;
mod reference;
mod refusals;
mod stencils;
mod streamed;
mod target;
mod team;
mod team_arrays;
mod tolerance;
mod types;
mod way;

use syncline_wave::lanes::Real;
