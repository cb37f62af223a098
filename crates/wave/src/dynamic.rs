//! Type erasure of kernels for the executors.
//!
//! # Contract
//! Only the loops over points are compiled once per kernel type: a [`Kernel`] has one entry point
//! for the vector loops and one for the plain loop. The code around them is compiled once per
//! element type.
//!
//! # Costs
//! One virtual call per tile of columns, or per band of the plain loop.

use crate::kernel::{Neighbours, Update};
use crate::lanes::{Lanes, Real};
use crate::strip::tile::{self, Ends, Job, Scratch};
use crate::{Result, Stencil, c_kernel::CKernel};

/// A kernel as the executors see it. Every [`Update`] implements it.
pub(crate) trait Kernel<E: Real>: Sync {
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

    /// Runs all iterations of a job over one tile.
    ///
    /// # Safety
    /// The conditions of [`tile::run`] must hold, and the data that the tile reads must have been
    /// packed.
    unsafe fn tile(
        &self,
        lanes: Lanes,
        job: &Job<'_, E>,
        scratch: &mut Scratch<E>,
        ends: &Ends,
        norms: Option<&mut [f64]>,
    );

    /// Runs the double loop over `points` of `field`. Each element of `coefficients` holds one
    /// value for each of these points, row by row.
    fn plain(&self, field: &mut [E], coefficients: &[Vec<E>], points: PlainPoints);
}

/// The points that the plain loop updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainPoints {
    /// The index of the first point in the field.
    pub(crate) first: usize,
    /// The number of values from one row of the field to the next.
    pub(crate) pitch: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
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

    unsafe fn tile(
        &self,
        lanes: Lanes,
        job: &Job<'_, E>,
        scratch: &mut Scratch<E>,
        ends: &Ends,
        norms: Option<&mut [f64]>,
    ) {
        // SAFETY: the conditions are those of this function, which the caller guarantees.
        unsafe { tile::update(lanes, self, job, scratch, ends, norms) }
    }

    fn plain(&self, field: &mut [E], coefficients: &[Vec<E>], points: PlainPoints) {
        let PlainPoints { first, pitch, rows, cols } = points;
        assert_eq!(coefficients.len(), Update::coefficients(self));
        let mut here = vec![E::default(); coefficients.len()];
        for j in 0..rows {
            for k in 0..cols {
                let i = first + j * pitch + k;
                let at = Neighbours::of(field, i, pitch, Update::stencil(self));
                for (value, values) in here.iter_mut().zip(coefficients) {
                    *value = values[j * cols + k];
                }
                // SAFETY: `here` holds one value for each coefficient of the kernel, and a vector
                // of one plain number is aligned like it and needs no special instructions.
                [field[i]] = unsafe { self.update::<E, 1>([at], [here.as_ptr()]) };
            }
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Described {}
    impl Sealed for crate::c_kernel::CKernel {}
}

/// A kernel that is only known at run time: a [`Described`](crate::Described) or a [`CKernel`].
pub trait Dynamic: sealed::Sealed + Send + Sync {
    /// Returns the kernel as the executors see it.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>>;
}

impl Dynamic for crate::Described {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>> {
        Ok(E::described(self.code()?, self.rule()))
    }
}

impl Dynamic for CKernel {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>> {
        Ok(E::called(self))
    }
}
