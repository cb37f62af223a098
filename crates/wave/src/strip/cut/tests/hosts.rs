//! Hosts in one thread: a simulation of the tasks of a pass.

use std::collections::VecDeque;
use std::ops::Range;

use syncline_kernel::dynamic::Kernel;
use syncline_testkit::Random;

use super::super::super::Ring;
use super::super::super::ghosts::Ghosts;
use super::super::super::pack::Rows;
use super::super::super::tile::{Chain, Job, Scratch, pack_beyond, run};
use super::super::message::export;
use super::super::{Cuts, Share};
use super::{Case, Prefer};
use crate::lanes::Real;

/// A fault that is planted in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Each eastward (or westward) message arrives without the last record (or, else, the first) of
    /// each of its strips.
    Shorter {
        east: bool,
        last: bool,
    },
    /// One value does not arrive.
    Lost {
        east: bool,
        cut: usize,
        band: usize,
        value: usize,
    },
    /// A message contains the values before the piece that it should follow.
    Early {
        east: bool,
    },
    /// A host packs its strips after the import, and not before.
    PackedLate,
    /// No message arrives.
    Silent {
        east: bool,
    },
}

/// The findings of a simulation.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) hosts: usize,
    pub(super) norms: Vec<f64>,
    /// The number of values that crossed cuts, eastward and westward, and the number that the
    /// shares announce.
    pub(super) crossed: [usize; 2],
    pub(super) to_cross: [usize; 2],
    /// The number of messages that would differ if the export had run after the next piece of the
    /// same kind, eastward and westward.
    pub(super) late: [usize; 2],
    /// The greatest number of bands that a host had begun and the next one had not.
    pub(super) ahead: usize,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Piece { band: usize },
    ExportEast,
    ImportWest,
    ExportWest,
    ImportEast,
}

struct Host<T> {
    share: Share,
    chain: Chain,
    ring: Ring<T>,
    inputs: Vec<Vec<T>>,
    out: Vec<T>,
    scratch: Scratch<T>,
    norms: Vec<f64>,
    in_flight: usize,
    /// The number of pieces of each band that have run.
    done: Vec<usize>,
    /// The number of messages that were exported and imported, eastward and westward.
    exported: [usize; 2],
    imported: [usize; 2],
    /// Messages that were exported too early.
    early: [VecDeque<Vec<T>>; 2],
    /// The last messages that were exported, to be compared with later exports.
    sent: [Vec<T>; 2],
}

const EAST: usize = 0;
const WEST: usize = 1;

/// The values of an output that has not been written.
const UNWRITTEN: f64 = -4096.0;

impl<T: Real> Host<T> {
    /// Creates a host for a pass, with the ring that the previous pass has left behind.
    fn new(
        case: &Case,
        kernel: &dyn Kernel<T>,
        host: usize,
        arrays: &[Vec<T>],
        left: &mut Option<Ring<T>>,
    ) -> Self {
        let chain = case.chain(kernel, case.in_flight[host]);
        let share = cuts(case, &chain).share(host);
        let ghosts = Ghosts::new(case.shape, kernel.stencil());
        let (columns, cols) = (ghosts.columns(share.columns_in()), case.shape.cols);
        let inputs = arrays.iter().map(|array| {
            let value = |(n, &value)| if columns.contains(&(n % cols)) { value } else { nan() };
            array.iter().enumerate().map(value).collect()
        });
        let first = left.is_none();
        share.fit(left).unwrap();
        let mut ring = left.take().unwrap();
        if case.guard > 0 {
            let Range { start, end } = *ring.window();
            ring.fit_to(chain.geometry, start - case.guard..end + case.guard).unwrap();
        }
        let filled = if first { ring.window().clone() } else { 0..0 };
        for value in all(&ring, filled).chain(guards(&ring, case.guard)) {
            // SAFETY: a value of a record of the window, in one thread.
            unsafe { value.write(nan()) };
        }
        Host {
            inputs: inputs.collect(),
            out: vec![T::from_f64(UNWRITTEN); case.shape.elements()],
            scratch: Scratch::new(&chain.geometry, case.tile),
            norms: vec![0.0; case.levels],
            in_flight: case.in_flight[host],
            done: vec![0; chain.bands()],
            exported: [0; 2],
            imported: [0; 2],
            early: Default::default(),
            sent: Default::default(),
            share,
            chain,
            ring,
        }
    }

    /// Returns whether a band has begun or may begin.
    fn may_begin(&self, band: usize) -> bool {
        let ended = |band: usize| {
            self.done[band] == self.share.pieces()
                && (self.share.east.is_none() || self.exported[EAST] > band)
        };
        band < self.in_flight || ended(band - self.in_flight)
    }

    /// Returns the events that are allowed, if messages have arrived from the west and the east.
    fn allowed(&self, from_west: bool, from_east: bool) -> Vec<Event> {
        let (bands, pieces) = (self.chain.bands(), self.share.pieces());
        let (west, east) = (self.share.west.is_some(), self.share.east.is_some());
        let mut events = Vec::new();
        for band in 0..bands {
            let piece = self.done[band];
            if piece == pieces {
                continue;
            }
            let begun = self.may_begin(band) && (!west || self.imported[EAST] > band);
            let above = band == 0 || self.done[band - 1] >= (piece + 2).min(pieces);
            let beside = piece + 1 < pieces || !east || self.imported[WEST] >= band;
            if begun && above && beside {
                events.push(Event::Piece { band });
            }
        }
        let next = self.exported[EAST];
        if east && next < bands && self.done[next] == pieces {
            events.push(Event::ExportEast);
        }
        let next = self.exported[WEST];
        if west && next < bands && self.done[next] >= 1 {
            events.push(Event::ExportWest);
        }
        let next = self.imported[EAST];
        let free = next == 0 || self.exported[WEST] >= next && self.done[next - 1] >= 1;
        if from_west && free && self.may_begin(next) {
            events.push(Event::ImportWest);
        }
        if from_east {
            events.push(Event::ImportEast);
        }
        events
    }
}

/// Returns the addresses of the values at these positions, of all slots of a ring.
fn all<T: Real>(ring: &Ring<T>, positions: Range<isize>) -> impl Iterator<Item = *mut T> {
    let record = ring.geometry.record() as isize;
    let values = positions.start * record..positions.end * record;
    let slots = 0..ring.geometry.slots as isize;
    slots.flat_map(move |slot| values.clone().map(move |n| ring.strip(slot).wrapping_offset(n)))
}

/// Returns the addresses of the values at the first and the last `guard` positions of a ring.
fn guards<T: Real>(ring: &Ring<T>, guard: isize) -> impl Iterator<Item = *mut T> {
    let Range { start, end } = *ring.window();
    all(ring, start..start + guard).chain(all(ring, end - guard..end))
}

fn nan<T: Real>() -> T {
    T::from_f64(f64::NAN)
}

/// Returns the cuts of a case: of at most the number of hosts that is possible.
pub(super) fn cuts(case: &Case, chain: &Chain) -> Cuts {
    let piece = chain.ahead() + case.wider;
    match Cuts::new(*chain, piece, case.hosts) {
        Ok(cuts) => cuts,
        Err(most) => {
            assert!(most < case.hosts && most == Cuts::most(chain, piece));
            Cuts::new(*chain, piece, most).expect("the greatest number of hosts")
        }
    }
}

/// Runs all passes; returns the field.
pub(super) fn simulate<T: Real>(
    case: &Case,
    kernel: &dyn Kernel<T>,
    mut arrays: Vec<Vec<T>>,
) -> (Vec<T>, Found) {
    let mut found = Found::default();
    let mut random = Random::new(case.seed);
    let mut rings: [Option<Ring<T>>; 5] = Default::default();
    for pass in 0..case.passes {
        let case = &Case { levels: case.levels_of(pass), ..case.clone() };
        let hosts = cuts(case, &case.chain(kernel, 1)).hosts();
        found.hosts = hosts;
        let mut pass = Pass {
            case,
            kernel,
            ghosts: Ghosts::new(case.shape, kernel.stencil()),
            hosts: (0..hosts)
                .map(|host| Host::new(case, kernel, host, &arrays, &mut rings[host]))
                .collect(),
            cuts: [vec![VecDeque::new(); hosts - 1], vec![VecDeque::new(); hosts - 1]],
            found: &mut found,
        };
        pass.run(&mut random);
        arrays[0] = pass.result();
        let Pass { hosts, .. } = pass;
        hosts.into_iter().zip(&mut rings).for_each(|(host, left)| *left = Some(host.ring));
    }
    (arrays.swap_remove(0), found)
}

struct Pass<'a, T> {
    case: &'a Case,
    kernel: &'a dyn Kernel<T>,
    ghosts: Ghosts,
    hosts: Vec<Host<T>>,
    /// The messages on their way, by cut: eastward, westward.
    cuts: [Vec<VecDeque<Vec<T>>>; 2],
    found: &'a mut Found,
}

impl<T: Real> Pass<'_, T> {
    fn run(&mut self, random: &mut Random) {
        let cuts = self.hosts.len() - 1;
        for host in &self.hosts {
            for band in 0..host.chain.bands() {
                if let Some(cut) = host.share.west {
                    self.found.to_cross[EAST] += cut.eastward_len(band);
                }
                if let Some(cut) = host.share.east {
                    self.found.to_cross[WEST] += cut.westward_len(band);
                }
            }
        }
        loop {
            let arrived = |way: usize, cut: usize| !self.cuts[way][cut].is_empty();
            let mut events = Vec::new();
            for (n, host) in self.hosts.iter().enumerate() {
                let from_west = n > 0 && arrived(EAST, n - 1);
                let from_east = n < cuts && arrived(WEST, n);
                events.extend(host.allowed(from_west, from_east).into_iter().map(|e| (n, e)));
            }
            let Some(&any) = events.get(random.below(events.len().max(1))) else {
                break;
            };
            let all = || events.iter().copied();
            let message = |&(_, e): &(usize, Event)| !matches!(e, Event::Piece { .. });
            let band = |&(_, e): &(usize, Event)| match e {
                Event::Piece { band } => band as isize,
                _ => -1,
            };
            let choice = match self.case.prefer {
                // Sometimes any, so that no choice is the only one.
                _ if random.one_in(8) => Some(any),
                Prefer::Any => Some(any),
                Prefer::West => all().min_by_key(|&(host, _)| host),
                Prefer::East => all().max_by_key(|&(host, _)| host),
                Prefer::Early => all().min_by_key(band),
                Prefer::Late => all().max_by_key(band),
                Prefer::Pieces => all().find(|e| !message(e)),
                Prefer::Messages => all().find(message),
            };
            let (host, event) = choice.unwrap_or(any);
            self.execute(host, event);
        }
        for host in &self.hosts {
            assert!(host.done.iter().all(|&done| done == host.share.pieces()), "a deadlock");
        }
    }

    fn execute(&mut self, n: usize, event: Event) {
        match event {
            Event::Piece { band } => self.piece(n, band),
            Event::ExportEast => {
                let band = self.hosts[n].exported[EAST];
                let mut values = vec![nan(); self.cut(n, EAST).eastward_len(band)];
                let cut = self.cut(n, EAST);
                let last = self.hosts[n].share.pieces() - 1;
                // SAFETY: the last piece of the band has run, and everything in one thread.
                self.with_job(n, band, last, |job, host, _| unsafe {
                    cut.export_east(host.0, job, &mut values);
                });
                self.send(n, EAST, values);
            }
            Event::ExportWest => {
                let band = self.hosts[n].exported[WEST];
                let cut = self.cut(n, WEST);
                let mut values = vec![nan(); cut.westward_len(band)];
                // SAFETY: the first piece of the band has run, and everything in one thread.
                unsafe { cut.export_west(&self.hosts[n].ring, band, &mut values) };
                self.send(n, WEST, values);
            }
            Event::ImportWest => {
                let band = self.hosts[n].imported[EAST];
                let cut = self.cut(n, WEST);
                let mut values = self.cuts[EAST][n - 1].pop_front().unwrap();
                let late = self.case.fault == Fault::PackedLate;
                let mut found = vec![nan(); values.len()];
                self.with_job(n, band, 0, |job, (lanes, fault), _| {
                    // SAFETY: the first piece of the band has not run, and the message is that of
                    // this band; everything runs in one thread.
                    unsafe {
                        if fault != Fault::None {
                            pack_beyond::<T, false>(lanes, job);
                            export(job.ring, cut.eastward(band), &mut found);
                            lose(
                                fault,
                                true,
                                (n - 1, band),
                                cut.eastward(band),
                                &mut values,
                                &found,
                            );
                        }
                        cut.import_west(lanes, job, &values);
                        if late {
                            pack_beyond::<T, false>(lanes, job);
                        }
                    }
                });
                self.received(n, EAST, values.len());
            }
            Event::ImportEast => {
                let band = self.hosts[n].imported[WEST];
                let cut = self.cut(n, EAST);
                let mut values = self.cuts[WEST][n].pop_front().unwrap();
                let (ring, fault) = (&self.hosts[n].ring, self.case.fault);
                let mut found = vec![nan(); values.len()];
                // SAFETY: the last piece of the next band has not run, and the message is that of
                // this band; everything runs in one thread.
                unsafe {
                    export(ring, cut.westward(band), &mut found);
                    lose(fault, false, (n, band), cut.westward(band), &mut values, &found);
                    cut.import_east(ring, band, &values);
                }
                self.received(n, WEST, values.len());
            }
        }
    }

    /// Returns the cut of host `n` to the east or to the west.
    fn cut(&self, n: usize, side: usize) -> super::super::Cut {
        let share = &self.hosts[n].share;
        if side == EAST { share.east } else { share.west }.expect("a neighbour")
    }

    fn send(&mut self, n: usize, way: usize, values: Vec<T>) {
        let host = &mut self.hosts[n];
        host.exported[way] += 1;
        host.sent[way] = values.clone();
        let values = host.early[way].pop_front().unwrap_or(values);
        let cut = if way == EAST { n } else { n - 1 };
        self.cuts[way][cut].push_back(values);
        // Messages alternate: one buffer for each direction is enough.
        assert!(self.cuts.iter().map(|way| way[cut].len()).sum::<usize>() == 1);
    }

    fn received(&mut self, n: usize, way: usize, values: usize) {
        self.hosts[n].imported[way] += 1;
        self.found.crossed[way] += values;
    }

    /// Calls `work` with the job of a piece, in which each input has only the rows of the band.
    fn with_job(
        &mut self,
        n: usize,
        band: usize,
        piece: usize,
        work: impl FnOnce(&Job<'_, T>, (crate::lanes::Lanes, Fault), (&mut Scratch<T>, &mut [f64])),
    ) {
        let (ghosts, case) = (&self.ghosts, self.case);
        let host = &mut self.hosts[n];
        let cols = case.shape.cols;
        let rows = ghosts.rows(host.chain.rows_in(band));
        let part = |input: &mut Vec<T>| {
            let start = input.as_mut_ptr().wrapping_add(rows.start * cols);
            let (first, end) = (rows.start, rows.end);
            let all = Rows { start, first, end, left: 0, right: cols, pitch: cols };
            host.share.clip(ghosts.place(all))
        };
        let rows_in: Vec<_> = host.inputs.iter_mut().map(part).enumerate().collect();
        let (start, end) = (host.out.as_mut_ptr(), case.shape.rows);
        let all = ghosts.place(Rows { start, first: 0, end, left: 0, right: cols, pitch: cols });
        let columns = host.share.all_columns_out();
        let (left, right) = (all.left.max(columns.start), all.right.min(columns.end));
        let job = Job {
            chain: &host.chain,
            ring: &host.ring,
            band,
            columns: host.share.piece(piece),
            rows_in: &rows_in,
            rows_out: Rows { left, right, ..all },
            tile: case.tile,
        };
        let norms = &mut host.norms[host.chain.levels_in(band)];
        work(&job, (case.lanes, case.fault), (&mut host.scratch, norms));
    }

    fn piece(&mut self, n: usize, band: usize) {
        let (piece, pieces) = (self.hosts[n].done[band], self.hosts[n].share.pieces());
        let (first, last) = (piece == 0, piece + 1 == pieces);
        let share = self.hosts[n].share.clone();
        // SAFETY: reads of records of the ring, in one thread.
        let look = |host: &Host<T>, east: bool, band: usize| unsafe {
            let (cut, way) = if east { (share.east, EAST) } else { (share.west, WEST) };
            let cut = cut?;
            let len = if way == EAST { cut.eastward_len(band) } else { cut.westward_len(band) };
            let mut values = vec![nan(); len];
            if east {
                export(&host.ring, cut.eastward(band), &mut values);
            } else {
                export(&host.ring, cut.westward(band), &mut values);
            }
            Some(values)
        };
        for (way, at) in [(EAST, last), (WEST, first)] {
            if at && self.case.fault == (Fault::Early { east: way == EAST }) {
                let host = &mut self.hosts[n];
                host.early[way].extend(look(host, way == EAST, band));
            }
        }
        let (kernel, norm) = (self.kernel, self.case.norm);
        self.with_job(n, band, piece, |job, (lanes, _), (scratch, norms)| {
            // SAFETY: the ring is that of the share, the rows are those of the band, and all pieces
            // and imports that must have run have; everything runs in one thread.
            unsafe { run(lanes, kernel, job, scratch, norm.then_some(norms)) };
        });
        self.hosts[n].done[band] += 1;
        for (way, at) in [(EAST, last), (WEST, first)] {
            if at && band > 0 {
                let host = &self.hosts[n];
                if let Some(values) = look(host, way == EAST, band - 1) {
                    assert_eq!(host.exported[way], band);
                    let same = |(a, b): (&T, &T)| a.bits() == b.bits();
                    let late = !values.iter().zip(&host.sent[way]).all(same);
                    self.found.late[way] += usize::from(late);
                }
            }
        }
        let begun = |host: &Host<T>| host.done.iter().filter(|&&done| done > 0).count();
        if n + 1 < self.hosts.len() {
            let ahead = begun(&self.hosts[n]) - begun(&self.hosts[n + 1]);
            self.found.ahead = self.found.ahead.max(ahead);
        }
    }

    /// Returns the field from the columns that each host has finished; no host has written others.
    fn result(&mut self) -> Vec<T> {
        let (cols, mut out) = (self.case.shape.cols, vec![nan(); self.case.shape.elements()]);
        let mut by = vec![None; out.len()];
        for (n, host) in self.hosts.iter().enumerate() {
            let hull = self.ghosts.columns(host.share.all_columns_out());
            let mut written = vec![false; out.len()];
            for band in 0..host.chain.bands() {
                for row in host.chain.rows_out(band) {
                    let columns = self.ghosts.columns(host.share.columns_out(row));
                    for row in self.ghosts.rows(row..row + 1) {
                        for column in columns.clone() {
                            assert!(hull.contains(&column));
                            let i = row * cols + column;
                            out[i] = host.out[i];
                            assert_eq!(by[i].replace(n), None, "two hosts finish {row}, {column}");
                            written[i] = true;
                        }
                    }
                }
            }
            let beyond = guards(&host.ring, self.case.guard)
                // SAFETY: a value of a record of the window, in one thread.
                .all(|value| unsafe { value.read() }.to_f64().is_nan());
            assert!(beyond, "host {n} writes beyond its window: {:?}", self.case);
            let untouched =
                host.out.iter().zip(&written).all(|(v, &w)| w || v.to_f64() == UNWRITTEN);
            assert!(untouched, "host {n} writes what it does not finish: {:?}", self.case);
        }
        assert!(by.iter().all(Option::is_some), "a value that no host finishes: {:?}", self.case);
        let norms = (0..self.case.levels)
            .map(|level| self.hosts.iter().map(|host| host.norms[level]).fold(0.0, f64::max));
        self.found.norms.extend(norms);
        out
    }
}

/// Replaces the values that a fault loses by those that are in the ring without them.
fn lose<T: Copy>(
    fault: Fault,
    eastward: bool,
    (cut, band): (usize, usize),
    parts: impl Iterator<Item = super::super::message::Part>,
    values: &mut [T],
    found: &[T],
) {
    match fault {
        Fault::Silent { east } if east == eastward => values.copy_from_slice(found),
        Fault::Lost { east, cut: at, band: of, value }
            if (east, at, of) == (eastward, cut, band) =>
        {
            values[value] = found[value];
        }
        Fault::Shorter { east, last } if east == eastward => {
            let mut first = 0;
            for part in parts {
                let (width, len) = (part.values.len(), part.positions.len());
                let record = first + if last { (len - 1) * width } else { 0 };
                values[record..record + width].copy_from_slice(&found[record..record + width]);
                first += len * width;
            }
        }
        _ => {}
    }
}
