//! `syncline completions` and `syncline man`: what an installation has beside the command.

use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::error::{Error, Result};

/// `syncline completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    // Generated in memory: clap panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut described(), "syncline", &mut script);
    let mut output = io::stdout().lock();
    crate::written(output.write_all(&script).and_then(|()| output.flush()))
}

/// `syncline man`.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    clap_mangen::generate_to(described(), &args.dir).map_err(|source| Error::Io {
        what: format!("write the manual pages to {}", args.dir.display()),
        source,
    })
}

/// Returns the command line without the commands `help`, which have nothing of their own to say.
fn described() -> Command {
    Args::command().disable_help_subcommand(true)
}
