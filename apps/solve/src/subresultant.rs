//! Pseudo-division, and the chain of subresultants of two polynomials.
//!
//! # Contract
//! For `a` and `b` in one variable over polynomials, deg a >= deg b >= 1, [`subresultants`] returns
//! the subresultants S_i whose degree is i, for i < deg b, by descending degree. All other
//! principal coefficients are zero. They are computed over the polynomials, so they specialise:
//! where the initial of `a` does not vanish, the first S_i, from i = 0 on, whose leading
//! coefficient does not vanish is the greatest common divisor there.
//!
//! ```text
//!     a, b ─ remainder ─> S_d-1 ─ remainder ─> ...          degree of S_j < j: defective; then
//!                           │                               S_e with e = deg S_j follows from it
//!                           └─ defective: S_e
//! ```
//!
//! # Costs
//! O(deg a · deg b) products and exact divisions of coefficients; coefficients of S_i are
//! determinants of order deg a + deg b - 2i.
//!
//! # Source
//! L. Ducos, "Optimizations of the subresultant algorithm", J. Pure Appl. Algebra 145 (2000), with
//! Lazard's division for defective subresultants.

use crate::poly::{Level, Poly};

/// Returns the pseudo-remainder of `a` by `b` in the variable of `level`: `a` times a product of
/// divisors of the leading coefficient of `b`, minus a multiple of `b`.
///
/// Common factors of the two leading coefficients are cancelled in every step.
///
/// # Panics
/// If `b` does not contain the variable.
#[must_use]
pub fn pseudo_remainder(a: &Poly, b: &Poly, level: Level) -> Poly {
    match b.main_level() == level && b.has_constant_initial() {
        true => a.remainder(&[b]),
        false => remainder_with(a, b, level, |_| ()),
    }
}

/// Like [`pseudo_remainder`]; calls `multiply` with each factor by which `a` is multiplied.
pub(crate) fn remainder_with(
    a: &Poly,
    b: &Poly,
    level: Level,
    mut multiply: impl FnMut(&Poly),
) -> Poly {
    let mut rest = a.coefficients(level);
    let by = b.coefficients(level);
    assert!(by.len() > 1, "the divisor does not contain the variable");
    let degree = by.len() - 1;
    let lead = &by[degree];
    while rest.len() > degree {
        let top = rest.pop().expect("longer than the divisor");
        if top.is_zero() {
            continue;
        }
        let common = top.gcd(lead);
        let (top, factor) = (quotient(&top, &common), quotient(lead, &common));
        multiply(&factor);
        let shift = rest.len() - degree;
        for (index, coefficient) in rest.iter_mut().enumerate() {
            if !coefficient.is_zero() {
                *coefficient = &*coefficient * &factor;
            }
            if index >= shift && !by[index - shift].is_zero() {
                *coefficient = &*coefficient - &(&top * &by[index - shift]);
            }
        }
    }
    a.ring().from_coefficients(level, &rest)
}

/// Returns the pseudo-quotient of `a` by `b` in the variable of `level`.
///
/// # Panics
/// If `b` does not contain the variable.
#[must_use]
pub fn pseudo_quotient(a: &Poly, b: &Poly, level: Level) -> Poly {
    let mut rest = a.coefficients(level);
    let by = b.coefficients(level);
    let degree = by.len() - 1;
    assert!(degree > 0, "the divisor does not contain the variable");
    let lead = &by[degree];
    let mut quotients = vec![a.ring().zero(); rest.len().saturating_sub(degree)];
    while rest.len() > degree {
        let top = rest.pop().expect("longer than the divisor");
        let shift = rest.len() - degree;
        for (index, coefficient) in rest.iter_mut().enumerate() {
            *coefficient = &*coefficient * lead;
            if index >= shift {
                *coefficient = &*coefficient - &(&top * &by[index - shift]);
            }
        }
        for quotient in &mut quotients {
            *quotient = &*quotient * lead;
        }
        quotients[shift] = top;
    }
    a.ring().from_coefficients(level, &quotients)
}

/// Returns `a / b`, which is a polynomial.
pub(crate) fn quotient(a: &Poly, b: &Poly) -> Poly {
    a.divide_exactly(b).expect("the divisor divides")
}

/// A polynomial in one variable: its coefficients, the constant one first, the last one not zero.
type Coefficients = Vec<Poly>;

fn trim(mut a: Coefficients) -> Coefficients {
    while a.last().is_some_and(Poly::is_zero) {
        a.pop();
    }
    a
}

/// Returns the remainder of lc(b)^(deg a - deg b + 1) · a by b.
fn full_remainder(a: &Coefficients, b: &Coefficients) -> Coefficients {
    let degree = b.len() - 1;
    let lead = &b[degree];
    let mut rest = a.clone();
    while rest.len() > degree {
        let top = rest.pop().expect("longer than the divisor");
        let shift = rest.len() - degree;
        for (index, coefficient) in rest.iter_mut().enumerate() {
            *coefficient = &*coefficient * lead;
            if index >= shift {
                *coefficient = &*coefficient - &(&top * &b[index - shift]);
            }
        }
    }
    trim(rest)
}

/// Returns the regular subresultants of `a` and `b` in the variable of `level`, of degrees below
/// that of `b`, by descending degree: see the head of the module.
///
/// # Panics
/// Unless deg a >= deg b >= 1.
#[must_use]
pub fn subresultants(a: &Poly, b: &Poly, level: Level) -> Vec<Poly> {
    let ring = a.ring();
    let (p, q) = (a.coefficients(level), b.coefficients(level));
    assert!(p.len() >= q.len() && q.len() > 1, "the degrees are in order");
    let mut found = Vec::new();
    let mut scale = q[q.len() - 1].power((p.len() - q.len()) as u64);
    let negated = |b: &Coefficients| b.iter().map(|c| -c).collect::<Coefficients>();
    let mut upper = q.clone();
    let mut lower = full_remainder(&p, &negated(&q));
    while !lower.is_empty() {
        let (d, e) = (upper.len() - 1, lower.len() - 1);
        let delta = d - e;
        // The regular subresultant of degree e.
        let regular = if delta > 1 {
            let lead = lower[e].power(delta as u64 - 1);
            let by = scale.power(delta as u64 - 1);
            lower.iter().map(|c| quotient(&(&lead * c), &by)).collect::<Coefficients>()
        } else {
            lower.clone()
        };
        found.push(ring.from_coefficients(level, &regular));
        if e == 0 {
            break;
        }
        let by = &scale.power(delta as u64) * &upper[d];
        let next = full_remainder(&upper, &negated(&lower));
        lower = next.iter().map(|c| quotient(c, &by)).collect();
        upper = regular;
        scale = upper[upper.len() - 1].clone();
    }
    found
}
