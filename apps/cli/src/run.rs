//! `syncline run`: the sweep, from directory to output.
//!
//! ```text
//! check the options ─ find the arrays ─ choose output and executor ─ look for leftovers
//!    ─ streamed:  divide the memory ─ sweep into OUTPUT.syncline ─────────┐
//!    ─ blocked:   set disk aside ─ divide the memory ─ sweep ─────────────┤
//!                 peak memory taken ─ verify ─ the output gets its name ──┴─ summary
//! ```

mod blocked;
mod streamed;

use std::sync::Arc;
use std::time::Duration;

use syncline_store::{ElementType, Error as StoreError, Generations, Identity, Layout, Leftover};
use syncline_wave::{Executor, Lanes, Leftovers, Monitor, Real, Runner, Target};

use crate::args::{BlockOrder, KernelName, RunArgs, RunnerKind};
use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::inputs::{Found, Inputs};
use crate::kernels::{Arrays, How, Kernel, Runs};
use crate::output::Output;
use crate::summary::Summary;
use crate::units::BlockSize;
use crate::watch::Signals;
use crate::{executor, system, verify};

/// Runs a sweep; returns what to print, and whether it has come to the tolerance of `--until`, if one was given.
pub(crate) fn run(args: &RunArgs, signals: &Signals) -> Result<(String, bool)> {
    executor::check(args)?;
    let inputs = Inputs::open(&args.dir, &args.also)?;
    let kernel = Kernel::choose(args, |name| inputs.has(name))?;
    let found = inputs.find(&kernel, args.field.as_deref())?;
    let summary = match found.element {
        ElementType::Float64 => Job::<f64>::open(args, &kernel, kernel.runs.clone(), &found)?.run(signals),
        ElementType::Float32 => Job::<f32>::open(args, &kernel, kernel.runs.clone(), &found)?.run(signals),
    }?;
    let text = match args.json {
        false => summary.to_string(),
        true => serde_json::to_string(&summary)
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() })?,
    };
    Ok((text, args.until.is_none() || summary.has_converged()))
}

/// A sweep over the matrices of a directory.
struct Job<'a, T: Real> {
    args: &'a RunArgs,
    kernel: &'a Kernel,
    runs: Arc<dyn Runs<T>>,
    found: &'a Found<'a>,
    arrays: Arrays<T>,
    output: Output,
    /// Of the output.
    layout: Layout,
    bound: Bound,
    monitor: Arc<Monitor>,
}

impl<'a, T: Real> Job<'a, T> {
    fn open(
        args: &'a RunArgs,
        kernel: &'a Kernel,
        runs: Arc<dyn Runs<T>>,
        found: &'a Found<'a>,
    ) -> Result<Self> {
        let arrays = found.open::<T>()?;
        verify::check(args, arrays.field.shape())?;
        let mut inputs = found.files();
        if let KernelName::Described(path) = &args.kernel {
            inputs.push(path.clone());
        }
        inputs.extend(found.displaced());
        let output = Output::choose(args.output.as_deref(), found.home(), kernel, &inputs)?;
        let layout = if output.npy { Layout::RowMajor } else { arrays.field.layout() };
        let (bound, monitor) = (Bound::new(args.memory), Arc::new(Monitor::new()));
        Ok(Self { args, kernel, runs, found, arrays, output, layout, bound, monitor })
    }

    fn run(self, signals: &Signals) -> Result<Summary> {
        match executor::choose(self.args, &self.arrays, self.layout)? {
            Executor::Blocked => self.run_blocked(None, signals),
            _ => self.run_streamed(signals),
        }
    }

    /// Looks at what an earlier run has left beside the output, and at what has its name.
    ///
    /// # Errors
    /// [`Error::LeftOver`] or [`Error::Taken`] when there is something and nothing was said about it.
    fn start(&self, executor: Executor) -> Result<()> {
        let RunArgs { resume, force, .. } = *self.args;
        let output = self.output.path.clone();
        let resumable = executor == Executor::Streamed;
        let refuse = |what: String| Err(Error::LeftOver { output: output.clone(), what, resumable });
        match Generations::leftover(&output)? {
            Leftover::Nothing => {
                // Killed at its very beginning or end, a run leaves an empty folder, which this removes.
                Generations::resume(&output, &Identity::default())?;
                if resume || force {
                    return Ok(());
                }
                match self.how(executor).taken(&self.arrays, &self.target())? {
                    None => Ok(()),
                    Some(by) => Err(Error::taken(output, &by, resumable.then_some(self.args.iterations))),
                }
            }
            Leftover::Busy(path) => Err(Error::Store(StoreError::Busy { path })),
            _ if force => Ok(()),
            Leftover::Resumable(_) | Leftover::Empty | Leftover::Complete(_) if resume => Ok(()),
            Leftover::Damaged(why) => Err(Error::Useless { output, why: why.into() }),
            Leftover::Empty => refuse("a run that ended in its first pass".to_owned()),
            Leftover::Resumable(progress) => {
                // Of how many, it may have been told otherwise than this run.
                let done = progress.iterations;
                refuse(format!("a run that ended after {done} iteration{}", if done == 1 { "" } else { "s" }))
            }
            Leftover::Complete(_) => refuse("a run that had only this folder still to remove".to_owned()),
            _ => refuse("something unknown".to_owned()),
        }
    }

    /// Where the result goes, and all that makes it another but what the sweep knows.
    fn target(&self) -> Target {
        let path = &self.output.path;
        let leftovers = match (self.args.resume, self.args.force) {
            (true, _) => Leftovers::Resume,
            (_, true) => Leftovers::Discard,
            _ => Leftovers::Refuse,
        };
        let target = if self.output.npy { Target::npy(path) } else { Target::raw(path) };
        let mut target = target.leftovers(leftovers).describe("kernel", &self.kernel.name);
        if self.args.order == BlockOrder::MaxParallel {
            target = target.describe("order", "max-parallel");
        }
        if self.layout != Layout::RowMajor {
            target = target.describe("layout", self.layout);
        }
        self.kernel.parameters.iter().fold(target, |target, (name, value)| target.describe(*name, value))
    }

    /// The sweep, without a memory bound.
    fn how(&self, executor: Executor) -> How {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let runner = match self.args.runner {
            Some(RunnerKind::Threads) => Runner::Threads,
            _ => Runner::pool(self.args.threads.map_or_else(cores, |n| n as usize)),
        };
        How {
            iterations: self.args.iterations,
            until: self.args.until,
            exact_stop: self.args.exact_stop,
            order: self.args.order.into(),
            runner,
            executor,
            depth: self.args.depth,
            lanes: self.args.lanes.map_or_else(Lanes::best, Lanes::from),
            block: self.args.block.and_then(BlockSize::given),
            disk: None,
            memory: u64::MAX,
            monitor: Arc::clone(&self.monitor),
        }
    }
}

/// What is measured during a sweep.
struct Meter {
    start: std::time::Instant,
    disk: Option<(u64, u64)>,
}

impl Meter {
    fn start() -> Self {
        Self { disk: system::disk(), start: std::time::Instant::now() }
    }

    /// The time, and the bytes read and written by the disk.
    fn stop(self) -> (Duration, Option<(u64, u64)>) {
        let moved =
            |(old, new): ((u64, u64), (u64, u64))| (new.0.saturating_sub(old.0), new.1.saturating_sub(old.1));
        (self.start.elapsed(), self.disk.zip(system::disk()).map(moved))
    }
}
