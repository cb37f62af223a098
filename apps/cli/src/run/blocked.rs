//! A blocked run: into a new file, which gets its name at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use syncline_blocks::kernel::Real;
use syncline_blocks::{Error as BlocksError, plan::BlockPlan};
use syncline_common::signals::Signals;
use syncline_common::units::{AtLeast, Bytes};
use syncline_common::{terminal, words};
use syncline_store::probe::Disk;
use syncline_store::{
    Block, Layout, Matrix, NewFile,
    generation::{Generations, Leftover},
};
use syncline_wave::target::Resumption;

use super::{Job, Meter};
use crate::args::BlockSize;
use crate::args::RunnerKind;
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::progress::Progress;
use crate::summary::{Asked, Measured, Peak, Summary};
use crate::sweeps::{Arrays, BlockOptions, SweepOptions};
use crate::verify::Verification;
use crate::watch::{self, LINE, SYNC};
use crate::{executor, output, report, system};

impl<T: Real> Job<'_, T> {
    /// Handles a streamed sweep that does not fit the memory: runs in blocks if no option requires
    /// a streamed sweep. Otherwise the error names the alternatives.
    pub(super) fn run_in_too_little(self, streamed: Error, signals: &Signals) -> Result<Summary> {
        let asked = executor::for_streamed(self.args);
        let without = words::list(&asked);
        // An interrupted streamed run can only continue as a streamed run.
        if self.args.resume
            && matches!(Generations::leftover(&self.output.path)?, Leftover::Resumable(_))
        {
            let anew = match (self.fits_in_blocks(), asked.is_empty()) {
                (false, _) => String::new(),
                (true, true) => " (--force in place of --resume begins anew in blocks)".to_owned(),
                (true, false) => {
                    format!(
                        " (--force in place of --resume, without {without}, begins anew in blocks)"
                    )
                }
            };
            let output = self.output.path.display();
            let unless =
                format!("as the run left in {output}.syncline goes on streamed only{anew}, ");
            return Err(streamed.with_piece_after(&unless));
        }
        match (asked.is_empty(), self.fits_in_blocks()) {
            (true, _) => self.run_in_blocks_instead(streamed, signals),
            (false, true) => Err(streamed
                .with_piece_after(&format!("unless it goes in blocks (without {without}), "))),
            (false, false) => Err(streamed),
        }
    }

    /// Returns whether a blocked sweep fits the memory, with a margin for memory that the program
    /// takes later.
    fn fits_in_blocks(&self) -> bool {
        let how = self.how(Executor::Blocked);
        // The field stands for the result.
        self.bound
            .with_a_little_less()
            .for_blocks(&self.kernel.runs, &how, false, &self.arrays, &self.arrays.field)
            .is_ok()
    }

    /// Runs in blocks because a streamed sweep does not fit the memory. If blocks do not fit
    /// either, the error is that of the sweep that needs less memory.
    fn run_in_blocks_instead(self, streamed: Error, signals: &Signals) -> Result<Summary> {
        let needs = |error: &Error| match error {
            Error::Memory { own, needed, .. } => Some(own.and(*needed)),
            _ => None,
        };
        let bound = Bytes(self.bound.bytes());
        let least = needs(&streamed).unwrap_or(AtLeast::new(u64::MAX));
        let instead =
            format!("in blocks: a streamed pass takes {least}, and --memory allows {bound}");
        match self.run_blocked(Some(instead), signals) {
            Err(blocked) if needs(&blocked).is_some_and(|blocks| blocks > least) => Err(streamed),
            // For example, a kernel whose order no blocks preserve.
            Err(Error::Blocks(BlocksError::CornerBlocks { .. })) => Err(streamed),
            done => done,
        }
    }

    /// Runs in blocks. `instead` is the reason, if the command line does not ask for blocks.
    pub(super) fn run_blocked(self, instead: Option<String>, signals: &Signals) -> Result<Summary> {
        self.start(Executor::Blocked)?;
        // Only now: a run that is refused leaves the trace of the run before.
        report::start(&self.args.trace, Some(&self.output.path))?;
        let shape = self.arrays.field.shape();
        let (path, npy) = (&self.output.path, self.output.npy);
        let new = NewFile::create(path, Matrix::<T>::file_bytes(npy, shape, self.layout)?)?;
        let result = Matrix::create(&new, npy, shape, self.layout)?;
        let reserve = |extent| Verification::reserve(path, shape, self.args, extent);
        let room = self.args.verify.map(reserve).transpose()?;
        let threads = self.args.runner == Some(RunnerKind::Threads);
        let mut how = self.how(Executor::Blocked);
        let marked = how.blocks.size.is_none().then(|| self.marked_block()).flatten();
        how.blocks.size = how.blocks.size.or(marked);
        let auto = self.args.block == Some(BlockSize::Auto) && marked.is_none();
        if auto {
            how.blocks.disk = Disk::of(&self.arrays.field)?;
        }
        let (how, plan) =
            self.bound.for_blocks(&self.kernel.runs, &how, threads, &self.arrays, &result)?;
        if threads {
            check_threads(plan.grid.len())?;
        }
        let chosen = auto.then(|| chosen(&how, &plan, self.arrays.field.layout()));
        let begun = self.resumption(&how, plan.grid.block_size().clipped(shape), signals)?;
        if begun.is_complete {
            return self.complete_in_blocks(&begun, plan, room, signals);
        }
        if let Some(instead) = &instead {
            // Printed before the sweep, which may take long, and not only in the summary.
            terminal::say(format_args!("note: {instead}"));
        }
        let (how, plan, arrays) = match begun.made {
            None => (how, plan, self.arrays.clone()),
            Some(_) => {
                let field = Arc::new(self.output.open::<T>(shape, self.layout)?);
                let arrays = Arrays { field, ..self.arrays.clone() };
                let iterations = self.args.iterations - begun.done();
                let blocks = BlockOptions { size: Some(plan.grid.block_size()), ..how.blocks };
                let rest = SweepOptions { iterations, blocks, ..how };
                let (how, plan) =
                    self.bound.for_blocks(&self.kernel.runs, &rest, threads, &arrays, &result)?;
                (how, plan, arrays)
            }
        };

        let bar = signals.bar(LINE);
        let (points, blocks) = (self.kernel.points(shape) as f64, Some(plan.grid.len() as u64));
        let mut progress =
            Progress::new(self.monitor, points, how.iterations, blocks, signals).under(self.bound);
        let kernel = self.kernel.runs.clone();
        drop(self.arrays);
        let meter = Meter::start();
        let (result, report) = watch::watch(
            signals,
            &bar,
            |bar| progress.show(bar),
            move || Ok(how.run_in_blocks(&kernel, &arrays, result)?),
        )?;
        let (time, disk) = meter.stop();
        let report = begun.add(report);
        // The sweep has dropped the inputs, so no data are held in memory any more.
        drop(result);
        let peak = Peak::take();
        let verified = match room {
            None => None,
            Some(room) => {
                let (arrays, result) =
                    (self.found.open()?, Matrix::<T>::create(&new, npy, shape, self.layout)?);
                let room = room.in_blocks(self.args.order, plan.grid);
                let done = report.iterations;
                Some(room.compare(
                    &self.kernel.runs,
                    arrays,
                    result,
                    done,
                    time,
                    self.bound,
                    signals,
                )?)
            }
        };
        let sync = Instant::now();
        output::sync(std::slice::from_ref(&new), signals)?;
        begun.identity.mark(new.file(), &report.made(self.args.until));
        if self.args.force { new.commit() } else { new.commit_over(&begun.standing) }?;
        let sync_time = sync.elapsed();
        let unmarked = self.output.unmarked()?;
        let measured = Measured {
            members: self.members,
            on_host: 1,
            time,
            sync_time,
            peak,
            disk,
            bound: self.bound,
            verified,
            chosen,
            instead,
            unmarked,
        };
        let asked = Asked {
            args: self.args,
            kernel: self.kernel,
            element: T::TYPE,
            shape,
            output: &self.output,
        };
        Ok(Summary::new(&asked, self.layout, &report, &measured))
    }
}

impl<T: Real> Job<'_, T> {
    /// Determines where the run starts. May read inputs that were moved or touched.
    fn resumption(
        &self,
        how: &SweepOptions,
        block: Block,
        signals: &Signals,
    ) -> Result<Resumption> {
        let (how, arrays, target) = (how.clone(), self.arrays.clone(), self.target(Some(block)));
        let how = SweepOptions { iterations: self.args.iterations, ..how };
        let bar = signals.bar(SYNC).with_message("looking at what is there");
        let look = move || Ok(how.resumption(&arrays, &target)?);
        watch::watch(signals, &bar, ProgressBar::tick, look)
            .map_err(|error| self.advice().advise(error))
    }

    /// Finishes a run whose result is complete: only the comparison remains, if it is requested.
    fn complete_in_blocks(
        self,
        begun: &Resumption,
        plan: BlockPlan,
        room: Option<Verification<T>>,
        signals: &Signals,
    ) -> Result<Summary> {
        let report = begun.report(plan);
        let shape = self.arrays.field.shape();
        let verified = match room {
            None => None,
            Some(room) => {
                let result = self.output.open(shape, self.layout)?;
                let arrays = self.arrays.clone();
                let compared = room.in_blocks(self.args.order, plan.grid).compare(
                    &self.kernel.runs,
                    arrays,
                    result,
                    report.iterations,
                    Duration::ZERO,
                    self.bound,
                    signals,
                );
                Some(compared.map_err(|error| match error {
                    Error::Differs { with, at } => {
                        Error::CompleteDiffers { output: self.output.path.clone(), with, at }
                    }
                    other => other,
                })?)
            }
        };
        let asked = Asked {
            args: self.args,
            kernel: self.kernel,
            element: T::TYPE,
            shape,
            output: &self.output,
        };
        Ok(Summary::complete(&asked, self.layout, &report, verified))
    }
}

/// The maximum number of threads that the runner `threads` starts. Each thread takes a stack and
/// two mappings, of which a process may have 65530; beyond some hundreds they only wait for
/// processors.
const MOST_THREADS: usize = 4096;

/// Refuses one thread per block for too many blocks, before any thread is started.
fn check_threads(blocks: usize) -> Result<()> {
    let limit =
        system::tasks_limit().map_or(MOST_THREADS, |limit| MOST_THREADS.min(limit as usize));
    if blocks <= limit {
        return Ok(());
    }
    let whose =
        if limit < MOST_THREADS { " (the limit of this control group, pids.max)" } else { "" };
    Err(Error::Usage(format!(
        "--runner threads would start a thread for each of {blocks} blocks, and at most {limit}{whose} are: \
         take larger blocks (--block), or --runner pool"
    )))
}

/// Describes in one line why the block size was chosen.
fn chosen(how: &SweepOptions, plan: &BlockPlan, layout: Layout) -> String {
    match (how.blocks.disk, plan.expected) {
        _ if layout != Layout::RowMajor => "the blocks that the data have".to_owned(),
        (Some(disk), Some(expected)) => {
            crate::convert::why(&disk, plan.grid.block_size(), expected.as_secs_f64())
        }
        _ if plan.held => {
            "blocks for the processors' caches, as all matrices fit the memory".to_owned()
        }
        _ => "blocks that suit the memory, as the disk could not be measured".to_owned(),
    }
}
