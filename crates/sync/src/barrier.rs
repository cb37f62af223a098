//! Barriers: nobody goes on before all have arrived.
//!
//! # The contract of all barriers
//! A barrier has a fixed number of members, ranked from 0. An *episode* is complete when every member has arrived at it.
//! What a member did before it arrived happened before what any member does after it has seen the episode complete.
//!
//! ```text
//!            arrive()                done() -> false ... -> true
//!  outside ────────────> arrived ───────────────────────────────────> outside, one episode further
//!     │                     └───── wait() (wait_deadline: up to a time) ─┘
//!     └─────────────────────────── wait() arrives first ─────────────────┘
//! ```
//!
//! | barrier           | critical path, line transfers | space, words    | arrives by itself |
//! |-------------------|-------------------------------|-----------------|-------------------|
//! | [`Counter`]       | P + 1                         | 1               | yes               |
//! | [`Tournament`]    | 4 log2 P                      | P (log2 P + 1)  | no                |
//! | [`Dissemination`] | r log_r P                     | P (r-1) log_r P | no                |
//! | [`Combined`]      | that of both                  | that of both    | no                |
//!
//! *Arrives by itself*: between `arrive` and `wait` the others need nothing of the member. In the
//! other barriers what a member has to pass on it passes on in `done` and `wait` only. If it blocks
//! elsewhere meanwhile, and what it waits for there needs one of the others, the members of a team
//! are told that their calls do not match.
//!
//! See [`cost`](crate::cost) for the formulas. [`RawCounter`] is outside of the contract: it knows no ranks, and nobody is missed.

mod auto;
mod combined;
pub(crate) mod counter;
mod dissemination;
mod raw;
mod tournament;

use std::time::Instant;

use syncline_signal::Policy;

pub use auto::{Auto, AutoMember};
pub use combined::{Combined, CombinedMember};
pub use counter::{Counter, CounterMember};
pub(crate) use dissemination::rounds as dissemination_rounds;
pub use dissemination::{Dissemination, DisseminationMember};
pub use raw::RawCounter;
pub use tournament::{Role, Tournament, TournamentMember, roles};

use crate::error::{Fault, SpaceError};

/// What all members of a barrier share.
pub trait Barrier: Send + Sync {
    /// A member of it.
    type Member: BarrierMember;

    /// How many members it has.
    fn members(&self) -> usize;

    /// Takes the seat of the member `rank`.
    ///
    /// # One-sided
    /// Each member is made once, by the thread that is going to be it, or on its behalf. To drop it is to
    /// leave the barrier: those who wait for it then are told. It belongs to the process that makes
    /// it: in a child that `fork` makes of that, calls are [`Fault::Forked`], and to drop it
    /// changes nothing.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if somebody has or had it.
    fn member(&self, rank: usize) -> Result<Self::Member, SpaceError>;
}

/// A member of a barrier.
///
/// # Errors
/// Every function tells of a member that is dead ([`Fault::Dead`]), or that has left ([`Fault::Left`]) before it had
/// seen the episode complete (a [`Counter`]: before it had arrived): the waits within a fifth of a second, `done` after some
/// hundreds of looks. Then the barrier is of no use any more. One whose process has ended has left, whatever it had done. A death is told even
/// if the dead had done its part in the episode; so the same call, made again, may still find this episode complete, and
/// the next; never a third.
pub trait BarrierMember: Send {
    /// Its rank.
    fn rank(&self) -> usize;

    /// How many members there are.
    fn members(&self) -> usize;

    /// How many episodes this member has seen complete.
    fn episodes(&self) -> u64;

    /// Arrives at the next episode, and does not wait. A member that has arrived already does nothing.
    ///
    /// # Collective
    /// All members arrive, each when it likes.
    ///
    /// # Memory ordering
    /// A release: what came before it is seen by whoever sees the episode complete.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn arrive(&mut self) -> Result<(), Fault>;

    /// Whether the episode at which this member has arrived is complete; true if it has arrived at none. Does not block.
    ///
    /// # Memory ordering
    /// `true` is an acquire.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn done(&mut self) -> Result<bool, Fault>;

    /// Waits until the episode is complete, or until a time; arrives first if need be.
    ///
    /// # Memory ordering
    /// As `arrive` and `done`.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first: the member has arrived and stays so, and
    /// may call this again. It waits again, or keeps this handle, until the others have passed. If
    /// it drops the handle before, they may be told that it has left ([`Fault::Left`]): an arrival
    /// is complete by itself at a [`Counter`] only; in barriers of several rounds the others need
    /// later rounds of the member. Others: see [`BarrierMember`].
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault>;

    /// Waits until the episode is complete; arrives first if need be.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    #[inline]
    fn wait(&mut self) -> Result<(), Fault> {
        self.wait_deadline(None)
    }

    /// Spins and yields from now on as `policy` says. Its death word is not used: barriers know who is gone.
    fn set_policy(&mut self, policy: &Policy<'_>);
}

/// Barriers whose way in and way out can be parted: rank 0 *leads*, and lets the others go when it wants to.
pub trait Phased: Barrier {
    /// A member of such a barrier.
    type Led: LedMember;

    /// Takes the seat of the member `rank`. All members of a barrier are taken by this, or none.
    ///
    /// # Errors
    /// As [`Barrier::member`].
    fn led(&self, rank: usize) -> Result<Self::Led, SpaceError>;
}

/// A member of a barrier that is led. Rank 0 calls `arrive`, `gathered` until it says so or `wait_gathered`, and
/// `release`; the others what members always call.
pub trait LedMember: BarrierMember {
    /// Whether all others have arrived. Rank 0 only, after `arrive`.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn gathered(&mut self) -> Result<bool, Fault>;

    /// Waits until all others have arrived. Rank 0 only, after `arrive`.
    ///
    /// # Errors
    /// As [`BarrierMember::wait_deadline`].
    fn wait_gathered(&mut self, deadline: Option<Instant>) -> Result<(), Fault>;

    /// Completes the episode: lets the others go. Rank 0 only, when they have gathered.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn release(&mut self) -> Result<(), Fault>;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::board::Flags;
    use crate::space::Space;

    #[test]
    fn numbers_of_members_that_cannot_be_are_refused_before_they_are_computed_with() {
        let most = crate::membership::MAX_MEMBERS;
        for members in [0, most + 1, usize::MAX / 2 + 2, usize::MAX] {
            let refused = SpaceError::Members { members, most };
            assert_eq!(Counter::new(members).unwrap_err(), refused);
            assert_eq!(Tournament::new(members).unwrap_err(), refused);
            let spread =
                Dissemination::within(&mut Space::heap(), members, usize::MAX, Flags::Packed);
            assert_eq!(spread.unwrap_err(), refused);
            assert_eq!(Auto::within(&mut Space::heap(), members, usize::MAX).unwrap_err(), refused);
        }
    }
}
