//! Decompositions against brute force, known invariants and Singular.

mod basis;
mod command;
mod degrees;
mod found;
mod random_systems;
mod singular;
mod systems;
mod towers;
mod workers;

use syncline_solve::SolveError;
use syncline_solve::poly::Ring;

/// Returns whether FLINT is installed; prints a line if it is not.
fn has_flint() -> bool {
    match Ring::new(&["x".to_owned()], 7) {
        Err(SolveError::Flint { why }) => {
            println!("skipped: FLINT is not installed ({why})");
            false
        }
        _ => true,
    }
}
