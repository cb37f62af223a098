//! Mutexes of a team, in sets: so many at each member.
//!
//! # Contract
//! That of `syncline_rma::lock`. A set belongs to the rma that it was made by, and is known by its number there; a shell that
//! C points to outlives it, and says that it was freed.
//!
//! # Costs
//! On top of those in Rust: the flag of the rma.

use std::sync::Arc;

use crate::SYNCLINE_FOREVER;
use crate::error::{Error, Status, borrow, call, deadline, out};
use crate::rma::{self, Alive, Rma};

/// A set of mutexes, as one member knows it.
#[derive(Debug)]
pub struct RmaMutexes {
    owner: *const Rma,
    number: usize,
}

// SAFETY: the pointer is compared, and nothing else.
unsafe impl Send for RmaMutexes {}
// SAFETY: as above.
unsafe impl Sync for RmaMutexes {}

/// Takes a set for a call.
///
/// # Safety
/// The rma and the set are `NULL`, or were given to C.
unsafe fn with<R>(
    rma: *mut Rma,
    set: *const RmaMutexes,
    work: impl FnOnce(&mut syncline_rma::Mutexes, &mut syncline_rma::Rma) -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: as the caller vouches.
    let &RmaMutexes { owner, number } = unsafe { borrow(set, "the mutexes") }?;
    if owner != rma.cast_const() {
        return Err(Error::misuse("the mutexes belong to another rma"));
    }
    let work = |alive: &mut Alive| {
        let Alive { mutexes, rma, .. } = alive;
        let set = mutexes.get_mut(number).and_then(Option::as_mut);
        work(set.ok_or_else(|| Error::misuse("the mutexes were freed"))?, rma)
    };
    // SAFETY: as the caller vouches.
    unsafe { rma::with(rma, work) }
}

/// Makes so many mutexes at this member, with all others, who make as many as they like. They are queues: members get a
/// mutex in the order in which they asked, and between hosts one message hands it over.
///
/// # Safety
/// That of `syncline_member_rma`. `*mutexes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_mutexes_new(
    rma: *mut Rma,
    count: usize,
    mutexes: *mut *mut RmaMutexes,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mutexes = unsafe { out(mutexes, "mutexes") }?;
        let make = |alive: &mut Alive, member: &mut syncline_fabric::Member| {
            let set = alive.rma.mutexes(member, count)?;
            alive.mutexes.push(Some(set));
            Ok(Arc::new(RmaMutexes { owner: rma, number: alive.mutexes.len() - 1 }))
        };
        // SAFETY: as the caller vouches.
        let set = unsafe { rma::make(rma, make) }?;
        mutexes.write(set);
        Ok(())
    })
}

/// Waits for a mutex of the member `rank`, and takes it. If the member that held it has returned
/// without letting it go, it is `SYNCLINE_STATUS_POISONED`, now and later; if that has died,
/// `SYNCLINE_STATUS_GONE`. To ask for one that this member holds is
/// `SYNCLINE_STATUS_INVALID_ARGUMENT`.
///
/// # Safety
/// That of `syncline_member_rma`. `mutexes` is `NULL`, or comes from `syncline_rma_mutexes_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_lock(
    rma: *mut Rma,
    mutexes: *const RmaMutexes,
    rank: usize,
    index: usize,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_rma_lock_for(rma, mutexes, rank, index, SYNCLINE_FOREVER) }
}

/// Like `syncline_rma_lock`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then. The place in the queue stays, and the next call for this mutex
/// finds it again. If the mutex comes to the place meanwhile, it goes on to the next member that
/// waits, and the next call asks anew.
///
/// # Safety
/// As `syncline_rma_lock`.
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
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, mutexes, lock) })
}

/// Lets a mutex go, when everything that this member has written is done: who holds it next sees that.
///
/// # Safety
/// As `syncline_rma_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_unlock(
    rma: *mut Rma,
    mutexes: *const RmaMutexes,
    rank: usize,
    index: usize,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { with(rma, mutexes, |set, rma| Ok(set.unlock(rma, rank, index)?)) })
}

/// Gives the set back, with all members. If one of them holds one of its mutexes, that is
/// `SYNCLINE_STATUS_INVALID_ARGUMENT` for that member and `SYNCLINE_STATUS_MISUSE` for the others,
/// and the set is as it was.
///
/// # Safety
/// As `syncline_rma_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_rma_mutexes_free(
    rma: *mut Rma,
    mutexes: *mut RmaMutexes,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        unsafe { with(rma, mutexes, |_, _| Ok(())) }?;
        // SAFETY: as the caller vouches.
        let number = unsafe { borrow(mutexes.cast_const(), "the mutexes") }?.number;
        let free = |alive: &mut Alive, member: &mut syncline_fabric::Member| {
            let Alive { rma, mutexes, .. } = alive;
            let set =
                mutexes[number].as_mut().ok_or_else(|| Error::misuse("the mutexes were freed"))?;
            set.free(rma, member)?;
            mutexes[number] = None;
            Ok(())
        };
        // SAFETY: as the caller vouches.
        unsafe { rma::together(rma, free) }
    })
}
