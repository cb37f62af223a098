//! The updates of the points of a level.
//!
//! Points whose reads lead beyond an edge are updated one by one, with addresses of their own; the
//! others of a position, between them, are one run of the program.

use std::ops::Range;

use syncline_kernel::rule::{Beyond, Edge, change, greater};

use super::window::Window;
use super::{Job, Ordered, Placed, Reach, Source, Worker};

/// The rows of the window of a band that a level updates.
struct Rows {
    /// The first position of the windows.
    base: isize,
    /// The slab of row 0, and the plane of three dimensions.
    first: isize,
    plane: usize,
    updated: Range<isize>,
    /// The rows whose points read nothing beyond an edge, but perhaps of the columns.
    inner: Range<isize>,
}

impl Ordered<'_> {
    /// Updates the points of a level at some positions, one position after the other, until the
    /// sweep is cancelled.
    ///
    /// # Safety
    /// The conditions of [`sweep`](Self::sweep) must hold; the windows, which begin at `base`, have
    /// the positions and all that their points read, and all updates before them have been made.
    pub(super) unsafe fn update(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        level: usize,
        positions: Range<isize>,
        base: isize,
        mut norm: Option<&mut f64>,
    ) {
        let rows = self.rows(job.band, level, base);
        if rows.updated.is_empty() {
            return;
        }
        let windows = &worker.windows;
        let origin = |source: usize, distance| windows[source].origin(base, distance);
        worker.origins.clear();
        worker.origins.extend(
            self.reads.iter().zip(&worker.distances).map(|(read, by)| origin(read.source, *by)),
        );
        worker.places.clear();
        worker.places.extend((0..self.rule.fields).map(|field| origin(field, 0)));
        for position in positions {
            if job.monitor.is_cancelled() {
                return;
            }
            // SAFETY: the conditions are those of this function.
            unsafe { self.position(worker, &rows, position, norm.as_deref_mut()) };
        }
    }

    /// Returns the rows of a level in a band.
    fn rows(&self, band: usize, level: usize, base: isize) -> Rows {
        let g = &self.geometry;
        let first = g.first_row(band);
        let slabs = g.bands.slabs_at(band, level);
        let [of_slabs, of_rows, _] = &self.updated;
        let updated = match g.across {
            0 => {
                let start = slabs.start.max(of_slabs.start);
                start as isize - first..slabs.end.min(of_slabs.end) as isize - first
            }
            _ if of_slabs.contains(&slabs.start) && !slabs.is_empty() => {
                of_rows.start as isize..of_rows.end as isize
            }
            _ => 0..0,
        };
        let (mut inner, edges) = (updated.clone(), &self.rule.edges);
        if edges[g.across] != Edge::Fixed {
            let (len, Reach { up, down, .. }) = (g.dims[g.across] as isize, self.reach);
            inner = inner.start.max(up - first)..inner.end.min(len - down - first);
        }
        if g.across == 1 && edges[0] != Edge::Fixed {
            let slab = slabs.start as isize;
            let mut reads = self.reads.iter().map(|read| slab + isize::from(read.offset[0]));
            if reads.any(|slab| !(0..g.dims[0] as isize).contains(&slab)) {
                inner = 0..0;
            }
        }
        Rows { base, first, plane: slabs.start, updated, inner }
    }

    /// Updates the points of some rows at one position.
    ///
    /// # Safety
    /// The conditions of [`update`](Self::update) must hold.
    unsafe fn position(
        &self,
        worker: &mut Worker<'_>,
        rows: &Rows,
        position: isize,
        mut norm: Option<&mut f64>,
    ) {
        let g = &self.geometry;
        // The first row whose column at this position is before `col`.
        let before = |col: isize| match g.skew {
            1 => position - col + 1,
            skew => (position - col).div_euclid(skew as isize) + 1,
        };
        let within = |rows: &Range<isize>, cols: Range<isize>| {
            rows.start.max(before(cols.end))..rows.end.min(before(cols.start))
        };
        let cols = &self.updated[2];
        let all = within(&rows.updated, cols.start as isize..cols.end as isize);
        if all.is_empty() {
            return;
        }
        let mut inner = within(&rows.inner, cols.start as isize..cols.end as isize);
        if self.rule.edges[2] != Edge::Fixed {
            inner = within(&inner, self.reach.west..g.dims[2] as isize - self.reach.east);
        }
        if inner.is_empty() {
            inner = all.end..all.end;
        }
        // SAFETY: the conditions are those of this function.
        unsafe {
            for row in (all.start..inner.start).chain(inner.end..all.end) {
                let norm = norm.as_deref_mut();
                self.edge_point(worker, rows, position, row, norm);
            }
            if !inner.is_empty() {
                self.run(worker, position, inner, norm);
            }
        }
    }

    /// Updates the points of some rows at one position, which read nothing beyond an edge.
    ///
    /// # Safety
    /// The conditions of [`update`](Self::update) must hold.
    #[inline(always)]
    unsafe fn run(
        &self,
        worker: &mut Worker<'_>,
        position: isize,
        rows: Range<isize>,
        norm: Option<&mut f64>,
    ) {
        for (read, origin) in worker.reads.iter_mut().zip(&worker.origins) {
            *read = origin.at(position, rows.start).cast_const();
        }
        for (output, origin) in worker.outputs.iter_mut().zip(&worker.places) {
            *output = origin.at(position, rows.start);
        }
        // SAFETY: the conditions are those of this function.
        unsafe { self.compute(worker, (rows.end - rows.start) as usize, norm) };
    }

    /// Updates a point that reads beyond an edge.
    ///
    /// # Safety
    /// The conditions of [`update`](Self::update) must hold.
    unsafe fn edge_point(
        &self,
        worker: &mut Worker<'_>,
        rows: &Rows,
        position: isize,
        row: isize,
        norm: Option<&mut f64>,
    ) {
        let here = (position - rows.base) as usize;
        let point = |window: &Window| window.at(here, row as usize);
        for (n, &Placed { source, offset }) in self.reads.iter().enumerate() {
            let [slab, down, right] = match self.led(rows, position, row, offset) {
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
            let window = &worker.windows[known.unwrap_or(source)];
            let distance = window.distance(self.geometry.skew, down, right);
            worker.reads[n] = point(window).wrapping_offset(distance).cast_const();
        }
        for (output, window) in worker.outputs.iter_mut().zip(&worker.windows) {
            *output = point(window);
        }
        // SAFETY: the conditions are those of this function.
        unsafe { self.compute(worker, 1, norm) };
    }

    /// Computes the new values of some points, whose addresses are in the worker.
    ///
    /// # Safety
    /// The conditions of [`update`](Self::update) must hold.
    #[inline(always)]
    unsafe fn compute(&self, worker: &mut Worker<'_>, count: usize, norm: Option<&mut f64>) {
        if norm.is_some() {
            worker.before.clear();
            for (output, element) in worker.outputs.iter().zip(&self.elements) {
                let bytes = count * element.bytes();
                // SAFETY: the window has the points, and this thread has it for itself.
                let old = unsafe { std::slice::from_raw_parts(*output, bytes) };
                worker.before.extend_from_slice(old);
            }
        }
        // SAFETY: the windows have all values that the points read, and this thread has them for
        // itself; the program is one for outputs in place.
        unsafe { worker.machine.run(&worker.reads, &worker.outputs, count) };
        if let Some(norm) = norm {
            let mut old = worker.before.as_ptr();
            for (&new, &element) in worker.outputs.iter().zip(&self.elements) {
                // SAFETY: both have a value for each of the points.
                let change = unsafe { change(element, old, new, count) };
                *norm = greater(*norm, change);
                old = old.wrapping_add(count * element.bytes());
            }
        }
    }

    /// Returns the distance in planes, rows and columns to the element to which a read leads, or
    /// the axis beyond which it sees a number.
    fn led(
        &self,
        rows: &Rows,
        position: isize,
        row: isize,
        offset: [i8; 3],
    ) -> std::result::Result<[isize; 3], usize> {
        let g = &self.geometry;
        let col = position - g.skew as isize * row;
        let point = match g.across {
            0 => [rows.first + row, 0, col],
            _ => [rows.plane as isize, row, col],
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
