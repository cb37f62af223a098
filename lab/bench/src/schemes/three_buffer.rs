//! Three memory blocks in turn: one is loaded, one computed, one stored. The algorithm before the
//! papers'.
//!
//! # Contract
//! A ring of processors with late exchange, see [`ring`](super::ring). The order of all conflicts
//! is that of the sequential program below; the overlay's check excludes deadlock.
//!
//! ```text
//! buffer 0  load 0  compute 0  store 0  load 3  compute 3 ...
//! buffer 1          load 1     compute 1  store 1  load 4 ...
//! buffer 2                     load 2     compute 2  store 2
//!
//! for p = 1, 2, ..: send p
//! for p = 0, 1, ..:
//!     for each block k of band p:
//!         load k, compute k, store k
//! ```
//!
//! | location      | contents                    | written by       | read by                   |
//! |---------------|-----------------------------|------------------|---------------------------|
//! | block (i, j)  | its region                  | its store        | its load, loads above and |
//! |               |                             |                  | left, send p              |
//! | buffer (p, b) | a block, its old halo, its  | steps of every   |                           |
//! |               | coefficients                | third block      |                           |
//! | loader p      | a line in transfer          | loads            |                           |
//! | storer p      | nothing                     | stores           |                           |
//! | computer p    | the new lines that it keeps | computes, send p |                           |
//! | row p         | old first row               | send p           | adjacent computes         |
//! | bottom (p, j) | new last row                | computes         | adjacent computes         |
//!
//! # Costs
//! As the ring with late exchange, plus a copy of the coefficients. Memory: three blocks of each
//! matrix for each processor.
//!
//! # Source
//! E. Caron, F. Desprez, F. Suter, IPDPS 2005, as described by Clauss, Gustedt, Suter, PDP 2008.
//! Differences: shared memory instead of messages, mapped files instead of read and write.

use syncline_overlay::{Initial, Location, Overlay, Runner, Stop, access::Read};
use syncline_store::{Matrix, placement::Side};

use super::block::Halo;
use super::ring::refill;
use super::work::{Place, Slot, Work};
use super::{Job, Result};

/// The number of memory blocks of a processor.
const BUFFERS: usize = 3;

/// A memory block.
struct Buffer {
    halo: Halo,
    coefficients: [Vec<f64>; 5],
}

/// The data that a processor keeps from block to block: the new last row of the previous block and
/// the new last column of the blocks to the left.
struct Kept {
    bottom: Vec<f64>,
    east: Vec<f64>,
}

/// The locations of a processor.
struct Processor {
    buffers: Vec<Location<Buffer>>,
    loader: Location<Vec<f64>>,
    computer: Location<Kept>,
    storer: Location<()>,
    /// The old first row of the band.
    row: Location<Vec<f64>>,
    /// The new last row of the band, by column of blocks.
    bottoms: Vec<Location<Vec<f64>>>,
}

impl Processor {
    fn new(work: &Work<'_>, p: usize) -> Self {
        let buffer = || Buffer { halo: Halo::new(), coefficients: Default::default() };
        let buffers = (0..BUFFERS).map(|b| Location::new(format!("buffer ({p}, {b})"), buffer()));
        let kept = Kept { bottom: Vec::new(), east: vec![0.0; work.height(p)] };
        let bottoms =
            (0..work.grid.cols()).map(|j| Location::new(format!("bottom ({p}, {j})"), Vec::new()));
        Processor {
            buffers: buffers.collect(),
            loader: Location::new(format!("loader {p}"), Vec::new()),
            computer: Location::new(format!("computer {p}"), kept),
            storer: Location::new(format!("storer {p}"), ()),
            row: Location::new(format!("row {p}"), Vec::new()),
            bottoms: bottoms.collect(),
        }
    }
}

/// Runs [`Scheme::ThreeBuffer`](super::Scheme::ThreeBuffer).
pub(crate) fn run(work: &Work<'_>, job: &Job, result: Matrix) -> Result<Matrix> {
    let processors = work.bands.len();
    let coefficients = work.arrays.coefficients.len() as u64 * work.block;
    // A loader and a storer each map one of the seven blocks that the other schemes map together.
    let window = BUFFERS as u64 * (work.buffer + coefficients) + work.mapped.div_ceil(3);
    work.check_memory(job.memory, processors, window)?;
    let slots = work.locations(result)?;
    let ring: Vec<Processor> = (0..processors).map(|p| Processor::new(work, p)).collect();
    let mut overlay = Overlay::new();
    for (p, own) in ring.iter().enumerate().skip(1) {
        send(&mut overlay, work, p, own, &slots);
    }
    for (p, own) in ring.iter().enumerate() {
        for (k, at) in work.walk(p).enumerate() {
            load(&mut overlay, work, at, k, own, &slots);
            compute(&mut overlay, work, at, k, &ring);
            store(&mut overlay, work, at, k, own, &slots[at.index]);
        }
    }
    let runner = Runner::pool(BUFFERS * processors);
    overlay.check(Initial::Wave)?.run(runner, Stop::after(job.iterations))?;
    Work::result(slots)
}

fn send<'w>(
    overlay: &mut Overlay<'w>,
    work: &'w Work<'w>,
    p: usize,
    own: &Processor,
    slots: &[Location<Slot>],
) {
    let tops: Vec<_> = work.top_row(p).map(|b| slots[b].read()).collect();
    let access = (own.row.write(), own.computer.write(), tops);
    let mut line = Vec::new();
    overlay.task(format!("send {p}"), access, move |(row, _, tops), _| {
        work.first_row(tops.iter(), row, &mut line)
    });
}

fn load<'w>(
    overlay: &mut Overlay<'w>,
    work: &'w Work<'w>,
    at: Place,
    k: usize,
    own: &Processor,
    slots: &[Location<Slot>],
) {
    let neighbour = |side| work.grid.neighbour(at.index, side).map(|n| slots[n].read());
    let around: [Option<Read<Slot>>; 2] =
        [neighbour(Side::East), neighbour(Side::South).filter(|_| !at.bottom)];
    let access =
        (own.loader.write(), own.buffers[k % BUFFERS].write(), slots[at.index].read(), around);
    let name = work.name("load", at.index);
    overlay.task(name, access, move |(line, buffer, slot, [east, south]), _| -> Result<()> {
        let Buffer { halo, coefficients } = buffer;
        work.read(slot, |part| halo.load(part))?;
        if let Some(right) = east {
            work.frontier(right, Side::West, line)?;
            halo.set_line(Side::East, line);
        }
        if let Some(below) = south {
            work.frontier(below, Side::North, line)?;
            halo.set_line(Side::South, line);
        }
        for (values, matrix) in coefficients.iter_mut().zip(work.arrays.coefficients) {
            let tile = work.tile(matrix, at.index);
            values.resize(tile.rect().elements(), 0.0);
            tile.load(values)?;
        }
        Ok(())
    });
}

fn compute<'w>(
    overlay: &mut Overlay<'w>,
    work: &'w Work<'w>,
    at: Place,
    k: usize,
    ring: &[Processor],
) {
    let own = &ring[at.processor];
    let above =
        at.processor.checked_sub(1).filter(|_| at.top).map(|p| ring[p].bottoms[at.j].read());
    let below = ring.get(at.processor + 1).filter(|_| at.bottom).map(|p| p.row.read());
    let bottom = at.bottom.then(|| own.bottoms[at.j].write());
    let access = (own.computer.write(), own.buffers[k % BUFFERS].write(), above, below, bottom);
    let rect = work.grid.rect(at.index);
    let west = at.offset..at.offset + rect.rows;
    overlay.task(
        work.name("compute", at.index),
        access,
        move |(kept, buffer, above, below, bottom), _| {
            let Buffer { halo, coefficients } = buffer;
            if let Some(line) = above.or((!at.top).then_some(&kept.bottom)) {
                halo.set_line(Side::North, line);
            }
            halo.set_line(Side::West, &kept.east[west.clone()]);
            if let Some(row) = below {
                halo.set_line(Side::South, &row[rect.col..rect.col + rect.cols]);
            }
            halo.update(work.grid.shape(), |n, i| &coefficients[n][i * rect.cols..][..rect.cols]);
            refill(&mut kept.bottom, halo.line(Side::South));
            let east = kept.east[west.clone()].iter_mut();
            east.zip(halo.line(Side::East)).for_each(|(to, from)| *to = from);
            if let Some(bottom) = bottom {
                refill(bottom, halo.line(Side::South));
            }
        },
    );
}

fn store<'w>(
    overlay: &mut Overlay<'w>,
    work: &'w Work<'w>,
    at: Place,
    k: usize,
    own: &Processor,
    slot: &Location<Slot>,
) {
    let access = (own.storer.write(), own.buffers[k % BUFFERS].write(), slot.write());
    overlay.task(
        work.name("store", at.index),
        access,
        move |((), buffer, slot), _| -> Result<()> {
            buffer.halo.store(&mut slot.region)?;
            slot.rounds += 1;
            Ok(())
        },
    );
}
