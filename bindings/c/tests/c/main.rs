//! The library from the view of programs in C, C++ and Fortran: header, rules, installation.

mod header;
mod inside_mpi;
mod install;
mod interface;
mod programs;
#[path = "../tools/mod.rs"]
mod tools;
