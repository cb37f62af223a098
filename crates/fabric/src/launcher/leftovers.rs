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

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use syncline_process::mark::EnvironmentMark;

/// The variable that says which launcher has started a process, or one that has started it.
const MARK: &str = "SYNCLINE_LAUNCH";

/// How long those that were killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills what is left behind, when it is dropped.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// What the processes of the team have in their environment.
    pub(crate) mark: EnvironmentMark,
}

impl Leftovers {
    pub(crate) fn new() -> Leftovers {
        Leftovers { mark: EnvironmentMark::new(MARK) }
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        let (group, until) = (getpgrp().as_raw_pid(), Instant::now() + PATIENCE);
        // Again, as one of them may just have started another.
        while self.mark.kill(|process| process.group == group) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}
