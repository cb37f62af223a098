//! One pass of a rule over its arrays, as an overlay.
//!
//! # The overlay
//! Band `b` is in slot `b mod flight`; a task recurs once in every round of the slots. Tasks access
//! these locations, exclusively (X) or inclusively (I); `ahead` is 0 for explicit rules and 1 for
//! ordered ones:
//!
//! | task       | reader | panel | rows out | cell (r, c) | cell (r - 1, c + ahead) | writer |
//! |------------|--------|-------|----------|-------------|-------------------------|--------|
//! | read r     | X      | X     |          |             |                         |        |
//! | piece r, c |        | I     | X        | X           | I                       |        |
//! | write r    |        |       | X        |             |                         | X      |
//!
//! So the workers follow one another down the field, each on its own band. A panel has the slabs of
//! a band of all arrays on file; arrays in memory are accessed where they are.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};

use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, run::ReadyOrder};
use syncline_store::ElementType;
use syncline_store::direct_io::{DirectFile, DirectWriter, IoBuffer, IoQueue, Method, ReadRequest};

use super::engine::{Engine, Job, Slabs};
use super::greater;
use crate::monitor::Monitor;
use crate::semaphore::Semaphore;
use crate::streamed::{Spent, timed};
use crate::{Error, Result};

/// An array that a pass reads.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// All slabs.
    Memory(Slabs),
    /// A file, and the byte at which its elements begin.
    File(&'a DirectFile, u64),
}

/// The place of a field that a pass writes.
pub(crate) enum Sink {
    /// All slabs.
    Memory(Slabs),
    /// A file that is written from the first slab to the last.
    Down(Box<DirectWriter>),
    /// A file that is written from the last slab to the first, and the byte at which its elements
    /// begin.
    Up(File, PathBuf, u64),
}

/// What a pass works on.
pub(crate) struct Pass<'a> {
    pub(crate) sources: &'a [Source<'a>],
    /// The types of all arrays.
    pub(crate) elements: &'a [ElementType],
    /// Slabs, rows and columns.
    pub(crate) dims: [usize; 3],
    /// Whether the pass goes from the last slab to the first.
    pub(crate) up: bool,
    pub(crate) threads: usize,
    pub(crate) norm: bool,
    pub(crate) monitor: &'a Monitor,
    pub(crate) spent: &'a Spent,
    /// The iterations before this pass.
    pub(crate) before: u64,
}

/// The slabs of a band, of all arrays: in buffers of the panel, or in the memory of the array.
struct Panel {
    buffers: Vec<Option<IoBuffer>>,
    slabs: Vec<Slabs>,
}

impl Pass<'_> {
    /// Returns the bytes of a slab of an array.
    fn slab_bytes(&self, array: usize) -> usize {
        self.dims[1] * self.dims[2] * self.elements[array].bytes()
    }

    /// Returns the slabs of a band, as the arrays count them.
    fn actual(&self, slabs: Range<usize>) -> Range<usize> {
        let n = self.dims[0];
        if self.up { n - slabs.end..n - slabs.start } else { slabs }
    }

    /// Returns the error of a cancelled sweep: a pass of which a part was left out must not look
    /// complete.
    fn go_on(&self) -> Result<()> {
        match self.monitor.is_cancelled() {
            true => Err(Error::Cancelled { iteration: self.before }),
            false => Ok(()),
        }
    }

    fn panel(&self, band: usize) -> Result<Panel> {
        let (mut buffers, mut slabs) = (Vec::new(), Vec::new());
        for (array, source) in self.sources.iter().enumerate() {
            let (buffer, place) = match source {
                Source::Memory(all) => (None, *all),
                Source::File(file, _) => {
                    let bytes = file.room(0, band * self.slab_bytes(array)) + file.alignment();
                    let empty = Slabs { start: std::ptr::null_mut(), first: 0 };
                    (Some(IoBuffer::new(bytes)?), empty)
                }
            };
            buffers.push(buffer);
            slabs.push(place);
        }
        Ok(Panel { buffers, slabs })
    }

    /// Reads the slabs of a band.
    fn read(&self, panel: &mut Panel, queue: &mut IoQueue, slabs: Range<usize>) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let mut reads = Vec::new();
        let places = panel.buffers.iter_mut().zip(&mut panel.slabs);
        let mut bytes = 0;
        for (array, (buffer, place)) in places.enumerate() {
            let (Source::File(file, start), Some(buffer)) = (&self.sources[array], buffer) else {
                continue;
            };
            let slab = self.slab_bytes(array);
            let (offset, len) = (start + (slabs.start * slab) as u64, slabs.len() * slab);
            let first = buffer.as_mut_ptr().wrapping_add(file.lead(offset));
            *place = Slabs { start: first, first: slabs.start };
            bytes += len as u64;
            reads.push(ReadRequest { file, offset, len, into: buffer.as_mut_slice() });
        }
        timed(&self.spent.read_ns, || queue.read(&mut reads))?;
        self.spent.read.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Returns buffers for the final slabs of a band of each field.
    fn outgoing(&self, sinks: &[Sink], band: usize) -> Result<Panel> {
        let (mut buffers, mut slabs) = (Vec::new(), Vec::new());
        for (field, sink) in sinks.iter().enumerate() {
            let bytes = band * self.slab_bytes(field);
            let (buffer, place) = match sink {
                Sink::Memory(all) => (None, *all),
                Sink::Down(writer) => {
                    let file = writer.file();
                    let room = file.room(0, bytes) + 2 * file.alignment();
                    (Some(IoBuffer::new(room)?), Slabs { start: std::ptr::null_mut(), first: 0 })
                }
                Sink::Up(..) => {
                    let empty = Slabs { start: std::ptr::null_mut(), first: 0 };
                    (Some(IoBuffer::new(bytes)?), empty)
                }
            };
            buffers.push(buffer);
            slabs.push(place);
        }
        Ok(Panel { buffers, slabs })
    }

    /// Prepares the buffers for the final slabs of a band.
    fn place(&self, out: &mut Panel, starts: &[(u64, usize)], slabs: Range<usize>) {
        let slabs = self.actual(slabs);
        let places = out.buffers.iter_mut().zip(&mut out.slabs);
        for (field, (buffer, place)) in places.enumerate() {
            let Some(buffer) = buffer else { continue };
            let (start, alignment) = starts[field];
            let offset = start + (slabs.start * self.slab_bytes(field)) as u64;
            let lead = (offset % alignment as u64) as usize;
            *place = Slabs { start: buffer.as_mut_ptr().wrapping_add(lead), first: slabs.start };
        }
    }

    /// Writes the final slabs of a band.
    fn write(&self, out: &mut Panel, writers: &mut Writers, slabs: Range<usize>) -> Result<()> {
        if slabs.is_empty() {
            return Ok(());
        }
        self.go_on()?;
        let slabs = self.actual(slabs);
        let mut bytes = 0;
        for (field, (buffer, sink)) in out.buffers.iter_mut().zip(&mut writers.sinks).enumerate() {
            let Some(buffer) = buffer else { continue };
            let slab = self.slab_bytes(field);
            let len = slabs.len() * slab;
            timed(&self.spent.write_ns, || match sink {
                Sink::Memory(_) => Ok(()),
                Sink::Down(writer) => writer.write(&mut writers.queue, buffer.as_mut_slice(), len),
                Sink::Up(file, path, start) => {
                    let offset = *start + (slabs.start * slab) as u64;
                    let failed = |source| syncline_store::Error::File {
                        action: "write",
                        path: path.clone(),
                        source,
                    };
                    file.write_all_at(&buffer.as_slice()[..len], offset).map_err(failed)
                }
            })?;
            bytes += len as u64;
        }
        self.spent.written.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Runs the pass. Returns the greatest change of each level, if it is computed. All data that
    /// are on file are in it afterwards.
    pub(crate) fn run<E: Engine>(
        &self,
        engine: &E,
        sinks: Vec<Sink>,
        piece: usize,
    ) -> Result<Vec<f64>> {
        let norms = Mutex::new(vec![0.0; if self.norm { engine.bands().levels } else { 0 }]);
        let (walk, flight, threads) = (engine.walk(), engine.bands().flight, self.threads);
        let pieces = walk.len().div_ceil(piece).max(1);
        let reads = self.sources.iter().any(|source| matches!(source, Source::File(..)));
        let writes = sinks.iter().any(|sink| !matches!(sink, Sink::Memory(_)));
        // The byte at which each field begins, and the alignment of its buffers.
        let starts: Vec<(u64, usize)> = sinks
            .iter()
            .map(|sink| match sink {
                Sink::Down(writer) => (writer.position(), writer.file().alignment()),
                _ => (0, 1),
            })
            .collect();
        let panels = (0..flight).map(|_| self.panel(engine.bands().band));
        let panels = named("panel", panels.collect::<Result<_>>()?);
        let most = engine.bands().band;
        let outs = (0..flight).map(|_| self.outgoing(&sinks, most));
        let outs = named("rows", outs.collect::<Result<_>>()?);
        let cells: Vec<Vec<Location<()>>> =
            (0..flight).map(|r| named(&format!("band {r} piece"), vec![(); pieces])).collect();
        let reader = Location::new("reader", IoQueue::new(Method::Auto));
        let writer = Location::new("writer", Writers { sinks, queue: IoQueue::new(Method::Auto) });
        let workers = Mutex::new(Vec::new());
        // There are more workers than processors compute, as some wait for the disk.
        let processors = Semaphore::new(threads as u64);
        let mut overlay = Overlay::new();
        for r in 0..flight {
            let band_of = move |step: &Step| step.iteration() as usize * flight + r;
            if reads {
                let access = (panels[r].write(), reader.write());
                overlay.task(format!("read {r}"), access, move |(panel, queue), step| {
                    self.read(panel, queue, engine.bands().slabs_in(band_of(step)))
                });
            }
            for c in 0..pieces {
                let above = &cells[(r + flight - 1) % flight];
                let ahead = &above[(c + engine.ahead()).min(pieces - 1)];
                let access = (outs[r].write(), panels[r].read(), cells[r][c].write(), ahead.read());
                let (workers, norms, starts) = (&workers, &norms, &starts);
                let processors = &processors;
                // The first piece begins with all positions before the walk, and the last ends with
                // all after it.
                let from = if c == 0 { isize::MIN / 2 } else { walk.start + (c * piece) as isize };
                let to = match c + 1 == pieces {
                    true => isize::MAX / 2,
                    false => walk.start + ((c + 1) * piece) as isize,
                };
                overlay.task(format!("piece {r}, {c}"), access, move |(out, panel, ..), step| {
                    let band = band_of(step);
                    if band >= engine.bands().count() {
                        return Ok::<(), Error>(());
                    }
                    self.go_on()?;
                    if c == 0 {
                        self.place(out, starts, engine.bands().slabs_out(band));
                    }
                    let idle = locked(workers).pop();
                    let mut worker = match idle {
                        Some(worker) => worker,
                        None => engine.worker()?,
                    };
                    let (slabs_in, slabs_out) = (&panel.slabs[..], &out.slabs[..]);
                    let job = Job { band, range: (from, to), slabs_in, slabs_out };
                    let mut changes = vec![0.0; locked(norms).len()];
                    let wanted = self.norm.then_some(&mut changes[..]);
                    let _processor = processors.take();
                    // SAFETY: the pieces of a band run one after another, as all hold its final
                    // slabs exclusively, and each runs after the piece of the band before that is
                    // ahead, whose cell it holds inclusively; a slot has one band at a time. The
                    // panel has the slabs that come in, and no other task writes it, and there is
                    // room for the final ones; an array in memory has all slabs, and a final one is
                    // written after the values that came in there were copied. The lanes are
                    // available.
                    timed(&self.spent.update_ns, || unsafe {
                        engine.piece(&mut worker, &job, wanted);
                    });
                    let mut all = locked(norms);
                    all.iter_mut().zip(changes).for_each(|(all, one)| *all = greater(*all, one));
                    drop(all);
                    locked(workers).push(worker);
                    self.monitor.one_more();
                    Ok(())
                });
            }
            if writes {
                let access = (outs[r].write(), writer.write());
                overlay.task(format!("write {r}"), access, move |(out, writers), step| {
                    let band = band_of(step);
                    match band < engine.bands().count() {
                        true => self.write(out, writers, engine.bands().slabs_out(band)),
                        false => Ok(()),
                    }
                });
            }
        }
        let rounds = engine.bands().count().div_ceil(flight) as u64;
        let on_file = if reads || writes { 2 * flight } else { 0 };
        let runner = Runner::Pool { workers: threads + on_file, order: ReadyOrder::DepthFirst };
        let mut checked = overlay.check(Initial::Program)?;
        self.monitor.watches(checked.watch());
        checked.run(runner, Stop::after(rounds))?;
        drop(checked);
        let writers = writer.into_inner().unwrap_or_else(|_| {
            unreachable!("a finished pass holds the last reference to its writer")
        });
        for sink in writers.sinks {
            if let Sink::Down(writer) = sink {
                writer.finish()?;
            }
        }
        Ok(norms.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The files of all fields that are written.
struct Writers {
    sinks: Vec<Sink>,
    queue: IoQueue,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named<T>(name: &str, values: Vec<T>) -> Vec<Location<T>> {
    let locations = values.into_iter().enumerate();
    locations.map(|(i, value)| Location::new(format!("{name} {i}"), value)).collect()
}
