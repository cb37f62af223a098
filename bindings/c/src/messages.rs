//! Messages between processes of a farm: plain numbers, and values that Rust programs have sent.
//!
//! # Contract
//! A message carries its kind. Numbers are a `syncline_farm::wire::Numbers` of the corresponding
//! type in Rust; a value is the serde encoding of a Rust program, in the format of postcard, and is
//! passed on unchanged. A receiver gets a message in place, where the sender has written it (small
//! messages are in the channel itself), or has it copied into its own memory. A message that does
//! not fit there, or is not of the requested kind, is not lost: it is the next one received from
//! its sender.
//!
//! # Costs
//! Those of the Rust messages; a received message is an object of about 200 bytes.

use std::ffi::c_void;
use std::ptr;

use syncline_farm::{
    FarmError, Vpid,
    message::{Message, MessageKind},
};

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Out, Status, array, call, deadline, optional, out, present};
use crate::farms::{Farm, Inside, SYNCLINE_FARM_NOBODY, the_farm};

/// The type of the elements of a message. In Fortran and C, numbers are those of the same size.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarmKind {
    /// A value from a Rust program that is not numbers: its bytes.
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
    /// Unsigned integers of 16 bytes.
    U128 = 9,
    /// Signed integers of 16 bytes.
    I128 = 10,
    /// `float`
    F32 = 11,
    /// `double`
    F64 = 12,
    /// `size_t`: not the same kind as `uint64_t`.
    Usize = 13,
    /// `ptrdiff_t`: not the same kind as `int64_t`.
    Isize = 14,
}

impl FarmKind {
    /// All kinds, with the corresponding kinds in Rust.
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

    /// Returns the Rust kind of a number, and the bytes of one element.
    fn of(number: u32) -> Result<(MessageKind, usize), Error> {
        let known = Self::all().into_iter().find(|&(kind, _)| kind as u32 == number);
        let known = known.and_then(|(_, kind)| Some((kind, kind.size()?)));
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_farm_kind {number}")))
    }
}

/// A received message. Later versions may have more fields at the end.
#[repr(C)]
#[derive(Debug)]
pub struct FarmMessage {
    /// The `count` elements, aligned for their type and to 16. Not `NULL`; valid until the message
    /// is disposed of.
    pub data: *const c_void,
    /// The number of elements.
    pub count: usize,
    /// The number of bytes of all elements.
    pub bytes: usize,
    /// The number of the sender.
    pub from: u64,
    /// The type of the elements: a `syncline_farm_kind`.
    pub kind: u32,
}

/// A message with the structure that C sees.
#[repr(C)]
struct Kept {
    shown: FarmMessage,
    message: Message,
}

/// Returns the kind of a message for C, and the number of its elements.
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
    /// Returns the next message of a process, or of any process.
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

/// Hands a message to C.
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
    // The address is taken once the object is boxed, as a small message is inside the object.
    kept.shown.data = kept.message.as_ptr().cast();
    // The structure for C is the first field of the object.
    to.write(Box::into_raw(kept).cast_const().cast());
    Ok(())
}

/// Sends `count` elements of a kind, a `syncline_farm_kind`, to a process, as one message. Any
/// process of the farm may send to any other and to itself, also to a process that is only
/// reserved.
///
/// It returns when the message is in its channel: at once, unless the channel is full of messages
/// that were not received yet. It returns `SYNCLINE_STATUS_GONE` if the receiver has ended (`code`
/// of the failure is its exit code, or 128 plus the number of the signal that killed it),
/// `SYNCLINE_STATUS_NO_ROOM` if the farm's memory is full, and `SYNCLINE_STATUS_MISUSE` if the
/// receiver is this process and its channel is full. In all these cases nothing was sent.
///
/// Writes of this process before the call are visible to the receiver. `from` may be `NULL` if
/// `count` is 0. The elements are copied: the caller may reuse the memory when this returns.
///
/// # Safety
/// `farm` must not have been freed. `count` elements must be valid for reads from `from` on, and no
/// other thread may write them during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_send(
    farm: *mut Farm,
    to: u64,
    kind: u32,
    from: *const c_void,
    count: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_send_for(farm, to, kind, from, count, SYNCLINE_FOREVER) }
}

/// Like `syncline_farm_send`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: nothing was sent.
///
/// # Safety
/// The conditions of `syncline_farm_send` apply.
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
            .ok_or_else(|| Error::invalid(format!("{count} {kind} do not fit into memory")))?;
        // SAFETY: the caller guarantees that `farm` was not freed, and that `count` elements, of
        // `bytes` bytes in all, are readable from `from` on.
        let (mut inside, bytes) =
            unsafe { (the_farm(farm)?, array(from.cast::<u8>(), bytes, "what is to be sent")?) };
        Ok(inside.farm.send_bytes(Vpid::from_raw(to), kind, bytes, deadline(nanoseconds))?)
    })
}

/// Waits for the next message of a process, and receives it.
///
/// `*message` is a view of the message in place, which the caller releases with
/// `syncline_farm_message_dispose`. Returns `SYNCLINE_STATUS_GONE` if the process has ended and all
/// its messages were received; `code` of the failure is its exit code, or 128 plus the number of
/// the signal that killed it. Returns `SYNCLINE_STATUS_GARBLED` if the bytes that it sent are not a
/// valid message; they are discarded. Returns `SYNCLINE_STATUS_MISUSE` if `from` is this process,
/// and it has sent itself no message.
///
/// # Safety
/// `farm` must not have been freed. `*message` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv(
    farm: *mut Farm,
    from: u64,
    message: *mut *const FarmMessage,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_recv_for(farm, from, SYNCLINE_FOREVER, message) }
}

/// Like `syncline_farm_recv`, but waits for at most `nanoseconds` (0: does not wait), and then
/// returns `SYNCLINE_STATUS_TIMED_OUT`.
///
/// # Safety
/// The conditions of `syncline_farm_recv` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_for(
    farm: *mut Farm,
    from: u64,
    nanoseconds: u64,
    message: *mut *const FarmMessage,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `message` is valid for writes.
        let to = unsafe { out(message, "message") }?;
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        let mut inside = unsafe { the_farm(farm) }?;
        let (from, message) = inside.next(Some(Vpid::from_raw(from)), nanoseconds)?;
        show(from, message, &to)
    })
}

/// Like `syncline_farm_recv`, from any process that has sent a message, with senders taking turns.
///
/// `*from` is the sender. Returns `SYNCLINE_STATUS_GONE` if a process that this one has started has
/// ended other than by exiting with 0: once for each such process, when all its messages were
/// received; then `*from` is that process. Returns `SYNCLINE_STATUS_ALONE` to the manager if no
/// other process is alive and all their messages were received. After `SYNCLINE_STATUS_GARBLED`,
/// `*from` is the sender; after all other failures it is `SYNCLINE_FARM_NOBODY`. `from` may be
/// `NULL`.
///
/// # Safety
/// `farm` must not have been freed. `*message` must be valid for writes. `from` must be `NULL`, or
/// `*from` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_any(
    farm: *mut Farm,
    from: *mut u64,
    message: *mut *const FarmMessage,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_recv_any_for(farm, SYNCLINE_FOREVER, from, message) }
}

/// Like `syncline_farm_recv_any`, but waits for at most `nanoseconds` (0: does not wait), and then
/// returns `SYNCLINE_STATUS_TIMED_OUT`.
///
/// # Safety
/// The conditions of `syncline_farm_recv_any` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_any_for(
    farm: *mut Farm,
    nanoseconds: u64,
    from: *mut u64,
    message: *mut *const FarmMessage,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `from` is valid for writes.
        let from = unsafe { optional(from) };
        if let Some(from) = &from {
            from.write(SYNCLINE_FARM_NOBODY);
        }
        // SAFETY: the caller guarantees that a non-null `message` is valid for writes.
        let to = unsafe { out(message, "message") }?;
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
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

/// Like `syncline_farm_recv`, but copies the message into the caller's buffer, which has room for
/// `capacity` elements of a kind, a `syncline_farm_kind`; `*count` is the number of received
/// elements.
///
/// If the message has more elements than `capacity`, this is `SYNCLINE_STATUS_TOO_SMALL`, and
/// `*count` is their number; if they are of another kind, it is `SYNCLINE_STATUS_GARBLED`. In both
/// cases nothing was written, and the message is the next one received from that process.
///
/// # Safety
/// `farm` must not have been freed. `to` must be valid for writes of `capacity` elements, and no
/// other thread may use them during the call; if `capacity` is 0, `to` may be `NULL`. `*count` must
/// be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_recv_into(
    farm: *mut Farm,
    from: u64,
    kind: u32,
    to: *mut c_void,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_recv_into_for(farm, from, kind, to, capacity, SYNCLINE_FOREVER, count) }
}

/// Like `syncline_farm_recv_into`, but waits for at most `nanoseconds` (0: does not wait), and then
/// returns `SYNCLINE_STATUS_TIMED_OUT`.
///
/// # Safety
/// The conditions of `syncline_farm_recv_into` apply.
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
        // SAFETY: the caller guarantees that a non-null `count` is valid for writes.
        let count = unsafe { out(count, "count") }?;
        let (expected, _) = FarmKind::of(kind)?;
        if capacity > 0 {
            present(to, "to")?;
        }
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
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
            // SAFETY: the caller guarantees room for `capacity` elements of this kind, and `came`
            // is at most that; the message is in the farm's memory or in an object of its own, so
            // the two do not overlap.
            unsafe { ptr::copy_nonoverlapping(message.as_ptr(), to.cast(), message.len()) };
        }
        count.write(came);
        Ok(())
    })
}

/// Frees a message; does nothing for `NULL`. Any thread may call it, also after the farm was freed.
/// The farm's memory that the message occupied can be reused then.
///
/// # Safety
/// `message` must be the unchanged pointer from a function of this library, and must not be used
/// after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_message_dispose(message: *const FarmMessage) {
    if !message.is_null() {
        // SAFETY: `show` made the box, as the caller guarantees that the message comes from this
        // library; it is not used after this call.
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
