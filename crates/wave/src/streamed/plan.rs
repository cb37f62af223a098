//! How deep, how wide: what a streamed sweep does with memory, cache and disk.
//!
//! # Contract
//! [`Question::answer`] gives the numbers of a run, or says how much memory the least one needs.
//!
//! | number  | chosen                                                                                  |
//! |---------|-----------------------------------------------------------------------------------------|
//! | band    | about 128 rows: then a tile of all iterations is mostly updates, and fits the L2 cache  |
//! | depth   | as given, or else the one with the least estimated time, see [`Question::depth_for`]    |
//! | slots   | the threads and two more: one panel is read, one waits to be; not more than panels      |
//! | tile    | as many columns as fit the cache                                                        |
//! | piece   | a sixteenth of the width, or as much as a band must be ahead                            |
//!
//! # The time of a pass
//! The greater of what the disk takes, for the bytes at its measured rate, and what the processors
//! take. Per value they pack once, per iteration they update; the deeper the chain, the narrower
//! are the tiles that the cache holds, and a narrow tile is mostly its beginning: with tiles of 80
//! columns (depth 20) an update takes 0.6 ns, of 52 (50) 0.9, of 32 (100) 1.2. The optimum is flat:
//! with 3 GiB and 200 iterations, passes of 40 to 200 took between 8.3 and 10.5 s.
//!
//! One pass needs no second copy of the field on the disk, and is taken if it is at most a quarter
//! slower than the best. A sweep that may converge at any time takes the shortest passes that are
//! at most a quarter slower per iteration than the best, as it may do most of a pass for nothing.
//!
//! # The memory of a run
//! ```text
//! ring     band + depth + 2 strips of all arrays, or all there are  everything else is small:
//! panels   slots * band strips of each array on file                the buffers of the writer and
//! rows out slots * band strips, if the result is on file            of the tasks, below a MiB
//! ```

use syncline_store::Shape;

use crate::lanes::Lanes;
use crate::strip::ghosts::Ghosts;
use crate::strip::tile::Chain;
use crate::strip::{Geometry, TOGETHER};
use crate::{Error, Result, Stencil};

/// What a streamed sweep will do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamPlan {
    /// The vectors that it computes with.
    pub lanes: Lanes,
    /// Iterations of a pass, at most.
    pub depth: u64,
    /// Passes, if no convergence test ends the sweep before.
    pub passes: u64,
    /// Rows that a task brings in.
    pub rows: usize,
    /// Panels of as many rows in memory at once.
    pub panels: usize,
    /// Columns of a tile: what is computed in the cache.
    pub tile: usize,
    /// Columns of a task.
    pub piece: usize,
    /// Bytes of all buffers.
    pub memory: u64,
    /// Strips, and how many are in memory at once.
    pub(crate) geometry: Geometry,
    /// Strips of a band.
    pub(crate) band: usize,
}

/// Iterations of a pass at most: more are beyond all use.
const DEEPEST: u64 = 1 << 24;
/// Rows that a band has at best.
const BAND_ROWS: usize = 128;
/// Strips of a band at most.
const BAND_MOST: usize = 64;
/// Columns of a tile: a loop of fewer is mostly its beginning, and of more gains nothing.
const TILE: std::ops::RangeInclusive<usize> = 32..=128;
/// Iterations that a smaller band is taken for, rather than fewer.
const WORTH: u64 = 20;
/// Nanoseconds that packing a value takes, and updating a point with four values to a vector; of a
/// tile's beginning per row of it. On a processor of 2022.
const PACK_NS: f64 = 1.3;
const UPDATE_NS: f64 = 0.3;
const BEGIN_NS: f64 = 28.0;
/// Nanoseconds that a tile takes which has nothing to do.
const TILE_NS: f64 = 300.0;
/// Nanoseconds that a pass takes besides: to make a generation last, or only to begin.
const COMMIT_NS: f64 = 5e6;
const PASS_NS: f64 = 1e5;
/// What one pass may take more than the best, and short passes more than the best.
const MORE: f64 = 1.25;
/// Buffers that are there whatever the plan, and rounding to huge pages.
const SMALL: u64 = 1 << 20;

pub(crate) struct Question {
    pub(crate) shape: Shape,
    /// Bytes of a value.
    pub(crate) value: usize,
    /// The field and its coefficients.
    pub(crate) arrays: usize,
    /// How many of them are on file, and whether the result is.
    pub(crate) on_file: usize,
    pub(crate) result_on_file: bool,
    pub(crate) lanes: Lanes,
    pub(crate) stencil: Stencil,
    pub(crate) iterations: u64,
    /// Whether it may end at any iteration before.
    pub(crate) converges: bool,
    pub(crate) depth: Option<u64>,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    /// Bytes of the cache of a core.
    pub(crate) cache: u64,
    /// Bytes per second of the disk, if known.
    pub(crate) disk: Option<f64>,
}

impl Question {
    /// The strips of a pass of this depth and, as the same numbers tell, of its ring.
    fn geometry(&self, depth: usize, band: usize, slots: usize) -> Geometry {
        let width = self.lanes.width(self.value);
        let skew = if self.stencil.corners() { 2 } else { 1 };
        let shape = Ghosts::new(self.shape, self.stencil).shape();
        Geometry { shape, width, skew, arrays: self.arrays, slots: 0 }
            .with_slots(Chain::slots(width, depth, band, slots))
    }

    /// Rows of a panel.
    fn rows(&self, band: usize) -> usize {
        (band * self.lanes.width(self.value)).min(self.shape.rows)
    }

    /// Bytes of a run.
    fn bytes(&self, depth: u64, band: usize, slots: usize) -> u64 {
        let ring = self.geometry(depth as usize, band, slots).bytes(self.value);
        let norms = if self.converges { 16 * depth } else { 0 };
        let panel = ((self.rows(band) + 1) * self.shape.cols * self.value + (16 << 10)) as u64;
        let buffers = self.on_file + usize::from(self.result_on_file);
        // Large buffers stand in whole huge pages.
        let whole =
            |bytes: u64| if bytes >= 2 << 20 { bytes.next_multiple_of(2 << 20) } else { bytes };
        let tables = slots as u64 * 64 * (4 << 10);
        whole(ring) + (slots * buffers) as u64 * whole(panel) + norms + SMALL + tables
    }

    /// The greatest depth, up to `most`, that the memory allows.
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
            // More than there are panels would stay empty.
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

    /// Columns of a tile of all iterations that are in the cache.
    fn tile(&self, depth: u64, band: usize) -> usize {
        let column = self.column(depth, band);
        ((self.budget() / column) as usize / 16 * 16).clamp(*TILE.start(), *TILE.end())
    }

    /// Bytes of the cache that a tile may take.
    const fn budget(&self) -> u64 {
        self.cache / 5 * 4
    }

    /// Bytes of a column of a tile of all iterations.
    fn column(&self, depth: u64, band: usize) -> u64 {
        (band as u64 + depth) * (self.arrays * self.lanes.width(self.value) * self.value) as u64
    }

    /// The depth, up to `deepest`, whose passes are expected to take the least time.
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
            // Passes are made equal.
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

    /// What a pass is expected to take.
    fn pass_ns(&self, depth: u64, band: usize) -> f64 {
        let (width, tile) = (self.lanes.width(self.value) as f64, self.tile(depth, band) as f64);
        let (rows, cols, levels) = (self.shape.rows as f64, self.shape.cols as f64, depth as f64);
        let disk = self.disk.map_or(0.0, |rate| {
            let arrays = self.on_file + usize::from(self.result_on_file);
            rows * cols * (arrays * self.value) as f64 / rate * 1e9
        });
        let beyond = tile * self.column(depth, band) as f64 / self.budget() as f64;
        let slower = (1.0 + 0.1 * (beyond - 1.0)).clamp(1.0, 2.0);
        let update = (UPDATE_NS + BEGIN_NS / tile) * 4.0 / width * slower;
        let values = rows * cols * (PACK_NS * (1 + self.arrays) as f64 + update * levels);
        let geometry = self.geometry(depth as usize, band, 2);
        let walk = Chain { geometry, levels: depth as usize, band }.walk().len();
        let tiles = (rows / width + levels) / band as f64 * walk as f64 / tile;
        let processors = (values + tiles * TILE_NS) / self.threads as f64;
        disk.max(processors) + if self.result_on_file { COMMIT_NS } else { PASS_NS }
    }
}

/// Bytes of the second cache of a core, as the kernel tells; or a guess that is small.
pub(crate) fn cache_bytes() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let kibibytes = text.ok().and_then(|t| t.trim().strip_suffix('K')?.parse::<u64>().ok());
    kibibytes.map_or(512 << 10, |k| (k << 10).clamp(256 << 10, 4 << 20))
}

#[cfg(test)]
mod tests;
