//! Runs on a team: values, placement, errors, watches. Random overlays are compared with their runs
//! on threads by `syncline-conformance`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use syncline_fabric::{Member, Team};
use syncline_overlay::error::RunError;
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop, run::RunReport};
use syncline_sync::Fault;

use crate::common::{late, seeds, within};

/// Runs `f` in the members of a team on one host, and of one on two hosts.
fn teams<R: Send + 'static>(f: impl Fn(&mut Member) -> R + Sync + Send + 'static) -> Vec<Vec<R>> {
    within(move || {
        let one = Team::threads(4).quiet().run(&f).unwrap();
        let two = Team::hosts(2).processes(2).quiet().run(&f).unwrap();
        vec![one, two]
    })
}

fn run(me: &mut Member, overlay: Overlay<'_>, iterations: u64) -> Result<RunReport, RunError> {
    let mut overlay = overlay.check(Initial::Program).unwrap();
    overlay.run_on(me, Runner::pool(1), Stop::after(iterations))
}

#[test]
fn a_first_value_is_that_of_the_first_writer_and_all_users_get_the_final_value() {
    for results in teams(|me| {
        let cell = Location::slice("cell", [10 * me.rank() as u64, 1]);
        let constant = Location::plain("constant", 100 + me.rank() as u64);
        let seen = Mutex::new(Vec::new());
        let mut overlay = Overlay::new();
        let reader = overlay.task("reader", (cell.read(), constant.read()), |(cell, c), _| {
            seen.lock().unwrap().push((cell[0], *c));
        });
        let writer = overlay.task("writer", cell.write(), |cell, _| cell[0] += cell[1]);
        let other = overlay.task("other", constant.read(), |_, _| ());
        overlay.place(reader, 0);
        overlay.place(writer, 3);
        overlay.place(other, 1);
        run(me, overlay, 4).unwrap();
        (*cell.reader().acquire().unwrap()[..].first().unwrap(), seen.into_inner().unwrap())
    }) {
        // The reader stands before the writer, whose member has the first value; constants come
        // from the first reader.
        assert_eq!(results[0], (34, vec![(30, 100), (31, 100), (32, 100), (33, 100)]));
        assert_eq!(results[3].0, 34);
        assert_eq!((results[1].0, results[2].0), (10, 20), "members without a task keep theirs");
    }
}

#[test]
fn an_overlay_runs_again_and_locations_are_usable_in_between() {
    for results in teams(|me| {
        let cell = Location::plain("cell", 0_u64);
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            overlay.task(format!("task {rank}"), cell.write(), |cell, _| *cell += 1);
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let mut totals = Vec::new();
        for _ in 0..3 {
            let report = overlay.run_on(me, Runner::pool(2), Stop::after(5)).unwrap();
            assert_eq!((report.iterations, report.steps), (5, 20));
            totals.push(*cell.reader().acquire().unwrap());
            *cell.writer().acquire().unwrap() += 100;
        }
        totals
    }) {
        assert_eq!(results, vec![vec![20, 140, 260]; 4]);
    }
}

#[test]
fn data_of_one_member_may_be_of_any_type() {
    for results in teams(|me| {
        let mut logs: Vec<_> = (0..me.size())
            .map(|rank| Location::new(format!("log {rank}"), String::new()))
            .collect();
        let mut overlay = Overlay::new();
        for (rank, log) in logs.iter().enumerate() {
            overlay.task(format!("task {rank}"), log.write(), |log, step| {
                log.push_str(&step.iteration().to_string());
            });
        }
        run(me, overlay, 3).unwrap();
        logs.swap_remove(me.rank())
    }) {
        let text = |log: Location<String>| log.reader().acquire().unwrap().clone();
        assert_eq!(results.into_iter().map(text).collect::<Vec<_>>(), ["012"; 4]);
    }
}

#[test]
fn data_that_cannot_be_copied_stay_in_one_member() {
    for results in teams(|me| {
        let text = Location::new("text", String::new());
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            overlay.task(format!("task {rank}"), text.write(), |_, _| ());
        }
        run(me, overlay, 1).unwrap_err().to_string()
    }) {
        let expected = "location 'text' is used by tasks of ranks 0 and 1, and its data cannot be \
                        copied between members: make it a location of a plain value, of a slice of \
                        them, or of a serialisable value, or place these tasks in one member";
        assert_eq!(results, vec![expected; 4]);
    }
}

#[test]
fn settings_that_a_team_does_not_have_are_refused() {
    for results in teams(|me| {
        let cell = Location::plain("cell", 0);
        let mut overlay = Overlay::new();
        let task = overlay.task("task", cell.write(), |_, _| ());
        overlay.place(task, 3);
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let converged = overlay.run_on(me, Runner::pool(1), Stop::converged(0.1, 9)).unwrap_err();
        let threads = overlay.run_on(me, Runner::Threads, Stop::after(1)).unwrap_err();
        let mut far = Overlay::new();
        let task = far.task("task", cell.write(), |_, _| ());
        far.place(task, 4);
        let nowhere = run(me, far, 1).unwrap_err();
        // The team is as it was.
        overlay.run_on(me, Runner::pool(1), Stop::after(2)).unwrap();
        [converged, threads, nowhere].map(|error| error.to_string())
    }) {
        let expected = [
            "a convergence test is not available in a run on a team: use a number of iterations",
            "a runner other than a pool is not available in a run on a team: use a pool of workers",
            "task 'task' is placed in rank 4; the team has the ranks 0 to 3",
        ];
        assert_eq!(results, vec![expected.map(str::to_owned); 4]);
    }
}

#[test]
fn a_member_that_cannot_run_stops_all_others() {
    for results in teams(|me| {
        let cell = Location::plain("cell", 0);
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            overlay.task(format!("task {rank}"), cell.write(), |_, _| ());
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let mut writer = cell.writer();
        let guard = (me.rank() == 2).then(|| writer.acquire().unwrap());
        let used = overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap_err();
        drop(guard);
        overlay.run_on(me, Runner::pool(1), Stop::after(1)).unwrap();
        used.to_string()
    }) {
        let used =
            "location 'cell' is in use: another overlay runs with it, or a handle has a request";
        let elsewhere = format!("rank 2: {used}");
        assert_eq!(results, [&*elsewhere, &elsewhere, used, &elsewhere]);
    }
}

#[test]
fn the_first_difference_of_two_plans_is_named() {
    for results in teams(|me| {
        let (cell, other) = (Location::plain("cell", 0), Location::plain("other", 0));
        let mut overlay = Overlay::new();
        for n in 0..20 {
            let odd = me.rank() == 2 && n == 13;
            let access = (cell.write(), odd.then(|| other.read()));
            overlay.task(format!("task {n}"), access, |_, _| ());
        }
        // A location that only one member has.
        let error = run(me, overlay, 1).unwrap_err().to_string();
        let mut overlay = Overlay::new();
        for n in 0..20 {
            let name = if me.rank() == 3 && n == 11 { "twelve".to_owned() } else { n.to_string() };
            overlay.task(name, cell.read(), |_, _| ());
        }
        [error, run(me, overlay, 1).unwrap_err().to_string()]
    }) {
        let expected = [
            "the overlays differ: rank 0 has 20 tasks and 1 locations; rank 2 has 20 tasks and 2 \
             locations",
            "the overlays differ: rank 0 has task '11' in rank 2, which reads 'cell'; rank 3 has \
             task 'twelve' in rank 2, which reads 'cell'",
        ];
        assert_eq!(results, vec![expected.map(str::to_owned); 4]);
    }
}

#[test]
fn a_member_that_returns_early_ends_the_runs_of_others() {
    for results in teams(|me| {
        if me.rank() == 1 {
            return None;
        }
        let cell = Location::plain("cell", 0);
        let mut overlay = Overlay::new();
        overlay.task("task", cell.write(), |_, _| ());
        Some(run(me, overlay, 1).unwrap_err())
    }) {
        for (rank, error) in results.into_iter().enumerate() {
            let left = matches!(error, Some(RunError::Fault(Fault::Left { rank: 1 })));
            assert!(left || rank == 1, "{rank}: {error:?}");
        }
    }
}

#[test]
fn a_member_that_does_something_else_is_named() {
    for results in teams(|me| {
        if me.rank() == 1 {
            return Err(me.wait().unwrap_err().to_string());
        }
        let cell = Location::plain("cell", 0);
        let mut overlay = Overlay::new();
        overlay.task("task", cell.write(), |_, _| ());
        run(me, overlay, 1).map_err(|error| error.to_string())
    }) {
        for result in results {
            let error = result.unwrap_err();
            assert!(error.contains("rank 1 is in member wait"), "{error}");
        }
    }
}

#[test]
fn a_panic_poisons_the_location_in_all_members() {
    for results in teams(|me| {
        let cells: Vec<_> = (0..4).map(|n| Location::plain(format!("cell {n}"), 0)).collect();
        let mut overlay = Overlay::new();
        for n in 0..4 {
            let access = (cells[n].write(), cells[(n + 1) % 4].read());
            overlay.task(format!("task {n}"), access, move |_, step| {
                if n == 2 && step.iteration() == 3 {
                    std::panic::resume_unwind(Box::new("quietly"));
                }
            });
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let error = overlay.run_on(me, Runner::pool(1), Stop::after(9)).unwrap_err().to_string();
        let again = overlay.run_on(me, Runner::pool(1), Stop::after(9)).unwrap_err().to_string();
        let poisoned = cells.iter().map(|cell| cell.reader().acquire().is_err()).collect();
        cells.iter().for_each(Location::clear_poison);
        (error, again, poisoned, me.rank())
    }) {
        for (error, again, poisoned, rank) in results {
            let of: Vec<bool> = poisoned;
            assert_eq!(of, [false, false, true, false], "rank {rank}");
            let here = "task 'task 2' panicked in iteration 3 at location 'cell 2': quietly";
            let said = if rank == 2 { here.to_owned() } else { format!("rank 2: {here}") };
            assert_eq!(error, said);
            assert_eq!(again, "location 'cell 2' was poisoned when 'task 2' panicked");
        }
    }
}

/// The wait for a task of another member.
const HELD_UP: &str = "'task 0' waits at 'cell' for 'task 3'";

#[test]
fn a_watch_shows_tasks_of_all_members() {
    let all_have_seen_it = std::sync::Barrier::new(4);
    for results in teams(move |me| {
        let cell = Location::plain("cell", 0);
        let release = Arc::new(Mutex::new(()));
        let mut overlay = Overlay::new();
        for rank in 0..me.size() {
            let release = Arc::clone(&release);
            let held = me.rank() == 3;
            overlay.task(format!("task {rank}"), cell.write(), move |_, step| {
                if rank == 3 && held && step.iteration() == 5 {
                    drop(release.lock().unwrap());
                }
            });
        }
        let mut overlay = overlay.check(Initial::Program).unwrap();
        let watch = overlay.watch();
        let held = release.lock().unwrap();
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                // A run that has not begun is no finding. Neither is one of which a task waits long
                // for another one, on a busy machine.
                let late = late();
                while Instant::now() < late {
                    let stuck = watch.stuck(Duration::from_millis(900));
                    let stuck = stuck.map(|stuck| stuck.to_string());
                    if stuck.as_ref().is_some_and(|stuck| stuck.contains(HELD_UP)) {
                        return stuck;
                    }
                }
                None
            });
            let running =
                scope.spawn(|| overlay.run_on(me, Runner::pool(1), Stop::after(9)).map(|_| ()));
            let stuck = watcher.join().unwrap();
            all_have_seen_it.wait();
            drop(held);
            running.join().unwrap().unwrap();
            stuck
        })
    }) {
        for (rank, stuck) in results.into_iter().enumerate() {
            assert!(stuck.is_some(), "rank {rank} has not seen that {HELD_UP}");
        }
    }
}

/// The third host receives versions of the first writer only. Its last reception, which no task
/// awaits any more, must not replace the final value of the second writer.
///
/// The other location has a long final value, so that the third host waits for it while the last
/// reception is on its way.
fn a_late_reception(len: usize, other: usize) {
    use syncline_fabric::transport::in_memory::Conditions;
    let jitter = Duration::from_micros(400);
    let team = move |seed| {
        let conditions = Conditions { latency: Duration::from_micros(20), jitter, seed };
        let team = Team::hosts(3).threads(1).quiet().conditions(conditions);
        let bad = team.run(move |me| {
            let cell = Location::slice("cell", vec![0_u64; len]);
            let far = Location::slice("far", vec![0_u64; other]);
            let add = |cell: &mut [u64]| cell.iter_mut().for_each(|n| *n += 1);
            let mut overlay = Overlay::new();
            let leaves = |last: u64, step: &mut syncline_overlay::Step| {
                if step.iteration() == last {
                    step.leave();
                }
            };
            let tasks = [
                (
                    0,
                    overlay.task("first", cell.write(), |cell, step| {
                        add(cell);
                        leaves(0, step);
                    }),
                ),
                // It uses the slot after the first writer, whose data leave a copy therefore.
                (0, overlay.task("near", cell.read(), |_, step| leaves(0, step))),
                (2, overlay.task("reader", cell.read(), |_, step| leaves(0, step))),
                (
                    1,
                    overlay.task("second", cell.write(), |cell, step| {
                        add(cell);
                        leaves(9, step);
                    }),
                ),
                (1, overlay.task("first far", far.write(), |_, step| leaves(0, step))),
                (2, overlay.task("reader far", far.read(), |_, step| leaves(0, step))),
                (1, overlay.task("second far", far.write(), |_, step| leaves(0, step))),
            ];
            for (rank, task) in tasks {
                overlay.place(task, rank);
            }
            let mut overlay = overlay.check(Initial::Program).unwrap();
            let mut bad = Vec::new();
            for _ in 0..7 {
                overlay.run_on(me, Runner::pool(1), Stop::after(100)).unwrap();
                let mut handle = cell.writer();
                let mut value = handle.acquire().unwrap();
                bad.extend(value.iter().find(|&&value| value != 11).copied());
                value.fill(0);
            }
            bad
        });
        bad.unwrap()
    };
    let bad: Vec<Vec<u64>> = within(move || seeds(0, 20).flat_map(team).collect());
    assert!(bad.iter().all(Vec::is_empty), "wrong final values, not 11, by member: {bad:?}");
}

#[test]
fn a_late_reception_of_short_data_does_not_replace_the_final_value() {
    a_late_reception(1, 1);
}

#[test]
fn a_late_reception_of_long_data_does_not_replace_the_final_value() {
    a_late_reception(5000, 150_000);
}
