//! The `syncline-lab` command: races Syncline against other ways of doing the same.
//!
//! | module    | contents                                                                |
//! |-----------|-------------------------------------------------------------------------|
//! | `baselines`, `schemes` | implementations of others, against which Syncline is raced |
//! | `wave`    | `bench wave`: one sweep, by each way                                    |
//! | `overlay` | `bench overlay`: one program of tasks, by each way of keeping its order |
//! | `barrier` | `bench barrier`                                                         |
//! | `lock`    | `bench lock`                                                            |
//! | `rma`     | `bench rma`: one-sided memory, on one host and between several          |
//! | `farm`    | `bench farm`: processes as tasks                                        |
//! | `bands`   | `bench bands`: the overlay of a sweep on a team, without arithmetic     |
//! | `solve`   | `bench solve`: triangular decompositions on workers                     |
//! | `trace`   | `bench trace`: what recording costs                                     |
//! | `papers`  | `schemes`: the papers' schemes of sweeps out of core                    |
//! | `reproduce` | the figures and tables of the papers                                      |
//! | `contest` | barriers and locks: contenders in threads and in processes              |
//! | `race`    | the harness of all races: entries that alternate, round after round     |
//! | `peers`   | programs of other projects, compiled when a race begins                 |
//! | `plot`    | figures: SVG and PNG                                                    |
//! | `places`  | the processors on which threads are pinned                              |
//! | `disk`    | the data of races out of core, and the disk's time for them             |
//! | `kernel`  | a loop of known duration                                                |
//! | `stop`    | work that SIGINT and SIGTERM end                                        |
//! | `error`   | errors, in one line each                                                |
//!
//! Exit codes: 0 for success; 1 for an error; 2 for a wrong command line; 128 + the signal's number
//! after an interruption.

mod bands;
mod barrier;
pub mod baselines;
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
mod plot;
mod race;
mod reproduce;
mod rma;
pub mod schemes;
mod solve;
mod stop;
mod trace;
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
    Reproduce(reproduce::ReproduceArgs),
    #[command(hide = true)]
    BenchMember(contest::BenchMemberArgs),
    #[command(hide = true)]
    FarmWorker(farm::FarmWorkerArgs),
    #[command(hide = true)]
    SolveWorker(solve::SolveWorkerArgs),
}

/// The subjects of races.
#[derive(Debug, Subcommand)]
enum Bench {
    Wave(wave::BenchWaveArgs),
    Overlay(overlay::BenchOverlayArgs),
    Barrier(barrier::BenchBarrierArgs),
    Lock(lock::BenchLockArgs),
    Rma(rma::BenchRmaArgs),
    Farm(farm::BenchFarmArgs),
    Bands(bands::BenchBandsArgs),
    Solve(solve::BenchSolveArgs),
    Trace(trace::BenchTraceArgs),
}

/// Returns a parser for a number of at least `least`.
fn at_least(least: u64) -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(least..)
}

/// Runs the command with the arguments of this process, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    match dispatch(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // An error is one line, even if a file name has a line break. The line is written in
            // one call, because other members of a team may write to the same stream.
            let line = error.to_string().replace('\n', "\\n");
            let _ = io::stderr().write_all(format!("error: {line}\n").as_bytes());
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Runs the command, and prints its results.
fn dispatch(command: Command) -> Result<()> {
    let signals = Signals::catch()?;
    let text = match command {
        Command::Bench(Bench::Wave(args)) => wave::wave(&args, &signals),
        Command::Bench(Bench::Overlay(args)) => overlay::overlay(&args, &signals),
        Command::Bench(Bench::Barrier(args)) => barrier::barrier(&args, &signals),
        Command::Bench(Bench::Lock(args)) => lock::lock(&args, &signals),
        Command::Bench(Bench::Rma(args)) => rma::rma(&args, &signals),
        Command::Bench(Bench::Farm(args)) => farm::farm(&args, &signals),
        Command::Bench(Bench::Bands(args)) => bands::bands(&args, &signals),
        Command::Bench(Bench::Solve(args)) => solve::solve(&args, &signals),
        Command::Bench(Bench::Trace(args)) => trace::trace(&args, &signals),
        Command::Schemes(args) => papers::schemes(&args, &signals),
        Command::Reproduce(args) => reproduce::reproduce(&args, &signals),
        Command::BenchMember(args) => return contest::member(&args),
        Command::FarmWorker(args) => return farm::farm_worker(&args),
        Command::SolveWorker(args) => return solve::solve_worker(&args),
    }?;
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| failed("write to standard output", error)),
    }
}
