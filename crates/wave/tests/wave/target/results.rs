//! Runs that begin with an existing result: which results a run continues from, and which it
//! refuses.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use syncline_store::{
    Layout, Matrix, Shape,
    generation::{Existing, Leftover},
};
use syncline_testkit::property;
use syncline_wave::{Error, monitor::Monitor, target::Leftovers};

use super::work::{How, KERNEL, THREE, Work};
use crate::common::{bits, lanes};
use crate::kernels::Hooked;

/// Returns whether the file system of the result supports marks; prints a line if it does not.
pub(crate) fn has_marks(work: &Work) -> bool {
    let marked = matches!(Existing::at(&work.path), Ok(Existing::Result(_)));
    if !marked {
        println!("skipped: {} has no extended attributes", work.folder.path().display());
    }
    marked
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(40) })]

    /// Some iterations, then more with other settings, give the bits and residuals of all in one
    /// run.
    #[test]
    fn a_result_of_fewer_iterations_is_gone_on_from(
        (rows, cols) in (1..120_usize, 1..120_usize),
        (first, more) in (0..12_u64, 1..12_u64),
        (depth, other_depth) in (1..8_u64, 1..8_u64),
        (lanes, other_lanes) in (lanes(), lanes()),
        tolerance: bool,
        seed: u64,
    ) {
        let work = Work::new(seed, Shape::new(rows, cols));
        let sweep = |how: How| how.sweep(KERNEL).until(if tolerance { 1e-300 } else { 0.0 });
        let run = |how: How, leftovers| {
            sweep(how).run_to(&work.field, &work.coefficients, &work.target(leftovers))
        };
        let how = How { iterations: first, depth, threads: 2, lanes };
        run(how, Leftovers::Refuse).unwrap().0.commit().unwrap();
        if !has_marks(&work) {
            return Ok(());
        }
        let all = How { iterations: first + more, depth: other_depth, lanes: other_lanes, ..how };
        let (pending, report) = run(all, Leftovers::Resume).unwrap();
        if report.converged.is_some() {
            // Without interior points no iteration changes anything.
            prop_assert!(rows < 3 || cols < 3 || report.residuals.contains(&0.0));
        } else {
            prop_assert_eq!((report.resumed, report.iterations), (first, first + more));
            prop_assert_eq!(bits(&report.residuals), bits(&work.data.residuals(&KERNEL, first + more)));
        }
        work.finish(pending, report.iterations)?;
        // Nothing is left to do from that result; fewer iterations are refused.
        let (pending, report) = run(all, Leftovers::Resume).unwrap();
        prop_assert!(pending.is_complete() && report.passes == 0);
        if report.iterations > 0 {
            let error = run(How { iterations: report.iterations - 1, ..all }, Leftovers::Resume).unwrap_err();
            prop_assert!(error.to_string().contains("iterations were "), "{}", error);
        }
    }
}

/// A run that is interrupted anywhere while it continues from a result leaves that result, and can
/// resume.
#[test]
fn an_interrupted_run_from_a_result_leaves_that() {
    let shape = Shape::new(60, 50);
    for (depth, part) in [(9, 50), (2, 10), (2, 50), (2, 95)] {
        let work = Work::new(1, shape);
        work.run(THREE, Leftovers::Refuse).unwrap().0.commit().unwrap();
        if !has_marks(&work) {
            return;
        }
        let before = std::fs::read(&work.path).unwrap();
        let how = How { iterations: 14, depth, ..THREE };
        let rest = How { iterations: 8, ..how };
        let (monitor, at) = (Arc::new(Monitor::new()), work.calls(rest) * part / 100);
        let cancel = Arc::clone(&monitor);
        let sweep = how.sweep(Hooked::new(at, move || cancel.cancel())).monitor(monitor);
        let outcome =
            sweep.run_to(&work.field, &work.coefficients, &work.target(Leftovers::Resume));
        assert!(matches!(outcome, Err(Error::Cancelled { .. })), "{outcome:?}");
        assert!(std::fs::read(&work.path).unwrap() == before);
        let kept = if let Leftover::Resumable(progress) = work.leftover() {
            progress.iterations
        } else {
            6
        };
        let (pending, report) = work.run(how, Leftovers::Resume).unwrap();
        assert_eq!((report.resumed, report.iterations), (kept, 14));
        assert!(std::fs::read(&work.path).unwrap() == before);
        work.finish(pending, 14).unwrap();
    }
}

/// A result that is written to while a run continues from it is not replaced, nor is the outcome
/// committed.
#[test]
fn a_result_that_changes_under_the_run_is_an_error() {
    for depth in [2, 9] {
        let work = Work::new(1, Shape::new(60, 50));
        work.run(THREE, Leftovers::Refuse).unwrap().0.commit().unwrap();
        if !has_marks(&work) {
            return;
        }
        let path = work.path.clone();
        let kernel = Hooked::new(100, move || {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[1; 8], 1000).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        });
        let how = How { iterations: 14, depth, ..THREE };
        let outcome = how.sweep(kernel).run_to(
            &work.field,
            &work.coefficients,
            &work.target(Leftovers::Resume),
        );
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Store(syncline_store::Error::Appeared { .. })), "{error}");
        assert!(matches!(work.leftover(), Leftover::Nothing));
    }
}

/// Inputs that were moved, copied or touched are the same by their checksums, for an interrupted
/// run and for a result.
#[test]
fn inputs_that_were_moved_or_touched_are_the_same() {
    let touch = |path: &std::path::Path| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(7)).unwrap();
    };
    let (interrupted, finished) =
        (Work::interrupted(Shape::new(70, 60)), Work::new(1, Shape::new(70, 60)));
    finished.run(How { iterations: 4, ..THREE }, Leftovers::Refuse).unwrap().0.commit().unwrap();
    for work in [interrupted, finished] {
        if work.path.exists() && !has_marks(&work) {
            continue;
        }
        touch(&work.folder.path().join("field"));
        std::fs::create_dir(work.folder.path().join("moved")).unwrap();
        std::fs::rename(work.folder.path().join("c0"), work.folder.path().join("moved/other"))
            .unwrap();
        let field = Arc::new(Matrix::<f64>::open(&work.folder.path().join("field")).unwrap());
        let moved = work.folder.path().join("moved/other");
        let moved =
            Arc::new(Matrix::<f64>::open_raw(&moved, work.data.shape, Layout::RowMajor).unwrap());
        let target = work.target(Leftovers::Resume);
        let (pending, report) =
            THREE.sweep(KERNEL).run_to(&field, std::array::from_ref(&moved), &target).unwrap();
        assert_eq!((report.resumed, report.iterations), (4, 6));
        work.finish(pending, 6).unwrap();
        // The inputs are recognised at their new paths.
        if has_marks(&work) {
            let (pending, _) = THREE.sweep(KERNEL).run_to(&field, &[moved], &target).unwrap();
            assert!(pending.is_complete());
        }
    }
}

/// A run neither continues from nor replaces the result of another computation, and the message
/// says what differs.
#[test]
fn a_result_of_another_computation_is_refused() {
    let work = Work::new(1, Shape::new(40, 30));
    work.run(THREE, Leftovers::Refuse).unwrap().0.commit().unwrap();
    if !has_marks(&work) {
        return;
    }
    let more = How { iterations: 9, ..THREE };
    let resume = work.target(Leftovers::Resume);
    let refused = work.refusal(more, &work.target(Leftovers::Refuse));
    assert!(
        refused.contains("is the result of 6 iterations of gauss-seidel; it is not replaced"),
        "{refused}"
    );
    assert!(refused.ends_with(", or `Leftovers::Resume` to continue from it"), "{refused}");
    for (how, target, why) in [
        (more, resume.clone().describe("kernel", "jacobi"), "kernel was gauss-seidel, is jacobi"),
        (more, resume.clone().describe("omega", 1.5), "omega was not given, is 1.5"),
        (How { iterations: 5, ..THREE }, resume, "iterations were 6, are 5"),
    ] {
        let refused = work.refusal(how, &target);
        assert!(refused.contains("not what is asked for: ") && refused.contains(why), "{refused}");
    }
    std::fs::write(work.folder.path().join("c0"), vec![0; 40 * 30 * 8]).unwrap();
    let zeros =
        Matrix::<f64>::open_raw(&work.folder.path().join("c0"), work.data.shape, Layout::RowMajor)
            .unwrap();
    let target = work.target(Leftovers::Resume);
    let error = more
        .sweep(KERNEL)
        .run_to(&work.field, &[Arc::new(zeros)], &target)
        .unwrap_err()
        .to_string();
    assert!(error.contains("c0") && error.contains("has other values"), "{error}");
}
