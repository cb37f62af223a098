//! The plain double loop for the first rows only.
//!
//! # Why the first rows
//! In the order of the double loop a point uses new values above and to its left, and old values to
//! its right and below. Within one iteration new values propagate down and sideways as far as the
//! matrix reaches, so that a point depends on all points above it. A point depends on the rows
//! below it by one row per iteration, whatever the kernel, because neighbours touch:
//!
//! ```text
//! known rows   0 ..................................... rows + iterations    input
//!              0 .............................. rows + iterations - 1       after iteration 1
//!              ...
//!              0 ........ rows                                              after the last one
//! ```
//!
//! So `rows + iterations` rows of the input determine every bit of the first `rows` rows of the
//! result. A window in the middle depends on all rows above it: a computation that starts there
//! needs values of intermediate iterations, which a sweep of many iterations in one pass never
//! stores.
//!
//! # Costs
//! `iterations * (rows + iterations / 2)` updates of a row, instead of `iterations` times all rows.

use syncline_kernel::dynamic::{Dynamic, Kernel};
use syncline_store::{Matrix, placement::Rect};

use super::{Bands, Part, Reference};
use crate::{Error, PointKernel, Result, lanes::Real};

impl<T: Real, K> Reference<'_, T, K> {
    /// Runs the loop on the rows that the first `rows` rows of the result depend on, with about
    /// `memory` bytes of buffers.
    ///
    /// `work`, preferably row-major, is overwritten and returned. Its first `rows` rows are those
    /// of the result; the others are unspecified. It must have the columns of the field, and at
    /// least `rows + iterations` rows or all rows of the field, but no more than the field.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Error::Shape`] if `work` has another shape.
    ///
    /// ```
    /// use syncline_store::{Layout, Matrix, Shape};
    /// use syncline_wave::{kernels::Sor, reference::Reference};
    ///
    /// let (shape, kernel) = (Shape::new(50, 7), Sor::gauss_seidel());
    /// let field = Matrix::from_vec(shape, (0..350).map(f64::from).collect())?;
    /// let loops = Reference { kernel: &kernel, field: &field, coefficients: &[], iterations: 3 };
    /// let all = loops.run::<0>(Matrix::zeros(shape, Layout::RowMajor)?, 1 << 20)?;
    /// let some =
    ///     loops.run_top::<0>(Matrix::zeros(Shape::new(13, 7), Layout::RowMajor)?, 10, 1 << 20)?;
    /// let (mut one, mut other) = ([0.0; 70], [0.0; 70]);
    /// all.read_rows(0..10, &mut one)?;
    /// some.read_rows(0..10, &mut other)?;
    /// assert_eq!(one, other);
    /// # Ok::<(), syncline_wave::Error>(())
    /// ```
    pub fn run_top<const N: usize>(
        &self,
        work: Matrix<T>,
        rows: usize,
        memory: u64,
    ) -> Result<Matrix<T>>
    where
        K: PointKernel<N>,
    {
        self.with(&*self.kernel.erased(), work, Part::Top(rows), memory)
    }

    /// Like [`run_top`](Self::run_top), for a kernel that is only known at run time.
    ///
    /// # Errors
    /// As for [`run_top`](Self::run_top).
    pub fn run_top_dynamic(&self, work: Matrix<T>, rows: usize, memory: u64) -> Result<Matrix<T>>
    where
        K: Dynamic,
    {
        self.with(&*self.kernel.kernel()?, work, Part::Top(rows), memory)
    }
}

impl<T: Real> Reference<'_, T, &dyn Kernel<T>> {
    /// Runs the loop on the rows that the first `rows` rows of the result depend on.
    pub(crate) fn update_top(
        &self,
        mut work: Matrix<T>,
        rows: usize,
        memory: u64,
    ) -> Result<Matrix<T>> {
        let kernel = *self.kernel;
        let (expected, given) = (kernel.coefficients(), self.coefficients.len());
        if expected != given {
            return Err(Error::Coefficients { expected, given });
        }
        kernel.check()?;
        let (shape, room) = (self.field.shape(), work.shape());
        let count = |iterations: u64| usize::try_from(iterations).unwrap_or(usize::MAX);
        let needed = rows.saturating_add(count(self.iterations)).min(shape.rows);
        if room.cols != shape.cols || room.rows < needed || room.rows > shape.rows {
            return Err(Error::Shape {
                name: work.name().to_owned(),
                actual: room,
                field: self.field.name().to_owned(),
                expected: shape,
            });
        }
        copy_top(self.field, &mut work, needed, memory)?;
        let mut bands = Bands::default();
        for iteration in 1..=self.iterations {
            let rows = rows.saturating_add(count(self.iterations - iteration)).min(needed);
            let rect = Rect { row: 0, col: 0, rows, cols: shape.cols };
            bands.sweep(kernel, &mut work, self.coefficients, rect, memory)?;
        }
        Ok(work)
    }
}

/// Copies the first `rows` rows, with a buffer of at most `memory` bytes or of one row.
fn copy_top<T: Real>(from: &Matrix<T>, to: &mut Matrix<T>, rows: usize, memory: u64) -> Result<()> {
    let cols = from.shape().cols;
    let fit = usize::try_from(memory / (cols * T::BYTES) as u64).unwrap_or(usize::MAX);
    let together = fit.clamp(1, rows.max(1));
    let mut values = vec![T::default(); together * cols];
    for row in (0..rows).step_by(together) {
        let range = row..rows.min(row + together);
        let values = &mut values[..range.len() * cols];
        from.read_rows(range.clone(), values)?;
        to.write_rows(range, values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syncline_store::{Layout, Shape};

    use super::*;
    use crate::kernels::{NinePoint, Sor};
    use crate::reference::{first_difference, first_difference_above};

    fn field(shape: Shape) -> Matrix<f64> {
        let values = (0..shape.elements()).map(|n| ((n * 7919) % 1009) as f64 / 7.0).collect();
        Matrix::from_vec(shape, values).unwrap()
    }

    fn check<K: PointKernel<0>>(kernel: &K, shape: Shape, iterations: u64, rows: usize) {
        let field = field(shape);
        let loops = Reference { kernel, field: &field, coefficients: &[], iterations };
        let zeros = |rows| Matrix::zeros(Shape::new(rows, shape.cols), Layout::RowMajor).unwrap();
        let all = loops.run::<0>(zeros(shape.rows), 1 << 20).unwrap();
        let needed = (rows + iterations as usize).min(shape.rows);
        for room in [needed, (needed + 2).min(shape.rows)] {
            // With little memory, so that bands end at any row.
            let top = loops.run_top::<0>(zeros(room), rows, 512).unwrap();
            let found = first_difference_above(&top, &all, rows).unwrap();
            assert_eq!(found, None, "{rows} rows of {shape}, {iterations} iterations");
        }
        if needed > rows {
            let short = loops.run_top::<0>(zeros(needed - 1), rows, 512);
            assert!(matches!(short, Err(Error::Shape { .. })));
        }
    }

    #[test]
    fn the_first_rows_are_those_of_the_whole_loop() {
        for (rows, cols) in [(40, 9), (12, 30), (3, 3), (2, 5)] {
            for iterations in [0, 1, 2, 7, 50] {
                for top in [1, 2, 5, rows] {
                    check(&Sor::gauss_seidel(), Shape::new(rows, cols), iterations, top.min(rows));
                    check(
                        &NinePoint::new(1.5).unwrap(),
                        Shape::new(rows, cols),
                        iterations,
                        top.min(rows),
                    );
                }
            }
        }
    }

    #[test]
    fn a_wrong_value_is_found_where_it_is_looked_for() {
        let shape = Shape::new(30, 8);
        let (left, mut right) = (field(shape), field(shape));
        right.write_row(11, &[0.5; 8]).unwrap();
        assert_eq!(first_difference_above(&left, &right, 11).unwrap(), None);
        let at = first_difference_above(&left, &right, 12).unwrap().unwrap();
        assert_eq!((at.row, at.right), (11, 0.5));
        assert_eq!(first_difference(&left, &right).unwrap(), Some(at));
    }
}
