//! Memory for direct I/O.
//!
//! The device accesses the buffer's pages directly. Small pages are pinned one by one, 2048 for a
//! piece of 8 MiB; a huge page is pinned as one page, and its bytes go to the device as one
//! segment.

use std::io;

use syncline_memory::{Pages, Segment};

use crate::{Error, Result};

/// The size in bytes from which on a buffer is in huge pages, if the system has them.
const HUGE: usize = 2 << 20;

/// A buffer for direct I/O: zeroed and page-aligned; from 2 MiB on aligned to 2 MiB and in huge
/// pages if the system has them.
///
/// Memory is taken on first touch.
///
/// ```
/// let mut buffer = syncline_store::direct_io::IoBuffer::new(10_000)?;
/// buffer.as_mut_slice()[9_999] = 1;
/// assert_eq!(buffer.as_slice().iter().map(|&byte| u32::from(byte)).sum::<u32>(), 1);
/// assert_eq!(buffer.as_ptr().addr() % 4096, 0);
/// # Ok::<(), syncline_store::Error>(())
/// ```
#[derive(Debug)]
pub struct IoBuffer {
    segment: Segment,
}

impl IoBuffer {
    /// Creates a buffer of `len` zero bytes.
    ///
    /// # Errors
    /// [`Error::Memory`] if no address space or memory is left.
    pub fn new(len: usize) -> Result<Self> {
        let pages = if len < HUGE { Pages::Small } else { Pages::Huge };
        let segment = Segment::heap(len, pages).map_err(|error| Error::Memory {
            bytes: len,
            source: match error {
                syncline_memory::Error::Segment { source, .. } => source,
                other => io::Error::other(other),
            },
        })?;
        Ok(Self { segment })
    }

    /// Makes a buffer of memory that is private to this process or shared by it, for writing.
    pub(crate) const fn of(segment: Segment) -> Self {
        Self { segment }
    }

    pub(crate) fn into_segment(self) -> Segment {
        self.segment
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.segment.len()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.segment.is_empty()
    }

    /// Returns a pointer to the first of [`len`](Self::len) bytes. It is valid for reads while no
    /// code writes the bytes, and for writes if the caller ensures that no other code accesses the
    /// written bytes.
    pub fn as_ptr(&self) -> *const u8 {
        self.segment.as_ptr()
    }

    /// Returns a pointer to the first byte, valid for [`len`](Self::len) bytes while no reference
    /// to them is in use.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.segment.as_ptr()
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the pointer is aligned and not null, also for an empty segment, and the segment
        // has `len` initialised bytes. They are private to `self`, which is borrowed for the
        // lifetime of the slice; writing takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.segment.as_ptr(), self.segment.len()) }
    }

    /// Returns the bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed exclusively, so this is the only
        // reference.
        unsafe { std::slice::from_raw_parts_mut(self.segment.as_ptr(), self.segment.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zero_and_aligned() {
        for (len, aligned) in
            [(0, 4096), (1, 4096), (HUGE - 1, 4096), (HUGE, HUGE), (3 * HUGE + 5, HUGE)]
        {
            let mut buffer = IoBuffer::new(len).unwrap();
            assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
            assert_eq!(buffer.as_ptr().addr() % aligned, 0);
            assert!(buffer.as_slice().iter().all(|&byte| byte == 0));
            buffer.as_mut_slice().fill(7);
            assert!(buffer.as_slice().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn too_much_memory_is_an_error() {
        assert!(matches!(IoBuffer::new(usize::MAX), Err(Error::Memory { bytes: usize::MAX, .. })));
        assert!(matches!(IoBuffer::new(1 << 60), Err(Error::Memory { .. })));
    }
}
