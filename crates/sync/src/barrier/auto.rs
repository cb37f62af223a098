//! The barrier that fits: by the number of members and of cores.
//!
//! # Contract
//! See [`barrier`](crate::barrier). All views of one barrier choose alike, because all are told the same two numbers.
//!
//! | members                        | choice                                     | why                               |
//! |--------------------------------|--------------------------------------------|-----------------------------------|
//! | more than cores                | [`Counter`]                                | each runs once per episode; in rounds each would have to run in turn |
//! | as many as cores, or fewer     | the shortest chain of line transfers       | [`cost::best`](crate::cost::best) |
//!
//! # Costs
//! Those of the choice, and a branch.

use std::time::Instant;

use syncline_signal::Policy;

use super::{Barrier, BarrierMember, Counter, CounterMember, Dissemination, DisseminationMember};
use crate::board::Flags;
use crate::cost::{self, Algorithm};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, possible};
use crate::space::Space;

/// The barrier that fits: by the number of members and of cores.
///
/// ```
/// use syncline_sync::{Auto, Barrier, BarrierMember};
///
/// let barrier = Auto::new(1)?;
/// barrier.member(0)?.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Auto(Choice<Counter, Dissemination>);

/// A member of an [`Auto`] barrier.
#[derive(Debug)]
pub struct AutoMember(Choice<CounterMember, DisseminationMember>);

#[derive(Clone, Debug)]
enum Choice<C, D> {
    Counter(C),
    Dissemination(D),
}

impl Auto {
    /// A barrier for threads, on the cores that this process may use.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Auto, SpaceError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::within(&mut Space::heap(), members, cores)
    }

    /// A barrier in `space`, for members on so many cores.
    ///
    /// # Collective
    /// See [`Space::array`]. All are told the same number of cores.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many, or if the space has no room.
    pub fn within(space: &mut Space, members: usize, cores: usize) -> Result<Auto, SpaceError> {
        possible(members)?;
        Ok(Auto(match cost::best(members, cores) {
            Algorithm::Dissemination { radix } => {
                // Each member on a core of its own: its neighbours' flags are not to disturb it.
                Choice::Dissemination(Dissemination::within(space, members, radix, Flags::Padded)?)
            }
            _ => Choice::Counter(Counter::within(space, members)?),
        }))
    }

    /// The same barrier; its members are told of these deaths.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Auto(match self.0 {
            Choice::Counter(counter) => Choice::Counter(counter.watching(fault_list)),
            Choice::Dissemination(rumours) => Choice::Dissemination(rumours.watching(fault_list)),
        })
    }
}

impl Barrier for Auto {
    type Member = AutoMember;

    fn members(&self) -> usize {
        match &self.0 {
            Choice::Counter(counter) => counter.members(),
            Choice::Dissemination(rumours) => rumours.members(),
        }
    }

    fn member(&self, rank: usize) -> Result<AutoMember, SpaceError> {
        Ok(AutoMember(match &self.0 {
            Choice::Counter(counter) => Choice::Counter(counter.member(rank)?),
            Choice::Dissemination(rumours) => Choice::Dissemination(rumours.member(rank)?),
        }))
    }
}

/// The same call to whichever it is.
macro_rules! chosen {
    ($self:ident, $member:ident => $call:expr) => {
        match &$self.0 {
            Choice::Counter($member) => $call,
            Choice::Dissemination($member) => $call,
        }
    };
    (mut $self:ident, $member:ident => $call:expr) => {
        match &mut $self.0 {
            Choice::Counter($member) => $call,
            Choice::Dissemination($member) => $call,
        }
    };
}

impl BarrierMember for AutoMember {
    fn rank(&self) -> usize {
        chosen!(self, member => member.rank())
    }

    fn members(&self) -> usize {
        chosen!(self, member => member.members())
    }

    fn episodes(&self) -> u64 {
        chosen!(self, member => member.episodes())
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        chosen!(mut self, member => member.arrive())
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        chosen!(mut self, member => member.done())
    }

    #[inline]
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        chosen!(mut self, member => member.wait_deadline(deadline))
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        chosen!(mut self, member => member.set_policy(policy));
    }
}
