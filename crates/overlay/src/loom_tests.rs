//! Loom models of the queue of a location and of the ready queues. Run with `make loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use syncline_signal::primitive::AtomicBool;
use syncline_signal::{Policy, plant};

use crate::raw::{AccessMode, Node, RawLocation};
use crate::ready::ReadyQueues;

/// Explores all interleavings with at most two preemptions (see Musuvathi and Qadeer 2007).
pub(crate) fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(f);
}

/// A location with its nodes, and a value that writers change in two steps.
struct Cell<const N: usize> {
    raw: RawLocation,
    nodes: [Node; N],
    halves: (AtomicU32, AtomicU32),
    /// The number of readers that have seen the changed value: a reader ahead of the writer must
    /// not see it.
    changed_for: AtomicU32,
}

impl<const N: usize> Cell<N> {
    fn new() -> Arc<Self> {
        Arc::new(Cell {
            raw: RawLocation::new(),
            nodes: std::array::from_fn(|n| Node::new(n as u32)),
            halves: (AtomicU32::new(0), AtomicU32::new(0)),
            changed_for: AtomicU32::new(0),
        })
    }

    fn tell(&self) -> impl FnMut(u32) {
        |n| {
            self.nodes[n as usize].grants().increment();
        }
    }

    fn post(&self, n: u32, kind: AccessMode) {
        self.raw.section().post(&self.nodes, n, kind, &mut self.tell());
    }

    fn wait(&self, n: u32, grants: u64) {
        self.nodes[n as usize].grants().wait_until(grants, &Policy::default(), None).unwrap();
    }

    fn next(&self, n: u32) {
        self.raw.section().next(&self.nodes, n, &mut self.tell());
    }

    fn release(&self, n: u32) {
        self.raw.section().release(&self.nodes, n, &mut self.tell());
    }

    fn abandon(&self, n: u32) {
        self.raw.section().abandon(&self.nodes, n, &mut self.tell());
    }

    fn write(&self) {
        let old = self.halves.0.load(Ordering::Relaxed);
        self.halves.0.store(old + 1, Ordering::Relaxed);
        self.halves.1.store(old + 1, Ordering::Relaxed);
    }

    fn read(&self) -> u32 {
        let seen = (self.halves.0.load(Ordering::Relaxed), self.halves.1.load(Ordering::Relaxed));
        assert_eq!(seen.0, seen.1, "a reader saw half of a write");
        seen.0
    }
}

/// A writer and a reader iterate twice, in the order of their posts.
#[test]
fn writer_and_reader_alternate() {
    model(|| {
        let cell = Cell::<2>::new();
        cell.post(0, AccessMode::Exclusive);
        cell.post(1, AccessMode::Inclusive);
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                cell.wait(1, 1);
                assert_eq!(cell.read(), 1);
                cell.next(1);
                cell.wait(1, 2);
                assert_eq!(cell.read(), 2);
                cell.release(1);
            })
        };
        cell.wait(0, 1);
        cell.write();
        cell.next(0);
        cell.wait(0, 2);
        cell.write();
        cell.release(0);
        reader.join().unwrap();
    });
}

/// Two readers around a waiting writer: the second reader must not overtake the writer.
fn reader_behind_writer() {
    model(|| {
        let cell = Cell::<3>::new();
        cell.post(0, AccessMode::Inclusive);
        cell.post(1, AccessMode::Exclusive);
        cell.post(2, AccessMode::Inclusive);
        let writer = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                cell.wait(1, 1);
                cell.write();
                cell.release(1);
            })
        };
        let second = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                cell.wait(2, 1);
                assert_eq!(cell.read(), 1, "a reader overtook a writer");
                cell.changed_for.fetch_add(1, Ordering::Relaxed);
                cell.release(2);
            })
        };
        assert_eq!(cell.read(), 0);
        cell.release(0);
        writer.join().unwrap();
        second.join().unwrap();
        assert_eq!(cell.changed_for.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn no_reader_overtakes() {
    reader_behind_writer();
}

#[test]
#[should_panic(expected = "a reader overtook a writer")]
fn an_overtaking_reader_is_noticed() {
    plant::with("queue: reader overtakes", reader_behind_writer);
}

/// A waiting writer between two readers abandons its request at any moment: the second reader is
/// then granted.
fn abandoned_writer() {
    model(|| {
        let cell = Cell::<3>::new();
        cell.post(0, AccessMode::Inclusive);
        cell.post(1, AccessMode::Exclusive);
        cell.post(2, AccessMode::Inclusive);
        let quitter = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || cell.abandon(1))
        };
        // The first reader releases only after the second has released, so the second must be
        // granted beside it. In a planted model the first thread blocks, since loom cannot unwind
        // the others.
        cell.wait(2, 1);
        cell.release(2);
        cell.release(0);
        quitter.join().unwrap();
    });
}

#[test]
fn an_abandoned_request_is_skipped() {
    abandoned_writer();
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_abandoned_request_that_blocks_is_noticed() {
    plant::with("queue: abandoned writer blocks", abandoned_writer);
}

/// A request is abandoned at the moment of its grant.
#[test]
fn abandon_races_with_its_grant() {
    model(|| {
        let cell = Cell::<3>::new();
        cell.post(0, AccessMode::Exclusive);
        cell.post(1, AccessMode::Exclusive);
        cell.post(2, AccessMode::Exclusive);
        let quitter = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || cell.abandon(1))
        };
        cell.write();
        cell.release(0);
        cell.wait(2, 1);
        assert_eq!(cell.read(), 1);
        cell.release(2);
        quitter.join().unwrap();
    });
}

/// A task is pushed while the worker may be about to sleep.
fn push_and_sleep() {
    model(|| {
        let ready = Arc::new(ReadyQueues::new(1, Box::new([0]), false));
        let pusher = {
            let ready = Arc::clone(&ready);
            thread::spawn(move || ready.push(0))
        };
        assert_eq!(ready.next(0, &AtomicBool::new(false)), Some(0));
        pusher.join().unwrap();
    });
}

#[test]
fn no_push_is_missed() {
    push_and_sleep();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missed_push_is_noticed() {
    plant::with("pool: no second look", push_and_sleep);
}

/// The run ends while the worker may be about to sleep.
#[test]
fn no_close_is_missed() {
    model(|| {
        let shared = Arc::new((ReadyQueues::new(1, Box::new([0]), false), AtomicBool::new(false)));
        let worker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || assert_eq!(shared.0.next(0, &shared.1), None))
        };
        shared.1.store(true, Ordering::Release);
        shared.0.close();
        worker.join().unwrap();
    });
}

/// Two workers and two tasks of one home: no task is lost or run twice, whichever worker claims it.
#[test]
fn claimed_tasks_are_run_once() {
    model(|| {
        let ready = Arc::new(ReadyQueues::new(2, Box::new([0, 0]), true));
        ready.push(0);
        ready.push(1);
        let other = {
            let ready = Arc::clone(&ready);
            thread::spawn(move || ready.next(1, &AtomicBool::new(false)).unwrap())
        };
        let mine = ready.next(0, &AtomicBool::new(false)).unwrap();
        assert_eq!(mine + other.join().unwrap(), 1);
    });
}
