//! Wavefront sweeps over matrices larger than memory.
//!
//! A sweep updates every interior point of a matrix, row by row, from its four neighbours: the north
//! and west ones are new already, the south and east ones still old. Livermore kernel 23, Gauss-Seidel
//! and SOR are of this kind. The matrix is cut into blocks; each block is a location with an ordered
//! lock, and one task per block writes its own and reads its neighbours'. So the blocks of one
//! diagonal run at the same time, the next iteration starts at the upper left while this one ends at
//! the lower right, and the bits are those of the plain double loop.
//!
//! * [`Sweep`]: what to run and how. [`Order`], [`Report`], [`Monitor`].
//! * [`PointKernel`]: the update of one point; [`Lk23`], [`Sor`].
//! * [`plain_sweep`]: the plain double loop, in memory. [`Reference`]: the same over matrices of any size;
//!   [`first_difference`] compares.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use syncline_store::{Layout, Matrix, Shape};
//! use syncline_wave::{Sor, Sweep};
//!
//! // A plate, hot at the top, relaxed to within a millionth.
//! let shape = Shape::new(50, 80);
//! let mut plate = Matrix::zeros(shape, Layout::RowMajor)?;
//! plate.write_row(0, &[100.0; 80])?;
//! let result = Matrix::zeros(shape, Layout::RowMajor)?;
//! let sweep = Sweep::new(Sor::new(1.8)?).iterations(10_000).until(1e-6);
//! let (result, report) = sweep.run(&Arc::new(plate), &[], result)?;
//! assert!(report.converged.is_some());
//! let mut middle = [0.0; 80];
//! result.read_row(25, &mut middle)?;
//! assert!(middle[40] > 10.0 && middle[40] < 50.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
mod blocked;
mod error;
mod kernel;
mod lk23;
mod monitor;
mod plan;
mod reference;
mod sor;
mod sweep;
mod window;

pub use error::{Error, Result};
pub use kernel::{Neighbours, PointKernel};
pub use lk23::Lk23;
pub use monitor::Monitor;
pub use plan::Plan;
pub use reference::{Difference, Reference, first_difference, plain_sweep};
pub use sor::Sor;
pub use sweep::{Order, Report, Runner, Sweep};
