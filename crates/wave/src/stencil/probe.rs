//! What a compiled function reads: found by calling it with other values where its stencil names
//! nothing.
//!
//! # Contract
//! [`undeclared`] calls a function at some points of pseudo-random values. At each, every neighbour
//! that the stencil does not name takes several values, among them such that `min` and `max` let
//! through; where the result changes, the function reads the neighbour. A function whose result
//! depends on a neighbour for few values only may pass.
//!
//! # Costs
//! At most some two thousand calls per sweep: about 10 microseconds.

use super::Stencil;
use crate::{Error, Neighbour, Neighbours, Result};

/// Points at which the function is called.
const POINTS: u64 = 64;
/// What the neighbours are that the stencil does not name: one after the other each of the others,
/// too. (The first is a number, as one that is none would hide all others in a sum.)
const VALUES: [f64; 4] = [0.5, f64::NAN, -1e30, 1e30];

/// Numbers that look random, the same in each run (S. Vigna's SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// A number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A coefficient: often 0 or 1, as masks are.
    pub(crate) fn coefficient(&mut self) -> f64 {
        (1.5 * self.next() - 0.25).clamp(0.0, 1.0)
    }
}

/// Checks a function that is called with a point and with coefficients from the random numbers.
///
/// # Errors
/// [`Error::Undeclared`].
pub(crate) fn check(
    stencil: Stencil,
    mut update: impl FnMut(&Neighbours<f64>, &mut Random) -> f64,
) -> Result<()> {
    let mut reads = Stencil::of(&[]);
    for point in 0..POINTS {
        let mut at = Neighbours::all(VALUES[0]);
        let mut random = Random(point);
        at.centre = 4.0 * random.next() - 2.0;
        stencil.neighbours().for_each(|n| *at.get_mut(n) = 4.0 * random.next() - 2.0);
        let mut bits = |at: &Neighbours<f64>| {
            let value = update(at, &mut Random(point << 32));
            if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
        };
        let expected = bits(&at);
        for neighbour in Neighbour::ALL.into_iter().filter(|n| !stencil.has(*n)) {
            let mut changes = |value: &f64| {
                let mut other = at;
                *other.get_mut(neighbour) = *value;
                bits(&other) != expected
            };
            if VALUES[1..].iter().any(&mut changes) {
                reads = reads.union(Stencil::of(&[neighbour]));
            }
        }
    }
    if reads.is_empty() { Ok(()) } else { Err(Error::Undeclared { reads, stencil }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_found() {
        let five = Stencil::FIVE_POINT;
        let sum = |at: &Neighbours<f64>| at.centre + at.north + at.west + at.east + at.south;
        check(five, |at, _| sum(at)).unwrap();
        check(Stencil::NINE_POINT, |at, _| sum(at) + at.south_west).unwrap();
        let ways: [fn(&Neighbours<f64>) -> f64; 5] = [
            |at| at.south_west,
            |at| at.south_west.min(at.north),
            |at| at.south_west.max(at.north),
            |at| if at.south_west < at.north { at.north } else { at.west },
            |at| at.north + 0.0 * at.south_west,
        ];
        for (n, way) in ways.into_iter().enumerate() {
            match check(five, |at, _| way(at)) {
                Err(Error::Undeclared { reads, .. }) => {
                    assert_eq!(reads.to_string(), "south-west", "{n}")
                }
                other => panic!("{n}: {other:?}"),
            }
        }
        // Neither hides the other.
        let both = check(five, |at, _| at.north + at.south_west + at.north_east);
        match both {
            Err(Error::Undeclared { reads, .. }) => {
                assert_eq!(reads.to_string(), "north-east and south-west")
            }
            other => panic!("{other:?}"),
        }
        // Only where a mask is 0.
        let masked = |at: &Neighbours<f64>, random: &mut Random| {
            if random.coefficient() == 0.0 { at.north_east } else { at.centre }
        };
        assert!(matches!(check(five, masked), Err(Error::Undeclared { .. })));
    }
}
