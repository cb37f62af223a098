//! Entries that alternate: every member runs its part of a batch of the one, then of the next,
//! round after round.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use syncline_fabric::Member;

use super::super::spread::Spread;

/// What a member's part of the work comes to.
pub(super) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How often, and for how long at most, a group is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) rounds: usize,
    pub(super) most: Duration,
}

/// How the numbers of members become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Slowest,
    Mean,
}

/// A number that a batch comes to.
pub(super) type Metric = (&'static str, Of);

/// The usual one: a time, of the slowest member.
pub(super) const TIME: &[Metric] = &[("", Of::Slowest)];

/// What all members have for their entries.
pub(super) trait Stage {
    fn me(&mut self) -> &mut Member;
}

/// A member's part of a batch: its numbers, or NaN where it has none.
type Part<'a, K> = Box<dyn FnMut(&mut K) -> Outcome<Vec<f64>> + 'a>;

/// Something that is measured.
pub(super) struct Entry<'a, K> {
    pub(super) way: String,
    pub(super) setting: String,
    pub(super) metrics: &'static [Metric],
    /// Operations of a batch, among which its messages are shared; 0: they are not counted.
    pub(super) operations: usize,
    pub(super) run: Part<'a, K>,
}

/// What was measured of an entry.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    pub(super) group: &'static str,
    pub(super) setting: String,
    pub(super) way: String,
    pub(super) spread: Spread,
    pub(super) rounds: usize,
    /// Of all members together, per operation.
    pub(super) messages: Option<f64>,
}

impl<'a, K> Entry<'a, K> {
    /// An entry of which a member has one time.
    pub(super) fn time(
        way: impl Into<String>,
        setting: impl Into<String>,
        operations: usize,
        mut run: impl FnMut(&mut K) -> Outcome<f64> + 'a,
    ) -> Self {
        Entry {
            way: way.into(),
            setting: setting.into(),
            metrics: TIME,
            operations,
            run: Box::new(move |stage| Ok(vec![run(stage)?])),
        }
    }
}

/// Runs entries in turn; all members call it with the same ones, and all get the same.
pub(super) fn race<K: Stage>(
    stage: &mut K,
    group: &'static str,
    mut entries: Vec<Entry<'_, K>>,
    pace: Pace,
) -> Outcome<Vec<Cell>> {
    let mut samples = vec![Vec::new(); entries.len()];
    let mut order: Vec<usize> = (0..entries.len()).collect();
    for entry in &mut entries {
        stage.me().gather(0)?;
        (entry.run)(stage)?;
    }
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < pace.rounds {
        for &n in &order {
            // No member begins before all have ended what was before.
            stage.me().gather(0)?;
            let numbers = (entries[n].run)(stage)?;
            let mut row = Vec::new();
            for (number, (_, of)) in numbers.into_iter().zip(entries[n].metrics) {
                let all = stage.me().gather(number.to_bits())?.into_iter().map(f64::from_bits);
                row.push(together(all, *of));
            }
            samples[n].push(row);
        }
        rounds += 1;
        order.rotate_left(1.min(entries.len()));
        let late = start.elapsed() + start.elapsed() / rounds as u32 > pace.most;
        if stage.me().gather(late.into())?[0] != 0 {
            break;
        }
    }
    let mut cells = Vec::new();
    for (entry, samples) in entries.iter_mut().zip(samples) {
        let messages = if entry.operations > 0 { count(stage, entry)? } else { None };
        for (n, (name, _)) in entry.metrics.iter().enumerate() {
            let values =
                samples.iter().filter_map(|row: &Vec<f64>| row.get(n).copied().filter(|v| v.is_finite()));
            let Some(spread) = Spread::of(values.collect()) else { continue };
            let way = if name.is_empty() { entry.way.clone() } else { format!("{}: {name}", entry.way) };
            let messages = messages.filter(|_| n == 0);
            cells.push(Cell { group, setting: entry.setting.clone(), way, spread, rounds, messages });
        }
    }
    Ok(cells)
}

/// The numbers of the members that have one, as one.
fn together(all: impl Iterator<Item = f64>, of: Of) -> f64 {
    let all: Vec<f64> = all.filter(|number| number.is_finite()).collect();
    match of {
        Of::Slowest => all.into_iter().fold(f64::NAN, f64::max),
        Of::Mean => all.iter().sum::<f64>() / all.len() as f64,
    }
}

/// For what is under way still: acknowledgements.
const SETTLE: Duration = Duration::from_millis(15);

/// Messages of all per operation of a batch, which is run once more, and not timed.
fn count<K: Stage>(stage: &mut K, entry: &mut Entry<'_, K>) -> Outcome<Option<f64>> {
    let me = stage.me();
    let (first, others) = (me.thread() == 0, (me.size() * (me.hosts().count() - 1)) as u64);
    let Some(endpoint) = me.endpoint().filter(|_| others > 0).cloned() else { return Ok(None) };
    let sent = || if first { endpoint.sent() } else { 0 };
    me.gather(0)?;
    sleep(SETTLE);
    let before = sent();
    stage.me().gather(0)?;
    (entry.run)(stage)?;
    stage.me().gather(0)?;
    sleep(SETTLE);
    let mine = sent() - before;
    let all: u64 = stage.me().gather(mine)?.into_iter().sum();
    // Each member gathers by a message to each other host.
    Ok(Some(all.saturating_sub(2 * others) as f64 / entry.operations as f64))
}

/// The mean time of a number of operations, in nanoseconds, each of which is prepared first.
pub(super) fn each<K>(
    stage: &mut K,
    operations: usize,
    mut prepare: impl FnMut(&mut K) -> Outcome<()>,
    mut operation: impl FnMut(&mut K) -> Outcome<()>,
) -> Outcome<f64> {
    let mut took = Duration::ZERO;
    for _ in 0..operations {
        prepare(stage)?;
        let start = Instant::now();
        operation(stage)?;
        took += start.elapsed();
    }
    Ok(took.as_nanos() as f64 / operations as f64)
}

/// The mean time of a number of operations back to back, in nanoseconds.
pub(super) fn all<E>(operations: usize, mut operation: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    for n in 0..operations {
        operation(n)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_number_does_not_count() {
        let all = [f64::NAN, 3.0, 1.0];
        assert_eq!((together(all.into_iter(), Of::Slowest), together(all.into_iter(), Of::Mean)), (3.0, 2.0));
        assert!(together([f64::NAN].into_iter(), Of::Slowest).is_nan());
    }
}
