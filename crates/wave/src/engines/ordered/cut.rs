//! The values that cross the cuts between the members of a team.
//!
//! # Contract
//! Each member runs the pieces of its positions in all bands, one engine after another. At a cut
//! the values of the rings around it travel twice in a band: *forward*, from the member before the
//! cut (along the direction) to the one after it, and *back*.
//!
//! ```text
//!                    member before            cut            member after
//! band b      ... piece  piece  last piece ──────────> first piece  piece ...
//!                                          forward b        │
//! band b + 1  ... piece  piece  last piece <────────────────┘
//!                                           back b
//! ```
//!
//! | message     | rows                        | positions                                        |
//! |-------------|-----------------------------|--------------------------------------------------|
//! | forward b   | all of the window of band b | those before the cut that the first piece of the |
//! |             |                             | next member reads or updates; of final rows all  |
//! |             |                             | from the first column of that member             |
//! | back b      | those that the window of    | those from the last levels of the member before, |
//! |             | band b + 1 has as well      | to the reach of its last piece in band b + 1     |
//!
//! The columns of a member are those that are final before its cut in every band: in two
//! dimensions the final rows of the band with the most of them decide. So the member before a cut
//! also computes final values of the member after it, and sends them forward.
//!
//! Each member reads the margins of its columns itself: values that a piece needs before the
//! neighbour has updated them.
//!
//! # Costs
//! A band sends forward `rows * (levels * lag + skew * band)` values of each field at most, and
//! back about as many, whatever the number of columns.
//!
//! # Source
//! This project's; the same order as that of the cuts of strips ([`cut`](crate::strip::cut)).

use std::ops::Range;

use super::window::Way;
use super::{Geometry, Ordered};
use crate::engine::{Bands, Crossing, Job};
use crate::team::columns::{Columns, LeaningColumns};

/// The part of a pass that one member runs.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(super) columns: LeaningColumns,
    member: usize,
    /// The positions of the cuts, in the order of the direction.
    at: Vec<isize>,
    /// Whether the first of the members in this order is the last one.
    left: bool,
}

/// Rows of the rings that a message has: for each the slab, the row, and columns along the
/// direction.
type Lines = Vec<(usize, usize, Range<usize>)>;

impl Part {
    pub(crate) fn new(columns: &LeaningColumns, member: usize, geometry: &Geometry) -> Self {
        let left = geometry.direction.left;
        let position = |nth| (columns.cut(nth, left) + geometry.ahead()) as isize;
        let at = (1..columns.members()).map(position).collect();
        Part { columns: columns.clone(), member, at, left }
    }

    /// Returns the place of a member in the order of the direction, or the member at a place.
    pub(crate) fn nth(&self, member: usize) -> usize {
        if self.left { self.columns.members() - 1 - member } else { member }
    }

    /// Returns the positions of a member. Those of the first and the last one have no end.
    pub(crate) fn positions(&self, member: usize) -> (isize, isize) {
        let nth = self.nth(member);
        let start = nth.checked_sub(1).map_or(isize::MIN / 2, |cut| self.at[cut]);
        (start, self.at.get(nth).copied().unwrap_or(isize::MAX / 2))
    }

    /// Returns the positions of this member.
    pub(crate) fn own_positions(&self) -> (isize, isize) {
        self.positions(self.member)
    }

    /// Returns the positions of the columns that the member has or reads in three dimensions.
    pub(super) fn stored(&self, geometry: &Geometry) -> Range<usize> {
        let rows = (0..geometry.rows()).map(|row| (geometry.skew * row, self.read(geometry, row)));
        let rows = rows.filter(|(_, cols)| !cols.is_empty());
        let rows = rows.map(|(later, cols)| later + cols.start..later + cols.end);
        rows.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
    }

    /// Returns the columns that the member has or reads in any row, as the arrays count them.
    pub(super) fn cols(&self) -> Range<usize> {
        self.columns.all(self.member)
    }

    /// Returns the columns of some array columns along the direction.
    fn along(geometry: &Geometry, columns: Range<usize>) -> Range<usize> {
        let n = geometry.dims[2];
        match geometry.direction.left {
            true => n - columns.end..n - columns.start,
            false => columns,
        }
    }

    /// Returns the member's own columns of a row, along the direction.
    pub(super) fn own(&self, geometry: &Geometry, row: usize) -> Range<usize> {
        Part::along(geometry, self.columns.own(self.member, 0, geometry.array_row(row)))
    }

    /// Returns the columns of a row that the member reads, along the direction.
    pub(super) fn read(&self, geometry: &Geometry, row: usize) -> Range<usize> {
        Part::along(geometry, self.columns.read(self.member, geometry.array_row(row)))
    }

    /// Returns the greatest number of values of each field that cross a cut in a band of the
    /// direction: forward, and back. Cut `n` is the one after the `n`-th member.
    pub(crate) fn most(&self, geometry: &Geometry, cut: usize) -> [usize; 2] {
        let count = |lines: Lines| lines.into_iter().map(|(.., cols)| cols.len()).sum::<usize>();
        let mut most = [0, 0];
        for band in 0..geometry.bands.count() {
            most[0] = most[0].max(count(self.forward(geometry, band, cut)));
            most[1] = most[1].max(count(self.back(geometry, band, cut)));
        }
        most
    }

    /// Returns what crosses a cut forward after a band.
    fn forward(&self, geometry: &Geometry, band: usize, cut: usize) -> Lines {
        let (at, g) = (self.at[cut], geometry);
        let finals = g.bands.slabs_out(band);
        let next = self.nth(cut + 1);
        let mut lines = Lines::new();
        for (slab, row, later) in g.window_rows(band) {
            let mut start = at - g.behind() - g.reach() - later;
            if finals.contains(&slab) {
                let own = Part::along(g, self.columns.own(next, 0, g.array_row(row)));
                start = start.min(own.start as isize);
            }
            lines.push((slab, row, g.clip(start..at - later)));
        }
        lines
    }

    /// Returns what crosses a cut back after a band.
    fn back(&self, geometry: &Geometry, band: usize, cut: usize) -> Lines {
        let (at, g) = (self.at[cut], geometry);
        let moved = if g.across == 0 { (g.skew * g.bands.band) as isize } else { 0 };
        let first = g.first_slab(band + 1);
        let lines = g.window_rows(band).filter(|(slab, ..)| *slab as isize >= first);
        lines
            .map(|(slab, row, later)| {
                (slab, row, g.clip(at - g.behind() - later..at + moved + g.reach() - later))
            })
            .collect()
    }
}

impl Geometry {
    /// Returns the positions by which the last level is behind the first.
    fn behind(&self) -> isize {
        ((self.bands.levels - 1) * self.lag) as isize
    }

    /// Returns the positions beside a point from which it reads.
    fn reach(&self) -> isize {
        self.lag as isize - 1
    }

    /// Returns the positions by which a cut is ahead of the first column of the member after it.
    fn ahead(&self) -> usize {
        let rows = if self.across == 0 { self.before + self.bands.band - 1 } else { 0 };
        self.behind() as usize + self.skew * rows
    }

    /// Returns the most values of a field that cross a cut in a band, in both ways, also those that
    /// the next engine reads.
    pub(crate) fn crossing_values(&self) -> u64 {
        let (behind, reach) = (self.behind() as usize, self.reach() as usize);
        let moved = if self.across == 0 { self.skew * self.bands.band } else { 0 };
        let forward = (behind + reach).max(self.ahead());
        let rows = self.slabs() * self.dims[1];
        let margins = if self.across == 0 { 2 * self.margin() * self.bands.band } else { 0 };
        (rows * (forward + behind + moved + reach) + margins) as u64
    }

    /// Returns the columns beyond its own ones that a member reads.
    pub(crate) fn margin(&self) -> usize {
        let below = if self.across == 0 { self.bands.levels * self.bands.behind } else { 0 };
        let west = self.reach() as usize + self.skew * below;
        west.max(self.ahead() + self.lag)
    }

    /// Returns the columns by which the cuts move from row to row of a plane: to the left for a
    /// positive number.
    pub(crate) fn lean(&self) -> isize {
        match (self.across, self.direction.leans_left()) {
            (0, _) => 0,
            (_, true) => self.skew as isize,
            (_, false) => -(self.skew as isize),
        }
    }

    /// Returns the first slab of the window of a band, which may be before all slabs.
    pub(super) fn first_slab(&self, band: usize) -> isize {
        let Bands { band: slabs, levels, behind, late, .. } = self.bands;
        (band * slabs) as isize - (late + levels * behind + self.before) as isize
    }

    /// Returns the rows that the window of a band has: each with its slab, and by how many
    /// positions its columns are later.
    fn window_rows(&self, band: usize) -> impl Iterator<Item = (usize, usize, isize)> {
        let first = self.first_slab(band);
        let (across, skew, rows) = (self.across, self.skew, self.dims[1]);
        let slabs = (0..self.slabs() as isize)
            .map(move |n| (n, first + n))
            .filter(|(_, slab)| (0..self.dims[0] as isize).contains(slab));
        slabs.flat_map(move |(n, slab)| {
            (0..rows).map(move |row| {
                let of_window = if across == 0 { n as usize } else { row };
                (slab as usize, row, (skew * of_window) as isize)
            })
        })
    }

    fn clip(&self, cols: Range<isize>) -> Range<usize> {
        let clip = |col: isize| col.clamp(0, self.dims[2] as isize) as usize;
        clip(cols.start)..clip(cols.end).max(clip(cols.start))
    }
}

impl Ordered<'_> {
    /// Takes what has crossed the cuts of the member into the rings, and final values of this
    /// member to their places.
    ///
    /// # Safety
    /// The conditions of [`Worker::piece`](crate::engine::Worker::piece) must hold. This is the
    /// first piece of the member in the band for values from the member before, and the last one
    /// for those from the member after.
    pub(super) unsafe fn take(&self, job: &Job<'_>, crossing: &Crossing<'_>) {
        let (Some(part), g) = (&self.part, &self.geometry) else { return };
        let nth = part.nth(part.member);
        if let (Some(values), Some(cut)) = (crossing.from_before, nth.checked_sub(1)) {
            let lines = part.forward(g, job.band, cut);
            // SAFETY: the conditions are those of this function.
            unsafe { self.unpack(&lines, values) };
            let finals = g.bands.slabs_out(job.band);
            for (slab, row, cols) in lines.iter().filter(|(slab, ..)| finals.contains(slab)) {
                let own = part.own(g, *row);
                let cols = cols.start.max(own.start)..cols.end.min(own.end);
                for (field, slabs) in job.slabs_out.iter().enumerate().take(self.rule.fields) {
                    // SAFETY: as above; the member writes the final values of its own columns.
                    unsafe { self.copy_out(field, (*slab, *row), &cols, slabs) };
                }
            }
        }
        if let (Some(values), Some(band)) = (crossing.from_after, job.band.checked_sub(1)) {
            // SAFETY: the conditions are those of this function.
            unsafe { self.unpack(&part.back(g, band, nth), values) };
        }
    }

    /// Puts what crosses the cuts of the member into the messages.
    ///
    /// # Safety
    /// The conditions of [`Worker::piece`](crate::engine::Worker::piece) must hold. The last piece
    /// of the member in the band has run for values to the member after, and the first one for
    /// those to the member before.
    pub(super) unsafe fn give(&self, job: &Job<'_>, crossing: &mut Crossing<'_>) {
        let (Some(part), g) = (&self.part, &self.geometry) else { return };
        let nth = part.nth(part.member);
        // SAFETY: the conditions are those of this function.
        unsafe {
            if let Some(values) = &mut crossing.to_after {
                self.pack(&part.forward(g, job.band, nth), values);
            }
            if let (Some(values), Some(cut)) = (&mut crossing.to_before, nth.checked_sub(1)) {
                self.pack(&part.back(g, job.band, cut), values);
            }
        }
    }

    /// # Safety
    /// No other thread accesses these lines of the rings.
    unsafe fn unpack(&self, lines: &Lines, values: &[u8]) {
        let mut rest = values;
        for field in 0..self.rule.fields {
            let bytes = self.elements[field].bytes();
            for (slab, row, cols) in lines {
                let (now, after) = rest.split_at(cols.len() * bytes);
                let from = now.as_ptr().cast_mut();
                // SAFETY: the ring has these columns, see `Geometry::margin`, and the caller
                // excludes other accesses. The message is read only.
                unsafe { self.move_columns(field, (*slab, *row), cols, from, Way::In) };
                rest = after;
            }
        }
    }

    /// # Safety
    /// No other thread writes to these lines of the rings.
    unsafe fn pack(&self, lines: &Lines, values: &mut [u8]) {
        let mut at = 0;
        for field in 0..self.rule.fields {
            let bytes = self.elements[field].bytes();
            for (slab, row, cols) in lines {
                let now = &mut values[at..at + cols.len() * bytes];
                // SAFETY: as in `unpack`.
                unsafe {
                    self.move_columns(field, (*slab, *row), cols, now.as_mut_ptr(), Way::Out);
                }
                at += now.len();
            }
        }
    }
}
