//! The arrays of a run: their directories and types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use syncline_store::{DataDir, ElementType, Matrix};
use syncline_wave::lanes::Real;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::output::LAYOUT;
use crate::results::Raw;
use crate::sweeps::Arrays;

/// The directories that a run reads.
#[derive(Debug)]
pub(crate) struct Inputs {
    dirs: Vec<DataDir>,
}

/// The arrays of a kernel and their files.
#[derive(Debug)]
pub(crate) struct Found<'i> {
    /// The type of all elements.
    pub(crate) element: ElementType,
    /// The directory of the field, or the first directory if none contains it.
    home: &'i DataDir,
    /// The arrays; the field comes first.
    arrays: Vec<Array<'i>>,
    /// The directory's own field, if another file is given instead.
    displaced: Option<PathBuf>,
}

/// The file of an array.
#[derive(Debug)]
enum Array<'i> {
    /// An array of a directory, by its name.
    Of(&'i DataDir, String),
    /// A `.npy` file at any path.
    Npy(PathBuf),
    /// A file that the `layout.json` beside it lists under this name.
    Listed(DataDir, String),
    /// Raw data of known shape, type and layout.
    Raw(PathBuf, Raw),
    /// Raw data with the shape and layout of this array of the directory.
    Like(PathBuf, &'i DataDir, String),
}

impl Array<'_> {
    fn file(&self) -> PathBuf {
        match self {
            Self::Of(dir, name) => dir.file(name),
            Self::Listed(dir, name) => dir.file(name),
            Self::Npy(path) | Self::Raw(path, _) | Self::Like(path, ..) => path.clone(),
        }
    }

    /// Returns the `layout.json` that describes the array, if there is one.
    fn layout(&self) -> Option<PathBuf> {
        let dir = match self {
            Self::Of(dir, _) | Self::Like(_, dir, _) => *dir,
            Self::Listed(dir, _) => dir,
            Self::Npy(_) | Self::Raw(..) => return None,
        };
        dir.is_raw().then(|| dir.path().join(LAYOUT))
    }

    fn element(&self) -> syncline_store::Result<ElementType> {
        match self {
            Self::Of(dir, name) | Self::Like(_, dir, name) => dir.element(name),
            Self::Listed(dir, name) => dir.element(name),
            Self::Npy(path) => ElementType::of_npy(path),
            Self::Raw(_, raw) => Ok(raw.element),
        }
    }

    fn open<T: Real>(&self) -> syncline_store::Result<Matrix<T>> {
        match self {
            Self::Of(dir, name) => dir.matrix(name),
            Self::Listed(dir, name) => dir.matrix(name),
            Self::Npy(path) => Matrix::open(path),
            Self::Raw(path, raw) => raw.open(path),
            Self::Like(path, dir, name) => {
                let like = dir.matrix::<T>(name)?;
                Matrix::open_raw(path, like.shape(), like.layout())
            }
        }
    }
}

impl Inputs {
    /// Opens the directories.
    ///
    /// # Errors
    /// The errors of [`DataDir::open`].
    pub(crate) fn open(first: &Path, further: &[PathBuf]) -> Result<Self> {
        let all = std::iter::once(first).chain(further.iter().map(PathBuf::as_path));
        Ok(Self { dirs: all.map(DataDir::open).collect::<syncline_store::Result<_>>()? })
    }

    /// Returns whether a directory contains the array.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.with(name).next().is_some()
    }

    fn with(&self, name: &str) -> impl Iterator<Item = &DataDir> {
        self.dirs.iter().filter(move |dir| dir.has(name))
    }

    /// Returns the directory of an array.
    fn dir_of(&self, name: &str) -> Result<&DataDir> {
        let mut with = self.with(name);
        match (with.next(), with.next(), &self.dirs[..]) {
            (Some(one), None, _) => Ok(one),
            (Some(one), Some(other), _) => Err(Error::Twice {
                name: name.to_owned(),
                one: one.file(name),
                other: other.file(name),
            }),
            // The store has the best message for a single directory.
            (None, _, [only]) => Err(only.element(name).err().map_or(Error::Panic, Error::Store)),
            (None, _, dirs) => Err(Error::Nowhere {
                name: name.to_owned(),
                dirs: dirs.iter().map(|dir| dir.path().to_owned()).collect(),
                names: dirs.iter().flat_map(|dir| dir.names().iter().cloned()).collect(),
            }),
        }
    }

    /// Returns the `.npy` file of an array.
    ///
    /// # Errors
    /// [`Error::Twice`] and [`Error::Nowhere`] for an array that is in two directories or in none;
    /// [`Error::Usage`] for one that is raw.
    pub(crate) fn npy(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir_of(name)?;
        match dir.is_raw() {
            false => Ok(dir.file(name)),
            true => Err(Error::Usage(format!(
                "{} is raw: kernels over arrays read .npy files (`syncline convert` makes them)",
                dir.file(name).display()
            ))),
        }
    }

    /// Returns the directory in which a result of a field goes: that of the field, or the first.
    pub(crate) fn home(&self, field: &str) -> &DataDir {
        self.with(field).next().unwrap_or(&self.dirs[0])
    }

    /// Finds the arrays of a kernel; `field` replaces the directory's own field.
    ///
    /// # Errors
    /// [`Error::Twice`] and [`Error::Nowhere`] for an array that is in two directories or in none,
    /// [`Error::Types`] if their element types differ, and errors of the files.
    pub(crate) fn find(&self, kernel: &Kernel, field: Option<&Path>) -> Result<Found<'_>> {
        let home = match field {
            None => self.dir_of(&kernel.field)?,
            Some(_) => self.with(&kernel.field).next().unwrap_or(&self.dirs[0]),
        };
        let first = match field {
            None => Array::Of(home, kernel.field.clone()),
            Some(path) => elsewhere(path, home, &kernel.field)?,
        };
        let displaced =
            field.and_then(|_| self.with(&kernel.field).next()).map(|dir| dir.file(&kernel.field));
        let others =
            kernel.coefficients.iter().map(|name| Ok(Array::Of(self.dir_of(name)?, name.clone())));
        let arrays: Vec<_> = std::iter::once(Ok(first)).chain(others).collect::<Result<_>>()?;
        let mut of_type = ElementType::REAL.map(|element| (element, Vec::new()));
        for array in &arrays {
            let element = array.element()?;
            let files = of_type.iter_mut().find(|(own, _)| *own == element);
            files.into_iter().for_each(|(_, files)| files.push(array.file()));
        }
        let used: Vec<_> = of_type.into_iter().filter(|(_, files)| !files.is_empty()).collect();
        match &used[..] {
            [(element, _)] => Ok(Found { element: *element, home, arrays, displaced }),
            _ => Err(Error::Types(used)),
        }
    }
}

/// Finds a field given as a file: a `.npy` file, a file that the `layout.json` beside it lists, a
/// raw result, or raw data like the field of the directory.
fn elsewhere<'i>(path: &Path, home: &'i DataDir, name: &str) -> Result<Array<'i>> {
    if path.as_os_str().as_encoded_bytes().ends_with(b".npy") {
        return Ok(Array::Npy(path.to_owned()));
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let listed = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let beside = folder.join(LAYOUT).is_file().then(|| DataDir::open(folder)).transpose()?;
    match (beside, listed) {
        (Some(dir), Some(name)) if dir.has(&name) => Ok(Array::Listed(dir, name)),
        _ => match Raw::of(path) {
            Ok(raw) => Ok(Array::Raw(path.to_owned(), raw)),
            Err(Error::Unknown { .. }) if home.is_raw() && home.has(name) => {
                Ok(Array::Like(path.to_owned(), home, name.to_owned()))
            }
            Err(other) => Err(other),
        },
    }
}

impl Found<'_> {
    /// Returns the directory in which a result goes beside the field.
    pub(crate) const fn home(&self) -> &DataDir {
        self.home
    }

    /// Returns every file that is read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.arrays
            .iter()
            .map(Array::file)
            .chain(self.arrays.iter().filter_map(Array::layout))
            .collect()
    }

    /// Returns the directory's own field if another file is given instead; it must not be
    /// overwritten.
    pub(crate) fn displaced(&self) -> Option<PathBuf> {
        self.displaced.clone()
    }

    /// Opens the matrices, without mapping anything.
    ///
    /// # Errors
    /// Errors of the files.
    pub(crate) fn open<T: Real>(&self) -> Result<Arrays<T>> {
        let mut all = self.arrays.iter().map(|array| Ok(Arc::new(array.open::<T>()?)));
        let field = all.next().unwrap_or(Err(Error::Panic))?;
        Ok(Arrays { field, coefficients: all.collect::<Result<_>>()? })
    }
}
