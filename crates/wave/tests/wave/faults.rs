//! Faults during a sweep lead to an error and never to a hang: a kernel that panics, a cancelled
//! sweep, a truncated input, a full disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Data, Place, same, values};
use crate::kernels::Hooked;
use syncline_overlay::error::RunError;
use syncline_store::{
    Matrix, Shape,
    generation::{Generations, Leftover},
};
use syncline_wave::{
    Error, Runner, Sweep,
    kernels::Sor,
    lanes::Lanes,
    monitor::Monitor,
    target::{Leftovers, Target},
};

/// Runs `work` with a time limit.
fn soon<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(Duration::from_secs(100)).expect("it hangs, or has panicked")
}

const SHAPE: Shape = Shape::new(150, 90);

/// The number of kernel calls in a whole run.
const CALLS: u64 = 7 * 148 * 88;

fn sweep(at: u64, hook: impl Fn() + Send + Sync + 'static) -> Sweep<Hooked> {
    Sweep::new(Hooked::new(at, hook))
        .iterations(7)
        .depth(2)
        .lanes(Lanes::Scalar)
        .runner(Runner::pool(3))
}

fn is_the_panic<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    match outcome {
        Err(Error::Run(RunError::Panicked { message, .. })) => {
            assert_eq!(message, "the kernel broke")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kernel_that_panics_in_a_streamed_sweep_is_an_error() {
    for n in 0..8 {
        soon(move || {
            let folder = tempfile::tempdir().unwrap();
            let place = if n % 2 == 0 { Place::Memory } else { Place::Npy(8) };
            let (field, []) = Data::<f64, 0>::new(1, SHAPE).at(&[place], folder.path());
            let sweep = sweep(1 + n * CALLS / 8, || panic!("the kernel broke"));
            is_the_panic(&sweep.run(&field, &[], place.result(folder.path(), SHAPE)));
        });
    }
}

#[test]
fn a_kernel_that_panics_on_the_way_to_a_target_leaves_the_passes_before() {
    for n in 0..6 {
        soon(move || {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            let data = Data::<f64, 0>::new(1, SHAPE);
            let (field, []) = data.at(&[Place::Raw], folder.path());
            let broken = sweep(1 + n * CALLS / 6, || panic!("the kernel broke"));
            is_the_panic(&broken.run_to(&field, &[], &Target::npy(&path)));
            let target = Target::npy(&path).leftovers(Leftovers::Resume);
            let (pending, report) = sweep(u64::MAX, || ()).run_to(&field, &[], &target).unwrap();
            assert!(report.resumed % 2 == 0 && (n < 2 || report.resumed > 0), "{n}: {report:?}");
            let expected = data.plain(&Sor::gauss_seidel(), 7);
            same(&values(&pending.matrix().unwrap()), &expected, SHAPE.cols).unwrap();
        });
    }
}

/// A cancelled sweep returns `Cancelled`, wherever it is when it is cancelled.
#[test]
fn a_sweep_is_cancelled_anywhere() {
    for n in 0..12 {
        soon(move || {
            let folder = tempfile::tempdir().unwrap();
            let place = if n % 2 == 0 { Place::Memory } else { Place::Raw };
            let (field, []) = Data::<f64, 0>::new(1, SHAPE).at(&[place], folder.path());
            let monitor = Arc::new(Monitor::new());
            let cancel = Arc::clone(&monitor);
            let sweep = sweep(1 + n * CALLS / 13, move || cancel.cancel()).monitor(monitor);
            let outcome = sweep.run(&field, &[], place.result(folder.path(), SHAPE));
            let Err(Error::Cancelled { iteration }) = outcome else { panic!("{n}: {outcome:?}") };
            // Passes are ahead of the slowest point by a few iterations.
            assert!(iteration < 7 && iteration.abs_diff(n * 7 / 13) < 4, "{n}: {iteration}");
        });
    }
}

/// A file that another process truncates leads to an error that names it, and not to a signal.
#[test]
fn an_input_that_is_cut_short_is_an_error() {
    let shape = Shape::new(3000, 40);
    for (n, name) in [(0, "field"), (1, "c0"), (2, "field"), (3, "c0")] {
        soon(move || {
            let folder = tempfile::tempdir().unwrap();
            let (field, coefficients) =
                Data::<f64, 1>::new(1, shape).at(&[Place::Raw], folder.path());
            let path = folder.path().join(name);
            let cut = {
                let path = path.clone();
                move || {
                    std::fs::File::options()
                        .write(true)
                        .open(&path)
                        .unwrap()
                        .set_len(40 * 8 * 200)
                        .unwrap()
                }
            };
            let sweep = sweep(1, cut);
            let error = if n < 2 {
                let result = Place::Memory.result(folder.path(), shape);
                sweep.run(&field, &coefficients, result).map(|_| ()).unwrap_err()
            } else {
                let target = Target::raw(folder.path().join("out"));
                sweep.run_to(&field, &coefficients, &target).map(|_| ()).unwrap_err()
            };
            assert!(matches!(error, Error::Store(_)), "{error:?}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert!(!folder.path().join("out").exists());
        });
    }
}

/// A small file system.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(folder.path());
        mount.stderr(Stdio::null()).status().ok()?.success().then(|| Self(folder))
    }

    fn grow(&self, bytes: u64) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={bytes}")]).arg(self.0.path());
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A failed unmount does not change the outcome of the test.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Without room for both generations no run begins. In a later pass the previous generation stays,
/// and the run resumes when there is room.
#[test]
fn a_full_disk_is_an_error_and_loses_no_pass() {
    let shape = Shape::new(300, 250);
    let bytes = (300 * 250 * 8) as u64;
    let Some(small) = Small::mount(bytes / 2) else {
        return println!("skipped: a small file system can be mounted by root only");
    };
    let data = Data::<f64, 0>::new(1, shape);
    let field = Arc::new(Matrix::from_vec(shape, data.field.clone()).unwrap());
    let path = small.0.path().join("out");
    let target = |leftovers| Target::npy(&path).leftovers(leftovers);
    let sweep = |depth| Sweep::new(Sor::gauss_seidel()).iterations(6).depth(depth);
    for (size, depth) in [(bytes / 2, 2), (bytes / 2, 6), (bytes * 3 / 2, 2)] {
        small.grow(size);
        let error = sweep(depth).run_to(&field, &[], &target(Leftovers::Refuse)).unwrap_err();
        assert!(matches!(error, Error::Store(syncline_store::Error::NoSpace { .. })), "{error:?}");
        assert!(names(small.0.path()).is_empty(), "{:?}", names(small.0.path()));
    }
    // Room for both generations, but another process takes some of it during the first pass.
    small.grow(bytes * 5 / 2);
    let filler = small.0.path().join("filler");
    let fill = filler.clone();
    let kernel = Hooked::new(1, move || std::fs::write(&fill, vec![1; bytes as usize]).unwrap());
    let filled = Sweep::new(kernel).iterations(6).depth(2);
    let error = filled.run_to(&field, &[], &target(Leftovers::Refuse)).unwrap_err();
    assert!(matches!(error, Error::Store(syncline_store::Error::NoSpace { .. })), "{error:?}");
    let left = Generations::leftover(&path).unwrap();
    assert!(matches!(&left, Leftover::Resumable(progress) if progress.iterations == 2), "{left:?}");
    std::fs::remove_file(filler).unwrap();
    let (pending, report) = sweep(2).run_to(&field, &[], &target(Leftovers::Resume)).unwrap();
    assert_eq!((report.resumed, report.iterations, report.passes), (2, 6, 2));
    pending.commit().unwrap();
    let result = Matrix::<f64>::open(&path).unwrap();
    same(&values(&result), &data.plain(&Sor::gauss_seidel(), 6), shape.cols).unwrap();
    assert_eq!(names(small.0.path()), ["out"]);
}
