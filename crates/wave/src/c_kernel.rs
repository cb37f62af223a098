//! A C function as a kernel.
//!
//! # Contract
//! The function is called once per point and iteration, and for points that do not exist besides:
//! the engine computes whole vectors and drops what is beyond the edge. It computes in `double`,
//! whatever the type of the matrices.
//!
//! # Costs
//! A call per value, with the point and its coefficients in memory: some 5 ns, ten times those of
//! vectors.

use std::ffi::c_void;

use syncline_store::Element;

use crate::kernel::{Neighbours, Update};
use crate::lanes::Vector;
use crate::stencil::probe;
use crate::{Result, Stencil};

/// A point and its neighbours as a C function has them.
///
/// ```c
/// struct syncline_point {
///     double centre, north, west, east, south;
///     double north_west, north_east, south_west, south_east;
/// };
/// ```
///
/// Above and to the left they are updated already, see [`Neighbours`]. Neighbours that the kernel's
/// stencil does not name are not a number (NaN).
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
    /// The point with these values.
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

/// The C function of a kernel: the new value of the point.
///
/// `double update(const struct syncline_point *at, const double *coefficients, void *context);`
pub type CFunction =
    unsafe extern "C" fn(at: *const CPoint, coefficients: *const f64, context: *mut c_void) -> f64;

/// The update of a point as a C function.
///
/// Equal bits ask for a C compiler that does not contract: `-ffp-contract=off`, and no
/// `-ffast-math`. For matrices of floats the values are widened, and the result is rounded once.
#[derive(Clone, Copy, Debug)]
pub struct CKernel {
    function: CFunction,
    context: *mut c_void,
    coefficients: usize,
    stencil: Stencil,
}

// SAFETY: `CKernel::new` demands that the function may be called with the context from any thread.
unsafe impl Send for CKernel {}
// SAFETY: as above, at the same time.
unsafe impl Sync for CKernel {}

impl CKernel {
    /// A kernel of this function, which gets `context` in each call and that many coefficients, and
    /// reads the neighbours of this stencil. It says which edges stay, too, see [`Stencil`].
    ///
    /// Each sweep first calls the function with some pseudo-random numbers, where the neighbours
    /// that the stencil does not name take several values. If that changes what it returns, the
    /// sweep is refused with [`Error::Undeclared`](crate::Error::Undeclared).
    ///
    /// # Safety
    /// As long as the kernel or a copy of it exists:
    /// * The function may be called from any thread, also from several at the same time, with this
    ///   context, a point, and a pointer to that many coefficients (not to be read if there are
    ///   none), whatever the values: they are any numbers where a point does not exist.
    /// * It reads nothing else through these pointers, keeps none of them, writes neither the point
    ///   nor the coefficients, and returns: it neither unwinds nor jumps out.
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

    /// How many coefficients there are.
    #[must_use]
    pub const fn coefficients(&self) -> usize {
        self.coefficients
    }
}

/// A C function as the engine has it.
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
            // SAFETY: what `CKernel::new` asks for allows this call.
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
    ) -> [L; R] {
        let mut new = [L::splat(0.0); R];
        // SAFETY: the caller's conditions.
        unsafe { values_of::<L, R>(self.0, &at, &coefficients, &mut new) };
        new
    }
}

/// Calls the function for each value of the vectors. Not part of the engine's loop, and without
/// vectors' own instructions: the call is what costs.
///
/// # Safety
/// As [`Update::update`], but for the instructions.
#[inline(never)]
unsafe fn values_of<L: Vector, const R: usize>(
    kernel: &CKernel,
    at: &[Neighbours<L>; R],
    coefficients: &[*const L::Element; R],
    new: &mut [L; R],
) {
    const { assert!(size_of::<L>() == L::WIDTH * size_of::<L::Element>()) };
    // Most kernels have few; the others pay for memory.
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
            // SAFETY: a vector is `WIDTH` values, one after the other.
            (0..L::WIDTH)
                .for_each(|i| unsafe { values.add(i).write(L::Element::from_f64(f64::NAN)) });
        }
        for i in 0..L::WIDTH {
            let value = |vector: &L| {
                let values = std::ptr::from_ref(vector).cast::<L::Element>();
                // SAFETY: a vector is `WIDTH` values, one after the other.
                unsafe { values.add(i).read() }.to_f64()
            };
            for (n, own) in own.iter_mut().enumerate() {
                // SAFETY: value `i` of vector `n`, as the caller warrants.
                *own = unsafe { coefficients[r].add(n * L::WIDTH + i).read() }.to_f64();
            }
            let point = CPoint::of(&at, value);
            // SAFETY: what `CKernel::new` asks for allows this call.
            let updated =
                unsafe { (kernel.function)(&raw const point, own.as_ptr(), kernel.context) };
            // SAFETY: value `i` of a vector.
            unsafe {
                (&raw mut new[r]).cast::<L::Element>().add(i).write(L::Element::from_f64(updated))
            };
        }
    }
}

#[cfg(test)]
mod tests;
