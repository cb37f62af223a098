//! Teams as a program sees them: of threads, of processes, of both; and the effects of deaths.
//!
//! The processes of a team run this same program, with the single test [`role_of_a_process`], which
//! plays the role that the environment names.

mod common;
mod deaths;
mod hosts;
mod long;
mod roles;
mod threads;
mod together;

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role_of_a_process() {
    roles::play();
}
