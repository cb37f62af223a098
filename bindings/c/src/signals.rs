//! Signals: numbers that only grow, and that threads and processes wait on.
//!
//! # Contract
//! A [`Signal`] of C is the word of a [`syncline_signal::Signal`] in memory of the caller: on a stack, in a structure,
//! in memory that processes share. All bytes zero are a signal at 0, so nothing makes one and nothing gives it back.
//!
//! # Costs
//! Those in Rust: a raise with nobody asleep is one read-modify-write, a wait that is over already one load.

use std::time::Instant;

use syncline_signal::{Policy, Signal as Number};

use crate::error::{Error, Status, borrow, call, deadline, optional, out};

/// The largest number that a signal can hold: 2^62 - 1.
pub const SYNCLINE_SIGNAL_MAX: u64 = 4611686018427387903;
/// The most that can be added to a signal at once: 2^32.
pub const SYNCLINE_SIGNAL_MAX_ADD: u64 = 4294967296;

const _: () =
    assert!(SYNCLINE_SIGNAL_MAX == Number::MAX && SYNCLINE_SIGNAL_MAX_ADD == Number::MAX_ADD);

/// A number that only grows, from 0 to `SYNCLINE_SIGNAL_MAX`; all bytes zero are a signal at 0. It
/// may stand in any memory, also in memory that processes share, and must not be moved or copied
/// while it is in use. It is read and written by functions of this library only.
#[repr(C)]
#[derive(Debug)]
pub struct Signal {
    /// The number, and whether somebody sleeps until it grows.
    pub word: u64,
}

const _: () = assert!(
    size_of::<Signal>() == size_of::<Number>() && align_of::<Signal>() == align_of::<Number>()
);

/// The signal that stands there, or the error that names the argument.
///
/// # Safety
/// The pointer is `NULL`, or points to 8 bytes that live for `'a`, and that are written as a signal only.
pub(crate) unsafe fn the_signal<'a>(signal: *const Signal) -> Result<&'a Number, Error> {
    if !signal.is_aligned() {
        return Err(Error::invalid("the signal is not aligned to 8 bytes"));
    }
    // SAFETY: as the caller vouches; aligned. A signal is one word of which every value is one.
    unsafe { borrow(signal.cast::<Number>(), "the signal") }
}

/// What a signal can hold, or an error.
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
/// As `syncline_signal_wait`.
unsafe fn wait(
    signal: *const Signal,
    least: u64,
    until: impl FnOnce() -> Option<Instant>,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (signal, least) = (unsafe { the_signal(signal) }?, number(least)?);
        if signal.get() < least {
            signal.wait_until(least, &Policy::default(), until())?;
        }
        Ok(())
    })
}

/// Reads a signal. What was done before it was raised to that number is seen after this call.
///
/// # Safety
/// `signal` points to a signal. `*number` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_get(signal: *const Signal, number: *mut u64) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let number = unsafe { out(number, "number") }?;
        // SAFETY: as the caller vouches.
        let now = unsafe { the_signal(signal) }?.get();
        number.write(now);
        Ok(())
    })
}

/// Raises a signal to a number, if it is lower, and wakes the threads that wait for that. A number
/// above `SYNCLINE_SIGNAL_MAX` is `SYNCLINE_STATUS_INVALID_ARGUMENT`, here and for waits.
///
/// # Safety
/// `signal` points to a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_raise_to(signal: *mut Signal, number: u64) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        unsafe { the_signal(signal) }?.raise_to(self::number(number)?);
        Ok(())
    })
}

/// Adds to a signal, and wakes the threads that wait. `*now`, unless `now` is `NULL`, is the sum.
///
/// More than `SYNCLINE_SIGNAL_MAX_ADD` is `SYNCLINE_STATUS_INVALID_ARGUMENT`: nothing was added. If
/// the sum would be more than `SYNCLINE_SIGNAL_MAX`, the signal is closed, and stays at that
/// number; the threads that wait for it go on, and this and every later addition is
/// `SYNCLINE_STATUS_CLOSED`.
///
/// # Safety
/// `signal` points to a signal. `*now` can be written, or `now` is `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_add(signal: *mut Signal, n: u64, now: *mut u64) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let now = unsafe { optional(now) };
        // SAFETY: as the caller vouches.
        let sum = unsafe { the_signal(signal) }?.add(n)?;
        if let Some(now) = now {
            now.write(sum);
        }
        Ok(())
    })
}

/// Waits until a signal is at least `number`, however long that takes: where a member of a team may die that is to raise
/// it, use `syncline_member_await`.
///
/// # Safety
/// `signal` points to a signal, which stays where it is until this call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_wait(signal: *const Signal, number: u64) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { wait(signal, number, || None) }
}

/// Like `syncline_signal_wait`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then.
///
/// # Safety
/// As `syncline_signal_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_signal_wait_for(
    signal: *const Signal,
    number: u64,
    nanoseconds: u64,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { wait(signal, number, || deadline(nanoseconds)) }
}
