//! Block allocation in the farm's shared memory. Blocks are recovered when a process is killed.
//!
//! # Contract
//! [`take`](Blocks::take) returns a block that no other process has; [`give`](Blocks::give) frees
//! it. Each block has a holder, the process that must give it back; [`sweep`](Blocks::sweep) gives
//! back the blocks of a dead process. Fresh memory is used only when no block of the size is free,
//! and never returns to the unused part. So a channel that carries large messages grows once, and
//! uses pages that a processor has just used.
//!
//! ```text
//! table   | place, class, next, holder | ...           the blocks of a class have one size
//! free    | class 0 | class 1 | ...                    stacks of block numbers, with ABA counts
//! memory  | block 0 | block 1 |   | 2 |  ... | top ->  (the table holds the positions)
//! ```
//!
//! The sizes are the powers of two from 64 bytes to 1 MiB, and four from each larger one to the
//! next: a large message takes at most a quarter more than it has.
//!
//! A process that is killed between two of these steps may leak one block, which stays unavailable
//! until the farm ends.
//!
//! # Costs
//! One compare-and-swap to take a block, and two to give it back: of its holder, then of the stack,
//! which is one line for each size.
//!
//! # Source
//! Treiber, "Systems programming: coping with parallelism" (IBM RJ 5118, 1986): the stack, with the
//! count.

use syncline_signal::plant;
use syncline_signal::primitive::{AtomicU32, AtomicU64, Ordering};

/// The largest class of the powers of two.
const COARSE: usize = 14;
/// The number of classes from each larger power of two to the next.
const STEPS: usize = 4;
/// The number of size classes: blocks have up to 4 TiB.
pub(crate) const CLASSES: usize = COARSE + 22 * STEPS + 1;
/// The size of the smallest block in bytes, and the alignment of all.
pub(crate) const LINE: u64 = 64;

/// The table entry of a block. All zero bytes: no block.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The offset of the block, in lines.
    place: AtomicU64,
    /// The process that holds it; 0: none.
    holder: AtomicU64,
    class: AtomicU32,
    /// The next free block, plus 1; 0: none.
    next: AtomicU32,
}

/// The state of the allocator.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Supply {
    /// The number of lines that belong to blocks.
    top: AtomicU64,
    /// The number of blocks in the table.
    made: AtomicU32,
    _pad: AtomicU32,
    /// For each class, the topmost free block plus 1 in the lower half, and the number of changes
    /// in the upper half.
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

/// The head of one stack, on a line of its own, as each size has its own users.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Free(AtomicU64);

/// A view of the memory of a farm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) supply: &'a Supply,
    pub(crate) table: &'a [Block],
    /// The number of lines in the memory.
    pub(crate) lines: u64,
}

/// Returns the smallest class whose blocks have at least `len` bytes.
fn class_of(len: usize) -> usize {
    let lines = (len as u64).div_ceil(LINE).max(1);
    if lines <= 1 << COARSE {
        return lines.next_power_of_two().trailing_zeros() as usize;
    }
    // The power of two below, and the steps from there.
    let power = (lines - 1).ilog2() as usize;
    let steps = (lines - (1 << power)).div_ceil(1 << (power - 2)) as usize;
    COARSE + (power - COARSE) * STEPS + steps
}

/// Returns the number of lines of the blocks of a class.
fn lines_of(class: usize) -> u64 {
    match class.checked_sub(COARSE + 1) {
        None => 1 << class,
        Some(finer) => {
            let (power, steps) = (COARSE + finer / STEPS, finer % STEPS + 1);
            (1 << power) + ((steps as u64) << (power - 2))
        }
    }
}

/// Returns the change count of a stack's next state, in the upper half of the word.
fn changed(top: u64) -> u64 {
    if plant::is("blocks: no count") { 0 } else { (top >> 32).wrapping_add(1) << 32 }
}

impl Blocks<'_> {
    /// Allocates a block of at least `len` bytes for `holder` (not 0), and returns its number and
    /// size; `None` if there is no room.
    pub(crate) fn take(self, len: usize, holder: u64) -> Option<(u32, usize)> {
        let class = class_of(len);
        if class >= CLASSES {
            return None;
        }
        // A larger block than needed is better than none.
        let number = self
            .pop(class)
            .or_else(|| self.make(class))
            .or_else(|| (class + 1..CLASSES).find_map(|larger| self.pop(larger)))?;
        // Release: pairs with the Acquire in `give`, which then reads the block's class.
        self.table[number as usize].holder.store(holder, Ordering::Release);
        Some((number, self.size(number)?))
    }

    /// Returns the size of a block in bytes; `None` if there is no block with that number.
    pub(crate) fn size(self, number: u32) -> Option<usize> {
        // Acquire: pairs with the Release in `make`.
        let made = self.supply.made.load(Ordering::Acquire);
        let block = self.table.get(number as usize).filter(|_| number < made)?;
        // Relaxed: written once, before the number was published.
        Some((LINE * lines_of(block.class.load(Ordering::Relaxed) as usize)) as usize)
    }

    /// Returns the number of blocks, including the free ones.
    pub(crate) fn made(self) -> usize {
        self.supply.made.load(Ordering::Acquire) as usize // pairs with the Release in `make`
    }

    /// Returns the offset of a block in the memory, in bytes.
    pub(crate) fn offset(self, number: u32) -> usize {
        (self.table[number as usize].place.load(Ordering::Relaxed) * LINE) as usize
    }

    /// Makes `holder` the holder of the block.
    ///
    /// # Safety
    /// The caller must act for the current holder, which must not use the bytes afterwards unless
    /// the new holder permits it.
    pub(crate) unsafe fn hand_over(self, number: u32, holder: u64) {
        // Release: as in `take`.
        self.table[number as usize].holder.store(holder, Ordering::Release);
    }

    /// Returns whether `holder` holds the block.
    pub(crate) fn is_held(self, number: u32, holder: u64) -> bool {
        // Relaxed: what the holder relies on was published with the number.
        self.table[number as usize].holder.load(Ordering::Relaxed) == holder
    }

    /// Returns the process that holds a block.
    pub(crate) fn holder(self, number: u32) -> u64 {
        self.table[number as usize].holder.load(Ordering::Relaxed)
    }

    /// Frees a block if `holder` still holds it. A dead process holds none, as
    /// [`sweep`](Self::sweep) has given its blocks back.
    ///
    /// # Safety
    /// No process may use the bytes on behalf of `holder` any more.
    pub(crate) unsafe fn give(self, number: u32, holder: u64) {
        let block = &self.table[number as usize];
        // Acquire: pairs with the Release in `take` and `hand_over`. An exchange, because a process
        // that has handed a block to one that dies gives it back when it sees the death, and the
        // sweep may already have done so.
        if block.holder.compare_exchange(holder, 0, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            self.push(block.class.load(Ordering::Relaxed) as usize, number);
        }
    }

    /// Frees all blocks of a dead process.
    ///
    /// # Safety
    /// The process must have ended.
    pub(crate) unsafe fn sweep(self, holder: u64) {
        let made = self.supply.made.load(Ordering::Acquire); // pairs with the Release in `make`
        for (number, block) in (0..made).zip(self.table) {
            if block.holder.load(Ordering::Relaxed) == holder {
                // SAFETY: the holder has ended (see `# Safety`), so it does not use the bytes.
                unsafe { self.give(number, holder) };
            }
        }
    }

    /// Creates a block in unused memory.
    fn make(self, class: usize) -> Option<u32> {
        let most = self.table.len() as u32;
        let lines = lines_of(class);
        if self.supply.made.load(Ordering::Relaxed) >= most {
            return None;
        }
        // Relaxed: the exchange only decides which process gets which lines.
        let enough = |top: u64| top.checked_add(lines).filter(|&top| top <= self.lines);
        let place =
            self.supply.top.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).ok()?;
        let more = |made: u32| (made < most).then_some(made + 1);
        // Release: pairs with the Acquire in `size` and `sweep`. These may see the number before
        // the values that are written below: then it looks like a block of class 0 without a
        // holder, and no process uses its number yet.
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
            // Release: pairs with the Acquire in `pop`: the process that pops the block sees all
            // earlier accesses to it.
            match free.compare_exchange_weak(top, now, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    fn pop(self, class: usize) -> Option<u32> {
        let free = &self.supply.free[class].0;
        // Acquire, here and below: pairs with the Release in `push`, so `next` is the value written
        // before it.
        let mut top = free.load(Ordering::Acquire);
        loop {
            let number = (top as u32).checked_sub(1)?;
            let next = self.table.get(number as usize)?.next.load(Ordering::Relaxed);
            let now = changed(top) | u64::from(next);
            // AcqRel: Acquire as above; Release for the next pop, which reads the rest of the
            // stack.
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
    use syncline_testkit::property;

    #[test]
    fn small_sizes_are_powers_of_two_of_lines() {
        for (len, class) in [(0, 0), (1, 0), (64, 0), (65, 1), (128, 1), (129, 2), (1 << 20, 14)] {
            assert_eq!(class_of(len), class, "{len}");
        }
        assert_eq!(lines_of(CLASSES - 1) * LINE, 4 << 40);
        assert!(class_of((4 << 40) + 1) >= CLASSES && class_of(usize::MAX) >= CLASSES);
    }

    #[test]
    fn each_class_has_the_sizes_beyond_the_one_before() {
        for class in 1..CLASSES {
            let [before, size] = [class - 1, class].map(|class| (lines_of(class) * LINE) as usize);
            assert!(before < size, "{class}");
            assert_eq!([class_of(before + 1), class_of(size)], [class; 2]);
            assert!(class <= COARSE || 4 * size <= 5 * (before + 1) + 4, "{class}");
        }
    }

    /// The lines of the memory, and the entries of the table.
    const ROOM: (u64, usize) = (256, 40);

    proptest! {
        #![proptest_config(property(256))]

        /// Blocks of the same memory never overlap, have at least the requested size, and all
        /// memory that was given back is used again: a request fails only if every free block is
        /// too small, and no further block can be made.
        #[test]
        fn nobody_has_what_another_has(steps in prop::collection::vec((0_usize..3, 0_usize..2000, any::<u16>()), 0..200)) {
            let supply = Supply::default();
            let table: Vec<Block> = (0..ROOM.1).map(|_| Block::default()).collect();
            let blocks = Blocks { supply: &supply, table: &table, lines: ROOM.0 };
            let mut held: Vec<(u32, u64)> = Vec::new();
            for (what, len, pick) in steps {
                match what {
                    0 | 1 => {
                        let holder = u64::from(pick % 3) + 1;
                        if let Some((number, size)) = blocks.take(len, holder) {
                            prop_assert!(size >= len);
                            let range = |n: u32| blocks.offset(n)..blocks.offset(n) + blocks.size(n).unwrap();
                            let mine = range(number);
                            prop_assert!(mine.end <= (ROOM.0 * LINE) as usize);
                            for &(other, _) in &held {
                                let other = range(other);
                                prop_assert!(mine.end <= other.start || other.end <= mine.start);
                            }
                            held.push((number, holder));
                        } else {
                            let made = blocks.made();
                            let size = |n: u32| blocks.size(n).unwrap();
                            let needed = (lines_of(class_of(len)) * LINE) as usize;
                            let free = |n: &u32| held.iter().all(|&(other, _)| other != *n);
                            prop_assert!((0..made as u32).filter(free).all(|n| size(n) < needed));
                            let used: usize = (0..made as u32).map(size).sum();
                            let all = (ROOM.0 * LINE) as usize;
                            prop_assert!(made == ROOM.1 || used + needed > all);
                        }
                    }
                    _ if pick % 7 == 0 => {
                        let holder = u64::from(pick % 3) + 1;
                        // SAFETY: these blocks have no memory.
                        unsafe { blocks.sweep(holder) };
                        held.retain(|&(_, of)| of != holder);
                    }
                    _ if !held.is_empty() => {
                        let (number, holder) = held.swap_remove(usize::from(pick) % held.len());
                        // SAFETY: as above. The first call names another holder, and does nothing.
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
