//! The folder of a run beside the output, its files, and its lock.
//!
//! ```text
//! OUTPUT.syncline/   lock   manifest   manifest.part   generation.0   generation.1
//! ```
//!
//! A computation of several outputs has one folder, beside the first of them, and for output `n`,
//! from 1, the slots `generation.0.n` and `generation.1.n`.
//!
//! The lock is a `flock`, so it ends with its process. The lock file is removed with the folder: a
//! run that gets the lock on a file that no longer exists tries again.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::disk;
use crate::newfile::is_at;
use crate::{Error, Result};

/// The number of attempts to take the lock, because [`peek`](RunFolder::peek) of another process
/// holds it for a moment.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 5 });

/// The folder of a run.
#[derive(Debug, Clone)]
pub(super) struct RunFolder {
    pub(super) output: PathBuf,
    pub(super) folder: PathBuf,
}

/// Flags for the files of a run that exist.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) manifest: bool,
    /// Whether slots or an unfinished manifest exist.
    pub(super) others: bool,
    /// The paths of the slots.
    slots: Vec<PathBuf>,
}

impl RunFolder {
    /// Returns the place of `output`.
    pub(super) fn of(output: &Path) -> Result<Self> {
        let not_a_file = || Error::File {
            action: "create",
            path: output.to_owned(),
            source: Errno::ISDIR.into(),
        };
        let mut name = output.file_name().ok_or_else(not_a_file)?.to_owned();
        name.push(".syncline");
        Ok(Self { output: output.to_owned(), folder: output.with_file_name(name) })
    }

    /// Returns the folder that contains the output.
    pub(super) fn parent(&self) -> &Path {
        crate::newfile::folder(&self.output)
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.folder.join("manifest")
    }

    /// Returns the path of the next manifest until it is complete.
    pub(super) fn part(&self) -> PathBuf {
        self.folder.join("manifest.part")
    }

    /// Returns the path of a generation of an output.
    pub(super) fn slot(&self, generation: u64, output: usize) -> PathBuf {
        let slot = generation % 2;
        self.folder.join(match output {
            0 => format!("generation.{slot}"),
            _ => format!("generation.{slot}.{output}"),
        })
    }

    /// Returns the files in the folder; `None` if there is no folder.
    pub(super) fn contents(&self) -> Result<Option<Contents>> {
        let failed = |source| Error::File { action: "read", path: self.folder.clone(), source };
        match self.folder.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(Error::Foreign { path: self.folder.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let mut contents = Contents::default();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_type().map_err(failed)?.is_file();
            match entry.file_name().to_str() {
                Some("lock") if file => {}
                Some("manifest") if file => contents.manifest = true,
                Some("manifest.part") if file => contents.others = true,
                Some(name) if file && is_slot(name) => {
                    contents.others = true;
                    contents.slots.push(entry.path());
                }
                _ => return Err(Error::Foreign { path: entry.path() }),
            }
        }
        contents.slots.sort();
        Ok(Some(contents))
    }

    /// Takes the lock, and creates the folder first if `create` is true; `None` if there is no
    /// folder.
    pub(super) fn enter(&self, create: bool) -> Result<Option<File>> {
        let path = self.lock();
        let failed = |source| Error::File { action: "lock", path: path.clone(), source };
        for _ in 0..TRIES {
            if create {
                disk::make_folder(&self.folder)?;
            }
            if self.contents()?.is_none() && !create {
                return Ok(None);
            }
            let lock = match disk::create(&path) {
                // A run that ended has just removed the folder.
                Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                lock => lock?,
            };
            match lock.try_lock() {
                Ok(()) if is_at(&lock, &path) => return Ok(Some(lock)),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Err(Error::Busy { path })
    }

    /// Takes the lock shared, which excludes runs while the files are inspected; `None` if there is
    /// no lock file.
    pub(super) fn peek(&self) -> Result<Option<File>> {
        self.contents()?;
        let path = self.lock();
        let failed = |source| Error::File { action: "lock", path: path.clone(), source };
        let lock = match disk::open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock.map_err(failed)?,
        };
        for _ in 0..TRIES {
            match lock.try_lock_shared() {
                Ok(()) => return Ok(Some(lock)),
                // A forked process holds the locks of its parent until it executes another program.
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        Err(Error::Busy { path })
    }

    /// Removes all files of a run. The manifest is removed first, so that a crash in between does
    /// not leave an incomplete run that looks resumable.
    pub(super) fn discard(&self) -> Result<()> {
        disk::remove(&self.manifest())?;
        disk::sync_folder(&self.folder)?;
        self.remove_files()?;
        self.remove_folder()
    }

    /// Removes all files beside a complete output. The manifest is removed last, because it shows
    /// that the output is complete.
    pub(super) fn tidy(&self) -> Result<()> {
        disk::sync_folder(self.parent())?;
        self.remove_files()?;
        disk::sync_folder(&self.folder)?;
        disk::remove(&self.manifest())?;
        self.remove_folder()
    }

    fn remove_files(&self) -> Result<()> {
        let slots = self.contents()?.unwrap_or_default().slots;
        std::iter::once(self.part()).chain(slots).try_for_each(|path| disk::remove(&path))
    }

    /// Removes a folder that contains only a lock.
    pub(super) fn remove_folder(&self) -> Result<()> {
        disk::remove(&self.lock())?;
        if !disk::remove_folder(&self.folder)? {
            // Files of another run that has started since are permitted, foreign files are not.
            self.contents()?;
        }
        disk::sync_folder(self.parent())
    }
}

/// Returns whether a file of this name is a slot.
fn is_slot(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("generation.") else { return false };
    let (slot, output) = rest.split_once('.').unwrap_or((rest, "1"));
    matches!(slot, "0" | "1") && output.parse::<u16>().is_ok_and(|n| n.to_string() == output)
}
