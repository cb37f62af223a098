//! Checks of solutions, by means that do not share the way in which they were found.
//!
//! * The inputs are zero modulo each chain, so the components have no points that are no zeros.
//! * The inputs vanish at all points of a component over random values of its free variables: the
//!   same, by other arithmetic.
//! * A second solution, after a random linear change of variables, and with a Gröbner basis if the
//!   zeros are finitely many, has as many components of each dimension and degree: so nothing is
//!   missing. Its random numbers are others ([`SEED`]), so an unlucky one is not repeated.
//!
//! # The change
//! Variables are mixed if they belong to the same block of the system: blocks are connected by
//! polynomials that share variables. A change of all variables would make one dense block of them,
//! whose resultants do not end where those of the blocks take no time. If the zeros are infinitely
//! many, and a block would have large polynomials even so, by a bound from its degrees, its
//! variables are scaled and shifted only.

use std::cmp::Reverse;

use crate::error::SolveError;
use crate::fibre::fibre;
use crate::groebner::{MOST_WORK, lexicographic};
use crate::poly::{Level, Poly, Ring};
use crate::random::Random;
use crate::solve::{Method, Mode, Solution, solve_with_seed};

/// The seed of the random numbers of a check, and of a second solution.
pub const SEED: u64 = 0xC4EC;

/// Checks a solution of a system in this process: see the head of the module. Returns what is wrong
/// with it, if anything is.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn check(
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    solution: &Solution,
    mode: Mode,
    factor: bool,
) -> Result<(), String> {
    let mut second = |equations: &[Poly], inequations: &[Poly]| {
        Ok(solve_with_seed(ring, equations, inequations, mode, factor, SEED))
    };
    check_by(&mut second, ring, equations, inequations, solution, mode)
        .expect("a solution in this process is no error")
}

/// A function that solves a system of equations and inequations.
pub type Second<'s> = dyn FnMut(&[Poly], &[Poly]) -> Result<Solution, SolveError> + 's;

/// Checks a solution like [`check`]; `second` finds the second solution, in the same mode, with the
/// random numbers of [`SEED`].
///
/// # Errors
/// What `second` returns; within, a sentence that says what is wrong.
pub fn check_by(
    second: &mut Second<'_>,
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    solution: &Solution,
    mode: Mode,
) -> Result<Result<(), String>, SolveError> {
    let mut random = Random::new(SEED);
    if let Err(why) = vanish(ring, equations, solution, &mut random) {
        return Ok(Err(why));
    }
    let finite = solution.points().is_some();
    let system = [equations, inequations].concat();
    let forms = change(ring, &system, finite, &mut random);
    let changed = |polys: &[Poly]| polys.iter().map(|p| composed(p, &forms)).collect::<Vec<_>>();
    let (equations, inequations) = (changed(equations), changed(inequations));
    let (mut prepared, _) = Method::Auto.prepare(ring, &equations, &inequations);
    if !finite {
        prepared.extend(bases(ring, &equations));
    }
    let second = second(&prepared, &inequations)?;
    let known = |solution: &Solution| solution.components.iter().all(|c| c.is_prime);
    let apart = known(solution) && known(&second);
    let (mut first, mut second) = (degrees(solution, apart), degrees(&second, apart));
    if mode == Mode::Lazard {
        // Which points of smaller dimension are in chains of their own depends on the variables.
        first.truncate(1);
        second.truncate(1);
    }
    Ok(match first == second {
        true => Ok(()),
        false => Err(format!(
            "the dimensions and degrees of components are {first:?}, and {second:?} after a random \
             linear change of variables"
        )),
    })
}

/// Checks that the equations vanish on all components.
fn vanish(
    ring: &Ring,
    equations: &[Poly],
    solution: &Solution,
    random: &mut Random,
) -> Result<(), String> {
    let n = ring.variables();
    for (number, component) in solution.components.iter().enumerate() {
        let chain = &component.chain;
        for input in equations {
            if !chain.reduce(input, n).is_zero() {
                return Err(format!("{input} is not zero on component {}", number + 1));
            }
        }
        let point = (0..n).map(|_| random.below(ring.prime())).collect::<Vec<_>>();
        if let Some(fibre) = fibre(chain, n, &point)
            && let Some(input) = equations.iter().find(|input| !fibre.remainder(input, n).is_zero())
        {
            return Err(format!("{input} is not zero at a point of component {}", number + 1));
        }
    }
    Ok(())
}

/// The largest number of terms, by a bound from degrees, of the polynomials that a block may have
/// after a change of its variables, if the zeros are infinitely many.
const MOST_TERMS: f64 = 500.0;

/// Random linear forms in the place of the variables, the least one first: see the head of the
/// module.
fn change(ring: &Ring, system: &[Poly], finite: bool, random: &mut Random) -> Vec<Poly> {
    let n = ring.variables();
    let mut forms = (1..=n).map(|level| ring.variable(level)).collect::<Vec<_>>();
    let blocks = if finite { vec![(1..=n).collect()] } else { blocks(ring, system) };
    for block in blocks {
        let its = system.iter().filter(|p| block.contains(&p.main_level())).collect::<Vec<_>>();
        // A hypersurface of the degree of the block, by Bézout.
        let degree = its.iter().map(|p| p.total_degree() as f64).product::<f64>();
        let variables = block.len().saturating_sub(its.len()) + 1;
        let terms = (1..=variables).map(|k| (degree + k as f64) / k as f64).product::<f64>();
        let mixed = finite || terms <= MOST_TERMS;
        loop {
            for &level in &block {
                let mut form = ring.zero();
                for &at in block.iter().filter(|at| mixed || **at == level) {
                    form = &form + &ring.variable(at).scale(random.below(ring.prime()));
                }
                forms[level - 1] = form;
            }
            if rank(&forms) == n {
                break;
            }
        }
        if !mixed {
            for &level in &block {
                let shift = ring.constant(random.below(ring.prime()));
                forms[level - 1] = &forms[level - 1] + &shift;
            }
        }
    }
    forms
}

/// The levels of variables that are connected by polynomials.
fn blocks(ring: &Ring, system: &[Poly]) -> Vec<Vec<Level>> {
    let mut blocks = (1..=ring.variables()).map(|level| vec![level]).collect::<Vec<_>>();
    for p in system {
        let (joined, apart): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block.iter().any(|&level| p.degree(level) > 0));
        blocks = apart;
        blocks.push(joined.concat());
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Bases of the blocks that have finitely many zeros.
fn bases(ring: &Ring, equations: &[Poly]) -> Vec<Poly> {
    let mut found = Vec::new();
    for mut block in blocks(ring, equations) {
        block.sort_unstable();
        let names = block.iter().rev().map(|&level| ring.name(level).to_owned());
        let names = names.collect::<Vec<_>>();
        let Ok(part) = Ring::new(&names, ring.prime()) else { continue };
        // The levels in the part, and back.
        let mut levels = vec![0; ring.variables() + 1];
        let mut back = vec![0; block.len() + 1];
        for (index, &level) in block.iter().enumerate() {
            levels[level] = index + 1;
            back[index + 1] = level;
        }
        let its = equations.iter().filter(|p| block.contains(&p.main_level()));
        let its = its.map(|p| p.mapped(&part, &levels)).collect::<Vec<_>>();
        if its.len() < block.len() {
            continue;
        }
        if let Ok(basis) = lexicographic(&part, &its, &[], MOST_WORK) {
            found.extend(basis.iter().map(|p| p.mapped(ring, &back)));
        }
    }
    found
}

/// The dimensions and degrees of all components; the sum for each dimension unless they are told
/// apart.
fn degrees(solution: &Solution, apart: bool) -> Vec<(usize, usize)> {
    let dimensions = solution.components.iter().map(|component| component.chain.dimension());
    let mut degrees = dimensions.zip(solution.degrees.iter().copied()).collect::<Vec<_>>();
    degrees.sort_by_key(|&degree| Reverse(degree));
    if !apart {
        degrees = degrees.chunk_by(|a, b| a.0 == b.0).fold(Vec::new(), |mut sums, same| {
            sums.push((same[0].0, same.iter().map(|degree| degree.1).sum()));
            sums
        });
    }
    degrees
}

/// Returns the polynomial with a linear form in the place of each variable, the least one first.
fn composed(p: &Poly, forms: &[Poly]) -> Poly {
    let ring = p.ring();
    p.terms().fold(ring.zero(), |sum, (coefficient, exponents)| {
        let product = exponents.iter().rev().zip(forms);
        let product = product.fold(ring.constant(coefficient), |product, (&exponent, form)| {
            &product * &form.power(exponent)
        });
        &sum + &product
    })
}

/// The rank of linear forms.
fn rank(forms: &[Poly]) -> usize {
    let mut rest = forms.to_vec();
    let mut rank = 0;
    while let Some(at) = rest.iter().position(|form| !form.is_zero()) {
        let pivot = rest.swap_remove(at).monic();
        let level = pivot.main_level();
        for form in &mut rest {
            let top = form.coefficients(level).into_iter().nth(1);
            if let Some(top) = top {
                *form = &*form - &(&top * &pivot);
            }
        }
        rank += 1;
    }
    rank
}
