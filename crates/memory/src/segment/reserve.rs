//! Segments that reserve address space first and take memory on demand.
//!
//! # Contract
//! ```text
//!   | opened: may be accessed          | reserved: no access, no memory, in no core dump |
//!   | committed: backed by memory      | ...
//!   0                  open(end) ──────^                                              len
//! ```
//! A reserved segment has the requested length. Without one it is as long as the memory that the
//! program could have at most ([`most`](crate::room::most), queried once in a process), or shorter
//! where that much address space is not available. The bytes below the [opened](Segment::open) end
//! may be accessed. [`commit`](Segment::commit) takes memory for a range, or reports that there is
//! none: touching uncommitted memory when none is left kills the process. In segments of other
//! kinds all bytes are opened, and `commit` has no effect.
//!
//! # Costs
//! Reserving is one mapping, whatever its length: the kernel builds page tables on use.
//!
//! # Why reserved memory has no access
//! Neither `mlockall` nor a core dump takes memory that is not used, strict overcommit counts
//! only committed memory, and the program asks before it takes memory from a kernel that would
//! kill it.
//!
//! # Why memory that processes share is moved into huge pages
//! Such memory is in small pages on most systems, and a virtual disk reads half as fast into
//! those: 1.2 GiB/s to 2.6. Linux moves it when a process asks for that explicitly, whatever
//! its settings, if the segment is mapped at a multiple of 2 MiB. A sweep of two processes then
//! takes 0.94 to 1.09 times as long as one of two threads. With a copy from private huge pages
//! it takes 1.01 to 1.34 times, with panels in small pages up to 2.3 times
//! (`bench/results/2026-11-26-vm/team-sweep/`).

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FallocateFlags, FileType};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use super::{
    Access, Advice, Backing, HUGE_PAGE, Segment, new_memfd, page_ceil, page_size, pages_inside,
    refused, resize, seal,
};
use crate::{Error, Result, room};

/// The smallest increment, in bytes, by which the opened part grows.
const STEP: usize = 1 << 20;
/// The smallest length, in bytes, that is reserved when no length is requested.
const LEAST: usize = 1 << 20;
/// `MADV_COLLAPSE`, which not every C library names.
const COLLAPSE: libc::c_int = 25;
/// The assumed limit, in bytes, if the system does not report how much memory it has.
const UNKNOWN: u64 = 1 << 30;

impl Segment {
    /// Reserves memory that is private to this process: `len` bytes, or without a length as many as
    /// the program could use.
    ///
    /// # Errors
    /// [`Error::Segment`] if the system does not have that much address space.
    ///
    /// ```
    /// use syncline_memory::Segment;
    ///
    /// let segment = Segment::reserve_heap(None)?;
    /// segment.open(5000)?;
    /// segment.commit(0..5000)?;
    /// // SAFETY: the byte is in the segment, opened, and used by nothing else.
    /// unsafe { segment.as_ptr().add(4999).write(1) };
    /// # Ok::<(), syncline_memory::Error>(())
    /// ```
    pub fn reserve_heap(len: Option<usize>) -> Result<Segment> {
        // SAFETY: the address is null, so the kernel picks unused addresses and changes no existing
        // mapping.
        let map = |mapped| unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mm::mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), flags)
        };
        let (base, len) = shrinking(len, u64::MAX, map)?;
        Ok(Segment::reserved(base, len, Backing::Heap))
    }

    /// Reserves memory that other processes can attach to, as [`shared`](Self::shared) does: `len`
    /// bytes, or without a length as many as the program could use.
    ///
    /// # Errors
    /// The same as those of [`shared`](Self::shared).
    pub fn reserve_shared(len: Option<usize>) -> Result<Segment> {
        let fd = new_memfd().map_err(refused("make shared memory of", 0, len.unwrap_or(0)))?;
        // A file beyond this limit is not allowed.
        let file = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        let (base, len) = shrinking(len, file, |mapped| map_reserved(fd.as_fd(), mapped))?;
        // From here on the segment owns the mapping, and drops it on an error.
        let segment = Segment::reserved(base, len, Backing::Shared(fd));
        if let Backing::Shared(fd) = &segment.backing {
            let made = resize(fd.as_fd(), len as u64).and_then(|()| seal(fd));
            made.map_err(refused("make shared memory of", 0, len))?;
        }
        Ok(segment)
    }

    /// Attaches to a segment that [`reserve_shared`](Self::reserve_shared) created in another
    /// process.
    ///
    /// # Errors
    /// The same as those of [`from_fd`](Self::from_fd).
    pub fn attach_reserved(fd: OwnedFd) -> Result<Segment> {
        let stat = rustix::fs::fstat(&fd).map_err(refused("attach to", 0, 0))?;
        let len = stat.st_size as u64;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Segment::from_fd(fd);
        }
        let too_long = Error::TooLong { offset: 0, len };
        let Some((len, mapped)) =
            usize::try_from(len).ok().and_then(|len| Some((len, page_ceil(len)?)))
        else {
            return Err(too_long);
        };
        if len == 0 {
            return Segment::from_fd(fd);
        }
        let base = map_reserved(fd.as_fd(), mapped).map_err(refused("map", 0, len))?;
        Ok(Segment::reserved(base, len, Backing::Shared(fd)))
    }

    fn reserved(base: *mut c_void, len: usize, backing: Backing) -> Segment {
        let mapped = page_ceil(len).unwrap_or(len);
        // SAFETY: the range is the mapping just made. If the advice is refused, core dumps are
        // longer.
        let _ = unsafe { mm::madvise(base, mapped, mm::Advice::LinuxDontDump) };
        let (access, lead, opened) = (Access::ReadWrite, 0, Some(AtomicUsize::new(0)));
        Segment { base: base.cast(), mapped, lead, len, access, backing, opened }
    }

    /// Makes the bytes below `end` accessible to this process.
    ///
    /// # Errors
    /// [`Error::Range`] if the segment is shorter; [`Error::Segment`] if the system refuses.
    pub fn open(&self, end: usize) -> Result<()> {
        if end > self.len {
            return Err(Error::Range { start: 0, end, len: self.len });
        }
        let Some(opened_to) = &self.opened else { return Ok(()) };
        // Acquire: pairs with the Release below; another thread has opened these bytes.
        let opened = opened_to.load(Ordering::Acquire);
        if end <= opened {
            return Ok(());
        }
        let to = end.checked_next_multiple_of(STEP).unwrap_or(end).min(self.mapped);
        let (first, len) = (self.base.wrapping_add(opened).cast::<c_void>(), to - opened);
        // SAFETY: the pages lie in this segment's mapping. They become accessible, and no code
        // relies on their being inaccessible.
        unsafe {
            mm::mprotect(first, len, MprotectFlags::READ | MprotectFlags::WRITE)
                .map_err(refused("open", opened as u64, len))?;
            let _ = mm::madvise(first, len, mm::Advice::LinuxDoDump);
        }
        // Release: pairs with the Acquire above. Other threads may have opened the same bytes, or
        // more.
        opened_to.fetch_max(to, Ordering::Release);
        Ok(())
    }

    /// Takes memory for a range of bytes, so that it can be touched, or reports that there is none.
    /// The bytes do not change. Where the range covers whole huge pages, it takes these if the
    /// kernel has them.
    ///
    /// # Errors
    /// [`Error::Range`] if the range is not in the segment; [`Error::Segment`] if there is no
    /// memory.
    pub fn commit(&self, range: Range<usize>) -> Result<()> {
        let Range { start, end } = range;
        if start > end || end > self.len {
            return Err(Error::Range { start, end, len: self.len });
        }
        if self.opened.is_none() || start == end {
            return Ok(());
        }
        if end - start >= HUGE_PAGE {
            self.open(end)?;
            self.take_huge_pages(start..end);
        }
        let Backing::Shared(fd) = &self.backing else {
            // A short private range takes its memory at the first touch.
            self.open(end)?;
            return if end - start < STEP {
                Ok(())
            } else {
                self.advise(range, Advice::PopulateWrite)
            };
        };
        loop {
            match rustix::fs::fallocate(
                fd,
                FallocateFlags::empty(),
                start as u64,
                (end - start) as u64,
            ) {
                Err(Errno::INTR) => continue,
                done => return done.map_err(refused("take memory for", start as u64, end - start)),
            }
        }
    }

    /// Takes huge pages for the whole ones in an opened range, as far as the kernel has them; no
    /// byte changes. The kernel does so since Linux 6.1, also where it gives shared memory no huge
    /// pages by itself. It takes a quarter of the time that small pages take.
    fn take_huge_pages(&self, range: Range<usize>) {
        let first = (self.base.addr() + range.start).next_multiple_of(HUGE_PAGE);
        let end = (self.base.addr() + range.end) / HUGE_PAGE * HUGE_PAGE;
        if first >= end {
            return;
        }
        let at = |address| self.base.with_addr(address).cast::<c_void>();
        // SAFETY: the pages lie in this segment's mapping, and no advice used changes a byte. Where
        // one is refused, the segment has small pages.
        unsafe {
            if matches!(self.backing, Backing::Heap) {
                let _ = mm::madvise(at(first), end - first, mm::Advice::LinuxHugepage);
                return;
            }
            // A huge page can take the place of some small ones, but not of none.
            for page in (first..end).step_by(HUGE_PAGE) {
                if mm::madvise(at(page), 1, mm::Advice::LinuxPopulateRead).is_err() {
                    return;
                }
            }
            libc::madvise(at(first), end - first, COLLAPSE);
        }
    }

    /// Returns the memory of the whole pages in a range to the system; the pages read as zero at
    /// the next touch.
    ///
    /// # Safety
    /// No reference into the range may be live, and no code may rely on the values of its bytes.
    pub unsafe fn give_back(&self, range: Range<usize>) {
        let pages = pages_inside(range, page_size());
        if self.opened.is_none() || pages.start >= pages.end || pages.end > self.mapped {
            return;
        }
        // If the system refuses, the memory is kept.
        match &self.backing {
            Backing::Shared(fd) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = rustix::fs::fallocate(fd, hole, pages.start as u64, pages.len() as u64);
            }
            _ => {
                let first = self.base.wrapping_add(pages.start).cast::<c_void>();
                // SAFETY: the pages lie in this segment's mapping, and the caller guarantees that
                // their bytes are not in use (see `# Safety`).
                let _ = unsafe { mm::madvise(first, pages.len(), mm::Advice::LinuxDontNeed) };
            }
        }
    }
}

/// Maps `said` bytes; without a length, as many bytes as there could be memory for, halved until
/// the mapping succeeds.
fn shrinking(
    said: Option<usize>,
    most: u64,
    map: impl Fn(usize) -> rustix::io::Result<*mut c_void>,
) -> Result<(*mut c_void, usize)> {
    if let Some(len) = said {
        let mapped = page_ceil(len.max(1)).ok_or(Error::TooLong { offset: 0, len: len as u64 })?;
        return Ok((map(mapped).map_err(refused("reserve", 0, len))?, len.max(1)));
    }
    // Where address space is limited, the program needs some of it for other purposes.
    let space = getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / 4);
    // Reading the limits from files of the kernel takes longer than all other steps here.
    static POSSIBLE: OnceLock<u64> = OnceLock::new();
    let possible = *POSSIBLE.get_or_init(|| room::most().unwrap_or(UNKNOWN));
    let want = possible.min(most).min(space);
    let mut len = (want as usize / STEP * STEP).max(LEAST);
    loop {
        match map(len) {
            Ok(base) => return Ok((base, len)),
            Err(_) if len / 2 >= LEAST => len = (len / 2).next_multiple_of(page_size()),
            Err(errno) => return Err(refused("reserve", 0, len)(errno)),
        }
    }
}

/// Maps the first `mapped` bytes of a file, a whole number of pages, at a 2 MiB boundary: a huge
/// page is mapped as one only at such an address.
fn map_reserved(fd: BorrowedFd<'_>, mapped: usize) -> rustix::io::Result<*mut c_void> {
    let all = mapped.checked_add(HUGE_PAGE).ok_or(Errno::NOMEM)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the address is null, so the kernel picks unused addresses and changes no existing
    // mapping.
    let space = unsafe { mm::mmap_anonymous(ptr::null_mut(), all, ProtFlags::empty(), flags)? };
    let lead = space.addr().wrapping_neg() % HUGE_PAGE;
    let (base, end) = (space.wrapping_byte_add(lead), space.wrapping_byte_add(lead + mapped));
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the pages are a part of the mapping just made, which no code has an address of, and
    // the rest of it is unmapped. If that is refused, addresses are lost.
    unsafe {
        let file = mm::mmap(base, mapped, ProtFlags::empty(), flags, fd, 0);
        if file.is_err() {
            let _ = mm::munmap(space, all);
            return file;
        }
        if lead > 0 {
            let _ = mm::munmap(space, lead);
        }
        let _ = mm::munmap(end, HUGE_PAGE - lead);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(segment: &Segment) -> u64 {
        let Backing::Shared(fd) = &segment.backing else { panic!("it is shared") };
        rustix::fs::fstat(fd).unwrap().st_blocks as u64 * 512
    }

    /// Whether the kernel takes huge pages for all shared memory: then a commit takes more than its
    /// range, and what is given back may leave a part of that.
    fn all_pages_are_huge() -> bool {
        let setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
        std::fs::read_to_string(setting)
            .is_ok_and(|text| text.contains("[always]") || text.contains("[force]"))
    }

    /// A process with the descriptor could otherwise take away memory that others use.
    #[test]
    fn the_length_of_shared_memory_is_sealed() {
        let segment = Segment::reserve_shared(None).unwrap();
        let Backing::Shared(fd) = &segment.backing else { panic!("it is shared") };
        assert!(crate::segment::is_sealed(fd));
        assert!(rustix::fs::ftruncate(fd, 0).is_err());
    }

    #[test]
    fn memory_is_taken_by_a_commit_and_given_back() {
        let segment = Segment::reserve_shared(None).unwrap();
        assert!(segment.len() >= LEAST && resident(&segment) == 0);
        segment.open(3 << 20).unwrap();
        segment.commit(1 << 20..3 << 20).unwrap();
        let exact = !all_pages_are_huge();
        assert!(resident(&segment) == 2 << 20 || !exact && resident(&segment) > 2 << 20);
        let other =
            Segment::attach_reserved(segment.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
        other.open(3 << 20).unwrap();
        // SAFETY: both segments are opened to 3 MiB, and only this thread uses them.
        unsafe {
            segment.as_ptr().add(2 << 20).write(7);
            assert_eq!(other.as_ptr().add(2 << 20).read(), 7);
            segment.give_back(1 << 20..3 << 20);
            assert!(resident(&segment) == 0 || !exact && resident(&segment) <= 2 << 20);
            assert_eq!(other.as_ptr().add(2 << 20).read(), 0);
        }
    }

    #[test]
    fn huge_pages_keep_the_bytes_and_are_those_of_all_processes() {
        let len = 9 << 20;
        for segment in
            [Segment::reserve_shared(Some(len)).unwrap(), Segment::reserve_heap(Some(len)).unwrap()]
        {
            segment.open(len).unwrap();
            segment.commit(0..7000).unwrap();
            let at = |at: usize| segment.as_ptr().wrapping_add(at);
            let places = [6000, 2 << 20, (4 << 20) + 77, len - 6000];
            // SAFETY: the segment is opened to its end, and only this thread uses it.
            unsafe { at(6000).write(6000_usize as u8 | 1) };
            segment.commit(5000..len - 5000).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { at(6000).read() }, 6000_usize as u8 | 1);
            // SAFETY: as above.
            places.into_iter().for_each(|place| unsafe { at(place).write(place as u8 | 1) });
            segment.commit(5000..len).unwrap();
            // SAFETY: as above.
            let read = places.map(|place| unsafe { at(place).read() });
            assert_eq!(read, places.map(|place| place as u8 | 1));
            if let Some(fd) = segment.fd() {
                assert_eq!(segment.as_ptr().addr() % HUGE_PAGE, 0);
                let other = Segment::attach_reserved(fd.try_clone_to_owned().unwrap()).unwrap();
                assert_eq!(other.as_ptr().addr() % HUGE_PAGE, 0);
                other.open(len).unwrap();
                // SAFETY: as above.
                unsafe {
                    assert_eq!(other.as_ptr().add(2 << 20).read(), 1);
                    other.as_ptr().add(2 << 20).write(8);
                    assert_eq!(at(2 << 20).read(), 8);
                }
            }
        }
    }

    #[test]
    fn private_memory_is_zero_again_when_it_was_given_back() {
        let segment = Segment::reserve_heap(None).unwrap();
        segment.open(1 << 20).unwrap();
        segment.commit(0..1 << 20).unwrap();
        // SAFETY: the segment is opened to 1 MiB, and only this thread uses it.
        unsafe {
            segment.as_ptr().add(5000).write(7);
            segment.give_back(0..1 << 20);
            assert_eq!(segment.as_ptr().add(5000).read(), 0);
        }
    }

    #[test]
    fn what_is_said_is_the_length_or_an_error() {
        for segment in [
            Segment::reserve_heap(Some(5000)).unwrap(),
            Segment::reserve_shared(Some(5000)).unwrap(),
        ] {
            assert_eq!(segment.len(), 5000);
            segment.open(5000).unwrap();
            assert!(segment.open(5001).is_err() && segment.commit(0..5001).is_err());
        }
        for len in [1 << 60, usize::MAX] {
            assert!(
                Segment::reserve_heap(Some(len)).is_err()
                    && Segment::reserve_shared(Some(len)).is_err()
            );
        }
    }

    #[test]
    fn it_shrinks_until_it_is_mapped() {
        let limit = 5 << 20;
        let map = |mapped| {
            if mapped > limit { Err(Errno::NOMEM) } else { Ok(ptr::without_provenance_mut(mapped)) }
        };
        let (base, len) = shrinking(None, u64::MAX, map).unwrap();
        assert!(base.addr() == len && len <= limit && 2 * len >= limit, "{len}");
        assert!(shrinking(Some(6 << 20), u64::MAX, map).is_err());
    }
}
