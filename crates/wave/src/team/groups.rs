//! Members that share memory.
//!
//! # Contract
//! A *group* is up to [`MOST`] consecutive ranks on one host. Its members share the panels and the
//! final rows of their columns: a row is read, and written, by one request, however many members
//! have columns of it.
//!
//! ```text
//! rank    0   1   2   3   4          each group is to the disk what a host with one member is:
//! host    A   A   B   B   A          one range of columns, one writer
//! group   0───0   1───1   2
//! ```
//! The members of a group read panels in turn. Its last member writes. As each member follows its
//! western neighbour by a band, a panel is needed for as many bands as there are members: so longer
//! runs of ranks are several groups.
//!
//! Members of one host have rings of their own, and exchange values at their cuts as members of
//! different hosts do: one geometry serves both. But the disk sees a group, not members: with
//! columns that each member reads by itself, two processes of one host took twice as long for their
//! requests of half a row.

use std::ops::Range;

use syncline_fabric::Member;

/// The greatest number of members of a group.
const MOST: usize = 4;

/// The groups of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The members of each group.
    members: Vec<Range<usize>>,
    /// The host of each group.
    hosts: Vec<usize>,
}

impl Groups {
    /// Returns the groups of a team; the same in all members.
    pub(crate) fn of(me: &Member) -> Groups {
        let mut hosts = vec![0; me.size()];
        for host in 0..me.hosts().count() {
            me.ranks_on(host).into_iter().for_each(|rank| hosts[rank] = host);
        }
        Groups::new(&hosts)
    }

    /// Returns the groups of members on these hosts.
    pub(crate) fn new(host_of: &[usize]) -> Groups {
        let runs = host_of.chunk_by(|a, b| a == b);
        let runs: Vec<&[usize]> = runs.flat_map(|run| run.chunks(MOST)).collect();
        let hosts = runs.iter().map(|run| run[0]).collect();
        let mut end = 0;
        let members = runs.iter().map(|run| {
            let start = end;
            end += run.len();
            start..end
        });
        Groups { members: members.collect(), hosts }
    }

    /// Returns the number of groups.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// Returns the members of a group.
    pub(crate) fn members(&self, group: usize) -> Range<usize> {
        self.members[group].clone()
    }

    /// Returns the group of a member.
    pub(crate) fn group(&self, member: usize) -> usize {
        self.members.partition_point(|members| members.end <= member)
    }

    /// Returns whether a group has one member.
    pub(crate) fn is_alone(&self, group: usize) -> bool {
        self.members[group].len() == 1
    }

    /// Returns the groups on the host of a group, in ascending order.
    pub(crate) fn beside(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.count()).filter(move |&other| self.hosts[other] == self.hosts[group])
    }

    /// Returns whether two members are on one host.
    pub(crate) fn share_host(&self, member: usize, other: usize) -> bool {
        self.hosts[self.group(member)] == self.hosts[self.group(other)]
    }

    /// Returns the number of members of all groups.
    pub(crate) fn members_in_all(&self) -> usize {
        self.members.last().map_or(0, |members| members.end)
    }

    /// Returns the number of members of the largest group.
    pub(crate) fn largest(&self) -> usize {
        self.members.iter().map(Range::len).max().unwrap_or(1)
    }

    /// Returns the member that reads the panels of a slot for a group.
    pub(crate) fn reader(&self, group: usize, slot: usize) -> usize {
        let members = self.members(group);
        members.start + slot % members.len()
    }

    /// Returns the member that writes the final rows of a group.
    pub(crate) fn writer(&self, group: usize) -> usize {
        self.members[group].end - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_ranks_on_one_host_are_a_group() {
        let groups = Groups::new(&[0, 0, 1, 1, 0]);
        let all: Vec<_> = (0..groups.count()).map(|group| groups.members(group)).collect();
        assert_eq!(all, [0..2, 2..4, 4..5]);
        assert_eq!([0, 1, 2, 3, 4].map(|member| groups.group(member)), [0, 0, 1, 1, 2]);
        assert_eq!(groups.beside(0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(groups.beside(1).collect::<Vec<_>>(), [1]);
        assert_eq!((groups.reader(1, 0), groups.reader(1, 3), groups.writer(1)), (2, 3, 3));
        assert_eq!((groups.largest(), Groups::new(&[0]).count()), (2, 1));
        let groups = Groups::new(&[0; 2 * MOST + 1]);
        assert_eq!([0, 1, 2].map(|group| groups.members(group)), [0..4, 4..8, 8..9]);
        assert_eq!(groups.beside(1).count(), 3);
    }
}
