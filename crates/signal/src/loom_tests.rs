//! Models. Run with `make loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::{AddError, Policy, Signal, plant, spinlock::SpinLock};

/// All interleavings with at most three preemptions. Two are known to show nearly every bug (Musuvathi
/// and Qadeer 2007), and the models with three threads take minutes without a bound.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(f);
}

fn wait(s: &Signal, n: u64) -> u64 {
    s.wait_until(n, &Policy::default(), None).unwrap()
}

/// A sleeper is woken by a raise, and sees what was written before it.
fn raise_and_wait() {
    model(|| {
        let shared = Arc::new((Signal::new(0), AtomicU32::new(0)));
        let raiser = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Ordering::Relaxed);
                shared.0.raise_to(1);
            })
        };
        wait(&shared.0, 1);
        assert_eq!(shared.1.load(Ordering::Relaxed), 1, "a wait ended before what it waited for");
        raiser.join().unwrap();
    });
}

#[test]
fn raise_wakes_and_publishes() {
    raise_and_wait();
}

#[test]
#[should_panic(expected = "a wait ended before what it waited for")]
fn a_relaxed_raise_is_noticed() {
    plant::with("signal: relaxed raise", raise_and_wait);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_wake_is_noticed() {
    plant::with("signal: no wake", raise_and_wait);
}

#[test]
fn two_sleepers_at_different_numbers() {
    model(|| {
        let s = Arc::new(Signal::new(0));
        let waiters: Vec<_> = (1..=2)
            .map(|n| {
                let s = Arc::clone(&s);
                thread::spawn(move || wait(&s, n))
            })
            .collect();
        s.increment();
        s.add(1).unwrap();
        for w in waiters {
            w.join().unwrap();
        }
    });
}

#[test]
fn two_raisers_one_sleeper() {
    model(|| {
        let s = Arc::new(Signal::new(0));
        let raisers = [false, true].map(|by_add| {
            let s = Arc::clone(&s);
            thread::spawn(move || if by_add { s.increment() } else { s.raise_to(1) })
        });
        // Either the addition comes last (1 + 1), or the maximum finds it done (1).
        wait(&s, 1);
        for r in raisers {
            r.join().unwrap();
        }
        assert!((1..=2).contains(&s.get()));
    });
}

/// Additions past the end never go round, however many threads have died in the guard band, and all
/// are told.
fn additions_past_the_end() {
    model(|| {
        let s = Arc::new(Signal::new(Signal::MAX));
        // With the two below there is room for one more: see "The guard band".
        s.overrun_and_die((1 << 30) - 3);
        let adds = |s: &Signal| {
            for _ in 0..2 {
                assert_eq!(s.add(Signal::MAX_ADD), Err(AddError::Closed), "it went round");
                assert_eq!(s.get(), Signal::MAX, "it went round");
            }
        };
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || adds(&s))
        };
        adds(&s);
        other.join().unwrap();
        assert_eq!(s.get(), Signal::MAX, "it went round");
    });
}

#[test]
fn no_addition_goes_round() {
    additions_past_the_end();
}

#[test]
#[should_panic(expected = "it went round")]
fn a_word_that_stays_in_the_guard_band_is_noticed() {
    plant::with("signal: stays in the guard band", additions_past_the_end);
}

/// A sleeper has the number that it waits for when an addition closes the signal, and sees what was
/// done before.
fn close_and_wait() {
    model(|| {
        let shared = Arc::new((Signal::new(Signal::MAX - 1), AtomicU32::new(0)));
        let adders = [1, 2].map(|n| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.fetch_add(1, Ordering::Relaxed);
                shared.0.add(n).is_err()
            })
        });
        wait(&shared.0, Signal::MAX);
        assert!(shared.1.load(Ordering::Relaxed) >= 1, "a wait ended before what it waited for");
        let told = adders.map(|adder| adder.join().unwrap());
        assert!(told[1], "what goes past the end is told");
        assert_eq!(shared.0.get(), Signal::MAX);
    });
}

#[test]
fn closing_wakes_and_publishes() {
    close_and_wait();
}

#[test]
#[should_panic(expected = "deadlock")]
fn closing_without_a_wake_is_noticed() {
    plant::with("signal: closes without a wake", close_and_wait);
}

fn two_sections() {
    model(|| {
        let shared = Arc::new((SpinLock::new(), AtomicU32::new(0)));
        let section = |shared: &(SpinLock, AtomicU32)| {
            let _section = shared.0.lock();
            let n = shared.1.load(Ordering::Relaxed);
            shared.1.store(n + 1, Ordering::Relaxed);
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || section(&shared))
        };
        section(&shared);
        other.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Relaxed), 2, "two sections overlapped");
    });
}

#[test]
fn sections_exclude_each_other() {
    two_sections();
}

#[test]
#[should_panic(expected = "two sections overlapped")]
fn a_relaxed_unlock_is_noticed() {
    plant::with("spinlock: relaxed unlock", two_sections);
}
