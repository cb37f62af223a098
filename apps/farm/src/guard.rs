//! The guard: a process that kills the process groups of running tasks when the farm is killed.
//!
//! The implementation is [`syncline_process::guard`]. This module defines the command of the guard
//! and the variable that identifies the tasks of a farm, starts and ends groups, and translates
//! errors.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;

use signal_hook::consts::{SIGCHLD, SIGHUP};
use syncline_common::signals::Uncaught;
use syncline_fabric::leave_team;
use syncline_process::guard::{self, Guarded};
use syncline_process::{Spawn, mark::EnvironmentMark};

use crate::args::FarmGuardArgs;
use crate::error::{Error, Result};

/// The environment variable that identifies the farm of a task.
pub(super) const MARK: &str = "SYNCLINE_FARM_RUN";

/// The farm's handle of the guard. On drop, the groups that have not ended are killed.
#[derive(Debug)]
pub(super) struct Guard {
    guard: guard::Guard,
    /// `/dev/null`, the standard input of tasks.
    nothing: File,
}

/// The reason why a group was not started.
#[derive(Debug)]
pub(super) enum Unstarted {
    /// This process could not be started.
    Process(io::Error),
    /// No process can be started: there is no guard, or no destination for its output.
    Farm(Error),
}

impl Guard {
    /// Starts the guard. Also replaces an inherited SIG_IGN of SIGCHLD, under which the kernel
    /// reaps children before the farm can wait for them.
    pub(super) fn start() -> Result<Self> {
        let failed = |source| Error::Io { what: "start the guard of the tasks".to_owned(), source };
        signal_hook::flag::register(SIGCHLD, std::sync::Arc::default()).map_err(failed)?;
        // The running executable, even if its path holds another program by now.
        let program = |mark: &EnvironmentMark| {
            let mut program = Spawn::new("/proc/self/exe");
            // Otherwise a launcher would wait until the guard has ended, too.
            leave_team(program.arg0("syncline").args(["farm", "guard", mark.value()]));
            program
        };
        let guard = guard::Guard::start(MARK, program).map_err(failed)?;
        Ok(Self { guard, nothing: File::open("/dev/null").map_err(failed)? })
    }

    /// Starts a process as the leader of a group, and registers the group with the guard.
    pub(super) fn spawn(&mut self, spawn: &mut Spawn<'_>) -> Result<Guarded, Unstarted> {
        self.guard.spawn(spawn).map_err(|why| match why {
            guard::Unstarted::Process(error) => Unstarted::Process(error),
            guard::Unstarted::Guard(source) => {
                let what = "tell the guard which tasks run (was it killed?)".to_owned();
                Unstarted::Farm(Error::Io { what, source })
            }
        })
    }

    /// Kills what is left of a group, removes it from the guard, and reaps its leader.
    pub(super) fn finish(&mut self, group: Guarded) -> io::Result<ExitStatus> {
        self.guard.finish(group)
    }

    /// Returns a descriptor of `/dev/null`.
    pub(super) fn nothing(&self) -> io::Result<OwnedFd> {
        self.nothing.as_fd().try_clone_to_owned()
    }
}

/// `syncline farm guard`: waits until the farm has ended, then kills the remaining groups.
///
/// SIGHUP is caught here, and SIGINT and SIGTERM by `main`; the guard ignores all three, as it must
/// outlive the farm.
///
/// # Errors
/// Those of the system, with which the groups are not killed.
pub fn guard(args: &FarmGuardArgs) -> Result<()> {
    signal_hook::flag::register(SIGHUP, std::sync::Arc::default()).map_err(Uncaught)?;
    guard::serve(&EnvironmentMark::of(MARK, args.mark.clone()))
        .map_err(|source| Error::Io { what: "read which tasks run".to_owned(), source })
}
