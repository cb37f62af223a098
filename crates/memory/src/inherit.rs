//! Descriptors and variables that pass from a process to its children.
//!
//! A child is told the numbers of descriptors in a variable of its environment. What it finds there may be anything, so all
//! functions here answer with an error where the number is none of its descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::fs::SealFlags;
use rustix::io::{Errno, FdFlags};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A copy, closed on exec, of a descriptor that was inherited under this number. The number itself stays as it is.
///
/// # Errors
/// What the system says: there is no such descriptor, or no room for another.
///
/// ```
/// use std::os::fd::AsRawFd;
/// use syncline_memory::inherit;
///
/// let file = std::fs::File::open("/dev/null")?;
/// let copy = inherit::copy(file.as_raw_fd())?;
/// assert_ne!(copy.as_raw_fd(), file.as_raw_fd());
/// assert!(inherit::copy(-1).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy(number: RawFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(borrow(number)?, 3)?)
}

/// Has an inherited descriptor closed on exec: it is not passed on to other programs.
///
/// # Errors
/// What the system says: there is no such descriptor.
pub fn close_on_exec(number: RawFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(borrow(number)?, FdFlags::CLOEXEC)?)
}

/// Whether a descriptor is memory whose length nobody can change, as [`Segment::shared`](crate::Segment::shared) makes it.
#[must_use]
pub fn is_sealed(fd: &OwnedFd) -> bool {
    let needed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(needed))
}

fn borrow(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is not -1. Whoever passes a number in a variable keeps it open in the child, which is not
    // told of it in any other way and so does not close it. If it does not, the callers above, which only ask the
    // kernel, are answered by an error, or by one about another descriptor, which they do not change unless it is
    // what the variable says.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Removes a variable from the environment of this process if it has no other thread; else it stays, as others may
/// read the environment.
pub fn forget_variable(variable: &str) {
    if is_alone() {
        // SAFETY: no other thread can read or write the environment, for there is none: only this one could make one.
        unsafe { std::env::remove_var(variable) };
    }
}

/// Whether this thread is the only one of its process.
fn is_alone() -> bool {
    let thread = UnshareFlags::from_bits_retain(CLONE_THREAD);
    // SAFETY: to leave the other threads is refused where there are any, and changes nothing where there are none: unshare(2).
    match unsafe { unshare_unsafe(thread) } {
        Ok(()) => true,
        Err(Errno::INVAL) => false,
        // It may not be asked, in some containers. A folder has two links, and one for each folder in it: here, one for
        // each thread. If that is not so somewhere, it is not 3.
        Err(_) => rustix::fs::stat("/proc/self/task").is_ok_and(|tasks| tasks.st_nlink == 3),
    }
}

/// Not among the flags that rustix names.
const CLONE_THREAD: u32 = 0x0001_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_not_alone() {
        // There is at least the thread that runs the tests, or the test is that one.
        let alone = std::thread::scope(|scope| scope.spawn(is_alone).join().unwrap());
        assert!(!alone);
    }
}
