//! How a process waits for whatever comes next: a message, the end of another process.
//!
//! # Contract
//! Every process of a farm has one bell, a [`Signal`]. A process that does something that another
//! may wait for does it first and rings afterwards. [`wait`] looks until what it looks for is
//! there; it never misses it, and never sleeps while it is there.
//!
//! | which  | step                                                                      |
//! |--------|---------------------------------------------------------------------------|
//! | waiter | looks for a while; notes how often it has rung; looks                     |
//! |        | sleeps until it has rung once more; begins again                          |
//! | others | a message in its slot (or the end of a process in its record); then rings |
//!
//! A ring that comes before the note was of something that the look after the note sees; a later
//! one ends the sleep.
//!
//! # Costs
//! To ring: one read-modify-write of a line that no other process touches as long as the waiter
//! finds what it waits for before it thinks of sleep; a system call if it sleeps.
//!
//! # Death
//! A process that is killed between ringing and the system call that wakes leaves a sleeper asleep,
//! and its mark gone. So the process that tells of a death rings all bells and wakes all sleepers,
//! whatever the marks say ([`ring_for_a_death`]). Where no process tells of deaths, among the
//! members of a team, the policy watches for them, and looks now and then.
//!
//! # Source
//! Event counts (Reed and Kanodia, "Synchronization with eventcounts and sequencers", CACM 22,
//! 1979).

use std::time::{Duration, Instant};

use syncline_signal::primitive::{hint, yield_now};
use syncline_signal::{Policy, Signal, WaitError, plant};

/// Straight to sleep: the looks are over.
const ASLEEP: Policy<'_> = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };

/// Spins between deadline checks; about 1 ms.
const MANY: u32 = 1 << 14;

/// Looks until there is something, or something is wrong; `None` when the deadline passes first.
pub(crate) fn wait<T, E>(
    bell: &Signal,
    policy: &Policy<'_>,
    deadline: Option<Instant>,
    mut look: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    loop {
        // A model would explore every number of looks.
        if !cfg!(loom)
            && let Some(found) = look_on(policy, deadline, &mut look)?
        {
            return Ok(Some(found));
        }
        let seen = bell.get();
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        match bell.wait_until(seen + 1, &Policy { liveness: policy.liveness, ..ASLEEP }, deadline) {
            Ok(_) => (),
            Err(WaitError::TimedOut) => return look(),
            // A death ends every wait from now on, and does not tell whether the deadline has passed.
            Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return look(),
            // The next look sees which process it is; if it does not matter, that is not to be all
            // that is done.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Rings for a process that has died, perhaps while it was about to wake the sleeper here.
pub(crate) fn ring_for_a_death(bell: &Signal) {
    bell.increment();
    if !plant::is("bell: trusts the dead") {
        bell.wake();
    }
}

/// Looks, with the pauses and yields of the policy in between.
fn look_on<T, E>(
    policy: &Policy<'_>,
    deadline: Option<Instant>,
    look: &mut impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for pause in 1..=policy.pauses {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        hint::spin_loop();
        if pause % MANY == 0 && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(None);
        }
    }
    if policy.yield_for.is_zero() {
        return Ok(None);
    }
    let until = Instant::now().checked_add(policy.yield_for);
    let until = deadline
        .map_or(until, |deadline| Some(until.map_or(deadline, |until| deadline.min(until))));
    while until.is_none_or(|until| Instant::now() < until) {
        yield_now();
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use syncline_signal::death::DeathWord;

    use super::*;

    /// Also when the wait is for something else, such as a message of one that lives.
    #[test]
    fn a_deadline_holds_after_a_death() {
        let (bell, fault_list) = (Signal::new(0), DeathWord::new());
        fault_list.declare(7);
        let policy = Policy::default().watching(&fault_list);
        let deadline = Instant::now() + Duration::from_millis(5);
        let found = wait(&bell, &policy, Some(deadline), || Ok::<Option<()>, ()>(None));
        assert_eq!(found, Ok(None));
        assert!(Instant::now() >= deadline);
    }
}
