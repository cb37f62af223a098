//! The MCS lock: a queue of nodes, each with its owner waiting on it.
//!
//! # Contract
//! See [`Queue`].
//!
//! # Figure
//! ```text
//!  tail ─────────────────────────────┐
//!                                    ▼
//!  node 2 ── next ──> node 0 ──> node 3         2 holds the lock; 0 and 3 wait on their own nodes
//! ```
//! Links are ranks, not pointers, so the queue can stand in a shared segment. A member enqueues
//! itself by swapping its rank into `tail` and linking its node to that of its predecessor.
//!
//! The place in a node is a signal with the value 1024 round + phase. A round begins each time its
//! owner has to wait.
//!
//! | phase           | the owner                          | next                                  |
//! |-----------------|------------------------------------|---------------------------------------|
//! | odd, below 1022 | waits                              | 1022, by its predecessor              |
//! | even, 2 to 1020 | gave up; its node is still linked  | + 1, by the owner, when it resumes;   |
//! |                 |                                    | 1022, by its predecessor              |
//! | 1022            | has the lock                       | 1023, by the owner                    |
//! | 1022            | gave up; its node is being removed | 1023, by the releaser that removes it |
//! | 1023            | does not use its node              | the next round                        |
//!
//! Releaser and owner both change the place by an atomic maximum; the previous value shows each of
//! them which came first.
//!
//! # Costs
//! Uncontended: a swap and a compare-and-swap. Contended: a swap, a link, and one raise of the
//! successor's word, regardless of the number of members: about three line transfers per hand-over.
//!
//! # Source
//! Mellor-Crummey and Scott (1991); with indices, for shared memory, the thesis on ARMCI locks,
//! 5.2.2 (there the text sets the successor's `locked` to true after a failed compare-and-swap: it
//! has to be false). Changes: flags are monotone numbers; a waiter may give up, and resume its
//! place.

use std::time::Instant;

use syncline_signal::primitive::{AtomicU64, Ordering};
use syncline_signal::{Liveness, Policy, Signal, WaitError, plant, poll_schedule::PollSchedule};

use super::queue::{Inside, Queue};
use crate::error::SpaceError;
use crate::space::{Array, Element, Shared, Space};

/// The queue lock in which every member waits on its own memory: the best choice for many members.
///
/// See [`Lock`](crate::Lock) for how to use it.
#[derive(Clone, Debug)]
pub struct Mcs {
    tail: Element<Tail>,
    nodes: Array<Node>,
}

/// 1 + the rank of the last member in the queue; 0: the lock is free.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Tail(AtomicU64);

#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Node {
    /// 1 + the rank of the successor; 0: none has linked itself.
    next: AtomicU64,
    place: Signal,
}

// SAFETY: a word, without pointers or drop, changed by atomic operations only; 0 is a free lock.
unsafe impl Shared for Tail {}
// SAFETY: two words, without pointers or drop, changed by atomic operations only; 0 is a node that
// was never used.
unsafe impl Shared for Node {}

/// The number of phases of a place; see the table.
const PHASES: u64 = 1024;
const GRANTED: u64 = PHASES - 2;
const UNUSED: u64 = PHASES - 1;

fn round(number: u64) -> u64 {
    number / PHASES * PHASES
}

fn given_up(number: u64) -> bool {
    let phase = number % PHASES;
    phase.is_multiple_of(2) && (1..GRANTED).contains(&phase)
}

impl<T: Send> crate::Lock<Mcs, T> {
    /// Returns the rank of the last member in the queue, and for each member its successor and
    /// whether it waits: for drawings. Each word is read by itself, at its own moment.
    #[doc(hidden)]
    #[must_use]
    pub fn links(&self) -> (Option<usize>, Vec<(Option<usize>, bool)>) {
        // Relaxed: no other memory depends on these words.
        let rank = |word: &AtomicU64| (word.load(Ordering::Relaxed) as usize).checked_sub(1);
        let waits = |node: &Node| {
            (node.place.get() % PHASES) % 2 == 1 && node.place.get() % PHASES < GRANTED
        };
        let nodes = self.raw.nodes.iter().map(|node| (rank(&node.next), waits(node)));
        (rank(self.raw.tail()), nodes.collect())
    }
}

impl Mcs {
    fn tail(&self) -> &AtomicU64 {
        &self.tail.0
    }

    /// Resumes the place of a member that gave up. If the place is being passed over or cannot be
    /// kept any longer, returns the number for a wait until the node is unused.
    #[cold]
    fn come_back(node: &Node, number: u64) -> Option<u64> {
        if number % PHASES < GRANTED - 2 && node.place.raise_to(number + 1) == number {
            return Some(number + 1);
        }
        (node.place.get() % PHASES != UNUSED).then_some(round(number) + GRANTED)
    }

    /// Waits in a place that is marked as waiting.
    fn stay(
        &self,
        node: &Node,
        waiting: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), WaitError> {
        let granted = round(waiting) + GRANTED;
        if let Err(error) = node.place.wait_until(granted, policy, deadline)
            // The previous value shows which came first: if the predecessor did, the lock is ours.
            && node.place.raise_to(waiting + 1) < granted
        {
            return Err(error);
        }
        // Acquire: pairs with the Release of the releaser's raise, which only our own raise may
        // have seen. A load, not a fence, as ThreadSanitizer does not support fences.
        let _ = node.place.get();
        node.place.publish(round(waiting) + UNUSED);
        Ok(())
    }

    /// Returns the rank of a node's successor. `None`: the node was the last one, or its successor
    /// has not linked itself and there is an unrepaired death.
    #[inline]
    fn behind(&self, rank: usize, gone: &dyn Liveness) -> Option<usize> {
        let me = rank as u64 + 1;
        let next = &self.nodes[rank].next;
        // Acquire: pairs with the Release of the link: the successor's node is set up.
        let mut link = next.load(Ordering::Acquire);
        if link == 0 {
            let order = if plant::is("mcs: relaxed release") {
                Ordering::Relaxed
            } else {
                Ordering::Release
            };
            // Release: pairs with the Acquire of the swap or compare-and-swap that takes the lock
            // next.
            if self.tail().compare_exchange(me, 0, order, Ordering::Relaxed).is_ok() {
                return None;
            }
            let (mut looks, mut poll) = (0_u32, PollSchedule::with_pauses());
            loop {
                link = next.load(Ordering::Acquire); // as above
                if link != 0 {
                    break;
                }
                looks += 1;
                poll.pause();
                // The successor may have died before it linked itself.
                if looks.is_multiple_of(64) && gone.gone().is_some() {
                    return None;
                }
            }
        }
        Some(link as usize - 1)
    }
}

impl Queue for Mcs {
    const NAME: &'static str = "MCS lock";

    fn within(space: &mut Space, members: usize) -> Result<Self, SpaceError> {
        Ok(Mcs { tail: space.array(1)?.element(0), nodes: space.array(members)? })
    }

    #[inline]
    fn try_acquire(&self, rank: usize, _: Inside) -> bool {
        let node = &self.nodes[rank];
        let number = node.place.get();
        // The node is still in the queue, or is being removed.
        if given_up(number) || number % PHASES == GRANTED {
            return false;
        }
        node.next.store(0, Ordering::Relaxed);
        // Acquire: pairs with the Release in `behind`: what was done under the lock. Release: the
        // node is set up.
        self.tail()
            .compare_exchange(0, rank as u64 + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    fn ask(&self, rank: usize, _: Inside) -> Option<u64> {
        let node = &self.nodes[rank];
        let number = node.place.get();
        if number % PHASES != UNUSED
            && number != 0
            && let Some(asked) = Self::come_back(node, number)
        {
            return Some(asked);
        }
        // Relaxed: no other member reads this node before the swap.
        node.next.store(0, Ordering::Relaxed);
        // Acquire: pairs with the Release in `behind`: what was done under the lock, if it was
        // free. Release: pairs with the Acquire in the swap of the successor, which links itself to
        // the node.
        let before = self.tail().swap(rank as u64 + 1, Ordering::AcqRel);
        if before == 0 {
            return None;
        }
        let waiting = round(node.place.get()) + PHASES + 1;
        node.place.publish(waiting);
        // Release: pairs with the Acquire in `behind`: the place is set up.
        self.nodes[before as usize - 1].next.store(rank as u64 + 1, Ordering::Release);
        Some(waiting)
    }

    fn wait(
        &self,
        rank: usize,
        asked: u64,
        policy: &Policy<'_>,
        deadline: Option<Instant>,
        _: Inside,
    ) -> Result<bool, WaitError> {
        let node = &self.nodes[rank];
        if asked % PHASES == GRANTED {
            // The node is removed, either at present or when its turn comes.
            return node.place.wait_until(asked + 1, policy, deadline).map(|_| false);
        }
        self.stay(node, asked, policy, deadline).map(|()| true)
    }

    #[inline]
    fn release(&self, rank: usize, gone: &dyn Liveness, _: Inside) {
        let mut from = rank;
        let mut taken_out = false;
        loop {
            let behind = self.behind(from, gone);
            if taken_out {
                // The owner may use the node again.
                let place = &self.nodes[from].place;
                place.raise_to(round(place.get()) + UNUSED);
            }
            let Some(next) = behind else { return };
            let place = &self.nodes[next].place;
            let granted = round(place.get()) + GRANTED;
            if !given_up(place.raise_to(granted))
                || plant::is("mcs: grants a place that was given up")
            {
                return;
            }
            (from, taken_out) = (next, true);
        }
    }

    fn is_awaited(&self, rank: usize, _: Inside) -> bool {
        self.tail().load(Ordering::Relaxed) != rank as u64 + 1
    }

    fn reset(&self, _: Inside) {
        for node in &*self.nodes {
            node.next.store(0, Ordering::Relaxed);
            node.place.raise_to(round(node.place.get()) + UNUSED);
        }
        self.tail().store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Lock, membership::FaultList};

    #[test]
    fn the_links_show_the_queue() {
        let lock = Lock::<Mcs, ()>::new(3, ()).unwrap();
        assert_eq!(lock.links(), (None, vec![(None, false); 3]));
        let mut first = lock.member(0).unwrap();
        let held = first.lock().unwrap();
        assert_eq!(lock.links().0, Some(0));
        std::thread::scope(|scope| {
            let lock = &lock;
            scope.spawn(move || drop(lock.member(2).unwrap().lock().unwrap()));
            while lock.links().1[0].0 != Some(2) {
                std::thread::yield_now();
            }
            // Pairs with the Release of the link: the successor has noted before that it waits.
            std::sync::atomic::fence(Ordering::Acquire);
            let waiting = vec![(Some(2), false), (None, false), (None, true)];
            assert_eq!(lock.links(), (Some(2), waiting));
            drop(held);
        });
        assert_eq!(lock.links().0, None);
    }

    /// A living successor takes a long time to link itself. It ignores the repaired death, so a
    /// release that gave up because of that death would leave it waiting without an end.
    #[test]
    fn a_death_that_was_repaired_ends_no_release() {
        let fault_list = FaultList::within(&mut Space::heap(), 3).unwrap();
        let lock = Lock::<Mcs, ()>::new(3, ()).unwrap().watching(&fault_list);
        let [mut holder, mut other] = [0, 1].map(|rank| lock.member(rank).unwrap());
        fault_list.give_up(2);
        drop(other.recover(None).unwrap());
        let held = holder.lock().unwrap();
        // Does the same as `other` in `acquire`, with a long time between the swap and the link.
        let [mine, behind] = [0, 1].map(|rank| &lock.raw.nodes[rank]);
        assert_eq!(lock.raw.tail().swap(2, Ordering::AcqRel), 1);
        let waiting = round(behind.place.get()) + PHASES + 1;
        behind.place.publish(waiting);
        std::thread::scope(|scope| {
            scope.spawn(move || drop(held));
            std::thread::sleep(Duration::from_millis(50));
            mine.next.store(2, Ordering::Release);
        });
        assert_eq!(
            behind.place.get(),
            round(waiting) + GRANTED,
            "the lock is free although a member waits for it"
        );
    }
}
