//! The numbers of passes of ordered rules: the skew of a window, the distance of levels, and what
//! fits together.

use std::ops::Range;

use syncline_kernel::rule::{Direction, Edge, Rule};
use syncline_store::ElementType;

use super::window::Window;
use crate::engine::Bands;

/// The positions by which a window moves at once.
pub(super) const STEP: usize = 128;

/// The numbers that describe how a pass goes over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Slabs, rows and columns.
    pub(super) dims: [usize; 3],
    /// The bands: a level is behind the one before by as many slabs as the rule reads after the
    /// point, and as it reads before, as the next band still reads those in this level.
    pub(crate) bands: Bands,
    pub(super) direction: Direction,
    /// The axis of the rows of a window: the first in two dimensions, the second in three.
    pub(super) across: usize,
    /// The slabs that the rule reads before the point, along the direction.
    pub(super) before: usize,
    pub(super) skew: usize,
    pub(super) lag: usize,
}

impl Geometry {
    /// Returns the geometry of passes of a rule.
    pub(crate) fn new(
        rule: &Rule,
        dims: [usize; 3],
        levels: usize,
        (band, flight): (usize, usize),
        direction: Direction,
    ) -> Self {
        let across = if rule.dimensions == 2 { 0 } else { 1 };
        // In three dimensions a level runs over a whole plane before the next plane begins.
        let band = if across == 1 { 1 } else { band };
        let offsets = offsets(rule, direction);
        let moves = offsets.iter().map(|o| (isize::from(o[across]), isize::from(o[2])));
        let other_slab = |offset: &[i8; 3]| across == 1 && offset[0] != 0;
        let own = offsets.iter().filter(|offset| !other_slab(offset));
        // A value in a row above is at an earlier position, one in a row below at a later one.
        let skew = own
            .map(|o| (isize::from(o[across]), isize::from(o[2])))
            .map(|(down, right)| match down {
                0 => 1,
                down => (-right * down.signum()).max(0) / down.abs() + 1,
            })
            .max()
            .unwrap_or(1)
            .max(1);
        let lag = moves.map(|(down, right)| (right + skew * down).abs() + 1).max().unwrap_or(1);
        let slabs = offsets.iter().map(|offset| isize::from(offset[0]));
        let before = slabs.clone().map(|slab| -slab).max().unwrap_or(0).max(0);
        let behind = slabs.max().unwrap_or(0).max(before) as usize;
        let (slabs, wanted) = (dims[0], (0, dims[0]));
        Geometry {
            dims,
            bands: Bands {
                slabs,
                levels,
                band,
                flight,
                behind,
                late: 0,
                wanted,
                reach: 0,
                more: (0, 0),
            },
            direction,
            across,
            before: before as usize,
            skew: skew as usize,
            lag: lag as usize,
        }
    }

    /// Returns the same numbers for an engine of some levels that continues after others, which are
    /// `late` slabs behind what comes in.
    fn after(self, levels: usize, late: usize) -> Self {
        Geometry { bands: Bands { levels, late, ..self.bands }, ..self }
    }

    /// Returns the slab at a position along the direction, as the arrays count it.
    pub(super) const fn array_slab(&self, slab: usize) -> usize {
        if self.direction.up { self.dims[0] - 1 - slab } else { slab }
    }

    /// Returns the row of a slab at a position along the direction, as the arrays count it.
    pub(super) const fn array_row(&self, row: usize) -> usize {
        if self.direction.north { self.dims[1] - 1 - row } else { row }
    }

    /// Returns the number of rows of a window.
    pub(super) const fn rows(&self) -> usize {
        match self.across {
            0 => self.bands.band + self.bands.levels * self.bands.behind + self.before,
            _ => self.dims[1],
        }
    }

    /// Returns the first row of the window of a band.
    pub(super) fn first_row(&self, band: usize) -> isize {
        if self.across == 0 { self.first_slab(band) } else { 0 }
    }

    /// Returns the positions over which the pieces of a band go, counted for the first level.
    pub(crate) const fn walk(&self) -> Range<isize> {
        let end = self.dims[2] + self.skew * self.rows() + self.bands.levels * self.lag;
        0..end as isize
    }

    /// Returns the least number of positions of a piece.
    pub(crate) const fn least_piece(&self) -> usize {
        let slabs = if self.across == 0 { self.bands.band } else { 0 };
        self.lag * (self.bands.levels + 2) + self.skew * slabs
    }

    /// Returns the number of positions that a piece of two dimensions puts back at its end.
    pub(crate) const fn put_back(&self) -> usize {
        (self.bands.levels - 1) * self.lag + self.lag - 1
    }

    /// Returns the number of slabs that a band works on.
    pub(crate) const fn slabs(&self) -> usize {
        let Bands { band, levels, behind, .. } = self.bands;
        band + levels * behind + self.before
    }

    /// Returns the number of positions of a plane of three dimensions.
    pub(super) const fn all_positions(&self) -> usize {
        self.dims[2] + self.skew * (self.dims[1] - 1)
    }

    /// Returns the bytes of one array that should stay in the cache: those of a window, or of a
    /// level of a piece in the planes that it reads.
    pub(crate) const fn window_bytes(&self, piece: usize, element: ElementType) -> u64 {
        let positions = match self.across {
            0 => STEP + (self.bands.levels - 1) * self.lag + 2 * (self.lag - 1),
            _ => (piece + 2 * self.lag) * (1 + self.before + self.bands.behind),
        };
        (positions * Window::pitch(self.rows(), element.bytes()) + 64) as u64
    }

    /// Returns the bytes of the ring of an array.
    pub(crate) const fn ring_bytes(&self, element: ElementType) -> u64 {
        let slab = match self.across {
            0 => self.dims[2] * element.bytes(),
            _ => self.all_positions() * Window::pitch(self.rows(), element.bytes()),
        };
        (self.slots() * (slab + 128)) as u64
    }

    /// Returns the number of slabs of a ring: at most those of the field.
    pub(super) const fn slots(&self) -> usize {
        let slots = self.bands.band * self.bands.flight
            + self.bands.levels * self.bands.behind
            + self.before
            + self.bands.behind
            + 1;
        let slabs = if self.bands.slabs == 0 { 1 } else { self.bands.slabs };
        if slots < slabs { slots } else { slabs }
    }
}

/// Returns the geometries of a pass of these iterations, which all go down or all go up: one for
/// each run of iterations of one direction.
pub(crate) fn chain(
    rule: &Rule,
    dims: [usize; 3],
    bands: (usize, usize),
    iterations: Range<u64>,
) -> Vec<Geometry> {
    let mut chain: Vec<Geometry> = Vec::new();
    let (mut done, mut late) = (iterations.start, 0);
    while done < iterations.end {
        let direction = rule.direction(done);
        let same = |i: &u64| rule.direction(*i) == direction;
        let levels = (done..iterations.end).take_while(same).count();
        // A plan asks for many chains, and the numbers of a direction are always the same.
        let known = chain.iter().find(|geometry| geometry.direction == direction).copied();
        let geometry = known.unwrap_or_else(|| Geometry::new(rule, dims, levels, bands, direction));
        let geometry = geometry.after(levels, late);
        late += levels * geometry.bands.behind;
        done += levels as u64;
        chain.push(geometry);
    }
    chain
}

/// Returns the offsets of all reads of fields, along the direction; for edges that are not fixed
/// also those to which reads beyond an edge lead.
fn offsets(rule: &Rule, direction: Direction) -> Vec<[i8; 3]> {
    let mut all = vec![[0; 3]];
    for read in rule.reads() {
        let along = |axis: usize| {
            let offset = direction.along(read.offset)[axis];
            match rule.edges[axis] {
                // Led back to any position between the point and the opposite one.
                Edge::Clamped | Edge::Reflected if offset != 0 => {
                    let most = offset.abs();
                    (-most..=most).collect()
                }
                _ => vec![offset],
            }
        };
        for plane in along(0) {
            for row in along(1) {
                for col in along(2) {
                    all.push([plane, row, col]);
                }
            }
        }
    }
    all
}
