//! Parts of fields that members send to one another between passes.
//!
//! # Contract
//! [`exchange`] is called by all members, each with fields in memory of which its own part is
//! valid. Afterwards each has the part that it needs. A part is a range of slabs, and in these for
//! each row a range of columns, which may depend on the slab. What a member sends to several others
//! is one location of an overlay, some slabs at a time.
//!
//! ```text
//!  member 1   | own part |              all fields, slab by slab and row by row
//!              └ first ┘  ──> member 0  what member 0 needs of it
//!                   └ last ┘ ──> member 2
//! ```
//!
//! # Costs
//! A copy into the location and one out of it; between hosts a message for each chunk and host.
//! Both copies of the chunks that are on their way are in memory.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use syncline_fabric::Member;
use syncline_kernel::rule::three;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop};
use syncline_store::array::Array;

use crate::Result;

/// The bytes of a chunk, unless one slab has more.
const CHUNK: usize = 4 << 20;

/// A part of every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) slabs: Range<usize>,
    /// The number of rows of a slab.
    pub(super) rows: usize,
    /// The columns in each row of any slab, or of all slabs of the field.
    pub(super) cols: Vec<Range<usize>>,
}

impl Region {
    fn common(&self, other: &Region) -> Region {
        let common = |a: &Range<usize>, b: &Range<usize>| {
            let start = a.start.max(b.start);
            start..a.end.min(b.end).max(start)
        };
        let count = self.cols.len().max(other.cols.len());
        let of = |region: &Region, n: usize| region.cols[n % region.cols.len()].clone();
        let cols = (0..count).map(|n| common(&of(self, n), &of(other, n))).collect();
        Region { slabs: common(&self.slabs, &other.slabs), rows: self.rows, cols }
    }

    /// Returns the columns of the rows of a slab.
    fn cols(&self, slab: usize) -> &[Range<usize>] {
        let first = slab * self.rows % self.cols.len();
        &self.cols[first..first + self.rows]
    }

    /// Returns the number of values in a slab.
    fn values(&self, slab: usize) -> usize {
        self.cols(slab).iter().map(ExactSizeIterator::len).sum()
    }

    /// Returns the greatest number of values in a slab.
    fn most(&self) -> usize {
        self.slabs.clone().map(|slab| self.values(slab)).max().unwrap_or(0)
    }

    fn is_empty(&self) -> bool {
        self.most() == 0
    }
}

/// A part that one member has and others need.
#[derive(Debug)]
struct Parcel {
    from: usize,
    part: Region,
    to: Vec<usize>,
}

/// Brings each member the part that it `needs`, of those that the others `own`. Returns the number
/// of bytes that this member has received.
///
/// # Collective
/// All members call it, with fields of the same types and dimensions, and with the same parts.
pub(super) fn exchange(
    me: &mut Member,
    fields: &mut [Array],
    own: &[Region],
    needs: &dyn Fn(usize) -> Region,
) -> Result<u64> {
    by_chunks(me, fields, own, needs, CHUNK)
}

fn by_chunks(
    me: &mut Member,
    fields: &mut [Array],
    own: &[Region],
    needs: &dyn Fn(usize) -> Region,
    most: usize,
) -> Result<u64> {
    let parcels = parcels(own, needs);
    if parcels.is_empty() {
        return Ok(0);
    }
    let point: usize = fields.iter().map(|field| field.element().bytes()).sum();
    let slab = |parcel: &Parcel| parcel.part.most() * point;
    let received = parcels.iter().filter(|parcel| parcel.to.contains(&me.rank()));
    let values = |part: &Region| part.slabs.clone().map(|slab| part.values(slab)).sum::<usize>();
    let received = received.map(|parcel| (values(&parcel.part) * point) as u64).sum();
    let together = |parcel: &Parcel| (most / slab(parcel)).clamp(1, parcel.part.slabs.len());
    let chunks = parcels.iter().map(|parcel| parcel.part.slabs.len().div_ceil(together(parcel)));
    let chunks = chunks.max().unwrap_or(0) as u64;
    let location = |parcel: &Parcel| {
        let Range { start, end } = parcel.part.slabs;
        let to: Vec<_> = parcel.to.iter().map(ToString::to_string).collect();
        let name = format!("slabs {start} to {} of {} for {}", end - 1, parcel.from, to.join(", "));
        Location::<[u8]>::absent(name, together(parcel) * slab(parcel))
    };
    let locations: Vec<_> = parcels.iter().map(location).collect();
    // A member runs its tasks one after another: the lock is free.
    let fields = &Mutex::new(fields);
    let mut overlay = Overlay::new();
    for (parcel, location) in parcels.iter().zip(&locations) {
        let (part, together) = (&parcel.part, together(parcel));
        let chunk = move |step: &Step| {
            let at = |n: u64| part.slabs.start + n as usize * together;
            let clip = |slab: usize| slab.min(part.slabs.end);
            clip(at(step.iteration()))..clip(at(step.iteration() + 1))
        };
        let name = format!("send {}", location.name());
        let task = overlay.task(name, location.write(), move |chunk_data, step| {
            let fields = fields.lock().unwrap_or_else(PoisonError::into_inner);
            for (field, inside, place) in pieces(&fields, part, chunk(step)) {
                chunk_data[place].copy_from_slice(&fields[field].bytes()[inside]);
            }
        });
        overlay.place(task, parcel.from);
        for &to in &parcel.to {
            let name = format!("take {} in rank {to}", location.name());
            let task = overlay.task(name, location.read(), move |chunk_data, step| {
                let mut fields = fields.lock().unwrap_or_else(PoisonError::into_inner);
                for (field, inside, place) in pieces(&fields, part, chunk(step)) {
                    fields[field].bytes_mut()[inside].copy_from_slice(&chunk_data[place]);
                }
            });
            overlay.place(task, to);
        }
    }
    let mut overlay = overlay.check(Initial::Program)?;
    overlay.run_on(me, Runner::pool(1), Stop::after(chunks))?;
    Ok(received)
}

/// Returns what the members send.
fn parcels(own: &[Region], needs: &dyn Fn(usize) -> Region) -> Vec<Parcel> {
    let mut parcels: Vec<Parcel> = Vec::new();
    for (from, owned) in own.iter().enumerate() {
        let first = parcels.len();
        for to in (0..own.len()).filter(|&to| to != from) {
            let part = owned.common(&needs(to));
            if part.is_empty() {
                continue;
            }
            match parcels[first..].iter_mut().find(|parcel| parcel.part == part) {
                Some(parcel) => parcel.to.push(to),
                None => parcels.push(Parcel { from, part, to: vec![to] }),
            }
        }
    }
    parcels
}

/// Returns the pieces of some slabs of a part: the field, its bytes, and their place in the
/// message, which has the fields one after another.
fn pieces(
    fields: &[Array],
    part: &Region,
    slabs: Range<usize>,
) -> Vec<(usize, Range<usize>, Range<usize>)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (n, field) in fields.iter().enumerate() {
        let (bytes, [_, rows, n_cols]) = (field.element().bytes(), three(field.dims()));
        for slab in slabs.clone() {
            let of_rows = part.cols(slab).iter().enumerate();
            for (row, cols) in of_rows.filter(|(_, cols)| !cols.is_empty()) {
                let first = ((slab * rows + row) * n_cols + cols.start) * bytes;
                let len = cols.len() * bytes;
                pieces.push((n, first..first + len, at..at + len));
                at += len;
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use syncline_fabric::Team;
    use syncline_store::ElementType;

    use super::*;
    use crate::team::columns::{Columns, LeaningColumns};

    /// Returns fields whose values tell their place, where this member has them.
    fn fields(dims: &[usize], part: &Region) -> Vec<Array> {
        [ElementType::Float64, ElementType::Uint8, ElementType::Int16]
            .into_iter()
            .map(|element| {
                let mut array = Array::zeros(element, dims).unwrap();
                let (size, [_, rows, cols]) = (element.bytes(), three(dims));
                for (n, bytes) in array.bytes_mut().chunks_exact_mut(size).enumerate() {
                    let (slab, row, col) = (n / cols / rows, n / cols % rows, n % cols);
                    if part.slabs.contains(&slab) && part.cols(slab)[row].contains(&col) {
                        bytes.fill((n % 251) as u8 + 1);
                    }
                }
                array
            })
            .collect()
    }

    /// Exchanges on teams of several shapes; `part` returns what a member has with `more` around.
    fn each_gets_what_it_needs(
        dims: &[usize],
        part: &(dyn Fn(usize, usize, usize) -> Region + Sync),
        mores: &[usize],
    ) {
        for (hosts, members) in [(1, 1), (1, 3), (3, 1), (2, 2)] {
            let count = hosts * members;
            let own: Vec<Region> = (0..count).map(|n| part(n, count, 0)).collect();
            for &more in mores {
                let own = &own;
                let one = move |me: &mut Member| {
                    let needs = |n: usize| part(n, count, more);
                    let mut fields = fields(dims, &own[me.rank()]);
                    by_chunks(me, &mut fields, own, &needs, 64).unwrap();
                    let expected = self::fields(dims, &needs(me.rank()));
                    for (field, expected) in fields.iter().zip(&expected) {
                        assert_eq!(field.bytes(), expected.bytes(), "{hosts} x {members}, {more}");
                    }
                };
                match hosts {
                    1 => Team::threads(members).quiet().run(one).unwrap(),
                    _ => Team::hosts(hosts).threads(members).quiet().run(one).unwrap(),
                };
            }
        }
    }

    #[test]
    fn each_member_gets_the_slabs_that_it_needs() {
        let slabs = 40;
        let part = |n: usize, count: usize, more: usize| {
            let cut = |n: usize| slabs * n / count;
            let slabs = cut(n).saturating_sub(more)..(cut(n + 1) + more).min(slabs);
            Region { slabs, rows: 1, cols: std::iter::once(0..5).collect() }
        };
        each_gets_what_it_needs(&[slabs, 5], &part, &[0, 3, 25, slabs]);
    }

    #[test]
    fn each_member_gets_the_columns_that_it_needs() {
        for (dims, lean) in [(vec![9, 31], 0), (vec![3, 7, 22], 2)] {
            let [slabs, rows, cols] = three(&dims);
            let part = |n: usize, count: usize, more: usize| {
                let columns = LeaningColumns::new((rows, cols), count, lean, more);
                let cols = (0..rows).map(|row| columns.read(n, row)).collect();
                Region { slabs: 0..slabs, rows, cols }
            };
            each_gets_what_it_needs(&dims, &part, &[0, 2, 40]);
        }
    }

    /// Cuts that move from slab to slab, to members whose columns are the same in all.
    #[test]
    fn columns_may_depend_on_the_slab() {
        let (slabs, cols) = (23, 40);
        let part = |n: usize, count: usize, more: usize| {
            let cut = |n: usize| cols * n / count;
            let cols = (0..if more > 0 { 1 } else { slabs }).map(|slab| match more {
                0 => {
                    cut(n).saturating_sub(slab % 4 * n)
                        ..cut(n + 1).saturating_sub(slab % 4 * (n + 1))
                }
                _ => cut(n).saturating_sub(more)..(cut(n + 1) + more).min(cols),
            });
            let last = |cols: Range<usize>| if n + 1 == count { cols.start..40 } else { cols };
            Region { slabs: 0..slabs, rows: 1, cols: cols.map(last).collect() }
        };
        each_gets_what_it_needs(&[slabs, cols], &part, &[0, 20, 40]);
    }
}
