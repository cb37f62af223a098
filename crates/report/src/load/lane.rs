//! The threads of a run.
//!
//! A worker that ends and is started again, as in a sweep of several passes, stays one lane.

use syncline_trace::Role;
use syncline_trace::frame::{LanePart, OpenSpan, ThreadSample};

/// A thread of the run, or workers of a pool with the same number that ran one after the other.
#[derive(Debug, Default)]
pub struct Lane {
    /// The index of its process.
    pub process: usize,
    /// Its number in the process: that of the first thread.
    pub thread: u32,
    /// The number in the system of the last thread; 0 if it is not known.
    pub thread_id: u32,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Option<Role>,
    /// Spans that were open at the end of the recording.
    pub open: Vec<OpenSpan>,
    /// The number of spans.
    pub spans: u64,
    /// The first event of the first thread, in ticks.
    pub began: Option<u64>,
    /// The end of the last thread, in ticks.
    pub ended: Option<u64>,
    /// The number of threads.
    threads: u32,
    /// The end of its last span, in ticks.
    until: u64,
    /// The first and the last sample of the last thread.
    samples: Option<(ThreadSample, ThreadSample)>,
    /// What the kernel said of the threads before the last one.
    before: Usage,
}

/// What the kernel says of a thread, from its first event to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The nanoseconds on a processor.
    pub ran: f64,
    /// The nanoseconds for which the thread was ready to run, and had no processor.
    pub queued: f64,
    /// Page faults that waited for the disk.
    pub major_faults: u64,
}

impl Lane {
    /// A lane of a process, without a thread.
    pub(super) fn of(process: usize) -> Lane {
        Lane { process, ..Lane::default() }
    }

    /// Returns what the kernel says of the lane, if it says anything.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let (first, last) = self.samples.as_ref()?;
        let between = |from: u64, to: u64| to.saturating_sub(from);
        Some(Usage {
            ran: self.before.ran + between(first.ran_ns, last.ran_ns) as f64,
            queued: self.before.queued + between(first.queued_ns, last.queued_ns) as f64,
            major_faults: self.before.major_faults + between(first.major_faults, last.major_faults),
        })
    }

    /// Returns the processors on which the last thread may run, as ranges such as `0-3,8`.
    #[must_use]
    pub fn allowed(&self) -> &str {
        self.samples.as_ref().map_or("", |(_, last)| &last.allowed)
    }

    /// Whether its thread has ended, and no span of it ends after a moment.
    pub(super) fn has_ended_before(&self, ticks: u64) -> bool {
        self.ended.is_some_and(|ended| ended.max(self.until) <= ticks)
    }

    /// A thread begins: the first of the lane, or a further one.
    pub(super) fn begin_thread(&mut self, thread: u32) {
        if self.threads == 0 {
            self.thread = thread;
        }
        self.threads += 1;
        self.before = self.usage().unwrap_or(self.before);
        self.samples = None;
        self.ended = None;
    }

    /// Takes what a frame says of the thread.
    pub(super) fn take(&mut self, part: &LanePart) {
        if let Some(about) = &part.about {
            self.name = super::plain(&about.name);
            self.thread_id = about.thread_id;
            self.began = self.began.or(Some(about.began));
        }
        if part.role.is_some() {
            self.role = part.role;
        }
        if let Some(sample) = &part.sample {
            let first = self.samples.take().map_or_else(|| sample.clone(), |(first, _)| first);
            self.samples = Some((first, sample.clone()));
        }
        self.ended = self.ended.or(part.ended);
        self.open.clone_from(&part.open);
        for span in part.spans() {
            self.spans += 1;
            self.until = self.until.max(span.until);
        }
    }
}
