//! The second reading of a trace: sums, bins, steps, requests and messages, each of bounded size.

pub(crate) mod disk;
pub(crate) mod farm;
pub(crate) mod messages;
pub(crate) mod shares;
pub(crate) mod steps;
pub(crate) mod time_line;

use self::disk::DiskCollector;
use self::farm::FarmCollector;
use self::messages::MessageCollector;
use self::shares::ShareCollector;
use self::steps::StepCollector;
use self::time_line::TimeLineCollector;
use crate::error::ReportError;
use crate::load::Trace;

/// All that is collected.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) shares: ShareCollector,
    pub(crate) time_line: TimeLineCollector,
    pub(crate) steps: StepCollector,
    pub(crate) disk: DiskCollector,
    pub(crate) messages: MessageCollector,
    pub(crate) farm: FarmCollector,
}

impl Collected {
    /// Reads the trace once more.
    pub(crate) fn of(trace: &Trace) -> Result<Collected, ReportError> {
        let mut all = Collected {
            shares: ShareCollector::new(trace.lanes.len()),
            time_line: TimeLineCollector::new(trace),
            steps: StepCollector::new(trace)?,
            disk: DiskCollector::new(trace),
            messages: MessageCollector::new(trace),
            farm: FarmCollector::new(trace),
        };
        trace.for_each(&mut |span| {
            let children = all.shares.take(span);
            all.time_line.take(trace, span, &children);
            let inside = children.iter().map(|inner| inner.time).sum();
            all.steps.take(trace, span, inside);
            all.disk.take(trace, span);
            all.messages.take(span);
            all.farm.take(span);
        })?;
        all.shares.extend(trace);
        Ok(all)
    }
}

/// Divides a span among bins of equal length: calls `each` with the bin and the nanoseconds in it.
pub(crate) fn divide(
    bin: u64,
    bins: usize,
    since: u64,
    until: u64,
    mut each: impl FnMut(usize, u64),
) {
    let last = bins.saturating_sub(1);
    let mut at = since;
    while at < until {
        let index = ((at / bin) as usize).min(last);
        let end = if index == last { until } else { until.min((index as u64 + 1) * bin) };
        each(index, end - at);
        at = end;
    }
}

/// A histogram of times on a logarithmic scale, with eight steps to a factor of two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) least: u64,
    pub(crate) greatest: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        let index = if value < 2 { 0 } else { ((value as f64).log2() * 8.0) as usize };
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.count += 1;
        self.sum += value;
        self.greatest = self.greatest.max(value);
    }

    /// Adds the values of another histogram.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Returns a value below which this part of all values is, within 9 %.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let rank = (self.count as f64 * part) as u64;
        let mut below = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            below += count;
            if below > rank {
                let value = (2f64.powf((index as f64 + 0.5) / 8.0)) as u64;
                return value.clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    pub(crate) fn median(&self) -> u64 {
        self.quantile(0.5)
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn bins_hold_the_whole_span(bin in 1u64..1000, bins in 1usize..50, since in 0u64..30_000, length in 0u64..30_000) {
            let mut sum = 0;
            let mut last = None;
            divide(bin, bins, since, since + length, |index, part| {
                assert!(index < bins && part > 0 && last < Some(index));
                last = Some(index);
                sum += part;
            });
            prop_assert_eq!(sum, length);
        }

        #[test]
        fn quantiles_are_near(mut values in proptest::collection::vec(1u64..1 << 40, 1..200), part in 0.0..1.0_f64) {
            let mut histogram = Histogram::default();
            let (first, second) = values.split_at(values.len() / 3);
            let mut other = Histogram::default();
            first.iter().for_each(|&value| histogram.add(value));
            second.iter().for_each(|&value| other.add(value));
            histogram.merge(&other);
            values.sort_unstable();
            let exact = values[((values.len() as f64 * part) as usize).min(values.len() - 1)] as f64;
            let found = histogram.quantile(part) as f64;
            prop_assert!(found >= exact * 0.9 - 1.0 && found <= exact * 1.1 + 1.0, "{} for {}", found, exact);
            prop_assert_eq!((histogram.least, histogram.greatest), (values[0], *values.last().unwrap()));
        }
    }
}
