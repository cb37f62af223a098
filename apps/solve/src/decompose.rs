//! The step of a decomposition: one task becomes smaller ones, or a solved chain.
//!
//! # Contract
//! For a task Z = Z(F, T, Q), [`Decomposer::step`] returns tasks Z_1, ..., Z_k with Z in their
//! union, or a regular chain T' on which all inputs vanish, with Z in the points of T'. So the
//! chains that all steps return, from Z(inputs, {}, {}) on, have exactly the common zeros of the
//! inputs as their points: no point is lost, and no other is in them, as the inputs reduce to zero
//! modulo each chain.
//!
//! The step depends on the equation p with the least main variable v, modulo T:
//!
//! | p                                         | tasks                                            |
//! |-------------------------------------------|--------------------------------------------------|
//! | is zero on T                              | without p                                        |
//! | is a constant                             | none                                             |
//! | has an initial that is zero on T          | its tail in place of p                           |
//! | and no T_v; for each factor f of p        | T + f; and p, init(f) = 0                        |
//! | is regular modulo T_v                     | p, and its resultant with T_v                    |
//! | has the common factor g with T_v          | g in place of T_v, without p; and p, s = 0       |
//! | is missing; an input is not zero on T     | that input                                       |
//! | or an initial is a zero divisor (D5)      | a factor; the cofactor; where that fails         |
//!
//! Here s is the principal coefficient of the subresultant that g comes from. The tasks in which an
//! initial or s vanishes are the degenerate ones, of smaller dimension. They are delayed until
//! tasks of larger dimension are done, if the caller takes tasks in that order (lazy evaluation).
//!
//! If only the closures of the chains are wanted ([`Decomposer::for_closures`]), tasks of a
//! dimension that no component has are dropped: for as many equations as the codimension, all
//! degenerate ones.
//!
//! # Termination
//! Each task has a chain of smaller dimension, or of smaller degree, or fewer equations, or an
//! equation that will lower the dimension.
//!
//! # Costs
//! Subresultants of polynomials in all variables, unless one free variable is left and they are
//! large: then the resultant is replaced by a polynomial from fibres (see [`fibre`](crate::fibre)).
//! In closed chains, arithmetic of residues only.
//!
//! # Source
//! Moreno Maza, "On triangular decompositions of algebraic varieties" (TR 4/99), for tasks and lazy
//! evaluation; Chen and Moreno Maza, J. Symb. Comp. 47 (2012), for subresultants that are computed
//! once. Changed: an equation stays in its task until it is zero on the chain, and inputs are
//! checked at the end, so that no function calls another one of the same kind, and every branch is
//! a task of its own; resultants are factored, and what has to vanish in one branch does not in the
//! next ones.

use std::rc::Rc;

use crate::chain::Chain;
use crate::fibre::eliminate;
use crate::poly::{Level, Poly, Ring};
use crate::regularize::{Common, Kind, Regularizer, primitive};
use crate::section::shared_degrees;
use crate::subresultant::pseudo_remainder;
use crate::task::{Equation, Task};
use crate::tower;

/// The result of a step.
#[derive(Clone, Debug)]
pub enum Step {
    /// The tasks that remain; none if the task has no points.
    Tasks(Vec<Task>),
    /// A solved chain.
    Solved(Chain),
}

/// Above this number of terms of a resultant, as estimated by degrees, elimination by fibres is
/// faster, on the systems of `tests/systems`.
const LARGE_RESULTANT: f64 = 3e4;

/// Decomposes one system: see the head of the module.
#[derive(Debug)]
pub struct Decomposer {
    regularizer: Regularizer,
    inputs: Vec<Rc<Poly>>,
    /// Polynomials that must not vanish.
    inequations: Vec<Rc<Poly>>,
    /// Tasks of a smaller dimension are dropped.
    least_dimension: usize,
}

impl Decomposer {
    /// Creates the decomposer of the common zeros of `inputs` at which none of `inequations`
    /// vanishes.
    #[must_use]
    pub fn new(ring: &Ring, inputs: &[Poly], inequations: &[Poly]) -> Decomposer {
        let shared = |polys: &[Poly]| polys.iter().map(|p| Rc::new(p.monic())).collect::<Vec<_>>();
        Decomposer {
            regularizer: Regularizer::new(ring),
            inputs: shared(inputs),
            inequations: shared(inequations),
            least_dimension: 0,
        }
    }

    /// Takes other random numbers, also for the components of the solved chains and their degrees.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Decomposer {
        self.regularizer = Regularizer::with_seed(self.ring(), seed);
        self
    }

    /// Leaves out tasks whose dimension is smaller than the number of variables minus that of
    /// equations. No irreducible component of the zeros has such a dimension (Krull), so the
    /// closures of the solved chains have the same union. Their points need not have.
    #[must_use]
    pub fn for_closures(mut self) -> Decomposer {
        let equations = self.inputs.iter().filter(|input| !input.is_zero()).count();
        self.least_dimension = self.ring().variables().saturating_sub(equations);
        self
    }

    /// Returns the greatest total degree of the inputs.
    pub(crate) fn total_degree(&self) -> usize {
        self.inputs.iter().map(|input| input.total_degree()).max().unwrap_or_default()
    }

    /// Returns the degrees of chains by sections of the inputs: see [`shared_degrees`].
    pub(crate) fn shared_degrees(&self, chains: &[&Chain]) -> Option<Vec<usize>> {
        let polys = |all: &[Rc<Poly>]| all.iter().map(|p| p.as_ref().clone()).collect::<Vec<_>>();
        let seed = self.regularizer.seed();
        shared_degrees(&polys(&self.inputs), &polys(&self.inequations), chains, seed)
    }

    /// Returns the first task.
    #[must_use]
    pub fn first(&self) -> Task {
        let mut task = Task::new(self.ring().variables(), &self.inputs);
        task.nonzero.clone_from(&self.inequations);
        task
    }

    /// Returns the ring.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        self.regularizer.ring()
    }

    /// Returns the regularizer.
    #[must_use]
    pub fn regularizer(&self) -> &Regularizer {
        &self.regularizer
    }

    /// Takes a step: see the head of the module.
    #[must_use]
    pub fn step(&self, task: Task) -> Step {
        let variables = self.ring().variables();
        if task.dimension() < self.least_dimension {
            return Step::Tasks(Vec::new());
        }
        let Some(task) = reduced(task) else { return Step::Tasks(Vec::new()) };
        let least = task.equations.iter().map(|equation| equation.reduced.main_level()).min();
        let level = least.unwrap_or(variables);
        if task.checked < level {
            return Step::Tasks(self.check_next(task));
        }
        if task.nonzero.iter().any(|q| task.chain.remainder(q, variables).is_zero()) {
            return Step::Tasks(Vec::new());
        }
        if task.equations.is_empty() {
            return self.finish(task);
        }
        let index = (0..task.equations.len())
            .min_by_key(|&index| {
                let p = &task.equations[index].reduced;
                (p.main_level(), p.main_degree(), p.len())
            })
            .expect("there is an equation");
        Step::Tasks(self.with(task, index))
    }

    /// The last check of a task without equations: inputs vanish, inequations do not.
    fn finish(&self, mut task: Task) -> Step {
        let variables = self.ring().variables();
        let vanishes = |input: &&Rc<Poly>| task.chain.reduce(input, variables).is_zero();
        let missed = self.inputs.iter().filter(|input| !vanishes(input)).cloned();
        task.equations = missed.map(Equation::from).collect();
        if !task.equations.is_empty() {
            return Step::Tasks(vec![task]);
        }
        for q in &self.inequations {
            match self.regularizer.classify(q, &task.chain) {
                Kind::Regular => (),
                Kind::Zero => return Step::Tasks(Vec::new()),
                Kind::Splits(split) => return Step::Tasks(task.split(split)),
            }
        }
        Step::Solved(task.chain)
    }

    /// Checks the next level of the chain: the initial of its member must be regular. Members of
    /// closed chains become monic, and square-free.
    fn check_next(&self, mut task: Task) -> Vec<Task> {
        let level = task.checked + 1;
        if let Some(member) = task.chain.get(level) {
            let special = task.chain.remainder(member, level - 1);
            if special.degree(level) < member.degree(level) {
                return Vec::new(); // The initial vanishes: no points.
            }
            let chain = &task.chain;
            let checked = if chain.is_closed(level) {
                tower::monic(&special, level, chain)
                    .and_then(|monic| tower::square_free(&monic, level, chain))
            } else {
                match self.regularizer.classify(&special.initial(), chain) {
                    Kind::Zero => return Vec::new(),
                    Kind::Splits(split) => Err(split),
                    Kind::Regular => Ok(primitive(&special)),
                }
            };
            match checked {
                Ok(member) => task.chain = task.chain.with(member),
                Err(split) => return task.split(split),
            }
        }
        task.checked = level;
        vec![task]
    }

    /// The tasks of `task` by its equation `index`, whose main variable is the least of all.
    fn with(&self, mut task: Task, index: usize) -> Vec<Task> {
        let equation = task.equations.remove(index);
        let mut p = equation.reduced.as_ref().clone();
        let level = p.main_level();
        // The equation stays at its place: the next step takes it again, and not another one of the
        // same size, for which nothing has been computed.
        let again = |task: &mut Task, p| {
            let equation = Equation { reduced: Rc::new(p), origin: equation.origin.clone() };
            task.equations.insert(index, equation);
        };
        loop {
            match self.regularizer.classify(&p.initial(), &task.chain) {
                Kind::Regular => break,
                Kind::Zero => p = p.tail(level),
                Kind::Splits(split) => {
                    again(&mut task, p);
                    return task.split(split);
                }
            }
            if p.main_level() != level {
                again(&mut task, p);
                return vec![task];
            }
        }
        let Some(member) = task.chain.get(level) else { return extended(&task, &p) };
        if task.chain.is_closed(level) {
            return match tower::gcd(member, &p, level, &task.chain) {
                Ok(common) if common.degree(level) == 0 => Vec::new(),
                Ok(common) => vec![task.with_member(common.into())],
                Err(split) => {
                    again(&mut task, p);
                    task.split(split)
                }
            };
        }
        if resultant_terms(member, &p, level) > LARGE_RESULTANT
            && let Some(r) = eliminate(&equation.origin, &task.chain)
        {
            again(&mut task, p);
            return task.with_equation(&r);
        }
        match self.regularizer.common_factor(&p, &task.chain) {
            Common::None(r) => {
                again(&mut task, p);
                task.with_equation(&r)
            }
            Common::Splits(split) => {
                again(&mut task, p);
                task.split(split)
            }
            Common::Factor(factor, coefficient) => {
                let mut tasks = vec![task.with_member(factor.into())];
                again(&mut task, p);
                tasks.extend(task.with_equation(&coefficient));
                tasks
            }
        }
    }
}

/// The tasks of `task` with the equation `p`, in whose main variable the chain has no member.
fn extended(task: &Task, p: &Poly) -> Vec<Task> {
    let level = p.main_level();
    let content = p.content(&[level]);
    let part = p.divide_exactly(&content).expect("its content divides it");
    let mut tasks = Vec::new();
    let mut rest = task.clone();
    for (factor, _) in part.factor() {
        if rest.is_nonzero(&factor) {
            continue;
        }
        let (initial, factor) = (factor.initial(), Rc::new(factor));
        tasks.push(rest.with_member(factor.clone()));
        let mut degenerate = rest.clone();
        degenerate.equations.push(factor.clone().into());
        tasks.extend(degenerate.with_equation(&initial));
        rest.nonzero.push(factor);
    }
    tasks.extend(rest.with_equation(&content));
    tasks
}

/// Reduces all equations by the members that are checked, and removes those that are zero; returns
/// `None` if one of them is a constant.
fn reduced(mut task: Task) -> Option<Task> {
    let mut equations: Vec<Equation> = Vec::new();
    for equation in &task.equations {
        let mut p = task.chain.remainder(&equation.reduced, task.checked);
        while let level @ 1.. = p.main_level()
            && let Some(member) = task.chain.get(level)
            && p.degree(level) >= member.degree(level)
        {
            p = task.chain.remainder(&pseudo_remainder(&p, member, level), task.checked);
        }
        if p.is_constant() {
            if p.is_zero() {
                continue;
            }
            return None;
        }
        let p = Rc::new(p.monic());
        if !equations.iter().any(|other| other.reduced == p) {
            equations.push(Equation { origin: equation.origin.clone(), reduced: p });
        }
    }
    task.equations = equations;
    Some(task)
}

/// An estimate of the number of terms of the resultant of two polynomials, by their degrees.
fn resultant_terms(a: &Poly, b: &Poly, level: Level) -> f64 {
    let (m, n) = (a.degree(level), b.degree(level));
    (1..level).map(|at| (a.degree(at) * n + b.degree(at) * m + 1) as f64).product()
}
