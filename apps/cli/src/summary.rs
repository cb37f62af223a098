//! What a run did, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use syncline_store::{Layout, Shape};
use syncline_wave::Report;

use crate::args::{BlockOrder, Kernel, RunArgs, RunnerKind};
use crate::budget::Bound;
use crate::output::Output;
use crate::units::{Bytes, Time, rate};

/// What was measured around the sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Of the sweep.
    pub(crate) time: Duration,
    /// Of bringing the output to disk.
    pub(crate) sync_time: Duration,
    /// The most bytes resident up to the end of the sweep.
    pub(crate) peak_rss: Option<u64>,
    /// Bytes read from disk and written to it during the sweep.
    pub(crate) disk: Option<(u64, u64)>,
    /// The memory bound.
    pub(crate) bound: Bound,
    /// What the result was compared with.
    pub(crate) verified: Option<&'static str>,
}

/// What a run did. The JSON object; its members are explained in `syncline run --help`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    kernel: Kernel,
    order: BlockOrder,
    runner: RunnerKind,
    layout: String,
    rows: usize,
    cols: usize,
    block: [usize; 2],
    blocks: usize,
    iterations: u64,
    seconds: f64,
    sync_seconds: f64,
    ns_per_element: Option<f64>,
    bytes_read: u64,
    bytes_written: u64,
    disk_read: Option<u64>,
    disk_written: Option<u64>,
    peak_rss: Option<u64>,
    memory: u64,
    held: bool,
    window: u64,
    windows: u64,
    threads: u64,
    residual: Option<f64>,
    converged_at: Option<u64>,
    verified: Option<bool>,
    output: String,
    #[serde(skip)]
    tolerance: Option<f64>,
    #[serde(skip)]
    measured: Measured,
}

/// Points that a sweep updates in each iteration.
pub(crate) const fn interior(shape: Shape) -> usize {
    shape.rows.saturating_sub(2) * shape.cols.saturating_sub(2)
}

impl Summary {
    /// Brings together what was asked, what was done and what was measured.
    pub(crate) fn new(
        args: &RunArgs,
        layout: Layout,
        output: &Output,
        report: &Report,
        measured: &Measured,
    ) -> Self {
        let grid = report.plan.grid;
        let shape = grid.shape();
        let updates = interior(shape) as f64 * report.iterations as f64;
        let seconds = measured.time.as_secs_f64();
        Self {
            kernel: args.kernel,
            order: args.order,
            runner: args.runner,
            layout: layout.to_string(),
            rows: shape.rows,
            cols: shape.cols,
            block: [grid.block_size().rows, grid.block_size().cols],
            blocks: grid.len(),
            iterations: report.iterations,
            seconds,
            sync_seconds: measured.sync_time.as_secs_f64(),
            ns_per_element: (updates > 0.0).then(|| seconds * 1e9 / updates),
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            disk_read: measured.disk.map(|disk| disk.0),
            disk_written: measured.disk.map(|disk| disk.1),
            peak_rss: measured.peak_rss,
            memory: measured.bound.bytes(),
            held: report.plan.held,
            window: report.plan.window,
            windows: report.plan.windows.min(grid.len() as u64),
            threads: match args.runner {
                RunnerKind::Threads if report.iterations > 0 => grid.len() as u64,
                _ => report.processors,
            },
            residual: report.residuals.last().copied(),
            converged_at: report.converged.map(|iteration| iteration + 1),
            verified: measured.verified.map(|_| true),
            output: output.path.display().to_string(),
            tolerance: args.until,
            measured: *measured,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, cols, block: [block_rows, block_cols], blocks, .. } = self;
        let Measured { time, sync_time, bound, verified, .. } = self.measured;
        let (kernel, order) = (name(&self.kernel), name(&self.order));
        writeln!(
            f,
            "{kernel:<13}{rows} x {cols}, {} blocks of {block_rows} x {block_cols}, order {order}",
            blocks
        )?;
        write!(f, "iterations   {}", self.iterations)?;
        match (self.tolerance, self.converged_at, self.residual) {
            (Some(tolerance), Some(at), _) => {
                writeln!(f, "; no point changed by more than {tolerance:e} in iteration {at}")?;
            }
            (Some(tolerance), None, Some(residual)) => {
                writeln!(f, "; not converged: changes of up to {residual:e} in the last, not {tolerance:e}")?;
            }
            _ => writeln!(f)?,
        }
        write!(f, "time         {} on {} thread{}", Time(time), self.threads, plural(self.threads))?;
        match self.ns_per_element {
            Some(ns) => writeln!(f, ", {ns:.2} ns/element")?,
            None => writeln!(f)?,
        }
        let traffic = |bytes| match bytes {
            0 => "nothing".to_owned(),
            _ => format!("{} ({}/s)", Bytes(bytes), rate(bytes, time)),
        };
        writeln!(
            f,
            "mapped       read {}, written {}",
            traffic(self.bytes_read),
            traffic(self.bytes_written)
        )?;
        if let (Some(read), Some(written)) = (self.disk_read, self.disk_written) {
            writeln!(f, "disk         read {}, written {}", traffic(read), traffic(written))?;
        }
        if let Some(peak) = self.peak_rss {
            write!(f, "memory       {} at most, of {} allowed; ", Bytes(peak), Bytes(bound.bytes()))?;
            match self.held {
                true => writeln!(f, "all matrices held")?,
                false => writeln!(f, "up to {} of {blocks} blocks at once", self.windows)?,
            }
        }
        match verified {
            Some(with) => writeln!(f, "verified     bit for bit against {with}")?,
            None => writeln!(f, "verified     no")?,
        }
        let path = &self.output;
        write!(f, "output       {path}, {}, on disk after {} more", self.layout, Time(sync_time))
    }
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The name of an option's value.
fn name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
