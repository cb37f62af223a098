//! A run in blocks: into a new file, which gets its name at the end.

use std::time::Instant;

use syncline_store::probe::Disk;
use syncline_store::{Generations, Layout, Made, Matrix, NewFile, Standing};
use syncline_wave::{BlockPlan, Executor, Real, Report};

use super::{Job, Meter};
use crate::args::RunnerKind;
use crate::error::Result;
use crate::kernels::How;
use crate::progress::Progress;
use crate::summary::{Asked, Measured, Summary};
use crate::units::BlockSize;
use crate::verify::Verification;
use crate::watch::{self, LINE, Signals};
use crate::{output, system};

impl<T: Real> Job<'_, T> {
    pub(super) fn run_blocked(self, signals: &Signals) -> Result<Summary> {
        self.start(Executor::Blocked)?;
        let shape = self.arrays.field.shape();
        let (path, npy) = (&self.output.path, self.output.npy);
        let standing = Standing::of(path)?;
        let new = NewFile::create(path, Matrix::<T>::file_bytes(npy, shape, self.layout)?)?;
        let result = Matrix::create(&new, npy, shape, self.layout)?;
        let order = self.args.order.into();
        let room = self.args.verify.then(|| Verification::reserve(path, shape, order)).transpose()?;
        let threads = self.args.runner == Some(RunnerKind::Threads);
        let auto = self.args.block == Some(BlockSize::Auto);
        let mut how = self.how(Executor::Blocked);
        if auto {
            how.disk = Disk::of(&self.arrays.field)?;
        }
        let (how, plan) = self.bound.for_blocks(&*self.runs, &how, threads, &self.arrays, &result)?;
        let chosen = auto.then(|| chosen(&how, &plan, self.arrays.field.layout()));
        if self.args.force {
            Generations::discard(path)?;
        }

        let bar = signals.bar(LINE);
        let (points, blocks) = (self.kernel.points(shape) as f64, Some(plan.grid.len() as u64));
        let identity = how.identity(&self.arrays, &self.target())?;
        let mut progress = Progress::new(self.monitor, points, self.args.iterations, blocks, signals);
        let (runs, arrays) = (self.runs.clone(), self.arrays);
        let meter = Meter::start();
        let (result, report) = watch::watch(
            signals,
            &bar,
            |bar| progress.show(bar),
            move || Ok(runs.run(&how, &arrays, result)?),
        )?;
        let (time, disk) = meter.stop();
        let peak_rss = system::peak_resident();
        // The inputs went with the sweep: so nothing is held in memory any more.
        drop(result);
        let verified = match room {
            None => None,
            Some(room) => {
                let (arrays, result) =
                    (self.found.open()?, Matrix::<T>::create(&new, npy, shape, self.layout)?);
                Some(room.compare(self.runs, arrays, result, &report, self.bound, signals)?)
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
            Measured { time, sync_time, peak_rss, disk, bound: self.bound, verified, chosen, unmarked };
        let asked =
            Asked { args: self.args, kernel: self.kernel, element: T::TYPE, shape, output: &self.output };
        Ok(Summary::new(&asked, self.layout, &report, &measured))
    }
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
