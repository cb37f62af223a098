//! `--verify`: the plain loop over matrices of any size, and the comparison with it.
//!
//! # What a sample can be
//! A value of the result depends on everything above it and to its left, as new values chain
//! through an iteration, and on one more row below for each iteration. Therefore:
//!
//! | sample                               | sound | reason                                        |
//! |--------------------------------------|-------|-----------------------------------------------|
//! | the first rows                       | yes   | `rows + iterations` input rows fix every bit  |
//! | windows anywhere                     | no    | new values from outside enter every iteration |
//! | the last iteration, at random points | no    | the previous iteration is not stored          |
//! | the same sweep of a smaller problem  | no    | it says nothing about this result             |
//!
//! The first kind is implemented: it runs the loop itself, with its bits, on the file that gets the
//! name. Rows further down are not checked, and the summary says so.
//!
//! # What a sample costs
//! A first small sample of [`LEAST`] rows measures the cost of an update. The next sample has as
//! many rows as the time of the sweep, or a second, allows. The smallest sample updates `iterations
//! / 2` rows per iteration; it is refused if that is a quarter of the whole loop or more.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use syncline_blocks::kernel::Real;
use syncline_common::signals::Signals;
use syncline_store::{Grid, Layout, Matrix, NewFile, Shape};
use syncline_wave::{
    kernels::AnyKernel,
    reference::{first_difference, first_difference_above},
};

use crate::args::{BlockOrder, Extent, RunArgs};
use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::sweeps::{Arrays, Loops};
use crate::watch::{bar_of_bytes, watch};

/// Larger buffers make nothing faster.
const MOST: u64 = 256 << 20;
/// The two bands that are compared, and the buffer through which blocks are read.
const COMPARISON: u64 = 12 << 20;
/// The rows of the first sample: the edge, and some computed rows.
pub(crate) const LEAST: usize = 4;
/// The maximum number of rows of a sample, or four times the iterations if that is more; disk space
/// is reserved for them.
const SAMPLED: usize = 1024;

/// The time that a sample may take even if the sweep was shorter.
pub(crate) const AT_LEAST: Duration = Duration::from_secs(1);

/// The extent of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verified {
    /// The computation that the result was compared with.
    pub(crate) with: &'static str,
    /// The number of rows compared, from the first; `None` for all rows. 0 if any sample would have
    /// been too expensive.
    pub(crate) rows: Option<usize>,
}

/// Disk space for the result of the plain loop; the file never gets a name.
#[derive(Debug)]
pub(crate) struct Verification<T: Real> {
    /// Keeps the name reserved where the file system has no unnamed files, and removes the file.
    _new: NewFile,
    work: Matrix<T>,
    /// The blocks, if the result is of the order max-parallel.
    blocks: Option<Grid>,
    extent: Extent,
}

/// Refuses a sample that would not be cheaper than the whole loop.
///
/// # Errors
/// [`Error::Usage`].
pub(crate) fn check(args: &RunArgs, shape: Shape) -> Result<()> {
    if args.verify != Some(Extent::Sample) {
        return Ok(());
    }
    let refuse = |why: String| Err(Error::Usage(format!("--verify=sample {why}: give --verify")));
    if args.order == BlockOrder::MaxParallel {
        return refuse("is for the orders of the plain loop, not for max-parallel".to_owned());
    }
    match args.iterations {
        // With a tolerance, the number of iterations is not known in advance.
        n if is_dear(n, shape) && args.until.is_none() => refuse(format!(
            "compares the first rows, which after {n} iterations depend on {n} more, of {} in all, and so takes about as long",
            shape.rows
        )),
        _ => Ok(()),
    }
}

/// Returns whether the smallest sample takes a quarter of the whole loop or more.
const fn is_dear(iterations: u64, shape: Shape) -> bool {
    iterations > (shape.rows / 2) as u64
}

impl<T: Real> Verification<T> {
    /// Reserves disk space beside the output.
    ///
    /// # Errors
    /// [`Error::VerifyRoom`].
    pub(crate) fn reserve(
        output: &Path,
        shape: Shape,
        args: &RunArgs,
        extent: Extent,
    ) -> Result<Self> {
        let mut name = OsString::from(output);
        name.push(".reference");
        let iterations = usize::try_from(args.iterations).unwrap_or(usize::MAX);
        let rows = match extent {
            Extent::Full => shape.rows,
            Extent::Sample => most(iterations).saturating_add(iterations).min(shape.rows),
        };
        let shape = Shape::new(rows, shape.cols);
        let reserve = || {
            let bytes = Matrix::<T>::file_bytes(false, shape, Layout::RowMajor)?;
            let new = NewFile::create(Path::new(&name), bytes)?;
            let work = Matrix::create(&new, false, shape, Layout::RowMajor)?;
            Ok(Self { _new: new, work, blocks: None, extent })
        };
        reserve().map_err(Error::VerifyRoom)
    }

    /// Compares with the loop over these blocks, if `order` is the one whose numbers depend on
    /// them.
    pub(crate) fn in_blocks(self, order: BlockOrder, grid: Grid) -> Self {
        Self { blocks: (order == BlockOrder::MaxParallel).then_some(grid), ..self }
    }

    /// Runs the plain loop and compares the result with it; returns the extent of the comparison. A
    /// sample takes about `time`.
    ///
    /// # Errors
    /// [`Error::Differs`], and errors of reading and writing.
    #[expect(clippy::too_many_arguments, reason = "each is of its own kind")]
    pub(crate) fn compare(
        self,
        kernel: &AnyKernel,
        arrays: Arrays<T>,
        result: Matrix<T>,
        iterations: u64,
        time: Duration,
        bound: Bound,
        signals: &Signals,
    ) -> Result<Verified> {
        let with = match self.blocks {
            Some(_) => "the block red-black loop",
            None => "the plain double loop",
        };
        let in_rows = |matrix: &Matrix<T>| matrix.layout() == Layout::RowMajor;
        let in_rows = arrays.all().all(|matrix| in_rows(matrix)) && in_rows(&result);
        let besides = if in_rows { 1 << 20 } else { COMPARISON };
        // A bound that sufficed for the sweep but not for the comparison causes no error at this
        // point.
        let memory =
            bound.for_buffers("", 0).unwrap_or(0).saturating_sub(besides).clamp(1 << 19, MOST);
        let shape = result.shape();
        let loops = Loops { iterations, red_black: self.blocks, memory, top: None };
        let chunk = Arc::clone(self.work.chunk());
        let what = if self.extent == Extent::Full { "verifying" } else { "checking a sample" };
        let bar = bar_of_bytes(what, signals);
        bar.set_length(chunk.len().saturating_mul(iterations.saturating_add(1)));
        let look = move |bar: &ProgressBar| bar.set_position(chunk.traffic().written);
        let (work, extent, kernel) = (self.work, self.extent, kernel.clone());
        let (difference, rows) = watch(signals, &bar, look, move || match extent {
            Extent::Full => {
                let plain = loops.run(&kernel, &arrays, work)?;
                Ok((first_difference(&result, &plain)?, None))
            }
            Extent::Sample if is_dear(loops.iterations, shape) => Ok((None, Some(0))),
            Extent::Sample => sample(&kernel, loops, &arrays, &result, work, time.max(AT_LEAST)),
        })?;
        match difference {
            None => Ok(Verified { with, rows: rows.filter(|rows| *rows < shape.rows) }),
            Some(at) => Err(Error::Differs { with, at: at.to_string() }),
        }
    }
}

/// Returns the maximum number of rows of a sample.
fn most(iterations: usize) -> usize {
    iterations.saturating_mul(4).max(SAMPLED)
}

/// The difference that a sample found, and its number of rows.
type Sampled<T> = (Option<syncline_wave::reference::Difference<T>>, Option<usize>);

/// Computes and compares a few rows first, then as many as the time allows.
fn sample<T: Real>(
    kernel: &AnyKernel,
    loops: Loops,
    arrays: &Arrays<T>,
    result: &Matrix<T>,
    work: Matrix<T>,
    time: Duration,
) -> Result<Sampled<T>> {
    let start = Instant::now();
    let rows = result.shape().rows;
    let iterations = usize::try_from(loops.iterations).unwrap_or(usize::MAX);
    // Limited by the disk space for the rows below them.
    let fit =
        if work.shape().rows == rows { rows } else { work.shape().rows.saturating_sub(iterations) };
    let top = LEAST.min(fit);
    let work = Loops { top: Some(top), ..loops }.run(kernel, arrays, work)?;
    let found = first_difference_above(result, &work, top)?;
    let took = start.elapsed();
    let more = affordable(
        top,
        rows,
        loops.iterations,
        time.saturating_sub(took).as_secs_f64() / took.as_secs_f64(),
    );
    let more = more.min(most(iterations)).min(fit);
    if found.is_some() || more <= top {
        return Ok((found, Some(top)));
    }
    let work = Loops { top: Some(more), ..loops }.run(kernel, arrays, work)?;
    Ok((first_difference_above(result, &work, more)?, Some(more)))
}

/// Returns the number of rows whose sample takes `times` as long as that of `top` rows, at most
/// all.
fn affordable(top: usize, rows: usize, iterations: u64, times: f64) -> usize {
    // Counts copied and updated rows; none is below the last row.
    let cost = |top: usize| {
        let (top, rows, n) = (top as f64, rows as f64, iterations as f64);
        let (full, growing) = ((n - (rows - top)).max(0.0), n.min(rows - top));
        rows.min(top + n) + full * rows + growing * (top + growing / 2.0)
    };
    let budget = cost(top) * times;
    let (mut least, mut most) = (0, rows);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if cost(middle) <= budget { least = middle } else { most = middle - 1 }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong value is found in the rows that are reported as compared, and in no others.
    #[test]
    fn a_wrong_value_is_found_in_the_sample() {
        let shape = Shape::new(60, 20);
        let values = || (0..shape.elements()).map(|n| ((n * 7919) % 1009) as f64).collect();
        let arrays = Arrays {
            field: Arc::new(Matrix::from_vec(shape, values()).unwrap()),
            coefficients: vec![],
        };
        let kernel = AnyKernel::Sor(syncline_wave::kernels::Sor::gauss_seidel(), false);
        let loops = Loops { iterations: 7, red_black: None, memory: 1 << 20, top: None };
        let zeros = || Matrix::<f64>::zeros(shape, Layout::RowMajor).unwrap();
        let sampled = |wrong: Option<usize>, time| {
            let mut result = loops.run(&kernel, &arrays, zeros()).unwrap();
            if let Some(row) = wrong {
                let mut values = vec![0.0; shape.cols];
                result.read_row(row, &mut values).unwrap();
                values[3] += 1e-9;
                result.write_row(row, &values).unwrap();
            }
            let (found, rows) = sample(&kernel, loops, &arrays, &result, zeros(), time).unwrap();
            (found.map(|at| (at.row, at.col)), rows.unwrap())
        };
        let (none, hour) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(sampled(None, hour), (None, 60));
        assert_eq!(sampled(None, none), (None, LEAST));
        assert_eq!(sampled(Some(2), none), (Some((2, 3)), LEAST));
        assert_eq!(sampled(Some(LEAST), none), (None, LEAST));
        assert_eq!(sampled(Some(50), hour), (Some((50, 3)), 60));
    }

    #[test]
    fn a_sample_is_as_large_as_its_time() {
        // Without iterations, rows are only read.
        assert_eq!(affordable(4, 1000, 0, 10.0), 40);
        // A sample with the cost of the first is the first.
        for (rows, iterations) in [(1000, 5), (1000, 400), (50, 2000), (4, 1)] {
            assert_eq!(affordable(4, rows, iterations, 1.0), 4, "{rows}, {iterations}");
            assert!(affordable(4, rows, iterations, 3.0) <= rows);
            assert_eq!(affordable(4, rows, iterations, 1e9), rows);
            assert_eq!(affordable(4, rows, iterations, 0.0), 0);
        }
        // 10 iterations: each row costs ten updates, and the triangle below costs 50.
        let (four, rows) = (14.0 + 40.0 + 50.0, affordable(4, 1000, 10, 2.0) as f64);
        assert!((rows + 10.0 + 10.0 * rows + 50.0) <= 2.0 * four && rows >= 13.0, "{rows}");
    }
}
