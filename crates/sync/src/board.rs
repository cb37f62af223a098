//! Boards: flags that members raise for one another.
//!
//! # Contract
//! Every member has the same number of *slots*. A slot has one raiser, always the same member,
//! which raises it once per episode, to the number of the episode: 1, 2, 3 and so on. A slot never
//! decreases, so a late poll finds a greater number, never an old one.
//!
//! ```text
//! packed                                    padded
//! slot 0: | m0 | m1 | m2 | ... slot 1: ...  | slot 0 of m0, on its own two lines | slot 0 of m1 |
//!           8 members to a line
//! ```
//!
//! Tournament and dissemination barriers are written over this trait, independent of the memory or
//! transport behind a board.
//!
//! # Costs
//! A raise is one addition to a line that the receiver polls: one transfer to the raiser, one back.
//! In packed boards, the flags of two members that raise for one another share a line, which then
//! moves to and fro once instead of twice. Beyond a few members, raises disturb the members that
//! poll flags in the same line. `syncline-lab bench barrier` measures both.

use std::time::Instant;

use syncline_signal::{PaddedSignal, Policy, Signal, plant};

use crate::agreement::Thing;
use crate::call_matching::{Needs, Peers};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, Membership, Seats};
use crate::space::{Array, Space};
use crate::traced::Traced;

/// One member's handle to a board.
///
/// # Memory ordering
/// A raise is a release. A poll that returns `true` and a wait that succeeds are acquires.
pub trait SignalBoard: Send {
    /// Returns the rank of this member.
    fn rank(&self) -> usize;

    /// Returns the number of members.
    fn members(&self) -> usize;

    /// Returns the identity of the board in traces.
    fn traced(&self) -> Traced {
        Traced::default()
    }

    /// Raises `slot` of the member `to` to `epoch`. Only the raiser of that slot calls it, once for
    /// each epoch, in order.
    ///
    /// # Errors
    /// If the board cannot reach the member. A board in memory always can.
    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault>;

    /// Returns whether this member's `slot` has been raised to `epoch`. Does not block.
    ///
    /// # Errors
    /// [`Fault::Dead`] or [`Fault::Left`] if a member is gone. Only some of the calls check that.
    fn poll(&mut self, slot: usize, epoch: u64) -> Result<bool, Fault>;

    /// Waits until this member's `slot` has been raised to `epoch` or the deadline has passed.
    /// `awaited` names the raiser.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or the fault of a member that is gone.
    fn wait(
        &mut self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Fault>;

    /// Notes how many steps of the next episode this member has made: see [`Awaited`]. Called
    /// before a call returns in the middle of an episode, and before the episode is
    /// [complete](Self::complete).
    fn reached(&mut self, _step: u32) {}

    /// Completes an episode of this member.
    fn complete(&mut self);

    /// Returns the number of completed episodes.
    fn episodes(&self) -> u64;

    /// Sets how this member spins and yields.
    fn set_policy(&mut self, policy: &Policy<'_>);
}

/// A raise that a member waits for. The raises of a member in an episode are grouped in steps,
/// counted from 1; there are at most [`LAST`](crate::call_matching::LAST). The steps of a
/// dissemination barrier are its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The member that raises the slot.
    pub raiser: usize,
    /// The step in which the raiser raises it.
    pub step: u32,
    /// The number of steps that the waiting member has made.
    pub reached: u32,
}

impl From<Awaited> for Needs {
    fn from(Awaited { raiser, step, reached }: Awaited) -> Needs {
        Needs { peers: Peers::Seat(raiser), step, reached }
    }
}

/// The layout of the flags of a board in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flags {
    /// Eight to a line. The best choice for few members.
    #[default]
    Packed,
    /// Each alone on a pair of lines.
    Padded,
}

/// The shared part of a board in memory. A clone is the same board.
#[derive(Clone, Debug)]
pub struct MemoryFlags {
    cells: Cells,
    seats: Seats,
    fault_list: Option<FaultList>,
}

#[derive(Clone, Debug)]
enum Cells {
    Packed(Array<Signal>),
    Padded(Array<PaddedSignal>),
}

impl MemoryFlags {
    /// Creates the flags of a board of `slots` slots for `members`.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many; errors of [`Space::array`] if the
    /// space has no room.
    pub fn within(
        space: &mut Space,
        members: usize,
        slots: usize,
        flags: Flags,
    ) -> Result<MemoryFlags, SpaceError> {
        let space = &mut *space.making(Thing::Board);
        let seats = Seats::within(space, members)?;
        let cells = match flags {
            Flags::Packed => Cells::Packed(space.array(members * slots)?),
            Flags::Padded => Cells::Padded(space.array(members * slots)?),
        };
        Ok(MemoryFlags { cells, seats, fault_list: None })
    }

    /// Returns the same flags, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        MemoryFlags { fault_list: Some(fault_list.clone()), ..self }
    }

    pub(crate) fn members(&self) -> usize {
        self.seats.members()
    }

    /// Returns the identity of the board in traces.
    #[must_use]
    pub fn traced(&self) -> Traced {
        self.seats.traced
    }

    /// Returns the handle of the member `rank`.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if the handle exists or
    /// existed before.
    pub fn board(&self, rank: usize) -> Result<MemoryBoard, SpaceError> {
        let membership = Membership::new(&self.seats, self.fault_list.as_ref(), rank)?;
        Ok(MemoryBoard { membership, cells: self.cells.clone() })
    }
}

/// A member's handle to a board in memory, on the heap or in a segment.
#[derive(Debug)]
pub struct MemoryBoard {
    membership: Membership,
    cells: Cells,
}

impl MemoryBoard {
    #[inline]
    fn cell(&self, of: usize, slot: usize) -> &Signal {
        let at = slot * self.membership.members() + of;
        match &self.cells {
            Cells::Packed(cells) => &cells[at],
            Cells::Padded(cells) => &cells[at],
        }
    }

    #[inline(never)]
    fn wait_longer(
        &self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Fault> {
        let waiting = self.membership.waiting(awaited.into(), deadline);
        match self.cell(self.membership.rank, slot).wait_until(epoch, &waiting.policy(), deadline) {
            Ok(_) => Ok(()),
            Err(error) => Err(waiting.fault(error)),
        }
    }
}

impl SignalBoard for MemoryBoard {
    fn rank(&self) -> usize {
        self.membership.rank
    }

    fn members(&self) -> usize {
        self.membership.members()
    }

    fn traced(&self) -> Traced {
        self.membership.traced()
    }

    #[inline]
    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        // There is only one raiser, so an addition is equivalent to a maximum, and cheaper.
        let now = self.cell(to, slot).increment();
        debug_assert_eq!(
            now, epoch,
            "slot {slot} of member {to} is raised in order, by one raiser"
        );
        Ok(())
    }

    #[inline]
    fn poll(&mut self, slot: usize, epoch: u64) -> Result<bool, Fault> {
        self.membership.check_not_forked()?;
        if self.cell(self.membership.rank, slot).get() >= epoch {
            return Ok(true);
        }
        self.membership.missed().map(|()| false)
    }

    #[inline]
    fn wait(
        &mut self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        let epoch = epoch - u64::from(plant::is("board: waits for the epoch before"));
        // A flag that is already raised needs no wait to be set up.
        if self.cell(self.membership.rank, slot).get() >= epoch {
            return Ok(());
        }
        self.wait_longer(slot, epoch, awaited, deadline)
    }

    #[inline]
    fn reached(&mut self, step: u32) {
        self.membership.reached(step);
    }

    fn complete(&mut self) {
        self.membership.episodes += 1;
    }

    fn episodes(&self) -> u64 {
        self.membership.episodes
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.membership.set_policy(policy);
    }
}
