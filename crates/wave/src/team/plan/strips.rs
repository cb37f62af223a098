//! One plan of strips for all members.
//!
//! # Contract
//! [`OnTeam::strips`] computes the same [`StreamPlan`] in each member, from what all have:
//!
//! | from the members       | the plan has                                 |
//! |------------------------|----------------------------------------------|
//! | vectors                | those of rank 0, or the widest that all have |
//! | threads, memory, cache | the least                                    |
//! | the rate of the disk   | the least, for the columns of one group      |
//!
//! The depth is that of a sweep of one process with the columns, the threads and the memory of a
//! group. Of the heights of bands, by powers of two, and the numbers of slots, [`answer`] takes the
//! ones with the least expected time ([`Costs`]): high bands hide the latency at the cuts, low ones
//! have a shorter begin, and more slots let the members of a group work at the same time. Passes
//! are less deep if a member's part does not fit its memory otherwise.

use std::ops::Range;

use syncline_fabric::Member;
use syncline_store::Shape;

use super::Given;
use super::costs::Costs;
use super::link::{self, Link};
use crate::lanes::Lanes;
use crate::strip::TOGETHER;
use crate::strip::cut::Cuts;
use crate::strip::plan::{Question, StreamPlan};
use crate::strip::tile::Chain;
use crate::team::OnTeam;
use crate::team::agree::all;
use crate::team::groups::Groups;
use crate::team::kernel::StripKernel;
use crate::team::sums::most_bytes;
use crate::{Error, Result};

/// The pieces of a member's share of a band, if it is wide enough.
const PIECES: usize = 8;
/// The greatest number of strips in a band.
const BAND_MOST: usize = 64;
/// The bytes that a row of a panel may take beside its own.
const GAP: u64 = 3 << 12;

impl OnTeam<'_> {
    /// Returns the plan of a kernel over strips.
    ///
    /// # Collective
    /// All members call it.
    pub(in crate::team) fn strips(
        &self,
        kernel: &dyn StripKernel,
        given: &Given,
        (to_files, groups): (bool, &Groups),
        me: &mut Member,
    ) -> Result<StreamPlan> {
        let (settings, largest) = (self.settings, groups.largest() as f64);
        let question = Question {
            shape: self.inputs[0].shape(),
            value: self.inputs[0].element().bytes(),
            arrays: self.inputs.len(),
            on_file: given.on_file.iter().filter(|on_file| **on_file).count(),
            result_on_file: to_files,
            lanes: lanes(settings.lanes, me)?,
            stencil: kernel.stencil(),
            iterations: settings.iterations,
            converges: settings.tolerance.is_some(),
            depth: settings.depth,
            threads: given.threads_of_all[0],
            memory: given.least_memory,
            cache: given.cache,
            // A group reads what its members have.
            disk: given.disk.map(|rate| rate * largest),
        };
        let links = link::measure(me, groups)?;
        let plan = answer(&question, groups, &links);
        all(me, plan.map_err(|error| given.too_small(error)))
    }
}

/// Returns the vectors that all members have: those of rank 0, or the widest.
fn lanes(own: Lanes, me: &mut Member) -> Result<Lanes> {
    let available = Lanes::available().fold(0_u64, |mask, lanes| mask | 1 << lanes as u64);
    let wanted = me.gather(own as u64)?;
    let all = me.gather(available)?.into_iter().fold(u64::MAX, |all, mask| all & mask);
    let choices = Lanes::available().filter(|&lanes| all & 1 << lanes as u64 != 0);
    let choices: Vec<Lanes> = choices.collect();
    let first = choices.iter().find(|&&lanes| lanes as u64 == wanted[0]);
    Ok(first.or(choices.last()).copied().unwrap_or(Lanes::Scalar))
}

/// Returns the plan for the members of these groups, from a question that all ask alike, with the
/// links at all cuts.
pub(super) fn answer(question: &Question, groups: &Groups, links: &[Link]) -> Result<StreamPlan> {
    let busy = |narrow: &Question, plan: &StreamPlan| narrow.busy_ns(plan.depth, plan.band);
    Ok(answer_with(question, groups, links, busy, None)?.1)
}

/// Returns the question about the columns of the largest group.
pub(super) fn narrow(question: &Question, groups: &Groups) -> Question {
    let (cols, members, largest) = (question.shape.cols, groups.members_in_all(), groups.largest());
    let share = ((cols * largest).div_ceil(members) + cols / 64).max(3).min(cols);
    // A group is to memory and disk what one process with as many threads is.
    Question {
        threads: question.threads * largest,
        memory: question.memory.saturating_mul(largest as u64),
        ..question.with_columns(share)
    }
}

/// Returns the plan with bands of `band` strips, or of the best height, and the nanoseconds that it
/// is expected to take. `busy` returns the nanoseconds that the threads of a group compute in a
/// pass.
pub(super) fn answer_with(
    question: &Question,
    groups: &Groups,
    links: &[Link],
    busy: impl Fn(&Question, &StreamPlan) -> f64,
    band: Option<usize>,
) -> Result<(f64, StreamPlan)> {
    let narrow = narrow(question, groups);
    let base = match narrow.answer() {
        Err(Error::StreamMemory { .. }) => {
            // What a member needs, and so the error, follows from the smallest plan.
            let depth = Some(question.depth.unwrap_or(1));
            Question { memory: u64::MAX, depth, ..narrow.clone() }.answer()?
        }
        base => base?,
    };
    let strips = question.shape.rows.div_ceil(base.geometry.width).next_multiple_of(TOGETHER);
    let doubled = std::iter::successors(Some(TOGETHER), |band| Some(2 * band));
    let all = doubled.take_while(|&band| band <= strips.min(BAND_MOST)).chain([base.band]);
    let bands = band.map_or_else(|| all.collect(), |band| vec![band]);
    // One panel for each band that is computed, one that is read, and one that is written.
    let room = (narrow.threads + 2).max(base.panels);
    let fewer = std::iter::successors(Some(2), |slots| Some(slots + slots / 2));
    let mut slots: Vec<usize> = fewer.take_while(|&slots| slots < room).chain([room]).collect();
    // Of plans that are expected to take equally long, the one with the most slots.
    slots.reverse();
    let mut best: Option<(f64, StreamPlan)> = None;
    let mut refused: Option<Error> = None;
    for (band, slots) in
        bands.into_iter().flat_map(|band| slots.iter().map(move |&slots| (band, slots)))
    {
        match with_band(question, &base, (band, slots), groups) {
            Ok((plan, cuts)) => {
                let busy = busy(&narrow, &plan);
                let costs = Costs::new(&narrow, busy, &plan, &cuts, groups, links);
                let time = costs.pass_ns() * plan.passes as f64;
                if best.as_ref().is_none_or(|(least, _)| time < *least) {
                    best = Some((time, plan));
                }
            }
            Err(error) => {
                // That of the lowest band: it has the most pieces. Of the errors about memory,
                // that of the plan that needs the least.
                let less = |refused: &Error| match (refused, &error) {
                    (
                        Error::StreamMemory { needed: least, .. },
                        Error::StreamMemory { needed, .. },
                    ) => needed < least,
                    _ => false,
                };
                if refused.as_ref().is_none_or(less) {
                    refused = Some(error);
                }
            }
        }
    }
    match (best, refused) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error),
        (None, None) => Ok((0.0, base)),
    }
}

/// Returns the plan with bands of `band` strips and `slots` slots, and its cuts; less deep than the
/// base plan if the memory demands it.
fn with_band(
    question: &Question,
    base: &StreamPlan,
    (band, slots): (usize, usize),
    groups: &Groups,
) -> Result<(StreamPlan, Cuts)> {
    let members = groups.members_in_all();
    let mut plan = StreamPlan { band, panels: slots, ..*base };
    plan.rows = (band * base.geometry.width).min(question.shape.rows);
    loop {
        plan.geometry = question.geometry(plan.depth as usize, band, plan.panels);
        let chain = Chain { geometry: plan.geometry, levels: plan.depth as usize, band };
        let fair = chain.walk().len() / (members * PIECES);
        plan.piece = fair.max(chain.ahead()).next_multiple_of(plan.geometry.width);
        let cuts = Cuts::new(chain, plan.piece, members)
            .map_err(|most| Error::Members { members, most })?;
        plan.memory = bytes(question, &plan, &cuts, groups);
        if plan.memory <= question.memory {
            plan.passes = question.iterations.max(1).div_ceil(plan.depth);
            // The walk of a last pass of fewer iterations is shorter. Where an exact stop ends is
            // not known.
            let rest = match question.converges {
                true => 1,
                false => question.iterations % plan.depth,
            };
            if rest > 0 {
                Cuts::new(Chain { levels: rest as usize, ..chain }, plan.piece, members)
                    .map_err(|most| Error::Members { members, most })?;
            }
            return Ok((plan, cuts));
        }
        let least = question.depth.map_or(1, |depth| depth.min(plan.depth));
        let depth = plan.depth - plan.depth.div_ceil(4);
        if depth < least.max(1) {
            let (allowed, needed) = (question.memory, plan.memory);
            return Err(Error::StreamMemory {
                allowed,
                depth: least,
                needed,
                on_team: true,
                instead: None,
            });
        }
        plan.depth = depth;
    }
}

/// Returns the bytes of the buffers of the member that needs most: its own, and its part of those
/// of its group.
fn bytes(question: &Question, plan: &StreamPlan, cuts: &Cuts, groups: &Groups) -> u64 {
    let (value, rows, slots) = (question.value as u64, plan.rows as u64 + 1, plan.panels as u64);
    let row = |columns: Range<usize>| columns.len() as u64 * value + GAP;
    let shared = |group: usize| {
        let Range { start, end } = groups.members(group);
        let read = (start..end).map(|member| cuts.share(member).columns_in());
        let read = read.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        let panel = question.on_file as u64 * rows * row(read);
        let [first, last] = [start, end - 1].map(|member| cuts.share(member).all_columns_out());
        let out = rows * row(first.start..last.end);
        slots * (panel + out) / groups.members(group).len() as u64
    };
    let own = |member: usize| {
        let share = cuts.share(member);
        let sides = [share.west, share.east].into_iter().flatten();
        let messages: usize = sides.map(|cut| 4 * cut.most()).sum();
        share.bytes(question.value) + slots * messages as u64 * value
    };
    // The final rows of all members, twice, if they are not written to a file.
    let finals = 2 * u64::from(!question.result_on_file) * slots * rows;
    let finals = finals * row(0..question.shape.cols);
    // The checksums of a file that the next pass reads.
    let sums = match question.result_on_file && question.iterations > plan.depth {
        true => {
            let (Shape { rows, cols }, members) = (question.shape, groups.members_in_all());
            most_bytes(rows, cols * question.value, members)
        }
        false => 0,
    };
    let of_group = |group: usize| groups.members(group).map(own).max().unwrap_or(0) + shared(group);
    (0..groups.count()).map(of_group).max().unwrap_or(0) + finals + sums + (1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Neighbour, Stencil};
    use std::time::Duration;
    use syncline_testkit::{Random, cases, seed};

    fn links(groups: &Groups, nanoseconds: u64) -> Vec<Link> {
        let latency = Duration::from_nanos(nanoseconds);
        vec![Link { latency, byte_ns: 0.0 }; groups.members_in_all() - 1]
    }

    #[test]
    fn plans_fit_the_memory_and_give_every_member_a_piece() {
        let (mut refused, mut planned) = (0, 0);
        let (first, all) = (seed(0), u64::from(cases(600)));
        for seed in first..first + all {
            let mut random = Random::new(seed);
            let side = |random: &mut Random, most| {
                1 + match random.below(8) {
                    0 => random.below(4),
                    _ => random.below(most),
                }
            };
            let shape = Shape::new(side(&mut random, 3000), side(&mut random, 9000));
            let (members, each) = (1 + random.below(9), 1 + random.below(4));
            let corner = Stencil::of(&[Neighbour::North, Neighbour::West]);
            let stencil = random.one_of(&[Stencil::FIVE_POINT, Stencil::NINE_POINT, corner]);
            let mut question = Question {
                shape,
                value: random.one_of(&[4, 8]),
                arrays: 1 + random.below(6),
                on_file: random.below(3),
                result_on_file: true,
                lanes: random.one_of(&[Lanes::Scalar, Lanes::Avx2, Lanes::Avx512]),
                stencil,
                iterations: 1 + random.below(300) as u64,
                converges: false,
                depth: (random.below(3) == 0).then(|| 1 + random.below(40) as u64),
                threads: 1 + random.below(3),
                memory: 1 << (18 + random.below(14)),
                cache: 1 << 20,
                disk: None,
            };
            let latency = 1 << random.below(22);
            let groups = Groups::new(&(0..members).map(|m| m / each).collect::<Vec<_>>());
            if shape.rows < 3 || shape.cols < 3 {
                // Without an update there is nothing to plan, but with a kernel without a margin.
                question.stencil = corner;
            }
            let Ok(plan) = answer(&question, &groups, &links(&groups, latency)) else {
                refused += 1;
                continue;
            };
            planned += 1;
            assert!(plan.memory <= question.memory, "seed {seed}");
            let (levels, band) = (plan.depth as usize, plan.band);
            let rest = (question.iterations % plan.depth) as usize;
            for levels in [levels, rest].into_iter().filter(|&levels| levels > 0) {
                let chain = Chain { geometry: plan.geometry, levels, band };
                let cuts = Cuts::new(chain, plan.piece, members).unwrap();
                assert!((0..members).all(|member| cuts.share(member).pieces() > 0), "seed {seed}");
            }
            let done = plan.depth * plan.passes;
            assert!((question.iterations..question.iterations + plan.depth).contains(&done));
        }
        assert!(planned > all / 4 && refused > all / 40, "{planned} planned, {refused} refused");
    }

    #[test]
    fn the_memory_that_an_error_names_suffices() {
        let (mut refused, shape) = (0, Shape::new(600, 900));
        for memory in (18..24).map(|bits| 1_u64 << bits) {
            for hosts in [vec![0, 0], vec![0, 0, 0], vec![0, 1], vec![0, 0, 1]] {
                let groups = Groups::new(&hosts);
                let question = Question {
                    shape,
                    value: 8,
                    arrays: 6,
                    on_file: 6,
                    result_on_file: true,
                    lanes: Lanes::Avx2,
                    stencil: Stencil::FIVE_POINT,
                    iterations: 12,
                    converges: false,
                    depth: None,
                    threads: 1,
                    memory,
                    cache: 1 << 20,
                    disk: None,
                };
                let links = links(&groups, 5000);
                if let Err(Error::StreamMemory { needed, .. }) = answer(&question, &groups, &links)
                {
                    refused += 1;
                    let enough = Question { memory: needed, ..question.clone() };
                    assert!(answer(&enough, &groups, &links).is_ok(), "{memory}, {hosts:?}");
                    let less = Question { memory: needed - 1, ..question };
                    let still = answer(&less, &groups, &links);
                    let same = |e: &Error| matches!(e, Error::StreamMemory { needed: n, .. } if *n == needed);
                    assert!(still.is_err_and(|error| same(&error)), "{memory}, {hosts:?}");
                }
            }
        }
        assert!(refused > 4, "{refused}");
    }

    #[test]
    fn bands_are_higher_where_messages_take_longer() {
        let question = |cols| Question {
            shape: Shape::new(16384, cols),
            value: 8,
            arrays: 6,
            on_file: 6,
            result_on_file: true,
            lanes: Lanes::Avx2,
            stencil: Stencil::FIVE_POINT,
            iterations: 20,
            converges: false,
            depth: Some(20),
            threads: 1,
            memory: 1 << 30,
            cache: 1 << 20,
            disk: None,
        };
        let rows = |cols, members, us: u64| {
            let groups = Groups::new(&(0..members).collect::<Vec<_>>());
            answer(&question(cols), &groups, &links(&groups, 1000 * us)).unwrap().rows
        };
        for cols in [4096, 16384] {
            let heights: Vec<usize> = [1, 50, 200, 1000, 5000].map(|us| rows(cols, 4, us)).into();
            assert!(heights.is_sorted(), "{heights:?}");
            assert!(heights[4] > heights[0], "{heights:?}");
        }
        assert_eq!(rows(4096, 1, 1), rows(4096, 1, 5000), "one member sends nothing");
    }
}
