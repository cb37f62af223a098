//! The file of a result that must survive a crash, and the policy for files of an earlier run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syncline_store::{
    Layout, Matrix, NewFile, Shape,
    array::{Array, ArraySource},
    generation::{Generations, Identity, Made, Progress},
};

use super::start::{Standing, of_field};
use crate::{Error, Result, lanes::Real};

/// A file, or one for each field, that a sweep writes completely or not at all, with the data
/// needed to resume after a crash.
///
/// Until the result is complete, the data needed to resume are in the folder `PATH.syncline` beside
/// it; see [`Generations`](syncline_store::generation::Generations) for the guarantees. A sweep of
/// one pass needs no such folder, and starts from the first iteration. If the name is taken
/// already, [`Leftovers`] determines what happens; a complete result carries a
/// [`ResultMark`](syncline_store::generation::ResultMark), by which it is recognised.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) path: PathBuf,
    /// The files of the fields after the first.
    pub(crate) others: Vec<PathBuf>,
    pub(crate) npy: bool,
    pub(crate) in_memory: bool,
    pub(crate) leftovers: Leftovers,
    pub(crate) what: BTreeMap<String, String>,
}

/// The policy for a result's name that is taken, and for files of an interrupted run.
///
/// Unless the policy is [`Discard`](Leftovers::Discard), a file that gets the name while the sweep
/// runs is not replaced: the commit is then an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftovers {
    /// Return an error if the name is taken, or if files of an interrupted run exist.
    #[default]
    Refuse,
    /// Resume if it was the same computation; start if there is nothing.
    ///
    /// Two computations are the same if they have the same description, type, shape and inputs. The
    /// number of iterations and the tolerance are not part of the computation: they only limit it.
    /// Files are the same inputs if they have the same path, length and modification time, or the
    /// same length and the same checksum of their values; matrices in memory are compared by that
    /// checksum.
    ///
    /// The sweep continues from a result of fewer iterations, up to those requested. If the result
    /// has exactly the requested number, or a known residual that is at most the tolerance, nothing
    /// is left to do. Any other file with the name, also a result of more iterations, is an error.
    Resume,
    /// Delete the files of the earlier run, start, and replace the file that has the name.
    Discard,
}

impl Target {
    /// Creates a target that is a `.npy` file.
    pub fn npy(path: impl Into<PathBuf>) -> Self {
        Target {
            path: path.into(),
            others: Vec::new(),
            npy: true,
            in_memory: false,
            leftovers: Leftovers::Refuse,
            what: BTreeMap::new(),
        }
    }

    /// Adds the `.npy` file of the next field, for a sweep [over
    /// arrays](crate::Sweep::run_arrays_to) with several. All files must be in one folder, and each
    /// must be another one: otherwise the sweep is an error before it begins. The data needed to
    /// resume are beside the first.
    ///
    /// The files are committed together: after a crash at any moment, those that exist are all of
    /// the same iteration. If a crash interrupts the commit itself, some may be missing until the
    /// sweep is resumed.
    #[must_use]
    pub fn and(mut self, path: impl Into<PathBuf>) -> Self {
        self.others.push(path.into());
        self
    }

    /// Sets whether a sweep [over arrays](crate::Sweep::run_arrays_to) reads all of them into
    /// memory, runs there, and writes the result when it is complete. Several passes are then
    /// faster, but a sweep that is interrupted leaves nothing to resume from. A sweep that resumes
    /// from an interrupted one goes on from files to files.
    #[must_use]
    pub fn in_memory(self, in_memory: bool) -> Self {
        Target { in_memory, ..self }
    }

    /// Creates a target that is a file of the values only, row by row.
    pub fn raw(path: impl Into<PathBuf>) -> Self {
        Target { npy: false, ..Self::npy(path) }
    }

    /// Sets the policy for a name that is taken, and for files of an interrupted run.
    #[must_use]
    pub fn leftovers(self, leftovers: Leftovers) -> Self {
        Target { leftovers, ..self }
    }

    /// Adds a property that distinguishes this computation from others, such as the kernel or one
    /// of its parameters. A run with different properties does not resume this one.
    #[must_use]
    pub fn describe(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.what.insert(name.into(), value.to_string());
        self
    }

    /// Returns the path of the file; of several, the first.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that there is a file for each field.
    pub(crate) fn has(&self, fields: usize) -> Result<()> {
        let given = 1 + self.others.len();
        if given == fields { Ok(()) } else { Err(Error::Fields { expected: fields, given }) }
    }

    /// Returns the paths of all files.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        std::iter::once(&self.path).chain(&self.others).cloned().collect()
    }
}

/// A complete result before its commit.
///
/// If it is dropped without [`commit`](Pending::commit), the files that existed when the sweep
/// ended remain: for
/// a sweep of one pass none, for others the folder from which a run can resume.
#[derive(Debug)]
#[must_use = "the result gets its name by `commit`"]
pub struct Pending {
    pub(crate) kind: Kind,
    pub(crate) npy: bool,
    /// The dimensions of each field.
    pub(crate) dims: Vec<usize>,
    /// The computation of which it is the result.
    pub(crate) identity: Identity,
    pub(crate) made: Made,
    /// The sums of the fields of a result of several.
    pub(crate) sums: Progress,
    /// The state of the names that the commit may replace; `None`: any file may be replaced.
    pub(crate) replaces: Option<Standing>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Files without names, one for each field.
    New(Vec<NewFile>),
    Generations(Generations),
    /// The result has its names already.
    Complete(Vec<PathBuf>),
}

impl Pending {
    /// Opens the result for inspection before it is committed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is no matrix of this type.
    pub fn matrix<T: Real>(&self) -> Result<Matrix<T>> {
        let [rows, cols] = self.dims[..] else {
            let why = "it has three dimensions; `array` opens it".to_owned();
            return Err(Error::NotStreamed { name: "the result".to_owned(), why });
        };
        let shape = Shape::new(rows, cols);
        let path = match &self.kind {
            Kind::New(new) => {
                return Ok(Matrix::create(&new[0], self.npy, shape, Layout::RowMajor)?);
            }
            Kind::Generations(generations) => generations.path(generations.committed()),
            Kind::Complete(paths) => paths[0].clone(),
        };
        if self.npy {
            return Ok(Matrix::open(&path)?);
        }
        Ok(Matrix::open_raw(&path, shape, Layout::RowMajor)?)
    }

    /// Reads a field, counted from 0, of a result of arrays, before it is committed.
    ///
    /// # Errors
    /// [`Error::Fields`] if there is no such field; an error if the file cannot be read.
    pub fn array(&self, field: usize) -> Result<Array> {
        self.first(field, usize::MAX)
    }

    /// Like [`array`](Self::array), for the first `most` positions of the first axis.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    pub fn first(&self, field: usize, most: usize) -> Result<Array> {
        let expected = self.fields();
        if field >= expected {
            return Err(Error::Fields { expected, given: field.saturating_add(1) });
        }
        Ok(match &self.kind {
            Kind::New(new) => Array::of_file(&new[field], most)?,
            Kind::Generations(generations) => {
                let path = generations.path_of(generations.committed(), field);
                ArraySource::open(&path)?.first(most)?
            }
            Kind::Complete(paths) => ArraySource::open(&paths[field])?.first(most)?,
        })
    }

    fn fields(&self) -> usize {
        match &self.kind {
            Kind::New(new) => new.len(),
            Kind::Generations(generations) => generations.outputs().len(),
            Kind::Complete(paths) => paths.len(),
        }
    }

    /// Returns whether the result has its name already: it was complete before, and nothing was
    /// done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.kind, Kind::Complete(_))
    }

    /// Syncs the result to disk and gives it its name, in place of the file that had it when the
    /// sweep began; then removes the data that were kept to resume from.
    ///
    /// Of several files, the old ones are removed before the first one gets its name. If that is
    /// interrupted, [`Leftovers::Resume`] gives the others theirs.
    ///
    /// # Errors
    /// [`Appeared`](syncline_store::Error::Appeared) if another file has the name by now, unless
    /// the target's policy is [`Leftovers::Discard`]. An error of the file system: then either the
    /// files that existed before remain, or the result has its name and only a later step has
    /// failed. A result that does not get its name is kept: these errors are then the source of
    /// [`Kept`](syncline_store::Error::Kept), which names its file.
    pub fn commit(self) -> Result<()> {
        let fields = self.fields();
        let Self { kind, identity, made, sums, replaces, .. } = self;
        let may_replace =
            |paths: &[PathBuf]| replaces.as_ref().map_or(Ok(()), |standing| standing.check(paths));
        // After an error the result, which may have taken long, is kept.
        match kind {
            Kind::New(mut new) if fields == 1 => {
                let Some(new) = new.pop() else { return Ok(()) };
                identity.mark(new.file(), &made);
                match replaces {
                    Some(standing) => new.commit_over(standing.of_output(0))?,
                    None => new.commit()?,
                }
            }
            Kind::New(new) => {
                let paths: Vec<PathBuf> = new.iter().map(|new| new.target().to_owned()).collect();
                if let Err(error) = may_replace(&paths) {
                    return Err(new.into_iter().fold(error, |error, new| new.keep(error)).into());
                }
                for (n, new) in new.iter().enumerate() {
                    of_field(&identity, n, fields).mark(new.file(), &made);
                }
                let mut generations =
                    Generations::of_files(new, &super::start::of_files(&identity, &paths))?;
                // Another run may have got the names before this one got the lock.
                let done = may_replace(&paths).and_then(|()| {
                    let mut progress = Progress { generation: 1, ..sums };
                    let standing = match &replaces {
                        Some(standing) => standing,
                        None => &Standing::of(&paths)?,
                    };
                    super::start::note(&mut progress, standing);
                    generations.commit(&progress)
                });
                if let Err(error) = done {
                    return Err(generations.keep(error).into());
                }
                generations.finish()?;
            }
            Kind::Generations(mut generations) => {
                let done = may_replace(&generations.outputs()).and_then(|()| {
                    (0..fields).try_for_each(|n| {
                        let file = generations.file_of(generations.committed(), n)?;
                        of_field(&identity, n, fields).mark(&file, &made);
                        Ok(())
                    })
                });
                if let Err(error) = done {
                    return Err(generations.keep(error).into());
                }
                generations.finish()?;
            }
            Kind::Complete(_) => {}
        }
        Ok(())
    }
}
