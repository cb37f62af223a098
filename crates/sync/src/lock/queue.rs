//! What a queue under a lock does.
//!
//! # Contract
//! The lock above is the only caller, as `Inside` says: each rank is used by one thread at a time, and asks for nothing that
//! it has. References into the data of a lock rest on what a queue says; so nobody else may call it or make one.

use std::fmt;
use std::time::Instant;

use syncline_signal::{Liveness, Policy, WaitError};

use crate::error::SpaceError;
use crate::space::Space;

/// The word of a caller that keeps to the contract; only the lock can give it.
#[derive(Clone, Copy, Debug)]
pub struct Inside(pub(super) ());

/// A queue of members, ranked from 0.
pub trait Queue: Clone + Send + Sync + fmt::Debug + 'static {
    /// A free lock.
    ///
    /// # Errors
    /// If the space has no room.
    fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError>;

    /// Takes the lock if nobody has it or waits for it.
    ///
    /// # Memory ordering
    /// An acquire, if it succeeds.
    fn try_acquire(&self, rank: usize, _: Inside) -> bool;

    /// Asks for the lock, or comes back to the place that was given up. `None`: it has it. Otherwise it is in the queue, and
    /// calls [`wait`](Self::wait) with what this says.
    ///
    /// # Memory ordering
    /// An acquire, if it has it.
    fn ask(&self, rank: usize, _: Inside) -> Option<u64>;

    /// Waits for the lock, in the order of arrival. A member that gives up keeps its place, which is passed over when its
    /// turn comes while it is away, and found again if it is back before. False: it has come back too often to keep it for
    /// another time, has been passed over, and is to ask anew.
    ///
    /// # Memory ordering
    /// An acquire.
    ///
    /// # Errors
    /// The deadline passed, or the policy names somebody who is gone. It has not got the lock.
    fn wait(
        &self,
        rank: usize,
        asked: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
        _: Inside,
    ) -> Result<bool, WaitError>;

    /// Lets go. If a death may have broken the queue, which `gone` tells of deaths that were not repaired, it is left as it
    /// is: all who are in it are told.
    ///
    /// # Memory ordering
    /// A release.
    fn release(&self, rank: usize, gone: &dyn Liveness, _: Inside);

    /// Empties the queue. Nobody is in it but the dead, and those who gave up their places.
    fn reset(&self, _: Inside);
}
