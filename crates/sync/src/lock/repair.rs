//! The repair of a queue after a death: see [`lock`](super).

use std::time::{Duration, Instant};

use syncline_signal::primitive::Ordering;
use syncline_signal::{Liveness, WaitError, asymmetric, plant};

use super::{HOLDING, IDLE, INSIDE, Lock, LockMember, Marks, MemberState, RawLock};
use crate::error::LockError;
use crate::membership::{FaultList, pause};

/// Names a death after which the queue has not been repaired.
///
/// Members know of no deaths but those after which it has been. So all who are in the queue are told of this one, and
/// whoever lets go may leave a broken queue to the repair. Of earlier deaths nobody would be told.
#[derive(Debug)]
pub(super) struct Unrepaired<'a> {
    pub(super) fault_list: Option<&'a FaultList>,
    pub(super) slots: &'a [MemberState],
    pub(super) marks: &'a Marks,
}

impl Liveness for Unrepaired<'_> {
    fn gone(&self) -> Option<u32> {
        // Relaxed: while one who asks is in the queue no repair ends.
        let covered = self.marks.covered.load(Ordering::Relaxed) as usize;
        let stuck = |process| stuck(self.slots, self.marks, process);
        self.fault_list
            .and_then(|fault_list| fault_list.missing(covered, stuck))
            .map(|rank| rank as u32)
    }
}

/// One who is in the queue, or at a repair, by a handle that was taken in this process.
pub(super) fn stuck(slots: &[MemberState], marks: &Marks, process: u32) -> Option<usize> {
    // Relaxed: what a process did that has ended happened before that was told, an Acquire of whoever knows it.
    let taken = |slot: &MemberState| slot.taken.load(Ordering::Relaxed) == u64::from(process);
    let queueing = |slot: &MemberState| taken(slot) && slot.state.load(Ordering::Relaxed) != IDLE;
    let repairer = || (marks.repairer.load(Ordering::Relaxed) as usize).checked_sub(1);
    slots.iter().position(queueing).or_else(|| repairer().filter(|&rank| taken(&slots[rank])))
}

impl<R: RawLock, T: Send> LockMember<R, T> {
    /// Whether who has the handle of a rank is known to be gone.
    fn gone(&self, rank: usize) -> bool {
        // Relaxed: what the dead did happened before the declaration, an Acquire there; the living change nothing in this,
        // as their number is another.
        self.waiting.gone(rank, self.lock.slots[rank].taken.load(Ordering::Relaxed))
    }

    /// Sees to it that the queue has been emptied since the deaths that this member knows of.
    pub(super) fn repair(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let (marks, known) = (self.lock.marks(), self.waiting.known as u64);
        let me = self.rank as u64 + 1;
        // Acquire: pairs with the Release below: the queue is as the repairer left it.
        while marks.covered.load(Ordering::Acquire) < known {
            // Acquire and Release: one repairer after the other.
            match marks.repairer.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => (),
                Err(other) if self.gone(other as usize - 1) => {
                    // It died at its work; whoever takes its place does all of it again.
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
            // Another may have done it since the look above, for more deaths than this member knows of: `covered` is not
            // to go back. Relaxed: one repairer after the other.
            let covered = marks.covered.load(Ordering::Relaxed);
            let mut done = Ok(());
            if covered < known {
                // One who died at it may have left a repair on.
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

    /// Waits for the end of another's repair, or a little if it has not begun.
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
        // The repairer may die, and be replaced by this member: so not for long.
        let soon = Instant::now() + Duration::from_millis(10);
        let until = deadline.map_or(soon, |deadline| deadline.min(soon));
        match repair.wait_until(now + 1, &self.waiting.policy(), Some(until)) {
            Err(WaitError::TimedOut) if until == soon => Ok(()),
            waited => waited.map(|_| ()).map_err(|error| self.told(error)),
        }
    }

    /// Whether anything may be left of those who are gone since then: of members, always; of processes that have ended
    /// when they had done their part, if they are in the queue.
    fn left_anything(&self, covered: u64) -> bool {
        let (fault_list, Lock { slots, marks, .. }) =
            (self.waiting.fault_list.as_ref(), &self.lock);
        let missing = |fault_list: &FaultList| {
            fault_list.missing(covered as usize, |process| stuck(slots, marks, process))
        };
        fault_list.and_then(missing).is_some()
    }

    /// Nothing is left of those who are gone that this member knows of.
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

    /// Waits until nobody but this member, and those who are gone, is in the queue.
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

    /// The number of a process that there is not.
    const NOBODY: u32 = u32::MAX;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(60))
    }

    fn a_process_ends_at_its_repair<R: RawLock>() {
        let fault_list = FaultList::within(&mut Space::heap(), 3).unwrap();
        let lock = Lock::<R, ()>::new(3, ()).unwrap().watching(&fault_list);
        let [mut mine, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
        // As a member of that process would have left it.
        lock.slots[2].taken.store(NOBODY.into(), Ordering::Relaxed);
        lock.marks().repairer.store(3, Ordering::Relaxed);
        lock.marks().repair.raise_to(1);
        // SAFETY: no handle was taken in it.
        unsafe { fault_list.process_ended(NOBODY, 0..0) };
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
        // SAFETY: no handle was taken in it.
        unsafe { fault_list.process_ended(NOBODY, 0..0) };
        let held = other.lock().unwrap();
        // It only waits for its turn.
        assert_eq!(mine.recover(Some(Instant::now())).unwrap_err(), LockError::TimedOut);
        let Marks { repair, covered, .. } = lock.marks();
        assert_eq!((repair.get(), covered.load(Ordering::Relaxed)), (0, 1));
        drop(held);
        drop(mine.lock_deadline(soon()).unwrap());
    }
}
