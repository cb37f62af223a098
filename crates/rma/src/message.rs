//! The messages between hosts, in words.
//!
//! ```text
//!  request | kind, detail, parity, pieces | left    | allocation, rank | ticket  | pieces, data
//!  reply   | kind                         | applied | completed        | ticket  | data
//!  ack     | kind                         | applied |                  |         |
//!  refused | kind, detail                 |         |                  | ticket  |
//!  sync    | kind, detail                 | epoch   | stride, step     | applied | counts
//! ```
//!
//! * `left`: the number of syncs that are known to be complete at the sender's host.
//! * `parity`: the parity of the number of syncs that the sender has begun.
//! * `applied`: the number of the receiver's requests that have been done.
//! * `completed`: as `left`.
//! * `detail`: see [`Head::detail`].
//!
//! Words are little-endian.

use crate::shape::Piece;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RequestKind {
    // Requests, which are acknowledged. These change memory.
    Put,
    Add,
    Rmw,
    // These requests do not change memory.
    Get,
    Fence,
    Lock,
    Unlock,
    // Answers, acknowledgements and refusals.
    Reply,
    Ack,
    Refused,
    // Messages of syncs, between servers.
    Sync,
}

impl RequestKind {
    const ALL: [RequestKind; 11] = [
        RequestKind::Put,
        RequestKind::Add,
        RequestKind::Rmw,
        RequestKind::Get,
        RequestKind::Fence,
        RequestKind::Lock,
        RequestKind::Unlock,
        RequestKind::Reply,
        RequestKind::Ack,
        RequestKind::Refused,
        RequestKind::Sync,
    ];

    /// Returns whether a fence has to wait for it.
    pub(crate) fn changes(self) -> bool {
        matches!(self, RequestKind::Put | RequestKind::Add | RequestKind::Rmw)
    }

    /// Returns whether it is answered when it is done. The answer acknowledges it and all earlier
    /// requests.
    pub(crate) fn is_answered(self) -> bool {
        matches!(self, RequestKind::Rmw | RequestKind::Get | RequestKind::Fence)
    }

    /// Returns whether a sync has to wait for it. A sync waits for a get, too: a get that is in
    /// flight when a sync begins must not see later writes.
    pub(crate) fn counts(self) -> bool {
        self.changes() || self == RequestKind::Get
    }
}

/// The words at the beginning of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: RequestKind,
    /// The element type of an accumulate; the operation of a read-modify-write; the reason of a
    /// refusal; of a sync, whether all requests are acknowledged.
    pub(crate) detail: u8,
    pub(crate) parity: u8,
    pub(crate) pieces: u32,
    pub(crate) epoch: u64,
    pub(crate) allocation: u32,
    pub(crate) rank: u32,
    pub(crate) ticket: u64,
}

/// The number of words of a head.
pub(crate) const WORDS: usize = 4;
/// The number of bytes of a head.
pub(crate) const HEAD: usize = 8 * WORDS;

impl Head {
    pub(crate) fn new(kind: RequestKind) -> Head {
        Head { kind, detail: 0, parity: 0, pieces: 0, epoch: 0, allocation: 0, rank: 0, ticket: 0 }
    }

    pub(crate) fn write(self, message: &mut Vec<u8>) {
        let Head { kind, detail, parity, pieces, epoch, allocation, rank, ticket } = self;
        let what = kind as u64
            | u64::from(detail) << 8
            | u64::from(parity) << 16
            | u64::from(pieces) << 32;
        let place = u64::from(allocation) | u64::from(rank) << 32;
        [what, epoch, place, ticket].into_iter().for_each(|word| push(message, word));
    }

    /// Returns the head of a message and the bytes after it; `None` if the head is invalid.
    pub(crate) fn read(body: &[u8]) -> Option<(Head, &[u8])> {
        let (head, rest) = body.split_first_chunk::<HEAD>()?;
        let mut words = words(head);
        let mut word = || words.next().unwrap_or_default();
        let (what, epoch, place, ticket) = (word(), word(), word(), word());
        let kind = *RequestKind::ALL.get(usize::from(what as u8))?;
        let (detail, parity, pieces) =
            ((what >> 8) as u8, (what >> 16) as u8 & 1, (what >> 32) as u32);
        let (allocation, rank) = (place as u32, (place >> 32) as u32);
        Some((Head { kind, detail, parity, pieces, epoch, allocation, rank, ticket }, rest))
    }
}

pub(crate) fn push(message: &mut Vec<u8>, word: u64) {
    message.extend_from_slice(&word.to_le_bytes());
}

/// Returns the words of a part of a message.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

pub(crate) fn push_piece(message: &mut Vec<u8>, piece: Piece) {
    piece.words().into_iter().for_each(|word| push(message, word));
}

/// Returns the pieces that follow a head and the bytes after them; `None` if they are incomplete.
pub(crate) fn pieces(
    head: Head,
    body: &[u8],
) -> Option<(impl Iterator<Item = Piece> + Clone + '_, &[u8])> {
    let len = (head.pieces as usize).checked_mul(8 * Piece::WORDS)?;
    let (pieces, data) = body.split_at_checked(len)?;
    let piece = |piece: &[u8]| {
        let mut words = words(piece);
        Piece::from_words([(); Piece::WORDS].map(|()| words.next().unwrap_or_default()))
    };
    Some((pieces.chunks_exact(8 * Piece::WORDS).map(piece), data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for (number, kind) in RequestKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let head = Head {
                detail: 3,
                parity: 1,
                pieces: 2,
                epoch: 1 << 40,
                allocation: 7,
                rank: 4095,
                ticket: 9,
                kind,
            };
            let mut message = Vec::new();
            head.write(&mut message);
            let pieces = [1, 2].map(|n| Piece { offset: n, len: 8, count: 3, stride: 100 * n });
            pieces.into_iter().for_each(|piece| push_piece(&mut message, piece));
            message.extend_from_slice(b"data");
            let (found, rest) = Head::read(&message).unwrap();
            assert_eq!(format!("{found:?}"), format!("{head:?}"));
            let (read, data) = super::pieces(found, rest).unwrap();
            assert_eq!((read.collect::<Vec<_>>(), data), (pieces.to_vec(), &b"data"[..]));
            assert!(super::pieces(found, &rest[..40]).is_none());
        }
        assert!(Head::read(&[255; HEAD]).is_none() && Head::read(&[0; HEAD - 1]).is_none());
    }
}
