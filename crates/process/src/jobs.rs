//! Forwards Ctrl-Z to process groups that the terminal does not reach: they stop and continue
//! together with this process.
//!
//! # Contract
//! A terminal sends its signals to its foreground group, which is this process's. Children in
//! groups of their own are in the background. Ctrl-C ends this process and, with it, all children
//! whose lifeline it keeps; but no stop reaches them. So, while a [`StopForwarding`] exists,
//! SIGTSTP has a handler:
//!
//! ```text
//!   SIGTSTP ──> SIGTSTP to every followed group ──> this process stops, as without a handler
//!                                                              │ SIGCONT
//!   SIGCONT to every followed group <──────────────────────────┘
//! ```
//! The handler is installed only if the process has a terminal and SIGTSTP had its default
//! disposition: a program that ignores or catches the signal itself keeps its disposition, and
//! decides itself how its children react. When the last forwarding is dropped, the default
//! disposition is restored. A process that is stopped by SIGSTOP, which cannot be caught, stops
//! alone.
//!
//! The program may observe one effect: a blocking system call may return `EINTR` after a stop, as
//! after any handler.
//!
//! A child forked from this process has the handler, but no groups: it stops alone.
//!
//! # Memory ordering
//! The handler reads group numbers while other threads may be collecting the group leaders. Both
//! sides store and then load the other side's store, sequentially consistently: either the handler
//! sees that the group is no longer followed, or the thread that ends the following sees the
//! handler, and waits until it has sent its signals.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of followed groups; further groups are not followed, which is no error.
const MOST: usize = 1 << 14;

/// The groups that are followed; 0 marks a free slot.
static GROUPS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
/// The number of slots in `GROUPS` that have ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The number of handlers that are sending signals.
static SENDING: AtomicUsize = AtomicUsize::new(0);
/// Whether a handler is stopping the process: a second SIGTSTP belongs to the same stop.
static STOPPING: AtomicBool = AtomicBool::new(false);
/// The ID of the process for which the handler was installed.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The time at which the process was last continued.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

/// State that the handler does not access.
struct Books {
    /// Slots in `GROUPS` that were used and are free.
    free: Vec<usize>,
    forwardings: usize,
    /// Whether the handler is installed.
    set: bool,
}

static BOOKS: Mutex<Books> = Mutex::new(Books { free: Vec::new(), forwardings: 0, set: false });

fn books() -> MutexGuard<'static, Books> {
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it exists, a stop of this process by SIGTSTP (Ctrl-Z) stops all [followed
/// groups](FollowedGroup), and they continue when it does. A program that ignores or catches the
/// signal itself keeps its disposition.
#[derive(Debug)]
pub struct StopForwarding(());

impl StopForwarding {
    /// Installs the handler, if this process has a terminal and SIGTSTP has its default
    /// disposition.
    #[must_use]
    pub fn start() -> StopForwarding {
        let mut books = books();
        // SAFETY: `getpid` has no preconditions and cannot fail.
        let own = unsafe { libc::getpid() };
        if ![0, own].contains(&OWNER.swap(own, Ordering::Relaxed)) {
            // This process was forked: the groups in the table, if any, belong to its parent.
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
            // A handler that the program has installed since stays.
            if disposition(libc::SIGTSTP) == Some(handler()) {
                set(libc::SIGTSTP, libc::SIG_DFL);
            }
        }
    }
}

/// A process group that stops with this process. Must be dropped before the leader of the group is
/// collected.
#[derive(Debug)]
pub struct FollowedGroup {
    place: usize,
}

impl FollowedGroup {
    /// Follows a group; returns `None` if the table is full or if `leader` is not a valid group
    /// number.
    #[must_use]
    pub fn new(leader: u32) -> Option<FollowedGroup> {
        let group = i32::try_from(leader).ok().filter(|&group| group > 1)?;
        let mut books = books();
        let place = match books.free.pop() {
            Some(place) => place,
            None => {
                let place = USED.load(Ordering::Relaxed);
                GROUPS.get(place)?;
                // Release: pairs with the handler's Acquire load. The slot itself is still zero, as
                // it was from the start.
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
        // Both SeqCst: see the module documentation.
        GROUPS[self.place].store(0, Ordering::SeqCst);
        while SENDING.load(Ordering::SeqCst) > 0 {
            // A handler sends its signals and never blocks, but its thread may have lost its core.
            std::thread::sleep(Duration::from_micros(20));
        }
        books().free.push(self.place);
    }
}

/// Returns the time at which this process was last continued after a forwarded stop, on the
/// monotonic clock in nanoseconds; 0 if there was no such stop.
#[must_use]
pub fn continued_at() -> u64 {
    CONTINUED.load(Ordering::Relaxed)
}

/// Stops this process as SIGTSTP does without a handler: it does not stop if its group is orphaned,
/// as nothing could continue it. Returns when the process has been continued.
///
/// # Errors
/// Returns the system's error if the disposition of SIGTSTP cannot be read or changed.
pub fn stop_as_by_default() -> io::Result<()> {
    let before = action(libc::SIGTSTP).ok_or_else(io::Error::last_os_error)?;
    if !set(libc::SIGTSTP, libc::SIG_DFL) {
        return Err(io::Error::last_os_error());
    }
    stop();
    // SAFETY: `before` is an action that `sigaction` returned; the old action is not requested.
    match unsafe { libc::sigaction(libc::SIGTSTP, &raw const before, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ignores the signals that a terminal sends to background processes that use it (SIGTTIN and
/// SIGTTOU), in this process and in those that it starts from now on: a background read from the
/// terminal fails with `EIO` instead of stopping the process indefinitely. A signal with a
/// disposition other than the default keeps it.
pub fn bear_the_terminal() {
    for signal in [libc::SIGTTIN, libc::SIGTTOU] {
        if disposition(signal) == Some(libc::SIG_DFL) {
            set(signal, libc::SIG_IGN);
        }
    }
}

fn has_terminal() -> bool {
    // SAFETY: the path is NUL-terminated; the descriptor was just opened and nothing else uses it.
    unsafe {
        let terminal =
            libc::open(c"/dev/tty".as_ptr(), libc::O_RDONLY | libc::O_NOCTTY | libc::O_CLOEXEC);
        terminal != -1 && libc::close(terminal) == 0
    }
}

fn handler() -> libc::sighandler_t {
    hear as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// Returns the action for a signal, or `None` if there is no such signal.
fn action(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros are a valid `sigaction`.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: the new action is null, so nothing changes; `action` is valid for writes.
    (unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } == 0).then_some(action)
}

fn disposition(signal: libc::c_int) -> Option<libc::sighandler_t> {
    action(signal).map(|action| action.sa_sigaction)
}

/// Sets the disposition of a signal; returns whether that succeeded.
fn set(signal: libc::c_int, what: libc::sighandler_t) -> bool {
    // SAFETY: all zeros are a valid `sigaction`: no flags, and no other signals blocked.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    (action.sa_sigaction, action.sa_flags) = (what, libc::SA_RESTART);
    // SAFETY: the handler is `hear`, `SIG_DFL` or `SIG_IGN` in all callers, which are in this file;
    // `action` is initialised, and the old action is not requested.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
}

/// Sends a signal to all followed groups.
fn send(signal: libc::c_int) {
    // SeqCst: see the module documentation.
    SENDING.fetch_add(1, Ordering::SeqCst);
    // Acquire: pairs with the Release store that publishes a slot used for the first time.
    for group in &GROUPS[..USED.load(Ordering::Acquire).min(MOST)] {
        let group = group.load(Ordering::SeqCst);
        if group != 0 {
            // SAFETY: `kill` takes two numbers and touches no memory. The number is still this
            // group's: a followed group's leader has not been collected.
            unsafe { libc::kill(-group, signal) };
        }
    }
    SENDING.fetch_sub(1, Ordering::SeqCst);
}

/// Stops this process, while SIGTSTP has its default disposition; returns when it is continued.
fn stop() {
    // SAFETY: all zeros are a valid `sigset_t`, and both sets are valid for writes; the thread
    // unblocks one signal and restores its mask. All of these functions are async-signal-safe:
    // signal-safety(7).
    unsafe {
        let (mut only, mut before) =
            (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigset_t>());
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, libc::SIGTSTP);
        libc::raise(libc::SIGTSTP);
        // The process stops here if the signal was blocked, and in `raise` otherwise.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
    }
}

/// The handler of SIGTSTP: calls only async-signal-safe functions.
extern "C" fn hear(_: libc::c_int) {
    // SAFETY: `__errno_location` returns the address of this thread's own errno. It is saved
    // because the interrupted code may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    if !STOPPING.swap(true, Ordering::Relaxed) {
        // SAFETY: `getpid` has no preconditions and cannot fail.
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

/// Returns the monotonic clock in nanoseconds.
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

    /// Checks both cases: a test without a terminal, and one with a handler while it forwards.
    #[test]
    fn a_signal_is_as_before_when_nothing_is_forwarded() {
        let before = disposition(libc::SIGTSTP);
        drop((StopForwarding::start(), StopForwarding::start()));
        assert_eq!(disposition(libc::SIGTSTP), before);
    }
}
