//! The fields of a run: what it reads, and where it writes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use syncline_store::array::{Array, ArrayFile, header};
use syncline_store::generation::{Generations, InputId};
use syncline_store::{ElementType, NewFile};

use crate::Result;
use crate::run::Run;

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

    /// Returns the bytes of a slab.
    pub(crate) fn slab_bytes(&self) -> usize {
        self.dims()[1..].iter().product::<usize>() * self.element().bytes()
    }

    /// Returns the header and the bytes of a file of this type and these dimensions.
    pub(crate) fn file(&self) -> (Vec<u8>, u64) {
        let header = header(self.element(), self.dims());
        let bytes = header.len() + self.dims()[0] * self.slab_bytes();
        (header, bytes as u64)
    }

    /// Returns the byte of a file of this type and these dimensions at which the elements begin.
    pub(crate) fn start(&self) -> u64 {
        header(self.element(), self.dims()).len() as u64
    }

    /// Returns the file that holds the array, or from which it was read.
    pub(crate) fn origin(&self) -> Option<&InputId> {
        match self {
            Input::Memory(array) => array.origin(),
            Input::File(file) => Some(file.origin()),
        }
    }
}

/// The fields that a pass reads or writes: in memory, or in files with their paths.
pub(crate) enum Fields {
    Memory(Vec<Array>),
    Files(Vec<(File, PathBuf)>),
}

/// Where the fields of a run go.
pub(crate) enum Output {
    /// Filled when the run ends.
    Memory(Vec<Array>),
    /// Files without names, for a run of one pass.
    New(Vec<NewFile>),
    Generations(Generations),
    /// Two sets of files, or one for a run of one pass, to which other processes write as well. The
    /// passes write to them in turn; the last one written comes first.
    Shared(Vec<Vec<(File, PathBuf)>>),
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
    /// Creates the fields in memory that a pass writes.
    pub(crate) fn new_set(&self) -> Result<Fields> {
        let zeros = |input: &Input<'_>| Array::zeros(input.element(), input.dims());
        let fields = self.inputs[..self.scheme.fields()].iter().map(zeros);
        Ok(Fields::Memory(fields.collect::<syncline_store::Result<_>>()?))
    }

    /// Creates files for the fields that have no names yet.
    pub(crate) fn new_files(&self, paths: &[PathBuf]) -> Result<Vec<NewFile>> {
        let new = |(input, path): (&Input<'_>, &PathBuf)| {
            let (header, bytes) = input.file();
            let file = NewFile::create(path, bytes)?;
            let failed = |source| failed("write", path, source);
            file.file().write_all_at(&header, 0).map_err(failed)?;
            Ok(file)
        };
        self.inputs[..self.scheme.fields()].iter().zip(paths).map(new).collect()
    }

    /// Copies the input to the fields, for a run without iterations.
    pub(crate) fn copy(&self, fields: &mut Fields) -> Result<()> {
        for (n, input) in self.inputs[..self.scheme.fields()].iter().enumerate() {
            let start = input.start();
            match (input, &mut *fields) {
                (Input::Memory(array), Fields::Memory(arrays)) => {
                    arrays[n].bytes_mut().copy_from_slice(array.bytes());
                }
                (Input::File(file), Fields::Memory(arrays)) => {
                    arrays[n] = Array::open(file.direct().0.name())?;
                }
                (Input::Memory(array), Fields::Files(files)) => {
                    let (to, path) = &files[n];
                    let failed = |source| failed("write", path, source);
                    to.write_all_at(array.bytes(), start).map_err(failed)?;
                }
                (Input::File(file), Fields::Files(files)) => copy(file, &files[n], start)?,
            }
        }
        Ok(())
    }
}

/// Returns the fields in files that have no names yet.
pub(crate) fn cloned(files: &[NewFile]) -> Result<Fields> {
    let clone = |new: &NewFile| clone(new.file(), new.target());
    Ok(Fields::Files(files.iter().map(clone).collect::<Result<_>>()?))
}

/// Returns the fields in files that are open.
pub(crate) fn again(files: &[(File, PathBuf)]) -> Result<Vec<(File, PathBuf)>> {
    let clone = |(file, path): &(File, PathBuf)| clone(file, path);
    files.iter().map(clone).collect()
}

fn clone(file: &File, path: &Path) -> Result<(File, PathBuf)> {
    let file = file.try_clone().map_err(|source| failed("open", path, source))?;
    Ok((file, path.to_owned()))
}

/// Copies the elements of a file to those of another, which begin at byte `to`.
fn copy(from: &ArrayFile, (target, path): &(File, PathBuf), to: u64) -> Result<()> {
    /// The bytes that are copied at once.
    const PIECE: usize = 1 << 20;
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
        target.write_all_at(piece, to + at as u64).map_err(|why| failed("write", path, why))?;
    }
    Ok(())
}

pub(crate) fn failed(action: &'static str, path: &Path, source: std::io::Error) -> crate::Error {
    syncline_store::Error::File { action, path: path.to_owned(), source }.into()
}
