//! Successive over-relaxation of the Poisson equation on the five-point stencil. Gauss-Seidel is
//! the case without over-relaxation.

use crate::point::built_in;
use crate::{Error, Lane, Neighbours, PointKernel, Result, Stencil};

/// Successive over-relaxation: `u += omega * ((n + s + e + w + f) / 4 - u)`.
///
/// The association is `((((n + s) + e) + w) + f) / 4`, without contraction. Without a right-hand
/// side (as a kernel of no coefficients) the term `f` is left out.
#[derive(Clone, Copy, Debug)]
pub struct Sor {
    omega: f64,
}

impl Sor {
    /// Creates a kernel with the relaxation factor `omega`, which must lie strictly between 0 and
    /// 2; the method does not converge with other values.
    ///
    /// # Errors
    /// [`Error::Omega`] for any other value.
    pub fn new(omega: f64) -> Result<Self> {
        if omega > 0.0 && omega < 2.0 { Ok(Sor { omega }) } else { Err(Error::Omega { omega }) }
    }

    /// Creates a kernel for the Gauss-Seidel method, in which `omega` is 1.
    #[must_use]
    pub const fn gauss_seidel() -> Self {
        Sor { omega: 1.0 }
    }
}

impl PointKernel<0> for Sor {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        at.centre
            + L::splat(self.omega)
                * ((at.north + at.south + at.east + at.west) / L::splat(4.0) - at.centre)
    }

    built_in!(Sor);
}

impl PointKernel<1> for Sor {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [f]: [L; 1]) -> L {
        at.centre
            + L::splat(self.omega)
                * ((at.north + at.south + at.east + at.west + f) / L::splat(4.0) - at.centre)
    }

    built_in!(SorWithF);
}
