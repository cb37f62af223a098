//! A run in blocks: into a new file, which gets its name at the end.

use std::time::Instant;

use syncline_store::probe::Disk;
use syncline_store::{Generations, Layout, Made, Matrix, NewFile, Standing};
use syncline_wave::{BlockPlan, Error as WaveError, Executor, Real, Report};

use super::{Job, Meter};
use crate::args::RunnerKind;
use crate::error::{Error, Result};
use crate::kernels::How;
use crate::progress::Progress;
use crate::summary::{Asked, Measured, Peak, Summary};
use crate::units::{AtLeast, BlockSize, Bytes};
use crate::verify::Verification;
use crate::watch::{self, LINE, Signals};
use crate::{output, system};

impl<T: Real> Job<'_, T> {
    /// In blocks, where a streamed sweep does not fit the memory. If blocks do not fit either, the error is that of the
    /// way that takes less.
    pub(super) fn run_in_blocks_instead(self, streamed: Error, signals: &Signals) -> Result<Summary> {
        let needs = |error: &Error| match error {
            Error::Memory { own, needed, .. } => Some(own.and(*needed)),
            _ => None,
        };
        let bound = Bytes(self.bound.bytes());
        let least = needs(&streamed).unwrap_or(AtLeast::new(u64::MAX));
        let instead = format!("in blocks, as streamed it takes {least} and {bound} are allowed");
        match self.run_blocked(Some(instead), signals) {
            Err(blocked) if needs(&blocked).is_some_and(|blocks| blocks > least) => Err(streamed),
            // A kernel, say, that no blocks keep the order of.
            Err(Error::Wave(WaveError::CornerBlocks { .. })) => Err(streamed),
            done => done,
        }
    }

    /// `instead` is why it is in blocks, if nobody has asked for them.
    pub(super) fn run_blocked(self, instead: Option<String>, signals: &Signals) -> Result<Summary> {
        self.start(Executor::Blocked)?;
        let shape = self.arrays.field.shape();
        let (path, npy) = (&self.output.path, self.output.npy);
        let standing = Standing::of(path)?;
        let new = NewFile::create(path, Matrix::<T>::file_bytes(npy, shape, self.layout)?)?;
        let result = Matrix::create(&new, npy, shape, self.layout)?;
        let reserve = |extent| Verification::reserve(path, shape, self.args, extent);
        let room = self.args.verify.map(reserve).transpose()?;
        let threads = self.args.runner == Some(RunnerKind::Threads);
        let auto = self.args.block == Some(BlockSize::Auto);
        let mut how = self.how(Executor::Blocked);
        if auto {
            how.disk = Disk::of(&self.arrays.field)?;
        }
        let (how, plan) = self.bound.for_blocks(&*self.runs, &how, threads, &self.arrays, &result)?;
        if threads {
            check_threads(plan.grid.len())?;
        }
        let chosen = auto.then(|| chosen(&how, &plan, self.arrays.field.layout()));
        if let Some(instead) = &instead {
            // Not only at the end: it may take long.
            eprintln!("note: {instead}");
        }
        if self.args.force {
            Generations::discard(path)?;
        }

        let bar = signals.bar(LINE);
        let (points, blocks) = (self.kernel.points(shape) as f64, Some(plan.grid.len() as u64));
        let identity = how.identity(&self.arrays, &self.target())?;
        let mut progress =
            Progress::new(self.monitor, points, self.args.iterations, blocks, signals).under(self.bound);
        let (runs, arrays) = (self.runs.clone(), self.arrays);
        let meter = Meter::start();
        let (result, report) = watch::watch(
            signals,
            &bar,
            |bar| progress.show(bar),
            move || Ok(runs.run(&how, &arrays, result)?),
        )?;
        let (time, disk) = meter.stop();
        // The inputs went with the sweep: so nothing is held in memory any more.
        drop(result);
        let peak = Peak::take();
        let verified = match room {
            None => None,
            Some(room) => {
                let (arrays, result) =
                    (self.found.open()?, Matrix::<T>::create(&new, npy, shape, self.layout)?);
                Some(room.compare(self.runs, arrays, result, &report, time, self.bound, signals)?)
            }
        };
        let sync = Instant::now();
        output::sync(std::slice::from_ref(&new), signals)?;
        let Report { iterations, converged, .. } = report;
        identity.mark(new.file(), &Made { iterations, residuals: report.residuals.clone(), converged });
        if self.args.force { new.commit() } else { new.commit_over(&standing) }?;
        let sync_time = sync.elapsed();
        let unmarked = self.output.unmarked()?;
        let measured =
            Measured { time, sync_time, peak, disk, bound: self.bound, verified, chosen, instead, unmarked };
        let asked =
            Asked { args: self.args, kernel: self.kernel, element: T::TYPE, shape, output: &self.output };
        Ok(Summary::new(&asked, self.layout, &report, &measured))
    }
}

/// The most threads that the runner `threads` starts. Each takes a stack and two mappings, of which a process may have 65530;
/// beyond some hundreds they only wait for processors.
const MOST_THREADS: usize = 4096;

/// Refuses a thread for each of too many blocks, before any is started.
fn check_threads(blocks: usize) -> Result<()> {
    let limit = system::tasks_limit().map_or(MOST_THREADS, |limit| MOST_THREADS.min(limit as usize));
    if blocks <= limit {
        return Ok(());
    }
    let whose = if limit < MOST_THREADS { " (the limit of this control group, pids.max)" } else { "" };
    Err(Error::Usage(format!(
        "--runner threads would start a thread for each of {blocks} blocks, and at most {limit}{whose} are: \
         take larger blocks (--block), or --runner pool"
    )))
}

/// Why it is this block, in one line.
fn chosen(how: &How, plan: &BlockPlan, layout: Layout) -> String {
    match (how.disk, plan.expected) {
        _ if layout != Layout::RowMajor => "the blocks that the data have".to_owned(),
        (Some(disk), Some(expected)) => {
            crate::convert::why(&disk, plan.grid.block_size(), expected.as_secs_f64())
        }
        _ if plan.held => "blocks for the processors' caches, as all matrices fit the memory".to_owned(),
        _ => "blocks that suit the memory, as the disk could not be measured".to_owned(),
    }
}
