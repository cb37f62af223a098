//! Factors over fields of functions: see the head of [`primes`](super).

use crate::chain::Chain;
use crate::partition::partition;
use crate::poly::{Level, Poly};
use crate::primes::Doubt;
use crate::primes::field::{Field, GENERATOR};
use crate::random::Random;
use crate::regularize::{Regularizer, primitive};
use crate::section::irreducible;
use crate::subresultant::subresultants;

/// The number of shifts that are tried; the last ones are polynomials over small fields.
const SHIFTS: usize = 12;
const SHIFTS_BY_NUMBERS: usize = 5;
/// From this size of the field on, there are enough numbers for shifts.
const MANY: f64 = 1000.0;
/// The least size of a field of values for free variables.
const MANY_VALUES: f64 = 10_000.0;
/// The number of points at which a polynomial is factored before its norm.
const POINTS: usize = 24;
/// The largest degree of the field of a point over Z/p.
const MAX_POINT_DEGREE: usize = 400;
/// The largest number of numbers of Z/p in a norm: FLINT factors that in some seconds.
pub(super) const MAX_NORM: f64 = 1e6;

/// The field L of functions of a chain that is irreducible over a finite field.
pub(super) struct Functions<'a> {
    pub(super) regularizer: &'a Regularizer,
    pub(super) field: &'a Field,
    /// The members, in a ring with the generator below all variables.
    pub(super) chain: &'a Chain,
}

impl Functions<'_> {
    /// The irreducible factors over L of a polynomial in the variable of `level`, which is above
    /// all members, each once; and a reason to doubt whether they are irreducible.
    pub(super) fn factors(&self, p: &Poly, level: Level) -> (Vec<Poly>, Option<Doubt>) {
        let p = primitive(&self.over_field(self.chain).reduce(p, level - 1));
        if p.degree(level) == 1 {
            return (vec![p], None);
        }
        let all = self.members(|_| true);
        let occurs = occurring(self.chain, &p);
        let within = self.members(|at| occurs[at]);
        let mut found = Vec::new();
        let mut doubt = None;
        let mut open = vec![p];
        if is_empty(&within) {
            let factors = self.field.factor(&open[0]).into_iter().map(|(factor, _)| factor);
            open = factors.filter(|factor| factor.degree(level) > 0).collect();
        }
        // Over the field that it is defined over, then over all of L.
        let mut stages = vec![all.clone()];
        if !is_empty(&within) && within != all {
            stages.insert(0, within.clone());
        }
        for (index, stage) in stages.iter().enumerate() {
            for p in std::mem::take(&mut open) {
                let outside_only = index == 0 && is_empty(&within);
                let coprime = outside_only && gcd(p.degree(level), all.degree()) == 1;
                if p.degree(level) == 1 || is_empty(&all) || coprime {
                    found.push(p);
                    continue;
                }
                let evidence = self.at_points(&all, &p, level);
                if evidence.irreducible {
                    found.push(p);
                    continue;
                }
                match self.by_norms(stage, &p, level, evidence.square_free) {
                    Ok(parts) => open.extend(parts),
                    Err(why) => {
                        doubt = Some(why);
                        found.push(p);
                    }
                }
            }
        }
        found.extend(open);
        found.sort_by_cached_key(Poly::to_string);
        found.dedup();
        (found, doubt)
    }

    /// The chain of those members of which the degree is not 1 and that `wanted` selects.
    fn members(&self, wanted: impl Fn(Level) -> bool) -> Chain {
        let members = self.chain.members();
        let members = members.filter(|(at, member)| member.degree(*at) > 1 && wanted(*at));
        members
            .fold(Chain::empty(self.chain.variables()), |all, (_, member)| all.with(member.clone()))
    }

    /// The chain with the member of the generator.
    fn over_field(&self, chain: &Chain) -> Chain {
        self.field.modulus().map_or_else(|| chain.clone(), |modulus| chain.with(modulus.clone()))
    }

    /// Factors a polynomial at random points of a chain, of which it has all members.
    fn at_points(&self, chain: &Chain, p: &Poly, level: Level) -> Evidence {
        let degree = p.degree(level);
        let mut random = Random::new(degree as u64);
        let mut evidence = Evidence { irreducible: false, square_free: false };
        // The sums of degrees of factors: bit s is set if some factors have the degree s.
        let mut sums = vec![true; degree + 1];
        let base = self.with_enough_numbers(p, level);
        let used = |at: Level| {
            p.degree(at) > 0 || chain.members().any(|(_, member)| member.degree(at) > 0)
        };
        let free = (GENERATOR + 1..level).filter(|&at| chain.get(at).is_none() && used(at));
        let free = free.collect::<Vec<_>>();
        'points: for _ in 0..POINTS {
            let mut field = base.clone();
            for &at in &free {
                let value = field.number(&mut random);
                field = field.with_value(at, value);
            }
            for (at, member) in chain.members() {
                let special = field.image(member);
                if special.degree(at) != member.degree(at) {
                    continue 'points;
                }
                let factors = field.factor(&special);
                let least = factors.iter().map(|(factor, _)| factor.degree(at)).min();
                let least = least.unwrap_or_default();
                if factors.iter().any(|(_, exponent)| *exponent > 1)
                    || field.degree() * least > MAX_POINT_DEGREE
                {
                    continue 'points;
                }
                let of_least = factors.iter().filter(|(factor, _)| factor.degree(at) == least);
                let of_least = of_least.collect::<Vec<_>>();
                let chosen = &of_least[random.below(of_least.len() as u64) as usize].0;
                field = field.with_zero(chosen, at, None);
            }
            let special = field.image(p);
            if special.degree(level) != degree {
                continue;
            }
            let mut here = vec![false; degree + 1];
            here[0] = true;
            let factors = field.factor(&special);
            evidence.square_free |= factors.iter().all(|(_, exponent)| *exponent == 1);
            for (factor, exponent) in factors {
                for _ in 0..exponent {
                    for sum in (factor.degree(level)..=degree).rev() {
                        here[sum] |= here[sum - factor.degree(level)];
                    }
                }
            }
            for (sum, here) in sums.iter_mut().zip(here) {
                *sum &= here;
            }
            if sums[1..degree].iter().all(|sum| !sum) {
                evidence.irreducible = true;
                return evidence;
            }
        }
        evidence
    }

    /// An extension of the field with enough numbers for random points. Its degree is a prime
    /// greater than that of `p`, so what is irreducible stays so.
    fn with_enough_numbers(&self, p: &Poly, level: Level) -> Field {
        let size = self.size();
        let field = self.field.subfield();
        if size >= MANY_VALUES {
            return field;
        }
        let least = (MANY_VALUES.ln() / size.ln()).ceil() as usize;
        let degree = (least.max(p.degree(level) + 1)..)
            .find(|n| (2..*n).all(|by| n % by != 0) && !self.field.degree().is_multiple_of(*n))
            .expect("there is a prime");
        let mut random = Random::new(degree as u64);
        let poly = irreducible(p.ring(), degree, &mut random);
        let mut levels = vec![0; p.ring().variables() + 1];
        levels[GENERATOR] = level;
        let field = field.with_zero(&poly.mapped(p.ring(), &levels), level, None);
        field.without_value(level)
    }

    /// The number of numbers of the field.
    fn size(&self) -> f64 {
        (self.regularizer.ring().prime() as f64).powi(self.field.degree() as i32)
    }

    /// The irreducible factors of a polynomial over the field of a chain of irreducible members.
    fn by_norms(
        &self,
        members: &Chain,
        p: &Poly,
        level: Level,
        square_free: bool,
    ) -> Result<Vec<Poly>, Doubt> {
        let chain = self.over_field(members).with(p.clone());
        let member = |part: Chain| part.get(level).expect("a level with a member").as_ref().clone();
        if !square_free {
            // The parts without multiple factors.
            let (multiple, simple) = partition(self.regularizer, &p.derivative(level), &chain);
            let parts = multiple.into_iter().chain(simple).map(member).collect::<Vec<_>>();
            if parts.len() > 1 {
                let parts = parts.iter().map(|part| self.by_norms(members, part, level, false));
                return Ok(parts.collect::<Result<Vec<_>, _>>()?.concat());
            }
        }
        if p.degree(level) == 1 {
            return Ok(vec![p.clone()]);
        }
        let ring = p.ring();
        let variable = ring.variable(level);
        let mut random = Random::new(level as u64);
        let mut doubt = Doubt::Shifts(level - 1);
        for attempt in 0..SHIFTS {
            let mut shift = ring.zero();
            if attempt > 0 {
                for (at, _) in members.members() {
                    let by = self.multiplier(members, level, attempt, &mut random);
                    shift = &shift + &(&by * &ring.variable(at));
                }
            }
            let shifted = composed(p, level, &(&variable - &shift));
            if norm_terms(&shifted, members, level) * self.field.degree() as f64 > MAX_NORM {
                doubt = Doubt::Norm(level - 1);
                continue;
            }
            let Some(norm) = self.norm(&shifted, members) else { continue };
            if norm.degree(level) == 0 {
                continue;
            }
            let mut norms = self.field.factor(&norm);
            norms.retain(|(factor, _)| factor.degree(level) > 0);
            if norms.iter().any(|(_, exponent)| *exponent > 1) {
                continue;
            }
            if norms.len() == 1 {
                return Ok(vec![p.clone()]);
            }
            let parts = norms.iter().flat_map(|(norm, _)| {
                let back = composed(norm, level, &(&variable + &shift));
                partition(self.regularizer, &back, &chain).0
            });
            return Ok(parts.map(member).collect());
        }
        Err(doubt)
    }

    /// A random multiplier of a shift: a number; later, over a small field, a linear polynomial in
    /// the free variables, since there are few numbers.
    fn multiplier(
        &self,
        members: &Chain,
        level: Level,
        attempt: usize,
        random: &mut Random,
    ) -> Poly {
        let ring = self.regularizer.ring();
        let mut multiplier = self.field.number(random);
        if self.size() < MANY && attempt > SHIFTS_BY_NUMBERS {
            for free in members.free().filter(|&free| GENERATOR < free && free < level) {
                let number = ring.constant(random.below(ring.prime()));
                multiplier = &multiplier + &(&ring.variable(free) * &number);
            }
        }
        multiplier
    }

    /// The norm of a polynomial over the rational functions in the free variables, up to a factor
    /// in these; `None` if it is a power, as the polynomial does not contain one of the variables
    /// that are not free.
    fn norm(&self, p: &Poly, members: &Chain) -> Option<Poly> {
        let mut norm = p.clone();
        for (level, member) in members.members().collect::<Vec<_>>().into_iter().rev() {
            if norm.degree(level) == 0 {
                return None;
            }
            norm = match self.field.extension() {
                Some(extension) => extension.resultant(member, &norm, level),
                None => resultant(member, &norm, level),
            };
        }
        Some(norm)
    }
}

/// What is seen at points.
struct Evidence {
    /// The polynomial is irreducible.
    irreducible: bool,
    /// It has no multiple factor.
    square_free: bool,
}

fn is_empty(chain: &Chain) -> bool {
    chain.members().next().is_none()
}

/// For each level, whether a polynomial contains the variable, or a member does whose variable
/// occurs in this sense; index 0 is unused.
fn occurring(chain: &Chain, p: &Poly) -> Vec<bool> {
    let mut occurs = vec![false; chain.variables() + 1];
    let mark = |occurs: &mut Vec<bool>, p: &Poly| {
        for (level, occurs) in occurs.iter_mut().enumerate().skip(1) {
            *occurs |= p.degree(level) > 0;
        }
    };
    mark(&mut occurs, p);
    for (at, member) in chain.members().collect::<Vec<_>>().into_iter().rev() {
        if occurs[at] {
            mark(&mut occurs, member);
        }
    }
    occurs
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The polynomial with another one in the place of the variable of `level`.
fn composed(p: &Poly, level: Level, with: &Poly) -> Poly {
    p.coefficients(level).iter().rev().fold(p.ring().zero(), |sum, c| &(&sum * with) + c)
}

/// The resultant in the variable of `level`, which both contain, up to the sign.
fn resultant(a: &Poly, b: &Poly, level: Level) -> Poly {
    let (m, n) = (a.degree(level), b.degree(level));
    let all = if m >= n { subresultants(a, b, level) } else { subresultants(b, a, level) };
    match all.last() {
        Some(last) if last.degree(level) == 0 => last.clone(),
        _ => a.ring().zero(),
    }
}

/// A bound of the number of terms of a norm, by degrees.
fn norm_terms(p: &Poly, members: &Chain, level: Level) -> f64 {
    let mut degrees = (0..=level)
        .map(|at| if at > GENERATOR { p.degree(at) as f64 } else { 0.0 })
        .collect::<Vec<_>>();
    let mut total = p.total_degree() as f64;
    for (at, member) in members.members().collect::<Vec<_>>().into_iter().rev() {
        let (m, n) = (member.degree(at) as f64, degrees[at]);
        for (other, degree) in degrees.iter_mut().enumerate().skip(GENERATOR + 1) {
            *degree = *degree * m + member.degree(other) as f64 * n;
        }
        degrees[at] = 0.0;
        total = (total * m + member.total_degree() as f64 * n)
            .min(total * member.total_degree() as f64);
    }
    let in_box = degrees.iter().map(|degree| degree + 1.0).product::<f64>();
    let variables = degrees.iter().filter(|&&degree| degree > 0.0).count();
    let in_simplex = (1..=variables).map(|k| (total + k as f64) / k as f64).product::<f64>();
    in_box.min(in_simplex)
}
