//! The recorder as a whole. There is one per process, so the tests run one at a time.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use proptest::prelude::*;
use syncline_testkit::property;
use syncline_trace::{Activity, Event, clear, disable, enable, is_enabled, mark, snapshot, span};

static TURN: Mutex<()> = Mutex::new(());

const KINDS: [Activity; Activity::ALL.len()] = Activity::ALL;

/// Turns the recorder off and clears it; the guard keeps other tests out.
fn my_turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    disable();
    clear();
    turn
}

#[derive(Clone, Debug)]
enum Step {
    Enable(usize),
    Disable,
    Record(Activity, u32, u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let record = (0..KINDS.len(), any::<u32>(), any::<u64>())
        .prop_map(|(k, s, v)| Step::Record(KINDS[k], s, v));
    prop_oneof![
        1 => (0usize..6).prop_map(Step::Enable),
        1 => Just(Step::Disable),
        20 => record,
        1 => Just(Step::Clear),
    ]
}

/// The parts of an event that a test chooses.
type Chosen = (Activity, u32, u64);

/// The expected contents of the recorder for one thread: one vector per ring, of which the last is
/// written to.
#[derive(Default)]
struct Model {
    capacity: usize,
    rings: Vec<(usize, Vec<Chosen>)>,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Enable(capacity) => self.capacity = capacity.max(1),
            Step::Disable => self.capacity = 0,
            Step::Clear => self.rings.iter_mut().for_each(|(_, events)| events.clear()),
            Step::Record(..) if self.capacity == 0 => {}
            Step::Record(kind, subject, value) => {
                if self.rings.last().is_none_or(|(capacity, _)| *capacity != self.capacity) {
                    self.rings.push((self.capacity, Vec::new()));
                }
                if let Some((_, events)) = self.rings.last_mut() {
                    events.push((kind, subject, value));
                }
            }
        }
    }

    fn events(&self) -> Vec<Chosen> {
        let kept = |(capacity, events): &(usize, Vec<Chosen>)| {
            events[events.len().saturating_sub(*capacity)..].to_vec()
        };
        self.rings.iter().flat_map(kept).collect()
    }
}

fn apply(step: &Step) {
    match *step {
        Step::Enable(capacity) => enable(capacity),
        Step::Disable => disable(),
        Step::Clear => clear(),
        Step::Record(kind, subject, value) => mark(kind, subject, value),
    }
}

proptest! {
    #![proptest_config(property(256))]

    /// After every step, the recorder holds the same events of one thread as plain vectors do.
    #[test]
    fn agrees_with_vectors(steps in proptest::collection::vec(step(), 0..60)) {
        let _turn = my_turn();
        // Each case runs in a new thread, so that no ring is left from the previous case.
        let outcome = thread::spawn(move || {
            let mut model = Model::default();
            for (count, step) in steps.iter().enumerate() {
                apply(step);
                model.apply(step);
                let events = snapshot();
                let found: Vec<_> = events.iter().map(|e| (e.activity, e.subject, e.detail)).collect();
                assert_eq!(found, model.events(), "after {} steps", count + 1);
                assert!(events.iter().all(|event| event.thread == events[0].thread));
                assert!(events.is_sorted_by_key(|event| event.since_ns));
                assert_eq!(is_enabled(), model.capacity != 0);
            }
        })
        .join();
        prop_assert!(outcome.is_ok());
    }
}

/// Records an event whose kind and subject follow from its value.
fn record_nth(writer: u64, count: u64) {
    let value = writer << 32 | count;
    mark(
        KINDS[(count % KINDS.len() as u64) as usize],
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32,
        value,
    );
}

/// Checks that no event is torn and that each thread's events are consecutive; returns the last
/// count and the number of events of each writer.
fn check(events: &[Event]) -> BTreeMap<u64, (u64, usize)> {
    let mut threads = BTreeMap::new();
    let mut writers = BTreeMap::new();
    assert!(events.is_sorted_by_key(|event| event.since_ns));
    for event in events {
        let (writer, count) = (event.detail >> 32, event.detail & 0xffff_ffff);
        assert_eq!(event.activity, KINDS[(count % KINDS.len() as u64) as usize], "torn: {event:?}");
        let subject = (event.detail.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        assert_eq!(event.subject, subject, "torn: {event:?}");
        assert_eq!(*threads.entry(event.thread).or_insert(writer), writer, "two writers in a ring");
        let (last, number) = writers.entry(writer).or_insert((count.wrapping_sub(1), 0));
        assert_eq!(count, last.wrapping_add(1), "out of order: {event:?}");
        (*last, *number) = (count, *number + 1);
    }
    writers
}

#[test]
fn readers_see_whole_events_in_order_while_threads_write() {
    const WRITERS: u64 = 3;
    const EVENTS: u64 = 50_000;
    const KEPT: usize = 63;
    let _turn = my_turn();
    enable(KEPT);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Relaxed) {
                check(&snapshot());
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || (0..EVENTS).for_each(|count| record_nth(writer, count)))
            })
            .collect();
        let outcome: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        assert!(outcome.iter().all(Result::is_ok));
        assert!(reader.join().is_ok());
    });
    // The writers have ended, so their last events are all present.
    let writers = check(&snapshot());
    assert_eq!(writers.len() as u64, WRITERS);
    assert!(writers.values().all(|&(last, number)| last == EVENTS - 1 && number == KEPT));
}

#[test]
fn rings_of_ended_threads_stay_until_cleared() {
    let _turn = my_turn();
    enable(10);
    for writer in 0..3 {
        thread::spawn(move || record_nth(writer, 0)).join().unwrap();
    }
    record_nth(3, 0);
    let events = snapshot();
    assert_eq!(check(&events).len(), 4);
    assert_eq!(check(&snapshot()), check(&events), "reading takes nothing away");
    clear();
    assert!(snapshot().is_empty());
    record_nth(3, 1);
    let after = snapshot();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].thread, events[3].thread, "the living thread keeps its number");
}

#[test]
fn off_records_nothing_and_keeps_what_there_was() {
    let _turn = my_turn();
    assert!(!is_enabled());
    record_nth(0, 0);
    assert!(snapshot().is_empty());
    enable(10);
    assert!(is_enabled());
    record_nth(0, 1);
    disable();
    record_nth(0, 2);
    let events = snapshot();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].detail, 1);
}

/// Events from the destructors of a thread's local variables are kept or lost, without further
/// effect.
#[test]
fn recording_while_a_thread_ends_is_harmless() {
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            record_nth(0, 1);
        }
    }
    thread_local! {
        static LAST: Last = const { Last };
    }
    let _turn = my_turn();
    enable(10);
    thread::spawn(|| {
        LAST.with(|_| ());
        record_nth(0, 0);
    })
    .join()
    .unwrap();
    assert!((1..=2).contains(&check(&snapshot())[&0].1));
}

#[test]
fn spans_nest_and_a_cancelled_one_is_not_recorded() {
    let _turn = my_turn();
    enable(10);
    let outer = span(Activity::Step, 1, 0);
    let mut inner = span(Activity::AwaitLock, 2, 0);
    inner.set_detail(5);
    span(Activity::AwaitBarrier, 3, 0).cancel();
    drop(inner);
    disable();
    drop(outer);
    drop(span(Activity::Step, 4, 0));
    let events = snapshot();
    let found: Vec<_> = events.iter().map(|e| (e.activity, e.subject, e.detail)).collect();
    assert_eq!(found, [(Activity::Step, 1, 0), (Activity::AwaitLock, 2, 5)]);
    assert!(events[1].until_ns <= events[0].until_ns);
}
