//! How deep, how wide: what a streamed sweep does with memory, cache and disk.
//!
//! # Contract
//! [`Question::answer`] gives the numbers of a run, or says how much memory the least one needs.
//!
//! | number  | chosen                                                                                  |
//! |---------|-----------------------------------------------------------------------------------------|
//! | band    | about 128 rows: then a tile of all iterations is mostly updates, and fits the L2 cache  |
//! | depth   | as given, or else: as many iterations as leave a tile in the cache; as many as there is |
//! |         | memory for, if the disk would otherwise be waited for. Then the passes are made equal   |
//! | slots   | the threads and two more: one panel is read, one waits to be                            |
//! | tile    | as many columns as fit the cache                                                        |
//! | piece   | a sixteenth of the width, or as much as a band must be ahead                            |
//!
//! # The memory of a run
//! ```text
//! ring     (band + depth + 2) strips of all arrays                  everything else is small:
//! panels   slots * band strips of each array on file                the buffers of the writer and
//! rows out slots * band strips, if the result is on file            of the tasks, below a MiB
//! ```

use syncline_store::Shape;

use crate::lanes::Lanes;
use crate::strip::tile::Chain;
use crate::strip::{Geometry, TOGETHER};
use crate::{Error, Result};

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
    /// Strips of a band.
    pub(crate) band: usize,
}

/// Rows that a band has at best.
const BAND_ROWS: usize = 128;
/// Strips of a band at most.
const BAND_MOST: usize = 64;
/// Columns of a tile: a loop of fewer is mostly its beginning, and of more gains nothing.
const TILE: std::ops::RangeInclusive<usize> = 32..=128;
/// Iterations that a smaller band is taken for, rather than fewer.
const WORTH: u64 = 20;
/// Nanoseconds that packing a value takes, and updating a point, on a processor of 2020: only to see whether
/// the disk will be waited for.
const PACK_NS: f64 = 1.5;
const UPDATE_NS: f64 = 0.6;
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
    pub(crate) corners: bool,
    pub(crate) iterations: u64,
    pub(crate) depth: Option<u64>,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    /// Bytes of the cache of a core.
    pub(crate) cache: u64,
    /// Bytes per second of the disk, if known.
    pub(crate) disk: Option<f64>,
}

impl Question {
    pub(crate) fn geometry(&self, depth: usize, band: usize, slots: usize) -> Geometry {
        Geometry {
            shape: self.shape,
            width: self.lanes.width(self.value),
            skew: if self.corners { 2 } else { 1 },
            arrays: self.arrays,
            slots: Chain::slots(self.lanes.width(self.value), depth, band, slots),
        }
    }

    /// Bytes of a run.
    fn bytes(&self, depth: u64, band: usize, slots: usize) -> u64 {
        let geometry = self.geometry(depth as usize, band, slots);
        let ring = geometry.bytes(self.value);
        let panel = ((band * geometry.width + 1) * self.shape.cols * self.value + (16 << 10)) as u64;
        let buffers = self.on_file + usize::from(self.result_on_file);
        // Large buffers stand in whole huge pages.
        let whole = if panel >= 2 << 20 { panel.next_multiple_of(2 << 20) } else { panel };
        let tables = slots as u64 * 64 * (4 << 10);
        ring + (slots * buffers) as u64 * whole + SMALL + tables
    }

    /// The greatest depth, up to `most`, that the memory allows.
    fn deepest(&self, band: usize, slots: usize, most: u64) -> u64 {
        let (mut least, mut most) = (0, most.min(1 << 24));
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            if self.bytes(middle, band, slots) <= self.memory { least = middle } else { most = middle - 1 }
        }
        least
    }

    pub(crate) fn answer(&self) -> Result<StreamPlan> {
        let wanted = self.depth.unwrap_or(self.iterations).clamp(1, self.iterations.max(1));
        let width = self.lanes.width(self.value);
        let widest = (BAND_ROWS / width).next_multiple_of(TOGETHER).clamp(TOGETHER, BAND_MOST);
        let room = self.threads + if self.on_file > 0 { 2 } else { 1 };
        let mut best = (0, TOGETHER, 2);
        'found: for halves in 0.. {
            let band = ((widest >> halves) / TOGETHER * TOGETHER).max(TOGETHER);
            for slots in [room, room - 1, 2] {
                let slots = slots.max(2);
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
        if deepest == 0 || self.depth.is_some_and(|depth| deepest < depth.min(self.iterations)) {
            let least = if self.depth.is_some() { wanted } else { 1 };
            return Err(Error::StreamMemory {
                allowed: self.memory,
                depth: least,
                needed: self.bytes(least, TOGETHER, 2),
            });
        }
        let most = if self.depth.is_some() { deepest } else { deepest.min(self.in_cache(band).max(1)) };
        let most = if self.depth.is_none() && self.waits_for_disk(most) { deepest } else { most };
        let passes = self.iterations.div_ceil(most).max(1);
        let depth = if self.depth.is_some() { most } else { self.iterations.div_ceil(passes).max(1) };
        let geometry = self.geometry(depth as usize, band, slots);
        let chain = Chain { geometry, levels: depth as usize, band };
        let fits = self.budget() / self.strip_bytes() / (band as u64 + depth);
        let tile = ((fits as usize) / 16 * 16).clamp(*TILE.start(), *TILE.end());
        let piece = (chain.walk().len() / 16).max(chain.ahead()).next_multiple_of(tile);
        Ok(StreamPlan {
            lanes: self.lanes,
            depth,
            passes,
            rows: band * width,
            panels: slots,
            tile,
            piece,
            memory: self.bytes(depth, band, slots),
            band,
        })
    }

    /// Bytes of the cache that a tile may take.
    const fn budget(&self) -> u64 {
        self.cache / 5 * 4
    }

    /// Bytes of a strip, per column.
    fn strip_bytes(&self) -> u64 {
        (self.arrays * self.lanes.width(self.value) * self.value) as u64
    }

    /// The iterations of which the narrowest tile is in the cache.
    fn in_cache(&self, band: usize) -> u64 {
        (self.budget() / self.strip_bytes() / *TILE.start() as u64).saturating_sub(band as u64).max(WORTH)
    }

    /// Whether a pass of so many iterations takes the disk longer than the processors.
    fn waits_for_disk(&self, depth: u64) -> bool {
        let Some(rate) = self.disk else {
            return false;
        };
        let disk = (self.on_file * self.value) as f64 / rate * 1e9;
        let scale = 4.0 / self.lanes.width(self.value) as f64;
        let processors =
            (PACK_NS * self.arrays as f64 + UPDATE_NS * scale * depth as f64) / self.threads as f64;
        disk > processors
    }
}

/// Bytes of the second cache of a core, as the kernel tells; or a guess that is small.
pub(crate) fn cache_bytes() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let kibibytes = text.ok().and_then(|t| t.trim().strip_suffix('K')?.parse::<u64>().ok());
    kibibytes.map_or(512 << 10, |k| (k << 10).clamp(256 << 10, 4 << 20))
}
