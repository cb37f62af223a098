//! The thread that writes rings and notes to a file while the program runs.
//!
//! # Contract
//! [`start`] begins, [`finish`] or the process's ordinary exit ends. Between them a thread appends
//! a frame ten times a second, and as soon as half of a ring is new. What was written when a
//! process is killed counts: a reader needs no end. Recording never makes the program fail: when
//! the file cannot be written any more, recording stops, and [`finish`] returns the reason.
//!
//! ```text
//!   threads ──spans──> rings ──┐
//!   threads ──notes──> list ───┼──> writer thread ──frames, by O_APPEND──> file
//!   /proc ─────────────────────┘                  other processes of the run ──^
//! ```
//!
//! # Several processes, one file
//! All processes of a run on a host append to one file, and each holds a shared lock on it. A
//! process that finds a trace which is not locked replaces it, as it is of an earlier run. On file
//! systems that several hosts share, appending is not atomic, so the file's name is extended by the
//! name of the host there.
//!
//! # Costs
//! A frame takes the writer a few system calls per thread and some nanoseconds per span; 7 to 12
//! bytes per span.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, fence};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::clock::ClockPair;
use crate::error::TraceError;
use crate::frame::{self, Frame, LaneInfo, LanePart, MAGIC, OpenSpan, ProcessInfo};
use crate::recorder::{self, Lane, Role};
use crate::ring::Words;
use crate::{note, sample};

/// The environment variable that names the file to which a program records.
pub const VARIABLE: &str = "SYNCLINE_TRACE";
/// The number of events in a thread's ring: 2 MiB.
const RING: usize = (1 << 16) - 1;
/// The time between two frames.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time between two samples of the machine: reading `/proc/stat` takes milliseconds on large
/// ones.
const MACHINE_INTERVAL: Duration = Duration::from_secs(1);
/// The most spans and notes in a frame: longer ones are divided.
const MOST: usize = 1 << 15;
/// How long a process waits for another one that is just replacing an old trace.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);
/// The process that records; 0 if none does. A child made by `fork` finds its parent's number here,
/// and leaves the locks alone, which a thread of the parent may have held. Relaxed: a process reads
/// its own number, or one that is not its own.
static RECORDER: AtomicU32 = AtomicU32::new(0);
/// The file that the environment named: then a failure has no caller, and is one line on standard
/// error.
static FROM_ENVIRONMENT: OnceLock<PathBuf> = OnceLock::new();
static WRITER: Mutex<Option<Thread>> = Mutex::new(None);

/// The state of a recording.
struct Recording {
    /// The file that the program named, as an absolute path.
    named: PathBuf,
    output: Output,
    /// Tells the writer thread to end.
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a recording has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The file.
    pub path: PathBuf,
    /// The number of spans and marks.
    pub events: u64,
    /// The number of events that were overwritten before they could be written.
    pub lost: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The file, and what was written to it.
struct Output {
    file: File,
    process: Option<ProcessInfo>,
    stream: u64,
    number: u64,
    /// The threads whose names are in the file, each with the role that is.
    known: Vec<(u32, Option<Role>)>,
    machine: Option<Instant>,
    limits: sample::Limits,
    recorded: Recorded,
    failure: Option<io::Error>,
}

/// Begins to record to a file, for all threads of this process.
///
/// May be called by any thread at any time. A file that another process of this host is recording
/// to is continued; an earlier trace is replaced; a file with other contents is left alone. On file
/// systems that hosts share, the name of the host is appended to the file's name.
///
/// A child made by `fork` does not record: its spans are dropped, and the parent's recording goes
/// on.
///
/// # Errors
/// If the file cannot be created or locked, has contents that are no trace, or if this process
/// records already.
pub fn start(path: &Path) -> Result<(), TraceError> {
    let mut recording = recording();
    if let Some(recording) = &*recording {
        let path = recording.output.recorded.path.clone();
        return Err(TraceError::Recording { path });
    }
    let named = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = own_path(path);
    let failed = |what| {
        let path = path.clone();
        move |source| TraceError::File { what, path, source }
    };
    let file = open(&path).map_err(failed("open"))?;
    let Some(file) = lock(file).map_err(failed("lock"))? else {
        return Err(TraceError::NotATrace { path });
    };
    // What is in the rings of an earlier recording belongs to that one.
    recorder::clear();
    let process = sample::process();
    let pid = process.pid;
    let identity = format!("{} {} {}", process.boot, process.pid, process.began.ticks);
    let output = Output {
        file,
        stream: frame::checksum(identity.as_bytes()),
        process: Some(process),
        number: 0,
        known: Vec::new(),
        machine: None,
        limits: sample::Limits::default(),
        recorded: Recorded { path: path.clone(), ..Recorded::default() },
        failure: None,
    };
    let end = Arc::new(AtomicBool::new(false));
    let thread = spawn(Arc::clone(&end)).map_err(failed("start the writer of"))?;
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread.thread().clone());
    *recording = Some(Recording { named, output, end, thread: Some(thread) });
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        extern "C" fn at_exit() {
            if let Err(error) = finish()
                && let Some(path) = FROM_ENVIRONMENT.get()
            {
                let path = path.display();
                let _ = writeln!(io::stderr(), "syncline: {VARIABLE}={path}: {error}");
            }
        }
        // SAFETY: `at_exit` is a function that may be called at any time; it does not unwind, as
        // `finish` returns its errors.
        unsafe { libc::atexit(at_exit) };
    });
    RECORDER.store(pid, Relaxed);
    recorder::enable(RING);
    // The first frame says what the program is, and how busy the machine was before it.
    if let Some(recording) = &mut *recording {
        recording.output.append(false);
    }
    Ok(())
}

/// Ends the recording of this process, and writes what is left. Spans that are open are written as
/// open.
///
/// May be called by any thread. Returns `None` if nothing was being recorded. The ordinary exit of
/// a process does the same.
///
/// # Errors
/// If the file could not be written to its end: it contains what was written before.
pub fn finish() -> Result<Option<Recorded>, TraceError> {
    if RECORDER.load(Relaxed) != std::process::id() {
        return Ok(None);
    }
    let taken = recording().take();
    let Some(mut taken) = taken else { return Ok(None) };
    RECORDER.store(0, Relaxed);
    recorder::disable();
    taken.end.store(true, Relaxed);
    wake();
    *WRITER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    if let Some(thread) = taken.thread.take() {
        // The thread has nothing left to do: it finds no recording any more.
        let _ = thread.join();
    }
    taken.output.append(true);
    // A copy of the descriptor in a child made by `fork` would keep the lock.
    let _ = flock(&taken.output.file, FlockOperation::NonBlockingUnlock);
    let Output { failure, recorded, .. } = taken.output;
    match failure {
        None => Ok(Some(recorded)),
        Some(source) => Err(TraceError::File { what: "write", path: recorded.path, source }),
    }
}

/// Returns the file that this process records to, as an absolute path: the value that [`VARIABLE`]
/// must have in the environment of another process that is to record to the same file.
///
/// A process whose own environment has the variable passes it on anyway.
#[must_use]
pub fn recording_path() -> Option<PathBuf> {
    if RECORDER.load(Relaxed) != std::process::id() {
        return None;
    }
    recording().as_ref().map(|recording| recording.named.clone())
}

/// Begins to record if the environment names a file. A failure is one line on standard error, as
/// there is no caller that could have it.
#[cold]
pub(crate) fn start_from_environment() {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
    let _ = FROM_ENVIRONMENT.set(PathBuf::from(&path));
    if let Err(error) = start(Path::new(&path)) {
        let _ = writeln!(io::stderr(), "syncline: {VARIABLE}: {error}; nothing is recorded");
    }
}

/// Returns whether this process is a child made by `fork` of the process that records.
pub(crate) fn is_child() -> bool {
    let recorder = RECORDER.load(Relaxed);
    recorder != 0 && recorder != std::process::id()
}

/// Wakes the writer thread. Never blocks: while the writer is starting or ending, it needs no call.
pub(crate) fn wake() {
    if let Ok(writer) = WRITER.try_lock()
        && let Some(writer) = &*writer
    {
        writer.unpark();
    }
}

fn recording() -> MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the writer thread, which receives no signals: they are for the program's own threads.
fn spawn(end: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    let _blocked = BlockedSignals::new();
    std::thread::Builder::new().name("syncline-trace".into()).spawn(move || {
        while !end.load(Relaxed) {
            std::thread::park_timeout(INTERVAL);
            // A thread that ends the recording has the lock, or has taken the recording already.
            if let Some(recording) = &mut *recording()
                && !end.load(Relaxed)
            {
                recording.output.append(false);
            }
        }
    })
}

/// All signals are blocked in this thread, and in threads that it starts, until the drop.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> BlockedSignals {
        // SAFETY: both sets are plain memory for the calls to fill; the calls have no other
        // conditions.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut old = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
            BlockedSignals(old)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that `new` was given.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

/// Returns the file that processes of this host write: on file systems that hosts share, each host
/// has a file of its own.
fn own_path(path: &Path) -> PathBuf {
    // NFS, SMB 2, CIFS, Lustre, FUSE, GPFS, Ceph, 9p, BeeGFS, AFS: see statfs(2).
    const SHARED: [u32; 10] = [
        0x6969,
        0xFE53_4D42,
        0xFF53_4D42,
        0x0BD0_0BD0,
        0x6573_5546,
        0x4750_4653,
        0x00C3_6400,
        0x0102_1997,
        0x1983_0326,
        0x5346_414F,
    ];
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match rustix::fs::statfs(folder) {
        Ok(system) if SHARED.contains(&(system.f_type as u32)) => {
            let mut name = path.as_os_str().to_owned();
            name.push(".");
            name.push(rustix::system::uname().nodename().to_string_lossy().as_ref());
            PathBuf::from(name)
        }
        _ => path.to_owned(),
    }
}

/// Opens or creates the file. A write to a pipe would wait for its reader, perhaps for ever.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_fifo() || kind.is_socket() => Err(io::Error::other("it is a pipe")),
        _ => Ok(file),
    }
}

/// Gets the shared lock; the first process of a run empties the file. Returns `None`, without a
/// change, if the file has contents that are no trace.
fn lock(mut file: File) -> io::Result<Option<File>> {
    if file.metadata()?.is_file() {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let mut head = Vec::new();
            file.rewind()?;
            (&mut file).take(MAGIC.len() as u64).read_to_end(&mut head)?;
            if !MAGIC.starts_with(&head) {
                return Ok(None);
            }
            file.set_len(0)?;
        }
        let since = Instant::now();
        // The change from the exclusive lock to the shared one is not atomic; another process that
        // gets the exclusive one meanwhile empties a file that is empty.
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockShared) {
            if since.elapsed() > LOCK_PATIENCE {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(Some(file))
}

impl Output {
    /// Appends all that is new.
    fn append(&mut self, last: bool) {
        if self.failure.is_some() {
            return;
        }
        let lanes = recorder::registry().lanes.clone();
        let mut parts = Vec::new();
        // The ends of threads are looked for before their rings are read: what an ended thread has
        // recorded is complete.
        let ended: Vec<bool> =
            lanes.iter().map(|lane| Arc::strong_count(&lane.state) == 2).collect();
        // Pairs with the Release of the drop by which the thread gave its reference up: its last
        // entries and the time of its end are read below.
        fence(Acquire);
        for (lane, &ended) in lanes.iter().zip(&ended) {
            self.read_lane(lane, ended, &mut parts);
        }
        let clock = ClockPair::now();
        self.advance(&lanes, &ended, &parts);

        let mut parts = parts.into_iter().map(|(part, _)| part).peekable();
        loop {
            let mut frame = Frame { stream: self.stream, clock, ..Frame::default() };
            (frame.notes, frame.notes_lost) = note::take(MOST);
            let mut room = MOST;
            while let Some(part) = parts.next_if(|part| part.spans.len() <= room || room == MOST) {
                room = room.saturating_sub(part.spans.len());
                frame.lanes.push(part);
            }
            let more = frame.notes.len() == MOST || parts.peek().is_some();
            if !more && self.machine.is_none_or(|since| last || since.elapsed() >= MACHINE_INTERVAL)
            {
                self.machine = Some(Instant::now());
                frame.machine = sample::machine(&mut self.limits);
            }
            frame.process = self.process.take();
            frame.last = last && !more;
            frame.number = self.number;
            self.number += 1;
            self.write(&frame::encode(&frame));
            if !more || self.failure.is_some() {
                return;
            }
        }
    }

    /// Reads what is new of a thread, in parts of at most [`MOST`] spans, with the number of the
    /// next entry.
    fn read_lane(&mut self, lane: &Lane, ended: bool, parts: &mut Vec<(LanePart, u64)>) {
        let state = &lane.state;
        let (first, entries) = state.ring.read(lane.from);
        let open = state.open.read().into_iter().map(|[since, what, detail]| OpenSpan {
            since,
            activity: (what >> 32) as u8,
            subject: what as u32,
            detail,
        });
        let open: Vec<OpenSpan> = open.collect();
        let samples =
            std::mem::take(&mut *state.samples.lock().unwrap_or_else(PoisonError::into_inner));
        let [first_sample, last_sample] = samples;
        let sample = last_sample.or_else(|| sample::thread(state.thread_id));
        let role = *state.role.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.iter().position(|&(thread, _)| thread == state.thread);
        // A thread that is ending has no sample any more; its name and role may be new.
        let is_told = known.is_some_and(|at| self.known[at].1 == role);
        let no_sample = first_sample.is_none() && sample.is_none();
        if entries.is_empty() && open.is_empty() && no_sample && is_told && !ended {
            return;
        }
        let about = known.is_none().then(|| LaneInfo {
            thread_id: state.thread_id,
            name: state.name.clone(),
            began: state.began,
        });
        match known {
            Some(at) => self.known[at].1 = role,
            None => self.known.push((state.thread, role)),
        }
        let lost = first - lane.from.min(first);
        self.recorded.events += entries.len() as u64;
        self.recorded.lost += lost;
        let next = first + entries.len() as u64;
        let of_thread = || LanePart { thread: state.thread, ..LanePart::default() };
        let mut part = LanePart { about, role, lost, ..of_thread() };
        if first_sample.is_some() {
            part.sample = first_sample;
            parts.push((std::mem::replace(&mut part, of_thread()), lane.from));
        }
        let mut pieces: Vec<&[Words]> = entries.chunks(MOST).collect();
        let rest = pieces.pop().unwrap_or_default();
        for piece in pieces {
            part.spans = LanePart::pack(piece);
            parts.push((std::mem::replace(&mut part, of_thread()), next));
        }
        part.spans = LanePart::pack(rest);
        part.open = open;
        part.sample = sample;
        part.ended = ended.then(|| state.ended.load(Relaxed)).filter(|&ticks| ticks > 0);
        parts.push((part, next));
    }

    /// Remembers how far the rings were read, and drops the rings of threads that have ended.
    fn advance(&self, lanes: &[Lane], ended: &[bool], parts: &[(LanePart, u64)]) {
        let next = |thread| {
            parts.iter().rev().find(|(part, _)| part.thread == thread).map(|&(_, next)| next)
        };
        recorder::registry().lanes.retain_mut(|lane| {
            let Some(index) = lanes.iter().position(|read| Arc::ptr_eq(&read.state, &lane.state))
            else {
                return true;
            };
            lane.from = next(lane.state.thread).unwrap_or(lane.from);
            !ended[index]
        });
    }

    /// Appends bytes; after a failure, recording stops.
    fn write(&mut self, bytes: &[u8]) {
        match self.file.write_all(bytes) {
            Ok(()) => self.recorded.bytes += bytes.len() as u64,
            Err(error) => {
                self.failure = Some(error);
                recorder::disable();
            }
        }
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::activity::Activity;
    use crate::open::OpenSpans;
    use crate::ring::Writer;

    /// The kernel has forgotten the thread, but its last reference to the lane is still there.
    #[test]
    fn a_thread_that_is_ending_keeps_its_name_and_role() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output {
            file: File::create(folder.path().join("trace")).unwrap(),
            process: None,
            stream: 0,
            number: 0,
            known: Vec::new(),
            machine: None,
            limits: sample::Limits::default(),
            recorded: Recorded::default(),
            failure: None,
        };
        let state = Arc::new(recorder::LaneState {
            ring: Arc::clone(Writer::new(3).unwrap().ring()),
            open: OpenSpans::new(),
            thread: 0,
            // No thread has this number.
            thread_id: u32::MAX,
            name: "worker".to_owned(),
            role: Mutex::new(None),
            began: 1,
            ended: AtomicU64::new(0),
            samples: Mutex::default(),
        });
        let lane = Lane { state, from: 0 };
        let mut parts = Vec::new();
        output.read_lane(&lane, false, &mut parts);
        let (part, _) = parts.pop().unwrap();
        assert_eq!((part.about.unwrap().name.as_str(), part.role), ("worker", None));

        output.read_lane(&lane, false, &mut parts);
        assert!(parts.is_empty(), "nothing is new");

        *lane.state.role.lock().unwrap() = Some(Role::Member(3));
        output.read_lane(&lane, false, &mut parts);
        let (part, _) = parts.pop().unwrap();
        assert_eq!((part.about, part.role), (None, Some(Role::Member(3))));
    }

    /// The writer would come too late for a thread that fills its ring between two frames. A call
    /// of [`wake`] before the park ends it at once, whatever the machine does meanwhile.
    #[test]
    fn half_of_a_ring_wakes_the_writer() {
        const PATIENCE: Duration = Duration::from_secs(60);
        *WRITER.lock().unwrap() = Some(std::thread::current());
        // Eight slots.
        recorder::enable(7);
        for number in 0..4 {
            recorder::mark(Activity::Mark, 0, number);
        }
        let since = Instant::now();
        std::thread::park_timeout(PATIENCE);
        let waited = since.elapsed();
        recorder::disable();
        *WRITER.lock().unwrap() = None;
        assert!(waited < PATIENCE, "nothing has woken the writer");
    }
}
