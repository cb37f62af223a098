//! A sweep, its plan and its report.
//!
//! ```text
//! check the arrays ─ functions of the kernel ─ the plan
//!    ─ to memory: the result stays in a `Buffer` ─┐
//!    ─ to files:  committed when complete ────────┴─ report
//! ```

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline_memory::room;
use syncline_store::array::ArraySource;
use syncline_store::newfile::{self, OutputKind};
use syncline_wave::monitor::{Monitor, Stage};
use syncline_wave::plan::SweepPlan;
use syncline_wave::target::{Leftovers, Target};
use syncline_wave::{Described, Error, Result, Runner, Sweep, SweepReport};

use crate::attend::attend;
use crate::buffer::Buffer;
use crate::error;
use crate::inputs::{Given, Input};
use crate::kernel::{Failure, Kernel};

/// The settings of a sweep.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    iterations: u64,
    until: Option<f64>,
    exact_stop: bool,
    /// The memory for buffers and results, in bytes.
    memory: u64,
    threads: Option<usize>,
    depth: Option<u64>,
    /// The files of the results; none: in memory.
    outputs: Vec<PathBuf>,
    /// `refuse`, `resume` or `discard`.
    existing: String,
}

/// A sweep whose inputs are checked.
struct Job<'a> {
    settings: &'a Settings,
    kernel: &'a Kernel,
    inputs: Vec<Input>,
    monitor: Arc<Monitor>,
}

/// The results that stay in memory, and the report.
type Done = (Vec<Buffer>, SweepReport);

impl<'a> Job<'a> {
    fn new(
        py: Python<'_>,
        kernel: &'a Kernel,
        arrays: &[Given],
        settings: &'a Settings,
    ) -> PyResult<Self> {
        let inputs = arrays.iter().map(|given| Input::of(py, given)).collect::<PyResult<_>>()?;
        Ok(Job { settings, kernel, inputs, monitor: Arc::default() })
    }

    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.settings.threads.unwrap_or_else(cores)
    }

    fn to_files(&self) -> bool {
        !self.settings.outputs.is_empty()
    }

    fn target(&self) -> Target {
        let mut paths = self.settings.outputs.iter();
        let first = paths.next().map_or_else(|| Target::npy(""), Target::npy);
        let leftovers = match &*self.settings.existing {
            "resume" => Leftovers::Resume,
            "discard" => Leftovers::Discard,
            _ => Leftovers::Refuse,
        };
        let target = paths.fold(first, Target::and).leftovers(leftovers);
        let parameters = self.kernel.parameters.iter();
        parameters.fold(target, |target, (name, value)| target.describe(*name, value))
    }

    fn sweep(&self, described: &Described, memory: u64) -> Sweep<Described> {
        let sweep = Sweep::new(described.clone())
            .iterations(self.settings.iterations)
            .exact_stop(self.settings.exact_stop)
            .runner(Runner::pool(self.threads()))
            .memory(memory)
            .monitor(Arc::clone(&self.monitor));
        let tolerance = self.settings.until;
        let sweep = tolerance.into_iter().fold(sweep, Sweep::until);
        self.settings.depth.into_iter().fold(sweep, Sweep::depth)
    }

    /// Returns the fields and the coefficients.
    fn sources(&self, described: &Described) -> Result<(Vec<ArraySource>, Vec<ArraySource>)> {
        let sources = self.inputs.iter().map(Input::array);
        let mut fields = sources.collect::<syncline_store::Result<Vec<_>>>()?;
        let coefficients = fields.split_off(described.fields().len().min(fields.len()));
        Ok((fields, coefficients))
    }

    /// Returns the memory that results leave for buffers: as many copies of the fields as a run has
    /// in memory do not belong to them.
    fn left(&self, fields: u64, copies: u64) -> u64 {
        let taken = if self.to_files() { 0 } else { fields.saturating_mul(copies) };
        self.settings.memory.saturating_sub(taken).max(1)
    }

    /// Returns the sweep over arrays and its plan.
    fn planned(
        &self,
        described: &Described,
        fields: &[ArraySource],
        coefficients: &[ArraySource],
    ) -> Result<(Sweep<Described>, SweepPlan)> {
        let bytes = bytes_of(fields);
        // A run of one pass in memory needs one copy of the fields, a longer one two.
        let sweep = self.sweep(described, self.left(bytes, 1));
        let plan = sweep.plan_arrays(fields, coefficients, self.to_files())?;
        let is_one_copy = match plan {
            // Strips write over what they have read.
            SweepPlan::Streamed(_) => true,
            SweepPlan::Arrays(plan) => plan.passes <= 1,
            _ => false,
        };
        if self.to_files() || is_one_copy {
            return Ok((sweep, plan));
        }
        let sweep = self.sweep(described, self.left(bytes, 2));
        let plan = sweep.plan_arrays(fields, coefficients, false)?;
        Ok((sweep, plan))
    }

    fn run(&self, described: &Described) -> Result<Done> {
        let (mut fields, mut coefficients) = self.sources(described)?;
        let bytes = bytes_of(&fields);
        // Each pass would read them again.
        let fit = bytes + bytes_of(&coefficients) <= self.settings.memory / 4;
        if !self.to_files() && described.needs_arrays() && fit {
            let load = |sources: Vec<ArraySource>| {
                let loaded = sources.into_iter().map(ArraySource::into_memory);
                let sources = loaded.map(|array| array.map(ArraySource::Memory));
                sources.collect::<syncline_store::Result<Vec<_>>>()
            };
            (fields, coefficients) = (load(fields)?, load(coefficients)?);
        }
        let sweep = if !self.to_files() && self.settings.memory / 4 >= bytes {
            // There is room for two copies of the fields, whatever the plan: its machine code would
            // be made twice.
            self.sweep(described, self.left(bytes, 2))
        } else {
            self.planned(described, &fields, &coefficients)?.0
        };
        if self.to_files() {
            let (pending, report) = sweep.run_arrays_to(&fields, &coefficients, &self.target())?;
            pending.commit()?;
            return Ok((Vec::new(), report));
        }
        let (fields, report) = sweep.run_arrays(&fields, &coefficients)?;
        Ok((fields.into_iter().map(Buffer::of_array).collect(), report))
    }

    fn plan(&self, described: &Described) -> Result<SweepPlan> {
        let (fields, coefficients) = self.sources(described)?;
        Ok(self.planned(described, &fields, &coefficients)?.1)
    }
}

/// Returns the bytes of some arrays.
fn bytes_of(sources: &[ArraySource]) -> u64 {
    let bytes = |source: &ArraySource| {
        let points = source.dims().iter().product::<usize>();
        (points * source.element().bytes()) as u64
    };
    sources.iter().map(bytes).sum()
}

/// Runs a sweep; returns the results that stay in memory, and the report. `progress` is called with
/// the fraction done and the stage.
///
/// # Errors
/// The exceptions of the package, that of a function of the kernel, and `KeyboardInterrupt`.
#[pyfunction]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    arrays: Vec<Given>,
    settings: Settings,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Buffer>, Bound<'py, PyDict>)> {
    let job = Job::new(py, kernel, &arrays, &settings)?;
    let failure = Arc::new(Failure::default());
    let described = kernel.with_functions(py, &job.monitor, &failure);
    let described = described.map_err(|why| error::of_sweep(py, &why))?;
    let (monitor, iterations) = (Arc::clone(&job.monitor), settings.iterations);
    let watch = move |py: Python<'_>| match &progress {
        None => Ok(()),
        Some(progress) => {
            let (pass, passes) = match monitor.stage() {
                Stage::Passes(at) => (at.pass, at.passes),
                _ => (1, 1),
            };
            let done = monitor.done() as f64 / monitor.total().max(1) as f64;
            progress.call1(py, (done.min(1.0), pass, passes, iterations)).map(drop)
        }
    };
    let ended = attend(py, || job.run(&described), watch, || job.monitor.cancel())?;
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let (buffers, report) = ended.map_err(|why| match why {
        Error::Cancelled { .. } => PyKeyboardInterrupt::new_err(()),
        why => error::of_sweep(py, &why),
    })?;
    let dict = of_plan(py, &report.plan)?;
    dict.set_item("iterations", report.iterations)?;
    dict.set_item("residuals", report.residuals)?;
    dict.set_item("converged", report.converged)?;
    dict.set_item("bytes_read", report.bytes_read)?;
    dict.set_item("bytes_written", report.bytes_written)?;
    dict.set_item("threads", report.processors)?;
    dict.set_item("passes", report.passes)?;
    dict.set_item("resumed", report.resumed)?;
    Ok((buffers, dict))
}

/// Returns the plan of a sweep, which is not run.
///
/// # Errors
/// The exceptions of the package.
#[pyfunction]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    arrays: Vec<Given>,
    settings: Settings,
) -> PyResult<Bound<'py, PyDict>> {
    let job = Job::new(py, kernel, &arrays, &settings)?;
    let described = kernel.with_functions(py, &job.monitor, &Arc::default());
    let described = described.map_err(|why| error::of_sweep(py, &why))?;
    let plan = attend(py, || job.plan(&described), |_| Ok(()), || job.monitor.cancel())?;
    of_plan(py, &plan.map_err(|why| error::of_sweep(py, &why))?)
}

fn of_plan<'py>(py: Python<'py>, plan: &SweepPlan) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let (depth, passes, memory) = match plan {
        SweepPlan::Streamed(plan) => (plan.depth, plan.passes, plan.memory),
        SweepPlan::Arrays(plan) => (plan.depth, plan.passes, plan.memory),
        _ => return Ok(dict),
    };
    dict.set_item("depth", depth)?;
    dict.set_item("passes", passes)?;
    dict.set_item("buffers", memory)?;
    Ok(dict)
}

/// Returns the memory, in bytes, that this process may still take; `None` if it is not known.
#[pyfunction]
pub(crate) fn available_memory() -> Option<u64> {
    room::left()
}

/// Returns the path to which an output is written: what it leads to if it is a link. `inputs` are
/// the files and folders that the sweep reads.
#[pyfunction]
pub(crate) fn output_path(
    py: Python<'_>,
    path: PathBuf,
    is_folder: bool,
    inputs: Vec<PathBuf>,
) -> PyResult<OsString> {
    let kind = if is_folder { OutputKind::Folder } else { OutputKind::File };
    let found = newfile::output_path(&path, kind, &inputs);
    found.map(PathBuf::into_os_string).map_err(|error| error::of_store(py, &error))
}

/// Checks that this user can replace or remove what has a path.
#[pyfunction]
pub(crate) fn check_replaceable(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    newfile::check_replaceable(&path).map_err(|error| error::of_store(py, &error))
}

/// Renames a complete file that cannot get the name `target` to another one beside `target`;
/// returns the name, or `None` if it can have none.
#[pyfunction]
pub(crate) fn keep_file(path: PathBuf, target: PathBuf) -> Option<OsString> {
    newfile::keep_file(&path, &target).map(PathBuf::into_os_string)
}
