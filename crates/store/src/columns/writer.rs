//! The rows of one host, written to a file that several hosts write.
//!
//! # Contract
//! Every block of the file is written once, by one host, when all its bytes are present, with one
//! direct request. No host reads the file.
//!
//! ```text
//!  band of rows ──┬─ whole blocks ──────────────── one request for each row ─┐
//!  (ragged)       │     ^ the block before them, if its edge came before      │
//!                 │     └──────────────────── blocks                          │
//!                 ├─ other parts of own blocks ─> blocks ── those complete ───┼──> IoQueue: up
//!                 └─ parts of others' blocks ───> edges                       │    to 64 in flight
//!                                                   │                         │
//!  edges of other hosts, in any order ─ accept ─────┼─> blocks ───────────────┘
//!                                                   v
//!                                              other hosts ─ accept
//! ```
//!
//! # Memory
//! Blocks that lack bytes of another host are kept, from the row in which the first of their bytes
//! arrives, of either host. A row leaves at most two of them to a host: the block that it shares
//! with its western neighbour, and, for the host at which rows begin, the block that it shares with
//! the end of the row before. So if no host is more than `a` rows ahead of another, and bands have
//! `r` rows, a host keeps at most `2 * (a + r) + 1` blocks, and of rows that are longer than a
//! block half as many unless it is host 0. [`ColumnWriter::incomplete`] returns their number; a
//! caller that must bound it accepts edges before it writes the next band.
//!
//! # Costs
//! Whole blocks are written from the caller's buffer. An edge is copied twice on its way, and so is
//! the part of the owner if it comes first. If the edge comes first, it is completed in the buffer
//! and costs no request of its own. Measured on a virtual disk, with ext4, in a preallocated file,
//! with rows of 128 KiB, in GiB/s until the data are synced
//! (`bench/results/2026-11-25-vm/columns`):
//!
//! | piece of each row, bare requests | 8 KiB | 32 KiB |
//! |----------------------------------|-------|--------|
//! | direct, 1 in flight              | 0.10  | 0.32   |
//! | direct, 32 in flight             | 0.25  | 0.86   |
//! | direct, 16 threads               | 0.36  | 0.69   |
//! | page cache, then a sync          | 0.33  | 0.79   |
//! | direct, 8 MiB at once            |       | 2.7    |
//!
//! | this writer, 4 hosts of 32 KiB, on a busier machine | GiB/s |
//! |-----------------------------------------------------|-------|
//! | cuts between blocks                                 | 0.52  |
//! | blocks of 4096 bytes, edges come first              | 0.44  |
//! | blocks of 4096 bytes, edges come later              | 0.34  |
//! | blocks of 512 bytes, edges come first               | 0.21  |
//! | memory aligned to 512 bytes instead of 4096         | 0.15  |

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::blocks::Blocks;
use super::edge;
use super::share::{PAGE, Part, Share, Split};
use crate::{
    Error, Result,
    direct::DirectFile,
    io_queue::{IoQueue, WriteRequest},
};

#[cfg(test)]
mod tests;

/// Writes the rows of one host, band after band.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
/// use syncline_store::columns::{ColumnWriter, Share};
/// use syncline_store::direct_io::{DirectFile, IoBuffer, IoQueue, Method};
///
/// # let file = tempfile::tempfile()?;
/// let open = || DirectFile::of(&file, Path::new("file"), true);
/// let block = Share::best_block(&open()?);
/// // 100 rows of 3000 bytes; the cut between the two hosts moves by 8 bytes from row to row.
/// let share = Share::new(b"header", (100, 3000), 2, block, |row, _| 2000 - 8 * row)?;
/// let share = Arc::new(share);
/// let mut hosts = [
///     ColumnWriter::new(open()?, share.clone(), 0)?,
///     ColumnWriter::new(open()?, share.clone(), 1)?,
/// ];
/// let mut queue = IoQueue::new(Method::Auto);
/// for rows in [0..60, 60..100] {
///     for host in 0..2 {
///         let (columns, place) = share.place(&rows, host);
///         let mut buffer = IoBuffer::new(place.room)?;
///         for row in rows.clone() {
///             let own = share.columns(row, host);
///             let at = place.lead + (row - rows.start) as usize * place.pitch;
///             let at = at + (own.start - columns.start) as usize;
///             buffer.as_mut_slice()[at..][..own.clone().count()].fill(1 + host as u8);
///         }
///         hosts[host].write(&mut queue, buffer.as_mut_slice(), rows.clone())?;
///         for (to, edge) in hosts[host].take_edges() {
///             hosts[to].accept(&edge)?;
///         }
///     }
/// }
/// for host in hosts {
///     host.finish(&mut queue)?;
/// }
/// # use std::os::unix::fs::FileExt;
/// let mut row = [0; 3000];
/// file.read_exact_at(&mut row, 6 + 50 * 3000)?;
/// assert_eq!(row.iter().filter(|&&byte| byte == 1).count(), 2000 - 8 * 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ColumnWriter {
    file: DirectFile,
    share: Arc<Share>,
    host: usize,
    /// The rows that were given, if any were.
    given: Option<Range<u64>>,
    blocks: Blocks,
    /// Parts of blocks of other hosts, by host.
    edges: BTreeMap<usize, Vec<u8>>,
}

/// Consecutive bytes of the file that are consecutive in the buffer.
#[derive(Default)]
struct Run {
    bytes: Range<u64>,
    /// The offset in the buffer of the first of them.
    at: usize,
}

impl ColumnWriter {
    /// Creates the writer of `host`, which writes to a file that has its full length.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if `file` was opened for reading; [`Error::Columns`] if there is no such
    /// host, or the blocks of `share` are shorter than those of direct requests, or than a page if
    /// the file has no direct I/O; [`Error::Memory`].
    pub fn new(file: DirectFile, share: Arc<Share>, host: usize) -> Result<Self> {
        let name = file.name().display().to_string();
        if !file.is_writable() {
            return Err(Error::ReadOnly { name });
        }
        let wrong = |why| Error::Columns { name: name.clone(), why };
        if host >= share.hosts() {
            let hosts = share.hosts();
            return Err(wrong(format!("it is shared by {hosts} hosts, there is no host {host}")));
        }
        let (block, least) = (share.block(), Share::least_block(&file));
        if block < least {
            return Err(wrong(format!(
                "host {host} writes blocks of {least} bytes, and cannot share blocks of {block}"
            )));
        }
        let longest = block.max(PAGE as usize);
        let mut blocks = Blocks::new(name.clone(), longest);
        if host == 0 {
            // Blocks of the header only. They are complete at once.
            let mut block = share.block_at(0);
            while block.end <= share.rows().start {
                blocks.open(&share, &block)?;
                block = share.block_at(block.end);
            }
        }
        Ok(Self { file, share, host, given: None, blocks, edges: BTreeMap::new() })
    }

    /// Writes this host's part of `rows`, which follow all rows that were given, or precede them:
    /// so a file is written downward or upward. They are in `buffer` as [`Share::place`] states;
    /// other bytes of the buffer may change.
    ///
    /// On return whole blocks are written, and complete blocks that were waiting for edges;
    /// [`take_edges`](Self::take_edges) returns the bytes that other hosts write. The buffer begins
    /// on a page boundary, as an [`IoBuffer`](crate::buffer::IoBuffer) does.
    ///
    /// # Errors
    /// [`Error::Columns`] if the rows are not next to those that were given, or the buffer does not
    /// begin on a page boundary; [`Error::Room`] if it is too short; [`Error::Part`] if the file
    /// system is full or its disk fails; [`Error::Memory`]. After an error the writer cannot
    /// complete the file.
    pub fn write(
        &mut self,
        queue: &mut IoQueue,
        buffer: &mut [u8],
        rows: Range<u64>,
    ) -> Result<()> {
        let all = self.share.rows().rows;
        let given = self.given.clone().unwrap_or(rows.start..rows.start);
        let is_next = rows.start == given.end || rows.end == given.start;
        if !is_next || rows.end < rows.start || rows.end > all {
            let why = format!(
                "rows {} to {} were given after rows {} to {} of {all}",
                rows.start, rows.end, given.start, given.end,
            );
            return Err(Error::Columns { name: self.name(), why });
        }
        let (columns, place) = self.share.place(&rows, self.host);
        if buffer.len() < place.room {
            let (needed, given) = (place.room, buffer.len());
            return Err(Error::Room { name: self.name(), needed, given });
        }
        // Other memory would be written through the page cache, whose pages may have blocks of
        // several hosts.
        if place.room > 0 && !self.file.is_aligned(buffer.as_ptr().addr()) {
            let why = "its rows are in a buffer that does not begin on a page boundary".to_owned();
            return Err(Error::Columns { name: self.name(), why });
        }
        let mut writes = Vec::new();
        let mut run = Run::default();
        for row in rows.clone() {
            let own = self.share.columns(row, self.host);
            if own.is_empty() {
                continue;
            }
            let bytes = self.share.bytes(row, self.host);
            let at = place.lead
                + (row - rows.start) as usize * place.pitch
                + (own.start - columns.start) as usize;
            let len = (run.bytes.end - run.bytes.start) as usize;
            if run.bytes.end == bytes.start && run.at + len == at {
                run.bytes.end = bytes.end;
            } else {
                self.put(&run, buffer, &mut writes)?;
                run = Run { bytes, at };
            }
        }
        self.put(&run, buffer, &mut writes)?;
        self.given = Some(given.start.min(rows.start)..given.end.max(rows.end));
        let buffer = &*buffer;
        let writes: Vec<_> =
            writes.into_iter().map(|(offset, range)| (offset, &buffer[range])).collect();
        self.send(queue, &writes)
    }

    /// Splits a run at blocks: whole blocks are added to `writes`, parts to blocks or edges.
    fn put(
        &mut self,
        run: &Run,
        buffer: &mut [u8],
        writes: &mut Vec<(u64, Range<usize>)>,
    ) -> Result<()> {
        let Split { mut whole, mut parts } = self.share.split(run.bytes.clone());
        let range = |bytes: &Range<u64>| {
            let at = run.at + (bytes.start - run.bytes.start) as usize;
            at..at + (bytes.end - bytes.start) as usize
        };
        let mut first = range(&whole);
        if let Some(Part { bytes, block, .. }) = &parts[0]
            && bytes.end == block.end
        {
            // The memory before the part has room for the rest of its block: no two rows have a
            // block of `step` bytes in common, or rows are in the buffer as in the file.
            let at = range(bytes).start;
            let before = at - (bytes.start - block.start) as usize..at;
            if self.blocks.take_before(block, bytes.start, &mut buffer[before.clone()]) {
                (whole.start, first.start) = (block.start, before.start);
                parts[0] = None;
            }
        }
        if !whole.is_empty() {
            writes.push((whole.start, first));
        }
        for piece in parts.iter().flatten() {
            let bytes = &buffer[range(&piece.bytes)];
            if piece.owner == self.host {
                self.blocks.add(&self.share, &piece.block, piece.bytes.start, bytes)?;
            } else {
                let edges = self.edges.entry(piece.owner).or_default();
                edge::push(edges, piece.bytes.start, bytes);
            }
        }
        Ok(())
    }

    /// Writes blocks of the buffer, and those that are complete.
    fn send(&mut self, queue: &mut IoQueue, writes: &[(u64, &[u8])]) -> Result<()> {
        let file = &self.file;
        let all: Vec<_> = writes
            .iter()
            .copied()
            .chain(self.blocks.done())
            .map(|(offset, from)| WriteRequest { file, offset, from })
            .collect();
        queue.write(&all)?;
        self.blocks.clear_done();
        // The file system may have refused a direct request after all.
        let least = Share::least_block(&self.file);
        if self.share.block() < least {
            let why = format!(
                "its file system takes no direct writes after all, and blocks of {} bytes cannot be \
                 shared without them: use blocks of {least}",
                self.share.block()
            );
            return Err(Error::Columns { name: self.name(), why });
        }
        Ok(())
    }

    /// Returns the bytes that other hosts write, as a message for each, of all rows given since the
    /// last call. Each message must reach [`accept`](Self::accept) of its host once, in any order;
    /// its length is at most the sum of [`Share::edge_bytes`] for the rows.
    pub fn take_edges(&mut self) -> impl Iterator<Item = (usize, Vec<u8>)> + use<> {
        std::mem::take(&mut self.edges).into_iter()
    }

    /// Takes over the bytes of a message of another host, whose rows this host may have written or
    /// not. Blocks that they complete are written with the next band, or by
    /// [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`Error::Columns`] if the message is damaged, is for another host, or came before: the hosts
    /// divide the file differently, or a message was delivered twice. [`Error::Memory`].
    pub fn accept(&mut self, mut message: &[u8]) -> Result<()> {
        let wrong = |why| Error::Columns { name: self.file.name().display().to_string(), why };
        let rows = self.share.rows();
        while !message.is_empty() {
            let Some((offset, bytes)) = edge::pop(&mut message) else {
                let why = format!("an edge of {} bytes ends within a part", message.len());
                return Err(wrong(why));
            };
            let end = offset.saturating_add(bytes.len() as u64);
            let range = offset..end;
            if bytes.is_empty() || offset < rows.start || end > rows.end() {
                let why = format!("an edge has bytes {offset} to {end}, which are in no row");
                return Err(wrong(why));
            }
            let block = self.share.block_at(offset);
            let writer = self.share.writer(&block);
            if self.share.owner(offset) == self.host {
                return Err(wrong(format!(
                    "bytes {offset} to {end} came to host {}, which owns them: the hosts divide it \
                     differently",
                    self.host
                )));
            }
            if end > block.end || writer != self.host {
                return Err(wrong(format!(
                    "bytes {offset} to {end} came to host {}, but host {writer} writes their block: \
                     the hosts divide it differently",
                    self.host
                )));
            }
            // The last byte of the block is this host's. Once that is given, the block is
            // incomplete, or all its bytes were given.
            let last = (block.end - 1 - rows.start) / rows.row_bytes;
            let given = self.given.as_ref().is_some_and(|given| given.contains(&last));
            if given && !self.blocks.has(block.start) {
                return Err(self.blocks.twice(&range));
            }
            self.blocks.add(&self.share, &block, offset, bytes)?;
        }
        Ok(())
    }

    /// Writes the blocks that are complete by now.
    ///
    /// # Errors
    /// Those of [`IoQueue::write`].
    pub fn flush(&mut self, queue: &mut IoQueue) -> Result<()> {
        self.send(queue, &[])
    }

    /// Returns the number of blocks that wait for bytes of this or another host.
    pub fn incomplete(&self) -> usize {
        self.blocks.incomplete()
    }

    /// Returns whether all rows were given and all edges came.
    pub fn is_complete(&self) -> bool {
        self.rows_given() == self.share.rows().rows
            && self.incomplete() == 0
            && self.edges.is_empty()
    }

    /// Writes the last blocks and returns the file. The data are not synced.
    ///
    /// # Errors
    /// [`Error::Columns`] if rows or edges are missing, or edges were not taken; those of
    /// [`IoQueue::write`].
    pub fn finish(mut self, queue: &mut IoQueue) -> Result<DirectFile> {
        self.flush(queue)?;
        let wrong = |why| Err(Error::Columns { name: self.file.name().display().to_string(), why });
        let (given, rows) = (self.rows_given(), self.share.rows().rows);
        if given < rows {
            return wrong(format!("host {} wrote {given} of {rows} rows", self.host));
        }
        if let Some((to, edge)) = self.edges.iter().next() {
            let why = format!("an edge of {} bytes for host {to} was not sent", edge.len());
            return wrong(why);
        }
        if let Some((block, missing)) = self.blocks.first_missing() {
            let owner = self.share.owner(missing.start);
            return wrong(format!(
                "bytes {} to {} of the block from {} to {} are missing, as are those of {} other \
                 blocks of host {}: host {owner} has sent no edge with them",
                missing.start,
                missing.end,
                block.start,
                block.end,
                self.incomplete() - 1,
                self.host
            ));
        }
        Ok(self.file)
    }

    /// Returns the host that writes.
    pub const fn host(&self) -> usize {
        self.host
    }

    fn rows_given(&self) -> u64 {
        self.given.as_ref().map_or(0, |given| given.end - given.start)
    }

    fn name(&self) -> String {
        self.file.name().display().to_string()
    }
}
