//! `--verify`: the plain loop over matrices of any size, and the comparison with it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;
use syncline_store::{Layout, Matrix, NewFile, Shape};
use syncline_wave::{Order, PointKernel, Reference, Report, first_difference};

use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::watch::{Signals, bar_of_bytes, watch};

/// Buffers beyond this make nothing faster.
const MOST: u64 = 256 << 20;
/// The two bands that are compared, and the stage that they are read through.
const COMPARISON: u64 = 12 << 20;

/// Room for the plain loop's result; never gets a name.
#[derive(Debug)]
pub(crate) struct Verification {
    /// Only keeps the name free where the file system has no nameless files, and removes it.
    _new: NewFile,
    work: Matrix,
    order: Order,
}

impl Verification {
    /// Sets disk space aside, beside the output.
    ///
    /// # Errors
    /// [`Error::VerifyRoom`].
    pub(crate) fn reserve(output: &Path, shape: Shape, order: Order) -> Result<Self> {
        let mut name = OsString::from(output);
        name.push(".reference");
        let reserve = || {
            let new = NewFile::create(
                Path::new(&name),
                Matrix::<f64>::file_bytes(false, shape, Layout::RowMajor)?,
            )?;
            let work = Matrix::create(&new, false, shape, Layout::RowMajor)?;
            Ok(Self { _new: new, work, order })
        };
        reserve().map_err(Error::VerifyRoom)
    }

    /// Runs the plain loop and compares; returns what it was.
    ///
    /// # Errors
    /// [`Error::Differs`], and when something cannot be read or written.
    pub(crate) fn compare<K, const N: usize>(
        self,
        kernel: K,
        (field, coefficients): (Arc<Matrix>, [Arc<Matrix>; N]),
        result: Matrix,
        report: &Report,
        bound: Bound,
        signals: &Signals,
    ) -> Result<&'static str>
    where
        K: PointKernel<N> + 'static,
    {
        let order = self.order;
        let with = match order {
            Order::MaxParallel => "the block red-black loop",
            _ => "the plain double loop",
        };
        // A bound that held the sweep but not this is not worth an error now.
        let memory = bound.for_buffers("", 0).unwrap_or(0).saturating_sub(COMPARISON).clamp(1 << 20, MOST);
        let (iterations, grid) = (report.iterations, report.plan.grid);
        let chunk = Arc::clone(self.work.chunk());
        let bar = bar_of_bytes("verifying");
        bar.set_length(chunk.len().saturating_mul(iterations.saturating_add(1)));
        let look = move |bar: &ProgressBar| bar.set_position(chunk.traffic().written);
        let work = self.work;
        let difference = watch(signals, &bar, look, move || {
            let coefficients = coefficients.each_ref().map(|matrix| &**matrix);
            let (kernel, field) = (&kernel, &*field);
            let loops = Reference { kernel, field, coefficients, iterations, order, grid };
            Ok(first_difference(&result, &loops.run(work, memory)?)?)
        })?;
        match difference {
            None => Ok(with),
            Some(at) => Err(Error::Differs { with, at: at.to_string() }),
        }
    }
}
