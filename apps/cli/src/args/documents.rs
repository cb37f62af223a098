//! The command lines of `syncline completions` and `syncline man`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::ValueEnum as _;
use clap::builder::{PossibleValue, TypedValueParser};
use clap_complete::Shell;

use super::KernelName;
use crate::kernels::Known;

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

/// Parses the name of a kernel, and tells the shells the names of the built-in ones.
#[derive(Clone, Debug)]
pub(super) struct KernelParser;

impl TypedValueParser for KernelParser {
    type Value = KernelName;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<KernelName, clap::Error> {
        (|text: &str| text.parse::<KernelName>()).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Known::value_variants().iter().filter_map(|known| known.to_possible_value())))
    }
}
