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
//! One who has left is missed by its own group, and its leader with it, who then leaves the outer barrier; so the other
//! leaders are told, each of whom then leaves its own group. Inner and outer barrier tell of one who has left by its rank
//! there; here that becomes the rank among all members. So in another group the one who is named is the leader of the
//! group that cannot go on, or one's own; and each of the three steps takes as long as in other barriers all of it.
//!
//! A list of deaths has ranks among all members. Of a member in the list that has left, an inner or
//! outer barrier tells in the same words as of one of its own members. So a combined barrier has
//! to know the list ([`Combined::watching`]): while there is an entry, members are told that.
//!
//! # Costs
//! Those of the inner barrier and of the outer one, one after the other. It pays where a message of the outer barrier
//! costs much more than a transfer of a line: between machines, and between groups of cores that share a cache.
//!
//! # Source
//! Kadur and Kochar's combined barrier (tournament within, dissemination without). Changed: any two barriers, of which the
//! inner one can be led; split-phase.

use std::sync::Arc;
use std::time::Instant;

use syncline_signal::{Policy, plant};

use super::{Barrier, BarrierMember, LedMember, Phased};
use crate::error::{Fault, SpaceError};
use crate::membership::FaultList;

/// A group of a barrier in two levels: the inner barrier of this group, and the outer one of the leaders of all.
///
/// ```
/// use syncline_sync::{BarrierMember, barrier::{Combined, Counter, Dissemination, Tournament}};
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
    /// The ranks among all members, by group, unless they are as `new` says.
    ranks: Option<Arc<[Vec<usize>]>>,
    fault_list: Option<FaultList>,
}

/// A member of a [`Combined`] barrier.
#[derive(Debug)]
pub struct CombinedMember<Inner, Outer> {
    rank: usize,
    members: usize,
    episodes: u64,
    group: usize,
    /// How many members a group has.
    size: usize,
    /// The ranks among all members, unless groups are of one size, and follow one another.
    ranks: Option<Arc<[Vec<usize>]>>,
    fault_list: Option<FaultList>,
    /// Until the other barrier ends this one's part in it.
    inner: Option<Inner>,
    /// The leader's part in the outer barrier.
    outer: Option<Outer>,
    leads: bool,
    arrived: bool,
    /// The leader has arrived at the outer barrier.
    outside: bool,
    /// Who has left: there are no more episodes.
    left: Option<Fault>,
}

impl<Inner: Phased, Outer: Barrier> Combined<Inner, Outer> {
    /// The group `group`, counted from 0, of as many as `outer` has members. All groups are of one size, and ranks among
    /// all members are those of earlier groups more.
    pub fn new(group: usize, inner: Inner, outer: Outer) -> Self {
        Combined { group, inner, outer, ranks: None, fault_list: None }
    }

    /// The same, where inner and outer barrier watch a list, in which members have their ranks
    /// among all.
    #[must_use]
    pub fn watching(self, fault_list: &FaultList) -> Self {
        Combined { fault_list: Some(fault_list.clone()), ..self }
    }

    /// The same, of groups whose members have these ranks among all, by group.
    #[must_use]
    pub fn ranked(self, ranks: Arc<[Vec<usize>]>) -> Self {
        Combined { ranks: Some(ranks), ..self }
    }

    /// How many members all groups have.
    pub fn members(&self) -> usize {
        match &self.ranks {
            Some(ranks) => ranks.iter().map(Vec::len).sum(),
            None => self.inner.members() * self.outer.members(),
        }
    }

    /// Takes the seat `rank` of this group.
    ///
    /// # Errors
    /// As [`Barrier::member`]; [`SpaceError::Rank`], too, if there is no such group.
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
        // First, as it may be another group's.
        let outer = if leads { Some(self.outer.member(group)?) } else { None };
        Ok(CombinedMember {
            rank: named,
            members: self.members(),
            episodes: 0,
            group,
            size,
            ranks: self.ranks.clone(),
            fault_list: self.fault_list.clone(),
            inner: Some(self.inner.led(rank)?),
            outer,
            leads,
            arrived: false,
            outside: false,
            left: None,
        })
    }
}

impl<Inner: LedMember, Outer: BarrierMember> CombinedMember<Inner, Outer> {
    /// Does something in the inner barrier.
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

    /// That a member of a group has left, which may be because of the first in the list.
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

    /// A fault of one of the two barriers, which knows the caller by another rank.
    fn of_the_whole(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Forked { .. } => Fault::Forked { rank: self.rank },
            other => other,
        }
    }

    /// Does something in the outer barrier, which the leader has.
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

    /// The leader's way out, once its group has gathered; whether it is there.
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

    /// Where this member waits: in the outer barrier, if there is that, else in the inner one.
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
    fn wait_deadline(&mut self, deadline: Option<Instant>) -> Result<(), Fault> {
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
                self.without(|outer| outer.wait_deadline(deadline))?;
            }
            self.within(Inner::release)?;
        } else {
            self.within(|inner| inner.wait_deadline(deadline))?;
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
