//! The guard: a process that kills what is left when the farm is killed.
//!
//! ```text
//!   farm                                  guard, in a group of its own
//!   "?"        a task is to be started     from here on one may be there that has no number yet
//!   "+1234"    it is group 1234            if the farm ends now, 1234 is killed
//!   "-1234"    its first process has exited, what was left of it is killed, and it is not collected yet
//!   (end of file)                          kills all groups that began and did not end, and exits
//! ```
//!
//! A number is told to have ended *before* its process is collected, as from then on it may be
//! another's. If the farm is killed between "?" and "+", the guard finds the group by the mark in
//! its environment ([`MARK`]). The pipe is closed on exec, so no task holds it open: its end is the
//! end of the farm.
//!
//! A task that ends by itself in the moment between the farm's death and the guard's kill leaves
//! its number free; Linux does not give it to another before it has gone round.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufRead as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::SIGHUP;
use syncline_process::ProcessWatch;

use crate::args::FarmGuardArgs;
use crate::error::{Error, Result};

/// The variable in the environment of every task that says whose it is.
pub(super) const MARK: &str = "SYNCLINE_FARM_RUN";

/// How long the guard may take to read or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The farm's end of the guard. When it is dropped, the groups that have not ended are killed.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    /// `None` once there is nothing more to tell.
    pipe: Option<ChildStdin>,
    mark: String,
}

impl Guard {
    /// Starts one.
    pub(super) fn start() -> Result<Self> {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let mark = format!("{}-{}", std::process::id(), since.as_nanos());
        // This very program, even if another stands under its name by now.
        let child = Command::new("/proc/self/exe")
            .arg0("syncline")
            .args(["farm", "guard", &mark])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let failed = |source| Error::Io { what: "start the guard of the tasks".to_owned(), source };
        let mut guard = Self { child: child.map_err(failed)?, pipe: None, mark };
        guard.pipe = guard.child.stdin.take();
        if let Some(pipe) = &guard.pipe {
            rustix::io::ioctl_fionbio(pipe, true).map_err(|errno| failed(errno.into()))?;
        }
        Ok(guard)
    }

    /// What the environment of a task must have as [`MARK`].
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// A group is to begin, or will not after all, if that is told twice.
    pub(super) fn starting(&mut self) -> Result<()> {
        self.tell("?\n")
    }

    /// A group has begun.
    pub(super) fn began(&mut self, group: Pid) -> Result<()> {
        self.tell(&format!("+{}\n", group.as_raw_pid()))
    }

    /// A group has ended.
    pub(super) fn ended(&mut self, group: Pid) -> Result<()> {
        self.tell(&format!("-{}\n", group.as_raw_pid()))
    }

    /// Writes a line, which is so short that it is written whole or not at all.
    fn tell(&mut self, line: &str) -> Result<()> {
        let failed = |errno: Errno| {
            let what = "tell the guard which tasks run (was it killed?)".to_owned();
            Error::Io { what, source: errno.into() }
        };
        let Some(pipe) = &self.pipe else { return Err(failed(Errno::PIPE)) };
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::io::write(pipe, line.as_bytes()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) if Instant::now() < until => {
                    let mut fds = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)];
                    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                    // Whatever comes of it, the write tells.
                    let _ = rustix::event::poll(&mut fds, Some(&second));
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Stopped by another process, it is left to itself: it ends when it goes on.
        let watch = ProcessWatch::new(self.child.id());
        if watch.is_ok_and(|watch| watch.wait_exit(Some(Instant::now() + PATIENCE)).unwrap_or(false)) {
            let _ = self.child.wait();
        }
    }
}

/// `syncline farm guard`: reads until there is no writer any more, and kills what is left.
///
/// SIGINT and SIGTERM have no effect on it, as on any command that does not look whether they came.
pub(crate) fn guard(args: &FarmGuardArgs) -> Result<()> {
    let failed = |source| Error::Io { what: "catch signals".to_owned(), source };
    signal_hook::flag::register(SIGHUP, std::sync::Arc::default()).map_err(failed)?;
    let mut told = Told::default();
    for line in io::stdin().lock().lines() {
        // What cannot be read any more is over, too.
        let Ok(line) = line else { break };
        told.hear(&line);
    }
    for group in &told.groups {
        kill(*group);
    }
    if told.starting {
        marked(&args.mark, kill);
    }
    Ok(())
}

/// What the guard knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    groups: HashSet<Pid>,
    starting: bool,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let group = line.get(1..).and_then(|number| number.parse().ok());
        // Group 1 is not one to kill, whatever was read.
        let group = group.filter(|&number: &i32| number > 1).and_then(Pid::from_raw);
        match (line.as_bytes().first(), group) {
            (Some(b'?'), _) => self.starting = !self.starting,
            (Some(b'+'), Some(group)) => {
                self.starting = false;
                self.groups.insert(group);
            }
            (Some(b'-'), Some(group)) => {
                self.groups.remove(&group);
            }
            _ => (),
        }
    }
}

/// One that is gone is no error.
fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

/// Does something to each group whose first process has that mark. One that leads a session has
/// left its farm on purpose.
///
/// A process that is started holds the pipe of the guard until it has its own program, but gets its
/// environment a moment later: so this looks again while there is a process without one.
fn marked(mark: &str, mut each: impl FnMut(Pid)) {
    let mark = format!("{MARK}={mark}");
    let until = Instant::now() + PATIENCE;
    loop {
        let mut is_any_begun = false;
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            // That of another user cannot be read.
            let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            match Stat::parse(&stat) {
                Some(stat) if stat.group == pid && stat.session != pid && !stat.is_over => {
                    is_any_begun |= environment.is_empty();
                    if environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()) {
                        Pid::from_raw(pid).into_iter().for_each(&mut each);
                    }
                }
                _ => (),
            }
        }
        // One may have been started without an environment.
        if !is_any_begun || Instant::now() > until {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// What the kernel says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// It has ended, and was not waited for.
    is_over: bool,
    group: i32,
    session: i32,
}

impl Stat {
    /// Of a line: number (name) state parent group session ...
    fn parse(line: &str) -> Option<Stat> {
        // The name may contain anything.
        let mut behind_name = line.rsplit_once(')')?.1.split_whitespace();
        let is_over = matches!(behind_name.next()?, "Z" | "X");
        let mut numbers = behind_name.skip(1).map_while(|number| number.parse().ok());
        Some(Stat { is_over, group: numbers.next()?, session: numbers.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_left() {
        let mut told = Told::default();
        for line in ["?", "+100", "?", "+200", "-100", "", "x", "+1", "+0", "+-7", "-", "+", "?"] {
            told.hear(line);
        }
        let expected = Told { groups: [Pid::from_raw(200).unwrap()].into(), starting: true };
        assert_eq!(told, expected);
        told.hear("?");
        assert!(!told.starting);
    }

    #[test]
    fn groups_are_read() {
        let stat = |is_over| Some(Stat { is_over, group: 5, session: 3 });
        assert_eq!(Stat::parse("7 (a) b (c)) S 1 5 3 0 -1"), stat(false));
        assert_eq!(Stat::parse("7 (a) Z 1 5 3 0 -1"), stat(true));
        assert_eq!(Stat::parse("7 (a) S 1 0"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_group_is_found_by_its_mark() {
        let mark = format!("test-{}", std::process::id());
        let start =
            |group| Command::new("sleep").arg("30").env(MARK, &mark).process_group(group).spawn().unwrap();
        let mut first = start(0);
        let group = Pid::from_child(&first);
        let mut second = start(group.as_raw_pid());
        // They are found at once, though they may not have their environment yet.
        let mut found = HashSet::new();
        marked(&mark, |group| {
            found.insert(group);
        });
        assert_eq!(found, [group].into());
        kill(group);
        assert!(!first.wait().unwrap().success() && !second.wait().unwrap().success());
    }
}
