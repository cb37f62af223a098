//! The `syncline-lab` command: Syncline raced against other ways of doing the same.
//!
//! | module    | holds                                                                      |
//! |-----------|----------------------------------------------------------------------------|
//! | `wave`    | `bench wave`: one sweep, by every way                                       |
//! | `overlay` | `bench overlay`: one program of tasks, by every way of keeping its order    |
//! | `barrier` | `bench barrier`                                                             |
//! | `lock`    | `bench lock`                                                                |
//! | `rma`     | `bench rma`: one-sided memory, on one host and between several              |
//! | `farm`    | `bench farm`: processes as tasks                                            |
//! | `papers`  | `schemes`: the papers' schemes of sweeps out of core                        |
//! | `contest` | barriers and locks: threads, and processes that answer                      |
//! | `race`    | the harness of all of them: entries that alternate, round after round       |
//! | `peers`   | programs of others, compiled when a race begins                             |
//! | `places`  | the processors on which threads are pinned                                  |
//! | `disk`    | data of races out of core, and how long the disk takes for them             |
//! | `kernel`  | a loop of known length                                                      |
//! | `stop`    | work that SIGINT and SIGTERM end                                            |
//! | `error`   | what can go wrong, in one line each                                         |
//!
//! Exit codes: 0; 1 for an error; 2 for a wrong command line; 128 + the signal's number when
//! interrupted.

mod barrier;
mod contest;
mod disk;
mod error;
mod farm;
mod kernel;
mod lock;
mod overlay;
mod papers;
mod peers;
mod places;
mod race;
mod rma;
mod stop;
mod wave;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{Result, exit_code, failed};
use crate::stop::Signals;

/// Races Syncline against other ways of doing the same, and installs nothing.
#[derive(Debug, Parser)]
#[command(name = "syncline-lab", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Races ways of doing the same against one another
    #[command(subcommand)]
    Bench(Bench),
    /// Races older and other schemes of out-of-core sweeps, as the papers' Fig. 7 does
    #[command(subcommand)]
    Schemes(papers::Schemes),
    #[command(hide = true)]
    BenchMember(contest::BenchMemberArgs),
    #[command(hide = true)]
    FarmWorker(farm::FarmWorkerArgs),
}

/// What is raced.
#[derive(Debug, Subcommand)]
enum Bench {
    Wave(wave::BenchWaveArgs),
    Overlay(overlay::BenchOverlayArgs),
    Barrier(barrier::BenchBarrierArgs),
    Lock(lock::BenchLockArgs),
    Rma(rma::BenchRmaArgs),
    Farm(farm::BenchFarmArgs),
}

/// A number of at least `least`.
fn at_least(least: u64) -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(least..)
}

fn main() -> ExitCode {
    match dispatch(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A line break in a file's name does not make two lines of an error. The line is
            // written in one piece, as other members of a team may write there.
            let line = error.to_string().replace('\n', "\\n");
            let _ = io::stderr().write_all(format!("error: {line}\n").as_bytes());
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Runs the command, and prints what it has measured.
fn dispatch(command: Command) -> Result<()> {
    let signals = Signals::catch()?;
    let text = match command {
        Command::Bench(Bench::Wave(args)) => wave::wave(&args, &signals),
        Command::Bench(Bench::Overlay(args)) => overlay::overlay(&args, &signals),
        Command::Bench(Bench::Barrier(args)) => barrier::barrier(&args, &signals),
        Command::Bench(Bench::Lock(args)) => lock::lock(&args, &signals),
        Command::Bench(Bench::Rma(args)) => rma::rma(&args, &signals),
        Command::Bench(Bench::Farm(args)) => farm::farm(&args, &signals),
        Command::Schemes(args) => papers::schemes(&args, &signals),
        Command::BenchMember(args) => return contest::member(&args),
        Command::FarmWorker(args) => return farm::farm_worker(&args),
    }?;
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| failed("write to standard output", error)),
    }
}
