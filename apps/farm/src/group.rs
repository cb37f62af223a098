//! The process group of a task: registered with the guard, and ended as a whole.
//!
//! | step              | action                                                                 |
//! |-------------------|------------------------------------------------------------------------|
//! | `start`           | registers with the guard, spawns the process (posix_spawn) and a pidfd |
//! | `signal`          | sends a signal to the whole group, also to stopped processes           |
//! | `pause`, `resume` | stop the group with this process, and continue it                      |
//! | `finish`          | after the first process has exited: kills the rest, unregisters, reaps |
//!
//! The process is not reaped before `finish`, so no other group can have its number.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};

use rustix::fs::Access;
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use syncline_fabric::leave_team;
use syncline_process::guard::Guarded;
use syncline_process::{Spawn, spawn::find};

use super::guard::{Guard, Unstarted};
use crate::args::FarmBoundArgs;
use crate::error::{Error, Result};

/// A process group.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` once its first process has been reaped.
    guarded: Option<Guarded>,
    pipes: [Option<OwnedFd>; 3],
}

/// The standard input, output or error of a process.
#[derive(Debug)]
pub(super) enum Stream {
    /// An empty input.
    Nothing,
    /// The stream of this process.
    Ours,
    /// A pipe whose other end is in [`Group::pipes`].
    Pipe,
    File(File),
}

impl Group {
    /// Starts a program with its arguments in a new group, with a bound on its data memory if one
    /// is given.
    pub(super) fn start(
        command: &[OsString],
        memory: Option<u64>,
        streams: [Stream; 3],
        guard: &mut Guard,
    ) -> Result<Self, Unstarted> {
        let (mut ours, mut theirs) = ([None, None, None], [None, None, None]);
        for (number, stream) in streams.into_iter().enumerate() {
            (ours[number], theirs[number]) = match stream {
                Stream::Ours => (None, None),
                Stream::Nothing => (None, Some(guard.nothing().map_err(Unstarted::Process)?)),
                Stream::File(file) => (None, Some(file.into())),
                Stream::Pipe => {
                    let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
                    let (from, to) = pipe.map_err(|errno| Unstarted::Process(errno.into()))?;
                    if number == 0 { (Some(to), Some(from)) } else { (Some(from), Some(to)) }
                }
            };
        }
        let mut spawn = bounded(command, memory).map_err(Unstarted::Process)?;
        for (number, fd) in (0..).zip(&theirs) {
            if let Some(fd) = fd {
                spawn.stream(number, fd.as_fd());
            }
        }
        let guarded = guard.spawn(&mut spawn)?;
        Ok(Self { guarded: Some(guarded), pipes: ours })
    }

    /// Takes the pipes of the group; the first call returns those that exist.
    pub(super) fn pipes(&mut self) -> [Option<OwnedFd>; 3] {
        std::mem::take(&mut self.pipes)
    }

    /// Returns a descriptor for a poll; it is readable when the first process has exited.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.guarded.as_ref().map(|guarded| guarded.leader.as_fd())
    }

    fn send(&self, signal: Signal) {
        if let Some(guarded) = &self.guarded {
            guarded.leader.send(signal.as_raw());
        }
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        self.send(signal);
        if signal != Signal::KILL {
            self.send(Signal::CONT);
        }
    }

    /// Stops the group as Ctrl-Z does; the terminal does not signal groups in the background.
    pub(super) fn pause(&self) {
        self.send(Signal::TSTP);
    }

    /// Continues a paused group.
    pub(super) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// Reaps the first process, which has exited, and kills the rest of its group. No signal is
    /// sent to the group afterwards.
    pub(super) fn finish(&mut self, guard: &mut Guard) -> Result<ExitStatus> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let finished =
            self.guarded.take().ok_or_else(gone).and_then(|guarded| guard.finish(guarded));
        finished
            .map_err(|source| Error::Io { what: "determine how a task ended".to_owned(), source })
    }
}

/// Returns the spawn of a command.
///
/// A bound is set by this program itself, which then executes the command. Set from outside it
/// would come too late: a shell starts its first child before the farm is notified that the shell
/// runs.
fn bounded(command: &[OsString], memory: Option<u64>) -> io::Result<Spawn<'static>> {
    let Some((program, args)) = command.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut spawn = match memory {
        None => Spawn::new(program),
        Some(memory) => {
            // Otherwise every task would fail for this reason.
            is_there(program)?;
            let mut spawn = Spawn::new("/proc/self/exe");
            spawn
                .arg0("syncline")
                .args(["farm", "bound", &memory.to_string(), "--"])
                .args([program]);
            spawn
        }
    };
    leave_team(spawn.args(args));
    Ok(spawn)
}

/// Checks that the program exists where a shell would find it, and is executable.
fn is_there(program: &OsStr) -> io::Result<()> {
    let found = find(program, env::var_os("PATH"))?;
    rustix::fs::access(&found, Access::EXEC_OK)?;
    if found.is_dir() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

/// `syncline farm bound`: limits the data memory of this process, and executes the program.
///
/// # Errors
/// Those of the system. A program that is executed does not return.
pub fn bound(args: &FarmBoundArgs) -> Result<()> {
    let [program, rest @ ..] = &args.command[..] else { return Ok(()) };
    // A lower existing limit stays.
    let most = getrlimit(Resource::Data).maximum.map_or(args.memory, |most| most.min(args.memory));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    let limited = setrlimit(Resource::Data, limit);
    limited.map_err(|errno| Error::Io {
        what: "bound the memory of a task".to_owned(),
        source: errno.into(),
    })?;
    let source = Command::new(program).args(rest).exec();
    Err(Error::Io { what: format!("start {}", program.display()), source })
}
