//! A kernel that is chosen at run time.

use super::{Alignment, GaussSeidelVariable, Lk23, NinePoint, Sor};
use crate::dynamic::{Dynamic, Kernel};
use crate::lanes::Real;
use crate::stencil::Stencil;
use crate::{Described, PointKernel, Result};

/// A built-in kernel with its parameters, or a text: what a program runs that takes its kernel from
/// a user.
///
/// ```
/// # extern crate syncline_kernel as syncline_wave;
/// use syncline_wave::kernels::{AnyKernel, Sor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let chosen = if true { AnyKernel::Lk23 } else { AnyKernel::Sor(Sor::new(1.5)?, false) };
/// assert!(!chosen.stencil().corners());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyKernel {
    /// [`Lk23`].
    Lk23,
    /// [`Sor`], and whether there is a right-hand side.
    Sor(Sor, bool),
    /// [`NinePoint`], and whether there is a right-hand side.
    NinePoint(NinePoint, bool),
    /// [`GaussSeidelVariable`].
    GaussSeidelVariable,
    /// [`Alignment`].
    Alignment(Alignment),
    /// A text, for sweeps over matrices.
    Described(Box<Described>),
}

impl AnyKernel {
    /// Returns the neighbours that the kernel reads.
    #[must_use]
    pub fn stencil(&self) -> Stencil {
        match self {
            AnyKernel::Lk23 => Lk23::STENCIL,
            AnyKernel::Sor(..) => <Sor as PointKernel<0>>::STENCIL,
            AnyKernel::NinePoint(..) => <NinePoint as PointKernel<0>>::STENCIL,
            AnyKernel::GaussSeidelVariable => GaussSeidelVariable::STENCIL,
            AnyKernel::Alignment(_) => Alignment::STENCIL,
            AnyKernel::Described(described) => described.stencil(),
        }
    }
}

impl Dynamic for AnyKernel {
    #[allow(private_interfaces)]
    fn kernel<E: Real>(&self) -> Result<Box<dyn Kernel<E> + '_>> {
        Ok(match self {
            AnyKernel::Lk23 => Lk23.erased(),
            AnyKernel::Sor(kernel, false) => PointKernel::<0>::erased(kernel),
            AnyKernel::Sor(kernel, true) => PointKernel::<1>::erased(kernel),
            AnyKernel::NinePoint(kernel, false) => PointKernel::<0>::erased(kernel),
            AnyKernel::NinePoint(kernel, true) => PointKernel::<1>::erased(kernel),
            AnyKernel::GaussSeidelVariable => GaussSeidelVariable.erased(),
            AnyKernel::Alignment(kernel) => kernel.erased(),
            AnyKernel::Described(described) => described.kernel()?,
        })
    }
}
