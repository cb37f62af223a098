//! Barriers: no member continues before all have arrived.
//!
//! # Contract
//! In Rust each member of a barrier is an object of its own. In C the barrier holds all of them,
//! and a call names one by its rank; a flag per rank prevents two threads from acting as one member
//! at the same time. In a team, which may consist of processes, each member has its own barrier
//! object, with the seat of its rank only.
//!
//! # Costs
//! Those of the Rust barrier, plus the flag (two atomic exchanges on a line that only this member
//! writes) and a branch on the kind. Only failures allocate.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use syncline_fabric::member::Collective;
use syncline_sync::{
    Auto, Barrier as _, BarrierMember, Fault, Space, SpaceError,
    barrier::{
        AutoMember, Counter, CounterMember, Dissemination, DisseminationMember, Tournament,
        TournamentMember,
    },
    board::Flags,
    cost,
    membership::{FaultList, MAX_MEMBERS},
};

use crate::error::{Error, Status, borrow, call, claim, deadline, out, unused};

/// The algorithm by which the members of a barrier signal their arrival.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// One counter: the best choice for few members, and whenever they outnumber the cores.
    Counter = 0,
    /// Pairs of members, in rounds, up to one champion, and back down.
    Tournament = 1,
    /// Each member signals other members, in rounds, until all have been signalled.
    Dissemination = 2,
    /// The kind that fits the number of members and of cores.
    Auto = 3,
}

impl BarrierKind {
    fn of(number: u32) -> Result<Self, Error> {
        let all = [
            BarrierKind::Counter,
            BarrierKind::Tournament,
            BarrierKind::Dissemination,
            BarrierKind::Auto,
        ];
        let known = all.into_iter().find(|&kind| kind as u32 == number);
        known.ok_or_else(|| Error::invalid(format!("there is no syncline_barrier_kind {number}")))
    }
}

/// A barrier with its members, of ranks 0, 1 and so on. It is either a barrier for the threads of a
/// process, or one member's part of a barrier of a team.
#[derive(Debug)]
pub struct Barrier {
    seats: Box<[Seat]>,
    /// The rank of the first seat.
    first: usize,
    /// The number of members, in this object and in others.
    members: usize,
    /// Whether the barrier belongs to a member of a team.
    of_team: bool,
}

/// The member of a rank, until it leaves. Each seat has cache lines of its own, as other members
/// run at the same time.
#[repr(align(128))]
#[derive(Debug)]
struct Seat(Mutex<Option<Member>>);

#[derive(Debug)]
enum Member {
    Counter(CounterMember),
    Tournament(TournamentMember),
    Dissemination(DisseminationMember),
    Auto(AutoMember),
}

/// Applies an expression to a member of any kind.
macro_rules! each {
    ($member:expr, $it:ident => $do:expr) => {
        match $member {
            Member::Counter($it) => $do,
            Member::Tournament($it) => $do,
            Member::Dissemination($it) => $do,
            Member::Auto($it) => $do,
        }
    };
}

/// The arguments that describe a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    kind: BarrierKind,
    radix: usize,
}

impl Plan {
    pub(crate) fn of(kind: u32, radix: usize) -> Result<Plan, Error> {
        let kind = BarrierKind::of(kind)?;
        if radix != 0 && kind != BarrierKind::Dissemination {
            return Err(Error::invalid("only a dissemination barrier has a radix: it must be 0"));
        }
        Ok(Plan { kind, radix })
    }
}

/// A barrier of any kind, without its members.
enum Any {
    Counter(Counter),
    Tournament(Tournament),
    Dissemination(Dissemination),
    Auto(Auto),
}

impl Any {
    fn within(
        space: &mut Space,
        plan: Plan,
        members: usize,
        cores: usize,
    ) -> Result<Any, SpaceError> {
        Ok(match plan.kind {
            BarrierKind::Counter => Any::Counter(Counter::within(space, members)?),
            BarrierKind::Tournament => {
                Any::Tournament(Tournament::within(space, members, Flags::Packed)?)
            }
            BarrierKind::Dissemination => {
                let best = || cost::best_radix(members.min(MAX_MEMBERS));
                let radix = if plan.radix == 0 { best() } else { plan.radix };
                Any::Dissemination(Dissemination::within(space, members, radix, Flags::Packed)?)
            }
            BarrierKind::Auto => Any::Auto(Auto::within(space, members, cores)?),
        })
    }
}

impl Collective for Any {
    type Seat = Member;

    fn watched(self, fault_list: &FaultList) -> Self {
        match self {
            Any::Counter(barrier) => Any::Counter(barrier.watching(fault_list)),
            Any::Tournament(barrier) => Any::Tournament(barrier.watching(fault_list)),
            Any::Dissemination(barrier) => Any::Dissemination(barrier.watching(fault_list)),
            Any::Auto(barrier) => Any::Auto(barrier.watching(fault_list)),
        }
    }

    fn seat(&self, rank: usize) -> Result<Member, SpaceError> {
        Ok(match self {
            Any::Counter(barrier) => Member::Counter(barrier.member(rank)?),
            Any::Tournament(barrier) => Member::Tournament(barrier.member(rank)?),
            Any::Dissemination(barrier) => Member::Dissemination(barrier.member(rank)?),
            Any::Auto(barrier) => Member::Auto(barrier.member(rank)?),
        })
    }
}

impl Barrier {
    fn of_threads(plan: Plan, members: usize) -> Result<Barrier, Error> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let all = Any::within(&mut Space::heap(), plan, members, cores)?;
        let seat = |rank| Ok(Seat(Mutex::new(Some(all.seat(rank)?))));
        let seats = (0..members).map(seat).collect::<Result<_, SpaceError>>()?;
        Ok(Barrier { seats, first: 0, members, of_team: false })
    }

    /// Returns the part of one member of a team.
    pub(crate) fn of_team(me: &mut syncline_fabric::Member, plan: Plan) -> Result<Barrier, Error> {
        let (first, members, cores) = (me.rank(), me.size(), me.cores());
        let member = me.make(|space, members| Any::within(space, plan, members, cores))?;
        let seats = Box::new([Seat(Mutex::new(Some(member)))]);
        Ok(Barrier { seats, first, members, of_team: true })
    }
}

/// Takes the seat of a rank for the length of a call.
///
/// # Safety
/// The barrier must be `NULL`, or live for `'a`.
#[inline]
unsafe fn seat<'a>(
    barrier: *const Barrier,
    rank: usize,
) -> Result<MutexGuard<'a, Option<Member>>, Error> {
    // SAFETY: the caller guarantees that a non-null `barrier` points to a live barrier.
    let Barrier { seats, first, members, .. } = unsafe { borrow(barrier, "the barrier") }?;
    let seat = seats
        .get(rank.wrapping_sub(*first))
        .ok_or_else(|| Error::not_here(rank, *members, "barrier"))?;
    claim(&seat.0, "this rank of the barrier")
}

/// Runs an operation of the member of a rank.
///
/// # Safety
/// The barrier must be `NULL`, or live until this returns.
#[inline]
unsafe fn by<T>(
    barrier: *const Barrier,
    rank: usize,
    work: impl FnOnce(&mut Member) -> Result<T, Fault>,
) -> Result<T, Error> {
    // SAFETY: the caller guarantees that a non-null `barrier` was not freed.
    let mut seat = unsafe { seat(barrier, rank) }?;
    let member =
        seat.as_mut().ok_or_else(|| Error::misuse(format!("rank {rank} has left the barrier")))?;
    Ok(work(member)?)
}

/// # Safety
/// The conditions of `syncline_barrier_wait` apply.
#[inline]
unsafe fn wait(barrier: *const Barrier, rank: usize, until: Option<Instant>) -> Result<(), Error> {
    // SAFETY: the caller guarantees that a non-null `barrier` was not freed.
    unsafe { by(barrier, rank, |member| each!(member, member => member.wait_deadline(until))) }
}

/// Creates a barrier with 1 to 4096 members. Free it with `syncline_barrier_free`.
///
/// `kind` is a `syncline_barrier_kind`. For a dissemination barrier, `radix` is its radix (in each
/// round a member signals `radix` - 1 others), or 0 for the radix that fits; for the other kinds it
/// must be 0.
///
/// # Safety
/// `*barrier` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_new(
    kind: u32,
    members: usize,
    radix: usize,
    barrier: *mut *mut Barrier,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `barrier` is valid for writes.
        let barrier = unsafe { out(barrier, "barrier") }?;
        let new = Box::new(Barrier::of_threads(Plan::of(kind, radix)?, members)?);
        barrier.write(Box::into_raw(new));
        Ok(())
    })
}

/// Frees a barrier; does nothing for `NULL`. Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing,
/// while a call uses the barrier, or if it is a barrier of a team, which is freed when the function
/// of the member returns.
///
/// # Safety
/// `barrier` must come from `syncline_barrier_new` or from a member of a team that has not
/// returned, and no other call with it may begin after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_free(barrier: *mut Barrier) -> Status {
    if barrier.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: `barrier` is not `NULL`, and the caller guarantees that it was not freed.
        let Barrier { seats, of_team, .. } = unsafe { &*barrier };
        if *of_team {
            return Err(Error::misuse(
                "the barrier is given back when the function of the member returns",
            ));
        }
        seats.iter().try_for_each(|seat| unused(&seat.0, "the barrier"))?;
        // SAFETY: `syncline_barrier_new` made the box, as it is no barrier of a team; no call is
        // using it, as checked above, and the caller guarantees that none begins.
        drop(unsafe { Box::from_raw(barrier) });
        Ok(())
    })
}

/// Waits, as the member `rank`, until all members have arrived at the episode; arrives first,
/// unless the member has arrived already.
///
/// The writes of each member before its arrival are visible to all members after they have waited.
/// If the episode cannot complete because a member is gone, all members get `SYNCLINE_STATUS_GONE`,
/// and the barrier is unusable.
///
/// # Safety
/// `barrier` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_wait(barrier: *mut Barrier, rank: usize) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { wait(barrier, rank, None) })
}

/// Like `syncline_barrier_wait`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: the member has arrived, remains arrived, and may wait again.
///
/// A member that timed out must wait again, or stay (in a team: in its function), until the others
/// have passed. If it leaves before, the others may get `SYNCLINE_STATUS_GONE`. Only a counter
/// barrier on one host needs nothing but its arrival.
///
/// # Safety
/// `barrier` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_wait_for(
    barrier: *mut Barrier,
    rank: usize,
    nanoseconds: u64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { wait(barrier, rank, deadline(nanoseconds)) })
}

/// Arrives, as the member `rank`, at the next episode, without waiting. Follow it with work that
/// does not need the other members, and then with `syncline_barrier_wait` or
/// `syncline_barrier_done`. Does nothing if the member has arrived already.
///
/// # Safety
/// `barrier` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_arrive(barrier: *mut Barrier, rank: usize) -> Status {
    // SAFETY: the caller guarantees that a non-null `barrier` was not freed.
    call(|| unsafe { by(barrier, rank, |member| each!(member, member => member.arrive())) })
}

/// Stores in `*done`, for the member `rank`, whether the episode at which it has arrived is
/// complete, without waiting. `*done` is also true if the member has not arrived at an episode.
/// Except with a counter barrier, the progress of the others may depend on a member that has
/// arrived: it must repeat this call, or wait.
///
/// # Safety
/// `barrier` must not have been freed. `*done` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_done(
    barrier: *mut Barrier,
    rank: usize,
    done: *mut bool,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `done` is valid for writes.
        let done = unsafe { out(done, "done") }?;
        // SAFETY: the caller guarantees that a non-null `barrier` was not freed.
        let complete =
            unsafe { by(barrier, rank, |member| each!(member, member => member.done())) }?;
        done.write(complete);
        Ok(())
    })
}

/// Leaves the barrier as the member `rank`, or on behalf of a member that is gone: the members that
/// wait for it get `SYNCLINE_STATUS_GONE`. A rank that has left cannot come back.
///
/// # Safety
/// `barrier` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_leave(barrier: *mut Barrier, rank: usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `barrier` was not freed.
        drop(unsafe { seat(barrier, rank) }?.take());
        Ok(())
    })
}
