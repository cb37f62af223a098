use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ThreadId};

use super::*;
use crate::event_count::EventCount;
use crate::poll_schedule::PollSchedule;
use crate::spin_wait::SpinWait;
use crate::{Policy, Signal};

/// A library that has something to do for some calls of one thread, and raises a signal then.
#[derive(Debug)]
struct Library {
    thread: ThreadId,
    calls: AtomicUsize,
    needed: usize,
    done: Signal,
    events: EventCount,
    ended: AtomicBool,
    says: Advance,
}

impl Library {
    fn installed(needed: usize, says: Advance) -> (Arc<Library>, Installed) {
        let thread = thread::current().id();
        let (calls, done) = (AtomicUsize::new(0), Signal::new(0));
        let (events, ended) = (EventCount::new(), AtomicBool::new(false));
        let library = Arc::new(Library { thread, calls, needed, done, events, ended, says });
        (Arc::clone(&library), install(library))
    }
}

impl Progress for Library {
    fn advance(&self) -> Advance {
        assert!(!self.ended.load(Ordering::Relaxed), "it is not called after its end");
        // Waits of other tests run in other threads.
        if thread::current().id() != self.thread {
            return Advance::NoPart;
        }
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.needed {
            self.done.raise_to(1);
            self.events.notify();
        }
        self.says
    }
}

/// Each kind of wait goes on only by its own calls: no other thread raises anything.
#[test]
fn every_wait_that_would_sleep_makes_progress_again_and_again() {
    let minute = || Some(Instant::now() + Duration::from_secs(60));
    for says in [Advance::Idle, Advance::Busy] {
        for needed in [1, 2, 7] {
            let (library, _installed) = Library::installed(needed, says);
            assert_eq!(library.done.wait_until(1, &Policy::default(), minute()), Ok(1));

            let (library, _installed) = Library::installed(needed, says);
            let look = || Ok::<_, ()>((library.done.get() > 0).then_some("there"));
            let waited = library.events.wait_for(&Policy::default(), minute(), look);
            assert_eq!(waited, Ok(Some("there")));

            let (library, _installed) = Library::installed(needed, says);
            let mut schedule = PollSchedule::driving();
            while library.done.get() == 0 {
                schedule.pause();
            }
        }
    }
    let (library, _installed) = Library::installed(3, Advance::Busy);
    let endless = Policy { yield_for: Duration::MAX, ..Policy::default() };
    let mut spin = SpinWait::new(&endless, minute());
    while library.done.get() == 0 && spin.spin() {}
    // It ends sooner if a yield lasts long.
    assert_eq!(library.done.wait_until(1, &endless, minute()), Ok(1));
}

#[test]
fn a_wait_that_is_over_soon_makes_none() {
    let (library, _installed) = Library::installed(1, Advance::Idle);
    let signal = Signal::new(3);
    for number in 0..4 {
        assert_eq!(signal.wait_until(number, &Policy::default(), None), Ok(3));
    }
    let policy = Policy { pauses: 1000, ..Policy::default() };
    let mut spin = SpinWait::new(&policy, None);
    while spin.spin() {}
    let mut schedule = PollSchedule::new();
    (0..100).for_each(|_| schedule.pause());
    assert_eq!(library.calls.load(Ordering::Relaxed), 0);
}

#[test]
fn deadlines_and_deaths_end_a_wait_that_makes_progress() {
    let (_library, _installed) = Library::installed(usize::MAX, Advance::Idle);
    let (signal, soon) = (Signal::new(0), Instant::now() + Duration::from_millis(3));
    let waited = signal.wait_until(1, &Policy::default(), Some(soon));
    assert_eq!(waited, Err(crate::WaitError::TimedOut));
    assert!(Instant::now() >= soon);

    let death = crate::liveness::FirstDeath::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(2));
            death.declare(4);
        });
        let waited = signal.wait_until(1, &Policy::default().watching(&death), None);
        assert_eq!(waited, Err(crate::WaitError::Dead { member: 4 }));
    });
}

#[test]
fn a_thread_without_a_part_sleeps_as_ever_and_is_woken() {
    let (library, _installed) = Library::installed(usize::MAX, Advance::Idle);
    let signal = Signal::new(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| signal.wait_until(2, &Policy::default(), None));
        signal.raise_to(1);
        thread::sleep(Duration::from_millis(2));
        signal.raise_to(2);
        assert_eq!(waiter.join().unwrap(), Ok(2));
    });
    assert_eq!(library.calls.load(Ordering::Relaxed), 0);
}

/// Calls that wait themselves, as those of an MPI that calls functions of the program.
#[derive(Debug)]
struct Waits(ThreadId, Mutex<Vec<Advance>>, Signal);

impl Progress for Waits {
    fn advance(&self) -> Advance {
        if thread::current().id() == self.0 {
            let soon = Some(Instant::now() + Duration::from_micros(200));
            let waited = Signal::new(0).wait_until(1, &Policy::default(), soon);
            assert_eq!(waited, Err(crate::WaitError::TimedOut));
            self.1.lock().unwrap().push(advance());
            self.2.raise_to(1);
        }
        Advance::Idle
    }
}

#[test]
fn it_is_not_called_within_itself() {
    let waits = Arc::new(Waits(thread::current().id(), Mutex::default(), Signal::new(0)));
    let installed = install(Arc::<Waits>::clone(&waits));
    let minute = Some(Instant::now() + Duration::from_secs(60));
    assert_eq!(waits.2.wait_until(1, &Policy::default(), minute), Ok(1));
    drop(installed);
    let within = waits.1.lock().unwrap();
    assert!(!within.is_empty() && within.iter().all(|within| *within == Advance::NoPart));
}

#[test]
fn it_is_not_called_once_it_is_removed() {
    for _ in 0..50 {
        let (library, installed) = Library::installed(usize::MAX, Advance::Busy);
        thread::scope(|scope| {
            scope.spawn(|| {
                let soon = Some(Instant::now() + Duration::from_micros(300));
                let _ = Signal::new(0).wait_until(1, &Policy::default(), soon);
            });
            drop(installed);
            library.ended.store(true, Ordering::Relaxed);
        });
    }
}
