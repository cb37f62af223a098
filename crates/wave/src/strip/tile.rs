//! Chained iterations over a band of strips, a tile of columns at a time.
//!
//! # Contract
//! Band `p` of a [`Chain`] brings strips in and carries `levels` iterations one band further down.
//! Its tiles go from left to right; a tile may run when the one before it has, and the one above it
//! has to the right of it: band `p - 1` up to the same `g`. When all bands have run, in any such
//! order, every interior point has been updated `levels` times, in an order that keeps that of the
//! double loop.
//!
//! ```text
//! strips, band = 4       band 0    1      2     ...     Every iteration is one strip higher than the one
//!                                                       before, so that the strip below it is there. With
//! iteration 0     3 old  2 1 0 -1  6..3   10..7         band p come in (are packed) the strips
//! iteration 1            1 0 -1 .  5..2    9..6           p * band ..= p * band + band - 1
//! iteration 2            0 -1 . .  4..1    8..5         and are final (unpacked)
//! ...                                                     p * band - levels ..= p * band - levels + band - 1
//!
//! One tile           g ->                               Within a tile, iteration t is `lag * t` columns
//! iteration 0            [==============)               behind: its east and south neighbours are there.
//! iteration 1         [==============)
//! iteration 2      [==============)                     A tile of all iterations fits the L2 cache.
//! ```
//!
//! # Costs
//! Per element and band: one transposition in and out. Per band, the strips of `band + levels` are
//! read from memory, for `band * levels` updates: more of either is less memory traffic.
//!
//! # Source
//! Time skewing, see [`strip`](super). A cache tile that holds all iterations is M. Wolf's, "More
//! iteration space tiling", SC 1989.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::dynamic::Kernel;
use crate::kernel::Update;
use crate::lanes::{Engine, Lanes, Real, Vector};

use super::fused::{Extent, fused};
use super::masked::{Dummy, masked};
use super::pack::{Ahead, Rows, pack, unpack};
use super::{FUSED, Geometry, Ring, TOGETHER};

/// A number of iterations over a number of strips at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The strips.
    pub(crate) geometry: Geometry,
    /// Iterations.
    pub(crate) levels: usize,
    /// Strips of a band, a multiple of [`TOGETHER`].
    pub(crate) band: usize,
}

impl Chain {
    /// How many bands there are.
    pub(crate) fn bands(&self) -> usize {
        (self.geometry.last_strip() as usize + 1 + self.levels).div_ceil(self.band)
    }

    /// The first strip of band `p` in the first iteration.
    const fn top(&self, p: usize) -> isize {
        (p * self.band) as isize - 1
    }

    /// The columns that a band walks through, counted from its own `g`: the same for all bands.
    pub(crate) fn walk(&self) -> Range<isize> {
        let g = &self.geometry;
        // Iterations drift by this many columns to the left (or, with one row per strip, to the
        // right).
        let drift = (self.levels as isize - 1) * (g.step() - g.lag() as isize);
        let right = g.positions() as isize + (self.band as isize - 1) * g.step();
        1 - drift.max(0)..right - drift.min(0)
    }

    /// How far a band must be ahead of the next one, in its own columns.
    pub(crate) const fn ahead(&self) -> usize {
        self.band * self.geometry.step() as usize
    }

    /// The iterations that find strips of theirs in band `p`, from a whole group of fused ones on.
    /// Of a deep chain over few rows, these are few.
    pub(crate) fn levels_in(&self, p: usize) -> Range<usize> {
        let (top, last) = (self.top(p), self.geometry.last_strip() + FUSED as isize - 1);
        let end = self.levels.min((top + self.band as isize).max(0) as usize);
        ((top - last).max(0) as usize / FUSED * FUSED).min(end)..end
    }

    /// The rows that come in with band `p`.
    pub(crate) fn rows_in(&self, p: usize) -> Range<usize> {
        let height = self.band * self.geometry.width;
        let row =
            |p: usize| if p == 0 { 0 } else { (1 + p * height).min(self.geometry.shape.rows) };
        row(p)..row(p + 1)
    }

    /// The rows that are final after band `p`.
    pub(crate) fn rows_out(&self, p: usize) -> Range<usize> {
        let strips = self.strips_out(p);
        let row =
            |strip| self.geometry.row(strip).clamp(0, self.geometry.shape.rows as isize) as usize;
        row(strips.start)..row(strips.end)
    }

    /// The strips that come in with band `p`; those beyond the matrix do not count.
    fn strips_in(&self, p: usize) -> Range<isize> {
        let first = if p == 0 { -1 } else { (p * self.band) as isize };
        let end = ((p + 1) * self.band) as isize;
        first..end.min(self.geometry.last_strip() + 1)
    }

    /// The strips that are final after band `p`; those above and below the matrix do not count.
    fn strips_out(&self, p: usize) -> Range<isize> {
        let first = self.top(p) + 1 - self.levels as isize;
        let (least, most) = (-1, self.geometry.last_strip() + 1);
        first.clamp(least, most)..(first + self.band as isize).clamp(least, most)
    }

    /// Slots of a ring in which `bands` bands may be under way, none of them begun before the one
    /// that many before it has ended.
    ///
    /// The strips of one band, and one above, must be there at once. Bands under way need no more
    /// than that: let a band pack strip `s` over `s' = s - slots`, up to position `c`. A band that
    /// is ahead of it, as it must be, is nowhere in `s'` before position `c + step * slots - lag *
    /// levels`, less a vector or two, which is beyond `c` as `step >= lag`. But with one value to a
    /// vector, `step` is less.
    pub(crate) const fn slots(width: usize, levels: usize, band: usize, bands: usize) -> usize {
        let room = if width > 1 && bands > 1 { 1 } else { bands };
        room * band + levels + 2
    }
}

/// What a tile works on.
#[derive(Debug)]
pub(crate) struct Job<'a, E> {
    pub(crate) chain: &'a Chain,
    pub(crate) ring: &'a Ring<E>,
    /// The band.
    pub(crate) band: usize,
    /// Columns of the walk.
    pub(crate) columns: Range<isize>,
    /// The rows that come in: arrays and parts of them, the number of the array with each. The
    /// first are one of each array.
    pub(crate) rows_in: &'a [(usize, Rows<E>)],
    /// The rows that are final.
    pub(crate) rows_out: Rows<E>,
    /// The columns of a tile.
    pub(crate) tile: usize,
}

/// The buffers of a thread that runs tiles.
#[derive(Debug)]
pub(crate) struct Scratch<E> {
    dummy: Dummy<E>,
    /// Time spent with packing and unpacking, and with updating.
    pub(crate) packing: Duration,
    pub(crate) updating: Duration,
}

impl<E: Real> Scratch<E> {
    pub(crate) fn new(geometry: &Geometry, tile: usize) -> Self {
        Scratch {
            dummy: Dummy::new(geometry, tile),
            packing: Duration::ZERO,
            updating: Duration::ZERO,
        }
    }
}

/// Runs the tiles of a job: packs, updates, unpacks. With `norms`, one for each of
/// [`Chain::levels_in`], they grow to the greatest changes.
///
/// # Safety
/// * The job's ring is of its chain's geometry, whose width is that of `lanes`, whose skew is the
///   kernel's and whose arrays are its coefficients and one; the machine has the lanes.
/// * The scratch was made for a geometry of the same width, skew and arrays, and for at least the
///   job's tile.
/// * The rows have all rows of [`Chain::rows_in`] (to read, of every array) and
///   [`Chain::rows_out`], but ghost lines (see [`ghosts`](super::ghosts)).
/// * What the contract demands has run before, no other thread runs a tile of this band, and no
///   thread that runs one of another band does so against the contract.
pub(crate) unsafe fn run<E: Real>(
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
        // SAFETY: the caller's conditions.
        unsafe { dispatch(lanes, BringIn(job, &ends)) };
        let packed = Instant::now();
        // SAFETY: as above; the tile's records are packed.
        unsafe { kernel.tile(lanes, job, scratch, &ends, norms.as_deref_mut()) };
        let updated = Instant::now();
        // SAFETY: as above.
        unsafe { dispatch(lanes, BringOut(job, &ends)) };
        scratch.packing += (packed - begun) + updated.elapsed();
        scratch.updating += updated - packed;
        from = to;
    }
}

/// All iterations over the tile, compiled for this kernel and all kinds of lanes.
///
/// # Safety
/// As [`run`]; what the tile reads has been packed.
pub(crate) unsafe fn update<E: Real, U: Update>(
    lanes: Lanes,
    kernel: &U,
    job: &Job<'_, E>,
    scratch: &mut Scratch<E>,
    ends: &Ends,
    norms: Option<&mut [f64]>,
) {
    // SAFETY: the caller's conditions.
    unsafe { dispatch(lanes, Levels { kernel, job, scratch, ends, norms }) }
}

/// A part of [`run`] that is compiled for each kind of lanes.
trait Work<E: Real> {
    /// Does it. To be inlined always.
    ///
    /// # Safety
    /// As [`run`]; `L` are the lanes, whose instructions the processor has.
    unsafe fn with<L: Vector<Element = E>>(self);
}

/// Does the work with these lanes.
///
/// # Safety
/// As [`run`].
unsafe fn dispatch<E: Real, W: Work<E>>(lanes: Lanes, work: W) {
    // SAFETY: the caller's conditions, and the machine has what is asked for.
    unsafe {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => avx2(work),
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => avx512(work),
            #[cfg(target_arch = "aarch64")]
            Lanes::Neon => work.with::<E::Neon<Engine>>(),
            _ => work.with::<E>(),
        }
    }
}

/// # Safety
/// As [`run`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<E: Real, W: Work<E>>(work: W) {
    // SAFETY: the caller's conditions.
    unsafe { work.with::<E::Avx2<Engine>>() }
}

/// # Safety
/// As [`run`]; the processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<E: Real, W: Work<E>>(work: W) {
    // SAFETY: the caller's conditions.
    unsafe { work.with::<E::Avx512<Engine>>() }
}

struct BringIn<'w, 'j, E>(&'w Job<'j, E>, &'w Ends);

impl<E: Real> Work<E> for BringIn<'_, '_, E> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        // SAFETY: the caller's conditions.
        unsafe { bring_in::<L>(self.0, self.1) }
    }
}

struct BringOut<'w, 'j, E>(&'w Job<'j, E>, &'w Ends);

impl<E: Real> Work<E> for BringOut<'_, '_, E> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        // SAFETY: the caller's conditions.
        unsafe { bring_out::<L>(self.0, self.1) }
    }
}

struct Levels<'w, 'j, E, U> {
    kernel: &'w U,
    job: &'w Job<'j, E>,
    scratch: &'w mut Scratch<E>,
    ends: &'w Ends,
    norms: Option<&'w mut [f64]>,
}

impl<E: Real, U: Update> Work<E> for Levels<'_, '_, E, U> {
    #[inline(always)]
    unsafe fn with<L: Vector<Element = E>>(self) {
        // SAFETY: the caller's conditions.
        unsafe { levels::<L, U>(self.kernel, self.job, self.scratch, self.ends, self.norms) }
    }
}

/// A tile: its `g`, and whether it is the first or last of its band.
#[derive(Debug)]
pub(crate) struct Ends {
    from: isize,
    to: isize,
    first: bool,
    last: bool,
}

impl Ends {
    /// The groups of positions between two bounds that depend on where a tile begins and ends.
    #[inline(always)]
    fn groups(&self, g: &Geometry, bound: impl Fn(isize) -> isize) -> Range<isize> {
        let all = g.positions().div_ceil(g.width) as isize;
        let start = if self.first { 0 } else { bound(self.from).clamp(0, all) };
        let end = if self.last { all } else { bound(self.to).clamp(0, all) };
        start..end
    }
}

/// Packs what the tile reads and no tile before it has.
///
/// # Safety
/// As [`run`]; `L` are the lanes.
#[inline(always)]
unsafe fn bring_in<L: Vector>(job: &Job<'_, L::Element>, ends: &Ends) {
    let g = &job.chain.geometry;
    let strips = job.chain.strips_in(job.band);
    for strip in strips.clone() {
        // The first iteration looks as far ahead as the lag.
        let bound = |to: isize| {
            (to + g.lag() as isize - 1 - strip * g.step()).div_euclid(L::WIDTH as isize) + 1
        };
        let groups = ends.groups(g, bound);
        if groups.is_empty() {
            continue;
        }
        // The records that the next strip will fill, and those of a strip that the band before has
        // left behind.
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
            // SAFETY: the caller's conditions.
            unsafe { pack::<L>(g, rows, strip, groups.clone(), to, ahead) };
        }
    }
}

/// Unpacks what the tile has made final.
///
/// # Safety
/// As [`run`]; `L` are the lanes.
#[inline(always)]
unsafe fn bring_out<L: Vector>(job: &Job<'_, L::Element>, ends: &Ends) {
    let g = &job.chain.geometry;
    let behind = (g.lag() * (job.chain.levels - 1)) as isize;
    for strip in job.chain.strips_out(job.band) {
        let bound = |to: isize| (to - behind - strip * g.step()).div_euclid(L::WIDTH as isize);
        let groups = ends.groups(g, bound);
        // SAFETY: the caller's conditions.
        unsafe { unpack::<L>(g, &job.rows_out, strip, groups, job.ring.strip(strip)) };
    }
}

/// All iterations over the tile.
///
/// There is one copy of each loop, as every kernel has them for every kind of lanes: norms are kept
/// by the loop of single iterations only.
///
/// # Safety
/// As [`run`]; `L` are the lanes.
#[inline(always)]
unsafe fn levels<L: Vector, U: Update>(
    kernel: &U,
    job: &Job<'_, L::Element>,
    scratch: &mut Scratch<L::Element>,
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
            // Nor any of their columns.
            level += fuse;
            continue;
        }
        for group in (0..job.chain.band).step_by(TOGETHER) {
            let top = top - level as isize + group as isize;
            let extent = Extent { top, from: ends.from - behind, to: ends.to - behind };
            let mut change = L::splat(0.0);
            // SAFETY: the caller's conditions.
            unsafe { together::<L, U>(kernel, job, scratch, extent, fuse, &mut change) };
            if let Some(norms) = &mut norms {
                let norm = &mut norms[level - all.start];
                *norm = norm.greater(change.greatest());
            }
        }
        level += fuse;
    }
}

/// `fuse` iterations over four strips: at the edges masked, in the middle fused.
///
/// # Safety
/// As [`run`]; `L` are the lanes.
#[inline(always)]
unsafe fn together<L: Vector, U: Update>(
    kernel: &U,
    job: &Job<'_, L::Element>,
    scratch: &mut Scratch<L::Element>,
    extent: Extent,
    fuse: usize,
    change: &mut L,
) {
    let g = &job.chain.geometry;
    let (step, lag, last) = (g.step(), g.lag() as isize, fuse as isize - 1);
    let (highest, lowest) = (extent.top - last, extent.top + TOGETHER as isize - 1);
    let (mut from, mut to) = (extent.to, extent.to);
    if highest >= 0 && g.row(lowest + 1) < g.shape.rows as isize {
        // All rows are interior; the columns are, in iteration t of strips `top - t ..= top - t +
        // 3`, if 1 + skew * (W - 1) <= g - lag * t - step * strip < cols - 1.
        let drift = (lag - step) * last;
        let least = 1 + (g.skew * (L::WIDTH - 1)) as isize + step * lowest + drift.max(0);
        let most = g.shape.cols as isize - 1 + step * extent.top + drift.min(0);
        from = least.clamp(extent.from, extent.to);
        to = most.clamp(from, extent.to);
    }
    // Left edge, middle, right edge.
    for (part, ends) in [(extent.from, from), (from, to), (to, extent.to)].into_iter().enumerate() {
        let extent = Extent { from: ends.0, to: ends.1, ..extent };
        if extent.from >= extent.to {
            continue;
        }
        // SAFETY: the caller's conditions; in the middle all rows and columns are interior, and at
        // the edges what the matrix has not is left out.
        unsafe {
            if part != 1 {
                for t in 0..fuse as isize {
                    let (from, to) = (extent.from - lag * t, extent.to - lag * t);
                    let one = Extent { top: extent.top - t, from, to };
                    masked::<L, U>(kernel, job.ring, &mut scratch.dummy, one, change);
                }
            } else if fuse == FUSED {
                fused::<L, U, FUSED, false>(kernel, job.ring, extent, change);
            } else {
                fused::<L, U, 1, true>(kernel, job.ring, extent, change);
            }
        }
    }
}
