//! Memory that long messages go from and to.
//!
//! # Contract
//! A [`Place`] is a range of bytes together with an *owner*, a value that keeps the range valid. A
//! transfer in flight has a clone of the owner, so that it never accesses memory that is gone:
//!
//! ```text
//!   service ── Place ──> endpoint ── pieces, each with a clone of the owner ──> transport
//!           <── Place ── when the transfer is done; the pieces' clones are dropped
//!
//!   given up: the endpoint drops the Place; the transport keeps the clones of the pieces until
//!             the network has finished with them, or leaks them
//! ```
//! The bytes may be accessed by other threads and processes during a transfer, if these accesses
//! are such that the processor may read and write the bytes at the same time. The receiver of bytes
//! that were written meanwhile gets a mixture.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What keeps a [`Place`] valid.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// A range of bytes that a long message goes from or to: see the [module](self).
pub struct Place {
    at: *mut u8,
    len: usize,
    owner: Owner,
}

// SAFETY: `at` points to memory that the owner, which any thread may have, keeps valid; `new`
// requires that any thread may access it.
unsafe impl Send for Place {}

/// A part of a place that the transport sends or receives as one message.
pub struct Piece {
    /// The number that [`Transport::piece_done`](super::Transport::piece_done) returns.
    pub key: u64,
    at: *mut u8,
    len: usize,
    owner: Owner,
}

// SAFETY: as for `Place`.
unsafe impl Send for Piece {}

impl Place {
    /// The `len` bytes at `at`.
    ///
    /// # Safety
    /// `at` must be valid for reads and writes of `len` bytes, by any thread, until `owner` and all
    /// of its clones are dropped. Until the transfer is reported as done, or, if it is given up,
    /// until then: a place of a message that is sent must not be written, and a place that receives
    /// must not be accessed, except by accesses that may take place at the same time as those of
    /// another processor (atomics, assembly, other processes).
    #[must_use]
    pub unsafe fn new(at: *mut u8, len: usize, owner: Owner) -> Place {
        Place { at, len, owner }
    }

    /// A buffer, which the place owns. [`into_bytes`](Self::into_bytes) returns it.
    #[must_use]
    pub fn owned(mut bytes: Vec<u8>) -> Place {
        let (at, len) = (bytes.as_mut_ptr(), bytes.len());
        Place { at, len, owner: Arc::new(bytes) }
    }

    /// Returns the buffer of a place that [`owned`](Self::owned) made; `None` for any other place,
    /// and while a transfer that was given up may still access it.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.owner.downcast::<Vec<u8>>().ok()?)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the piece of at most `len` bytes that begins `from` bytes into the place.
    pub(crate) fn piece(&self, key: u64, from: usize, len: usize) -> Piece {
        let from = from.min(self.len);
        let (at, len) = (self.at.wrapping_add(from), len.min(self.len - from));
        Piece { key, at, len, owner: Arc::clone(&self.owner) }
    }

    /// Copies the bytes of another place, as many as both have.
    pub(crate) fn copy_from(&self, other: &Place) {
        let whole = |place: &Place| place.piece(0, 0, place.len);
        whole(self).copy_from(&whole(other));
    }
}

impl Piece {
    /// Returns the address of the bytes.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a clone of the owner of the bytes.
    pub(crate) fn owner(&self) -> Owner {
        Arc::clone(&self.owner)
    }

    /// Copies the bytes of another piece, as many as both have. Other threads may access both at
    /// the same time, as they may during a transfer.
    pub(crate) fn copy_from(&self, other: &Piece) {
        let (from, to, len) = (other.at, self.at, self.len.min(other.len));
        // Words where both are aligned alike, bytes elsewhere.
        let head = match (from.addr() ^ to.addr()) % 8 {
            0 => from.align_offset(8).min(len),
            _ => len,
        };
        let words = (len - head) / 8;
        let byte = |at: usize| {
            // SAFETY: both have at least `len` bytes, and their owners keep them valid for reads
            // and writes. Accesses of other threads at the same time are atomic ones, or accesses
            // that the compiler does not see: `Place::new` requires it. A byte is always aligned.
            let (from, to) =
                unsafe { (AtomicU8::from_ptr(from.add(at)), AtomicU8::from_ptr(to.add(at))) };
            // Relaxed, here and below: the report of the transfer orders the bytes.
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        (0..head).for_each(byte);
        for at in (0..words).map(|word| head + 8 * word) {
            // SAFETY: as above; the words lie within the `len` bytes, and both are aligned, as both
            // addresses have the same distance to a multiple of 8, which is `head` or `len`.
            let (from, to) = unsafe {
                (AtomicU64::from_ptr(from.add(at).cast()), AtomicU64::from_ptr(to.add(at).cast()))
            };
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (head + 8 * words..len).for_each(byte);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("at", &self.at).field("len", &self.len).finish()
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Piece { key, at, len, .. } = self;
        f.debug_struct("Piece").field("key", key).field("at", at).field("len", len).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_at_every_alignment() {
        for (from, to, len) in (0..9).flat_map(|from| {
            (0..9).flat_map(move |to| [0, 1, 7, 8, 30, 55].map(move |len| (from, to, len)))
        }) {
            let bytes = (0..64_u8).collect::<Vec<_>>();
            let (source, target) = (Place::owned(bytes.clone()), Place::owned(vec![99; 64]));
            target.piece(1, to, len).copy_from(&source.piece(2, from, len));
            let mut expected = vec![99; 64];
            expected[to..to + len].copy_from_slice(&bytes[from..from + len]);
            assert_eq!(target.into_bytes().unwrap(), expected);
            assert_eq!(source.into_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn a_buffer_is_not_returned_while_a_piece_has_it() {
        let place = Place::owned(vec![1; 10]);
        let piece = place.piece(0, 4, 100);
        assert_eq!((piece.len(), place.len()), (6, 10));
        assert_eq!(place.into_bytes(), None);
        drop(piece);
    }
}
