//! The channel of an ordered pair of processes: slots in common memory, one writer, one reader.
//!
//! # Contract
//! What the writer puts in, the reader takes out: everything once, in order, whole. A slot holds
//! one message: up to [`INLINE`] bytes in itself, more in a block of the farm's memory, which then
//! belongs to the reader.
//!
//! ```text
//!          ┌ tag ┬ head ┬ bytes, or the number of a block ─────────────┐   128 bytes, aligned
//! slot 0   │ 2r  │ len  │                                              │
//! slot 1   │     │ kind │                                              │   a depth of 1 has slot 0 only
//!          └─────┴──────┴──────────────────────────────────────────────┘
//! ```
//! | tag      | the slot is | which side moves it on                                        |
//! |----------|-------------|--------------------------------------------------------------|
//! | `2r`     | free        | the writer of message `r · depth + slot`: writes it, adds 1    |
//! | `2r + 1` | full        | the reader: takes the message out, adds 1                     |
//!
//! # Costs
//! A message that fits the first line of its slot: one transfer of the line to the writer, one to
//! the reader, and the bell of the reader (`bell`), whose line stays with the writer while the
//! reader finds messages by looking.
//!
//! # Source
//! Moreno Maza, Stephenson, Watt and Xie, "Multiprocessed parallelism support in ALDOR on SMPs and
//! multicores" (2007): one slot for each ordered pair, and a tag that is 0 (free), the size (full),
//! -1 (being read), 0.
//!
//! # Changed
//! The tag only grows, so both sides can sleep on it and neither takes this round's state for that
//! of another. "Being read" is no state of the slot: a reader takes the message out, by copying
//! what is small and by becoming the owner of the block that holds what is large, and reads in its
//! own time. The size stands beside the tag, so messages may be empty. Slots may be several.

use std::ops::Deref;
use std::time::Instant;

use syncline_signal::primitive::UnsafeCell;
use syncline_signal::{Policy, Signal, WaitError, plant};

/// The longest message that a slot holds itself.
pub(crate) const INLINE: usize = 112;

/// A message as it stands in a slot, or on its way into or out of one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct Body {
    pub(crate) bytes: [u8; INLINE],
    pub(crate) head: u64,
}

impl Default for Body {
    fn default() -> Self {
        Body { bytes: [0; INLINE], head: 0 }
    }
}

impl Body {
    /// A message of which these bytes stand in a slot.
    pub(crate) fn new(head: u64, bytes: &[u8]) -> Body {
        let mut body = Body { bytes: [0; INLINE], head };
        body.bytes[..bytes.len()].copy_from_slice(bytes);
        body
    }

    /// The block that it stands in, if it stands in one.
    pub(crate) fn block(&self) -> Option<u32> {
        let number = [self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]];
        (self.head & BLOCK != 0).then(|| u32::from_le_bytes(number))
    }
}

/// How many bytes of the body matter. Of a head that is garbage, all.
fn used(head: u64) -> usize {
    if head & BLOCK != 0 { size_of::<u32>() } else { ((head & LEN) as usize).min(INLINE) }
}

/// Of a head: the length of the message, in bytes.
pub(crate) const LEN: u64 = (1 << 48) - 1;
/// Of a head: the message is in a block, whose number stands where the bytes would.
pub(crate) const BLOCK: u64 = 1 << 63;
/// Of a head: what kind of message it is stands from here to the bit of the block.
pub(crate) const KIND: u32 = 48;

/// One message's place.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Slot {
    tag: Signal,
    head: Cell<u64>,
    bytes: Cell<[u64; INLINE / 8]>,
}

/// What one side writes and the other reads: a cell of the standard library or of loom.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell<T>(UnsafeCell<T>);

impl<T: Default> Default for Cell<T> {
    fn default() -> Self {
        Cell(UnsafeCell::new(T::default()))
    }
}

impl<T> Cell<T> {
    pub(crate) fn read<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with(f);
        #[cfg(not(loom))]
        f(self.0.get())
    }

    pub(crate) fn write<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with_mut(f);
        #[cfg(not(loom))]
        f(self.0.get())
    }
}

// SAFETY: the cells are written by the writer while the tag says free and read by the reader while
// it says full; both have them alone then, and the tag's raises and looks order one after the
// other.
unsafe impl Sync for Slot {}

impl Slot {
    fn put(&self, head: u64, bytes: &[u8]) {
        debug_assert!(bytes.len() <= INLINE);
        // SAFETY: the tag says free, so only the writer touches the cells, and there is one writer
        // (`Writer::new`).
        self.head.write(|at| unsafe { at.write(head) });
        let len = bytes.len().min(INLINE);
        self.bytes.write(|at| {
            // SAFETY: as above; the source is `len` bytes, the target has at least as many, and
            // they are not the same.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>(), len) }
        });
    }

    #[inline]
    fn read<R>(&self, read: impl FnOnce(u64, &[u8]) -> R) -> R {
        // SAFETY: the tag says full, so only the reader touches the cells until it says otherwise,
        // and there is one reader (`Reader::new`).
        let head = self.head.read(|at| unsafe { at.read() });
        self.bytes.read(|at| {
            // SAFETY: as above; there are `INLINE` bytes, of which `used` is never more.
            read(head, unsafe { std::slice::from_raw_parts(at.cast::<u8>(), used(head)) })
        })
    }
}

/// Which slot is next, and for the how manyth time. (Counted, as a division takes as long as the
/// way of a message.)
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    slot: usize,
    /// The tag of the slot when it is free.
    free: u64,
}

impl Turn {
    #[inline]
    fn pass(&mut self, depth: usize) {
        self.slot += 1;
        if self.slot == depth {
            (self.slot, self.free) = (0, self.free + 2);
        }
    }
}

/// The writer's end of a channel. There is one of each channel, in one thread at a time.
#[derive(Debug)]
pub(crate) struct Writer<R> {
    slots: R,
    turn: Turn,
}

impl<R: Deref<Target = [Slot]>> Writer<R> {
    /// The writer's end of a channel through which nothing has gone.
    ///
    /// # Safety
    /// There is no other writer of these slots, as long as one may use them.
    pub(crate) unsafe fn new(slots: R) -> Self {
        Writer { slots, turn: Turn::default() }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        &self.slots[self.turn.slot]
    }

    /// Waits until there is a free slot, or a process that the policy watches is gone.
    #[inline]
    pub(crate) fn wait(
        &self,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.slot().tag.wait_until(self.turn.free, policy, deadline).map(|_| ())
    }

    /// Whether there is a free slot.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        // Acquire: pairs with the Release in `Reader::take_with`.
        self.slot().tag.get() == self.turn.free
    }

    /// Writes a message into the slot that is free, as [`wait`](Self::wait) has seen, and rings the
    /// reader's bell.
    #[inline]
    pub(crate) fn put(&mut self, head: u64, bytes: &[u8], bell: &Signal) {
        debug_assert!(self.is_free());
        if plant::is("channel: rings first") {
            bell.increment();
        }
        self.slot().put(head, bytes);
        // Release: pairs with the Acquire in `Reader::is_full`; the reader sees the message.
        self.slot().tag.increment();
        self.turn.pass(self.slots.len());
        if !plant::is("channel: rings first") {
            // Release: pairs with the Acquire in `bell::wait`; the process that is woken sees the
            // tag.
            bell.increment();
        }
    }
}

/// The reader's end of a channel. There is one of each channel, in one thread at a time.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    slots: R,
    turn: Turn,
}

impl<R: Deref<Target = [Slot]>> Reader<R> {
    /// The reader's end of a channel from which nothing was taken.
    ///
    /// # Safety
    /// There is no other reader of these slots, as long as one may use them.
    pub(crate) unsafe fn new(slots: R) -> Self {
        Reader { slots, turn: Turn::default() }
    }

    /// Takes the next message out of its slot, if it is there.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Body> {
        self.take_with(Body::new)
    }

    /// Reads the next message in its slot, if it is there, which is free afterwards: its head, and
    /// what stands there.
    #[inline]
    pub(crate) fn take_with<X>(&mut self, read: impl FnOnce(u64, &[u8]) -> X) -> Option<X> {
        if !self.is_full() {
            return None;
        }
        let slot = &self.slots[self.turn.slot];
        if plant::is("channel: frees first") {
            slot.tag.increment();
        }
        let read = slot.read(read);
        if !plant::is("channel: frees first") {
            // Release: pairs with the Acquire in `Writer::wait`; the writer writes over what has
            // been read.
            slot.tag.increment();
        }
        self.turn.pass(self.slots.len());
        Some(read)
    }

    /// Whether a message is there.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        // Acquire: pairs with the Release in `Writer::put`.
        self.slots[self.turn.slot].tag.get() == self.turn.free + 1
    }
}
