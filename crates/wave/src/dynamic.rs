//! Kernels whose type the executors do not know.
//!
//! # Contract
//! Only the loops over points are compiled per type of kernel: a [`Kernel`] has one entry for those over
//! vectors and one for the plain loop. All that surrounds them is compiled once per type of elements.
//!
//! # Costs
//! A call through a table per tile of columns, or per band of the plain loop.

use crate::c_kernel::Call;
use crate::described::{Code, Program};
use crate::kernel::{Neighbours, Update};
use crate::lanes::{Lanes, Real};
use crate::strip::tile::{self, Ends, Job, Scratch};
use crate::{Result, Stencil, c_kernel::CKernel};

/// A kernel as the executors have it. Every [`Update`] is one.
pub(crate) trait Kernel<E: Real>: Sync {
    /// As [`Update::stencil`].
    fn stencil(&self) -> Stencil;

    /// As [`Update::check`].
    fn check(&self) -> Result<()>;

    /// As [`Update::coefficients`].
    fn coefficients(&self) -> usize;

    /// As [`Update::CORNERS`].
    fn corners(&self) -> bool;

    /// All iterations of a job over a tile.
    ///
    /// # Safety
    /// As [`tile::run`]; what the tile reads has been packed.
    unsafe fn tile(
        &self,
        lanes: Lanes,
        job: &Job<'_, E>,
        scratch: &mut Scratch<E>,
        ends: &Ends,
        norms: Option<&mut [f64]>,
    );

    /// The double loop over some points of `field`, whose coefficients these are, one after the other.
    fn plain(&self, field: &mut [E], coefficients: &[Vec<E>], points: PlainPoints);
}

/// Points that the plain loop updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainPoints {
    /// The first of them in the field.
    pub(crate) first: usize,
    /// Values from one row of the field to the next.
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
        // SAFETY: the caller's conditions.
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
                // SAFETY: as many coefficients as the kernel takes; a plain number needs no instructions.
                [field[i]] = unsafe { self.update::<E, 1>([at], [here.as_ptr()]) };
            }
        }
    }
}

/// Elements for which this crate compiles the loops of kernels that are only known at run time: once, as
/// nothing here is generic, and not in each crate that has such kernels.
pub trait Compiled: Sized {
    /// What a text describes.
    #[allow(private_interfaces)]
    fn described(code: &Code) -> Box<dyn Kernel<Self> + '_>
    where
        Self: Real;

    /// A C function.
    #[allow(private_interfaces)]
    fn called(kernel: &CKernel) -> Box<dyn Kernel<Self> + '_>
    where
        Self: Real;
}

macro_rules! compiled {
    ($($element:ty),*) => {$(
        impl Compiled for $element {
            #[allow(private_interfaces)]
            #[inline(never)]
            fn described(code: &Code) -> Box<dyn Kernel<Self> + '_> {
                match code.neighbours() {
                    5 => Box::new(Program::<5>(code)),
                    7 => Box::new(Program::<7>(code)),
                    _ => Box::new(Program::<9>(code)),
                }
            }

            #[allow(private_interfaces)]
            #[inline(never)]
            fn called(kernel: &CKernel) -> Box<dyn Kernel<Self> + '_> {
                if kernel.stencil().corners() {
                    Box::new(Call::<true>(kernel))
                } else {
                    Box::new(Call::<false>(kernel))
                }
            }
        }
    )*};
}

compiled!(f32, f64);

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Described {}
    impl Sealed for crate::c_kernel::CKernel {}
}

/// A kernel that is only known at run time: a [`Described`](crate::Described) one or a
/// [`CKernel`](crate::c_kernel::CKernel).
pub trait Dynamic: sealed::Sealed + Send + Sync {
    /// The kernel as the executors have it.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Box<dyn Kernel<E> + '_>;
}

impl Dynamic for crate::Described {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Box<dyn Kernel<E> + '_> {
        E::described(self.code())
    }
}

impl Dynamic for CKernel {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Box<dyn Kernel<E> + '_> {
        E::called(self)
    }
}
