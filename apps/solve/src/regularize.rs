//! Whether a polynomial is zero, regular or a zero divisor modulo a regular chain.
//!
//! # Contract
//! [`Regularizer::classify`] returns [`Kind::Zero`] if the polynomial is in the ideal sat(T) of the
//! chain T, [`Kind::Regular`] if it is no zero divisor modulo sat(T), and otherwise a [`Split`] of
//! the chain. After finitely many splits, the polynomial is zero or regular modulo each part.
//!
//! | test, in this order               | shows           | costs                               |
//! |-----------------------------------|-----------------|-------------------------------------|
//! | inverse in a closed chain         | all three       | arithmetic of residues              |
//! | inverse in a fibre                | regular         | the same, with numbers as parameters|
//! | pseudo-remainder by the chain     | zero            | polynomials in all variables        |
//! | subresultants with the member     | all three       | the same, larger                    |
//!
//! A chain is closed at a level if no variable up to there is free.
//!
//! # Regular greatest common divisor
//! For the member T_v and a polynomial s in the same main variable, the first subresultant S_i,
//! from i = 0 on, whose principal coefficient is not zero modulo the members below is a greatest
//! common divisor where that coefficient does not vanish. The chain of subresultants is computed
//! once for each pair of polynomials, and shared by all branches.
//!
//! # Source
//! Moreno Maza, "On triangular decompositions of algebraic varieties" (TR 4/99); Chen and Moreno
//! Maza, "Algorithms for computing triangular decomposition of polynomial systems", J. Symb. Comp.
//! 47 (2012). Changed: fibres first; in closed chains Euclid's algorithm in the place of
//! subresultants.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::chain::{Chain, Split};
use crate::fibre::fibre;
use crate::poly::{Level, Poly, Ring};
use crate::random::Random;
use crate::subresultant::{pseudo_quotient, pseudo_remainder, subresultants};
use crate::tower;

/// The kind of a polynomial modulo a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is in the ideal of the chain.
    Zero,
    /// It is no zero divisor.
    Regular,
    /// It is a zero divisor, or the chain splits before that is known.
    Splits(Split),
}

/// A greatest common divisor of a member of a chain and a polynomial.
#[derive(Clone, Debug)]
pub(crate) enum Common {
    /// The polynomials have no common factor; this polynomial in lower variables, which is regular,
    /// vanishes where they have common zeros.
    None(Poly),
    /// The common factor, with a regular initial, and the principal coefficient of its
    /// subresultant: where that vanishes, the greatest common divisor is another one. The factor
    /// itself has no content, so its initial may be a proper divisor.
    Factor(Poly, Poly),
    /// The chain below splits.
    Splits(Split),
}

/// The number of points of which fibres are tried.
const FIBRES: usize = 6;

/// Two polynomials and their regular subresultants, by ascending degree.
type Cached = (Poly, Poly, Rc<Vec<Poly>>);

/// Classifies polynomials of one ring modulo chains: see the head of the module.
#[derive(Debug)]
pub struct Regularizer {
    ring: Ring,
    seed: u64,
    /// Points for fibres.
    points: Vec<Vec<u64>>,
    /// The subresultants of pairs, by the values of both polynomials at a point and the level.
    cache: RefCell<HashMap<(u64, u64, Level), Vec<Cached>>>,
}

impl Regularizer {
    /// Creates one without cached subresultants.
    #[must_use]
    pub fn new(ring: &Ring) -> Regularizer {
        Regularizer::with_seed(ring, 0)
    }

    /// Creates one like [`new`](Self::new) with other random numbers. They decide how fast a
    /// polynomial is classified, and never its kind.
    #[must_use]
    pub fn with_seed(ring: &Ring, seed: u64) -> Regularizer {
        let mut random = Random::new(seed.wrapping_add(1));
        let mut point = || (0..ring.variables()).map(|_| random.below(ring.prime())).collect();
        let points = (0..FIBRES).map(|_| point()).collect();
        Regularizer { ring: ring.clone(), seed, points, cache: RefCell::default() }
    }

    /// Returns the kind of a polynomial modulo a chain, whose members up to its main variable form
    /// a regular chain.
    #[must_use]
    pub fn classify(&self, s: &Poly, chain: &Chain) -> Kind {
        let s = chain.remainder(s, s.main_level());
        let level = s.main_level();
        if s.is_zero() {
            return Kind::Zero;
        }
        if chain.members().next().is_none_or(|(lowest, _)| lowest > level) {
            return Kind::Regular;
        }
        if chain.is_closed(level) {
            return match tower::inverse(&s, chain) {
                Ok(_) => Kind::Regular,
                Err(split) => Kind::Splits(split),
            };
        }
        let mut may_be_zero = true;
        for fibre in self.points.iter().filter_map(|point| fibre(chain, level, point)) {
            let residue = fibre.remainder(&s, level);
            if !residue.is_zero() {
                may_be_zero = false;
                if tower::inverse(&residue, &fibre).is_ok() {
                    return Kind::Regular;
                }
            }
        }
        if may_be_zero && chain.reduce(&s, level).is_zero() {
            return Kind::Zero;
        }
        match self.classify(&s.initial(), chain) {
            Kind::Zero => return self.classify(&s.tail(level), chain),
            Kind::Splits(split) => return Kind::Splits(split),
            Kind::Regular => (),
        }
        let Some(member) = chain.get(level) else { return Kind::Regular };
        if s.degree(level) >= member.degree(level) {
            return self.classify(&pseudo_remainder(&s, member, level), chain);
        }
        match self.common_factor(&s, chain) {
            Common::None(_) => Kind::Regular,
            Common::Splits(split) => Kind::Splits(split),
            Common::Factor(factor, degenerate) => {
                let cofactor = pseudo_quotient(member, &factor, level);
                let cofactor = primitive(&chain.remainder(&cofactor, level - 1)).into();
                let (factor, degenerate) = (factor.into(), Some(degenerate.into()));
                Kind::Splits(Split { level, factor, cofactor, degenerate })
            }
        }
    }

    /// Returns the greatest common divisor of `s` and the member with the same main variable, of
    /// which `s` has a lower degree, modulo the members below, which are not closed. The initial of
    /// `s` is not zero there.
    pub(crate) fn common_factor(&self, s: &Poly, chain: &Chain) -> Common {
        let level = s.main_level();
        let member = chain.get(level).expect("a member with the same main variable");
        let all = self.subresultants(member, s, level);
        for candidate in all.iter().chain([s]) {
            let degree = candidate.degree(level);
            let lead = if degree == 0 { candidate.clone() } else { candidate.initial() };
            match self.classify(&lead, chain) {
                Kind::Zero => (),
                Kind::Splits(split) => return Common::Splits(split),
                Kind::Regular if degree == 0 => {
                    return Common::None(chain.remainder(&lead, level - 1));
                }
                Kind::Regular => {
                    let factor = primitive(&chain.remainder(candidate, level - 1));
                    return Common::Factor(factor, chain.remainder(&lead, level - 1));
                }
            }
        }
        unreachable!("the initial of the polynomial is not zero")
    }

    fn subresultants(&self, a: &Poly, b: &Poly, level: Level) -> Rc<Vec<Poly>> {
        let key = (a.value(&self.points[0]), b.value(&self.points[0]), level);
        if let Some(found) = self.cache.borrow().get(&key)
            && let Some((_, _, cached)) = found.iter().find(|(x, y, _)| x == a && y == b)
        {
            return cached.clone();
        }
        let mut all = subresultants(a, b, level);
        all.reverse();
        let all = Rc::new(all);
        let entry = (a.clone(), b.clone(), all.clone());
        self.cache.borrow_mut().entry(key).or_default().push(entry);
        all
    }

    /// Returns the seed of the random numbers.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }
}

/// Returns the polynomial without the common factor of its coefficients in the main variable,
/// monic. Modulo a chain, the factor is regular if the initial is.
pub(crate) fn primitive(p: &Poly) -> Poly {
    let content = p.content(&[p.main_level()]);
    match content.is_constant() {
        true => p.monic(),
        false => p.divide_exactly(&content).expect("its content divides it").monic(),
    }
}
