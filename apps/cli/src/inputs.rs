//! The arrays of a run: in which directory each is, and of what type.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use syncline_store::{DataDir, ElementType};
use syncline_wave::Real;

use crate::error::{Error, Result};
use crate::kernels::{Arrays, Kernel};
use crate::output::LAYOUT;

/// The directories that a run reads.
#[derive(Debug)]
pub(crate) struct Inputs {
    dirs: Vec<DataDir>,
}

/// The arrays of a kernel, found.
#[derive(Debug)]
pub(crate) struct Found<'i> {
    /// The type of all elements.
    pub(crate) element: ElementType,
    /// Name and directory of each, the field first.
    arrays: Vec<(String, &'i DataDir)>,
}

impl Inputs {
    /// Looks into the directories.
    ///
    /// # Errors
    /// As [`DataDir::open`].
    pub(crate) fn open(first: &Path, further: &[PathBuf]) -> Result<Self> {
        let all = std::iter::once(first).chain(further.iter().map(PathBuf::as_path));
        Ok(Self { dirs: all.map(DataDir::open).collect::<syncline_store::Result<_>>()? })
    }

    /// Whether there is such an array.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.with(name).next().is_some()
    }

    fn with(&self, name: &str) -> impl Iterator<Item = &DataDir> {
        self.dirs.iter().filter(move |dir| dir.names().iter().any(|own| own == name))
    }

    /// The directory of an array.
    fn dir_of(&self, name: &str) -> Result<&DataDir> {
        let mut with = self.with(name);
        match (with.next(), with.next(), &self.dirs[..]) {
            (Some(one), None, _) => Ok(one),
            (Some(one), Some(other), _) => {
                Err(Error::Twice { name: name.to_owned(), one: one.file(name), other: other.file(name) })
            }
            // The store tells best what a single directory has.
            (None, _, [only]) => Err(only.element(name).err().map_or(Error::Panic, Error::Store)),
            (None, _, dirs) => Err(Error::Nowhere {
                name: name.to_owned(),
                dirs: dirs.iter().map(|dir| dir.path().to_owned()).collect(),
                names: dirs.iter().flat_map(|dir| dir.names().iter().cloned()).collect(),
            }),
        }
    }

    /// Where the arrays of a kernel are.
    ///
    /// # Errors
    /// [`Error::Twice`] and [`Error::Nowhere`] for an array that is in two directories or in none,
    /// [`Error::Types`] when their elements are of two types, and what is wrong with a file.
    pub(crate) fn find(&self, kernel: &Kernel) -> Result<Found<'_>> {
        let arrays: Vec<_> =
            kernel.arrays().map(|name| Ok((name.to_owned(), self.dir_of(name)?))).collect::<Result<_>>()?;
        let mut of_type = ElementType::ALL.map(|element| (element, Vec::new()));
        for (name, dir) in &arrays {
            let element = dir.element(name)?;
            let files = of_type.iter_mut().find(|(own, _)| *own == element);
            files.into_iter().for_each(|(_, files)| files.push(dir.file(name)));
        }
        let used: Vec<_> = of_type.into_iter().filter(|(_, files)| !files.is_empty()).collect();
        match &used[..] {
            [(element, _)] => Ok(Found { element: *element, arrays }),
            _ => Err(Error::Types(used)),
        }
    }
}

impl Found<'_> {
    /// The directory of the field.
    pub(crate) fn home(&self) -> Option<&DataDir> {
        self.arrays.first().map(|(_, dir)| *dir)
    }

    /// Every file that must not be replaced.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let arrays = self.arrays.iter().map(|(name, dir)| dir.file(name));
        let layouts =
            self.arrays.iter().filter(|(_, dir)| dir.is_raw()).map(|(_, dir)| dir.path().join(LAYOUT));
        arrays.chain(layouts).collect()
    }

    /// Opens the matrices, without mapping anything.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub(crate) fn open<T: Real>(&self) -> Result<Arrays<T>> {
        let mut all = self.arrays.iter().map(|(name, dir)| Ok(Arc::new(dir.matrix::<T>(name)?)));
        let field = all.next().unwrap_or(Err(Error::Panic))?;
        Ok(Arrays { field, coefficients: all.collect::<Result<_>>()? })
    }
}
