//! `syncline-lab bench overlay`: races one program of tasks, by each way of keeping its order.
//!
//! ```text
//! overlay, ...              our runners
//! plain loop, no order      on one thread the sequential program; on more threads each runs its
//!                           part, with wrong values: the baseline for the cost of order. Empty and
//!                           irregular bodies only
//! barrier per level         a spinning barrier after every anti-diagonal or timestep
//! RwLock + Condvar          locks and condition variables of the standard library
//! OpenMP task depend        gcc, clang
//! OpenMP for                gcc, clang
//! oneTBB flow graph         g++
//! ```
//!
//! The last three are compiled when the command runs, and skipped where there is no compiler.
//! Before anything is timed, each way runs each program with bodies that hash what they read, and
//! must produce the values of the plain loop. Then three things are measured, the ways alternating,
//! round after round:
//!
//! 1. empty bodies on the five-point grid, on one worker and on all;
//! 2. bodies of 0 to 2 us on the grid; the ideal is the time of the plain loop on one thread over
//!    the same bodies, divided by the number of workers;
//! 3. bodies of one length, from 4 ns up, on the grid and on patterns of Task Bench, for METG(50
//!    %). In a round, a way is not measured any further once its bodies take three quarters of the
//!    time.
//!
//! Bodies loop for a number of iterations, in the same loop in Rust, C and C++; the time of an
//! iteration is measured for each compiler. All ways spin while they wait, except locks and
//! condition variables.
//!
//! The threads of all ways are pinned. The later part of a run is timed, after the same threads
//! have run the earlier part: at least six milliseconds of it, and a sixteenth of the rounds. See
//! [`crew`].

mod by_hand;
mod compiled;
mod crew;
mod efficiency;
mod patterns;
mod program;
mod table;
mod ways;
mod work;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use self::compiled::Source;
use self::efficiency::{Metg, Point};
use self::patterns::Pattern;
use self::program::Program;
use self::ways::{Site, Way};
use self::work::Body;
use crate::error::{Result, failed};
use crate::kernel::{CALIBRATION, calibrate};
use crate::places::Places;
use crate::race::{
    self, Entry, Group, Lines, Machine, Options, Pace, Results, Skipped, Stage, race,
};
use crate::stop::Signals;

/// Races overlays against other ways of running tasks in order.
///
/// The same tasks with the same dependences, by our runners, by hand-written loops, and by OpenMP
/// and oneTBB, which are compiled with gcc, clang and g++ where these are installed (Debian: gcc
/// g++ clang libomp-dev libtbb-dev) and skipped otherwise. Everything is run 7 times; with --quick
/// as often as a minute allows, at most 5 times, and only every second length of tasks. Times are
/// wall times per task; METG(50 %) is the length of tasks at which they take half of the time.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench overlay [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench overlay --quick
  syncline-lab bench overlay --workers 4 --json"
)]
pub(crate) struct BenchOverlayArgs {
    #[command(flatten)]
    options: Options,
    /// Number of threads that run tasks [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Approximate duration of a run [default: 40; 8 with --quick; with irregular bodies at least
    /// 100]
    #[arg(long, value_name = "MS", value_parser = crate::at_least(1))]
    milliseconds: Option<usize>,
}

/// The number of rows, and of columns, of the grid.
const SIDE: usize = 32;
/// The number of points of a pattern.
const WIDTH: usize = 64;
/// The mean length of irregular bodies, in nanoseconds.
const MEAN: f64 = 1000.0;
/// The least and the greatest length of bodies, in nanoseconds.
const GRAINS: [f64; 2] = [4.0, 65_536.0];
/// The efficiency beyond which longer bodies are not measured.
const ENOUGH: f64 = 0.75;
/// The approximate duration of `--quick`. It must not exceed a minute.
const QUICK: Duration = Duration::from_secs(55);
/// The least number of rounds: on a slow or busy machine the longest bodies are left out.
const LEAST_ROUNDS: usize = 3;
/// The least duration of a run with irregular bodies, in nanoseconds. Workers finish such a run up
/// to an iteration of their tasks apart, which would distort a short run.
const IRREGULAR: f64 = 1e8;
/// The approximate duration of the untimed part of a run, in nanoseconds.
const WARM_UP: f64 = 6e6;
/// The greatest number of rounds.
const MOST_ROUNDS: f64 = 1e6;
/// The number of rounds after which values are compared.
const VERIFIED: u64 = 20;

/// The conditions of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Job {
    program: &'static str,
    workers: usize,
    body: &'static str,
    /// The length of a body, or its mean, in nanoseconds.
    grain_ns: f64,
}

/// The race and its options.
struct Race {
    machine: Machine,
    site: Site,
    workers: usize,
    /// The duration of a run.
    ns_per_run: f64,
    /// The lengths of bodies, in iterations.
    grains: Vec<u64>,
    ns_per_iteration: f64,
    programs: Vec<Program>,
    ways: Vec<Way>,
    /// The nanoseconds of an iteration of the loop of bodies, by compiler.
    kernels: Vec<(&'static str, f64)>,
    skipped: Vec<Skipped<()>>,
    unpinned: Vec<&'static str>,
    verified: Vec<serde_json::Value>,
}

/// A run that each way makes.
#[derive(Clone, Copy)]
struct Cell<'a> {
    program: &'a Program,
    way: &'a Way,
    workers: usize,
    body: Body,
    /// The approximate cost of a step besides its body.
    cost: f64,
}

/// The state that all runs share: the remaining time, and the runs that are not needed.
#[derive(Default)]
struct Clock {
    /// The deadlines of the race, of this round, and of this program in it.
    race: Option<Instant>,
    round: Option<Instant>,
    program: Option<Instant>,
    /// The programs and ways whose bodies were efficient in this round.
    done: HashSet<(&'static str, &'static str)>,
}

impl Stage for Clock {
    fn round(&mut self, round: usize) -> Result<()> {
        eprintln!("round {}", round + 1);
        self.round = share(self.race, LEAST_ROUNDS.saturating_sub(round));
        self.done.clear();
        Ok(())
    }
}

/// Returns the end of the first of `parts` equal parts of the time from now to `until`; with 0
/// parts, the end of all of it.
fn share(until: Option<Instant>, parts: usize) -> Option<Instant> {
    let now = Instant::now();
    until.map(|until| now + until.saturating_duration_since(now) / parts.max(1) as u32)
}

/// Runs the race; returns the text to print.
pub(crate) fn overlay(args: &BenchOverlayArgs, signals: &Signals) -> Result<String> {
    let args = args.clone();
    let work = move |folder: &Path, signals: &Signals| {
        let options = &args.options;
        let until = (options.quick && options.rounds.is_none()).then(|| Instant::now() + QUICK);
        let mut overlays = Race::new(&args, folder)?;
        overlays.verify(signals)?;
        let pace = match options.rounds {
            Some(rounds) => Pace::exactly(rounds),
            None if options.quick => Pace { least: LEAST_ROUNDS, most: 5, until, warm_up: false },
            None => Pace::exactly(7),
        };
        let mut clock = Clock { race: until, ..Clock::default() };
        let results =
            race(&mut clock, signals, &mut overlays.groups(signals)?, pace.warm_up(false))?;
        if options.json { overlays.json(&results) } else { Ok(table::text(&overlays, &results)) }
    };
    race::hold(signals, None, || (), work)
}

impl Race {
    fn new(args: &BenchOverlayArgs, folder: &Path) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (factor, milliseconds) = if args.options.quick { (4.0, 8) } else { (2.0, 40) };
        let ns_per_iteration = calibrate(CALIBRATION);
        let (mut kernels, mut skipped) = (vec![("rustc", ns_per_iteration)], Vec::new());
        eprintln!("compiling the peers");
        let mut peers = Vec::new();
        for (Source { way, .. }, peer) in compiled::compile(folder)? {
            match peer {
                Ok(peer) => {
                    kernels.push((way, peer.calibrate()?));
                    peers.push(peer);
                }
                Err(why) => skipped.push(Skipped::told((), *way, why)),
            }
        }
        let grains = std::iter::successors(Some(GRAINS[0]), |grain| Some(grain * factor));
        let iterations = |grain: f64| ((grain / ns_per_iteration).round() as u64).max(1);
        let patterns = Pattern::ALL.into_iter().map(|pattern| Program::of(pattern, WIDTH));
        Ok(Self {
            machine: Machine::here(cores),
            site: Site { folder: folder.to_owned(), places: Places::or_none() },
            workers: args.workers.map_or(cores, |n| n as usize),
            ns_per_run: 1e6 * args.milliseconds.unwrap_or(milliseconds) as f64,
            grains: grains.take_while(|&grain| grain <= GRAINS[1]).map(iterations).collect(),
            ns_per_iteration,
            programs: [Program::grid(SIDE, SIDE)].into_iter().chain(patterns).collect(),
            ways: ways::all(peers),
            kernels,
            skipped,
            unpinned: Vec::new(),
            verified: Vec::new(),
        })
    }

    /// Returns the numbers of workers: one, and all.
    fn crews(&self) -> Vec<usize> {
        let mut workers = vec![1, self.workers];
        workers.dedup();
        workers
    }

    /// Returns the ways that keep the order on several threads.
    fn ordered(&self) -> impl Iterator<Item = &Way> {
        self.ways.iter().filter(|way| way.keeps_order(2))
    }

    /// Runs each program with bodies that depend on every dependence.
    fn verify(&mut self, signals: &Signals) -> Result<()> {
        for program in &self.programs {
            eprintln!("verifying: {}", program.name);
            let plain = program.plain(VERIFIED);
            let crews = self.crews();
            for way in &self.ways {
                for &workers in crews.iter().filter(|&&workers| way.keeps_order(workers)) {
                    signals.check()?;
                    let run = way.run(&self.site, program, Body::Verify, workers, [0, VERIFIED])?;
                    let (name, way) = (program.name, way.name());
                    let checksum = format!("{plain:016x}");
                    if run.checksum != plain {
                        let why = format!(
                            "the checksum is {:016x}, that of the plain loop {checksum}",
                            run.checksum
                        );
                        return Err(failed(
                            &format!("go on: {name}, {way}, {workers} workers"),
                            why,
                        ));
                    }
                    if !run.pinned && !self.unpinned.contains(&way) {
                        eprintln!("not pinned: {way}");
                        self.unpinned.push(way);
                    }
                    self.verified.push(json!({ "program": name, "way": way, "workers": workers,
                        "rounds": VERIFIED, "checksum": checksum }));
                }
            }
        }
        Ok(())
    }

    /// Returns all runs of a round.
    fn groups<'a>(&'a self, signals: &Signals) -> Result<Vec<Group<'a, Clock, Job>>> {
        let grid = &self.programs[0];
        let mean = Body::Irregular((MEAN / self.ns_per_iteration).round() as u64);
        let probe = |program, way, workers, body| {
            signals.check()?;
            self.probe(program, way, workers, body)
        };
        let mut groups = Vec::new();
        for workers in self.crews() {
            let cells =
                self.ways.iter().map(|way| Ok(self.entry(probe(grid, way, workers, Body::Empty)?)));
            groups.push(Group::new(cells.collect::<Result<Vec<_>>>()?));
        }
        // The plain loop on one thread is the reference.
        let plain = self.ways.iter().filter(|way| !way.keeps_order(2)).map(|way| (way, 1));
        let others = self.ways.iter().filter(|way| self.workers > 1 || way.keeps_order(2));
        let irregular = plain.chain(others.map(|way| (way, self.workers)));
        let cells =
            irregular.map(|(way, workers)| Ok(self.entry(probe(grid, way, workers, mean)?)));
        groups.push(Group::new(cells.collect::<Result<Vec<_>>>()?));
        for (p, program) in self.programs.iter().enumerate() {
            let cells = self.ordered().map(|way| probe(program, way, self.workers, Body::Empty));
            let cells = cells.collect::<Result<Vec<_>>>()?;
            for (n, &iterations) in self.grains.iter().enumerate() {
                let spinning = cells
                    .iter()
                    .map(|&cell| self.entry(Cell { body: Body::Spin(iterations), ..cell }));
                let programs = self.programs.len() - p;
                // For all ways or none.
                let gate = move |clock: &mut Clock| {
                    if n == 0 {
                        clock.program = share(clock.round, programs);
                    }
                    n == 0 || clock.program.is_none_or(|until| Instant::now() <= until)
                };
                groups.push(Group::new(spinning).only_if(gate));
            }
        }
        Ok(groups)
    }

    /// Estimates the time of a step without its body.
    fn probe<'a>(
        &self,
        program: &'a Program,
        way: &'a Way,
        workers: usize,
        body: Body,
    ) -> Result<Cell<'a>> {
        let mut rounds = 32;
        loop {
            let run = way.run(&self.site, program, Body::Empty, workers, [rounds; 2])?;
            // The first half of the run then took about as long.
            if run.seconds * 1e9 > WARM_UP || rounds as f64 > MOST_ROUNDS {
                let cost = run.seconds * 1e9 / run.steps as f64;
                return Ok(Cell { program, way, workers, body, cost });
            }
            rounds *= 4;
        }
    }

    /// Returns the length of a body, or its mean, in nanoseconds.
    fn grain(&self, body: Body) -> f64 {
        match body {
            Body::Spin(n) | Body::Irregular(n) => n as f64 * self.ns_per_iteration,
            Body::Empty | Body::Verify => 0.0,
        }
    }

    fn job(&self, program: &'static str, workers: usize, body: Body) -> Job {
        Job { program, workers, body: body.name(), grain_ns: self.grain(body) }
    }

    /// Returns a cell as an entry: nanoseconds per step, and steps. Bodies grow from short to long
    /// until they are efficient.
    fn entry<'a>(&'a self, cell: Cell<'a>) -> Entry<'a, Clock, Job> {
        let Cell { program, way, workers, body, cost } = cell;
        let grain = self.grain(body);
        let tasks = program.tasks.len() as f64;
        let each = tasks * (cost + grain / workers as f64);
        let ns = if matches!(body, Body::Irregular(_)) {
            self.ns_per_run.max(IRREGULAR)
        } else {
            self.ns_per_run
        };
        let rounds = (ns / each).clamp(4.0, MOST_ROUNDS);
        let warm = (WARM_UP / each).clamp(rounds / 16.0, MOST_ROUNDS).ceil();
        let job = self.job(program.name, workers, body);
        Entry::of(job, way.side(), way.name(), &["", "steps"], move |clock: &mut Clock| {
            let sweep = (program.name, way.name());
            if matches!(body, Body::Spin(_)) && clock.done.contains(&sweep) {
                return Ok(Vec::new());
            }
            let run = way.run(&self.site, program, body, workers, [warm as u64, rounds as u64])?;
            let ns = run.seconds * 1e9 / run.steps as f64;
            if matches!(body, Body::Spin(_)) && self.efficiency(grain, ns) >= ENOUGH {
                clock.done.insert(sweep);
            }
            Ok(vec![vec![ns], vec![run.steps as f64]])
        })
    }

    /// Returns the ideal time divided by the wall time.
    fn efficiency(&self, grain: f64, ns: f64) -> f64 {
        grain / self.workers as f64 / ns
    }

    /// Returns the efficiencies of a way, by the medians.
    fn points(&self, results: &Results<Job>, program: &'static str, way: &str) -> Vec<Point> {
        let jobs = self.grains.iter().map(|&n| self.job(program, self.workers, Body::Spin(n)));
        let point = |job: Job| {
            let (grain, ns) = (job.grain_ns, results.median(&job, way)?);
            Some(Point { grain, efficiency: self.efficiency(grain, ns) })
        };
        jobs.filter_map(point).collect()
    }

    /// Returns the METG(50 %) of a way.
    fn metg(&self, results: &Results<Job>, program: &'static str, way: &str) -> Option<Metg> {
        Metg::of(&self.points(results, program, way))
    }

    /// Formats the results as one JSON object per line.
    fn json(&self, results: &Results<Job>) -> Result<String> {
        let mut lines = Lines::new("kind");
        lines.all(
            "kernel",
            self.kernels.iter().map(|(by, ns)| json!({ "by": by, "ns_per_iteration": ns })),
        )?;
        lines.all("skipped", &self.skipped)?;
        lines.all("unpinned", self.unpinned.iter().map(|way| json!({ "way": way })))?;
        lines.all("verified", &self.verified)?;
        for race::Run { key, way, round, values, .. } in &results.runs {
            let Job { program, workers, body, grain_ns } = key;
            let run = json!({ "program": program, "way": way, "workers": workers, "body": body,
                "grain_ns": grain_ns, "round": round, "steps": values[1] as u64, "ns_per_step": values[0] });
            lines.push("run", &run)?;
        }
        for program in self.programs.iter().map(|program| program.name) {
            for way in self.ways.iter().map(Way::name) {
                if let Some(metg) = self.metg(results, program, way) {
                    lines.push(
                        "metg",
                        &json!({ "program": program, "way": way, "workers": self.workers,
                        "bound": metg.bound(), "ns": metg.ns() }),
                    )?;
                }
            }
        }
        Ok(lines.text())
    }
}
