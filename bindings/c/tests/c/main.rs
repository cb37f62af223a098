//! The library as programs in C, C++ and Fortran see it: its header, its rules, its installation.

mod header;
mod inside_mpi;
mod install;
mod interface;
mod programs;
#[path = "../tools/mod.rs"]
mod tools;
