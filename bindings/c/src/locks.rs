//! Queue locks: first come, first served.
//!
//! # Contract
//! As with barriers, a lock holds its members (a lock of a team only the member that created it),
//! and a call names one by its rank. In C no guard can borrow the lock, so each member records
//! whether it holds the lock:
//!
//! ```text
//!    acquire, try_acquire, acquire_for, recover, recover_for
//!   idle ────────────────────────────────────> held
//!    ^                                          │ │
//!    └───────────────── release ────────────────┘ └── declare_dead ──> dead; the others recover
//! ```
//!
//! # Costs
//! Those of the Rust lock, plus a flag per rank (two atomic exchanges on a line that only this
//! member writes, at each call) and a branch on the kind. Only failures allocate.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use syncline_fabric::member::Collective;
use syncline_sync::{
    Lock as Queue, Mcs, Space, SpaceError, Ticket, lock::LockMember, membership::FaultList,
};

use crate::error::{Error, Status, borrow, call, claim, deadline, out, unused};

/// The algorithm by which a lock queues its waiters.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Each waiter draws a number, and one number is served: the least work at low contention.
    Ticket = 0,
    /// A chain, in which each waiter waits for its predecessor on a cache line of its own: for high
    /// contention.
    Mcs = 1,
}

impl LockKind {
    pub(crate) fn of(number: u32) -> Result<Self, Error> {
        let known =
            [LockKind::Ticket, LockKind::Mcs].into_iter().find(|&kind| kind as u32 == number);
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_lock_kind {number}")))
    }
}

/// A lock with its members, of ranks 0, 1 and so on. It is either a lock for the threads of a
/// process, or one member's part of a lock of a team. The data that it guards belong to the
/// program.
#[derive(Debug)]
pub struct Lock {
    seats: Box<[Seat]>,
    /// The rank of the first seat.
    first: usize,
    /// The number of members, in this object and in others.
    members: usize,
    /// The death record, with the process that took the seats; `None` for a team, which declares
    /// deaths itself.
    fault_list: Option<(FaultList, u32)>,
}

/// The member of a rank. Each seat has cache lines of its own, as other members run at the same
/// time.
#[repr(align(128))]
#[derive(Debug)]
struct Seat(Mutex<Use>);

#[derive(Debug)]
struct Use {
    member: Member,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Held,
    Dead,
}

#[derive(Debug)]
enum Member {
    Ticket(LockMember<Ticket>),
    Mcs(LockMember<Mcs>),
}

/// Applies an expression to a member of either kind.
macro_rules! each {
    ($member:expr, $it:ident => $do:expr) => {
        match $member {
            Member::Ticket($it) => $do,
            Member::Mcs($it) => $do,
        }
    };
}

/// A lock of either kind, without its members.
enum Any {
    Ticket(Queue<Ticket>),
    Mcs(Queue<Mcs>),
}

impl Any {
    fn within(space: &mut Space, kind: LockKind, members: usize) -> Result<Any, SpaceError> {
        Ok(match kind {
            LockKind::Ticket => Any::Ticket(Queue::within(space, members)?),
            LockKind::Mcs => Any::Mcs(Queue::within(space, members)?),
        })
    }
}

impl Collective for Any {
    type Seat = Seat;

    fn watched(self, fault_list: &FaultList) -> Self {
        match self {
            Any::Ticket(lock) => Any::Ticket(lock.watching(fault_list)),
            Any::Mcs(lock) => Any::Mcs(lock.watching(fault_list)),
        }
    }

    fn seat(&self, rank: usize) -> Result<Seat, SpaceError> {
        let member = match self {
            Any::Ticket(lock) => Member::Ticket(lock.member(rank)?),
            Any::Mcs(lock) => Member::Mcs(lock.member(rank)?),
        };
        Ok(Seat(Mutex::new(Use { member, state: State::Idle })))
    }
}

impl Lock {
    fn of_threads(kind: LockKind, members: usize) -> Result<Lock, Error> {
        let space = &mut Space::heap();
        let lock = Any::within(space, kind, members)?;
        let fault_list = FaultList::within(space, members)?;
        let lock = lock.watched(&fault_list);
        let seats = (0..members).map(|rank| lock.seat(rank)).collect::<Result<_, _>>()?;
        Ok(Lock { seats, first: 0, members, fault_list: Some((fault_list, std::process::id())) })
    }

    /// Returns the part of one member of a team.
    pub(crate) fn of_team(me: &mut syncline_fabric::Member, kind: LockKind) -> Result<Lock, Error> {
        let (first, members) = (me.rank(), me.size());
        let seat = me.make(|space, members| Any::within(space, kind, members))?;
        Ok(Lock { seats: Box::new([seat]), first, members, fault_list: None })
    }

    /// Returns whether one of its ranks holds the lock, or a call uses it.
    pub(crate) fn in_use(&self) -> bool {
        let in_use = |seat: &Seat| match claim(&seat.0, "") {
            Ok(seat) => seat.state == State::Held,
            Err(_) => true,
        };
        self.seats.iter().any(in_use)
    }
}

/// Takes the seat of a rank for the length of a call, if that rank is alive.
///
/// # Safety
/// The lock must be `NULL`, or live for `'a`.
#[inline]
unsafe fn seat<'a>(lock: *const Lock, rank: usize) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: the caller guarantees that a non-null `lock` points to a live lock.
    let Lock { seats, first, members, .. } = unsafe { borrow(lock, "the lock") }?;
    let seat = seats
        .get(rank.wrapping_sub(*first))
        .ok_or_else(|| Error::not_here(rank, *members, "lock"))?;
    let seat = claim(&seat.0, "this rank of the lock")?;
    each!(&seat.member, member => member.check_not_forked()?);
    if seat.state == State::Dead {
        return Err(Error::misuse(format!("rank {rank} was declared dead")));
    }
    Ok(seat)
}

/// Takes the seat of a rank that does not hold the lock.
///
/// # Safety
/// The conditions of `seat` apply.
#[inline]
unsafe fn idle<'a>(lock: *const Lock, rank: usize) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: the caller guarantees that a non-null `lock` was not freed.
    let seat = unsafe { seat(lock, rank) }?;
    if seat.state == State::Held {
        return Err(Error::misuse(format!("rank {rank} holds the lock already")));
    }
    Ok(seat)
}

/// # Safety
/// The conditions of `syncline_lock_acquire` apply.
#[inline]
unsafe fn acquire(lock: *const Lock, rank: usize, until: Option<Instant>) -> Result<(), Error> {
    // SAFETY: the caller guarantees that a non-null `lock` was not freed.
    let mut seat = unsafe { idle(lock, rank) }?;
    // The member holds the lock from here on; see the contract of the module.
    each!(&mut seat.member, member => std::mem::forget(member.lock_deadline(until)?));
    seat.state = State::Held;
    Ok(())
}

/// Creates a lock with 1 to 4096 members. `kind` is a `syncline_lock_kind`. Free it with
/// `syncline_lock_free`.
///
/// # Safety
/// `*lock` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_new(
    kind: u32,
    members: usize,
    lock: *mut *mut Lock,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `lock` is valid for writes.
        let lock = unsafe { out(lock, "lock") }?;
        let new = Box::new(Lock::of_threads(LockKind::of(kind)?, members)?);
        lock.write(Box::into_raw(new));
        Ok(())
    })
}

/// Frees a lock; does nothing for `NULL`. Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing,
/// while a rank holds the lock or a call uses it, or if it is a lock of a team, which is freed when
/// the function of the member returns.
///
/// # Safety
/// `lock` must come from `syncline_lock_new` or from a member of a team that has not returned, and
/// no other call with it may begin after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_free(lock: *mut Lock) -> Status {
    if lock.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: `lock` is not `NULL`, and the caller guarantees that it was not freed.
        let Lock { seats, fault_list, .. } = unsafe { &*lock };
        if fault_list.is_none() {
            return Err(Error::misuse(
                "the lock is given back when the function of the member returns",
            ));
        }
        for (rank, seat) in seats.iter().enumerate() {
            unused(&seat.0, "the lock")?;
            if seat.0.try_lock().is_ok_and(|seat| seat.state == State::Held) {
                return Err(Error::misuse(format!("rank {rank} holds the lock")));
            }
        }
        // SAFETY: `syncline_lock_new` made the box, as it is no lock of a team; no call is using
        // it, as checked above, and the caller guarantees that none begins.
        drop(unsafe { Box::from_raw(lock) });
        Ok(())
    })
}

/// Waits, as the member `rank`, for the lock, and takes it. Members get the lock in the order in
/// which they ask.
///
/// Writes made under the lock before are visible. Returns `SYNCLINE_STATUS_GONE` if it would have
/// to wait and a member is dead, whether or not that member holds the lock. Returns
/// `SYNCLINE_STATUS_POISONED` if a member returned from its team with the lock, or died with it and
/// the lock was repaired, but not recovered. After either, `syncline_lock_recover` can take the
/// lock.
///
/// # Safety
/// `lock` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_acquire(lock: *mut Lock, rank: usize) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { acquire(lock, rank, None) })
}

/// Like `syncline_lock_acquire`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: the member keeps its place in the queue, and its next call finds
/// that place again unless its turn has come before.
///
/// # Safety
/// `lock` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_acquire_for(
    lock: *mut Lock,
    rank: usize,
    nanoseconds: u64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { acquire(lock, rank, deadline(nanoseconds)) })
}

/// Like `syncline_lock_acquire`, but does not wait: returns `SYNCLINE_STATUS_NOT_GRANTED` if it
/// would have to.
///
/// # Safety
/// `lock` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_try_acquire(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `lock` was not freed.
        let mut seat = unsafe { idle(lock, rank) }?;
        let free =
            each!(&mut seat.member, member => member.try_lock()?.map(std::mem::forget).is_some());
        if !free {
            return Err(Error::new(Status::NotGranted, "the lock is not free"));
        }
        seat.state = State::Held;
        Ok(())
    })
}

/// Releases the lock as the member `rank`. Returns `SYNCLINE_STATUS_MISUSE` if that member does not
/// hold it.
///
/// # Safety
/// `lock` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_release(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `lock` was not freed.
        let mut seat = unsafe { seat(lock, rank) }?;
        if seat.state != State::Held {
            return Err(Error::misuse(format!("rank {rank} does not hold the lock")));
        }
        seat.state = State::Idle;
        // SAFETY: the member holds the lock, as its state says; its guard was forgotten, and no
        // reference derived from the guard was kept.
        each!(&mut seat.member, member => unsafe { member.unlock() });
        Ok(())
    })
}

/// Declares the member `rank` dead: its thread has ended, and may have held the lock. The waiting
/// members get `SYNCLINE_STATUS_GONE`, and each member that is to continue calls
/// `syncline_lock_recover`. A rank that is dead cannot come back. For a lock of a team this is
/// `SYNCLINE_STATUS_MISUSE`: a team declares its dead members itself.
///
/// # Safety
/// `lock` must not have been freed. No thread may touch the data that the lock guards as this
/// member after this call: another member may hold the lock at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_declare_dead(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `lock` was not freed.
        let (mut seat, lock) = (unsafe { seat(lock, rank) }?, unsafe { borrow(lock, "the lock") }?);
        let fault_list = lock.fault_list.as_ref();
        let (fault_list, process) =
            fault_list.ok_or_else(|| Error::misuse("a team declares its dead itself"))?;
        seat.state = State::Dead;
        // SAFETY: no call with this member is in progress, as this call holds its seat, and none
        // will begin, as the seat is marked dead. The member is dropped only together with all
        // others, by `syncline_lock_free`. The caller guarantees that the thread of the member does
        // not touch the data that the lock guards (see `# Safety`).
        unsafe { fault_list.declare_dead(rank, *process) };
        Ok(())
    })
}

/// # Safety
/// The conditions of `syncline_lock_recover` apply.
unsafe fn recover(
    lock: *const Lock,
    rank: usize,
    poisoned: *mut bool,
    until: impl FnOnce() -> Option<Instant>,
) -> Result<(), Error> {
    // SAFETY: the caller guarantees that a non-null `poisoned` is valid for writes.
    let poisoned = unsafe { out(poisoned, "poisoned") }?;
    // SAFETY: the caller guarantees that a non-null `lock` was not freed.
    let mut seat = unsafe { idle(lock, rank) }?;
    let half_changed = each!(&mut seat.member, member => {
        let guard = member.recover(until())?;
        let by = guard.poisoned_by();
        // The member holds the lock from here on; see the contract of the module.
        std::mem::forget(guard);
        by.is_some()
    });
    seat.state = State::Held;
    poisoned.write(half_changed);
    Ok(())
}

/// Takes the lock, as the member `rank`, despite the deaths so far: repairs the queue once all
/// other members are out of it, and waits for the lock. Stores in `*poisoned` whether a member died
/// or returned while it held the lock, so that the guarded data may be partly changed.
///
/// # Safety
/// `lock` must not have been freed. `*poisoned` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_recover(
    lock: *mut Lock,
    rank: usize,
    poisoned: *mut bool,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { recover(lock, rank, poisoned, || None) })
}

/// Like `syncline_lock_recover`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: a live member holds the lock, waits for it, or repairs it.
///
/// # Safety
/// The conditions of `syncline_lock_recover` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_recover_for(
    lock: *mut Lock,
    rank: usize,
    nanoseconds: u64,
    poisoned: *mut bool,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { recover(lock, rank, poisoned, || deadline(nanoseconds)) })
}
