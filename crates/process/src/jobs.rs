//! Ctrl-Z for process groups that a terminal does not know: they stop and go on with this process.
//!
//! # Contract
//! A terminal sends its signals to the group in its foreground, which is this process's. Children
//! in groups of their own are in the background. Ctrl-C ends this process, and with it all whose
//! lifeline it keeps; but a stop is told to none. So, while a [`StopForwarding`] is there, SIGTSTP
//! has a handler:
//!
//! ```text
//!   SIGTSTP ──> SIGTSTP to every followed group ──> this process stops, as it would without a handler
//!                                                              │ SIGCONT
//!   SIGCONT to every followed group <──────────────────────────┘
//! ```
//! It is set only if the process has a terminal and SIGTSTP had its default effect: a program that
//! ignores the signal, or catches it itself, keeps that, and decides itself what its children do.
//! When no forwarding is left the signal has its default effect again. A process that is stopped by
//! SIGSTOP, which cannot be caught, stops alone.
//!
//! What a program sees of it: a system call that sleeps may return `EINTR` after a stop, as after
//! any handler.
//!
//! A child that `fork` has made of this process has the handler, but no groups: it stops alone.
//!
//! # Memory ordering
//! The handler reads numbers of groups while others may collect their leaders. Both sides store and
//! then look at the other's store, sequentially consistent: either the handler sees that the group
//! is followed no more, or the one that ends the following sees the handler, and waits until it has
//! sent its signals.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many groups can be followed; any more are not, which is no error.
const MOST: usize = 1 << 14;

/// The groups that are followed; 0 is none.
static GROUPS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
/// How many of them were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// How many handlers send signals.
static SENDING: AtomicUsize = AtomicUsize::new(0);
/// Whether a handler stops the process: a second SIGTSTP is the same stop.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// The process that the handler is for.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// When the process was last continued.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

/// What is not for the handler.
struct Books {
    /// Places in `GROUPS` that were used and are free.
    free: Vec<usize>,
    forwardings: usize,
    /// Whether the handler is set.
    set: bool,
}

static BOOKS: Mutex<Books> = Mutex::new(Books { free: Vec::new(), forwardings: 0, set: false });

fn books() -> MutexGuard<'static, Books> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, a stop of this process by SIGTSTP (Ctrl-Z) stops all
/// [followed groups](FollowedGroup), and they go on with it. A program that ignores or catches the
/// signal itself keeps that.
#[derive(Debug)]
pub struct StopForwarding(());

impl StopForwarding {
    /// Sets the handler, if this process has a terminal and SIGTSTP its default effect.
    #[must_use]
    pub fn start() -> StopForwarding {
        let mut books = books();
        // SAFETY: takes nothing, and cannot fail.
        let own = unsafe { libc::getpid() };
        if ![0, own].contains(&OWNER.swap(own, Ordering::Relaxed)) {
            // Those of the process that has forked this one, if there are any.
            GROUPS
                .iter()
                .take(USED.swap(0, Ordering::Relaxed))
                .for_each(|group| group.store(0, Ordering::SeqCst));
            *books = Books { free: Vec::new(), forwardings: 0, set: books.set };
        }
        books.forwardings += 1;
        if !books.set && has_terminal() && disposition(libc::SIGTSTP) == Some(libc::SIG_DFL) {
            books.set = set(libc::SIGTSTP, handler());
        }
        StopForwarding(())
    }
}

impl Drop for StopForwarding {
    fn drop(&mut self) {
        let mut books = books();
        books.forwardings -= 1;
        if books.forwardings == 0 && std::mem::take(&mut books.set) {
            // One that the program has set since stays.
            if disposition(libc::SIGTSTP) == Some(handler()) {
                set(libc::SIGTSTP, libc::SIG_DFL);
            }
        }
    }
}

/// A process group that stops with this process. To be dropped before the leader of the group is
/// collected.
#[derive(Debug)]
pub struct FollowedGroup {
    place: usize,
}

impl FollowedGroup {
    /// Follows a group; `None` if too many are already.
    #[must_use]
    pub fn new(leader: u32) -> Option<FollowedGroup> {
        let group = i32::try_from(leader).ok().filter(|&group| group > 1)?;
        let mut books = books();
        let place = match books.free.pop() {
            Some(place) => place,
            None => {
                let place = USED.load(Ordering::Relaxed);
                GROUPS.get(place)?;
                // Release: pairs with the handler's Acquire, which is then for a table that is as
                // it was, zero.
                USED.store(place + 1, Ordering::Release);
                place
            }
        };
        GROUPS[place].store(group, Ordering::SeqCst);
        Some(FollowedGroup { place })
    }
}

impl Drop for FollowedGroup {
    fn drop(&mut self) {
        // Both SeqCst: see the module's documentation.
        GROUPS[self.place].store(0, Ordering::SeqCst);
        while SENDING.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now(); // a handler sends its signals and never waits for anything
        }
        books().free.push(self.place);
    }
}

/// When this process was last continued after a stop that was forwarded, by the monotonic clock, in
/// nanoseconds; 0 if it never was.
#[must_use]
pub fn continued_at() -> u64 {
    CONTINUED.load(Ordering::Relaxed)
}

/// Stops this process as SIGTSTP does without a handler: not at all if nothing could continue it
/// (its group is orphaned). Returns when it has been continued.
///
/// # Errors
/// What the system says.
pub fn stop_as_by_default() -> io::Result<()> {
    let before = action(libc::SIGTSTP).ok_or_else(io::Error::last_os_error)?;
    if !set(libc::SIGTSTP, libc::SIG_DFL) {
        return Err(io::Error::last_os_error());
    }
    stop();
    // SAFETY: the action is what the system has said.
    match unsafe { libc::sigaction(libc::SIGTSTP, &raw const before, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What terminals send to processes in the background that use them has no effect on this process,
/// nor on those that it starts from now on: what reads from the terminal is refused (`EIO`) and not
/// stopped for ever. Where the program has said what they do that stays.
pub fn bear_the_terminal() {
    for signal in [libc::SIGTTIN, libc::SIGTTOU] {
        if disposition(signal) == Some(libc::SIG_DFL) {
            set(signal, libc::SIG_IGN);
        }
    }
}

fn has_terminal() -> bool {
    // SAFETY: the path ends with a zero, and the descriptor is nothing else's.
    unsafe {
        let terminal =
            libc::open(c"/dev/tty".as_ptr(), libc::O_RDONLY | libc::O_NOCTTY | libc::O_CLOEXEC);
        terminal != -1 && libc::close(terminal) == 0
    }
}

fn handler() -> libc::sighandler_t {
    hear as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// What is done about a signal; `None` if it is none.
fn action(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: zeros are a value of it.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: nothing is changed, and there is room for what is said.
    (unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } == 0).then_some(action)
}

fn disposition(signal: libc::c_int) -> Option<libc::sighandler_t> {
    action(signal).map(|action| action.sa_sigaction)
}

/// Whether that could be set.
fn set(signal: libc::c_int, what: libc::sighandler_t) -> bool {
    // SAFETY: zeros are a value of it: no flags, and no other signals blocked.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    (action.sa_sigaction, action.sa_flags) = (what, libc::SA_RESTART);
    // SAFETY: the handler is `hear`, or one of the system's own, as all callers are in this file.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
}

/// A signal to all groups that are followed.
fn send(signal: libc::c_int) {
    // SeqCst: see the module's documentation.
    SENDING.fetch_add(1, Ordering::SeqCst);
    // Acquire: pairs with the Release of a place that is used for the first time.
    for group in &GROUPS[..USED.load(Ordering::Acquire).min(MOST)] {
        let group = group.load(Ordering::SeqCst);
        if group != 0 {
            // SAFETY: takes two numbers, and touches no memory. The leader was not collected: it is
            // followed.
            unsafe { libc::kill(-group, signal) };
        }
    }
    SENDING.fetch_sub(1, Ordering::SeqCst);
}

/// Stops this process, on whose signal SIGTSTP nothing is set; returns when it goes on.
fn stop() {
    // SAFETY: zeros are a value of both sets, which have room for what is written; the thread
    // unblocks one signal, and blocks it again if it was before. All of these may be called from a
    // handler: signal-safety(7).
    unsafe {
        let (mut only, mut before) =
            (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigset_t>());
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, libc::SIGTSTP);
        libc::raise(libc::SIGTSTP);
        // Here, if it was blocked, and else before.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
    }
}

/// The handler of SIGTSTP: only what a handler may do.
extern "C" fn hear(_: libc::c_int) {
    // SAFETY: the address of this thread's own errno, which what was interrupted may be about to
    // read.
    let errno = unsafe { *libc::__errno_location() };
    if !STOPPING.swap(true, Ordering::Relaxed) {
        // SAFETY: takes nothing, and cannot fail.
        let ours = OWNER.load(Ordering::Relaxed) == unsafe { libc::getpid() };
        if ours {
            send(libc::SIGTSTP);
        }
        if set(libc::SIGTSTP, libc::SIG_DFL) {
            stop();
            set(libc::SIGTSTP, handler());
        }
        CONTINUED.store(now(), Ordering::Relaxed);
        if ours {
            send(libc::SIGCONT);
        }
        STOPPING.store(false, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The monotonic clock, in nanoseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_groups_are_used_again() {
        let first = FollowedGroup::new(1 << 20).unwrap();
        let place = first.place;
        assert_eq!(GROUPS[place].load(Ordering::Relaxed), 1 << 20);
        drop(first);
        assert_eq!(GROUPS[place].load(Ordering::Relaxed), 0);
        assert!(books().free.contains(&place));
        assert!(FollowedGroup::new(0).is_none() && FollowedGroup::new(u32::MAX).is_none());
    }

    /// A test has no terminal, or it has a handler for as long as it forwards.
    #[test]
    fn a_signal_is_as_before_when_nothing_is_forwarded() {
        let before = disposition(libc::SIGTSTP);
        drop((StopForwarding::start(), StopForwarding::start()));
        assert_eq!(disposition(libc::SIGTSTP), before);
    }
}
