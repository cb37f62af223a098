//! Sweeps: the same update of every point of a matrix, many times, inside a memory bound.
//!
//! A sweep updates the points in the order of the plain double loop, and gives its bits. Matrices
//! on disk may be larger than memory: the streamed executor does many iterations in one pass over
//! them.
//!
//! ```
//! use std::sync::Arc;
//! use syncline::store::{Layout, Matrix, Shape};
//! use syncline::wave::{Runner, Sweep, kernels::Sor};
//!
//! let shape = Shape::new(50, 80);
//! let mut plate = Matrix::zeros(shape, Layout::RowMajor)?;
//! plate.write_row(0, &[100.0; 80])?; // hot at the top
//! let result = Matrix::zeros(shape, Layout::RowMajor)?;
//! let sweep = Sweep::new(Sor::new(1.8)?).iterations(1000).until(1e-6).runner(Runner::pool(2));
//! let (_plate, report) = sweep.run(&Arc::new(plate), &[], result)?;
//! assert!(report.converged.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A kernel is built in ([`kernels`]), an update in Rust ([`PointKernel`]), a text
//! ([`Described`]), or a function in C ([`c`]). [`blocks`] has sweeps in other layouts and orders,
//! and by unmodified routines.

pub use syncline_wave::*;

/// Sweeps in blocks: of matrices in any layout, in any order of the blocks, and by unmodified
/// routines that sweep a matrix in memory.
pub mod blocks {
    #[doc(inline)]
    pub use syncline_blocks::*;
}
