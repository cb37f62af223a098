//! Systems that an earlier version solved wrongly, or not at all.

use syncline_solve::check::check;
use syncline_solve::{Mode, Ring, Source, polynomial, solve};

use crate::has_flint;

/// The dimensions and degrees of the irreducible components, and whether all are known to be
/// irreducible. The solution passes its own check.
fn components(text: &str) -> (Vec<(usize, usize)>, bool) {
    let source = Source::read(text).unwrap();
    let system = source.system(source.names()).unwrap();
    let mode = Mode::Kalkbrener;
    let solution = solve(&system.ring, &system.equations, &[], mode, true);
    check(&system.ring, &system.equations, &[], &solution, mode, true).unwrap();
    let dimensions = solution.components.iter().map(|component| component.chain.dimension());
    let degrees = dimensions.zip(solution.degrees.iter().copied()).collect();
    (degrees, solution.components.iter().all(|component| component.is_prime))
}

/// Checks the components of systems, all of which are known to be irreducible.
fn assert_components<const N: usize>(cases: [(&str, Vec<(usize, usize)>); N]) {
    for (text, expected) in cases {
        assert_eq!(components(text), (expected, true), "{text}");
    }
}

#[test]
#[ignore = "full: 29 s of computing"]
fn components_over_small_primes_are_irreducible() {
    if !has_flint() {
        return;
    }
    let cases = [
        ("vars z y t\nprime 3\ny^2 - t\nz^2 - t", vec![(1, 2), (1, 2)]),
        ("vars z y t\nprime 3\nt*y^2 - 1\nt*z^2 - 1", vec![(1, 3), (1, 3)]),
        ("vars z y t u\nprime 3\ny^2 - t\nz^4 - t*u^2", vec![(2, 4), (2, 4)]),
        ("vars z y t u\nprime 5\ny^2 - t\nz^4 - t*u^2", vec![(2, 4), (2, 4)]),
        ("vars z y t u\nprime 7\ny^2 - t\nz^4 - t*u^2", vec![(2, 4), (2, 4)]),
    ];
    assert_components(cases);
}

#[test]
#[ignore = "full: 16 s of computing"]
fn inseparable_components_are_not_told_to_be_irreducible() {
    if !has_flint() {
        return;
    }
    let (degrees, known) = components("vars z y t u\nprime 3\ny^2 - t\nz^6 - t*u^2");
    assert!(!known || degrees.len() == 2, "{degrees:?}");
}

#[test]
fn multiple_factors_over_extensions_are_removed() {
    if !has_flint() {
        return;
    }
    let cases = [
        ("vars z y t\nprime 10007\ny^2 - t\nz^2 - 2*y*z + t", vec![(1, 2)]),
        ("vars z y t\nprime 10007\ny^3 - t\nz^3 - 4*y*z^2 + 5*y^2*z - 2*t", vec![(1, 3), (1, 3)]),
    ];
    assert_components(cases);
}

#[test]
fn projections_end_for_unlucky_primes() {
    if !has_flint() {
        return;
    }
    for prime in [9277, 27_407, 226_487, 9281] {
        let text = format!("vars x y z w\nprime {prime}\nx*z - y^2\ny*w - z^2\nx*w - y*z");
        assert_eq!(components(&text), (vec![(2, 3)], true), "{prime}");
    }
}

#[test]
fn misuse_of_polynomials_panics() {
    if !has_flint() {
        return;
    }
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let misuses: [fn(&Ring, &Ring); 9] = [
        |ring, _| drop(ring.variable(0)),
        |ring, _| drop(ring.variable(9)),
        |ring, _| drop(ring.variable(1).derivative(100_000)),
        |ring, _| drop(ring.variable(1).evaluate(100_000, 3)),
        |ring, _| _ = ring.variable(1).degree(9),
        |ring, other| drop(&ring.variable(1) + &other.variable(1)),
        |ring, other| drop(ring.variable(1).gcd(&other.variable(1))),
        |ring, other| drop(ring.from_coefficients(1, &[other.variable(2)])),
        |ring, _| drop(ring.variable(1).power(1 << 31)),
    ];
    for (number, misuse) in misuses.into_iter().enumerate() {
        let misused = std::panic::catch_unwind(|| {
            let ring = Ring::new(&names(&["x", "y"]), 101).unwrap();
            let other = Ring::new(&names(&["a", "b", "c"]), 101).unwrap();
            misuse(&ring, &other);
        });
        assert!(misused.is_err(), "misuse {number}");
    }
}

#[test]
fn large_degrees_are_refused() {
    if !has_flint() {
        return;
    }
    let ring = Ring::new(&["x".to_owned(), "y".to_owned()], 101).unwrap();
    for text in ["(x^1000000)^1000000 - y", "x^600000*x^600000", "x^1000001"] {
        let error = polynomial(&ring, text).unwrap_err().to_string();
        assert!(error.contains("the degree is greater than 1000000"), "{error}");
    }
}
