//! A trace for Perfetto (<https://ui.perfetto.dev>), in its protobuf format.
//!
//! ```text
//!   process ── thread ─── slices of work and waits, nested; marks as instants
//!                    ├─── requests to the disk 1, 2, ...  one track for each overlapping request
//!                    ├─── locks held 1, 2, ...            locks that other threads waited for
//!                    └─── long spans 1, 2, ...            spans around more than the export holds
//! ```
//!
//! # Contract
//! Each span is one slice, each mark one instant. On each track the events are in the order of
//! time, and slices are nested. Names are without the detail of a span, so that Perfetto adds up
//! the slices of one task; the detail is an argument. Categories are the classes of activities. A
//! message is a flow from `sent` to `received`. Spans that were open at the end of the recording
//! end there.
//!
//! # Clock
//! Times are of `CLOCK_MONOTONIC` of the first host, to which the clocks of other hosts are
//! aligned. The first packet relates it to the wall clock.
//!
//! # Costs
//! The export holds at most [`HELD`] spans at once, and the names of [`NAMES`] objects.

mod messages;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write};

use prost::Message as _;
use syncline_trace::{Activity, ActivityClass};

use self::messages::{
    Clock, ClockSnapshot, DebugAnnotation, INSTANT, Interned, InternedData, MONOTONIC, NEEDS_STATE,
    PACKET, Packet, PacketDefaults, ProcessDescriptor, REALTIME, SLICE_BEGIN, SLICE_END,
    STATE_CLEARED, ThreadDescriptor, TrackDescriptor, TrackEvent,
};
use super::nest::{Edge, Nest, Slots};
use super::{cannot_write, class_name};
use crate::error::ReportError;
use crate::load::{Span, Trace};

/// The most spans that are held, of all threads.
const HELD: usize = 1 << 20;
/// The fewest spans that a thread may hold.
const HELD_BY_THREAD: usize = 1 << 10;
/// The most names that are written once and referred to; further ones are written with each slice.
const NAMES: usize = 1 << 20;
/// The sequence of the packets.
const SEQUENCE: u32 = 1;
/// Process numbers from here on do not exist on Linux: they stand for those of other hosts that a
/// process of this trace has as well.
const FREE_NUMBERS: i32 = 1 << 22;

/// The classes of activities, by the numbers of their categories.
const CATEGORIES: [ActivityClass; 4] =
    [ActivityClass::Work, ActivityClass::Wait, ActivityClass::Device, ActivityClass::Mark];
/// What the details of activities are, by the numbers of their names.
const DETAILS: [&str; 7] = ["iteration", "task", "bytes", "episode", "number", "value", "member"];

/// Writes a trace for Perfetto, whose usual ending is `.pftrace`.
///
/// # Errors
/// If a file of the trace cannot be read any more, or the output cannot be written.
///
/// # Examples
/// ```no_run
/// use std::path::Path;
/// use syncline_report::{Trace, export};
///
/// let trace = Trace::open(&[Path::new("run.trace")])?;
/// export::perfetto(&trace, &mut std::fs::File::create("run.pftrace").unwrap())?;
/// # Ok::<(), syncline_report::ReportError>(())
/// ```
pub fn perfetto(trace: &Trace, output: &mut dyn Write) -> Result<(), ReportError> {
    let mut export = Export::new(trace, output);
    export.head();
    trace.for_each(&mut |span| export.take(span))?;
    export.finish().map_err(|source| cannot_write("the trace for Perfetto", source))
}

/// The state of an export.
struct Export<'t> {
    trace: &'t Trace,
    output: BufWriter<&'t mut dyn Write>,
    written: io::Result<()>,
    /// The bytes of a packet, kept for the next one.
    buffer: Vec<u8>,
    lanes: Vec<LaneTracks>,
    /// The numbers of names, by process, activity and subject.
    names: HashMap<(usize, Activity, u32), u64>,
    /// The number of the next track.
    next: u64,
    /// The numbers of the processes in their team.
    team: Vec<Option<u32>>,
}

/// The tracks of a thread.
struct LaneTracks {
    nest: Nest,
    track: u64,
    disk: Side,
    locks: Side,
    long: Side,
}

/// Tracks beside that of a thread.
struct Side {
    name: &'static str,
    slots: Slots,
    tracks: Vec<u64>,
}

impl Side {
    fn new(name: &'static str) -> Side {
        Side { name, slots: Slots::default(), tracks: Vec::new() }
    }
}

impl<'t> Export<'t> {
    fn new(trace: &'t Trace, output: &'t mut dyn Write) -> Export<'t> {
        let most = (HELD / trace.lanes.len().max(1)).max(HELD_BY_THREAD);
        let lanes = trace.lanes.iter().map(|_| LaneTracks {
            nest: Nest::new(most),
            track: 0,
            disk: Side::new("requests to the disk"),
            locks: Side::new("locks held"),
            long: Side::new("long spans"),
        });
        let team = |process: &crate::load::Process| process.facts.get("team.process")?.parse().ok();
        Export {
            trace,
            output: BufWriter::with_capacity(1 << 16, output),
            written: Ok(()),
            buffer: Vec::new(),
            lanes: lanes.collect(),
            names: HashMap::new(),
            next: 1,
            team: trace.processes.iter().map(team).collect(),
        }
    }

    /// Writes the clocks, the names that are known beforehand, and the processes and threads.
    fn head(&mut self) {
        let interned = |(number, name): (usize, &str)| Interned {
            iid: Some(number as u64 + 1),
            name: Some(name.to_owned()),
        };
        let clock =
            |clock_id, timestamp| Clock { clock_id: Some(clock_id), timestamp: Some(timestamp) };
        let began = self.trace.processes.first().map(|process| process.info.began);
        let began = began.unwrap_or_default();
        let names = CATEGORIES.into_iter().map(class_name).enumerate().map(interned);
        self.write(Packet {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![
                    clock(MONOTONIC, began.monotonic_ns),
                    clock(REALTIME, began.realtime_ns),
                ],
                primary_trace_clock: Some(MONOTONIC),
            }),
            sequence_flags: Some(STATE_CLEARED),
            interned_data: Some(InternedData {
                event_categories: names.collect(),
                debug_annotation_names: DETAILS.into_iter().enumerate().map(interned).collect(),
                ..InternedData::default()
            }),
            trace_packet_defaults: Some(PacketDefaults { timestamp_clock_id: Some(MONOTONIC) }),
            ..Packet::default()
        });
        let mut taken = HashSet::new();
        let mut free = FREE_NUMBERS;
        for (process, of) in self.trace.processes.iter().enumerate() {
            let info = &of.info;
            let own = i32::try_from(info.pid).ok().filter(|&pid| taken.insert(pid));
            let mut number = |own: Option<i32>| {
                own.unwrap_or_else(|| {
                    free += 1;
                    free
                })
            };
            let pid = number(own);
            let name = match self.team[process] {
                Some(member) => format!("process {member} on {}", info.host),
                None => format!("process {} on {}", info.pid, info.host),
            };
            let track = self.track(TrackDescriptor {
                process: Some(ProcessDescriptor {
                    pid: Some(pid),
                    cmdline: info.command.clone(),
                    process_name: Some(name),
                }),
                ..TrackDescriptor::default()
            });
            for (lane, of) in self.trace.lanes.iter().enumerate() {
                if of.process != process {
                    continue;
                }
                // A thread of the process keeps its number with it.
                let tid = own.and_then(|_| i32::try_from(of.thread_id).ok());
                self.lanes[lane].track = self.track(TrackDescriptor {
                    parent_uuid: Some(track),
                    thread: Some(ThreadDescriptor {
                        pid: Some(pid),
                        tid: Some(number(tid.filter(|&tid| tid > 0))),
                        thread_name: Some(self.trace.lane_name(lane)),
                    }),
                    ..TrackDescriptor::default()
                });
            }
        }
    }

    /// Describes a track, and returns its number.
    fn track(&mut self, descriptor: TrackDescriptor) -> u64 {
        let uuid = self.next;
        self.next += 1;
        let descriptor = TrackDescriptor { uuid: Some(uuid), ..descriptor };
        self.write(Packet { track_descriptor: Some(descriptor), ..Packet::default() });
        uuid
    }

    fn take(&mut self, span: &Span) {
        let lane = &mut self.lanes[span.lane];
        if span.activity == Activity::HoldLock {
            self.beside(span, |lane| &mut lane.locks);
        } else if span.activity.class() == ActivityClass::Device {
            self.beside(span, |lane| &mut lane.disk);
        } else if let Some(span) = lane.nest.take(span) {
            self.beside(&span, |lane| &mut lane.long);
        } else {
            self.pass_on(span.lane, Nest::relieve);
        }
    }

    /// Writes what the nest of a thread passes on.
    fn pass_on(&mut self, lane: usize, pass: impl FnOnce(&mut Nest, &mut dyn FnMut(Edge<'_>))) {
        let mut nest = std::mem::replace(&mut self.lanes[lane].nest, Nest::new(0));
        let track = self.lanes[lane].track;
        pass(&mut nest, &mut |edge| match edge {
            Edge::Begin(span) => self.begin(track, span),
            Edge::End(span) => self.end(track, span),
        });
        self.lanes[lane].nest = nest;
    }

    /// Writes a span on a track beside that of its thread.
    fn beside(&mut self, span: &Span, side: impl Fn(&mut LaneTracks) -> &mut Side) {
        let own = side(&mut self.lanes[span.lane]);
        let (slot, name) = (own.slots.place(span), own.name);
        if slot == own.tracks.len() {
            let track = self.track(TrackDescriptor {
                name: Some(format!("{name} {}", slot + 1)),
                parent_uuid: Some(self.lanes[span.lane].track),
                ..TrackDescriptor::default()
            });
            side(&mut self.lanes[span.lane]).tracks.push(track);
        }
        let track = side(&mut self.lanes[span.lane]).tracks[slot];
        self.begin(track, span);
        self.end(track, span);
    }

    fn begin(&mut self, track: u64, span: &Span) {
        let class = span.activity.class();
        let category = CATEGORIES.iter().position(|&other| other == class).unwrap_or_default();
        let mut event = TrackEvent {
            category_iids: vec![category as u64 + 1],
            debug_annotations: detail(span).into_iter().collect(),
            kind: Some(if class == ActivityClass::Mark { INSTANT } else { SLICE_BEGIN }),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        let flow = flow(span).into_iter().collect();
        if span.activity == Activity::Received {
            event.terminating_flow_ids = flow;
        } else {
            event.flow_ids = flow;
        }
        let process = self.trace.lanes[span.lane].process;
        let key = (process, span.activity, span.subject);
        let mut interned_data = None;
        match self.names.get(&key) {
            Some(&known) => event.name_iid = Some(known),
            None if self.names.len() < NAMES => {
                let iid = Some(self.names.len() as u64 + 1);
                let name = Some(name(self.trace, process, span));
                event.name_iid = iid;
                interned_data = Some(InternedData {
                    event_names: vec![Interned { iid, name }],
                    ..InternedData::default()
                });
                self.names.insert(key, self.names.len() as u64 + 1);
            }
            None => event.name = Some(name(self.trace, process, span)),
        }
        self.write(Packet {
            timestamp: Some(self.time(span.since)),
            track_event: Some(event),
            interned_data,
            sequence_flags: Some(NEEDS_STATE),
            ..Packet::default()
        });
    }

    fn end(&mut self, track: u64, span: &Span) {
        if span.activity.class() != ActivityClass::Mark {
            self.write(Packet {
                timestamp: Some(self.time(span.until)),
                track_event: Some(TrackEvent {
                    kind: Some(SLICE_END),
                    track_uuid: Some(track),
                    ..TrackEvent::default()
                }),
                sequence_flags: Some(NEEDS_STATE),
                ..Packet::default()
            });
        }
    }

    /// Returns the time of a moment by the clock of the first host.
    fn time(&self, since: u64) -> u64 {
        (self.trace.begin + i128::from(since)).clamp(0, i128::from(u64::MAX)) as u64
    }

    fn write(&mut self, packet: Packet) {
        if self.written.is_err() {
            return;
        }
        self.buffer.clear();
        self.buffer.push(PACKET);
        let packet = Packet { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        // A vector grows as needed: encoding into it does not fail.
        if packet.encode_length_delimited(&mut self.buffer).is_ok() {
            self.written = self.output.write_all(&self.buffer);
        }
    }

    fn finish(mut self) -> io::Result<()> {
        for lane in 0..self.lanes.len() {
            self.pass_on(lane, |nest, each| nest.flush(0, each));
        }
        self.written.and_then(|()| self.output.flush())
    }
}

/// Returns the number that the sending and the arrival of a message have in common, and no other
/// message under way has.
fn flow(span: &Span) -> Option<u64> {
    let is_message = matches!(span.activity, Activity::Sent | Activity::Received);
    is_message.then(|| span.detail.wrapping_add(1))
}

/// Returns the detail of a span as an argument.
fn detail(span: &Span) -> Option<DebugAnnotation> {
    let (what, value) = match span.activity {
        Activity::Step => ("iteration", span.detail),
        // A worker that does not know the number of its task.
        Activity::Job if span.detail == u64::MAX => return None,
        Activity::Job => ("task", span.detail),
        Activity::Read | Activity::Write => ("bytes", span.detail),
        Activity::AwaitBarrier | Activity::AwaitSync => ("episode", span.detail),
        Activity::AwaitLock | Activity::HoldLock => ("member", span.detail),
        Activity::Sent | Activity::Received => ("number", span.detail >> 36),
        Activity::Section | Activity::Mark | Activity::AwaitSignal => ("value", span.detail),
        _ => return None,
    };
    let name = DETAILS.iter().position(|&detail| detail == what)?;
    Some(DebugAnnotation { name_iid: Some(name as u64 + 1), uint_value: Some(value) })
}

/// Returns the name of a slice: of the task or section, or what the thread waits for.
fn name(trace: &Trace, process: usize, span: &Span) -> String {
    let words = span.activity.name();
    let object = |activity| trace.object(process, activity, span.subject, 0);
    let peer = || match span.subject {
        u32::MAX => "all".to_owned(),
        peer => peer.to_string(),
    };
    match span.activity {
        Activity::Job | Activity::Command => words.to_owned(),
        Activity::Sent => format!("{words} to {}", peer()),
        Activity::Received => format!("{words} from {}", peer()),
        Activity::Step => trace.task(process, span.subject),
        Activity::Read | Activity::Write => format!("{words} {}", object(Activity::AwaitDisk)),
        Activity::HoldLock => format!("{words}: {}", object(Activity::AwaitLock)),
        Activity::Section | Activity::Mark => object(span.activity),
        activity => match object(activity).as_str() {
            "" => words.to_owned(),
            object => format!("{words}: {object}"),
        },
    }
}
