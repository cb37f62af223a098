//! The race of all schemes, round by round, on the same data.
//!
//! A run begins with cold caches and ends when the result is on the disk. The first results with
//! the same number of iterations must have the same bits.

use std::collections::HashMap;
use std::time::Instant;

use crate::schemes::{Arrays, Exchange, Job, Scheme};
use serde::{Deserialize, Serialize};
use syncline_blocks::plan::io_model;
use syncline_store::{Element, Grid, Matrix, checksum::Checksum};

use super::data::{Data, Folder, Inputs};
use super::report::label;
use crate::error::{Result, failed};
use crate::race::{Entry, Group, Pace, Side, Stage, race};
use crate::stop::Signals;

/// A scheme in the race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    Sequential,
    ThreeBuffer,
    RingLate,
    Ring,
    RingTwoWaves,
    BlocksOneByOne,
    Blocks,
    Streamed,
}

impl Name {
    fn scheme(self, processors: usize) -> Scheme {
        let ring = |exchange| Scheme::Ring { processors, exchange };
        match self {
            Name::Sequential => Scheme::Sequential,
            Name::ThreeBuffer => Scheme::ThreeBuffer { processors },
            Name::RingLate => ring(Exchange::Late),
            Name::Ring => ring(Exchange::Early { waves: 1 }),
            Name::RingTwoWaves => ring(Exchange::Early { waves: 2 }),
            Name::BlocksOneByOne => Scheme::Blocks { chained: false },
            Name::Blocks => Scheme::Blocks { chained: true },
            Name::Streamed => Scheme::Streamed,
        }
    }
}

/// A scheme and its data.
pub(crate) type Way = (Name, Data);

/// The lines of Fig. 7(a) that have blocks.
pub(crate) const SINGLE: [Way; 6] = [
    (Name::Ring, Data::RowMajor),
    (Name::ThreeBuffer, Data::RowMajor),
    (Name::Ring, Data::Blocked),
    (Name::Ring, Data::Framed),
    (Name::Blocks, Data::Blocked),
    (Name::Blocks, Data::Framed),
];

/// The lines of Fig. 7(b) that have blocks.
pub(crate) const CHAINED: [Way; 10] = [
    (Name::RingLate, Data::Blocked),
    (Name::Ring, Data::Blocked),
    (Name::RingTwoWaves, Data::Blocked),
    (Name::BlocksOneByOne, Data::Blocked),
    (Name::Blocks, Data::Blocked),
    (Name::RingLate, Data::Framed),
    (Name::Ring, Data::Framed),
    (Name::RingTwoWaves, Data::Framed),
    (Name::BlocksOneByOne, Data::Framed),
    (Name::Blocks, Data::Framed),
];

/// The lines without blocks, in both figures.
pub(crate) const WHOLE: [Way; 2] =
    [(Name::Sequential, Data::RowMajor), (Name::Streamed, Data::RowMajor)];

/// A printed run. Bytes are the sums over all its iterations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) scheme: Name,
    pub(crate) data: Data,
    pub(crate) block: Option<usize>,
    pub(crate) iterations: u64,
    pub(crate) round: usize,
    pub(crate) seconds: f64,
    /// The process's disk I/O, as counted by the kernel.
    pub(crate) disk_read: u64,
    pub(crate) disk_written: u64,
    /// The bytes that the scheme requested.
    pub(crate) asked_read: u64,
    pub(crate) asked_written: u64,
    /// The bytes that the papers' model predicts for blocks.
    pub(crate) model_read: Option<u64>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) processors: usize,
    pub(crate) memory: u64,
    /// How the page cache was emptied.
    pub(crate) caches: String,
}

/// A race and its options.
#[derive(Debug)]
pub(crate) struct Race {
    pub(crate) folder: Folder,
    pub(crate) blocks: Vec<usize>,
    pub(crate) iterations: u64,
    pub(crate) memory: u64,
    pub(crate) rounds: usize,
    pub(crate) processors: usize,
    /// Whether each run is printed as soon as it has ended.
    pub(crate) json: bool,
}

/// A cell of a table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    way: Way,
    block: Option<usize>,
    iterations: u64,
}

/// The runs so far.
#[derive(Debug, Default)]
struct Log {
    round: usize,
    runs: Vec<Run>,
    /// By number of iterations: the checksum of the first result, and the run that produced it.
    sums: HashMap<u64, (u64, String)>,
}

impl Stage for Log {
    fn round(&mut self, round: usize) -> Result<()> {
        self.round = round;
        Ok(())
    }
}

impl Race {
    /// Runs the race.
    pub(crate) fn run(&self, signals: &Signals) -> Result<Vec<Run>> {
        let mut log = Log::default();
        let group = |ways: &[Way], block, iterations| {
            Group::new(ways.iter().map(|&way| {
                let cell = Cell { way, block, iterations };
                let what = label(way) + &block.map(|side| format!(", {side}")).unwrap_or_default();
                Entry::of((), Side::Ours, what.clone(), &[""], move |log: &mut Log| {
                    let seconds = self.cell(cell, &what, log)?;
                    Ok(Vec::from_iter(seconds.map(|seconds| vec![seconds])))
                })
            }))
        };
        let several = self.iterations;
        let mut groups = vec![group(&WHOLE, None, 1), group(&WHOLE, None, several)];
        for block in self.blocks.iter().copied().map(Some) {
            groups.extend([group(&SINGLE, block, 1), group(&CHAINED, block, several)]);
        }
        race(&mut log, signals, &mut groups, Pace::exactly(self.rounds).warm_up(false))?;
        drop(groups);
        Ok(log.runs)
    }

    /// Returns the seconds of a run of a cell, unless its blocks do not fit in the memory.
    fn cell(&self, cell: Cell, what: &str, log: &mut Log) -> Result<Option<f64>> {
        let Cell { way: (name, data), block: side, iterations } = cell;
        let block = self.folder.block(side.unwrap_or(1));
        let layout = data.layout(block);
        let Inputs { field, coefficients } = self.folder.open(data, side.unwrap_or(1))?;
        let (file, result) = self.folder.result(layout)?;
        let caches = self.folder.drop_caches()?.to_owned();
        let job =
            Job { scheme: name.scheme(self.processors), block, iterations, memory: self.memory };
        let before = disk()?;
        let start = Instant::now();
        let (result, report) =
            match job.run(&Arrays { field: &field, coefficients: &coefficients }, result) {
                Err(error @ syncline_blocks::Error::Memory { .. }) => {
                    eprintln!("skipped: {what}: {error}");
                    return Ok(None);
                }
                done => done?,
            };
        file.file().sync_data().map_err(|error| failed("write the result to disk", error))?;
        let seconds = start.elapsed().as_secs_f64();
        let after = disk()?;
        let (round, each) = (log.round, seconds / iterations as f64);
        eprintln!("round {round}: {each:7.3} s/it  {what}, {iterations} iteration(s)");
        if round == 0 {
            let sum = checksum(&result)?;
            let (first, one) = log.sums.entry(iterations).or_insert_with(|| (sum, what.to_owned()));
            if sum != *first {
                return Err(
                    format!("{one} and {what} differ after {iterations} iteration(s)").into()
                );
            }
        }
        let model = side
            .map(|_| io_model(layout, Grid::new(self.folder.shape, block), 5, f64::TYPE))
            .transpose()?;
        let run = Run {
            scheme: name,
            data,
            block: side,
            iterations,
            round,
            seconds,
            disk_read: after.0 - before.0,
            disk_written: after.1 - before.1,
            asked_read: report.read,
            asked_written: report.written,
            model_read: model.map(|m| m.read * iterations),
            rows: self.folder.shape.rows,
            cols: self.folder.shape.cols,
            processors: self.processors,
            memory: self.memory,
            caches,
        };
        if self.json {
            super::print(&format!("{}\n", serde_json::to_string(&run)?))?;
        }
        log.runs.push(run);
        Ok(Some(seconds))
    }
}

/// Returns the bytes that this process has caused to be read from and written to disks.
pub(crate) fn disk() -> Result<(u64, u64)> {
    const IO: &str = "/proc/self/io";
    let text = std::fs::read_to_string(IO).map_err(|error| failed(&format!("read {IO}"), error))?;
    let number = |name: &str| -> Result<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Ok(value.ok_or_else(|| format!("{IO} has no {name}"))?)
    };
    Ok((number("read_bytes:")?, number("write_bytes:")?))
}

/// Returns the checksum of all values, row by row, for any layout.
fn checksum(matrix: &Matrix) -> Result<u64> {
    let (rows, cols) = (matrix.shape().rows, matrix.shape().cols);
    let band = (8_usize << 20).div_ceil(cols * size_of::<f64>()).min(rows);
    let mut values = vec![0.0_f64; band * cols];
    let mut bytes = Vec::with_capacity(band * cols * size_of::<f64>());
    let mut sum = Checksum::new();
    for row in (0..rows).step_by(band) {
        let end = rows.min(row + band);
        let values = &mut values[..(end - row) * cols];
        matrix.read_rows(row..end, values)?;
        bytes.clear();
        values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        sum.update(&bytes);
    }
    Ok(sum.value())
}
