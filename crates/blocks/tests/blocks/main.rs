//! Tests of sweeps in blocks against the plain double loop, and against the papers' model.

mod bits;
#[path = "../../../wave/tests/wave/common.rs"]
mod common;
mod converge;
mod faults;
#[path = "../../../wave/tests/wave/kernels.rs"]
mod kernels;
mod model;
mod resumption;
#[path = "../../../wave/tests/wave/stencils.rs"]
mod stencils;
mod traffic;
mod way;
mod whole_blocks;

use syncline_blocks::kernel::Real;
