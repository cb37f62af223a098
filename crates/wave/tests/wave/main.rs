//! The tests of the executor against the plain double loop, and against the papers' model.

mod bits;
mod common;
mod model;
