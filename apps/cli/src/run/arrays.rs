//! A run of a description of several fields, types, edges, directions or old values: over arrays.
//!
//! ```text
//! check the options ─ find the arrays ─ choose the outputs ─ open, and convert what is foreign
//!    ─ divide the memory ─ in memory if all fits, else from files to files ─ sweep
//!    ─ verify ─ the outputs get their names ─ summary
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use syncline_store::NewFile;
use syncline_store::array::{Array, ArraySource};
use syncline_wave::{
    Described, Error as WaveError, Runner, Sweep, SweepReport, lanes::Lanes, monitor::Monitor,
    plan::SweepPlan, reference::plain_arrays,
};

use super::Meter;
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

/// Why a result over arrays is not marked.
const UNMARKED: &str = "results of kernels over arrays are not";

/// Refuses options that only sweeps of matrices have.
fn check(args: &RunArgs, described: &Described) -> Result<()> {
    let mut given = executor::for_blocks(args);
    if args.resume {
        given.push("--resume");
    }
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
    report::start(&args.trace, outputs.first().map(|output| output.path.as_path()))?;
    let sources = paths
        .iter()
        .map(|path| ArraySource::open(path))
        .collect::<syncline_store::Result<Vec<_>>>()?;
    let job = Job { args, described, monitor: Arc::default(), bound: Bound::new(args.memory) };
    job.run(kernel, sources, &outputs, signals)
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
        let why = "is no folder, in which the fields of this kernel go".to_owned();
        return Err(Error::Output { path: folder.clone(), why });
    }
    let choose = |field: &String| {
        let asked = match &args.output {
            Some(folder) if several => Some(folder.join(format!("{field}.npy"))),
            other => other.clone(),
        };
        let home = inputs.home(field);
        let output = Output::choose_for(asked.as_deref(), home, (field, &kernel.name), paths)?;
        if output.path.exists() && !args.force {
            let why = "exists: --force replaces it, another --output leaves it".to_owned();
            return Err(Error::Output { path: output.path, why });
        }
        Ok(output)
    };
    described.fields().iter().map(choose).collect()
}

/// A sweep over arrays.
struct Job<'a> {
    args: &'a RunArgs,
    described: &'a Described,
    monitor: Arc<Monitor>,
    bound: Bound,
}

/// The fields and the coefficients before the sweep.
enum Data {
    Memory(Vec<Array>, Vec<Array>),
    Files(Vec<ArraySource>, Vec<ArraySource>),
}

/// Returns the arrays in memory.
fn loaded(sources: Vec<ArraySource>) -> Result<Vec<Array>> {
    let arrays = sources.into_iter().map(ArraySource::into_memory);
    Ok(arrays.collect::<syncline_store::Result<_>>()?)
}

/// The fields after the sweep.
enum Swept {
    Memory(Vec<Array>),
    Files(Vec<NewFile>),
}

impl Job<'_> {
    /// Returns the sweep, with this memory for its buffers.
    fn sweep(&self, memory: u64) -> Sweep<Described> {
        let args = self.args;
        let mut sweep = Sweep::new(self.described.clone())
            .iterations(args.iterations)
            .exact_stop(args.exact_stop)
            .runner(Runner::pool(self.threads()))
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

    fn run(
        &self,
        kernel: &Kernel,
        mut sources: Vec<ArraySource>,
        outputs: &[Output],
        signals: &Signals,
    ) -> Result<Summary> {
        let count = self.described.fields().len();
        let (held, whole) = self.bytes(&sources);
        let left = self.bound.for_member(self.threads() as u64).saturating_sub(held);
        // A sweep of several passes is faster in memory; one of a single pass reads and writes
        // while it computes.
        let rest = left.saturating_sub(whole - held);
        let passes = |memory: u64, to_files: bool| {
            let (fields, coefficients) = sources.split_at(count);
            match self.sweep(memory).plan_arrays(fields, coefficients, to_files) {
                Ok(SweepPlan::Arrays(plan)) => Some(plan.passes),
                _ => None,
            }
        };
        let in_memory = whole - held < left
            && passes(left.max(1), true).is_none_or(|passes| passes > 1)
            && passes(rest, false).is_some();
        let sweep = self.sweep(if in_memory { rest } else { left.max(1) });
        let (dims, element) = (sources[0].dims().to_vec(), sources[0].element());
        let coefficients = sources.split_off(count);
        sweep.plan_arrays(&sources, &coefficients, !in_memory).map_err(|why| self.explain(why))?;
        let data = match in_memory {
            true => Data::Memory(loaded(sources)?, loaded(coefficients)?),
            false => Data::Files(sources, coefficients),
        };
        let points: usize = dims.iter().product();
        let bar = signals.bar(LINE);
        let iterations = self.args.iterations;
        let mut progress =
            Progress::new(self.monitor.clone(), points as f64, iterations, None, signals)
                .under(self.bound);
        let paths: Vec<PathBuf> = outputs.iter().map(|output| output.path.clone()).collect();
        let data = Arc::new(data);
        let meter = Meter::start();
        let (shared, targets) = (Arc::clone(&data), paths.clone());
        let work = move || -> Result<(Swept, SweepReport)> {
            Ok(match &*shared {
                Data::Files(fields, coefficients) => {
                    let (files, report) = sweep.run_arrays_to(fields, coefficients, &targets)?;
                    (Swept::Files(files), report)
                }
                Data::Memory(fields, coefficients) => {
                    let (fields, report) = sweep.run_arrays(fields, coefficients)?;
                    (Swept::Memory(fields), report)
                }
            })
        };
        let ended =
            watch::attend(signals, &bar, |bar| progress.show(bar), || self.monitor.cancel(), work)?;
        let (time, disk) = meter.stop();
        if let Some(signal) = ended.signal {
            return Err(Error::interrupted(signal));
        }
        let (swept, report) = ended.result.unwrap_or(Err(Error::Panic))?;
        let peak = Peak::take();
        let verified = match self.args.verify {
            None => None,
            Some(_) => Some(self.verify(&data, &swept, &report)?),
        };
        let sync = Instant::now();
        let bar = signals.bar(SYNC).with_message("bringing the output to disk");
        let commit = move || -> Result<()> {
            let files = match swept {
                Swept::Files(files) => files,
                Swept::Memory(fields) => fields
                    .iter()
                    .zip(&paths)
                    .map(|(field, path)| field.create(path))
                    .collect::<syncline_store::Result<_>>()?,
            };
            Ok(files.into_iter().try_for_each(NewFile::commit)?)
        };
        let ended = watch::attend(signals, &bar, indicatif::ProgressBar::tick, || (), commit)?;
        match (ended.result, ended.signal) {
            (Some(result), _) => result?,
            (None, signal) => return Err(Error::interrupted(signal.unwrap_or_default())),
        }
        let measured = Measured {
            members: 1,
            on_host: 1,
            time,
            sync_time: sync.elapsed(),
            peak,
            disk,
            bound: self.bound,
            verified,
            chosen: None,
            instead: None,
            unmarked: Some(UNMARKED),
        };
        let of = ArrayRun { args: self.args, kernel, element, dims: &dims, outputs };
        Ok(Summary::of_arrays(&of, &report, &measured))
    }

    /// Compares the fields with those of the plain loop.
    fn verify(&self, data: &Data, swept: &Swept, report: &SweepReport) -> Result<Verified> {
        let open = |source: &ArraySource| match source {
            ArraySource::Memory(array) => Ok(array.clone()),
            ArraySource::File(file) => Array::open(file.direct().0.name()),
        };
        let opened = |sources: &[ArraySource]| {
            sources.iter().map(open).collect::<syncline_store::Result<Vec<Array>>>()
        };
        let (mut expected, read);
        let coefficients = match data {
            Data::Memory(fields, coefficients) => {
                expected = fields.clone();
                coefficients
            }
            Data::Files(fields, coefficients) => {
                (expected, read) = (opened(fields)?, opened(coefficients)?);
                &read
            }
        };
        plain_arrays(self.described, &mut expected, coefficients, report.iterations)?;
        let with = "the plain loop";
        for (n, (name, expected)) in self.described.fields().iter().zip(&expected).enumerate() {
            let difference = match swept {
                Swept::Memory(fields) => fields[n].first_difference(expected),
                Swept::Files(files) => Array::of_file(&files[n])?.first_difference(expected),
            };
            if let Some(at) = difference {
                return Err(Error::Differs { with, at: format!("{name}: {at}") });
            }
        }
        Ok(Verified { with, rows: None })
    }

    /// Adds to an error of too little memory what the program itself takes.
    fn explain(&self, error: WaveError) -> Error {
        match error {
            WaveError::StreamMemory { needed, .. } => {
                let piece = "the buffers of a pass take".to_owned();
                self.bound.too_small_for_arrays(self.threads() as u64, piece, needed)
            }
            other => other.into(),
        }
    }
}
