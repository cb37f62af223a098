//! What each thread did when: whole spans while they are few, and sums in bins.

use std::collections::HashMap;

use syncline_trace::{Activity, ActivityClass};

use super::divide;
use super::shares::{ACTIVITIES, Inner};
use crate::load::{Span, Trace};
use crate::model::TimeLine;

/// The most spans that a page shows.
const MOST_SPANS: usize = 20_000;
/// The number of bins, and the most bins of all threads together.
const BINS: usize = 1000;
const MOST_BINS: usize = 256 * BINS;

/// Spans and bins.
#[derive(Debug)]
pub(crate) struct TimeLineCollector {
    /// Spans with the numbers of their labels.
    spans: Vec<(Span, u32)>,
    labels: HashMap<String, u32>,
    pub(crate) bin: u64,
    pub(crate) bins: usize,
    /// For each thread, bin and activity: nanoseconds. Inner spans are subtracted from outer ones.
    pub(crate) time: Vec<Vec<[i64; ACTIVITIES]>>,
}

impl TimeLineCollector {
    pub(crate) fn new(trace: &Trace) -> TimeLineCollector {
        let lanes = trace.lanes.len();
        let bins = (MOST_BINS / lanes.max(1)).clamp(20, BINS);
        TimeLineCollector {
            spans: Vec::new(),
            labels: HashMap::new(),
            bin: trace.length.div_ceil(bins as u64).max(1),
            bins,
            time: vec![vec![[0; ACTIVITIES]; bins]; lanes],
        }
    }

    pub(crate) fn take(&mut self, trace: &Trace, span: &Span, children: &[Inner]) {
        let activity = span.activity as usize;
        match span.activity.class() {
            ActivityClass::Mark => return,
            ActivityClass::Device => {}
            _ => {
                let time = &mut self.time[span.lane];
                divide(self.bin, self.bins, span.since, span.until, |index, part| {
                    time[index][activity] += part as i64;
                });
                for inner in children {
                    divide(self.bin, self.bins, inner.since, inner.until, |index, part| {
                        time[index][activity] -= part as i64;
                    });
                }
            }
        }
        // One more than are shown tells that there are too many. Requests of devices are in other
        // panels.
        if self.spans.len() <= MOST_SPANS && span.activity.class() != ActivityClass::Device {
            let next = self.labels.len() as u32;
            let label = *self.labels.entry(trace.label(span)).or_insert(next);
            self.spans.push((*span, label));
        }
    }

    /// Returns the part of the time of a class of activities in each bin of some threads.
    pub(crate) fn part(&self, lanes: &[usize], of: impl Fn(Activity) -> bool) -> Vec<f64> {
        let wanted: Vec<usize> =
            Activity::ALL.into_iter().filter(|&a| of(a)).map(|a| a as usize).collect();
        let whole = (self.bin * lanes.len().max(1) as u64) as f64;
        let part = |bin| {
            let time = lanes.iter().map(|&lane| &self.time[lane][bin]);
            let sum: i64 = time
                .map(|time: &[i64; ACTIVITIES]| wanted.iter().map(|&a| time[a]).sum::<i64>())
                .sum();
            sum.max(0) as f64 / whole
        };
        (0..self.bins).map(part).collect()
    }

    pub(crate) fn finish(&self) -> TimeLine {
        let seconds = |ns: u64| ns as f64 / 1e9;
        if self.spans.len() <= MOST_SPANS {
            let mut labels = vec![String::new(); self.labels.len()];
            for (label, &index) in &self.labels {
                labels[index as usize].clone_from(label);
            }
            let span = |&(span, label): &(Span, u32)| {
                let (since, length) = (seconds(span.since), seconds(span.length()));
                (span.lane as u32, span.activity as u16, since, length, label)
            };
            // Outer spans first, so that inner ones are drawn over them.
            let mut spans: Vec<_> = self.spans.iter().map(span).collect();
            spans.sort_by(|a, b| {
                (a.0, a.2)
                    .partial_cmp(&(b.0, b.2))
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then(b.3.total_cmp(&a.3))
            });
            return TimeLine { spans, labels, ..TimeLine::default() };
        }
        let bins = self.time.iter().map(|lane| {
            lane.iter()
                .map(|time| {
                    let most = time.iter().enumerate().max_by_key(|&(_, &time)| time);
                    let (activity, time_of_most) = most.map_or((0, 0), |(a, &t)| (a, t));
                    let work: i64 = (0..ACTIVITIES)
                        .filter(|&a| Activity::ALL[a].class() == ActivityClass::Work)
                        .map(|a| time[a])
                        .sum();
                    let none = time_of_most * 10 < self.bin as i64;
                    let percent = (work.max(0) as f64 * 100.0 / self.bin as f64).round() as u8;
                    (if none { -1 } else { activity as i16 }, percent.min(100))
                })
                .collect()
        });
        TimeLine { bin: seconds(self.bin), bins: bins.collect(), ..TimeLine::default() }
    }
}
