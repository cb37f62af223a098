//! Gauss-Seidel on a linear system of five-point equations with separate coefficients at every
//! point.
//!
//! Source: the method is in every textbook, e.g. Y. Saad, "Iterative Methods for Sparse Linear
//! Systems", 2nd edition, SIAM 2003, section 4.1.

use crate::point::built_in;
use crate::{Lane, Neighbours, PointKernel, Stencil};

/// The Gauss-Seidel method with the coefficients `an`, `aw`, `ae`, `as`, `f` and `mask`, in this
/// order.
///
/// `u = ((((an * n + aw * w) + ae * e) + as * s) + f)` where the mask is 0; elsewhere the point
/// keeps its value (a Dirichlet condition). The association is as written, without contraction.
///
/// The equations must be divided by their diagonal. The equation `d u - cn n - cw w - ce e - cs s =
/// b` at a point gives `an = cn / d` and so on, and `f = b / d`. The method converges if the sum of
/// the magnitudes of `an` to `as` is at most 1 everywhere and less than 1 at some point (and the
/// points are connected); a heat equation with positive conductivities and some given temperature
/// is of this kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct GaussSeidelVariable;

impl GaussSeidelVariable {
    /// The names of the coefficients, in the order in which the kernel takes them.
    pub const COEFFICIENTS: [&'static str; 6] = ["an", "aw", "ae", "as", "f", "mask"];
}

impl PointKernel<6> for GaussSeidelVariable {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [an, aw, ae, south, f, mask]: [L; 6]) -> L {
        let new = an * at.north + aw * at.west + ae * at.east + south * at.south + f;
        L::choose(mask.equal(L::splat(0.0)), new, at.centre)
    }

    built_in!(GaussSeidelVariable);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::plain_sweep;
    use syncline_testkit::Random;

    fn numbers(seed: u64, count: usize, scale: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| random.fraction() * scale).collect()
    }

    #[test]
    fn one_point() {
        let mut at = Neighbours::of(
            &[0.0, 1.0, 0.0, 2.0, 9.0, 3.0, 0.0, 4.0, 0.0],
            4,
            3,
            Stencil::FIVE_POINT,
        );
        // 0.1 * 1 + 0.2 * 2 + 0.25 * 3 + 0.5 * 4 + 10
        let coefficients = |mask| [0.1, 0.2, 0.25, 0.5, 10.0, mask];
        assert_eq!(GaussSeidelVariable.update(at, coefficients(0.0)), 13.25);
        assert_eq!(GaussSeidelVariable.update(at, coefficients(1.0)), 9.0);
        at.centre = f64::NAN;
        assert_eq!(GaussSeidelVariable.update(at, coefficients(-0.0)), 13.25);
    }

    /// The method converges to the known solution of a system with random conductivities and the
    /// matching right-hand side.
    #[test]
    fn converges_to_the_solution() {
        let (rows, cols) = (12, 15);
        let n = rows * cols;
        let solution: Vec<f64> = numbers(1, n, 10.0);
        let [cn, cw, ce, cs]: [Vec<f64>; 4] =
            std::array::from_fn(|i| numbers(2 + i as u64, n, 1.0));
        let given = |i: usize| i % 7 == 3;
        let mut field = vec![0.0; n];
        let mut a = [(); 4].map(|()| vec![0.0; n]);
        let (mut f, mut mask) = (vec![0.0; n], vec![0.0; n]);
        for j in 0..rows {
            for k in 0..cols {
                let i = j * cols + k;
                let edge = j == 0 || k == 0 || j == rows - 1 || k == cols - 1;
                if edge || given(i) {
                    (field[i], mask[i]) = (solution[i], 1.0);
                    continue;
                }
                let diagonal = cn[i] + cw[i] + ce[i] + cs[i] + 0.1;
                let around = [i - cols, i - 1, i + 1, i + cols];
                let sum: f64 = [&cn, &cw, &ce, &cs]
                    .iter()
                    .zip(around)
                    .map(|(c, at)| c[i] * solution[at])
                    .sum();
                f[i] = (diagonal * solution[i] - sum) / diagonal;
                for (a, c) in a.iter_mut().zip([&cn, &cw, &ce, &cs]) {
                    a[i] = c[i] / diagonal;
                }
            }
        }
        for _ in 0..500 {
            plain_sweep(
                &GaussSeidelVariable,
                &mut field,
                [&a[0], &a[1], &a[2], &a[3], &f, &mask],
                rows,
                cols,
            );
        }
        for (value, expected) in field.iter().zip(&solution) {
            assert!((value - expected).abs() < 1e-12, "{value} and {expected}");
        }
    }
}
