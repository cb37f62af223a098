//! Regular chains.
//!
//! A chain T has at most one polynomial T_v for each variable v, whose main variable is v. It is
//! regular if the initial of each T_v is no zero divisor modulo the members below it. A variable
//! without a member is free; the dimension is the number of free variables.

use std::fmt;
use std::rc::Rc;

use crate::poly::{Level, Poly};
use crate::subresultant::pseudo_remainder;

/// A factor of a member of a chain modulo the members below it: the points of the chain are those
/// of two chains, and some at which the factorisation does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The level of the member.
    pub level: Level,
    /// The factor.
    pub factor: Rc<Poly>,
    /// The quotient.
    pub cofactor: Rc<Poly>,
    /// A polynomial in lower variables that vanishes where the factorisation does not hold; `None`
    /// if it holds everywhere.
    pub degenerate: Option<Rc<Poly>>,
}

/// Polynomials with distinct main variables.
#[derive(Clone, PartialEq, Eq)]
pub struct Chain {
    /// The member of each level; index 0 is unused.
    members: Vec<Option<Rc<Poly>>>,
}

impl Chain {
    /// Creates the empty chain in a number of variables.
    #[must_use]
    pub fn empty(variables: usize) -> Chain {
        Chain { members: vec![None; variables + 1] }
    }

    /// Returns the number of variables.
    #[must_use]
    pub fn variables(&self) -> usize {
        self.members.len() - 1
    }

    /// Returns the member whose main variable has that level.
    #[must_use]
    pub fn get(&self, level: Level) -> Option<&Rc<Poly>> {
        self.members[level].as_ref()
    }

    /// Returns the chain with another member.
    #[must_use]
    pub fn with(&self, member: impl Into<Rc<Poly>>) -> Chain {
        let (member, mut chain) = (member.into(), self.clone());
        let level = member.main_level();
        chain.members[level] = Some(member);
        chain
    }

    /// Returns the members, the least main variable first.
    pub fn members(&self) -> impl Iterator<Item = (Level, &Rc<Poly>)> {
        self.members.iter().enumerate().filter_map(|(level, m)| Some((level, m.as_ref()?)))
    }

    /// Returns the blocks of the chain: each has the members that are connected by variables which
    /// they share, and other blocks contain none of these. The variety of the chain is the product
    /// of those of its blocks.
    #[must_use]
    pub fn blocks(&self) -> Vec<Chain> {
        let mut blocks: Vec<(Chain, Vec<bool>)> = Vec::new();
        for (_, member) in self.members() {
            let mut chain = Chain::empty(self.variables()).with(member.clone());
            let mut used = vec![false; self.members.len()];
            for (level, used) in used.iter_mut().enumerate().skip(1) {
                *used = member.degree(level) > 0;
            }
            let (joined, apart): (Vec<_>, Vec<_>) = blocks
                .into_iter()
                .partition(|(_, other)| other.iter().zip(&used).any(|(&a, &b)| a && b));
            for (other, its) in joined {
                chain = other.members().fold(chain, |all, (_, member)| all.with(member.clone()));
                used.iter_mut().zip(its).for_each(|(used, its)| *used |= its);
            }
            blocks = apart;
            blocks.push((chain, used));
        }
        blocks.into_iter().map(|(chain, _)| chain).collect()
    }

    /// Returns the levels of the free variables.
    pub fn free(&self) -> impl Iterator<Item = Level> + '_ {
        (1..self.members.len()).filter(|&level| self.members[level].is_none())
    }

    /// Returns the number of free variables.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.free().count()
    }

    /// Returns whether all variables up to `level` have a member.
    #[must_use]
    pub fn is_closed(&self, level: Level) -> bool {
        self.members[1..=level].iter().all(Option::is_some)
    }

    /// Returns whether a point, greatest variable first, is one of the chain: all members vanish,
    /// and no initial does.
    #[must_use]
    pub fn contains(&self, point: &[u64]) -> bool {
        self.members().all(|(_, m)| m.value(point) == 0 && m.initial().value(point) != 0)
    }

    /// Returns the product of the main degrees; the largest number if it is larger.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.members().fold(1, |product: usize, (level, m)| product.saturating_mul(m.degree(level)))
    }

    /// Returns the remainder of a polynomial by all members whose level is at most `level`: zero if
    /// and only if the polynomial is in the ideal of the chain, if the chain is regular.
    #[must_use]
    pub fn reduce(&self, poly: &Poly, level: Level) -> Poly {
        if (1..=level).all(|at| self.get(at).is_none_or(|m| m.has_constant_initial())) {
            return self.remainder(poly, level);
        }
        let mut rest = poly.clone();
        for at in (1..=level).rev() {
            if let Some(member) = self.get(at)
                && rest.degree(at) >= member.degree(at)
            {
                rest = pseudo_remainder(&rest, member, at);
            }
        }
        rest
    }

    /// Returns the remainder by those members up to `level` whose initials are constants.
    #[must_use]
    pub fn remainder(&self, poly: &Poly, level: Level) -> Poly {
        let is_reducible = |at: Level| {
            self.get(at)
                .is_some_and(|m| m.has_constant_initial() && poly.degree(at) >= m.degree(at))
        };
        if !(1..=level).any(is_reducible) {
            return poly.clone();
        }
        let monic = (1..=level)
            .rev()
            .filter_map(|at| self.get(at))
            .filter(|member| member.has_constant_initial())
            .map(Rc::as_ref)
            .collect::<Vec<_>>();
        poly.remainder(&monic)
    }
}

/// Writes the members, the least main variable first, with commas between them.
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, member)) in self.members().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{member}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members().map(|(_, m)| m)).finish()
    }
}
