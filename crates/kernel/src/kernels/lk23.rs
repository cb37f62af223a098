//! Livermore kernel 23: an implicit hydrodynamics fragment.
//!
//! Source: F. McMahon, "The Livermore Fortran Kernels", UCRL-53745, 1986; as in Clauss, Gustedt and
//! Suter, "Out-of-Core Wavefront Computations with Reduced Synchronization", PDP 2008, Fig. 1.

use crate::point::built_in;
use crate::{Lane, Neighbours, PointKernel, Stencil};

/// Livermore kernel 23 on the field `za` with the coefficients `zr`, `zb`, `zu`, `zv` and `zz`, in
/// this order.
///
/// `qa = ((((S * zr + N * zb) + E * zu) + W * zv) + zz)`, then `za += 0.175 * (qa - za)`,
/// associated as written and without contraction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lk23;

impl Lk23 {
    /// The names of the coefficients, in the order in which the kernel takes them.
    pub const COEFFICIENTS: [&'static str; 5] = ["zr", "zb", "zu", "zv", "zz"];
}

impl PointKernel<5> for Lk23 {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [zr, zb, zu, zv, zz]: [L; 5]) -> L {
        let qa = at.south * zr + at.north * zb + at.east * zu + at.west * zv + zz;
        at.centre + L::splat(0.175) * (qa - at.centre)
    }

    built_in!(Lk23);
}
