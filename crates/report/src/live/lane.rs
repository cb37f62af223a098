//! The last seconds of a thread.

use std::collections::VecDeque;

use syncline_trace::frame::ThreadSample;
use syncline_trace::{Activity, ActivityClass};

use super::{BUCKET, BUCKETS, QUIET};
use crate::collect::shares::Inner;
use crate::load::Span;

/// What a thread did in the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneLive {
    /// The last moment at which a frame said something of the thread.
    pub(super) seen: i128,
    /// Buckets with their numbers, the oldest first.
    buckets: VecDeque<(i128, Bucket)>,
    /// Moments, with nanoseconds on a processor and ready to run without one.
    samples: VecDeque<(i128, u64, u64)>,
}

/// What a thread did in a quarter of a second, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    work: f64,
    wait: f64,
    steps: u64,
}

/// The parts of the last seconds, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) work: f64,
    pub(super) wait: f64,
    pub(super) processor: Option<f64>,
    pub(super) queued: Option<f64>,
    /// Steps and tasks per second.
    pub(super) steps: f64,
}

impl LaneLive {
    /// Adds a span with the spans inside of it.
    pub(super) fn add(&mut self, span: &Span, children: &[Inner]) {
        let class = span.activity.class();
        if !matches!(class, ActivityClass::Work | ActivityClass::Wait) {
            return;
        }
        let (since, until) = (i128::from(span.since), i128::from(span.until));
        self.spread(since, until, 1.0, class);
        for child in children {
            let (from, to) = (i128::from(child.since), i128::from(child.until));
            let part = child.time as f64 / (to - from).max(1) as f64;
            self.spread(from, to, -part, class);
        }
        if matches!(span.activity, Activity::Step | Activity::Job)
            && let Some(bucket) = self.bucket(until.div_euclid(BUCKET))
        {
            bucket.steps += 1;
        }
    }

    /// Adds the time between two moments to the buckets.
    fn spread(&mut self, since: i128, until: i128, factor: f64, class: ActivityClass) {
        let last = until.div_euclid(BUCKET);
        let first = since.div_euclid(BUCKET).max(last - BUCKETS as i128);
        for number in first..=last {
            let (from, to) = (number * BUCKET, (number + 1) * BUCKET);
            let time = (until.min(to) - since.max(from)).max(0) as f64 * factor;
            if let Some(bucket) = self.bucket(number) {
                match class {
                    ActivityClass::Work => bucket.work += time,
                    _ => bucket.wait += time,
                }
            }
        }
    }

    /// Returns a bucket, unless it is too old.
    fn bucket(&mut self, number: i128) -> Option<&mut Bucket> {
        let newest = self.buckets.back().map_or(i128::MIN, |&(newest, _)| newest);
        if number > newest {
            self.buckets.push_back((number, Bucket::default()));
            while self.buckets.front().is_some_and(|&(old, _)| old < number - BUCKETS as i128) {
                self.buckets.pop_front();
            }
        } else if number < newest - BUCKETS as i128 {
            return None;
        }
        let index = self.buckets.partition_point(|&(other, _)| other < number);
        if self.buckets.get(index).is_none_or(|&(other, _)| other != number) {
            self.buckets.insert(index, (number, Bucket::default()));
        }
        self.buckets.get_mut(index).map(|(_, bucket)| bucket)
    }

    /// Takes what the kernel says of the thread.
    pub(super) fn sample(&mut self, now: i128, sample: &ThreadSample) {
        // A further thread of the same worker begins to count anew.
        if self.samples.back().is_some_and(|&(_, ran, _)| sample.ran_ns < ran) {
            self.samples.clear();
        }
        self.samples.push_back((now, sample.ran_ns, sample.queued_ns));
        let old = now - BUCKET * BUCKETS as i128;
        // One sample from before the last seconds stays, so that all of them are covered.
        while self.samples.get(1).is_some_and(|&(time, ..)| time <= old) {
            self.samples.pop_front();
        }
    }

    /// Returns the parts of the last seconds before `now`, of a process that began to record at
    /// `began`, with the spans that are open, the outermost first.
    pub(super) fn recent(&self, began: i128, now: i128, open: &[(i128, ActivityClass)]) -> Recent {
        let last = now.div_euclid(BUCKET);
        let first = last - BUCKETS as i128;
        let from = (first * BUCKET).max(began);
        let length = (now - from).max(1) as f64;
        let (mut work, mut wait, mut steps) = (0.0, 0.0, 0);
        for number in first..=last {
            let (begin, end) = ((number * BUCKET).max(from), ((number + 1) * BUCKET).min(now));
            if end <= begin {
                continue;
            }
            let index = self.buckets.partition_point(|&(other, _)| other < number);
            let own = self.buckets.get(index).filter(|&&(other, _)| other == number);
            let own = own.map(|&(_, bucket)| bucket).unwrap_or_default();
            let mut parts = [own.work.max(0.0), own.wait.max(0.0)];
            let mut left = (end - begin) as f64 - parts[0] - parts[1];
            let mut until = end;
            for &(since, class) in open.iter().rev() {
                let time = ((until - since.max(begin)).max(0) as f64).min(left.max(0.0));
                parts[usize::from(class == ActivityClass::Wait)] += time;
                left -= time;
                until = until.min(since);
            }
            work += parts[0];
            wait += parts[1];
            steps += own.steps;
        }
        let rates = match (self.samples.front(), self.samples.back()) {
            // Of a thread that has ended, the kernel says nothing any more.
            (Some(&(t0, ran0, queued0)), Some(&(t1, ran1, queued1)))
                if t1 > t0 && now - t1 <= QUIET =>
            {
                let part = |from: u64, to: u64| {
                    (to.saturating_sub(from) as f64 / (t1 - t0) as f64).min(1.0)
                };
                Some((part(ran0, ran1), part(queued0, queued1)))
            }
            _ => None,
        };
        Recent {
            work: (work / length).clamp(0.0, 1.0),
            wait: (wait / length).clamp(0.0, 1.0),
            processor: rates.map(|(ran, _)| ran),
            queued: rates.map(|(_, queued)| queued),
            steps: steps as f64 / (length / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn span(since: u64, until: u64, activity: Activity) -> Span {
        Span { lane: 0, since, until, activity, subject: 0, detail: 0 }
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 0.02
    }

    #[test]
    fn own_times_of_spans_are_divided_by_class() {
        let mut lane = LaneLive::default();
        let wait = span(11 * SECOND, 12 * SECOND, Activity::AwaitLock);
        lane.add(&wait, &[]);
        let inner = Inner { since: wait.since, until: wait.until, time: SECOND };
        lane.add(&span(10 * SECOND, 14 * SECOND, Activity::Step), &[inner]);
        let recent = lane.recent(0, i128::from(15 * SECOND), &[]);
        assert!(near(recent.work, 0.6) && near(recent.wait, 0.2), "{recent:?}");
        assert!(near(recent.steps, 0.2), "{recent:?}");
        // Ten seconds later nothing is left.
        assert_eq!(lane.recent(0, i128::from(25 * SECOND), &[]), Recent::default());
        // Of a process that began a second ago, only that second counts.
        let recent = lane.recent(i128::from(13 * SECOND), i128::from(14 * SECOND), &[]);
        assert!(near(recent.work, 1.0), "{recent:?}");
    }

    #[test]
    fn open_spans_fill_what_is_left() {
        let mut lane = LaneLive::default();
        lane.add(&span(10 * SECOND, 11 * SECOND, Activity::Step), &[]);
        let at = |seconds: u64| i128::from(seconds * SECOND);
        let open = [(at(10), ActivityClass::Work), (at(13), ActivityClass::Wait)];
        let recent = lane.recent(at(10), at(15), &open);
        assert!(near(recent.work, 0.6) && near(recent.wait, 0.4), "{recent:?}");
        let recent = lane.recent(0, at(100), &open);
        assert!(near(recent.work, 0.0) && near(recent.wait, 1.0), "{recent:?}");
    }

    #[test]
    fn samples_give_the_time_on_a_processor() {
        let mut lane = LaneLive::default();
        for second in 0..60 {
            let sample = ThreadSample {
                ran_ns: second * SECOND / 2,
                queued_ns: second * SECOND / 4,
                ..ThreadSample::default()
            };
            lane.sample(i128::from(second * SECOND), &sample);
        }
        let recent = lane.recent(0, i128::from(60 * SECOND), &[]);
        assert!(near(recent.processor.unwrap(), 0.5) && near(recent.queued.unwrap(), 0.25));
        assert!(lane.samples.len() <= 8);
        assert_eq!(lane.recent(0, i128::from(62 * SECOND), &[]).processor, None);
    }

    #[test]
    fn the_state_stays_small() {
        let mut lane = LaneLive::default();
        for i in 0..100_000_u64 {
            lane.add(&span(i * SECOND / 10, (i + 1) * SECOND / 10, Activity::Step), &[]);
        }
        assert!(lane.buckets.len() <= BUCKETS + 1);
        let recent = lane.recent(0, i128::from(10_000 * SECOND), &[]);
        assert!(near(recent.work, 1.0) && (recent.steps - 10.0).abs() < 1.0, "{recent:?}");
    }
}
