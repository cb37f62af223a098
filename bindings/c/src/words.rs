//! Read-modify-writes of words in one-sided memory.
//!
//! # Contract
//! Each operation is atomic with respect to all others of this module and to accumulates, from any
//! member on any host. A word must be at a multiple of its size, a pair at a multiple of 16. An
//! operation acquires and releases: writes that another member made before its operation on the
//! same word are visible after this one, on one host; between hosts, after a fence of that member.
//! Each operation is complete when it returns, so none has a handle.

use syncline_rma::{Global, Pair, RmaError};

use crate::error::{Error, Status, Zero, call, out};
use crate::rma::{Alive, Rma, RmaMemory, with};

/// Two words that are read and changed together, for example a rank and an address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaPair {
    /// The word at the lower address.
    pub first: u64,
    /// The word at the higher address.
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
/// The conditions of `syncline_rma_fetch_add_i32` apply.
unsafe fn step<T, C: From<T> + Zero>(
    rma: *mut Rma,
    memory: *const RmaMemory,
    before: *mut C,
    work: impl FnOnce(&mut syncline_rma::Rma, &Global<u8>) -> Result<T, RmaError>,
) -> Status {
    let step = |alive: &mut Alive| {
        // SAFETY: the caller guarantees that `memory` is `NULL`, or was given to C, with its shell
        // still there.
        let (rma, memory) = unsafe { alive.memory(rma, memory) }?;
        Ok::<T, Error>(work(rma, memory)?)
    };
    call(|| {
        // SAFETY: the caller guarantees that a non-null `before` is valid for writes.
        let before = unsafe { out(before, "before") }?;
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        before.write(unsafe { with(rma, step) }?.into());
        Ok(())
    })
}

/// Adds to the word at `offset` bytes of the part of a member. Stores the word's value before the
/// addition in `*before`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply; `memory` must be `NULL`, or come from
/// `syncline_rma_allocate`. `*before` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fetch_add_i32(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i32,
    before: *mut i32,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.fetch_add_at::<i32>(memory, rank, offset, value)
        })
    }
}

/// Like `syncline_rma_fetch_add_i32`, for words of 8 bytes.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fetch_add_i64(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i64,
    before: *mut i64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.fetch_add_at::<i64>(memory, rank, offset, value)
        })
    }
}

/// Replaces a word of the part of a member. Stores its old value in `*before`.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_i32(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i32,
    before: *mut i32,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| rma.swap_at::<i32>(memory, rank, offset, value))
    }
}

/// Like `syncline_rma_swap_i32`, for words of 8 bytes.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_i64(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: i64,
    before: *mut i64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| rma.swap_at::<i64>(memory, rank, offset, value))
    }
}

/// Replaces a pair of words of the part of a member. Stores its old value in `*before`.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_swap_pair(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    value: RmaPair,
    before: *mut RmaPair,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.swap_at::<Pair>(memory, rank, offset, value.into())
        })
    }
}

/// Replaces a word of the part of a member by `new` if it equals `old`. Stores the value it had in
/// `*before`.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
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
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<i32>(memory, rank, offset, old, new)
        })
    }
}

/// Like `syncline_rma_compare_swap_i32`, for words of 8 bytes.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
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
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<i64>(memory, rank, offset, old, new)
        })
    }
}

/// Replaces a pair of words of the part of a member by `new` if it equals `old`. Stores the value
/// it had in `*before`.
///
/// # Safety
/// The conditions of `syncline_rma_fetch_add_i32` apply.
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
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        step(rma, memory, before, |rma, memory| {
            rma.compare_swap_at::<Pair>(memory, rank, offset, old.into(), new.into())
        })
    }
}
