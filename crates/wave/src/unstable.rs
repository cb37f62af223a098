//! The plan of a sweep on a team, for benchmarks that run its overlay without arithmetic. No
//! stability is promised.

pub use crate::streamed::{Link, TeamBands, TeamSweep};
