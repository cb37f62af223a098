//! The file of a result that must survive a crash, and the policy for files of an earlier run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syncline_store::{
    Layout, Matrix, NewFile, Shape,
    generation::{Generations, Identity, Made},
    newfile::FileState,
};

use crate::{Result, lanes::Real};

/// A file that a sweep writes completely or not at all, with the data needed to resume after a
/// crash.
///
/// Until the result is complete, the data needed to resume are in the folder `PATH.syncline` beside
/// it; see [`Generations`](syncline_store::generation::Generations) for the guarantees. A sweep of
/// one pass needs no such folder, and starts from the first iteration. If the name is taken
/// already, [`Leftovers`] determines what happens; a complete result carries a
/// [`ResultMark`](syncline_store::generation::ResultMark), by which it is recognised.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) path: PathBuf,
    pub(crate) npy: bool,
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
        Target { path: path.into(), npy: true, leftovers: Leftovers::Refuse, what: BTreeMap::new() }
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

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
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
    pub(crate) shape: Shape,
    /// The computation of which it is the result.
    pub(crate) identity: Identity,
    pub(crate) made: Made,
    /// The state of the name that the commit may replace; `None`: any file may be replaced.
    pub(crate) replaces: Option<FileState>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    New(NewFile),
    Generations(Generations),
    /// The result has its name already.
    Complete(PathBuf),
}

impl Pending {
    /// Opens the result for inspection before it is committed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn matrix<T: Real>(&self) -> Result<Matrix<T>> {
        let path = match &self.kind {
            Kind::New(new) => {
                return Ok(Matrix::create(new, self.npy, self.shape, Layout::RowMajor)?);
            }
            Kind::Generations(generations) => generations.path(generations.committed()),
            Kind::Complete(path) => path.clone(),
        };
        if self.npy {
            return Ok(Matrix::open(&path)?);
        }
        Ok(Matrix::open_raw(&path, self.shape, Layout::RowMajor)?)
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
    /// # Errors
    /// [`Appeared`](syncline_store::Error::Appeared) if another file has the name by now, unless
    /// the target's policy is [`Leftovers::Discard`]. An error of the file system: then either the
    /// files that existed before remain, or the result has its name and only a later step has
    /// failed.
    pub fn commit(self) -> Result<()> {
        let Self { kind, identity, made, replaces, .. } = self;
        match kind {
            Kind::New(new) => {
                identity.mark(new.file(), &made);
                match replaces {
                    Some(standing) => new.commit_over(&standing)?,
                    None => new.commit()?,
                }
            }
            Kind::Generations(mut generations) => {
                replaces.map_or(Ok(()), |standing| standing.check(generations.output()))?;
                identity.mark(&generations.file(generations.committed())?, &made);
                generations.finish()?;
            }
            Kind::Complete(_) => {}
        }
        Ok(())
    }
}
