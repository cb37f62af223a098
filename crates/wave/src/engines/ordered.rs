//! Ordered rules: iterations in the order of the plain loop, with points along diagonals side by
//! side.
//!
//! # Contract
//! [`piece`](engine::Worker::piece) runs the iterations (*levels*) of a pass over one band of
//! slabs, within a range of positions. All levels have one direction. Rows and columns are counted
//! along it, so that every sweep goes down and to the right here.
//!
//! # The window
//! The values are in rings of rows, in place. A piece moves a *window* of some rows along them. The
//! window holds, at position `g`, the values of row `i` and column `g - skew * i`, side by side:
//! the points of one position do not depend on one another, so a program updates them as one run.
//!
//! ```text
//!            columns                         position 6, skew 1
//! row 0   .  .  .  .  .  .  6               north of a point is at position 5, south at 7,
//! row 1   .  .  .  .  .  6  7               west at 5 and east at 7: at constant distances
//! row 2   .  .  .  .  6  7  .               in memory
//! row 3   .  .  .  6  7  .  .
//! ```
//!
//! The skew is the least number for which every value that a point reads is updated before it or
//! after it, at another position, as in the plain loop. The next level follows `lag` positions
//! behind in the same rows less the reach downward.
//!
//! In two dimensions the window has the rows of a band, and of all levels. A level updates some
//! positions before the next level does. In three dimensions the rings store whole planes in this
//! way, and a level works on them where they are.
//!
//! # Pieces
//! The piece of a band needs the next piece of the band before ([`Geometry::least_piece`] says how
//! long pieces are). In two dimensions it puts what later pieces read of the window back into the
//! rings.
//!
//! # Costs
//! Per value and pass a transposition into the window and out of it; in two dimensions at the start
//! of a piece `levels * lag` positions more. Per value and level the loads and stores
//! of the program. In two dimensions nearly all of them are in the first-level cache, and a plan
//! prefers windows that fit into the second one.
//!
//! # Source
//! L. Lamport, "The parallel execution of DO loops", CACM 1974; time skewing: D. Wonnacott, IJPP
//! 2002.

mod cut;
mod geometry;
mod moves;
mod points;
mod window;

use std::ops::Range;
use std::time::{Duration, Instant};

use syncline_kernel::rule::Read;
use syncline_kernel::rule::program::{CHUNK, Machine, Program, fill};
use syncline_kernel::rule::{Edge, Rule};
use syncline_store::ElementType;
use syncline_store::direct_io::IoBuffer;

pub(crate) use self::cut::Part;
use self::geometry::STEP;
pub(crate) use self::geometry::{Geometry, chain};
use self::window::{Line, Origin, Way, Window};
use crate::Result;
use crate::engine::{self, Bands, Crossing, Engine, Job, Ring, Slabs};
use crate::lanes::Lanes;

/// The positions that a level updates before the next level, which finds them in the first-level
/// cache.
const TOGETHER: usize = 8;
/// All positions.
const EVERYWHERE: Range<isize> = isize::MIN / 2..isize::MAX / 2;

/// An array in a window: a field or a coefficient, and the plane from which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    array: usize,
    /// The distance of its plane, in three dimensions.
    plane: isize,
}

/// A read of the rule, along the direction.
#[derive(Clone, Copy, Debug)]
struct Placed {
    source: usize,
    /// The distance in slabs, rows and columns.
    offset: [i8; 3],
}

/// The rings of a pass, and the program of its levels.
pub(crate) struct Ordered<'r> {
    rule: &'r Rule,
    pub(crate) geometry: Geometry,
    program: Program,
    elements: Vec<ElementType>,
    /// The part of a member of a team.
    part: Option<Part>,
    rings: Vec<Option<Ring>>,
    /// The columns that the rings have, or in three dimensions the positions.
    cols: Range<usize>,
    /// The arrays that are whole in memory, where they have no ring.
    whole: Vec<Option<Slabs>>,
    sources: Vec<Source>,
    reads: Vec<Placed>,
    /// For each read the numbers that it sees beyond the edges of the axes.
    beyond: Vec<[Option<IoBuffer>; 3]>,
    /// The points that are updated, along the direction.
    updated: [Range<usize>; 3],
    reach: Reach,
    lanes: Lanes,
}

/// How far the rule reads within a window, along the direction.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    up: isize,
    down: isize,
    west: isize,
    east: isize,
}

/// What one thread needs to run pieces.
struct Worker<'p> {
    engine: &'p Ordered<'p>,
    machine: Machine<'p>,
    windows: Vec<Window>,
    /// The distance in bytes of each read from the point, in its window.
    distances: Vec<isize>,
    /// The reads and the outputs of a level, and of a run of points.
    origins: Vec<Origin>,
    places: Vec<Origin>,
    reads: Vec<*const u8>,
    outputs: Vec<*mut u8>,
    before: Vec<u8>,
}

// SAFETY: the addresses are set before each use, by the thread that uses them.
unsafe impl Send for Worker<'_> {}

impl Engine for Ordered<'_> {
    fn bands(&self) -> &Bands {
        &self.geometry.bands
    }

    fn walk(&self) -> Range<isize> {
        self.geometry.walk()
    }

    fn ahead(&self) -> usize {
        1
    }

    fn nth(&self, member: usize) -> usize {
        self.part.as_ref().map_or(member, |part| part.nth(member))
    }

    fn pieces(&self, member: usize, piece: usize) -> Vec<(isize, isize)> {
        let own = self.part.as_ref().map(|part| part.positions(member));
        engine::pieces(self.walk(), own, piece)
    }

    fn crossing_bytes(&self, cut: usize) -> [usize; 2] {
        let bytes: usize = self.elements[..self.rule.fields].iter().map(|e| e.bytes()).sum();
        let values = self.part.as_ref().map(|part| part.most(&self.geometry, cut));
        values.unwrap_or_default().map(|values| values * bytes)
    }

    fn worker(&self) -> Result<Box<dyn engine::Worker + '_>> {
        let g = &self.geometry;
        let windows = self
            .sources
            .iter()
            .map(|source| {
                let bytes = self.elements[source.array].bytes();
                match g.across {
                    0 => Window::new(self.positions(), g.rows(), bytes),
                    _ => Ok(self.plane(source.array, 0)),
                }
            })
            .collect::<Result<Vec<Window>>>()?;
        let distance = |read: &Placed| {
            let window = &windows[read.source];
            let (row, col) = (isize::from(read.offset[g.across]), isize::from(read.offset[2]));
            window.distance(g.skew, row, col)
        };
        Ok(Box::new(Worker {
            engine: self,
            machine: Machine::new(&self.program)?,
            distances: self.reads.iter().map(distance).collect(),
            windows,
            origins: Vec::new(),
            places: Vec::new(),
            reads: vec![std::ptr::null(); self.reads.len()],
            outputs: vec![std::ptr::null_mut(); self.rule.fields],
            before: Vec::new(),
        }))
    }
}

impl engine::Worker for Worker<'_> {
    unsafe fn piece(
        &mut self,
        job: &Job<'_>,
        crossing: &mut Crossing<'_>,
        mut norms: Option<&mut [f64]>,
    ) -> Duration {
        let (engine, begun) = (self.engine, Instant::now());
        let g = &engine.geometry;
        // SAFETY: the conditions are those of this function.
        unsafe {
            engine.bring_in(job);
            engine.take(job, crossing);
        }
        let packed = begun.elapsed();
        // SAFETY: as before, and the values have come in.
        unsafe {
            if g.across == 0 {
                engine.sweep(self, job, norms);
            } else {
                for level in 0..g.bands.levels {
                    let norm = norms.as_mut().map(|norms| &mut norms[level]);
                    engine.level(self, job, level, norm);
                }
            }
        }
        let begun = Instant::now();
        // SAFETY: as before, and all levels have been run.
        unsafe {
            if job.range.1 >= engine.ends().1 {
                engine.pass_on(job);
            }
            engine.give(job, crossing);
        }
        packed + begun.elapsed()
    }
}

impl<'r> Ordered<'r> {
    /// Allocates the rings. `whole` has the coefficients that are in memory, by their index; they
    /// must stay there while the pass runs.
    pub(crate) fn new(
        rule: &'r Rule,
        geometry: Geometry,
        elements: Vec<ElementType>,
        real: ElementType,
        lanes: Lanes,
        whole: &[Option<Slabs>],
        part: Option<Part>,
    ) -> Result<Self> {
        let program = Program::new(rule, real, lanes, true);
        let g = &geometry;
        let mut cols = part.as_ref().map_or(0..g.dims[2], Part::cols);
        if g.across == 1 {
            cols = part.as_ref().map_or(0..g.all_positions(), |part| part.stored(g));
        }
        let slab = |bytes: usize| match g.across {
            0 => cols.len() * bytes,
            _ => cols.len() * Window::pitch(g.rows(), bytes),
        };
        let whole: Vec<_> =
            vec![None; rule.fields].into_iter().chain(whole.iter().copied()).collect();
        let rings = elements
            .iter()
            .zip(&whole)
            .map(|(element, whole)| match whole {
                Some(_) if g.across == 0 => Ok(None),
                _ => Ring::new(g.slots(), slab(element.bytes())).map(Some),
            })
            .collect::<Result<_>>()?;
        let mut sources = Vec::new();
        let mut source = |array: usize, plane: i8| {
            let plane = if g.across == 1 { plane.into() } else { 0 };
            let wanted = Source { array, plane };
            sources.iter().position(|known| *known == wanted).unwrap_or_else(|| {
                sources.push(wanted);
                sources.len() - 1
            })
        };
        // The fields at the point are the first sources, as they are also written.
        for field in 0..rule.fields {
            source(field, 0);
        }
        let mut reads = Vec::new();
        for Read { array, offset, .. } in program.reads() {
            let offset = g.direction.along(offset);
            // A read beyond the edge of a plane leads to another plane.
            if g.across == 1 && matches!(rule.edges[0], Edge::Clamped | Edge::Reflected) {
                let most = offset[0].abs();
                for plane in -most..=most {
                    source(array as usize, plane);
                }
            }
            reads.push(Placed { source: source(array as usize, offset[0]), offset });
        }
        let beyond = program
            .reads()
            .map(|read| {
                let mut numbers = [None, None, None];
                for (axis, numbers) in numbers.iter_mut().enumerate() {
                    if let Edge::Value(value) = rule.edges[axis]
                        && read.offset[axis] != 0
                    {
                        let mut buffer = IoBuffer::new(CHUNK * 8)?;
                        fill(buffer.as_mut_slice(), value, elements[read.array as usize]);
                        *numbers = Some(buffer);
                    }
                }
                Ok(numbers)
            })
            .collect::<Result<_>>()?;
        let mut reach = Reach::default();
        for Placed { offset, .. } in &reads {
            let (row, col) = (isize::from(offset[g.across]), isize::from(offset[2]));
            (reach.up, reach.down) = (reach.up.max(-row), reach.down.max(row));
            (reach.west, reach.east) = (reach.west.max(-col), reach.east.max(col));
        }
        let mut updated = rule.updated(g.dims);
        for (axis, reversed) in g.direction.reversed().into_iter().enumerate() {
            if reversed {
                let (n, range) = (g.dims[axis], updated[axis].clone());
                updated[axis] = n - range.end..n - range.start;
            }
        }
        Ok(Ordered {
            rule,
            geometry,
            program,
            elements,
            part,
            rings,
            cols,
            whole,
            sources,
            reads,
            beyond,
            updated,
            reach,
            lanes,
        })
    }

    /// Returns the number of positions of a window of two dimensions.
    fn positions(&self) -> usize {
        let g = &self.geometry;
        STEP + (g.bands.levels - 1) * g.lag + 2 * (g.lag - 1)
    }

    /// Copies the coefficients of the final slabs, for an engine that continues.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold, and this is the last piece of the
    /// band.
    unsafe fn pass_on(&self, job: &Job<'_>) {
        let g = &self.geometry;
        for (array, slabs) in job.slabs_out.iter().enumerate().skip(self.rule.fields) {
            // The next engine reads those in memory where they are.
            if self.whole[array].is_some() {
                continue;
            }
            for slab in g.bands.slabs_out(job.band) {
                for row in 0..g.dims[1] {
                    let cols = self.read(row);
                    // SAFETY: the slab has come in, as all levels have computed with it; the caller
                    // guarantees that the final one is writable.
                    unsafe { self.copy_out(array, (slab, row), &cols, slabs) };
                }
            }
        }
    }

    /// Returns the address of the first column of a row, as the array counts columns, in slabs that
    /// an array has in its order.
    fn row_of(&self, slabs: &Slabs, slab: usize, row: usize) -> *mut u8 {
        let g = &self.geometry;
        slabs.row(g.array_slab(slab), (g.array_row(row), g.dims[1]))
    }

    /// Returns the address of the first column of a slab of two dimensions, as the array counts
    /// columns. A ring of a part need not have that column.
    fn line(&self, array: usize, slab: usize) -> *mut u8 {
        let bytes = self.elements[array].bytes();
        match (&self.rings[array], &self.whole[array]) {
            (Some(ring), _) => ring.slab(slab as isize).wrapping_sub(self.cols.start * bytes),
            (None, Some(slabs)) => self.row_of(slabs, slab, 0),
            (None, None) => unreachable!("an array without a ring is whole in memory"),
        }
    }

    /// Returns a plane of three dimensions. Its first position is the first one of the ring.
    fn plane(&self, array: usize, slab: usize) -> Window {
        let Some(ring) = &self.rings[array] else { unreachable!("planes are in rings") };
        Window::at_place(
            ring.slab(slab as isize),
            self.geometry.rows(),
            self.elements[array].bytes(),
        )
    }

    /// Returns the address of the first of some columns along the direction, in the order of
    /// memory.
    fn first_of(&self, line: *mut u8, cols: &Range<usize>, bytes: usize) -> *mut u8 {
        let g = &self.geometry;
        let first = if g.direction.left { g.dims[2] - cols.end } else { cols.start };
        line.wrapping_add(first * bytes)
    }

    /// Copies columns along the direction between the ring of an array and other memory, in which
    /// they follow one another in the order of the array.
    ///
    /// # Safety
    /// The other memory must be valid for the accesses, and no other thread accesses it or these
    /// columns of the ring in a way that conflicts.
    unsafe fn move_columns(
        &self,
        array: usize,
        (slab, row): (usize, usize),
        cols: &Range<usize>,
        outside: *mut u8,
        way: Way,
    ) {
        let (g, bytes) = (&self.geometry, self.elements[array].bytes());
        if g.across == 1 {
            let left = g.direction.left;
            let before = if left { g.dims[2] - cols.end } else { cols.start };
            let start = outside.wrapping_sub(before * bytes);
            let line = Line { start, cols: g.dims[2], left, copied: cols.clone() };
            let (first, of) = (self.cols.start as isize, (row, g.skew));
            // SAFETY: the conditions are those of this function, see `Geometry::margin`.
            return unsafe { self.plane(array, slab).copy(&line, of, first, &EVERYWHERE, way) };
        }
        let inside = self.first_of(self.line(array, slab), cols, bytes);
        let (from, to) = if way == Way::In { (outside, inside) } else { (inside, outside) };
        // SAFETY: as before; a ring is no other memory.
        unsafe { from.cast_const().copy_to_nonoverlapping(to, cols.len() * bytes) };
    }

    /// Copies columns along the direction from the ring to their final place.
    ///
    /// # Safety
    /// The final place is writable, and no other thread accesses it or writes to the line.
    unsafe fn copy_out(
        &self,
        array: usize,
        (slab, row): (usize, usize),
        cols: &Range<usize>,
        slabs: &Slabs,
    ) {
        let to = self.row_of(slabs, slab, row);
        let to = self.first_of(to, cols, self.elements[array].bytes());
        if !cols.is_empty() {
            // SAFETY: the conditions are those of this function.
            unsafe { self.move_columns(array, (slab, row), cols, to, Way::Out) };
        }
    }

    /// Returns the columns of a row that come in, along the direction.
    fn read(&self, row: usize) -> Range<usize> {
        self.part.as_ref().map_or(0..self.geometry.dims[2], |p| p.read(&self.geometry, row))
    }

    /// Returns the columns of a row whose final values are wanted, along the direction.
    fn own(&self, row: usize) -> Range<usize> {
        self.part.as_ref().map_or(0..self.geometry.dims[2], |p| p.own(&self.geometry, row))
    }

    /// Returns the positions at which the first piece of a band begins, and the last one ends.
    fn ends(&self) -> (isize, isize) {
        let walk = self.geometry.walk();
        let (start, end) = self.part.as_ref().map_or((walk.start, walk.end), Part::own_positions);
        (start.max(walk.start), end.min(walk.end))
    }

    /// Copies what comes in, in the columns that this piece is the first to read.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold.
    unsafe fn bring_in(&self, job: &Job<'_>) {
        let g = &self.geometry;
        let (first, last) = self.ends();
        let ahead = |position: isize| position.saturating_add(g.lag as isize);
        let from = if job.range.0 <= first { EVERYWHERE.start } else { ahead(job.range.0) };
        let to = if job.range.1 >= last { EVERYWHERE.end } else { ahead(job.range.1) };
        for (array, slabs) in job.slabs_in.iter().enumerate() {
            if self.rings[array].is_none() {
                continue;
            }
            for slab in g.bands.slabs_in(job.band) {
                let source = |row: usize| self.row_of(slabs, slab, row);
                if g.across == 1 {
                    let place = |row: usize| Some((source(row), self.read(row)));
                    let (plane, first) = (self.plane(array, slab), self.cols.start as isize);
                    // SAFETY: the caller guarantees that the rows are readable, and that no other
                    // thread accesses these positions of the ring.
                    unsafe { self.move_lines(&plane, place, first, &(from..to), Way::In) };
                    continue;
                }
                let read = self.read(0);
                let clip = |col: isize| col.clamp(read.start as isize, read.end as isize) as usize;
                let cols = clip(from)..clip(to);
                let from = self.first_of(source(0), &cols, self.elements[array].bytes());
                // SAFETY: the caller guarantees that the row is readable, and that no other thread
                // accesses this part of the ring.
                unsafe { self.move_columns(array, (slab, 0), &cols, from, Way::In) };
            }
        }
    }

    /// Returns the slab of a row of the window of two dimensions, if it exists.
    fn slab_of(&self, band: usize, row: usize) -> Option<usize> {
        let slab = self.geometry.first_slab(band) + row as isize;
        (0..self.geometry.dims[0] as isize).contains(&slab).then_some(slab as usize)
    }

    /// Runs a level of a piece over the planes of three dimensions.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold, what comes in was brought in, and all
    /// levels before have been run.
    unsafe fn level(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        level: usize,
        norm: Option<&mut f64>,
    ) {
        let g = &self.geometry;
        let clip = |position: isize| {
            (position - (level * g.lag) as isize).clamp(0, g.all_positions() as isize)
        };
        let (start, stop) = (clip(job.range.0), clip(job.range.1));
        let slabs = g.bands.slabs_at(job.band, level);
        if start >= stop || slabs.is_empty() {
            return;
        }
        for (source, window) in self.sources.iter().zip(&mut worker.windows) {
            let slab = slabs.start as isize + source.plane;
            if (0..g.dims[0] as isize).contains(&slab) {
                *window = self.plane(source.array, slab as usize);
            }
        }
        let base = self.cols.start as isize;
        // SAFETY: the conditions are those of this function. The planes have all positions that the
        // piece reads; no point reads a plane that does not exist.
        unsafe { self.update(worker, job, level, start..stop, base, norm) };
        if job.monitor.is_cancelled() {
            return;
        }
        if level + 1 == g.bands.levels {
            let slab = slabs.start;
            for field in 0..self.rule.fields {
                let final_rows = &job.slabs_out[field];
                let place = |row: usize| Some((self.row_of(final_rows, slab, row), self.own(row)));
                let (window, positions) = (&worker.windows[field], start..stop);
                // SAFETY: the caller guarantees that the final slabs are writable.
                unsafe { self.move_lines(window, place, base, &positions, Way::Out) };
            }
        }
    }

    /// Moves a window over the piece of two dimensions, with all levels.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold, and what comes in was brought in.
    unsafe fn sweep(&self, worker: &mut Worker<'_>, job: &Job<'_>, mut norms: Option<&mut [f64]>) {
        let g = &self.geometry;
        let levels = g.bands.levels;
        let behind = ((levels - 1) * g.lag) as isize;
        let reach = g.lag as isize - 1;
        let end = (g.dims[2] + g.skew * g.rows()) as isize + behind;
        let (start, stop) = (job.range.0.clamp(0, end), job.range.1.clamp(0, end));
        if start >= stop {
            return;
        }
        // The window has the positions from `base` on; those before `filled` are in it.
        let mut base = start - behind - reach;
        let mut filled = base;
        let mut from = start;
        while from < stop {
            let to = (from + STEP as isize).min(stop);
            // SAFETY: the conditions are those of this function; the window has room for the
            // positions from `from - behind - reach` to `to + reach`.
            unsafe {
                let keep = from - behind - reach;
                self.shift(worker, base, keep, filled);
                base = keep;
                self.gather(worker, job, base, filled.max(base)..to + reach);
                filled = to + reach;
                for first in (from..to).step_by(TOGETHER) {
                    let positions = first..to.min(first + TOGETHER as isize);
                    for level in 0..levels {
                        let later = (level * g.lag) as isize;
                        let positions = positions.start - later..positions.end - later;
                        let norm = norms.as_mut().map(|norms| &mut norms[level]);
                        self.update(worker, job, level, positions, base, norm);
                    }
                }
                if job.monitor.is_cancelled() {
                    return;
                }
                self.scatter(worker, job, base, from - behind..to - behind, true);
            }
            from = to;
        }
        // SAFETY: as before; later pieces find what they read in the rings.
        unsafe { self.scatter(worker, job, base, stop - behind - reach..stop, false) };
    }
}
