//! Workers that solve several systems.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use syncline_farm::Program;
use syncline_solve::codec::Codec;
use syncline_solve::decompose::Decomposer;
use syncline_solve::parallel::{Scheme, Solver};
use syncline_solve::solve::run;
use syncline_solve::{Mode, Poly, Solution, SolveError, Source, System, polynomial, solve};
use syncline_testkit::cases;

use crate::has_flint;

fn solver() -> Solver {
    let program = Some(Program::new(env!("CARGO_BIN_EXE_syncline-solve")));
    Solver { workers: 2, program, factor: true, ..Solver::default() }
}

/// A system, and a polynomial that is not to vanish.
fn system(text: &str, nonzero: &str) -> (System, Vec<Poly>) {
    let source = Source::read(text).unwrap();
    let system = source.system(source.names()).unwrap();
    let nonzero = polynomial(&system.ring, nonzero).unwrap();
    (system, vec![nonzero])
}

fn alone((system, nonzero): &(System, Vec<Poly>)) -> Solution {
    solve(&system.ring, &system.equations, nonzero, Mode::Kalkbrener, true)
}

const SYSTEMS: [(&str, &str); 6] = [
    (include_str!("../systems/eco6.txt"), "1"),
    (include_str!("../systems/ubikker.txt"), "1"),
    ("vars x y z\n prime 101\n x*y - z\n x*z - y", "x"),
    ("vars x y z\n prime 101\n x*y - z\n x*z - y", "1"),
    ("vars a\n prime 2\n a^4 + a\n a^2 + a", "1"),
    (include_str!("../systems/nooburg4.txt"), "1"),
];

#[test]
fn workers_solve_one_system_after_the_other() {
    if !has_flint() {
        return;
    }
    let systems = SYSTEMS.map(|(text, nonzero)| system(text, nonzero));
    let expected = systems.each_ref().map(alone);
    // Each scheme and each codec is among the first three pairs.
    let schemes = [Scheme::Farmed, Scheme::Forked, Scheme::Stolen];
    let codecs = [Codec::Kronecker, Codec::Terms, Codec::Flat];
    let pairs = (0..9).map(|n| (schemes[n % 3], codecs[(n + n / 3) % 3]));
    for (scheme, codec) in pairs.take(cases(24) as usize) {
        let mut workers = Solver { scheme, codec, ..solver() }.start().unwrap();
        let mut started = 0;
        // Each system twice in turn, and all of them twice.
        for at in (0..4 * systems.len()).map(|n| n / 2 % systems.len()) {
            let (System { ring, equations, .. }, nonzero) = &systems[at];
            let solved = workers.solve(ring, equations, nonzero, |_| ());
            let (solution, report) = solved.unwrap();
            assert_eq!(solution, expected[at], "{scheme:?}, {codec:?}");
            assert!(report.effort.steps > 0 && report.lost == 0, "{report:?}");
            started += report.workers;
        }
        // A worker that waits for a task that it has forked is replaced by another process.
        assert!(started <= 2 || scheme == Scheme::Forked, "{started} workers were started");
        workers.finish();
    }
}

#[test]
fn the_system_after_a_panic_has_new_workers() {
    if !has_flint() {
        return;
    }
    let (small, nonzero) = system(SYSTEMS[0].0, "1");
    let (large, _) = system(include_str!("../systems/classics/eco9.txt"), "1");
    let mut workers = solver().start().unwrap();
    // A machine may solve the large system before the first report.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        workers.solve(&large.ring, &large.equations, &[], |_| panic!("a progress bar fails"))
    }));
    let solved = workers.solve(&small.ring, &small.equations, &nonzero, |_| ());
    assert_eq!(solved.unwrap().0, alone(&(small, nonzero)));
}

#[test]
#[ignore = "full: 14 s of computing"]
fn progress_is_that_of_the_present_system() {
    if !has_flint() {
        return;
    }
    let (large, _) = system(include_str!("../systems/classics/eco9.txt"), "1");
    let mut workers = solver().start().unwrap();
    let decomposer = Decomposer::new(&large.ring, &large.equations, &[]);
    let mut steps = 0;
    let _ = run(&decomposer, decomposer.first(), &mut |progress| steps = progress.done + 1);
    for _ in 0..3 {
        let solved = workers.solve(&large.ring, &large.equations, &[], |progress| {
            // Sections of components count as well, but they are fewer than the steps.
            assert!(progress.done <= 2 * steps, "{progress:?}");
        });
        assert!(solved.is_ok());
    }
}

#[test]
#[ignore = "full: it solves a large system four times, 7 s"]
fn the_system_after_a_failure_has_new_workers() {
    if !has_flint() {
        return;
    }
    let small = system(SYSTEMS[0].0, "1");
    let (large, _) = system(include_str!("../systems/classics/eco9.txt"), "1");
    let expected = alone(&small);
    let no_memory = Solver { worker_memory: 10 << 20, ..solver() };
    let no_time = Solver { timeout: Some(Duration::ZERO), ..solver() };
    for (solver, fails) in [(&no_memory, "a task cannot be done"), (&no_time, "")] {
        let mut workers = solver.start().unwrap();
        for _ in 0..2 {
            let error = workers.solve(&large.ring, &large.equations, &[], |_| ()).unwrap_err();
            match error {
                SolveError::TimedOut => assert_eq!(fails, ""),
                error => assert!(!fails.is_empty() && error.to_string().contains(fails), "{error}"),
            }
            if !fails.is_empty() {
                let (System { ring, equations, .. }, nonzero) = &small;
                let (solution, report) = workers.solve(ring, equations, nonzero, |_| ()).unwrap();
                assert_eq!(solution, expected);
                assert!(report.workers > 0, "{report:?}");
            }
        }
    }
}
