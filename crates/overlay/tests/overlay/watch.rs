//! Watched runs: snapshots while tasks move, and reports when nothing moves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{HANG, Plan, Random, runners, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Stop,
    error::RunError,
    snapshot::{RequestOwner, TaskState},
};

/// The time without a step after which a run counts as stuck. The expectations hold however slow
/// the machine is.
const PATIENCE: Duration = Duration::from_millis(60);

/// Builds two tasks with crossed orders.
fn crossed() -> Overlay<'static> {
    let (x, y) = (Location::new("x", ()), Location::new("y", ()));
    let mut overlay = Overlay::new();
    let a = overlay.task("a", (x.write(), y.write()), |_, _| ());
    let b = overlay.task("b", (x.write(), y.write()), |_, _| ());
    overlay.order(&x, [a, b]);
    overlay.order(&y, [b, a]);
    overlay
}

#[test]
fn a_deadlock_that_was_forced_past_the_check_is_reported_in_time() {
    within(|| {
        for runner in runners() {
            let mut overlay = crossed().unchecked(Initial::Program).unwrap();
            for _ in 0..2 {
                let error = overlay.run(runner, Stop::after(3), PATIENCE).unwrap_err();
                let RunError::Stuck(stuck) = &error else { panic!("{error}") };
                assert_eq!(stuck.deadlock().map(|cycle| cycle.len()), Some(2), "{runner:?}");
                let states = stuck.snapshot().states();
                assert_eq!(states, [TaskState::PartlyDelayed; 2], "{runner:?}");
                let text = error.to_string();
                for line in [
                    "nothing has moved for ",
                    "iteration 0, partly delayed for ",
                    " s: 'a' waits at 'y' for 'b'",
                    "a deadlock: 'a' waits at 'y' for 'b', 'b' waits at 'x' for 'a'",
                ] {
                    assert!(text.contains(line), "{text}");
                }
            }
        }
    });
}

/// Only some tasks deadlock, and the others end first.
#[test]
fn a_deadlock_of_a_part_is_reported_when_the_rest_has_ended() {
    within(|| {
        for runner in runners() {
            let cells = [(); 4].map(|()| Location::new("cell", ()));
            let mut overlay = Overlay::new();
            for (t, cell) in cells.iter().enumerate().skip(2) {
                overlay.task(format!("free {t}"), cell.write(), |(), _| ());
            }
            let a = overlay.task("a", (cells[0].write(), cells[1].write()), |_, _| ());
            let b = overlay.task("b", (cells[0].write(), cells[1].write()), |_, _| ());
            overlay.order(&cells[0], [a, b]);
            overlay.order(&cells[1], [b, a]);
            let mut overlay = overlay.unchecked(Initial::Program).unwrap();
            // Rarely, on a busy machine, the others have not ended by then.
            let stuck = loop {
                let error = overlay.run(runner, Stop::after(1000), PATIENCE).unwrap_err();
                let RunError::Stuck(stuck) = error else { panic!("{error}") };
                if stuck.snapshot().tasks.iter().all(|t| t.stopped || t.iteration == 0) {
                    break stuck;
                }
            };
            let stopped =
                stuck.snapshot().tasks.iter().filter(|t| t.stopped && t.iteration == 1000).count();
            assert_eq!(stopped, 2, "{runner:?}: {stuck}");
        }
    });
}

/// A panic in the run itself: the watcher ends too, and the next run is watched again.
#[test]
fn nobody_waits_for_a_watcher_when_a_run_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("planned"));
        }
    }
    within(|| {
        let armed = AtomicBool::new(true);
        let mut overlay = crossed();
        overlay.task("bomb", (), |_, _| {
            if armed.swap(false, Ordering::Relaxed) {
                std::panic::resume_unwind(Box::new(Bomb));
            }
        });
        let mut overlay = overlay.unchecked(Initial::Program).unwrap();
        let mut run = |patience| overlay.run(Runner::pool(1), Stop::after(1), patience);
        // The bomb goes off before the run counts as stuck.
        let first = std::panic::AssertUnwindSafe(|| run(HANG).is_ok());
        assert!(std::panic::catch_unwind(first).is_err());
        assert!(matches!(run(PATIENCE), Err(RunError::Stuck(_))));
    });
}

#[test]
fn an_unchecked_overlay_that_is_live_runs_to_its_end() {
    within(|| {
        for runner in runners() {
            let cell = Location::new("cell", 0);
            let mut overlay = Overlay::new();
            overlay.task("t", cell.write(), |n, _| *n += 1);
            let mut overlay = overlay.unchecked(Initial::Wave).unwrap();
            for run in 1..=2 {
                assert_eq!(overlay.run(runner, Stop::after(50), HANG).unwrap().steps, 50);
                assert_eq!(*cell.reader().acquire().unwrap(), 50 * run);
            }
        }
    });
}

/// Not a deadlock: a body waits for an event. The report shows which task runs, and the run goes
/// on.
#[test]
fn a_body_that_takes_long_is_reported_and_goes_on() {
    within(|| {
        for runner in runners() {
            let cell = Location::new("cell", 0);
            let (send, receive) = channel::<()>();
            let mut overlay = Overlay::new();
            overlay.task("slow", cell.write(), move |n, step| {
                if step.iteration() == 3 {
                    receive.recv_timeout(HANG).unwrap();
                }
                *n += 1;
            });
            overlay.task("reader", cell.read(), |_, _| ());
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let watch = overlay.watch();
            std::thread::scope(|s| {
                s.spawn(move || {
                    let stuck = loop {
                        let stuck = watch.stuck(PATIENCE);
                        if let Some(stuck) = stuck.filter(|s| s.snapshot().tasks[0].iteration == 3)
                        {
                            break stuck;
                        }
                    };
                    assert_eq!(stuck.deadlock(), None);
                    assert!(stuck.still() >= PATIENCE);
                    let snapshot = stuck.snapshot();
                    assert!(snapshot.tasks[0].running, "{stuck}");
                    assert_eq!(
                        (snapshot.tasks[0].iteration, snapshot.states()[1]),
                        (3, TaskState::Delayed)
                    );
                    let text = stuck.to_string();
                    assert!(text.contains("'slow' runs its iteration 3 for "), "{text}");
                    assert!(text.contains("'reader' waits at 'cell' for 'slow'"), "{text}");
                    send.send(()).unwrap();
                    assert_eq!(watch.stuck(HANG), None, "the run ends");
                    assert_eq!(watch.snapshot(), None);
                });
                assert_eq!(overlay.run(runner, Stop::after(10)).unwrap().steps, 20, "{runner:?}");
            });
        }
    });
}

/// A handle from outside that is not released appears in the queue.
#[test]
fn a_handle_that_holds_up_a_run_is_seen() {
    within(|| {
        for runner in runners() {
            let cell = Location::new("cell", 0);
            let mut outside = cell.reader();
            outside.post();
            let mut overlay = Overlay::new();
            overlay.task("writer", cell.write(), |n, _| *n += 1);
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let watch = overlay.watch();
            std::thread::scope(|s| {
                s.spawn(move || {
                    let stuck = loop {
                        if let Some(stuck) = watch.stuck(PATIENCE) {
                            break stuck;
                        }
                    };
                    let queue = &stuck.snapshot().locations[0].queue;
                    assert_eq!(
                        (queue[0].who, queue[0].granted, queue.len()),
                        (RequestOwner::Handle, true, 2)
                    );
                    assert!(
                        stuck.to_string().contains("'writer' waits at 'cell' for 'a handle'"),
                        "{stuck}"
                    );
                    drop(outside);
                });
                overlay.run(runner, Stop::after(10)).unwrap();
            });
        }
    });
}

/// Snapshots of running random overlays show no cycle, and over queues always an active task.
#[test]
fn snapshots_of_a_run_are_possible_states() {
    within(|| {
        let mut looked = 0;
        for (seed, runner) in (0..3).flat_map(|s| runners().into_iter().map(move |r| (s, r))) {
            let mut random = Random::new(seed);
            let plan = Plan::random(&mut random, 3..=10, 2..=6, 4);
            let cells = plan.cells(|_| 0_u64);
            let mut overlay = Overlay::new();
            for t in 0..plan.tasks.len() {
                overlay.task(format!("t{t}"), plan.access(t, &cells), |_, _| ());
            }
            let mut overlay = overlay.check(Initial::Wave).unwrap();
            let (watch, over) = (overlay.watch(), AtomicBool::new(false));
            std::thread::scope(|s| {
                let looker = s.spawn(|| {
                    let mut seen = 0;
                    while !over.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_micros(20));
                        let Some(snapshot) = watch.snapshot() else { continue };
                        seen += 1;
                        assert_eq!(snapshot.cycle(), None, "{snapshot:?}");
                        let all_stopped = snapshot.tasks.iter().all(|t| t.stopped);
                        let active = !snapshot.active().is_empty();
                        let exact = matches!(runner, Runner::Queues { .. } | Runner::Threads);
                        assert!(active || all_stopped || !exact, "{snapshot:?}");
                        for location in &snapshot.locations {
                            let granted = location.queue.iter().take_while(|r| r.granted).count();
                            assert!(
                                location.queue[granted..].iter().all(|r| !r.granted),
                                "{location:?}"
                            );
                            assert!(granted > 0 || location.queue.is_empty(), "{location:?}");
                        }
                    }
                    seen
                });
                overlay
                    .run(runner, Stop::after(if runner == Runner::Threads { 300 } else { 3000 }))
                    .unwrap();
                over.store(true, Ordering::Relaxed);
                looked += looker.join().unwrap();
            });
        }
        println!("{looked} snapshots");
    });
}
