//! Wavefront sweeps over matrices larger than memory.
//!
//! A sweep updates the points of a matrix from their neighbours, row by row: the neighbours above
//! and to the left already have their new values, those to the right and below still have the old
//! ones. Points that lack a neighbour form the edge and keep their values. Livermore kernel 23,
//! Gauss-Seidel, SOR and sequence alignments are of this kind.
//!
//! A sweep is *streamed*: it runs many iterations in one pass over the rows, on all cores, with the
//! bits of the plain double loop. A window of rows slides once over the data, and bands follow one
//! another down the window. It takes row-major data. The crate `syncline_blocks` has sweeps of
//! other layouts and orders, block by block, which read all data once per iteration.
//!
//! Terms: a *wave* is the order of the double loop, in which the points along a diagonal are
//! updated at the same time and iterations follow one another closely. An *overlay* is the set of
//! tasks of a run together with the locks that they wait for.
//!
//! Sweeps compute with vectors: points along a diagonal do not depend on one another.
//!
//! * [`Sweep`]: what to run and how. [`Lanes`](lanes::Lanes), [`SweepReport`],
//!   [`Monitor`](monitor::Monitor).
//! * [`Target`](target::Target), [`Pending`](target::Pending): a result that survives a crash of
//!   the run.
//! * [`PointKernel`]: the update of one point, over any [`Lane`], and the [`Stencil`] of neighbours
//!   that it reads; [`Lk23`](kernels::Lk23), [`Sor`](kernels::Sor),
//!   [`NinePoint`](kernels::NinePoint), [`GaussSeidelVariable`](kernels::GaussSeidelVariable),
//!   [`Alignment`](kernels::Alignment).
//! * [`Described`]: the update as a text, which needs no compiler. A text may also be of several
//!   fields, other types, edges, directions, values before the iteration, or three dimensions: see
//!   [`Sweep::run_arrays`]. [`CKernel`](c::CKernel): the update as a C function.
//! * [`plain_sweep`](reference::plain_sweep): the plain double loop, in memory.
//!   [`Reference`](reference::Reference): the same over matrices of any size;
//!   [`first_difference`](reference::first_difference) compares two matrices.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use syncline_store::{Layout, Matrix, Shape};
//! use syncline_wave::{Sweep, kernels::Sor};
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

mod compiled;
mod engine;
mod engines;
mod error;
mod facts;
pub mod monitor;
mod pass;
pub mod plan;
pub mod reference;
mod run;
mod semaphore;
mod strip;
mod sweep;
mod team;
#[doc(hidden)]
pub mod unstable;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use error::{Error, Result};
pub use sweep::{Runner, Sweep, SweepReport};
#[doc(inline)]
pub use syncline_kernel::{Described, Lane, Neighbour, Neighbours, PointKernel, Stencil};

/// Kernels that are functions in C or Fortran.
pub mod c {
    #[doc(inline)]
    pub use syncline_kernel::c::{CFunction, CKernel, CPoint, CValues};
}

/// What the passes of this crate have in common with other executors of sweeps.
#[doc(hidden)]
pub mod executor {
    pub use crate::facts::{Data, note};
    pub use crate::semaphore::Semaphore;
    pub use crate::strip::pack::Rows;
    pub use crate::strip::tile::{Chain, Job, Scratch, run as run_tiles};
    pub use crate::sweep::matrices::Arrays;
    pub use crate::sweep::{Settings, matrices::resumption};
}

pub mod described {
    //! Descriptions of an update as a text, and what is wrong with a text.
    //!
    //! A function that the program gives, see [`Described::with_function`]:
    //!
    //! ```
    //! use syncline_store::array::Array;
    //! use syncline_wave::{Described, Sweep};
    //!
    //! let growth = Described::parse(r#"
    //!     name = "growth"
    //!     field = "u"
    //!     functions = ["logistic"]
    //!     update = "u = u + 0.1 * (old.w + old.e - 2*u) + logistic(u)"
    //! "#)?;
    //! let growth = growth.with_function("logistic", |arguments, results| {
    //!     for (result, u) in results.iter_mut().zip(arguments[0]) {
    //!         *result = 0.5 * u * (1.0 - (-u).exp());
    //!     }
    //! })?;
    //! let u = Array::from_vec(&[1, 3], vec![0.0, 1.0, 0.0])?;
    //! let (fields, _) = Sweep::new(growth).iterations(1).run_arrays(&[u], &[])?;
    //! let expected = 1.0 - 0.2 + 0.5 * (1.0 - (-1.0_f64).exp());
    //! assert_eq!(fields[0].values::<f64>().unwrap()[1], expected);
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```
    //!
    //! What runs each piece of a sweep, see [`Described::around_pieces`]:
    //!
    //! ```
    //! use std::sync::{Arc, Mutex};
    //!
    //! use syncline_store::array::Array;
    //! use syncline_wave::{Described, Sweep};
    //!
    //! let text = "name = 'n'\nfield = 'u'\nfunctions = ['count']\nupdate = 'u = count(old.w)'";
    //! let calls = Arc::new(Mutex::new(0));
    //! let lock = Arc::clone(&calls);
    //! let counted = Described::parse(text)?.with_function("count", move |arguments, results| {
    //!     assert!(lock.try_lock().is_err(), "the lock is held");
    //!     results.copy_from_slice(arguments[0]);
    //! })?;
    //! let lock = Arc::clone(&calls);
    //! let counted = counted.around_pieces(move |piece| {
    //!     let mut calls = lock.lock().unwrap();
    //!     *calls += 1;
    //!     piece();
    //! });
    //! let u = Array::from_vec(&[2, 3], vec![0.5; 6])?;
    //! Sweep::new(counted).iterations(2).run_arrays(&[u], &[])?;
    //! assert!(*calls.lock().unwrap() > 0);
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```

    #[doc(inline)]
    pub use syncline_kernel::described::{Described, DescribedError, TextPlace, unknown_name};
}

#[doc(inline)]
pub use syncline_kernel::kernels;

/// One value, or a vector of values, with which sweeps compute.
pub mod lanes {
    pub use crate::compiled::Real;
    #[doc(inline)]
    pub use syncline_kernel::lanes::{Insider, Lane, Lanes, Vector};
}

/// Where a sweep puts its result, and how an interrupted sweep is resumed.
pub mod target {
    pub use crate::run::start::{Resumption, Taken};
    pub use crate::run::target::{Leftovers, Pending, Target};
}
