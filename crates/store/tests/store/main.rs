//! Properties of matrices as their users see them.

mod common;
mod convert;
mod files;
mod layout;
mod matrix;
