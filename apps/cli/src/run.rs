//! `syncline run`: the sweep, from directory to output.
//!
//! ```text
//! open inputs ─ choose output ─ set disk aside for it (and for --verify) ─ divide the memory
//!    ─ sweep ─ peak memory taken ─ verify ─ data to disk ─ the output gets its name ─ summary
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use indicatif::ProgressBar;
use syncline_store::{DataDir, Layout, Matrix, NewFile};
use syncline_wave::{Lk23, Monitor, Plan, PointKernel, Runner, Sor, Sweep};

use crate::args::{Kernel, RunArgs, RunnerKind};
use crate::budget::Bound;
use crate::error::{Error, Result};
use crate::output::{self, LAYOUT, Output};
use crate::summary::{Measured, Summary, interior};
use crate::system;
use crate::verify::Verification;
use crate::watch::{self, Signals};

/// The over-relaxation when none is given.
const OMEGA: f64 = 1.5;

/// The progress bar.
pub(crate) const BAR: &str = "{prefix} [{bar:30}] {percent:>3} %  {msg}  ETA {eta}";

/// Runs a sweep; returns what to print.
pub(crate) fn run(args: &RunArgs, signals: &Signals) -> Result<String> {
    if args.omega.is_some() && args.kernel != Kernel::Sor {
        return Err(Error::Usage("--omega is for the kernel sor only".to_owned()));
    }
    let sor = match args.kernel {
        Kernel::Sor => Sor::new(args.omega.unwrap_or(OMEGA))?,
        _ => Sor::gauss_seidel(),
    };
    let dir = DataDir::open(&args.dir)?;
    let summary = match args.kernel {
        Kernel::Lk23 => Job::open(args, dir, "za", Lk23::COEFFICIENTS)?.run(Lk23, signals),
        _ if dir.names().iter().any(|name| name == "f") => {
            Job::open(args, dir, "u", ["f"])?.run::<Sor>(sor, signals)
        }
        _ => Job::open(args, dir, "u", [])?.run::<Sor>(sor, signals),
    }?;
    match args.json {
        false => Ok(summary.to_string()),
        true => serde_json::to_string(&summary)
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() }),
    }
}

/// A sweep over the matrices of a directory.
struct Job<'a, const N: usize> {
    args: &'a RunArgs,
    dir: DataDir,
    names: (&'static str, [&'static str; N]),
    matrices: Matrices<N>,
    output: Output,
    layout: Layout,
}

/// The field and the coefficients.
type Matrices<const N: usize> = (Arc<Matrix>, [Arc<Matrix>; N]);

/// Opens the matrices `names`, without mapping anything.
fn open<const N: usize>(dir: &DataDir, names: (&str, [&str; N])) -> Result<Matrices<N>> {
    let field = Arc::new(dir.matrix(names.0)?);
    let mut coefficients = [const { None }; N];
    for (slot, name) in coefficients.iter_mut().zip(names.1) {
        *slot = Some(Arc::new(dir.matrix(name)?));
    }
    // Every slot was filled; the field stands for none.
    Ok((Arc::clone(&field), coefficients.map(|slot| slot.unwrap_or_else(|| Arc::clone(&field)))))
}

impl<'a, const N: usize> Job<'a, N> {
    fn open(
        args: &'a RunArgs,
        dir: DataDir,
        field: &'static str,
        coefficients: [&'static str; N],
    ) -> Result<Self> {
        let names = (field, coefficients);
        let matrices = open(&dir, names)?;
        let mut inputs: Vec<PathBuf> = [field].into_iter().chain(coefficients).map(|n| dir.file(n)).collect();
        inputs.extend(dir.is_raw().then(|| dir.path().join(LAYOUT)));
        let output = Output::choose(args.output.as_deref(), &dir, field, &inputs)?;
        let layout = if output.npy { Layout::RowMajor } else { matrices.0.layout() };
        Ok(Self { args, dir, names, matrices, output, layout })
    }

    fn run<K>(self, kernel: K, signals: &Signals) -> Result<Summary>
    where
        K: PointKernel<N> + Copy + 'static,
    {
        let (field, coefficients) = &self.matrices;
        let shape = field.shape();
        let new = NewFile::create(
            &self.output.path,
            Matrix::<f64>::file_bytes(self.output.npy, shape, self.layout)?,
        )?;
        let result = Matrix::create(&new, self.output.npy, shape, self.layout)?;
        let order = self.args.order.into();
        let room =
            self.args.verify.then(|| Verification::reserve(&self.output.path, shape, order)).transpose()?;

        let monitor = Arc::new(Monitor::new());
        let bound = Bound::new(self.args.memory);
        let threads = self.args.runner == RunnerKind::Threads;
        let (sweep, plan) =
            bound.for_sweep(&self.sweep(kernel, &monitor), threads, field, coefficients, &result)?;

        let bar = watch::bar(BAR).with_prefix("starting");
        let mut progress = Progress { monitor, plan, start: None };
        let (field, coefficients) = self.matrices;
        let disk = system::disk();
        let start = Instant::now();
        let (result, report) = watch::watch(
            signals,
            &bar,
            |bar| progress.show(bar),
            move || Ok(sweep.run(&field, &coefficients, result)?),
        )?;
        let time = start.elapsed();
        let peak_rss = system::peak_resident();
        let moved =
            |(old, new): ((u64, u64), (u64, u64))| (new.0.saturating_sub(old.0), new.1.saturating_sub(old.1));
        let disk = disk.zip(system::disk()).map(moved);
        // The inputs went with the sweep: so nothing is held in memory any more.
        drop(result);
        let verified = match room {
            None => None,
            Some(room) => {
                let matrices = open(&self.dir, self.names)?;
                let result = Matrix::create(&new, self.output.npy, shape, self.layout)?;
                Some(room.compare(kernel, matrices, result, &report, bound, signals)?)
            }
        };
        let start = Instant::now();
        output::sync(std::slice::from_ref(&new), signals)?;
        new.commit()?;
        let sync_time = start.elapsed();
        let measured = Measured { time, sync_time, peak_rss, disk, bound, verified };
        Ok(Summary::new(self.args, self.layout, &self.output, &report, &measured))
    }

    fn sweep<K>(&self, kernel: K, monitor: &Arc<Monitor>) -> Sweep<K> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let runner = match self.args.runner {
            RunnerKind::Pool => Runner::pool(self.args.threads.map_or_else(cores, |n| n as usize)),
            RunnerKind::Threads => Runner::Threads,
        };
        let mut sweep = Sweep::new(kernel)
            .iterations(self.args.iterations)
            .order(self.args.order.into())
            .runner(runner)
            .monitor(Arc::clone(monitor));
        if let Some(tolerance) = self.args.until {
            sweep = sweep.until(tolerance);
        }
        match self.args.block {
            Some(block) => sweep.block(block),
            None => sweep,
        }
    }
}

/// What the bar shows.
struct Progress {
    monitor: Arc<Monitor>,
    plan: Plan,
    /// When the first block was seen to be under way.
    start: Option<Instant>,
}

impl Progress {
    fn show(&mut self, bar: &ProgressBar) {
        let (done, total) = (self.monitor.done(), self.monitor.total());
        if total == 0 {
            // Matrices that fit are being read.
            bar.tick();
            return;
        }
        let blocks = (self.plan.grid.len() as u64).max(1);
        let start = *self.start.get_or_insert_with(|| {
            bar.set_length(total);
            bar.reset_eta();
            Instant::now()
        });
        bar.set_prefix(format!("iteration {}/{}", (done / blocks + 1).min(total / blocks), total / blocks));
        let points = done as f64 / blocks as f64 * interior(self.plan.grid.shape()) as f64;
        if points > 0.0 {
            bar.set_message(format!("{:.2} ns/element", start.elapsed().as_secs_f64() * 1e9 / points));
        }
        bar.set_position(done);
    }
}
