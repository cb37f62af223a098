//! Chained iterations over a band of strips, one tile of columns at a time.
//!
//! # Contract
//! Band `p` of a [`Chain`] brings strips in and carries `levels` iterations one band further down.
//! Its tiles run from left to right. A tile may run when the previous tile of its band has run, and
//! when the band above, `p - 1`, has run up to the same `g`. When all bands have run, in any such
//! order, every interior point has been updated `levels` times, in an order that preserves that of
//! the double loop.
//!
//! ```text
//! strips, band = 4       band 0    1      2     ...     Every iteration is one strip higher
//!                                                       than the previous one, so that the
//! iteration 0     3 old  2 1 0 -1  6..3   10..7         strip below it is present. Band p
//! iteration 1            1 0 -1 .  5..2    9..6         brings in (packs) the strips
//! iteration 2            0 -1 . .  4..1    8..5           p * band ..= p * band + band - 1
//! ...                                                   and finishes (unpacks) the strips
//!                                                         p * band - levels
//!                                                         ..= p * band - levels + band - 1
//! One tile           g ->
//! iteration 0            [==============)               Within a tile, iteration t is lag * t
//! iteration 1         [==============)                  columns behind: its east and south
//! iteration 2      [==============)                     neighbours are present. A tile of all
//!                                                       iterations fits the L2 cache.
//! ```
//!
//! # Costs
//! Per element and band: one transposition in and one out. Per band, `band + levels` strips are
//! read from memory for `band * levels` updates: a larger value of either reduces the memory
//! traffic.
//!
//! # Source
//! Time skewing, see [`syncline_kernel::strip`]. The cache tile that holds all iterations is from
//! M. Wolfe, "More iteration space tiling", SC 1989.

use std::ops::Range;
use std::time::{Duration, Instant};

use syncline_kernel::dynamic::Kernel;
use syncline_kernel::lanes::dispatch::{Work, dispatch};
use syncline_kernel::strip::fused::Extent;
use syncline_kernel::strip::inner::Inner;
use syncline_kernel::strip::masked::Dummy;

use crate::lanes::{Lanes, Real, Vector};

use super::pack::{Ahead, Rows, pack, unpack};
use super::{FUSED, Geometry, Ring, TOGETHER};

/// A number of iterations over bands of a number of strips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The geometry of the strips.
    pub geometry: Geometry,
    /// The number of iterations.
    pub levels: usize,
    /// The number of strips of a band, a multiple of [`TOGETHER`].
    pub band: usize,
}

impl Chain {
    /// Returns the number of bands.
    #[must_use]
    pub fn bands(&self) -> usize {
        (self.geometry.last_strip() as usize + 1 + self.levels).div_ceil(self.band)
    }

    /// Returns the first strip of band `p` in the first iteration.
    pub(super) const fn top(&self, p: usize) -> isize {
        (p * self.band) as isize - 1
    }

    /// Returns the columns that a band passes through, relative to its own `g`: the same for all
    /// bands.
    #[must_use]
    pub fn walk(&self) -> Range<isize> {
        let g = &self.geometry;
        // Iterations drift by this number of columns to the left (or, with one row per strip, to
        // the right).
        let drift = (self.levels as isize - 1) * (g.step() - g.lag() as isize);
        let right = g.positions() as isize + (self.band as isize - 1) * g.step();
        1 - drift.max(0)..right - drift.min(0)
    }

    /// Returns how far, in its own columns, a band must be ahead of the next one.
    pub(crate) const fn ahead(&self) -> usize {
        self.band * self.geometry.step() as usize
    }

    /// Returns the iterations that update any strip in band `p`, from the beginning of a group of
    /// fused iterations on. In a deep chain over few rows these are few.
    pub(crate) fn levels_in(&self, p: usize) -> Range<usize> {
        let (top, last) = (self.top(p), self.geometry.last_strip() + FUSED as isize - 1);
        let end = self.levels.min((top + self.band as isize).max(0) as usize);
        ((top - last).max(0) as usize / FUSED * FUSED).min(end)..end
    }

    /// Returns the rows that band `p` brings in.
    pub(crate) fn rows_in(&self, p: usize) -> Range<usize> {
        let height = self.band * self.geometry.width;
        let row =
            |p: usize| if p == 0 { 0 } else { (1 + p * height).min(self.geometry.shape.rows) };
        row(p)..row(p + 1)
    }

    /// Returns the rows that are final after band `p`.
    pub(crate) fn rows_out(&self, p: usize) -> Range<usize> {
        let strips = self.strips_out(p);
        let row =
            |strip| self.geometry.row(strip).clamp(0, self.geometry.shape.rows as isize) as usize;
        row(strips.start)..row(strips.end)
    }

    /// Returns the strips that band `p` brings in; those beyond the matrix are left out.
    fn strips_in(&self, p: usize) -> Range<isize> {
        let first = if p == 0 { -1 } else { (p * self.band) as isize };
        let end = ((p + 1) * self.band) as isize;
        first..end.min(self.geometry.last_strip() + 1)
    }

    /// Returns the strips that are final after band `p`; those above and below the matrix are left
    /// out.
    fn strips_out(&self, p: usize) -> Range<isize> {
        let first = self.top(p) + 1 - self.levels as isize;
        let (least, most) = (-1, self.geometry.last_strip() + 1);
        first.clamp(least, most)..(first + self.band as isize).clamp(least, most)
    }

    /// Returns the number of slots of a ring in which `bands` bands may be in flight, where band
    /// `p` begins only after band `p - bands` has ended.
    ///
    /// The strips of one band, and one strip above, must be present at once. More bands in flight
    /// need no more slots: let a band pack strip `s` over `s' = s - slots`, up to position `c`. A
    /// band that is ahead of it, as it must be, accesses `s'` only from position
    /// `c + step * slots - lag * levels` on, less a vector or two, which is beyond `c` because
    /// `step >= lag`. With vectors of one value `step` is less than `lag`, and each band in flight
    /// needs slots of its own.
    #[must_use]
    pub const fn slots(width: usize, levels: usize, band: usize, bands: usize) -> usize {
        let room = if width > 1 && bands > 1 { 1 } else { bands };
        room * band + levels + 2
    }
}

/// The input of a tile.
#[derive(Debug)]
pub struct Job<'a, E> {
    /// The chain of which the band is.
    pub chain: &'a Chain,
    /// The strips.
    pub ring: &'a Ring<E>,
    /// The number of the band.
    pub band: usize,
    /// The columns of the walk to run.
    pub columns: Range<isize>,
    /// The rows that come in: parts of arrays, each with the number of its array. The first entries
    /// are one part of each array, in order.
    pub rows_in: &'a [(usize, Rows<E>)],
    /// The rows that are final.
    pub rows_out: Rows<E>,
    /// The number of columns of a tile.
    pub tile: usize,
}

/// The buffers of a thread that runs tiles.
#[derive(Debug)]
pub struct Scratch<E> {
    dummy: Dummy<E>,
    /// The time spent packing and unpacking, and the time spent updating.
    pub(crate) packing: Duration,
    pub(crate) updating: Duration,
}

impl<E: Real> Scratch<E> {
    /// Creates the buffers for tiles of this number of columns.
    #[must_use]
    pub fn new(geometry: &Geometry, tile: usize) -> Self {
        Scratch {
            dummy: Dummy::new(geometry, tile),
            packing: Duration::ZERO,
            updating: Duration::ZERO,
        }
    }
}

/// Runs the tiles of a job: packs, updates, unpacks. If given, `norms` has one element for each of
/// `Chain::levels_in`, which is raised to the greatest change.
///
/// # Safety
/// * The ring of the job must have the geometry of its chain, and a window that contains all
///   positions that the tiles access: that of whole strips, or that of the share (see
///   `cut`) to which the columns of the job belong. The width must be that of
///   `lanes`, the skew that of the kernel, and the number of arrays one more than the coefficients
///   of the kernel. The machine must have the lanes.
/// * The scratch must have been made for a geometry of the same width, skew and arrays, and for at
///   least the tile of the job.
/// * The rows must contain all rows of `Chain::rows_in` (to read, of every array) and of
///   `Chain::rows_out` (to write), except ghost lines (see `ghosts`); on one of
///   several hosts, all columns of its share.
/// * All tiles that the contract of the module requires must have run, or (on one of several hosts)
///   the messages that stand for them must have been imported. No other thread may run a
///   tile of this band, nor a tile of another band in violation of the contract.
pub unsafe fn run<E: Real>(
    lanes: Lanes,
    kernel: &dyn Kernel<E>,
    job: &Job<'_, E>,
    scratch: &mut Scratch<E>,
    mut norms: Option<&mut [f64]>,
) {
    let geometry = &job.chain.geometry;
    assert!(*geometry == job.ring.geometry && geometry.arrays == 1 + kernel.coefficients());
    assert!(geometry.width == lanes.width(E::BYTES) && scratch.dummy.is_enough(geometry, job.tile));
    let walk = job.chain.walk();
    let base = job.chain.top(job.band) * job.chain.geometry.step();
    let mut from = job.columns.start;
    while from < job.columns.end {
        let to = (from + job.tile as isize).min(job.columns.end);
        let ends = Ends {
            from: base + from,
            to: base + to,
            first: from == walk.start,
            last: to == walk.end,
        };
        let begun = Instant::now();
        // SAFETY: the conditions are those of this function, which the caller guarantees.
        unsafe { dispatch(lanes, BringIn(job, &ends)) };
        let packed = Instant::now();
        // SAFETY: as above, and the records of the tile have been packed.
        unsafe { update(lanes, kernel, job, &mut scratch.dummy, &ends, norms.as_deref_mut()) };
        let updated = Instant::now();
        // SAFETY: as above.
        unsafe { dispatch(lanes, BringOut(job, &ends)) };
        scratch.packing += (packed - begun) + updated.elapsed();
        scratch.updating += updated - packed;
        from = to;
    }
}

/// Packs, of the strips that the band of the job brings in, the positions west of those that the
/// first tile of the job packs, or (`EAST`) those east of the ones that its last tile packs: all
/// that the rows contain.
///
/// # Panics
/// If a position at which the rows contain a value, rounded outwards to a multiple of the width, is
/// not in the ring.
///
/// # Safety
/// The conditions of [`run`] must hold for a tile at this end of the job. No other thread may
/// access the positions that are packed.
pub(super) unsafe fn pack_beyond<E: Real, const EAST: bool>(lanes: Lanes, job: &Job<'_, E>) {
    let geometry = &job.chain.geometry;
    assert!(*geometry == job.ring.geometry && geometry.width == lanes.width(E::BYTES));
    let (window, width) = (job.ring.window(), geometry.width as isize);
    let all = 0..geometry.positions().div_ceil(geometry.width) as isize;
    let fits = |rows: &Rows<E>| {
        let groups = rows.groups_of(geometry, all.clone());
        if EAST { groups.end * width <= window.end } else { window.start <= groups.start * width }
    };
    let fit = job.rows_in.iter().all(|(_, rows)| rows.first == rows.end || fits(rows));
    assert!(fit, "the ring, of positions {window:?}, has no room for all columns of the rows");
    let base = job.chain.top(job.band) * geometry.step();
    let at = base + if EAST { job.columns.end } else { job.columns.start };
    let ends = Ends { from: at, to: at, first: !EAST, last: EAST };
    // SAFETY: the conditions are those of this function, which the caller guarantees.
    unsafe { dispatch(lanes, BringIn(job, &ends)) };
}

struct BringIn<'w, 'j, E>(&'w Job<'j, E>, &'w Ends);

impl<E: Real> Work<E> for BringIn<'_, '_, E> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        // SAFETY: the conditions are those of `Work::with`.
        unsafe { bring_in::<L>(self.0, self.1) }
    }
}

struct BringOut<'w, 'j, E>(&'w Job<'j, E>, &'w Ends);

impl<E: Real> Work<E> for BringOut<'_, '_, E> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        // SAFETY: the conditions are those of `Work::with`.
        unsafe { bring_out::<L>(self.0, self.1) }
    }
}

/// The range of `g` of a tile, and whether it is the first or the last tile of its band.
#[derive(Debug)]
pub(crate) struct Ends {
    from: isize,
    to: isize,
    first: bool,
    last: bool,
}

impl Ends {
    /// Returns the groups of positions between two bounds that depend on where the tile begins and
    /// ends.
    #[inline(always)]
    fn groups(&self, g: &Geometry, bound: impl Fn(isize) -> isize) -> Range<isize> {
        let all = g.positions().div_ceil(g.width) as isize;
        let start = if self.first { 0 } else { bound(self.from).clamp(0, all) };
        let end = if self.last { all } else { bound(self.to).clamp(0, all) };
        start..end
    }
}

/// Packs the positions that the tile reads and that no earlier tile has packed.
///
/// # Safety
/// The conditions of [`run`] must hold, and `L` must be the lanes of the job.
#[inline(always)]
unsafe fn bring_in<L: Vector>(job: &Job<'_, L::Element>, ends: &Ends) {
    let g = &job.chain.geometry;
    let strips = job.chain.strips_in(job.band);
    for strip in strips.clone() {
        // The first iteration reads `lag` positions ahead.
        let bound = |to: isize| {
            (to + g.lag() as isize - 1 - strip * g.step()).div_euclid(L::WIDTH as isize) + 1
        };
        let groups = ends.groups(g, bound);
        if groups.is_empty() {
            continue;
        }
        // Records to prefetch: those that the next strip will fill, and those of a strip that the
        // previous band has left behind.
        let left = strips.start - 1 - (strip - strips.start);
        let reached = ends.from + g.lag() as isize * (left - strips.start + 2) - left * g.step();
        let below = groups.start - g.step() / L::WIDTH as isize;
        let records = |array: usize| {
            let square = (L::WIDTH * L::WIDTH) as isize;
            let share = array as isize * groups.len() as isize * square;
            let at = |strip, position: isize| {
                job.ring
                    .strip(strip)
                    .wrapping_offset(position * g.record() as isize + share)
                    .cast_const()
            };
            [at(strip + 1, below * L::WIDTH as isize), at(left, reached)]
        };
        for (array, rows) in job.rows_in {
            let to = job.ring.strip(strip).wrapping_add(array * L::WIDTH);
            let (next, lower) = if array + 1 < g.arrays { (array + 1, 0) } else { (0, 1) };
            let group = groups.start - lower * g.step() / L::WIDTH as isize;
            let ahead =
                Ahead::of(records(*array)).and(g, &job.rows_in[next].1, strip + lower, group);
            // SAFETY: the caller guarantees that the rows are readable, that no other thread
            // accesses these positions of the ring, and that the processor has the instructions.
            unsafe { pack::<L>(g, rows, strip, groups.clone(), to, ahead) };
        }
    }
}

/// Unpacks the positions that the tile has made final.
///
/// # Safety
/// The conditions of [`run`] must hold, and `L` must be the lanes of the job.
#[inline(always)]
unsafe fn bring_out<L: Vector>(job: &Job<'_, L::Element>, ends: &Ends) {
    let g = &job.chain.geometry;
    let behind = (g.lag() * (job.chain.levels - 1)) as isize;
    for strip in job.chain.strips_out(job.band) {
        let bound = |to: isize| (to - behind - strip * g.step()).div_euclid(L::WIDTH as isize);
        let groups = ends.groups(g, bound);
        // SAFETY: the caller guarantees that the rows are writable, that no other thread writes
        // these positions of the ring, and that the processor has the instructions.
        unsafe { unpack::<L>(g, &job.rows_out, strip, groups, job.ring.strip(strip)) };
    }
}

/// Runs all iterations over the tile.
///
/// # Safety
/// The conditions of [`run`] must hold, and the data that the tile reads must have been packed.
unsafe fn update<E: Real>(
    lanes: Lanes,
    kernel: &dyn Kernel<E>,
    job: &Job<'_, E>,
    dummy: &mut Dummy<E>,
    ends: &Ends,
    mut norms: Option<&mut [f64]>,
) {
    let g = &job.chain.geometry;
    let (lag, step, most) = (g.lag() as isize, g.step(), FUSED as isize - 1);
    let (band, top) = (job.chain.band as isize, job.chain.top(job.band));
    let all = job.chain.levels_in(job.band);
    let mut level = all.start;
    while level < all.end {
        let fuse = if norms.is_none() && job.chain.levels - level >= FUSED { FUSED } else { 1 };
        let behind = lag * level as isize;
        let (first, end) =
            (step * (top - level as isize - most), step * (top - level as isize + band));
        if ends.to - behind <= first
            || ends.from - behind - lag * most >= end + g.positions() as isize
        {
            // None of the columns of these iterations lies in the tile.
            level += fuse;
            continue;
        }
        for group in (0..job.chain.band).step_by(TOGETHER) {
            let top = top - level as isize + group as isize;
            let extent = Extent { top, from: ends.from - behind, to: ends.to - behind };
            // SAFETY: the conditions are those of this function, which the caller guarantees.
            let change = unsafe { together(lanes, kernel, job.ring, dummy, extent, fuse) };
            if let Some(norms) = &mut norms {
                let norm = &mut norms[level - all.start];
                *norm = norm.greater(change);
            }
        }
        level += fuse;
    }
}

/// Runs `fuse` iterations over four strips: masked at the edges, fused in the middle. Returns the
/// greatest change if `fuse` is 1; otherwise the result has no meaning.
///
/// # Safety
/// The conditions of [`run`] must hold for the job of this ring and for a scratch with this dummy.
/// The extent must be that of four strips in one tile of the job, and the data that the tile reads
/// must have been packed.
unsafe fn together<E: Real>(
    lanes: Lanes,
    kernel: &dyn Kernel<E>,
    ring: &Ring<E>,
    dummy: &mut Dummy<E>,
    extent: Extent,
    fuse: usize,
) -> f64 {
    let g = &ring.geometry;
    let (step, lag, last) = (g.step(), g.lag() as isize, fuse as isize - 1);
    let (highest, lowest) = (extent.top - last, extent.top + TOGETHER as isize - 1);
    let (mut from, mut to) = (extent.to, extent.to);
    if highest >= 0 && g.row(lowest + 1) < g.shape.rows as isize {
        // All rows are interior. The columns are interior, in iteration t of the strips `top - t
        // ..= top - t + 3`, if 1 + skew * (W - 1) <= g - lag * t - step * strip < cols - 1.
        let drift = (lag - step) * last;
        let least = 1 + (g.skew * (g.width - 1)) as isize + step * lowest + drift.max(0);
        let most = g.shape.cols as isize - 1 + step * extent.top + drift.min(0);
        from = least.clamp(extent.from, extent.to);
        to = most.clamp(from, extent.to);
    }
    let middle = if fuse == FUSED { Inner::Fused } else { Inner::Single };
    let mut change: f64 = 0.0;
    let mut run = |inner, extent: Extent, times: usize| {
        for t in 0..times as isize {
            let (from, to) = (extent.from - lag * t, extent.to - lag * t);
            let one = Extent { top: extent.top - t, from, to };
            if from < to {
                // SAFETY: the caller guarantees the ring, the exclusive access, the size of the
                // dummy and the instructions; in the middle all rows and columns are interior, and
                // at the edges positions outside of the matrix are masked.
                let by = unsafe { kernel.strips(lanes, inner, ring, dummy, one) };
                change = change.greater(by);
            }
        }
    };
    run(Inner::Masked, Extent { to: from, ..extent }, fuse);
    run(middle, Extent { from, to, ..extent }, 1);
    run(Inner::Masked, Extent { from: to, ..extent }, fuse);
    change
}
