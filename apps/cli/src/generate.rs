//! `syncline gen`: data to try things with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use syncline_store::{Layout, Matrix, Rect, Shape};

use crate::args::{GenArgs, Problem};
use crate::error::{Error, Result};
use crate::output::{NewDir, file_name};
use crate::units::{Bytes, Time, rate};
use crate::watch::{Signals, bar_of_bytes, watch};

/// Values that are made and written at once: 1 MiB.
const PIECE: usize = 1 << 17;

/// The values of a matrix.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Uniform from 0 to this, exclusive.
    Below(f64),
    /// Uniform in [0, 1) at the edge, zero inside.
    Edge,
}

/// Writes the matrices of a problem; returns what to print.
pub(crate) fn generate(args: &GenArgs, signals: &Signals) -> Result<String> {
    let start = Instant::now();
    let shape = Shape::new(args.rows, args.cols);
    let arrays = match args.problem {
        Problem::Lk23 => {
            let coefficients = ["zr", "zb", "zu", "zv", "zz"].map(|name| (name, Values::Below(0.25)));
            [("za", Values::Below(1.0))].into_iter().chain(coefficients).collect()
        }
        Problem::Poisson => vec![("u", Values::Edge), ("f", Values::Below(load(shape)))],
    };
    let bytes = Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor)? * arrays.len() as u64;
    let mut dir = NewDir::create(&args.dir, arrays.iter().map(|(name, _)| file_name(name, true)))?;
    // All files are made before the first is filled, so lack of room shows at once.
    let mut seeds = Pcg64Mcg::seed_from_u64(args.seed);
    let mut jobs = Vec::new();
    for (name, values) in arrays.iter().copied() {
        let matrix = dir.matrix(name, shape, Layout::RowMajor, true)?;
        jobs.push(Job { matrix, values, random: Pcg64Mcg::seed_from_u64(seeds.next_u64()) });
    }
    let chunks: Vec<_> = jobs.iter().map(|job| Arc::clone(job.matrix.chunk())).collect();
    let bar = bar_of_bytes("writing");
    bar.set_length(bytes);
    let look = |bar: &indicatif::ProgressBar| {
        bar.set_position(chunks.iter().map(|chunk| chunk.traffic().written).sum());
    };
    watch(signals, &bar, look, move || fill_all(jobs))?;
    dir.commit(signals)?;
    let time = start.elapsed();
    let (count, size, rate) = (arrays.len(), Bytes(bytes), rate(bytes, time));
    let dir = args.dir.display();
    Ok(format!("wrote {count} matrices of {shape}, {size}, to {dir} in {} ({rate}/s)", Time(time)))
}

/// The greatest value of the right-hand side: the square of the distance of points, times 8, which makes
/// solutions of size 1.
fn load(shape: Shape) -> f64 {
    let intervals = shape.rows.max(shape.cols).max(2) - 1;
    8.0 / (intervals as f64 * intervals as f64)
}

/// A matrix to be filled.
#[derive(Debug)]
struct Job {
    matrix: Matrix,
    values: Values,
    random: Pcg64Mcg,
}

/// Fills the matrices, several at a time.
fn fill_all(jobs: Vec<Job>) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut shares: Vec<Vec<Job>> = Vec::new();
    shares.resize_with(workers, Vec::new);
    for (n, job) in jobs.into_iter().enumerate() {
        shares[n % workers].push(job);
    }
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let start = |share: Vec<Job>| {
            let failed = &failed;
            scope.spawn(move || {
                share.into_iter().try_for_each(|job| job.fill(failed)).inspect_err(|_| {
                    // Relaxed: others only end sooner for it.
                    failed.store(1, Ordering::Relaxed);
                })
            })
        };
        let threads: Vec<_> = shares.into_iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Panic)))
    })
}

impl Job {
    /// Fills the matrix from the first row to the last, until another has failed.
    fn fill(mut self, failed: &AtomicUsize) -> Result<()> {
        let Shape { rows, cols } = self.matrix.shape();
        let width = cols.min(PIECE);
        let height = PIECE / width;
        let mut values = vec![0.0; width * height];
        for row in (0..rows).step_by(height) {
            for col in (0..cols).step_by(width) {
                if failed.load(Ordering::Relaxed) > 0 {
                    return Ok(());
                }
                let rect = Rect { row, col, rows: height.min(rows - row), cols: width.min(cols - col) };
                let values = &mut values[..rect.elements()];
                self.make(rect, values);
                self.matrix.write_rect(rect, values)?;
            }
        }
        Ok(())
    }

    /// The values of a piece, in the order of the file.
    fn make(&mut self, rect: Rect, values: &mut [f64]) {
        match self.values {
            Values::Below(bound) => values.fill_with(|| self.uniform() * bound),
            Values::Edge => {
                let Shape { rows, cols } = self.matrix.shape();
                for (i, value) in values.iter_mut().enumerate() {
                    let (row, col) = (rect.row + i / rect.cols, rect.col + i % rect.cols);
                    let edge = row == 0 || col == 0 || row == rows - 1 || col == cols - 1;
                    *value = if edge { self.uniform() } else { 0.0 };
                }
            }
        }
    }

    /// A number in [0, 1): the upper 53 bits.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 * f64::powi(2.0, -53)
    }
}
