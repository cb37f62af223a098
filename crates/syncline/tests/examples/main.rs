//! The examples work as documented.

mod one_sided;
mod processes;
