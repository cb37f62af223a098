//! Sweeps over arrays on a team: what they refuse, and how they fail. The bits are compared in the
//! library's own tests.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::team::team;
use std::os::unix::fs::FileExt;
use syncline_fabric::Member;
use syncline_store::array::{Array, ArraySource};
use syncline_wave::{
    Described, Error, Runner, Sweep, SweepReport,
    monitor::Monitor,
    target::{Leftovers, Target},
};

const HEAT: &str = "
    name = 'heat'
    field = 'u'
    update = 'u = u + 0.2 * (old.n + old.s + old.e + old.w - 4 * u)'
";

fn parsed(text: &str) -> Described {
    Described::parse(text).unwrap()
}

fn numbers(rows: usize, cols: usize) -> Array {
    let value = |n: usize| (n % 1013) as f64;
    Array::from_vec(&[rows, cols], (0..rows * cols).map(value).collect()).unwrap()
}

const GAUSS_SEIDEL: &str = "
    name = 'gauss-seidel'
    field = 'u'
    update = 'u = (n + s + e + w) / 4'
";

/// Runs heat on a team, from memory; returns the errors of the members.
fn errors(
    hosts: (usize, usize),
    dims: (usize, usize),
    target: &Target,
    change: impl Fn(&Member, Sweep<Described>) -> Sweep<Described> + Sync,
) -> Vec<Option<String>> {
    errors_of(HEAT, hosts, dims, target, change)
}

/// Runs a kernel of one field on a team, from memory; returns the errors of the members.
fn errors_of(
    kernel: &str,
    hosts: (usize, usize),
    (rows, cols): (usize, usize),
    target: &Target,
    change: impl Fn(&Member, Sweep<Described>) -> Sweep<Described> + Sync,
) -> Vec<Option<String>> {
    let results = team(hosts, |me| {
        // Kernels of a matrix run over arrays as well.
        let sweep = Sweep::new(parsed(kernel)).iterations(20).depth(5).runner(Runner::pool(1));
        let field = ArraySource::Memory(numbers(rows, cols));
        change(me, sweep).run_arrays_on(me, &[field], &[], target)
    });
    results.into_iter().map(|result| result.err().map(|error| error.to_string())).collect()
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_failure_of_one_member_ends_the_sweep_of_all_and_leaves_nothing() {
    for (hosts, kernel) in [((1, 3), HEAT), ((3, 1), HEAT), ((1, 3), GAUSS_SEIDEL)] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let found = errors_of(kernel, hosts, (300, 200), &target, |me, sweep| {
            let monitor = Arc::new(Monitor::new());
            if me.rank() == 1 {
                monitor.cancel();
            }
            sweep.monitor(monitor)
        });
        for (rank, error) in found.into_iter().enumerate() {
            let of = if rank == 1 { "" } else { "rank 1: " };
            assert_eq!(error.unwrap(), format!("{of}the sweep was cancelled in iteration 0"));
        }
        assert_eq!(files(folder.path()), 0);
    }
}

#[test]
fn what_one_member_cannot_do_is_an_error_of_all_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.npy");
    let (target, hosts, dims) = (Target::npy(&path), (2, 1), (300, 200));
    let memory = errors(hosts, dims, &target, |me, sweep| {
        sweep.memory(if me.rank() == 1 { 10_000 } else { 1 << 30 })
    });
    let memory: Vec<String> = memory.into_iter().flatten().collect();
    assert!(memory[1].starts_with("the memory allowed for the sweep, 9.8 KiB, "), "{memory:?}");
    assert_eq!(memory[0], format!("rank 1: {}", memory[1]));
    let narrow = errors((1, 8), (7, 50), &target, |_, sweep| sweep);
    for error in &narrow {
        let error = error.as_ref().expect("all members have the error");
        assert!(error.contains("the team has 8") && error.contains("7 members"), "{error}");
    }
    let nothing = errors(hosts, dims, &target, |_, sweep| sweep.iterations(0));
    for error in &nothing {
        let error = error.as_ref().expect("all members have the error");
        assert!(error.starts_with("a sweep that updates nothing is not available"), "{error}");
    }
    assert_eq!(files(folder.path()), 0);
    assert_eq!(errors(hosts, dims, &target, |_, sweep| sweep), [None, None]);
    let taken = errors(hosts, dims, &target, |_, sweep| sweep);
    assert!(taken.iter().flatten().all(|error| error.contains("it is not replaced")), "{taken:?}");
    assert!(taken.iter().all(Option::is_some));
    let resume = target.clone().leftovers(Leftovers::Resume);
    let resumed = errors(hosts, dims, &resume, |_, sweep| sweep.iterations(30));
    let all = |text: &str, found: &[Option<String>]| {
        assert!(found.iter().flatten().all(|error| error.contains(text)), "{found:?}");
        assert!(found.iter().all(Option::is_some));
    };
    all("resuming is not available on a team", &resumed);
    let discard = target.leftovers(Leftovers::Discard);
    assert_eq!(errors(hosts, dims, &discard, |_, sweep| sweep), [None, None]);
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn columns_that_are_too_few_are_refused() {
    let sor = parsed(
        "
        name = 'both'
        fields = ['u', 'v']
        update = '''
        u = (u.n + u.s) / 2
        v = u - v
        '''
        ",
    );
    let results = team((1, 3), |me| {
        let arrays = [numbers(30, 20), numbers(30, 20)];
        let sweep = Sweep::new(sor.clone()).iterations(2);
        sweep.gather_arrays_on(me, &arrays, &[]).map(|_| ()).unwrap_err().to_string()
    });
    for error in results {
        assert!(
            error.starts_with("the data can be shared by 2 members, and the team has 3"),
            "{error}"
        );
    }
}

#[test]
fn members_with_different_arguments_are_named() {
    type Change = fn(Sweep<Described>) -> Sweep<Described>;
    let changes: [(Change, &str); 5] = [
        (
            |sweep| sweep.iterations(30),
            "the number of iterations is 30 at rank 1, and 20 at rank 0",
        ),
        (|sweep| sweep.depth(3), "the depth is 3 at rank 1, and 5 at rank 0"),
        (|sweep| sweep.until(0.5), "the tolerance is 0.5 at rank 1, and not given at rank 0"),
        (|sweep| sweep.exact_stop(true), "the exact stop is true at rank 1, and false at rank 0"),
        (
            |_| {
                let other = HEAT.replace("0.2", "0.25");
                Sweep::new(parsed(&other)).iterations(20).depth(5).runner(Runner::pool(1))
            },
            "the result of the kernel is checksum",
        ),
    ];
    for (hosts, (change, what)) in
        [(1, 2), (2, 1)].into_iter().flat_map(|h| changes.map(|c| (h, c)))
    {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let change = |me: &Member, sweep| if me.rank() == 1 { change(sweep) } else { sweep };
        for error in errors(hosts, (100, 50), &target, change) {
            let error = error.expect("all members have the error");
            assert!(error.contains(what), "{error}");
            assert!(error.ends_with("give all members the same"), "{error}");
        }
        assert_eq!(files(folder.path()), 0);
    }
    let results = team((1, 2), |me| {
        let arrays = [numbers(30 + me.rank(), 20)];
        let sweep = Sweep::new(parsed(HEAT)).iterations(2);
        sweep.gather_arrays_on(me, &arrays, &[]).map(|_| ()).unwrap_err().to_string()
    });
    for error in results {
        assert!(error.contains("the shape of the arrays is 31 x 20 at rank 1"), "{error}");
    }
}

/// A member that returns without its part is missed, and one that makes another call is named.
#[test]
fn a_member_that_does_something_else_is_named() {
    for kernel in [HEAT, GAUSS_SEIDEL] {
        let run = |me: &mut Member| {
            let sweep = Sweep::new(parsed(kernel)).iterations(9).depth(2);
            let outcome = sweep.gather_arrays_on(me, &[numbers(50, 400)], &[]);
            outcome.map(|_| ()).unwrap_err().to_string()
        };
        let results = team((1, 3), |me| match me.rank() {
            1 => "it has returned".to_owned(),
            _ => run(me),
        });
        assert!(results[0].contains("rank 1") && results[2].contains("rank 1"), "{results:?}");
        let results = team((1, 2), |me| match me.rank() {
            1 => format!("{:?}", me.gather(7)),
            _ => run(me),
        });
        let told = "rank 1: it makes another collective call where this member begins a sweep";
        assert_eq!(results[0], told);
    }
}

/// Updates of old values only, of which the members share the rows, and of new ones, of which they
/// share the columns.
const UPDATES: [&str; 2] = ["(old.n + old.s) / 2", "(n + s) / 2"];

/// A kernel whose function calls `hook` first, and returns its argument.
fn hooked(update: &str, hook: impl Fn() + Send + Sync + 'static) -> Described {
    let text = format!(
        "
        name = 'hooked'
        field = 'u'
        functions = ['same']
        update = 'u = same({update})'
        "
    );
    let code = move |arguments: &[&[f64]], results: &mut [f64]| {
        hook();
        results.copy_from_slice(arguments[0]);
    };
    parsed(&text).with_function("same", code).unwrap()
}

#[test]
fn a_panic_of_the_kernel_at_one_member_is_an_error_of_all() {
    for (hosts, update) in [(1, 3), (3, 1)].into_iter().zip(UPDATES.iter().cycle()) {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::npy(folder.path().join("result.npy"));
        let found = team(hosts, |me| {
            let monitor = Arc::new(Monitor::new());
            let (breaks, seen) = (me.rank() == 1, Arc::clone(&monitor));
            let kernel =
                hooked(update, move || assert!(!breaks || seen.done() < 2, "the kernel broke"));
            let sweep =
                Sweep::new(kernel).iterations(7).depth(2).monitor(monitor).runner(Runner::pool(1));
            let field = ArraySource::Memory(numbers(150, 90));
            sweep.run_arrays_on(me, &[field], &[], &target).unwrap_err().to_string()
        });
        for (rank, error) in found.iter().enumerate() {
            assert!(error.contains("the kernel broke"), "{error}");
            assert_eq!(error.starts_with("rank 1: "), rank != 1, "{error}");
        }
        assert_eq!(files(folder.path()), 0);
    }
}

/// Runs a kernel of one field from a file on two members, where that of the last member calls the
/// hook in the second pass.
fn in_second_pass(
    hosts: (usize, usize),
    update: &str,
    folder: &Path,
    hook: impl Fn() + Send + Sync + Clone + 'static,
) -> Vec<Result<SweepReport, Error>> {
    let file = folder.join("u.npy");
    numbers(400, 500).create(&file).unwrap().commit().unwrap();
    let target = Target::npy(folder.join("result.npy"));
    team(hosts, |me| {
        let monitor = Arc::new(Monitor::new());
        let (seen, last, hook) = (Arc::clone(&monitor), me.rank() + 1 == me.size(), hook.clone());
        let kernel = hooked(update, move || {
            if last && 2 * seen.done() >= seen.total() {
                hook();
            }
        });
        // Bands of few rows.
        let sweep = Sweep::new(kernel)
            .iterations(4)
            .depth(2)
            .memory(4 << 20)
            .monitor(monitor)
            .runner(Runner::pool(1));
        sweep.run_arrays_on(me, &[ArraySource::open(&file)?], &[], &target)
    })
}

#[test]
fn an_input_that_is_written_to_is_an_error_at_the_end_of_the_pass() {
    let kinds = [(1, 2), (2, 1)].into_iter().flat_map(|hosts| UPDATES.map(|of| (hosts, of)));
    for (hosts, update) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("u.npy");
        let touch = move || {
            let file = std::fs::File::options().write(true).open(&file).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
        };
        for result in in_second_pass(hosts, update, folder.path(), touch) {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("u.npy"), "{error}");
        }
        assert_eq!(files(folder.path()), 1);
    }
}

/// Another program takes the name of the second field while the sweep runs.
#[test]
fn no_field_appears_if_one_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("u.npy"), folder.path().join("v.npy"));
    let taken = second.clone();
    let code = move |arguments: &[&[f64]], results: &mut [f64]| {
        std::fs::write(&taken, "of another program").unwrap();
        results.copy_from_slice(arguments[0]);
    };
    for (hosts, old) in [((1, 2), "old."), ((2, 1), "old."), ((1, 2), "")] {
        let text = format!(
            "
            name = 'two'
            fields = ['u', 'v']
            functions = ['same']
            update = '''
            u = same({old}v.n)
            v = {old}u.s
            '''
            "
        );
        let kernel = parsed(&text).with_function("same", code.clone()).unwrap();
        let target = Target::npy(&first).and(&second);
        let results = team(hosts, |me| {
            let fields = [numbers(60, 50), numbers(60, 50)].map(ArraySource::Memory);
            let sweep = Sweep::new(kernel.clone()).iterations(6).depth(2);
            sweep.run_arrays_on(me, &fields, &[], &target).unwrap_err().to_string()
        });
        assert!(results.iter().all(|error| error.contains("v.npy")), "{results:?}");
        assert_eq!(files(folder.path()), 1, "only the file of the other program is there");
        std::fs::remove_file(&second).unwrap();
    }
}

/// The last row of the file that the second pass reads is changed before it is read.
#[test]
fn a_value_that_was_damaged_between_passes_is_an_error() {
    for update in UPDATES {
        is_damaged(update);
    }
}

fn is_damaged(update: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let damage = move || {
        for entry in std::fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with(".result.npy") {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                let end = file.metadata().unwrap().len();
                file.write_all_at(&[0x55; 64], end - 64).unwrap();
            }
        }
    };
    let results = in_second_pass((1, 2), update, folder.path(), damage);
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.unwrap_err().to_string();
        let (place, what) = ("to 399 of the first axis", "are damaged: their checksum differs");
        assert!(error.contains(place) && error.ends_with(what), "{error}");
        assert_eq!(error.starts_with("rank 1: "), rank == 0, "{error}");
    }
    assert_eq!(files(folder.path()), 1);
}
