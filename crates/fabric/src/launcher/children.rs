//! The processes of a team: started, signalled, and collected when they have ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use syncline_process::{Spawn, mark::EnvironmentMark, spawn::Child, watch::ProcessWatch};

use crate::environment::{Inherited, Shape, TEAM};
use crate::error::TeamError;

/// What all processes of a team inherit.
pub(crate) struct ToInherit<'a> {
    /// By which what they leave behind is found.
    pub(crate) mark: &'a EnvironmentMark,
    pub(crate) shape: Shape,
    pub(crate) segment: BorrowedFd<'a>,
    pub(crate) lifeline: BorrowedFd<'a>,
}

/// Descriptors that a launcher uses beside one for each process.
const OTHERS: u64 = 64;

/// The processes of a team. Those who have not ended when this is dropped are killed.
#[derive(Debug)]
pub(crate) struct Children {
    running: Vec<Running>,
    /// The limit on descriptors, if it had to be raised.
    limit: Option<Rlimit>,
}

/// Whether all can be watched. Asked before the first is started: what has run cannot be undone.
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
    /// From when all have been started.
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
        // Now, as the children would inherit a higher limit.
        children.raise_limit();
        for running in &mut children.running {
            // Nobody has collected the child, so the number is its own.
            running.watch = Some(ProcessWatch::new(running.child.id())?);
        }
        Ok(children)
    }

    fn raise_limit(&mut self) {
        let needed = self.running.len() as u64 + OTHERS;
        let limit = getrlimit(Resource::Nofile);
        let maximum = limit.maximum.unwrap_or(u64::MAX);
        if limit.current.is_some_and(|current| current < needed && current < maximum) {
            // If it is refused, so will be a descriptor, which is an error that says so.
            let _ =
                setrlimit(Resource::Nofile, Rlimit { current: Some(needed.min(maximum)), ..limit });
            self.limit = Some(limit);
        }
    }

    /// How many have not been collected.
    pub(crate) fn living(&self) -> usize {
        self.running.len()
    }

    /// To poll: each readable when its process has ended.
    pub(crate) fn pidfds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().filter_map(|running| running.watch.as_ref()).map(AsFd::as_fd)
    }

    /// A signal to all.
    pub(crate) fn send(&self, signal: Signal) {
        for pidfd in self.pidfds() {
            // It fails only for one that has ended.
            let _ = rustix::process::pidfd_send_signal(pidfd, signal);
        }
    }

    /// Collects those that have ended: number in the team, number in the system, how.
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
            // By the number only where nothing better is there: if somebody else has collected it, it may be another's.
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
    let (segment, lifeline) = (spawn.hand(inherited.segment)?, spawn.hand(inherited.lifeline)?);
    let place = Inherited { shape: inherited.shape, process, segment, lifeline };
    inherited.mark.put_on(&mut spawn);
    spawn.args(args).env(TEAM, place.value()).start()
}
