//! Decompositions of systems.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::chain::Chain;
use crate::decompose::{Decomposer, Step};
use crate::groebner::{MOST_WORK, NoBasis, lexicographic};
use crate::normal::normalised;
use crate::partition::parts;
use crate::poly::{Poly, Ring};
use crate::primes::{Component, primes};
use crate::redundant::{disjoint, divided, irredundant};
use crate::regularize::Regularizer;
use crate::section::degree;
use crate::task::{Task, take_next};

/// What the chains of a decomposition stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// The zeros are the union of the closures of the chains' points; no component is redundant.
    #[default]
    Kalkbrener,
    /// The zeros are the union of the chains' points.
    Lazard,
}

impl Mode {
    /// Returns the decomposer of a system.
    #[must_use]
    pub fn decomposer(self, ring: &Ring, equations: &[Poly], inequations: &[Poly]) -> Decomposer {
        let decomposer = Decomposer::new(ring, equations, inequations);
        match self {
            Mode::Kalkbrener => decomposer.for_closures(),
            Mode::Lazard => decomposer,
        }
    }
}

/// How a decomposition is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By chains alone.
    #[default]
    Chains,
    /// With a Gröbner basis, where there is one (see [`groebner`](crate::groebner)); by chains
    /// otherwise.
    Auto,
}

impl Method {
    /// Returns equations that have the zeros of `equations` at which none of `inequations`
    /// vanishes, to begin a decomposition with; for [`Method::Auto`], also the reason why there is
    /// no basis among them.
    #[must_use]
    pub fn prepare(
        self,
        ring: &Ring,
        equations: &[Poly],
        inequations: &[Poly],
    ) -> (Vec<Poly>, Option<NoBasis>) {
        match self {
            Method::Chains => (equations.to_vec(), None),
            Method::Auto => match lexicographic(ring, equations, inequations, MOST_WORK) {
                Ok(basis) => ([equations, &basis].concat(), None),
                Err(why) => (equations.to_vec(), Some(why)),
            },
        }
    }
}

/// The number of operations of a basis of a section: they take some hundredths of a second.
const SECTION_WORK: u64 = 30_000_000;

/// A task of a system of its own, which components need: the points of a random section. Its points
/// are the zeros of the inputs at which no inequation vanishes.
#[derive(Clone, Debug)]
pub struct Job {
    /// The ring of the system.
    pub ring: Ring,
    /// Its equations.
    pub inputs: Vec<Poly>,
    /// Polynomials that must not vanish.
    pub inequations: Vec<Poly>,
    /// The first task.
    pub task: Task,
}

impl Job {
    /// Returns chains with the points of the task: by a basis if there is one, and by its steps
    /// otherwise.
    #[must_use]
    pub fn run(self) -> Vec<Chain> {
        let Job { ring, inputs, inequations, task } = self;
        points_by_basis(&ring, inputs, &inequations).unwrap_or_else(|inputs| {
            let decomposer = Decomposer::new(&ring, &inputs, &inequations);
            run(&decomposer, task, &mut |_| ())
        })
    }
}

/// Returns chains with the zeros of equations at which no inequation vanishes; the equations if
/// there is no basis of them.
pub(crate) fn points_by_basis(
    ring: &Ring,
    equations: Vec<Poly>,
    inequations: &[Poly],
) -> Result<Vec<Chain>, Vec<Poly>> {
    let Ok(basis) = lexicographic(ring, &equations, inequations, SECTION_WORK) else {
        return Err(equations);
    };
    let decomposer = Decomposer::new(ring, &[equations, basis].concat(), inequations);
    Ok(run(&decomposer, decomposer.first(), &mut |_| ()))
}

/// Runs jobs that do not depend on one another, in this process ([`run_jobs`]) or in others.
pub type Runner<'r> = dyn FnMut(Vec<Job>) -> Vec<Vec<Chain>> + 'r;

/// Runs jobs one after the other, in this process.
#[must_use]
pub fn run_jobs(jobs: Vec<Job>) -> Vec<Vec<Chain>> {
    jobs.into_iter().map(Job::run).collect()
}

/// The progress of a decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of tasks that wait or are worked on.
    pub open: u64,
    /// The number of steps that are done.
    pub done: u64,
    /// The number of solved chains.
    pub solved: u64,
    /// The dimension of a task that is worked on, the greatest of all.
    pub dimension: u64,
}

/// Runs a task and all that follow from it, the greatest dimension first, and returns the solved
/// chains. Calls `progress` before each step.
#[must_use]
pub fn run(decomposer: &Decomposer, first: Task, progress: &mut dyn FnMut(Progress)) -> Vec<Chain> {
    let mut tasks = vec![first];
    let mut solved = Vec::new();
    let mut done = 0;
    while let Some(task) = take_next(&mut tasks) {
        progress(Progress {
            open: 1 + tasks.len() as u64,
            done,
            solved: solved.len() as u64,
            dimension: task.dimension() as u64,
        });
        match decomposer.step(task) {
            Step::Tasks(more) => tasks.extend(more),
            Step::Solved(chain) => solved.push(chain),
        }
        done += 1;
    }
    solved
}

/// The components of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The components, those of greatest dimension first.
    pub components: Vec<Component>,
    /// The degrees of their closures, as projective varieties.
    pub degrees: Vec<usize>,
}

impl Solution {
    /// Returns the dimension; `None` if there are no zeros.
    #[must_use]
    pub fn dimension(&self) -> Option<usize> {
        self.components.iter().map(|component| component.chain.dimension()).max()
    }

    /// Returns the number of zeros over the algebraic closure; `None` if it is infinite.
    #[must_use]
    pub fn points(&self) -> Option<usize> {
        (self.dimension().unwrap_or_default() == 0)
            .then(|| self.degrees.iter().fold(0, |sum: usize, &degree| sum.saturating_add(degree)))
    }
}

/// Solves a system in this process.
#[must_use]
pub fn solve(
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    mode: Mode,
    factor: bool,
) -> Solution {
    solve_with_seed(ring, equations, inequations, mode, factor, 0)
}

/// Solves a system like [`solve`], with other random numbers.
pub(crate) fn solve_with_seed(
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    mode: Mode,
    factor: bool,
    seed: u64,
) -> Solution {
    let decomposer = mode.decomposer(ring, equations, inequations).with_seed(seed);
    let solved = run(&decomposer, decomposer.first(), &mut |_| ());
    solution(&decomposer, solved, mode, factor, &mut run_jobs)
}

/// Returns the components of a decomposition, with their degrees, from its solved chains.
#[must_use]
pub fn solution(
    decomposer: &Decomposer,
    solved: Vec<Chain>,
    mode: Mode,
    factor: bool,
    runner: &mut Runner<'_>,
) -> Solution {
    let components = components(decomposer.regularizer(), solved, mode, factor, runner);
    let chains = components.iter().map(|component| &component.chain).collect::<Vec<_>>();
    // Those of the greatest dimension by sections of the system, if its polynomials are smaller.
    let top = chains.first().map_or(0, |chain| chain.dimension());
    let first = chains.iter().take_while(|chain| chain.dimension() == top).copied();
    let first = first.collect::<Vec<_>>();
    let is_large = |chain: &&Chain| {
        let blocks = chain.blocks().into_iter().filter(|block| block.members().count() > 1);
        let degree = |block: Chain| block.members().map(|(_, m)| m.total_degree()).max();
        blocks.filter_map(degree).max() > Some(decomposer.total_degree())
    };
    let mut degrees = Vec::new();
    if mode == Mode::Kalkbrener && top > 0 && first.iter().any(is_large) {
        degrees = decomposer.shared_degrees(&first).unwrap_or_default();
    }
    let seed = decomposer.regularizer().seed();
    degrees.extend(chains[degrees.len()..].iter().map(|chain| degree(chain, seed, runner)));
    Solution { components, degrees }
}

/// Returns the components of a decomposition from its solved chains, in canonical order: without
/// redundant ones, normalised, and irreducible if `factor` is set.
#[must_use]
pub fn components(
    regularizer: &Regularizer,
    mut solved: Vec<Chain>,
    mode: Mode,
    factor: bool,
    runner: &mut Runner<'_>,
) -> Vec<Component> {
    // The order of the chains does not depend on the order of the tasks.
    solved.sort_by_cached_key(|chain| (Reverse(chain.dimension()), format!("{chain:?}")));
    solved.dedup();
    let chains = match mode {
        Mode::Kalkbrener => irredundant(regularizer, solved, runner),
        Mode::Lazard => without_known_points(regularizer, solved),
    };
    let mut components = Vec::new();
    for chain in chains {
        // Where points count, and not closures, a chain with free variables stays whole.
        let closure = mode == Mode::Kalkbrener || chain.dimension() == 0;
        let found = match factor && closure {
            true => primes(&chain),
            false => vec![Component { chain, is_prime: false, doubt: None }],
        };
        for component in found {
            let chains =
                if closure { normal_parts(component.chain) } else { vec![component.chain] };
            let (is_prime, doubt) = (component.is_prime, component.doubt);
            let chains = chains.into_iter();
            components.extend(chains.map(|chain| Component { chain, is_prime, doubt }));
        }
    }
    components.sort_by_cached_key(|component| {
        let chain = &component.chain;
        (Reverse(chain.dimension()), chain.degree(), format!("{chain:?}"))
    });
    components.dedup();
    components
}

/// The normalised chains of a chain, which splits where an initial cannot be inverted.
fn normal_parts(chain: Chain) -> Vec<Chain> {
    let mut open = vec![chain];
    let mut found = Vec::new();
    while let Some(chain) = open.pop() {
        match normalised(&chain) {
            Ok(normal) => found.push(normal),
            Err(split) => open.extend(parts(&chain, split)),
        }
    }
    found
}

/// Returns chains with the same points; those of dimension 0 have no points in common with others.
fn without_known_points(regularizer: &Regularizer, solved: Vec<Chain>) -> Vec<Chain> {
    let (mut kept, mut closed): (Vec<_>, Vec<_>) =
        solved.into_iter().partition(|chain| chain.dimension() > 0);
    for other in &kept {
        closed = closed
            .iter()
            .flat_map(|chain| {
                let divided = divided(regularizer, chain, other);
                divided.outside.into_iter().chain(divided.boundary)
            })
            .collect();
    }
    kept.extend(disjoint(regularizer, closed));
    kept
}
