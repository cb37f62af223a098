//! The farm's memory, in blocks that processes take and give back, and that outlive processes that
//! are killed.
//!
//! # Contract
//! [`take`](Blocks::take) gives a block that no other process has; [`give`](Blocks::give) makes it
//! free. Each has a holder, the process that is to give it back; [`sweep`](Blocks::sweep) gives
//! back what a dead process held. Memory is taken from the farm's only when no block of the size is
//! free, and never goes back: so a channel that carries large messages grows once, and the pages
//! are those that a processor has just used.
//!
//! ```text
//! table   | place, class, next, holder | ...            a block of class c has 64 · 2^c bytes
//! free    | class 0 | class 1 | ...                     stacks of numbers of blocks, each with a count against ABA
//! memory  | block 0 | block 1 |   | 2 |  ... | top ->   (the table knows where)
//! ```
//!
//! A process that is killed between two of these steps may lose one block, which no process has
//! until the farm ends.
//!
//! # Costs
//! One compare-and-swap to take, one to give back, on one line for each size.
//!
//! # Source
//! Treiber, "Systems programming: coping with parallelism" (IBM RJ 5118, 1986): the stack, with the
//! count.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU32, AtomicU64, Ordering};

/// How many sizes there are: up to 64 · 2^(CLASSES - 1) bytes, 4 TiB.
pub(crate) const CLASSES: usize = 37;
/// The smallest block, and what all are aligned to.
pub(crate) const LINE: u64 = 64;

/// What is known of a block. All zero: there is none.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Where it begins, in lines.
    place: AtomicU64,
    /// The process that holds it; 0: none.
    holder: AtomicU64,
    class: AtomicU32,
    /// The next that is free, plus 1; 0: there is none.
    next: AtomicU32,
}

/// What blocks are made of.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Supply {
    /// Lines that belong to blocks.
    top: AtomicU64,
    /// Blocks that there are.
    made: AtomicU32,
    _pad: AtomicU32,
    /// For each class the topmost block that is free, plus 1, in the lower half; how often it was
    /// changed in the upper.
    free: [Free; CLASSES],
}

impl Default for Supply {
    fn default() -> Self {
        Supply {
            top: AtomicU64::new(0),
            made: AtomicU32::new(0),
            _pad: AtomicU32::new(0),
            free: std::array::from_fn(|_| Free::default()),
        }
    }
}

/// Alone on its line: each size has its own users.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Free(AtomicU64);

/// The memory of a farm, for a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) supply: &'a Supply,
    pub(crate) table: &'a [Block],
    /// Lines that there are.
    pub(crate) lines: u64,
}

/// The class of the smallest blocks that have this many bytes.
fn class_of(len: usize) -> usize {
    (len as u64).div_ceil(LINE).max(1).next_power_of_two().trailing_zeros() as usize
}

/// Of a stack that is changed: how often, as it stands in the upper half of its word.
fn changed(top: u64) -> u64 {
    if plant::is("blocks: no count") { 0 } else { (top >> 32).wrapping_add(1) << 32 }
}

impl Blocks<'_> {
    /// A block of at least `bytes` bytes, held by `holder` (not 0), and its size; `None` if there
    /// is no room.
    pub(crate) fn take(self, len: usize, holder: u64) -> Option<(u32, usize)> {
        let class = class_of(len);
        if class >= CLASSES {
            return None;
        }
        // What is larger than needed is better than nothing.
        let number = self
            .pop(class)
            .or_else(|| self.make(class))
            .or_else(|| (class + 1..CLASSES).find_map(|larger| self.pop(larger)))?;
        // Release: pairs with the Acquire in `sweep`, which then knows the block.
        self.table[number as usize].holder.store(holder, Ordering::Release);
        Some((number, self.size(number)?))
    }

    /// The bytes of a block; `None` if there is none with that number.
    pub(crate) fn size(self, number: u32) -> Option<usize> {
        // Acquire: pairs with the Release in `make`.
        let made = self.supply.made.load(Ordering::Acquire);
        let block = self.table.get(number as usize).filter(|_| number < made)?;
        // Relaxed: written once, before whatever gave the number away.
        Some((LINE << block.class.load(Ordering::Relaxed)) as usize)
    }

    /// How many there are, free ones among them.
    pub(crate) fn made(self) -> usize {
        self.supply.made.load(Ordering::Acquire) as usize // pairs with the Release in `make`
    }

    /// Where a block begins, in bytes from the beginning of the memory.
    pub(crate) fn offset(self, number: u32) -> usize {
        (self.table[number as usize].place.load(Ordering::Relaxed) * LINE) as usize
    }

    /// From now on `holder` is to give the block back.
    ///
    /// # Safety
    /// The caller speaks for the process that held it until now, which uses its bytes no more
    /// unless the new holder lets it.
    pub(crate) unsafe fn hand_over(self, number: u32, holder: u64) {
        // Release: as in `take`.
        self.table[number as usize].holder.store(holder, Ordering::Release);
    }

    /// Whether a block is held by that one.
    pub(crate) fn is_held(self, number: u32, holder: u64) -> bool {
        // Relaxed: what the holder may rely on came with the number.
        self.table[number as usize].holder.load(Ordering::Relaxed) == holder
    }

    /// The process that holds a block.
    pub(crate) fn holder(self, number: u32) -> u64 {
        self.table[number as usize].holder.load(Ordering::Relaxed)
    }

    /// Gives a block back that `holder` has, if it has it still: one that is dead has none, as
    /// [`sweep`](Self::sweep) has given them back.
    ///
    /// # Safety
    /// No process uses the bytes as those of `holder` any more.
    pub(crate) unsafe fn give(self, number: u32, holder: u64) {
        let block = &self.table[number as usize];
        // Acquire: pairs with the Release in `take` and `hand_over`. The exchange, as the process
        // that hands a block to one that dies gives it back when it learns of that, and the sweep
        // may have been there before.
        if block.holder.compare_exchange(holder, 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            self.push(block.class.load(Ordering::Relaxed) as usize, number);
        }
    }

    /// Gives back what a process held, which is dead.
    ///
    /// # Safety
    /// The process has ended.
    pub(crate) unsafe fn sweep(self, holder: u64) {
        let made = self.supply.made.load(Ordering::Acquire); // pairs with the Release in `make`
        for (number, block) in (0..made).zip(self.table) {
            if block.holder.load(Ordering::Relaxed) == holder {
                // SAFETY: the holder has ended.
                unsafe { self.give(number, holder) };
            }
        }
    }

    /// A new block.
    fn make(self, class: usize) -> Option<u32> {
        let most = self.table.len() as u32;
        let lines = 1_u64 << class;
        if self.supply.made.load(Ordering::Relaxed) >= most {
            return None;
        }
        // Relaxed: which process gets which lines is all that is decided here.
        let enough = |top: u64| top.checked_add(lines).filter(|&top| top <= self.lines);
        let place =
            self.supply.top.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()?;
        let more = |made: u32| (made < most).then_some(made + 1);
        // Release: pairs with the Acquire in `size` and `sweep`. These may see the number before
        // what is written below: then it is a block of class 0 that no process holds, and none asks
        // for it.
        let number =
            self.supply.made.fetch_update(Ordering::Release, Ordering::Relaxed, more).ok()?;
        let block = &self.table[number as usize];
        block.place.store(place, Ordering::Relaxed);
        block.class.store(class as u32, Ordering::Relaxed);
        Some(number)
    }

    fn push(self, class: usize, number: u32) {
        let free = &self.supply.free[class].0;
        // Relaxed: only the number is used, and the exchange checks it.
        let mut top = free.load(Ordering::Relaxed);
        loop {
            self.table[number as usize].next.store(top as u32, Ordering::Relaxed);
            let now = changed(top) | u64::from(number + 1);
            // Release: pairs with the Acquire in `pop`: the process that gets the block sees it as
            // it was left.
            match free.compare_exchange_weak(top, now, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    fn pop(self, class: usize) -> Option<u32> {
        let free = &self.supply.free[class].0;
        // Acquire, here and below: pairs with the Release in `push`; `next` is what was written
        // before.
        let mut top = free.load(Ordering::Acquire);
        loop {
            let number = (top as u32).checked_sub(1)?;
            let next = self.table.get(number as usize)?.next.load(Ordering::Relaxed);
            let now = changed(top) | u64::from(next);
            // AcqRel: Acquire as above; Release as the stack below goes on to the next pop.
            match free.compare_exchange_weak(top, now, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(other) => top = other,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_two_of_lines() {
        for (len, class) in [(0, 0), (1, 0), (64, 0), (65, 1), (128, 1), (129, 2), (1 << 20, 14)] {
            assert_eq!(class_of(len), class, "{len}");
        }
        assert!(class_of(usize::MAX) >= CLASSES);
    }

    proptest! {
        /// Blocks of the same memory never overlap, are as large as asked, and all memory that was
        /// given back is used again.
        #[test]
        fn nobody_has_what_another_has(steps in prop::collection::vec((0_usize..3, 0_usize..2000, any::<u16>()), 0..200)) {
            let supply = Supply::default();
            let table: Vec<Block> = (0..40).map(|_| Block::default()).collect();
            let blocks = Blocks { supply: &supply, table: &table, lines: 256 };
            let mut held: Vec<(u32, u64)> = Vec::new();
            for (what, len, pick) in steps {
                match what {
                    0 | 1 => {
                        let holder = u64::from(pick % 3) + 1;
                        if let Some((number, size)) = blocks.take(len, holder) {
                            prop_assert!(size >= len);
                            let range = |n: u32| blocks.offset(n)..blocks.offset(n) + blocks.size(n).unwrap();
                            let mine = range(number);
                            prop_assert!(mine.end <= 256 * 64);
                            for &(other, _) in &held {
                                let other = range(other);
                                prop_assert!(mine.end <= other.start || other.end <= mine.start);
                            }
                            held.push((number, holder));
                        } else {
                            // Full: even the smallest piece of what is free is too small, or the
                            // table is used up.
                            prop_assert!(!held.is_empty() || len > 64 * 64);
                        }
                    }
                    _ if pick % 7 == 0 => {
                        let holder = u64::from(pick % 3) + 1;
                        // SAFETY: no memory stands behind these blocks.
                        unsafe { blocks.sweep(holder) };
                        held.retain(|&(_, of)| of != holder);
                    }
                    _ if !held.is_empty() => {
                        let (number, holder) = held.swap_remove(usize::from(pick) % held.len());
                        // SAFETY: as above. The first is another's: nothing happens.
                        unsafe {
                            blocks.give(number, holder + 1);
                            blocks.give(number, holder);
                        }
                    }
                    _ => (),
                }
            }
        }
    }
}
