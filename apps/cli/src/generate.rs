//! `syncline gen`: data to try things with.

mod arrays;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use syncline_common::signals::Signals;
use syncline_common::units::{Bytes, Time, rate};
use syncline_store::array::Array;
use syncline_store::{Element, Layout, Matrix, Shape, placement::Rect};

use crate::args::{Dtype, GenArgs, Problem};
use crate::error::{Error, Result};
use crate::output::{NewDir, file_name};
use crate::watch::{bar_of_bytes, watch};

/// The number of values generated and written at once: 1 MiB of doubles.
const PIECE: usize = 1 << 17;

/// The distribution of the values of a matrix.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Uniform in [0, bound).
    Below(f64),
    /// Uniform in [0, 1) at the edge, zero inside.
    Edge,
}

/// Writes the matrices of a problem; returns the text to print.
pub(crate) fn generate(args: &GenArgs, signals: &Signals) -> Result<String> {
    if let Some(arrays) =
        arrays::arrays(args.problem, [args.rows, args.cols], args.dtype, args.seed)
    {
        return write(args, &arrays?, signals);
    }
    match args.dtype {
        Dtype::Float64 => generate_as::<f64>(args, signals),
        Dtype::Float32 => generate_as::<f32>(args, signals),
    }
}

/// Writes arrays; returns the text to print.
fn write(args: &GenArgs, arrays: &[(&str, Array)], signals: &Signals) -> Result<String> {
    let start = Instant::now();
    let names = arrays.iter().map(|(name, _)| file_name(name, true));
    let mut dir = NewDir::create(&args.dir, names)?;
    arrays.iter().try_for_each(|(name, array)| dir.array(name, array))?;
    dir.commit(signals, |_| Ok(()))?;
    let bytes = arrays.iter().map(|(_, array)| array.bytes().len() as u64).sum();
    let (time, count, size) = (start.elapsed(), arrays.len(), Bytes(bytes));
    let (shape, dir) = (Shape::new(args.rows, args.cols), args.dir.display());
    let s = if count == 1 { "" } else { "s" };
    Ok(format!("wrote {count} array{s} of {shape}, {size}, to {dir} in {}", Time(time)))
}

fn generate_as<T: Element>(args: &GenArgs, signals: &Signals) -> Result<String> {
    let start = Instant::now();
    let shape = Shape::new(args.rows, args.cols);
    let arrays = match args.problem {
        Problem::Lk23 => {
            let coefficients =
                ["zr", "zb", "zu", "zv", "zz"].map(|name| (name, Values::Below(0.25)));
            [("za", Values::Below(1.0))].into_iter().chain(coefficients).collect()
        }
        _ => vec![("u", Values::Edge), ("f", Values::Below(load(shape)))],
    };
    let bytes = Matrix::<T>::file_bytes(true, shape, Layout::RowMajor)? * arrays.len() as u64;
    let mut dir = NewDir::create(&args.dir, arrays.iter().map(|(name, _)| file_name(name, true)))?;
    // All files are created before the first is filled, so that a lack of space shows at once.
    let mut seeds = Pcg64Mcg::seed_from_u64(args.seed);
    let mut jobs = Vec::new();
    for (name, values) in arrays.iter().copied() {
        let matrix = dir.matrix::<T>(name, shape, Layout::RowMajor, true)?;
        jobs.push(Job { matrix, values, random: Pcg64Mcg::seed_from_u64(seeds.next_u64()) });
    }
    let chunks: Vec<_> = jobs.iter().map(|job| Arc::clone(job.matrix.chunk())).collect();
    let bar = bar_of_bytes("writing", signals);
    bar.set_length(bytes);
    let look = |bar: &indicatif::ProgressBar| {
        bar.set_position(chunks.iter().map(|chunk| chunk.traffic().written).sum());
    };
    watch(signals, &bar, look, move || fill_all(jobs))?;
    dir.commit(signals, |_| Ok(()))?;
    let time = start.elapsed();
    let (count, size, rate) = (arrays.len(), Bytes(bytes), rate(bytes, time));
    let dir = args.dir.display();
    Ok(format!("wrote {count} matrices of {shape}, {size}, to {dir} in {} ({rate}/s)", Time(time)))
}

/// Returns the bound of the right-hand side: 8 times the squared distance of neighbouring points,
/// which makes solutions of size 1.
fn load(shape: Shape) -> f64 {
    let intervals = shape.rows.max(shape.cols).max(2) - 1;
    8.0 / (intervals as f64 * intervals as f64)
}

/// A matrix to fill.
#[derive(Debug)]
struct Job<T: Element> {
    matrix: Matrix<T>,
    values: Values,
    random: Pcg64Mcg,
}

/// Fills the matrices, several at a time.
fn fill_all<T: Element>(jobs: Vec<Job<T>>) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut shares: Vec<Vec<Job<T>>> = Vec::new();
    shares.resize_with(workers, Vec::new);
    for (n, job) in jobs.into_iter().enumerate() {
        shares[n % workers].push(job);
    }
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let start = |share: Vec<Job<T>>| {
            let failed = &failed;
            scope.spawn(move || {
                share.into_iter().try_for_each(|job| job.fill(failed)).inspect_err(|_| {
                    // Relaxed: the flag publishes no data; it only makes the other threads end
                    // sooner.
                    failed.store(1, Ordering::Relaxed);
                })
            })
        };
        let threads: Vec<_> = shares.into_iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Panic)))
    })
}

impl<T: Element> Job<T> {
    /// Fills the matrix from the first row to the last; stops when another matrix has failed.
    fn fill(mut self, failed: &AtomicUsize) -> Result<()> {
        let Shape { rows, cols } = self.matrix.shape();
        let width = cols.min(PIECE);
        let height = PIECE / width;
        let mut values = vec![T::default(); width * height];
        for row in (0..rows).step_by(height) {
            for col in (0..cols).step_by(width) {
                if failed.load(Ordering::Relaxed) > 0 {
                    return Ok(());
                }
                let rect =
                    Rect { row, col, rows: height.min(rows - row), cols: width.min(cols - col) };
                let values = &mut values[..rect.elements()];
                self.make(rect, values);
                self.matrix.write_rect(rect, values)?;
            }
        }
        Ok(())
    }

    /// Generates the values of a rectangle, in the order of the file.
    fn make(&mut self, rect: Rect, values: &mut [T]) {
        match self.values {
            Values::Below(bound) => values.fill_with(|| fit(self.uniform() * bound)),
            Values::Edge => {
                let Shape { rows, cols } = self.matrix.shape();
                for (i, value) in values.iter_mut().enumerate() {
                    let (row, col) = (rect.row + i / rect.cols, rect.col + i % rect.cols);
                    let edge = row == 0 || col == 0 || row == rows - 1 || col == cols - 1;
                    *value = if edge { fit(self.uniform()) } else { T::default() };
                }
            }
        }
    }

    /// Returns a number in [0, 1), made of the upper 53 bits.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 * f64::powi(2.0, -53)
    }
}

/// Rounds a positive value towards zero, so that it stays below every bound of the exact value.
fn fit<T: Element>(value: f64) -> T {
    /// The number of significand bits that an `f64` has more than an `f32`.
    const EXTRA: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    let extra = if T::BYTES == size_of::<f32>() { EXTRA } else { 0 };
    T::from_f64(f64::from_bits(value.to_bits() >> extra << extra))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn what_fits_is_the_greatest_value_not_above(value in prop_oneof![0.0..1.0, 0.0..1e-30, 0.9999999..1.0]) {
            prop_assert_eq!(fit::<f64>(value).to_bits(), value.to_bits());
            let single: f32 = fit(value);
            prop_assert!(f64::from(single) <= value && value < f64::from(single.next_up()));
        }
    }
}
