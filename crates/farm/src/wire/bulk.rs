//! Bytes within a value that are not copied when the message is received.
//!
//! # Contract
//! A [`Bulk`] that is decoded from a message in the farm's memory is a part of that message, at an
//! address that is a multiple of [`ALIGNMENT`]. It keeps the message. Decoded from anything else it
//! is a copy.
//!
//! ```text
//! ... | pad length | 0 .. 63 zeros | length | bytes ...
//!                                           ^ a multiple of 64 from the first byte of the message
//! ```
//!
//! serde hands no context to the values that it writes and reads. So the position of the writer,
//! and the message of the reader, are thread-local while a message is written or read, as in the
//! ipc-channel crate.
//!
//! # Costs
//! One copy, into the message. A message that grows while it is written is moved: a value that
//! begins with its largest part is moved least.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::Message;

/// The alignment of the bytes in a message: that of its memory.
const ALIGNMENT: usize = 64;

thread_local! {
    /// The number of bytes of the message that is being written; `None` if none is.
    static WRITTEN: Cell<Option<usize>> = const { Cell::new(None) };
    /// The message that is being read.
    static READ: RefCell<Option<Arc<Message>>> = const { RefCell::new(None) };
}

/// Restores what was there before, also if a value panics.
struct Restore<F: FnMut()>(F);

impl<F: FnMut()> Drop for Restore<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `write`, which writes an empty message.
pub(super) fn writing<X>(write: impl FnOnce() -> X) -> X {
    let before = WRITTEN.replace(Some(0));
    let _restore = Restore(|| WRITTEN.set(before));
    write()
}

/// Notes the number of bytes written so far.
#[inline]
pub(super) fn written(len: usize) {
    WRITTEN.set(Some(len));
}

/// Runs `read`, which reads the message.
pub(super) fn within<X>(message: &Arc<Message>, read: impl FnOnce() -> X) -> X {
    let before = READ.replace(Some(Arc::clone(message)));
    let mut before = Some(before);
    let _restore = Restore(|| drop(READ.replace(before.take().flatten())));
    read()
}

/// Bytes that are sent within a value, and are read in place where they are received.
///
/// ```
/// use syncline_farm::{Farm, Vpid, wire::Bulk};
///
/// let mut farm = Farm::new()?;
/// let image = vec![7_u8; 100_000];
/// farm.send(Vpid::MANAGER, &("an image".to_owned(), Bulk::from(image)))?; // to itself
/// let (_, (name, image)) = farm.recv_any::<(String, Bulk)>()?;
/// assert_eq!((&*name, image.len(), image[99_999]), ("an image", 100_000, 7));
/// assert_eq!(image.as_ptr().addr() % 64, 0);
/// # Ok::<(), syncline_farm::FarmError>(())
/// ```
#[derive(Clone)]
pub struct Bulk(Source);

#[derive(Clone)]
enum Source {
    Own(Arc<dyn AsRef<[u8]> + Send + Sync>),
    Message(Arc<Message>, Range<usize>),
}

impl Bulk {
    /// Makes bytes to be sent of those of any owner.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Bulk(Source::Own(Arc::new(owner)))
    }

    /// Returns whether the bytes are in a message, which they keep in the memory of the farm.
    #[must_use]
    pub const fn is_in_message(&self) -> bool {
        matches!(self.0, Source::Message(..))
    }

    /// Returns a pointer to the bytes. In a message they belong to this process, and may be written
    /// while no reference to them is in use.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        match &self.0 {
            Source::Own(owner) => (**owner).as_ref().as_ptr().cast_mut(),
            Source::Message(message, range) => message.as_mut_ptr().wrapping_add(range.start),
        }
    }
}

impl From<Vec<u8>> for Bulk {
    fn from(bytes: Vec<u8>) -> Self {
        Bulk::new(bytes)
    }
}

impl Deref for Bulk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Own(owner) => (**owner).as_ref(),
            Source::Message(message, range) => &message[range.clone()],
        }
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Bytes, which serde would otherwise take for a sequence of numbers.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Returns the number of bytes that postcard takes for a length.
fn length_of(len: usize) -> usize {
    (usize::BITS - len.leading_zeros()).div_ceil(7).max(1) as usize
}

impl Serialize for Bulk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // One byte is the length of the pad.
        let before = WRITTEN.get().map(|written| written + 1 + length_of(self.len()));
        let pad = before.map_or(0, |before| before.next_multiple_of(ALIGNMENT) - before);
        (Bytes(&[0; ALIGNMENT][..pad]), Bytes(self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bulk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (_pad, bytes) = <(&[u8], &[u8])>::deserialize(deserializer)?;
        Ok(received(bytes))
    }
}

/// Returns the bytes as a part of the message that is being read, or else as a copy.
fn received(bytes: &[u8]) -> Bulk {
    READ.with_borrow(|message| {
        let range = message.as_ref().and_then(|message| {
            let start = bytes.as_ptr().addr().checked_sub(message.as_ptr().addr())?;
            let end = start.checked_add(bytes.len()).filter(|&end| end <= message.len())?;
            Some((message, start..end))
        });
        match range {
            Some((message, range)) => Bulk(Source::Message(Arc::clone(message), range)),
            None => Bulk::from(bytes.to_vec()),
        }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};

    #[test]
    fn lengths_are_those_of_postcard() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, usize::MAX] {
            assert_eq!(length_of(len), encode(&len).unwrap().len(), "{len}");
        }
    }

    #[test]
    fn without_a_message_it_is_a_copy() {
        let sent = (7_u8, Bulk::from(vec![1, 2, 3]), Bulk::from(Vec::new()));
        let (seven, some, none): (u8, Bulk, Bulk) = decode(&encode(&sent).unwrap()).unwrap();
        assert_eq!((seven, &*some, &*none), (7, &[1, 2, 3][..], &[][..]));
        assert!(!some.is_in_message());
        assert!(decode::<Bulk>(&[0]).is_err() && decode::<Bulk>(&[0, 5, 1]).is_err());
    }
}
