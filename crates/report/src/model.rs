//! The report as data: what the page shows, and what other programs read as JSON.
//!
//! All times are seconds since the first event of the run. A panel whose data is absent (`None`, or
//! empty) has nothing to show: the page says why instead, from [`Report::missing`].

use serde::{Deserialize, Serialize};

/// A report of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The command line of the run, or the name of the trace.
    pub title: String,
    /// The moment at which the run began, in seconds since 1970.
    pub began: f64,
    /// The length of the run in seconds.
    pub length: f64,
    /// What bounds the run.
    pub summary: Summary,
    /// Properties of the run, the machine and the trace, in the order in which they are shown.
    pub facts: Vec<(String, String)>,
    /// What the trace lacks: events that were lost, processes that were killed, damaged parts.
    pub missing: Vec<String>,
    /// The activities that `shares`, `bars` and `time_line` refer to by index.
    pub activities: Vec<ActivityInfo>,
    /// The threads, sorted by host, process and role.
    pub lanes: Vec<LaneInfo>,
    /// What each thread did when.
    pub time_line: TimeLine,
    /// One grid for each kind of task that runs iteration by iteration.
    pub grids: Vec<Grid>,
    /// How many steps, tasks of a pool, ... were complete when.
    pub progress: Vec<Series>,
    /// The wave over the matrix of blocks.
    pub wave: Option<Wave>,
    /// The tasks, the locations and their requests.
    pub overlay: Option<OverlayGraph>,
    /// The rate of the disk.
    pub disk: Option<Disk>,
    /// Messages between processes.
    pub messages: Option<Messages>,
    /// Pools of workers.
    pub farm: Option<Farm>,
}

/// What bounds a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// One sentence: the first cause, or that none was found.
    pub headline: String,
    /// The causes, the most expensive first. Empty for a healthy run.
    pub causes: Vec<Cause>,
    /// The part of the run's time that was work, from 0 to 1. The run's time is that of its
    /// threads, but on no host more than that of the processors.
    pub work: f64,
    /// The part in which threads were ready to work, and had no processor.
    pub queued: f64,
    /// The part that was waiting.
    pub wait: f64,
    /// The part of the waiting, by activity: index and part of the run's time.
    pub waits: Vec<(usize, f64)>,
}

/// Something that makes a run slower than it need be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind: `disk`, `placement`, `straggler`, `order`, `messages`, `lock`, `imbalance`,
    /// `memory`, `small-tasks`, `farm-tail`, `busy-machine`, ...
    pub kind: String,
    /// One sentence that names the object: the disk, the member, the lock.
    pub what: String,
    /// What the trace shows, with figures.
    pub evidence: String,
    /// What to change.
    pub advice: String,
    /// The part of the run's time that it costs, from 0 to 1.
    pub cost: f64,
}

/// An activity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActivityInfo {
    /// Its words, such as `waits at a barrier`.
    pub name: String,
    /// `work`, `wait`, `device`, `mark` or `other` (time outside of spans).
    pub class: String,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneInfo {
    /// Its label: `member 3`, `worker 1`, `server of host 2`.
    pub name: String,
    /// The host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The time of its first event.
    pub from: f64,
    /// The time of its last event.
    pub to: f64,
    /// Seconds by activity: index, seconds.
    pub shares: Vec<(usize, f64)>,
    /// Seconds on a processor, and seconds ready to run without one, where the kernel tells.
    pub processor: Option<(f64, f64)>,
    /// Spans that have not ended: activity, object, since when.
    pub open: Vec<(usize, String, f64)>,
}

/// What each thread did when: whole spans where there are few, otherwise the time in bins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeLine {
    /// Spans as lane, activity, begin, length, label (an index into `labels`).
    pub spans: Vec<(u32, u16, f64, f64, u32)>,
    /// The labels of the spans.
    pub labels: Vec<String>,
    /// The length of a bin in seconds; 0 if there are none.
    pub bin: f64,
    /// For each lane and bin the activity that took most of it, or -1, and the part that was work
    /// in percent.
    pub bins: Vec<Vec<(i16, u8)>>,
}

/// Times by iteration and task, as Figs. 5 to 8 of Gustedt, Jeanvoine et al. show them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// The kind of task: `block`, `wave`.
    pub name: String,
    /// The names of the columns: a task, or a range of tasks if there are many.
    pub tasks: Vec<String>,
    /// The iteration of the first row, and the number of iterations in a row (more than 1 if there
    /// are many).
    pub first: u64,
    /// Iterations in a row.
    pub stride: u64,
    /// Seconds of work in each step: `work[row][column]`, a negative number where there is no step.
    pub work: Vec<Vec<f64>>,
    /// Seconds between the end of the step before and the begin of this one.
    pub wait: Vec<Vec<f64>>,
    /// The phase of each step: 0 loading (the first wave has not reached the last task), 1 stable,
    /// 2 flush (the first task has ended its last iteration).
    pub phase: Vec<Vec<u8>>,
    /// Seconds of waiting per second of work: of all, and of each phase.
    pub ratio: f64,
    /// The ratio by phase.
    pub ratios: [f64; 3],
}

/// A line over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name of the line.
    pub name: String,
    /// The unit of the values.
    pub unit: String,
    /// Times and values.
    pub points: Vec<(f64, f64)>,
}

/// The wave over the matrix of blocks: for each block, when it was worked on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wave {
    /// Rows and columns of blocks.
    pub rows: u32,
    /// Columns of blocks.
    pub cols: u32,
    /// What a step of a block is: an `iteration`, or a `pass` of several.
    pub unit: String,
    /// For each block, row by row: the begins and ends of its steps, in their order.
    pub steps: Vec<Vec<(f64, f64)>>,
}

/// Tasks, locations and requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverlayGraph {
    /// The names of the tasks that are shown.
    pub tasks: Vec<String>,
    /// The names of the locations.
    pub locations: Vec<String>,
    /// Requests: task, location, whether it is exclusive.
    pub requests: Vec<(u32, u32, bool)>,
    /// The steps of each task: begin and end.
    pub steps: Vec<Vec<(f64, f64)>>,
    /// The numbers of tasks and locations of the whole overlay, of which the first are shown.
    pub all: (u32, u32),
}

/// The rate of the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The length of a bin in seconds.
    pub bin: f64,
    /// Bytes per second read in each bin.
    pub read: Vec<f64>,
    /// Bytes per second written in each bin.
    pub written: Vec<f64>,
    /// The disk's measured rates of reading and writing in bytes per second, where the run measured
    /// them.
    pub peak: (Option<f64>, Option<f64>),
    /// Requests by file: name, requests, bytes, median and greatest latency in seconds.
    pub files: Vec<(String, u64, u64, f64, f64)>,
}

/// Messages between processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    /// The processes.
    pub peers: Vec<String>,
    /// Messages: sender, receiver, sent, received.
    pub arrows: Vec<(u32, u32, f64, f64)>,
    /// Bars on the lines of the peers: peer, activity, begin, end.
    pub bars: Vec<(u32, u16, f64, f64)>,
    /// The number of all messages, of which the page shows the first.
    pub all: u64,
    /// Messages between each pair: sender, receiver, number, median and greatest time under way.
    pub pairs: Vec<(u32, u32, u64, f64, f64)>,
    /// How the clocks of hosts were aligned, and the bound of the error, in words.
    pub clocks: String,
}

/// A pool of workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Farm {
    /// The workers.
    pub workers: Vec<String>,
    /// Tasks: worker, number of the task, begin, end.
    pub tasks: Vec<(u32, u64, f64, f64)>,
    /// Tasks that run, over time.
    pub running: Vec<(f64, f64)>,
    /// The lengths of tasks in seconds: least, median, mean, greatest.
    pub lengths: [f64; 4],
}
