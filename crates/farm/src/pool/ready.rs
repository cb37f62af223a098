//! The tasks that no worker has begun, best first.
//!
//! # Contract
//! Higher priorities come first; within a priority, the largest cost; within a cost, the first that
//! was submitted. Children of running tasks come before other tasks of their priority, the youngest
//! first: depth first, so that few are in flight.
//!
//! # Costs
//! Tasks of priority 0 without a cost are in a plain queue: a push and a pop take a few
//! nanoseconds. Other tasks are in a heap.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// The number of a task in its pool.
pub(crate) type Id = u64;

#[derive(Debug, Default)]
pub(crate) struct Ready {
    plain: VecDeque<Id>,
    ranked: BinaryHeap<Ranked>,
    /// Counts pushes.
    pushed: i64,
}

#[derive(Debug)]
struct Ranked {
    priority: i32,
    child: bool,
    cost: f64,
    /// A larger value comes first.
    order: i64,
    id: Id,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.priority.cmp(&other.priority))
            .then(self.child.cmp(&other.child))
            .then(self.cost.total_cmp(&other.cost))
            .then(self.order.cmp(&other.order))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl Ready {
    /// Adds a task that the program has submitted.
    #[inline]
    pub(crate) fn push(&mut self, id: Id, priority: i32, cost: f64) {
        if priority == 0 && cost == 0.0 {
            self.plain.push_back(id);
        } else {
            self.pushed += 1;
            self.ranked.push(Ranked { priority, child: false, cost, order: -self.pushed, id });
        }
    }

    /// Adds a task that a running one has forked.
    pub(crate) fn push_child(&mut self, id: Id, priority: i32) {
        self.pushed += 1;
        self.ranked.push(Ranked { priority, child: true, cost: 0.0, order: self.pushed, id });
    }

    /// Returns a task that was handed out and not begun: it comes before all others of its kind.
    /// Several are returned in reverse order.
    pub(crate) fn push_back(&mut self, id: Id, priority: i32, cost: f64) {
        if priority == 0 && cost == 0.0 {
            self.plain.push_front(id);
        } else {
            self.ranked.push(Ranked { priority, child: false, cost, order: i64::MAX, id });
        }
    }

    /// Removes and returns the best task.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Id> {
        let ranked = self.ranked.peek().is_some_and(|best| best.priority >= 0);
        if ranked || self.plain.is_empty() {
            return self.ranked.pop().map(|best| best.id);
        }
        self.plain.pop_front()
    }

    /// Returns whether there are tasks with a priority or a cost.
    pub(crate) fn has_ranked(&self) -> bool {
        !self.ranked.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.ranked.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_testkit::property;

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn the_best_comes_first(tasks in prop::collection::vec((-1_i32..2, 0_u8..4), 0..60)) {
            let mut ready = Ready::default();
            for (id, &(priority, cost)) in tasks.iter().enumerate() {
                ready.push(id as Id, priority, f64::from(cost));
            }
            let mut expected: Vec<usize> = (0..tasks.len()).collect();
            expected.sort_by_key(|&id| (-tasks[id].0, -i32::from(tasks[id].1), id));
            let got: Vec<usize> = std::iter::from_fn(|| ready.pop()).map(|id| id as usize).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn children_go_down_first() {
        let mut ready = Ready::default();
        ready.push(1, 0, 0.0);
        ready.push(2, 1, 0.0);
        ready.push(3, 0, 9.0);
        ready.push_child(4, 0);
        ready.push_child(5, 0);
        ready.push_back(6, 0, 0.0);
        assert_eq!(ready.len(), 6);
        assert_eq!(std::iter::from_fn(|| ready.pop()).collect::<Vec<_>>(), [2, 5, 4, 3, 6, 1]);
        assert!(ready.is_empty());
    }
}
