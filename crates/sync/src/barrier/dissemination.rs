//! A dissemination barrier: in round k every member signals the members at distances j r^k, and
//! after log_r P rounds every member has information from all.
//!
//! # Contract
//! See [`barrier`](crate::barrier). All members have the same role.
//!
//! # Figure: signals to and from member 0, radix 2, P = 5
//! ```text
//! round 0   0 ──> 1                 4 ──> 0         0 has the arrivals of 4, 0
//! round 1   0 ──────> 2         3 ──────> 0         0 has those of 2, 3, 4, 0 (3 had 2, 3)
//! round 2   0 ──────────────> 4     1 ──> 0         0 has those of all
//! ```
//! Before the round with distance d, a member has the arrivals of the d members up to and including
//! itself. With radix r it receives signals from the members d, 2d, ... (r - 1) d behind it, and
//! then has the arrivals of r d members. That holds for any P: distances above P - 1 are left out.
//!
//! # Costs
//! ceil(log_r P) rounds, each with at most r - 1 raises out and in per member. A raise is about two
//! line transfers, and the raises of a round overlap. Slots: r - 1 per round.
//!
//! # Source
//! Hensgen, Finkel and Manber (1988); Mellor-Crummey and Scott, "Algorithms for scalable
//! synchronization" (1991); any radix: Hoefler et al., "Fast barrier synchronization for
//! InfiniBand" (2006); Kadur and Kochar, over messages. Changes: flags are episode numbers, which
//! never decrease, in place of parity and sense; rounds are counted in integers.

use std::time::Instant;

use syncline_signal::Policy;
use syncline_trace::note::ObjectClass;

use super::{Barrier, BarrierMember};
use crate::agreement::Thing;
use crate::board::{Awaited, Flags, MemoryBoard, MemoryFlags, SignalBoard};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, possible};
use crate::space::Space;
use crate::traced::Traced;

/// A barrier with the fewest rounds: log2 P, and fewer with a greater radix.
///
/// ```
/// use syncline_sync::{Barrier, BarrierMember, Space, barrier::Dissemination, board::Flags};
///
/// let barrier = Dissemination::within(&mut Space::heap(), 5, 3, Flags::Padded)?;
/// let mut members: Vec<_> = (0..5).map(|rank| barrier.member(rank).unwrap()).collect();
/// // One thread may drive many members, as long as it blocks in none.
/// members.iter_mut().try_for_each(|member| member.arrive())?;
/// while members[0].episodes() == 0 {
///     for member in &mut members {
///         member.done()?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dissemination {
    flags: MemoryFlags,
    radix: usize,
}

/// A member of a dissemination barrier, over any board of [`DisseminationMember::slots`] slots.
#[derive(Debug)]
pub struct DisseminationMember<B = MemoryBoard> {
    board: B,
    radix: usize,
    /// The round that the member is in, as its number and its distance; `None` if it has not
    /// arrived.
    at: Option<(usize, usize)>,
}

/// Returns the number of rounds for `members` with that radix: the logarithm, rounded up.
#[must_use]
pub(crate) fn rounds(members: usize, radix: usize) -> usize {
    let distances = std::iter::successors(Some(1_usize), |d| d.checked_mul(radix));
    distances.take_while(|&d| d < members).count()
}

impl Dissemination {
    /// Creates a barrier for threads, of radix 2, with packed flags.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Dissemination, SpaceError> {
        Self::within(&mut Space::heap(), members, 2, Flags::Packed)
    }

    /// Creates a barrier in `space`, with flags laid out as `flags` says. The radix is at least 2;
    /// a radix above `members` has the same effect as `members`.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many; [`SpaceError::Radix`] if the radix is
    /// below 2; errors of [`Space::array`] if the space has no room.
    pub fn within(
        space: &mut Space,
        members: usize,
        radix: usize,
        flags: Flags,
    ) -> Result<Dissemination, SpaceError> {
        if radix < 2 {
            return Err(SpaceError::Radix { radix });
        }
        possible(members)?;
        let space = &mut *space.making(Thing::Barrier);
        let radix = radix.min(members.max(2));
        let slots = DisseminationMember::<MemoryBoard>::slots(members, radix);
        Ok(Dissemination { flags: MemoryFlags::within(space, members, slots, flags)?, radix })
    }

    /// Returns the same barrier, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Dissemination { flags: self.flags.watching(fault_list), ..self }
    }

    /// Returns the radix.
    #[must_use]
    pub fn radix(&self) -> usize {
        self.radix
    }
}

impl Barrier for Dissemination {
    type Member = DisseminationMember;

    fn members(&self) -> usize {
        self.flags.members()
    }

    fn traced(&self) -> Traced {
        self.flags.traced()
    }

    fn member(&self, rank: usize) -> Result<DisseminationMember, SpaceError> {
        Ok(DisseminationMember::new(self.flags.board(rank)?, self.radix))
    }
}

impl<B: SignalBoard> DisseminationMember<B> {
    /// Returns the number of slots that a board for `members` needs with that radix.
    #[must_use]
    pub fn slots(members: usize, radix: usize) -> usize {
        rounds(members, radix) * (radix - 1)
    }

    /// Creates the member that owns this handle to a board of [`slots`](Self::slots) slots, with a
    /// radix of at least 2.
    pub fn new(board: B, radix: usize) -> Self {
        board.traced().name(ObjectClass::Barrier, "dissemination");
        DisseminationMember { board, radix: radix.max(2), at: None }
    }

    /// Returns the distances of a round: d, 2d, ... below the number of members.
    fn distances(&self, distance: usize) -> impl Iterator<Item = usize> + use<B> {
        let members = self.board.members();
        (1..self.radix).map(move |j| j * distance).take_while(move |&d| d < members)
    }

    /// Begins the round with that distance: raises the flags of the members ahead.
    #[inline]
    fn enter(&mut self, round: usize, distance: usize) -> Result<(), Fault> {
        self.at = Some((round, distance));
        let (rank, members) = (self.board.rank(), self.board.members());
        let epoch = self.board.episodes() + 1;
        for (j, ahead) in self.distances(distance).enumerate() {
            let to = rank + ahead;
            let to = if to >= members { to - members } else { to };
            self.board.raise(to, round * (self.radix - 1) + j, epoch)?;
        }
        Ok(())
    }

    /// Advances from round to round as far as possible. `raised` polls for a raise of a slot, or
    /// waits for it.
    #[inline]
    fn advance(
        &mut self,
        mut raised: impl FnMut(&mut B, usize, u64, Awaited) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let (members, epoch) = (self.board.members(), self.board.episodes() + 1);
        while let Some((round, distance)) = self.at {
            if distance >= members {
                // All rounds have been raised: the only progress noted in the episode if no call
                // returns early.
                self.board.reached(round as u32);
                self.at = None;
                self.board.complete();
                break;
            }
            let step = round as u32 + 1;
            for (j, behind) in self.distances(distance).enumerate() {
                let rank = self.board.rank();
                let raiser = if rank >= behind { rank - behind } else { rank + members - behind };
                let awaited = Awaited { raiser, step, reached: step };
                if !raised(&mut self.board, round * (self.radix - 1) + j, epoch, awaited)? {
                    return Ok(false);
                }
            }
            self.enter(round + 1, distance * self.radix)?;
        }
        Ok(true)
    }

    #[inline]
    fn begin(&mut self) -> Result<(), Fault> {
        if self.at.is_some() {
            return Ok(());
        }
        self.enter(0, 1)
    }

    /// Notes the progress when a call returns: in the middle of an episode, others may need later
    /// rounds of this member, which may wait elsewhere next.
    #[inline]
    fn leave(&mut self) {
        if let Some((round, _)) = self.at {
            self.board.reached(round as u32 + 1);
        }
    }
}

impl<B: SignalBoard> BarrierMember for DisseminationMember<B> {
    fn rank(&self) -> usize {
        self.board.rank()
    }

    fn members(&self) -> usize {
        self.board.members()
    }

    fn traced(&self) -> Traced {
        self.board.traced()
    }

    fn episodes(&self) -> u64 {
        self.board.episodes()
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        let begun = self.begin();
        self.leave();
        begun
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        let done = self.advance(|board, slot, epoch, _| board.poll(slot, epoch));
        self.leave();
        done
    }

    #[inline]
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        let mut wait = |board: &mut B, slot, epoch, awaited| {
            board.wait(slot, epoch, awaited, deadline).map(|()| true)
        };
        let waited = self.begin().and_then(|()| self.advance(&mut wait));
        self.leave();
        waited.map(|_| ())
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.board.set_policy(policy);
    }
}
