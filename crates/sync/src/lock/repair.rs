//! The repair of a queue after a death: see [`lock`](super).

use std::time::{Duration, Instant};

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{WaitError, Watch, asymmetric, plant};

use super::{Desk, HOLDING, IDLE, INSIDE, LockMember, RawLock};
use crate::error::LockError;
use crate::vigil::{Deaths, pause};

/// Names a death after which the queue has not been repaired.
///
/// Members know of no deaths but those after which it has been. So all who are in the queue are told of this one, and
/// whoever lets go may leave a broken queue to the repair. Of earlier deaths nobody would be told.
#[derive(Debug)]
pub(super) struct Unrepaired<'a> {
    pub(super) deaths: Option<&'a Deaths>,
    pub(super) desks: &'a [Desk],
    pub(super) covered: &'a AtomicU64,
}

impl Watch for Unrepaired<'_> {
    fn who(&self) -> Option<u32> {
        // Relaxed: while one who asks is in the queue no repair ends.
        let covered = self.covered.load(Ordering::Relaxed) as usize;
        let stuck = |process| stuck(self.desks, process);
        self.deaths.and_then(|deaths| deaths.missing(covered, stuck)).map(|rank| rank as u32)
    }
}

/// One who is in the queue by a handle that was taken in this process.
pub(super) fn stuck(desks: &[Desk], process: u32) -> Option<usize> {
    // Relaxed: what a process did that has ended happened before that was told, an Acquire of whoever knows it.
    let of = |desk: &Desk| {
        desk.taken.load(Ordering::Relaxed) == u64::from(process) && desk.state.load(Ordering::Relaxed) != IDLE
    };
    desks.iter().position(of)
}

impl<R: RawLock, T: Send> LockMember<R, T> {
    /// Whether who has the handle of a rank is known to be gone.
    fn gone(&self, rank: usize) -> bool {
        // Relaxed: what the dead did happened before the declaration, an Acquire there; the living change nothing in this,
        // as their number is another.
        self.patience.gone(rank, self.lock.desks[rank].taken.load(Ordering::Relaxed))
    }

    /// Sees to it that the queue has been emptied since the deaths that this member knows of.
    pub(super) fn repair(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let (marks, known) = (self.lock.marks(), self.patience.known as u64);
        let me = self.rank as u64 + 1;
        // Acquire: pairs with the Release below: the queue is as the repairer left it.
        while marks.covered.load(Ordering::Acquire) < known {
            // Acquire and Release: one repairer after the other.
            match marks.repairer.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => (),
                Err(other) if self.gone(other as usize - 1) => {
                    // It died at its work; whoever takes its place does all of it again.
                    let taken =
                        marks.repairer.compare_exchange(other, me, Ordering::AcqRel, Ordering::Relaxed);
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
            let needed = marks.covered.load(Ordering::Relaxed) < known;
            let done = if needed { self.repair_alone(deadline) } else { Ok(()) };
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
        match repair.wait_until(now + 1, &self.patience.policy(), Some(until)) {
            Err(WaitError::TimedOut) if until == soon => Ok(()),
            waited => waited.map(|_| ()).map_err(|error| self.told(error)),
        }
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
            for (rank, desk) in self.lock.desks.iter().enumerate() {
                if self.gone(rank) && desk.state.load(Ordering::Relaxed) != IDLE {
                    if desk.state.load(Ordering::Relaxed) == HOLDING {
                        marks.poison.store(rank as u64 + 1, Ordering::Relaxed);
                    }
                    desk.state.store(IDLE, Ordering::Relaxed);
                }
            }
            self.lock.raw.reset(INSIDE);
            // Release: pairs with the Acquire in `repair`.
            marks.covered.store(self.patience.known as u64, Ordering::Release);
        }
        marks.repair.raise_to(on + 1);
        quiet
    }

    /// Waits until nobody but this member, and those who are gone, is in the queue.
    fn until_all_are_idle(&self, deadline: Option<Instant>) -> Result<(), LockError> {
        let living = |&(rank, _): &(usize, &Desk)| rank != self.rank && !self.gone(rank);
        for (_, desk) in self.lock.desks.iter().enumerate().filter(living) {
            // Acquire: pairs with the Release in `desk`.
            while desk.state.load(Ordering::Acquire) != IDLE {
                if deadline.is_some_and(|d| d <= Instant::now()) {
                    return Err(LockError::TimedOut);
                }
                if let Some(rank) = self.patience.dead() {
                    return Err(LockError::Dead { rank });
                }
                pause();
            }
        }
        Ok(())
    }
}
