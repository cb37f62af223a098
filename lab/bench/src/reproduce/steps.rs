//! The times of the steps of a sweep in blocks: 20 iterations, as in the paper of 2010.

use std::time::Instant;

use syncline_blocks::{BlockedSweep, plan::Order};
use syncline_store::{Block, Grid};
use syncline_trace::{Activity, Event, clear, disable, enable, mark, snapshot};
use syncline_wave::kernels::Lk23;
use syncline_wave::{Runner, Sweep};

use super::lab::Lab;
use crate::error::{Result, failed};
use crate::papers::data::{Data, Inputs};
use crate::papers::race::disk;

/// One iteration of one task: its times, in seconds after the beginning of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) task: usize,
    pub(crate) iteration: usize,
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// The number of events that the ring of a thread keeps.
const EVENTS: usize = (1 << 16) - 1;

/// Returns the result of a run of one overlay, and the steps of its tasks, in the order of their
/// ends.
///
/// # Errors
/// Those of the run.
pub(crate) fn steps_of<T>(run: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Step>)> {
    clear();
    enable(EVENTS);
    mark(Activity::Mark, 0, 0);
    let done = run();
    disable();
    let events = snapshot();
    clear();
    let done = done?;
    let zero = events.iter().find(|event| event.activity == Activity::Mark);
    let zero = zero.map_or(0, |event| event.since_ns);
    let seconds = |time: u64| time.saturating_sub(zero) as f64 / 1e9;
    let steps = || events.iter().filter(|event| event.activity == Activity::Step);
    // The tasks of an overlay have consecutive numbers.
    let first = steps().map(|event| event.subject).min().unwrap_or(0);
    let step = |event: &Event| Step {
        task: (event.subject - first) as usize,
        iteration: event.detail as usize,
        begin: seconds(event.since_ns),
        end: seconds(event.until_ns),
    };
    let mut steps: Vec<Step> = steps().map(step).collect();
    steps.sort_by(|a, b| a.end.total_cmp(&b.end));
    Ok((done, steps))
}

/// The number of iterations.
pub(crate) const ITERATIONS: usize = 20;

/// The number of blocks along a side: 64 blocks, and as many threads.
pub(crate) const ALONG: usize = 8;

/// A run of 20 iterations, with a thread for each block.
#[derive(Clone, Debug)]
pub(crate) struct Twenty {
    pub(crate) data: Data,
    pub(crate) order: Order,
    /// The blocks along a side.
    pub(crate) along: usize,
    pub(crate) seconds: f64,
    /// The bytes that it mapped for reading, and those of them that came from the disk.
    pub(crate) read: u64,
    pub(crate) disk_read: u64,
    pub(crate) steps: Vec<Step>,
}

/// The names of the layouts and of the starts.
pub(crate) fn name(data: Data, order: Order) -> (&'static str, &'static str) {
    let layout = if data == Data::Framed { "optimized layout" } else { "block layout" };
    let start = if order == Order::Wave { "wave" } else { "maximal parallelism" };
    (layout, start)
}

/// Runs 20 iterations with both layouts and both starts.
///
/// # Errors
/// Errors of the sweeps and of files.
pub(crate) fn twenty(lab: &Lab) -> Result<Vec<Twenty>> {
    let along = lab.scale.pick(4, ALONG, ALONG);
    let side = lab.scale.side() / along;
    let folder = lab.matrices(&[side])?;
    let mut all = Vec::new();
    for data in [Data::Blocked, Data::Framed] {
        for order in [Order::Wave, Order::MaxParallel] {
            lab.signals.check()?;
            let (layout, start) = name(data, order);
            eprintln!("20 iterations: {layout}, {start}");
            let Inputs { field, coefficients } = folder.open(data, side)?;
            let (file, result) = folder.result(data.layout(folder.block(side)))?;
            folder.drop_caches()?;
            let sweep = Sweep::new(Lk23)
                .iterations(ITERATIONS as u64)
                .runner(Runner::Threads)
                .memory(lab.scale.memory());
            let sweep = BlockedSweep::of(sweep).block(Block::new(side, side)).order(order);
            let before = disk()?.0;
            let began = Instant::now();
            let (report, steps) = steps_of(|| {
                let (_, report) = sweep.run(&field, &coefficients, result)?;
                file.file().sync_data().map_err(|error| failed("write the result", error))?;
                Ok(report)
            })?;
            let seconds = began.elapsed().as_secs_f64();
            let blocks = Grid::new(folder.shape, folder.block(side)).len();
            if steps.len() != ITERATIONS * blocks {
                let found =
                    format!("{} steps are recorded, not {}", steps.len(), ITERATIONS * blocks);
                return Err(failed("take the times of a sweep", found));
            }
            let (read, disk_read) = (report.bytes_read, disk()?.0 - before);
            all.push(Twenty { data, order, along, seconds, read, disk_read, steps });
        }
    }
    Ok(all)
}

impl Twenty {
    /// Returns the seconds of work of each task in each iteration, and the seconds of waiting
    /// before it: task by task.
    pub(crate) fn times(&self) -> [Vec<Vec<f64>>; 2] {
        let tasks = self.along * self.along;
        let mut begin = vec![vec![0.0; ITERATIONS]; tasks];
        let mut end = begin.clone();
        for step in &self.steps {
            begin[step.task][step.iteration] = step.begin;
            end[step.task][step.iteration] = step.end;
        }
        let work = |t: usize, n: usize| end[t][n] - begin[t][n];
        let wait = |t: usize, n: usize| begin[t][n] - if n == 0 { 0.0 } else { end[t][n - 1] };
        let grid = |of: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
            (0..tasks).map(|t| (0..ITERATIONS).map(|n| of(t, n)).collect()).collect()
        };
        [grid(&work), grid(&wait)]
    }
}
