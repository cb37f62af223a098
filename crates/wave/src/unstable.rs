//! The plan of a sweep on a team, for benchmarks that run its overlay without arithmetic. No
//! stability is promised.

pub use crate::team::plan::bands::{TeamBands, TeamSweep};
pub use crate::team::plan::link::Link;
