//! Teams as a program sees them: of threads, of processes, of both; and what happens when members die.
//!
//! Processes of a team run this very program, again with the one test [`role`], which plays the role that the
//! environment names.

mod common;
mod deaths;
mod hosts;
mod roles;
mod threads;
mod together;

#[test]
#[ignore = "the processes of other tests: does nothing by itself"]
fn role() {
    roles::play();
}
