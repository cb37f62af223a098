//! The command lines of `syncline completions` and `syncline man`.

use std::path::PathBuf;

use clap_complete::Shell;

/// Prints the completions of this command for a shell
///
/// `make install` installs those of bash, zsh and fish.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "syncline completions <SHELL>",
    after_long_help = "\
Examples:
  source <(syncline completions bash)
  syncline completions fish > ~/.config/fish/completions/syncline.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Writes the manual pages of this command and its subcommands into a directory
#[derive(Debug, clap::Args)]
#[command(override_usage = "syncline man <DIR>")]
pub(crate) struct ManArgs {
    /// The directory
    pub(crate) dir: PathBuf,
}
