//! Results over arrays: what an interrupted run leaves, and how a run goes on from it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use syncline_store::array::{Array, ArraySource};
use syncline_store::generation::{Generations, Identity, Leftover, Made};
use syncline_wave::monitor::Monitor;
use syncline_wave::reference::plain_arrays;
use syncline_wave::target::{Leftovers, Pending, Target};
use syncline_wave::{Described, Error, Runner, Sweep, SweepReport};

/// Two fields of different types and a coefficient, in two directions.
const BOTH: &str = "
    name = 'both'
    fields = ['a', 'b']
    overflow = 'wrapping'
    coefficients = ['c']
    types = { a = 'float64', b = 'int32', c = 'float64' }
    directions = ['south-east', 'north-west']
    update = '''
    a = (a[-1, 0] + a + c) / 3 + float64(b)
    b = b + 1
    '''
";

struct Work {
    folder: tempfile::TempDir,
    described: Described,
    arrays: Vec<Array>,
    sources: Vec<ArraySource>,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let numbers = |seed: usize| (0..33 * 21).map(move |i| (i * 7 + seed) % 31);
        let real = |seed| {
            let values = numbers(seed).map(|n| n as f64 / 8.0).collect();
            Array::from_vec(&[33, 21], values).unwrap()
        };
        let whole = Array::from_vec(&[33, 21], numbers(2).map(|n| n as i32).collect()).unwrap();
        let arrays = vec![real(1), whole, real(3)];
        let mut work =
            Work { folder, described: Described::parse(BOTH).unwrap(), arrays, sources: vec![] };
        for (name, array) in ["a", "b", "c"].iter().zip(&work.arrays) {
            let path = work.path(&format!("{name}.npy"));
            array.create(&path).unwrap().commit().unwrap();
            work.sources.push(ArraySource::open(&path).unwrap());
        }
        work
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn outputs(&self) -> [PathBuf; 2] {
        ["a.out.npy", "b.out.npy"].map(|name| self.path(name))
    }

    fn target(&self, leftovers: Leftovers) -> Target {
        let [a, b] = self.outputs();
        Target::npy(a).and(b).leftovers(leftovers).describe("kernel", "both")
    }

    fn sweep(&self, iterations: u64, depth: u64) -> Sweep<Described> {
        let sweep = Sweep::new(self.described.clone()).iterations(iterations);
        sweep.depth(depth).runner(Runner::pool(2))
    }

    fn run(
        &self,
        sweep: &Sweep<Described>,
        target: &Target,
    ) -> Result<(Pending, SweepReport), Error> {
        sweep.run_arrays_to(&self.sources[..2], &self.sources[2..], target)
    }

    fn resume(&self, iterations: u64) -> Result<(Pending, SweepReport), Error> {
        self.run(&self.sweep(iterations, 3), &self.target(Leftovers::Resume))
    }

    /// Checks that the outputs are those of the plain loop, and that no other file is left.
    fn check(&self, iterations: u64) {
        let mut expected = self.arrays[..2].to_vec();
        plain_arrays(&self.described, &mut expected, &self.arrays[2..], iterations).unwrap();
        for (path, expected) in self.outputs().iter().zip(&expected) {
            assert!(Array::open(path).unwrap() == *expected, "{}", path.display());
        }
        assert_eq!(fs::read_dir(self.folder.path()).unwrap().count(), 5);
    }

    /// Removes the results that were kept as they could not get their names; returns how many.
    fn remove_kept(&self) -> usize {
        let kept = self.outputs().map(|path| {
            let mut name = path.into_os_string();
            name.push(format!(".{}.npy", std::process::id()));
            fs::remove_file(name).is_ok()
        });
        kept.iter().filter(|kept| **kept).count()
    }

    fn leftover(&self) -> Leftover {
        Generations::leftover(&self.outputs()[0]).unwrap()
    }

    fn has_marks(&self) -> bool {
        let path = self.path("marked");
        let file = fs::File::create(&path).unwrap();
        let marked = Identity::default().mark(&file, &Made::default());
        fs::remove_file(path).unwrap();
        if !marked {
            println!("skipped: {} has no extended attributes", self.folder.path().display());
        }
        marked
    }
}

/// A result that is dropped leaves what a kill after its last pass leaves.
#[test]
fn a_run_goes_on_after_the_last_pass_of_a_killed_one() {
    for (done, depth) in [(2, 1), (3, 1), (4, 1), (5, 1)] {
        let work = Work::new();
        let sweep = work.sweep(done, depth);
        drop(work.run(&sweep, &work.target(Leftovers::Refuse)).unwrap());
        assert!(matches!(work.leftover(), Leftover::Resumable(found) if found.iterations == done));
        let refused = work.run(&sweep, &work.target(Leftovers::Refuse)).unwrap_err().to_string();
        assert!(refused.contains(&format!("ended after {done} iterations")), "{refused}");
        let fewer = work.resume(done - 1).unwrap_err();
        assert!(matches!(fewer, Error::Fewer { asked, .. } if asked == done - 1), "{fewer}");
        let (pending, report) = work.resume(9).unwrap();
        assert_eq!((report.resumed, report.iterations), (done, 9));
        assert!(pending.array(2).is_err() && pending.matrix::<f32>().is_err());
        pending.commit().unwrap();
        work.check(9);
    }
    // Discarded instead.
    let work = Work::new();
    drop(work.run(&work.sweep(5, 1), &work.target(Leftovers::Refuse)).unwrap());
    let (pending, report) = work.run(&work.sweep(4, 2), &work.target(Leftovers::Discard)).unwrap();
    assert_eq!(report.resumed, 0);
    pending.commit().unwrap();
    work.check(4);
}

#[test]
fn a_cancelled_run_keeps_its_complete_passes() {
    let work = Work::new();
    drop(work.run(&work.sweep(4, 1), &work.target(Leftovers::Refuse)).unwrap());
    let monitor = Arc::new(Monitor::new());
    monitor.cancel();
    let cancelled = work.sweep(6, 1).monitor(monitor);
    let error = work.run(&cancelled, &work.target(Leftovers::Resume)).unwrap_err();
    assert!(matches!(error, Error::Cancelled { iteration: 4 }), "{error}");
    let (pending, report) = work.resume(6).unwrap();
    assert_eq!(report.resumed, 4);
    pending.commit().unwrap();
    work.check(6);
}

/// The commit of a result fails after the first old output is removed: a folder cannot be.
#[test]
fn a_commit_that_ends_in_its_middle_is_completed() {
    let work = Work::new();
    let (pending, _) = work.run(&work.sweep(4, 1), &work.target(Leftovers::Discard)).unwrap();
    let [a, b] = work.outputs();
    fs::write(&a, "old").unwrap();
    fs::create_dir(&b).unwrap();
    pending.commit().unwrap_err();
    assert!(!a.exists() && matches!(work.leftover(), Leftover::Resumable(_)));
    fs::remove_dir(&b).unwrap();
    work.resume(4).unwrap().0.commit().unwrap();
    work.check(4);
    // The state between the renames: the second output lacks its name.
    let work = Work::new();
    let (pending, _) = work.run(&work.sweep(4, 1), &work.target(Leftovers::Discard)).unwrap();
    let [a, b] = work.outputs();
    fs::create_dir(&b).unwrap();
    pending.commit().unwrap_err();
    fs::remove_dir(&b).unwrap();
    fs::rename(work.path("a.out.npy.syncline/generation.0"), &a).unwrap();
    let Leftover::Unnamed(found, lack) = work.leftover() else { panic!("{:?}", work.leftover()) };
    assert!(found.iterations == 4 && lack == [b.clone()], "{lack:?}");
    let error = work.run(&work.sweep(4, 1), &work.target(Leftovers::Refuse)).unwrap_err();
    let told = format!("a run that was complete but for the names of {}", b.display());
    assert!(error.to_string().contains(&told), "{error}");
    fs::write(&b, "of another program").unwrap();
    let error = work.resume(4).unwrap_err().to_string();
    assert!(error.contains("b.out.npy"), "{error}");
    fs::remove_file(&b).unwrap();
    let (pending, report) = work.resume(4).unwrap();
    assert!(pending.is_complete() && report.resumed == 4);
    work.check(4);
}

#[test]
fn damage_of_a_pass_is_found_and_located() {
    for (slot, field) in [("generation.1", 0), ("generation.1.1", 1)] {
        for iterations in [3, 6] {
            let work = Work::new();
            drop(work.run(&work.sweep(3, 1), &work.target(Leftovers::Refuse)).unwrap());
            let path = work.path("a.out.npy.syncline").join(slot);
            let file = fs::File::options().read(true).write(true).open(&path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, 500).unwrap();
            file.write_all_at(&[byte[0] ^ 4], 500).unwrap();
            let error = work.resume(iterations).unwrap_err().to_string();
            assert!(error.contains(slot), "field {field}: {error}");
            assert!(error.contains("its checksum differs"), "{error}");
            assert!(matches!(work.leftover(), Leftover::Resumable(_)));
        }
    }
}

#[test]
fn a_changed_input_is_named() {
    for depth in [1, 6] {
        for in_memory in [false, true] {
            let work = Work::new();
            let path = work.path("c.npy");
            fs::write(&path, fs::read(&path).unwrap()).unwrap();
            // A file may get the time that it had.
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(9);
            fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
            let target = work.target(Leftovers::Refuse).in_memory(in_memory);
            let error = work.run(&work.sweep(6, depth), &target).unwrap_err().to_string();
            assert!(error.contains("c.npy was changed while it was read"), "{error}");
            assert!(work.outputs().iter().all(|path| !path.exists()));
        }
    }
}

#[test]
fn a_complete_result_is_continued() {
    for in_memory in [false, true] {
        for depth in [1, 9] {
            let work = Work::new();
            if !work.has_marks() {
                return;
            }
            let target = |leftovers| work.target(leftovers).in_memory(in_memory);
            let run = |iterations, leftovers| {
                work.run(&work.sweep(iterations, depth), &target(leftovers))
            };
            run(3, Leftovers::Refuse).unwrap().0.commit().unwrap();
            work.check(3);
            let taken = run(5, Leftovers::Refuse).unwrap_err().to_string();
            assert!(taken.contains("the result of 3 iterations of both"), "{taken}");
            let (pending, report) = run(3, Leftovers::Resume).unwrap();
            assert!(pending.is_complete() && report.passes == 0 && report.resumed == 3);
            pending.commit().unwrap();
            let (pending, report) = run(8, Leftovers::Resume).unwrap();
            assert_eq!((report.resumed, report.iterations), (3, 8));
            // Another program replaces an output meanwhile.
            let b = work.outputs()[1].clone();
            let result = fs::read(&b).unwrap();
            fs::write(&b, "other").unwrap();
            let error = pending.commit().unwrap_err().to_string();
            assert!(error.contains("b.out.npy"), "{error}");
            assert_eq!(fs::read(&b).unwrap(), b"other");
            fs::write(&b, result).unwrap();
            work.remove_kept();
            let unknown = run(8, Leftovers::Resume).map(drop);
            assert!(unknown.is_err() || matches!(work.leftover(), Leftover::Nothing));
            run(8, Leftovers::Discard).unwrap().0.commit().unwrap();
            work.check(8);
            // An input with other values is another computation, a touched one is not.
            let path = work.path("c.npy");
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes).unwrap();
            let sources: Vec<ArraySource> = ["a.npy", "b.npy", "c.npy"]
                .map(|name| ArraySource::open(&work.path(name)).unwrap())
                .into();
            let work = Work { sources, ..work };
            let target = work.target(Leftovers::Resume).in_memory(in_memory);
            let (_, report) = work.run(&work.sweep(9, depth), &target).unwrap();
            assert_eq!(report.resumed, 8);
        }
    }
}

/// With two directions, a sweep has converged when two iterations in a row change little enough.
#[test]
fn a_continued_run_knows_when_it_converged() {
    let work = Work::new();
    let until = |iterations| {
        let described = Described::parse(
            "
            name = 'calm'
            fields = ['a', 'b']
            coefficients = ['c']
            types = { a = 'float64', b = 'int32', c = 'float64' }
            directions = ['south-east', 'north-west']
            update = '''
            a = (a[-1, 0] + a + c) / 3
            b = b
            '''
            ",
        );
        let sweep = Sweep::new(described.unwrap()).iterations(iterations).depth(1);
        sweep.until(0.01).exact_stop(true)
    };
    let target = work.target(Leftovers::Resume);
    let (whole, expected) = work.run(&until(1000), &target).unwrap();
    let at = expected.converged.unwrap();
    assert!(at > 4 && expected.iterations == at + 1);
    drop(whole);
    Generations::discard(&work.outputs()[0]).unwrap();
    for part in [3, at, at + 1] {
        drop(work.run(&until(part), &target).unwrap());
    }
    let (pending, report) = work.run(&until(1000), &target).unwrap();
    assert_eq!((report.converged, report.iterations), (Some(at), at + 1));
    assert_eq!(report.residuals, expected.residuals);
    pending.commit().unwrap();
    if work.has_marks() {
        let (pending, report) = work.run(&until(1000), &target).unwrap();
        assert!(pending.is_complete() && report.converged == Some(at));
    }
}

#[test]
fn the_first_of_two_runs_gets_all_names() {
    let work = Work::new();
    // One pass, whose files have no names before the commit.
    let (one, _) = work.run(&work.sweep(1, 1), &work.target(Leftovers::Refuse)).unwrap();
    let (two, _) = work.run(&work.sweep(1, 1), &work.target(Leftovers::Refuse)).unwrap();
    one.commit().unwrap();
    let results = work.outputs().map(|path| fs::metadata(path).unwrap().modified().unwrap());
    let error = two.commit().unwrap_err().to_string();
    assert!(error.contains("a.out.npy"), "{error}");
    assert_eq!(results, work.outputs().map(|path| fs::metadata(path).unwrap().modified().unwrap()));
    assert!(matches!(work.leftover(), Leftover::Nothing), "{:?}", work.leftover());
    assert_eq!(work.remove_kept(), 2);
    work.check(1);
}

#[test]
fn old_outputs_that_a_kill_has_removed_are_not_missed() {
    for removed in 1..=2 {
        let work = Work::new();
        let (old, _) = work.run(&work.sweep(1, 1), &work.target(Leftovers::Refuse)).unwrap();
        old.commit().unwrap();
        let (pending, _) = work.resume(4).unwrap();
        drop(pending);
        // A commit removes the old files before it names the new ones.
        work.outputs()[..removed].iter().for_each(|path| fs::remove_file(path).unwrap());
        let (pending, report) = work.resume(4).unwrap();
        assert_eq!(report.resumed, 4);
        pending.commit().unwrap();
        work.check(4);
    }
}

/// A result of one pass is not lost when a file gets one of its names meanwhile.
#[test]
fn a_result_whose_name_is_taken_meanwhile_is_kept() {
    let work = Work::new();
    let (pending, _) = work.run(&work.sweep(1, 1), &work.target(Leftovers::Refuse)).unwrap();
    let [first, second] = work.outputs();
    fs::write(&second, "of another program").unwrap();
    let error = pending.commit().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Store(syncline_store::Error::Kept { .. })), "{text}");
    assert!(!first.exists() && fs::read(&second).unwrap() == b"of another program");
    let mut expected = work.arrays[..2].to_vec();
    plain_arrays(&work.described, &mut expected, &work.arrays[2..], 1).unwrap();
    let kept = text.split("; the result is in ").skip(1);
    let kept: Vec<_> = kept.map(|path| Array::open(path.as_ref()).unwrap()).collect();
    assert_eq!(kept, expected);
}

/// Outputs that could not get their names together are an error before anything is computed or
/// discarded.
#[test]
fn outputs_that_cannot_get_their_names_together_are_refused_first() {
    let work = Work::new();
    let [first, second] = work.outputs();
    fs::create_dir(work.path("other")).unwrap();
    let other = work.path("other/b.out.npy");
    for (depth, in_memory) in [(1, false), (5, false), (5, true)] {
        for (path, told) in [(&other, "is not in the folder of"), (&first, "is the same file as")] {
            let target = Target::npy(&first).and(path).in_memory(in_memory);
            let monitor = Arc::new(Monitor::new());
            let sweep = work.sweep(5, depth).monitor(Arc::clone(&monitor));
            let error = work.run(&sweep, &target.leftovers(Leftovers::Discard)).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(told) && error.contains("a.out.npy"), "{error}");
            assert_eq!(monitor.done(), 0);
            assert_eq!(fs::read_dir(work.folder.path()).unwrap().count(), 4);
        }
    }
    // Another path of the folder is none of another folder.
    let second = work.path("other/..").join(second.file_name().unwrap());
    let target = Target::npy(first).and(second);
    work.run(&work.sweep(5, 5), &target).unwrap().0.commit().unwrap();
    fs::remove_dir(work.path("other")).unwrap();
    work.check(5);
}

/// A folder that appears under a name prevents the commit, whatever may be replaced.
#[test]
fn a_result_whose_name_a_folder_has_taken_is_kept() {
    for (depth, in_memory) in [(5, false), (1, false), (1, true)] {
        let work = Work::new();
        let target = work.target(Leftovers::Discard).in_memory(in_memory);
        let (pending, _) = work.run(&work.sweep(5, depth), &target).unwrap();
        fs::create_dir(&work.outputs()[1]).unwrap();
        let text = pending.commit().unwrap_err().to_string();
        let mut expected = work.arrays[..2].to_vec();
        plain_arrays(&work.described, &mut expected, &work.arrays[2..], 5).unwrap();
        let kept = text.split("; the result is in ").skip(1);
        let kept: Vec<_> = kept.map(|path| Array::open(path.as_ref()).unwrap()).collect();
        assert!(kept == expected, "{text}");
        // A run from files to files goes on with the names when they are free.
        fs::remove_dir(&work.outputs()[1]).unwrap();
        let in_folder = text.contains(".syncline/");
        assert_eq!(work.remove_kept(), if in_folder { 0 } else { 2 });
        assert!(!in_folder || !in_memory);
        work.resume(5).unwrap().0.commit().unwrap();
        work.check(5);
    }
}

/// A file that cannot be created is found before the sweep, also by one in memory.
#[test]
fn a_sweep_in_memory_creates_its_files_first() {
    let work = Work::new();
    let target = Target::npy(work.path("none/a.npy")).and(work.path("none/b.npy"));
    let monitor = Arc::new(Monitor::new());
    let sweep = work.sweep(5, 1).monitor(Arc::clone(&monitor));
    let error = work.run(&sweep, &target.in_memory(true)).unwrap_err().to_string();
    assert!(error.contains("none/a.npy"), "{error}");
    assert_eq!(monitor.done(), 0);
}

/// HPCG's smoother, forward and back ten times, against a triple loop of the same association.
#[test]
fn symmetric_gauss_seidel_of_27_points_is_that_of_a_triple_loop() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/symmetric.toml");
    let text = fs::read_to_string(example).unwrap();
    let [planes, rows, cols] = [7, 9, 12];
    let all = planes * rows * cols;
    let numbers = |seed: usize| -> Vec<f64> {
        (0..all).map(|i| ((i * 7919 + seed) % 1009) as f64 / 16.0).collect()
    };
    let (start, r) = (numbers(1), numbers(500));
    for fixed in [false, true] {
        let text = if fixed { text.replace("edges = 0", "edges = 'fixed'") } else { text.clone() };
        let mut expected = start.clone();
        let outside = |at: [isize; 3]| {
            let beyond = |(at, len): (isize, usize)| !(0..len as isize).contains(&at);
            at.into_iter().zip([planes, rows, cols]).any(beyond)
        };
        let place = |[k, j, i]: [isize; 3]| (k as usize * rows + j as usize) * cols + i as usize;
        let steps =
            || (-1..=1).flat_map(|k| (-1..=1).flat_map(move |j| (-1..=1).map(move |i| [k, j, i])));
        let mut update = |point: [isize; 3]| {
            let neighbours =
                || steps().map(|by| std::array::from_fn(|axis| point[axis] + by[axis]));
            if fixed && neighbours().any(outside) {
                return;
            }
            let value = |at| if outside(at) { 0.0 } else { expected[place(at)] };
            let values: Vec<f64> = neighbours().map(value).collect();
            let sum = |values: &mut dyn Iterator<Item = &f64>| {
                values.copied().reduce(|sum, value| sum + value).unwrap()
            };
            let above = sum(&mut values[..9].iter());
            let beside = sum(&mut values[9..13].iter().chain(&values[14..18]));
            let below = sum(&mut values[18..].iter());
            expected[place(point)] = (r[place(point)] + above + beside + below) / 26.0;
        };
        for _ in 0..10 {
            for n in 0..all {
                update([n / (rows * cols), n / cols % rows, n % cols].map(|at| at as isize));
            }
            for n in (0..all).rev() {
                update([n / (rows * cols), n / cols % rows, n % cols].map(|at| at as isize));
            }
        }
        let array =
            |values: &[f64]| Array::from_vec(&[planes, rows, cols], values.to_vec()).unwrap();
        let (field, coefficient) = (array(&start), array(&r));
        let described = Described::parse(&text).unwrap();
        for threads in [1, 2] {
            let sweep = Sweep::new(described.clone()).iterations(20).runner(Runner::pool(threads));
            let (fields, report) = sweep
                .run_arrays(std::slice::from_ref(&field), std::slice::from_ref(&coefficient))
                .unwrap();
            assert_eq!(report.iterations, 20);
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(
                bits(fields[0].values::<f64>().unwrap()),
                bits(&expected),
                "{fixed} {threads}"
            );
        }
    }
}
