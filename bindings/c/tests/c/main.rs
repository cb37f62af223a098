//! The library as programs in C, C++ and Fortran see it: its header, its rules, its installation.

mod header;
mod inside_mpi;
mod install;
mod interface;
#[path = "../tools/mpi.rs"]
mod mpi;
mod programs;
