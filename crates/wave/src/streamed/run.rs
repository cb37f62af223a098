//! A whole streamed sweep: pass after pass, until the iterations are done or it has converged.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use syncline_store::{
    DirectFile, DirectWriter, Generations, Identity, InputId, IoBuffer, IoQueue, Layout, Leftover, Matrix,
    Method, NewFile, Progress, Read, Resumed, convert,
};

use super::data::{FileSink, Held, Sink, Source, all_rows};
use super::pass::{Expected, Spent, Stream};
use super::plan::{Question, StreamPlan, cache_bytes};
use super::sums::Sums;
use super::target::{Kind, Leftovers, Pending, Target};
use crate::kernel::Update;
use crate::lanes::Real;
use crate::sweep::{Executor, Order, Plan, Report, Settings, Times};
use crate::{Error, Result};

/// Bytes of a unit of checksums.
const UNIT: usize = 4 << 20;
/// Bytes of a piece that is only checked.
const CHECKED: usize = 1 << 20;
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
        match self.coefficients.iter().map(|m| &**m).chain(result).find(|m| m.shape() != expected) {
            None => Ok(()),
            Some(matrix) => Err(Error::Shape {
                name: matrix.name().to_owned(),
                actual: matrix.shape(),
                field: self.field.name().to_owned(),
                expected,
            }),
        }
    }

    fn hold(&self) -> Result<Vec<Held>> {
        self.all().map(|matrix| Held::of(matrix)).collect()
    }

    fn sources<'h>(&self, held: &'h [Held]) -> Vec<Source<'h, E>> {
        self.all().zip(held).map(|(matrix, held)| held.source(matrix)).collect()
    }

    /// Nothing is ever updated in a matrix without interior.
    fn has_interior(&self) -> bool {
        self.field.shape().rows > 2 && self.field.shape().cols > 2
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
    Question {
        shape: arrays.field.shape(),
        value: E::BYTES,
        arrays: 1 + kernel.coefficients(),
        on_file: held.iter().filter(|h| matches!(h, Held::File(..))).count(),
        result_on_file,
        lanes: settings.lanes,
        corners: U::CORNERS,
        iterations,
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
    let mut buffer = IoBuffer::new(file.room(start, len))?;
    let begun = Instant::now();
    IoQueue::new(Method::Auto).read(&mut [Read { file, offset: start, len, into: buffer.as_mut_slice() }])?;
    Ok(len as f64 / begun.elapsed().as_secs_f64())
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
        if let (Some(tolerance), None) = (settings.tolerance, self.converged) {
            let at = residuals.iter().position(|&residual| residual <= tolerance);
            self.converged = at.map(|at| before + at as u64);
        }
        self.passes += 1;
        self.iterations += levels;
        self.residuals.extend(residuals);
        let enough = self.converged? + 1 - before;
        (settings.exact_stop && enough < levels).then_some(enough)
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

/// A sweep without interior points, or of no iteration: a copy.
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
    if settings.iterations == 0 || !arrays.has_interior() {
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
    settings.monitor.begin(plan.passes.saturating_mul(stream.tasks(plan.depth)));
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
                Ok(Sink::File(Box::new(FileSink { writer: DirectWriter::new(file, start)?, sums: None })))
            }
        };
        let (residuals, sunk) = stream.pass(levels, &sources, sink(&result)?, None)?;
        finish(sunk)?;
        if let Some(enough) = done.take(settings, levels, residuals) {
            if let Some(values) = &before {
                sources[0] = Source::Memory(all_rows(values.as_ptr().cast_mut(), shape.rows, shape.cols));
            }
            let (_, sunk) = stream.pass(enough, &sources, sink(&result)?, None)?;
            finish(sunk)?;
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

/// Brings the rest of a file's last block out.
fn finish<E>(sink: Sink<E>) -> Result<Option<Vec<u64>>> {
    match sink {
        Sink::Memory(_) => Ok(None),
        Sink::File(file) => {
            file.writer.finish()?;
            Ok(file.sums.map(Sums::into_done))
        }
    }
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
    let pending = |kind| Pending { kind, npy: target.npy, shape };
    let resumed = leftovers(target, &identity)?;
    let mut done = Done::default();
    let (mut generations, resumed_from) = match resumed {
        Start::Anew => (None, 0),
        Start::Complete => {
            let plan = plan_for(settings, kernel, arrays, &held, true, settings.iterations)?;
            let report =
                Done::default().report(plan, settings.processors(), &Spent::default(), Duration::ZERO);
            return Ok((pending(Kind::Complete(target.path.clone())), Report { passes: 0, ..report }));
        }
        Start::From(generations) => {
            let progress = generations.progress().cloned().unwrap_or_default();
            done.iterations = progress.iterations;
            done.residuals = progress.residuals;
            if let Some(tolerance) = settings.tolerance {
                let at = done.residuals.iter().position(|&residual| residual <= tolerance);
                done.converged = at.map(|at| at as u64);
            }
            (Some(generations), progress.iterations)
        }
    };
    let left = settings.iterations - done.iterations;
    let plan = plan_for(settings, kernel, arrays, &held, true, left)?;
    let bytes = Matrix::<E>::file_bytes(target.npy, shape, Layout::RowMajor)?;
    let header = Matrix::<E>::header(target.npy, shape);
    let start = header.len() as u64;
    if settings.iterations == 0 || !arrays.has_interior() {
        let new = NewFile::create(&target.path, bytes)?;
        let mut result = Matrix::create(&new, target.npy, shape, Layout::RowMajor)?;
        convert(arrays.field, &mut result, settings.memory.clamp(64 << 10, 64 << 20))?;
        return Ok((pending(Kind::New(new)), copied(settings, plan)));
    }
    let mut previous: Option<(DirectFile, Progress)> = match &mut generations {
        Some(generations) if generations.committed() > 0 => Some(reopen(generations)?),
        _ => None,
    };
    if let (true, Some((file, progress)), Some(generations)) =
        (done.is_complete(settings), &previous, &generations)
    {
        // No pass will read it, so nobody else would notice.
        check_all(file, start, ((bytes - start) as usize / shape.rows, shape.rows), progress, generations)?;
    }
    let settings_of = (settings.processors() as usize, settings.tolerance.is_some());
    let mut stream =
        Stream::new(kernel, plan, shape, settings_of, &settings.monitor, &arrays.sources(&held))?;
    settings.monitor.begin(plan.passes.saturating_mul(stream.tasks(plan.depth)));
    let mut new = None;
    if generations.is_none() && plan.passes == 1 {
        let file = NewFile::create(&target.path, bytes)?;
        Matrix::<E>::create(&file, target.npy, shape, Layout::RowMajor)?;
        new = Some(file);
    } else if generations.is_none() {
        generations = Some(Generations::create(&target.path, &identity, &header, bytes)?);
    }
    let unit = (UNIT / (shape.cols * E::BYTES)).max(1);
    while !done.is_complete(settings) {
        let levels = plan.depth.min(settings.iterations - done.iterations);
        stream.before = done.iterations;
        let generation = generations.as_ref().map_or(1, |g| g.committed() + 1);
        let mut sums = None;
        let mut replay = Some(levels);
        while let Some(levels_now) = replay.take() {
            let file = match (&new, &mut generations) {
                (Some(new), _) => DirectFile::of(new.file(), &target.path, true)?,
                (None, Some(generations)) => {
                    let path = generations.path(generation);
                    DirectFile::of(&generations.file(generation)?, &path, true)?
                }
                (None, None) => return Err(Error::Cancelled { iteration: done.iterations }),
            };
            let wanted = generations.is_some().then(|| Sums::new(unit, shape.rows));
            let sink =
                Sink::File(Box::new(FileSink { writer: DirectWriter::new(file, start)?, sums: wanted }));
            let check = |panel: usize, sum: u64| match &generations {
                Some(generations) => Ok(generations.check_panel(panel, sum)?),
                None => Ok(()),
            };
            let (mut sources, mut expected) = (arrays.sources(&held), None);
            if let Some((file, progress)) = &previous {
                sources[0] = Source::File(file, start);
                expected = Some(Expected { unit: progress.panel_rows as usize, check: &check });
            }
            let (residuals, sunk) = stream.pass(levels_now, &sources, sink, expected)?;
            sums = finish(sunk)?;
            if levels_now == levels {
                replay = done.take(settings, levels, residuals);
            } else {
                done.take_back(levels, levels_now);
            }
        }
        if let Some(generations) = &mut generations {
            let progress = Progress {
                generation,
                iterations: done.iterations,
                panel_rows: unit as u64,
                checksums: sums.unwrap_or_default(),
                residuals: done.residuals.clone(),
                ..Progress::default()
            };
            generations.commit(&progress)?;
            previous = Some(reopen(generations)?);
        }
    }
    let report = done.report(plan, settings.processors(), &stream.spent, begun.elapsed());
    let kind = match (new, generations) {
        (Some(new), _) => Kind::New(new),
        (None, Some(generations)) => Kind::Generations(generations),
        (None, None) => Kind::Complete(target.path.clone()),
    };
    Ok((pending(kind), Report { resumed: resumed_from, ..report }))
}

/// The last generation, for reading.
fn reopen(generations: &mut Generations) -> Result<(DirectFile, Progress)> {
    let generation = generations.committed();
    let path = generations.path(generation);
    let file = DirectFile::of(&generations.file(generation)?, &path, false)?;
    Ok((file, generations.progress().cloned().unwrap_or_default()))
}

/// Compares all of the last generation, of so many rows of so many bytes, with the checksums of its pass.
fn check_all(
    file: &DirectFile,
    start: u64,
    (row_bytes, rows): (usize, usize),
    progress: &Progress,
    generations: &Generations,
) -> Result<()> {
    let piece = (CHECKED / row_bytes).clamp(1, rows);
    let mut queue = IoQueue::new(Method::Auto);
    let mut buffer = IoBuffer::new(piece * row_bytes + 2 * file.alignment())?;
    let mut sums = Sums::new(progress.panel_rows.max(1) as usize, rows);
    for row in (0..rows).step_by(piece) {
        let here = row..(row + piece).min(rows);
        let (offset, len) = (start + (row * row_bytes) as u64, here.len() * row_bytes);
        queue.read(&mut [Read { file, offset, len, into: buffer.as_mut_slice() }])?;
        let bytes = &buffer.as_slice()[file.lead(offset)..][..len];
        sums.feed(here, bytes, |panel, sum| Ok(generations.check_panel(panel, sum)?))?;
    }
    Ok(())
}

/// Where a run begins.
#[expect(clippy::large_enum_variant, reason = "there is one, and it is moved once")]
enum Start {
    Anew,
    From(Generations),
    Complete,
}

fn leftovers(target: &Target, identity: &Identity) -> Result<Start> {
    let path = &target.path;
    let refused = |found: String| Err(Error::Leftovers { path: path.clone(), found });
    match (target.leftovers, Generations::leftover(path)?) {
        (_, Leftover::Busy) => Err(Error::Store(syncline_store::Error::Busy { path: path.clone() })),
        (Leftovers::Discard, _) => {
            Generations::discard(path)?;
            Ok(Start::Anew)
        }
        (Leftovers::Refuse, Leftover::Nothing) => Ok(Start::Anew),
        (Leftovers::Resume, Leftover::Nothing) => {
            Ok(if path.exists() { Start::Complete } else { Start::Anew })
        }
        (Leftovers::Resume, Leftover::Empty) => {
            Generations::discard(path)?;
            Ok(Start::Anew)
        }
        (Leftovers::Resume, _) => match Generations::resume(path, identity)? {
            Resumed::Underway(generations) => Ok(Start::From(generations)),
            Resumed::Complete(_) => Ok(Start::Complete),
            Resumed::Nothing => Ok(Start::Anew),
        },
        (Leftovers::Refuse, Leftover::Empty) => refused("a run that ended in its first pass".to_owned()),
        (Leftovers::Refuse, Leftover::Resumable(progress)) => {
            refused(format!("a run that ended after {} iterations", progress.iterations))
        }
        (Leftovers::Refuse, Leftover::Complete(_)) => {
            refused("a run that was complete but for its removal".to_owned())
        }
        (Leftovers::Refuse, Leftover::Damaged(why)) => refused(format!("a damaged run ({why})")),
        (Leftovers::Refuse, _) => refused("something unknown".to_owned()),
    }
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
    let files = arrays.all().filter_map(|matrix| matrix.row_major_file());
    let input = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        InputId::of(&name, &path)
    };
    let inputs = files.map(|file| input(file.path)).collect::<syncline_store::Result<_>>()?;
    Ok(Identity { what, inputs })
}
