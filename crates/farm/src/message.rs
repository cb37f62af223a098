//! Messages: bytes that were sent, and are read in place.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::arena::Arena;
use crate::channel::{BLOCK, Body, INLINE, KIND, LEN};
use crate::vpid::Vpid;
use crate::wire::{self, Number, WireError};

/// The type of a message's contents: a value that serde has serialized, or plain numbers of one
/// type.
///
/// Programs in other languages use it to interpret a message; in Rust the type of the received
/// value determines the interpretation.
///
/// ```
/// use syncline_farm::{Farm, Vpid, message::MessageKind, wire::Numbers};
///
/// let mut farm = Farm::new()?;
/// // To itself.
/// farm.send_bytes(Vpid::MANAGER, MessageKind::numbers::<u16>(), &7_u16.to_ne_bytes(), None)?;
/// let message = farm.recv_message(Vpid::MANAGER)?;
/// assert_eq!((message.kind(), message.kind().size()), (MessageKind::numbers::<u16>(), Some(2)));
/// assert_eq!(message.kind().to_string(), "numbers u16");
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageKind(pub(crate) u16);

impl MessageKind {
    /// A value that serde has serialized, in the encoding of postcard.
    pub const VALUE: MessageKind = MessageKind(1);

    /// Returns the kind that the head of a message contains.
    pub(crate) fn of(head: u64) -> MessageKind {
        MessageKind((head >> KIND) as u16 & 0x7FFF)
    }

    /// Returns the kind of messages of numbers of type `T`, in their memory representation.
    #[must_use]
    pub fn numbers<T: Number>() -> MessageKind {
        MessageKind(T::MARK)
    }

    /// Returns the size of one number in bytes, or 1 for a value; `None` if this version does not
    /// send the kind.
    #[must_use]
    pub fn size(self) -> Option<usize> {
        wire::size(self)
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(wire::name(*self))
    }
}

/// A received message: its bytes, where the sender has written them.
///
/// The bytes of a small message are stored in it. Those of a large one are in the farm's memory,
/// are read there without a copy, and are freed when the message is dropped.
///
/// ```
/// use syncline_farm::{Farm, Vpid, wire::Numbers};
///
/// let mut farm = Farm::new()?;
/// farm.send(Vpid::MANAGER, &Numbers::from(&[1_u8, 2, 3][..]))?; // to itself
/// assert_eq!(*farm.recv_message(Vpid::MANAGER)?, [1, 2, 3]);
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
pub struct Message {
    kind: MessageKind,
    body: Where,
}

enum Where {
    Inline {
        bytes: Aligned,
        len: usize,
    },
    /// `holder`: this process, as the holder of the block, which it gives back.
    Block {
        arena: Arc<Arena>,
        block: u32,
        len: usize,
        holder: u64,
    },
    Copied(Vec<u8>),
}

/// Bytes that are aligned for numbers of up to 16 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Aligned([u8; INLINE]);

impl Message {
    /// Creates the message for `to`, which is this process; the error says why it is invalid.
    ///
    /// # Safety
    /// `body` must have been taken from a channel of `to`, or be the result of a task that `to` has
    /// offered, and no other message may be created from it.
    pub(crate) unsafe fn new(
        arena: &Arc<Arena>,
        to: Vpid,
        body: Body,
    ) -> Result<Message, WireError> {
        Message::of(arena, to, body, |block, len| {
            let (arena, holder) = (Arc::clone(arena), to.to_raw() + 1);
            Some(Where::Block { arena, block, len, holder })
        })
    }

    /// Creates a copy of a message that `holder` keeps. If that process ends meanwhile, the copy
    /// may contain anything.
    pub(crate) fn copied(arena: &Arena, holder: Vpid, body: Body) -> Result<Message, WireError> {
        Message::of(arena, holder, body, |block, len| arena.copy_of(block, len).map(Where::Copied))
    }

    fn of(
        arena: &Arena,
        holder: Vpid,
        body: Body,
        large: impl FnOnce(u32, usize) -> Option<Where>,
    ) -> Result<Message, WireError> {
        let len = (body.head & LEN) as usize;
        let place = match body.block() {
            None if len > INLINE => return Err(WireError::Damaged { what: "its length" }),
            None => Some(Where::Inline { bytes: Aligned(body.bytes), len }),
            Some(block) => arena
                .blocks()
                .size(block)
                .filter(|&size| len <= size && arena.blocks().is_held(block, holder.to_raw() + 1))
                .and_then(|_| large(block, len)),
        };
        let place = place.ok_or(WireError::Damaged { what: "its block" })?;
        Ok(Message { kind: MessageKind::of(body.head), body: place })
    }

    /// Returns whether the bytes are in the memory of the farm.
    pub(crate) const fn is_in_place(&self) -> bool {
        matches!(self.body, Where::Block { .. })
    }

    /// Returns a pointer to the bytes, for writing if they are in the memory of the farm.
    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        match &self.body {
            Where::Block { arena, block, .. } => arena.bytes(*block),
            _ => self.as_ptr().cast_mut(),
        }
    }

    /// Returns the kind of the message.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        self.kind
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.body {
            Where::Inline { bytes, len } => &bytes.0[..*len],
            // SAFETY: this process holds the block, for this message alone, and the block has at
            // least `len` bytes (`of`), which are initialised. No process writes to it before
            // `drop` gives it back, and the arena keeps it mapped.
            Where::Block { arena, block, len, .. } => unsafe {
                std::slice::from_raw_parts(arena.bytes(*block), *len)
            },
            Where::Copied(bytes) => bytes,
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Where::Block { arena, block, holder, .. } = &self.body
            // The copy of a forked child does not own the block.
            && arena.is_home()
        {
            // SAFETY: the block belongs to this message alone, which is being dropped.
            unsafe { arena.blocks().give(*block, *holder) };
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("len", &self.len()).field("kind", &self.kind).finish()
    }
}

/// A message that is being written: in this process while it is small, and in a block of the farm's
/// memory otherwise.
pub(crate) struct Draft<'a> {
    arena: &'a Arena,
    me: Vpid,
    small: [u8; INLINE],
    /// The number and the size of the block, if there is one.
    block: Option<(u32, usize)>,
    /// The position of the bytes, and the number for which there is room.
    at: *mut u8,
    room: usize,
    len: usize,
    leaves_room: bool,
}

/// A block is large if this number of them takes all of the farm's memory.
const LARGE: usize = 1024;

impl<'a> Draft<'a> {
    /// Creates an empty message of this process.
    pub(crate) fn new(arena: &'a Arena, me: Vpid) -> Self {
        let (small, at) = ([0; INLINE], std::ptr::null_mut());
        Draft { arena, me, small, block: None, at, room: INLINE, len: 0, leaves_room: false }
    }

    /// From now on it gets a large block only if another one of the size is left for an answer.
    pub(crate) fn leave_room(&mut self) {
        self.leaves_room = true;
    }

    /// Takes a block of at least `len` bytes.
    fn take(&self, len: usize) -> Option<(u32, usize)> {
        let (blocks, holder) = (self.arena.blocks(), self.me.to_raw() + 1);
        let (block, size) = blocks.take(len, holder)?;
        if self.leaves_room && size >= self.arena.memory() / LARGE {
            let other = blocks.take(size, holder);
            let given = other.map_or(block, |(other, _)| other);
            // SAFETY: the block belongs to this draft alone, which has not used it.
            unsafe { blocks.give(given, holder) };
            other?;
        }
        Some((block, size))
    }

    /// Makes room for `more` contiguous bytes.
    fn reserve(&mut self, more: usize) -> Result<(), WireError> {
        let needed = self.len.checked_add(more).filter(|&len| len as u64 <= LEN);
        let needed = needed.ok_or(WireError::Long { bytes: usize::MAX })?;
        if needed <= self.room {
            return Ok(());
        }
        let asked = if more > self.room { needed } else { needed.max(2 * self.room).max(4096) };
        // There may be no room for more than needed.
        let taken = self.take(asked).or_else(|| self.take(needed));
        self.move_to(taken.ok_or(WireError::Long { bytes: needed })?);
        Ok(())
    }

    /// Moves the message to a block, in which it is written from now on.
    fn move_to(&mut self, (block, size): (u32, usize)) {
        let at = self.arena.bytes(block);
        // SAFETY: source and target have at least `len` bytes, belong to this draft alone, and are
        // different memory.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes().as_ptr(), at, self.len) };
        if let Some((old, _)) = self.block.replace((block, size)) {
            // SAFETY: the block belonged to this draft alone, and everything was copied out of it.
            unsafe { self.arena.blocks().give(old, self.me.to_raw() + 1) };
        }
        (self.at, self.room) = (at, size);
    }

    /// Returns the block that contains the message, however small, and its length. The caller must
    /// give the block back.
    pub(crate) fn into_block(mut self) -> Result<(u32, usize), WireError> {
        if self.block.is_none() {
            let taken = self.take(self.len);
            self.move_to(taken.ok_or(WireError::Long { bytes: self.len })?);
        }
        let (block, _) = self.block.take().expect("it has one");
        Ok((block, self.len))
    }

    /// Returns the number of bytes so far.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if bytes.len() > self.room - self.len {
            self.reserve(bytes.len())?;
        }
        let at = if self.block.is_some() { self.at } else { self.small.as_mut_ptr() };
        // SAFETY: there is room for `bytes.len()` bytes behind the first `len`, in memory that
        // belongs to this draft alone, and so does not overlap `bytes`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.wrapping_add(self.len), bytes.len())
        };
        self.len += bytes.len();
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self.block {
            None => &self.small[..self.len],
            // SAFETY: the first `len` bytes of the block were written, and the block belongs to
            // this draft alone.
            Some(_) => unsafe { std::slice::from_raw_parts(self.at, self.len) },
        }
    }

    /// Passes the message to a receiver, and returns it as a body.
    pub(crate) fn into_body(self, to: Vpid, kind: MessageKind) -> Body {
        self.hand_over(to, kind, Body::new)
    }

    /// Passes the message to a receiver: calls `put` with its head and its inline bytes.
    pub(crate) fn hand_over<R>(
        mut self,
        to: Vpid,
        kind: MessageKind,
        put: impl FnOnce(u64, &[u8]) -> R,
    ) -> R {
        let head = self.len as u64 | u64::from(kind.0) << KIND;
        match self.block.take() {
            None => put(head, &self.small[..self.len]),
            Some((block, _)) => {
                // From here on the receiver holds it, even if this process dies before the message
                // is in its slot.
                // SAFETY: the block belonged to this draft alone, which does not use it any more.
                unsafe { self.arena.blocks().hand_over(block, to.to_raw() + 1) };
                put(head | BLOCK, &block.to_le_bytes())
            }
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some((block, _)) = self.block {
            // SAFETY: the block belongs to this draft alone, which is being dropped.
            unsafe { self.arena.blocks().give(block, self.me.to_raw() + 1) };
        }
    }
}
