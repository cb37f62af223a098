//! Systems that an earlier version solved wrongly, or not at all.

use syncline_solve::check::check;
use syncline_solve::{Mode, Ring, Source, polynomial, solve};

use crate::has_flint;

/// The dimensions and degrees of the irreducible components, and whether all are known to be
/// irreducible. The solution passes its own check.
fn components(text: &str) -> (Vec<(usize, usize)>, bool) {
    let source = Source::read(text).unwrap();
    components_in_order(text, source.names())
}

fn components_in_order(text: &str, names: &[String]) -> (Vec<(usize, usize)>, bool) {
    let source = Source::read(text).unwrap();
    let system = source.system(names).unwrap();
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
#[ignore = "full: 10 s of computing"]
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
#[ignore = "full: 5 s of computing"]
fn inseparable_components_are_not_told_to_be_irreducible() {
    if !has_flint() {
        return;
    }
    let (degrees, known) = components("vars z y t u\nprime 3\ny^2 - t\nz^6 - t*u^2");
    assert!(!known || degrees.len() == 2, "{degrees:?}");
}

/// Each system is solved in three orders of its variables. None of them ended in one of these.
fn assert_in_all_orders<const N: usize>(cases: [(&str, Vec<(usize, usize)>); N]) {
    for (text, expected) in cases {
        let file = Source::read(text).unwrap().names().to_vec();
        let mut turned = file.clone();
        turned.rotate_left(file.len() / 2);
        let reversed = file.iter().rev().cloned().collect::<Vec<_>>();
        for names in [file, turned, reversed] {
            let (mut found, known) = components_in_order(text, &names);
            found.sort_by(|a, b| b.cmp(a));
            assert_eq!((found, known), (expected.clone(), true), "{names:?} {text}");
        }
    }
}

#[test]
fn fields_of_numbers_are_no_fields_of_functions() {
    if !has_flint() {
        return;
    }
    assert_in_all_orders([
        ("vars u v x y z\nprime 103\nu^4 - 3\nv^4 - 3\nx*z - y", vec![(2, 4); 8]),
        ("vars a b x y z\nprime 32003\na^4 + 1\nb^2 - a\nx^2*z^7 - y^3 + y", vec![(2, 36); 2]),
        ("vars a b c x y\nprime 7\na^2 - 3\nb^2 + 1\nc^2 - a*b\nx^3 - y^2", vec![(1, 6); 4]),
        ("vars a x y\nprime 2147483647\n(a^2 - 3)^2\nx*y^2 - x - a", vec![(1, 6)]),
    ]);
}

#[test]
fn numbers_that_functions_contain_are_found() {
    if !has_flint() {
        return;
    }
    // 2 is no square modulo 101.
    assert_in_all_orders([
        ("vars w t x y\nprime 101\nx^2 - 2*y^2\nw^2 - 2*t^2", vec![(2, 2), (2, 2)]),
        ("vars x a y\nprime 101\nx^2 - 2*y^2\na^2 - 2", vec![(1, 2), (1, 2)]),
        ("vars w x y\nprime 101\nx^4 - 2*y^4\nw^2 - 2*y^2", vec![(1, 4), (1, 4)]),
        ("vars z x y a\nprime 101\na^2 - 2\nx^2 - 2*y^2\nz^2 - x*a - 1", vec![(1, 4); 2]),
    ]);
}

#[test]
fn members_that_do_not_occur_in_a_factor_matter() {
    if !has_flint() {
        return;
    }
    assert_in_all_orders([
        ("vars c b a x\nprime 101\na^2 - x\nb^2 - x - 1\nc^2 - x^2 - x", vec![(1, 4); 2]),
        ("vars c b a x\nprime 101\na^2 - x\nb^2 - x - 1\nc^2 - x^2 - 1", vec![(1, 8)]),
    ]);
}

/// A norm that would be too large is not computed, and the component says so.
#[test]
fn a_large_norm_is_a_doubt() {
    if !has_flint() {
        return;
    }
    // v is the sum of two roots: at no point is the polynomial irreducible.
    let text = "vars v a b x y z\nprime 32003\na^5 - x - y - z\nb^5 - x*y + z\n\
                v^4 - 2*(a + x + b + y)*v^2 + (a + x - b - y)^2";
    let source = Source::read(text).unwrap();
    let system = source.system(source.names()).unwrap();
    let solution = solve(&system.ring, &system.equations, &[], Mode::Kalkbrener, true);
    let [component] = &solution.components[..] else { panic!("{solution:?}") };
    assert!(!component.is_prime);
    let told = component.doubt.expect("a reason").told(&system.ring);
    assert!(told.starts_with("the norm of the polynomial of v can have more than"), "{told}");
}

/// The components of two systems whose chains have initials that vanish on others.
#[test]
fn closures_of_products_are_products_of_closures() {
    if !has_flint() {
        return;
    }
    assert_in_all_orders([
        // The line x = y = 0 is in the closure of x z - y, whose initial vanishes there.
        (
            "vars u v x y z\nprime 103\nu^2 - 3\nv^2 - 3\n(x*z - y)*x",
            vec![(2, 4), (2, 4), (2, 2), (2, 2)],
        ),
        ("vars u x y z\nprime 103\nu^2 - 3\n(x*z - y)*x\n(x*z - y)*y", vec![(2, 4)]),
    ]);
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
