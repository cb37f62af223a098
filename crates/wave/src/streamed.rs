//! Strips: the plan of their passes, and their runs on a team.
//!
//! # Contract
//! A run of one process is one of [`run`](crate::run), whose passes ([`pass`](crate::pass)) have
//! [`strips`](crate::engines::strips) as their engine. [`plan`] chooses its depth, bands and
//! pieces. Members of a [`team`] have a pass of their own.
//!
//! # Costs
//! Per element and pass: one read of each array and one write of the field, with a transposition
//! each. Per piece of a wave (tens of microseconds to milliseconds): four requests, a few hundred
//! nanoseconds. Memory: `depth` strips and a few panels, see [`plan`].
//!
//! # Source
//! Time skewing and skewed vectors: see [`strip`](crate::strip). The pipeline of panels and its
//! overlay are this project's. "Out-of-core" is meant in the sense of Clauss, Gustedt and Suter,
//! PDP 2008, whose blocked scheme reads all data once per iteration.

pub(crate) mod data;
pub(crate) mod pass;
pub(crate) mod plan;
mod run;
pub(crate) mod team;

pub use crate::run::start::{Resumption, Taken};
pub use crate::run::target::{Leftovers, Pending, Target};
pub use plan::StreamPlan;

pub(crate) use pass::{Spent, add, timed};
pub(crate) use plan::cache_bytes;
pub use run::Arrays;
pub(crate) use run::{are_row_major, rate_of};
pub use team::{Link, TeamBands, TeamSweep};
pub(crate) use team::{gather as gather_on_team, run as on_team};
