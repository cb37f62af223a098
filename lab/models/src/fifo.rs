//! A short in-place queue: a channel inside a state.
//!
//! # Contract
//! States are copied and hashed by the million, so a queue does not allocate, and removed items
//! leave no trace: two queues with the same items are equal and hash alike. A push beyond the
//! capacity panics: no model has more messages in flight than its programs issue.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A first-in, first-out queue of up to `CAP` items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fifo<T, const CAP: usize> {
    len: u8,
    items: [T; CAP],
}

impl<T: Copy + Default, const CAP: usize> Fifo<T, CAP> {
    /// Appends an item.
    ///
    /// # Panics
    /// If the queue already holds `CAP` items.
    pub fn push(&mut self, item: T) {
        self.items[usize::from(self.len)] = item;
        self.len += 1;
    }

    /// Removes and returns the first item.
    pub fn pop(&mut self) -> Option<T> {
        let head = self.head()?;
        self.items.copy_within(1.., 0);
        self.items[CAP - 1] = T::default();
        self.len -= 1;
        Some(head)
    }

    /// Returns the first item.
    pub fn head(&self) -> Option<T> {
        self.as_slice().first().copied()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all items, the first in front.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

impl<T: Copy + Default, const CAP: usize> Default for Fifo<T, CAP> {
    fn default() -> Self {
        Fifo { len: 0, items: [T::default(); CAP] }
    }
}

impl<T: Copy + Default + Hash, const CAP: usize> Hash for Fifo<T, CAP> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl<T: Copy + Default + fmt::Debug, const CAP: usize> fmt::Debug for Fifo<T, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_in_order_and_leaves_no_trace() {
        let mut fifo = Fifo::<u8, 3>::default();
        for item in 1..=3 {
            fifo.push(item);
        }
        assert_eq!((fifo.pop(), fifo.head(), fifo.len()), (Some(1), Some(2), 2));
        assert_eq!((fifo.pop(), fifo.pop(), fifo.pop()), (Some(2), Some(3), None));
        assert_eq!(fifo, Fifo::default());
    }
}
