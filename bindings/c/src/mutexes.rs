//! Sets of mutexes of a team: each member contributes a number of them.
//!
//! # Contract
//! The contract of `syncline_rma::lock` applies. A set belongs to the rma that created it, which
//! stores it under a number. The shell that C points to outlives the set, so that a later call can
//! report that the set was freed.
//!
//! # Costs
//! Those of the Rust mutexes, plus the flag of the rma.

use std::sync::Arc;

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Status, borrow, call, deadline, out};
use crate::rma::{self, Alive, Rma};

/// One member's view of a set of mutexes.
#[derive(Debug)]
pub struct RmaMutexes {
    owner: *const Rma,
    number: usize,
}

// SAFETY: the pointer is only compared, never dereferenced.
unsafe impl Send for RmaMutexes {}
// SAFETY: as for `Send`.
unsafe impl Sync for RmaMutexes {}

/// Takes a set for the length of a call.
///
/// # Safety
/// The rma and the set must be `NULL`, or have been given to C.
unsafe fn with<R>(
    rma: *mut Rma,
    set: *const RmaMutexes,
    work: impl FnOnce(&mut syncline_rma::Mutexes, &mut syncline_rma::Rma) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the caller guarantees that a non-null `set` was given to C, which keeps it live.
    let &RmaMutexes { owner, number } = unsafe { borrow(set, "the mutexes") }?;
    if owner != rma.cast_const() {
        return Err(Error::misuse("the mutexes belong to another rma"));
    }
    let work = |alive: &mut Alive| {
        let Alive { mutexes, rma, .. } = alive;
        let set = mutexes.get_mut(number).and_then(Option::as_mut);
        work(set.ok_or_else(|| Error::misuse("the mutexes were freed"))?, rma)
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    unsafe { rma::with(rma, work) }
}

/// Creates `count` mutexes at this member. All members call it together, each with a count of its
/// own. Each mutex is a queue: members get it in the order in which they ask, and between hosts one
/// message hands it over. Free the set with `syncline_rma_mutexes_free`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `*mutexes` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_mutexes_new(
    rma: *mut Rma,
    count: usize,
    mutexes: *mut *mut RmaMutexes,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `mutexes` is valid for writes.
        let mutexes = unsafe { out(mutexes, "mutexes") }?;
        let make = |alive: &mut Alive, member: &mut syncline_fabric::Member| {
            let set = alive.rma.mutexes(member, count)?;
            alive.mutexes.push(Some(set));
            Ok(Arc::new(RmaMutexes { owner: rma, number: alive.mutexes.len() - 1 }))
        };
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        let set = unsafe { rma::make(rma, make) }?;
        mutexes.write(set);
        Ok(())
    })
}

/// Waits for the mutex `index` of the member `rank`, and takes it. If the member that held it has
/// returned without releasing it, this is `SYNCLINE_STATUS_POISONED`, now and later; if that member
/// has died, `SYNCLINE_STATUS_GONE`. A mutex that this member holds already is
/// `SYNCLINE_STATUS_INVALID_ARGUMENT`.
///
/// # Safety
/// The conditions of `syncline_member_rma` apply. `mutexes` must be `NULL`, or come from
/// `syncline_rma_mutexes_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_lock(
    rma: *mut Rma,
    mutexes: *const RmaMutexes,
    rank: usize,
    index: usize,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_rma_lock_for(rma, mutexes, rank, index, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_lock`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`. The place in the queue stays, and the next call for this mutex
/// finds it again. If the mutex reaches that place in between, it passes on to the next waiting
/// member, and the next call enqueues again.
///
/// # Safety
/// The conditions of `syncline_rma_lock` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_lock_for(
    rma: *mut Rma,
    mutexes: *const RmaMutexes,
    rank: usize,
    index: usize,
    nanoseconds: u64,
) -> Status {
    let lock = |set: &mut syncline_rma::Mutexes, rma: &mut syncline_rma::Rma| {
        Ok(set.lock_deadline(rma, rank, index, deadline(nanoseconds))?)
    };
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, mutexes, lock) })
}

/// Releases a mutex once all writes of this member are complete: the next holder sees them.
///
/// # Safety
/// The conditions of `syncline_rma_lock` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_unlock(
    rma: *mut Rma,
    mutexes: *const RmaMutexes,
    rank: usize,
    index: usize,
) -> Status {
    // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
    // still there.
    call(|| unsafe { with(rma, mutexes, |set, rma| Ok(set.unlock(rma, rank, index)?)) })
}

/// Frees the set; all members call it together. If a member holds one of its own mutexes of the
/// set, that is `SYNCLINE_STATUS_INVALID_ARGUMENT` for that member and `SYNCLINE_STATUS_MISUSE` for
/// the others, and the set is unchanged.
///
/// # Safety
/// The conditions of `syncline_rma_lock` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_mutexes_free(
    rma: *mut Rma,
    mutexes: *mut RmaMutexes,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        unsafe { with(rma, mutexes, |_, _| Ok(())) }?;
        // SAFETY: the caller guarantees that `mutexes` was given to C; its shell is still there, as
        // `with` has found the rma alive.
        let number = unsafe { borrow(mutexes.cast_const(), "the mutexes") }?.number;
        let free = |alive: &mut Alive, member: &mut syncline_fabric::Member| {
            let Alive { rma, mutexes, .. } = alive;
            let set =
                mutexes[number].as_mut().ok_or_else(|| Error::misuse("the mutexes were freed"))?;
            set.free(rma, member)?;
            mutexes[number] = None;
            Ok(())
        };
        // SAFETY: the caller guarantees that a non-null `rma` was given to C, and that its shell is
        // still there.
        unsafe { rma::together(rma, free) }
    })
}
