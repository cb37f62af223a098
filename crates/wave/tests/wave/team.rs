//! Sweeps on a team are bit-identical to the plain double loop: any shape, kernel, type, depth,
//! number of members and threads, on one host and on several.

use std::path::PathBuf;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use crate::common::{Data, Place, lanes, same, side, values};
use crate::kernels::{Check, Hooked, KERNELS, with_kernel};
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use syncline_fabric::{Member, Team};
use syncline_overlay::{Initial, Location, Overlay, Stop};
use syncline_store::{Block, Layout, Matrix, NewFile, Shape};
use syncline_testkit::{Random, cases, property, seed};
use syncline_wave::{
    Error, Neighbours, PointKernel, Runner, Stencil, Sweep, SweepReport,
    kernels::Sor,
    lanes::{Lane, Lanes, Real},
    monitor::Monitor,
    target::{Leftovers, Target},
};

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    iterations: u64,
    depth: Option<u64>,
    threads: usize,
    /// The number of hosts, and of members on each.
    hosts: (usize, usize),
    lanes: Lanes,
    inputs: Vec<Place>,
    odd_values: bool,
    seed: u64,
    /// The tolerance, and whether the sweep ends exactly where it is reached.
    until: Option<(f64, bool)>,
}

impl Case {
    fn sweep<K>(&self, kernel: K) -> Sweep<K> {
        let sweep = Sweep::new(kernel)
            .iterations(self.iterations)
            .runner(Runner::pool(self.threads))
            .lanes(self.lanes);
        let sweep = match self.until {
            Some((tolerance, exact)) => sweep.until(tolerance).exact_stop(exact),
            None => sweep,
        };
        match self.depth {
            Some(depth) => sweep.depth(depth),
            None => sweep,
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let cols = (side(), 1..5_usize).prop_map(|(cols, times)| cols * times);
    let numbers = (side(), cols, 1..31_u64, prop::option::of(1..21_u64), 1..4_usize);
    let places = prop::collection::vec(Place::any(), 1..4);
    let hosts = prop::sample::select(vec![
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 6),
        (1, 9),
        (2, 1),
        (2, 2),
        (2, 5),
        (3, 1),
        (4, 1),
    ]);
    let tolerances = prop::sample::select(vec![0.01, 0.3, 2.0, 1e3]);
    let until = prop::option::of((tolerances, any::<bool>()));
    let rest = (hosts, lanes(), prop::bool::weighted(0.3), any::<u64>(), until);
    (numbers, places, rest).prop_map(
        |(numbers, inputs, (hosts, lanes, odd_values, seed, until))| {
            let (rows, cols, iterations, depth, threads) = numbers;
            let shape = Shape::new(rows, cols);
            Case {
                shape,
                iterations,
                depth,
                threads,
                hosts,
                lanes,
                inputs,
                odd_values,
                seed,
                until,
            }
        },
    )
}

/// Runs `f` in the members of a team on that many hosts, with as many members on each.
pub(crate) fn team<R: Send>(
    (hosts, each): (usize, usize),
    f: impl Fn(&mut Member) -> R + Sync,
) -> Vec<R> {
    if hosts == 1 {
        return Team::threads(each).quiet().run(f).unwrap();
    }
    Team::hosts(hosts).processes(each).quiet().run(f).unwrap()
}

/// Runs a case on a team, into a target; returns whether there were columns for all members.
struct OnTeam(Case);

impl Check for OnTeam {
    type Outcome = Result<bool, TestCaseError>;

    fn run<T: Real, K: PointKernel<N> + Clone, const N: usize>(&self, kernel: K) -> Self::Outcome {
        let case = &self.0;
        let data = Data::<T, N>::new(case.seed, case.shape);
        let data = if case.odd_values { data.with_odd_values(case.seed) } else { data };
        let folder = tempfile::tempdir().unwrap();
        let (field, coefficients) = data.at(&case.inputs, folder.path());
        let path = folder.path().join("result.npy");
        let reports = team(case.hosts, |me| {
            let monitor = Arc::new(Monitor::new());
            let sweep = case.sweep(kernel.clone()).monitor(Arc::clone(&monitor));
            let target = Target::npy(&path).describe("kernel", "a name");
            let report = sweep.run_on(me, &field, &coefficients, &target)?;
            assert!(case.until.is_some() || monitor.done() == monitor.total());
            Ok::<SweepReport, Error>(report)
        });
        if reports
            .iter()
            .any(|report| matches!(report, Err(Error::Members { .. } | Error::NotOnTeam { .. })))
        {
            prop_assert!(reports.iter().all(Result::is_err), "{:?}", reports);
            prop_assert_eq!(
                std::fs::read_dir(folder.path()).unwrap().count(),
                on_file(&case.inputs, N)
            );
            return Ok(false);
        }
        let zeros = Matrix::zeros(case.shape, Layout::RowMajor).unwrap();
        let (_, alone) = case.sweep(kernel.clone()).run(&field, &coefficients, zeros).unwrap();
        let reports: Vec<_> = reports.into_iter().map(Result::unwrap).collect();
        let done = reports[0].iterations;
        for report in &reports {
            prop_assert_eq!((report.iterations, report.converged), (done, alone.converged));
        }
        match (alone.converged, case.until) {
            (Some(at), Some((_, true))) => prop_assert_eq!(done, at + 1),
            (Some(at), _) => prop_assert!(done > at && done <= case.iterations),
            (None, _) => prop_assert_eq!(done, case.iterations),
        }
        let result = Matrix::<T>::open(&path).unwrap();
        same(&values(&result), &data.plain(&kernel, done), case.shape.cols)?;
        let gathered = team(case.hosts, |me| {
            let sweep = case.sweep(kernel.clone());
            let result = vec![T::from_f64(-1.0); case.shape.elements()];
            let result = Matrix::from_vec(case.shape, result)?;
            let (result, report) = sweep.gather_on(me, &field, &coefficients, result)?;
            assert_eq!((report.bytes_written, report.converged), (0, alone.converged));
            Ok::<_, Error>((values(&result), report.iterations))
        });
        for result in gathered {
            let (result, done) = result.unwrap();
            same(&result, &data.plain(&kernel, done), case.shape.cols)?;
        }
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        prop_assert_eq!(files, on_file(&case.inputs, N) + 1, "no hidden file is left");
        Ok(true)
    }
}

/// Returns the number of inputs that are files.
fn on_file(places: &[Place], coefficients: usize) -> usize {
    (0..=coefficients).filter(|n| places[n % places.len()] != Place::Memory).count()
}

static RAN: AtomicU64 = AtomicU64::new(0);

proptest! {
    #![proptest_config(property(24))]

    #[test]
    fn a_team_has_the_bits_of_the_double_loop(case in case(), kernel in 0..KERNELS, float32: bool) {
        if with_kernel(&OnTeam(case), kernel, float32)? {
            RAN.fetch_add(1, Relaxed);
        }
    }
}

/// A mean of two neighbours that records how far its member knows the sweep to be.
struct Sees {
    monitor: Arc<Monitor>,
    most: Arc<AtomicU64>,
}

impl PointKernel<0> for Sees {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        self.most.fetch_max(self.monitor.done(), Relaxed);
        (at.west + at.east) * L::splat(0.5)
    }
}

/// The last piece of the first member in the last band waits for the values of the second member in
/// the band before, with which progress travels. By then only this piece of its own is missing, and
/// the second member has run a piece in each of four bands: with vectors of one value a band has at
/// most 64 of the 300 rows. Wider vectors may have two bands only, where messages take long.
#[test]
fn the_first_member_knows_the_progress_of_all() {
    for hosts in [(3, 1), (1, 3), (2, 2)].into_iter().take(cases(3) as usize) {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let seen = team(hosts, |me| {
            let shape = Shape::new(300, 1000);
            let field = Arc::new(Matrix::from_vec(shape, vec![1.0; shape.elements()]).unwrap());
            let (monitor, most) = (Arc::new(Monitor::new()), Arc::new(AtomicU64::new(0)));
            let kernel = Sees { monitor: Arc::clone(&monitor), most: Arc::clone(&most) };
            let sweep = Sweep::new(kernel).iterations(20).monitor(Arc::clone(&monitor));
            let sweep = sweep.lanes(Lanes::Scalar);
            let report = sweep.run_on(me, &field, &[], &target).unwrap();
            assert_eq!(monitor.done(), monitor.total());
            let bytes = (monitor.bytes(), report.bytes_read + report.bytes_written);
            (most.load(Relaxed), monitor.total(), bytes)
        });
        let of_others = seen[1].1;
        let (most, all, (moved, bytes)) = seen[0];
        assert_eq!(moved, bytes);
        // While it computes, it knows of more than its own updates.
        let own = all - of_others;
        assert!(most > own, "{most} of {own} and {of_others}");
    }
}

/// A mean of two neighbours that changes the time of a file when a part of the sweep is done.
struct Touches {
    monitor: Arc<Monitor>,
    file: PathBuf,
}

impl PointKernel<0> for Touches {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        if self.monitor.done() > 0 {
            let file = std::fs::File::options().write(true).open(&self.file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        }
        (at.west + at.east) * L::splat(0.5)
    }
}

#[test]
fn an_input_that_is_written_to_is_an_error_at_the_end_of_the_pass() {
    for hosts in [(1, 2), (2, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("u.npy");
        let shape = Shape::new(20, 300);
        let bytes = Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor).unwrap();
        let new = NewFile::create(&file, bytes).unwrap();
        drop(Matrix::<f64>::create(&new, true, shape, Layout::RowMajor).unwrap());
        new.commit().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let ends = team(hosts, |me| {
            let field = Arc::new(Matrix::<f64>::open(&file).unwrap());
            let monitor = Arc::new(Monitor::new());
            let kernel = Touches { monitor: Arc::clone(&monitor), file: file.clone() };
            let sweep = Sweep::new(kernel).iterations(20).depth(2).monitor(Arc::clone(&monitor));
            let error = sweep.run_on(me, &field, &[], &target).unwrap_err();
            (error.to_string(), monitor.done() < monitor.total())
        });
        for (error, before_the_last) in ends {
            assert!(error.contains("u.npy") && before_the_last, "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

/// One member runs an overlay where the other begins a sweep.
#[test]
fn another_collective_call_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::npy(folder.path().join("result.npy"));
    let results = team((1, 2), |me| {
        if me.rank() == 1 {
            let mut overlay = Overlay::new();
            let token = Location::plain("token", 0_u64);
            overlay.task("task", token.write(), |token, _| *token += 1);
            let mut overlay = overlay.check(Initial::Program).unwrap();
            return overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err().to_string();
        }
        let field = Arc::new(Matrix::from_vec(Shape::new(9, 99), vec![1.0; 9 * 99]).unwrap());
        let sweep = Sweep::new(Sor::gauss_seidel()).iterations(2);
        sweep.run_on(me, &field, &[], &target).unwrap_err().to_string()
    });
    let told = "rank 1: it makes another collective call where this member begins a sweep";
    assert_eq!(results[0], told);
    assert!(results[1].contains("rank 0"), "{}", results[1]);
}

/// Runs Gauss-Seidel over a matrix in memory; returns the errors of the members.
fn errors(
    hosts: (usize, usize),
    cols: usize,
    target: &Target,
    change: impl Fn(&Member, Sweep<Sor>) -> Sweep<Sor> + Sync,
) -> Vec<Option<String>> {
    let results = team(hosts, |me| {
        let shape = Shape::new(400, cols);
        let field = Arc::new(Matrix::from_vec(shape, vec![1.0; shape.elements()]).unwrap());
        let sweep = Sweep::new(Sor::gauss_seidel()).iterations(20).runner(Runner::pool(1));
        change(me, sweep).run_on(me, &field, &[], target)
    });
    results.into_iter().map(|result| result.err().map(|error| error.to_string())).collect()
}

#[test]
fn a_failure_of_one_member_ends_the_sweep_of_all_and_leaves_nothing() {
    for hosts in [(1, 3), (3, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let found = errors(hosts, 2000, &target, |me, sweep| {
            let monitor = Arc::new(Monitor::new());
            if me.rank() == 1 {
                monitor.cancel();
            }
            sweep.monitor(monitor)
        });
        for (rank, error) in found.into_iter().enumerate() {
            let error = error.unwrap();
            let told = "the sweep was cancelled in iteration 0";
            let of = if rank == 1 { "" } else { "rank 1: " };
            assert_eq!(error, format!("{of}{told}"));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// The message names the rank, what it did and the cause, and no task.
#[test]
fn a_panic_of_the_kernel_at_one_member_is_told_in_the_words_of_a_sweep() {
    for hosts in [(1, 3), (3, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let found = team(hosts, |me| {
            let field =
                Arc::new(Matrix::from_vec(Shape::new(150, 900), vec![1.0; 135_000]).unwrap());
            let breaks = me.rank() == 1;
            let hook = move || assert!(!breaks, "the kernel broke");
            let sweep = Sweep::new(Hooked::new(100_000, hook))
                .iterations(7)
                .runner(Runner::pool(1))
                .lanes(Lanes::Scalar);
            sweep.run_on(me, &field, &[], &target).unwrap_err().to_string()
        });
        let own = "the update of points panicked: the kernel broke";
        let told = format!("rank 1: {own}");
        assert_eq!(found, [told.as_str(), own, told.as_str()]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_one_member_cannot_do_is_an_error_of_all_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.npy");
    let (target, hosts) = (Target::npy(&path), (2, 1));
    let memory = errors(hosts, 900, &target, |me, sweep| {
        sweep.memory(if me.rank() == 1 { 100_000 } else { 1 << 30 })
    });
    let memory: Vec<String> = memory.into_iter().flatten().collect();
    assert!(memory[1].starts_with("the memory allowed for the sweep, 97.7 KiB, "), "{memory:?}");
    assert!(memory[1].ends_with("; allow each member at least that much"), "{memory:?}");
    assert_eq!(memory[0], format!("rank 1: {}", memory[1]));
    let narrow = errors((1, 8), 12, &target, |_, sweep| sweep);
    assert!(narrow.iter().flatten().all(|error| error.contains("the team has 8")), "{narrow:?}");
    assert!(memory.len() == 2 && narrow.iter().all(Option::is_some));
    assert!(!path.exists());
    assert_eq!(errors(hosts, 900, &target, |_, sweep| sweep), [None, None]);
    let taken = errors(hosts, 900, &target, |_, sweep| sweep);
    assert!(taken.iter().flatten().all(|error| error.contains("it is not replaced")), "{taken:?}");
    assert!(taken.iter().all(Option::is_some));
    let discard = target.leftovers(Leftovers::Discard);
    assert_eq!(errors(hosts, 900, &discard, |_, sweep| sweep), [None, None]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_result_of_another_shape_or_kind_is_an_error_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let (shape, other) = (Shape::new(99, 999), Shape::new(99, 998));
    let blocks = Layout::Blocked(Block::new(9, 9));
    let bytes = Matrix::<f64>::file_bytes(true, shape, Layout::RowMajor).unwrap();
    let new = NewFile::create(&folder.path().join("result.npy"), bytes).unwrap();
    let on_file = || Matrix::create(&new, true, shape, Layout::RowMajor);
    let what: [(&(dyn Fn() -> Matrix<f64> + Sync), &str); 3] = [
        (&|| Matrix::zeros(other, Layout::RowMajor).unwrap(), "99 x 998"),
        (&|| Matrix::zeros(shape, blocks).unwrap(), "a sweep in blocks is not available"),
        (&|| on_file().unwrap(), "a result that is not row-major in memory is not available"),
    ];
    for (wrong, text) in what {
        let texts = team((1, 2), |me| {
            let zeros = || Matrix::zeros(shape, Layout::RowMajor).unwrap();
            let result = if me.rank() == 1 { wrong() } else { zeros() };
            let sweep = Sweep::new(Sor::gauss_seidel()).iterations(20).runner(Runner::pool(1));
            let error = sweep.gather_on(me, &Arc::new(zeros()), &[], result).unwrap_err();
            error.to_string()
        });
        assert!(texts.iter().all(|found| found.contains(text)), "{texts:?}");
    }
}

#[test]
fn members_with_different_arguments_are_named() {
    type Change = fn(Sweep<Sor>) -> Sweep<Sor>;
    let changes: [(Change, &str); 3] = [
        (
            |sweep| sweep.iterations(30),
            "the number of iterations is 30 at rank 1, and 20 at rank 0",
        ),
        (|sweep| sweep.depth(3), "the depth is 3 at rank 1, and not given at rank 0"),
        (
            |_| Sweep::new(Sor::new(1.5).unwrap()).iterations(20).runner(Runner::pool(1)),
            "the result of the kernel is checksum",
        ),
    ];
    for (hosts, (change, what)) in
        [(1, 2), (2, 1)].into_iter().flat_map(|h| changes.map(|c| (h, c)))
    {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let change = |me: &Member, sweep| if me.rank() == 1 { change(sweep) } else { sweep };
        let found = errors(hosts, 2000, &target, change);
        for error in found {
            let error = error.expect("all members have the error");
            assert!(error.contains(what), "{error}");
            assert!(error.ends_with("give all members the same"), "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let folder = tempfile::tempdir().unwrap();
    let results = team((1, 2), |me| {
        let field = Arc::new(Matrix::from_vec(Shape::new(99, 999), vec![1.0; 99 * 999]).unwrap());
        let sweep = Sweep::new(Sor::gauss_seidel()).iterations(20).runner(Runner::pool(1));
        let target = Target::npy(folder.path().join(format!("result{}.npy", me.rank())));
        sweep.run_on(me, &field, &[], &target).map(|_| ())
    });
    for result in results {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the name of the output is result1.npy at rank 1"), "{error}");
    }
}

/// A mean of two neighbours that changes a byte of the hidden files, or removes them, when a part
/// of the sweep is done.
struct Damages {
    monitor: Arc<Monitor>,
    folder: PathBuf,
    /// The part of all pieces, in percent.
    part: u64,
    /// The position of the byte; `None` if the files are removed.
    offset: Option<u64>,
    once: Arc<Once>,
}

impl Damages {
    fn damage(&self) {
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            let Some(offset) = self.offset else {
                std::fs::remove_file(path).unwrap();
                continue;
            };
            let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
            // A direct write to a page that is not clean would be an error of the pass.
            file.sync_all().unwrap();
        }
    }
}

impl PointKernel<0> for Damages {
    const STENCIL: Stencil = Stencil::FIVE_POINT;

    fn update<L: Lane>(&self, at: Neighbours<L>, []: [L; 0]) -> L {
        let (done, total) = (self.monitor.done(), self.monitor.total());
        if total > 0 && 100 * done > self.part * total {
            // Members that come to this place meanwhile wait.
            self.once.call_once(|| self.damage());
        }
        (at.west + at.east) * L::splat(0.5)
    }
}

/// Runs a sweep in passes of 6 iterations, and changes the byte at `offset` of the hidden files, or
/// removes them, when `part` percent of it are done.
fn damaged(
    hosts: (usize, usize),
    (shape, iterations): (Shape, u64),
    (part, offset): (u64, Option<u64>),
) -> Vec<Result<SweepReport, Error>> {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::npy(folder.path().join("result.npy"));
    let once = Arc::new(Once::new());
    let ends = team(hosts, |me| {
        let values = (0..shape.elements()).map(|n| (n % 1013) as f64).collect();
        let field = Arc::new(Matrix::from_vec(shape, values).unwrap());
        let monitor = Arc::new(Monitor::new());
        let kernel = Damages {
            monitor: Arc::clone(&monitor),
            folder: folder.path().to_owned(),
            part,
            offset,
            once: Arc::clone(&once),
        };
        let sweep = Sweep::new(kernel).iterations(iterations).depth(6);
        let sweep = sweep.lanes(Lanes::Scalar).runner(Runner::pool(1)).monitor(monitor);
        sweep.run_on(me, &field, &[], &target)
    });
    assert!(once.is_completed(), "{hosts:?}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, usize::from(ends.iter().all(Result::is_ok)));
    ends
}

/// A byte of the first rows is changed when they have been written, near the end of a pass, and a
/// byte of the last rows before they are read, at the begin of a pass.
///
/// Both hold in every schedule. A pass has at least twelve bands, of at most 64 rows. A member is
/// in a band only when its host has written the band three before it, and is at most three bands
/// ahead of the other members of its host, and four of those of the next one. So with three
/// quarters of all pieces done, every host has written more than the first two bands. A host reads
/// at most three bands ahead of its members, and no member gets beyond the second band of a pass
/// before the byte is changed.
#[test]
#[ignore = "full: 30 teams of processes"]
fn a_changed_byte_between_two_passes_is_an_error_of_all() {
    let shape = Shape::new(700, 400);
    let seed = seed(7);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let header = Matrix::<f64>::header(true, shape).len() as u64;
    // Two or three passes of 6 iterations, or two and one of 1 iteration; the part of the sweep
    // after which a byte is changed, in percent; and the first row that may be changed.
    let runs = [(12, 40, 0), (12, 50, 600), (18, 60, 0), (18, 67, 600), (13, 60, 0)];
    let hosts = [(1, 1), (1, 3), (1, 6), (2, 1), (2, 2), (3, 1)];
    for (hosts, (iterations, part, from)) in
        hosts.into_iter().flat_map(|hosts| runs.map(|run| (hosts, run)))
    {
        let any = (random.below(100), random.below(shape.cols));
        let mut places = [(0, 0), (99, shape.cols - 1), any];
        places.rotate_left(random.below(3));
        for (row, column) in places.into_iter().take(cases(1) as usize) {
            let row = from + row;
            let offset = header + 8 * (row * shape.cols + column) as u64 + random.below(8_u64);
            let ends = damaged(hosts, (shape, iterations), (part, Some(offset)));
            let is_damage = |end: &Result<SweepReport, Error>| {
                matches!(end, Err(Error::Store(syncline_store::Error::Generation { .. })))
            };
            let found = ends.iter().any(is_damage);
            assert!(found, "{hosts:?}, row {row}, column {column}, after {part} %: {ends:?}");
            for end in ends {
                let told = end.unwrap_err().to_string();
                assert!(told.contains(".result.npy.syncline-"), "{told}");
                assert!(told.ends_with(", are damaged: their checksum differs"), "{told}");
                let numbers = told.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
                let numbers: Vec<usize> = numbers.map(|n| n.parse().unwrap_or(0)).collect();
                let [first, last, west, east] = numbers[numbers.len() - 4..] else { panic!() };
                assert!((first..=last).contains(&row), "row {row}: {told}");
                assert!((west..=east).contains(&column), "column {column}: {told}");
            }
        }
    }
}

/// Files that are removed in a pass end the run when the pass is over.
#[test]
fn a_removed_file_is_an_error_of_all() {
    let shape = Shape::new(300, 200);
    for (hosts, part) in [(1, 1), (1, 3), (2, 1)].into_iter().flat_map(|h| [10, 60].map(|p| (h, p)))
    {
        for end in damaged(hosts, (shape, 18), (part, None)) {
            let told = end.unwrap_err().to_string();
            let about = "was removed by another program before it was complete";
            assert!(told.contains(".result.npy.syncline-") && told.ends_with(about), "{told}");
        }
    }
}
