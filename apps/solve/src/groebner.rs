//! Gröbner bases of systems with finitely many zeros: another route to their chains.
//!
//! # Contract
//! [`lexicographic`] returns polynomials that vanish at the zeros of the equations at which no
//! inequation vanishes. So a system has the same zeros with them as without, whatever happens here.
//! They are a lexicographic basis, from whose members with few variables a decomposition is found
//! at once.
//!
//! ```text
//!   inputs ── F4 ──> basis by degree ── normal forms ──> multiplication by each variable
//!                                                          │ linear algebra (FGLM)
//!                    chains <── decomposition <── lexicographic basis
//! ```
//!
//! It gives up, with the reason, if there are infinitely many zeros, or more than [`MOST_ZEROS`],
//! or after a number of operations: the same on all machines, so that the answer is the same.
//!
//! # Method
//! F4: all critical pairs of the least degree are reduced together, as rows of a matrix with a
//! column for each monomial. Rows of the basis that reduce their monomials are added first. What
//! remains of a row joins the basis; the criteria of Gebauer and Möller remove pairs.
//!
//! # Costs
//! For D zeros in n variables, O(n D³) operations, and those of the basis by degree, for which no
//! good bound is known: that is what the limit is for.
//!
//! # Source
//! Faugère, "A new efficient algorithm for computing Gröbner bases (F4)" (1999); Gebauer and
//! Möller, "On an installation of Buchberger's algorithm" (1988); Faugère, Gianni, Lazard and Mora,
//! "Efficient computation of zero-dimensional Gröbner bases by change of ordering" (1993). Changed:
//! pairs are chosen by degree, and old rows are not used again.

mod fglm;
mod monomial;

use std::cmp::Reverse;
use std::collections::HashMap;

use thiserror::Error;

use crate::modular;
use crate::poly::{Poly, Ring};
use monomial::{MAX_DEGREE, MAX_VARIABLES, Monomial};

/// The largest number of zeros, counted with multiplicity.
pub const MOST_ZEROS: usize = 2000;
/// The largest number of multiplications in rows, for a system: they take half a minute.
pub const MOST_WORK: u64 = 20_000_000_000;
/// What a term of a matrix costs beside multiplications, as a number of them.
const TERM_WORK: usize = 16;
/// The largest number of terms of the rows of one matrix: some 2 GiB.
const MOST_TERMS: usize = 50_000_000;
/// Primes are smaller: a product and a sum fit a word.
const MOST_PRIME: u64 = 1 << 31;

/// The reason why there is no basis.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoBasis {
    /// There are infinitely many zeros.
    #[error("there are infinitely many zeros")]
    Infinite,
    /// There are too many zeros.
    #[error("there are more than {MOST_ZEROS} zeros, counted with multiplicity")]
    Zeros,
    /// The prime is too large.
    #[error("the prime is not less than 2^31")]
    Prime,
    /// There are too many variables.
    #[error("there are more than {MAX_VARIABLES} variables")]
    Variables,
    /// The degrees grow too much.
    #[error("degrees exceed {MAX_DEGREE}")]
    Degree,
    /// It takes too long.
    #[error("it needs too many operations")]
    Work,
    /// It needs too much memory.
    #[error("it needs matrices of more than {MOST_TERMS} terms")]
    Terms,
}

/// Returns the lexicographic basis of the ideal of the polynomials that vanish where `equations` do
/// and none of `inequations` does: of the ideal of `equations`, saturated. It gives up after
/// `most_work` operations, such as [`MOST_WORK`]. See the head of the module.
///
/// # Errors
/// The reason why there is none.
pub fn lexicographic(
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    most_work: u64,
) -> Result<Vec<Poly>, NoBasis> {
    let (n, more) = (ring.variables(), inequations.len());
    if ring.prime() >= MOST_PRIME {
        return Err(NoBasis::Prime);
    }
    if n + more > MAX_VARIABLES {
        return Err(NoBasis::Variables);
    }
    if more == 0 {
        return basis(ring, equations, most_work);
    }
    // A greater variable t for each inequation q, and the equation t q = 1 (Rabinowitsch). The
    // members of the basis without t are those that are asked for.
    let names = (0..more).map(|index| format!("inverse {index}"));
    let names = names.chain(ring.names().iter().cloned()).collect::<Vec<_>>();
    let larger = Ring::new(&names, ring.prime()).expect("a ring of this prime exists");
    let levels = (0..=n).collect::<Vec<_>>();
    let mut all = equations.iter().map(|p| p.mapped(&larger, &levels)).collect::<Vec<_>>();
    all.extend(inequations.iter().enumerate().map(|(index, q)| {
        let product = &larger.variable(n + more - index) * &q.mapped(&larger, &levels);
        &product - &larger.constant(1)
    }));
    let found = basis(&larger, &all, most_work)?;
    let without = found.iter().filter(|p| p.main_level() <= n);
    Ok(without.map(|p| p.mapped(ring, &levels)).collect())
}

/// The lexicographic basis of the ideal of `equations`.
fn basis(ring: &Ring, equations: &[Poly], most_work: u64) -> Result<Vec<Poly>, NoBasis> {
    let mut engine = Engine::new(ring, most_work);
    let inputs = equations.iter().filter(|equation| !equation.is_zero());
    let rows = inputs.map(|equation| engine.row(equation)).collect::<Result<Vec<_>, _>>()?;
    engine.complete(rows)?;
    fglm::convert(&mut engine, ring)
}

/// A polynomial: its terms by degree, and reverse lexicographically within a degree, the greatest
/// first. The first coefficient is 1.
#[derive(Clone, Debug, Default)]
struct Row {
    monomials: Vec<Monomial>,
    coefficients: Vec<u32>,
}

/// A member of the basis.
#[derive(Debug)]
struct Member {
    row: Row,
    /// Whether no leading monomial of another member divides its own.
    minimal: bool,
}

/// A critical pair, of two members.
#[derive(Clone, Copy, Debug)]
struct Pair {
    lcm: Monomial,
    members: [usize; 2],
}

/// The computation of a basis.
#[derive(Debug)]
struct Engine {
    prime: u64,
    variables: usize,
    members: Vec<Member>,
    pairs: Vec<Pair>,
    /// The number of multiplications that are left.
    work_left: u64,
}

impl Engine {
    fn new(ring: &Ring, most_work: u64) -> Engine {
        Engine {
            prime: ring.prime(),
            variables: ring.variables(),
            members: Vec::new(),
            pairs: Vec::new(),
            work_left: most_work,
        }
    }

    /// Counts work.
    fn works(&mut self, count: usize) -> Result<(), NoBasis> {
        self.work_left = self.work_left.checked_sub(count as u64).ok_or(NoBasis::Work)?;
        Ok(())
    }

    fn row(&self, poly: &Poly) -> Result<Row, NoBasis> {
        let mut terms = poly
            .terms()
            .map(|(coefficient, exponents)| {
                Ok((Monomial::new(&exponents).ok_or(NoBasis::Degree)?, coefficient as u32))
            })
            .collect::<Result<Vec<_>, NoBasis>>()?;
        terms.sort_by_key(|term| Reverse(term.0));
        let (monomials, coefficients) = terms.into_iter().unzip();
        Ok(self.monic(Row { monomials, coefficients }))
    }

    fn monic(&self, mut row: Row) -> Row {
        if let Some(&first) = row.coefficients.first().filter(|&&first| first != 1) {
            let inverse = modular::inverse(u64::from(first), self.prime);
            for coefficient in &mut row.coefficients {
                *coefficient = (u64::from(*coefficient) * inverse % self.prime) as u32;
            }
        }
        row
    }

    /// The minimal members.
    fn minimal(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate().filter(|(_, member)| member.minimal)
    }

    /// A minimal member whose leading monomial divides `monomial`.
    fn divisor(&self, monomial: Monomial) -> Option<usize> {
        let divides = |member: &Member| member.row.monomials[0].divides(monomial);
        self.minimal().find(|(_, member)| divides(member)).map(|(index, _)| index)
    }

    /// The multiple of a member with this leading monomial.
    fn leading(&self, member: usize, monomial: Monomial) -> Row {
        let Row { monomials, coefficients } = &self.members[member].row;
        let factor = monomial.over(monomials[0]);
        let monomials = monomials.iter().map(|monomial| monomial.times(factor)).collect();
        Row { monomials, coefficients: coefficients.clone() }
    }

    /// Completes the basis.
    fn complete(&mut self, mut pending: Vec<Row>) -> Result<(), NoBasis> {
        loop {
            let pairs = self.pairs.iter().map(|pair| pair.lcm.degree());
            let Some(least) =
                pairs.chain(pending.iter().map(|row| row.monomials[0].degree())).min()
            else {
                return Ok(());
            };
            if least > MAX_DEGREE {
                return Err(NoBasis::Degree);
            }
            let of_least = |row: &mut Row| row.monomials[0].degree() == least;
            let new = pending.extract_if(.., of_least).collect::<Vec<_>>();
            let taken = self.pairs.extract_if(.., |pair| pair.lcm.degree() == least);
            let mut halves = taken
                .flat_map(|pair| pair.members.map(|member| (pair.lcm, member)))
                .collect::<Vec<_>>();
            halves.extend(new.iter().filter_map(|row| {
                let lead = row.monomials[0];
                self.divisor(lead).map(|member| (lead, member))
            }));
            halves.sort_unstable();
            halves.dedup();
            let mut rows =
                halves.iter().map(|&(lcm, member)| self.leading(member, lcm)).collect::<Vec<_>>();
            rows.extend(new);
            for row in self.reduce(rows)? {
                if row.monomials[0].is_one() {
                    self.members = vec![Member { row, minimal: true }];
                    self.pairs.clear();
                    return Ok(());
                }
                // The leading monomials of new rows may divide one another.
                match self.divisor(row.monomials[0]) {
                    Some(_) => pending.push(row),
                    None => self.add(row),
                }
            }
        }
    }

    /// Adds a member, and its pairs with the others.
    fn add(&mut self, row: Row) {
        let (new, lead) = (self.members.len(), row.monomials[0]);
        let lead_of = |member: usize| self.members[member].row.monomials[0];
        self.pairs.retain(|pair| {
            !lead.divides(pair.lcm)
                || pair.members.iter().any(|&member| lead_of(member).lcm(lead) == pair.lcm)
        });
        let mut pairs = self
            .minimal()
            .map(|(index, member)| {
                let other = member.row.monomials[0];
                (other.lcm(lead), !other.is_coprime(lead), index)
            })
            .collect::<Vec<_>>();
        // Of pairs with the same lcm, one of coprime monomials comes first, as it needs no work.
        pairs.sort_unstable();
        let mut kept: Vec<(Monomial, bool, usize)> = Vec::new();
        for pair in pairs {
            if !kept.iter().any(|(lcm, ..)| lcm.divides(pair.0)) {
                kept.push(pair);
            }
        }
        let pairs = kept.into_iter().filter(|(_, counts, _)| *counts);
        self.pairs.extend(pairs.map(|(lcm, _, index)| Pair { lcm, members: [index, new] }));
        for member in &mut self.members {
            member.minimal &= !lead.divides(member.row.monomials[0]);
        }
        self.members.push(Member { row, minimal: true });
    }

    /// Adds to `rows` a multiple of a member for each of their monomials, and of those of the
    /// multiples, that has a divisor and leads no row yet. Returns all monomials, the greatest
    /// first, and the number of the row that each leads.
    fn close(&self, rows: &mut Vec<Row>) -> Result<(Vec<Monomial>, Vec<Option<usize>>), NoBasis> {
        let mut leads: HashMap<Monomial, Option<usize>> = HashMap::new();
        for (number, row) in rows.iter().enumerate() {
            leads.entry(row.monomials[0]).or_insert(Some(number));
        }
        let mut terms = rows.iter().map(|row| row.monomials.len()).sum::<usize>();
        let mut next = 0;
        while next < rows.len() {
            for at in 0..rows[next].monomials.len() {
                let monomial = rows[next].monomials[at];
                if leads.contains_key(&monomial) {
                    continue;
                }
                let divisor = self.divisor(monomial);
                leads.insert(monomial, divisor.map(|_| rows.len()));
                if let Some(member) = divisor {
                    terms += self.members[member].row.monomials.len();
                    if terms > MOST_TERMS {
                        return Err(NoBasis::Terms);
                    }
                    rows.push(self.leading(member, monomial));
                }
            }
            next += 1;
        }
        let mut columns = leads.into_iter().collect::<Vec<_>>();
        columns.sort_unstable_by_key(|column| Reverse(column.0));
        Ok(columns.into_iter().unzip())
    }

    /// Reduces rows by the members and by one another; returns those whose leading monomial no
    /// member divides, the least one first. A row that a member divides comes after the multiple of
    /// the member.
    fn reduce(&mut self, mut rows: Vec<Row>) -> Result<Vec<Row>, NoBasis> {
        let given = rows.len();
        let (monomials, leads) = self.close(&mut rows)?;
        self.works(TERM_WORK * rows.iter().map(|row| row.monomials.len()).sum::<usize>())?;
        let column = monomials.iter().enumerate().map(|(at, &monomial)| (monomial, at as u32));
        let column = column.collect::<HashMap<_, _>>();
        let mut sparse = rows
            .into_iter()
            .map(|row| {
                let columns = row.monomials.iter().map(|monomial| column[monomial]).collect();
                (columns, row.coefficients)
            })
            .collect::<Vec<(Vec<u32>, Vec<u32>)>>();
        let mut pivots = leads;
        let (prime, square) = (self.prime, self.prime * self.prime);
        let mut dense = vec![0_u64; monomials.len()];
        let mut found = Vec::new();
        for number in 0..given {
            let first = sparse[number].0[0] as usize;
            if pivots[first] == Some(number) {
                if self.divisor(monomials[first]).is_none() {
                    found.push(number);
                }
                continue;
            }
            let (columns, coefficients) = std::mem::take(&mut sparse[number]);
            for (&at, &coefficient) in columns.iter().zip(&coefficients) {
                dense[at as usize] = u64::from(coefficient);
            }
            let mut rest: (Vec<u32>, Vec<u32>) = Default::default();
            let mut work = 0;
            for at in first..dense.len() {
                let value = std::mem::take(&mut dense[at]) % prime;
                if value == 0 {
                    continue;
                }
                let Some(pivot) = pivots[at] else {
                    rest.0.push(at as u32);
                    rest.1.push(value as u32);
                    continue;
                };
                let (columns, coefficients) = &sparse[pivot];
                work += columns.len();
                let factor = prime - value;
                for (&to, &coefficient) in columns.iter().zip(coefficients).skip(1) {
                    let sum = dense[to as usize] + factor * u64::from(coefficient);
                    dense[to as usize] = sum.min(sum.wrapping_sub(square));
                }
            }
            self.works(work)?;
            if let Some(&lead) = rest.0.first() {
                let row = self.monic(Row { monomials: Vec::new(), coefficients: rest.1 });
                pivots[lead as usize] = Some(number);
                sparse[number] = (rest.0, row.coefficients);
                found.push(number);
            }
        }
        let mut found = found
            .into_iter()
            .map(|number| {
                let (columns, coefficients) = std::mem::take(&mut sparse[number]);
                let monomials = columns.iter().map(|&at| monomials[at as usize]).collect();
                Row { monomials, coefficients }
            })
            .collect::<Vec<_>>();
        found.sort_by_key(|row| row.monomials[0]);
        Ok(found)
    }
}
