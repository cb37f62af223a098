//! The columns of groups of members, cut as strips are.

use std::ops::Range;

use crate::strip::cut::{Cuts, Share};
use crate::team::groups::Groups;

impl Groups {
    /// Returns the shares of the first and of the last member of a group.
    pub(super) fn ends(&self, cuts: &Cuts, group: usize) -> [Share; 2] {
        let Range { start, end } = self.members(group);
        [cuts.share(start), cuts.share(end - 1)]
    }

    /// Returns the columns of the matrix whose rows the members of a group need.
    pub(super) fn columns_in(&self, cuts: &Cuts, group: usize) -> Range<usize> {
        let all = self.members(group).map(|member| cuts.share(member).columns_in());
        all.reduce(|all, own| all.start.min(own.start)..all.end.max(own.end)).unwrap_or(0..0)
    }

    /// Returns the columns of the matrix some rows of which the group finishes.
    pub(super) fn all_columns_out(&self, cuts: &Cuts, group: usize) -> Range<usize> {
        let [first, last] = self.ends(cuts, group);
        first.all_columns_out().start..last.all_columns_out().end
    }
}
