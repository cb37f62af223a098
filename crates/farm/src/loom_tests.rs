//! Models. Run with `make loom`.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use syncline_signal::{Policy, Signal, plant};

use crate::bell;
use crate::blocks::{Block, Blocks, Supply};
use crate::channel::{Reader, Slot, Writer};

/// All interleavings with at most three preemptions.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(f);
}

/// A channel on loom's heap.
#[derive(Clone)]
struct Shared(Arc<(Vec<Slot>, Signal)>);

impl Deref for Shared {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.0.0
    }
}

const ASLEEP: Policy<'_> = Policy { pauses: 0, yield_for: Duration::ZERO, death: None };

/// A writer and a reader: everything arrives once, in order, whole, and nobody sleeps for ever.
fn channel(depth: usize, messages: u8) {
    model(move || {
        let slots = (0..depth).map(|_| Slot::default()).collect();
        let shared = Shared(Arc::new((slots, Signal::new(0))));
        let other = shared.clone();
        let sender = thread::spawn(move || {
            let mut writer = Writer::new(other.clone());
            for number in 0..messages {
                writer.wait(&ASLEEP, None).unwrap();
                writer.put(2, &[number, number + 10], &other.0.1);
            }
        });
        let mut reader = Reader::new(shared.clone());
        for number in 0..messages {
            let body =
                bell::wait(&shared.0.1, &ASLEEP, None, || Ok::<_, ()>(reader.take())).unwrap().unwrap();
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
fn a_bell_rung_before_the_message_is_found() {
    plant::with("channel: rings first", || channel(1, 1));
}

#[test]
#[should_panic]
fn a_slot_freed_before_it_was_read_is_found() {
    plant::with("channel: frees first", || channel(1, 2));
}

/// Two processes take and give blocks: nobody has what another has.
fn blocks() {
    model(|| {
        let memory = Arc::new((Supply::default(), (0..3).map(|_| Block::default()).collect::<Vec<_>>()));
        let used: Arc<[loom::cell::UnsafeCell<u32>; 3]> =
            Arc::new(std::array::from_fn(|_| loom::cell::UnsafeCell::new(0)));
        // Two are free at first: the one below is what a late exchange would bring back to light.
        let view = Blocks { supply: &memory.0, table: &memory.1, lines: 3 };
        let (one, two) = (view.take(1, 9).unwrap().0, view.take(1, 9).unwrap().0);
        view.give(one);
        view.give(two);
        // Two are taken, the first goes back first, and what is held longer is touched again.
        let turn = |memory: &(Supply, Vec<Block>), used: &[loom::cell::UnsafeCell<u32>; 3], me: u64| {
            let view = Blocks { supply: &memory.0, table: &memory.1, lines: 3 };
            let take = || view.take(1, me).map(|(number, _)| number);
            let touch = |number: &u32| {
                // SAFETY: loom sees whether anybody else is in the cell.
                used[*number as usize].with_mut(|cell| unsafe { *cell += 1 });
            };
            let (first, second) = (take(), take());
            first.iter().chain(&second).for_each(touch);
            first.into_iter().for_each(|number| view.give(number));
            second.iter().for_each(touch);
            second.into_iter().for_each(|number| view.give(number));
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
