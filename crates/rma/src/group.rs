//! A subset of the members of a team, which synchronise among themselves.
//!
//! # Contract
//! See [`Group::sync`]. The gate (see `engine`) counts syncs of all members of the team, so it does
//! not serve groups. A sync of a group is a fence by each of its members, followed by a barrier:
//! two phases.
//!
//! ```text
//!   member 1: puts ──> fence: acknowledged ──┐
//!   member 4: puts ──> fence: acknowledged ──┴─ dissemination among 1, 4, 7 ──> visible to all
//! ```
//!
//! # Costs
//! A fence of all hosts that were written to: one check, or the remainder of a round trip. Then
//! ceil(log2 P) rounds for P members.

use syncline_fabric::{Member, board::TeamBoard};
use syncline_sync::{BarrierMember, SpaceError, barrier::DisseminationMember, call_matching::Call};

use crate::error::RmaError;
use crate::rma::Rma;

/// A member's handle to a group: see [`Rma::group`].
#[derive(Debug)]
pub struct Group {
    ranks: Vec<usize>,
    barrier: Option<DisseminationMember<TeamBoard>>,
}

impl Rma {
    /// Creates a group of the members with the given ranks.
    ///
    /// # Collective
    /// All members of the team call it with the same list, including those that are not in the
    /// list.
    ///
    /// # Errors
    /// [`RmaError::Space`] if a rank is invalid or appears twice; [`RmaError::Shape`] if the list
    /// is empty.
    ///
    /// # Examples
    /// ```
    /// use syncline_fabric::Team;
    /// use syncline_rma::{Rma, RmaError};
    ///
    /// Team::hosts(2).threads(2).run(|me| {
    ///     let mut rma = Rma::new(me)?;
    ///     let memory = rma.allocate::<u64>(me, 1)?;
    ///     // The first members of each host.
    ///     let mut firsts = rma.group(me, &[0, 2])?;
    ///     if firsts.includes(me.rank()) {
    ///         rma.put(&memory, 2 - me.rank(), 0, &[7])?;
    ///         firsts.sync(&mut rma)?;
    ///         let mut found = [0];
    ///         rma.get(&memory, me.rank(), 0, &mut found)?;
    ///         assert_eq!(found, [7]);
    ///     }
    ///     rma.sync()
    /// })?.into_iter().collect::<Result<(), _>>()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&mut self, me: &mut Member, ranks: &[usize]) -> Result<Group, RmaError> {
        if ranks.is_empty() {
            return Err(RmaError::Shape { why: "a group has no members".to_owned() });
        }
        let slots = DisseminationMember::<TeamBoard>::slots(ranks.len(), 2);
        let board = me.calling(Call::GroupSync).board_of(ranks, slots)?;
        let barrier = board.map(|board| DisseminationMember::new(board, 2));
        Ok(Group { ranks: ranks.to_vec(), barrier })
    }
}

impl Group {
    /// Returns the ranks of the members of the group.
    #[must_use]
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Returns whether the member with this rank is in the group.
    #[must_use]
    pub fn includes(&self, rank: usize) -> bool {
        self.ranks.contains(&rank)
    }

    /// Waits until all members of the group have called it, and everything that any of them has
    /// written before is visible to all members.
    ///
    /// # Collective
    /// All members of the group call it, each the same number of times.
    ///
    /// # Memory ordering
    /// As [`Rma::sync`], among the members of the group.
    ///
    /// # Errors
    /// As [`Rma::sync`]; [`RmaError::Space`] if this member is not in the group.
    pub fn sync(&mut self, rma: &mut Rma) -> Result<(), RmaError> {
        let (rank, members) = (rma.rank(), self.ranks.len());
        let barrier = self.barrier.as_mut().ok_or(SpaceError::Rank { rank, members })?;
        rma.fence_all()?;
        Ok(barrier.wait()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_fabric::Team;

    fn rounds(me: &mut Member) -> Result<(), RmaError> {
        let mut rma = Rma::new(me)?;
        let memory = rma.allocate::<u64>(me, me.size())?;
        let (rank, size) = (me.rank(), me.size());
        let even = (0..size).step_by(2).collect::<Vec<_>>();
        let odd = (1..size).step_by(2).rev().collect::<Vec<_>>();
        let mut groups = [rma.group(me, &even)?, rma.group(me, &odd)?];
        let mine = rank % 2;
        assert!(groups[mine].includes(rank) && groups[1 - mine].sync(&mut rma).is_err());
        for round in 1..=100 * (1 + mine as u64) {
            // Members of the other group are targets, too.
            (0..size).try_for_each(|target| rma.put(&memory, target, rank, &[round]))?;
            groups[mine].sync(&mut rma)?;
            for &from in groups[mine].ranks() {
                let (at, mut found) = ((from + round as usize) % size, [0]);
                rma.get(&memory, at, from, &mut found)?;
                assert!(found[0] == round || found[0] == round + 1, "{found:?} in round {round}");
            }
        }
        rma.sync()
    }

    #[test]
    fn groups_go_on_by_themselves() {
        let done = |ended: Vec<Result<(), RmaError>>| {
            ended.into_iter().collect::<Result<(), _>>().unwrap()
        };
        done(Team::threads(4).quiet().run(rounds).unwrap());
        done(Team::hosts(3).quiet().run(rounds).unwrap());
        done(Team::hosts(2).processes(2).threads(2).quiet().run(rounds).unwrap());
        let wrong = Team::threads(2).quiet().run(|me| {
            let mut rma = Rma::new(me).unwrap();
            [&[0, 0][..], &[2], &[]].map(|ranks| rma.group(me, ranks).unwrap_err().to_string())
        });
        for [twice, none, empty] in wrong.unwrap() {
            assert!(
                twice.contains("rank 0 is taken") && none.contains("there is no rank 2: "),
                "{twice}, {none}"
            );
            assert!(empty.contains("no members"), "{empty}");
        }
    }
}
