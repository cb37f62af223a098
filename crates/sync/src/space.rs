//! Where the words of barriers and locks stand: on the heap, or in a segment that processes share.
//!
//! # Contract
//! A [`Space`] hands out arrays of words, all zero at first, which for every type here is the state before anything has
//! happened. So nobody initialises anything, and nobody waits until somebody has.
//!
//! ```text
//! segment   | ledger: two words per allocation | array 0 | array 1 | ...
//!           |  what, how many; which member    |         |         |
//!
//! every view of it, in every process, has a cursor of its own
//! ```
//!
//! On the heap each array is an allocation of its own. In a segment arrays follow one another, at
//! places that depend only on what was asked for before; so all views that ask for the same things
//! in the same order get the same words, without a message. The ledger holds what was asked for,
//! and by which member. A view that asks for something else is told; so is every view that comes to
//! that place or is past it and asks for anything, and the members of the team, if it is one. What
//! stands before that place is the same for all: a view that comes late gets it.
//!
//! All the `unsafe` of arrays is in this file.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::time::Duration;

use syncline_memory::Segment;
use syncline_process::Generation;
use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{PaddedSignal, Signal, death::DeathWord};

use crate::agreement::{Asked, Difference, Thing};
use crate::calls::Calls;
use crate::error::SpaceError;

/// Types of which all bytes zero are the value that `Default` makes, and which processes may share.
///
/// # Safety
/// All bytes zero are a valid value, the same as `Default::default()`. The type has no pointers, holds nothing that is
/// meaningful in one process only, and needs no drop. It is changed through shared references by atomic operations only,
/// or its users keep others away while they change it.
pub unsafe trait Shared: Default + Sync + 'static {}

// SAFETY: a word; 0 is the number 0 with nobody asleep.
unsafe impl Shared for Signal {}
// SAFETY: as the signal in it.
unsafe impl Shared for PaddedSignal {}
// SAFETY: a word; 0 says that all live.
unsafe impl Shared for DeathWord {}
// SAFETY: a word.
unsafe impl Shared for AtomicU64 {}

/// Arrays are aligned to this, so that no two share a line, nor a pair of lines that are fetched together.
const ALIGN: usize = 128;
/// How many allocations a segment can have.
const LEDGER: usize = 16384;

/// The words at the beginning of a segment: an entry for each allocation; then the first byte that
/// is not committed, but for what was reserved; the number of the allocation at which views differ,
/// from 1, and what the second view asked for there; and what the first one asked for, by
/// allocation.
const COMMITTED: usize = LEDGER;
const DIFFERS: usize = LEDGER + 1;
const SECOND: usize = LEDGER + 2;
const ASKED: usize = LEDGER + 3;
const WORDS: usize = ASKED + LEDGER;

/// A source of zeroed words for barriers and locks.
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
    /// The member whose view it is, and the process that has that member.
    owner: Option<(usize, Generation)>,
    /// The members that are told if views differ.
    calls: Option<Calls>,
    /// What arrays are made for.
    thing: Option<Thing>,
}

/// A space whose arrays are made for some thing: see [`Space::making`].
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
    /// The first byte that is free.
    cursor: usize,
    /// Allocations so far.
    count: usize,
    /// Bytes that were committed since the last look at what the host has left.
    unlooked: usize,
    /// Where this view has found that another one asked for something else: from there on places
    /// differ.
    differs: Option<Difference>,
}

/// Memory is committed in steps of this many bytes at least.
const STEP: usize = 64 << 10;
/// Bytes that are committed between two looks at what the host has left.
const LOOK: usize = 1 << 20;

impl Space {
    /// Every array on the heap of this process.
    #[must_use]
    pub fn heap() -> Space {
        Space { region: None, owner: None, calls: None, thing: None }
    }

    /// Arrays one after the other in a segment.
    ///
    /// # Safety
    /// The segment was zero when the first view of it was made, and is used by nothing but views, in programs that have the
    /// same version of this crate.
    ///
    /// # Errors
    /// [`SpaceError::Full`] if the segment is too small for anything.
    pub unsafe fn segment(segment: Arc<Segment>) -> Result<Space, SpaceError> {
        let mut region = Region { segment, cursor: 0, count: 0, unlooked: 0, differs: None };
        let bytes = WORDS * size_of::<AtomicU64>();
        let start = region.take(bytes, ALIGN)?;
        region.segment.commit(start..start + bytes).map_err(|_| no_memory(bytes))?;
        Ok(Space { region: Some(region), owner: None, calls: None, thing: None })
    }

    /// The same view, as that of a member of this process: a child that `fork` makes of the process
    /// gets no arrays from it.
    #[must_use]
    pub fn of_member(self, rank: usize) -> Space {
        Space { owner: Some((rank, Generation::current())), ..self }
    }

    /// The same view; if it differs from another one, the waits of the members that have these
    /// notes end.
    #[must_use]
    pub fn telling(self, calls: &Calls) -> Space {
        Space { calls: Some(calls.clone()), ..self }
    }

    /// The same view, which makes its arrays for a thing until the result is dropped: messages
    /// about views that differ name the thing. What is made for a part of a thing counts as the
    /// whole. Without this, arrays are [memory](Thing::Memory).
    #[must_use]
    pub fn making(&mut self, thing: Thing) -> Making<'_> {
        let before = self.thing;
        self.thing = before.or(Some(thing));
        Making { space: self, before }
    }

    /// An array of `len` values, all zero unless others have the same array already.
    ///
    /// # Collective
    /// Views of one segment ask for the same arrays in the same order, for the same things.
    ///
    /// # Errors
    /// [`SpaceError::Full`] if the segment has no room left, [`SpaceError::Memory`] if the host has
    /// not; [`SpaceError::Mismatch`] if another view asked for something else at this place or at
    /// an earlier one; [`SpaceError::Forked`] in a child of the [member](Self::of_member).
    pub fn array<T: Shared>(&mut self, len: usize) -> Result<Array<T>, SpaceError> {
        let array = self.reserve(len)?;
        if let Some(region) = &mut self.region {
            region.commit(array.bytes())?;
        }
        Ok(array)
    }

    /// The same, whose memory is not taken from the system yet: a part of it is
    /// [committed](Array::commit) before it is touched.
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
    /// The offset of the next `bytes`, which are aligned.
    fn take(&mut self, bytes: usize, align: usize) -> Result<usize, SpaceError> {
        let start = self.cursor.next_multiple_of(ALIGN.max(align));
        let end = start.checked_add(bytes).filter(|&end| end <= self.segment.len());
        let left = self.segment.len().saturating_sub(start);
        self.cursor = end.ok_or(SpaceError::Full { asked: bytes, left })?;
        self.segment.open(self.cursor).map_err(|_| no_memory(bytes))?;
        Ok(start)
    }

    /// Takes the memory of an array from the system, unless another view of it has.
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

    /// Whether the memory that the host has not left is what another view of this array has just
    /// taken.
    fn is_being_committed(&self, end: usize) -> bool {
        (0..1000).any(|_| {
            let committed = self.word(COMMITTED).load(Ordering::Acquire) >= end as u64;
            if !committed {
                std::thread::sleep(Duration::from_millis(1));
            }
            committed
        })
    }

    /// A word of the ledger.
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: the ledger is the first thing in the segment: `WORDS` words, page-aligned, zero
        // at first, opened, in use as nothing else by any view; the segment lives as long as
        // `self`.
        unsafe { &*self.segment.as_ptr().cast::<AtomicU64>().add(index) }
    }

    /// Enters what is asked for into the ledger, or compares it with what is there.
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
        // Relaxed: the entry stands for itself.
        match self.word(place).compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed) {
            // Relaxed, here and below: so do these words.
            Ok(_) => self.word(ASKED + place).store(asked.word(), Ordering::Relaxed),
            Err(other) if other != entry => {
                // Another view may have found a difference just before; then that is told.
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

    /// Where views have been found to differ first, if that is no later than at this place.
    fn difference_up_to(&self, place: usize) -> Option<Difference> {
        let number = self.word(DIFFERS).load(Ordering::Relaxed) as usize;
        let at = number.checked_sub(1).filter(|&at| at <= place && at < LEDGER)?;
        Some(Difference { first: self.asked(ASKED + at), second: self.asked(SECOND) })
    }

    /// What a view has asked for, as that word of the ledger says.
    fn asked(&self, index: usize) -> Asked {
        let word = || self.word(index).load(Ordering::Relaxed);
        // It is written just after the word that led here: the other view is between the two, or
        // has died there.
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

/// What was asked for, as a number that is not 0 (FNV-1a).
fn checksum(name: &str, thing: Option<Thing>, size: usize, len: usize) -> u64 {
    let numbers = [thing.map_or(0, |thing| thing as u64), size as u64, len as u64];
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes());
    let hash = name.bytes().chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

/// An array in a [`Space`]. A clone is the same array.
pub struct Array<T> {
    first: *const T,
    len: usize,
    /// What keeps the values where they are.
    home: Home<T>,
}

enum Home<T> {
    Heap(Arc<[Stored<T>]>),
    Segment(Arc<Segment>),
}

/// What arrays on the heap are made of: zeroed lines, whatever stands in them.
#[cfg(not(loom))]
type Stored<T> = Line<T>;
/// Loom's words are more than bytes.
#[cfg(loom)]
type Stored<T> = T;

/// A pair of lines, of atomics because what stands here is changed through shared references.
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

// SAFETY: an array is a shared reference to values that are `Sync` (`Shared` says so), and something that keeps
// them: a count, whose drop on whatever thread frees values that need none, or unmaps a segment.
unsafe impl<T: Shared> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Array<T> {}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` and `len` are an array that the home keeps alive and in place: a slice on the heap; or a part
        // of a segment, aligned, inside it, zero at first, which is a value, and changed as `Shared` says.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> Array<T> {
    /// Takes the memory of some values of an array that was [reserved](Space::reserve); they stay
    /// as they are.
    ///
    /// # Errors
    /// [`SpaceError::Memory`] if there is none.
    ///
    /// # Panics
    /// If they are not all in the array.
    pub fn commit(&self, values: Range<usize>) -> Result<(), SpaceError> {
        let bytes = self.place(values);
        match &self.home {
            Home::Heap(_) => Ok(()),
            Home::Segment(segment) => {
                segment.commit(bytes.clone()).map_err(|_| no_memory(bytes.len()))
            }
        }
    }

    /// Gives the memory of some values back to the system, as far as it is whole pages: those are
    /// zero from then on. To be touched again they are committed again.
    ///
    /// # Safety
    /// No reference to the values is left, and no code relies on what they are.
    ///
    /// # Panics
    /// As [`commit`](Self::commit).
    pub unsafe fn give_back(&self, values: Range<usize>) {
        let bytes = self.place(values);
        if let Home::Segment(segment) = &self.home {
            // SAFETY: as the caller vouches.
            unsafe { segment.give_back(bytes) };
        }
    }

    /// Where some values stand in the segment.
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

    /// One of the values, by itself: to reach it costs no look at the length.
    ///
    /// # Panics
    /// If there is none with that number.
    pub(crate) fn element(&self, index: usize) -> Element<T> {
        Element { at: &raw const self[index], _of: self.clone() }
    }
}

/// One value of an [`Array`]. A clone is the same value.
pub(crate) struct Element<T> {
    at: *const T,
    /// What keeps it where it is.
    _of: Array<T>,
}

// SAFETY: a shared reference to a value that is `Sync` (`Shared` says so), and the array that keeps it.
unsafe impl<T: Shared> Send for Element<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Element<T> {}

impl<T> Deref for Element<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `at` was a reference into the array, whose values stay where they are as long as it lives.
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
