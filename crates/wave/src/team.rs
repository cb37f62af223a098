//! Sweeps on a team.
//!
//! # Contract
//! All members call [`OnTeam::run`] or [`OnTeam::gather`] with the same sweep. The result has the
//! bits of the plain loop, whatever the number of members and wherever they are. The members meet
//! between passes:
//!
//! ```text
//!  inputs ──> pass of member 0 ──┐           ┌─> pass of member 0 ──┐
//!         ──> pass of member 1 ──┼─ exchange ┼─> pass of member 1 ──┼─ ...
//!         ──> pass of member 2 ──┘           └─> pass of member 2 ──┘
//! ```
//!
//! | kernels        | a member has               | within a pass                                 |
//! |----------------|----------------------------|-----------------------------------------------|
//! | explicit rules | slabs ([`share`])          | nothing travels: members compute beyond their |
//! |                |                            | share                                         |
//! | ordered rules  | columns ([`columns`])      | the values at the cuts travel, band by band:  |
//! |                |                            | see [`cut`](crate::engines::ordered)          |
//! | strips         | columns, of each pass      | as of ordered rules: see                      |
//! |                |                            | [`cut`](crate::strip::cut)                    |
//!
//! | the result is  | exchange                                                                |
//! |----------------|-------------------------------------------------------------------------|
//! | in files       | all sync their bytes; the next pass reads those of others in the files, |
//! |                | and compares them with the sums of those that wrote them: slabs at the  |
//! |                | end of the pass ([`files`]), columns as they are read ([`sums`])        |
//! | in memory      | neighbours send what the next pass needs ([`exchange`]); every member   |
//! |                | gets all at the end, or in the last pass, if it is known and members    |
//! |                | run it together                                                         |
//!
//! In both cases they also exchange the greatest changes, if there is a tolerance, and how far they
//! are. An error of one member is an error of all, with the rank and the cause.
//!
//! # Costs
//! Those of [`share`] or of the cuts, and of [`exchange`]; per pass some gathers of a word.
//!
//! # Source
//! This project's; see [`share`] for overlapped tiles.
//!
//! [`share`]: crate::team::share
//! [`columns`]: crate::team::columns

pub(crate) mod agree;
pub(crate) mod columns;
mod exchange;
mod files;
pub(crate) mod groups;
pub(crate) mod kernel;
pub(crate) mod plan;
mod same;
pub(crate) mod share;
pub(crate) mod sums;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_kernel::rule::greater;
use syncline_kernel::rule::three;
use syncline_store::Layout;
use syncline_store::array::{Array, ArrayFile};
use syncline_store::generation::Identity;
use syncline_store::shared::InputView;

use self::agree::{all, begin, check_views};
use self::columns::{Columns, LeaningColumns};
use self::exchange::{Region, exchange};
use self::files::{Begun, Set, Written};
use self::groups::Groups;
use self::kernel::Computes;
use self::same::{of_settings, same};
use self::share::Share;
use crate::facts::{self, Data};
use crate::monitor::Monitor;
use crate::pass::buffers::Buffers;
use crate::pass::spent::Spent;
use crate::pass::sums::PassSums;
use crate::run::computation::Computation;
use crate::run::fields::{Fields, Input, Output, again, failed};
use crate::run::scheme::{BySlabs, Scheme};
use crate::run::target::Target;
use crate::run::{Done, Ended, Run, Together};
use crate::sweep::{Settings, SweepPlan, SweepReport};
use crate::{Error, Result};

/// A sweep on a team.
#[derive(Clone, Copy)]
pub(crate) struct OnTeam<'a> {
    pub(crate) kernel: Computes<'a>,
    pub(crate) inputs: &'a [Input<'a>],
    pub(crate) settings: &'a Settings,
}

/// What each member has of the fields.
enum Division {
    /// These slabs of each member.
    Slabs(Vec<Range<usize>>),
    Columns(Arc<LeaningColumns>),
    /// The columns of the cuts of strips.
    Strips,
}

/// What all members have agreed on before anything is written.
struct Agreed {
    begun: Instant,
    identity: Identity,
    plan: SweepPlan,
    division: Division,
    share: Share,
    groups: Groups,
    /// Whether results on file are `.npy` files, not the elements only.
    npy: bool,
    /// Whether the passes run in memory, and whether all members get all of the result there.
    in_memory: bool,
    for_all: bool,
}

/// What a pass has done: its greatest changes or its error, the fields (first those that it has
/// written) and its sums.
struct Passed<'p> {
    changes: Result<Vec<f64>>,
    pass: Ended,
    fields: &'p mut [Fields],
    sums: &'p mut PassSums,
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
        let passes = if agreed.in_memory { 1 } else { agreed.plan.passes() };
        // The first member decides about the names, and creates the files.
        let begun = (me.rank() == 0).then(|| {
            let (inputs, settings) = (self.inputs, self.settings);
            let (fields, directions) = (self.kernel.fields(), self.kernel.directions());
            let what = Computation { fields, directions, inputs, settings, target };
            Begun::new(&what, passes, &me.place())
        });
        let begun = all(me, begun.transpose())?;
        let names = begun.as_ref().map(Begun::names).unwrap_or_default();
        let names = me.exchange(&names)?.swap_remove(0);
        let opened = files::open(target, &names, &me.place());
        let (mut sets, block) = all(me, opened)?;
        agreed.share.block = me.gather(block)?.into_iter().max().unwrap_or(1);
        // The names are of no more use when the headers have replaced the tokens.
        let npy = agreed.npy;
        let write = |_| files::write_headers(self.inputs, npy, &sets);
        let headers = begun.as_ref().map_or(Ok(()), write);
        all(me, headers)?;
        let (report, sums) = match agreed.in_memory {
            true => (self.by_memory(&agreed, &sets[0], me)?, None),
            false => self.by_files(&agreed, &mut sets, me)?,
        };
        let share = Share { unit: Some(self.unit(me.size())), ..agreed.share };
        let sums = match sums {
            Some(sums) => sums,
            None => files::sums(self.inputs, (&sets[0], npy), &share, &self.settings.monitor, me)?,
        };
        let dims = self.inputs[0].dims().to_vec();
        let committed = begun.map_or(Ok(()), |begun| {
            begun.commit(target, &sets[0], &report, (self.settings, &share, dims), sums)
        });
        all(me, committed)?;
        Ok(report)
    }

    /// Runs the sweep from pass to pass through sets of files; the last one comes first. Returns
    /// the sums of the result, if the passes have them.
    fn by_files(
        &self,
        agreed: &Agreed,
        sets: &mut Vec<Set>,
        me: &mut Member,
    ) -> Result<(SweepReport, Option<Vec<u64>>)> {
        let (mut output, mut written) = (Output::Shared(std::mem::take(sets)), Written::default());
        let report = self.passes(agreed, &mut output, me, &mut |me, passed| {
            let Passed { changes, pass: Ended { before, .. }, fields, sums } = passed;
            let outcome = changes.and_then(|changes| {
                written.check(before, sums, &agreed.share)?;
                files::sync(fields)?;
                agreed.identity.check_inputs()?;
                Ok(changes)
            });
            let changes = all(me, outcome)?;
            match &agreed.division {
                Division::Slabs(own) => {
                    written.exchange(before, fields, sums, (own, &agreed.share), me)?;
                }
                _ => {
                    let read = sums.given.take().map(|given| given.exchange(me)).transpose();
                    sums.given = all(me, read)?;
                }
            }
            Ok((changes, 0))
        })?;
        if let Output::Shared(all) = output {
            *sets = all;
        }
        let of_slabs = matches!(agreed.division, Division::Slabs(_));
        Ok((report, of_slabs.then(|| written.sums())))
    }

    /// Runs the sweep in memory, over the parts of the arrays that this member reads, and writes
    /// the result to files.
    fn by_memory(&self, agreed: &Agreed, set: &Set, me: &mut Member) -> Result<SweepReport> {
        let parts = self.inputs.iter().map(|input| match input {
            Input::Memory(_) => Ok(None),
            Input::File(file) => {
                let first = agreed.plan.depth().min(self.settings.iterations);
                let needs = self.needs(agreed, me.rank(), Some(first as usize));
                load(file, &needs, &self.settings.monitor).map(Some)
            }
        });
        let parts = all(me, parts.collect::<Result<Vec<_>>>())?;
        let inputs = self.inputs.iter().zip(&parts);
        let inputs: Vec<Input<'_>> =
            inputs.map(|(input, part)| part.as_ref().map_or(*input, Input::Memory)).collect();
        let team = OnTeam { inputs: &inputs, ..*self };
        let (fields, report) = team.in_parts(agreed, Vec::new(), me)?;
        let (run, spent) = (team.run_of(agreed, me.rank()), Spent::default());
        let together = !matches!(agreed.division, Division::Slabs(_));
        let wrote = run.copy_to(again(set), fields, &spent, Some(&mut *me).filter(|_| together));
        let synced = wrote.and_then(|()| {
            files::sync(&[again(set).map(Fields::Files)?])?;
            Ok(agreed.identity.check_inputs()?)
        });
        all(me, synced)?;
        Ok(report)
    }

    /// Runs the sweep into fields in the memory of each member: every member gets all of them.
    /// `checked` is what this member has found wrong with its arguments, and `given` are arrays for
    /// the fields, if there are any.
    ///
    /// # Collective
    /// All members call it.
    pub(crate) fn gather(
        &self,
        given: Vec<Array>,
        checked: Result<()>,
        me: &mut Member,
    ) -> Result<(Vec<Array>, SweepReport)> {
        let agreed = self.agree(None, checked, me)?;
        self.gather_as(&agreed, given, me)
    }

    /// Runs the sweep as agreed into fields in the memory of each member.
    fn gather_as(
        &self,
        agreed: &Agreed,
        given: Vec<Array>,
        me: &mut Member,
    ) -> Result<(Vec<Array>, SweepReport)> {
        let (mut fields, mut report) = self.in_parts(agreed, given, me)?;
        if self.gathers(agreed) {
            return Ok((fields, report));
        }
        let own: Vec<Region> = (0..me.size()).map(|member| self.has(agreed, member, 0)).collect();
        let bytes = exchange(me, &mut fields, &own, &|_| self.all())?;
        report.bytes_exchanged += me.gather(bytes)?.into_iter().sum::<u64>();
        Ok((fields, report))
    }

    /// Runs the sweep in memory, in the `given` arrays if there are any; each member has its own
    /// part of the result.
    fn in_parts(
        &self,
        agreed: &Agreed,
        given: Vec<Array>,
        me: &mut Member,
    ) -> Result<(Vec<Array>, SweepReport)> {
        let mut output = Output::Memory(given);
        let report = self.passes(agreed, &mut output, me, &mut |me, passed| {
            let changes = all(me, passed.changes)?;
            let Some(Fields::Memory(fields)) = passed.fields.first_mut() else {
                unreachable!("the pass has written fields in memory")
            };
            let Ended { levels, next, .. } = passed.pass;
            if next.is_none() && self.gathers(agreed) {
                return Ok((changes, 0));
            }
            let own: Vec<Region> =
                (0..me.size()).map(|member| self.has(agreed, member, levels)).collect();
            let mut bytes = 0;
            for part in 0..self.needs(agreed, me.rank(), next).len() {
                let needs = |member| self.needs(agreed, member, next).swap_remove(part);
                bytes += exchange(me, fields, &own, &needs)?;
            }
            Ok((changes, bytes))
        })?;
        match output {
            Output::Memory(fields) => Ok((fields, report)),
            _ => unreachable!("a run does not change the kind of its output"),
        }
    }

    /// Returns whether the last pass gives all of the result to all members: it must be known, and
    /// the members must run it together.
    fn gathers(&self, agreed: &Agreed) -> bool {
        let together = !matches!(agreed.division, Division::Slabs(_));
        agreed.for_all && together && self.settings.tolerance.is_none()
    }

    /// Returns the part of all fields.
    fn all(&self) -> Region {
        let [slabs, rows, cols] = three(self.inputs[0].dims());
        Region { slabs: 0..slabs, rows, cols: vec![0..cols; rows] }
    }

    /// Returns the part of the fields that a member computes in a pass of some levels, or, without
    /// levels, what it has at the end.
    fn has(&self, agreed: &Agreed, member: usize, levels: usize) -> Region {
        let all = self.all();
        let places = |slabs: usize| (0..slabs * all.rows).map(|at| (at / all.rows, at % all.rows));
        match &agreed.division {
            Division::Slabs(own) => Region { slabs: own[member].clone(), ..all },
            Division::Columns(columns) => {
                let cols = places(1).map(|(slab, row)| columns.own(member, slab, row));
                Region { cols: cols.collect(), ..all }
            }
            Division::Strips => {
                let scheme = self.scheme(agreed, member);
                let Some(columns) = scheme.columns(levels) else { return all };
                let cols = places(all.slabs.end).map(|(slab, row)| columns.own(member, slab, row));
                Region { cols: cols.collect(), ..all }
            }
        }
    }

    /// Returns the parts of the fields that a member reads in the next pass, of some levels; or,
    /// without a next pass, what it has at the end. All members have as many.
    fn needs(&self, agreed: &Agreed, member: usize, next: Option<usize>) -> Vec<Region> {
        match (&agreed.division, next) {
            (_, None) => vec![self.has(agreed, member, 0)],
            (Division::Slabs(_), _) => {
                let read = self.run_of(agreed, member).slabs(agreed.plan.depth() as usize);
                read.into_iter().map(|slabs| Region { slabs, ..self.all() }).collect()
            }
            (_, Some(levels)) => {
                let Some(columns) = self.scheme(agreed, member).columns(levels) else {
                    return vec![self.all()];
                };
                let all = self.all();
                let cols = (0..all.rows).map(|row| columns.read(member, row));
                vec![Region { cols: cols.collect(), ..all }]
            }
        }
    }

    /// Returns what computes in a member.
    fn scheme(&self, agreed: &Agreed, member: usize) -> Box<dyn Scheme + '_> {
        match (self.kernel, agreed.plan) {
            (Computes::Rule(described), SweepPlan::Arrays(plan)) => {
                let (rule, lanes) = (described.rule(), self.settings.lanes);
                let team = match &agreed.division {
                    Division::Columns(columns) => Some((Arc::clone(columns), member)),
                    _ => None,
                };
                Box::new(BySlabs { rule, plan, lanes, team })
            }
            (Computes::Strips(kernel), SweepPlan::Streamed(plan)) => {
                let team = Some((agreed.groups.members_in_all(), member));
                kernel.scheme(plan, self.inputs[0].shape(), team)
            }
            _ => unreachable!("the plan is that of the kernel"),
        }
    }

    /// Returns the run of a member.
    fn run_of<'r>(&'r self, agreed: &Agreed, member: usize) -> Run<'r> {
        let (own, team) = match &agreed.division {
            Division::Slabs(own) => (own[member].clone(), None),
            _ => (agreed.share.own.clone(), Some((agreed.groups.clone(), member))),
        };
        Run {
            scheme: self.scheme(agreed, member),
            inputs: self.inputs,
            settings: self.settings,
            npy: agreed.npy,
            share: Share { own, ..agreed.share.clone() },
            team,
            gathers: self.gathers(agreed),
            buffers: Buffers::default(),
        }
    }

    /// Runs all passes.
    fn passes(
        &self,
        agreed: &Agreed,
        output: &mut Output,
        me: &mut Member,
        meet: &mut Meet<'_>,
    ) -> Result<SweepReport> {
        let run = self.run_of(agreed, me.rank());
        let columns = run.team.is_some();
        let mut meeting =
            Meeting { me, meet, monitor: &self.settings.monitor, received: 0, columns };
        let spent = Spent::default();
        let after = &mut |_: &mut Output, _: &Done, _| Ok(());
        let done = run.passes(output, Done::default(), &spent, &[], (after, &mut meeting))?;
        let Meeting { me, received, .. } = meeting;
        let (spent, threads) = (spent.of_all(me)?, me.gather(self.settings.processors())?);
        let (threads, time) = (threads.into_iter().sum(), agreed.begun.elapsed());
        let report = run.report(done, 0, &spent, time, threads);
        let received: u64 = me.gather(received)?.into_iter().sum();
        Ok(SweepReport { bytes_exchanged: report.bytes_exchanged + received, ..report })
    }

    /// Agrees on the sweep and its plan. There is no target if the result is in memory.
    fn agree(
        &self,
        target: Option<&Target>,
        checked: Result<()>,
        me: &mut Member,
    ) -> Result<Agreed> {
        let begun = Instant::now();
        begin(me, checked.and_then(|()| self.refuse(me.size())))?;
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
        let in_memory = me.gather(target.is_none_or(|target| target.in_memory).into())?;
        let in_memory = in_memory.into_iter().all(|wanted| wanted > 0);
        let npy = target.is_none_or(|target| target.npy);
        // The inputs of a sweep from files to files that runs in memory are read first.
        let copied = in_memory && target.is_some();
        let (to_files, groups) = (!in_memory, Groups::of(me));
        let given = self.given((to_files, copied), me)?;
        let (plan, division, share) = match self.kernel {
            Computes::Rule(described) if described.rule().explicit => {
                let (plan, own, share) = self.slabs(described.rule(), &given, to_files, me)?;
                (SweepPlan::Arrays(plan), Division::Slabs(own), share)
            }
            Computes::Rule(described) => {
                let rule = described.rule();
                let (plan, share, columns) = self.columns(rule, &given, (to_files, copied), me)?;
                (SweepPlan::Arrays(plan), Division::Columns(Arc::new(columns)), share)
            }
            Computes::Strips(kernel) => {
                let plan = self.strips(kernel, &given, (to_files, &groups), me)?;
                let unit = Some(self.unit(me.size()));
                let share = Share { unit, ..Share::whole(self.inputs[0].dims()[0]) };
                (SweepPlan::Streamed(plan), Division::Strips, share)
            }
        };
        let (dims, element) = (self.inputs[0].dims(), self.inputs[0].element());
        let coefficients = self.inputs.len() - self.kernel.fields();
        let data = Data { dims, element, coefficients, layout: Layout::RowMajor };
        facts::streamed(self.settings, self.kernel.name(), &data, &plan, given.disk);
        let for_all = target.is_none();
        Ok(Agreed { begun, identity, plan, division, share, groups, npy, in_memory, for_all })
    }

    /// Refuses what a team of some members cannot run.
    fn refuse(&self, members: usize) -> Result<()> {
        let (leans, has_points) = match self.kernel {
            Computes::Rule(described) => (described.rule().leans_both_ways(), true),
            Computes::Strips(kernel) => {
                let updated = kernel.stencil().updated(self.inputs[0].shape());
                (false, updated.elements() > 0)
            }
        };
        let leans = members > 1 && leans;
        let (what, instead) = match self.settings.iterations {
            0 => ("a sweep that updates nothing", "run it in one process"),
            _ if !has_points => ("a sweep that updates nothing", "run it in one process"),
            _ if leans => (
                "a kernel of three dimensions with directions of both south-east or north-west and \
                 south-west or north-east",
                "run it in one process",
            ),
            _ => return Ok(()),
        };
        Err(Error::NotOnTeam { what, instead })
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
                (
                    "the result of the kernel",
                    format!("checksum {:016x}", self.kernel.probe(self.inputs)),
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        all
    }
}

/// Reads parts of an array on file into memory. The other elements are zero.
fn load(file: &ArrayFile, parts: &[Region], monitor: &Monitor) -> Result<Array> {
    /// The values that are read at once.
    const PIECE: usize = 1 << 20;
    let (dims, bytes) = (file.dims(), file.element().bytes());
    let (direct, start) = file.direct();
    let mut array = Array::zeros(file.element(), dims)?;
    let name = direct.name();
    let source = File::open(name).map_err(|why| failed("open", name, why))?;
    let [_, rows, cols] = three(dims);
    let mut read = |first: usize, values: usize| {
        if monitor.is_cancelled() {
            return Err(Error::Cancelled { iteration: 0 });
        }
        let (from, to) = (first * bytes, (first + values) * bytes);
        let into = &mut array.bytes_mut()[from..to];
        source.read_exact_at(into, start + from as u64).map_err(|why| failed("read", name, why))
    };
    for part in parts {
        if part.cols.iter().all(|own| *own == (0..cols)) {
            let (start, end) = (part.slabs.start * rows * cols, part.slabs.end * rows * cols);
            for first in (start..end).step_by(PIECE) {
                read(first, PIECE.min(end - first))?;
            }
            continue;
        }
        for slab in part.slabs.clone() {
            for (row, own) in part.cols.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
                read((slab * rows + row) * cols + own.start, own.len())?;
            }
        }
    }
    Ok(array)
}

/// The members of a team in a run.
struct Meeting<'m, 'c> {
    me: &'m mut Member,
    meet: &'c mut Meet<'c>,
    monitor: &'m Monitor,
    /// The number of bytes that this member has received between passes.
    received: u64,
    /// Whether they run the passes together.
    columns: bool,
}

impl Together for Meeting<'_, '_> {
    fn member(&mut self) -> Option<&mut Member> {
        self.columns.then_some(&mut *self.me)
    }

    fn tasks(&mut self, own: u64) -> Result<u64> {
        let tasks = self.me.gather(own)?;
        Ok(tasks[self.me.rank()..].iter().sum())
    }

    fn agree(
        &mut self,
        changes: Result<Vec<f64>>,
        pass: Ended,
        fields: &mut [Fields],
        sums: &mut PassSums,
    ) -> Result<Vec<f64>> {
        let passed = Passed { changes, pass, fields, sums };
        let (changes, bytes) = (self.meet)(self.me, passed)?;
        self.received += bytes;
        let own = self.monitor.own();
        let of_all = [self.me.gather(own[0])?, self.me.gather(own[1])?];
        let later = self.me.rank() + 1;
        self.monitor.others_are(of_all.map(|all| all[later..].iter().sum()));
        greatest(self.me, changes)
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
