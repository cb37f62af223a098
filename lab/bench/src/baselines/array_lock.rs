//! Anderson's array lock: a queue of slots.
//!
//! # Contract
//! Mutual exclusion, in the order of arrival. The lock may have more threads than slots; some of
//! them then spin on the same slot.
//!
//! ```text
//! slots    8 | 5 | 6 | 7      the turns that have come, of 0 .. 8: turn 8 holds the lock, and
//!                             turn 9 waits until slot 1 is 9
//! ```
//!
//! # Costs
//! Uncontended, an addition and a store, on two lines. A handover moves only the line of the slot
//! on which the next thread waits, to and fro. A slot takes a line.
//!
//! # Source
//! T. E. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors",
//! IEEE TPDS 1(1), 1990, doi:10.1109/71.80120. There a slot has a flag, which its owner resets;
//! here it has the number of the turn, so that no reset is needed and two threads that share a slot
//! cannot be confused. A waiting thread yields after a number of checks.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Lock, Padded, Patience};

/// Anderson's array lock.
#[derive(Debug)]
pub struct ArrayLock {
    /// The turn of the next thread to arrive.
    next: Padded<AtomicUsize>,
    /// Slot `t % slots` is `t` when turn `t` has come. The length is a power of two, because turns
    /// wrap.
    slots: Box<[Padded<AtomicUsize>]>,
}

impl ArrayLock {
    /// Creates a free lock with a slot for each of `threads` threads, or more.
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

// SAFETY: each turn is given to one caller of `lock` (until the counter wraps), which returns when
// its slot holds its number. Slot 0 holds 0 initially; each other number is stored by the holder of
// the previous turn, in `unlock`. So turns follow one another. The Acquire load before the return
// of `lock` pairs with the Release of that store.
unsafe impl Lock for ArrayLock {
    type Turn = usize;

    #[inline]
    fn lock(&self) -> usize {
        // Relaxed: the slot provides the ordering.
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
