//! The team state: the words at the beginning of a team's segment, which launcher and processes
//! share.
//!
//! ```text
//! | ledger of the space | phase of process 0, 1, ... | died | things made by rank 0, 1, ... |
//!                         not begun > begun             how many | ENDED
//!                         > done > departed
//!
//! | order of ends | the dead | calls | team barrier | ... |
//! ```
//!
//! # Members and processes
//! The list of the dead names members that are missed, and ends waits for them. A member that has
//! left early or has panicked is in the list, though its process lives. A separate word for each
//! process records that the process has died. The end of a job depends on that word: see
//! [`ProcessState`].
//!
//! # Members that end too early
//! Every object that members make needs all of them. So a member that ends when it has made fewer
//! objects than another would be waited for without end; it is given up. The member that ends and
//! the member that makes both write their own word and then read the words of the others, with a
//! fence in between: at least one of the two sees the other.

use rustix::io::Errno;
use rustix::process::Pid;
use syncline_signal::primitive::{AtomicU64, Ordering, fence};
use syncline_sync::{
    Fault, Space, SpaceError, call_matching::Calls, membership::FaultList, space::Array,
};

use crate::error::ProcessPhase;

/// The phase of a process: the lower half of its word. The upper half is its PID as the process
/// itself sees it.
const NOT_BEGUN: u64 = 0;
const BEGUN: u64 = 1;
const DONE: u64 = 2;
const DEPARTED: u64 = 3;
const NUMBER: u32 = 32;
/// In a member's word: the member has ended.
const ENDED: u64 = 1 << 63;

/// The state of a process with regard to the end of the team. The faults of its members do not give
/// it: the process of a member that has [left](Fault::Left) early or has panicked lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// The process lives and is not done. Its members run, or have left early.
    Alive,
    /// All of its members have ended.
    Done,
    /// The process has exited before all others were done, or is taken for dead.
    Died,
}

/// The phase of each process and the list of the dead. A clone refers to the same words.
#[derive(Clone, Debug)]
pub(crate) struct TeamState {
    parts: Array<AtomicU64>,
    /// 1 for each process that has died.
    died: Array<AtomicU64>,
    things: Array<AtomicU64>,
    /// The number of members that have ended; then, for each member, the position of its end in
    /// that order.
    ends: Array<AtomicU64>,
    pub(crate) fault_list: FaultList,
    /// The calls that members are blocked in.
    pub(crate) calls: Calls,
}

impl TeamState {
    /// Allocates the team state; it comes first in a space.
    pub(crate) fn within(
        space: &mut Space,
        processes: usize,
        members: usize,
    ) -> Result<TeamState, SpaceError> {
        let (parts, died) = (space.array(processes)?, space.array(processes)?);
        let (things, ends) = (space.array(members)?, space.array(members + 1)?);
        let (fault_list, calls) =
            (FaultList::within(space, members)?, Calls::within(space, members)?);
        Ok(TeamState { parts, died, things, ends, fault_list, calls })
    }

    /// Sets the groups of members that have barriers of their own.
    pub(crate) fn grouped(self, group: impl Fn(usize) -> usize) -> TeamState {
        TeamState { calls: self.calls.grouped(group), ..self }
    }

    /// Whether this process may begin. It may not if it has the PID of a process that has ended:
    /// all that it acquires would be taken for the remains of that process.
    pub(crate) fn is_new(&self) -> bool {
        !self.fault_list.has_ended(std::process::id())
    }

    /// Marks a process as begun; returns false if it has begun before.
    pub(crate) fn begin(&self, process: usize) -> bool {
        let begun = u64::from(std::process::id()) << NUMBER | BEGUN;
        // Relaxed, here and below: no other memory depends on the word. The launcher reads it when
        // the process has exited.
        self.parts[process]
            .compare_exchange(NOT_BEGUN, begun, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks a process as done: all of its members have ended.
    pub(crate) fn finish(&self, process: usize) {
        let done = u64::from(std::process::id()) << NUMBER | DONE;
        self.parts[process].store(done, Ordering::Relaxed);
    }

    /// Marks a process as departed: it is done, and each other process is done or has died, so this
    /// process may exit.
    pub(crate) fn depart(&self, process: usize) {
        let departed = u64::from(std::process::id()) << NUMBER | DEPARTED;
        self.parts[process].store(departed, Ordering::Relaxed);
    }

    /// Whether a process may exit.
    pub(crate) fn has_departed(&self, process: usize) -> bool {
        self.parts[process].load(Ordering::Relaxed) & u64::from(u32::MAX) == DEPARTED
    }

    /// Marks a process as died, or taken for dead, whatever it sends later. The caller has reported
    /// its members before.
    pub(crate) fn set_died(&self, process: usize) {
        // Release: pairs with the Acquire in `has_died`, so that the reports on its members are
        // visible with it.
        self.died[process].store(1, Ordering::Release);
    }

    /// Whether a process has died, or is taken for dead.
    pub(crate) fn has_died(&self, process: usize) -> bool {
        // Acquire: pairs with the Release in `set_died`.
        self.died[process].load(Ordering::Acquire) != 0
    }

    /// Returns the state of a process of this host.
    pub(crate) fn standing(&self, process: usize) -> ProcessState {
        match self.part(process) {
            _ if self.has_died(process) => ProcessState::Died,
            ProcessPhase::Done => ProcessState::Done,
            ProcessPhase::NotBegun | ProcessPhase::Begun => ProcessState::Alive,
        }
    }

    /// Returns the phase of a process.
    pub(crate) fn part(&self, process: usize) -> ProcessPhase {
        match self.parts[process].load(Ordering::Relaxed) & u64::from(u32::MAX) {
            NOT_BEGUN => ProcessPhase::NotBegun,
            BEGUN => ProcessPhase::Begun,
            _ => ProcessPhase::Done,
        }
    }

    /// Records that the child that was started for a process has ended and has been collected: its
    /// members are dead, unless they have done their part. If the process has certainly ended,
    /// locks pass on what it held. `well` means that the process is known to have exited with 0:
    /// then its members have left, and are not dead. Otherwise the process has died, unless it was
    /// allowed to exit.
    pub(crate) fn process_ended(
        &self,
        process: usize,
        child: u32,
        ranks: std::ops::Range<usize>,
        well: bool,
    ) {
        let number = (self.parts[process].load(Ordering::Relaxed) >> NUMBER) as u32;
        // A script may have started the process, and have ended before it.
        let exists = |number: u32| {
            let pid = Pid::from_raw(number as i32);
            pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
        };
        let gone = number == child || !exists(number);
        // The members of a process that is done are missed only where they have left something
        // behind.
        let missed = if self.part(process) == ProcessPhase::Done { 0..0 } else { ranks };
        if gone {
            // SAFETY: the process with this PID has ended. Either it is the child: the launcher has
            // seen by its pidfd that it ended, and has collected it. Or no process has this PID,
            // which a live process would keep. (A child in a PID namespace of its own has another
            // number here: a launched program must not be put into one.) Handles that the process
            // had taken ended with it, whichever thread or static held them.
            unsafe {
                match well {
                    true => self.fault_list.process_exited(number, missed),
                    false => self.fault_list.process_ended(number, missed),
                }
            };
        } else {
            let seen = |rank| if well { Fault::Left { rank } } else { Fault::Dead { rank } };
            missed.for_each(|rank| self.fault_list.report(seen(rank)));
        }
        if !well && !self.has_departed(process) {
            self.set_died(process);
        }
    }

    /// Returns how many objects a member of this process has made.
    pub(crate) fn things(&self, rank: usize) -> u64 {
        self.things[rank].load(Ordering::Relaxed) & !ENDED
    }

    /// Whether any process has begun.
    pub(crate) fn any_begun(&self) -> bool {
        self.parts.iter().any(|part| part.load(Ordering::Relaxed) != NOT_BEGUN)
    }

    /// Records that a member has made `things` objects by now. Members that have ended with fewer
    /// are given up.
    pub(crate) fn made(&self, rank: usize, things: u64) {
        self.things[rank].store(things, Ordering::Relaxed);
        // SeqCst: this fence and the one in `ended` are the two fences of Dekker's pattern; no
        // weaker fence orders a store before a later load.
        fence(Ordering::SeqCst);
        for (other, word) in self.things.iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            if word & ENDED != 0 && word & !ENDED < things {
                self.fault_list.report(Fault::Left { rank: other });
            }
        }
    }

    /// Records that a member ends after it has made `things` objects. If another member has made
    /// more, the member is given up.
    pub(crate) fn ended(&self, rank: usize, things: u64) {
        self.things[rank].store(things | ENDED, Ordering::Relaxed);
        // SeqCst: see `made`.
        fence(Ordering::SeqCst);
        if self.things.iter().any(|word| word.load(Ordering::Relaxed) & !ENDED > things) {
            self.fault_list.report(Fault::Left { rank });
        }
    }

    /// Records that a member's function has ended, in whatever way, or its process has. Returns the
    /// position of this end in the order of all ends, from 1.
    pub(crate) fn note_end(&self, rank: usize) -> u64 {
        // Relaxed: no other memory depends on these numbers; the end itself is published to their
        // readers through other words.
        let end = self.ends[0].fetch_add(1, Ordering::Relaxed) + 1;
        let _ = self.ends[1 + rank].compare_exchange(0, end, Ordering::Relaxed, Ordering::Relaxed);
        end
    }

    /// Returns the first end of these members; the greatest number if none has ended.
    pub(crate) fn first_end(&self, ranks: std::ops::Range<usize>) -> u64 {
        let ends = ranks.map(|rank| self.ends[1 + rank].load(Ordering::Relaxed));
        ends.filter(|&end| end != 0).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_missed_has_a_process_that_lives() {
        let control = TeamState::within(&mut Space::heap(), 4, 4).unwrap();
        control.fault_list.report(Fault::Left { rank: 1 });
        control.fault_list.give_up(2);
        assert_eq!([0, 1, 2, 3].map(|process| control.standing(process)), [ProcessState::Alive; 4]);
        (1..4).for_each(|process| control.finish(process));
        assert_eq!(control.standing(1), ProcessState::Done);
    }

    /// A process is killed between the end of its last member and its own end.
    #[test]
    fn a_process_that_has_ended_has_died_unless_it_was_allowed_to_exit() {
        let child = std::process::id();
        for has_left in [false, true] {
            let control = TeamState::within(&mut Space::heap(), 4, 4).unwrap();
            (0..4).for_each(|process| assert!(control.begin(process)));
            if has_left {
                (0..4).for_each(|rank| control.fault_list.report(Fault::Left { rank }));
            }
            (1..4).for_each(|process| control.finish(process));
            control.depart(2);
            (0..3).for_each(|process| {
                control.process_ended(process, child, process..process + 1, false)
            });
            let standings =
                [ProcessState::Died, ProcessState::Died, ProcessState::Done, ProcessState::Done];
            assert_eq!([0, 1, 2, 3].map(|process| control.standing(process)), standings);
            let first = if has_left { Fault::Left { rank: 0 } } else { Fault::Dead { rank: 0 } };
            assert_eq!(control.fault_list.fault_of(0), Some(first));
            assert_eq!(control.fault_list.includes(1), has_left, "its members were done");
        }
    }

    #[test]
    fn the_largest_team_has_room_for_its_words() {
        let members = syncline_sync::membership::MAX_MEMBERS;
        let control = TeamState::within(&mut Space::heap(), members, members).unwrap();
        (0..members).for_each(|rank| control.fault_list.give_up(rank));
        control.fault_list.give_up(syncline_sync::membership::LAUNCHER);
        assert_eq!(control.fault_list.count(), members + 1);
    }
}
