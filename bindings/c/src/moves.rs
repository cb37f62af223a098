//! Put, get and accumulate of one-sided memory, in bytes.
//!
//! # Contract
//! Offsets, strides and counts are bytes, as in ARMCI. What can be seen to be wrong moves nothing. Numbers that are added
//! to stand at multiples of their size; the program's need not be aligned.
//!
//! | shape       | in the member's part                          | in the program's memory                   |
//! |-------------|-----------------------------------------------|-------------------------------------------|
//! | contiguous  | `bytes` from `offset` on                      | `bytes` from `from` or `to` on            |
//! | `_strided`  | from `offset` on, `there` apart               | from `from` or `to` on, `here` apart      |
//! | `_list`     | of each segment, `bytes` from its offset on   | of each segment, `bytes` from its buffer  |
//!
//! `start_...` does the same and returns at once: `syncline_rma_wait` waits.
//!
//! # Costs
//! Those in Rust, and what is said at `rma`. A list is copied. See `operate`.

use std::ffi::c_void;

use crate::error::Status;
use crate::operate::{RmaSegment, There, When, Work, run, segments, strided};
use crate::rma::{Rma, RmaHandle, RmaMemory};

/// Writes bytes of the program's memory into the part of a member: from `offset` on. When it returns, that memory may be
/// used again; what was written is seen by others after a fence, or a sync.
///
/// # Safety
/// That of `syncline_member_rma`; `memory` is `NULL`, or comes from `syncline_rma_allocate`.
/// `bytes` can be read from `from` on, and are not where they are written to; no other thread
/// writes them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_put(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    from: *const c_void,
    bytes: usize,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { run(There { rma, memory, rank }, Work::Put, offset, from, bytes, When::Now) }
}

/// Reads bytes of the part of a member, from `offset` on, into the program's memory. When it returns, they are there: what
/// was put before a sync, or before a fence of which this member knows.
///
/// # Safety
/// As `syncline_rma_put`; `bytes` can be written from `to` on, and nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_get(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    offset: usize,
    to: *mut c_void,
    bytes: usize,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { run(There { rma, memory, rank }, Work::Get, offset, to, bytes, When::Now) }
}

/// Adds `*factor` times numbers of the program's memory to numbers of the part of a member. `number` is one of
/// `syncline_rma_number`, of which `bytes` and `offset` are whole multiples. Each number is added in one step, of complex
/// ones each part; so those of several members all count.
///
/// # Safety
/// As `syncline_rma_put`; `*factor` is such a number.
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
    // SAFETY: as the caller vouches.
    unsafe {
        run(There { rma, memory, rank }, Work::Add(number, factor), offset, from, bytes, When::Now)
    }
}

/// Starts `syncline_rma_put`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_put`. `*handle` can be read and written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
    unsafe { run(There { rma, memory, rank }, Work::Put, offset, from, bytes, When::Later(handle)) }
}

/// Starts `syncline_rma_get`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_get`, until it has been waited for, or the function of the member returns. `*handle` can be read and
/// written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
    unsafe { run(There { rma, memory, rank }, Work::Get, offset, to, bytes, When::Later(handle)) }
}

/// Starts `syncline_rma_accumulate`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_accumulate`. `*handle` can be read and written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
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

/// Writes a section of the program's memory into the part of a member: `counts[0]` bytes side by side; `counts[1]` of such
/// runs, `there[0]` bytes apart in the part and `here[0]` in the program's memory, from beginning to beginning; `counts[2]`
/// of such groups, `there[1]` and `here[1]` apart; and so on, for `levels` distances and one more count. Runs that overlap
/// where they are written are `SYNCLINE_STATUS_INVALID_ARGUMENT`.
///
/// # Safety
/// As `syncline_rma_put`, for the bytes of the section; the arrays have as many numbers.
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
    // SAFETY: as the caller vouches.
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

/// Reads a section of the part of a member into the program's memory: see `syncline_rma_put_strided`.
///
/// # Safety
/// As `syncline_rma_get`, and `syncline_rma_put_strided`.
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
    // SAFETY: as the caller vouches.
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

/// Adds `*factor` times the numbers of a section: see `syncline_rma_accumulate` and `syncline_rma_put_strided`.
///
/// # Safety
/// As both.
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
    // SAFETY: as the caller vouches.
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

/// Starts `syncline_rma_put_strided`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_put_strided`. `*handle` can be read and written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
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

/// Starts `syncline_rma_get_strided`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_get_strided`, until it has been waited for, or the function of the member returns. `*handle` can be read and
/// written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
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

/// Starts `syncline_rma_accumulate_strided`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_accumulate_strided`. `*handle` can be read and written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
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

/// Writes a list of runs into the part of a member.
///
/// # Safety
/// As `syncline_rma_put`, for each segment; `list` has `length` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_put_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { segments(There { rma, memory, rank }, Work::Put, list, length, When::Now) }
}

/// Reads a list of runs of the part of a member.
///
/// # Safety
/// As `syncline_rma_get`, for each segment; `list` has `length` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_get_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { segments(There { rma, memory, rank }, Work::Get, list, length, When::Now) }
}

/// Adds `*factor` times the numbers of a list of runs: see `syncline_rma_accumulate`.
///
/// # Safety
/// As `syncline_rma_accumulate`, for each segment; `list` has `length` of them.
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
    // SAFETY: as the caller vouches.
    unsafe {
        segments(There { rma, memory, rank }, Work::Add(number, factor), list, length, When::Now)
    }
}

/// Starts `syncline_rma_put_list`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_put_list`. `*handle` can be read and written, if it is not `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_put_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { segments(There { rma, memory, rank }, Work::Put, list, length, When::Later(handle)) }
}

/// Starts `syncline_rma_get_list`, and returns at once. `handle` is waited for, or `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_get_list`, until it has been waited for, or the function of the member returns. `*handle` can be read and
/// written, if it is not `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_start_get_list(
    rma: *mut Rma,
    memory: *const RmaMemory,
    rank: usize,
    list: *const RmaSegment,
    length: usize,
    handle: *mut RmaHandle,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { segments(There { rma, memory, rank }, Work::Get, list, length, When::Later(handle)) }
}

/// Starts `syncline_rma_accumulate_list`: the program's memory may be used again at once. `handle` is waited for until what was
/// written is there for all to see; `NULL`: the implicit one.
///
/// # Safety
/// As `syncline_rma_accumulate_list`. `*handle` can be read and written, if it is not `NULL`.
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
    // SAFETY: as the caller vouches.
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
