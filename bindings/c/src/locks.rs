//! Queue locks: first come, first served.
//!
//! # Contract
//! As for barriers, a lock holds its members, or a team's the one who made it, and a call names one by its rank. A guard
//! cannot borrow in C, so a member knows whether it holds the lock:
//!
//! ```text
//!    acquire, try_acquire, acquire_for, recover, recover_for
//!   idle ────────────────────────────────────> held
//!    ^                                          │ │
//!    └───────────────── release ────────────────┘ └── declare_dead ──> dead; the others recover
//! ```
//!
//! # Costs
//! On top of those in Rust: a flag per rank (two atomic exchanges of a line that only this member writes, at each call)
//! and a branch on the kind. Nothing allocates but what fails.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use syncline_fabric::member::Collective;
use syncline_sync::{
    Lock as Queue, Mcs, Space, SpaceError, Ticket, lock::LockMember, membership::FaultList,
};

use crate::error::{Error, Status, borrow, call, claim, deadline, out, unused};

/// How those who wait for a lock stand in line.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Numbers are drawn, and one is called: the least work while few want the lock.
    Ticket = 0,
    /// A chain, in which each waits for the one before on a line of its own: for many that want it at once.
    Mcs = 1,
}

impl LockKind {
    pub(crate) fn of(number: u32) -> Result<Self, Error> {
        let known =
            [LockKind::Ticket, LockKind::Mcs].into_iter().find(|&kind| kind as u32 == number);
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_lock_kind {number}")))
    }
}

/// A lock, with its members: their ranks are 0, 1 and so on. It is for the threads of a process; or one member's part of a
/// lock of a team. What it guards belongs to the program.
#[derive(Debug)]
pub struct Lock {
    seats: Box<[Seat]>,
    /// The rank of the first seat.
    first: usize,
    /// The members that have their seats here or elsewhere.
    members: usize,
    /// To declare deaths, in the process that took the seats; a team does that itself.
    fault_list: Option<(FaultList, u32)>,
}

/// The member of a rank. Alone on its lines: others go on while this one is at work.
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

/// The same for both kinds of members.
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

    /// The part of a member of a team.
    pub(crate) fn of_team(me: &mut syncline_fabric::Member, kind: LockKind) -> Result<Lock, Error> {
        let (first, members) = (me.rank(), me.size());
        let seat = me.make(|space, members| Any::within(space, kind, members))?;
        Ok(Lock { seats: Box::new([seat]), first, members, fault_list: None })
    }

    /// Whether one of its ranks holds it, or a call uses it.
    pub(crate) fn in_use(&self) -> bool {
        let in_use = |seat: &Seat| match claim(&seat.0, "") {
            Ok(seat) => seat.state == State::Held,
            Err(_) => true,
        };
        self.seats.iter().any(in_use)
    }
}

/// Takes the seat of a rank for a call, if that rank is alive.
///
/// # Safety
/// The lock is `NULL`, or one that lives for `'a`.
#[inline]
unsafe fn seat<'a>(lock: *const Lock, rank: usize) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: as the caller vouches.
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
/// As `seat`.
#[inline]
unsafe fn idle<'a>(lock: *const Lock, rank: usize) -> Result<MutexGuard<'a, Use>, Error> {
    // SAFETY: as the caller vouches.
    let seat = unsafe { seat(lock, rank) }?;
    if seat.state == State::Held {
        return Err(Error::misuse(format!("rank {rank} holds the lock already")));
    }
    Ok(seat)
}

/// # Safety
/// As `syncline_lock_acquire`.
#[inline]
unsafe fn acquire(lock: *const Lock, rank: usize, until: Option<Instant>) -> Result<(), Error> {
    // SAFETY: as the caller vouches.
    let mut seat = unsafe { idle(lock, rank) }?;
    // The member goes on to hold the lock; see above.
    each!(&mut seat.member, member => std::mem::forget(member.lock_deadline(until)?));
    seat.state = State::Held;
    Ok(())
}

/// Makes a lock with 1 to 4096 members. `kind` is one of `syncline_lock_kind`.
///
/// # Safety
/// `*lock` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_new(
    kind: u32,
    members: usize,
    lock: *mut *mut Lock,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let lock = unsafe { out(lock, "lock") }?;
        let new = Box::new(Lock::of_threads(LockKind::of(kind)?, members)?);
        lock.write(Box::into_raw(new));
        Ok(())
    })
}

/// Gives a lock back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a rank holds it or a
/// call uses it.
///
/// # Safety
/// `lock` comes from `syncline_lock_new`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_free(lock: *mut Lock) -> Status {
    if lock.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: as the caller vouches.
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
        // SAFETY: as the caller vouches; no call uses it.
        drop(unsafe { Box::from_raw(lock) });
        Ok(())
    })
}

/// Waits, as the member `rank`, for the lock, in the order in which members ask.
///
/// What was done under the lock before is seen. It is `SYNCLINE_STATUS_GONE` if it would have to
/// wait and a member is dead, whether or not that member holds it. It is
/// `SYNCLINE_STATUS_POISONED` if a member returned from its team with the lock, or died with it and
/// the lock was repaired, but not recovered. After both `syncline_lock_recover` goes on.
///
/// # Safety
/// `lock` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_acquire(lock: *mut Lock, rank: usize) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { acquire(lock, rank, None) })
}

/// Like `syncline_lock_acquire`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then: the member
/// keeps its place in the queue, and finds it again if its turn has not come before its next call.
///
/// # Safety
/// `lock` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_acquire_for(
    lock: *mut Lock,
    rank: usize,
    nanoseconds: u64,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { acquire(lock, rank, deadline(nanoseconds)) })
}

/// Like `syncline_lock_acquire`, but does not wait: `SYNCLINE_STATUS_NOT_GRANTED` if it would have to.
///
/// # Safety
/// `lock` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_try_acquire(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
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

/// Lets go, as the member `rank`.
///
/// # Safety
/// `lock` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_release(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let mut seat = unsafe { seat(lock, rank) }?;
        if seat.state != State::Held {
            return Err(Error::misuse(format!("rank {rank} does not hold the lock")));
        }
        seat.state = State::Idle;
        // SAFETY: it held the lock, so its last guard was forgotten; nothing of it was kept.
        each!(&mut seat.member, member => unsafe { member.unlock() });
        Ok(())
    })
}

/// Declares the member `rank` dead: its thread has ended, and may have held the lock. Those who wait are told, and every
/// member that is to go on calls `syncline_lock_recover`. A rank that is dead cannot come back.
///
/// # Safety
/// `lock` was not freed. Nobody touches what the lock guards as this member any more: others may hold the lock at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_declare_dead(lock: *mut Lock, rank: usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (mut seat, lock) = (unsafe { seat(lock, rank) }?, unsafe { borrow(lock, "the lock") }?);
        let fault_list = lock.fault_list.as_ref();
        let (fault_list, process) =
            fault_list.ok_or_else(|| Error::misuse("a team declares its dead itself"))?;
        seat.state = State::Dead;
        // SAFETY: no call is under way with the member, which the lock holds, and none will begin, as its seat is marked.
        // It is dropped with all others only, by `syncline_lock_free`. What the lock guards belongs to the program, which
        // vouches that the member's thread does not touch it.
        unsafe { fault_list.declare_dead(rank, *process) };
        Ok(())
    })
}

/// # Safety
/// As `syncline_lock_recover`.
unsafe fn recover(
    lock: *const Lock,
    rank: usize,
    poisoned: *mut bool,
    until: impl FnOnce() -> Option<Instant>,
) -> Result<(), Error> {
    // SAFETY: as the caller vouches.
    let poisoned = unsafe { out(poisoned, "poisoned") }?;
    // SAFETY: as the caller vouches.
    let mut seat = unsafe { idle(lock, rank) }?;
    let half_changed = each!(&mut seat.member, member => {
        let guard = member.recover(until())?;
        let by = guard.poisoned_by();
        // The member goes on to hold the lock; see above.
        std::mem::forget(guard);
        by.is_some()
    });
    seat.state = State::Held;
    poisoned.write(half_changed);
    Ok(())
}

/// Takes the lock, as the member `rank`, in spite of the deaths so far: repairs the queue when all others are out of it,
/// and waits for the lock. `*poisoned` tells whether a member died or returned that held it, and what it
/// guards may be half changed.
///
/// # Safety
/// `lock` was not freed. `*poisoned` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_recover(
    lock: *mut Lock,
    rank: usize,
    poisoned: *mut bool,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { recover(lock, rank, poisoned, || None) })
}

/// Like `syncline_lock_recover`, but waits for `nanoseconds` at most, and is `SYNCLINE_STATUS_TIMED_OUT` then: somebody
/// who lives holds the lock, or waits for it, or repairs it.
///
/// # Safety
/// As `syncline_lock_recover`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_lock_recover_for(
    lock: *mut Lock,
    rank: usize,
    nanoseconds: u64,
    poisoned: *mut bool,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { recover(lock, rank, poisoned, || deadline(nanoseconds)) })
}
