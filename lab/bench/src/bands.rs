//! `syncline-lab bench bands`: runs the overlay of a sweep on a team without its arithmetic, for
//! several heights of bands, against the model of the plan.
//!
//! # Contract
//! The tasks, their accesses, the slots and the sizes of the values at the cuts are those of a
//! sweep of the product ([`TeamSweep`]), for members of one thread on hosts of their own. A piece
//! of a band sleeps instead of computing, so members that share a core do not slow one another. No
//! data are read or written, and no disk blocks belong to two members.
//!
//! # The time of a piece
//! A band of the whole matrix takes `update-ns * columns * rows * depth / bands`, whatever it
//! updates, and a piece the part of it that its columns usually have of the updates. A member
//! computes one piece at a time:
//!
//! ```text
//! begin   first and last piece   the call of its task
//!         other pieces           the call, less the time by which the sleep before was too long
//! end     begin + time           the task returns when its sleep is over
//! ```
//!
//! The first and the last piece exchange values, so the sleep that ends too late counts there.
//!
//! # The model
//! With messages of `E` eastward and `W` westward, the next band follows after `max(band, E + W + 2
//! piece)`, and the last member begins after `(members - 1) (band + E)`. A message takes the delay
//! of the network, or the measured latency and time for its bytes. Band and piece are those of a
//! member with equal shares. Efficiency is the mean work of the members, divided by the time from
//! the begin of the first piece to the end of the last one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use syncline_fabric::transport::in_memory::Conditions;
use syncline_fabric::{Member, Team};
use syncline_overlay::access::{Read, Write};
use syncline_overlay::run::ReadyOrder;
use syncline_overlay::{Initial, Location, Overlay, Runner, Stop};
use syncline_wave::lanes::Lanes;
use syncline_wave::unstable::{Link, TeamBands, TeamSweep};

use crate::error::{Result, failed};
use crate::race::{Lines, Machine, Options, Spread, Table, figure};
use crate::stop::Signals;

/// Runs the overlay of a sweep on a team without arithmetic, for several heights of bands.
///
/// Started by an MPI launcher with one process on each host, or with --hosts by threads that
/// exchange messages in memory. For each height it prints the time of the model and the measured
/// one. The height that a run would choose is marked. Each height is run 5 times, 3 times with
/// --quick.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline-lab bench bands [OPTIONS]",
    after_long_help = "\
Examples:
  syncline-lab bench bands --hosts 4 --delay-us 200
  testbed/testbed run --mpi openmpi syncline-lab bench bands --delay-us 200"
)]
pub(crate) struct BenchBandsArgs {
    #[command(flatten)]
    options: Options,
    /// The number of hosts that are threads of this process, which exchange messages in memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=64))]
    hosts: Option<u16>,
    /// Delay of a message between hosts, for the model
    #[arg(long, value_name = "US", default_value_t = 200)]
    delay_us: u32,
    /// Number of columns of the matrix
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = crate::at_least(64))]
    cols: usize,
    /// Number of rows of the matrix
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = crate::at_least(64))]
    rows: usize,
    /// Number of iterations of the pass
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    depth: u64,
    /// Time of an update of a value [default: what the plan expects, which depends on the height]
    #[arg(long, value_name = "NS")]
    update_ns: Option<f64>,
    /// Values of a vector: 4 or 8
    #[arg(long, value_name = "N", default_value = "4", value_parser = ["4", "8"])]
    width: String,
    /// Rows of a band
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = crate::at_least(16))]
    #[arg(default_value = "16,32,64,128,256,512")]
    heights: Vec<usize>,
}

/// The locations at a cut, for each slot.
type Values = Vec<Vec<Location<[f64]>>>;
const EAST: usize = 0;
const WEST: usize = 1;

/// The results for one height.
#[derive(Debug, Serialize)]
struct Cell {
    rows: usize,
    bands: usize,
    slots: usize,
    /// The pieces of the member that has the fewest.
    pieces: usize,
    /// The bytes that cross a cut eastward, and westward, in a band.
    bytes: [usize; 2],
    /// The time of an update, and the mean work of a member in a band, and in all.
    update_ns: f64,
    band_ms: f64,
    work_ms: f64,
    /// The time of the model with the delay of the network, and with the measured link; that of
    /// the plan, with its own time of an update.
    model_ms: f64,
    model_measured_ms: f64,
    plan_ms: f64,
    /// The measured times.
    ms: Spread,
    /// The messages of all members in a run.
    messages: u64,
    /// The mean time by which sleeps were too long.
    late_us: f64,
    /// The greatest mean work of a member, divided by the mean work of all.
    imbalance: f64,
}

/// Runs the measurement; returns the text to print, which is empty in most processes.
pub(crate) fn bands(args: &BenchBandsArgs, signals: &Signals) -> Result<String> {
    let member = |me: &mut Member| session(me, args).map_err(|why| why.to_string());
    let results = match args.hosts {
        Some(hosts) => {
            let latency = Duration::from_micros(args.delay_us.into());
            let conditions = Conditions { latency, ..Conditions::default() };
            Team::hosts(hosts.into()).conditions(conditions).quiet().run(member)
        }
        None => Team::run(member),
    };
    // After a signal, the signal is the reason why the team has ended.
    signals.check()?;
    let texts = results?.into_iter().collect::<Result<Vec<_>, _>>();
    Ok(texts.map_err(|why| failed("measure", why))?.concat())
}

/// Runs one member's part; the first member returns the text to print.
fn session(me: &mut Member, args: &BenchBandsArgs) -> Result<String> {
    let members = me.size();
    if members == 1 || me.hosts().count() != members {
        let why = "start one process of one thread on each of several hosts, or give --hosts";
        return Err(why.into());
    }
    let lanes = if args.width == "8" { Lanes::Avx512 } else { Lanes::Avx2 };
    let delay = Duration::from_micros(args.delay_us.into());
    let BenchBandsArgs { rows, cols, depth, update_ns, .. } = *args;
    let link = TeamSweep::link(me).map_err(|why| failed("time a message", why))?;
    let sweep = TeamSweep { rows, cols, depth, lanes, members, link, update_ns };
    let planned = |why| failed("plan a sweep", why);
    let heights = args.heights.iter().map(|&rows| sweep.bands(rows).map_err(planned));
    let (heights, chosen) =
        (heights.collect::<Result<Vec<_>>>()?, sweep.chosen().map_err(planned)?);
    let rounds = args.options.rounds.unwrap_or(if args.options.quick { 3 } else { 5 });
    let work = |bands: &TeamBands| bands.update_ns * (rows * cols) as f64 * depth as f64;
    let mut samples: Vec<Vec<Sample>> = heights.iter().map(|_| Vec::new()).collect();
    // The first round is not counted.
    for round in 0..=rounds {
        for (bands, samples) in heights.iter().zip(&mut samples) {
            let sample = run(me, bands, work(bands) / bands.bands as f64)?;
            samples.extend((round > 0).then_some(sample));
        }
    }
    let cell = |(bands, samples): (&TeamBands, Vec<Sample>)| -> Result<Cell> {
        let pieces = bands.parts.iter().map(Vec::len).min().unwrap_or(1);
        let work = work(bands);
        let band = work / bands.bands as f64 / members as f64;
        let most = bands.crossing.iter().copied().reduce(|a, b| [a[0].max(b[0]), a[1].max(b[1])]);
        let bytes = most.unwrap_or_default().map(|values| values * size_of::<f64>());
        let model = |link: Link| {
            let ways = bytes.map(|b| link.latency.as_nanos() as f64 + b as f64 * link.byte_ns);
            let period = band.max(ways.iter().sum::<f64>() + 2.0 * band / pieces as f64);
            (bands.bands as f64 * period + (members - 1) as f64 * (band + ways[0])) / 1e6
        };
        let mean =
            |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        let parts = bands.parts.iter().map(|parts| parts.iter().sum::<f64>());
        let times = samples.iter().map(|sample| sample.ns / 1e6).collect();
        Ok(Cell {
            rows: bands.rows,
            bands: bands.bands,
            slots: bands.slots,
            pieces,
            bytes,
            update_ns: bands.update_ns,
            band_ms: band / 1e6,
            work_ms: work / members as f64 / 1e6,
            model_ms: model(Link { latency: delay, byte_ns: 0.0 }),
            model_measured_ms: model(link),
            plan_ms: bands.expected_ns / 1e6,
            ms: Spread::of(times).ok_or("nothing was measured")?,
            messages: samples.first().map_or(0, |sample| sample.messages),
            late_us: mean(|sample| sample.late_ns) / 1e3,
            imbalance: parts.fold(0.0, f64::max) * members as f64,
        })
    };
    let cells = heights.iter().zip(samples).map(cell).collect::<Result<Vec<_>>>()?;
    Ok(match me.rank() {
        0 => report(args, &sweep, chosen, &cells)?,
        _ => String::new(),
    })
}

/// The processor of a member, and the times of its run.
#[derive(Default)]
struct Processor(Mutex<Times>);

#[derive(Clone, Copy, Default)]
struct Times {
    /// The begin of the first piece, and the end of the last one.
    begun: Option<Instant>,
    end: Option<Instant>,
    /// The time by which the last sleep was too long; the sum of these times, and their number.
    late: Duration,
    all_late: Duration,
    pieces: u32,
}

impl Processor {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for the time of a piece. If another piece has the processor, it comes first.
    fn piece(&self, time: Duration, exchanges: bool) {
        let now = Instant::now();
        let end = {
            let mut times = self.times();
            let call = if exchanges { now } else { now - times.late };
            let begin = times.end.map_or(now, |end| end.max(call));
            times.begun.get_or_insert(begin);
            *times.end.insert(begin + time)
        };
        // The sleep ends on time, and not up to 50 microseconds later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        sleep(end.saturating_duration_since(now));
        let late = end.elapsed();
        let mut times = self.times();
        times.all_late += late;
        times.pieces += 1;
        if times.end == Some(end) {
            times.late = late;
        }
    }
}

/// The result of one run.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ns: f64,
    messages: u64,
    late_ns: f64,
}

/// The locations of one member, each for each slot; those of the cells for each piece.
struct Places {
    panels: Vec<Location<()>>,
    outs: Vec<Location<()>>,
    cells: Vec<Vec<Location<()>>>,
    reader: Location<()>,
    writer: Location<()>,
}

impl Places {
    fn new(member: usize, pieces: usize, slots: usize) -> Self {
        let one = |what: &str| Location::new(format!("{what} of {member}"), ());
        let some = |what: String| (0..slots).map(|r| one(&format!("{what}, {r},"))).collect();
        Places {
            panels: some("panel".to_owned()),
            outs: some("rows".to_owned()),
            cells: (0..pieces).map(|c| some(format!("cell {c}"))).collect(),
            reader: one("reader"),
            writer: one("writer"),
        }
    }
}

/// Runs all bands; `band_ns` is the work of a band of the whole matrix. All members get the same
/// result.
fn run(me: &mut Member, bands: &TeamBands, band_ns: f64) -> Result<Sample> {
    let (members, slots, processor) = (me.size(), bands.slots, &Processor::default());
    let values = |way: usize| -> Values {
        let name = ["east", "west"][way];
        let len = |cut: usize| bands.crossing[cut][way].max(1);
        let at = |cut, r| Location::absent(format!("values {name} {cut}, {r}"), len(cut));
        (0..members - 1).map(|cut| (0..slots).map(|r| at(cut, r)).collect()).collect()
    };
    let [eastward, westward] = [values(EAST), values(WEST)];
    let places = bands.parts.iter().enumerate();
    let places = places.map(|(member, parts)| Places::new(member, parts.len(), slots));
    let places: Vec<Places> = places.collect();
    let mut overlay = Overlay::new();
    for (r, (m, own)) in (0..slots).flat_map(|r| places.iter().enumerate().map(move |m| (r, m))) {
        let before = (r + slots - 1) % slots;
        let access = (own.panels[r].write(), own.reader.write());
        let task = overlay.task(format!("read {r} of {m}"), access, |_, _| ());
        overlay.place(task, m);
        let pieces = own.cells.len();
        for c in 0..pieces {
            let west = m.checked_sub(1).filter(|_| c == 0);
            let east = Some(m).filter(|&m| c + 1 == pieces && m + 1 < members);
            let imports: [Option<Read<[f64]>>; 2] = [
                west.map(|cut| eastward[cut][r].read()),
                east.map(|cut| westward[cut][before].read()),
            ];
            let exports: [Option<Write<[f64]>>; 2] = [
                west.map(|cut| westward[cut][r].write()),
                east.map(|cut| eastward[cut][r].write()),
            ];
            let above = own.cells[(c + 1).min(pieces - 1)][before].read();
            let rest = (own.outs[r].write(), own.panels[r].read(), own.cells[c][r].write(), above);
            let time = Duration::from_nanos((band_ns * bands.parts[m][c]) as u64);
            let exchanges = west.is_some() || east.is_some();
            let (name, access) = (format!("wave {r}, {c} of {m}"), (imports, exports, rest));
            let task = overlay.task(name, access, move |(imports, mut exports, _), step| {
                let band = step.iteration() as usize * slots + r;
                if band >= bands.bands {
                    return Ok(());
                }
                // The values from the east are those of the band above.
                for (values, band) in imports.iter().zip([Some(band), band.checked_sub(1)]) {
                    if let (Some(values), Some(band)) = (values, band)
                        && [values.first(), values.last()] != [Some(&(band as f64)); 2]
                    {
                        return Err(format!("values of band {}, not of {band}", values[0]));
                    }
                }
                processor.piece(time, exchanges);
                for values in exports.iter_mut().flatten() {
                    values[0] = band as f64;
                    values[values.len() - 1] = band as f64;
                }
                Ok(())
            });
            overlay.place(task, m);
        }
        let access = (own.outs[r].write(), own.writer.write());
        let task = overlay.task(format!("write {r} of {m}"), access, |_, _| ());
        overlay.place(task, m);
    }
    let mut overlay = overlay.check(Initial::Program).map_err(|why| failed("run bands", why))?;
    // As in a sweep, where some workers wait for the disk.
    let runner = Runner::Pool { workers: 1 + 2 * slots, order: ReadyOrder::DepthFirst };
    me.gather(0)?;
    // The same moment in all members, but for the time of a message.
    let zero = Instant::now();
    let report = overlay.run_on(me, runner, Stop::after(bands.bands.div_ceil(slots) as u64));
    let report = report.map_err(|why| failed("run bands", why))?;
    drop(overlay);
    let Times { begun, end, all_late, pieces, .. } = *processor.times();
    let since = |at: Option<Instant>| at.map_or(0, |at| (at - zero).as_nanos() as u64);
    let begun = me.gather(since(begun))?.into_iter().min().unwrap_or(0);
    let end = me.gather(since(end))?.into_iter().max().unwrap_or(0);
    let messages = me.gather(report.messages + report.room_messages)?.into_iter().sum();
    let late = me.gather((all_late / pieces.max(1)).as_nanos() as u64)?;
    let late_ns = late.iter().sum::<u64>() as f64 / members as f64;
    Ok(Sample { ns: end.saturating_sub(begun) as f64, messages, late_ns })
}

/// Returns the text to print.
fn report(
    args: &BenchBandsArgs,
    sweep: &TeamSweep,
    chosen: usize,
    cells: &[Cell],
) -> Result<String> {
    let machine = Machine::here(std::thread::available_parallelism().map_or(1, usize::from));
    let TeamSweep { rows, cols, depth, members, .. } = *sweep;
    let (latency_us, delay_us) = (sweep.link.latency.as_nanos() as f64 / 1e3, args.delay_us);
    let byte_ns = sweep.link.byte_ns;
    let width = sweep.width();
    if args.options.json {
        let mut lines = Lines::new("record");
        let team = serde_json::json!({ "machine": machine, "hosts": members, "rows": rows,
            "cols": cols, "depth": depth, "width": width, "update_ns": args.update_ns,
            "delay_us": delay_us, "latency_us": latency_us, "byte_ns": byte_ns,
            "chosen": chosen });
        lines.push("team", &team)?;
        lines.all("cell", cells)?;
        return Ok(lines.text());
    }
    let machine = machine.line();
    let head = format!(
        "{machine}; {members} hosts, {rows} x {cols}, {depth} iterations, vectors of {width}; delay \
         {delay_us} us, measured {latency_us:.0} us and {byte_ns:.1} ns for each byte"
    );
    let columns = ["slots", "pieces", "ns", "band", "plan", "model", "measured"];
    let columns = columns.into_iter().chain(["efficiency", "of model", "late, us"]);
    let mut table = Table::new("rows of a band; ms", columns);
    for cell in cells {
        let median = cell.ms.median;
        let whole = [cell.slots.to_string(), cell.pieces.to_string()];
        let times = [cell.update_ns, cell.band_ms, cell.plan_ms, cell.model_ms, median];
        let ratios = [cell.work_ms / median, cell.model_ms / median, cell.late_us];
        let mark = if cell.rows == chosen { " *" } else { "" };
        let figures = times.into_iter().chain(ratios).map(figure);
        table.row(format!("{}{mark}", cell.rows), whole.into_iter().chain(figures));
    }
    let least = cells.iter().map(|cell| cell.ms.median).fold(f64::INFINITY, f64::min);
    let part = cells.iter().find(|cell| cell.rows == chosen).map(|cell| least / cell.ms.median);
    let part = part.map_or("not measured".to_owned(), |part| format!("{:.1} %", 100.0 * part));
    Ok(format!("{head}\n{table}\n* {chosen} rows, which a run would choose; of the best: {part}"))
}
