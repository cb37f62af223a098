//! Detects whether this process is the one that created an object, or a child forked from it since.
//!
//! # Contract
//! A [`Generation`] is a number that a process has and its children do not. However a child was
//! forked (`fork`, or `clone` without `CLONE_VM`), every generation that was noted before the fork
//! is *past* there. A child that asks for the [current](Generation::current) generation gets a
//! number that none of its ancestors had.
//!
//! ```text
//!   process:  page | 7 |      handle: made in generation 7        page == 7: the handle is usable
//!      │ fork
//!   child:    page | 0 |      handle: a copy, generation 7        page != 7: it is the parent's
//!                 └──> 8 when the child makes something itself
//! ```
//! The number is a static in a page of its own, which the kernel zeroes in a child
//! (`MADV_WIPEONFORK`, Linux 4.14). Where the kernel refuses that advice, a `pthread_atfork`
//! handler clears the number; a raw `clone` does not call it.
//!
//! # Costs
//! A check is one load from a cache line that never changes, and a comparison.

use std::fmt;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm;

/// The generation of a process: a number that a child made by `fork` does not share.
///
/// ```
/// use syncline_process::Generation;
///
/// let made = Generation::current();
/// assert!(made.is_current()); // in a child that fork has made since, it is not
/// ```
#[derive(Clone, Copy)]
pub struct Generation {
    number: u64,
}

/// The value in a child that has not asked for its generation yet.
const CHILD: u64 = 0;

/// The last number given to this process or to one of its ancestors. A child inherits it.
static LAST: AtomicU64 = AtomicU64::new(CHILD);

impl Generation {
    /// Returns the current generation of this process.
    #[must_use]
    pub fn current() -> Generation {
        static GUARDED: Once = Once::new();
        GUARDED.call_once(|| guard(&PAGE));
        let page = &PAGE.number;
        // Relaxed, here and below: no other data depends on the number, and fork itself orders what
        // the child sees.
        let mut number = page.load(Ordering::Relaxed);
        if number == CHILD {
            let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            number = match page.compare_exchange(CHILD, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => new,
                Err(other) => other,
            };
        }
        Generation { number }
    }

    /// Returns whether this process is the one that obtained the generation, rather than a child
    /// of it.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.passed() == 0
    }

    /// Ends this process if it is a child of the one that obtained the generation, with a line on
    /// standard error that begins with `what`, and exit code 1. No code of the program runs then.
    ///
    /// It is for a child that returns into code whose other threads it does not have, and whose
    /// memory other processes share.
    #[inline]
    pub fn end_child(self, what: &dyn fmt::Display) {
        if !self.is_current() {
            end(what);
        }
    }

    /// Returns 0 while the generation is current, and another number afterwards. The number can be
    /// combined with other conditions in a single comparison.
    #[inline]
    #[must_use]
    pub fn passed(self) -> u64 {
        PAGE.number.load(Ordering::Relaxed) ^ self.number
    }
}

#[cold]
fn end(what: &dyn fmt::Display) {
    let line = format!(
        "syncline: {what}: a child made by fork() goes on where only its parent may: the child ends\n"
    );
    // SAFETY: `line` is that long. If it cannot be written, the exit code remains. `_exit` runs no
    // destructors and no handlers, which could wait for threads that the child does not have.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(1)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Generation").field(&self.number).finish()
    }
}

/// The generation number, alone in whole pages, so that the kernel wipes nothing else with it.
#[repr(C, align(4096))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct Page {
    number: AtomicU64,
    _rest: [u8; LARGEST_PAGE - size_of::<AtomicU64>()],
}

/// The largest page size that the architecture uses for such memory.
const LARGEST_PAGE: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };

static PAGE: Page =
    Page { number: AtomicU64::new(CHILD), _rest: [0; LARGEST_PAGE - size_of::<AtomicU64>()] };

/// Makes sure that the number is cleared in children.
fn guard(page: &'static Page) {
    if cfg!(miri) {
        return; // Miri does not support fork
    }
    let first = (&raw const *page).cast_mut().cast();
    // SAFETY: the range is whole pages of a static: it is zero at first, so the memory is
    // anonymous, and it holds nothing but the number, which is only accessed as an atomic. The
    // advice changes nothing in this process.
    if unsafe { mm::madvise(first, LARGEST_PAGE, mm::Advice::LinuxWipeOnFork) }.is_err() {
        clear_by_handler();
    }
}

/// Registers a `pthread_atfork` handler that clears the number in children.
fn clear_by_handler() {
    extern "C" fn clear() {
        PAGE.number.store(CHILD, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores into a static, which is allowed in a child in any state. If
    // there is no memory to register it, forked children go undetected; there is no fallback.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(clear)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `child` in a forked process and returns its exit code.
    fn in_a_child(fork: impl FnOnce() -> libc::pid_t, child: impl FnOnce() -> u8) -> i32 {
        match fork() {
            // SAFETY: `_exit` ends the child without running destructors or any code of the test
            // harness, which must not run there.
            0 => unsafe { libc::_exit(child().into()) },
            pid => {
                assert!(pid > 0, "{}", std::io::Error::last_os_error());
                let mut status = 0;
                // SAFETY: `status` is valid for writes.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                assert!(libc::WIFEXITED(status), "{status:x}");
                libc::WEXITSTATUS(status)
            }
        }
    }

    fn fork() -> libc::pid_t {
        // SAFETY: the child runs only the closure of `in_a_child`, which takes no lock.
        unsafe { libc::fork() }
    }

    /// Forks with a raw system call, so that the C library runs no fork handlers.
    fn raw() -> libc::pid_t {
        // SAFETY: as in `fork`; without `CLONE_VM` the child has a copy of all memory and continues
        // on its copy of the stack.
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }
    }

    #[test]
    fn a_generation_ends_in_every_kind_of_child() {
        let made = Generation::current();
        for forked in [fork, raw] {
            let child = || {
                let past = made.is_current();
                let own = Generation::current();
                let nested = in_a_child(forked, || u8::from(own.is_current() || made.is_current()));
                u8::from(past)
                    | u8::from(!own.is_current()) << 1
                    | u8::from(made.is_current()) << 2
                    | (nested as u8) << 3
            };
            assert_eq!(in_a_child(forked, child), 0);
            assert!(made.is_current());
        }
        assert_eq!(Generation::current().number, made.number);
    }

    /// Runs in a child that advises the kernel to keep its page, so that only the handler can clear
    /// it.
    #[test]
    fn without_the_kernel_a_handler_ends_it() {
        // The first call sets `MADV_WIPEONFORK`, here and not in the child that resets it.
        let _ = Generation::current();
        let child = || {
            let first = (&raw const PAGE).cast_mut().cast();
            // SAFETY: as in `guard`.
            let kept = unsafe { mm::madvise(first, LARGEST_PAGE, mm::Advice::LinuxKeepOnFork) };
            let own = Generation::current();
            let without = in_a_child(fork, || u8::from(own.is_current()));
            clear_by_handler();
            let with = in_a_child(fork, || u8::from(own.is_current()));
            u8::from(kept.is_err()) | u8::from(without != 1) << 1 | u8::from(with != 0) << 2
        };
        assert_eq!(in_a_child(fork, child), 0);
    }
}
