//! Locks: mutual exclusion, order, deadlines, and recovery after a death.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use syncline_memory::Segment;
use syncline_signal::Policy;
use syncline_sync::{
    Lock, LockError, LockGuard, Mcs, Space, SpaceError, Ticket,
    lock::{LockMember, RawLock},
    membership::FaultList,
};
use syncline_testkit::{Random, cases, seed};

/// Far beyond the length of any wait, on any machine.
const HANG: Duration = Duration::from_secs(300);

fn late() -> Option<Instant> {
    Some(Instant::now() + HANG)
}

fn soon(milliseconds: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(milliseconds))
}

/// A wait policy that sleeps at once.
const SLEEPY: Policy<'static> = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };

/// Returns the number of this thread, by which [`until_asleep`] finds it.
fn thread_number() -> String {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    own.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Waits until a thread of this process sleeps in the kernel. With [`SLEEPY`] it does so once it
/// has its place in the queue.
fn until_asleep(thread: &str) {
    let late = Instant::now() + HANG;
    let stat = format!("/proc/self/task/{thread}/stat");
    // The state follows the name, which may contain any characters.
    while !std::fs::read_to_string(&stat)
        .unwrap()
        .rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('S'))
    {
        assert!(Instant::now() < late, "thread {thread} never waits");
        std::thread::yield_now();
    }
}

/// Runs the same tests with both locks.
macro_rules! both {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        mod ticket { $($(#[$doc])* #[test] fn $name() { super::$name::<super::Ticket>(); })* }
        mod mcs { $($(#[$doc])* #[test] fn $name() { super::$name::<super::Mcs>(); })* }
    };
}

both! {
    one_at_a_time;
    first_come_first_served;
    who_gives_up_keeps_its_place;
    who_is_away_is_passed_over;
    any_mixture_of_ways_to_ask;
    a_place_may_be_given_up_often;
    a_panic_poisons_and_recover_goes_on;
    a_section_during_an_unwind_is_whole;
    a_leaked_guard_ends_with_its_handle;
    a_holder_that_dies_is_told_and_its_lock_recovered;
    a_waiter_that_dies_does_not_stay_in_the_way;
    who_is_given_up_keeps_what_it_holds;
    the_dead_of_another_process_are_not_ours;
    a_recovery_that_ran_out_of_time_has_recovered_from_nothing;
    deaths_at_any_moment;
    views_of_a_segment_are_one_lock;
    handles_are_one_per_rank;
    sleepers_are_woken;
}

fn one_at_a_time<R: RawLock>() {
    for members in 1..=9 {
        let each = u64::from(cases(20_000)) / members as u64;
        let lock = Lock::<R, (u64, u64)>::new(members, (0, 0)).unwrap();
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for rank in 0..members {
                let (mut mine, inside) = (lock.member(rank).unwrap(), &inside);
                scope.spawn(move || {
                    for _ in 0..each {
                        let mut held = mine.lock().unwrap();
                        assert!(!inside.swap(true, Ordering::Relaxed), "two at a time");
                        held.0 += 1;
                        held.1 += held.0;
                        inside.store(false, Ordering::Relaxed);
                    }
                });
            }
        });
        let n = each * members as u64;
        assert_eq!(*lock.member(0).unwrap().lock().unwrap(), (n, n * (n + 1) / 2));
    }
}

/// The waiters ask one after the other, each once the previous one waits, while rank 0 holds the
/// lock.
fn first_come_first_served<R: RawLock>() {
    let waiters = 6;
    let lock = Lock::<R, Vec<usize>>::new(waiters + 1, Vec::new()).unwrap();
    let mut first = lock.member(0).unwrap();
    let held = first.lock().unwrap();
    let order: Vec<usize> = vec![3, 1, 6, 2, 5, 4];
    std::thread::scope(|scope| {
        for &rank in &order {
            let mut mine = lock.member(rank).unwrap();
            mine.set_policy(&SLEEPY);
            let (number, asks) = mpsc::channel();
            scope.spawn(move || {
                number.send(thread_number()).unwrap();
                mine.lock().unwrap().push(rank);
            });
            until_asleep(&asks.recv().unwrap());
        }
        assert_eq!(lock.holder(), Some(0));
        drop(held);
    });
    assert_eq!(*first.lock().unwrap(), order);
}

fn who_gives_up_keeps_its_place<R: RawLock>() {
    let lock = Lock::<R, Vec<usize>>::new(3, Vec::new()).unwrap();
    let [mut holder, mut early, mut behind] = [0, 1, 2].map(|rank| lock.member(rank).unwrap());
    let held = holder.lock().unwrap();
    assert_eq!(early.lock_deadline(soon(1)).unwrap_err(), LockError::TimedOut);
    std::thread::scope(|scope| {
        for (asks, rank) in [(&mut behind, 2), (&mut early, 1)] {
            asks.set_policy(&SLEEPY);
            let (number, there) = mpsc::channel();
            scope.spawn(move || {
                number.send(thread_number()).unwrap();
                asks.lock().unwrap().push(rank);
            });
            until_asleep(&there.recv().unwrap());
        }
        drop(held);
    });
    assert_eq!(*holder.lock().unwrap(), [1, 2], "it had asked first");
}

fn who_is_away_is_passed_over<R: RawLock>() {
    let lock = Lock::<R, ()>::new(4, ()).unwrap();
    let [mut holder, mut away, mut gone, mut last] =
        [0, 1, 2, 3].map(|rank| lock.member(rank).unwrap());
    for _ in 0..200 {
        let held = holder.lock().unwrap();
        assert!(away.try_lock().unwrap().is_none());
        assert_eq!(away.lock_deadline(Some(Instant::now())).unwrap_err(), LockError::TimedOut);
        assert_eq!(gone.lock_deadline(Some(Instant::now())).unwrap_err(), LockError::TimedOut);
        assert!(away.try_lock().unwrap().is_none());
        drop(held);
        drop(last.try_lock().unwrap().expect("no member waits"));
        drop(away.lock().unwrap());
        drop(gone.try_lock().unwrap().expect("its place was passed over"));
    }
}

fn a_place_may_be_given_up_often<R: RawLock>() {
    let lock = Lock::<R, ()>::new(2, ()).unwrap();
    let [mut holder, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
    for _ in 0..3 {
        let held = holder.lock().unwrap();
        for _ in 0..1200 {
            let over = Some(Instant::now());
            assert_eq!(other.lock_deadline(over).unwrap_err(), LockError::TimedOut);
        }
        drop(held);
        drop(other.lock_deadline(late()).unwrap());
    }
}

fn any_mixture_of_ways_to_ask<R: RawLock>() {
    let (seed, rounds) = (seed(1), cases(4000));
    println!("seed {seed}");
    for members in [2, 3, 5] {
        let lock = Lock::<R, u64>::new(members, 0).unwrap();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for rank in 0..members {
                let (mut mine, taken) = (lock.member(rank).unwrap(), &taken);
                scope.spawn(move || {
                    let mut random = Random::stream(seed, rank as u64);
                    for _ in 0..rounds {
                        let guard = match random.below(4) {
                            0 => mine.try_lock().unwrap(),
                            1 => mine.lock_deadline(Some(Instant::now())).ok(),
                            2 => {
                                let until =
                                    Instant::now() + Duration::from_micros(random.below(150));
                                mine.lock_deadline(Some(until)).ok()
                            }
                            _ => Some(mine.lock().unwrap()),
                        };
                        if let Some(mut guard) = guard {
                            *guard += 1;
                            taken.fetch_add(1, Ordering::Relaxed);
                            if random.below(50) == 0 {
                                std::thread::sleep(Duration::from_micros(80));
                            }
                        }
                    }
                });
            }
        });
        let mut last = lock.member(0).unwrap();
        let count = *last.try_lock().unwrap().expect("no member is left in the queue");
        assert_eq!(count, taken.load(Ordering::Relaxed));
    }
}

fn a_panic_poisons_and_recover_goes_on<R: RawLock>() {
    let lock = Lock::<R, u64>::new(2, 0).unwrap();
    let mut mine = lock.member(0).unwrap();
    let other = lock.member(1).unwrap();
    let panicked = std::thread::spawn(move || {
        let mut other = other;
        let mut held = other.lock().unwrap();
        *held = 7;
        std::panic::resume_unwind(Box::new("in the middle"));
    });
    panicked.join().unwrap_err();
    assert_eq!(mine.lock().unwrap_err(), LockError::Poisoned { rank: 1 });
    assert_eq!(
        mine.try_lock().unwrap_err().to_string(),
        "the lock is poisoned: rank 1 left its data half changed"
    );
    let mut held = mine.recover(None).unwrap();
    assert_eq!((held.poisoned_by(), *held), (Some(1), 7));
    *held = 8;
    drop(held);
    assert_eq!(*mine.lock().unwrap(), 8);
}

fn a_section_during_an_unwind_is_whole<R: RawLock>() {
    struct Count<'a, R: RawLock>(&'a Lock<R, u64>);

    impl<R: RawLock> Drop for Count<'_, R> {
        fn drop(&mut self) {
            *self.0.member(0).unwrap().lock().unwrap() += 1;
        }
    }
    let lock = Lock::<R, u64>::new(1, 0).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _count = Count(&lock);
        std::panic::resume_unwind(Box::new("elsewhere"));
    }));
    assert!(panicked.is_err());
    assert_eq!(*lock.member(0).unwrap().lock().unwrap(), 1);
}

fn a_leaked_guard_ends_with_its_handle<R: RawLock>() {
    let lock = Lock::<R, u64>::new(2, 7).unwrap();
    let [mut leaks, mut waits] = [0, 1].map(|rank| lock.member(rank).unwrap());
    std::mem::forget(leaks.lock().unwrap());
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            assert_eq!(waits.lock().unwrap_err(), LockError::Poisoned { rank: 0 });
            let held = waits.recover(None).unwrap();
            (held.poisoned_by(), *held)
        });
        assert_eq!(lock.member(0).unwrap_err(), SpaceError::Taken { rank: 0 });
        std::thread::sleep(Duration::from_millis(5));
        drop(leaks);
        assert_eq!(other.join().unwrap(), (Some(0), 7));
    });
    drop(lock.member(0).unwrap().lock().unwrap());
    // The same when the handle is used again, in any way.
    type Again<R> = fn(&mut LockMember<R, u64>) -> Result<(), LockError>;
    let ways: [Again<R>; 3] = [
        |mine| mine.try_lock().map(|held| assert!(held.is_none())),
        |mine| mine.lock_deadline(Some(Instant::now())).map(|_| ()),
        |mine| mine.recover(late()).map(|held| assert_eq!(held.poisoned_by(), Some(0))),
    ];
    let [mut leaks, mut waits] = [0, 1].map(|rank| lock.member(rank).unwrap());
    for (way, expected) in ways.into_iter().zip([Err(0), Err(0), Ok(())]) {
        std::mem::forget(leaks.lock().unwrap());
        let expected = expected.map_err(|rank| LockError::Poisoned { rank });
        assert_eq!(way(&mut leaks), expected);
        drop(waits.recover(late()).unwrap());
    }
}

/// Creates a lock for `members` members, and its fault list.
fn mortal<R: RawLock>(members: usize) -> (Lock<R, u64>, FaultList) {
    let fault_list = FaultList::within(&mut Space::heap(), members).unwrap();
    (Lock::new(members, 0).unwrap().watching(&fault_list), fault_list)
}

/// Declares a member of this process dead, whose handle is forgotten and not used again.
fn declare(fault_list: &FaultList, rank: usize) {
    // SAFETY: the tests forget the handle, and do not use it again.
    unsafe { fault_list.declare_dead(rank, std::process::id()) };
}

fn a_holder_that_dies_is_told_and_its_lock_recovered<R: RawLock>() {
    let (lock, fault_list) = mortal::<R>(4);
    let mut dead = lock.member(3).unwrap();
    std::mem::forget(dead.lock().unwrap());
    let (number, waiting) = mpsc::channel();
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let mut mine = lock.member(rank).unwrap();
            mine.set_policy(&SLEEPY);
            let number = number.clone();
            scope.spawn(move || {
                number.send(thread_number()).unwrap();
                assert_eq!(mine.lock().unwrap_err(), LockError::Dead { rank: 3 });
                // All recover at once: one repairs, and all get the lock in turn.
                *mine.recover(late()).unwrap() += 1;
                *mine.lock().unwrap() += 1;
            });
        }
        waiting.iter().take(3).for_each(|thread| until_asleep(&thread));
        declare(&fault_list, 3);
    });
    let mut last = lock.member(0).unwrap();
    assert_eq!(*last.lock().unwrap(), 6);
    std::mem::forget(dead);
}

fn a_waiter_that_dies_does_not_stay_in_the_way<R: RawLock>() {
    let (lock, fault_list) = mortal::<R>(3);
    let mut holder = lock.member(0).unwrap();
    let held = holder.lock().unwrap();
    // It waits in a thread that never uses its handle again, as a killed process would: only its
    // place is left.
    let mut dying = lock.member(2).unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&gone);
    let (number, asks) = mpsc::channel();
    let ghost = std::thread::spawn(move || {
        dying.set_policy(&SLEEPY);
        number.send(thread_number()).unwrap();
        let error = dying.lock().unwrap_err();
        std::mem::forget(dying);
        end.store(true, Ordering::Relaxed);
        error
    });
    until_asleep(&asks.recv().unwrap());
    declare(&fault_list, 2);
    assert_eq!(ghost.join().unwrap(), LockError::Dead { rank: 2 });
    drop(held);
    let mut other = lock.member(1).unwrap();
    let mut held = other.recover(late()).unwrap();
    assert_eq!(held.poisoned_by(), None, "it had not touched the data");
    *held += 1;
    drop(held);
    // The holder does not see the death as long as it does not have to wait.
    *holder.lock().unwrap() += 1;
    assert_eq!(*other.lock().unwrap(), 2);
}

fn who_is_given_up_keeps_what_it_holds<R: RawLock>() {
    let (lock, fault_list) = mortal::<R>(2);
    let [mut holder, mut mine] = [0, 1].map(|rank| lock.member(rank).unwrap());
    let mut held = holder.lock().unwrap();
    fault_list.give_up(0);
    assert_eq!(mine.lock().unwrap_err(), LockError::Dead { rank: 0 });
    assert_eq!(mine.recover(soon(20)).unwrap_err(), LockError::TimedOut);
    *held += 1;
    drop(held);
    let held = mine.recover(late()).unwrap();
    assert_eq!((held.poisoned_by(), *held), (None, 1));
}

/// A handle for the rank of a member of another process, which dies.
fn the_dead_of_another_process_are_not_ours<R: RawLock>() {
    let (lock, fault_list) = mortal::<R>(2);
    let [mut holder, mut mine] = [0, 1].map(|rank| lock.member(rank).unwrap());
    let held = holder.lock().unwrap();
    // SAFETY: no handle was taken in a process of this number.
    unsafe { fault_list.declare_dead(0, u32::MAX) };
    assert_eq!(mine.lock().unwrap_err(), LockError::Dead { rank: 0 });
    assert_eq!(mine.recover(soon(20)).unwrap_err(), LockError::TimedOut);
    drop(held);
    drop(mine.recover(late()).unwrap());
}

fn a_recovery_that_ran_out_of_time_has_recovered_from_nothing<R: RawLock>() {
    let (lock, fault_list) = mortal::<R>(3);
    let [mut holder, mut mine] = [0, 1].map(|rank| lock.member(rank).unwrap());
    let held = holder.lock().unwrap();
    fault_list.give_up(2);
    // The queue can only be repaired once the holder has left it.
    assert_eq!(mine.recover(soon(5)).unwrap_err(), LockError::TimedOut);
    // The member may still be behind the dead one in the queue.
    assert_eq!(mine.lock_deadline(late()).unwrap_err(), LockError::Dead { rank: 2 });
    drop(held);
    *mine.recover(late()).unwrap() += 1;
}

/// Members die holding the lock, one after the other, while others work, get errors and recover.
fn deaths_at_any_moment<R: RawLock>() {
    let first = seed(1);
    for seed in first..first + u64::from(cases(20)) {
        println!("seed {seed}");
        let members = 5;
        let (lock, fault_list) = mortal::<R>(members);
        let counted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for rank in 0..members {
                let mut mine = lock.member(rank).unwrap();
                let (fault_list, counted) = (&fault_list, &counted);
                scope.spawn(move || {
                    let mut random = Random::stream(seed, rank as u64);
                    let touch = |mut held: LockGuard<'_, R, u64>| {
                        *held += 1;
                        counted.fetch_add(1, Ordering::Relaxed);
                    };
                    let work = |mine: &mut LockMember<R, u64>, random: &mut Random| {
                        let until =
                            if random.below(3) == 0 { Some(Instant::now()) } else { late() };
                        match mine.lock_deadline(until).map(touch) {
                            Ok(()) | Err(LockError::TimedOut) => (),
                            Err(_) => match mine.recover(late()).map(touch) {
                                // Another member died in the meantime: the next turn recovers.
                                Ok(()) | Err(LockError::Dead { .. }) => (),
                                Err(error) => panic!("{error}"),
                            },
                        }
                    };
                    let steps = if rank < 2 { 20 + random.below(200) } else { 600 };
                    for _ in 0..steps {
                        work(&mut mine, &mut random);
                    }
                    if rank < 2 {
                        if random.below(2) == 0
                            && let Ok(held) = mine.lock_deadline(late())
                        {
                            std::mem::forget(held);
                        }
                        std::mem::forget(mine);
                        declare(fault_list, rank);
                    }
                });
            }
        });
        let mut last = lock.member(4).unwrap();
        let count = *last.recover(late()).unwrap();
        assert_eq!(count, counted.load(Ordering::Relaxed), "seed {seed}");
    }
}

fn views_of_a_segment_are_one_lock<R: RawLock>() {
    let segment = Arc::new(Segment::shared(1 << 20).unwrap());
    let view = || {
        // SAFETY: the segment is new, and only these views use it.
        let mut space = unsafe { Space::segment(Arc::clone(&segment)) }.unwrap();
        Lock::<R, [u64; 2]>::within(&mut space, 3).unwrap()
    };
    let rounds = u64::from(cases(2000));
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let mut mine = view().member(rank).unwrap();
            scope.spawn(move || {
                for _ in 0..rounds {
                    let mut held = mine.lock().unwrap();
                    let [a, b] = *held;
                    assert_eq!(a, b);
                    *held = [a + 1, b + 1];
                }
            });
        }
    });
    assert_eq!(*view().member(0).unwrap().lock().unwrap(), [3 * rounds; 2]);
}

fn handles_are_one_per_rank<R: RawLock>() {
    let lock = Lock::<R, ()>::new(2, ()).unwrap();
    let mine = lock.member(1).unwrap();
    assert_eq!(lock.member(1).unwrap_err(), SpaceError::Taken { rank: 1 });
    assert_eq!(lock.member(2).unwrap_err(), SpaceError::Rank { rank: 2, members: 2 });
    drop(mine);
    lock.member(1).unwrap();
    assert!(Lock::<R, ()>::new(0, ()).is_err());
}

fn sleepers_are_woken<R: RawLock>() {
    let (members, rounds) = (4, u64::from(cases(500)));
    let lock = Lock::<R, u64>::new(members, 0).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..members {
            let mut mine = lock.member(rank).unwrap();
            mine.set_policy(&SLEEPY);
            scope.spawn(move || {
                for _ in 0..rounds {
                    *mine.lock_deadline(late()).unwrap() += 1;
                }
            });
        }
    });
    assert_eq!(*lock.member(0).unwrap().lock().unwrap(), 4 * rounds);
}

#[test]
fn bounds() {
    fn movable<T: Send>() {}
    fn shareable<T: Sync>() {}
    movable::<Lock<Ticket, std::cell::Cell<u64>>>();
    shareable::<Lock<Mcs, std::cell::Cell<u64>>>();
    movable::<LockMember<Mcs, std::cell::Cell<u64>>>();
    shareable::<syncline_sync::LockGuard<'static, Ticket, u64>>();
}
