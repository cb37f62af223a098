//! Farms of processes: found one, take part in one, start processes, wait for them, kill them. What they send is in
//! `messages`; pools of workers are in `pools`.
//!
//! # Contract
//! A farm is one object in each of its processes, used by one thread at a time: a flag makes a second call an error. What
//! only the manager can do is an error in a worker. A message that a caller had no room for is kept beside the farm, and is
//! received before all others of its sender.
//!
//! ```text
//!   syncline_farm_new ──> manager ──┐              reserve, start, spawn, send, recv, wait ──> any
//!   syncline_farm_join ─> worker  ──┴─> Farm ────> kill, living ────────────────────────────> the manager
//!
//!   `syncline_farm_free` undoes the first, `syncline_farm_leave` the second.
//! ```
//!
//! # Costs
//! Those in Rust, and the flag of the farm (two atomic exchanges of a line that only this process writes).

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

/// A farm of processes, as one of them has it. It is used by one thread at a time.
///
/// In a child that `fork` has made of the process, every call with its copy is
/// `SYNCLINE_STATUS_MISUSE`, and undoes nothing: neither frees it nor ends a process. The child may
/// found a farm of its own.
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
    /// Messages that were taken out of their channels and not received, the oldest first; at most one of each sender.
    pub(crate) back: VecDeque<(Vpid, Message)>,
}

/// What a farm may take. All that is 0 is left to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FarmBounds {
    /// How many processes there are at a time at most, the manager among them; 0 is 1024.
    pub processes: usize,
    /// How many bytes messages under way may take, in all; 0 is 1 GiB. They take none before they are used.
    pub memory: usize,
    /// How many bytes each process may have for itself; 0: as many as the system gives. One that wants more is refused by
    /// the system, and usually ends.
    pub worker_memory: u64,
    /// How many messages can wait in the channel from one process to another; 0 counts as 1. Who sends one more waits.
    pub depth: usize,
}

/// How a process has come to be no more.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarmEnd {
    /// It has exited.
    Exited = 0,
    /// A signal has killed it.
    Killed = 1,
    /// It could not be started.
    NotStarted = 2,
    /// The process that had reserved its number, or was to start it, has ended before.
    NeverStarted = 3,
    /// It has ended, and its place was given away: nothing more is known. That may be as soon as the
    /// process that has started it was told of its end.
    Forgotten = 4,
}

/// How a process has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExitStatus {
    /// One of `syncline_farm_end`.
    pub end: u32,
    /// What it has exited with, or the signal that has killed it; else 0.
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
            // Members of teams are no processes of farms in C.
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

/// A program with its arguments; `NULL` is this one.
///
/// # Safety
/// `program` is `NULL` or a string that ends in a zero byte; `arguments` is `NULL` or an array of such, which ends in `NULL`.
/// Nobody writes them meanwhile.
pub(crate) unsafe fn program(
    program: *const c_char,
    arguments: *const *const c_char,
) -> Result<Program, Error> {
    let made = if program.is_null() {
        Program::this()?
    } else {
        // SAFETY: as the caller vouches; not `NULL`.
        let path = unsafe { CStr::from_ptr(program) };
        if path.is_empty() {
            return Err(Error::invalid("the name of the program is empty"));
        }
        Program::new(OsStr::from_bytes(path.to_bytes()))
    };
    if arguments.is_null() {
        return Ok(made);
    }
    // SAFETY: as the caller vouches: the array goes on until there is a `NULL`.
    let words = (0..).map(|n| unsafe { *arguments.add(n) }).take_while(|word| !word.is_null());
    // SAFETY: as the caller vouches; not `NULL`.
    Ok(made.args(words.map(|word| OsStr::from_bytes(unsafe { CStr::from_ptr(word) }.to_bytes()))))
}

/// Takes a farm for a call.
///
/// # Safety
/// The farm is `NULL`, or lives for `'a`.
#[inline]
pub(crate) unsafe fn the_farm<'a>(farm: *const Farm) -> Result<MutexGuard<'a, Inside>, Error> {
    // SAFETY: as the caller vouches.
    let Farm { born, inside, .. } = unsafe { borrow(farm, "the farm") }?;
    // First: another thread may have had the farm when this process was forked, and has it here for
    // ever.
    check_not_forked(*born, "the farm")?;
    claim(inside, "the farm")
}

fn shown(farm: syncline_farm::Farm) -> *mut Farm {
    let (me, parent, born) = (farm.vpid(), farm.parent(), Generation::current());
    let inside = Mutex::new(Inside { farm, back: VecDeque::new() });
    Box::into_raw(Box::new(Farm { me, parent, born, inside }))
}

/// Founds a farm, whose manager this process is. `bounds` may be `NULL`: all are left to the library.
///
/// Each process of a farm leads a process group, and what it starts by other means than the farm
/// belongs to that group. The group is killed when its process has ended, however, and when the
/// manager has. What leaves the group goes on: `setsid`, `setpgid`, daemons. Ctrl-C at a terminal
/// reaches the manager alone, whose end is that of all. Ctrl-Z stops all, and `fg` continues them:
/// from its first start of a process on the manager has a handler of `SIGTSTP` for that, if it has
/// a terminal and the signal its default effect. A program that catches or ignores `SIGTSTP` before
/// keeps that. A worker, and what it starts, ignores `SIGTTIN` and `SIGTTOU`, unless it has said
/// otherwise: what reads from the terminal there gets `EIO`.
///
/// A bound that makes no sense is `SYNCLINE_STATUS_INVALID_ARGUMENT`; what the system refuses is
/// `SYNCLINE_STATUS_SYSTEM`, or `SYNCLINE_STATUS_NO_ROOM` if that is memory. `*farm` is to be given
/// back by `syncline_farm_free`.
///
/// # Safety
/// `bounds` is `NULL` or can be read. `*farm` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_new(
    bounds: *const FarmBounds,
    farm: *mut *mut Farm,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let farm = unsafe { out(farm, "farm") }?;
        // SAFETY: as the caller vouches.
        let bounds = unsafe { bounds.as_ref() }.map_or_else(Bounds::default, FarmBounds::bounds);
        let new = syncline_farm::Farm::with(bounds)?;
        farm.write(shown(new));
        Ok(())
    })
}

/// Takes part in the farm that has started this process: then `*farm` is this worker's, and to be
/// given back by `syncline_farm_leave`. If no farm has started this process `*farm` is `NULL`, and
/// the status that of success.
///
/// Every process that a farm starts calls this early, before it makes threads. From then on the system kills it when the
/// manager is gone. The second time it is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `*farm` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_join(farm: *mut *mut Farm) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let farm = unsafe { out(farm, "farm") }?;
        let joined = syncline_farm::Farm::join()?.map_or(ptr::null_mut(), shown);
        farm.write(joined);
        Ok(())
    })
}

/// Gives back a farm that this process has founded; `NULL` is nothing. It kills all processes of
/// the farm that live, and waits for their ends.
///
/// It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it. Messages that were received stay as they are.
///
/// # Safety
/// `farm` comes from `syncline_farm_new`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_free(farm: *mut Farm) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe {
        give_back(
            farm,
            |vpid| vpid == Vpid::MANAGER,
            "syncline_farm_leave gives back a farm that was joined",
        )
    }
}

/// Gives back a farm that this process has joined; `NULL` is nothing. The process goes on, and is
/// one of the farm until it ends, but receives and sends nothing any more.
///
/// It is `SYNCLINE_STATUS_MISUSE`, and nothing is freed, while a call uses it. Messages that were
/// received stay as they are.
///
/// # Safety
/// `farm` comes from `syncline_farm_join`, and no other call with it begins from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_leave(farm: *mut Farm) -> Status {
    let joined = |vpid: Vpid| vpid != Vpid::MANAGER;
    // SAFETY: the caller guarantees it.
    unsafe { give_back(farm, joined, "syncline_farm_free gives back a farm that was founded") }
}

/// # Safety
/// `farm` is `NULL`, or lives, and no other call with it begins from now on.
unsafe fn give_back(farm: *mut Farm, right: impl FnOnce(Vpid) -> bool, otherwise: &str) -> Status {
    if farm.is_null() {
        return Status::Ok;
    }
    call(|| {
        // SAFETY: the caller guarantees it; not `NULL`.
        let Farm { me, born, inside, .. } = unsafe { &*farm };
        check_not_forked(*born, "the farm")?;
        if !right(*me) {
            return Err(Error::misuse(otherwise));
        }
        unused(inside, "the farm")?;
        // SAFETY: as the caller vouches; no call uses it.
        drop(unsafe { Box::from_raw(farm) });
        Ok(())
    })
}

/// The number of this process in its farm: `SYNCLINE_FARM_MANAGER`, or a worker's. `SYNCLINE_FARM_NOBODY`, and a failure,
/// if `farm` is `NULL`.
///
/// # Safety
/// `farm` is `NULL`, or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_vpid(farm: *const Farm) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { number(farm, |farm| Some(farm.me)) }
}

/// The process that has started this one; `SYNCLINE_FARM_NOBODY` for the manager, and, with a failure, if `farm` is `NULL`.
///
/// # Safety
/// As `syncline_farm_vpid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_parent(farm: *const Farm) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { number(farm, |farm| farm.parent) }
}

/// # Safety
/// As `syncline_farm_vpid`.
unsafe fn number(farm: *const Farm, which: impl FnOnce(&Farm) -> Option<Vpid>) -> u64 {
    let mut number = SYNCLINE_FARM_NOBODY;
    call(|| {
        // SAFETY: as the caller vouches.
        number =
            which(unsafe { borrow(farm, "the farm") }?).map_or(SYNCLINE_FARM_NOBODY, Vpid::to_raw);
        Ok(())
    });
    number
}

/// Makes a number for a process that is not born yet, so that it can be sent something first: `syncline_farm_start` starts
/// it. Any process of the farm may. Before it is started it can be sent as many messages as a
/// channel holds; one more waits until it has received one. `SYNCLINE_STATUS_NO_ROOM` if there are
/// as many processes as the bounds allow. One that has ended counts until the process that has
/// started it was told of its end, and all that it had sent messages have received these and looked
/// for more.
///
/// The texts of failures write a number N as N % 65536, its place, and N / 65536, how many processes
/// had that place before: "3.1" is 65539, and "3" is 3.
///
/// # Safety
/// `farm` was not freed. `*vpid` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_reserve(farm: *mut Farm, vpid: *mut u64) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let vpid = unsafe { out(vpid, "vpid") }?;
        // SAFETY: as the caller vouches.
        let reserved = unsafe { the_farm(farm) }?.farm.reserve()?;
        vpid.write(reserved.to_raw());
        Ok(())
    })
}

/// Starts the process of a number that this process, or another, has reserved.
///
/// `program` is looked for as a shell would; `NULL`: this program again. `arguments` are those after its name, and end in
/// `NULL`; they may be `NULL`: none. Its standard input is empty; its other streams, its folder and its environment are
/// those of the manager, whichever process asks.
///
/// A program that cannot be started is `SYNCLINE_STATUS_SYSTEM`, and the number is used up. A number that was not reserved,
/// or was started, is `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `farm` was not freed. `program` and `arguments` are strings as above, which nobody writes meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_start(
    farm: *mut Farm,
    vpid: u64,
    program: *const c_char,
    arguments: *const *const c_char,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let (mut inside, program) =
            unsafe { (the_farm(farm)?, self::program(program, arguments)?) };
        Ok(inside.farm.start(Vpid::from_raw(vpid), &program)?)
    })
}

/// Starts a process, and tells its number: `syncline_farm_reserve` and `syncline_farm_start` in one.
///
/// # Safety
/// As both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_spawn(
    farm: *mut Farm,
    program: *const c_char,
    arguments: *const *const c_char,
    vpid: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let vpid = unsafe { out(vpid, "vpid") }?;
        // SAFETY: as the caller vouches.
        let (mut inside, program) =
            unsafe { (the_farm(farm)?, self::program(program, arguments)?) };
        let spawned = inside.farm.spawn(&program)?;
        vpid.write(spawned.to_raw());
        Ok(())
    })
}

/// Waits until a process has ended, and tells how. Any process of the farm may.
///
/// `cause` may be `NULL`. What the process had sent can be received before and after. It is
/// `SYNCLINE_STATUS_MISUSE` for the number of this process.
///
/// # Safety
/// `farm` was not freed. `*cause` can be written, if it is not `NULL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_wait(
    farm: *mut Farm,
    vpid: u64,
    cause: *mut ExitStatus,
) -> Status {
    // SAFETY: the caller guarantees it.
    unsafe { syncline_farm_wait_for(farm, vpid, SYNCLINE_FOREVER, cause) }
}

/// Like `syncline_farm_wait`, but waits for `nanoseconds` at most (0: asks only), and is
/// `SYNCLINE_STATUS_TIMED_OUT` if the process lives still.
///
/// # Safety
/// As `syncline_farm_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_wait_for(
    farm: *mut Farm,
    vpid: u64,
    nanoseconds: u64,
    cause: *mut ExitStatus,
) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let cause = unsafe { optional(cause) };
        // SAFETY: as the caller vouches.
        let mut inside = unsafe { the_farm(farm) }?;
        let how = inside.farm.wait(Vpid::from_raw(vpid), deadline(nanoseconds))?;
        if let Some(cause) = cause {
            cause.write(ExitStatus::from(&how));
        }
        Ok(())
    })
}

/// Kills a process. Its end is told to all, soon. For the manager; in a worker, and for the manager itself, it is
/// `SYNCLINE_STATUS_MISUSE`. One that has ended is killed already.
///
/// # Safety
/// `farm` was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_kill(farm: *mut Farm, vpid: u64) -> Status {
    // SAFETY: as the caller vouches.
    call(|| Ok(unsafe { the_farm(farm) }?.farm.kill(Vpid::from_raw(vpid))?))
}

/// The number that the system has for a process of the farm; `*pid` is 0 if it was not started, or has ended long ago. Any
/// process of the farm may ask.
///
/// # Safety
/// `farm` was not freed. `*pid` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_pid(farm: *const Farm, vpid: u64, pid: *mut u32) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let pid = unsafe { out(pid, "pid") }?;
        // SAFETY: as the caller vouches.
        let inside = unsafe { the_farm(farm) }?;
        let vpid = Vpid::from_raw(vpid);
        inside.farm.cause(vpid)?; // an error if there is no such process
        pid.write(inside.farm.pid(vpid).unwrap_or(0));
        Ok(())
    })
}

/// How many processes of the farm live, the manager not among them. For the manager; in a worker it is
/// `SYNCLINE_STATUS_MISUSE`.
///
/// # Safety
/// `farm` was not freed. `*living` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_farm_living(farm: *const Farm, living: *mut usize) -> Status {
    call(|| {
        // SAFETY: as the caller vouches.
        let living = unsafe { out(living, "living") }?;
        // SAFETY: as the caller vouches.
        let inside = unsafe { the_farm(farm) }?;
        let vpid = inside.farm.vpid();
        if vpid != Vpid::MANAGER {
            let what = "count those who live";
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
