//! Over-relaxation of the Poisson equation on nine points.
//!
//! ```text
//!  1   4   1
//!  4 -20   4    / (6 h^2): Collatz's "Mehrstellen" Laplacian
//!  1   4   1
//! ```
//!
//! Source: L. Collatz, "The Numerical Treatment of Differential Equations", Springer 1960, table
//! VI. The method is of fourth order if the right-hand side is also taken at five points, and of
//! sixth order where it is 0.

use crate::point::built_in;
use crate::{Error, Lane, Neighbours, PointKernel, Result, Stencil};

/// Over-relaxation on nine points: `u += omega * ((4 * (n + s + e + w) + (ne + nw + se + sw) + f) /
/// 20 - u)`.
///
/// Both sums in parentheses are associated to the left, and so is the sum of the three terms;
/// nothing is contracted. Without a right-hand side (as a kernel of no coefficients) the term `f`
/// is left out.
///
/// For `-(d2u/dx2 + d2u/dy2) = r` on a mesh of width `h`, `f` is `6 h^2 (r + h^2 / 12 * laplacian
/// of r)`; computed from five points it is `h^2 / 2 * (8 r + r_n + r_s + r_e + r_w)`.
#[derive(Clone, Copy, Debug)]
pub struct NinePoint {
    omega: f64,
}

impl NinePoint {
    /// Creates a kernel with the relaxation factor `omega`, which must lie strictly between 0 and
    /// 2; the method does not converge with other values.
    ///
    /// # Errors
    /// [`Error::Omega`] for any other value.
    pub fn new(omega: f64) -> Result<Self> {
        if omega > 0.0 && omega < 2.0 {
            Ok(NinePoint { omega })
        } else {
            Err(Error::Omega { omega })
        }
    }

    /// Creates a kernel for the Gauss-Seidel method, in which `omega` is 1.
    #[must_use]
    pub const fn gauss_seidel() -> Self {
        NinePoint { omega: 1.0 }
    }

    /// Moves the point towards a twentieth of the sum, by the relaxation factor.
    #[inline(always)]
    fn relax<L: Lane>(&self, centre: L, sum: L) -> L {
        centre + L::splat(self.omega) * (sum / L::splat(20.0) - centre)
    }
}

/// Returns the weighted sum of the eight neighbours.
#[inline(always)]
fn sum<L: Lane>(at: &Neighbours<L>) -> L {
    L::splat(4.0) * (at.north + at.south + at.east + at.west)
        + (at.north_east + at.north_west + at.south_east + at.south_west)
}

impl PointKernel<0> for NinePoint {
    const STENCIL: Stencil = Stencil::NINE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        self.relax(at.centre, sum(&at))
    }

    built_in!(NinePoint);
}

impl PointKernel<1> for NinePoint {
    const STENCIL: Stencil = Stencil::NINE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [f]: [L; 1]) -> L {
        self.relax(at.centre, sum(&at) + f)
    }

    built_in!(NinePointWithF);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::plain_sweep;

    #[test]
    fn one_point() {
        let at = Neighbours::of(
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0],
            4,
            3,
            Stencil::NINE_POINT,
        );
        // 4 * (2 + 8 + 6 + 4) + (3 + 1 + 10 + 7) = 101
        assert_eq!(NinePoint::gauss_seidel().update(at, []), 5.0 + (101.0 / 20.0 - 5.0));
        assert_eq!(
            NinePoint::new(1.5).unwrap().update(at, [9.0]),
            5.0 + 1.5 * (110.0 / 20.0 - 5.0)
        );
        assert!(matches!(NinePoint::new(2.0), Err(Error::Omega { .. })));
        assert!(matches!(NinePoint::new(f64::NAN), Err(Error::Omega { .. })));
    }

    /// A harmonic polynomial of degree five has no error on this stencil, so the sweep converges to
    /// it.
    #[test]
    fn harmonic_polynomials_are_exact() {
        let (rows, cols) = (9, 11);
        let exact = |j: usize, k: usize| {
            let (x, y) = (k as f64 / 8.0, j as f64 / 8.0);
            x.powi(5) - 10.0 * x.powi(3) * y.powi(2) + 5.0 * x * y.powi(4)
        };
        let mut field = vec![0.0; rows * cols];
        for j in 0..rows {
            for k in 0..cols {
                if j == 0 || k == 0 || j == rows - 1 || k == cols - 1 {
                    field[j * cols + k] = exact(j, k);
                }
            }
        }
        for _ in 0..300 {
            plain_sweep(&NinePoint::new(1.4).unwrap(), &mut field, [], rows, cols);
        }
        for (i, value) in field.iter().enumerate() {
            assert!((value - exact(i / cols, i % cols)).abs() < 1e-12, "{i}: {value}");
        }
    }
}
