//! Targets of several passes: the files that an interrupted run leaves, and how a run resumes from
//! them.

pub(crate) mod results;
pub(crate) mod work;

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use syncline_store::{
    Matrix, Shape,
    generation::{Generations, Identity, Leftover},
};
use syncline_testkit::property;
use syncline_wave::{
    Error,
    monitor::Monitor,
    target::{Leftovers, Target},
};

use self::work::{How, KERNEL, THREE, Work};
use crate::common::{bits, lanes, same, values};
use crate::kernels::Hooked;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 60_000, ..property(60) })]

    /// A run that is interrupted anywhere and resumed with other settings has the same bits and
    /// residuals.
    #[test]
    fn a_sweep_goes_on_where_it_was_interrupted(
        (rows, cols) in (3..180_usize, 3..180_usize),
        iterations in 2..20_u64,
        (depth, other_depth) in (1..8_u64, 1..8_u64),
        (threads, other_threads) in (1..4_usize, 1..4_usize),
        (lanes, other_lanes) in (lanes(), lanes()),
        tolerance: bool,
        part in 0.0..1.0_f64,
        seed: u64,
    ) {
        let work = Work::new(seed, Shape::new(rows, cols));
        let until = |tolerance: bool| if tolerance { 1e-30 } else { 0.0 };
        // Few points converge to the last bit: those sweeps get no more iterations than that takes.
        let residuals = work.data.residuals(&KERNEL, iterations);
        let converged = residuals.iter().position(|&residual| residual <= until(tolerance));
        let iterations = converged.map_or(iterations, |at| at.max(1) as u64);
        let how = How { iterations, depth, threads, lanes };
        let at = 1 + (work.calls(how) as f64 * part) as u64;
        let monitor = Arc::new(Monitor::new());
        let cancel = Arc::clone(&monitor);
        let kernel = Hooked::new(at, move || cancel.cancel());
        let target = work.target(Leftovers::Refuse);
        let first = how.sweep(kernel).monitor(monitor).until(until(tolerance));
        let outcome = first.run_to(&work.field, &work.coefficients, &target);
        let committed = match work.leftover() {
            Leftover::Resumable(progress) => progress.iterations,
            Leftover::Nothing => 0,
            other => panic!("{other:?}"),
        };
        match &outcome {
            Err(Error::Cancelled { iteration }) => prop_assert_eq!(*iteration, committed),
            // The cancellation came in the last piece of the last pass.
            other => prop_assert!(other.is_ok() && part > 0.5, "{:?}", other),
        }
        drop(outcome);
        prop_assert!(!work.path.exists());
        let how = How { depth: other_depth, threads: other_threads, lanes: other_lanes, ..how };
        let sweep = how.sweep(KERNEL).until(until(tolerance));
        let target = work.target(Leftovers::Resume);
        let (pending, report) = sweep.run_to(&work.field, &work.coefficients, &target).unwrap();
        prop_assert_eq!((report.resumed, report.iterations), (committed, iterations));
        prop_assert_eq!(bits(&report.residuals), bits(&residuals[..iterations as usize]));
        work.finish(pending, iterations)?;
    }
}

/// A sweep cancelled at the very end of a pass, when only writing and checking are left, does not
/// count as complete.
#[test]
fn nothing_that_was_not_written_is_taken_for_a_result() {
    let shape = Shape::new(40, 30);
    for iterations in [1, 2, 4] {
        let how = How { iterations, threads: 1, ..THREE };
        let calls = Work::new(1, shape).calls(how);
        for before in 0..30 {
            let work = Work::new(1, shape);
            match work.interrupt(how, calls - before) {
                Ok((pending, _)) => work.finish(pending, iterations).unwrap(),
                Err(Error::Cancelled { .. }) => {
                    let (pending, _) = work.run(how, Leftovers::Resume).unwrap();
                    work.finish(pending, iterations).unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// An input that is written to while it is read leads to an error, and the last pass before the
/// change stays.
#[test]
fn an_input_that_changes_meanwhile_is_an_error() {
    for (iterations, part) in [(2, 50), (6, 10), (6, 50), (6, 90)] {
        let work = Work::new(1, Shape::new(60, 50));
        let how = How { iterations, ..THREE };
        let input = work.folder.path().join("c0");
        let touched = input.clone();
        let kernel = Hooked::new(work.calls(how) * part / 100, move || {
            let file = std::fs::File::options().write(true).open(&touched).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        });
        let outcome = how.sweep(kernel).run_to(
            &work.field,
            &work.coefficients,
            &work.target(Leftovers::Refuse),
        );
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::Store(syncline_store::Error::InputChanged { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("c0"), "{error}");
        assert!(!work.path.exists());
        let kept = if let Leftover::Resumable(progress) = work.leftover() {
            progress.iterations
        } else {
            0
        };
        assert_eq!(
            kept,
            if part == 10 || iterations == 2 { 0 } else { iterations * part / 100 / 2 * 2 }
        );
    }
}

#[test]
fn leftovers_are_refused_resumed_or_discarded() {
    let work = Work::interrupted(Shape::new(70, 60));
    let refused = work.refusal(THREE, &work.target(Leftovers::Refuse));
    assert!(
        refused.contains("a run that ended after 4 iterations: resume it, or discard it"),
        "{refused}"
    );
    // A file that has got the name since is not replaced.
    std::fs::write(&work.path, b"what was there").unwrap();
    let refused = work.refusal(THREE, &work.target(Leftovers::Resume));
    assert!(refused.contains("is not what it was when the run began"), "{refused}");
    std::fs::remove_file(&work.path).unwrap();
    let (pending, report) = work.run(THREE, Leftovers::Resume).unwrap();
    assert_eq!((report.resumed, report.passes), (4, 1));
    // After the drop, another run gets the same result.
    drop(pending);
    let (pending, report) = work.run(THREE, Leftovers::Resume).unwrap();
    assert_eq!((report.resumed, report.passes, report.iterations), (6, 0, 6));
    std::fs::write(&work.path, b"what was there").unwrap();
    let error = pending.commit().unwrap_err();
    let Error::Store(syncline_store::Error::Kept { kept, source }) = error else {
        panic!("{error}")
    };
    assert!(matches!(*source, syncline_store::Error::Appeared { .. }), "{source}");
    assert!(kept.starts_with(work.beside()) && kept.exists());
    let (pending, report) = work.run(THREE, Leftovers::Discard).unwrap();
    assert_eq!((report.resumed, report.passes), (0, 3));
    assert_eq!(std::fs::read(&work.path).unwrap(), b"what was there");
    work.finish(pending, 6).unwrap();
    // The result is recognised if it has its mark.
    match work.run(THREE, Leftovers::Resume) {
        Ok((pending, report)) => {
            assert_eq!((report.passes, pending.is_complete()), (0, true));
            work.finish(pending, 6).unwrap();
        }
        Err(error) => assert!(error.to_string().contains("no extended attributes"), "{error}"),
    }
}

/// A run that was killed between giving the result its name and removing its folder: a file with
/// the name must have the values of the result.
#[test]
fn a_file_with_the_name_of_the_result_must_have_its_numbers() {
    for stranger in [false, true] {
        let work = Work::new(1, Shape::new(40, 30));
        // With `Discard`, the run fails only in its very last step.
        let (pending, _) = work.run(THREE, Leftovers::Discard).unwrap();
        std::fs::create_dir(&work.path).unwrap();
        pending.commit().unwrap_err();
        std::fs::remove_dir(&work.path).unwrap();
        let slot = work.beside().join("generation.1");
        let mut bytes = std::fs::read(&slot).unwrap();
        *bytes.last_mut().unwrap() ^= u8::from(stranger);
        std::fs::write(&work.path, bytes).unwrap();
        std::fs::remove_file(slot).unwrap();
        assert!(matches!(work.leftover(), Leftover::Complete(_)));
        if stranger {
            let before = std::fs::read(&work.path).unwrap();
            let error = work.run(THREE, Leftovers::Resume).unwrap_err();
            assert!(error.to_string().contains("another file has replaced the result"), "{error}");
            assert!(std::fs::read(&work.path).unwrap() == before);
            continue;
        }
        let (pending, report) = work.run(THREE, Leftovers::Resume).unwrap();
        assert_eq!((report.resumed, report.passes, pending.is_complete()), (6, 0, true));
        work.finish(pending, 6).unwrap();
    }
}

#[test]
fn other_values_in_memory_are_another_computation() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::npy(folder.path().join("out.npy")).leftovers(Leftovers::Resume);
    let run = |value: f64| {
        let field = Arc::new(Matrix::from_vec(Shape::new(9, 9), vec![1.0; 81]).unwrap());
        let given = Arc::new(Matrix::from_vec(Shape::new(9, 9), vec![value; 81]).unwrap());
        THREE.sweep(KERNEL).run_to(&field, &[given], &target)
    };
    drop(run(0.5).unwrap());
    let refused = run(0.25).unwrap_err().to_string();
    assert!(refused.contains("array 1 in memory was "), "{refused}");
    assert_eq!(run(0.5).unwrap().1.passes, 0);
}

/// The first pass of a killed run, a concurrent run, and a folder that cannot be understood.
#[test]
fn leftovers_of_other_kinds() {
    let work = Work::new(1, Shape::new(40, 30));
    let elsewhere = work.folder.path().join("elsewhere");
    let alive = Generations::create(&elsewhere, &Identity::default(), b"", 100).unwrap();
    let kill = || {
        std::fs::create_dir_all(work.beside()).unwrap();
        let slot = alive.path(1);
        std::fs::copy(&slot, work.beside().join(slot.file_name().unwrap())).unwrap();
    };
    for leftovers in [Leftovers::Resume, Leftovers::Discard] {
        kill();
        let refused = work.refusal(THREE, &work.target(Leftovers::Refuse));
        assert!(refused.contains("a run that ended in its first pass"), "{refused}");
        let (pending, report) = work.run(THREE, leftovers).unwrap();
        assert_eq!((report.resumed, report.passes), (0, 3));
        work.finish(pending, 6).unwrap();
        std::fs::remove_file(&work.path).unwrap();
    }
    for leftovers in [Leftovers::Refuse, Leftovers::Resume, Leftovers::Discard] {
        let target = Target::npy(&elsewhere).leftovers(leftovers);
        let busy = THREE.sweep(KERNEL).run_to(&work.field, &work.coefficients, &target);
        assert!(matches!(busy, Err(Error::Store(syncline_store::Error::Busy { .. }))), "{busy:?}");
    }
    let work = Work::interrupted(Shape::new(70, 60));
    std::fs::write(work.beside().join("manifest"), b"nonsense").unwrap();
    let refused = work.refusal(THREE, &work.target(Leftovers::Refuse));
    assert!(refused.contains("a damaged run"), "{refused}");
    work.refusal(THREE, &work.target(Leftovers::Resume));
    let (pending, _) = work.run(THREE, Leftovers::Discard).unwrap();
    work.finish(pending, 6).unwrap();
}

/// A run does not resume another computation, and the message says what differs.
#[test]
fn another_computation_is_refused() {
    let work = Work::interrupted(Shape::new(70, 60));
    let refused = |how: How, target: &Target, why: &str| {
        let message = work.refusal(how, target);
        assert!(message.contains(why), "{message}");
    };
    let resume = work.target(Leftovers::Resume);
    refused(
        THREE,
        &resume.clone().describe("kernel", "jacobi"),
        "kernel was gauss-seidel, is jacobi",
    );
    refused(THREE, &resume.clone().describe("omega", 1.5), "omega was not given, is 1.5");
    refused(
        How { iterations: 3, ..THREE },
        &resume,
        "4 iterations behind it, more than the 3 asked for",
    );
    refused(
        THREE,
        &Target::raw(work.target(Leftovers::Resume).path()).leftovers(Leftovers::Resume),
        "format was npy",
    );
    // Another input, a missing one, and one that was written to.
    let (field, coefficients) = (&work.field, &work.coefficients);
    let message = THREE
        .sweep(KERNEL)
        .run_to(&coefficients[0], coefficients, &resume)
        .unwrap_err()
        .to_string();
    assert!(message.contains("field was ") && message.contains("/c0"), "{message}");
    let message = THREE.sweep(KERNEL).run_to(field, &[], &resume).unwrap_err().to_string();
    assert!(message.contains("c0 was") && message.contains("is not given"), "{message}");
    for name in ["field", "c0"] {
        let path = work.folder.path().join(name);
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let (before, last) =
            (file.metadata().unwrap().modified().unwrap(), file.metadata().unwrap().len() - 1);
        let mut byte = [0];
        file.read_exact_at(&mut byte, last).unwrap();
        file.write_all_at(&[byte[0] ^ 1], last).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        refused(THREE, &resume, &format!("{name}, "));
        refused(THREE, &resume, "has other values: their checksum was ");
        file.write_all_at(&byte, last).unwrap();
        file.set_modified(before).unwrap();
    }
    let (pending, report) = work.run(THREE, Leftovers::Resume).unwrap();
    assert_eq!(report.resumed, 4);
    work.finish(pending, 6).unwrap();
}

/// Changes a byte at each of these offsets, and checks that the run detects it before it gets into
/// the result, and resumes after it is restored.
fn damage_is_found(work: &Work, how: How, offsets: &[u64]) {
    let Leftover::Resumable(progress) = work.leftover() else { panic!("{:?}", work.leftover()) };
    let slot = work.beside().join(format!("generation.{}", progress.generation % 2));
    let file = std::fs::File::options().read(true).write(true).open(&slot).unwrap();
    for &offset in offsets {
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        let outcome = work.run(how, Leftovers::Resume);
        let Err(Error::Store(error @ syncline_store::Error::Generation { .. })) = &outcome else {
            panic!("byte {offset}: {outcome:?}")
        };
        let (message, damage) = (error.to_string(), offset >= 128);
        assert!(message.contains(slot.to_str().unwrap()), "{message}");
        assert!(
            message.contains(if damage { "is damaged" } else { "header was changed" }),
            "{message}"
        );
        assert!(!work.path.exists());
        file.write_all_at(&byte, offset).unwrap();
        assert_eq!(
            format!("{:?}", work.leftover()),
            format!("{:?}", Leftover::Resumable(progress.clone()))
        );
    }
    let (pending, report) = work.run(how, Leftovers::Resume).unwrap();
    assert_eq!(report.resumed, progress.iterations);
    work.finish(pending, how.iterations).unwrap();
}

#[test]
fn a_changed_byte_of_a_generation_is_found() {
    let work = Work::interrupted(Shape::new(70, 60));
    let end = 128 + 70 * 60 * 8;
    let mut offsets: Vec<u64> = (0..40).map(|n| 128 + n * 823 % (end - 128)).collect();
    offsets.extend([0, 127, 128, end - 1]);
    damage_is_found(&work, THREE, &offsets);
}

/// As above, with several checksums to a generation.
#[test]
fn a_changed_byte_of_a_large_generation_is_found() {
    let work = Work::interrupted(Shape::new(1100, 1000));
    let end = 128 + 1100 * 1000 * 8;
    damage_is_found(&work, THREE, &[128, 128 + (4 << 20), end / 2, end - 1]);
}

/// As above, when nothing is left to do.
#[test]
fn a_changed_byte_of_the_last_generation_is_found() {
    let work = Work::new(1, Shape::new(70, 60));
    drop(work.run(THREE, Leftovers::Refuse).unwrap());
    damage_is_found(&work, THREE, &[128, 20_000, 128 + 70 * 60 * 8 - 1]);
}

/// An existing file stays until the commit, and is replaced only with `Discard`; in one pass or
/// several.
#[test]
fn an_old_result_is_replaced_by_the_commit() {
    for depth in [2, 6] {
        let work = Work::new(1, Shape::new(70, 60));
        std::fs::write(&work.path, b"what was there").unwrap();
        let how = How { depth, ..THREE };
        for leftovers in [Leftovers::Refuse, Leftovers::Resume] {
            let refused = work.refusal(how, &work.target(leftovers));
            assert!(refused.contains("out.npy is not known as a result"), "{refused}");
        }
        drop(work.run(how, Leftovers::Discard).unwrap());
        assert_eq!(std::fs::read(&work.path).unwrap(), b"what was there");
        assert_eq!(work.beside().exists(), depth == 2, "only several passes leave something");
        let (pending, _) = work.run(how, Leftovers::Discard).unwrap();
        assert_eq!(std::fs::read(&work.path).unwrap(), b"what was there");
        work.finish(pending, 6).unwrap();
    }
}

/// A folder that appears under the name prevents the commit, whatever may be replaced. The result
/// of one pass gets another name, that of several stays in the folder of the run.
#[test]
fn a_result_whose_name_a_folder_has_taken_is_kept() {
    for depth in [2, 6] {
        let work = Work::new(1, Shape::new(40, 30));
        let how = How { depth, ..THREE };
        let (pending, report) = work.run(how, Leftovers::Discard).unwrap();
        std::fs::create_dir(&work.path).unwrap();
        let error = pending.commit().unwrap_err();
        let Error::Store(syncline_store::Error::Kept { kept, .. }) = &error else {
            panic!("{error}")
        };
        assert_eq!(kept.starts_with(work.beside()), report.passes > 1, "{error}");
        let expected = work.data.plain(&KERNEL, 6);
        same(&values(&Matrix::open(kept).unwrap()), &expected, work.data.shape.cols).unwrap();
        std::fs::remove_dir(&work.path).unwrap();
        let (pending, again) = work.run(how, Leftovers::Resume).unwrap();
        assert_eq!(again.passes, if report.passes > 1 { 0 } else { 1 });
        work.finish(pending, 6).unwrap();
    }
}
