//! Loom models of the protocols. Run with `make loom`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use syncline_signal::{Policy, Signal, event_count::EventCount, plant};

use crate::blocks::{Block, Blocks, Supply};
use crate::channel::{Body, Reader, Slot, Writer};
use crate::pool::fork_table::{
    CELLS, Cell, Claim, Deque, ForkState, ForkTable, Head, Offer, Right, WORKERS,
};
use crate::record::{ProcessState, Record, has_let_go, waiting};
use crate::vpid::Vpid;

/// Explores all interleavings with at most three preemptions.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(f);
}

/// A channel on loom's heap.
#[derive(Clone)]
struct Shared(Arc<(Vec<Slot>, EventCount)>);

impl Deref for Shared {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.0.0
    }
}

const ASLEEP: Policy<'_> = Policy { pauses: 0, yield_for: Duration::ZERO, liveness: None };

/// A writer and a reader: every message arrives exactly once, in order and complete, and neither
/// thread sleeps indefinitely.
fn channel(depth: usize, messages: u8) {
    model(move || {
        let slots = (0..depth).map(|_| Slot::default()).collect();
        let shared = Shared(Arc::new((slots, EventCount::new())));
        let other = shared.clone();
        let sender = thread::spawn(move || {
            // SAFETY: this thread creates the only writer of the slots.
            let mut writer = unsafe { Writer::new(other.clone()) };
            for number in 0..messages {
                writer.wait(&ASLEEP, None).unwrap();
                writer.put(2, &[number, number + 10], &other.0.1);
            }
        });
        // SAFETY: this thread creates the only reader of the slots.
        let mut reader = unsafe { Reader::new(shared.clone()) };
        for number in 0..messages {
            let body =
                shared.0.1.wait_for(&ASLEEP, None, || Ok::<_, ()>(reader.take())).unwrap().unwrap();
            assert_eq!(
                (body.head, body.bytes[0], body.bytes[1]),
                (2, number, number + 10),
                "another message"
            );
        }
        assert!(reader.take().is_none(), "a message from nowhere");
        sender.join().unwrap();
    });
}

#[test]
fn one_slot() {
    channel(1, 2);
}

#[test]
fn two_slots() {
    channel(2, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_notification_before_the_message_is_found() {
    plant::with("channel: notifies first", || channel(1, 1));
}

#[test]
#[should_panic]
fn a_slot_freed_before_it_was_read_is_found() {
    plant::with("channel: frees first", || channel(1, 2));
}

/// Two processes take and give blocks: no block has two holders.
fn blocks() {
    model(|| {
        let memory =
            Arc::new((Supply::default(), (0..3).map(|_| Block::default()).collect::<Vec<_>>()));
        let used: Arc<[loom::cell::UnsafeCell<u32>; 3]> =
            Arc::new(std::array::from_fn(|_| loom::cell::UnsafeCell::new(0)));
        // Two blocks are free at first: a delayed exchange would bring the lower one back.
        let view = Blocks { supply: &memory.0, table: &memory.1, lines: 3 };
        let (one, two) = (view.take(1, 9).unwrap().0, view.take(1, 9).unwrap().0);
        // SAFETY: no thread uses the blocks.
        unsafe {
            view.give(one, 9);
            view.give(two, 9);
        }
        // Takes two blocks, gives the first back first, and touches the second once more in
        // between.
        let turn =
            |memory: &(Supply, Vec<Block>), used: &[loom::cell::UnsafeCell<u32>; 3], me: u64| {
                let view = Blocks { supply: &memory.0, table: &memory.1, lines: 3 };
                let take = || view.take(1, me).map(|(number, _)| number);
                let touch = |number: &u32| {
                    // SAFETY: loom checks that no other thread accesses the cell.
                    used[*number as usize].with_mut(|cell| unsafe { *cell += 1 });
                };
                // SAFETY: this thread has taken the block, and does not touch it again.
                let give = |number| unsafe { view.give(number, me) };
                let (first, second) = (take(), take());
                first.iter().chain(&second).for_each(touch);
                first.into_iter().for_each(give);
                second.iter().for_each(touch);
                second.into_iter().for_each(give);
            };
        let other = {
            let (memory, used) = (Arc::clone(&memory), Arc::clone(&used));
            thread::spawn(move || turn(&memory, &used, 2))
        };
        turn(&memory, &used, 1);
        other.join().unwrap();
    });
}

#[test]
fn a_block_has_one_holder() {
    blocks();
}

#[test]
#[should_panic]
fn a_stack_without_a_count_is_found() {
    plant::with("blocks: no count", blocks);
}

/// A fork table on the heap, with an event count for each worker and a count of the runs of each
/// task.
struct Tables {
    head: Head,
    deques: Vec<Deque>,
    cells: Vec<Cell>,
    table: Vec<Block>,
    events: Vec<EventCount>,
    runs: Vec<loom::sync::atomic::AtomicU32>,
}

impl Tables {
    fn new() -> Arc<Tables> {
        Arc::new(Tables {
            head: Head::default(),
            deques: (0..WORKERS).map(|_| Deque::default()).collect(),
            cells: (0..CELLS).map(|_| Cell::default()).collect(),
            table: (0..CELLS).map(|_| Block::default()).collect(),
            events: (0..WORKERS).map(|_| EventCount::new()).collect(),
            runs: (0..4).map(|_| loom::sync::atomic::AtomicU32::new(0)).collect(),
        })
    }

    fn table(&self) -> ForkTable<'_> {
        // SAFETY: the parts belong to this `Tables`, and are always the same four.
        unsafe { ForkTable::new(&self.head, &self.deques, &self.cells, &self.table) }
    }

    fn offer(&self, worker: usize, number: u64) -> Offer {
        let offer = self
            .table()
            .offer(worker, worker as u64, Body { head: number, ..Body::default() })
            .unwrap();
        if let Some(other) = self.table().wake() {
            self.events[other].notify();
        }
        offer
    }

    /// Runs a task that this worker has claimed.
    fn run(&self, claim: &impl Right) -> Body {
        let number = self.table().task(claim).head;
        let before = self.runs[number as usize].fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
        assert_eq!(before, 0, "a task was run twice");
        Body { head: number + 100, ..Body::default() }
    }

    /// Runs a task that a worker has claimed, and notifies its owner.
    fn run_claimed(&self, claim: Claim) {
        let (result, owner) = (self.run(&claim), self.table().owner(&claim) as usize);
        match self.table().end(claim, result) {
            Ok(()) => self.events[owner].notify(),
            Err(last) => self.table().free(last),
        }
    }

    /// Joins a task of this worker: runs it, or waits for the worker that does.
    fn join(&self, worker: usize, offer: Offer, number: u64) {
        match self.table().take_back(offer, worker) {
            Ok(last) => {
                self.table().forget(last.ticket(), worker);
                assert_eq!(self.run(&last).head, number + 100);
                self.table().free(last);
            }
            Err(begun) => self.join_begun(worker, begun, number),
        }
    }

    /// Waits for the result of a task of this worker.
    fn join_begun(&self, worker: usize, offer: Offer, number: u64) {
        let ended = || Ok::<_, ()>((self.table().state(&offer) == ForkState::Ended).then_some(()));
        self.events[worker].wait_for(&ASLEEP, None, ended).unwrap().unwrap();
        let last = self.table().ended(offer).unwrap();
        assert_eq!(self.table().result(&last).head, number + 100, "another result");
        self.table().free(last);
    }
}

/// An owner offers tasks and joins them, while a thief tries to steal as many times: each task is
/// run once, and all results arrive.
fn stolen_or_not(tasks: u64) {
    model(move || {
        let tables = Tables::new();
        let others = Arc::clone(&tables);
        let thief = thread::spawn(move || {
            for _ in 0..tasks {
                if let Some(claim) = others.table().steal(2, 1) {
                    others.run_claimed(claim);
                }
            }
        });
        let offers: Vec<Offer> = (0..tasks).map(|number| tables.offer(1, number)).collect();
        for (number, offer) in offers.into_iter().enumerate().rev() {
            tables.join(1, offer, number as u64);
        }
        thief.join().unwrap();
        for runs in &tables.runs[..tasks as usize] {
            assert_eq!(runs.load(loom::sync::atomic::Ordering::Relaxed), 1);
        }
    });
}

/// An owner takes back its offer and offers another task in its place, while a thief looks there.
fn offered_anew() {
    model(|| {
        let tables = Tables::new();
        let first = tables.offer(1, 0);
        let others = Arc::clone(&tables);
        let thief = thread::spawn(move || {
            if let Some(claim) = others.table().steal(2, 1) {
                others.run_claimed(claim);
            }
        });
        tables.join(1, first, 0);
        let second = tables.offer(1, 1);
        tables.join(1, second, 1);
        thief.join().unwrap();
    });
}

/// A worker goes to sleep while another offers a task: no worker sleeps while a task is offered.
fn offered_to_a_sleeper() {
    model(|| {
        let tables = Tables::new();
        let others = Arc::clone(&tables);
        let sleeper = thread::spawn(move || {
            let table = others.table();
            let claim = loop {
                if let Some(claim) = table.steal(2, 1) {
                    break claim;
                }
                let seen = others.events[2].prepare();
                table.announce(2);
                let found = table.steal(2, 1);
                if found.is_none() {
                    others.events[2].wait(seen, &ASLEEP, None).unwrap();
                }
                table.cancel(2);
                if let Some(claim) = found {
                    break claim;
                }
            };
            others.run_claimed(claim);
        });
        let offer = tables.offer(1, 0);
        tables.join_begun(1, offer, 0);
        sleeper.join().unwrap();
    });
}

/// An owner abandons a task while another worker runs it: exactly one of the two frees it.
fn abandoned() {
    model(|| {
        let tables = Tables::new();
        let others = Arc::clone(&tables);
        let offer = tables.offer(1, 0);
        let thief = thread::spawn(move || {
            if let Some(claim) = others.table().steal(2, 1) {
                others.run_claimed(claim);
            }
        });
        if let Some(last) = tables.table().abandon(offer, 1) {
            tables.table().free(last);
        }
        thief.join().unwrap();
        // All cells are free, each of them once.
        let cells: Vec<Offer> = (0..CELLS as u64).map(|number| tables.offer(1, number)).collect();
        assert!(tables.table().offer(1, 1, Body::default()).is_none());
        assert_eq!(cells.len(), CELLS);
    });
}

#[test]
fn a_task_is_run_once() {
    stolen_or_not(1);
    stolen_or_not(2);
    offered_anew();
}

#[test]
fn nobody_sleeps_while_a_task_is_there() {
    offered_to_a_sleeper();
}

#[test]
fn an_abandoned_task_is_freed_once() {
    abandoned();
}

#[test]
#[should_panic]
fn a_claim_without_an_exchange_is_found() {
    plant::with("fork table: claimed by a look", || stolen_or_not(1));
}

#[test]
#[should_panic]
fn a_task_that_is_not_published_is_found() {
    plant::with("fork table: relaxed offer", offered_anew);
}

#[test]
#[should_panic]
fn a_result_that_is_not_published_is_found() {
    plant::with("fork table: relaxed end", || stolen_or_not(1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_offer_that_does_not_see_the_sleeper_is_found() {
    plant::with("fork table: no fence", offered_to_a_sleeper);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deque_that_thieves_do_not_see_is_found() {
    plant::with("fork table: hidden deque", offered_to_a_sleeper);
}

/// A process joins while the manager marks it as started: it joins, and stays joined.
fn joined_while_started(reserved: ProcessState) {
    model(move || {
        let record = Arc::new(Record::default());
        assert!(record.step(0, ProcessState::Free, reserved));
        let managers = Arc::clone(&record);
        let manager = thread::spawn(move || {
            managers.step_from(
                0,
                &[ProcessState::Reserved, ProcessState::Asked],
                ProcessState::Started,
            );
        });
        assert!(record.step_from(
            0,
            &[ProcessState::Reserved, ProcessState::Asked, ProcessState::Started],
            ProcessState::Joined
        ));
        manager.join().unwrap();
        assert_eq!(record.now(), (0, ProcessState::Joined));
    });
}

#[test]
fn a_process_joins_while_it_is_started() {
    joined_while_started(ProcessState::Reserved);
    joined_while_started(ProcessState::Asked);
}

#[test]
#[should_panic]
fn a_life_that_is_passed_by_is_found() {
    plant::with("record: the last life first", || joined_while_started(ProcessState::Reserved));
}

/// Two processes start the same vpid, while the manager finds that the reserving process is dead:
/// exactly one of the three gets it.
fn started_once() {
    model(|| {
        let (record, vpid) = (Arc::new(Record::default()), Vpid::new(1, 0));
        let (reserver, other) = (Vpid::new(2, 0), Vpid::new(3, 0));
        assert!(record.step(0, ProcessState::Free, ProcessState::Reserved));
        record.reserved_by(reserver);
        let claims = |by: Vpid| {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                record.claim(vpid, by)
                    && record.step_from(0, &[ProcessState::Reserved], ProcessState::Started)
            })
        };
        let (one, two) = (claims(Vpid::MANAGER), claims(other));
        let orphan = record.is_orphan(reserver);
        if orphan {
            record.end(vpid, 0);
        }
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert_eq!(usize::from(one) + usize::from(two) + usize::from(orphan), 1);
        if !orphan {
            assert_eq!(record.parent(), if one { Vpid::MANAGER } else { other });
        }
    });
}

#[test]
fn a_number_is_started_once() {
    started_once();
}

#[test]
#[should_panic]
fn a_start_that_only_looks_is_found() {
    plant::with("record: claimed by a look", started_once);
}

/// A process waits for a place, while the parent of a dead process notes its end: the manager's
/// thread, which frees what was released when it is notified, eventually frees the place.
fn let_go_while_waited_for() {
    model(|| {
        let (waits, dead) = (Arc::new(Record::default()), Arc::new(Record::default()));
        // The eventfd of the manager's thread.
        let event = Arc::new(Signal::new(0));
        let parent = {
            let (waits, dead, event) = (Arc::clone(&waits), Arc::clone(&dead), Arc::clone(&event));
            thread::spawn(move || {
                dead.note();
                if has_let_go(&mut [&*waits].into_iter()) {
                    event.increment();
                }
            })
        };
        let manager = {
            let (waits, dead, event) = (Arc::clone(&waits), Arc::clone(&dead), Arc::clone(&event));
            thread::spawn(move || {
                // Notified by the waiting process, and perhaps once more.
                for rung in 1.. {
                    event.wait_until(rung, &ASLEEP, None).unwrap();
                    if waiting(&mut [&*waits].into_iter()) == 1 && dead.is_noted() {
                        return;
                    }
                }
            })
        };
        waits.set_waiting(true);
        event.increment();
        parent.join().unwrap();
        manager.join().unwrap();
    });
}

#[test]
fn a_place_that_is_let_go_is_found() {
    let_go_while_waited_for();
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_let_go_without_a_fence_is_found() {
    plant::with("record: no fence", let_go_while_waited_for);
}
