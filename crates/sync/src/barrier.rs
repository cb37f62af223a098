//! Barriers: no member proceeds before all members have arrived.
//!
//! # The contract of all barriers
//! A barrier has a fixed number of members, ranked from 0. An *episode* is complete when every
//! member has arrived at it. Everything a member did before it arrived happens before everything
//! that any member does after it has observed the episode complete.
//!
//! ```text
//!            arrive()                done() -> false ... -> true
//!  outside ────────────> arrived ───────────────────────────────────> outside, one episode further
//!     │                     └───── wait() (wait_deadline: up to a time) ─┘
//!     └─────────────────────────── wait() arrives first ─────────────────┘
//! ```
//!
//! | barrier           | critical path, line transfers | space, words    | arrival is complete |
//! |-------------------|-------------------------------|-----------------|---------------------|
//! | [`Counter`]       | P + 1                         | 1               | yes                 |
//! | [`Tournament`]    | 4 log2 P                      | P (log2 P + 1)  | no                  |
//! | [`Dissemination`] | r log_r P                     | P (r-1) log_r P | no                  |
//! | [`Combined`]      | the sum of both               | the sum of both | no                  |
//!
//! *Arrival is complete*: between `arrive` and `wait`, the others need nothing more of the member.
//! In the other barriers, a member also forwards the arrivals of others, and does so only inside
//! `done` and `wait`. If such a member blocks elsewhere between `arrive` and `wait`, in a wait that
//! needs one of the others, the team fails with a mismatch of calls ([`Fault::Mismatch`]).
//!
//! See [`cost`](crate::cost) for the formulas. [`RawCounter`] is outside this contract: it has no
//! ranks, and it does not detect that a thread is gone.
//!
//! # Why members have handles
//! A barrier that counts anonymous arrivals could do without handles, but it could not name the
//! missing member. A dropped handle ends the waits of the others. A handle also has the private
//! state of its member.
//!
//! # Why counts and flags only grow
//! A late member finds at least the number for which it waits, and a barrier may be used again
//! at once.

mod auto;
mod combined;
pub(crate) mod counter;
mod dissemination;
mod raw;
mod tournament;

use std::time::Instant;

use syncline_signal::Policy;
use syncline_trace::{Activity, span};

pub use auto::{Auto, AutoMember};
pub use combined::{Combined, CombinedMember};
pub use counter::{Counter, CounterMember};
pub(crate) use dissemination::rounds as dissemination_rounds;
pub use dissemination::{Dissemination, DisseminationMember};
pub use raw::RawCounter;
pub use tournament::{Role, Tournament, TournamentMember, roles};

use crate::error::{Fault, SpaceError};
use crate::traced::Traced;

/// The operations on a barrier that all its members share.
pub trait Barrier: Send + Sync {
    /// The handle of one member.
    type Member: BarrierMember;

    /// Returns the number of members.
    fn members(&self) -> usize;

    /// Returns the identity of the barrier in traces.
    #[doc(hidden)]
    fn traced(&self) -> Traced {
        Traced::default()
    }

    /// Takes the seat of the member `rank`.
    ///
    /// # One-sided
    /// Each member is made once, by the thread that acts as this member or on its behalf. Dropping
    /// the handle leaves the barrier: waits that still need the member end with [`Fault::Left`].
    /// The handle belongs to the process that made it: in a child made by `fork`, its calls return
    /// [`Fault::Forked`], and dropping it has no effect.
    ///
    /// # Errors
    /// [`SpaceError::Rank`] if there is no such rank; [`SpaceError::Taken`] if the seat is taken or
    /// was taken before.
    fn member(&self, rank: usize) -> Result<Self::Member, SpaceError>;
}

/// A member of a barrier.
///
/// # Errors
/// Every function reports a member that is dead ([`Fault::Dead`]), or that has left
/// ([`Fault::Left`]) before it had observed the episode complete (in a [`Counter`]: before it had
/// arrived). Waits report it within 0.2 s, `done` after some hundreds of polls. The barrier is
/// unusable from then on. A member whose process has ended counts as having left, regardless of how
/// far it had come. A death is reported even if the dead member had done its part in the episode. A
/// repeated call may therefore still find this episode and the next one complete, but never a
/// third.
pub trait BarrierMember: Send {
    /// Returns the rank of this member.
    fn rank(&self) -> usize;

    /// Returns the number of members of the barrier.
    fn members(&self) -> usize;

    /// Returns the number of episodes that this member has observed complete.
    fn episodes(&self) -> u64;

    /// Returns the identity of the barrier in traces.
    #[doc(hidden)]
    fn traced(&self) -> Traced {
        Traced::default()
    }

    /// Arrives at the next episode without waiting. Does nothing if the member has already arrived.
    ///
    /// # Collective
    /// All members arrive, in any order.
    ///
    /// # Memory ordering
    /// A release: everything before it is visible to each member that observes the episode
    /// complete.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn arrive(&mut self) -> Result<(), Fault>;

    /// Returns whether the episode at which this member has arrived is complete, or `true` if it
    /// has not arrived at one. Does not block.
    ///
    /// # Memory ordering
    /// `true` is an acquire.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn done(&mut self) -> Result<bool, Fault>;

    /// Waits until the episode is complete or the deadline has passed. Arrives first if necessary.
    ///
    /// # Memory ordering
    /// As `arrive` and `done`.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] when the deadline passes first. The member remains arrived and may call
    /// this again. It must wait again, or keep this handle, until the others have passed. If it
    /// drops the handle earlier, the others may fail with [`Fault::Left`]: an arrival is complete
    /// by itself at a [`Counter`] only; in barriers of several rounds the others need later rounds
    /// of the member. For other errors see [`BarrierMember`].
    #[inline]
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        let _waits = span(Activity::AwaitBarrier, self.traced().id(), self.episodes());
        self.wait_untraced(deadline)
    }

    /// Does what [`wait_deadline`](Self::wait_deadline) does, without a span in traces: barriers
    /// that consist of others call it, so that a wait has one span.
    ///
    /// # Errors
    /// As [`wait_deadline`](Self::wait_deadline).
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault>;

    /// Waits until the episode is complete. Arrives first if necessary.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    #[inline]
    fn wait(&mut self) -> Result<(), Fault> {
        self.wait_deadline(None)
    }

    /// Sets how this member spins and yields. The policy's `liveness` is not used: barriers check
    /// their own members and fault list.
    fn set_policy(&mut self, policy: &Policy<'_>);
}

/// A barrier whose arrival and release phases can be separated: rank 0 *leads*, and decides when
/// the others are released.
pub trait Phased: Barrier {
    /// The handle of one member of a led barrier.
    type Led: LedMember;

    /// Takes the seat of the member `rank`. Either all members of a barrier are taken with this
    /// method, or none.
    ///
    /// # Errors
    /// As [`Barrier::member`].
    fn led(&self, rank: usize) -> Result<Self::Led, SpaceError>;
}

/// A member of a led barrier. Rank 0 calls `arrive`, then `gathered` until it returns `true` or
/// `wait_gathered`, then `release`; the others make the usual calls of [`BarrierMember`].
pub trait LedMember: BarrierMember {
    /// Returns whether all others have arrived. Rank 0 only, after `arrive`.
    ///
    /// # Errors
    /// See [`BarrierMember`].
    fn gathered(&mut self) -> Result<bool, Fault>;

    /// Waits until all others have arrived. Rank 0 only, after `arrive`.
    ///
    /// # Errors
    /// As [`BarrierMember::wait_deadline`].
    fn wait_gathered(&mut self, deadline: Option<Instant>) -> Result<(), Fault>;

    /// Completes the episode and so releases the others. Rank 0 only, after the others have
    /// gathered.
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
            let dissemination =
                Dissemination::within(&mut Space::heap(), members, usize::MAX, Flags::Packed);
            assert_eq!(dissemination.unwrap_err(), refused);
            assert_eq!(Auto::within(&mut Space::heap(), members, usize::MAX).unwrap_err(), refused);
        }
    }
}
