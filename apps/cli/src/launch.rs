//! `syncline launch`: the processes of a team.

use syncline_fabric::Launcher;

use crate::args::LaunchArgs;
use crate::error::{Error, Result};

/// `syncline launch`. Signals go to the processes: how these end is how the command ends.
pub(crate) fn launch(args: &LaunchArgs) -> Result<()> {
    let LaunchArgs { processes, threads, memory, program } = args;
    // The command line has at least one.
    let (program, args) = program.split_first().ok_or(Error::Usage("no program is given".to_owned()))?;
    let launcher =
        Launcher::new(program).args(args).processes((*processes).into()).threads((*threads).into());
    let launcher = match *memory {
        Some(bytes) => launcher.memory(usize::try_from(bytes).unwrap_or(usize::MAX)),
        None => launcher,
    };
    Ok(launcher.run()?)
}
