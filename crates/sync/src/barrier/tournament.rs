//! A tournament barrier: a knock-out tournament on arrival, the same tree backwards on release.
//!
//! # Contract
//! See [`barrier`](crate::barrier). Rank 0 is the champion of every episode. It is the first member
//! to observe that all have arrived, so it can lead the barrier.
//!
//! # Roles, P = 6
//! ```text
//! round    0     1     2     3     4     5                 round 2   W ──────────────────── L
//! 0        W ─── L     W ─── L     W ─── L                           ▲                      │
//! 1        W ───────── L           bye                     up: the loser raises slot `round`
//! 2        W ───────────────────── L                           of its winner
//!          champion                                        down: the winner raises the last slot
//!                                                                of its losers, the latest first
//! ```
//! In round k, the members whose rank is a multiple of 2^(k+1) win against the member 2^k above, if
//! it exists; otherwise they have a bye. A loser drops out and waits for its winner.
//!
//! | state   | waits for                                   | then                             |
//! |---------|---------------------------------------------|----------------------------------|
//! | outside | nothing                                     | `arrive`: up, from round 0       |
//! | up      | slot k, if it wins round k                  | round k + 1                      |
//! | out     | its last slot, having raised its winner     | down: raises its losers, outside |
//! | top     | nothing (rank 0), or the leader's `release` | down                             |
//!
//! # Costs
//! P - 1 raises up and P - 1 down. The critical path has 2 ceil(log2 P) raises, each about two line
//! transfers. Each member has ceil(log2 P) + 1 slots.
//!
//! # Source
//! Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (1988); Kadur and
//! Kochar, for threads and, as messages, for processes. Changes: flags are episode numbers, which
//! never decrease, in place of sense reversal (and of round numbers as tags, which are safe only if
//! messages stay in order); roles are computed, not stored; there is one slot for the way down, as
//! a member loses once; the release is separate from the way up.

use std::time::Instant;

use syncline_signal::{Policy, plant};
use syncline_trace::note::ObjectClass;

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::agreement::Thing;
use crate::board::{Awaited, Flags, MemoryBoard, MemoryFlags, SignalBoard};
use crate::call_matching::{ARRIVED, LAST};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, possible};
use crate::space::Space;
use crate::traced::Traced;

/// The role of a member in one round of a tournament.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a loser.
    Winner {
        /// The loser's rank.
        loser: usize,
    },
    /// Signals a winner, and drops out of the later rounds.
    Loser {
        /// The winner's rank.
        winner: usize,
    },
    /// Has no opponent in this round.
    Bye,
    /// Wins the last round.
    Champion {
        /// The rank of the last loser.
        loser: usize,
    },
    /// Has lost an earlier round.
    Dropout,
}

/// Returns the number of rounds in a tournament of `members`: log2, rounded up.
#[must_use]
pub(crate) fn rounds(members: usize) -> usize {
    members.next_power_of_two().trailing_zeros() as usize
}

/// Returns the roles of `rank` in all rounds of a tournament of `members`.
///
/// ```
/// use syncline_sync::barrier::{Role, roles};
///
/// assert_eq!(roles(4, 6), [Role::Winner { loser: 5 }, Role::Bye, Role::Loser { winner: 0 }]);
/// assert_eq!(roles(0, 2), [Role::Champion { loser: 1 }]);
/// ```
#[must_use]
pub fn roles(rank: usize, members: usize) -> Vec<Role> {
    (0..rounds(members)).map(|round| role(rank, members, round)).collect()
}

#[inline]
fn role(rank: usize, members: usize, round: usize) -> Role {
    let half = 1 << round;
    match rank % (2 * half) {
        0 if rank + half >= members => Role::Bye,
        0 if 2 * half >= members => Role::Champion { loser: rank + half },
        0 => Role::Winner { loser: rank + half },
        above if above == half => Role::Loser { winner: rank - half },
        _ => Role::Dropout,
    }
}

/// A barrier of pairs: every member waits on its own flags, in memory that few others touch.
///
/// ```
/// use syncline_sync::{Barrier, BarrierMember, barrier::Tournament};
///
/// let barrier = Tournament::new(2)?;
/// let (mut champion, mut loser) = (barrier.member(0)?, barrier.member(1)?);
/// loser.arrive()?;
/// assert!(!loser.done()?);
/// champion.wait()?;
/// assert!(loser.done()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tournament {
    flags: MemoryFlags,
}

/// A member of a tournament, over any board of [`TournamentMember::slots`] slots.
#[derive(Debug)]
pub struct TournamentMember<B = MemoryBoard> {
    board: B,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    /// Has won all rounds below `round`.
    Up {
        round: usize,
    },
    /// Has lost in `round`.
    Out {
        round: usize,
    },
    Top,
}

impl Tournament {
    /// Creates a barrier for threads, with packed flags.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Tournament, SpaceError> {
        Self::within(&mut Space::heap(), members, Flags::Packed)
    }

    /// Creates a barrier in `space`, with flags laid out as `flags` says.
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
        flags: Flags,
    ) -> Result<Tournament, SpaceError> {
        possible(members)?;
        let space = &mut *space.making(Thing::Barrier);
        let slots = TournamentMember::<MemoryBoard>::slots(members);
        Ok(Tournament { flags: MemoryFlags::within(space, members, slots, flags)? })
    }

    /// Returns the same barrier, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Tournament { flags: self.flags.watching(fault_list) }
    }
}

impl Barrier for Tournament {
    type Member = TournamentMember;

    fn members(&self) -> usize {
        self.flags.members()
    }

    fn traced(&self) -> Traced {
        self.flags.traced()
    }

    fn member(&self, rank: usize) -> Result<TournamentMember, SpaceError> {
        Ok(TournamentMember::new(self.flags.board(rank)?))
    }
}

impl Phased for Tournament {
    type Led = TournamentMember;

    fn led(&self, rank: usize) -> Result<TournamentMember, SpaceError> {
        self.member(rank)
    }
}

impl<B: SignalBoard> TournamentMember<B> {
    /// Returns the number of slots that a board for `members` needs.
    #[must_use]
    pub fn slots(members: usize) -> usize {
        rounds(members) + 1
    }

    /// Creates the member that owns this handle to a board of [`slots`](Self::slots) slots.
    pub fn new(board: B) -> Self {
        board.traced().name(ObjectClass::Barrier, "tournament");
        TournamentMember { board, state: State::Outside }
    }

    fn epoch(&self) -> u64 {
        self.board.episodes() + 1
    }

    /// Moves up as far as possible: until the member is out or at the top. `at` polls for a raise
    /// of a slot, or waits for it.
    #[inline]
    fn ascend(
        &mut self,
        at: &mut impl FnMut(&mut B, usize, u64, Awaited) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let (rank, members, epoch) = (self.board.rank(), self.board.members(), self.epoch());
        while let State::Up { round } = self.state {
            if round == rounds(members) {
                self.state = State::Top;
                break;
            }
            match role(rank, members, round) {
                Role::Winner { loser } | Role::Champion { loser } => {
                    let awaited = Awaited { raiser: loser, step: ARRIVED, reached: 0 };
                    if !at(&mut self.board, round, epoch, awaited)? {
                        return Ok(false);
                    }
                    self.state = State::Up { round: round + 1 };
                }
                Role::Bye => self.state = State::Up { round: round + 1 },
                Role::Loser { winner } => {
                    self.board.raise(winner, round, epoch)?;
                    self.state = State::Out { round };
                }
                Role::Dropout => unreachable!("a member that is out does not move up"),
            }
        }
        Ok(true)
    }

    /// Moves down from round `from`: releases the losers that this member has beaten below it, and
    /// completes the episode.
    #[inline]
    fn descend(&mut self, from: usize) -> Result<(), Fault> {
        let (rank, members, epoch) = (self.board.rank(), self.board.members(), self.epoch());
        let slot = rounds(members);
        for round in (0..from).rev() {
            if plant::is("tournament: forgets the first round on the way down") && round == 0 {
                continue;
            }
            if let Role::Winner { loser } | Role::Champion { loser } = role(rank, members, round) {
                self.board.raise(loser, slot, epoch)?;
            }
        }
        self.board.reached(LAST);
        self.state = State::Outside;
        self.board.complete();
        Ok(())
    }

    /// Moves up and then down: at the top without waiting for a leader's `release`.
    #[inline]
    fn pass(
        &mut self,
        mut at: impl FnMut(&mut B, usize, u64, Awaited) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        if !self.ascend(&mut at)? {
            return Ok(false);
        }
        let top = rounds(self.board.members());
        match self.state {
            State::Out { round } => {
                let (rank, epoch) = (self.board.rank(), self.epoch());
                let awaited = Awaited { raiser: rank - (1 << round), step: LAST, reached: ARRIVED };
                if !at(&mut self.board, top, epoch, awaited)? {
                    return Ok(false);
                }
                self.descend(round)?;
            }
            State::Top => self.descend(top)?,
            State::Outside | State::Up { .. } => (),
        }
        Ok(true)
    }

    /// Notes the progress when a call returns: in the middle of an episode this member may wait
    /// elsewhere next.
    #[inline]
    fn leave<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if let State::Out { .. } = self.state {
            self.board.reached(ARRIVED);
        }
        result
    }
}

/// Polls for a raise.
#[inline]
fn poll<B: SignalBoard>(board: &mut B, slot: usize, epoch: u64, _: Awaited) -> Result<bool, Fault> {
    board.poll(slot, epoch)
}

/// Waits for a raise.
#[inline]
fn wait<B: SignalBoard>(
    deadline: Option<Instant>,
) -> impl FnMut(&mut B, usize, u64, Awaited) -> Result<bool, Fault> {
    move |board, slot, epoch, awaited| board.wait(slot, epoch, awaited, deadline).map(|()| true)
}

impl<B: SignalBoard> BarrierMember for TournamentMember<B> {
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
        if self.state == State::Outside {
            self.state = State::Up { round: 0 };
            let begun = self.ascend(&mut poll);
            self.leave(begun)?;
        }
        Ok(())
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        let done = self.pass(poll);
        self.leave(done)
    }

    #[inline]
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        if self.state == State::Outside {
            self.state = State::Up { round: 0 };
        }
        let waited = self.pass(wait(deadline));
        self.leave(waited).map(|_| ())
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.board.set_policy(policy);
    }
}

impl<B: SignalBoard> LedMember for TournamentMember<B> {
    fn gathered(&mut self) -> Result<bool, Fault> {
        self.ascend(&mut poll)
    }

    fn wait_gathered(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        self.ascend(&mut wait(deadline)).map(|_| ())
    }

    fn release(&mut self) -> Result<(), Fault> {
        self.descend(rounds(self.board.members()))
    }
}
