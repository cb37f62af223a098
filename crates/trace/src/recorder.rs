//! The recorder of the process: which threads have rings, and whether they write to them.
//!
//! A thread gets its ring at its first event. The registry shares it, so that it stays readable
//! after the thread's end. Recording threads meet only in the registry's mutex, once each.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::ring::{Ring, Writer};
use crate::{Event, EventKind};

/// The most events that a ring keeps: 2^24 slots, 384 MiB.
pub const MAX_EVENTS_PER_THREAD: usize = (1 << 24) - 1;

/// Events that each thread's ring keeps; 0 is off. Relaxed everywhere: it orders nothing, and a
/// thread that sees a change late records a little longer or begins a little later.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);

/// Time zero of all events.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { lanes: Vec::new(), threads: 0 });

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// What a thread writes its events with.
struct Mine {
    writer: Writer,
    thread: u32,
    origin: Instant,
}

/// What others read a thread's events from.
#[derive(Clone)]
struct Lane {
    ring: Arc<Ring>,
    thread: u32,
    /// Number of the first entry that is not cleared.
    from: u64,
}

struct Registry {
    /// In order of birth.
    lanes: Vec<Lane>,
    /// How many threads have recorded so far.
    threads: u32,
}

/// Begins to record, keeping the last `events_per_thread` events of each thread.
///
/// Called by any thread at any time. The size is at least 1 and at most [`MAX_EVENTS_PER_THREAD`];
/// other values are brought there. A ring takes 24 bytes for each slot, and its slots are a power
/// of two that is more than the size: 1023 is cheaper than 1024. What was recorded before stays. A
/// thread whose ring has another size begins a new one at its next event; the old one stays
/// readable until [`clear`].
///
/// Time zero is the first call in the process.
pub fn enable(events_per_thread: usize) {
    ORIGIN.get_or_init(Instant::now);
    CAPACITY.store(events_per_thread.clamp(1, MAX_EVENTS_PER_THREAD), Relaxed);
}

/// Stops recording. What was recorded stays.
///
/// Called by any thread at any time. Threads that are recording at this moment may each finish the
/// event that they have begun.
pub fn disable() {
    CAPACITY.store(0, Relaxed);
}

/// Whether events are recorded now: to save a caller work that only an event needs.
///
/// # Memory ordering
/// Relaxed: it says nothing about other memory.
#[inline]
pub fn is_enabled() -> bool {
    CAPACITY.load(Relaxed) != 0
}

/// Records that this happened now, in this thread, if recording is on.
///
/// Never blocks and never allocates, except at the thread's first event (and at the first after
/// [`enable`] changed the size), when its ring is made. When the ring is full the oldest event is
/// lost. During the destruction of the thread's local variables events may be lost.
///
/// # Memory ordering
/// None that a caller may build on. An event is in every [`snapshot`] that it happens before, while
/// the ring keeps it.
///
/// # Examples
/// ```
/// use syncline_trace::{EventKind, enable, record, snapshot};
///
/// enable(3);
/// for value in 0..10 {
///     record(EventKind::Mark, 0, value);
/// }
/// assert_eq!(snapshot().iter().map(|event| event.value).collect::<Vec<_>>(), [7, 8, 9]);
/// ```
#[inline]
pub fn record(kind: EventKind, subject: u32, value: u64) {
    let capacity = CAPACITY.load(Relaxed);
    if capacity != 0 {
        record_now(capacity, kind, subject, value);
    }
}

/// `cold` keeps it out of line and off the path of programs that do not record.
#[cold]
fn record_now(capacity: usize, kind: EventKind, subject: u32, value: u64) {
    // Neither step fails unless the thread is ending or an allocator records while its ring is
    // made: such an event is lost.
    let _ = MINE.try_with(|mine| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return };
        if mine.as_ref().is_none_or(|mine| mine.writer.ring().keep() != capacity) {
            *mine = Some(register(capacity, mine.as_ref().map(|mine| mine.thread)));
        }
        if let Some(mine) = &mut *mine {
            let time_ns = mine.origin.elapsed().as_nanos() as u64;
            mine.writer.push(Event::encode(time_ns, kind, subject, value));
        }
    });
}

/// Makes a ring for this thread, which has that number already or gets the next.
fn register(capacity: usize, thread: Option<u32>) -> Mine {
    let writer = Writer::new(capacity);
    // `enable` has set it, and if this thread does not see that yet it waits for it here.
    let origin = *ORIGIN.get_or_init(Instant::now);
    let mut registry = registry();
    let thread = thread.unwrap_or_else(|| {
        registry.threads += 1;
        registry.threads - 1
    });
    registry.lanes.push(Lane { ring: writer.ring().clone(), thread, from: 0 });
    Mine { writer, thread, origin }
}

/// All events that are kept, of living and ended threads, sorted by time.
///
/// Called by any thread at any time; recording goes on meanwhile. Each thread's events are
/// consecutive and in order. Those that their thread overwrites while they are copied are left out.
///
/// # Memory ordering
/// Contains every event that happens before the call, unless it was overwritten or cleared.
pub fn snapshot() -> Vec<Event> {
    // Copied without the mutex, so that no thread waits for a copy at its first event.
    let lanes = registry().lanes.clone();
    let mut events: Vec<Event> = lanes
        .iter()
        .flat_map(|lane| {
            lane.ring
                .read(lane.from)
                .into_iter()
                .filter_map(|words| Event::decode(lane.thread, words))
        })
        .collect();
    // Stable: events of one thread at the same nanosecond keep their order.
    events.sort_by_key(|event| event.time_ns);
    events
}

/// Forgets what was recorded so far, and frees the rings that no thread will write to again.
///
/// Called by any thread at any time. Recording stays on or off, as it is; events recorded at this
/// moment may be forgotten or not.
pub fn clear() {
    registry().lanes.retain_mut(|lane| {
        lane.from = lane.ring.head();
        // The other holders are the thread itself and snapshots; a ring that only a snapshot
        // holds is empty from now on, and freed by the next clear.
        Arc::strong_count(&lane.ring) > 1
    });
}

/// A panic elsewhere leaves the registry whole: every change to it is one step.
fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
