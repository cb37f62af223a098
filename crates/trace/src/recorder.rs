//! The recorder of the process: the registry of the threads' rings, and the switch that turns
//! recording on and off.
//!
//! A thread gets its ring at its first event. The registry shares the ring, so that it stays
//! readable after the thread's end. Recording threads contend only for the registry's mutex, once
//! each.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::ring::{Ring, Writer};
use crate::{Event, EventKind};

/// The maximum number of events that a ring keeps: 2^24 slots, 384 MiB.
pub const MAX_EVENTS_PER_THREAD: usize = (1 << 24) - 1;

/// The number of events that each thread's ring keeps; 0 while recording is off. All accesses are
/// Relaxed: the value orders nothing, and a thread that sees a change late starts or stops
/// recording a little later.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);

/// Time zero of all events.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { lanes: Vec::new(), threads: 0 });

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// The state with which a thread records its events.
struct Mine {
    writer: Writer,
    thread: u32,
    origin: Instant,
}

/// The registry's entry for a ring.
#[derive(Clone)]
struct Lane {
    ring: Arc<Ring>,
    thread: u32,
    /// The number of the first entry that has not been cleared.
    from: u64,
}

struct Registry {
    /// The rings, in the order of creation.
    lanes: Vec<Lane>,
    /// The number of threads that have recorded so far.
    threads: u32,
}

/// Starts recording, keeping the last `events_per_thread` events of each thread.
///
/// May be called by any thread at any time. The size is clamped to the range from 1 to
/// [`MAX_EVENTS_PER_THREAD`]. A ring takes 24 bytes for each slot, and the number of its slots is
/// the next power of two above the size: 1023 is cheaper than 1024. Events recorded earlier are
/// kept. A thread whose ring has another size starts a new ring at its next event; the old one
/// stays readable until [`clear`].
///
/// Time zero is the first call in the process.
pub fn enable(events_per_thread: usize) {
    ORIGIN.get_or_init(Instant::now);
    CAPACITY.store(events_per_thread.clamp(1, MAX_EVENTS_PER_THREAD), Relaxed);
}

/// Stops recording. Events recorded so far are kept.
///
/// May be called by any thread at any time. A thread that is inside [`record`] at this moment may
/// still record that event.
pub fn disable() {
    CAPACITY.store(0, Relaxed);
}

/// Returns whether recording is on, so that a caller can skip work that only an event needs.
///
/// # Memory ordering
/// Relaxed: the result orders no other memory access.
#[inline]
pub fn is_enabled() -> bool {
    CAPACITY.load(Relaxed) != 0
}

/// Records an event of this thread at the current time, if recording is on.
///
/// Never blocks and never allocates, except at the thread's first event (and at the first after
/// [`enable`] changed the size), when its ring is made. When the ring is full, the oldest event is
/// lost. Events may be lost while the thread's local variables are being destroyed.
///
/// # Memory ordering
/// A call synchronises with nothing that a caller may rely on. An event is in every [`snapshot`]
/// that it happens before, for as long as the ring keeps it.
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

/// `cold` keeps the function out of line, and off the path of programs that do not record.
#[cold]
fn record_now(capacity: usize, kind: EventKind, subject: u32, value: u64) {
    // Both steps succeed, unless the thread is ending, or an allocator records while the thread's
    // ring is being made: such an event is lost.
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

/// Makes a ring for this thread, which has the number `thread`, or gets the next one.
fn register(capacity: usize, thread: Option<u32>) -> Mine {
    let writer = Writer::new(capacity);
    // `enable` has set the origin; a thread that does not see it yet blocks here until it does.
    let origin = *ORIGIN.get_or_init(Instant::now);
    let mut registry = registry();
    let thread = thread.unwrap_or_else(|| {
        registry.threads += 1;
        registry.threads - 1
    });
    registry.lanes.push(Lane { ring: writer.ring().clone(), thread, from: 0 });
    Mine { writer, thread, origin }
}

/// Returns all events that are kept, of living and ended threads, sorted by time.
///
/// May be called by any thread at any time; recording continues meanwhile. Each thread's events are
/// consecutive and in order. Events that are overwritten while they are being copied are left out.
///
/// # Memory ordering
/// The result contains every event that happens before the call, unless it was overwritten or
/// cleared.
pub fn snapshot() -> Vec<Event> {
    // The rings are copied without the mutex, so that no thread waits for a copy at its first
    // event.
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
    // The sort is stable: events of one thread at the same nanosecond keep their order.
    events.sort_by_key(|event| event.time_ns);
    events
}

/// Clears all recorded events, and frees the rings that no thread will write to again.
///
/// May be called by any thread at any time. Recording stays on or off, as it is; an event recorded
/// concurrently may be cleared or kept.
pub fn clear() {
    registry().lanes.retain_mut(|lane| {
        lane.from = lane.ring.head();
        // The other holders are the thread itself and snapshots. A ring that only a snapshot holds
        // is empty from now on, and the next clear frees it.
        Arc::strong_count(&lane.ring) > 1
    });
}

/// Locks the registry. A poisoned lock is usable: every change to the registry is a single step.
fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
