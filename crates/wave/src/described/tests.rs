//! A described kernel equals the kernel that it describes, with all vectors; and invalid texts are
//! errors.

pub(crate) mod engine;
mod expressions;
mod functions;
mod rules;
mod texts;
