//! What makes a run slower than it need be, by rules over what was collected.
//!
//! Each rule looks at one kind of cause, and returns the part of the run's time that it costs and
//! the figures that show it. The run's time is that of its threads, or of the processors where they
//! are fewer: threads that take turns cost nothing. A cause below 7 % is not named. Some waits have
//! a cause that another rule names: threads that wait for tasks because the disk, a lock, a
//! straggler or a processor is late are not also "bound by the order of tasks".
//!
//! | kind             | the trace shows                                                        |
//! |------------------|------------------------------------------------------------------------|
//! | `stuck`          | the run did not end, and all threads wait                              |
//! | `placement`      | threads share processors while others are idle; the tasks of a team    |
//! |                  | are on few members, or far from their neighbours                       |
//! | `oversubscribed` | more computing threads than processors                                 |
//! | `busy-machine`   | threads are ready to run, and other programs have the processors       |
//! | `limit`          | a control group stopped a process that had used its processor time     |
//! | `stopped`        | a process of the run wrote nothing for a while                         |
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

use std::collections::BTreeMap;

use syncline_trace::{Activity, ActivityClass, Role};

use crate::collect::Collected;
use crate::load::Trace;
use crate::model::{Cause, Summary};

/// Causes that cost less are not named.
const LEAST: f64 = 0.07;
/// A run without causes that works for less than this part of its time is not called healthy.
const MOSTLY: f64 = 0.7;

/// What the rules look at.
pub(crate) struct Evidence<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) collected: &'a Collected,
    /// The threads whose time counts: members and workers, not servers and helpers.
    pub(crate) workers: Vec<usize>,
    /// The time that the run had, in nanoseconds: that of these threads, but on no host more than
    /// that of its processors.
    pub(crate) total: f64,
    /// The number of threads that can work at a time.
    pub(crate) at_once: usize,
    /// The part of it in which a processor worked for the run.
    work: f64,
    /// The part in which threads were ready to work, and had no processor.
    queued: f64,
    /// What a nanosecond of a thread's waiting costs: less than one where threads take turns on the
    /// processors, as the others work meanwhile.
    scale: f64,
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
        let (total, at_once, work, queued, scale) = (1.0, 0, 0.0, 0.0, 1.0);
        let mut evidence =
            Evidence { trace, collected, workers, total, at_once, work, queued, scale };
        evidence.add_up();
        evidence
    }

    /// Adds up the time that the run had, and what became of it.
    fn add_up(&mut self) {
        let farm = &self.collected.farm;
        if let Some(idle) = farm.idle(self.trace.length) {
            // The work is that of commands, which have no threads here.
            self.work = 1.0 - idle;
            self.total = (farm.slots() as u64 * self.trace.length).max(1) as f64;
            self.at_once = farm.slots();
            return;
        }
        #[derive(Default)]
        struct Host {
            threads: usize,
            time: u64,
            from: Option<u64>,
            to: u64,
            processors: u32,
        }
        let mut hosts: BTreeMap<usize, Host> = BTreeMap::new();
        for &lane in &self.workers {
            let share = &self.collected.shares.lanes[lane];
            let process = &self.trace.processes[self.trace.lanes[lane].process];
            let host = hosts.entry(process.host).or_default();
            host.threads += 1;
            host.time += share.length();
            host.from = Some(host.from.map_or(share.from, |from| from.min(share.from)));
            host.to = host.to.max(share.to);
            host.processors = host.processors.max(process.info.processors);
        }
        let mut total = 0;
        for host in hosts.values() {
            let length = host.to.saturating_sub(host.from.unwrap_or(host.to));
            // A trace may not tell the number of processors.
            let told = host.processors > 0;
            let processors = if told { host.processors as usize } else { host.threads };
            self.at_once += processors.min(host.threads);
            total += host.time.min(length.saturating_mul(processors as u64));
        }
        self.total = (total as f64).max(1.0);
        let sum =
            |of: &dyn Fn(usize) -> f64| self.workers.iter().map(|&lane| of(lane)).sum::<f64>();
        let worked = sum(&|lane| self.worked(lane));
        let waited = sum(&|lane| self.waited(lane));
        let net = sum(&|lane| {
            let worked = self.worked(lane);
            match self.trace.lanes[lane].usage() {
                Some(usage) => (worked - usage.queued).max(worked.min(usage.ran)),
                None => worked,
            }
        });
        let work = net.min(self.total);
        let idle = waited + worked - net;
        let scale = if idle > 0.0 { (self.total - work) / idle } else { 0.0 };
        self.work = work / self.total;
        self.queued = (worked - net) * scale / self.total;
        self.scale = scale;
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

    /// Returns the part of the run's time that threads' waits of this length cost.
    pub(crate) fn cost(&self, waited: f64) -> f64 {
        waited * self.scale / self.total
    }

    /// Returns the part of the run's time that the waits of an activity cost.
    pub(crate) fn part(&self, activity: Activity) -> f64 {
        self.cost(self.workers.iter().map(|&lane| self.time(lane, activity)).sum())
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

    /// Returns the names of threads, at most four of them; where several processes have workers,
    /// those of the threads' processes.
    pub(crate) fn names(&self, lanes: &[usize]) -> String {
        let names: Vec<String> = match self.has_processes() {
            true => {
                let mut processes: Vec<usize> = Vec::new();
                for process in lanes.iter().map(|&lane| self.trace.lanes[lane].process) {
                    if !processes.contains(&process) {
                        processes.push(process);
                    }
                }
                processes.iter().map(|&process| self.trace.process_name(process)).collect()
            }
            false => lanes.iter().map(|&lane| self.name(lane)).collect(),
        };
        match names.len() {
            0..=4 => names.join(", "),
            more => format!("{} and {} more", names[..4].join(", "), more - 4),
        }
    }

    /// Whether several processes have workers, and one of them has several: then processes are
    /// compared, not threads.
    pub(crate) fn has_processes(&self) -> bool {
        let mut processes: Vec<usize> =
            self.workers.iter().map(|&lane| self.trace.lanes[lane].process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes.len() > 1 && processes.len() < self.workers.len()
    }
}

/// Returns what bounds the run.
pub(crate) fn summary(evidence: &Evidence<'_>) -> Summary {
    let waits = Activity::ALL.into_iter().filter(|a| a.class() == ActivityClass::Wait);
    let mut waits: Vec<(usize, f64)> =
        waits.map(|a| (a as usize, evidence.part(a))).filter(|&(_, part)| part > 0.0).collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let wait: f64 = waits.iter().map(|&(_, part)| part).sum::<f64>().clamp(0.0, 1.0);
    let mut causes: Vec<Cause> = [
        waits::stuck(evidence),
        processors::processors(evidence),
        processors::limit(evidence),
        processors::stopped(evidence),
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
    causes.iter_mut().for_each(|cause| cause.cost = cause.cost.min(1.0));
    // What is certain comes first.
    let first = |cause: &Cause| cause.kind == "stuck" || cause.kind == "stopped";
    causes.sort_by(|a, b| first(b).cmp(&first(a)).then(b.cost.total_cmp(&a.cost)));
    // Waiting for tasks is a consequence where something else is late.
    let explains = |cause: &Cause| !["order", "stuck", "busy-machine"].contains(&&*cause.kind);
    if causes.iter().any(explains) {
        causes.retain(|cause| cause.kind != "order");
    }
    let headline = match causes.first() {
        Some(cause) => cause.what.clone(),
        None if evidence.work < MOSTLY => format!(
            "No cause is named: {} of the run's time is work{}.",
            percent(evidence.work),
            match waits.first() {
                Some(&(activity, part)) =>
                    format!(", and {} {}", percent(part), Activity::ALL[activity].name()),
                None => String::new(),
            }
        ),
        None => {
            format!("Nothing holds the run up: {} of its time is work.", percent(evidence.work))
        }
    };
    Summary { headline, causes, work: evidence.work, queued: evidence.queued, wait, waits }
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
