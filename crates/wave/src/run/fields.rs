//! The fields of a run: what it reads, and where it writes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use syncline_kernel::rule::three;
use syncline_store::array::{Array, ArrayFile, header};
use syncline_store::direct_io::{IoBuffer, IoQueue, Method, ReadRequest};
use syncline_store::generation::{Generations, InputId};
use syncline_store::{ElementType, NewFile, Shape};

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

    /// Returns the rows and columns of two dimensions.
    pub(crate) fn shape(&self) -> Shape {
        let [rows, _, cols] = three(self.dims());
        Shape::new(rows, cols)
    }

    /// Returns the bytes of a slab.
    pub(crate) fn slab_bytes(&self) -> usize {
        self.dims()[1..].iter().product::<usize>() * self.element().bytes()
    }

    /// Returns the header and the bytes of a file of this type and these dimensions: a `.npy` file,
    /// or one of the elements only.
    pub(crate) fn file(&self, npy: bool) -> (Vec<u8>, u64) {
        let header = if npy { header(self.element(), self.dims()) } else { Vec::new() };
        let bytes = header.len() + self.dims()[0] * self.slab_bytes();
        (header, bytes as u64)
    }

    /// Returns the byte of such a file at which the elements begin.
    pub(crate) fn start(&self, npy: bool) -> u64 {
        self.file(npy).0.len() as u64
    }

    /// Returns the file that holds the array, or from which it was read.
    pub(crate) fn origin(&self) -> Option<&InputId> {
        match self {
            Input::Memory(array) => array.origin(),
            Input::File(file) => file.origin(),
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
    /// Arrays that a run may write to; without any, it makes them. Filled when the run ends.
    Memory(Vec<Array>),
    /// Files that every pass writes, over what the pass before has written.
    InPlace(Vec<(File, PathBuf)>),
    /// Files without names, for a run of one pass.
    New(Vec<NewFile>),
    Generations(Generations),
    /// Two sets of files, or one for a run of one pass, to which other processes write as well. The
    /// passes write to them in turn; the last one written comes first.
    Shared(Vec<Vec<(File, PathBuf)>>),
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
            let (header, bytes) = input.file(self.npy);
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
            let start = input.start(self.npy);
            let mut put = |at: usize, bytes: &[u8]| match &mut *fields {
                Fields::Memory(arrays) => {
                    arrays[n].bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
                    Ok(())
                }
                Fields::Files(files) => {
                    let (to, path) = &files[n];
                    let failed = |source| failed("write", path, source);
                    to.write_all_at(bytes, start + at as u64).map_err(failed)
                }
            };
            match input {
                Input::Memory(array) => put(0, array.bytes())?,
                Input::File(file) => each_piece(file, put)?,
            }
        }
        Ok(())
    }
}

/// Reads the elements of a file piece by piece; `take` gets the position of each among the bytes of
/// all, and the piece.
pub(crate) fn each_piece(
    from: &ArrayFile,
    mut take: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    /// The bytes that are read at once.
    const PIECE: usize = 1 << 20;
    let (file, start) = from.direct();
    let bytes = from.dims().iter().product::<usize>() * from.element().bytes();
    let (mut queue, most) = (IoQueue::new(Method::Auto), PIECE.min(bytes));
    let mut buffer = IoBuffer::new(most + 2 * file.alignment())?;
    for at in (0..bytes).step_by(PIECE) {
        let (offset, len) = (start + at as u64, most.min(bytes - at));
        queue.read(&mut [ReadRequest { file, offset, len, into: buffer.as_mut_slice() }])?;
        take(at, &buffer.as_slice()[file.lead(offset)..][..len])?;
    }
    Ok(())
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

pub(crate) fn failed(action: &'static str, path: &Path, source: std::io::Error) -> crate::Error {
    syncline_store::Error::File { action, path: path.to_owned(), source }.into()
}
