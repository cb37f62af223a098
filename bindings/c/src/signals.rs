//! Signals: numbers that only grow, and that threads and processes wait on.
//!
//! # Contract
//! A C [`Signal`] is the word of a [`syncline_signal::Signal`] in memory of the caller: on a stack,
//! in a structure, in memory that processes share. Zero bytes are a signal at 0, so no function
//! creates or frees one.
//!
//! # Costs
//! Those of the Rust signal: a raise with no sleeping waiter is one read-modify-write, and a wait
//! that is over already is one load.

use std::time::Instant;

use syncline_signal::{Policy, Signal as Number};
use syncline_trace::{Activity, span};

use crate::error::{Error, Status, borrow, call, deadline, optional, out};

/// The largest number that a signal can hold: 2^62 - 1.
pub const SYNCLINE_SIGNAL_MAX: u64 = 4611686018427387903;
/// The largest number that can be added to a signal at once: 2^32.
pub const SYNCLINE_SIGNAL_MAX_ADD: u64 = 4294967296;

const _: () =
    assert!(SYNCLINE_SIGNAL_MAX == Number::MAX && SYNCLINE_SIGNAL_MAX_ADD == Number::MAX_ADD);

/// A number that only grows, from 0 to `SYNCLINE_SIGNAL_MAX`. Zero bytes are a signal at 0:
/// initialise it with zeros; there is nothing to free. It may be in any memory, including memory
/// that processes share, and must not be moved or copied while it is in use. Read and write it with
/// functions of this library only.
#[repr(C)]
#[derive(Debug)]
pub struct Signal {
    /// The number, and whether a waiter sleeps until it grows.
    pub word: u64,
}

const _: () = assert!(
    size_of::<Signal>() == size_of::<Number>() && align_of::<Signal>() == align_of::<Number>()
);

/// Returns the signal at an address, or the error that names the argument.
///
/// # Safety
/// The pointer must be `NULL`, or point to 8 bytes that live for `'a` and are written only as a
/// signal.
pub(crate) unsafe fn the_signal<'a>(signal: *const Signal) -> Result<&'a Number, Error> {
    if !signal.is_aligned() {
        return Err(Error::invalid("the signal is not aligned to 8 bytes"));
    }
    // SAFETY: the pointer is aligned, as checked above; the caller guarantees the rest (see `#
    // Safety`). A signal is one word, and every value of the word is valid.
    unsafe { borrow(signal.cast::<Number>(), "the signal") }
}

/// Returns the number if a signal can hold it, else an error.
pub(crate) fn number(number: u64) -> Result<u64, Error> {
    if number > Number::MAX {
        return Err(Error::invalid(format!(
            "{number} is more than a signal can hold, {}",
            Number::MAX
        )));
    }
    Ok(number)
}

/// # Safety
/// The conditions of `syncline_signal_wait` apply.
unsafe fn wait(
    signal: *const Signal,
    least: u64,
    until: impl FnOnce() -> Option<Instant>,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `signal` points to a signal (see `# Safety`).
        let (signal, least) = (unsafe { the_signal(signal) }?, number(least)?);
        if signal.get() < least {
            let _waits = span(Activity::AwaitSignal, 0, least);
            signal.wait_until(least, &Policy::default(), until())?;
        }
        Ok(())
    })
}

/// Reads a signal into `*number`. Writes made before the signal was raised to that number are
/// visible after this call.
///
/// # Safety
/// `signal` must point to a signal. `*number` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_get(signal: *const Signal, number: *mut u64) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `number` is valid for writes.
        let number = unsafe { out(number, "number") }?;
        // SAFETY: the caller guarantees that a non-null `signal` points to a live signal.
        let now = unsafe { the_signal(signal) }?.get();
        number.write(now);
        Ok(())
    })
}

/// Raises a signal to `number`, if it is lower, and wakes the threads that wait for that number. A
/// number above `SYNCLINE_SIGNAL_MAX` is `SYNCLINE_STATUS_INVALID_ARGUMENT`, here and for waits.
///
/// # Safety
/// `signal` must point to a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_raise_to(signal: *mut Signal, number: u64) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `signal` points to a live signal.
        unsafe { the_signal(signal) }?.raise_to(self::number(number)?);
        Ok(())
    })
}

/// Adds `n` to a signal, and wakes the threads that wait for a number up to the sum. Stores the sum
/// in `*now`, unless `now` is `NULL`.
///
/// An `n` above `SYNCLINE_SIGNAL_MAX_ADD` is `SYNCLINE_STATUS_INVALID_ARGUMENT`: nothing was added.
/// If the sum would exceed `SYNCLINE_SIGNAL_MAX`, the signal is closed: it keeps that number, the
/// waiting threads continue, and this and every later addition is `SYNCLINE_STATUS_CLOSED`.
///
/// # Safety
/// `signal` must point to a signal. `now` must be `NULL`, or `*now` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_add(signal: *mut Signal, n: u64, now: *mut u64) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `now` is valid for writes.
        let now = unsafe { optional(now) };
        // SAFETY: the caller guarantees that a non-null `signal` points to a live signal.
        let sum = unsafe { the_signal(signal) }?.add(n)?;
        if let Some(now) = now {
            now.write(sum);
        }
        Ok(())
    })
}

/// Waits until a signal is at least `number`, without a time limit. If the member of a team that is
/// to raise the signal may die, use `syncline_member_await`.
///
/// # Safety
/// `signal` must point to a signal that stays at its address until this call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_wait(signal: *const Signal, number: u64) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { wait(signal, number, || None) }
}

/// Like `syncline_signal_wait`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`.
///
/// # Safety
/// The conditions of `syncline_signal_wait` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_wait_for(
    signal: *const Signal,
    number: u64,
    nanoseconds: u64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { wait(signal, number, || deadline(nanoseconds)) }
}
