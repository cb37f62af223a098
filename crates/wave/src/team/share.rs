//! The slabs that a member of a team has of every field.
//!
//! # Contract
//! The members have successive ranges of slabs. A pass of a member brings in the slabs that its
//! levels read, which overlap those of its neighbours, and computes in each level what the later
//! levels need. So no value travels within a pass, and what is computed twice is little where a
//! share is much higher than the reach of all levels.
//!
//! ```text
//! slabs    . . . . . . . . . . . . . . .        3 levels, reach 1
//! level 2          a a a a a b b b b b          the shares of the members a and b
//! level 1        a a a a a a                    what a computes; b computes as much above its
//! level 0        a a a a a a a                  share
//! read           a a a a a a a a
//! ```
//!
//! Where the first axis is periodic, positions beyond the last slab are those of the first ones
//! again: ranges of what is read are counted so, and one member alone reads beyond its share, too.
//!
//! A block of a file has one writer. The bytes of a member begin and end at the boundaries of
//! blocks; it also computes the slab in which its last block ends.
//!
//! # Costs
//! `2 * reach * levels` slabs are read twice at each cut, and half as many updates are made twice.
//!
//! # Source
//! Overlapped tiles: M. Wolfe, "Iteration space tiling for memory hierarchies", 1987; ghost zones
//! of several iterations: J. Meng and K. Skadron, ICS 2009.

use std::ops::Range;

/// A share of the slabs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The slabs of all members.
    pub(crate) slabs: usize,
    /// The slabs of this member.
    pub(crate) own: Range<usize>,
    /// The bytes of a block of the files.
    pub(crate) block: u64,
    /// The number of slabs in a unit of sums, if it depends on the team. Shares consist of units.
    pub(crate) unit: Option<usize>,
}

impl Share {
    /// Returns the share of a run by one process.
    pub(crate) const fn whole(slabs: usize) -> Self {
        Share { slabs, own: 0..slabs, block: 1, unit: None }
    }

    /// Returns the share of a member, in units of `unit` slabs. There are as many units as members,
    /// or more.
    pub(crate) fn of(slabs: usize, (member, members): (usize, usize), unit: usize) -> Self {
        let units = slabs.div_ceil(unit);
        let cut = |member: usize| (units * member / members * unit).min(slabs);
        Share { slabs, own: cut(member)..cut(member + 1), block: 1, unit: Some(unit) }
    }

    /// Returns the slabs that come in for levels that need `more` slabs on both sides: whole units,
    /// so that their sums can be checked.
    pub(crate) fn read(&self, wanted: &Range<usize>, more: usize) -> Range<usize> {
        let unit = self.unit.unwrap_or(1);
        let start = wanted.start.saturating_sub(more) / unit * unit;
        start..(wanted.end + more).next_multiple_of(unit).min(self.slabs)
    }

    /// Returns the same as [`read`](Self::read) where the first axis is periodic, from a position
    /// in the array on: it goes on behind the last slab with the first ones, as often as it takes.
    /// The slabs that are wanted are further by the returned number, a multiple of all slabs.
    pub(crate) fn read_around(&self, wanted: &Range<usize>, more: usize) -> (Range<usize>, usize) {
        let (unit, slabs) = (self.unit.unwrap_or(1), self.slabs);
        let later = more.saturating_sub(wanted.start).div_ceil(slabs) * slabs;
        let (start, end) = (wanted.start + later - more, wanted.end + later + more);
        // The last unit of the array may be shorter than the others.
        let over = (end - 1) % slabs + 1;
        let end = end - over + over.next_multiple_of(unit).min(slabs);
        (start - start % slabs % unit..end, later)
    }

    /// Returns the slabs of the array that are in a range of what is read, each once.
    pub(crate) fn once(&self, read: &Range<usize>) -> [Range<usize>; 2] {
        let end = read.end.min(read.start + self.slabs);
        [read.start..end.min(self.slabs), 0..end.saturating_sub(self.slabs)]
    }

    /// Returns the bytes of a file that the member writes, if the slabs begin at byte `start` and
    /// have `slab` bytes each.
    pub(crate) fn bytes(&self, start: u64, slab: u64) -> Range<u64> {
        let all = start..start + self.slabs as u64 * slab;
        let cut = |at: usize| match at {
            0 => all.start,
            at if at == self.slabs => all.end,
            at => (start + at as u64 * slab).next_multiple_of(self.block).min(all.end),
        };
        cut(self.own.start)..cut(self.own.end)
    }

    /// Returns the slabs whose final values the member needs for such a file.
    pub(crate) fn wanted(&self, start: u64, slab: u64) -> Range<usize> {
        let end = (self.bytes(start, slab).end - start).div_ceil(slab.max(1)) as usize;
        self.own.start..self.own.end.max(end.min(self.slabs))
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
        fn each_byte_has_one_writer_that_computes_it(
            slabs in 1_usize..200,
            members in 1_usize..9,
            unit in 1_usize..8,
            (start, slab) in (0_u64..300, 1_u64..700),
            block in prop::sample::select(vec![1, 16, 512, 4096]),
            more in 0_usize..40,
        ) {
            prop_assume!(slabs.div_ceil(unit) >= members);
            let (mut next, mut byte) = (0, start);
            for member in 0..members {
                let share = Share { block, ..Share::of(slabs, (member, members), unit) };
                prop_assert_eq!(share.own.start, next);
                prop_assert!(share.own.end > next);
                next = share.own.end;
                let bytes = share.bytes(start, slab);
                prop_assert_eq!(bytes.start, byte);
                byte = bytes.end;
                let wanted = share.wanted(start, slab);
                prop_assert!(bytes.is_empty() || wanted.start as u64 * slab + start <= bytes.start);
                prop_assert!(wanted.end as u64 * slab + start >= bytes.end);
                let read = share.read(&wanted, more);
                prop_assert!(read.start <= wanted.start.saturating_sub(more));
                prop_assert!(read.end >= (wanted.end + more).min(slabs));
                let whole = |at: usize| at.is_multiple_of(unit) || at == slabs;
                prop_assert!(whole(read.start) && whole(read.end));
                let (read, later) = share.read_around(&wanted, more);
                prop_assert!(read.start < slabs && later % slabs == 0);
                prop_assert!(read.start + more <= wanted.start + later);
                prop_assert!(read.end >= wanted.end + later + more);
                prop_assert!(whole(read.start) && whole((read.end - 1) % slabs + 1));
                let mut times = vec![0; slabs];
                share.once(&read).into_iter().flatten().for_each(|slab| times[slab] += 1);
                for (slab, times) in times.into_iter().enumerate() {
                    let is_read = read.contains(&slab) || read.contains(&(slab + slabs));
                    prop_assert_eq!(times, usize::from(is_read));
                }
            }
            prop_assert_eq!((next, byte), (slabs, start + slabs as u64 * slab));
        }
    }
}
