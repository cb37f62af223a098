//! What makes a run slower than it need be, by rules over what was collected.
//!
//! Each rule looks at one kind of cause, and returns the part of the threads' time that it costs
//! and the figures that show it. A cause below 7 % is not named. Some waits have a cause that
//! another rule names: threads that wait for tasks because the disk, a lock, a straggler or a
//! processor is late are not also "bound by the order of tasks".
//!
//! | kind             | the trace shows                                                        |
//! |------------------|------------------------------------------------------------------------|
//! | `stuck`          | the run did not end, and all threads wait                              |
//! | `placement`      | threads share processors while others are idle; the tasks of a team    |
//! |                  | are on few members, or far from their neighbours                       |
//! | `oversubscribed` | more computing threads than processors                                 |
//! | `busy-machine`   | threads are ready to run, and other programs have the processors       |
//! | `memory`         | page faults that wait for the disk                                     |
//! | `straggler`      | one thread takes longer for the same work, and others wait             |
//! | `imbalance`      | one task takes longer                                                  |
//! | `disk`           | threads wait while requests are under way                              |
//! | `lock`           | threads wait for one lock                                              |
//! | `messages`       | all members wait in syncs, fences or for messages                      |
//! | `order`          | no task is ready for some threads                                      |
//! | `farm-tail`      | workers of a pool wait for its longest task                            |
//! | `farm-manager`   | workers of a pool wait for tasks                                       |
//! | `small-tasks`    | tasks are hardly longer than what their order costs                    |

mod balance;
mod farm;
mod processors;
mod waits;

use syncline_trace::{Activity, ActivityClass, Role};

use crate::collect::Collected;
use crate::load::Trace;
use crate::model::{Cause, Summary};

/// Causes that cost less are not named.
const LEAST: f64 = 0.07;

/// What the rules look at.
pub(crate) struct Evidence<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) collected: &'a Collected,
    /// The threads whose time counts: members and workers, not servers and helpers.
    pub(crate) workers: Vec<usize>,
    /// The time of these threads in nanoseconds.
    pub(crate) total: f64,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(trace: &'a Trace, collected: &'a Collected) -> Evidence<'a> {
        let all = || 0..trace.lanes.len();
        let shares = &collected.shares.lanes;
        let is_worker = |&lane: &usize| {
            let works = shares[lane].count[Activity::Step as usize] > 0
                || shares[lane].count[Activity::Job as usize] > 0;
            let role = trace.lanes[lane].role;
            works || matches!(role, Some(Role::Member(_) | Role::Worker(_)))
        };
        let mut workers: Vec<usize> = all().filter(is_worker).collect();
        if workers.is_empty() {
            let serves = |lane: &usize| matches!(trace.lanes[*lane].role, Some(Role::Server(_)));
            workers = all().filter(|lane| !serves(lane)).collect();
        }
        let total: u64 = workers.iter().map(|&lane| shares[lane].length()).sum();
        Evidence { trace, collected, workers, total: (total as f64).max(1.0) }
    }

    /// Returns the nanoseconds of an activity of a thread. Time between the steps or tasks of a
    /// worker, in no span, is waiting for the next one.
    pub(crate) fn time(&self, lane: usize, activity: Activity) -> f64 {
        let share = &self.collected.shares.lanes[lane];
        let gap = match self.gap_is(lane) {
            Some(of) if of == activity => share.length().saturating_sub(share.covered),
            _ => 0,
        };
        (share.time[activity as usize] + gap) as f64
    }

    /// Returns what a thread waits for when it is in no span; `None` if it computes then.
    fn gap_is(&self, lane: usize) -> Option<Activity> {
        let share = &self.collected.shares.lanes[lane];
        let of = |activity: Activity| share.time[activity as usize];
        let tasks = of(Activity::Step) + of(Activity::AwaitTask);
        let jobs = of(Activity::Job) + of(Activity::AwaitJob);
        match share.covered / 2 {
            half if tasks > half => Some(Activity::AwaitTask),
            half if jobs > half => Some(Activity::AwaitJob),
            _ => None,
        }
    }

    /// Returns the part of the threads' time that was an activity.
    pub(crate) fn part(&self, activity: Activity) -> f64 {
        self.workers.iter().map(|&lane| self.time(lane, activity)).sum::<f64>() / self.total
    }

    /// Returns the nanoseconds in which a thread waited.
    pub(crate) fn waited(&self, lane: usize) -> f64 {
        let waits = Activity::ALL.into_iter().filter(|a| a.class() == ActivityClass::Wait);
        waits.map(|activity| self.time(lane, activity)).sum()
    }

    /// Returns the nanoseconds in which a thread did not wait.
    pub(crate) fn worked(&self, lane: usize) -> f64 {
        (self.collected.shares.lanes[lane].length() as f64 - self.waited(lane)).max(0.0)
    }

    pub(crate) fn name(&self, lane: usize) -> String {
        self.trace.lane_name(lane)
    }

    /// Returns the names of threads, at most four of them.
    pub(crate) fn names(&self, lanes: &[usize]) -> String {
        let names: Vec<String> = lanes.iter().take(4).map(|&lane| self.name(lane)).collect();
        match lanes.len() {
            0..=4 => names.join(", "),
            more => format!("{} and {} more", names.join(", "), more - 4),
        }
    }
}

/// Returns what bounds the run.
pub(crate) fn summary(evidence: &Evidence<'_>) -> Summary {
    let waits = Activity::ALL.into_iter().filter(|a| a.class() == ActivityClass::Wait);
    let mut waits: Vec<(usize, f64)> =
        waits.map(|a| (a as usize, evidence.part(a))).filter(|&(_, part)| part > 0.0).collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let wait: f64 = waits.iter().map(|&(_, part)| part).sum::<f64>().min(1.0);
    let mut causes: Vec<Cause> = [
        waits::stuck(evidence),
        processors::processors(evidence),
        processors::tasks_of_a_team(evidence),
        processors::memory(evidence),
        balance::balance(evidence),
        waits::disk(evidence),
        waits::lock(evidence),
        waits::messages(evidence),
        farm::farm(evidence),
        waits::order(evidence),
    ]
    .into_iter()
    .flatten()
    .filter(|cause| cause.cost >= LEAST)
    .collect();
    let first = |cause: &Cause| cause.kind == "stuck";
    causes.sort_by(|a, b| first(b).cmp(&first(a)).then(b.cost.total_cmp(&a.cost)));
    // Waiting for tasks is a consequence where something else is late.
    if causes.iter().any(|cause| cause.kind != "order" && cause.kind != "stuck") {
        causes.retain(|cause| cause.kind != "order");
    }
    let headline = match causes.first() {
        Some(cause) => cause.what.clone(),
        None => format!(
            "Nothing holds the run up: {} of the threads' time is work.",
            percent(1.0 - wait)
        ),
    };
    Summary { headline, causes, work: 1.0 - wait, wait, waits }
}

/// Returns a part in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Returns nanoseconds in a fitting unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// Returns bytes per second in a fitting unit.
pub(crate) fn rate(bytes: f64) -> String {
    match bytes {
        rate if rate < 1e6 => format!("{:.0} kB/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.0} MB/s", rate / 1e6),
        rate => format!("{:.1} GB/s", rate / 1e9),
    }
}

/// Returns the median of some values, or 0 without any.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
