//! The examples do what they say.

mod one_sided;
mod processes;
