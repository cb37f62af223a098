//! Files for direct I/O.
//!
//! ```text
//!            aligned range, aligned memory        anything else
//!                        │                              │
//!  DirectFile ─── O_DIRECT descriptor         ordinary descriptor ─── page cache
//!                        └──────────── one file ────────┘
//! ```
//!
//! Direct I/O moves data between the device and the caller's memory without a copy, and displaces
//! nothing from the page cache. It takes ranges of whole blocks; [`DirectFile::alignment`] returns
//! the length of a block.
//!
//! Both descriptors show the same bytes. Before a direct read the kernel writes back the dirty
//! pages of the range, and a direct write drops the cached pages. Only a *concurrent* write through
//! the page cache to the page that a direct write touches may restore old bytes: see
//! [`WriteRequest`](crate::io_queue::WriteRequest).
//!
//! Source: open(2) under O_DIRECT, statx(2) under STATX_DIOALIGN.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::{Error, Result, buffer::IoBuffer, traced};

/// The alignment assumed if neither the kernel nor a trial determines it.
const CAREFUL: usize = 4096;
/// The smallest block of any device.
const LEAST: usize = 512;
/// The maximal length of a file in bytes.
const LARGEST: u64 = i64::MAX as u64;

/// A file for direct I/O (O_DIRECT), with a fallback to the page cache if the file system has no
/// direct I/O or a request is not aligned.
///
/// [`IoQueue`](crate::io_queue::IoQueue)s perform the transfers: any number of them may use one
/// file concurrently. If the file system accepts O_DIRECT and then refuses a direct request, later
/// requests to the file go through the page cache.
///
/// ```
/// use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("file");
/// std::fs::write(&path, b"header and data")?;
/// let file = DirectFile::open(&path)?;
/// let mut buffer = IoBuffer::new(file.room(11, 4))?;
/// let mut read = ReadRequest { file: &file, offset: 11, len: 4, into: buffer.as_mut_slice() };
/// let lead = read.lead();
/// IoQueue::new(Method::Auto).read(std::slice::from_mut(&mut read))?;
/// assert_eq!(&buffer.as_slice()[lead..lead + 4], b"data");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DirectFile {
    name: PathBuf,
    /// The descriptor for requests through the page cache.
    cached: File,
    /// The descriptor with O_DIRECT, if the file system supports it.
    direct: Option<File>,
    /// False once the file system has refused a direct request.
    accepted: AtomicBool,
    /// False once the file system has refused a request because of the no-wait flag.
    unwaiting: AtomicBool,
    alignment: usize,
    /// The alignment of memory; divides `alignment`.
    memory: usize,
    writable: bool,
    /// The number of the file in traces.
    traced: u32,
}

impl DirectFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { action: "open", path: path.to_owned(), source };
        // Checked before opening: opening a pipe would wait for its other end.
        let stat = rustix::fs::stat(path).map_err(|error| failed(error.into()))?;
        regular(stat.st_mode).map_err(failed)?;
        Self::of(&File::open(path).map_err(failed)?, path, false)
    }

    /// Creates a direct file from an open file, which may be unnamed, for reading or for reading
    /// and writing.
    ///
    /// The file is opened again, so `file` and its state do not change. `name` is for messages.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if `write` is true and `file` is open for reading only; [`Error::File`]
    /// if it is not a regular file, not open for reading, or open for appending.
    pub fn of(file: &File, name: &Path, write: bool) -> Result<Self> {
        let failed = |source| Error::File { action: "use", path: name.to_owned(), source };
        regular(rustix::fs::fstat(file).map_err(|error| failed(error.into()))?.st_mode)
            .map_err(failed)?;
        let flags = rustix::fs::fcntl_getfl(file).map_err(|error| failed(error.into()))?;
        match flags & OFlags::ACCMODE {
            OFlags::RDWR => {}
            OFlags::RDONLY if write => {
                return Err(Error::ReadOnly { name: name.display().to_string() });
            }
            OFlags::RDONLY => {}
            _ => return Err(failed(io::Error::other("it is not open for reading"))),
        }
        if write && flags.contains(OFlags::APPEND) {
            return Err(failed(io::Error::other("it is open for appending")));
        }
        let cached = file.try_clone().map_err(failed)?;
        let direct = open_direct(file, write);
        let (alignment, memory) =
            direct.as_ref().map_or((1, 1), |(_, alignment, memory)| (*alignment, *memory));
        Ok(Self {
            name: name.to_owned(),
            cached,
            direct: direct.map(|(file, ..)| file),
            accepted: AtomicBool::new(true),
            unwaiting: AtomicBool::new(true),
            alignment,
            memory,
            writable: write,
            traced: traced::file(name),
        })
    }

    /// Returns whether aligned requests bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some() && self.accepted.load(Ordering::Relaxed)
    }

    /// Returns the length of a block in bytes: direct requests begin and end at multiples of it. It
    /// is a power of two, does not change while the file is open, and is 1 if all requests go
    /// through the page cache from the start.
    pub const fn alignment(&self) -> usize {
        self.alignment
    }

    /// Returns the number of bytes from the start of the block that contains `offset` to `offset`.
    pub const fn lead(&self, offset: u64) -> usize {
        (offset % self.alignment as u64) as usize
    }

    /// Returns the number of bytes of memory needed to read `len` bytes at `offset`: the blocks
    /// around them.
    pub fn room(&self, offset: u64, len: usize) -> usize {
        let blocks = |end: usize| end.checked_next_multiple_of(self.alignment);
        match len {
            0 => 0,
            // A result that overflows exceeds any memory.
            _ => self.lead(offset).checked_add(len).and_then(blocks).unwrap_or(usize::MAX),
        }
    }

    /// Returns the current length of the file in bytes.
    ///
    /// # Errors
    /// [`Error::File`] if the file system does not report it.
    #[expect(clippy::len_without_is_empty, reason = "of no use: this asks the file system")]
    pub fn len(&self) -> Result<u64> {
        match self.cached.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(source) => {
                Err(Error::File { action: "get the length of", path: self.name.clone(), source })
            }
        }
    }

    /// Returns the name of the file in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the number of the file in traces.
    pub(crate) const fn traced(&self) -> u32 {
        self.traced
    }

    pub(crate) const fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns whether `address` is aligned for direct I/O.
    pub(crate) const fn is_aligned(&self, address: usize) -> bool {
        address.is_multiple_of(self.memory)
    }

    /// Returns the descriptor for a request, and whether it is the direct one.
    pub(crate) fn descriptor(&self, offset: u64, address: usize, len: usize) -> (&File, bool) {
        let aligned = self.lead(offset) == 0
            && len.is_multiple_of(self.alignment)
            && self.is_aligned(address);
        match &self.direct {
            Some(direct) if aligned && self.is_direct() => (direct, true),
            _ => (&self.cached, false),
        }
    }

    /// Sends all later requests through the page cache.
    pub(crate) fn give_up_direct(&self) {
        // Relaxed: a thread that reads the old value makes one more request that is refused.
        self.accepted.store(false, Ordering::Relaxed);
    }

    /// Returns whether direct requests can be made with the no-wait flag (RWF_NOWAIT).
    pub(crate) fn is_unwaiting(&self) -> bool {
        self.unwaiting.load(Ordering::Relaxed)
    }

    /// Makes all later requests without the no-wait flag.
    pub(crate) fn give_up_unwaiting(&self) {
        // Relaxed: a thread that reads the old value makes one more request that is refused.
        self.unwaiting.store(false, Ordering::Relaxed);
    }

    /// Checks that `len` bytes at `offset` are within the maximal length of a file.
    pub(crate) fn check_range(&self, offset: u64, len: usize) -> Result<()> {
        // Less a block, because the range is rounded up to blocks.
        let asked = offset.saturating_add(len as u64);
        if asked <= LARGEST - self.alignment as u64 {
            return Ok(());
        }
        Err(Error::Range {
            name: self.name.display().to_string(),
            what: "bytes as its maximum",
            count: LARGEST,
            asked,
        })
    }

    /// Makes the file claim that it needs no alignment, so that its requests are refused.
    #[cfg(test)]
    pub(crate) fn claiming_no_alignment(mut self) -> Self {
        (self.alignment, self.memory) = (1, 1);
        self
    }
}

fn regular(mode: u32) -> io::Result<()> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// Opens the file again with O_DIRECT and returns it with its alignments for offset and memory;
/// `None` if it has no direct I/O or cannot be opened again.
fn open_direct(file: &File, write: bool) -> Option<(File, usize, usize)> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
    let direct = File::from(rustix::fs::open(again, flags, Mode::empty()).ok()?);
    let (offset, memory) = match told_alignment(&direct) {
        Some(told) => told,
        None => {
            let found = tried_alignment(&direct);
            (found, found)
        }
    };
    // Alignments of zero mean that this file has no direct I/O.
    let sound = offset.is_power_of_two() && memory.is_power_of_two();
    sound.then_some((direct, offset.max(memory), memory))
}

/// Returns the alignments for offset and memory that Linux 6.1 and later reports for most file
/// systems.
fn told_alignment(file: &File) -> Option<(usize, usize)> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    told.then_some((stat.stx_dio_offset_align as usize, stat.stx_dio_mem_align as usize))
}

/// Returns the alignment found by a trial: 512 if a read of 512 bytes succeeds. The trial needs a
/// file that has such bytes.
fn tried_alignment(file: &File) -> usize {
    let Ok(mut buffer) = IoBuffer::new(2 * LEAST) else {
        return CAREFUL;
    };
    match rustix::io::pread(file, &mut buffer.as_mut_slice()[LEAST..], LEAST as u64) {
        Ok(1..) => LEAST,
        _ => CAREFUL,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_found_by_trial_suffices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (bytes, least) in [(0, CAREFUL), (LEAST, CAREFUL), (10_000, LEAST)] {
            std::fs::write(&path, vec![1; bytes]).unwrap();
            let file = DirectFile::open(&path).unwrap();
            let Some(direct) = &file.direct else {
                return eprintln!("skipped: no direct I/O in {}", folder.path().display());
            };
            let found = tried_alignment(direct);
            assert!(found >= least && (found == LEAST || found == CAREFUL));
            if let Some((offset, memory)) = told_alignment(direct) {
                assert!(found >= offset.max(memory) || offset > CAREFUL);
            }
        }
    }

    #[test]
    fn room_is_for_whole_blocks() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 5000], 0).unwrap();
        let file = DirectFile::of(&file, Path::new("file"), true).unwrap();
        let block = file.alignment();
        assert_eq!(file.room(0, 0), 0);
        assert_eq!(file.room(0, block), block);
        assert_eq!(file.room(block as u64 - 1, 2), if block == 1 { 2 } else { 2 * block });
        assert_eq!(file.room(7, usize::MAX), usize::MAX);
        assert!(file.check_range(LARGEST, 1).is_err());
        assert!(file.check_range(u64::MAX, usize::MAX).is_err());
        assert!(file.check_range(LARGEST / 2, 1).is_ok());
    }
}
