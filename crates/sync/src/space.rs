//! The memory of barriers and locks: on the heap, or in a segment that processes share.
//!
//! # Contract
//! A [`Space`] hands out arrays that are all zero at first, which for every type here is the
//! initial state. So no member initialises them, and no member waits for another to do so.
//!
//! ```text
//! segment   | ledger: two words per allocation | array 0 | array 1 | ...
//!           | type, length; requesting member  |         |         |
//!
//! every view of it, in every process, has its own cursor
//! ```
//!
//! On the heap each array is a separate allocation. In a segment arrays follow one another, at
//! offsets that depend only on the earlier requests. All views that make the same requests in the
//! same order therefore get the same memory, without a message. The ledger records each request and
//! the member that made it. A view whose request differs gets an error. So does every other view
//! that is at that position or past it, with its next request; and if the space belongs to a team,
//! the waits of the team's members end. The arrays before that position are the same for all: a
//! late view still gets them.
//!
//! All the `unsafe` code of arrays is in this file.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::time::Duration;

use syncline_memory::Segment;
use syncline_process::Generation;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{PaddedSignal, Signal, event_count::EventCount};

use crate::agreement::{Asked, Difference, Thing};
use crate::call_matching::Calls;
use crate::error::SpaceError;
use crate::traced::Traced;

/// Types that processes may share and whose `Default` value is all bytes zero.
///
/// # Safety
/// All bytes zero must be a valid value, the same as `Default::default()`. The type must have no
/// pointers, hold nothing that is meaningful in one process only, and need no drop. It must be
/// changed through shared references by atomic operations only, or its users must exclude all other
/// accesses while they change it.
pub unsafe trait Shared: Default + Sync + 'static {}

// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is the number 0
// without sleepers.
unsafe impl Shared for Signal {}
// SAFETY: as for the signal in it; the rest is padding.
unsafe impl Shared for PaddedSignal {}
// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is its default.
unsafe impl Shared for AtomicU64 {}
// SAFETY: words, without pointers or drop, changed by atomic operations only; all zero bytes are
// its first state.
unsafe impl Shared for EventCount {}

/// The alignment of arrays: no two share a line, or a pair of lines that are fetched together.
const ALIGN: usize = 128;
/// The number of allocations that a segment can have.
const LEDGER: usize = 16384;

/// The words at the beginning of a segment: an entry for each allocation; then `COMMITTED`, the
/// first byte that is not committed (apart from reserved arrays); `DIFFERS`, the number of the
/// allocation at which views differ, from 1; `SECOND`, the request of the second view there; and
/// `ASKED`, the request of the first view, for each allocation.
const COMMITTED: usize = LEDGER;
const DIFFERS: usize = LEDGER + 1;
const SECOND: usize = LEDGER + 2;
const ASKED: usize = LEDGER + 3;
const WORDS: usize = ASKED + LEDGER;

/// A source of zeroed memory for barriers and locks.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use syncline_memory::Segment;
/// use syncline_sync::{Barrier, BarrierMember, Space, barrier::Counter};
///
/// let segment = Arc::new(Segment::shared(1 << 20)?);
/// // Two views, as two processes have them: the same requests give the same words.
/// // SAFETY: the segment is new, so it is zero, and nothing else uses it.
/// let mut views = unsafe { [Space::segment(Arc::clone(&segment))?, Space::segment(segment)?] };
/// let [a, b] = views.each_mut().map(|view| Counter::within(view, 2).unwrap());
/// let (mut one, mut two) = (a.member(0)?, b.member(1)?);
/// one.arrive()?;
/// two.wait()?;
/// assert!(one.done()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Space {
    region: Option<Region>,
    /// The member that owns this view, and the generation of its process.
    owner: Option<(usize, Generation)>,
    /// The notes of the team whose waits end if views differ.
    calls: Option<Calls>,
    /// The thing that arrays are allocated for.
    thing: Option<Thing>,
    /// The number of things that this view has made.
    things: u32,
}

/// A space whose arrays are allocated for a thing: see [`Space::making`].
#[derive(Debug)]
pub struct Making<'a> {
    space: &'a mut Space,
    before: Option<Thing>,
}

impl Deref for Making<'_> {
    type Target = Space;

    fn deref(&self) -> &Space {
        self.space
    }
}

impl DerefMut for Making<'_> {
    fn deref_mut(&mut self) -> &mut Space {
        self.space
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.space.thing = self.before;
    }
}

#[derive(Clone, Debug)]
struct Region {
    segment: Arc<Segment>,
    /// The offset of the first free byte.
    cursor: usize,
    /// The number of allocations so far.
    count: usize,
    /// The bytes committed since the last check of the host's free memory.
    unlooked: usize,
    /// A difference that this view has found: from that position on, offsets differ between views.
    differs: Option<Difference>,
}

/// The granularity of commits, in bytes.
const STEP: usize = 64 << 10;
/// The number of bytes committed between two checks of the host's free memory.
const LOOK: usize = 1 << 20;

impl Space {
    /// Creates a space whose arrays are allocated on the heap of this process.
    #[must_use]
    pub fn heap() -> Space {
        Space { region: None, owner: None, calls: None, thing: None, things: 0 }
    }

    /// Creates a view of a segment, whose arrays are allocated in it one after the other.
    ///
    /// # Safety
    /// The segment must have been zero when the first view of it was made, and must be accessed
    /// only by views, in programs that use the same version of this crate.
    ///
    /// # Errors
    /// [`SpaceError::Full`] if the segment is too small for the ledger.
    pub unsafe fn segment(segment: Arc<Segment>) -> Result<Space, SpaceError> {
        let mut region = Region { segment, cursor: 0, count: 0, unlooked: 0, differs: None };
        let bytes = WORDS * size_of::<AtomicU64>();
        let start = region.take(bytes, ALIGN)?;
        region.segment.commit(start..start + bytes).map_err(|_| no_memory(bytes))?;
        Ok(Space { region: Some(region), owner: None, calls: None, thing: None, things: 0 })
    }

    /// Returns the same view, owned by a member of this process: a child made by `fork` gets no
    /// arrays from it.
    #[must_use]
    pub fn of_member(self, rank: usize) -> Space {
        Space { owner: Some((rank, Generation::current())), ..self }
    }

    /// Returns the same view; if it differs from another view, the waits of the members in `calls`
    /// end.
    #[must_use]
    pub fn telling(self, calls: &Calls) -> Space {
        Space { calls: Some(calls.clone()), ..self }
    }

    /// Returns the same view, which allocates arrays for `thing` until the result is dropped:
    /// messages about views that differ name the thing. Arrays for a part of a thing count as the
    /// whole thing. Without this, arrays are [memory](Thing::Memory).
    #[must_use]
    pub fn making(&mut self, thing: Thing) -> Making<'_> {
        let before = self.thing;
        self.things += u32::from(before.is_none());
        self.thing = before.or(Some(thing));
        Making { space: self, before }
    }

    /// Returns an identity for the thing that is being [made](Self::making).
    #[doc(hidden)]
    #[must_use]
    pub fn traced(&self) -> Traced {
        Traced::new(self.region.as_ref().map(|_| self.things.saturating_sub(1)))
    }

    /// Allocates an array of `len` values, all zero unless another view has the same array already.
    ///
    /// # Collective
    /// Views of one segment request the same arrays in the same order, for the same things.
    ///
    /// # Errors
    /// [`SpaceError::Full`] if the segment has no room left, [`SpaceError::Memory`] if the host has
    /// no memory left; [`SpaceError::Mismatch`] if another view made a different request at this
    /// position or an earlier one; [`SpaceError::Many`] if the ledger is full;
    /// [`SpaceError::Forked`] in a child of the [member](Self::of_member).
    pub fn array<T: Shared>(&mut self, len: usize) -> Result<Array<T>, SpaceError> {
        let array = self.reserve(len)?;
        if let Some(region) = &mut self.region {
            region.commit(array.bytes())?;
        }
        Ok(array)
    }

    /// Reserves an array as [`array`](Self::array) does, but without taking its memory from the
    /// system: a part of it must be [committed](Array::commit) before it is accessed.
    ///
    /// # Collective
    /// As [`array`](Self::array).
    ///
    /// # Errors
    /// As [`array`](Self::array).
    pub fn reserve<T: Shared>(&mut self, len: usize) -> Result<Array<T>, SpaceError> {
        if let Some((rank, generation)) = self.owner
            && !generation.is_current()
        {
            return Err(SpaceError::Forked { rank });
        }
        let Some(region) = &mut self.region else {
            return Array::heap(len);
        };
        let bytes = size_of::<T>().checked_mul(len);
        let rank = self.owner.map(|(rank, _)| rank);
        let thing = self.thing.unwrap_or(Thing::Memory);
        if let Err(error) = region.note::<T>(len, Asked::new(thing, rank, bytes)) {
            if let (SpaceError::Mismatch(difference), Some(calls)) = (&error, &self.calls) {
                calls.decide_difference(difference);
            }
            return Err(error);
        }
        let left = region.segment.len() - region.cursor;
        let bytes = bytes.ok_or(SpaceError::Full { asked: usize::MAX, left })?;
        let offset = region.take(bytes, align_of::<T>())?;
        let first = region.segment.as_ptr().wrapping_add(offset).cast::<T>().cast_const();
        Ok(Array { first, len, home: Home::Segment(Arc::clone(&region.segment)) })
    }
}

impl Region {
    /// Returns the aligned offset of the next `bytes` bytes.
    fn take(&mut self, bytes: usize, align: usize) -> Result<usize, SpaceError> {
        let start = self.cursor.next_multiple_of(ALIGN.max(align));
        let end = start.checked_add(bytes).filter(|&end| end <= self.segment.len());
        let left = self.segment.len().saturating_sub(start);
        self.cursor = end.ok_or(SpaceError::Full { asked: bytes, left })?;
        self.segment.open(self.cursor).map_err(|_| no_memory(bytes))?;
        Ok(start)
    }

    /// Takes the memory of an array from the system, unless another view has done so.
    fn commit(&mut self, bytes: Range<usize>) -> Result<(), SpaceError> {
        let asked = bytes.len();
        // Acquire: pairs with the Release below: the memory is there.
        let committed = self.word(COMMITTED).load(Ordering::Acquire);
        if bytes.end as u64 <= committed {
            return Ok(());
        }
        self.unlooked = self.unlooked.saturating_add(asked);
        if self.unlooked >= LOOK {
            if syncline_memory::room::left().is_some_and(|left| left < asked as u64)
                && !self.is_being_committed(bytes.end)
            {
                return Err(no_memory(asked));
            }
            self.unlooked = 0;
        }
        let start =
            bytes.start.max(usize::try_from(committed).unwrap_or(usize::MAX).min(bytes.end));
        let end =
            bytes.end.checked_next_multiple_of(STEP).unwrap_or(bytes.end).min(self.segment.len());
        self.segment.commit(start..end).map_err(|_| no_memory(asked))?;
        self.word(COMMITTED).fetch_max(end as u64, Ordering::Release);
        Ok(())
    }

    /// Returns whether another view of this array has just taken the memory that the host lacks;
    /// waits up to 1 s for it.
    fn is_being_committed(&self, end: usize) -> bool {
        (0..1000).any(|_| {
            let committed = self.word(COMMITTED).load(Ordering::Acquire) >= end as u64;
            if !committed {
                std::thread::sleep(Duration::from_millis(1));
            }
            committed
        })
    }

    /// Returns a word of the ledger.
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: `index` is less than `WORDS`. The segment begins with the ledger of `WORDS`
        // words, which is page-aligned, opened, and zero at first. All views access it only as
        // atomic words. The segment lives as long as `self`.
        unsafe { &*self.segment.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// Records a request in the ledger, or compares it with the recorded one.
    fn note<T>(&mut self, len: usize, asked: Asked) -> Result<(), SpaceError> {
        let place = self.count;
        let differs = self.differs.or_else(|| self.difference_up_to(place));
        if let Some(difference) = differs {
            return Err(SpaceError::Mismatch(difference));
        }
        if place == LEDGER {
            return Err(SpaceError::Many { most: LEDGER });
        }
        let entry = checksum(std::any::type_name::<T>(), asked.thing(), size_of::<T>(), len);
        self.count += 1;
        // Relaxed: the entry publishes nothing else.
        match self.word(place).compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed) {
            // Relaxed, here and below: neither do these words.
            Ok(_) => self.word(ASKED + place).store(asked.word(), Ordering::Relaxed),
            Err(other) if other != entry => {
                // Another view may have found an earlier difference, which then takes precedence.
                let number = place as u64 + 1;
                let found = self.word(DIFFERS);
                if found.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    self.word(SECOND).store(asked.word(), Ordering::Relaxed);
                }
                let own = || Difference { first: self.asked(ASKED + place), second: asked };
                let difference = self.difference_up_to(LEDGER).unwrap_or_else(own);
                self.differs = Some(difference);
                return Err(SpaceError::Mismatch(difference));
            }
            Err(_) => (),
        }
        Ok(())
    }

    /// Returns the first difference between views, if it is not after this position.
    fn difference_up_to(&self, place: usize) -> Option<Difference> {
        let number = self.word(DIFFERS).load(Ordering::Relaxed) as usize;
        let at = number.checked_sub(1).filter(|&at| at <= place && at < LEDGER)?;
        Some(Difference { first: self.asked(ASKED + at), second: self.asked(SECOND) })
    }

    /// Returns the request in that word of the ledger.
    fn asked(&self, index: usize) -> Asked {
        let word = || self.word(index).load(Ordering::Relaxed);
        // It is stored just after the word that led here: the other view is between the two stores,
        // or has died there.
        let written = (0..100).map(|_| word()).find(|&word| {
            if word == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            word != 0
        });
        Asked::of_word(written.unwrap_or(0))
    }
}

fn no_memory(asked: usize) -> SpaceError {
    let left =
        syncline_memory::room::left().map_or(0, |left| usize::try_from(left).unwrap_or(usize::MAX));
    SpaceError::Memory { asked, left }
}

/// Returns a checksum of a request (FNV-1a), which is not 0.
fn checksum(name: &str, thing: Option<Thing>, size: usize, len: usize) -> u64 {
    let numbers = [thing.map_or(0, |thing| thing as u64), size as u64, len as u64];
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
    let hash = name.bytes().chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// An array in a [`Space`]. A clone refers to the same array.
pub struct Array<T> {
    first: *const T,
    len: usize,
    /// The owner of the memory, which keeps the values in place.
    home: Home<T>,
}

enum Home<T> {
    Heap(Arc<[Stored<T>]>),
    Segment(Arc<Segment>),
}

/// The storage of arrays on the heap: zeroed lines, independent of the type of the values.
#[cfg(not(loom))]
type Stored<T> = Line<T>;
/// Under loom, an atomic is more than its bytes, so values are created as such.
#[cfg(loom)]
type Stored<T> = T;

/// A pair of lines, made of atomics as its contents change through shared references.
#[cfg(not(loom))]
#[repr(align(128))]
struct Line<T> {
    _words: [AtomicU64; ALIGN / size_of::<AtomicU64>()],
    _of: std::marker::PhantomData<T>,
}

impl<T: Shared> Array<T> {
    #[cfg(not(loom))]
    fn heap(len: usize) -> Result<Self, SpaceError> {
        const { assert!(align_of::<T>() <= ALIGN) };
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
        let lines = bytes.ok_or(SpaceError::Full { asked: usize::MAX, left: 0 })?.div_ceil(ALIGN);
        let line = |_| Line { _words: Default::default(), _of: std::marker::PhantomData };
        let lines: Arc<[Line<T>]> = (0..lines).map(line).collect();
        Ok(Array { first: lines.as_ptr().cast(), len, home: Home::Heap(lines) })
    }

    #[cfg(loom)]
    fn heap(len: usize) -> Result<Self, SpaceError> {
        let values: Arc<[T]> = (0..len).map(|_| T::default()).collect();
        Ok(Array { first: values.as_ptr(), len, home: Home::Heap(values) })
    }
}

// SAFETY: an array only gives out shared references, and `T` is `Sync` (see `Shared`). Its home is
// a reference count; the last drop, on any thread, frees values that need no drop, or unmaps a
// segment.
unsafe impl<T: Shared> Send for Array<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Shared> Sync for Array<T> {}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` is aligned and points to `len` values, which the home keeps alive and in
        // place: a slice on the heap, or a part of a segment. They were zero at first, which is a
        // valid value, and change only as `Shared` allows.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> Array<T> {
    /// Takes the memory of some values of a [reserved](Space::reserve) array from the system; the
    /// values stay unchanged.
    ///
    /// # Errors
    /// [`SpaceError::Memory`] if the host has none left.
    ///
    /// # Panics
    /// If the range is not inside the array.
    pub fn commit(&self, values: Range<usize>) -> Result<(), SpaceError> {
        let bytes = self.place(values);
        match &self.home {
            Home::Heap(_) => Ok(()),
            Home::Segment(segment) => {
                segment.commit(bytes.clone()).map_err(|_| no_memory(bytes.len()))
            }
        }
    }

    /// Returns the memory of some values to the system, as far as it consists of whole pages; these
    /// values are zero from then on. They must be committed again before they are accessed again.
    ///
    /// # Safety
    /// No reference to the values may be in use, and no code may rely on their contents.
    ///
    /// # Panics
    /// As [`commit`](Self::commit).
    pub unsafe fn give_back(&self, values: Range<usize>) {
        let bytes = self.place(values);
        if let Home::Segment(segment) = &self.home {
            // SAFETY: the caller guarantees that no reference to these values is in use and that no
            // code relies on their contents.
            unsafe { segment.give_back(bytes) };
        }
    }

    /// Returns some of the values as an array, which keeps the memory of all of them.
    ///
    /// # Panics
    /// As [`commit`](Self::commit).
    #[must_use]
    pub fn part(&self, values: Range<usize>) -> Array<T> {
        let first = &raw const self[values.clone()];
        Array { first: first.cast(), len: values.len(), ..self.clone() }
    }

    /// Returns the offsets of some values, in bytes: in the segment, or from the start of a heap
    /// array.
    fn place(&self, values: Range<usize>) -> Range<usize> {
        assert!(
            values.start <= values.end && values.end <= self.len,
            "values {values:?} of {}",
            self.len
        );
        let from = match &self.home {
            Home::Heap(_) => 0,
            Home::Segment(segment) => self.first.addr() - segment.as_ptr().addr(),
        };
        from + values.start * size_of::<T>()..from + values.end * size_of::<T>()
    }

    fn bytes(&self) -> Range<usize> {
        self.place(0..self.len)
    }

    /// Returns a handle to one value, whose access needs no bounds check.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    pub(crate) fn element(&self, index: usize) -> Element<T> {
        Element { at: &raw const self[index], _of: self.clone() }
    }
}

/// One value of an [`Array`]. A clone refers to the same value.
pub(crate) struct Element<T> {
    at: *const T,
    /// The owner of the memory, which keeps the value in place.
    _of: Array<T>,
}

// SAFETY: an element only gives out shared references, and `T` is `Sync` (see `Shared`); the array
// that keeps the value is `Send`.
unsafe impl<T: Shared> Send for Element<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Shared> Sync for Element<T> {}

impl<T> Deref for Element<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `at` was a reference into the array, whose values stay in place as long as `_of`
        // lives.
        unsafe { &*self.at }
    }
}

impl<T> Clone for Element<T> {
    fn clone(&self) -> Self {
        Element { at: self.at, _of: self._of.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Element<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        let home = match &self.home {
            Home::Heap(values) => Home::Heap(Arc::clone(values)),
            Home::Segment(segment) => Home::Segment(Arc::clone(segment)),
        };
        Array { first: self.first, len: self.len, home }
    }
}

impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let home = match self.home {
            Home::Heap(_) => "heap",
            Home::Segment(_) => "segment",
        };
        f.debug_struct("Array").field("len", &self.len).field("home", &home).finish()
    }
}
