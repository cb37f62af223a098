//! Concurrent transfers.
//!
//! Requests are cut into pieces of 8 MiB. Up to 64 pieces and 128 MiB are in flight at once: 16
//! long pieces, or 64 short ones, of which a disk needs more. Transfers allocate no memory.
//!
//! | method | a piece costs                          | in flight   | needs                        |
//! |--------|----------------------------------------|-------------|------------------------------|
//! | uring  | a ring entry; one system call for many | 64; 128 MiB | io_uring, Linux 5.6 or later |
//! | plain  | a system call                          | 1           | nothing                      |
//!
//! Even with a ring, plain calls make all requests through the page cache, and writes where a file
//! grows or has a hole: these requests would wait for the file system.

use crate::io_uring::Ring;
use crate::transfer::{PIECE, Piece};
use crate::{Error, Result, direct::DirectFile};

/// The method of making transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By io_uring, or by plain calls if the kernel refuses it.
    #[default]
    Auto,
    /// By io_uring, many at a time.
    Uring,
    /// By pread and pwrite, one after the other.
    Plain,
}

/// A range of bytes to be read.
///
/// The bytes are stored at `into[lead..lead + len]`, where `lead` is `offset % alignment`: the
/// aligned range around them is read, so that data behind a header of any length need no copy. The
/// bytes of `into` around them, up to [`DirectFile::room`], may change.
///
/// The read is direct if `into` begins on a page boundary, as an
/// [`IoBuffer`](crate::buffer::IoBuffer) does; otherwise it goes through the page cache.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The file.
    pub file: &'a DirectFile,
    /// The offset of the first byte to be read.
    pub offset: u64,
    /// The number of bytes to be read.
    pub len: usize,
    /// Memory of at least `file.room(offset, len)` bytes.
    pub into: &'a mut [u8],
}

/// Bytes to be written at an offset.
///
/// Whole blocks are written directly if memory and file are equally aligned: the same byte is at a
/// multiple of [`DirectFile::alignment`] in both. The rest goes through the page cache after the
/// direct part is complete.
///
/// Two writes in flight in *different* queues must not touch the same page of the file, unless both
/// are direct: a write through the page cache rewrites the whole page.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// The file.
    pub file: &'a DirectFile,
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// The bytes to be written.
    pub from: &'a [u8],
}

impl ReadRequest<'_> {
    /// Returns the offset in `into` of the first byte read.
    pub const fn lead(&self) -> usize {
        self.file.lead(self.offset)
    }

    fn check(&self) -> Result<()> {
        self.file.check_range(self.offset, self.len)?;
        let (needed, given) = (self.file.room(self.offset, self.len), self.into.len());
        if given < needed {
            return Err(Error::Room {
                name: self.file.name().display().to_string(),
                needed,
                given,
            });
        }
        Ok(())
    }

    fn pieces(&mut self) -> impl Iterator<Item = Piece<'_>> {
        let (file, lead) = (self.file, self.lead());
        let (start, need) = (self.offset - lead as u64, lead + self.len);
        let blocks = &mut self.into[..file.room(self.offset, self.len)];
        blocks.chunks_mut(PIECE).enumerate().map(move |(nth, part)| {
            let before = nth * PIECE;
            let need = part.len().min(need - before);
            Piece::read(file, start + before as u64, part, need)
        })
    }
}

impl<'a> WriteRequest<'a> {
    fn check(&self) -> Result<()> {
        if !self.file.is_writable() {
            return Err(Error::ReadOnly { name: self.file.name().display().to_string() });
        }
        self.file.check_range(self.offset, self.from.len())
    }

    /// Returns the number of bytes before the direct part, and the length of the direct part.
    fn split(&self) -> (usize, usize) {
        let block = self.file.alignment();
        let head = (block - self.file.lead(self.offset)) % block;
        let head = head.min(self.from.len());
        let rest = &self.from[head..];
        if !self.file.is_direct() || !self.file.is_aligned(rest.as_ptr().addr()) {
            return (0, 0);
        }
        (head, rest.len() - rest.len() % block)
    }

    fn direct_pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let (head, direct) = self.split();
        pieces(self.file, self.offset + head as u64, &self.from[head..head + direct])
    }

    fn other_pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let (head, direct) = self.split();
        let tail = head + direct;
        pieces(self.file, self.offset, &self.from[..head]).chain(pieces(
            self.file,
            self.offset + tail as u64,
            &self.from[tail..],
        ))
    }
}

fn pieces<'a>(
    file: &'a DirectFile,
    offset: u64,
    bytes: &'a [u8],
) -> impl Iterator<Item = Piece<'a>> {
    let parts = bytes.chunks(PIECE).enumerate();
    parts.map(move |(nth, part)| Piece::write(file, offset + (nth * PIECE) as u64, part))
}

/// A queue that makes concurrent transfers. Each thread uses its own queue.
///
/// ```
/// use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method};
/// use syncline_store::direct_io::{ReadRequest, WriteRequest};
/// # use std::path::Path;
///
/// # let (first, second) = (tempfile::tempfile()?, tempfile::tempfile()?);
/// let files = [
///     DirectFile::of(&first, Path::new("first"), true)?,
///     DirectFile::of(&second, Path::new("second"), true)?,
/// ];
/// let mut queue = IoQueue::new(Method::Auto);
/// let writes = files.each_ref().map(|file| WriteRequest { file, offset: 0, from: &[7; 10_000] });
/// queue.write(&writes)?;
///
/// let mut buffer = IoBuffer::new(2 * 8192)?;
/// let mut halves = buffer.as_mut_slice().chunks_mut(8192);
/// let mut reads: Vec<_> = files
///     .iter()
///     .zip(&mut halves)
///     .map(|(file, into)| ReadRequest { file, offset: 300, len: 5000, into })
///     .collect();
/// queue.read(&mut reads)?;
/// assert!(reads.iter().all(|read| read.into[read.lead()..][..5000] == [7; 5000]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IoQueue {
    /// The ring; `None` for plain calls.
    ring: Option<Ring>,
}

impl IoQueue {
    /// Creates a queue. If the kernel refuses io_uring (too old, forbidden, no memory to be
    /// locked), the queue makes plain calls, whatever `method` is.
    pub fn new(method: Method) -> Self {
        let ring = match method {
            Method::Auto | Method::Uring => Ring::new().ok(),
            Method::Plain => None,
        };
        Self { ring }
    }

    /// Returns the method in use: never [`Method::Auto`].
    pub const fn method(&self) -> Method {
        match self.ring {
            Some(_) => Method::Uring,
            None => Method::Plain,
        }
    }

    /// Makes all reads, and returns when all are complete.
    ///
    /// After an error the contents of the buffers are unspecified, and no request is in flight.
    ///
    /// # Errors
    /// [`Error::Room`] if a buffer is too short, [`Error::Range`] if an offset exceeds the maximal
    /// length of a file: in these cases nothing was read. [`Error::Part`] if a file ends before the
    /// range does ([`UnexpectedEof`]) or its disk fails; of several failures, the first one
    /// detected.
    ///
    /// [`UnexpectedEof`]: std::io::ErrorKind::UnexpectedEof
    pub fn read(&mut self, reads: &mut [ReadRequest<'_>]) -> Result<()> {
        reads.iter().try_for_each(ReadRequest::check)?;
        self.run(reads.iter_mut().flat_map(ReadRequest::pieces))
    }

    /// Makes all writes, and returns when all are complete. The data may not have reached the disk
    /// then, only its queue or, if the write was not direct, the page cache. The writes must not
    /// overlap.
    ///
    /// A file grows as needed. After an error any part of the bytes may have been written, and no
    /// request is in flight.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if a file was opened for reading, [`Error::Range`] if an offset exceeds
    /// the maximal length of a file: in these cases nothing was written. [`Error::Part`] if the
    /// file system is full or its disk fails; of several failures, the first one detected.
    pub fn write(&mut self, writes: &[WriteRequest<'_>]) -> Result<()> {
        writes.iter().try_for_each(WriteRequest::check)?;
        self.run(writes.iter().flat_map(WriteRequest::direct_pieces))?;
        // After the direct part: writing a page through the page cache while a neighbouring block
        // in it is written directly could restore that block's old bytes. By plain calls, as a ring
        // would also make them: they only copy to memory.
        writes.iter().flat_map(WriteRequest::other_pieces).try_for_each(Piece::plain)
    }

    fn run<'a>(&mut self, mut pieces: impl Iterator<Item = Piece<'a>>) -> Result<()> {
        let Some(ring) = &mut self.ring else {
            return pieces.try_for_each(Piece::plain);
        };
        let done = ring.run(pieces);
        if ring.is_broken() {
            self.ring = None;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::buffer::IoBuffer;

    #[test]
    fn a_file_that_takes_no_direct_requests_is_read_and_written_all_the_same() {
        for method in [Method::Uring, Method::Plain] {
            let plain = tempfile::tempfile().unwrap();
            plain.write_all_at(&[3; 3 * PIECE], 0).unwrap();
            let file =
                DirectFile::of(&plain, Path::new("name"), true).unwrap().claiming_no_alignment();
            let mut queue = IoQueue::new(method);
            let mut buffer = IoBuffer::new(2 * PIECE + 77).unwrap();
            let into = &mut buffer.as_mut_slice()[1..];
            let len = into.len();
            queue.read(&mut [ReadRequest { file: &file, offset: 13, len, into }]).unwrap();
            assert!(buffer.as_slice()[1..].iter().all(|&byte| byte == 3));
            let file =
                DirectFile::of(&plain, Path::new("name"), true).unwrap().claiming_no_alignment();
            buffer.as_mut_slice().fill(4);
            queue
                .write(&[WriteRequest { file: &file, offset: 13, from: &buffer.as_slice()[1..] }])
                .unwrap();
            let mut found = vec![0; 3 * PIECE];
            plain.read_exact_at(&mut found, 0).unwrap();
            let wanted = |nth| if (13..13 + len).contains(&nth) { 4 } else { 3 };
            assert!(found.iter().enumerate().all(|(nth, &byte)| byte == wanted(nth)));
        }
    }
}
