//! The plain double loop of a kernel over a matrix in memory.
//!
//! # Contract
//! [`plain_sweep`] updates the points one after another, row by row: every order-preserving run
//! equals it, bit for bit. It shares the update of a point with the vector loops, and nothing else.

use syncline_store::Shape;

use crate::lanes::Real;
use crate::stencil::record;
use crate::{Neighbours, PointKernel};

/// Runs one iteration of the plain double loop over a row-major field in memory.
///
/// It updates the points whose neighbours in the stencil of the kernel all exist, see
/// [`Stencil::updated`](crate::Stencil::updated); the others keep their values.
///
/// # Panics
/// If the field or a coefficient does not have `rows * cols` values, or if the kernel reads a
/// neighbour that its stencil does not name.
pub fn plain_sweep<T: Real, K: PointKernel<N>, const N: usize>(
    kernel: &K,
    field: &mut [T],
    coefficients: [&[T]; N],
    rows: usize,
    cols: usize,
) {
    assert_eq!(field.len(), rows * cols, "the field does not have this shape");
    let coefficients = coefficients.map(|c| {
        assert_eq!(c.len(), rows * cols, "a coefficient does not have this shape");
        c
    });
    if let Err(error) = record::declared(kernel) {
        panic!("{error}");
    }
    let updated = K::STENCIL.updated(Shape::new(rows, cols));
    for j in updated.row..updated.row + updated.rows {
        for k in updated.col..updated.col + updated.cols {
            let i = j * cols + k;
            let at = Neighbours::of(field, i, cols, K::STENCIL);
            field[i] = kernel.update(at, std::array::from_fn(|n| coefficients[n][i]));
        }
    }
}
