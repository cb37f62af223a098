//! Reading the trace of a run: its processes, threads and names first, then its spans in order.
//!
//! # Contract
//! [`Trace::open`] reads all files once and keeps what does not grow with the number of spans.
//! [`Trace::for_each`] reads them again and calls back with every span, by process in the order of
//! ends, in aligned nanoseconds since the run's begin. Memory is bounded by the spans of two
//! consecutive frames of each process.
//!
//! ```text
//!   first reading     processes, threads, names, clock pairs, samples, message times ──> offsets
//!   second reading    frame k of a process ──> held back ──sorted by end──> callback
//!                     released: ends before the clock of frame k - 1, as threads of a process are
//!                     read one after the other
//! ```
//!
//! # Several runs in the files
//! Processes whose times overlap, directly or by way of others, are one run. The report is of the
//! last one.

mod lane;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use syncline_trace::frame::{Frame, LanePart, MachineSample, OpenSpan, ProcessInfo, TickSpan};
use syncline_trace::note::{Note, ObjectClass};
use syncline_trace::{Activity, Reader, Role, clock::ClockPair};

use crate::align;
pub use crate::align::Alignment;
use crate::error::ReportError;
pub use lane::{Lane, Usage};

/// The first reading of a trace.
#[derive(Debug, Default)]
pub struct Trace {
    paths: Vec<PathBuf>,
    /// The processes of the run, by stream.
    pub processes: Vec<Process>,
    /// The threads of all processes.
    pub lanes: Vec<Lane>,
    /// The begin of the first recording, in aligned nanoseconds.
    pub(crate) begin: i128,
    /// The length of the run in nanoseconds.
    pub length: u64,
    /// How the clocks of hosts were aligned.
    pub alignment: Alignment,
    /// What the trace lacks.
    pub missing: Vec<String>,
    streams: HashMap<u64, usize>,
    pub(crate) threads: HashMap<(usize, u32), usize>,
}

/// A process of the run.
#[derive(Debug, Default)]
pub struct Process {
    /// What it wrote about itself.
    pub info: ProcessInfo,
    /// Its facts.
    pub facts: BTreeMap<String, String>,
    /// The names of its objects.
    pub names: HashMap<(ObjectClass, u32), String>,
    /// The tasks of its overlays, by number.
    pub tasks: BTreeMap<u32, Task>,
    /// Its runs of overlays: the first task and the number of tasks.
    pub overlays: Vec<(u32, u32)>,
    /// Requests: task, location, exclusive.
    pub accesses: Vec<(u32, u32, bool)>,
    /// Samples of the machine, with their times.
    pub machine: Vec<(ClockPair, MachineSample)>,
    /// Whether it ended its recording in order.
    pub ended: bool,
    /// Events that were overwritten, and notes that were dropped.
    pub lost: u64,
    pub(crate) clocks: Vec<ClockPair>,
    /// The number of frames, and the greatest number of a frame.
    frames: (u64, u64),
    /// The number of its host in the trace.
    pub(crate) host: usize,
}

/// A task of an overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The member that runs it, where it was placed.
    pub member: Option<u32>,
}

/// A span with aligned times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index of its thread.
    pub lane: usize,
    /// The begin in nanoseconds since that of the run.
    pub since: u64,
    /// The end.
    pub until: u64,
    /// What the thread did.
    pub activity: Activity,
    /// The object.
    pub subject: u32,
    /// Further detail.
    pub detail: u64,
}

impl Span {
    /// Returns the length in nanoseconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.until - self.since
    }
}

impl Trace {
    /// Reads the trace of a run from one or several files, and from the files that other hosts have
    /// written beside them (`FILE.HOST`).
    ///
    /// # Errors
    /// If a file cannot be read, is no trace or is of another version, or if there are no events.
    pub fn open(paths: &[&Path]) -> Result<Trace, ReportError> {
        let mut trace = Trace { paths: with_siblings(paths), ..Trace::default() };
        for path in trace.paths.clone() {
            let mut reader = Reader::open(&path)?;
            while let Some(frame) = reader.next_frame()? {
                trace.note(&frame);
            }
            trace.note_damage(&path, &reader);
        }
        trace.keep_last_run();
        // A member counts all its life, also without a span.
        let says = |lane: &Lane| {
            lane.spans > 0 || !lane.open.is_empty() || matches!(lane.role, Some(Role::Member(_)))
        };
        let recorded = trace.lanes.iter().any(says);
        if recorded {
            trace.align()?;
        }
        // One moment is no time: it takes two frames, or a first one, which has two.
        if !recorded || trace.length == 0 {
            let path = trace.paths.first().cloned().unwrap_or_default();
            let why = match (trace.missing.is_empty(), recorded) {
                (false, _) => trace.missing.join("; "),
                (true, true) => "what is left of it does not tell the time".into(),
                (true, false) => "the program recorded nothing before it ended".into(),
            };
            return Err(ReportError::Empty { path, why });
        }
        trace.note_losses();
        Ok(trace)
    }

    /// Calls `each` with every span and mark: those of a process in the order of their ends. Spans
    /// that are still open come last, and end with the last frame of their process.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn for_each(&self, each: &mut dyn FnMut(&Span)) -> Result<(), ReportError> {
        let mut held: Vec<Vec<Span>> = self.processes.iter().map(|_| Vec::new()).collect();
        for path in &self.paths {
            let mut reader = Reader::open(path)?;
            while let Some(frame) = reader.next_frame()? {
                let Some(&process) = self.streams.get(&frame.stream) else { continue };
                self.frame(process, &frame, &mut held[process], each);
            }
        }
        for (process, rest) in held.iter_mut().enumerate() {
            self.release(rest, u64::MAX, each);
            self.open_spans(process, each);
        }
        Ok(())
    }

    fn frame(
        &self,
        process: usize,
        frame: &Frame,
        held: &mut Vec<Span>,
        each: &mut dyn FnMut(&Span),
    ) {
        for part in &frame.lanes {
            let Some(&lane) = self.threads.get(&(process, part.thread)) else { continue };
            held.extend(part.spans().map(|span| self.place(process, lane, span)));
        }
        let clocks = &self.processes[process].clocks;
        let this = clocks.partition_point(|pair| pair.ticks < frame.clock.ticks);
        if let Some(before) = this.checked_sub(1).and_then(|index| clocks.get(index)) {
            let before = self.time(process, before.ticks);
            self.release(held, before, each);
        }
    }

    fn release(&self, held: &mut Vec<Span>, before: u64, each: &mut dyn FnMut(&Span)) {
        // The sort is stable: spans of one thread with equal ends stay in their order.
        held.sort_by_key(|span| span.until);
        let count = held.partition_point(|span| span.until <= before);
        held.drain(..count).for_each(|span| each(&span));
    }

    fn open_spans(&self, process: usize, each: &mut dyn FnMut(&Span)) {
        let last = self.processes[process].clocks.last().map_or(0, |pair| pair.ticks);
        for (index, lane) in self.lanes.iter().enumerate().filter(|(_, l)| l.process == process) {
            for open in lane.open.iter().rev() {
                let Some(activity) = Activity::from_number(open.activity) else { continue };
                let &OpenSpan { since, subject, detail, .. } = open;
                let span = TickSpan { since, until: last.max(since), activity, subject, detail };
                each(&self.place(process, index, span));
            }
        }
    }

    fn place(&self, process: usize, lane: usize, span: TickSpan) -> Span {
        let (since, until) = (self.time(process, span.since), self.time(process, span.until));
        let TickSpan { activity, subject, detail, .. } = span;
        Span { lane, since, until: until.max(since), activity, subject, detail }
    }

    /// Converts ticks of a process to nanoseconds since the run's begin.
    pub(crate) fn time(&self, process: usize, ticks: u64) -> u64 {
        let monotonic = self.processes[process].monotonic(ticks);
        let aligned = self.alignment.aligned(self.processes[process].host, monotonic);
        (aligned - self.begin).clamp(0, i128::from(u64::MAX)) as u64
    }

    /// Returns the moment at which the run began, in seconds since 1970, by the first process.
    #[must_use]
    pub fn began(&self) -> f64 {
        let began = self.processes.iter().map(|process| process.info.began.realtime_ns).min();
        began.unwrap_or_default() as f64 / 1e9
    }

    /// Returns a fact of the first process that has it.
    #[must_use]
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.processes.iter().find_map(|process| process.facts.get(key)).map(String::as_str)
    }

    /// Returns the name of a span's object, for labels.
    #[must_use]
    pub fn label(&self, span: &Span) -> String {
        self.object(self.lanes[span.lane].process, span.activity, span.subject, span.detail)
    }

    /// Returns the name of the object of an activity in a process.
    #[must_use]
    pub fn object(&self, process: usize, activity: Activity, subject: u32, detail: u64) -> String {
        let process = &self.processes[process];
        let named = |class, word: &str| match process.names.get(&(class, subject)) {
            Some(name) => name.clone(),
            None => format!("{word} {subject}"),
        };
        match activity {
            Activity::Step => match process.tasks.get(&subject) {
                Some(task) => format!("{}, iteration {detail}", task.name),
                None => format!("task {subject}, iteration {detail}"),
            },
            // A worker that does not know the number of its task.
            Activity::Job if detail == u64::MAX => String::new(),
            Activity::Job | Activity::Command => format!("task {detail}"),
            Activity::Section | Activity::Mark => named(ObjectClass::Section, "section"),
            Activity::Read | Activity::Write => {
                format!("{}, {detail} bytes", named(ObjectClass::File, "file"))
            }
            Activity::AwaitDisk => named(ObjectClass::File, "file"),
            Activity::AwaitLocation => named(ObjectClass::Location, "location"),
            Activity::AwaitBarrier | Activity::AwaitSync => named(ObjectClass::Barrier, "barrier"),
            Activity::AwaitLock | Activity::HoldLock => named(ObjectClass::Lock, "lock"),
            Activity::AwaitMessage | Activity::AwaitFence | Activity::Serve => match subject {
                u32::MAX => "all".into(),
                peer => format!("peer {peer}"),
            },
            _ => String::new(),
        }
    }

    /// Returns the name of a task of a process.
    pub(crate) fn task(&self, process: usize, task: u32) -> String {
        let known = self.processes[process].tasks.get(&task);
        known.map_or_else(|| format!("task {task}"), |known| known.name.clone())
    }

    /// Returns the label of a thread.
    #[must_use]
    pub fn lane_name(&self, lane: usize) -> String {
        let Lane { process, name, role, thread, .. } = &self.lanes[lane];
        let of_process = match (self.processes.len(), &self.processes[*process]) {
            (1, _) => String::new(),
            (_, process) => match process.facts.get("team.process") {
                Some(number) => format!(" of process {number}"),
                None => format!(" of process {}", process.info.pid),
            },
        };
        match role {
            Some(Role::Member(rank)) => format!("member {rank}"),
            Some(Role::Worker(number)) if of_process.is_empty() => format!("worker {number}"),
            Some(Role::Worker(number)) => match self.worker_process(*process) {
                true => format!("worker {number}"),
                false => format!("worker {number}{of_process}"),
            },
            Some(Role::Server(host)) => format!("server of host {host}"),
            Some(Role::Manager) => "manager".into(),
            _ if !name.is_empty() => format!("{name}{of_process}"),
            _ => format!("thread {thread}{of_process}"),
        }
    }

    /// Returns the name of a process: that of its member, if it is a process of a team.
    pub(crate) fn process_name(&self, process: usize) -> String {
        let member = self
            .lanes
            .iter()
            .position(|lane| lane.process == process && matches!(lane.role, Some(Role::Member(_))));
        match (member, self.processes[process].facts.get("team.process")) {
            (Some(lane), _) => self.lane_name(lane),
            (None, Some(number)) => format!("process {number}"),
            (None, None) => format!("process {}", self.processes[process].info.pid),
        }
    }

    /// Whether a process has one worker only: then it is a worker of a pool of processes.
    fn worker_process(&self, process: usize) -> bool {
        let workers = self.lanes.iter().filter(|lane| lane.process == process);
        workers.filter(|lane| matches!(lane.role, Some(Role::Worker(_)))).count() == 1
    }

    /// Takes what a frame says beside its spans, and returns the index of its process.
    pub(crate) fn note(&mut self, frame: &Frame) -> usize {
        let next = self.processes.len();
        let index = *self.streams.entry(frame.stream).or_insert(next);
        if index == next {
            self.processes.push(Process::default());
        }
        let process = &mut self.processes[index];
        process.frames.0 += 1;
        process.frames.1 = process.frames.1.max(frame.number);
        process.ended |= frame.last;
        process.lost += frame.notes_lost;
        if let Some(info) = &frame.process {
            process.clocks.push(info.began);
            process.info = info.clone();
            process.info.host = plain(&info.host);
            process.info.command = info.command.iter().map(|word| plain(word)).collect();
        }
        process.clocks.push(frame.clock);
        if let Some(machine) = &frame.machine {
            process.machine.push((frame.clock, machine.clone()));
        }
        frame.notes.iter().for_each(|note| process.take(note));
        for part in &frame.lanes {
            self.processes[index].lost += part.lost;
            let lane = match self.threads.get(&(index, part.thread)) {
                Some(&lane) => lane,
                None => self.add_thread(index, frame, part),
            };
            self.lanes[lane].take(part);
        }
        index
    }

    /// Returns the lane of a thread that is new: that of a worker which has ended before, if the
    /// thread has the same number in a pool. A program may start its workers many times.
    fn add_thread(&mut self, process: usize, frame: &Frame, part: &LanePart) -> usize {
        let own = frame.lanes.iter().filter(|own| own.thread == part.thread);
        let begins = own.flat_map(|own| {
            let open = own.open.iter().map(|open| open.since);
            own.spans().map(|span| span.since).chain(open)
        });
        let began = part.about.as_ref().map(|about| about.began);
        let begin = began.into_iter().chain(begins).min().unwrap_or(frame.clock.ticks);
        let role = part.role.filter(|role| matches!(role, Role::Worker(_)));
        let before = self.lanes.iter().position(|lane| {
            role.is_some()
                && (lane.process, lane.role) == (process, role)
                && lane.has_ended_before(begin)
        });
        let lane = before.unwrap_or_else(|| {
            self.lanes.push(Lane::of(process));
            self.lanes.len() - 1
        });
        self.lanes[lane].begin_thread(part.thread);
        self.threads.insert((process, part.thread), lane);
        lane
    }

    fn note_damage(&mut self, path: &Path, reader: &Reader) {
        let name = path.display();
        if let Some(version) = reader.other_version() {
            self.missing
                .push(format!("{name}: frames of version {version} of the format were left out"));
        }
        match (reader.skipped_bytes(), reader.rest_bytes()) {
            (0, 0) => {}
            (0, rest) => self
                .missing
                .push(format!("{name} is cut off: its last {rest} bytes are no whole frame")),
            (skipped, rest) => {
                let bytes = skipped + rest;
                self.missing.push(format!("{name} is damaged: {bytes} bytes were skipped"));
            }
        }
    }

    /// Leaves the processes of the last run only.
    fn keep_last_run(&mut self) {
        for process in &mut self.processes {
            process.clocks.sort_by_key(|pair| pair.ticks);
            process.clocks.dedup_by_key(|pair| pair.ticks);
        }
        let span = |process: &Process| {
            let real = |pair: Option<&ClockPair>| pair.map_or(0, |pair| pair.realtime_ns);
            (real(process.clocks.first()), real(process.clocks.last()))
        };
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|&index| span(&self.processes[index]));
        let mut runs: Vec<(u64, Vec<usize>)> = Vec::new();
        for index in order {
            let (from, to) = span(&self.processes[index]);
            match runs.last_mut() {
                Some((end, run)) if from <= *end => {
                    *end = to.max(*end);
                    run.push(index);
                }
                _ => runs.push((to, vec![index])),
            }
        }
        if runs.len() > 1 {
            let count = runs.len();
            self.missing
                .push(format!("the trace holds {count} runs; the report is of the last one"));
        }
        let Some((_, kept)) = runs.pop() else { return };
        let number: HashMap<usize, usize> =
            kept.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let mut old: Vec<Option<Process>> = self.processes.drain(..).map(Some).collect();
        self.processes = kept.iter().filter_map(|&index| old[index].take()).collect();
        self.streams.retain(|_, index| number.get(index).map(|&new| *index = new).is_some());
        let mut lanes: Vec<(usize, Lane)> = Vec::new();
        for (old, mut lane) in std::mem::take(&mut self.lanes).into_iter().enumerate() {
            if let Some(&process) = number.get(&lane.process) {
                lane.process = process;
                lanes.push((old, lane));
            }
        }
        let order = |lane: &Lane| match lane.role {
            Some(Role::Member(rank) | Role::Worker(rank)) => rank,
            _ => 0,
        };
        lanes.sort_by_key(|(_, lane)| {
            (lane.process, order(lane), std::cmp::Reverse(lane.role), lane.thread)
        });
        let place: HashMap<usize, usize> =
            lanes.iter().enumerate().map(|(new, &(old, _))| (old, new)).collect();
        let threads = std::mem::take(&mut self.threads).into_iter().filter_map(|(key, old)| {
            let process = *number.get(&key.0)?;
            Some(((process, key.1), *place.get(&old)?))
        });
        self.threads = threads.collect();
        self.lanes = lanes.into_iter().map(|(_, lane)| lane).collect();
    }

    /// Determines the offsets of hosts' clocks, and the begin and length of the run.
    fn align(&mut self) -> Result<(), ReportError> {
        let mut hosts: Vec<String> = Vec::new();
        for process in &mut self.processes {
            let boot = &process.info.boot;
            process.host = hosts.iter().position(|host| host == boot).unwrap_or_else(|| {
                hosts.push(boot.clone());
                hosts.len() - 1
            });
        }
        if hosts.len() > 1 {
            self.alignment = align::hosts(self)?;
        }
        let times = |process: &Process| {
            let aligned = |pair: &ClockPair| {
                self.alignment.aligned(process.host, i128::from(pair.monotonic_ns))
            };
            Some((aligned(process.clocks.first()?), aligned(process.clocks.last()?)))
        };
        let times: Vec<_> = self.processes.iter().filter_map(times).collect();
        self.begin = times.iter().map(|&(from, _)| from).min().unwrap_or(0);
        let end = times.iter().map(|&(_, to)| to).max().unwrap_or(0);
        self.length = (end - self.begin).clamp(0, i128::from(u64::MAX)) as u64;
        Ok(())
    }

    /// Whether a process is a worker of a pool that waited for a task at its end: pools kill such
    /// workers.
    pub(crate) fn is_idle_worker(&self, process: usize) -> bool {
        let mut lanes = self.lanes.iter().filter(|lane| lane.process == process);
        let waits = |lane: &Lane| {
            let innermost = lane.open.last().and_then(|open| Activity::from_number(open.activity));
            innermost == Some(Activity::AwaitJob)
        };
        lanes.any(|lane| matches!(lane.role, Some(Role::Worker(_))) && waits(lane))
    }

    fn note_losses(&mut self) {
        for (index, process) in self.processes.iter().enumerate() {
            let pid = process.info.pid;
            if process.lost > 0 {
                let lost = process.lost;
                self.missing.push(format!(
                    "process {pid} lost {lost} events, which came faster than they were written"
                ));
            }
            let gaps = (process.frames.1 + 1).saturating_sub(process.frames.0);
            if gaps > 0 {
                let are = if gaps == 1 { "frame is" } else { "frames are" };
                self.missing.push(format!("{gaps} {are} missing of process {pid}"));
            }
            if !process.ended && !self.is_idle_worker(index) {
                self.missing.push(format!(
                    "process {pid} did not end its recording: it was killed, or still runs"
                ));
            }
        }
    }
}

impl Process {
    fn take(&mut self, note: &Note) {
        match note.clone() {
            Note::Fact { key, value } => drop(self.facts.insert(plain(&key), plain(&value))),
            Note::Name { class, id, name } => drop(self.names.insert((class, id), plain(&name))),
            Note::Overlay { first, tasks } => self.overlays.push((first, tasks)),
            Note::Task { id, name, member } => {
                self.tasks.insert(id, Task { name: plain(&name), member });
            }
            Note::Access { task, location, exclusive } => {
                self.accesses.push((task, location, exclusive));
            }
            _ => {}
        }
    }

    /// Converts ticks to the host's monotonic clock.
    pub(crate) fn monotonic(&self, ticks: u64) -> i128 {
        let clocks = &self.clocks;
        let after = clocks.partition_point(|pair| pair.ticks < ticks).clamp(1, clocks.len().max(1));
        match (clocks.get(after - 1), clocks.get(after)) {
            (Some(from), Some(to)) => i128::from(from.convert(to, ticks)),
            // At the end, the last line continues.
            (Some(last), None) => match clocks.len().checked_sub(2).and_then(|i| clocks.get(i)) {
                Some(before) => i128::from(before.convert(last, ticks)),
                None => i128::from(last.convert(last, ticks)),
            },
            _ => i128::from(ticks),
        }
    }

    /// Returns the first and the last moment of the trace by the host's clock.
    pub(crate) fn clock_range(&self) -> Option<[i128; 2]> {
        let time = |pair: &ClockPair| i128::from(pair.monotonic_ns);
        Some([time(self.clocks.first()?), time(self.clocks.last()?)])
    }

    /// Returns the moment of a tick by the wall clock, in nanoseconds since 1970.
    pub(crate) fn realtime(&self, monotonic: i128) -> i128 {
        let offset = self
            .clocks
            .first()
            .map_or(0, |pair| i128::from(pair.realtime_ns) - i128::from(pair.monotonic_ns));
        monotonic + offset
    }
}

/// Returns a text of a trace as it may be printed: without control characters, which a terminal
/// would obey, and not longer than a few lines.
fn plain(text: &str) -> String {
    const MOST: usize = 400;
    let mut short = String::new();
    for c in text.chars() {
        if short.len() > MOST {
            short.push('…');
            break;
        }
        match c {
            // Those that change the direction of writing as well.
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                short.extend(c.escape_default());
            }
            c => short.push(c),
        }
    }
    short
}

/// Adds the files of other hosts: `FILE.HOST` beside `FILE`, if they are traces of those hosts.
pub(crate) fn with_siblings(paths: &[&Path]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if !all.contains(&path) {
            all.push(path);
        }
    };
    for path in paths {
        if path.exists() || !has_sibling(path) {
            add(path.to_path_buf());
        }
        siblings(path).into_iter().for_each(&mut add);
    }
    all
}

fn has_sibling(path: &Path) -> bool {
    !siblings(path).is_empty()
}

fn siblings(path: &Path) -> Vec<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let prefix = format!("{name}.");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| {
            let other = entry.file_name().into_string().ok()?;
            let host = other.strip_prefix(&prefix)?;
            is_of_host(&entry.path(), host).then(|| entry.path())
        })
        .collect();
    found.sort();
    found
}

/// Whether a file is the trace of processes on a host: not a copy that a user has made.
fn is_of_host(path: &Path, host: &str) -> bool {
    let Ok(mut reader) = Reader::open(path) else { return false };
    // The first frame of a process says where it runs.
    while let Ok(Some(frame)) = reader.next_frame() {
        if let Some(process) = frame.process {
            return process.host == host;
        }
    }
    false
}
