//! Decompositions with a Gröbner basis, against those by chains alone.

use syncline_solve::decompose::Decomposer;
use syncline_solve::groebner::{MOST_WORK, NoBasis, lexicographic};
use syncline_solve::solve::run;
use syncline_solve::{Method, Mode, Poly, Ring, Solution, Source, polynomial, solve};
use syncline_testkit::{Random, cases, seed};

use crate::has_flint;
use crate::random_systems::{all_points, random_poly, random_system};

fn solution(
    ring: &Ring,
    equations: &[Poly],
    inequations: &[Poly],
    method: Method,
) -> (Solution, Option<NoBasis>) {
    let (prepared, no_basis) = method.prepare(ring, equations, inequations);
    (solve(ring, &prepared, inequations, Mode::Kalkbrener, true), no_basis)
}

#[test]
fn a_basis_leads_to_the_same_components() {
    if !has_flint() {
        return;
    }
    let (first, cases) = (seed(0), u64::from(cases(200)));
    let mut found = 0;
    for seed in first..first + cases {
        let mut random = Random::new(seed);
        let (ring, equations) = random_system(&mut random);
        let inequations =
            if seed % 3 == 0 { vec![random_poly(&ring, &mut random)] } else { Vec::new() };
        let what = format!("seed {seed}: {ring:?} {equations:?}, not zero {inequations:?}");
        let basis = match lexicographic(&ring, &equations, &inequations, MOST_WORK) {
            Ok(basis) => basis,
            Err(why) => {
                let decomposer = Decomposer::new(&ring, &equations, &inequations);
                let solved = run(&decomposer, decomposer.first(), &mut |_| ());
                assert!(solved.iter().any(|chain| chain.dimension() > 0), "{what}");
                assert_eq!(why, NoBasis::Infinite, "{what}");
                continue;
            }
        };
        let (chains, _) = solution(&ring, &equations, &inequations, Method::Chains);
        let with = solution(&ring, &equations, &inequations, Method::Auto);
        assert_eq!(with, (chains, None), "{what}");
        found += 1;
        for point in all_points(&ring) {
            let [of_basis, of_inputs] =
                [&basis, &equations].map(|polys| polys.iter().all(|p| p.value(&point) == 0));
            let excluded = inequations.iter().any(|q| q.value(&point) == 0);
            assert_eq!(of_basis, of_inputs && !excluded, "{what} {point:?}");
        }
        // The least of all variables has a polynomial of its own, unless there are no zeros.
        let univariate = basis.iter().filter(|p| p.main_level() <= 1).count();
        assert_eq!(univariate, 1, "{what} {basis:?}");
    }
    assert!(found > cases / 4, "{found} of {cases} systems have a basis");
}

#[test]
fn large_systems_have_all_their_zeros() {
    if !has_flint() {
        return;
    }
    for (text, zeros) in [
        (include_str!("../systems/classics/katsura6.txt"), 64),
        (include_str!("../systems/classics/cyclic6.txt"), 156),
        (include_str!("../systems/classics/reimer5.txt"), 144),
    ] {
        let source = Source::read(text).unwrap();
        let system = source.system(source.names()).unwrap();
        let (solution, no_basis) = solution(&system.ring, &system.equations, &[], Method::Auto);
        assert_eq!((solution.points(), no_basis), (Some(zeros), None));
    }
}

#[test]
fn what_has_no_basis_says_why() {
    if !has_flint() {
        return;
    }
    let reason = |prime: u64, variables: usize, equations: &[&str]| {
        let names = (1..=variables).map(|index| format!("x{index}")).collect::<Vec<_>>();
        let ring = Ring::new(&names, prime).unwrap();
        let equations = equations.iter().map(|text| polynomial(&ring, text).unwrap());
        lexicographic(&ring, &equations.collect::<Vec<_>>(), &[], MOST_WORK)
            .map(|basis| format!("{basis:?}"))
    };
    assert_eq!(reason(7, 1, &[]), Err(NoBasis::Infinite));
    assert_eq!(reason(7, 1, &["0"]), Err(NoBasis::Infinite));
    assert_eq!(reason(7, 2, &["x1*x2"]), Err(NoBasis::Infinite));
    assert_eq!(reason((1 << 31) - 1, 1, &["x1"]), Ok("[x1]".to_owned()));
    assert_eq!(reason((1 << 61) - 1, 1, &["x1"]), Err(NoBasis::Prime));
    assert_eq!(reason(7, 17, &["x1"]), Err(NoBasis::Variables));
    assert_eq!(reason(7, 2, &["x1^100*x2^28", "x1"]), Err(NoBasis::Degree));
    assert_eq!(reason(7, 2, &["x1^70 - x2", "x2^70 - x1"]), Err(NoBasis::Zeros));
    assert_eq!(reason(7, 2, &["x1*x2 - 1", "x1"]), Ok("[1]".to_owned()));
    let square = reason(7, 2, &["x1^2 + x2^2 - 5", "x1*x2 - 2"]);
    assert_eq!(square, Ok("[x2^4 + 2*x2^2 - 3, x1 - 3*x2^3 + x2]".to_owned()));
}
