//! A channel for an ordered pair of processes: slots in shared memory, one writer, one reader.
//!
//! # Contract
//! The reader receives each message that the writer sends exactly once, in order and complete. A
//! slot holds one message: up to [`INLINE`] bytes in the slot itself; a longer message is in a
//! block of the farm's memory, which then belongs to the reader.
//!
//! ```text
//!          ┌ tag ┬ head ┬ bytes, or the number of a block ─────────────┐   128 bytes, aligned
//! slot 0   │ 2r  │ len  │                                              │
//! slot 1   │     │ kind │                                              │   depth 1: only slot 0
//!          └─────┴──────┴──────────────────────────────────────────────┘
//! ```
//! | tag      | the slot is | advanced by                                                 |
//! |----------|-------------|-------------------------------------------------------------|
//! | `2r`     | free        | the writer of message `r · depth + slot`: writes it, adds 1 |
//! | `2r + 1` | full        | the reader: takes the message out, adds 1                   |
//!
//! # Costs
//! A message that fits the first line of its slot: one transfer of the line to the writer, one to
//! the reader, and a notification of the reader's event count, whose line stays with the writer
//! while the reader finds messages by looking.
//!
//! # Source
//! Moreno Maza, Stephenson, Watt and Xie, "Multiprocessed parallelism support in ALDOR on SMPs and
//! multicores" (2007): one slot for each ordered pair, and a tag that is 0 (free), the size (full),
//! -1 (being read), 0.
//!
//! # Differences from the source
//! The tag only grows, so both sides can sleep on it, and neither mistakes the state of one round
//! for that of another. "Being read" is not a state of the slot: the reader takes the message out,
//! by copying a small one and by becoming the owner of the block of a large one, and reads it
//! later. The size is stored separately from the tag, so messages may be empty. A channel may have
//! several slots.

use std::ops::Deref;
use std::time::Instant;

use syncline_signal::primitive::UnsafeCell;
use syncline_signal::{Policy, Signal, WaitError, event_count::EventCount, plant};

/// The length in bytes of the longest message that a slot holds itself.
pub(crate) const INLINE: usize = 112;

/// The contents of a slot, or of a message that is being written into or taken out of one.
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
    /// Creates a message whose `bytes` are stored in the slot itself.
    pub(crate) fn new(head: u64, bytes: &[u8]) -> Body {
        let mut body = Body { bytes: [0; INLINE], head };
        body.bytes[..bytes.len()].copy_from_slice(bytes);
        body
    }

    /// Returns the number of the block that holds the message, if a block does.
    pub(crate) fn block(&self) -> Option<u32> {
        let number = [self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]];
        (self.head & BLOCK != 0).then(|| u32::from_le_bytes(number))
    }
}

/// Returns the number of bytes of the body that are in use; `INLINE` for an invalid head.
fn used(head: u64) -> usize {
    if head & BLOCK != 0 { size_of::<u32>() } else { ((head & LEN) as usize).min(INLINE) }
}

/// Bits of the head: the length of the message, in bytes.
pub(crate) const LEN: u64 = (1 << 48) - 1;
/// Bit of the head: the message is in a block, whose number is stored in place of the bytes.
pub(crate) const BLOCK: u64 = 1 << 63;
/// The lowest bit of the head that holds the kind of the message, which extends up to [`BLOCK`].
pub(crate) const KIND: u32 = 48;

/// A slot: the storage of one message.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Slot {
    tag: Signal,
    head: Cell<u64>,
    bytes: Cell<[u64; INLINE / 8]>,
}

/// A cell that one side writes and the other reads, of the standard library or of loom.
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

// SAFETY: only the writer accesses the cells while the tag says free, and only the reader while it
// says full. The Release increments and Acquire loads of the tag order these accesses.
unsafe impl Sync for Slot {}

impl Slot {
    fn put(&self, head: u64, bytes: &[u8]) {
        debug_assert!(bytes.len() <= INLINE);
        // SAFETY: `at` is valid for writes, and no other thread accesses the cell: the tag says
        // free, so only the writer does, and there is one writer (see `Writer::new`).
        self.head.write(|at| unsafe { at.write(head) });
        let len = bytes.len().min(INLINE);
        self.bytes.write(|at| {
            // SAFETY: no other thread accesses the cell, as above. The source has `len` bytes, the
            // target `INLINE`, which is at least `len`, and they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>(), len) }
        });
    }

    #[inline]
    fn read<R>(&self, read: impl FnOnce(u64, &[u8]) -> R) -> R {
        // SAFETY: `at` is valid for reads, and no thread writes the cell: the tag says full, so
        // only the reader accesses it until it advances the tag, and there is one reader (see
        // `Reader::new`).
        let head = self.head.read(|at| unsafe { at.read() });
        self.bytes.read(|at| {
            // SAFETY: no thread writes the cell, as above. It has `INLINE` initialised bytes, and
            // `used` never exceeds that.
            read(head, unsafe { std::slice::from_raw_parts(at.cast::<u8>(), used(head)) })
        })
    }
}

/// The next slot and its round. (Counted up, as a division takes as long as the transfer of a
/// message.)
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    slot: usize,
    /// The tag of the slot while it is free.
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

/// The writing end of a channel. Each channel has one, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Writer<R> {
    slots: R,
    turn: Turn,
}

impl<R: Deref<Target = [Slot]>> Writer<R> {
    /// Creates the writing end of a channel that has carried no message yet.
    ///
    /// # Safety
    /// No other writer of these slots may exist while this one is in use.
    pub(crate) unsafe fn new(slots: R) -> Self {
        Writer { slots, turn: Turn::default() }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        &self.slots[self.turn.slot]
    }

    /// Blocks until a slot is free, or a process that the policy watches is gone.
    #[inline]
    pub(crate) fn wait(
        &self,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        self.slot().tag.wait_until(self.turn.free, policy, deadline).map(|_| ())
    }

    /// Returns whether a slot is free.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        // Acquire: pairs with the Release in `Reader::take_with`.
        self.slot().tag.get() == self.turn.free
    }

    /// Writes a message into the slot that is free, as [`wait`](Self::wait) has seen, and
    /// notifies the reader.
    #[inline]
    pub(crate) fn put(&mut self, head: u64, bytes: &[u8], reader: &EventCount) {
        debug_assert!(self.is_free());
        if plant::is("channel: notifies first") {
            reader.notify();
        }
        self.slot().put(head, bytes);
        // Release: pairs with the Acquire in `Reader::is_full`; the reader sees the message.
        self.slot().tag.increment();
        self.turn.pass(self.slots.len());
        if !plant::is("channel: notifies first") {
            // Release: pairs with the Acquire of the reader's wait; the process that is woken sees
            // the tag.
            reader.notify();
        }
    }
}

/// The reading end of a channel. Each channel has one, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    slots: R,
    turn: Turn,
}

impl<R: Deref<Target = [Slot]>> Reader<R> {
    /// Creates the reading end of a channel from which no message has been taken yet.
    ///
    /// # Safety
    /// No other reader of these slots may exist while this one is in use.
    pub(crate) unsafe fn new(slots: R) -> Self {
        Reader { slots, turn: Turn::default() }
    }

    /// Takes the next message out of its slot; `None` if there is none.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Body> {
        self.take_with(Body::new)
    }

    /// Calls `read` with the head and the inline bytes of the next message in its slot, and then
    /// frees the slot; `None` if there is no message.
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
            // Release: pairs with the Acquire in `Writer::wait`; the writer overwrites what has
            // been read.
            slot.tag.increment();
        }
        self.turn.pass(self.slots.len());
        Some(read)
    }

    /// Returns whether a message is there.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        // Acquire: pairs with the Release in `Writer::put`.
        self.slots[self.turn.slot].tag.get() == self.turn.free + 1
    }
}
