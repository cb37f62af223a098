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
//!
//! Levels of ordered rules that go to the right and levels that go to the left are run by engines
//! of their own, in one pass: the rows out of an engine are the panel of the next one, which
//! follows a full width behind.

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
use super::sums::PassSums;
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
    Down(Box<Down>),
    /// A file that is written from the last slab to the first, and the byte at which its elements
    /// begin.
    Up(File, PathBuf, u64),
}

/// A file that is written downward.
pub(crate) struct Down {
    pub(crate) writer: DirectWriter,
    /// The byte at which the first slab of the pass begins, and the end of the bytes that the pass
    /// writes.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Down {
    /// Writes those bytes of some slabs that the pass writes; returns their number. The slabs begin
    /// `skipped` bytes after the first slab of the pass. The buffer has them from byte `lead` on,
    /// aligned as in the file.
    fn write(
        &mut self,
        queue: &mut IoQueue,
        (buffer, lead): (&mut [u8], usize),
        (skipped, len): (usize, usize),
    ) -> Result<u64> {
        let bytes = self.start + skipped as u64..self.start + (skipped + len) as u64;
        let from = self.writer.position().max(bytes.start);
        let to = self.end.min(bytes.end);
        if from >= to {
            return Ok(0);
        }
        let first = lead + (from - bytes.start) as usize - self.writer.lead();
        self.writer.write(queue, &mut buffer[first..], (to - from) as usize)?;
        Ok(to - from)
    }
}

/// What a pass works on. It counts slabs from the first one that it reads.
pub(crate) struct Pass<'a> {
    pub(crate) sources: &'a [Source<'a>],
    /// The types of all arrays.
    pub(crate) elements: &'a [ElementType],
    /// Slabs, rows and columns.
    pub(crate) dims: [usize; 3],
    /// The position of its first slab in the arrays, and the slabs of which it takes sums.
    pub(crate) first: usize,
    pub(crate) own: Range<usize>,
    /// Whether the pass goes from the last slab to the first.
    pub(crate) up: bool,
    pub(crate) threads: usize,
    pub(crate) norm: bool,
    pub(crate) monitor: &'a Monitor,
    pub(crate) spent: &'a Spent,
    pub(crate) sums: &'a PassSums,
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
        timed(&self.spent.check_ns, || {
            let mut sums = locked(&self.sums.read);
            for (array, (sums, buffer)) in sums.iter_mut().zip(&panel.buffers).enumerate() {
                let (Some(sums), Some(buffer), Source::File(file, start)) =
                    (sums, buffer, &self.sources[array])
                else {
                    continue;
                };
                let slab = self.slab_bytes(array);
                let lead = file.lead(start + (slabs.start * slab) as u64);
                let place = self.first + slabs.start..self.first + slabs.end;
                sums.add(place, &buffer.as_slice()[lead..][..slabs.len() * slab]);
            }
        });
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
                Sink::Down(down) => {
                    let file = down.writer.file();
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
            // Buffers between engines begin anywhere.
            let (start, alignment) = starts.get(field).copied().unwrap_or((0, 1));
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
        let buffers = out.buffers.iter_mut().zip(&out.slabs).zip(&mut writers.sinks);
        for (field, ((buffer, place), sink)) in buffers.enumerate() {
            let Some(buffer) = buffer else { continue };
            let slab = self.slab_bytes(field);
            let (lead, len) = (place.start.addr() - buffer.as_ptr().addr(), slabs.len() * slab);
            if let Some(sums) = locked(&self.sums.written).get_mut(field) {
                let clip = |slab: usize| slab.clamp(self.own.start, self.own.end);
                let own = clip(slabs.start)..clip(slabs.end);
                let from = lead + own.start.saturating_sub(slabs.start) * slab;
                let bytes = &buffer.as_slice()[from..][..own.len() * slab];
                let own = self.first + own.start..self.first + own.end;
                timed(&self.spent.check_ns, || sums.add(own, bytes));
            }
            let skipped = slabs.start * slab;
            bytes += timed(&self.spent.write_ns, || match sink {
                Sink::Memory(_) => Ok(0),
                Sink::Down(down) => {
                    let buffer = (buffer.as_mut_slice(), lead);
                    down.write(&mut writers.queue, buffer, (skipped, len))
                }
                Sink::Up(file, path, start) => {
                    let failed = |source| syncline_store::Error::File {
                        action: "write",
                        path: path.clone(),
                        source,
                    };
                    file.write_all_at(&buffer.as_slice()[..len], *start + skipped as u64)
                        .map_err(failed)?;
                    Ok(len as u64)
                }
            })?;
        }
        self.spent.written.fetch_add(bytes, Relaxed);
        self.monitor.moved(bytes);
        Ok(())
    }

    /// Returns buffers for the slabs of all arrays that one engine passes on to the next. Arrays in
    /// memory that never change need none.
    fn between(&self, fields: usize, band: usize) -> Result<Panel> {
        let mut panel = Panel { buffers: Vec::new(), slabs: Vec::new() };
        for (array, source) in self.sources.iter().enumerate() {
            let (buffer, place) = match source {
                Source::Memory(all) if array >= fields => (None, *all),
                _ => {
                    let empty = Slabs { start: std::ptr::null_mut(), first: 0 };
                    (Some(IoBuffer::new(band * self.slab_bytes(array))?), empty)
                }
            };
            panel.buffers.push(buffer);
            panel.slabs.push(place);
        }
        Ok(panel)
    }

    /// Runs the pass, by engines that continue one another. Each has pieces of its number of
    /// positions. Returns the greatest change of each level, if it is computed. All data that are
    /// on file are in it afterwards.
    pub(crate) fn run<E: Engine>(
        &self,
        engines: &[(E, usize)],
        sinks: Vec<Sink>,
    ) -> Result<Vec<f64>> {
        let (Some((first, _)), Some((last, _))) = (engines.first(), engines.last()) else {
            return Ok(Vec::new());
        };
        let levels: usize = engines.iter().map(|(engine, _)| engine.bands().levels).sum();
        let norms = Mutex::new(vec![0.0; if self.norm { levels } else { 0 }]);
        let (flight, most, fields) = (first.bands().flight, first.bands().band, sinks.len());
        let bands = last.bands().count();
        let reads = self.sources.iter().any(|source| matches!(source, Source::File(..)));
        let writes = sinks.iter().any(|sink| !matches!(sink, Sink::Memory(_)));
        // The byte at which the slabs of each field begin, and the alignment of its buffers.
        let starts: Vec<(u64, usize)> = sinks
            .iter()
            .map(|sink| match sink {
                Sink::Down(down) => (down.start, down.writer.file().alignment()),
                _ => (0, 1),
            })
            .collect();
        // What each engine reads in each slot; the last row is what the last one writes.
        let mut panels = vec![named("panel", many(flight, || self.panel(most))?)];
        for _ in 1..engines.len() {
            panels.push(named("between", many(flight, || self.between(fields, most))?));
        }
        panels.push(named("rows", many(flight, || self.outgoing(&sinks, most))?));
        let reader = Location::new("reader", IoQueue::new(Method::Auto));
        let writer = Location::new("writer", Writers { sinks, queue: IoQueue::new(Method::Auto) });
        // There are more workers than processors compute, as some wait for the disk.
        let processors = Semaphore::new(self.threads as u64);
        let mut stages = Vec::new();
        let mut level = 0;
        for (engine, piece) in engines {
            let pieces = engine.walk().len().div_ceil(*piece).max(1);
            let cells = |r| named(&format!("band {r} piece"), vec![(); pieces]);
            stages.push(Stage {
                pass: self,
                engine,
                piece: *piece,
                cells: (0..flight).map(cells).collect(),
                workers: Mutex::new(Vec::new()),
                levels: level..level + engine.bands().levels,
                norms: &norms,
                starts: if stages.len() + 1 == engines.len() { &starts } else { &[] },
                processors: &processors,
            });
            level += engine.bands().levels;
        }
        let mut overlay = Overlay::new();
        for (r, panel) in panels[0].iter().enumerate() {
            let band_of = move |step: &Step| step.iteration() as usize * flight + r;
            if reads {
                let access = (panel.write(), reader.write());
                overlay.task(format!("read {r}"), access, move |(panel, queue), step| {
                    self.read(panel, queue, first.bands().slabs_in(band_of(step)))
                });
            }
            for (s, stage) in stages.iter().enumerate() {
                let (cells, above) = (&stage.cells[r], &stage.cells[(r + flight - 1) % flight]);
                for c in 0..cells.len() {
                    let ahead = &above[(c + stage.engine.ahead()).min(cells.len() - 1)];
                    let (from, to) = (&panels[s][r], &panels[s + 1][r]);
                    let access = (to.write(), from.read(), cells[c].write(), ahead.read());
                    let name = match s {
                        0 => format!("piece {r}, {c}"),
                        _ => format!("piece {r}, {c} of engine {s}"),
                    };
                    overlay.task(name, access, move |(out, panel, ..), step| match band_of(step) {
                        band if band < bands => stage.piece(out, panel, band, c),
                        _ => Ok(()),
                    });
                }
            }
            if writes {
                let access = (panels[engines.len()][r].write(), writer.write());
                overlay.task(
                    format!("write {r}"),
                    access,
                    move |(out, writers), step| match band_of(step) {
                        band if band < bands => {
                            self.write(out, writers, last.bands().slabs_out(band))
                        }
                        _ => Ok(()),
                    },
                );
            }
        }
        let on_file = if reads || writes { 2 * flight } else { 0 };
        let runner =
            Runner::Pool { workers: self.threads + on_file, order: ReadyOrder::DepthFirst };
        let mut checked = overlay.check(Initial::Program)?;
        self.monitor.watches(checked.watch());
        checked.run(runner, Stop::after(bands.div_ceil(flight) as u64))?;
        drop(checked);
        drop(stages);
        let writers = writer.into_inner().unwrap_or_else(|_| {
            unreachable!("a finished pass holds the last reference to its writer")
        });
        for sink in writers.sinks {
            if let Sink::Down(down) = sink {
                down.writer.finish()?;
            }
        }
        Ok(norms.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One engine of a pass.
struct Stage<'s, E: Engine> {
    pass: &'s Pass<'s>,
    engine: &'s E,
    /// The number of positions of a piece.
    piece: usize,
    cells: Vec<Vec<Location<()>>>,
    workers: Mutex<Vec<E::Worker<'s>>>,
    /// Its levels among those of the pass.
    levels: Range<usize>,
    norms: &'s Mutex<Vec<f64>>,
    /// The byte at which each field begins, and the alignment of its buffers, for the last engine.
    starts: &'s [(u64, usize)],
    processors: &'s Semaphore,
}

impl<E: Engine> Stage<'_, E> {
    /// Runs one piece of a band.
    fn piece(&self, out: &mut Panel, panel: &Panel, band: usize, c: usize) -> Result<()> {
        let (pass, engine, walk) = (self.pass, self.engine, self.engine.walk());
        pass.go_on()?;
        if c == 0 {
            pass.place(out, self.starts, engine.bands().slabs_out(band));
        }
        let idle = locked(&self.workers).pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => engine.worker()?,
        };
        // The first piece begins with all positions before the walk, and the last ends with all
        // after it.
        let from = if c == 0 { isize::MIN / 2 } else { walk.start + (c * self.piece) as isize };
        let to = match c + 1 == self.cells[0].len() {
            true => isize::MAX / 2,
            false => walk.start + ((c + 1) * self.piece) as isize,
        };
        let (slabs_in, slabs_out) = (&panel.slabs[..], &out.slabs[..]);
        let job = Job { band, range: (from, to), slabs_in, slabs_out };
        let mut changes = vec![0.0; if pass.norm { self.levels.len() } else { 0 }];
        let wanted = pass.norm.then_some(&mut changes[..]);
        {
            let _processor = self.processors.take();
            // SAFETY: the pieces of a band run one after another, as all hold its final slabs
            // exclusively, and each runs after the piece of the band before that is ahead, whose
            // cell it holds inclusively; a slot has one band at a time. The panel has the slabs
            // that come in, and no other task writes it, and there is room for the final ones; an
            // array in memory has all slabs, and a final one is written after the values that came
            // in there were copied. The lanes are available.
            timed(&pass.spent.update_ns, || unsafe { engine.piece(&mut worker, &job, wanted) });
        }
        if pass.norm {
            let mut all = locked(self.norms);
            let own = all[self.levels.clone()].iter_mut();
            own.zip(changes).for_each(|(all, one)| *all = greater(*all, one));
        }
        locked(&self.workers).push(worker);
        pass.monitor.one_more();
        Ok(())
    }
}

/// Returns `n` values.
fn many<T>(n: usize, make: impl Fn() -> Result<T>) -> Result<Vec<T>> {
    (0..n).map(|_| make()).collect()
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
