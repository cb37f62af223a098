//! Completion of operations on one-sided memory: waits for handles, fences, syncs.
//!
//! # Contract
//! | after                           | state                                                      |
//! |---------------------------------|------------------------------------------------------------|
//! | `syncline_rma_wait`, of a get   | its bytes have arrived                                     |
//! | `syncline_rma_wait`, of a write | it is visible to all members                               |
//! | `syncline_rma_fence`            | all writes of this member to a member's host are visible   |
//! | `syncline_rma_fence_all`        | all writes of this member are visible                      |
//! | `syncline_rma_sync`             | all earlier writes are visible, and all members are there  |

use std::collections::HashMap;

use syncline_rma::RmaError;
use syncline_sync::Fault;

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Status, call, deadline, out};
use crate::rma::{Alive, Rma, RmaHandle, with};

/// Waits for an operation, whose handle can be reused afterwards; with `NULL`, for all operations
/// that were started without a handle. After the wait the bytes of a get have arrived, and a write
/// is visible to all members. For a handle that is zero it returns at once.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `handle` must be `NULL`, or valid for reads and
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_wait(rma: *mut Rma, handle: *mut RmaHandle) -> Status {
    let wait = |alive: &mut Alive| {
        // SAFETY: the caller guarantees that a non-null `handle` is valid for reads and writes.
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
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, wait) })
}

/// Evaluates a question about an rma, and writes the answer to `*done`.
///
/// # Safety
/// The conditions of `syncline_rma_test` apply.
unsafe fn ask(
    rma: *mut Rma,
    done: *mut bool,
    question: impl FnOnce(&mut Alive) -> Result<bool, Error>,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `*done` can be written.
        let done = unsafe { out(done, "done") }?;
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        done.write(unsafe { with(rma, question) }?);
        Ok(())
    })
}

/// Stores in `*done` whether an operation is complete, in the sense of `syncline_rma_wait`, without
/// waiting. If it is, the handle can be reused.
///
/// # Safety
/// The conditions of `syncline_rma_wait` apply. `*done` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_test(
    rma: *mut Rma,
    handle: *mut RmaHandle,
    done: *mut bool,
) -> Status {
    let test = |alive: &mut Alive| {
        // SAFETY: the caller guarantees that a non-null `handle` is valid for reads and writes.
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
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { ask(rma, done, test) }
}

/// Waits for all operations that this member has started, with or without handles. A handle still
/// has to be waited for before it is reused; that wait returns at once.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_wait_all(rma: *mut Rma) -> Status {
    let wait = |alive: &mut Alive| {
        alive.wait_for_gets()?;
        alive.implicit_writes.clear();
        Ok(alive.rma.fence_all()?)
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, wait) })
}

/// Waits until all writes of this member to the memory of `rank` are visible to all members.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fence(rma: *mut Rma, rank: usize) -> Status {
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, |alive| Ok(alive.rma.fence(rank)?)) })
}

/// Waits until all writes of this member, to any member, are visible to all members.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_fence_all(rma: *mut Rma) -> Status {
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, |alive| Ok(alive.rma.fence_all()?)) })
}

/// Waits until all members have arrived at the sync, and all earlier writes of all of them are
/// complete: a fence of all members and a barrier in one. All members call it. Writes before the
/// sync are visible to every member that returns from it. If a member is gone, this is
/// `SYNCLINE_STATUS_GONE`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync(rma: *mut Rma) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_rma_sync_for(rma, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_sync`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: this member has arrived and remains arrived, and its later writes
/// belong to the next sync. The same call, `syncline_rma_sync`, `syncline_rma_sync_wait` or
/// `syncline_rma_sync_done` continues the sync; until it is complete, beginning an allocation or
/// another collective operation of the rma is `SYNCLINE_STATUS_MISUSE`.
///
/// A member that timed out must call one of them again, or stay in its function, until the others
/// have passed. If it returns before, the others may get `SYNCLINE_STATUS_GONE`, as it has left.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
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
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, sync) })
}

/// Arrives at a sync without waiting: later writes belong to the next sync. Follow it with
/// `syncline_rma_sync_wait`, or with `syncline_rma_sync_done` until that reports completion. Until
/// then, beginning another sync, an allocation or a free is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_start(rma: *mut Rma) -> Status {
    let start = |alive: &mut Alive| {
        alive.no_sync_started()?;
        alive.rma.sync_start()?;
        alive.started = true;
        Ok(())
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, start) })
}

/// Waits until the sync at which this member has arrived is complete. If no sync was started, this
/// is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_wait(rma: *mut Rma) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_rma_sync_wait_for(rma, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_sync_wait`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: the call may be repeated.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
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
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, wait) })
}

/// Stores in `*done` whether the sync at which this member has arrived is complete, without
/// waiting. `*done` is also true if the member has arrived at no sync.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `*done` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_done(rma: *mut Rma, done: *mut bool) -> Status {
    let look = |alive: &mut Alive| {
        let complete = !alive.started || alive.rma.sync_done()?;
        alive.started = !complete;
        alive.timed_out &= !complete;
        Ok(complete)
    };
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { ask(rma, done, look) }
}

/// Like `syncline_rma_sync`, and also makes all writes visible to observers that bypass the sync,
/// such as devices: they are in the memory of all hosts.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_sync_global(rma: *mut Rma) -> Status {
    let sync = |alive: &mut Alive| {
        alive.no_sync_started()?;
        Ok(alive.rma.sync_global()?)
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, sync) })
}
