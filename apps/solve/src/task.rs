//! The tasks of a decomposition.
//!
//! A task [F, T, Q] has polynomials F, a chain T, and polynomials Q. It stands for the points
//! Z(F, T, Q) of T at which all of F and none of Q vanish. The points of a chain are the zeros of
//! its members at which no initial of a member vanishes.

use std::rc::Rc;

use crate::chain::{Chain, Split};
use crate::poly::{Level, Poly};

/// An equation of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// The equation as it was given or derived, not multiplied by initials of the chain.
    pub(crate) origin: Rc<Poly>,
    /// Its remainder modulo the chain, which has the same zeros on the points of the chain.
    pub(crate) reduced: Rc<Poly>,
}

impl From<Rc<Poly>> for Equation {
    fn from(origin: Rc<Poly>) -> Equation {
        Equation { reduced: origin.clone(), origin }
    }
}

/// A task: see the head of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub(crate) equations: Vec<Equation>,
    pub(crate) nonzero: Vec<Rc<Poly>>,
    pub(crate) chain: Chain,
    /// The members up to this level form a regular chain.
    pub(crate) checked: Level,
}

/// Takes the next one of some tasks: of the greatest dimension, and of these the last.
pub(crate) fn take_next(tasks: &mut Vec<Task>) -> Option<Task> {
    let next = (0..tasks.len()).max_by_key(|&at| (tasks[at].dimension(), at))?;
    Some(tasks.swap_remove(next))
}

impl Task {
    /// Creates the task of all common zeros of `equations`.
    #[must_use]
    pub fn new(variables: usize, equations: &[Rc<Poly>]) -> Task {
        Task {
            equations: equations.iter().cloned().map(Equation::from).collect(),
            nonzero: Vec::new(),
            chain: Chain::empty(variables),
            checked: variables,
        }
    }

    /// Returns the largest dimension that its components can have.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.chain.dimension()
    }

    /// Returns whether a point, greatest variable first, is one of the task.
    #[must_use]
    pub fn contains(&self, point: &[u64]) -> bool {
        self.equations.iter().all(|equation| equation.origin.value(point) == 0)
            && self.nonzero.iter().all(|q| q.value(point) != 0)
            && self.chain.contains(point)
    }

    /// Returns an estimate of the work that it needs, in no unit: the number of terms of its
    /// polynomials times the degree of its chain.
    #[must_use]
    pub fn cost(&self) -> f64 {
        let terms = self.equations.iter().map(|equation| equation.reduced.len()).sum::<usize>()
            + self.chain.members().map(|(_, member)| member.len()).sum::<usize>();
        terms as f64 * self.chain.degree() as f64
    }

    /// Returns the task with another member in its chain.
    #[must_use]
    pub(crate) fn with_member(&self, member: Rc<Poly>) -> Task {
        let checked = self.checked.min(member.main_level() - 1);
        Task { chain: self.chain.with(member), checked, ..self.clone() }
    }

    /// Returns tasks whose union is this one with the equation `r` = 0: one for each irreducible
    /// factor of `r` that may vanish. In each, the factors of the tasks before it do not vanish.
    #[must_use]
    pub(crate) fn with_equation(&self, r: &Poly) -> Vec<Task> {
        if r.is_constant() {
            return if r.is_zero() { vec![self.clone()] } else { Vec::new() };
        }
        let mut tasks = Vec::new();
        let mut nonzero = self.nonzero.clone();
        for (factor, _) in r.factor() {
            if self.is_nonzero(&factor) {
                continue;
            }
            let factor = Rc::new(factor);
            let mut equations = self.equations.clone();
            equations.push(factor.clone().into());
            tasks.push(Task { equations, nonzero: nonzero.clone(), ..self.clone() });
            nonzero.push(factor);
        }
        tasks
    }

    /// Returns whether it is evident that `factor` vanishes at no point of the task: it divides an
    /// initial of the chain or a polynomial of Q.
    #[must_use]
    pub(crate) fn is_nonzero(&self, factor: &Poly) -> bool {
        let level = factor.main_level();
        let divides = |p: &Poly| p.divide_exactly(factor).is_some();
        self.nonzero.iter().any(|p| divides(p))
            || self.chain.members().any(|(at, member)| at > level && divides(&member.initial()))
    }

    /// Returns the tasks into which it is divided by a split of its chain.
    #[must_use]
    pub(crate) fn split(&self, split: Split) -> Vec<Task> {
        let mut tasks = vec![self.with_member(split.factor), self.with_member(split.cofactor)];
        if let Some(degenerate) = split.degenerate {
            tasks.extend(self.with_equation(&degenerate));
        }
        tasks
    }
}
