//! A tolerance determines where a run ends, not what it computes: a run can continue from a result
//! with another tolerance, or with none.

use proptest::prelude::*;
use syncline_store::Shape;
use syncline_testkit::property;
use syncline_wave::{Error, target::Leftovers};

use crate::common::bits;
use crate::target::results::has_marks;
use crate::target::work::{How, KERNEL, THREE, Work};

/// One run of a chain of runs onto the same result.
#[derive(Clone, Copy, Debug)]
struct Leg {
    most: u64,
    /// The tolerance is the residual of this iteration, if any.
    tolerance: Option<usize>,
    exact: bool,
    depth: u64,
}

fn leg() -> impl Strategy<Value = Leg> {
    (0..24_u64, prop::option::of(0..24_usize), any::<bool>(), 1..6_u64)
        .prop_map(|(most, tolerance, exact, depth)| Leg { most, tolerance, exact, depth })
}

/// The known state of the result: its iterations, and those whose residuals are known.
#[derive(Default)]
struct Known {
    done: usize,
    from: usize,
    tolerance: Option<f64>,
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(60) })]

    /// For any sequence of runs with and without tolerances and exact stops: the bits are those of
    /// the plain loop, the known residuals are right, and a run with nothing left to do does
    /// nothing.
    #[test]
    fn runs_of_any_tolerance_go_on_from_one_another(legs in prop::collection::vec(leg(), 1..6), seed: u64) {
        let work = Work::new(seed, Shape::new(20, 17));
        let residuals = work.data.residuals(&KERNEL, 24);
        let mut known = Known::default();
        for (n, leg) in legs.iter().enumerate() {
            let tolerance = leg.tolerance.map(|at| residuals[at]);
            let small = |range: std::ops::Range<usize>| {
                range.clone().find(|&at| Some(residuals[at]) <= tolerance)
            };
            let how = How { iterations: leg.most, depth: leg.depth, ..THREE };
            let mut sweep = how.sweep(KERNEL).exact_stop(leg.exact && tolerance.is_some());
            if let Some(tolerance) = tolerance {
                sweep = sweep.until(tolerance);
            }
            let outcome =
                sweep.run_to(&work.field, &work.coefficients, &work.target(Leftovers::Resume));
            let most = leg.most as usize;
            let before = small(known.from..known.done);
            let wanted = before.filter(|_| leg.exact).map_or(most, |at| most.min(at + 1));
            let sure = known.from == 0
                || before > Some(known.from)
                || before.is_none()
                || known.tolerance == tolerance;
            if leg.exact && n > 0 && !sure {
                let error = outcome.unwrap_err().to_string();
                prop_assert!(error.contains("the iteration of an exact stop is no longer known"), "{}", error);
                continue;
            }
            if known.done > wanted {
                let error = outcome.unwrap_err();
                prop_assert!(matches!(&error, Error::Taken { .. }), "{}", error);
                let told = format!("iterations were {}, are {wanted}", known.done);
                prop_assert!(error.to_string().contains(&told), "{}", error);
                continue;
            }
            let (pending, report) = outcome.unwrap();
            if n > 0 && (before.is_some() || known.done == wanted) {
                prop_assert!(pending.is_complete() && report.passes == 0, "leg {}", n);
                prop_assert_eq!(report.converged, before.map(|at| at as u64));
                prop_assert_eq!(report.iterations, known.done as u64);
                continue;
            }
            let at = small(known.done..most);
            prop_assert_eq!(report.converged, at.map(|at| at as u64), "leg {}", n);
            let done = report.iterations as usize;
            match at {
                None => prop_assert_eq!(done, most),
                Some(at) if leg.exact => prop_assert_eq!(done, at + 1),
                Some(at) => prop_assert!((at + 1..=most.min(at + leg.depth as usize)).contains(&done)),
            }
            prop_assert_eq!(report.resumed, known.done as u64);
            let from = if tolerance.is_some() { known.from } else { done };
            known = Known { done, from, tolerance };
            prop_assert_eq!(bits(&report.residuals), bits(&residuals[known.from..done]));
            work.finish(pending, report.iterations)?;
            if !has_marks(&work) {
                return Ok(());
            }
        }
    }
}

/// An interrupted run can also resume with another tolerance, or with none.
#[test]
fn an_interrupted_run_goes_on_with_another_tolerance() {
    let shape = Shape::new(70, 60);
    let tolerances = [None, Some(f64::INFINITY), Some(0.0)];
    for tolerance in tolerances {
        // The run was interrupted without a tolerance, after 4 of 6 iterations.
        let work = Work::interrupted(shape);
        let mut sweep = How { iterations: 9, ..THREE }.sweep(KERNEL);
        if let Some(tolerance) = tolerance {
            sweep = sweep.until(tolerance).exact_stop(true);
        }
        let target = work.target(Leftovers::Resume);
        let (pending, report) = sweep.run_to(&work.field, &work.coefficients, &target).unwrap();
        // The residuals of the first four iterations are unknown; the fifth reaches an infinite
        // tolerance.
        let (iterations, converged) = match tolerance {
            Some(f64::INFINITY) => (5, Some(4)),
            _ => (9, None),
        };
        assert_eq!(
            (report.resumed, report.iterations, report.converged),
            (4, iterations, converged)
        );
        let known = if tolerance.is_some() { 4 } else { iterations as usize };
        let expected = &work.data.residuals(&KERNEL, iterations)[known..];
        assert_eq!(bits(&report.residuals), bits(expected));
        work.finish(pending, iterations).unwrap();
    }
}

/// An interrupted run that has gone past the iteration of an exact stop is refused, and the message
/// contains both numbers.
#[test]
fn an_exact_stop_before_what_is_done_is_refused() {
    let work = Work::new(1, Shape::new(70, 60));
    let until = |how: How| how.sweep(KERNEL).until(0.0);
    // Dropped without a commit, the run counts as interrupted.
    let target = work.target(Leftovers::Refuse);
    drop(until(THREE).run_to(&work.field, &work.coefficients, &target).unwrap());
    let third = work.data.residuals(&KERNEL, 3)[2];
    let sweep = How { iterations: 9, ..THREE }.sweep(KERNEL).until(third);
    let target = work.target(Leftovers::Resume);
    let exact = sweep.clone().exact_stop(true).run_to(&work.field, &work.coefficients, &target);
    let error = exact.unwrap_err().to_string();
    assert!(error.contains("6 iterations behind it, more than the 3 asked for"), "{error}");
    let (pending, report) = sweep.run_to(&work.field, &work.coefficients, &target).unwrap();
    assert_eq!((report.iterations, report.converged, report.passes), (6, Some(2), 0));
    work.finish(pending, 6).unwrap();
}

/// Where the residuals of the first iterations are unknown, so is the point at which an exact stop
/// would have ended among them: that is refused, except with the tolerance with which they were
/// computed.
#[test]
fn an_exact_stop_among_residuals_that_are_not_known_is_refused() {
    let work = Work::new(1, Shape::new(40, 30));
    let run = |iterations, tolerance: Option<f64>| {
        let sweep = How { iterations, ..THREE }.sweep(KERNEL).exact_stop(tolerance.is_some());
        let sweep = tolerance.into_iter().fold(sweep, |sweep, tolerance| sweep.until(tolerance));
        sweep.run_to(&work.field, &work.coefficients, &work.target(Leftovers::Resume))
    };
    run(4, None).unwrap().0.commit().unwrap();
    if !has_marks(&work) {
        return;
    }
    let residuals = work.data.residuals(&KERNEL, 5);
    run(9, Some(residuals[4])).unwrap().0.commit().unwrap();
    let (pending, report) = run(9, Some(residuals[4])).unwrap();
    assert_eq!((pending.is_complete(), report.iterations, report.converged), (true, 5, Some(4)));
    let error = run(9, Some(residuals[4] * 2.0)).unwrap_err().to_string();
    assert!(
        error.contains("iterations were 5, the iteration of an exact stop is no longer known"),
        "{error}"
    );
}
