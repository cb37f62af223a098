//! Checks the contract of every barrier and every lock of the baselines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use syncline_lab::baselines::{
    ArrayLock, CounterBarrier, Guarded, Lock, TestAndSet, TestAndTestAndSet,
};
use syncline_testkit::cases;

#[test]
fn nobody_leaves_an_episode_before_all_have_arrived() {
    let episodes = u64::from(cases(2000));
    for members in [1, 2, 3, 5, 8] {
        let barrier = CounterBarrier::new(members);
        let arrived: Vec<AtomicU64> = (0..members).map(|_| AtomicU64::new(0)).collect();
        let all: Vec<_> = (0..members).map(|_| barrier.member()).collect();
        thread::scope(|scope| {
            for (i, mut member) in all.into_iter().enumerate() {
                let arrived = &arrived;
                scope.spawn(move || {
                    for episode in 1..=episodes {
                        // Relaxed: the barrier provides the ordering.
                        arrived[i].store(episode, Ordering::Relaxed);
                        member.wait();
                        for other in arrived {
                            let seen = other.load(Ordering::Relaxed);
                            assert!((episode..=episode + 1).contains(&seen), "{seen} in {episode}");
                        }
                    }
                });
            }
        });
    }
}

/// Two numbers that stay equal only under mutual exclusion.
fn excludes<L: Lock + Send>(new: impl Fn(usize) -> L) {
    let steps = u64::from(cases(3000));
    for threads in [1, 2, 3, 8] {
        let pair = Guarded::new(new(threads), (0, 0));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..steps {
                        pair.with(|(a, b)| {
                            *a += 1;
                            assert_eq!(*a, *b + 1);
                            *b = *a;
                        });
                    }
                });
            }
        });
        assert_eq!(pair.into_inner(), (steps * threads as u64, steps * threads as u64));
    }
}

#[test]
fn one_at_a_time_has_a_test_and_set_lock() {
    excludes(|_| TestAndSet::new());
}

#[test]
fn one_at_a_time_has_a_test_and_test_and_set_lock() {
    excludes(|_| TestAndTestAndSet::new());
}

#[test]
fn one_at_a_time_has_an_array_lock_even_of_too_few_slots() {
    excludes(ArrayLock::new);
    excludes(|_| ArrayLock::new(1));
}
