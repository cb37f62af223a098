//! The laboratory's own implementations, against which Syncline is raced.
//!
//! The races are in the command, `syncline-lab`: see `lab/README.md`.

pub mod baselines;
pub mod schemes;
