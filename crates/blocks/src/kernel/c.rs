//! A C or Fortran routine that sweeps a whole matrix, called on one block after another.
//!
//! # Contract
//! The function receives a block with its halo as a plain matrix, see [`BlockKernel`]. It computes
//! in the element type of the matrices, `double` or `float`.
//!
//! # Costs
//! One call per block and iteration.

use std::ffi::c_void;

use syncline_store::Shape;
use syncline_wave::Stencil;

use super::{BlockKernel, Real};

/// The C function of a [`CBlockKernel`]; for `f32`, with `float` in place of `double`:
///
/// `void sweep(double *field, const double *const *coefficients, size_t rows, size_t cols, void
/// *context);`
///
/// It runs one iteration over a matrix of `rows` rows and `cols` columns, halo included, which is
/// stored row by row without gaps. It updates `field[j * cols + k]` where all neighbours of the
/// stencil exist. With five or nine points these are the points with `0 < j < rows - 1` and `0 < k
/// < cols - 1`; with north, west and north-west those with `0 < j < rows` and `0 < k < cols`.
/// Coefficient `n` of that point is `coefficients[n][j * cols + k]`.
pub type CBlockFunction<T> = unsafe extern "C" fn(
    field: *mut T,
    coefficients: *const *const T,
    rows: usize,
    cols: usize,
    context: *mut c_void,
);

/// A routine in C, or with the C calling convention, that sweeps a whole matrix.
///
/// A wrapper of a few lines translates the arguments of the engine into those of the existing
/// routine, which stays unchanged:
///
/// ```c
/// void lk23(int rows, int cols, int ld, double *za, const double *zr, ...);   /* existing code */
///
/// void lk23_block(double *za, const double *const *c, size_t rows, size_t cols, void *context) {
///     lk23(rows, cols, cols, za, c[0], c[1], c[2], c[3], c[4]);
/// }
/// ```
///
/// A Fortran array has the columns first: `field[j * cols + k]` here is `A(k + 1, j + 1)` of an
/// array `A(cols, rows)` there, with `cols` as its leading dimension. A routine whose sizes are
/// constants cannot be used, because blocks at the border are smaller.
///
/// For the same bits as the plain double loop the compiler must not contract operations: compile
/// with `-ffp-contract=off` and without `-ffast-math`.
#[derive(Clone, Copy, Debug)]
pub struct CBlockKernel<T> {
    function: CBlockFunction<T>,
    context: *mut c_void,
    coefficients: usize,
    stencil: Stencil,
}

// SAFETY: `CBlockKernel::new` requires that the function may be called with the context from any
// thread.
unsafe impl<T> Send for CBlockKernel<T> {}
// SAFETY: `CBlockKernel::new` requires that it may be called from several threads at the same time.
unsafe impl<T> Sync for CBlockKernel<T> {}

impl<T> CBlockKernel<T> {
    /// Creates a kernel that calls `function` with `context` and with `coefficients` coefficients,
    /// and that reads the neighbours of `stencil`.
    ///
    /// # Safety
    /// As long as the kernel or a copy of it exists:
    /// * It must be sound to call the function from any thread, also from several threads at the
    ///   same time, with this context, arrays of its type with at least one point to update, and
    ///   any values in them. Check existing code for this: it must have no static work arrays and
    ///   no common blocks.
    /// * The function may read and write the field and read the coefficients, within these sizes.
    ///   It must not keep any of the pointers.
    /// * The function must return: it must neither unwind nor jump out.
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
        // `sweep` is a method of a public trait, so safe code may call it with any arguments: check
        // them.
        let updated = self.stencil.updated(Shape::new(rows, cols));
        assert!(updated.rows > 0 && updated.cols > 0 && coefficients.len() == self.coefficients);
        let size = rows.checked_mul(cols);
        assert!(size == Some(field.len()) && coefficients.iter().all(|c| size == Some(c.len())));
        let coefficients: Vec<*const T> = coefficients.iter().map(|c| c.as_ptr()).collect();
        // SAFETY: the assertions above hold: all arrays are of these sizes, there is a point to
        // update, and the number of coefficients is the declared one. `field` is borrowed
        // exclusively. `CBlockKernel::new` requires that the function may be called with such
        // arguments.
        unsafe {
            (self.function)(field.as_mut_ptr(), coefficients.as_ptr(), rows, cols, self.context)
        };
    }
}
