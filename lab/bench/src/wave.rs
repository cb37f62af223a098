//! `syncline-lab bench wave`: races one sweep, by each available way.
//!
//! ```text
//! disk floor     the bytes of a pass, with the calls of a pass, and nothing else
//! compute floor  the updates alone, on data that the cache holds, on all threads
//! streamed       out of core, all iterations
//! blocked        out of core, two iterations, scaled
//! plain loop     in memory, on some of the rows, scaled
//! numba          numpy.memmap and numba, two iterations, scaled    (if a Python has them)
//! yardstick      a given program, on its own data
//! ```
//!
//! The ways alternate, round after round; the output has medians, and their ratios to the streamed
//! sweep and to the greater floor. All ways run on the same files, which are dropped from the page
//! cache as far as the kernel permits.
//!
//! The floors, streamed and the yardstick have their rounds first: the disk stays busy for a while
//! with the gigabytes that the others write through the page cache. For the same reason the floor
//! is measured once before it counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use syncline_blocks::BlockedSweep;
use syncline_memory::room::Size;
use syncline_store::{Layout, Matrix, Shape};
use syncline_wave::{
    Runner, Sweep, SweepReport,
    kernels::Lk23,
    monitor::Monitor,
    plan::SweepPlan,
    reference::plain_sweep,
    target::{Leftovers, Target},
};

use crate::at_least;
use crate::disk;
use crate::error::Result;
use crate::peers;
use crate::race::{
    self, Column, Entry, Group, Lines, Options, Pace, Results, Side, Skipped, Table, Told, race,
    ratio,
};
use crate::stop::Signals;

/// Races the ways of running a sweep against one another, and against the disk.
///
/// Data are made in a new directory below DIR and removed at the end. Everything is run 3 times;
/// with --quick twice.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench wave [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench wave --dir /scratch
  syncline-lab bench wave --rows 16384 --cols 16384 --memory 1800M --rounds 3 --json"
)]
pub(crate) struct BenchWaveArgs {
    #[command(flatten)]
    options: Options,
    /// Rows of every matrix [default: 4096; with --quick 2048]
    #[arg(long, value_name = "R", value_parser = at_least(3))]
    rows: Option<usize>,
    /// Columns of every matrix [default: 4096; with --quick 2048]
    #[arg(long, value_name = "C", value_parser = at_least(3))]
    cols: Option<usize>,
    /// Iterations
    #[arg(long, short = 'k', value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Limit of the resident memory of the sweeps
    #[arg(long, value_name = "SIZE", value_parser = enough_memory, default_value = "256M")]
    memory: u64,
    /// Number of threads that compute [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Where the data are made: a directory, which must exist, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Leave numpy and numba out (they are taken from python3, or from DIR/.syncline-bench-venv)
    #[arg(long)]
    no_numba: bool,
    /// A program, or C++ source of one, that is run as PROGRAM DATADIR STRIPS COLS ITERATIONS DEPTH
    ///
    /// Its matrices have 8 * STRIPS + 2 rows; it creates them in its first run, which is not
    /// counted, and prints `wall SECONDSs` in the others.
    #[arg(long, value_name = "FILE")]
    yardstick: Option<PathBuf>,
}

/// Parses a size that holds the program and the window of a small sweep.
fn enough_memory(text: &str) -> std::result::Result<u64, String> {
    let least = 2 * PROGRAM;
    match text.parse::<Size>()?.0 {
        enough if enough >= least => Ok(enough),
        _ => Err(format!("the program and the least window take {}", Size(least))),
    }
}

/// A race: the state that all its ways share.
#[derive(Debug)]
struct Race {
    args: BenchWaveArgs,
    folder: PathBuf,
    shape: Shape,
    threads: usize,
    /// Stops the sweeps.
    monitor: Arc<Monitor>,
}

const NAMES: [&str; 6] = ["za", "zr", "zb", "zu", "zv", "zz"];
/// The number of iterations of the ways that read everything in each iteration.
const FEW: u64 = 2;
/// The part of the memory that the program itself uses.
const PROGRAM: u64 = 16 << 20;

/// Runs the race; returns the text to print.
pub(crate) fn wave(args: &BenchWaveArgs, signals: &Signals) -> Result<String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let monitor = Arc::<Monitor>::default();
    let (cancelled, args) = (Arc::clone(&monitor), args.clone());
    let dir = args.dir.clone();
    let work = move |folder: &Path, signals: &Signals| {
        let side = if args.options.quick { 2048 } else { 4096 };
        let race = Race {
            folder: folder.to_owned(),
            shape: Shape::new(args.rows.unwrap_or(side), args.cols.unwrap_or(side)),
            threads: args.threads.map_or(threads, |n| n as usize),
            monitor,
            args,
        };
        let results = race.run(signals)?;
        if !race.args.options.json {
            return Ok(race.text(&results));
        }
        let mut lines = Lines::new("");
        for race::Run { way, round, values, .. } in &results.runs {
            let run =
                json!({ "way": way, "round": round, "seconds": values[0], "part": values[1] });
            lines.push("", &run)?;
        }
        Ok(lines.text())
    };
    race::hold(signals, Some(&dir), move || cancelled.cancel(), work)
}

impl Race {
    fn run(&self, signals: &Signals) -> Result<Results<()>> {
        eprintln!("making {} of data", Size(6 * (self.shape.elements() * 8) as u64));
        for (n, name) in NAMES.iter().enumerate() {
            disk::make(&self.folder.join(format!("{name}.npy")), n, self.shape)?;
        }
        let iterations = self.args.iterations;
        let yardstick =
            |file: &PathBuf| peers::Yardstick::new(file, &self.folder, self.shape, iterations);
        let yardstick = self.args.yardstick.as_ref().map(yardstick).transpose()?;
        // Not counted: the disk is still busy with the new files.
        let plan = &self.plan()?;
        eprintln!("warming up: {:.3} s", self.disk_floor(plan)?);
        signals.check()?;
        let mut whole = Group::new([
            entry(Side::Baseline, "compute floor", || Ok((self.compute_floor()?, 1.0))),
            entry(Side::Baseline, "disk floor", || Ok((self.disk_floor(plan)?, 1.0))),
            entry(Side::Ours, "streamed", || Ok((self.streamed(plan)?, 1.0))),
        ]);
        if let Some(yardstick) = yardstick {
            whole.push(entry(Side::Peer, "yardstick", move || {
                disk::drop_caches(&self.folder)?;
                Ok((yardstick.seconds()?, 1.0))
            }));
        }
        let few = FEW.min(iterations);
        let scale = iterations as f64 / few as f64;
        let mut scaled = Group::new([
            entry(Side::Ours, "blocked", || Ok((self.blocked(few)? * scale, 1.0 / scale))),
            entry(Side::Baseline, "plain loop", || {
                let (plain, part) = self.plain()?;
                Ok((plain / part, part))
            }),
        ]);
        match (!self.args.no_numba).then(|| peers::numba(&self.args.dir)) {
            None => {}
            Some(Ok(python)) => scaled.push(entry(Side::Peer, "numba", move || {
                disk::drop_caches(&self.folder)?;
                Ok((
                    peers::numba_seconds(&python, &self.folder, few)? * iterations as f64,
                    1.0 / scale,
                ))
            })),
            Some(Err(why)) => scaled.skip((), "numba", why),
        }
        let usual = if self.args.options.quick { 2 } else { 3 };
        let pace = Pace::exactly(self.args.options.rounds.unwrap_or(usual)).warm_up(false);
        let mut results = race(&mut Told, signals, &mut [whole], pace)?;
        results.extend(race(&mut Told, signals, &mut [scaled], pace)?);
        Ok(results)
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

    /// Returns the plan of the streamed sweep.
    fn plan(&self) -> Result<SweepPlan> {
        let field = self.matrix("za")?;
        // The field stands for the result, which is row-major and on file as well.
        Ok(self.sweep().plan(&field, &self.coefficients()?, &field)?)
    }

    fn streamed(&self, plan: &SweepPlan) -> Result<f64> {
        disk::drop_caches(&self.folder)?;
        let (path, field) = (self.folder.join("out.npy"), self.matrix("za")?);
        let coefficients = self.coefficients()?;
        let start = Instant::now();
        let target = Target::npy(&path).leftovers(Leftovers::Discard);
        // The depth of the floor's plan: the estimate varies with the disk.
        let depth = plan.streamed().map_or(1, |plan| plan.depth);
        let sweep = self.sweep().depth(depth);
        let (pending, _) = sweep.run_to(&field, &coefficients, &target)?;
        pending.commit()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn coefficients(&self) -> Result<[Arc<Matrix>; 5]> {
        let [_, a, b, c, d, e] = NAMES;
        Ok([self.matrix(a)?, self.matrix(b)?, self.matrix(c)?, self.matrix(d)?, self.matrix(e)?])
    }

    /// Measures the bytes of the passes, with the calls of a pass.
    fn disk_floor(&self, plan: &SweepPlan) -> Result<f64> {
        disk::drop_caches(&self.folder)?;
        let (rows, passes) = plan.streamed().map_or((128, 1), |plan| (plan.rows, plan.passes));
        let paths = NAMES.map(|name| self.folder.join(format!("{name}.npy")));
        (0..passes).map(|_| disk::floor(&paths, &self.folder.join("floor"), self.shape, rows)).sum()
    }

    /// Measures the updates alone: the time that a small sweep in memory spends on them, on all
    /// threads.
    fn compute_floor(&self) -> Result<f64> {
        let shape = Shape::new(514, 1026);
        let values = |seed: u64| disk::numbers(seed, shape.elements());
        let field = Arc::new(Matrix::from_vec(shape, values(1))?);
        let coefficient = Arc::new(Matrix::from_vec(shape, values(2))?);
        let coefficients = std::array::from_fn(|_| Arc::clone(&coefficient));
        let iterations = self.args.iterations.min(40);
        let sweep = Sweep::new(Lk23).iterations(iterations).runner(Runner::pool(1));
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let (_, SweepReport { times, .. }) =
                sweep.run(&field, &coefficients, Matrix::zeros(shape, Layout::RowMajor)?)?;
            best = best.min(times.map_or(f64::INFINITY, |times| times.update.as_secs_f64()));
        }
        let points = |shape: Shape| ((shape.rows - 2) * (shape.cols - 2)) as f64;
        let each = best / points(shape) / iterations as f64;
        Ok(each * points(self.shape) * self.args.iterations as f64 / self.threads as f64)
    }

    fn blocked(&self, iterations: u64) -> Result<f64> {
        disk::drop_caches(&self.folder)?;
        let new = syncline_store::NewFile::create(
            &self.folder.join("blocked.npy"),
            Matrix::<f64>::file_bytes(true, self.shape, Layout::RowMajor)?,
        )?;
        let result = Matrix::create(&new, true, self.shape, Layout::RowMajor)?;
        let (field, coefficients) = (self.matrix("za")?, self.coefficients()?);
        let start = Instant::now();
        let sweep = BlockedSweep::of(self.sweep().iterations(iterations));
        sweep.run(&field, &coefficients, result)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Measures the plain loop over the rows that fit in a quarter of the machine's memory; returns
    /// its seconds and the part of the rows.
    fn plain(&self) -> Result<(f64, f64)> {
        let most = syncline_memory::room::left().unwrap_or(1 << 30) / 4;
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
            plain_sweep(
                &Lk23,
                &mut field,
                coefficients.each_ref().map(|c| &c[..]),
                rows,
                self.shape.cols,
            );
        }
        let part = (rows - 2) as f64 / (self.shape.rows - 2) as f64 * few as f64
            / self.args.iterations as f64;
        Ok((start.elapsed().as_secs_f64(), part))
    }

    /// Formats the results as a table.
    fn text(&self, results: &Results<()>) -> String {
        let median = |way: &str| results.median(&(), way);
        let floor = ["disk floor", "compute floor"].into_iter().filter_map(median).reduce(f64::max);
        let streamed = median("streamed");
        let updates =
            ((self.shape.rows - 2) * (self.shape.cols - 2)) as f64 * self.args.iterations as f64;
        let head = format!(
            "Livermore kernel 23, {}, {} iterations, {} of data, {} of memory, {} threads; {} alternating rounds",
            self.shape,
            self.args.iterations,
            Size(6 * (self.shape.elements() * 8) as u64),
            Size(self.args.memory),
            self.threads,
            results.rounds,
        );
        let seconds = |cell: &race::Cell<()>| Some(cell.spread.median);
        let columns: [Column<'_, ()>; 4] = [
            ("ns/element", &|cell| Some(cell.spread.median * 1e9 / updates)),
            ("/ streamed", &|cell| ratio(seconds(cell), streamed)),
            ("/ floor", &|cell| ratio(seconds(cell), floor)),
            ("% run, scaled", &|cell| Some(100.0 * median(&format!("{}: part", cell.way))?)),
        ];
        let table = Table::of("seconds", results.main(), 1.0, |cell| cell.way.clone(), &columns);
        let skipped = results.skipped.iter().map(Skipped::to_string);
        [head].into_iter().chain(skipped).chain([table.to_string()]).collect::<Vec<_>>().join("\n")
    }
}

/// Returns an entry for a way that reports the seconds of the whole, and the part of it that was
/// run.
fn entry<'a>(
    side: Side,
    way: &'static str,
    mut run: impl FnMut() -> Result<(f64, f64)> + 'a,
) -> Entry<'a, Told, ()> {
    Entry::of((), side, way, &["", "part"], move |_| {
        let (seconds, part) = run()?;
        eprintln!("{way:14} {seconds:9.3} s");
        Ok(vec![vec![seconds], vec![part]])
    })
}
