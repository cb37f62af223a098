//! Bodies that fail, panic or leave: the other tasks end, or go on, and no task waits for a task
//! that is gone. Data that a panic may have left half-written is poisoned, and the error says so.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{Plan, Random, X, runners, seeds, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Step, Stop,
    access::Reads,
    error::{AcquireError, RunError, TaskError},
};

/// Returns the runners that certainly run two tasks at once.
fn two_at_once() -> [Runner; 2] {
    [Runner::Threads, Runner::pool(2)]
}

fn value<T: Copy>(location: &Location<T>) -> T {
    *location.reader().acquire().unwrap()
}

fn is_free<T>(location: &Location<T>) -> bool {
    matches!(location.writer().try_acquire(), Ok(Some(_)))
}

/// Builds a 4 x 4 grid whose tasks count in their cells; task 5 fails as given in iteration 3.
fn grid<'env>(
    cells: &[Location<u64>],
    fault: impl Fn(&mut Step) -> Result<(), TaskError> + Send + Copy + 'env,
) -> Overlay<'env> {
    let plan = Plan::grid(4, 4);
    let mut overlay = Overlay::new();
    for t in 0..plan.tasks.len() {
        let body = move |(mut mine, _): ([Option<&mut u64>; 6], Reads<'_, u64>),
                         step: &mut Step| {
            mine.iter_mut().flatten().for_each(|n| **n += 1);
            if t == 5 && step.iteration() == 3 { fault(step) } else { Ok(()) }
        };
        overlay.task(format!("t{t}"), plan.access(t, cells), body);
    }
    overlay
}

/// Checks the cells after task 5 ended in its iteration 3: each count differs by at most the
/// distance.
fn assert_ended(cells: &[Location<u64>]) {
    let distances = &Plan::grid(4, 4).distances()[5];
    for (cell, distance) in cells.iter().zip(distances) {
        let (done, distance) = (value(cell), distance.unwrap());
        assert!(done <= 4 + distance, "{cell:?} has {done}");
        assert!(is_free(cell), "{cell:?} is still held");
    }
}

#[test]
fn an_error_ends_the_run_and_names_the_task() {
    within(|| {
        for initial in [Initial::Program, Initial::Wave, Initial::MaxParallel] {
            for runner in runners() {
                let cells = Plan::grid(4, 4).cells(|_| 0);
                let mut overlay =
                    grid(&cells, |_| Err("disk full".into())).check(initial.clone()).unwrap();
                let error = overlay.run(runner, Stop::after(1000)).unwrap_err();
                assert_eq!(error.to_string(), "task 't5' failed in iteration 3: disk full");
                assert!(matches!(error, RunError::Failed { iteration: 3, .. }));
                assert_ended(&cells);
                // The overlay can run again, and fails again.
                let error = overlay.run(runner, Stop::after(1000)).unwrap_err();
                assert_eq!(error.to_string(), "task 't5' failed in iteration 3: disk full");
                assert_eq!(overlay.run(runner, Stop::after(3)).unwrap().steps, 48);
            }
        }
    });
}

#[test]
fn a_panic_ends_the_run_and_poisons_what_the_task_writes() {
    within(|| {
        for runner in runners() {
            let cells = Plan::grid(4, 4).cells(|_| 0);
            let mut overlay = grid(&cells, |step| panic!("at {}", step.iteration()))
                .check(Initial::Wave)
                .unwrap();
            let error = overlay.run(runner, Stop::after(1000)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "task 't5' panicked in iteration 3 at location 'l5': at 3"
            );
            let poisoned = AcquireError::Poisoned { location: "l5".into(), task: "t5".into() };
            assert_eq!(cells[5].reader().acquire().unwrap_err(), poisoned);
            assert_eq!(cells[5].writer().acquire().unwrap_err(), poisoned);
            assert_eq!(cells[5].writer().try_acquire().unwrap_err(), poisoned);
            for _ in 0..2 {
                let again = overlay.run(runner, Stop::after(1)).unwrap_err();
                assert!(matches!(&again, RunError::Poisoned { .. }));
                assert_eq!(again.to_string(), "location 'l5' was poisoned when 't5' panicked");
            }
            cells[5].clear_poison();
            assert_ended(&cells);
            assert_eq!(overlay.run(runner, Stop::after(3)).unwrap().steps, 48);
        }
    });
}

#[test]
fn a_panic_names_all_locations_that_the_task_writes_and_none_that_it_reads() {
    within(|| {
        for runner in runners() {
            let [a, b, c] = ["a", "b", "c"].map(|name| Location::new(name, 0));
            let mut overlay = Overlay::new();
            overlay.task("t", (a.write(), b.read(), c.write()), |_, _| -> Result<(), TaskError> {
                std::panic::panic_any(7_u8)
            });
            let error =
                overlay.check(Initial::Program).unwrap().run(runner, Stop::after(2)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "task 't' panicked in iteration 0 at locations 'a', 'c': no message"
            );
            assert!(a.reader().acquire().is_err() && c.reader().acquire().is_err());
            assert_eq!(value(&b), 0);
            // A panic of a task that writes nothing poisons nothing.
            let mut overlay = Overlay::new();
            overlay.task("reader", b.read(), |_, _| -> Result<(), TaskError> { panic!("x") });
            let error =
                overlay.check(Initial::Program).unwrap().run(runner, Stop::after(2)).unwrap_err();
            assert_eq!(error.to_string(), "task 'reader' panicked in iteration 0: x");
            assert_eq!(value(&b), 0);
        }
    });
}

/// Two tasks panic while both write. Only one panic is reported, but the data of both are poisoned.
#[test]
fn two_panics_at_once_poison_what_both_write() {
    within(|| {
        for runner in two_at_once() {
            let (a, b) = (Location::new("a", 0), Location::new("b", 0));
            let both = Barrier::new(2);
            let mut overlay = Overlay::new();
            for cell in [&a, &b] {
                overlay.task(cell.name(), cell.write(), |n, _| {
                    *n += 1;
                    both.wait();
                    assert_eq!(*n, 0, "half-written");
                });
            }
            let error =
                overlay.check(Initial::Program).unwrap().run(runner, Stop::after(2)).unwrap_err();
            assert!(matches!(error, RunError::Panicked { .. }), "{error}");
            assert!(a.reader().acquire().is_err(), "{runner:?}: 'a' is not poisoned");
            assert!(b.reader().acquire().is_err(), "{runner:?}: 'b' is not poisoned");
        }
    });
}

/// A panic after an error: the error is reported, and the panic still poisons.
#[test]
fn a_panic_after_an_error_still_poisons() {
    within(|| {
        for runner in two_at_once() {
            let (a, b) = (Location::new("a", 0), Location::new("b", 0));
            let both = Barrier::new(2);
            let mut overlay = Overlay::new();
            overlay.task("fails", a.write(), |_, _| {
                both.wait();
                Err::<(), _>("first")
            });
            overlay.task("panics", b.write(), |_, _| -> Result<(), TaskError> {
                both.wait();
                std::thread::sleep(Duration::from_millis(50)); // most likely after the error
                panic!("second")
            });
            overlay.check(Initial::Program).unwrap().run(runner, Stop::after(2)).unwrap_err();
            assert!(b.reader().acquire().is_err(), "{runner:?}: 'b' is not poisoned");
        }
    });
}

/// One task fails at once; the other never waits for it and would never end. Without the error the
/// run hangs.
fn fail_beside_a_busy_task(runner: Runner) {
    within(move || {
        let (a, b) = (Location::new("a", ()), Location::new("b", 0_u64));
        let mut overlay = Overlay::new();
        overlay.task("fails", a.write(), |_, _| Err::<(), _>("no"));
        overlay.task("goes on", b.write(), |n, _| *n += 1);
        overlay
            .check(Initial::Program)
            .unwrap()
            .run(runner, Stop::after(u64::MAX >> 2))
            .unwrap_err();
    });
}

#[test]
fn an_error_ends_independent_tasks_of_a_pool() {
    fail_beside_a_busy_task(Runner::pool(1));
    fail_beside_a_busy_task(Runner::pool(2));
}

#[test]
fn an_error_ends_independent_threads() {
    for _ in 0..20 {
        fail_beside_a_busy_task(Runner::Threads);
    }
}

/// The error raises the signals of all threads; a thread in its body grants to them afterwards.
#[test]
fn an_error_wakes_threads_that_are_granted_at_the_same_moment() {
    for _ in 0..20 {
        within(|| {
            let (a, b) = (Location::new("a", ()), Location::new("b", ()));
            let both = Barrier::new(2);
            let failed = AtomicBool::new(false);
            let mut overlay = Overlay::new();
            overlay.task("writer", b.write(), |_, _| {
                both.wait();
                while !failed.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
            for t in 0..50 {
                overlay.task(format!("reader {t}"), b.read(), |_, _| ());
            }
            overlay.task("fails", a.write(), |_, _| {
                both.wait();
                failed.store(true, Ordering::Release);
                Err::<(), _>("no")
            });
            let mut overlay = overlay.check(Initial::Program).unwrap();
            overlay.run(Runner::Threads, Stop::after(3)).unwrap_err();
        });
    }
}

/// A writer outside the overlay panics while the overlay runs: the next task to be granted gets the
/// error.
#[test]
fn a_panic_outside_is_told_to_the_tasks_of_a_running_overlay() {
    within(|| {
        for runner in runners() {
            let x = Location::new("x", 0);
            let mut outside = x.writer().named("outside");
            outside.post(); // ahead of the overlay
            let (started, wait_for_start) = channel();
            let mut overlay = Overlay::new();
            overlay.task("pace", (), move |(), _| {
                // The receiver is gone after the thread has panicked.
                let _ = started.send(());
            });
            overlay.task("user", x.write(), |x, _| *x += 1);
            let mut overlay = overlay.check(Initial::Program).unwrap();
            std::thread::scope(|s| {
                let panics = s.spawn(move || {
                    wait_for_start.recv().unwrap();
                    let mut x = outside.acquire().unwrap();
                    *x = 1000;
                    panic!("half-written");
                });
                let outcome = overlay.run(runner, Stop::after(3));
                assert!(panics.join().is_err());
                let error =
                    outcome.expect_err("the data of 'x' are in an unknown state").to_string();
                assert_eq!(
                    error, "location 'x' was poisoned when 'outside' panicked",
                    "{runner:?}"
                );
            });
        }
    });
}

#[test]
fn nobody_waits_for_a_task_that_has_left() {
    within(|| {
        for runner in runners() {
            let cells = Plan::grid(4, 4).cells(|_| 0);
            let leave = |step: &mut Step| {
                step.leave();
                Ok(())
            };
            let mut overlay = grid(&cells, leave).check(Initial::Wave).unwrap();
            for run in 1..=2 {
                let report = overlay.run(runner, Stop::after(200)).unwrap();
                assert_eq!((report.iterations, report.steps), (200, 15 * 200 + 4), "{runner:?}");
                for (t, cell) in cells.iter().enumerate() {
                    assert_eq!(value(cell), run * if t == 5 { 4 } else { 200 }, "{runner:?}");
                }
            }
        }
    });
}

/// Tasks leave at any time; the rest do all their iterations, in their previous order.
#[test]
fn tasks_leave_random_overlays_one_after_the_other() {
    within(|| {
        for seed in seeds(0, 60) {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 2..=10, 1..=6, 4);
            let lasts: Vec<u64> = plan.tasks.iter().map(|_| random.within(1..=40) as u64).collect();
            let mut expected: Vec<u64> = vec![0; plan.locations];
            for round in 0..40 {
                for t in (0..plan.tasks.len()).filter(|&t| round < lasts[t]) {
                    for (l, _) in plan.tasks[t].iter().filter(|r| r.1 == X) {
                        expected[*l] = expected[*l] * 3 % 1_000_003 + t as u64;
                    }
                }
            }
            for runner in runners() {
                let cells = plan.cells(|_| 0);
                let mut overlay = Overlay::new();
                for (t, &last) in lasts.iter().enumerate() {
                    let body = move |(mut mine, _): ([Option<&mut u64>; 6], Reads<'_, u64>),
                                     step: &mut Step| {
                        mine.iter_mut()
                            .flatten()
                            .for_each(|n| **n = **n * 3 % 1_000_003 + t as u64);
                        if step.iteration() + 1 == last {
                            step.leave();
                        }
                    };
                    overlay.task(format!("t{t}"), plan.access(t, &cells), body);
                }
                let report =
                    overlay.check(Initial::Wave).unwrap().run(runner, Stop::after(100)).unwrap();
                assert_eq!(report.steps, lasts.iter().sum::<u64>(), "seed {seed}, {runner:?}");
                assert_eq!(
                    report.iterations,
                    *lasts.iter().max().unwrap(),
                    "seed {seed}, {runner:?}"
                );
                let found: Vec<u64> = cells.iter().map(value).collect();
                assert_eq!(found, expected, "seed {seed}, {runner:?}");
            }
        }
    });
}

/// Errors at random moments, repeatedly: no thread is left running, and no request in a queue.
#[test]
fn failures_at_any_moment_leave_no_trace() {
    within(|| {
        let ran = AtomicU64::new(0);
        for seed in seeds(0, 150) {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 2..=10, 1..=6, 4);
            let (faulty, when) =
                (random.within(0..=plan.tasks.len() - 1), random.within(0..=5) as u64);
            let cells = plan.cells(|_| 0_u64);
            let mut overlay = Overlay::new();
            for t in 0..plan.tasks.len() {
                let ran = &ran;
                overlay.task(format!("t{t}"), plan.access(t, &cells), move |_, step| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    if t == faulty && step.iteration() == when { Err("no") } else { Ok(()) }
                });
            }
            let mut overlay = overlay.check(Initial::MaxParallel).unwrap();
            for runner in runners() {
                let error = overlay.run(runner, Stop::after(50)).unwrap_err();
                let expected = format!("task 't{faulty}' failed in iteration {when}: no");
                assert_eq!(error.to_string(), expected, "seed {seed}, {runner:?}");
                assert!(cells.iter().all(is_free), "seed {seed}, {runner:?}");
            }
        }
        assert!(ran.load(Ordering::Relaxed) > 0);
    });
}
