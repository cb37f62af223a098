//! Degrees of components over small fields, where they are known.

use std::collections::BTreeSet;

use syncline_solve::chain::Chain;
use syncline_solve::check::check;
use syncline_solve::poly::{Poly, Ring};
use syncline_solve::section::degree;
use syncline_solve::solve::{Mode, run_jobs, solve};
use syncline_testkit::{Random, cases, seed};

use crate::command::on_text;
use crate::has_flint;

/// Coefficients of a linear polynomial, that of the greatest variable first, the constant last.
type Linear = Vec<u64>;

fn ring(variables: usize, prime: u64) -> Ring {
    let names = ["x", "y", "z", "t"][..variables].iter().map(|&name| name.to_owned());
    Ring::new(&names.collect::<Vec<_>>(), prime).unwrap()
}

fn poly(ring: &Ring, linear: &[u64]) -> Poly {
    let n = ring.variables();
    let exponents = |at| (0..n).map(|index| u64::from(index == at)).collect::<Vec<_>>();
    let terms = linear.iter().enumerate().map(|(at, &c)| (c, exponents(at))).collect::<Vec<_>>();
    ring.from_terms(terms.iter().map(|(c, exponents)| (*c, exponents.as_slice())))
}

/// Checks that the line x + a z + b, y + c z + d has the degree 1.
fn is_a_line(prime: u64, [a, b, c, d]: [u64; 4], seed: u64) {
    let ring = ring(3, prime);
    let [x, y] = [[1, 0, a, b], [0, 1, c, d]].map(|linear| poly(&ring, &linear));
    let line = Chain::empty(3).with(x).with(y);
    let found = degree(&line, seed, &mut run_jobs);
    assert_eq!(found, 1, "{line} over Z/{prime}, seed {seed}");
}

/// All directions that are no product of those of two planes.
fn directions(prime: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..prime).flat_map(move |a| (1..prime).map(move |c| (a, c)))
}

#[test]
fn lines_have_the_degree_1() {
    if !has_flint() {
        return;
    }
    for prime in [2, 3, 5, 7] {
        directions(prime).for_each(|(a, c)| is_a_line(prime, [a, 0, c, 0], 0));
    }
    (0..25).for_each(|number| is_a_line(5, [1, number / 5, 1, number % 5], 0));
}

#[test]
#[ignore = "full: 20 s of computing"]
fn all_lines_have_the_degree_1() {
    if !has_flint() {
        return;
    }
    for prime in [2, 3, 5, 7] {
        for (a, c) in directions(prime) {
            for number in 0..prime * prime {
                is_a_line(prime, [a, number / prime, c, number % prime], number);
            }
        }
    }
}

#[test]
fn right_answers_over_small_fields_are_told_right() {
    if !has_flint() {
        return;
    }
    for (text, order) in [
        ("vars x y z\nprime 5\nx+z\ny+z", "file"),
        ("vars x y z\nprime 5\nx^2-x*y+3*z\n(1-y)*(2*x-1)", "reversed"),
    ] {
        let output = on_text(text, &["--factor", "--check", "--order", order]);
        let answer = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{answer}");
        assert!(answer.contains("degree 1") && !answer.contains("degree 0"), "{answer}");
    }
}

/// The reduced echelon form of linear equations; `None` if they have no common zero.
fn echelon(mut rows: Vec<Linear>, prime: u64) -> Option<Vec<Linear>> {
    let columns = rows[0].len();
    let mut done = 0;
    for column in 0..columns {
        let Some(at) = (done..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        if column + 1 == columns {
            return None;
        }
        rows.swap(done, at);
        let inverse = (1..prime).find(|by| by * rows[done][column] % prime == 1).unwrap();
        rows[done].iter_mut().for_each(|number| *number = *number * inverse % prime);
        let pivot = rows[done].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            let factor = prime - row[column];
            if index != done {
                let pairs = row.iter_mut().zip(&pivot);
                pairs.for_each(|(number, by)| *number = (*number + factor * by) % prime);
            }
        }
        done += 1;
    }
    rows.truncate(done);
    Some(rows)
}

/// The zeros of two products of linear polynomials are linear spaces.
#[test]
fn products_of_linear_polynomials_have_as_many_components() {
    if !has_flint() {
        return;
    }
    let (count, first) = (cases(60), seed(0));
    println!("SYNCLINE_SEED={first}");
    for seed in first..first + u64::from(count) {
        let mut random = Random::new(seed);
        let prime = [2, 3, 5, 7][random.below(4)];
        let variables = 3 + random.below(2);
        let ring = ring(variables, prime);
        let mut family = || {
            let linear = |random: &mut Random| loop {
                let linear = (0..=variables).map(|_| random.below(prime as usize) as u64);
                let linear = linear.collect::<Vec<_>>();
                if linear[..variables].iter().any(|&number| number != 0) {
                    return linear;
                }
            };
            (0..1 + random.below(3)).map(|_| linear(&mut random)).collect::<Vec<_>>()
        };
        let families = [family(), family()];
        let equations = families.iter().map(|family| {
            family.iter().fold(ring.constant(1), |product, linear| &product * &poly(&ring, linear))
        });
        let equations = equations.collect::<Vec<_>>();
        let pairs = families[0].iter().flat_map(|f| families[1].iter().map(move |g| [f, g]));
        let spaces = pairs.filter_map(|[f, g]| echelon(vec![f.clone(), g.clone()], prime));
        let spaces = spaces.collect::<BTreeSet<_>>();
        let is_in = |small: &Vec<Linear>, large: &Vec<Linear>| {
            small != large && echelon([&small[..], large].concat(), prime).as_ref() == Some(small)
        };
        let mut expected = spaces
            .iter()
            .filter(|small| !spaces.iter().any(|large| is_in(small, large)))
            .map(|space| (variables - space.len(), 1))
            .collect::<Vec<_>>();
        let solution = solve(&ring, &equations, &[], Mode::Kalkbrener, true);
        let dimensions = solution.components.iter().map(|component| component.chain.dimension());
        let mut found = dimensions.zip(solution.degrees.iter().copied()).collect::<Vec<_>>();
        expected.sort_unstable();
        found.sort_unstable();
        let what = || format!("seed {seed}: {equations:?} over Z/{prime}: {solution:?}");
        assert_eq!(found, expected, "{}", what());
        // Chains that are not divided have the same degrees in sum.
        let whole = solve(&ring, &equations, &[], Mode::Kalkbrener, false);
        assert_eq!(whole.degrees.iter().sum::<usize>(), expected.len(), "{}", what());
        for (solution, factor) in [(&solution, true), (&whole, false)] {
            let checked = check(&ring, &equations, &[], solution, Mode::Kalkbrener, factor);
            assert_eq!(checked, Ok(()), "{}", what());
        }
    }
}
