//! The bands of a sweep on a team, for benchmarks that run its overlay without arithmetic.
//!
//! # Contract
//! A [`TeamSweep`] is Livermore kernel 23 in doubles, out of core, on a disk of unknown rate, by
//! members of one thread on hosts of their own. [`TeamSweep::bands`] returns what the plan has for
//! one height of bands, and [`TeamSweep::chosen`] the height that a run would choose. Both are
//! those of the plan of [`strips`](super::strips), [`cut`](crate::strip::cut) included.

use syncline_fabric::Member;
use syncline_store::Shape;

use super::link::{self, Link};
use super::strips::{answer_with, narrow};
use crate::lanes::Lanes;
use crate::strip::TOGETHER;
use crate::strip::cut::Cuts;
use crate::strip::plan::{Question, StreamPlan};
use crate::strip::tile::Chain;
use crate::team::groups::Groups;
use crate::{Error, Result, Stencil};

/// The number of arrays: the field, five coefficients, and all of them on file.
const ARRAYS: usize = 6;
/// The memory of a member. It does not limit any plan of the benchmarks.
const MEMORY: u64 = 16 << 30;

/// A sweep on a team.
#[derive(Clone, Copy, Debug)]
pub struct TeamSweep {
    /// The number of rows of the matrix.
    pub rows: usize,
    /// The number of columns of the matrix.
    pub cols: usize,
    /// The number of iterations, all in one pass.
    pub depth: u64,
    /// The vectors that all members compute with.
    pub lanes: Lanes,
    /// The number of members, each on a host of its own.
    pub members: usize,
    /// The time of messages at each cut.
    pub link: Link,
    /// The nanoseconds of an update; `None` stands for those that the plan expects.
    pub update_ns: Option<f64>,
}

/// The bands of one height.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamBands {
    /// The number of rows of a band.
    pub rows: usize,
    /// The number of bands.
    pub bands: usize,
    /// The number of bands in flight.
    pub slots: usize,
    /// The nanoseconds that the plan expects a run to take.
    pub expected_ns: f64,
    /// The nanoseconds of an update, with the share that it has of packing.
    pub update_ns: f64,
    /// For each member, the part of a band's work that each of its pieces is.
    pub parts: Vec<Vec<f64>>,
    /// For each cut, the greatest number of values that cross it eastward, and westward, in a band.
    pub crossing: Vec<[usize; 2]>,
}

impl TeamSweep {
    /// Measures the time of messages at all cuts, as a run does, and returns the longest.
    ///
    /// # Errors
    /// If a member is dead.
    pub fn link(me: &mut Member) -> Result<Link> {
        let groups = Groups::new(&(0..me.size()).collect::<Vec<_>>());
        let links = link::measure(me, &groups)?;
        let longest = links.into_iter().max_by(|a, b| a.ns(1 << 16).total_cmp(&b.ns(1 << 16)));
        Ok(longest.unwrap_or_default())
    }

    /// Returns the number of rows that a vector of a strip spans.
    #[must_use]
    pub fn width(&self) -> usize {
        self.lanes.width(size_of::<f64>())
    }

    /// Returns the bands of `rows` rows, or of the next possible number.
    ///
    /// # Errors
    /// If such bands do not have a piece for each member.
    pub fn bands(&self, rows: usize) -> Result<TeamBands> {
        let (question, members) = (self.question(), self.members);
        let band = (rows / self.width()).max(1).next_multiple_of(TOGETHER);
        let (expected_ns, plan) = self.answer(Some(band))?;
        let chain = Chain { geometry: plan.geometry, levels: plan.depth as usize, band };
        let cuts = Cuts::new(chain, plan.piece, members)
            .map_err(|most| Error::Members { members, most })?;
        let crossing = (0..members).filter_map(|member| cuts.share(member).east).map(|cut| {
            let lens = (0..chain.bands()).map(|p| [cut.eastward_len(p), cut.westward_len(p)]);
            lens.reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])]).unwrap_or_default()
        });
        let narrow = narrow(&question, &self.groups());
        let updates = (self.rows * narrow.shape.cols) as f64 * plan.depth as f64;
        Ok(TeamBands {
            rows: plan.rows,
            bands: chain.bands(),
            slots: plan.panels,
            expected_ns,
            update_ns: self.busy(&narrow, &plan) / updates,
            parts: (0..members).map(|member| cuts.parts(member)).collect(),
            crossing: crossing.collect(),
        })
    }

    /// Returns the number of rows of a band that a run would choose.
    ///
    /// # Errors
    /// If there are fewer pieces than members.
    pub fn chosen(&self) -> Result<usize> {
        Ok(self.answer(None)?.1.rows)
    }

    fn answer(&self, band: Option<usize>) -> Result<(f64, StreamPlan)> {
        let busy = |narrow: &Question, plan: &StreamPlan| self.busy(narrow, plan);
        answer_with(
            &self.question(),
            &self.groups(),
            &vec![self.link; self.members - 1],
            busy,
            band,
        )
    }

    fn busy(&self, narrow: &Question, plan: &StreamPlan) -> f64 {
        let updates = (self.rows * narrow.shape.cols) as f64 * plan.depth as f64;
        self.update_ns.map_or_else(|| narrow.busy_ns(plan.depth, plan.band), |ns| ns * updates)
    }

    fn groups(&self) -> Groups {
        Groups::new(&(0..self.members).collect::<Vec<_>>())
    }

    fn question(&self) -> Question {
        Question {
            shape: Shape::new(self.rows, self.cols),
            value: size_of::<f64>(),
            arrays: ARRAYS,
            on_file: ARRAYS,
            result_on_file: true,
            lanes: self.lanes,
            stencil: Stencil::FIVE_POINT,
            iterations: self.depth,
            converges: false,
            depth: Some(self.depth),
            threads: 1,
            memory: MEMORY,
            cache: 1 << 20,
            disk: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_chosen_bands_are_those_that_are_expected_to_take_the_least_time() {
        let cases = [(4096, 1000), (16384, 50), (16384, 200)].into_iter();
        for ((cols, micros), update_ns) in cases.flat_map(|of| [(of, None), (of, Some(0.6))]) {
            let link = Link { latency: Duration::from_micros(micros), byte_ns: 0.0 };
            let (rows, depth, lanes, members) = (16384, 20, Lanes::Scalar, 4);
            let sweep = TeamSweep { rows, cols, depth, lanes, members, link, update_ns };
            let all: Vec<_> = [4, 8, 16, 32, 64].map(|rows| sweep.bands(rows).unwrap()).into();
            for bands in &all {
                let parts: f64 = bands.parts.iter().flatten().sum();
                assert!((parts - 1.0).abs() < 1e-9, "{parts}");
                assert_eq!((bands.parts.len(), bands.crossing.len()), (4, 3));
            }
            let best = all.iter().min_by(|a, b| a.expected_ns.total_cmp(&b.expected_ns)).unwrap();
            let chosen = sweep.bands(sweep.chosen().unwrap()).unwrap();
            assert!(chosen.expected_ns <= best.expected_ns, "{chosen:?}, not {best:?}");
        }
    }
}
