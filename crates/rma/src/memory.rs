//! Where global memory stands: the part of each host in the memory that its members share.
//!
//! # Contract
//! Members allocate and free together, in the same order, so every member of a host finds the same places by the same
//! arithmetic, and nobody asks anybody. What is freed is used again.
//!
//! ```text
//!  host 0: | ... | rank 0's part | rank 1's part | ... |         an allocation: a table of parts by rank;
//!  host 1: | ... | rank 2's part | rank 3's part | ... |         those of this host have an address
//! ```
//!
//! # Costs
//! An operation looks its target up in the table of its allocation: how many others there are does not matter.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline_sync::{
    Space, SpaceError,
    space::{Array, Shared},
};

use crate::copy;
use crate::element::Element;
use crate::error::RmaError;

/// What arenas are made of: a pair of cache lines of words that are only touched as `copy` does.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Line([AtomicU64; 16]);

// SAFETY: words, of which all bytes zero are the default.
unsafe impl Shared for Line {}

const LINE: usize = size_of::<Line>();
/// An arena grows by so many lines at least.
const CHUNK: usize = 8192;

/// The memory of a host, as one member keeps account of it.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    chunks: Vec<Array<Line>>,
    /// What is free: where it begins (chunk, line), and how many lines it has.
    free: BTreeMap<(usize, usize), usize>,
}

/// Lines of an arena.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    chunk: usize,
    lines: Range<usize>,
    memory: Array<Line>,
}

impl HostMemory {
    /// So many bytes, in lines of their own. All members of a host call it alike.
    pub(crate) fn take(&mut self, space: &mut Space, bytes: usize) -> Result<Lines, SpaceError> {
        let lines = bytes.div_ceil(LINE).max(1);
        let fits =
            self.free.iter().find(|&(_, &free)| free >= lines).map(|(&at, &free)| (at, free));
        let (at, free) = match fits {
            Some(found) => found,
            None => {
                let len = lines.max(CHUNK);
                // Where there is no room for more, perhaps there is for as much as is needed.
                let chunk = space.reserve(len).or_else(|_| space.reserve(lines))?;
                let len = chunk.len();
                self.chunks.push(chunk);
                ((self.chunks.len() - 1, 0), len)
            }
        };
        self.free.remove(&at);
        if free > lines {
            self.free.insert((at.0, at.1 + lines), free - lines);
        }
        let memory = self.chunks[at.0].clone();
        Ok(Lines { chunk: at.0, lines: at.1..at.1 + lines, memory })
    }

    /// Takes lines back.
    pub(crate) fn give(&mut self, lines: Lines) {
        let Lines { chunk, lines: Range { mut start, mut end }, .. } = lines;
        if let Some((&(other, before), &len)) = self.free.range(..(chunk, start)).next_back()
            && other == chunk
            && before + len == start
        {
            self.free.remove(&(chunk, before));
            start = before;
        }
        if let Some(len) = self.free.remove(&(chunk, end)) {
            end += len;
        }
        self.free.insert((chunk, start), end - start);
    }
}

/// Smaller parts are kept when they are freed: to give memory back and take it anew costs more than
/// it saves.
const WORTH_IT: usize = 1 << 20;

impl Lines {
    /// Takes the memory of a part from the system. The part begins `at` bytes into the lines.
    pub(crate) fn commit(&self, at: usize, bytes: usize) -> Result<(), SpaceError> {
        self.memory.commit(self.part(at, bytes))
    }

    /// Gives the memory of a part back to the system, if that is worth it.
    ///
    /// # Safety
    /// No member uses the part any more, and no other allocation has it yet.
    pub(crate) unsafe fn give_back(&self, at: usize, bytes: usize) {
        if bytes >= WORTH_IT {
            // SAFETY: as the caller vouches.
            unsafe { self.memory.give_back(self.part(at, bytes)) };
        }
    }

    fn part(&self, at: usize, bytes: usize) -> Range<usize> {
        let first = self.lines.start + at / LINE;
        first..first + room(bytes) / LINE
    }

    fn address(&self) -> *mut u8 {
        // The words are atomics, so what is behind a shared reference to them may be changed.
        self.memory[self.lines.clone()].as_ptr().cast_mut().cast()
    }
}

/// An allocation: what each member has of it.
#[derive(Debug)]
pub(crate) struct Table {
    /// Whose it is; 0 when it has been given back.
    of: AtomicU64,
    pub(crate) id: u32,
    /// By rank.
    pub(crate) parts: Box<[MemberPart]>,
    /// What the parts of this host stand in.
    pub(crate) lines: Lines,
}

/// One member's part of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberPart {
    /// Null if it is on another host.
    pub(crate) address: *mut u8,
    pub(crate) bytes: usize,
}

// SAFETY: a part is a place in memory that the table keeps; it is only touched as `copy` does, by any thread.
unsafe impl Send for MemberPart {}
// SAFETY: as above.
unsafe impl Sync for MemberPart {}

impl Table {
    /// The parts of all, of which those of `here` stand one after the other in `lines`.
    pub(crate) fn new(of: u64, id: u32, bytes: &[usize], here: &[usize], lines: Lines) -> Table {
        let mut parts = bytes
            .iter()
            .map(|&bytes| MemberPart { address: std::ptr::null_mut(), bytes })
            .collect::<Box<_>>();
        let mut address = lines.address();
        for &rank in here {
            parts[rank].address = address;
            address = address.wrapping_add(room(bytes[rank]));
        }
        Table { of: AtomicU64::new(of), id, parts, lines }
    }

    /// Makes a part zero, if it is on this host.
    pub(crate) fn clear(&self, rank: usize) {
        let MemberPart { address, bytes } = self.parts[rank];
        if !address.is_null() {
            // SAFETY: the part's own bytes.
            unsafe { copy::clear(address, bytes) };
        }
    }

    /// Whose it is, or 0.
    #[inline]
    pub(crate) fn of(&self) -> u64 {
        // Relaxed: the member that asks has set it, if anybody has.
        self.of.load(Ordering::Relaxed)
    }

    /// Nobody's, from now on.
    pub(crate) fn set_free(&self) {
        self.of.store(0, Ordering::Relaxed);
    }
}

/// What a part takes: whole lines, so that no two share one.
pub(crate) fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// Global memory: elements of one type, so many at each member. See [`Rma::allocate`](crate::Rma::allocate).
///
/// A handle of one member, to be passed to the operations of its [`Rma`](crate::Rma). It is freed by
/// [`Rma::free`](crate::Rma::free), by all members; dropped, it stays allocated until the team ends.
pub struct Global<T> {
    pub(crate) table: Arc<Table>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Element> Global<T> {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Global { table, of: PhantomData }
    }

    /// How many elements a member has.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn len(&self, rank: usize) -> usize {
        self.table.parts[rank].bytes / size_of::<T>().max(1)
    }

    /// Whether a member has none.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn is_empty(&self, rank: usize) -> bool {
        self.len(rank) == 0
    }

    /// The same memory as elements of another type. Both handles are the same memory; it is freed once.
    ///
    /// # Errors
    /// [`RmaError::View`] if a member's part is no whole number of them.
    pub fn view<U: Element>(&self) -> Result<Global<U>, RmaError> {
        let size = size_of::<U>();
        match self.table.parts.iter().find(|part| size == 0 || !part.bytes.is_multiple_of(size)) {
            Some(part) => Err(RmaError::View { len: part.bytes, size }),
            None => Ok(Global::new(Arc::clone(&self.table))),
        }
    }

    /// The part of a member of this host, as memory: null for members of other hosts.
    ///
    /// The memory is there until the allocation is freed. Others read and write it at any time, in ways that ordinary
    /// loads and stores may race with, unless syncs or locks keep them away.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn as_ptr(&self, rank: usize) -> *mut T {
        self.table.parts[rank].address.cast()
    }
}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = std::any::type_name::<T>();
        f.debug_struct("Global")
            .field("id", &self.table.id)
            .field("of", &of)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_is_nobody_elses_and_what_is_given_is_used_again(
            steps in proptest::collection::vec((0_usize..30_000, any::<bool>(), 0_usize..50), 1..80),
        ) {
            let (mut arena, mut space) = (HostMemory::default(), Space::heap());
            let mut taken: Vec<Lines> = Vec::new();
            for (bytes, give, which) in steps {
                if give && !taken.is_empty() {
                    arena.give(taken.swap_remove(which % taken.len()));
                    continue;
                }
                let lines = arena.take(&mut space, bytes).unwrap();
                prop_assert!(lines.lines.len() * LINE >= bytes);
                for other in &taken {
                    let apart = other.lines.end <= lines.lines.start || lines.lines.end <= other.lines.start;
                    prop_assert!(other.chunk != lines.chunk || apart);
                }
                taken.push(lines);
            }
            let chunks = arena.chunks.len();
            taken.drain(..).for_each(|lines| arena.give(lines));
            prop_assert_eq!(arena.free.len(), chunks, "all is in one piece again");
        }
    }
}
