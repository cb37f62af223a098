//! The repair of a queue after a death: see [`lock`](super).

use std::time::{Duration, Instant};

use syncline_signal::primitive::Ordering;
use syncline_signal::{Liveness, WaitError, asymmetric, plant};

use super::{HOLDING, IDLE, INSIDE, Lock, LockMember, Marks, MemberState, RawLock};
use crate::error::LockError;
use crate::membership::{FaultList, pause};

/// Reports a death for which the queue has not been repaired.
///
/// Members ignore only deaths that a repair has covered. An uncovered death therefore ends the
/// waits of all members in the queue, and a release may leave a broken queue to the repair. A
/// covered death would end no wait, so it must not be reported here.
#[derive(Debug)]
pub(super) struct Unrepaired<'a> {
    pub(super) fault_list: Option<&'a FaultList>,
    pub(super) slots: &'a [MemberState],
    pub(super) marks: &'a Marks,
}

impl Liveness for Unrepaired<'_> {
    fn gone(&self) -> Option<u32> {
        // Relaxed: while the caller is in the queue, no repair ends.
        let covered = self.marks.covered.load(Ordering::Relaxed) as usize;
        let stuck = |process| stuck(self.slots, self.marks, process);
        self.fault_list
            .and_then(|fault_list| fault_list.missing(covered, stuck))
            .map(|rank| rank as u32)
    }
}

/// Returns a rank whose handle was taken in this process, and that is in the queue or at a repair.
pub(super) fn stuck(slots: &[MemberState], marks: &Marks, process: u32) -> Option<usize> {
    // Relaxed: everything a process did before it ended happens before its entry in the list, which
    // the caller has read with Acquire.
    let taken = |slot: &MemberState| slot.taken.load(Ordering::Relaxed) == u64::from(process);
    let queueing = |slot: &MemberState| taken(slot) && slot.state.load(Ordering::Relaxed) != IDLE;
    let repairer = || (marks.repairer.load(Ordering::Relaxed) as usize).checked_sub(1);
    slots.iter().position(queueing).or_else(|| repairer().filter(|&rank| taken(&slots[rank])))
}

impl<R: RawLock, T: Send> LockMember<R, T> {
    /// Returns whether the process or member that took the handle of a rank is known to be gone.
    fn gone(&self, rank: usize) -> bool {
        // Relaxed: what the dead did happens before their entry in the list, which is read with
        // Acquire; living members do not affect the result, as their process number differs.
        self.waiting.gone(rank, self.lock.slots[rank].taken.load(Ordering::Relaxed))
    }

    /// Ensures that the queue has been emptied since the deaths that this member ignores.
    pub(super) fn repair(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let (marks, known) = (self.lock.marks(), self.waiting.known as u64);
        let me = self.rank as u64 + 1;
        // Acquire: pairs with the Release below: the queue is as the repairer left it.
        while marks.covered.load(Ordering::Acquire) < known {
            // Acquire and Release: order one repairer after the other.
            match marks.repairer.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => (),
                Err(other) if self.gone(other as usize - 1) => {
                    // It died during its repair; its replacement repeats the whole repair.
                    let taken = marks.repairer.compare_exchange(
                        other,
                        me,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    if taken.is_err() {
                        continue;
                    }
                }
                Err(_) => {
                    self.until_repaired(deadline)?;
                    continue;
                }
            }
            // Another member may have repaired the queue since the load above, for more deaths than
            // this member has seen: `covered` must not decrease. Relaxed: ordered by `repairer`.
            let covered = marks.covered.load(Ordering::Relaxed);
            let mut done = Ok(());
            if covered < known {
                // A repairer that died may have left a repair in progress.
                if self.left_anything(covered) || !marks.repair.get().is_multiple_of(2) {
                    done = self.repair_alone(deadline);
                } else {
                    self.cover();
                }
            }
            // Release: pairs with the Acquire of the next repairer.
            marks.repairer.store(0, Ordering::Release);
            done?;
        }
        Ok(())
    }

    /// Waits for the end of another member's repair, or briefly if it has not begun.
    fn until_repaired(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let repair = &self.lock.marks().repair;
        let now = repair.get();
        if now.is_multiple_of(2) {
            pause();
            return match deadline {
                Some(deadline) if deadline <= Instant::now() => Err(LockError::TimedOut),
                _ => Ok(()),
            };
        }
        // Not for long: the repairer may die and have to be replaced by this member.
        let soon = Instant::now() + Duration::from_millis(10);
        let until = deadline.map_or(soon, |deadline| deadline.min(soon));
        match repair.wait_until(now + 1, &self.waiting.policy(), Some(until)) {
            Err(WaitError::TimedOut) if until == soon => Ok(()),
            waited => waited.map(|_| ()).map_err(|error| self.lock_error(error)),
        }
    }

    /// Returns whether entries after `covered` may have left anything in the queue: dead members
    /// always; processes that ended after doing their part only if they are in the queue.
    fn left_anything(&self, covered: u64) -> bool {
        let (fault_list, Lock { slots, marks, .. }) =
            (self.waiting.fault_list.as_ref(), &self.lock);
        let missing = |fault_list: &FaultList| {
            fault_list.missing(covered as usize, |process| stuck(slots, marks, process))
        };
        fault_list.and_then(missing).is_some()
    }

    /// Marks the faults that this member ignores as covered: nothing of them is left in the queue.
    fn cover(&self) {
        // Release: pairs with the Acquire in `repair`.
        self.lock.marks().covered.store(self.waiting.known as u64, Ordering::Release);
    }

    fn repair_alone(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let marks = self.lock.marks();
        let now = marks.repair.get();
        let on = now + u64::from(now.is_multiple_of(2));
        marks.repair.raise_to(on);
        if !plant::is("lock: repairs without a fence") {
            asymmetric::heavy();
        }
        let quiet = self.until_all_are_idle(deadline);
        if quiet.is_ok() {
            for (rank, slot) in self.lock.slots.iter().enumerate() {
                if self.gone(rank) && slot.state.load(Ordering::Relaxed) != IDLE {
                    if slot.state.load(Ordering::Relaxed) == HOLDING {
                        marks.poison.store(rank as u64 + 1, Ordering::Relaxed);
                    }
                    slot.state.store(IDLE, Ordering::Relaxed);
                }
            }
            self.lock.raw.reset(INSIDE);
            self.cover();
        }
        marks.repair.raise_to(on + 1);
        quiet
    }

    /// Waits until this member and those that are gone are the only ones that may be in the queue.
    fn until_all_are_idle(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let living = |&(rank, _): &(usize, &MemberState)| rank != self.rank && !self.gone(rank);
        for (_, slot) in self.lock.slots.iter().enumerate().filter(living) {
            // Acquire: pairs with the Release in `slot`.
            while slot.state.load(Ordering::Acquire) != IDLE {
                if deadline.is_some_and(|d| d <= Instant::now()) {
                    return Err(LockError::TimedOut);
                }
                if let Some(rank) = self.waiting.dead() {
                    return Err(self.waiting.gone_for(rank));
                }
                pause();
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Mcs, Ticket};
    use super::*;
    use crate::space::Space;

    /// A process number that no process has.
    const NO_PROCESS: u32 = u32::MAX;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(300))
    }

    fn a_process_ends_at_its_repair<R: RawLock>() {
        let fault_list = FaultList::within(&mut Space::heap(), 3).unwrap();
        let lock = Lock::<R, ()>::new(3, ()).unwrap().watching(&fault_list);
        let [mut mine, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
        // The state in which a member of that process would have left it.
        lock.slots[2].taken.store(NO_PROCESS.into(), Ordering::Relaxed);
        lock.marks().repairer.store(3, Ordering::Relaxed);
        lock.marks().repair.raise_to(1);
        // SAFETY: no handle was taken in a process of that number.
        unsafe { fault_list.process_ended(NO_PROCESS, 0..0) };
        assert_eq!(mine.lock_deadline(soon()).unwrap_err(), LockError::Dead { rank: 2 });
        drop(mine.recover(soon()).unwrap());
        drop(other.lock_deadline(soon()).unwrap());
        assert_eq!(lock.marks().repair.get(), 2);
    }

    #[test]
    fn who_ends_at_a_repair_is_replaced() {
        a_process_ends_at_its_repair::<Ticket>();
        a_process_ends_at_its_repair::<Mcs>();
    }

    #[test]
    fn a_process_that_left_nothing_needs_no_repair() {
        let fault_list = FaultList::within(&mut Space::heap(), 2).unwrap();
        let lock = Lock::<Ticket, ()>::new(2, ()).unwrap().watching(&fault_list);
        let [mut mine, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
        // SAFETY: no handle was taken in a process of that number.
        unsafe { fault_list.process_ended(NO_PROCESS, 0..0) };
        let held = other.lock().unwrap();
        // No repair is needed: `mine` only waits for its turn.
        assert_eq!(mine.recover(Some(Instant::now())).unwrap_err(), LockError::TimedOut);
        let Marks { repair, covered, .. } = lock.marks();
        assert_eq!((repair.get(), covered.load(Ordering::Relaxed)), (0, 1));
        drop(held);
        drop(mine.lock_deadline(soon()).unwrap());
    }
}
