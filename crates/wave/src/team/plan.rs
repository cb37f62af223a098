//! One plan for all members.
//!
//! # Contract
//! [`given`](OnTeam::given) gathers what each member has. Members with slabs
//! ([`slabs`](OnTeam::slabs)) have plans of one depth, which is that of the member with the least
//! memory, cache and disk; bands and pieces are each member's. Members with columns
//! ([`columns`](OnTeam::columns)) have the same plan. Passes are less deep than asked if columns
//! are too narrow otherwise. The plan of [`strips`] is also the same for all.

pub(crate) mod bands;
mod costs;
pub(crate) mod link;
mod strips;

use std::ops::Range;

use syncline_fabric::Member;
use syncline_kernel::rule::{Rule, three};
use syncline_store::ElementType;

use super::OnTeam;
use crate::engines::explicit;
use crate::pass::sums::unit_of;
use crate::run::fields::Input;
use crate::run::machine::{cache_bytes, rate_of};
use crate::run::plan::{ArrayPlan, Question, TWICE};
use crate::team::agree::all;
use crate::team::columns::LeaningColumns;
use crate::team::groups::Groups;
use crate::team::share::Share;
use crate::{Error, Result};

/// The least number of units of sums that a member should have, and the greatest.
const UNITS: [usize; 2] = [8, 64];

/// What the members have.
pub(super) struct Given {
    elements: Vec<ElementType>,
    on_file: Vec<bool>,
    /// Of this member.
    memory: u64,
    threads: usize,
    /// The least memory, the member that has it, and the least of all members.
    least_memory: u64,
    poorest: usize,
    threads_of_all: [usize; 2],
    cache: u64,
    /// The least rate of a disk of all members, for each of those that share it.
    pub(super) disk: Option<f64>,
}

impl OnTeam<'_> {
    /// Returns the plan and the slabs of an explicit rule: those of all members, and the share of
    /// this one.
    ///
    /// # Collective
    /// All members call it.
    pub(super) fn slabs(
        &self,
        rule: &Rule,
        given: &Given,
        to_files: bool,
        me: &mut Member,
    ) -> Result<(ArrayPlan, Vec<Range<usize>>, Share)> {
        let [slabs, rows, cols] = three(self.inputs[0].dims());
        let members = me.size();
        if slabs < members {
            return all(me, Err(Error::Members { members, most: slabs }));
        }
        let unit = if to_files { self.unit(members) } else { 1 };
        let own: Vec<Range<usize>> =
            (0..members).map(|member| Share::of(slabs, (member, members), unit).own).collect();
        let share = Share::of(slabs, (me.rank(), members), unit);
        let most = own.iter().map(ExactSizeIterator::len).max().unwrap_or(1);
        let fewest = own.iter().map(ExactSizeIterator::len).min().unwrap_or(1);
        let reach = explicit::reach(rule).max(1);
        let deepest = (fewest / (TWICE * reach)).max(1) as u64;
        let dims = [most, rows, cols];
        let question =
            self.question((rule, given), to_files, (dims, 1), deepest, given.threads_of_all[1]);
        let question = Question { around: 2 * reach, ..question };
        let plan = question.answer().and_then(|ArrayPlan { depth, .. }| {
            let (threads, memory) = (given.threads, given.memory);
            Question { depth: Some(depth), threads, memory, ..question }.answer()
        });
        let plan = all(me, plan.map_err(|error| given.too_small(error)))?;
        Ok((plan, own, share))
    }

    /// Returns the plan of an ordered rule and the columns of the members. All have all slabs. The
    /// passes write to files, or their result in memory is copied to files.
    ///
    /// # Collective
    /// All members call it.
    pub(super) fn columns(
        &self,
        rule: &Rule,
        given: &Given,
        (to_files, copied): (bool, bool),
        me: &mut Member,
    ) -> Result<(ArrayPlan, Share, LeaningColumns)> {
        let dims = three(self.inputs[0].dims());
        let of = (dims, me.size());
        let threads = given.threads_of_all[0];
        let question = self.question((rule, given), to_files, of, u64::MAX, threads);
        let together = if to_files { Groups::of(me).largest() } else { 1 };
        let question = Question { copied, together, ..question };
        let plan = question.answer().map(|plan| {
            let columns = question.columns(plan.depth as usize, plan.band);
            (plan, columns.unwrap_or_else(|| unreachable!("the plan has columns")))
        });
        let (plan, columns) = all(me, plan.map_err(|error| given.too_small(error)))?;
        let share = Share { unit: Some(self.unit(me.size())), ..Share::whole(dims[0]) };
        Ok((plan, share, columns))
    }

    /// Gathers what the members have. The result goes to files, or the inputs are copied to memory
    /// first.
    ///
    /// # Collective
    /// All members call it.
    pub(super) fn given(&self, (to_files, copied): (bool, bool), me: &mut Member) -> Result<Given> {
        let (inputs, settings) = (self.inputs, self.settings);
        let several = to_files && settings.iterations > 1;
        let is_on_file = |(n, input): (usize, &Input<'_>)| {
            !copied && matches!(input, Input::File(_)) || several && n < self.kernel.fields()
        };
        let rate = inputs.iter().find_map(|input| match input {
            Input::File(file) => {
                let (file, start) = file.direct();
                rate_of(file, start, settings.memory).ok()
            }
            Input::Memory(_) => None,
        });
        let (memory, threads) = (settings.memory, settings.processors());
        // The members of a host share its disk.
        let rate = rate.map_or(f64::INFINITY, |rate| rate / me.ranks_on(me.host()).len() as f64);
        let all_memory = me.gather(memory)?.into_iter().enumerate();
        let (poorest, least_memory) = all_memory.min_by_key(|of| of.1).unwrap_or((0, memory));
        let mut least =
            |own: u64| -> Result<u64> { Ok(me.gather(own)?.into_iter().min().unwrap_or(own)) };
        let cache = least(cache_bytes())?;
        // The bits of positive numbers are in the order of the numbers.
        let disk = Some(f64::from_bits(least(rate.to_bits())?)).filter(|rate| rate.is_finite());
        let threads_of_all = [least(threads)?, !least(!threads)?].map(|threads| threads as usize);
        Ok(Given {
            elements: inputs.iter().map(Input::element).collect(),
            on_file: inputs.iter().enumerate().map(is_on_file).collect(),
            memory,
            threads: threads as usize,
            least_memory,
            poorest,
            threads_of_all,
            cache,
            disk,
        })
    }

    fn question<'q>(
        &'q self,
        (rule, given): (&'q Rule, &'q Given),
        to_files: bool,
        (dims, members): ([usize; 3], usize),
        deepest: u64,
        threads: usize,
    ) -> Question<'q> {
        let settings = self.settings;
        Question {
            rule,
            dims,
            members,
            together: 1,
            elements: &given.elements,
            on_file: &given.on_file,
            result_on_file: to_files,
            copied: false,
            iterations: settings.iterations,
            converges: settings.tolerance.is_some(),
            depth: settings.depth,
            deepest,
            threads,
            flight: None,
            around: 0,
            memory: given.least_memory,
            cache: given.cache,
            disk: given.disk,
        }
    }

    /// Returns the number of slabs of a unit of sums of the files.
    pub(super) fn unit(&self, members: usize) -> usize {
        let fields = &self.inputs[..self.kernel.fields()];
        let best = unit_of(fields.iter().map(Input::slab_bytes).max().unwrap_or(1));
        let [fewest, most] = UNITS.map(|units| units * members);
        let slabs = self.inputs[0].dims()[0];
        best.min(slabs / fewest).max(slabs.div_ceil(most)).max(1)
    }
}

impl Given {
    /// Returns the error of a member: that of one with too little memory has its own bound.
    pub(super) fn too_small(&self, error: Error) -> Error {
        match error {
            Error::StreamMemory { needed, .. } if self.memory >= needed => {
                Error::Elsewhere { rank: self.poorest, error: String::new() }
            }
            Error::StreamMemory { depth, needed, instead, .. } => {
                let (allowed, on_team) = (self.memory, true);
                Error::StreamMemory { allowed, depth, needed, on_team, instead }
            }
            other => other,
        }
    }
}
