//! One pass of a rule over its arrays, as an overlay.
//!
//! # The overlay
//! Band `b` is in slot `b mod flight`; a task recurs once in every round of the slots. Tasks access
//! these locations, exclusively (X) or inclusively (I); `ahead` is 0 for explicit rules and 1 for
//! all others:
//!
//! | task       | reader | panel | sums n | rows out | cell (r, c) | cell (r - 1, c + ahead) | writer |
//! |------------|--------|-------|--------|----------|-------------|-------------------------|--------|
//! | read r     | X      | X     |        |          |             |                         |        |
//! | check n, r |        | I     | X      |          |             |                         |        |
//! | piece r, c |        | I     |        | X        | X           | I                       |        |
//! | write r    |        |       |        | X        |             |                         | X      |
//!
//! So the workers follow one another down the field, each on its own band. A panel has the slabs of
//! a band of all arrays on file; arrays in memory are accessed where they are. The sums of array `n`
//! are taken, or compared with those of the pass that wrote it, beside the pieces that read it.
//! Reads run ahead as far as there are slots. All order is in the queues of the locations, which
//! are set up once, in program order.
//!
//! Levels of ordered rules that go to different sides are run by engines of their own, in one pass,
//! if all go down or all go up: the rows out of an engine are the panel of the next one, which
//! follows a full width behind.
//!
//! # On a team
//! Members that have columns run one overlay, in which each has readers, panels, cells and writers
//! of its own. These locations have data that travel, for each slot:
//!
//! | location | written by                              | read by                                 |
//! |----------|-----------------------------------------|-----------------------------------------|
//! | forward  | the last piece of the member before a   | the first piece of the member after it  |
//! |          | cut                                     |                                         |
//! | back     | the first piece of the member after it  | the last piece of the member before it, |
//! |          |                                         | in the next slot                        |
//! | margin   | the last piece of a member              | a task of its neighbour, before its     |
//! |          |                                         | pieces of the next engine               |
//! | edge     | the write of a member                   | a task of the member that writes the    |
//! |          |                                         | block                                   |
//!
//! All other passes of members are passes of one process.

pub(crate) mod buffers;
#[cfg(test)]
mod counters;
mod data;
pub(crate) mod sums;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};
use std::time::Instant;

use syncline_fabric::Member;
use syncline_overlay::plan::Task;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, run::ReadyOrder};
use syncline_store::ElementType;
use syncline_store::direct_io::{IoQueue, Method};

use self::buffers::Buffers;
pub(crate) use self::data::{Down, Sink, Source};
use self::data::{Outgoing, Panel, Writers};
use crate::engine::{Bands, Crossing, Engine, Job, Worker};
use crate::engines::ordered::Part;
use crate::monitor::Monitor;
use crate::pass::sums::{PassSums, SlabSums};
use crate::rule::{Around, greater};
use crate::semaphore::Semaphore;
use crate::streamed::team::all;
use crate::streamed::{Spent, add, timed};
use crate::team::columns::Columns;
use crate::{Error, Result};

/// What a pass works on. It counts slabs from the first one that it reads.
pub(crate) struct Pass<'a> {
    pub(crate) sources: &'a [Source<'a>],
    /// The types of all arrays: the fields, of which there are `fields`, then the coefficients.
    pub(crate) elements: &'a [ElementType],
    pub(crate) fields: usize,
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
    pub(crate) around: Option<&'a Around>,
    pub(crate) spent: &'a Spent,
    /// The buffers of the passes before this one.
    pub(crate) buffers: &'a Buffers,
    /// Compares the sum of a unit of a field with that of the pass which wrote it.
    pub(crate) expected: Option<&'a Expected<'a>>,
    /// The iterations before this pass.
    pub(crate) before: u64,
    /// On a team whose members have columns of all slabs: those, and the number of this member.
    pub(crate) team: Option<(&'a Columns, usize)>,
}

/// Returns an error if the sum of a unit, of which each field has the same number, is not that of
/// the pass that wrote it: of the field, of the unit, and the sum.
pub(crate) type Expected<'a> = dyn Fn(usize, usize, u64) -> Result<()> + Sync + 'a;

/// What crosses the cuts of an engine: for each cut in the order of the direction and each slot,
/// forward and back.
type Cuts = Vec<[Vec<Location<[u8]>>; 2]>;

/// The locations of one engine.
struct StagePlaces {
    /// For each member, slot and piece.
    cells: Vec<Vec<Vec<Location<()>>>>,
    cuts: Cuts,
    /// For each pair of neighbours and each slot, what the next engine reads.
    margins: Vec<Message>,
}

/// Bytes that one member gives another one.
struct Message {
    from: usize,
    to: usize,
    /// For each slot.
    bytes: Vec<Location<[u8]>>,
}

/// The locations of a pass. Those of other members are empty.
struct Places {
    /// For each member and each engine, and for the last rows, in each slot.
    panels: Vec<Vec<Vec<Location<Panel>>>>,
    readers: Vec<Location<IoQueue>>,
    /// For each member, the sums of the arrays that are read, with the numbers of these.
    sums: Vec<Vec<(usize, Location<SlabSums>)>>,
    writers: Vec<Location<Writers>>,
    stages: Vec<StagePlaces>,
    /// The parts of blocks that another member writes, of each field.
    edges: Vec<(usize, Message)>,
}

impl Pass<'_> {
    /// Returns the numbers of the member and of all.
    fn ranks(&self) -> (usize, usize) {
        self.team.map_or((0, 1), |(columns, rank)| (rank, columns.members()))
    }

    /// Runs the pass, by engines that continue one another. Each has pieces of its number of
    /// positions. Returns the greatest change of each level, if it is computed. All data that are
    /// on file are in it afterwards.
    ///
    /// # Collective
    /// On a team with columns of its members all call it.
    pub(crate) fn run(
        &self,
        engines: &[(Box<dyn Engine + '_>, usize)],
        sinks: Vec<Sink>,
        sums: &mut PassSums,
        mut me: Option<&mut Member>,
    ) -> Result<Vec<f64>> {
        let levels: usize = engines.iter().map(|(engine, _)| engine.bands().levels).sum();
        let norms = Mutex::new(vec![0.0; if self.norm { levels } else { 0 }]);
        // There are more workers than processors compute, as some wait for the disk.
        let processors = Semaphore::new(self.threads as u64);
        let (Some((first, _)), Some((last, _))) = (engines.first(), engines.last()) else {
            return Ok(Vec::new());
        };
        let (flight, bands, fields) = (first.bands().flight, last.bands().count(), sinks.len());
        let reads = self.sources.iter().any(|source| matches!(source, Source::File(..)));
        let writes = sinks.iter().any(|sink| !matches!(sink, Sink::Memory(_)));
        let outgoing: Vec<Outgoing> = sinks.iter().map(Sink::outgoing).collect();
        let (mut stages, mut level) = (Vec::new(), 0);
        for (n, (engine, piece)) in engines.iter().enumerate() {
            stages.push(Stage {
                pass: self,
                engine: &**engine,
                piece: *piece,
                workers: Mutex::new(Vec::new()),
                levels: level..level + engine.bands().levels,
                norms: &norms,
                outgoing: if n + 1 == engines.len() { &outgoing } else { &[] },
                fields,
                processors: &processors,
            });
            level += engine.bands().levels;
        }
        let places = self.places(&stages, sinks, sums);
        let mut places = match me.as_deref_mut() {
            Some(me) => all(me, places)?,
            None => places?,
        };
        let overlay = self.overlay(&stages, &places, (reads, writes));
        let on_file = if reads || writes { 2 * flight } else { 0 };
        // Members may have different numbers of threads, but run one overlay.
        let computing = if self.team.is_some() { flight } else { self.threads };
        let workers = computing + on_file;
        let runner = Runner::Pool { workers, order: ReadyOrder::DepthFirst };
        let stop = Stop::after(bands.div_ceil(flight) as u64);
        let mut checked = overlay.check(Initial::Program)?;
        self.monitor.watches(checked.watch());
        let done = match me {
            Some(me) => checked.run_on(me, runner, stop).map(drop),
            None => checked.run(runner, stop).map(drop),
        };
        drop(checked);
        done?;
        let rank = self.ranks().0;
        let (writer, read) = (places.writers.swap_remove(rank), places.sums.swap_remove(rank));
        let panels = places.panels.swap_remove(rank).into_iter().flatten();
        drop((places, stages));
        let panels = panels.flat_map(|panel| inner(panel).into_buffers());
        self.buffers.give(panels);
        for (array, of_array) in read {
            sums.read[array] = Some(inner(of_array));
        }
        sums.written = inner(writer).finish()?;
        Ok(norms.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn places(
        &self,
        stages: &[Stage<'_>],
        sinks: Vec<Sink>,
        sums: &mut PassSums,
    ) -> Result<Places> {
        let ((rank, members), fields) = (self.ranks(), sinks.len());
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else {
            unreachable!("a pass has an engine")
        };
        let flight = first.engine.bands().flight;
        let most = first.engine.bands().most_slabs();
        let mut panels = Vec::new();
        for member in 0..members {
            let own = member == rank;
            let made = |name: &str, make: &dyn Fn() -> Result<Panel>| {
                let make = || if own { make() } else { Ok(Panel::default()) };
                Ok::<_, Error>(named(&format!("{name} of {member}"), many(flight, make)?))
            };
            // What each engine reads in each slot; the last row is what the last one writes.
            let mut rows = vec![made("panel", &|| self.panel(most))?];
            for _ in 1..stages.len() {
                rows.push(made("between", &|| self.between(fields, most))?);
            }
            let bands = last.engine.bands();
            let out = || self.outgoing(&sinks, most, bands);
            rows.push(made("rows", &out)?);
            panels.push(rows);
        }
        let edges = self.edges(&sinks, last.engine.bands());
        let message = |from, to, len: usize, name: &str| {
            let name = |r| format!("{name} of {from} for {to}, {r}");
            let bytes = (0..flight).map(|r| Location::absent(name(r), len.max(1))).collect();
            Message { from, to, bytes }
        };
        let of_stage = |(n, stage): (usize, &Stage<'_>)| {
            let cells = |member: usize| {
                let cells = |r| {
                    let name = format!("band {r} of {member} in {n}, piece");
                    named(&name, vec![(); stage.pieces(member).len()])
                };
                (0..flight).map(cells).collect()
            };
            let cut = |cut: usize| {
                let bytes = stage.engine.crossing_bytes(cut);
                [("forward", bytes[0]), ("back", bytes[1])].map(|(way, bytes)| {
                    let name = |r| format!("values {way} at {cut} in {n}, {r}");
                    (0..flight).map(|r| Location::absent(name(r), bytes.max(1))).collect()
                })
            };
            let pairs = (1..members).flat_map(|right| [(right - 1, right), (right, right - 1)]);
            let margins = pairs.filter(|_| n + 1 < stages.len()).map(|(from, to)| {
                let len = self.margin_bytes((from, to), fields, most);
                message(from, to, len, &format!("margin {n}"))
            });
            StagePlaces {
                cells: (0..members).map(cells).collect(),
                cuts: (1..members).map(|nth| cut(nth - 1)).collect(),
                margins: margins.collect(),
            }
        };
        let edges = edges.into_iter().map(|(field, from, to, most)| {
            (field, message(from, to, 8 + most, &format!("edge {field}")))
        });
        let edges = edges.collect();
        let stages = stages.iter().enumerate().map(of_stage).collect();
        let queue = || IoQueue::new(Method::Auto);
        let reader = |member| Location::new(format!("reader of {member}"), queue());
        let mut given = Some((sinks, std::mem::take(&mut sums.written)));
        let writer = |member| {
            let (sinks, sums) = given.take_if(|_| member == rank).unwrap_or_default();
            let writers = Writers { sinks, sums, queue: queue() };
            Location::new(format!("writer of {member}"), writers)
        };
        let mut read = std::mem::take(&mut sums.read);
        let wanted = read.iter().enumerate().filter(|(_, sums)| sums.is_some());
        let wanted: Vec<usize> = wanted.map(|(array, _)| array).collect();
        let mut sums_of = |member: usize| {
            let of_array = |&array: &usize| {
                let own = read[array].take_if(|_| member == rank);
                let sums = own.unwrap_or_else(|| SlabSums::new(1, 0));
                (array, Location::new(format!("sums of array {array} of {member}"), sums))
            };
            wanted.iter().map(of_array).collect()
        };
        sums.read = vec![None; self.sources.len()];
        Ok(Places {
            panels,
            readers: (0..members).map(reader).collect(),
            sums: (0..members).map(&mut sums_of).collect(),
            writers: (0..members).map(writer).collect(),
            stages,
            edges,
        })
    }

    /// Declares all tasks, slot by slot; those of other members have bodies as well, which do not
    /// run here.
    fn overlay<'o, 's: 'o>(
        &'o self,
        stages: &'o [Stage<'s>],
        places: &Places,
        (reads, writes): (bool, bool),
    ) -> Overlay<'o> {
        let ((_, members), mut overlay) = (self.ranks(), Overlay::new());
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return overlay };
        let flight = first.engine.bands().flight;
        let bands = last.engine.bands().count();
        for r in 0..flight {
            let band_of = move |step: &Step| step.iteration() as usize * flight + r;
            for member in (0..members).filter(|_| reads) {
                let (panel, reader) = (&places.panels[member][0][r], &places.readers[member]);
                let access = (panel.write(), reader.write());
                let name = format!("read {r} of {member}");
                let task = overlay.task(name, access, move |(panel, queue), step| {
                    self.read(panel, queue, first.engine.bands().slabs_in(band_of(step)))
                });
                self.put(&mut overlay, task, member);
                for (array, sums) in &places.sums[member] {
                    let (name, array) = (format!("check {array}, {r} of {member}"), *array);
                    let access = (panel.read(), sums.write());
                    let task = overlay.task(name, access, move |(panel, sums), step| {
                        self.check(panel, sums, array, first.engine.bands().slabs_in(band_of(step)))
                    });
                    self.put(&mut overlay, task, member);
                }
            }
            for n in 0..stages.len() {
                self.stage_tasks(&mut overlay, stages, places, n, r);
            }
            for member in (0..members).filter(|_| writes) {
                let edges = || places.edges.iter().filter(move |(_, edge)| edge.from == member);
                let to: Vec<_> = edges().map(|(field, edge)| (*field, edge.to)).collect();
                let messages: Vec<_> = edges().map(|(_, edge)| edge.bytes[r].write()).collect();
                let out = &places.panels[member][stages.len()][r];
                let access = (out.write(), places.writers[member].write(), messages);
                let name = format!("write {r} of {member}");
                let task = overlay.task(name, access, move |(out, writers, mut edges), step| {
                    let band = band_of(step);
                    if band < bands {
                        self.write(out, writers, last.engine.bands().slabs_out(band))?;
                    }
                    writers.give_edges(to.iter().copied().zip(edges.iter_mut()));
                    Ok::<_, Error>(())
                });
                self.put(&mut overlay, task, member);
            }
            for member in 0..members {
                let edges = || places.edges.iter().filter(move |(_, edge)| edge.to == member);
                let of: Vec<usize> = edges().map(|(field, _)| *field).collect();
                if of.is_empty() {
                    continue;
                }
                let messages: Vec<_> = edges().map(|(_, edge)| edge.bytes[r].read()).collect();
                let access = (places.writers[member].write(), messages);
                let name = format!("edges {r} of {member}");
                let task = overlay.task(name, access, move |(writers, edges), _| {
                    timed(&self.spent.write_ns, || {
                        writers.take_edges(of.iter().copied().zip(edges.iter()))
                    })
                });
                self.put(&mut overlay, task, member);
            }
        }
        overlay
    }

    /// Declares the pieces of one engine in a slot, in the order of its direction, and the tasks
    /// that take the margins for the next engine.
    fn stage_tasks<'o, 's: 'o>(
        &'o self,
        overlay: &mut Overlay<'o>,
        stages: &'o [Stage<'s>],
        places: &Places,
        n: usize,
        r: usize,
    ) {
        let (members, stage, own) = (self.ranks().1, &stages[n], &places.stages[n]);
        let flight = stage.engine.bands().flight;
        let bands = stages[stages.len() - 1].engine.bands().count();
        let band_of = move |step: &Step| step.iteration() as usize * flight + r;
        let before = (r + flight - 1) % flight;
        for nth in 0..members {
            let member = stage.member(nth);
            let (cells, above) = (&own.cells[member][r], &own.cells[member][before]);
            let panels = &places.panels[member];
            for (c, range) in stage.pieces(member).into_iter().enumerate() {
                let (starts, ends) = (c == 0 && nth > 0, c + 1 == cells.len() && nth + 1 < members);
                let from_before = starts.then(|| own.cuts[nth - 1][0][r].read());
                let to_before = starts.then(|| own.cuts[nth - 1][1][r].write());
                let to_after = ends.then(|| own.cuts[nth][0][r].write());
                let from_after = ends.then(|| own.cuts[nth][1][before].read());
                let gives = own.margins.iter().filter(|m| m.from == member);
                let gives: Vec<&Message> = gives.filter(|_| c + 1 == cells.len()).collect();
                let to: Vec<usize> = gives.iter().map(|margin| margin.to).collect();
                let margins: Vec<_> = gives.iter().map(|margin| margin.bytes[r].write()).collect();
                let ahead = (c + stage.engine.ahead()).min(cells.len() - 1);
                // A single slot has one band after the other.
                let ahead = (flight > 1 || ahead != c).then(|| above[ahead].read());
                let access = (
                    (panels[n + 1][r].write(), panels[n][r].read()),
                    (cells[c].write(), ahead),
                    ([from_before, from_after], [to_before, to_after]),
                    margins,
                );
                let name = format!("piece {r}, {c} of {member} in {n}");
                let task =
                    overlay.task(name, access, move |(data, _, crossed, mut margins), step| {
                        let ((out, panel), band) = (data, band_of(step));
                        if band >= bands {
                            return Ok(());
                        }
                        let ([from_before, from_after], [to_before, to_after]) = crossed;
                        let crossing = Crossing { from_before, from_after, to_before, to_after };
                        stage.piece(out, panel, band, (c, range), crossing)?;
                        for (&to, margin) in to.iter().zip(margins.iter_mut()) {
                            stage.give_margin(out, band, to, margin);
                        }
                        Ok::<_, Error>(())
                    });
                self.put(overlay, task, member);
            }
        }
        for member in 0..members {
            let takes = || own.margins.iter().filter(move |margin| margin.to == member);
            let from: Vec<usize> = takes().map(|margin| margin.from).collect();
            if from.is_empty() {
                continue;
            }
            let margins: Vec<_> = takes().map(|margin| margin.bytes[r].read()).collect();
            let access = (places.panels[member][n + 1][r].write(), margins);
            let name = format!("margins {r} of {member} in {n}");
            let task = overlay.task(name, access, move |(panel, margins), step| {
                let margins = from.iter().copied().zip(margins.iter());
                let band = band_of(step);
                for (from, margin) in margins.filter(|_| band < bands) {
                    stage.take_margin(panel, band, from, margin);
                }
            });
            self.put(overlay, task, member);
        }
    }

    /// Gives a task to its member, on a team.
    fn put(&self, overlay: &mut Overlay<'_>, task: Task, member: usize) {
        if self.team.is_some() {
            overlay.place(task, member);
        }
    }

    /// Returns the fields and members that give parts of blocks to others, which write them, with
    /// the greatest number of bytes for a band.
    fn edges(&self, sinks: &[Sink], bands: &Bands) -> Vec<(usize, usize, usize, usize)> {
        let (members, mut most) = (self.ranks().1, BTreeMap::new());
        for (field, sink) in sinks.iter().enumerate() {
            let Sink::Columns(_, share) = sink else { continue };
            for band in 0..bands.count() {
                let rows = self.file_rows(&self.actual(bands.slabs_out(band)));
                for from in 0..members {
                    for (to, bytes) in share.edges_from(rows.clone(), from) {
                        let most = most.entry((field, from, to)).or_insert(0);
                        *most = bytes.max(*most);
                    }
                }
            }
        }
        most.into_iter().map(|((field, from, to), most)| (field, from, to, most)).collect()
    }
}

/// One engine of a pass.
struct Stage<'s> {
    pass: &'s Pass<'s>,
    engine: &'s dyn Engine,
    /// The number of positions of a piece.
    piece: usize,
    workers: Mutex<Vec<Box<dyn Worker + 's>>>,
    /// Its levels among those of the pass.
    levels: Range<usize>,
    norms: &'s Mutex<Vec<f64>>,
    /// Where each field goes, for the last engine.
    outgoing: &'s [Outgoing],
    fields: usize,
    processors: &'s Semaphore,
}

impl Stage<'_> {
    /// Returns the `nth` member in the order of the direction.
    fn member(&self, nth: usize) -> usize {
        self.engine.part().map_or(nth, |part| part.nth(nth))
    }

    /// Returns the positions of the pieces of a member.
    fn pieces(&self, member: usize) -> Vec<(isize, isize)> {
        pieces(self.engine.walk(), self.engine.part().map(|part| (part, member)), self.piece)
    }

    /// Runs one piece of a band.
    fn piece(
        &self,
        out: &mut Panel,
        panel: &Panel,
        band: usize,
        (c, range): (usize, (isize, isize)),
        mut crossing: Crossing<'_>,
    ) -> Result<()> {
        let (pass, engine) = (self.pass, self.engine);
        pass.go_on()?;
        if c == 0 {
            pass.place(out, self.outgoing, engine.bands().slabs_out(band));
        }
        let idle = locked(&self.workers).pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => engine.worker()?,
        };
        let (slabs_in, slabs_out) = (&panel.slabs[..], &out.slabs[..]);
        let job = Job { band, range, slabs_in, slabs_out, monitor: pass.monitor };
        let levels = engine.levels_in(band);
        let mut changes = vec![0.0; if pass.norm { levels.len() } else { 0 }];
        let mut wanted = pass.norm.then_some(&mut changes[..]);
        // Before what is around the piece: what waits for a processor holds nothing else.
        let processor = self.processors.take();
        let mut ran = false;
        let mut run = || {
            // Once, whatever is around the piece.
            if std::mem::replace(&mut ran, true) {
                return;
            }
            let begun = Instant::now();
            // SAFETY: the pieces of a band run one after another, as all hold its final slabs
            // exclusively, and each runs after the piece of the band before that is ahead, whose
            // cell it holds inclusively; a slot has one band at a time. The panel has the slabs
            // that come in, and no other task writes it, and there is room for the final ones; an
            // array in memory has all slabs, and a final one is written after the values that came
            // in there were copied. The pieces at a cut hold what crosses it, in the order of all
            // members. The lanes are available.
            let packed = unsafe { worker.piece(&job, &mut crossing, wanted.as_deref_mut()) };
            add(&pass.spent.pack_ns, packed);
            add(&pass.spent.update_ns, begun.elapsed().saturating_sub(packed));
        };
        if let Some(Around(around)) = pass.around {
            around(&mut run);
        }
        run();
        drop(processor);
        // The piece may have ended early.
        pass.go_on()?;
        if pass.norm {
            let mut all = locked(self.norms);
            let own = all[self.levels.clone()][levels].iter_mut();
            own.zip(changes).for_each(|(all, one)| *all = greater(*all, one));
        }
        let Crossing { to_before, to_after, .. } = crossing;
        let given = [to_before, to_after].into_iter().flatten().map(|given| given.len() as u64);
        pass.spent.exchanged.fetch_add(given.sum(), Relaxed);
        locked(&self.workers).push(worker);
        pass.monitor.one_more();
        Ok(())
    }

    /// Gives another member its margin of the final slabs of a band, after all pieces.
    fn give_margin(&self, out: &Panel, band: usize, to: usize, margin: &mut [u8]) {
        let (slabs, between) = (self.engine.bands().slabs_out(band), (self.pass.ranks().0, to));
        // SAFETY: the task holds the final slabs of the band exclusively, after its last piece.
        unsafe { self.pass.give_margin(out, (between, self.fields), slabs, margin) };
        self.pass.spent.exchanged.fetch_add(margin.len() as u64, Relaxed);
    }

    /// Takes the margin of the final slabs of a band from another member.
    fn take_margin(&self, panel: &Panel, band: usize, from: usize, margin: &[u8]) {
        let (slabs, between) = (self.engine.bands().slabs_out(band), (from, self.pass.ranks().0));
        // SAFETY: the task holds the panel exclusively.
        unsafe { self.pass.take_margin(panel, (between, self.fields), slabs, margin) };
    }
}

/// Returns the positions of the pieces of a walk, or of the part of a member: each has `piece`
/// positions. The first one begins with all positions before the walk, and the last one ends with
/// all after it. The last one of a part is longer instead of one that is shorter.
pub(super) fn pieces(
    walk: Range<isize>,
    part: Option<(&Part, usize)>,
    piece: usize,
) -> Vec<(isize, isize)> {
    let (start, end) = match part {
        Some((part, member)) => part.positions(member),
        None => (isize::MIN / 2, isize::MAX / 2),
    };
    let inside = start.max(walk.start)..end.min(walk.end);
    let count = match part {
        Some(_) => inside.len() / piece,
        None => inside.len().div_ceil(piece),
    };
    let cut = |c: usize| inside.start + (c * piece) as isize;
    let count = count.max(1);
    (0..count)
        .map(|c| {
            let start = if c == 0 { start } else { cut(c) };
            (start, if c + 1 == count { end } else { cut(c + 1) })
        })
        .collect()
}

/// Returns `n` values.
fn many<T>(n: usize, make: impl Fn() -> Result<T>) -> Result<Vec<T>> {
    (0..n).map(|_| make()).collect()
}

/// Returns the value of a location of a pass that has ended.
fn inner<T>(location: Location<T>) -> T {
    location
        .into_inner()
        .unwrap_or_else(|_| unreachable!("a finished pass holds the last reference to its data"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn named<T>(name: &str, values: Vec<T>) -> Vec<Location<T>> {
    let locations = values.into_iter().enumerate();
    locations.map(|(i, value)| Location::new(format!("{name} {i}"), value)).collect()
}
