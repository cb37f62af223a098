//! Monomials in a word.
//!
//! A monomial x1^e1 ... xn^en has a byte for each sum e1 + ... + ei, the one for i = n, its degree,
//! in front:
//!
//! ```text
//!   byte     15              14                    ...   16 - n
//!            e1 + ... + en   e1 + ... + e(n-1)     ...   e1        zeros
//! ```
//! So monomials multiply as numbers add, and the greater number is the greater monomial in the
//! order by degree, and reverse lexicographically within a degree. The number minus itself, moved
//! by a byte, has the exponents in its bytes.

/// The largest number of variables.
pub(super) const MAX_VARIABLES: usize = 16;
/// The largest degree: the highest bit of each byte is left to comparisons of all bytes at once.
pub(super) const MAX_DEGREE: u32 = 127;
const HIGH_BITS: u128 = u128::from_ne_bytes([0x80; 16]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Monomial(u128);

impl Monomial {
    pub(super) const ONE: Monomial = Monomial(0);

    /// Creates a monomial from its exponents, greatest variable first; `None` if the degree is too
    /// large.
    pub(super) fn new(exponents: &[u64]) -> Option<Monomial> {
        let (mut word, mut sum) = (0, 0_u64);
        for (index, &exponent) in exponents.iter().enumerate() {
            sum = sum.checked_add(exponent).filter(|&sum| sum <= u64::from(MAX_DEGREE))?;
            word |= u128::from(sum) << Monomial::shift(exponents.len(), index);
        }
        Some(Monomial(word))
    }

    /// The place of the byte of the variable `index` of `variables`.
    fn shift(variables: usize, index: usize) -> usize {
        8 * (16 - variables + index)
    }

    /// Returns the variable `index` of `variables`, greatest first.
    pub(super) fn variable(variables: usize, index: usize) -> Monomial {
        let ones = u128::from_ne_bytes([1; 16]);
        let shift = Monomial::shift(variables, index);
        Monomial(ones >> shift << shift)
    }

    fn exponents_in_bytes(self) -> u128 {
        self.0 - (self.0 << 8)
    }

    /// Returns the exponents of `variables` variables, greatest variable first.
    pub(super) fn exponents(self, variables: usize) -> Vec<u64> {
        let bytes = self.exponents_in_bytes();
        let exponent = |index| u64::from((bytes >> Monomial::shift(variables, index)) as u8);
        (0..variables).map(exponent).collect()
    }

    pub(super) fn degree(self) -> u32 {
        (self.0 >> 120) as u32
    }

    pub(super) fn is_one(self) -> bool {
        self.0 == 0
    }

    /// Returns the product, whose degree must be less than 256.
    pub(super) fn times(self, other: Monomial) -> Monomial {
        Monomial(self.0 + other.0)
    }

    /// Returns the quotient by a divisor.
    pub(super) fn over(self, divisor: Monomial) -> Monomial {
        Monomial(self.0 - divisor.0)
    }

    pub(super) fn divides(self, other: Monomial) -> bool {
        let (own, others) = (self.exponents_in_bytes(), other.exponents_in_bytes());
        ((others | HIGH_BITS) - own) & HIGH_BITS == HIGH_BITS
    }

    pub(super) fn lcm(self, other: Monomial) -> Monomial {
        let own = self.exponents_in_bytes().to_le_bytes();
        let others = other.exponents_in_bytes().to_le_bytes();
        let (mut word, mut sum) = ([0; 16], 0);
        for at in 0..16 {
            sum += own[at].max(others[at]);
            word[at] = sum;
        }
        Monomial(u128::from_le_bytes(word))
    }

    pub(super) fn is_coprime(self, other: Monomial) -> bool {
        self.lcm(other) == self.times(other)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn monomials_are_their_exponents(
            (a, b) in (1_usize..=16).prop_flat_map(|n| {
                let exponents = prop::collection::vec(0_u64..4, n);
                (exponents.clone(), exponents)
            }),
        ) {
            let n = a.len();
            let (p, q) = (Monomial::new(&a).unwrap(), Monomial::new(&b).unwrap());
            let each = |f: fn(u64, u64) -> u64| {
                a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>()
            };
            prop_assert_eq!(p.exponents(n), a.clone());
            prop_assert_eq!(u64::from(p.degree()), a.iter().sum::<u64>());
            prop_assert_eq!(p.times(q).exponents(n), each(|a, b| a + b));
            prop_assert_eq!(p.times(q).over(q), p);
            prop_assert_eq!(p.lcm(q).exponents(n), each(u64::max));
            prop_assert_eq!(p.divides(q), a.iter().zip(&b).all(|(a, b)| a <= b));
            prop_assert_eq!(p.is_coprime(q), a.iter().zip(&b).all(|(a, b)| a * b == 0));
            let key = |e: &[u64]| {
                (e.iter().sum::<u64>(), e.iter().rev().map(|&e| Reverse(e)).collect::<Vec<_>>())
            };
            prop_assert_eq!(p.cmp(&q), key(&a).cmp(&key(&b)));
            for index in 0..n {
                let mut unit = vec![0; n];
                unit[index] = 1;
                prop_assert_eq!(Monomial::variable(n, index), Monomial::new(&unit).unwrap());
            }
        }
    }

    #[test]
    fn large_degrees_are_refused() {
        assert!(Monomial::new(&[100, 28]).is_none() && Monomial::new(&[u64::MAX, 1]).is_none());
        assert_eq!(Monomial::new(&[100, 27]).map(Monomial::degree), Some(127));
    }
}
