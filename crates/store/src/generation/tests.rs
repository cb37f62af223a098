//! Random sequences of steps of a run, checked against a model of a few values; and helpers shared
//! with the tests of `power`.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use syncline_testkit::property;

use super::{Generations, Identity, Leftover, Progress, Resumed, power};
use crate::{Error, checksum::checksum};

pub(super) const HEADER: &[u8] = b"header: ";
/// The number of passes of a run.
pub(super) const PASSES: u64 = 3;

/// Returns a folder where syncs are free, if there is one that this process can write to.
pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns the contents of the file of a generation.
pub(super) fn contents(generation: u64) -> Vec<u8> {
    let data = (0..24).map(|at| (generation as u8).wrapping_mul(41).wrapping_add(at));
    HEADER.iter().copied().chain(data).collect()
}

pub(super) fn identity() -> Identity {
    Identity { what: BTreeMap::from([("kernel".into(), "sor".into())]), inputs: Vec::new() }
}

/// Returns the progress that the pass of a generation commits.
pub(super) fn progress(generation: u64) -> Progress {
    let residuals = (0..generation).map(|bits| f64::from_bits(!bits)).collect();
    let checksums = vec![checksum(&contents(generation)[HEADER.len()..])];
    Progress {
        generation,
        iterations: 7 * generation,
        panel_rows: 3,
        checksums,
        residuals,
        note: BTreeMap::new(),
    }
}

/// Returns whether `found` is the progress of its generation.
pub(super) fn is_progress(found: &Progress) -> bool {
    serde_json::to_string(found).unwrap()
        == serde_json::to_string(&progress(found.generation)).unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Create,
    Resume,
    Write,
    Commit,
    Finish,
    Drop,
    Crash,
    Discard,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Create), 4 => Just(Step::Resume), 8 => Just(Step::Write), 8 => Just(Step::Commit),
        1 => Just(Step::Finish), 2 => Just(Step::Drop), 2 => Just(Step::Crash), 1 => Just(Step::Discard),
    ];
    prop::collection::vec(step, 1..40)
}

/// The expected state.
#[derive(Debug, Default)]
struct Model {
    /// The last committed generation, 0 if there is none.
    committed: u64,
    /// Whether files of a run exist.
    files: bool,
    /// Whether the next generation was written.
    written: bool,
    /// The generation that OUTPUT holds.
    output: Option<u64>,
}

fn is_busy<T>(tried: &Result<T, Error>) -> bool {
    matches!(tried, Err(Error::Busy { .. }))
}

/// A commit has six steps: sync; create, write and sync the manifest; rename; sync the folder. A
/// commit may be retried only if it failed after the first sync and before the rename.
#[test]
fn a_commit_that_failed_is_tried_again_only_where_that_is_safe() {
    for lasts in 0..6 {
        let folder = folder();
        let output = folder.path().join("out");
        let mut run =
            Generations::create(&output, &identity(), HEADER, contents(1).len() as u64).unwrap();
        for generation in 1..=2 {
            run.file(generation).unwrap().write_all_at(&contents(generation)[8..], 8).unwrap();
            if generation == 1 {
                run.commit(&progress(1)).unwrap();
            }
        }
        power::lasting(lasts, || {
            assert!(matches!(run.commit(&progress(2)), Err(Error::File { .. })))
        });
        assert_eq!(run.committed(), 1);
        let again = run.commit(&progress(2));
        match lasts {
            0 => {
                assert!(
                    matches!(again, Err(Error::NotAtHand { asked: 2, committed: 1, .. })),
                    "{again:?}"
                );
                run.file(2).unwrap();
                run.commit(&progress(2)).unwrap();
            }
            1..4 => again.unwrap(),
            _ => {
                assert!(matches!(again, Err(Error::CommitFailed { .. })), "{again:?}");
                assert!(matches!(run.file(1), Err(Error::CommitFailed { .. })));
                drop(run);
                let Resumed::Underway(resumed) = Generations::resume(&output, &identity()).unwrap()
                else {
                    panic!("nothing there")
                };
                run = resumed;
                assert_eq!(run.committed(), if lasts == 4 { 1 } else { 2 });
            }
        }
        run.finish().unwrap();
    }
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn a_run_does_what_its_model_does(steps in steps()) {
        let folder = folder();
        let output = folder.path().join("out");
        let (mut model, mut live) = (Model::default(), None::<Generations>);
        let bytes = contents(1).len() as u64;
        for step in steps {
            let next = model.committed + 1;
            match (step, &mut live) {
                (Step::Create, None) => match Generations::create(&output, &identity(), HEADER, bytes) {
                    Ok(run) => {
                        prop_assert!(!model.files);
                        live = Some(run);
                        model = Model { files: true, output: model.output, ..Model::default() };
                    }
                    Err(Error::Leftover { .. }) => prop_assert!(model.files),
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                },
                (Step::Resume, None) => match Generations::resume(&output, &identity()).unwrap() {
                    Resumed::Nothing => prop_assert_eq!(model.committed, 0),
                    Resumed::Underway(run) => {
                        prop_assert_eq!(run.committed(), model.committed);
                        prop_assert!(run.progress().is_some_and(is_progress));
                        live = Some(run);
                        model.written = false;
                    }
                    Resumed::Complete(_) => return Err(TestCaseError::fail("nothing was left half finished")),
                },
                (Step::Create, Some(_)) => {
                    let second = Generations::create(&output, &identity(), HEADER, bytes);
                    prop_assert!(is_busy(&second));
                }
                (Step::Resume, Some(_)) => {
                    prop_assert!(is_busy(&Generations::resume(&output, &identity())));
                }
                (Step::Discard, Some(_)) => {
                    prop_assert!(is_busy(&Generations::discard(&output)));
                }
                (Step::Discard, None) => {
                    Generations::discard(&output).unwrap();
                    model = Model { output: model.output, ..Model::default() };
                }
                (Step::Write, Some(run)) => {
                    run.file(next).unwrap().write_all_at(&contents(next)[HEADER.len()..], 8).unwrap();
                    model.written = true;
                    prop_assert!(run.file(next + 1).is_err());
                    prop_assert!(model.committed == 0 || run.file(next - 1).is_ok());
                    prop_assert!(next < 2 || run.file(next - 2).is_err());
                }
                (Step::Commit, Some(run)) => {
                    prop_assert!(run.commit(&progress(next + 1)).is_err());
                    prop_assert!(run.commit(&progress(next - 1)).is_err());
                    // `create` makes the first slot, but does not write it.
                    if model.written {
                        run.commit(&progress(next)).unwrap();
                        model = Model { committed: next, written: false, ..model };
                    } else if next > 1 {
                        prop_assert!(run.commit(&progress(next)).is_err());
                    }
                }
                (Step::Finish, Some(_)) => {
                    let finished = live.take().unwrap().finish();
                    prop_assert_eq!(finished.is_ok(), model.committed > 0);
                    let output = if model.committed > 0 { Some(model.committed) } else { model.output };
                    model = Model { output, ..Model::default() };
                }
                (Step::Drop, Some(_)) => {
                    live = None;
                    model.files = model.committed > 0;
                }
                (Step::Crash, Some(_)) => power::lasting(0, || live = None),
                (Step::Write | Step::Commit | Step::Finish | Step::Drop | Step::Crash, None) => {}
            }
            let fine = match Generations::leftover(&output).unwrap() {
                Leftover::Nothing => live.is_none() && !model.files,
                Leftover::Empty => live.is_none() && model.files && model.committed == 0,
                Leftover::Resumable(found) => {
                    let slot = folder.path().join(format!("out.syncline/generation.{}", found.generation % 2));
                    prop_assert_eq!(std::fs::read(slot).unwrap(), contents(found.generation));
                    live.is_none() && found.generation == model.committed && is_progress(&found)
                }
                Leftover::Busy(_) => live.is_some(),
                Leftover::Complete(_) | Leftover::Unnamed(..) | Leftover::Damaged(_) => false,
            };
            prop_assert!(fine, "{:?} after {:?}", model, step);
            prop_assert_eq!(std::fs::read(&output).ok(), model.output.map(contents));
        }
    }
}
