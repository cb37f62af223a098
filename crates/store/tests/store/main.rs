//! Properties of the public interface of matrices.

mod common;
mod convert;
mod direct;
mod direct_faults;
mod files;
mod generations;
mod layout;
mod matrix;
mod stream;
