//! The file format: self-contained frames, so that files can be concatenated, cut and appended to.
//!
//! ```text
//!   file    = frame*                            frames of all processes of a run, in any order
//!   frame   = magic "SYNCLTRC" (8 bytes) | version u32 | length u32 | checksum u64 | payload
//!   payload = Frame, by postcard                numbers as variable-length integers, little-endian
//! ```
//!
//! A process appends each frame by one write. The checksum is XXH3-64 of the payload. A reader that
//! finds a damaged frame goes on at the next magic, and counts the bytes that it skipped.
//!
//! A span takes 7 to 12 bytes: its end relative to the end before, its length, its activity,
//! subject and detail.

use serde::{Deserialize, Serialize};

use crate::Activity;
use crate::clock::ClockPair;
use crate::note::Note;
use crate::recorder::Role;
use crate::ring::Words;

/// The first bytes of every frame.
pub(crate) const MAGIC: [u8; 8] = *b"SYNCLTRC";
/// The version of the format that this crate writes and reads.
pub const VERSION: u32 = 1;
/// The size of a frame's header in bytes.
pub(crate) const HEADER: usize = 24;
/// The greatest length of a payload in bytes; longer ones are damage.
pub(crate) const LONGEST: usize = 64 << 20;

/// What a process wrote at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The number of the recording, different for each process.
    pub stream: u64,
    /// The number of the frame in its stream, from 0. A gap is a frame that was lost.
    pub number: u64,
    /// A moment after all spans of the frame. Ticks are converted along the line between the pairs
    /// of consecutive frames.
    pub clock: ClockPair,
    /// The process, in frame 0.
    pub process: Option<ProcessInfo>,
    /// Notes since the frame before.
    pub notes: Vec<Note>,
    /// Notes that were dropped since the frame before.
    pub notes_lost: u64,
    /// Threads with events since the frame before, or with open spans.
    pub lanes: Vec<LanePart>,
    /// What the processors of the machine did; about once a second.
    pub machine: Option<MachineSample>,
    /// Whether the process ended its recording in order.
    pub last: bool,
}

/// A recording process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// The process number.
    pub pid: u32,
    /// The name of the host.
    pub host: String,
    /// The identity of the host's boot: processes with the same one have their clock in common.
    pub boot: String,
    /// The command line.
    pub command: Vec<String>,
    /// The number of processors that are online.
    pub processors: u32,
    /// The version of the recording crate.
    pub version: String,
    /// The clocks when recording began.
    pub began: ClockPair,
    /// The release of the kernel.
    pub kernel: String,
}

/// What a thread did since the frame before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LanePart {
    /// The number of the thread in its process.
    pub thread: u32,
    /// The thread's name and number in the system, when they are new.
    pub about: Option<LaneInfo>,
    /// The thread's role, where it has one.
    pub role: Option<Role>,
    /// The spans that ended.
    pub(crate) spans: Vec<PackedSpan>,
    /// The number of events that were overwritten before they were written to the file.
    pub lost: u64,
    /// Spans that were open at the time of the frame, the outermost first: those of the thread's
    /// last part hold until its next one.
    pub open: Vec<OpenSpan>,
    /// What the kernel says of the thread.
    pub sample: Option<ThreadSample>,
    /// When the thread ended, in ticks: this is its last part.
    pub ended: Option<u64>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneInfo {
    /// The thread's number in the system.
    pub thread_id: u32,
    /// The thread's name.
    pub name: String,
    /// The ticks of its first event.
    pub began: u64,
}

/// What the kernel says of a thread, since the thread's beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadSample {
    /// Nanoseconds on a processor.
    pub ran_ns: u64,
    /// Nanoseconds for which the thread was ready to run and had no processor.
    pub queued_ns: u64,
    /// Page faults that waited for the disk.
    pub major_faults: u64,
    /// The processor on which the thread ran last.
    pub processor: u32,
    /// The processors on which the thread may run, as ranges: `0-3,8`.
    pub allowed: String,
}

/// What the processors of a machine did, and for how long the process was not allowed to use them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSample {
    /// For each processor: busy, idle, waiting for input/output, taken by the hypervisor. In ticks
    /// of the kernel (10 ms) since its start.
    pub processors: Vec<[u64; 4]>,
    /// Nanoseconds for which a limit of processor time stopped the process, since it began to
    /// record.
    pub throttled_ns: u64,
}

/// A span that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSpan {
    /// Its begin in ticks.
    pub since: u64,
    /// The number of its activity.
    pub activity: u8,
    /// Its subject.
    pub subject: u32,
    /// Its detail.
    pub detail: u64,
}

/// A span in a file: the end relative to the end before it, then length, activity, subject, detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackedSpan(i64, u64, u8, u32, u64);

/// A span with times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickSpan {
    /// The begin in ticks.
    pub since: u64,
    /// The end in ticks.
    pub until: u64,
    /// What the thread did.
    pub activity: Activity,
    /// The object of the activity.
    pub subject: u32,
    /// Further detail.
    pub detail: u64,
}

impl LanePart {
    /// Returns the spans that ended, in the order of their ends; spans of activities that this
    /// version does not know are left out.
    pub fn spans(&self) -> impl Iterator<Item = TickSpan> + '_ {
        let mut end = 0_u64;
        self.spans.iter().filter_map(move |&PackedSpan(step, length, activity, subject, detail)| {
            end = end.wrapping_add_signed(step);
            let activity = Activity::from_number(activity)?;
            Some(TickSpan {
                since: end.saturating_sub(length),
                until: end,
                activity,
                subject,
                detail,
            })
        })
    }

    /// Puts spans into a part that was made otherwise than by recording, in the order of their
    /// ends.
    #[doc(hidden)]
    pub fn set_spans(&mut self, spans: &[TickSpan]) {
        let words = |span: &TickSpan| {
            let what = u64::from(span.activity as u8) << 32 | u64::from(span.subject);
            [span.since, span.until, what, span.detail]
        };
        self.spans = LanePart::pack(&spans.iter().map(words).collect::<Vec<_>>());
    }

    /// Packs the entries of a ring.
    pub(crate) fn pack(entries: &[Words]) -> Vec<PackedSpan> {
        let mut end = 0_u64;
        let pack = |&[since, until, what, detail]: &Words| {
            let step = until.wrapping_sub(end) as i64;
            end = until;
            PackedSpan(step, until.saturating_sub(since), (what >> 32) as u8, what as u32, detail)
        };
        entries.iter().map(pack).collect()
    }
}

/// Returns the bytes of a frame.
#[doc(hidden)]
#[must_use]
pub fn encode(frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    // A frame consists of numbers, texts and lists of them, which postcard always encodes.
    let mut bytes = postcard::to_extend(frame, bytes).unwrap_or_default();
    if let Some(payload) = bytes.get(HEADER..) {
        let (length, checksum) = (payload.len() as u32, checksum(payload));
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

pub(crate) fn checksum(payload: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(payload)
}
