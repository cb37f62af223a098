//! Anderson's array lock: a queue of slots.
//!
//! # Contract
//! Mutual exclusion, in the order of arrival. It may have more threads than slots, but then some share a slot's line.
//!
//! ```text
//! slots    8 | 5 | 6 | 7      the turns that have come, here of 0 .. 8: 8 has the lock, 9 waits for slot 1 to be 9
//! ```
//!
//! # Costs
//! Uncontended an addition and a store, on two lines. To hand the lock on moves the line of the slot that the next one
//! waits at, to and fro, and nobody else's. A line for each slot.
//!
//! # Source
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors", IEEE TPDS 1(1), 1990,
//! doi:10.1109/71.80120. There a slot has a flag, which its owner takes down again; here it has the number of the
//! turn, so that nothing is taken down and two who share a slot cannot be confused. Who waits yields after some looks.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Lock, Padded, Patience};

/// An array lock.
#[derive(Debug)]
pub struct ArrayLock {
    /// The turn of who comes next.
    next: Padded<AtomicUsize>,
    /// Slot `t % slots` is `t` when turn `t` has come. As many as a power of two: turns wrap round.
    slots: Box<[Padded<AtomicUsize>]>,
}

impl ArrayLock {
    /// A lock that nobody has, with a slot for so many threads at least.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let slots = threads.next_power_of_two();
        let before = |slot: usize| if slot == 0 { 0 } else { slot.wrapping_sub(slots) };
        Self {
            next: Padded::default(),
            slots: (0..slots).map(|slot| Padded(AtomicUsize::new(before(slot)))).collect(),
        }
    }

    #[inline]
    fn slot(&self, turn: usize) -> &AtomicUsize {
        &self.slots[turn & (self.slots.len() - 1)].0
    }
}

// SAFETY: each turn is given to one caller of `lock` (until 2^64 more have been given), who leaves when its slot has its
// number. Slot 0 has 0 at first; any other number is stored by the one who had the turn before, when it unlocks. So
// turns come one after the other. The Acquire of who leaves pairs with the Release of that store.
unsafe impl Lock for ArrayLock {
    type Turn = usize;

    #[inline]
    fn lock(&self) -> usize {
        // Relaxed: the slot orders.
        let turn = self.next.0.fetch_add(1, Ordering::Relaxed);
        let (slot, mut patience) = (self.slot(turn), Patience::default());
        // Acquire: pairs with the Release in `unlock`.
        while slot.load(Ordering::Acquire) != turn {
            patience.wait();
        }
        turn
    }

    #[inline]
    unsafe fn unlock(&self, turn: usize) {
        let next = turn.wrapping_add(1);
        // Release: pairs with the Acquire in `lock`.
        self.slot(next).store(next, Ordering::Release);
    }
}
