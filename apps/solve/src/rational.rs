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
