//! The two messages per band at a cut.
//!
//! # Contract
//! The order of the values follows from the plan: strips from top to bottom, positions from west to
//! east, the values of a record. Records that do not exist are left out: strips of which no row is
//! updated, and positions outside of the matrix. Both hosts compute the lengths, which may be 0.
//!
//! The conditions, for the messages of band `p` at one cut. The western host is W, the eastern E:
//!
//! | event                    | not before                        | not after               |
//! |--------------------------|-----------------------------------|-------------------------|
//! | W: [`export_east`] `p`   | W's last piece of `p`             | W's last piece of `p+1` |
//! | E: [`import_west`] `p`   | that message; `p` may begin; E's  | E's first piece of `p`  |
//! |                          | [`export_west`] of `p-1`          |                         |
//! | E: [`export_west`] `p`   | E's first piece of `p`            | E's import of `p+1`     |
//! | W: [`import_east`] `p`   | that message                      | W's last piece of `p+1` |
//!
//! Within a host a piece of band `p` waits, as on one host, for the previous piece and for the next
//! piece of band `p-1`, or for its last one. A ring of [`Chain::slots`] for `n` bands allows `n`
//! bands in flight on this host. Band `p` *may begin*, with its import if there is one, when band
//! `p-n` has ended on this host: when its last piece and its `export_east` have run. `export_east`
//! and `import_west` also pack, and need the rows of the band.
//!
//! ```text
//! W  band p [ ][ ][last] export_east       p + 1 [ ][ ] import_east [last] export_east
//!                              \                              /                \
//! E                      import_west [first] export_west  [ ][ ]          import_west [first]
//! ```
//! So each export may be the end of the task of its piece, and each import the beginning of the
//! task of the piece that needs it; or they are tasks of their own, beside other pieces. The
//! messages of a cut alternate, eastward and westward: one buffer for each direction is enough, and
//! a message also says that the previous one in the other direction has been imported. A band takes
//! at least two messages, one piece of W and one of E.
//!
//! # Correctness
//! [`cut`](super) proves that the messages carry all that crosses. It remains that no value is
//! overwritten too early, nor too late. The table implies that E's first piece of a band waits for
//! W's last one, and W's last piece for E's first one of the band above. So the pieces of all hosts
//! run in an order that [`tile`](crate::strip::tile) allows on one host.
//!
//! * *Other versions of the same strip.* In band `p+1` an iteration reaches what W exports, from
//!   `G(p,t+1)` on, only in W's last piece, as pieces are at least `ahead` wide. For the same
//!   reason W's pieces of band `p+1` access nothing of W's import before the last one, and E's
//!   pieces of band `p-1` nothing of E's import after the first one. E's import overwrites `lag`
//!   records that E has exported: therefore E exports first.
//! * *Other strips in the same slot.* On one host, a band packs a strip over an older one at
//!   positions that no band behind or ahead still accesses, see [`Chain::slots`]. That depends only
//!   on the order of pieces. An export accesses positions that its piece has accessed, and an
//!   import positions that the next piece will. So they change nothing, wherever the table allows
//!   them. With vectors of one value slots are not shared at all while a band is in flight.
//! * *Packing.* E packs the strips that come in from its westernmost position on. In these
//!   positions W has already updated the field. Therefore [`import_west`] packs first, and then
//!   imports. W packs the strips beyond its last tile; these are below all strips that W imports
//!   before it, and W's import of band `p` follows.
//!
//! # Costs
//! A load and a store per vector, one of them with the stride of a record. With 20 iterations over
//! bands of 128 rows of doubles, vectors of 4, six arrays and skew 1, `export_west` and
//! `import_east` of 77 KiB take 3.5 us each from the cache. `export_east` and `import_west` of 40
//! KiB take 40 us, almost all of it to pack the overlap of the six arrays, which costs as much per
//! column as in a tile. On an AMD EPYC with AVX2.
//!
//! [`export_east`]: Cut::export_east
//! [`import_west`]: Cut::import_west
//! [`export_west`]: Cut::export_west
//! [`import_east`]: Cut::import_east
//! [`Chain::slots`]: crate::strip::tile::Chain::slots

use std::ops::Range;

use syncline_store::Element;

use super::super::Ring;
use super::super::tile::{Job, pack_beyond};
use super::Cut;
use crate::lanes::{Lanes, Real};

/// Records of one strip that a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) strip: isize,
    pub(super) positions: Range<isize>,
    /// The values of the field in each record.
    pub(super) values: Range<usize>,
}

impl Part {
    /// Returns the number of values.
    fn len(&self) -> usize {
        self.positions.len() * self.values.len()
    }
}

impl Cut {
    /// Returns the records that the western host sends after its last piece of a band, strip by
    /// strip.
    pub(super) fn eastward(&self, band: usize) -> impl Iterator<Item = Part> + use<> {
        let cut = *self;
        let (g, top, levels) = (cut.chain.geometry, cut.chain.top(band), cut.chain.levels as isize);
        let strips =
            (top + 1 - levels).max(0)..(top + cut.chain.band as isize).min(g.last_strip() + 1);
        strips.filter_map(move |strip| {
            let first = (top - strip).max(0);
            let last = (top - strip + cut.chain.band as isize - 1).min(levels - 1);
            let mut start = cut.position(band, strip, last as usize + 1);
            if last == levels - 1 {
                start = start.min(cut.final_position(band, strip));
            }
            cut.part(strip, start..cut.position(band, strip, first as usize), 0..g.width)
        })
    }

    /// Returns the records that the eastern host sends after its first piece of a band, strip by
    /// strip.
    pub(super) fn westward(&self, band: usize) -> impl Iterator<Item = Part> + use<> {
        let cut = *self;
        let (g, levels) = (cut.chain.geometry, cut.chain.levels as isize);
        let lowest = cut.chain.top(band) + cut.chain.band as isize - 1;
        let strips = (lowest + 1 - levels).max(0)..(lowest + 1).min(g.last_strip() + 1);
        strips.filter_map(move |strip| {
            let level = lowest - strip;
            let start = cut.position(band, strip, level as usize);
            let end = start + cut.chain.ahead() as isize;
            if level < levels - 1 {
                return cut.part(strip, start..end, 0..g.width);
            }
            // No further iteration: only the strip below reads the last row.
            let read = g.interior(strip + 1) != 0;
            read.then(|| cut.part(strip, start..end - 1, g.width - 1..g.width)).flatten()
        })
    }

    /// Returns the part with the positions that exist; none if no row of the strip is updated.
    fn part(&self, strip: isize, positions: Range<isize>, values: Range<usize>) -> Option<Part> {
        let g = &self.chain.geometry;
        let positions = positions.start.max(0)..positions.end.min(g.positions() as isize);
        let some = g.interior(strip) != 0 && !positions.is_empty();
        some.then_some(Part { strip, positions, values })
    }

    /// Returns the number of values that the western host sends after its last piece of a band.
    pub(crate) fn eastward_len(&self, band: usize) -> usize {
        self.eastward(band).map(|part| part.len()).sum()
    }

    /// Returns the number of values that the eastern host sends after its first piece of a band.
    pub(crate) fn westward_len(&self, band: usize) -> usize {
        self.westward(band).map(|part| part.len()).sum()
    }

    /// Returns a number of values that no message of either direction exceeds.
    pub(crate) fn most(&self) -> usize {
        let (chain, g) = (&self.chain, &self.chain.geometry);
        let group = g.width.saturating_sub(1 + g.lag());
        let east = chain.band * (chain.levels * g.lag() + group) * g.width;
        east.max(chain.ahead() * ((chain.levels - 1) * g.width + 1))
    }

    /// Completes a band of the western host: packs the strips of the band beyond the last tile, and
    /// copies the values that go east to `values`.
    ///
    /// # Panics
    /// If the job is not the last piece of the share west of this cut, if its ring does not have
    /// the window of the share or its rows are not [clipped](super::Share::clip) to the share, or
    /// if `values` does not have [`eastward_len`](Self::eastward_len) values.
    ///
    /// # Safety
    /// The conditions of [`run`](crate::strip::tile::run) must hold for the job, which must have
    /// run, and those of the module for `export_east`.
    pub(crate) unsafe fn export_east<E: Real>(
        &self,
        lanes: Lanes,
        job: &Job<'_, E>,
        values: &mut [E],
    ) {
        assert!(*job.chain == self.chain && job.columns.end == self.at);
        // SAFETY: the caller guarantees the conditions of a tile of the job. No piece that may run
        // meanwhile accesses the positions beyond the last tile, nor writes those that are
        // exported, as the module proves.
        unsafe {
            pack_beyond::<E, true>(lanes, job);
            export(job.ring, self.eastward(job.band), values);
        }
    }

    /// Begins a band of the eastern host: packs the strips of the band before the first tile, and
    /// then copies the values of the western host to the ring.
    ///
    /// # Panics
    /// As for [`export_east`](Self::export_east), for the first piece of the share east of this
    /// cut.
    ///
    /// # Safety
    /// The conditions of [`run`](crate::strip::tile::run) must hold for the job, and those of the
    /// module for `import_west`.
    pub(crate) unsafe fn import_west<E: Real>(&self, lanes: Lanes, job: &Job<'_, E>, values: &[E]) {
        assert!(*job.chain == self.chain && job.columns.start == self.at);
        // SAFETY: as in `export_east`; no piece that may run meanwhile accesses the positions that
        // are packed, nor those that are imported.
        unsafe {
            pack_beyond::<E, false>(lanes, job);
            import(job.ring, self.eastward(job.band), values);
        }
    }

    /// Copies the values of the eastern host that go west after its first piece of `band`.
    ///
    /// # Panics
    /// If `values` does not have [`westward_len`](Self::westward_len) values, or if the window of
    /// the ring is not that of the share east of this cut.
    ///
    /// # Safety
    /// The ring must have the geometry of the chain, and the conditions of the module for
    /// `export_west` must hold.
    pub(crate) unsafe fn export_west<E: Element>(
        &self,
        ring: &Ring<E>,
        band: usize,
        values: &mut [E],
    ) {
        // SAFETY: no piece that may run meanwhile writes these values, as the module proves.
        unsafe { export(ring, self.westward(band), values) }
    }

    /// Copies the values that the eastern host has sent after its first piece of `band` to the ring
    /// of the western host.
    ///
    /// # Panics
    /// If `values` does not have [`westward_len`](Self::westward_len) values, or if the window of
    /// the ring is not that of the share west of this cut.
    ///
    /// # Safety
    /// The ring must have the geometry of the chain, and the conditions of the module for
    /// `import_east` must hold.
    pub(crate) unsafe fn import_east<E: Element>(&self, ring: &Ring<E>, band: usize, values: &[E]) {
        // SAFETY: no piece that may run meanwhile accesses these values, as the module proves.
        unsafe { import(ring, self.westward(band), values) }
    }
}

/// Copies parts of a ring to `values`.
///
/// # Panics
/// If `values` does not have the length of the parts, or if the ring does not contain them.
///
/// # Safety
/// No other thread may write these values meanwhile.
pub(super) unsafe fn export<E: Element>(
    ring: &Ring<E>,
    parts: impl Iterator<Item = Part>,
    values: &mut [E],
) {
    let mut rest = values;
    for part in parts {
        let (now, later) = rest.split_at_mut(part.len());
        let (record, width) = (ring.geometry.record(), part.values.len());
        let (from, to) = (place(ring, &part), now.as_mut_ptr());
        // SAFETY: the part is in the ring, and no other thread writes it, as the caller guarantees;
        // `now` has room for its values, and is not in the ring.
        unsafe { copy((from, record), (to, width), width, part.positions.len()) };
        rest = later;
    }
    assert!(rest.is_empty(), "the message is longer than its parts");
}

/// Copies `values` to parts of a ring.
///
/// # Panics
/// As for [`export`].
///
/// # Safety
/// No other thread may access these values meanwhile.
unsafe fn import<E: Element>(ring: &Ring<E>, parts: impl Iterator<Item = Part>, values: &[E]) {
    let mut rest = values;
    for part in parts {
        let (now, later) = rest.split_at(part.len());
        let (record, width) = (ring.geometry.record(), part.values.len());
        let (from, to) = (now.as_ptr(), place(ring, &part));
        // SAFETY: the part is in the ring, and no other thread accesses it, as the caller
        // guarantees; `now` has its values, and is not in the ring.
        unsafe { copy((from, width), (to, record), width, part.positions.len()) };
        rest = later;
    }
    assert!(rest.is_empty(), "the message is longer than its parts");
}

/// Returns the address of the first value of a part.
///
/// # Panics
/// If a position of the part is not in the ring.
fn place<E: Element>(ring: &Ring<E>, part: &Part) -> *mut E {
    let (g, window) = (&ring.geometry, ring.window());
    let there = window.start <= part.positions.start && part.positions.end <= window.end;
    assert!(
        there && part.values.end <= g.width,
        "a part is not in the window {window:?}: {part:?}"
    );
    let first = part.positions.start * g.record() as isize + part.values.start as isize;
    ring.strip(part.strip).wrapping_offset(first)
}

/// Copies `count` vectors of `width` values. Each address comes with the number of values from one
/// vector to the next, which is at least `width`.
///
/// # Safety
/// All vectors at `from` must be valid for reads and those at `to` for writes, without data races,
/// and they must not overlap.
unsafe fn copy<E: Element>(
    from: (*const E, usize),
    to: (*mut E, usize),
    width: usize,
    count: usize,
) {
    // SAFETY: the conditions are those of this function; dense vectors are one range.
    unsafe {
        match width {
            _ if from.1 == width && to.1 == width => {
                std::ptr::copy_nonoverlapping(from.0, to.0, width * count);
            }
            1 => vectors::<E, 1>(from, to, count),
            2 => vectors::<E, 2>(from, to, count),
            4 => vectors::<E, 4>(from, to, count),
            8 => vectors::<E, 8>(from, to, count),
            16 => vectors::<E, 16>(from, to, count),
            _ => unreachable!("lanes of {width} values"),
        }
    }
}

/// Copies `count` vectors of `N` values, see [`copy`].
///
/// # Safety
/// The conditions of [`copy`] must hold for a width of `N`.
unsafe fn vectors<E: Element, const N: usize>(
    from: (*const E, usize),
    to: (*mut E, usize),
    count: usize,
) {
    for n in 0..count {
        let from = from.0.wrapping_add(n * from.1).cast::<[E; N]>();
        let to = to.0.wrapping_add(n * to.1).cast::<[E; N]>();
        // SAFETY: the caller guarantees that the vector is readable and writable, and vectors that
        // do not overlap; an array is aligned like its elements.
        unsafe { to.write(from.read()) };
    }
}
