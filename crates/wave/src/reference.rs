//! The plain double loop: what every order-keeping run must equal bit for bit.
//!
//! Nothing of the executor is used here: no blocks, no tasks, no locks. Large matrices are walked in
//! bands of rows, which changes no operation and no order.

use syncline_store::{Grid, Matrix, Rect, convert};

use crate::sweep::Order;
use crate::{Neighbours, PointKernel, Result};

/// One iteration of the plain double loop over a row-major field in memory.
///
/// Points at the edge stay; so does a matrix of fewer than three rows or columns.
///
/// # Panics
/// If the field or a coefficient has not `rows * cols` values.
pub fn plain_sweep<K: PointKernel<N>, const N: usize>(
    kernel: &K,
    field: &mut [f64],
    coefficients: [&[f64]; N],
    rows: usize,
    cols: usize,
) {
    assert_eq!(field.len(), rows * cols, "the field is not of this shape");
    let coefficients = coefficients.map(|c| {
        assert_eq!(c.len(), rows * cols, "a coefficient is not of this shape");
        c
    });
    for j in 1..rows.saturating_sub(1) {
        for k in 1..cols.saturating_sub(1) {
            let i = j * cols + k;
            let at = Neighbours {
                centre: field[i],
                north: field[i - cols],
                west: field[i - 1],
                east: field[i + 1],
                south: field[i + cols],
            };
            field[i] = kernel.update(at, std::array::from_fn(|n| coefficients[n][i]));
        }
    }
}

/// The plain double loop over matrices of any size and layout.
///
/// For [`Order::Wave`] and [`Order::Barrier`] that is `iterations` times [`plain_sweep`]. For
/// [`Order::MaxParallel`] it is the same loop over the blocks of `grid`, one block after the other: in
/// each iteration first those with an even sum of block row and column, then the others.
#[derive(Clone, Copy, Debug)]
pub struct Reference<'a, K, const N: usize> {
    /// The update of a point.
    pub kernel: &'a K,
    /// The input.
    pub field: &'a Matrix,
    /// The coefficients.
    pub coefficients: [&'a Matrix; N],
    /// How many iterations.
    pub iterations: u64,
    /// The order of the blocks.
    pub order: Order,
    /// The blocks; of no meaning for the orders of the double loop.
    pub grid: Grid,
}

impl<K: PointKernel<N>, const N: usize> Reference<'_, K, N> {
    /// Runs the loop inside about `memory` bytes. `work`, best row-major, is overwritten and returned with
    /// the result.
    ///
    /// # Errors
    /// When a matrix cannot be read or written.
    pub fn run(&self, mut work: Matrix, memory: u64) -> Result<Matrix> {
        convert(self.field, &mut work, memory)?;
        let shape = self.field.shape();
        let all = Rect { row: 0, col: 0, rows: shape.rows, cols: shape.cols };
        let rects: Vec<Rect> = match self.order {
            Order::Wave | Order::Barrier => vec![all],
            Order::MaxParallel => {
                let colour = |b: &usize| {
                    let (i, j) = self.grid.at(*b);
                    (i + j) % 2
                };
                let mut blocks: Vec<usize> = (0..self.grid.len()).collect();
                blocks.sort_by_key(colour);
                blocks.into_iter().map(|b| self.grid.rect(b)).collect()
            }
        };
        let mut bands = Bands::default();
        for _ in 0..self.iterations {
            for rect in &rects {
                bands.sweep(self.kernel, &mut work, &self.coefficients, *rect, memory)?;
            }
        }
        Ok(work)
    }
}

/// Buffers for a band of rows.
#[derive(Default)]
struct Bands {
    field: Vec<f64>,
    coefficients: Vec<Vec<f64>>,
}

impl Bands {
    /// The double loop over the interior points of `rect`.
    fn sweep<K: PointKernel<N>, const N: usize>(
        &mut self,
        kernel: &K,
        work: &mut Matrix,
        coefficients: &[&Matrix; N],
        rect: Rect,
        memory: u64,
    ) -> Result<()> {
        let shape = work.shape();
        let (top, left) = (rect.row.max(1), rect.col.max(1));
        let bottom = (rect.row + rect.rows).min(shape.rows - 1);
        let right = (rect.col + rect.cols).min(shape.cols - 1);
        if top >= bottom || left >= right {
            return Ok(());
        }
        let cols = right - left;
        let row_bytes = ((cols + 2) * size_of::<f64>() * (N + 1)) as u64;
        let height = usize::try_from(memory / 2 / row_bytes).unwrap_or(usize::MAX).clamp(3, 4096) - 2;
        self.coefficients.resize(N, Vec::new());
        let mut row = top;
        while row < bottom {
            let rows = height.min(bottom - row);
            // The band with one more row and column on each side.
            let halo = Rect { row: row - 1, col: left - 1, rows: rows + 2, cols: cols + 2 };
            self.field.resize(halo.rows * halo.cols, 0.0);
            work.read_rect(halo, &mut self.field)?;
            let band = Rect { row, col: left, rows, cols };
            for (values, matrix) in self.coefficients.iter_mut().zip(coefficients) {
                values.resize(rows * cols, 0.0);
                matrix.read_rect(band, values)?;
            }
            let c: [&[f64]; N] = std::array::from_fn(|n| &self.coefficients[n][..]);
            for j in 0..rows {
                for k in 0..cols {
                    let i = (j + 1) * halo.cols + k + 1;
                    let at = Neighbours {
                        centre: self.field[i],
                        north: self.field[i - halo.cols],
                        west: self.field[i - 1],
                        east: self.field[i + 1],
                        south: self.field[i + halo.cols],
                    };
                    self.field[i] = kernel.update(at, std::array::from_fn(|n| c[n][j * cols + k]));
                }
            }
            let inner = Rect { row, col: left - 1, rows, cols: cols + 2 };
            work.write_rect(inner, &self.field[halo.cols..][..rows * halo.cols])?;
            row += rows;
        }
        Ok(())
    }
}

/// Where two matrices differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The row.
    pub row: usize,
    /// The column.
    pub col: usize,
    /// The value in the first matrix.
    pub left: f64,
    /// The value in the second.
    pub right: f64,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { row, col, left, right } = self;
        write!(
            f,
            "row {row}, column {col}: {left:e} and {right:e} ({:#018x}, {:#018x})",
            left.to_bits(),
            right.to_bits()
        )
    }
}

/// The first place, row by row, where two matrices of one shape differ in their bits. Any two values
/// that are not numbers are equal.
///
/// # Errors
/// When a matrix cannot be read, or the shapes differ.
pub fn first_difference(left: &Matrix, right: &Matrix) -> Result<Option<Difference>> {
    if left.shape() != right.shape() {
        return Err(crate::Error::Shape {
            name: right.name().to_owned(),
            actual: right.shape(),
            field: left.name().to_owned(),
            expected: left.shape(),
        });
    }
    let (rows, cols) = (left.shape().rows, left.shape().cols);
    let band = (1_usize << 18).div_ceil(cols).min(rows);
    let (mut a, mut b) = (vec![0.0; band * cols], vec![0.0; band * cols]);
    for row in (0..rows).step_by(band) {
        let n = band.min(rows - row);
        let (a, b) = (&mut a[..n * cols], &mut b[..n * cols]);
        left.read_rows(row..row + n, a)?;
        right.read_rows(row..row + n, b)?;
        let differs = |(x, y): (&f64, &f64)| x.to_bits() != y.to_bits() && !(x.is_nan() && y.is_nan());
        if let Some(at) = a.iter().zip(b.iter()).position(differs) {
            let (left, right) = (a[at], b[at]);
            return Ok(Some(Difference { row: row + at / cols, col: at % cols, left, right }));
        }
    }
    Ok(None)
}
