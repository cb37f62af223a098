//! Boards: flags that members raise for one another.
//!
//! # Contract
//! Every member has the same number of *slots*. A slot has one raiser, always the same, who raises it once per episode, to
//! the number of the episode: 1, 2, 3 and so on. A slot is never lowered, so a look that comes late finds more, not
//! nothing.
//!
//! ```text
//! packed                                    padded
//! slot 0: | m0 | m1 | m2 | ... slot 1: ...  | slot 0 of m0, alone on two lines | slot 0 of m1 | ...
//!           8 members to a line
//! ```
//!
//! Tournament and dissemination are written over this trait, and do not know in which memory a board stands.
//!
//! # Costs
//! A raise is one addition to a line that the receiver polls: one transfer to the raiser, one back. Packed, the flags of
//! two members that raise for one another stand in one line, which then goes to and fro once instead of twice; from some
//! members on, raises disturb those who poll their neighbours' flags. `syncline-lab bench barrier` measures both.

use std::time::Instant;

use syncline_signal::{PaddedSignal, Policy, Signal, plant};

use crate::agreement::Thing;
use crate::calls::{Needs, Peers};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, Membership, Seats};
use crate::space::{Array, Space};

/// One member's handle to a board.
///
/// # Memory ordering
/// A raise is a release; a poll that says true, and a wait, are an acquire.
pub trait SignalBoard: Send {
    /// The member whose handle this is.
    fn rank(&self) -> usize;

    /// How many members there are.
    fn members(&self) -> usize;

    /// Raises `slot` of the member `to` to `epoch`. Called by the one raiser of that slot, for each epoch once, in order.
    ///
    /// # Errors
    /// If the board cannot reach the member. Memory always can.
    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault>;

    /// Whether this member's `slot` has been raised to `epoch`. Does not block.
    ///
    /// # Errors
    /// Now and then it asks who is gone: [`Fault::Dead`], [`Fault::Left`].
    fn poll(&mut self, slot: usize, epoch: u64) -> Result<bool, Fault>;

    /// Waits until this member's `slot` has been raised to `epoch`, or until a time. `awaited` says
    /// who raises it.
    ///
    /// # Errors
    /// [`Fault::TimedOut`], or who is gone.
    fn wait(
        &mut self,
        slot: usize,
        epoch: u64,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), Fault>;

    /// Notes that this member has made that many steps of the next episode: see [`Awaited`]. Called
    /// before a call returns in the middle of an episode, and before it is
    /// [complete](Self::complete).
    fn reached(&mut self, _step: u32) {}

    /// This member has completed an episode.
    fn complete(&mut self);

    /// Episodes completed.
    fn episodes(&self) -> u64;

    /// Spins and yields from now on as `policy` says.
    fn set_policy(&mut self, policy: &Policy<'_>);
}

/// A raise that a member waits for. What a member raises in an episode are steps, which are counted
/// from 1; there are at most [`LAST`](crate::calls::LAST). Those of a dissemination barrier are its
/// rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The member that raises the slot.
    pub raiser: usize,
    /// The step with which it does so.
    pub step: u32,
    /// How many steps the member that waits has made.
    pub reached: u32,
}

impl From<Awaited> for Needs {
    fn from(Awaited { raiser, step, reached }: Awaited) -> Needs {
        Needs { peers: Peers::Seat(raiser), step, reached }
    }
}

/// How the flags of a board in memory stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flags {
    /// Eight to a line. The best for few members.
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
    /// The flags of a board of `slots` slots for `members`.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many, or if the space has no room.
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

    /// The same flags; who waits for one is told of these deaths.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        MemoryFlags { fault_list: Some(fault_list.clone()), ..self }
    }

    pub(crate) fn members(&self) -> usize {
        self.seats.members()
    }

    /// The handle of the member `rank`.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if somebody has or had it.
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

    #[inline]
    fn raise(&mut self, to: usize, slot: usize, epoch: u64) -> Result<(), Fault> {
        self.membership.check_not_forked()?;
        // The only raiser, so an addition is a maximum, and cheaper.
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
        // What has been raised needs no wait to be set up.
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
