//! A whole streamed sweep: pass after pass, until the iterations are done or it has converged.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use syncline_store::{
    DirectFile, DirectWriter, Generations, Identity, InputId, Layout, Made, Matrix, NewFile, Progress,
    Strided, convert,
};

use super::data::{FileSink, Held, Sink, Source, all_rows};
use super::destination::{Destination, Panels, Start, leftovers};
use super::pass::{Expected, Spent, Stream};
use super::plan::{Question, StreamPlan, cache_bytes};
use super::sums::Sums;
use super::target::{Kind, Pending, Target};
use crate::kernel::Update;
use crate::lanes::Real;
use crate::sweep::{Executor, Order, Plan, Report, Settings, Times};
use crate::{Error, Result};

/// Bytes that are read to see how fast the disk is.
const PROBE: u64 = 16 << 20;

/// The arrays of a sweep.
pub(crate) struct Arrays<'a, E: Real> {
    pub(crate) field: &'a Arc<Matrix<E>>,
    pub(crate) coefficients: &'a [Arc<Matrix<E>>],
}

impl<E: Real> Arrays<'_, E> {
    fn all(&self) -> impl Iterator<Item = &Arc<Matrix<E>>> {
        std::iter::once(self.field).chain(self.coefficients)
    }

    /// All must have the shape of the field.
    pub(crate) fn check_shapes(&self, result: Option<&Matrix<E>>) -> Result<()> {
        let expected = self.field.shape();
        let coefficients = self.coefficients.iter().map(|m| ("the coefficient", &**m));
        // Matrices in memory all have one name.
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

    /// What the files are now: the same later, if nobody has written to them.
    pub(crate) fn versions(&self) -> Result<Vec<Option<(u64, i128)>>> {
        Ok(self.all().map(|matrix| matrix.chunk().version()).collect::<syncline_store::Result<_>>()?)
    }

    /// Whether the files are what they were.
    pub(crate) fn check_versions(&self, then: &[Option<(u64, i128)>]) -> Result<()> {
        let now = self.versions()?;
        match self.all().zip(then.iter().zip(&now)).find(|(_, (then, now))| then != now) {
            None => Ok(()),
            Some((matrix, _)) => {
                Err(syncline_store::Error::InputChanged { path: matrix.name().into() }.into())
            }
        }
    }

    fn hold(&self) -> Result<Vec<Held>> {
        self.all().map(|matrix| Held::of(matrix)).collect()
    }

    fn sources<'h>(&self, held: &'h [Held]) -> Vec<Source<'h, E>> {
        self.all().zip(held).map(|(matrix, held)| held.source(matrix)).collect()
    }

    /// Whether a kernel has a point to update.
    fn has_points<U: Update>(&self, kernel: &U) -> bool {
        kernel.stencil().updated(self.field.shape()).elements() > 0
    }
}

/// Whether a sweep is streamed if nobody says how it is to be run.
pub(crate) fn streamable<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    result: Option<&Matrix<E>>,
) -> bool {
    let row_major = arrays.all().map(|m| &**m).chain(result).all(|m| m.layout() == Layout::RowMajor);
    match settings.executor {
        Executor::Streamed => true,
        Executor::Blocked => false,
        Executor::Auto => row_major && settings.order == Order::Wave && !settings.asks_for_blocks(),
    }
}

/// What a streamed sweep into a matrix will do.
pub(crate) fn plan_into<E: Real, U: Update>(
    settings: &Settings,
    kernel: &U,
    arrays: &Arrays<'_, E>,
    result: &Matrix<E>,
) -> Result<StreamPlan> {
    let on_file = matches!(Held::of(result)?, Held::File(..));
    plan_for(settings, kernel, arrays, &arrays.hold()?, on_file, settings.iterations)
}

/// What a streamed sweep of so many iterations will do.
fn plan_for<E: Real, U: Update>(
    settings: &Settings,
    kernel: &U,
    arrays: &Arrays<'_, E>,
    held: &[Held],
    result_on_file: bool,
    iterations: u64,
) -> Result<StreamPlan> {
    if settings.order != Order::Wave {
        let why = "only the order wave is kept by chained iterations".to_owned();
        return Err(Error::NotStreamed { name: "the sweep".to_owned(), why });
    }
    let file = held.iter().find_map(|h| match h {
        Held::File(file, start) => Some((file, *start)),
        Held::Memory => None,
    });
    // From the second pass on the field is where the result is.
    let field = matches!(held.first(), Some(Held::File(..))) || (result_on_file && iterations > 1);
    let others = held.iter().skip(1).filter(|h| matches!(h, Held::File(..)));
    let on_file = usize::from(field) + others.count();
    Question {
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
        disk: file.and_then(|(file, start)| probe(file, start, settings.memory).ok()),
    }
    .answer()
}

/// Bytes per second of the disk, by reading a little, in half of the memory at most.
fn probe(file: &DirectFile, start: u64, memory: u64) -> Result<f64> {
    let len = file.len()?.saturating_sub(start).min(memory / 2).min(PROBE) as usize;
    let range = Strided { start: start as usize, len, pitch: len, count: 1 };
    Ok(syncline_store::probe::read(file, range)?.rate())
}

/// The first iteration, from 0, with a residual that is small enough.
fn converged(residuals: &[f64], tolerance: Option<f64>) -> Option<u64> {
    let at = residuals.iter().position(|&residual| Some(residual) <= tolerance)?;
    Some(at as u64)
}

/// What has been done so far.
#[derive(Default)]
struct Done {
    iterations: u64,
    residuals: Vec<f64>,
    converged: Option<u64>,
    passes: u64,
}

impl Done {
    /// Takes a pass. Returns after how many of its iterations it should have stopped, if that is fewer.
    fn take(&mut self, settings: &Settings, levels: u64, residuals: Vec<f64>) -> Option<u64> {
        let before = self.iterations;
        if self.converged.is_none() {
            self.converged = converged(&residuals, settings.tolerance).map(|at| before + at);
        }
        self.passes += 1;
        self.iterations += levels;
        self.residuals.extend(residuals);
        let enough = self.converged? + 1 - before;
        (settings.exact_stop && enough < levels).then_some(enough)
    }

    /// What an earlier run has done.
    fn from(progress: Progress, settings: &Settings) -> Self {
        let Progress { iterations, residuals, .. } = progress;
        Done { iterations, converged: converged(&residuals, settings.tolerance), residuals, passes: 0 }
    }

    fn is_complete(&self, settings: &Settings) -> bool {
        self.iterations >= settings.iterations || self.converged.is_some()
    }

    /// The same pass is run once more, for fewer iterations.
    fn take_back(&mut self, levels: u64, enough: u64) {
        self.iterations -= levels - enough;
        self.residuals.truncate(self.iterations as usize);
        self.passes += 1;
    }

    fn report(self, plan: StreamPlan, threads: u64, spent: &Spent, time: Duration) -> Report {
        let ns = |n: &std::sync::atomic::AtomicU64| Duration::from_nanos(n.load(Relaxed));
        let busy = ns(&spent.pack_ns) + ns(&spent.update_ns);
        Report {
            iterations: self.iterations,
            residuals: self.residuals,
            converged: self.converged,
            bytes_read: spent.read.load(Relaxed),
            bytes_written: spent.written.load(Relaxed),
            processors: threads,
            workers: threads,
            passes: self.passes,
            resumed: 0,
            times: Some(Times {
                read: ns(&spent.read_ns),
                write: ns(&spent.write_ns),
                check: ns(&spent.check_ns),
                pack: ns(&spent.pack_ns),
                update: ns(&spent.update_ns),
                wait: (time * threads as u32).saturating_sub(busy),
            }),
            plan: Plan::Streamed(plan),
        }
    }
}

/// A sweep without points to update, or of no iteration: a copy.
fn copied(settings: &Settings, plan: StreamPlan) -> Report {
    // Every iteration changes nothing.
    let norms = settings.tolerance.map_or(0, |_| settings.iterations.min(1));
    let done = Done {
        iterations: if norms > 0 { 1 } else { settings.iterations },
        residuals: vec![0.0; norms as usize],
        converged: (norms > 0).then_some(0),
        passes: 0,
    };
    done.report(plan, 1, &Spent::default(), Duration::ZERO)
}

/// Runs into a matrix.
pub(crate) fn into_matrix<E: Real, U: Update>(
    settings: &Settings,
    kernel: &U,
    arrays: &Arrays<'_, E>,
    mut result: Matrix<E>,
) -> Result<(Matrix<E>, Report)> {
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
    let mut done = Done::default();
    // The values before the present pass, if they may be needed again.
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
        let (residuals, written) = stream.pass(levels, &sources, sink(&result)?, None)?;
        finish(written)?;
        if let Some(enough) = done.take(settings, levels, residuals) {
            if let Some(values) = &before {
                sources[0] = Source::Memory(all_rows(values.as_ptr().cast_mut(), shape.rows, shape.cols));
            }
            let (_, written) = stream.pass(enough, &sources, sink(&result)?, None)?;
            finish(written)?;
            done.take_back(levels, enough);
        }
        sources[0] = match &target {
            Held::Memory => Source::Memory(place),
            Held::File(file, start) => Source::File(file, *start),
        };
    }
    let report = done.report(plan, settings.processors(), &stream.spent, begun.elapsed());
    drop((stream, sources));
    Ok((result, report))
}

/// Brings the rest of a file's last block out. Returns the sums, if they were wanted.
fn finish(written: Option<FileSink>) -> Result<Option<Vec<u64>>> {
    let Some(FileSink { writer, sums, .. }) = written else {
        return Ok(None);
    };
    writer.finish()?;
    Ok(sums.map(Sums::into_done))
}

/// Runs into a file that is whole or not there, and can go on after a crash.
pub(crate) fn into_target<E: Real, U: Update>(
    settings: &Settings,
    kernel: &U,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<(Pending, Report)> {
    let begun = Instant::now();
    let shape = arrays.field.shape();
    let held = arrays.hold()?;
    let identity = identity(settings, arrays, target)?;
    let pending = |kind, report: &Report| {
        let (residual, converged) = (report.residuals.last().copied(), report.converged);
        let made = Made { iterations: report.iterations, residual, converged };
        Pending { kind, npy: target.npy, shape, identity: identity.clone(), made }
    };
    let complete = |done: Done| {
        let plan = plan_for(settings, kernel, arrays, &held, true, settings.iterations)?;
        let resumed = done.iterations;
        let report = done.report(plan, settings.processors(), &Spent::default(), Duration::ZERO);
        let pending = pending(Kind::Complete(target.path.clone()), &report);
        Ok((pending, Report { resumed, ..report }))
    };
    let header = Matrix::<E>::header(target.npy, shape);
    let panels = Panels { start: header.len() as u64, row_bytes: shape.cols * E::BYTES, rows: shape.rows };
    let mut done = Done::default();
    let underway = match leftovers(target, &identity)? {
        Start::Anew => None,
        Start::Complete(Made { iterations, residual, converged }) => {
            let residuals = Vec::from_iter(residual);
            return complete(Done { iterations, residuals, converged, passes: 0 });
        }
        Start::Named(progress) if panels.are_of(&target.path, &progress)? => {
            return complete(Done::from(progress, settings));
        }
        // Somebody else has put a file there since.
        Start::Named(_) => None,
        Start::From(generations) => {
            let progress = generations.progress().cloned().unwrap_or_default();
            done = Done::from(progress, settings);
            Some(generations)
        }
    };
    let resumed = done.iterations;
    let plan = plan_for(settings, kernel, arrays, &held, true, settings.iterations - resumed)?;
    let bytes = Matrix::<E>::file_bytes(target.npy, shape, Layout::RowMajor)?;
    if settings.iterations == 0 || !arrays.has_points(kernel) {
        let new = NewFile::create(&target.path, bytes)?;
        let mut result = Matrix::create(&new, target.npy, shape, Layout::RowMajor)?;
        convert(arrays.field, &mut result, settings.memory.clamp(64 << 10, 64 << 20))?;
        identity.check_inputs()?;
        let report = copied(settings, plan);
        return Ok((pending(Kind::New(new), &report), report));
    }
    let mut destination = match underway {
        Some(generations) => Destination::Generations(generations),
        None if plan.passes > 1 => {
            Destination::Generations(Generations::create(&target.path, &identity, &header, bytes)?)
        }
        None => {
            let file = NewFile::create(&target.path, bytes)?;
            Matrix::<E>::create(&file, target.npy, shape, Layout::RowMajor)?;
            Destination::New(file)
        }
    };
    let mut previous = destination.last()?;
    if let (true, Some(last)) = (done.is_complete(settings), &previous) {
        // No pass will read it, so nobody else would notice.
        destination.check_all(last, &panels)?;
    }
    let settings_of = (settings.processors() as usize, settings.tolerance.is_some());
    let mut stream =
        Stream::new(kernel, plan, shape, settings_of, &settings.monitor, &arrays.sources(&held))?;
    settings.monitor.begin(stream.tasks(settings.iterations - resumed));
    while !done.is_complete(settings) {
        let levels = plan.depth.min(settings.iterations - done.iterations);
        stream.before = done.iterations;
        let mut pass = |levels| {
            let writer = DirectWriter::new(destination.next(&target.path)?, panels.start)?;
            let sums = destination.is_checked().then(|| Sums::new(panels.unit(), shape.rows));
            let sink = Sink::File(Box::new(FileSink::new(writer, sums)));
            let check = |panel: usize, sum: u64| destination.check(panel, sum);
            let (mut sources, mut expected) = (arrays.sources(&held), None);
            if let Some((file, unit)) = &previous {
                sources[0] = Source::File(file, panels.start);
                expected = Some(Expected { unit: *unit, check: &check });
            }
            let (residuals, written) = stream.pass(levels, &sources, sink, expected)?;
            Ok::<_, Error>((residuals, finish(written)?))
        };
        let (residuals, mut sums) = pass(levels)?;
        if let Some(enough) = done.take(settings, levels, residuals) {
            (_, sums) = pass(enough)?;
            done.take_back(levels, enough);
        }
        identity.check_inputs()?;
        let progress = Progress {
            iterations: done.iterations,
            panel_rows: panels.unit() as u64,
            checksums: sums.unwrap_or_default(),
            residuals: done.residuals.clone(),
            ..Progress::default()
        };
        previous = destination.commit(progress)?;
    }
    let report = done.report(plan, settings.processors(), &stream.spent, begun.elapsed());
    Ok((pending(destination.into(), &report), Report { resumed, ..report }))
}

fn identity<E: Real>(settings: &Settings, arrays: &Arrays<'_, E>, target: &Target) -> Result<Identity> {
    let shape = arrays.field.shape();
    let mut what = target.what.clone();
    let mut add = |name: &str, value: String| what.insert(name.to_owned(), value);
    add("element", E::NAME.to_owned());
    add("rows", shape.rows.to_string());
    add("cols", shape.cols.to_string());
    add("iterations", settings.iterations.to_string());
    add("tolerance", settings.tolerance.map_or("none".to_owned(), |t| t.to_string()));
    add("exact stop", settings.exact_stop.to_string());
    for (n, sum) in arrays.all().enumerate().filter_map(|(n, matrix)| Some((n, matrix.values_checksum()?))) {
        add(&format!("array {n} in memory"), format!("{sum:016x}"));
    }
    let mut inputs = Vec::new();
    for matrix in arrays.all() {
        let Some(path) = matrix.row_major_file().map(|file| file.path) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let input = InputId::of(&name, &path)?;
        // Since it was opened another may have taken its place.
        if matrix.chunk().version()? != Some((input.bytes, input.modified_ns)) {
            return Err(syncline_store::Error::InputChanged { path }.into());
        }
        inputs.push(input);
    }
    Ok(Identity { what, inputs })
}
