//! One pass, as an overlay: see the table in the documentation of [`streamed`](super).

#[cfg(test)]
mod counters;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use syncline_fabric::Member;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, run::ReadyOrder};
use syncline_store::{
    Shape,
    checksum::Checksum,
    direct_io::{IoQueue, Method},
};

use super::data::{FileSink, Outgoing, Panel, Sink, Source};
use super::plan::StreamPlan;
use super::sums::Sums;
use crate::dynamic::Kernel;
use crate::lanes::{Real, Vector};
use crate::semaphore::Semaphore;
use crate::strip::Ring;
use crate::strip::ghosts::Ghosts;
use crate::strip::tile::{self, Chain, Job, Scratch};
use crate::{Error, Result, monitor::Monitor};

/// Checks the checksum of a unit of the field; returns an error that describes the damage.
pub(crate) type CheckUnit<'a> = &'a (dyn Fn(usize, u64) -> Result<()> + Sync);

/// The state that runs passes; its memory is kept from one pass to the next.
pub(crate) struct Stream<'a, E> {
    pub(crate) kernel: &'a dyn Kernel<E>,
    pub(crate) plan: StreamPlan,
    pub(crate) shape: Shape,
    ghosts: Ghosts,
    pub(crate) threads: usize,
    pub(crate) monitor: &'a Monitor,
    pub(crate) norm: bool,
    /// The number of iterations before the current pass.
    pub(crate) before: u64,
    ring: Ring<E>,
    panels: Vec<Panel<E>>,
    pub(crate) spent: Spent,
}

/// Nanoseconds and bytes, summed over all threads.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) read_ns: AtomicU64,
    pub(crate) write_ns: AtomicU64,
    pub(crate) check_ns: AtomicU64,
    pub(crate) pack_ns: AtomicU64,
    pub(crate) update_ns: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    /// On a team: bytes of the field that were sent to other members.
    pub(crate) exchanged: AtomicU64,
}

impl Spent {
    /// Returns all numbers.
    fn all(&self) -> [&AtomicU64; 8] {
        let Spent { read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged } =
            self;
        [read_ns, write_ns, check_ns, pack_ns, update_ns, read, written, exchanged]
    }

    /// Returns the sums over all members of a team; all members call it.
    pub(crate) fn of_all(&self, me: &mut Member) -> Result<Spent> {
        let own = self.all().map(|number| number.load(Relaxed).to_le_bytes());
        let sum = Spent::default();
        for numbers in me.exchange(own.as_flattened())? {
            for (total, number) in sum.all().into_iter().zip(numbers.as_chunks::<8>().0) {
                total.fetch_add(u64::from_le_bytes(*number), Relaxed);
            }
        }
        Ok(sum)
    }
}

/// Adds the time that `work` takes to `total`.
pub(crate) fn timed<R>(total: &AtomicU64, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    add(total, start.elapsed());
    result
}

/// Adds a time to `total`.
pub(crate) fn add(total: &AtomicU64, time: Duration) {
    // Relaxed: only a statistic.
    total.fetch_add(time.as_nanos() as u64, Relaxed);
}

/// The checksums against which the field is checked while it is read.
pub(crate) struct Expected<'a> {
    /// The number of rows in a unit.
    pub(crate) unit: usize,
    pub(crate) check: CheckUnit<'a>,
}

/// The outcome of a pass.
pub(crate) struct Passed {
    pub(crate) norms: Vec<f64>,
    pub(crate) written: Option<FileSink>,
    /// The checksums of the arrays that were to be summed, in their order.
    pub(crate) sums: Vec<u64>,
}

impl<'a, E: Real> Stream<'a, E> {
    pub(crate) fn new(
        kernel: &'a dyn Kernel<E>,
        plan: StreamPlan,
        shape: Shape,
        (threads, norm): (usize, bool),
        monitor: &'a Monitor,
        sources: &[Source<'_, E>],
    ) -> Result<Self> {
        let ghosts = Ghosts::new(shape, kernel.stencil());
        let panels = (0..plan.panels)
            .map(|_| Panel::new(sources, ghosts, plan.rows + 1, shape.cols))
            .collect::<Result<_>>()?;
        Ok(Stream {
            kernel,
            plan,
            shape,
            ghosts,
            threads,
            monitor,
            norm,
            before: 0,
            ring: Ring::new(plan.geometry)?,
            panels,
            spent: Spent::default(),
        })
    }

    /// Returns the chain of a pass of `levels` iterations.
    fn chain(&self, levels: u64) -> Chain {
        Chain { geometry: self.ring.geometry, levels: levels as usize, band: self.plan.band }
    }

    /// Returns the number of pieces of a wave.
    fn pieces(&self, chain: &Chain) -> usize {
        chain.walk().len().div_ceil(self.plan.piece)
    }

    /// Returns the number of tasks of all passes over `iterations` iterations, which a monitor
    /// counts.
    pub(crate) fn tasks(&self, iterations: u64) -> u64 {
        let pass = |levels| {
            let chain = self.chain(levels);
            (chain.bands() * self.pieces(&chain)) as u64
        };
        let (passes, rest) = (iterations / self.plan.depth, iterations % self.plan.depth);
        passes.saturating_mul(pass(self.plan.depth)).saturating_add(if rest > 0 {
            pass(rest)
        } else {
            0
        })
    }

    /// Updates the field `levels` times between the first source and the sink. The sink may be the
    /// field itself, in memory or on file, as rows are written after they were read; it must not be
    /// another source. Returns the norms, the file that was written, and the checksums of the
    /// `summed` arrays, all of which must be on file.
    pub(crate) fn pass(
        &mut self,
        levels: u64,
        sources: &[Source<'_, E>],
        sink: Sink<E>,
        expected: Option<Expected<'_>>,
        summed: &[usize],
    ) -> Result<Passed> {
        let cols = self.shape.cols;
        let mut panels = std::mem::take(&mut self.panels);
        for panel in &mut panels {
            panel.change_field(&sources[0], self.plan.rows + 1, cols)?;
        }
        let outgoing = |_| Outgoing::new(&sink, self.ghosts, self.plan.rows + 1, cols);
        let outs = (0..panels.len()).map(outgoing).collect::<Result<Vec<_>>>()?;
        let chain = self.chain(levels);
        let writer = match sink {
            Sink::File(file) => Some(Location::new("writer", *file)),
            Sink::Memory(_) => None,
        };
        let mut norms = vec![0.0; if self.norm { levels as usize } else { 0 }];
        let run = Run {
            stream: self,
            sources,
            expected: expected.as_ref(),
            pieces: self.pieces(&chain),
            slots: panels.len(),
            waves: Waves::new(self.kernel, &self.plan, self.threads, &self.spent),
            norms: Mutex::new(&mut norms),
            chain,
        };
        let places = Places {
            panels: named("panel", panels),
            outs: named("rows", outs),
            cells: (0..run.slots)
                .map(|r| named(&format!("band {r} piece"), vec![(); run.pieces]))
                .collect(),
            sums: expected
                .as_ref()
                .map(|e| Location::new("sums", Sums::new(e.unit, self.shape.rows))),
            inputs: summed
                .iter()
                .map(|&array| {
                    (array, Location::new(format!("sum of array {array}"), Checksum::new()))
                })
                .collect(),
            reader: Location::new("reader", IoQueue::new(Method::Auto)),
            writer,
        };
        let done = run.run(&places);
        drop(run);
        self.panels = places.panels.into_iter().filter_map(|p| p.into_inner().ok()).collect();
        done?;
        let written = places.writer.map(|writer| {
            writer.into_inner().unwrap_or_else(|_| {
                unreachable!("a finished pass holds the last reference to its writer")
            })
        });
        let sum =
            |(_, sum): (usize, Location<Checksum>)| sum.into_inner().map_or(0, |sum| sum.value());
        Ok(Passed { norms, written, sums: places.inputs.into_iter().map(sum).collect() })
    }
}

fn named<T>(name: &str, values: Vec<T>) -> Vec<Location<T>> {
    values
        .into_iter()
        .enumerate()
        .map(|(i, value)| Location::new(format!("{name} {i}"), value))
        .collect()
}

/// The locations of a pass.
struct Places<E: 'static> {
    panels: Vec<Location<Panel<E>>>,
    outs: Vec<Location<Outgoing<E>>>,
    cells: Vec<Vec<Location<()>>>,
    sums: Option<Location<Sums>>,
    /// The arrays to be summed, and their checksums.
    inputs: Vec<(usize, Location<Checksum>)>,
    reader: Location<IoQueue>,
    writer: Option<Location<FileSink>>,
}

/// The state that all tasks of a pass share.
struct Run<'r, E> {
    stream: &'r Stream<'r, E>,
    sources: &'r [Source<'r, E>],
    expected: Option<&'r Expected<'r>>,
    chain: Chain,
    pieces: usize,
    slots: usize,
    waves: Waves<'r, E>,
    norms: Mutex<&'r mut Vec<f64>>,
}

/// The computation of pieces of waves.
pub(super) struct Waves<'r, E> {
    kernel: &'r dyn Kernel<E>,
    plan: &'r StreamPlan,
    spent: &'r Spent,
    /// Limits the threads that compute: there are more workers than that, as some wait for the
    /// disk.
    processors: Semaphore,
    /// Buffers that are not in use.
    scratch: Mutex<Vec<Scratch<E>>>,
}

impl<'r, E: Real> Waves<'r, E> {
    pub(super) fn new(
        kernel: &'r dyn Kernel<E>,
        plan: &'r StreamPlan,
        threads: usize,
        spent: &'r Spent,
    ) -> Self {
        let processors = Semaphore::new(threads as u64);
        Waves { kernel, plan, spent, processors, scratch: Mutex::default() }
    }

    /// Runs a piece, and raises `norms`, if given, to the greatest changes. `around` is called with
    /// the tiles of the piece, while this thread counts as one that computes.
    ///
    /// # Safety
    /// The conditions of [`tile::run`] must hold where `around` calls its argument, but for the
    /// scratch.
    pub(super) unsafe fn piece(
        &self,
        job: &Job<'_, E>,
        mut norms: Option<&mut [f64]>,
        around: impl FnOnce(&mut dyn FnMut()),
    ) {
        let pool = || self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = pool().pop();
        let make = || Scratch::new(&job.chain.geometry, self.plan.tile);
        let mut scratch = idle.unwrap_or_else(make);
        {
            let _processor = self.processors.take();
            around(&mut || {
                // SAFETY: the scratch was made for this geometry and this tile; the caller
                // guarantees the other conditions.
                unsafe {
                    let norms = norms.as_deref_mut();
                    tile::run(self.plan.lanes, self.kernel, job, &mut scratch, norms);
                }
            });
        }
        add(&self.spent.pack_ns, std::mem::take(&mut scratch.packing));
        add(&self.spent.update_ns, std::mem::take(&mut scratch.updating));
        pool().push(scratch);
    }
}

impl<E: Real> Run<'_, E> {
    fn run(&self, places: &Places<E>) -> Result<()> {
        let on_file =
            places.writer.is_some() || self.sources.iter().any(|s| matches!(s, Source::File(..)));
        let rounds = self.chain.bands().div_ceil(self.slots) as u64;
        let workers = self.stream.threads + if on_file { 2 * self.slots } else { 0 };
        let mut checked = self.overlay(places).check(Initial::Program)?;
        self.stream.monitor.watches(checked.watch());
        // Depth first: a thread stays with its band, whose columns are in its cache.
        let runner = Runner::Pool { workers, order: ReadyOrder::DepthFirst };
        checked.run(runner, Stop::after(rounds))?;
        Ok(())
    }

    fn overlay<'o>(&'o self, places: &Places<E>) -> Overlay<'o> {
        let mut overlay = Overlay::new();
        for r in 0..self.slots {
            let panel = &places.panels[r];
            if self.sources.iter().any(|s| matches!(s, Source::File(..))) {
                let access = (panel.write(), places.reader.write());
                overlay.task(format!("read {r}"), access, move |(panel, queue), step| {
                    self.read(panel, queue, self.band(r, step))
                });
            }
            if let (Some(sums), Some(expected)) = (&places.sums, self.expected) {
                overlay.task(
                    format!("check {r}"),
                    (panel.read(), sums.write()),
                    move |(panel, sums), step| {
                        self.check(expected, panel, sums, self.band(r, step))
                    },
                );
            }
            for (array, sum) in &places.inputs {
                let array = *array;
                overlay.task(
                    format!("sum {array} {r}"),
                    (panel.read(), sum.write()),
                    move |(panel, sum), step| self.sum(array, panel, sum, self.band(r, step)),
                );
            }
            let above = &places.cells[(r + self.slots - 1) % self.slots];
            for c in 0..self.pieces {
                let right = &above[(c + 1).min(self.pieces - 1)];
                let access = (
                    places.outs[r].write(),
                    panel.read(),
                    places.cells[r][c].write(),
                    right.read(),
                );
                overlay.task(format!("wave {r}, {c}"), access, move |(out, panel, ..), step| {
                    self.wave(out, panel, self.band(r, step), c)
                });
            }
            if let Some(writer) = &places.writer {
                overlay.task(
                    format!("write {r}"),
                    (places.outs[r].write(), writer.write()),
                    move |(out, writer), step| self.write(out, writer, self.band(r, step)),
                );
            }
        }
        overlay
    }

    /// Returns the band of slot `r` in this round, which may be after the last band.
    fn band(&self, r: usize, step: &Step) -> usize {
        step.iteration() as usize * self.slots + r
    }

    /// Returns the rows of the matrix that come in with a band.
    fn rows_in(&self, band: usize) -> Range<usize> {
        self.stream.ghosts.rows(self.chain.rows_in(band))
    }

    /// Returns the rows of the matrix that are final after a band.
    fn rows_out(&self, band: usize) -> Range<usize> {
        self.stream.ghosts.rows(self.chain.rows_out(band))
    }

    /// Returns an error if the sweep is cancelled. Every task that has work to do calls it: a pass
    /// of which a part was left out must not look complete.
    fn go_on(&self) -> Result<()> {
        match self.stream.monitor.is_cancelled() {
            true => Err(Error::Cancelled { iteration: self.stream.before }),
            false => Ok(()),
        }
    }

    fn read(&self, panel: &mut Panel<E>, queue: &mut IoQueue, band: usize) -> Result<()> {
        let rows = self.rows_in(band);
        if rows.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let spent = &self.stream.spent;
        let cols = self.stream.shape.cols;
        let read = timed(&spent.read_ns, || panel.read(self.sources, rows, cols, queue))?;
        spent.read.fetch_add(read, Relaxed);
        self.stream.monitor.moved(read);
        Ok(())
    }

    fn check(
        &self,
        expected: &Expected<'_>,
        panel: &Panel<E>,
        sums: &mut Sums,
        band: usize,
    ) -> Result<()> {
        let rows = self.rows_in(band);
        if rows.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let bytes = panel.bytes_of(0, self.stream.shape.cols);
        timed(&self.stream.spent.check_ns, || sums.feed(rows, bytes, expected.check))
    }

    fn sum(&self, array: usize, panel: &Panel<E>, sum: &mut Checksum, band: usize) -> Result<()> {
        if self.rows_in(band).is_empty() {
            return Ok(());
        }
        self.go_on()?;
        timed(&self.stream.spent.check_ns, || {
            sum.update(panel.bytes_of(array, self.stream.shape.cols))
        });
        Ok(())
    }

    fn wave(
        &self,
        out: &mut Outgoing<E>,
        panel: &Panel<E>,
        band: usize,
        piece: usize,
    ) -> Result<()> {
        let Stream { plan, monitor, .. } = self.stream;
        if band >= self.chain.bands() {
            return Ok(());
        }
        self.go_on()?;
        if piece == 0 {
            out.place(self.rows_out(band));
        }
        let walk = self.chain.walk();
        let from = walk.start + (piece * plan.piece) as isize;
        let job = Job {
            chain: &self.chain,
            ring: &self.stream.ring,
            band,
            columns: from..(from + plan.piece as isize).min(walk.end),
            rows_in: &panel.rows,
            rows_out: out.rows,
            tile: plan.tile,
        };
        let levels = self.chain.levels_in(band);
        let mut norms = vec![0.0; if self.stream.norm { levels.len() } else { 0 }];
        let wanted = self.stream.norm.then_some(&mut norms[..]);
        // SAFETY:
        // * the ring has the chain's geometry, and was made for these lanes, which were checked to
        //   be available, and for this kernel's corners and arrays;
        // * the panel contains the rows that come in, the outgoing rows have room for those that
        //   are final, and an array in memory has all rows;
        // * the piece to the left has run before this one, as both hold the outgoing rows
        //   exclusively; the band above has run up to `ahead` columns further right, as this task
        //   holds its cell inclusively and the pieces are at least that wide;
        // * the band `slots` earlier has ended, as both hold these outgoing rows; so the ring has
        //   slots for all bands in flight, see `Chain::slots`.
        unsafe { self.waves.piece(&job, wanted, |tiles| tiles()) };
        if self.stream.norm {
            let mut all = self.norms.lock().unwrap_or_else(PoisonError::into_inner);
            all[levels].iter_mut().zip(norms).for_each(|(all, norm)| *all = all.greater(norm));
        }
        monitor.one_more();
        Ok(())
    }

    fn write(&self, out: &mut Outgoing<E>, writer: &mut FileSink, band: usize) -> Result<()> {
        let rows = if band < self.chain.bands() { self.rows_out(band) } else { 0..0 };
        if rows.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let spent = &self.stream.spent;
        let written = timed(&spent.write_ns, || out.write(writer, rows))?;
        spent.written.fetch_add(written, Relaxed);
        self.stream.monitor.moved(written);
        Ok(())
    }
}
