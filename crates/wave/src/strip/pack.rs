//! Packing of rows into strips, and unpacking.
//!
//! # Contract
//! [`pack`] copies positions of one array of a strip in from rows; [`unpack`] copies the field
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
//! A load, a store and `log2 W` shuffles per vector. Memory traffic dominates, so packing is done
//! just before the first update needs the data, and unpacking just after the last update, both in
//! the cache. The data that comes next is prefetched meanwhile, see [`Ahead`].

use std::ops::Range;

use syncline_kernel::lanes::{self, Vector};
use syncline_store::Element;

use super::Geometry;

/// A part of an array in memory: the address of row `first`, with `pitch` elements from one row to
/// the next.
///
/// Rows from `first` to `end` and columns from `left` to `right` are *present*: they may be
/// accessed.
#[derive(Clone, Copy, Debug)]
pub struct Rows<E> {
    /// The address of column 0 of row `first`; that element need not be present.
    pub start: *mut E,
    /// The first row that is present.
    pub first: usize,
    /// The row after the last that is present.
    pub end: usize,
    /// The first column that is present.
    pub left: usize,
    /// The column after the last that is present.
    pub right: usize,
    /// The number of elements from one row to the next.
    pub pitch: usize,
}

// SAFETY: the type holds an address and numbers, and dereferences nothing itself; the code that
// dereferences the address is responsible for the access.
unsafe impl<E: Send> Send for Rows<E> {}
// SAFETY: as for `Send`.
unsafe impl<E: Sync> Sync for Rows<E> {}

impl<E: Element> Rows<E> {
    /// Returns the address of column 0 of a row, which need not be present.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, row: isize) -> *mut E {
        self.start.wrapping_offset((row - self.first as isize) * self.pitch as isize)
    }

    /// Returns whether the `width` rows from `row` on are present.
    #[inline(always)]
    fn has(&self, row: isize, width: usize) -> bool {
        row >= self.first as isize && row + width as isize <= self.end as isize
    }

    /// Returns the groups of positions of a strip in which any value is present.
    #[inline(always)]
    fn groups(&self, g: &Geometry, strip: isize, groups: Range<isize>) -> Range<isize> {
        let (row, width) = (g.row(strip), g.width as isize);
        if row + width <= self.first as isize || row >= self.end as isize {
            return groups.start..groups.start;
        }
        self.groups_of(g, groups)
    }

    /// Returns the groups of positions in which any value of any strip is present.
    #[inline(always)]
    pub(super) fn groups_of(&self, g: &Geometry, groups: Range<isize>) -> Range<isize> {
        let width = g.width as isize;
        let last = self.right as isize - 1 + g.skew as isize * (width - 1);
        groups.start.max(self.left as isize / width)..groups.end.min(last / width + 1)
    }
}

impl<E: Element> Rows<E> {
    /// Returns the range within the groups `there` in which all values are present.
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

/// The addresses that will be accessed soon, to be prefetched while a group is packed.
///
/// Packing waits for memory, not for the transpositions. It waits for the rows, which it reads in
/// pieces too short for the hardware prefetcher, and for the records, of which each array fills
/// only a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<E> {
    /// The first value that is packed next, from as many rows as a strip has; null if there is
    /// none.
    rows: *const E,
    /// The distance from there to the first value in the next row.
    shear: isize,
    /// The addresses of records that will be written, and of records that will be read. As many
    /// values of each are prefetched as are packed meanwhile.
    records: [*const E; 2],
}

impl<E: Element> Ahead<E> {
    /// Creates an `Ahead` of records only.
    #[inline(always)]
    pub(crate) const fn of(records: [*const E; 2]) -> Self {
        Ahead { rows: std::ptr::null(), shear: 0, records }
    }

    /// Adds the rows of a strip, from the group `group` on, if they are present.
    #[inline(always)]
    pub(crate) fn and(self, g: &Geometry, rows: &Rows<E>, strip: isize, group: isize) -> Self {
        let row = g.row(strip);
        if !rows.has(row, g.width) {
            return self;
        }
        let start = rows.row(row).wrapping_offset(group * g.width as isize).cast_const();
        Ahead { rows: start, shear: rows.pitch as isize - g.skew as isize, ..self }
    }

    /// Prefetches the share that belongs to group `group`, counted from the first one packed.
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
/// offset of the array in a record.
///
/// # Safety
/// * The elements of `rows` that are present must be valid for reads, and no other thread may write
///   them meanwhile.
/// * The positions must be valid for writes, and no other thread may access them meanwhile.
/// * The processor must have the instructions of `L`.
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
    // SAFETY: the caller guarantees reads, writes and instructions; in groups of `whole` all rows
    // and columns are present, and vectors in the ring are aligned.
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
/// The conditions of [`pack`] must hold, with reads and writes exchanged.
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
    // SAFETY: the caller guarantees reads, writes and instructions; in groups of `whole` all rows
    // and columns are present, and vectors in the ring are aligned.
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

/// Copies the values of a group that are present, one by one: into the strip if `IN`, and out of it
/// otherwise.
///
/// # Safety
/// The conditions of [`pack`] must hold if `IN`, and those of [`unpack`] otherwise.
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
                // SAFETY: the row and the column are present, so the caller guarantees that the
                // element is accessible; so is the value of the strip.
                unsafe {
                    if IN { value.write(element.read()) } else { element.write(value.read()) }
                }
            }
        }
    }
}
