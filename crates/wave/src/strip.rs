//! Strips in the executors: chains of iterations over them, and how rows come in and go out.
//!
//! # Contract
//! The layout, and the loops over some strips, are in [`syncline_kernel::strip`]. Here is what
//! decides which strips are updated when, and what moves data: [`tile`] runs chained iterations
//! over bands of strips, [`pack`] transposes rows into strips and back, [`ghosts`] adds lines where
//! the edge of a matrix is updated, and [`cut`] shares the columns among hosts.
//!
//! ```text
//! rows --ghosts, pack--> strips --tile--> strips, some iterations later --pack--> rows
//!                                  |
//!                           syncline_kernel: fused and masked loops
//! ```

pub(crate) mod cut;
pub(crate) mod ghosts;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod tile;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use syncline_kernel::strip::{FUSED, Geometry, Ring, TOGETHER};
