//! `syncline run`: the sweep, from directory to output.
//!
//! ```text
//! check the options ─ find the arrays ─ choose output and executor ─ look for leftovers
//!    ─ streamed:  divide the memory ─ sweep into OUTPUT.syncline ─────────┐
//!    ─ blocked:   set disk aside ─ divide the memory ─ sweep ─────────────┤
//!                 peak memory taken ─ verify ─ the output gets its name ──┴─ summary
//! ```

mod advice;
mod arrays;
mod blocked;
mod streamed;
mod team;

use std::sync::Arc;
use std::time::Duration;

use syncline_blocks::kernel::Real;
use syncline_fabric::Team;
use syncline_store::{
    Block, ElementType, Error as StoreError, Layout,
    generation::{Existing, Generations, Identity, Leftover, Progress},
};
use syncline_wave::{
    Runner,
    lanes::Lanes,
    monitor::Monitor,
    target::{Leftovers, Target},
};

use advice::Advice;
use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_common::words::plural;

use crate::args::BlockSize;
use crate::args::{BlockOrder, KernelName, RunArgs, RunnerKind};
use crate::budget::Bound;
use crate::error::{Error, Result, list};
use crate::executor::Executor;
use crate::inputs::{Found, Inputs};
use crate::kernels::Kernel;
use crate::output::Output;
use crate::summary::Summary;
use crate::sweeps::{Arrays, BlockOptions, SweepOptions};
use crate::{executor, report, results, system, verify};

/// The parameter of a result of the order max-parallel that holds the size of its blocks.
const BLOCK: &str = "block";

/// Runs a sweep. Returns the text to print, and whether the tolerance of `--until` was reached, if
/// one was given.
pub(crate) fn run(args: &RunArgs, signals: &Signals) -> Result<(String, bool)> {
    if Team::is_launched() {
        report::start(&args.trace, args.output.as_deref())?;
        let (summary, converged) = team::run(args, signals)?;
        let text = summary.map_or(Ok(String::new()), |summary| text(args, &summary))?;
        return Ok((text, converged));
    }
    executor::check(args)?;
    let inputs = Inputs::open(&args.dir, &args.also)?;
    let kernel = Kernel::choose(args, |name| inputs.has(name))?;
    if let Some(described) = &kernel.over_arrays {
        let summary = arrays::run(args, &kernel, described, &inputs, signals)?;
        let converged = args.until.is_none() || summary.has_converged();
        return Ok((text(args, &summary)?, converged));
    }
    let found = inputs.find(&kernel, args.field.as_deref())?;
    let summary = match found.element {
        ElementType::Float64 => Job::<f64>::open(args, &kernel, &found)?.run(signals),
        ElementType::Float32 => Job::<f32>::open(args, &kernel, &found)?.run(signals),
        other => Err(Error::Whole(other)),
    }?;
    Ok((text(args, &summary)?, args.until.is_none() || summary.has_converged()))
}

/// Ends this process, whose command line is not that of a run, as a member of a team; returns the
/// exit code, or `None` if there is no team.
pub(crate) fn refuse_on_team(why: String) -> Option<u8> {
    Team::is_launched().then(|| team::refuse(why).ok()).flatten()
}

/// Returns the text to print.
fn text(args: &RunArgs, summary: &Summary) -> Result<String> {
    match args.json {
        false => Ok(summary.to_string()),
        true => serde_json::to_string(summary)
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() }),
    }
}

/// A sweep over the matrices of a directory.
struct Job<'a, T: Real> {
    args: &'a RunArgs,
    kernel: &'a Kernel,
    found: &'a Found<'a>,
    arrays: Arrays<T>,
    output: Output,
    /// The layout of the output.
    layout: Layout,
    bound: Bound,
    monitor: Arc<Monitor>,
    /// The number of members of the team that runs the job; 1 if it runs by itself.
    members: usize,
}

impl<'a, T: Real> Job<'a, T> {
    fn open(args: &'a RunArgs, kernel: &'a Kernel, found: &'a Found<'a>) -> Result<Self> {
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
        let members = 1;
        Ok(Self { args, kernel, found, arrays, output, layout, bound, monitor, members })
    }

    fn run(self, signals: &Signals) -> Result<Summary> {
        let in_blocks = || {
            let how = self.how(Executor::Blocked);
            // The field stands for the result.
            let plan = how.plan_in_blocks(&self.kernel.runs, &self.arrays, &self.arrays.field);
            plan.map(drop).map_err(Error::from)
        };
        match executor::choose(self.args, &self.arrays, self.layout, in_blocks)? {
            Executor::Blocked => self.run_blocked(None, signals),
            Executor::Streamed => self.run_streamed(signals),
        }
    }

    /// Checks what an earlier run has left beside the output, and what has the output's name.
    ///
    /// # Errors
    /// [`Error::LeftOver`] or [`Error::Taken`] if there is something, and the options do not decide
    /// about it or do not fit it.
    fn start(&self, executor: Executor) -> Result<()> {
        let RunArgs { resume, force, .. } = *self.args;
        let output = self.output.path.clone();
        for path in syncline_store::shared::clear(&output)?.removed {
            terminal::say(format_args!(
                "note: removed {}, which a killed run has left",
                path.display()
            ));
        }
        let streamed = executor == Executor::Streamed;
        let refuse = |what: String, resume: &'static str| {
            let resume = if resume.is_empty() { resume } else { self.advice().resume(resume) };
            Err(Error::LeftOver { output: output.clone(), what, resume })
        };
        match Generations::leftover(&output)? {
            Leftover::Nothing => {
                // A run that is killed at its very beginning or end leaves an empty folder, which
                // this call removes.
                Generations::resume(&output, &Identity::default())?;
                if resume || force {
                    return Ok(());
                }
                match self.how(executor).taken(&self.arrays, &self.target(self.block()))? {
                    None => Ok(()),
                    Some(by) => Err(self.advice().taken(&output, by)),
                }
            }
            Leftover::Busy(path) => Err(Error::Store(StoreError::Busy { path })),
            _ if force => Ok(()),
            Leftover::Empty | Leftover::Complete(_) | Leftover::Unnamed(..) if resume => Ok(()),
            Leftover::Resumable(_) if resume && streamed => Ok(()),
            Leftover::Damaged(why) => Err(Error::Useless { output, why: why.into() }),
            Leftover::Empty => refuse(
                "a run that ended in its first pass".to_owned(),
                "--resume to begin it again, or ",
            ),
            Leftover::Resumable(progress) => {
                // The total of that run may differ from the one of this run.
                let done = progress.iterations;
                let what =
                    format!("a streamed run that ended after {done} iteration{}", plural(done));
                let refuse_other = |what, why: Option<String>| match why {
                    Some(why) if resume => {
                        Err(Error::LeftOverOther { output: output.clone(), what, why })
                    }
                    _ => refuse(what, ""),
                };
                let differs = self.differs_from(&progress)?;
                match executor::for_blocks(self.args) {
                    _ if differs.is_some() => refuse_other(what, differs),
                    _ if streamed => refuse(what, "--resume to go on from there, or "),
                    options if options.is_empty() => {
                        let why = "this run is in blocks, as not all of its data and its result are row-major";
                        refuse_other(what, Some(why.to_owned()))
                    }
                    options => Err(Error::LeftOverInBlocks {
                        output: output.clone(),
                        what,
                        options,
                        resume,
                    }),
                }
            }
            Leftover::Complete(_) => refuse(
                "a run that had only this folder still to remove".to_owned(),
                "--resume to remove it and keep the output, or ",
            ),
            Leftover::Unnamed(_, paths) => refuse(
                format!("a run that was complete but for the names of {}", list(&paths)),
                "--resume to give them, or ",
            ),
            _ => refuse("something unknown".to_owned(), ""),
        }
    }

    /// Returns what explains why this run cannot go on.
    fn advice(&self) -> Advice<'_> {
        let Self { args, kernel, ref output, members, .. } = *self;
        Advice { args, kernel, output, members, starts_from_results: true }
    }

    /// Returns why --resume could not continue the interrupted run, or `None` if it could. The
    /// inputs are not read: inputs of the same length count as the same.
    fn differs_from(&self, progress: &Progress) -> Result<Option<String>> {
        let asked = self.args.iterations;
        if progress.iterations > asked {
            return Ok(Some(format!("its iterations are more than the {asked} asked for")));
        }
        let mut identity =
            self.how(Executor::Streamed).identity(&self.arrays, &self.target(self.block()))?;
        let settle =
            |then: &Identity, now: &mut Identity| now.settle(then, |n| Ok(then.inputs[n].sum));
        match Generations::resume_settled::<StoreError>(&self.output.path, &mut identity, settle) {
            Ok(_) => Ok(None),
            Err(StoreError::OtherRun { differences, .. }) => Ok(Some(format!(
                "it is of another computation: {}",
                self.kernel.in_words(differences).join("; ")
            ))),
            Err(other) => Err(other.into()),
        }
    }

    /// Returns the block size if it is known before the memory is divided: the given one, that of
    /// the data, or, for the order max-parallel, whose numbers depend on it, that of the existing
    /// result.
    fn block(&self) -> Option<Block> {
        let given = self.args.block.and_then(BlockSize::given);
        let of_data = || self.arrays.all().find_map(|matrix| matrix.layout().block());
        given
            .or_else(of_data)
            .or_else(|| self.marked_block())
            .map(|b| b.clipped(self.arrays.field.shape()))
    }

    /// Returns the block size of the existing result, if the run continues from it and the numbers
    /// depend on the block size.
    fn marked_block(&self) -> Option<Block> {
        if self.args.order != BlockOrder::MaxParallel || self.args.force {
            return None;
        }
        match Existing::at(&self.output.path) {
            Ok(Existing::Result(mark)) => mark.identity.what.get(BLOCK)?.parse().ok(),
            _ => None,
        }
    }

    /// Returns the destination of the result, with everything that identifies its computation
    /// beyond what the sweep knows. `block` is the block size of the sweep, as far as it is known.
    fn target(&self, block: Option<Block>) -> Target {
        let path = &self.output.path;
        let target = if self.output.npy { Target::npy(path) } else { Target::raw(path) };
        let mut target = described(target, self.args, self.kernel);
        if self.args.order == BlockOrder::MaxParallel {
            target = target.describe("order", "max-parallel");
            target = block.into_iter().fold(target, |target, block| target.describe(BLOCK, block));
        }
        if self.layout != Layout::RowMajor {
            target = target.describe(results::LAYOUT, self.layout);
        }
        target
    }

    /// Returns the options of the sweep, without a memory bound.
    fn how(&self, executor: Executor) -> SweepOptions {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let runner = match self.args.runner {
            Some(RunnerKind::Threads) => Runner::Threads,
            _ => Runner::pool(self.args.threads.map_or_else(cores, |n| n as usize)),
        };
        SweepOptions {
            iterations: self.args.iterations,
            until: self.args.until,
            exact_stop: self.args.exact_stop,
            runner,
            depth: self.args.depth,
            lanes: self.args.lanes.map_or_else(Lanes::best, Lanes::from),
            memory: u64::MAX,
            monitor: Arc::clone(&self.monitor),
            blocks: BlockOptions {
                order: executor::order(self.args, executor).into(),
                size: self.args.block.and_then(BlockSize::given),
                disk: None,
            },
        }
    }
}

/// Adds to a target the kernel, its parameters, and what to do with the leftovers of earlier runs.
fn described(target: Target, args: &RunArgs, kernel: &Kernel) -> Target {
    let leftovers = match (args.resume, args.force) {
        (true, _) => Leftovers::Resume,
        (_, true) => Leftovers::Discard,
        _ => Leftovers::Refuse,
    };
    let target = target.leftovers(leftovers).describe("kernel", &kernel.name);
    kernel.parameters.iter().fold(target, |target, (name, value)| target.describe(*name, value))
}

/// Measures time and disk traffic during a sweep.
struct Meter {
    start: std::time::Instant,
    disk: Option<(u64, u64)>,
}

impl Meter {
    fn start() -> Self {
        Self { disk: system::disk(), start: std::time::Instant::now() }
    }

    /// Returns the elapsed time, and the bytes that the disk has read and written.
    fn stop(self) -> (Duration, Option<(u64, u64)>) {
        let moved = |(old, new): ((u64, u64), (u64, u64))| {
            (new.0.saturating_sub(old.0), new.1.saturating_sub(old.1))
        };
        (self.start.elapsed(), self.disk.zip(system::disk()).map(moved))
    }
}
