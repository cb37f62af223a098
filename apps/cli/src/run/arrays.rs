//! A run of a description of several fields, types, edges, directions or old values: over arrays.
//!
//! ```text
//! check the options ─ find the arrays ─ choose the outputs ─ open, and convert what is foreign
//!    ─ divide the memory ─ in memory if all fits and nothing is resumed, else from files to files
//!    ─ sweep ─ verify ─ the outputs get their names ─ summary
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use syncline_fabric::Member;
use syncline_store::Error as StoreError;
use syncline_store::array::{Array, ArraySource};
use syncline_store::generation::{Generations, Identity, Leftover};
use syncline_wave::{
    Described, Error as WaveError, Runner, Sweep, SweepReport,
    lanes::Lanes,
    monitor::Monitor,
    plan::SweepPlan,
    reference::plain_arrays,
    target::{Pending, Target},
};

use super::advice::Advice;
use super::{Meter, described, team};
use crate::args::{Extent, RunArgs};
use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::executor;
use crate::inputs::Inputs;
use crate::kernels::Kernel;
use crate::output::Output;
use crate::progress::Progress;
use crate::report;
use crate::summary::{ArrayRun, Measured, Peak, Summary};
use crate::verify::Verified;
use crate::watch::{self, LINE, SYNC, Signals};

/// Refuses options that only sweeps of matrices have.
fn check(args: &RunArgs, described: &Described) -> Result<()> {
    let mut given = executor::for_blocks(args);
    if args.verify == Some(Extent::Sample) {
        given.push("--verify=sample");
    }
    if args.field.is_some() && described.fields().len() > 1 {
        given.push("--field");
    }
    match given.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "{} cannot be given for {}, a kernel over arrays (of several fields, types, edges, \
             directions or old values)",
            given.join(" and "),
            described.name()
        ))),
    }
}

/// Runs the sweep.
pub(super) fn run(
    args: &RunArgs,
    kernel: &Kernel,
    described: &Described,
    inputs: &Inputs,
    signals: &Signals,
) -> Result<Summary> {
    let (paths, outputs) = find(args, kernel, described, inputs)?;
    report::start(&args.trace, outputs.first().map(|output| output.path.as_path()))?;
    let sources = open(&paths)?;
    let (monitor, bound, members) = (Arc::default(), Bound::new(args.memory), 1);
    Job { args, kernel, described, outputs: &outputs, monitor, bound, members }
        .run(sources, signals)
}

/// Runs the part of a member of a team; returns the summary in the first one, and whether the
/// tolerance was reached, if one was given.
pub(super) fn run_on(
    args: &RunArgs,
    kernel: &Kernel,
    described: &Described,
    inputs: &Inputs,
    me: &mut Member,
    signals: &Signals,
) -> Result<(Option<Summary>, bool)> {
    let (paths, outputs) = team::all(me, find(args, kernel, described, inputs))?;
    let sources = team::all(me, open(&paths))?;
    let on_host = me.ranks_on(me.host()).len();
    let (monitor, bound) = (Arc::default(), Bound::of_member(args.memory, on_host));
    let members = me.size();
    Job { args, kernel, described, outputs: &outputs, monitor, bound, members }
        .run_on(sources, me, signals)
}

/// Returns the files of the arrays, and the outputs.
fn find(
    args: &RunArgs,
    kernel: &Kernel,
    described: &Described,
    inputs: &Inputs,
) -> Result<(Vec<PathBuf>, Vec<Output>)> {
    check(args, described)?;
    let (fields, coefficients) = (described.fields(), described.coefficients());
    let mut paths = Vec::new();
    for (n, name) in fields.iter().chain(coefficients).enumerate() {
        paths.push(match &args.field {
            Some(path) if n == 0 => path.clone(),
            _ => inputs.npy(name)?,
        });
    }
    let outputs = outputs(args, kernel, described, inputs, &paths)?;
    Ok((paths, outputs))
}

fn open(paths: &[PathBuf]) -> Result<Vec<ArraySource>> {
    let sources = paths.iter().map(|path| ArraySource::open(path));
    Ok(sources.collect::<syncline_store::Result<_>>()?)
}

/// Chooses the files of the fields.
fn outputs(
    args: &RunArgs,
    kernel: &Kernel,
    described: &Described,
    inputs: &Inputs,
    paths: &[PathBuf],
) -> Result<Vec<Output>> {
    let several = described.fields().len() > 1;
    if let (true, Some(folder)) = (several, &args.output)
        && !folder.is_dir()
    {
        let why = match folder.exists() {
            true => "is no folder, in which the fields of this kernel go",
            false => "does not exist: it is the folder in which the fields of this kernel go",
        };
        let why = why.to_owned();
        return Err(Error::Output { path: folder.clone(), why });
    }
    // All outputs are in one folder, in which they are committed together.
    let home = inputs.home(&described.fields()[0]);
    let choose = |field: &String| {
        let asked = match &args.output {
            Some(folder) if several => Some(folder.join(format!("{field}.npy"))),
            other => other.clone(),
        };
        Output::choose_for(asked.as_deref(), home, (field, &kernel.name), paths)
    };
    described.fields().iter().map(choose).collect()
}

/// A sweep over arrays.
struct Job<'a> {
    args: &'a RunArgs,
    kernel: &'a Kernel,
    described: &'a Described,
    outputs: &'a [Output],
    monitor: Arc<Monitor>,
    bound: Bound,
    /// The number of members of the team that runs the job; 1 if it runs by itself.
    members: usize,
}

impl Job<'_> {
    /// Returns the sweep, with this memory for its buffers.
    fn sweep(&self, memory: u64, threads: usize) -> Sweep<Described> {
        let args = self.args;
        let mut sweep = Sweep::new(self.described.clone())
            .iterations(args.iterations)
            .exact_stop(args.exact_stop)
            .runner(Runner::pool(threads))
            .lanes(args.lanes.map_or_else(Lanes::best, Lanes::from))
            .memory(memory)
            .monitor(Arc::clone(&self.monitor));
        if let Some(tolerance) = args.until {
            sweep = sweep.until(tolerance);
        }
        match args.depth {
            Some(depth) => sweep.depth(depth),
            None => sweep,
        }
    }

    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.args.threads.map_or_else(cores, |n| n as usize)
    }

    /// Returns the bytes of the arrays in memory, and of all arrays with two copies of the fields.
    fn bytes(&self, sources: &[ArraySource]) -> (u64, u64) {
        let bytes = |source: &ArraySource| {
            (source.dims().iter().product::<usize>() * source.element().bytes()) as u64
        };
        let in_memory = sources.iter().filter(|source| matches!(source, ArraySource::Memory(_)));
        let fields = &sources[..self.described.fields().len().min(sources.len())];
        let all: u64 = sources.iter().map(bytes).sum();
        (in_memory.map(bytes).sum(), all + 2 * fields.iter().map(bytes).sum::<u64>())
    }

    fn advice(&self) -> Advice<'_> {
        let Self { args, kernel, outputs, members, .. } = *self;
        let starts_from_results = outputs.len() == 1;
        Advice { args, kernel, output: &outputs[0], members, starts_from_results }
    }

    /// Returns whether the run goes on from a pass of an interrupted run, which it does from files
    /// to files. Removes the empty folder of a run that was killed at its very beginning or end.
    fn goes_on(&self) -> Result<bool> {
        let path = &self.outputs[0].path;
        match Generations::leftover(path)? {
            Leftover::Nothing => {
                Generations::resume(path, &Identity::default())?;
                Ok(false)
            }
            Leftover::Resumable(_) => Ok(self.args.resume),
            _ => Ok(false),
        }
    }

    fn target(&self) -> Target {
        let mut paths = self.outputs.iter().map(|output| &output.path);
        let first = paths.next().map_or_else(|| Target::npy(""), Target::npy);
        described(paths.fold(first, Target::and), self.args, self.kernel)
    }

    fn run(&self, mut sources: Vec<ArraySource>, signals: &Signals) -> Result<Summary> {
        let (count, outputs) = (self.described.fields().len(), self.outputs);
        let (held, whole) = self.bytes(&sources);
        let left = self.bound.for_member(self.threads() as u64).saturating_sub(held);
        // A sweep of several passes is faster in memory; one of a single pass reads and writes
        // while it computes.
        let rest = left.saturating_sub(whole - held);
        let passes = |memory: u64, to_files: bool| {
            let (fields, coefficients) = sources.split_at(count);
            match self.sweep(memory, self.threads()).plan_arrays(fields, coefficients, to_files) {
                Ok(SweepPlan::Arrays(plan)) => Some(plan.passes),
                _ => None,
            }
        };
        let in_memory = whole - held < left
            && !self.goes_on()?
            && passes(left.max(1), true).is_none_or(|passes| passes > 1)
            && passes(rest, false).is_some();
        let sweep = self.sweep(if in_memory { rest } else { left.max(1) }, self.threads());
        let (dims, element) = (sources[0].dims().to_vec(), sources[0].element());
        let coefficients = sources.split_off(count);
        sweep
            .plan_arrays(&sources, &coefficients, !in_memory)
            .map_err(|why| self.explain(why, self.threads()))?;
        let points: usize = dims.iter().product();
        let bar = signals.bar(LINE);
        let iterations = self.args.iterations;
        let mut progress =
            Progress::new(self.monitor.clone(), points as f64, iterations, None, signals)
                .under(self.bound);
        let data = Arc::new((sources, coefficients));
        let (shared, target) = (Arc::clone(&data), self.target().in_memory(in_memory));
        let meter = Meter::start();
        let work = move || Ok(sweep.run_arrays_to(&shared.0, &shared.1, &target)?);
        let ended =
            watch::attend(signals, &bar, |bar| progress.show(bar), || self.monitor.cancel(), work)?;
        let (time, disk) = meter.stop();
        if let Some(signal) = ended.signal {
            drop(ended.result);
            return Err(self.advice().interrupted(signal));
        }
        let explain = |error| self.advice().explain(error);
        let (pending, report) = ended.result.unwrap_or(Err(Error::Panic)).map_err(explain)?;
        let peak = Peak::take();
        let of = ArrayRun { args: self.args, kernel: self.kernel, element, dims: &dims, outputs };
        let complete = pending.is_complete();
        let (pending, verified) = match self.args.verify {
            None => (pending, None),
            Some(_) => {
                self.verify(&data, pending, &report).map(|(pending, with)| (pending, Some(with)))?
            }
        };
        if complete {
            return Ok(Summary::of_complete_arrays(&of, &report, verified));
        }
        let sync = Instant::now();
        let bar = signals.bar(SYNC).with_message("bringing the output to disk");
        let commit = move || Ok(pending.commit()?);
        let ended = watch::attend(signals, &bar, indicatif::ProgressBar::tick, || (), commit)?;
        match (ended.result, ended.signal) {
            // A signal has no effect once the files have their names.
            (Some(result), _) => result.map_err(explain)?,
            (None, signal) => return Err(self.advice().interrupted(signal.unwrap_or_default())),
        }
        let sync_time = sync.elapsed();
        let unmarked =
            outputs.iter().find_map(|output| output.unmarked().transpose()).transpose()?;
        let measured = Measured {
            members: 1,
            on_host: 1,
            time,
            sync_time,
            peak,
            disk,
            bound: self.bound,
            verified,
            chosen: None,
            instead: None,
            unmarked,
        };
        Ok(Summary::of_arrays(&of, &report, &measured))
    }

    /// Runs the part of a member of a team.
    fn run_on(
        &self,
        mut sources: Vec<ArraySource>,
        me: &mut Member,
        signals: &Signals,
    ) -> Result<(Option<Summary>, bool)> {
        let (args, first, threads) = (self.args, me.rank() == 0, team::threads(self.args, me));
        let (dims, element) = (sources[0].dims().to_vec(), sources[0].element());
        let (held, _) = self.bytes(&sources);
        let coefficients = sources.split_off(self.described.fields().len());
        let memory = self.bound.for_member(threads as u64).saturating_sub(held).max(1);
        let (sweep, target) = (self.sweep(memory, threads), self.target());
        let points = dims.iter().product::<usize>() as f64;
        let progress = Progress::new(self.monitor.clone(), points, args.iterations, None, signals);
        let (progress, meter) = (progress.under(self.bound), Meter::start());
        let work = |me: &mut Member| sweep.run_arrays_on(me, &sources, &coefficients, &target);
        let (swept, signal) = team::attend(me, signals, &self.monitor, progress, work);
        let report = match (swept, signal) {
            (Err(WaveError::Cancelled { .. }), Some(signal)) => {
                return Err(Error::interrupted(signal));
            }
            // The file of the last pass is damaged. It is removed, so there is nothing to discard.
            (Err(error @ WaveError::Store(StoreError::Generation { .. })), _) => {
                return Err(error.into());
            }
            (Err(error), _) => {
                let error = self.explain(error, threads);
                return Err(self.advice().advise(error).for_each_member());
            }
            (Ok(report), _) => report,
        };
        let measured = team::measured(me, meter, self.bound);
        let (kernel, outputs) = (self.kernel, self.outputs);
        let of = ArrayRun { args, kernel, element, dims: &dims, outputs };
        let converged = args.until.is_none() || report.converged.is_some();
        Ok((first.then(|| Summary::of_arrays(&of, &report, &measured)), converged))
    }

    /// Compares the fields with those of the plain loop. A result that differs is discarded.
    fn verify(
        &self,
        (fields, coefficients): &(Vec<ArraySource>, Vec<ArraySource>),
        pending: Pending,
        report: &SweepReport,
    ) -> Result<(Pending, Verified)> {
        let open = |source: &ArraySource| match source {
            ArraySource::Memory(array) => Ok(array.clone()),
            ArraySource::File(file) => Array::open(file.direct().0.name()),
        };
        let opened = |sources: &[ArraySource]| {
            sources.iter().map(open).collect::<syncline_store::Result<Vec<Array>>>()
        };
        let (mut expected, coefficients) = (opened(fields)?, opened(coefficients)?);
        plain_arrays(self.described, &mut expected, &coefficients, report.iterations)?;
        let with = "the plain loop";
        for (n, (name, expected)) in self.described.fields().iter().zip(&expected).enumerate() {
            let Some(at) = pending.array(n)?.first_difference(expected) else { continue };
            let (at, output) = (format!("{name}: {at}"), self.outputs[n].path.clone());
            if pending.is_complete() {
                return Err(Error::CompleteDiffers { output, with, at });
            }
            drop(pending);
            Generations::discard(&self.outputs[0].path)?;
            return Err(Error::Differs { with, at });
        }
        Ok((pending, Verified { with, rows: None }))
    }

    /// Adds to an error of too little memory what the program itself takes.
    fn explain(&self, error: WaveError, threads: usize) -> Error {
        match error {
            WaveError::StreamMemory { needed, .. } => {
                let piece = "the buffers of a pass take".to_owned();
                self.bound.too_small_for_arrays(threads as u64, piece, needed)
            }
            other => other.into(),
        }
    }
}
