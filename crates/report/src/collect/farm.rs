//! Tasks of pools: which worker executed which when.

use std::collections::{BTreeSet, HashMap};

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
    /// The longest task.
    pub(crate) longest: Option<Span>,
    /// The slots of commands, and the time that tasks ran.
    slots: BTreeSet<u32>,
    pub(crate) ran: u64,
    bin: u64,
    pub(crate) running: Vec<u64>,
    /// Ended tasks of each thread that no outer task has contained yet: begin and end.
    inner: HashMap<usize, Vec<(u64, u64)>>,
    pub(crate) last_begin: u64,
}

impl FarmCollector {
    pub(crate) fn new(trace: &Trace) -> FarmCollector {
        FarmCollector {
            tasks: Vec::new(),
            lengths: Histogram::default(),
            longest: None,
            slots: BTreeSet::new(),
            ran: 0,
            bin: trace.length.div_ceil(BINS as u64).max(1),
            running: vec![0; BINS],
            inner: HashMap::new(),
            last_begin: 0,
        }
    }

    pub(crate) fn take(&mut self, span: &Span) {
        if !matches!(span.activity, Activity::Job | Activity::Command) {
            return;
        }
        self.lengths.add(span.length());
        self.ran += span.length();
        if span.activity == Activity::Command {
            self.slots.insert(span.subject);
        }
        self.last_begin = self.last_begin.max(span.since);
        if self.longest.is_none_or(|longest| longest.length() < span.length()) {
            self.longest = Some(*span);
        }
        let running = &mut self.running;
        super::divide(self.bin, BINS, span.since, span.until, |index, part| running[index] += part);
        // A worker that waits for the results of its task runs others meanwhile: they count once.
        if span.activity == Activity::Job {
            let inner = self.inner.entry(span.lane).or_default();
            while let Some(&(since, until)) = inner.last().filter(|last| last.0 >= span.since) {
                super::divide(self.bin, BINS, since, until, |index, part| running[index] -= part);
                inner.pop();
            }
            if inner.len() >= MOST {
                inner.clear();
            }
            inner.push((span.since, span.until));
        }
        if self.tasks.len() < MOST {
            self.tasks.push(*span);
        }
    }

    /// Returns the number of slots of commands.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the part of the time in which slots of commands had no command, if there are any.
    pub(crate) fn idle(&self, length: u64) -> Option<f64> {
        let whole = self.slots() as f64 * length as f64;
        (whole > 0.0).then(|| (1.0 - self.ran as f64 / whole).max(0.0))
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
        // Commands of `farm run` have no thread of their own; they run in slots.
        let mut workers: Vec<(usize, u32)> =
            self.tasks.iter().map(|span| (span.lane, span.subject)).collect();
        workers.sort_unstable();
        workers.dedup();
        let tasks = self.tasks.iter().filter_map(|span| {
            let worker = workers.binary_search(&(span.lane, span.subject)).ok()? as u32;
            Some((worker, span.detail, seconds(span.since), seconds(span.until)))
        });
        let commands = self.tasks.iter().any(|span| span.activity == Activity::Command);
        let name = |&(lane, slot): &(usize, u32)| match commands {
            true => format!("slot {slot}"),
            false => trace.lane_name(lane),
        };
        let Histogram { least, greatest, .. } = self.lengths;
        (self.lengths.count > 0).then(|| Farm {
            tasks: tasks.collect(),
            workers: workers.iter().map(name).collect(),
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
