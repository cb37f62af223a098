//! A count of events on which one thread sleeps that waits for a condition of any kind.
//!
//! # Contract
//! A [`Signal`] is a number that a thread waits for. An event count is for a condition that stands
//! in other words: a message in one of many slots, a task in one of many queues. A thread that
//! wants to sleep notes the count, looks, and sleeps until the count has changed. A thread that
//! makes the condition true does so first, and *notifies* afterwards. No event is missed, and no
//! thread sleeps while its condition is true.
//!
//! Each event count has one waiter at a time, and any number of notifiers, which may be threads of
//! other processes: it has no pointers, all zero bytes are its first state, and it may stand in
//! memory shared between processes.
//!
//! # Two ways to notify
//! | waiter             | notifier that always counts |
//! |--------------------|-----------------------------|
//! | `seen = prepare()` | makes the condition true    |
//! | looks              | `notify()`                  |
//! | `wait(seen)`       |                             |
//!
//! A notification before `prepare` was for a condition that the look sees; a later one ends the
//! `wait`. The notification is a read-modify-write, the waiter needs no fence.
//!
//! | waiter                            | notifier that counts for a sleeper only |
//! |-----------------------------------|-----------------------------------------|
//! | `seen = announce()`: its mark     | makes the condition true                |
//! | (a fence, the end of `announce`)  | a fence, or a section of the look's     |
//! | looks                             | `notify_announced()`: looks at the mark |
//! | `wait(seen)`, if it found nothing |                                         |
//! | `cancel()`                        |                                         |
//!
//! One of the two fences comes first (Dekker): either the waiter's look sees the condition, or the
//! notifier sees the mark. The fence of the notifier is its own business, as it may have one
//! already.
//!
//! # State
//! ```text
//! events     a signal: the number of notifications, and the bit "a thread sleeps"
//! announced  ──announce──> 1 ──notify_announced (takes it, then counts)──> 0
//!                          1 ──cancel──────────────────────────────────> 0
//! ```
//! The notifier that takes the mark, and no other, counts. If it is late, the waiter has cancelled
//! meanwhile, and its next sleep may end too early; it looks again then, as after every sleep.
//!
//! # Memory ordering
//! What came before a notification is seen by the waiter that it wakes: the count is raised with
//! release, and read with acquire, by [`prepare`](EventCount::prepare) and by the wait. The same
//! holds between `announce` and the notifier that takes the mark.
//!
//! # Costs
//! While the waiter does not sleep:
//!
//! | operation             | cost                                                 |
//! |-----------------------|------------------------------------------------------|
//! | `notify`              | one read-modify-write                                |
//! | `notify_announced`    | one load, besides the fence or section of the caller |
//! | `wait_for` that finds | the looks                                            |
//!
//! Only notifiers touch the line as long as the waiter finds what it looks for without `prepare`.
//! To sleep: a load for `prepare`; two read-modify-writes and a fence for `announce` and `cancel`.
//! To wake: a system call if the waiter is past its yields.
//!
//! # Death
//! A process that is killed between its count and the system call that wakes leaves the waiter
//! asleep, and the bit gone. So the process that tells of a death notifies all waiters by
//! [`notify_for_dead`](EventCount::notify_for_dead), which wakes whatever the bit says. Where no
//! process tells of deaths, the policy of the wait names a watch. Nothing mends a mark that a
//! killed notifier has taken: `notify_announced` is for threads of one process, or for waits with a
//! deadline.
//!
//! # Source
//! Reed and Kanodia, "Synchronization with eventcounts and sequencers" (CACM 22, 1979): `prepare`
//! is their *read*, `wait` their *await*, `notify` their *advance*. Announcing and cancelling are
//! those of the event counts of D. Vyukov, Eigen and folly; rayon's sleep module is another.
//! Changed: one waiter per count in place of a list, so that a notifier chooses which thread it
//! wakes (its own process, the worker of a task's home).

use std::time::{Duration, Instant};

use crate::plant;
use crate::primitive::{AtomicU32, Ordering, fence};
use crate::{Policy, Signal, WaitError, spin_wait::SpinWait};

/// A count of events on which one thread sleeps until a condition of any kind is true.
///
/// The waiter calls [`wait_for`](Self::wait_for), which looks and sleeps; a notifier makes the
/// condition true and calls [`notify`](Self::notify), which costs a read-modify-write.
///
/// Where that is too much, the waiter marks itself as a sleeper by [`announce`](Self::announce),
/// looks, [`wait`](Self::wait)s if it found nothing, and [`cancel`](Self::cancel)s. A notifier
/// makes the condition true, passes a sequentially consistent fence, and calls
/// [`notify_announced`](Self::notify_announced), which is a load while the waiter is awake.
///
/// There is one waiter at a time, and any number of notifiers, in any process: the count has no
/// pointers, and all zero bytes are its first state. It is alone on a pair of cache lines (128
/// bytes), as its notifiers run on other cores.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use syncline_signal::{Policy, event_count::EventCount};
///
/// let (mail, events) = (AtomicBool::new(false), EventCount::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         mail.store(true, Ordering::Relaxed); // first the condition ...
///         events.notify(); // ... then the notification, which publishes it
///     });
///     let look = || Ok::<_, ()>(mail.load(Ordering::Relaxed).then_some("mail"));
///     assert_eq!(events.wait_for(&Policy::default(), None, look), Ok(Some("mail")));
/// });
/// ```
#[repr(C, align(128))]
#[derive(Debug)]
pub struct EventCount {
    /// The number of notifications.
    events: Signal,
    /// 1: the waiter has announced that it is about to sleep, and no notifier has taken that yet.
    announced: AtomicU32,
}

impl EventCount {
    /// A count of no events.
    #[must_use]
    pub fn new() -> Self {
        EventCount { events: Signal::new(0), announced: AtomicU32::new(0) }
    }

    /// The number of events so far, to [`wait`](Self::wait) for the next one after a look.
    ///
    /// # Memory ordering
    /// Acquire: a look that follows sees what came before the notifications that are counted.
    #[inline]
    #[must_use]
    pub fn prepare(&self) -> u64 {
        self.events.get()
    }

    /// As [`prepare`](Self::prepare), and marks the waiter as a sleeper for
    /// [`notify_announced`](Self::notify_announced). It must look before it waits, and
    /// [`cancel`](Self::cancel) afterwards, whether it has waited or not.
    ///
    /// # Memory ordering
    /// Release, and a sequentially consistent fence: what came before is seen by the notifier that
    /// takes the mark, and a notifier that does not see the mark has its condition seen by the
    /// look, if it has such a fence in between as well.
    #[must_use]
    pub fn announce(&self) -> u64 {
        let seen = self.prepare();
        // Not a store: behind the exchange of a late notifier it must be the newest value, which
        // the next notifier sees. Release: pairs with the Acquire in `notify_announced`.
        if plant::is("event count: announces by a store") {
            self.announced.store(1, Ordering::Release);
        } else {
            self.announced.swap(1, Ordering::Release);
        }
        if !plant::is("event count: no fence") {
            // SeqCst: pairs with the fence of the notifier (Dekker's pattern). No weaker fence
            // orders a store before a later load.
            fence(Ordering::SeqCst);
        }
        seen
    }

    /// Takes the mark of [`announce`](Self::announce) back. False if a notifier has taken it: that
    /// one counts, or has counted, an event for the waiter.
    pub fn cancel(&self) -> bool {
        // Relaxed: the mark is the waiter's own; the count publishes what a notifier has done.
        self.announced.swap(0, Ordering::Relaxed) != 0
    }

    /// Sleeps until there have been more events than `seen`, after the pauses and yields of
    /// `policy`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`], or [`WaitError::Dead`] if the watch of `policy` names a partner. An
    /// event wins over both.
    pub fn wait(
        &self,
        seen: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.events.wait_until(seen + 1, policy, deadline).map(|_| ())
    }

    /// Counts an event, and wakes the waiter if it sleeps.
    ///
    /// # Memory ordering
    /// Release: pairs with the acquire in [`prepare`](Self::prepare) and in the waits.
    #[inline]
    pub fn notify(&self) {
        if plant::is("event count: wakes without counting") {
            return self.events.wake();
        }
        self.events.increment();
    }

    /// As [`notify`](Self::notify), if the waiter has announced itself and no other notifier has
    /// taken that. Returns whether it has counted.
    ///
    /// The caller has made the condition true before, and has a sequentially consistent fence in
    /// between, or a critical section that the waiter's look enters as well.
    ///
    /// # Memory ordering
    /// Acquire, if it returns true: what the waiter did before it announced itself comes first.
    #[inline]
    pub fn notify_announced(&self) -> bool {
        // The load alone keeps the line shared while the waiter has not announced itself. Acquire:
        // pairs with the Release in `announce`.
        let takes = self.announced.load(Ordering::Relaxed) != 0
            && self.announced.swap(0, Ordering::Acquire) != 0;
        if takes {
            self.notify();
        }
        takes
    }

    /// Counts an event for a process that has died, perhaps while it was about to wake the waiter,
    /// and wakes the waiter in any case.
    pub fn notify_for_dead(&self) {
        self.events.increment();
        if !plant::is("event count: trusts the dead") {
            self.events.wake();
        }
    }

    /// Waits until `look` finds something or fails, and returns that; `None` when `deadline` passes
    /// first.
    ///
    /// It looks first, goes on with the pauses and yields of `policy` in between, and touches the
    /// count only before it sleeps. A death does not end the wait, as the condition may be that of
    /// a partner that lives: `look` decides, and is called again soon.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn wait_for<T, E>(
        &self,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
        mut look: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        /// The look phase is over by then.
        const ASLEEP: Policy<'_> = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };
        loop {
            let mut spin = SpinWait::new(policy, deadline);
            loop {
                if let Some(found) = look()? {
                    return Ok(Some(found));
                }
                if !spin.spin() {
                    break;
                }
            }
            let early = plant::is("event count: prepares after the last look");
            let mut seen = self.prepare();
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            if early {
                seen = self.prepare();
            }
            match self.wait(seen, &Policy { liveness: policy.liveness, ..ASLEEP }, deadline) {
                Ok(()) => (),
                Err(WaitError::TimedOut) => return look(),
                // A death ends every wait from now on, before the deadline is asked for.
                Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return look();
                }
                // The next look sees which process has died. If that does not matter to it, it is
                // not called without a break.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// For models: counts an event as a process does that is killed before it wakes the waiter.
    #[cfg(loom)]
    pub fn notify_and_die(&self) {
        self.events.add_and_die();
    }
}

impl Default for EventCount {
    fn default() -> Self {
        EventCount::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::liveness::FirstDeath;

    const ASLEEP: Policy<'_> = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };

    #[test]
    fn it_has_a_pair_of_lines_to_itself() {
        assert_eq!((size_of::<EventCount>(), align_of::<EventCount>()), (128, 128));
    }

    /// Also where the wait is for something else, such as a message of a partner that lives.
    #[test]
    fn a_deadline_holds_after_a_death() {
        let (events, death) = (EventCount::new(), FirstDeath::default());
        death.declare(7);
        let policy = Policy::default().watching(&death);
        let deadline = Instant::now() + Duration::from_millis(5);
        let found = events.wait_for(&policy, Some(deadline), || Ok::<Option<()>, ()>(None));
        assert_eq!(found, Ok(None));
        assert!(Instant::now() >= deadline);
    }

    #[test]
    fn what_is_there_wins_over_the_deadline_and_failures_end_a_wait() {
        let (events, past) = (EventCount::new(), Some(Instant::now()));
        assert_eq!(events.wait_for(&ASLEEP, past, || Ok::<_, ()>(Some(3))), Ok(Some(3)));
        assert_eq!(events.wait_for(&ASLEEP, past, || Ok::<Option<()>, ()>(None)), Ok(None));
        assert_eq!(events.wait_for(&ASLEEP, None, || Err::<Option<()>, _>("gone")), Err("gone"));
    }

    #[test]
    fn only_an_announced_waiter_is_notified_and_once() {
        let events = EventCount::new();
        assert!(!events.notify_announced());
        let seen = events.announce();
        assert!(events.notify_announced() && !events.notify_announced());
        assert_eq!(events.wait(seen, &ASLEEP, None), Ok(()));
        assert!(!events.cancel(), "the notifier has taken the mark");
        let _ = events.announce();
        assert!(events.cancel() && !events.notify_announced());
    }

    #[test]
    fn many_events_and_sleeps_lose_nothing() {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
        let (events, ready, taken) = (EventCount::new(), AtomicBool::new(false), EventCount::new());
        let deadline = Some(Instant::now() + Duration::from_secs(300));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let look = || Ok::<_, ()>(ready.swap(false, Ordering::Relaxed).then_some(()));
                    assert_eq!(events.wait_for(&ASLEEP, deadline, look), Ok(Some(())));
                    taken.notify();
                }
            });
            for round in 0..ROUNDS as u64 {
                ready.store(true, Ordering::Relaxed);
                events.notify();
                assert_eq!(taken.wait(round, &ASLEEP, deadline), Ok(()));
            }
        });
    }
}
