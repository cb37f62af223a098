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
//! # On a team
//! The members have the columns of [`Cuts`] of the chain, so of each number of levels others, and
//! rings of their own. What crosses a cut forward are the values eastward of [`cut`], and what
//! crosses it back those westward. So a member follows its western neighbour by about one band.
//!
//! # Costs
//! Per element and pass one transposition in and one out. The ring has `band + levels` strips of
//! all arrays, and is kept from pass to pass. The overlap of the columns at a cut is packed by both
//! members.
//!
//! Packing is no task of its own: it would carry every value to memory and back once more. Inside a
//! tile it works on values that are in the cache, or are about to be.
//!
//! # Source
//! Time skewing and skewed vectors: see [`strip`](crate::strip). Clauss and Gustedt (PDP 2010) name
//! the distributed case as future work.
//!
//! [`cut`]: crate::strip::cut

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use syncline_kernel::dynamic::Kernel;
use syncline_store::{ElementType, Shape};

use crate::engine::{self, Bands, Crossing, Engine, Slabs, Worker};
use crate::lanes::{Lanes, Real};
use crate::run::scheme::{Engines, Extent, Scheme};
use crate::strip::Ring;
use crate::strip::cut::{Cuts, Share};
use crate::strip::ghosts::Ghosts;
use crate::strip::pack::Rows;
use crate::strip::plan::StreamPlan;
use crate::strip::tile::{self, Chain, Job, Scratch};
use crate::sweep::SweepPlan;
use crate::team::columns::Columns;
use crate::{Error, Result};

/// Passes of a kernel over strips.
pub(crate) struct ByStrips<'k, E> {
    kernel: Arc<dyn Kernel<E> + 'k>,
    plan: StreamPlan,
    shape: Shape,
    ghosts: Ghosts,
    /// The number of members of a team, and that of this one.
    team: Option<(usize, usize)>,
    /// That of the last pass.
    ring: Mutex<Option<Arc<Ring<E>>>>,
}

impl<'k, E: Real> ByStrips<'k, E> {
    pub(crate) fn new(
        kernel: Arc<dyn Kernel<E> + 'k>,
        plan: StreamPlan,
        shape: Shape,
        team: Option<(usize, usize)>,
    ) -> Self {
        let ghosts = Ghosts::new(shape, kernel.stencil());
        ByStrips { kernel, plan, shape, ghosts, team, ring: Mutex::default() }
    }

    /// Returns the chain of a pass of `levels` iterations.
    fn chain(&self, levels: usize) -> Chain {
        Chain { geometry: self.plan.geometry, levels, band: self.plan.band }
    }

    /// Returns the cuts of a pass on a team, and the number of this member.
    fn cuts(&self, levels: usize) -> Result<Option<(Cuts, usize)>> {
        let Some((members, rank)) = self.team else { return Ok(None) };
        let cuts = Cuts::new(self.chain(levels), self.plan.piece, members);
        Ok(Some((cuts.map_err(|most| Error::Members { members, most })?, rank)))
    }

    /// Returns the ring of a pass. No pass runs that has the one before.
    fn ring(&self, share: Option<&Share>) -> Result<Arc<Ring<E>>> {
        let mut kept = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ring = kept.take().and_then(Arc::into_inner);
        if let Some(share) = share {
            share.fit(&mut ring)?;
        }
        let ring = ring.map_or_else(|| Ring::new(self.plan.geometry), Ok)?;
        Ok(Arc::clone(kept.insert(Arc::new(ring))))
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

    fn columns(&self, levels: usize) -> Option<Arc<dyn Columns>> {
        let levels = if levels == 0 { self.plan.depth as usize } else { levels };
        let (cuts, _) = self.cuts(levels).ok()??;
        let shares = (0..cuts.hosts()).map(|member| cuts.share(member)).collect();
        Some(Arc::new(StripColumns { shares, ghosts: self.ghosts }))
    }

    fn tasks(&self, extent: &Extent) -> u64 {
        let chain = self.chain(extent.levels);
        let pieces = match self.cuts(extent.levels) {
            Ok(Some((cuts, rank))) => cuts.share(rank).pieces(),
            _ => chain.walk().len().div_ceil(self.plan.piece),
        };
        (chain.bands() * pieces) as u64
    }

    fn engines<'e>(
        &'e self,
        extent: &Extent,
        _: &[ElementType],
        _: &[Option<Slabs>],
    ) -> Result<Engines<'e>> {
        let (chain, cuts) = (self.chain(extent.levels), self.cuts(extent.levels)?);
        let share = cuts.as_ref().map(|(cuts, rank)| cuts.share(*rank));
        let engine = Strips {
            kernel: &*self.kernel,
            lanes: self.plan.lanes,
            tile: self.plan.tile,
            bands: bands(&chain, &self.ghosts, self.plan.panels),
            chain,
            ghosts: self.ghosts,
            ring: self.ring(share.as_ref())?,
            cuts: cuts.map(|(cuts, _)| cuts),
            share,
        };
        Ok(vec![(Box::new(engine), self.plan.piece)])
    }
}

/// The columns of the members in a pass of strips.
#[derive(Clone, Debug)]
pub(crate) struct StripColumns {
    shares: Vec<Share>,
    ghosts: Ghosts,
}

impl Columns for StripColumns {
    fn members(&self) -> usize {
        self.shares.len()
    }

    fn size(&self) -> (usize, usize) {
        (1, self.ghosts.matrix().cols)
    }

    fn own(&self, member: usize, slab: usize, _: usize) -> Range<usize> {
        self.ghosts.columns(self.shares[member].columns_out(self.ghosts.row(slab)))
    }

    fn owned(&self, member: usize) -> Range<usize> {
        self.ghosts.columns(self.shares[member].all_columns_out())
    }

    fn reads(&self, member: usize) -> Range<usize> {
        self.ghosts.columns(self.shares[member].columns_in())
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
    ghosts: Ghosts,
    ring: Arc<Ring<E>>,
    /// On a team: the cuts between all members, and the share of this one.
    cuts: Option<Cuts>,
    share: Option<Share>,
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

    fn pieces(&self, member: usize, piece: usize) -> Vec<(isize, isize)> {
        let Some(cuts) = &self.cuts else { return engine::pieces(self.walk(), None, piece) };
        let share = cuts.share(member);
        let pieces = (0..share.pieces()).map(|piece| share.piece(piece));
        pieces.map(|columns| (columns.start, columns.end)).collect()
    }

    fn crossing_bytes(&self, cut: usize) -> [usize; 2] {
        let Some(cut) = self.cuts.as_ref().and_then(|cuts| cuts.share(cut).east) else {
            return [0, 0];
        };
        let bands = 0..self.chain.bands();
        let lens = bands.map(|band| [cut.eastward_len(band), cut.westward_len(band)]);
        let most = lens.reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])]).unwrap_or_default();
        most.map(|values| values * E::BYTES)
    }

    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        let scratch = Scratch::new(&self.chain.geometry, self.tile);
        Ok(Box::new(Thread { engine: self, scratch, rows: Vec::new(), finals: None }))
    }
}

/// What one thread needs to run pieces.
struct Thread<'p, E> {
    engine: &'p Strips<'p, E>,
    scratch: Scratch<E>,
    rows: Vec<(usize, Rows<E>)>,
    /// The columns that contain those which this member finishes in a band.
    finals: Option<(usize, Range<usize>)>,
}

impl<E: Real> Strips<'_, E> {
    /// Returns some columns of rows of an array, as strips count them.
    fn rows(&self, slabs: &Slabs, rows: &Range<usize>, columns: Range<usize>) -> Rows<E> {
        // What is beyond the first row that is there, if none is wanted, is never accessed.
        let first = rows.start.max(slabs.first);
        self.ghosts.place(Rows {
            start: slabs.row(first, (0, 1)).cast(),
            first,
            end: rows.end.max(first),
            left: columns.start,
            right: columns.end,
            pitch: slabs.pitch / E::BYTES,
        })
    }

    /// Returns the rows of an array that come in, in the columns that this member reads.
    fn rows_in(&self, slabs: &Slabs, rows: &Range<usize>) -> Rows<E> {
        let all = self.rows(slabs, rows, 0..self.ghosts.matrix().cols);
        self.share.as_ref().map_or(all, |share| share.clip(all))
    }

    /// Returns columns that contain those which this member finishes of some rows.
    fn columns_out(&self, rows: &Range<usize>) -> Range<usize> {
        let Some(share) = &self.share else { return 0..self.ghosts.matrix().cols };
        let own = rows.clone().map(|row| share.columns_out(self.ghosts.row(row)));
        let own = own.map(|own| self.ghosts.columns(own)).filter(|own| !own.is_empty());
        let all = own.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        all.unwrap_or(0..0)
    }
}

impl<E: Real> Thread<'_, E> {
    /// Runs the tiles of a job, between what comes in at the cuts and what goes out there.
    ///
    /// # Safety
    /// Those of [`tile::run`], but for the scratch, and those of [`Worker::piece`].
    unsafe fn run(
        &mut self,
        job: &Job<'_, E>,
        crossing: &mut Crossing<'_>,
        norms: Option<&mut [f64]>,
    ) {
        let Strips { kernel, lanes, ring, share, .. } = self.engine;
        let (band, lanes) = (job.band, *lanes);
        let [west, east] = share.as_ref().map_or([None, None], |share| [share.west, share.east]);
        // SAFETY: the caller guarantees the conditions of the tiles; the scratch was made for this
        // geometry and this tile. The first piece has the values from the west of this band, and
        // the last one those from the east of the band before: the pieces that export them have
        // run. They are imported before the tiles of the piece, and exported after them, by the
        // same task; consecutive bands of these pieces run one after the other. So the order is
        // that of `cut::message`.
        unsafe {
            if let (Some(cut), Some(values)) = (west, crossing.from_before) {
                // A location has at least a byte, also where nothing crosses.
                let values = &values[..cut.eastward_len(band) * E::BYTES];
                cut.import_west(lanes, job, bytemuck::cast_slice(values));
            }
            if let (Some(cut), Some(values), Some(above)) =
                (east, crossing.from_after, band.checked_sub(1))
            {
                let values = &values[..cut.westward_len(above) * E::BYTES];
                cut.import_east(ring, above, bytemuck::cast_slice(values));
            }
            tile::run(lanes, *kernel, job, &mut self.scratch, norms);
            if let (Some(cut), Some(values)) = (west, crossing.to_before.take()) {
                let values = &mut values[..cut.westward_len(band) * E::BYTES];
                cut.export_west(ring, band, bytemuck::cast_slice_mut(values));
                crossing.to_before = Some(values);
            }
            if let (Some(cut), Some(values)) = (east, crossing.to_after.take()) {
                let values = &mut values[..cut.eastward_len(band) * E::BYTES];
                cut.export_east(lanes, job, bytemuck::cast_slice_mut(values));
                crossing.to_after = Some(values);
            }
        }
    }
}

impl<E: Real> Worker for Thread<'_, E> {
    unsafe fn piece(
        &mut self,
        job: &engine::Job<'_>,
        crossing: &mut Crossing<'_>,
        norms: Option<&mut [f64]>,
    ) -> Duration {
        let engine = self.engine;
        let (rows_in, walk) = (engine.bands.slabs_in(job.band), engine.chain.walk());
        let rows_out = engine.bands.slabs_out(job.band);
        let (chain, ghosts) = (&engine.chain, &engine.ghosts);
        debug_assert_eq!(rows_in, ghosts.rows(chain.rows_in(job.band)));
        debug_assert_eq!(rows_out, ghosts.rows(chain.rows_out(job.band)));
        if self.finals.as_ref().is_none_or(|(band, _)| *band != job.band) {
            self.finals = Some((job.band, engine.columns_out(&rows_out)));
        }
        let columns = self.finals.as_ref().map_or(0..0, |(_, columns)| columns.clone());
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        let arrays = job.slabs_in.iter().map(|slabs| engine.rows_in(slabs, &rows_in));
        rows.extend(arrays.enumerate());
        let job = Job {
            chain: &engine.chain,
            ring: &engine.ring,
            band: job.band,
            columns: job.range.0.max(walk.start)..job.range.1.min(walk.end),
            rows_in: &rows,
            rows_out: engine.rows(&job.slabs_out[0], &rows_out, columns),
            tile: engine.tile,
        };
        // SAFETY:
        // * the ring has the chain's geometry, the window of the share, and was made for these
        //   lanes, which the caller guarantees to be available, and for this kernel's corners and
        //   arrays;
        // * the slabs contain the rows that come in, and there is room for those that are final:
        //   all columns of the share. Members finish different columns, and the vector of positions
        //   at a cut is finished by the eastern member, after the western one: see `strip::cut`;
        // * the piece to the left has run before this one, and the band above has run one piece
        //   further, which is at least `Chain::ahead` columns, as the caller guarantees;
        // * the band that is the number of bands in flight before has ended, so the ring has slots
        //   for all bands in flight, see `Chain::slots`.
        unsafe { self.run(&job, crossing, norms) };
        self.rows = rows;
        self.scratch.updating = Duration::ZERO;
        std::mem::take(&mut self.scratch.packing)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;
    use crate::strip::Geometry;
    use crate::{Neighbour, Stencil};

    /// Returns the columns of members in a pass of some levels over bands of four strips of four
    /// rows, if there are enough.
    pub(crate) fn columns_of(
        shape: Shape,
        stencil: Stencil,
        levels: usize,
        members: usize,
    ) -> Option<Arc<dyn Columns>> {
        let (ghosts, band) = (Ghosts::new(shape, stencil), 4);
        let skew = if stencil == Stencil::NINE_POINT { 2 } else { 1 };
        let whole = Geometry { shape: ghosts.shape(), width: 4, skew, arrays: 1, slots: 0 };
        let geometry = whole.with_slots(Chain::slots(4, levels, band, 2));
        let chain = Chain { geometry, levels, band };
        let cuts = Cuts::new(chain, chain.ahead(), members).ok()?;
        let shares = (0..members).map(|member| cuts.share(member)).collect();
        Some(Arc::new(StripColumns { shares, ghosts }))
    }

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
