//! Handles: ordered locks that a program acquires and releases directly.
//!
//! # Contract
//! A handle in Rust returns a guard that borrows it. C has no borrows, so the handle itself records
//! whether it holds its location, and a call in the wrong state is an error:
//!
//! ```text
//!            post            acquire (granted)
//!   idle ───────────> posted ─────────────────> held
//!    ^ ^               │ ^                      │  │
//!    │ └── abandon ────┘ └───────── next ───────┘  │
//!    └──────────────────────── release ────────────┘
//! ```
//!
//! While a handle is held, its guard is forgotten; `next` and `release` acquire again, which
//! returns at once for a handle whose request is granted.
//!
//! # Costs
//! Those of the Rust handle, plus two atomic exchanges, which keep two threads from using one
//! handle. Only failures allocate.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use syncline_overlay::handle::{Exclusive, Guard, Handle as Requests, Inclusive, Post, post_all};

use crate::error::{Error, Status, array, borrow, call, claim, deadline, out, unused};
use crate::locations::Location;

/// A handle with which a task requests a location. It has one request at a time. Access belongs to
/// the handle, not to a thread: one thread may post and another acquire, but not at the same time.
#[derive(Debug)]
pub struct Handle(Mutex<Use>);

#[derive(Debug)]
struct Use {
    requests: Either,
    /// Whether it was acquired, and neither released nor moved on to the next request.
    held: bool,
}

#[derive(Debug)]
enum Either {
    Reader(Requests<(), Inclusive>),
    Writer(Requests<(), Exclusive>),
}

/// Applies an expression to a handle of either kind.
macro_rules! either {
    ($either:expr, $handle:ident => $do:expr) => {
        match $either {
            Either::Reader($handle) => $do,
            Either::Writer($handle) => $do,
        }
    };
}

/// The time that a call may wait.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
    ForEver,
}

impl Use {
    fn free(&self) -> Result<(), Error> {
        if self.held { Err(Error::misuse("the handle holds its location already")) } else { Ok(()) }
    }

    fn as_post(&mut self) -> &mut dyn Post {
        either!(&mut self.requests, handle => handle)
    }

    fn acquire(&mut self, patience: Patience) -> Result<(), Error> {
        self.free()?;
        either!(&mut self.requests, handle => {
            let guard = match patience {
                Patience::None => handle.try_acquire()?,
                Patience::Until(deadline) => Some(handle.acquire_until(deadline)?),
                Patience::ForEver => Some(handle.acquire()?),
            };
            let Some(guard) = guard else {
                return Err(Error::new(Status::NotGranted, "the location is not granted yet"));
            };
            // The handle holds its location from here on; see the contract of the module.
            std::mem::forget(guard);
        });
        self.held = true;
        Ok(())
    }

    /// Ends the present use: with the next request posted, or without one.
    fn end(&mut self, next: bool) -> Result<(), Error> {
        if !self.held {
            return Err(Error::misuse("the handle does not hold its location"));
        }
        either!(&mut self.requests, handle => {
            // The handle is not held from here on, even if the call below fails.
            self.held = false;
            match handle.try_acquire()? {
                Some(guard) if next => Guard::next(guard),
                guard => drop(guard),
            }
        });
        Ok(())
    }
}

/// Takes the handle for the length of a call.
///
/// # Safety
/// The handle must be `NULL`, or live for `'a`.
unsafe fn the_handle<'a>(handle: *const Handle) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
    claim(unsafe { &borrow(handle, "the handle")?.0 }, "the handle")
}

/// # Safety
/// The location must be `NULL` or live, and `*handle` must be valid for writes.
unsafe fn new(
    location: *const Location,
    handle: *mut *mut Handle,
    requests: impl FnOnce(&Location) -> Either,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `handle` is valid for writes.
        let handle = unsafe { out(handle, "handle") }?;
        // SAFETY: the caller guarantees that a non-null `location` points to a live location.
        let requests = requests(unsafe { borrow(location, "the location") }?);
        let new = Box::new(Handle(Mutex::new(Use { requests, held: false })));
        handle.write(Box::into_raw(new));
        Ok(())
    })
}

/// Creates a handle whose requests are inclusive: for reading, together with neighbouring readers.
/// Free it with `syncline_handle_free`.
///
/// # Safety
/// `location` must come from `syncline_location_new` and must not have been freed. `*handle` must
/// be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_reader_new(
    location: *const Location,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { new(location, handle, |location| Either::Reader(location.0.reader())) }
}

/// Creates a handle whose requests are exclusive: for writing, alone. Free it with
/// `syncline_handle_free`.
///
/// # Safety
/// `location` must come from `syncline_location_new` and must not have been freed. `*handle` must
/// be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_writer_new(
    location: *const Location,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { new(location, handle, |location| Either::Writer(location.0.writer())) }
}

/// Frees a handle, and with it the request that it has posted or holds; does nothing for `NULL`.
/// Does not wait. Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing, while another call uses the
/// handle.
///
/// # Safety
/// `handle` must come from `syncline_reader_new` or `syncline_writer_new`, and no other call with
/// it may begin after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_handle_free(handle: *mut Handle) -> Status {
    if handle.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: the caller guarantees that the handle was not freed (see `# Safety`).
        unused(unsafe { &(*handle).0 }, "the handle")?;
        // SAFETY: `syncline_reader_new` or `syncline_writer_new` made the box; no call is using the
        // handle, as checked above, and the caller guarantees that none begins.
        drop(unsafe { Box::from_raw(handle) });
        Ok(())
    })
}

/// Posts a request, which takes the next place in the queue, and returns at once. Does nothing if a
/// request is posted already.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_post(handle: *mut Handle) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
        let mut handle = unsafe { the_handle(handle) }?;
        handle.free()?;
        either!(&mut handle.requests, handle => handle.post());
        Ok(())
    })
}

/// Posts the first requests of one task at several locations as one atomic step.
///
/// Otherwise two tasks that both need `a` and `b` could each be first in one queue and second in
/// the other, and wait for each other without end. If one of the handles cannot be posted, none is.
///
/// # Safety
/// `handles` must point to `count` handles that have not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_post_all(handles: *const *mut Handle, count: usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `handles` points to `count` elements.
        let handles = unsafe { array(handles, count, "the array of handles") }?;
        let claim = |(i, &handle)| {
            let twice = |error| match handles[..i].contains(&handle) {
                true => Error::invalid("a handle stands twice in the array of handles"),
                false => error,
            };
            // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
            unsafe { the_handle(handle) }.map_err(twice)
        };
        let mut claimed: Vec<_> =
            handles.iter().enumerate().map(claim).collect::<Result<_, _>>()?;
        claimed.iter().try_for_each(|handle| handle.free())?;
        post_all(&mut claimed.iter_mut().map(|handle| handle.as_post()).collect::<Vec<_>>());
        Ok(())
    })
}

/// Waits until the posted request is granted; posts a request first, if none is posted.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_acquire(handle: *mut Handle) -> Status {
    // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
    call(|| unsafe { the_handle(handle) }?.acquire(Patience::ForEver))
}

/// Like `syncline_acquire`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: the request keeps its place in the queue.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_acquire_for(handle: *mut Handle, nanoseconds: u64) -> Status {
    call(|| {
        let deadline = deadline(nanoseconds);
        // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
        unsafe { the_handle(handle) }?.acquire(deadline.map_or(Patience::ForEver, Patience::Until))
    })
}

/// Like `syncline_acquire`, but does not wait: returns `SYNCLINE_STATUS_NOT_GRANTED` if it would
/// have to.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_try_acquire(handle: *mut Handle) -> Status {
    // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
    call(|| unsafe { the_handle(handle) }?.acquire(Patience::None))
}

/// Posts the next request of a handle that holds its location, and then releases the location: a
/// task that iterates keeps its place in the order.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_next(handle: *mut Handle) -> Status {
    // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
    call(|| unsafe { the_handle(handle) }?.end(true))
}

/// Releases the location that the handle holds.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_release(handle: *mut Handle) -> Status {
    // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
    call(|| unsafe { the_handle(handle) }?.end(false))
}

/// Withdraws a posted request; later requests skip it. Does nothing if no request is posted.
///
/// # Safety
/// `handle` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_abandon(handle: *mut Handle) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `handle` points to a live handle.
        let mut handle = unsafe { the_handle(handle) }?;
        handle.free()?;
        either!(&mut handle.requests, handle => handle.abandon());
        Ok(())
    })
}
