//! The numbers of passes of explicit rules: the distance of levels, and the sizes of rings.

use std::ops::Range;

use syncline_kernel::rule::{Edge, Rule};
use syncline_store::ElementType;

use crate::engine::Bands;

/// The numbers that describe how a pass goes over the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Slabs, rows and columns.
    pub(super) dims: [usize; 3],
    pub(crate) bands: Bands,
    /// The tiled axis: 1 or 2.
    pub(super) tiled: usize,
    /// The reach of the rule along the first axis, in any direction.
    pub(super) reach: usize,
    /// The reach along the tiled axis, by which each level is to the left of the one before.
    pub(super) skew: usize,
    /// The columns by which slabs are extended on both sides.
    pub(super) extended: usize,
    /// By how many slabs a level is stored above the one before, and by how many positions to its
    /// left.
    pub(super) storage: (usize, usize),
    /// The most positions of a piece.
    piece: usize,
}

impl Geometry {
    /// Returns the geometry of passes of a rule. A piece has `piece` positions at most.
    pub(crate) fn new(
        rule: &Rule,
        dims: [usize; 3],
        levels: usize,
        (band, flight, piece): (usize, usize, usize),
    ) -> Self {
        let reaches = rule.reach();
        // A read leads no farther than to the other end of the field.
        let farthest = dims[0].saturating_sub(1);
        let (down, slab_reach) = (reaches[0].1.min(farthest), reach(rule).min(farthest));
        let most = |axis: usize| reaches[axis].0.max(reaches[axis].1);
        let tiled = if rule.dimensions == 2 { 2 } else { 1 };
        let extended = if rule.edges[2] == Edge::Periodic { levels * most(2) } else { 0 };
        // No slab of a pass is at a periodic edge.
        let behind = match rule.edges[0] {
            Edge::Fixed | Edge::Periodic => down,
            _ => slab_reach,
        };
        let skew = most(tiled);
        let above = Geometry {
            dims,
            bands: Bands {
                slabs: dims[0],
                levels,
                band,
                flight,
                behind,
                late: 0,
                more: (0, 0),
                wanted: (0, dims[0]),
                reach: slab_reach,
            },
            tiled,
            reach: slab_reach,
            skew,
            extended,
            storage: (slab_reach + 1, skew),
            piece,
        };
        // Few long rows take less memory where each level is stored beside the one before.
        let beside = Geometry { storage: (0, skew + piece), ..above };
        let values = |g: &Geometry| g.slots(true) * g.width(true);
        let alone = slab_reach == 0 || band >= dims[0] + levels * behind;
        match tiled == 2 && alone && values(&beside) < values(&above) {
            true => beside,
            false => above,
        }
    }

    /// Returns the same numbers, for a pass of which only these slabs are wanted.
    pub(crate) fn wanting(self, slabs: &Range<usize>) -> Self {
        let wanted = (slabs.start, slabs.end);
        Geometry { bands: Bands { wanted, ..self.bands }, ..self }
    }

    /// Returns the positions of the tiled axis over which the pieces of a band go, counted for the
    /// first level.
    pub(crate) fn walk(&self) -> Range<isize> {
        let extended = if self.tiled == 2 { self.extended as isize } else { 0 };
        let lag = (self.bands.levels * self.skew) as isize;
        -extended - self.skew as isize..self.dims[self.tiled] as isize + extended + lag
    }

    /// Returns the number of columns of an extended row, as a ring stores it.
    pub(super) fn width(&self, shifted: bool) -> usize {
        let lag = if shifted && self.tiled == 2 { self.bands.levels * self.storage.1 } else { 0 };
        self.dims[2] + 2 * self.extended + lag
    }

    /// Returns the greatest number of points that a program updates at once.
    pub(super) fn longest_run(&self) -> usize {
        let row = self.width(false).max(1);
        if self.tiled == 2 { row.min(self.piece) } else { row }
    }

    /// Returns the number of rows of a slab, as a ring stores it.
    pub(super) fn rows(&self, shifted: bool) -> usize {
        let lag = if shifted && self.tiled == 1 { self.bands.levels * self.storage.1 } else { 0 };
        self.dims[1] + lag
    }

    /// Returns the number of slabs of the rings of fields and of coefficients.
    pub(super) fn slots(&self, field: bool) -> usize {
        let stored = if field { self.bands.levels * self.storage.0 } else { 0 };
        let all =
            self.bands.band * self.bands.flight + self.bands.levels * self.bands.behind + stored;
        // With room for each slab of each level none takes the place of another one.
        (all + 2 * self.reach + self.storage.0).min((self.bands.slabs + stored).max(1))
    }

    /// Returns whether slabs are extended.
    pub(crate) const fn is_periodic(&self) -> bool {
        self.extended > 0
    }

    /// Returns the number of slabs that a band works on.
    pub(crate) fn slabs(&self) -> usize {
        let Bands { band, levels, behind, .. } = self.bands;
        band.min(self.dims[0]) + levels * (behind + self.storage.0) + 2 * self.reach
    }

    /// Returns the number of points whose values one level of a piece reads or writes.
    pub(crate) fn level_points(&self, piece: usize) -> u64 {
        let slabs = self.bands.band.min(self.dims[0]) + 2 * self.reach + self.storage.0;
        let positions = (piece + 2 * self.skew).min(self.dims[self.tiled]);
        let others = if self.tiled == 2 { 1 } else { self.width(false) };
        (slabs * positions * others) as u64
    }

    /// Returns the bytes of the ring of an array.
    pub(crate) fn ring_bytes(&self, element: ElementType, field: bool) -> u64 {
        let slab = self.rows(field) * self.width(field) * element.bytes();
        (self.slots(field) * (slab + 128)) as u64
    }
}

/// Returns how many slabs away the rule reads, in any direction.
pub(crate) fn reach(rule: &Rule) -> usize {
    let (before, after) = rule.reach()[0];
    before.max(after)
}
