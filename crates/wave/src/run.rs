//! Runs: one pass after another, until the iterations are done or the run has converged.
//!
//! # Contract
//! Iterations that all go down, or all up, are done in passes of up to `depth` of them. A run into
//! memory changes its result in place where it can. A run of several passes into files writes
//! [`Generations`] of all fields in turn and commits each, with the sums of its slabs. The next
//! pass checks what it reads against them ([`keep`](crate::run::keep)). A run of one pass writes
//! files without names.
//!
//! A run has converged when no point has changed by more than the tolerance in one iteration of
//! each direction.

mod begin;
pub(crate) mod computation;
pub(crate) mod fields;
pub(crate) mod keep;
pub(crate) mod machine;
pub(crate) mod plan;
pub(crate) mod scheme;
pub(crate) mod start;
pub(crate) mod target;

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_kernel::rule::three;
use syncline_store::array::Array;
use syncline_store::generation::Made;

use crate::monitor::Monitor;
use crate::pass::Expected;
use crate::pass::buffers::Buffers;
use crate::pass::spent::Spent;
use crate::pass::sums::{PassSums, SlabSums, unit_of};
use crate::run::fields::{Fields, Input, Output, again, cloned};
use crate::run::scheme::{Extent, Scheme};
use crate::sweep::{Settings, SweepPlan, SweepReport, Times};
use crate::team::agree::all;
use crate::team::columns::Members;
use crate::team::groups::Groups;
use crate::team::share::Share;
use crate::team::sums::{Between, Units};
use crate::{Error, Result};

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) scheme: Box<dyn Scheme + 'a>,
    /// The fields, then the coefficients.
    pub(crate) inputs: &'a [Input<'a>],
    pub(crate) settings: &'a Settings,
    /// Whether results on file are `.npy` files, not the elements only.
    pub(crate) npy: bool,
    /// The slabs that this process computes.
    pub(crate) share: Share,
    /// The groups of a team whose members run the passes together, and the number of this one.
    pub(crate) team: Option<(Groups, usize)>,
    /// What its passes have in common.
    pub(crate) buffers: Buffers,
}

/// The slabs of a pass.
struct Part {
    /// Those that come in, and those whose final values are wanted. Where the first axis is
    /// periodic, the first slabs follow the last ones.
    read: Range<usize>,
    wanted: Range<usize>,
    /// The position of the first slab of the arrays for which these ranges stand.
    origin: usize,
}

/// A pass that comes.
#[derive(Clone, Copy)]
struct Coming {
    /// The iterations and the passes before it.
    before: u64,
    passes: u64,
    /// Its own iterations. Without any it copies.
    levels: usize,
    /// Whether it reads the inputs, and whether it writes over the fields that it reads.
    first: bool,
    in_place: bool,
}

/// A pass that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// The iterations before it.
    pub(crate) before: u64,
    /// Its own iterations, and those of the next pass, if one follows.
    pub(crate) levels: usize,
    pub(crate) next: Option<usize>,
}

/// What has been done so far.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) iterations: u64,
    /// The residuals of the last iterations; of all iterations, if all are known.
    pub(crate) residuals: Vec<f64>,
    pub(crate) converged: Option<u64>,
    pub(crate) passes: u64,
}

/// Is called after each pass, with what has been done and the sums of the pass: commits it.
pub(crate) type AfterPass<'a> = dyn FnMut(&mut Output, &Done, PassSums) -> Result<()> + 'a;

/// What the members of a team do together in a run.
pub(crate) trait Together {
    /// Returns this member, if the members run the passes together.
    fn member(&mut self) -> Option<&mut Member>;

    /// Returns the number of tasks that a monitor counts, of which `own` are those of this process.
    fn tasks(&mut self, own: u64) -> Result<u64>;

    /// Is called after each pass, with its greatest changes or error, the fields (first those that
    /// it has written) and its sums. Returns the changes or the error of all members, which have
    /// what their next pass needs by then: in place of the sums that a member has given, those of
    /// what it reads.
    fn agree(
        &mut self,
        changes: Result<Vec<f64>>,
        pass: Ended,
        fields: &mut [Fields],
        sums: &mut PassSums,
    ) -> Result<Vec<f64>>;
}

/// A run of one process.
struct Alone;

impl Together for Alone {
    fn member(&mut self) -> Option<&mut Member> {
        None
    }

    fn tasks(&mut self, own: u64) -> Result<u64> {
        Ok(own)
    }

    fn agree(
        &mut self,
        changes: Result<Vec<f64>>,
        _: Ended,
        _: &mut [Fields],
        _: &mut PassSums,
    ) -> Result<Vec<f64>> {
        changes
    }
}

impl Run<'_> {
    /// Runs the iterations after those that are done. `wanted` are the arrays whose sums the first
    /// pass takes.
    pub(crate) fn run(
        &self,
        output: &mut Output,
        done: Done,
        wanted: &[usize],
        after: &mut AfterPass<'_>,
    ) -> Result<SweepReport> {
        let spent = Spent::default();
        let (begun, resumed) = (Instant::now(), done.iterations);
        let done = self.passes(output, done, &spent, wanted, (after, &mut Alone))?;
        let threads = self.settings.processors();
        Ok(self.report(done, resumed, &spent, begun.elapsed(), threads))
    }

    /// Runs the passes after the iterations that are done; returns what is done then.
    pub(crate) fn passes(
        &self,
        output: &mut Output,
        mut done: Done,
        spent: &Spent,
        wanted: &[usize],
        (after, team): (&mut AfterPass<'_>, &mut dyn Together),
    ) -> Result<Done> {
        let Settings { iterations, tolerance, monitor, .. } = self.settings;
        let resumed = done.iterations;
        let in_memory = matches!(output, Output::Memory(_));
        // The sets of fields in memory that passes write in turn; the last one written comes first.
        let mut sets = match output {
            Output::Memory(given) if !given.is_empty() => {
                vec![Fields::Memory(std::mem::take(given))]
            }
            _ => Vec::new(),
        };
        let keeps = tolerance.is_some() && self.settings.exact_stop;
        let is_checked = match output {
            Output::Memory(_) | Output::InPlace(_) => false,
            // One file alone is complete or absent.
            Output::New(files) => files.len() > 1,
            Output::Generations(_) | Output::Shared(_) => true,
        };
        let in_place = in_memory && self.scheme.in_place() && !keeps;
        monitor.passes_are(self.scheme.plan().passes(), resumed, *iterations);
        match self.scheme.has_points() {
            true => monitor.begin(team.tasks(self.tasks(resumed))?),
            false => done.without_points(*iterations, *tolerance),
        }
        // What the members with columns know of the fields that the next pass reads.
        let mut given: Option<Units> = None;
        while done.iterations < *iterations && done.converged.is_none() {
            let levels = self.levels(done.iterations);
            let first = match output {
                Output::Generations(generations) => generations.committed() == 0,
                _ => done.passes == 0,
            };
            let ready = self.ready(&mut sets, output, done.passes, first || in_place);
            // The units of what is read are those of the pass that has written it.
            let units = (!first).then(|| match &*output {
                Output::Generations(generations) => {
                    generations.progress().map(|last| last.panel_rows as usize)
                }
                Output::Shared(_) if self.team.is_none() => Some(self.unit()),
                _ => None,
            });
            let (before, passes) = (done.iterations, done.passes);
            let next = before + (levels as u64);
            let next = (next < *iterations).then(|| self.levels(next));
            let sums = |wanted: &[usize], levels: usize, next: Option<usize>| {
                let left = given.as_ref().map(|given| self.left(given, levels)).transpose()?;
                let given = next.filter(|_| is_checked).map(|next| self.given(levels, next));
                let of_slabs = is_checked && self.team.is_none();
                Ok::<_, Error>(PassSums {
                    slabs: self.slabs(levels).into(),
                    read: self.sums_of(wanted, units.flatten()),
                    written: if of_slabs { self.new_sums() } else { Vec::new() },
                    left: left.flatten(),
                    given: given.transpose()?.flatten(),
                })
            };
            let wanted = if done.passes == 0 { wanted } else { &[] };
            let mut pass = |sets: &mut Vec<Fields>, ready: Result<()>, levels, next, wanted| {
                let expected = expected_of(output).filter(|_| !first);
                let sums = ready.and_then(|()| sums(wanted, levels, next));
                let (ready, mut of_pass) = match sums {
                    Ok(sums) => (Ok(()), sums),
                    Err(error) => (Err(error), PassSums::default()),
                };
                let coming = Coming { before, passes, levels, first, in_place };
                let what = (spent, &mut of_pass, expected.as_deref());
                let norms = self.pass(ready, sets, coming, what, team.member());
                let norms =
                    team.agree(norms, Ended { before, levels, next }, sets, &mut of_pass)?;
                Ok::<_, Error>((norms, of_pass))
            };
            let (norms, mut of_pass) = pass(&mut sets, ready, levels, next, wanted)?;
            done.take(levels as u64, norms, *tolerance, self.scheme.directions());
            if let Some(at) = done.converged
                && keeps
                && at + 1 < done.iterations
            {
                let enough = (at + 1 - before) as usize;
                let (_, again) = pass(&mut sets, Ok(()), enough, None, &[])?;
                of_pass.written = again.written;
                done.take_back(at + 1);
            }
            given = of_pass.given.take();
            after(output, &done, of_pass)?;
            let kept = matches!(output, Output::Generations(_)).then_some(done.iterations);
            monitor.pass_is_over(kept);
        }
        if done.passes == 0 && matches!(output, Output::Memory(_) | Output::InPlace(_)) {
            self.ready(&mut sets, output, 0, true)?;
            self.copy(&mut sets[0])?;
        }
        if let (Output::Memory(arrays), Some(Fields::Memory(last))) =
            (&mut *output, sets.into_iter().next())
        {
            *arrays = last;
        }
        Ok(done)
    }

    /// Prepares the sets for the next pass: first the one that it writes. Unless it is the first or
    /// runs in place, it reads the next one.
    fn ready(
        &self,
        sets: &mut Vec<Fields>,
        output: &mut Output,
        passes: u64,
        one: bool,
    ) -> Result<()> {
        if !matches!(output, Output::Memory(_)) {
            *sets = self.files(output, passes)?;
            return Ok(());
        }
        if sets.len() < if one { 1 } else { 2 } {
            sets.push(self.new_set()?);
        }
        if !one {
            sets.swap(0, 1);
        }
        Ok(())
    }

    /// Returns the files that the next pass writes and, unless it is the first, those that it
    /// reads.
    fn files(&self, output: &mut Output, passes: u64) -> Result<Vec<Fields>> {
        match output {
            Output::Shared(sets) => {
                if passes > 0 {
                    sets.rotate_right(1);
                }
                let sets = if passes > 0 { &sets[..] } else { &sets[..1] };
                sets.iter().map(|files| again(files).map(Fields::Files)).collect()
            }
            Output::Memory(_) => Ok(Vec::new()),
            Output::InPlace(files) => Ok(vec![Fields::Files(again(files)?)]),
            Output::New(files) => Ok(vec![cloned(files)?]),
            Output::Generations(generations) => {
                let last = generations.committed();
                let mut sets = Vec::new();
                for generation in [last + 1, last].into_iter().filter(|&one| one > 0) {
                    let file = |n| {
                        let path = generations.path_of(generation, n);
                        Ok((generations.file_of(generation, n)?, path))
                    };
                    let files = (0..self.scheme.fields()).map(file).collect::<Result<_>>()?;
                    sets.push(Fields::Files(files));
                }
                Ok(sets)
            }
        }
    }

    /// Returns the number of slabs in a unit of sums of the fields.
    pub(crate) fn unit(&self) -> usize {
        if let Some(unit) = self.share.unit {
            return unit;
        }
        let fields = &self.inputs[..self.scheme.fields()];
        unit_of(fields.iter().map(Input::slab_bytes).max().unwrap_or(1))
    }

    fn new_sums(&self) -> Vec<SlabSums> {
        vec![SlabSums::new(self.unit(), self.dims()[0]); self.scheme.fields()]
    }

    /// Returns the sums that a pass takes of the arrays that it reads: those of the `wanted`
    /// inputs, and those of the fields in units of `unit`, if an earlier pass has written them.
    fn sums_of(&self, wanted: &[usize], unit: Option<usize>) -> Vec<Option<SlabSums>> {
        let slabs = self.dims()[0];
        (0..self.inputs.len())
            .map(|n| match unit {
                Some(unit) if n < self.scheme.fields() => Some(SlabSums::new(unit, slabs)),
                _ => wanted.contains(&n).then(|| SlabSums::new(slabs, slabs)),
            })
            .collect()
    }

    /// Returns whether the run has more than one pass after these iterations.
    pub(crate) fn has_several_passes(&self, done: u64) -> bool {
        let left = self.settings.iterations - done;
        left > 0 && self.scheme.has_points() && (self.levels(done) as u64) < left
    }

    /// Returns the number of iterations of the pass after `done` of them: all go up, or none.
    fn levels(&self, done: u64) -> usize {
        let up = self.scheme.is_up(done);
        let left = (self.settings.iterations - done).min(self.scheme.plan().depth());
        match self.scheme.directions() {
            1 => left as usize,
            _ => (done..done + left).take_while(|i| self.scheme.is_up(*i) == up).count(),
        }
    }

    /// Returns the number of tasks that a monitor counts.
    fn tasks(&self, mut done: u64) -> u64 {
        let (mut tasks, depth) = (0_u64, self.scheme.plan().depth());
        let mut known = None;
        while done < self.settings.iterations {
            let levels = self.levels(done);
            let full = levels as u64 == depth;
            let of_pass = known
                .filter(|_| full)
                .unwrap_or_else(|| self.scheme.tasks(&self.extent(levels, done)));
            known = if full { Some(of_pass) } else { known };
            // Passes of the same depth have the same tasks.
            let alike = self.scheme.directions() == 1;
            let passes = if full && alike { (self.settings.iterations - done) / depth } else { 1 };
            tasks = tasks.saturating_add(of_pass.saturating_mul(passes));
            done += passes * levels as u64;
        }
        tasks
    }

    fn dims(&self) -> [usize; 3] {
        three(self.inputs[0].dims())
    }

    /// Returns the members that run a pass of this many levels together.
    fn members(&self, levels: usize) -> Option<Members> {
        let ((groups, rank), columns) = self.team.as_ref().zip(self.scheme.columns(levels))?;
        Some(Members { columns, groups: groups.clone(), rank: *rank })
    }

    /// Returns the sums for what this member writes in a pass of some levels, which one of `next`
    /// levels reads.
    fn given(&self, levels: usize, next: usize) -> Result<Option<Units>> {
        let (Some(writers), Some(readers)) = (self.members(levels), self.members(next)) else {
            return Ok(None);
        };
        let fields = self.inputs[..self.scheme.fields()].iter().map(Input::element);
        let (fields, slabs) = (fields.collect::<Vec<_>>(), self.dims()[0]);
        let between = Between::new(slabs, &fields, &writers.columns, &*readers.columns);
        Ok(Some(Arc::new(between).of_writer(writers.rank)?))
    }

    /// Returns the sums of what this member reads whole in a pass of some levels.
    fn left(&self, given: &Units, levels: usize) -> Result<Option<Units>> {
        let members = self.members(levels);
        members.map(|members| given.narrowed(&*members.columns)).transpose()
    }

    /// Returns the slabs of a pass of this many levels.
    fn part(&self, levels: usize) -> Part {
        let (share, mut wanted) = (&self.share, self.share.own.clone());
        for input in &self.inputs[..self.scheme.fields()] {
            let slab = input.slab_bytes() as u64;
            wanted.end = wanted.end.max(share.wanted(input.start(self.npy), slab).end);
        }
        let more = levels * self.scheme.reach();
        if !self.scheme.goes_around() {
            return Part { read: share.read(&wanted, more), wanted, origin: 0 };
        }
        let (read, origin) = share.read_around(&wanted, more);
        Part { read, wanted: wanted.start + origin..wanted.end + origin, origin }
    }

    /// Returns the slabs that a pass of this many levels reads, each once.
    pub(crate) fn slabs(&self, levels: usize) -> [Range<usize>; 2] {
        self.share.once(&self.part(levels).read)
    }

    /// Returns the extent of a pass of this many levels.
    fn extent(&self, levels: usize, before: u64) -> Extent {
        let Part { read, wanted, .. } = self.part(levels);
        let [_, rows, cols] = self.dims();
        let wanted = wanted.start - read.start..wanted.end - read.start;
        Extent { dims: [read.len(), rows, cols], wanted, levels, before }
    }

    /// Copies fields in memory to files, with the other members of a team if they have columns. All
    /// of these call it, also one that could not open the files.
    pub(crate) fn copy_to(
        &self,
        files: Result<Vec<(File, PathBuf)>>,
        fields: Vec<Array>,
        spent: &Spent,
        me: Option<&mut Member>,
    ) -> Result<()> {
        let (ready, files) = match files {
            Ok(files) => (Ok(()), files),
            Err(error) => (Err(error), Vec::new()),
        };
        let sets = [Fields::Files(files), Fields::Memory(fields)];
        let what = (spent, &mut PassSums::default(), None);
        let coming = Coming { before: 0, passes: 0, levels: 0, first: false, in_place: false };
        self.pass(ready, &sets, coming, what, me).map(drop)
    }

    /// Runs one pass into the first set, if it is ready; returns the greatest changes. A pass
    /// without levels copies. `me` is this member of a team whose members run the pass together.
    fn pass(
        &self,
        ready: Result<()>,
        sets: &[Fields],
        coming: Coming,
        what: (&Spent, &mut PassSums, Option<&Expected<'_>>),
        mut me: Option<&mut Member>,
    ) -> Result<Vec<f64>> {
        let mut begun = false;
        let runs = |()| self.begin(sets, coming, what, (me.as_deref_mut(), &mut begun));
        match (ready.and_then(runs), me) {
            // The others hear of an error in their pass.
            (Err(error), Some(me)) if !begun => all(me, Err(error)),
            (outcome, _) => outcome,
        }
    }

    fn monitor(&self) -> &Monitor {
        &self.settings.monitor
    }

    pub(crate) fn report(
        &self,
        done: Done,
        resumed: u64,
        spent: &Spent,
        time: Duration,
        threads: u64,
    ) -> SweepReport {
        let report = done.report(self.scheme.plan(), threads, spent, time);
        SweepReport { resumed, ..report }
    }
}

impl Done {
    /// Returns the progress that an earlier run has made.
    pub(crate) fn after(made: &Made) -> Self {
        let Made { iterations, converged, .. } = *made;
        Done { iterations, residuals: made.residuals.clone(), converged, passes: 0 }
    }

    /// Returns the report of a run by this number of threads.
    pub(crate) fn report(
        self,
        plan: SweepPlan,
        threads: u64,
        spent: &Spent,
        time: Duration,
    ) -> SweepReport {
        let ns = |n: &std::sync::atomic::AtomicU64| Duration::from_nanos(n.load(Relaxed));
        let busy = ns(&spent.pack_ns) + ns(&spent.update_ns);
        SweepReport {
            iterations: self.iterations,
            residuals: self.residuals,
            converged: self.converged,
            bytes_read: spent.read.load(Relaxed),
            bytes_written: spent.written.load(Relaxed),
            processors: threads,
            workers: threads,
            passes: self.passes,
            resumed: 0,
            bytes_exchanged: spent.exchanged.load(Relaxed),
            times: Some(Times {
                read: ns(&spent.read_ns),
                write: ns(&spent.write_ns),
                check: ns(&spent.check_ns),
                pack: ns(&spent.pack_ns),
                update: ns(&spent.update_ns),
                wait: (time * threads as u32).saturating_sub(busy),
            }),
            plan,
        }
    }

    /// Records a pass.
    pub(crate) fn take(
        &mut self,
        levels: u64,
        norms: Vec<f64>,
        tolerance: Option<f64>,
        directions: usize,
    ) {
        self.iterations += levels;
        self.passes += 1;
        let Some(tolerance) = tolerance else {
            // The known residuals must be those of the last iterations.
            self.residuals.clear();
            return;
        };
        self.residuals.extend(norms);
        let unknown = self.iterations - self.residuals.len() as u64;
        let enough = |window: &[f64]| window.iter().all(|residual| *residual <= tolerance);
        let found = self.residuals.windows(directions).position(enough);
        self.converged = found.map(|at| unknown + (at + directions - 1) as u64);
    }

    /// Records a run of a kernel that updates no point: no iteration changes anything.
    fn without_points(&mut self, iterations: u64, tolerance: Option<f64>) {
        if self.iterations >= iterations || self.converged.is_some() {
            return;
        }
        match tolerance {
            Some(_) => {
                self.converged = Some(self.iterations);
                self.residuals.push(0.0);
                self.iterations += 1;
            }
            None => (self.residuals, self.iterations) = (Vec::new(), iterations),
        }
    }

    /// Records that the pass was run once more, and ended after `iterations` iterations.
    fn take_back(&mut self, iterations: u64) {
        let known = self.residuals.len().saturating_sub((self.iterations - iterations) as usize);
        self.residuals.truncate(known);
        self.iterations = iterations;
        self.passes += 1;
    }
}

/// Returns what compares the sums of the fields that a pass reads with those of the last
/// generation, if there is one.
fn expected_of(output: &Output) -> Option<Box<Expected<'_>>> {
    let Output::Generations(generations) = output else { return None };
    let checksums = generations.progress().map_or(0, |last| last.checksums.len());
    let units = checksums / generations.outputs().len().max(1);
    Some(Box::new(move |field, unit, sum| Ok(generations.check_panel(field * units + unit, sum)?)))
}
