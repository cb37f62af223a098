//! A run of a description of several fields, types, edges, directions or old values: over arrays.
//!
//! ```text
//! check the options ─ find the arrays ─ choose the outputs ─ open, and convert what is foreign
//!    ─ divide the memory ─ in memory if all fits and nothing is resumed, else from files to files
//!    ─ sweep ─ verify ─ the outputs get their names ─ summary
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use syncline_common::signals::Signals;
use syncline_common::units::Bytes;
use syncline_fabric::Member;
use syncline_store::Error as StoreError;
use syncline_store::array::{Array, ArraySource};
use syncline_store::generation::{Generations, Identity, Leftover};
use syncline_store::newfile::check_together;
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
use crate::verify::{AT_LEAST, LEAST, Verified};
use crate::watch::{self, LINE, SYNC};

/// Refuses options that only sweeps of matrices have.
fn check(args: &RunArgs, described: &Described) -> Result<()> {
    let mut given = executor::for_blocks(args);
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
    Job { args, kernel, described, paths: &paths, outputs: &outputs, monitor, bound, members }
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
    Job { args, kernel, described, paths: &paths, outputs: &outputs, monitor, bound, members }
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
    let outputs = described.fields().iter().map(choose).collect::<Result<Vec<_>>>()?;
    let paths: Vec<&Path> = outputs.iter().map(|output| &*output.path).collect();
    check_together(&paths).map_err(|error| match error {
        StoreError::Output { path, mut why } => {
            for Output { path, link, .. } in &outputs {
                let Some(link) = link else { continue };
                why += &format!("; {} leads to {}", link.display(), path.display());
            }
            Error::Output { path, why }
        }
        error => error.into(),
    })?;
    Ok(outputs)
}

/// A sweep over arrays.
struct Job<'a> {
    args: &'a RunArgs,
    kernel: &'a Kernel,
    described: &'a Described,
    /// The files of the arrays: of the fields, then of the coefficients.
    paths: &'a [PathBuf],
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

    /// Returns the number of passes of a run of one process with this memory, if it suffices.
    fn passes(
        &self,
        memory: u64,
        threads: usize,
        (fields, coefficients): (&[ArraySource], &[ArraySource]),
        to_files: bool,
    ) -> Option<u64> {
        match self.sweep(memory.max(1), threads).plan_arrays(fields, coefficients, to_files) {
            Ok(SweepPlan::Arrays(plan)) => Some(plan.passes),
            _ => None,
        }
    }

    fn run(&self, mut sources: Vec<ArraySource>, signals: &Signals) -> Result<Summary> {
        let (count, outputs) = (self.described.fields().len(), self.outputs);
        let (held, whole) = self.bytes(&sources);
        let left = self.bound.for_member(self.threads() as u64).saturating_sub(held);
        self.check_verify(&sources, left)?;
        // A sweep of several passes is faster in memory; one of a single pass reads and writes
        // while it computes.
        let rest = left.saturating_sub(whole - held);
        let threads = self.threads();
        let resumes = self.goes_on()?;
        let in_memory = whole - held < left
            && !resumes
            && self.passes(left, threads, sources.split_at(count), true) != Some(1)
            && self.passes(rest, threads, sources.split_at(count), false).is_some();
        let sweep = self.sweep(if in_memory { rest } else { left.max(1) }, threads);
        let (dims, element) = (sources[0].dims().to_vec(), sources[0].element());
        let coefficients = sources.split_off(count);
        sweep.plan_arrays(&sources, &coefficients, !in_memory).map_err(|why| {
            let of = (&sources[..], &coefficients[..]);
            let why = if resumes { why } else { self.or_in_memory(why, of, whole - held) };
            self.explain(why, threads, held)
        })?;
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
            Some(extent) => {
                let how = (extent, time.max(AT_LEAST), left);
                let (pending, verified) = self.verify(&data, pending, &report, how)?;
                (pending, Some(verified))
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
        let (held, whole) = self.bytes(&sources);
        let left = self.bound.for_member(threads as u64).saturating_sub(held);
        let coefficients = sources.split_off(self.described.fields().len());
        let rest = left.saturating_sub(whole - held);
        // As in one process. A member needs more for what crosses its cuts, so the rest must be
        // several times what one process needs. The members run in memory if all can.
        let in_memory = whole - held < left
            && self.passes(left, threads, (&sources, &coefficients), true) != Some(1)
            && self.passes(rest / 8, threads, (&sources, &coefficients), false).is_some();
        let memory = if in_memory { rest } else { left.max(1) };
        let (sweep, target) = (self.sweep(memory, threads), self.target().in_memory(in_memory));
        let points = dims.iter().product::<usize>() as f64;
        let progress = Progress::new(self.monitor.clone(), points, args.iterations, None, signals);
        let (progress, meter) = (progress.under(self.bound), Meter::start());
        let work = |me: &mut Member| sweep.run_arrays_on(me, &sources, &coefficients, &target);
        let (swept, signal) = team::attend(me, signals, &self.monitor, progress, work);
        let report = swept.map_err(|error| {
            let explain = |error| self.explain(error, threads, held);
            team::explained(error, signal, &self.advice(), explain)
        })?;
        let measured = team::measured(me, meter, self.bound);
        let (kernel, outputs) = (self.kernel, self.outputs);
        let of = ArrayRun { args, kernel, element, dims: &dims, outputs };
        // One process tells by its exit code.
        let converged = !first || args.until.is_none() || report.converged.is_some();
        Ok((first.then(|| Summary::of_arrays(&of, &report, &measured)), converged))
    }

    /// Returns the number of rows (or planes) below on which a value depends.
    fn below(&self, iterations: u64) -> usize {
        let iterations = usize::try_from(iterations).unwrap_or(usize::MAX);
        self.described.reads_below().unwrap_or(usize::MAX).saturating_mul(iterations)
    }

    /// Returns the bytes of a row (or plane) of all arrays while the plain loop runs: the fields
    /// three times.
    fn bytes_to_compare(fields: &[ArraySource], coefficients: &[ArraySource]) -> u64 {
        let bytes = |source: &ArraySource| {
            (source.dims()[1..].iter().product::<usize>() * source.element().bytes()) as u64
        };
        3 * fields.iter().map(bytes).sum::<u64>() + coefficients.iter().map(bytes).sum::<u64>()
    }

    /// Refuses a comparison that takes too much memory, and a sample that is none. `left` is the
    /// memory for it.
    fn check_verify(&self, sources: &[ArraySource], left: u64) -> Result<()> {
        let Some(extent) = self.args.verify else { return Ok(()) };
        let (iterations, all) = (self.args.iterations, sources[0].dims()[0]);
        let refuse = |why: String| Err(Error::Usage(why));
        let (rows, option, instead) = match extent {
            Extent::Full => (all, "--verify", "give --verify=sample, or more --memory"),
            Extent::Sample => {
                let rows = LEAST.saturating_add(self.below(iterations)).min(all);
                (rows, "--verify=sample", "give more --memory")
            }
        };
        if extent == Extent::Sample && self.described.reads_below().is_none() {
            return refuse(
                "--verify=sample is for sweeps that go down only, of which the first rows depend on \
                 few others: give --verify"
                    .to_owned(),
            );
        }
        if extent == Extent::Sample && self.args.until.is_none() && rows > all.div_ceil(2) {
            return refuse(format!(
                "--verify=sample compares the first rows, which after {iterations} iterations \
                 depend on {} more, of {all} in all, and so takes about as long: give --verify",
                self.below(iterations)
            ));
        }
        let (fields, coefficients) = sources.split_at(self.described.fields().len());
        if extent == Extent::Sample && self.args.until.is_some() {
            return Ok(());
        }
        let needed = Self::bytes_to_compare(fields, coefficients).saturating_mul(rows as u64);
        match needed > left {
            true => refuse(format!(
                "{option} compares in memory, which takes {}, and {} are left: {instead}",
                Bytes(needed),
                Bytes(left)
            )),
            false => Ok(()),
        }
    }

    /// Compares the fields with those of the plain loop. A result that differs is discarded. A
    /// sample takes about `time`, and `left` bytes at most.
    fn verify(
        &self,
        (fields, coefficients): &(Vec<ArraySource>, Vec<ArraySource>),
        pending: Pending,
        report: &SweepReport,
        (extent, time, left): (Extent, Duration, u64),
    ) -> Result<(Pending, Verified)> {
        let (all, iterations) = (fields[0].dims()[0], report.iterations);
        let first = |sources: &[ArraySource], most: usize| {
            let first = sources.iter().map(|source| source.first(most));
            first.collect::<syncline_store::Result<Vec<Array>>>()
        };
        let of_row = Self::bytes_to_compare(fields, coefficients);
        let in_memory = usize::try_from(left / of_row.max(1)).unwrap_or(usize::MAX);
        let with = "the plain loop";
        let mut rows = if extent == Extent::Full { all } else { LEAST.min(all) };
        let mut is_first = true;
        loop {
            let computed = rows.saturating_add(self.below(iterations)).min(all);
            // A tolerance may have ended the sweep after more iterations than a sample allows.
            let is_dear = computed > in_memory.min(all.div_ceil(2)) && self.args.until.is_some();
            if extent == Extent::Sample && is_dear && is_first {
                return Ok((pending, Verified { with, rows: Some(0) }));
            }
            let begun = Instant::now();
            let (mut expected, coefficients) =
                (first(fields, computed)?, first(coefficients, computed)?);
            plain_arrays(self.described, &mut expected, &coefficients, iterations)?;
            let took = begun.elapsed();
            let names = self.described.fields().iter().zip(&expected);
            for (n, (name, expected)) in names.enumerate() {
                let actual = pending.first(n, rows)?;
                let Some(at) = actual.first_difference(&expected.first(rows)?) else { continue };
                let (at, output) = (format!("{name}: {at}"), self.outputs[n].path.clone());
                if pending.is_complete() {
                    return Err(Error::CompleteDiffers { output, with, at });
                }
                drop(pending);
                Generations::discard(&self.outputs[0].path)?;
                return Err(Error::Differs { with, at });
            }
            // The first sample tells how many rows the second may have.
            let in_time = computed as f64 / took.as_secs_f64().max(1e-6) * time.as_secs_f64();
            let most = (in_time as usize).min(in_memory);
            let more = most.saturating_sub(computed - rows).min(all);
            if !is_first || more <= rows || rows == all {
                let rows = (rows < all).then_some(rows);
                return Ok((pending, Verified { with, rows }));
            }
            (rows, is_first) = (more, false);
        }
    }

    /// Returns an error of too little memory for a run from files to files with what a run in
    /// memory, beside `more` bytes of arrays, needs instead, if that is less.
    fn or_in_memory(
        &self,
        error: WaveError,
        (fields, coefficients): (&[ArraySource], &[ArraySource]),
        more: u64,
    ) -> WaveError {
        match (error, self.sweep(1, self.threads()).plan_arrays(fields, coefficients, false)) {
            (
                WaveError::StreamMemory { allowed, depth, needed, on_team, instead },
                Err(WaveError::StreamMemory { needed: in_memory, .. }),
            ) => {
                let needed = needed.min(more.saturating_add(in_memory));
                WaveError::StreamMemory { allowed, depth, needed, on_team, instead }
            }
            (error, _) => error,
        }
    }

    /// Adds to an error of too little memory what the program itself takes, and to one of an array
    /// its file.
    fn explain(&self, error: WaveError, threads: usize, held: u64) -> Error {
        match error {
            WaveError::StreamMemory { needed, instead, .. } => {
                let with = match held {
                    0 => "",
                    _ => ", with the arrays that are converted,",
                };
                let less = instead.map_or_else(String::new, |way| format!(" (for less, {way})"));
                let piece = format!("the buffers of a pass{with}{less} take");
                self.bound.too_small_for_arrays(threads as u64, piece, needed + held)
            }
            WaveError::ArrayType { ref name, .. }
            | WaveError::ArrayShape { ref name, .. }
            | WaveError::Dimensions { ref name, .. } => {
                let mut names = self.described.fields().iter().chain(self.described.coefficients());
                match names.position(|known| known == name) {
                    Some(n) => Error::OfFile { path: self.paths[n].clone(), why: Box::new(error) },
                    None => error.into(),
                }
            }
            other => other.into(),
        }
    }
}
