//! Runs of rules: one pass after another, until the iterations are done or the run has converged.
//!
//! # Contract
//! Iterations that all go down, or all up, are done in passes of up to `depth` of them. A run into
//! memory changes its result in place where it can; a run into files writes two of them in turn,
//! neither of which has a name, and returns the last one.
//!
//! A run has converged when no point has changed by more than the tolerance in one iteration of
//! each direction.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use syncline_store::array::{Array, ArrayFile, header};
use syncline_store::direct_io::{DirectFile, DirectWriter};
use syncline_store::{ElementType, NewFile};

use super::engine::Slabs;
use super::explicit::{self, Explicit};
use super::ordered::{self, Ordered};
use super::pass::{Pass, Sink, Source};
use super::plan::ArrayPlan;
use super::{Edge, Rule};
use crate::Result;
use crate::monitor::Monitor;
use crate::streamed::Spent;
use crate::sweep::{Settings, SweepPlan, SweepReport, Times};

/// An array that a run reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    Memory(&'a Array),
    File(&'a ArrayFile),
}

impl Input<'_> {
    pub(crate) fn element(&self) -> ElementType {
        match self {
            Input::Memory(array) => array.element(),
            Input::File(file) => file.element(),
        }
    }

    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Input::Memory(array) => array.dims(),
            Input::File(file) => file.dims(),
        }
    }
}

/// The fields of a run, in memory or in files without names.
pub(crate) enum Fields {
    Memory(Vec<Array>),
    Files(Vec<NewFile>),
}

/// A run.
pub(crate) struct Run<'a> {
    pub(crate) rule: &'a Rule,
    /// The fields, then the coefficients.
    pub(crate) inputs: &'a [Input<'a>],
    pub(crate) settings: &'a Settings,
    pub(crate) plan: ArrayPlan,
    /// The files of the fields, if they go to files.
    pub(crate) targets: Option<&'a [PathBuf]>,
}

/// What has been done so far.
#[derive(Default)]
struct Done {
    iterations: u64,
    residuals: Vec<f64>,
    converged: Option<u64>,
    passes: u64,
}

/// Returns planes, rows and columns; of two dimensions rows, 1, columns.
pub(crate) fn three(dims: &[usize]) -> [usize; 3] {
    match *dims {
        [rows, cols] => [rows, 1, cols],
        [planes, rows, cols] => [planes, rows, cols],
        _ => [0; 3],
    }
}

impl Run<'_> {
    /// Runs the iterations; returns the fields and the report.
    pub(crate) fn run(&self) -> Result<(Fields, SweepReport)> {
        let begun = Instant::now();
        let Settings { iterations, tolerance, monitor, .. } = self.settings;
        let spent = Spent::default();
        let mut done = Done::default();
        // The sets of fields that passes write in turn; the last one written comes first.
        let mut sets = vec![self.new_set()?];
        let keeps = tolerance.is_some() && self.settings.exact_stop;
        let in_place = self.targets.is_none() && self.rule.edges[2] != Edge::Periodic && !keeps;
        monitor.passes_are(self.plan.passes, 0, *iterations);
        monitor.begin(self.tasks());
        while done.iterations < *iterations && done.converged.is_none() {
            let levels = self.levels(done.iterations);
            let first = done.passes == 0;
            if !first && !in_place && sets.len() == 1 {
                sets.push(self.new_set()?);
            }
            if !first && !in_place {
                sets.swap(0, 1);
            }
            let norms = self.pass(&sets, (first, in_place), done.iterations, levels, &spent)?;
            done.take(levels as u64, norms, *tolerance, self.rule.directions.len());
            if let Some(at) = done.converged
                && keeps
                && at + 1 < done.iterations
            {
                let before = done.iterations - levels as u64;
                let enough = (at + 1 - before) as usize;
                self.pass(&sets, (first, in_place), before, enough, &spent)?;
                done.iterations = at + 1;
                done.residuals.truncate(done.iterations as usize);
                done.passes += 1;
            }
            monitor.pass_is_over(None);
        }
        if done.passes == 0 {
            self.copy(&mut sets[0])?;
        }
        let fields = sets.swap_remove(0);
        Ok((fields, self.report(done, &spent, begun.elapsed())))
    }

    /// Returns the number of iterations of the pass after `done` of them.
    fn levels(&self, done: u64) -> usize {
        let up = self.rule.direction(done).up;
        let left = (self.settings.iterations - done).min(self.plan.depth);
        let same = |i: &u64| self.rule.explicit || self.rule.direction(*i).up == up;
        (done..done + left).take_while(same).count()
    }

    /// Returns the number of tasks that a monitor counts.
    fn tasks(&self) -> u64 {
        let (mut done, mut tasks) = (0, 0_u64);
        let mut known = None;
        while done < self.settings.iterations {
            let levels = self.levels(done);
            let full = levels as u64 == self.plan.depth;
            let of_pass = known.filter(|_| full).unwrap_or_else(|| self.tasks_of(levels, done));
            known = if full { Some(of_pass) } else { known };
            // Passes of the same depth have the same tasks.
            let alike = self.rule.explicit || self.rule.directions.len() == 1;
            let passes =
                if full && alike { (self.settings.iterations - done) / self.plan.depth } else { 1 };
            tasks = tasks.saturating_add(of_pass.saturating_mul(passes));
            done += passes * levels as u64;
        }
        tasks
    }

    fn dims(&self) -> [usize; 3] {
        three(self.inputs[0].dims())
    }

    fn explicit(&self, levels: usize) -> explicit::Geometry {
        explicit::Geometry::new(self.rule, self.dims(), levels, self.plan.band, self.plan.flight)
    }

    /// Returns the geometries of the engines of a pass of an ordered rule.
    fn ordered(&self, levels: usize, before: u64) -> Vec<ordered::Geometry> {
        let bands = (self.plan.band, self.plan.flight);
        ordered::chain(self.rule, self.dims(), bands, before..before + levels as u64)
    }

    /// Returns the number of tasks that compute in a pass.
    fn tasks_of(&self, levels: usize, before: u64) -> u64 {
        if self.rule.explicit {
            let g = self.explicit(levels);
            return (g.bands.count() * g.walk().len().div_ceil(self.plan.piece).max(1)) as u64;
        }
        let engines = self.ordered(levels, before);
        let bands = engines.last().map_or(0, |g| g.bands.count());
        let pieces = engines
            .iter()
            .map(|g| g.walk().len().div_ceil(self.plan.piece.max(g.least_piece())).max(1));
        (bands * pieces.sum::<usize>()) as u64
    }

    /// Creates the fields that a pass writes.
    fn new_set(&self) -> Result<Fields> {
        let fields = &self.inputs[..self.rule.fields];
        match self.targets {
            None => {
                let zeros = |input: &Input<'_>| Array::zeros(input.element(), input.dims());
                let arrays = fields.iter().map(zeros).collect::<syncline_store::Result<_>>()?;
                Ok(Fields::Memory(arrays))
            }
            Some(targets) => {
                let new = |(input, path): (&Input<'_>, &PathBuf)| {
                    let header = header(input.element(), input.dims());
                    let points: usize = input.dims().iter().product();
                    let bytes = (header.len() + points * input.element().bytes()) as u64;
                    let file = NewFile::create(path, bytes)?;
                    let failed = |source| failed("write", path, source);
                    file.file().write_all_at(&header, 0).map_err(failed)?;
                    Ok(file)
                };
                Ok(Fields::Files(fields.iter().zip(targets).map(new).collect::<Result<_>>()?))
            }
        }
    }

    /// Copies the input to the fields, for a run without iterations.
    fn copy(&self, fields: &mut Fields) -> Result<()> {
        for (n, input) in self.inputs[..self.rule.fields].iter().enumerate() {
            let start = header(input.element(), input.dims()).len() as u64;
            match (input, &mut *fields) {
                (Input::Memory(array), Fields::Memory(arrays)) => {
                    arrays[n].bytes_mut().copy_from_slice(array.bytes());
                }
                (Input::File(file), Fields::Memory(arrays)) => {
                    arrays[n] = Array::open(file.direct().0.name())?;
                }
                (Input::Memory(array), Fields::Files(files)) => {
                    let failed = |source| failed("write", files[n].target(), source);
                    files[n].file().write_all_at(array.bytes(), start).map_err(failed)?;
                }
                (Input::File(file), Fields::Files(files)) => copy(file, &files[n], start)?,
            }
        }
        Ok(())
    }

    /// Runs one pass into the first set; returns the greatest changes.
    fn pass(
        &self,
        sets: &[Fields],
        (first, in_place): (bool, bool),
        before: u64,
        levels: usize,
        spent: &Spent,
    ) -> Result<Vec<f64>> {
        let (rule, fields) = (self.rule, self.rule.fields);
        let (target, last) =
            (&sets[0], if in_place { &sets[0] } else { sets.last().unwrap_or(&sets[0]) });
        let up = rule.direction(before).up && !rule.explicit;
        let mut opened = Vec::new();
        if let (false, Fields::Files(files)) = (first, last) {
            for file in files {
                opened.push(DirectFile::of(file.file(), file.target(), false)?);
            }
        }
        let source = |n: usize| match (&self.inputs[n], last) {
            (_, Fields::Memory(arrays)) if n < fields && !first => {
                Source::Memory(slabs(&arrays[n]))
            }
            (input, Fields::Files(_)) if n < fields && !first => {
                let start = header(input.element(), input.dims()).len() as u64;
                Source::File(&opened[n], start)
            }
            (Input::Memory(array), _) => Source::Memory(slabs(array)),
            (Input::File(file), _) => {
                let (file, start) = file.direct();
                Source::File(file, start)
            }
        };
        let sources: Vec<Source<'_>> = (0..self.inputs.len()).map(source).collect();
        let sink = |n: usize| match target {
            Fields::Memory(arrays) => Ok(Sink::Memory(slabs(&arrays[n]))),
            Fields::Files(files) => {
                let (file, path) = (files[n].file(), files[n].target());
                let input = &self.inputs[n];
                let start = header(input.element(), input.dims()).len() as u64;
                if up {
                    let failed = |source| failed("open", path, source);
                    return Ok(Sink::Up(file.try_clone().map_err(failed)?, path.to_owned(), start));
                }
                let writer = DirectWriter::new(DirectFile::of(file, path, true)?, start)?;
                Ok(Sink::Down(Box::new(writer)))
            }
        };
        let sinks = (0..fields).map(sink).collect::<Result<Vec<Sink>>>()?;
        let elements: Vec<ElementType> = self.inputs.iter().map(Input::element).collect();
        let whole: Vec<Option<Slabs>> = sources[fields..]
            .iter()
            .map(|source| match source {
                Source::Memory(slabs) => Some(*slabs),
                Source::File(..) => None,
            })
            .collect();
        let real = rule.real_of(elements.iter().copied());
        let pass = Pass {
            sources: &sources,
            elements: &elements,
            dims: self.dims(),
            up,
            threads: self.settings.processors() as usize,
            norm: self.settings.tolerance.is_some(),
            monitor: self.monitor(),
            spent,
            before,
        };
        let lanes = self.settings.lanes;
        if rule.explicit {
            let geometry = self.explicit(levels);
            let engine = Explicit::new(rule, geometry, elements.clone(), real, lanes, &whole)?;
            return pass.run(&[(engine, self.plan.piece)], sinks);
        }
        let engine = |geometry: ordered::Geometry| {
            let piece = self.plan.piece.max(geometry.least_piece());
            let engine = Ordered::new(rule, geometry, elements.clone(), real, lanes, &whole)?;
            Ok((engine, piece))
        };
        let engines = self.ordered(levels, before).into_iter().map(engine);
        pass.run(&engines.collect::<Result<Vec<_>>>()?, sinks)
    }

    fn monitor(&self) -> &Monitor {
        &self.settings.monitor
    }

    fn report(&self, done: Done, spent: &Spent, time: Duration) -> SweepReport {
        let ns = |n: &std::sync::atomic::AtomicU64| Duration::from_nanos(n.load(Relaxed));
        let threads = self.settings.processors();
        SweepReport {
            iterations: done.iterations,
            residuals: done.residuals,
            converged: done.converged,
            bytes_read: spent.read.load(Relaxed),
            bytes_written: spent.written.load(Relaxed),
            processors: threads,
            workers: threads,
            passes: done.passes,
            resumed: 0,
            bytes_exchanged: 0,
            times: Some(Times {
                read: ns(&spent.read_ns),
                write: ns(&spent.write_ns),
                check: Duration::ZERO,
                pack: Duration::ZERO,
                update: ns(&spent.update_ns),
                wait: (time * threads as u32).saturating_sub(ns(&spent.update_ns)),
            }),
            plan: SweepPlan::Arrays(self.plan),
        }
    }
}

impl Done {
    /// Records a pass.
    fn take(&mut self, levels: u64, norms: Vec<f64>, tolerance: Option<f64>, directions: usize) {
        self.iterations += levels;
        self.passes += 1;
        self.residuals.extend(norms);
        let Some(tolerance) = tolerance else { return };
        let enough = |window: &[f64]| window.iter().all(|residual| *residual <= tolerance);
        let found = self.residuals.windows(directions).position(enough);
        self.converged = found.map(|at| (at + directions - 1) as u64);
    }
}

/// Copies the elements of a file to those of another, which begin at byte `to`.
fn copy(from: &ArrayFile, target: &NewFile, to: u64) -> Result<()> {
    /// The bytes that are copied at once.
    const PIECE: usize = 8 << 20;
    let (direct, start) = from.direct();
    let points: usize = from.dims().iter().product();
    let bytes = points * from.element().bytes();
    let source = File::open(direct.name()).map_err(|why| failed("open", direct.name(), why))?;
    let mut piece = vec![0; PIECE.min(bytes)];
    for at in (0..bytes).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(bytes - at)];
        source
            .read_exact_at(piece, start + at as u64)
            .map_err(|why| failed("read", direct.name(), why))?;
        target
            .file()
            .write_all_at(piece, to + at as u64)
            .map_err(|why| failed("write", target.target(), why))?;
    }
    Ok(())
}

/// Returns the place of an array. The run writes only to arrays that it has made.
fn slabs(array: &Array) -> Slabs {
    Slabs { start: array.bytes().as_ptr().cast_mut(), first: 0 }
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> crate::Error {
    syncline_store::Error::File { action, path: path.to_owned(), source }.into()
}
