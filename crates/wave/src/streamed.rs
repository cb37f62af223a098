//! The streamed executor: many iterations at the cost of one pass over the data.
//!
//! # Contract
//! A *pass* reads every array once, front to back, and writes the field once, `depth` iterations
//! later. Only a window of rows is in memory. The result is bit-identical to that of the plain
//! double loop.
//!
//! ```text
//!   disk       raw panels           ring of strips                   final rows       disk
//!  za ──read─> ▤▤▤ ─┐           ┌─ iteration 0: strips of band p ─┐
//!  zr ──read─> ▤▤▤ ─┤  wave:    │  iteration 1: one strip higher  │
//!  ...              ├── pack ─> │  ...                            │ ─ unpack ─> ▤▤▤ ─write─> za
//!  zz ──read─> ▤▤▤ ─┘           └─ iteration depth - 1            ┘
//! ```
//!
//! # The overlay
//! Panel `p` (the rows that band `p` brings in) is in slot `p mod slots`. Each task belongs to a
//! slot and recurs once in every round of the slots; it accesses these locations, exclusively (X)
//! or inclusively (I); `sums` are the checksums of the field:
//!
//! | task      | reader | panel | rows out | cell (r, c) | cell (r - 1, c + 1) | sums | writer |
//! |-----------|--------|-------|----------|-------------|---------------------|------|--------|
//! | read r    | X      | X     |          |             |                     |      |        |
//! | check r   |        | I     |          |             |                     | X    |        |
//! | wave r, c |        | I     | X        | X           | I                   |      |        |
//! | write r   |        |       | X        |             |                     |      | X      |
//!
//! A wave is cut into pieces of columns: piece `c` of band `p` needs piece `c - 1` (both have X on
//! the rows out) and piece `c + 1` of band `p - 1`, which is a little further right. So the cores
//! follow one another down the matrix, each on its own band, and no core waits for more than that.
//! Reads run ahead as far as there are slots; a slot is read into when its last wave has released
//! it. All ordering is in the queues of the locations, which are set up once in program order;
//! there is no other synchronisation.
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
pub(crate) use run::{Arrays, rate_of, streamable};
pub use team::{Link, TeamBands, TeamSweep};
pub(crate) use team::{gather as gather_on_team, run as on_team};
