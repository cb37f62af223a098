//! A pipe whose hang-up kills: the calls of fcntl that no safe wrapper has.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::getpid;

/// The kernel sends SIGKILL to this process when the last write end of the pipe is closed.
pub(crate) fn kill_at_hang_up(pipe: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(pipe)?.bits() as libc::c_int;
    let settings = [
        (libc::F_SETOWN, getpid().as_raw_nonzero().get()),
        (F_SETSIG, libc::SIGKILL),
        (libc::F_SETFL, flags | libc::O_ASYNC),
    ];
    for (command, value) in settings {
        // SAFETY: the descriptor is open, and each of these commands takes an integer; none touches memory.
        if unsafe { libc::fcntl(pipe.as_raw_fd(), command, value) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Not in libc for every target; it is Linux's own.
const F_SETSIG: libc::c_int = 10;
