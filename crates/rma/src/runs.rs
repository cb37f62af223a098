//! The runs of bytes that an operation moves, split into messages.

use std::collections::VecDeque;

use crate::engine::{Destination, MOST};
use crate::shape::Piece;

/// A run of bytes at `there` in a member's part and at `here` in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) there: usize,
    pub(crate) here: usize,
    pub(crate) len: usize,
}

impl Run {
    /// Returns the address of the run in a buffer. If the buffer is null, `here` is an exposed
    /// address.
    pub(crate) fn place(&self, buffer: *mut u8) -> *mut u8 {
        if buffer.is_null() {
            return std::ptr::with_exposed_provenance_mut(self.here);
        }
        buffer.wrapping_add(self.here)
    }

    /// Returns the bytes of the run in a buffer.
    ///
    /// # Safety
    /// The run must be valid for reads in the buffer, and no thread may write to it for `'a`.
    pub(crate) unsafe fn bytes<'a>(&self, buffer: *const u8) -> &'a [u8] {
        // SAFETY: the bytes are readable, and not written for `'a`: the caller guarantees it (see
        // `# Safety`). If the buffer is null, the run is not empty, so its address is not null.
        unsafe { std::slice::from_raw_parts(self.place(buffer.cast_mut()), self.len) }
    }
}

/// Splits runs into messages of at most `most` bytes. Returns the pieces and the runs of each
/// message.
pub(crate) fn batches(runs: &[Run], most: usize) -> Vec<(Vec<Piece>, Vec<Run>)> {
    let mut batches: Vec<(Vec<Piece>, Vec<Run>)> = Vec::new();
    let mut room = 0;
    for &Run { mut there, mut here, mut len } in runs {
        while len > 0 {
            if room == 0 {
                batches.push(Default::default());
                room = most;
            }
            let part = len.min(room);
            let (pieces, cut) = batches.last_mut().expect("there is one with room");
            let (offset, bytes) = (there as u64, part as u32);
            match pieces
                .last_mut()
                .and_then(|last| last.and(offset, bytes).map(|more| (last, more)))
            {
                Some((last, more)) => *last = more,
                None => pieces.push(Piece { offset, len: bytes, count: 1, stride: 0 }),
            }
            cut.push(Run { there, here, len: part });
            // Pieces take room as well, so that lists of small runs do not make long messages.
            room -= part;
            if pieces.len() * 8 * Piece::WORDS >= MOST {
                room = 0;
            }
            (there, here, len) = (there + part, here + part, len - part);
        }
    }
    batches
}
/// Returns the destinations in a buffer for the answers to the requests of `batches`.
pub(crate) fn places(
    batches: &[(Vec<Piece>, Vec<Run>)],
    buffer: *mut u8,
) -> VecDeque<Vec<Destination>> {
    let place = |run: &Run| Destination { at: run.place(buffer), len: run.len };
    batches.iter().map(|(_, runs)| runs.iter().map(place).collect()).collect()
}
