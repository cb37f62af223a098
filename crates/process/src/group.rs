//! A child process that leads a process group, and whose end ends the group.
//!
//! # Contract
//! The child is started in a group of its own ([`Spawn::start_group`]), so all its descendants are
//! in that group, unless they leave it (`setsid`, `setpgid`: daemons, shells with job control).
//! When the child has ended, the rest of the group is killed *before* the child is collected:
//!
//! ```text
//!   child exits ──> its pidfd is readable ──> SIGKILL to the group ──> the child is collected
//!                   └── until then its number, the group's, names no other process or group ──┘
//! ```
//! SIGKILL reaches all members of a group at the same moment, so no member can escape by forking.
//!
//! # Costs
//! `posix_spawn` sets the group in the child, so a start needs no further call. An end costs one
//! signal and one poll.
//!
//! [`Spawn::start_group`]: crate::Spawn::start_group

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::ExitStatus;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::{error::Result, spawn::Child, watch::ProcessWatch};

/// A child that leads a process group, and has not been collected.
///
/// When the child has ended, the rest of its group is killed before the child is collected, so the
/// group's number cannot have been reused by then. A process that leaves the group (`setsid`,
/// `setpgid`) is not killed.
///
/// ```
/// use syncline_process::Spawn;
///
/// let leader = Spawn::new("sh").args(["-c", "sleep 1000 & exit 3"]).start_group()?;
/// assert_eq!(leader.collect()?.code(), Some(3)); // and the sleeper is killed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GroupLeader {
    child: Child,
    watch: ProcessWatch,
}

impl GroupLeader {
    /// Watches a child that was started in a group of its own. If the child cannot be watched, its
    /// group is killed and it is collected.
    pub(crate) fn new(mut child: Child) -> Result<GroupLeader> {
        match ProcessWatch::new(child.id()) {
            Ok(watch) => Ok(GroupLeader { child, watch }),
            Err(error) => {
                let _ = kill_by_number(child.id(), libc::SIGKILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Returns the process ID of the child, which is also the ID of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to all processes of the group. An empty group is no error.
    pub fn send(&self, signal: i32) {
        send_to_group(&self.watch, signal);
    }

    /// Returns whether the child has exited. Does not block.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        // The call fails only if the kernel has no memory to answer; the caller polls again.
        self.watch.has_exited().unwrap_or(false)
    }

    /// Blocks until the child has exited (`true`) or the deadline has passed (`false`).
    #[must_use]
    pub fn wait_exit(&self, deadline: Option<Instant>) -> bool {
        self.watch.wait_exit(deadline).unwrap_or(false)
    }

    /// If the child has exited, kills the rest of its group and collects it. Does not block.
    ///
    /// # Errors
    /// Returns the system's error; `ECHILD` if other code of this process has collected the child.
    pub fn try_collect(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_collect_after(|| ())
    }

    /// Blocks until the child has exited, kills the rest of its group, and collects it.
    ///
    /// # Errors
    /// As [`try_collect`](Self::try_collect).
    pub fn collect(self) -> io::Result<ExitStatus> {
        self.collect_after(|| ())
    }

    /// Like [`collect`](Self::collect), but calls a function between the kill and the collection.
    pub(crate) fn collect_after(mut self, mut before: impl FnMut()) -> io::Result<ExitStatus> {
        loop {
            self.watch.wait_exit(None)?;
            if let Some(status) = self.try_collect_after(&mut before)? {
                return Ok(status);
            }
        }
    }

    fn try_collect_after(&mut self, before: impl FnOnce()) -> io::Result<Option<ExitStatus>> {
        if !self.has_exited() {
            return Ok(None);
        }
        send_to_group(&self.watch, libc::SIGKILL);
        before();
        self.child.wait().map(Some)
    }
}

impl AsFd for GroupLeader {
    /// Lets a caller poll the descriptor itself: it is readable when the child has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// Sends a signal to the group that a watched child leads, or has led.
fn send_to_group(leader: &ProcessWatch, signal: i32) {
    let (fd, group) = (leader.as_fd().as_raw_fd(), PIDFD_SIGNAL_PROCESS_GROUP);
    let info = std::ptr::null_mut::<libc::siginfo_t>();
    // SAFETY: the descriptor is open, and a null pointer makes the kernel fill in the sender:
    // pidfd_send_signal(2).
    if unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, group) } == 0 {
        return;
    }
    // Before Linux 6.9 the signal is sent by number.
    if [Some(libc::EINVAL), Some(libc::ENOSYS)].contains(&io::Error::last_os_error().raw_os_error())
    {
        let _ = kill_by_number(leader.pid(), signal);
    }
}

/// Sends a signal to the group by number, unless other code of this process has collected the
/// leader, as the number may have been reused then.
fn kill_by_number(leader: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
    )?;
    // SAFETY: `kill` takes two numbers, and touches no memory of this process.
    match unsafe { libc::kill(-pid.as_raw_nonzero().get(), signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the signal to the group of the process instead of the process alone: Linux 6.9.
const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 4;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::Spawn;

    /// Starts a leader that leaves behind a child, which holds its standard output.
    fn leader(script: &str) -> (GroupLeader, impl Read + use<>) {
        let (output, writer) = io::pipe().unwrap();
        let leader = Spawn::new("sh").args(["-c", script]).stream(1, writer.as_fd()).start_group();
        (leader.unwrap(), output)
    }

    fn state(pid: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn a_group_is_killed_before_its_leader_is_collected() {
        let (mut leader, mut output) = leader("sleep 4000 & exit 7");
        assert!(leader.watch.wait_exit(None).unwrap());
        let (mut state_then, pid) = (None, leader.id());
        let status = leader.try_collect_after(|| {
            state_then = state(pid);
            // The pipe reaches its end when the last process that holds it has ended.
            output.read_to_end(&mut Vec::new()).unwrap();
        });
        assert_eq!(status.unwrap().unwrap().code(), Some(7));
        assert_eq!(state_then, Some('Z'), "it was collected before its group was killed");
    }

    #[test]
    fn a_group_is_killed_by_number_as_well() {
        let (leader, mut output) = leader("sleep 4000 & wait");
        kill_by_number(leader.id(), libc::SIGKILL).unwrap();
        output.read_to_end(&mut Vec::new()).unwrap();
        let pid = leader.id();
        assert_eq!(leader.collect().unwrap().signal(), Some(9));
        // The process has been collected, so its number may have been reused.
        assert_eq!(
            kill_by_number(pid, libc::SIGKILL).unwrap_err().raw_os_error(),
            Some(libc::ECHILD)
        );
    }

    #[test]
    fn a_leader_that_lives_is_not_collected() {
        let (mut leader, mut output) = leader("sleep 4000 & echo; wait");
        output.read_exact(&mut [0]).unwrap();
        assert!(leader.try_collect().unwrap().is_none());
        leader.send(libc::SIGKILL);
        output.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(leader.collect().unwrap().signal(), Some(9));
    }
}
