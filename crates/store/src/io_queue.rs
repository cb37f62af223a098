//! Transfers under way together.
//!
//! Requests are cut into pieces of 8 MiB, and up to 16 pieces are under way at once. Nothing is allocated.
//!
//! | method | a piece costs                          | under way | needs                        |
//! |--------|----------------------------------------|-----------|------------------------------|
//! | uring  | a ring entry; one system call for many | 16        | io_uring, Linux 5.6 or later |
//! | plain  | a system call                          | 1         | nothing                      |
//!
//! With a ring, too, plain calls make what goes through the page cache, and writes where a file grows or has a
//! hole: they would wait for the file system.

use crate::io_uring::Ring;
use crate::transfer::{PIECE, Piece};
use crate::{Error, Result, direct::DirectFile};

/// How transfers are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By io_uring, or plainly where the kernel refuses it.
    #[default]
    Auto,
    /// By io_uring, many at a time.
    Uring,
    /// By pread and pwrite, one after the other.
    Plain,
}

/// A range of bytes to be read.
///
/// They land at `into[lead..lead + len]`, where `lead` is `offset % alignment`: read is the aligned range
/// around them, so that data behind a header of any length need no copy. The bytes of `into` around them, up
/// to [`DirectFile::room`], may change.
///
/// It is direct if `into` begins on a page, as an [`IoBuffer`](crate::buffer::IoBuffer) does; otherwise it goes
/// through the page cache.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The file.
    pub file: &'a DirectFile,
    /// The first byte to be read.
    pub offset: u64,
    /// Bytes to be read.
    pub len: usize,
    /// Memory of at least `file.room(offset, len)` bytes.
    pub into: &'a mut [u8],
}

/// Bytes to be written at an offset.
///
/// Its whole blocks are direct if they stand in memory as in the file: a byte at a multiple of
/// [`DirectFile::alignment`] in both. The rest goes through the page cache, after the direct part is complete.
///
/// Two writes under way in *different* queues must not touch one page of the file, unless both are direct: a
/// write through the page cache rewrites the page whole.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// The file.
    pub file: &'a DirectFile,
    /// Where the first byte is written.
    pub offset: u64,
    /// What is written.
    pub from: &'a [u8],
}

impl ReadRequest<'_> {
    /// Where in `into` the first byte lands.
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

    /// Bytes before the direct part, and bytes of it.
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

/// Makes transfers, many under way together. Each thread that does has its own.
///
/// ```
/// use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method, ReadRequest, WriteRequest};
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
/// let mut reads: Vec<_> =
///     files.iter().zip(&mut halves).map(|(file, into)| ReadRequest { file, offset: 300, len: 5000, into }).collect();
/// queue.read(&mut reads)?;
/// assert!(reads.iter().all(|read| read.into[read.lead()..][..5000] == [7; 5000]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IoQueue {
    /// None: plainly.
    ring: Option<Ring>,
}

impl IoQueue {
    /// Makes a queue. Where the kernel refuses io_uring (too old, forbidden, no memory to be locked) it is
    /// plain, whatever was asked for.
    pub fn new(method: Method) -> Self {
        let ring = match method {
            Method::Auto | Method::Uring => Ring::new().ok(),
            Method::Plain => None,
        };
        Self { ring }
    }

    /// The method in use: never [`Method::Auto`].
    pub const fn method(&self) -> Method {
        match self.ring {
            Some(_) => Method::Uring,
            None => Method::Plain,
        }
    }

    /// Reads all, and returns when all are complete.
    ///
    /// After an error the buffers hold anything, and nothing is under way any more.
    ///
    /// # Errors
    /// [`Error::Room`] when a buffer is too short, [`Error::Range`] when no file can have such an offset: then
    /// nothing was read. [`Error::Part`] when a file ends before the range does ([`UnexpectedEof`]), or its
    /// disk fails; of several failures it is the one noticed first.
    ///
    /// [`UnexpectedEof`]: std::io::ErrorKind::UnexpectedEof
    pub fn read(&mut self, reads: &mut [ReadRequest<'_>]) -> Result<()> {
        reads.iter().try_for_each(ReadRequest::check)?;
        self.run(reads.iter_mut().flat_map(ReadRequest::pieces))
    }

    /// Writes all, and returns when all are complete; they may not have reached the disk then, only its
    /// queue or, where they were not direct, the page cache. They must not overlap.
    ///
    /// A file becomes longer where it has to. After an error any part of the bytes is written, and nothing is
    /// under way any more.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when a file was opened for reading, [`Error::Range`] when no file can have such an
    /// offset: then nothing was written. [`Error::Part`] when the file system is full or its disk fails; of
    /// several failures it is the one noticed first.
    pub fn write(&mut self, writes: &[WriteRequest<'_>]) -> Result<()> {
        writes.iter().try_for_each(WriteRequest::check)?;
        self.run(writes.iter().flat_map(WriteRequest::direct_pieces))?;
        // Afterwards: a page that is written through the page cache while a neighbouring block in it is
        // written direct could bring that block's old bytes back.
        // By plain calls, as a ring would make them too: they only copy to memory.
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
