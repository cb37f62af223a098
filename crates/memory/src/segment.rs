//! Owned mappings of bytes: private heap memory, memory shared between processes, or a window of a
//! file; and memory that has another owner.
//!
//! | constructor             | initial bytes     | visible to         | system object           |
//! |-------------------------|-------------------|--------------------|-------------------------|
//! | [`heap`](Segment::heap) | zero              | this process       | anonymous private pages |
//! | [`shared`], [`from_fd`] | zero              | descriptor holders | memfd                   |
//! | [`file`](Segment::file) | those of the file | users of the file  | page cache              |
//! | [`borrowed`]            | those there       | their owner        | none                    |
//!
//! [`borrowed`]: Segment::borrowed
//! [`shared`]: Segment::shared
//! [`from_fd`]: Segment::from_fd
//!
//! ```text
//!   base                       as_ptr                    as_ptr + len      base + mapped
//!    | page . . . | page . . .  |########## segment ###########|  . . . page |
//!    |<-------- lead ---------->|<------------ len ----------->|
//! ```
//!
//! `lead` is the offset of the window within its first page, or the distance to the next 2 MiB
//! boundary for huge pages; otherwise it is 0. All `unsafe` code for mappings is in this file and
//! in `reserve`, which implements segments that reserve address space and take memory on demand.

mod reserve;

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicUsize;

use rustix::fs::{FileType, MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::{Error, Result};

/// The size and alignment of a huge page on x86-64 and on aarch64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;

/// The permitted accesses to a file-backed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The bytes may be read. Writing to them raises a fault.
    Read,
    /// The bytes may be read and written; writes reach the file.
    ReadWrite,
}

/// The page size requested for a heap segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The ordinary pages of the machine.
    Small,
    /// Transparent huge pages, if the kernel supports them. This is advice, not a requirement. The
    /// segment begins on a 2 MiB boundary in either case.
    Huge,
}

/// Advice to the kernel about the use of a range of a segment. No advice changes the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// No expectation; reverts `Sequential` and `Random`.
    Normal,
    /// Sequential reads in ascending order: the kernel reads far ahead.
    Sequential,
    /// Reads in random order: the kernel does not read ahead.
    Random,
    /// Reads are imminent: the kernel starts to bring the pages in, and the call does not wait for
    /// them.
    WillNeed,
    /// Not needed soon: unmaps the pages that lie entirely inside the range.
    ///
    /// Shared and file segments keep their bytes in the page cache, and the next access maps them
    /// again. A heap segment has no other copy of its bytes, so the advice has no effect on it.
    DontNeed,
    /// Brings the pages in, maps them for reading, and returns when this is done.
    ///
    /// A page that cannot be brought in (the file was truncated, the disk failed) is reported as an
    /// error, instead of raising a bus error at a later access. Has no effect before Linux 5.14.
    PopulateRead,
    /// Like `PopulateRead`, but prepares the pages for writing: a file system without space for a
    /// hole in the file reports an error.
    PopulateWrite,
}

/// The system object behind a mapping.
enum Backing {
    Heap,
    Shared(OwnedFd),
    File,
    Borrowed,
}

/// An owned mapping of bytes, unmapped when dropped.
///
/// A segment has a fixed length and a fixed address; moving the `Segment` does not move its bytes.
/// Length 0 is allowed everywhere and creates no mapping.
///
/// # Safety of references into a segment
/// This type gives out a raw pointer only. Code that makes a reference from it must guarantee that
/// the bytes are within `len`, that the reference does not outlive the segment, and that no thread
/// and no other process that maps the same descriptor or file writes to the bytes during its
/// lifetime, unless they are atomics or cells. Files add a fourth condition: if a file is
/// truncated, accessing the lost pages raises a bus error ([`Advice::PopulateRead`] detects this
/// beforehand).
///
/// # Examples
/// ```
/// use syncline_memory::{Pages, Segment};
///
/// let segment = Segment::heap(1 << 20, Pages::Huge)?;
/// // SAFETY: the segment is that long and private, zeroed bytes are valid bytes, and `bytes` is
/// // the only reference and ends before the segment does.
/// let bytes = unsafe { std::slice::from_raw_parts_mut(segment.as_ptr(), segment.len()) };
/// assert!(bytes.iter().all(|&byte| byte == 0));
/// bytes[12] = 34;
/// # Ok::<(), syncline_memory::Error>(())
/// ```
pub struct Segment {
    /// The first mapped byte, on a page boundary; the first byte of borrowed memory; dangling if
    /// there is neither.
    base: *mut u8,
    /// The number of bytes mapped from `base`: a multiple of the page size, or 0.
    mapped: usize,
    /// The number of bytes from `base` to the segment's first byte.
    lead: usize,
    len: usize,
    access: Access,
    backing: Backing,
    /// For reserved segments, the number of bytes from the start that may be accessed; otherwise
    /// `None`.
    opened: Option<AtomicUsize>,
}

// SAFETY: a `Segment` owns its mapping, which belongs to the process and not to a thread; its
// methods read only its own fields, and any thread may unmap the mapping.
unsafe impl Send for Segment {}
// SAFETY: as for `Send`; `&Segment` gives out a raw pointer, and dereferencing it is `unsafe` for
// its user.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment of zeroed memory, private to this process.
    ///
    /// `len` is in bytes. The segment begins on a page boundary, or on a 2 MiB boundary with
    /// [`Pages::Huge`]. The kernel allocates each page on first touch, on the memory node of the
    /// touching thread.
    ///
    /// # Errors
    /// [`Error::Segment`] if no address space or memory is left, [`Error::TooLong`] if `len` cannot
    /// be rounded up to pages.
    pub fn heap(len: usize, pages: Pages) -> Result<Segment> {
        if len == 0 {
            return Ok(Segment::empty(Access::ReadWrite, Backing::Heap));
        }
        // The kernel aligns to pages only, so huge pages need slack to align in. The slack is
        // neither touched nor trimmed: it costs addresses, not memory.
        let slack = match pages {
            Pages::Small => 0,
            Pages::Huge => HUGE_PAGE - page_size(),
        };
        let mapped = page_ceil(len)
            .and_then(|whole| whole.checked_add(slack))
            .ok_or(Error::TooLong { offset: 0, len: len as u64 })?;
        // SAFETY: the address is null, so the kernel picks unused addresses and changes no existing
        // mapping.
        let base = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(refused("map", 0, len))?
        .cast::<u8>();
        let lead = match pages {
            Pages::Small => 0,
            Pages::Huge => base.addr().wrapping_neg() % HUGE_PAGE,
        };
        let (access, backing) = (Access::ReadWrite, Backing::Heap);
        let segment = Segment { base, mapped, lead, len, access, backing, opened: None };
        if pages == Pages::Huge {
            // SAFETY: the range lies in the mapping just made, and the advice changes no byte. A
            // kernel without huge pages refuses; the segment then has small pages.
            let _ = unsafe {
                mm::madvise(segment.as_ptr().cast(), mapped - lead, mm::Advice::LinuxHugepage)
            };
        }
        Ok(segment)
    }

    /// Creates a segment of zeroed memory that other processes can attach to by its descriptor.
    ///
    /// The memory is an unnamed memfd with mode 0600, closed on exec. It is freed when no process
    /// maps it or holds its descriptor. Its length is sealed, so no process can truncate it while
    /// others use it. To share it, pass [`fd`](Self::fd) to another process (as a standard stream
    /// of a child, by clearing close-on-exec on a copy, or over a socket), which calls
    /// [`from_fd`](Self::from_fd).
    ///
    /// # Errors
    /// [`Error::Segment`] if the system has no descriptor, memory or address space left.
    ///
    /// # Examples
    /// ```
    /// use syncline_memory::Segment;
    ///
    /// let mine = Segment::shared(4096)?;
    /// let fd = mine.fd().expect("a shared segment has a descriptor").try_clone_to_owned()?;
    /// let theirs = Segment::from_fd(fd)?;
    /// // SAFETY: both pointers are good for 4096 bytes, and only this thread uses them.
    /// unsafe {
    ///     mine.as_ptr().write(7);
    ///     assert_eq!(theirs.as_ptr().read(), 7);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared(len: usize) -> Result<Segment> {
        let fd = make_memfd(len as u64).map_err(refused("make shared memory of", 0, len))?;
        Segment::map_shared(fd, len)
    }

    /// Attaches to a shared segment by its descriptor, which the segment keeps.
    ///
    /// The descriptor comes from [`shared`](Self::shared) in another process, or from another file
    /// of shared memory. The length of the segment is the current length of the file.
    ///
    /// # Errors
    /// [`Error::WrongDescriptor`] if `fd` is not a regular file (a pipe or a socket, for example);
    /// [`Error::Segment`] if it is not open for reading and writing, or if it cannot be mapped.
    pub fn from_fd(fd: OwnedFd) -> Result<Segment> {
        let stat = rustix::fs::fstat(&fd).map_err(refused("attach to", 0, 0))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let expected = "a shared segment";
            return Err(Error::WrongDescriptor { fd: fd.as_raw_fd(), expected });
        }
        let file_len = stat.st_size as u64;
        let len =
            usize::try_from(file_len).map_err(|_| Error::TooLong { offset: 0, len: file_len })?;
        Segment::map_shared(fd, len)
    }

    /// Maps a window of a file, which may begin at any byte.
    ///
    /// `offset` and `len` are in bytes. The mapping is shared: writes through it reach the file
    /// (`fsync` on the file makes them durable), and writes by other processes are visible. The
    /// segment outlives `file` and keeps no descriptor.
    ///
    /// # Errors
    /// [`Error::PastEnd`] if a regular file ends before the window does; [`Error::Segment`] if
    /// `file` is not open for `access`, or if it cannot be mapped.
    ///
    /// # Examples
    /// ```
    /// use std::io::Write;
    /// use syncline_memory::{Access, Segment};
    ///
    /// let mut file = tempfile::tempfile()?;
    /// file.write_all(b"header, then data")?;
    /// let segment = Segment::file(&file, 13, 4, Access::Read)?;
    /// // SAFETY: the segment is 4 bytes long, and no other code writes to the file.
    /// assert_eq!(unsafe { std::slice::from_raw_parts(segment.as_ptr(), 4) }, b"data");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file(file: &impl AsFd, offset: u64, len: usize, access: Access) -> Result<Segment> {
        let too_long = Error::TooLong { offset, len: len as u64 };
        let Some(end) = offset.checked_add(len as u64) else {
            return Err(too_long);
        };
        let stat = rustix::fs::fstat(file).map_err(refused("map", offset, len))?;
        let file_len = stat.st_size as u64;
        // Devices report no length, and answer an access beyond their end themselves.
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && end > file_len {
            return Err(Error::PastEnd { offset, len, file_len });
        }
        if len == 0 {
            return Ok(Segment::empty(access, Backing::File));
        }
        let lead = (offset % page_size() as u64) as usize;
        let Some(mapped) = lead.checked_add(len).and_then(page_ceil) else {
            return Err(too_long);
        };
        let base = map_fd(file.as_fd(), offset - lead as u64, mapped, access)
            .map_err(refused("map", offset, len))?;
        Ok(Segment { base, mapped, lead, len, access, backing: Backing::File, opened: None })
    }

    /// Makes a read-only segment of memory that another owner keeps, such as an array of another
    /// language. Dropping it changes nothing, and advice has no effect.
    ///
    /// # Safety
    /// As long as the segment exists, `len` bytes from `first` on must be valid for reads from any
    /// thread, and no code may write them.
    ///
    /// # Examples
    /// ```
    /// use syncline_memory::Segment;
    ///
    /// let numbers = [1_u8, 2, 3];
    /// // SAFETY: the array outlives the segment, and no code writes it.
    /// let segment = unsafe { Segment::borrowed(numbers.as_ptr(), numbers.len()) };
    /// assert_eq!((segment.as_ptr().cast_const(), segment.len()), (numbers.as_ptr(), 3));
    /// ```
    pub unsafe fn borrowed(first: *const u8, len: usize) -> Segment {
        let (access, backing) = (Access::Read, Backing::Borrowed);
        if len == 0 {
            return Segment::empty(access, backing);
        }
        // Nothing is mapped, so nothing is unmapped.
        Segment { base: first.cast_mut(), mapped: 0, lead: 0, len, access, backing, opened: None }
    }

    /// Returns the descriptor to pass to other processes; `None` unless the segment is shared.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Shared(fd) => Some(fd.as_fd()),
            Backing::Heap | Backing::File | Backing::Borrowed => None,
        }
    }

    /// Returns a pointer to the segment's first byte.
    ///
    /// The pointer is page-aligned, except in a file segment, where it has the offset within a page
    /// of the window's offset in the file, and in a borrowed one. It is never null; if the segment
    /// is empty, it is dangling but page-aligned.
    pub fn as_ptr(&self) -> *mut u8 {
        // `lead` is within the mapping; wrapping, because an empty segment has no mapping.
        self.base.wrapping_add(self.lead)
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Advises the kernel how a range of the segment, in bytes from its start, will be used.
    ///
    /// The range is rounded outwards to pages, except for [`Advice::DontNeed`], where it is rounded
    /// inwards. No advice changes the bytes.
    ///
    /// # Errors
    /// [`Error::Range`] if the range is not in the segment; [`Error::ReadOnly`] for
    /// [`Advice::PopulateWrite`] without write access; [`Error::Segment`] if the kernel refuses.
    /// For the two populating kinds of advice a refusal means that accessing the range would have
    /// raised a fatal signal.
    ///
    /// # Examples
    /// ```
    /// use syncline_memory::{Advice, Pages, Segment};
    ///
    /// let segment = Segment::heap(100_000, Pages::Small)?;
    /// segment.advise(0..50_000, Advice::PopulateWrite)?;
    /// let error = segment.advise(0..100_001, Advice::WillNeed).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "bytes 0..100001 are not a range in a segment of 100000 bytes"
    /// );
    /// # Ok::<(), syncline_memory::Error>(())
    /// ```
    pub fn advise(&self, range: Range<usize>, advice: Advice) -> Result<()> {
        let Range { start, end } = range;
        if start > end || end > self.len {
            return Err(Error::Range { start, end, len: self.len });
        }
        if advice == Advice::PopulateWrite && self.access == Access::Read {
            return Err(Error::ReadOnly { start, end });
        }
        let heap = matches!(self.backing, Backing::Heap);
        // Borrowed memory is advised by its owner.
        if matches!(self.backing, Backing::Borrowed) || advice == Advice::DontNeed && heap {
            return Ok(());
        }
        let mapped = self.lead + start..self.lead + end;
        let pages = match advice {
            Advice::DontNeed => pages_inside(mapped, page_size()),
            _ => pages_around(mapped, page_size()),
        };
        if start == end || pages.is_empty() {
            return Ok(());
        }
        let first = self.base.wrapping_add(pages.start).cast::<c_void>();
        loop {
            // SAFETY: the pages lie in this segment's mapping, which `&self` keeps alive. No advice
            // used changes a byte: `LinuxDontNeed` would zero private pages, but it is applied only
            // to shared mappings, whose bytes stay in the page cache.
            let answer = unsafe { mm::madvise(first, pages.len(), advice.system()) };
            return match answer {
                Ok(()) => Ok(()),
                Err(Errno::INTR) => continue,
                // Either the kernel predates this advice, or the pages belong to a device and need
                // no populating. Other causes are excluded: the range is page-aligned and the
                // access permitted.
                Err(Errno::INVAL) if advice.populates() => Ok(()),
                // A kernel without swap has nothing to read ahead for a heap.
                Err(Errno::BADF) if heap && advice == Advice::WillNeed => Ok(()),
                Err(errno) => Err(refused(advice.verb(), start as u64, end - start)(errno)),
            };
        }
    }

    fn map_shared(fd: OwnedFd, len: usize) -> Result<Segment> {
        let (access, lead) = (Access::ReadWrite, 0);
        if len == 0 {
            return Ok(Segment::empty(access, Backing::Shared(fd)));
        }
        let mapped = page_ceil(len).ok_or(Error::TooLong { offset: 0, len: len as u64 })?;
        let base = map_fd(fd.as_fd(), 0, mapped, access).map_err(refused("map", 0, len))?;
        Ok(Segment { base, mapped, lead, len, access, backing: Backing::Shared(fd), opened: None })
    }

    /// Returns a segment of no bytes. Its pointer is page-aligned, so that empty slices of any type
    /// can be made from it.
    fn empty(access: Access, backing: Backing) -> Segment {
        let base = ptr::without_provenance_mut(page_size());
        Segment { base, mapped: 0, lead: 0, len: 0, access, backing, opened: None }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.mapped != 0 {
            // SAFETY: `base` and `mapped` describe the mapping made for this segment, no other code
            // unmaps it, and makers of references guarantee that no reference outlives the segment.
            // `munmap` of a whole mapping cannot fail; if it did, the pages would leak, which is
            // safe.
            let _ = unsafe { mm::munmap(self.base.cast(), self.mapped) };
        }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backing: &dyn fmt::Debug = match &self.backing {
            Backing::Heap => &"heap",
            Backing::Shared(fd) => fd,
            Backing::File => &"file",
            Backing::Borrowed => &"borrowed",
        };
        f.debug_struct("Segment")
            .field("ptr", &self.as_ptr())
            .field("len", &self.len)
            .field("access", &self.access)
            .field("backing", backing)
            .finish()
    }
}

impl Advice {
    fn system(self) -> mm::Advice {
        match self {
            Advice::Normal => mm::Advice::Normal,
            Advice::Sequential => mm::Advice::Sequential,
            Advice::Random => mm::Advice::Random,
            Advice::WillNeed => mm::Advice::WillNeed,
            Advice::DontNeed => mm::Advice::LinuxDontNeed,
            Advice::PopulateRead => mm::Advice::LinuxPopulateRead,
            Advice::PopulateWrite => mm::Advice::LinuxPopulateWrite,
        }
    }

    fn populates(self) -> bool {
        matches!(self, Advice::PopulateRead | Advice::PopulateWrite)
    }

    fn verb(self) -> &'static str {
        match self {
            Advice::PopulateRead => "populate for reading",
            Advice::PopulateWrite => "populate for writing",
            _ => "advise on",
        }
    }
}

/// Creates a memfd of `len` zeroed bytes, mode 0600, with a sealed length.
fn make_memfd(len: u64) -> rustix::io::Result<OwnedFd> {
    let fd = new_memfd()?;
    resize(fd.as_fd(), len)?;
    seal(&fd)?;
    Ok(fd)
}

/// Creates an empty memfd, mode 0600.
fn new_memfd() -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // A hardened kernel requires the no-exec seal; a kernel before 6.3 rejects it.
    let fd = match rustix::fs::memfd_create(c"syncline", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(c"syncline", flags)?,
        made => made?,
    };
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    Ok(fd)
}

/// Sets the length of an empty memfd. Beyond the limit on file sizes (RLIMIT_FSIZE) that is an
/// error, and not the signal SIGXFSZ by which the kernel would end the process.
fn resize(fd: BorrowedFd<'_>, len: u64) -> rustix::io::Result<()> {
    if getrlimit(Resource::Fsize).current.is_some_and(|most| len > most) {
        return Err(Errno::FBIG);
    }
    rustix::fs::ftruncate(fd, len)
}

/// Seals the length of a memfd against shrinking and growing.
fn seal(fd: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_add_seals(fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

/// Maps `len` bytes of a file, shared, from `offset`, which is a multiple of the page size.
fn map_fd(
    fd: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    access: Access,
) -> rustix::io::Result<*mut u8> {
    let protection = match access {
        Access::Read => ProtFlags::READ,
        Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
    };
    // SAFETY: the address is null, so the kernel picks unused addresses and changes no existing
    // mapping.
    let base = unsafe { mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, offset) };
    base.map(|base| base.cast())
}

fn refused(op: &'static str, offset: u64, len: usize) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::Segment { op, offset, len, source: io::Error::from(errno) }
}

fn page_size() -> usize {
    rustix::param::page_size()
}

fn page_ceil(len: usize) -> Option<usize> {
    len.checked_next_multiple_of(page_size())
}

/// Returns the whole pages that cover a range of bytes. A mapping ends on a page boundary, so the
/// rounding cannot overflow.
fn pages_around(bytes: Range<usize>, page: usize) -> Range<usize> {
    bytes.start / page * page..bytes.end.next_multiple_of(page)
}

/// Returns the whole pages within a range of bytes; empty if there are none.
fn pages_inside(bytes: Range<usize>, page: usize) -> Range<usize> {
    bytes.start.next_multiple_of(page)..bytes.end / page * page
}

/// Returns whether a descriptor is memory with a sealed length, as [`Segment::shared`] creates it.
#[must_use]
pub fn is_sealed(fd: &OwnedFd) -> bool {
    let needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(needed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn pages_round_outwards_and_inwards(start in 0usize..100, len in 0usize..100) {
            let page = 16;
            let bytes = start..start + len;
            let around = pages_around(bytes.clone(), page);
            prop_assert!(around.start <= bytes.start && bytes.end <= around.end);
            prop_assert!(bytes.start - around.start < page && around.end - bytes.end < page);
            let inside = pages_inside(bytes.clone(), page);
            for first in (0..208).step_by(page) {
                let whole = bytes.start <= first && first + page <= bytes.end;
                prop_assert_eq!(inside.contains(&first), whole);
            }
        }
    }
}
