//! Normalised chains: the canonical form of an irreducible component.
//!
//! # Contract
//! In a normalised chain, the initial of each member contains free variables only; the degree of a
//! member in each variable below its own is less than that of the member there; and its
//! coefficients as a polynomial in the variables that are not free have no common factor. For a
//! prime ideal and an order of the variables there is one such chain up to constants, and members
//! are monic.
//!
//! # Method
//! The initial of a member is multiplied by its inverse modulo the members below, over the rational
//! functions in the free variables, without fractions: the pairs (r, t) of Euclid's extended
//! algorithm keep t · a = r, and both are multiplied by the same polynomials in free variables.

use crate::chain::{Chain, Split};
use crate::poly::{Level, Poly};
use crate::subresultant::{pseudo_quotient, quotient, remainder_with};

/// Returns the normalised chain of a regular chain.
///
/// # Errors
/// The split of the chain, as closures, if an initial cannot be inverted.
pub fn normalised(chain: &Chain) -> Result<Chain, Split> {
    let mut normal = Chain::empty(chain.variables());
    for (level, member) in chain.members() {
        let by = inverse(&member.initial(), &normal)?.0;
        let (member, _) = reduce(&(member.as_ref() * &by), &normal);
        let mut bound = normal.members().map(|(at, _)| at).collect::<Vec<_>>();
        bound.push(level);
        let content = member.content(&bound);
        normal = normal.with(quotient(&member, &content).monic());
    }
    Ok(normal)
}

/// Returns a residue b and a polynomial e in free variables with a · b = e modulo the normalised
/// chain; `a` is regular.
fn inverse(a: &Poly, chain: &Chain) -> Result<(Poly, Poly), Split> {
    let ring = a.ring();
    let (a, multiplier) = reduce(a, chain);
    let Some(level) = bound_level(&a, chain) else { return Ok((multiplier, a)) };
    let member = chain.get(level).expect("a level with a member");
    let (mut r0, mut r1) = (member.as_ref().clone(), a.clone());
    let (mut t0, mut t1) = (ring.zero(), multiplier);
    loop {
        // The leading coefficient becomes a polynomial in free variables.
        let lead = r1.leading_coefficient(level);
        let (by, _) = inverse(&lead, chain)?;
        (r1, t1) = reduce_pair(&(&r1 * &by), &(&t1 * &by), chain);
        if bound_level(&r1, chain).is_none() {
            return Ok((t1, r1));
        }
        if r1.degree(level) == 0 {
            let (by, unit) = inverse(&r1, chain)?;
            let (t, multiplier) = reduce(&(&t1 * &by), chain);
            return Ok((t, &unit * &multiplier));
        }
        let mut factor = ring.constant(1);
        let r = remainder_with(&r0, &r1, level, |by| factor = &factor * by);
        let q = {
            let difference = &(&r0 * &factor) - &r;
            // Exact: r1 divides the difference.
            difference.divide_exactly(&r1)
        };
        let Some(q) = q else {
            unreachable!("the pseudo-remainder differs by a multiple of the divisor")
        };
        let t = &(&t0 * &factor) - &(&q * &t1);
        let (r, t) = reduce_pair(&r, &t, chain);
        if r.is_zero() {
            let cofactor = reduce(&pseudo_quotient(member, &r1, level), chain).0;
            let (factor, cofactor) = (r1.into(), cofactor.into());
            return Err(Split { level, factor, cofactor, degenerate: None });
        }
        (r0, r1, t0, t1) = (r1, r, t1, t);
    }
}

/// The highest variable with a member that occurs in a polynomial.
fn bound_level(a: &Poly, chain: &Chain) -> Option<Level> {
    chain.members().map(|(at, _)| at).filter(|&at| a.degree(at) > 0).last()
}

/// Returns the residue r of a polynomial, and the polynomial d in free variables with d · a = r.
fn reduce(a: &Poly, chain: &Chain) -> (Poly, Poly) {
    let mut rest = a.clone();
    let mut multiplier = a.ring().constant(1);
    let members = chain.members().collect::<Vec<_>>();
    for (at, member) in members.into_iter().rev() {
        if rest.degree(at) >= member.degree(at) {
            rest = remainder_with(&rest, member, at, |by| multiplier = &multiplier * by);
        }
    }
    let common = rest.gcd(&multiplier);
    if common.is_zero() {
        return (rest, multiplier);
    }
    (quotient(&rest, &common), quotient(&multiplier, &common))
}

/// Returns the residues of two polynomials, multiplied by the same polynomial in free variables.
fn reduce_pair(a: &Poly, b: &Poly, chain: &Chain) -> (Poly, Poly) {
    let ((a, by_a), (b, by_b)) = (reduce(a, chain), reduce(b, chain));
    let common = by_a.gcd(&by_b);
    (&a * &quotient(&by_b, &common), &b * &quotient(&by_a, &common))
}
