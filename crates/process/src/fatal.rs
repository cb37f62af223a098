//! A pipe whose hang-up kills: the calls of fcntl that no safe wrapper has.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel sends SIGKILL to all of a process group when the last write end of the pipe is
/// closed, for as long as any process has this open file.
///
/// The kernel keeps the group itself and not its number, so the signal reaches no later group of
/// that number.
pub(crate) fn kill_at_hang_up(pipe: BorrowedFd<'_>, group: Group) -> io::Result<()> {
    // The last one arms it. A pipe that no process reads needs no other flag.
    for (command, value) in
        [(libc::F_SETOWN, group.owner()), (F_SETSIG, libc::SIGKILL), (libc::F_SETFL, libc::O_ASYNC)]
    {
        // SAFETY: the descriptor is open, and each of these commands takes an integer; none touches memory.
        if unsafe { libc::fcntl(pipe.as_raw_fd(), command, value) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether the kernel does that already, to this very group.
pub(crate) fn kills_at_hang_up(pipe: BorrowedFd<'_>, group: Group) -> bool {
    // SAFETY: as above; these take nothing.
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
    /// The group of that number.
    Of(libc::pid_t),
    /// This process alone: its group has no number in this namespace of processes.
    Alone(libc::pid_t),
}

impl Group {
    /// The group of this process.
    pub(crate) fn own() -> Group {
        // SAFETY: these take nothing, and cannot fail.
        match unsafe { (libc::getpgrp(), libc::getpid()) } {
            (0, process) => Group::Alone(process),
            (group, _) => Group::Of(group),
        }
    }

    /// As `F_SETOWN` has it.
    fn owner(self) -> libc::pid_t {
        match self {
            Group::Of(group) => -group,
            Group::Alone(process) => process,
        }
    }
}

/// Not in libc for every target; it is Linux's own.
const F_SETSIG: libc::c_int = 10;
