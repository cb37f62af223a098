//! A barrier that selects its algorithm by the numbers of members and cores.
//!
//! # Contract
//! See [`barrier`](crate::barrier). All views of one barrier choose the same algorithm, because all
//! are given the same two numbers.
//!
//! | members                  | choice                      | reason                            |
//! |--------------------------|-----------------------------|-----------------------------------|
//! | more than cores          | [`Counter`]                 | one time slice per member         |
//! | at most as many as cores | the shortest transfer chain | [`cost::best`](crate::cost::best) |
//!
//! With more members than cores, a barrier of rounds would have to schedule every member once in
//! each round.
//!
//! # Costs
//! Those of the selected barrier, and one branch.

use std::time::Instant;

use syncline_signal::Policy;

use super::{Barrier, BarrierMember, Counter, CounterMember, Dissemination, DisseminationMember};
use crate::board::Flags;
use crate::cost::{self, Algorithm};
use crate::error::{Fault, SpaceError};
use crate::membership::{FaultList, possible};
use crate::space::Space;
use crate::traced::Traced;

/// A barrier that selects its algorithm by the numbers of members and cores.
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
    /// Creates a barrier for threads, on the cores that this process may use.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many.
    pub fn new(members: usize) -> Result<Auto, SpaceError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::within(&mut Space::heap(), members, cores)
    }

    /// Creates a barrier in `space`, for members that run on `cores` cores.
    ///
    /// # Collective
    /// See [`Space::array`]. All views are given the same number of cores.
    ///
    /// # Errors
    /// [`SpaceError::Members`] if there are none or too many; errors of [`Space::array`] if the
    /// space has no room.
    pub fn within(space: &mut Space, members: usize, cores: usize) -> Result<Auto, SpaceError> {
        possible(members)?;
        Ok(Auto(match cost::best(members, cores) {
            Algorithm::Dissemination { radix } => {
                // Each member has its own core: raises of a neighbour's flags must not disturb it.
                Choice::Dissemination(Dissemination::within(space, members, radix, Flags::Padded)?)
            }
            _ => Choice::Counter(Counter::within(space, members)?),
        }))
    }

    /// Returns the same barrier, whose waits end for the faults in `fault_list`.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Auto(match self.0 {
            Choice::Counter(counter) => Choice::Counter(counter.watching(fault_list)),
            Choice::Dissemination(dissemination) => {
                Choice::Dissemination(dissemination.watching(fault_list))
            }
        })
    }
}

impl Barrier for Auto {
    type Member = AutoMember;

    fn members(&self) -> usize {
        match &self.0 {
            Choice::Counter(counter) => counter.members(),
            Choice::Dissemination(dissemination) => dissemination.members(),
        }
    }

    fn traced(&self) -> Traced {
        match &self.0 {
            Choice::Counter(counter) => counter.traced(),
            Choice::Dissemination(dissemination) => dissemination.traced(),
        }
    }

    fn member(&self, rank: usize) -> Result<AutoMember, SpaceError> {
        Ok(AutoMember(match &self.0 {
            Choice::Counter(counter) => Choice::Counter(counter.member(rank)?),
            Choice::Dissemination(dissemination) => {
                Choice::Dissemination(dissemination.member(rank)?)
            }
        }))
    }
}

/// Makes the same call on the selected barrier.
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

    fn traced(&self) -> Traced {
        chosen!(self, member => member.traced())
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
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        chosen!(mut self, member => member.wait_untraced(deadline))
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        chosen!(mut self, member => member.set_policy(policy));
    }
}
