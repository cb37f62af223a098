//! Futures of grants in executors: both kinds of tokio's, and a minimal one. Tasks, threads and a
//! running overlay share one queue; tasks race, are aborted, or panic.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;

use crate::common::polling::{block_on, poll};
use crate::common::{Random, late, within};
use syncline_overlay::{
    Initial, Location, Overlay, Runner, Stop,
    error::AcquireError,
    handle::{Exclusive, Guard, Writer, post_all},
    run::ReadyOrder,
};
use syncline_testkit::{cases, seed};
use tokio::runtime::{Builder, Runtime};

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().build().unwrap(),
        Builder::new_multi_thread().worker_threads(3).build().unwrap(),
    ]
}

/// Polls `future` at most `times` times, yielding to others in between, and drops it if it is not
/// ready.
async fn polled<F: Future + Unpin>(mut future: F, times: usize) -> Option<F::Output> {
    for _ in 0..times {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(poll(&mut future, cx.waker()))).await
        {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Returns the output of the future that is ready first and drops the other. Polls `a` first.
async fn race<A: Future + Unpin, B: Future + Unpin>(
    mut a: A,
    mut b: B,
) -> Result<A::Output, B::Output> {
    poll_fn(|cx| match poll(&mut a, cx.waker()) {
        Poll::Ready(a) => Poll::Ready(Ok(a)),
        Poll::Pending => poll(&mut b, cx.waker()).map(Err),
    })
    .await
}

/// Requests are posted in a known order; half of them are awaited by tasks, half acquired by
/// threads.
#[test]
fn tasks_that_await_and_threads_that_block_stand_in_one_queue() {
    const REQUESTS: usize = 200;
    for runtime in runtimes() {
        within(move || {
            let x = Location::new("x", Vec::new());
            let mut first = x.writer();
            let held = first.acquire_until(late()).unwrap();
            let mut handles: Vec<_> = (0..REQUESTS).map(|_| x.writer()).collect();
            handles.iter_mut().for_each(Writer::post);
            let mut handles: Vec<_> = handles.into_iter().enumerate().collect();
            Random::new(7).shuffle(&mut handles);
            thread::scope(|s| {
                let mut tasks = Vec::new();
                for (i, mut handle) in handles {
                    if i % 2 == 0 {
                        s.spawn(move || handle.acquire_until(late()).unwrap().push(i));
                    } else {
                        tasks.push(
                            runtime.spawn(async move { handle.granted().await.unwrap().push(i) }),
                        );
                    }
                }
                drop(held);
                runtime.block_on(async {
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            });
            assert_eq!(
                *x.reader().acquire_until(late()).unwrap(),
                (0..REQUESTS).collect::<Vec<_>>()
            );
        });
    }
}

/// Four tasks and two threads alternate; guards are held while other tasks run.
#[test]
fn iterative_tasks_and_threads_go_round_in_order() {
    let rounds = cases(1000) as usize;
    for runtime in runtimes() {
        within(move || {
            let x = Location::new("x", 0);
            let mut handles: Vec<_> = (0..6).map(|_| x.writer()).collect();
            handles.iter_mut().for_each(Writer::post);
            thread::scope(|s| {
                let mut tasks = Vec::new();
                for (i, mut handle) in handles.into_iter().enumerate() {
                    if i % 3 == 0 {
                        s.spawn(move || {
                            for round in 0..rounds {
                                let mut n = handle.acquire_until(late()).unwrap();
                                assert_eq!(*n, 6 * round + i);
                                *n += 1;
                                n.next();
                            }
                        });
                    } else {
                        tasks.push(runtime.spawn(async move {
                            for round in 0..rounds {
                                let mut n = handle.granted().await.unwrap();
                                assert_eq!(*n, 6 * round + i);
                                tokio::task::yield_now().await;
                                *n += 1;
                                n.next();
                            }
                        }));
                    }
                }
                runtime.block_on(async {
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            });
            assert_eq!(*x.reader().acquire_until(late()).unwrap(), 6 * rounds);
        });
    }
}

/// Tasks that are polled a few times, race, or are aborted abandon requests at random, beside
/// threads. No granted request is lost.
#[test]
fn futures_dropped_at_any_moment_hold_up_nobody() {
    let (seed, rounds) = (seed(0), cases(3000));
    println!("seed {seed}");
    for runtime in runtimes() {
        within(move || {
            let cells = [Location::new("x", 0_u64), Location::new("y", 0_u64)];
            let written = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            // No await separates the two additions, so both are done or none.
            let write =
                |written: &[AtomicU64; 2], cell: usize, n: &mut Guard<'_, u64, Exclusive>| {
                    **n += 1;
                    written[cell].fetch_add(1, Ordering::Relaxed);
                };
            let tasks: Vec<_> = (0..5)
                .map(|task| {
                    let (cells, written) = (cells.clone(), Arc::clone(&written));
                    runtime.spawn(async move {
                        let mut random = Random::stream(seed, task);
                        let [mut x, mut y] = cells.each_ref().map(Location::writer);
                        let mut reader = cells[0].reader();
                        for _ in 0..rounds {
                            match random.within(0..=5) {
                                0 => write(&written, 0, &mut x.granted().await.unwrap()),
                                1 => {
                                    if let Some(n) = polled(x.granted(), random.within(0..=3)).await
                                    {
                                        let mut n = n.unwrap();
                                        write(&written, 0, &mut n);
                                        n.next();
                                    }
                                }
                                2 => match race(x.granted(), y.granted()).await {
                                    Ok(n) => write(&written, 0, &mut n.unwrap()),
                                    Err(n) => write(&written, 1, &mut n.unwrap()),
                                },
                                3 => {
                                    // The task is aborted while it waits, holds, or has posted
                                    // again.
                                    let mut own = cells[random.within(0..=1)].writer();
                                    let task = tokio::spawn(async move {
                                        for _ in 0..3 {
                                            let n = own.granted().await.unwrap();
                                            tokio::task::yield_now().await;
                                            n.next();
                                        }
                                    });
                                    for _ in 0..random.within(0..=3) {
                                        tokio::task::yield_now().await;
                                    }
                                    task.abort();
                                }
                                4 => drop(polled(reader.granted(), random.within(0..=2)).await),
                                _ => {
                                    x.abandon();
                                    let mut n = y.granted().await.unwrap();
                                    write(&written, 1, &mut n);
                                    tokio::task::yield_now().await;
                                }
                            }
                            // The request that `next` posted must not be held while the other cell
                            // is awaited.
                            x.abandon();
                        }
                    })
                })
                .collect();
            thread::scope(|s| {
                for (cell, location) in cells.iter().enumerate() {
                    let (mut handle, written) = (location.writer(), &written);
                    s.spawn(move || {
                        for _ in 0..rounds {
                            write(written, cell, &mut handle.acquire_until(late()).unwrap());
                        }
                    });
                }
                runtime.block_on(async {
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            });
            // Aborted tasks may not have finished yet.
            for (cell, written) in cells.iter().zip(&*written) {
                let total = *cell.reader().acquire_until(late()).unwrap();
                assert_eq!(total, written.load(Ordering::Relaxed));
                assert!(cell.writer().acquire_until(late()).is_ok());
            }
        });
    }
}

#[test]
fn the_loser_of_a_race_is_skipped() {
    let (x, y) = (Location::new("x", 0), Location::new("y", 0));
    let mut busy = x.writer();
    busy.post();
    let (mut a, mut b, mut behind) = (x.writer(), y.writer(), x.writer());
    let won = block_on(race(a.granted(), b.granted()));
    behind.post();
    assert!(won.is_err());
    drop(busy);
    assert!(behind.try_acquire().unwrap().is_some());
}

#[test]
fn a_panic_of_a_task_that_holds_poisons_and_those_who_await_are_told() {
    for runtime in runtimes() {
        within(move || {
            let x = Location::new("x", 0);
            let (mut bad, mut waits, mut waits_too) =
                (x.writer().named("painter"), x.writer(), x.reader());
            bad.post();
            waits.post();
            let waiting = runtime.spawn(async move { waits.granted().await.map(|n| *n) });
            let painter = runtime.spawn(async move {
                let mut n = bad.granted().await.unwrap();
                tokio::task::yield_now().await;
                *n = 7;
                panic!("half-painted");
            });
            let poisoned = AcquireError::Poisoned { location: "x".into(), task: "painter".into() };
            runtime.block_on(async {
                assert_eq!(waiting.await.unwrap(), Err(poisoned.clone()));
                assert!(painter.await.unwrap_err().is_panic());
                assert_eq!(waits_too.granted().await.map(|n| *n), Err(poisoned));
                x.clear_poison();
                assert_eq!(waits_too.granted().await.map(|n| *n), Ok(7));
            });
        });
    }
}

#[test]
fn a_reader_that_panics_and_a_writer_that_is_aborted_poison_nothing() {
    for runtime in runtimes() {
        within(move || {
            let x = Location::new("x", 0);
            let (mut reader, mut writer, mut last) = (x.reader(), x.writer(), x.writer());
            post_all(&mut [&mut reader, &mut writer, &mut last]);
            let holds = Arc::new(AtomicBool::new(false));
            runtime.block_on(async {
                let panics = tokio::spawn(async move {
                    let _n = reader.granted().await.unwrap();
                    panic!("only reading");
                });
                assert!(panics.await.is_err());
                let there = Arc::clone(&holds);
                let aborted = tokio::spawn(async move {
                    let _n = writer.granted().await.unwrap();
                    there.store(true, Ordering::Release);
                    std::future::pending::<()>().await;
                });
                while !holds.load(Ordering::Acquire) {
                    tokio::task::yield_now().await;
                }
                aborted.abort();
                assert_eq!(last.granted().await.map(|n| *n), Ok(0));
                assert!(aborted.await.unwrap_err().is_cancelled());
            });
        });
    }
}

/// A task with a handle iterates among the tasks of a running overlay, whose releases call its
/// waker.
#[test]
fn a_task_from_outside_takes_its_turns_in_a_running_overlay() {
    const TURNS: u64 = 400;
    let depth_first = Runner::Pool { workers: 2, order: ReadyOrder::DepthFirst };
    for runner in [Runner::pool(1), Runner::pool(2), depth_first, Runner::Threads] {
        for runtime in runtimes() {
            within(move || {
                let (x, y) = (Location::new("x", 0), Location::new("y", 0_u64));
                let mut outside = x.writer();
                outside.post(); // ahead of the overlay
                let mut overlay = Overlay::new();
                overlay.task("left", (x.write(), y.read()), |(x, _), _| *x += 1);
                overlay.task("right", (y.write(), x.read()), |(y, _), _| *y += 1);
                let (clock, started) = (Location::new("clock", ()), AtomicBool::new(false));
                overlay.task("clock", clock.write(), |_, _| started.store(true, Ordering::Release));
                let mut overlay = overlay.check(Initial::Program).unwrap();
                thread::scope(|s| {
                    let run = s.spawn(|| overlay.run(runner, Stop::after(2 * TURNS)).unwrap());
                    while !started.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    let task = runtime.spawn(async move {
                        for turn in 0..TURNS {
                            let mut n = outside.granted().await.unwrap();
                            assert_eq!(*n % 1000, turn % 1000, "behind each turn of the left one");
                            *n += 1_000_000;
                            n.next();
                        }
                    });
                    runtime.block_on(task).unwrap();
                    assert_eq!(run.join().unwrap().iterations, 2 * TURNS);
                });
                drop(overlay);
                assert_eq!(
                    *x.reader().acquire_until(late()).unwrap(),
                    TURNS * 1_000_000 + 2 * TURNS
                );
            });
        }
    }
}
