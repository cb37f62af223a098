//! How a run computes: what it has to know of a kernel, and the engines of its passes.
//!
//! # Contract
//! A [`Scheme`] has a kernel and its plan. A run asks it how many iterations a pass may do, and for
//! the engines of each pass. Nothing else of a run depends on the kernel.

use std::ops::Range;
use std::sync::Arc;

use syncline_kernel::rule::{Around, Edge, Rule};
use syncline_store::ElementType;

use crate::Result;
use crate::engine::{self, Engine, Slabs};
use crate::engines::explicit::{self, Explicit};
use crate::engines::ordered::{self, Ordered, Part};
use crate::lanes::Lanes;
use crate::plan::ArrayPlan;
use crate::sweep::SweepPlan;
use crate::team::columns::{Columns, LeaningColumns};

/// The engines of a pass, each with the number of positions of its pieces.
pub(crate) type Engines<'e> = Vec<(Box<dyn Engine + 'e>, usize)>;

/// The extent of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// The slabs that come in, and the rows and columns of each.
    pub(crate) dims: [usize; 3],
    /// The slabs whose final values are wanted, counted from the first that comes in.
    pub(crate) wanted: Range<usize>,
    pub(crate) levels: usize,
    /// The iterations before the pass.
    pub(crate) before: u64,
}

/// What computes in a run.
pub(crate) trait Scheme {
    /// Returns the plan of the run.
    fn plan(&self) -> SweepPlan;

    /// Returns the number of fields, which are the first of the arrays.
    fn fields(&self) -> usize;

    /// Returns whether any point is updated; otherwise a run copies.
    fn has_points(&self) -> bool {
        true
    }

    /// Returns the number of iterations after which their directions repeat.
    fn directions(&self) -> usize;

    /// Returns whether an iteration goes from the last slab to the first.
    fn is_up(&self, iteration: u64) -> bool;

    /// Returns whether a pass may write over the fields that it reads, in memory.
    fn in_place(&self) -> bool;

    /// Returns whether the first slabs follow the last ones.
    fn goes_around(&self) -> bool {
        false
    }

    /// Returns how many slabs away, in any direction, a level reads values that another member of a
    /// team computes.
    fn reach(&self) -> usize {
        0
    }

    /// Returns what runs each piece, for kernels that need it.
    fn around(&self) -> Option<&Around> {
        None
    }

    /// Returns the columns of the members of a team in a pass of this many levels, if they have all
    /// slabs; those of a pass without levels are the ones that a deep pass leaves.
    fn columns(&self, _levels: usize) -> Option<Arc<dyn Columns>> {
        None
    }

    /// Returns the number of tasks of this process that compute in a pass.
    fn tasks(&self, extent: &Extent) -> u64;

    /// Returns the engines of a pass over arrays of these types. `whole` has the coefficients that
    /// are in memory, by their index; they stay there while the pass runs.
    fn engines<'e>(
        &'e self,
        extent: &Extent,
        elements: &[ElementType],
        whole: &[Option<Slabs>],
    ) -> Result<Engines<'e>>;
}

/// The engines of rules, over slabs.
pub(crate) struct BySlabs<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) plan: ArrayPlan,
    pub(crate) lanes: Lanes,
    /// The columns of the members of a team, and the number of this one, if they have all slabs.
    pub(crate) team: Option<(Arc<LeaningColumns>, usize)>,
}

impl BySlabs<'_> {
    fn explicit(&self, extent: &Extent) -> explicit::Geometry {
        let Extent { dims, ref wanted, levels, .. } = *extent;
        let bands = (self.plan.band, self.plan.flight, self.plan.piece);
        explicit::Geometry::new(self.rule, dims, levels, bands).wanting(wanted)
    }

    /// Returns the geometries of the engines of a pass of an ordered rule.
    fn ordered(&self, extent: &Extent) -> Vec<ordered::Geometry> {
        let bands = (self.plan.band, self.plan.flight);
        let iterations = extent.before..extent.before + extent.levels as u64;
        ordered::chain(self.rule, extent.dims, bands, iterations)
    }

    /// Returns the part of the engine of a geometry that this member runs.
    fn part(&self, geometry: &ordered::Geometry) -> Option<Part> {
        self.team.as_ref().map(|(columns, rank)| Part::new(columns, *rank, geometry))
    }
}

impl Scheme for BySlabs<'_> {
    fn plan(&self) -> SweepPlan {
        SweepPlan::Arrays(self.plan)
    }

    fn fields(&self) -> usize {
        self.rule.fields
    }

    fn directions(&self) -> usize {
        self.rule.directions.len()
    }

    fn is_up(&self, iteration: u64) -> bool {
        !self.rule.explicit && self.rule.direction(iteration).up
    }

    fn in_place(&self) -> bool {
        self.rule.edges[2] != Edge::Periodic && !self.goes_around()
    }

    fn goes_around(&self) -> bool {
        self.rule.edges[0] == Edge::Periodic
    }

    fn reach(&self) -> usize {
        explicit::reach(self.rule)
    }

    fn around(&self) -> Option<&Around> {
        self.rule.around.as_ref()
    }

    fn columns(&self, _: usize) -> Option<Arc<dyn Columns>> {
        self.team.as_ref().map(|(columns, _)| Arc::clone(columns) as Arc<dyn Columns>)
    }

    fn tasks(&self, extent: &Extent) -> u64 {
        if self.rule.explicit {
            let g = self.explicit(extent);
            return (g.bands.count() * g.walk().len().div_ceil(self.plan.piece).max(1)) as u64;
        }
        let engines = self.ordered(extent);
        let bands = engines.last().map_or(0, |g| g.bands.count());
        let of_engine = |g: &ordered::Geometry| {
            let own = self.part(g).map(|part| part.own_positions());
            engine::pieces(g.walk(), own, self.plan.piece.max(g.least_piece())).len()
        };
        (bands * engines.iter().map(of_engine).sum::<usize>()) as u64
    }

    fn engines<'e>(
        &'e self,
        extent: &Extent,
        elements: &[ElementType],
        whole: &[Option<Slabs>],
    ) -> Result<Engines<'e>> {
        let (rule, lanes) = (self.rule, self.lanes);
        let real = rule.real_of(elements.iter().copied());
        if rule.explicit {
            let geometry = self.explicit(extent);
            let engine = Explicit::new(rule, geometry, elements.to_vec(), real, lanes, whole)?;
            return Ok(vec![(Box::new(engine), self.plan.piece)]);
        }
        let engine = |g: ordered::Geometry| {
            let (piece, part) = (self.plan.piece.max(g.least_piece()), self.part(&g));
            let engine = Ordered::new(rule, g, elements.to_vec(), real, lanes, whole, part)?;
            Ok((Box::new(engine) as Box<dyn Engine + 'e>, piece))
        };
        self.ordered(extent).into_iter().map(engine).collect()
    }
}
