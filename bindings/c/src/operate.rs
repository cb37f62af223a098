//! The common implementation of the functions in `moves`: one operation on bytes, blocking or
//! started.

use std::ffi::c_void;

use syncline_rma::{
    Global, RmaError, Strided,
    element::{Complex, Number},
    raw::{Bytes, Pending},
};

use crate::error::{Error, Status, array, call, present};
use crate::rma::{Alive, Rma, RmaHandle, RmaMemory, idle, with};

/// The type of the numbers that an accumulate adds. Integers wrap around and floats round as their
/// type does; a complex number is two numbers, the real part first.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmaNumber {
    /// `int32_t`.
    I32 = 0,
    /// `int64_t`.
    I64 = 1,
    /// `float`.
    F32 = 2,
    /// `double`.
    F64 = 3,
    /// `float complex`.
    C32 = 4,
    /// `double complex`.
    C64 = 5,
}

impl RmaNumber {
    fn of(number: u32) -> Result<Self, Error> {
        use RmaNumber::{C32, C64, F32, F64, I32, I64};
        let known = [I32, I64, F32, F64, C32, C64].into_iter().find(|&kind| kind as u32 == number);
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_rma_number {number}")))
    }
}

/// One segment of a list: bytes in a member's part, and in the program's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaSegment {
    /// The offset of the bytes in the part.
    pub offset: usize,
    /// The address of the bytes in the program's memory. Only a get writes to it.
    pub buffer: *mut c_void,
    /// The number of bytes.
    pub bytes: usize,
}

/// The operation on the bytes.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Put,
    Get,
    /// A `syncline_rma_number`, and the address of the factor.
    Add(u32, *const c_void),
}

/// The completion of an operation: before the call returns, or later, under a handle or the
/// implicit one.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Now,
    Later(*mut RmaHandle),
}

/// One member's part of a memory: the rma, the memory, and the rank of the member.
#[derive(Clone, Copy)]
pub(crate) struct There {
    pub(crate) rma: *mut Rma,
    pub(crate) memory: *const RmaMemory,
    pub(crate) rank: usize,
}

/// # Safety
/// The conditions of `syncline_rma_accumulate` apply.
unsafe fn add<T: Number>(
    rma: &mut syncline_rma::Rma,
    (memory, rank, bytes): (&Global<u8>, usize, Bytes<'_>),
    factor: *const c_void,
    from: *const u8,
) -> Result<(), RmaError> {
    // SAFETY: the caller guarantees that `*factor` is a `T`, read unaligned, and that the bytes of
    // the section are valid for reads from `from` on.
    unsafe {
        let factor = factor.cast::<T>().read_unaligned();
        rma.accumulate_from(memory, rank, bytes, factor, from)
    }
}

/// # Safety
/// The conditions of the C function that calls it apply.
#[inline]
unsafe fn operate(
    There { rma, memory, rank }: There,
    work: Work,
    bytes: Bytes<'_>,
    buffer: *mut u8,
    when: When,
) -> Result<(), Error> {
    let operate = |alive: &mut Alive| {
        if let When::Later(handle) = when {
            // SAFETY: the caller guarantees that `handle` is `NULL`, or valid for reads.
            unsafe { idle(handle) }?;
        }
        // SAFETY: the caller guarantees that `memory` is `NULL`, or was given to C and not lost.
        let (to, memory) = unsafe { alive.memory(rma, memory) }?;
        let there = (memory, rank, bytes);
        let mut pending = Pending::DONE;
        // SAFETY: the caller guarantees that `buffer`, and the factor, have the bytes of the
        // operation, that no other thread uses them in a conflicting way, and, for a started get,
        // that they stay until it was waited for.
        unsafe {
            match (work, when) {
                (Work::Put, _) => to.put_from(memory, rank, bytes, buffer)?,
                (Work::Get, When::Now) => to.get_into(memory, rank, bytes, buffer)?,
                (Work::Get, When::Later(_)) => {
                    pending = to.start_get_into(memory, rank, bytes, buffer)?
                }
                (Work::Add(number, factor), _) => {
                    let (number, factor) = (RmaNumber::of(number)?, present(factor, "factor")?);
                    match number {
                        RmaNumber::I32 => add::<i32>(to, there, factor, buffer),
                        RmaNumber::I64 => add::<i64>(to, there, factor, buffer),
                        RmaNumber::F32 => add::<f32>(to, there, factor, buffer),
                        RmaNumber::F64 => add::<f64>(to, there, factor, buffer),
                        RmaNumber::C32 => add::<Complex<f32>>(to, there, factor, buffer),
                        RmaNumber::C64 => add::<Complex<f64>>(to, there, factor, buffer),
                    }?;
                }
            }
        }
        if let When::Later(handle) = when {
            let mut written_to = None;
            if !matches!(work, Work::Get) {
                (pending, written_to) = (to.written(rank)?, Some(rank));
            }
            // SAFETY: the caller guarantees that `handle` is `NULL`, or valid for writes.
            unsafe { alive.keep(handle, pending, written_to) };
        }
        Ok(())
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    unsafe { with(rma, operate) }
}

/// # Safety
/// The conditions of the C function that calls it apply.
#[inline]
pub(crate) unsafe fn run(
    there: There,
    work: Work,
    offset: usize,
    buffer: *const c_void,
    len: usize,
    when: When,
) -> Status {
    call(|| {
        if len > 0 {
            there_is(buffer)?;
        }
        // SAFETY: the conditions are those of this function, and the caller guarantees them.
        unsafe { operate(there, work, Bytes::Run { offset, len }, buffer.cast_mut().cast(), when) }
    })
}

fn there_is(buffer: *const c_void) -> Result<(), Error> {
    if buffer.is_null() { Err(Error::invalid("the buffer is NULL")) } else { Ok(()) }
}

/// A strided section as C passes it: the strides in the part and in the program's memory, the
/// counts, and the number of strides.
type Levels = (*const usize, *const usize, *const usize, usize);

/// # Safety
/// The conditions of the C function that calls it apply.
pub(crate) unsafe fn strided(
    place: There,
    work: Work,
    offset: usize,
    buffer: *const c_void,
    (there, here, counts, levels): Levels,
    when: When,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `there` and `here` have `levels` numbers, and `counts`
        // one more.
        let (there, strides, counts) = unsafe {
            let counts = array(counts, levels.saturating_add(1), "counts")?;
            (array(there, levels, "there")?, array(here, levels, "here")?, counts)
        };
        if !counts.contains(&0) {
            there_is(buffer)?;
        }
        let bytes = Bytes::Strided { offset, there: Strided { counts, strides: there }, strides };
        // SAFETY: the conditions are those of this function, and the caller guarantees them.
        unsafe { operate(place, work, bytes, buffer.cast_mut().cast(), when) }
    })
}

/// # Safety
/// The conditions of the C function that calls it apply.
pub(crate) unsafe fn segments(
    there: There,
    work: Work,
    list: *const RmaSegment,
    length: usize,
    when: When,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `list` points to `length` elements.
        let list = unsafe { array(list, length, "list") }?;
        let segment = |&RmaSegment { offset, buffer, bytes }: &RmaSegment| {
            if bytes > 0 {
                there_is(buffer)?;
            }
            Ok((offset, buffer.cast::<u8>(), bytes))
        };
        let list = list.iter().map(segment).collect::<Result<Vec<_>, Error>>()?;
        // SAFETY: the conditions are those of this function, and the caller guarantees them.
        unsafe { operate(there, work, Bytes::List(&list), std::ptr::null_mut(), when) }
    })
}
