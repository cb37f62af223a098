//! The shared memory of a farm: one segment, inherited by all its processes, and its layout.
//!
//! ```text
//! header   | mark, shape, supply of blocks, ends                  |
//! records  | a process | a process | ...                          | see `record`
//! channels | a row for each receiver: the channel of each sender  | a word each; 0: not opened
//! table    | a block | a block | ...                              | see `blocks`
//! memory   | channels, large messages                             |
//! ```
//!
//! The segment is sparse: a row, a record or a block occupies memory only once it is used. It has
//! no name, and is freed when the last process of the farm ends. All the `unsafe` code that creates
//! views into it is in this file.

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

/// The mark at the beginning of a farm's memory. It must be changed with any change of the layout.
const MARK: u64 = u64::from_le_bytes(*b"synfarm2");
/// The share of the memory, in bytes, for which the table has room for one block.
const PER_BLOCK: usize = 1024;
/// A holder of blocks that is not a process: the two ends of a channel.
const CHANNEL: u64 = u64::MAX;

#[repr(C)]
struct Header {
    mark: AtomicU64,
    processes: AtomicU64,
    depth: AtomicU64,
    blocks: AtomicU64,
    /// The limit on the private data of each process, in bytes; 0: no limit.
    worker_memory: AtomicU64,
    /// The number of places that were ever used. Scans stop there.
    used: AtomicU64,
    /// The number of processes that have ended.
    ends: Signal,
    supply: Supply,
}

/// The size of a fork table in bytes: see `pool::fork_table`.
pub(crate) const FORK_TABLE_BYTES: usize = size_of::<Head>()
    + WORKERS * size_of::<Deque>()
    + CELLS * size_of::<Cell>()
    + CELLS * size_of::<Block>();

/// The dimensions of a farm's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    processes: usize,
    depth: usize,
    blocks: usize,
}

/// The memory of a farm, as mapped by one of its processes.
#[derive(Debug)]
pub(crate) struct Arena {
    home: Home,
    shape: Shape,
    /// The process that uses it. A child made by `fork` shares the memory, but is not part of the
    /// farm.
    born: Generation,
}

/// The location of the memory.
#[derive(Debug)]
enum Home {
    /// A segment of its own, which processes inherit.
    Segment(Segment),
    /// An array in the memory of a team, to which all members have access.
    Team(Array<Page>),
}

/// The element type of a farm's memory inside that of a team.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Page([AtomicU64; 512]);

impl Default for Page {
    fn default() -> Self {
        Page(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: a page consists of words for which all-zero bytes are a valid value, the default. Their
// contents are changed by atomic operations, or by the one process that has exclusive access
// (`Slot`, `Blocks`, `Cell`).
unsafe impl Shared for Page {}

impl Home {
    fn at(&self) -> *mut u8 {
        match self {
            Home::Segment(segment) => segment.as_ptr(),
            // The pages consist of atomic words, so writing through a shared reference is allowed.
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

/// The header of a channel, which precedes its slots.
#[repr(C, align(64))]
pub(crate) struct Ends {
    from: AtomicU64,
    to: AtomicU64,
    /// The [`End`]s that were released and never access the channel again.
    let_go: AtomicU64,
}

/// One end of a channel.
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
    /// Creates memory for `processes` processes at a time, with `memory` bytes for channels and
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

    /// Like [`new`](Self::new), in the memory of a team.
    ///
    /// # Collective
    /// All members call it, and all get the same memory.
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

    /// Writes the shape and then the mark.
    fn sign(&self) {
        let (header, shape) = (self.header(), self.shape);
        header.processes.store(shape.processes as u64, Ordering::Relaxed);
        header.depth.store(shape.depth as u64, Ordering::Relaxed);
        header.blocks.store(shape.blocks as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `attach`.
        header.mark.store(MARK, Ordering::Release);
    }

    /// Attaches to the memory that another process has created; the error says why it is invalid.
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
            return Err("it has another version, or is not the memory of a farm".to_owned());
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
            return Err(format!("its shape is invalid: {shape:?}"));
        }
        arena.shape = shape;
        Ok(arena)
    }

    /// Returns whether this process created or attached the memory itself. False in a child made by
    /// `fork`.
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

    /// Returns the number of processes that the memory has room for.
    pub(crate) fn processes(&self) -> usize {
        self.shape.processes
    }

    fn header(&self) -> &Header {
        // SAFETY: the memory begins with the header, is at least as large (`new`, `within`,
        // `attach`) and aligned to 128 bytes. It is zero at first, which is a valid header, and
        // changed by atomic operations only. It is mapped as long as `self` lives.
        unsafe { &*self.home.at().cast::<Header>() }
    }

    /// Returns the count of ended processes.
    pub(crate) fn ends(&self) -> &Signal {
        &self.header().ends
    }

    /// Returns the record of the process at `place`, which must be below
    /// [`processes`](Self::processes).
    #[inline]
    pub(crate) fn record(&self, place: usize) -> &Record {
        assert!(place < self.shape.processes);
        let at = self.home.at().wrapping_add(self.shape.records()).cast::<Record>();
        // SAFETY: an aligned array of `processes` records is there, and `place` is below that. It
        // is zero at first, which is a valid record, and changed by atomic operations only.
        unsafe { &*at.wrapping_add(place) }
    }

    /// Returns the state of a process; `Free` for an invalid vpid.
    pub(crate) fn life(&self, vpid: Vpid) -> ProcessState {
        if vpid.place() < self.shape.processes {
            self.record(vpid.place()).life(vpid)
        } else {
            ProcessState::Free
        }
    }

    /// Returns the cell that holds the channel between two places.
    fn cell(&self, to: usize, from: usize) -> &AtomicU64 {
        assert!(to < self.shape.processes && from < self.shape.processes);
        let at = self.home.at().wrapping_add(self.shape.rows()).cast::<AtomicU64>();
        // SAFETY: as in `record`: a square array of words is there, and the index is within it.
        unsafe { &*at.wrapping_add(to * self.shape.processes + from) }
    }

    pub(crate) fn blocks(&self) -> Blocks<'_> {
        let at = self.home.at().wrapping_add(self.shape.table()).cast::<Block>();
        // SAFETY: as in `record`: an array of this number of blocks is there.
        let table = unsafe { std::slice::from_raw_parts(at, self.shape.blocks) };
        let lines = (self.home.len() - self.shape.memory()) as u64 / LINE;
        Blocks { supply: &self.header().supply, table, lines }
    }

    /// Returns a pointer to the bytes of a block, aligned to a line. Only the block's holder may
    /// use them.
    pub(crate) fn bytes(&self, block: u32) -> *mut u8 {
        self.home.at().wrapping_add(self.shape.memory() + self.blocks().offset(block))
    }

    /// Creates a fork table in a block of its own; `None` if there is no room.
    pub(crate) fn make_fork_table(&self) -> Option<u32> {
        // The memory of a farm is zero until it is in a block for the first time. Writing zeros
        // there would take the pages of the whole table: 5 ms, where a pool uses a few of them.
        let fresh = self.blocks().made() == 0;
        let (block, _) = self.blocks().take(FORK_TABLE_BYTES + LINE as usize, CHANNEL)?;
        if !fresh {
            // SAFETY: this process holds the block, which has at least that number of bytes. Zero
            // is valid for everything that is stored there.
            unsafe { self.bytes(block).write_bytes(0, FORK_TABLE_BYTES + LINE as usize) };
        }
        Some(block)
    }

    /// Returns whether the block exists and is large enough for a fork table.
    pub(crate) fn may_be_fork_table(&self, block: u32) -> bool {
        self.blocks().size(block).is_some_and(|size| size >= FORK_TABLE_BYTES + LINE as usize)
    }

    /// Returns the fork table in a block.
    ///
    /// # Safety
    /// The block must have been created by [`make_fork_table`](Self::make_fork_table).
    pub(crate) unsafe fn table(&self, block: u32) -> ForkTable<'_> {
        debug_assert!(self.may_be_fork_table(block));
        let at = self.bytes(block);
        let at = at.wrapping_add(at.align_offset(align_of::<Head>()));
        let (deques, cells) = (size_of::<Head>(), size_of::<Head>() + WORKERS * size_of::<Deque>());
        let table = cells + CELLS * size_of::<Cell>();
        // SAFETY: the block holds a fork table (`make_fork_table`), which consists of these four
        // parts, one after the other. The size of each is a multiple of its alignment. They are
        // zero at first, which is valid for all of them, and accessed through fork tables only,
        // which are all created here. The block is never given back.
        unsafe {
            ForkTable::new(
                &*at.cast::<Head>(),
                std::slice::from_raw_parts(at.wrapping_add(deques).cast::<Deque>(), WORKERS),
                std::slice::from_raw_parts(at.wrapping_add(cells).cast::<Cell>(), CELLS),
                std::slice::from_raw_parts(at.wrapping_add(table).cast::<Block>(), CELLS),
            )
        }
    }

    /// Returns a copy of the first bytes of a block, regardless of its holder and of concurrent
    /// writes.
    pub(crate) fn copy_of(&self, block: u32, len: usize) -> Option<Vec<u8>> {
        self.blocks().size(block).filter(|&size| len <= size)?;
        let words = self.bytes(block).cast::<AtomicU64>();
        // SAFETY: the block consists of whole lines, hence of aligned words, zero at first; the
        // arena keeps it mapped. A faulty holder may write concurrently: the words are atomic here,
        // so the copy is then a mixture of old and new words.
        let words = unsafe { std::slice::from_raw_parts(words, len.div_ceil(8)) };
        let mut copy = vec![0; 8 * words.len()];
        for (to, word) in copy.as_chunks_mut().0.iter_mut().zip(words) {
            // Relaxed: the bytes were written before the block's number was published.
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        copy.truncate(len);
        Some(copy)
    }

    /// Returns the number of bytes for channels and messages.
    pub(crate) fn memory(&self) -> usize {
        self.home.len() - self.shape.memory()
    }

    /// Limits the private data of each process to `bytes`.
    pub(crate) fn bound_workers(&self, bytes: u64) {
        self.header().worker_memory.store(bytes, Ordering::Relaxed);
    }

    /// Returns the limit on the private data of each process, if there is one.
    pub(crate) fn worker_memory(&self) -> Option<u64> {
        Some(self.header().worker_memory.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// Returns the number of places that were ever used: a scan over all places stops there. A
    /// place is counted before any process is given it.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        // Acquire: pairs with the Release in `use_place`.
        (self.header().used.load(Ordering::Acquire) as usize).min(self.shape.processes)
    }

    /// Includes `place` in the scans from now on.
    pub(crate) fn use_place(&self, place: usize) {
        // Release: pairs with the Acquire in `used`.
        self.header().used.fetch_max(place as u64 + 1, Ordering::Release);
    }

    /// Returns whether a process waits for a place. Called after something of an ended process was
    /// released.
    pub(crate) fn is_awaited(&self) -> bool {
        has_let_go(&mut self.living())
    }

    /// Returns whether a place is free.
    pub(crate) fn has_place(&self) -> bool {
        self.free_places().next().is_some()
    }

    fn free_places(&self) -> impl Iterator<Item = usize> {
        (1..self.shape.processes).filter(|&place| self.record(place).now().1 == ProcessState::Free)
    }

    /// Returns the number of places that processes wait for, minus the number of free ones.
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

    /// Reserves the first free place for a child of `parent`.
    pub(crate) fn reserve(&self, parent: Vpid) -> Option<Vpid> {
        let place = (1..self.shape.processes).find(|&place| {
            let (generation, life) = self.record(place).now();
            if life == ProcessState::Free && place >= self.used() {
                // Before any process gets the place.
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
        // SAFETY: the block is a channel (its number was found in a cell, or was just written), so
        // it begins with `Ends` and is not given back before both ends were released. Blocks are
        // aligned to lines, which is the alignment of `Ends`.
        unsafe { &*self.bytes(block).cast::<Ends>() }
    }

    /// Opens the channel from `from` to `to`; `None` if there is no room. Only the process `from`
    /// may call it.
    pub(crate) fn open(self: &Arc<Self>, from: Vpid, to: Vpid) -> Option<Slots> {
        let blocks = self.blocks();
        // One line more than needed, to align the slots.
        let (block, _) = blocks.take(self.shape.channel() + LINE as usize, from.to_raw() + 1)?;
        let at = self.bytes(block);
        // SAFETY: this process holds the block, which has at least that number of bytes. Zero is
        // valid for everything that is stored there.
        unsafe { at.write_bytes(0, self.shape.channel() + LINE as usize) };
        let ends = self.channel_ends(block);
        ends.from.store(from.to_raw(), Ordering::Relaxed);
        ends.to.store(to.to_raw(), Ordering::Relaxed);
        // SAFETY: this process holds the block, and uses it as the writer of a channel from now on.
        unsafe { blocks.hand_over(block, CHANNEL) };
        // Release: pairs with the Acquire in `found`.
        self.cell(to.place(), from.place()).store(u64::from(block) + 1, Ordering::Release);
        // Release: pairs with the Acquire of the receiver, which then scans its row.
        self.record(to.place()).inbound.fetch_add(1, Ordering::Release);
        Some(Slots::new(self, block))
    }

    /// Returns the channel from the process at `from` to `to`, which is the caller, and the vpid of
    /// the sending process.
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

    /// Unlinks a channel and releases its reading end. The next process at the writer's place opens
    /// a new one.
    ///
    /// # Safety
    /// The conditions of [`let_go`](Self::let_go) hold for the reading end.
    pub(crate) unsafe fn unlink(&self, from: usize, to: usize, block: u32) {
        self.cell(to, from).store(0, Ordering::Relaxed);
        // SAFETY: the caller guarantees it (see `# Safety`).
        unsafe { self.let_go(block, End::Reader) };
    }

    /// Releases one end of a channel. The release of the second end frees the block.
    ///
    /// # Safety
    /// The block must be a channel, and the process that has this end must not access it any more.
    pub(crate) unsafe fn let_go(&self, block: u32, end: End) {
        let ends = self.channel_ends(block);
        // AcqRel: the process that releases the second end sees all accesses through the first, and
        // so does the next user of the memory.
        let before = ends.let_go.fetch_or(end as u64, Ordering::AcqRel);
        if before | end as u64 == End::Writer as u64 | End::Reader as u64
            && before & end as u64 == 0
        {
            // SAFETY: both ends were released, so no process uses the bytes any more.
            unsafe { self.blocks().give(block, CHANNEL) };
        }
    }

    /// Releases the writing ends of an ended process. Called before its end is published, so that
    /// readers still find their channels.
    ///
    /// # Safety
    /// The process must have ended.
    pub(crate) unsafe fn let_go_of_writers(&self, vpid: Vpid) {
        for to in 0..self.used() {
            if let Some(block) = self.channel_at(to, vpid.place()) {
                // SAFETY: the block is in the cell of a channel, and the channel's writer has
                // ended.
                unsafe { self.let_go(block, End::Writer) };
            }
        }
    }

    /// Releases the reading ends and the blocks of an ended process. Called when its end is
    /// published, and again before its place is reused.
    ///
    /// # Safety
    /// The process must have ended.
    pub(crate) unsafe fn let_go_of_the_rest(&self, vpid: Vpid) {
        for from in 0..self.used() {
            if let Some(block) = self.channel_at(vpid.place(), from) {
                // SAFETY: as above; the channel's reader has ended.
                unsafe { self.unlink(from, vpid.place(), block) };
            }
        }
        // SAFETY: the process has ended (see `# Safety`).
        unsafe { self.blocks().sweep(vpid.to_raw() + 1) };
    }

    /// Returns whether no process refers to an ended one, nor still needs its exit cause.
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

/// The largest number of slots of a channel.
pub(crate) const MAX_DEPTH: usize = 1024;

/// The slots of a channel.
#[derive(Debug)]
pub(crate) struct Slots {
    arena: Arc<Arena>,
    first: *const Slot,
    block: u32,
}

// SAFETY: a shared reference to slots, which are `Sync`, and an `Arc` that keeps them mapped.
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

    /// Returns the block that contains the slots.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }
}

impl Deref for Slots {
    type Target = [Slot];

    #[inline]
    fn deref(&self) -> &[Slot] {
        // SAFETY: `depth` slots follow the ends in the block, aligned (`open` allocates one line
        // more for that). They are zero at first, which is a free slot, and changed as `Slot`
        // specifies. The block is not given back before this end is released.
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
        assert_eq!(wrong(1 << 20), "it has another version, or is not the memory of a farm");
    }
}
