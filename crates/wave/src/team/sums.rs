//! Checksums of the files between two passes of members that have columns.
//!
//! # Contract
//! Every member sums the final values of its own columns in a pass, and checks the columns that it
//! reads in the next pass, before the result has a name. The columns that a member writes are not
//! those that it reads, and may depend on the row. So [`UnitSums`] have a bound wherever the
//! columns end that a member reads: a member checks whole units, which one or several have written.
//!
//! ```text
//! pass 1, member 0   pieces ── sum r ──> own sums ──┐  exchange   ┌──> what member 0 reads
//!         member 1   pieces ── sum r ──> own sums ──┴─────────────┴──> what member 1 reads
//!
//! pass 2, member 0   read r ──> check r: subtracts what was read; 0 is left of a unit
//! ```
//! Rows are those of the file: the rows of all slabs. Columns are counted in
//! [moved](Columns::moved) rows, in which the bounds are the same for all.
//!
//! # Costs
//! XXH3 of what a member writes and of what it reads again, by the member itself. One round of an
//! overlay for each pass but the last, in which a member reads the sums of the few members that
//! have written what it reads. Memory: [`most_bytes`] for each field, whatever its size.
//!
//! # Source
//! This project's. See [`UnitSums`] for the sums.

use std::ops::Range;
use std::sync::Arc;

use syncline_fabric::Member;
use syncline_overlay::access::Read;
use syncline_overlay::run::ReadyOrder;
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
use syncline_store::ElementType;
use syncline_store::columns::UnitSums;

use super::columns::Columns;
use crate::Result;

/// The bytes of a unit, of those that are not small for another reason.
const UNIT: usize = 4 << 20;
/// The sums of all members, at most; or those of units that have all rows.
const MOST: usize = 1 << 15;

/// The division of the files that one pass writes and the next one reads.
#[derive(Debug)]
pub(crate) struct Between {
    writers: Arc<dyn Columns>,
    elements: Vec<ElementType>,
    /// The numbers of slabs, and of rows of a slab.
    slabs: usize,
    rows: usize,
    /// The number of rows of a unit.
    height: usize,
    /// The columns of a moved row at which units end.
    bounds: Vec<usize>,
    /// For each member, the units in which it has columns to write, and those that it reads.
    written: Vec<Range<usize>>,
    read: Vec<Range<usize>>,
    /// For each member, the members that have written what it reads.
    from: Vec<Range<usize>>,
}

/// The sums of one member: of what it writes, or of what it reads less those of what it has read.
#[derive(Debug)]
pub(crate) struct Units {
    between: Arc<Between>,
    member: usize,
    /// Of each field.
    sums: Vec<UnitSums>,
}

/// Returns the number of rows of a unit, for `wide` sums of each row of units.
fn height((rows, row_bytes): (usize, usize), members: usize, wide: usize) -> usize {
    let least = rows.div_ceil((MOST / wide).max(1));
    (UNIT * members / row_bytes.max(1)).max(least).clamp(1, rows)
}

/// Returns the bytes of all sums that a member has of a field at a time, at most: its own, those of
/// others, and those that it expects.
pub(crate) fn most_bytes(rows: usize, row_bytes: usize, members: usize) -> u64 {
    // There are at most two bounds for each member, and a member writes in all units.
    let wide = 2 * members * members;
    let by_size = rows.div_ceil((UNIT * members / row_bytes.max(1)).max(1)).saturating_mul(wide);
    (3 * size_of::<u64>() * by_size.min(MOST.max(wide))) as u64
}

/// Returns the units between bounds that contain some columns.
fn units(bounds: &[usize], columns: &Range<usize>) -> Range<usize> {
    let first = bounds.partition_point(|&bound| bound <= columns.start).saturating_sub(1);
    let end = bounds.partition_point(|&bound| bound < columns.end);
    if columns.is_empty() { first..first } else { first..end }
}

impl Between {
    /// Divides fields of some slabs, with elements of these types, which a pass with the columns of
    /// the writers writes, and a pass with those of the readers reads.
    pub(crate) fn new(
        slabs: usize,
        elements: &[ElementType],
        writers: &Arc<dyn Columns>,
        readers: &dyn Columns,
    ) -> Self {
        let ((rows, cols), members) = (writers.size(), writers.members());
        let moved = [0, rows - 1].map(|row| writers.moved(row)).into_iter().max().unwrap_or(0);
        let reads: Vec<Range<usize>> = (0..members).map(|member| readers.reads(member)).collect();
        let owned: Vec<Range<usize>> = (0..members).map(|member| writers.owned(member)).collect();
        let ends = reads.iter().flat_map(|reads| [reads.start, reads.end]);
        let mut bounds: Vec<usize> = ends.chain([0, cols + moved]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let [written, read] =
            [&owned, &reads].map(|all| all.iter().map(|of| units(&bounds, of)).collect::<Vec<_>>());
        let from = |reads: &Range<usize>| {
            let some =
                |owned: &Range<usize>| owned.start.max(reads.start) < owned.end.min(reads.end);
            let first = owned.iter().position(some).unwrap_or(0);
            first..owned.iter().rposition(some).map_or(first, |last| last + 1)
        };
        let from = reads.iter().map(from).collect();
        let wide = written.iter().map(Range::len).sum();
        let widest = elements.iter().map(|element| element.bytes()).max().unwrap_or(1);
        let height = height((slabs * rows, cols * widest), members, wide);
        let (writers, elements) = (Arc::clone(writers), elements.to_vec());
        Between { writers, elements, slabs, rows, height, bounds, written, read, from }
    }

    /// Returns sums of no bytes, of each field.
    fn sums(&self, units: &Range<usize>) -> Result<Vec<UnitSums>> {
        let (rows, height) = ((self.slabs * self.rows) as u64, self.height as u64);
        let of = |element: &ElementType| {
            let bounds = self.bounds.iter().map(|&column| (column * element.bytes()) as u64);
            UnitSums::new(rows, height, bounds.collect(), units.clone())
        };
        Ok(self.elements.iter().map(of).collect::<syncline_store::Result<_>>()?)
    }

    /// Returns the sums of what a member writes, before it has written anything.
    pub(crate) fn of_writer(self: Arc<Self>, member: usize) -> Result<Units> {
        let sums = self.sums(&self.written[member])?;
        Ok(Units { between: self, member, sums })
    }

    /// Returns the columns of a row that a member reads in these units, as ranges of one writer
    /// each.
    fn parts(
        &self,
        member: usize,
        units: &Range<usize>,
        (slab, row): (usize, usize),
    ) -> impl Iterator<Item = Range<usize>> + '_ {
        let moved = self.writers.moved(row);
        let bound = |unit: usize| self.bounds[unit].saturating_sub(moved);
        let (start, end) = (bound(units.start), bound(units.end));
        let parts = self.from[member].clone().map(move |from| self.writers.own(from, slab, row));
        let parts = parts.map(move |part| part.start.max(start)..part.end.min(end));
        parts.filter(|part| !part.is_empty())
    }

    /// Returns the row of the file, and the bytes of the moved row, that some columns of a field
    /// are.
    fn place(
        &self,
        field: usize,
        (slab, row): (usize, usize),
        columns: &Range<usize>,
    ) -> (u64, Range<u64>) {
        let (moved, bytes) = (self.writers.moved(row), self.elements[field].bytes());
        let byte = |column: usize| ((column + moved) * bytes) as u64;
        ((slab * self.rows + row) as u64, byte(columns.start)..byte(columns.end))
    }
}

impl Units {
    /// Adds the columns of this member of some slabs to the sums of a field. `bytes` returns those
    /// of some columns of a row.
    pub(crate) fn add<'b>(
        &mut self,
        field: usize,
        slabs: Range<usize>,
        bytes: impl Fn(usize, usize, Range<usize>) -> &'b [u8],
    ) -> Result<()> {
        let (between, sums) = (&*self.between, &mut self.sums[field]);
        for (slab, row) in slabs.flat_map(|slab| (0..between.rows).map(move |row| (slab, row))) {
            let own = between.writers.own(self.member, slab, row);
            if !own.is_empty() {
                let (at, columns) = between.place(field, (slab, row), &own);
                sums.add(at, columns, bytes(slab, row, own))?;
            }
        }
        Ok(())
    }

    /// Subtracts the columns that this member checks of some slabs from the sums of a field.
    pub(crate) fn subtract<'b>(
        &mut self,
        field: usize,
        slabs: Range<usize>,
        bytes: impl Fn(usize, usize, Range<usize>) -> &'b [u8],
    ) -> Result<()> {
        let (between, sums) = (&*self.between, &mut self.sums[field]);
        let units = sums.units();
        for (slab, row) in slabs.flat_map(|slab| (0..between.rows).map(move |row| (slab, row))) {
            for part in between.parts(self.member, &units, (slab, row)) {
                let (at, columns) = between.place(field, (slab, row), &part);
                sums.subtract(at, columns, bytes(slab, row, part))?;
            }
        }
        Ok(())
    }

    /// Returns the slabs, and the columns of a moved row, of a unit that is damaged: one of those
    /// that end in some slabs, or begin there if the slabs are read from the last to the first.
    pub(crate) fn damaged(
        &self,
        slabs: &Range<usize>,
        up: bool,
    ) -> Option<(usize, Range<usize>, Range<usize>)> {
        let (high, fields) = (self.between.rows, self.sums.iter().zip(&self.between.elements));
        let rows = (slabs.start * high) as u64..(slabs.end * high) as u64;
        fields.enumerate().find_map(|(field, (sums, element))| {
            let found = if up { sums.damaged_up(rows.clone()) } else { sums.damaged(rows.clone()) };
            let (rows, bytes) = found?;
            let slabs = rows.start as usize / high..(rows.end as usize).div_ceil(high);
            let column = |byte: u64| byte as usize / element.bytes();
            Some((field, slabs, column(bytes.start)..column(bytes.end)))
        })
    }

    /// Returns the sums of those units that a member with other columns reads whole.
    pub(crate) fn narrowed(&self, readers: &dyn Columns) -> Result<Self> {
        let (reads, bounds) = (readers.reads(self.member), &self.between.bounds);
        let all = &self.between.read[self.member];
        let first = bounds.partition_point(|&bound| bound < reads.start).max(all.start);
        let end = bounds.partition_point(|&bound| bound <= reads.end).saturating_sub(1);
        let units = first..end.min(all.end).max(first);
        let mut sums = self.between.sums(&units)?;
        for (narrow, sums) in sums.iter_mut().zip(&self.sums) {
            narrow.merge(sums.units(), sums.sums())?;
        }
        Ok(Units { between: Arc::clone(&self.between), member: self.member, sums })
    }

    /// Gives the sums of what this member has written to those that read it, and returns those of
    /// all that have written what this member reads.
    ///
    /// # Collective
    /// All members call it.
    pub(crate) fn exchange(&self, me: &mut Member) -> Result<Self> {
        let between = &self.between;
        let (rank, members, fields) = (self.member, between.read.len(), self.sums.len());
        let mut expected = between.sums(&between.read[rank])?;
        merge(&mut expected, self.sums.iter().map(|sums| (sums.units(), sums.sums())))?;
        let others = |to: usize| {
            let from = between.from[to].clone();
            from.filter(move |&from| from != to && !between.written[from].is_empty())
        };
        let high = (between.slabs * between.rows).div_ceil(between.height);
        // A run on a team has memory for locations that several members use.
        let given = |from: usize| {
            let needed = (0..members).any(|to| others(to).any(|other| other == from));
            let len = fields * high * between.written[from].len();
            needed.then(|| Location::<[u64]>::absent(format!("sums of rank {from}"), len))
        };
        let given: Vec<Option<Location<[u64]>>> = (0..members).map(given).collect();
        let of = |sums| Units { between: Arc::clone(between), member: rank, sums };
        if given.iter().all(Option::is_none) {
            return Ok(of(expected));
        }
        let mut expected = Some(expected);
        let state = |to: usize| {
            let own = if to == rank { expected.take() } else { None };
            Location::new(format!("sums that rank {to} expects"), own)
        };
        let mut states: Vec<Location<Option<Vec<UnitSums>>>> = (0..members).map(state).collect();
        let mut overlay = Overlay::new();
        for (from, given) in given.iter().enumerate() {
            let Some(given) = given else { continue };
            let name = format!("give the sums of rank {from}");
            let task = overlay.task(name, given.write(), |given, _| {
                let own = self.sums.iter().flat_map(|sums| sums.sums());
                given.iter_mut().zip(own).for_each(|(place, sum)| *place = *sum);
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
                from.iter().zip(given.iter()).try_for_each(|(&from, sums)| {
                    let units = &between.written[from];
                    let of_fields = sums.chunks(high * units.len());
                    merge(state, of_fields.map(|sums| (units.clone(), sums)))
                })
            });
            overlay.place(task, to);
        }
        let mut checked = overlay.check(Initial::Program)?;
        let runner = Runner::Pool { workers: 1, order: ReadyOrder::DepthFirst };
        let done = checked.run_on(me, runner, Stop::after(1));
        drop(checked);
        done?;
        match states.swap_remove(rank).into_inner() {
            Ok(Some(expected)) => Ok(of(expected)),
            _ => unreachable!("a finished run holds the last reference to the sums of its member"),
        }
    }
}

/// Adds sums of each field.
fn merge<'s>(
    to: &mut [UnitSums],
    from: impl Iterator<Item = (Range<usize>, &'s [u64])>,
) -> Result<()> {
    for (to, (units, sums)) in to.iter_mut().zip(from) {
        to.merge(units, sums)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syncline_store::Shape;
    use syncline_testkit::{Random, cases as rounds, seed};

    use super::*;
    use crate::Stencil;
    use crate::engines::strips::tests::columns_of;
    use crate::team::columns::LeaningColumns;

    /// Slabs of some rows of some columns, and the columns of a writing and of a reading pass.
    struct Case {
        dims: [usize; 3],
        columns: [Arc<dyn Columns>; 2],
    }

    impl Case {
        /// Cuts of strips, which move from row to row.
        fn of_strips(random: &mut Random, members: usize) -> Option<Self> {
            let shape = Shape::new(3 + random.below(200), 3 + random.below(700));
            let stencil = random.one_of(&[Stencil::FIVE_POINT, Stencil::NINE_POINT]);
            let mut columns = || columns_of(shape, stencil, 1 + random.below(9), members);
            Some(Case { dims: [shape.rows, 1, shape.cols], columns: [columns()?, columns()?] })
        }

        /// Cuts that lean in each slab, and are the same in both passes.
        fn leaning(random: &mut Random, members: usize) -> Self {
            let (slabs, rows) = (1 + random.below(20), 1 + random.below(9));
            let (cols, lean) = (3 + random.below(200), random.below(5) as isize - 2);
            let margin = random.below(60);
            let columns: Arc<dyn Columns> =
                Arc::new(LeaningColumns::new((rows, cols), members, lean, margin));
            Case { dims: [slabs, rows, cols], columns: [Arc::clone(&columns), columns] }
        }
    }

    /// Returns what a member expects of what all have written.
    fn expected(between: &Arc<Between>, written: &[Units], member: usize) -> Units {
        let mut sums = between.sums(&between.read[member]).unwrap();
        for units in &written[between.from[member].clone()] {
            merge(&mut sums, units.sums.iter().map(|sums| (sums.units(), sums.sums()))).unwrap();
        }
        Units { between: Arc::clone(between), member, sums }
    }

    /// Each member checks all columns that it reads, against the sums of those that have written
    /// them, in the memory that the plan has for them.
    #[test]
    fn what_is_written_is_what_is_read() {
        let (mut cases, mut several) = (0, 0);
        let (first, all) = (seed(0), u64::from(rounds(300)));
        for seed in first..first + all {
            let mut random = Random::new(seed);
            let members = 1 + random.below(6);
            let case = match random.one_in(2) {
                true => Case::of_strips(&mut random, members),
                false => Some(Case::leaning(&mut random, members)),
            };
            let Some(Case { dims: [slabs, rows, cols], columns: [writers, readers] }) = case else {
                continue;
            };
            cases += 1;
            let all_types = [ElementType::Float64, ElementType::Int16, ElementType::Float32];
            let elements = &all_types[..1 + random.below(3)];
            let between = Arc::new(Between::new(slabs, elements, &writers, &*readers));
            let fields: Vec<Vec<u8>> = elements
                .iter()
                .map(|element| (0..slabs * rows * cols * element.bytes()).map(|n| (n * n) as u8))
                .map(Iterator::collect)
                .collect();
            let place = |field: usize, (slab, row): (usize, usize), of: Range<usize>| {
                let (first, size) = ((slab * rows + row) * cols, elements[field].bytes());
                (first + of.start) * size..(first + of.end) * size
            };
            let mut written = Vec::new();
            for member in 0..members {
                let mut sums = Arc::clone(&between).of_writer(member).unwrap();
                for field in 0..elements.len() {
                    sums.add(field, 0..slabs, |slab, row, of| {
                        &fields[field][place(field, (slab, row), of)]
                    })
                    .unwrap();
                }
                written.push(sums);
            }
            let count = |units: &Units| units.sums[0].sums().len();
            let all: usize = written.iter().map(count).sum();
            let mut damaged = fields.clone();
            let field = random.below(elements.len());
            let (slab, row, column) = (random.below(slabs), random.below(rows), random.below(cols));
            let size = elements[field].bytes();
            damaged[field][((slab * rows + row) * cols + column) * size] ^= 1;
            let mut found = 0;
            for member in 0..members {
                let of_member = expected(&between, &written, member);
                several += usize::from(between.from[member].len() > 2);
                let of_all = all + count(&written[member]) + count(&of_member);
                let widest = elements.iter().map(|element| element.bytes()).max().unwrap();
                let most = most_bytes(slabs * rows, cols * widest, members);
                assert!((8 * of_all) as u64 <= most, "seed {seed}: {of_all}, {most}");
                let reads = readers.read(member, row);
                let is_read = reads.contains(&column);
                // What another number of levels reads may be less.
                let narrowed = of_member.narrowed(&*writers).unwrap();
                let up = random.one_in(2);
                for (file, is_damaged) in [(&fields, false), (&damaged, is_read)] {
                    for (narrow, mut left) in [
                        (false, expected(&between, &written, member)),
                        (true, of_member.narrowed(&*writers).unwrap()),
                    ] {
                        let band = 1 + random.below(slabs);
                        let mut bands: Vec<Range<usize>> = (0..slabs)
                            .step_by(band)
                            .map(|first| first..(first + band).min(slabs))
                            .collect();
                        if up {
                            bands.reverse();
                        }
                        let mut damage = None;
                        for band in bands {
                            for field in 0..elements.len() {
                                left.subtract(field, band.clone(), |slab, row, of| {
                                    &file[field][place(field, (slab, row), of)]
                                })
                                .unwrap();
                            }
                            damage = damage.or(left.damaged(&band, up));
                        }
                        if narrow {
                            assert!(is_damaged || damage.is_none(), "seed {seed}");
                            continue;
                        }
                        assert_eq!(damage.is_some(), is_damaged, "seed {seed}, member {member}");
                        found += usize::from(is_damaged);
                        if let Some((of, slabs, columns)) = damage {
                            let moved = writers.moved(row);
                            assert_eq!(of, field);
                            assert!(slabs.contains(&slab) && columns.contains(&(column + moved)));
                        }
                    }
                }
                let all_of = |units: &Units| units.sums[0].units();
                assert!(all_of(&narrowed).len() <= all_of(&of_member).len());
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
