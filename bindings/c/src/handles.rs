//! Handles: ordered locks used by hand.
//!
//! # Contract
//! A handle in Rust gives a guard that borrows it. In C there are no borrows, so the handle itself knows
//! whether it holds its location, and a wrong turn is an error:
//!
//! ```text
//!            post            acquire (granted)
//!   idle ───────────> posted ─────────────────> held
//!    ^ ^               │ ^                      │  │
//!    │ └── abandon ────┘ └───────── next ───────┘  │
//!    └──────────────────────── release ────────────┘
//! ```
//!
//! While a handle is held its guard is forgotten; `next` and `release` ask for it again, which a granted
//! handle gives at once.
//!
//! # Costs
//! On top of those in Rust: two atomic exchanges, to keep two threads from one handle. Nothing allocates
//! but what fails.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use syncline_overlay::handle::{Exclusive, Guard, Handle as Requests, Inclusive, Post, post_all};

use crate::error::{Error, Status, array, borrow, call, claim, deadline, out, unused};
use crate::locations::Location;

/// What a task holds to ask for a location. It has one request at a time. Access belongs to the handle, not
/// to a thread: one thread may post and another acquire, but one at a time.
#[derive(Debug)]
pub struct Handle(Mutex<Use>);

#[derive(Debug)]
struct Use {
    requests: Either,
    /// It was acquired, and neither released nor taken on to the next request.
    held: bool,
}

#[derive(Debug)]
enum Either {
    Reader(Requests<(), Inclusive>),
    Writer(Requests<(), Exclusive>),
}

/// The same for both kinds of handle.
macro_rules! either {
    ($either:expr, $handle:ident => $do:expr) => {
        match $either {
            Either::Reader($handle) => $do,
            Either::Writer($handle) => $do,
        }
    };
}

/// How long a call waits.
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
            // The handle goes on to hold its location; see above.
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
            // Whatever comes, it is not held any more.
            self.held = false;
            match handle.try_acquire()? {
                Some(guard) if next => Guard::next(guard),
                guard => drop(guard),
            }
        });
        Ok(())
    }
}

/// Takes the handle for a call.
///
/// # Safety
/// The handle is `NULL`, or one that lives for `'a`.
unsafe fn the_handle<'a>(handle: *const Handle) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: as the caller vouches.
    claim(unsafe { &borrow(handle, "the handle")?.0 }, "the handle")
}

/// # Safety
/// The location is `NULL` or one that lives, and `*handle` can be written.
unsafe fn new(
    location: *const Location,
    handle: *mut *mut Handle,
    requests: impl FnOnce(&Location) -> Either,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let handle = unsafe { out(handle, "handle") }?;
        // SAFETY: as the caller vouches.
        let requests = requests(unsafe { borrow(location, "the location") }?);
        let new = Box::new(Handle(Mutex::new(Use { requests, held: false })));
        handle.write(Box::into_raw(new));
        Ok(())
    })
}

/// Makes a handle whose requests are inclusive: to read, together with neighbouring readers.
///
/// # Safety
/// `location` comes from `syncline_location_new` and was not freed. `*handle` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_reader_new(
    location: *const Location,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { new(location, handle, |location| Either::Reader(location.0.reader())) }
}

/// Makes a handle whose requests are exclusive: to write, alone.
///
/// # Safety
/// `location` comes from `syncline_location_new` and was not freed. `*handle` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_writer_new(
    location: *const Location,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: as the caller vouches.
    unsafe { new(location, handle, |location| Either::Writer(location.0.writer())) }
}

/// Gives a handle back, and with it what it has posted or holds; `NULL` is nothing. Does not wait. It is
/// `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while another call uses the handle.
///
/// # Safety
/// `handle` comes from `syncline_reader_new` or `syncline_writer_new`, and no other call with it begins
/// from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_handle_free(handle: *mut Handle) -> Status {
    if handle.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: as the caller vouches.
        unused(unsafe { &(*handle).0 }, "the handle")?;
        // SAFETY: as the caller vouches: nobody uses the handle, or ever will.
        drop(unsafe { Box::from_raw(handle) });
        Ok(())
    })
}

/// Takes the next place in the queue, and returns at once. Does nothing if that was done.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_post(handle: *mut Handle) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mut handle = unsafe { the_handle(handle) }?;
        handle.free()?;
        either!(&mut handle.requests, handle => handle.post());
        Ok(())
    })
}

/// Posts the first requests of one task over several locations as if at once.
///
/// Two tasks that both need `a` and `b` could otherwise stand first in one queue and second in the other,
/// each, and wait for ever. If any of the handles cannot be posted, none is.
///
/// # Safety
/// `handles` points to `count` handles that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_post_all(handles: *const *mut Handle, count: usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let handles = unsafe { array(handles, count, "the array of handles") }?;
        let claim = |(i, &handle)| {
            let twice = |error| match handles[..i].contains(&handle) {
                true => Error::invalid("a handle stands twice in the array of handles"),
                false => error,
            };
            // SAFETY: as the caller vouches.
            unsafe { the_handle(handle) }.map_err(twice)
        };
        let mut claimed: Vec<_> =
            handles.iter().enumerate().map(claim).collect::<Result<_, _>>()?;
        claimed.iter().try_for_each(|handle| handle.free())?;
        post_all(&mut claimed.iter_mut().map(|handle| handle.as_post()).collect::<Vec<_>>());
        Ok(())
    })
}

/// Waits until the posted request is granted; posts it first if that was not done.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_acquire(handle: *mut Handle) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_handle(handle) }?.acquire(Patience::ForEver))
}

/// Like `syncline_acquire`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT`
/// then: the request keeps its place in the queue.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_acquire_for(handle: *mut Handle, nanoseconds: u64) -> Status {
    call(|| {
        let deadline = deadline(nanoseconds);
        // SAFETY: as the caller vouches.
        unsafe { the_handle(handle) }?.acquire(deadline.map_or(Patience::ForEver, Patience::Until))
    })
}

/// Like `syncline_acquire`, but does not wait: `SYNCLINE_STATUS_NOT_GRANTED` if it would have to.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_try_acquire(handle: *mut Handle) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_handle(handle) }?.acquire(Patience::None))
}

/// Posts the next request of a handle that holds its location, and then releases: who goes round keeps its
/// place in the order.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_next(handle: *mut Handle) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_handle(handle) }?.end(true))
}

/// Releases what the handle holds.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_release(handle: *mut Handle) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { the_handle(handle) }?.end(false))
}

/// Takes a posted request back; later ones skip it. Does nothing if nothing is posted.
///
/// # Safety
/// `handle` is one that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_abandon(handle: *mut Handle) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mut handle = unsafe { the_handle(handle) }?;
        handle.free()?;
        either!(&mut handle.requests, handle => handle.abandon());
        Ok(())
    })
}
