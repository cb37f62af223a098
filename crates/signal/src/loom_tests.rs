//! Models. Run with `make loom`.

// A thread that is stuck in a planted model may be unwound outside of the model, where loom's own
// reference counts cannot be dropped.
use std::sync::Arc as Shared;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::thread;

use crate::progress::{Advance, Progress, install};
use crate::{AddError, Policy, Signal, event_count::EventCount, plant, spinlock::SpinLock};

/// All interleavings with at most three preemptions. Two are known to show nearly every bug
/// (Musuvathi and Qadeer 2007), and the models with three threads take minutes without a bound.
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

/// A condition, the event count that belongs to it, and a datum that the notifier writes before.
#[derive(Default)]
struct Mail {
    here: AtomicBool,
    datum: AtomicU32,
    events: EventCount,
}

impl Mail {
    /// Relaxed, as the event count is what publishes.
    fn put(&self) {
        self.datum.store(1, Ordering::Relaxed);
        self.here.store(true, Ordering::Relaxed);
    }

    fn look(&self) -> Result<Option<()>, ()> {
        Ok(self.here.load(Ordering::Relaxed).then_some(()))
    }

    fn wait(&self) {
        let found = self.events.wait_for(&Policy::default(), None, || self.look());
        assert_eq!(found, Ok(Some(())));
    }
}

/// A waiter finds what is there, or is woken for it.
fn notify_and_wait() {
    model(|| {
        let mail = Shared::new(Mail::default());
        let notifier = {
            let mail = Shared::clone(&mail);
            thread::spawn(move || {
                mail.put();
                mail.events.notify();
            })
        };
        mail.wait();
        notifier.join().unwrap();
    });
}

#[test]
fn no_event_is_missed() {
    notify_and_wait();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_count_that_is_read_after_the_last_look_is_noticed() {
    plant::with("event count: prepares after the last look", notify_and_wait);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wake_up_that_is_not_counted_is_noticed() {
    plant::with("event count: wakes without counting", notify_and_wait);
}

/// A waiter that sleeps twice sees the datum of the event that woke it.
#[test]
fn a_wait_sees_what_came_before_its_event() {
    model(|| {
        let mail = Shared::new(Mail::default());
        let notifier = {
            let mail = Shared::clone(&mail);
            thread::spawn(move || {
                mail.put();
                mail.events.notify();
            })
        };
        mail.events.wait(0, &Policy::default(), None).unwrap();
        assert_eq!((mail.look(), mail.datum.load(Ordering::Relaxed)), (Ok(Some(())), 1));
        notifier.join().unwrap();
    });
}

/// A waiter announces itself, and a notifier counts only if it sees that.
fn announce_and_notify() {
    model(|| {
        let mail = Shared::new(Mail::default());
        let notifier = {
            let mail = Shared::clone(&mail);
            thread::spawn(move || {
                mail.put();
                if !plant::is("event count: notifier without a fence") {
                    // SeqCst: pairs with the fence in `announce`.
                    fence(Ordering::SeqCst);
                }
                mail.events.notify_announced()
            })
        };
        let mut waits = 0;
        let mut cancelled = 0;
        loop {
            let last_look = plant::is("event count: announces after the last look")
                .then(|| mail.look().unwrap().is_some());
            let seen = mail.events.announce();
            let found = last_look.unwrap_or_else(|| mail.look().unwrap().is_some());
            if !found {
                mail.events.wait(seen, &Policy::default(), None).unwrap();
                waits += 1;
            }
            cancelled += u32::from(mail.events.cancel());
            if found {
                break;
            }
        }
        // The notifier is late where it has taken a mark for which there was no wait.
        assert!(waits <= 1, "it was woken for nothing");
        let counted = notifier.join().unwrap();
        assert!(counted || cancelled >= 1, "a mark is taken by one of the two");
        assert_eq!(mail.events.prepare(), u64::from(counted));
    });
}

#[test]
fn an_announced_waiter_is_woken() {
    announce_and_notify();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_announcement_without_a_fence_is_noticed() {
    plant::with("event count: no fence", announce_and_notify);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_notifier_without_a_fence_is_noticed() {
    plant::with("event count: notifier without a fence", announce_and_notify);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_announcement_after_the_last_look_is_noticed() {
    plant::with("event count: announces after the last look", announce_and_notify);
}

/// Two notifiers see one announcement: one of them counts, and the waiter's next sleep is not lost
/// to the one that comes late.
fn two_notifiers() {
    model(|| {
        let shared =
            Shared::new((EventCount::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
        let notifiers = [0, 1].map(|i| {
            let shared = Shared::clone(&shared);
            thread::spawn(move || {
                shared.1[i].store(true, Ordering::Release);
                // SeqCst: pairs with the fence in `announce`.
                fence(Ordering::SeqCst);
                shared.0.notify_announced()
            })
        });
        for condition in &shared.1 {
            // Acquire: pairs with the Release of the notifier.
            while !condition.load(Ordering::Acquire) {
                let seen = shared.0.announce();
                if !condition.load(Ordering::Acquire) {
                    shared.0.wait(seen, &Policy::default(), None).unwrap();
                }
                shared.0.cancel();
            }
        }
        let counted = notifiers.map(|notifier| u64::from(notifier.join().unwrap()));
        assert_eq!(shared.0.prepare(), counted[0] + counted[1]);
    });
}

#[test]
fn a_late_notifier_takes_no_sleep_from_another() {
    two_notifiers();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_announcement_by_a_store_is_noticed() {
    plant::with("event count: announces by a store", two_notifiers);
}

/// A process counts an event, and is killed before the system call that wakes: the bit of the
/// sleeper is gone. Its death is told.
fn killed_while_it_notifies() {
    model(|| {
        let mail = Shared::new(Mail::default());
        let killed = {
            let mail = Shared::clone(&mail);
            thread::spawn(move || {
                mail.put();
                mail.events.notify_and_die();
            })
        };
        let reaper = {
            let mail = Shared::clone(&mail);
            thread::spawn(move || {
                killed.join().unwrap();
                mail.events.notify_for_dead();
            })
        };
        mail.wait();
        reaper.join().unwrap();
    });
}

#[test]
fn a_notifier_that_is_killed_leaves_no_waiter_asleep() {
    killed_while_it_notifies();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_bit_that_the_dead_have_taken_is_noticed() {
    plant::with("event count: trusts the dead", killed_while_it_notifies);
}

/// A library whose second call completes what a partner needs.
#[derive(Debug, Default)]
struct Library {
    calls: AtomicU32,
    complete: Signal,
}

#[derive(Debug)]
struct OfFirst(thread::ThreadId, Shared<Library>);

impl Progress for OfFirst {
    fn advance(&self) -> Advance {
        if thread::current().id() != self.0 {
            return Advance::NoPart;
        }
        let library = &self.1;
        library.complete.raise_to(u64::from(library.calls.fetch_add(1, Ordering::Relaxed)) + 1);
        Advance::Idle
    }
}

/// A thread waits for a partner, which waits for what the calls of the first one complete.
fn wait_for_a_partner_that_needs_calls() {
    model(|| {
        let (library, done) = (Shared::new(Library::default()), Shared::new(Signal::new(0)));
        let first = OfFirst(thread::current().id(), Shared::clone(&library));
        let installed = install(Shared::new(first));
        let partner = {
            let (library, done) = (Shared::clone(&library), Shared::clone(&done));
            thread::spawn(move || {
                wait(&library.complete, 2);
                done.raise_to(1);
            })
        };
        wait(&done, 1);
        drop(installed);
        partner.join().unwrap();
    });
}

#[test]
fn a_wait_makes_the_progress_that_its_partner_needs() {
    wait_for_a_partner_that_needs_calls();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wait_that_makes_no_progress_is_noticed() {
    plant::with("progress: never made", wait_for_a_partner_that_needs_calls);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_wait_that_makes_progress_once_is_noticed() {
    plant::with("progress: made once", wait_for_a_partner_that_needs_calls);
}
