//! Placement of global memory: the parts of a host in the memory that its members share.
//!
//! # Contract
//! Members allocate and free together, in the same order. So every member of a host computes the
//! same placement by the same arithmetic, without communication. Freed memory is reused.
//!
//! ```text
//!  host 0: | ... | rank 0's part | rank 1's part | ... |     allocation: table of parts by rank;
//!  host 1: | ... | rank 2's part | rank 3's part | ... |     parts of this host have an address
//! ```
//!
//! # Costs
//! An operation looks its target up in the table of its allocation, in a time that does not depend
//! on the number of allocations.

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

/// The unit of arenas: a pair of cache lines, whose words are accessed only as `copy` does.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Line([AtomicU64; 16]);

// SAFETY: a line consists of words, and all bytes zero are its default value.
unsafe impl Shared for Line {}

const LINE: usize = size_of::<Line>();
/// The minimum number of lines by which an arena grows.
const CHUNK: usize = 8192;

/// The allocator state of a host's memory. Each member of the host keeps an identical copy.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    chunks: Vec<Array<Line>>,
    /// The free ranges: from their beginning (chunk, line) to their number of lines.
    free: BTreeMap<(usize, usize), usize>,
}

/// A range of lines of an arena.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    chunk: usize,
    lines: Range<usize>,
    memory: Array<Line>,
}

impl HostMemory {
    /// Allocates lines for `bytes` bytes. All members of a host make the same calls in the same
    /// order.
    pub(crate) fn take(&mut self, space: &mut Space, bytes: usize) -> Result<Lines, SpaceError> {
        let lines = bytes.div_ceil(LINE).max(1);
        let fits =
            self.free.iter().find(|&(_, &free)| free >= lines).map(|(&at, &free)| (at, free));
        let (at, free) = match fits {
            Some(found) => found,
            None => {
                let len = lines.max(CHUNK);
                // If a whole chunk does not fit, the lines that are needed may fit.
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

    /// Frees lines, and merges them with free neighbours.
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

/// Smaller parts stay committed when they are freed: returning memory to the system and committing
/// it again costs more than it saves.
const WORTH_IT: usize = 1 << 20;

impl Lines {
    /// Commits the memory of a part that begins `at` bytes into the lines.
    pub(crate) fn commit(&self, at: usize, bytes: usize) -> Result<(), SpaceError> {
        self.memory.commit(self.part(at, bytes))
    }

    /// Returns the memory of a part to the system if it is large enough.
    ///
    /// # Safety
    /// No member may use the part any more, and no other allocation may have it yet.
    pub(crate) unsafe fn give_back(&self, at: usize, bytes: usize) {
        if bytes >= WORTH_IT {
            // SAFETY: no member and no other allocation uses the part: the caller guarantees it
            // (see `# Safety`).
            unsafe { self.memory.give_back(self.part(at, bytes)) };
        }
    }

    fn part(&self, at: usize, bytes: usize) -> Range<usize> {
        let first = self.lines.start + at / LINE;
        first..first + room(bytes) / LINE
    }

    fn address(&self) -> *mut u8 {
        // The words are atomics, so they may be changed through a shared reference.
        self.memory[self.lines.clone()].as_ptr().cast_mut().cast()
    }
}

/// An allocation: the parts of all members.
#[derive(Debug)]
pub(crate) struct Table {
    /// The number of the `Rma` that allocated it; 0 when it has been freed.
    of: AtomicU64,
    pub(crate) id: u32,
    /// The parts by rank.
    pub(crate) parts: Box<[MemberPart]>,
    /// The lines that hold the parts of this host.
    pub(crate) lines: Lines,
}

/// One member's part of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberPart {
    /// The address of the part; null if the part is on another host.
    pub(crate) address: *mut u8,
    pub(crate) bytes: usize,
}

// SAFETY: `address` points to memory that the table keeps alive, and that is accessed only as
// `copy` does, which permits any thread.
unsafe impl Send for MemberPart {}
// SAFETY: see `Send`.
unsafe impl Sync for MemberPart {}

impl Table {
    /// Creates the table. The parts of the ranks in `here` lie one after the other in `lines`.
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

    /// Sets all bytes of a part to zero, if the part is on this host.
    pub(crate) fn clear(&self, rank: usize) {
        let MemberPart { address, bytes } = self.parts[rank];
        if !address.is_null() {
            // SAFETY: `address` points to `bytes` bytes of shared memory, which `lines` keeps
            // alive.
            unsafe { copy::clear(address, bytes) };
        }
    }

    /// Returns the number of the `Rma` that owns the memory; 0 if it has been freed.
    #[inline]
    pub(crate) fn of(&self) -> u64 {
        // Relaxed: a store that matters was made by the member that calls this.
        self.of.load(Ordering::Relaxed)
    }

    /// Marks the memory as freed.
    pub(crate) fn set_free(&self) {
        self.of.store(0, Ordering::Relaxed);
    }
}

/// Returns the number of bytes that a part occupies: whole lines, so that no two parts share one.
pub(crate) fn room(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

/// Global memory: a number of elements of one type at each member. See
/// [`Rma::allocate`](crate::Rma::allocate).
///
/// It is a handle of one member, for the operations of that member's [`Rma`](crate::Rma). All
/// members free it together with [`Rma::free`](crate::Rma::free). If it is dropped, the memory
/// stays allocated until the team ends.
pub struct Global<T> {
    pub(crate) table: Arc<Table>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Element> Global<T> {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Global { table, of: PhantomData }
    }

    /// Returns the number of elements of a member's part.
    ///
    /// # Panics
    /// If `rank` is not the rank of a member.
    #[must_use]
    pub fn len(&self, rank: usize) -> usize {
        self.table.parts[rank].bytes / size_of::<T>().max(1)
    }

    /// Returns whether a member's part has no elements.
    ///
    /// # Panics
    /// If `rank` is not the rank of a member.
    #[must_use]
    pub fn is_empty(&self, rank: usize) -> bool {
        self.len(rank) == 0
    }

    /// Returns a handle to the same memory as elements of another type. The memory is freed once,
    /// through either handle.
    ///
    /// # Errors
    /// [`RmaError::View`] if the size of a member's part is not a multiple of the size of the
    /// element.
    pub fn view<U: Element>(&self) -> Result<Global<U>, RmaError> {
        let size = size_of::<U>();
        match self.table.parts.iter().find(|part| size == 0 || !part.bytes.is_multiple_of(size)) {
            Some(part) => Err(RmaError::View { len: part.bytes, size }),
            None => Ok(Global::new(Arc::clone(&self.table))),
        }
    }

    /// Returns the address of the part of a member of this host; null for members of other hosts.
    ///
    /// The memory is valid until the allocation is freed. Other members read and write it at any
    /// time, so ordinary loads and stores are data races unless syncs or locks exclude the other
    /// members.
    ///
    /// # Panics
    /// If `rank` is not the rank of a member.
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
    use syncline_testkit::property;

    proptest! {
        #![proptest_config(property(256))]

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
