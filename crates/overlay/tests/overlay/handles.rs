//! Handles without an overlay: strict order, requests that are abandoned while they wait or hold,
//! deadlines, posts over several locations, and poison.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Random, late, within};
use syncline_overlay::{
    Location,
    error::AcquireError,
    handle::{Post, Reader, Writer, post_all},
};
use syncline_testkit::{cases, seed};

fn past() -> Instant {
    Instant::now()
}

#[test]
fn nobody_overtakes() {
    let x = Location::new("x", 0);
    let (mut r1, mut w, mut r2) = (x.reader(), x.writer(), x.reader());
    r1.post();
    w.post();
    r2.post();
    assert!(w.try_acquire().unwrap().is_none());
    assert!(r2.try_acquire().unwrap().is_none(), "a reader does not join past a waiting writer");
    let held = r1.try_acquire().unwrap().expect("the first one");
    assert!(x.reader().try_acquire().unwrap().is_none(), "nor does a new one");
    drop(held);
    drop(w.try_acquire().unwrap().expect("then the writer"));
    drop(r2.try_acquire().unwrap().expect("then the second reader"));
}

#[test]
fn neighbouring_readers_share() {
    let x = Location::new("x", 5);
    let (mut r1, mut r2) = (x.reader(), x.reader());
    let mut w = x.writer();
    r1.post();
    r2.post();
    w.post();
    let (a, b) = (r1.acquire_until(late()).unwrap(), r2.acquire_until(late()).unwrap());
    assert_eq!((*a, *b), (5, 5));
    drop(a);
    assert!(w.try_acquire().unwrap().is_none());
    drop(b);
    *w.acquire_until(late()).unwrap() = 6;
    assert_eq!(*r1.acquire_until(late()).unwrap(), 6);
}

#[test]
fn a_handle_dropped_while_it_waits_is_skipped() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), x.writer());
    w1.post();
    w2.post();
    w3.post();
    let held = w1.acquire_until(late()).unwrap();
    drop(w2); // does not wait for the holder
    assert!(w3.try_acquire().unwrap().is_none());
    drop(held);
    assert!(w3.try_acquire().unwrap().is_some());
}

#[test]
fn a_writer_dropped_between_readers_joins_them() {
    let x = Location::new("x", 0);
    let (mut r1, mut w, mut r2, mut r3) = (x.reader(), x.writer(), x.reader(), x.reader());
    r1.post();
    w.post();
    r2.post();
    r3.post();
    let _held = r1.acquire_until(late()).unwrap();
    drop(w);
    assert!(r2.try_acquire().unwrap().is_some() && r3.try_acquire().unwrap().is_some());
}

#[test]
fn a_handle_dropped_when_granted_but_not_acquired_is_skipped() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    w1.post(); // granted at once
    w2.post();
    assert!(w2.try_acquire().unwrap().is_none());
    drop(w1);
    assert!(w2.try_acquire().unwrap().is_some());
}

#[test]
fn a_handle_dropped_after_next_is_skipped_granted_or_not() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    w1.acquire_until(late()).unwrap().next(); // the only handle: granted again
    w2.post();
    w1.acquire_until(late()).unwrap().next(); // behind w2
    assert!(w1.try_acquire().unwrap().is_none());
    drop(w1);
    w2.acquire_until(late()).unwrap().next();
    assert!(w2.try_acquire().unwrap().is_some());
}

#[test]
fn abandoning_gives_up_the_place() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), x.writer());
    w1.post();
    w2.post();
    w3.post();
    w2.abandon();
    w2.abandon(); // no request to abandon
    w2.post(); // behind w3
    drop(w1);
    assert!(w2.try_acquire().unwrap().is_none());
    drop(w3.acquire_until(late()).unwrap());
    assert!(w2.try_acquire().unwrap().is_some());
}

#[test]
fn a_second_post_changes_nothing() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    w1.post();
    w1.post();
    w2.post();
    post_all(&mut [&mut w1, &mut w2]);
    drop(w1.acquire_until(late()).unwrap());
    drop(w2.acquire_until(late()).unwrap());
    assert!(w1.try_acquire().unwrap().is_some());
}

#[test]
fn a_deadline_passes_and_the_place_is_kept() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2, mut w3) = (x.writer(), x.writer(), x.writer());
    let held = w1.acquire_until(late()).unwrap();
    let timed_out = AcquireError::TimedOut { location: "x".into() };
    for deadline in [past(), past() + Duration::from_millis(2)] {
        assert_eq!(w2.acquire_until(deadline).unwrap_err(), timed_out);
    }
    w3.post();
    assert_eq!(w2.acquire_until(past()).unwrap_err(), timed_out);
    drop(held);
    assert!(w3.try_acquire().unwrap().is_none(), "w2 asked first");
    assert!(w2.acquire_until(past()).is_ok(), "a grant that is there wins over the deadline");
    assert!(w3.acquire_until(late()).is_ok());
}

/// A leaked guard holds the location until its handle is dropped.
#[test]
fn a_leaked_guard_holds_as_long_as_its_handle_lives() {
    let x = Location::new("x", 0);
    let (mut w1, mut w2) = (x.writer(), x.writer());
    std::mem::forget(w1.acquire_until(late()).unwrap());
    assert!(w2.try_acquire().unwrap().is_none());
    *w1.acquire_until(late()).unwrap() += 1; // the same grant
    assert!(w2.try_acquire().unwrap().is_some());
    drop(w2);
    std::mem::forget(w1.acquire_until(late()).unwrap());
    drop(w1);
    assert_eq!(*x.reader().acquire_until(late()).unwrap(), 1);
}

#[test]
fn data_come_back_from_the_last_reference() {
    let x = Location::new("x", vec![1, 2]);
    let handle = x.writer();
    let x = x.into_inner().expect_err("a handle is left");
    drop(handle);
    assert_eq!(x.clone().into_inner().map_err(|x| x.name().to_owned()), Err("x".to_owned()));
    assert_eq!(x.into_inner().unwrap(), [1, 2]);
}

/// Many more handles than a location has nodes beside its queue.
#[test]
fn hundreds_of_handles_are_granted_in_order() {
    const HANDLES: usize = if cfg!(miri) { 40 } else { 500 };
    within(|| {
        let x = Location::new("x", Vec::new());
        let mut first = x.writer();
        let held = first.acquire_until(late()).unwrap();
        let mut handles: Vec<Writer<Vec<usize>>> = (0..HANDLES).map(|_| x.writer()).collect();
        handles.iter_mut().for_each(Writer::post);
        std::thread::scope(|s| {
            for (i, mut handle) in handles.into_iter().enumerate() {
                s.spawn(move || handle.acquire_until(late()).unwrap().push(i));
            }
            drop(held);
        });
        assert_eq!(*x.reader().acquire_until(late()).unwrap(), (0..HANDLES).collect::<Vec<_>>());
    });
}

#[test]
fn posts_over_two_locations_in_opposite_order_never_deadlock() {
    let rounds = if cfg!(miri) { 30 } else { u64::from(cases(20_000)) };
    within(move || {
        let (a, b) = (Location::new("a", 0), Location::new("b", 0));
        std::thread::scope(|s| {
            for swapped in [false, true] {
                let (mut x, mut y) = (a.writer(), b.writer());
                s.spawn(move || {
                    for _ in 0..rounds {
                        if swapped {
                            post_all(&mut [&mut y, &mut x]);
                        } else {
                            post_all(&mut [&mut x, &mut y]);
                        }
                        let mut x = x.acquire_until(late()).unwrap();
                        let mut y = y.acquire_until(late()).unwrap();
                        assert_eq!(*x, *y);
                        *x += 1;
                        *y += 1;
                    }
                });
            }
        });
        assert_eq!(*a.reader().acquire_until(late()).unwrap(), 2 * rounds);
    });
}

/// The same over random sets of locations, of readers and writers, some twice in one call.
#[test]
fn posts_over_random_sets_of_locations_never_deadlock() {
    within(|| {
        let cells: Vec<_> = (0..5).map(|l| Location::new(format!("l{l}"), 0_u64)).collect();
        let (written, seed) = (AtomicU64::new(0), seed(0));
        println!("seed {seed}");
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (cells, written) = (&cells, &written);
                s.spawn(move || {
                    let mut random = Random::stream(seed, thread);
                    for _ in 0..if cfg!(miri) { 5 } else { cases(2000) } {
                        let mut order: Vec<usize> = (0..5).collect();
                        random.shuffle(&mut order);
                        let (read, write) = order.split_at(random.within(0..=5));
                        let write = &write[..write.len() / 2];
                        let mut readers: Vec<Reader<u64>> =
                            read.iter().map(|&l| cells[l].reader()).collect();
                        readers.extend(read.iter().map(|&l| cells[l].reader()));
                        let mut writers: Vec<Writer<u64>> =
                            write.iter().map(|&l| cells[l].writer()).collect();
                        let mut all: Vec<&mut dyn Post> = Vec::new();
                        all.extend(readers.iter_mut().map(|r| r as &mut dyn Post));
                        all.extend(writers.iter_mut().map(|w| w as &mut dyn Post));
                        random.shuffle(&mut all);
                        post_all(&mut all);
                        let seen: Vec<_> =
                            readers.iter_mut().map(|r| r.acquire_until(late()).unwrap()).collect();
                        for writer in &mut writers {
                            *writer.acquire_until(late()).unwrap() += 1;
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        let (once, again) = seen.split_at(read.len());
                        assert!(once.iter().zip(again).all(|(a, b)| **a == **b));
                    }
                });
            }
        });
        let total: u64 =
            cells.iter().map(|cell| *cell.reader().acquire_until(late()).unwrap()).sum();
        assert_eq!(total, written.load(Ordering::Relaxed));
    });
}

/// Requests are abandoned at random, in every state; the others are granted as if those had never
/// been posted.
#[test]
fn requests_given_up_at_random_hold_up_nobody() {
    within(|| {
        let x = Location::new("x", 0_u64);
        let (written, seed) = (AtomicU64::new(0), seed(0));
        println!("seed {seed}");
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (x, written) = (&x, &written);
                s.spawn(move || {
                    let mut random = Random::stream(seed, thread);
                    let (mut reader, mut writer) = (x.reader(), x.writer());
                    for _ in 0..if cfg!(miri) { 20 } else { cases(5000) } {
                        match random.within(0..=5) {
                            0 => drop(reader.acquire_until(late()).unwrap()),
                            1 => {
                                reader.post();
                                reader.abandon();
                            }
                            2 => {
                                if let Some(mut n) = writer.try_acquire().unwrap() {
                                    *n += 1;
                                    written.fetch_add(1, Ordering::Relaxed);
                                }
                                writer.abandon();
                            }
                            3 => {
                                if let Ok(mut n) = writer.acquire_until(past()) {
                                    *n += 1;
                                    written.fetch_add(1, Ordering::Relaxed);
                                    n.next();
                                }
                                writer = x.writer();
                            }
                            4 => {
                                x.writer().post();
                                x.reader().post();
                            }
                            _ => {
                                *writer.acquire_until(late()).unwrap() += 1;
                                written.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(*x.reader().acquire_until(late()).unwrap(), written.load(Ordering::Relaxed));
        assert!(x.writer().try_acquire().unwrap().is_some());
    });
}

#[test]
fn a_guard_dropped_by_a_panic_poisons() {
    let x = Location::new("x", 0);
    let mut waits = x.writer();
    let mut writer = x.writer().named("painter");
    writer.post();
    waits.post();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let mut n = writer.acquire_until(late()).unwrap();
        *n = 7;
        panic!("half-painted");
    }));
    assert!(panic.is_err());
    let poisoned = AcquireError::Poisoned { location: "x".into(), task: "painter".into() };
    assert_eq!(poisoned.to_string(), "location 'x' was poisoned when 'painter' panicked");
    // A handle that waited, a new one, and the one that poisoned; each twice.
    for _ in 0..2 {
        assert_eq!(waits.acquire_until(late()).unwrap_err(), poisoned);
        assert_eq!(waits.try_acquire().unwrap_err(), poisoned);
        assert_eq!(x.reader().acquire_until(late()).unwrap_err(), poisoned);
        assert_eq!(writer.acquire().unwrap_err(), poisoned);
    }
    x.clear_poison();
    assert_eq!(*waits.acquire_until(late()).unwrap(), 7);
    assert_eq!(*writer.acquire_until(late()).unwrap(), 7);
}

#[test]
fn without_a_name_the_thread_is_named() {
    let x = Location::new("x", 0);
    let there = x.clone();
    let builder = std::thread::Builder::new().name("a thread".into());
    let thread = builder.spawn(move || {
        let mut writer = there.writer();
        let _n = writer.acquire_until(late()).unwrap();
        panic!("in a thread");
    });
    assert!(thread.unwrap().join().is_err());
    let error = x.reader().acquire_until(late()).unwrap_err().to_string();
    assert_eq!(error, "location 'x' was poisoned when 'a thread' panicked");
}

#[test]
fn a_reader_that_panics_poisons_nothing() {
    let x = Location::new("x", 3);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let mut reader = x.reader();
        let _n = reader.acquire_until(late()).unwrap();
        panic!("only reading");
    }));
    assert!(panic.is_err());
    assert_eq!(*x.writer().acquire_until(late()).unwrap(), 3);
}

/// A destructor that runs during a panic takes a guard, writes, and drops it: nothing is
/// half-written.
#[test]
fn a_guard_taken_and_released_by_a_destructor_during_a_panic_does_not_poison() {
    struct Last<'a>(&'a Location<i32>);
    impl Drop for Last<'_> {
        fn drop(&mut self) {
            *self.0.writer().acquire_until(late()).unwrap() += 1;
        }
    }
    let x = Location::new("x", 0);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _last = Last(&x);
        panic!("somewhere else");
    }));
    assert!(panic.is_err());
    assert_eq!(x.reader().acquire_until(late()).map(|n| *n), Ok(1));
}
