//! All schemes in turn, round by round, on the same data.
//!
//! A run begins with cold caches and ends when the result is on the disk. In the first round the results of
//! as many iterations must have the same bits.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use syncline_schemes::{Arrays, Exchange, Job, Scheme};
use syncline_store::{Checksum, Element, Grid, Matrix, io_model};

use crate::data::{Data, Folder, Inputs};
use crate::error::{Error, Result};
use crate::report::label;

/// A scheme as it is raced.
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

/// The lines that have no blocks, of both.
pub(crate) const WHOLE: [Way; 2] = [(Name::Sequential, Data::RowMajor), (Name::Streamed, Data::RowMajor)];

/// A run as it is printed. Bytes are those of all its iterations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) scheme: Name,
    pub(crate) data: Data,
    pub(crate) block: Option<usize>,
    pub(crate) iterations: u64,
    pub(crate) round: u32,
    pub(crate) seconds: f64,
    /// Of the process, as the kernel counts them.
    pub(crate) disk_read: u64,
    pub(crate) disk_written: u64,
    /// What the scheme asked for.
    pub(crate) asked_read: u64,
    pub(crate) asked_written: u64,
    /// What the papers' model has for blocks.
    pub(crate) model_read: Option<u64>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) processors: usize,
    pub(crate) memory: u64,
    /// How the page cache was emptied.
    pub(crate) caches: String,
}

/// What is raced.
#[derive(Debug)]
pub(crate) struct Race {
    pub(crate) folder: Folder,
    pub(crate) blocks: Vec<usize>,
    pub(crate) iterations: u64,
    pub(crate) memory: u64,
    pub(crate) rounds: u32,
    pub(crate) processors: usize,
}

/// One cell of a table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    way: Way,
    block: Option<usize>,
    iterations: u64,
}

impl Race {
    /// Runs everything; each run is shown as soon as it has ended.
    pub(crate) fn run(&self, mut show: impl FnMut(&Run) -> Result<()>) -> Result<Vec<Run>> {
        let mut sums = HashMap::new();
        let mut runs = Vec::new();
        for round in 0..self.rounds {
            for cell in self.cells() {
                let Some(run) = self.cell(cell, round, &mut sums)? else { continue };
                show(&run)?;
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn cells(&self) -> Vec<Cell> {
        let several = self.iterations;
        let mut cells = Vec::new();
        let mut add = |ways: &[Way], block, iterations| {
            cells.extend(ways.iter().map(|way| Cell { way: *way, block, iterations }));
        };
        for iterations in [1, several] {
            add(&WHOLE, None, iterations);
        }
        for block in self.blocks.iter().copied().map(Some) {
            add(&SINGLE, block, 1);
            add(&CHAINED, block, several);
        }
        cells
    }

    /// Runs a cell, unless its blocks do not fit the memory.
    fn cell(&self, cell: Cell, round: u32, sums: &mut HashMap<u64, (u64, String)>) -> Result<Option<Run>> {
        let Cell { way: (name, data), block: side, iterations } = cell;
        let what = label((name, data)) + &side.map(|side| format!(", {side}")).unwrap_or_default();
        let block = self.folder.block(side.unwrap_or(1));
        let layout = data.layout(block);
        let Inputs { field, coefficients } = self.folder.open(data, side.unwrap_or(1))?;
        let (file, result) = self.folder.result(layout)?;
        let caches = self.folder.drop_caches()?.to_owned();
        let job = Job { scheme: name.scheme(self.processors), block, iterations, memory: self.memory };
        let before = disk()?;
        let start = Instant::now();
        let (result, report) = match job.run(&Arrays { field: &field, coefficients: &coefficients }, result) {
            Err(error @ syncline_wave::Error::Memory { .. }) => {
                eprintln!("skipped: {what}: {error}");
                return Ok(None);
            }
            done => done?,
        };
        file.file().sync_data().map_err(Error::io("write the result to disk"))?;
        let seconds = start.elapsed().as_secs_f64();
        let after = disk()?;
        eprintln!(
            "round {round}: {:7.3} s/it  {what}, {iterations} iteration(s)",
            seconds / iterations as f64
        );
        if round == 0 {
            let sum = checksum(&result)?;
            let (first, one) = sums.entry(iterations).or_insert_with(|| (sum, what.clone())).clone();
            if sum != first {
                return Err(Error::Differ { one, other: what, iterations });
            }
        }
        let model =
            side.map(|_| io_model(layout, Grid::new(self.folder.shape, block), 5, f64::TYPE)).transpose()?;
        Ok(Some(Run {
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
        }))
    }
}

/// Bytes that this process has had read from and written to disks.
fn disk() -> Result<(u64, u64)> {
    const IO: &str = "/proc/self/io";
    let text = std::fs::read_to_string(IO).map_err(Error::io(format!("read {IO}")))?;
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| Error::io(IO)(std::io::Error::other(format!("it has no {name}"))))
    };
    Ok((number("read_bytes:")?, number("write_bytes:")?))
}

/// The checksum of all values, row by row, whatever the layout.
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
