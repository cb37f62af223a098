//! The summary of a run, as text and as JSON.

mod not_finite;
mod text;

use std::time::Duration;

use serde::Serialize;
use syncline_store::{ElementType, Layout, Shape};
use syncline_wave::{
    Executor, SweepReport,
    lanes::Lanes,
    monitor::Times,
    plan::{BlockPlan, StreamPlan, SweepPlan},
};

use crate::args::{BlockOrder, ExecutorKind, RunArgs, RunnerKind};
use crate::budget::Bound;
use crate::executor;
use crate::kernels::Kernel;
use crate::output::Output;
use crate::system;
use crate::verify::Verified;

/// The request that a run fulfils.
pub(crate) struct Asked<'a> {
    pub(crate) args: &'a RunArgs,
    pub(crate) kernel: &'a Kernel,
    pub(crate) element: ElementType,
    pub(crate) shape: Shape,
    pub(crate) output: &'a Output,
}

/// The request of a run over arrays.
pub(crate) struct ArrayRun<'a> {
    pub(crate) args: &'a RunArgs,
    pub(crate) kernel: &'a Kernel,
    /// The type of the first field.
    pub(crate) element: ElementType,
    pub(crate) dims: &'a [usize],
    pub(crate) outputs: &'a [Output],
}

impl ArrayRun<'_> {
    /// Returns the request as that of a run over matrices of the first field's rows and columns.
    fn asked(&self) -> Asked<'_> {
        let (rows, cols) = match *self.dims {
            [rows, cols] | [_, rows, cols] => (rows, cols),
            _ => (0, 0),
        };
        let Self { args, kernel, element, outputs, .. } = *self;
        Asked { args, kernel, element, shape: Shape::new(rows, cols), output: &outputs[0] }
    }
}

/// The measurements around a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The number of members of the team that has run the sweep; 1 without a team.
    pub(crate) members: usize,
    /// The number of members on the host of the peak.
    pub(crate) on_host: usize,
    /// The time of the sweep.
    pub(crate) time: Duration,
    /// The time to write the output to disk.
    pub(crate) sync_time: Duration,
    /// The peak of resident memory up to the end of the sweep; on a team, that of the host with the
    /// most.
    pub(crate) peak: Peak,
    /// The bytes read from disk and written to it during the sweep.
    pub(crate) disk: Option<(u64, u64)>,
    /// The memory bound; on a team, that of all members on the host of the peak.
    pub(crate) bound: Bound,
    /// The extent of the comparison, and what the result was compared with.
    pub(crate) verified: Option<Verified>,
    /// Why the block size was chosen, if it was.
    pub(crate) chosen: Option<String>,
    /// Why the output is not recognised as a result, if it is not.
    pub(crate) unmarked: Option<&'static str>,
    /// Why the sweep is in blocks although it was to be streamed.
    pub(crate) instead: Option<String>,
}

/// The peak of resident memory of one process, or of several on a host, and the parts of it that
/// processes share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// The peak of all resident memory.
    rss: Option<u64>,
    /// The unwritten pages of the executable and of libraries.
    program: Option<u64>,
    /// The shared memory.
    shared: Option<u64>,
}

impl Peak {
    /// Takes the figures up to this point, when no large file is mapped any more.
    pub(crate) fn take() -> Self {
        let program = system::resident().map(|now| now.program);
        Self { rss: system::peak_resident(), program, shared: system::shared() }
    }

    /// Returns the peak of processes of one host, at worst: what they share counts once, as in a
    /// control group around them. It is too small by the shared memory that a process has mapped
    /// since its own peak.
    pub(crate) fn of_host(processes: &[Peak]) -> Self {
        let most = |part: fn(&Peak) -> Option<u64>| processes.iter().filter_map(part).max();
        let own = |peak: &Peak| Some(peak.governed()?.saturating_sub(peak.shared?));
        let own: Option<u64> = processes.iter().map(own).sum();
        let (program, shared) = (most(|peak| peak.program), most(|peak| peak.shared));
        let rss = own.and_then(|own| Some(own + program? + shared?));
        Self { rss, program, shared }
    }

    /// Returns the governed part of the peak: exact, or too small by the part of the program's
    /// files that was read since the peak.
    pub(crate) fn governed(self) -> Option<u64> {
        Some(self.rss?.saturating_sub(self.program?))
    }

    /// Returns the peak as words that other members of a team can decode.
    pub(crate) fn encode(self) -> [u64; 3] {
        [self.rss, self.program, self.shared].map(|bytes| bytes.map_or(0, |bytes| bytes + 1))
    }

    /// Returns the peak of which these are the words.
    pub(crate) fn decode(words: [u64; 3]) -> Self {
        let [rss, program, shared] = words.map(|word| word.checked_sub(1));
        Self { rss, program, shared }
    }
}

/// The summary of a run, which is also the JSON object; `syncline run --help` explains its members.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Summary {
    kernel: String,
    dtype: &'static str,
    order: Option<BlockOrder>,
    executor: Option<ExecutorKind>,
    layout: String,
    /// In three dimensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    planes: Option<usize>,
    rows: usize,
    cols: usize,
    iterations: Option<u64>,
    complete_already: bool,
    resumed: Option<u64>,
    passes: Option<u64>,
    depth: Option<u64>,
    lanes: Option<String>,
    members: Option<usize>,
    threads: Option<u64>,
    runner: Option<RunnerKind>,
    block: Option<[usize; 2]>,
    blocks: Option<usize>,
    chosen: Option<String>,
    instead: Option<String>,
    seconds: Option<f64>,
    sync_seconds: Option<f64>,
    ns_per_element: Option<f64>,
    bytes_read: Option<u64>,
    bytes_written: Option<u64>,
    disk_read: Option<u64>,
    disk_written: Option<u64>,
    times: Option<Seconds>,
    peak: Option<u64>,
    program: Option<u64>,
    peak_rss: Option<u64>,
    memory: Option<u64>,
    window: Option<u64>,
    windows: Option<u64>,
    panels: Option<usize>,
    panel_rows: Option<usize>,
    /// Of a periodic first axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_twice: Option<usize>,
    held: Option<bool>,
    residual: Option<f64>,
    residuals: Option<Vec<f64>>,
    converged_at: Option<u64>,
    verified: Option<bool>,
    marked: bool,
    sampled_rows: Option<usize>,
    output: String,
    #[serde(skip)]
    unmarked: Option<&'static str>,
    #[serde(skip)]
    on_host: usize,
    #[serde(skip)]
    tolerance: Option<f64>,
    #[serde(skip)]
    verified_with: Option<&'static str>,
}

/// The time of all threads together, by activity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Seconds {
    update: f64,
    pack: f64,
    wait: f64,
    read: f64,
    write: f64,
    checksums: f64,
}

impl From<Times> for Seconds {
    fn from(times: Times) -> Self {
        Self {
            update: times.update.as_secs_f64(),
            pack: times.pack.as_secs_f64(),
            wait: times.wait.as_secs_f64(),
            read: times.read.as_secs_f64(),
            write: times.write.as_secs_f64(),
            checksums: times.check.as_secs_f64(),
        }
    }
}

impl Summary {
    /// Returns the summary of a run that had nothing to do.
    pub(crate) fn complete(
        asked: &Asked<'_>,
        layout: Layout,
        report: &SweepReport,
        verified: Option<Verified>,
    ) -> Self {
        Self {
            iterations: Some(report.iterations),
            residual: asked.args.until.and(report.residuals.last().copied()),
            converged_at: report.converged.map(|iteration| iteration + 1),
            tolerance: asked.args.until,
            // For a result recognised by its mark, only the last change is known.
            residuals: asked
                .args
                .until
                .filter(|_| report.residuals.len() as u64 == report.iterations)
                .map(|_| report.residuals.clone()),
            verified: verified.filter(|verified| verified.rows.is_none()).map(|_| true),
            sampled_rows: verified.and_then(|verified| verified.rows),
            verified_with: verified.map(|verified| verified.with),
            kernel: asked.kernel.name.clone(),
            dtype: asked.element.name(),
            layout: layout.to_string(),
            rows: asked.shape.rows,
            cols: asked.shape.cols,
            complete_already: true,
            marked: true,
            output: asked.output.path.display().to_string(),
            ..Self::default()
        }
    }

    /// Returns whether the tolerance of `--until` was reached.
    pub(crate) const fn has_converged(&self) -> bool {
        self.converged_at.is_some()
    }

    /// Combines the request, the report of the sweep and the measurements.
    pub(crate) fn new(
        asked: &Asked<'_>,
        layout: Layout,
        report: &SweepReport,
        measured: &Measured,
    ) -> Self {
        let args = asked.args;
        let points = asked.kernel.points(asked.shape);
        let updates = points as f64 * report.iterations.saturating_sub(report.resumed) as f64;
        let seconds = measured.time.as_secs_f64();
        let summary = Self {
            complete_already: false,
            resumed: args.resume.then_some(report.resumed),
            passes: Some(report.passes),
            lanes: Some(args.lanes.map_or_else(Lanes::best, Lanes::from).to_string()),
            members: Some(measured.members),
            on_host: measured.on_host,
            threads: Some(report.processors),
            seconds: Some(seconds),
            sync_seconds: Some(measured.sync_time.as_secs_f64()),
            ns_per_element: (updates > 0.0).then(|| seconds * 1e9 / updates),
            bytes_read: Some(report.bytes_read),
            bytes_written: Some(report.bytes_written),
            disk_read: measured.disk.map(|disk| disk.0),
            disk_written: measured.disk.map(|disk| disk.1),
            times: report.times.map(Seconds::from),
            peak: measured.peak.governed(),
            program: measured.peak.program,
            peak_rss: measured.peak.rss,
            memory: Some(measured.bound.bytes()),
            chosen: measured.chosen.clone(),
            marked: measured.unmarked.is_none(),
            unmarked: measured.unmarked,
            instead: measured.instead.clone(),
            ..Self::complete(asked, layout, report, measured.verified)
        };
        match &report.plan {
            SweepPlan::Blocked(plan) => summary.in_blocks(args, plan),
            SweepPlan::Streamed(plan) => summary.streamed(args, plan),
            _ => summary,
        }
    }

    /// Combines the request of a run over arrays, the report and the measurements.
    pub(crate) fn of_arrays(of: &ArrayRun<'_>, report: &SweepReport, measured: &Measured) -> Self {
        let summary = Self::new(&of.asked(), Layout::RowMajor, report, measured).over_arrays(of);
        let done = report.iterations.saturating_sub(report.resumed);
        let updates = of.dims.iter().product::<usize>() as f64 * done as f64;
        let summary = Self {
            ns_per_element: (updates > 0.0).then(|| measured.time.as_secs_f64() * 1e9 / updates),
            ..summary
        };
        let SweepPlan::Arrays(plan) = &report.plan else { return summary };
        Self {
            executor: Some(ExecutorKind::Streamed),
            depth: Some(plan.depth),
            window: Some(plan.memory),
            windows: Some(1),
            panels: Some(plan.flight),
            panel_rows: Some(plan.band),
            read_twice: (plan.twice > 0).then_some(plan.twice),
            ..summary
        }
    }

    /// Returns the summary of a run over arrays that had nothing to do.
    pub(crate) fn of_complete_arrays(
        of: &ArrayRun<'_>,
        report: &SweepReport,
        verified: Option<Verified>,
    ) -> Self {
        Self::complete(&of.asked(), Layout::RowMajor, report, verified).over_arrays(of)
    }

    fn over_arrays(self, of: &ArrayRun<'_>) -> Self {
        let names = |output: &Output| output.path.display().to_string();
        Self {
            planes: (of.dims.len() == 3).then(|| of.dims[0]),
            output: of.outputs.iter().map(names).collect::<Vec<_>>().join(", "),
            ..self
        }
    }

    fn in_blocks(self, args: &RunArgs, plan: &BlockPlan) -> Self {
        let grid = plan.grid;
        let runner = args.runner.unwrap_or(RunnerKind::Pool);
        Self {
            order: Some(executor::order(args, Executor::Blocked)),
            executor: Some(ExecutorKind::Blocked),
            runner: Some(runner),
            block: Some([grid.block_size().rows, grid.block_size().cols]),
            blocks: Some(grid.len()),
            threads: match runner {
                RunnerKind::Threads if self.iterations > Some(0) => Some(grid.len() as u64),
                _ => self.threads,
            },
            held: Some(plan.held),
            window: Some(plan.window),
            windows: Some(plan.windows.min(grid.len() as u64)),
            ..self
        }
    }

    fn streamed(self, args: &RunArgs, plan: &StreamPlan) -> Self {
        Self {
            order: Some(executor::order(args, Executor::Streamed)),
            executor: Some(ExecutorKind::Streamed),
            depth: Some(plan.depth),
            lanes: Some(plan.lanes.to_string()),
            window: Some(plan.memory),
            windows: Some(1),
            panels: Some(plan.panels),
            panel_rows: Some(plan.rows),
            ..self
        }
    }
}
