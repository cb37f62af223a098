//! What completes operations on one-sided memory: waits for handles, fences, syncs.
//!
//! # Contract
//! | after                                | what is done                                                               |
//! |--------------------------------------|----------------------------------------------------------------------------|
//! | `syncline_rma_wait`, of a get        | its bytes are there                                                        |
//! | `syncline_rma_wait`, of another      | what was written is there for all to see                                   |
//! | `syncline_rma_fence`, `_fence_all`   | all that this member has written, to a member's host or wherever, is there |
//! | `syncline_rma_sync`                  | all that anybody has written before is there, and all have come            |

use std::collections::HashMap;

use syncline_rma::RmaError;
use syncline_sync::Fault;

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Status, call, deadline, out};
use crate::rma::{Alive, Rma, RmaHandle, with};

/// Waits for an operation, whose handle may be used again then; `NULL`: for all that were started without one. A get has
/// come; what was written is there for all to see. A handle that is zero is nothing to wait for.
///
/// # Safety
/// That of `syncline_member_rma`. `handle` is `NULL`, or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_wait(rma: *mut Rma, handle: *mut RmaHandle) -> Status {
    let wait = |alive: &mut Alive| {
        // SAFETY: as the caller vouches.
        if let Some(handle) = unsafe { handle.as_mut() } {
            let pending = alive.pending(handle)?;
            alive.gets.remove(&pending.to_words());
            handle.words = [0; 4];
            return Ok(alive.rma.wait_for(pending)?);
        }
        while let Some(get) = alive.implicit_gets.pop() {
            alive.rma.wait_for(get)?;
        }
        for (_, written) in std::mem::take(&mut alive.implicit_writes) {
            alive.rma.wait_for(written)?;
        }
        Ok(())
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, wait) })
}

/// Asks something of an rma, and writes the answer to `*done`.
///
/// # Safety
/// As `syncline_rma_test`.
unsafe fn ask(
    rma: *mut Rma,
    done: *mut bool,
    question: impl FnOnce(&mut Alive) -> Result<bool, Error>,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `*done` can be written.
        let done = unsafe { out(done, "done") }?;
        // SAFETY: as the caller vouches.
        done.write(unsafe { with(rma, question) }?);
        Ok(())
    })
}

/// Looks whether an operation is done, as `syncline_rma_wait` waits for it, and does not wait. If so, the handle may be
/// used again.
///
/// # Safety
/// As `syncline_rma_wait`. `*done` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_test(
    rma: *mut Rma,
    handle: *mut RmaHandle,
    done: *mut bool,
) -> Status {
    let test = |alive: &mut Alive| {
        // SAFETY: as the caller vouches.
        let complete = if let Some(handle) = unsafe { handle.as_mut() } {
            let pending = alive.pending(handle)?;
            let complete = alive.rma.is_done(pending)?;
            if complete {
                alive.gets.remove(&pending.to_words());
                handle.words = [0; 4];
            }
            complete
        } else {
            while let Some(&get) = alive.implicit_gets.last() {
                if !alive.rma.is_done(get)? {
                    break;
                }
                alive.implicit_gets.pop();
            }
            let mut under_way = HashMap::new();
            for (rank, written) in std::mem::take(&mut alive.implicit_writes) {
                if !alive.rma.is_done(written)? {
                    under_way.insert(rank, written);
                }
            }
            alive.implicit_writes = under_way;
            alive.implicit_gets.is_empty() && alive.implicit_writes.is_empty()
        };
        Ok(complete)
    };
    // SAFETY: as the caller vouches.
    unsafe { ask(rma, done, test) }
}

/// Waits for everything that this member has started, with handles or without. Handles are waited for still, at once.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_wait_all(rma: *mut Rma) -> Status {
    let wait = |alive: &mut Alive| {
        alive.wait_for_gets()?;
        alive.implicit_writes.clear();
        Ok(alive.rma.fence_all()?)
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, wait) })
}

/// Waits until everything that this member has written to the memory of `rank` is there for all to see.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fence(rma: *mut Rma, rank: usize) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, |alive| Ok(alive.rma.fence(rank)?)) })
}

/// Waits until everything that this member has written, to whatever member, is there for all to see.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fence_all(rma: *mut Rma) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, |alive| Ok(alive.rma.fence_all()?)) })
}

/// Waits until all members have come here, and everything that any of them has written before is done: a fence of all and
/// a barrier in one. What any did before is seen by whoever comes out. A member that is gone is `SYNCLINE_STATUS_GONE`.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync(rma: *mut Rma) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_rma_sync_for(rma, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_sync`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: this member has arrived and stays so, and what it writes from
/// then on is of the next sync. The same call, `syncline_rma_sync`, `syncline_rma_sync_wait` or
/// `syncline_rma_sync_done` goes on; until it is complete, no allocation or the like is begun:
/// `SYNCLINE_STATUS_MISUSE`.
///
/// A member that timed out calls one of them again, or stays in its function, until the others have
/// passed. If it returns before, they may be told that it has left: `SYNCLINE_STATUS_GONE`.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_for(rma: *mut Rma, nanoseconds: u64) -> Status {
    let sync = |alive: &mut Alive| {
        if !alive.timed_out {
            alive.no_sync_started()?;
        }
        let synced = alive.rma.sync_deadline(deadline(nanoseconds));
        alive.timed_out = matches!(synced, Err(RmaError::Fault(Fault::TimedOut)));
        alive.started = alive.timed_out;
        Ok(synced?)
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, sync) })
}

/// Arrives at a sync, and does not wait: what is written from now on is of the next. `syncline_rma_sync_wait` follows, or
/// `syncline_rma_sync_done` until that says so; until then no other sync, allocation or free is begun:
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_start(rma: *mut Rma) -> Status {
    let start = |alive: &mut Alive| {
        alive.no_sync_started()?;
        alive.rma.sync_start()?;
        alive.started = true;
        Ok(())
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, start) })
}

/// Waits until the sync at which this member has arrived is complete. Without one that was started
/// it is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_wait(rma: *mut Rma) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_rma_sync_wait_for(rma, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_sync_wait`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: it may be called again.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_wait_for(rma: *mut Rma, nanoseconds: u64) -> Status {
    let wait = |alive: &mut Alive| {
        if !alive.started {
            return Err(Error::misuse("no sync is started"));
        }
        alive.rma.sync_wait(deadline(nanoseconds))?;
        (alive.started, alive.timed_out) = (false, false);
        Ok(())
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, wait) })
}

/// Looks whether the sync at which this member has arrived is complete, and does not wait. `*done` is true then, and also
/// if it has arrived at none.
///
/// # Safety
/// That of `syncline_member_rma`. `*done` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_done(rma: *mut Rma, done: *mut bool) -> Status {
    let look = |alive: &mut Alive| {
        let complete = !alive.started || alive.rma.sync_done()?;
        alive.started = !complete;
        alive.timed_out &= !complete;
        Ok(complete)
    };
    // SAFETY: as the caller vouches.
    unsafe { ask(rma, done, look) }
}

/// As `syncline_rma_sync`, also for those who look past it, such as devices: all is in the memory of all hosts.
///
/// # Safety
/// That of `syncline_member_rma`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_global(rma: *mut Rma) -> Status {
    let sync = |alive: &mut Alive| {
        alive.no_sync_started()?;
        Ok(alive.rma.sync_global()?)
    };
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, sync) })
}
