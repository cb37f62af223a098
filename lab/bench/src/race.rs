//! The harness of all races: entries that alternate, round after round.
//!
//! ```text
//! entry    one way of doing something: ours, a baseline or a peer (`Side`), and its conditions
//! group    entries that are compared, because their conditions are the same
//! run      one call of an entry: samples of each of its metrics
//! round    a run of each entry, group after group
//! race     a warm-up round, and then rounds until their number or the time is reached (`Pace`)
//! cell     the summary of all runs of an entry: median, best and 90th percentile (`Spread`)
//! ```
//!
//! The median of many short rounds says more than the mean of a long one: a disturbance of the
//! machine affects only some of them. Each round begins with another entry, and every second round
//! runs backwards, so that each entry follows each other entry equally often.
//!
//! The warm-up round is not counted. An entry that exceeds its group's patience in it is left out
//! of the race. An entry of ours that fails ends the race; any other entry that fails, or is not
//! installed, is skipped, with the reason.
//!
//! The [`Stage`] is the state that all entries share while they run: the limit that is measured at
//! the beginning of each round ([`Hops`]), or the team in which each member runs its part of an
//! entry.
//!
//! SIGINT and SIGTERM end a race before its next run ([`hold`]).

mod hop;
mod machine;
mod report;
mod spread;
mod team;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

pub(crate) use self::hop::Hops;
pub(crate) use self::machine::Machine;
pub(crate) use self::report::{Column, Lines, Table, Target, figure, ratio};
pub(crate) use self::spread::{Spread, median};
pub(crate) use self::team::{Line, Phase, team};
use crate::error::{Interrupted, Result, failed};
use crate::stop::Signals;

/// The options of every race.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Take about a minute in all
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object per line, and no table
    #[arg(long)]
    pub(crate) json: bool,
    /// Number of rounds [default: see --help]
    #[arg(long, value_name = "N", value_parser = crate::at_least(1))]
    pub(crate) rounds: Option<usize>,
}

/// The samples of a metric: several if the run repeats its measurement.
pub(crate) type Samples = Vec<f64>;

/// The origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// Ours.
    Ours,
    /// A textbook's, a published one, or a limit.
    Baseline,
    /// Another project's, in use.
    Peer,
}

/// The state that the entries of a race share while they run.
pub(crate) trait Stage {
    /// Whether a peer that fails is skipped; if not, it ends the race.
    const SKIPS: bool = true;

    /// Called at the beginning of a round.
    fn round(&mut self, _round: usize) -> Result<()> {
        Ok(())
    }

    /// Returns whether the race is over for all processes, given whether it is over for this one.
    fn agree(&mut self, over: bool) -> Result<bool> {
        Ok(over)
    }
}

/// A stage that prints the number of each round.
pub(crate) struct Told;

impl Stage for Told {
    fn round(&mut self, round: usize) -> Result<()> {
        eprintln!("round {}", round + 1);
        Ok(())
    }
}

/// Runs an entry once on a stage; returns samples of each metric, or none if there is nothing to
/// measure in this round.
type Measure<'a, S> = Box<dyn FnMut(&mut S) -> Result<Vec<Samples>> + 'a>;

/// One way of doing something.
pub(crate) struct Entry<'a, S, K> {
    key: K,
    way: String,
    side: Side,
    metrics: &'static [&'static str],
    most: usize,
    measure: Measure<'a, S>,
}

impl<'a, S, K> Entry<'a, S, K> {
    /// Returns an entry with these metrics. The name of the main metric is empty.
    pub(crate) fn of(
        key: K,
        side: Side,
        way: impl Into<String>,
        metrics: &'static [&'static str],
        measure: impl FnMut(&mut S) -> Result<Vec<Samples>> + 'a,
    ) -> Self {
        Self { key, way: way.into(), side, metrics, most: usize::MAX, measure: Box::new(measure) }
    }

    /// Limits the entry to `rounds` rounds, without a warm-up.
    pub(crate) fn at_most(self, rounds: usize) -> Self {
        Self { most: rounds, ..self }
    }

    /// Returns the entry's name.
    pub(crate) fn way(&self) -> &str {
        &self.way
    }

    /// Returns the entry's conditions.
    pub(crate) fn key(&mut self) -> &mut K {
        &mut self.key
    }

    /// Runs the entry once.
    pub(crate) fn run(&mut self, stage: &mut S) -> Result<Vec<Samples>> {
        (self.measure)(stage)
    }
}

/// Returns whether the entries of a group run in a round.
type Gate<'a, S> = Box<dyn FnMut(&mut S) -> bool + 'a>;

/// A group of entries that are compared.
pub(crate) struct Group<'a, S, K> {
    entries: Vec<Entry<'a, S, K>>,
    patience: Option<Duration>,
    gate: Option<Gate<'a, S>>,
    skipped: Vec<Skipped<K>>,
}

impl<'a, S, K> Group<'a, S, K> {
    /// Returns a group of these entries.
    pub(crate) fn new(entries: impl IntoIterator<Item = Entry<'a, S, K>>) -> Self {
        let entries = entries.into_iter().collect();
        Self { entries, patience: None, gate: None, skipped: Vec::new() }
    }

    /// Leaves out entries that take longer than `most` to warm up.
    pub(crate) fn patience(self, most: Duration) -> Self {
        Self { patience: Some(most), ..self }
    }

    /// Asks `gate` in each round whether the group runs.
    pub(crate) fn only_if(self, gate: impl FnMut(&mut S) -> bool + 'a) -> Self {
        Self { gate: Some(Box::new(gate)), ..self }
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: Entry<'a, S, K>) {
        self.entries.push(entry);
    }

    /// Returns all entries.
    pub(crate) fn entries(&mut self) -> impl Iterator<Item = &mut Entry<'a, S, K>> {
        self.entries.iter_mut()
    }

    /// Records a way as not available.
    pub(crate) fn skip(&mut self, key: K, way: impl Into<String>, why: impl std::fmt::Display) {
        self.skipped.push(Skipped::told(key, way, why));
    }
}

/// The number of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The least number of rounds, however long they take.
    pub(crate) least: usize,
    /// The greatest number of rounds, however short they are.
    pub(crate) most: usize,
    /// A deadline: beyond the least number, no round begins that would not end before it.
    pub(crate) until: Option<Instant>,
    /// Whether a round that is not counted precedes them.
    pub(crate) warm_up: bool,
}

impl Pace {
    /// Runs exactly this number of rounds.
    pub(crate) fn exactly(rounds: usize) -> Self {
        Self { least: rounds, most: rounds, until: None, warm_up: true }
    }

    /// Sets whether there is a warm-up.
    pub(crate) fn warm_up(self, warm_up: bool) -> Self {
        Self { warm_up, ..self }
    }

    fn is_over(&self, rounds: usize, took: Duration) -> bool {
        let next = Instant::now() + took / rounds as u32;
        rounds >= self.most || rounds >= self.least && self.until.is_some_and(|until| next > until)
    }
}

/// A way that could not be measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Skipped<K> {
    #[serde(flatten)]
    pub(crate) key: K,
    pub(crate) way: String,
    pub(crate) why: String,
}

impl<K> Skipped<K> {
    /// Returns a way that is not available, and prints it.
    pub(crate) fn told(key: K, way: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let (way, why) = (way.into(), why.to_string());
        eprintln!("skipped: {way}: {why}");
        Self { key, way, why }
    }
}

/// A way that takes too long.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut<K> {
    pub(crate) key: K,
    pub(crate) way: String,
    pub(crate) side: Side,
    /// The time that it took.
    pub(crate) value: f64,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run<K> {
    pub(crate) key: K,
    pub(crate) way: String,
    pub(crate) side: Side,
    pub(crate) round: usize,
    /// The mean of the samples of each metric; NaN without samples.
    pub(crate) values: Vec<f64>,
}

/// The summary of an entry's runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell<K> {
    #[serde(flatten)]
    pub(crate) key: K,
    /// The way's name, followed by the metric's name unless that is the main one.
    pub(crate) way: String,
    #[serde(skip)]
    pub(crate) metric: &'static str,
    pub(crate) side: Side,
    #[serde(flatten)]
    pub(crate) spread: Spread,
    pub(crate) samples: usize,
    pub(crate) rounds: usize,
}

/// The results of a race.
#[derive(Debug)]
pub(crate) struct Results<K> {
    pub(crate) rounds: usize,
    pub(crate) cells: Vec<Cell<K>>,
    /// All runs, in order.
    pub(crate) runs: Vec<Run<K>>,
    pub(crate) skipped: Vec<Skipped<K>>,
    pub(crate) left_out: Vec<LeftOut<K>>,
}

impl<K> Default for Results<K> {
    fn default() -> Self {
        let (cells, runs, skipped, left_out) = Default::default();
        Self { rounds: 0, cells, runs, skipped, left_out }
    }
}

impl<K: PartialEq> Results<K> {
    /// Adds the results of another race.
    pub(crate) fn extend(&mut self, other: Self) {
        self.rounds = self.rounds.max(other.rounds);
        self.cells.extend(other.cells);
        self.runs.extend(other.runs);
        self.skipped.extend(other.skipped);
        self.left_out.extend(other.left_out);
    }

    /// Returns the cells of the main metrics.
    pub(crate) fn main(&self) -> impl Iterator<Item = &Cell<K>> {
        self.cells.iter().filter(|cell| cell.metric.is_empty())
    }

    /// Returns the cell of a way under these conditions.
    pub(crate) fn cell(&self, key: &K, way: &str) -> Option<&Cell<K>> {
        self.cells.iter().find(|cell| cell.key == *key && cell.way == way)
    }

    /// Returns the median of a way under these conditions.
    pub(crate) fn median(&self, key: &K, way: &str) -> Option<f64> {
        self.cell(key, way).map(|cell| cell.spread.median)
    }

    /// Returns the least median of these ways.
    pub(crate) fn best(&self, key: &K, ways: &[&str]) -> Option<f64> {
        ways.iter().filter_map(|way| self.median(key, way)).reduce(f64::min)
    }
}

/// Returns the order of `n` entries in a round.
fn order(n: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..n).collect();
    order.rotate_left(round / 2 % n.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Runs the entries of all groups in turn.
///
/// # Errors
/// The first failure of an entry of ours, or a signal.
pub(crate) fn race<S: Stage, K: Clone>(
    stage: &mut S,
    signals: &Signals,
    groups: &mut [Group<'_, S, K>],
    pace: Pace,
) -> Result<Results<K>> {
    let mut results = Results::default();
    let mut samples: Vec<Vec<(usize, Vec<Samples>)>> =
        groups.iter().map(|group| vec![(0, Vec::new()); group.entries.len()]).collect();
    let mut racing: Vec<Vec<usize>> =
        groups.iter().map(|group| (0..group.entries.len()).collect()).collect();
    let (mut start, mut rounds) = (Instant::now(), 0);
    let mut warming = pace.warm_up;
    loop {
        if !warming {
            stage.round(rounds)?;
        }
        for (g, group) in groups.iter_mut().enumerate() {
            if !warming && group.gate.as_mut().is_some_and(|gate| !gate(stage)) {
                continue;
            }
            let turn: Vec<_> =
                order(racing[g].len(), rounds).into_iter().map(|n| racing[g][n]).collect();
            for n in turn {
                let entry = &mut group.entries[n];
                let (times, all) = &mut samples[g][n];
                if if warming { entry.most < usize::MAX } else { *times >= entry.most } {
                    continue;
                }
                let begun = Instant::now();
                let done = signals.check().and_then(|()| entry.run(stage));
                let Entry { key, way, side, .. } = entry;
                let (key, way, side) = (key.clone(), way.clone(), *side);
                let measured = match done {
                    Ok(measured) => measured,
                    Err(why) if why.is::<Interrupted>() => return Err(why),
                    Err(why) if side == Side::Ours || !S::SKIPS => {
                        return Err(failed(&format!("measure {way}"), why));
                    }
                    Err(why) => {
                        group.skip(key, way, why);
                        racing[g].retain(|&other| other != n);
                        continue;
                    }
                };
                let mean = |samples: &Samples| samples.iter().sum::<f64>() / samples.len() as f64;
                let values: Vec<_> = measured.iter().map(mean).collect();
                if warming {
                    if group.patience.is_some_and(|patience| begun.elapsed() > patience) {
                        let value = values.first().copied().unwrap_or(f64::NAN);
                        results.left_out.push(LeftOut { key, way, side, value });
                        racing[g].retain(|&other| other != n);
                    }
                } else if !measured.is_empty() {
                    *times += 1;
                    all.resize_with(measured.len(), Vec::new);
                    all.iter_mut().zip(measured).for_each(|(all, more)| all.extend(more));
                    results.runs.push(Run { key, way, side, round: rounds, values });
                }
            }
        }
        if warming {
            (warming, start) = (false, Instant::now());
            continue;
        }
        rounds += 1;
        if stage.agree(pace.is_over(rounds, start.elapsed()))? {
            break;
        }
    }
    results.rounds = rounds;
    for (group, samples) in groups.iter_mut().zip(samples) {
        results.skipped.append(&mut group.skipped);
        for (Entry { key, way, side, metrics, .. }, (rounds, samples)) in
            group.entries.iter().zip(samples)
        {
            for (&metric, samples) in metrics.iter().zip(samples) {
                let way = if metric.is_empty() { way.clone() } else { format!("{way}: {metric}") };
                let samples: Vec<_> =
                    samples.into_iter().filter(|sample| sample.is_finite()).collect();
                let (key, side, count) = (key.clone(), *side, samples.len());
                let Some(spread) = Spread::of(samples) else { continue };
                results.cells.push(Cell { key, way, metric, side, spread, samples: count, rounds });
            }
        }
    }
    Ok(results)
}

/// Runs a race in a new folder below `parent`, or in the folder for temporary files, until it ends
/// or a signal interrupts it. `cancel` ends work that a signal cannot wait for.
///
/// # Errors
/// Those of `work`; [`Interrupted`].
pub(crate) fn hold<T: Send + 'static>(
    signals: &Signals,
    parent: Option<&Path>,
    cancel: impl FnOnce(),
    work: impl FnOnce(&Path, &Signals) -> Result<T> + Send + 'static,
) -> Result<T> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("syncline-bench.");
    let place = parent.map_or_else(std::env::temp_dir, Path::to_owned);
    let folder = folder.tempdir_in(&place);
    let folder = folder
        .map_err(|error| failed(&format!("make a directory in {}", place.display()), error))?;
    let (path, asked) = (folder.path().to_owned(), signals.clone());
    signals.cancel(cancel, move || work(&path, &asked))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::thread::sleep;

    use super::*;

    impl Stage for Vec<usize> {
        fn round(&mut self, round: usize) -> Result<()> {
            self.push(round);
            Ok(())
        }
    }

    fn entry<'a>(
        side: Side,
        way: &str,
        log: &'a RefCell<String>,
        measure: impl Fn() -> Result<Samples> + 'a,
    ) -> Entry<'a, Vec<usize>, ()> {
        let name = way.to_owned();
        Entry::of((), side, way, &[""], move |_| {
            *log.borrow_mut() += &name;
            Ok(vec![measure()?])
        })
    }

    #[test]
    fn entries_alternate_and_each_follows_each_other_one() {
        let log = RefCell::new(String::new());
        let entries =
            ["a", "b", "c"].map(|way| entry(Side::Ours, way, &log, || Ok(vec![1.0, 3.0])));
        let mut rounds = Vec::new();
        let once = entry(Side::Peer, "x", &log, || Ok(vec![7.0])).at_most(1);
        let mut groups = [
            Group::new(entries),
            Group::new([once]).only_if(|rounds: &mut Vec<usize>| rounds.len() > 1),
        ];
        let results =
            race(&mut rounds, &Signals::default(), &mut groups, Pace::exactly(4)).unwrap();
        assert_eq!(*log.borrow(), "abcabccbaxbcaacb");
        assert_eq!((rounds, results.rounds), (vec![0, 1, 2, 3], 4));
        let cell = results.cell(&(), "b").unwrap();
        assert_eq!(
            (cell.spread.median, cell.spread.best, cell.samples, cell.rounds),
            (2.0, 1.0, 8, 4)
        );
        assert_eq!(results.best(&(), &["x", "a", "y"]), Some(2.0));
        assert_eq!(results.runs.len(), 13);
        let pairs: Vec<_> = (0..4).flat_map(|round| order(2, round)).collect();
        assert_eq!(pairs, [0, 1, 1, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn what_fails_is_skipped_unless_it_is_ours_and_what_takes_too_long_is_left_out() {
        let log = RefCell::new(String::new());
        let slow = || {
            sleep(Duration::from_millis(30));
            Ok(vec![30.0])
        };
        let groups = |side| {
            let fails = entry(side, "fails", &log, || Err("no reason".into()));
            let entries = [entry(Side::Ours, "works", &log, || Ok(vec![1.0])), fails];
            let patient = Group::new([entry(Side::Peer, "slow", &log, slow)])
                .patience(Duration::from_millis(20));
            [Group::new(entries), patient]
        };
        let run = |side, signals: &Signals| {
            race(&mut Vec::new(), signals, &mut groups(side), Pace::exactly(2))
        };
        let results = run(Side::Peer, &Signals::default()).unwrap();
        assert_eq!((&*results.skipped[0].way, &*results.skipped[0].why), ("fails", "no reason"));
        assert_eq!((&*results.left_out[0].way, results.left_out[0].value), ("slow", 30.0));
        assert_eq!(results.cells.len(), 1);
        let failed = run(Side::Ours, &Signals::default()).unwrap_err();
        assert_eq!(failed.to_string(), "cannot measure fails: no reason");
        let ended = run(Side::Peer, &Signals::caught(2)).unwrap_err();
        assert!(ended.is::<Interrupted>(), "{ended}");
    }

    #[test]
    fn there_are_rounds_until_time_is_up() {
        let pace = Pace { least: 2, most: 5, until: Some(Instant::now()), warm_up: false };
        let over: Vec<_> = (1..=5).map(|rounds| pace.is_over(rounds, Duration::ZERO)).collect();
        assert_eq!(over, [false, true, true, true, true]);
        let unhurried = Pace { until: None, ..pace };
        assert_eq!((1..=5).filter(|&rounds| unhurried.is_over(rounds, Duration::ZERO)).count(), 1);
    }
}
