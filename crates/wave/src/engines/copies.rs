//! A pass without levels: it copies fields in memory to their files.
//!
//! # Contract
//! As for [`Worker::piece`], with what comes in as the final values. A member of a team with
//! columns copies its own ones.
//!
//! # Costs
//! A copy of each value.

use std::ops::Range;
use std::time::{Duration, Instant};

use syncline_store::ElementType;

use crate::Result;
use crate::engine::{Bands, Crossing, Engine, Job, Worker};
use crate::team::columns::Members;

/// The bytes of a band, if a slab has less.
const BAND: usize = 1 << 20;
/// The rows of a band of which each member writes a part, if a slab has less: each has a buffer of
/// some blocks.
pub(crate) const ROWS: usize = 32;

/// The copies of a pass.
pub(crate) struct Copies<'a> {
    bands: Bands,
    /// The numbers of rows of a slab, and of columns.
    sizes: (usize, usize),
    elements: Vec<ElementType>,
    members: Option<&'a Members>,
}

impl<'a> Copies<'a> {
    /// Returns the copies of fields with elements of these types, `flight` bands at once.
    pub(crate) fn new(
        ([slabs, rows, cols], flight): ([usize; 3], usize),
        elements: &[ElementType],
        members: Option<&'a Members>,
    ) -> Self {
        let widest = elements.iter().map(|element| element.bytes()).max().unwrap_or(1);
        let band = match members {
            None => BAND / (rows * cols * widest).max(1),
            Some(_) => ROWS / rows,
        };
        let band = band.clamp(1, slabs.max(1));
        let wanted = (0, slabs);
        Copies {
            bands: Bands {
                slabs,
                levels: 1,
                band,
                flight,
                behind: 0,
                late: 0,
                wanted,
                reach: 0,
                more: (0, 0),
            },
            sizes: (rows, cols),
            elements: elements.to_vec(),
            members,
        }
    }
}

impl Engine for Copies<'_> {
    fn bands(&self) -> &Bands {
        &self.bands
    }

    fn walk(&self) -> Range<isize> {
        0..1
    }

    fn ahead(&self) -> usize {
        0
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(self))
    }
}

impl Worker for &Copies<'_> {
    unsafe fn piece(
        &mut self,
        job: &Job<'_>,
        _: &mut Crossing<'_>,
        _: Option<&mut [f64]>,
    ) -> Duration {
        let begun = Instant::now();
        let (rows, cols) = self.sizes;
        for (field, (from, to)) in job.slabs_in.iter().zip(job.slabs_out).enumerate() {
            let bytes = self.elements[field].bytes();
            for slab in self.bands.slabs_in(job.band) {
                for row in 0..rows {
                    let own = self.members.map_or(0..cols, |of| of.columns.own(of.rank, slab, row));
                    let [from, to] = [from, to]
                        .map(|slabs| slabs.row(slab, (row, rows)).wrapping_add(own.start * bytes));
                    // SAFETY: the caller guarantees that the former is readable and the latter
                    // writable, in the columns of the member; a buffer is no array in memory.
                    unsafe { from.cast_const().copy_to_nonoverlapping(to, own.len() * bytes) };
                }
            }
        }
        begun.elapsed()
    }
}
