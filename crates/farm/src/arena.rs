//! The farm's memory: one segment, which all its processes inherit, and what stands where in it.
//!
//! ```text
//! header   | mark, shape, supply of blocks, ends                  |
//! records  | a process | a process | ...                          | see `record`
//! channels | for each receiver a row: the channel of each sender  | a word each; 0: not opened yet
//! table    | a block | a block | ...                              | see `blocks`
//! memory   | channels, large messages                             |
//! ```
//!
//! The segment is sparse: a row, a record, a block take memory when they are used. It has no name,
//! and is gone when the last process of the farm is. All the `unsafe` of views into it is in this
//! file.

use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use syncline_memory::Segment;
use syncline_process::Generation;
use syncline_signal::Signal;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_sync::{
    Space, SpaceError,
    space::{Array, Shared},
};

use crate::blocks::{Block, Blocks, LINE, Supply};
use crate::channel::Slot;
use crate::error::FarmError;
use crate::pool::fork_table::{CELLS, Cell, Deque, ForkTable, Head, WORKERS};
use crate::record::{ProcessState, Record, has_let_go, waiting};
use crate::vpid::{MAX_PROCESSES, Vpid};

/// What the memory of a farm begins with. To be changed with whatever stands in it.
const MARK: u64 = u64::from_le_bytes(*b"synfarm2");
/// How many blocks there is room for in `memory` bytes: one for each share of them.
const PER_BLOCK: usize = 1024;
/// A holder of blocks that is no process: the two ends of a channel.
const CHANNEL: u64 = u64::MAX;

#[repr(C)]
struct Header {
    mark: AtomicU64,
    processes: AtomicU64,
    depth: AtomicU64,
    blocks: AtomicU64,
    /// How many bytes each process may have for itself; 0: no bound.
    worker_memory: AtomicU64,
    /// How many places were ever used: those from there on need no look.
    used: AtomicU64,
    /// How many processes have ended.
    ends: Signal,
    supply: Supply,
}

/// The bytes of a board: see `pool::fork_table`.
pub(crate) const BOARD: usize = size_of::<Head>()
    + WORKERS * size_of::<Deque>()
    + CELLS * size_of::<Cell>()
    + CELLS * size_of::<Block>();

/// What a farm has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    processes: usize,
    depth: usize,
    blocks: usize,
}

/// The memory of a farm, as one of its processes sees it.
#[derive(Debug)]
pub(crate) struct Arena {
    home: Home,
    shape: Shape,
    /// The process that uses it. A child made by `fork` has the memory, but no part in the farm.
    born: Generation,
}

/// Where it is.
#[derive(Debug)]
enum Home {
    /// In a segment of its own, which is inherited.
    Segment(Segment),
    /// In the memory of a team, in which all members find it.
    Team(Array<Page>),
}

/// What the memory of a farm within that of a team is made of.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Page([AtomicU64; 512]);

impl Default for Page {
    fn default() -> Self {
        Page(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: words, of which all bytes zero are the default. What stands in them is changed by atomic
// operations, or by one the process that has it alone (`Slot`, `Blocks`, `Cell`).
unsafe impl Shared for Page {}

impl Home {
    fn at(&self) -> *mut u8 {
        match self {
            Home::Segment(segment) => segment.as_ptr(),
            // Words that may be changed through shared references: so may what stands there.
            Home::Team(pages) => pages.as_ptr().cast_mut().cast(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Home::Segment(segment) => segment.len(),
            Home::Team(pages) => size_of_val::<[Page]>(pages),
        }
    }
}

/// What a channel begins with, before its slots.
#[repr(C, align(64))]
pub(crate) struct Ends {
    from: AtomicU64,
    to: AtomicU64,
    /// Which of the two will never look at it again.
    let_go: AtomicU64,
}

/// An end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum End {
    Writer = 1,
    Reader = 2,
}

impl Shape {
    fn new(processes: usize, depth: usize, memory: usize) -> Shape {
        Shape { processes, depth, blocks: (memory / PER_BLOCK).clamp(1024, 1 << 24) }
    }

    fn records(self) -> usize {
        size_of::<Header>().next_multiple_of(4096)
    }

    fn rows(self) -> usize {
        self.records() + self.processes * size_of::<Record>()
    }

    fn table(self) -> usize {
        (self.rows() + self.processes * self.processes * size_of::<AtomicU64>())
            .next_multiple_of(4096)
    }

    fn memory(self) -> usize {
        (self.table() + self.blocks * size_of::<Block>()).next_multiple_of(4096)
    }

    fn channel(self) -> usize {
        size_of::<Ends>() + self.depth * size_of::<Slot>()
    }
}

impl Arena {
    /// New memory for `processes` processes at a time, with `memory` bytes for channels and
    /// messages.
    pub(crate) fn new(processes: usize, depth: usize, memory: usize) -> Result<Arena, FarmError> {
        let shape = Shape::new(processes, depth, memory);
        let len = shape.memory().checked_add(memory).ok_or(FarmError::Memory { asked: memory })?;
        let arena = Arena {
            home: Home::Segment(Segment::shared(len)?),
            shape,
            born: Generation::current(),
        };
        arena.sign();
        Ok(arena)
    }

    /// The same in the memory of a team: all members make it, and all have the same.
    pub(crate) fn within(
        space: &mut Space,
        processes: usize,
        depth: usize,
        memory: usize,
    ) -> Result<Arena, SpaceError> {
        let shape = Shape::new(processes, depth, memory);
        let pages = (shape.memory() + memory).div_ceil(size_of::<Page>());
        let arena =
            Arena { home: Home::Team(space.array(pages)?), shape, born: Generation::current() };
        arena.sign();
        Ok(arena)
    }

    /// Says what it is.
    fn sign(&self) {
        let (header, shape) = (self.header(), self.shape);
        header.processes.store(shape.processes as u64, Ordering::Relaxed);
        header.depth.store(shape.depth as u64, Ordering::Relaxed);
        header.blocks.store(shape.blocks as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `attach`.
        header.mark.store(MARK, Ordering::Release);
    }

    /// The memory of a farm that another process has founded; or what is wrong with it.
    pub(crate) fn attach(segment: Segment) -> Result<Arena, String> {
        if segment.len() < size_of::<Header>() {
            return Err(format!("{} bytes are too few", segment.len()));
        }
        let unknown = Shape { processes: 0, depth: 0, blocks: 0 };
        let mut arena =
            Arena { home: Home::Segment(segment), shape: unknown, born: Generation::current() };
        let header = arena.header();
        // Acquire: pairs with the Release in `sign`.
        if header.mark.load(Ordering::Acquire) != MARK {
            return Err("it is that of another version, or no farm's".to_owned());
        }
        let read =
            |word: &AtomicU64| usize::try_from(word.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let shape = Shape {
            processes: read(&header.processes),
            depth: read(&header.depth),
            blocks: read(&header.blocks),
        };
        let sane = (1..=MAX_PROCESSES).contains(&shape.processes)
            && (1..=MAX_DEPTH).contains(&shape.depth)
            && shape.blocks <= 1 << 24;
        if !sane || shape.memory() > arena.home.len() {
            return Err(format!("its shape is garbage: {shape:?}"));
        }
        arena.shape = shape;
        Ok(arena)
    }

    /// Whether this process is the one that has made or attached this, and not a child that `fork`
    /// has made of it.
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        self.born.is_current()
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.home {
            Home::Segment(segment) => segment.fd(),
            Home::Team(_) => None,
        }
    }

    /// How many processes there are room for.
    pub(crate) fn processes(&self) -> usize {
        self.shape.processes
    }

    fn header(&self) -> &Header {
        // SAFETY: the memory begins with the header, is at least as large (`new`, `within`,
        // `attach`), aligned to 128, zero at first, which is a header, and changed by atomic
        // operations only. It lives as long as `self`.
        unsafe { &*self.home.at().cast::<Header>() }
    }

    /// How many processes have ended.
    pub(crate) fn ends(&self) -> &Signal {
        &self.header().ends
    }

    /// The record of the process at a place, below [`processes`](Self::processes).
    #[inline]
    pub(crate) fn record(&self, place: usize) -> &Record {
        assert!(place < self.shape.processes);
        let at = self.home.at().wrapping_add(self.shape.records()).cast::<Record>();
        // SAFETY: the records stand there, as many as there are processes, and `place` is one;
        // aligned, zero at first, which is a record, and changed by atomic operations only.
        unsafe { &*at.wrapping_add(place) }
    }

    /// How far a process has come; a number that is none has never been.
    pub(crate) fn life(&self, vpid: Vpid) -> ProcessState {
        if vpid.place() < self.shape.processes {
            self.record(vpid.place()).life(vpid)
        } else {
            ProcessState::Free
        }
    }

    /// Where the channel from one place to another is found.
    fn cell(&self, to: usize, from: usize) -> &AtomicU64 {
        assert!(to < self.shape.processes && from < self.shape.processes);
        let at = self.home.at().wrapping_add(self.shape.rows()).cast::<AtomicU64>();
        // SAFETY: as in `record`: a square of words, in which this is one.
        unsafe { &*at.wrapping_add(to * self.shape.processes + from) }
    }

    pub(crate) fn blocks(&self) -> Blocks<'_> {
        let at = self.home.at().wrapping_add(self.shape.table()).cast::<Block>();
        // SAFETY: as in `record`: this many blocks stand there.
        let table = unsafe { std::slice::from_raw_parts(at, self.shape.blocks) };
        let lines = (self.home.len() - self.shape.memory()) as u64 / LINE;
        Blocks { supply: &self.header().supply, table, lines }
    }

    /// The bytes of a block. Its holder may use them; the pointer is aligned to a line.
    pub(crate) fn bytes(&self, block: u32) -> *mut u8 {
        self.home.at().wrapping_add(self.shape.memory() + self.blocks().offset(block))
    }

    /// Makes a board in a block, which no other process has; `None` if there is no room.
    pub(crate) fn make_fork_table(&self) -> Option<u32> {
        let (block, _) = self.blocks().take(BOARD + LINE as usize, CHANNEL)?;
        // SAFETY: the block is this process's, has enough bytes, and zero is the state of all that
        // stands in it.
        unsafe { self.bytes(block).write_bytes(0, BOARD + LINE as usize) };
        Some(block)
    }

    /// Whether there is such a block, and it has room for a board.
    pub(crate) fn may_be_board(&self, block: u32) -> bool {
        self.blocks().size(block).is_some_and(|size| size >= BOARD + LINE as usize)
    }

    /// The board in a block.
    ///
    /// # Safety
    /// The block was made a board ([`make_fork_table`](Self::make_fork_table)).
    pub(crate) unsafe fn table(&self, block: u32) -> ForkTable<'_> {
        debug_assert!(self.may_be_board(block));
        let at = self.bytes(block);
        let at = at.wrapping_add(at.align_offset(align_of::<Head>()));
        let (deques, cells) = (size_of::<Head>(), size_of::<Head>() + WORKERS * size_of::<Deque>());
        let table = cells + CELLS * size_of::<Cell>();
        // SAFETY: the block holds a board (`make_fork_table`): these four, one after the other, each of
        // a size that is a multiple of its alignment, zero at first, which is a state of all, and
        // changed by boards alone, which are all made here. It is never given back.
        unsafe {
            ForkTable::new(
                &*at.cast::<Head>(),
                std::slice::from_raw_parts(at.wrapping_add(deques).cast::<Deque>(), WORKERS),
                std::slice::from_raw_parts(at.wrapping_add(cells).cast::<Cell>(), CELLS),
                std::slice::from_raw_parts(at.wrapping_add(table).cast::<Block>(), CELLS),
            )
        }
    }

    /// A copy of the first bytes of a block, whichever process holds it and whatever that does to
    /// it meanwhile.
    pub(crate) fn copy_of(&self, block: u32, len: usize) -> Option<Vec<u8>> {
        self.blocks().size(block).filter(|&size| len <= size)?;
        let words = self.bytes(block).cast::<AtomicU64>();
        // SAFETY: the block has whole lines of bytes, which are words, aligned, of zeros at first;
        // the arena keeps it mapped. A holder that is broken may write meanwhile: the words are
        // atomic here, so what is read then is a mixture.
        let words = unsafe { std::slice::from_raw_parts(words, len.div_ceil(8)) };
        let mut copy = vec![0; 8 * words.len()];
        for (to, word) in copy.as_chunks_mut().0.iter_mut().zip(words) {
            // Relaxed: what was written before the block was told of came with its number.
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        copy.truncate(len);
        Some(copy)
    }

    /// How many bytes of memory there are for channels and messages.
    pub(crate) fn memory(&self) -> usize {
        self.home.len() - self.shape.memory()
    }

    /// Bounds what each process may have for itself.
    pub(crate) fn bound_workers(&self, bytes: u64) {
        self.header().worker_memory.store(bytes, Ordering::Relaxed);
    }

    /// How many bytes that are, if there is a bound.
    pub(crate) fn worker_memory(&self) -> Option<u64> {
        Some(self.header().worker_memory.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// How many places were ever used: a look at all is a look at these. A place is used before any
    /// process knows of it.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        // Acquire: pairs with the Release in `use_place`.
        (self.header().used.load(Ordering::Acquire) as usize).min(self.shape.processes)
    }

    /// From now on that place is among those that are looked at.
    pub(crate) fn use_place(&self, place: usize) {
        // Release: pairs with the Acquire in `used`.
        self.header().used.fetch_max(place as u64 + 1, Ordering::Release);
    }

    /// Whether a process waits for a place, after something of the dead was let go.
    pub(crate) fn is_awaited(&self) -> bool {
        has_let_go(&mut self.living())
    }

    /// Whether a place is free.
    pub(crate) fn has_place(&self) -> bool {
        self.free_places().next().is_some()
    }

    fn free_places(&self) -> impl Iterator<Item = usize> {
        (1..self.shape.processes).filter(|&place| self.record(place).now().1 == ProcessState::Free)
    }

    /// How many places processes wait for, beyond those that are free.
    pub(crate) fn lacking(&self) -> usize {
        let waiting = waiting(&mut self.living());
        if waiting == 0 {
            return 0;
        }
        waiting.saturating_sub(self.free_places().count())
    }

    fn living(&self) -> impl Iterator<Item = &Record> {
        let places = (0..self.used()).map(|place| (place, self.record(place)));
        places
            .filter(|(place, record)| *place == 0 || record.now().1 != ProcessState::Ended)
            .map(|(_, record)| record)
    }

    /// The first free place, which is reserved for a child of `parent` now.
    pub(crate) fn reserve(&self, parent: Vpid) -> Option<Vpid> {
        let place = (1..self.shape.processes).find(|&place| {
            let (generation, life) = self.record(place).now();
            if life == ProcessState::Free && place >= self.used() {
                // Before any process has it.
                self.use_place(place);
            }
            life == ProcessState::Free
                && self.record(place).step(generation, ProcessState::Free, ProcessState::Reserved)
        })?;
        let record = self.record(place);
        record.reserved_by(parent);
        Some(Vpid::new(place, record.now().0))
    }

    fn channel_ends(&self, block: u32) -> &Ends {
        // SAFETY: the block is a channel (its number was found in a cell, or it was just written):
        // it begins with `Ends`, and is not given back before both ends have let go of it. Blocks
        // are aligned to lines, and so are the ends.
        unsafe { &*self.bytes(block).cast::<Ends>() }
    }

    /// Opens the channel from `from`, which is the caller, to `to`: no other process does. `None`
    /// if there is no room.
    pub(crate) fn open(self: &Arc<Self>, from: Vpid, to: Vpid) -> Option<Slots> {
        let blocks = self.blocks();
        // A line more than needed, to align it.
        let (block, _) = blocks.take(self.shape.channel() + LINE as usize, from.to_raw() + 1)?;
        let at = self.bytes(block);
        // SAFETY: the block is this process's, has enough bytes, and zero is the state of all that
        // stands in it.
        unsafe { at.write_bytes(0, self.shape.channel() + LINE as usize) };
        let ends = self.channel_ends(block);
        ends.from.store(from.to_raw(), Ordering::Relaxed);
        ends.to.store(to.to_raw(), Ordering::Relaxed);
        // SAFETY: this process has it, and uses it as the writer of a channel from now on.
        unsafe { blocks.hand_over(block, CHANNEL) };
        // Release: pairs with the Acquire in `found`.
        self.cell(to.place(), from.place()).store(u64::from(block) + 1, Ordering::Release);
        // Release: pairs with the Acquire of the receiver, which then looks at its row.
        self.record(to.place()).inbound.fetch_add(1, Ordering::Release);
        Some(Slots::new(self, block))
    }

    /// The channel from the process at a place to `to`, which is the caller, and the number of that
    /// process.
    pub(crate) fn found(self: &Arc<Self>, from: usize, to: Vpid) -> Option<(Vpid, Slots)> {
        // Acquire: pairs with the Release in `open`.
        let word = self.cell(to.place(), from).load(Ordering::Acquire);
        let block = word.checked_sub(1).and_then(|block| u32::try_from(block).ok())?;
        self.blocks().size(block).filter(|&size| size >= self.shape.channel())?;
        let ends = self.channel_ends(block);
        let writer = Vpid::from_raw(ends.from.load(Ordering::Relaxed));
        let meant = ends.to.load(Ordering::Relaxed) == to.to_raw() && writer.place() == from;
        meant.then(|| (writer, Slots::new(self, block)))
    }

    /// The reader of a channel will not look at it again, and the next process at the writer's
    /// place opens another.
    ///
    /// # Safety
    /// As of [`let_go`](Self::let_go), for the reader.
    pub(crate) unsafe fn unlink(&self, from: usize, to: usize, block: u32) {
        self.cell(to, from).store(0, Ordering::Relaxed);
        // SAFETY: the caller promises it.
        unsafe { self.let_go(block, End::Reader) };
    }

    /// One end of a channel is used no more. The second process to say so gives the memory back.
    ///
    /// # Safety
    /// The block is a channel, of which the process that has this end uses nothing any more.
    pub(crate) unsafe fn let_go(&self, block: u32, end: End) {
        let ends = self.channel_ends(block);
        // AcqRel: the second process has all that the first has done behind it, and so has the next
        // user of the memory.
        let before = ends.let_go.fetch_or(end as u64, Ordering::AcqRel);
        if before | end as u64 == End::Writer as u64 | End::Reader as u64
            && before & end as u64 == 0
        {
            // SAFETY: both ends have let go of it.
            unsafe { self.blocks().give(block, CHANNEL) };
        }
    }

    /// What is left to do for one that has ended: lets go of its ends of channels, and of the
    /// blocks that it held. Writers first, before its end is told: then readers still find their
    /// channels.
    ///
    /// # Safety
    /// The process has ended.
    pub(crate) unsafe fn let_go_of_writers(&self, vpid: Vpid) {
        for to in 0..self.used() {
            if let Some(block) = self.channel_at(to, vpid.place()) {
                // SAFETY: its number stands in the cell of a channel, whose writer has ended.
                unsafe { self.let_go(block, End::Writer) };
            }
        }
    }

    /// The rest of it: when its end is told, and again before its place is another's.
    ///
    /// # Safety
    /// The process has ended.
    pub(crate) unsafe fn let_go_of_the_rest(&self, vpid: Vpid) {
        for from in 0..self.used() {
            if let Some(block) = self.channel_at(vpid.place(), from) {
                // SAFETY: as above; its reader has ended.
                unsafe { self.unlink(from, vpid.place(), block) };
            }
        }
        // SAFETY: it has ended.
        unsafe { self.blocks().sweep(vpid.to_raw() + 1) };
    }

    /// Whether no process has anything of one that has ended, nor wants to know of its end.
    pub(crate) fn is_forgotten(&self, vpid: Vpid) -> bool {
        let record = self.record(vpid.place());
        let noted = record.is_noted() || self.life(record.parent()) == ProcessState::Ended;
        noted && (0..self.used()).all(|to| self.channel_at(to, vpid.place()).is_none())
    }

    fn channel_at(&self, to: usize, from: usize) -> Option<u32> {
        let word = self.cell(to, from).load(Ordering::Acquire); // pairs with the Release in `open`
        let block = word.checked_sub(1).and_then(|block| u32::try_from(block).ok())?;
        self.blocks().size(block).map(|_| block)
    }
}

/// How many slots a channel can have.
pub(crate) const MAX_DEPTH: usize = 1024;

/// The slots of a channel.
#[derive(Debug)]
pub(crate) struct Slots {
    arena: Arc<Arena>,
    first: *const Slot,
    block: u32,
}

// SAFETY: a shared reference to slots, which are `Sync`, and what keeps them mapped.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(arena: &Arc<Arena>, block: u32) -> Slots {
        let after = arena.bytes(block).wrapping_add(size_of::<Ends>());
        let first =
            after.wrapping_add(after.align_offset(align_of::<Slot>())).cast::<Slot>().cast_const();
        Slots { arena: Arc::clone(arena), first, block }
    }

    /// The block that they stand in.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }
}

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        // SAFETY: this many slots follow the ends in the block, aligned (`open` takes a line more
        // for that); zero at first, which is a free slot; changed as `Slot` says; the block is not
        // given back while this end has not let go of it.
        unsafe { std::slice::from_raw_parts(self.first, self.arena.shape.depth) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create")]
    fn what_is_attached_is_what_was_made() {
        let arena = Arc::new(Arena::new(5, 3, 1 << 20).unwrap());
        let fd = arena.fd().unwrap().try_clone_to_owned().unwrap();
        let other = Arc::new(Arena::attach(Segment::from_fd(fd).unwrap()).unwrap());
        assert_eq!(arena.shape, other.shape);
        let vpid = arena.reserve(Vpid::MANAGER).unwrap();
        assert_eq!((vpid.to_string().as_str(), other.life(vpid)), ("1", ProcessState::Reserved));
        let slots = arena.open(Vpid::MANAGER, vpid).unwrap();
        let (from, found) = other.found(0, vpid).unwrap();
        assert_eq!((from, found.block, found.len()), (Vpid::MANAGER, slots.block, 3));
        assert!(other.found(1, vpid).is_none());
        assert!(found.first.is_aligned() && slots.first.is_aligned());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create")]
    fn there_is_no_room_for_more_than_was_said() {
        let arena = Arena::new(3, 1, 4096).unwrap();
        let all: Vec<_> =
            std::iter::from_fn(|| arena.reserve(Vpid::MANAGER)).map(|v| v.to_string()).collect();
        assert_eq!(all, ["1", "2"]);
        arena.record(1).end(Vpid::new(1, 0), 0);
        arena.record(1).free(0);
        assert_eq!(arena.reserve(Vpid::MANAGER).unwrap().to_string(), "1.1");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create")]
    fn what_is_no_farm_is_not_attached() {
        let wrong = |len: usize| Arena::attach(Segment::shared(len).unwrap()).unwrap_err();
        assert_eq!(wrong(16), "16 bytes are too few");
        assert_eq!(wrong(1 << 20), "it is that of another version, or no farm's");
    }
}
