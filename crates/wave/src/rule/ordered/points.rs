//! The updates of the points at one position of a window.
//!
//! Points whose reads lead beyond an edge are updated one by one, with addresses of their own; the
//! others between them are one run of the program.

use std::ops::Range;

use super::{Job, Ordered, Placed, Reach, Source, Worker};
use crate::rule::{Beyond, Edge, change, greater};

impl Ordered<'_> {
    /// Updates the points of a level at one position.
    ///
    /// # Safety
    /// The conditions of [`sweep`](Self::sweep) must hold; the windows, which begin at `base`, have
    /// the position and all that its points read, and all updates before it have been made.
    pub(super) unsafe fn position(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        level: usize,
        position: isize,
        base: isize,
        mut norm: Option<&mut f64>,
    ) {
        let g = &self.geometry;
        let skew = g.skew as isize;
        // The rows of the window that the level updates.
        let first = g.first_row(job.band);
        let slabs = g.bands.slabs_at(job.band, level);
        let updated = &self.updated;
        let own = match g.across {
            0 => {
                let start = slabs.start.max(updated[0].start);
                start as isize - first..slabs.end.min(updated[0].end) as isize - first
            }
            _ if updated[0].contains(&slabs.start) && !slabs.is_empty() => {
                updated[1].start as isize..updated[1].end as isize
            }
            _ => 0..0,
        };
        // Column `position - skew * row` is among those that are updated.
        let (left, right) = (updated[2].start as isize, updated[2].end as isize);
        let least = own.start.max((position - right).div_euclid(skew) + 1);
        let end = own.end.min((position - left).div_euclid(skew) + 1);
        if least >= end {
            return;
        }
        // The rows whose points read nothing beyond an edge.
        let (mut inner, edges) = (least..end, &self.rule.edges);
        let len = g.dims[g.across] as isize;
        let Reach { up, down, west, east } = self.reach;
        if edges[g.across] != Edge::Fixed {
            inner = inner.start.max(up - first)..inner.end.min(len - down - first);
        }
        if edges[2] != Edge::Fixed {
            let n = g.dims[2] as isize;
            inner = inner.start.max((position - (n - east)).div_euclid(skew) + 1)
                ..inner.end.min((position - west).div_euclid(skew) + 1);
        }
        if g.across == 1 && edges[0] != Edge::Fixed {
            let slab = slabs.start as isize;
            let slab_reads = self.reads.iter().map(|read| slab + isize::from(read.offset[0]));
            if slab_reads.into_iter().any(|slab| !(0..g.dims[0] as isize).contains(&slab)) {
                inner = end..end;
            }
        }
        let inner = if inner.is_empty() { end..end } else { inner };
        // SAFETY: the conditions are those of this function.
        unsafe {
            for row in (least..inner.start).chain(inner.end..end) {
                let rows = row..row + 1;
                self.points(
                    worker,
                    slabs.start,
                    first,
                    position,
                    base,
                    rows,
                    true,
                    norm.as_deref_mut(),
                );
            }
            if !inner.is_empty() {
                self.points(worker, slabs.start, first, position, base, inner, false, norm);
            }
        }
    }

    /// Updates the points of some rows at one position: points that read nothing beyond an edge,
    /// or one point.
    ///
    /// # Safety
    /// The conditions of [`position`](Self::position) must hold.
    #[expect(clippy::too_many_arguments, reason = "a part of `position`")]
    unsafe fn points(
        &self,
        worker: &mut Worker<'_>,
        plane: usize,
        first: isize,
        position: isize,
        base: isize,
        rows: Range<isize>,
        at_edge: bool,
        norm: Option<&mut f64>,
    ) {
        let g = &self.geometry;
        let skew = g.skew as isize;
        let count = (rows.end - rows.start) as usize;
        let here = (position - base) as usize;
        for (n, &Placed { source, offset }) in self.reads.iter().enumerate() {
            let mut from = source;
            let mut distance = worker.distances[n];
            if at_edge {
                let [slab, row, col] = match self.led(plane, first, position, rows.start, offset) {
                    Ok(led) => led,
                    Err(axis) => {
                        if let Some(numbers) = &self.beyond[n][axis] {
                            worker.reads[n] = numbers.as_ptr();
                        }
                        continue;
                    }
                };
                let wanted = Source { array: self.sources[source].array, plane: slab };
                let known = self.sources.iter().position(|source| *source == wanted);
                from = known.unwrap_or(source);
                let window = &worker.windows[from];
                let positions = (col + skew * row) * window.pitch as isize;
                distance = (positions + row) * window.bytes as isize;
            }
            let point = worker.windows[from].at(here, rows.start as usize);
            worker.reads[n] = point.wrapping_offset(distance).cast_const();
        }
        for field in 0..self.rule.fields {
            worker.outputs[field] = worker.windows[field].at(here, rows.start as usize);
        }
        if norm.is_some() {
            worker.before.clear();
            for field in 0..self.rule.fields {
                let bytes = count * self.elements[field].bytes();
                // SAFETY: the window has the points, and this thread has it for itself.
                let old = unsafe { std::slice::from_raw_parts(worker.outputs[field], bytes) };
                worker.before.extend_from_slice(old);
            }
        }
        // SAFETY: the windows have all values that the points read, and this thread has them for
        // itself; the program is one for outputs in place.
        unsafe { worker.machine.run(&worker.reads, &worker.outputs, count) };
        if let Some(norm) = norm {
            let mut old = worker.before.as_ptr();
            for field in 0..self.rule.fields {
                let element = self.elements[field];
                let (stays, new) = (self.rule.nan_stays, worker.outputs[field]);
                // SAFETY: both have a value for each of the points.
                let change = unsafe { change(element, stays, old, new, count) };
                *norm = greater(*norm, change);
                old = old.wrapping_add(count * element.bytes());
            }
        }
    }

    /// Returns the distance in planes, rows and columns to the element to which a read leads, or
    /// the axis beyond which it sees a number.
    fn led(
        &self,
        plane: usize,
        first: isize,
        position: isize,
        row: isize,
        offset: [i8; 3],
    ) -> std::result::Result<[isize; 3], usize> {
        let g = &self.geometry;
        let col = position - g.skew as isize * row;
        let point = match g.across {
            0 => [first + row, 0, col],
            _ => [plane as isize, row, col],
        };
        let mut led = [0; 3];
        for axis in 0..3 {
            let at = point[axis] + isize::from(offset[axis]);
            match self.rule.edges[axis].at(at, g.dims[axis]) {
                Some(Beyond::At(at)) => led[axis] = at as isize - point[axis],
                Some(Beyond::Number(_)) => return Err(axis),
                None => unreachable!("a point reads beyond a fixed edge"),
            }
        }
        Ok(if g.across == 0 { [0, led[0], led[2]] } else { led })
    }
}
