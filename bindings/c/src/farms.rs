//! Farms of processes: found a farm, take part in one, start processes, wait for them, kill them.
//! Their messages are in `messages`; pools of workers are in `pools`.
//!
//! # Contract
//! A farm is one object in each of its processes, used by one thread at a time: a flag makes a
//! second call an error. Operations of the manager are an error in a worker. A message that was too
//! large for the caller's buffer is kept beside the farm, and is received before all other messages
//! of its sender.
//!
//! ```text
//!   syncline_farm_new ──> manager ──┐         any process: reserve, start, spawn, send, recv, wait
//!   syncline_farm_join ─> worker  ──┴─> Farm  the manager: kill, living
//!
//!   `syncline_farm_free` frees the first, `syncline_farm_leave` releases the second.
//! ```
//!
//! # Costs
//! Those of the Rust farm, plus the flag of the farm (two atomic exchanges on a line that only this
//! process writes).

use std::collections::VecDeque;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use syncline_farm::{ExitCause, Program, Vpid, bounds::Bounds, message::Message};
use syncline_process::{Generation, watch::Ending};

use crate::SYNCLINE_FOREVER;
use crate::error::{
    Error, Status, Zero, borrow, call, check_not_forked, claim, deadline, optional, out, unused,
};

/// The number of the process that founded a farm.
pub const SYNCLINE_FARM_MANAGER: u64 = 0;
/// No process: the parent of a manager.
pub const SYNCLINE_FARM_NOBODY: u64 = u64::MAX;

/// One process's view of a farm. One thread at a time uses it.
///
/// In a child that `fork` made of the process, every call with the copy of the farm is
/// `SYNCLINE_STATUS_MISUSE` and has no effect: it neither frees the farm nor ends a process. The
/// child may found a farm of its own.
#[derive(Debug)]
pub struct Farm {
    me: Vpid,
    parent: Option<Vpid>,
    born: Generation,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) farm: syncline_farm::Farm,
    /// Messages that were taken out of their channels but not received, the oldest first; at most
    /// one of each sender.
    pub(crate) back: VecDeque<(Vpid, Message)>,
}

/// The limits of a farm. The library chooses each value that is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmBounds {
    /// The largest number of processes at a time, including the manager; 0 is 1024.
    pub processes: usize,
    /// The largest number of bytes of all messages in flight; 0 is 1 GiB. Memory is taken only as
    /// it is used.
    pub memory: usize,
    /// The largest number of bytes of memory of each process; 0: the limit of the system. The
    /// system refuses more to a process, which usually ends it.
    pub worker_memory: u64,
    /// The number of messages that the channel from one process to another holds; 0 counts as 1. A
    /// sender waits while the channel is full.
    pub depth: usize,
}

/// The kinds of the end of a process.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarmEnd {
    /// The process has exited.
    Exited = 0,
    /// A signal has killed the process.
    Killed = 1,
    /// The process could not be started.
    NotStarted = 2,
    /// The process that had reserved the number, or was to start the process, has ended before.
    NeverStarted = 3,
    /// The process has ended, and its place was reused: its end is no longer recorded. A place may
    /// be reused as soon as the process that started it has received its end.
    Forgotten = 4,
}

/// The end of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExitStatus {
    /// A `syncline_farm_end`.
    pub end: u32,
    /// The exit code, or the number of the signal that killed the process; else 0.
    pub code: c_int,
}

impl Zero for ExitStatus {
    const ZERO: Self = ExitStatus { end: 0, code: 0 };
}

impl From<&ExitCause> for ExitStatus {
    fn from(cause: &ExitCause) -> Self {
        let (end, code) = match *cause {
            ExitCause::Ended(Ending::Exited(code)) => (FarmEnd::Exited, code.into()),
            ExitCause::Ended(Ending::Killed(signal)) => (FarmEnd::Killed, signal),
            ExitCause::NotStarted(_) => (FarmEnd::NotStarted, 0),
            ExitCause::NeverStarted => (FarmEnd::NeverStarted, 0),
            // `Dead` is for members of teams, which are not processes of farms in C.
            ExitCause::Dead | ExitCause::Forgotten => (FarmEnd::Forgotten, 0),
        };
        ExitStatus { end: end as u32, code }
    }
}

impl FarmBounds {
    fn bounds(&self) -> Bounds {
        let &FarmBounds { processes, memory, worker_memory, depth } = self;
        let mut bounds = Bounds::default().worker_memory(worker_memory);
        if processes != 0 {
            bounds = bounds.processes(processes);
        }
        if memory != 0 {
            bounds = bounds.memory(memory);
        }
        bounds.depth(depth.max(1))
    }
}

/// Returns a program with its arguments; `NULL` is this program.
///
/// # Safety
/// `program` must be `NULL`, or a string that ends in a zero byte; `arguments` must be `NULL`, or
/// an array of such strings that ends in `NULL`. No thread may write them during this call.
pub(crate) unsafe fn program(
    program: *const c_char,
    arguments: *const *const c_char,
) -> Result<Program, Error> {
    let made = if program.is_null() {
        Program::this()?
    } else {
        // SAFETY: `program` is not `NULL`, and the caller guarantees that it is a string that ends
        // in a zero byte.
        let path = unsafe { CStr::from_ptr(program) };
        if path.is_empty() {
            return Err(Error::invalid("the name of the program is empty"));
        }
        Program::new(OsStr::from_bytes(path.to_bytes()))
    };
    if arguments.is_null() {
        return Ok(made);
    }
    // SAFETY: `arguments` is not `NULL`, and the caller guarantees that the array ends in `NULL`;
    // nothing beyond that is read.
    let words = (0..).map(|n| unsafe { *arguments.add(n) }).take_while(|word| !word.is_null());
    // SAFETY: `word` is not `NULL`, and the caller guarantees that it is a string that ends in a
    // zero byte.
    Ok(made.args(words.map(|word| OsStr::from_bytes(unsafe { CStr::from_ptr(word) }.to_bytes()))))
}

/// Takes a farm for the length of a call.
///
/// # Safety
/// The farm must be `NULL`, or live for `'a`.
#[inline]
pub(crate) unsafe fn the_farm<'a>(farm: *const Farm) -> Result<MutexGuard<'a, Inside>, Error> {
    // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
    let Farm { born, inside, .. } = unsafe { borrow(farm, "the farm") }?;
    // This check is first: if another thread was using the farm when this process was forked, its
    // flag is never cleared in this process.
    check_not_forked(*born, "the farm")?;
    claim(inside, "the farm")
}

fn shown(farm: syncline_farm::Farm) -> *mut Farm {
    let (me, parent, born) = (farm.vpid(), farm.parent(), Generation::current());
    let inside = Mutex::new(Inside { farm, back: VecDeque::new() });
    Box::into_raw(Box::new(Farm { me, parent, born, inside }))
}

/// Founds a farm, with this process as its manager. `bounds` may be `NULL`: the library then
/// chooses all limits.
///
/// Each process of a farm leads a process group, to which its own child processes belong, unless
/// the farm starts them. The group is killed when its process has ended, in whatever way, and when
/// the manager has. A process that leaves the group survives: `setsid`, `setpgid`, daemons. Ctrl-C
/// at a terminal reaches only the manager, whose end ends all. Ctrl-Z stops all, and `fg` continues
/// them: for that the manager has a handler of `SIGTSTP`, from its first start of a process on, if
/// it has a terminal and the signal has its default action. A handler of the program for `SIGTSTP`,
/// or its decision to ignore it, takes precedence if it is in place before. A worker and its child
/// processes ignore `SIGTTIN` and `SIGTTOU`, unless they change that: a process among them that
/// reads from the terminal gets `EIO`.
///
/// An invalid limit is `SYNCLINE_STATUS_INVALID_ARGUMENT`; a refusal of the system is
/// `SYNCLINE_STATUS_SYSTEM`, or `SYNCLINE_STATUS_NO_ROOM` if it concerns memory. Free `*farm` with
/// `syncline_farm_free`.
///
/// # Safety
/// `bounds` must be `NULL`, or valid for reads. `*farm` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_new(
    bounds: *const FarmBounds,
    farm: *mut *mut Farm,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `farm` is valid for writes.
        let farm = unsafe { out(farm, "farm") }?;
        // SAFETY: the caller guarantees that a non-null `bounds` is valid for reads.
        let bounds = unsafe { bounds.as_ref() }.map_or_else(Bounds::default, FarmBounds::bounds);
        let new = syncline_farm::Farm::with(bounds)?;
        farm.write(shown(new));
        Ok(())
    })
}

/// Takes part in the farm that started this process. `*farm` is this worker's view of the farm;
/// release it with `syncline_farm_leave`. If no farm started this process, `*farm` is `NULL`, and
/// the status is success.
///
/// Every process that a farm starts must call this early, before it creates threads. From then on
/// the system kills the process when the manager has ended. A second call is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `*farm` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_join(farm: *mut *mut Farm) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `farm` is valid for writes.
        let farm = unsafe { out(farm, "farm") }?;
        let joined = syncline_farm::Farm::join()?.map_or(ptr::null_mut(), shown);
        farm.write(joined);
        Ok(())
    })
}

/// Frees a farm that this process has founded; does nothing for `NULL`. Kills all live processes of
/// the farm, and waits for their ends.
///
/// Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing, while a call uses the farm, or if the farm
/// was joined. Received messages remain valid.
///
/// # Safety
/// `farm` must come from `syncline_farm_new`, and no other call with it may begin after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_free(farm: *mut Farm) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe {
        give_back(
            farm,
            |vpid| vpid == Vpid::MANAGER,
            "syncline_farm_leave gives back a farm that was joined",
        )
    }
}

/// Releases a farm that this process has joined; does nothing for `NULL`. The process continues,
/// and belongs to the farm until it ends, but can neither receive nor send.
///
/// Returns `SYNCLINE_STATUS_MISUSE`, and frees nothing, while a call uses the farm, or if the farm
/// was founded by this process. Received messages remain valid.
///
/// # Safety
/// `farm` must come from `syncline_farm_join`, and no other call with it may begin after this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_leave(farm: *mut Farm) -> Status {
    let joined = |vpid: Vpid| vpid != Vpid::MANAGER;
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { give_back(farm, joined, "syncline_farm_free gives back a farm that was founded") }
}

/// # Safety
/// `farm` must be `NULL`, or live, and no other call with it may begin after this one.
unsafe fn give_back(farm: *mut Farm, right: impl FnOnce(Vpid) -> bool, otherwise: &str) -> Status {
    if farm.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: `farm` is not `NULL`, and the caller guarantees that it is live.
        let Farm { me, born, inside, .. } = unsafe { &*farm };
        check_not_forked(*born, "the farm")?;
        if !right(*me) {
            return Err(Error::misuse(otherwise));
        }
        unused(inside, "the farm")?;
        // SAFETY: `shown` made the box; no call is using the farm, as checked above, and the caller
        // guarantees that none begins.
        drop(unsafe { Box::from_raw(farm) });
        Ok(())
    })
}

/// Returns the number of this process in its farm: `SYNCLINE_FARM_MANAGER`, or a worker's. Returns
/// `SYNCLINE_FARM_NOBODY`, and stores a failure, if `farm` is `NULL`.
///
/// # Safety
/// `farm` must be `NULL`, or must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_vpid(farm: *const Farm) -> u64 {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(farm, |farm| Some(farm.me)) }
}

/// Returns the number of the process that started this one; `SYNCLINE_FARM_NOBODY` for the manager,
/// and, with a failure, if `farm` is `NULL`.
///
/// # Safety
/// The conditions of `syncline_farm_vpid` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_parent(farm: *const Farm) -> u64 {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { number(farm, |farm| farm.parent) }
}

/// # Safety
/// The conditions of `syncline_farm_vpid` apply.
unsafe fn number(farm: *const Farm, which: impl FnOnce(&Farm) -> Option<Vpid>) -> u64 {
    let mut number = SYNCLINE_FARM_NOBODY;
    call(|| {
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        number =
            which(unsafe { borrow(farm, "the farm") }?).map_or(SYNCLINE_FARM_NOBODY, Vpid::to_raw);
        Ok(())
    });
    number
}

/// Reserves a number for a process that is not started yet, so that messages can be sent to it
/// first; `syncline_farm_start` starts it. Any process of the farm may call it. Before the process
/// is started, it can be sent as many messages as a channel holds; the next send waits until it has
/// received one. If the farm has as many processes as its limits allow, this is
/// `SYNCLINE_STATUS_NO_ROOM`. A process that has ended counts until the process that started it has
/// received its end, and all processes to which it had sent messages have received these and looked
/// for more.
///
/// The texts of failures write a number N as N % 65536, its place, and N / 65536, the number of
/// processes that had that place before: "3.1" is 65539, and "3" is 3.
///
/// # Safety
/// `farm` must not have been freed. `*vpid` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_reserve(farm: *mut Farm, vpid: *mut u64) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `vpid` is valid for writes.
        let vpid = unsafe { out(vpid, "vpid") }?;
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        let reserved = unsafe { the_farm(farm) }?.farm.reserve()?;
        vpid.write(reserved.to_raw());
        Ok(())
    })
}

/// Starts the process of a number that this process, or another one, has reserved.
///
/// `program` is searched for as a shell does; `NULL` is this program. `arguments` are the arguments
/// after the program's name, and end in `NULL`; `arguments` may be `NULL` for none. The standard
/// input of the process is empty; its other streams, its working directory and its environment are
/// those of the manager, whichever process calls, without the variables of an MPI rank or of a
/// launched team: a process of a farm is neither.
///
/// A program that cannot be started is `SYNCLINE_STATUS_SYSTEM`, and the number is used up. A
/// number that was not reserved, or was started already, is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `farm` must not have been freed. `program` and `arguments` must be `NULL` or strings as above,
/// which no thread writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_start(
    farm: *mut Farm,
    vpid: u64,
    program: *const c_char,
    arguments: *const *const c_char,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that `farm` was not freed, and that `program` and
        // `arguments` are `NULL` or strings as described.
        let (mut inside, program) =
            unsafe { (the_farm(farm)?, self::program(program, arguments)?) };
        Ok(inside.farm.start(Vpid::from_raw(vpid), &program)?)
    })
}

/// Starts a process, and stores its number in `*vpid`: `syncline_farm_reserve` and
/// `syncline_farm_start` in one.
///
/// # Safety
/// The conditions of `syncline_farm_reserve` and of `syncline_farm_start` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_spawn(
    farm: *mut Farm,
    program: *const c_char,
    arguments: *const *const c_char,
    vpid: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `vpid` is valid for writes.
        let vpid = unsafe { out(vpid, "vpid") }?;
        // SAFETY: the caller guarantees that `farm` was not freed, and that `program` and
        // `arguments` are `NULL` or strings as described.
        let (mut inside, program) =
            unsafe { (the_farm(farm)?, self::program(program, arguments)?) };
        let spawned = inside.farm.spawn(&program)?;
        vpid.write(spawned.to_raw());
        Ok(())
    })
}

/// Waits until a process has ended, and stores the kind of its end in `*cause`. Any process of the
/// farm may call it.
///
/// `cause` may be `NULL`. Messages of the process can be received before and after. For the number
/// of this process, this is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `farm` must not have been freed. `cause` must be `NULL`, or `*cause` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_wait(
    farm: *mut Farm,
    vpid: u64,
    cause: *mut ExitStatus,
) -> Status {
    // SAFETY: the conditions are those of this function, and the caller guarantees them.
    unsafe { syncline_farm_wait_for(farm, vpid, SYNCLINE_FOREVER, cause) }
}

/// Like `syncline_farm_wait`, but waits for at most `nanoseconds` (0: does not wait), and returns
/// `SYNCLINE_STATUS_TIMED_OUT` if the process is still alive.
///
/// # Safety
/// The conditions of `syncline_farm_wait` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_wait_for(
    farm: *mut Farm,
    vpid: u64,
    nanoseconds: u64,
    cause: *mut ExitStatus,
) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `cause` is valid for writes.
        let cause = unsafe { optional(cause) };
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        let mut inside = unsafe { the_farm(farm) }?;
        let how = inside.farm.wait(Vpid::from_raw(vpid), deadline(nanoseconds))?;
        if let Some(cause) = cause {
            cause.write(ExitStatus::from(&how));
        }
        Ok(())
    })
}

/// Kills a process. All processes of the farm can observe its end shortly after. Only the manager
/// may call it: in a worker, and for the manager itself, it is `SYNCLINE_STATUS_MISUSE`. For a
/// process that has ended it does nothing.
///
/// # Safety
/// `farm` must not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_kill(farm: *mut Farm, vpid: u64) -> Status {
    // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
    call(|| Ok(unsafe { the_farm(farm) }?.farm.kill(Vpid::from_raw(vpid))?))
}

/// Stores the system's process id of a process of the farm in `*pid`; 0 if the process was not
/// started, or if its end is no longer recorded. Any process of the farm may call it.
///
/// # Safety
/// `farm` must not have been freed. `*pid` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pid(farm: *const Farm, vpid: u64, pid: *mut u32) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `pid` is valid for writes.
        let pid = unsafe { out(pid, "pid") }?;
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        let inside = unsafe { the_farm(farm) }?;
        let vpid = Vpid::from_raw(vpid);
        inside.farm.cause(vpid)?; // an error if there is no such process
        pid.write(inside.farm.pid(vpid).unwrap_or(0));
        Ok(())
    })
}

/// Stores the number of live processes of the farm, without the manager, in `*living`. Only the
/// manager may call it: in a worker it is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `farm` must not have been freed. `*living` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_living(farm: *const Farm, living: *mut usize) -> Status {
    call(|| {
        // SAFETY: the caller guarantees that a non-null `living` is valid for writes.
        let living = unsafe { out(living, "living") }?;
        // SAFETY: the caller guarantees that a non-null `farm` points to a live farm.
        let inside = unsafe { the_farm(farm) }?;
        let vpid = inside.farm.vpid();
        if vpid != Vpid::MANAGER {
            let what = "count the live processes";
            return Err(syncline_farm::FarmError::Manager { what, vpid }.into());
        }
        living.write(inside.farm.living());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_after_the_other_may_use_a_farm() {
        fn may_go<T: Send>() {}
        may_go::<Inside>();
        may_go::<Message>();
    }
}
