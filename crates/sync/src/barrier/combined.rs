//! A barrier of two levels, for example threads inside processes.
//!
//! # Contract
//! See [`barrier`](crate::barrier). The members form groups. Each group has an inner barrier that
//! its member 0 leads, and the leaders share an outer barrier.
//!
//! # Figure: two processes of three threads
//! ```text
//!  process 0     0  1  2            process 1     0  1  2
//!                ▲──┴──┘ gather                   ▲──┴──┘ gather          inner, on the way up
//!                └────────────── outer ───────────┘                       among leaders
//!                ┌──┬──┐ release                  ┌──┬──┐ release         inner, on the way down
//! ```
//!
//! # Members that have left
//! A member that leaves is detected by its own group. The leader of that group then leaves the
//! outer barrier; the other leaders detect that, and each of them leaves its own group. The inner
//! and the outer barrier report the rank there of the member that left; this barrier translates it
//! to the rank among all members. In another group, the reported member is therefore the leader of
//! the group that cannot proceed, or the group's own leader. Each of the three steps takes as long
//! as the whole detection takes in other barriers.
//!
//! The ranks in a fault list are ranks among all members. An inner or outer barrier reports a
//! listed member that has left with the same fault as one of its own members, so the rank would be
//! ambiguous. A combined barrier therefore needs the list itself ([`Combined::watching`]): while
//! the list has an entry, members that detect a departure report that entry.
//!
//! # Costs
//! Those of the inner barrier and those of the outer one, in sequence. It pays where a message of
//! the outer barrier costs much more than a line transfer: between machines, and between groups of
//! cores that share a cache.
//!
//! # Source
//! Kadur and Kochar's combined barrier (tournament inside, dissemination outside). Changes: any two
//! barriers, provided that the inner one can be led; split-phase.

use std::sync::Arc;
use std::time::Instant;

use syncline_signal::{Policy, plant};
use syncline_trace::note::ObjectClass;

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::error::{Fault, SpaceError};
use crate::membership::FaultList;
use crate::traced::Traced;

/// One group of a barrier of two levels: the inner barrier of this group, and the outer barrier of
/// the leaders of all groups.
///
/// ```
/// use syncline_sync::{BarrierMember, barrier::{Combined, Counter, Dissemination, Tournament}};
///
/// let outer = Dissemination::new(2)?; // of two groups
/// let groups = [
///     Combined::new(0, Tournament::new(2)?, outer.clone()),
///     Combined::new(1, Tournament::new(2)?, outer),
/// ];
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
    /// The ranks among all members, by group; `None`: as computed by `new`.
    ranks: Option<Arc<[Vec<usize>]>>,
    fault_list: Option<FaultList>,
}

/// A member of a [`Combined`] barrier.
#[derive(Debug)]
pub struct CombinedMember<Inner, Outer> {
    rank: usize,
    members: usize,
    episodes: u64,
    traced: Traced,
    group: usize,
    /// The number of members in a group.
    size: usize,
    /// The ranks among all members; `None` if groups have equal sizes and consecutive ranks.
    ranks: Option<Arc<[Vec<usize>]>>,
    fault_list: Option<FaultList>,
    /// The inner membership; `None` after a fault of the outer barrier has ended it.
    inner: Option<Inner>,
    /// The leader's membership of the outer barrier.
    outer: Option<Outer>,
    leads: bool,
    arrived: bool,
    /// Whether the leader has arrived at the outer barrier.
    outside: bool,
    /// The fault that ended this member: there are no more episodes.
    left: Option<Fault>,
}

impl<Inner: Phased, Outer: Barrier> Combined<Inner, Outer> {
    /// Creates the group with index `group`; there are as many groups as `outer` has members. All
    /// groups have the same size. The rank of a member among all is its rank in the group plus the
    /// number of members in earlier groups.
    pub fn new(group: usize, inner: Inner, outer: Outer) -> Self {
        Combined { group, inner, outer, ranks: None, fault_list: None }
    }

    /// Returns the same barrier, where the inner and the outer barrier watch `fault_list`. The list
    /// holds ranks among all members.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Combined { fault_list: Some(fault_list.clone()), ..self }
    }

    /// Returns the same barrier, whose members have the ranks `ranks` among all members, by group.
    #[must_use]
    pub fn ranked(self, ranks: Arc<[Vec<usize>]>) -> Self {
        Combined { ranks: Some(ranks), ..self }
    }

    /// Returns the number of members in all groups.
    pub fn members(&self) -> usize {
        match &self.ranks {
            Some(ranks) => ranks.iter().map(Vec::len).sum(),
            None => self.inner.members() * self.outer.members(),
        }
    }

    /// Takes the seat `rank` of this group.
    ///
    /// # Errors
    /// As [`Barrier::member`]; also [`SpaceError::Rank`] if there is no such group.
    pub fn member(
        &self,
        rank: usize,
    ) -> Result<CombinedMember<Inner::Led, Outer::Member>, SpaceError> {
        let (group, groups, size) = (self.group, self.outer.members(), self.inner.members());
        if group >= groups {
            return Err(SpaceError::Rank { rank: group, members: groups });
        }
        let leads = rank == 0;
        let named = self.ranks.as_ref().map_or(Some(group * size + rank), |ranks| {
            ranks.get(group).and_then(|group| group.get(rank)).copied()
        });
        let named = named.ok_or(SpaceError::Rank { rank, members: size })?;
        // All groups have the outer barrier in common.
        let traced = self.outer.traced();
        // The outer seat is taken first: another group may have taken it.
        let outer = if leads { Some(self.outer.member(group)?) } else { None };
        let inner = Some(self.inner.led(rank)?);
        traced.name(ObjectClass::Barrier, "combined");
        Ok(CombinedMember {
            rank: named,
            members: self.members(),
            episodes: 0,
            traced,
            group,
            size,
            ranks: self.ranks.clone(),
            fault_list: self.fault_list.clone(),
            inner,
            outer,
            leads,
            arrived: false,
            outside: false,
            left: None,
        })
    }
}

impl<Inner: LedMember, Outer: BarrierMember> CombinedMember<Inner, Outer> {
    /// Calls the inner barrier.
    #[inline]
    fn within<T>(&mut self, call: impl FnOnce(&mut Inner) -> Result<T, Fault>) -> Result<T, Fault> {
        let called = match (&mut self.inner, self.left) {
            (Some(inner), None) => call(inner),
            (_, left) => return Err(left.unwrap_or(Fault::TimedOut)),
        };
        called.map_err(|fault| match fault {
            Fault::Left { rank } => {
                self.outer = None;
                let left = self.left_as(self.group, rank);
                *self.left.insert(left)
            }
            other => self.of_the_whole(other),
        })
    }

    /// Returns the fault for a member of a group that has left: the first fault in the list, if
    /// there is one, as it may be the cause.
    fn left_as(&self, group: usize, rank: usize) -> Fault {
        let known = self
            .ranks
            .as_ref()
            .and_then(|ranks| ranks.get(group))
            .and_then(|group| group.get(rank));
        let rank = known.copied().unwrap_or(group * self.size + rank);
        let listed = self.fault_list.as_ref().and_then(|fault_list| fault_list.fault(0));
        listed.unwrap_or(Fault::Left { rank })
    }

    /// Translates a fault of the inner or outer barrier, in which this member has another rank.
    fn of_the_whole(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Forked { .. } => Fault::Forked { rank: self.rank },
            other => other,
        }
    }

    /// Calls the outer barrier, of which only the leader is a member.
    #[inline]
    fn without<T>(
        &mut self,
        call: impl FnOnce(&mut Outer) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let called = match (&mut self.outer, self.left) {
            (Some(outer), None) => call(outer),
            (_, left) => return Err(left.unwrap_or(Fault::TimedOut)),
        };
        called.map_err(|fault| match fault {
            Fault::Left { rank } => {
                self.inner = None;
                let left = self.left_as(rank, 0);
                *self.left.insert(left)
            }
            other => self.of_the_whole(other),
        })
    }

    /// Arrives at the outer barrier once the leader's group has gathered; returns whether it has
    /// arrived.
    #[inline]
    fn go_out(&mut self) -> Result<bool, Fault> {
        if self.leads && !self.outside && self.within(Inner::gathered)? {
            self.outside = true;
            self.without(Outer::arrive)?;
        }
        Ok(self.outside)
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the barriers in which this member may wait: the outer one if the member has arrived
    /// there, otherwise the inner one.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn parts(&mut self) -> (Option<&Inner>, Option<&mut Outer>) {
        (self.inner.as_ref(), self.outer.as_mut().filter(|_| self.outside))
    }

    fn finish(&mut self) {
        self.episodes += 1;
        (self.arrived, self.outside) = (false, false);
    }
}

impl<Inner: LedMember, Outer: BarrierMember> BarrierMember for CombinedMember<Inner, Outer> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn members(&self) -> usize {
        self.members
    }

    fn episodes(&self) -> u64 {
        self.episodes
    }

    fn traced(&self) -> Traced {
        self.traced
    }

    #[inline]
    fn arrive(&mut self) -> Result<(), Fault> {
        if !self.arrived {
            self.arrived = true;
            self.within(Inner::arrive)?;
            self.go_out()?;
        }
        Ok(())
    }

    #[inline]
    fn done(&mut self) -> Result<bool, Fault> {
        if !self.arrived {
            return Ok(true);
        }
        if self.leads {
            if !self.go_out()? || !self.without(Outer::done)? {
                return Ok(false);
            }
            self.within(Inner::release)?;
        } else if !self.within(Inner::done)? {
            return Ok(false);
        }
        self.finish();
        Ok(true)
    }

    #[inline]
    fn wait_untraced(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
        if !self.arrived {
            self.arrived = true;
            self.within(Inner::arrive)?;
        }
        if self.leads {
            if !self.outside {
                self.within(|inner| inner.wait_gathered(deadline))?;
                self.outside = true;
            }
            if !plant::is("combined: no outer barrier") {
                self.without(|outer| outer.wait_untraced(deadline))?;
            }
            self.within(Inner::release)?;
        } else {
            self.within(|inner| inner.wait_untraced(deadline))?;
        }
        self.finish();
        Ok(())
    }

    fn set_policy(&mut self, policy: &Policy<'_>) {
        if let Some(inner) = &mut self.inner {
            inner.set_policy(policy);
        }
        if let Some(outer) = &mut self.outer {
            outer.set_policy(policy);
        }
    }
}
