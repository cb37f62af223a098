//! What is measured, in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::contest::{Machine, Side, hop};
use super::super::peers::failed;
use super::super::places::Places;
use super::super::spread::Spread;
use super::report::{Here, Report};
use super::targets;
use crate::error::{Error, Result};

/// What was measured, or why it could not be.
pub(super) type Outcome<T> = std::result::Result<T, String>;

/// Makes words of what went wrong.
pub(super) fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Seconds of an operation, as often as it was repeated.
pub(super) type Samples = Vec<f64>;

/// How long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Rounds, if they are asked for.
    pub(super) rounds: Option<usize>,
    /// If not, the time of a group; but there are [`LEAST`] rounds.
    pub(super) seconds: f64,
}

/// Rounds that there are, however long they take.
const LEAST: usize = 3;
/// Rounds that are enough.
const MOST: usize = 300;

/// Measures once: samples of each of the metrics.
type Run = Box<dyn FnMut() -> Outcome<Vec<Samples>>>;

/// Something that is measured.
pub(super) struct Entry {
    way: String,
    side: Side,
    /// What is measured of it; nothing, if it is one thing.
    metrics: &'static [&'static str],
    /// Rounds after which it has been measured often enough; such a one is not warmed up.
    most: Option<usize>,
    run: Run,
    samples: Vec<Samples>,
    rounds: usize,
}

/// Entries that are compared.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// What times are told in, in nanoseconds.
    pub(super) unit: (&'static str, f64),
    /// What else is known.
    pub(super) notes: Vec<String>,
    entries: Vec<Entry>,
    skipped: Vec<Skipped>,
}

/// Something that could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Skipped {
    pub(super) group: &'static str,
    pub(super) way: String,
    pub(super) why: String,
}

/// What was measured of an entry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    pub(super) group: &'static str,
    pub(super) way: String,
    pub(super) side: Side,
    /// Nanoseconds.
    #[serde(flatten)]
    pub(super) spread: Spread,
    pub(super) samples: usize,
    pub(super) rounds: usize,
}

impl Entry {
    /// No more rounds than this.
    pub(super) fn at_most(&mut self, rounds: usize) {
        self.most = Some(rounds);
    }

    /// Measures once more, or once that does not count.
    fn once(&mut self, counts: bool) -> Outcome<()> {
        let samples = (self.run)()?;
        if counts {
            self.samples.resize_with(samples.len(), Vec::new);
            self.samples.iter_mut().zip(samples).for_each(|(all, more)| all.extend(more));
            self.rounds += 1;
        }
        Ok(())
    }

    fn cells(&self, group: &'static str) -> Vec<Cell> {
        let cell = |(n, samples): (usize, &Samples)| {
            let spread = Spread::of(samples.iter().map(|seconds| seconds * 1e9).collect())?;
            let metric = self.metrics.get(n).map_or(String::new(), |metric| format!(": {metric}"));
            let (way, samples) = (format!("{}{metric}", self.way), samples.len());
            Some(Cell { group, way, side: self.side, spread, samples, rounds: self.rounds })
        };
        self.samples.iter().enumerate().filter_map(cell).collect()
    }
}

impl Group {
    /// An empty one.
    pub(super) fn new(name: &'static str, unit: (&'static str, f64)) -> Self {
        Group { name, unit, notes: Vec::new(), entries: Vec::new(), skipped: Vec::new() }
    }

    /// One of which one thing is measured, if it can be.
    pub(super) fn add(
        &mut self,
        side: Side,
        way: impl Into<String>,
        made: Outcome<impl FnMut() -> Outcome<Samples> + 'static>,
    ) -> Option<&mut Entry> {
        let made = made.map(|mut run| move || run().map(|samples| vec![samples]));
        self.add_all(side, way, &[], made)
    }

    /// One of which several things are measured, if they can be.
    pub(super) fn add_all(
        &mut self,
        side: Side,
        way: impl Into<String>,
        metrics: &'static [&'static str],
        made: Outcome<impl FnMut() -> Outcome<Vec<Samples>> + 'static>,
    ) -> Option<&mut Entry> {
        let way = way.into();
        match made {
            Ok(run) => {
                let run = Box::new(run);
                let samples = Vec::new();
                self.entries.push(Entry { way, side, metrics, most: None, run, samples, rounds: 0 });
                self.entries.last_mut()
            }
            Err(why) => {
                self.skip(way, why);
                None
            }
        }
    }

    /// Says that something is not there.
    pub(super) fn skip(&mut self, way: impl Into<String>, why: String) {
        let way = way.into();
        eprintln!("skipped: {way}: {why}");
        self.skipped.push(Skipped { group: self.name, way, why });
    }
}

/// Groups, one after the other, and what came of them.
pub(super) struct Race {
    places: Places,
    stop: Arc<AtomicBool>,
    machine: Machine,
    hops: Vec<f64>,
    heads: Vec<(&'static str, (&'static str, f64), Vec<String>)>,
    cells: Vec<Cell>,
    skipped: Vec<Skipped>,
}

impl Race {
    /// Nothing is measured yet. It ends early when `stop` is set.
    pub(super) fn new(places: Places, stop: Arc<AtomicBool>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = Machine::here(processors);
        let (hops, heads, cells, skipped) = Default::default();
        Race { places, stop, machine, hops, heads, cells, skipped }
    }

    /// Measures a group.
    pub(super) fn run(&mut self, mut group: Group, pace: Pace) -> Result<()> {
        let once = pace.rounds == Some(1);
        let mut racing: Vec<usize> = (0..group.entries.len()).collect();
        let start = Instant::now();
        let mut warmed = start.elapsed();
        let mut rounds = 0;
        loop {
            let warm_up = rounds == 0 && !once && warmed.is_zero();
            if !warm_up {
                let hop = hop(&self.places).map_err(|why| failed("measure a hop of a cache line", why))?;
                self.hops.extend(hop.map(|hop| hop.best));
            }
            for n in racing.clone() {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Error::Panic); // told as what has stopped it
                }
                let entry = &mut group.entries[n];
                if entry.most.is_some_and(|most| warm_up || entry.rounds >= most) {
                    continue;
                }
                if let Err(why) = entry.once(!warm_up) {
                    let (way, side) = (entry.way.clone(), entry.side);
                    if side == Side::Ours {
                        return Err(failed(&format!("measure {}: {way}", group.name), why));
                    }
                    racing.retain(|&other| other != n);
                    group.skip(way, why);
                }
            }
            if warm_up {
                warmed = start.elapsed().max(Duration::from_nanos(1));
                continue;
            }
            rounds += 1;
            let next = 1.min(racing.len());
            racing.rotate_left(next);
            let each = (start.elapsed() - warmed).as_secs_f64() / rounds as f64;
            let is_late = rounds >= LEAST && start.elapsed().as_secs_f64() + each > pace.seconds;
            if pace.rounds.map_or(is_late || rounds >= MOST, |most| rounds >= most) {
                break;
            }
        }
        let Group { name, unit, notes, entries, skipped } = group;
        self.heads.push((name, unit, notes));
        self.cells.extend(entries.iter().flat_map(|entry| entry.cells(name)));
        self.skipped.extend(skipped);
        Ok(())
    }

    /// What came of it.
    pub(super) fn report(self) -> Report {
        let Race { machine, hops, heads, cells, skipped, .. } = self;
        let hop = Spread::of(hops).map(|spread| spread.median);
        let targets = targets::all(&cells, hop);
        Report { here: Here { machine, hop_ns: hop }, heads, cells, skipped, targets }
    }
}
