//! Where a result goes that must not be lost, and what to do with what an earlier run has left
//! there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syncline_store::{
    Layout, Matrix, NewFile, Shape,
    generation::{Generations, Identity, Made},
    newfile::FileState,
};

use crate::{Result, lanes::Real};

/// A file that a sweep writes, whole or not at all, with what it takes to go on after a crash.
///
/// Until the result is complete, what is needed to go on stands in the folder `PATH.syncline`
/// beside it; see [`Generations`](syncline_store::generation::Generations) for what is promised. A sweep of one
/// pass needs no such folder, and begins anew. Where the name is taken already, [`Leftovers`] say
/// what is done; a complete result carries a [`ResultMark`](syncline_store::generation::ResultMark), by which it is known.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) path: PathBuf,
    pub(crate) npy: bool,
    pub(crate) leftovers: Leftovers,
    pub(crate) what: BTreeMap<String, String>,
}

/// What to do when the result's name is taken, or something is left of an interrupted run.
///
/// Whatever is said, a file that gets the name while the sweep runs is not replaced, but by
/// [`Discard`](Leftovers::Discard).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftovers {
    /// Nothing: that is an error.
    #[default]
    Refuse,
    /// Go on from there, if it was the same computation; begin if there is nothing.
    ///
    /// The same is: the same description, type, shape and inputs. Not the number of iterations, nor
    /// where a tolerance ends them: these say how far to go. Files are the same inputs by place,
    /// length and time, or by length and the checksum of their values; matrices in memory by that
    /// checksum.
    ///
    /// A result of fewer iterations is gone on from, up to those asked for. Of one with as many, or
    /// with a residual that is known and at most the tolerance, nothing is left to do. Everything
    /// else that has the name is an error.
    Resume,
    /// Delete what is left, begin, and replace what has the name.
    Discard,
}

impl Target {
    /// A `.npy` file.
    pub fn npy(path: impl Into<PathBuf>) -> Self {
        Target { path: path.into(), npy: true, leftovers: Leftovers::Refuse, what: BTreeMap::new() }
    }

    /// A file of nothing but the values, row by row.
    pub fn raw(path: impl Into<PathBuf>) -> Self {
        Target { npy: false, ..Self::npy(path) }
    }

    /// What to do when the name is taken, or something is left of an interrupted run.
    #[must_use]
    pub fn leftovers(self, leftovers: Leftovers) -> Self {
        Target { leftovers, ..self }
    }

    /// Something that makes this computation another: the kernel, its parameters. A run with other
    /// ones does not go on where this one has ended.
    #[must_use]
    pub fn describe(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.what.insert(name.into(), value.to_string());
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A complete result that has not got its name yet.
///
/// Dropped without [`commit`](Pending::commit) it leaves what was at its place before: of a sweep
/// of one pass nothing, of others the folder from which a run can go on.
#[derive(Debug)]
#[must_use = "the result gets its name by `commit`"]
pub struct Pending {
    pub(crate) kind: Kind,
    pub(crate) npy: bool,
    pub(crate) shape: Shape,
    /// Of what it is the result.
    pub(crate) identity: Identity,
    pub(crate) made: Made,
    /// What it may replace; `None` for whatever is there.
    pub(crate) replaces: Option<FileState>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    New(NewFile),
    Generations(Generations),
    /// It has its name already.
    Complete(PathBuf),
}

impl Pending {
    /// The result, to look at.
    ///
    /// # Errors
    /// When it cannot be opened.
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

    /// Whether it has its name already: it was complete before, and nothing was done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.kind, Kind::Complete(_))
    }

    /// Brings the result to disk and gives it its name, in place of the file that had it when the
    /// sweep began; then removes what was kept to go on from.
    ///
    /// # Errors
    /// [`Appeared`](syncline_store::Error::Appeared) when another file has the name by now, unless
    /// the target said [`Leftovers::Discard`]. When the file system refuses: then what was there
    /// before stays, or the result has its name and only what follows has failed.
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
