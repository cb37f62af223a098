//! A process group of a task: started under the guard's eyes, and gone as a whole.
//!
//! | step       | what is done                                                                            |
//! |------------|-----------------------------------------------------------------------------------------|
//! | `start`    | the guard is told, the process started (posix_spawn), watched by pidfd and bounded      |
//! | `signal`   | goes to all of the group, also to processes that are stopped                            |
//! | `finish`   | when the first process has exited: the rest killed, the guard told, the status collected |
//!
//! Until `finish` nobody has collected the process, so its number is that of no other group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, prlimit};
use syncline_memory::ProcessWatch;

use super::guard::{Guard, MARK};
use crate::error::{Error, Result};

/// A process group whose first process has not been collected.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    watch: ProcessWatch,
    id: Pid,
}

/// Why a group did not begin.
#[derive(Debug)]
pub(super) enum Unstarted {
    /// This process could not be started.
    Process(io::Error),
    /// No process may be, as nobody would guard it.
    Guard(Error),
}

impl Group {
    /// Starts a process in a group of its own, which may have so much data memory.
    ///
    /// The bound is set when the process runs already, and inherited by what it starts then.
    pub(super) fn start(
        command: &mut Command,
        guard: &mut Guard,
        memory: Option<u64>,
    ) -> Result<Self, Unstarted> {
        command.process_group(0).env(MARK, guard.mark());
        guard.starting().map_err(Unstarted::Guard)?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                guard.starting().map_err(Unstarted::Guard)?;
                return Err(Unstarted::Process(error));
            }
        };
        let id = Pid::from_child(&child);
        // Nobody has collected the child, so the number is its own.
        let watch = guard.began(id).map_err(Unstarted::Guard).and_then(|()| {
            let watch = ProcessWatch::new(child.id());
            let watch = watch.map_err(|error| Unstarted::Process(io::Error::other(error)))?;
            bound(id, memory).map_err(Unstarted::Process)?;
            Ok(watch)
        });
        match watch {
            Ok(watch) => Ok(Self { child, watch, id }),
            Err(why) => {
                let _ = kill_process_group(id, Signal::KILL);
                // A guard that cannot be told is the next error.
                let _ = guard.ended(id);
                let _ = child.wait();
                Err(why)
            }
        }
    }

    /// Its pipes, those that there are; once.
    pub(super) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// A signal to all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails for those only that are gone, or are another user's.
        let _ = kill_process_group(self.id, signal);
        if signal != Signal::KILL {
            let _ = kill_process_group(self.id, Signal::CONT);
        }
    }

    /// Collects the first process, which has exited, and kills what is left of its group.
    pub(super) fn finish(mut self, guard: &mut Guard) -> Result<ExitStatus> {
        let _ = kill_process_group(self.id, Signal::KILL);
        let told = guard.ended(self.id);
        let status = self.child.wait();
        told?;
        status.map_err(|source| Error::Io { what: "learn how a task ended".to_owned(), source })
    }
}

impl AsFd for Group {
    /// For a poll: readable when the first process has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// Bounds the data memory of a process; one that has exited needs no bound.
fn bound(id: Pid, memory: Option<u64>) -> io::Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    // It has ours. A limit that is lower already stays.
    let most = getrlimit(Resource::Data).maximum.map_or(memory, |most| most.min(memory));
    match prlimit(Some(id), Resource::Data, Rlimit { current: Some(most), maximum: Some(most) }) {
        Ok(_) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(io::Error::new(
            io::Error::from(errno).kind(),
            format!("its memory cannot be bounded: {}", io::Error::from(errno)),
        )),
    }
}
