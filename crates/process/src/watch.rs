//! A parent watches its children by pidfd, and how they ended.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::{Error, error::Result};

/// How a process ended.
///
/// ```
/// use syncline_process::watch::Ending;
///
/// let status = std::process::Command::new("false").status()?;
/// assert_eq!(Ending::from(status).to_string(), "exited with 1");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It exited, with this code.
    Exited(u8),
    /// This signal killed it.
    Killed(i32),
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            // The kernel keeps eight bits of a code.
            (Some(code), _) => Ending::Exited(code as u8),
            (None, signal) => Ending::Killed(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "exited with {code}"),
            Ending::Killed(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// Watches one process for its exit.
///
/// A process counts as exited when all its threads have, whether or not its parent has collected
/// its status yet. Watching does not collect it: that stays with the parent.
///
/// # Examples
/// ```
/// use std::process::Command;
/// use syncline_process::watch::ProcessWatch;
///
/// let mut child = Command::new("true").spawn()?;
/// let watch = ProcessWatch::new(child.id())?;
/// assert!(watch.wait_exit(None)?);
/// child.wait()?;
/// assert!(watch.has_exited()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ProcessWatch {
    pidfd: OwnedFd,
    pid: u32,
}

impl ProcessWatch {
    /// Begins to watch the process with that number.
    ///
    /// Called by its parent before it collects the child's status: until then the number cannot
    /// go to another process. From here on the watch is about this very process for ever.
    ///
    /// # Errors
    /// [`Error::Process`]: with `ESRCH` if there is no such process, else if no descriptor is left.
    pub fn new(pid: u32) -> Result<ProcessWatch> {
        let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let opened = known
            .ok_or(Errno::SRCH)
            .and_then(|known| rustix::process::pidfd_open(known, PidfdFlags::empty()));
        match opened {
            Ok(pidfd) => Ok(ProcessWatch { pidfd, pid }),
            Err(errno) => Err(Error::Process { op: "watch", pid, source: errno.into() }),
        }
    }

    /// The number of the watched process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process has exited. Does not block.
    ///
    /// # Errors
    /// [`Error::Process`] if the kernel has no memory left to answer.
    pub fn has_exited(&self) -> Result<bool> {
        self.wait_exit(Some(Instant::now()))
    }

    /// Waits until the process has exited (`true`) or the deadline has passed (`false`).
    ///
    /// Without a deadline it waits as long as it takes. Signals do not cut it short.
    ///
    /// # Errors
    /// [`Error::Process`] if the kernel has no memory left to answer.
    pub fn wait_exit(&self, deadline: Option<Instant>) -> Result<bool> {
        wait_ready(self.pidfd.as_fd(), PollFlags::IN, deadline).map_err(|errno| Error::Process {
            op: "poll",
            pid: self.pid,
            source: errno.into(),
        })
    }
}

impl AsFd for ProcessWatch {
    /// For a caller's own poll: readable when the process has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Polls until an event comes (`true`) or the deadline has passed (`false`).
pub(crate) fn wait_ready(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    deadline: Option<Instant>,
) -> rustix::io::Result<bool> {
    loop {
        // What is left is computed anew after each signal. A time too long for the system to
        // express is as good as no deadline.
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, events)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
    }
}
