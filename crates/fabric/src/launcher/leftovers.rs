//! Leftovers: processes that the processes of a team have started and left behind are killed when
//! the team has ended.
//!
//! # Contract
//! The processes of a team stay in the process group of their launcher, so that they can read from
//! a terminal, and Ctrl-C and Ctrl-Z reach all of them. Hence that group cannot be killed as a
//! whole. Instead each process has a mark in its environment, which its children inherit. When all
//! processes of the team have been collected, every process with the mark that is still in the
//! launcher's group is killed (SIGKILL). A process that has left the group (`setsid`, `setpgid`),
//! or has cleared its environment, is not killed.
//!
//! A launcher that is itself killed does none of this.
//!
//! # Costs
//! One scan of the processes of the system, and of the environment of those in the group.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use syncline_process::mark::EnvironmentMark;

/// The variable that names the launcher that has started a process or one of its ancestors.
const MARK: &str = "SYNCLINE_LAUNCH";

/// How long the killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills leftover processes when dropped.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// The mark in the environment of the team's processes.
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
        // Repeated, as a leftover process may just have started another.
        while self.mark.kill(|process| process.group == group) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}
