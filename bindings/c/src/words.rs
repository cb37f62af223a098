//! Read-modify-writes of words in one-sided memory.
//!
//! # Contract
//! Each is one step with respect to all others, whoever does them. A word stands at a multiple of its size, a pair of 16.
//! They acquire and release, with others to the same word. What is under way is not seen: they return when they are done.

use syncline_rma::{Global, Pair, RmaError};

use crate::error::{Error, Status, Zero, call, out};
use crate::rma::{Alive, Rma, RmaMemory, with};

/// Two words that are read and changed together: a rank and an address, say.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaPair {
    /// The word that stands first.
    pub first: u64,
    /// The word behind it.
    pub second: u64,
}

impl Zero for RmaPair {
    const ZERO: Self = RmaPair { first: 0, second: 0 };
}

impl From<RmaPair> for Pair {
    fn from(RmaPair { first, second }: RmaPair) -> Pair {
        Pair(first, second)
    }
}

impl From<Pair> for RmaPair {
    fn from(Pair(first, second): Pair) -> RmaPair {
        RmaPair { first, second }
    }
}

/// # Safety
/// As `syncline_rma_fetch_add_i32`.
unsafe fn step<T, C: From<T> + Zero>(
    rma: *mut Rma,
    memory: *const RmaMemory,
    before: *mut C,
    work: impl FnOnce(&mut syncline_rma::Rma, &Global<u8>) -> Result<T, RmaError>,
) -> Status {
    let step = |alive: &mut Alive| {
        // SAFETY: as the caller vouches.
        let (rma, memory) = unsafe { alive.memory(rma, memory) }?;
        Ok::<T, Error>(work(rma, memory)?)
    };
    call(|| {
        // SAFETY: as the caller vouches.
        let before = unsafe { out(before, "before") }?;
        // SAFETY: as the caller vouches.
        before.write(unsafe { with(rma, step) }?.into());
        Ok(())
    })
}

/// Adds to a word of the part of a member, at `offset` bytes; `*before` is what was there.
///
/// # Safety
/// That of `syncline_member_rma`; `memory` is `NULL`, or comes from `syncline_rma_allocate`.
/// `*before` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fetch_add_i32(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i32,
    before: *mut i32,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.fetch_add_at::<i32>(memory, rank, offset, value)
        })
    }
}

/// As `syncline_rma_fetch_add_i32`, for words of 8 bytes.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fetch_add_i64(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i64,
    before: *mut i64,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.fetch_add_at::<i64>(memory, rank, offset, value)
        })
    }
}

/// Replaces a word of the part of a member; `*before` is what was there.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_i32(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i32,
    before: *mut i32,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| rma.swap_at::<i32>(memory, rank, offset, value))
    }
}

/// As `syncline_rma_swap_i32`, for words of 8 bytes.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_i64(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i64,
    before: *mut i64,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| rma.swap_at::<i64>(memory, rank, offset, value))
    }
}

/// Replaces a pair of words of the part of a member; `*before` is what was there.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_pair(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: RmaPair,
    before: *mut RmaPair,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.swap_at::<Pair>(memory, rank, offset, value.into())
        })
    }
}

/// Replaces a word of the part of a member if it is `old`; `*before` is what was there.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_compare_swap_i32(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    old: i32,
    new: i32,
    before: *mut i32,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<i32>(memory, rank, offset, old, new)
        })
    }
}

/// As `syncline_rma_compare_swap_i32`, for words of 8 bytes.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_compare_swap_i64(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    old: i64,
    new: i64,
    before: *mut i64,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<i64>(memory, rank, offset, old, new)
        })
    }
}

/// Replaces a pair of words of the part of a member if it is `old`; `*before` is what was there.
///
/// # Safety
/// As `syncline_rma_fetch_add_i32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_compare_swap_pair(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    old: RmaPair,
    new: RmaPair,
    before: *mut RmaPair,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<Pair>(memory, rank, offset, old.into(), new.into())
        })
    }
}
