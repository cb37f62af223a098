//! Values on their way between the rings, the windows and their final places.

use std::ops::Range;

use super::window::{Line, Way, Window};
use super::{Job, Ordered, Worker};

impl Ordered<'_> {
    /// Moves the positions from `keep` to `filled` to the start of the windows, which begin at
    /// `base`.
    ///
    /// # Safety
    /// The windows must have the positions, and be accessed by this thread only.
    pub(super) unsafe fn shift(
        &self,
        worker: &mut Worker<'_>,
        base: isize,
        keep: isize,
        filled: isize,
    ) {
        if keep == base || filled <= keep {
            return;
        }
        let (from, count) = ((keep - base) as usize, (filled - keep) as usize);
        for window in &mut worker.windows {
            let (source, to) = (window.at(from, 0), window.at(0, 0));
            // SAFETY: the caller guarantees that the window has the positions.
            unsafe { source.cast_const().copy_to(to, count * window.pitch * window.bytes) };
        }
    }

    /// Fills positions of the windows from the rings.
    ///
    /// # Safety
    /// The conditions of [`sweep`](Self::sweep) must hold, and the windows, which begin at `base`,
    /// have the positions.
    pub(super) unsafe fn gather(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        base: isize,
        positions: Range<isize>,
    ) {
        let g = &self.geometry;
        for (source, window) in self.sources.iter().zip(&worker.windows) {
            let place = |row: usize| {
                let slab = self.slab_of(job.band, row)?;
                Some((self.line(source.array, slab), 0..g.dims[2]))
            };
            // SAFETY: the lines have all columns; no other thread writes those that are read, as
            // the caller guarantees.
            unsafe { self.move_lines(window, place, base, &positions, Way::In) };
        }
    }

    /// Puts positions of the fields' windows back into the rings, and, if they are `last`, final
    /// values to their places. Of those the rings get what the next band reads; all rows of a part,
    /// from which other members take final values.
    ///
    /// # Safety
    /// The conditions of [`sweep`](Self::sweep) must hold, and the windows, which begin at `base`,
    /// have the positions.
    pub(super) unsafe fn scatter(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        base: isize,
        positions: Range<isize>,
        last: bool,
    ) {
        let g = &self.geometry;
        let finals = g.bands.slabs_out(job.band);
        let mut first = finals.start;
        if last && self.part.is_none() {
            first = first.max(g.first_slab(job.band + 1).max(0) as usize);
        }
        for field in 0..self.rule.fields {
            let window = &worker.windows[field];
            let place = |row: usize| {
                let slab = self.slab_of(job.band, row)?;
                // Rows above are final, and belong to bands before.
                (slab >= first).then(|| (self.line(field, slab), 0..g.dims[2]))
            };
            // SAFETY: the lines have all columns, and no other thread accesses those of these
            // positions, as the caller guarantees.
            unsafe { self.move_lines(window, place, base, &positions, Way::Out) };
            if !last {
                continue;
            }
            let slabs = &job.slabs_out[field];
            let place = |row: usize| {
                let slab = self.slab_of(job.band, row)?;
                let line = || self.row_of(slabs, slab, 0);
                finals.contains(&slab).then(|| (line(), self.own(0)))
            };
            // SAFETY: the caller guarantees that the final slabs are writable.
            unsafe { self.move_lines(window, place, base, &positions, Way::Out) };
        }
    }

    /// Moves positions between a window, which begins at `base`, and lines. `place` returns the
    /// line of a row and the columns that are moved, along the direction, if it takes part.
    ///
    /// # Safety
    /// The window has the positions; the lines must be valid for the accesses in these columns.
    pub(super) unsafe fn move_lines(
        &self,
        window: &Window,
        place: impl Fn(usize) -> Option<(*mut u8, Range<usize>)>,
        base: isize,
        positions: &Range<isize>,
        way: Way,
    ) {
        let g = &self.geometry;
        let (cols, left) = (g.dims[2], g.direction.left);
        let line = |(start, copied)| Line { start, cols, left, copied };
        // The rows that take part follow one another.
        let Some(first) = (0..g.rows()).find(|row| place(*row).is_some()) else { return };
        let lines: Vec<Line> = (first..g.rows()).map_while(&place).map(line).collect();
        // SAFETY: the conditions are those of this function; the lanes are available.
        unsafe {
            window.copy_all(self.lanes, &lines, (first, g.skew), base, positions, way);
        }
    }
}
