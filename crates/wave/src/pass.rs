//! One pass over the arrays of a run, as an overlay: the same for all engines.
//!
//! # The overlay
//! Band `b` is in slot `b mod flight`; a task recurs once in every round of the slots. Tasks access
//! these locations, exclusively (X) or inclusively (I); `ahead` is 0 for explicit rules and 1 for
//! all others:
//!
//! | task       | reader | panel | sums n | rows out | cell (r, c) | (r - 1, c + ahead) | writer |
//! |------------|--------|-------|--------|----------|-------------|--------------------|--------|
//! | read r     | X      | X     |        |          |             |                    |        |
//! | check n, r |        | I     | X      |          |             |                    |        |
//! | piece r, c |        | I     |        | X        | X           | I                  |        |
//! | sum r      |        |       | X      | I        |             |                    |        |
//! | write r    |        |       |        | X        |             |                    | X      |
//!
//! So the workers follow one another down the field, each on its own band. A panel has the slabs of
//! a band of all arrays on file; arrays in memory are accessed where they are. The sums of array
//! `n` are taken, or compared with those of the pass that wrote it, beside the pieces that read it.
//! Reads run ahead as far as there are slots. All order is in the queues of the locations, which
//! are set up once, in program order.
//!
//! Levels of ordered rules that go to different sides are run by engines of their own, in one pass,
//! if all go down or all go up: the rows out of an engine are the panel of the next one, which
//! follows a full width behind.
//!
//! # On a team
//! Members that have columns run one overlay. Consecutive members of a host are a *group*
//! ([`groups`](crate::team::groups)): they share the panels and the final slabs, in memory of the
//! host, so each row is read, and written, by one request. The members of a group read in turn,
//! each checks and sums its columns ([`sums`](crate::team::sums)), and the last one writes. A write
//! holds the rows out of all members of the group. Cells and what one engine passes on to the next
//! are those of each member. These locations have data that travel, for each slot:
//!
//! | location | written by                              | read by                                 |
//! |----------|-----------------------------------------|-----------------------------------------|
//! | forward  | the last piece of the member before a   | the first piece of the member after it  |
//! |          | cut                                     |                                         |
//! | back     | the first piece of the member after it  | the last piece of the member before it, |
//! |          |                                         | in the next slot                        |
//! | margin   | the last piece of a member              | a task of its neighbour, before its     |
//! |          |                                         | pieces of the next engine               |
//! | edge     | the write of a group                    | a task of the group that writes the     |
//! |          |                                         | block                                   |
//! | final    | a task of a member, with its rows out   | a task of each other member, which puts |
//! | values   |                                         | them into its memory, if all get all    |
//!
//! With what goes back travels the progress of the members after the cut: so the first member can
//! show that of all. All other passes of members are passes of one process.
//!
//! # Why the queues of locations order everything
//! All order among reads, checks, pieces and writes is in the queues of locations; a semaphore
//! bounds the number of threads that compute. So the check of the overlay excludes deadlock, and an
//! error or Ctrl-C ends a pass as it ends any overlay. A counter per band, which the band below
//! polls, would suffice for the pieces; but it is a protocol of its own, with a sleep and an end of
//! its own. A piece costs four requests, and a band has about sixteen pieces. `counters` keeps that
//! pipeline for the tests, which race it: in seven calls the locks took 0.93 to 1.02 of its time on
//! one thread, 0.94 to 1.00 on two.
//!
//! One location stands for a whole panel: one task reads all arrays of a band, together in one
//! queue of the disk, and a piece has one request in place of one for each array. Slots are used in
//! turn: to read ahead is to have a slot that its last piece has released, and needs no policy. One
//! panel is read at a time: several at once alternate between distant places of the files, and take
//! a third longer.

pub(crate) mod buffers;
#[cfg(test)]
mod counters;
mod data;
mod messages;
mod panel;
mod places;
pub(crate) mod spent;
mod stage;
pub(crate) mod sums;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncline_fabric::Member;
use syncline_kernel::rule::Around;
use syncline_overlay::plan::Task;
use syncline_overlay::{Initial, Location, Overlay, Runner, Step, Stop, run::ReadyOrder};
use syncline_store::ElementType;

use self::buffers::Buffers;
use self::data::Outgoing;
pub(crate) use self::data::{Down, Sink, Source};
use self::panel::{Panel, PanelKind};
use self::places::{Message, Panels, Places};
use self::stage::Stage;
use crate::engine::{Crossing, Engine};
use crate::monitor::Monitor;
use crate::pass::spent::{Spent, timed};
use crate::pass::sums::PassSums;
use crate::semaphore::Semaphore;
use crate::team::agree::all;
use crate::team::columns::Members;
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
    /// The number of slabs of the arrays. A pass goes on behind the last one with the first ones,
    /// if they are periodic.
    pub(crate) slabs: usize,
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
    /// On a team whose members have columns of all slabs: these members.
    pub(crate) team: Option<&'a Members>,
    /// Whether all these members get what each computes, in memory.
    pub(crate) to_all: bool,
    /// Returns the error of a field whose sums tell that it is damaged: in these slabs and columns.
    pub(crate) damaged: Option<&'a Damaged<'a>>,
}

/// Returns an error if the sum of a unit, of which each field has the same number, is not that of
/// the pass that wrote it: of the field, of the unit, and the sum.
pub(crate) type Expected<'a> = dyn Fn(usize, usize, u64) -> Result<()> + Sync + 'a;

/// Returns the error for a unit of a field that is damaged: of the field, its slabs and its
/// columns.
pub(crate) type Damaged<'a> = dyn Fn(usize, Range<usize>, Range<usize>) -> Error + Sync + 'a;

/// The bytes of the progress that travels back at a cut: see [`Monitor::others_are`].
const PROGRESS: usize = 16;

impl Pass<'_> {
    /// Returns the numbers of the member and of all.
    fn ranks(&self) -> (usize, usize) {
        self.team.map_or((0, 1), |of| (of.rank, of.columns.members()))
    }

    /// Returns the number of groups of members, which share what comes in and the final slabs.
    fn groups(&self) -> usize {
        self.team.map_or(1, |of| of.groups.count())
    }

    /// Returns the group of a member.
    fn group_of(&self, member: usize) -> usize {
        self.team.map_or(0, |of| of.groups.group(member))
    }

    /// Returns the members of a group.
    fn members_of(&self, group: usize) -> Range<usize> {
        self.team.map_or(0..1, |of| of.groups.members(group))
    }

    /// Returns the member of a group that reads what comes in, in a slot.
    fn reader(&self, group: usize, slot: usize) -> usize {
        self.team.map_or(0, |of| of.groups.reader(group, slot))
    }

    /// Returns the member of a group that writes the final slabs: the last one.
    fn writer(&self, group: usize) -> usize {
        self.team.map_or(0, |of| of.groups.writer(group))
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
        let (flight, bands) = (first.bands().flight, last.bands().count());
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
                incoming: match n.checked_sub(1) {
                    None => (PanelKind::Incoming, None),
                    Some(before) => (PanelKind::Between, Some(&*engines[before].0)),
                },
                outgoing: match n + 1 == engines.len() {
                    true => PanelKind::Outgoing(&outgoing),
                    false => PanelKind::Between,
                },
                processors: &processors,
            });
            level += engine.bands().levels;
        }
        let (most, of_last) = (first.bands().most_slabs(), last.bands());
        // A member that cannot begin the pass tells the others here.
        me.as_deref_mut().map_or(Ok(()), |me| all(me, Ok(())))?;
        let memory = me.as_deref_mut().map(|me| self.group_memory(&sinks, (most, of_last), me));
        let (memory, lent) = match memory.transpose() {
            Ok(memory) => (Ok(()), memory.flatten()),
            Err(error) => (Err(error), None),
        };
        let (borrowed, group_memory) = lent.unzip();
        let places = memory.and_then(|()| self.places(&stages, sinks, sums, group_memory.as_ref()));
        let (mut places, panels) = match me.as_deref_mut() {
            Some(me) => all(me, places)?,
            None => places?,
        };
        let overlay = self.overlay(&stages, (&places, &panels), (reads, writes));
        let on_file = if reads || writes { 2 * flight } else { 0 };
        // Members may have different numbers of threads, but run one overlay.
        let computing = if self.team.is_some() { flight } else { self.threads };
        let workers = computing + on_file;
        let runner = Runner::Pool { workers, order: ReadyOrder::DepthFirst };
        let stop = Stop::after(bands.div_ceil(flight) as u64);
        let mut checked = overlay.check(Initial::Program)?;
        self.monitor.watches(checked.watch());
        let done = match me.as_deref_mut() {
            Some(me) => checked.run_on(me, runner, stop).map(drop),
            None => checked.run(runner, stop).map(drop),
        };
        drop(checked);
        let done = done.map_err(Error::from);
        // Where a member is dead, others may still use the memory.
        if let (Some(me), Some(memory), false) =
            (me, borrowed, matches!(done, Err(Error::Fault(_))))
        {
            me.give_back(memory);
        }
        done?;
        let rank = self.ranks().0;
        let writer = places.writers.swap_remove(rank);
        let between = places.between.swap_remove(rank);
        let Places { sums: read, written, left, given, .. } = places;
        drop(stages);
        let Panels { incoming, finals } = panels;
        let panels = incoming.into_iter().chain(finals);
        let panels = panels.chain(between.into_iter().flatten().map(inner));
        self.buffers.give(panels.flat_map(Panel::into_buffers));
        for (array, of_array) in read {
            sums.read[array] = Some(inner(of_array));
        }
        sums.written = written.map(inner).unwrap_or_default();
        let own = |all: Vec<Location<_>>| all.into_iter().nth(rank).and_then(inner);
        (sums.left, sums.given) = (own(left), own(given));
        inner(writer).finish()?;
        Ok(norms.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Declares all tasks, slot by slot; those of other members have bodies as well, which do not
    /// run here.
    fn overlay<'o, 's: 'o>(
        &'o self,
        stages: &'o [Stage<'s>],
        (places, panels): (&Places, &'o Panels),
        (reads, writes): (bool, bool),
    ) -> Overlay<'o> {
        let (groups, mut overlay) = (self.groups(), Overlay::new());
        let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return overlay };
        let flight = first.engine.bands().flight;
        let bands = last.engine.bands().count();
        for r in 0..flight {
            let band_of = move |step: &Step| step.iteration() as usize * flight + r;
            for group in (0..groups).filter(|_| reads) {
                let reader = self.reader(group, r);
                let (panel, queue) = (&places.incoming[group][r], &places.readers[reader]);
                let access = (panel.write(), queue.write());
                let name = format!("read {r} of {group}");
                let task = overlay.task(name, access, move |(_, queue), step| {
                    let slabs = first.engine.bands().slabs_in(band_of(step));
                    self.read(&panels.incoming[r], queue, slabs)
                });
                self.put(&mut overlay, task, reader);
            }
            let incoming = move |step: &Step| first.engine.bands().slabs_in(band_of(step));
            for (array, sums) in places.sums.iter().filter(|_| reads) {
                let (name, array) = (format!("check {array}, {r}"), *array);
                let access = (places.incoming[0][r].read(), sums.write());
                overlay.task(name, access, move |(_, sums), step| {
                    self.check(&panels.incoming[r], sums, array, incoming(step))
                });
            }
            for (member, left) in places.left.iter().enumerate().filter(|_| reads) {
                let access = (places.incoming[self.group_of(member)][r].read(), left.write());
                let task = overlay.task(
                    format!("check {r} of {member}"),
                    access,
                    move |(_, left), step| {
                        self.check_columns(&panels.incoming[r], left, incoming(step))
                    },
                );
                self.put(&mut overlay, task, member);
            }
            for n in 0..stages.len() {
                self.stage_tasks(&mut overlay, stages, (places, panels), n, r);
            }
            let PanelKind::Outgoing(outgoing) = last.outgoing else {
                unreachable!("the last engine writes the result")
            };
            let final_slabs = move |step: &Step| {
                let band = band_of(step);
                if band < bands { last.engine.bands().slabs_out(band) } else { 0..0 }
            };
            if let Some(written) = &places.written {
                let access = (places.finals[0][r].read(), written.write());
                overlay.task(format!("sum {r}"), access, move |(_, sums), step| {
                    self.sum_out(&panels.finals[r], sums, outgoing, final_slabs(step))
                });
            }
            for (member, given) in places.given.iter().enumerate() {
                let access = (places.finals[member][r].read(), given.write());
                let name = format!("sum {r} of {member}");
                let task = overlay.task(name, access, move |(_, given), step| {
                    self.sum_columns(&panels.finals[r], given, outgoing, final_slabs(step))
                });
                self.put(&mut overlay, task, member);
            }
            for (member, whole) in places.whole.iter().enumerate() {
                let access = (places.finals[member][r].read(), whole[r].write());
                let name = format!("send {r} of {member}");
                let task = overlay.task(name, access, move |(_, values), step| {
                    self.give_whole(&panels.finals[r], outgoing, final_slabs(step), values);
                });
                self.put(&mut overlay, task, member);
                for to in (0..places.whole.len()).filter(|to| *to != member) {
                    let name = format!("take {r} of {member} in {to}");
                    let task = overlay.task(name, whole[r].read(), move |values, step| {
                        let slabs = final_slabs(step);
                        self.take_whole(&panels.finals[r], outgoing, (member, slabs), values);
                    });
                    self.put(&mut overlay, task, to);
                }
            }
            for group in (0..groups).filter(|_| writes) {
                let edges = || places.edges.iter().filter(move |(_, edge)| edge.from == group);
                let to: Vec<_> = edges().map(|(field, edge)| (*field, edge.to)).collect();
                let messages: Vec<_> = edges().map(|(_, edge)| edge.bytes[r].write()).collect();
                let (members, writer) = (self.members_of(group), self.writer(group));
                let outs: Vec<_> = members.map(|member| places.finals[member][r].write()).collect();
                let access = (outs, places.writers[writer].write(), messages);
                let name = format!("write {r} of {group}");
                let task = overlay.task(name, access, move |(_, writers, mut edges), step| {
                    self.write(&panels.finals[r], writers, outgoing, final_slabs(step))?;
                    writers.give_edges(to.iter().copied().zip(edges.iter_mut()));
                    Ok::<_, Error>(())
                });
                self.put(&mut overlay, task, writer);
            }
            for group in 0..groups {
                let edges = || places.edges.iter().filter(move |(_, edge)| edge.to == group);
                let of: Vec<usize> = edges().map(|(field, _)| *field).collect();
                if of.is_empty() {
                    continue;
                }
                let messages: Vec<_> = edges().map(|(_, edge)| edge.bytes[r].read()).collect();
                let writer = self.writer(group);
                let access = (places.writers[writer].write(), messages);
                let name = format!("edges {r} of {group}");
                let task = overlay.task(name, access, move |(writers, edges), _| {
                    timed(&self.spent.write_ns, || {
                        writers.take_edges(of.iter().copied().zip(edges.iter()))
                    })
                });
                self.put(&mut overlay, task, writer);
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
        (places, panels): (&Places, &'o Panels),
        n: usize,
        r: usize,
    ) {
        let (members, stage, own) = (self.ranks().1, &stages[n], &places.stages[n]);
        let flight = stage.engine.bands().flight;
        let bands = stages[stages.len() - 1].engine.bands().count();
        let band_of = move |step: &Step| step.iteration() as usize * flight + r;
        let before = (r + flight - 1) % flight;
        // Progress goes to the members of lower ranks.
        let rightward = stage.engine.nth(0) == 0;
        for nth in 0..members {
            let member = stage.engine.nth(nth);
            let (cells, above) = (&own.cells[member][r], &own.cells[member][before]);
            let (between, incoming) = (&places.between[member], self.group_of(member));
            let final_slabs = &places.finals[member][r];
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
                    (
                        between.get(n).map(|out| out[r].write()),
                        between.get(n).is_none().then(|| final_slabs.write()),
                        n.checked_sub(1).map(|before| between[before][r].read()),
                        (n == 0).then(|| places.incoming[incoming][r].read()),
                    ),
                    (cells[c].write(), ahead),
                    ([from_before, from_after], [to_before, to_after]),
                    margins,
                );
                let name = format!("piece {r}, {c} of {member} in {n}");
                let task =
                    overlay.task(name, access, move |(data, _, crossed, mut margins), step| {
                        let ((out, _, panel, _), band) = (data, band_of(step));
                        let out = out.map_or(&panels.finals[r], |out| &*out);
                        let panel = panel.unwrap_or(&panels.incoming[r]);
                        if band >= bands {
                            return Ok(());
                        }
                        let ([from_before, from_after], [to_before, to_after]) = crossed;
                        let from_after =
                            from_after.map(|back| back.split_at(back.len() - PROGRESS));
                        let to_before = to_before.map(|back| {
                            let values = back.len() - PROGRESS;
                            back.split_at_mut(values)
                        });
                        let (from_after, others) = from_after.unzip();
                        let (to_before, progress) = to_before.unzip();
                        if let Some(others) = others.filter(|_| band > 0 && rightward) {
                            self.monitor.others_are(progress_of(others));
                        }
                        let crossing = Crossing { from_before, from_after, to_before, to_after };
                        stage.piece(out, panel, band, range, crossing)?;
                        if let Some(progress) = progress {
                            let known = [self.monitor.done(), self.monitor.bytes()];
                            let known = known.map(u64::to_le_bytes);
                            progress.copy_from_slice(known.as_flattened());
                        }
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
            let access = (places.between[member][n][r].write(), margins);
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
}

/// Returns the progress in a message.
fn progress_of(message: &[u8]) -> [u64; 2] {
    let mut numbers = message.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
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
