//! Explicit rules on a team: the members share the slabs.
//!
//! # Contract
//! All members call [`OnTeam::run`] or [`OnTeam::gather`] with the same sweep. The result has the
//! bits of the plain loop, whatever the number of members and wherever they are. Each member runs
//! the passes of its [`share`](super::share), and they meet between passes:
//!
//! ```text
//!  inputs ──> pass of member 0 ──┐           ┌─> pass of member 0 ──┐
//!         ──> pass of member 1 ──┼─ exchange ┼─> pass of member 1 ──┼─ ...
//!         ──> pass of member 2 ──┘           └─> pass of member 2 ──┘
//! ```
//!
//! | the result is  | exchange                                                                |
//! |----------------|-------------------------------------------------------------------------|
//! | in files       | all sync their bytes; the next pass reads those of others in the files, |
//! |                | and compares what it has read with the sums of those that wrote it      |
//! | in memory      | neighbours send the slabs that the next pass needs ([`exchange`]); at   |
//! |                | the end every member gets all                                           |
//!
//! In both cases they also exchange the greatest changes, if there is a tolerance. An error of one
//! member is an error of all, with the rank and the cause.
//!
//! A rule whose order matters is refused: its slabs depend on one another within an iteration.
//!
//! # Costs
//! Those of [`share`](super::share) and [`exchange`]; per pass some gathers of a word.
//!
//! # Source
//! This project's; see [`share`](super::share) for overlapped tiles.

mod exchange;
mod files;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use syncline_fabric::Member;
use syncline_store::ElementType;
use syncline_store::array::Array;
use syncline_store::checksum::Checksum;
use syncline_store::generation::Identity;
use syncline_store::shared::InputView;

use self::exchange::exchange;
use self::files::{Begun, Written};
use super::fields::{Fields, Input, Output, three};
use super::keep::Keep;
use super::plain::plain;
use super::plan::{ArrayPlan, Question};
use super::run::{Done, Run};
use super::share::Share;
use super::sums::{PassSums, unit_of};
use super::{explicit, greater};
use crate::streamed::team::{all, begin, check_views, of_settings, same};
use crate::streamed::{Spent, Target, cache_bytes, rate_of};
use crate::sweep::{Settings, SweepReport};
use crate::{Described, Error, Result};

/// The length of the small arrays by which kernels are compared, along each axis.
const SIDE: usize = 8;
/// The least number of units of sums that a member should have, and the greatest.
const UNITS: [usize; 2] = [8, 64];
/// The share of slabs that a member computes twice is at most one in this number.
const TWICE: usize = 8;

/// A sweep on a team.
pub(crate) struct OnTeam<'a> {
    pub(crate) kernel: &'a Described,
    pub(crate) inputs: &'a [Input<'a>],
    pub(crate) settings: &'a Settings,
}

/// What all members have agreed on before anything is written.
struct Agreed {
    begun: Instant,
    identity: Identity,
    plan: ArrayPlan,
    /// The slabs of all members.
    own: Vec<Range<usize>>,
    share: Share,
}

/// What a pass has done: its greatest changes or its error, the number of iterations before it, the
/// fields (first those that it has written) and its sums.
struct Passed<'p> {
    changes: Result<Vec<f64>>,
    before: u64,
    fields: &'p mut [Fields],
    sums: &'p PassSums,
}

/// Is called by all members after each pass. Returns the greatest changes in the slabs of this
/// member, and the number of bytes that it has received.
type Meet<'m> = dyn FnMut(&mut Member, Passed<'_>) -> Result<(Vec<f64>, u64)> + 'm;

impl OnTeam<'_> {
    /// Runs the sweep into the files of a target. `checked` is what this member has found wrong
    /// with its arguments.
    ///
    /// # Collective
    /// All members call it.
    pub(crate) fn run(
        &self,
        target: &Target,
        checked: Result<()>,
        me: &mut Member,
    ) -> Result<SweepReport> {
        let mut agreed = self.agree(Some(target), checked, me)?;
        // The first member decides about the names, and creates the files.
        let begun = (me.rank() == 0).then(|| {
            let (rule, plan) = (self.kernel.rule(), agreed.plan);
            let plan = &|_: &[Input<'_>], _, _| Ok(plan);
            let keep = Keep { rule, inputs: self.inputs, settings: self.settings, target, plan };
            Begun::new(&keep, agreed.plan.passes, &me.place())
        });
        let begun = all(me, begun.transpose())?;
        let names = begun.as_ref().map(Begun::names).unwrap_or_default();
        let names = me.exchange(&names)?.swap_remove(0);
        let opened = files::open(target, &names, &me.place());
        let (sets, block) = all(me, opened)?;
        agreed.share.block = me.gather(block)?.into_iter().max().unwrap_or(1);
        // The names are of no more use when the headers have replaced the tokens.
        let headers = begun.as_ref().map_or(Ok(()), |_| files::write_headers(self.inputs, &sets));
        all(me, headers)?;
        let (mut output, mut written) = (Output::Shared(sets), Written::default());
        let report = self.passes(&agreed, &mut output, me, &mut |me, passed| {
            let Passed { changes, before, fields, sums } = passed;
            let outcome = changes.and_then(|changes| {
                written.check(before, sums, &agreed.share)?;
                files::sync(fields)?;
                agreed.identity.check_inputs()?;
                Ok(changes)
            });
            let changes = all(me, outcome)?;
            let shares = (&agreed.own[..], &agreed.share);
            written.exchange(before, fields, sums, shares, me)?;
            Ok((changes, 0))
        })?;
        let committed = match (begun, &output) {
            (Some(begun), Output::Shared(sets)) => {
                let of = (self.settings, &written, &agreed.share);
                begun.commit(target, &sets[0], &report, of)
            }
            _ => Ok(()),
        };
        all(me, committed)?;
        Ok(report)
    }

    /// Runs the sweep into fields in the memory of each member: every member gets all of them.
    /// `checked` is what this member has found wrong with its arguments.
    ///
    /// # Collective
    /// All members call it.
    pub(crate) fn gather(
        &self,
        checked: Result<()>,
        me: &mut Member,
    ) -> Result<(Vec<Array>, SweepReport)> {
        let agreed = self.agree(None, checked, me)?;
        let (own, share) = (&agreed.own[..], &agreed.share);
        let more = agreed.plan.depth as usize * explicit::reach(self.kernel.rule());
        let mut output = Output::Memory(Vec::new());
        let mut report = self.passes(&agreed, &mut output, me, &mut |me, passed| {
            let changes = all(me, passed.changes)?;
            let Some(Fields::Memory(fields)) = passed.fields.first_mut() else {
                unreachable!("the pass has written fields in memory")
            };
            let bytes = exchange(me, fields, own, &|member| share.read(&own[member], more))?;
            Ok((changes, bytes))
        })?;
        let Output::Memory(mut fields) = output else {
            unreachable!("a run does not change the kind of its output")
        };
        let bytes = exchange(me, &mut fields, own, &|_| 0..share.slabs)?;
        report.bytes_exchanged += me.gather(bytes)?.into_iter().sum::<u64>();
        Ok((fields, report))
    }

    /// Runs all passes.
    fn passes(
        &self,
        agreed: &Agreed,
        output: &mut Output,
        me: &mut Member,
        meet: &mut Meet<'_>,
    ) -> Result<SweepReport> {
        let (rule, inputs, settings) = (self.kernel.rule(), self.inputs, self.settings);
        let (plan, share) = (agreed.plan, agreed.share.clone());
        let run = Run { rule, inputs, settings, plan, share };
        let (spent, mut received) = (Spent::default(), 0);
        let mut agree = |changes, before, fields: &mut [Fields], sums: &PassSums| {
            let (changes, bytes) = meet(me, Passed { changes, before, fields, sums })?;
            received += bytes;
            greatest(me, changes)
        };
        let after = &mut |_: &mut Output, _: &Done, _| Ok(());
        let done = run.passes(output, Done::default(), &spent, &[], (after, &mut agree))?;
        let (spent, threads) = (spent.of_all(me)?, me.gather(settings.processors())?);
        let (threads, time) = (threads.into_iter().sum(), agreed.begun.elapsed());
        let report = run.report(done, 0, &spent, time, threads);
        let bytes_exchanged = me.gather(received)?.into_iter().sum();
        Ok(SweepReport { bytes_exchanged, ..report })
    }

    /// Agrees on the sweep and its plan. There is no target if the result is in memory.
    fn agree(
        &self,
        target: Option<&Target>,
        checked: Result<()>,
        me: &mut Member,
    ) -> Result<Agreed> {
        let begun = Instant::now();
        begin(me, checked.and_then(|()| self.refuse()))?;
        let same = same(me, &self.arguments(target))?;
        all(me, same)?;
        let origins: Vec<_> = self.inputs.iter().filter_map(Input::origin).collect();
        let paths: Vec<_> = origins.iter().map(|origin| &*origin.path).collect();
        let views = paths.iter().map(|path| InputView::of(path));
        let views = views.collect::<syncline_store::Result<Vec<_>>>();
        let views = all(me, views.map_err(Error::from))?;
        check_views(me, &paths, &views)?;
        let inputs = origins.into_iter().cloned().collect();
        let identity = Identity { inputs, ..Identity::default() };
        let slabs = self.inputs[0].dims()[0];
        let members = me.size();
        if slabs < members {
            return all(me, Err(Error::Members { members, most: slabs }));
        }
        let unit = if target.is_some() { self.unit(members) } else { 1 };
        let own: Vec<Range<usize>> =
            (0..members).map(|member| Share::of(slabs, (member, members), unit).own).collect();
        let share = Share::of(slabs, (me.rank(), members), unit);
        let plan = self.plan(&own, target.is_some(), me)?;
        Ok(Agreed { begun, identity, plan, own, share })
    }

    /// Refuses what a team cannot run.
    fn refuse(&self) -> Result<()> {
        let (what, instead) = match self.settings.iterations {
            _ if !self.kernel.rule().explicit => (
                "a kernel over arrays in which the order of the points matters",
                "run it in one process, or let it read old values only (`old.n`)",
            ),
            0 => ("a sweep that updates nothing", "run it in one process"),
            _ => return Ok(()),
        };
        Err(Error::NotOnTeam { what, instead })
    }

    /// Returns the number of slabs of a unit of sums of the files.
    fn unit(&self, members: usize) -> usize {
        let fields = &self.inputs[..self.kernel.rule().fields];
        let best = unit_of(fields.iter().map(Input::slab_bytes).max().unwrap_or(1));
        let [fewest, most] = UNITS.map(|units| units * members);
        let slabs = self.inputs[0].dims()[0];
        best.min(slabs / fewest).max(slabs.div_ceil(most)).max(1)
    }

    /// Agrees on the plan: the depth is that of the member with the least memory, cache and disk.
    fn plan(&self, own: &[Range<usize>], to_files: bool, me: &mut Member) -> Result<ArrayPlan> {
        let (rule, inputs, settings) = (self.kernel.rule(), self.inputs, self.settings);
        let elements: Vec<_> = inputs.iter().map(Input::element).collect();
        let several = to_files && settings.iterations > 1;
        let is_on_file = |(n, input): (usize, &Input<'_>)| {
            matches!(input, Input::File(_)) || several && n < rule.fields
        };
        let on_file: Vec<bool> = inputs.iter().enumerate().map(is_on_file).collect();
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
        let most_threads = !least(!threads)?;
        let most = own.iter().map(ExactSizeIterator::len).max().unwrap_or(1);
        let fewest = own.iter().map(ExactSizeIterator::len).min().unwrap_or(1);
        let [_, rows, cols] = three(inputs[0].dims());
        let deepest = (fewest / (TWICE * explicit::reach(rule).max(1))).max(1) as u64;
        let question = Question {
            rule,
            dims: [most, rows, cols],
            elements: &elements,
            on_file: &on_file,
            result_on_file: to_files,
            iterations: settings.iterations,
            converges: settings.tolerance.is_some(),
            depth: settings.depth,
            deepest,
            threads: most_threads as usize,
            memory: least_memory,
            cache,
            disk,
        };
        let too_small = |error| match error {
            // The error of a member that has too little, with its own bound.
            Error::StreamMemory { needed, .. } if memory >= needed => {
                Error::Elsewhere { rank: poorest, error: String::new() }
            }
            Error::StreamMemory { depth, needed, .. } => {
                Error::StreamMemory { allowed: memory, depth, needed, on_team: true }
            }
            other => other,
        };
        let plan = question.answer().and_then(|ArrayPlan { depth, .. }| {
            let threads = threads as usize;
            Question { depth: Some(depth), threads, memory, ..question }.answer()
        });
        all(me, plan.map_err(too_small))
    }

    /// Returns the arguments of the sweep, as pairs of a name and a value.
    fn arguments(&self, target: Option<&Target>) -> Vec<(String, String)> {
        let types = self.inputs.iter().map(|input| input.element().name());
        let dims = self.inputs[0].dims().iter().map(usize::to_string);
        let mut all = of_settings(self.settings, target);
        all.extend(
            [
                ("the types of the arrays", types.collect::<Vec<_>>().join(", ")),
                ("the shape of the arrays", dims.collect::<Vec<_>>().join(" x ")),
                ("the exact stop", self.settings.exact_stop.to_string()),
                ("the result of the kernel", format!("checksum {:016x}", self.probe())),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        all
    }

    /// Returns a checksum of what the kernel computes from fixed values.
    fn probe(&self) -> u64 {
        let rule = self.kernel.rule();
        let arrays = self.inputs.iter().enumerate().map(|(n, input)| {
            let element = input.element();
            let mut array = Array::zeros(element, &vec![SIDE; input.dims().len()]).ok()?;
            // The fractional parts of the multiples of the golden ratio: no two are equal.
            let numbers = (1000 * n + 1..).map(|n| (0.618_033_988_749_895 * n as f64).fract());
            let places = array.bytes_mut().chunks_exact_mut(element.bytes());
            for (place, number) in places.zip(numbers) {
                match element {
                    ElementType::Float64 => place.copy_from_slice(&number.to_le_bytes()),
                    ElementType::Float32 => place.copy_from_slice(&(number as f32).to_le_bytes()),
                    _ => {
                        let whole = ((100.0 * number) as i64).to_le_bytes();
                        place.copy_from_slice(&whole[..place.len()]);
                    }
                }
            }
            Some(array)
        });
        let Some(mut fields) = arrays.collect::<Option<Vec<Array>>>() else { return 0 };
        let coefficients = fields.split_off(rule.fields);
        let coefficients: Vec<&Array> = coefficients.iter().collect();
        let update = AssertUnwindSafe(|| plain(rule, &mut fields, &coefficients, 0..1));
        if catch_unwind(update).is_err() {
            // It panics in the sweep as well, which reports the panic.
            return 0;
        }
        let mut sum = Checksum::new();
        fields.iter().for_each(|field| sum.update(field.bytes()));
        sum.value()
    }
}

/// Returns the greatest changes of all members, iteration by iteration.
fn greatest(me: &mut Member, mut changes: Vec<f64>) -> Result<Vec<f64>> {
    for change in &mut changes {
        let all = me.gather(change.to_bits())?.into_iter().map(f64::from_bits);
        *change = all.fold(0.0, greater);
    }
    Ok(changes)
}
