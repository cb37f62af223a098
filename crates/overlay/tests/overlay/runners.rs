//! Complete runs: the paper's 64 threads on 8 x 8 blocks, pools of any size, overlays that run
//! again, fixed numbers of iterations, and handles from outside on locations of a running overlay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use crate::common::{late, runners, within};
use syncline_overlay::{
    Checked, Initial, Location, Overlay, Runner, Step, Stop,
    access::{Read, Write},
    error::RunError,
    handle::post_all,
    run::RunReport,
};
use syncline_testkit::cases;

/// The number of blocks on a side, and of points on a side of a block.
const BLOCKS: usize = 8;
const POINTS: usize = 4;
const SIDE: usize = BLOCKS * POINTS;
/// The boundary value around the grid.
const EDGE: f64 = 1.0;

type Block = [[f64; POINTS]; POINTS];
type Around<'a> = [Option<&'a Block>; 4];

fn start(i: usize, j: usize) -> f64 {
    ((i * 31 + j * 17) % 101) as f64
}

/// Runs one Gauss-Seidel sweep of a block between the blocks above, left, right and below.
fn sweep(block: &mut Block, [up, left, right, down]: Around<'_>) {
    const LAST: usize = POINTS - 1;
    for i in 0..POINTS {
        for j in 0..POINTS {
            let n = if i > 0 { block[i - 1][j] } else { up.map_or(EDGE, |b| b[LAST][j]) };
            let w = if j > 0 { block[i][j - 1] } else { left.map_or(EDGE, |b| b[i][LAST]) };
            let e = if j < LAST { block[i][j + 1] } else { right.map_or(EDGE, |b| b[i][0]) };
            let s = if i < LAST { block[i + 1][j] } else { down.map_or(EDGE, |b| b[0][j]) };
            block[i][j] = 0.25 * (n + w + e + s);
        }
    }
}

fn blocks() -> Vec<Location<Block>> {
    let value = |t: usize, i, j| start(t / BLOCKS * POINTS + i, t % BLOCKS * POINTS + j);
    (0..BLOCKS * BLOCKS)
        .map(|t| {
            let block = std::array::from_fn(|i| std::array::from_fn(|j| value(t, i, j)));
            Location::new(format!("block {} {}", t / BLOCKS, t % BLOCKS), block)
        })
        .collect()
}

fn overlay(blocks: &[Location<Block>], initial: Initial) -> Checked<'static> {
    let mut overlay = Overlay::new();
    for t in 0..blocks.len() {
        let (i, j) = (t / BLOCKS, t % BLOCKS);
        let read = |there: bool, u: usize| there.then(|| blocks[u].read());
        let around = [
            read(i > 0, t.wrapping_sub(BLOCKS)),
            read(j > 0, t.wrapping_sub(1)),
            read(j + 1 < BLOCKS, t + 1),
            read(i + 1 < BLOCKS, t + BLOCKS),
        ];
        let body = |(block, around): (&mut Block, Around<'_>), _: &mut Step| sweep(block, around);
        overlay.task(format!("task {i} {j}"), (blocks[t].write(), around), body);
    }
    overlay.check(initial).unwrap()
}

/// Returns all points, row by row, as bits.
fn bits(blocks: &[Location<Block>]) -> Vec<u64> {
    let mut all = vec![0; SIDE * SIDE];
    for (t, block) in blocks.iter().enumerate() {
        let mut reader = block.reader();
        let block = reader.acquire().unwrap();
        for (p, value) in block.iter().flatten().enumerate() {
            let (i, j) = (t / BLOCKS * POINTS + p / POINTS, t % BLOCKS * POINTS + p % POINTS);
            all[i * SIDE + j] = value.to_bits();
        }
    }
    all
}

/// Runs the double loop over the whole grid; going block by block gives the same bits.
fn plain(iterations: usize) -> Vec<u64> {
    let mut grid: Vec<f64> = (0..SIDE * SIDE).map(|p| start(p / SIDE, p % SIDE)).collect();
    for _ in 0..iterations {
        for i in 0..SIDE {
            for j in 0..SIDE {
                let at =
                    |there: bool, i: usize, j: usize| if there { grid[i * SIDE + j] } else { EDGE };
                let n = at(i > 0, i.wrapping_sub(1), j);
                let w = at(j > 0, i, j.wrapping_sub(1));
                let e = at(j + 1 < SIDE, i, j + 1);
                let s = at(i + 1 < SIDE, i + 1, j);
                grid[i * SIDE + j] = 0.25 * (n + w + e + s);
            }
        }
    }
    grid.into_iter().map(f64::to_bits).collect()
}

#[test]
fn sixty_four_threads_and_all_pools_give_the_bits_of_the_double_loop() {
    within(|| {
        let expected = plain(25);
        for initial in [Initial::Program, Initial::Wave] {
            for runner in runners() {
                let blocks = blocks();
                let report =
                    overlay(&blocks, initial.clone()).run(runner, Stop::after(25)).unwrap();
                assert_eq!((report.iterations, report.steps), (25, 25 * 64));
                assert_eq!(bits(&blocks), expected, "{initial:?}, {runner:?}");
            }
        }
    });
}

#[test]
fn red_black_threads_and_pools_agree_with_each_other() {
    within(|| {
        let run = |runner| {
            let blocks = blocks();
            overlay(&blocks, Initial::MaxParallel).run(runner, Stop::after(25)).unwrap();
            bits(&blocks)
        };
        let expected = run(Runner::Threads);
        assert!(runners().into_iter().all(|runner| run(runner) == expected));
        assert_ne!(expected, plain(25));
    });
}

#[test]
fn an_overlay_that_has_ended_runs_again() {
    within(|| {
        let blocks = blocks();
        let mut overlay = overlay(&blocks, Initial::Wave);
        for (runner, iterations) in
            [(Runner::pool(2), 4), (Runner::Threads, 1), (Runner::pool(3), 8)]
        {
            assert_eq!(
                overlay.run(runner, Stop::after(iterations)).unwrap().iterations,
                iterations
            );
        }
        assert_eq!(bits(&blocks), plain(13));
    });
}

#[test]
fn every_task_does_the_asked_number_of_iterations() {
    within(|| {
        for runner in runners() {
            for n in [0, 1, 2, 17] {
                let blocks = blocks();
                let report = overlay(&blocks, Initial::Wave).run(runner, Stop::after(n)).unwrap();
                assert_eq!((report.iterations, report.steps), (n, 64 * n));
                assert_eq!((report.residuals.len(), report.converged), (0, None));
                assert_eq!(bits(&blocks), plain(n as usize), "{runner:?}, {n} iterations");
            }
        }
    });
}

/// Builds three cells in a row; each task adds its left neighbour, and the middle one counts as
/// well.
fn row(cells: &[Location<u64>; 3]) -> Checked<'static> {
    let [a, b, c] = cells;
    let mut overlay = Overlay::new();
    overlay.task("a", a.write(), |a, _| *a += 1);
    overlay.task("b", (b.write(), a.read()), |(b, a), step| {
        assert_eq!(*a, step.iteration() + 1);
        *b += 1;
    });
    overlay.task("c", (c.write(), b.read()), |(c, b), _| *c = c.wrapping_mul(31) + *b);
    overlay.check(Initial::Wave).unwrap()
}

fn cells() -> [Location<u64>; 3] {
    ["a", "b", "c"].map(|name| Location::new(name, 0))
}

#[test]
fn a_reader_from_outside_samples_and_changes_nothing() {
    const N: u64 = 3000;
    within(|| {
        let untouched = cells();
        row(&untouched).run(Runner::pool(1), Stop::after(N)).unwrap();
        let expected = *untouched[2].reader().acquire().unwrap();
        for runner in runners() {
            let cells = cells();
            let over = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let mut reader = cells[1].reader();
                    let mut last = 0;
                    while !over.load(Ordering::Relaxed) {
                        let now = *reader.acquire_until(late()).unwrap();
                        assert!((last..=N).contains(&now), "{now} after {last}");
                        last = now;
                    }
                });
                let report = row(&cells).run(runner, Stop::after(N));
                over.store(true, Ordering::Relaxed);
                assert_eq!(report.unwrap().steps, 3 * N);
            });
            assert_eq!(*cells[2].reader().acquire().unwrap(), expected, "{runner:?}");
        }
    });
}

/// An iterative reader from outside has a position in the order like any task.
#[test]
fn a_reader_from_outside_that_goes_round_sees_every_version_once() {
    const N: u64 = 500;
    within(|| {
        for runner in runners() {
            let cell = Location::new("cell", 0);
            let mut reader = cell.reader();
            reader.post(); // ahead of all tasks
            let (started, wait_for_start) = channel();
            let mut overlay = Overlay::new();
            overlay.task("pace", (), |(), _| {
                // The receiver listens for the first iteration only.
                let _ = started.send(());
            });
            overlay.task("writer", cell.write(), |n, _| *n += 1);
            let mut overlay = overlay.check(Initial::Program).unwrap();
            std::thread::scope(|s| {
                s.spawn(move || {
                    // Before the start, the reader would be alone in the queue, and be granted
                    // again at once.
                    wait_for_start.recv().unwrap();
                    for version in 0..=N {
                        let now = reader.acquire_until(late()).unwrap();
                        assert_eq!(*now, version);
                        now.next();
                    }
                });
                overlay.run(runner, Stop::after(N)).unwrap();
            });
        }
    });
}

/// A task from outside that posts all its requests in a single step must not stand ahead of a task
/// of the overlay at one location and behind it at another.
#[test]
fn a_reader_from_outside_over_two_locations_does_not_deadlock() {
    within(|| {
        for runner in [Runner::pool(1), Runner::pool(2), Runner::Threads] {
            let (a, b) = (Location::new("a", 0_u64), Location::new("b", 0_u64));
            let over = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let (mut x, mut y) = (a.reader(), b.reader());
                        post_all(&mut [&mut x, &mut y]);
                        let deadline = late();
                        let x = x.acquire_until(deadline).expect("no deadlock at 'a'");
                        let y = y.acquire_until(deadline).expect("no deadlock at 'b'");
                        assert_eq!(*x, *y, "one version of both");
                    }
                });
                let mut overlay = Overlay::new();
                overlay.task("both", (a.write(), b.write()), |(a, b), _| {
                    *a += 1;
                    *b += 1;
                });
                overlay
                    .check(Initial::Program)
                    .unwrap()
                    .run(runner, Stop::after(u64::from(cases(300_000))))
                    .unwrap();
                over.store(true, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn a_location_of_a_running_overlay_is_refused_to_another() {
    within(|| {
        for runner in [Runner::Threads, Runner::pool(2)] {
            let (free, taken) = (Location::new("free", 0), Location::new("taken", 0));
            let counting = |cells: &[&Location<i32>]| {
                let mut overlay = Overlay::new();
                for cell in cells {
                    overlay.task(cell.name(), cell.write(), |n, _| *n += 1);
                }
                overlay.check(Initial::Program).unwrap()
            };
            let (mut both, mut one) = (counting(&[&free, &taken]), counting(&[&free]));
            let (started, wait_for_start) = channel();
            let (go_on, wait_to_go_on) = channel();
            let mut holder = Overlay::new();
            holder.task("holder", taken.write(), move |n, _| {
                started.send(()).unwrap();
                wait_to_go_on.recv().unwrap();
                *n += 10;
            });
            let mut holder = holder.check(Initial::Program).unwrap();
            std::thread::scope(|s| {
                let running = s.spawn(move || holder.run(runner, Stop::after(1)));
                wait_for_start.recv().unwrap();
                for _ in 0..3 {
                    let error = both.run(runner, Stop::after(1)).unwrap_err();
                    assert!(matches!(&error, RunError::InUse { location } if location == "taken"));
                    assert_eq!(
                        error.to_string(),
                        "location 'taken' is in use: another overlay runs with it, or a handle has a request"
                    );
                    // The locations that the refused run had joined are free again.
                    one.run(runner, Stop::after(1)).unwrap();
                }
                go_on.send(()).unwrap();
                running.join().unwrap().unwrap();
            });
            both.run(runner, Stop::after(1)).unwrap();
            drop((both, one));
            assert_eq!((free.into_inner().unwrap(), taken.into_inner().unwrap()), (4, 11));
        }
    });
}

#[test]
fn tasks_that_ask_for_nothing_go_round_on_their_own() {
    within(|| {
        for runner in runners() {
            let counts: [AtomicU64; 3] = Default::default();
            let cell = Location::new("cell", 0);
            let mut overlay = Overlay::new();
            for count in &counts {
                overlay.task("alone", (), |(), step| {
                    assert_eq!(count.fetch_add(1, Ordering::Relaxed), step.iteration());
                });
            }
            let nothing: (Option<Write<i32>>, Vec<Read<i32>>) = (None, Vec::new());
            overlay.task("nothing", nothing, |(write, reads), _| {
                assert!(write.is_none() && reads.is_empty());
            });
            overlay.task("something", cell.write(), |n, _| *n += 1);
            let report =
                overlay.check(Initial::MaxParallel).unwrap().run(runner, Stop::after(50)).unwrap();
            assert_eq!((report.iterations, report.steps), (50, 250));
            assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 50));
            assert_eq!(*cell.reader().acquire().unwrap(), 50);
        }
    });
}

#[test]
fn a_pool_has_at_least_one_worker_and_at_most_one_for_each_task() {
    within(|| {
        for workers in [0, 1, 3, 64, usize::MAX] {
            let cells = cells();
            let report = row(&cells).run(Runner::pool(workers), Stop::after(40)).unwrap();
            assert_eq!(report.steps, 120, "{workers} workers");
        }
    });
}

#[test]
fn an_overlay_without_tasks_ends_at_once() {
    for runner in runners() {
        for stop in [Stop::after(5), Stop::after(u64::MAX), Stop::converged(1.0, 5)] {
            let report = Overlay::new().check(Initial::Wave).unwrap().run(runner, stop).unwrap();
            assert_eq!(report, RunReport::default());
        }
    }
}

/// A body may run another overlay.
#[test]
fn overlays_nest() {
    within(|| {
        for runner in runners() {
            let (outer_cell, inner_cell) = (Location::new("outer", 0), Location::new("inner", 0));
            let mut inner = Overlay::new();
            inner.task("inner", inner_cell.write(), |n, _| *n += 1);
            let mut inner = inner.check(Initial::Program).unwrap();
            let mut outer = Overlay::new();
            outer.task("outer", outer_cell.write(), |n, _| {
                *n += 1;
                inner.run(runner, Stop::after(3)).map(|_| ())
            });
            outer.check(Initial::Program).unwrap().run(runner, Stop::after(5)).unwrap();
            let value = |cell: &Location<i32>| *cell.reader().acquire().unwrap();
            assert_eq!((value(&outer_cell), value(&inner_cell)), (5, 15));
        }
    });
}
