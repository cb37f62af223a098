//! Blocks whose bytes are not all present, in memory that can be written directly.
//!
//! ```text
//!  blocks   block start ─> slot, which bytes are present     BTreeMap
//!  slabs    | slot | slot | slot | ... |  | slot | ...       page-aligned, 256 KiB each; kept
//!  done     blocks that are complete and not written yet
//! ```
//!
//! # Costs
//! A search in a tree and a copy for each part. Slabs are not given back: the memory is that of the
//! most blocks that were incomplete at once.

use std::collections::BTreeMap;
use std::ops::Range;

use super::share::Share;
use crate::{Error, Result, buffer::IoBuffer};

/// The bytes of a slab, at least.
const SLAB: usize = 256 << 10;

/// Blocks that one host writes.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The name of the file.
    name: String,
    /// The bytes of a slot: the length of the longest block.
    slot: usize,
    slabs: Vec<IoBuffer>,
    /// Slots that no block is in.
    free: Vec<usize>,
    /// The incomplete blocks, by their first byte.
    incomplete: BTreeMap<u64, Block>,
    /// The complete blocks.
    done: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    bytes: Range<u64>,
    slot: usize,
    /// The ranges that are present, in order, no two of which touch.
    present: Vec<Range<u64>>,
}

impl Blocks {
    /// Creates a set without blocks, for blocks of up to `longest` bytes; `name` is for messages.
    pub(super) fn new(name: String, longest: usize) -> Self {
        Self {
            name,
            slot: longest,
            slabs: Vec::new(),
            free: Vec::new(),
            incomplete: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// Returns the number of incomplete blocks.
    pub(super) fn incomplete(&self) -> usize {
        self.incomplete.len()
    }

    /// Returns whether the block that begins at `start` is incomplete.
    pub(super) fn has(&self, start: u64) -> bool {
        self.incomplete.contains_key(&start)
    }

    /// Returns the first incomplete block, and the first range of it that is missing.
    pub(super) fn first_missing(&self) -> Option<(Range<u64>, Range<u64>)> {
        let (_, block) = self.incomplete.first_key_value()?;
        let (mut from, mut to) = (block.bytes.start, block.bytes.end);
        if let Some(first) = block.present.first() {
            if first.start == from {
                from = first.end;
                to = block.present.get(1).map_or(to, |next| next.start);
            } else {
                to = first.start;
            }
        }
        Some((block.bytes.clone(), from..to))
    }

    /// Adds the bytes at `offset` to `block`, into which they fit.
    ///
    /// # Errors
    /// [`Error::Columns`] if some of them are present already, [`Error::Memory`].
    pub(super) fn add(
        &mut self,
        share: &Share,
        block: &Range<u64>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if !self.has(block.start) {
            self.open(share, block)?;
        }
        let slot = self.slot;
        let Some(found) = self.incomplete.get_mut(&block.start) else { return Ok(()) };
        let range = offset..offset + bytes.len() as u64;
        if !found.insert(range.clone()) {
            return Err(self.twice(&range));
        }
        let at = (offset - block.start) as usize;
        bytes_of(&mut self.slabs, slot, found.slot)[at..at + bytes.len()].copy_from_slice(bytes);
        self.settle(block.start);
        Ok(())
    }

    /// Copies the bytes of `block` before `from` to `into`, if exactly those are present, and
    /// forgets the block; returns whether it did.
    pub(super) fn take_before(&mut self, block: &Range<u64>, from: u64, into: &mut [u8]) -> bool {
        let present = block.start..from;
        let found = |found: &&mut Block| found.present == [present.clone()];
        let Some(slot) = self.incomplete.get_mut(&block.start).filter(found).map(|b| b.slot) else {
            return false;
        };
        into.copy_from_slice(&bytes_of(&mut self.slabs, self.slot, slot)[..into.len()]);
        self.incomplete.remove(&block.start);
        self.free.push(slot);
        true
    }

    /// Makes an incomplete block, of which only the bytes of the header are present.
    pub(super) fn open(&mut self, share: &Share, block: &Range<u64>) -> Result<()> {
        let slot = self.take_slot()?;
        let mut opened = Block { bytes: block.clone(), slot, present: Vec::new() };
        let header = share.header().get(block.start as usize..).unwrap_or_default();
        let header = &header[..header.len().min((block.end - block.start) as usize)];
        bytes_of(&mut self.slabs, self.slot, slot)[..header.len()].copy_from_slice(header);
        opened.insert(block.start..block.start + header.len() as u64);
        self.incomplete.insert(block.start, opened);
        self.settle(block.start);
        Ok(())
    }

    /// Returns the complete blocks: the offset in the file of each, and its bytes.
    pub(super) fn done(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.done.iter().map(|block| {
            let len = (block.bytes.end - block.bytes.start) as usize;
            let (slab, at) = position(self.slot, block.slot);
            (block.bytes.start, &self.slabs[slab].as_slice()[at..at + len])
        })
    }

    /// Forgets the complete blocks, which have been written.
    pub(super) fn clear_done(&mut self) {
        self.free.extend(self.done.drain(..).map(|block| block.slot));
    }

    /// Returns the error for bytes that are present already.
    pub(super) fn twice(&self, range: &Range<u64>) -> Error {
        let Range { start, end } = range;
        let why =
            format!("bytes {start} to {end} were given twice: the hosts divide it differently");
        Error::Columns { name: self.name.clone(), why }
    }

    /// Moves a block to the complete ones if it is complete.
    fn settle(&mut self, start: u64) {
        if self.incomplete.get(&start).is_some_and(Block::is_complete) {
            self.done.extend(self.incomplete.remove(&start));
        }
    }

    fn take_slot(&mut self) -> Result<usize> {
        if self.free.is_empty() {
            let each = per_slab(self.slot);
            let first = self.slabs.len() * each;
            self.slabs.push(IoBuffer::new(each * self.slot)?);
            self.free.extend((first..first + each).rev());
        }
        // There is one: at least one slot was added.
        Ok(self.free.pop().unwrap_or_default())
    }
}

fn per_slab(slot: usize) -> usize {
    (SLAB / slot).max(1)
}

/// Returns the slab of a slot, and its offset in it.
fn position(slot_bytes: usize, slot: usize) -> (usize, usize) {
    let each = per_slab(slot_bytes);
    (slot / each, slot % each * slot_bytes)
}

fn bytes_of(slabs: &mut [IoBuffer], slot_bytes: usize, slot: usize) -> &mut [u8] {
    let (slab, at) = position(slot_bytes, slot);
    &mut slabs[slab].as_mut_slice()[at..at + slot_bytes]
}

impl Block {
    fn is_complete(&self) -> bool {
        self.present.first() == Some(&self.bytes)
    }

    /// Adds a range; returns false, and changes nothing, if a byte of it is present.
    fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let at = self.present.partition_point(|present| present.end <= range.start);
        if self.present.get(at).is_some_and(|next| next.start < range.end) {
            return false;
        }
        let before = at > 0 && self.present[at - 1].end == range.start;
        let after = self.present.get(at).is_some_and(|next| next.start == range.end);
        match (before, after) {
            (true, true) => {
                self.present[at - 1].end = self.present[at].end;
                self.present.remove(at);
            }
            (true, false) => self.present[at - 1].end = range.end,
            (false, true) => self.present[at].start = range.start,
            (false, false) => self.present.insert(at, range),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use syncline_testkit::{Random, cases, seed};

    use super::*;

    #[test]
    fn ranges_are_present_once() {
        let seed = seed(31);
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..cases(2000) {
            let mut block = Block { bytes: 100..140, slot: 0, present: Vec::new() };
            let mut present = [false; 40];
            for _ in 0..30 {
                let from = random.below(40_usize);
                let to = from + random.below(41 - from);
                let free = present[from..to].iter().all(|&present| !present);
                assert_eq!(block.insert(100 + from as u64..100 + to as u64), free);
                if free {
                    present[from..to].fill(true);
                }
                let counted: u64 = block.present.iter().map(|r| r.end - r.start).sum();
                assert_eq!(counted, present.iter().filter(|&&present| present).count() as u64);
                assert!(block.present.windows(2).all(|two| two[0].end < two[1].start));
                assert_eq!(block.is_complete(), counted == 40);
            }
        }
    }

    #[test]
    fn memory_is_used_again() {
        let share = Share::new(b"head", (100_000, 512), 1, 512, |_, _| 0).unwrap();
        let mut blocks = Blocks::new("name".to_owned(), 512);
        for round in 0..50_u64 {
            for nth in 0..600 {
                let block = share.block_at((600 * round + nth) * 512);
                for half in [block.start.max(4)..block.start + 256, block.start + 256..block.end] {
                    let bytes = vec![nth as u8; (half.end - half.start) as usize];
                    blocks.add(&share, &block, half.start, &bytes).unwrap();
                    assert_eq!(blocks.incomplete(), usize::from(half.end < block.end));
                }
            }
            let mut count = 0;
            for (nth, (offset, bytes)) in blocks.done().enumerate() {
                assert_eq!((offset, bytes.len()), ((600 * round + nth as u64) * 512, 512));
                assert_eq!(bytes.as_ptr().addr() % 512, 0);
                let (head, rest) = bytes.split_at(if offset == 0 { 4 } else { 0 });
                assert!(rest.iter().all(|&byte| byte == nth as u8));
                assert!(head == b"head" || head.is_empty());
                count += 1;
            }
            assert_eq!(count, 600);
            blocks.clear_done();
        }
        assert_eq!(blocks.slabs.len(), 2);
    }

    #[test]
    fn what_is_missing_or_given_twice_is_named() {
        let share = Share::new(b"", (4, 4096), 1, 4096, |_, _| 0).unwrap();
        let mut blocks = Blocks::new("name".to_owned(), 4096);
        let block = share.block_at(5000);
        blocks.add(&share, &block, 5000, &[1; 100]).unwrap();
        assert_eq!(blocks.first_missing(), Some((4096..8192, 4096..5000)));
        blocks.add(&share, &block, 4096, &[1; 904]).unwrap();
        blocks.add(&share, &block, 6000, &[1; 10]).unwrap();
        assert_eq!(blocks.first_missing(), Some((4096..8192, 5100..6000)));
        let error = blocks.add(&share, &block, 5099, &[1; 2]).unwrap_err().to_string();
        let expected = "name: bytes 5099 to 5101 were given twice: the hosts divide it differently";
        assert_eq!(error, expected);
    }
}
