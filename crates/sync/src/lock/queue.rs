//! The operations of a queue below a lock.
//!
//! # Contract
//! The lock is the only caller, as `Inside` ensures. It uses each rank from one thread at a time,
//! and never asks for a lock that the rank holds. References into the data of a lock rely on the
//! results of the queue, so no other code may call a queue or implement one.
//!
//! # Why a place survives a deadline
//! A member that gives up and returns before its turn finds its place. So there are never more
//! places than members, and no operation allocates. The maximum of one monotone word settles
//! place and turn.

use std::fmt;
use std::time::Instant;

use syncline_signal::{Liveness, Policy, WaitError};

use crate::error::SpaceError;
use crate::space::Space;

/// Proof that the caller keeps the contract; only the lock can construct it.
#[derive(Clone, Copy, Debug)]
pub struct Inside(pub(super) ());

/// A queue of members, ranked from 0.
pub trait Queue: Clone + Send + Sync + fmt::Debug + 'static {
    /// The name of the kind of queue, for traces.
    const NAME: &'static str;

    /// Creates a queue whose lock is free.
    ///
    /// # Errors
    /// Errors of [`Space::array`] if the space has no room.
    fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError>;

    /// Takes the lock if it is free and no member waits for it; returns whether it did.
    ///
    /// # Memory ordering
    /// An acquire, if it succeeds.
    fn try_acquire(&self, rank: usize, _: Inside) -> bool;

    /// Asks for the lock, or resumes the place that was given up. `None`: the lock is held.
    /// Otherwise the member is in the queue, and calls [`wait`](Self::wait) with the returned
    /// number.
    ///
    /// # Memory ordering
    /// An acquire, if it returns `None`.
    fn ask(&self, rank: usize, _: Inside) -> Option<u64>;

    /// Waits for the lock, in the order of arrival. A member that gives up keeps its place: if its
    /// turn comes while it is away, the place is passed over; if the member returns first, it
    /// resumes the place. `false`: the place was resumed too often to be kept once more and has
    /// been passed over; the member must ask again.
    ///
    /// # Memory ordering
    /// An acquire, if it returns `true`.
    ///
    /// # Errors
    /// The deadline has passed, or the policy's `liveness` reports a fault. The lock is not held.
    fn wait(
        &self,
        rank: usize,
        asked: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
        _: Inside,
    ) -> Result<bool, WaitError>;

    /// Releases the lock. If a death may have broken the queue (`gone` reports deaths that no
    /// repair has covered), the queue is left as it is: that death ends the waits of all members in
    /// it.
    ///
    /// # Memory ordering
    /// A release.
    fn release(&self, rank: usize, gone: &dyn Liveness, _: Inside);

    /// Returns whether another member waits for the lock, which `rank` holds. A member that begins
    /// to wait meanwhile may be missed.
    fn is_awaited(&self, rank: usize, _: Inside) -> bool;

    /// Empties the queue. Only dead members, and members that gave up their places, may be in it.
    fn reset(&self, _: Inside);
}
