//! What `moves` exports, as one operation: something is done with bytes, now or later.

use std::ffi::c_void;

use syncline_rma::{
    Global, RmaError, Strided,
    element::{Complex, Number},
    raw::{Bytes, Pending},
};

use crate::error::{Error, Status, array, call, present};
use crate::rma::{Alive, Rma, RmaHandle, RmaMemory, idle, with};

/// What numbers are added to. All wrap around or round as their type does; complex numbers are two, one behind the other.
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

/// One run of a list: bytes in a member's part, and in the program's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RmaSegment {
    /// Where they begin in the part.
    pub offset: usize,
    /// Where they begin in the program's memory. It is read only unless it is a get.
    pub buffer: *mut c_void,
    /// How many.
    pub bytes: usize,
}

/// What is done with bytes.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Put,
    Get,
    /// A `syncline_rma_number`, and where the factor is.
    Add(u32, *const c_void),
}

/// Whether it is waited for: else under a handle, or the implicit one.
#[derive(Clone, Copy)]
pub(crate) enum When {
    Now,
    Later(*mut RmaHandle),
}

/// A part of a memory: of whose rma, and which member's.
#[derive(Clone, Copy)]
pub(crate) struct There {
    pub(crate) rma: *mut Rma,
    pub(crate) memory: *const RmaMemory,
    pub(crate) rank: usize,
}

/// # Safety
/// As `syncline_rma_accumulate`.
unsafe fn add<T: Number>(
    rma: &mut syncline_rma::Rma,
    (memory, rank, bytes): (&Global<u8>, usize, Bytes<'_>),
    factor: *const c_void,
    from: *const u8,
) -> Result<(), RmaError> {
    // SAFETY: as the caller vouches.
    unsafe {
        let factor = factor.cast::<T>().read_unaligned();
        rma.accumulate_from(memory, rank, bytes, factor, from)
    }
}

/// # Safety
/// As the function of C that calls it.
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
            // SAFETY: as the caller vouches.
            unsafe { idle(handle) }?;
        }
        // SAFETY: as the caller vouches.
        let (to, memory) = unsafe { alive.memory(rma, memory) }?;
        let there = (memory, rank, bytes);
        let mut pending = Pending::DONE;
        // SAFETY: as the caller vouches.
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
            // SAFETY: as the caller vouches.
            unsafe { alive.keep(handle, pending, written_to) };
        }
        Ok(())
    };
    // SAFETY: as the caller vouches.
    unsafe { with(rma, operate) }
}

/// # Safety
/// As the function of C that calls it.
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
        // SAFETY: as the caller vouches.
        unsafe { operate(there, work, Bytes::Run { offset, len }, buffer.cast_mut().cast(), when) }
    })
}

fn there_is(buffer: *const c_void) -> Result<(), Error> {
    if buffer.is_null() { Err(Error::invalid("the buffer is NULL")) } else { Ok(()) }
}

/// A shape, as it comes from C: the distances there and here, the counts, and how many distances there are.
type Levels = (*const usize, *const usize, *const usize, usize);

/// # Safety
/// As the function of C that calls it.
pub(crate) unsafe fn strided(
    place: There,
    work: Work,
    offset: usize,
    buffer: *const c_void,
    (there, here, counts, levels): Levels,
    when: When,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (there, strides, counts) = unsafe {
            let counts = array(counts, levels.saturating_add(1), "counts")?;
            (array(there, levels, "there")?, array(here, levels, "here")?, counts)
        };
        if !counts.contains(&0) {
            there_is(buffer)?;
        }
        let bytes = Bytes::Strided { offset, there: Strided { counts, strides: there }, strides };
        // SAFETY: as the caller vouches.
        unsafe { operate(place, work, bytes, buffer.cast_mut().cast(), when) }
    })
}

/// # Safety
/// As the function of C that calls it.
pub(crate) unsafe fn segments(
    there: There,
    work: Work,
    list: *const RmaSegment,
    length: usize,
    when: When,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let list = unsafe { array(list, length, "list") }?;
        let segment = |&RmaSegment { offset, buffer, bytes }: &RmaSegment| {
            if bytes > 0 {
                there_is(buffer)?;
            }
            Ok((offset, buffer.cast::<u8>(), bytes))
        };
        let list = list.iter().map(segment).collect::<Result<Vec<_>, Error>>()?;
        // SAFETY: as the caller vouches.
        unsafe { operate(there, work, Bytes::List(&list), std::ptr::null_mut(), when) }
    })
}
