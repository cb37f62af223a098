//! The plain double loop, which every order-preserving run must equal bit for bit.
//!
//! It uses no part of the executors: no blocks, no tasks, no locks. Large matrices are processed in
//! bands of rows, which changes neither the operations nor their order.

mod top;

use std::sync::Arc;

use syncline_kernel::dynamic::{Dynamic, Kernel, PlainPoints};
use syncline_kernel::rule::plain::plain;
use syncline_store::array::Array;
use syncline_store::{Layout, Matrix, convert, placement::Rect};

use crate::run::fields::Input;
use crate::sweep::check_arrays as check;
use crate::{Described, Error, Neighbour, PointKernel, Result, Stencil, lanes::Real};

#[doc(inline)]
pub use syncline_kernel::plain::plain_sweep;

/// Runs iterations of the plain loop of a description over arrays in memory: what
/// [`Sweep::run_arrays`](crate::Sweep::run_arrays) equals, bit for bit. It shares no code that
/// computes with the executors.
///
/// # Errors
/// As [`Sweep::run_arrays`](crate::Sweep::run_arrays), if the arrays are not those of the kernel.
pub fn plain_arrays(
    kernel: &Described,
    fields: &mut [Array],
    coefficients: &[Array],
    iterations: u64,
) -> Result<()> {
    let inputs: Vec<_> = fields.iter().chain(coefficients).map(Input::Memory).collect();
    check(kernel, (fields.len(), coefficients.len()), &inputs)?;
    let coefficients: Vec<&Array> = coefficients.iter().collect();
    plain(kernel.rule(), fields, &coefficients, 0..iterations);
    Ok(())
}

/// The plain double loop over matrices of any size and layout: [`plain_sweep`], `iterations` times.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a, T: Real, K> {
    /// The update of a point.
    pub kernel: &'a K,
    /// The input.
    pub field: &'a Matrix<T>,
    /// The coefficients.
    pub coefficients: &'a [Arc<Matrix<T>>],
    /// The number of iterations.
    pub iterations: u64,
}

/// The points that a loop updates in an iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'p> {
    /// All of them, in the order of the double loop.
    All,
    /// Those on which the first rows of the result depend.
    Top(usize),
    /// Those of these rectangles, one rectangle after another.
    Rects(&'p [Rect]),
}

impl<T: Real, K> Reference<'_, T, K> {
    /// Runs the loop with about `memory` bytes of buffers.
    ///
    /// `work`, preferably row-major, is overwritten and returned with the result.
    ///
    /// # Errors
    /// When a matrix cannot be read or written, the number of coefficients is not `N`, or the
    /// kernel reads neighbours that its stencil does not name.
    pub fn run<const N: usize>(&self, work: Matrix<T>, memory: u64) -> Result<Matrix<T>>
    where
        K: PointKernel<N>,
    {
        self.with(&*self.kernel.erased(), work, Part::All, memory)
    }

    /// Like [`run`](Self::run), for a kernel that is only known at run time.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_dynamic(&self, work: Matrix<T>, memory: u64) -> Result<Matrix<T>>
    where
        K: Dynamic,
    {
        self.with(&*self.kernel.kernel()?, work, Part::All, memory)
    }

    /// Runs the loop with a kernel, over a part of the points.
    fn with(
        &self,
        kernel: &dyn Kernel<T>,
        work: Matrix<T>,
        part: Part<'_>,
        memory: u64,
    ) -> Result<Matrix<T>> {
        let Reference { field, coefficients, iterations, .. } = *self;
        let loops = Reference { kernel: &kernel, field, coefficients, iterations };
        T::plain(&loops, work, part, memory)
    }

    /// Like [`run`](Self::run), with an erased kernel, and by rectangles: an iteration updates the
    /// points of one after another. For loops over blocks.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    #[doc(hidden)]
    pub fn run_rects(
        &self,
        kernel: &dyn Kernel<T>,
        work: Matrix<T>,
        rects: &[Rect],
        memory: u64,
    ) -> Result<Matrix<T>> {
        self.with(kernel, work, Part::Rects(rects), memory)
    }
}

impl<T: Real> Reference<'_, T, &dyn Kernel<T>> {
    /// Runs the loop on all rows, or by rectangles.
    pub(crate) fn update(
        &self,
        mut work: Matrix<T>,
        rects: Option<&[Rect]>,
        memory: u64,
    ) -> Result<Matrix<T>> {
        let kernel = *self.kernel;
        let (expected, given) = (kernel.coefficients(), self.coefficients.len());
        if expected != given {
            return Err(Error::Coefficients { expected, given });
        }
        kernel.check()?;
        convert(self.field, &mut work, memory)?;
        let shape = self.field.shape();
        let all = Rect { row: 0, col: 0, rows: shape.rows, cols: shape.cols };
        let mut bands = Bands::default();
        for _ in 0..self.iterations {
            for rect in rects.unwrap_or(&[all]) {
                bands.sweep(kernel, &mut work, self.coefficients, *rect, memory)?;
            }
        }
        Ok(work)
    }
}

/// Buffers for a band of rows.
#[derive(Default)]
struct Bands<T> {
    field: Vec<T>,
    coefficients: Vec<Vec<T>>,
}

impl<T: Real> Bands<T> {
    /// Runs the double loop over the points of `rect` that are updated.
    fn sweep(
        &mut self,
        kernel: &dyn Kernel<T>,
        work: &mut Matrix<T>,
        coefficients: &[Arc<Matrix<T>>],
        rect: Rect,
        memory: u64,
    ) -> Result<()> {
        let shape = work.shape();
        let stencil = kernel.stencil();
        let updated = stencil.updated(shape);
        let (top, left) = (rect.row.max(updated.row), rect.col.max(updated.col));
        let bottom = (rect.row + rect.rows).min(updated.row + updated.rows);
        let right = (rect.col + rect.cols).min(updated.col + updated.cols);
        if top >= bottom || left >= right {
            return Ok(());
        }
        let cols = right - left;
        let row_bytes = ((cols + 2) * T::BYTES * (coefficients.len() + 1)) as u64;
        let height =
            usize::try_from(memory / 2 / row_bytes).unwrap_or(usize::MAX).clamp(3, 4096) - 2;
        self.coefficients.resize(coefficients.len(), Vec::new());
        let mut row = top;
        while row < bottom {
            let rows = height.min(bottom - row);
            let halo = halo_of(Rect { row, col: left, rows, cols }, stencil);
            self.field.resize(halo.rows * halo.cols, T::default());
            work.read_rect(halo, &mut self.field)?;
            let band = Rect { row, col: left, rows, cols };
            for (values, matrix) in self.coefficients.iter_mut().zip(coefficients) {
                values.resize(rows * cols, T::default());
                matrix.read_rect(band, values)?;
            }
            let first = (row - halo.row) * halo.cols + left - halo.col;
            let points = PlainPoints { first, pitch: halo.cols, rows, cols };
            kernel.plain(&mut self.field, &self.coefficients, points);
            let inner = Rect { row, rows, ..halo };
            work.write_rect(
                inner,
                &self.field[(row - halo.row) * halo.cols..][..rows * halo.cols],
            )?;
            row += rows;
        }
        Ok(())
    }
}

/// Returns a part of a matrix, all points of which are updated, enlarged by the lines that contain
/// their neighbours.
fn halo_of(part: Rect, stencil: Stencil) -> Rect {
    let offsets = || stencil.neighbours().map(Neighbour::offset);
    let above = offsets().any(|(down, _)| down < 0);
    let below = offsets().any(|(down, _)| down > 0);
    let before = offsets().any(|(_, right)| right < 0);
    let after = offsets().any(|(_, right)| right > 0);
    Rect {
        row: part.row - usize::from(above),
        col: part.col - usize::from(before),
        rows: part.rows + usize::from(above) + usize::from(below),
        cols: part.cols + usize::from(before) + usize::from(after),
    }
}

/// The first difference between two matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference<T = f64> {
    /// The row.
    pub row: usize,
    /// The column.
    pub col: usize,
    /// The value in the first matrix.
    pub left: T,
    /// The value in the second matrix.
    pub right: T,
}

impl<T: Real> std::fmt::Display for Difference<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { row, col, left, right } = self;
        write!(
            f,
            "row {row}, column {col}: {left:e} and {right:e} ({:#018x}, {:#018x})",
            left.bits(),
            right.bits()
        )
    }
}

/// Returns the first position, row by row, at which two matrices of one shape differ in their bits.
/// Any two NaNs are equal.
///
/// It buffers two bands of rows: for row-major matrices half a megabyte, or two rows if that is
/// more; for other layouts four megabytes, and up to 8 MiB to read them.
///
/// # Errors
/// When a matrix cannot be read, or the shapes differ.
pub fn first_difference<T: Real>(
    left: &Matrix<T>,
    right: &Matrix<T>,
) -> Result<Option<Difference<T>>> {
    if left.shape() != right.shape() {
        return Err(crate::Error::Shape {
            name: right.name().to_owned(),
            actual: right.shape(),
            field: left.name().to_owned(),
            expected: left.shape(),
        });
    }
    first_difference_above(left, right, left.shape().rows)
}

/// Like [`first_difference`], in the first `rows` rows of two matrices that have at least that
/// number of rows and the same number of columns.
///
/// # Errors
/// When a matrix cannot be read or has fewer rows, or the numbers of columns differ.
pub fn first_difference_above<T: Real>(
    left: &Matrix<T>,
    right: &Matrix<T>,
    rows: usize,
) -> Result<Option<Difference<T>>> {
    let cols = left.shape().cols;
    // Blocked layouts need larger bands, so that whole blocks are read in few pieces.
    let in_rows = [left, right].iter().all(|matrix| matrix.layout() == Layout::RowMajor);
    let values = if in_rows { (1 << 18) / T::BYTES } else { 1 << 18 };
    let band = values.div_ceil(cols).min(rows);
    let (mut a, mut b) = (vec![T::default(); band * cols], vec![T::default(); band * cols]);
    for row in (0..rows).step_by(band) {
        let n = band.min(rows - row);
        let (a, b) = (&mut a[..n * cols], &mut b[..n * cols]);
        left.read_rows(row..row + n, a)?;
        right.read_rows(row..row + n, b)?;
        let differs = |(x, y): (&T, &T)| x.bits() != y.bits() && !(x.is_nan() && y.is_nan());
        if let Some(at) = a.iter().zip(b.iter()).position(differs) {
            let (left, right) = (a[at], b[at]);
            return Ok(Some(Difference { row: row + at / cols, col: at % cols, left, right }));
        }
    }
    Ok(None)
}
