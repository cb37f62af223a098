//! The destination of results, and the creation of several files at once.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use syncline_common::signals::Signals;
use syncline_store::array::Array;
use syncline_store::{
    DataDir, Element, Error as StoreError, Layout, Matrix, NewFile, Shape,
    generation::Existing,
    newfile::{OutputKind, output_path},
};

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::watch::{self, SYNC};

/// The file whose presence makes a directory raw.
pub(crate) const LAYOUT: &str = "layout.json";

/// The ending of default names of results, without `.npy`.
pub(crate) const RESULT: &str = ".out";

/// The reason why an output cannot have the name [`LAYOUT`].
const DESCRIPTION: &str = "has the name of the description of raw matrices";

/// The destination of a result.
#[derive(Debug)]
pub(crate) struct Output {
    /// The file.
    pub(crate) path: PathBuf,
    /// The link that leads to it, if the output is given as one.
    pub(crate) link: Option<PathBuf>,
    /// Whether it is a `.npy` file.
    pub(crate) npy: bool,
}

impl Output {
    /// Returns the requested output, or `FIELD.KERNEL.out` beside the field.
    ///
    /// `inputs` are the files that must not be replaced.
    ///
    /// # Errors
    /// [`Error::Output`] if it is an input under any name, is not a regular file, or has no folder;
    /// if its name does not end in `.npy` although the data are `.npy` files; or if its directory
    /// could not be opened any more with it.
    pub(crate) fn choose(
        asked: Option<&Path>,
        dir: &DataDir,
        kernel: &Kernel,
        inputs: &[PathBuf],
    ) -> Result<Self> {
        Self::choose_for(asked, dir, (&kernel.field, &kernel.name), inputs)
    }

    /// As [`choose`](Self::choose), for this field of the kernel of this name.
    ///
    /// # Errors
    /// As for [`choose`](Self::choose).
    pub(crate) fn choose_for(
        asked: Option<&Path>,
        dir: &DataDir,
        (field, kernel): (&str, &str),
        inputs: &[PathBuf],
    ) -> Result<Self> {
        let ending = if dir.is_raw() { "" } else { ".npy" };
        let beside = || dir.path().join(format!("{field}.{}{RESULT}{ending}", file_part(kernel)));
        let path = asked.map_or_else(beside, Path::to_owned);
        let npy = path.as_os_str().as_encoded_bytes().ends_with(b".npy");
        let refuse = |why: String| Error::Output { path: path.clone(), why };
        if !npy && !dir.is_raw() {
            return Err(refuse(format!(
                "must end in .npy, as {} holds .npy files (`syncline convert` makes raw ones)",
                dir.path().display()
            )));
        }
        let leads_to =
            output_path(&path, OutputKind::File, inputs).map_err(|error| match error {
                StoreError::Output { why, .. } => refuse(why),
                error => error.into(),
            })?;
        if leads_to.ends_with(LAYOUT) {
            return Err(refuse(DESCRIPTION.to_owned()));
        }
        if !leads_to.exists() {
            check_new(&leads_to).map_err(refuse)?;
        }
        let link = path.is_symlink().then_some(path);
        Ok(Self { path: leads_to, link, npy })
    }
}

impl Output {
    /// Opens the existing file: a `.npy` file, or raw data of this shape and layout.
    ///
    /// # Errors
    /// Errors of the file.
    pub(crate) fn open<T: Element>(&self, shape: Shape, layout: Layout) -> Result<Matrix<T>> {
        let opened = if self.npy {
            Matrix::open(&self.path)
        } else {
            Matrix::open_raw(&self.path, shape, layout)
        };
        Ok(opened?)
    }

    /// Returns why a complete output is not recognised as a result from which a later run could
    /// continue, or `None` if it is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn unmarked(&self) -> Result<Option<&'static str>> {
        Ok(match Existing::at(&self.path)? {
            Existing::Other(why) => Some(why),
            _ => None,
        })
    }
}

/// Replaces the characters of a name that are not suitable in the name of a file.
fn file_part(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect()
}

/// Checks that the folder can still be opened as a directory of matrices with the new file.
fn check_new(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_suffix(".npy") {
        // A folder that cannot be opened now does not become worse.
        Some(plain) if DataDir::open(folder).is_ok_and(|dir| dir.is_raw() && dir.has(plain)) => {
            Err(format!(
                "would be another {plain}: the {LAYOUT} in {} lists one; take another name",
                folder.display()
            ))
        }
        _ => Ok(()),
    }
}

/// A directory in which several matrices are created: all of them, or none.
#[derive(Debug)]
pub(crate) struct NewDir {
    path: PathBuf,
    /// The names of its files.
    names: Vec<String>,
    /// Whether it was created here, and is removed again if it stays empty.
    made: bool,
    files: Vec<NewFile>,
}

impl NewDir {
    /// Creates the directory if it does not exist.
    ///
    /// # Errors
    /// [`Error::Exists`] if it contains one of the files `names` or a `layout.json`,
    /// [`Error::Output`] if it contains a `.npy` file with the name of a raw file, and
    /// [`Error::Io`].
    pub(crate) fn create(path: &Path, names: impl Iterator<Item = String>) -> Result<Self> {
        let names: Vec<String> = names.collect();
        check_vacant(path, &names)?;
        let made = !path.is_dir();
        if made {
            fs::create_dir_all(path).map_err(|source| Error::Io {
                what: format!("make the folder {}", path.display()),
                source,
            })?;
        }
        Ok(Self { path: path.to_owned(), names, made, files: Vec::new() })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a matrix and reserves its disk space; its file gets its name together with all others.
    ///
    /// # Errors
    /// [`syncline_store::Error::NoSpace`] if the file system is too full.
    pub(crate) fn matrix<T: Element>(
        &mut self,
        name: &str,
        shape: Shape,
        layout: Layout,
        npy: bool,
    ) -> Result<Matrix<T>> {
        let file = self.path.join(file_name(name, npy));
        let new = NewFile::create(&file, Matrix::<T>::file_bytes(npy, shape, layout)?)?;
        let matrix = Matrix::create(&new, npy, shape, layout)?;
        self.files.push(new);
        Ok(matrix)
    }

    /// Adds an array; its file gets its name together with all others.
    ///
    /// # Errors
    /// As for [`matrix`](Self::matrix), and errors of the file system.
    pub(crate) fn array(&mut self, name: &str, array: &Array) -> Result<()> {
        self.files.push(array.create(&self.path.join(file_name(name, true)))?);
        Ok(())
    }

    /// Writes all files to disk and gives them their names; then `describe` may add a description.
    /// If two commands fill one directory at the same time, the second names no file.
    ///
    /// # Errors
    /// [`Error::Interrupted`] while no file has its name, the errors of [`create`](Self::create) if
    /// another command was first, and errors of the file system.
    pub(crate) fn commit(
        mut self,
        signals: &Signals,
        describe: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        sync(&self.files, signals)?;
        // Held until the end of this function.
        let folder = locked(&self.path, signals)?;
        check_vacant(&self.path, &self.names)?;
        self.files.drain(..).try_for_each(|new| {
            let path = new.target().to_owned();
            new.commit_new().map_err(|error| match error {
                StoreError::File { source, .. }
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    Error::Exists(path)
                }
                error => error.into(),
            })
        })?;
        describe(&self.path)?;
        drop(folder);
        Ok(())
    }
}

/// Locks a folder against other commands. Returns `None` where a file system has no locks: there
/// the second command may fail at a later file.
fn locked(path: &Path, signals: &Signals) -> Result<Option<File>> {
    let Ok(folder) = File::open(path) else { return Ok(None) };
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) => {
                signals.check()?;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Checks that a directory contains no file that new files of these names would replace, or that
/// could be confused with them.
fn check_vacant(path: &Path, names: &[String]) -> Result<()> {
    for name in names.iter().map(String::as_str).chain([LAYOUT]) {
        let file = path.join(name);
        if fs::symlink_metadata(&file).is_ok() {
            return Err(Error::Exists(file));
        }
        let npy = file_name(name, true);
        if !name.ends_with(".npy") && name != LAYOUT && path.join(&npy).exists() {
            let why = format!("has {npy}, which is another {name}: take another directory");
            return Err(Error::Output { path: path.to_owned(), why });
        }
    }
    Ok(())
}

impl Drop for NewDir {
    fn drop(&mut self) {
        self.files.clear();
        if self.made {
            // Fails, as intended, if the folder is not empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Returns the name of a matrix's file.
pub(crate) fn file_name(name: &str, npy: bool) -> String {
    if npy { format!("{name}.npy") } else { name.to_owned() }
}

/// Writes the data of new files to disk, so that their commit does not wait for it.
///
/// # Errors
/// [`Error::Interrupted`], and errors of the file system.
pub(crate) fn sync(files: &[NewFile], signals: &Signals) -> Result<()> {
    let failed = |path: &Path| {
        let what = format!("write {}", path.display());
        move |source| Error::Io { what, source }
    };
    let clones: Vec<(PathBuf, File)> = files
        .iter()
        .map(|new| {
            let path = new.target();
            Ok((path.to_owned(), new.file().try_clone().map_err(failed(path))?))
        })
        .collect::<Result<_>>()?;
    let bar = signals.bar(SYNC).with_message("bringing the output to disk");
    watch::watch(signals, &bar, ProgressBar::tick, move || {
        clones.iter().try_for_each(|(path, file)| file.sync_data().map_err(failed(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_fill_a_directory_the_second_is_told_what_exists() {
        let folder = tempfile::tempdir().unwrap();
        let begin = || {
            let mut new = NewDir::create(folder.path(), ["za".to_owned()].into_iter()).unwrap();
            new.matrix::<f64>("za", Shape::new(2, 2), Layout::RowMajor, false).unwrap();
            new
        };
        let (first, second) = (begin(), begin());
        first.commit(&Signals::default(), |_| Ok(())).unwrap();
        let error = second.commit(&Signals::default(), |_| Ok(())).unwrap_err();
        assert!(matches!(&error, Error::Exists(path) if path.ends_with("za")), "{error}");
    }

    #[test]
    fn of_two_that_fill_a_directory_the_second_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |npy: bool, names: &[&str]| {
            let files = names.iter().map(|name| file_name(name, npy));
            let mut new = NewDir::create(folder.path(), files).unwrap();
            for name in names {
                new.matrix::<f64>(name, Shape::new(2, 2), Layout::RowMajor, npy).unwrap();
            }
            new
        };
        let (raw, overlaps, npy) =
            (begin(false, &["u"]), begin(false, &["f", "u"]), begin(true, &["f", "u"]));
        let describe = |path: &Path| {
            fs::write(path.join(LAYOUT), "{}")
                .map_err(|source| Error::Io { what: "write".to_owned(), source })
        };
        raw.commit(&Signals::default(), describe).unwrap();
        for (second, what) in [(overlaps, "u"), (npy, LAYOUT)] {
            let error = second.commit(&Signals::default(), |_| Ok(())).unwrap_err();
            assert!(matches!(&error, Error::Exists(path) if path.ends_with(what)), "{error}");
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [LAYOUT, "u"]);
    }
}
