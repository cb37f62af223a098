//! Bytes on file, on the heap or in a shared segment; when, how and how much of them is mapped.
//!
//! | chunk        | `map`                         | counts as traffic      | `prefetch` |
//! |--------------|-------------------------------|------------------------|------------|
//! | heap, shared | a pointer into it: free       | nothing                | nothing    |
//! | file         | a new mapping until dropped   | what each map says     | fadvise    |
//! | file, held   | a pointer into the held: free | its whole length, once | nothing    |
//!
//! A mapping by itself reads nothing. [`Mapped::populate`] does, and turns what would be a SIGBUS (the file
//! was truncated, the disk failed) into an error.
//!
//! Source: the chunks of parXXL (J. Gustedt, S. Vialle, A. De Vivo, PARA 2006), as used by the papers.

pub use syncline_memory::{Advice, Pages};

use std::fs::{File, Metadata};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_memory::{Access, Segment};

use crate::{Error, Result};

/// The bytes of one piece of advice to read ahead in this file. The kernel silently cuts a longer one off
/// at its read-ahead size or at the disk's largest request, whichever is larger.
fn read_ahead(file: &File) -> usize {
    /// Half of what Linux begins with, where the disk does not tell.
    const USUAL: usize = 64 << 10;
    let Ok(device) = rustix::fs::fstat(file).map(|stat| stat.st_dev) else {
        return USUAL;
    };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A disk has a queue; a partition is below the disk that has.
    ["", "../"]
        .iter()
        .map(|up| format!("/sys/dev/block/{major}:{minor}/{up}queue/read_ahead_kb"))
        .find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok())
        // Half, as a piece that does not begin on a page takes one page more.
        .map_or(USUAL, |kib| (kib << 9).clamp(USUAL, 4 << 20))
}

/// When a file was last written, in nanoseconds since 1970.
pub(crate) fn modified(found: &Metadata) -> i128 {
    i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec())
}

/// The version of the kernel: major and minor number.
fn kernel() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    })
}

/// Bytes mapped (or copied) for reading and for writing since a chunk was made.
///
/// This counts what a computation asks for, as the papers' model does ([`io_model`](crate::model::io_model)); the
/// page cache may have it already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// For reading.
    pub read: u64,
    /// For writing.
    pub written: u64,
}

/// What a range is mapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// To be read.
    Read,
    /// To be overwritten wholly: counts as written only.
    Write,
    /// To be read and written: counts as both.
    Update,
}

#[derive(Debug)]
enum Backing {
    Memory(Segment),
    File(File),
}

/// Bytes on file, heap or shared segment.
///
/// Nothing here orders accesses: [`map`](Self::map) hands out pointers. [`Matrix`](crate::Matrix) and its
/// tiles and regions are the safe way in.
#[derive(Debug)]
pub struct Chunk {
    backing: Backing,
    name: String,
    len: u64,
    access: Access,
    held: OnceLock<Segment>,
    /// See [`read_ahead`].
    ahead: usize,
    // Statistics: read and written independently of everything else, hence Relaxed throughout.
    read: AtomicU64,
    written: AtomicU64,
}

impl Chunk {
    /// `bytes` zero bytes of private memory.
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

    /// `bytes` zero bytes of memory that processes forked later share.
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

    /// The bytes of a file, for reading.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = open(path)?;
        Self::from_file(file, path, Access::Read)
    }

    /// The bytes of an open file, as long as it is now; `path` is for messages. For [`Access::ReadWrite`] the
    /// file must be open for both.
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
        Self {
            ahead,
            backing,
            name,
            len,
            access,
            held: OnceLock::new(),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Number of bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The path, or what kind of memory it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the bytes are on file.
    pub const fn is_file(&self) -> bool {
        matches!(self.backing, Backing::File(_))
    }

    /// The file, if the bytes are on one.
    pub(crate) const fn file(&self) -> Option<&File> {
        match &self.backing {
            Backing::File(file) => Some(file),
            Backing::Memory(_) => None,
        }
    }

    /// The length of the file now and when it was last written, in nanoseconds since 1970; `None` in memory. If
    /// it is another than it was, the file was changed meanwhile.
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

    /// Whether the bytes may be written.
    pub fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// Whether maps are free: heap, shared, or a held file.
    pub fn is_resident(&self) -> bool {
        self.resident().is_some()
    }

    fn resident(&self) -> Option<&Segment> {
        match &self.backing {
            Backing::Memory(segment) => Some(segment),
            Backing::File(_) => self.held.get(),
        }
    }

    /// Maps the whole file, brings it in for what `touch` says, and keeps the mapping: for files that fit the
    /// memory allowed.
    ///
    /// Later maps cost nothing and are not counted; instead the whole length is counted once. Holding twice,
    /// or holding memory, does nothing.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when it may not be written, [`Error::Part`] when the file cannot be mapped or read.
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
        // The advice only makes the reading faster.
        let _ = segment.advise(0..segment.len(), Advice::Sequential);
        self.populate(&segment, 0, 0..segment.len(), touch != Touch::Read)?;
        let _ = segment.advise(0..segment.len(), Advice::Normal);
        // Of two that hold at once one keeps its mapping; both map the same pages.
        if self.held.set(segment).is_ok() {
            self.count(touch, self.len);
        }
        Ok(())
    }

    /// Makes `range` addressable until the result is dropped, and counts its bytes.
    ///
    /// # Errors
    /// [`Error::Range`] when the chunk ends before the range, [`Error::ReadOnly`] when it may not be written,
    /// [`Error::Part`] when the operating system cannot map it.
    ///
    /// ```
    /// use syncline_store::chunk::{Chunk, Pages, Touch};
    /// let chunk = Chunk::heap(4096, Pages::Small)?;
    /// let mapped = chunk.map(16..32, Touch::Update)?;
    /// // SAFETY: 16 bytes are mapped, and nobody else uses them.
    /// unsafe { mapped.as_ptr().write(7) };
    /// assert_eq!(mapped.len(), 16);
    /// # Ok::<(), syncline_store::Error>(())
    /// ```
    pub fn map(&self, range: Range<u64>, touch: Touch) -> Result<Mapped<'_>> {
        let bytes = range.end.saturating_sub(range.start);
        self.map_counting(range, touch, bytes)
    }

    /// [`map`](Self::map) that counts `bytes`, for ranges of which only a part will be touched.
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
                // SAFETY: the range was checked to lie within the chunk, which is as long as the segment.
                let pointer = unsafe { segment.as_ptr().add(offset as usize) };
                (pointer, None)
            }
            // The system has no mappings of no bytes.
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

    /// Faults in a range of a segment that was mapped at `offset` of the file.
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
        segment.advise(range, advice).map_err(|error| self.part(action, bytes, reason(error)))
    }

    /// The bytes asked for so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            read: self.read.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
        }
    }

    /// Asks for `range` to be read into the page cache in the background. A hint: it never fails.
    pub fn prefetch(&self, range: Range<u64>) {
        if let (Backing::File(file), None) = (&self.backing, self.held.get()) {
            for start in range.clone().step_by(self.ahead) {
                let len = NonZeroU64::new((range.end - start).min(self.ahead as u64));
                let _ = rustix::fs::fadvise(file, start, len, rustix::fs::Advice::WillNeed);
            }
        }
    }

    /// Copies the bytes from `offset` on into `bytes`, by `pread` where they are not in memory, and counts
    /// them.
    ///
    /// # Safety
    /// Nobody may write these bytes of the chunk meanwhile.
    pub(crate) unsafe fn copy_out(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.len {
            return Err(self.out_of_range(end));
        }
        match (self.resident(), &self.backing) {
            (Some(segment), _) | (None, Backing::Memory(segment)) => {
                // SAFETY: the range lies within the segment, the caller keeps writers away, and `bytes` is
                // exclusive.
                unsafe {
                    let from = segment.as_ptr().add(offset as usize);
                    from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
                }
            }
            (None, Backing::File(file)) => {
                file.read_exact_at(bytes, offset)
                    .map_err(|source| self.part("read", offset..end, source))?;
                self.count(Touch::Read, bytes.len() as u64);
            }
        }
        Ok(())
    }

    /// Copies `bytes` to `offset`, by `pwrite` where the chunk is not in memory, and counts them.
    ///
    /// # Safety
    /// Nobody may read or write these bytes of the chunk meanwhile.
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
                // SAFETY: the range lies within the segment, which is writable, and the caller keeps all
                // others away.
                unsafe {
                    let to = segment.as_ptr().add(offset as usize);
                    to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                }
            }
            (None, Backing::File(file)) => {
                file.write_all_at(bytes, offset)
                    .map_err(|source| self.part("write", offset..end, source))?;
                self.count(Touch::Write, bytes.len() as u64);
            }
        }
        Ok(())
    }
}

/// The system's reason for an error of a segment; the rest of its text is in ours.
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

/// Opens a file for reading, or says which cannot be.
pub(crate) fn open(path: &Path) -> Result<File> {
    let failed = |source| Error::File { action: "open", path: path.to_owned(), source };
    // To open a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    File::open(path).map_err(failed)
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// [`Error::File`] when the file cannot be read, is not a regular one, is longer, or is not UTF-8.
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

/// A range of a chunk in the address space, for as long as this lives.
#[derive(Debug)]
pub struct Mapped<'a> {
    chunk: &'a Chunk,
    pointer: *mut u8,
    len: usize,
    offset: u64,
    /// The mapping, if it is this range's own.
    fresh: Option<Segment>,
}

impl Mapped<'_> {
    /// The first byte. Reading or writing through it is up to the caller: within [`len`](Self::len), writing
    /// only if mapped for it, and ordered with everybody else's accesses. A file is best
    /// [populated](Self::populate) first.
    pub const fn as_ptr(&self) -> *mut u8 {
        self.pointer
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this is a new mapping of a file, whose pages have to be faulted in.
    pub const fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }

    /// Faults in `range` of a fresh mapping, for reading or for writing; does nothing for others.
    ///
    /// # Errors
    /// [`Error::Part`] where touching the range would raise SIGBUS: the file is now shorter, or its disk
    /// fails.
    pub fn populate(&self, range: Range<usize>, write: bool) -> Result<()> {
        match &self.fresh {
            Some(segment) if !range.is_empty() => {
                self.chunk.populate(segment, self.offset, range, write)
            }
            _ => Ok(()),
        }
    }

    /// Asks for `range` of a fresh mapping to be read in the background, whatever its length. Never fails.
    pub(crate) fn read_ahead(&self, range: Range<usize>) {
        let ahead = self.chunk.ahead;
        for start in range.clone().step_by(ahead) {
            self.advise(start..range.end.min(start + ahead), Advice::WillNeed);
        }
    }

    /// Forbids huge pages in a fresh mapping, of which otherwise [`Advice::DontNeed`] on a part unmaps all;
    /// does nothing for others, and never fails.
    pub(crate) fn small_pages(&self) {
        self.advise_pages(rustix::mm::Advice::LinuxNoHugepage);
    }

    /// Asks for a fresh mapping to be read in huge pages, whole ones only, also with [`Advice::Random`].
    /// Whether the kernel will: since 5.18, if it has huge pages at all.
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
        // SAFETY: these are the pages of the segment's mapping, which begins on the page of its first byte;
        // `self` keeps it, and the advice changes no byte.
        unsafe { rustix::mm::madvise(first.cast(), len, advice) }.is_ok()
    }

    /// Advises on how `range` of a fresh mapping will be used; does nothing for others, and never fails.
    pub fn advise(&self, range: Range<usize>, advice: Advice) {
        if let Some(segment) = &self.fresh {
            let _ = segment.advise(range, advice);
        }
    }
}
