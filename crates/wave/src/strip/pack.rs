//! Between rows and strips: packing, and its reverse.
//!
//! # Contract
//! [`pack`] brings positions of one array of a strip in from rows, [`unpack`] brings the field
//! back. Both work on groups of as many positions as a vector has values: a square of the matrix,
//! sheared by the skew, that is transposed in registers.
//!
//! ```text
//! columns   c-2 c-1  c  c+1 c+2 c+3          positions c  c+1 c+2 c+3
//! row 0              a   b   c   d                     a   b   c   d
//! row 1          e   f   g   h            <->          e   f   g   h
//! row 2      i   j   k   l                             i   j   k   l
//! ```
//!
//! # Costs
//! A load, a store and `log2 W` shuffles per vector. The memory is what counts: so packing happens
//! where the first update is about to need it, and unpacking right after the last one, both in the
//! cache; and what comes next is on its way meanwhile, see [`Ahead`].

use std::ops::Range;

use syncline_store::Element;

use crate::lanes::{self, Vector};

use super::Geometry;

/// Where a part of an array stands: row `first`, and `pitch` elements on the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<E> {
    /// Column 0 of row `first`, which need not be there.
    pub(crate) start: *mut E,
    /// The first row that is there.
    pub(crate) first: usize,
    /// The row after the last that is there.
    pub(crate) end: usize,
    /// The first column that is there.
    pub(crate) left: usize,
    /// The column after the last that is there.
    pub(crate) right: usize,
    /// Elements from one row to the next.
    pub(crate) pitch: usize,
}

// SAFETY: an address and some numbers; the code that dereferences it answers for that.
unsafe impl<E: Send> Send for Rows<E> {}
// SAFETY: as above.
unsafe impl<E: Sync> Sync for Rows<E> {}

impl<E: Element> Rows<E> {
    /// The first element of a row, which need not be there.
    #[inline(always)]
    pub(crate) fn row(&self, row: isize) -> *mut E {
        self.start.wrapping_offset((row - self.first as isize) * self.pitch as isize)
    }

    /// Whether `width` rows from `row` on are there.
    #[inline(always)]
    fn has(&self, row: isize, width: usize) -> bool {
        row >= self.first as isize && row + width as isize <= self.end as isize
    }

    /// Those of the groups of positions of a strip in which something is there.
    #[inline(always)]
    fn groups(&self, g: &Geometry, strip: isize, groups: Range<isize>) -> Range<isize> {
        let (row, width) = (g.row(strip), g.width as isize);
        if row + width <= self.first as isize || row >= self.end as isize {
            return groups.start..groups.start;
        }
        let last = self.right as isize - 1 + g.skew as isize * (width - 1);
        groups.start.max(self.left as isize / width)..groups.end.min(last / width + 1)
    }
}

impl<E: Element> Rows<E> {
    /// Those of the groups `there` of which all values are there: a range within.
    #[inline(always)]
    fn whole<L: Vector<Element = E>>(
        &self,
        g: &Geometry,
        strip: isize,
        there: &Range<isize>,
    ) -> Range<isize> {
        if !self.has(g.row(strip), L::WIDTH) {
            return there.start..there.start;
        }
        let width = L::WIDTH as isize;
        let least = self.left as isize + g.skew as isize * (width - 1);
        let start = ((least + width - 1) / width).clamp(there.start, there.end.max(there.start));
        start..(self.right as isize / width).clamp(start, there.end.max(start))
    }
}

/// What will be touched soon, to be fetched into the cache while something is packed.
///
/// Packing waits for memory, not for the transpositions: both for the rows, which it reads in
/// pieces too short for the processor to guess what comes next, and for the records, of which each
/// array fills a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<E> {
    /// The first value of what is packed next, of as many rows as a strip has; null if nothing is.
    rows: *const E,
    /// From there to the first value in the next row.
    shear: isize,
    /// Where records are that will be written, and some that will be read: of each as many values
    /// as are packed meanwhile.
    records: [*const E; 2],
}

impl<E: Element> Ahead<E> {
    /// Only records.
    #[inline(always)]
    pub(crate) const fn of(records: [*const E; 2]) -> Self {
        Ahead { rows: std::ptr::null(), shear: 0, records }
    }

    /// And rows: those of a strip, from the group `group` on, if they are there.
    #[inline(always)]
    pub(crate) fn and(self, g: &Geometry, rows: &Rows<E>, strip: isize, group: isize) -> Self {
        let row = g.row(strip);
        if !rows.has(row, g.width) {
            return self;
        }
        let start = rows.row(row).wrapping_offset(group * g.width as isize).cast_const();
        Ahead { rows: start, shear: rows.pitch as isize - g.skew as isize, ..self }
    }

    /// Fetches a group's share, counted from the first.
    #[inline(always)]
    fn fetch<L: Vector<Element = E>>(&self, group: isize) {
        let line = 64 / E::BYTES;
        let square = L::WIDTH * L::WIDTH;
        for value in (0..square / line * line).step_by(line) {
            let share = |records: *const E| {
                records.wrapping_offset(group * square as isize).wrapping_add(value)
            };
            lanes::prefetch::<false, _>(share(self.records[0]));
            lanes::prefetch::<true, _>(share(self.records[1]));
        }
        let column = group * L::WIDTH as isize;
        if self.rows.is_null() || column % line as isize != 0 {
            return;
        }
        for i in 0..L::WIDTH as isize {
            lanes::prefetch::<false, _>(self.rows.wrapping_offset(column + i * self.shear));
        }
    }
}

/// Packs the groups `groups` of positions of an array: `to` is position 0 of its strip, plus the
/// array's place in a record.
///
/// # Safety
/// The rows are valid for reading, the positions for writing by this caller alone; the processor
/// has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn pack<L: Vector>(
    g: &Geometry,
    rows: &Rows<L::Element>,
    strip: isize,
    groups: Range<isize>,
    to: *mut L::Element,
    ahead: Ahead<L::Element>,
) {
    let record = g.record();
    let step = (L::WIDTH * record) as isize;
    let there = rows.groups(g, strip, groups.clone());
    let whole = rows.whole::<L>(g, strip, &there);
    // SAFETY: the caller's conditions; groups of `whole` have all their rows and columns.
    unsafe {
        (there.start..whole.start).for_each(|group| some::<L, true>(g, rows, strip, group, to));
        let shear = rows.pitch as isize - g.skew as isize;
        let mut from =
            rows.row(g.row(strip)).wrapping_offset(whole.start * L::WIDTH as isize).cast_const();
        let mut place = to.wrapping_offset(whole.start * step);
        for group in whole.clone() {
            ahead.fetch::<L>(group - groups.start);
            L::transpose_in(from, shear, place, record);
            from = from.wrapping_add(L::WIDTH);
            place = place.wrapping_offset(step);
        }
        (whole.end..there.end).for_each(|group| some::<L, true>(g, rows, strip, group, to));
    }
}

/// Unpacks the groups `groups` of positions of the field: `from` is position 0 of its strip.
///
/// # Safety
/// As [`pack`], with reading and writing exchanged.
#[inline(always)]
pub(crate) unsafe fn unpack<L: Vector>(
    g: &Geometry,
    rows: &Rows<L::Element>,
    strip: isize,
    groups: Range<isize>,
    from: *mut L::Element,
) {
    let record = g.record();
    let step = (L::WIDTH * record) as isize;
    let there = rows.groups(g, strip, groups);
    let whole = rows.whole::<L>(g, strip, &there);
    // SAFETY: as in `pack`.
    unsafe {
        (there.start..whole.start).for_each(|group| some::<L, false>(g, rows, strip, group, from));
        let shear = rows.pitch as isize - g.skew as isize;
        let mut to = rows.row(g.row(strip)).wrapping_offset(whole.start * L::WIDTH as isize);
        let mut place = from.wrapping_offset(whole.start * step).cast_const();
        for _ in whole.clone() {
            L::transpose_out(place, record, to, shear);
            to = to.wrapping_add(L::WIDTH);
            place = place.wrapping_offset(step);
        }
        (whole.end..there.end).for_each(|group| some::<L, false>(g, rows, strip, group, from));
    }
}

/// Moves what is there of a group, value by value: into the strip if `IN`, or else out of it.
///
/// # Safety
/// As [`pack`] or [`unpack`].
#[cold]
unsafe fn some<L: Vector, const IN: bool>(
    g: &Geometry,
    rows: &Rows<L::Element>,
    strip: isize,
    group: isize,
    strip_start: *mut L::Element,
) {
    let (width, skew, row) = (L::WIDTH as isize, g.skew as isize, g.row(strip));
    for i in (0..width).filter(|&i| rows.has(row + i, 1)) {
        for j in 0..width {
            let position = group * width + j;
            let column = position - skew * i;
            if (rows.left as isize..rows.right as isize).contains(&column) {
                let value = strip_start.wrapping_offset(position * g.record() as isize + i);
                let element = rows.row(row + i).wrapping_offset(column);
                // SAFETY: the row and the column are there.
                unsafe {
                    if IN { value.write(element.read()) } else { element.write(value.read()) }
                }
            }
        }
    }
}
