//! Barriers: nobody goes on before all have arrived.
//!
//! # Contract
//! In Rust each member of a barrier is an object of its own. In C the barrier holds them all, and a call names one by its
//! rank; a flag per rank keeps two threads from being one member at the same time. A barrier of a team, which may be one of
//! processes, is an object for each member, with the seat of that rank only.
//!
//! # Costs
//! On top of those in Rust: the flag (two atomic exchanges of a line that only this member writes) and a branch on
//! the kind. Nothing allocates but what fails.

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

/// How the members of a barrier tell one another that they have arrived.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// One counter: the best for few members, and whenever they outnumber the cores.
    Counter = 0,
    /// Pairs, in rounds, up to one who knows, and back.
    Tournament = 1,
    /// Everybody tells others, in rounds, until all know.
    Dissemination = 2,
    /// The one that fits the number of members and of cores.
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

/// A barrier, with its members: their ranks are 0, 1 and so on. It is for the threads of a process; or one member's part of
/// a barrier of a team.
#[derive(Debug)]
pub struct Barrier {
    seats: Box<[Seat]>,
    /// The rank of the first seat.
    first: usize,
    /// The members that have their seats here or elsewhere.
    members: usize,
    /// Whether it belongs to a member of a team.
    of_team: bool,
}

/// The member of a rank, until it leaves. Alone on its lines: others go on while this one is at work.
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

/// The same for all kinds of members.
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

/// What barrier to make.
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

    /// The part of a member of a team.
    pub(crate) fn of_team(me: &mut syncline_fabric::Member, plan: Plan) -> Result<Barrier, Error> {
        let (first, members, cores) = (me.rank(), me.size(), me.cores());
        let member = me.make(|space, members| Any::within(space, plan, members, cores))?;
        let seats = Box::new([Seat(Mutex::new(Some(member)))]);
        Ok(Barrier { seats, first, members, of_team: true })
    }
}

/// Takes the seat of a rank for a call.
///
/// # Safety
/// The barrier is `NULL`, or one that lives for `'a`.
#[inline]
unsafe fn seat<'a>(
    barrier: *const Barrier,
    rank: usize,
) -> Result<MutexGuard<'a, Option<Member>>, Error> {
    // SAFETY: as the caller vouches.
    let Barrier { seats, first, members, .. } = unsafe { borrow(barrier, "the barrier") }?;
    let seat = seats
        .get(rank.wrapping_sub(*first))
        .ok_or_else(|| Error::not_here(rank, *members, "barrier"))?;
    claim(&seat.0, "this rank of the barrier")
}

/// Lets the member of a rank do something.
///
/// # Safety
/// The barrier is `NULL`, or one that lives until this returns.
#[inline]
unsafe fn by<T>(
    barrier: *const Barrier,
    rank: usize,
    work: impl FnOnce(&mut Member) -> Result<T, Fault>,
) -> Result<T, Error> {
    // SAFETY: as the caller vouches.
    let mut seat = unsafe { seat(barrier, rank) }?;
    let member =
        seat.as_mut().ok_or_else(|| Error::misuse(format!("rank {rank} has left the barrier")))?;
    Ok(work(member)?)
}

/// # Safety
/// As `syncline_barrier_wait`.
#[inline]
unsafe fn wait(barrier: *const Barrier, rank: usize, until: Option<Instant>) -> Result<(), Error> {
    // SAFETY: as the caller vouches.
    unsafe { by(barrier, rank, |member| each!(member, member => member.wait_deadline(until))) }
}

/// Makes a barrier with 1 to 4096 members.
///
/// `kind` is one of `syncline_barrier_kind`. `radix` is that of a dissemination barrier (in each round a member tells
/// one fewer), or 0: the one that fits; for other kinds it is 0.
///
/// # Safety
/// `*barrier` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_new(
    kind: u32,
    members: usize,
    radix: usize,
    barrier: *mut *mut Barrier,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let barrier = unsafe { out(barrier, "barrier") }?;
        let new = Box::new(Barrier::of_threads(Plan::of(kind, radix)?, members)?);
        barrier.write(Box::into_raw(new));
        Ok(())
    })
}

/// Gives a barrier back; `NULL` is nothing. It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it.
///
/// # Safety
/// `barrier` comes from `syncline_barrier_new`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_free(barrier: *mut Barrier) -> Status {
    if barrier.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: as the caller vouches.
        let Barrier { seats, of_team, .. } = unsafe { &*barrier };
        if *of_team {
            return Err(Error::misuse(
                "the barrier is given back when the function of the member returns",
            ));
        }
        seats.iter().try_for_each(|seat| unused(&seat.0, "the barrier"))?;
        // SAFETY: as the caller vouches; no call uses it.
        drop(unsafe { Box::from_raw(barrier) });
        Ok(())
    })
}

/// Waits, as the member `rank`, until all have arrived at the episode; arrives first unless that was done.
///
/// What a member did before it arrived is seen by all after they have waited. A member that is gone, and for whom
/// the others wait in vain, is `SYNCLINE_STATUS_GONE` for all of them: the barrier is of no use any more.
///
/// # Safety
/// `barrier` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_wait(barrier: *mut Barrier, rank: usize) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { wait(barrier, rank, None) })
}

/// Like `syncline_barrier_wait`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: the member has arrived, stays so, and may wait again.
///
/// A member that timed out waits again, or stays (in a team: in its function), until the others
/// have passed. If it leaves before, they may be told so: `SYNCLINE_STATUS_GONE`. Only at a counter
/// on one host its arrival is all that they need.
///
/// # Safety
/// `barrier` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_wait_for(
    barrier: *mut Barrier,
    rank: usize,
    nanoseconds: u64,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { wait(barrier, rank, deadline(nanoseconds)) })
}

/// Arrives, as the member `rank`, at the next episode, and does not wait: to be followed by work that does not need the
/// others, and `syncline_barrier_wait` or `_done`. Does nothing if the member has arrived already.
///
/// # Safety
/// `barrier` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_arrive(barrier: *mut Barrier, rank: usize) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { by(barrier, rank, |member| each!(member, member => member.arrive())) })
}

/// Asks, as the member `rank`, whether the episode at which it has arrived is complete, and does not wait. `*done` is
/// true then, and also if it has arrived at none. But for a counter, the others may need that one who has arrived asks
/// this again and again, or waits.
///
/// # Safety
/// `barrier` was not freed. `*done` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_done(
    barrier: *mut Barrier,
    rank: usize,
    done: *mut bool,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let done = unsafe { out(done, "done") }?;
        // SAFETY: as the caller vouches.
        let complete =
            unsafe { by(barrier, rank, |member| each!(member, member => member.done())) }?;
        done.write(complete);
        Ok(())
    })
}

/// Leaves the barrier as the member `rank`, or on behalf of one that is gone: those who wait for it are told. A rank that
/// has left cannot come back.
///
/// # Safety
/// `barrier` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_barrier_leave(barrier: *mut Barrier, rank: usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        drop(unsafe { seat(barrier, rank) }?.take());
        Ok(())
    })
}
