//! A streamed run: into a target from which a later run can continue.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use syncline_blocks::kernel::Real;
use syncline_common::signals::Signals;
use syncline_store::generation::Generations;
use syncline_wave::{SweepReport, target::Pending};

use super::{Job, Meter};
use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::progress::Progress;
use crate::report;
use crate::summary::{Asked, Measured, Peak, Summary};
use crate::verify::{Verification, Verified};
use crate::watch::{self, Attended, LINE, SYNC};

impl<T: Real> Job<'_, T> {
    pub(super) fn run_streamed(self, signals: &Signals) -> Result<Summary> {
        self.start(Executor::Streamed)?;
        // Only now: a run that is refused leaves the trace of the run before.
        report::start(&self.args.trace, Some(&self.output.path))?;
        let shape = self.arrays.field.shape();
        let asked = Asked {
            args: self.args,
            kernel: self.kernel,
            element: T::TYPE,
            shape,
            output: &self.output,
        };
        let how = self.how(Executor::Streamed);
        let how = match self.bound.for_streamed(&self.kernel.runs, &how, &self.arrays) {
            Ok(how) => how,
            Err(small @ Error::Memory { .. }) => return self.run_in_too_little(small, signals),
            Err(other) => return Err(other),
        };
        let reserve = |extent| Verification::reserve(&self.output.path, shape, self.args, extent);
        let room = self.args.verify.map(reserve).transpose()?;

        let bar = signals.bar(LINE);
        let points = self.kernel.points(shape) as f64;
        let mut progress =
            Progress::new(self.monitor.clone(), points, self.args.iterations, None, signals)
                .under(self.bound);
        let (kernel, arrays) = (self.kernel.runs.clone(), self.arrays.clone());
        let target = self.target(None);
        let meter = Meter::start();
        let sweep = move || Ok(how.run_to(&kernel, &arrays, &target)?);
        let ended = watch::attend(
            signals,
            &bar,
            |bar| progress.show(bar),
            || self.monitor.cancel(),
            sweep,
        )?;
        let (time, disk) = meter.stop();
        let (pending, report) = self.swept(ended)?;
        let complete = pending.is_complete();
        let peak = Peak::take();
        let (pending, verified) = match room {
            None => (pending, None),
            Some(room) => self
                .verify(room, pending, &report, time, signals)
                .map(|(p, with)| (p, Some(with)))?,
        };
        if complete {
            return Ok(Summary::complete(&asked, self.layout, &report, verified));
        }
        let sync = Instant::now();
        let bar = signals.bar(SYNC).with_message("bringing the output to disk");
        let commit = move || Ok(pending.commit()?);
        let ended = watch::attend(signals, &bar, ProgressBar::tick, || (), commit)?;
        match (ended.result, ended.signal) {
            // A signal has no effect once the file has its name.
            (Some(result), _) => result.map_err(|error| self.advice().explain(error))?,
            (None, signal) => return Err(self.advice().interrupted(signal.unwrap_or_default())),
        }
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
            chosen: None,
            instead: None,
            unmarked,
        };
        Ok(Summary::new(&asked, self.layout, &report, &measured))
    }

    /// Returns the result of the sweep, or the error of an interruption or failure.
    fn swept(&self, ended: Attended<(Pending, SweepReport)>) -> Result<(Pending, SweepReport)> {
        if let Some(signal) = ended.signal {
            drop(ended.result);
            return Err(self.advice().interrupted(signal));
        }
        ended.result.unwrap_or(Err(Error::Panic)).map_err(|error| self.advice().explain(error))
    }

    /// Compares the result with that of the plain loop. A result that differs is discarded.
    fn verify(
        &self,
        room: Verification<T>,
        pending: Pending,
        report: &SweepReport,
        time: Duration,
        signals: &Signals,
    ) -> Result<(Pending, Verified)> {
        let (kernel, arrays, result) = (&self.kernel.runs, self.arrays.clone(), pending.matrix()?);
        let done = report.iterations;
        let error = match room.compare(kernel, arrays, result, done, time, self.bound, signals) {
            Ok(with) => return Ok((pending, with)),
            Err(error) => error,
        };
        let complete = pending.is_complete();
        drop(pending);
        match error {
            Error::Differs { with, at } if complete => {
                return Err(Error::CompleteDiffers { output: self.output.path.clone(), with, at });
            }
            Error::Differs { .. } => Generations::discard(&self.output.path)?,
            Error::Interrupted { signal, .. } => return Err(self.advice().interrupted(signal)),
            _ => {}
        }
        Err(error)
    }
}
