//! Checksums of the file between two passes.
//!
//! # Contract
//! Every member sums the final rows of its columns in a pass, and checks the rows of the columns
//! that it needs in the next pass, before the result has a name. The columns that a member finishes
//! depend on the row, and are not those that it needs. So [`UnitSums`] have a bound wherever the
//! columns end that a member needs: a member checks whole units, which one or several have written.
//!
//! ```text
//! pass 1, member 0   waves ── sum r ──> own sums ──┐  exchange   ┌──> what member 0 reads
//!         member 1   waves ── sum r ──> own sums ──┴─────────────┴──> what member 1 reads
//!
//! pass 2, member 0   read r ──> check r: subtracts what was read; 0 is left of a unit
//! ```
//!
//! # Costs
//! XXH3 of what a member writes and of what it reads again, by the member itself. One round of an
//! overlay for each pass but the last, in which a member reads the sums of the few members that
//! have written what it reads. Memory: [`most_bytes`], whatever the size of the matrix.
//!
//! # Source
//! This project's. See [`UnitSums`] for the sums.

use std::ops::Range;
use std::sync::Arc;

use syncline_fabric::Member;
use syncline_overlay::access::Read;
use syncline_overlay::run::ReadyOrder;
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
use syncline_store::columns::UnitSums;

use crate::Result;
use crate::strip::cut::{Cuts, Share};
use crate::strip::ghosts::Ghosts;

/// The bytes of a unit, of those that are not small for another reason.
const UNIT: usize = 4 << 20;
/// The sums of all members, at most; or those of units that have all rows.
const MOST: usize = 1 << 15;

/// The division of a file that one pass writes and the next one reads.
pub(super) struct Between {
    ghosts: Ghosts,
    writers: Vec<Share>,
    rows: usize,
    /// The bytes of an element.
    element: usize,
    /// The number of rows of a unit.
    height: usize,
    /// The bytes of a row at which units end.
    bounds: Arc<[u64]>,
    /// For each member, the units in which it has columns to write, and those that it reads.
    written: Vec<Range<usize>>,
    read: Vec<Range<usize>>,
    /// For each member, the members that have written what it reads.
    from: Vec<Range<usize>>,
}

/// Returns the number of rows of a unit, for `wide` sums of each row of units.
fn height((rows, row_bytes): (usize, usize), members: usize, wide: usize) -> usize {
    let least = rows.div_ceil((MOST / wide).max(1));
    (UNIT * members / row_bytes).max(least).clamp(1, rows)
}

/// Returns the bytes of all sums that a member has at a time, at most: its own, those of others,
/// and those that it expects.
pub(super) fn most_bytes(rows: usize, row_bytes: usize, members: usize) -> u64 {
    // There are at most two bounds for each member, and a member writes in all units.
    let wide = 2 * members * members;
    let by_size = rows.div_ceil((UNIT * members / row_bytes).max(1)).saturating_mul(wide);
    (3 * size_of::<u64>() * by_size.min(MOST.max(wide))) as u64
}

impl Between {
    /// Divides a matrix of rows and columns of elements of `element` bytes, which a pass with the
    /// cuts of the writers writes, and a pass with those of the readers reads.
    pub(super) fn new(
        ghosts: Ghosts,
        (rows, cols): (usize, usize),
        element: usize,
        writers: &Cuts,
        readers: &Cuts,
    ) -> Between {
        let shares = |cuts: &Cuts| (0..cuts.hosts()).map(|m| cuts.share(m)).collect::<Vec<_>>();
        let (writers, readers) = (shares(writers), shares(readers));
        let read = readers.iter().map(|share| ghosts.columns(share.columns_in()));
        let read: Vec<Range<usize>> = read.collect();
        let written = writers.iter().map(|share| ghosts.columns(share.all_columns_out()));
        let written: Vec<Range<usize>> = written.collect();
        let ends = read.iter().flat_map(|read| [read.start, read.end]);
        let mut bounds: Vec<usize> = ends.chain([0, cols]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let units = |columns: &Range<usize>| {
            let first = bounds.partition_point(|&bound| bound <= columns.start).saturating_sub(1);
            let end = bounds.partition_point(|&bound| bound < columns.end);
            if columns.is_empty() { first..first } else { first..end }
        };
        let [in_units, of_units] =
            [&written, &read].map(|all| all.iter().map(units).collect::<Vec<_>>());
        let from = |read: &Range<usize>| {
            let some =
                |written: &Range<usize>| written.start.max(read.start) < written.end.min(read.end);
            let first = written.iter().position(some).unwrap_or(0);
            first..written.iter().rposition(some).map_or(first, |last| last + 1)
        };
        let from = read.iter().map(from).collect();
        let wide = in_units.iter().map(Range::len).sum();
        Between {
            ghosts,
            rows,
            element,
            height: height((rows, cols * element), writers.len(), wide),
            bounds: bounds.iter().map(|&column| (column * element) as u64).collect(),
            written: in_units,
            read: of_units,
            from,
            writers,
        }
    }

    fn sums(&self, units: &Range<usize>) -> Result<UnitSums> {
        let (rows, height) = (self.rows as u64, self.height as u64);
        Ok(UnitSums::new(rows, height, Arc::clone(&self.bounds), units.clone())?)
    }

    /// Returns the sums of what a member writes, before it has written anything.
    pub(super) fn of_writer(&self, member: usize) -> Result<UnitSums> {
        self.sums(&self.written[member])
    }

    /// Returns the columns of the matrix that a member writes in a row.
    pub(super) fn columns(&self, member: usize, row: usize) -> Range<usize> {
        self.ghosts.columns(self.writers[member].columns_out(self.ghosts.row(row)))
    }

    /// Returns the columns of a row that a member reads, as ranges of one writer each.
    pub(super) fn parts(
        &self,
        member: usize,
        row: usize,
    ) -> impl Iterator<Item = Range<usize>> + '_ {
        let bound = |unit: usize| self.bounds[unit] as usize / self.element;
        let (start, end) = (bound(self.read[member].start), bound(self.read[member].end));
        let parts = self.from[member].clone().map(move |writer| self.columns(writer, row));
        let parts = parts.map(move |part| part.start.max(start)..part.end.min(end));
        parts.filter(|part| !part.is_empty())
    }

    /// Gives the sums of what a member has written to those that read it, and returns those of all
    /// that have written what this member reads. All members call it.
    pub(super) fn exchange(&self, me: &mut Member, own: &UnitSums) -> Result<UnitSums> {
        let (rank, members) = (me.rank(), self.writers.len());
        let mut expected = self.sums(&self.read[rank])?;
        expected.merge(own.units(), own.sums())?;
        let others = |to: usize| {
            let from = self.from[to].clone();
            from.filter(move |&from| from != to && !self.written[from].is_empty())
        };
        let high = self.rows.div_ceil(self.height);
        // A run on a team has memory for locations that several members use.
        let given = |from: usize| {
            let needed = (0..members).any(|to| others(to).any(|other| other == from));
            let len = high * self.written[from].len();
            needed.then(|| Location::<[u64]>::absent(format!("sums of rank {from}"), len))
        };
        let given: Vec<Option<Location<[u64]>>> = (0..members).map(given).collect();
        if given.iter().all(Option::is_none) {
            return Ok(expected);
        }
        let mut expected = Some(expected);
        let state = |to: usize| {
            let own = if to == rank { expected.take() } else { None };
            Location::new(format!("sums that rank {to} expects"), own)
        };
        let mut states: Vec<Location<Option<UnitSums>>> = (0..members).map(state).collect();
        let mut overlay = Overlay::new();
        for (from, given) in given.iter().enumerate() {
            let Some(given) = given else { continue };
            let name = format!("give the sums of rank {from}");
            let task = overlay.task(name, given.write(), |given, _| {
                given.copy_from_slice(own.sums());
            });
            overlay.place(task, from);
        }
        for (to, state) in states.iter().enumerate() {
            let from: Vec<usize> = others(to).collect();
            let given: Vec<Read<[u64]>> =
                from.iter().filter_map(|&from| Some(given[from].as_ref()?.read())).collect();
            let name = format!("take the sums for rank {to}");
            let task = overlay.task(name, (state.write(), given), move |(state, given), _| {
                let Some(state) = state else { return Ok(()) };
                let mut each = from.iter().zip(given.iter());
                each.try_for_each(|(&from, sums)| state.merge(self.written[from].clone(), sums))
            });
            overlay.place(task, to);
        }
        let mut checked = overlay.check(Initial::Program)?;
        let runner = Runner::Pool { workers: 1, order: ReadyOrder::DepthFirst };
        let done = checked.run_on(me, runner, Stop::after(1));
        drop(checked);
        done?;
        let Ok(Some(expected)) = states.swap_remove(rank).into_inner() else {
            unreachable!("a finished run holds the last reference to the sums of its member")
        };
        Ok(expected)
    }
}

#[cfg(test)]
mod tests {
    use syncline_store::Shape;
    use syncline_testkit::{Random, cases as rounds, seed};

    use super::*;
    use crate::Stencil;
    use crate::strip::Geometry;
    use crate::strip::tile::Chain;

    /// Each member checks all columns that it reads, against the sums of those that have written
    /// them, in the memory that the plan has for them.
    #[test]
    fn what_is_written_is_what_is_read() {
        let (mut cases, mut several) = (0, 0);
        let (first, all) = (seed(0), u64::from(rounds(300)));
        for seed in first..first + all {
            let mut random = Random::new(seed);
            let shape = Shape::new(3 + random.below(200), 3 + random.below(700));
            let stencil = random.one_of(&[Stencil::FIVE_POINT, Stencil::NINE_POINT]);
            let ghosts = Ghosts::new(shape, stencil);
            let (band, members) = (4, 1 + random.below(6));
            let skew = if stencil == Stencil::NINE_POINT { 2 } else { 1 };
            let cuts = |levels: usize| {
                let shape = ghosts.shape();
                let whole = Geometry { shape, width: 4, skew, arrays: 1, slots: 0 };
                let geometry = whole.with_slots(Chain::slots(4, levels, band, 2));
                let chain = Chain { geometry, levels, band };
                Cuts::new(chain, chain.ahead(), members)
            };
            let cuts = [cuts(1 + random.below(9)), cuts(1 + random.below(9))];
            let [Ok(writers), Ok(readers)] = cuts else { continue };
            cases += 1;
            let (sizes, element) = ((shape.rows, shape.cols), random.one_of(&[4, 8]));
            let between = Between::new(ghosts, sizes, element, &writers, &readers);
            let bytes: Vec<u8> = (0..shape.elements() * element).map(|n| (n * n) as u8).collect();
            let row_bytes = shape.cols * element;
            let in_row = |columns: &Range<usize>| {
                (columns.start * element) as u64..(columns.end * element) as u64
            };
            let of_row = |bytes: &[u8], row: usize, columns: &Range<usize>| {
                let first = row * row_bytes;
                bytes[first + columns.start * element..first + columns.end * element].to_vec()
            };
            let mut written = Vec::new();
            for member in 0..members {
                let mut sums = between.of_writer(member).unwrap();
                for row in 0..shape.rows {
                    let own = between.columns(member, row);
                    sums.add(row as u64, in_row(&own), &of_row(&bytes, row, &own)).unwrap();
                }
                written.push(sums);
            }
            let all: usize = written.iter().map(|sums| sums.sums().len()).sum();
            let mut damaged = bytes.clone();
            let (row, column) = (random.below(shape.rows), random.below(shape.cols));
            damaged[(row * shape.cols + column) * element] ^= 1;
            let mut found = 0;
            for (member, share) in (0..members).map(|member| (member, readers.share(member))) {
                let mut expected = between.sums(&between.read[member]).unwrap();
                for from in between.from[member].clone() {
                    let units = between.written[from].clone();
                    expected.merge(units, written[from].sums()).unwrap();
                }
                several += usize::from(between.from[member].len() > 2);
                let of_member = all + written[member].sums().len() + expected.sums().len();
                let most = most_bytes(shape.rows, row_bytes, members);
                assert!((8 * of_member) as u64 <= most, "seed {seed}: {of_member}, {most}");
                let columns = ghosts.columns(share.columns_in());
                for (file, is_damaged) in [(&bytes, false), (&damaged, columns.contains(&column))] {
                    let mut left = expected.clone();
                    for row in 0..shape.rows {
                        let mut next = columns.start;
                        for part in between.parts(member, row) {
                            assert_eq!(part.start, next);
                            next = part.end;
                            let read = of_row(file, row, &part);
                            left.subtract(row as u64, in_row(&part), &read).unwrap();
                        }
                        assert_eq!(next, columns.end.max(columns.start), "seed {seed}");
                    }
                    let damage = left.damaged(0..shape.rows as u64);
                    assert_eq!(damage.is_some(), is_damaged, "seed {seed}, member {member}");
                    found += usize::from(is_damaged);
                    if let Some((rows, columns)) = damage {
                        assert!(rows.contains(&(row as u64)));
                        assert!(columns.contains(&((column * element) as u64)));
                    }
                }
            }
            assert!(found > 0, "seed {seed}: a member reads each column");
        }
        // More than a third of the cases fit, and in a sixth a member reads of more than two.
        assert!(cases > all / 3 && several as u64 > all / 6, "{cases}, {several} of {all}");
    }

    #[test]
    fn sums_are_few_whatever_the_size() {
        for (rows, row_bytes) in [(1, 8), (1 << 14, 1 << 17), (1 << 24, 1 << 20), (10, 1 << 36)] {
            for members in [1, 2, 8, 64, 1000] {
                // As many units as there are bounds, and each member writes in all of them.
                for wide in [members, members * members, members * (2 * members - 1)] {
                    let height = height((rows, row_bytes), members, wide);
                    let all = 3 * 8 * rows.div_ceil(height) * wide;
                    let most = most_bytes(rows, row_bytes, members);
                    assert!(all as u64 <= most, "{rows} {row_bytes} {members} {wide}");
                    assert!(members > 64 || most <= 3 * 8 * MOST as u64);
                }
            }
        }
    }
}
