//! The columns that a member of a team has of every field, for rules whose order matters.
//!
//! # Contract
//! The members have successive ranges of columns, in all slabs the same. In two dimensions a cut
//! is a column. In three it moves from row to row of a plane, by as many columns as positions of
//! the engine's window lie between the rows: so all points at a position have one member. It moves
//! to the left for the directions south-east and north-west, and to the right for the others.
//!
//! ```text
//! two dimensions            a plane, lean 1           a plane, lean -1
//!
//! row 0   0 0 0 | 1 1 1     row 0   0 0 0 0 0 | 1     row 0   0 0 0 | 1 1 1
//! row 1   0 0 0 | 1 1 1     row 1   0 0 0 0 | 1 1     row 1   0 0 0 0 | 1 1
//! row 2   0 0 0 | 1 1 1     row 2   0 0 0 | 1 1 1     row 2   0 0 0 0 0 | 1
//! ```
//!
//! All engines of a sweep have the same cuts: a team refuses directions whose cuts move to both
//! sides. A member also reads *margins*: columns beyond its own ones.
//!
//! # Source
//! This project's, after the cuts of strips ([`cut`](crate::strip::cut)).

use std::ops::Range;

use super::groups::Groups;

/// The columns of all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The numbers of rows of a slab, and of columns.
    rows: usize,
    cols: usize,
    /// Where the members begin in the first row, and the end of the last one. The last row is the
    /// first one if the cuts move to the right.
    cuts: Vec<usize>,
    /// The columns by which the cuts move from row to row: to the left for a positive number.
    lean: isize,
    /// The greatest number of columns beyond its own that a member reads.
    margin: usize,
    /// The members that share the rows of files.
    groups: Groups,
}

impl Columns {
    /// Divides slabs of some rows and columns among members, so that all have about as many points.
    pub(crate) fn new(
        (rows, cols): (usize, usize),
        members: usize,
        lean: isize,
        margin: usize,
    ) -> Self {
        let moved = lean.unsigned_abs();
        let end = cols + moved * (rows - 1);
        let points = |cut: usize| -> usize {
            match moved {
                0 => rows * cut.min(cols),
                _ => (0..rows).map(|row| cut.saturating_sub(moved * row).min(cols)).sum(),
            }
        };
        let all = rows * cols;
        let cut = |member: usize| {
            let wanted = all * member / members;
            let (mut low, mut high) = (0, end);
            while low < high {
                let middle = low.midpoint(high);
                if points(middle) < wanted { low = middle + 1 } else { high = middle }
            }
            low
        };
        let cuts = (0..members).map(cut).chain([end]).collect();
        let groups = Groups::alone(members);
        Columns { rows, cols, cuts, lean, margin, groups }
    }

    /// Returns the same columns, of members in these groups.
    pub(crate) fn grouped(self, groups: Groups) -> Self {
        Columns { groups, ..self }
    }

    /// Returns the groups of the members.
    pub(crate) const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns the columns that the members of a group have or read in any row.
    pub(crate) fn of_group(&self, group: usize) -> Range<usize> {
        let members = self.groups.members(group).map(|member| self.all(member));
        members.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
    }

    /// Returns the number of members.
    pub(crate) const fn members(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Returns the number of rows of a slab.
    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns where the `nth` member begins in the first row of a direction with these cuts.
    /// Members and columns count from the last one if they go to the `left`. In three dimensions a
    /// cut may be beyond the end of the row.
    pub(crate) fn cut(&self, nth: usize, left: bool) -> usize {
        let end = self.cuts[self.members()];
        if left { end - self.cuts[self.members() - nth] } else { self.cuts[nth] }
    }

    /// Returns the least number of columns that a member has between its cuts.
    pub(crate) fn least(&self) -> usize {
        self.cuts.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(0)
    }

    /// Returns the columns of a member in a row, as the arrays count them.
    pub(crate) fn own(&self, member: usize, row: usize) -> Range<usize> {
        self.range(member, row, 0)
    }

    /// Returns the columns of a member in a row and its margins, as the arrays count them.
    pub(crate) fn read(&self, member: usize, row: usize) -> Range<usize> {
        self.range(member, row, self.margin)
    }

    /// Returns the columns that a member has or reads in any row.
    pub(crate) fn all(&self, member: usize) -> Range<usize> {
        let [first, last] = [0, self.rows - 1].map(|row| self.read(member, row));
        first.start.min(last.start)..first.end.max(last.end)
    }

    fn range(&self, member: usize, row: usize, more: usize) -> Range<usize> {
        let row = if self.lean < 0 { self.rows - 1 - row } else { row };
        let clip = |cut: usize| cut.saturating_sub(self.lean.unsigned_abs() * row).min(self.cols);
        // The first cut is the start of every row, and the last one lies after its end.
        clip(self.cuts[member].saturating_sub(more))..clip(self.cuts[member + 1] + more)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn each_column_has_one_member(
            (rows, cols) in (1_usize..20, 1_usize..60),
            members in 1_usize..6,
            lean in -3_isize..4,
            margin in 0_usize..9,
        ) {
            let columns = Columns::new((rows, cols), members, lean, margin);
            let mut counts = vec![0; members];
            for row in 0..rows {
                let mut owners = vec![0; cols];
                for (member, count) in counts.iter_mut().enumerate() {
                    let (own, read) = (columns.own(member, row), columns.read(member, row));
                    *count += own.len();
                    owners[own.clone()].iter_mut().for_each(|owner| *owner += 1);
                    let more = own.start.saturating_sub(margin)..(own.end + margin).min(cols);
                    prop_assert!(read.start <= own.start && read.end >= own.end);
                    // A margin begins where the cut would be without the ends of the row.
                    prop_assert!(read.start >= more.start && read.end <= more.end);
                    if own.start > 0 && own.end < cols {
                        prop_assert_eq!(&read, &more);
                    }
                    let all = columns.all(member);
                    prop_assert!(all.start <= read.start && read.end <= all.end);
                }
                prop_assert!(owners.iter().all(|owners| *owners == 1));
            }
            // As equal as cuts in all rows at once allow.
            let least = counts.iter().min().unwrap();
            let most = counts.iter().max().unwrap();
            prop_assert!(most - least <= 2 * rows, "{:?}", counts);
        }
    }
}
