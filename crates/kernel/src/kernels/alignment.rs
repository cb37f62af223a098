//! The best alignment of two sequences: a dynamic program that takes one sweep.
//!
//! ```text
//!          -   A   C   G   .    Row 0 and column 0 are the edge and are given: 0, -gap, -2 gap ...
//!    -     0  -1  -2  -3   .    (all 0 for a local alignment). Point (j, k) is the best score of
//!    A    -1   1   0  -1   .    the first j letters of one sequence and the first k of the other.
//!    G    -2   0   0   1   .
//!    .     .   .   .   .   .    The last point is the score of both whole sequences.
//! ```
//!
//! Source: S. Needleman and C. Wunsch, J. Mol. Biol. 48 (1970); T. Smith and M. Waterman, J. Mol.
//! Biol. 147 (1981).

use crate::point::built_in;
use crate::{Error, Lane, Neighbour, Neighbours, PointKernel, Result, Stencil};

/// Scores of alignments with a linear gap penalty: `max(max(n, w) - gap, nw + s)`, where the
/// coefficient `s` is the score of the two letters that meet at the point. A local alignment also
/// takes the maximum with 0.
///
/// One iteration computes all scores; further iterations change nothing. Scores that are whole
/// numbers are exact. The field has one row and one column more than the sequences have letters.
/// The first row and column are never updated: they hold the scores of gaps alone. The coefficients
/// there have no meaning.
#[derive(Clone, Copy, Debug)]
pub struct Alignment {
    gap: f64,
    /// The lower bound of all scores.
    least: f64,
}

impl Alignment {
    /// Creates a kernel for global alignment (Needleman-Wunsch), in which each gap costs `gap`.
    ///
    /// # Errors
    /// [`Error::Gap`] unless `gap` is a finite number of at least 0.
    pub fn global(gap: f64) -> Result<Self> {
        if gap >= 0.0 && gap.is_finite() {
            Ok(Alignment { gap, least: f64::NEG_INFINITY })
        } else {
            Err(Error::Gap { gap })
        }
    }

    /// Creates a kernel for local alignment (Smith-Waterman): like global alignment, but no score
    /// is below 0.
    ///
    /// # Errors
    /// As for [`global`](Self::global).
    pub fn local(gap: f64) -> Result<Self> {
        Ok(Alignment { least: 0.0, ..Self::global(gap)? })
    }
}

impl PointKernel<1> for Alignment {
    const STENCIL: Stencil =
        Stencil::of(&[Neighbour::North, Neighbour::West, Neighbour::NorthWest]);

    #[inline(always)]
    fn update<L: Lane>(&self, at: Neighbours<L>, [score]: [L; 1]) -> L {
        let gapped = at.north.max(at.west) - L::splat(self.gap);
        L::splat(self.least).max((at.north_west + score).max(gapped))
    }

    built_in!(Alignment);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;
    use crate::plain::plain_sweep;

    /// Returns the field of an alignment and the scores of its letters.
    fn matrices(a: &[u8], b: &[u8], gap: f64) -> (Vec<f64>, Vec<f64>) {
        let cols = b.len() + 1;
        let mut field = vec![0.0; (a.len() + 1) * cols];
        let mut scores = field.clone();
        (1..=b.len()).for_each(|k| field[k] = -gap * k as f64);
        for (j, x) in a.iter().enumerate() {
            field[(j + 1) * cols] = -gap * (j + 1) as f64;
            for (k, y) in b.iter().enumerate() {
                scores[(j + 1) * cols + k + 1] = if x == y { 1.0 } else { -1.0 };
            }
        }
        (field, scores)
    }

    /// Computes the table with the textbook algorithm, in integers.
    fn textbook(a: &[u8], b: &[u8], gap: i64, local: bool) -> Vec<Vec<i64>> {
        let edge = |n: usize| if local { 0 } else { -gap * n as i64 };
        let mut table: Vec<Vec<i64>> = vec![(0..=b.len()).map(edge).collect()];
        for (j, x) in a.iter().enumerate() {
            let mut row = vec![edge(j + 1)];
            for (k, y) in b.iter().enumerate() {
                let meet = table[j][k] + if x == y { 1 } else { -1 };
                let best = meet.max(table[j][k + 1] - gap).max(row[k] - gap);
                row.push(if local { best.max(0) } else { best });
            }
            table.push(row);
        }
        table
    }

    #[test]
    fn the_example_of_the_literature() {
        // GCATGCG and GATTACA, the usual example: with scores of 1 and -1 and a gap of 1 the best
        // is 0.
        let (a, b) = (b"GCATGCG", b"GATTACA");
        let (mut field, scores) = matrices(a, b, 1.0);
        plain_sweep(&Alignment::global(1.0).unwrap(), &mut field, [&scores], 8, 8);
        assert_eq!(field[7 * 8 + 7], 0.0);
        assert_eq!(field[8..16], [-1.0, 1.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
    }

    #[test]
    fn gaps_are_numbers() {
        for gap in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(Alignment::global(gap), Err(Error::Gap { .. })));
            assert!(matches!(Alignment::local(gap), Err(Error::Gap { .. })));
        }
        // From NaN neighbours comes no score but NaN.
        let at = Neighbours::of(&[f64::NAN; 4], 3, 2, Alignment::STENCIL);
        assert!(Alignment::local(1.0).unwrap().update(at, [1.0]).is_nan());
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn equals_the_textbook(
            a in prop::collection::vec(0_u8..4, 1..40),
            b in prop::collection::vec(0_u8..4, 1..40),
            gap in 0_i64..4,
            local in any::<bool>(),
        ) {
            let kernel = if local { Alignment::local(gap as f64) } else { Alignment::global(gap as f64) };
            let (rows, cols) = (a.len() + 1, b.len() + 1);
            let (mut field, scores) = matrices(&a, &b, if local { 0.0 } else { gap as f64 });
            plain_sweep(&kernel.unwrap(), &mut field, [&scores], rows, cols);
            for (j, row) in textbook(&a, &b, gap, local).iter().enumerate() {
                for (k, score) in row.iter().enumerate() {
                    prop_assert_eq!(field[j * cols + k], *score as f64);
                }
            }
        }
    }
}
