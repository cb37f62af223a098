//! `syncline probe disk`: the speed of a disk under the requests of a sweep.
//!
//! ```text
//! unnamed scratch file ─ rounds: every pattern, direct and mapped in turn ─ fio, if found ─ table
//! ```
//!
//! The store does the measurements ([`syncline_store::probe`]). A signal ends the program at once,
//! and with it the file, which never has a name.

mod fio;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use syncline_common::signals::Signals;
use syncline_common::terminal;
use syncline_common::units::parse_size;
use syncline_store::probe::{Disk, Pattern, Sample, Scratch, Way};

use crate::error::{Error, Result};
use crate::watch;

/// Measures the disk of DIR with a scratch file that leaves nothing behind
///
/// Needs free space for the file, and no privileges.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "syncline probe disk <DIR> [OPTIONS]",
    after_long_help = "\
Examples:
  syncline probe disk /scratch
  syncline probe disk . --quick --json

`syncline help probe` explains the table."
)]
pub(crate) struct ProbeDiskArgs {
    /// A directory on the disk to measure; it must exist
    pub(crate) dir: PathBuf,
    /// The size of the scratch file, at least 8M [default: 1G, with --quick 256M]
    #[arg(long, value_name = "SIZE", value_parser = enough)]
    pub(crate) size: Option<u64>,
    /// Measure fewer rounds on a smaller file
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object, on one line, instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The explanation of the table in `syncline help probe`.
pub(crate) const TABLE: &str = "\
The table, in MiB/s of the requested data; for small pieces also the time per piece:
  read       bands of 32 MiB one after the other, in requests of 8 MiB
  block      blocks that are one piece of the file each (layouts blocked and framed)
  rows       one block out of a row-major file: a piece per row
  row        rows of blocks, one after the other: a frontier that is one piece
  column     a column of a block out of a row-major file: a piece per value
  frame      columns of blocks out of a framed file: frontiers that are one piece again
  write      bands of 32 MiB written over one after the other, until they are on the disk
Two ways:
  direct     O_DIRECT, up to 64 requests in flight, as `run` streams
  mapped     mapped files, as `run` reads and writes in blocks, by one thread
Before each sample the kernel is asked to drop the file from the page cache; the figures are medians of alternating rounds. On tmpfs \
nothing is cold, and nothing is direct. A hypervisor or a storage server may have a cache of its own.

Where fio is installed, it makes the direct requests as well: to the same file, of the same size, with the same \
number in flight. The column beside its figure is the ratio to ours. fio refills its queue where ours \
finishes a band, and reads single blocks of the disk for a column.

The last line has the figures by which `--block auto` models a disk: a piece of n bytes takes \
the time per piece plus n bytes at the rate of long pieces, mapped.";

/// Parses the size of a scratch file.
fn enough(text: &str) -> std::result::Result<u64, String> {
    match parse_size(text)? {
        size if size >= Scratch::LEAST => Ok(size),
        _ => Err("a scratch file has at least 8M".to_owned()),
    }
}

/// The medians of a pattern.
#[derive(Clone, Copy, Debug)]
struct Row {
    pattern: Pattern,
    direct: Option<Sample>,
    mapped: Sample,
    /// The seconds per piece.
    fio: Option<f64>,
}

/// The results of the measurement.
#[derive(Clone, Debug)]
struct Found {
    dir: PathBuf,
    bytes: u64,
    side: usize,
    rounds: usize,
    cold: bool,
    rows: Vec<Row>,
    /// Why there is no direct I/O.
    no_direct: Option<&'static str>,
    /// Why fio was not run.
    no_fio: Option<String>,
    disk: Option<Disk>,
}

/// The effort of a measurement.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: usize,
    /// The time after which no round begins.
    time: Duration,
    /// The time of fio for each pattern.
    fio: Duration,
}

const ALL: Effort =
    Effort { rounds: 5, time: Duration::from_secs(60), fio: Duration::from_millis(1000) };
const QUICK: Effort =
    Effort { rounds: 3, time: Duration::from_secs(5), fio: Duration::from_millis(300) };

/// Measures the disk; returns the text to print.
pub(crate) fn disk(args: &ProbeDiskArgs, signals: &Signals) -> Result<String> {
    let bytes = args.size.unwrap_or(if args.quick { 256 << 20 } else { 1 << 30 });
    let (dir, effort) = (args.dir.clone(), if args.quick { QUICK } else { ALL });
    let bar = terminal::bar("measuring the disk  {elapsed}");
    let found = watch::watch(signals, &bar, |bar| bar.tick(), move || measure(dir, bytes, effort))?;
    match args.json {
        false => Ok(found.to_string()),
        true => serde_json::to_string(&Json::of(&found))
            .map_err(|error| Error::Io { what: "write JSON".to_owned(), source: error.into() }),
    }
}

fn measure(dir: PathBuf, bytes: u64, effort: Effort) -> Result<Found> {
    let mut scratch = Scratch::create(&dir, bytes)?;
    let mut samples: Vec<(Pattern, Way, Sample)> = Vec::new();
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || rounds < effort.rounds && start.elapsed() < effort.time {
        for pattern in Pattern::ALL {
            let mut ways = Way::ALL;
            // The order alternates, so that each way is second equally often.
            if rounds % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                if scratch.lacks(way).is_none() {
                    samples.push((pattern, way, scratch.measure(pattern, way)?));
                }
            }
        }
        rounds += 1;
    }
    let median = |pattern, way| {
        let own = samples.iter().filter(|(p, w, _)| (*p, *w) == (pattern, way));
        Sample::median(own.map(|(_, _, sample)| *sample).collect())
    };
    let no_direct = scratch.lacks(Way::Direct);
    let (mut rows, mut no_fio) =
        (Vec::new(), no_direct.map(|why| format!("there is nothing direct: {why}")));
    for pattern in Pattern::ALL {
        let mut fio = None;
        if no_fio.is_none() {
            match fio::per_piece(&scratch, pattern, effort.fio) {
                Ok(seconds) => fio = Some(seconds),
                Err(why) => no_fio = Some(why),
            }
        }
        let mapped = median(pattern, Way::Mapped).unwrap_or_default();
        rows.push(Row { pattern, direct: median(pattern, Way::Direct), mapped, fio });
    }
    let of = |pattern| median(pattern, Way::Mapped);
    let disk = of(Pattern::Read)
        .zip(of(Pattern::Rows))
        .zip(of(Pattern::Write))
        .map(|((long, short), write)| Disk::explaining(long, short, write.rate()));
    Ok(Found {
        dir,
        bytes: scratch.bytes(),
        side: scratch.block().rows,
        rounds,
        cold: scratch.can_be_cold(),
        rows,
        no_direct,
        no_fio,
        disk,
    })
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Json {
    dir: String,
    bytes: u64,
    block: [usize; 2],
    rounds: usize,
    cold: bool,
    direct_lacks: Option<&'static str>,
    fio_lacks: Option<String>,
    samples: Vec<JsonSample>,
    disk: Option<JsonDisk>,
}

/// A median.
#[derive(Serialize)]
struct JsonSample {
    pattern: &'static str,
    way: &'static str,
    bytes: u64,
    pieces: u64,
    seconds: f64,
    bytes_per_second: f64,
    seconds_per_piece: f64,
}

#[derive(Serialize)]
struct JsonDisk {
    read: f64,
    write: f64,
    piece: f64,
}

impl Json {
    fn of(found: &Found) -> Self {
        let sample = |pattern, way, Sample { bytes, pieces, time }| JsonSample {
            pattern: table::name(pattern),
            way,
            bytes,
            pieces,
            seconds: time.as_secs_f64(),
            bytes_per_second: Sample { bytes, pieces, time }.rate(),
            seconds_per_piece: Sample { bytes, pieces, time }.per_piece(),
        };
        let mut samples = Vec::new();
        for row in &found.rows {
            samples.extend(row.direct.map(|direct| sample(row.pattern, "direct", direct)));
            samples.push(sample(row.pattern, "mapped", row.mapped));
            // Scaled to the bytes of our own sample.
            let Sample { bytes, pieces, .. } = row.mapped;
            let time = |each: f64| Duration::from_secs_f64(each * pieces as f64);
            samples.extend(row.fio.map(|each| {
                sample(row.pattern, "fio", Sample { bytes, pieces, time: time(each) })
            }));
        }
        Self {
            dir: found.dir.display().to_string(),
            bytes: found.bytes,
            block: [found.side; 2],
            rounds: found.rounds,
            cold: found.cold,
            direct_lacks: found.no_direct,
            fio_lacks: found.no_fio.clone(),
            samples,
            disk: found.disk.map(|Disk { read, write, piece }| JsonDisk { read, write, piece }),
        }
    }
}
