//! Detects the neighbours that a compiled function reads, by varying the values of the neighbours
//! that its stencil does not name.
//!
//! # Contract
//! [`check`] calls a function at some points of pseudo-random values. At each point, every
//! neighbour that the stencil does not name takes several values, among them values that pass
//! through `min` and `max`; if the result changes, the function reads the neighbour. A function
//! whose result depends on a neighbour for few values only may pass undetected.
//!
//! # Costs
//! At most about two thousand calls per sweep: about 10 microseconds.

use super::Stencil;
use crate::{Error, Neighbour, Neighbours, Result};

/// The number of points at which the function is called.
const POINTS: u64 = 64;
/// The values of the neighbours that the stencil does not name: all of them have the first value,
/// and each in turn takes the other values. (The first is a number, because a NaN would hide all
/// others in a sum.)
const VALUES: [f64; 4] = [0.5, f64::NAN, -1e30, 1e30];

/// A generator of pseudo-random numbers, the same in each run (S. Vigna's SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a coefficient: often exactly 0 or 1, as masks are.
    pub(crate) fn coefficient(&mut self) -> f64 {
        (1.5 * self.next() - 0.25).clamp(0.0, 1.0)
    }
}

/// Checks a function that is called with a point and with a generator for its coefficients.
///
/// # Errors
/// [`Error::Undeclared`] if the function reads neighbours beyond its stencil.
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
        // Both undeclared neighbours are reported.
        let both = check(five, |at, _| at.north + at.south_west + at.north_east);
        match both {
            Err(Error::Undeclared { reads, .. }) => {
                assert_eq!(reads.to_string(), "north-east and south-west")
            }
            other => panic!("{other:?}"),
        }
        // A neighbour that is read only where a mask is 0 is detected.
        let masked = |at: &Neighbours<f64>, random: &mut Random| {
            if random.coefficient() == 0.0 { at.north_east } else { at.centre }
        };
        assert!(matches!(check(five, masked), Err(Error::Undeclared { .. })));
    }
}
