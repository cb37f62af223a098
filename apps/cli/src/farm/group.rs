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
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, setrlimit};
use syncline_process::ProcessWatch;

use super::guard::{Guard, MARK};
use crate::args::FarmBoundArgs;
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

impl From<Stream> for Stdio {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Nothing => Self::null(),
            Stream::Ours => Self::inherit(),
            Stream::Pipe => Self::piped(),
            Stream::File(file) => file.into(),
        }
    }
}

impl Group {
    /// Starts a process in a group of its own: a program with its arguments, with a bound on its
    /// data memory if there is to be one.
    pub(super) fn start(
        command: &[OsString],
        memory: Option<u64>,
        [input, output, errors]: [Stream; 3],
        guard: &mut Guard,
    ) -> Result<Self, Unstarted> {
        let mut command = bounded(command, memory).map_err(Unstarted::Process)?;
        command.stdin(input).stdout(output).stderr(errors);
        // What it starts is in no team, though the farm may be.
        command.process_group(0).env(MARK, guard.mark()).env_remove("SYNCLINE_TEAM");
        guard.starting().map_err(Unstarted::Farm)?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                guard.starting().map_err(Unstarted::Farm)?;
                return Err(Unstarted::Process(error));
            }
        };
        let id = Pid::from_child(&child);
        // The child is not collected, so the number is its own.
        let watch = guard.began(id).map_err(Unstarted::Farm).and_then(|()| {
            let watch = ProcessWatch::new(child.id());
            watch.map_err(|error| Unstarted::Process(io::Error::other(error)))
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

    /// As Ctrl-Z does, of which a group that is not in the foreground of its terminal is not told.
    pub(super) fn pause(&self) {
        let _ = kill_process_group(self.id, Signal::TSTP);
    }

    /// What was paused goes on.
    pub(super) fn resume(&self) {
        let _ = kill_process_group(self.id, Signal::CONT);
    }

    /// Collects the first process, which has exited, and kills what is left of its group. Nothing
    /// is sent to it after that.
    pub(super) fn finish(&mut self, guard: &mut Guard) -> Result<ExitStatus> {
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

/// What starts a command.
///
/// A bound is set by this very program, which then becomes the other. Set from outside it would
/// come too late: a shell starts its first child before we are told that it runs.
fn bounded(command: &[OsString], memory: Option<u64>) -> io::Result<Command> {
    let Some((program, args)) = command.split_first() else { return Err(io::ErrorKind::NotFound.into()) };
    let mut command = Command::new(program);
    if let Some(memory) = memory {
        // Else it would be the failure of every task.
        is_there(program)?;
        command = Command::new("/proc/self/exe");
        command.arg0("syncline").args(["farm", "bound", &memory.to_string(), "--"]).arg(program);
    }
    command.args(args);
    Ok(command)
}

/// Whether there is such a program, where a shell would look for it, and may be executed.
fn is_there(program: &OsStr) -> Result<(), Errno> {
    let executable = |path: &Path| {
        rustix::fs::access(path, Access::EXEC_OK)?;
        if path.is_dir() { Err(Errno::ACCESS) } else { Ok(()) }
    };
    if program.as_bytes().contains(&b'/') {
        return executable(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut why = Errno::NOENT;
    for folder in env::split_paths(&path) {
        match executable(&folder.join(program)) {
            Ok(()) => return Ok(()),
            Err(Errno::ACCESS) => why = Errno::ACCESS,
            Err(_) => (),
        }
    }
    Err(why)
}

/// `syncline farm bound`: bounds this process, and becomes the program.
pub(crate) fn bound(args: &FarmBoundArgs) -> Result<()> {
    let [program, rest @ ..] = &args.command[..] else { return Ok(()) };
    // A limit that is lower already stays.
    let most = getrlimit(Resource::Data).maximum.map_or(args.memory, |most| most.min(args.memory));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    let limited = setrlimit(Resource::Data, limit);
    limited
        .map_err(|errno| Error::Io { what: "bound the memory of a task".to_owned(), source: errno.into() })?;
    let source = Command::new(program).args(rest).exec();
    Err(Error::Io { what: format!("start {}", program.display()), source })
}
