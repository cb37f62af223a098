//! Put, get and accumulate of one-sided memory, in bytes.
//!
//! # Contract
//! Offsets, strides and counts are in bytes, as in ARMCI. A call whose arguments are detectably
//! wrong moves nothing. In a member's part, numbers that are added to must be at multiples of their
//! size; numbers in the program's memory need not be aligned.
//!
//! | shape      | in the member's part                    | in the program's memory               |
//! |------------|-----------------------------------------|---------------------------------------|
//! | contiguous | `bytes` from `offset` on                | `bytes` from `from` or `to` on        |
//! | `_strided` | from `offset` on, with strides `there`  | from `from` or `to`, strides `here`   |
//! | `_list`    | each segment: `bytes` from its offset   | each segment: `bytes` from its buffer |
//!
//! `start_...` starts the same operation and returns at once: `syncline_rma_wait` waits for it.
//!
//! # Costs
//! Those of the Rust operations, plus those under `rma`. A list is copied. See `operate`.

use std::ffi::c_void;

use crate::error::Status;
use crate::operate::{RmaSegment, There, When, Work, run, segments, strided};
use crate::rma::{Rma, RmaHandle, RmaMemory};

/// Writes bytes of the program's memory into the part of a member, from `offset` on. When it
/// returns, that memory may be reused; the write is visible to others after a fence, or a sync.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply; `memory` must be `NULL`, or come from
/// `syncline_rma_allocate`. `bytes` bytes must be valid for reads from `from` on, and must not
/// overlap the bytes that are written; no other thread may write them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_put(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    from: *const c_void,
    bytes: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(There { rma, memory, rank }, Work::Put, offset, from, bytes, When::Now) }
}

/// Reads bytes of the part of a member, from `offset` on, into the program's memory. When it
/// returns, they have arrived. They include all puts before a sync, or before a fence that this
/// member has synchronised with.
///
/// # Safety
/// The conditions of `syncline_rma_put` apply; `bytes` bytes must be valid for writes from `to` on,
/// and no other thread may use them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_get(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(There { rma, memory, rank }, Work::Get, offset, to, bytes, When::Now) }
}

/// Adds `*factor` times the numbers in the program's memory to the numbers in the part of a member.
/// `number` is a `syncline_rma_number`; `bytes` and `offset` must be multiples of its size. Each
/// number (each part of a complex number) is added atomically, so concurrent additions by several
/// members all count.
///
/// # Safety
/// The conditions of `syncline_rma_put` apply; `*factor` must be a number of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_accumulate(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    number: u32,
    factor: *const c_void,
    from: *const c_void,
    bytes: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        run(There { rma, memory, rank }, Work::Add(number, factor), offset, from, bytes, When::Now)
    }
}

/// Starts `syncline_rma_put`: the program's memory may be reused at once. A wait for `handle` ends
/// when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_put` apply. `handle` must be `NULL`, or valid for reads and
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_put(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    from: *const c_void,
    bytes: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(There { rma, memory, rank }, Work::Put, offset, from, bytes, When::Later(handle)) }
}

/// Starts `syncline_rma_get`, and returns at once. Wait for `handle` before reading the bytes;
/// `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_get` apply until the operation was waited for, or the function
/// of the member returns. `handle` must be `NULL`, or valid for reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_get(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { run(There { rma, memory, rank }, Work::Get, offset, to, bytes, When::Later(handle)) }
}

/// Starts `syncline_rma_accumulate`: the program's memory may be reused at once. A wait for
/// `handle` ends when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_accumulate` apply. `handle` must be `NULL`, or valid for reads
/// and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_accumulate(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    number: u32,
    factor: *const c_void,
    from: *const c_void,
    bytes: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        run(
            There { rma, memory, rank },
            Work::Add(number, factor),
            offset,
            from,
            bytes,
            When::Later(handle),
        )
    }
}

/// Writes a section of the program's memory into the part of a member. A section has `counts[0]`
/// contiguous bytes; `counts[1]` of such runs, with a stride of `there[0]` bytes in the part and of
/// `here[0]` in the program's memory; `counts[2]` of such groups, with strides of `there[1]` and
/// `here[1]`; and so on, for `levels` strides and `levels` + 1 counts. Runs that overlap in the
/// memory that is written are `SYNCLINE_STATUS_INVALID_ARGUMENT`.
///
/// # Safety
/// The conditions of `syncline_rma_put` apply to the bytes of the section; `there` and `here` must
/// have `levels` numbers, and `counts` one more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_put_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    there: *const usize,
    from: *const c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Put,
            offset,
            from,
            (there, here, counts, levels),
            When::Now,
        )
    }
}

/// Reads a section of the part of a member into the program's memory: see
/// `syncline_rma_put_strided`.
///
/// # Safety
/// The conditions of `syncline_rma_get` and of `syncline_rma_put_strided` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_get_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    there: *const usize,
    to: *mut c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Get,
            offset,
            to,
            (there, here, counts, levels),
            When::Now,
        )
    }
}

/// Adds `*factor` times the numbers of a section: see `syncline_rma_accumulate` and
/// `syncline_rma_put_strided`.
///
/// # Safety
/// The conditions of `syncline_rma_accumulate` and of `syncline_rma_put_strided` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_accumulate_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    number: u32,
    factor: *const c_void,
    there: *const usize,
    from: *const c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Add(number, factor),
            offset,
            from,
            (there, here, counts, levels),
            When::Now,
        )
    }
}

/// Starts `syncline_rma_put_strided`: the program's memory may be reused at once. A wait for
/// `handle` ends when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_put_strided` apply. `handle` must be `NULL`, or valid for reads
/// and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_put_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    there: *const usize,
    from: *const c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Put,
            offset,
            from,
            (there, here, counts, levels),
            When::Later(handle),
        )
    }
}

/// Starts `syncline_rma_get_strided`, and returns at once. Wait for `handle` before reading the
/// bytes; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_get_strided` apply until the operation was waited for, or the
/// function of the member returns. `handle` must be `NULL`, or valid for reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_get_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    there: *const usize,
    to: *mut c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Get,
            offset,
            to,
            (there, here, counts, levels),
            When::Later(handle),
        )
    }
}

/// Starts `syncline_rma_accumulate_strided`: the program's memory may be reused at once. A wait for
/// `handle` ends when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_accumulate_strided` apply. `handle` must be `NULL`, or valid for
/// reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_accumulate_strided(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    number: u32,
    factor: *const c_void,
    there: *const usize,
    from: *const c_void,
    here: *const usize,
    counts: *const usize,
    levels: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        strided(
            There { rma, memory, rank },
            Work::Add(number, factor),
            offset,
            from,
            (there, here, counts, levels),
            When::Later(handle),
        )
    }
}

/// Writes a list of segments into the part of a member.
///
/// # Safety
/// The conditions of `syncline_rma_put` apply to each segment; `list` must have `length` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_put_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { segments(There { rma, memory, rank }, Work::Put, list, length, When::Now) }
}

/// Reads a list of segments of the part of a member.
///
/// # Safety
/// The conditions of `syncline_rma_get` apply to each segment; `list` must have `length` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_get_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { segments(There { rma, memory, rank }, Work::Get, list, length, When::Now) }
}

/// Adds `*factor` times the numbers of a list of segments: see `syncline_rma_accumulate`.
///
/// # Safety
/// The conditions of `syncline_rma_accumulate` apply to each segment; `list` must have `length` of
/// them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_accumulate_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    number: u32,
    factor: *const c_void,
    list: *const RmaSegment,
    length: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        segments(There { rma, memory, rank }, Work::Add(number, factor), list, length, When::Now)
    }
}

/// Starts `syncline_rma_put_list`: the program's memory may be reused at once. A wait for `handle`
/// ends when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_put_list` apply. `handle` must be `NULL`, or valid for reads and
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_put_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { segments(There { rma, memory, rank }, Work::Put, list, length, When::Later(handle)) }
}

/// Starts `syncline_rma_get_list`, and returns at once. Wait for `handle` before reading the bytes;
/// `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_get_list` apply until the operation was waited for, or the
/// function of the member returns. `handle` must be `NULL`, or valid for reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_get_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { segments(There { rma, memory, rank }, Work::Get, list, length, When::Later(handle)) }
}

/// Starts `syncline_rma_accumulate_list`: the program's memory may be reused at once. A wait for
/// `handle` ends when the write is visible to all members; `NULL` is the implicit handle.
///
/// # Safety
/// The conditions of `syncline_rma_accumulate_list` apply. `handle` must be `NULL`, or valid for
/// reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_accumulate_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    number: u32,
    factor: *const c_void,
    list: *const RmaSegment,
    length: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        segments(
            There { rma, memory, rank },
            Work::Add(number, factor),
            list,
            length,
            When::Later(handle),
        )
    }
}
