//! The streamed executor: many iterations for the price of one pass over the data.
//!
//! # Contract
//! A *pass* reads every array once, front to back, and writes the field once, `depth` iterations
//! later. Only a window of rows is in memory. The bits are those of the plain double loop.
//!
//! ```text
//!   disk        raw panels            ring of strips                    final rows       disk
//!  za ──read──> ▤▤▤ ─┐            ┌─ iteration 0: strips of band p ─┐
//!  zr ──read──> ▤▤▤ ─┤   wave:    │  iteration 1: one strip higher  │
//!  ...               ├── pack ──> │  ...                            │ ── unpack ──> ▤▤▤ ──write──> za
//!  zz ──read──> ▤▤▤ ─┘            └─ iteration depth - 1            ┘
//! ```
//!
//! # As an overlay
//! Panel `p` (as many rows as band `p` brings in) stands in slot `p mod slots`. Tasks belong to a
//! slot and recur once in every round of the slots; what they touch are locations:
//!
//! | task        | reader | panel | rows out | cell (r, c) | cell (r - 1, c + 1) | field's sums | writer |
//! |-------------|--------|-------|----------|-------------|---------------------|--------------|--------|
//! | read r      | X      | X     |          |             |                     |              |        |
//! | check r     |        | I     |          |             |                     | X            |        |
//! | wave r, c   |        | I     | X        | X           | I                   |              |        |
//! | write r     |        |       | X        |             |                     |              | X      |
//!
//! A wave is cut into pieces of columns: piece `c` of band `p` needs piece `c - 1` (both have X on
//! the rows out) and band `p - 1` a little further right, piece `c + 1`. So the cores follow one
//! another down the matrix, each on its own band, and no core waits for more than that. Reads run
//! ahead as far as there are slots; a slot is read into when its last wave has let go of it. All
//! order is in the queues of the locations, set up once by the order of the program; there is no
//! other synchronisation.
//!
//! # Costs
//! Per element and pass: one read of each array, one write of the field, a transposition each. Per
//! piece of a wave (tens of microseconds to milliseconds): four requests, some hundred nanoseconds.
//! Memory: `depth` strips and a few panels, see [`plan`].
//!
//! # Source
//! Time skewing and skewed vectors: see [`strip`](crate::strip). The pipeline of panels and its
//! overlay are this project's. "Out-of-core" in the sense of Clauss, Gustedt and Suter, PDP 2008,
//! whose blocked scheme reads all data once per iteration.

mod data;
mod destination;
mod keep;
mod pass;
mod plan;
mod run;
mod start;
mod sums;
mod target;

pub use plan::StreamPlan;
pub use start::{Resumption, Taken};
pub use target::{Leftovers, Pending, Target};

pub(crate) use keep::{identity, into_target, resumption, taken};
pub(crate) use run::{Arrays, into_matrix, plan_into, streamable};
