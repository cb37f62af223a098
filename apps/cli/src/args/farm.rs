//! The command line of `syncline farm`.

use clap::Subcommand;
use syncline_farm_run::{FarmBoundArgs, FarmGuardArgs, FarmRunArgs};

/// The subcommands of `syncline farm`.
#[derive(Debug, Subcommand)]
pub(crate) enum FarmCommand {
    Run(Box<FarmRunArgs>),
    #[command(hide = true)]
    Guard(FarmGuardArgs),
    #[command(hide = true)]
    Bound(FarmBoundArgs),
}
