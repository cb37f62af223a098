//! `syncline launch`: the processes of a team.

use std::ffi::OsString;
use std::io::Write as _;

use syncline_fabric::{Launcher, TeamError};

use crate::args::LaunchArgs;
use crate::error::{Error, Result};
use crate::units::Bytes;

/// `syncline launch`. Signals are forwarded to the processes; their end determines the exit code.
pub(crate) fn launch(args: &LaunchArgs) -> Result<()> {
    let LaunchArgs { processes, threads, memory, program } = args;
    if std::env::var_os("SYNCLINE_PER_HOST").is_some() {
        let _ = std::io::stderr().write_all(
            b"warning: SYNCLINE_PER_HOST is not for `syncline launch`, whose processes share memory, all of them; start the \
              program by mpirun to have some exchange messages\n",
        );
    }
    // The command line requires at least one word.
    let (program, args) =
        program.split_first().ok_or(Error::Usage("no program is given".to_owned()))?;
    let launcher =
        Launcher::new(program).args(args).processes((*processes).into()).threads((*threads).into());
    let launcher = match *memory {
        Some(bytes) => launcher.memory(usize::try_from(bytes).unwrap_or(usize::MAX)),
        None => launcher,
    };
    launcher.run().map_err(|error| match error {
        TeamError::Memory(syncline_memory::Error::Segment {
            op: "reserve", len, source, ..
        }) => {
            let asked = if memory.is_some() { "--memory" } else { "SYNCLINE_MEMORY" };
            Error::TeamMemory { asked, size: Bytes(len as u64), source }
        }
        other => Error::Team(other),
    })
}

/// Returns the corrected command line for a `syncline launch` without `--` before its program.
pub(crate) fn hint(line: &[OsString]) -> Option<String> {
    let words = line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>();
    let (command, words) = words.split_first()?;
    if command != "launch" || words.iter().any(|word| word == "--") {
        return None;
    }
    let mut program = 0;
    while let Some(word) = words.get(program).filter(|word| word.starts_with('-')) {
        // An option, and its value if that is a separate word.
        let alone = word.contains('=') || word.len() > 2 && !word.starts_with("--");
        program += if alone { 1 } else { 2 };
    }
    let (options, program) =
        words.split_at_checked(program).filter(|(_, program)| !program.is_empty())?;
    let (options, program) = (options.join(" "), program.join(" "));
    Some(format!("write `--` before the program: syncline launch {options} -- {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_dashes_before_it_is_found() {
        let hint =
            |line: &str| hint(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        for options in ["-n 4", "-n4", "--processes=4", "-n 4 --threads 2", "-n 4 --memory=1G"] {
            let said = hint(&format!("launch {options} ./prog --size 7")).unwrap();
            assert!(
                said.ends_with(&format!(": syncline launch {options} -- ./prog --size 7")),
                "{said}"
            );
        }
        for line in [
            "launch -n 4",
            "launch -n 4 --",
            "launch -n 4 -- ./prog",
            "run lk23 -n 4 x",
            "launch -n",
            "",
        ] {
            assert_eq!(hint(line), None, "{line}");
        }
    }
}
