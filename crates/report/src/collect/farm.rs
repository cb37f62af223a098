//! Tasks of pools: which worker executed which when.

use syncline_trace::Activity;

use super::Histogram;
use crate::load::{Span, Trace};
use crate::model::Farm;

/// The most tasks that a page shows.
const MOST: usize = 20_000;
/// The number of bins of the curve of running tasks.
const BINS: usize = 500;

/// Tasks of all workers.
#[derive(Debug)]
pub(crate) struct FarmCollector {
    tasks: Vec<Span>,
    pub(crate) lengths: Histogram,
    /// The two longest tasks.
    pub(crate) longest: Option<Span>,
    bin: u64,
    pub(crate) running: Vec<u64>,
    pub(crate) last_begin: u64,
}

impl FarmCollector {
    pub(crate) fn new(trace: &Trace) -> FarmCollector {
        FarmCollector {
            tasks: Vec::new(),
            lengths: Histogram::default(),
            longest: None,
            bin: trace.length.div_ceil(BINS as u64).max(1),
            running: vec![0; BINS],
            last_begin: 0,
        }
    }

    pub(crate) fn take(&mut self, span: &Span) {
        if span.activity != Activity::Job {
            return;
        }
        self.lengths.add(span.length());
        self.last_begin = self.last_begin.max(span.since);
        if self.longest.is_none_or(|longest| longest.length() < span.length()) {
            self.longest = Some(*span);
        }
        let running = &mut self.running;
        super::divide(self.bin, BINS, span.since, span.until, |index, part| running[index] += part);
        if self.tasks.len() < MOST {
            self.tasks.push(*span);
        }
    }

    /// Returns the number of running tasks in each bin, with the bin's time in seconds.
    fn curve(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let bin = self.bin as f64 / 1e9;
        self.running
            .iter()
            .enumerate()
            .map(move |(index, &time)| (index as f64 * bin, time as f64 / self.bin as f64))
    }

    pub(crate) fn finish(&self, trace: &Trace) -> Option<Farm> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut lanes: Vec<usize> = self.tasks.iter().map(|span| span.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let tasks = self.tasks.iter().filter_map(|span| {
            let worker = lanes.binary_search(&span.lane).ok()? as u32;
            Some((worker, span.detail, seconds(span.since), seconds(span.until)))
        });
        let Histogram { least, greatest, .. } = self.lengths;
        (self.lengths.count > 0).then(|| Farm {
            tasks: tasks.collect(),
            workers: lanes.iter().map(|&lane| trace.lane_name(lane)).collect(),
            running: self.curve().collect(),
            lengths: [
                seconds(least),
                seconds(self.lengths.median()),
                self.lengths.mean() / 1e9,
                seconds(greatest),
            ],
        })
    }
}
