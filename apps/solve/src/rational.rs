//! Rational functions in one variable over Z/p from their values.
//!
//! # Source
//! Rational function reconstruction by the extended Euclidean algorithm: von zur Gathen and
//! Gerhard, "Modern Computer Algebra", section 5.7.

use crate::modular::{inverse, multiply};

/// The coefficients of a polynomial in one variable, the constant one first, the last one not zero.
pub(crate) type Dense = Vec<u64>;

/// Values of a function at points, and the polynomial through them (Newton's form, extended by one
/// point at a time).
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    prime: u64,
    /// The polynomial of least degree through all points.
    interpolant: Dense,
    /// The product of u - point over all points.
    nodal: Dense,
}

impl Samples {
    /// Creates an empty set of values in Z/`prime`.
    pub(crate) fn new(prime: u64) -> Samples {
        Samples { prime, interpolant: Vec::new(), nodal: vec![1] }
    }

    /// Returns the number of points.
    pub(crate) fn len(&self) -> usize {
        self.nodal.len() - 1
    }

    /// Adds the value at a new point.
    pub(crate) fn push(&mut self, point: u64, value: u64) {
        let p = self.prime;
        let missing = subtract(value, evaluate(&self.interpolant, point, p), p);
        let factor = multiply(missing, inverse(evaluate(&self.nodal, point, p), p), p);
        if factor != 0 {
            self.interpolant.resize(self.nodal.len().max(self.interpolant.len()), 0);
            for (to, &from) in self.interpolant.iter_mut().zip(&self.nodal) {
                *to = add(*to, multiply(factor, from, p), p);
            }
        }
        // nodal * (u - point)
        self.nodal.insert(0, 0);
        for index in 1..self.nodal.len() {
            let product = multiply(self.nodal[index], point, p);
            self.nodal[index - 1] = subtract(self.nodal[index - 1], product, p);
        }
    }

    /// Returns the numerator and the denominator of the rational function through all points that
    /// is the only one with degrees of a sum at least `slack` below the number of points; `None` if
    /// there is no such function.
    pub(crate) fn reconstruct(&self, slack: usize) -> Option<(Dense, Dense)> {
        let p = self.prime;
        let (mut r0, mut r1) = (self.nodal.clone(), self.interpolant.clone());
        let (mut t0, mut t1): (Dense, Dense) = (Vec::new(), vec![1]);
        // The best row is the one before the quotient of greatest degree.
        let mut best: Option<(usize, Dense, Dense)> = None;
        loop {
            let size = r1.len().saturating_sub(1) + t1.len() - 1;
            if best.as_ref().is_none_or(|(least, ..)| size < *least) {
                best = Some((size, r1.clone(), t1.clone()));
            }
            if r1.is_empty() {
                break;
            }
            let (q, r) = divide(&r0, &r1, p);
            let mut t = t0;
            for (i, &a) in q.iter().enumerate() {
                for (j, &b) in t1.iter().enumerate() {
                    if t.len() <= i + j {
                        t.resize(i + j + 1, 0);
                    }
                    t[i + j] = subtract(t[i + j], multiply(a, b, p), p);
                }
            }
            trim(&mut t);
            (r0, r1, t0, t1) = (r1, r, t1, t);
        }
        let (size, numerator, denominator) = best?;
        (size + slack <= self.len()).then_some((numerator, denominator))
    }
}

fn add(a: u64, b: u64, p: u64) -> u64 {
    let sum = a + b;
    if sum >= p { sum - p } else { sum }
}

fn subtract(a: u64, b: u64, p: u64) -> u64 {
    if a >= b { a - b } else { a + p - b }
}

fn trim(a: &mut Dense) {
    while a.last() == Some(&0) {
        a.pop();
    }
}

fn evaluate(a: &Dense, point: u64, p: u64) -> u64 {
    a.iter().rev().fold(0, |value, &c| add(multiply(value, point, p), c, p))
}

/// Returns the quotient and the remainder of `a` by `b`, which is not 0.
fn divide(a: &Dense, b: &Dense, p: u64) -> (Dense, Dense) {
    let mut rest = a.clone();
    let mut quotient = vec![0; (rest.len() + 1).saturating_sub(b.len())];
    let lead = inverse(b[b.len() - 1], p);
    while rest.len() >= b.len() {
        let top = rest.pop().expect("not empty");
        if top == 0 {
            continue;
        }
        let factor = multiply(top, lead, p);
        let shift = rest.len() + 1 - b.len();
        quotient[shift] = factor;
        for (to, &from) in rest[shift..].iter_mut().zip(b) {
            *to = subtract(*to, multiply(factor, from, p), p);
        }
    }
    trim(&mut rest);
    trim(&mut quotient);
    (quotient, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = 101;

    /// The samples of (2 u² + 3 u + 1) / (u + 5) at 0, 1, ...: numerator and denominator have the
    /// degrees 2 and 1.
    fn samples(count: u64) -> Samples {
        let mut samples = Samples::new(P);
        for u in 0..count {
            let (above, below) = (evaluate(&vec![1, 3, 2], u, P), evaluate(&vec![5, 1], u, P));
            samples.push(u, multiply(above, inverse(below, P), P));
        }
        samples
    }

    #[test]
    fn a_function_is_found_from_as_many_points_as_its_degrees_and_the_slack() {
        // With one point more than the degrees, a polynomial has the same values.
        for slack in [2, 6] {
            let found = samples(3 + slack).reconstruct(slack as usize);
            let (above, below) = found.expect("there are enough points");
            let by = inverse(below[1], P);
            let monic = |a: Dense| a.iter().map(|&c| multiply(c, by, P)).collect::<Dense>();
            assert_eq!((monic(above), monic(below)), (vec![1, 3, 2], vec![5, 1]));
            assert_eq!(samples(2 + slack).reconstruct(slack as usize), None, "{slack}");
        }
    }

    #[test]
    fn values_of_no_function_of_small_degree_are_not_reconstructed() {
        // Powers of 2 are values of no polynomial, nor of a quotient.
        let mut samples = Samples::new(P);
        let mut value = 1;
        for u in 0..20 {
            samples.push(u, value);
            value = multiply(value, 2, P);
        }
        assert_eq!(samples.reconstruct(6), None);
    }

    #[test]
    fn sums_are_numbers_below_the_prime() {
        for a in 0..7 {
            for b in 0..7 {
                assert_eq!(add(a, b, 7), (a + b) % 7, "{a} + {b}");
                assert_eq!(subtract(a, b, 7), (a + 7 - b) % 7, "{a} - {b}");
            }
        }
        // 3 u + 4 has the zero 1: a sum there is the prime.
        assert_eq!(evaluate(&vec![4, 3], 1, 7), 0);
    }
}
