//! Teams: one function in threads, in processes, or in threads of processes.
//!
//! # Contract
//! A member of a team is an object that lives as long as its call of the function. An object that
//! it makes with the others is its seat in that object; a program uses it like the result of
//! `..._new`, but with the member's own rank only. The member keeps its seats, so that a function
//! which returns early leaves no member waiting for a lost seat. A lock that it still holds then is
//! released and poisoned, as the data that the lock guards may be inconsistent.
//!
//! ```text
//! syncline_team_run ──> Team ──> rank 0: TeamMember ──> function(me, argument) ──> seats are freed
//!                                rank 1: ...
//! ```
//!
//! # Costs
//! Those of the Rust team, plus the flag per seat of barriers and locks.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncline_fabric::{Member, Team};
use syncline_signal::{Policy, WaitError};
use syncline_sync::{
    Fault, SpaceError,
    space::{Array, Shared},
};
use syncline_trace::{Activity, span};

use crate::SYNCLINE_FOREVER;
use crate::barriers::{Barrier, Plan};
use crate::error::{Error, Status, borrow, call, claim, deadline, out};
use crate::locks::{Lock, LockKind};
use crate::rma::{self, Rma};
use crate::signals::{self, Signal};

/// The composition of a team. The library chooses each value that is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of processes of this program that the library starts; 0: the members are threads
    /// of this process.
    pub processes: usize,
    /// The number of members of each process, as threads; 0 counts as 1.
    pub threads: usize,
    /// The largest number of bytes that the members of a host share, barriers and locks included;
    /// 0: the value of `SYNCLINE_MEMORY`, or as many as the host, or the control group of the
    /// program, could provide. Objects take their bytes from the system when they are made, and
    /// fail if there are not enough.
    pub memory: usize,
    /// The number of simulated hosts: groups of threads of this process that share memory within
    /// each group, and exchange messages between groups, as machines do. Each has `threads`
    /// members, times `processes` if that is not 0: groups of threads that receive messages on
    /// their own. 0: one host. It serves tests of programs with one-sided memory; shared memory,
    /// barriers and locks of `syncline_member_...` are unavailable with it.
    pub hosts: usize,
}

/// A member of a team. It lives until its function returns; one thread at a time uses it.
#[derive(Debug)]
pub struct TeamMember<'a> {
    place: Place,
    inside: Mutex<Inside<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    rank: usize,
    size: usize,
    process: usize,
    processes: usize,
    thread: usize,
    threads: usize,
    host: usize,
    hosts: usize,
    died: usize,
}

#[derive(Debug)]
pub(crate) struct Inside<'a> {
    pub(crate) member: &'a mut Member,
    /// The objects into which C holds pointers.
    barriers: Vec<Arc<Barrier>>,
    locks: Vec<Arc<Lock>>,
    memory: Vec<Array<Byte>>,
    pub(crate) rmas: Vec<Arc<Rma>>,
}

/// The function of a team. It is called once for each member, with the argument of the run. It
/// returns 0 for success.
///
/// It must return: neither `longjmp` nor the end of its thread may leave it. An exception that
/// leaves it terminates the program. `me` is valid until it returns.
pub type TeamFunction =
    Option<unsafe extern "C-unwind" fn(me: *mut TeamMember<'_>, argument: *mut c_void) -> c_int>;

/// A byte of a team's memory; a type of its own, so that members compare the number of bytes that
/// they ask for.
#[repr(transparent)]
#[derive(Debug, Default)]
struct Byte(AtomicU8);

// SAFETY: a byte, of which 0 is the default. C programs that change it exclude other members, or
// use atomic operations, as `syncline_member_memory` requires; arrays of it are aligned to 128, for
// words of any size.
unsafe impl Shared for Byte {}

/// A C function with its pointer.
struct Work {
    function: unsafe extern "C-unwind" fn(*mut TeamMember<'_>, *mut c_void) -> c_int,
    argument: *mut c_void,
    /// The number of members that have ended.
    ends: AtomicU64,
}

// SAFETY: `syncline_team_run` requires that several threads may call the function with the pointer
// at once.
unsafe impl Sync for Work {}

impl Work {
    /// Runs the function in a member. An error comes with its position in the order in which the
    /// members of this process ended.
    fn run(&self, member: &mut Member) -> Result<(), (u64, Error)> {
        let mut end = 0;
        self.call(member, &mut end).map_err(|error| (end, error))
    }

    fn call(&self, member: &mut Member, end: &mut u64) -> Result<(), Error> {
        let rank = member.rank();
        let place = Place {
            rank,
            size: member.size(),
            process: member.process(),
            processes: member.processes(),
            thread: member.thread(),
            threads: member.threads(),
            host: member.host(),
            hosts: member.hosts().count(),
            died: member.died(),
        };
        let (barriers, locks, memory, rmas) = Default::default();
        let inside = Inside { member, barriers, locks, memory, rmas };
        let me = TeamMember { place, inside: Mutex::new(inside) };
        // SAFETY: the caller of `syncline_team_run` guarantees that several threads may call the
        // function with the argument; `me` outlives the call, and is only read.
        let code = unsafe { (self.function)((&raw const me).cast_mut(), self.argument) };
        // The count comes before the member frees its objects and thereby informs others: members
        // that fail because of it get a later position.
        *end = self.ends.fetch_add(1, Ordering::Relaxed);
        let mut inside = me.inside.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(forked) = inside.member.check_not_forked() {
            // In a child that the function made by `fork`: the objects belong to the member's
            // process.
            std::mem::forget(inside);
            return Err(forked.into());
        }
        // All rmas are retired, even if one of them reports an error.
        let retired =
            inside.rmas.drain(..).map(|rma| rma::retire(rma, rank)).fold(Ok(()), Result::and);
        retired?;
        if inside.locks.iter().any(|lock| lock.in_use()) {
            return Err(Error::misuse(format!("rank {rank} returned while it held a lock")));
        }
        if code == 0 { Ok(()) } else { Err(Error::member(rank, code)) }
    }
}

/// # Safety
/// The conditions of `syncline_team_run` apply.
unsafe fn run(
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Result<(), Error> {
    let function = function.ok_or_else(|| Error::invalid("the function of the team is NULL"))?;
    let work = Work { function, argument, ends: AtomicU64::new(0) };
    let work = |member: &mut Member| work.run(member);
    // SAFETY: the caller guarantees that a non-null `shape` is valid for reads.
    let results = match unsafe { shape.as_ref() } {
        None => Team::run(work),
        Some(&Shape { processes, threads, memory, hosts }) => {
            let threads = threads.max(1);
            match (hosts, processes, memory) {
                (0, 0, 0) => Team::threads(threads).run(work),
                (0, 0, _) => Team::threads(threads).memory(memory).run(work),
                (0, _, 0) => Team::processes(processes).threads(threads).run(work),
                (0, _, _) => Team::processes(processes).threads(threads).memory(memory).run(work),
                _ => {
                    let team = Team::hosts(hosts).processes(processes.max(1)).threads(threads);
                    if memory == 0 { team.run(work) } else { team.memory(memory).run(work) }
                }
            }
        }
    };
    all_well(results?)
}

/// Returns misuse first, then the first failure: the failures of other members may be consequences
/// of it.
fn all_well(results: Vec<Result<(), (u64, Error)>>) -> Result<(), Error> {
    let errors = results.into_iter().filter_map(Result::err);
    let first = errors.min_by_key(|(order, error)| (!error.is_misuse(), *order));
    first.map_or(Ok(()), |(_, error)| Err(error))
}

/// Runs a function in every member of a team, and returns when the members of this process have
/// returned.
///
/// `shape` describes the team. With `NULL` the environment does: the members are the processes that
/// `syncline launch` or an MPI launcher (`mpirun`, by a shim: `syncline mpi build`) started, or
/// else threads of this process, of the number in `SYNCLINE_THREADS` or else of its cores. If
/// `processes` is 0, the members are threads of this process. Otherwise the library starts that
/// number of processes of this program, with the same arguments. The calling process then runs no
/// member, and the call returns when all processes have ended; in a started process, this call is
/// the one in which it takes part. If `syncline launch` started this process, it takes part in that
/// team, whatever the numbers are; but if `processes` is 0, it has a team of threads of its own. A
/// started process takes part once. The first member of a process runs on the calling thread.
///
/// A member that returns a number other than 0, or a process that fails, is
/// `SYNCLINE_STATUS_MEMBER_FAILED`: `code` is the number, and the message has the rank. In a
/// started process, the program should then exit with a number other than 0 itself. A member that
/// returns while it holds a lock is `SYNCLINE_STATUS_MISUSE`, and the lock is poisoned for the
/// others.
///
/// # Safety
/// `shape` must be `NULL`, or valid for reads. Several threads may call `function` with `argument`
/// at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_team_run(
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { run(shape, function, argument) })
}

/// Like `syncline_team_run` with a `NULL` shape; if processes die, runs the function again in a
/// smaller team of the processes that are left.
///
/// The function is called again in all live processes, also in those in which it had succeeded,
/// until it has ended in a team without a death; the status is that of this team. Ranks are
/// assigned again, in the same order, and `syncline_member_died` returns the number of missing
/// processes. The contents of the team's memory are lost. A member that gets the status of a death
/// must return, with any number, and is called again.
///
/// This requires an MPI that continues after a death: Open MPI 5 under `mpirun --with-ft ulfm`.
/// With other launchers the members get the status of the death, and the team ends. If a process
/// dies before MPI is initialised in all processes, Open MPI waits for it without end.
///
/// # Safety
/// The conditions of `syncline_team_run` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_team_run_shrinking(
    function: TeamFunction,
    argument: *mut c_void,
) -> Status {
    call(|| {
        let function =
            function.ok_or_else(|| Error::invalid("the function of the team is NULL"))?;
        let work = Work { function, argument, ends: AtomicU64::new(0) };
        all_well(Team::run_shrinking(|member| work.run(member))?)
    })
}

/// # Safety
/// The conditions of `syncline_team_run_mpi` apply.
unsafe fn run_mpi(
    communicator: c_int,
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Result<(), Error> {
    let function = function.ok_or_else(|| Error::invalid("the function of the team is NULL"))?;
    let work = Work { function, argument, ends: AtomicU64::new(0) };
    // SAFETY: the caller guarantees that `communicator` is the handle of a communicator of this
    // process.
    let team = unsafe { Team::within_mpi(communicator) };
    // SAFETY: the caller guarantees that a non-null `shape` is valid for reads.
    let team = match unsafe { shape.as_ref() } {
        None => team,
        Some(&Shape { threads, memory: 0, .. }) => team.threads(threads.max(1)),
        Some(&Shape { threads, memory, .. }) => team.threads(threads.max(1)).memory(memory),
    };
    all_well(team.run(|member| work.run(member))?)
}

/// Runs a function in every member of a team of the processes of an MPI communicator, within a
/// program that has initialised MPI itself, and returns when the members of this process have
/// returned. Every process of the communicator must call it.
///
/// `communicator` is its Fortran handle: `MPI_Comm_c2f(comm)`. The team uses a duplicate of it, so
/// its messages and those of the program do not mix; MPI stays initialised, and other teams may
/// follow. Only `threads` and `memory` of `shape` are used; with `NULL`, each process has one
/// member. Between hosts the team has a serving thread, if MPI provides `MPI_THREAD_MULTIPLE`;
/// otherwise members are served only while they wait.
///
/// A member that waits for others takes part in MPI: messages, collectives and one-sided operations
/// of the program that need this process complete during the wait. This holds for every wait that
/// lasts so long that it sleeps, also for the end of the team, and depends on MPI's thread level:
///
/// | level                                      | waits that take part                          |
/// |--------------------------------------------|-----------------------------------------------|
/// | `MPI_THREAD_SINGLE`, `MPI_THREAD_FUNNELED` | those of the main thread                      |
/// | `MPI_THREAD_SERIALIZED`, one member        | those of the thread that calls this function  |
/// | `MPI_THREAD_SERIALIZED`, several members   | none, if all processes are on one host        |
/// | `MPI_THREAD_MULTIPLE`                      | those of all threads                          |
///
/// At `MPI_THREAD_SERIALIZED` this function counts as a call of MPI until it returns: only the
/// process's member may call MPI meanwhile. If the process has several members, they may call MPI
/// themselves, one at a time, if all processes are on one host, and not otherwise.
///
/// A shim for the program's MPI is required: the first program under an MPI builds it, if the MPI's
/// `mpicc` is on the path; `syncline mpi build` builds it beforehand. A process that has none fails
/// before it calls MPI, and the others wait for it: where hosts may differ, each process tries with
/// `MPI_COMM_SELF` first, as `pmpi.c` does. The results are those of `syncline_team_run`.
///
/// # Safety
/// The conditions of `syncline_team_run` apply. `communicator` must be the handle of a communicator
/// of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_team_run_mpi(
    communicator: c_int,
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    call(|| unsafe { run_mpi(communicator, shape, function, argument) })
}

/// Returns a number of a member; `SIZE_MAX`, and stores a failure, if there is no member.
///
/// # Safety
/// `me` must be `NULL`, or live.
unsafe fn number(me: *const TeamMember<'_>, what: impl FnOnce(&Place) -> usize) -> usize {
    let mut number = usize::MAX;
    call(|| {
        // SAFETY: the caller guarantees that a non-null `me` points to a live member.
        number = what(&unsafe { borrow(me, "the member") }?.place);
        Ok(())
    });
    number
}

/// Returns the rank of this member, from 0. Like the related functions, it returns `SIZE_MAX`, and
/// stores a failure, if `me` is `NULL`.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_rank(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.rank) }
}

/// Returns the number of members of the team.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_size(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.size) }
}

/// Returns the number of this member's process, from 0.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_process(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.process) }
}

/// Returns the number of processes of the team.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_processes(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.processes) }
}

/// Returns the number of this member among the members of its process, from 0.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_thread(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.thread) }
}

/// Returns the number of members of each process.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_threads(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.threads) }
}

/// Returns the number of this member's host, from 0. A host is a group of processes that share
/// memory. There is one, unless the team spans several.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_host(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.host) }
}

/// Returns the number of hosts.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_hosts(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.hosts) }
}

/// Returns the number of processes that died before this team was made of those that were left: see
/// `syncline_team_run_shrinking`.
///
/// # Safety
/// The conditions of `syncline_member_rank` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_died(me: *const TeamMember<'_>) -> usize {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(me, |place| place.died) }
}

/// Takes a member for the length of a call.
///
/// # Safety
/// The member must be `NULL`, or live for `'a`.
pub(crate) unsafe fn the_member<'a, 'b: 'a>(
    me: *const TeamMember<'b>,
) -> Result<MutexGuard<'a, Inside<'b>>, Error> {
    // SAFETY: the caller guarantees that a non-null `me` points to a live member.
    claim(unsafe { &borrow(me, "the member")?.inside }, "the member")
}

/// Waits until all members have made this call the same number of times. All members call it. If a
/// member is dead, or has returned, this is `SYNCLINE_STATUS_GONE`, with its rank in the message;
/// the end of the launcher is `SYNCLINE_STATUS_GONE` as well.
///
/// If members are in different collective calls, so that none can complete, each of them gets
/// `SYNCLINE_STATUS_MISUSE`, and the message names two of them with their calls. That covers this
/// call, barriers of the team, `syncline_rma_sync` and all other collective calls without a time
/// limit; a member that is slow, or that waits with a time limit, never causes it. The team is
/// unusable then: calls that would have to wait for other members fail in the same way, and the
/// functions of the members must return.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_wait(me: *mut TeamMember<'_>) -> Status {
    // SAFETY: the caller guarantees that a non-null `me` points to a live member.
    call(|| Ok(unsafe { the_member(me) }?.member.wait()?))
}

/// Like `syncline_member_wait`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`: this member has arrived and remains arrived, and may call either
/// function again to continue.
///
/// A member that timed out must wait again, or stay in its function, until the others have passed.
/// If it returns before, members on other hosts get `SYNCLINE_STATUS_GONE`, as it has left. Members
/// on its own host may get that as well.
///
/// # Safety
/// The conditions of `syncline_member_wait` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_wait_for(
    me: *mut TeamMember<'_>,
    nanoseconds: u64,
) -> Status {
    // SAFETY: the caller guarantees that a non-null `me` points to a live member.
    call(|| Ok(unsafe { the_member(me) }?.member.wait_deadline(deadline(nanoseconds))?))
}

/// Waits until a signal is at least `number`; returns `SYNCLINE_STATUS_GONE` as soon as any member
/// of the team is dead, with its rank in the message.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned. `signal` must point to a signal
/// that stays at its address until this call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_await(
    me: *mut TeamMember<'_>,
    signal: *const Signal,
    number: u64,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_member_await_for(me, signal, number, SYNCLINE_FOREVER) }
}

/// Like `syncline_member_await`, but waits for at most `nanoseconds`, and then returns
/// `SYNCLINE_STATUS_TIMED_OUT`.
///
/// # Safety
/// The conditions of `syncline_member_await` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_await_for(
    me: *mut TeamMember<'_>,
    signal: *const Signal,
    number: u64,
    nanoseconds: u64,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `signal` points to a signal, and that `me` is `NULL`
        // or live.
        let (signal, inside) = unsafe { (signals::the_signal(signal)?, the_member(me)?) };
        let policy = Policy::default().watching(inside.member.fault_list());
        inside.member.check_not_forked()?;
        let _waits = span(Activity::AwaitSignal, 0, number);
        match signal.wait_until(signals::number(number)?, &policy, deadline(nanoseconds)) {
            Err(WaitError::Dead { member }) => {
                let rank = member as usize;
                Err(inside
                    .member
                    .fault_list()
                    .fault_of(rank)
                    .unwrap_or(Fault::Dead { rank })
                    .into())
            }
            waited => Ok(waited.map(|_| ())?),
        }
    })
}

/// Makes a barrier of all members, and takes this member's seat. `kind` and `radix` are those of
/// `syncline_barrier_new`.
///
/// All members must make the same barriers, locks and memory, with the same arguments, in the same
/// order. The call does not wait for the others; a member that returns from its function without
/// having made its part counts as dead. Each member uses the barrier through its own pointer and
/// with its own rank. The member owns the barrier, which is freed when the function returns: do not
/// pass it to `syncline_barrier_free`.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned. `*barrier` must be valid for
/// writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_barrier(
    me: *mut TeamMember<'_>,
    kind: u32,
    radix: usize,
    barrier: *mut *mut Barrier,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `barrier` is valid for writes.
        let barrier = unsafe { out(barrier, "barrier") }?;
        let plan = Plan::of(kind, radix)?;
        // SAFETY: the caller guarantees that a non-null `me` points to a live member.
        let mut inside = unsafe { the_member(me) }?;
        let new = Arc::new(Barrier::of_team(inside.member, plan)?);
        barrier.write(Arc::as_ptr(&new).cast_mut());
        inside.barriers.push(new);
        Ok(())
    })
}

/// Makes a lock of all members, and takes this member's seat. `kind` is a `syncline_lock_kind`. The
/// rules of `syncline_member_barrier` for collective calls and ownership apply. The team declares
/// deaths itself: `syncline_lock_declare_dead` is not for this lock.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned. `*lock` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_lock(
    me: *mut TeamMember<'_>,
    kind: u32,
    lock: *mut *mut Lock,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `lock` is valid for writes.
        let lock = unsafe { out(lock, "lock") }?;
        let kind = LockKind::of(kind)?;
        // SAFETY: the caller guarantees that a non-null `me` points to a live member.
        let mut inside = unsafe { the_member(me) }?;
        let new = Arc::new(Lock::of_team(inside.member, kind)?);
        lock.write(Arc::as_ptr(&new).cast_mut());
        inside.locks.push(new);
        Ok(())
    })
}

/// Makes memory that all members share: `bytes` bytes, zero at first, aligned to 128. All members
/// call it with the same number, under the rules of `syncline_member_barrier`. Processes have it at
/// different addresses, so pointers into it are meaningless to other processes. The team owns the
/// memory; `*memory` is valid until the function returns. If the team's memory, or the host, has
/// fewer bytes left, this is `SYNCLINE_STATUS_NO_ROOM`.
///
/// # Safety
/// `me` must be `NULL`, or its function must not have returned. `*memory` must be valid for writes.
/// Writes to the shared memory while another member may access the same bytes must be atomic
/// operations, such as those of a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_memory(
    me: *mut TeamMember<'_>,
    bytes: usize,
    memory: *mut *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `memory` is valid for writes.
        let memory = unsafe { out(memory, "memory") }?;
        if bytes == 0 {
            return Err(Error::invalid("memory of 0 bytes cannot be shared"));
        }
        // SAFETY: the caller guarantees that a non-null `me` points to a live member.
        let mut inside = unsafe { the_member(me) }?;
        if let hosts @ 2.. = inside.member.hosts().count() {
            return Err(SpaceError::Hosts { hosts }.into());
        }
        let new = inside.member.space().array::<Byte>(bytes)?;
        memory.write(new.as_ptr().cast_mut().cast());
        inside.memory.push(new);
        Ok(())
    })
}
