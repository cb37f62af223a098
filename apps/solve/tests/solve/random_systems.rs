//! Random small systems over small fields, whose points are counted.

use syncline_solve::chain::Chain;
use syncline_solve::decompose::{Decomposer, Step};
use syncline_solve::poly::{Poly, Ring};
use syncline_solve::solve::{Mode, components, run_jobs};
use syncline_testkit::{Random, cases, is_soak, seed};

use crate::has_flint;

/// A random polynomial of a low degree with few terms.
pub(crate) fn random_poly(ring: &Ring, random: &mut Random) -> Poly {
    let terms = (0..random.below(5) + 1).map(|_| {
        let mut left = random.below(4);
        let exponents = (0..ring.variables()).map(|_| {
            let exponent = random.below(left + 1);
            left -= exponent;
            exponent as u64
        });
        let exponents = exponents.collect::<Vec<_>>();
        (random.number(), exponents)
    });
    let terms = terms.collect::<Vec<_>>();
    ring.from_terms(terms.iter().map(|(c, exponents)| (*c, exponents.as_slice())))
}

/// A random system: products as well, which have components of several dimensions.
pub(crate) fn random_system(random: &mut Random) -> (Ring, Vec<Poly>) {
    let prime = [2, 3, 5, 7, 11][random.below(5)];
    let variables = if prime > 5 { 2 + random.below(2) } else { 2 + random.below(3) };
    let names = ["x", "y", "z", "t"][..variables].iter().map(|&name| name.to_owned());
    let ring = Ring::new(&names.collect::<Vec<_>>(), prime).unwrap();
    let equations = (0..1 + random.below(variables + 1)).map(|_| {
        let poly = random_poly(&ring, random);
        if random.below(3) == 0 { &poly * &random_poly(&ring, random) } else { poly }
    });
    let equations = equations.collect();
    (ring, equations)
}

/// All points over the prime field.
pub(crate) fn all_points(ring: &Ring) -> Vec<Vec<u64>> {
    let mut points = vec![Vec::new()];
    for _ in 0..ring.variables() {
        points = points
            .into_iter()
            .flat_map(|point: Vec<u64>| {
                (0..ring.prime()).map(move |value| {
                    let mut point = point.clone();
                    point.push(value);
                    point
                })
            })
            .collect();
    }
    points
}

fn members_vanish(chain: &Chain, point: &[u64]) -> bool {
    chain.members().all(|(_, member)| member.value(point) == 0)
}

/// Runs all tasks, and checks that no step loses a point.
fn run_checked(decomposer: &Decomposer, points: &[Vec<u64>]) -> Vec<Chain> {
    let mut solved = Vec::new();
    let mut tasks = vec![decomposer.first()];
    while let Some(task) = tasks.pop() {
        let step = decomposer.step(task.clone());
        for point in points.iter().filter(|point| task.contains(point)) {
            let found = match &step {
                Step::Tasks(tasks) => tasks.iter().any(|task| task.contains(point)),
                Step::Solved(chain) => chain.contains(point),
            };
            assert!(found, "{point:?} of {task:?} is lost in {step:?}");
        }
        match step {
            Step::Tasks(more) => tasks.extend(more),
            Step::Solved(chain) => solved.push(chain),
        }
    }
    solved
}

#[test]
#[ignore = "full: 12 s of computing with FLINT"]
fn chains_have_exactly_the_points_of_random_systems() {
    if !has_flint() {
        return;
    }
    // The system of seed 3 takes two minutes: the test below solves it.
    let seeds = (seed(0)..).filter(|seed| *seed != SLOW).take(cases(100) as usize);
    seeds.for_each(has_exactly_its_points);
}

#[test]
#[ignore = "soak: two minutes of computing with FLINT"]
fn soak_chains_have_exactly_the_points_of_a_slow_system() {
    if !is_soak("it takes two minutes") || !has_flint() {
        return;
    }
    has_exactly_its_points(SLOW);
}

/// The seed of a system that takes ten times as long as a hundred others.
const SLOW: u64 = 3;

/// Solves the system of a seed, and compares the chains and components with all points of its ring.
fn has_exactly_its_points(seed: u64) {
    let mut random = Random::new(seed);
    let (ring, equations) = random_system(&mut random);
    let inequations =
        if random.below(4) == 0 { vec![random_poly(&ring, &mut random)] } else { Vec::new() };
    let inequations = inequations.into_iter().filter(|q| !q.is_zero()).collect::<Vec<_>>();
    let decomposer = Decomposer::new(&ring, &equations, &inequations);
    let points = all_points(&ring);
    let is_zero = |point: &&Vec<u64>| {
        equations.iter().all(|equation| equation.value(point) == 0)
            && inequations.iter().all(|q| q.value(point) != 0)
    };
    let zeros = points.iter().filter(is_zero).cloned().collect::<Vec<_>>();
    let solved = run_checked(&decomposer, &zeros);
    let what = || format!("seed {seed}: {ring:?} {equations:?}, not zero {inequations:?}");
    let kept = |factor| {
        components(
            decomposer.regularizer(),
            solved.clone(),
            Mode::Kalkbrener,
            factor,
            &mut run_jobs,
        )
    };
    let (closures, primes) = (kept(false), kept(true));
    let lazard =
        components(decomposer.regularizer(), solved.clone(), Mode::Lazard, false, &mut run_jobs);
    for point in points {
        let zero = equations.iter().all(|equation| equation.value(&point) == 0);
        let wanted = zero && inequations.iter().all(|q| q.value(&point) != 0);
        if wanted {
            assert!(solved.iter().any(|c| c.contains(&point)), "{} {point:?}", what());
            for found in [&closures, &primes] {
                let inside = found.iter().any(|c| members_vanish(&c.chain, &point));
                assert!(inside, "{} {point:?} {found:?}", what());
            }
            let inside = lazard.iter().any(|c| c.chain.contains(&point));
            assert!(inside, "{} {point:?} {lazard:?}", what());
        }
        if !zero {
            let all = closures.iter().chain(&primes).chain(&lazard).map(|c| &c.chain);
            for chain in all.chain(&solved) {
                assert!(!chain.contains(&point), "{} {point:?} {chain:?}", what());
            }
        }
    }
}
