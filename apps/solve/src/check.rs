//! Checks of solutions, by means that do not share the way in which they were found.
//!
//! * The inputs are zero modulo each chain, so the components have no points that are no zeros.
//! * The inputs vanish at all points of a component over random values of its free variables: the
//!   same, by other arithmetic.
//! * A second solution, after a random linear change of variables, and with a Gröbner basis if the
//!   zeros are finitely many, has as many components of each dimension and degree: so nothing is
//!   missing.

use std::cmp::Reverse;

use crate::fibre::fibre;
use crate::poly::{Poly, Ring};
use crate::random::Random;
use crate::solve::{Method, Mode, Solution, solve};

/// Checks a solution of a system: see the head of the module. Returns what is wrong with it, if
/// anything is.
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
    let mut random = Random::new(0xC4EC);
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
    let forms = loop {
        let mut form = |_| {
            (1..=n).fold(ring.zero(), |form, level| {
                &form + &ring.variable(level).scale(random.below(ring.prime()))
            })
        };
        let forms = (1..=n).map(&mut form).collect::<Vec<_>>();
        if rank(&forms) == n {
            break forms;
        }
    };
    let changed = |polys: &[Poly]| polys.iter().map(|p| composed(p, &forms)).collect::<Vec<_>>();
    let (equations, inequations) = (changed(equations), changed(inequations));
    let (prepared, _) = Method::Auto.prepare(ring, &equations, &inequations);
    let second = solve(ring, &prepared, &inequations, mode, factor);
    let known = |solution: &Solution| solution.components.iter().all(|c| c.is_prime);
    let apart = factor && known(solution) && known(&second);
    let (mut first, mut second) = (degrees(solution, apart), degrees(&second, apart));
    if mode == Mode::Lazard {
        // Which points of smaller dimension are in chains of their own depends on the variables.
        first.truncate(1);
        second.truncate(1);
    }
    if first != second {
        return Err(format!(
            "the dimensions and degrees of components are {first:?}, and {second:?} after a random \
             linear change of variables"
        ));
    }
    Ok(())
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
