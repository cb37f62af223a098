//! A described kernel is the kernel that is described, whatever the vectors; and bad texts are
//! errors.

pub(crate) mod engine;
mod expressions;
mod texts;
