//! The irreducible components of chains over Z/p.
//!
//! # Closed chains
//! A closed chain that is square-free stands for a product of finite fields, one for each
//! component. The residues a with a^p = a form a vector space over Z/p of which the dimension is
//! the number of components (Berlekamp). In each component such a residue is a number; so a^((p -
//! 1) / 2) - 1 of a random one is zero in about half of the components, and splits the chain.
//!
//! # Chains with free variables
//! The members are factored from below. Let L be the field of the members below T_v, over the field
//! of rational functions in the free variables. A random shift of v makes the norm of T_v from L to
//! that field square-free; its irreducible factors, shifted back, have one irreducible factor of
//! T_v each in common with it (Trager).
//!
//! The norm has to be square-free for some shift. It has none if T_v is inseparable, as y^p - x is;
//! so such a member, which has a degree of at least p, stays as it is. Nor is there one if p is
//! smaller than the number of unlucky shifts.
//!
//! # Source
//! Berlekamp, "Factoring polynomials over finite fields" (1967); Cantor and Zassenhaus (1981);
//! Trager, "Algebraic factoring and rational function integration" (1976).

use crate::chain::{Chain, Split};
use crate::modular;
use crate::partition::{partition, parts};
use crate::poly::{Level, Poly, Ring};
use crate::random::Random;
use crate::regularize::Regularizer;
use crate::subresultant::subresultants;
use crate::tower;

/// A chain, and whether it is known to be irreducible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The chain.
    pub chain: Chain,
    /// Whether its variety is irreducible over Z/p; if not, that is not known.
    pub is_prime: bool,
}

/// Returns the irreducible components of a regular chain, which is square-free if it is closed.
#[must_use]
pub fn primes(regularizer: &Regularizer, chain: &Chain) -> Vec<Component> {
    if chain.dimension() > 0 {
        return open_primes(regularizer, chain);
    }
    let mut found = Vec::new();
    let mut open = vec![chain.clone()];
    while let Some(chain) = open.pop() {
        match split(&chain) {
            Some(split) => open.extend(parts(&chain, split)),
            None => found.push(Component { chain, is_prime: true }),
        }
    }
    found
}

/// Splits a closed chain, unless it is irreducible.
fn split(chain: &Chain) -> Option<Split> {
    let (level, lowest) = chain.members().next()?;
    let mut factors = lowest.factor();
    if factors.len() > 1 {
        let (factor, _) = factors.swap_remove(0);
        let cofactor = lowest.divide_exactly(&factor).expect("a factor").into();
        let factor = factor.into();
        return Some(Split { level, factor, cofactor, degenerate: None });
    }
    if chain.members().skip(1).all(|(at, member)| member.degree(at) == 1) {
        return None;
    }
    let fixed = fixed_residues(chain);
    if fixed.len() == 1 {
        return None;
    }
    let ring = lowest.ring();
    let prime = ring.prime();
    let mut random = Random::new(fixed.len() as u64);
    loop {
        let mut residue = ring.zero();
        for part in &fixed {
            residue = &residue + &part.scale(random.below(prime));
        }
        if prime > 2 {
            residue = tower::power(&residue, (prime - 1) / 2, chain);
            residue = &residue - &ring.constant(1);
        }
        if !residue.is_zero()
            && let Err(split) = tower::inverse(&residue, chain)
        {
            return Some(split);
        }
    }
}

/// A basis of the residues a with a^p = a.
fn fixed_residues(chain: &Chain) -> Vec<Poly> {
    let members = chain.members().collect::<Vec<_>>();
    let ring = members[0].1.ring();
    let prime = ring.prime();
    // The monomials that are residues, each with its power of order p, which is a product.
    let mut monomials = vec![ring.constant(1)];
    let mut powers = vec![ring.constant(1)];
    for &(level, member) in &members {
        let variable = chain.remainder(&ring.variable(level), level);
        let power = tower::power(&variable, prime, chain);
        let (lower, count) = (monomials.clone(), monomials.len());
        let mut monomial = ring.constant(1);
        for exponent in 1..member.degree(level) {
            monomial = &monomial * &ring.variable(level);
            for (index, lower) in lower.iter().enumerate() {
                let at = (exponent - 1) * count + index;
                powers.push(chain.remainder(&(&powers[at] * &power), level));
                monomials.push(lower * &monomial);
            }
        }
    }
    let size = monomials.len();
    let position = |exponents: &[u64]| {
        let mut at = 0;
        for &(level, member) in members.iter().rev() {
            at = at * member.degree(level) + exponents[ring.variables() - level] as usize;
        }
        at
    };
    // Row i has the coordinates of m_i^p - m_i, followed by those of m_i.
    let mut rows = Vec::with_capacity(size);
    for (index, power) in powers.iter().enumerate() {
        let mut row = vec![0; 2 * size];
        for (coefficient, exponents) in power.terms() {
            row[position(&exponents)] = coefficient;
        }
        row[index] = (row[index] + prime - 1) % prime;
        row[size + index] = 1;
        rows.push(row);
    }
    let rank = eliminate(&mut rows, size, prime);
    rows[rank..]
        .iter()
        .map(|row| {
            let terms = monomials.iter().zip(&row[size..]).filter(|(_, c)| **c != 0);
            terms.fold(ring.zero(), |sum, (monomial, &c)| &sum + &monomial.scale(c))
        })
        .collect()
}

/// Brings the first `columns` columns into echelon form; returns the rank.
fn eliminate(rows: &mut [Vec<u64>], columns: usize, prime: u64) -> usize {
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        rows.swap(rank, pivot);
        let inverse = modular::inverse(rows[rank][column], prime);
        let (above, below) = rows.split_at_mut(rank + 1);
        let pivot = &above[rank];
        for row in below.iter_mut().filter(|row| row[column] != 0) {
            let factor = prime - modular::multiply(row[column], inverse, prime);
            for (to, &from) in row.iter_mut().zip(pivot).skip(column) {
                if from != 0 {
                    *to = (*to + modular::multiply(factor, from, prime)) % prime;
                }
            }
        }
        rank += 1;
    }
    rank
}

/// The number of shifts that are tried.
const SHIFTS: usize = 12;
/// From this prime on, there are enough numbers for shifts.
const MANY: u64 = 1000;

/// The components of a chain with free variables: see the head of the module.
fn open_primes(regularizer: &Regularizer, chain: &Chain) -> Vec<Component> {
    let mut found = vec![Component { chain: Chain::empty(chain.variables()), is_prime: true }];
    for (level, member) in chain.members() {
        let mut next = Vec::new();
        for below in found {
            let part = below.chain.reduce(member, level - 1);
            let (members, known) = match below.is_prime {
                true => factors(regularizer, &part, level, &below.chain),
                false => (vec![part], false),
            };
            next.extend(members.into_iter().map(|member| Component {
                chain: below.chain.with(member),
                is_prime: below.is_prime && known,
            }));
        }
        found = next;
    }
    found
}

/// The irreducible factors of a polynomial in the variable of `level` modulo a prime chain, and
/// whether they are known to be irreducible.
fn factors(
    regularizer: &Regularizer,
    member: &Poly,
    level: Level,
    below: &Chain,
) -> (Vec<Poly>, bool) {
    if member.degree(level) == 1 {
        return (vec![member.clone()], true);
    }
    let bound = below.members().map(|(at, _)| at).collect::<Vec<_>>();
    if bound.iter().all(|&at| member.degree(at) == 0)
        && below.members().all(|(at, member)| member.degree(at) == 1)
    {
        let factors = member.factor().into_iter().map(|(factor, _)| factor);
        return (factors.filter(|factor| factor.degree(level) > 0).collect(), true);
    }
    // The parts without multiple factors.
    let chain = below.with(member.clone());
    let (multiple, simple) = partition(regularizer, &member.derivative(level), &chain);
    let parts = multiple.into_iter().chain(simple).collect::<Vec<_>>();
    if parts.len() > 1 {
        let mut found = Vec::new();
        let mut known = true;
        for part in parts {
            let part = part.get(level).expect("a level with a member");
            let (factors, all) = factors(regularizer, part, level, below);
            found.extend(factors);
            known &= all;
        }
        found.sort_by_cached_key(Poly::to_string);
        found.dedup();
        return (found, known);
    }
    let ring = member.ring();
    let mut random = Random::new(level as u64);
    for _ in 0..SHIFTS {
        let mut shift = ring.zero();
        for (at, _) in below.members().filter(|(at, member)| member.degree(*at) > 1) {
            shift = &shift + &(&multiplier(ring, below, level, &mut random) * &ring.variable(at));
        }
        let variable = ring.variable(level);
        let Some(norm) = norm(&composed(member, level, &(&variable - &shift)), below) else {
            continue;
        };
        if norm.degree(level) == 0 {
            continue;
        }
        let norms = primitive_in(&norm, level).factor();
        if norms.iter().any(|(_, exponent)| *exponent > 1) {
            continue;
        }
        let parts = norms
            .iter()
            .flat_map(|(norm, _)| {
                let back = composed(norm, level, &(&variable + &shift));
                partition(regularizer, &back, &chain).0
            })
            .map(|part| part.get(level).expect("a level with a member").as_ref().clone());
        return (parts.collect(), true);
    }
    (vec![member.clone()], false)
}

/// Returns the polynomial with another one in the place of the variable of `level`.
fn composed(p: &Poly, level: Level, with: &Poly) -> Poly {
    p.coefficients(level).iter().rev().fold(p.ring().zero(), |sum, c| &(&sum * with) + c)
}

fn primitive_in(p: &Poly, level: Level) -> Poly {
    let content = p.content(&[level]);
    p.divide_exactly(&content).expect("its content divides it")
}

/// A random multiplier of a shift: a number; for small primes a linear polynomial in the free
/// variables, since there are few numbers.
fn multiplier(ring: &Ring, below: &Chain, level: Level, random: &mut Random) -> Poly {
    let prime = ring.prime();
    let mut multiplier = ring.constant(random.below(prime));
    if prime < MANY {
        for free in below.free().take_while(|&free| free < level) {
            multiplier = &multiplier + &ring.variable(free).scale(random.below(prime));
        }
    }
    multiplier
}

/// Returns the norm of a polynomial over the rational functions in the free variables, up to a
/// factor in these; `None` if it is a power, as the polynomial does not contain one of the
/// variables that are not free.
fn norm(p: &Poly, below: &Chain) -> Option<Poly> {
    let mut norm = p.clone();
    for (level, member) in below.members().collect::<Vec<_>>().into_iter().rev() {
        let (m, n) = (member.degree(level), norm.degree(level));
        norm = match (m, n) {
            (1, 0) => norm,
            (_, 0) => return None,
            _ => resultant(member, &norm, level),
        };
    }
    Some(norm)
}

/// Returns the resultant in the variable of `level`, which both contain, up to the sign.
fn resultant(a: &Poly, b: &Poly, level: Level) -> Poly {
    let (m, n) = (a.degree(level), b.degree(level));
    let all = if m >= n { subresultants(a, b, level) } else { subresultants(b, a, level) };
    match all.last() {
        Some(last) if last.degree(level) == 0 => last.clone(),
        _ => a.ring().zero(),
    }
}
