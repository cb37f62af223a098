//! `syncline-lab bench wave`: one sweep, by every way there is, in turn.
//!
//! ```text
//! disk floor     the bytes of a pass, by the calls of a pass, and nothing else
//! compute floor  the updates alone, on data that the cache holds, on all threads
//! streamed       out of core, all iterations
//! blocked        out of core, two iterations, scaled
//! plain loop     in memory, on some of the rows, scaled
//! numba          numpy.memmap and numba, two iterations, scaled    (where a Python has them)
//! yardstick      a program that is given, on its own data
//! ```
//!
//! The ways alternate, round after round; printed are medians, and their ratios to the streamed
//! sweep and to the greater floor. All run on the same files, out of the page cache as far as the
//! kernel can be asked to forget (as root).
//!
//! The floors, streamed and the yardstick have their rounds first: a disk is busy for a while with
//! the gigabytes that the others write through the page cache. For the same reason the floor is
//! measured once before it counts.

mod floor;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use syncline_memory::Size;
use syncline_store::{Layout, Matrix, Shape};
use syncline_wave::{
    Error as WaveError, Executor, Leftovers, Lk23, Monitor, Plan, Report, Runner, Sweep, Target, plain_sweep,
};

use super::at_least;
use crate::error::{Error, Result};
use crate::peers;
use crate::stop::Signals;

/// Races the ways of running a sweep against one another, and against the disk.
///
/// Data are made in a new directory below DIR and removed at the end.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench wave [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench wave --dir /scratch
  syncline-lab bench wave --rows 16384 --cols 16384 --memory 1800M --rounds 3 --json"
)]
pub(crate) struct BenchWaveArgs {
    /// Rows of every matrix
    #[arg(long, value_name = "R", default_value_t = 4096, value_parser = at_least(3))]
    pub(crate) rows: usize,
    /// Columns of every matrix
    #[arg(long, value_name = "C", default_value_t = 4096, value_parser = at_least(3))]
    pub(crate) cols: usize,
    /// Iterations
    #[arg(long, short = 'k', value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) iterations: u64,
    /// The most memory that the sweeps hold resident
    #[arg(long, value_name = "SIZE", value_parser = enough_memory, default_value = "256M")]
    pub(crate) memory: u64,
    /// How many threads compute [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Where the data are made: a directory, which must exist, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How often every way is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = at_least(1))]
    pub(crate) rounds: usize,
    /// Leave numpy and numba out (they are taken from python3, or from DIR/.syncline-bench-venv)
    #[arg(long)]
    pub(crate) no_numba: bool,
    /// A program, or C++ source of one, that is run as PROGRAM DATADIR STRIPS COLS ITERATIONS DEPTH
    ///
    /// Its matrices have 8 * STRIPS + 2 rows; it makes them in its first run, which is not counted,
    /// and prints `wall SECONDSs` in the others.
    #[arg(long, value_name = "FILE")]
    pub(crate) yardstick: Option<PathBuf>,
    /// Print one JSON object per run, one per line, and no table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A size that holds the program and the window of a small sweep.
fn enough_memory(text: &str) -> std::result::Result<u64, String> {
    let least = 2 * PROGRAM;
    match text.parse::<Size>()?.0 {
        enough if enough >= least => Ok(enough),
        _ => Err(format!("the program and the least window take {}", Size(least))),
    }
}

/// One run of one way.
#[derive(Debug, Serialize)]
struct Run {
    way: &'static str,
    round: usize,
    /// Wall time of all iterations, scaled where only a part was run.
    seconds: f64,
    /// What part was run.
    part: f64,
}

/// What is raced, and on what.
#[derive(Clone)]
struct Race {
    args: BenchWaveArgs,
    folder: PathBuf,
    shape: Shape,
    threads: usize,
    /// Ends the sweeps, and the race before its next way.
    monitor: Arc<Monitor>,
}

const NAMES: [&str; 6] = ["za", "zr", "zb", "zu", "zv", "zz"];
/// Iterations of the ways that read everything in each of them.
const FEW: u64 = 2;
/// What of the memory the program itself has.
const PROGRAM: u64 = 16 << 20;

/// Runs the race; returns what to print.
pub(crate) fn wave(args: &BenchWaveArgs, signals: &Signals) -> Result<String> {
    let io = |what: &str, source| Error::Io { what: format!("{what} {}", args.dir.display()), source };
    let folder = tempfile::Builder::new().prefix("syncline-bench.").tempdir_in(&args.dir);
    let folder = folder.map_err(|source| io("make a directory in", source))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let race = Race {
        args: args.clone(),
        folder: folder.path().to_owned(),
        shape: Shape::new(args.rows, args.cols),
        threads: args.threads.map_or(threads, |n| n as usize),
        monitor: Arc::default(),
    };
    let (monitor, racing) = (Arc::clone(&race.monitor), race.clone());
    let runs = signals.cancel(move || monitor.cancel(), move || racing.run())?;
    if args.json {
        let lines = runs.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>();
        let failed =
            |error: serde_json::Error| Error::Io { what: "write JSON".to_owned(), source: error.into() };
        return Ok(lines.map_err(failed)?.join("\n"));
    }
    Ok(race.table(&runs))
}

impl Race {
    fn run(&self) -> Result<Vec<Run>> {
        eprintln!("making {} of data", Size(6 * (self.shape.elements() * 8) as u64));
        floor::make(&self.folder, &NAMES, self.shape)?;
        let numba = match self.args.no_numba {
            true => None,
            false => {
                let skipped = |why: String| eprintln!("skipped: numba: {why}");
                peers::environment(&self.args.dir).map_err(skipped).ok()
            }
        };
        let yardstick =
            |file: &PathBuf| peers::Yardstick::new(file, &self.folder, self.shape, self.args.iterations);
        let yardstick = self.args.yardstick.as_ref().map(yardstick).transpose()?;
        let mut runs = Vec::new();
        let mut add = |round: usize, way, seconds: f64, part: f64| {
            eprintln!("round {}: {way:14} {seconds:9.3} s", round + 1);
            runs.push(Run { way, round, seconds, part });
            self.go_on()
        };
        // Not counted: the disk is still busy with what was made.
        let plan = self.plan()?;
        eprintln!("warming up: {:.3} s", self.disk_floor(&plan)?);
        self.go_on()?;
        for round in 0..self.args.rounds {
            add(round, "compute floor", self.compute_floor()?, 1.0)?;
            // Each comes as often after the other.
            let floor_first = round % 2 == 0;
            if floor_first {
                add(round, "disk floor", self.disk_floor(&plan)?, 1.0)?;
            }
            add(round, "streamed", self.streamed(&plan)?, 1.0)?;
            if !floor_first {
                add(round, "disk floor", self.disk_floor(&plan)?, 1.0)?;
            }
            if let Some(yardstick) = &yardstick {
                self.forget();
                add(round, "yardstick", yardstick.seconds()?, 1.0)?;
            }
        }
        let few = FEW.min(self.args.iterations);
        let scale = self.args.iterations as f64 / few as f64;
        for round in 0..self.args.rounds {
            add(round, "blocked", self.blocked(few)? * scale, 1.0 / scale)?;
            let (plain, part) = self.plain()?;
            add(round, "plain loop", plain / part, part)?;
            if let Some(python) = &numba {
                self.forget();
                let each = peers::numba(python, &self.folder, few)?;
                add(round, "numba", each * self.args.iterations as f64, 1.0 / scale)?;
            }
        }
        Ok(runs)
    }

    /// Asks the kernel to forget what it holds of files; only root may.
    fn forget(&self) {
        rustix::fs::sync();
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    }

    fn matrix(&self, name: &str) -> Result<Arc<Matrix>> {
        Ok(Arc::new(Matrix::open(&self.folder.join(format!("{name}.npy")))?))
    }

    fn sweep(&self) -> Sweep<Lk23> {
        Sweep::new(Lk23)
            .iterations(self.args.iterations)
            .memory(self.args.memory.saturating_sub(PROGRAM))
            .runner(Runner::pool(self.threads))
            .monitor(Arc::clone(&self.monitor))
    }

    /// Ends the race if it was cancelled.
    fn go_on(&self) -> Result<()> {
        if self.monitor.is_cancelled() { Err(WaveError::Cancelled { iteration: 0 }.into()) } else { Ok(()) }
    }

    /// What the streamed sweep will do.
    fn plan(&self) -> Result<Plan> {
        let field = self.matrix("za")?;
        // The field stands for the result, which is row-major and on file as well.
        Ok(self.sweep().executor(Executor::Streamed).plan(&field, &self.coefficients()?, &field)?)
    }

    fn streamed(&self, plan: &Plan) -> Result<f64> {
        self.forget();
        let (path, field) = (self.folder.join("out.npy"), self.matrix("za")?);
        let coefficients = self.coefficients()?;
        let start = Instant::now();
        let target = Target::npy(&path).leftovers(Leftovers::Discard);
        // As deep as the floor takes it to be: the estimate varies with the disk.
        let depth = plan.streamed().map_or(1, |plan| plan.depth);
        let sweep = self.sweep().executor(Executor::Streamed).depth(depth);
        let (pending, _) = sweep.run_to(&field, &coefficients, &target)?;
        pending.commit()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn coefficients(&self) -> Result<[Arc<Matrix>; 5]> {
        let [_, a, b, c, d, e] = NAMES;
        Ok([self.matrix(a)?, self.matrix(b)?, self.matrix(c)?, self.matrix(d)?, self.matrix(e)?])
    }

    /// The bytes of the passes, by the calls of a pass.
    fn disk_floor(&self, plan: &Plan) -> Result<f64> {
        self.forget();
        let (rows, passes) = plan.streamed().map_or((128, 1), |plan| (plan.rows, plan.passes));
        let paths = NAMES.map(|name| self.folder.join(format!("{name}.npy")));
        (0..passes).map(|_| floor::disk(&paths, &self.folder.join("floor"), self.shape, rows)).sum()
    }

    /// The updates alone: what a small sweep in memory spends with them, on all threads.
    fn compute_floor(&self) -> Result<f64> {
        let shape = Shape::new(514, 1026);
        let values = |seed: u64| floor::numbers(seed, shape.elements());
        let field = Arc::new(Matrix::from_vec(shape, values(1))?);
        let coefficient = Arc::new(Matrix::from_vec(shape, values(2))?);
        let coefficients = std::array::from_fn(|_| Arc::clone(&coefficient));
        let iterations = self.args.iterations.min(40);
        let sweep = Sweep::new(Lk23).iterations(iterations).runner(Runner::pool(1));
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let (_, Report { times, .. }) =
                sweep.run(&field, &coefficients, Matrix::zeros(shape, Layout::RowMajor)?)?;
            best = best.min(times.map_or(f64::INFINITY, |times| times.update.as_secs_f64()));
        }
        let points = |shape: Shape| ((shape.rows - 2) * (shape.cols - 2)) as f64;
        let each = best / points(shape) / iterations as f64;
        Ok(each * points(self.shape) * self.args.iterations as f64 / self.threads as f64)
    }

    fn blocked(&self, iterations: u64) -> Result<f64> {
        self.forget();
        let new = syncline_store::NewFile::create(
            &self.folder.join("blocked.npy"),
            Matrix::<f64>::file_bytes(true, self.shape, Layout::RowMajor)?,
        )?;
        let result = Matrix::create(&new, true, self.shape, Layout::RowMajor)?;
        let (field, coefficients) = (self.matrix("za")?, self.coefficients()?);
        let start = Instant::now();
        self.sweep().iterations(iterations).executor(Executor::Blocked).run(&field, &coefficients, result)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The plain loop over as many rows as fit a quarter of the memory of the machine, and which
    /// part that is.
    fn plain(&self) -> Result<(f64, f64)> {
        let most = syncline_memory::left().unwrap_or(1 << 30) / 4;
        let rows = ((most / (48 * self.shape.cols as u64)) as usize).clamp(3, self.shape.rows);
        let read = |name: &str| -> Result<Vec<f64>> {
            let mut values = vec![0.0; rows * self.shape.cols];
            self.matrix(name)?.read_rows(0..rows, &mut values)?;
            Ok(values)
        };
        let [_, a, b, c, d, e] = NAMES;
        let coefficients = [read(a)?, read(b)?, read(c)?, read(d)?, read(e)?];
        let mut field = read(NAMES[0])?;
        let few = FEW.min(self.args.iterations);
        let start = Instant::now();
        for _ in 0..few {
            plain_sweep(&Lk23, &mut field, coefficients.each_ref().map(|c| &c[..]), rows, self.shape.cols);
        }
        let part =
            (rows - 2) as f64 / (self.shape.rows - 2) as f64 * few as f64 / self.args.iterations as f64;
        Ok((start.elapsed().as_secs_f64(), part))
    }

    fn table(&self, runs: &[Run]) -> String {
        let median = |way: &str| {
            let mut times: Vec<f64> = runs.iter().filter(|r| r.way == way).map(|r| r.seconds).collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        let floor = ["disk floor", "compute floor"].into_iter().filter_map(median).fold(0.0, f64::max);
        let streamed = median("streamed").unwrap_or(f64::NAN);
        let updates = ((self.shape.rows - 2) * (self.shape.cols - 2)) as f64 * self.args.iterations as f64;
        let mut text = format!(
            "Livermore kernel 23, {}, {} iterations, {} of data, {} of memory, {} threads; medians of {} rounds\n\n\
             {:14} {:>10} {:>12} {:>12} {:>10}   part run\n",
            self.shape,
            self.args.iterations,
            Size(6 * (self.shape.elements() * 8) as u64),
            Size(self.args.memory),
            self.threads,
            self.args.rounds,
            "way",
            "seconds",
            "ns/element",
            "/ streamed",
            "/ floor",
        );
        let ways = ["disk floor", "compute floor", "streamed", "blocked", "plain loop", "numba", "yardstick"];
        for way in ways {
            let (Some(seconds), Some(run)) = (median(way), runs.iter().find(|r| r.way == way)) else {
                continue;
            };
            text += &format!(
                "{way:14} {seconds:10.3} {:12.3} {:12.2} {:10.2}   {}\n",
                seconds * 1e9 / updates,
                seconds / streamed,
                seconds / floor,
                if run.part < 1.0 { format!("{:.0} %, scaled", run.part * 100.0) } else { "all".to_owned() },
            );
        }
        text.trim_end().to_owned()
    }
}
