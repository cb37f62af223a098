//! A described kernel equals the kernel that it describes, with all vectors; and invalid texts are
//! errors.

mod expressions;
mod functions;
pub(crate) mod random;
mod rules;
mod texts;
