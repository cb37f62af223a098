//! What a run computes, and where its result goes: by this a later run recognises both.
//!
//! # Contract
//! Two computations are the same if they have the same description, dimensions, types and inputs.
//! [`start`](super::start) says where a run begins that finds something under the names of its
//! result.

use std::fs::File;
use std::path::{Path, PathBuf};

use syncline_store::array::ArraySource;
use syncline_store::checksum::checksum;
use syncline_store::direct_io::DirectFile;
use syncline_store::generation::{Identity, Progress};

use super::fields::{Input, failed};
use super::start::{Asked, Begin, DIMENSIONS, FORMAT, Standing, Start, TYPES, Taken, taken};
use super::target::Target;
use crate::Result;
use crate::pass::sums::SlabSums;
use crate::sweep::Settings;

/// A computation with a result in files.
#[derive(Clone, Copy)]
pub(crate) struct Computation<'a> {
    /// The number of fields, which are the first inputs, and that of directions.
    pub(crate) fields: usize,
    pub(crate) directions: usize,
    pub(crate) inputs: &'a [Input<'a>],
    pub(crate) settings: &'a Settings,
    pub(crate) target: &'a Target,
}

impl Computation<'_> {
    pub(crate) fn asked(&self) -> Asked {
        Asked { window: self.directions, ..Asked::of(self.settings) }
    }

    /// Returns the identity of the computation. The sums of its inputs on file are not known yet.
    pub(crate) fn identity(&self) -> Identity {
        let mut what = self.target.what.clone();
        // Those of the coefficients follow from the kernel, and from these.
        let types = self.inputs[..self.fields].iter().map(|input| input.element().name());
        what.insert(TYPES.to_owned(), types.collect::<Vec<_>>().join(", "));
        what.insert(FORMAT.to_owned(), if self.target.npy { "npy" } else { "raw" }.to_owned());
        let dims: Vec<_> = self.inputs[0].dims().iter().map(usize::to_string).collect();
        what.insert(DIMENSIONS.to_owned(), dims.join(" x "));
        for (n, input) in self.inputs.iter().enumerate() {
            if let (Input::Memory(array), None) = (input, input.origin()) {
                let sum = format!("{:016x}", checksum(array.bytes()));
                what.insert(format!("array {n} in memory"), sum);
            }
        }
        Identity { what, inputs: self.inputs.iter().filter_map(Input::origin).cloned().collect() }
    }

    /// Returns the numbers of the arrays that have a file, in the order of the identity's inputs.
    pub(crate) fn on_file(&self) -> Vec<usize> {
        (0..self.inputs.len()).filter(|&n| self.inputs[n].origin().is_some()).collect()
    }

    /// Returns the point where the run begins.
    pub(crate) fn begin(&self, identity: &mut Identity) -> Result<(Start, Standing)> {
        let (monitor, on_file) = (&self.settings.monitor, self.on_file());
        let sum = |n: usize| {
            monitor.compares(n + 1, on_file.len());
            let input = &self.inputs[on_file[n]];
            let slabs = input.dims()[0];
            let sums = match input {
                Input::Memory(array) => SlabSums::of_array(array, slabs),
                Input::File(file) => {
                    let (direct, start) = file.direct();
                    let place = (start, input.slab_bytes());
                    SlabSums::of_file(direct, place, (slabs, slabs), 0..slabs, monitor)?
                }
            };
            Ok(sums.values().first().copied())
        };
        let is_generation = |progress: &Progress| {
            let files = self.target.paths().into_iter().map(|path| Ok((open(&path)?, path)));
            let files = files.collect::<Result<Vec<_>>>()?;
            let sums = self.sums(&files, progress.panel_rows.max(1) as usize)?;
            Ok(sums.iter().flat_map(SlabSums::values).eq(&progress.checksums))
        };
        let begin = Begin { target: self.target, asked: self.asked() };
        begin.start(identity, sum, is_generation)
    }

    /// Returns the sums of the fields in files.
    pub(crate) fn sums(&self, files: &[(File, PathBuf)], unit: usize) -> Result<Vec<SlabSums>> {
        let sums = |(input, (file, path)): (&Input<'_>, &(File, PathBuf))| {
            let (slab, slabs) = (input.slab_bytes(), input.dims()[0]);
            let start = input.start(self.target.npy);
            let (file, monitor) = (DirectFile::of(file, path, false)?, &self.settings.monitor);
            SlabSums::of_file(&file, (start, slab), (unit, slabs), 0..slabs, monitor)
        };
        self.inputs.iter().zip(files).map(sums).collect()
    }

    /// Returns a description of the first file that has the name of an output, if there is one.
    pub(crate) fn taken(&self) -> Result<Option<Taken>> {
        let taken = taken(&self.target.paths(), &self.identity(), self.asked())?;
        Ok(taken.map(|(_, taken)| taken))
    }

    /// Opens the fields of a result.
    pub(crate) fn opened(&self, paths: &[PathBuf]) -> Result<Vec<ArraySource>> {
        let open = |(input, path): (&Input<'_>, &PathBuf)| match self.target.npy {
            true => ArraySource::open(path),
            false => ArraySource::open_raw(path, input.element(), input.dims()),
        };
        let sources = self.inputs.iter().zip(paths).map(open);
        Ok(sources.collect::<syncline_store::Result<_>>()?)
    }
}

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| failed("open", path, source))
}
