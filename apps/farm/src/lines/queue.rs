//! The tasks that wait for a worker: by priority, then in order of arrival.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// A task, with the number of its attempts.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: u64,
    pub(super) task: Box<RawValue>,
    pub(super) priority: i64,
    pub(super) attempts: u32,
    /// Whether it was ever given to a worker.
    pub(super) begun: bool,
}

/// The waiting tasks. A task that returns gets its old position.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<(Reverse<i64>, u64), Task>,
}

impl Queue {
    /// Returns the number of waiting tasks.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the highest priority.
    pub(super) fn highest(&self) -> Option<i64> {
        self.waiting.first_key_value().map(|(_, task)| task.priority)
    }

    pub(super) fn add(&mut self, task: Task) {
        self.waiting.insert((Reverse(task.priority), task.id), task);
    }

    /// Takes the next task.
    pub(super) fn take(&mut self) -> Option<Task> {
        self.waiting.pop_first().map(|(_, task)| task)
    }

    /// Takes this task, if it waits.
    pub(super) fn take_this(&mut self, id: u64) -> Option<Task> {
        let key = self.waiting.keys().find(|(_, other)| *other == id).copied()?;
        self.waiting.remove(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_then_the_oldest_is_next() {
        let mut queue = Queue::default();
        for (id, priority) in [(1, 0), (2, 5), (3, -1), (4, 5), (5, i64::MIN), (6, i64::MAX)] {
            queue.add(Task {
                id,
                task: RawValue::NULL.to_owned(),
                priority,
                attempts: 0,
                begun: false,
            });
        }
        assert_eq!((queue.highest(), queue.len()), (Some(i64::MAX), 6));
        assert_eq!(queue.take_this(4).map(|task| task.id), Some(4));
        assert!(queue.take_this(4).is_none());
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).map(|task| task.id).collect();
        assert_eq!(order, [6, 2, 1, 3, 5]);
    }
}
