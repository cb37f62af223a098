//! Chooses the depth, the tiles and the panels of a streamed sweep, from its memory, cache and
//! disk.
//!
//! # Contract
//! [`Question::answer`] returns the plan of a run, or an error with the memory that the smallest
//! plan needs.
//!
//! | number | choice                                                                            |
//! |--------|-----------------------------------------------------------------------------------|
//! | band   | about 128 rows: a tile of all iterations is mostly updates, and fits the L2 cache |
//! | depth  | as given, or the one with the least estimated time, see [`Question::depth_for`]   |
//! | slots  | the threads plus two: one panel is read, one waits to be; at most the panels      |
//! | tile   | as many columns as fit the cache                                                  |
//! | piece  | a sixteenth of the width, or the distance that a band must be ahead               |
//!
//! If no array is on file, there is one slot less. Less memory leads to fewer slots and smaller
//! bands.
//!
//! # The time of a pass
//! The time of a pass is the greater of the disk's time, for the bytes at its measured rate, and
//! the processors' time. The processors pack each value once, and update it once per iteration; the
//! deeper the chain, the narrower are the tiles that the cache holds, and the start of a tile
//! dominates a narrow tile: with tiles of 80 columns (depth 20) an update takes 0.6 ns, with 52
//! (depth 50) 0.9 ns, with 32 (depth 100) 1.2 ns. The optimum is flat: with 3 GiB and 200
//! iterations, passes of 40 to 200 iterations took between 8.3 and 10.5 s.
//!
//! A single pass needs no second copy of the field on the disk, and is chosen if it is at most a
//! quarter slower than the best. A sweep that may converge at any time takes the shortest passes
//! that are at most a quarter slower per iteration than the best, as most of its last pass may be
//! unnecessary.
//!
//! The rate of the disk is probed with a little reading. Rules of thumb did everything in one pass
//! where a file was so small that it measured as slow.
//!
//! # The memory of a run
//! ```text
//! ring     band + depth + 2 strips of all arrays, or all strips  everything else is small:
//! panels   slots * band strips of each array on file             the buffers of the writer and
//! rows out slots * band strips, if the result is on file         of the tasks, below a MiB
//! ```

use syncline_store::Shape;

use crate::lanes::Lanes;
use crate::strip::ghosts::Ghosts;
use crate::strip::tile::Chain;
use crate::strip::{Geometry, TOGETHER};
use crate::{Error, Result, Stencil};

/// The way in which a streamed sweep will use memory, cache and disk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamPlan {
    /// The vector type that it computes with.
    pub lanes: Lanes,
    /// The maximum number of iterations in a pass.
    pub depth: u64,
    /// The number of passes, if no convergence test ends the sweep earlier.
    pub passes: u64,
    /// The number of rows that a task brings in.
    pub rows: usize,
    /// The number of panels, each of that number of rows, in memory at once.
    pub panels: usize,
    /// The number of columns of a tile, which is computed in the cache.
    pub tile: usize,
    /// The number of columns of a task.
    pub piece: usize,
    /// The bytes of all buffers.
    pub memory: u64,
    /// The strips, and the number of them in memory at once.
    pub(crate) geometry: Geometry,
    /// The number of strips in a band.
    pub(crate) band: usize,
}

/// The maximum number of iterations in a pass; a deeper pass is of no use.
const DEEPEST: u64 = 1 << 24;
/// The preferred number of rows in a band.
const BAND_ROWS: usize = 128;
/// The maximum number of strips in a band.
const BAND_MOST: usize = 64;
/// The range of columns in a tile: in a narrower one the start of the loop dominates, and a wider
/// one gains nothing.
const TILE: std::ops::RangeInclusive<usize> = 32..=128;
/// The bytes of a strip of long rows.
const LONG: usize = 8 << 20;
/// The depth for which a smaller band is chosen, instead of a smaller depth.
const WORTH: u64 = 20;
/// Nanoseconds to pack a value; `UPDATE_NS` is that to update a point with four values to a vector,
/// `BEGIN_NS` that to start a tile, per row of it. On a processor of 2022.
const PACK_NS: f64 = 1.3;
const UPDATE_NS: f64 = 0.3;
const BEGIN_NS: f64 = 28.0;
/// Nanoseconds for a tile without work.
const TILE_NS: f64 = 300.0;
/// Nanoseconds of overhead per pass: to make a generation durable, or (`PASS_NS`) only to begin.
const COMMIT_NS: f64 = 5e6;
const PASS_NS: f64 = 1e5;
/// The factor by which a single pass, or short passes, may be slower than the best.
const MORE: f64 = 1.25;
/// Bytes of the buffers that every plan has, and of rounding to huge pages.
const SMALL: u64 = 1 << 20;

#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) shape: Shape,
    /// The bytes of a value.
    pub(crate) value: usize,
    /// The number of arrays: the field and its coefficients.
    pub(crate) arrays: usize,
    /// The number of them on file. `result_on_file` says whether the result is on file.
    pub(crate) on_file: usize,
    pub(crate) result_on_file: bool,
    pub(crate) lanes: Lanes,
    pub(crate) stencil: Stencil,
    pub(crate) iterations: u64,
    /// Whether the sweep may end at any earlier iteration.
    pub(crate) converges: bool,
    pub(crate) depth: Option<u64>,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    /// The bytes of a core's cache.
    pub(crate) cache: u64,
    /// The disk's rate in bytes per second, if known.
    pub(crate) disk: Option<f64>,
}

impl Question {
    /// Returns the strips of a pass of this depth and, as the same numbers determine it, of its
    /// ring.
    pub(crate) fn geometry(&self, depth: usize, band: usize, slots: usize) -> Geometry {
        let width = self.lanes.width(self.value);
        let skew = if self.stencil.corners() { 2 } else { 1 };
        let shape = Ghosts::new(self.shape, self.stencil).shape();
        Geometry { shape, width, skew, arrays: self.arrays, slots: 0 }
            .with_slots(Chain::slots(width, depth, band, slots))
    }

    /// Returns the same question about a matrix with fewer columns.
    pub(crate) fn with_columns(&self, cols: usize) -> Question {
        Question { shape: Shape::new(self.shape.rows, cols), ..self.clone() }
    }

    /// Returns the same question with vectors that the rows fill, if there are fewer rows than a
    /// vector has values and they are long: a strip takes as much memory as if it had all rows.
    pub(crate) fn narrowed(self) -> Self {
        let width = |lanes: &Lanes| lanes.width(self.value);
        let strip = width(&self.lanes) * self.shape.cols * self.value * self.arrays;
        let fits = |lanes: &Lanes| (self.shape.rows..width(&self.lanes)).contains(&width(lanes));
        let lanes = Lanes::available().filter(fits).min_by_key(width);
        Question { lanes: lanes.filter(|_| strip > LONG).unwrap_or(self.lanes), ..self }
    }

    /// Returns the number of rows in a panel.
    fn rows(&self, band: usize) -> usize {
        (band * self.lanes.width(self.value)).min(self.shape.rows)
    }

    /// Returns the bytes of a run.
    fn bytes(&self, depth: u64, band: usize, slots: usize) -> u64 {
        let ring = self.geometry(depth as usize, band, slots).bytes(self.value);
        let norms = if self.converges { 16 * depth } else { 0 };
        // The first band has a row more.
        let rows = (self.rows(band) + 1).min(self.shape.rows);
        let panel = (rows * self.shape.cols * self.value + (16 << 10)) as u64;
        let buffers = self.on_file + usize::from(self.result_on_file);
        // Large buffers occupy whole huge pages.
        let whole =
            |bytes: u64| if bytes >= 2 << 20 { bytes.next_multiple_of(2 << 20) } else { bytes };
        let tables = slots as u64 * 64 * (4 << 10);
        whole(ring) + (slots * buffers) as u64 * whole(panel) + norms + SMALL + tables
    }

    /// Returns the greatest depth, up to `most`, that the memory allows.
    fn deepest(&self, band: usize, slots: usize, most: u64) -> u64 {
        let (mut least, mut most) = (0, most);
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if self.bytes(middle, band, slots) <= self.memory {
                least = middle
            } else {
                most = middle - 1
            }
        }
        least
    }

    pub(crate) fn answer(&self) -> Result<StreamPlan> {
        let iterations = self.iterations.max(1);
        let wanted = self.depth.unwrap_or(iterations).clamp(1, iterations).min(DEEPEST);
        let width = self.lanes.width(self.value);
        let updated = self.stencil.updated(self.shape);
        let strips = updated.rows.div_ceil(width).max(1).next_multiple_of(TOGETHER);
        let widest =
            (BAND_ROWS / width).next_multiple_of(TOGETHER).clamp(TOGETHER, BAND_MOST.min(strips));
        let room = self.threads + if self.on_file > 0 { 2 } else { 1 };
        let mut best = (0, TOGETHER, 2);
        'found: for halves in 0.. {
            let band = ((widest >> halves) / TOGETHER * TOGETHER).max(TOGETHER);
            // More slots than there are panels would stay empty.
            let most = strips.div_ceil(band) + 1;
            for slots in [room, room - 1, 2] {
                let slots = slots.min(most).max(2);
                let depth = self.deepest(band, slots, wanted);
                if depth > best.0 {
                    best = (depth, band, slots);
                }
                if depth >= wanted.min(self.depth.unwrap_or(WORTH)) {
                    break 'found;
                }
            }
            if band == TOGETHER {
                break;
            }
        }
        let (deepest, band, slots) = best;
        if deepest == 0 || self.depth.is_some() && deepest < wanted {
            let least = if self.depth.is_some() { wanted } else { 1 };
            return Err(Error::StreamMemory {
                allowed: self.memory,
                depth: least,
                needed: self.bytes(least, TOGETHER, 2),
                on_team: false,
                instead: Some("run it in blocks"),
            });
        }
        let most = if self.depth.is_some() { deepest } else { self.depth_for(band, deepest) };
        let passes = iterations.div_ceil(most);
        let depth = if self.depth.is_some() { most } else { iterations.div_ceil(passes) };
        let geometry = self.geometry(depth as usize, band, slots);
        let chain = Chain { geometry, levels: depth as usize, band };
        let tile = self.tile(depth, band);
        let piece = (chain.walk().len() / 16).max(chain.ahead()).next_multiple_of(tile);
        Ok(StreamPlan {
            lanes: self.lanes,
            depth,
            passes,
            rows: self.rows(band),
            panels: slots,
            tile,
            piece,
            memory: self.bytes(depth, band, slots),
            geometry,
            band,
        })
    }

    /// Returns the number of columns of a tile of all iterations that fits the cache.
    fn tile(&self, depth: u64, band: usize) -> usize {
        let column = self.column(depth, band);
        ((self.budget() / column) as usize / 16 * 16).clamp(*TILE.start(), *TILE.end())
    }

    /// Returns the bytes of the cache that a tile may take.
    const fn budget(&self) -> u64 {
        self.cache / 5 * 4
    }

    /// Returns the bytes of a column of a tile of all iterations.
    fn column(&self, depth: u64, band: usize) -> u64 {
        (band as u64 + depth) * (self.arrays * self.lanes.width(self.value) * self.value) as u64
    }

    /// Returns the depth, up to `deepest`, whose passes are expected to take the least time.
    fn depth_for(&self, band: usize, deepest: u64) -> u64 {
        let iterations = self.iterations.max(1);
        let mut depths = vec![1];
        while let Some(&last) = depths.last().filter(|&&last| last < deepest) {
            depths.push((last + (last / 8).max(1)).min(deepest));
        }
        let time = |depth: u64| {
            let pass = self.pass_ns(depth, band);
            if self.converges {
                return pass / depth as f64;
            }
            // All passes are given equal depth.
            let passes = iterations.div_ceil(depth);
            self.pass_ns(iterations.div_ceil(passes), band) * passes as f64
        };
        let best = depths.iter().map(|&depth| time(depth)).fold(f64::INFINITY, f64::min);
        let one_pass = deepest >= iterations && time(iterations) <= MORE * best;
        if one_pass && !self.converges && self.result_on_file {
            return iterations;
        }
        let enough = if self.converges { MORE } else { 1.0 };
        depths.into_iter().find(|&depth| time(depth) <= enough * best).unwrap_or(deepest)
    }

    /// Returns the expected nanoseconds of a pass.
    pub(crate) fn pass_ns(&self, depth: u64, band: usize) -> f64 {
        self.pass_of(self.busy_ns(depth, band))
    }

    /// Returns the expected nanoseconds of a pass in which all threads compute for `busy`
    /// nanoseconds.
    pub(crate) fn pass_of(&self, busy: f64) -> f64 {
        let (rows, cols) = (self.shape.rows as f64, self.shape.cols as f64);
        let disk = self.disk.map_or(0.0, |rate| {
            let arrays = self.on_file + usize::from(self.result_on_file);
            rows * cols * (arrays * self.value) as f64 / rate * 1e9
        });
        disk.max(busy / self.threads as f64) + if self.result_on_file { COMMIT_NS } else { PASS_NS }
    }

    /// Returns the expected nanoseconds that all threads compute in a pass.
    pub(crate) fn busy_ns(&self, depth: u64, band: usize) -> f64 {
        let (width, tile) = (self.lanes.width(self.value) as f64, self.tile(depth, band) as f64);
        let (rows, cols, levels) = (self.shape.rows as f64, self.shape.cols as f64, depth as f64);
        let beyond = tile * self.column(depth, band) as f64 / self.budget() as f64;
        let slower = (1.0 + 0.1 * (beyond - 1.0)).clamp(1.0, 2.0);
        let update = (UPDATE_NS + BEGIN_NS / tile) * 4.0 / width * slower;
        let values = rows * cols * (PACK_NS * (1 + self.arrays) as f64 + update * levels);
        let geometry = self.geometry(depth as usize, band, 2);
        let walk = Chain { geometry, levels: depth as usize, band }.walk().len();
        let tiles = (rows / width + levels) / band as f64 * walk as f64 / tile;
        values + tiles * TILE_NS
    }
}

#[cfg(test)]
mod tests;
