//! The command as a user sees it: processes, files, exit codes, messages.

mod advice;
mod bad_input;
mod bench;
mod bench_farm;
mod bench_rma;
mod cgroup;
mod common;
mod contest;
mod data;
mod executors;
mod farm;
mod kernels;
mod kills;
mod launch;
mod memory;
mod mpi;
mod overlay;
mod probe;
mod results;
mod resume;
mod rma;
mod signals;
mod sweeps;
mod verify;
