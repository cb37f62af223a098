//! Teams: one function in threads, in processes, or in threads of processes.
//!
//! # Contract
//! A member of a team is an object that lives as long as its call of the function. What it makes with the others is its
//! seat of it, and used like what `..._new` makes, by its own rank alone; the object keeps it, so that a function
//! which returns early leaves nobody waiting for a seat that was forgotten. A lock that it still holds then is let go, and
//! poisoned: what it guards can be in no order.
//!
//! ```text
//! syncline_team_run ──> syncline_fabric::Team ──> rank 0: TeamMember ──> function(me, argument) ──> its seats are given back
//!                                                 rank 1: ...
//! ```
//!
//! # Costs
//! Those in Rust, and the flag per seat of barriers and locks.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncline_fabric::{Member, Team};
use syncline_signal::{Policy, WaitError};
use syncline_sync::{
    Fault, SpaceError,
    space::{Array, Shared},
};

use crate::SYNCLINE_FOREVER;
use crate::barriers::{Barrier, Plan};
use crate::error::{Error, Status, borrow, call, claim, deadline, out};
use crate::locks::{Lock, LockKind};
use crate::rma::{self, Rma};
use crate::signals::{self, Signal};

/// Who takes part in a team. All that is 0 is left to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// So many processes of this program, which the library starts; 0: threads of this process.
    pub processes: usize,
    /// How many members each process has, as threads; 0 counts as 1.
    pub threads: usize,
    /// How many bytes the members of a host share at most, barriers and locks included; 0: as
    /// `SYNCLINE_MEMORY` says, or as many as the host, or the control group of the program, could
    /// have. What is made of them takes them from the system, and fails if there is not enough.
    pub memory: usize,
    /// So many hosts, as far as the members can tell: groups of threads of this process that share memory within each, and
    /// exchange messages between them, as machines do. Each has `threads` members, times `processes`, if that is not 0:
    /// groups that receive messages on their own. 0: one host. For tests of programs with one-sided memory; what shares
    /// memory, barriers and locks of `syncline_member_...` are not to be had then.
    pub hosts: usize,
}

/// One of a team. It lives until its function returns, and is used by one thread at a time.
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
    /// What C has pointers into.
    barriers: Vec<Arc<Barrier>>,
    locks: Vec<Arc<Lock>>,
    memory: Vec<Array<Byte>>,
    pub(crate) rmas: Vec<Arc<Rma>>,
}

/// What members of a team do: it is called once for each, with the argument of the run. 0 is success.
///
/// It must return: neither `longjmp` nor the end of its thread may take it away. An exception that leaves it ends the
/// program. `me` is valid until it returns.
pub type TeamFunction =
    Option<unsafe extern "C-unwind" fn(me: *mut TeamMember<'_>, argument: *mut c_void) -> c_int>;

/// The memory of a team, byte by byte, so that members compare how many they ask for.
#[repr(transparent)]
#[derive(Debug, Default)]
struct Byte(AtomicU8);

// SAFETY: a byte, of which 0 is the default. C programs that change it keep others away, or use
// atomic operations, as `syncline_member_memory` demands; arrays of it are aligned to 128, for
// words of any size.
unsafe impl Shared for Byte {}

/// A C function with its pointer.
struct Work {
    function: unsafe extern "C-unwind" fn(*mut TeamMember<'_>, *mut c_void) -> c_int,
    argument: *mut c_void,
    /// How many members have ended.
    ends: AtomicU64,
}

// SAFETY: `syncline_team_run` demands that the function may be called with the pointer by several threads at once.
unsafe impl Sync for Work {}

impl Work {
    /// Runs it in a member; an error comes with the place of its end among those of the members of
    /// this process.
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
        // SAFETY: as the caller of `syncline_team_run` vouches; `me` outlives the call, and is read only.
        let code = unsafe { (self.function)((&raw const me).cast_mut(), self.argument) };
        // Before the member gives back what it has, and others are told: their ends come after it.
        *end = self.ends.fetch_add(1, Ordering::Relaxed);
        let mut inside = me.inside.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(forked) = inside.member.check_not_forked() {
            // A child that the function has made by fork: what there is belongs to the member's
            // process.
            std::mem::forget(inside);
            return Err(forked.into());
        }
        // All of them end, whatever one says.
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
/// As `syncline_team_run`.
unsafe fn run(
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Result<(), Error> {
    let function = function.ok_or_else(|| Error::invalid("the function of the team is NULL"))?;
    let work = Work { function, argument, ends: AtomicU64::new(0) };
    let work = |member: &mut Member| work.run(member);
    // SAFETY: as the caller vouches.
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

/// Misuse first, then the first that failed: what others returned may be because of it.
fn all_well(results: Vec<Result<(), (u64, Error)>>) -> Result<(), Error> {
    let errors = results.into_iter().filter_map(Result::err);
    let first = errors.min_by_key(|(order, error)| (!error.is_misuse(), *order));
    first.map_or(Ok(()), |(_, error)| Err(error))
}

/// Runs a function in every member of a team, and returns when those of this process have returned.
///
/// `shape` says who takes part. `NULL`: the environment says it, that is the processes that `syncline launch` or an MPI
/// launcher (`mpirun`, with a shim: `syncline mpi build`) started, or else threads of this process, as many as `SYNCLINE_THREADS` says or as it has cores. Without `processes`: threads of
/// this process. With `processes`: this program is started so many times, with the same arguments. There no member is
/// run, and the call returns when all have ended; in those that were started it is the call in which they take part. If
/// `syncline launch` has started this process, it takes part in that team, whatever the numbers are; but without
/// `processes` it has a team of threads for itself. A process that was started takes part once. The first member of a
/// process runs on the thread that calls this.
///
/// A member that returns another number than 0, or a process that does not end well, is
/// `SYNCLINE_STATUS_MEMBER_FAILED`: `code` is the number, the message has the rank. In a process that was started the
/// program then should end with another number than 0 itself. A member that returns while it holds a lock is
/// `SYNCLINE_STATUS_MISUSE`, and to the others the lock is poisoned.
///
/// # Safety
/// `shape` is `NULL` or can be read. `function` may be called with `argument` by several threads at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_team_run(
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { run(shape, function, argument) })
}

/// As `syncline_team_run` with `NULL` for a shape; and once more in a smaller team, of those who are left, when processes have
/// died.
///
/// The function is called again in all who live, even in those in which it had ended well, until it has ended in a team in
/// which nobody died; the status is that of this team. Ranks are counted anew, in the same order, and
/// `syncline_member_died` says how many processes are missing. What was in memory of the team is gone. Whoever is told of a
/// death returns, with any number, and is called again.
///
/// This takes an MPI that goes on after a death: Open MPI 5 under `mpirun --with-ft ulfm`. Elsewhere members are told of the
/// death, and the team ends. If a process dies before MPI has been initialised in all, Open MPI waits for it for ever.
///
/// # Safety
/// As `syncline_team_run`.
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
/// As `syncline_team_run_mpi`.
unsafe fn run_mpi(
    communicator: c_int,
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Result<(), Error> {
    let function = function.ok_or_else(|| Error::invalid("the function of the team is NULL"))?;
    let work = Work { function, argument, ends: AtomicU64::new(0) };
    // SAFETY: as the caller vouches.
    let team = unsafe { Team::within_mpi(communicator) };
    // SAFETY: as the caller vouches.
    let team = match unsafe { shape.as_ref() } {
        None => team,
        Some(&Shape { threads, memory: 0, .. }) => team.threads(threads.max(1)),
        Some(&Shape { threads, memory, .. }) => team.threads(threads.max(1)).memory(memory),
    };
    all_well(team.run(|member| work.run(member))?)
}

/// Runs a function in every member of a team of the processes of an MPI communicator, within a program that has initialised
/// MPI itself, and returns when those of this process have returned.
///
/// `communicator` is its Fortran handle: `MPI_Comm_c2f(comm)`. The team has a duplicate of it, so its messages and the
/// program's do not meet; MPI is left as it is, and other teams may follow. Every process of the communicator calls it.
/// Of `shape` only `threads` and `memory` are looked at; `NULL`: one member each. Between hosts the team has a thread that
/// serves, if the program asked for `MPI_THREAD_SERIALIZED` or more; else members are served while they wait only.
///
/// There must be a shim for the program's MPI: `syncline mpi build --mpicc mpicc` makes it. Results are as those of
/// `syncline_team_run`.
///
/// # Safety
/// As `syncline_team_run`. `communicator` is the handle of a communicator of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_team_run_mpi(
    communicator: c_int,
    shape: *const Shape,
    function: TeamFunction,
    argument: *mut c_void,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| unsafe { run_mpi(communicator, shape, function, argument) })
}

/// A number of a member; `SIZE_MAX`, and a failure, if there is no member.
///
/// # Safety
/// `me` is `NULL`, or lives.
unsafe fn number(me: *const TeamMember<'_>, what: impl FnOnce(&Place) -> usize) -> usize {
    let mut number = usize::MAX;
    call(|| {
        // SAFETY: as the caller vouches.
        number = what(&unsafe { borrow(me, "the member") }?.place);
        Ok(())
    });
    number
}

/// Which of the members this is, from 0. Like the others of its kind, `SIZE_MAX` if `me` is `NULL`.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_rank(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.rank) }
}

/// How many members there are.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_size(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.size) }
}

/// Which of the processes this member is in, from 0.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_process(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.process) }
}

/// How many processes there are.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_processes(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.processes) }
}

/// Which of its process's members this is, from 0.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_thread(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.thread) }
}

/// How many members each process has.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_threads(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.threads) }
}

/// Which of the hosts this member is on, from 0: groups of processes that share memory. There is one, unless the shape of
/// the team has several.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_host(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.host) }
}

/// How many hosts there are.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_hosts(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.hosts) }
}

/// How many processes have died before this team was made of those who were left: see `syncline_team_run_shrinking`.
///
/// # Safety
/// As `syncline_member_rank`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_died(me: *const TeamMember<'_>) -> usize {
    // SAFETY: as the caller vouches.
    unsafe { number(me, |place| place.died) }
}

/// Takes a member for a call.
///
/// # Safety
/// The member is `NULL`, or lives for `'a`.
pub(crate) unsafe fn the_member<'a, 'b: 'a>(
    me: *const TeamMember<'b>,
) -> Result<MutexGuard<'a, Inside<'b>>, Error> {
    // SAFETY: as the caller vouches.
    claim(unsafe { &borrow(me, "the member")?.inside }, "the member")
}

/// Waits until all members have come here, each as often as the others. One that is dead, or has returned, is
/// `SYNCLINE_STATUS_GONE`, with its rank in the message; so is the end of the launcher.
///
/// If members are in different calls that all of them have to make together, so that none can
/// complete, each gets `SYNCLINE_STATUS_MISUSE`, and the message names two of them with their
/// calls. That holds for this call, barriers of the team, `syncline_rma_sync` and all else that
/// members do together, without a time limit; a member that is slow, or waits for a limited time,
/// is never taken for such a one. The team is of no use any more then: calls that would have to
/// wait for other members fail in the same way, and the functions of the members are to return.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_wait(me: *mut TeamMember<'_>) -> Status {
    // SAFETY: as the caller vouches.
    call(|| Ok(unsafe { the_member(me) }?.member.wait()?))
}

/// Like `syncline_member_wait`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then: this member has arrived and stays so, and may call either
/// again to go on.
///
/// A member that timed out waits again, or stays in its function, until the others have passed. If
/// it returns before, members on other hosts are told that it has left: `SYNCLINE_STATUS_GONE`.
/// Those of its own host may be told so as well.
///
/// # Safety
/// As `syncline_member_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_wait_for(
    me: *mut TeamMember<'_>,
    nanoseconds: u64,
) -> Status {
    // SAFETY: as the caller vouches.
    call(|| Ok(unsafe { the_member(me) }?.member.wait_deadline(deadline(nanoseconds))?))
}

/// Waits until a signal is at least `number`, and ends with `SYNCLINE_STATUS_GONE` as soon as any
/// member of the team is dead, with its rank in the message.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned. `signal` points to a signal, which stays where it is until this call
/// returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_await(
    me: *mut TeamMember<'_>,
    signal: *const Signal,
    number: u64,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_member_await_for(me, signal, number, SYNCLINE_FOREVER) }
}

/// Like `syncline_member_await`, but waits for `nanoseconds` at most, and is
/// `SYNCLINE_STATUS_TIMED_OUT` then.
///
/// # Safety
/// As `syncline_member_await`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_await_for(
    me: *mut TeamMember<'_>,
    signal: *const Signal,
    number: u64,
    nanoseconds: u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (signal, inside) = unsafe { (signals::the_signal(signal)?, the_member(me)?) };
        let policy = Policy::default().watching(inside.member.fault_list());
        inside.member.check_not_forked()?;
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

/// Makes a barrier of all members, and takes this one's seat: `kind` and `radix` are as in `syncline_barrier_new`.
///
/// It is used as one from there, each member with its own pointer and its own rank; it is given back when the function
/// returns, and not by `syncline_barrier_free`. All members make the same things, with the same numbers, in the same
/// order: barriers, locks and memory. Nobody waits for the others; who returns without its part is dead to them.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned. `*barrier` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_barrier(
    me: *mut TeamMember<'_>,
    kind: u32,
    radix: usize,
    barrier: *mut *mut Barrier,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let barrier = unsafe { out(barrier, "barrier") }?;
        let plan = Plan::of(kind, radix)?;
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_member(me) }?;
        let new = Arc::new(Barrier::of_team(inside.member, plan)?);
        barrier.write(Arc::as_ptr(&new).cast_mut());
        inside.barriers.push(new);
        Ok(())
    })
}

/// Makes a lock of all members, and takes this one's seat: `kind` is one of `syncline_lock_kind`. What is said at
/// `syncline_member_barrier` holds here. Deaths are declared by the team, not by `syncline_lock_declare_dead`.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned. `*lock` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_lock(
    me: *mut TeamMember<'_>,
    kind: u32,
    lock: *mut *mut Lock,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let lock = unsafe { out(lock, "lock") }?;
        let kind = LockKind::of(kind)?;
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_member(me) }?;
        let new = Arc::new(Lock::of_team(inside.member, kind)?);
        lock.write(Arc::as_ptr(&new).cast_mut());
        inside.locks.push(new);
        Ok(())
    })
}

/// Makes memory that all members share: so many bytes, all zero at first, aligned to 128, the same for all, each of whom
/// asks for it as at `syncline_member_barrier`. Processes have it at different addresses, so pointers into it mean
/// nothing to others. `*memory` is valid until the function returns. `SYNCLINE_STATUS_NO_ROOM` if
/// the team's memory, or the host, has fewer bytes left.
///
/// # Safety
/// `me` is `NULL`, or its function has not returned. `*memory` can be written. What is written there while another member
/// may look is written by atomic operations, such as those of a signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_member_memory(
    me: *mut TeamMember<'_>,
    bytes: usize,
    memory: *mut *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let memory = unsafe { out(memory, "memory") }?;
        if bytes == 0 {
            return Err(Error::invalid("memory of 0 bytes is nothing that could be shared"));
        }
        // SAFETY: as the caller vouches.
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
