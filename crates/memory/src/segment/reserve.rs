//! Segments that are address space first, and memory when it is wanted.
//!
//! # Contract
//! ```text
//!   | opened: may be accessed          | reserved: no access, no memory, in no core dump                    |
//!   | committed: taken from the system | ...
//!   0                  open(end) ──────^                                                              len
//! ```
//! A reserved segment is as long as it was asked to be, or as the memory that there could be at
//! most ([`most`](crate::room::most), asked for once in a process): shorter where the system has no such
//! address space. It may be accessed below what was [opened](Segment::open).
//! [`commit`](Segment::commit) takes the memory of a range, or says that there is none: a touch of
//! memory that was not committed, and is not there, kills the process. Of other segments everything
//! is opened, and to commit does nothing.
//!
//! # Costs
//! To reserve is a mapping, whatever its length: page tables come with use.

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
    Access, Advice, Backing, Segment, new_memfd, page_ceil, page_size, pages_inside, refused, seal,
};
use crate::{Error, Result, room};

/// The least number of bytes by which access grows.
const STEP: usize = 1 << 20;
/// Less than this is not worth having.
const LEAST: usize = 1 << 20;
/// If the system does not say how much memory it has.
const UNKNOWN: u64 = 1 << 30;

impl Segment {
    /// Reserves memory that is private to this process: of this length, or as long as makes sense
    /// here.
    ///
    /// # Errors
    /// [`Error::Segment`] if the system has no such address space.
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
        // SAFETY: the address is null, so the kernel picks fresh pages and no memory in use
        // changes.
        let map = |mapped| unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mm::mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), flags)
        };
        let (base, len) = shrinking(len, u64::MAX, map)?;
        Ok(Segment::reserved(base, len, Backing::Heap))
    }

    /// Reserves memory that other processes can attach to, as [`shared`](Self::shared) makes it: of
    /// this length, or as long as makes sense here.
    ///
    /// # Errors
    /// As [`shared`](Self::shared).
    pub fn reserve_shared(len: Option<usize>) -> Result<Segment> {
        let fd = new_memfd().map_err(refused("make shared memory of", 0, len.unwrap_or(0)))?;
        // A file must not be longer, and one that would be gets the process killed.
        let file = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if let Some(len) = len.filter(|&len| len as u64 > file) {
            return Err(refused("make shared memory of", 0, len)(Errno::FBIG));
        }
        let (base, len) = shrinking(len, file, |mapped| map_reserved(fd.as_fd(), mapped))?;
        // From here on the mapping goes if there is an error.
        let segment = Segment::reserved(base, len, Backing::Shared(fd));
        if let Backing::Shared(fd) = &segment.backing {
            let made = rustix::fs::ftruncate(fd, len as u64).and_then(|()| seal(fd));
            made.map_err(refused("make shared memory of", 0, len))?;
        }
        Ok(segment)
    }

    /// Attaches to what [`reserve_shared`](Self::reserve_shared) has made in another process.
    ///
    /// # Errors
    /// As [`from_fd`](Self::from_fd).
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
        // SAFETY: the range is the mapping just made. Refused, cores are longer.
        let _ = unsafe { mm::madvise(base, mapped, mm::Advice::LinuxDontDump) };
        let (access, lead, opened) = (Access::ReadWrite, 0, Some(AtomicUsize::new(0)));
        Segment { base: base.cast(), mapped, lead, len, access, backing, opened }
    }

    /// Lets the bytes below `end` be accessed by this process.
    ///
    /// # Errors
    /// [`Error::Range`] if the segment is shorter; [`Error::Segment`] if the system refuses it.
    pub fn open(&self, end: usize) -> Result<()> {
        if end > self.len {
            return Err(Error::Range { start: 0, end, len: self.len });
        }
        let Some(opened_to) = &self.opened else { return Ok(()) };
        // Acquire: pairs with the Release below: another thread has done it.
        let opened = opened_to.load(Ordering::Acquire);
        if end <= opened {
            return Ok(());
        }
        let to = end.checked_next_multiple_of(STEP).unwrap_or(end).min(self.mapped);
        let (first, len) = (self.base.wrapping_add(opened).cast::<c_void>(), to - opened);
        // SAFETY: the pages lie in this segment's mapping. They become accessible, which nothing
        // relies on their not being.
        unsafe {
            mm::mprotect(first, len, MprotectFlags::READ | MprotectFlags::WRITE)
                .map_err(refused("open", opened as u64, len))?;
            let _ = mm::madvise(first, len, mm::Advice::LinuxDoDump);
        }
        // Release: see above. Several threads may have opened the same, or one more.
        opened_to.fetch_max(to, Ordering::Release);
        Ok(())
    }

    /// Takes memory for a range of bytes, which then can be touched, or says that there is none.
    /// Bytes stay as they are.
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
        let Backing::Shared(fd) = &self.backing else {
            // Little of private memory comes with its first touch.
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

    /// Gives the memory of the whole pages in a range back to the system; they are zero at the next
    /// touch.
    ///
    /// # Safety
    /// The bytes are not in use: no reference into the range lives, and no code relies on their
    /// values.
    pub unsafe fn give_back(&self, range: Range<usize>) {
        let pages = pages_inside(range, page_size());
        if self.opened.is_none() || pages.start >= pages.end || pages.end > self.mapped {
            return;
        }
        // Refused, the memory is kept.
        match &self.backing {
            Backing::Shared(fd) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = rustix::fs::fallocate(fd, hole, pages.start as u64, pages.len() as u64);
            }
            _ => {
                let first = self.base.wrapping_add(pages.start).cast::<c_void>();
                // SAFETY: the pages lie in this segment's mapping, and the caller guarantees that
                // their bytes are not in use.
                let _ = unsafe { mm::madvise(first, pages.len(), mm::Advice::LinuxDontNeed) };
            }
        }
    }
}

/// Maps `said` bytes; without a number, as many as there could be memory for, or fewer where that
/// many cannot be mapped.
fn shrinking(
    said: Option<usize>,
    most: u64,
    map: impl Fn(usize) -> rustix::io::Result<*mut c_void>,
) -> Result<(*mut c_void, usize)> {
    if let Some(len) = said {
        let mapped = page_ceil(len.max(1)).ok_or(Error::TooLong { offset: 0, len: len as u64 })?;
        return Ok((map(mapped).map_err(refused("reserve", 0, len))?, len.max(1)));
    }
    // Where address space is limited, the program needs some of it for other things.
    let space = getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / 4);
    // Files of the kernel tell, which takes longer than all else here.
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

fn map_reserved(fd: BorrowedFd<'_>, mapped: usize) -> rustix::io::Result<*mut c_void> {
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: the address is null, so the kernel picks fresh pages and no memory in use changes.
    unsafe { mm::mmap(ptr::null_mut(), mapped, ProtFlags::empty(), flags, fd, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident(segment: &Segment) -> u64 {
        let Backing::Shared(fd) = &segment.backing else { panic!("it is shared") };
        rustix::fs::fstat(fd).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn memory_is_taken_by_a_commit_and_given_back() {
        let segment = Segment::reserve_shared(None).unwrap();
        assert!(segment.len() >= LEAST && resident(&segment) == 0);
        segment.open(3 << 20).unwrap();
        segment.commit(1 << 20..3 << 20).unwrap();
        assert_eq!(resident(&segment), 2 << 20);
        let other =
            Segment::attach_reserved(segment.fd().unwrap().try_clone_to_owned().unwrap()).unwrap();
        other.open(3 << 20).unwrap();
        // SAFETY: both are opened so far, and used by this thread alone.
        unsafe {
            segment.as_ptr().add(2 << 20).write(7);
            assert_eq!(other.as_ptr().add(2 << 20).read(), 7);
            segment.give_back(1 << 20..3 << 20);
            assert_eq!((resident(&segment), other.as_ptr().add(2 << 20).read()), (0, 0));
        }
    }

    #[test]
    fn private_memory_is_zero_again_when_it_was_given_back() {
        let segment = Segment::reserve_heap(None).unwrap();
        segment.open(1 << 20).unwrap();
        segment.commit(0..1 << 20).unwrap();
        // SAFETY: it is opened so far, and used by this thread alone.
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
