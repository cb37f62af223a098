//! Ranges of columns in a buffer, with a constant distance from one row to the next.
//!
//! A direct read transfers whole blocks, and the rows of a file begin at any byte of a block. The
//! distance between two rows in memory (the *pitch*) is congruent to their distance in the file
//! modulo a block, so every row has the same position in its block in memory as in the file: the
//! device writes each row to its place, and no byte is copied.
//!
//! ```text
//!  file    [      ][      ] ... [      ][      ] ... [      ][      ]
//!             aaaaa             bbbbb                     ccccc
//!             3                 48                        93             45 from row to row
//!
//!  buffer  [      ][      ][      ][      ][      ][      ][      ]
//!             aaaaa                bbbbb                ccccc
//!             3                    24                   45               21 from row to row
//! ```
//!
//! The pitch is the shortest with which no two rows have a block in common.
//!
//! | rows                                    | pitch       | requests       | also read         |
//! |-----------------------------------------|-------------|----------------|-------------------|
//! | the gap between two is at most 8 KiB,   | `row_bytes` | 1              | the gaps          |
//! | and at most the length of one           |             |                |                   |
//! | others                                  | see above   | 1 for each row | 2 blocks each row |
//!
//! So one request reads no more than many would. Longer gaps cost less than requests on a disk of
//! 2 GiB/s, but on a slow one they cost their bytes: two hosts that each read half of rows of 64
//! KiB at 64 MiB/s took as long as one when gaps of 32 KiB were read.
//!
//! # Costs
//! No copy, and up to 3 blocks of memory for each row. Measured on a virtual disk with rows of
//! 128 KiB, cold, in GiB/s of bytes asked for (`bench/results/2026-11-25-vm/columns`):
//!
//! | piece of each row       | 8 KiB | 32 KiB | 64 KiB | 96 KiB | 112 KiB |
//! |-------------------------|-------|--------|--------|--------|---------|
//! | direct, 1 in flight     | 0.11  | 0.30   |        |        |         |
//! | direct, 16 in flight    | 0.34  | 0.96   | 1.2    | 1.5    | 1.5     |
//! | direct, 64 in flight    | 0.37  | 1.1    | 1.6    | 1.7    | 1.6     |
//! | direct, 16 threads      | 0.33  | 0.95   | 1.3    | 1.5    | 1.5     |
//! | page cache, 1 thread    | 0.08  | 0.22   |        |        |         |
//! | page cache, 8 threads   | 0.19  | 0.50   |        |        |         |
//! | whole rows, of the part | 0.14  | 0.58   | 1.15   | 1.7    | 2.0     |
//!
//! A piece costs 16 us beside its bytes, or what 40 KiB of them cost. A copy out of a staging
//! buffer would run at 6 to 17 GiB/s.

use std::ops::Range;

use crate::{Error, Result, direct::DirectFile, io_queue::ReadRequest};

/// The longest gap between two rows that is read with them, in bytes: two blocks of most disks.
const NEAR: u64 = 8 << 10;
/// The smallest modulus of a pitch: a multiple of the size of every element, and a cache line.
const LEAST: usize = 64;

/// The rows of an array in a file: row `r` is `row_bytes` bytes from byte `start + r * row_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileRows {
    /// The offset of the first byte of the first row.
    pub start: u64,
    /// The number of bytes of a row.
    pub row_bytes: u64,
    /// The number of rows.
    pub rows: u64,
}

/// The place in a buffer of a range of columns of some rows.
///
/// Byte 0 of the range of row `i`, counted from the first of these rows, is at
/// `lead + i * pitch` of the buffer, which must begin on a page boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The offset in the buffer of the first byte.
    pub lead: usize,
    /// The number of bytes from one row to the next: a multiple of the size of an element if the
    /// length of a row and that of the range are.
    pub pitch: usize,
    /// The number of bytes that the buffer must have.
    pub room: usize,
}

impl FileRows {
    /// Returns the offset of the byte after the last row.
    pub const fn end(&self) -> u64 {
        self.start + self.rows * self.row_bytes
    }

    /// Returns the place for reading the bytes `columns` of each of `rows` from `file`.
    pub fn place(&self, file: &DirectFile, rows: &Range<u64>, columns: &Range<u64>) -> Place {
        self.put(file.alignment(), rows, columns, NEAR)
    }

    /// Returns the most memory that the place of `count` rows takes, wherever they are.
    pub fn room(&self, file: &DirectFile, count: u64, columns: &Range<u64>) -> usize {
        let block = file.alignment().max(LEAST);
        let place = self.put(block, &(0..count), columns, NEAR);
        // The lead of the first row, and the blocks of the last, depend on the rows.
        if place.room == 0 { 0 } else { place.room + 2 * block }
    }

    /// Appends the requests that read the bytes `columns` of each of `rows` into their place in
    /// `into`, and returns it. The bytes of `into` around them may change.
    ///
    /// # Errors
    /// [`Error::Range`] if the array has no such rows or columns, [`Error::Room`] if `into` is too
    /// short; no request is appended then.
    pub fn read<'a>(
        &self,
        file: &'a DirectFile,
        rows: Range<u64>,
        columns: Range<u64>,
        into: &'a mut [u8],
        reads: &mut Vec<ReadRequest<'a>>,
    ) -> Result<Place> {
        let name = || file.name().display().to_string();
        for (what, count, asked) in
            [("rows", self.rows, rows.end), ("bytes in a row", self.row_bytes, columns.end)]
        {
            if asked > count {
                return Err(Error::Range { name: name(), what, count, asked });
            }
        }
        let place = self.place(file, &rows, &columns);
        if into.len() < place.room {
            return Err(Error::Room { name: name(), needed: place.room, given: into.len() });
        }
        if place.room == 0 {
            return Ok(place);
        }
        let len = (columns.end - columns.start) as usize;
        let count = (rows.end - rows.start) as usize;
        let first = self.start + rows.start * self.row_bytes + columns.start;
        if place.pitch as u64 == self.row_bytes {
            let len = (count - 1) * place.pitch + len;
            let into = &mut into[place.lead - file.lead(first)..];
            reads.push(ReadRequest { file, offset: first, len, into });
            return Ok(place);
        }
        let (mut rest, mut cut) = (into, 0);
        for row in 0..count {
            let offset = first + row as u64 * self.row_bytes;
            let begin = place.lead + row * place.pitch - file.lead(offset);
            let room = file.room(offset, len);
            let (slot, after) = rest[begin - cut..].split_at_mut(room);
            (rest, cut) = (after, begin + room);
            reads.push(ReadRequest { file, offset, len, into: slot });
        }
        Ok(place)
    }

    /// Returns the place of bytes in a buffer for transfers in blocks of `block` bytes. Gaps of up
    /// to `near` bytes are a part of it.
    pub(super) fn put(
        &self,
        block: usize,
        rows: &Range<u64>,
        columns: &Range<u64>,
        near: u64,
    ) -> Place {
        // A power of two, as `block` is.
        let block = block.max(LEAST);
        let len = columns.end.saturating_sub(columns.start);
        let count = rows.end.saturating_sub(rows.start) as usize;
        if len == 0 || count == 0 {
            return Place { lead: 0, pitch: self.row_bytes as usize, room: 0 };
        }
        let offset = self.start + rows.start * self.row_bytes + columns.start;
        let lead = (offset % block as u64) as usize;
        let gap = self.row_bytes.saturating_sub(len);
        let row_bytes = self.row_bytes as usize;
        let pitch = if gap <= near.min(len) {
            row_bytes
        } else {
            // The blocks of a row begin up to `block - 1` bytes before it and end as far after it.
            let least = len as usize + 2 * (block - 1);
            least + (row_bytes.wrapping_sub(least) & (block - 1))
        };
        let last = lead + (count - 1) * pitch + len as usize;
        Place { lead, pitch, room: last.next_multiple_of(block) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use syncline_testkit::{Random, cases, seed};

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::io_queue::{IoQueue, Method};

    #[test]
    fn every_row_has_its_place() {
        let seed = seed(11);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..cases(20_000) {
            let block = 1 << random.within(0..=12);
            let element = random.one_of(&[4, 8]);
            let row_bytes = element * random.within(1..=20_000) as u64;
            let rows =
                FileRows { start: 8 * random.below(600), row_bytes, rows: random.below(200) + 1 };
            let first = random.below(rows.rows);
            let some = first..first + 1 + random.below(rows.rows - first);
            let from = element * random.below(row_bytes / element);
            let columns = from..from + element * (1 + random.below((row_bytes - from) / element));
            let len = (columns.end - columns.start) as usize;
            let place = rows.put(block, &some, &columns, random.one_of(&[0, NEAR]));
            assert_eq!(place.pitch % element as usize, 0);
            assert!(place.pitch >= len);
            let mut end = 0;
            for row in some.clone() {
                let offset = rows.start + row * row_bytes + columns.start;
                let lead = (offset % block as u64) as usize;
                let at = place.lead + (row - some.start) as usize * place.pitch;
                assert_eq!(at % block, lead, "as in the file");
                if place.pitch as u64 != row_bytes {
                    assert!(at - lead >= end, "no block is shared");
                    assert!(place.pitch <= len + 3 * block.max(LEAST));
                }
                end = (at + len).next_multiple_of(block);
            }
            assert!(end <= place.room && place.room <= end + block.max(LEAST));
        }
    }

    #[test]
    fn columns_are_read_as_the_standard_library_reads_them() {
        let seed = seed(12);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for method in [Method::Uring, Method::Plain] {
            let mut queue = IoQueue::new(method);
            for _ in 0..cases(60) {
                let row_bytes = random.one_of(&[8, 4096, 40_008, 100_000, 131_072]);
                let rows = FileRows {
                    start: random.one_of(&[0, 64, 128, 4096]),
                    row_bytes,
                    rows: random.below(40) + 1,
                };
                let bytes: Vec<u8> = (0..rows.end()).map(|nth| ((nth * nth) >> 7) as u8).collect();
                let plain = tempfile::tempfile().unwrap();
                plain.write_all_at(&bytes, 0).unwrap();
                let file = DirectFile::of(&plain, Path::new("name"), false).unwrap();
                let file = if random.one_in(4) { file.claiming_no_alignment() } else { file };
                let first = random.below(rows.rows);
                let some = first..first + random.below(rows.rows - first + 1);
                let from = random.below(row_bytes);
                let columns = from..from + random.below(row_bytes - from + 1);
                let len = (columns.end - columns.start) as usize;
                let room = rows.room(&file, some.end - some.start, &columns);
                let mut buffer = IoBuffer::new(room).unwrap();
                let mut reads = Vec::new();
                let (mine, into) = (some.clone(), buffer.as_mut_slice());
                let place = rows.read(&file, mine, columns.clone(), into, &mut reads).unwrap();
                queue.read(&mut reads).unwrap();
                for row in if len == 0 { 0..0 } else { some.clone() } {
                    let at = place.lead + (row - some.start) as usize * place.pitch;
                    let from = (rows.start + row * row_bytes + columns.start) as usize;
                    assert!(buffer.as_slice()[at..at + len] == bytes[from..from + len]);
                }
            }
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let plain = tempfile::tempfile().unwrap();
        plain.write_all_at(&[0; 4000], 0).unwrap();
        let file = DirectFile::of(&plain, Path::new("name"), false).unwrap();
        let rows = FileRows { start: 0, row_bytes: 400, rows: 10 };
        let mut buffer = IoBuffer::new(8192).unwrap();
        let mut read = |some, columns, room: usize| {
            let mut reads = Vec::new();
            let into = &mut buffer.as_mut_slice()[..room];
            rows.read(&file, some, columns, into, &mut reads).unwrap_err().to_string()
        };
        assert_eq!(read(3..11, 0..4, 8192), "name has 10 rows, not 11");
        assert_eq!(read(3..10, 0..401, 8192), "name has 400 bytes in a row, not 401");
        assert!(read(3..10, 0..400, 1000).starts_with("name: the buffer has 1000 bytes, "));
    }
}
