//! Requests to the disk: rates over time, and latencies by file.

use std::collections::BTreeMap;

use syncline_trace::Activity;
use syncline_trace::note::ObjectClass;

use super::{Histogram, divide};
use crate::load::{Span, Trace};
use crate::model::Disk;

/// The number of bins.
const BINS: usize = 500;

/// Sums of all requests.
#[derive(Debug)]
pub(crate) struct DiskCollector {
    pub(crate) bin: u64,
    /// Bytes read and written in each bin.
    read: Vec<f64>,
    written: Vec<f64>,
    /// Whether requests were under way, in each bin: nanoseconds, of the busiest thread.
    busy: Vec<u64>,
    files: BTreeMap<String, (u64, Histogram)>,
    pub(crate) bytes: [u64; 2],
    /// The end of the last request of each thread that was counted as busy.
    counted: Vec<u64>,
}

impl DiskCollector {
    pub(crate) fn new(trace: &Trace) -> DiskCollector {
        DiskCollector {
            bin: trace.length.div_ceil(BINS as u64).max(1),
            read: vec![0.0; BINS],
            written: vec![0.0; BINS],
            busy: vec![0; BINS],
            files: BTreeMap::new(),
            bytes: [0; 2],
            counted: vec![0; trace.lanes.len()],
        }
    }

    pub(crate) fn take(&mut self, trace: &Trace, span: &Span) {
        let write = match span.activity {
            Activity::Read => false,
            Activity::Write => true,
            _ => return,
        };
        let all = &mut self.bytes[usize::from(write)];
        *all = all.saturating_add(span.detail);
        let rate = span.detail as f64 / span.length().max(1) as f64;
        let bytes = if write { &mut self.written } else { &mut self.read };
        divide(self.bin, BINS, span.since, span.until.max(span.since + 1), |index, part| {
            bytes[index] += rate * part as f64;
        });
        // Ends of a thread's requests come in order: the new part of each is counted.
        let since = span.since.max(self.counted[span.lane]);
        self.counted[span.lane] = self.counted[span.lane].max(span.until);
        let busy = &mut self.busy;
        divide(self.bin, BINS, since, span.until, |index, part| busy[index] += part);
        let process = &trace.processes[trace.lanes[span.lane].process];
        let name = process.names.get(&(ObjectClass::File, span.subject));
        let name = name.cloned().unwrap_or_else(|| format!("file {}", span.subject));
        let file = self.files.entry(name).or_default();
        file.0 = file.0.saturating_add(span.detail);
        file.1.add(span.length());
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.files.values().map(|(_, latency)| latency.count).sum()
    }

    /// Returns whether there were requests.
    pub(crate) fn is_used(&self) -> bool {
        self.bytes != [0; 2]
    }

    /// Returns the part of each bin in which requests were under way.
    pub(crate) fn busy(&self) -> Vec<f64> {
        self.busy.iter().map(|&busy| (busy as f64 / self.bin as f64).min(1.0)).collect()
    }

    /// Returns the bytes per second while requests were under way, read and written.
    pub(crate) fn rate_while_busy(&self) -> f64 {
        let busy: f64 = self.busy().iter().sum::<f64>() * self.bin as f64 / 1e9;
        if busy > 0.0 { (self.bytes[0] + self.bytes[1]) as f64 / busy } else { 0.0 }
    }

    /// Returns the rates of reading and writing that the run measured, in bytes per second.
    pub(crate) fn peak(trace: &Trace) -> (Option<f64>, Option<f64>) {
        let fact = |key| trace.fact(key)?.parse().ok();
        (fact("disk.read_peak"), fact("disk.write_peak"))
    }

    pub(crate) fn finish(&self, trace: &Trace) -> Option<Disk> {
        let seconds = self.bin as f64 / 1e9;
        let rates = |bytes: &[f64]| bytes.iter().map(|bytes| bytes / seconds).collect();
        let files = self.files.iter().map(|(name, (bytes, latency))| {
            let time = |ns: u64| ns as f64 / 1e9;
            (name.clone(), latency.count, *bytes, time(latency.median()), time(latency.greatest))
        });
        self.is_used().then(|| Disk {
            bin: seconds,
            read: rates(&self.read),
            written: rates(&self.written),
            peak: Self::peak(trace),
            files: files.collect(),
        })
    }
}
