//! Finds processes by a mark: an environment variable that child processes inherit.
//!
//! # Contract
//! A mark is an environment variable whose value no other mark has. A process has the mark from the
//! moment at which exec has replaced its program; for a short time before that, its environment
//! reads as empty. A process that has cleared its environment, has ended, or belongs to another
//! user is not found.
//!
//! # Costs
//! Each search reads `/proc` once, plus the environment of each process that passes the filter.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Spawn;

/// An environment variable that marks processes which belong together.
#[derive(Clone, Debug)]
pub struct EnvironmentMark {
    variable: &'static str,
    value: String,
}

impl EnvironmentMark {
    /// Creates a mark whose value no other mark has, in this process or another.
    #[must_use]
    pub fn new(variable: &'static str) -> EnvironmentMark {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let value = format!("{}-{}.{:09}", std::process::id(), now.tv_sec, now.tv_nsec);
        EnvironmentMark { variable, value }
    }

    /// Returns the mark that another process has created with this variable and value.
    #[must_use]
    pub fn of(variable: &'static str, value: String) -> EnvironmentMark {
        EnvironmentMark { variable, value }
    }

    /// Returns the value of the variable.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Puts the mark on a process that is about to be started; all its descendants inherit it.
    pub fn put_on(&self, spawn: &mut Spawn<'_>) {
        spawn.env(self.variable, &self.value);
    }

    /// Calls `each` with every process that passes `wanted` and has the mark. Returns whether any
    /// process that passes `wanted` has an empty environment: it may be about to get the mark.
    ///
    /// ```
    /// use syncline_process::mark::EnvironmentMark;
    ///
    /// let mark = EnvironmentMark::new("EXAMPLE_MARK");
    /// assert!(!mark.find(|process| process.group == 1, |_| panic!("a stranger has the mark")));
    /// ```
    pub fn find(&self, wanted: impl Fn(&Process) -> bool, mut each: impl FnMut(Process)) -> bool {
        let mut is_any_begun = false;
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        for process in
            pids.filter_map(Process::of).filter(|process| !process.is_over && wanted(process))
        {
            match process.environment() {
                Some(environment) if environment.is_empty() => is_any_begun = true,
                Some(environment) if self.is_in(&environment) => each(process),
                _ => (),
            }
        }
        is_any_begun
    }

    /// Kills (SIGKILL) every process that passes `wanted` and has the mark. Returns whether there
    /// was any.
    pub fn kill(&self, wanted: impl Fn(&Process) -> bool) -> bool {
        let mut any = false;
        self.find(&wanted, |process| {
            any = true;
            // The process is checked again after the pidfd is opened: from here on the pidfd cannot
            // refer to another process of that number.
            if let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty())
                && let Some(process) = Process::of(process.pid).filter(&wanted)
                && process.environment().is_some_and(|environment| self.is_in(&environment))
            {
                // Fails only if the process has ended.
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
        });
        any
    }

    fn is_in(&self, environment: &[u8]) -> bool {
        environment.split(|&byte| byte == 0).any(|variable| {
            let value = variable
                .strip_prefix(self.variable.as_bytes())
                .and_then(|rest| rest.strip_prefix(b"="));
            value == Some(self.value.as_bytes())
        })
    }
}

/// The state of a process, as `/proc` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Process {
    /// The process ID.
    pub pid: Pid,
    /// The ID of the process group; 0 for kernel threads and for a group outside of this PID
    /// namespace.
    pub group: i32,
    /// The ID of the session.
    pub session: i32,
    /// Whether the process has ended and its parent has not collected it yet.
    pub is_over: bool,
}

impl Process {
    fn of(pid: Pid) -> Option<Process> {
        Process::parse(pid, &fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?)
    }

    /// Parses a line of `/proc/PID/stat`: number (name) state parent group session ...
    fn parse(pid: Pid, line: &str) -> Option<Process> {
        // The name may contain any characters, parentheses and spaces among them.
        let mut behind_name = line.rsplit_once(')')?.1.split_whitespace();
        let is_over = matches!(behind_name.next()?, "Z" | "X");
        let mut numbers = behind_name.skip(1).map_while(|number| number.parse().ok());
        Some(Process { pid, group: numbers.next()?, session: numbers.next()?, is_over })
    }

    /// Returns the environment, or `None` if the process has gone or belongs to another user.
    fn environment(&self) -> Option<Vec<u8>> {
        fs::read(format!("/proc/{}/environ", self.pid.as_raw_pid())).ok()
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpgrp;

    use super::*;

    #[test]
    fn what_the_kernel_says_is_read() {
        let pid = rustix::process::getpid();
        let process = |is_over| Some(Process { pid, group: 5, session: 3, is_over });
        assert_eq!(Process::parse(pid, "7 (a) b (c)) S 1 5 3 0 -1"), process(false));
        assert_eq!(Process::parse(pid, "7 (a) Z 1 5 3 0 -1"), process(true));
        assert_eq!(Process::parse(pid, "7 (a) S 1 0"), None);
        assert_eq!(Process::parse(pid, ""), None);
    }

    #[test]
    fn every_process_of_the_machine_can_be_asked_for_its_group() {
        // Kernel threads have no group: process 2 is one, where it is visible.
        assert!(!EnvironmentMark::new("SYNCLINE_TEST_MARK").kill(|_| true));
        let own = Process::of(rustix::process::getpid()).unwrap();
        assert_eq!(own.group, getpgrp().as_raw_pid());
        assert!(Process::of(Pid::from_raw(2).unwrap()).is_none_or(|process| process.group >= 0));
    }

    #[test]
    fn a_child_and_its_child_have_the_mark() {
        let mark = EnvironmentMark::new("SYNCLINE_TEST_MARK");
        let mut spawn = Spawn::new("sh");
        mark.put_on(spawn.args(["-c", "sleep 4000 & wait"]));
        let leader = spawn.start_group().unwrap();
        let of_group = |process: &Process| process.group.unsigned_abs() == leader.id();
        let mut found = 0;
        // The second process may not have started yet.
        while found < 2 {
            found = 0;
            mark.find(of_group, |_| found += 1);
        }
        assert!(mark.kill(of_group));
        assert!(!leader.collect().unwrap().success());
    }
}
