use super::*;
use crate::liveness::FirstDeath;

#[test]
fn it_is_one_word() {
    assert_eq!(size_of::<Signal>(), 8);
    assert_eq!((size_of::<PaddedSignal>(), align_of::<PaddedSignal>()), (128, 128));
}

#[test]
fn it_never_falls() {
    let s = Signal::new(9);
    assert_eq!(s.raise_to(4), 9);
    assert_eq!(s.get(), 9);
    assert_eq!(s.raise_to(Signal::MAX), 9);
    assert_eq!(s.get(), Signal::MAX);
}

#[test]
fn it_ends_and_does_not_wrap() {
    let policy = Policy::default();
    let s = Signal::new(Signal::MAX - 2);
    assert_eq!(s.add(2), Ok(Signal::MAX));
    assert_eq!(s.add(0), Ok(Signal::MAX), "it is at its end, and not past it");
    for n in [1, 7, Signal::MAX_ADD] {
        assert_eq!(s.add(n), Err(AddError::Closed));
        assert_eq!(s.get(), Signal::MAX);
    }
    assert_eq!(s.add(0), Err(AddError::Closed), "it stays closed");
    assert_eq!(
        (s.increment(), s.count(|_| true), s.raise_to(3)),
        (Signal::MAX, Signal::MAX, Signal::MAX)
    );
    assert_eq!(s.wait_until(Signal::MAX, &policy, None), Ok(Signal::MAX));
    assert_eq!(s.get(), Signal::MAX);
}

#[test]
fn what_it_cannot_hold_is_bounded_or_refused() {
    let policy = Policy::default();
    for number in [Signal::MAX + 1, 1 << 63, u64::MAX] {
        assert_eq!(Signal::new(number).get(), Signal::MAX);
        let s = Signal::new(1);
        assert_eq!(s.add(number), Err(AddError::TooMuch { n: number }));
        assert_eq!(s.get(), 1, "nothing was added");
        assert_eq!(s.wait_until(number, &policy, None), Err(WaitError::Unreachable { number }));
        let endless = Policy { yield_for: Duration::MAX, ..policy };
        assert_eq!(s.look_until(number, &endless, None), None);
        assert_eq!((s.raise_to(number), s.get()), (1, Signal::MAX));
        let s = Signal::new(1);
        s.publish(number);
        assert_eq!((s.get(), s.add(1)), (Signal::MAX, Err(AddError::Closed)));
    }
    assert_eq!(
        Signal::new(1).add(Signal::MAX_ADD + 1),
        Err(AddError::TooMuch { n: Signal::MAX_ADD + 1 })
    );
    assert_eq!(Signal::new(1).add(Signal::MAX_ADD), Ok(Signal::MAX_ADD + 1));
}

/// Additions beyond the end do not wrap the word: each of them sets it back to the bottom of the
/// guard band above the end, so any number of them stays inside the band.
#[test]
fn many_adders_do_not_go_round() {
    let s = Signal::new(Signal::MAX - 1000);
    let told = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };
            s.wait_until(Signal::MAX, &sleepy, None)
        });
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    match s.add(Signal::MAX_ADD) {
                        Err(AddError::Closed) => {
                            told.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                        }
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(s.get(), Signal::MAX);
                }
            });
        }
        assert_eq!(waiter.join().unwrap(), Ok(Signal::MAX));
    });
    assert_eq!(told.into_inner(), 4000);
    assert_eq!(
        s.word.bits.load(Ordering::Relaxed),
        CLOSED,
        "all additions past the end were taken back"
    );
}

#[test]
fn a_wait_ends_at_its_deadline_or_at_a_death() {
    let s = Signal::new(1);
    let soon = || Some(Instant::now() + Duration::from_millis(3));
    assert_eq!(s.wait_until(2, &Policy::default(), soon()), Err(WaitError::TimedOut));
    assert_eq!(s.wait_until(1, &Policy::default(), soon()), Ok(1));
    let death = FirstDeath::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            death.declare(0);
            death.declare(5);
        });
        let policy = Policy::default().watching(&death);
        assert_eq!(s.wait_until(2, &policy, None), Err(WaitError::Dead { member: 0 }));
    });
}

#[test]
fn many_sleepers_and_raisers_lose_nothing() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2000 };
    for raise_by_add in [true, false] {
        let (a, b) = (Signal::new(0), Signal::new(0));
        let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };
        let deadline = Some(Instant::now() + Duration::from_secs(300));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for r in 1..=ROUNDS {
                        a.wait_until(r, &sleepy, deadline).unwrap();
                        b.increment();
                    }
                });
            }
            for r in 1..=ROUNDS {
                if raise_by_add {
                    a.add(1).unwrap();
                } else {
                    a.raise_to(r);
                }
                b.wait_until(3 * r, &sleepy, deadline).unwrap();
            }
        });
    }
}

/// A policy that never comes to its sleep.
#[test]
fn whoever_looks_for_ever_is_told_as_well() {
    let death = FirstDeath::default();
    death.declare(3);
    let pauses = Policy { pauses: u32::MAX, yield_for: Duration::ZERO, liveness: Some(&death) };
    let yields = Policy { pauses: 0, yield_for: Duration::MAX, liveness: Some(&death) };
    for policy in [pauses, yields] {
        assert_eq!(Signal::new(0).wait_until(1, &policy, None), Err(WaitError::Dead { member: 3 }));
        let patient = Policy { liveness: None, ..policy };
        let soon = Some(Instant::now() + Duration::from_millis(5));
        assert_eq!(Signal::new(0).wait_until(1, &patient, soon), Err(WaitError::TimedOut));
    }
}

#[test]
fn a_count_wakes_at_the_last_one() {
    let s = Signal::new(0);
    let sleepy = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };
    let deadline = Some(Instant::now() + Duration::from_secs(300));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(s.wait_until(3, &sleepy, deadline), Ok(3)));
        }
        for n in 1..=3 {
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(s.count(|now| now == 3), n);
        }
    });
}

#[test]
fn bounds() {
    fn shareable<T: Send + Sync + Unpin>() {}
    shareable::<Signal>();
    shareable::<PaddedSignal>();
    shareable::<WaitError>();
    shareable::<AddError>();
}
