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
use syncline_store::probe::{Disk, Pattern, Sample, Scratch, Way};

use crate::args::ProbeDiskArgs;
use crate::error::{Error, Result};
use crate::watch;

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
