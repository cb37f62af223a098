//! A C or Fortran routine that sweeps a whole matrix, on one block after the other.
//!
//! # Contract
//! The function gets a block with its halo as a plain matrix, see [`BlockKernel`]. It computes in
//! the type of the matrices, `double` or `float`.
//!
//! # Costs
//! One call per block and iteration.

use std::ffi::c_void;

use syncline_store::Shape;

use crate::{BlockKernel, Stencil, lanes::Real};

/// The C function of a [`CBlockKernel`]; for `f32`, with `float` in place of `double`:
///
/// `void sweep(double *field, const double *const *coefficients, size_t rows, size_t cols, void
/// *context);`
///
/// One iteration over a matrix of `rows` rows and `cols` columns, row by row without gaps, halo
/// included: it updates `field[j * cols + k]` where all neighbours of the stencil exist. With five
/// or nine points that is for `0 < j < rows - 1` and `0 < k < cols - 1`; with north, west and
/// north-west for `0 < j < rows` and `0 < k < cols`. Coefficient `n` of that point is
/// `coefficients[n][j * cols + k]`.
pub type CBlockFunction<T> = unsafe extern "C" fn(
    field: *mut T,
    coefficients: *const *const T,
    rows: usize,
    cols: usize,
    context: *mut c_void,
);

/// A routine in C, or anything that has C's calls, that sweeps a whole matrix.
///
/// Between the engine and the old routine stands a function of a few lines that names its
/// arguments; the routine itself stays as it is:
///
/// ```c
/// void lk23(int rows, int cols, int ld, double *za, const double *zr, ...);   /* old, wherever it is */
///
/// void lk23_block(double *za, const double *const *c, size_t rows, size_t cols, void *context) {
///     lk23(rows, cols, cols, za, c[0], c[1], c[2], c[3], c[4]);
/// }
/// ```
///
/// A routine in Fortran has the columns first: what is `field[j * cols + k]` here is `A(k + 1, j +
/// 1)` of an array `A(cols, rows)` there, with `cols` as its leading dimension. A routine whose
/// sizes are constants cannot be used: blocks at the border are smaller.
///
/// Equal bits ask for a compiler that does not contract: `-ffp-contract=off`, and no `-ffast-math`.
#[derive(Clone, Copy, Debug)]
pub struct CBlockKernel<T> {
    function: CBlockFunction<T>,
    context: *mut c_void,
    coefficients: usize,
    stencil: Stencil,
}

// SAFETY: `CBlockKernel::new` demands that the function may be called with the context from any
// thread.
unsafe impl<T> Send for CBlockKernel<T> {}
// SAFETY: as above, at the same time.
unsafe impl<T> Sync for CBlockKernel<T> {}

impl<T> CBlockKernel<T> {
    /// A kernel of this function, which gets `context` in each call and that many coefficients, and
    /// reads these neighbours.
    ///
    /// # Safety
    /// As long as the kernel or a copy of it exists:
    /// * The function may be called from any thread, also from several at the same time, with this
    ///   context, arrays of its type with at least one point to update, and whatever values in
    ///   them. Old code must be looked at for this: no static work arrays, no common blocks.
    /// * It reads and writes the field, and reads the coefficients, within these sizes; it keeps no
    ///   pointer. It returns: it neither unwinds nor jumps out.
    pub const unsafe fn new(
        function: CBlockFunction<T>,
        context: *mut c_void,
        coefficients: usize,
        stencil: Stencil,
    ) -> Self {
        CBlockKernel { function, context, coefficients, stencil }
    }
}

impl<T: Real> BlockKernel<T> for CBlockKernel<T> {
    fn coefficients(&self) -> usize {
        self.coefficients
    }

    fn stencil(&self) -> Stencil {
        self.stencil
    }

    fn sweep(&self, Shape { rows, cols }: Shape, field: &mut [T], coefficients: &[&[T]]) {
        // The trait is public, and so is this.
        let updated = self.stencil.updated(Shape::new(rows, cols));
        assert!(updated.rows > 0 && updated.cols > 0 && coefficients.len() == self.coefficients);
        let size = rows.checked_mul(cols);
        assert!(size == Some(field.len()) && coefficients.iter().all(|c| size == Some(c.len())));
        let coefficients: Vec<*const T> = coefficients.iter().map(|c| c.as_ptr()).collect();
        // SAFETY: what `CBlockKernel::new` asks for allows this call: the arrays are of these
        // sizes, and the field is lent to no other code.
        unsafe {
            (self.function)(field.as_mut_ptr(), coefficients.as_ptr(), rows, cols, self.context)
        };
    }
}
