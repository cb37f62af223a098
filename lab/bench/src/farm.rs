//! `syncline-lab bench farm`: processes as tasks, ours and others', in turn.
//!
//! ```text
//! cold       a process is started until its first message is here          Python's Process, a published farm, MPI_Comm_spawn
//! warm       one small task to workers that are there                      Pool.apply, executor.submit
//! trip       8 bytes to another process and back                           a futex, Pipe, a published farm
//! integers   many integers written into a message, and read                pickle, Pipe
//! bytes      one message of 64 MiB                                         memcpy
//! tasks      10 000 tasks x -> x + 1                                        Pool.map, Pool.imap, executor.map
//! span       tasks that sleep, and trees of them, on 8 workers              what a greedy schedule takes at most
//! ```
//!
//! The entries of a group alternate, round after round (`race`). Our workers are this command
//! again, as a subcommand that its help does not show (`worker`). Those of others are Python, which
//! answers a line per measurement (`server`), MPI programs that are compiled when the command runs,
//! and `syncline_baselines` in processes of this command (`rivals`). `report` says what was
//! measured; `targets` compares with what is aimed at.

mod cold;
mod data;
mod race;
mod report;
mod rivals;
mod server;
mod span;
mod targets;
mod tasks;
mod trips;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::race::{Group, Pace, Race};
pub(crate) use self::worker::{FarmWorkerArgs, farm_worker};
use super::at_least;
use super::peers::failed;
use super::places::Places;
use crate::error::Result;
use crate::stop::Signals;

/// Measures farms of processes: starts, tasks, messages, in turn with those of others.
///
/// Others are Python's multiprocessing and concurrent.futures (python3), MPI_Comm_spawn (Open MPI:
/// mpicc on the path, or below target/mpi, where `make mpi-wheels` puts it), a published farm's
/// messages by System V shared memory, a futex, and memcpy. What is not there is skipped, and the
/// table says why. A worker without libraries to load is built with cargo where the sources of
/// Syncline are at hand (the current folder, or one above it) and Rust has the target
/// x86_64-unknown-linux-musl. Where times are compared with a target, the last table says so; H is
/// what a cache line takes from one processor to another.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench farm [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench farm --quick
  syncline-lab bench farm --only trip --rounds 50
  syncline-lab bench farm --json"
)]
pub(crate) struct BenchFarmArgs {
    /// About a minute in all
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line, and no table
    #[arg(long)]
    json: bool,
    /// How often everything is run [default: as often as there is time for: 5 minutes in all]
    ///
    /// With 1 everything is run once, and nothing before it to warm up.
    #[arg(long, value_name = "N", value_parser = at_least(1))]
    rounds: Option<usize>,
    /// Only groups whose name contains this: cold, warm, trip, integers, bytes, tasks, span
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Of what one manager holds while it starts processes [default: 1024]
    #[arg(long, value_name = "MIB", hide = true, default_value_t = 1024)]
    held: usize,
}

/// What entries are made of.
#[derive(Debug)]
pub(super) struct Kit<'a> {
    /// Where programs are made.
    folder: &'a Path,
    /// Of this thread.
    places: Places,
    /// MiB that one manager holds.
    held: usize,
}

/// Makes the entries of a group.
type Make = fn(&Kit<'_>) -> Result<Group>;

/// All groups: of a second of the whole, how much each may take.
const GROUPS: [(&str, f64, Make); 7] = [
    ("cold", 0.25, cold::group),
    ("warm", 0.1, tasks::warm),
    ("trip", 0.17, trips::group),
    ("integers", 0.1, data::integers),
    ("bytes", 0.06, data::bytes),
    ("tasks", 0.2, tasks::many),
    ("span", 0.12, span::group),
];

/// Seconds of all groups.
const QUICK: f64 = 55.0;
const LONG: f64 = 300.0;

/// Measures; returns what to print.
pub(crate) fn farm(args: &BenchFarmArgs, signals: &Signals) -> Result<String> {
    let stop = Arc::new(AtomicBool::new(false));
    let (asked, args) = (Arc::clone(&stop), args.clone());
    let cancel = move || asked.store(true, Ordering::Relaxed);
    signals.cancel(cancel, move || all(&args, stop))
}

fn all(args: &BenchFarmArgs, stop: Arc<AtomicBool>) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir();
    let folder = folder.map_err(|error| failed("make a directory for the peers' programs", error))?;
    let kit = Kit { folder: folder.path(), places: Places::or_none(), held: args.held };
    let mut race = Race::new(kit.places.clone(), stop);
    for (name, share, make) in GROUPS {
        if args.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        eprintln!("measuring: {name}");
        let most = share * if args.quick { QUICK } else { LONG };
        race.run(make(&kit)?, Pace { rounds: args.rounds, seconds: most })?;
    }
    let report = race.report();
    match args.json {
        true => report.json().map_err(|error| failed("write JSON", error)),
        false => Ok(report.text()),
    }
}
