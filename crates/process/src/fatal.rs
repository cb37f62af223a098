//! A pipe whose hang-up kills a process group: the fcntl commands that have no safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes the kernel send SIGKILL to a whole process group when the last write end of the pipe is
/// closed, for as long as any process has this open file description.
///
/// The kernel keeps a reference to the group itself and not its number, so the signal cannot reach
/// a later group of the same number.
pub(crate) fn kill_at_hang_up(pipe: BorrowedFd<'_>, group: Group) -> io::Result<()> {
    // The last command arms the signal. A pipe that no process reads needs no other flag.
    for (command, value) in
        [(libc::F_SETOWN, group.owner()), (F_SETSIG, libc::SIGKILL), (libc::F_SETFL, libc::O_ASYNC)]
    {
        // SAFETY: the descriptor is open; each of these commands takes an integer and touches no
        // memory.
        if unsafe { libc::fcntl(pipe.as_raw_fd(), command, value) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns whether the kernel already does that, for this group.
pub(crate) fn kills_at_hang_up(pipe: BorrowedFd<'_>, group: Group) -> bool {
    // SAFETY: as above; these commands take no argument.
    let (flags, owner) = unsafe {
        (
            libc::fcntl(pipe.as_raw_fd(), libc::F_GETFL),
            libc::fcntl(pipe.as_raw_fd(), libc::F_GETOWN),
        )
    };
    flags != -1 && flags & libc::O_ASYNC != 0 && owner == group.owner()
}

/// The processes that the kernel kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The group of this number.
    Of(libc::pid_t),
    /// This process alone: its group has no number in this PID namespace.
    Alone(libc::pid_t),
}

impl Group {
    /// Returns the group of this process.
    pub(crate) fn own() -> Group {
        // SAFETY: these functions have no preconditions and cannot fail.
        match unsafe { (libc::getpgrp(), libc::getpid()) } {
            (0, process) => Group::Alone(process),
            (group, _) => Group::Of(group),
        }
    }

    /// Returns the value for `F_SETOWN`.
    fn owner(self) -> libc::pid_t {
        match self {
            Group::Of(group) => -group,
            Group::Alone(process) => process,
        }
    }
}

/// Linux only, and missing from libc for some targets.
const F_SETSIG: libc::c_int = 10;
