//! Chains at values of their free variables, and elimination by such values.
//!
//! # Fibres
//! The fibre of a chain over a point is the chain of dimension 0 that it becomes with these values
//! for its free variables, made monic. What holds over one point is often a certificate for the
//! chain: a polynomial whose residue in a fibre is invertible is regular modulo the chain.
//!
//! # Elimination
//! For a chain T with one free variable u below the main variable of a polynomial p, [`eliminate`]
//! returns a polynomial R(u) that vanishes wherever p does on the points of T.
//!
//! ```text
//!     values of u ──> fibres ──> N(p) / N(p + c) ──> rational function of u ──> its numerator R
//! ```
//!
//! N is the norm, the product over the points of the fibre, and c a random constant. Where u
//! approaches a value at which some points of the fibre go to infinity, their factors of the
//! quotient go to 1 or to a finite value, as p + c goes to infinity with p. So they cannot cancel
//! the zero of a point that stays finite, as they could in N(p) alone. Every point of T is the
//! limit of points of the fibres, as no initial vanishes there.
//!
//! A resultant by determinants has the factor R as well, but also high powers of the norms of all
//! initials, so its degree is often a hundred times larger.
//!
//! # Costs
//! As many fibres as the sum of the degrees of numerator and denominator, which is at most twice
//! the degree of p times that of the variety (Bézout), and some more.
//!
//! # Source
//! Norms by specialisation: after the geometric resolution of Giusti, Lecerf and Salvy, "A Gröbner
//! free alternative for polynomial system solving" (2001). Changed: no change of variables, and the
//! quotient of two norms in the place of the norm of a chain in Noether position.

use std::collections::HashSet;

use crate::chain::Chain;
use crate::modular::{inverse, multiply};
use crate::poly::{Level, Poly};
use crate::random::Random;
use crate::rational::Samples;
use crate::tower;

/// Returns the fibre of the members up to `level` over a point, with one value for each variable,
/// greatest first, of which those of free variables are used; `None` where an initial is a zero
/// divisor.
#[must_use]
pub fn fibre(chain: &Chain, level: Level, point: &[u64]) -> Option<Chain> {
    let mut fibre = Chain::empty(point.len());
    let Some(ring) = chain.members().next().map(|(_, member)| member.ring().clone()) else {
        return Some(fibre);
    };
    for at in 1..=level {
        let member = match chain.get(at) {
            None => &ring.variable(at) - &ring.constant(point[point.len() - at]),
            Some(member) => {
                let special = fibre.remainder(member, at - 1);
                if special.degree(at) != member.degree(at) {
                    return None;
                }
                tower::monic(&special, at, &fibre).ok()?
            }
        };
        fibre = fibre.with(member);
    }
    Some(fibre)
}

/// The smallest prime for which random values are likely enough to be lucky.
const LEAST_PRIME: u64 = 1000;
/// The points beyond those that determine a rational function, which confirm it.
const CONFIRMING: usize = 6;
/// The unlucky points, or points at which `p` vanishes, after which elimination gives up.
const UNLUCKY: usize = 20;

/// Returns a polynomial in the only free variable below the main variable of `p` that vanishes
/// wherever `p` does on the points of the chain: see the head of the module. Returns `None` if
/// there is no such variable, if `p` is a zero divisor, or if the prime is too small.
///
/// The result is wrong with a probability of some (degree / prime)^6.
#[must_use]
pub fn eliminate(p: &Poly, chain: &Chain) -> Option<Poly> {
    let ring = p.ring();
    let (prime, variables, top) = (ring.prime(), ring.variables(), p.main_level());
    let mut free = chain.free().take_while(|&level| level <= top);
    let (Some(u), None) = (free.next(), free.next()) else { return None };
    if prime < LEAST_PRIME || u == top {
        return None;
    }
    let mut random = Random::new(p.len() as u64);
    let constant = ring.constant(random.below(prime - 1) + 1);
    let mut samples = Samples::new(prime);
    let mut used = HashSet::new();
    let (mut unlucky, mut attempt) = (0, 16);
    loop {
        if used.len() as u64 > prime / 4 * 3 || unlucky > UNLUCKY + samples.len() {
            return None;
        }
        let value = random.below(prime);
        if !used.insert(value) {
            continue;
        }
        let mut point = vec![0; variables];
        point[variables - u] = value;
        let quotient = || {
            let fibre = fibre(chain, top, &point)?;
            let p = fibre.remainder(p, top);
            let shifted = fibre.remainder(&(&p + &constant), top);
            let norm = |a| tower::norm(a, 0, top, &fibre).ok()?.constant_value();
            let (above, below) = (norm(&p)?, norm(&shifted).filter(|&norm| norm != 0)?);
            Some(multiply(above, inverse(below, prime), prime))
        };
        let Some(quotient) = quotient() else {
            unlucky += 1;
            continue;
        };
        samples.push(value, quotient);
        if samples.len() == attempt {
            if let Some((numerator, _)) = samples.reconstruct(CONFIRMING) {
                return (!numerator.is_empty()).then(|| {
                    let exponents = (0..numerator.len() as u64).map(|exponent| {
                        let mut exponents = vec![0; variables];
                        exponents[variables - u] = exponent;
                        exponents
                    });
                    let exponents = exponents.collect::<Vec<_>>();
                    ring.from_terms(numerator.into_iter().zip(exponents.iter().map(Vec::as_slice)))
                });
            }
            attempt += 8 + attempt / 4;
        }
    }
}
