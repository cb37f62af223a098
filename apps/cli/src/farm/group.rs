//! A process group of a task: started under the guard's eyes, and gone as a whole.
//!
//! | step       | what is done                                                                            |
//! |------------|-----------------------------------------------------------------------------------------|
//! | `start`    | the guard is told, the process started (posix_spawn) and watched by pidfd              |
//! | `signal`   | goes to all of the group, also to processes that are stopped                            |
//! | `pause`, `resume` | stop the group with this process, and continue it                               |
//! | `finish`   | when the first process has exited: the rest killed, the guard told, the status collected |
//!
//! Until `finish` the process is not collected, so its number is that of no other group.

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
use syncline_process::guard::Guarded;
use syncline_process::{Spawn, spawn::find};

use super::guard::Guard;
use crate::args::FarmBoundArgs;
use crate::error::{Error, Result};

/// A process group.
#[derive(Debug)]
pub(super) struct Group {
    /// `None` once its first process has been collected.
    guarded: Option<Guarded>,
    pipes: [Option<OwnedFd>; 3],
}

/// Why a group did not begin.
#[derive(Debug)]
pub(super) enum Unstarted {
    /// This process could not be started.
    Process(io::Error),
    /// No process may be: nothing would guard it, or take what it writes.
    Farm(Error),
}

/// What a process has as standard input, output or error.
#[derive(Debug)]
pub(super) enum Stream {
    /// Nothing to read.
    Nothing,
    /// That of this process.
    Ours,
    /// A pipe whose other end is in [`Group::pipes`].
    Pipe,
    File(File),
}

impl Group {
    /// Starts a process in a group of its own: a program with its arguments, with a bound on its
    /// data memory if there is to be one.
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

    /// Its pipes, those that there are; once.
    pub(super) fn pipes(&mut self) -> [Option<OwnedFd>; 3] {
        std::mem::take(&mut self.pipes)
    }

    /// For a poll: readable when the first process has exited.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.guarded.as_ref().map(|guarded| guarded.leader.as_fd())
    }

    fn send(&self, signal: Signal) {
        if let Some(guarded) = &self.guarded {
            guarded.leader.send(signal.as_raw());
        }
    }

    /// A signal to all of the group.
    pub(super) fn signal(&self, signal: Signal) {
        self.send(signal);
        if signal != Signal::KILL {
            self.send(Signal::CONT);
        }
    }

    /// As Ctrl-Z does, of which a group that is not in the foreground of its terminal is not told.
    pub(super) fn pause(&self) {
        self.send(Signal::TSTP);
    }

    /// What was paused goes on.
    pub(super) fn resume(&self) {
        self.send(Signal::CONT);
    }

    /// Collects the first process, which has exited, and kills what is left of its group. Nothing
    /// is sent to it after that.
    pub(super) fn finish(&mut self, guard: &mut Guard) -> Result<ExitStatus> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let finished =
            self.guarded.take().ok_or_else(gone).and_then(|guarded| guard.finish(guarded));
        finished.map_err(|source| Error::Io { what: "learn how a task ended".to_owned(), source })
    }
}

/// What starts a command.
///
/// A bound is set by this very program, which then becomes the other. Set from outside it would
/// come too late: a shell starts its first child before we are told that it runs.
fn bounded(command: &[OsString], memory: Option<u64>) -> io::Result<Spawn<'static>> {
    let Some((program, args)) = command.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut spawn = match memory {
        None => Spawn::new(program),
        Some(memory) => {
            // Else it would be the failure of every task.
            is_there(program)?;
            let mut spawn = Spawn::new("/proc/self/exe");
            spawn
                .arg0("syncline")
                .args(["farm", "bound", &memory.to_string(), "--"])
                .args([program]);
            spawn
        }
    };
    spawn.args(args);
    Ok(spawn)
}

/// Whether there is such a program, where a shell would look for it, and may be executed.
fn is_there(program: &OsStr) -> io::Result<()> {
    let found = find(program, env::var_os("PATH"))?;
    rustix::fs::access(&found, Access::EXEC_OK)?;
    if found.is_dir() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}

/// `syncline farm bound`: bounds this process, and becomes the program.
pub(crate) fn bound(args: &FarmBoundArgs) -> Result<()> {
    let [program, rest @ ..] = &args.command[..] else { return Ok(()) };
    // A limit that is lower already stays.
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
