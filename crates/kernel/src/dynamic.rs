//! Type erasure of kernels for the executors.
//!
//! # Contract
//! Only the loops over points are compiled once per kernel type: a [`Kernel`] has one entry point
//! for the vector loops and one for the plain loop. The code around them is compiled once per
//! element type.
//!
//! # Costs
//! Per tile of columns and four strips: one virtual call for four fused iterations, or for each
//! iteration that is not fused or at an edge of the matrix. Per band of the plain loop: one.

use crate::lanes::{Lanes, Real};
use crate::point::{Neighbours, Slots, Update};
use crate::strip::Ring;
use crate::strip::fused::Extent;
use crate::strip::inner::{self, Inner};
use crate::strip::masked::Dummy;
use crate::{Result, Stencil, c_kernel::CKernel};

/// A kernel as the executors see it. Every [`Update`] implements it.
pub trait Kernel<E: Real>: Sync {
    /// See [`Update::stencil`].
    fn stencil(&self) -> Stencil;

    /// See [`Update::check`].
    fn check(&self) -> Result<()>;

    /// See [`Update::coefficients`].
    fn coefficients(&self) -> usize;

    /// Returns the name of the kernel's type.
    fn name(&self) -> &'static str;

    /// See [`Update::CORNERS`].
    fn corners(&self) -> bool;

    /// Runs an innermost loop over four strips, and returns the greatest change: see
    /// [`inner::strips`].
    ///
    /// # Safety
    /// Those of [`inner::strips`].
    unsafe fn strips(
        &self,
        lanes: Lanes,
        inner: Inner,
        ring: &Ring<E>,
        dummy: &mut Dummy<E>,
        extent: Extent,
    ) -> f64;

    /// Runs the double loop over `points` of `field`. Each element of `coefficients` holds one
    /// value for each of these points, row by row.
    fn plain(&self, field: &mut [E], coefficients: &[Vec<E>], points: PlainPoints);
}

/// The points that the plain loop updates.
#[derive(Clone, Copy, Debug)]
pub struct PlainPoints {
    /// The index of the first point in the field.
    pub first: usize,
    /// The number of values from one row of the field to the next.
    pub pitch: usize,
    pub rows: usize,
    pub cols: usize,
}

impl<E: Real, U: Update> Kernel<E> for U {
    fn stencil(&self) -> Stencil {
        Update::stencil(self)
    }

    fn check(&self) -> Result<()> {
        Update::check(self)
    }

    fn coefficients(&self) -> usize {
        Update::coefficients(self)
    }

    fn name(&self) -> &'static str {
        std::any::type_name::<U>()
    }

    fn corners(&self) -> bool {
        U::CORNERS
    }

    unsafe fn strips(
        &self,
        lanes: Lanes,
        inner: Inner,
        ring: &Ring<E>,
        dummy: &mut Dummy<E>,
        extent: Extent,
    ) -> f64 {
        // SAFETY: the conditions are those of this function, which the caller guarantees.
        unsafe { inner::strips(lanes, inner, self, ring, dummy, extent) }
    }

    fn plain(&self, field: &mut [E], coefficients: &[Vec<E>], points: PlainPoints) {
        let PlainPoints { first, pitch, rows, cols } = points;
        assert_eq!(coefficients.len(), Update::coefficients(self));
        let mut here = vec![E::default(); coefficients.len()];
        let mut slots = Slots::default();
        let slots = self.prepare::<E, 1>(&mut slots);
        for j in 0..rows {
            // Not over ranges: see `strip::fused`.
            let (start, mut k) = (first + j * pitch, 0);
            while k < cols {
                let i = start + k;
                let at = Neighbours::of(field, i, pitch, Update::stencil(self));
                let mut n = 0;
                while n < here.len() {
                    here[n] = coefficients[n][j * cols + k];
                    n += 1;
                }
                // SAFETY: `here` holds one value for each coefficient of the kernel, a vector of
                // one plain number is aligned like it and needs no special instructions, and the
                // slots are those for it.
                [field[i]] = unsafe { self.update::<E, 1>([at], [here.as_ptr()], slots) };
                k += 1;
            }
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Described {}
    impl Sealed for crate::c_kernel::CKernel {}
    impl Sealed for crate::kernels::AnyKernel {}
}

/// A kernel that is only known at run time: a [`Described`](crate::Described), a [`CKernel`] or an
/// [`AnyKernel`](crate::kernels::AnyKernel).
pub trait Dynamic: sealed::Sealed + Send + Sync {
    /// Returns the kernel as the executors see it.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>>;
}

impl Dynamic for crate::Described {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>> {
        Ok(E::described(self.rule_of_matrices()?))
    }
}

impl Dynamic for CKernel {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>> {
        Ok(E::called(self))
    }
}
