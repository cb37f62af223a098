//! An output file that appears completely or not at all.
//!
//! ```text
//! create ── space checked ── unnamed file in the target's folder (O_TMPFILE), preallocated
//!    │
//!    ├─ commit ── data to disk ─┬─ linked as NAME ─────────────────────────────┬─ folder to disk
//!    │                          └─ linked as .NAME.PID.N.part, renamed to NAME ┘
//!    └─ drop, crash, kill ── the unnamed file is gone (between link and rename: the part stays)
//! ```
//!
//! `linkat` cannot replace a file, `rename` can: hence the short-lived second name if NAME exists.
//! If the file system lacks O_TMPFILE, the file has the second name from the start, and only a kill
//! can leave it behind. If it has neither links nor a `rename` that replaces nothing, a new NAME is
//! an empty file for a moment.
//!
//! # Contract
//! A complete file that cannot get its name is not lost: [`commit`](NewFile::commit) and
//! [`commit_over`](NewFile::commit_over) give it another one (`kept.rs`), and [`Error::Kept`] says
//! which. It is lost only if its data did not reach the disk, or if the folder takes no name at
//! all.

mod kept;
mod output_path;
mod replaceable;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

pub use kept::keep_file;
pub use output_path::{OutputKind, check_together, output_path};
pub use replaceable::check_replaceable;

use crate::chunk::modified;
use crate::{Error, Result, traced};

/// An output in progress: a file that gets its name when it is [committed](Self::commit).
///
/// If it is dropped without a commit, nothing remains, and an existing file keeps the name.
///
/// ```
/// use std::os::unix::fs::FileExt;
/// # let folder = tempfile::tempdir()?;
/// # let target = folder.path().join("answer");
/// let new = syncline_store::NewFile::create(&target, 2)?;
/// new.file().write_all_at(b"42", 0)?;
/// assert!(!target.exists());
/// new.commit()?;
/// assert_eq!(std::fs::read(&target)?, b"42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    file: File,
    bytes: u64,
    target: PathBuf,
    /// The temporary name of the file, if it has one; taken when the file is renamed.
    part: Option<PathBuf>,
    /// Whether data did not reach the disk. A second sync would succeed wrongly.
    is_damaged: bool,
}

impl NewFile {
    /// Creates a file of `bytes` zero bytes that will be named `target`, and reserves its space on
    /// disk. The file has the permissions of an existing file `target`, but its owner, the caller,
    /// may always read and write it; the old file's owner and group are not kept.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the file system has fewer than `bytes` bytes free; [`Error::File`] if
    /// the folder is missing or not writable, or `target` is a folder.
    pub fn create(target: &Path, bytes: u64) -> Result<Self> {
        Self::create_by(target, bytes, bytes, || open(folder(target), target))
    }

    /// Like [`create`](Self::create), with a file that `open` makes once `room` bytes were found
    /// free, and its temporary name, if it has one.
    pub(crate) fn create_by(
        target: &Path,
        bytes: u64,
        room: u64,
        open: impl FnOnce() -> io::Result<(File, Option<PathBuf>)>,
    ) -> Result<Self> {
        let failed =
            |action, source: io::Error| Error::File { action, path: target.to_owned(), source };
        let folder = folder(target);
        if target.file_name().is_none() || target.is_dir() {
            return Err(failed("create", Errno::ISDIR.into()));
        }
        let free = free_bytes(folder).map_err(|source| failed("create", source))?;
        let no_space = |free| Error::NoSpace { path: target.to_owned(), needed: room, free };
        if free < room {
            return Err(no_space(free));
        }
        let (file, part) = open().map_err(|source| failed("create", source))?;
        let new = Self { file, bytes, target: target.to_owned(), part, is_damaged: false };
        keep_mode(&new.file, target).map_err(|source| failed("create", source))?;
        match new.allocate() {
            Ok(()) => Ok(new),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(no_space(free_bytes(folder).unwrap_or(free))),
            Err(error) => Err(failed("allocate", error.into())),
        }
    }

    fn allocate(&self) -> Result<(), Errno> {
        if self.bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(&self.file, self.bytes),
            done => done,
        }
    }

    /// Returns the file, which will not be named: nothing of it remains when it is closed, however
    /// the program ends.
    pub(crate) fn into_nameless(self) -> Result<File> {
        // A temporary name, used if O_TMPFILE is missing, is removed with `self`.
        let failed = |source| Error::File { action: "create", path: self.target.clone(), source };
        self.file.try_clone().map_err(failed)
    }

    /// Gives the file the name `path`, which no file may have, in place of that of its target.
    pub(crate) fn name_as(&mut self, path: &Path) -> io::Result<File> {
        match &self.part {
            Some(part) => std::fs::rename(part, path)?,
            None => link_as(&self.file, path)?,
        }
        self.part = None;
        self.file.try_clone()
    }

    /// Returns the file, open for reading and writing.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the number of bytes that the file was created with.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the temporary name, if the file has one.
    pub(crate) fn part(&self) -> Option<&Path> {
        self.part.as_deref()
    }

    /// Returns the name that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Writes the data to disk and gives the file its name, replacing an existing file; on return
    /// both the data and the name are on disk. The file is a result that took long: if it cannot
    /// get its name, it [keeps](Self::keep) another one.
    ///
    /// # Errors
    /// [`Error::File`]; the target is then unchanged, unless the last step, syncing the folder,
    /// failed. It is the source of [`Error::Kept`] if the file was kept.
    pub fn commit(mut self) -> Result<()> {
        let done = self.commit_as(RenameFlags::empty());
        done.map_err(|error| self.keep(error))
    }

    /// Like [`commit`](Self::commit), but an error if the name exists; the existing file is not
    /// changed. After an error nothing remains of the new file.
    ///
    /// # Errors
    /// [`Error::File`], also if the target exists.
    pub fn commit_new(mut self) -> Result<()> {
        self.commit_as(RenameFlags::NOREPLACE)
    }

    /// Like [`commit`](Self::commit), but replaces only the file that `then` recorded, if it
    /// recorded one.
    ///
    /// # Errors
    /// [`Error::Appeared`] if the name belongs to another file; [`Error::File`]. Both are the
    /// source of [`Error::Kept`] if the file was kept.
    pub fn commit_over(mut self, then: &FileState) -> Result<()> {
        let done = self.try_over(then);
        done.map_err(|error| self.keep(error))
    }

    fn try_over(&mut self, then: &FileState) -> Result<()> {
        // First the data, which may take minutes, in which another program may make the file.
        self.sync().map_err(|source| Error::File {
            action: "write",
            path: self.target.clone(),
            source,
        })?;
        then.check(&self.target)?;
        if then.0.is_some() {
            return self.commit_as(RenameFlags::empty());
        }
        match self.commit_as(RenameFlags::NOREPLACE) {
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Appeared { path: self.target.clone() })
            }
            done => done,
        }
    }

    /// Gives a complete file that could not get its name another one, beside its target, and
    /// returns [`Error::Kept`], which names it; `error` itself if that fails as well, if the file
    /// has its name, or if the data do not reach the disk.
    #[must_use]
    pub fn keep(mut self, error: Error) -> Error {
        let kept = self.try_keep();
        error.kept(kept)
    }

    /// Gives the file the first name of the table of `kept.rs` that it can get, and returns it.
    pub(crate) fn try_keep(&mut self) -> Option<PathBuf> {
        let is_named = self.part.is_none() && is_at(&self.file, &self.target);
        if is_named || self.sync().is_err() {
            return None;
        }
        let kept = kept::kept_under(&self.target, |kept| match &self.part {
            Some(part) => rename_new(part, kept),
            None => Ok(link_as(&self.file, kept)?),
        });
        // The temporary name is no longer removed by the drop.
        let part = self.part.take().filter(|part| is_at(&self.file, part));
        kept.or(part)
    }

    /// Brings the data to disk.
    fn sync(&mut self) -> io::Result<()> {
        let _waits = traced::awaits_named(&self.target);
        let damaged = || Err(io::Error::other("an earlier write did not reach the disk"));
        let synced = if self.is_damaged { damaged() } else { self.file.sync_data() };
        self.is_damaged = synced.is_err();
        synced
    }

    fn commit_as(&mut self, flags: RenameFlags) -> Result<()> {
        let target = self.target.clone();
        let failed = |action| {
            let target = target.clone();
            move |source: io::Error| Error::File { action, path: target, source }
        };
        if let Some(part) = &self.part {
            check_named(part)?;
        }
        self.sync().map_err(failed("write"))?;
        if self.part.is_none() {
            match link_as(&self.file, &target) {
                Err(Errno::EXIST) if flags != RenameFlags::NOREPLACE => {
                    self.part = Some(link(&self.file, &target).map_err(failed("link"))?);
                }
                named => named.map_err(|error| failed("rename to")(error.into()))?,
            }
        }
        if let Some(part) = &self.part {
            let named = match flags {
                RenameFlags::NOREPLACE => rename_new(part, &target),
                _ => std::fs::rename(part, &target),
            };
            named.map_err(failed("rename to"))?;
        }
        self.part = None;
        let folder = folder(&target);
        let _waits = traced::awaits_named(folder);
        let folder = File::open(folder).map_err(failed("sync the folder of"))?;
        folder.sync_all().map_err(failed("sync the folder of"))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // A failure is ignored: it cannot be repaired here, and nothing depends on success.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// A record of the file that has a name, if any, to check later that it is still the same file.
///
/// A file is identified by its inode number, length and modification time. The record can be stored
/// as text and parsed again.
///
/// ```
/// use syncline_store::newfile::FileState;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("out");
/// let then = FileState::of(&path)?;
/// assert_eq!(then.to_string().parse(), Ok(then.clone()));
/// then.check(&path)?;
/// std::fs::write(&path, "by another program")?;
/// assert!(then.check(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState(Option<(u64, u64, i128)>);

impl FileState {
    /// Records the file at `path`; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`Error::File`] if its metadata cannot be read.
    pub fn of(path: &Path) -> Result<Self> {
        match path.symlink_metadata() {
            Ok(found) => Ok(Self(Some((found.ino(), found.len(), modified(&found))))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(None)),
            Err(source) => Err(Error::File { action: "look at", path: path.to_owned(), source }),
        }
    }

    /// Checks that the name still belongs to the recorded file, or to no file.
    ///
    /// # Errors
    /// [`Error::Appeared`] if it belongs to another file, [`Error::File`] if its metadata cannot be
    /// read.
    pub fn check(&self, path: &Path) -> Result<()> {
        match Self::of(path)? {
            Self(None) => Ok(()),
            now if now == *self => Ok(()),
            _ => Err(Error::Appeared { path: path.to_owned() }),
        }
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("nothing"),
            Some((number, bytes, time)) => write!(f, "{number} {bytes} {time}"),
        }
    }
}

impl FromStr for FileState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "nothing" {
            return Ok(Self(None));
        }
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or(());
        let number = word()?.parse().map_err(|_| ())?;
        let bytes = word()?.parse().map_err(|_| ())?;
        let time = word()?.parse().map_err(|_| ())?;
        words.next().map_or(Ok(Self(Some((number, bytes, time)))), |_| Err(()))
    }
}

/// Renames a file unless the target exists.
fn rename_new(part: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, part, CWD, target, RenameFlags::NOREPLACE) {
        // For example NFS, which does not support flags.
        Err(Errno::INVAL) => rename_by_link(part, target),
        done => Ok(done?),
    }
}

/// Renames a file unless the target exists, by links, on file systems that cannot do so by
/// `rename`.
fn rename_by_link(part: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::link(part, target) {
        Ok(()) => {
            // The target has its name, so a part that cannot be removed is not a failure.
            let _ = std::fs::remove_file(part);
            Ok(())
        }
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            rename_over_own(part, target)
        }
        Err(error) => Err(error.into()),
    }
}

/// Renames a file unless the target exists, on file systems that have no links either: an empty
/// file keeps the name from all others, and is replaced. A crash in between leaves it.
fn rename_over_own(part: &Path, target: &Path) -> io::Result<()> {
    let own = File::create_new(target)?;
    std::fs::rename(part, target).inspect_err(|_| {
        if is_at(&own, target) {
            let _ = std::fs::remove_file(target);
        }
    })
}

/// Gives a new file the permissions of the file that it will replace, if there is one. The owner
/// keeps read and write permission: the file is opened again for direct I/O, and when a run is
/// resumed.
pub(crate) fn keep_mode(file: &File, target: &Path) -> io::Result<()> {
    match target.metadata() {
        Ok(old) if old.is_file() => {
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777 | 0o600))
        }
        _ => Ok(()),
    }
}

/// Checks that a file that is being written still has its name, `path`: another program may have
/// removed it. The number of names would not do: NFS gives a removed file that is open another one.
///
/// # Errors
/// [`Error::Removed`] if there is no file of that name; [`Error::File`] if that is not known.
pub fn check_named(path: &Path) -> Result<()> {
    match FileState::of(path)? {
        FileState(None) => Err(Error::Removed { path: path.to_owned() }),
        FileState(Some(_)) => Ok(()),
    }
}

/// Returns whether `file` is the file at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Returns the folder of `target`.
pub(crate) fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the number of bytes available to the caller in the file system of `path`, a file or
/// folder.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    if stat.f_blocks == 0 {
        // ramfs and others do not report it: a lack of space shows on allocation.
        return Ok(u64::MAX);
    }
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns a hidden name next to `target` that no other process and no other output of this process
/// uses.
fn part_name(target: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{number}.part", std::process::id()));
    folder(target).join(name)
}

fn open(folder: &Path, target: &Path) -> io::Result<(File, Option<PathBuf>)> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok((File::from(file), None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let (file, part) = open_named(target)?;
            Ok((file, Some(part)))
        }
        Err(error) => Err(error.into()),
    }
}

fn open_named(target: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let part = part_name(target);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o666);
        match options.open(&part) {
            // Left behind by a killed process that had the same number: use the next name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return Ok((other?, part)),
        }
    }
}

/// Gives an unnamed file a temporary name next to `target`.
fn link(file: &File, target: &Path) -> io::Result<PathBuf> {
    loop {
        let part = part_name(target);
        match link_as(file, &part) {
            Ok(()) => return Ok(part),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives an unnamed file the name `path`.
fn link_as(file: &File, path: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    // This form needs no privilege, see open(2) under O_TMPFILE.
    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW)
}
