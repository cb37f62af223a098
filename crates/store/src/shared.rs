//! Files that several hosts open: an output in progress, and inputs.
//!
//! # Contract
//! A [`SharedNewFile`] is a [`NewFile`] with a hidden name, by which other processes and hosts open
//! it. Rank 0 creates it and commits it; it appears under its own name completely or not at all.
//!
//! ```text
//!  rank 0   create ─ clear the dead ─ .NAME.syncline-0123456789abcdef, locked, preallocated, token
//!             │
//!             ├─ name ──> other ranks: open, and compare length and token: is it the same file?
//!             │           all write, all sync their data, barrier
//!             ├─ commit ─ renamed to NAME ── folder to disk
//!             └─ drop ── removed;   kill -9 ── the next run for NAME removes it
//! ```
//!
//! | a hidden file beside NAME         | is found by the next `create` for NAME                   |
//! |-----------------------------------|----------------------------------------------------------|
//! | its run is alive: it holds a lock | kept, and reported as kept                               |
//! | its run is dead: the lock is free | removed, and reported as removed                         |
//! | it cannot be opened or locked     | kept, and reported as kept                               |
//! | created a moment ago, not locked  | may be removed: its run finds this after locking it, and |
//! |                                   | creates another                                          |
//!
//! The lock is a `flock`, which ends with the last process that has inherited it. No live run loses
//! its file, on the assumption that a lock on one host is seen on the others: local file systems,
//! Lustre with `flock`, NFS with a working lock service. Where files cannot be locked at all, none
//! is removed.
//!
//! # Visibility between hosts
//! NFS promises that an `open` sees what was synced or closed before it. The token is synced before
//! `create` returns, and the hidden name is random, so no host has cached that it does not exist.
//! Data that a host has synced ([`File::sync_data`]) are on the server; so all hosts sync, then
//! there is a barrier, then rank 0 commits. Rank 0 cannot sync the data of another host.
//!
//! # Costs
//! `create` reads the folder once, and writes and syncs 32 bytes, which the data overwrite. Opening
//! reads them. An [`InputView`] reads at most 128 KiB.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags};

use crate::chunk::modified;
use crate::newfile::{FileState, folder, is_at};
use crate::{Error, NewFile, Result, checksum::Checksum, traced};

#[cfg(test)]
mod tests;

/// What is between the name of the output and the random part.
const INFIX: &[u8] = b".syncline-";
/// The number of hexadecimal digits of the random part.
const DIGITS: usize = 16;
/// The first bytes of the token in a file.
const MAGIC: &[u8; 16] = b"syncline shared\n";
/// The length of the token with its first bytes; a shorter file has no token.
const TOKEN: usize = 32;
/// The number of attempts to create a file that no other run removes before it is locked.
const TRIES: u32 = 100;
/// The bytes at each end of an input that are compared.
const ENDS: usize = 64 << 10;

/// An output in progress that other processes can open by the [`name`](Self::name).
///
/// ```
/// use std::os::unix::fs::FileExt;
/// use syncline_store::newfile::FileState;
/// use syncline_store::shared::{SharedName, SharedNewFile};
/// # let folder = tempfile::tempdir()?;
/// # let target = folder.path().join("answer");
/// let standing = FileState::of(&target)?;
/// let new = SharedNewFile::create(&target, 100, "rank 0 on a")?;
/// let message = new.name().encode();
///
/// // On another host:
/// let name = SharedName::decode(&message).ok_or("a damaged message")?;
/// let file = name.open(&target, "rank 1 on b")?;
/// file.write_all_at(b"42", 98)?;
/// file.sync_data()?;
///
/// // On rank 0, after a barrier:
/// new.commit_over(&standing)?;
/// assert_eq!(std::fs::read(&target)?[98..], *b"42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedNewFile {
    new: NewFile,
    name: SharedName,
    leftovers: Leftovers,
}

/// The name by which other processes open a [`SharedNewFile`], and the means to recognise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedName {
    /// The name in the folder of the output.
    file: OsString,
    bytes: u64,
    token: [u8; 16],
    /// The creator, as messages name it.
    creator: String,
}

/// Hidden files of earlier runs that were found beside an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The files of dead runs. They are removed.
    pub removed: Vec<PathBuf>,
    /// The files of runs that are alive, or that could not be removed.
    pub kept: Vec<PathBuf>,
}

impl SharedNewFile {
    /// Creates a file of `bytes` bytes that will be named `target`, under a hidden name in the same
    /// folder, and reserves its space on disk; first removes the files of dead runs for `target`.
    /// `creator` names this process in messages of other processes: "rank 0 on node1".
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the file system has fewer than `bytes` bytes free; [`Error::File`] if
    /// the folder is missing or not writable, or `target` is a folder.
    pub fn create(target: &Path, bytes: u64, creator: &str) -> Result<Self> {
        Self::create_with_room(target, bytes, bytes, creator)
    }

    /// Creates several files that have the same target, of which one will be named so: no file is
    /// left if there is not enough space for all.
    ///
    /// # Errors
    /// Those of [`create`](Self::create); [`Error::NoSpace`] counts all of the files.
    pub fn create_several(
        target: &Path,
        bytes: u64,
        creator: &str,
        count: usize,
    ) -> Result<Vec<Self>> {
        let mut files = Vec::new();
        for left in (1..=count as u64).rev() {
            let room = bytes.saturating_mul(left);
            let file = Self::create_with_room(target, bytes, room, creator);
            files.push(file.map_err(|error| match error {
                Error::NoSpace { path, needed, free } => {
                    // The space of these files is free again when the caller gets the error.
                    let own = bytes.saturating_mul(files.len() as u64);
                    let (needed, free) = (needed.saturating_add(own), free.saturating_add(own));
                    Error::NoSpace { path, needed, free }
                }
                error => error,
            })?);
        }
        Ok(files)
    }

    /// Creates a file if `room` bytes are free.
    fn create_with_room(target: &Path, bytes: u64, room: u64, creator: &str) -> Result<Self> {
        let failed = |source| Error::File { action: "create", path: target.to_owned(), source };
        let leftovers = clear(target)?;
        let new = NewFile::create_by(target, bytes, room, || {
            create_locked(target).map(|(file, path)| (file, Some(path)))
        })?;
        let name = SharedName {
            file: new.part().and_then(Path::file_name).unwrap_or_default().to_owned(),
            bytes,
            token: random().map_err(failed)?,
            creator: creator.to_owned(),
        };
        if bytes >= TOKEN as u64 {
            new.file().write_all_at(&name.in_file(), 0).map_err(failed)?;
        }
        // The length too.
        let waits = traced::awaits_named(target);
        new.file().sync_all().map_err(failed)?;
        drop(waits);
        // The page is not read from the cache again: another host may write it. A failure is
        // harmless, as the file is opened again to be read.
        let _ = rustix::fs::fadvise(new.file(), 0, None, Advice::DontNeed);
        Ok(Self { new, name, leftovers })
    }

    /// Returns the name, to be sent to the other processes.
    pub const fn name(&self) -> &SharedName {
        &self.name
    }

    /// Returns the files of earlier runs that were found.
    pub const fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// Returns the file, open for reading and writing.
    pub const fn file(&self) -> &File {
        self.new.file()
    }

    /// Returns the name that the file will have.
    pub fn target(&self) -> &Path {
        self.new.target()
    }

    /// Gives the file its name, like [`NewFile::commit`]. The other processes have synced their
    /// data before.
    ///
    /// # Errors
    /// Those of [`NewFile::commit`].
    pub fn commit(self) -> Result<()> {
        self.new.commit()
    }

    /// Returns the file, to be committed together with others. The other processes have synced
    /// their data before.
    pub fn into_new(self) -> NewFile {
        self.new
    }

    /// Gives the file its name, like [`NewFile::commit_over`]. The other processes have synced
    /// their data before.
    ///
    /// # Errors
    /// Those of [`NewFile::commit_over`].
    pub fn commit_over(self, then: &FileState) -> Result<()> {
        self.new.commit_over(then)
    }
}

impl SharedName {
    /// Opens the file for reading and writing, and checks that it is the file of its creator. To be
    /// called before any process writes data to the file. `target` is the name of the output as
    /// this process knows it, and `opener` names this process in messages.
    ///
    /// # Errors
    /// [`Error::NotShared`] if the folder of `target` is not the one in which the creator has made
    /// the file; [`Error::File`] if the file cannot be opened or read.
    pub fn open(&self, target: &Path, opener: &str) -> Result<File> {
        let folder = folder(target);
        let path = folder.join(&self.file);
        let failed = |source| Error::File { action: "open", path: path.clone(), source };
        let Self { file: name, bytes, creator, .. } = self;
        let differs = |sees: String| Error::NotShared {
            path: target.to_owned(),
            why: format!(
                "{creator} wrote {} of {bytes} bytes beside it, {opener} sees {sees} in {}; give a \
                 path on a file system that all hosts share",
                name.display(),
                folder.display()
            ),
        };
        let file = match open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(differs("no such file".to_owned()));
            }
            file => file.map_err(failed)?,
        };
        let len = file.metadata().map_err(failed)?.len();
        if len != *bytes {
            return Err(differs(format!("one of {len} bytes")));
        }
        if len >= TOKEN as u64 {
            let mut found = [0; TOKEN];
            file.read_exact_at(&mut found, 0).map_err(failed)?;
            if found != self.in_file() {
                return Err(differs("one with other bytes".to_owned()));
            }
        }
        Ok(file)
    }

    /// Returns the number of bytes of the file.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the path of the file beside `target`, for messages.
    pub fn path(&self, target: &Path) -> PathBuf {
        folder(target).join(&self.file)
    }

    /// Returns a message that another process [decodes](Self::decode).
    pub fn encode(&self) -> Vec<u8> {
        let (file, creator) = (self.file.as_bytes(), self.creator.as_bytes());
        let mut message = self.bytes.to_le_bytes().to_vec();
        message.extend_from_slice(&self.token);
        message.extend_from_slice(&(file.len() as u32).to_le_bytes());
        message.extend_from_slice(file);
        message.extend_from_slice(creator);
        message
    }

    /// Returns the name in a message; `None` if there is none, or it is not the name of a file of
    /// [`SharedNewFile`].
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (bytes, rest) = message.split_first_chunk::<8>()?;
        let (token, rest) = rest.split_first_chunk::<16>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (file, creator) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let infix = file.len().checked_sub(INFIX.len() + DIGITS)?;
        if !file[infix..].starts_with(INFIX) || file.contains(&b'/') {
            return None;
        }
        Some(Self {
            file: OsString::from_vec(file.to_vec()),
            bytes: u64::from_le_bytes(*bytes),
            token: *token,
            creator: String::from_utf8(creator.to_vec()).ok()?,
        })
    }

    fn in_file(&self) -> [u8; TOKEN] {
        let mut bytes = [0; TOKEN];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..].copy_from_slice(&self.token);
        bytes
    }
}

/// Removes the hidden files of dead runs for `target`, and returns them and those of live runs.
///
/// # Errors
/// [`Error::File`] if the folder cannot be read.
pub fn clear(target: &Path) -> Result<Leftovers> {
    let folder = folder(target);
    let failed = |source| Error::File { action: "read", path: folder.to_owned(), source };
    let prefix = prefix(target);
    let mut found = Leftovers::default();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let digits = name.as_bytes().strip_prefix(prefix.as_bytes());
        let is_hex = |digit: &u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit);
        let is_ours = digits.is_some_and(|all| all.len() == DIGITS && all.iter().all(is_hex));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = folder.join(name);
        match remove_dead(&path) {
            Ok(true) => found.removed.push(path),
            // Its run has removed or renamed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(false) | Err(_) => found.kept.push(path),
        }
    }
    Ok(found)
}

/// Removes a hidden file unless its run is alive; returns whether it was removed.
fn remove_dead(path: &Path) -> io::Result<bool> {
    let file = open(path)?;
    match file.try_lock() {
        // The lock may be that of a run that ended after the file was opened. A name is random, so
        // no other file gets it.
        Ok(()) if is_at(&file, path) => std::fs::remove_file(path).map(|()| true),
        Ok(()) => Err(io::ErrorKind::NotFound.into()),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Creates and locks a hidden file beside `target`.
fn create_locked(target: &Path) -> io::Result<(File, PathBuf)> {
    for _ in 0..TRIES {
        let path = hidden(target)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o666);
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok((file, path)),
            // Another run took it for the file of a dead run, and removes it.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // No files can be locked here, so none is taken for dead.
            Err(TryLockError::Error(_)) => return Ok((file, path)),
        }
    }
    Err(io::Error::other("other runs remove its temporary file again and again"))
}

/// Returns the hidden name of a file for `target`, without the random part.
fn prefix(target: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(OsStr::from_bytes(INFIX));
    name
}

fn hidden(target: &Path) -> io::Result<PathBuf> {
    let mut name = prefix(target);
    let number = u128::from_le_bytes(random()?) as u64;
    name.push(format!("{number:0DIGITS$x}"));
    Ok(folder(target).join(name))
}

/// Opens an existing file for reading and writing; a symbolic link is not followed.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What a process sees of an input: its length, its time, and a checksum of its first and last
/// 64 KiB, which contain the header of a `.npy` file.
///
/// Two hosts that see the same almost certainly read the same file or copies of it; a change in the
/// middle of a file that keeps length and time is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputView {
    bytes: u64,
    modified_ns: i128,
    ends: u64,
}

impl InputView {
    /// Looks at a file.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read.
    pub fn of(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "look at", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let mut sum = Checksum::new();
        let mut buffer = vec![0; ENDS];
        for at in [0, found.len().saturating_sub(ENDS as u64)] {
            let part = &mut buffer[..found.len().min(ENDS as u64) as usize];
            file.read_exact_at(part, at).map_err(failed)?;
            sum.update(part);
        }
        Ok(Self { bytes: found.size(), modified_ns: modified(&found), ends: sum.value() })
    }

    /// Checks that another process sees the same as this one. `path` is that of the input; `here`
    /// and `there` name the processes.
    ///
    /// # Errors
    /// [`Error::NotShared`] names the difference.
    pub fn check(&self, other: &Self, path: &Path, here: &str, there: &str) -> Result<()> {
        let why = if self.bytes != other.bytes {
            let (ours, theirs) = (self.bytes, other.bytes);
            format!("it has {ours} bytes for {here}, {theirs} for {there}")
        } else if self.ends != other.ends {
            format!("it begins or ends with other bytes for {here} than for {there}")
        } else if self.modified_ns != other.modified_ns {
            let (ours, theirs) = (self.modified_ns, other.modified_ns);
            format!("it was modified at {ours} ns for {here}, at {theirs} ns for {there}")
        } else {
            return Ok(());
        };
        Err(Error::NotShared { path: path.to_owned(), why })
    }

    /// Returns a message that another process [decodes](Self::decode).
    pub fn encode(&self) -> [u8; 32] {
        let mut message = [0; 32];
        message[..8].copy_from_slice(&self.bytes.to_le_bytes());
        message[8..24].copy_from_slice(&self.modified_ns.to_le_bytes());
        message[24..].copy_from_slice(&self.ends.to_le_bytes());
        message
    }

    /// Returns the view in a message.
    pub fn decode(message: &[u8; 32]) -> Self {
        let mut view = Self { bytes: 0, modified_ns: 0, ends: 0 };
        let (bytes, rest) = message.split_at(8);
        let (time, ends) = rest.split_at(16);
        // The lengths are those of the message.
        view.bytes = bytes.try_into().map_or(0, u64::from_le_bytes);
        view.modified_ns = time.try_into().map_or(0, i128::from_le_bytes);
        view.ends = ends.try_into().map_or(0, u64::from_le_bytes);
        view
    }
}
