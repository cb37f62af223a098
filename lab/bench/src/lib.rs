//! What the laboratory builds itself, to race Syncline against it.
//!
//! The races are in the command, `syncline-lab`: see `lab/README.md`.

pub mod baselines;
pub mod schemes;
