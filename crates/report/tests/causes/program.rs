//! Traces of programs that never ran: chosen spans at chosen times, so that a report of them is the
//! same on every machine.

use std::path::PathBuf;

use syncline_report::{Trace, model::Report, report};
use syncline_trace::clock::ClockPair;
use syncline_trace::frame::{
    Frame, LaneInfo, LanePart, MachineSample, OpenSpan, ProcessInfo, ThreadSample, TickSpan, encode,
};
use syncline_trace::note::Note;
use syncline_trace::{Activity, Role};
use tempfile::TempDir;

/// A millisecond in ticks, which are nanoseconds here.
pub(crate) const MS: u64 = 1_000_000;
/// The ticks at which programs begin.
const BEGIN: u64 = 1_000_000_000;

/// A thread of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    pub(crate) role: Option<Role>,
    spans: Vec<TickSpan>,
    open: Vec<OpenSpan>,
    /// The time of its next span.
    pub(crate) now: u64,
    /// Nanoseconds ready to run without a processor, and page faults from the disk.
    pub(crate) queued: u64,
    pub(crate) faults: u64,
    /// Nanoseconds on a processor beside its work, such as in requests to the kernel.
    pub(crate) beside_work: u64,
    /// Whether its work was sleep.
    pub(crate) sleeps: bool,
    /// Whether it ends after its last span.
    pub(crate) ends: bool,
    pub(crate) allowed: String,
}

impl Thread {
    pub(crate) fn new(role: Role) -> Thread {
        Thread { role: Some(role), allowed: "0-3".into(), ..Thread::default() }
    }

    /// Does something for some ticks, beginning where it ended before.
    pub(crate) fn does(&mut self, activity: Activity, subject: u32, detail: u64, ticks: u64) {
        let (since, until) = (BEGIN + self.now, BEGIN + self.now + ticks);
        self.spans.push(TickSpan { since, until, activity, subject, detail });
        self.now += ticks;
    }

    /// Begins something at a time of its own, beside what it does.
    pub(crate) fn beside(
        &mut self,
        activity: Activity,
        subject: u32,
        detail: u64,
        times: [u64; 2],
    ) {
        let [since, until] = times.map(|time| BEGIN + time);
        self.spans.push(TickSpan { since, until, activity, subject, detail });
    }

    /// Waits for something, and still does at the end.
    pub(crate) fn hangs(&mut self, activity: Activity, subject: u32) {
        let (activity, since) = (activity as u8, BEGIN + self.now);
        self.open.push(OpenSpan { since, activity, subject, detail: 0 });
    }

    fn worked(&self) -> u64 {
        let works = |span: &&TickSpan| span.activity.class() == syncline_trace::ActivityClass::Work;
        self.spans.iter().filter(works).map(|span| span.until - span.since).sum()
    }
}

/// A process of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) host: String,
    /// By how much its clock is ahead.
    pub(crate) ahead: u64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) notes: Vec<Note>,
    pub(crate) killed: bool,
    /// Ticks of the kernel that each processor was busy and idle, at the end.
    pub(crate) processors: Vec<[u64; 4]>,
    /// Nanoseconds for which a limit stopped the process.
    pub(crate) throttled: u64,
    /// The ticks in which the process wrote nothing.
    pub(crate) silent: std::ops::Range<u64>,
}

impl Program {
    /// A program of threads, on four processors.
    pub(crate) fn of(threads: Vec<Thread>) -> Program {
        Program {
            host: "a".into(),
            threads,
            processors: vec![[50, 50, 0, 0]; 4],
            ..Program::default()
        }
    }

    pub(crate) fn fact(&mut self, key: &str, value: &str) {
        self.notes.push(Note::Fact { key: key.into(), value: value.into() });
    }

    /// Names the tasks 0 to `count` of an overlay, `kind (row, column)`.
    pub(crate) fn tasks(&mut self, kind: &str, rows: u32, cols: u32) {
        self.notes.push(Note::Overlay { first: 0, tasks: rows * cols });
        for id in 0..rows * cols {
            let name = format!("{kind} ({}, {})", id / cols, id % cols);
            self.notes.push(Note::Task { id, name, member: None });
        }
    }

    /// The frames of the process: a tenth of a second each, as a recording would write them.
    fn frames(&self, stream: u64) -> Vec<Frame> {
        let end = BEGIN + self.threads.iter().map(|thread| thread.now).max().unwrap_or(0);
        let clock = |ticks: u64| ClockPair {
            ticks,
            monotonic_ns: ticks + self.ahead,
            realtime_ns: ticks + 1_700_000_000_000_000_000,
        };
        let info = ProcessInfo {
            pid: 100 + stream as u32,
            host: self.host.clone(),
            boot: self.host.clone(),
            command: vec!["program".into()],
            processors: self.processors.len() as u32,
            began: clock(BEGIN),
            ..ProcessInfo::default()
        };
        let mut times: Vec<u64> = (BEGIN..end).step_by(100 * MS as usize).skip(1).collect();
        times.retain(|&time| !self.silent.contains(&(time - BEGIN)));
        times.push(end);
        let mut from = 0;
        let mut frames = Vec::new();
        for (number, &to) in times.iter().enumerate() {
            let (first, last) = (number == 0, number + 1 == times.len());
            let lane = |(index, thread): (usize, &Thread)| {
                let begins = thread.spans.iter().map(|span| span.since).min().unwrap_or(0);
                let ended = thread.ends && BEGIN + thread.now <= to;
                if begins > to || ended && BEGIN + thread.now <= from {
                    return Vec::new();
                }
                let (first, last) = (begins > from || first, last || ended);
                let mut spans: Vec<TickSpan> = thread
                    .spans
                    .iter()
                    .filter(|span| span.until > from && (span.until <= to || last))
                    .copied()
                    .collect();
                spans.sort_by_key(|span| span.until);
                let part = |all: u64| if last { all } else { 0 };
                let worked = if thread.sleeps { 0 } else { thread.worked() };
                let mut lane = LanePart::default();
                lane.thread = index as u32;
                lane.about = first.then(|| LaneInfo {
                    thread_id: index as u32,
                    began: begins.max(BEGIN),
                    ..LaneInfo::default()
                });
                lane.role = thread.role;
                lane.open = if last { thread.open.clone() } else { Vec::new() };
                lane.sample = Some(ThreadSample {
                    ran_ns: part(worked.saturating_sub(thread.queued) + thread.beside_work),
                    queued_ns: part(thread.queued),
                    major_faults: part(thread.faults),
                    processor: 0,
                    allowed: thread.allowed.clone(),
                });
                lane.set_spans(&spans);
                lane.ended = ended.then_some(BEGIN + thread.now);
                // A recording takes the first sample at a thread's first event.
                let mut begin = LanePart::default();
                (begin.thread, begin.role) = (lane.thread, lane.role);
                begin.sample = Some(ThreadSample::default());
                if first { vec![begin, lane] } else { vec![lane] }
            };
            let processors = match last {
                true => self.processors.clone(),
                false => vec![[0; 4]; self.processors.len()],
            };
            frames.push(Frame {
                stream,
                number: number as u64,
                clock: clock(to),
                process: first.then(|| info.clone()),
                notes: if first { self.notes.clone() } else { Vec::new() },
                lanes: self.threads.iter().enumerate().flat_map(lane).collect(),
                machine: Some(MachineSample { processors, throttled_ns: self.throttled }),
                last: last && !self.killed,
                ..Frame::default()
            });
            from = to;
        }
        frames
    }
}

/// Writes the trace of some processes; returns its folder and file.
pub(crate) fn trace_of(programs: &[Program]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.trace");
    let frames = programs.iter().zip(1..).flat_map(|(program, stream)| program.frames(stream));
    let bytes: Vec<u8> = frames.flat_map(|frame| encode(&frame)).collect();
    std::fs::write(&file, bytes).unwrap();
    (folder, file)
}

/// Returns the report of some processes.
pub(crate) fn report_of(programs: &[Program]) -> Report {
    let (_folder, file) = trace_of(programs);
    report(&Trace::open(&[&file]).unwrap()).unwrap()
}
