//! The command as a user sees it: processes, files, exit codes, messages.

mod bad_input;
mod common;
mod data;
mod memory;
mod signals;
mod sweeps;
