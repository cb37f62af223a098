//! `syncline-lab bench farm`: races processes as tasks, ours and others'.
//!
//! ```text
//! heat       what is measured                             others
//! cold       the start of a process, to its first message Python's Process, a published farm,
//!                                                         MPI_Comm_spawn
//! warm       one small task on idle workers               Pool.apply, executor.submit
//! trip       8 bytes to another process and back          a futex, Pipe, a published farm
//! integers   many integers written into a message, read   pickle, Pipe
//! bytes      one message of 64 MiB                        memcpy
//! tasks      10 000 tasks x -> x + 1                      Pool.map, Pool.imap, executor.map
//! span       tasks that sleep, and trees of them,         the bound of a greedy schedule
//!            on 8 workers
//! ```
//!
//! Each heat is a race by itself (`crate::race`). Our workers are this command again, as a
//! subcommand that the help does not list (`worker`). The others' processes are Python, which
//! answers a line for each measurement, MPI programs that are compiled when the command runs, and
//! `baselines` in processes of this command (`rivals`). `targets` compares the results with the
//! targets.

mod cold;
mod data;
mod rivals;
mod span;
mod targets;
mod tasks;
mod trips;
mod worker;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use syncline_farm::Program;

pub(crate) use self::worker::{FarmWorkerArgs, farm_worker};
use crate::error::Result;
use crate::peers::Server;
use crate::places::Places;
use crate::race::{
    Entry, Group, Hops, Lines, Machine, Options, Pace, Results, Samples, Side, Table, Target, hold,
    race,
};
use crate::stop::Signals;

/// Measures farms of processes: starts, tasks, messages, in turn with those of others.
///
/// Others are Python's multiprocessing and concurrent.futures (python3), MPI_Comm_spawn (Open MPI:
/// mpicc on the path, or below target/mpi, where `make mpi-wheels` puts it), a published farm's
/// messages by System V shared memory, a futex, and memcpy. What is not installed is skipped, and
/// the table says what installs it. Everything is run as often as 5 minutes in all allow; with
/// --rounds 1 once, without a warm-up. A worker without libraries to load is built with cargo if
/// the sources of Syncline are in the current folder, or one above it, and Rust has the target
/// x86_64-unknown-linux-musl. Where times are compared with a target, the last table says so; H is
/// the time that a cache line takes from one processor to another.
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
    #[command(flatten)]
    options: Options,
    /// Only groups whose name contains this: cold, warm, trip, integers, bytes, tasks, span
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// MiB that one manager holds while it starts processes [default: 1024]
    #[arg(long, value_name = "MIB", hide = true, default_value_t = 1024)]
    held: usize,
}

/// The environment in which entries are made.
#[derive(Debug)]
struct Kit<'a> {
    /// The folder for programs and files.
    folder: &'a Path,
    /// The places of the main thread.
    places: Places,
    /// The memory that one manager holds, in MiB.
    held: usize,
}

/// Makes the entries of a heat.
type Make = fn(&Kit<'_>) -> Result<Heat>;

/// All heats, and the fraction of the total time that each may take.
const HEATS: [(&str, f64, Make); 7] = [
    ("cold", 0.25, cold::heat),
    ("warm", 0.1, tasks::warm),
    ("trip", 0.17, trips::heat),
    ("integers", 0.1, data::integers),
    ("bytes", 0.06, data::bytes),
    ("tasks", 0.2, tasks::many),
    ("span", 0.12, span::heat),
];

/// The seconds for all heats.
const QUICK: f64 = 55.0;
const LONG: f64 = 300.0;

/// The least and the greatest default number of rounds of a heat.
const ROUNDS: [usize; 2] = [3, 300];

/// The group of an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Of {
    group: &'static str,
}

/// A group that is raced by itself, and its presentation.
struct Heat {
    name: &'static str,
    /// The unit of its times, and its length in nanoseconds.
    unit: (&'static str, f64),
    /// Further facts to print.
    notes: Vec<String>,
    group: Group<'static, Hops, Of>,
}

impl Heat {
    /// Returns an empty heat.
    fn new(name: &'static str, unit: (&'static str, f64)) -> Self {
        Heat { name, unit, notes: Vec::new(), group: Group::new([]) }
    }

    /// Adds an entry with one metric, in seconds; or the reason why it cannot be made.
    fn add<F>(&mut self, side: Side, way: impl Into<String>, made: Result<F>)
    where
        F: FnMut() -> Result<Samples> + 'static,
    {
        self.add_all(side, way, &[""], made.map(|mut run| move || Ok(vec![run()?])));
    }

    /// Adds an entry with several metrics; or the reason why it cannot be made.
    fn add_all<F>(
        &mut self,
        side: Side,
        way: impl Into<String>,
        metrics: &'static [&'static str],
        made: Result<F>,
    ) where
        F: FnMut() -> Result<Vec<Samples>> + 'static,
    {
        let of = Of { group: self.name };
        match made {
            Ok(run) => self.group.push(Entry::of(of, side, way, metrics, in_nanoseconds(run))),
            Err(why) => self.group.skip(of, way, why),
        }
    }

    /// Adds a peer that a server process measures when it receives `line`; each sample covers
    /// `operations` operations. Or adds the reason why there is no such process.
    fn ask(
        &mut self,
        server: &Result<Server>,
        way: impl Into<String>,
        line: &str,
        operations: usize,
    ) {
        let asked = server.as_ref().map(|server| server.asks(line, operations));
        self.add(Side::Peer, way, asked.map_err(|why| why.to_string().into()));
    }
}

/// Converts the samples of a run from seconds to nanoseconds.
fn in_nanoseconds(
    mut run: impl FnMut() -> Result<Vec<Samples>>,
) -> impl FnMut(&mut Hops) -> Result<Vec<Samples>> {
    move |_| {
        let mut metrics = run()?;
        metrics.iter_mut().flatten().for_each(|sample| *sample *= 1e9);
        Ok(metrics)
    }
}

/// All measurements, and their machine.
struct Report {
    machine: Machine,
    stage: Hops,
    /// For each heat its name, the unit of its times, and further facts.
    heads: Vec<(&'static str, (&'static str, f64), Vec<String>)>,
    results: Results<Of>,
}

/// Runs the measurement; returns the text to print.
pub(crate) fn farm(args: &BenchFarmArgs, signals: &Signals) -> Result<String> {
    let args = args.clone();
    let work = move |folder: &Path, signals: &Signals| {
        let kit = Kit { folder, places: Places::or_none(), held: args.held };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (machine, stage) = (Machine::here(processors), Hops::new(kit.places.clone()));
        let mut report = Report { machine, stage, heads: Vec::new(), results: Results::default() };
        for (name, share, make) in HEATS {
            if args.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            eprintln!("measuring: {name}");
            let Heat { name, unit, notes, group } = make(&kit)?;
            let most =
                Duration::from_secs_f64(share * if args.options.quick { QUICK } else { LONG });
            let [least, enough] = ROUNDS;
            let pace = match args.options.rounds {
                Some(rounds) => Pace::exactly(rounds).warm_up(rounds > 1),
                None => {
                    Pace { least, most: enough, until: Some(Instant::now() + most), warm_up: true }
                }
            };
            report.results.extend(race(&mut report.stage, signals, &mut [group], pace)?);
            report.heads.push((name, unit, notes));
        }
        if args.options.json { report.json() } else { Ok(report.text()) }
    };
    hold(signals, None, || (), work)
}

impl Report {
    fn targets(&self) -> Vec<Target> {
        targets::all(&self.results, self.stage.median())
    }

    /// Formats the results as tables.
    fn text(&self) -> String {
        let Results { cells, skipped, .. } = &self.results;
        let hop = self.stage.median();
        let hop =
            hop.map_or(String::new(), |hop| format!("; H, a hop of a cache line: {hop:.1} ns"));
        let mut lines = vec![self.machine.line() + &hop];
        lines.extend(skipped.iter().map(ToString::to_string));
        for (group, (unit, by), notes) in &self.heads {
            let of_it = cells.iter().filter(|cell| cell.key.group == *group);
            lines.push(
                Table::of(format!("{group}, {unit}"), of_it, *by, |cell| cell.way.clone(), &[])
                    .to_string(),
            );
            lines.extend(notes.iter().map(|note| format!("  {note}")));
        }
        lines.push("\n* ours".to_owned());
        lines.extend(Table::targets(&self.targets()).map(|table| table.to_string()));
        lines.join("\n")
    }

    /// Formats the results as one JSON object per line.
    fn json(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Here<'a> {
            #[serde(flatten)]
            machine: &'a Machine,
            hop_ns: Option<f64>,
        }
        let mut lines = Lines::new("record");
        lines.push("machine", &Here { machine: &self.machine, hop_ns: self.stage.median() })?;
        lines.all("skipped", &self.results.skipped)?;
        lines.all("cell", &self.results.cells)?;
        for (group, _, notes) in &self.heads {
            lines.all("note", notes.iter().map(|text| json!({ "group": group, "text": text })))?;
        }
        lines.all("target", self.targets())?;
        Ok(lines.text())
    }
}

/// What the parts of a farm cost, in nanoseconds: our own, and a farm as published.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// The part: `spawn`, `tag`, `written` or `read`.
    pub(crate) part: &'static str,
    pub(crate) ours: Option<f64>,
    pub(crate) published: Option<f64>,
}

/// Measures the parts of a farm that the paper on a farm of Aldor processes tells.
///
/// # Errors
/// Errors of the farm, and [`Interrupted`](crate::error::Interrupted).
pub(crate) fn costs(folder: &Path, rounds: usize, signals: &Signals) -> Result<Vec<Cost>> {
    let kit = Kit { folder, places: Places::or_none(), held: 0 };
    let mut stage = Hops::new(kit.places.clone());
    let mut results = Results::default();
    for heat in [cold::plain()?, trips::plain()?, data::plain()?] {
        let pace = Pace::exactly(rounds).warm_up(rounds > 1);
        results.extend(race(&mut stage, signals, &mut [heat.group], pace)?);
    }
    let of = |group, way: &str| results.median(&Of { group }, way);
    let integers = |metric: &str| of("integers", &format!("{}: {metric}", data::SMALL));
    Ok(vec![
        Cost { part: "spawn", ours: of("cold", cold::COMMAND), published: of("cold", cold::PAPER) },
        // A trip has two messages.
        Cost {
            part: "tag",
            ours: of("trip", trips::USUAL).map(|ns| ns / 2.0),
            published: of("trip", trips::PAPER).map(|ns| ns / 2.0),
        },
        Cost { part: "written", ours: integers("written"), published: None },
        Cost { part: "read", ours: integers("read"), published: None },
        Cost {
            part: "both",
            ours: of("integers", data::TRANSFERS[1].0),
            published: of("integers", data::PUBLISHED),
        },
    ])
}

/// Returns this command as a worker that receives a number and sends its successor.
///
/// # Errors
/// If the path of this command is not known.
pub(crate) fn successor() -> Result<Program> {
    worker::program(worker::Role::Hello)
}
