//! The compiled forms against the queues, on random overlays: the same bits, the same gaps, and
//! every run ends. Also the switch between the forms during a run, as handles from outside come and
//! go.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Plan, Random, X, late, mix, seeds, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Step, Stop,
    access::Reads,
    handle::post_all,
    run::{Interpreted, ReadyOrder, RunReport},
};
use syncline_testkit::cases;

const ROUNDS: u64 = 8;

/// The bits that a run leaves: for each location, and for each task.
type Bits = (Vec<u64>, Vec<u64>);

fn compiled(seed: u64) -> [Runner; 4] {
    let workers = 2 + (seed % 3) as usize;
    [
        Runner::pool(workers),
        Runner::Pool { workers: 1 + (seed % 2) as usize, order: ReadyOrder::DepthFirst },
        Runner::Static { workers },
        Runner::pool(1),
    ]
}

const QUEUES: Runner = Runner::Queues { workers: 2, order: ReadyOrder::Fifo };

/// Runs a plan whose bodies mix the values that they read into those that they write, and check the
/// distance of the other tasks' iterations.
fn run(
    plan: &Plan,
    initial: &Initial,
    runner: Runner,
    leave: &[u64],
    seed: u64,
) -> (Bits, RunReport) {
    let cells = plan.cells(|l| mix(l as u64, seed));
    let mut digests = vec![0_u64; plan.tasks.len()];
    let done: Vec<AtomicU64> = plan.tasks.iter().map(|_| AtomicU64::new(0)).collect();
    let gone: Vec<AtomicBool> = plan.tasks.iter().map(|_| AtomicBool::new(false)).collect();
    let mut overlay = Overlay::new();
    for (t, mine) in digests.iter_mut().enumerate() {
        let (done, gone, last) = (&done, &gone, leave[t]);
        let body = move |(mut written, read): ([Option<&mut u64>; 6], Reads<'_, u64>),
                         step: &mut Step| {
            let i = step.iteration();
            for u in (0..done.len()).filter(|&u| plan.conflict(t, u)) {
                let theirs = done[u].load(Ordering::Acquire);
                let apart = i.abs_diff(theirs) <= 1;
                assert!(apart || gone[u].load(Ordering::Acquire), "{t} at {i}, {u} at {theirs}");
            }
            if mix(seed ^ i, t as u64).is_multiple_of(9) {
                std::thread::yield_now();
            }
            let seen = written.iter().flatten().map(|w| **w).chain(read.iter().copied());
            *mine = seen.fold(mix(*mine, i), mix);
            for (place, cell) in (0..).zip(written.iter_mut().flatten()) {
                **cell = mix(*mine, place);
            }
            if i + 1 == last {
                gone[t].store(true, Ordering::Release);
                step.leave();
            }
            done[t].store(i + 1, Ordering::Release);
        };
        overlay.task(format!("t{t}"), plan.access(t, &cells), body);
    }
    let report = overlay.check(initial.clone()).unwrap().run(runner, Stop::after(ROUNDS)).unwrap();
    let cells = cells.into_iter().map(|c| c.into_inner().expect("the overlay is gone")).collect();
    ((cells, digests), report)
}

#[test]
fn compiled_and_interpreted_agree_on_3000_random_overlays() {
    within(|| {
        for seed in seeds(0, 3000) {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 1..=9, 1..=6, 5);
            let priorities: Vec<i64> =
                plan.tasks.iter().map(|_| random.within(0..=5) as i64).collect();
            let initials = [
                Initial::Program,
                Initial::Wave,
                Initial::MaxParallel,
                Initial::Priority(priorities),
            ];
            let initial = &initials[seed as usize % 4];
            // In a third of the overlays, tasks leave before the end.
            let lasts = |_| if seed % 3 == 0 { 1 + random.within(0..=12) as u64 } else { u64::MAX };
            let leave: Vec<u64> = plan.tasks.iter().map(lasts).collect();
            let (expected, over_queues) = run(&plan, initial, QUEUES, &leave, seed);
            assert_eq!(over_queues.interpreted, Some(Interpreted::ByRunner));
            assert_eq!(over_queues.interpreted_steps, over_queues.steps);
            for runner in compiled(seed) {
                let (found, report) = run(&plan, initial, runner, &leave, seed);
                assert_eq!(found, expected, "seed {seed}, {runner:?}");
                assert_eq!(
                    (report.steps, report.iterations),
                    (over_queues.steps, over_queues.iterations)
                );
                assert_eq!((report.interpreted, report.interpreted_steps), (None, 0));
            }
        }
    });
}

/// Handles from outside come and go during a run: they see states between two steps only, and the
/// bits are those of a run without them.
#[test]
fn a_run_changes_its_form_as_handles_come_and_go() {
    within(|| {
        // The scheduler decides how many of the runs meet a handle midway: long enough runs do.
        (0..).find(|&times| handles_come_and_go(60_000 << times)).unwrap();
    });
}

/// Returns whether some run of `n` iterations was both interpreted and compiled in parts.
fn handles_come_and_go(n: u64) -> bool {
    let cells = |_| [(); 3].map(|()| Location::new("cell", [0_u64; 2]));
    let run = |cells: &[Location<[u64; 2]>; 3], runner| {
        let mut overlay = Overlay::new();
        for i in 0..3 {
            let access = (cells[i].write(), cells[(i + 1) % 3].read());
            overlay.task(format!("t{i}"), access, move |(mine, next), step| {
                let value = mix(mine[0] ^ next[0], step.iteration());
                // A handle must never see the state between these two stores.
                mine[0] = value;
                mine[1] = !value;
            });
        }
        overlay.check(Initial::Wave).unwrap().run(runner, Stop::after(n)).unwrap()
    };
    let untouched = cells(());
    assert_eq!(run(&untouched, Runner::pool(2)).interpreted, None);
    let expected = untouched.map(|c| c.into_inner().unwrap());
    let (mut both, mut changed) = (0, 0);
    for (i, runner) in (0..u64::from(cases(8))).flat_map(compiled).enumerate() {
        let cells = cells(());
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            let outside = s.spawn(|| {
                let mut visits = 0;
                while !over.load(Ordering::Relaxed) {
                    let (mut x, mut y) = (cells[i % 3].reader(), cells[(i + 1) % 3].reader());
                    post_all(&mut [&mut x, &mut y]);
                    visits += 1;
                    if visits % 5 == 0 {
                        continue; // abandons the requests, granted or not
                    }
                    let seen = x.acquire_until(late()).unwrap();
                    assert!(*seen == [0; 2] || seen[0] == !seen[1], "half of a step: {seen:?}");
                    seen.next();
                    drop(y.acquire_until(late()).unwrap());
                    drop(x.acquire_until(late()).unwrap());
                    std::thread::sleep(Duration::from_micros(100 << (i % 4)));
                }
                visits
            });
            let report = run(&cells, runner);
            over.store(true, Ordering::Relaxed);
            assert!(outside.join().unwrap() > 0 || report.interpreted.is_none());
            if report.interpreted == Some(Interpreted::HandleAt("cell".to_owned())) {
                both += u64::from(report.interpreted_steps < report.steps);
                changed += 1;
            }
        });
        assert_eq!(cells.map(|c| c.into_inner().unwrap()), expected, "{runner:?}");
    }
    println!(
        "{changed} of 32 runs of {n} iterations were interpreted at times, {both} of them compiled at others"
    );
    both > 0
}

/// A handle posts before the start: the run begins over the queues, and is compiled after the
/// handle is gone.
#[test]
fn a_run_is_compiled_when_the_handle_that_was_there_first_is_gone() {
    within(|| {
        for runner in compiled(1) {
            let cell = Location::new("cell", 0_u64);
            let mut first = cell.writer();
            first.post();
            let mut overlay = Overlay::new();
            overlay.task("t", cell.write(), |n, _| *n += 1);
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let watch = overlay.watch();
            std::thread::scope(|s| {
                s.spawn(move || {
                    // Waits until the run has begun, behind the handle.
                    while watch
                        .snapshot()
                        .is_none_or(|snapshot| snapshot.locations[0].queue.len() < 2)
                    {
                        std::thread::yield_now();
                    }
                    *first.acquire().unwrap() = 1000;
                });
                let report = overlay.run(runner, Stop::after(100_000)).unwrap();
                assert_eq!(report.interpreted, Some(Interpreted::HandleAt("cell".to_owned())));
                assert!((1..100_000).contains(&report.interpreted_steps), "{report:?}");
            });
            assert_eq!(*cell.reader().acquire().unwrap(), 101_000);
        }
    });
}

/// At a location that no task writes, a reader is granted at once, as over the queues, also with
/// `try_acquire`, and the run stays compiled. A writer makes the run go over the queues, and is
/// granted after the readers before it.
#[test]
fn a_reader_gets_in_where_all_read() {
    within(|| {
        for (runner, writes) in
            compiled(2).into_iter().flat_map(|runner| [(runner, false), (runner, true)])
        {
            let (table, cell) = (Location::new("table", 7_u64), Location::new("cell", 0_u64));
            // Another reader is there before the run, and stays if no handle writes.
            let mut first = table.reader();
            let first = (!writes).then(|| first.acquire().unwrap());
            let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
            let mut overlay = Overlay::new();
            for t in 0..3 {
                overlay.task(format!("t{t}"), (table.read(), cell.write()), |(table, n), step| {
                    begun.store(true, Ordering::Relaxed);
                    *n += *table;
                    if over.load(Ordering::Relaxed) {
                        step.leave();
                    }
                });
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let visit = || {
                let (mut one, mut two, mut three) =
                    (table.reader(), table.reader(), table.writer());
                let (one, two) = (one.try_acquire().unwrap().unwrap(), two.acquire().unwrap());
                if writes {
                    three.post();
                }
                std::thread::sleep(Duration::from_micros(100));
                assert_eq!(*one + *two, 14);
                two.next();
                drop(one);
                if writes {
                    assert_eq!(*three.acquire().unwrap(), 7);
                }
            };
            std::thread::scope(|s| {
                s.spawn(|| {
                    while !begun.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    // With a writer only one visit: during it, and some time after, no request is
                    // granted at once.
                    (0..if writes { 1 } else { 20 }).for_each(|_| visit());
                    over.store(true, Ordering::Relaxed);
                });
                let report = overlay.run(runner, Stop::after(u64::MAX >> 2)).unwrap();
                let why = writes.then(|| Interpreted::HandleAt("table".to_owned()));
                assert_eq!(report.interpreted, why, "{runner:?}");
            });
            drop(first);
        }
    });
}

/// Tasks leave one after the other; each relays the turns of others.
#[test]
fn a_thousand_writers_leave_one_location() {
    within(|| {
        let tasks = 1000;
        let plan = Plan { locations: 1, tasks: vec![vec![(0, X)]; tasks] };
        let leave: Vec<u64> = (0..tasks as u64).map(|t| 1 + mix(t, 3) % (ROUNDS + 2)).collect();
        let (expected, over_queues) = run(&plan, &Initial::Program, QUEUES, &leave, 5);
        for runner in compiled(0) {
            let (found, report) = run(&plan, &Initial::Program, runner, &leave, 5);
            assert_eq!(found, expected, "{runner:?}");
            assert_eq!((report.steps, report.interpreted_steps), (over_queues.steps, 0));
        }
    });
}

/// A task that relays the turns of two others has left, and a fourth task runs independently for
/// long: the two do not wait for the fourth.
#[test]
fn whoever_waits_for_one_that_left_does_not_wait_for_others() {
    within(|| {
        for runner in compiled(0) {
            let (x, y) = (Location::new("x", 0_u64), Location::new("y", 0_u64));
            let done = AtomicBool::new(false);
            let mut overlay = Overlay::new();
            let ten = |n: &mut u64, step: &mut Step| {
                *n += 1;
                if step.iteration() == 9 {
                    done.store(true, Ordering::Relaxed);
                    step.leave();
                }
            };
            overlay.task("a", x.write(), ten);
            overlay.task("leaver", x.write(), |_, step| step.leave());
            overlay.task("b", x.write(), ten);
            overlay.task("busy", y.write(), |n, step| {
                *n += 1;
                if done.load(Ordering::Relaxed) {
                    step.leave();
                }
            });
            let mut overlay = overlay.check(Initial::Program).unwrap();
            // The run would practically never end if `busy` did not leave.
            overlay.run(runner, Stop::after(u64::MAX >> 2)).unwrap();
            drop(overlay);
            assert_eq!(x.into_inner().unwrap(), 20, "{runner:?}");
        }
    });
}

/// A handle that panics poisons a location that only a task which has left asked for: the run goes
/// on, as over the queues.
#[test]
fn what_nobody_asks_for_any_more_may_be_poisoned() {
    within(|| {
        for runner in compiled(1) {
            let (x, y) = (Location::new("x", 0_u64), Location::new("y", 0_u64));
            let (begun, poisoned) = (AtomicBool::new(false), AtomicBool::new(false));
            let mut until = u64::MAX;
            let mut overlay = Overlay::new();
            overlay.task("a", x.write(), |_, step| {
                begun.store(true, Ordering::Relaxed);
                step.leave();
            });
            overlay.task("b", y.write(), |n, step| {
                *n += 1;
                if until == u64::MAX && poisoned.load(Ordering::Relaxed) {
                    until = step.iteration() + 20_000;
                }
                if step.iteration() == until {
                    step.leave();
                }
            });
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let report = std::thread::scope(|s| {
                let fault = s.spawn(|| {
                    while !begun.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    let mut x = x.writer();
                    let guard = x.acquire().unwrap();
                    let guard = std::panic::AssertUnwindSafe(guard);
                    let panic = std::panic::catch_unwind(|| {
                        let _guard = guard;
                        std::panic::resume_unwind(Box::new("planned"))
                    });
                    poisoned.store(true, Ordering::Relaxed);
                    panic.map(|()| unreachable!("it panics"))
                });
                let report = overlay.run(runner, Stop::after(u64::MAX >> 2)).unwrap();
                assert!(fault.join().unwrap().is_err());
                report
            });
            assert!(report.interpreted_steps < report.steps, "{report:?}");
            assert!(x.reader().acquire().is_err(), "it is poisoned");
        }
    });
}

/// A location with many writers: the program does not grow with the square of their number.
#[test]
fn a_thousand_writers_of_one_location() {
    within(|| {
        let tasks = 1000;
        let plan = Plan { locations: 1, tasks: vec![vec![(0, X)]; tasks] };
        let never = vec![u64::MAX; tasks];
        let (expected, _) = run(&plan, &Initial::Program, QUEUES, &never, 5);
        for runner in compiled(0) {
            assert_eq!(run(&plan, &Initial::Program, runner, &never, 5).0, expected, "{runner:?}");
        }
    });
}
