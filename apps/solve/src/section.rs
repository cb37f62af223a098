//! Random linear sections: degrees of varieties, and equations of their closures.
//!
//! # Degree
//! The degree of the closure of a chain of dimension d is the number of its points in a random
//! linear space of codimension d: such a space misses what the closure has more than the chain,
//! which is of smaller dimension. Variables that do not occur are left aside, and the degree of a
//! chain is the product of those of its blocks.
//!
//! # Containment
//! A random linear map to d + 1 coordinates projects the closure V of the chain onto a hypersurface
//! of degree deg V. A point that is not in V is not projected onto it, for all but a set of smaller
//! dimension of the maps. So an irreducible variety is in V if and only if the equation of the
//! hypersurface, with the linear forms as its variables, vanishes on it. That is a polynomial in
//! the original variables: the equation of a [`Cone`] over V.
//!
//! ```text
//!       V        l_1 = c_1, ..., l_d = c_d      the values of l_d+1 at the points of V there
//!      │ \    ──────────────────────────────>   are the zeros of f(c_1, ..., c_d, y)
//! ```
//!
//! The coefficients of f follow from sections at as many values c as a polynomial of degree deg V
//! in d variables has coefficients.
//!
//! # Small primes
//! Random numbers are taken from an extension of Z/p with at least 2^13 elements. It is a variable
//! below all others, with an irreducible polynomial.
//!
//! # Draws
//! A random linear space can be bad: it meets V at infinity, touches V, or meets the boundary of V
//! where an initial of the chain vanishes. A draw therefore has linear forms of its own, not only
//! values: bad forms are bad for nearly all values.
//!
//! A bad section of the chain has too few points, and never too many. The chain is open in V, so
//! points of a finite section are isolated points of V in the linear space, and by Bézout's
//! inequality there are at most deg V of them. An infinite section does not count. So the degree is
//! the largest number of three draws. The closure of a chain has a degree of at least 1; if no draw
//! finds a point, there are more draws.
//!
//! A section of a whole system can have too many points as well, as it may meet components of
//! smaller dimension. Its degrees are those on which two draws agree (`shared_degrees`).
//!
//! # Errors
//! Let q be the size of the field of random numbers, D = deg V, d = dim V, and n the degree of the
//! product of the chain's initials. A draw is bad with a probability of at most
//! b = D (2 d + D + n) / q. It is bad if the d forms have a common zero on V at infinity (d D / q),
//! if they are no separable projection of one of at most D components (d D / q), or if the values
//! are a zero of the projection's discriminant (D² / q) or of the image of the boundary (D n / q).
//! The draws are independent, so a degree is too small with a probability of at most b³. The
//! degrees of a whole system are wrong with a probability of about 3 b², where D is the sum of the
//! degrees of all components. In the smallest fields the bounds say little above a degree of some
//! 30: with d = 1 and n = 20, b is 0.2 there.
//!
//! A [`Cone`] wrongly contains a variety with a probability of at most (d + 1) D / q. It is drawn
//! once.
//!
//! The random numbers are those of a seed and of the polynomials, so an answer can be repeated.
//! What is bad for one chain is not bad for all chains over the same prime, and a check takes
//! another seed.

use std::rc::Rc;

use crate::chain::Chain;
use crate::partition::{partition, parts};
use crate::poly::{Level, Poly, Ring};
use crate::primes::primes;
use crate::random::Random;
use crate::redundant::{disjoint, divided};
use crate::regularize::Regularizer;
use crate::solve::{Job, Runner, points_by_basis};
use crate::task::Task;
use crate::tower;

/// The attempts to find an equation, each of which fails with a small probability.
const ATTEMPTS: usize = 8;
/// The number of random linear spaces by which a degree is determined.
const DRAWS: usize = 3;
/// The number of times that this number of spaces is drawn if none of them has a point.
const ROUNDS: usize = 8;
/// The number of draws of which two have to agree on the degrees of a system's components.
const SHARED_DRAWS: usize = 8;
/// The least size of a field of random numbers, in bits, if the prime is smaller.
const FIELD_BITS: f64 = 13.0;
/// The name of the field's generator, which is not printed.
const GENERATOR: &str = "generator";
/// The size of the prime, in bits, from which it needs no extension.
const PRIME_BITS: f64 = 12.0;

/// Returns the degree of the closure of the points of a chain, as a projective variety: the product
/// of the degrees of its blocks. That of one polynomial is its total degree. The random numbers are
/// those of `seed`.
#[must_use]
pub fn degree(chain: &Chain, seed: u64, runner: &mut Runner<'_>) -> usize {
    if chain.dimension() == 0 {
        return chain.degree();
    }
    let mut of_block = |block: &Chain| {
        let (level, member) = block.members().next().expect("a block has a member");
        if block.members().count() == 1 {
            let factors = member.factor().into_iter().map(|(factor, _)| factor);
            let factors = factors.filter(|factor| factor.degree(level) > 0);
            return factors.map(|factor| factor.total_degree()).sum();
        }
        let free = |at| block.get(at).is_none() && block.members().any(|(_, m)| m.degree(at) > 0);
        if !(1..=block.variables()).any(free) {
            // The members need not be square-free.
            return primes(block).iter().map(|component| component.chain.degree()).sum();
        }
        Section::new(block, seed).degree(runner)
    };
    chain.blocks().iter().map(&mut of_block).fold(1, usize::saturating_mul)
}

/// Returns the degrees of the closures of chains that have no component in common: all those of the
/// greatest dimension of the zeros of `equations` at which no inequation vanishes. The
/// sections are those of the system, whose polynomials are often much smaller than the chains';
/// each point belongs to the first chain whose members vanish there and whose initials do not.
/// Where an initial vanishes as well, the point may be that of another component. Returns `None` if
/// a section has no basis, as an infinite one, or if no two draws agree.
pub(crate) fn shared_degrees(
    equations: &[Poly],
    inequations: &[Poly],
    chains: &[&Chain],
    seed: u64,
) -> Option<Vec<usize>> {
    let first = chains.first()?;
    let random = random_of(seed, equations);
    let mut section = Section::of_variables(equations.first()?.ring(), random, |_| true);
    let mapped = |p: &Poly| p.mapped(&section.ring, &section.levels);
    let inequations = inequations.iter().map(mapped).collect::<Vec<_>>();
    let own = equations.iter().map(mapped).chain(section.field.clone()).collect::<Vec<_>>();
    let chains = chains.iter().map(|chain| {
        let members = chain.members().map(|(_, member)| mapped(member));
        members.fold(Chain::empty(section.ring.variables()), |all, member| all.with(member))
    });
    let chains = chains.collect::<Vec<_>>();
    let regularizer = Regularizer::new(&section.ring);
    let mut drawn: Vec<Vec<usize>> = Vec::new();
    for _ in 0..SHARED_DRAWS {
        let inputs = [own.as_slice(), &section.space(first.dimension())].concat();
        let points = points_by_basis(&section.ring, inputs, &inequations).ok()?;
        let mut points = disjoint(&regularizer, points);
        let mut degrees = Vec::new();
        for (index, chain) in chains.iter().enumerate() {
            // What is on none of the others is on the last one.
            let mut on_it = std::mem::take(&mut points);
            if index + 1 < chains.len() {
                let parts = on_it.iter().map(|points| divided(&regularizer, points, chain));
                let mut inside = Vec::new();
                for part in parts {
                    inside.extend(part.inside);
                    points.extend(part.outside);
                    points.extend(part.boundary);
                }
                on_it = inside;
            }
            degrees.push(section.count(&on_it));
        }
        if degrees.contains(&0) {
            continue;
        }
        if drawn.contains(&degrees) {
            return Some(degrees);
        }
        drawn.push(degrees);
    }
    None
}

/// The equation of a cone over the closure of a chain: see the head of the module.
#[derive(Debug)]
pub struct Cone {
    section: Section,
    equation: Poly,
}

impl Cone {
    /// Computes the equation for a chain that has at least one member, and a free variable that
    /// occurs in one. Variables that do not occur are left aside. The random numbers are those of
    /// `seed`.
    #[must_use]
    pub fn new(chain: &Chain, seed: u64, runner: &mut Runner<'_>) -> Cone {
        let mut section = Section::new(chain, seed);
        // Other random numbers in each attempt, and in the degree as well.
        for _ in 0..ATTEMPTS {
            let degree = section.degree(runner);
            let mut forms = section.forms(section.dimension() + 1);
            let last = forms.pop().expect("at least two forms");
            if let Some(equation) = section.equation(degree, &forms, &last, runner) {
                return Cone { section, equation };
            }
        }
        // An equation of nothing: no variety is told to be contained.
        let equation = section.ring.constant(1);
        Cone { section, equation }
    }

    /// Returns whether the closure contains an irreducible variety.
    #[must_use]
    pub fn contains(&self, prime: &Chain) -> bool {
        let Some((_, member)) = prime.members().next() else {
            return self.equation.is_zero();
        };
        // All variables, above those of the field.
        let section = &self.section;
        let shift = section.base_level();
        let mut names = member.ring().names().to_vec();
        names.extend((0..shift).map(|_| GENERATOR.to_owned()));
        let ring = Ring::new(&names, member.ring().prime()).expect("the prime is that of a ring");
        let levels = (0..=prime.variables()).map(|level| level + shift).collect::<Vec<_>>();
        let mut back = (0..=section.ring.variables()).collect::<Vec<_>>();
        for (level, &at) in section.levels.iter().enumerate().skip(1) {
            if at > 0 {
                back[at] = level + shift;
            }
        }
        let mut chain = Chain::empty(names.len());
        if let Some(field) = &section.field {
            chain = chain.with(field.mapped(&ring, &back));
        }
        for (_, member) in prime.members() {
            chain = chain.with(member.mapped(&ring, &levels));
        }
        let equation = self.equation.mapped(&ring, &back);
        partition(&Regularizer::new(&ring), &equation, &chain).1.is_empty()
    }
}

/// A chain in a ring that may have the generator of a field as an additional lowest variable.
#[derive(Debug)]
struct Section {
    ring: Ring,
    chain: Chain,
    /// The levels in this ring of the variables of the chain: 0 for one that does not occur. The
    /// first is that of the field's generator; 0 without one.
    levels: Vec<Level>,
    /// The polynomial of the field's generator.
    field: Option<Poly>,
    field_degree: usize,
    random: Random,
}

impl Section {
    fn new(chain: &Chain, seed: u64) -> Section {
        let (_, member) = chain.members().next().expect("a chain with a member");
        let occurs = |level| chain.members().any(|(_, member)| member.degree(level) > 0);
        let random = random_of(seed, chain.members().map(|(_, member)| member.as_ref()));
        let mut section = Section::of_variables(member.ring(), random, occurs);
        section.chain = chain.members().fold(section.base(), |all, (_, member)| {
            all.with(member.mapped(&section.ring, &section.levels))
        });
        section
    }

    /// The section of the space of those variables of a ring that occur.
    fn of_variables(outer: &Ring, mut random: Random, occurs: impl Fn(Level) -> bool) -> Section {
        let (n, prime) = (outer.variables(), outer.prime());
        let bits = (prime as f64).log2();
        let field_degree = if bits >= PRIME_BITS { 1 } else { (FIELD_BITS / bits).ceil() as usize };
        let shift = usize::from(field_degree > 1);
        let mut levels = vec![shift];
        let mut names = vec![GENERATOR.to_owned(); shift];
        for level in 1..=n {
            if occurs(level) {
                names.push(outer.name(level).to_owned());
                levels.push(names.len());
            } else {
                levels.push(0);
            }
        }
        names.reverse();
        let ring = Ring::new(&names, prime).expect("FLINT is loaded, and the prime is one");
        let field = (field_degree > 1).then(|| irreducible(&ring, field_degree, &mut random));
        let mut section =
            Section { chain: Chain::empty(names.len()), ring, levels, field, field_degree, random };
        section.chain = section.base();
        section
    }

    /// The number of variables of the chain that are free.
    fn dimension(&self) -> usize {
        self.chain.dimension()
    }

    /// The chain of the field's generator alone.
    fn base(&self) -> Chain {
        let chain = Chain::empty(self.ring.variables());
        self.field.iter().fold(chain, |chain, field| chain.with(field.clone()))
    }

    /// The level of the field's generator; 0 without one.
    fn base_level(&self) -> Level {
        self.levels[0]
    }

    /// A random number of the field.
    fn number_from(&self, random: &mut Random) -> Poly {
        let prime = self.ring.prime();
        let mut number = self.ring.constant(random.below(prime));
        for exponent in 1..self.field_degree as u64 {
            let power = self.ring.variable(1).power(exponent);
            number = &number + &power.scale(random.below(prime));
        }
        number
    }

    /// The degree of the closure of the chain: see the head of the module.
    fn degree(&mut self, runner: &mut Runner<'_>) -> usize {
        for _ in 0..ROUNDS {
            let spaces = (0..DRAWS).map(|_| self.space(self.dimension())).collect::<Vec<_>>();
            let found = self.points(&spaces, runner);
            let counts = found.iter().flatten().map(|points| self.count(points));
            if let Some(degree) = counts.max().filter(|&degree| degree > 0) {
                return degree;
            }
        }
        1
    }

    /// A random linear space of a codimension: the polynomials that vanish there.
    fn space(&mut self, codimension: usize) -> Vec<Poly> {
        let forms = self.forms(codimension);
        let mut random = self.random.clone();
        let space = forms.iter().map(|form| form - &self.number_from(&mut random)).collect();
        self.random = random;
        space
    }

    /// Random linear forms.
    fn forms(&mut self, count: usize) -> Vec<Poly> {
        let mut random = self.random.clone();
        let mut form = || {
            let levels = self.levels[1..].iter().filter(|level| **level > 0);
            levels.fold(self.ring.zero(), |form, &level| {
                &form + &(&self.number_from(&mut random) * &self.ring.variable(level))
            })
        };
        let forms = (0..count).map(|_| form()).collect();
        self.random = random;
        forms
    }

    /// For each of some linear spaces, the points of the chain in it, as closed chains without
    /// common points; `None` if they are infinitely many.
    fn points(&self, spaces: &[Vec<Poly>], runner: &mut Runner<'_>) -> Vec<Option<Vec<Chain>>> {
        let members = self.chain.members().map(|(_, member)| member.as_ref().clone());
        let members = members.collect::<Vec<_>>();
        let initials = members.iter().map(Poly::initial).filter(|initial| !initial.is_constant());
        let inequations = initials.collect::<Vec<_>>();
        let job = |space: &Vec<Poly>| {
            let conditions = space.iter().cloned().map(Rc::new).collect::<Vec<_>>();
            let mut task = Task::new(self.ring.variables(), &conditions);
            task.checked = 0;
            task.chain = self.chain.clone();
            let mut inputs = members.clone();
            inputs.extend(space.iter().cloned());
            Job { ring: self.ring.clone(), inputs, inequations: inequations.clone(), task }
        };
        let regularizer = Regularizer::new(&self.ring);
        let found = runner(spaces.iter().map(job).collect());
        let is_finite = |points: &Vec<Chain>| points.iter().all(|chain| chain.dimension() == 0);
        let found = found.into_iter().map(|points| Some(points).filter(is_finite));
        found.map(|points| Some(disjoint(&regularizer, points?))).collect()
    }

    /// The number of points of closed chains.
    fn count(&self, points: &[Chain]) -> usize {
        points.iter().map(Chain::degree).sum::<usize>() / self.field_degree
    }

    /// The equation of the projection by `forms` and `last`; `None` if a section does not have as
    /// many points as the degree.
    fn equation(
        &mut self,
        degree: usize,
        forms: &[Poly],
        last: &Poly,
        runner: &mut Runner<'_>,
    ) -> Option<Poly> {
        // The monomials of f in c, and as many sections.
        let exponents = exponents_up_to(degree, forms.len());
        let mut sections = Vec::new();
        let mut rows = Vec::new();
        let mut random = self.random.clone();
        // Another stream, so that a later attempt has other numbers.
        self.random = Random::new(self.random.below(u64::MAX));
        let this = &*self;
        let heights = (0..=degree).map(|_| this.number_from(&mut random)).collect::<Vec<_>>();
        let powers = |values: &[Poly], exponents: &[Vec<u64>]| {
            let monomial = |exponents: &Vec<u64>| {
                values.iter().zip(exponents).fold(this.ring.constant(1), |product, (value, &e)| {
                    this.reduce(&(&product * &tower::power(value, e, &this.base())))
                })
            };
            exponents.iter().map(monomial).collect::<Vec<_>>()
        };
        let heights_matrix = heights
            .iter()
            .map(|height| powers(std::slice::from_ref(height), &exponents_up_to(degree, 1)))
            .collect::<Vec<_>>();
        let mut unlucky = 0;
        while sections.len() < exponents.len() {
            let draw = |_| forms.iter().map(|_| this.number_from(&mut random)).collect();
            let draws = (sections.len()..exponents.len()).map(draw).collect::<Vec<Vec<_>>>();
            let space = |values: &Vec<Poly>| {
                forms.iter().zip(values).map(|(form, value)| form - value).collect()
            };
            let spaces = draws.iter().map(space).collect::<Vec<_>>();
            for (values, points) in draws.iter().zip(this.points(&spaces, runner)) {
                let Some(points) = points.filter(|points| this.count(points) == degree) else {
                    unlucky += 1;
                    continue;
                };
                // The values at some heights of the polynomial whose zeros are those of `last`.
                let at_heights = heights.iter().map(|height| {
                    points.iter().fold(this.ring.constant(1), |product, chain| {
                        this.reduce(&(&product * &this.norm(&(height - last), chain)))
                    })
                });
                let at_heights = at_heights.collect::<Vec<_>>();
                sections.push(this.solve(&heights_matrix, &[at_heights])?.remove(0));
                rows.push(powers(values, &exponents));
            }
            if unlucky > 4 + sections.len() {
                return None;
            }
        }
        // For each power of y, the values of its coefficient at all sections.
        let values = (0..=degree)
            .map(|power| sections.iter().map(|section| section[power].clone()).collect())
            .collect::<Vec<Vec<Poly>>>();
        let solved = this.solve(&rows, &values)?;
        let mut equation = this.ring.zero();
        let monomials = exponents
            .iter()
            .map(|exponents| {
                forms.iter().zip(exponents).fold(this.ring.constant(1), |product, (form, &e)| {
                    this.reduce(&(&product * &this.reduce(&form.power(e))))
                })
            })
            .collect::<Vec<_>>();
        for coefficients in solved.iter().rev() {
            equation = this.reduce(&(&equation * last));
            for (coefficient, monomial) in coefficients.iter().zip(&monomials) {
                if !coefficient.is_zero() {
                    equation = &equation + &this.reduce(&(coefficient * monomial));
                }
            }
        }
        Some(equation)
    }

    /// The remainder by the polynomial of the field's generator.
    fn reduce(&self, p: &Poly) -> Poly {
        match &self.field {
            Some(field) => p.remainder(&[field]),
            None => p.clone(),
        }
    }

    /// The product of the values of a polynomial at all points of a closed chain.
    fn norm(&self, p: &Poly, chain: &Chain) -> Poly {
        let top = self.ring.variables();
        match tower::norm(&chain.remainder(p, top), self.base_level(), top, chain) {
            Ok(norm) => norm,
            Err(split) => {
                let [a, b] = parts(chain, split).map(|part| self.norm(p, &part));
                self.reduce(&(&a * &b))
            }
        }
    }

    /// The solutions of a square system of linear equations for several right-hand sides; `None` if
    /// it is singular.
    fn solve(&self, rows: &[Vec<Poly>], right: &[Vec<Poly>]) -> Option<Vec<Vec<Poly>>> {
        let base = self.base();
        let size = rows.len();
        let mut rows = rows.to_vec();
        for (index, row) in rows.iter_mut().enumerate() {
            row.extend(right.iter().map(|side| side[index].clone()));
        }
        for column in 0..size {
            let pivot = (column..size).find(|&row| !rows[row][column].is_zero())?;
            rows.swap(column, pivot);
            let by = tower::inverse(&rows[column][column], &base).ok()?;
            let pivot =
                rows[column].iter().map(|entry| self.reduce(&(entry * &by))).collect::<Vec<_>>();
            for (index, row) in rows.iter_mut().enumerate() {
                if index != column && !row[column].is_zero() {
                    let factor = row[column].clone();
                    for (to, from) in row.iter_mut().zip(&pivot).skip(column) {
                        *to = &*to - &self.reduce(&(&factor * from));
                    }
                }
            }
            rows[column] = pivot;
        }
        let side = |index: usize| rows.iter().map(|row| row[size + index].clone()).collect();
        Some((0..right.len()).map(side).collect())
    }
}

/// The exponents of all monomials of at most a degree in some variables.
fn exponents_up_to(degree: usize, variables: usize) -> Vec<Vec<u64>> {
    let mut found = vec![Vec::new()];
    for _ in 0..variables {
        found = found
            .into_iter()
            .flat_map(|exponents: Vec<u64>| {
                let left = degree as u64 - exponents.iter().sum::<u64>();
                (0..=left).map(move |next| {
                    let mut exponents = exponents.clone();
                    exponents.push(next);
                    exponents
                })
            })
            .collect();
    }
    found
}

/// The random numbers of a seed and polynomials.
fn random_of<'p>(seed: u64, polys: impl IntoIterator<Item = &'p Poly>) -> Random {
    let words = polys.into_iter().flat_map(|poly| {
        let terms = poly.terms();
        terms.flat_map(|(coefficient, exponents)| exponents.into_iter().chain([coefficient]))
    });
    Random::of(seed, words)
}

/// A random irreducible polynomial in the variable of level 1.
pub(crate) fn irreducible(ring: &Ring, degree: usize, random: &mut Random) -> Poly {
    loop {
        let mut poly = ring.variable(1).power(degree as u64);
        for exponent in 0..degree as u64 {
            let power = ring.variable(1).power(exponent);
            poly = &poly + &power.scale(random.below(ring.prime()));
        }
        if matches!(poly.factor()[..], [(_, 1)]) {
            return poly;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::run_jobs;

    /// The line x + z, y + z over Z/5.
    fn line() -> Option<Section> {
        let names = ["x", "y", "z"].map(str::to_owned);
        let ring = Ring::new(&names, 5).ok()?;
        let [z, y, x] = [1, 2, 3].map(|level| ring.variable(level));
        Some(Section::new(&Chain::empty(3).with(&x + &z).with(&y + &z), 0))
    }

    #[test]
    fn bad_sections_have_too_few_points_or_do_not_count() {
        // Without FLINT there is nothing to test.
        let Some(section) = line() else { return };
        let [one, z, y, x] = [0, 1, 2, 3].map(|index| match index {
            0 => section.ring.constant(1),
            index => section.ring.variable(section.levels[index]),
        });
        let [through, beside, across] = [&x - &y, &(&x - &y) - &one, &z - &one];
        let spaces = [through, beside, across].map(|plane| vec![plane]);
        let found = section.points(&spaces, &mut run_jobs);
        let counts = found.iter().map(|points| Some(section.count(points.as_deref()?)));
        assert_eq!(counts.collect::<Vec<_>>(), [None, Some(0), Some(1)]);
    }

    #[test]
    fn each_draw_has_forms_of_its_own() {
        let Some(mut section) = line() else { return };
        let [first, second] = [section.space(1), section.space(1)];
        let top = section.ring.variables();
        let coefficient = |space: &[Poly]| space[0].leading_coefficient(top);
        assert_ne!(coefficient(&first), coefficient(&second));
    }
}
