//! Whether this process is still the one in which something was made, or a child that `fork` has
//! made of it since.
//!
//! # Contract
//! A [`Generation`] is a number that a process has and its children do not: whatever way a child
//! was forked (`fork`, `clone` without `CLONE_VM`), every generation that was noted before is
//! *past* there. A child that asks for the [current](Generation::current) one gets a number that
//! none of its ancestors had.
//!
//! ```text
//!   process:  page | 7 |      handle: made in generation 7        page == 7: the handle may be used
//!      │ fork
//!   child:    page | 0 |      handle: a copy, generation 7        page != 7: it is the parent's
//!                └──> 8 when the child makes something itself
//! ```
//! The number is a static in a page of its own, which the kernel wipes in a child
//! (`MADV_WIPEONFORK`, Linux 4.14). Where the kernel refuses that, a handler of `pthread_atfork`
//! clears it, which a raw `clone` does not call.
//!
//! # Costs
//! A look is one load of a line that never changes, and a comparison.

use std::fmt;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm;

/// The generation of a process: a number that a child made by fork() does not have.
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

/// A child in which nothing was made yet.
const CHILD: u64 = 0;

/// The last number that this process or an ancestor of it has had. A child inherits it.
static LAST: AtomicU64 = AtomicU64::new(CHILD);

impl Generation {
    /// The generation of this process now.
    #[must_use]
    pub fn current() -> Generation {
        static GUARDED: Once = Once::new();
        GUARDED.call_once(|| guard(&PAGE));
        let page = &PAGE.number;
        // Relaxed, here and below: the number stands for itself, and fork orders what the child
        // sees.
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

    /// Whether this process is the one that noted the generation, and not a child of it.
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self.passed() == 0
    }

    /// 0 while it is current, else another number: to be compared together with something else.
    #[inline]
    #[must_use]
    pub fn passed(self) -> u64 {
        PAGE.number.load(Ordering::Relaxed) ^ self.number
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Generation").field(&self.number).finish()
    }
}

/// The number of this process, in whole pages of its own: the kernel wipes nothing else with it.
#[repr(C, align(4096))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct Page {
    number: AtomicU64,
    _rest: [u8; LARGEST_PAGE - size_of::<AtomicU64>()],
}

/// The largest page that the architecture has for such memory.
const LARGEST_PAGE: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 65536 };

static PAGE: Page =
    Page { number: AtomicU64::new(CHILD), _rest: [0; LARGEST_PAGE - size_of::<AtomicU64>()] };

/// Sees to it that the number is cleared in children.
fn guard(page: &'static Page) {
    if cfg!(miri) {
        return; // Miri knows no fork
    }
    let first = (&raw const *page).cast_mut().cast();
    // SAFETY: the range is whole pages of a static that is zero at first, so anonymous memory, and
    // is nothing but the number, which is read and written as an atomic. The advice changes nothing
    // in this process.
    if unsafe { mm::madvise(first, LARGEST_PAGE, mm::Advice::LinuxWipeOnFork) }.is_err() {
        clear_by_handler();
    }
}

/// A handler clears the number in children made by `fork`.
fn clear_by_handler() {
    extern "C" fn clear() {
        PAGE.number.store(CHILD, Ordering::Relaxed);
    }
    // SAFETY: the handler only stores into a static, which is allowed in a child of whatever state.
    // If there is no memory for it, children are not noticed: there is nothing better to do.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(clear)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child says of itself, in its exit code.
    fn in_a_child(fork: impl FnOnce() -> libc::pid_t, child: impl FnOnce() -> u8) -> i32 {
        match fork() {
            // SAFETY: ends the child without anything else of it, as no function of the test's
            // harness may run there.
            0 => unsafe { libc::_exit(child().into()) },
            pid => {
                assert!(pid > 0, "{}", std::io::Error::last_os_error());
                let mut status = 0;
                // SAFETY: the status has room.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                assert!(libc::WIFEXITED(status), "{status:x}");
                libc::WEXITSTATUS(status)
            }
        }
    }

    fn fork() -> libc::pid_t {
        // SAFETY: the child does nothing but what `in_a_child` lets it, which takes no lock.
        unsafe { libc::fork() }
    }

    /// A fork of which the C library knows nothing.
    fn raw() -> libc::pid_t {
        // SAFETY: as in `fork`; without CLONE_VM the child has a copy of everything, and goes on on
        // the same stack.
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

    /// In a child, which is asked to keep its page, so that nothing but the handler can clear it.
    #[test]
    fn without_the_kernel_a_handler_ends_it() {
        // The first call has the kernel wipe the page, here and not in the child that has it kept.
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
