//! The read-modify-writes of one word, or of a pair.

use std::sync::Arc;

use crate::element::Element;
use crate::engine::{Data, Request};
use crate::error::RmaError;
use crate::handle::{Handle, HandleState};
use crate::memory::{Global, MemberPart, Table};
use crate::message::{self, RequestKind};
use crate::rma::Rma;
use crate::rmw::Rmw;
use crate::shape::Piece;

/// Words for atomic read-modify-writes: `u32`, `i32`, `u64`, `i64`, and pairs of 8 bytes each,
/// which are aligned to 16 bytes.
pub trait Word: Element + sealed::Sealed {
    #[doc(hidden)]
    fn swap_with(self) -> sealed::Step;
    #[doc(hidden)]
    fn compare_swap_with(self, new: Self) -> sealed::Step;
    #[doc(hidden)]
    fn of(found: u128) -> Self;
}

/// Words that support atomic addition.
pub trait AddWord: Word {
    #[doc(hidden)]
    fn add_of(self) -> sealed::Step;
}

/// A pair of words, for example a rank and an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
pub struct Pair(pub u64, pub u64);

pub(crate) mod sealed {
    /// The trait is sealed: both ends of a message must know each type of word.
    pub trait Sealed {}

    /// A read-modify-write of a word.
    #[derive(Clone, Copy, Debug)]
    pub struct Step(pub(crate) crate::rmw::Rmw);
}

use sealed::Step;

macro_rules! words {
    ($($word:ty, $bits:ty, $swap:ident, $compare:ident, $add:ident);*) => {$(
        impl sealed::Sealed for $word {}

        impl Word for $word {
            #[inline]
            fn swap_with(self) -> Step {
                Step(Rmw::$swap(self as $bits))
            }

            #[inline]
            fn compare_swap_with(self, new: Self) -> Step {
                Step(Rmw::$compare(self as $bits, new as $bits))
            }

            #[inline]
            fn of(found: u128) -> Self {
                found as $bits as $word
            }
        }

        impl AddWord for $word {
            #[inline]
            fn add_of(self) -> Step {
                Step(Rmw::$add(self as $bits))
            }
        }
    )*};
}

words! {
    u32, u32, Swap32, CompareSwap32, Add32;
    i32, u32, Swap32, CompareSwap32, Add32;
    u64, u64, Swap64, CompareSwap64, Add64;
    i64, u64, Swap64, CompareSwap64, Add64
}

impl sealed::Sealed for Pair {}

impl Pair {
    fn bits(self) -> u128 {
        u128::from(self.0) | u128::from(self.1) << 64
    }
}

impl Word for Pair {
    fn swap_with(self) -> Step {
        Step(Rmw::SwapPair(self.bits()))
    }

    fn compare_swap_with(self, new: Self) -> Step {
        Step(Rmw::CompareSwapPair(self.bits(), new.bits()))
    }

    fn of(found: u128) -> Self {
        Pair(found as u64, (found >> 64) as u64)
    }
}

impl Rma {
    /// Adds to a word of a member's part, and returns the previous value.
    ///
    /// # One-sided
    /// As [`put`](Self::put).
    ///
    /// # Memory ordering
    /// Acquire and release, with other read-modify-writes of the same word. It is performed in the
    /// order of this member's other operations on that host. Operations on other hosts may be
    /// performed later, unless there is a fence between.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn fetch_add<T: AddWord>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        value: T,
    ) -> Result<T, RmaError> {
        self.step_now(memory, rank, index, value.add_of())
    }

    /// Replaces a word of a member's part, and returns the previous value. Like
    /// [`fetch_add`](Self::fetch_add).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn swap<T: Word>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        value: T,
    ) -> Result<T, RmaError> {
        self.step_now(memory, rank, index, value.swap_with())
    }

    /// Replaces a word of a member's part if it equals `old`, and returns the previous value. Like
    /// [`fetch_add`](Self::fetch_add).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn compare_swap<T: Word>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        old: T,
        new: T,
    ) -> Result<T, RmaError> {
        self.step_now(memory, rank, index, old.compare_swap_with(new))
    }

    /// Performs a read-modify-write, without a handle if the word is on the own host. Inlined, so
    /// that the compiler specialises it for the operation.
    #[inline(always)]
    fn step_now<T: Word>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        step: Step,
    ) -> Result<T, RmaError> {
        let (part, at) = self.part(memory, rank, index, 1)?;
        if !part.address.is_null() {
            self.stored = true;
            // SAFETY: as in `step` and `step_at`.
            return Ok(T::of(unsafe { step.0.apply(part.address.add(at)) }));
        }
        let handle = self.step(memory, rank, index, step)?;
        self.wait(handle)
    }

    #[inline(never)]
    pub(crate) fn step<T: Word>(
        &mut self,
        memory: &Global<T>,
        rank: usize,
        index: usize,
        Step(rmw): Step,
    ) -> Result<Handle<T>, RmaError> {
        let (part, at) = self.part(memory, rank, index, 1)?;
        // SAFETY: the word is inside the part, as `part` has checked, and `at` is a multiple of its
        // size.
        unsafe { self.step_at(&memory.table, rank, part, at, Step(rmw)) }
    }

    /// Starts a read-modify-write of the word at the offset `at` in bytes.
    ///
    /// # Safety
    /// A word of the type of `step` must be inside the part at `at`, and `at` must be a multiple of
    /// its size.
    pub(crate) unsafe fn step_at<T: Word>(
        &mut self,
        table: &Table,
        rank: usize,
        part: MemberPart,
        at: usize,
        Step(rmw): Step,
    ) -> Result<Handle<T>, RmaError> {
        if !part.address.is_null() {
            self.stored = true;
            // SAFETY: the word is inside the part and aligned: the caller guarantees that `at` is a
            // multiple of its size (see `# Safety`), and parts are aligned for all words. Parts are
            // shared memory.
            return Ok(Handle::done(T::of(unsafe { rmw.apply(part.address.add(at)) })));
        }
        let (server, allocation) = (self.server_of(rank), table.id);
        let far = self.far();
        let ticket = far.engine.ask([Vec::new()].into());
        let engine = Some(Arc::clone(&far.engine));
        let finish = |result: &mut Option<T>, value| *result = Some(T::of(value));
        let handle = Handle { state: HandleState::Asked(ticket), result: None, engine, finish };
        let (detail, operands) = rmw.words();
        let piece = Piece { offset: at as u64, len: rmw.size() as u32, count: 1, stride: 0 };
        let request = Request {
            detail,
            allocation,
            rank,
            ticket,
            pieces: &[piece],
            ..Request::new(RequestKind::Rmw)
        };
        let write = |message: &mut Vec<u8>| {
            operands.iter().for_each(|&word| message::push(message, word));
        };
        far.request(server, request, 32, Data::Within(&write))?;
        Ok(handle)
    }
}
