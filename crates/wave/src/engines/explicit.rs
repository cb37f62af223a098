//! Explicit rules: all iterations of a pass over one band of slabs, tile by tile, in the cache.
//!
//! # Contract
//! A *slab* is what one position of the first axis holds: a row of a field of two dimensions, a
//! plane of one of three. [`piece`](engine::Worker::piece) runs the iterations (*levels*) of a pass
//! over the slabs of one band, within a range of the *tiled* axis: columns in two dimensions, rows
//! in three.
//!
//! ```text
//!            tiled axis ->             With every level a piece moves to the left by the reach of
//! slab  b    .  .  2  2  1  1  0  0    the rule, and up by its reach downward. So all that a level
//!       b-1  2  2  1  1  0  0  .  .    reads was computed by earlier levels of this piece, by
//!       b-2  1  1  0  0  .  .  .  .    earlier pieces of this band, or by bands before. Nothing is
//!                                      computed twice.
//! ```
//!
//! # One copy of the field
//! The values of all levels are in one ring of slabs. A level stores its values `storage` slabs
//! higher and `skew` positions to the left of those that it reads: there it overwrites values of
//! the level before that no update needs any more.
//!
//! ```text
//! level t reads     row r - 1   o o o        the reach is 1, `storage` is 2, `skew` is 1: the new
//!                   row r       o x o        value of x goes to the place of the old value two
//!                   row r + 1   o o o        rows up and one position to the left. Only updates of
//!                                            rows up to r - 1, and there up to this column, have
//! level t stores at row r - 2   *            needed it.
//! ```
//!
//! A ring has the slabs of the bands in flight, and `levels * (reach + storage)` more. Coefficients
//! in memory are read where they are; others have rings of their own.
//!
//! Of few long rows each such slab would take more than all else. If all slabs are in one band, or
//! no update reads another slab, a level is stored in the slabs of the one before instead, by the
//! length of a piece and the reach further to the left: the values that it overwrites there are of
//! pieces before, and too far for the updates of this one.
//!
//! ```text
//! level t reads     row r       o o o o . . . x x x x o        the piece x has 4 columns, the
//!                                                              reach is 1: 5 to the left
//! level t stores    row r       * * * *
//! ```
//!
//! # Periodic columns
//! The columns are extended by the reach of all levels on both sides, with values of the other end;
//! every level computes what the next one needs of the extension. In two dimensions this takes
//! `2 * levels * reach` columns more.
//!
//! # A periodic first axis
//! The slabs that come in go on beyond both ends of the field, by the reach of all levels, with
//! those of the other end, as for a member of a team ([`share`](crate::team::share)). So to an
//! engine no slab is at an edge. An array in memory is read where it is, by positions modulo the
//! number of its slabs; from a file the first and the last slabs are read twice. A pass writes to
//! other memory than it reads, as its last slabs need the first ones.
//!
//! # Costs
//! Per value and pass a copy into the ring; per value and level the loads and stores of the program
//! ([`program`](syncline_kernel::rule::program)). With tiles that fit the second-level cache,
//! memory is read and written once per pass.
//!
//! # Source
//! Time skewing: D. Wonnacott, IJPP 2002. Storing a level at a distance from the one before, in one
//! array: "compressed grid", J. Treibig, G. Wellein and G. Hager, J. Comput. Sci. 2 (2011).

mod geometry;

use std::ops::Range;
use std::time::{Duration, Instant};

use syncline_kernel::rule::Read;
use syncline_kernel::rule::program::{Machine, Program, fill};
use syncline_kernel::rule::{Beyond, Edge, Rule};
use syncline_store::ElementType;
use syncline_store::direct_io::IoBuffer;

pub(crate) use self::geometry::{Geometry, reach};
use crate::Result;
use crate::engine::{self, Bands, Crossing, Engine, Job, Ring, Slabs};
use crate::lanes::Lanes;

/// A coefficient of a pass.
#[derive(Debug)]
enum Coefficient {
    /// In memory.
    Whole(Slabs),
    Ring(Ring),
}

/// The rings of a pass, and the program of its levels.
pub(crate) struct Explicit<'r> {
    rule: &'r Rule,
    pub(crate) geometry: Geometry,
    program: Program,
    /// The types of the fields, then of the coefficients.
    elements: Vec<ElementType>,
    fields: Vec<Ring>,
    coefficients: Vec<Coefficient>,
    /// The rows that the program reads; and for each read its row, and its distance in bytes.
    rows: Vec<Row>,
    distances: Vec<(usize, isize)>,
    /// The numbers that reads see beyond an edge, with the length of a run; and for each read those
    /// beyond the edges of the axes, if it sees any.
    numbers: Vec<IoBuffer>,
    beyond: Vec<[Option<usize>; 3]>,
}

/// A row that a program reads, by its distance from the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    array: usize,
    slab: isize,
    row: isize,
}

/// The row whose points are updated.
#[derive(Clone, Copy, Debug)]
struct At {
    level: usize,
    slab: isize,
    row: isize,
    /// Whether its points read nothing beyond an edge.
    inside: bool,
}

/// What one thread needs to run pieces.
struct Worker<'p> {
    engine: &'p Explicit<'p>,
    machine: Machine<'p>,
    /// The addresses of the rows, at the first point; then those of the reads and the outputs.
    rows: Vec<*const u8>,
    reads: Vec<*const u8>,
    outputs: Vec<*mut u8>,
}

// SAFETY: the addresses are set before each use, by the thread that uses them.
unsafe impl Send for Worker<'_> {}

impl Engine for Explicit<'_> {
    fn bands(&self) -> &Bands {
        &self.geometry.bands
    }

    fn walk(&self) -> Range<isize> {
        self.geometry.walk()
    }

    fn ahead(&self) -> usize {
        0
    }

    fn worker(&self) -> Result<Box<dyn engine::Worker + '_>> {
        let (reads, outputs) = (self.beyond.len(), self.rule.fields);
        Ok(Box::new(Worker {
            engine: self,
            machine: Machine::new(&self.program)?,
            rows: vec![std::ptr::null(); self.rows.len()],
            reads: vec![std::ptr::null(); reads],
            outputs: vec![std::ptr::null_mut(); outputs],
        }))
    }
}

impl engine::Worker for Worker<'_> {
    unsafe fn piece(
        &mut self,
        job: &Job<'_>,
        _: &mut Crossing<'_>,
        mut norms: Option<&mut [f64]>,
    ) -> Duration {
        let (engine, begun) = (self.engine, Instant::now());
        // SAFETY: the conditions are those of this function.
        unsafe { engine.bring_in(job) };
        let packed = begun.elapsed();
        for level in 0..engine.geometry.bands.levels {
            let norm = norms.as_mut().map(|norms| &mut norms[level]);
            // SAFETY: as before, and the values have come in.
            unsafe { engine.level(self, job, level, norm) };
        }
        packed
    }
}

/// Returns the number that a read sees beyond the edge of an axis, and its type.
fn number_beyond(
    rule: &Rule,
    elements: &[ElementType],
    read: &Read,
    axis: usize,
) -> Option<(f64, ElementType)> {
    match rule.edges[axis] {
        Edge::Value(value) if read.offset[axis] != 0 => {
            Some((value, elements[read.array as usize]))
        }
        _ => None,
    }
}

fn is_same(one: &(f64, ElementType), other: &(f64, ElementType)) -> bool {
    one.0.to_bits() == other.0.to_bits() && one.1 == other.1
}

/// Returns the numbers that the reads of a rule see beyond the edges, each once with its type.
fn beyond(rule: &Rule, elements: &[ElementType]) -> Vec<(f64, ElementType)> {
    let mut all: Vec<(f64, ElementType)> = Vec::new();
    for read in rule.reads() {
        for axis in 0..3 {
            let number = number_beyond(rule, elements, &read, axis);
            if let Some(number) = number.filter(|one| !all.iter().any(|k| is_same(k, one))) {
                all.push(number);
            }
        }
    }
    all
}

/// Returns the bytes of the numbers that a pass has for what is read beyond the edges.
pub(crate) fn beyond_bytes(rule: &Rule, elements: &[ElementType], geometry: &Geometry) -> u64 {
    let longest = geometry.longest_run();
    beyond(rule, elements).iter().map(|(_, element)| (longest * element.bytes() + 64) as u64).sum()
}

impl<'r> Explicit<'r> {
    /// Allocates the rings. `whole` has the coefficients that are in memory, by their index; they
    /// must stay there while the pass runs.
    pub(crate) fn new(
        rule: &'r Rule,
        geometry: Geometry,
        elements: Vec<ElementType>,
        real: ElementType,
        lanes: Lanes,
        whole: &[Option<Slabs>],
    ) -> Result<Self> {
        let program = Program::new(rule, real, lanes, false);
        let ring = |element: ElementType, field: bool| {
            let slab = geometry.rows(field) * geometry.width(field) * element.bytes();
            Ring::new(geometry.slots(field), slab)
        };
        let fields =
            elements[..rule.fields].iter().map(|e| ring(*e, true)).collect::<Result<_>>()?;
        let coefficients = elements[rule.fields..]
            .iter()
            .zip(whole)
            .map(|(element, whole)| {
                Ok(match whole.filter(|_| geometry.extended == 0) {
                    Some(slabs) => Coefficient::Whole(slabs),
                    None => Coefficient::Ring(ring(*element, false)?),
                })
            })
            .collect::<Result<_>>()?;
        let (longest, mut numbers) = (geometry.longest_run(), Vec::new());
        let kinds = beyond(rule, &elements);
        for (value, element) in &kinds {
            let mut buffer = IoBuffer::new(longest * element.bytes() + 64)?;
            fill(buffer.as_mut_slice(), *value, *element);
            numbers.push(buffer);
        }
        let beyond = program
            .reads()
            .map(|read| {
                let of = |axis| number_beyond(rule, &elements, &read, axis);
                [0, 1, 2]
                    .map(|axis| of(axis).and_then(|n| kinds.iter().position(|k| is_same(k, &n))))
            })
            .collect();
        let mut rows = Vec::new();
        let mut distances = Vec::new();
        for read in program.reads() {
            let [slab, row, col] = read.offset.map(isize::from);
            let row = Row { array: read.array as usize, slab, row };
            let known = rows.iter().position(|other| *other == row);
            distances
                .push((known.unwrap_or(rows.len()), col * elements[row.array].bytes() as isize));
            if known.is_none() {
                rows.push(row);
            }
        }
        Ok(Explicit {
            rule,
            geometry,
            program,
            elements,
            fields,
            coefficients,
            rows,
            distances,
            numbers,
            beyond,
        })
    }

    /// Returns the positions of the tiled axis that a piece has in a level; -1 is the input. They
    /// include those of the extension that the later levels need.
    fn tile(&self, job: &Job<'_>, level: isize) -> Range<isize> {
        let g = &self.geometry;
        let lag = level * g.skew as isize;
        let extended = if g.tiled == 2 { self.extension(level) } else { 0 };
        let len = g.dims[g.tiled] as isize;
        let clip = |at: isize| (at - lag).clamp(-extended, len + extended);
        clip(job.range.0)..clip(job.range.1)
    }

    /// Returns the columns of the extension that a level has.
    fn extension(&self, level: isize) -> isize {
        let g = &self.geometry;
        if g.extended == 0 {
            return 0;
        }
        (g.bands.levels as isize - 1 - level) * (g.extended / g.bands.levels) as isize
    }

    /// Returns the address of a value of a field, after `level` levels.
    #[inline(always)]
    fn at(&self, field: usize, level: usize, slab: usize, row: isize, col: isize) -> *mut u8 {
        let g = &self.geometry;
        let ring = &self.fields[field];
        let start = ring.slab(slab as isize - (level * g.storage.0) as isize);
        let lag = ((g.bands.levels - level) * g.storage.1) as isize;
        let (row, col) = if g.tiled == 1 { (row + lag, col) } else { (row, col + lag) };
        let index = row * g.width(true) as isize + col + g.extended as isize;
        start.wrapping_offset(index * self.elements[field].bytes() as isize)
    }

    /// Returns the address of a value of a coefficient.
    #[inline(always)]
    fn coefficient(&self, n: usize, slab: usize, row: isize, col: isize) -> *const u8 {
        let g = &self.geometry;
        let bytes = self.elements[self.rule.fields + n].bytes() as isize;
        match &self.coefficients[n] {
            Coefficient::Whole(slabs) => {
                let row = slabs.row(slab, (row as usize, g.dims[1]));
                row.wrapping_offset(col * bytes).cast_const()
            }
            Coefficient::Ring(ring) => {
                let index = row * g.width(false) as isize + col + g.extended as isize;
                ring.slab(slab as isize).wrapping_offset(index * bytes)
            }
        }
    }

    /// Copies what comes in, in the columns of the piece.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold.
    unsafe fn bring_in(&self, job: &Job<'_>) {
        let g = &self.geometry;
        let tile = self.tile(job, -1);
        let (rows, cols) = match g.tiled {
            1 => (tile, -(g.extended as isize)..(g.dims[2] + g.extended) as isize),
            _ => (0..1, tile),
        };
        for (array, slabs) in job.slabs_in.iter().enumerate() {
            let bytes = self.elements[array].bytes();
            let field = array < self.rule.fields;
            if !field
                && matches!(self.coefficients[array - self.rule.fields], Coefficient::Whole(_))
            {
                continue;
            }
            for slab in g.bands.slabs_in(job.band) {
                for row in rows.clone() {
                    let from = slabs.row(slab, (row as usize, g.dims[1])).cast_const();
                    let to = |col: isize| match field {
                        true => self.at(array, 0, slab, row, col),
                        false => {
                            self.coefficient(array - self.rule.fields, slab, row, col).cast_mut()
                        }
                    };
                    let mut col = cols.start;
                    while col < cols.end {
                        // Columns of the extension are those of the other end.
                        let n = g.dims[2] as isize;
                        let (inside, period) = (col.rem_euclid(n), col.div_euclid(n));
                        let count = (cols.end.min((period + 1) * n) - col) as usize * bytes;
                        let source = from.wrapping_add(inside as usize * bytes);
                        // SAFETY: the caller guarantees that the row is readable; the ring has room
                        // for the extended row, and no other thread accesses this part of it.
                        unsafe { source.copy_to_nonoverlapping(to(col), count) };
                        col += (count / bytes) as isize;
                    }
                }
            }
        }
    }

    /// Runs one level of a piece.
    ///
    /// # Safety
    /// The conditions of [`engine::Worker::piece`] must hold, and the levels before must have been
    /// run.
    unsafe fn level(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        level: usize,
        mut norm: Option<&mut f64>,
    ) {
        let g = &self.geometry;
        let updated = self.rule.updated(g.dims);
        let tile = self.tile(job, level as isize);
        let (rows, cols) = match g.tiled {
            1 => {
                let extended = self.extension(level as isize);
                (tile, -extended..g.dims[2] as isize + extended)
            }
            _ => (0..1, tile),
        };
        if rows.is_empty() || cols.is_empty() {
            return;
        }
        // The columns whose updates read no column beyond an edge.
        let (before, after) = self.rule.reach()[2];
        let n = g.dims[2] as isize;
        let inner = match self.rule.edges[2] {
            Edge::Periodic => cols.clone(),
            _ => {
                let start = cols.start.max((before as isize).min(n));
                start..cols.end.min(n - after as isize).max(start.min(cols.end))
            }
        };
        let inner = inner.start.min(cols.end)..inner.end.max(inner.start.min(cols.end));
        let edge_columns = self.rule.edges[2] != Edge::Fixed;
        let reach = self.rule.reach();
        let inside =
            |axis: usize, at: usize| at >= reach[axis].0 && at + reach[axis].1 < g.dims[axis];
        for slab in g.bands.slabs_at(job.band, level) {
            for row in rows.clone() {
                if job.monitor.is_cancelled() {
                    return;
                }
                let whole = updated[0].contains(&slab) && updated[1].contains(&(row as usize));
                let inside = inside(0, slab) && inside(1, row as usize);
                let run = |worker: &mut Worker<'_>,
                           cols: Range<isize>,
                           inside: bool,
                           norm: Option<&mut f64>| {
                    if cols.is_empty() {
                        return;
                    }
                    let at = At { level, slab: slab as isize, row, inside };
                    // SAFETY: all values that the points read have been computed or brought in, and
                    // the places of the results are of no use to others any more, as the contract
                    // of the module shows.
                    unsafe { self.points(worker, job, at, cols, norm) };
                };
                let keep = |cols: Range<isize>| {
                    // SAFETY: as for `run`.
                    unsafe { self.keep(job, level, [slab as isize, row], cols) };
                };
                if !whole {
                    keep(cols.clone());
                    continue;
                }
                let sides = [cols.start..inner.start, inner.end..cols.end];
                for side in sides {
                    match edge_columns {
                        true => side.for_each(|col| {
                            run(worker, col..col + 1, false, norm.as_deref_mut());
                        }),
                        false => keep(side),
                    }
                }
                run(worker, inner.clone(), inside, norm.as_deref_mut());
            }
        }
    }

    /// Returns the address to which a level writes a value of a field: in the ring, or, from the
    /// last level, among the final ones.
    #[inline(always)]
    fn target(&self, job: &Job<'_>, field: usize, level: usize, at: [isize; 3]) -> *mut u8 {
        let g = &self.geometry;
        let [slab, row, col] = at;
        if level + 1 < g.bands.levels {
            return self.at(field, level + 1, slab as usize, row, col);
        }
        let slabs = &job.slabs_out[field];
        let row = slabs.row(slab as usize, (row as usize, g.dims[1]));
        row.wrapping_offset(col * self.elements[field].bytes() as isize)
    }

    /// Copies points that are not updated to the next level.
    ///
    /// # Safety
    /// The conditions of [`level`](Self::level) must hold.
    unsafe fn keep(
        &self,
        job: &Job<'_>,
        level: usize,
        [slab, row]: [isize; 2],
        cols: Range<isize>,
    ) {
        if cols.is_empty() {
            return;
        }
        for field in 0..self.rule.fields {
            let from = self.at(field, level, slab as usize, row, cols.start);
            let to = self.target(job, field, level, [slab, row, cols.start]);
            let bytes = (cols.end - cols.start) as usize * self.elements[field].bytes();
            // SAFETY: both are values of the rings or final ones, which the caller guarantees to be
            // accessible, and different slabs.
            unsafe { from.cast_const().copy_to_nonoverlapping(to, bytes) };
        }
    }

    /// Returns the address of a value that a level reads.
    #[inline(always)]
    fn element(&self, array: usize, level: usize, [slab, row, col]: [isize; 3]) -> *const u8 {
        match array.checked_sub(self.rule.fields) {
            None => self.at(array, level, slab as usize, row, col).cast_const(),
            Some(n) => self.coefficient(n, slab as usize, row, col),
        }
    }

    /// Sets the addresses of the reads of points some of which read beyond an edge.
    fn look_beyond(&self, reads: &mut [*const u8], level: usize, point: [isize; 3]) {
        let (g, edges) = (&self.geometry, &self.rule.edges);
        for (n, read) in self.program.reads().enumerate() {
            let mut at: [isize; 3] =
                std::array::from_fn(|axis| point[axis] + isize::from(read.offset[axis]));
            let mut number = None;
            for axis in 0..3 {
                if axis == 2 && edges[2] == Edge::Periodic || number.is_some() {
                    continue;
                }
                match edges[axis].at(at[axis], g.dims[axis]) {
                    Some(Beyond::At(position)) => at[axis] = position as isize,
                    Some(Beyond::Number(_)) => number = Some(axis),
                    // Points that lack a neighbour beyond a fixed edge are kept.
                    None => unreachable!("a point reads beyond a fixed edge"),
                }
            }
            reads[n] = match number.and_then(|axis| self.beyond[n][axis]) {
                Some(numbers) => self.numbers[numbers].as_ptr(),
                None => self.element(read.array as usize, level, at),
            };
        }
    }

    /// Updates points of a row: one point, or points that read no column beyond an edge.
    ///
    /// # Safety
    /// The conditions of [`level`](Self::level) must hold.
    unsafe fn points(
        &self,
        worker: &mut Worker<'_>,
        job: &Job<'_>,
        At { level, slab, row, inside }: At,
        cols: Range<isize>,
        norm: Option<&mut f64>,
    ) {
        match inside {
            true => {
                for (address, at) in worker.rows.iter_mut().zip(&self.rows) {
                    let (slab, row) = (slab + at.slab, row + at.row);
                    *address = self.element(at.array, level, [slab, row, cols.start]);
                }
                for (read, (row, distance)) in worker.reads.iter_mut().zip(&self.distances) {
                    *read = worker.rows[*row].wrapping_offset(*distance);
                }
            }
            false => self.look_beyond(&mut worker.reads, level, [slab, row, cols.start]),
        }
        for field in 0..self.rule.fields {
            worker.outputs[field] = self.target(job, field, level, [slab, row, cols.start]);
        }
        let count = (cols.end - cols.start) as usize;
        // SAFETY: the addresses are those of `count` values each, which the caller guarantees to be
        // accessible; the results go to other slabs than those that are read.
        unsafe { worker.machine.run(&worker.reads, &worker.outputs, count) };
        if let Some(norm) = norm {
            // The extension is not a part of the field.
            let own = cols.start.max(0)..cols.end.min(self.geometry.dims[2] as isize);
            if own.is_empty() {
                return;
            }
            let skipped = (own.start - cols.start) as usize;
            for field in 0..self.rule.fields {
                let element = self.elements[field];
                let old = self.at(field, level, slab as usize, row, own.start);
                let new = worker.outputs[field].wrapping_add(skipped * element.bytes());
                let count = (own.end - own.start) as usize;
                // SAFETY: both have a value for each of these columns.
                let change = unsafe { syncline_kernel::rule::change(element, old, new, count) };
                *norm = syncline_kernel::rule::greater(*norm, change);
            }
        }
    }
}
