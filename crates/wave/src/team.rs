//! Rules on a team.
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
//! | rules    | a member has               | within a pass                                       |
//! |----------|----------------------------|-----------------------------------------------------|
//! | explicit | slabs ([`share`])          | nothing travels: members compute beyond their share |
//! | ordered  | columns ([`columns`])      | the values at the cuts travel, band by band: see    |
//! |          |                            | [`cut`](crate::engines::ordered)                    |
//!
//! | the result is  | exchange                                                                |
//! |----------------|-------------------------------------------------------------------------|
//! | in files       | all sync their bytes; the next pass reads those of others in the files. |
//! |                | Slabs are compared with the sums of those that wrote them, columns with |
//! |                | the sums of the member that wrote them and reads them again             |
//! | in memory      | neighbours send what the next pass needs ([`exchange`]); at the end     |
//! |                | every member gets all                                                   |
//!
//! In both cases they also exchange the greatest changes, if there is a tolerance. An error of one
//! member is an error of all, with the rank and the cause.
//!
//! # Costs
//! Those of [`share`] or of the cuts, and of [`exchange`]; per pass some gathers of a word.
//!
//! # Source
//! This project's; see [`share`] for overlapped tiles.
//!
//! [`share`]: crate::team::share
//! [`columns`]: crate::team::columns

pub(crate) mod columns;
mod exchange;
mod files;
pub(crate) mod groups;
mod plan;
pub(crate) mod share;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use syncline_fabric::Member;
use syncline_kernel::rule::greater;
use syncline_kernel::rule::plain::plain;
use syncline_kernel::rule::three;
use syncline_store::ElementType;
use syncline_store::array::{Array, ArrayFile, Half};
use syncline_store::checksum::Checksum;
use syncline_store::generation::Identity;
use syncline_store::shared::InputView;

use self::exchange::{Region, exchange};
use self::files::{Begun, Set, Written};
use crate::monitor::Monitor;
use crate::pass::buffers::Buffers;
use crate::pass::sums::PassSums;
use crate::run::computation::Computation;
use crate::run::fields::{Fields, Input, Output, again, failed};
use crate::run::plan::ArrayPlan;
use crate::run::scheme::{BySlabs, Scheme};
use crate::run::{Done, Run, Together};
use crate::streamed::team::{all, begin, check_views, of_settings, same};
use crate::streamed::{Spent, Target};
use crate::sweep::{Settings, SweepReport};
use crate::team::columns::Columns;
use crate::team::groups::Groups;
use crate::team::share::Share;
use crate::{Described, Error, Result};

/// The length of the small arrays by which kernels are compared, along each axis.
const SIDE: usize = 8;

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
    /// The slabs of all members, of an explicit rule.
    own: Vec<Range<usize>>,
    share: Share,
    /// The columns of all members, of an ordered rule, and the number of this one.
    columns: Option<(Columns, usize)>,
    /// Whether the passes run in memory.
    in_memory: bool,
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
        let passes = if agreed.in_memory { 1 } else { agreed.plan.passes };
        // The first member decides about the names, and creates the files.
        let begun = (me.rank() == 0).then(|| {
            let (rule, inputs, settings) = (self.kernel.rule(), self.inputs, self.settings);
            let (fields, directions) = (rule.fields, rule.directions.len());
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
        let headers = begun.as_ref().map_or(Ok(()), |_| files::write_headers(self.inputs, &sets));
        all(me, headers)?;
        let (report, sums) = match agreed.in_memory {
            true => (self.by_memory(&agreed, &sets[0], me)?, None),
            false => self.by_files(&agreed, &mut sets, me)?,
        };
        let share = Share { unit: Some(self.unit(me.size())), ..agreed.share };
        let sums = match sums {
            Some(sums) => sums,
            None => files::sums(self.inputs, &sets[0], &share, &self.settings.monitor, me)?,
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
            let Passed { changes, before, fields, sums } = passed;
            let outcome = changes.and_then(|changes| {
                written.check(before, sums, &agreed.share)?;
                files::sync(fields)?;
                agreed.identity.check_inputs()?;
                Ok(changes)
            });
            let changes = all(me, outcome)?;
            let own = agreed.columns.is_none().then_some(&agreed.own[..]);
            written.exchange(before, fields, sums, (own, &agreed.share), me)?;
            Ok((changes, 0))
        })?;
        if let Output::Shared(all) = output {
            *sets = all;
        }
        Ok((report, agreed.columns.is_none().then(|| written.sums())))
    }

    /// Runs the sweep in memory, over the parts of the arrays that this member reads, and writes
    /// the result to files.
    fn by_memory(&self, agreed: &Agreed, set: &Set, me: &mut Member) -> Result<SweepReport> {
        let parts = self.inputs.iter().map(|input| match input {
            Input::Memory(_) => Ok(None),
            Input::File(file) => {
                load(file, &self.needs(agreed, me.rank()), &self.settings.monitor).map(Some)
            }
        });
        let parts = all(me, parts.collect::<Result<Vec<_>>>())?;
        let inputs = self.inputs.iter().zip(&parts);
        let inputs: Vec<Input<'_>> =
            inputs.map(|(input, part)| part.as_ref().map_or(*input, Input::Memory)).collect();
        let team = OnTeam { inputs: &inputs, ..*self };
        let (fields, report) = team.in_parts(agreed, me)?;
        let (run, spent) = (team.run_of(agreed, me.rank()), Spent::default());
        let together = agreed.columns.is_some();
        let wrote = run.copy_to(again(set), fields, &spent, Some(&mut *me).filter(|_| together));
        let synced = wrote.and_then(|()| {
            files::sync(&[again(set).map(Fields::Files)?])?;
            Ok(agreed.identity.check_inputs()?)
        });
        all(me, synced)?;
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
        self.gather_as(&agreed, me)
    }

    /// Runs the sweep as agreed into fields in the memory of each member.
    fn gather_as(&self, agreed: &Agreed, me: &mut Member) -> Result<(Vec<Array>, SweepReport)> {
        let (mut fields, mut report) = self.in_parts(agreed, me)?;
        let own: Vec<Region> = (0..me.size()).map(|member| self.has(agreed, member)).collect();
        let bytes = exchange(me, &mut fields, &own, &|_| self.all())?;
        report.bytes_exchanged += me.gather(bytes)?.into_iter().sum::<u64>();
        Ok((fields, report))
    }

    /// Runs the sweep in memory; each member has its own part of the result.
    fn in_parts(&self, agreed: &Agreed, me: &mut Member) -> Result<(Vec<Array>, SweepReport)> {
        let own: Vec<Region> = (0..me.size()).map(|member| self.has(agreed, member)).collect();
        let needs = |member| self.needs(agreed, member);
        let mut output = Output::Memory(Vec::new());
        let report = self.passes(agreed, &mut output, me, &mut |me, passed| {
            let changes = all(me, passed.changes)?;
            let Some(Fields::Memory(fields)) = passed.fields.first_mut() else {
                unreachable!("the pass has written fields in memory")
            };
            let bytes = exchange(me, fields, &own, &needs)?;
            Ok((changes, bytes))
        })?;
        match output {
            Output::Memory(fields) => Ok((fields, report)),
            _ => unreachable!("a run does not change the kind of its output"),
        }
    }

    /// Returns the part of all fields.
    fn all(&self) -> Region {
        let [slabs, rows, cols] = three(self.inputs[0].dims());
        Region { slabs: 0..slabs, cols: vec![0..cols; rows] }
    }

    /// Returns the part of the fields that a member computes.
    fn has(&self, agreed: &Agreed, member: usize) -> Region {
        match &agreed.columns {
            Some((columns, _)) => {
                let cols = (0..columns.rows()).map(|row| columns.own(member, row));
                Region { cols: cols.collect(), ..self.all() }
            }
            None => Region { slabs: agreed.own[member].clone(), ..self.all() },
        }
    }

    /// Returns the part of the fields that a member reads in a pass.
    fn needs(&self, agreed: &Agreed, member: usize) -> Region {
        match &agreed.columns {
            Some((columns, _)) => {
                let cols = (0..columns.rows()).map(|row| columns.read(member, row));
                Region { cols: cols.collect(), ..self.all() }
            }
            None => {
                let slabs = self.run_of(agreed, member).slabs(agreed.plan.depth as usize);
                Region { slabs, ..self.all() }
            }
        }
    }

    fn scheme(&self, agreed: &Agreed) -> Box<dyn Scheme + '_> {
        let (rule, lanes) = (self.kernel.rule(), self.settings.lanes);
        Box::new(BySlabs { rule, plan: agreed.plan, lanes })
    }

    /// Returns the run of a member.
    fn run_of<'r>(&'r self, agreed: &Agreed, member: usize) -> Run<'r> {
        let own = agreed.own.get(member).unwrap_or(&agreed.share.own).clone();
        Run {
            scheme: self.scheme(agreed),
            inputs: self.inputs,
            settings: self.settings,
            npy: true,
            share: Share { own, ..agreed.share.clone() },
            columns: agreed.columns.clone(),
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
        let mut meeting = Meeting { me, meet, received: 0, columns: agreed.columns.is_some() };
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
        let to_files = !in_memory;
        let (plan, own, share, columns) = match self.kernel.rule().explicit {
            true => {
                let (plan, own, share) = self.slabs(to_files, me)?;
                (plan, own, share, None)
            }
            false => {
                let (plan, share, columns) =
                    self.columns((to_files, in_memory && target.is_some()), me)?;
                let columns = columns.grouped(Groups::of(me));
                (plan, Vec::new(), share, Some((columns, me.rank())))
            }
        };
        Ok(Agreed { begun, identity, plan, own, share, columns, in_memory })
    }

    /// Refuses what a team of some members cannot run.
    fn refuse(&self, members: usize) -> Result<()> {
        let leans = members > 1 && self.kernel.rule().leans_both_ways();
        let (what, instead) = match self.settings.iterations {
            0 => ("a sweep that updates nothing", "run it in one process"),
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
                    ElementType::Float16 => {
                        place.copy_from_slice(&Half::from_f64(number).0.to_le_bytes());
                    }
                    ElementType::Bool => place.copy_from_slice(&[u8::from(number < 0.5)]),
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
        // Each direction once.
        let iterations = 0..rule.directions.len() as u64;
        let update = AssertUnwindSafe(|| plain(rule, &mut fields, &coefficients, iterations));
        if catch_unwind(update).is_err() {
            // It panics in the sweep as well, which reports the panic.
            return 0;
        }
        let mut sum = Checksum::new();
        fields.iter().for_each(|field| sum.update(field.bytes()));
        sum.value()
    }
}

/// Reads a part of an array on file into memory. The other elements are zero.
fn load(file: &ArrayFile, part: &Region, monitor: &Monitor) -> Result<Array> {
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
    if part.cols.iter().all(|own| *own == (0..cols)) {
        let (start, end) = (part.slabs.start * rows * cols, part.slabs.end * rows * cols);
        for first in (start..end).step_by(PIECE) {
            read(first, PIECE.min(end - first))?;
        }
        return Ok(array);
    }
    for slab in part.slabs.clone() {
        for (row, own) in part.cols.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
            read((slab * rows + row) * cols + own.start, own.len())?;
        }
    }
    Ok(array)
}

/// The members of a team in a run.
struct Meeting<'m, 'c> {
    me: &'m mut Member,
    meet: &'c mut Meet<'c>,
    /// The number of bytes that this member has received between passes.
    received: u64,
    /// Whether they run the passes together.
    columns: bool,
}

impl Together for Meeting<'_, '_> {
    fn member(&mut self) -> Option<&mut Member> {
        self.columns.then_some(&mut *self.me)
    }

    fn agree(
        &mut self,
        changes: Result<Vec<f64>>,
        before: u64,
        fields: &mut [Fields],
        sums: &PassSums,
    ) -> Result<Vec<f64>> {
        let passed = Passed { changes, before, fields, sums };
        let (changes, bytes) = (self.meet)(self.me, passed)?;
        self.received += bytes;
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
