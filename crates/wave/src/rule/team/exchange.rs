//! Slabs that members send to one another between passes.
//!
//! # Contract
//! [`exchange`] is called by all members, each with fields in memory of which its own slabs are
//! valid. Afterwards each has the slabs that it needs. What it sends to several members is one
//! location of an overlay, a chunk of bytes at a time.
//!
//! ```text
//!  member 1   | own slabs |              all fields, one after another
//!              └ first ┘   ──> member 0  the slabs that member 0 needs of them
//!                   └ last ┘ ──> member 2
//! ```
//!
//! # Costs
//! A copy into the location and one out of it; between hosts a message for each chunk and host.
//! Both copies of the chunks that are on their way are in memory.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use syncline_fabric::Member;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop};
use syncline_store::array::Array;

use crate::Result;

/// The bytes of a chunk.
const CHUNK: usize = 4 << 20;

/// Slabs of one member that others need.
#[derive(Debug)]
struct Parcel {
    from: usize,
    slabs: Range<usize>,
    to: Vec<usize>,
}

/// Brings each member the slabs that it `needs`, of those that the others `own`. Returns the number
/// of bytes that this member has received.
///
/// # Collective
/// All members call it, with fields of the same types and dimensions, and with the same ranges.
pub(super) fn exchange(
    me: &mut Member,
    fields: &mut [Array],
    own: &[Range<usize>],
    needs: &dyn Fn(usize) -> Range<usize>,
) -> Result<u64> {
    by_chunks(me, fields, own, needs, CHUNK)
}

fn by_chunks(
    me: &mut Member,
    fields: &mut [Array],
    own: &[Range<usize>],
    needs: &dyn Fn(usize) -> Range<usize>,
    most: usize,
) -> Result<u64> {
    let parcels = parcels(own, needs);
    if parcels.is_empty() {
        return Ok(0);
    }
    let sizes: Vec<usize> = fields.iter().map(slab_bytes).collect();
    let bytes = |parcel: &Parcel| parcel.slabs.len() * sizes.iter().sum::<usize>();
    let received = parcels.iter().filter(|parcel| parcel.to.contains(&me.rank())).map(&bytes);
    let received = received.sum::<usize>() as u64;
    let chunks = parcels.iter().map(|parcel| bytes(parcel).div_ceil(most)).max().unwrap_or(0);
    let location = |parcel: &Parcel| {
        let Range { start, end } = parcel.slabs;
        let name = format!("slabs {start} to {} of rank {}", end - 1, parcel.from);
        Location::<[u8]>::absent(name, bytes(parcel).min(most))
    };
    let locations: Vec<_> = parcels.iter().map(location).collect();
    // A member runs its tasks one after another: the lock is free.
    let fields = &Mutex::new(fields);
    let sizes = &sizes[..];
    let mut overlay = Overlay::new();
    for (parcel, location) in parcels.iter().zip(&locations) {
        let (slabs, len) = (&parcel.slabs, bytes(parcel));
        let chunk = move |step: &Step| {
            let at = |n: u64| (n as usize * most).min(len);
            at(step.iteration())..at(step.iteration() + 1)
        };
        let name = format!("send {}", location.name());
        let task = overlay.task(name, location.write(), move |chunk_data, step| {
            let fields = fields.lock().unwrap_or_else(PoisonError::into_inner);
            for (field, inside, place) in pieces(sizes, slabs, chunk(step)) {
                chunk_data[place].copy_from_slice(&fields[field].bytes()[inside]);
            }
        });
        overlay.place(task, parcel.from);
        for &to in &parcel.to {
            let name = format!("take {} in rank {to}", location.name());
            let task = overlay.task(name, location.read(), move |chunk_data, step| {
                let mut fields = fields.lock().unwrap_or_else(PoisonError::into_inner);
                for (field, inside, place) in pieces(sizes, slabs, chunk(step)) {
                    fields[field].bytes_mut()[inside].copy_from_slice(&chunk_data[place]);
                }
            });
            overlay.place(task, to);
        }
    }
    let mut overlay = overlay.check(Initial::Program)?;
    overlay.run_on(me, Runner::pool(1), Stop::after(chunks as u64))?;
    Ok(received)
}

/// Returns what the members send.
fn parcels(own: &[Range<usize>], needs: &dyn Fn(usize) -> Range<usize>) -> Vec<Parcel> {
    let mut parcels: Vec<Parcel> = Vec::new();
    for (from, owned) in own.iter().enumerate() {
        let first = parcels.len();
        for to in (0..own.len()).filter(|&to| to != from) {
            let needed = needs(to);
            let slabs = owned.start.max(needed.start)..owned.end.min(needed.end);
            if slabs.is_empty() {
                continue;
            }
            match parcels[first..].iter_mut().find(|parcel| parcel.slabs == slabs) {
                Some(parcel) => parcel.to.push(to),
                None => parcels.push(Parcel { from, slabs, to: vec![to] }),
            }
        }
    }
    parcels
}

fn slab_bytes(array: &Array) -> usize {
    array.bytes().len() / array.dims()[0]
}

/// Returns the pieces of a range of the bytes of a parcel, which has its slabs of all fields one
/// after another: the field, the bytes of the field, and the place in the range.
fn pieces(
    sizes: &[usize],
    slabs: &Range<usize>,
    range: Range<usize>,
) -> Vec<(usize, Range<usize>, Range<usize>)> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    for (field, size) in sizes.iter().enumerate() {
        let end = start + slabs.len() * size;
        let here = range.start.max(start)..range.end.min(end);
        if !here.is_empty() {
            let first = slabs.start * size + here.start - start;
            let place = here.start - range.start..here.end - range.start;
            pieces.push((field, first..first + here.len(), place));
        }
        start = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use syncline_fabric::Team;
    use syncline_store::ElementType;

    use super::*;

    /// Returns fields whose slabs hold their position, where this member owns them.
    fn fields(slabs: usize, own: &Range<usize>) -> Vec<Array> {
        [ElementType::Float64, ElementType::Uint8, ElementType::Int16]
            .into_iter()
            .map(|element| {
                let mut array = Array::zeros(element, &[slabs, 5]).unwrap();
                let size = slab_bytes(&array);
                let all = array.bytes_mut().chunks_exact_mut(size).enumerate();
                for (slab, bytes) in all.filter(|(slab, _)| own.contains(slab)) {
                    bytes.fill(slab as u8 + 1);
                }
                array
            })
            .collect()
    }

    #[test]
    fn each_member_gets_the_slabs_that_it_needs() {
        let slabs = 40;
        for (hosts, members) in [(1, 1), (1, 3), (3, 1), (2, 2)] {
            let count = hosts * members;
            let cut = |n: usize| slabs * n / count;
            let own: Vec<_> = (0..count).map(|n| cut(n)..cut(n + 1)).collect();
            for more in [0, 3, 25, slabs] {
                let needs = |n: usize| cut(n).saturating_sub(more)..(cut(n + 1) + more).min(slabs);
                let own = &own;
                let one = move |me: &mut Member| {
                    let mut fields = fields(slabs, &own[me.rank()]);
                    by_chunks(me, &mut fields, own, &needs, 64).unwrap();
                    let expected = self::fields(slabs, &needs(me.rank()));
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
    fn pieces_cover_a_parcel() {
        let (sizes, slabs) = ([40, 5, 10], 3..9);
        let all = 6 * 55;
        for chunk in [1, 7, 50, all, 2 * all] {
            let mut next = [3 * 40, 3 * 5, 3 * 10];
            for start in (0..all).step_by(chunk) {
                let mut place = 0;
                for (field, inside, at) in pieces(&sizes, &slabs, start..(start + chunk).min(all)) {
                    assert_eq!((inside.start, at.start), (next[field], place));
                    assert_eq!(inside.len(), at.len());
                    (next[field], place) = (inside.end, at.end);
                }
            }
            assert_eq!(next, [9 * 40, 9 * 5, 9 * 10]);
        }
    }
}
