//! Sequential writing of a file by direct I/O.
//!
//! ```text
//!   file     |  block  |  block  |  block  |  block  |
//!   bytes    . . . start######################next
//!            |  kept  >|<      written       >| carried
//!
//!   buffer            |lead|##### len #####|     the caller puts bytes at `lead`, and `write` puts
//!                     |  block  |  block  |      the carried part in front: no other copy
//! ```
//!
//! Costs: for each write, one copy of less than a block in each direction.

use crate::transfer::Piece;
use crate::{
    Error, Result,
    buffer::IoBuffer,
    direct::DirectFile,
    io_queue::{IoQueue, WriteRequest},
};

/// Writes a file sequentially by direct I/O, in pieces of any length, beginning at any byte.
///
/// Bytes that do not fill a block are carried in memory; [`finish`](Self::finish) writes the last
/// of them, and without it they are lost. Until then no other code may write to the block where the
/// data start nor to the page where they end.
///
/// ```
/// use std::path::Path;
/// use syncline_store::direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method};
///
/// # use std::os::unix::fs::FileExt;
/// let file = tempfile::tempfile()?;
/// file.write_all_at(b"header", 0)?;
/// let mut queue = IoQueue::new(Method::Auto);
/// let mut buffer = IoBuffer::new(1 << 20)?;
/// let mut writer = DirectWriter::new(DirectFile::of(&file, Path::new("file"), true)?, 6)?;
/// for len in [1000, 10_000, 3] {
///     let lead = writer.lead();
///     buffer.as_mut_slice()[lead..lead + len].fill(b'+');
///     writer.write(&mut queue, buffer.as_mut_slice(), len)?;
/// }
/// writer.finish()?;
/// assert_eq!(file.metadata()?.len(), 6 + 11_003);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DirectWriter {
    file: DirectFile,
    start: u64,
    /// The offset of the next byte.
    next: u64,
    /// One block: its first `lead` bytes are those before `next`.
    block: IoBuffer,
}

impl DirectWriter {
    /// Creates a writer that begins at byte `start`; the bytes of `file` before it are kept. A
    /// shorter file is filled with zeros up to `start`.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the file was opened for reading; [`Error::Range`] if `start` exceeds
    /// the maximal length of a file; [`Error::Part`] if the bytes before `start` in its block
    /// cannot be read; [`Error::Memory`].
    pub fn new(file: DirectFile, start: u64) -> Result<Self> {
        if !file.is_writable() {
            return Err(Error::ReadOnly { name: file.name().display().to_string() });
        }
        file.check_range(start, 0)?;
        let mut block = IoBuffer::new(file.alignment())?;
        let lead = file.lead(start);
        let first = start - lead as u64;
        let kept = file.len()?.saturating_sub(first).min(lead as u64) as usize;
        if kept > 0 {
            Piece::read(&file, first, &mut block.as_mut_slice()[..kept], kept).plain()?;
        }
        Ok(Self { file, start, next: start, block })
    }

    /// Returns the offset in the next buffer at which the caller must put the next bytes, so that
    /// memory and file are equally aligned. It changes with every write.
    pub const fn lead(&self) -> usize {
        self.file.lead(self.next)
    }

    /// Returns the offset in the file of the next byte.
    pub const fn position(&self) -> u64 {
        self.next
    }

    /// Returns the file. The bytes from [`position`](Self::position) less [`lead`](Self::lead) on
    /// are not in it yet.
    pub const fn file(&self) -> &DirectFile {
        &self.file
    }

    /// Writes `buffer[lead..lead + len]` as the next bytes, and returns when they are written,
    /// except those after the last whole block. The bytes before `lead` are overwritten.
    ///
    /// The buffer should begin on a page boundary, as an [`IoBuffer`] does; otherwise all data go
    /// through the page cache. After an error the position has not advanced, and the same write may
    /// be retried.
    ///
    /// # Errors
    /// [`Error::Room`] if the buffer is shorter than `lead + len`; those of [`IoQueue::write`].
    pub fn write(&mut self, queue: &mut IoQueue, buffer: &mut [u8], len: usize) -> Result<()> {
        let (lead, given) = (self.lead(), buffer.len());
        let needed = lead.saturating_add(len);
        let Some(filled) = buffer.get_mut(..needed) else {
            return Err(Error::Room {
                name: self.file.name().display().to_string(),
                needed,
                given,
            });
        };
        self.file.check_range(self.next, len)?;
        let block = self.block.as_mut_slice();
        let whole = needed - needed % block.len();
        if whole == 0 {
            block[lead..needed].copy_from_slice(&filled[lead..]);
        } else {
            filled[..lead].copy_from_slice(&block[..lead]);
            let from = &filled[..whole];
            queue.write(&[WriteRequest {
                file: &self.file,
                offset: self.next - lead as u64,
                from,
            }])?;
            block[..needed - whole].copy_from_slice(&filled[whole..]);
        }
        self.next += len as u64;
        Ok(())
    }

    /// Writes the carried rest through the page cache, and returns the file. Its length is then the
    /// larger of its old length and the end of the written bytes; a writer that was given no bytes
    /// changes nothing. The data are not synced.
    ///
    /// # Errors
    /// [`Error::Part`] if the file system is full or its disk fails.
    pub fn finish(self) -> Result<DirectFile> {
        let rest = &self.block.as_slice()[..self.lead()];
        if !rest.is_empty() && self.next > self.start {
            Piece::write(&self.file, self.next - rest.len() as u64, rest).plain()?;
        }
        Ok(self.file)
    }
}
