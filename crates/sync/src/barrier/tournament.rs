//! A knock-out tournament on the way in, and its way back on the way out.
//!
//! # Contract
//! See [`barrier`](crate::barrier). Rank 0 is the champion of every episode; it knows first that all have arrived, so the
//! barrier can be led by it.
//!
//! # Roles, P = 6
//! ```text
//! round    0     1     2     3     4     5                 round 2   W ──────────────────── L
//! 0        W ─── L     W ─── L     W ─── L                           ▲                      │
//! 1        W ───────── L           bye                     up: the loser raises slot `round` of the winner
//! 2        W ───────────────────── L                       down: the winner raises the last slot of those
//!          champion                                              it has beaten, the last one first
//! ```
//! In round k the members whose rank is a multiple of 2^(k+1) win against the one 2^k above, if it exists; else they have
//! a bye. A loser drops out, and waits for its winner.
//!
//! | state    | waits for                                    | then                                          |
//! |----------|----------------------------------------------|-----------------------------------------------|
//! | outside  |                                              | `arrive`: up, from round 0                    |
//! | up       | slot k, where it wins round k                | round k + 1                                   |
//! | out      | its last slot, having raised slot k of its winner | down: raises those beaten, outside       |
//! | top      | nothing; rank 0, at once or when told to     | down                                          |
//!
//! # Costs
//! P - 1 raises up and P - 1 down; the critical path has 2 ceil(log2 P) of them, each about two line transfers. Slots:
//! ceil(log2 P) + 1 per member.
//!
//! # Source
//! Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization" (1988); Kadur and Kochar, for threads and,
//! as messages, for processes. Changed: flags are numbers of episodes, which are never lowered, in place of sense reversal
//! (and of round numbers as tags, which are safe only if messages stay in order); roles are computed, not stored; one
//! slot on the way down, as a member loses once; the wake-up is split from the way up.

use std::time::Instant;

use syncline_signal::{Policy, plant};

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::agreement::Thing;
use crate::board::{Awaited, Flags, MemoryBoard, MemoryFlags, SignalBoard};
use crate::calls::{ARRIVED, LAST};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, possible};
use crate::space::Space;

/// What a member is in a round of a tournament.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a loser.
    Winner {
        /// The loser's rank.
        loser: usize,
    },
    /// Tells a winner, and drops out of the rounds above.
    Loser {
        /// The winner's rank.
        winner: usize,
    },
    /// Has nobody to play against in this round.
    Bye,
    /// Has won the last round: after this one there is none.
    Champion {
        /// The rank of the last loser.
        loser: usize,
    },
    /// Has lost an earlier round.
    Dropout,
}

/// How many rounds a tournament of `members` has: the logarithm to the base 2, rounded up.
#[must_use]
pub(crate) fn rounds(members: usize) -> usize {
    members.next_power_of_two().trailing_zeros() as usize
}

/// The roles of `rank` in all rounds of a tournament of `members`.
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

/// A barrier of pairs: every member waits on flags of its own, in memory that few others touch.
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
    /// Has won all rounds below.
    Up {
        round: usize,
    },
    /// Has lost in that round.
    Out {
        round: usize,
    },
    Top,
}

impl Tournament {
    /// A barrier for threads, its flags packed.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Tournament, SpaceError> {
        Self::within(&mut Space::heap(), members, Flags::Packed)
    }

    /// A barrier in `space`, with flags of that kind.
    ///
    /// # Collective
    /// See [`Space::array`].
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many, or if the space has no room.
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

    /// The same barrier; its members are told of these deaths.
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
    /// How many slots a board for `members` needs.
    #[must_use]
    pub fn slots(members: usize) -> usize {
        rounds(members) + 1
    }

    /// The member whose handle to a board of [`slots`](Self::slots) slots this is.
    pub fn new(board: B) -> Self {
        TournamentMember { board, state: State::Outside }
    }

    fn epoch(&self) -> u64 {
        self.board.episodes() + 1
    }

    /// As far up as it goes: until it is out or at the top. `at` looks for a raise of a slot, or waits for it.
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
                Role::Dropout => unreachable!("a member that is out goes no further up"),
            }
        }
        Ok(true)
    }

    /// Down from `round`: lets those go that it has beaten below, and is outside.
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

    /// Up, and down again unless that is for the leader to say.
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

    /// A call returns: in the middle of an episode this member may wait elsewhere from now on.
    #[inline]
    fn leave<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if let State::Out { .. } = self.state {
            self.board.reached(ARRIVED);
        }
        result
    }
}

/// Looks for a raise.
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
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
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
