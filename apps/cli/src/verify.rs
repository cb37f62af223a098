//! `--verify`: the plain loop over matrices of any size, and the comparison with it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;
use syncline_store::{Block, Grid, Layout, Matrix, NewFile, Shape};
use syncline_wave::{Order, Plan, Real, Report, first_difference};

use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::kernels::{Arrays, Loops, Runs};
use crate::watch::{Signals, bar_of_bytes, watch};

/// Buffers beyond this make nothing faster.
const MOST: u64 = 256 << 20;
/// The two bands that are compared, and the stage that they are read through.
const COMPARISON: u64 = 12 << 20;

/// Room for the plain loop's result; never gets a name.
#[derive(Debug)]
pub(crate) struct Verification<T: Real> {
    /// Only keeps the name free where the file system has no nameless files, and removes it.
    _new: NewFile,
    work: Matrix<T>,
    order: Order,
}

impl<T: Real> Verification<T> {
    /// Sets disk space aside, beside the output.
    ///
    /// # Errors
    /// [`Error::VerifyRoom`].
    pub(crate) fn reserve(output: &Path, shape: Shape, order: Order) -> Result<Self> {
        let mut name = OsString::from(output);
        name.push(".reference");
        let reserve = || {
            let bytes = Matrix::<T>::file_bytes(false, shape, Layout::RowMajor)?;
            let new = NewFile::create(Path::new(&name), bytes)?;
            let work = Matrix::create(&new, false, shape, Layout::RowMajor)?;
            Ok(Self { _new: new, work, order })
        };
        reserve().map_err(Error::VerifyRoom)
    }

    /// Runs the plain loop and compares; returns what it was.
    ///
    /// # Errors
    /// [`Error::Differs`], and when something cannot be read or written.
    pub(crate) fn compare(
        self,
        runs: Arc<dyn Runs<T>>,
        arrays: Arrays<T>,
        result: Matrix<T>,
        report: &Report,
        bound: Bound,
        signals: &Signals,
    ) -> Result<&'static str> {
        let order = self.order;
        let with = match order {
            Order::MaxParallel => "the block red-black loop",
            _ => "the plain double loop",
        };
        // A bound that held the sweep but not this is not worth an error now.
        let memory = bound.for_buffers("", 0).unwrap_or(0).saturating_sub(COMPARISON).clamp(1 << 20, MOST);
        let shape = result.shape();
        let grid = match &report.plan {
            Plan::Blocked(plan) => plan.grid,
            // The double loop has no blocks.
            _ => Grid::new(shape, Block::new(shape.rows, shape.cols)),
        };
        let iterations = report.iterations;
        let chunk = Arc::clone(self.work.chunk());
        let bar = bar_of_bytes("verifying", signals);
        bar.set_length(chunk.len().saturating_mul(iterations.saturating_add(1)));
        let look = move |bar: &ProgressBar| bar.set_position(chunk.traffic().written);
        let work = self.work;
        let difference = watch(signals, &bar, look, move || {
            let plain = runs.reference(Loops { iterations, order, grid, memory }, &arrays, work)?;
            Ok(first_difference(&result, &plain)?)
        })?;
        match difference {
            None => Ok(with),
            Some(at) => Err(Error::Differs { with, at: at.to_string() }),
        }
    }
}
