//! `syncline launch`: the processes of a team.

use std::io::Write as _;

use syncline_common::units::Bytes;
use syncline_fabric::{Launcher, TeamError};
use syncline_process::streams;

use crate::args::LaunchArgs;
use crate::error::{Error, Result};
use crate::report;

/// `syncline launch`. Signals are forwarded to the processes; their end determines the exit code.
pub(crate) fn launch(args: &LaunchArgs) -> Result<()> {
    let LaunchArgs { processes, threads, memory, program, trace } = args;
    // The processes record to the same file: the launcher holds it for all of them.
    report::start(trace, None)?;
    if std::env::var_os("SYNCLINE_PER_HOST").is_some() {
        let _ = std::io::stderr().write_all(
            b"warning: SYNCLINE_PER_HOST is not for `syncline launch`, whose processes all share memory; start the \
              program by mpirun to have some of them exchange messages\n",
        );
    }
    let failed =
        |source| Error::Io { what: "close a stream that is closed here".to_owned(), source };
    streams::pass_on().map_err(failed)?;
    // The command line requires at least one word.
    let (program, args) =
        program.split_first().ok_or(Error::Usage("no program is given".to_owned()))?;
    let launcher =
        Launcher::new(program).args(args).processes((*processes).into()).threads((*threads).into());
    let launcher = match *memory {
        Some(bytes) => launcher.memory(usize::try_from(bytes).unwrap_or(usize::MAX)),
        None => launcher,
    };
    let done = launcher.run();
    report::finish(trace, false);
    done.map_err(|error| match error {
        TeamError::Memory(syncline_memory::Error::Segment {
            op: "reserve", len, source, ..
        }) => {
            let asked = if memory.is_some() { "--memory" } else { "SYNCLINE_MEMORY" };
            Error::TeamMemory { asked, size: Bytes(len as u64), source }
        }
        other => Error::Team(other),
    })
}
