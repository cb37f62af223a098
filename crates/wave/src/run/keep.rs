//! Runs into files that are complete or absent, and that can resume after a crash or from
//! their own results.
//!
//! # Contract
//! [`start`](crate::run::start) determines where a run begins.
//! The files of all fields are generations of one computation: a pass commits all of them at once,
//! and at the end they get their names so that those that exist are never of two runs.
//!
//! The first pass also takes the sum of each input that it reads: by these a later run recognises
//! inputs that were moved or touched. After every pass an input is compared by path, length and
//! modification time, so one that was written to during the run is noticed.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use syncline_store::array::{Array, ArraySource};
use syncline_store::generation::{Generations, Identity, Progress};

use crate::Result;
use crate::pass::buffers::Buffers;
use crate::pass::spent::Spent;
use crate::pass::sums::{PassSums, SlabSums};
use crate::run::computation::{Computation, open};
use crate::run::fields::{Fields, Input, Output, cloned, each_piece, failed};
use crate::run::scheme::Scheme;
use crate::run::start::{Standing, Start, made, note, of_files};
use crate::run::target::{Kind, Leftovers, Pending};
use crate::run::{Done, Run};
use crate::sweep::SweepReport;
use crate::team::share::Share;

/// Returns what computes, for these inputs, a number of iterations, and a result in files or not.
pub(crate) type Planner<'a> = dyn Fn(&[Input<'_>], u64, bool) -> Result<Box<dyn Scheme + 'a>> + 'a;

/// A run into the files of a target.
pub(crate) struct Keep<'a> {
    pub(crate) what: Computation<'a>,
    pub(crate) scheme: &'a Planner<'a>,
}

impl Keep<'_> {
    /// Runs the iterations that are left.
    pub(crate) fn run(&self) -> Result<(Pending, SweepReport)> {
        let paths = self.what.target.paths();
        // First, so that too little memory is reported before anything is discarded.
        let (iterations, in_memory) = (self.what.settings.iterations, self.what.target.in_memory);
        let scheme = (self.scheme)(self.what.inputs, iterations, !in_memory)?;
        let mut identity = self.what.identity();
        let (start, standing) = self.what.begin(&mut identity)?;
        let (mut generations, mut from) = (None, Vec::new());
        let done = match start {
            Start::Anew => Done::default(),
            Start::Complete(made) => {
                let (done, spent) = (Done::after(&made), Spent::default());
                let (resumed, threads) = (made.iterations, self.what.settings.processors());
                let report = self.of(self.what.inputs, scheme).report(
                    done,
                    resumed,
                    &spent,
                    Duration::ZERO,
                    threads,
                );
                let kind = Kind::Complete(paths);
                let pending = self.pending(kind, identity, &report, Progress::default(), standing);
                return Ok((pending, report));
            }
            Start::After(made) => {
                from = self.what.opened(&paths)?;
                // Another run may have replaced the result since its mark was read.
                standing.check(&paths)?;
                Done::after(&made)
            }
            Start::From(found) => {
                let progress = found.progress().cloned().unwrap_or_default();
                let made = self.what.asked().judge(made(&progress, self.what.settings.tolerance));
                generations = Some(found);
                Done::after(&made)
            }
        };
        let in_memory = in_memory && generations.is_none();
        let of_result = from.iter().map(|field| match field {
            ArraySource::Memory(array) => Input::Memory(array),
            ArraySource::File(file) => Input::File(file),
        });
        let others = self.what.inputs[from.len()..].iter().copied();
        let mut inputs: Vec<Input<'_>> = of_result.chain(others).collect();
        let loaded: Vec<Option<Array>> = match in_memory {
            true => inputs.iter().map(load).collect::<Result<_>>()?,
            false => Vec::new(),
        };
        for (input, array) in inputs.iter_mut().zip(&loaded) {
            *input = array.as_ref().map_or(*input, Input::Memory);
        }
        let is_done = done.iterations >= iterations || done.converged.is_some();
        let left = iterations.saturating_sub(done.iterations);
        let scheme = match left == iterations && !self.what.target.in_memory {
            true => scheme,
            false => (self.scheme)(&inputs, left, !in_memory)?,
        };
        let run = self.of(&inputs, scheme);
        // A lack of space or of rights is found before the result is computed, not after it.
        let reserved = if in_memory { run.new_files(&paths)? } else { Vec::new() };
        let mut output = match generations {
            Some(generations) => Output::Generations(generations),
            None if in_memory => Output::Memory(Vec::new()),
            None if run.has_several_passes(done.iterations) => {
                let files: Vec<_> = inputs[..self.what.fields]
                    .iter()
                    .map(|input| input.file(self.what.target.npy))
                    .collect();
                let outputs: Vec<_> = paths
                    .iter()
                    .zip(&files)
                    .map(|(path, (header, bytes))| (&**path, &**header, *bytes))
                    .collect();
                let identity = of_files(&identity, &paths);
                Output::Generations(Generations::create_all(&outputs, &identity)?)
            }
            None => Output::New(run.new_files(&paths)?),
        };
        if let (Output::Generations(generations), true) = (&output, is_done) {
            // No pass will read the last generation, so damage would go undetected otherwise.
            self.check_all(generations)?;
        }
        let wanted = self.wanted(&mut identity, &inputs, &output, from.len());
        let unit = run.unit();
        let mut sums = Vec::new();
        let progress = |done: &Done, sums: &[SlabSums]| Progress {
            iterations: done.iterations,
            panel_rows: unit as u64,
            checksums: sums.iter().flat_map(SlabSums::values).copied().collect(),
            residuals: done.residuals.clone(),
            ..Progress::default()
        };
        let mut after = |output: &mut Output, done: &Done, mut of_pass: PassSums| {
            for &(n, array) in &wanted {
                let sum = of_pass.read.get_mut(array).and_then(Option::take);
                identity.inputs[n].sum =
                    identity.inputs[n].sum.or(sum.and_then(|sum| sum.values().first().copied()));
            }
            identity.check_inputs()?;
            if !from.is_empty() {
                standing.check(&paths)?;
            }
            sums = std::mem::take(&mut of_pass.written);
            if let Output::Generations(generations) = output {
                let generation = generations.committed() + 1;
                let mut progress = Progress { generation, ..progress(done, &sums) };
                note(&mut progress, &standing);
                generations.record_identity(&of_files(&identity, &paths));
                generations.commit(&progress)?;
            }
            Ok(())
        };
        let arrays: Vec<usize> = wanted.iter().map(|&(_, array)| array).collect();
        let report = run.run(&mut output, done, &arrays, &mut after)?;
        let kind = match output {
            Output::Generations(generations) => Kind::Generations(generations),
            Output::New(files) => {
                if report.passes == 0 {
                    let mut fields = cloned(&files)?;
                    run.copy(&mut fields)?;
                    if let (Fields::Files(fields), 2..) = (&fields, files.len()) {
                        sums = self.what.sums(fields, unit)?;
                    }
                }
                Kind::New(files)
            }
            Output::Shared(_) | Output::InPlace(_) => {
                unreachable!("files of a run in one process are its own")
            }
            Output::Memory(arrays) => {
                for (file, array) in reserved.iter().zip(&arrays) {
                    let start = file.bytes() - array.bytes().len() as u64;
                    let failed = |source| failed("write", file.target(), source);
                    file.file().write_all_at(array.bytes(), start).map_err(failed)?;
                    sums.push(SlabSums::of_array(array, unit));
                }
                Kind::New(reserved)
            }
        };
        identity.check_inputs()?;
        let done = Done { iterations: report.iterations, ..Done::default() };
        let sums = progress(&done, &sums);
        let sums = Progress { residuals: report.residuals.clone(), ..sums };
        let pending = self.pending(kind, identity, &report, sums, standing);
        Ok((pending, report))
    }

    fn of<'r>(&'r self, inputs: &'r [Input<'r>], scheme: Box<dyn Scheme + 'r>) -> Run<'r> {
        let share = Share::whole(inputs[0].dims()[0]);
        let (settings, npy) = (self.what.settings, self.what.target.npy);
        Run {
            scheme,
            inputs,
            settings,
            npy,
            share,
            team: None,
            gathers: false,
            buffers: Buffers::default(),
        }
    }

    fn pending(
        &self,
        kind: Kind,
        identity: Identity,
        report: &SweepReport,
        sums: Progress,
        standing: Standing,
    ) -> Pending {
        let replaces = (self.what.target.leftovers != Leftovers::Discard).then_some(standing);
        let (target, made) = (self.what.target, report.made(self.what.settings.tolerance));
        let input = &self.what.inputs[0];
        let (npy, dims) = (target.npy, input.dims().to_vec());
        Pending { kind, npy, dims, identity, made, sums, replaces }
    }

    /// Compares all of the last generation with the sums of its pass.
    fn check_all(&self, generations: &Generations) -> Result<()> {
        let Some(progress) = generations.progress() else { return Ok(()) };
        let file = |n| {
            let path = generations.path_of(progress.generation, n);
            Ok((open(&path)?, path))
        };
        let files = (0..self.what.fields).map(file).collect::<Result<Vec<_>>>()?;
        let sums = self.what.sums(&files, progress.panel_rows.max(1) as usize)?;
        let all = sums.iter().flat_map(SlabSums::values).enumerate();
        Ok(all.into_iter().try_for_each(|(panel, &sum)| generations.check_panel(panel, sum))?)
    }

    /// Takes the sums of the inputs in memory that are not known. Returns the inputs whose sums the
    /// first pass takes: their positions in the identity, and among the arrays. `from` is the
    /// number of fields that are read from a result.
    fn wanted(
        &self,
        identity: &mut Identity,
        inputs: &[Input<'_>],
        output: &Output,
        from: usize,
    ) -> Vec<(usize, usize)> {
        let first = match output {
            Output::Generations(generations) if generations.committed() > 0 => self.what.fields,
            _ => from,
        };
        let mut wanted = Vec::new();
        for (n, array) in self.what.on_file().into_iter().enumerate() {
            match inputs[array] {
                _ if array < first || identity.inputs[n].sum.is_some() => {}
                Input::File(_) => wanted.push((n, array)),
                Input::Memory(loaded) => {
                    let sums = SlabSums::of_array(loaded, loaded.dims()[0]);
                    identity.inputs[n].sum = sums.values().first().copied();
                }
            }
        }
        wanted
    }
}

/// Reads an array on file into memory.
fn load(input: &Input<'_>) -> Result<Option<Array>> {
    let Input::File(file) = input else { return Ok(None) };
    let mut array = Array::zeros(file.element(), file.dims())?;
    each_piece(file, |at, bytes| {
        array.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    })?;
    Ok(Some(array))
}
