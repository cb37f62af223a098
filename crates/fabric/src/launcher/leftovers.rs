//! What the processes of a team have started and left behind: killed when the team has ended.
//!
//! # Contract
//! The processes of a team stay in the process group of their launcher, so that the one that reads
//! from a terminal can, and Ctrl-C and Ctrl-Z reach all. So that group cannot be killed as a whole.
//! Instead each process has a mark in its environment, which what it starts inherits. When all
//! processes of the team have been collected, every process with the mark that is still in the
//! launcher's group is killed (SIGKILL). One that has left the group (`setsid`, `setpgid`), or has
//! cleared its environment, is let go.
//!
//! A launcher that is killed itself does not come to this.
//!
//! # Costs
//! One look at the processes of the system, and at the environment of those in the group.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, pidfd_open, pidfd_send_signal};

/// The variable that says which launcher has started a process, or one that has started it.
pub(crate) const MARK: &str = "SYNCLINE_LAUNCH";

/// How long those that were killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills what is left behind, when it is dropped.
#[derive(Debug)]
pub(crate) struct Leftovers {
    mark: String,
}

impl Leftovers {
    pub(crate) fn new() -> Leftovers {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Leftovers { mark: format!("{}-{}.{:09}", std::process::id(), now.tv_sec, now.tv_nsec) }
    }

    /// What the environment of a process of the team has as [`MARK`].
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// Whether a process is one that was left behind.
    fn is_one(&self, pid: Pid) -> bool {
        if group_of(pid) != Some(getpgrp().as_raw_nonzero().get()) {
            return false;
        }
        // One that has ended and was not collected has no environment, nor has that of another user
        // for us.
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let mark = format!("{MARK}={}", self.mark);
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    }

    /// Kills those that there are; whether there were any.
    fn kill(&self) -> bool {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        let mut any = false;
        for pid in pids.filter(|&pid| self.is_one(pid)) {
            any = true;
            // By a descriptor, and looked at again: from here on it is not about another process of
            // that number.
            if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
                && self.is_one(pid)
            {
                let _ = pidfd_send_signal(pidfd, Signal::KILL); // it fails only for one that has ended
            }
        }
        any
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        // Again, as one of them may just have started another.
        while self.kill() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The process group of a process, if that can be told. It is 0 for threads of the kernel and for
/// processes outside of this namespace, which is no number that `getpgid` may return by its
/// contract in rustix.
fn group_of(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Behind the name, which may have any characters: the state, the parent, the group.
    stat.rsplit_once(") ")?.1.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_of_the_machine_can_be_asked_for_its_group() {
        let leftovers = Leftovers::new();
        // Also those that have none: process 2 is the kernel's, where it is seen.
        assert!(!leftovers.kill());
        assert_eq!(group_of(rustix::process::getpid()), Some(getpgrp().as_raw_nonzero().get()));
        assert!(group_of(Pid::from_raw(2).unwrap()).is_none_or(|group| group >= 0));
    }
}
