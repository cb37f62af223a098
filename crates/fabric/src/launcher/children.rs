//! The processes of a team: started, signalled, and collected when they have ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use syncline_process::{Spawn, mark::EnvironmentMark, spawn::Child, watch::ProcessWatch};

use crate::environment::{Inherited, Shape, TEAM, leave_team};
use crate::error::TeamError;

/// The resources that all processes of a team inherit.
pub(crate) struct ToInherit<'a> {
    /// The mark by which the processes that they leave behind are found.
    pub(crate) mark: &'a EnvironmentMark,
    pub(crate) shape: Shape,
    pub(crate) segment: BorrowedFd<'a>,
    pub(crate) lifeline: BorrowedFd<'a>,
}

/// Descriptors that a launcher uses beside one for each process.
const OTHERS: u64 = 64;

/// The processes of a team. Those that have not ended when this is dropped are killed.
#[derive(Debug)]
pub(crate) struct Children {
    running: Vec<Running>,
    /// The previous limit on descriptors, if it had to be raised.
    limit: Option<Rlimit>,
}

/// Checks that all processes can be watched. Called before the first is started, since the effects
/// of a process cannot be undone.
fn enough_descriptors(processes: usize) -> Result<(), TeamError> {
    let (needed, most) =
        (processes as u64 + OTHERS, getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX));
    if needed <= most {
        return Ok(());
    }
    let why = format!(
        "{processes} processes need {needed} open files, and the limit is {most} (ulimit -Hn)"
    );
    Err(TeamError::System {
        what: "watch the processes of the team",
        source: io::Error::other(why),
    })
}

#[derive(Debug)]
struct Running {
    process: usize,
    child: Child,
    /// Set when all processes have been started.
    watch: Option<ProcessWatch>,
}

impl Children {
    pub(crate) fn start(
        program: &OsStr,
        args: &[OsString],
        inherited: &ToInherit<'_>,
    ) -> Result<Self, TeamError> {
        enough_descriptors(inherited.shape.processes)?;
        let mut children = Children { running: Vec::new(), limit: None };
        for process in 0..inherited.shape.processes {
            let child = spawn(program, args, inherited, process)
                .map_err(|source| TeamError::Start { program: program.into(), process, source })?;
            children.running.push(Running { process, child, watch: None });
        }
        // Only at this point: otherwise the children would inherit the higher limit.
        children.raise_limit();
        for running in &mut children.running {
            // The child has not been collected, so the PID is still its own.
            running.watch = Some(ProcessWatch::new(running.child.id())?);
        }
        Ok(children)
    }

    fn raise_limit(&mut self) {
        let needed = self.running.len() as u64 + OTHERS;
        let limit = getrlimit(Resource::Nofile);
        let maximum = limit.maximum.unwrap_or(u64::MAX);
        if limit.current.is_some_and(|current| current < needed && current < maximum) {
            // If this is refused, creating a descriptor fails later with an error that names the
            // limit.
            let _ =
                setrlimit(Resource::Nofile, Rlimit { current: Some(needed.min(maximum)), ..limit });
            self.limit = Some(limit);
        }
    }

    /// Returns the number of processes that have not been collected.
    pub(crate) fn living(&self) -> usize {
        self.running.len()
    }

    /// Returns the descriptors to poll: each is readable when its process has ended.
    pub(crate) fn pidfds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().filter_map(|running| running.watch.as_ref()).map(AsFd::as_fd)
    }

    /// Sends a signal to all processes.
    pub(crate) fn send(&self, signal: Signal) {
        for pidfd in self.pidfds() {
            // It fails only for a process that has ended.
            let _ = rustix::process::pidfd_send_signal(pidfd, signal);
        }
    }

    /// Collects the processes that have ended. Returns the number in the team, the PID and the
    /// status of each.
    pub(crate) fn reap(&mut self) -> io::Result<Vec<(usize, u32, ExitStatus)>> {
        let mut ended = Vec::new();
        for running in &mut self.running {
            if let Some(status) = running.child.try_wait()? {
                ended.push((running.process, running.child.id(), status));
            }
        }
        self.running
            .retain(|running| ended.iter().all(|(process, ..)| *process != running.process));
        Ok(ended)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &mut self.running {
            // By PID only without a pidfd: if another thread has collected the child, its PID may
            // belong to another process.
            let _ = match &running.watch {
                Some(watch) => {
                    rustix::process::pidfd_send_signal(watch, Signal::KILL).map_err(io::Error::from)
                }
                None => running.child.kill(),
            };
        }
        for running in &mut self.running {
            let _ = running.child.wait();
        }
        if let Some(limit) = self.limit.take() {
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}

/// Starts a process, which has the descriptors under the numbers that its environment names.
fn spawn(
    program: &OsStr,
    args: &[OsString],
    inherited: &ToInherit<'_>,
    process: usize,
) -> io::Result<Child> {
    let mut spawn = Spawn::new(program);
    // A process of this team is no rank of the job that the launcher may be in.
    leave_team(&mut spawn);
    let (segment, lifeline) = (spawn.hand(inherited.segment)?, spawn.hand(inherited.lifeline)?);
    let place = Inherited { shape: inherited.shape, process, segment, lifeline };
    inherited.mark.put_on(&mut spawn);
    if let Some(path) = syncline_trace::recording_path() {
        spawn.env(syncline_trace::VARIABLE, path);
    }
    spawn.args(args).env(TEAM, place.value()).start()
}
