//! The recorder of the process: the registry of the threads' rings, and the switch that turns
//! recording on and off.
//!
//! A thread gets its ring at its first event. The registry shares the ring, so that it stays
//! readable after the thread's end. Recording threads contend only for the registry's mutex, once
//! each.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::clock::{self, ClockPair};
use crate::frame::ThreadSample;
use crate::note;
use crate::open::{DEPTH, OpenSpans};
use crate::ring::{self, Ring, Words, Writer};
use crate::{Activity, Event, sample, writer};

/// The maximum number of events that a ring keeps: 2^24 slots, 512 MiB.
pub const MAX_EVENTS_PER_THREAD: usize = (1 << 24) - 1;

/// The value of [`CAPACITY`] until the environment has been asked, and while it is being asked.
const UNDECIDED: usize = usize::MAX;
const DECIDING: usize = usize::MAX - 1;
/// How long a thread waits for another one that asks the environment, which opens the file: a busy
/// disk may take seconds.
const DECISION: Duration = Duration::from_secs(60);

/// The number of events that each thread's ring keeps; 0 while recording is off. All accesses are
/// Relaxed: the value orders nothing, and a thread that sees a change late starts or stops
/// recording a little later. Models of other crates do not record.
static CAPACITY: AtomicUsize = AtomicUsize::new(if cfg!(loom) { 0 } else { UNDECIDED });

/// Time zero of [`snapshot`].
static ORIGIN: OnceLock<ClockPair> = OnceLock::new();

/// The process and the thread that ask the environment.
static DECIDER: OnceLock<(u32, ThreadId)> = OnceLock::new();

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { lanes: Vec::new(), threads: 0 });

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// The state with which a thread records its events.
struct Mine {
    writer: Writer,
    lane: Arc<LaneState>,
    /// The open spans: since, what, detail; the outermost first.
    open: Vec<[u64; 3]>,
}

/// The part of a thread's state that other threads read.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) ring: Arc<Ring>,
    pub(crate) open: OpenSpans,
    /// The number of the thread in this process.
    pub(crate) thread: u32,
    /// The thread's number in the system.
    pub(crate) thread_id: u32,
    /// The name of the thread.
    pub(crate) name: String,
    /// What the thread is to the run, such as a member and its rank.
    pub(crate) role: Mutex<Option<Role>>,
    /// When the thread recorded first, in ticks.
    pub(crate) began: u64,
    /// When the thread ended; 0 before. Relaxed: it is stored before the thread's last reference to
    /// this state is dropped, and read after that.
    pub(crate) ended: AtomicU64,
    /// What the kernel said of the thread at its first event, and at its end.
    pub(crate) samples: Mutex<[Option<ThreadSample>; 2]>,
}

/// What a thread is to the run. The later ones in this list replace the earlier ones.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub enum Role {
    /// A worker of an overlay's pool in this process, or of a pool of processes.
    Worker(u32),
    /// The manager of a pool.
    Manager,
    /// A thread that serves requests of other hosts.
    Server(u32),
    /// A member of a team.
    Member(u32),
}

/// The registry's entry for a ring.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) state: Arc<LaneState>,
    /// The number of the first entry that has not been cleared or written to the file.
    pub(crate) from: u64,
}

pub(crate) struct Registry {
    /// The rings, in the order of creation.
    pub(crate) lanes: Vec<Lane>,
    /// The number of threads that have recorded so far.
    threads: u32,
}

/// Starts recording in memory, keeping the last `events_per_thread` events of each thread.
///
/// May be called by any thread at any time. The size is clamped to the range from 1 to
/// [`MAX_EVENTS_PER_THREAD`]. A ring takes 32 bytes for each slot, and the number of its slots is
/// the next power of two above the size: 1023 is cheaper than 1024. Events recorded earlier are
/// kept. A thread whose ring has another size starts a new ring at its next event; the old one
/// stays readable until [`clear`].
///
/// Time zero is the first call in the process.
pub fn enable(events_per_thread: usize) {
    ORIGIN.get_or_init(ClockPair::now);
    CAPACITY.store(events_per_thread.clamp(1, MAX_EVENTS_PER_THREAD), Relaxed);
}

/// Stops recording. Events recorded so far are kept.
///
/// May be called by any thread at any time. A span that is open at this moment is still recorded
/// when it ends.
pub fn disable() {
    CAPACITY.store(0, Relaxed);
}

/// Returns whether recording is on, so that a caller can skip work that only an event needs.
///
/// # Memory ordering
/// Relaxed: the result orders no other memory access.
#[inline]
pub fn is_enabled() -> bool {
    !is_off() && decided() != 0
}

/// Returns the bytes that each thread's recording takes at most: those of its ring. 0 if recording
/// is off.
///
/// For programs that keep a bound of memory. A ring takes a page at the first event in it.
///
/// # Examples
/// ```
/// syncline_trace::enable(1023);
/// assert_eq!(syncline_trace::memory_per_thread(), 32 << 10);
/// ```
#[must_use]
pub fn memory_per_thread() -> u64 {
    if is_off() {
        return 0;
    }
    match decided() {
        0 => 0,
        events => ring::bytes(events),
    }
}

/// Returns whether recording is off for sure. A build with `--cfg syncline_untraced` never records:
/// it is for measuring what the check costs.
#[inline]
fn is_off() -> bool {
    cfg!(syncline_untraced) || CAPACITY.load(Relaxed) == 0
}

/// Returns the size of the rings; at the first call in the process, the environment decides whether
/// recording is on.
#[cold]
fn decided() -> usize {
    let capacity = CAPACITY.load(Relaxed);
    if capacity < DECIDING {
        return capacity;
    }
    // Only one thread decides. The others wait for it: their roles and names are recorded once.
    let me = (std::process::id(), std::thread::current().id());
    if CAPACITY.compare_exchange(UNDECIDED, DECIDING, Relaxed, Relaxed).is_ok() {
        let _ = DECIDER.set(me);
        writer::start_from_environment();
        // Not recording, unless that call has started it.
        let _ = CAPACITY.compare_exchange(DECIDING, 0, Relaxed, Relaxed);
    } else if DECIDER.get() != Some(&me) {
        // A child made by `fork` has no thread that decides.
        let is_here = || DECIDER.get().is_none_or(|&(process, _)| process == me.0);
        let since = Instant::now();
        while CAPACITY.load(Relaxed) == DECIDING && is_here() && since.elapsed() < DECISION {
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = CAPACITY.compare_exchange(DECIDING, 0, Relaxed, Relaxed);
    }
    match CAPACITY.load(Relaxed) {
        // The decider itself: what it does to decide is not recorded.
        DECIDING => 0,
        capacity => capacity,
    }
}

/// An open span: it ends, and is recorded, when it is dropped.
///
/// A span belongs to the thread that opened it. Spans of a thread are nested.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span {
    /// The number of open spans of this thread, this one included; 0 if recording is off. One
    /// register, so that a span costs nothing but its checks while recording is off.
    depth: u32,
    _of_this_thread: PhantomData<*const ()>,
}

impl Span {
    const OFF: Span = Span { depth: 0, _of_this_thread: PhantomData };

    /// Changes the detail of the span, for something that is known only at its end.
    pub fn set_detail(&mut self, detail: u64) {
        if self.depth != 0 {
            let _ = with_own(|mine| {
                if let Some([.., old]) = mine.open.get_mut(self.depth as usize - 1) {
                    *old = detail;
                }
            });
        }
    }

    /// Ends the span without recording it.
    pub fn cancel(self) {
        if self.depth != 0 {
            let _ = with_own(|mine| mine.close(self.depth));
        }
        std::mem::forget(self);
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.depth != 0 {
            end(self.depth);
        }
    }
}

/// Opens a span of this thread, if recording is on.
///
/// Never blocks and never allocates, except at the thread's first event (and at the first after
/// [`enable`] changed the size), when its ring is made. When the ring is full, the oldest event is
/// lost. Events may be lost while the thread's local variables are being destroyed.
///
/// # Memory ordering
/// A call synchronises with nothing that a caller may rely on. An event is in every [`snapshot`]
/// that its end happens before, for as long as the ring keeps it.
///
/// # Examples
/// ```
/// use syncline_trace::{Activity, enable, snapshot, span};
///
/// enable(3);
/// for iteration in 0..10 {
///     let _step = span(Activity::Step, 7, iteration);
/// }
/// assert_eq!(snapshot().iter().map(|event| event.detail).collect::<Vec<_>>(), [7, 8, 9]);
/// ```
#[inline]
pub fn span(activity: Activity, subject: u32, detail: u64) -> Span {
    if is_off() { Span::OFF } else { begin(activity, subject, detail) }
}

/// Records a moment of this thread, if recording is on. Costs and losses are those of [`span`].
#[inline]
pub fn mark(activity: Activity, subject: u32, detail: u64) {
    if !is_off() {
        record_mark(activity, subject, detail);
    }
}

#[cold]
#[inline(never)]
fn record_mark(activity: Activity, subject: u32, detail: u64) {
    let now = clock::now();
    push([now, now, what(activity, subject), detail]);
}

/// Records a span whose begin was another call's [`now`](crate::clock::now), and which ends now.
///
/// For spans that are not nested, such as requests to a disk. Nothing is recorded if recording is
/// off, or if `since` is 0.
#[inline]
pub fn span_since(activity: Activity, subject: u32, detail: u64, since: u64) {
    if since != 0 && !is_off() {
        record_since(activity, subject, detail, since);
    }
}

#[cold]
#[inline(never)]
fn record_since(activity: Activity, subject: u32, detail: u64, since: u64) {
    push([since, clock::now(), what(activity, subject), detail]);
}

/// Returns the time for [`span_since`]: the ticks of this moment, or 0 if recording is off.
#[inline]
pub fn since() -> u64 {
    if is_off() { 0 } else { ticks() }
}

#[cold]
#[inline(never)]
fn ticks() -> u64 {
    clock::now().max(1)
}

/// Tells what this thread is to the run, if recording is on. A member that also works in a pool
/// stays a member: a role is replaced by the same one or by a later one in the list of [`Role`].
pub fn set_role(role: Role) {
    if is_enabled() {
        with_mine(|mine| {
            let mut now = mine.lane.role.lock().unwrap_or_else(PoisonError::into_inner);
            let same = now.is_some_and(|now| discriminant(&now) == discriminant(&role));
            if same || *now < Some(role) {
                *now = Some(role);
            }
        });
    }
}

fn what(activity: Activity, subject: u32) -> u64 {
    u64::from(activity as u8) << 32 | u64::from(subject)
}

/// `cold` keeps the function out of line, and off the path of programs that do not record.
#[cold]
fn begin(activity: Activity, subject: u32, detail: u64) -> Span {
    let what = what(activity, subject);
    let opened = with_mine(|mine| {
        // Ticks are 0 only at the start of a machine.
        let since = clock::now().max(1);
        mine.lane.open.open(mine.open.len(), since, what, detail);
        mine.open.push([since, what, detail]);
        Span { depth: mine.open.len() as u32, _of_this_thread: PhantomData }
    });
    opened.unwrap_or(Span::OFF)
}

/// Records the open span of this depth, which ends now. A span that was open when recording stopped
/// is recorded all the same.
#[cold]
fn end(depth: u32) {
    let until = clock::now();
    let _ = with_own(|mine| {
        if let Some([since, what, detail]) = mine.close(depth) {
            write(&mut mine.writer, [since, until, what, detail]);
        }
    });
}

/// Calls `act` with this thread's state, if it has one. Returns `None` also while the thread ends.
#[inline]
fn with_own<T>(act: impl FnOnce(&mut Mine) -> T) -> Option<T> {
    let done = MINE.try_with(|mine| mine.try_borrow_mut().ok()?.as_mut().map(act));
    done.ok().flatten()
}

impl Drop for Mine {
    /// The thread ends: what it did since the last frame would be unknown otherwise.
    fn drop(&mut self) {
        self.lane.ended.store(clock::now().max(1), Relaxed);
        let last = sample::thread(self.lane.thread_id);
        self.lane.samples.lock().unwrap_or_else(PoisonError::into_inner)[1] = last;
    }
}

impl Mine {
    /// Closes the open span of this depth, and those inside it, which were not dropped.
    #[inline]
    fn close(&mut self, depth: u32) -> Option<[u64; 3]> {
        let outer = depth as usize - 1;
        let span = self.open.get(outer).copied();
        for inner in outer..self.open.len() {
            self.lane.open.close(inner);
        }
        self.open.truncate(outer);
        span
    }
}

fn push(words: Words) {
    with_mine(|mine| write(&mut mine.writer, words));
}

/// Appends an entry. A half of the ring later the thread that writes the file is woken, so that
/// nothing is lost while it keeps up.
#[inline]
fn write(writer: &mut Writer, words: Words) {
    if writer.push(words) {
        writer::wake();
    }
}

/// Calls `act` with this thread's state, which it makes if there is none of the right size.
///
/// Returns `None` if recording is off, if the thread is ending, or if an allocator records while
/// the thread's ring is being made: such an event is lost.
#[inline]
fn with_mine<T>(act: impl FnOnce(&mut Mine) -> T) -> Option<T> {
    let capacity = match CAPACITY.load(Relaxed) {
        UNDECIDED | DECIDING => decided(),
        capacity => capacity,
    };
    if capacity == 0 {
        return None;
    }
    let done = MINE.try_with(|mine| {
        let mut mine = mine.try_borrow_mut().ok()?;
        if mine.as_ref().is_none_or(|mine| mine.writer.ring().keep() != capacity) {
            // The registry may have been locked when a child was made by `fork`.
            if writer::is_child() {
                return None;
            }
            let old = mine.take();
            *mine = register(capacity, old);
        }
        mine.as_mut().map(act)
    });
    done.ok().flatten()
}

/// Makes a ring for this thread, which continues the `old` one, if there is one. Without memory for
/// it, events are lost.
#[cold]
fn register(capacity: usize, old: Option<Mine>) -> Option<Mine> {
    let writer = Writer::new(capacity)?;
    // A caller without `enable`, in a thread that saw its store first, sets time zero a little
    // later.
    ORIGIN.get_or_init(ClockPair::now);
    let role =
        old.as_ref().and_then(|old| *old.lane.role.lock().unwrap_or_else(PoisonError::into_inner));
    let thread_id = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let first = sample::thread(thread_id);
    let mut registry = registry();
    let (thread, open) = match old {
        Some(mut old) => {
            let (lane, open) = (Arc::clone(&old.lane), std::mem::take(&mut old.open));
            drop(old);
            // The thread goes on.
            lane.ended.store(0, Relaxed);
            (lane.thread, open)
        }
        None => {
            registry.threads += 1;
            (registry.threads - 1, Vec::with_capacity(2 * DEPTH))
        }
    };
    let lane = Arc::new(LaneState {
        ring: writer.ring().clone(),
        open: OpenSpans::new(),
        thread,
        thread_id,
        name: std::thread::current().name().unwrap_or_default().to_owned(),
        role: Mutex::new(role),
        began: clock::now(),
        ended: AtomicU64::new(0),
        samples: Mutex::new([first, None]),
    });
    registry.lanes.push(Lane { state: Arc::clone(&lane), from: 0 });
    Some(Mine { writer, lane, open })
}

/// Returns all events that are kept in memory, of living and ended threads, sorted by their begin.
///
/// May be called by any thread at any time; recording continues meanwhile. Events that are
/// overwritten while they are being copied are left out. Spans that are open are not events yet.
/// Events that a file already has are not returned. The times of an event in two snapshots may
/// differ by some nanoseconds, as each snapshot determines the rate of the clock.
///
/// # Memory ordering
/// The result contains every event whose end happens before the call, unless it was overwritten or
/// cleared.
pub fn snapshot() -> Vec<Event> {
    let Some(origin) = ORIGIN.get() else { return Vec::new() };
    // The rings are copied without the mutex, so that no thread waits for a copy at its first
    // event.
    let lanes = registry().lanes.clone();
    let now = ClockPair::now();
    let time = |ticks| origin.convert(&now, ticks).saturating_sub(origin.monotonic_ns);
    let mut events: Vec<Event> = lanes
        .iter()
        .flat_map(|lane| {
            let (_, entries) = lane.state.ring.read(lane.from);
            entries.into_iter().filter_map(|[since, until, what, detail]| {
                Some(Event {
                    since_ns: time(since),
                    until_ns: time(until),
                    thread: lane.state.thread,
                    activity: Activity::from_number((what >> 32) as u8)?,
                    subject: what as u32,
                    detail,
                })
            })
        })
        .collect();
    // The sort is stable: events of one thread at the same nanosecond keep their order.
    events.sort_by_key(|event| event.since_ns);
    events
}

/// Clears all recorded events and notes, and frees the rings that no thread will write to again.
///
/// May be called by any thread at any time. Recording stays on or off, as it is; an event recorded
/// concurrently may be cleared or kept.
pub fn clear() {
    note::clear();
    registry().lanes.retain_mut(|lane| {
        lane.from = lane.state.ring.head();
        *lane.state.samples.lock().unwrap_or_else(PoisonError::into_inner) = [None, None];
        // The other holders are the thread itself and snapshots. A ring that only a snapshot holds
        // is empty from now on, and the next clear frees it.
        Arc::strong_count(&lane.state) > 1
    });
}

/// Locks the registry. A poisoned lock is usable: every change to the registry is a single step.
pub(crate) fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
