//! Random overlays on random runners, while handles from outside come and go, and tasks leave, fail
//! or panic. Every run ends. A successful run leaves the bits of a run without handles; a failed
//! run returns its error, and can be run again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::polling::{block_on, poll};
use crate::common::{Plan, Random, late, mix, runners, seeds, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Step, Stop,
    access::Reads,
    error::RunError,
    handle::post_all,
    run::{ReadyOrder, RunReport},
};
use syncline_testkit::cases;

/// The fault of a task at the end of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
}

struct Case {
    plan: Plan,
    rounds: u64,
    /// For each task, the number of iterations after which it leaves.
    leave: Vec<u64>,
    /// A task, one of its iterations, and its fault there.
    fault: Option<(usize, u64, Fault)>,
    /// The residual of iteration i is 1 / (i + 1).
    tolerance: Option<f64>,
}

fn case(random: &mut Random) -> Case {
    let plan = Plan::random(random, 1..=12, 1..=6, 4);
    let rounds = random.within(1..=400) as u64;
    let n = plan.tasks.len();
    let converges = plan.diameter().is_some() && random.within(0..=3) == 0;
    let leaves = !converges && random.within(0..=1) == 0;
    let leave =
        (0..n).map(|_| if leaves { 1 + random.within(0..=400) as u64 } else { u64::MAX }).collect();
    let fault = (random.within(0..=2) == 0).then(|| {
        let kind = [Fault::Error, Fault::Panic][random.within(0..=1)];
        (random.within(0..=n - 1), random.within(0..=300) as u64, kind)
    });
    Case {
        plan,
        rounds,
        leave,
        fault,
        tolerance: converges.then(|| 1.0 / random.within(1..=500) as f64),
    }
}

type Bits = (Vec<u64>, Vec<u64>);

/// A handle from outside that comes and goes, and changes nothing.
fn visit(random: &mut Random, cells: &[Location<u64>], done: &AtomicBool) -> u64 {
    let mut visits = 0;
    while !done.load(Ordering::Relaxed) {
        let (a, b) = (random.within(0..=cells.len() - 1), random.within(0..=cells.len() - 1));
        let (mut x, mut y, mut w) = (cells[a].reader(), cells[b].reader(), cells[a].writer());
        match random.within(0..=7) {
            0 => x.post(),
            1 => drop(x.try_acquire()),
            2 => post_all(&mut [&mut x, &mut y]),
            3 => {
                post_all(&mut [&mut y, &mut w]);
                // In the order of the posts: both may be at the same location.
                drop(y.acquire());
                drop(w.acquire());
            }
            4 => {
                for _ in 0..3 {
                    if let Ok(guard) = x.acquire() {
                        guard.next();
                    }
                }
            }
            5 => drop(block_on(w.granted())),
            6 => {
                let waker = std::task::Waker::noop();
                let mut future = x.granted();
                let _ = poll(&mut future, waker);
            }
            _ => drop(w.acquire_until(late())),
        }
        drop((x, y, w));
        visits += 1;
        match random.within(0..=3) {
            0 => std::thread::yield_now(),
            1 => std::thread::sleep(Duration::from_micros(random.within(0..=200) as u64)),
            _ => {}
        }
    }
    visits
}

fn run(
    case: &Case,
    runner: Runner,
    visitors: usize,
    seed: u64,
) -> (Result<RunReport, RunError>, Option<Bits>, u64) {
    let cells = case.plan.cells(|l| mix(l as u64, seed));
    let mut digests = vec![0_u64; case.plan.tasks.len()];
    let fault = AtomicBool::new(case.fault.is_some());
    let mut overlay = Overlay::new();
    for (t, mine) in digests.iter_mut().enumerate() {
        let (last, fault) = (case.leave[t], &fault);
        let at = case.fault.filter(|f| f.0 == t);
        let body = move |(mut written, read): ([Option<&mut u64>; 6], Reads<'_, u64>),
                         step: &mut Step|
              -> Result<(), std::io::Error> {
            let i = step.iteration();
            let seen = written.iter().flatten().map(|w| **w).chain(read.iter().copied());
            *mine = seen.fold(mix(*mine, i), mix);
            for (place, cell) in (0..).zip(written.iter_mut().flatten()) {
                **cell = mix(*mine, place);
            }
            if mix(seed ^ i, t as u64).is_multiple_of(50) {
                std::thread::yield_now();
            }
            step.report(1.0 / (i + 1) as f64);
            if let Some((_, when, kind)) = at
                && i == when
                && fault.swap(false, Ordering::Relaxed)
            {
                match kind {
                    Fault::Error => return Err(std::io::Error::other("planned")),
                    Fault::Panic => std::panic::resume_unwind(Box::new("planned")),
                }
            }
            if i + 1 == last {
                step.leave();
            }
            Ok(())
        };
        overlay.task(format!("t{t}"), case.plan.access(t, &cells), body);
    }
    let mut overlay = overlay.check(Initial::Wave).unwrap();
    let stop = match case.tolerance {
        Some(tolerance) => Stop::converged(tolerance, case.rounds),
        None => Stop::after(case.rounds),
    };
    let done = AtomicBool::new(false);
    let visits = AtomicU64::new(0);
    let result = std::thread::scope(|s| {
        for v in 0..visitors {
            let (cells, done, visits) = (&cells, &done, &visits);
            s.spawn(move || {
                let mut random = Random::new(mix(seed, v as u64));
                visits.fetch_add(visit(&mut random, cells, done), Ordering::Relaxed);
            });
        }
        let result = overlay.run(runner, stop);
        if result.is_err() {
            cells.iter().for_each(Location::clear_poison);
            let again = overlay.run(runner, stop);
            assert!(again.is_ok(), "a run after a fault: {again:?}");
        }
        done.store(true, Ordering::Relaxed);
        result
    });
    drop(overlay);
    let whole = result.is_ok();
    let cells: Vec<u64> =
        cells.into_iter().map(|c| c.into_inner().expect("the overlay is gone")).collect();
    (result, whole.then_some((cells, digests)), visits.into_inner())
}

#[test]
fn whatever_happens_every_run_ends_as_it_would_alone() {
    within(|| {
        let (mut ok, mut failed, mut mixed, mut visits) = (0, 0, 0, 0);
        for seed in seeds(0, 1000) {
            let mut random = Random::new(seed);
            let case = case(&mut random);
            let reference = Runner::Queues { workers: 1, order: ReadyOrder::Fifo };
            let (expected, bits, _) = run(&case, reference, 0, seed);
            let all = runners();
            for _ in 0..2 {
                let runner = all[random.within(0..=all.len() - 1)];
                let visitors = random.within(0..=2);
                let (found, found_bits, n) = run(&case, runner, visitors, seed);
                visits += n;
                match (&expected, &found) {
                    (Ok(a), Ok(b)) => {
                        assert_eq!(
                            (a.iterations, a.steps),
                            (b.iterations, b.steps),
                            "seed {seed}, {runner:?}"
                        );
                        assert_eq!(
                            (&a.residuals, a.converged),
                            (&b.residuals, b.converged),
                            "seed {seed}, {runner:?}"
                        );
                        assert_eq!(bits, found_bits, "seed {seed}, {runner:?}");
                        mixed += u32::from((1..b.steps).contains(&b.interpreted_steps));
                        ok += 1;
                    }
                    (Err(a), Err(b)) => {
                        assert_eq!(a.to_string(), b.to_string(), "seed {seed}, {runner:?}");
                        failed += 1;
                    }
                    (a, b) => panic!("seed {seed}, {runner:?}: {a:?} and {b:?}"),
                }
            }
        }
        println!(
            "{ok} good runs, {mixed} of them in both forms, {failed} failed runs, {visits} visits"
        );
    });
}

/// Two overlays run one after the other over one location, each in a thread of its own: no request
/// that the first leaves stands ahead of the requests of the second.
#[test]
fn an_overlay_may_begin_where_another_has_just_ended() {
    let rounds = u64::from(cases(100));
    let after = move |runner| {
        let x = Location::new("x", 0_u64);
        let others: Vec<_> = (0..2000).map(|i| Location::new(format!("o{i}"), 0_u64)).collect();
        let (over, total) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut overlay = Overlay::new();
                overlay.task("b", x.write(), |n, _| *n += 1);
                let mut overlay = overlay.check(Initial::Program).unwrap();
                while !over.load(Ordering::Relaxed) {
                    match overlay.run(runner, Stop::after(2)) {
                        Ok(report) => total.fetch_add(report.steps, Ordering::Relaxed),
                        Err(RunError::InUse { .. }) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    // Now and then the other thread gets the location here even on one processor.
                    if total.load(Ordering::Relaxed) % 8 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut overlay = Overlay::new();
            overlay.task("a", x.write(), |n, _| *n += 1);
            for other in &others {
                overlay.task("o", other.write(), |n, _| *n += 1);
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            for _ in 0..rounds {
                while let Err(error) = overlay.run(Runner::pool(1), Stop::after(2)) {
                    assert!(matches!(error, RunError::InUse { .. }), "{error}");
                    std::thread::yield_now();
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(x.into_inner().unwrap(), total.into_inner() + 2 * rounds);
    };
    within(move || after(Runner::Queues { workers: 2, order: ReadyOrder::Fifo }));
    within(move || after(Runner::pool(2)));
}
