//! The race of a team: every member runs its part of a batch of one entry, then of the next.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use syncline_fabric::Member;

use crate::error::Result;
use crate::race::{self, Group, Results, Side, Stage};
use crate::stop::Signals;

/// The number of runs of a group, and its longest duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<'s> {
    pub(super) rounds: usize,
    pub(super) most: Duration,
    pub(super) signals: &'s Signals,
}

/// How the values of members are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Slowest,
    Mean,
}

/// The state that members have for their entries.
pub(super) trait Kit {
    fn me(&mut self) -> &mut Member;
}

/// The decision of one member holds for all.
impl<K: Kit> Stage for K {
    const SKIPS: bool = false;

    fn agree(&mut self, over: bool) -> Result<bool> {
        Ok(self.me().gather(over.into())?[0] != 0)
    }
}

/// The conditions under which ways are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Setting {
    pub(super) group: &'static str,
    pub(super) setting: String,
    /// The number of messages of all members together, per operation, once they are counted.
    #[serde(skip)]
    pub(super) messages: Option<f64>,
}

/// The summary of an entry.
pub(super) type Cell = race::Cell<Setting>;

/// An entry of the race.
pub(super) struct Entry<'a, K> {
    entry: race::Entry<'a, K, Setting>,
    /// The number of operations in a batch, among which its messages are divided; 0: messages are
    /// not counted.
    operations: usize,
}

impl<'a, K: Kit> Entry<'a, K> {
    /// Returns an entry with one time for each member, in nanoseconds.
    pub(super) fn time(
        way: impl Into<String>,
        setting: impl Into<String>,
        operations: usize,
        mut run: impl FnMut(&mut K) -> Result<f64> + 'a,
    ) -> Self {
        Self::of(way, setting, operations, &[""], &[Of::Slowest], move |kit| Ok(vec![run(kit)?]))
    }

    /// Returns an entry with several values for each member, NaN where a member has none. No member
    /// begins before all have finished the previous entry, and all get the same values.
    pub(super) fn of(
        way: impl Into<String>,
        setting: impl Into<String>,
        operations: usize,
        metrics: &'static [&'static str],
        of: &'static [Of],
        mut run: impl FnMut(&mut K) -> Result<Vec<f64>> + 'a,
    ) -> Self {
        let setting = Setting { group: "", setting: setting.into(), messages: None };
        let measure = move |kit: &mut K| {
            kit.me().gather(0)?;
            let numbers = run(kit)?;
            let join = |(number, of): (f64, &Of)| {
                let all = kit.me().gather(number.to_bits())?;
                Ok(vec![together(all.into_iter().map(f64::from_bits), *of)])
            };
            numbers.into_iter().zip(of).map(join).collect()
        };
        Self { entry: race::Entry::of(setting, Side::Ours, way, metrics, measure), operations }
    }
}

/// Runs entries in turn. Must be called by all members with the same entries; all get the same
/// results.
pub(super) fn race<K: Kit>(
    kit: &mut K,
    group: &'static str,
    entries: Vec<Entry<'_, K>>,
    Pace { rounds, most, signals }: Pace<'_>,
) -> Result<Vec<Cell>> {
    let (mut entries, operations): (Vec<_>, Vec<_>) =
        entries.into_iter().map(|Entry { entry, operations }| (entry, operations)).unzip();
    entries.iter_mut().for_each(|entry| entry.key().group = group);
    let mut groups = [Group::new(entries)];
    let pace =
        race::Pace { least: 1, most: rounds, until: Some(Instant::now() + most), warm_up: true };
    let Results { mut cells, .. } = race::race(kit, signals, &mut groups, pace)?;
    let counted = groups[0].entries().zip(operations).filter(|(_, operations)| *operations > 0);
    for (entry, operations) in counted {
        let messages = count(kit, entry)?.map(|messages| messages / operations as f64);
        let metric = format!("{}: ", entry.way());
        let key = entry.key().clone();
        let of_it = |cell: &&mut Cell| {
            cell.key == key && (cell.way == entry.way() || cell.way.starts_with(&metric))
        };
        // The cell of the first metric only.
        if let Some(cell) = cells.iter_mut().find(of_it) {
            cell.key.messages = messages;
        }
    }
    Ok(cells)
}

/// Combines the values of the members that have one.
fn together(all: impl Iterator<Item = f64>, of: Of) -> f64 {
    let all: Vec<f64> = all.filter(|number| number.is_finite()).collect();
    match of {
        Of::Slowest => all.into_iter().fold(f64::NAN, f64::max),
        Of::Mean => all.iter().sum::<f64>() / all.len() as f64,
    }
}

/// The time for messages that are still in flight: acknowledgements.
const SETTLE: Duration = Duration::from_millis(15);

/// Counts the messages of all members in a batch, which is run once more and not timed.
fn count<K: Kit>(kit: &mut K, entry: &mut race::Entry<'_, K, Setting>) -> Result<Option<f64>> {
    let me = kit.me();
    let (first, others) = (me.thread() == 0, (me.size() * (me.hosts().count() - 1)) as u64);
    let Some(endpoint) = me.endpoint().filter(|_| others > 0).cloned() else { return Ok(None) };
    let sent = || if first { endpoint.sent() } else { 0 };
    me.gather(0)?;
    sleep(SETTLE);
    let before = sent();
    let gathers = entry.run(kit)?.len() as u64 + 2;
    kit.me().gather(0)?;
    sleep(SETTLE);
    let mine = sent() - before;
    let all: u64 = kit.me().gather(mine)?.into_iter().sum();
    // Each member gathers by a message to each other host: before the batch, after it, and for its
    // values.
    Ok(Some(all.saturating_sub(gathers * others) as f64))
}

/// Returns the mean time of a number of operations, in nanoseconds; each is prepared first,
/// untimed.
pub(super) fn each<K>(
    kit: &mut K,
    operations: usize,
    mut prepare: impl FnMut(&mut K) -> Result<()>,
    mut operation: impl FnMut(&mut K) -> Result<()>,
) -> Result<f64> {
    let mut took = Duration::ZERO;
    for _ in 0..operations {
        prepare(kit)?;
        let start = Instant::now();
        operation(kit)?;
        took += start.elapsed();
    }
    Ok(took.as_nanos() as f64 / operations as f64)
}

/// Returns the mean time of a number of operations back to back, in nanoseconds.
pub(super) fn all<E>(
    operations: usize,
    mut operation: impl FnMut(usize) -> Result<(), E>,
) -> Result<f64, E> {
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
        assert_eq!(
            (together(all.into_iter(), Of::Slowest), together(all.into_iter(), Of::Mean)),
            (3.0, 2.0)
        );
        assert!(together([f64::NAN].into_iter(), Of::Slowest).is_nan());
    }
}
