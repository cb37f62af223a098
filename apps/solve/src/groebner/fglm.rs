//! From a basis by degree to the lexicographic one, where there are finitely many zeros.
//!
//! Monomials that no leading monomial divides, the standard ones, are a basis of the ring modulo
//! the ideal as a vector space. Monomials are taken in lexicographic order, as vectors in it; each
//! that depends on those before it gives a member of the lexicographic basis.

use std::collections::{BTreeMap, HashMap};

use super::monomial::Monomial;
use super::{Engine, MOST_ZEROS, NoBasis};
use crate::modular;
use crate::poly::{Poly, Ring};

/// The product of a standard monomial and a variable.
enum Product {
    /// Another standard monomial.
    Standard(usize),
    /// A vector.
    Vector(usize),
}

/// Multiplication modulo an ideal.
struct Quotient {
    prime: u64,
    /// The number of standard monomials. The first one is 1.
    size: usize,
    /// For each variable, the products with the standard monomials.
    products: Vec<Vec<Product>>,
    vectors: Vec<Vec<u32>>,
}

/// Adds `factor` times `row`; all sums stay below the square of the prime.
fn add_multiple(to: &mut [u64], row: &[u32], factor: u64, square: u64) {
    for (to, &value) in to.iter_mut().zip(row) {
        let sum = *to + factor * u64::from(value);
        *to = sum.min(sum.wrapping_sub(square));
    }
}

impl Quotient {
    fn new(engine: &mut Engine) -> Result<Quotient, NoBasis> {
        let n = engine.variables;
        let variables = (0..n).map(|index| Monomial::variable(n, index)).collect::<Vec<_>>();
        let is_power = |lead: Monomial, index: usize| {
            lead.exponents(n).iter().enumerate().all(|(at, &e)| at == index || e == 0)
        };
        let has_power =
            |index| engine.minimal().any(|(_, member)| is_power(member.row.monomials[0], index));
        if !(0..n).all(has_power) {
            return Err(NoBasis::Infinite);
        }
        let mut number = HashMap::from([(Monomial::ONE, 0)]);
        let mut standard = vec![Monomial::ONE];
        let mut border = Vec::new();
        let mut next = 0;
        while next < standard.len() {
            for &variable in &variables {
                let product = standard[next].times(variable);
                if number.contains_key(&product) {
                    continue;
                }
                if let Some(member) = engine.divisor(product) {
                    border.push((product, member));
                } else {
                    number.insert(product, standard.len());
                    standard.push(product);
                }
            }
            if standard.len() > MOST_ZEROS {
                return Err(NoBasis::Zeros);
            }
            next += 1;
        }
        border.sort_unstable();
        border.dedup();
        let mut rows = border
            .iter()
            .map(|&(product, member)| engine.leading(member, product))
            .collect::<Vec<_>>();
        let (monomials, leads) = engine.close(&mut rows)?;
        let (size, prime) = (standard.len(), engine.prime);
        let mut vectors: Vec<Vec<u32>> = Vec::new();
        let mut vector_of = HashMap::new();
        for (&monomial, lead) in monomials.iter().zip(leads).rev() {
            let Some(row) = lead.map(|number| &rows[number]) else { continue };
            let mut sum = vec![0; size];
            let mut work = 0;
            for (monomial, &coefficient) in row.monomials.iter().zip(&row.coefficients).skip(1) {
                let factor = prime - u64::from(coefficient);
                match number.get(monomial) {
                    Some(&at) => add_multiple(&mut sum[at..=at], &[1], factor, prime * prime),
                    None => {
                        let vector: &Vec<u32> = &vectors[vector_of[monomial]];
                        add_multiple(&mut sum, vector, factor, prime * prime);
                        work += size;
                    }
                }
            }
            engine.works(work)?;
            vector_of.insert(monomial, vectors.len());
            vectors.push(sum.into_iter().map(|value| (value % prime) as u32).collect());
        }
        let products = variables.iter().map(|variable| {
            let product = |monomial: &Monomial| {
                let product = monomial.times(*variable);
                match number.get(&product) {
                    Some(&at) => Product::Standard(at),
                    None => Product::Vector(vector_of[&product]),
                }
            };
            standard.iter().map(product).collect()
        });
        let products = products.collect();
        Ok(Quotient { prime, size, products, vectors })
    }

    /// Returns the product of a vector and a variable.
    fn product(&self, vector: &[u32], variable: usize) -> Vec<u32> {
        let square = self.prime * self.prime;
        let mut sum = vec![0; self.size];
        for (&value, product) in vector.iter().zip(&self.products[variable]) {
            let value = u64::from(value);
            match *product {
                _ if value == 0 => (),
                Product::Standard(at) => add_multiple(&mut sum[at..=at], &[1], value, square),
                Product::Vector(at) => add_multiple(&mut sum, &self.vectors[at], value, square),
            }
        }
        sum.into_iter().map(|value| (value % self.prime) as u32).collect()
    }
}

/// Returns the lexicographic basis, from the complete basis of an engine.
pub(super) fn convert(engine: &mut Engine, ring: &Ring) -> Result<Vec<Poly>, NoBasis> {
    if engine.members.iter().any(|member| member.row.monomials[0].is_one()) {
        return Ok(vec![ring.constant(1)]);
    }
    let quotient = Quotient::new(engine)?;
    let (size, prime, n) = (quotient.size, quotient.prime, engine.variables);
    // The lexicographic standard monomials, with their vectors. An echelon row has a vector, and
    // its coordinates in these monomials behind it.
    let mut standard: Vec<(Vec<u64>, Vec<u32>)> = Vec::new();
    let mut echelon: Vec<Option<Vec<u32>>> = vec![None; size];
    let mut leads: Vec<Vec<u64>> = Vec::new();
    let mut basis = Vec::new();
    let mut open = BTreeMap::from([(vec![0; n], None)]);
    while let Some((exponents, from)) = open.pop_first() {
        if leads.iter().any(|lead| lead.iter().zip(&exponents).all(|(a, b)| a <= b)) {
            continue;
        }
        let vector = match from {
            None => (0..size).map(|at| u32::from(at == 0)).collect(),
            Some((parent, variable)) => quotient.product(&standard[parent as usize].1, variable),
        };
        let mut dense = vec![0; 2 * size + 1];
        for (to, &value) in dense.iter_mut().zip(&vector) {
            *to = u64::from(value);
        }
        dense[size + standard.len()] = 1;
        let (mut pivot, mut work) = (None, 0);
        for at in 0..size {
            dense[at] %= prime;
            if dense[at] == 0 {
                continue;
            }
            match &echelon[at] {
                Some(row) => {
                    let factor = prime - dense[at];
                    add_multiple(&mut dense[at..], &row[at..], factor, prime * prime);
                    work += row.len() - at;
                }
                None => pivot = pivot.or(Some(at)),
            }
        }
        engine.works(work)?;
        if let Some(at) = pivot {
            let inverse = modular::inverse(dense[at] % prime, prime);
            let row = dense.iter().map(|&value| (value % prime * inverse % prime) as u32);
            echelon[at] = Some(row.collect());
            for variable in 0..n {
                let mut product = exponents.clone();
                product[variable] += 1;
                open.entry(product).or_insert(Some((standard.len() as u32, variable)));
            }
            standard.push((exponents, vector));
        } else {
            let known = standard.iter().map(|(exponents, _)| exponents);
            let terms = known.chain([&exponents]).zip(&dense[size..]);
            basis.push(ring.from_terms(terms.map(|(exponents, &c)| (c % prime, &exponents[..]))));
            leads.push(exponents);
        }
    }
    Ok(basis)
}
