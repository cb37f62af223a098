//! Strips: ordered kernels of one real type in two dimensions, with rows side by side in a vector.
//!
//! # Contract
//! As for [`Worker::piece`]. A kernel updates one field down and to the right, reads neighbours
//! that touch the point, and coefficients at the point; edges stay. The arrays are of one type.
//!
//! ```text
//!   slabs in             ring of strips                          slabs out
//!                     ┌─ level 0: the strips of band b     ─┐
//!  field ▤▤▤ ──pack──>│  level 1: one strip higher          │──unpack──> ▤▤▤ field
//!  others ▤▤▤ ──pack──>│  ...                                │
//!                     └─ level n: n strips higher          ─┘
//! ```
//!
//! A slab is a row. [`strip`](crate::strip) has the layout, [`tile`] the chain of levels over the
//! strips of a band, and [`Bands`] count rows as the chain does: the first band also has the row
//! above the first strip.
//!
//! # Costs
//! Per element and pass one transposition in and one out. The ring has `band + levels` strips of
//! all arrays, and is kept from pass to pass.
//!
//! # Source
//! Time skewing and skewed vectors: see [`strip`](crate::strip).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_kernel::dynamic::Kernel;
use syncline_store::{ElementType, Shape};

use crate::Result;
use crate::engine::{self, Bands, Crossing, Engine, Slabs, Worker};
use crate::lanes::{Lanes, Real};
use crate::run::scheme::{Engines, Extent, OwnColumns, Scheme};
use crate::streamed::StreamPlan;
use crate::strip::Ring;
use crate::strip::ghosts::Ghosts;
use crate::strip::pack::Rows;
use crate::strip::tile::{self, Chain, Job, Scratch};
use crate::sweep::SweepPlan;

/// Passes of a kernel over strips.
pub(crate) struct ByStrips<'k, E> {
    kernel: Arc<dyn Kernel<E> + 'k>,
    plan: StreamPlan,
    shape: Shape,
    ghosts: Ghosts,
    /// Made in the first pass.
    ring: Mutex<Option<Arc<Ring<E>>>>,
}

impl<'k, E: Real> ByStrips<'k, E> {
    pub(crate) fn new(kernel: Arc<dyn Kernel<E> + 'k>, plan: StreamPlan, shape: Shape) -> Self {
        let ghosts = Ghosts::new(shape, kernel.stencil());
        ByStrips { kernel, plan, shape, ghosts, ring: Mutex::default() }
    }

    /// Returns the chain of a pass of `levels` iterations.
    fn chain(&self, levels: usize) -> Chain {
        Chain { geometry: self.plan.geometry, levels, band: self.plan.band }
    }

    fn ring(&self) -> Result<Arc<Ring<E>>> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = &*ring {
            return Ok(Arc::clone(ring));
        }
        Ok(Arc::clone(ring.insert(Arc::new(Ring::new(self.plan.geometry)?))))
    }
}

impl<E: Real> Scheme for ByStrips<'_, E> {
    fn plan(&self) -> SweepPlan {
        SweepPlan::Streamed(self.plan)
    }

    fn fields(&self) -> usize {
        1
    }

    fn has_points(&self) -> bool {
        self.kernel.stencil().updated(self.shape).elements() > 0
    }

    fn directions(&self) -> usize {
        1
    }

    fn is_up(&self, _: u64) -> bool {
        false
    }

    fn in_place(&self) -> bool {
        true
    }

    fn tasks(&self, extent: &Extent, _: &OwnColumns) -> u64 {
        let chain = self.chain(extent.levels);
        (chain.bands() * chain.walk().len().div_ceil(self.plan.piece)) as u64
    }

    fn engines<'e>(
        &'e self,
        extent: &Extent,
        _: &[ElementType],
        _: &[Option<Slabs>],
        _: &OwnColumns,
    ) -> Result<Engines<'e>> {
        let chain = self.chain(extent.levels);
        let engine = Strips {
            kernel: &*self.kernel,
            lanes: self.plan.lanes,
            tile: self.plan.tile,
            bands: bands(&chain, &self.ghosts, self.plan.panels),
            chain,
            cols: self.shape.cols,
            ghosts: self.ghosts,
            ring: self.ring()?,
        };
        Ok(vec![(Box::new(engine), self.plan.piece)])
    }
}

/// Returns the bands of a chain, in rows of the matrix without its ghost lines.
fn bands(chain: &Chain, ghosts: &Ghosts, flight: usize) -> Bands {
    let (width, slabs) = (chain.geometry.width, ghosts.matrix().rows);
    // Row 0 of the strips is above strip 0, and it may be a ghost line, as may be the last one.
    let [above, below] = ghosts.lines();
    Bands {
        slabs,
        levels: chain.levels,
        band: chain.band * width,
        more: (1 - above, below),
        flight,
        behind: width,
        late: 0,
        wanted: (0, slabs),
        reach: 0,
    }
}

/// One pass.
struct Strips<'k, E> {
    kernel: &'k dyn Kernel<E>,
    lanes: Lanes,
    tile: usize,
    bands: Bands,
    chain: Chain,
    cols: usize,
    ghosts: Ghosts,
    ring: Arc<Ring<E>>,
}

impl<E: Real> Engine for Strips<'_, E> {
    fn bands(&self) -> &Bands {
        &self.bands
    }

    fn levels_in(&self, band: usize) -> Range<usize> {
        self.chain.levels_in(band)
    }

    fn walk(&self) -> Range<isize> {
        self.chain.walk()
    }

    fn ahead(&self) -> usize {
        1
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        let scratch = Scratch::new(&self.chain.geometry, self.tile);
        Ok(Box::new(Thread { engine: self, scratch, rows: Vec::new() }))
    }
}

/// What one thread needs to run pieces.
struct Thread<'p, E> {
    engine: &'p Strips<'p, E>,
    scratch: Scratch<E>,
    rows: Vec<(usize, Rows<E>)>,
}

impl<E: Real> Strips<'_, E> {
    /// Returns some rows of an array, as strips count them.
    fn rows(&self, slabs: &Slabs, rows: &Range<usize>) -> Rows<E> {
        // What is beyond the first row that is there, if none is wanted, is never accessed.
        let first = rows.start.max(slabs.first);
        self.ghosts.place(Rows {
            start: slabs.row(first, (0, 1)).cast(),
            first,
            end: rows.end.max(first),
            left: 0,
            right: self.cols,
            pitch: slabs.pitch / E::BYTES,
        })
    }
}

impl<E: Real> Worker for Thread<'_, E> {
    unsafe fn piece(
        &mut self,
        job: &engine::Job<'_>,
        _: &mut Crossing<'_>,
        norms: Option<&mut [f64]>,
    ) -> Duration {
        let engine = self.engine;
        let (rows_in, walk) = (engine.bands.slabs_in(job.band), engine.chain.walk());
        let arrays = job.slabs_in.iter().map(|slabs| engine.rows(slabs, &rows_in));
        self.rows.clear();
        self.rows.extend(arrays.enumerate());
        let job = Job {
            chain: &engine.chain,
            ring: &engine.ring,
            band: job.band,
            columns: job.range.0.max(walk.start)..job.range.1.min(walk.end),
            rows_in: &self.rows,
            rows_out: engine.rows(&job.slabs_out[0], &engine.bands.slabs_out(job.band)),
            tile: engine.tile,
        };
        // SAFETY:
        // * the ring has the chain's geometry, and was made for these lanes, which the caller
        //   guarantees to be available, and for this kernel's corners and arrays;
        // * the scratch was made for this geometry and this tile;
        // * the slabs contain the rows that come in, and there is room for those that are final;
        // * the piece to the left has run before this one, and the band above has run one piece
        //   further, which is at least `Chain::ahead` columns, as the caller guarantees;
        // * the band that is the number of bands in flight before has ended, so the ring has slots
        //   for all bands in flight, see `Chain::slots`.
        unsafe { tile::run(engine.lanes, engine.kernel, &job, &mut self.scratch, norms) };
        self.scratch.updating = Duration::ZERO;
        std::mem::take(&mut self.scratch.packing)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;
    use crate::strip::Geometry;
    use crate::{Neighbour, Stencil};

    proptest! {
        #![proptest_config(property(1000))]

        #[test]
        fn bands_have_the_rows_of_the_chain(
            (rows, cols) in (1_usize..90, 3_usize..6),
            width in prop::sample::select(vec![1, 2, 4, 8, 16]),
            (strips, levels, flight) in (1_usize..4, 1_usize..20, 1_usize..5),
            chosen in prop::collection::vec(any::<bool>(), 8),
        ) {
            let of = Neighbour::ALL.into_iter().zip(chosen).filter(|(_, chosen)| *chosen);
            let of: Vec<Neighbour> = of.map(|(neighbour, _)| neighbour).collect();
            let ghosts = Ghosts::new(Shape::new(rows, cols), Stencil::of(&of));
            prop_assume!(ghosts.shape().rows >= 3);
            let (shape, band) = (ghosts.shape(), strips * crate::strip::TOGETHER);
            let geometry = Geometry { shape, width, skew: 1, arrays: 1, slots: 9 };
            let chain = Chain { geometry, levels, band };
            let bands = bands(&chain, &ghosts, flight);
            prop_assert_eq!(bands.count(), chain.bands());
            for band in 0..chain.bands() + 2 {
                prop_assert_eq!(bands.slabs_in(band), ghosts.rows(chain.rows_in(band)));
                prop_assert!(bands.slabs_in(band).len() <= bands.most_slabs());
                prop_assert!(bands.slabs_out(band).len() <= bands.most_slabs());
            }
            for band in 0..chain.bands() {
                prop_assert_eq!(bands.slabs_out(band), ghosts.rows(chain.rows_out(band)));
            }
        }
    }
}
