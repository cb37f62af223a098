//! `syncline-lab bench trace`: what recording costs.
//!
//! # Method
//! A span is measured in a loop, while a file is being recorded and while nothing is. A streamed
//! sweep is run three times in each round: with a trace, and twice without, in alternating order.
//! What recording costs is the median over all rounds of the time with a trace divided by the mean
//! of the two without; the spread of what the machine does by itself is that of the second run
//! without, divided by the first one.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use syncline_store::{Matrix, Shape};
use syncline_trace::{Activity, finish, span, start};
use syncline_wave::Sweep;
use syncline_wave::kernels::Lk23;
use syncline_wave::monitor::Monitor;
use syncline_wave::target::{Leftovers, Target};

use crate::disk;
use crate::error::{Result, failed};
use crate::race::{self, Entry, Group, Lines, Machine, Options, Pace, Results, Side, Table, Told};
use crate::race::{figure, race};
use crate::stop::Signals;

/// The spans of a measurement.
const SPANS: u64 = 1_000_000;
const NAMES: [&str; 6] = ["za", "zr", "zb", "zu", "zv", "zz"];

/// Measures what recording a trace costs: a span, and a streamed sweep.
///
/// The sweep, Livermore kernel 23, runs with and without a trace in turn, 20 rounds, 5 with
/// --quick.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  syncline-lab bench trace --dir /var/tmp --rounds 30")]
pub(crate) struct BenchTraceArgs {
    #[command(flatten)]
    options: Options,
    /// Folder of the data, which are removed afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Number of rows of the matrices
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = crate::at_least(3))]
    rows: usize,
    /// Number of columns of the matrices
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = crate::at_least(3))]
    cols: usize,
    /// Number of iterations
    #[arg(long, value_name = "N", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Memory of the sweep in MiB
    #[arg(long, value_name = "MIB", default_value_t = 300)]
    memory: u64,
}

/// Runs the measurement; returns the text to print.
pub(crate) fn trace(args: &BenchTraceArgs, signals: &Signals) -> Result<String> {
    let monitor = Arc::<Monitor>::default();
    let (cancelled, own) = (Arc::clone(&monitor), args.clone());
    let work = move |folder: &Path, signals: &Signals| {
        let shape = Shape::new(own.rows, own.cols);
        for (n, name) in NAMES.iter().enumerate() {
            disk::make(&folder.join(format!("{name}.npy")), n, shape)?;
        }
        let results = run(&own, folder, &monitor, signals)?;
        if own.options.json { lines(&results) } else { Ok(text(&own, &results)) }
    };
    race::hold(signals, Some(&args.dir), move || cancelled.cancel(), work)
}

fn run(
    args: &BenchTraceArgs,
    folder: &Path,
    monitor: &Arc<Monitor>,
    signals: &Signals,
) -> Result<Results<&'static str>> {
    let entry = |key, side, way, measure: fn(&Path) -> Result<f64>| {
        Entry::of(key, side, way, &[""], move |_: &mut Told| Ok(vec![vec![measure(folder)?]]))
    };
    let spans = Group::new([
        entry("span", Side::Ours, "recorded", |folder| Ok(recorded(folder, &|| Ok(spans()))?.own)),
        entry("span", Side::Baseline, "not recorded", |_| Ok(spans())),
    ]);
    let sweep = || sweep(args, folder, monitor);
    let whole = |side, way, traced: bool| {
        Entry::of("sweep", side, way, &["", "bytes"], move |_: &mut Told| {
            if !traced {
                return Ok(vec![vec![sweep()?], Vec::new()]);
            }
            let Recorded { whole, bytes, .. } = recorded(folder, &sweep)?;
            Ok(vec![vec![whole], vec![bytes as f64]])
        })
    };
    let sweeps = Group::new([
        whole(Side::Baseline, "off", false),
        whole(Side::Ours, "on", true),
        whole(Side::Baseline, "off again", false),
    ]);
    let usual = if args.options.quick { 5 } else { 20 };
    let pace = Pace::exactly(args.options.rounds.unwrap_or(usual));
    race(&mut Told, signals, &mut [spans, sweeps], pace)
}

/// What a recording took.
struct Recorded {
    /// What the work returned.
    own: f64,
    /// The seconds with the begin and the end of the recording.
    whole: f64,
    bytes: u64,
}

/// Records a trace of some work.
fn recorded(folder: &Path, work: &dyn Fn() -> Result<f64>) -> Result<Recorded> {
    let since = Instant::now();
    start(&folder.join("trace")).map_err(|error| failed("record", error))?;
    let own = work();
    let recorded = finish().map_err(|error| failed("record", error))?;
    let whole = since.elapsed().as_secs_f64();
    Ok(Recorded { own: own?, whole, bytes: recorded.map_or(0, |recorded| recorded.bytes) })
}

/// Returns the seconds of a span, with its part of a loop.
fn spans() -> f64 {
    let since = Instant::now();
    for i in 0..SPANS {
        drop(span(Activity::Section, 0, black_box(i)));
    }
    since.elapsed().as_secs_f64() / SPANS as f64
}

/// Runs the sweep; returns its seconds, from the open files to the result on the disk.
fn sweep(args: &BenchTraceArgs, folder: &Path, monitor: &Arc<Monitor>) -> Result<f64> {
    let matrix = |name: &str| -> Result<Arc<Matrix>> {
        Ok(Arc::new(Matrix::open(&folder.join(format!("{name}.npy")))?))
    };
    let since = Instant::now();
    let [field, coefficients @ ..] = NAMES;
    let mut opened = Vec::new();
    for name in coefficients {
        opened.push(matrix(name)?);
    }
    let coefficients: [Arc<Matrix>; 5] =
        opened.try_into().map_err(|_| "a sweep has five coefficients")?;
    let path = folder.join("out.npy");
    let target = Target::npy(&path).leftovers(Leftovers::Discard);
    let sweep = Sweep::new(Lk23)
        .iterations(args.iterations)
        .memory(args.memory << 20)
        .monitor(Arc::clone(monitor));
    let (pending, _) = sweep.run_to(&matrix(field)?, &coefficients, &target)?;
    pending.commit()?;
    Ok(since.elapsed().as_secs_f64())
}

/// Returns the ratios of all rounds: with a trace to without, and without to without.
fn ratios(results: &Results<&'static str>) -> [Vec<f64>; 2] {
    let times = |way: &str| -> Vec<f64> {
        let runs = results.runs.iter().filter(|run| run.key == "sweep" && run.way == way);
        runs.map(|run| run.values[0]).collect()
    };
    let (off, on, again) = (times("off"), times("on"), times("off again"));
    let both = off.iter().zip(&again);
    [
        on.iter().zip(both.clone()).map(|(on, (off, again))| 2.0 * on / (off + again)).collect(),
        both.map(|(off, again)| again / off).collect(),
    ]
}

/// Returns the quartiles of some values.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() * part / 4).copied().unwrap_or(f64::NAN);
    [at(1), at(2), at(3)]
}

fn lines(results: &Results<&'static str>) -> Result<String> {
    let mut lines = Lines::new("");
    for race::Run { key, way, round, values, .. } in &results.runs {
        let bytes = values.get(1).copied().filter(|bytes| bytes.is_finite());
        let run = json!({ "what": key, "way": way, "round": round, "seconds": values[0], "bytes": bytes });
        lines.push("", &run)?;
    }
    Ok(lines.text())
}

fn text(args: &BenchTraceArgs, results: &Results<&'static str>) -> String {
    let span = |way: &str| results.median(&"span", way).map_or(f64::NAN, |time| time * 1e9);
    let bytes = results.runs.iter().filter_map(|run| run.values.get(1).copied());
    let bytes = bytes.filter(|bytes| bytes.is_finite()).fold(0.0, f64::max);
    let head = format!(
        "Livermore kernel 23, streamed, {} x {}, {} iterations, {} MiB; {} alternating rounds",
        args.rows, args.cols, args.iterations, args.memory, results.rounds
    );
    let mut table = Table::new(head, ["lower quartile", "median", "upper quartile"]);
    let [on, off] = ratios(results).map(quartiles);
    table.row("with a trace / without", on.map(figure));
    table.row("without / without", off.map(figure));
    let machine = Machine::here(std::thread::available_parallelism().map_or(1, usize::from));
    format!(
        "{}\n{table}\nthe trace has {:.0} kB; a span takes {:.1} ns while it is recorded, and {:.1} ns \
         while nothing is",
        machine.line(),
        bytes / 1e3,
        span("recorded"),
        span("not recorded"),
    )
}
