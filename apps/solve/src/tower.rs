//! Arithmetic modulo chains of dimension 0: inverses, greatest common divisors, norms, square-free
//! parts.
//!
//! # Contract
//! All members are monic and every variable up to the highest one in use has a member. The residues
//! are then the polynomials whose degree in each variable is less than that of its member. A chain
//! that is square-free stands for a product of finite fields, so a residue may be a zero divisor.
//! Then the operation returns where the chain splits (dynamic evaluation).
//!
//! # Costs
//! An inverse is O(d²) products of coefficients at each level, with d the main degree there.
//!
//! # Source
//! Della Dora, Dicrescenzo and Duval, "About a new method for computing in algebraic number
//! fields", EUROCAL 1985.

use crate::chain::{Chain, Split};
use crate::modular;
use crate::poly::{Level, Poly};

/// Returns the inverse of a residue that is not 0.
///
/// # Errors
/// The split of the chain if it is a zero divisor.
pub fn inverse(a: &Poly, chain: &Chain) -> Result<Poly, Split> {
    let ring = a.ring();
    let level = a.main_level();
    if level == 0 {
        let value = a.constant_value().expect("a constant");
        return Ok(ring.constant(modular::inverse(value, ring.prime())));
    }
    let member = chain.get(level).expect("every variable has a member");
    // The invariant: t · a is r modulo the member.
    let (mut r0, mut r1) = (member.as_ref().clone(), a.clone());
    let (mut t0, mut t1) = (ring.zero(), ring.constant(1));
    loop {
        let by = inverse(&r1.leading_coefficient(level), chain)?;
        r1 = chain.remainder(&(&r1 * &by), level - 1);
        t1 = chain.remainder(&(&t1 * &by), level - 1);
        if r1.degree(level) == 0 {
            return Ok(t1);
        }
        let (q, r) = divide(&r0, &r1, level, chain);
        if r.is_zero() {
            let (cofactor, _) = divide(member, &r1, level, chain);
            let (factor, cofactor) = (r1.into(), cofactor.into());
            return Err(Split { level, factor, cofactor, degenerate: None });
        }
        let t = chain.remainder(&(&t0 - &(&q * &t1)), level - 1);
        (r0, r1, t0, t1) = (r1, r, t1, t);
    }
}

/// Returns the monic greatest common divisor of two polynomials in the variable of `level`, whose
/// coefficients are residues modulo the members below.
///
/// # Errors
/// The split of the chain below if a leading coefficient is a zero divisor.
pub fn gcd(a: &Poly, b: &Poly, level: Level, chain: &Chain) -> Result<Poly, Split> {
    let (mut r0, mut r1) = (a.clone(), b.clone());
    if r0.degree(level) < r1.degree(level) {
        std::mem::swap(&mut r0, &mut r1);
    }
    while !r1.is_zero() {
        let by = inverse(&r1.leading_coefficient(level), chain)?;
        if r1.degree(level) == 0 {
            return Ok(a.ring().constant(1));
        }
        r1 = chain.remainder(&(&r1 * &by), level - 1);
        let (_, r) = divide(&r0, &r1, level, chain);
        (r0, r1) = (r1, r);
    }
    monic(&r0, level, chain)
}

/// Returns the polynomial in the variable of `level` with leading coefficient 1.
///
/// # Errors
/// The split of the chain below if the leading coefficient is a zero divisor.
pub fn monic(a: &Poly, level: Level, chain: &Chain) -> Result<Poly, Split> {
    if a.is_zero() {
        return Ok(a.clone());
    }
    let by = inverse(&a.leading_coefficient(level), chain)?;
    Ok(chain.remainder(&(a * &by), level - 1))
}

/// The degree of a quotient up to which its coefficients are reduced at the end only.
const SHORT_QUOTIENT: usize = 2;

/// Returns the quotient and the remainder of `a` by the monic `b` in the variable of `level`.
#[must_use]
pub fn divide(a: &Poly, b: &Poly, level: Level, chain: &Chain) -> (Poly, Poly) {
    let ring = a.ring();
    // Short quotients by one division of polynomials: coefficients grow by as many products.
    if a.degree(level) <= b.degree(level) + SHORT_QUOTIENT {
        let (quotient, rest) = a.divide(b);
        return (chain.remainder(&quotient, level - 1), chain.remainder(&rest, level - 1));
    }
    let mut rest = a.coefficients(level);
    let by = b.coefficients(level);
    let degree = by.len() - 1;
    let mut quotients = vec![ring.zero(); rest.len().saturating_sub(degree)];
    while rest.len() > degree {
        let top = rest.pop().expect("longer than the divisor");
        let top = chain.remainder(&top, level - 1);
        let shift = rest.len() - degree;
        if !top.is_zero() {
            for (index, coefficient) in by[..degree].iter().enumerate() {
                if !coefficient.is_zero() {
                    let product = &top * coefficient;
                    rest[index + shift] = &rest[index + shift] - &product;
                }
            }
        }
        quotients[shift] = top;
    }
    let rest = rest.iter().map(|c| chain.remainder(c, level - 1)).collect::<Vec<_>>();
    (ring.from_coefficients(level, &quotients), ring.from_coefficients(level, &rest))
}

/// Returns the square-free part of a monic polynomial in the variable of `level`: the product of
/// its factors, each once. The chain below is square-free.
///
/// # Errors
/// The split of the chain below that a zero divisor causes.
pub fn square_free(a: &Poly, level: Level, chain: &Chain) -> Result<Poly, Split> {
    let derivative = chain.remainder(&a.derivative(level), level - 1);
    if derivative.is_zero() {
        if a.degree(level) == 0 {
            return Ok(a.clone());
        }
        return square_free(&root(a, level, chain), level, chain);
    }
    let common = gcd(a, &derivative, level, chain)?;
    if common.degree(level) == 0 {
        return Ok(a.clone());
    }
    // The factors whose multiplicity is no multiple of the prime, each once; what remains of the
    // greatest common divisor without them is a power of the prime.
    let simple = divide(a, &common, level, chain).0;
    let mut rest = common;
    loop {
        let shared = gcd(&rest, &simple, level, chain)?;
        if shared.degree(level) == 0 {
            break;
        }
        rest = divide(&rest, &shared, level, chain).0;
    }
    if rest.degree(level) == 0 {
        return Ok(simple);
    }
    let rest = square_free(&root(&rest, level, chain), level, chain)?;
    Ok(chain.remainder(&(&simple * &rest), level - 1))
}

/// Returns the root of order p, the prime, of a polynomial that is such a power.
fn root(a: &Poly, level: Level, chain: &Chain) -> Poly {
    let ring = a.ring();
    let p = ring.prime() as usize;
    let coefficients = a.coefficients(level);
    let roots = coefficients.iter().step_by(p).map(|c| residue_root(c, chain)).collect::<Vec<_>>();
    ring.from_coefficients(level, &roots)
}

/// Returns the root of order p of a residue. In a product of finite fields, taking powers of order
/// p permutes the residues; the root is the last element of the cycle that begins with the residue.
fn residue_root(a: &Poly, chain: &Chain) -> Poly {
    let p = a.ring().prime();
    let mut root = a.clone();
    loop {
        let next = power(&root, p, chain);
        if next == *a {
            return root;
        }
        root = next;
    }
}

/// Returns the norm of a residue of the variables up to `level`: for each point of the chain up to
/// `base`, the product of the values at all points above it, as a residue of the variables up to
/// `base`.
///
/// # Errors
/// A split that was found on the way: the norm is then not determined.
pub fn norm(a: &Poly, base: Level, level: Level, chain: &Chain) -> Result<Poly, Split> {
    let ring = a.ring();
    let main = a.main_level().max(base);
    // Every value of a residue of lower variables occurs once for each point above it.
    let above = (main + 1..=level)
        .map(|at| chain.get(at).expect("every variable has a member").degree(at) as u64)
        .product::<u64>();
    if main == base || a.is_zero() {
        return Ok(power(a, above, chain));
    }
    let member = chain.get(main).expect("every variable has a member");
    let (mut r0, mut r1) = (member.as_ref().clone(), a.clone());
    let mut product = ring.constant(1);
    let mut negative = false;
    // res(f, c g) = c^(deg f) res(f, g); res(f, g) = (-1)^(deg f deg g) res(g, f), and res(g, f) =
    // res(g, f mod g) for a monic g.
    loop {
        let lead = r1.leading_coefficient(main);
        let factor = power(&lead, r0.degree(main) as u64, chain);
        product = chain.remainder(&(&product * &factor), main - 1);
        if r1.degree(main) == 0 {
            break;
        }
        let by = inverse(&lead, chain)?;
        r1 = chain.remainder(&(&r1 * &by), main - 1);
        let (_, r) = divide(&r0, &r1, main, chain);
        if r.is_zero() {
            return Ok(r);
        }
        negative ^= r0.degree(main) * r1.degree(main) % 2 == 1;
        (r0, r1) = (r1, r);
    }
    let product = if negative { -&product } else { product };
    Ok(power(&norm(&product, base, main - 1, chain)?, above, chain))
}

/// Returns a power of a residue.
#[must_use]
pub fn power(a: &Poly, mut exponent: u64, chain: &Chain) -> Poly {
    let level = a.main_level();
    let mut product = a.ring().constant(1);
    let mut square = a.clone();
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = chain.remainder(&(&product * &square), level);
        }
        exponent >>= 1;
        if exponent > 0 {
            square = chain.remainder(&(&square * &square), level);
        }
    }
    product
}
