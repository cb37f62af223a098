//! Matrices in memory and on disk: layouts, `.npy` files, direct I/O, results that survive a crash.
//!
//! A [`Matrix`] of `f64` or `f32` is on the heap or is a mapped file. A new file has no name before
//! it is complete, so a crash leaves either the whole result or nothing.
//!
//! ```
//! use syncline::store::{Layout, Matrix, NewFile, Shape};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("plate.npy");
//! let (shape, layout) = (Shape::new(3, 4), Layout::RowMajor);
//! let new = NewFile::create(&path, Matrix::<f64>::file_bytes(true, shape, layout)?)?;
//! let mut plate = Matrix::<f64>::create(&new, true, shape, layout)?;
//! plate.write_row(0, &[100.0; 4])?;
//! drop(plate);
//! new.commit()?; // the file gets its name
//! assert_eq!(Matrix::<f64>::open(&path)?.shape(), shape);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use syncline_store::*;
