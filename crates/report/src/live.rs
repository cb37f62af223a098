//! A run while it runs: what each thread does now, and what it did in the last seconds.
//!
//! # Contract
//! [`Live::take`] accepts the frames of a trace in the order of their writing, and keeps what does
//! not grow with the number of spans. [`Live::view`] returns the state at the last frame of each
//! process. [`Follower`] reads the files of a run while they are written. [`summary`] names what
//! bounds the run so far; it reads the files from their beginning.
//!
//! ```text
//!   files ──Follower──> frames ──take──> names, roles, open spans,        ──view──> View
//!     │                                  seconds by class in the last 5 s
//!     └──summary (now and then, in another thread)──> what bounds the run so far
//! ```
//!
//! # Method
//! The last seconds are divided into buckets of a quarter of a second. A span adds its own time,
//! without that of the spans inside of it, to the buckets that it overlaps. Spans that are open
//! fill what is left of the buckets since their begin, the innermost first.
//!
//! # Costs
//! A span takes about 100 ns, most of it for reading its frame; a thread takes some kilobytes.

mod follow;
mod lane;
mod view;
mod words;

use std::path::Path;
use std::sync::OnceLock;

use syncline_trace::clock::ClockPair;
use syncline_trace::frame::{Frame, OpenSpan};
use syncline_trace::{Activity, ActivityClass, Role};

pub use follow::Follower;
pub use view::{LaneView, Now, State, View};

use self::lane::LaneLive;
use crate::causes::{self, Evidence};
use crate::collect::Collected;
use crate::collect::shares::ShareCollector;
use crate::error::ReportError;
use crate::load::{Process, Span, Trace};
use crate::model::Summary;

/// The length of a bucket in nanoseconds.
const BUCKET: i128 = 250_000_000;
/// The number of buckets of the last seconds, without the one that is being filled.
const BUCKETS: usize = 20;
/// A thread of which frames have said nothing for this long has ended.
const QUIET: i128 = 1_000_000_000;
/// A run is stuck when all threads have waited for this long.
const STUCK: i128 = 1_000_000_000;
/// A run that has written nothing for this many seconds is stopped, or cannot write.
const SILENT: f64 = 3.0;
/// The most tasks whose names are kept: those with the highest numbers.
const TASKS: usize = 1 << 20;

/// What is known of a run.
#[derive(Debug)]
pub struct Live {
    trace: Trace,
    shares: ShareCollector,
    lanes: Vec<LaneLive>,
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

impl Live {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Live {
        Live { trace: Trace::default(), shares: ShareCollector::new(0), lanes: Vec::new() }
    }

    /// Takes the next frame of a file of the run. Frames of one process must be in their order.
    pub fn take(&mut self, frame: &Frame) {
        let process = self.trace.note(frame);
        while self.lanes.len() < self.trace.lanes.len() {
            self.lanes.push(LaneLive::default());
            self.shares.add_lane();
        }
        let of = &mut self.trace.processes[process];
        forget(of);
        let now = of.monotonic(frame.clock.ticks);
        for part in &frame.lanes {
            let Some(&lane) = self.trace.threads.get(&(process, part.thread)) else { continue };
            let live = &mut self.lanes[lane];
            live.seen = now;
            for span in part.spans() {
                let time = |ticks| self.trace.processes[process].monotonic(ticks).max(0) as u64;
                let (since, until) = (time(span.since), time(span.until));
                let syncline_trace::frame::TickSpan { activity, subject, detail, .. } = span;
                let until = until.max(since);
                let span = Span { lane, since, until, activity, subject, detail };
                let children = self.shares.take(&span);
                live.add(&span, &children);
            }
            if let Some(sample) = &part.sample {
                live.sample(now, sample);
            }
        }
    }

    /// Returns the state of the run.
    #[must_use]
    pub fn view(&self) -> View {
        let silence: Vec<f64> = (0..self.trace.processes.len()).map(|p| self.silence(p)).collect();
        let gone: Vec<bool> =
            silence.iter().enumerate().map(|(p, &silence)| self.is_gone(p, silence)).collect();
        View {
            command: crate::report::title(&self.trace),
            elapsed: self.elapsed(),
            state: self.state(&silence, &gone),
            lanes: (0..self.lanes.len()).map(|lane| self.lane(lane, &gone)).collect(),
            lost: self.trace.processes.iter().map(|process| process.lost).sum(),
        }
    }

    /// Returns the seconds between the first and the last frame.
    fn elapsed(&self) -> f64 {
        let began = self.trace.processes.iter().map(|process| process.info.began.realtime_ns);
        let last = self.trace.processes.iter().filter_map(|process| process.clocks.last());
        let last = last.map(|clock| clock.realtime_ns).max().unwrap_or_default();
        last.saturating_sub(began.min().unwrap_or_default()) as f64 / 1e9
    }

    /// Returns the last moment of a process by the clock of its host.
    fn now(&self, process: usize) -> i128 {
        let process = &self.trace.processes[process];
        process.clocks.last().map_or(0, |clock| i128::from(clock.monotonic_ns))
    }

    /// Whether a thread has ended.
    fn has_ended(&self, lane: usize, gone: &[bool]) -> bool {
        let process = self.trace.lanes[lane].process;
        self.trace.lanes[lane].ended.is_some()
            || self.trace.processes[process].ended
            || self.now(process) - self.lanes[lane].seen > QUIET
            || gone[process]
    }

    /// Returns for how many seconds a process has written nothing; 0 if that is not known, as it is
    /// on another host.
    fn silence(&self, process: usize) -> f64 {
        static BOOT: OnceLock<String> = OnceLock::new();
        let boot = BOOT.get_or_init(|| {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
            boot.unwrap_or_default().trim().to_owned()
        });
        if self.trace.processes[process].info.boot != *boot {
            return 0.0;
        }
        let now = i128::from(ClockPair::now().monotonic_ns);
        (now - self.now(process)).max(0) as f64 / 1e9
    }

    /// Whether a process has ended without a word: it is silent, and does not exist any more.
    fn is_gone(&self, process: usize, silence: f64) -> bool {
        let process = &self.trace.processes[process];
        !process.ended
            && silence * 1e9 > QUIET as f64
            && !Path::new("/proc").join(process.info.pid.to_string()).exists()
    }

    fn state(&self, silence: &[f64], gone: &[bool]) -> State {
        let processes = &self.trace.processes;
        if processes.is_empty() {
            return State::Empty;
        }
        let running = || (0..processes.len()).filter(|&p| !processes[p].ended && !gone[p]);
        if running().next().is_none() {
            return match gone.iter().position(|&gone| gone) {
                Some(killed) => State::Killed(processes[killed].info.pid),
                None => State::Ended,
            };
        }
        let shortest = running().map(|process| silence[process]).fold(f64::MAX, f64::min);
        if shortest > SILENT {
            return State::Silent { seconds: shortest };
        }
        self.stuck(gone).unwrap_or(State::Runs)
    }

    /// Returns the state of a run all of whose threads wait, and have waited for a while.
    fn stuck(&self, gone: &[bool]) -> Option<State> {
        let all = || (0..self.lanes.len()).filter(|&lane| !self.has_ended(lane, gone));
        let serves = |lane: usize| matches!(self.trace.lanes[lane].role, Some(Role::Server(_)));
        let mut lanes: Vec<usize> = all().filter(|&lane| self.is_worker(lane)).collect();
        if lanes.is_empty() {
            lanes = all().filter(|&lane| !serves(lane)).collect();
        }
        let mut waits = Vec::new();
        for lane in lanes {
            let process = self.trace.lanes[lane].process;
            let (open, activity) = self.innermost(lane)?;
            let age = self.now(process) - self.trace.processes[process].monotonic(open.since);
            if activity.class() != ActivityClass::Wait || age < STUCK {
                return None;
            }
            waits.push((age, lane));
        }
        let &(age, _) = waits.iter().min()?;
        // The wait that began first is the most likely cause of the others.
        let &(_, first) = waits.iter().max()?;
        let (open, activity) = self.innermost(first)?;
        let wait = self.words(first, &open, activity);
        let what = format!("{} {wait}", self.trace.lane_name(first));
        Some(State::Stuck { seconds: age as f64 / 1e9, what })
    }

    /// Whether the time of a thread counts: it is a member or a worker, or executed tasks.
    fn is_worker(&self, lane: usize) -> bool {
        let count = &self.shares.lanes[lane].count;
        let role = self.trace.lanes[lane].role;
        count[Activity::Step as usize] + count[Activity::Job as usize] > 0
            || matches!(role, Some(Role::Member(_) | Role::Worker(_)))
    }

    /// Returns the innermost open span of a thread.
    fn innermost(&self, lane: usize) -> Option<(OpenSpan, Activity)> {
        let open = self.trace.lanes[lane].open.last()?;
        Some((*open, Activity::from_number(open.activity)?))
    }

    fn words(&self, lane: usize, open: &OpenSpan, activity: Activity) -> String {
        let process = self.trace.lanes[lane].process;
        words::words(&self.trace, process, activity, open.subject, open.detail)
    }

    fn lane(&self, lane: usize, gone: &[bool]) -> LaneView {
        let (of, live) = (&self.trace.lanes[lane], &self.lanes[lane]);
        let process = &self.trace.processes[of.process];
        let (now, ended) = (self.now(of.process), self.has_ended(lane, gone));
        let open: Vec<(i128, ActivityClass)> = of
            .open
            .iter()
            .filter_map(|open| {
                let class = Activity::from_number(open.activity)?.class();
                Some((process.monotonic(open.since), class))
            })
            .collect();
        let open = if ended { &[] } else { &open[..] };
        let began = i128::from(process.info.began.monotonic_ns);
        let mut recent = live.recent(began, now, open);
        // A member counts all its life: what it does outside of spans is work.
        if matches!(of.role, Some(Role::Member(_))) && !ended {
            recent.work = 1.0 - recent.wait;
        }
        let current = self.innermost(lane).filter(|_| !ended).map(|(open, activity)| Now {
            words: self.words(lane, &open, activity),
            class: activity.class(),
            seconds: (now - process.monotonic(open.since)).max(0) as f64 / 1e9,
        });
        let counts = &self.shares.lanes[lane].count;
        LaneView {
            name: self.trace.lane_name(lane),
            ended,
            ended_before: now - live.seen > QUIET,
            work: recent.work,
            wait: recent.wait,
            queued: recent.queued,
            processor: recent.processor,
            steps: recent.steps,
            all_steps: counts[Activity::Step as usize] + counts[Activity::Job as usize],
            now: current,
        }
    }
}

/// Forgets what only a report needs, and the clocks of all but the last frames.
fn forget(process: &mut Process) {
    const CLOCKS: usize = 64;
    if process.clocks.len() > 2 * CLOCKS {
        process.clocks.drain(..process.clocks.len() - CLOCKS);
    }
    while process.tasks.len() > TASKS {
        process.tasks.pop_first();
    }
    process.machine.clear();
    process.overlays.clear();
    process.accesses.clear();
}

/// Returns what bounds a run so far, from the files of its trace and those of other hosts beside
/// them.
///
/// The time that it takes is that of reading the files several times.
///
/// # Errors
/// If a file cannot be read, or there are no events yet.
pub fn summary(paths: &[&Path]) -> Result<Summary, ReportError> {
    let trace = Trace::open(paths)?;
    let collected = Collected::of(&trace)?;
    Ok(causes::summary(&Evidence::new(&trace, &collected)))
}
