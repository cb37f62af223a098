//! The time of each thread by activity, without the time of spans inside other spans.

use std::collections::HashMap;

use syncline_trace::{Activity, ActivityClass, Role};

use crate::load::{Span, Trace};

/// The number of activities.
pub(crate) const ACTIVITIES: usize = Activity::ALL.len();

/// Spans that may still be inside of a span that ends later.
const MOST_CHILDREN: usize = 1024;

/// Sums of all threads.
#[derive(Debug)]
pub(crate) struct ShareCollector {
    pub(crate) lanes: Vec<LaneShare>,
}

/// Sums of a thread, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct LaneShare {
    /// By activity, without the time of inner spans.
    pub(crate) time: [u64; ACTIVITIES],
    /// The number of spans by activity.
    pub(crate) count: [u64; ACTIVITIES],
    /// Waits by object.
    pub(crate) waits: HashMap<(Activity, u32), u64>,
    /// The first begin and the last end.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The time of outermost spans.
    pub(crate) covered: u64,
    /// Ended spans that no outer span has covered yet: begin, end, length without gaps.
    inner: Vec<Inner>,
}

/// A span inside of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// The time of spans in it: less than `until - since` where several were made one.
    pub(crate) time: u64,
}

impl ShareCollector {
    /// For this number of threads.
    pub(crate) fn new(lanes: usize) -> ShareCollector {
        ShareCollector { lanes: vec![LaneShare::new(); lanes] }
    }

    /// Adds a thread.
    pub(crate) fn add_lane(&mut self) {
        self.lanes.push(LaneShare::new());
    }

    /// Extends the time of members to their whole life: what they do outside of spans is work as
    /// well. A process that has not ended goes on to the end of the run.
    pub(crate) fn extend(&mut self, trace: &Trace) {
        for (of, lane) in trace.lanes.iter().zip(&mut self.lanes) {
            if !matches!(of.role, Some(Role::Member(_))) {
                continue;
            }
            let process = &trace.processes[of.process];
            let last = process.clocks.last().map_or(0, |pair| pair.ticks);
            // A member without spans has nothing but its role.
            if let Some(began) = of.began.filter(|&began| began > 0) {
                lane.from = lane.from.min(trace.time(of.process, began));
            }
            if lane.from == u64::MAX {
                continue;
            }
            let end = match of.ended {
                Some(ended) => trace.time(of.process, ended),
                None if process.ended => trace.time(of.process, last),
                None => trace.length,
            };
            lane.to = lane.to.max(end);
        }
    }

    /// Adds a span, and returns the spans that it contains.
    pub(crate) fn take(&mut self, span: &Span) -> Vec<Inner> {
        let lane = &mut self.lanes[span.lane];
        let activity = span.activity as usize;
        lane.count[activity] += 1;
        lane.from = lane.from.min(span.since);
        lane.to = lane.to.max(span.until);
        match span.activity.class() {
            ActivityClass::Work | ActivityClass::Wait => {}
            ActivityClass::Device => {
                lane.time[activity] += span.length();
                return Vec::new();
            }
            _ => return Vec::new(),
        }
        let first = lane.inner.iter().rposition(|inner| inner.until <= span.since);
        let children = lane.inner.split_off(first.map_or(0, |first| first + 1));
        let inside: u64 = children.iter().map(|inner| inner.time).sum();
        let own = span.length().saturating_sub(inside);
        lane.time[activity] += own;
        lane.covered += own;
        if span.activity.class() == ActivityClass::Wait {
            *lane.waits.entry((span.activity, span.subject)).or_default() += own;
        }
        if lane.inner.len() >= MOST_CHILDREN {
            lane.merge();
        }
        lane.inner.push(Inner { since: span.since, until: span.until, time: span.length() });
        children
    }
}

impl LaneShare {
    fn new() -> LaneShare {
        LaneShare {
            time: [0; ACTIVITIES],
            count: [0; ACTIVITIES],
            waits: HashMap::new(),
            from: u64::MAX,
            to: 0,
            covered: 0,
            inner: Vec::new(),
        }
    }

    /// Makes one of every two of the older half of the ended spans.
    fn merge(&mut self) {
        let newer = self.inner.split_off(MOST_CHILDREN / 2);
        self.inner = self
            .inner
            .chunks(2)
            .map(|pair| Inner {
                since: pair[0].since,
                until: pair[pair.len() - 1].until,
                time: pair.iter().map(|inner| inner.time).sum(),
            })
            .collect();
        self.inner.extend(newer);
    }

    /// Returns the time between the first begin and the last end.
    pub(crate) fn length(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(since: u64, until: u64, activity: Activity) -> Span {
        Span { lane: 0, since, until, activity, subject: 7, detail: 0 }
    }

    fn collector() -> ShareCollector {
        ShareCollector::new(1)
    }

    #[test]
    fn inner_time_counts_once() {
        let mut shares = collector();
        shares.take(&span(10, 20, Activity::AwaitLock));
        shares.take(&span(30, 35, Activity::AwaitDisk));
        shares.take(&span(0, 50, Activity::Step));
        shares.take(&span(60, 70, Activity::Step));
        let inside = shares.take(&span(0, 100, Activity::Section));
        assert_eq!(inside.len(), 2);
        let lane = &shares.lanes[0];
        let time = |activity: Activity| lane.time[activity as usize];
        assert_eq!((time(Activity::Step), time(Activity::AwaitLock)), (45, 10));
        assert_eq!((time(Activity::Section), lane.covered), (40, 100));
        assert_eq!(lane.waits[&(Activity::AwaitLock, 7)], 10);
    }

    #[test]
    fn many_spans_in_one_are_added_up() {
        let mut shares = collector();
        for i in 0..100_000 {
            shares.take(&span(10 * i, 10 * i + 4, Activity::Step));
        }
        shares.take(&span(0, 1_000_000, Activity::Section));
        let lane = &shares.lanes[0];
        assert_eq!(lane.time[Activity::Section as usize], 600_000);
        assert_eq!(lane.covered, 1_000_000);
        assert!(lane.inner.len() <= MOST_CHILDREN + 1);
    }
}
