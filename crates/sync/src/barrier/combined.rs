//! Threads within, processes without: a barrier of barriers.
//!
//! # Contract
//! See [`barrier`](crate::barrier). The members are in groups; each group has an inner barrier that its member 0 leads, and
//! the leaders have an outer one.
//!
//! # Figure: two processes of three threads
//! ```text
//!  process 0     0  1  2            process 1     0  1  2
//!                ▲──┴──┘ gather                   ▲──┴──┘ gather          inner, on the way up
//!                └────────────── outer ───────────┘                       among leaders
//!                ┌──┬──┐ release                  ┌──┬──┐ release         inner, on the way down
//! ```
//!
//! # Who is gone
//! Inner and outer barrier each tell of one who has left by its rank there; here that becomes the rank among all members, of
//! the outer barrier that of the group's leader. The dead are named by lists that have ranks among all members anyway.
//!
//! # Costs
//! Those of the inner barrier and of the outer one, one after the other. It pays where a message of the outer barrier
//! costs much more than a transfer of a line: between machines, and between groups of cores that share a cache.
//!
//! # Source
//! Kadur and Kochar's combined barrier (tournament within, dissemination without). Changed: any two barriers, of which the
//! inner one can be led; split-phase.

use std::time::Instant;

use syncline_signal::{Policy, plant};

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::error::{Fault, SpaceError};

/// A group of a barrier in two levels: the inner barrier of this group, and the outer one of the leaders of all.
///
/// ```
/// use syncline_sync::{BarrierMember, Combined, Counter, Dissemination, Tournament};
///
/// let outer = Dissemination::new(2)?; // of two groups
/// let groups = [Combined::new(0, Tournament::new(2)?, outer.clone()), Combined::new(1, Tournament::new(2)?, outer)];
/// std::thread::scope(|scope| {
///     for group in &groups {
///         for rank in 0..2 {
///             let mut member = group.member(rank).unwrap();
///             scope.spawn(move || (0..10).try_for_each(|_| member.wait()).unwrap());
///         }
///     }
/// });
/// # Ok::<(), syncline_sync::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Combined<Inner, Outer> {
    group: usize,
    inner: Inner,
    outer: Outer,
}

/// A member of a [`Combined`] barrier.
#[derive(Debug)]
pub struct CombinedMember<Inner, Outer> {
    inner: Inner,
    /// The leader's part in the outer barrier.
    outer: Option<Outer>,
    /// Ranks of earlier groups.
    before: usize,
    members: usize,
    arrived: bool,
    /// The leader has arrived at the outer barrier.
    outside: bool,
}

impl<Inner: Phased, Outer: Barrier> Combined<Inner, Outer> {
    /// The group `group`, counted from 0, of as many as `outer` has members. All groups are of one size.
    pub fn new(group: usize, inner: Inner, outer: Outer) -> Self {
        Combined { group, inner, outer }
    }

    /// How many members all groups have.
    pub fn members(&self) -> usize {
        self.inner.members() * self.outer.members()
    }

    /// Takes the seat `rank` of this group; its rank among all members is that of earlier groups more.
    ///
    /// # Errors
    /// As [`Barrier::member`].
    pub fn member(&self, rank: usize) -> Result<CombinedMember<Inner::Led, Outer::Member>, SpaceError> {
        let inner = self.inner.led(rank)?;
        let outer = if rank == 0 { Some(self.outer.member(self.group)?) } else { None };
        let before = self.group * self.inner.members();
        Ok(CombinedMember { inner, outer, before, members: self.members(), arrived: false, outside: false })
    }
}

impl<Inner: LedMember, Outer: BarrierMember> CombinedMember<Inner, Outer> {
    /// The leader's way out, once its group has gathered; whether it is there.
    #[inline]
    fn go_out(&mut self) -> Result<bool, Fault> {
        let (inside, among_leaders) = (Self::inside(self.before), Self::among_leaders(self.inner.members()));
        if let Some(outer) = &mut self.outer
            && !self.outside
            && self.inner.gathered().map_err(inside)?
        {
            self.outside = true;
            outer.arrive().map_err(among_leaders)?;
        }
        Ok(self.outside)
    }

    /// What the inner barrier says, with ranks among all members.
    fn inside(before: usize) -> impl Fn(Fault) -> Fault {
        move |fault| match fault {
            Fault::Left { rank } => Fault::Left { rank: before + rank },
            other => other,
        }
    }

    /// What the outer barrier says, with the rank of a group's leader in place of the group's.
    fn among_leaders(size: usize) -> impl Fn(Fault) -> Fault {
        move |fault| match fault {
            Fault::Left { rank } => Fault::Left { rank: rank * size },
            other => other,
        }
    }

    fn finish(&mut self) {
        (self.arrived, self.outside) = (false, false);
    }
}

impl<Inner: LedMember, Outer: BarrierMember> BarrierMember for CombinedMember<Inner, Outer> {
    fn rank(&self) -> usize {
        self.before + self.inner.rank()
    }

    fn members(&self) -> usize {
        self.members
    }

    fn episodes(&self) -> u64 {
        self.inner.episodes()
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        if !self.arrived {
            self.arrived = true;
            self.inner.arrive().map_err(Self::inside(self.before))?;
            self.go_out()?;
        }
        Ok(())
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        if !self.arrived {
            return Ok(true);
        }
        if self.outer.is_some() && !self.go_out()? {
            return Ok(false);
        }
        let done = match &mut self.outer {
            None => self.inner.done().map_err(Self::inside(self.before))?,
            Some(outer) => outer.done().map_err(Self::among_leaders(self.inner.members()))?,
        };
        if !done {
            return Ok(false);
        }
        if self.outer.is_some() {
            self.inner.release().map_err(Self::inside(self.before))?;
        }
        self.finish();
        Ok(true)
    }

    #[inline]
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        if !self.arrived {
            self.arrived = true;
            self.inner.arrive().map_err(Self::inside(self.before))?;
        }
        let (inside, among_leaders) = (Self::inside(self.before), Self::among_leaders(self.inner.members()));
        match &mut self.outer {
            None => self.inner.wait_deadline(deadline).map_err(inside)?,
            Some(outer) => {
                if !self.outside {
                    self.inner.wait_gathered(deadline).map_err(&inside)?;
                    self.outside = true;
                }
                if !plant::is("combined: no outer barrier") {
                    outer.wait_deadline(deadline).map_err(among_leaders)?;
                }
                self.inner.release().map_err(inside)?;
            }
        }
        self.finish();
        Ok(())
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        self.inner.set_policy(policy);
        if let Some(outer) = &mut self.outer {
            outer.set_policy(policy);
        }
    }
}
