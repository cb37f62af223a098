//! The ring of row bands: processors pass frontiers to the processors above and below.
//!
//! # Contract
//! Each block of the result is a location; a task for each block and wave updates it. The order of
//! all conflicts is that of the sequential program below, so the result has the bits of the plain
//! double loop, and the overlay's check excludes deadlock.
//!
//! ```text
//! for each wave t of a round:                 iteration = round * waves + t
//!     late: for p = 1, 2, ..:                 send p:  row p = first row of band p, from the files
//!     for p = 0, 1, ..:
//!         for j, for i in band p:             update block (i, j)
//! ```
//!
//! | location      | contents                         | written by  | read by                    |
//! |---------------|----------------------------------|-------------|----------------------------|
//! | block (i, j)  | its region, top and bottom line  | its updates | updates above, below, left |
//! | thread (p, t) | the buffer, and the lines of the | updates     |                            |
//! |               | previous block and column kept   | of band p,  |                            |
//! |               |                                  | wave t      |                            |
//! | row p (late)  | the old first row of band p      | send p      | updates of the last row    |
//! |               |                                  |             | of blocks of band p - 1    |
//!
//! The location of a thread serialises its updates. With early exchange, a top line is available as
//! soon as its block is updated, and the last block of the band above reads it there. With late
//! exchange, send p waits for the whole previous iteration of band p, and band p - 1 waits for the
//! whole of send p: the flush.
//!
//! # Costs
//! An update reads the block and its coefficients, one column of the block to the right and, within
//! a band, one row of the block below. Memory: a window for each processor and wave.
//!
//! # Source
//! Clauss, Gustedt, Suter, PDP 2008, sections 4 to 6, and for late exchange Caron, Desprez, Suter,
//! IPDPS 2005. Differences: blocks in use are copied to a buffer; a processor is a location, and
//! any worker of a pool runs it; waves in a band are separate tasks, so that their order is checked
//! like all others.

use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, access::Read};
use syncline_store::{Matrix, placement::Side};

use super::block::Halo;
use super::work::{Place, Slot, Work};
use super::{Exchange, Job, Result};

/// The data that a thread of a processor keeps from block to block.
struct Seat {
    halo: Halo,
    /// The new last row of the previous block, and the new last column of the blocks to the left.
    bottom: Vec<f64>,
    east: Vec<f64>,
    /// The staging buffer for a line.
    line: Vec<f64>,
}

impl Seat {
    fn new(height: usize) -> Self {
        Seat { halo: Halo::new(), bottom: Vec::new(), east: vec![0.0; height], line: Vec::new() }
    }
}

/// Runs [`Scheme::Ring`](super::Scheme::Ring).
pub(crate) fn run(
    work: &Work<'_>,
    exchange: Exchange,
    job: &Job,
    result: Matrix,
) -> Result<Matrix> {
    let waves = match exchange {
        Exchange::Late => 1,
        Exchange::Early { waves } => {
            waves.clamp(1, usize::try_from(job.iterations).unwrap_or(usize::MAX))
        }
    };
    let processors = work.bands.len();
    work.check_memory(job.memory, processors * waves, work.mapped + work.buffer)?;
    let slots = work.locations(result)?;
    let ring = Ring { work, slots: &slots, iterations: job.iterations, waves: waves as u64 };
    let mut overlay = Overlay::new();
    let seats: Vec<Vec<Location<Seat>>> = (0..processors)
        .map(|p| {
            let seat = |t| Location::new(format!("thread ({p}, {t})"), Seat::new(work.height(p)));
            (0..waves).map(seat).collect()
        })
        .collect();
    let rows: Vec<Location<Vec<f64>>> = match exchange {
        Exchange::Early { .. } => Vec::new(),
        Exchange::Late => {
            (0..processors).map(|p| Location::new(format!("row {p}"), Vec::new())).collect()
        }
    };
    for wave in 0..waves {
        for p in 1..rows.len() {
            ring.send(&mut overlay, p, &rows[p], &seats[p][0]);
        }
        for (p, seats) in seats.iter().enumerate() {
            work.walk(p)
                .for_each(|at| ring.update(&mut overlay, at, wave as u64, &seats[wave], &rows));
        }
    }
    let rounds = job.iterations.div_ceil(waves as u64);
    overlay.check(Initial::Wave)?.run(Runner::pool(processors * waves), Stop::after(rounds))?;
    Work::result(slots)
}

struct Ring<'r> {
    work: &'r Work<'r>,
    slots: &'r [Location<Slot>],
    iterations: u64,
    waves: u64,
}

impl<'r> Ring<'r> {
    /// Declares the task that gathers the first row of a band.
    fn send(
        &self,
        overlay: &mut Overlay<'r>,
        processor: usize,
        row: &Location<Vec<f64>>,
        seat: &Location<Seat>,
    ) {
        let work = self.work;
        let tops: Vec<_> = work.top_row(processor).map(|b| self.slots[b].read()).collect();
        overlay.task(
            format!("send {processor}"),
            (row.write(), seat.write(), tops),
            move |(row, seat, tops), _| work.first_row(tops.iter(), row, &mut seat.line),
        );
    }

    /// Declares the task of a block and a wave.
    fn update(
        &self,
        overlay: &mut Overlay<'r>,
        at: Place,
        wave: u64,
        seat: &Location<Seat>,
        rows: &[Location<Vec<f64>>],
    ) {
        let (work, iterations, waves) = (self.work, self.iterations, self.waves);
        let neighbour = |side| work.grid.neighbour(at.index, side).map(|n| self.slots[n].read());
        let sent = at.bottom.then(|| rows.get(at.processor + 1)).flatten().map(Location::read);
        let around: [Option<Read<Slot>>; 3] = [
            // The row above within the band is kept in memory.
            neighbour(Side::North).filter(|_| at.top),
            neighbour(Side::East),
            neighbour(Side::South).filter(|_| sent.is_none()),
        ];
        let own = self.slots[at.index].write();
        let name = work.name(&format!("wave {wave}, block"), at.index);
        overlay.task(
            name,
            (seat.write(), own, around, sent),
            move |(seat, own, around, sent), step: &mut Step| {
                if step.iteration() * waves + wave >= iterations {
                    return Ok(());
                }
                work.step(at, seat, own, around, sent)
            },
        );
    }
}

impl Work<'_> {
    /// Copies the old first row of a band, block by block from the files.
    pub(crate) fn first_row<'s>(
        &self,
        tops: impl Iterator<Item = &'s Slot>,
        row: &mut Vec<f64>,
        line: &mut Vec<f64>,
    ) -> Result<()> {
        row.clear();
        for top in tops {
            self.frontier(top, Side::North, line)?;
            row.extend_from_slice(line);
        }
        Ok(())
    }

    fn step(
        &self,
        at: Place,
        seat: &mut Seat,
        own: &mut Slot,
        [north, east, south]: [Option<&Slot>; 3],
        sent: Option<&Vec<f64>>,
    ) -> Result<()> {
        let Seat { halo, bottom, east: kept, line } = seat;
        self.read(own, |part| halo.load(part))?;
        let rect = own.region.rect();
        let west = at.offset..at.offset + rect.rows;
        match north {
            Some(above) => halo.set_line(Side::North, &above.bottom),
            None if !at.top => halo.set_line(Side::North, bottom),
            None => {}
        }
        halo.set_line(Side::West, &kept[west.clone()]);
        if let Some(right) = east {
            self.frontier(right, Side::West, line)?;
            halo.set_line(Side::East, line);
        }
        match (south, sent) {
            (Some(below), _) if at.bottom && below.rounds > 0 => {
                halo.set_line(Side::South, &below.top)
            }
            (Some(below), _) => {
                self.frontier(below, Side::North, line)?;
                halo.set_line(Side::South, line);
            }
            (None, Some(row)) => halo.set_line(Side::South, &row[rect.col..rect.col + rect.cols]),
            (None, None) => {}
        }
        let tiles = self.arrays.coefficients.each_ref().map(|c| self.tile(c, at.index));
        let views =
            tiles.iter().map(|tile| tile.view()).collect::<syncline_store::Result<Vec<_>>>()?;
        halo.update(self.grid.shape(), |n, i| views[n].row(i));
        halo.store(&mut own.region)?;
        own.rounds += 1;
        refill(&mut own.top, halo.line(Side::North));
        refill(&mut own.bottom, halo.line(Side::South));
        refill(bottom, halo.line(Side::South));
        kept[west].iter_mut().zip(halo.line(Side::East)).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

/// Overwrites a line.
pub(crate) fn refill(line: &mut Vec<f64>, values: impl Iterator<Item = f64>) {
    line.clear();
    line.extend(values);
}
