//! Watches a child by pidfd for its exit, and describes how it ended.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::{Error, error::Result};

/// The way in which a process ended.
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
    /// The process exited with this code.
    Exited(u8),
    /// The process was killed by this signal.
    Killed(i32),
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            // The kernel keeps eight bits of an exit code.
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
/// A process counts as exited when all its threads have exited, whether or not its parent has
/// collected its status. Watching does not collect the status: that remains the parent's task.
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
    /// Begins to watch the process with this number.
    ///
    /// Must be called by its parent before it collects the child's status: until then the number
    /// cannot be reused. From then on the watch always refers to this process.
    ///
    /// # Errors
    /// [`Error::Process`]: with `ESRCH` if there is no such process; otherwise no descriptor is
    /// left.
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

    /// Returns the number of the watched process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether the process has exited. Does not block.
    ///
    /// # Errors
    /// [`Error::Process`] if the kernel has no memory left to answer.
    pub fn has_exited(&self) -> Result<bool> {
        self.wait_exit(Some(Instant::now()))
    }

    /// Blocks until the process has exited (`true`) or the deadline has passed (`false`).
    ///
    /// Without a deadline it blocks until the process has exited. Signals do not interrupt it.
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
    /// Lets a caller poll the descriptor itself: it is readable when the process has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Polls until an event arrives (`true`) or the deadline has passed (`false`).
pub(crate) fn wait_ready(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    deadline: Option<Instant>,
) -> rustix::io::Result<bool> {
    loop {
        // The remaining time is computed again after each signal. A time that is too long for the
        // system to express counts as no deadline.
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, events)], timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
    }
}
