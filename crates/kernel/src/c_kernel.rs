//! A C function as a kernel.
//!
//! # Contract
//! The function is called once per point and iteration, and also for positions outside of the
//! matrix: the engine computes whole vectors and discards the values beyond the edge. The function
//! computes in `double`, whatever the element type of the matrices.
//!
//! # Costs
//! One call per value, with the point and its coefficients in memory: about 5 ns, ten times the
//! cost of a vectorised kernel.

use std::ffi::c_void;

use syncline_store::Element;

use crate::lanes::Vector;
use crate::point::{Neighbours, Update};
use crate::stencil::probe;
use crate::{Result, Stencil};

/// A point and its neighbours as a C function receives them.
///
/// ```c
/// struct syncline_point {
///     double centre, north, west, east, south;
///     double north_west, north_east, south_west, south_east;
/// };
/// ```
///
/// The neighbours above and to the left are updated already, see [`Neighbours`]. Neighbours that
/// the stencil of the kernel does not name are NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct CPoint {
    pub centre: f64,
    pub north: f64,
    pub west: f64,
    pub east: f64,
    pub south: f64,
    pub north_west: f64,
    pub north_east: f64,
    pub south_west: f64,
    pub south_east: f64,
}

impl CPoint {
    /// Returns the point whose members are `value` of the members of `at`.
    fn of<L>(at: &Neighbours<L>, value: impl Fn(&L) -> f64) -> Self {
        CPoint {
            centre: value(&at.centre),
            north: value(&at.north),
            west: value(&at.west),
            east: value(&at.east),
            south: value(&at.south),
            north_west: value(&at.north_west),
            north_east: value(&at.north_east),
            south_west: value(&at.south_west),
            south_east: value(&at.south_east),
        }
    }
}

/// The C function of a kernel: returns the new value of the point.
///
/// `double update(const struct syncline_point *at, const double *coefficients, void *context);`
pub type CFunction =
    unsafe extern "C" fn(at: *const CPoint, coefficients: *const f64, context: *mut c_void) -> f64;

/// The update of a point as a C function.
///
/// For the same bits as a Rust kernel the C compiler must not contract operations: compile with
/// `-ffp-contract=off` and without `-ffast-math`. For matrices of `f32` the values are widened to
/// `double`, and the result is rounded once.
#[derive(Clone, Copy, Debug)]
pub struct CKernel {
    function: CFunction,
    context: *mut c_void,
    coefficients: usize,
    stencil: Stencil,
}

// SAFETY: `CKernel::new` requires that the function may be called with the context from any thread.
unsafe impl Send for CKernel {}
// SAFETY: `CKernel::new` requires that it may be called from several threads at the same time.
unsafe impl Sync for CKernel {}

impl CKernel {
    /// Creates a kernel that calls `function` with `context` and with `coefficients` coefficients,
    /// and that reads the neighbours of `stencil`. The stencil also determines which edges stay,
    /// see [`Stencil`].
    ///
    /// Each sweep first calls the function with pseudo-random numbers, while the neighbours that
    /// the stencil does not name take several values. If the returned value depends on them, the
    /// sweep is refused with [`Error::Undeclared`](crate::Error::Undeclared).
    ///
    /// # Safety
    /// As long as the kernel or a copy of it exists:
    /// * It must be sound to call the function from any thread, also from several threads at the
    ///   same time, with this context, a point, and a pointer to that number of coefficients (which
    ///   is not readable if there are none), whatever the values: they are arbitrary where a point
    ///   does not exist.
    /// * The function must read nothing else through these pointers, keep none of them, and write
    ///   neither the point nor the coefficients.
    /// * The function must return: it must neither unwind nor jump out.
    pub const unsafe fn new(
        function: CFunction,
        context: *mut c_void,
        coefficients: usize,
        stencil: Stencil,
    ) -> Self {
        CKernel { function, context, coefficients, stencil }
    }

    pub(crate) const fn stencil(&self) -> Stencil {
        self.stencil
    }

    /// Returns the number of coefficients.
    #[must_use]
    pub const fn coefficients(&self) -> usize {
        self.coefficients
    }
}

/// Adapts a C function to the engine. `CORNERS` says whether north-east and south-west are loaded.
#[derive(Debug)]
pub(crate) struct Call<'k, const CORNERS: bool>(pub(crate) &'k CKernel);

impl<const CORNERS: bool> Update for Call<'_, CORNERS> {
    const DIAGONAL: bool = true;
    const CORNERS: bool = CORNERS;

    #[inline(always)]
    fn stencil(&self) -> Stencil {
        self.0.stencil
    }

    fn check(&self) -> Result<()> {
        let CKernel { function, context, coefficients, stencil } = *self.0;
        let mut own = vec![0.0; coefficients];
        probe::check(stencil, |at, random| {
            own.fill_with(|| random.coefficient());
            let point = CPoint::of(at, |value| *value);
            // SAFETY: `point` is a point, `own` holds the kernel's number of coefficients, and
            // `CKernel::new` requires that the function accepts any values of both.
            unsafe { function(&raw const point, own.as_ptr(), context) }
        })
    }

    #[inline(always)]
    fn coefficients(&self) -> usize {
        self.0.coefficients
    }

    #[inline(always)]
    unsafe fn update<L: Vector, const R: usize>(
        &self,
        at: [Neighbours<L>; R],
        coefficients: [*const L::Element; R],
        _: *mut u8,
    ) -> [L; R] {
        let mut new = [L::splat(0.0); R];
        // SAFETY: the caller guarantees that each pointer is aligned and valid for reads of all
        // coefficients.
        unsafe { values_of::<L, R>(self.0, &at, &coefficients, &mut new) };
        new
    }
}

/// Calls the function for each value of the vectors. It is kept out of the loop of the engine and
/// is compiled without vector instructions: the call dominates the cost.
///
/// # Safety
/// The conditions of [`Update::update`] must hold, except the one about instructions.
#[inline(never)]
unsafe fn values_of<L: Vector, const R: usize>(
    kernel: &CKernel,
    at: &[Neighbours<L>; R],
    coefficients: &[*const L::Element; R],
    new: &mut [L; R],
) {
    const { assert!(size_of::<L>() == L::WIDTH * size_of::<L::Element>()) };
    // Most kernels have few coefficients, which fit on the stack; the others pay for an allocation.
    let (mut few, mut many) = ([0.0; 32], Vec::new());
    let own: &mut [f64] = match few.get_mut(..kernel.coefficients) {
        Some(few) => few,
        None => {
            many.resize(kernel.coefficients, 0.0);
            &mut many
        }
    };
    let others = Stencil::NINE_POINT.without(kernel.stencil);
    for r in 0..R {
        let mut at = at[r];
        for neighbour in others.neighbours() {
            let values = std::ptr::from_mut(at.get_mut(neighbour)).cast::<L::Element>();
            // SAFETY: a vector consists of `WIDTH` contiguous values, and `i` is less than `WIDTH`.
            (0..L::WIDTH)
                .for_each(|i| unsafe { values.add(i).write(L::Element::from_f64(f64::NAN)) });
        }
        for i in 0..L::WIDTH {
            let value = |vector: &L| {
                let values = std::ptr::from_ref(vector).cast::<L::Element>();
                // SAFETY: a vector consists of `WIDTH` contiguous values, and `i` is less than
                // `WIDTH`.
                unsafe { values.add(i).read() }.to_f64()
            };
            for (n, own) in own.iter_mut().enumerate() {
                // SAFETY: value `i` of vector `n`; the caller guarantees that all coefficients are
                // valid for reads.
                *own = unsafe { coefficients[r].add(n * L::WIDTH + i).read() }.to_f64();
            }
            let point = CPoint::of(&at, value);
            // SAFETY: `point` is a point, `own` holds the kernel's number of coefficients, and
            // `CKernel::new` requires that the function accepts any values of both.
            let updated =
                unsafe { (kernel.function)(&raw const point, own.as_ptr(), kernel.context) };
            // SAFETY: a vector consists of `WIDTH` contiguous values, and `i` is less than `WIDTH`.
            unsafe {
                (&raw mut new[r]).cast::<L::Element>().add(i).write(L::Element::from_f64(updated))
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neighbour;

    /// Returns the sum of 40 coefficients, which are more than fit in the array on the stack.
    extern "C" fn many(at: *const CPoint, c: *const f64, _: *mut c_void) -> f64 {
        // SAFETY: the test passes a point and 40 coefficients.
        let (at, c) = unsafe { (*at, std::slice::from_raw_parts(c, 40)) };
        c.iter().fold(at.west, |sum, c| sum + c)
    }

    #[test]
    fn more_coefficients_than_fit_on_the_stack() {
        const WEST: Stencil = Stencil::of(&[Neighbour::West]);
        // SAFETY: the function accepts any values, may be called from any thread, and uses no
        // context.
        let many = unsafe { CKernel::new(many, std::ptr::null_mut(), 40, WEST) };
        let coefficients: [f64; 40] = std::array::from_fn(|n| n as f64);
        let at = Neighbours::of(&[1.0; 9], 4, 3, WEST);
        // SAFETY: there are 40 coefficients, and a plain number needs no special instructions.
        let new = unsafe {
            let coefficients = [coefficients.as_ptr()];
            Call::<false>(&many).update::<f64, 1>([at], coefficients, std::ptr::null_mut())
        };
        assert_eq!(new, [781.0]);
    }
}
