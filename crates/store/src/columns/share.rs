//! The owner of each byte and of each disk block of a file that several hosts write.
//!
//! # Contract
//! The *owner of a byte* is the host in whose range of columns it is; bytes before the first row
//! are a header, which every host can make. The *owner of a block* is the owner of its last byte,
//! and it alone writes the block. Both follow from the geometry, so all hosts compute the same
//! without a message.
//!
//! ```text
//!  blocks    |           b           |          b+1          |          b+2          |
//!  row r     wwwwwwwwwwwwwwwwwweeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeewwwwwwwwwwwwwwwww  row r+1
//!            |  part of w     |  of e |    whole, of e        | of e |   part of w    |
//!            |  travels to e  |  kept |    written            | to w |   kept         |
//! ```
//!
//! A part thus travels from west to east, in the direction of a sweep, in which an eastern host
//! comes to a row later: when it writes a row, the part of its western neighbour has usually
//! arrived. The part at the end of a row goes to the owner of the start of the next row.
//!
//! | case                               | rule                                                 |
//! |------------------------------------|------------------------------------------------------|
//! | several hosts, or rows, in a block | all their parts go to the owner of the last byte     |
//! | the header and rows in one block   | the owner of the last byte writes the header too     |
//! | blocks of the header only          | host 0                                               |
//! | the last page of the file          | one block, whatever the length of blocks, as its end |
//! |                                    | goes through the page cache                          |
//!
//! # Costs
//! A search among the hosts for each part. A message from a host to its eastern neighbour has on
//! average half a block and 12 bytes for each row: with 128 rows and blocks of 4096 bytes 258 KiB,
//! with blocks of 512 bytes 33 KiB. [`Share::edge_bytes`] is exact.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use super::edge::HEAD;
use super::place::{FileRows, Place};
use crate::{Error, Result, checksum::Checksum, direct::DirectFile};

/// The length of a page on most hosts, and of the last block of a file at least. Hosts with longer
/// pages need blocks as long.
pub(super) const PAGE: u64 = 4096;

/// The division of the rows of a file among hosts.
pub struct Share {
    header: Vec<u8>,
    rows: FileRows,
    hosts: usize,
    block: u64,
    /// The first byte, within a row, of a host, which is not host 0.
    cut: Box<dyn Fn(u64, usize) -> u64 + Send + Sync>,
}

/// Some consecutive bytes of one host, split at blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The blocks that the bytes fill: the host writes them.
    pub whole: Range<u64>,
    /// The bytes before and after them.
    pub parts: [Option<Part>; 2],
}

/// A part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes of the file.
    pub bytes: Range<u64>,
    /// The block that they are in.
    pub block: Range<u64>,
    /// The host that writes the block.
    pub owner: usize,
}

impl Share {
    /// Divides `rows` rows of `row_bytes` bytes behind a `header` among `hosts` hosts. Host `h`
    /// owns, of row `r`, the bytes from `cut(r, h)` to `cut(r, h + 1)`; `cut` is called for hosts
    /// from 1 on, must not decrease with the host, and is limited to the length of a row. It is
    /// called often, and returns the same value each time.
    ///
    /// All hosts must give the same values: they compare [`fingerprint`](Self::fingerprint)s. The
    /// length of a block is the largest [`best_block`](Self::best_block) of them.
    ///
    /// # Errors
    /// [`Error::Columns`] if there are no rows or hosts, or `block` is not a power of two.
    pub fn new(
        header: &[u8],
        (rows, row_bytes): (u64, u64),
        hosts: usize,
        block: usize,
        cut: impl Fn(u64, usize) -> u64 + Send + Sync + 'static,
    ) -> Result<Self> {
        let wrong = |why| Error::Columns { name: "the output".to_owned(), why };
        let start = header.len() as u64;
        let end = row_bytes.checked_mul(rows).and_then(|bytes| bytes.checked_add(start));
        if rows == 0 || row_bytes == 0 || hosts == 0 || end.is_none() {
            let why = format!("{rows} rows of {row_bytes} bytes cannot be shared by {hosts} hosts");
            return Err(wrong(why));
        }
        if !block.is_power_of_two() {
            return Err(wrong(format!("a block of {block} bytes is not a power of two")));
        }
        Ok(Self {
            header: header.to_owned(),
            rows: FileRows { start, row_bytes, rows },
            hosts,
            block: block as u64,
            cut: Box::new(cut),
        })
    }

    /// Returns the length of a block with which this host writes `file` fast: that of a direct
    /// request, and at least a page, the usual block of a file system. With shorter blocks edges
    /// are shorter, but ext4 makes writes of parts of its own blocks one at a time.
    pub fn best_block(file: &DirectFile) -> usize {
        file.alignment().max(rustix::param::page_size()).max(PAGE as usize)
    }

    /// Returns the shortest blocks with which this host can write `file` without touching, in the
    /// page cache, a page in which another host writes a block.
    pub(super) fn least_block(file: &DirectFile) -> usize {
        let page = rustix::param::page_size();
        // Only the last block is not written directly.
        let direct = file.is_direct() && page <= PAGE as usize;
        if direct { file.alignment() } else { file.alignment().max(page) }
    }

    /// Returns the position of the rows in the file.
    pub const fn rows(&self) -> FileRows {
        self.rows
    }

    /// Returns the number of hosts.
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// Returns the length of a block in bytes.
    pub const fn block(&self) -> usize {
        self.block as usize
    }

    /// Returns the bytes before the first row.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the first byte of `host` within a row.
    fn from(&self, row: u64, host: usize) -> u64 {
        match host {
            0 => 0,
            _ if host >= self.hosts => self.rows.row_bytes,
            _ => (self.cut)(row, host).min(self.rows.row_bytes),
        }
    }

    /// Returns the bytes of a row that a host owns, counted from the start of the row.
    pub fn columns(&self, row: u64, host: usize) -> Range<u64> {
        let from = self.from(row, host);
        from..self.from(row, host + 1).max(from)
    }

    /// Returns the bytes of the file that a host owns in a row.
    pub fn bytes(&self, row: u64, host: usize) -> Range<u64> {
        let (start, columns) =
            (self.rows.start + row * self.rows.row_bytes, self.columns(row, host));
        start + columns.start..start + columns.end
    }

    /// Returns the columns, as bytes within a row, that contain the part of a host of each of
    /// `rows`, and their place in the buffer for [`ColumnWriter::write`](super::ColumnWriter).
    pub fn place(&self, rows: &Range<u64>, host: usize) -> (Range<u64>, Place) {
        let own = rows.clone().map(|row| self.columns(row, host));
        let columns = own
            .filter(|own| !own.is_empty())
            .reduce(|all, own| all.start.min(own.start)..all.end.max(own.end))
            .unwrap_or_default();
        // Equally aligned modulo a block of the file system too: ext4 makes direct writes to a new
        // file one at a time if their memory is aligned to less.
        let step = self.block().max(PAGE as usize);
        let place = self.rows().put(step, rows, &columns, 0);
        (columns, place)
    }

    /// Returns the host that owns the byte at `offset`; host 0 for a byte of the header.
    pub fn owner(&self, offset: u64) -> usize {
        let Some(within) = offset.checked_sub(self.rows.start) else { return 0 };
        let (row, column) = (within / self.rows.row_bytes, within % self.rows.row_bytes);
        // The last host that begins at or before the column.
        let (mut low, mut high) = (0, self.hosts);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.from(row, middle) <= column { low = middle } else { high = middle }
        }
        low
    }

    /// Returns the block that contains the byte at `offset`.
    pub fn block_at(&self, offset: u64) -> Range<u64> {
        let end = self.rows.end();
        let tail = end - end % self.block.max(PAGE);
        if offset >= tail && offset < end {
            return tail..end;
        }
        let start = offset - offset % self.block;
        start..start + self.block
    }

    /// Returns the host that writes a block.
    pub fn writer(&self, block: &Range<u64>) -> usize {
        self.owner(block.end - 1)
    }

    /// Splits consecutive bytes of one host at blocks.
    pub fn split(&self, bytes: Range<u64>) -> Split {
        let Range { start, end } = bytes;
        let mut split = Split { whole: start..start, parts: [None, None] };
        if start >= end {
            return split;
        }
        let part = |bytes: Range<u64>, block: Range<u64>| {
            let owner = self.writer(&block);
            Some(Part { bytes, block, owner })
        };
        let head = self.block_at(start);
        if head.start < start || head.end > end {
            let to = head.end.min(end);
            split.whole = to..to;
            split.parts[0] = part(start..to, head);
        }
        if split.whole.start < end {
            let tail = self.block_at(end - 1);
            split.whole.end = if tail.end == end { end } else { tail.start };
            if split.whole.end < end {
                split.parts[1] = part(split.whole.end..end, tail);
            }
        }
        split
    }

    /// Returns the number of bytes of the edges that `from` sends to `to` for `rows`.
    pub fn edge_bytes(&self, rows: Range<u64>, from: usize, to: usize) -> usize {
        self.edges_from(rows, from).get(&to).copied().unwrap_or(0)
    }

    /// Returns the hosts to which `from` sends edges for `rows`, with the numbers of their bytes.
    pub fn edges_from(&self, rows: Range<u64>, from: usize) -> BTreeMap<usize, usize> {
        let mut edges = BTreeMap::new();
        let parts = rows.flat_map(|row| self.split(self.bytes(row, from)).parts).flatten();
        for part in parts.filter(|part| part.owner != from) {
            let bytes = HEAD + (part.bytes.end - part.bytes.start) as usize;
            *edges.entry(part.owner).or_default() += bytes;
        }
        edges
    }

    /// Returns a checksum of the header and of the owner of every byte, by which hosts find out
    /// whether they divide the file in the same way.
    ///
    /// # Errors
    /// [`Error::Columns`] if a host begins west of the host before it.
    pub fn fingerprint(&self) -> Result<u64> {
        let mut sum = Checksum::new();
        let mut add = |value: u64| sum.update(&value.to_le_bytes());
        let FileRows { start, row_bytes, rows } = self.rows;
        [start, row_bytes, rows, self.hosts as u64, self.block].into_iter().for_each(&mut add);
        for row in 0..rows {
            let mut west = 0;
            for host in 1..self.hosts {
                let from = self.from(row, host);
                if from < west {
                    let why = format!(
                        "in row {row} host {host} begins at byte {from}, host {} at {west}",
                        host - 1
                    );
                    return Err(Error::Columns { name: "the output".to_owned(), why });
                }
                add(from);
                west = from;
            }
        }
        sum.update(&self.header);
        Ok(sum.value())
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, hosts, block, .. } = self;
        f.debug_struct("Share")
            .field("rows", rows)
            .field("hosts", hosts)
            .field("block", block)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use syncline_testkit::{Random, cases, seed};

    use super::super::testing::any_share;
    use super::*;

    /// The rule, byte by byte: each byte is in one split, and its writer is the owner of the last
    /// byte of its block.
    #[test]
    fn each_byte_has_one_writer() {
        let seed = seed(21);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..cases(400) {
            let share = any_share(&mut random, 60_000);
            let rows = share.rows();
            let mut writer = vec![None; rows.end() as usize];
            let mut next = rows.start;
            for row in 0..rows.rows {
                for host in 0..share.hosts() {
                    let bytes = share.bytes(row, host);
                    assert_eq!(bytes.start, next);
                    next = bytes.end;
                    let split = share.split(bytes.clone());
                    let mut put = |bytes: Range<u64>, by| {
                        for byte in bytes {
                            assert_eq!(share.owner(byte), host);
                            assert_eq!(writer[byte as usize].replace(by), None);
                        }
                    };
                    put(split.whole.clone(), host);
                    for part in split.parts.iter().flatten() {
                        assert!(part.bytes.start >= part.block.start);
                        assert!(part.bytes.end <= part.block.end);
                        assert!(part.bytes != part.block);
                        put(part.bytes.clone(), part.owner);
                    }
                    let parts: u64 =
                        split.parts.iter().flatten().map(|p| p.bytes.end - p.bytes.start).sum();
                    assert_eq!(
                        parts + split.whole.end - split.whole.start,
                        bytes.end - bytes.start
                    );
                }
            }
            assert_eq!(next, rows.end());
            for offset in rows.start..rows.end() {
                let block = share.block_at(offset);
                assert!(block.contains(&offset) && block.end <= rows.end());
                assert_eq!(share.block_at(block.start), block);
                assert_eq!(share.block_at(block.end - 1), block);
                assert_eq!(writer[offset as usize], Some(share.owner(block.end - 1)));
            }
        }
    }

    #[test]
    fn hosts_that_divide_differently_have_other_fingerprints() {
        let of = |header: &[u8], hosts, block, skew| {
            let cut = move |row, host| 400 * host as u64 - skew * (row % 10);
            Share::new(header, (30, 1600), hosts, block, cut).unwrap().fingerprint().unwrap()
        };
        let all = [
            of(b"h", 4, 512, 8),
            of(b"i", 4, 512, 8),
            of(b"h", 3, 512, 8),
            of(b"h", 4, 4096, 8),
            of(b"h", 4, 512, 16),
        ];
        assert_eq!(all[0], of(b"h", 4, 512, 8));
        assert!((1..5).all(|nth| !all[..nth].contains(&all[nth])));
        let turned = Share::new(b"", (2, 100), 3, 512, |row, host| 50 - row * host as u64).unwrap();
        let error = turned.fingerprint().unwrap_err().to_string();
        assert_eq!(error, "the output: in row 1 host 2 begins at byte 48, host 1 at 49");
        assert!(Share::new(b"", (2, 100), 0, 512, |_, _| 0).is_err());
        assert!(Share::new(b"", (2, 100), 1, 500, |_, _| 0).is_err());
        assert!(Share::new(b"", (u64::MAX, 100), 1, 512, |_, _| 0).is_err());
    }
}
