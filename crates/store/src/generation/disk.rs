//! The only functions that change the file system.
//!
//! Each change is described before it is made ([`Change`]): the description determines the error of
//! a failure, and the tests' model of a power failure cuts the sequence of changes at any point and
//! loses changes that were not synced.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::newfile::{NewFile, free_bytes, keep_file};
use crate::{Error, Result, traced};

/// A change of the file system, or a sync of earlier changes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    MakeFolder(&'a Path),
    Create(&'a Path),
    Write(&'a Path),
    Sync(&'a Path),
    SyncFolder(&'a Path),
    /// The old name and the new name.
    #[cfg_attr(not(test), expect(dead_code, reason = "the error names the file by its new name"))]
    Rename(&'a Path, &'a Path),
    Remove(&'a Path),
    RemoveFolder(&'a Path),
}

impl Change<'_> {
    /// Returns the error of a change that could not be made.
    pub(super) fn failed(self, source: io::Error) -> Error {
        let (action, path) = match self {
            Self::MakeFolder(path) | Self::Create(path) => ("create", path),
            Self::Write(path) => ("write", path),
            Self::Sync(path) | Self::SyncFolder(path) => ("sync", path),
            Self::Rename(_, to) => ("rename to", to),
            Self::Remove(path) | Self::RemoveFolder(path) => ("remove", path),
        };
        Error::File { action, path: path.to_owned(), source }
    }
}

pub(super) fn make<T>(change: Change<'_>, act: impl FnOnce() -> io::Result<T>) -> Result<T> {
    #[cfg(test)]
    super::power::before(change)?;
    let made = act().map_err(|source| change.failed(source))?;
    #[cfg(test)]
    super::power::after(change);
    Ok(made)
}

/// Creates a folder accessible to its owner only; an existing folder is not changed.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(Error::Foreign { path: path.to_owned() }),
        Err(_) => {}
    }
    make(Change::MakeFolder(path), || match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    })
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Opens an existing file.
pub(super) fn open(path: &Path, write: bool) -> io::Result<File> {
    options().write(write).open(path)
}

/// Opens a file for reading and writing, and creates it if it does not exist.
pub(super) fn create(path: &Path) -> Result<File> {
    let changed = |source| Change::Create(path).failed(source);
    match open(path, true) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(Change::Create(path), || options().write(true).create(true).open(path))
        }
        found => found.map_err(changed),
    }
}

/// Checks that `needed` bytes are free on the file system of a file or folder.
///
/// # Errors
/// [`Error::NoSpace`].
pub(super) fn check_room(path: &Path, needed: u64) -> Result<()> {
    let free = free_bytes(path).map_err(|source| Change::Write(path).failed(source))?;
    if free < needed { Err(Error::NoSpace { path: path.to_owned(), needed, free }) } else { Ok(()) }
}

/// Gives the file a length of `bytes` bytes with unspecified contents, reserves their space on
/// disk, and writes the `header` at its front.
///
/// # Errors
/// [`Error::NoSpace`]; the file is then empty.
pub(super) fn allocate(file: &File, path: &Path, bytes: u64, header: &[u8]) -> Result<()> {
    let failed = |source: io::Error| Change::Write(path).failed(source);
    let found = file.metadata().map_err(failed)?;
    let needed = bytes.saturating_sub(found.blocks().saturating_mul(512));
    check_room(path, needed)?;
    let allocated = make(Change::Write(path), || {
        if found.len() > bytes {
            file.set_len(bytes)?;
        }
        let room = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INVAL) if bytes == 0 => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(file, bytes),
            done => done,
        };
        match room {
            Err(full @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                file.set_len(0)?;
                Ok(Err(full))
            }
            done => done.map_err(io::Error::from).map(Ok),
        }
    })?;
    match allocated {
        Ok(()) => make(Change::Write(path), || file.write_all_at(header, 0)),
        Err(Errno::FBIG) => Err(failed(Errno::FBIG.into())),
        Err(_) => Err(Error::NoSpace {
            path: path.to_owned(),
            needed,
            free: free_bytes(path).unwrap_or(0),
        }),
    }
}

/// Replaces the contents of the file by `contents`, and syncs it.
pub(super) fn replace(file: &File, path: &Path, contents: &[u8]) -> Result<()> {
    make(Change::Write(path), || {
        file.set_len(0)?;
        file.write_all_at(contents, 0)
    })?;
    sync_with(Change::Sync(path), path, || file.sync_all())
}

/// Syncs the file's data to disk.
pub(super) fn sync(file: &File, path: &Path) -> Result<()> {
    sync_with(Change::Sync(path), path, || file.sync_data())
}

/// Syncs the names in a folder to disk.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    sync_with(Change::SyncFolder(path), path, || File::open(path)?.sync_all())
}

/// Makes a change that waits for the disk.
fn sync_with(change: Change<'_>, path: &Path, sync: impl FnOnce() -> io::Result<()>) -> Result<()> {
    let _waits = traced::awaits_named(path);
    make(change, sync)
}

/// Renames the file `from` to `to`, replacing an existing file.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    make(Change::Rename(from, to), || std::fs::rename(from, to))
}

/// Gives a file that has no name yet the name `to`.
pub(super) fn name(new: &mut NewFile, to: &Path) -> Result<File> {
    make(Change::Create(to), || new.name_as(to))
}

/// Gives a complete file that cannot get its name another one; returns it, if there is one.
pub(super) fn keep(new: &mut NewFile) -> Option<PathBuf> {
    let target = new.target().to_owned();
    make(Change::Create(&target), || Ok(new.try_keep())).ok().flatten()
}

/// Moves a complete slot that cannot become `output` to another name beside it; returns the name,
/// if there is one.
pub(super) fn keep_slot(slot: &Path, output: &Path) -> Option<PathBuf> {
    make(Change::Rename(slot, output), || Ok(keep_file(slot, output))).ok().flatten()
}

/// Removes a file; a missing file is not an error.
pub(super) fn remove(path: &Path) -> Result<()> {
    make(Change::Remove(path), || gone(std::fs::remove_file(path)))
}

/// Removes a folder; a missing folder is not an error. Returns whether the folder is gone; false if
/// it is not empty.
pub(super) fn remove_folder(path: &Path) -> Result<bool> {
    make(Change::RemoveFolder(path), || match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        done => gone(done).map(|()| true),
    })
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
