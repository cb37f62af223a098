//! What processes of a farm send to one another: plain numbers, and what programs in Rust have written.
//!
//! # Contract
//! A message says of which kind it is. Numbers are `syncline_farm::wire::Numbers` in Rust, of the type of that name; a value is
//! what serde writes there, in the encoding of postcard, and is passed on as it is. Whoever receives gets a message where the
//! sender has written it (small ones have come along), or has it copied into memory of its own. What does not fit there, or
//! is of another kind than was asked for, is not lost: it is the next that is received from its sender.
//!
//! # Costs
//! Those in Rust; a message that is received is an object of some 200 bytes.

use std::ffi::c_void;
use std::ptr;

use syncline_farm::{
    FarmError, Vpid,
    message::{Message, MessageKind},
};

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Out, Status, array, call, deadline, optional, out, present};
use crate::farms::{Farm, Inside, SYNCLINE_FARM_NOBODY, the_farm};

/// What a message has in it. In Fortran and C, numbers are those of that size.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarmKind {
    /// What a program in Rust has sent, if not numbers: its bytes.
    Value = 0,
    /// Bytes: `uint8_t`.
    U8 = 1,
    /// `int8_t`
    I8 = 2,
    /// `uint16_t`
    U16 = 3,
    /// `int16_t`
    I16 = 4,
    /// `uint32_t`
    U32 = 5,
    /// `int32_t`
    I32 = 6,
    /// `uint64_t`
    U64 = 7,
    /// `int64_t`
    I64 = 8,
    /// Integers of 16 bytes without a sign.
    U128 = 9,
    /// Integers of 16 bytes.
    I128 = 10,
    /// `float`
    F32 = 11,
    /// `double`
    F64 = 12,
    /// `size_t`: another kind than `uint64_t`.
    Usize = 13,
    /// `ptrdiff_t`: another kind than `int64_t`.
    Isize = 14,
}

impl FarmKind {
    /// All of them, and what they are in Rust.
    fn all() -> [(FarmKind, MessageKind); 15] {
        [
            (FarmKind::Value, MessageKind::VALUE),
            (FarmKind::U8, MessageKind::numbers::<u8>()),
            (FarmKind::I8, MessageKind::numbers::<i8>()),
            (FarmKind::U16, MessageKind::numbers::<u16>()),
            (FarmKind::I16, MessageKind::numbers::<i16>()),
            (FarmKind::U32, MessageKind::numbers::<u32>()),
            (FarmKind::I32, MessageKind::numbers::<i32>()),
            (FarmKind::U64, MessageKind::numbers::<u64>()),
            (FarmKind::I64, MessageKind::numbers::<i64>()),
            (FarmKind::U128, MessageKind::numbers::<u128>()),
            (FarmKind::I128, MessageKind::numbers::<i128>()),
            (FarmKind::F32, MessageKind::numbers::<f32>()),
            (FarmKind::F64, MessageKind::numbers::<f64>()),
            (FarmKind::Usize, MessageKind::numbers::<usize>()),
            (FarmKind::Isize, MessageKind::numbers::<isize>()),
        ]
    }

    /// What a number is in Rust, and the bytes of one element.
    fn of(number: u32) -> Result<(MessageKind, usize), Error> {
        let known = Self::all().into_iter().find(|&(kind, _)| kind as u32 == number);
        let known = known.and_then(|(_, kind)| Some((kind, kind.size()?)));
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_farm_kind {number}")))
    }
}

/// A message that was received. Later versions may have more fields, at the end.
#[repr(C)]
#[derive(Debug)]
pub struct FarmMessage {
    /// What it has in it: `count` elements, aligned for them and to 16. Not `NULL`; valid until the message is freed.
    pub data: *const c_void,
    /// How many elements.
    pub count: usize,
    /// How many bytes they are in all.
    pub bytes: usize,
    /// Who has sent it.
    pub from: u64,
    /// What the elements are: one of `syncline_farm_kind`.
    pub kind: u32,
}

/// A message with what it shows.
#[repr(C)]
struct Kept {
    shown: FarmMessage,
    message: Message,
}

/// What a message is: its kind for C, and the number of its elements.
fn elements(from: Vpid, message: &Message) -> Result<(FarmKind, usize), Error> {
    let (kind, bytes) = (message.kind(), message.len());
    let known = FarmKind::all().into_iter().find(|&(_, known)| known == kind);
    match known.zip(kind.size()) {
        Some(((shown, _), size)) if bytes.is_multiple_of(size) => Ok((shown, bytes / size)),
        _ => Err(Error::new(
            Status::Garbled,
            format!("a message from process {from} is {kind}, of {bytes} bytes"),
        )),
    }
}

impl Inside {
    /// The next message of a process, or of any.
    fn next(&mut self, from: Option<Vpid>, nanoseconds: u64) -> Result<(Vpid, Message), FarmError> {
        let kept = self.back.iter().position(|&(sender, _)| from.is_none_or(|from| from == sender));
        if let Some(kept) = kept.and_then(|at| self.back.remove(at)) {
            return Ok(kept);
        }
        match from {
            Some(from) => Ok((from, self.farm.recv_message_deadline(from, deadline(nanoseconds))?)),
            None => self.farm.recv_any_message_deadline(deadline(nanoseconds)),
        }
    }
}

/// Shows a message to C.
fn show(from: Vpid, message: Message, to: &Out<*const FarmMessage>) -> Result<(), Error> {
    let (kind, count) = elements(from, &message)?;
    let shown = FarmMessage {
        data: ptr::null(),
        count,
        bytes: message.len(),
        from: from.to_raw(),
        kind: kind as u32,
    };
    let mut kept = Box::new(Kept { shown, message });
    // Where it stays: a small message stands in the object itself.
    kept.shown.data = kept.message.as_ptr().cast();
    // What is shown is the beginning of the object.
    to.write(Box::into_raw(kept).cast_const().cast());
    Ok(())
}

/// Sends `count` elements of a kind, one of `syncline_farm_kind`, to a process, as one message. Any process of the farm
/// may, to any other and to itself, also to one that was reserved only.
///
/// It returns when the message is in its channel, which it is at once unless as many as the channel
/// holds were not received yet. `SYNCLINE_STATUS_GONE` if the receiver has ended (`code` of the
/// failure is what it has exited with, or 128 and the signal), `SYNCLINE_STATUS_NO_ROOM` if the
/// farm's memory is full, `SYNCLINE_STATUS_MISUSE` if the receiver is this process and its channel
/// is full. In all these cases nothing was sent.
///
/// What this process did before is seen by the receiver. `from` may be `NULL` if `count` is 0, and is the caller's again
/// when this returns.
///
/// # Safety
/// `farm` was not freed. `count` elements can be read from `from` on, and nobody writes them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_send(
    farm: *mut Farm,
    to: u64,
    kind: u32,
    from: *const c_void,
    count: usize,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_send_for(farm, to, kind, from, count, SYNCLINE_FOREVER) }
}

/// Like `syncline_farm_send`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: nothing was sent.
///
/// # Safety
/// As `syncline_farm_send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_send_for(
    farm: *mut Farm,
    to: u64,
    kind: u32,
    from: *const c_void,
    count: usize,
    nanoseconds: u64,
) -> Status {
    call(|| {
        let (kind, size) = FarmKind::of(kind)?;
        let bytes = count.checked_mul(size);
        let bytes = bytes
            .ok_or_else(|| Error::invalid(format!("there are no {count} {kind} in memory")))?;
        // SAFETY: as the caller vouches.
        let (mut inside, bytes) =
            unsafe { (the_farm(farm)?, array(from.cast::<u8>(), bytes, "what is to be sent")?) };
        Ok(inside.farm.send_bytes(Vpid::from_raw(to), kind, bytes, deadline(nanoseconds))?)
    })
}

/// Receives the next message of a process, and waits for it.
///
/// `*message` is read in place, and to be given back by `syncline_farm_message_dispose`.
/// `SYNCLINE_STATUS_GONE` if the process has ended, and all that it had sent was received; `code`
/// of the failure is what it has exited with, or 128 and the signal. `SYNCLINE_STATUS_GARBLED` if
/// what it has sent is no message; that is lost. `SYNCLINE_STATUS_MISUSE` if it is this process, and
/// has sent itself nothing.
///
/// # Safety
/// `farm` was not freed. `*message` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv(
    farm: *mut Farm,
    from: u64,
    message: *mut *const FarmMessage,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_recv_for(farm, from, SYNCLINE_FOREVER, message) }
}

/// Like `syncline_farm_recv`, but waits for `nanoseconds` at most (0: takes what is there), and is
/// `SYNCLINE_STATUS_TIMED_OUT` then.
///
/// # Safety
/// As `syncline_farm_recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_for(
    farm: *mut Farm,
    from: u64,
    nanoseconds: u64,
    message: *mut *const FarmMessage,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let to = unsafe { out(message, "message") }?;
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_farm(farm) }?;
        let (from, message) = inside.next(Some(Vpid::from_raw(from)), nanoseconds)?;
        show(from, message, &to)
    })
}

/// Like `syncline_farm_recv`, from any process that has sent something, in turn.
///
/// `*from` is who has sent it. `SYNCLINE_STATUS_GONE` if a process that this one has started has
/// ended, and not by exiting with 0: once for each, when all that it had sent was received; then
/// `*from` is that process. `SYNCLINE_STATUS_ALONE` for the manager if no other process lives and
/// all that they had sent was received. After this and all other failures `*from` is
/// `SYNCLINE_FARM_NOBODY`. `from` may be `NULL`.
///
/// # Safety
/// `farm` was not freed. `*message` can be written; so can `*from`, if it is not `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_any(
    farm: *mut Farm,
    from: *mut u64,
    message: *mut *const FarmMessage,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_recv_any_for(farm, SYNCLINE_FOREVER, from, message) }
}

/// Like `syncline_farm_recv_any`, but waits for `nanoseconds` at most (0: takes what is there), and
/// is `SYNCLINE_STATUS_TIMED_OUT` then.
///
/// # Safety
/// As `syncline_farm_recv_any`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_any_for(
    farm: *mut Farm,
    nanoseconds: u64,
    from: *mut u64,
    message: *mut *const FarmMessage,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let from = unsafe { optional(from) };
        if let Some(from) = &from {
            from.write(SYNCLINE_FARM_NOBODY);
        }
        // SAFETY: as the caller vouches.
        let to = unsafe { out(message, "message") }?;
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_farm(farm) }?;
        let next = inside.next(None, nanoseconds);
        let who = match &next {
            Ok((vpid, _))
            | Err(FarmError::Gone { vpid, .. } | FarmError::Garbled { from: vpid, .. }) => {
                vpid.to_raw()
            }
            Err(_) => SYNCLINE_FARM_NOBODY,
        };
        if let Some(from) = from {
            from.write(who);
        }
        let (from, message) = next?;
        show(from, message, &to)
    })
}

/// Like `syncline_farm_recv`, into the caller's memory, which has room for `capacity` elements of a kind, one of
/// `syncline_farm_kind`; `*count` is how many came.
///
/// If there is no room for all it is `SYNCLINE_STATUS_TOO_SMALL`, and `*count` is how many they are; if they are of another
/// kind it is `SYNCLINE_STATUS_GARBLED`. In both cases nothing was written, and the message is the next that is received
/// from that process.
///
/// # Safety
/// `farm` was not freed. `capacity` elements can be written from `to` on, which may be `NULL` if that is 0, and nobody else
/// uses them meanwhile. `*count` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_into(
    farm: *mut Farm,
    from: u64,
    kind: u32,
    to: *mut c_void,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_recv_into_for(farm, from, kind, to, capacity, SYNCLINE_FOREVER, count) }
}

/// Like `syncline_farm_recv_into`, but waits for `nanoseconds` at most (0: takes what is there),
/// and is `SYNCLINE_STATUS_TIMED_OUT` then.
///
/// # Safety
/// As `syncline_farm_recv_into`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_into_for(
    farm: *mut Farm,
    from: u64,
    kind: u32,
    to: *mut c_void,
    capacity: usize,
    nanoseconds: u64,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let count = unsafe { out(count, "count") }?;
        let (expected, _) = FarmKind::of(kind)?;
        if capacity > 0 {
            present(to, "to")?;
        }
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_farm(farm) }?;
        let (from, message) = inside.next(Some(Vpid::from_raw(from)), nanoseconds)?;
        let (found, came) = elements(from, &message)?;
        let refused = if found as u32 != kind {
            let found = message.kind();
            let words = format!("a message from process {from} is {found}, not {expected}");
            Some(Error::new(Status::Garbled, words))
        } else if came > capacity {
            count.write(came);
            let words = format!(
                "a message from process {from} has {came} elements, and there is room for {capacity}"
            );
            Some(Error::new(Status::TooSmall, words))
        } else {
            None
        };
        if let Some(error) = refused {
            inside.back.push_front((from, message));
            return Err(error);
        }
        if came > 0 {
            // SAFETY: there is room for so many, as the caller vouches, and the message is elsewhere.
            unsafe { ptr::copy_nonoverlapping(message.as_ptr(), to.cast(), message.len()) };
        }
        count.write(came);
        Ok(())
    })
}

/// Gives a message back; `NULL` is nothing. Any thread may, also after the farm was freed. What it took of the farm's memory
/// is free for others then.
///
/// # Safety
/// `message` comes from a function of this library as it is, and is not used from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_message_dispose(message: *const FarmMessage) {
    if !message.is_null() {
        // SAFETY: as the caller vouches; `show` made it so.
        drop(unsafe { Box::from_raw(message.cast_mut().cast::<Kept>()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        for (number, (kind, _)) in FarmKind::all().into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert!(FarmKind::of(number as u32).is_ok());
        }
        let error = FarmKind::of(15).unwrap_err();
        assert!(format!("{error:?}").contains("there is no syncline_farm_kind 15"));
    }
}
