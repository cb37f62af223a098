//! A whole streamed sweep: one pass after another, until the iterations are done or it has
//! converged.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use syncline_store::{
    Layout, Matrix, convert,
    direct_io::{DirectFile, DirectWriter},
    generation::{Made, Progress},
    placement::StridedRun,
};

use super::data::{FileSink, Held, Sink, Source, all_rows};
use super::pass::{Passed, Spent, Stream};
use super::plan::{Question, StreamPlan, cache_bytes};
use super::sums::Sums;
use crate::dynamic::Kernel;
use crate::lanes::Real;
use crate::run::start::{Asked, made};
use crate::sweep::{Executor, Order, Settings, SweepPlan, SweepReport, Times};
use crate::{Error, Result, facts};

/// The number of bytes that are read to measure the rate of the disk.
const PROBE: u64 = 16 << 20;

/// The arrays of a sweep.
pub(crate) struct Arrays<'a, E: Real> {
    pub(crate) field: &'a Arc<Matrix<E>>,
    pub(crate) coefficients: &'a [Arc<Matrix<E>>],
}

impl<E: Real> Arrays<'_, E> {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Matrix<E>>> {
        std::iter::once(self.field).chain(self.coefficients)
    }

    /// Returns the arrays that were opened by a path, each with its index among all.
    pub(crate) fn on_file(&self) -> impl Iterator<Item = (usize, &Arc<Matrix<E>>)> {
        self.all().enumerate().filter(|(_, matrix)| matrix.path().is_some())
    }

    /// Checks that all arrays have the shape of the field.
    pub(crate) fn check_shapes(&self, result: Option<&Matrix<E>>) -> Result<()> {
        let expected = self.field.shape();
        let coefficients = self.coefficients.iter().map(|m| ("the coefficient", &**m));
        // Matrices in memory all have the same name, so the message names the role as well.
        let mut all = coefficients.chain(result.map(|m| ("the result", m)));
        match all.find(|(_, m)| m.shape() != expected) {
            None => Ok(()),
            Some((role, matrix)) => Err(Error::Shape {
                name: format!("{role} {}", matrix.name()),
                actual: matrix.shape(),
                field: format!("the field {}", self.field.name()),
                expected,
            }),
        }
    }

    /// Returns the versions of the files; they are the same later if no file was written to.
    pub(crate) fn versions(&self) -> Result<Vec<Option<(u64, i128)>>> {
        Ok(self
            .all()
            .map(|matrix| matrix.chunk().version())
            .collect::<syncline_store::Result<_>>()?)
    }

    /// Checks that the files have not changed since the versions were taken.
    pub(crate) fn check_versions(&self, then: &[Option<(u64, i128)>]) -> Result<()> {
        let now = self.versions()?;
        match self.all().zip(then.iter().zip(&now)).find(|(_, (then, now))| then != now) {
            None => Ok(()),
            Some((matrix, _)) => {
                Err(syncline_store::Error::InputChanged { path: matrix.name().into() }.into())
            }
        }
    }

    pub(crate) fn hold(&self) -> Result<Vec<Held>> {
        self.all().map(|matrix| Held::of(matrix)).collect()
    }

    pub(crate) fn sources<'h>(&self, held: &'h [Held]) -> Vec<Source<'h, E>> {
        self.all().zip(held).map(|(matrix, held)| held.source(matrix)).collect()
    }

    /// Returns whether the kernel has a point to update.
    pub(crate) fn has_points(&self, kernel: &dyn Kernel<E>) -> bool {
        kernel.stencil().updated(self.field.shape()).elements() > 0
    }
}

/// Returns whether a sweep runs streamed, by its settings and the layouts of its matrices.
pub(crate) fn streamable<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    result: Option<&Matrix<E>>,
) -> bool {
    let row_major =
        arrays.all().map(|m| &**m).chain(result).all(|m| m.layout() == Layout::RowMajor);
    match settings.executor {
        Executor::Streamed => true,
        Executor::Blocked => false,
        Executor::Auto => row_major && settings.order == Order::Wave && !settings.asks_for_blocks(),
    }
}

/// Returns the plan of a streamed sweep into a matrix.
pub(crate) fn plan_into<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    result: &Matrix<E>,
) -> Result<StreamPlan> {
    let on_file = matches!(Held::of(result)?, Held::File(..));
    plan_for(settings, kernel, arrays, &arrays.hold()?, on_file, settings.iterations)
}

/// Returns the plan of a streamed sweep of `iterations` iterations.
pub(crate) fn plan_for<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    held: &[Held],
    result_on_file: bool,
    iterations: u64,
) -> Result<StreamPlan> {
    let question = question_for(settings, kernel, arrays, held, result_on_file, iterations)?;
    let plan = question.answer()?;
    facts::streamed(settings, kernel.name(), arrays, &plan, question.disk);
    Ok(plan)
}

/// Returns what decides the plan of a streamed sweep.
pub(crate) fn question_for<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    held: &[Held],
    result_on_file: bool,
    iterations: u64,
) -> Result<Question> {
    if settings.order != Order::Wave {
        let why = "chained iterations preserve only the order wave; run the sweep in blocks";
        return Err(Error::NotStreamed { name: "the sweep".to_owned(), why: why.to_owned() });
    }
    let file = held.iter().find_map(|h| match h {
        Held::File(file, start) => Some((file, *start)),
        Held::Memory => None,
    });
    // From the second pass on, the field is read from the result.
    let field = matches!(held.first(), Some(Held::File(..))) || (result_on_file && iterations > 1);
    let others = held.iter().skip(1).filter(|h| matches!(h, Held::File(..)));
    let on_file = usize::from(field) + others.count();
    Ok(Question {
        shape: arrays.field.shape(),
        value: E::BYTES,
        arrays: 1 + kernel.coefficients(),
        on_file,
        result_on_file,
        lanes: settings.lanes,
        stencil: kernel.stencil(),
        iterations,
        converges: settings.tolerance.is_some(),
        depth: settings.depth,
        threads: settings.processors() as usize,
        memory: settings.memory,
        cache: cache_bytes(),
        disk: file.and_then(|(file, start)| rate_of(file, start, settings.memory).ok()),
    })
}

/// Returns the bytes per second of the disk, measured by a short read, in at most half of the
/// memory.
pub(crate) fn rate_of(file: &DirectFile, start: u64, memory: u64) -> Result<f64> {
    let len = file.len()?.saturating_sub(start).min(memory / 2).min(PROBE) as usize;
    let range = StridedRun { start: start as usize, len, pitch: len, count: 1 };
    Ok(syncline_store::probe::read(file, range)?.rate())
}

/// The progress of a sweep so far.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) iterations: u64,
    /// The residuals of the last iterations; of all iterations, if all are known.
    pub(crate) residuals: Vec<f64>,
    converged: Option<u64>,
    pub(crate) passes: u64,
}

impl Done {
    /// Records a pass. Returns the number of its iterations after which it should have stopped, if
    /// that is fewer.
    pub(crate) fn take(
        &mut self,
        settings: &Settings,
        levels: u64,
        residuals: Vec<f64>,
    ) -> Option<u64> {
        let before = self.iterations;
        if self.converged.is_none() {
            let (iterations, residuals) = (before + levels, residuals.clone());
            let pass = Made { iterations, residuals, ..Made::default() };
            self.converged = pass.converged_to(settings.tolerance);
        }
        if residuals.is_empty() {
            // The known residuals must be those of the last iterations, and this pass has computed
            // none.
            self.residuals.clear();
        }
        self.passes += 1;
        self.iterations += levels;
        self.residuals.extend(residuals);
        let enough = self.converged? + 1 - before;
        (settings.exact_stop && enough < levels).then_some(enough)
    }

    /// Returns the progress of an earlier run.
    pub(crate) fn from(progress: &Progress, settings: &Settings) -> Self {
        Self::after(Asked::of(settings).judge(made(progress, settings.tolerance)))
    }

    /// Returns the progress that a result represents.
    pub(crate) fn after(made: Made) -> Self {
        let Made { iterations, residuals, converged, .. } = made;
        Done { iterations, residuals, converged, passes: 0 }
    }

    pub(crate) fn is_complete(&self, settings: &Settings) -> bool {
        self.iterations >= settings.iterations || self.converged.is_some()
    }

    /// Records that the pass was run once more, for `enough` instead of `levels` iterations.
    pub(crate) fn take_back(&mut self, levels: u64, enough: u64) {
        self.iterations -= levels - enough;
        self.residuals.truncate(self.residuals.len().saturating_sub((levels - enough) as usize));
        self.passes += 1;
    }

    pub(crate) fn report(
        self,
        plan: StreamPlan,
        threads: u64,
        spent: &Spent,
        time: Duration,
    ) -> SweepReport {
        let ns = |n: &std::sync::atomic::AtomicU64| Duration::from_nanos(n.load(Relaxed));
        let busy = ns(&spent.pack_ns) + ns(&spent.update_ns);
        SweepReport {
            iterations: self.iterations,
            residuals: self.residuals,
            converged: self.converged,
            bytes_read: spent.read.load(Relaxed),
            bytes_written: spent.written.load(Relaxed),
            processors: threads,
            workers: threads,
            passes: self.passes,
            resumed: 0,
            bytes_exchanged: spent.exchanged.load(Relaxed),
            times: Some(Times {
                read: ns(&spent.read_ns),
                write: ns(&spent.write_ns),
                check: ns(&spent.check_ns),
                pack: ns(&spent.pack_ns),
                update: ns(&spent.update_ns),
                wait: (time * threads as u32).saturating_sub(busy),
            }),
            plan: SweepPlan::Streamed(plan),
        }
    }
}

/// Returns the report of a sweep without points to update, or without iterations: a copy.
pub(crate) fn copied(settings: &Settings, plan: StreamPlan) -> SweepReport {
    // Without points to update, no iteration changes anything.
    let norms = settings.tolerance.map_or(0, |_| settings.iterations.min(1));
    let done = Done {
        iterations: if norms > 0 { 1 } else { settings.iterations },
        residuals: vec![0.0; norms as usize],
        converged: (norms > 0).then_some(0),
        passes: 0,
    };
    done.report(plan, 1, &Spent::default(), Duration::ZERO)
}

/// Runs a sweep into a matrix.
pub(crate) fn into_matrix<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    mut result: Matrix<E>,
) -> Result<(Matrix<E>, SweepReport)> {
    let begun = Instant::now();
    let held = arrays.hold()?;
    let target = Held::of(&result)?;
    let on_file = matches!(target, Held::File(..));
    let plan = plan_for(settings, kernel, arrays, &held, on_file, settings.iterations)?;
    if settings.iterations == 0 || !arrays.has_points(kernel) {
        convert(arrays.field, &mut result, settings.memory.clamp(64 << 10, 64 << 20))?;
        return Ok((result, copied(settings, plan)));
    }
    if settings.exact_stop && settings.tolerance.is_some() && on_file && plan.passes > 1 {
        return Err(Error::ExactStop);
    }
    let shape = result.shape();
    let place = result.as_mut_slice().map_or(std::ptr::null_mut(), <[E]>::as_mut_ptr);
    let place = all_rows(place, shape.rows, shape.cols);
    let mut sources = arrays.sources(&held);
    let settings_of = (settings.processors() as usize, settings.tolerance.is_some());
    let mut stream = Stream::new(kernel, plan, shape, settings_of, &settings.monitor, &sources)?;
    settings.monitor.begin(stream.tasks(settings.iterations));
    settings.monitor.passes_are(plan.passes, 0, settings.iterations);
    let mut done = Done::default();
    // The values before the current pass, if they may be needed again.
    let mut before: Option<Vec<E>> = None;
    while !done.is_complete(settings) {
        let levels = plan.depth.min(settings.iterations - done.iterations);
        stream.before = done.iterations;
        if done.passes > 0 && settings.exact_stop && settings.tolerance.is_some() {
            before = result.as_slice().map(<[E]>::to_vec);
        }
        let sink = |result: &Matrix<E>| match Held::of(result)? {
            Held::Memory => Ok::<_, Error>(Sink::Memory(place)),
            Held::File(file, start) => {
                Ok(Sink::File(Box::new(FileSink::new(DirectWriter::new(file, start)?, None))))
            }
        };
        let Passed { norms: residuals, written, .. } =
            stream.pass(levels, &sources, sink(&result)?, None, &[])?;
        finish(written)?;
        if let Some(enough) = done.take(settings, levels, residuals) {
            if let Some(values) = &before {
                sources[0] =
                    Source::Memory(all_rows(values.as_ptr().cast_mut(), shape.rows, shape.cols));
            }
            finish(stream.pass(enough, &sources, sink(&result)?, None, &[])?.written)?;
            done.take_back(levels, enough);
        }
        settings.monitor.pass_is_over(None);
        sources[0] = match &target {
            Held::Memory => Source::Memory(place),
            Held::File(file, start) => Source::File(file, *start),
        };
    }
    let report = done.report(plan, settings.processors(), &stream.spent, begun.elapsed());
    drop((stream, sources));
    Ok((result, report))
}

/// Writes the last partial block of a file. Returns the checksums, if they were requested.
pub(crate) fn finish(written: Option<FileSink>) -> Result<Option<Vec<u64>>> {
    let Some(FileSink { writer, sums, .. }) = written else {
        return Ok(None);
    };
    writer.finish()?;
    Ok(sums.map(Sums::into_done))
}
