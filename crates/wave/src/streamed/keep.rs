//! A streamed sweep into a file that is either complete or absent, and that can resume after a
//! crash or from its own result.
//!
//! [`start`](super::start) determines where a run begins, and [`destination`](super::destination)
//! where its passes are written. The first pass also computes the checksum of each input that it
//! reads: by these a later run recognises inputs that were moved or touched. In every later pass an
//! input is recognised by path, length and modification time.

use std::time::{Duration, Instant};

use syncline_store::{
    Layout, Matrix, NewFile, convert,
    direct_io::{DirectFile, DirectWriter},
    generation::{Generations, Identity, InputId, Progress},
};

use super::data::{FileSink, Held, Sink, Source};
use super::destination::{Destination, Panels};
use super::pass::{Expected, Passed, Spent, Stream};
use super::run::{Arrays, Done, copied, finish, plan_for};
use super::sums::Sums;
use crate::dynamic::Kernel;
use crate::lanes::Real;
use crate::run::start::{
    self, Asked, Begin, COLS, ELEMENT, ROWS, Resumption, Standing, Start, Taken,
};
use crate::run::target::{Kind, Leftovers, Pending, Target};
use crate::sweep::{Settings, SweepReport};
use crate::{Error, Result};

/// Runs a sweep into a file that is either complete or absent, and that can resume after a crash.
pub(crate) fn into_target<E: Real>(
    settings: &Settings,
    kernel: &dyn Kernel<E>,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<(Pending, SweepReport)> {
    let begun = Instant::now();
    let (shape, monitor) = (arrays.field.shape(), &settings.monitor);
    let held = arrays.hold()?;
    let on_file: Vec<usize> = arrays.on_file().map(|(array, _)| array).collect();
    let header = Matrix::<E>::header(target.npy, shape);
    let panels = Panels::of::<E>(target, shape);
    let (mut identity, start, standing) = begin(settings, arrays, target, &held)?;
    let replaces = (target.leftovers != Leftovers::Discard).then(|| standing.clone());
    let pending = |kind, identity, report: &SweepReport| {
        let made = report.made(settings.tolerance);
        let (npy, shape, replaces) = (target.npy, Some(shape), replaces.clone());
        Pending { kind, npy, shape, identity, made, sums: Progress::default(), replaces }
    };
    let (done, underway, origin) = match start {
        Start::Anew => (Done::default(), None, None),
        Start::Complete(made) => {
            let (done, resumed) = (Done::after(made.clone()), made.iterations);
            let plan = plan_for(settings, kernel, arrays, &held, true, settings.iterations)?;
            let report =
                done.report(plan, settings.processors(), &Spent::default(), Duration::ZERO);
            let pending = pending(Kind::Complete(target.paths()), identity, &report);
            return Ok((pending, SweepReport { resumed, ..report }));
        }
        Start::After(made) => (Done::after(made), None, Some(DirectFile::open(&target.path)?)),
        Start::From(generations) => {
            let progress = generations.progress().cloned().unwrap_or_default();
            (Done::from(&progress, settings), Some(generations), None)
        }
    };
    let mut done = done;
    let resumed = done.iterations;
    let plan = plan_for(settings, kernel, arrays, &held, true, settings.iterations - resumed)?;
    let bytes = Matrix::<E>::file_bytes(target.npy, shape, Layout::RowMajor)?;
    if settings.iterations == 0 || !arrays.has_points(kernel) {
        let new = NewFile::create(&target.path, bytes)?;
        let mut result = Matrix::create(&new, target.npy, shape, Layout::RowMajor)?;
        convert(arrays.field, &mut result, settings.memory.clamp(64 << 10, 64 << 20))?;
        identity.check_inputs()?;
        let report = copied(settings, plan);
        return Ok((pending(Kind::New(vec![new]), identity, &report), report));
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
        // No pass will read the last generation, so damage would go undetected otherwise.
        destination.check_all(last, &panels)?;
    }
    let settings_of = (settings.processors() as usize, settings.tolerance.is_some());
    let mut stream =
        Stream::new(kernel, plan, shape, settings_of, monitor, &arrays.sources(&held))?;
    monitor.begin(stream.tasks(settings.iterations - resumed));
    // The iterations that survive a killed run: the passes in the folder, or the result from which
    // the run resumes.
    monitor.passes_are(plan.passes, resumed, settings.iterations);
    while !done.is_complete(settings) {
        let levels = plan.depth.min(settings.iterations - done.iterations);
        stream.before = done.iterations;
        let first = done.passes == 0;
        let from_input = previous.is_none() && origin.is_none();
        // The inputs that this pass reads and whose checksums are unknown: their indices in the
        // identity, and among the arrays.
        let unknown: Vec<(usize, usize)> = on_file
            .iter()
            .copied()
            .enumerate()
            .filter(|&(n, array)| {
                first && identity.inputs[n].sum.is_none() && (array > 0 || from_input)
            })
            .collect();
        let mut pass = |levels, summed: &[usize]| {
            let writer = DirectWriter::new(destination.next(&target.path)?, panels.start)?;
            let sums = destination.is_checked().then(|| Sums::new(panels.unit(), shape.rows));
            let sink = Sink::File(Box::new(FileSink::new(writer, sums)));
            let check = |panel: usize, sum: u64| destination.check(panel, sum);
            let (mut sources, mut expected) = (arrays.sources(&held), None);
            if let Some((file, unit)) = &previous {
                sources[0] = Source::File(file, panels.start);
                expected = Some(Expected { unit: *unit, check: &check });
            } else if let Some(file) = &origin {
                sources[0] = Source::File(file, panels.start);
            }
            let Passed { norms, written, sums } =
                stream.pass(levels, &sources, sink, expected, summed)?;
            Ok::<_, Error>((norms, finish(written)?, sums))
        };
        let arrays_of: Vec<usize> = unknown.iter().map(|&(_, array)| array).collect();
        let (residuals, mut sums, of_inputs) = pass(levels, &arrays_of)?;
        for (&(n, _), sum) in unknown.iter().zip(of_inputs) {
            identity.inputs[n].sum = Some(sum);
        }
        if let Some(enough) = done.take(settings, levels, residuals) {
            (_, sums, _) = pass(enough, &[])?;
            done.take_back(levels, enough);
        }
        identity.check_inputs()?;
        if origin.is_some() && previous.is_none() {
            standing.check(&target.paths())?;
        }
        let mut progress = Progress {
            iterations: done.iterations,
            panel_rows: panels.unit() as u64,
            checksums: sums.unwrap_or_default(),
            residuals: done.residuals.clone(),
            ..Progress::default()
        };
        start::note(&mut progress, &standing);
        destination.record_identity(&identity);
        previous = destination.commit(progress)?;
        monitor.pass_is_over(destination.is_checked().then_some(done.iterations));
    }
    let report = done.report(plan, settings.processors(), &stream.spent, begun.elapsed());
    Ok((pending(destination.into(), identity, &report), SweepReport { resumed, ..report }))
}

/// Returns the identity of the computation, the point where the run begins, and the state of the
/// output that the run may replace.
fn begin<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
    held: &[Held],
) -> Result<(Identity, Start, Standing)> {
    let (shape, monitor) = (arrays.field.shape(), &settings.monitor);
    let mut identity = identity(arrays, target)?;
    let on_file: Vec<usize> = arrays.on_file().map(|(array, _)| array).collect();
    let panels = Panels::of::<E>(target, shape);
    let sum = |n: usize| match &held[on_file[n]] {
        Held::Memory => Ok(None),
        Held::File(file, start) => {
            monitor.compares(n + 1, on_file.len());
            let go_on = |bytes| {
                monitor.moved(bytes);
                if monitor.is_cancelled() { Err(Error::Cancelled { iteration: 0 }) } else { Ok(()) }
            };
            Panels { start: *start, ..panels }.sum(file, go_on).map(Some)
        }
    };
    let is_generation = |progress: &Progress| panels.are_of(&target.path, progress);
    let begin = Begin { target, asked: Asked::of(settings) };
    let (start, standing) = begin.start(&mut identity, sum, is_generation)?;
    Ok((identity, start, standing))
}

/// Returns the point where a sweep in blocks begins.
pub(crate) fn resumption<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<Resumption> {
    // Streamed runs only read row-major inputs, so no checksum of another layout is ever needed.
    let hold = |matrix: &Matrix<E>| match matrix.layout() {
        Layout::RowMajor => Held::of(matrix),
        _ => Ok(Held::Memory),
    };
    let held: Vec<Held> = arrays.all().map(|matrix| hold(matrix)).collect::<Result<_>>()?;
    let (identity, start, standing) = begin(settings, arrays, target, &held)?;
    let (made, is_complete) = match start {
        Start::Anew => (None, false),
        Start::After(made) => (Some(made), false),
        Start::Complete(made) => (Some(made), true),
        Start::From(generations) => {
            let done = generations.progress().map_or(0, |progress| progress.iterations);
            let found = format!("a streamed run that ended after {done} iterations");
            return Err(Error::Leftovers { path: target.path.clone(), found });
        }
    };
    Ok(Resumption { identity, made, is_complete, standing: standing.of_output(0).clone() })
}

/// Returns the identity of a computation: two sweeps with the same identity are the same
/// computation. The checksums of its inputs on file are not known yet.
///
/// # Errors
/// Returns an error if an input cannot be examined, or if another file has replaced it since it was
/// opened.
pub(crate) fn identity<E: Real>(arrays: &Arrays<'_, E>, target: &Target) -> Result<Identity> {
    let shape = arrays.field.shape();
    let mut what = target.what.clone();
    let mut add = |name: &str, value: String| what.insert(name.to_owned(), value);
    add(ELEMENT, E::NAME.to_owned());
    add(ROWS, shape.rows.to_string());
    add(COLS, shape.cols.to_string());
    add("format", if target.npy { "npy" } else { "raw" }.to_owned());
    for (n, sum) in
        arrays.all().enumerate().filter_map(|(n, matrix)| Some((n, matrix.values_checksum()?)))
    {
        add(&format!("array {n} in memory"), format!("{sum:016x}"));
    }
    let mut inputs = Vec::new();
    for (_, matrix) in arrays.on_file() {
        inputs.extend(input(matrix)?);
    }
    Ok(Identity { what, inputs })
}

/// Returns the identity of the file of an input, if it has one.
///
/// # Errors
/// Returns an error if the file cannot be examined, or has changed since it was opened.
pub(crate) fn input<E: Real>(matrix: &Matrix<E>) -> Result<Option<InputId>> {
    let Some(path) = matrix.path() else { return Ok(None) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let input = InputId::of(&name, path)?;
    if matrix.chunk().version()? != Some((input.bytes, input.modified_ns)) {
        return Err(syncline_store::Error::InputChanged { path: path.to_owned() }.into());
    }
    Ok(Some(input))
}

/// Returns a description of the file that has the name of the target, if there is one.
pub(crate) fn taken<E: Real>(
    settings: &Settings,
    arrays: &Arrays<'_, E>,
    target: &Target,
) -> Result<Option<Taken>> {
    let taken = start::taken(&target.paths(), &identity(arrays, target)?, Asked::of(settings))?;
    Ok(taken.map(|(_, taken)| taken))
}
