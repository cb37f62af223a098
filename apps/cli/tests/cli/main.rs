//! Tests of the command as a user sees it: processes, files, exit codes, messages.

mod advice;
mod arrays;
mod bad_input;
mod book;
mod cgroup;
mod common;
mod data;
mod executors;
mod farm;
mod install;
mod kernels;
mod kills;
mod launch;
mod memory;
mod mpi;
mod overlay;
mod probe;
mod report;
mod results;
mod resume;
mod rma;
mod signals;
mod sweeps;
mod team;
mod top;
mod verify;
