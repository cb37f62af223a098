//! Wavefront sweeps in blocks: matrices in any layout, in any order of the blocks.
//!
//! A [`BlockedSweep`] runs a [`Sweep`](syncline_wave::Sweep) by the scheme of Clauss, Gustedt and
//! Suter (PDP 2008, HAL inria-00176084). Each block of the result is a location with an ordered
//! lock; one task for each block writes its own block and reads its neighbours. It reads all data
//! once per iteration. Where data are row-major and the order is that of the double loop, a sweep
//! by passes (`syncline_wave`) does many iterations for one reading.
//!
//! In a *blocked* file each block is stored in one piece; in a *framed* file each side of a block
//! is stored in one piece as well. The layouts themselves, and the views of their blocks, are in
//! `syncline_store`: its conversions and its probe of disks need them.
//!
//! | module     | contents                                                                        |
//! |------------|---------------------------------------------------------------------------------|
//! | `sweep`    | [`BlockedSweep`]: what users call                                               |
//! | [`plan`]   | the size of the blocks by memory, or by a model of the disk; their [order]      |
//! | `executor` | the tasks of the blocks, and the exchange of frontiers                          |
//! | `block`    | one iteration of a block through strips                                         |
//! | [`kernel`] | unmodified routines that sweep a matrix in memory, called on one block after    |
//! |            | another                                                                         |
//! | `facts`    | what traces are told                                                            |
//! | `compiled` | what no other crate compiles                                                    |
//!
//! [order]: plan::Order
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use syncline_blocks::BlockedSweep;
//! use syncline_store::{Block, Layout, Matrix, Shape};
//! use syncline_wave::{Sweep, kernels::Lk23, reference::plain_sweep};
//!
//! let shape = Shape::new(50, 70);
//! let mut numbers: Vec<f64> = (0..3500).map(f64::from).collect();
//! let field = Arc::new(Matrix::from_vec(shape, numbers.clone())?);
//! let fifth = Arc::new(Matrix::from_vec(shape, vec![0.2; 3500])?);
//! let coefficients = std::array::from_fn(|_| Arc::clone(&fifth));
//! let blocked = Matrix::zeros(shape, Layout::Blocked(Block::new(16, 16)))?;
//! let sweep = BlockedSweep::of(Sweep::new(Lk23).iterations(2));
//! let (result, _) = sweep.run(&field, &coefficients, blocked)?;
//!
//! (0..2).for_each(|_| plain_sweep(&Lk23, &mut numbers, [&[0.2; 3500]; 5], 50, 70));
//! let mut row = [0.0; 70];
//! result.read_row(33, &mut row)?;
//! assert_eq!(row, numbers[33 * 70..34 * 70]);
//! # Ok::<(), syncline_blocks::Error>(())
//! ```

mod block;
mod compiled;
mod error;
mod executor;
mod facts;
pub mod kernel;
pub mod plan;
mod sweep;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::Error;
pub use sweep::BlockedSweep;
