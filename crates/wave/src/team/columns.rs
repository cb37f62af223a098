//! The columns that the members of a team have of every field, for kernels whose order matters.
//!
//! # Contract
//! The members have successive ranges of columns. In a row of a slab a member computes the final
//! values of its *own* columns, and it *reads* some columns more on both sides. Nothing else of a
//! pass, of its sums and of its files depends on how the columns are cut:
//!
//! | [`Columns`]           | the cuts                                                             |
//! |-----------------------|----------------------------------------------------------------------|
//! | [`LeaningColumns`]    | the same in all slabs and passes; in three dimensions they move from |
//! |                       | row to row                                                           |
//! | [of strips]           | of each pass its own, and they move from row to row                  |
//!
//! The cuts of [`LeaningColumns`] are columns in two dimensions. In three a cut moves from row to
//! row of a plane, by as many columns as positions of the engine's window lie between the rows: so
//! all points at a position have one member. It moves to the left for the directions south-east and
//! north-west, and to the right for the others.
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
//! sides.
//!
//! With rows in place of columns, a member could begin a pass only when the member above it has
//! ended the same pass. With columns it is one band behind.
//!
//! # Source
//! This project's.
//!
//! [of strips]: crate::engines::strips

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::groups::Groups;

/// The columns of all members. A slab of two dimensions has one row.
pub(crate) trait Columns: Debug + Send + Sync {
    /// Returns the number of members.
    fn members(&self) -> usize;

    /// Returns the numbers of rows of a slab, and of columns.
    fn size(&self) -> (usize, usize);

    /// Returns the columns of a row of a slab whose final values a member computes.
    fn own(&self, member: usize, slab: usize, row: usize) -> Range<usize>;

    /// Returns the number of columns by which a row is moved to the right where
    /// [`owned`](Self::owned) and [`reads`](Self::reads) count the columns.
    fn moved(&self, _row: usize) -> usize {
        0
    }

    /// Returns the columns that are a member's own in some row. Those of a row are
    /// [moved](Self::moved).
    fn owned(&self, member: usize) -> Range<usize>;

    /// Returns the columns that a member reads, with its own ones. Those of a row are
    /// [moved](Self::moved).
    fn reads(&self, member: usize) -> Range<usize>;

    /// Returns the columns of a row that a member reads.
    fn read(&self, member: usize, row: usize) -> Range<usize> {
        let (reads, moved, (_, cols)) = (self.reads(member), self.moved(row), self.size());
        let clip = |column: usize| column.saturating_sub(moved).min(cols);
        clip(reads.start)..clip(reads.end)
    }

    /// Returns the columns that a member reads in any row.
    fn all(&self, member: usize) -> Range<usize> {
        let [first, last] = [0, self.size().0 - 1].map(|row| self.read(member, row));
        first.start.min(last.start)..first.end.max(last.end)
    }
}

/// The members of a team that run one pass together, each in its columns.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    pub(crate) columns: Arc<dyn Columns>,
    /// The members that share the rows of files.
    pub(crate) groups: Groups,
    /// The number of this member.
    pub(crate) rank: usize,
}

impl Members {
    /// Returns the columns that the members of the group of this member read in any row.
    pub(crate) fn of_group(&self) -> Range<usize> {
        let members = self.groups.members(self.groups.group(self.rank));
        let all = members.map(|member| self.columns.all(member));
        all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
    }
}

/// Columns whose cuts lean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaningColumns {
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
}

impl LeaningColumns {
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
        LeaningColumns { rows, cols, cuts, lean, margin }
    }

    fn count(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Returns where the `nth` member begins in the first row of a direction with these cuts.
    /// Members and columns count from the last one if they go to the `left`. In three dimensions a
    /// cut may be beyond the end of the row.
    pub(crate) fn cut(&self, nth: usize, left: bool) -> usize {
        let end = self.cuts[self.count()];
        if left { end - self.cuts[self.count() - nth] } else { self.cuts[nth] }
    }

    /// Returns the least number of columns that a member has between its cuts.
    pub(crate) fn least(&self) -> usize {
        self.cuts.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(0)
    }
}

impl Columns for LeaningColumns {
    fn members(&self) -> usize {
        self.count()
    }

    fn size(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    fn own(&self, member: usize, _: usize, row: usize) -> Range<usize> {
        let (moved, owned) = (self.moved(row), self.owned(member));
        // The first cut is the start of every row, and the last one lies after its end.
        let clip = |cut: usize| cut.saturating_sub(moved).min(self.cols);
        clip(owned.start)..clip(owned.end)
    }

    fn moved(&self, row: usize) -> usize {
        let row = if self.lean < 0 { self.rows - 1 - row } else { row };
        self.lean.unsigned_abs() * row
    }

    fn owned(&self, member: usize) -> Range<usize> {
        self.cuts[member]..self.cuts[member + 1]
    }

    fn reads(&self, member: usize) -> Range<usize> {
        let Range { start, end } = self.owned(member);
        start.saturating_sub(self.margin)..(end + self.margin).min(self.cuts[self.count()])
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
            let columns = LeaningColumns::new((rows, cols), members, lean, margin);
            let mut counts = vec![0; members];
            for row in 0..rows {
                let mut owners = vec![0; cols];
                for (member, count) in counts.iter_mut().enumerate() {
                    let (own, read) = (columns.own(member, 0, row), columns.read(member, row));
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
