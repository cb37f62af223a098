//! Bytes on file or in memory (heap, shared, borrowed), and their mapping into the address space.
//!
//! | chunk        | `map`                            | counted as traffic     | `prefetch` |
//! |--------------|----------------------------------|------------------------|------------|
//! | memory       | a pointer into the memory: free  | nothing                | no effect  |
//! | file         | a new mapping until dropped      | the bytes of each map  | fadvise    |
//! | file, held   | a pointer into the mapping: free | its whole length, once | no effect  |
//!
//! A mapping by itself reads nothing. [`Mapped::populate`] reads the pages, and reports an error
//! where an access would raise SIGBUS (the file was truncated, the disk failed).
//!
//! Source: the chunks of parXXL (J. Gustedt, S. Vialle, A. De Vivo, PARA 2006), as used by the
//! papers.
//!
//! # Why blocks are read in huge pages
//! A mapped block of a megabyte or more is populated in 2 MiB folios, without the read-ahead of
//! the kernel. That takes a tenth of the system time of single pages, and reads nothing beyond
//! the block. A kernel with 8 MiB of read-ahead read a third more than the model of a sweep in
//! blocks, and 8 MiB around every frontier of 16 KiB.

pub use syncline_memory::{Advice, Pages};

use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use syncline_memory::Access;
use syncline_memory::Segment;

use crate::{Error, Result, traced};

/// Returns the number of bytes of one read-ahead advice for this file. The kernel silently
/// truncates a longer advice to its read-ahead size or to the disk's largest request, whichever is
/// larger.
fn read_ahead(file: &File) -> usize {
    /// Half of the default of Linux, used if the disk does not report its read-ahead size.
    const USUAL: usize = 64 << 10;
    let Ok(device) = rustix::fs::fstat(file).map(|stat| stat.st_dev) else {
        return USUAL;
    };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A disk has a queue folder; the folder of a partition is below that of its disk.
    ["", "../"]
        .iter()
        .map(|up| format!("/sys/dev/block/{major}:{minor}/{up}queue/read_ahead_kb"))
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok())
        // Half, because a piece that does not begin on a page boundary takes one page more.
        .map_or(USUAL, |kib| (kib << 9).clamp(USUAL, 4 << 20))
}

/// Returns the time of a file's last modification, in nanoseconds since 1970.
pub(crate) fn modified(found: &Metadata) -> i128 {
    i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec())
}

/// Returns the version of the kernel: major and minor number.
fn kernel() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    })
}

/// The bytes mapped (or copied) for reading and for writing since a chunk was created.
///
/// The figures count the bytes that a computation requests, as the papers' model does
/// (`io_model` of `syncline_blocks`); the page cache may hold them already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes requested for reading.
    pub read: u64,
    /// The bytes requested for writing.
    pub written: u64,
}

/// The intended accesses to a mapped range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The range is read.
    Read,
    /// The range is overwritten entirely: counts as written only.
    Write,
    /// The range is read and written: counts as both.
    Update,
}

#[derive(Debug)]
enum Backing {
    Memory(Segment),
    File(File),
}

/// A range of bytes on file, on the heap or in a shared segment.
///
/// A chunk does not order accesses: [`map`](Self::map) hands out pointers.
/// [`Matrix`](crate::Matrix) and its tiles and regions are the safe interface.
#[derive(Debug)]
pub struct Chunk {
    backing: Backing,
    name: String,
    len: u64,
    access: Access,
    held: OnceLock<Segment>,
    /// The result of [`read_ahead`].
    ahead: usize,
    /// The number of the file in traces.
    traced: u32,
    // Relaxed throughout: statistics, which do not order other accesses.
    read: AtomicU64,
    written: AtomicU64,
}

impl Chunk {
    /// Creates a chunk of `bytes` zero bytes of private memory.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn heap(bytes: usize, pages: Pages) -> Result<Self> {
        let segment = Segment::heap(bytes, pages)
            .map_err(|error| Error::Memory { bytes, source: reason(error) })?;
        Ok(Self::new(
            Backing::Memory(segment),
            "heap memory".to_owned(),
            bytes as u64,
            Access::ReadWrite,
        ))
    }

    /// Creates a chunk of `bytes` zero bytes of memory that is shared with processes forked later.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn shared(bytes: usize) -> Result<Self> {
        let segment = Segment::shared(bytes)
            .map_err(|error| Error::Memory { bytes, source: reason(error) })?;
        Ok(Self::new(
            Backing::Memory(segment),
            "shared memory".to_owned(),
            bytes as u64,
            Access::ReadWrite,
        ))
    }

    /// Makes a chunk of memory.
    pub(crate) fn of_memory(segment: Segment) -> Self {
        let bytes = segment.len() as u64;
        Self::new(Backing::Memory(segment), "memory".to_owned(), bytes, Access::ReadWrite)
    }

    /// Returns the memory of a chunk that is not a file, and that may be written; gives others
    /// back.
    pub(crate) fn into_memory(self) -> std::result::Result<Segment, Box<Self>> {
        match self.backing {
            Backing::Memory(segment) if self.access == Access::ReadWrite => Ok(segment),
            backing => Err(Box::new(Self { backing, ..self })),
        }
    }

    /// Makes a chunk of memory that another owner keeps, for reading.
    ///
    /// # Safety
    /// As for [`Segment::borrowed`].
    pub unsafe fn borrowed(first: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller guarantees the same.
        let segment = unsafe { Segment::borrowed(first, bytes) };
        let name = "borrowed memory".to_owned();
        Self::new(Backing::Memory(segment), name, bytes as u64, Access::Read)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = open(path)?;
        Self::from_file(file, path, Access::Read)
    }

    /// Creates a chunk from an open file, with the file's current length; `path` is for messages.
    /// For [`Access::ReadWrite`] the file must be open for reading and writing.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn from_file(file: File, path: &Path, access: Access) -> Result<Self> {
        let metadata = file.metadata();
        let len = metadata
            .map_err(|source| Error::File { action: "open", path: path.to_owned(), source })?
            .len();
        Ok(Self::new(Backing::File(file), path.display().to_string(), len, access))
    }

    fn new(backing: Backing, name: String, len: u64, access: Access) -> Self {
        let ahead = match &backing {
            Backing::File(file) => read_ahead(file),
            Backing::Memory(_) => usize::MAX,
        };
        let traced = match &backing {
            Backing::File(_) => traced::file(Path::new(&name)),
            Backing::Memory(_) => u32::MAX,
        };
        Self {
            ahead,
            traced,
            backing,
            name,
            len,
            access,
            held: OnceLock::new(),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the path, or the kind of memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the bytes are on file.
    pub const fn is_file(&self) -> bool {
        matches!(self.backing, Backing::File(_))
    }

    /// Returns the file, if the bytes are on file.
    pub(crate) const fn file(&self) -> Option<&File> {
        match &self.backing {
            Backing::File(file) => Some(file),
            Backing::Memory(_) => None,
        }
    }

    /// Returns the current length of the file and the time of its last modification, in nanoseconds
    /// since 1970; `None` in memory. If two results differ, the file was changed between the calls.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn version(&self) -> Result<Option<(u64, i128)>> {
        let Some(file) = self.file() else { return Ok(None) };
        let found = file.metadata();
        let found = found.map_err(|source| Error::File {
            action: "look at",
            path: self.name().into(),
            source,
        })?;
        Ok(Some((found.len(), modified(&found))))
    }

    /// Returns whether the bytes may be written.
    pub fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// Returns whether maps are free: true for heap, shared memory and held files.
    pub fn is_resident(&self) -> bool {
        self.resident().is_some()
    }

    fn resident(&self) -> Option<&Segment> {
        match &self.backing {
            Backing::Memory(segment) => Some(segment),
            Backing::File(_) => self.held.get(),
        }
    }

    /// Maps the whole file, reads it in for `touch`, and keeps the mapping: for files that fit the
    /// memory allowed.
    ///
    /// Later maps are free and not counted; instead the whole length is counted once. Holding a
    /// file twice, or holding memory, has no effect.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the file may not be written, [`Error::Part`] if it cannot be mapped
    /// or read.
    pub fn hold(&self, touch: Touch) -> Result<()> {
        let Backing::File(file) = &self.backing else {
            return Ok(());
        };
        if self.is_resident() || self.len == 0 {
            return Ok(());
        }
        if touch != Touch::Read && !self.is_writable() {
            return Err(Error::ReadOnly { name: self.name.clone() });
        }
        let segment = self.segment(file, 0..self.len)?;
        // Failures are ignored: the advice only makes reading faster.
        let _ = segment.advise(0..segment.len(), Advice::Sequential);
        self.populate(&segment, 0, 0..segment.len(), touch != Touch::Read)?;
        let _ = segment.advise(0..segment.len(), Advice::Normal);
        // If two threads hold the file at once, one of the mappings is kept; both map the same
        // pages.
        if self.held.set(segment).is_ok() {
            self.count(touch, self.len);
        }
        Ok(())
    }

    /// Makes `range` addressable until the result is dropped, and counts its bytes.
    ///
    /// # Errors
    /// [`Error::Range`] if the chunk ends before the range, [`Error::ReadOnly`] if it may not be
    /// written, [`Error::Part`] if the operating system cannot map it.
    ///
    /// ```
    /// use syncline_store::chunk::{Chunk, Pages, Touch};
    /// let chunk = Chunk::heap(4096, Pages::Small)?;
    /// let mapped = chunk.map(16..32, Touch::Update)?;
    /// // SAFETY: 16 bytes are mapped, and no other code uses them.
    /// unsafe { mapped.as_ptr().write(7) };
    /// assert_eq!(mapped.len(), 16);
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub fn map(&self, range: Range<u64>, touch: Touch) -> Result<Mapped<'_>> {
        let bytes = range.end.saturating_sub(range.start);
        self.map_counting(range, touch, bytes)
    }

    /// Like [`map`](Self::map), but counts `bytes`, for ranges of which only a part will be
    /// touched.
    pub(crate) fn map_counting(
        &self,
        range: Range<u64>,
        touch: Touch,
        bytes: u64,
    ) -> Result<Mapped<'_>> {
        if range.start > range.end || range.end > self.len {
            return Err(self.out_of_range(range.end));
        }
        if touch != Touch::Read && !self.is_writable() {
            return Err(Error::ReadOnly { name: self.name.clone() });
        }
        let len = (range.end - range.start) as usize;
        let offset = range.start;
        let (pointer, fresh) = match (self.resident(), &self.backing) {
            (Some(segment), _) | (None, Backing::Memory(segment)) => {
                // SAFETY: the range was checked to lie within the chunk, which is as long as the
                // segment.
                let pointer = unsafe { segment.as_ptr().add(offset as usize) };
                (pointer, None)
            }
            // The system does not support mappings of zero bytes.
            (None, Backing::File(_)) if len == 0 => (std::ptr::dangling_mut::<f64>().cast(), None),
            (None, Backing::File(file)) => {
                let segment = self.segment(file, range)?;
                self.count(touch, bytes);
                (segment.as_ptr(), Some(segment))
            }
        };
        Ok(Mapped { chunk: self, pointer, len, offset, fresh })
    }

    fn count(&self, touch: Touch, bytes: u64) {
        if touch != Touch::Write {
            self.read.fetch_add(bytes, Ordering::Relaxed);
        }
        if touch != Touch::Read {
            self.written.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn out_of_range(&self, asked: u64) -> Error {
        Error::Range { name: self.name.clone(), what: "bytes", count: self.len, asked }
    }

    fn part(&self, action: &'static str, range: Range<u64>, source: io::Error) -> Error {
        let len = range.end - range.start;
        Error::Part { action, name: self.name.clone(), offset: range.start, len, source }
    }

    fn segment(&self, file: &File, range: Range<u64>) -> Result<Segment> {
        let len = (range.end - range.start) as usize;
        Segment::file(file, range.start, len, self.access)
            .map_err(|error| self.part("map", range, reason(error)))
    }

    /// Faults in a range of a segment that is mapped at `offset` of the file.
    fn populate(
        &self,
        segment: &Segment,
        offset: u64,
        range: Range<usize>,
        write: bool,
    ) -> Result<()> {
        let (action, advice) = match write {
            true => ("write", Advice::PopulateWrite),
            false => ("read", Advice::PopulateRead),
        };
        let bytes = offset + range.start as u64..offset + range.end as u64;
        let _waits = traced::awaits(self.traced);
        segment.advise(range, advice).map_err(|error| self.part(action, bytes, reason(error)))
    }

    /// Returns the bytes requested so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            read: self.read.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
        }
    }

    /// Requests that `range` be read into the page cache in the background. This is a hint and
    /// never fails.
    pub fn prefetch(&self, range: Range<u64>) {
        if let (Backing::File(file), None) = (&self.backing, self.held.get()) {
            let _waits = traced::awaits(self.traced);
            for start in range.clone().step_by(self.ahead) {
                let len = NonZeroU64::new((range.end - start).min(self.ahead as u64));
                let _ = rustix::fs::fadvise(file, start, len, rustix::fs::Advice::WillNeed);
            }
        }
    }

    /// Copies the bytes from `offset` on into `bytes`, by `pread` if they are not in memory, and
    /// counts them.
    ///
    /// # Safety
    /// No thread and no process may write these bytes of the chunk during the call.
    pub(crate) unsafe fn copy_out(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.len {
            return Err(self.out_of_range(end));
        }
        match (self.resident(), &self.backing) {
            (Some(segment), _) | (None, Backing::Memory(segment)) => {
                // SAFETY: the source range lies within the segment, and the caller guarantees that
                // it is not written (see `# Safety`); `bytes` is borrowed exclusively, so the two
                // do not overlap.
                unsafe {
                    let from = segment.as_ptr().add(offset as usize);
                    from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
                }
            }
            (None, Backing::File(file)) => {
                let _waits = traced::awaits(self.traced);
                file.read_exact_at(bytes, offset)
                    .map_err(|source| self.part("read", offset..end, source))?;
                self.count(Touch::Read, bytes.len() as u64);
            }
        }
        Ok(())
    }

    /// Copies `bytes` to `offset`, by `pwrite` if the chunk is not in memory, and counts them.
    ///
    /// # Safety
    /// No thread and no process may read or write these bytes of the chunk during the call.
    pub(crate) unsafe fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.len {
            return Err(self.out_of_range(end));
        }
        if !self.is_writable() {
            return Err(Error::ReadOnly { name: self.name.clone() });
        }
        match (self.resident(), &self.backing) {
            (Some(segment), _) | (None, Backing::Memory(segment)) => {
                // SAFETY: the destination range lies within the segment, which is writable, and the
                // caller guarantees that no other code accesses it (see `# Safety`), so `bytes`
                // does not overlap it.
                unsafe {
                    let to = segment.as_ptr().add(offset as usize);
                    to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                }
            }
            (None, Backing::File(file)) => {
                let _waits = traced::awaits(self.traced);
                file.write_all_at(bytes, offset)
                    .map_err(|source| self.part("write", offset..end, source))?;
                self.count(Touch::Write, bytes.len() as u64);
            }
        }
        Ok(())
    }
}

/// Returns the system's reason for an error of a segment; [`Error`] contains the other facts.
fn reason(error: syncline_memory::Error) -> io::Error {
    match error {
        syncline_memory::Error::Segment { source, .. }
            if source.raw_os_error() == Some(rustix::io::Errno::FAULT.raw_os_error()) =>
        {
            io::Error::other("the file was truncated, or its disk fails")
        }
        syncline_memory::Error::Segment { source, .. } => source,
        syncline_memory::Error::PastEnd { file_len, .. } => {
            io::Error::other(format!("the file was truncated to {file_len} bytes"))
        }
        other => io::Error::other(other),
    }
}

/// Opens a regular file for reading; the error names the file.
pub(crate) fn open(path: &Path) -> Result<File> {
    let failed = |source| Error::File { action: "open", path: path.to_owned(), source };
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    File::open(path).map_err(failed)
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// [`Error::File`] if the file cannot be read, is not a regular file, is longer, or is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let file = open(path)?;
    let len = file.metadata().map_err(failed)?.len();
    if len > most {
        return Err(failed(io::Error::other(format!("it has {len} bytes, more than {most}"))));
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(file, most), &mut text).map_err(failed)?;
    Ok(text)
}

/// A range of a chunk that stays mapped until this value is dropped.
#[derive(Debug)]
pub struct Mapped<'a> {
    chunk: &'a Chunk,
    pointer: *mut u8,
    len: usize,
    offset: u64,
    /// The mapping, if this range has its own.
    fresh: Option<Segment>,
}

impl Mapped<'_> {
    /// Returns a pointer to the first byte. Accesses through it must be within [`len`](Self::len),
    /// may write only if the range was mapped for writing, and must be ordered with all other
    /// accesses. A range of a file should be [populated](Self::populate) first.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether this is a new mapping of a file, whose pages have to be faulted in.
    pub const fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }

    /// Faults in `range` of a fresh mapping, for reading or for writing; has no effect on others.
    ///
    /// # Errors
    /// [`Error::Part`] if touching the range would raise SIGBUS: the file was truncated, or its
    /// disk fails.
    pub fn populate(&self, range: Range<usize>, write: bool) -> Result<()> {
        match &self.fresh {
            Some(segment) if !range.is_empty() => {
                self.chunk.populate(segment, self.offset, range, write)
            }
            _ => Ok(()),
        }
    }

    /// Requests that `range` of a fresh mapping, of any length, be read in the background. Never
    /// fails.
    pub(crate) fn read_ahead(&self, range: Range<usize>) {
        let ahead = self.chunk.ahead;
        let _waits = self.fresh.is_some().then(|| traced::awaits(self.chunk.traced));
        for start in range.clone().step_by(ahead) {
            self.advise(start..range.end.min(start + ahead), Advice::WillNeed);
        }
    }

    /// Disables huge pages in a fresh mapping: with huge pages, [`Advice::DontNeed`] on a part
    /// would unmap all of it. Has no effect on other mappings, and never fails.
    pub(crate) fn small_pages(&self) {
        self.advise_pages(rustix::mm::Advice::LinuxNoHugepage);
    }

    /// Requests that a fresh mapping be read in whole huge pages, also with [`Advice::Random`].
    /// Returns whether the kernel supports it: since 5.18, if it has huge pages at all.
    pub(crate) fn read_huge_pages(&self) -> bool {
        kernel() >= (5, 18) && self.advise_pages(rustix::mm::Advice::LinuxHugepage)
    }

    fn advise_pages(&self, advice: rustix::mm::Advice) -> bool {
        let Some(segment) = &self.fresh else {
            return false;
        };
        let page = rustix::param::page_size();
        let lead = segment.as_ptr().addr() % page;
        let first = segment.as_ptr().wrapping_sub(lead);
        let len = lead + segment.len();
        // SAFETY: the range is the pages of the segment's mapping, which begins on the page of the
        // segment's first byte; `self` keeps the mapping alive, and the advice changes no byte.
        unsafe { rustix::mm::madvise(first.cast(), len, advice) }.is_ok()
    }

    /// Advises the kernel how `range` of a fresh mapping will be used; has no effect on others, and
    /// never fails.
    pub fn advise(&self, range: Range<usize>, advice: Advice) {
        if let Some(segment) = &self.fresh {
            let _ = segment.advise(range, advice);
        }
    }
}
