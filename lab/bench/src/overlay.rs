//! `syncline-lab bench overlay`: one program of tasks, by every way of keeping its order, in turn.
//!
//! ```text
//! overlay, ...               our runners
//! plain loop, no order       on one thread the sequential program; on more each runs its part, and the values are wrong:
//!                            what order costs is told from it. Empty and irregular bodies only
//! barrier per level          a spinning barrier after every anti-diagonal or timestep
//! RwLock + Condvar           locks and conditions of the standard library, by hand
//! OpenMP task depend         gcc, clang       \
//! OpenMP for                 gcc, clang        } compiled when the command runs; skipped where there is no compiler
//! oneTBB flow graph          g++              /
//! ```
//!
//! Before anything is timed, every way runs every program with bodies that hash what they read, and
//! must give the values of the plain loop. Then three things are measured, the ways alternating,
//! round after round:
//!
//! 1. empty bodies on the five-point grid, on one worker and on all;
//! 2. bodies of 0 to 2 us on the grid; ideal is the time of the plain loop on one thread over the
//!    same bodies, by workers;
//! 3. bodies of one length, from 4 ns up, on the grid and on patterns of Task Bench, for METG(50
//!    %). A way is not measured any further once three quarters of the time are its bodies'.
//!
//! Bodies loop for a number of iterations, in the same loop in Rust, C and C++; how long an
//! iteration takes is measured for each compiler. All spin while they wait, but for locks and
//! conditions.
//!
//! The threads of all ways are pinned, and what is timed is the later part of a run, of which the
//! threads have run the part before: at least six milliseconds of it, and a sixteenth of the
//! rounds. See [`crew`].

mod by_hand;
mod compiled;
mod crew;
mod efficiency;
mod patterns;
mod program;
mod table;
mod ways;
mod work;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::compiled::Source;
use self::efficiency::{Metg, Point};
use self::patterns::Pattern;
use self::program::Program;
use self::table::Table;
use self::ways::{Site, Way};
use self::work::Body;
use super::at_least;
use super::kernel::{CALIBRATION, calibrate};
use super::peers::failed;
use super::places::Places;
use super::spread::median;
use crate::error::Result;
use crate::stop::Signals;

/// Races overlays against other ways of running tasks in order.
///
/// The same tasks with the same dependences, by our runners, by hand, and by OpenMP and oneTBB,
/// which are compiled with gcc, clang and g++ where these are installed (Debian: gcc g++ clang
/// libomp-dev libtbb-dev) and skipped otherwise. Times are wall times per task; METG(50 %) is the
/// length of tasks at which half the time is theirs.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench overlay [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench overlay --quick
  syncline-lab bench overlay --workers 4 --json"
)]
pub(crate) struct BenchOverlayArgs {
    /// About a minute in all: every second length of tasks, shorter and fewer runs
    #[arg(long)]
    quick: bool,
    /// How many threads run tasks [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// How often everything is run [default: 7; with --quick as often as a minute allows, at most
    /// 5]
    #[arg(long, value_name = "N", value_parser = at_least(1))]
    rounds: Option<usize>,
    /// How long a run takes, about [default: 40; 8 with --quick; with irregular bodies at least
    /// 100]
    #[arg(long, value_name = "MS", value_parser = at_least(1))]
    milliseconds: Option<usize>,
    /// Print one JSON object per line, and no table
    #[arg(long)]
    json: bool,
}

/// Rows and columns of the grid.
const SIDE: usize = 32;
/// Points of a pattern.
const WIDTH: usize = 64;
/// The mean of irregular bodies, in nanoseconds.
const MEAN: f64 = 1000.0;
/// The least and the greatest length of bodies, in nanoseconds.
const GRAINS: [f64; 2] = [4.0, 65_536.0];
/// An efficiency from which on longer bodies tell nothing new.
const ENOUGH: f64 = 0.75;
/// How long `--quick` takes, about. A minute is not to be exceeded.
const QUICK: Duration = Duration::from_secs(55);
/// Rounds that there is time for in any case: if a machine is slow or busy, the longest bodies are
/// left out.
const LEAST_ROUNDS: usize = 3;
/// How long a run with irregular bodies takes at least, in nanoseconds. Workers end such a run up
/// to an iteration of their tasks apart: of a short run that is a part that says nothing of a long
/// one.
const IRREGULAR: f64 = 1e8;
/// What runs do before they are timed, about, in nanoseconds.
const WARM_UP: f64 = 6e6;
/// The greatest number of rounds.
const MOST_ROUNDS: f64 = 1e6;
/// Rounds whose values are compared.
const VERIFIED: u64 = 20;

/// A line of the output.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Record {
    /// How long an iteration of the loop of bodies takes.
    Kernel { by: &'static str, ns_per_iteration: f64 },
    /// A way that is not there.
    Skipped { way: &'static str, why: String },
    /// A way whose threads could not be pinned.
    Unpinned { way: &'static str },
    /// The values of a way are those of the plain loop, which have this checksum.
    Verified { program: &'static str, way: &'static str, workers: usize, rounds: u64, checksum: String },
    /// One run.
    Run(Run),
    /// What follows from the runs.
    Metg { program: &'static str, way: &'static str, workers: usize, bound: &'static str, ns: f64 },
}

/// One run.
#[derive(Clone, Debug, Serialize)]
struct Run {
    program: &'static str,
    way: &'static str,
    workers: usize,
    body: &'static str,
    /// Length of a body, or its mean.
    grain_ns: f64,
    round: usize,
    steps: u64,
    ns_per_step: f64,
}

/// What is raced, and how.
struct Race {
    site: Site,
    workers: usize,
    most_rounds: usize,
    /// After this no round begins that would not end before it, but for the least number of rounds.
    until: Option<Instant>,
    /// Rounds that were run.
    rounds: usize,
    /// How long a run takes.
    ns_per_run: f64,
    /// Lengths of bodies.
    grains: Vec<u64>,
    ns_per_iteration: f64,
    programs: Vec<Program>,
    ways: Vec<Way>,
    records: Vec<Record>,
}

/// Something that every way does.
#[derive(Clone, Copy)]
struct Cell<'a> {
    program: &'a Program,
    way: &'a Way,
    workers: usize,
    body: Body,
    /// What a step costs beside its body, about.
    cost: f64,
}

/// When the first of `parts` equal parts of the time from now on is over; without parts, when all
/// is.
fn share(until: Option<Instant>, parts: usize) -> Option<Instant> {
    let now = Instant::now();
    until.map(|until| now + until.saturating_duration_since(now) / parts.max(1) as u32)
}

/// Runs the race; returns what to print.
pub(crate) fn overlay(args: &BenchOverlayArgs, signals: &Signals) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir();
    let folder = folder.map_err(|error| failed("make a directory for the peers' programs", error))?;
    let (args, path) = (args.clone(), folder.path().to_owned());
    let work = move || {
        let mut race = Race::new(&args, path)?;
        race.run()?;
        if !args.json {
            return Ok(Table::new(&race).text());
        }
        let lines = race.records.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>();
        lines.map(|lines| lines.join("\n")).map_err(|error| failed("write JSON", error))
    };
    signals.abandon(work)
}

impl Race {
    fn new(args: &BenchOverlayArgs, folder: PathBuf) -> Result<Self> {
        let start = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let places = Places::or_none();
        let (factor, rounds, milliseconds) = if args.quick { (4.0, 5, 8) } else { (2.0, 7, 40) };
        let ns_per_iteration = calibrate(CALIBRATION);
        let mut records = vec![Record::Kernel { by: "rustc", ns_per_iteration }];
        eprintln!("compiling the peers");
        let mut peers = Vec::new();
        for (Source { way, .. }, peer) in compiled::compile(&folder)? {
            match peer {
                Ok(peer) => {
                    records.push(Record::Kernel { by: way, ns_per_iteration: peer.calibrate()? });
                    peers.push(peer);
                }
                Err(why) => {
                    eprintln!("skipped: {way}: {why}");
                    records.push(Record::Skipped { way, why });
                }
            }
        }
        let grains = std::iter::successors(Some(GRAINS[0]), |grain| Some(grain * factor));
        let iterations = |grain: f64| ((grain / ns_per_iteration).round() as u64).max(1);
        let patterns = Pattern::ALL.into_iter().map(|pattern| Program::of(pattern, WIDTH));
        Ok(Self {
            site: Site { folder, places },
            workers: args.workers.map_or(cores, |n| n as usize),
            most_rounds: args.rounds.unwrap_or(rounds),
            until: (args.quick && args.rounds.is_none()).then(|| start + QUICK),
            rounds: 0,
            ns_per_run: 1e6 * args.milliseconds.unwrap_or(milliseconds) as f64,
            grains: grains.take_while(|&grain| grain <= GRAINS[1]).map(iterations).collect(),
            ns_per_iteration,
            programs: [Program::grid(SIDE, SIDE)].into_iter().chain(patterns).collect(),
            ways: ways::all(peers),
            records,
        })
    }

    fn run(&mut self) -> Result<()> {
        // Lent from the rest, which the runs are added to.
        let (programs, ways) = (std::mem::take(&mut self.programs), std::mem::take(&mut self.ways));
        let done = self.race(&programs, &ways);
        (self.programs, self.ways) = (programs, ways);
        done
    }

    fn race(&mut self, programs: &[Program], ways: &[Way]) -> Result<()> {
        for program in programs {
            eprintln!("verifying: {}", program.name);
            self.verify(program, ways)?;
        }
        let grid = &programs[0];
        let mut workers = vec![1, self.workers];
        workers.dedup();
        let mean = (MEAN / self.ns_per_iteration).round() as u64;
        let all = |body, workers| ways.iter().map(move |way| (way, body, workers));
        let cells = workers.iter().flat_map(|&workers| all(Body::Empty, workers));
        // The plain loop on one thread is what the others are judged by.
        let plain = all(Body::Irregular(mean), 1).filter(|(way, ..)| !way.keeps_order(2));
        let mut others = all(Body::Irregular(mean), self.workers).collect::<Vec<_>>();
        others.retain(|(way, ..)| self.workers > 1 || way.keeps_order(2));
        let cells = cells.chain(plain).chain(others);
        let cells = cells.map(|(way, body, workers)| self.probe(grid, way, workers, body));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let mut sweeps = Vec::new();
        for program in programs {
            let probe = |way| self.probe(program, way, self.workers, Body::Empty);
            sweeps.push(ways.iter().filter(|way| way.keeps_order(2)).map(probe).collect::<Result<Vec<_>>>()?);
        }
        let start = Instant::now();
        for round in 0..self.most_rounds {
            let until = share(self.until, LEAST_ROUNDS.saturating_sub(round));
            eprintln!("round {}: empty and irregular bodies", round + 1);
            for &cell in &cells {
                self.time(cell, round)?;
            }
            for (p, (program, cells)) in programs.iter().zip(&sweeps).enumerate() {
                eprintln!("round {}: bodies of all lengths, {}", round + 1, program.name);
                self.sweep(cells, round, share(until, programs.len() - p))?;
            }
            self.rounds = round + 1;
            let each = start.elapsed() / self.rounds as u32;
            if self.rounds >= LEAST_ROUNDS && self.until.is_some_and(|until| Instant::now() + each > until) {
                break;
            }
        }
        self.conclude(programs, ways);
        Ok(())
    }

    /// Runs a program with bodies that depend on everything.
    fn verify(&mut self, program: &Program, ways: &[Way]) -> Result<()> {
        let plain = program.plain(VERIFIED);
        let mut numbers = vec![1, self.workers];
        numbers.dedup();
        for way in ways {
            for &workers in numbers.iter().filter(|&&workers| way.keeps_order(workers)) {
                let run = way.run(&self.site, program, Body::Verify, workers, [0, VERIFIED])?;
                if run.checksum != plain {
                    let why =
                        format!("the checksum is {:016x}, that of the plain loop {plain:016x}", run.checksum);
                    let what = format!("go on: {}, {}, {workers} workers", program.name, way.name());
                    return Err(failed(&what, why));
                }
                let known =
                    |record: &Record| matches!(record, Record::Unpinned { way: w } if *w == way.name());
                if !run.pinned && !self.records.iter().any(known) {
                    eprintln!("not pinned: {}", way.name());
                    self.records.push(Record::Unpinned { way: way.name() });
                }
                self.records.push(Record::Verified {
                    program: program.name,
                    way: way.name(),
                    workers,
                    rounds: VERIFIED,
                    checksum: format!("{plain:016x}"),
                });
            }
        }
        Ok(())
    }

    /// Finds out about how long a step takes without its body.
    fn probe<'a>(&self, program: &'a Program, way: &'a Way, workers: usize, body: Body) -> Result<Cell<'a>> {
        let mut rounds = 32;
        loop {
            let run = way.run(&self.site, program, Body::Empty, workers, [rounds; 2])?;
            // So its first half was as long, too.
            if run.seconds * 1e9 > WARM_UP || rounds as f64 > MOST_ROUNDS {
                let cost = run.seconds * 1e9 / run.steps as f64;
                return Ok(Cell { program, way, workers, body, cost });
            }
            rounds *= 4;
        }
    }

    /// Times a run.
    fn time(&mut self, cell: Cell<'_>, round: usize) -> Result<()> {
        let Cell { program, way, workers, body, cost } = cell;
        let grain_ns = match body {
            Body::Spin(n) | Body::Irregular(n) => n as f64 * self.ns_per_iteration,
            Body::Empty | Body::Verify => 0.0,
        };
        let tasks = program.tasks.len() as f64;
        let each = tasks * (cost + grain_ns / workers as f64);
        let ns =
            if matches!(body, Body::Irregular(_)) { self.ns_per_run.max(IRREGULAR) } else { self.ns_per_run };
        let rounds = (ns / each).clamp(4.0, MOST_ROUNDS);
        let warm = (WARM_UP / each).clamp(rounds / 16.0, MOST_ROUNDS).ceil();
        let run = way.run(&self.site, program, body, workers, [warm as u64, rounds as u64])?;
        let ns_per_step = run.seconds * 1e9 / run.steps as f64;
        self.records.push(Record::Run(Run {
            program: program.name,
            way: way.name(),
            workers,
            body: body.name(),
            grain_ns,
            round,
            steps: run.steps,
            ns_per_step,
        }));
        Ok(())
    }

    /// Bodies from short to long, until they are efficient in the median of the rounds so far, or
    /// time is up.
    fn sweep(&mut self, cells: &[Cell<'_>], round: usize, until: Option<Instant>) -> Result<()> {
        let mut done = vec![false; cells.len()];
        for (i, iterations) in self.grains.clone().into_iter().enumerate() {
            // For all ways or none.
            if i > 0 && until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            for (cell, done) in cells.iter().zip(&mut done).filter(|(_, done)| !**done) {
                self.time(Cell { body: Body::Spin(iterations), ..*cell }, round)?;
                let point = self.point(cell.program.name, cell.way.name(), iterations);
                *done = point.is_some_and(|point| point.efficiency >= ENOUGH);
            }
        }
        Ok(())
    }

    fn conclude(&mut self, programs: &[Program], ways: &[Way]) {
        for (program, way) in programs.iter().flat_map(|p| ways.iter().map(move |w| (p.name, w.name()))) {
            if let Some(metg) = Metg::of(&self.points(program, way)) {
                let (bound, ns, workers) = (metg.bound(), metg.ns(), self.workers);
                self.records.push(Record::Metg { program, way, workers, bound, ns });
            }
        }
    }

    /// The median times of the steps of these runs.
    fn median(&self, wanted: impl Fn(&Run) -> bool) -> Option<f64> {
        median(self.times(wanted))
    }

    fn times(&self, wanted: impl Fn(&Run) -> bool) -> Vec<f64> {
        let runs = self.records.iter().filter_map(|record| match record {
            Record::Run(run) if wanted(run) => Some(run.ns_per_step),
            _ => None,
        });
        runs.collect()
    }

    /// The efficiency of a way with bodies of one length, by the median.
    fn point(&self, program: &str, way: &str, iterations: u64) -> Option<Point> {
        let grain = iterations as f64 * self.ns_per_iteration;
        let wanted = |run: &Run| {
            (run.program, run.way, run.body) == (program, way, "spin") && (run.grain_ns - grain).abs() < 1e-6
        };
        let ns = self.median(wanted)?;
        Some(Point { grain, efficiency: grain / self.workers as f64 / ns })
    }

    /// The efficiencies of a way.
    fn points(&self, program: &str, way: &str) -> Vec<Point> {
        self.grains.iter().filter_map(|&iterations| self.point(program, way, iterations)).collect()
    }
}
